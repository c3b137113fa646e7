//! TPC-C in the slowest and plainest way: rows in lists, each look-up a search through all of them, each procedure line
//! by line as the specification has it. The only thing it shares with the code under test is the columns' positions.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type, TimestampMicrosecondType};
use arrow_schema::DataType;
use engine::Engine;
use workloads::tpcc::columns::{
    customer as c, district as d, history as h, item as i, new_order as no, order_line as ol, orders as o, stock as s,
    warehouse as w,
};
use workloads::tpcc::{
    DISTRICTS_MAX, DeliveryInput, DeliveryOutput, NewOrderInput, NewOrderOutput, OrderStatusInput, OrderStatusLine,
    OrderStatusOutput, PaymentInput, PaymentOutput, StockLevelInput, TpccTables, Whom,
};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    Null,
    Number(i128),
    Text(String),
}

type Cells = Vec<Cell>;

/// Positions in [`TpccTables::all`].
const WAREHOUSE: usize = 0;
const DISTRICT: usize = 1;
const CUSTOMER: usize = 2;
const HISTORY: usize = 3;
const NEW_ORDER: usize = 4;
const ORDERS: usize = 5;
const ORDER_LINE: usize = 6;
const ITEM: usize = 7;
const STOCK: usize = 8;

/// Rows of all nine tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    tables: [Vec<Cells>; 9],
}

