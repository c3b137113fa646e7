//! The conditions, each a function of the facts.

use super::super::purge::Sold;
use super::super::scale::first_new_order;
use super::ViolationReport;
use super::facts::{Facts, Map, parts, place};

type ConditionCheck = (u32, fn(&Facts, &mut ViolationReport));

pub(super) const CONDITIONS: [ConditionCheck; 16] = [
    (1, |facts, report| {
        let sums =
            sum(facts.districts.iter().map(|(key, district)| (warehouse(*key), district.row.map_or(0, |row| row.0))));
        for (key, ytd) in facts.warehouses.iter().filter_map(|(key, facts)| Some((key, facts.ytd?))) {
            report.equal(parts(*key).0, "w_ytd against the sum of d_ytd, warehouse", ytd, of(&sums, *key));
        }
    }),
    (2, |facts, report| {
        let last = max(facts.orders.iter().filter(|(_, order)| order.row.is_some()).map(|(key, _)| *key));
        let last_new = max(facts.orders.iter().filter(|(_, order)| order.is_new).map(|(key, _)| *key));
        for (key, next) in districts(facts) {
            report.equal(parts(key), "d_next_o_id - 1 against max(o_id), district", next - 1, of(&last, key));
            if let Some(last_new) = last_new.get(&key) {
                report.equal(parts(key), "max(no_o_id) against max(o_id), district", *last_new, of(&last, key));
            }
        }
    }),
    (3, |facts, report| {
        let new = || facts.orders.iter().filter(|(_, order)| order.is_new).map(|(key, _)| *key);
        let last = max(new());
        let first = new().fold(Map::default(), |mut first: Map<i64>, key| {
            let number = parts(key).2 as i64;
            first.entry(place(key)).and_modify(|first| *first = number.min(*first)).or_insert(number);
            first
        });
        for (key, count) in sum(new().map(|key| (place(key), 1))) {
            let span = of(&last, key) - of(&first, key) + 1;
            report.equal(parts(key), "rows of new_order against the span of no_o_id, district", count, span);
        }
    }),
    (4, |facts, report| {
        let claimed = sum(facts.orders.iter().filter_map(|(key, order)| Some((place(*key), order.row?.0))));
        let there = sum(facts.orders.iter().map(|(key, order)| (place(*key), order.lines)));
        for key in facts.districts.keys() {
            let what = "sum(o_ol_cnt) against rows of order_line, district";
            report.equal(parts(*key), what, of(&claimed, *key), of(&there, *key));
        }
    }),
    (5, |facts, report| {
        for (key, order) in &facts.orders {
            let is_new = i64::from(order.is_new);
            match order.row {
                Some((_, _, is_delivered)) => {
                    let what = "order without carrier against its row in new_order";
                    report.equal(parts(*key), what, i64::from(!is_delivered), is_new);
                }
                None => report.equal(parts(*key), "row in new_order against its order", is_new, 0),
            }
        }
    }),
    (6, |facts, report| {
        for (key, order) in &facts.orders {
            let what = "o_ol_cnt against rows of order_line, order";
            report.equal(parts(*key), what, order.row.map_or(0, |row| row.0), order.lines);
        }
    }),
    (7, |facts, report| {
        for (key, order) in &facts.orders {
            let is_delivered = order.row.is_some_and(|(_, _, is_delivered)| is_delivered);
            let expected = if is_delivered { order.lines } else { 0 };
            let what = "delivered lines against the order's carrier, order";
            report.equal(parts(*key), what, order.lines_delivered, expected);
        }
    }),
    (8, |facts, report| {
        for (key, facts) in &facts.warehouses {
            let what = "w_ytd against sum(h_amount), warehouse";
            report.equal(parts(*key).0, what, facts.ytd.unwrap_or(0), facts.paid);
        }
    }),
    (9, |facts, report| {
        for (key, facts) in &facts.districts {
            let ytd = facts.row.map_or(0, |row| row.0);
            report.equal(parts(*key), "d_ytd against sum(h_amount), district", ytd, facts.paid);
        }
    }),
    (10, |facts, report| {
        for (key, facts) in &facts.customers {
            let balance = facts.row.map_or(0, |row| row.0);
            let what = "c_balance against deliveries less payments, customer";
            report.equal(parts(*key), what, balance, facts.delivered - facts.paid);
        }
    }),
    (11, |facts, report| {
        let there = facts.orders.iter().filter(|(_, order)| order.row.is_some());
        let rest = sum(there.map(|(key, order)| (place(*key), i64::from(!order.is_new))));
        for (key, facts) in &facts.districts {
            let delivered_at_load = i64::from(first_new_order(facts.customers as i32)) - 1;
            let what = "orders less rows of new_order, district";
            report.equal(parts(*key), what, of(&rest, *key), delivered_at_load);
        }
    }),
    (12, |facts, report| {
        for (key, facts) in &facts.customers {
            let claimed = facts.row.map_or(0, |(balance, paid, _)| balance + paid);
            let what = "c_balance + c_ytd_payment against deliveries, customer";
            report.equal(parts(*key), what, claimed, facts.delivered);
        }
    }),
    (13, stock),
    (14, |facts, report| {
        for (key, facts) in &facts.customers {
            let counted = facts.row.map_or(0, |row| row.2);
            report.equal(parts(*key), "c_payment_cnt against payments, customer", counted, facts.payments);
        }
    }),
    (15, |facts, report| {
        for (table, count) in &facts.doubles {
            report.equal(table, "rows whose primary key another row has, table", *count, 0);
        }
    }),
    (16, |facts, report| {
        let there = sum(facts.orders.iter().map(|(key, order)| (place(*key), i64::from(order.row.is_some()))));
        for (key, next) in districts(facts) {
            let orders = of(&there, key) + facts.districts[&key].orders_purged;
            report.equal(parts(key), "orders there and purged against d_next_o_id - 1, district", orders, next - 1);
        }
    }),
];

