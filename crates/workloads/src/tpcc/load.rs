//! The initial population (clause 4.3.3).

use super::random::{LAST_NAME_SKEW, LOAD_LAST_NAME, Random, last_name};
use super::{Scale, TpccTables};
use engine::{Begin, Engine, Result, Txn, Value};
use stage::Class;

/// Progress of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProgress {
    /// Number of rows loaded so far.
    pub rows_count: u64,
    /// Number of rows expected in the end; order lines are random, so this may be off by a per mille.
    pub rows_expected: u64,
}

/// Number of rows in one transaction of the load.
const CHUNK_ROWS: i32 = 1_000;
/// Moment of everything in the initial population: 2026-01-01.
const LOADED_US: i64 = 1_767_225_600_000_000;

struct Loader<'a> {
    engine: &'a Engine,
    tables: &'a TpccTables,
    scale: Scale,
    random: Random,
    rows_count: u64,
    progress: &'a mut dyn FnMut(LoadProgress),
}

/// Creates and fills the nine tables, calling `progress` after each transaction of about a thousand rows.
///
/// # Errors
/// Errors of the engine, for instance if a table exists already.
pub fn load(engine: &Engine, scale: Scale, seed: u64, progress: &mut dyn FnMut(LoadProgress)) -> Result<TpccTables> {
    let tables = TpccTables::create(engine)?;
    let mut loader = Loader { engine, tables: &tables, scale, random: Random::new(seed), rows_count: 0, progress };
    loader.chunks(scale.items, Loader::item)?;
    for warehouse in 1..=scale.warehouses {
        loader.chunk(|loader, txn| loader.warehouse(txn, warehouse))?;
        loader.chunks(scale.items, |loader, txn, item| loader.stock(txn, warehouse, item))?;
        for district in 1..=scale.districts {
            loader.chunk(|loader, txn| loader.district(txn, warehouse, district))?;
            loader.chunks(scale.customers, |loader, txn, id| loader.customer(txn, warehouse, district, id))?;
            let customers = loader.random.permutation(scale.customers);
            loader.chunks(scale.customers, |loader, txn, id| {
                loader.order(txn, warehouse, district, id, customers[id as usize - 1])
            })?;
        }
    }
    Ok(tables)
}

