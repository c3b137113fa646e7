//! PostgreSQL's wire protocol, version 3: frames, replies, SCRAM, TLS, connections.
//!
//! `pgwire` provides the messages of the server. Its handlers are not used: they flush after every message, and a
//! prepared execution has five.
//!
//! **Invariant:** no thread blocks on a peer, and no peer can make this process panic or allocate beyond a message's
//! limit.
//!
//! # Layers
//!
//! - messages: `frame`, `reply`, `scram`, `tls`
//! - waits and streams: `wait`, `wake`, `io`
//! - streams over shared memory: `shared`
//! - connections: `errors`, `conn`, `copy`

pub mod conn;
pub mod copy;
pub mod errors;
pub mod frame;
pub mod io;
pub mod reply;
pub mod scram;
pub mod shared;
pub mod tls;
pub mod wait;
pub mod wake;

pub use conn::Stop;
pub use wait::{Cancel, End};
