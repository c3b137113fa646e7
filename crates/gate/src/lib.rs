//! External scheduling: how many transactions to let into a database at once (the multiprogramming limit, MPL), and which.
//!
//! Schroeder, Harchol-Balter, Iyengar, Nahum, Wierman: How to determine a good multi-programming level for external scheduling
//! (ICDE 2006).
//!
//! **Architecture Invariant:** pure logic. There is no clock, no thread, no socket and no storage here: whoever calls says what
//! time it is, so that a simulator on virtual time runs the very code that serves.

pub mod model;
