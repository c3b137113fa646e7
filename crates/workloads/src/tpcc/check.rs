//! The consistency conditions that New-Order and Payment can break (clause 3.3.2), on one snapshot.

use super::Tables;
use super::columns::{
    customer as c, district as d, history as h, new_order as no, order_line as ol, orders as o, warehouse as w,
};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type, TimestampMicrosecondType};
use arrow_schema::DataType;
use engine::{Snapshot, Table};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// A condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number in clause 3.3.2.
    pub condition: u32,
    /// Where, and which numbers differ.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TPC-C's consistency condition {} does not hold: {}", self.condition, self.what)
    }
}

/// Violations reported of one condition; the rest is left out.
const REPORTED_MAX: usize = 5;

type Place = (i64, i64);
type OrderKey = (i64, i64, i64);

/// What the conditions look at, gathered in one pass over each table.
#[derive(Default)]
struct Facts {
    warehouse_ytd: HashMap<i64, i64>,
    district_ytd: HashMap<Place, i64>,
    district_next: HashMap<Place, i64>,
    /// Lines that the order claims, and whether it is delivered.
    orders: HashMap<OrderKey, (i64, bool)>,
    new_orders: HashSet<OrderKey>,
    /// Lines there are, and how many of them are delivered.
    lines: HashMap<OrderKey, (i64, i64)>,
    /// Amount of the delivered lines, by order.
    delivered: HashMap<OrderKey, i64>,
    order_customer: HashMap<OrderKey, i64>,
    /// Balance and payments so far.
    customers: HashMap<OrderKey, (i64, i64)>,
    paid_at_warehouse: HashMap<i64, i64>,
    paid_at_district: HashMap<Place, i64>,
    paid_by_customer: HashMap<OrderKey, i64>,
}

