//! Atomics of the protocols: the processor's, or shuttle's when a test explores their interleavings.

#[cfg(not(feature = "shuttle"))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
