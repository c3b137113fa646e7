//! Order-Status (clause 2.6): a customer's balance and last order.
//!
//! **Invariant:** the transaction only reads, so it waits for nobody under any isolation level.

use super::TpccTables;
use super::columns::{customer as c, order_line as ol, orders as o};
use super::customer::find_customer;
use super::input::{LINES_MAX, OrderStatusInput};
use super::schema::{BY_CUSTOMER, PRIMARY, existing};
use engine::{Direction, Result, Txn, Value};

/// Terminal's display at the end of an Order-Status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatusOutput {
    /// Customer's number.
    pub customer: i32,
    /// First, middle and last name.
    pub name: [String; 3],
    /// Balance in cents.
    pub balance_cents: i64,
    /// Order's number.
    pub order: i32,
    /// Moment of the order's entry, in microseconds since 1970.
    pub entered_us: i64,
    /// Number of the carrier, if the order is delivered.
    pub carrier: Option<i32>,
    /// Order's lines.
    pub lines: Vec<OrderStatusLine>,
}

/// Line of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatusLine {
    /// Item.
    pub item: i32,
    /// Warehouse that supplied the item.
    pub supply_warehouse: i32,
    /// Quantity.
    pub quantity: i32,
    /// Amount in cents.
    pub amount_cents: i64,
    /// Moment of the delivery, in microseconds since 1970.
    pub delivered_us: Option<i64>,
}

/// Looks up a customer's last order. Every customer has one: the initial population gives one to each, and a purge
/// keeps the last one of each.
///
/// # Errors
/// [`engine::Error::InvalidValue`] if customer or order do not exist; errors of the engine.
pub fn order_status(txn: &Txn<'_>, tables: &TpccTables, input: &OrderStatusInput) -> Result<OrderStatusOutput> {
    use Value::Int32;
    let OrderStatusInput { warehouse, district, .. } = *input;
    let [w, d] = [warehouse, district].map(Int32);
    let customer = find_customer(txn, tables, warehouse, district, &input.customer)?;
    let number = customer.get_i32(c::C_ID);
    let mut orders = txn.range(&tables.orders, BY_CUSTOMER, &[w, d, Int32(number)], Direction::Backward)?;
    let order = existing(orders.next(), &tables.orders)?;
    let order_number = order.get_i32(o::O_ID);
    let mut lines = Vec::with_capacity(LINES_MAX);
    let key = [w, d, Int32(order_number)];
    lines.extend(txn.range(&tables.order_line, PRIMARY, &key, Direction::Forward)?.read_ahead().map(|line| {
        OrderStatusLine {
            item: line.get_i32(ol::OL_I_ID),
            supply_warehouse: line.get_i32(ol::OL_SUPPLY_W_ID),
            quantity: line.get_i32(ol::OL_QUANTITY),
            amount_cents: line.get_decimal_i64(ol::OL_AMOUNT),
            delivered_us: (!line.is_null(ol::OL_DELIVERY_D)).then(|| line.get_timestamp(ol::OL_DELIVERY_D)),
        }
    }));
    Ok(OrderStatusOutput {
        customer: number,
        name: [c::C_FIRST, c::C_MIDDLE, c::C_LAST].map(|column| customer.get_text(column).to_owned()),
        balance_cents: customer.get_decimal_i64(c::C_BALANCE),
        order: order_number,
        entered_us: order.get_timestamp(o::O_ENTRY_D),
        carrier: (!order.is_null(o::O_CARRIER_ID)).then(|| order.get_i32(o::O_CARRIER_ID)),
        lines,
    })
}
