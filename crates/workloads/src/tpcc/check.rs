//! The consistency conditions that New-Order and Payment can break, on one snapshot.
//!
//! Those of clause 3.3.2 say nothing of stock, which New-Order changes most, and nothing of rows that are there twice; so
//! we add three of our own. They presume that nothing but New-Order and Payment has run since the load.

use super::Tables;
use super::columns::{
    customer as c, district as d, history as h, new_order as no, order_line as ol, orders as o, stock as s,
    warehouse as w,
};
use super::scale::first_new_order;
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
    /// Its number in clause 3.3.2; 13 and above are our own, see [`check()`].
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
/// Warehouse and item.
type StockKey = (i64, i64);

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
    /// As many as orders at load.
    customers_count: HashMap<Place, i64>,
    payments_counted: HashMap<OrderKey, i64>,
    payments_there: HashMap<OrderKey, i64>,
    stock_on_hand: HashMap<StockKey, i64>,
    /// As the row of stock says.
    sold_counted: HashMap<StockKey, Sold>,
    /// As the order lines since the load say.
    sold_there: HashMap<StockKey, Sold>,
    /// Rows that have the primary key of another one, by table.
    doubles: HashMap<&'static str, i64>,
    paid_at_warehouse: HashMap<i64, i64>,
    paid_at_district: HashMap<Place, i64>,
    paid_by_customer: HashMap<OrderKey, i64>,
}

/// What a warehouse has supplied of an item.
#[derive(Clone, Copy, Default)]
struct Sold {
    quantity: i64,
    lines: i64,
    remote_lines: i64,
}

/// Checks conditions 1 to 12 of clause 3.3.2, and our own: 13, each row of stock counts the lines, quantities and remote
/// lines ordered of it since the load, and has 10 to 100 on hand; 14, each customer counts its payments; 15, no primary
/// key is there twice.
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

const CONDITIONS: [Condition; 15] = [
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
    (11, |facts, report| {
        let orders = sum(facts.orders.keys().map(|(w, d, _)| ((*w, *d), 1)));
        let new_orders = sum(facts.new_orders.iter().map(|(w, d, _)| ((*w, *d), 1)));
        for (place, customers) in &facts.customers_count {
            let rest = of(&orders, place) - of(&new_orders, place);
            let delivered_at_load = i64::from(first_new_order(*customers as i32)) - 1;
            report.equal(place, "orders less rows of new_order, district", rest, delivered_at_load);
        }
    }),
    (12, |facts, report| {
        let delivered = facts.delivered_by_customer();
        for (customer, (balance, paid)) in &facts.customers {
            let what = "c_balance + c_ytd_payment against deliveries, customer";
            report.equal(customer, what, balance + paid, of(&delivered, customer));
        }
    }),
    (13, |facts, report| {
        for (key, counted) in &facts.sold_counted {
            let there = facts.sold_there.get(key).copied().unwrap_or_default();
            report.equal(key, "s_ytd against quantities ordered, stock", counted.quantity, there.quantity);
            report.equal(key, "s_order_cnt against order lines, stock", counted.lines, there.lines);
            report.equal(key, "s_remote_cnt against remote lines, stock", counted.remote_lines, there.remote_lines);
        }
        for (key, on_hand) in &facts.stock_on_hand {
            report.equal(key, "s_quantity against 10 to 100, stock", *on_hand, (*on_hand).clamp(10, 100));
        }
        for key in facts.sold_there.keys().filter(|key| !facts.sold_counted.contains_key(key)) {
            report.equal(key, "order lines against their stock", 1, 0);
        }
    }),
    (14, |facts, report| {
        for (customer, count) in &facts.payments_counted {
            let there = of(&facts.payments_there, customer);
            report.equal(customer, "c_payment_cnt against rows of history, customer", *count, there);
        }
    }),
    (15, |facts, report| {
        for (table, count) in &facts.doubles {
            report.equal(table, "rows whose primary key another row has, table", *count, 0);
        }
    }),
];