/// Checks conditions 1 to 10 and 12. (Condition 11 holds after loading only: it counts orders that New-Order adds.)
///
/// # Errors
/// What does not hold, at most five places for each condition.
pub fn check(snapshot: &Arc<Snapshot>, tables: &Tables) -> Result<(), Vec<Violation>> {
    let facts = Facts::gather(snapshot, tables);
    let mut violations = Vec::new();
    for condition in CONDITIONS {
        let mut report = Report { condition: condition.0, found: Vec::new() };
        condition.1(&facts, &mut report);
        violations.extend(report.found);
    }
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

struct Report {
    condition: u32,
    found: Vec<Violation>,
}

impl Report {
    fn equal(&mut self, where_: impl fmt::Debug, what: &str, found: i64, expected: i64) {
        if found != expected && self.found.len() < REPORTED_MAX {
            let what = format!("{what} of {where_:?}: {found}, but {expected} is expected");
            self.found.push(Violation { condition: self.condition, what });
        }
    }
}

type Condition = (u32, fn(&Facts, &mut Report));

const CONDITIONS: [Condition; 11] = [
    (1, |facts, report| {
        let sums = sum(facts.district_ytd.iter().map(|((w, _), ytd)| (*w, *ytd)));
        for (w, ytd) in &facts.warehouse_ytd {
            report.equal(w, "w_ytd against the sum of d_ytd, warehouse", *ytd, of(&sums, w));
        }
    }),
    (2, |facts, report| {
        let last = max(facts.orders.keys().map(|(w, d, o)| ((*w, *d), *o)));
        let last_new = max(facts.new_orders.iter().map(|(w, d, o)| ((*w, *d), *o)));
        for (place, next) in &facts.district_next {
            report.equal(place, "d_next_o_id - 1 against max(o_id), district", next - 1, of(&last, place));
            if let Some(last_new) = last_new.get(place) {
                report.equal(place, "max(no_o_id) against max(o_id), district", *last_new, of(&last, place));
            }
        }
    }),
    (3, |facts, report| {
        let keys = || facts.new_orders.iter().map(|(w, d, o)| ((*w, *d), *o));
        let (last, first) = (max(keys()), max(keys().map(|(place, o)| (place, -o))));
        for (place, count) in sum(keys().map(|(place, _)| (place, 1))) {
            let span = of(&last, &place) + of(&first, &place) + 1;
            report.equal(place, "rows of new_order against the span of no_o_id, district", count, span);
        }
    }),
    (4, |facts, report| {
        let claimed = sum(facts.orders.iter().map(|((w, d, _), (lines, _))| ((*w, *d), *lines)));
        let there = sum(facts.lines.iter().map(|((w, d, _), (lines, _))| ((*w, *d), *lines)));
        for place in facts.district_next.keys() {
            let what = "sum(o_ol_cnt) against rows of order_line, district";
            report.equal(place, what, of(&claimed, place), of(&there, place));
        }
    }),
    (5, |facts, report| {
        for (key, (_, is_delivered)) in &facts.orders {
            let is_new = facts.new_orders.contains(key);
            report.equal(
                key,
                "order without carrier against its row in new_order",
                i64::from(!is_delivered),
                i64::from(is_new),
            );
        }
        for key in facts.new_orders.iter().filter(|key| !facts.orders.contains_key(key)) {
            report.equal(key, "row in new_order against its order", 1, 0);
        }
    }),
    (6, |facts, report| {
        for (key, (lines, _)) in &facts.orders {
            let there = facts.lines.get(key).map_or(0, |(lines, _)| *lines);
            report.equal(key, "o_ol_cnt against rows of order_line, order", *lines, there);
        }
        for key in facts.lines.keys().filter(|key| !facts.orders.contains_key(key)) {
            report.equal(key, "order lines against their order", 1, 0);
        }
    }),
    (7, |facts, report| {
        for (key, (lines, delivered)) in &facts.lines {
            let is_delivered = facts.orders.get(key).is_some_and(|(_, is_delivered)| *is_delivered);
            let expected = if is_delivered { *lines } else { 0 };
            report.equal(key, "delivered lines against the order's carrier, order", *delivered, expected);
        }
    }),
    (8, |facts, report| {
        for (w, ytd) in &facts.warehouse_ytd {
            report.equal(w, "w_ytd against sum(h_amount), warehouse", *ytd, of(&facts.paid_at_warehouse, w));
        }
    }),
    (9, |facts, report| {
        for (place, ytd) in &facts.district_ytd {
            report.equal(place, "d_ytd against sum(h_amount), district", *ytd, of(&facts.paid_at_district, place));
        }
    }),
    (10, |facts, report| {
        let delivered = facts.delivered_by_customer();
        for (customer, (balance, _)) in &facts.customers {
            let expected = of(&delivered, customer) - of(&facts.paid_by_customer, customer);
            report.equal(customer, "c_balance against deliveries less payments, customer", *balance, expected);
        }
    }),
    (12, |facts, report| {
        let delivered = facts.delivered_by_customer();
        for (customer, (balance, paid)) in &facts.customers {
            let what = "c_balance + c_ytd_payment against deliveries, customer";
            report.equal(customer, what, balance + paid, of(&delivered, customer));
        }
    }),
];

impl Facts {
    fn gather(snapshot: &Arc<Snapshot>, tables: &Tables) -> Facts {
        let mut facts = Facts::default();
        each(snapshot, &tables.warehouse, [w::W_ID, w::W_YTD], |[w, ytd]| {
            facts.warehouse_ytd.insert(w, ytd);
        });
        each(snapshot, &tables.district, [d::D_W_ID, d::D_ID, d::D_YTD, d::D_NEXT_O_ID], |[w, d, ytd, next]| {
            facts.district_ytd.insert((w, d), ytd);
            facts.district_next.insert((w, d), next);
        });
        let columns = [o::O_W_ID, o::O_D_ID, o::O_ID, o::O_C_ID, o::O_OL_CNT, o::O_CARRIER_ID];
        each(snapshot, &tables.orders, columns, |[w, d, o, customer, lines, carrier]| {
            facts.orders.insert((w, d, o), (lines, carrier != NULL));
            facts.order_customer.insert((w, d, o), customer);
        });
        each(snapshot, &tables.new_order, [no::NO_W_ID, no::NO_D_ID, no::NO_O_ID], |[w, d, o]| {
            facts.new_orders.insert((w, d, o));
        });
        let columns = [ol::OL_W_ID, ol::OL_D_ID, ol::OL_O_ID, ol::OL_DELIVERY_D, ol::OL_AMOUNT];
        each(snapshot, &tables.order_line, columns, |[w, d, o, delivered, amount]| {
            let lines = facts.lines.entry((w, d, o)).or_default();
            lines.0 += 1;
            if delivered != NULL {
                lines.1 += 1;
                *facts.delivered.entry((w, d, o)).or_default() += amount;
            }
        });
        let columns = [c::C_W_ID, c::C_D_ID, c::C_ID, c::C_BALANCE, c::C_YTD_PAYMENT];
        each(snapshot, &tables.customer, columns, |[w, d, id, balance, paid]| {
            facts.customers.insert((w, d, id), (balance, paid));
        });
        let columns = [h::H_W_ID, h::H_D_ID, h::H_C_W_ID, h::H_C_D_ID, h::H_C_ID, h::H_AMOUNT];
        each(snapshot, &tables.history, columns, |[w, d, cw, cd, customer, amount]| {
            *facts.paid_at_warehouse.entry(w).or_default() += amount;
            *facts.paid_at_district.entry((w, d)).or_default() += amount;
            *facts.paid_by_customer.entry((cw, cd, customer)).or_default() += amount;
        });
        facts
    }

    fn delivered_by_customer(&self) -> HashMap<OrderKey, i64> {
        sum(self.delivered.iter().filter_map(|(key, amount)| {
            let customer = self.order_customer.get(key)?;
            Some(((key.0, key.1, *customer), *amount))
        }))
    }
}

/// Stands for a null; no column has it as a value.
const NULL: i64 = i64::MIN;

/// Calls `row` with the columns of each visible row, as integers.
fn each<const N: usize>(
    snapshot: &Arc<Snapshot>,
    table: &Arc<Table>,
    columns: [usize; N],
    mut row: impl FnMut([i64; N]),
) {
    for part in snapshot.scan(table, &columns, 1_024).split(1) {
        for batch in part {
            let values: [Vec<i64>; N] = core::array::from_fn(|column| integers(batch.column(column)));
            for at in 0..batch.num_rows() {
                row(values.each_ref().map(|column| column[at]));
            }
        }
    }
}

fn integers(array: &dyn Array) -> Vec<i64> {
    let value = |at: usize| match array.data_type() {
        DataType::Int32 => i64::from(array.as_primitive::<Int32Type>().value(at)),
        DataType::Timestamp(..) => array.as_primitive::<TimestampMicrosecondType>().value(at),
        DataType::Decimal128(..) => i64::try_from(array.as_primitive::<Decimal128Type>().value(at))
            .expect("money of TPC-C has at most 12 digits"),
        other => unreachable!("no condition looks at a column of type {other}"),
    };
    (0..array.len()).map(|at| if array.is_null(at) { NULL } else { value(at) }).collect()
}

fn sum<K: std::hash::Hash + Eq>(pairs: impl Iterator<Item = (K, i64)>) -> HashMap<K, i64> {
    pairs.fold(HashMap::new(), |mut sums, (key, value)| {
        *sums.entry(key).or_default() += value;
        sums
    })
}

fn max<K: std::hash::Hash + Eq>(pairs: impl Iterator<Item = (K, i64)>) -> HashMap<K, i64> {
    pairs.fold(HashMap::new(), |mut best, (key, value)| {
        best.entry(key).and_modify(|best: &mut i64| *best = value.max(*best)).or_insert(value);
        best
    })
}

fn of<K: std::hash::Hash + Eq>(map: &HashMap<K, i64>, key: &K) -> i64 {
    map.get(key).copied().unwrap_or(0)
}
