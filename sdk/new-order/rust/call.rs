//! TPC-C's New-Order, by one call of a stored function.

use super::Order;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

/// Enters an order. Returns the total in cents, or nothing if an item does not exist.
pub async fn new_order(client: &mut Client, order: &Order) -> Result<Option<i64>, Error> {
    let Order { warehouse, district, customer, entered, lines } = order;
    let items: Vec<i32> = lines.iter().map(|line| line.item).collect();
    let supplies: Vec<i32> = lines.iter().map(|line| line.supply).collect();
    let quantities: Vec<i32> = lines.iter().map(|line| line.quantity).collect();
    let call = "SELECT round(100 * new_order($1, $2, $3, $4, $5, $6, $7))::bigint";
    match client.query_one(call, &[warehouse, district, customer, entered, &items, &supplies, &quantities]).await {
        Ok(row) => Ok(Some(row.get(0))),
        Err(error) if error.code() == Some(&SqlState::NOT_NULL_VIOLATION) => Ok(None),
        Err(error) => Err(error),
    }
}
