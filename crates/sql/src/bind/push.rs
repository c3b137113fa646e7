//! Conditions on the columns of a subquery of `FROM` are asked within it, as PostgreSQL's `subquery_push_qual` does: what they
//! exclude is not computed.
//!
//! **Invariant:** a condition goes only below what says the same of each row without the rows that it excludes: below a window
//! only if it looks at nothing but the partition, below groups only if it looks at nothing but them, and never below a limit.

use super::access::{self, Wanted};
use super::from::{Group, Item, ItemSource, all_of, split};
use super::group::is_same;
use crate::error::SqlResult;
use crate::plan::{Access, Expr, Plan, SetOperation, Slots, Source, Step, rewrite, slots_of, visit};

/// Asks of these conditions within the subqueries what looks at one of those alone.
pub(super) fn push_down(group: &mut Group, conditions: &mut Vec<Expr>) {
    for item in &mut group.items {
        let Item { source, first, width, outer, needs: _ } = item;
        let ItemSource::Query { plan, is_lateral: false } = source else { continue };
        let own = Slots::range(*first, *width);
        let mut push_all = |conditions: &mut Vec<Expr>| {
            conditions.retain(|condition| {
                let slots = slots_of(condition);
                if slots.is_empty() || slots.looks_out || !slots.is_within(&own) {
                    return true;
                }
                let mut within = condition.clone();
                let is_moved = !condition.has_query() && !condition.is_volatile() && moved(&mut within, *first);
                !(is_moved && push(plan, &within, true, false) && push(plan, &within, false, false))
            });
        };
        match outer {
            None => {
                push_all(&mut group.conditions);
                push_all(conditions);
            }
            Some(outer) => {
                outer.on = std::mem::take(&mut outer.on).into_iter().flat_map(split).collect();
                push_all(&mut outer.on);
            }
        }
    }
}

/// Makes a condition on a row one on the columns that begin there.
fn moved(condition: &mut Expr, first: usize) -> bool {
    replaced(condition, &|column| column.checked_sub(first).map(Expr::Column))
}

/// Puts values in the places of columns. An expression without queries.
fn replaced(expr: &mut Expr, value: &dyn Fn(usize) -> Option<Expr>) -> bool {
    let mut is_whole = true;
    let done: SqlResult<()> = rewrite(expr, 0, &mut |expr, _| {
        let Expr::Column(column) = expr else { return Ok(false) };
        match value(*column) {
            Some(value) => *expr = value,
            None => is_whole = false,
        }
        Ok(true)
    });
    done.is_ok() && is_whole
}

