//! TCP in user space over AF_XDP, within a runtime of tokio that has one thread.
//!
//! A [`Port`] diverts TCP to one address and port, which comes to one queue of a network interface, to this process. A
//! program of a few instructions that the kernel runs for each frame does that; all else stays with the kernel: the
//! interface, its addresses, ARP, ICMP, other ports. The thread that [starts](start) the port polls it while that pays,
//! and sleeps in its runtime's reactor otherwise, together with its sessions: bytes pass between a connection and its
//! session without a system call and without waking another thread.
//!
//! A port of [clients](Port::open_clients) diverts what comes *from* one server, to ports that the kernel does not hand
//! out; [`connect`] makes their connections. All else is the same.
//!
//! TCP itself is smoltcp's, one connection at a time; this crate tells them apart by the addresses and ports of both
//! ends, answers requests for connections, and computes checksums. Frames go back to the Ethernet address that the
//! peer's came from; a connection's changes only with a segment that fits it.
//!
//! **Invariant:** only what is diverted is touched, and nothing that a frame says is believed before its lengths and
//! sums are right. When the process ends in whichever way, the kernel has the port again.
//!
//! # Layers
//!
//! - calls of the kernel, memory shared with it: `system`, `ring`
//! - frames, counters: `frame`, `count`
//! - what the kernel runs, and what it knows; the socket; files: `program`, `neighbour`, `socket`, `capture`
//! - ports, requests, polling, times: `port`, `handshake`, `alarm`
//! - connections: `connection`
//! - driver and streams, which need each other: `driver`, `stream`
//! - networks for tests and benchmarks: `lab`

mod alarm;
mod capture;
mod connection;
mod count;
mod driver;
mod frame;
mod handshake;
pub mod lab;
mod neighbour;
mod port;
mod program;
mod ring;
mod socket;
mod stream;
mod system;

pub use capture::CaptureFile;
pub use count::{Memory, XdpCounts, counts};
pub use driver::{Accept, start, stop};
pub use port::{Port, PortOptions};
pub use program::Mode;
pub use stream::{XdpStream, connect};

#[cfg(test)]
mod tests;
