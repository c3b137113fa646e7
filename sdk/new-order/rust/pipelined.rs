//! TPC-C's New-Order in two round trips: what needs no answer of another statement is sent together.

use super::{Line, Order};
use futures::future::{join_all, try_join, try_join_all};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row};

/// Values of parameters.
type Values<'a> = Vec<&'a (dyn ToSql + Sync)>;

/// Enters an order. Returns the total in cents, or nothing if an item does not exist.
pub async fn new_order(client: &mut Client, order: &Order) -> Result<Option<i64>, Error> {
    let Order { warehouse, district, customer, entered, lines } = order;
    let transaction = client.transaction().await?;
    let (taxes, place, price) = futures::try_join!(
        transaction.prepare(
            "SELECT (w_tax * 10000)::bigint, (c_discount * 10000)::bigint FROM tpcc_warehouse, tpcc_customer
             WHERE w_id = $1 AND c_w_id = $1 AND c_d_id = $2 AND c_id = $3"
        ),
        transaction.prepare(
            "UPDATE tpcc_district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2
             RETURNING d_next_o_id - 1, (d_tax * 10000)::bigint"
        ),
        transaction.prepare("SELECT (i_price * 100)::bigint FROM tpcc_item WHERE i_id = $1"),
    )?;
    let take = format!(
        "UPDATE tpcc_stock SET
             s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END,
             s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4
         WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_dist_{district:02}"
    );
    let (insert_order, insert_new_order, insert_line, take) = futures::try_join!(
        transaction.prepare(
            "INSERT INTO tpcc_orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
             VALUES ($1, $2, $3, $4, $5, $6, $7)"
        ),
        transaction.prepare("INSERT INTO tpcc_new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)"),
        transaction.prepare(
            "INSERT INTO tpcc_order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id,
                 ol_quantity, ol_amount, ol_dist_info)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8::bigint * 0.01, $9)"
        ),
        transaction.prepare(&take),
    )?;

    // The first round trip: everything that is read, and the stock, which says what it had.
    let (buyer_key, place_key): (Values<'_>, Values<'_>) =
        (vec![warehouse, district, customer], vec![warehouse, district]);
    let of_line = async |line: &Line| {
        let remote = i32::from(line.supply != *warehouse);
        let (item, sold): (Values<'_>, Values<'_>) =
            (vec![&line.item], vec![&line.supply, &line.item, &line.quantity, &remote]);
        let (price, stock) =
            try_join(transaction.query_opt(&price, &item), transaction.query_opt(&take, &sold)).await?;
        Ok::<Option<(Row, Row)>, Error>(price.zip(stock))
    };
    let (taxes, place, read) = futures::join!(
        transaction.query_one(&taxes, &buyer_key),
        transaction.query_one(&place, &place_key),
        join_all(lines.iter().map(of_line)),
    );
    let (taxes, place) = (taxes?, place?);
    let (warehouse_tax, discount) = (taxes.get::<_, i64>(0), taxes.get::<_, i64>(1));
    let (number, district_tax) = (place.get::<_, i32>(0), place.get::<_, i64>(1));
    let Some(read) = read.into_iter().collect::<Result<Option<Vec<(Row, Row)>>, Error>>()? else {
        transaction.rollback().await?;
        return Ok(None);
    };

    // The second one: everything that is written.
    let rows: Vec<(i32, &Line, i64, String)> = (1..)
        .zip(lines)
        .zip(&read)
        .map(|((at, line), (price, stock))| (at, line, price.get::<_, i64>(0) * i64::from(line.quantity), stock.get(0)))
        .collect();
    let (count, is_local) = (lines.len() as i32, i32::from(lines.iter().all(|line| line.supply == *warehouse)));
    let order_row: Values<'_> = vec![warehouse, district, &number, customer, entered, &count, &is_local];
    let new_order_row: Values<'_> = vec![warehouse, district, &number];
    let insert_lines = rows.iter().map(async |(at, line, amount, info)| {
        let Line { item, supply, quantity } = line;
        let row: Values<'_> = vec![warehouse, district, &number, at, item, supply, quantity, amount, info];
        transaction.execute(&insert_line, &row).await
    });
    futures::try_join!(
        transaction.execute(&insert_order, &order_row),
        transaction.execute(&insert_new_order, &new_order_row),
        try_join_all(insert_lines),
    )?;
    transaction.commit().await?;
    let sum: i64 = rows.iter().map(|(_, _, amount, _)| amount).sum();
    let total = sum * (10_000 - discount) * (10_000 + warehouse_tax + district_tax);
    Ok(Some((total + 50_000_000) / 100_000_000))
}
