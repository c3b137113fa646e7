//! The consistency conditions, on one snapshot.
//!
//! **Invariant:** they hold after any number of any of the five transactions, and while a purge runs beside them: the
//! purge keeps sums of the rows that it removed, and those are added to the rows that are there. Only condition 11 is
//! of the initial population alone.
//!
//! The conditions of clause 3.3.2 do not cover stock, which New-Order changes most, nor rows that are missing or
//! duplicated, so four more are added here.

mod conditions;
mod facts;

use super::TpccTables;
use conditions::CONDITIONS;
use engine::Snapshot;
use facts::Facts;
use std::fmt;
use std::sync::Arc;

/// Condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Number in clause 3.3.2; numbers from 13 are additions, see [`check()`].
    pub condition: u32,
    /// Place of the violation, and the numbers that differ.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TPC-C's consistency condition {} does not hold: {}", self.condition, self.what)
    }
}

/// Condition that any Delivery or New-Order breaks: of each district, as many orders are delivered as at load.
const AFTER_LOAD: u32 = 11;

/// Checks conditions 1 to 10 and 12 of clause 3.3.2, and four more: 13, each row of stock counts the lines, quantities
/// and remote lines ordered of it since the load (with a purge: all rows of a warehouse together), and has 10 to 100 on
/// hand; 14, each customer counts its payments; 15, no primary key is there twice; 16, of each district all orders up
/// to the last one are there or purged.
///
/// # Errors
/// The violations, at most five places for each condition.
pub fn check(snapshot: &Arc<Snapshot>, tables: &TpccTables) -> Result<(), Vec<Violation>> {
    check_while(snapshot, tables, &mut || true).unwrap_or(Ok(()))
}

/// Checks the conditions of [`check()`], and condition 11, which holds for the initial population.
///
/// # Errors
/// The violations, as in [`check()`].
pub fn check_loaded(snapshot: &Arc<Snapshot>, tables: &TpccTables) -> Result<(), Vec<Violation>> {
    violations(snapshot, tables, |_| true, &mut || true).unwrap_or(Ok(()))
}

/// Checks the conditions of [`check()`] for as long as `go_on`, called every few thousand rows, returns true. Returns
/// `None` if it was stopped.
pub fn check_while(
    snapshot: &Arc<Snapshot>,
    tables: &TpccTables,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<Result<(), Vec<Violation>>> {
    violations(snapshot, tables, |condition| condition != AFTER_LOAD, go_on)
}

fn violations(
    snapshot: &Arc<Snapshot>,
    tables: &TpccTables,
    is_wanted: impl Fn(u32) -> bool,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<Result<(), Vec<Violation>>> {
    let facts = Facts::gather(snapshot, tables, go_on)?;
    let mut violations = Vec::new();
    for (condition, test) in CONDITIONS.into_iter().filter(|(condition, _)| is_wanted(*condition)) {
        let mut report = ViolationReport { condition, found: Vec::new() };
        test(&facts, &mut report);
        violations.extend(report.found);
    }
    Some(if violations.is_empty() { Ok(()) } else { Err(violations) })
}

/// Maximum number of violations reported of one condition; the rest is left out.
const REPORTED_MAX: usize = 5;

struct ViolationReport {
    condition: u32,
    found: Vec<Violation>,
}

impl ViolationReport {
    fn equal(&mut self, where_: impl fmt::Debug, what: &str, found: i64, expected: i64) {
        if found != expected && self.found.len() < REPORTED_MAX {
            let what = format!("{what} of {where_:?}: {found}, but {expected} is expected");
            self.found.push(Violation { condition: self.condition, what });
        }
    }
}
