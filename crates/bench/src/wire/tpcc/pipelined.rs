//! New-Order with several statements on the way at once: what needs no answer of another one is sent together.
//!
//! **Invariant:** the statements, their values and their order are those of the transaction that sends one by one; two
//! round trips remain, because an order's number and its lines' prices are answers of the first.

use super::super::values::{Decimal, Timestamp};
use super::statements::{LINE_VALUES, Statements};
use super::transactions::{Failure, TpccOutcome};
use futures::future::{join_all, try_join_all};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};
use workloads::tpcc::{NewOrderInput, NewOrderLine};

/// Answers of the first round trip.
struct Answers {
    order: i32,
    /// Price of each line's item and its stock's text; `None` if the item does not exist.
    lines: Option<Vec<(Decimal, String)>>,
}

/// Runs a New-Order in two round trips.
///
/// # Errors
/// Errors of the server; the block is open then.
pub async fn new_order(client: &Client, of: &Statements, input: &NewOrderInput) -> Result<TpccOutcome, Failure> {
    let mut lines = input.lines().to_vec();
    lines.sort_unstable_by_key(|line| (line.supply_warehouse, line.item));
    let Answers { order, lines: Some(taken) } = first_trip(client, of, input, &lines).await? else {
        client.batch_execute("rollback").await?;
        return Ok(TpccOutcome::RolledBack);
    };
    second_trip(client, of, input, order, &lines, &taken).await?;
    Ok(TpccOutcome::Committed)
}

/// Reads the customer and the items, and takes the order's number and the stock.
async fn first_trip(
    client: &Client,
    of: &Statements,
    input: &NewOrderInput,
    lines: &[NewOrderLine],
) -> Result<Answers, Failure> {
    let NewOrderInput { warehouse, district, ref customer, .. } = *input;
    let take_stock = of.take_stock.get(district as usize - 1).ok_or(Failure::Missing("the district"))?;
    let take = async |line: &NewOrderLine| {
        let sold = Decimal(i64::from(line.quantity) * 10_000);
        let remote = i32::from(line.supply_warehouse != warehouse);
        let values: [&(dyn ToSql + Sync); 5] = [&line.quantity, &sold, &remote, &line.supply_warehouse, &line.item];
        client.query_opt(take_stock, &values).await
    };
    let item_keys: Vec<[&(dyn ToSql + Sync); 1]> = lines.iter().map(|line| [&line.item as _]).collect();
    let items = item_keys.iter().map(|key| client.query_opt(&of.item, key));
    let (buyer_key, place_key): ([&(dyn ToSql + Sync); 3], [&(dyn ToSql + Sync); 2]) =
        ([&warehouse, &district, customer], [&warehouse, &district]);
    // Polled in this order, so they are sent in this order; the server answers in it.
    let (begun, buyer, place, items, stocks) = futures::join!(
        client.batch_execute("begin"),
        client.query_one(&of.customer_and_tax, &buyer_key),
        client.query_one(&of.next_order, &place_key),
        join_all(items),
        join_all(lines.iter().map(take)),
    );
    // The first error is the cause of the others.
    begun?;
    std::hint::black_box(buyer?.try_get::<_, Decimal>(0)?);
    let order = place?.try_get::<_, i32>(0)? - 1;
    let taken = items.into_iter().zip(stocks).map(|(item, stock)| line_of(item?, stock?));
    Ok(Answers { order, lines: taken.collect::<Result<Option<Vec<_>>, Failure>>()? })
}

fn line_of(item: Option<Row>, stock: Option<Row>) -> Result<Option<(Decimal, String)>, Failure> {
    let Some(item) = item else { return Ok(None) };
    let stock = stock.ok_or(Failure::Missing("the item's stock"))?;
    Ok(Some((item.try_get(0)?, stock.try_get(2)?)))
}

/// Inserts the order and commits.
async fn second_trip(
    client: &Client,
    of: &Statements,
    input: &NewOrderInput,
    order: i32,
    lines: &[NewOrderLine],
    taken: &[(Decimal, String)],
) -> Result<(), Failure> {
    let NewOrderInput { warehouse, district, customer, entered_us, .. } = *input;
    let (count, entered) = (lines.len() as i32, Timestamp(entered_us));
    let all_local = i32::from(lines.iter().all(|line| line.supply_warehouse == warehouse));
    let order_row: [&(dyn ToSql + Sync); 7] = [&order, &district, &warehouse, &customer, &entered, &count, &all_local];
    let amounts = lines.iter().zip(taken).map(|(line, (price, _))| Decimal(price.0 * i64::from(line.quantity)));
    let rows: Vec<(i32, Decimal)> = (1..).zip(amounts).collect();
    let mut values: Vec<&(dyn ToSql + Sync)> = Vec::with_capacity(rows.len() * LINE_VALUES);
    for ((line, (_, info)), (number, amount)) in lines.iter().zip(taken).zip(&rows) {
        let row: [&(dyn ToSql + Sync); LINE_VALUES] =
            [&order, &district, &warehouse, number, &line.item, &line.supply_warehouse, &line.quantity, amount, info];
        values.extend(row);
    }
    let insert_lines = of.insert_lines.get(rows.len() - 1).ok_or(Failure::Missing("a line"))?;
    let new_order_row: [&(dyn ToSql + Sync); 3] = [&order, &district, &warehouse];
    let inserts = [
        client.execute(&of.insert_order, &order_row),
        client.execute(&of.insert_new_order, &new_order_row),
        client.execute(insert_lines, &values),
    ];
    // If an insert fails, COMMIT rolls back, and the insert's error is returned.
    let (inserted, committed) = futures::join!(try_join_all(inserts), client.batch_execute("commit"));
    inserted?;
    Ok(committed?)
}
