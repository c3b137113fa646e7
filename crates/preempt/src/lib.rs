//! Contexts on one OS thread: an urgent piece of work interrupts whatever the thread runs, third-party code included,
//! runs to its end on a second, guarded stack, and the interrupted code goes on.
//!
//! **Invariant: strictly last in, first out.** A context is a nested call. The interrupted code sees only a pause:
//! nothing migrates between threads, nothing is suspended inside an urgent context, and it returns before the code
//! below it runs again. The only possible errors therefore concern state that both sides share, and a [`Region`] is how
//! code says "not now": an interrupt that lands in one is remembered and served when the outermost region ends.
//!
//! The modules, in the order to read them:
//! - [`Region`], [`NoPreempt`]: non-preemptible regions and their witness;
//! - [`Worker`], [`register`]: a thread that can be interrupted;
//! - `line`: the cache line on which senders and a worker agree, and why no request is lost between them;
//! - `context`: the start of an urgent context, by one of three ways ([`Arrival`]);
//! - `signal`: the handlers, and the report of a stack overflow;
//! - [`Delivery`]: the rungs of the ladder, from a polled flag to a signal;
//! - [`Heap`]: the global allocator as a region; [`memory`]: the bytes that it has allocated; [`Latch`],
//!   [`BoundedQueue`]: the only ways to share state with an urgent context; [`os`]: calls of the kernel.
//!
//! This crate knows nothing of databases. It and `engine::raw` are the only places where `unsafe` is allowed.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - the machine: `arch`, `stack`, `sync`
//! - what senders and workers agree on: `line`, `queue`
//! - a thread and its contexts: `context`, `heap`, `mappings`, `memory`, `os`, `plants`, `region`,
//!   `signal`, `worker`
//! - on top of them: `delivery`, `latch`
//!
//! A thread's local state (`region`) has the depth of regions, the context, and the bytes allocated; so the modules that
//! work on it make one layer.
#![allow(unsafe_code)]

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!(
    "overtake's preempt crate supports Linux on x86-64: its stack switch and signal frames are written for it"
);

mod arch;
mod context;
mod delivery;
mod heap;
mod latch;
mod line;
mod mappings;
pub mod memory;
pub mod os;
pub mod plants;
mod queue;
mod region;
mod signal;
mod stack;
mod sync;
mod worker;

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;

pub use context::{Arrival, ContextRef, current_context, enter_urgent, in_urgent};
pub use delivery::{Delivery, Ladder, Poll, Rung, Signal, Thread, wake_idle};
pub use heap::{GuardMissing, Guarded, Heap, prepare_heap, self_test};
pub use latch::{Latch, LatchGuard, latched_ns, latching};
pub use line::{AllowedWays, Line, Mode, Sent};
pub use queue::BoundedQueue;
pub use region::{NoPreempt, Region, no_preempt};
pub use stack::STACK_BYTES;
pub use worker::{
    Dense, InterruptCounters, Registration, Serve, WORKERS_MAX, Worker, register, safepoint, totals, workers,
};
