//! Removal of unused output columns of subqueries: they are not computed, so they cannot fail either.
//!
//! **Invariant:** a column keeps its slot; an unused one becomes NULL, or a count in place of an aggregate. Volatile
//! columns stay, and so do those that decide about the number of rows.

use crate::plan::{
    AggregateCall, Exclude, Expr, Frame, FrameBound, FrameUnit, InputKind, JoinGroup, JoinTree, Plan, SetOperation,
    Slots, SortKey, WindowCall, WindowFunction, add_child, children_of_group, slots_of,
};
use types::datum::Datum;
use types::ops::resolve_aggregate;

/// Removes the computation of columns of a plan other than the used ones.
pub(crate) fn drop_unused(plan: &mut Plan, used: &Slots) {
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
        Plan::Sort { input, keys } | Plan::Ties { input, keys, limit: _, offset: _ } => {
            drop_unused(input, &with_keys(keys));
        }
        Plan::DistinctOn { input, values } => drop_unused(input, &with(&mut values.iter().map(|(value, _)| value))),
        Plan::Limit { input, limit: _, offset: _ } => drop_unused(input, used),
        Plan::Sets { input, calls } => drop_unused(input, &with(&mut calls.iter().flat_map(|call| &call.arguments))),
        Plan::Aggregate { input, groups, sets: _, calls } => {
            let mut below = Slots::default();
            groups.iter().for_each(|(group, _)| below.add_all(&slots_of(group)));
            for (at, call) in calls.iter_mut().enumerate() {
                if !used.has(groups.len() + at) && !call.parts().any(Expr::is_volatile) {
                    count_instead(call);
                }
                call.parts().for_each(|part| below.add_all(&slots_of(part)));
            }
            drop_unused(input, &below);
        }
        Plan::Windows { input, calls } => {
            let Some(width) = width_of(input) else { return };
            let mut below = Slots::default();
            (0..width).filter(|at| used.has(*at)).for_each(|at| below.add(at));
            for (at, call) in calls.iter_mut().enumerate() {
                let is_volatile = call.parts_mut().any(|part| part.is_volatile());
                if !used.has(width + at) && !is_volatile {
                    number_instead(call);
                }
                call.parts_mut().for_each(|part| below.add_all(&slots_of(part)));
            }
            drop_unused(input, &below);
        }
        Plan::From(tree) => need(tree, used),
        Plan::Set { operation: SetOperation::Union, all: true, left, right, kinds: _ } => {
            drop_unused(left, used);
            drop_unused(right, used);
        }
        // All columns decide which rows there are, or the plan has several readers.
        Plan::Unit
        | Plan::Values(_)
        | Plan::Joins(_)
        | Plan::Distinct { .. }
        | Plan::Set { .. }
        | Plan::Lock { .. }
        | Plan::System(_)
        | Plan::Routine(_)
        | Plan::Shared { .. }
        | Plan::Recursive(_)
        | Plan::Working(_)
        | Plan::Modified(_)
        | Plan::Modifying { .. } => {}
    }
}

/// Notes that only these slots of a join tree's rows are read, and removes unused columns of its subqueries.
pub(super) fn need(tree: &mut JoinTree, used: &Slots) {
    tree.needed = Some(used.clone());
    let mut all = used.clone();
    // The error is dropped: the walk fails only if the statement is cancelled, and then nothing of it is used.
    let _ = children_of_group(&tree.group, &mut |child, deeper| {
        add_child(&mut all, child, deeper);
        Ok(())
    });
    drop_in_group(&mut tree.group, &all);
}

fn drop_in_group(group: &mut JoinGroup, slots: &Slots) {
    for input in &mut group.inputs {
        let (first, width) = (input.first, input.width);
        match &mut input.kind {
            InputKind::Query { plan, is_lateral: _ } => {
                let mut used = Slots::default();
                (0..width).filter(|at| slots.has(first + at)).for_each(|at| used.add(at));
                drop_unused(plan, &used);
            }
            InputKind::Group(group) => drop_in_group(group, slots),
            InputKind::Full { left, right, on: _ } => {
                drop_in_group(left, slots);
                drop_in_group(right, slots);
            }
            InputKind::Table(_) | InputKind::Functions { .. } => {}
        }
    }
}

/// Replaces an aggregate by `count(*)`, which has no arguments to compute.
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

/// Replaces a window function by `row_number()`, which has no arguments to compute.
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

/// Returns the width of a row over which window functions are computed.
fn width_of(plan: &Plan) -> Option<usize> {
    match plan {
        Plan::Unit => Some(0),
        Plan::From(tree) => Some(tree.width),
        Plan::Filter { input, .. } => width_of(input),
        Plan::Aggregate { groups, sets, calls, input: _ } => {
            Some(groups.len() + calls.len() + usize::from(sets.is_some()))
        }
        _ => None,
    }
}
