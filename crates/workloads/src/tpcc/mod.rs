//! TPC-C: nine tables, New-Order and Payment as the specification (revision 5.11) has them, and its consistency conditions.
//!
//! **Invariant: a procedure is a function of its input.** It reads no clock and draws no random number, so the same inputs
//! in the same order give the same tables, under whatever policy; and it keeps the rules of urgent contexts, so it may
//! interrupt a query anywhere.
//!
//! - [`Tables`], `columns`: the schema; the tables' names begin with `tpcc.`, because TPC-H has a `customer` too;
//! - [`Scale`], [`load()`]: how much, and the initial population (clause 4.3);
//! - [`Inputs`]: what terminals enter (clauses 2.4.1 and 2.5.1);
//! - [`new_order()`], [`payment()`]: the procedures;
//! - [`check()`]: the consistency conditions; [`digest()`]: all rows in one number;
//! - [`drive()`]: a closed loop of terminals on threads of its own.

mod check;
pub mod columns;
mod digest;
mod drive;
mod input;
mod load;
mod new_order;
mod payment;
mod random;
mod run;
mod scale;
mod schema;

pub use check::{Violation, check};
pub use digest::digest;
pub use drive::{DriveConfig, DriveReport, Mix, drive};
pub use input::{Inputs, NewOrderInput, NewOrderLine, PaymentInput, Whom};
pub use load::{LoadProgress, load};
pub use new_order::{NewOrderOutput, new_order};
pub use payment::{PaymentOutput, payment};
pub use random::Random;
pub use run::{run_new_order, run_payment};
pub use scale::Scale;
pub use schema::Tables;

/// How a procedure ended that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It committed.
    Committed,
    /// Its last item does not exist, as one New-Order in a hundred has it; it rolled back.
    RolledBack,
}

/// Runs one attempt of New-Order and ends it: commits, or rolls back as the specification wants.
///
/// # Errors
/// Those of the engine; a [retryable](engine::Error::is_retryable) one means that the attempt had no effect.
pub fn attempt_new_order(
    engine: &engine::Engine,
    class: stage::Class,
    tables: &Tables,
    input: &NewOrderInput,
) -> engine::Result<Outcome> {
    let txn = engine.try_begin(engine::Begin::new(class))?;
    match new_order(&txn, tables, input) {
        Ok(_) => txn.commit().map(|_| Outcome::Committed),
        Err(engine::Error::RolledBack) => Ok(Outcome::RolledBack),
        Err(error) => Err(error),
    }
}

/// Runs one attempt of Payment and commits it.
///
/// # Errors
/// As [`attempt_new_order`].
pub fn attempt_payment(
    engine: &engine::Engine,
    class: stage::Class,
    tables: &Tables,
    input: &PaymentInput,
) -> engine::Result<Outcome> {
    let txn = engine.try_begin(engine::Begin::new(class))?;
    payment(&txn, tables, input)?;
    txn.commit().map(|_| Outcome::Committed)
}

#[cfg(test)]
mod tests;
