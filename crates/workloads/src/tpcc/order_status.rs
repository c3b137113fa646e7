//! Order-Status (clause 2.6): a customer's balance and last order.
//!
//! **Invariant:** it only reads, so it waits for nobody under any isolation level.

use super::Tables;
use super::columns::{customer as c, order_line as ol, orders as o};
use super::customer::find_customer;
use super::input::{LINES_MAX, OrderStatusInput};
use super::schema::{BY_CUSTOMER, PRIMARY, existing};
use engine::{Direction, Result, Txn, Value};

/// What the terminal shows at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatusOutput {
    /// The customer's number.
    pub customer: i32,
    /// First, middle and last name.
    pub name: [String; 3],
    /// The balance, in cents.
    pub balance_cents: i64,
    /// The order's number.
    pub order: i32,
    /// When it was entered, microseconds since 1970.
    pub entered_us: i64,
    /// Who carries it, if it is delivered.
    pub carrier: Option<i32>,
    /// Its lines.
    pub lines: Vec<OrderStatusLine>,
}

/// One line of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatusLine {
    /// The item.
    pub item: i32,
    /// The warehouse that supplied it.
    pub supply_warehouse: i32,
    /// How many.
    pub quantity: i32,
    /// In cents.
    pub amount_cents: i64,
    /// When it was delivered, microseconds since 1970.
    pub delivered_us: Option<i64>,
}

/// Looks up a customer's last order. Every customer has one: the initial population gives one to each, and a purge keeps
/// the last one of each.
///
/// # Errors
/// [`engine::Error::InvalidValue`] when customer or order do not exist, and what the engine refuses.
pub fn order_status(txn: &Txn<'_>, tables: &Tables, input: &OrderStatusInput) -> Result<OrderStatusOutput> {
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
