//! Rewriting of logical plans, for the row executor and for analytics alike: simple subqueries of FROM are pulled up, conditions
//! move into subqueries, and what nothing looks at is not computed.
//!
//! **Invariant:** a rewritten plan has the same rows, and fails only where the written one may.

mod pull;
mod push;
mod unused;

use crate::plan::{Expr, JoinGroup, JoinTree, Plan, Slots, all_of, rewrite, slots_of, split};
pub(crate) use pull::{is_simple, pull_up};
use push::{cheapest_first, push_down};
use statement::error::SqlResult;
pub(crate) use unused::drop_unused;

/// Makes the FROM clause of a query with these conditions on its rows. `needed`: places of the row that are looked at; `None`:
/// all.
pub(crate) fn from_clause(mut group: JoinGroup, conditions: Vec<Expr>, needed: Option<&Slots>) -> Plan {
    let width = group.inputs.iter().map(|input| input.first + input.width).max().unwrap_or(0);
    // What looks at nothing that changes is asked once.
    let (when, mut conditions): (Vec<_>, Vec<_>) = conditions.into_iter().flat_map(split).partition(is_once);
    push_down(&mut group, &mut conditions);
    group.conditions = cheapest_first(std::mem::take(&mut group.conditions).into_iter().chain(conditions).collect());
    let mut tree = JoinTree { when: all_of(when), group, width, needed: None };
    if let Some(needed) = needed {
        unused::need(&mut tree, needed);
    }
    Plan::From(Box::new(tree))
}

/// Returns true if a condition is the same for every row: it looks at none, and calls nothing volatile.
fn is_once(condition: &Expr) -> bool {
    slots_of(condition).is_empty() && !condition.is_volatile()
}

/// Returns an expression as a query over its row says it.
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
