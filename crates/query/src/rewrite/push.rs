//! Pushdown of quals into subqueries of `FROM`, as PostgreSQL's `subquery_push_qual`: rows that they exclude are not
//! computed.
//!
//! **Invariant:** a qual is pushed below an operator only if removing the excluded rows changes no other row of its
//! result: below window functions only if it refers to partition keys alone, below grouping only if it refers to
//! grouping columns alone, and never below a limit.

use super::is_once;
use crate::plan::{
    Expr, InputKind, JoinGroup, JoinInput, JoinTree, Plan, SetOperation, Slots, all_of, is_same, rewrite, slots_of,
    split, visit,
};
use statement::error::SqlResult;

/// Moves each condition that refers to a single subquery into it, if that can take it.
pub(super) fn push_down(group: &mut JoinGroup, conditions: &mut Vec<Expr>) {
    for input in &mut group.inputs {
        let JoinInput { kind, first, width, outer, needs: _ } = input;
        let InputKind::Query { plan, is_lateral: false } = kind else { continue };
        let (own, mut pushed) = (Slots::range(*first, *width), Vec::new());
        let mut take = |conditions: &mut Vec<Expr>| {
            conditions.retain(|condition| {
                let slots = slots_of(condition);
                let is_own = !slots.is_empty() && !slots.looks_out && slots.is_within(&own);
                if !is_own || condition.has_query() || condition.is_volatile() {
                    return true;
                }
                let mut within = condition.clone();
                let is_taken = moved(&mut within, *first) && takes(plan, &within);
                if is_taken {
                    pushed.push(within);
                }
                !is_taken
            });
        };
        match outer {
            None => {
                take(&mut group.conditions);
                take(conditions);
            }
            Some(outer) => {
                outer.on = std::mem::take(&mut outer.on).into_iter().flat_map(split).collect();
                take(&mut outer.on);
            }
        }
        push(plan, pushed);
    }
}

/// Moves a condition on the row to the columns that start at slot `first`.
fn moved(condition: &mut Expr, first: usize) -> bool {
    replaced(condition, &|column| column.checked_sub(first).map(Expr::Column))
}

/// Replaces columns by values in an expression without subqueries. Returns false if a column has none.
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

/// Rewrites a condition on computed values as one on the rows below; `None` if a value that it refers to is volatile or
/// has a subquery, which would be evaluated again.
fn below(condition: &Expr, values: &[&Expr]) -> Option<Expr> {
    let slots = slots_of(condition);
    let is_plain = |(at, value): (usize, &&Expr)| !(slots.has(at) && (value.is_volatile() || value.has_query()));
    let mut below = condition.clone();
    let is_made = values.iter().enumerate().all(is_plain)
        && replaced(&mut below, &|column| values.get(column).map(|value| (*value).clone()));
    is_made.then_some(below)
}

/// True if a condition on the rows of a plan can be evaluated inside it.
fn takes(plan: &Plan, condition: &Expr) -> bool {
    match plan {
        Plan::Project { input, columns } => {
            if let Plan::Windows { input: _, calls } = &**input {
                let slots = slots_of(condition);
                let is_of_partitions = |(at, column): (usize, &Expr)| {
                    // Copies of a subquery do not count as equal, since only the partition key itself is constant in a
                    // partition.
                    let is_partition = |(value, _): &(Expr, _)| is_same(value, column, None);
                    !slots.has(at) || calls.iter().all(|call| call.partition.iter().any(is_partition))
                };
                if !columns.iter().enumerate().all(is_of_partitions) {
                    return false;
                }
            }
            below(condition, &columns.iter().collect::<Vec<_>>()).is_some_and(|below| takes(input, &below))
        }
        // The caller has checked that the condition refers to partition keys only.
        Plan::Windows { input, calls: _ } | Plan::Sort { input, keys: _ } => takes(input, condition),
        Plan::Distinct { input, kinds } => {
            let is_of_values = !slots_of(condition).reaches(kinds.len());
            is_of_values && matches!(**input, Plan::Project { .. }) && takes(input, condition)
        }
        Plan::Set { left, right, operation: SetOperation::Union | SetOperation::Intersect, all: _, kinds: _ } => {
            takes(left, condition) && takes(right, condition)
        }
        Plan::Unit | Plan::From(_) | Plan::Filter { .. } | Plan::Aggregate { .. } => true,
        // A filter below would change the remaining rows, the plan has several readers, or there is no computation to
        // save. Like PostgreSQL, this leaves EXCEPT alone.
        Plan::Values(_)
        | Plan::Sets { .. }
        | Plan::Set { operation: SetOperation::Except, .. }
        | Plan::DistinctOn { .. }
        | Plan::Limit { .. }
        | Plan::Ties { .. }
        | Plan::Lock { .. }
        | Plan::System(_)
        | Plan::Routine(_)
        | Plan::Shared { .. }
        | Plan::Recursive(_)
        | Plan::Working(_)
        | Plan::Modified(_)
        | Plan::Modifying { .. }
        | Plan::Joins(_) => false,
    }
}

