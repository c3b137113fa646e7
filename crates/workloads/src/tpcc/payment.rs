//! Payment (clause 2.5).
//!
//! **Invariant:** each sum is made inside the closure that changes its row, from the newest committed version, so none
//! is lost under READ COMMITTED. The row that all payments of a warehouse change comes last, so that it is held for the
//! shortest time.

use super::TpccTables;
use super::columns::{customer as c, district as d, warehouse as w};
use super::customer::find_customer;
use super::input::PaymentInput;
use super::schema::{PRIMARY, existing};
use core::fmt::Write;
use engine::{Result, Txn, Value};

/// Terminal's display at the end of a Payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaymentOutput {
    /// Customer's number.
    pub customer: i32,
    /// Balance afterwards, in cents.
    pub balance_cents: i64,
    /// True if the customer has bad credit.
    pub has_bad_credit: bool,
}

/// Maximum length of a customer's data, in bytes.
const DATA_BYTES_MAX: usize = 500;

/// Enters a payment; the caller commits the transaction.
///
/// # Errors
/// [`engine::Error::InvalidValue`] if warehouse, district or customer do not exist; errors of the engine.
pub fn payment(txn: &Txn<'_>, tables: &TpccTables, input: &PaymentInput) -> Result<PaymentOutput> {
    use Value::{Decimal, Int32, Text, Timestamp};
    let PaymentInput { warehouse, district, amount_cents, entered_us, .. } = *input;

    let row = find_customer(txn, tables, input.customer_warehouse, input.customer_district, &input.customer)?;
    let customer = row.get_i32(c::C_ID);
    let has_bad_credit = row.get_text(c::C_CREDIT) == "BC";
    // The sums come from the row that the closure gets, not from `row`: that one may be older.
    let mut balance_cents = 0;
    txn.update(&tables.customer, row.row_id(), |row| {
        balance_cents = row.get_decimal_i64(c::C_BALANCE) - amount_cents;
        row.set_decimal_i64(c::C_BALANCE, balance_cents);
        row.set_decimal_i64(c::C_YTD_PAYMENT, row.get_decimal_i64(c::C_YTD_PAYMENT) + amount_cents);
        row.set_i32(c::C_PAYMENT_CNT, row.get_i32(c::C_PAYMENT_CNT) + 1);
        if has_bad_credit {
            let data = bad_credit_data(customer, row.get_text(c::C_DATA), input);
            row.set_text(c::C_DATA, &data);
        }
    })?;

    let place = [Int32(warehouse), Int32(district)];
    let district_row = existing(txn.get(&tables.district, PRIMARY, &place)?, &tables.district)?;
    let warehouse_row = existing(txn.get(&tables.warehouse, PRIMARY, &place[..1])?, &tables.warehouse)?;
    let data = history_data(warehouse_row.get_text(w::W_NAME), district_row.get_text(d::D_NAME));
    txn.insert(
        &tables.history,
        &[
            Int32(customer),
            Int32(input.customer_district),
            Int32(input.customer_warehouse),
            Int32(district),
            Int32(warehouse),
            Timestamp(entered_us),
            Decimal(i128::from(amount_cents)),
            Text(&data),
        ],
    )?;
    txn.update(&tables.district, district_row.row_id(), |row| {
        row.set_decimal_i64(d::D_YTD, row.get_decimal_i64(d::D_YTD) + amount_cents);
    })?;
    // All payments of the warehouse want this row: it is changed last.
    txn.update(&tables.warehouse, warehouse_row.row_id(), |row| {
        row.set_decimal_i64(w::W_YTD, row.get_decimal_i64(w::W_YTD) + amount_cents);
    })?;
    Ok(PaymentOutput { customer, balance_cents, has_bad_credit })
}

/// Returns both names with four spaces between (clause 2.5.2.2).
pub(crate) fn history_data(warehouse: &str, district: &str) -> String {
    let mut data = String::with_capacity(24);
    [warehouse, "    ", district].into_iter().for_each(|part| data.push_str(part));
    data
}

/// Returns the payment's own data before the customer's earlier data, cut to 500 characters (clause 2.5.2.2).
pub(crate) fn bad_credit_data(customer: i32, before: &str, input: &PaymentInput) -> String {
    let mut data = String::with_capacity(DATA_BYTES_MAX + 64);
    let PaymentInput { customer_district, customer_warehouse, district, warehouse, amount_cents, .. } = *input;
    write!(
        data,
        "{customer} {customer_district} {customer_warehouse} {district} {warehouse} {}.{:02} ",
        amount_cents / 100,
        amount_cents % 100
    )
    .expect("a string takes what is written");
    data.push_str(before);
    data.truncate(data.len().min(DATA_BYTES_MAX));
    data
}
