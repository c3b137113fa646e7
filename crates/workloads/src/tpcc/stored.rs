//! New-Order as code that is linked into a server, for `LANGUAGE native`.
//!
//! **Invariant:** the tables are those of [`TpccTables`](super::TpccTables), column by column, whatever their names in
//! SQL.

use super::input::{LINES_MAX, NewOrderInput, NewOrderLine};
use super::new_order::{NewOrderTables, new_order_in};
use super::schema::TpccTables;
use engine::{Engine, EngineConfig, Error, Table};
use locked::Locked;
use procs::{EngineCalls, NativeCall, NativeModule};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::{Arc, Mutex, OnceLock};
use types::datum::Datum;
use types::numeric::Numeric;

/// Digits after the decimal point of an order's total.
const TOTAL_SCALE: u16 = 10;

/// Native module `tpcc`.
///
/// The entry `new_order` takes the warehouse, the district, the customer, the moment of entry, and arrays of the items,
/// the supplying warehouses and the quantities. It returns the total, and fails with `23502` if an item does not exist.
#[derive(Debug, Default)]
pub struct TpccModule {
    /// Numbers of tables that were found to be TPC-C's.
    known: Mutex<Vec<[u32; TABLES]>>,
}

/// Number of tables of the manifest.
const TABLES: usize = 8;
/// Greatest number of sets of tables that are remembered.
const KNOWN_MAX: usize = 64;
/// Returns TPC-C's tables, empty, in an engine of their own: what the code expects.
fn expected() -> Option<[&'static Table; TABLES]> {
    static EXPECTED: OnceLock<Option<(Engine, TpccTables)>> = OnceLock::new();
    let made = EXPECTED.get_or_init(|| {
        let engine = Engine::new(EngineConfig::in_memory());
        let tables = TpccTables::create(&engine).ok()?;
        Some((engine, tables))
    });
    let (_, tables) = made.as_ref()?;
    let TpccTables { warehouse, district, customer, item, stock, orders, new_order, order_line, .. } = tables;
    Some([warehouse, district, customer, item, stock, orders, new_order, order_line])
}

/// Returns true if a table has the columns and the primary key of another.
fn is_like(table: &Table, expected: &Table) -> bool {
    let columns =
        |table: &Table| table.columns().iter().map(|column| (column.name.clone(), column.kind)).collect::<Vec<_>>();
    let key = |table: &Table| table.indexes().first().map(|index| (index.columns.clone(), index.unique));
    columns(table) == columns(expected) && key(table) == key(expected)
}

impl TpccModule {
    /// Checks that tables are TPC-C's: the code finds columns by their positions, and rows by the first index.
    ///
    /// # Errors
    /// `42P16`
    fn check(&self, tables: &[Arc<Table>]) -> SqlResult<()> {
        let wrong = |what: &str| {
            SqlError::new(SqlState::INVALID_TABLE_DEFINITION, format!("{what} is not what TPC-C's New-Order needs"))
        };
        let numbers: [u32; TABLES] = match <&[Arc<Table>; TABLES]>::try_from(tables) {
            Ok(tables) => tables.each_ref().map(|table| table.number()),
            Err(_) => return Err(wrong("the manifest of the module")),
        };
        if self.known.locked_anyway().contains(&numbers) {
            return Ok(());
        }
        let expected = expected().ok_or_else(|| wrong("this engine"))?;
        for (table, expected) in tables.iter().zip(expected) {
            if !is_like(table, expected) {
                return Err(wrong(&format!("table \"{}\"", table.name())));
            }
        }
        let mut known = self.known.locked_anyway();
        if KNOWN_MAX <= known.len() {
            known.clear();
        }
        known.push(numbers);
        Ok(())
    }
}

impl NativeModule for TpccModule {
    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn manifest(&self) -> &'static str {
        include_str!("stored.manifest")
    }

    fn call(&self, call: NativeCall<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Datum>> {
        if call.entry != 0 {
            return Err(procs::format::garbled(&format!("{} is the number of no entry", call.entry)));
        }
        let input = input(call.arguments)?;
        let mut total = None;
        let has_engine = engine.direct(&mut |txn, tables| {
            // Before an urgent context they were checked.
            if !preempt::in_urgent() {
                self.check(tables)?;
            }
            let [warehouse, district, customer, item, stock, orders, new_order, order_line] = tables else {
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, "the manifest has eight tables"));
            };
            let tables = NewOrderTables { warehouse, district, customer, item, stock, orders, new_order, order_line };
            match new_order_in(txn, tables, &input) {
                Ok(output) => total = Some(output.total),
                Err(Error::RolledBack) => {
                    return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, "the item does not exist"));
                }
                Err(error) => return Err(error.into()),
            }
            Ok(())
        })?;
        match total.filter(|_| has_engine) {
            Some(total) => Ok(vec![Datum::Numeric(Numeric::from_parts(total, TOTAL_SCALE))]),
            None => Err(SqlError::unsupported("New-Order without an engine")),
        }
    }

    fn is_urgent(&self) -> bool {
        true
    }

    fn prepare_urgent(&self, tables: &[Arc<Table>]) -> SqlResult<()> {
        self.check(tables)
    }
}

fn wrong() -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "an order needs its numbers, and one to 15 lines")
}

/// Reads the arguments of an order.
fn input(arguments: &[Datum]) -> SqlResult<NewOrderInput> {
    let [
        Datum::Int4(warehouse),
        Datum::Int4(district),
        Datum::Int4(customer),
        Datum::Timestamp(entered_us),
        Datum::Array(items),
        Datum::Array(supplies),
        Datum::Array(quantities),
    ] = arguments
    else {
        return Err(wrong());
    };
    if !(1..=LINES_MAX).contains(&items.len()) || items.len() != supplies.len() || items.len() != quantities.len() {
        return Err(wrong());
    }
    let mut lines = [NewOrderLine::default(); LINES_MAX];
    for (line, ((item, supply), quantity)) in lines.iter_mut().zip(items.iter().zip(supplies).zip(quantities)) {
        let (Datum::Int4(item), Datum::Int4(supply_warehouse), Datum::Int4(quantity)) = (item, supply, quantity) else {
            return Err(wrong());
        };
        *line = NewOrderLine { item: *item, supply_warehouse: *supply_warehouse, quantity: *quantity };
    }
    if !(1..=10).contains(district) {
        return Err(wrong());
    }
    let lines = lines.get(..items.len()).unwrap_or_default();
    Ok(NewOrderInput::new(*warehouse, *district, *customer, *entered_us, lines))
}
