//! The facts that the conditions look at, gathered in one pass over each table.
//!
//! **Invariant:** each fact is of one snapshot. Rows of a table come in the order of their IDs, which nearly is the
//! order of their keys, so most look-ups here find their place in the cache.

use super::super::TpccTables;
use super::super::columns::{
    customer as c, district as d, history as h, new_order as no, order_line as ol, orders as o, purged_customer as pc,
    purged_district as pd, purged_supply as ps, stock as s, warehouse as w,
};
use super::super::purge::Sold;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use engine::{Snapshot, Table};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Map by keys of [`key`].
pub(super) type Map<V> = HashMap<u64, V, BuildHasherDefault<Mixer>>;

/// Hasher of one multiplication: the keys are small numbers, and nobody chooses them to collide.
#[derive(Default)]
pub(super) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Packs warehouse, district, and the number of an order or a customer into one number in the same order; or warehouse,
/// 0 and item.
pub(super) fn key(warehouse: i64, district: i64, number: i64) -> u64 {
    ((warehouse as u64) << 40) | ((district as u64) << 32) | (number as u64 & 0xffff_ffff)
}

/// Returns the key of the district that an order or a customer belongs to.
pub(super) fn place(key: u64) -> u64 {
    key & !0xffff_ffff
}

/// Splits a key into its parts, for messages.
pub(super) fn parts(key: u64) -> (u64, u64, u64) {
    (key >> 40, key >> 32 & 0xff, key & 0xffff_ffff)
}

#[derive(Default)]
pub(super) struct WarehouseFacts {
    pub(super) ytd: Option<i64>,
    /// Sum of the payments that are there and that were purged.
    pub(super) paid: i64,
}

#[derive(Default)]
pub(super) struct DistrictFacts {
    /// Year-to-date sum and the next order's number.
    pub(super) row: Option<(i64, i64)>,
    /// Number of customers, which is that of orders at load.
    pub(super) customers: i64,
    /// Sum of the payments that are there and that were purged.
    pub(super) paid: i64,
    pub(super) orders_purged: i64,
}

#[derive(Default)]
pub(super) struct OrderFacts {
    /// Number of lines claimed, customer, and delivered or not.
    pub(super) row: Option<(i64, i64, bool)>,
    pub(super) is_new: bool,
    pub(super) lines: i64,
    pub(super) lines_delivered: i64,
    /// Amount of the delivered lines.
    pub(super) amount_delivered: i64,
}

#[derive(Default)]
pub(super) struct CustomerFacts {
    /// Balance, payments so far, and their number.
    pub(super) row: Option<(i64, i64, i64)>,
    /// Amount of the delivered order lines that are there and that were purged.
    pub(super) delivered: i64,
    /// Sum of the payments that are there and that were purged.
    pub(super) paid: i64,
    pub(super) payments: i64,
}

#[derive(Default)]
pub(super) struct StockFacts {
    /// Quantity on hand, and the sales according to the row.
    pub(super) row: Option<(i64, Sold)>,
    /// Sales according to the order lines since the load.
    pub(super) there: Sold,
}

#[derive(Default)]
pub(super) struct Facts {
    pub(super) warehouses: Map<WarehouseFacts>,
    pub(super) districts: Map<DistrictFacts>,
    pub(super) orders: Map<OrderFacts>,
    pub(super) customers: Map<CustomerFacts>,
    pub(super) stock: Map<StockFacts>,
    /// Sales of purged orders by supplying warehouse.
    pub(super) sold_purged: Map<Sold>,
    pub(super) is_purged: bool,
    /// Number of rows that have the primary key of another one, by table.
    pub(super) doubles: HashMap<&'static str, i64>,
}

/// Result of a pass; `None` if it was told to stop.
type Gathered = Option<()>;

struct Gathering<'a> {
    snapshot: &'a Arc<Snapshot>,
    go_on: &'a mut dyn FnMut() -> bool,
}

