//! TPC-C's New-Order as stored code: one source for WebAssembly and for an executable.
//!
//! Three batches of calls: what the order needs is read, the district gives the number, and all rows are written.

use guest::{Array, Call, Decimal, Error, Result, Row, Table, Timestamp, module, values};

module! {
    tables {
        WAREHOUSE: "tpcc_warehouse" (w_id, w_tax);
        DISTRICT: "tpcc_district" (d_w_id, d_id, d_tax, d_next_o_id);
        CUSTOMER: "tpcc_customer" (c_w_id, c_d_id, c_id, c_discount);
        ITEM: "tpcc_item" (i_id, i_price);
        STOCK_1: "tpcc_stock" (s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_01);
        STOCK_2: "tpcc_stock" (s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_02);
        STOCK_3: "tpcc_stock" (s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_03);
        STOCK_4: "tpcc_stock" (s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_04);
        STOCK_5: "tpcc_stock" (s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_05);
        STOCK_6: "tpcc_stock" (s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_06);
        STOCK_7: "tpcc_stock" (s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_07);
        STOCK_8: "tpcc_stock" (s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_08);
        STOCK_9: "tpcc_stock" (s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_09);
        STOCK_10: "tpcc_stock" (s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_10);
        ORDERS: "tpcc_orders" (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local);
        NEW_ORDER: "tpcc_new_order" (no_w_id, no_d_id, no_o_id);
        ORDER_LINE: "tpcc_order_line"
            (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount,
             ol_dist_info);
        KEY_VALUE: "glass_kv" (k, v);
    }
    statements {
        ADD: "UPDATE glass_kv SET v = v + 1 WHERE k = $1";
        TAKE: "UPDATE tpcc_stock SET s_quantity = $3, s_ytd = $4, s_order_cnt = $5, s_remote_cnt = $6 WHERE s_w_id = $1 AND s_i_id = $2";
        NUMBER: "UPDATE tpcc_district SET d_next_o_id = $3 WHERE d_w_id = $1 AND d_id = $2";
    }
    entries { new_order; read; read_together; update; mix; mix_together; nothing; }
}

/// Tables of stock by the district whose information a line shows.
const STOCKS: [Table; 10] = [STOCK_1, STOCK_2, STOCK_3, STOCK_4, STOCK_5, STOCK_6, STOCK_7, STOCK_8, STOCK_9, STOCK_10];

/// Order with as many items, supplying warehouses and quantities.
type Order = (i32, i32, i32, Timestamp, Array<i32>, Array<i32>, Array<i32>);

fn missing(what: &str) -> Error {
    Error::new("P0002", format!("the {what} does not exist"))
}

fn decimal(row: &Row, at: usize) -> Result<Decimal> {
    row.get(at)
}

