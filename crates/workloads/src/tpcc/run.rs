//! Whole transactions: attempts, until one ends or they are too many.
//!
//! **Invariant:** a transaction that was not committed left nothing. Between two attempts nothing waits: the caller may be
//! an urgent context, and the row's holder may be paused beneath it. So the bound matters; what is still refused then is
//! the caller's to submit again.

use super::{NewOrderInput, Outcome, PaymentInput, Tables, attempt_new_order, attempt_payment};
use engine::{Engine, Result};
use stage::Class;

/// Runs New-Order, again at most `retries_max` times after a retryable error. The second value says how often.
///
/// # Errors
/// Those of the engine; a [retryable](engine::Error::is_retryable) one when the last attempt had it too.
pub fn run_new_order(
    engine: &Engine,
    tables: &Tables,
    class: Class,
    input: &NewOrderInput,
    retries_max: u32,
) -> Result<(Outcome, u32)> {
    bounded(retries_max, || attempt_new_order(engine, class, tables, input))
}

/// Runs Payment, as [`run_new_order`].
///
/// # Errors
/// As [`run_new_order`].
pub fn run_payment(
    engine: &Engine,
    tables: &Tables,
    class: Class,
    input: &PaymentInput,
    retries_max: u32,
) -> Result<(Outcome, u32)> {
    bounded(retries_max, || attempt_payment(engine, class, tables, input))
}

fn bounded(retries_max: u32, mut attempt: impl FnMut() -> Result<Outcome>) -> Result<(Outcome, u32)> {
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