impl Facts {
    pub(super) fn gather(
        snapshot: &Arc<Snapshot>,
        tables: &TpccTables,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<Facts> {
        let mut gathering = Gathering { snapshot, go_on };
        let mut facts = Facts::default();
        facts.places(&mut gathering, tables)?;
        facts.purged(&mut gathering, tables)?;
        facts.orders(&mut gathering, tables)?;
        facts.stock(&mut gathering, tables)?;
        // After customers and stock.
        facts.lines(&mut gathering, tables)?;
        facts.payments(&mut gathering, tables)?;
        for (order, facts_of) in &facts.orders {
            if let Some((_, customer, _)) = facts_of.row {
                let customer = facts.customers.entry(place(*order) | customer as u64).or_default();
                customer.delivered += facts_of.amount_delivered;
            }
        }
        Some(facts)
    }

    fn places(&mut self, gathering: &mut Gathering<'_>, tables: &TpccTables) -> Gathered {
        gathering.each(&tables.warehouse, [w::W_ID, w::W_YTD], |[w, ytd]| {
            let before = self.warehouses.entry(key(w, 0, 0)).or_default().ytd.replace(ytd);
            count_double(&mut self.doubles, "warehouse", before.is_some());
        })?;
        gathering.each(&tables.district, [d::D_W_ID, d::D_ID, d::D_YTD, d::D_NEXT_O_ID], |[w, d, ytd, next]| {
            let before = self.districts.entry(key(w, d, 0)).or_default().row.replace((ytd, next));
            count_double(&mut self.doubles, "district", before.is_some());
        })?;
        let columns = [c::C_W_ID, c::C_D_ID, c::C_ID, c::C_BALANCE, c::C_YTD_PAYMENT, c::C_PAYMENT_CNT];
        gathering.each(&tables.customer, columns, |[w, d, id, balance, paid, payments]| {
            let before = self.customers.entry(key(w, d, id)).or_default().row.replace((balance, paid, payments));
            count_double(&mut self.doubles, "customer", before.is_some());
            self.districts.entry(key(w, d, 0)).or_default().customers += 1;
        })
    }

    /// Adds the sums of a purge.
    fn purged(&mut self, gathering: &mut Gathering<'_>, tables: &TpccTables) -> Gathered {
        let columns = [pd::PD_W_ID, pd::PD_D_ID, pd::PD_ORDERS, pd::PD_PAID];
        gathering.each(&tables.purged.district, columns, |[w, d, orders, paid]| {
            let district = self.districts.entry(key(w, d, 0)).or_default();
            district.orders_purged += orders;
            district.paid += paid;
            self.warehouses.entry(key(w, 0, 0)).or_default().paid += paid;
        })?;
        let columns = [pc::PC_W_ID, pc::PC_D_ID, pc::PC_C_ID, pc::PC_DELIVERED, pc::PC_PAID, pc::PC_PAYMENTS];
        gathering.each(&tables.purged.customer, columns, |[w, d, id, delivered, paid, payments]| {
            let customer = self.customers.entry(key(w, d, id)).or_default();
            customer.delivered += delivered;
            customer.paid += paid;
            customer.payments += payments;
        })?;
        use ps::*;
        let columns =
            [PS_W_ID, PS_QUANTITY, PS_LINES, PS_REMOTE_LINES, PS_QUANTITY_MARK, PS_LINES_MARK, PS_REMOTE_LINES_MARK];
        gathering.each(&tables.purged.supply, columns, |[w, quantity, lines, remote_lines, marks @ ..]| {
            self.is_purged |= 0 < lines;
            let sold = Sold { quantity, lines, remote_lines, marks };
            self.sold_purged.entry(key(w, 0, 0)).or_default().add(&sold);
        })
    }

    fn orders(&mut self, gathering: &mut Gathering<'_>, tables: &TpccTables) -> Gathered {
        let columns = [o::O_W_ID, o::O_D_ID, o::O_ID, o::O_C_ID, o::O_OL_CNT, o::O_CARRIER_ID];
        gathering.each(&tables.orders, columns, |[w, d, o, customer, lines, carrier]| {
            let row = (lines, customer, carrier != NULL);
            let before = self.orders.entry(key(w, d, o)).or_default().row.replace(row);
            count_double(&mut self.doubles, "orders", before.is_some());
        })?;
        gathering.each(&tables.new_order, [no::NO_W_ID, no::NO_D_ID, no::NO_O_ID], |[w, d, o]| {
            let was_new = core::mem::replace(&mut self.orders.entry(key(w, d, o)).or_default().is_new, true);
            count_double(&mut self.doubles, "new_order", was_new);
        })
    }

    fn stock(&mut self, gathering: &mut Gathering<'_>, tables: &TpccTables) -> Gathered {
        let columns = [s::S_W_ID, s::S_I_ID, s::S_QUANTITY, s::S_YTD, s::S_ORDER_CNT, s::S_REMOTE_CNT];
        gathering.each(&tables.stock, columns, |[w, item, on_hand, quantity, lines, remote_lines]| {
            let row = (on_hand, Sold::new(item, quantity, lines, remote_lines));
            let before = self.stock.entry(key(w, 0, item)).or_default().row.replace(row);
            count_double(&mut self.doubles, "stock", before.is_some());
        })
    }

    /// Gathers the order lines. Runs after the customers: their number tells which orders are from the load.
    fn lines(&mut self, gathering: &mut Gathering<'_>, tables: &TpccTables) -> Gathered {
        use ol::*;
        let columns = [OL_W_ID, OL_D_ID, OL_O_ID, OL_DELIVERY_D, OL_AMOUNT, OL_SUPPLY_W_ID, OL_I_ID, OL_QUANTITY];
        let Facts { orders, districts, stock, .. } = self;
        gathering.each(&tables.order_line, columns, |[w, d, o, delivered, amount, supply, item, quantity]| {
            let order = orders.entry(key(w, d, o)).or_default();
            order.lines += 1;
            if delivered != NULL {
                order.lines_delivered += 1;
                order.amount_delivered += amount;
            }
            if districts.get(&key(w, d, 0)).map_or(0, |district| district.customers) < o {
                let sold = Sold::new(item, quantity, 1, i64::from(supply != w));
                stock.entry(key(supply, 0, item)).or_default().there.add(&sold);
            }
        })
    }

    fn payments(&mut self, gathering: &mut Gathering<'_>, tables: &TpccTables) -> Gathered {
        let columns = [h::H_W_ID, h::H_D_ID, h::H_C_W_ID, h::H_C_D_ID, h::H_C_ID, h::H_AMOUNT];
        gathering.each(&tables.history, columns, |[w, d, cw, cd, customer, amount]| {
            self.warehouses.entry(key(w, 0, 0)).or_default().paid += amount;
            self.districts.entry(key(w, d, 0)).or_default().paid += amount;
            let customer = self.customers.entry(key(cw, cd, customer)).or_default();
            customer.paid += amount;
            customer.payments += 1;
        })
    }
}

fn count_double(doubles: &mut HashMap<&'static str, i64>, table: &'static str, is_double: bool) {
    if is_double {
        *doubles.entry(table).or_default() += 1;
    }
}

/// Placeholder of a null; no column has it as a value.
const NULL: i64 = i64::MIN;
/// Number of rows between two checks whether to go on.
const BATCH_ROWS: usize = 4_096;

impl Gathering<'_> {
    /// Calls `row` with the columns of each visible row, as integers.
    fn each<const N: usize>(
        &mut self,
        table: &Arc<Table>,
        columns: [usize; N],
        mut row: impl FnMut([i64; N]),
    ) -> Gathered {
        for batch in self.snapshot.scan(table, &columns, BATCH_ROWS).split(1).into_iter().flatten() {
            if !(self.go_on)() {
                return None;
            }
            rows_of(&batch, &mut row);
        }
        Some(())
    }
}

fn rows_of<const N: usize>(batch: &RecordBatch, row: &mut impl FnMut([i64; N])) {
    let values: [Vec<i64>; N] = core::array::from_fn(|column| integers(batch.column(column)));
    for at in 0..batch.num_rows() {
        row(values.each_ref().map(|column| column[at]));
    }
}

fn integers(array: &dyn Array) -> Vec<i64> {
    let mut integers: Vec<i64> = match array.data_type() {
        DataType::Int32 => array.as_primitive::<Int32Type>().values().iter().map(|value| i64::from(*value)).collect(),
        DataType::Int64 => array.as_primitive::<Int64Type>().values().to_vec(),
        DataType::Timestamp(..) => array.as_primitive::<TimestampMicrosecondType>().values().to_vec(),
        DataType::Decimal128(..) => {
            // Sums of TPC-C have at most 18 digits.
            array.as_primitive::<Decimal128Type>().values().iter().map(|value| *value as i64).collect()
        }
        other => unreachable!("no condition looks at a column of type {other}"),
    };
    if 0 < array.null_count() {
        for (at, integer) in integers.iter_mut().enumerate() {
            if array.is_null(at) {
                *integer = NULL;
            }
        }
    }
    integers
}
