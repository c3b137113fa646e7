//! Columns of tables that a plan reads.

use super::steps::access_slots;
use crate::plan::{Expr, Full, Slots, Source, Step, slots_of, slots_of_plan};

/// Notes the columns of tables that are looked at, given the places that are looked at above.
pub(super) fn prune(steps: &mut [Step], needed: &Slots) {
    let mut all = needed.clone();
    note_steps(steps, &mut all);
    mark(steps, &all);
}

fn note_steps(steps: &[Step], slots: &mut Slots) {
    let mut note = |expr: &Expr| slots.add_all(&slots_of(expr));
    for step in steps {
        step.on.iter().chain(&step.filter).for_each(&mut note);
        if let Some(kept) = &step.kept {
            kept.condition.iter().for_each(&mut note);
            kept.keys.iter().flat_map(|key| [&key.before, &key.own]).for_each(&mut note);
        }
    }
    for step in steps {
        match &step.source {
            Source::Table { access, .. } => slots.add_all(&access_slots(access)),
            Source::Query { plan, is_lateral } => {
                if *is_lateral {
                    slots.add_all(&slots_of_plan(plan, 1));
                }
            }
            Source::Functions { calls, is_numbered: _ } => {
                calls.iter().flat_map(|call| &call.arguments).for_each(|expr| slots.add_all(&slots_of(expr)));
            }
            Source::Group(steps) => note_steps(steps, slots),
            Source::Full(full) => {
                let Full { left, right, on, keys } = &**full;
                note_steps(&left.steps, slots);
                note_steps(&right.steps, slots);
                on.iter().for_each(|on| slots.add_all(&slots_of(on)));
                keys.iter().flat_map(|key| [&key.before, &key.own]).for_each(|expr| slots.add_all(&slots_of(expr)));
            }
        }
    }
}

fn mark(steps: &mut [Step], slots: &Slots) {
    for step in steps {
        let first = step.first;
        match &mut step.source {
            Source::Table { table, columns, .. } => {
                *columns = Some((0..=table.columns.len()).filter(|at| slots.has(first + at)).collect());
            }
            Source::Query { .. } | Source::Functions { .. } => {}
            Source::Group(steps) => mark(steps, slots),
            Source::Full(full) => {
                mark(&mut full.left.steps, slots);
                mark(&mut full.right.steps, slots);
            }
        }
    }
}
