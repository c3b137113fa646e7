//! TPC-C's New-Order, statement by statement.

use super::Order;
use tokio_postgres::{Client, Error};

/// Enters an order. Returns the total in cents, or nothing if an item does not exist.
pub async fn new_order(client: &mut Client, order: &Order) -> Result<Option<i64>, Error> {
    let Order { warehouse, district, customer, entered, lines } = order;
    let transaction = client.transaction().await?;
    let row = transaction
        .query_one(
            "SELECT (w_tax * 10000)::bigint, (c_discount * 10000)::bigint FROM tpcc_warehouse, tpcc_customer
             WHERE w_id = $1 AND c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            &[warehouse, district, customer],
        )
        .await?;
    let (warehouse_tax, discount) = (row.get::<_, i64>(0), row.get::<_, i64>(1));
    let row = transaction
        .query_one(
            "UPDATE tpcc_district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2
             RETURNING d_next_o_id - 1, (d_tax * 10000)::bigint",
            &[warehouse, district],
        )
        .await?;
    let (number, district_tax) = (row.get::<_, i32>(0), row.get::<_, i64>(1));
    let is_local = i32::from(lines.iter().all(|line| line.supply == *warehouse));
    transaction
        .execute(
            "INSERT INTO tpcc_orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
            &[warehouse, district, &number, customer, entered, &(lines.len() as i32), &is_local],
        )
        .await?;
    transaction
        .execute(
            "INSERT INTO tpcc_new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)",
            &[warehouse, district, &number],
        )
        .await?;
    let mut sum = 0;
    for (at, line) in (1_i32..).zip(lines) {
        let price = "SELECT (i_price * 100)::bigint FROM tpcc_item WHERE i_id = $1";
        let Some(row) = transaction.query_opt(price, &[&line.item]).await? else {
            transaction.rollback().await?;
            return Ok(None);
        };
        let amount = row.get::<_, i64>(0) * i64::from(line.quantity);
        let take = format!(
            "UPDATE tpcc_stock SET
                 s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END,
                 s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4
             WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_dist_{district:02}"
        );
        let remote = i32::from(line.supply != *warehouse);
        let row = transaction.query_one(&*take, &[&line.supply, &line.item, &line.quantity, &remote]).await?;
        let info = row.get::<_, String>(0);
        transaction
            .execute(
                "INSERT INTO tpcc_order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id,
                     ol_quantity, ol_amount, ol_dist_info)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8::bigint * 0.01, $9)",
                &[warehouse, district, &number, &at, &line.item, &line.supply, &line.quantity, &amount, &info],
            )
            .await?;
        sum += amount;
    }
    transaction.commit().await?;
    let total = sum * (10_000 - discount) * (10_000 + warehouse_tax + district_tax);
    Ok(Some((total + 50_000_000) / 100_000_000))
}
