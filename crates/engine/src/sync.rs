//! Atomics of the protocol modules: the processor's, or shuttle's when `tests/shuttle.rs` explores interleavings.

#[cfg(feature = "shuttle")]
mod latch;

#[cfg(feature = "shuttle")]
pub(crate) use latch::Latch;
#[cfg(not(feature = "shuttle"))]
pub(crate) use preempt::Latch;

#[cfg(not(feature = "shuttle"))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

pub(crate) use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