/// Pushes conditions into a plan that takes each of them. They are pushed together, so that each place sorts them once.
fn push(plan: &mut Plan, conditions: Vec<Expr>) {
    if conditions.is_empty() {
        return;
    }
    let here = match plan {
        Plan::Project { input, columns } => {
            let values: Vec<&Expr> = columns.iter().collect();
            let (within, here) = moved_below(conditions, |condition| below(condition, &values));
            push(input, within);
            here
        }
        Plan::Windows { input, calls: _ } | Plan::Distinct { input, kinds: _ } | Plan::Sort { input, keys: _ } => {
            return push(input, conditions);
        }
        Plan::Set { left, right, operation: SetOperation::Union | SetOperation::Intersect, all: _, kinds: _ } => {
            push(left, conditions.clone());
            return push(right, conditions);
        }
        Plan::Aggregate { input, groups, sets: None, calls: _ } if !groups.is_empty() => {
            let values: Vec<&Expr> = groups.iter().map(|(group, _)| group).collect();
            let of_groups = |condition: &Expr| {
                let is_of_groups = !slots_of(condition).reaches(values.len());
                is_of_groups.then(|| below(condition, &values)).flatten().filter(|below| takes(input, below))
            };
            let (within, here) = moved_below(conditions, of_groups);
            push(input, within);
            here
        }
        Plan::Filter { input, condition: own } => {
            let (within, here) = if let Plan::Aggregate { groups, .. } = &**input {
                conditions.into_iter().partition(|condition| !slots_of(condition).reaches(groups.len()))
            } else {
                (Vec::new(), conditions)
            };
            push(input, within);
            if !here.is_empty() {
                let before = std::mem::replace(own, Expr::And(Vec::new()));
                *own = Expr::And(cheapest_first(split(before).into_iter().chain(here).collect()));
            }
            return;
        }
        Plan::From(tree) => return ask(tree, conditions),
        // A filter above is correct for any plan.
        _ => conditions,
    };
    if let Some(condition) = all_of(cheapest_first(here)) {
        let input = Box::new(std::mem::replace(plan, Plan::Unit));
        *plan = Plan::Filter { input, condition };
    }
}

/// Splits conditions into those that can be evaluated below, in rewritten form, and those that cannot.
fn moved_below(conditions: Vec<Expr>, below: impl Fn(&Expr) -> Option<Expr>) -> (Vec<Expr>, Vec<Expr>) {
    let (mut within, mut here) = (Vec::new(), Vec::new());
    for condition in conditions {
        match below(&condition) {
            Some(below) => within.push(below),
            None => here.push(condition),
        }
    }
    (within, here)
}

/// Adds quals to a join tree, and pushes them further into its subqueries as far as possible.
fn ask(tree: &mut JoinTree, conditions: Vec<Expr>) {
    let JoinTree { when, group, width: _, needed: _ } = tree;
    let (once, mut conditions): (Vec<_>, Vec<_>) = conditions.into_iter().flat_map(split).partition(is_once);
    *when = all_of(when.take().into_iter().flat_map(split).chain(once).collect());
    push_down(group, &mut conditions);
    group.conditions.extend(conditions);
    group.conditions = cheapest_first(std::mem::take(&mut group.conditions));
}

/// Sorts conditions by cost, as PostgreSQL's `order_qual_clauses` does, so that cheap ones are evaluated first.
pub(super) fn cheapest_first(mut conditions: Vec<Expr>) -> Vec<Expr> {
    const QUERY: usize = 1_000_000;
    let cost = |condition: &Expr| {
        let mut cost = 0;
        #[cfg(test)]
        tests::JUDGED.set(tests::JUDGED.get() + 1);
        visit(condition, 0, &mut |part, depth| {
            // The unit is half a call, because half of a list is searched on average.
            cost += match part {
                _ if 0 < depth => 0,
                Expr::Call { .. } | Expr::Cast { .. } | Expr::IsSame { .. } | Expr::Extreme { .. } => 2,
                Expr::Routine(call) => (2.0 * call.routine.cost) as usize,
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

#[cfg(test)]
mod tests {
    use crate::bind::Binder;
    use catalog::Catalog;
    use std::cell::Cell;
    use types::ops::NoSession;

    thread_local! {
        /// Number of conditions whose cost was computed.
        pub(super) static JUDGED: Cell<usize> = const { Cell::new(0) };
    }

    /// Goal: the work is linear in the number of conditions. Method: count the computations of a cost.
    #[test]
    fn many_conditions_are_put_in_order_once() {
        let catalog = Catalog::default().current();
        for query in [
            "select a, b from (values (1, 2)) t (a, b) offset 0",
            "select a, count(*) b from (values (1, 2)) t (a, b) group by a",
            "select a, b, rank() over (partition by a) from (values (1, 2)) t (a, b)",
            "select distinct a, b from (values (1, 2)) t (a, b)",
            "select a, b from (values (1, 2)) t (a, b) union select b, a from (values (1, 2)) t (a, b)",
            "select x.a, y.b from (values (1)) x (a), (values (2)) y (b)",
        ] {
            let count = 200;
            let conditions: Vec<String> = (0..count).map(|at| format!("a + {at} > {at}")).collect();
            JUDGED.set(0);
            let text = format!("select * from ({query}) q where {}", conditions.join(" and "));
            let bound = statement::stack::bounded(|| {
                let tree = syntax::grammar::query(&text)?;
                Binder::new(&catalog, &[], &text, &NoSession, Vec::new()).query(&tree, None).map(drop)
            });
            bound.expect(query);
            assert!((count..=4 * count).contains(&JUDGED.get()), "{query}: {} were judged", JUDGED.get());
        }
    }
}
