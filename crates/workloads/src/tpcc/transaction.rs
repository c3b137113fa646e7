//! Whole transactions: an input of any kind, run and ended.
//!
//! **Invariant:** a transaction that was not committed left nothing. Nothing here waits but [`run`], which is for
//! ordinary threads: other callers may be urgent contexts, and the row's holder may be paused beneath them.

use super::{
    Input, NewOrderInput, PaymentInput, TpccTables, TransactionKind, delivery, new_order, order_status, payment,
    stock_level,
};
use engine::{Begin, Engine, Error, Result, Session, Step, Txn};
use stage::Class;

/// End of a procedure that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcedureOutcome {
    /// The transaction committed.
    Committed,
    /// The transaction rolled back, because its last item does not exist, as in one New-Order in a hundred.
    RolledBack,
}

/// Runs the procedure that `input` is for; the caller ends the transaction. The terminals' display is dropped.
///
/// # Errors
/// [`Error::RolledBack`] if the specification demands a rollback; errors of the engine.
#[inline]
pub fn execute(txn: &Txn<'_>, tables: &TpccTables, input: &Input) -> Result<()> {
    match input {
        Input::NewOrder(input) => new_order(txn, tables, input).map(drop),
        Input::Payment(input) => payment(txn, tables, input).map(drop),
        Input::OrderStatus(input) => order_status(txn, tables, input).map(drop),
        Input::Delivery(input) => delivery(txn, tables, input).map(drop),
        Input::StockLevel(input) => stock_level(txn, tables, input).map(drop),
    }
}

/// Runs one attempt of `body` as a transaction without a session, and ends it: commits, or rolls back as the
/// specification demands.
///
/// # Errors
/// Errors of the engine; a [retryable](Error::is_retryable) one means that the attempt had no effect.
#[inline]
fn attempt_once(engine: &Engine, begin: Begin, body: impl FnOnce(&Txn<'_>) -> Result<()>) -> Result<ProcedureOutcome> {
    let txn = engine.try_begin(begin)?;
    match body(&txn) {
        Ok(()) => txn.commit().map(|_| ProcedureOutcome::Committed),
        Err(Error::RolledBack) => Ok(ProcedureOutcome::RolledBack),
        Err(error) => Err(error),
    }
}

/// Returns the options for the beginning of a transaction of this kind: the requested ones, and read-only for kinds
/// that only read.
#[inline]
pub(crate) const fn begin_of(begin: Begin, kind: TransactionKind) -> Begin {
    match kind {
        TransactionKind::OrderStatus | TransactionKind::StockLevel => begin.read_only(),
        TransactionKind::NewOrder | TransactionKind::Payment | TransactionKind::Delivery => begin,
    }
}

/// Runs one attempt of the transaction that `input` is for.
///
/// # Errors
/// Errors of the engine; a [retryable](Error::is_retryable) one means that the attempt had no effect.
#[inline]
pub fn attempt(engine: &Engine, begin: Begin, tables: &TpccTables, input: &Input) -> Result<ProcedureOutcome> {
    attempt_once(engine, begin_of(begin, input.kind()), |txn| execute(txn, tables, input))
}

/// Runs the transaction that `input` is for in a session, on an ordinary thread: it waits where others hold rows, and
/// is repeated after retryable errors as [`Session::run`] says.
///
/// # Errors
/// Errors of [`Session::run`].
pub fn run(session: &mut Session, begin: Begin, tables: &TpccTables, input: &Input) -> Result<ProcedureOutcome> {
    ended(session.run(begin_of(begin, input.kind()), |txn| execute(txn, tables, input)))
}

/// Runs the transaction as [`run`] does, but never blocks: for a worker or an urgent context. When it is parked, call
/// again with the same input when the ticket is ready.
///
/// # Errors
/// Errors of [`Session::try_run`].
pub fn try_run(
    session: &mut Session,
    begin: Begin,
    tables: &TpccTables,
    input: &Input,
) -> Result<Step<ProcedureOutcome>> {
    match session.try_run(begin_of(begin, input.kind()), |txn| execute(txn, tables, input)) {
        Ok(Step::Parked(ticket)) => Ok(Step::Parked(ticket)),
        Ok(Step::Done(())) => Ok(Step::Done(ProcedureOutcome::Committed)),
        Err(error) => ended(Err(error)).map(Step::Done),
    }
}

/// Turns a rollback that the specification demands into an outcome: it is no error.
#[inline]
pub(crate) fn ended(result: Result<()>) -> Result<ProcedureOutcome> {
    match result {
        Ok(()) => Ok(ProcedureOutcome::Committed),
        Err(Error::RolledBack) => Ok(ProcedureOutcome::RolledBack),
        Err(error) => Err(error),
    }
}

/// Runs one attempt of New-Order and ends it.
///
/// # Errors
/// Errors of [`attempt`].
pub fn attempt_new_order(
    engine: &Engine,
    class: Class,
    tables: &TpccTables,
    input: &NewOrderInput,
) -> Result<ProcedureOutcome> {
    attempt_once(engine, Begin::new(class), |txn| new_order(txn, tables, input).map(drop))
}

/// Runs one attempt of Payment and commits it.
///
/// # Errors
/// Errors of [`attempt`].
pub fn attempt_payment(
    engine: &Engine,
    class: Class,
    tables: &TpccTables,
    input: &PaymentInput,
) -> Result<ProcedureOutcome> {
    attempt_once(engine, Begin::new(class), |txn| payment(txn, tables, input).map(drop))
}

/// Runs New-Order, again at most `retries_max` times after a retryable error. Returns the number of retries as the
/// second value.
///
/// # Errors
/// Errors of the engine; a [retryable](Error::is_retryable) one if the last attempt had it too.
pub fn run_new_order(
    engine: &Engine,
    tables: &TpccTables,
    class: Class,
    input: &NewOrderInput,
    retries_max: u32,
) -> Result<(ProcedureOutcome, u32)> {
    bounded(retries_max, || attempt_new_order(engine, class, tables, input))
}

/// Runs Payment, as [`run_new_order`] does.
///
/// # Errors
/// Errors of [`run_new_order`].
pub fn run_payment(
    engine: &Engine,
    tables: &TpccTables,
    class: Class,
    input: &PaymentInput,
    retries_max: u32,
) -> Result<(ProcedureOutcome, u32)> {
    bounded(retries_max, || attempt_payment(engine, class, tables, input))
}

/// Repeats an attempt a bounded number of times. Nothing waits between two attempts, so the bound matters; a
/// transaction still refused after that is for the caller to submit again.
fn bounded(retries_max: u32, mut attempt: impl FnMut() -> Result<ProcedureOutcome>) -> Result<(ProcedureOutcome, u32)> {
    let mut retries = 0;
    loop {
        match attempt() {
            Err(error) if error.is_retryable() && retries < retries_max => {
                retries += 1;
                core::hint::spin_loop();
            }
            ended => return ended.map(|outcome| (outcome, retries)),
        }
    }
}
