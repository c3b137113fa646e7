//! New-Order (clause 2.4).

use super::Tables;
use super::columns::{customer as c, district as d, item as i, stock as s, warehouse as w};
use super::input::{LINES_MAX, NewOrderInput};
use super::schema::{PRIMARY, existing};
use engine::{Error, Result, Txn, Value};

/// What the terminal shows at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrderOutput {
    /// The order's number.
    pub order: i32,
    /// What the customer pays, exact, with ten digits behind the point: two of the price, four of the discount, four of
    /// the taxes.
    pub total: i128,
    /// Lines of which item and stock both say ORIGINAL.
    pub brand_lines: u32,
}

const ORDER_LINE_COLUMNS: usize = 10;
const ORIGINAL: &str = "ORIGINAL";
const ONE: i128 = 10_000;

/// Enters an order; the caller commits it.
///
/// # Errors
/// [`Error::RolledBack`] for an item that does not exist, [`Error::InvalidValue`] for any other row, and what the engine
/// refuses.
pub fn new_order(txn: &Txn<'_>, tables: &Tables, input: &NewOrderInput) -> Result<NewOrderOutput> {
    use Value::{Decimal, Int32, Null, Text, Timestamp};
    let NewOrderInput { warehouse, district, customer, entered_us, .. } = *input;
    let place = [Int32(warehouse), Int32(district)];

    let row = existing(txn.get(&tables.warehouse, PRIMARY, &place[..1])?, &tables.warehouse)?;
    let warehouse_tax = i128::from(row.get_decimal_i64(w::W_TAX));
    let row = existing(txn.get(&tables.district, PRIMARY, &place)?, &tables.district)?;
    let district_tax = i128::from(row.get_decimal_i64(d::D_TAX));
    let order = row.get_i32(d::D_NEXT_O_ID);
    txn.update(&tables.district, row.row_id(), |row| row.set_i32(d::D_NEXT_O_ID, order + 1))?;
    let key = [place[0], place[1], Int32(customer)];
    let row = existing(txn.get(&tables.customer, PRIMARY, &key)?, &tables.customer)?;
    let discount = i128::from(row.get_decimal_i64(c::C_DISCOUNT));

    let lines = input.lines();
    let is_local = lines.iter().all(|line| line.supply_warehouse == warehouse);
    txn.insert(
        &tables.orders,
        &[
            Int32(order),
            Int32(district),
            Int32(warehouse),
            Int32(customer),
            Timestamp(entered_us),
            Null,
            Int32(lines.len() as i32),
            Int32(i32::from(is_local)),
        ],
    )?;
    txn.insert(&tables.new_order, &[Int32(order), Int32(district), Int32(warehouse)])?;

    // All items and all stocks at once: the look-ups wait for memory together.
    let line = |at: usize| lines.get(at).copied().unwrap_or_default();
    let item_keys: [_; LINES_MAX] = std::array::from_fn(|at| [Int32(line(at).item)]);
    let stock_keys: [_; LINES_MAX] = std::array::from_fn(|at| [Int32(line(at).supply_warehouse), Int32(line(at).item)]);
    let (mut items, mut stocks) = (Vec::with_capacity(LINES_MAX), Vec::with_capacity(LINES_MAX));
    txn.get_many(&tables.item, PRIMARY, &item_keys[..lines.len()], &mut items)?;
    txn.get_many(&tables.stock, PRIMARY, &stock_keys[..lines.len()], &mut stocks)?;

    let mut sum = 0;
    let mut order_lines = [[Null; ORDER_LINE_COLUMNS]; LINES_MAX];
    let mut brand_lines = 0;
    for (at, line) in lines.iter().enumerate() {
        // The specification's way to roll back: only items may be missing.
        let item = items[at].ok_or(Error::RolledBack)?;
        let amount = i128::from(item.get_decimal_i64(i::I_PRICE)) * i128::from(line.quantity);
        let stock = existing(stocks[at], &tables.stock)?;
        let is_remote = line.supply_warehouse != warehouse;
        txn.update(&tables.stock, stock.row_id(), |row| {
            let quantity = row.get_i32(s::S_QUANTITY) - line.quantity;
            row.set_i32(s::S_QUANTITY, if 10 <= quantity { quantity } else { quantity + 91 });
            row.set_decimal_i64(s::S_YTD, row.get_decimal_i64(s::S_YTD) + i64::from(line.quantity));
            row.set_i32(s::S_ORDER_CNT, row.get_i32(s::S_ORDER_CNT) + 1);
            row.set_i32(s::S_REMOTE_CNT, row.get_i32(s::S_REMOTE_CNT) + i32::from(is_remote));
        })?;
        // Both are shown in any case; the order of the tests only spares the second search.
        let is_brand = item.get_text(i::I_DATA).contains(ORIGINAL) && stock.get_text(s::S_DATA).contains(ORIGINAL);
        brand_lines += u32::from(is_brand);
        sum += amount;
        order_lines[at] = [
            Int32(order),
            Int32(district),
            Int32(warehouse),
            Int32(at as i32 + 1),
            Int32(line.item),
            Int32(line.supply_warehouse),
            Null,
            Int32(line.quantity),
            Decimal(amount),
            Text(stock.get_text(s::S_DIST_01 + district as usize - 1)),
        ];
    }
    txn.insert_many(&tables.order_line, &order_lines[..lines.len()])?;
    let total = sum * (ONE - discount) * (ONE + warehouse_tax + district_tax);
    Ok(NewOrderOutput { order, total, brand_lines })
}