impl Loader<'_> {
    fn chunk(&mut self, fill: impl FnOnce(&mut Self, &Txn<'_>) -> Result<()>) -> Result<()> {
        let engine = self.engine;
        let txn = engine.try_begin(Begin::new(Class::Normal))?;
        fill(self, &txn)?;
        txn.commit()?;
        (self.progress)(LoadProgress { rows_count: self.rows_count, rows_expected: self.scale.rows_expected() });
        Ok(())
    }

    /// Calls `fill` with 1 to `count`, a chunk of rows per transaction.
    fn chunks(&mut self, count: i32, mut fill: impl FnMut(&mut Self, &Txn<'_>, i32) -> Result<()>) -> Result<()> {
        for first in (1..=count).step_by(CHUNK_ROWS as usize) {
            let last = (first + CHUNK_ROWS - 1).min(count);
            self.chunk(|loader, txn| (first..=last).try_for_each(|id| fill(loader, txn, id)))?;
        }
        Ok(())
    }

    fn insert(&mut self, txn: &Txn<'_>, table: &engine::Table, values: &[Value<'_>]) -> Result<()> {
        self.rows_count += 1;
        txn.insert(table, values).map(drop)
    }

    fn decimal(&mut self, low: i32, high: i32) -> Value<'static> {
        Value::Decimal(i128::from(self.random.uniform(low, high)))
    }

    /// Draws two streets, city, state and zip.
    fn address(&mut self) -> [String; 5] {
        let random = &mut self.random;
        [random.a_string(10, 20), random.a_string(10, 20), random.a_string(10, 20), random.a_string(2, 2), random.zip()]
    }

    fn item(&mut self, txn: &Txn<'_>, id: i32) -> Result<()> {
        let image = self.random.uniform(1, 10_000);
        let (name, price, data) = (self.random.a_string(14, 24), self.decimal(100, 10_000), self.random.data());
        let values = [Value::Int32(id), Value::Int32(image), Value::Text(&name), price, Value::Text(&data)];
        self.insert(txn, &self.tables.item, &values)
    }

    fn warehouse(&mut self, txn: &Txn<'_>, id: i32) -> Result<()> {
        let (name, address, tax) = (self.random.a_string(6, 10), self.address(), self.decimal(0, 2_000));
        let mut values = vec![Value::Int32(id), Value::Text(&name)];
        values.extend(address.iter().map(|part| Value::Text(part)));
        let ytd_cents = i128::from(self.scale.districts) * i128::from(self.scale.customers) * 1_000;
        values.extend([tax, Value::Decimal(ytd_cents)]);
        self.insert(txn, &self.tables.warehouse, &values)
    }

    fn stock(&mut self, txn: &Txn<'_>, warehouse: i32, item: i32) -> Result<()> {
        let quantity = self.random.uniform(10, 100);
        let districts: [String; 10] = core::array::from_fn(|_| self.random.a_string(24, 24));
        let data = self.random.data();
        let mut values = vec![Value::Int32(item), Value::Int32(warehouse), Value::Int32(quantity)];
        values.extend(districts.iter().map(|text| Value::Text(text)));
        values.extend([Value::Decimal(0), Value::Int32(0), Value::Int32(0), Value::Text(&data)]);
        self.insert(txn, &self.tables.stock, &values)
    }

    fn district(&mut self, txn: &Txn<'_>, warehouse: i32, id: i32) -> Result<()> {
        let (name, address, tax) = (self.random.a_string(6, 10), self.address(), self.decimal(0, 2_000));
        let mut values = vec![Value::Int32(id), Value::Int32(warehouse), Value::Text(&name)];
        values.extend(address.iter().map(|part| Value::Text(part)));
        let ytd_cents = i128::from(self.scale.customers) * 1_000;
        values.extend([tax, Value::Decimal(ytd_cents), Value::Int32(self.scale.customers + 1)]);
        self.insert(txn, &self.tables.district, &values)
    }

    /// Inserts a customer and the one line of its history.
    fn customer(&mut self, txn: &Txn<'_>, warehouse: i32, district: i32, id: i32) -> Result<()> {
        use Value::{Decimal, Int32, Text, Timestamp};
        let names = self.scale.last_names();
        let name = if id <= names {
            last_name(id - 1)
        } else {
            last_name(self.random.nurand(LAST_NAME_SKEW, LOAD_LAST_NAME, 0, names - 1))
        };
        let (first, address, phone) = (self.random.a_string(8, 16), self.address(), self.random.n_string(16));
        let credit = if self.random.percent(10) { "BC" } else { "GC" };
        let (discount, data) = (self.decimal(0, 5_000), self.random.a_string(300, 500));
        let mut values = vec![Int32(id), Int32(district), Int32(warehouse), Text(&first), Text("OE")];
        values.push(Text(name.as_str()));
        values.extend(address.iter().map(|part| Text(part)));
        values.extend([Text(&phone), Timestamp(LOADED_US), Text(credit), Decimal(5_000_000), discount]);
        values.extend([Decimal(-1_000), Decimal(1_000), Int32(1), Int32(0), Text(&data)]);
        self.insert(txn, &self.tables.customer, &values)?;
        let data = self.random.a_string(12, 24);
        let ids = [id, district, warehouse, district, warehouse].map(Int32);
        let values: Vec<Value<'_>> =
            ids.into_iter().chain([Timestamp(LOADED_US), Decimal(1_000), Text(&data)]).collect();
        self.insert(txn, &self.tables.history, &values)
    }

    /// Inserts an order, its lines, and its row in `new_order` if it is one of the last 900 of 3,000.
    fn order(&mut self, txn: &Txn<'_>, warehouse: i32, district: i32, id: i32, customer: i32) -> Result<()> {
        use Value::{Decimal, Int32, Null, Text, Timestamp};
        let is_delivered = id < self.scale.first_new_order();
        let carrier = if is_delivered { Int32(self.random.uniform(1, 10)) } else { Null };
        let lines = self.random.uniform(5, 15);
        let [id_, district_, warehouse_, customer_] = [id, district, warehouse, customer].map(Int32);
        let entered = Timestamp(LOADED_US);
        let values = [id_, district_, warehouse_, customer_, entered, carrier, Int32(lines), Int32(1)];
        self.insert(txn, &self.tables.orders, &values)?;
        for line in 1..=lines {
            let item = self.random.uniform(1, self.scale.items);
            let (delivered, amount) =
                if is_delivered { (entered, Decimal(0)) } else { (Null, self.decimal(1, 999_999)) };
            let info = self.random.a_string(24, 24);
            let values = [
                id_,
                district_,
                warehouse_,
                Int32(line),
                Int32(item),
                warehouse_,
                delivered,
                Int32(5),
                amount,
                Text(&info),
            ];
            self.insert(txn, &self.tables.order_line, &values)?;
        }
        if is_delivered { Ok(()) } else { self.insert(txn, &self.tables.new_order, &[id_, district_, warehouse_]) }
    }
}