fn new_order(call: &mut Call) -> Result<Decimal> {
    let (warehouse, district, customer, entered, items, supplies, quantities) = call.arguments::<Order>()?;
    let stock =
        usize::try_from(district - 1).ok().and_then(|at| STOCKS.get(at)).copied().ok_or_else(|| missing("district"))?;
    let lines: Vec<(i32, i32, i32)> = items
        .0
        .iter()
        .zip(&supplies.0)
        .zip(&quantities.0)
        .map(|((item, supply), quantity)| (*item, *supply, *quantity))
        .collect();

    let mut batch = call.batch();
    let home = batch.get(WAREHOUSE, warehouse);
    let buyer = batch.get(CUSTOMER, (warehouse, district, customer));
    let prices: Vec<_> = lines.iter().map(|(item, ..)| batch.get(ITEM, *item)).collect();
    let stocks: Vec<_> = lines.iter().map(|(item, supply, _)| batch.get_for_update(stock, (*supply, *item))).collect();
    // The district, which all its orders want, is locked last.
    let place = batch.get_for_update(DISTRICT, (warehouse, district));
    let mut answers = batch.run()?;
    let tax = decimal(&answers.take(home)?.ok_or_else(|| missing("warehouse"))?, 1)?;
    let discount = decimal(&answers.take(buyer)?.ok_or_else(|| missing("customer"))?, 3)?;
    let place = answers.take(place)?.ok_or_else(|| missing("district"))?;
    let order = place.get::<i32>(3)?;

    let mut rows = Vec::with_capacity(lines.len());
    let mut sum = Decimal::ZERO;
    for ((price, stock), (item, supply, quantity)) in prices.into_iter().zip(stocks).zip(&lines) {
        let item_row = answers.take(price)?.ok_or_else(|| Error::new("23502", "the item does not exist"))?;
        let stock = answers.take(stock)?.ok_or_else(|| missing("stock"))?;
        let amount = decimal(&item_row, 1)? * Decimal::from(i64::from(*quantity));
        sum = sum + amount;
        rows.push((*item, *supply, *quantity, amount, stock));
    }

    let mut batch = call.batch();
    let is_local = supplies.0.iter().all(|supply| *supply == warehouse);
    batch.insert(
        ORDERS,
        values![warehouse, district, order, customer, entered, None::<i32>, lines.len() as i32, i32::from(is_local)],
    );
    batch.insert(NEW_ORDER, (warehouse, district, order));
    for (number, (item, supply, quantity, amount, stock)) in (1..).zip(rows) {
        let left = stock.get::<i32>(2)? - quantity;
        let left = if 10 <= left { left } else { left + 91 };
        let sold = decimal(&stock, 3)? + Decimal::from(i64::from(quantity));
        let remote = stock.get::<i32>(5)? + i32::from(supply != warehouse);
        batch.execute(TAKE, values![supply, item, left, sold, stock.get::<i32>(4)? + 1, remote]);
        let info = stock.get::<String>(6)?;
        batch.insert(
            ORDER_LINE,
            values![warehouse, district, order, number, item, supply, None::<Timestamp>, quantity, amount, info],
        );
    }
    batch.execute(NUMBER, (warehouse, district, order + 1));
    batch.run()?;
    let one = Decimal::from(1_i64);
    Ok(sum * (one - discount) * (one + tax + decimal(&place, 2)?))
}

/// One call in this many of a mix is an update.
const UPDATE_EVERY: usize = 5;

fn value_of(row: Option<Row>) -> Result<i32> {
    row.ok_or_else(|| missing("row"))?.get(1)
}

/// Reads the row of each key, by a call for each. Returns the last value.
fn read(call: &mut Call) -> Result<i32> {
    let mut last = 0;
    for key in call.argument::<Array<i32>>(0)?.0 {
        last = value_of(call.get(KEY_VALUE, key)?)?;
    }
    Ok(last)
}

/// Reads the row of each key by one batch of calls. Returns the last value.
fn read_together(call: &mut Call) -> Result<i32> {
    let keys = call.argument::<Array<i32>>(0)?.0;
    let mut batch = call.batch();
    let later: Vec<_> = keys.into_iter().map(|key| batch.get(KEY_VALUE, key)).collect();
    let mut answers = batch.run()?;
    let mut last = 0;
    for later in later {
        last = value_of(answers.take(later)?)?;
    }
    Ok(last)
}

/// Updates the row of each key, by a call for each. Returns the number of rows.
fn update(call: &mut Call) -> Result<i32> {
    let mut rows = 0;
    for key in call.argument::<Array<i32>>(0)?.0 {
        rows += call.execute(ADD, key)?.rows as i32;
    }
    Ok(rows)
}

/// Reads the row of each key, and updates each fifth, by a call for each.
fn mix(call: &mut Call) -> Result<i32> {
    let mut last = 0;
    for (number, key) in (1_usize..).zip(call.argument::<Array<i32>>(0)?.0) {
        if number.is_multiple_of(UPDATE_EVERY) {
            call.execute(ADD, key)?;
        } else {
            last = value_of(call.get(KEY_VALUE, key)?)?;
        }
    }
    Ok(last)
}

/// Does the same by one batch of calls.
fn mix_together(call: &mut Call) -> Result<i32> {
    let keys = call.argument::<Array<i32>>(0)?.0;
    let mut batch = call.batch();
    let mut later = None;
    for (number, key) in (1_usize..).zip(keys) {
        if number.is_multiple_of(UPDATE_EVERY) {
            batch.execute(ADD, key);
        } else {
            later = Some(batch.get(KEY_VALUE, key));
        }
    }
    let mut answers = batch.run()?;
    later.map_or(Ok(0), |later| value_of(answers.take(later)?))
}

/// Does nothing with the database.
fn nothing(call: &mut Call) -> Result<i32> {
    Ok(call.argument::<Array<i32>>(0)?.0.len() as i32)
}
