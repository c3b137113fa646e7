//! A hand-written scan with dense safepoints: TPC-H's Q6.
//!
//! **Invariant:** between two safepoints lie at most [`ROWS`] rows, and the code says so ([`preempt::Dense`]), so an urgent
//! transaction needs no signal here.

use engine::{ScanPart, Snapshot, Table};
use preempt::{Dense, safepoint};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use workloads::tpch::TpchTable;

/// Number of rows between two safepoints.
pub const ROWS: usize = 1_024;
/// Number of stretches of [`ROWS`] between two batch boundaries, where a query may yield: as many rows as in a batch of
/// DataFusion.
const PER_BATCH: usize = 8;

/// Range of ship dates: 1994-01-01 to 1995-01-01, in days since 1970.
const SHIPPED: core::ops::Range<i32> = 8_766..9_131;
/// Discounts of 5 % to 7 %, quantities below 24, both with two digits after the point.
const DISCOUNT: core::ops::RangeInclusive<i128> = 5..=7;
const QUANTITY_MAX: i128 = 2_400;

/// Computes Q6's revenue with four digits after the point, unless the scan is cancelled. `at_batch` is called at each
/// batch boundary.
///
/// # Panics
/// If `lineitem` is not TPC-H's table of that name.
pub fn revenue(
    snapshot: &Arc<Snapshot>,
    lineitem: &Arc<Table>,
    cancelled: &AtomicBool,
    at_batch: &mut dyn FnMut(),
) -> Option<i128> {
    let column = |name: &str| lineitem.column(name).expect("lineitem has TPC-H's columns");
    debug_assert_eq!(lineitem.name(), TpchTable::LineItem.name());
    let projection = ["l_shipdate", "l_discount", "l_quantity", "l_extendedprice"].map(column);
    let scan = snapshot.scan(lineitem, &projection, ROWS);
    let _dense = Dense::enter();
    let mut sum = 0;
    for part in scan.split(1) {
        sum += part_revenue(part, cancelled, at_batch)?;
    }
    Some(sum)
}

fn part_revenue(part: ScanPart, cancelled: &AtomicBool, at_batch: &mut dyn FnMut()) -> Option<i128> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Date32Type, Decimal128Type};
    let mut sum = 0;
    for (at, batch) in part.enumerate() {
        let shipped = batch.column(0).as_primitive::<Date32Type>().values();
        let [discount, quantity, price] =
            [1, 2, 3].map(|at| batch.column(at).as_primitive::<Decimal128Type>().values());
        for row in 0..batch.num_rows() {
            let counts =
                SHIPPED.contains(&shipped[row]) & DISCOUNT.contains(&discount[row]) & (quantity[row] < QUANTITY_MAX);
            if counts {
                sum += price[row] * discount[row];
            }
        }
        safepoint();
        if at % PER_BATCH == PER_BATCH - 1 {
            at_batch();
        }
        if cancelled.load(Relaxed) {
            return None;
        }
    }
    Some(sum)
}