fn number(value: impl Into<i128>) -> Cell {
    Cell::Number(value.into())
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn get(row: &Cells, column: usize) -> i128 {
    match row[column] {
        Cell::Number(number) => number,
        ref other => panic!("{other:?} is no number"),
    }
}

fn get_text(row: &Cells, column: usize) -> &str {
    match &row[column] {
        Cell::Text(text) => text,
        other => panic!("{other:?} is no text"),
    }
}

fn add(row: &mut Cells, column: usize, more: i128) {
    row[column] = Cell::Number(get(row, column) + more);
}

fn has(row: &Cells, key: &[(usize, i32)]) -> bool {
    key.iter().all(|(column, value)| get(row, *column) == i128::from(*value))
}

fn cell(array: &dyn Array, at: usize) -> Cell {
    if array.is_null(at) {
        return Cell::Null;
    }
    match array.data_type() {
        DataType::Int32 => number(array.as_primitive::<Int32Type>().value(at)),
        DataType::Timestamp(..) => number(array.as_primitive::<TimestampMicrosecondType>().value(at)),
        DataType::Decimal128(..) => number(array.as_primitive::<Decimal128Type>().value(at)),
        _ => text(array.as_string_view().value(at)),
    }
}

impl Model {
    /// Reads the rows that are committed now. Rows are in the order of their values.
    pub fn of(engine: &Engine, tables: &TpccTables) -> Model {
        let snapshot = engine.snapshot();
        let tables = tables.all().map(|table| {
            let columns: Vec<usize> = (0..table.columns().len()).collect();
            let mut rows = Vec::new();
            for batch in snapshot.scan(table, &columns, 1_024).split(1).into_iter().flatten() {
                rows.extend(
                    (0..batch.num_rows())
                        .map(|at| batch.columns().iter().map(|column| cell(column, at)).collect::<Cells>()),
                );
            }
            rows
        });
        Model { tables }.in_order()
    }

    /// Sorts the rows by their values.
    pub fn in_order(mut self) -> Model {
        self.tables.iter_mut().for_each(|rows| rows.sort());
        self
    }

    fn find(&mut self, table: usize, key: &[(usize, i32)]) -> &mut Cells {
        self.tables[table].iter_mut().find(|row| has(row, key)).unwrap()
    }

    fn customer(&mut self, w: i32, d: i32, whom: &Whom) -> &mut Cells {
        let mut found: Vec<&mut Cells> = self.tables[CUSTOMER]
            .iter_mut()
            .filter(|row| has(row, &[(c::C_W_ID, w), (c::C_D_ID, d)]))
            .filter(|row| match whom {
                Whom::Number(id) => has(row, &[(c::C_ID, *id)]),
                Whom::LastName(name) => get_text(row, c::C_LAST) == name.as_str(),
            })
            .collect();
        found.sort_by_key(|row| get_text(row, c::C_FIRST).to_owned());
        let middle = found.len().div_ceil(2) - 1;
        found.swap_remove(middle)
    }

    /// Runs New-Order (clause 2.4.2.2); `None` if it rolls back.
    pub fn new_order(&mut self, input: &NewOrderInput) -> Option<NewOrderOutput> {
        let before = self.clone();
        let NewOrderInput { warehouse, district, customer, entered_us, .. } = *input;
        let w_tax = get(self.find(WAREHOUSE, &[(w::W_ID, warehouse)]), w::W_TAX);
        let row = self.find(DISTRICT, &[(d::D_W_ID, warehouse), (d::D_ID, district)]);
        let (d_tax, order) = (get(row, d::D_TAX), get(row, d::D_NEXT_O_ID));
        add(row, d::D_NEXT_O_ID, 1);
        let key = [(c::C_W_ID, warehouse), (c::C_D_ID, district), (c::C_ID, customer)];
        let discount = get(self.find(CUSTOMER, &key), c::C_DISCOUNT);
        self.tables[NEW_ORDER].push(vec![number(order), number(district), number(warehouse)]);
        let is_local = input.lines().iter().all(|line| line.supply_warehouse == warehouse);
        let lines_count = input.lines().len() as i32;
        let numbers = [order, district.into(), warehouse.into(), customer.into(), entered_us.into()].map(number);
        let mut row = numbers.to_vec();
        row.extend([Cell::Null, number(lines_count), number(i32::from(is_local))]);
        self.tables[ORDERS].push(row);
        let (mut sum, mut brand_lines) = (0, 0);
        for (at, line) in input.lines().iter().enumerate() {
            let Some(item) = self.tables[ITEM].iter().find(|row| has(row, &[(i::I_ID, line.item)])).cloned() else {
                *self = before;
                return None;
            };
            let stock = self.find(STOCK, &[(s::S_W_ID, line.supply_warehouse), (s::S_I_ID, line.item)]);
            let quantity = i128::from(line.quantity);
            let more = if 10 <= get(stock, s::S_QUANTITY) - quantity { 0 } else { 91 };
            add(stock, s::S_QUANTITY, more - quantity);
            add(stock, s::S_YTD, quantity);
            add(stock, s::S_ORDER_CNT, 1);
            add(stock, s::S_REMOTE_CNT, i128::from(line.supply_warehouse != warehouse));
            let info = text(get_text(stock, s::S_DIST_01 + district as usize - 1));
            let is_brand = [get_text(&item, i::I_DATA), get_text(stock, s::S_DATA)];
            brand_lines += u32::from(is_brand.iter().all(|data| data.contains("ORIGINAL")));
            let amount = quantity * get(&item, i::I_PRICE);
            sum += amount;
            let ids = [order, district.into(), warehouse.into(), at as i128 + 1, line.item.into()].map(number);
            let mut row = ids.to_vec();
            row.extend([number(line.supply_warehouse), Cell::Null, number(quantity), number(amount), info]);
            self.tables[ORDER_LINE].push(row);
        }
        let total = sum * (10_000 - discount) * (10_000 + w_tax + d_tax);
        Some(NewOrderOutput { order: order as i32, total, brand_lines })
    }

    /// Runs Payment (clause 2.5.2.2).
    pub fn payment(&mut self, input: &PaymentInput) -> PaymentOutput {
        let PaymentInput { warehouse, district, customer_warehouse, customer_district, .. } = *input;
        let amount = i128::from(input.amount_cents);
        let row = self.find(WAREHOUSE, &[(w::W_ID, warehouse)]);
        add(row, w::W_YTD, amount);
        let w_name = get_text(row, w::W_NAME).to_owned();
        let row = self.find(DISTRICT, &[(d::D_W_ID, warehouse), (d::D_ID, district)]);
        add(row, d::D_YTD, amount);
        let d_name = get_text(row, d::D_NAME).to_owned();
        let row = self.customer(customer_warehouse, customer_district, &input.customer);
        add(row, c::C_BALANCE, -amount);
        add(row, c::C_YTD_PAYMENT, amount);
        add(row, c::C_PAYMENT_CNT, 1);
        let (customer, balance) = (get(row, c::C_ID), get(row, c::C_BALANCE));
        let has_bad_credit = get_text(row, c::C_CREDIT) == "BC";
        if has_bad_credit {
            let ids = format!("{customer} {customer_district} {customer_warehouse} {district} {warehouse}");
            let data = format!("{ids} {}.{:02} {}", amount / 100, amount % 100, get_text(row, c::C_DATA));
            row[c::C_DATA] = text(&data.chars().take(500).collect::<String>());
        }
        let mut row = vec![Cell::Null; 8];
        row[h::H_C_ID] = number(customer);
        row[h::H_C_D_ID] = number(customer_district);
        row[h::H_C_W_ID] = number(customer_warehouse);
        row[h::H_D_ID] = number(district);
        row[h::H_W_ID] = number(warehouse);
        row[h::H_DATE] = number(input.entered_us);
        row[h::H_AMOUNT] = number(amount);
        row[h::H_DATA] = text(&format!("{w_name}    {d_name}"));
        self.tables[HISTORY].push(row);
        PaymentOutput { customer: customer as i32, balance_cents: balance as i64, has_bad_credit }
    }

    /// Runs Order-Status (clause 2.6.2.2).
    pub fn order_status(&mut self, input: &OrderStatusInput) -> OrderStatusOutput {
        let OrderStatusInput { warehouse, district, .. } = *input;
        let customer = self.customer(warehouse, district, &input.customer).clone();
        let id = get(&customer, c::C_ID) as i32;
        let key = [(o::O_W_ID, warehouse), (o::O_D_ID, district), (o::O_C_ID, id)];
        let orders = self.tables[ORDERS].iter().filter(|row| has(row, &key));
        let order = orders.max_by_key(|row| get(row, o::O_ID)).unwrap().clone();
        let number = get(&order, o::O_ID) as i32;
        let optional = |row: &Cells, column: usize| (row[column] != Cell::Null).then(|| get(row, column) as i64);
        let mut lines: Vec<&Cells> = self.lines(warehouse, district, number).collect();
        lines.sort_by_key(|row| get(row, ol::OL_NUMBER));
        let line = |row: &Cells| OrderStatusLine {
            item: get(row, ol::OL_I_ID) as i32,
            supply_warehouse: get(row, ol::OL_SUPPLY_W_ID) as i32,
            quantity: get(row, ol::OL_QUANTITY) as i32,
            amount_cents: get(row, ol::OL_AMOUNT) as i64,
            delivered_us: optional(row, ol::OL_DELIVERY_D),
        };
        OrderStatusOutput {
            customer: id,
            name: [c::C_FIRST, c::C_MIDDLE, c::C_LAST].map(|column| get_text(&customer, column).to_owned()),
            balance_cents: get(&customer, c::C_BALANCE) as i64,
            order: number,
            entered_us: get(&order, o::O_ENTRY_D) as i64,
            carrier: optional(&order, o::O_CARRIER_ID).map(|carrier| carrier as i32),
            lines: lines.into_iter().map(line).collect(),
        }
    }

    fn lines(&self, warehouse: i32, district: i32, order: i32) -> impl Iterator<Item = &Cells> {
        let key = [(ol::OL_W_ID, warehouse), (ol::OL_D_ID, district), (ol::OL_O_ID, order)];
        self.tables[ORDER_LINE].iter().filter(move |row| has(row, &key))
    }

    /// Runs Delivery (clause 2.7.4.2).
    pub fn delivery(&mut self, input: &DeliveryInput) -> DeliveryOutput {
        let mut delivered = [None; DISTRICTS_MAX];
        for district in 1..=input.districts {
            let place = [(no::NO_W_ID, input.warehouse), (no::NO_D_ID, district)];
            let new_orders = self.tables[NEW_ORDER].iter().filter(|row| has(row, &place));
            let Some(order) = new_orders.map(|row| get(row, no::NO_O_ID) as i32).min() else { continue };
            self.tables[NEW_ORDER].retain(|row| !(has(row, &place) && has(row, &[(no::NO_O_ID, order)])));
            let key = [(o::O_W_ID, input.warehouse), (o::O_D_ID, district), (o::O_ID, order)];
            let row = self.find(ORDERS, &key);
            row[o::O_CARRIER_ID] = number(input.carrier);
            let customer = get(row, o::O_C_ID) as i32;
            let amount = self.lines(input.warehouse, district, order).map(|row| get(row, ol::OL_AMOUNT)).sum();
            let key = [(ol::OL_W_ID, input.warehouse), (ol::OL_D_ID, district), (ol::OL_O_ID, order)];
            for row in self.tables[ORDER_LINE].iter_mut().filter(|row| has(row, &key)) {
                row[ol::OL_DELIVERY_D] = number(input.delivered_us);
            }
            let row = self.customer(input.warehouse, district, &Whom::Number(customer));
            add(row, c::C_BALANCE, amount);
            add(row, c::C_DELIVERY_CNT, 1);
            delivered[district as usize - 1] = Some(order);
        }
        DeliveryOutput { orders: delivered }
    }

    /// Runs Stock-Level (clause 2.8.2.2).
    pub fn stock_level(&mut self, input: &StockLevelInput) -> u32 {
        let StockLevelInput { warehouse, district, threshold } = *input;
        let row = self.find(DISTRICT, &[(d::D_W_ID, warehouse), (d::D_ID, district)]);
        let next = get(row, d::D_NEXT_O_ID) as i32;
        let sold = |item: i128| {
            (next - 20..next).any(|order| self.lines(warehouse, district, order).any(|l| get(l, ol::OL_I_ID) == item))
        };
        let is_low = |row: &&Cells| get(row, s::S_QUANTITY) < threshold.into() && sold(get(row, s::S_I_ID));
        self.tables[STOCK].iter().filter(|row| has(row, &[(s::S_W_ID, warehouse)])).filter(is_low).count() as u32
    }
}
