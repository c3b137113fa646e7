//! The five transactions, statement by statement, each in a block of its own.
//!
//! **Invariant:** when a function returns, the connection is outside a transaction, on every path, unless it is broken.
//! A value that a change depends on (an order's number, a stock, a sum) is changed by the statement that reads it, so
//! that nothing is lost under READ COMMITTED; a delivery that loses its order to another one looks for the next.

use super::super::client::is_retryable;
use super::super::values::{Decimal, Timestamp};
use super::statements::{LINE_VALUES, Statements};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};
use workloads::tpcc::{DeliveryInput, Input, NewOrderInput, OrderStatusInput, PaymentInput, StockLevelInput, Whom};

/// End of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TpccOutcome {
    /// The transaction committed.
    Committed,
    /// The transaction rolled back, because its last item does not exist, as in one New-Order in a hundred.
    RolledBack,
}

/// Reason why a transaction did not end as it should.
#[derive(Debug)]
pub enum Failure {
    /// Error of the server or the network.
    Driver(Error),
    /// Missing row that must exist.
    Missing(&'static str),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Driver(error)
    }
}

impl From<Failure> for anyhow::Error {
    fn from(failure: Failure) -> anyhow::Error {
        match failure {
            Failure::Driver(error) => super::super::client::explain(&error),
            Failure::Missing(what) => anyhow::anyhow!("{what} does not exist"),
        }
    }
}

/// Maximum number of retries of one transaction; more are a failure.
const RETRIES_MAX: u32 = 1_000;

/// Runs a transaction to its end, again after a serialisation failure or a deadlock; returns the number of retries,
/// too.
///
/// # Errors
/// Any other error; the block is rolled back.
pub async fn retried(client: &Client, statements: &Statements, input: &Input) -> anyhow::Result<(TpccOutcome, u32)> {
    let ended = retrying(client, async || attempt(client, statements, input).await).await;
    ended.map_err(|failure| anyhow::Error::from(failure).context(input.kind().name()))
}

/// Makes attempts at a transaction, again after a serialisation failure or a deadlock; returns the number of retries,
/// too.
///
/// # Errors
/// Any other error; the block is rolled back.
pub async fn retrying<R>(
    client: &Client,
    mut attempt: impl AsyncFnMut() -> Result<R, Failure>,
) -> Result<(R, u32), Failure> {
    let mut retries = 0;
    loop {
        match attempt().await {
            Ok(ending) => return Ok((ending, retries)),
            Err(failure) => {
                // A broken connection reports the error again, and the first error is the better one.
                let _ = client.batch_execute("rollback").await;
                match failure {
                    Failure::Driver(error) if is_retryable(&error) && retries < RETRIES_MAX => retries += 1,
                    failure => return Err(failure),
                }
            }
        }
    }
}

/// Makes one attempt at a transaction.
///
/// # Errors
/// Errors of the server; the block is open then.
pub async fn attempt(client: &Client, statements: &Statements, input: &Input) -> Result<TpccOutcome, Failure> {
    client.batch_execute("begin").await?;
    let ending = match input {
        Input::NewOrder(input) => new_order(client, statements, input).await?,
        Input::Payment(input) => payment(client, statements, input).await?,
        Input::OrderStatus(input) => order_status(client, statements, input).await?,
        Input::Delivery(input) => delivery(client, statements, input).await?,
        Input::StockLevel(input) => stock_level(client, statements, input).await?,
    };
    client.batch_execute(if ending == TpccOutcome::Committed { "commit" } else { "rollback" }).await?;
    Ok(ending)
}

