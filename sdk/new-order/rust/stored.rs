//! TPC-C's New-Order, in the database.

use guest::{Array, Call, Decimal, Error, Result, Timestamp, module, values};

module! {
    tables {
        WAREHOUSE: "tpcc_warehouse" (w_id, w_tax);
        DISTRICT: "tpcc_district" (d_w_id, d_id, d_tax, d_next_o_id);
        CUSTOMER: "tpcc_customer" (c_w_id, c_d_id, c_id, c_discount);
        ITEM: "tpcc_item" (i_id, i_price);
        STOCK: "tpcc_stock"
            (s_w_id, s_i_id, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08,
             s_dist_09, s_dist_10);
        ORDERS: "tpcc_orders" (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local);
        NEW_ORDER: "tpcc_new_order" (no_w_id, no_d_id, no_o_id);
        ORDER_LINE: "tpcc_order_line"
            (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info);
    }
    statements {
        NUMBER: "UPDATE tpcc_district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2";
        TAKE: "UPDATE tpcc_stock SET \
                 s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END, \
                 s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4 \
             WHERE s_w_id = $1 AND s_i_id = $2";
    }
    entries { new_order; }
}

fn missing(what: &str) -> Error {
    Error::new("23502", format!("the {what} does not exist"))
}

/// Enters an order. Returns the total; fails with 23502 if an item does not exist.
fn new_order(call: &mut Call) -> Result<Decimal> {
    let (warehouse, district, customer, entered, items, supplies, quantities) =
        call.arguments::<(i32, i32, i32, Timestamp, Array<i32>, Array<i32>, Array<i32>)>()?;
    let lines: Vec<(i32, i32, i32)> =
        items.0.iter().zip(&supplies.0).zip(&quantities.0).map(|((i, s), q)| (*i, *s, *q)).collect();

    // The first batch: everything that is read. The district, which all its orders want, is locked last.
    let mut batch = call.batch();
    let home = batch.get(WAREHOUSE, warehouse);
    let buyer = batch.get(CUSTOMER, (warehouse, district, customer));
    let prices: Vec<_> = lines.iter().map(|(item, ..)| batch.get(ITEM, *item)).collect();
    let stocks: Vec<_> = lines.iter().map(|(item, supply, _)| batch.get(STOCK, (*supply, *item))).collect();
    let place = batch.get_for_update(DISTRICT, (warehouse, district));
    let mut read = batch.run()?;
    let warehouse_tax = read.take(home)?.ok_or_else(|| missing("warehouse"))?.get::<Decimal>(1)?;
    let discount = read.take(buyer)?.ok_or_else(|| missing("customer"))?.get::<Decimal>(3)?;
    let row = read.take(place)?.ok_or_else(|| missing("district"))?;
    let (district_tax, number) = (row.get::<Decimal>(2)?, row.get::<i32>(3)?);

    // The second one: everything that is written.
    let mut batch = call.batch();
    let is_local = i32::from(supplies.0.iter().all(|supply| *supply == warehouse));
    batch.execute(NUMBER, (warehouse, district));
    batch.insert(ORDERS, values![warehouse, district, number, customer, entered, lines.len() as i32, is_local]);
    batch.insert(NEW_ORDER, (warehouse, district, number));
    let mut sum = Decimal::ZERO;
    for ((at, (item, supply, quantity)), (price, stock)) in (1_i32..).zip(lines).zip(prices.into_iter().zip(stocks)) {
        let price = read.take(price)?.ok_or_else(|| missing("item"))?.get::<Decimal>(1)?;
        let amount = price * Decimal::from(i64::from(quantity));
        let info = read.take(stock)?.ok_or_else(|| missing("stock"))?.get::<String>(1 + district as usize)?;
        batch.execute(TAKE, (supply, item, quantity, i32::from(supply != warehouse)));
        batch.insert(ORDER_LINE, values![warehouse, district, number, at, item, supply, quantity, amount, info]);
        sum = sum + amount;
    }
    batch.run()?;
    Ok(sum * (Decimal::ONE - discount) * (Decimal::ONE + warehouse_tax + district_tax))
}
