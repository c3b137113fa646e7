//! Names and layouts by which sandboxed code is entered and calls, which both sides must know.
//!
//! The contents of the exchange area are those of [`wire`](crate::wire), whatever carries them.
//!
//! # Level `wasm`
//!
//! A module exports its memory as `memory` and two functions, and imports one:
//!
//! ```text
//! export overtake_area()                  -> i32   address of the exchange area
//! export overtake_invoke(entry, len: i32) -> i32   runs an entry; len bytes of arguments become so many of the result
//! import overtake.call(len: i32)          -> i32   len bytes of a request become so many of the answers
//! ```
//!
//! A negative result of `overtake_invoke` is a failure of the code (`38000`). The import `env.abort` of AssemblyScript
//! is a trap. Any other import is refused when the module is loaded.
//!
//! # Levels `process`, `container`, `gvisor`
//!
//! An executable finds its channel in the environment variable `OVERTAKE_CHANNEL`: `shared_memory:FD` or
//! `unix_socket:FD`, a file descriptor that it has inherited. The two sides take turns; the worker begins with `READY`,
//! then each `INVOKE` is answered by `RETURN` or `FAIL`, after any number of `CALL`, each of which is answered by
//! `ANSWER` or `ABORT`. After `ABORT` the worker ends the invocation with `FAIL`, whose contents are ignored.
//!
//! Shared memory is a file of [`SHARED_BYTES`]: a head of [`CONTENTS`] bytes, then the exchange area. Numbers are
//! native (little endian):
//!
//! ```text
//! offset   0: version of the layout, 2
//! offset  64: turn: 0 for the host, 1 for the worker. Both wait for it with FUTEX_WAIT (not private), after spinning
//! offset  68: 1 while the host sleeps; whoever gives it the turn then calls FUTEX_WAKE
//! offset  72: 1 while the worker sleeps
//! offset  76: where the worker is: 0 on the host's kernel. 1 in a machine: it does not spin, and its FUTEX_WAIT for the
//!             turn wakes the host as well. 2 on a kernel of its own, from which no futex reaches the host: each side
//!             wakes the other by a byte on the doorbell, a socket at the descriptor after the channel's
//! offset  80: kind of the message in 4 bytes; 84: entry in 4; 88: length in 4
//! offset  96: contents of the message, as the exchange area has them
//! ```
//!
//! A small message and the turn are one line of a cache, which passes from one side to the other at once.
//!
//! Over a socket, each message is kind, entry and length in 4 bytes each, little endian, and the contents.
//!
//! # Level `vm`
//!
//! A static executable of the same kind, which finds the same channel. Its system calls leave the machine, so there
//! are few (`procs-vm` has the list): memory, clocks, random bytes, output, and the channel.
//!
//! Called with the argument `--manifest`, an executable prints its manifest and ends.

/// Name of the environment variable with the channel.
pub const CHANNEL_VARIABLE: &str = "OVERTAKE_CHANNEL";
/// Version of the shared memory's layout, its first word.
pub const LAYOUT: u32 = 2;
/// Bytes of the shared memory: the head and the area, in whole pages. A page is more than the head needs.
pub const SHARED_BYTES: usize = 4_096 + crate::wire::AREA_BYTES;
/// Offset of the turn.
pub const TURN: usize = 64;
/// Turn of the host.
pub const HOST: u32 = 0;
/// Turn of the worker.
pub const WORKER: u32 = 1;
/// Offset of the mark of a sleeping host.
pub const HOST_SLEEPS: usize = 68;
/// Offset of the mark of a sleeping worker.
pub const WORKER_SLEEPS: usize = 72;
/// Offset of the place of the worker.
pub const PLACE: usize = 76;
/// Place of a worker in a machine.
pub const IN_MACHINE: u32 = 1;
/// Place of a worker on a kernel of its own.
pub const OTHER_KERNEL: u32 = 2;
/// Offset of the message's kind.
pub const MESSAGE: usize = 80;
/// Offset of the message's contents.
pub const CONTENTS: usize = 96;

/// Bytes of a line of the processor's cache.
const LINE: usize = 64;
/// Bytes of contents that are in the line of the turn.
const SMALL: usize = 32;
const _: () = assert!(TURN / LINE == MESSAGE / LINE && TURN / LINE == (CONTENTS + SMALL - 1) / LINE);

/// Kind of a message between host and worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MessageKind {
    /// Host: run an entry with these arguments.
    Invoke = 1,
    /// Host: answers to a call.
    Answer = 2,
    /// Host: the invocation must end. The contents are the error's text.
    Abort = 3,
    /// Worker: ready for an invocation.
    Ready = 4,
    /// Worker: a batch of calls.
    Call = 5,
    /// Worker: the result of the invocation.
    Return = 6,
    /// Worker: the code has failed. The contents are a text.
    Fail = 7,
}

impl MessageKind {
    /// Returns the kind with this number.
    pub fn numbered(number: u32) -> Option<MessageKind> {
        Some(match number {
            1 => MessageKind::Invoke,
            2 => MessageKind::Answer,
            3 => MessageKind::Abort,
            4 => MessageKind::Ready,
            5 => MessageKind::Call,
            6 => MessageKind::Return,
            7 => MessageKind::Fail,
            _ => return None,
        })
    }
}
