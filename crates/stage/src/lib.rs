//! The stage clock: it records where the time of a statement goes.
//!
//! A session carries a [`StageClock`], which every layer advances: it books the time since its last stamp to the stage
//! that ends. A stamp reads the time-stamp counter and stores a few words. A [`StageBook`] sums the times by class,
//! transport and isolation level. Of one transaction in 64 the run is split into parts ([`split`]). `docs/stages.md` says what each stage means.
//!
//! Requests of the scheduler have a [`Clock`] of their own: it notes moments, and whoever reads them makes differences.
//!
//! **Invariant:** a stamp neither allocates nor blocks. Moments of a [`Clock`] are nanoseconds of `CLOCK_MONOTONIC`
//! ([`preempt::os::now_ns`]), and one that was not reached is absent, never zero; stamping it is allowed in an urgent
//! context.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - names: `class`, `stages`
//! - time: `ticks`, `turn`, `split`, `away`
//! - stamps: `clock`, `moments`
//! - figures: `histogram`, `spread`, `observe`
//! - sums: `book`

mod away;
mod book;
mod class;
mod clock;
mod histogram;
mod moments;
pub mod observe;
pub mod split;
mod spread;
mod stages;
mod ticks;
pub mod turn;

pub use away::AwayTime;
pub use book::{StageBook, StageCosts, StageKey, StageShard};
pub use class::Class;
pub use clock::{LentClock, Position, StageClock, StageTimes};
pub use histogram::{Histogram, Quantiles};
pub use moments::{Clock, Moment, Stamps};
pub use spread::TimeSpread;
pub use stages::{IsolationLevel, Stage, Transport};
pub use ticks::{ManualTicks, TickSource, switch_off};