fn stock(facts: &Facts, report: &mut ViolationReport) {
    for (key, stock) in &facts.stock {
        let where_ = (parts(*key).0, parts(*key).2);
        let (on_hand, counted) = stock.row.unwrap_or((10, Sold::default()));
        report.equal(where_, "s_quantity against 10 to 100, stock", on_hand, on_hand.clamp(10, 100));
        if stock.row.is_none() {
            report.equal(where_, "order lines against their stock", stock.there.lines, 0);
        } else if !facts.is_purged {
            sold(report, where_, &counted, &stock.there);
        }
    }
    if facts.is_purged {
        let mut counted: Map<Sold> = Map::default();
        let mut there: Map<Sold> = Map::default();
        for (key, stock) in &facts.stock {
            counted.entry(warehouse(*key)).or_default().add(&stock.row.unwrap_or_default().1);
            there.entry(warehouse(*key)).or_default().add(&stock.there);
        }
        for (key, counted) in &counted {
            let mut there = there.get(key).copied().unwrap_or_default();
            there.add(&facts.sold_purged.get(key).copied().unwrap_or_default());
            sold(report, (parts(*key).0, "all items"), counted, &there);
            report.equal(parts(*key).0, "items sold against items ordered, warehouse", counted.mark(), there.mark());
        }
    }
}

fn sold(report: &mut ViolationReport, where_: impl std::fmt::Debug + Copy, counted: &Sold, there: &Sold) {
    report.equal(where_, "s_ytd against quantities ordered, stock", counted.quantity, there.quantity);
    report.equal(where_, "s_order_cnt against order lines, stock", counted.lines, there.lines);
    report.equal(where_, "s_remote_cnt against remote lines, stock", counted.remote_lines, there.remote_lines);
}

/// Returns the districts that have a row, and the number of each one's next order.
fn districts(facts: &Facts) -> impl Iterator<Item = (u64, i64)> {
    facts.districts.iter().filter_map(|(key, district)| Some((*key, district.row?.1)))
}

/// Returns the key of the warehouse that a district or a stock belongs to.
fn warehouse(key: u64) -> u64 {
    key >> 40 << 40
}

fn sum(pairs: impl Iterator<Item = (u64, i64)>) -> Map<i64> {
    pairs.fold(Map::default(), |mut sums, (key, value)| {
        *sums.entry(key).or_default() += value;
        sums
    })
}

/// Returns the greatest number of each district.
fn max(keys: impl Iterator<Item = u64>) -> Map<i64> {
    keys.fold(Map::default(), |mut best: Map<i64>, key| {
        let number = parts(key).2 as i64;
        best.entry(place(key)).and_modify(|best| *best = number.max(*best)).or_insert(number);
        best
    })
}

fn of(map: &Map<i64>, key: u64) -> i64 {
    map.get(&key).copied().unwrap_or(0)
}
