//! TPC-C's New-Order, in the database.

use guest::{Array, Call, Decimal, Error, Result, Timestamp, module, values};

module! {
    tables {
        WAREHOUSE: "tpcc_warehouse" (w_id, w_tax);
        DISTRICT: "tpcc_district" (d_w_id, d_id, d_tax, d_next_o_id);
        CUSTOMER: "tpcc_customer" (c_w_id, c_d_id, c_id, c_discount);
        ITEM: "tpcc_item" (i_id, i_price);
        STOCK: "tpcc_stock" (s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt);
        INFO: "tpcc_stock"
            (s_w_id, s_i_id, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08,
             s_dist_09, s_dist_10);
        NUMBER: "tpcc_district" (d_w_id, d_id, d_next_o_id);
        ORDERS: "tpcc_orders" (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local);
        NEW_ORDER: "tpcc_new_order" (no_w_id, no_d_id, no_o_id);
        ORDER_LINE: "tpcc_order_line"
            (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info);
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
    let stocks: Vec<_> = lines.iter().map(|(item, supply, _)| batch.get_for_update(STOCK, (*supply, *item))).collect();
    let infos: Vec<_> = lines.iter().map(|(item, supply, _)| batch.get(INFO, (*supply, *item))).collect();
    let place = batch.get_for_update(DISTRICT, (warehouse, district));
    let mut read = batch.run()?;
    let warehouse_tax = read.take(home)?.ok_or_else(|| missing("warehouse"))?.get::<Decimal>(1)?;
    let discount = read.take(buyer)?.ok_or_else(|| missing("customer"))?.get::<Decimal>(3)?;
    let row = read.take(place)?.ok_or_else(|| missing("district"))?;
    let (district_tax, number) = (row.get::<Decimal>(2)?, row.get::<i32>(3)?);
    let prices = prices.into_iter().map(|price| read.take(price)).collect::<Result<Vec<_>>>()?;
    let stocks = stocks.into_iter().map(|stock| read.take(stock)).collect::<Result<Vec<_>>>()?;
    let infos = infos.into_iter().map(|info| read.take(info)).collect::<Result<Vec<_>>>()?;

    // The second one: everything that is written.
    let mut batch = call.batch();
    let is_local = i32::from(supplies.0.iter().all(|supply| *supply == warehouse));
    batch.put(NUMBER, (warehouse, district, number + 1));
    batch.insert(ORDERS, values![warehouse, district, number, customer, entered, lines.len() as i32, is_local]);
    batch.insert(NEW_ORDER, (warehouse, district, number));
    let mut sum = Decimal::ZERO;
    let mut taken: Vec<((i32, i32), (i32, Decimal, i32, i32))> = Vec::new();
    for (at, (item, supply, quantity)) in lines.iter().copied().enumerate() {
        let price = prices[at].as_ref().ok_or_else(|| missing("item"))?.get::<Decimal>(1)?;
        let amount = price * Decimal::from(i64::from(quantity));
        let stock = stocks[at].as_ref().ok_or_else(|| missing("stock"))?;
        // A line may have the item of one before.
        let known = taken.iter().rev().find(|(key, _)| *key == (supply, item)).map(|(_, known)| *known);
        let (before, sold, orders, remotes) = match known {
            Some(known) => known,
            None => (stock.get(2)?, stock.get(3)?, stock.get(4)?, stock.get(5)?),
        };
        let left = if 10 <= before - quantity { before - quantity } else { before - quantity + 91 };
        let sold = sold + Decimal::from(i64::from(quantity));
        let remotes = remotes + i32::from(supply != warehouse);
        taken.push(((supply, item), (left, sold, orders + 1, remotes)));
        batch.put(STOCK, values![supply, item, left, sold, orders + 1, remotes]);
        let info = infos[at].as_ref().ok_or_else(|| missing("stock"))?.get::<String>(1 + district as usize)?;
        batch.insert(
            ORDER_LINE,
            values![warehouse, district, number, at as i32 + 1, item, supply, quantity, amount, info],
        );
        sum = sum + amount;
    }
    batch.run()?;
    Ok(sum * (Decimal::ONE - discount) * (Decimal::ONE + warehouse_tax + district_tax))
}
