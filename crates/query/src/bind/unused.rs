//! Output columns of subqueries that nobody uses: they are not computed, so what would fail in them does not.
//!
//! **Invariant:** a column keeps its place; in an unused one stands NULL, or for an aggregate a count. Columns that change
//! something, or differ from call to call, stay, and so do those that decide which rows there are.

use super::steps::prune;
use super::window::window_parts;
use crate::plan::{
    AggregateCall, Exclude, Expr, Frame, FrameBound, FrameUnit, Plan, SetOperation, Slots, SortKey, WindowCall,
    WindowFunction, slots_of,
};
use types::datum::Datum;
use types::ops::resolve_aggregate;

/// Removes what a plan computes beside these columns.
pub(super) fn drop_unused(plan: &mut Plan, used: &Slots) {
    if statement::plants::is_planted("unused_output_raises") {
        return;
    }
    let with = |more: &mut dyn Iterator<Item = &Expr>| {
        let mut used = used.clone();
        more.for_each(|expr| used.add_all(&slots_of(expr)));
        used
    };
    let with_keys = |keys: &[SortKey]| with(&mut keys.iter().map(|key| &key.value));
    match plan {
        Plan::Project { input, columns } => {
            for (at, column) in columns.iter_mut().enumerate() {
                if !used.has(at) && !column.is_volatile() {
                    *column = Expr::Constant(Datum::Null);
                }
            }
            let mut below = Slots::default();
            columns.iter().for_each(|column| below.add_all(&slots_of(column)));
            drop_unused(input, &below);
        }
        Plan::Filter { input, condition } => drop_unused(input, &with(&mut std::iter::once(&*condition))),
        Plan::Sort { input, keys, is_given: _ } | Plan::Ties { input, keys, limit: _, offset: _ } => {
            drop_unused(input, &with_keys(keys));
        }
        Plan::DistinctOn { input, values } => drop_unused(input, &with(&mut values.iter().map(|(value, _)| value))),
        Plan::Limit { input, limit: _, offset: _ } => drop_unused(input, used),
        Plan::Sets { input, calls } => drop_unused(input, &with(&mut calls.iter().flat_map(|call| &call.arguments))),
        Plan::Aggregate { input, groups, sets: _, calls } => {
            let mut below = Slots::default();
            groups.iter().for_each(|(group, _)| below.add_all(&slots_of(group)));
            for (at, call) in calls.iter_mut().enumerate() {
                if !used.has(groups.len() + at) && !parts(call).any(|part| part.is_volatile()) {
                    count_instead(call);
                }
                parts(call).for_each(|part| below.add_all(&slots_of(part)));
            }
            drop_unused(input, &below);
        }
        Plan::Windows { input, calls } => {
            let Some(width) = width_of(input) else { return };
            let mut below = Slots::default();
            (0..width).filter(|at| used.has(*at)).for_each(|at| below.add(at));
            for (at, call) in calls.iter_mut().enumerate() {
                let is_volatile = window_parts(call).any(|part| part.is_volatile());
                if !used.has(width + at) && !is_volatile {
                    number_instead(call);
                }
                window_parts(call).for_each(|part| below.add_all(&slots_of(part)));
            }
            drop_unused(input, &below);
        }
        Plan::Joins(joins) => prune(&mut joins.steps, used),
        Plan::Set { operation: SetOperation::Union, all: true, left, right, kinds: _ } => {
            drop_unused(left, used);
            drop_unused(right, used);
        }
        // All columns decide which rows there are, or more than one query reads them.
        Plan::Unit
        | Plan::Values(_)
        | Plan::Distinct { .. }
        | Plan::Set { .. }
        | Plan::Lock { .. }
        | Plan::System(_)
        | Plan::Shared { .. }
        | Plan::Recursive(_)
        | Plan::Working(_)
        | Plan::Modified(_)
        | Plan::Modifying { .. } => {}
    }
}

/// Expressions that an aggregate evaluates over a row.
fn parts(call: &AggregateCall) -> impl Iterator<Item = &Expr> {
    let AggregateCall { arguments, order, orders_arguments, filter, aggregate: _, argument_kinds: _, is_distinct: _ } =
        call;
    let keys = if *orders_arguments { &[][..] } else { &order[..] };
    arguments.iter().chain(keys.iter().map(|key| &key.value)).chain(filter)
}

fn count_instead(call: &mut AggregateCall) {
    if let Ok(Some(count)) = resolve_aggregate("count", &[]) {
        *call = AggregateCall {
            aggregate: count.aggregate,
            arguments: Vec::new(),
            argument_kinds: Vec::new(),
            is_distinct: false,
            order: Vec::new(),
            orders_arguments: false,
            filter: None,
        };
    }
}

/// The row's number, which looks at nothing.
fn number_instead(call: &mut WindowCall) {
    *call = WindowCall {
        function: WindowFunction::RowNumber,
        arguments: Vec::new(),
        partition: Vec::new(),
        order: Vec::new(),
        frame: Frame {
            unit: FrameUnit::Rows,
            start: FrameBound::UnboundedPreceding,
            end: FrameBound::CurrentRow,
            exclude: Exclude::NoOthers,
        },
    };
}

/// Places of a row of what windows are computed over.
fn width_of(plan: &Plan) -> Option<usize> {
    match plan {
        Plan::Unit => Some(0),
        Plan::Joins(joins) => Some(joins.width),
        Plan::Filter { input, .. } => width_of(input),
        Plan::Aggregate { groups, sets, calls, input: _ } => {
            Some(groups.len() + calls.len() + usize::from(sets.is_some()))
        }
        _ => None,
    }
}
