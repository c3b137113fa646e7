//! New-Order and Payment as a client sends them: statement by statement, with explicit row locks.
//!
//! **Invariant:** each row is locked (SELECT … FOR UPDATE) before a value read from it is used, in the order in which
//! the standard's sample programs (its appendix A) visit the rows: that of the transactions whose locks Schroeder et
//! al. (ICDE 2006) measure. A statement keeps values for later ones by assignment only, so it may run again after it
//! had to wait; and after an abort the first one begins anew.

use super::columns::{customer as c, district as d, item as i, stock as s, warehouse as w};
use super::customer::find_customer;
use super::new_order::take_from_stock;
use super::payment::{bad_credit_data, history_data};
use super::schema::{PRIMARY, existing};
use super::{NewOrderInput, PaymentInput, TpccTables};
use engine::{Error, Result, Row, RowId, RowLock, Table, Txn, Value, Wait};
use std::sync::Arc;

/// Transaction of a client, statement by statement.
pub struct Statements {
    tables: Arc<TpccTables>,
    list: List,
}

enum List {
    NewOrder(Box<NewOrderList>),
    Payment(Box<PaymentList>),
}

struct NewOrderList {
    input: NewOrderInput,
    district: RowId,
    order: i32,
    stock: RowId,
    price_cents: i64,
    dist_info: String,
}

struct PaymentList {
    input: PaymentInput,
    warehouse: RowId,
    warehouse_name: String,
    district: RowId,
    district_name: String,
    customer: RowId,
    customer_number: i32,
}

/// Numbers of statements of a New-Order before those of its first line, and of each line.
const BEFORE_LINES: usize = 5;
const PER_LINE: usize = 4;
const NOWHERE: RowId = RowId(u64::MAX);

impl Statements {
    /// Returns the statements of a New-Order: five, and four for each line.
    pub fn new_order(tables: Arc<TpccTables>, input: NewOrderInput) -> Statements {
        let list = NewOrderList {
            input,
            district: NOWHERE,
            order: 0,
            stock: NOWHERE,
            price_cents: 0,
            dist_info: String::with_capacity(24),
        };
        Statements { tables, list: List::NewOrder(Box::new(list)) }
    }

    /// Returns the seven statements of a Payment.
    pub fn payment(tables: Arc<TpccTables>, input: PaymentInput) -> Statements {
        let list = PaymentList {
            input,
            warehouse: NOWHERE,
            warehouse_name: String::with_capacity(10),
            district: NOWHERE,
            district_name: String::with_capacity(10),
            customer: NOWHERE,
            customer_number: 0,
        };
        Statements { tables, list: List::Payment(Box::new(list)) }
    }

    /// Returns the number of statements, the commit excluded.
    #[expect(clippy::len_without_is_empty, reason = "a transaction has statements")]
    pub fn len(&self) -> usize {
        match &self.list {
            List::NewOrder(list) => BEFORE_LINES + PER_LINE * list.input.lines().len(),
            List::Payment(_) => 7,
        }
    }

    /// Runs statement `at` in the transaction of those before.
    ///
    /// # Errors
    /// [`Error::RolledBack`] by the statement that looks for an item that does not exist: the client then rolls back.
    /// [`Error::InvalidValue`] for any other row that does not exist; errors of the engine.
    pub fn run(&mut self, at: usize, txn: &Txn<'_>) -> Result<()> {
        match &mut self.list {
            List::NewOrder(list) if at < BEFORE_LINES => list.head(&self.tables, at, txn),
            List::NewOrder(list) => {
                let (line, at) = ((at - BEFORE_LINES) / PER_LINE, (at - BEFORE_LINES) % PER_LINE);
                list.line(&self.tables, line, at, txn)
            }
            List::Payment(list) => list.run(&self.tables, at, txn),
        }
    }
}

/// Runs SELECT … FOR UPDATE of a row found by the statement's snapshot, and returns its newest state.
fn lock<'t>(txn: &'t Txn<'_>, table: &'t Table, row: RowId) -> Result<Row<'t>> {
    existing(txn.lock_row(table, row, RowLock::Update, Wait::Block)?, table)
}