impl Facts {
    fn gather(snapshot: &Arc<Snapshot>, tables: &Tables) -> Facts {
        let mut facts = Facts::default();
        each(snapshot, &tables.warehouse, [w::W_ID, w::W_YTD], |[w, ytd]| {
            let before = facts.warehouse_ytd.insert(w, ytd);
            facts.count_double("warehouse", before.is_some());
        });
        each(snapshot, &tables.district, [d::D_W_ID, d::D_ID, d::D_YTD, d::D_NEXT_O_ID], |[w, d, ytd, next]| {
            let before = facts.district_ytd.insert((w, d), ytd);
            facts.count_double("district", before.is_some());
            facts.district_next.insert((w, d), next);
        });
        let columns = [c::C_W_ID, c::C_D_ID, c::C_ID, c::C_BALANCE, c::C_YTD_PAYMENT, c::C_PAYMENT_CNT];
        each(snapshot, &tables.customer, columns, |[w, d, id, balance, paid, payments]| {
            let before = facts.customers.insert((w, d, id), (balance, paid));
            facts.count_double("customer", before.is_some());
            facts.payments_counted.insert((w, d, id), payments);
            *facts.customers_count.entry((w, d)).or_default() += 1;
        });
        let columns = [o::O_W_ID, o::O_D_ID, o::O_ID, o::O_C_ID, o::O_OL_CNT, o::O_CARRIER_ID];
        each(snapshot, &tables.orders, columns, |[w, d, o, customer, lines, carrier]| {
            let before = facts.orders.insert((w, d, o), (lines, carrier != NULL));
            facts.count_double("orders", before.is_some());
            facts.order_customer.insert((w, d, o), customer);
        });
        each(snapshot, &tables.new_order, [no::NO_W_ID, no::NO_D_ID, no::NO_O_ID], |[w, d, o]| {
            let is_first = facts.new_orders.insert((w, d, o));
            facts.count_double("new_order", !is_first);
        });
        facts.gather_lines(snapshot, tables);
        let columns = [s::S_W_ID, s::S_I_ID, s::S_QUANTITY, s::S_YTD, s::S_ORDER_CNT, s::S_REMOTE_CNT];
        each(snapshot, &tables.stock, columns, |[w, item, on_hand, quantity, lines, remote_lines]| {
            let before = facts.stock_on_hand.insert((w, item), on_hand);
            facts.count_double("stock", before.is_some());
            facts.sold_counted.insert((w, item), Sold { quantity, lines, remote_lines });
        });
        let columns = [h::H_W_ID, h::H_D_ID, h::H_C_W_ID, h::H_C_D_ID, h::H_C_ID, h::H_AMOUNT];
        each(snapshot, &tables.history, columns, |[w, d, cw, cd, customer, amount]| {
            *facts.paid_at_warehouse.entry(w).or_default() += amount;
            *facts.paid_at_district.entry((w, d)).or_default() += amount;
            *facts.paid_by_customer.entry((cw, cd, customer)).or_default() += amount;
            *facts.payments_there.entry((cw, cd, customer)).or_default() += 1;
        });
        facts
    }

    /// After the customers: their number says which orders are from the load.
    fn gather_lines(&mut self, snapshot: &Arc<Snapshot>, tables: &Tables) {
        use ol::*;
        let columns = [OL_W_ID, OL_D_ID, OL_O_ID, OL_DELIVERY_D, OL_AMOUNT, OL_SUPPLY_W_ID, OL_I_ID, OL_QUANTITY];
        each(snapshot, &tables.order_line, columns, |[w, d, o, delivered, amount, supply, item, quantity]| {
            let lines = self.lines.entry((w, d, o)).or_default();
            lines.0 += 1;
            if delivered != NULL {
                lines.1 += 1;
                *self.delivered.entry((w, d, o)).or_default() += amount;
            }
            if of(&self.customers_count, &(w, d)) < o {
                let sold = self.sold_there.entry((supply, item)).or_default();
                sold.quantity += quantity;
                sold.lines += 1;
                sold.remote_lines += i64::from(supply != w);
            }
        });
    }

    fn count_double(&mut self, table: &'static str, is_double: bool) {
        if is_double {
            *self.doubles.entry(table).or_default() += 1;
        }
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
