//! TCP connections by io_uring, within a runtime of tokio that has one thread.
//!
//! A thread has one ring. Its connections receive by one multishot operation each, into buffers that all of them share,
//! and send by operations that are submitted together. The runtime's own reactor waits for the ring's descriptor, so
//! timers, other sockets and wake-ups from elsewhere go on as before. Accepting and logging in stay with tokio.
//!
//! **Invariant:** memory that the kernel reads or writes belongs to the ring from the submission to the completion. If
//! a ring ends before all its operations have, their memory is never freed.
//!
//! # Layers
//!
//! - ring, memory of connections: `ring`, `count`
//! - state of a connection: `slot`
//! - connections of a thread: `driver`
//! - streams: `stream`

mod count;
mod driver;
mod ring;
mod slot;
mod stream;

pub use count::Counts;
pub use driver::{is_started, start, stop};
pub use stream::UringStream;

#[cfg(test)]
mod tests;
