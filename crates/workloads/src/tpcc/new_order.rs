//! New-Order (clause 2.4).
//!
//! **Invariant:** values that a change depends on (the order's number, the stock) are read inside the closure that
//! changes the row, from the newest committed version, so nothing is lost under READ COMMITTED. Everything else that
//! New-Order reads never changes. The district's row, which all orders of the district want, is changed after the
//! stocks, so that it is held for the shortest time.

use super::TpccTables;
use super::columns::{customer as c, district as d, item as i, stock as s, warehouse as w};
use super::input::{LINES_MAX, NewOrderInput, NewOrderLine};
use super::schema::{PRIMARY, existing};
use engine::{Error, Lookup, Result, RowWriter, Table, Txn, Value};

/// Terminal's display at the end of a New-Order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrderOutput {
    /// Order's number.
    pub order: i32,
    /// Total that the customer pays, exact, with ten digits after the point: two of the price, four of the discount,
    /// four of the taxes.
    pub total: i128,
    /// Number of lines of which item and stock both say ORIGINAL.
    pub brand_lines: u32,
}

const ORIGINAL: &[u8; 8] = b"ORIGINAL";
const ONE: i128 = 10_000;
/// Number of rows read beside those of the lines: warehouse, customer, district.
const OTHERS: usize = 3;

/// Tables that New-Order uses.
#[derive(Clone, Copy)]
pub(crate) struct NewOrderTables<'t> {
    pub(crate) warehouse: &'t Table,
    pub(crate) district: &'t Table,
    pub(crate) customer: &'t Table,
    pub(crate) item: &'t Table,
    pub(crate) stock: &'t Table,
    pub(crate) orders: &'t Table,
    pub(crate) new_order: &'t Table,
    pub(crate) order_line: &'t Table,
}

/// Enters an order; the caller commits the transaction.
///
/// # Errors
/// [`Error::RolledBack`] for an item that does not exist, after everything else was done, as clause 2.4.2.3 demands;
/// [`Error::InvalidValue`] for any other missing row; errors of the engine.
pub fn new_order(txn: &Txn<'_>, tables: &TpccTables, input: &NewOrderInput) -> Result<NewOrderOutput> {
    let TpccTables { warehouse, district, customer, item, stock, orders, new_order, order_line, .. } = tables;
    let tables = NewOrderTables { warehouse, district, customer, item, stock, orders, new_order, order_line };
    new_order_in(txn, tables, input)
}

/// Does the same in these tables.
///
/// # Errors
/// As [`new_order`].
pub(crate) fn new_order_in(txn: &Txn<'_>, tables: NewOrderTables<'_>, input: &NewOrderInput) -> Result<NewOrderOutput> {
    use Value::{Decimal, Int32, Null, Text, Timestamp};
    let NewOrderInput { warehouse, district, customer, entered_us, .. } = *input;
    let place = [Int32(warehouse), Int32(district)];
    let key = [place[0], place[1], Int32(customer)];

    // All look-ups at once: they wait for memory together.
    let lines = input.lines();
    let line = |at: usize| lines.get(at).copied().unwrap_or_default();
    let item_keys: [_; LINES_MAX] = std::array::from_fn(|at| [Int32(line(at).item)]);
    let stock_keys: [_; LINES_MAX] = std::array::from_fn(|at| [Int32(line(at).supply_warehouse), Int32(line(at).item)]);
    let look_up = |table, key| Lookup { table, index: PRIMARY, key };
    let mut lookups = [look_up(tables.warehouse, &place[..1]); OTHERS + 2 * LINES_MAX];
    lookups[1] = look_up(tables.customer, &key);
    lookups[2] = look_up(tables.district, &place);
    for at in 0..lines.len() {
        lookups[OTHERS + at] = look_up(tables.item, &item_keys[at]);
        lookups[OTHERS + lines.len() + at] = look_up(tables.stock, &stock_keys[at]);
    }
    let mut rows = Vec::with_capacity(lookups.len());
    txn.get_each(&lookups[..OTHERS + 2 * lines.len()], &mut rows)?;
    let (others, rows) = rows.split_at(OTHERS);
    let (items, stocks) = rows.split_at(lines.len());
    let warehouse_tax = i128::from(existing(others[0], tables.warehouse)?.get_decimal_i64(w::W_TAX));
    let discount = i128::from(existing(others[1], tables.customer)?.get_decimal_i64(c::C_DISCOUNT));
    let district_row = existing(others[2], tables.district)?;
    let district_tax = i128::from(district_row.get_decimal_i64(d::D_TAX));

    let mut order_lines = Vec::with_capacity(LINES_MAX);
    let mut sum = 0;
    let mut brand_lines = 0;
    for (at, line) in lines.iter().enumerate() {
        // Only items may be missing.
        let Some(item) = items[at] else { continue };
        let amount = i128::from(item.get_decimal_i64(i::I_PRICE)) * i128::from(line.quantity);
        let stock = existing(stocks[at], tables.stock)?;
        txn.update(tables.stock, stock.row_id(), |row| take_from_stock(row, line, warehouse))?;
        // Both are shown in any case; the order of the tests only spares the second search.
        let is_brand = is_original(item.get_text(i::I_DATA)) && is_original(stock.get_text(s::S_DATA));
        brand_lines += u32::from(is_brand);
        sum += amount;
        order_lines.push([
            Null,
            Int32(district),
            Int32(warehouse),
            Int32(at as i32 + 1),
            Int32(line.item),
            Int32(line.supply_warehouse),
            Null,
            Int32(line.quantity),
            Decimal(amount),
            Text(stock.get_text(s::S_DIST_01 + district as usize - 1)),
        ]);
    }

    let mut order = 0;
    txn.update(tables.district, district_row.row_id(), |row| {
        order = row.get_i32(d::D_NEXT_O_ID);
        row.set_i32(d::D_NEXT_O_ID, order + 1);
    })?;
    let is_local = lines.iter().all(|line| line.supply_warehouse == warehouse);
    txn.insert(
        tables.orders,
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
    txn.insert(tables.new_order, &[Int32(order), Int32(district), Int32(warehouse)])?;
    order_lines.iter_mut().for_each(|line| line[0] = Int32(order));
    txn.insert_many(tables.order_line, &order_lines)?;
    if order_lines.len() < lines.len() {
        return Err(Error::RolledBack);
    }
    let total = sum * (ONE - discount) * (ONE + warehouse_tax + district_tax);
    Ok(NewOrderOutput { order, total, brand_lines })
}

/// Applies a line of an order entered at `warehouse` to the row of stock that supplies it.
pub(crate) fn take_from_stock(row: &mut RowWriter<'_>, line: &NewOrderLine, warehouse: i32) {
    let quantity = row.get_i32(s::S_QUANTITY) - line.quantity;
    row.set_i32(s::S_QUANTITY, if 10 <= quantity { quantity } else { quantity + 91 });
    row.set_decimal_i64(s::S_YTD, row.get_decimal_i64(s::S_YTD) + i64::from(line.quantity));
    row.set_i32(s::S_ORDER_CNT, row.get_i32(s::S_ORDER_CNT) + 1);
    if line.supply_warehouse != warehouse {
        row.set_i32(s::S_REMOTE_CNT, row.get_i32(s::S_REMOTE_CNT) + 1);
    }
}

/// Returns true if the text contains ORIGINAL. A searcher made for each text would cost more than the search.
pub(crate) fn is_original(text: &str) -> bool {
    text.as_bytes().windows(ORIGINAL.len()).any(|window| window == ORIGINAL)
}