async fn new_order(client: &Client, of: &Statements, input: &NewOrderInput) -> Result<TpccOutcome, Failure> {
    let NewOrderInput { warehouse, district, customer, entered_us, .. } = *input;
    // Lines are sorted by their rows of stock, as drivers commonly enter them: two orders that lock the same rows do
    // not deadlock.
    let mut lines = input.lines().to_vec();
    lines.sort_unstable_by_key(|line| (line.supply_warehouse, line.item));
    let buyer = client.query_one(&of.customer_and_tax, &[&warehouse, &district, &customer]).await?;
    let (discount, warehouse_tax): (Decimal, Decimal) = (buyer.try_get(0)?, buyer.try_get(3)?);
    let place = client.query_one(&of.next_order, &[&warehouse, &district]).await?;
    let (order, district_tax): (i32, Decimal) = (place.try_get::<_, i32>(0)? - 1, place.try_get(1)?);
    let lines_count = lines.len() as i32;
    let all_local = i32::from(lines.iter().all(|line| line.supply_warehouse == warehouse));
    let entered = Timestamp(entered_us);
    let values: [&(dyn ToSql + Sync); 7] =
        [&order, &district, &warehouse, &customer, &entered, &lines_count, &all_local];
    client.execute(&of.insert_order, &values).await?;
    client.execute(&of.insert_new_order, &[&order, &district, &warehouse]).await?;

    let take_stock = of.take_stock.get(district as usize - 1).ok_or(Failure::Missing("the district"))?;
    let mut rows = Vec::with_capacity(lines.len());
    let mut sum = 0;
    for (at, line) in lines.iter().enumerate() {
        let Some(item) = client.query_opt(&of.item, &[&line.item]).await? else {
            return Ok(TpccOutcome::RolledBack);
        };
        let price: Decimal = item.try_get(0)?;
        let sold = Decimal(i64::from(line.quantity) * 10_000);
        let remote = i32::from(line.supply_warehouse != warehouse);
        let values: [&(dyn ToSql + Sync); 5] = [&line.quantity, &sold, &remote, &line.supply_warehouse, &line.item];
        let stock = client.query_one(take_stock, &values).await?;
        let amount = Decimal(price.0 * i64::from(line.quantity));
        sum += amount.0;
        rows.push((at as i32 + 1, line, amount, stock.try_get::<_, String>(2)?));
    }
    let mut values: Vec<&(dyn ToSql + Sync)> = Vec::with_capacity(rows.len() * LINE_VALUES);
    for (number, line, amount, info) in &rows {
        let row: [&(dyn ToSql + Sync); LINE_VALUES] =
            [&order, &district, &warehouse, number, &line.item, &line.supply_warehouse, &line.quantity, amount, info];
        values.extend(row);
    }
    let insert_lines = of.insert_lines.get(rows.len() - 1).ok_or(Failure::Missing("a line"))?;
    client.execute(insert_lines, &values).await?;
    // The values are those that the terminal shows.
    let ten_thousandths = |decimal: Decimal| decimal.0 as f64 / 1e4;
    let taxed = 1.0 + ten_thousandths(warehouse_tax) + ten_thousandths(district_tax);
    std::hint::black_box(sum as f64 * (1.0 - ten_thousandths(discount)) * taxed);
    Ok(TpccOutcome::Committed)
}

/// Finds a customer by number; or, of those with the last name in the order of first names, number n/2 rounded up.
async fn find(client: &Client, of: &Statements, warehouse: i32, district: i32, whom: &Whom) -> Result<i32, Failure> {
    match whom {
        Whom::Number(number) => Ok(*number),
        Whom::LastName(name) => {
            let rows = client.query(&of.customers_by_name, &[&warehouse, &district, &name.as_str()]).await?;
            let middle = rows.len().div_ceil(2).checked_sub(1).and_then(|at| rows.get(at));
            Ok(middle.ok_or(Failure::Missing("a customer of this name"))?.try_get(0)?)
        }
    }
}

