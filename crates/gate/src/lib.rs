//! External scheduling: the number of transactions to admit into a database at once (the multiprogramming limit, MPL),
//! and their order.
//!
//! Schroeder, Harchol-Balter, Iyengar, Nahum, Wierman: How to determine a good multi-programming level for external scheduling
//! (ICDE 2006).
//!
//! To be read in this order: [`GateSettings`], [`Gate`] (order of admission), [`model`] (expected cost of a limit),
//! [`control`] (choice of the limit), [`sim`] (a database to try it on).
//!
//! **Architecture Invariant:** pure logic. There is no clock, no thread, no socket and no storage here: the caller
//! tells the time, so that a simulator on virtual time runs the very code that serves.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - settings and time: `settings`, `time`
//! - costs of a limit: `model`
//! - order of admission: `gate`
//! - choice of the limit: `control`
//! - a database to try it on: `sim`

pub mod control;
mod gate;
pub mod model;
mod settings;
pub mod sim;
mod time;

pub use gate::{
    Arrival, ClassObservation, ClassView, Ending, Entrance, Estimate, Event, Gate, GateCounters, Moments, Observation,
    PoolId, Refused, Ticket, Times, Totals, View, Whereabouts,
};
pub use settings::{AdmissionOrder, ClassId, ClassSettings, GateSettings, Reaction, Runaway, SettingsError, SlotLimit};
pub use time::Time;