/// Asks a condition on the rows of a plan within it; `is_trial` only says whether that can be. The rows may be wanted in the
/// order in which an index gives them.
fn push(plan: &mut Plan, condition: &Expr, is_trial: bool, is_ordered: bool) -> bool {
    let slots = slots_of(condition);
    match plan {
        Plan::Project { input, columns } => {
            if let Plan::Windows { input: _, calls } = &**input {
                let is_of_partitions = |(at, column): (usize, &Expr)| {
                    let is_partition = |(value, _): &(Expr, _)| is_same(value, column);
                    !slots.has(at) || calls.iter().all(|call| call.partition.iter().any(is_partition))
                };
                if !columns.iter().enumerate().all(is_of_partitions) {
                    return false;
                }
            }
            let is_plain =
                |(at, column): (usize, &Expr)| !(slots.has(at) && (column.is_volatile() || column.has_query()));
            let mut below = condition.clone();
            columns.iter().enumerate().all(is_plain)
                && replaced(&mut below, &|column| columns.get(column).cloned())
                && push(input, &below, is_trial, is_ordered)
        }
        // What it looks at is the partition.
        Plan::Windows { input, calls: _ } => push(input, condition, is_trial, is_ordered),
        Plan::Sort { input, keys: _, is_given } => push(input, condition, is_trial, is_ordered || *is_given),
        Plan::Distinct { input, kinds } => {
            !slots.reaches(kinds.len())
                && matches!(**input, Plan::Project { .. })
                && push(input, condition, is_trial, is_ordered)
        }
        Plan::Set { left, right, operation: SetOperation::Union | SetOperation::Intersect, all: _, kinds: _ } => {
            push(left, condition, is_trial, is_ordered) && push(right, condition, is_trial, is_ordered)
        }
        Plan::Aggregate { input, groups, sets: None, calls: _ }
            if !groups.is_empty() && !slots.reaches(groups.len()) =>
        {
            let mut below = condition.clone();
            let is_plain =
                |(at, (group, _)): (usize, &(Expr, _))| !(slots.has(at) && (group.is_volatile() || group.has_query()));
            let is_moved = groups.iter().enumerate().all(is_plain)
                && replaced(&mut below, &|column| groups.get(column).map(|(group, _)| group.clone()));
            if is_moved && push(input, &below, true, is_ordered) {
                return push(input, &below, is_trial, is_ordered);
            }
            filter(plan, condition, is_trial)
        }
        Plan::Filter { input, condition: own } => {
            if matches!(**input, Plan::Aggregate { .. })
                && push(input, condition, true, is_ordered)
                && !matches!(&**input, Plan::Aggregate { groups, .. } if slots.reaches(groups.len()))
            {
                return push(input, condition, is_trial, is_ordered);
            }
            if !is_trial {
                let before = std::mem::replace(own, Expr::And(Vec::new()));
                *own = Expr::And(cheapest_first(split(before).into_iter().chain([condition.clone()]).collect()));
            }
            true
        }
        Plan::Joins(joins) => {
            if let ([step], false, true) = (&mut joins.steps[..], is_ordered, !is_trial)
                && search(step, condition)
            {
                return true;
            }
            filter(plan, condition, is_trial)
        }
        Plan::Unit | Plan::Aggregate { .. } => filter(plan, condition, is_trial),
        // Fewer rows would be others, or more than one query reads them, or nothing is computed of them. PostgreSQL leaves EXCEPT
        // alone, too.
        Plan::Values(_)
        | Plan::Sets { .. }
        | Plan::Set { operation: SetOperation::Except, .. }
        | Plan::DistinctOn { .. }
        | Plan::Limit { .. }
        | Plan::Ties { .. }
        | Plan::Lock { .. }
        | Plan::System(_)
        | Plan::Shared { .. }
        | Plan::Recursive(_)
        | Plan::Working(_)
        | Plan::Modified(_)
        | Plan::Modifying { .. } => false,
    }
}

fn filter(plan: &mut Plan, condition: &Expr, is_trial: bool) -> bool {
    if !is_trial {
        let input = Box::new(std::mem::replace(plan, Plan::Unit));
        *plan = Plan::Filter { input, condition: condition.clone() };
    }
    true
}

/// Asks the condition of the rows of one table, which an index may find by it.
fn search(step: &mut Step, condition: &Expr) -> bool {
    let Step { source: Source::Table { table, access, .. }, is_outer: false, on, first, kept: None, .. } = step else {
        return false;
    };
    let own = on.take().map(split).unwrap_or_default();
    let all = cheapest_first(own.into_iter().chain(split(condition.clone())).collect());
    if matches!(access, Access::All | Access::Index { .. }) {
        let wanted = Wanted { table, first: *first, known: &Slots::default() };
        *access = access::choose(&wanted, &all.iter().collect::<Vec<_>>()).0;
    }
    *on = all_of(all);
    true
}

/// Conditions in the order in which they are asked: as by PostgreSQL's `order_qual_clauses`, what computes less comes first.
pub(super) fn cheapest_first(mut conditions: Vec<Expr>) -> Vec<Expr> {
    const QUERY: usize = 1_000_000;
    let cost = |condition: &Expr| {
        let mut cost = 0;
        visit(condition, 0, &mut |part, depth| {
            // In halves, as a list is gone through by half.
            cost += match part {
                _ if 0 < depth => 0,
                Expr::Call { .. } | Expr::Cast { .. } | Expr::IsSame { .. } | Expr::Extreme { .. } => 2,
                Expr::InList { list, .. } => list.len(),
                Expr::Quantified { .. } => 10,
                Expr::Scalar(_) | Expr::Exists(_) | Expr::InQuery { .. } | Expr::ArrayQuery(_) => QUERY,
                _ => 0,
            };
        });
        cost
    };
    conditions.sort_by_cached_key(cost);
    conditions
}