async fn payment(client: &Client, of: &Statements, input: &PaymentInput) -> Result<TpccOutcome, Failure> {
    /// Maximum length of a customer's data, in bytes.
    const DATA_BYTES_MAX: usize = 500;
    let PaymentInput { warehouse, district, customer_warehouse, customer_district, amount_cents, entered_us, .. } =
        *input;
    let amount = Decimal::of_cents(amount_cents);
    let of_warehouse = client.query_one(&of.pay_warehouse, &[&amount, &warehouse]).await?;
    let of_district = client.query_one(&of.pay_district, &[&amount, &warehouse, &district]).await?;
    let customer = find(client, of, customer_warehouse, customer_district, &input.customer).await?;
    let whose: [&(dyn ToSql + Sync); 4] = [&amount, &customer_warehouse, &customer_district, &customer];
    let row = client.query_one(&of.pay_customer, &whose).await?;
    if row.try_get::<_, &str>(10)? == "BC" {
        let key: [&(dyn ToSql + Sync); 3] = [&customer_warehouse, &customer_district, &customer];
        let before = client.query_one(&of.customer_data, &key).await?;
        let mut data = String::with_capacity(DATA_BYTES_MAX + 64);
        let ids = [customer, customer_district, customer_warehouse, district, warehouse];
        ids.iter().for_each(|id| data += &format!("{id} "));
        data += &format!("{}.{:02} ", amount_cents / 100, amount_cents % 100);
        data.push_str(before.try_get(0)?);
        // The text is ASCII.
        data.truncate(DATA_BYTES_MAX);
        let values: [&(dyn ToSql + Sync); 4] = [&data, &customer_warehouse, &customer_district, &customer];
        client.execute(&of.set_customer_data, &values).await?;
    }
    let data = format!("{}    {}", of_warehouse.try_get::<_, &str>(0)?, of_district.try_get::<_, &str>(0)?);
    let entered = Timestamp(entered_us);
    let values: [&(dyn ToSql + Sync); 8] =
        [&customer, &customer_district, &customer_warehouse, &district, &warehouse, &entered, &amount, &data];
    client.execute(&of.insert_history, &values).await?;
    Ok(TpccOutcome::Committed)
}

async fn order_status(client: &Client, of: &Statements, input: &OrderStatusInput) -> Result<TpccOutcome, Failure> {
    let OrderStatusInput { warehouse, district, ref customer } = *input;
    let customer = find(client, of, warehouse, district, customer).await?;
    client.query_one(&of.customer_balance, &[&warehouse, &district, &customer]).await?;
    let order = client.query_one(&of.last_order, &[&warehouse, &district, &customer]).await?;
    let order: i32 = order.try_get(0)?;
    client.query(&of.order_lines, &[&warehouse, &district, &order]).await?;
    Ok(TpccOutcome::Committed)
}

async fn delivery(client: &Client, of: &Statements, input: &DeliveryInput) -> Result<TpccOutcome, Failure> {
    let DeliveryInput { warehouse, districts, carrier, delivered_us } = *input;
    let delivered = Timestamp(delivered_us);
    for district in 1..=districts {
        let order = loop {
            let Some(oldest) = client.query_opt(&of.oldest_new_order, &[&warehouse, &district]).await? else {
                break None;
            };
            let order: i32 = oldest.try_get(0)?;
            // Another delivery may have taken the order since.
            if client.execute(&of.delete_new_order, &[&warehouse, &district, &order]).await? == 1 {
                break Some(order);
            }
        };
        let Some(order) = order else { continue };
        let row = client.query_one(&of.set_carrier, &[&carrier, &warehouse, &district, &order]).await?;
        let customer: i32 = row.try_get(0)?;
        client.execute(&of.deliver_lines, &[&delivered, &warehouse, &district, &order]).await?;
        let amount = client.query_one(&of.order_amount, &[&warehouse, &district, &order]).await?;
        let amount: Decimal = amount.try_get(0)?;
        client.execute(&of.deliver_customer, &[&amount, &warehouse, &district, &customer]).await?;
    }
    Ok(TpccOutcome::Committed)
}

async fn stock_level(client: &Client, of: &Statements, input: &StockLevelInput) -> Result<TpccOutcome, Failure> {
    /// Number of the district's last orders that Stock-Level looks at.
    const LAST_ORDERS: i32 = 20;
    let StockLevelInput { warehouse, district, threshold } = *input;
    let next: i32 = client.query_one(&of.district_next, &[&warehouse, &district]).await?.try_get(0)?;
    let values: [&(dyn ToSql + Sync); 5] = [&warehouse, &district, &(next - LAST_ORDERS), &next, &threshold];
    client.query_one(&of.low_stock, &values).await?;
    Ok(TpccOutcome::Committed)
}
