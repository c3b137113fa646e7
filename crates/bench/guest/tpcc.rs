//! TPC-C's New-Order as stored code: one source for WebAssembly and for an executable.
//!
//! Two batches of calls: one reads what the order needs and takes the stock and the number of the order, as statements
//! of a client would; the other writes the new rows.

use guest::{Array, Call, Decimal, Error, Queried, Result, Row, Statement, Timestamp, module, values};

module! {
    tables {
        WAREHOUSE: "tpcc_warehouse" (w_id, w_tax);
        CUSTOMER: "tpcc_customer" (c_w_id, c_d_id, c_id, c_discount);
        ITEM: "tpcc_item" (i_id, i_price);
        ORDERS: "tpcc_orders" (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local);
        NEW_ORDER: "tpcc_new_order" (no_w_id, no_d_id, no_o_id);
        ORDER_LINE: "tpcc_order_line"
            (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount,
             ol_dist_info);
        KEY_VALUE: "glass_kv" (k, v);
    }
    statements {
        ADD: "UPDATE glass_kv SET v = v + 1 WHERE k = $1";
        TAKE_1: "UPDATE tpcc_stock SET s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $5 WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_dist_01";
        TAKE_2: "UPDATE tpcc_stock SET s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $5 WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_dist_02";
        TAKE_3: "UPDATE tpcc_stock SET s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $5 WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_dist_03";
        TAKE_4: "UPDATE tpcc_stock SET s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $5 WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_dist_04";
        TAKE_5: "UPDATE tpcc_stock SET s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $5 WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_dist_05";
        TAKE_6: "UPDATE tpcc_stock SET s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $5 WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_dist_06";
        TAKE_7: "UPDATE tpcc_stock SET s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $5 WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_dist_07";
        TAKE_8: "UPDATE tpcc_stock SET s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $5 WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_dist_08";
        TAKE_9: "UPDATE tpcc_stock SET s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $5 WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_dist_09";
        TAKE_10: "UPDATE tpcc_stock SET s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $5 WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_dist_10";
        NUMBER: "UPDATE tpcc_district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 RETURNING d_next_o_id - 1, d_tax";
    }
    entries { new_order; read; read_together; update; mix; mix_together; nothing; }
}

/// Statements that take stock, by the district whose information a line shows.
const TAKES: [Statement; 10] = [TAKE_1, TAKE_2, TAKE_3, TAKE_4, TAKE_5, TAKE_6, TAKE_7, TAKE_8, TAKE_9, TAKE_10];

/// Order with as many items, supplying warehouses and quantities.
type Order = (i32, i32, i32, Timestamp, Array<i32>, Array<i32>, Array<i32>);

fn missing(what: &str) -> Error {
    Error::new("P0002", format!("the {what} does not exist"))
}

fn decimal(row: &Row, at: usize) -> Result<Decimal> {
    row.get(at)
}

/// Returns the row that a statement has changed.
fn changed(queried: Queried, what: &str) -> Result<Row> {
    queried.rows.into_iter().next().ok_or_else(|| missing(what))
}

fn new_order(call: &mut Call) -> Result<Decimal> {
    let (warehouse, district, customer, entered, items, supplies, quantities) = call.arguments::<Order>()?;
    let take =
        usize::try_from(district - 1).ok().and_then(|at| TAKES.get(at)).copied().ok_or_else(|| missing("district"))?;
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
    let mut stocks = Vec::with_capacity(lines.len());
    for (item, supply, quantity) in &lines {
        let is_remote = i32::from(*supply != warehouse);
        stocks.push(batch.query(take, (*supply, *item, *quantity, *quantity, is_remote)));
    }
    // The district, which all its orders want, is locked last.
    let place = batch.query(NUMBER, (warehouse, district));
    let mut answers = batch.run()?;
    let tax = decimal(&answers.take(home)?.ok_or_else(|| missing("warehouse"))?, 1)?;
    let discount = decimal(&answers.take(buyer)?.ok_or_else(|| missing("customer"))?, 3)?;
    let place = changed(answers.take(place)?, "district")?;
    let order = place.get::<i32>(0)?;

    let mut rows = Vec::with_capacity(lines.len());
    let mut sum = Decimal::ZERO;
    for ((price, stock), (item, supply, quantity)) in prices.into_iter().zip(stocks).zip(&lines) {
        let item_row = answers.take(price)?.ok_or_else(|| Error::new("23502", "the item does not exist"))?;
        let info = changed(answers.take(stock)?, "stock")?.get::<String>(0)?;
        let amount = decimal(&item_row, 1)? * Decimal::from(i64::from(*quantity));
        sum = sum + amount;
        rows.push((*item, *supply, *quantity, amount, info));
    }

    let mut batch = call.batch();
    let is_local = supplies.0.iter().all(|supply| *supply == warehouse);
    batch.insert(
        ORDERS,
        values![warehouse, district, order, customer, entered, None::<i32>, lines.len() as i32, i32::from(is_local)],
    );
    batch.insert(NEW_ORDER, (warehouse, district, order));
    for (number, (item, supply, quantity, amount, info)) in (1..).zip(rows) {
        batch.insert(
            ORDER_LINE,
            values![warehouse, district, order, number, item, supply, None::<Timestamp>, quantity, amount, info],
        );
    }
    batch.run()?;
    let one = Decimal::from(1_i64);
    Ok(sum * (one - discount) * (one + tax + decimal(&place, 1)?))
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
