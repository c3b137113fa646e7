//! Stock-Level (clause 2.8): the number of items sold last that are running out.
//!
//! **Invariant:** the transaction only reads, so it waits for nobody under any isolation level.

use super::TpccTables;
use super::columns::{district as d, order_line as ol, stock as s};
use super::input::{LINES_MAX, StockLevelInput};
use super::schema::{PRIMARY, existing};
use core::ops::Bound::{Excluded, Included};
use engine::{Direction, Result, Txn, Value};

/// Number of the district's last orders that Stock-Level looks at.
pub(crate) const LAST_ORDERS: i32 = 20;

/// Counts the different items of the district's last 20 orders of which the warehouse has fewer than the threshold.
///
/// # Errors
/// [`engine::Error::InvalidValue`] if the district or a stock does not exist; errors of the engine.
pub fn stock_level(txn: &Txn<'_>, tables: &TpccTables, input: &StockLevelInput) -> Result<u32> {
    use Value::Int32;
    let place = [Int32(input.warehouse), Int32(input.district)];
    let next = existing(txn.get(&tables.district, PRIMARY, &place)?, &tables.district)?.get_i32(d::D_NEXT_O_ID);
    let [from, to] = [next - LAST_ORDERS, next].map(|order| [place[0], place[1], Int32(order)]);
    let lines = txn.range_between(&tables.order_line, PRIMARY, Included(&from), Excluded(&to), Direction::Forward)?;
    let mut items = Vec::with_capacity(LAST_ORDERS as usize * LINES_MAX);
    items.extend(lines.read_ahead().map(|line| line.get_i32(ol::OL_I_ID)));
    items.sort_unstable();
    items.dedup();
    let keys: Vec<_> = items.into_iter().map(|item| [place[0], Int32(item)]).collect();
    let mut stocks = Vec::with_capacity(keys.len());
    txn.get_many(&tables.stock, PRIMARY, &keys, &mut stocks)?;
    let mut low_count = 0;
    for stock in stocks {
        low_count += u32::from(existing(stock, &tables.stock)?.get_i32(s::S_QUANTITY) < input.threshold);
    }
    Ok(low_count)
}
