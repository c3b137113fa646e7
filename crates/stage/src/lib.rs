//! The stage clock: it records where the time of a transaction goes.
//!
//! One small type that every layer stamps. Stamping stores one word, so it is allowed in an urgent context; a
//! [`Histogram`] is filled afterwards, by the reader of the stamps.
//!
//! **Invariant:** stamps are nanoseconds of `CLOCK_MONOTONIC` ([`preempt::os::now_ns`]) and a stage that was not
//! reached is absent, never zero.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - classes: `class`
//! - stamps: `clock`
//! - figures: `histogram`, `observe`

mod class;
mod clock;
mod histogram;
pub mod observe;

pub use class::Class;
pub use clock::{Clock, Stage, Stamps};
pub use histogram::{Histogram, Quantiles};
