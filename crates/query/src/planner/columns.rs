//! Table columns that a plan reads.

use crate::plan::{Child, JoinStep, RowSource, Slots, add_child, children_of_steps};

/// Restricts tables to the columns that are read, given the slots that operators above read.
pub(super) fn prune(steps: &mut [JoinStep], needed: &Slots) {
    let mut all = needed.clone();
    // A qual that a key decides is not evaluated.
    let decided = match &*steps {
        [step] if step.residual().is_none() => step.on.as_ref(),
        _ => None,
    };
    // The error is dropped: the walk fails only if the statement is cancelled, and then nothing of it is used.
    let _ = children_of_steps(steps, &mut |child, deeper| {
        if !matches!(child, Child::Expr(expr) if decided.is_some_and(|on| std::ptr::eq(expr, on))) {
            add_child(&mut all, child, deeper);
        }
        Ok(())
    });
    mark(steps, &all);
}

fn mark(steps: &mut [JoinStep], slots: &Slots) {
    for step in steps {
        let first = step.first;
        match &mut step.source {
            RowSource::Table { table, columns, .. } => {
                *columns = Some((0..=table.columns.len()).filter(|at| slots.has(first + at)).collect());
            }
            RowSource::Query { .. } | RowSource::Functions { .. } => {}
            RowSource::Group(steps) => mark(steps, slots),
            RowSource::Full(full) => {
                mark(&mut full.left.steps, slots);
                mark(&mut full.right.steps, slots);
            }
        }
    }
}