/// Runs SELECT … FOR UPDATE by primary key.
fn lock_key<'t>(txn: &'t Txn<'_>, table: &'t Table, key: &[Value<'_>]) -> Result<Row<'t>> {
    let row = existing(txn.get(table, PRIMARY, key)?, table)?.row_id();
    lock(txn, table, row)
}

fn keep(kept: &mut String, text: &str) {
    kept.clear();
    kept.push_str(text);
}

impl NewOrderList {
    fn head(&mut self, tables: &TpccTables, at: usize, txn: &Txn<'_>) -> Result<()> {
        use Value::{Int32, Null, Timestamp};
        let NewOrderInput { warehouse, district, customer, entered_us, .. } = self.input;
        let key = [warehouse, district, customer].map(Int32);
        match at {
            0 => {
                let row = existing(txn.get(&tables.warehouse, PRIMARY, &key[..1])?, &tables.warehouse)?;
                let tax = row.get_decimal_i64(w::W_TAX);
                let row = existing(txn.get(&tables.customer, PRIMARY, &key)?, &tables.customer)?;
                core::hint::black_box((tax, row.get_decimal_i64(c::C_DISCOUNT)));
            }
            1 => {
                let row = lock_key(txn, &tables.district, &key[..2])?;
                (self.district, self.order) = (row.row_id(), row.get_i32(d::D_NEXT_O_ID));
            }
            2 => {
                let next = self.order + 1;
                txn.update(&tables.district, self.district, |row| row.set_i32(d::D_NEXT_O_ID, next))?;
            }
            3 => {
                let lines = self.input.lines();
                let is_local = lines.iter().all(|line| line.supply_warehouse == warehouse);
                let [order, lines, is_local] = [self.order, lines.len() as i32, i32::from(is_local)].map(Int32);
                let row = [order, key[1], key[0], key[2], Timestamp(entered_us), Null, lines, is_local];
                txn.insert(&tables.orders, &row)?;
            }
            _ => {
                txn.insert(&tables.new_order, &[Int32(self.order), key[1], key[0]])?;
            }
        }
        Ok(())
    }

    fn line(&mut self, tables: &TpccTables, number: usize, at: usize, txn: &Txn<'_>) -> Result<()> {
        use Value::{Decimal, Int32, Null, Text};
        let line = self.input.lines()[number];
        let (warehouse, district) = (self.input.warehouse, self.input.district);
        match at {
            0 => {
                let item = txn.get(&tables.item, PRIMARY, &[Int32(line.item)])?.ok_or(Error::RolledBack)?;
                self.price_cents = item.get_decimal_i64(i::I_PRICE);
            }
            1 => {
                let row = lock_key(txn, &tables.stock, &[Int32(line.supply_warehouse), Int32(line.item)])?;
                self.stock = row.row_id();
                keep(&mut self.dist_info, row.get_text(s::S_DIST_01 + district as usize - 1));
            }
            2 => txn.update(&tables.stock, self.stock, |row| take_from_stock(row, &line, warehouse))?,
            _ => {
                let ids = [self.order, district, warehouse, number as i32 + 1, line.item, line.supply_warehouse];
                let [order, district, warehouse, number, item, supply] = ids.map(Int32);
                let amount = Decimal(i128::from(self.price_cents) * i128::from(line.quantity));
                let quantity = Int32(line.quantity);
                let info = Text(&self.dist_info);
                let row = [order, district, warehouse, number, item, supply, Null, quantity, amount, info];
                txn.insert(&tables.order_line, &row)?;
            }
        }
        Ok(())
    }
}

impl PaymentList {
    fn run(&mut self, tables: &TpccTables, at: usize, txn: &Txn<'_>) -> Result<()> {
        use Value::{Decimal, Int32, Text, Timestamp};
        let input = &self.input;
        let PaymentInput { warehouse, district, customer_warehouse, customer_district, amount_cents, .. } = *input;
        let key = [warehouse, district].map(Int32);
        // The order of locks is the sample programs': warehouse, district, customer.
        match at {
            0 => {
                let row = lock_key(txn, &tables.warehouse, &key[..1])?;
                self.warehouse = row.row_id();
                keep(&mut self.warehouse_name, row.get_text(w::W_NAME));
            }
            1 => txn.update(&tables.warehouse, self.warehouse, |row| {
                row.set_decimal_i64(w::W_YTD, row.get_decimal_i64(w::W_YTD) + amount_cents);
            })?,
            2 => {
                let row = lock_key(txn, &tables.district, &key)?;
                self.district = row.row_id();
                keep(&mut self.district_name, row.get_text(d::D_NAME));
            }
            3 => txn.update(&tables.district, self.district, |row| {
                row.set_decimal_i64(d::D_YTD, row.get_decimal_i64(d::D_YTD) + amount_cents);
            })?,
            4 => {
                let found = find_customer(txn, tables, customer_warehouse, customer_district, &input.customer)?;
                let row = lock(txn, &tables.customer, found.row_id())?;
                (self.customer, self.customer_number) = (row.row_id(), row.get_i32(c::C_ID));
            }
            5 => {
                let number = self.customer_number;
                txn.update(&tables.customer, self.customer, |row| {
                    row.set_decimal_i64(c::C_BALANCE, row.get_decimal_i64(c::C_BALANCE) - amount_cents);
                    row.set_decimal_i64(c::C_YTD_PAYMENT, row.get_decimal_i64(c::C_YTD_PAYMENT) + amount_cents);
                    row.set_i32(c::C_PAYMENT_CNT, row.get_i32(c::C_PAYMENT_CNT) + 1);
                    if row.get_text(c::C_CREDIT) == "BC" {
                        let data = bad_credit_data(number, row.get_text(c::C_DATA), input);
                        row.set_text(c::C_DATA, &data);
                    }
                })?;
            }
            _ => {
                let data = history_data(&self.warehouse_name, &self.district_name);
                let ids = [self.customer_number, customer_district, customer_warehouse, district, warehouse].map(Int32);
                let (paid, amount) = (Timestamp(input.entered_us), Decimal(i128::from(amount_cents)));
                let row = [ids[0], ids[1], ids[2], ids[3], ids[4], paid, amount, Text(&data)];
                txn.insert(&tables.history, &row)?;
            }
        }
        Ok(())
    }
}
