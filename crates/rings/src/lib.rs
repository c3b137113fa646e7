//! Byte streams over memory that two processes of one machine share.
//!
//! One side, the server, creates a file in memory with two rings of bytes, one for each direction, and passes it over a
//! unix socket. The socket stays: each side sends a byte to wake the other from its sleep, and its end tells that the
//! other side has gone. A side polls for a short time before it sleeps, as long as that pays.
//!
//! **Invariant:** no side trusts the other. It keeps its own position in each ring, reads each word of the other once,
//! checks it, and copies bytes before anybody looks at them. The file cannot change its size, so no access faults.
//! Nothing that the other side writes makes this one wait otherwise than in a sleep that the end of the socket ends.
//!
//! # Layers
//!
//! - calls of the kernel, socket files: `system`, `socket`
//! - memory: `memory`
//! - rings and polling: `pair`, `polling`
//! - times of polling: `spin`
//! - streams: `stream`, `blocking`

pub mod blocking;
pub mod memory;
pub mod pair;
pub mod polling;
pub mod socket;
pub mod spin;
pub mod stream;
mod system;

pub use blocking::BlockingStream;
pub use memory::SharedMemory;
pub use polling::Polling;
pub use stream::{SharedStream, receive};
