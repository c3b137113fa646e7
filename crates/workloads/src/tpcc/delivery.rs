//! Delivery (clause 2.7): the oldest new order of each district of a warehouse, all in one transaction.
//!
//! **Invariant:** an order belongs to the transaction that deletes its row in `new_order`. The row's lock decides
//! between two deliveries; the loser finds the row gone and looks at the next one, so no order is delivered twice.
//! Districts are visited in the order of their numbers, so two deliveries never wait for each other.

use super::TpccTables;
use super::columns::{customer as c, new_order as no, order_line as ol, orders as o};
use super::input::{DISTRICTS_MAX, DeliveryInput};
use super::schema::{PRIMARY, existing};
use engine::{Direction, Error, Result, Txn, Value};

/// Entry of the result file at the end of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryOutput {
    /// Order delivered in each district, in the order of the districts' numbers; none where there was nothing to
    /// deliver.
    pub orders: [Option<i32>; DISTRICTS_MAX],
}

/// Delivers the orders; the caller commits the transaction.
///
/// # Errors
/// [`Error::InvalidValue`] if an order or its customer does not exist; errors of the engine.
pub fn delivery(txn: &Txn<'_>, tables: &TpccTables, input: &DeliveryInput) -> Result<DeliveryOutput> {
    use Value::Int32;
    let warehouse = Int32(input.warehouse);
    let mut delivered = [None; DISTRICTS_MAX];
    let mut keys = Vec::with_capacity(DISTRICTS_MAX);
    for (district, order) in (1..=input.districts).zip(&mut delivered) {
        *order = take_oldest(txn, tables, input.warehouse, district)?;
        keys.extend(order.map(|order| [warehouse, Int32(district), Int32(order)]));
    }

    let mut rows = Vec::with_capacity(DISTRICTS_MAX);
    txn.get_many(&tables.orders, PRIMARY, &keys, &mut rows)?;
    let mut amounts = Vec::with_capacity(DISTRICTS_MAX);
    for (key, row) in keys.iter_mut().zip(&rows) {
        let order = existing(*row, &tables.orders)?;
        txn.update(&tables.orders, order.row_id(), |row| row.set_i32(o::O_CARRIER_ID, input.carrier))?;
        let mut amount_cents = 0;
        for line in txn.range(&tables.order_line, PRIMARY, &key[..], Direction::Forward)?.read_ahead() {
            amount_cents += line.get_decimal_i64(ol::OL_AMOUNT);
            txn.update(&tables.order_line, line.row_id(), |row| {
                row.set_timestamp(ol::OL_DELIVERY_D, input.delivered_us);
            })?;
        }
        amounts.push(amount_cents);
        // From here on the key is the customer's.
        key[2] = Int32(order.get_i32(o::O_C_ID));
    }

    txn.get_many(&tables.customer, PRIMARY, &keys, &mut rows)?;
    for (row, amount_cents) in rows.iter().zip(amounts) {
        let customer = existing(*row, &tables.customer)?;
        txn.update(&tables.customer, customer.row_id(), |row| {
            row.set_decimal_i64(c::C_BALANCE, row.get_decimal_i64(c::C_BALANCE) + amount_cents);
            row.set_i32(c::C_DELIVERY_CNT, row.get_i32(c::C_DELIVERY_CNT) + 1);
        })?;
    }
    Ok(DeliveryOutput { orders: delivered })
}

/// Deletes the oldest row of a district in `new_order` that is still there, and returns its order number.
fn take_oldest(txn: &Txn<'_>, tables: &TpccTables, warehouse: i32, district: i32) -> Result<Option<i32>> {
    let place = [Value::Int32(warehouse), Value::Int32(district)];
    for row in txn.range(&tables.new_order, PRIMARY, &place, Direction::Forward)? {
        match txn.delete(&tables.new_order, row.row_id()) {
            Ok(()) => return Ok(Some(row.get_i32(no::NO_O_ID))),
            // Another delivery took the row after the snapshot.
            Err(Error::NoSuchRow { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
