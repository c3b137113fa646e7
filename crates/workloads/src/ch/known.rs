//! A small database whose answers are known.

use super::load;
use crate::tpcc::{self, Inputs, Scale, attempt_new_order, attempt_payment};
use engine::{Engine, Result};
use stage::Class;

const SEED: u64 = 42;
/// Transactions of each kind.
const ROUNDS: usize = 1_500;

/// Loads a small TPC-C of two warehouses and the three tables into `engine`, and runs some thousand transactions, one
/// after the other: the same rows every time.
///
/// # Errors
/// Those of the engine.
pub fn known_database(engine: &Engine) -> Result<tpcc::Tables> {
    let scale = Scale::small(2);
    let tables = tpcc::load(engine, scale, SEED, &mut |_| {})?;
    load(engine, SEED)?;
    let mut inputs = Inputs::new(scale, SEED, SEED);
    for _ in 0..ROUNDS {
        let (order, payment) = (inputs.warehouse(), inputs.warehouse());
        attempt_new_order(engine, Class::Normal, &tables, &inputs.new_order(order))?;
        attempt_payment(engine, Class::Normal, &tables, &inputs.payment(payment))?;
    }
    Ok(tables)
}
