//! Rewriting of logical plans for both executors: pull-up of simple subqueries of FROM, pushdown of quals, and removal
//! of unused output columns.
//!
//! **Invariant:** a rewritten plan has the same rows, and fails only where the original may.

mod pull;
mod push;
mod unused;

use crate::plan::{Expr, JoinGroup, JoinTree, Plan, Slots, all_of, rewrite, slots_of, split};
pub(crate) use pull::{is_simple, pull_up};
use push::{cheapest_first, push_down};
use statement::error::SqlResult;
pub(crate) use unused::drop_unused;

/// Builds the FROM clause of a query with these quals on its rows. `needed` has the slots of the row that are read;
/// `None` means all.
pub(crate) fn from_clause(mut group: JoinGroup, conditions: Vec<Expr>, needed: Option<&Slots>) -> Plan {
    let width = group.inputs.iter().map(|input| input.first + input.width).max().unwrap_or(0);
    // A qual that is the same for all rows becomes a one-time filter.
    let (when, mut conditions): (Vec<_>, Vec<_>) = conditions.into_iter().flat_map(split).partition(is_once);
    push_down(&mut group, &mut conditions);
    group.conditions = cheapest_first(std::mem::take(&mut group.conditions).into_iter().chain(conditions).collect());
    let mut tree = JoinTree { when: all_of(when), group, width, needed: None };
    if let Some(needed) = needed {
        unused::need(&mut tree, needed);
    }
    Plan::From(Box::new(tree))
}

/// True if a condition is the same for every row: it has no columns and nothing volatile.
fn is_once(condition: &Expr) -> bool {
    slots_of(condition).is_empty() && !condition.is_volatile()
}

/// Rewrites an expression for use inside a subquery over its row.
pub(crate) fn lifted(mut expr: Expr) -> SqlResult<Expr> {
    rewrite(&mut expr, 0, &mut |expr, depth| {
        match expr {
            Expr::Column(column) if depth == 0 => *expr = Expr::Outer { level: 1, column: *column },
            Expr::Outer { level, .. } if depth < *level => *level += 1,
            Expr::Outer { level, .. } if depth == *level && 0 < depth => *level += 1,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(expr)
}
