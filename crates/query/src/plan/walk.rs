//! Going through plans: which places of a row are looked at, and how they are renamed.
//!
//! **Invariant:** both walks visit every expression that is evaluated over a row, or over one inside it. `depth` counts the
//! queries between: 0 for the row itself, which [`Expr::Column`] names; from 1 on [`Expr::Outer`] of that level does.

use super::{Access, Expr, FrameBound, Full, Joins, Kept, List, Over, Plan, Recursive, Source, Step, WindowFunction};
use statement::error::{SqlError, SqlResult};
use std::sync::Arc;

/// Units of work of an expression or plan that is looked at.
const NODE: usize = 8;
/// Words of [`Slots`] within a unit.
const WORDS: usize = 8;

macro_rules! walks {
    ($parts:ident, $plan_parts:ident, $steps:ident, $recursive:ident $(, $mutable:tt)?) => {
        /// The parts of an expression and the plans in it, one level deeper.
        fn $parts(
            expr: & $($mutable)? Expr,
            depth: usize,
            part: &mut dyn FnMut(& $($mutable)? Expr, usize) -> SqlResult<()>,
        ) -> SqlResult<()> {
            statement::pulse::walk(NODE)?;
            match expr {
                Expr::Constant(_)
                | Expr::Parameter(_)
                | Expr::Column(_)
                | Expr::Outer { .. }
                | Expr::Local(_)
                | Expr::Now { .. } => Ok(()),
                Expr::Let { values, body } => {
                    for value in values {
                        part(value, depth)?;
                    }
                    part(body, depth)
                }
                Expr::Scalar(plan) | Expr::Exists(plan) | Expr::ArrayQuery(plan) => $plan_parts(plan, depth + 1, part),
                Expr::Call { arguments, .. }
                | Expr::And(arguments)
                | Expr::Or(arguments)
                | Expr::Coalesce(arguments)
                | Expr::Array(arguments)
                | Expr::Sequence { arguments, call: _ }
                | Expr::Advisory { arguments, call: _ }
                | Expr::Extreme { arguments, .. } => {
                    for argument in arguments {
                        part(argument, depth)?;
                    }
                    Ok(())
                }
                Expr::IsSame { arguments, kind: _ } => {
                    let [left, right] = & $($mutable)? **arguments;
                    part(left, depth)?;
                    part(right, depth)
                }
                Expr::Cast { argument, .. }
                | Expr::Not(argument)
                | Expr::IsNull(argument)
                | Expr::IsBool(argument, _) => part(argument, depth),
                Expr::InQuery { arguments, query, kinds: _ } => {
                    for argument in arguments {
                        part(argument, depth)?;
                    }
                    $plan_parts(query, depth + 1, part)
                }
                Expr::InList { argument, list, kind: _, hashed: _ } => {
                    part(argument, depth)?;
                    for one in list {
                        part(one, depth)?;
                    }
                    Ok(())
                }
                // The condition is over a row of its own.
                Expr::Quantified { arguments, over, condition: _, all: _, hashed: _ } => {
                    for argument in arguments {
                        part(argument, depth)?;
                    }
                    match over {
                        Over::Query(plan) => $plan_parts(plan, depth + 1, part),
                        Over::Array(array) => part(array, depth),
                    }
                }
                Expr::Case { whens, otherwise } => {
                    for (when, then) in whens {
                        part(when, depth)?;
                        part(then, depth)?;
                    }
                    part(otherwise, depth)
                }
            }
        }

        /// The expressions of a plan; `depth` is that of its own rows' expressions.
        fn $plan_parts(
            plan: & $($mutable)? Plan,
            depth: usize,
            part: &mut dyn FnMut(& $($mutable)? Expr, usize) -> SqlResult<()>,
        ) -> SqlResult<()> {
            statement::pulse::walk(NODE)?;
            match plan {
                Plan::Unit => Ok(()),
                Plan::Values(rows) => {
                    for row in rows {
                        for value in row {
                            part(value, depth)?;
                        }
                    }
                    Ok(())
                }
                Plan::Joins(Joins { when, steps, width: _ }) => {
                    if let Some(when) = when {
                        part(when, depth)?;
                    }
                    $steps(steps, depth, part)
                }
                Plan::Filter { input, condition } => {
                    $plan_parts(input, depth, part)?;
                    part(condition, depth)
                }
                Plan::Project { input, columns } => {
                    $plan_parts(input, depth, part)?;
                    for column in columns {
                        part(column, depth)?;
                    }
                    Ok(())
                }
                Plan::Aggregate { input, groups, sets: _, calls } => {
                    $plan_parts(input, depth, part)?;
                    for (group, _) in groups {
                        part(group, depth)?;
                    }
                    for call in calls {
                        for argument in & $($mutable)? call.arguments {
                            part(argument, depth)?;
                        }
                        if !call.orders_arguments {
                            for key in & $($mutable)? call.order {
                                part(& $($mutable)? key.value, depth)?;
                            }
                        }
                        if let Some(filter) = & $($mutable)? call.filter {
                            part(filter, depth)?;
                        }
                    }
                    Ok(())
                }
                Plan::Windows { input, calls } => {
                    $plan_parts(input, depth, part)?;
                    for call in calls {
                        for argument in & $($mutable)? call.arguments {
                            part(argument, depth)?;
                        }
                        for (value, _) in & $($mutable)? call.partition {
                            part(value, depth)?;
                        }
                        for key in & $($mutable)? call.order {
                            part(& $($mutable)? key.value, depth)?;
                        }
                        for bound in [& $($mutable)? call.frame.start, & $($mutable)? call.frame.end] {
                            if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = bound {
                                part(offset, depth)?;
                            }
                        }
                        if let WindowFunction::Aggregate(call) = & $($mutable)? call.function {
                            for argument in & $($mutable)? call.arguments {
                                part(argument, depth)?;
                            }
                            if let Some(filter) = & $($mutable)? call.filter {
                                part(filter, depth)?;
                            }
                        }
                    }
                    Ok(())
                }
                Plan::Sets { input, calls } => {
                    $plan_parts(input, depth, part)?;
                    for call in calls {
                        for argument in & $($mutable)? call.arguments {
                            part(argument, depth)?;
                        }
                    }
                    Ok(())
                }
                Plan::Sort { input, keys, is_given: _ } => {
                    $plan_parts(input, depth, part)?;
                    for key in keys {
                        part(& $($mutable)? key.value, depth)?;
                    }
                    Ok(())
                }
                Plan::Distinct { input, kinds: _ } => $plan_parts(input, depth, part),
                Plan::DistinctOn { input, values } => {
                    $plan_parts(input, depth, part)?;
                    for (value, _) in values {
                        part(value, depth)?;
                    }
                    Ok(())
                }
                Plan::Limit { input, limit, offset } => {
                    $plan_parts(input, depth, part)?;
                    for count in [limit, offset] {
                        if let Some(count) = count {
                            part(count, depth)?;
                        }
                    }
                    Ok(())
                }
                Plan::Ties { input, keys, limit, offset } => {
                    $plan_parts(input, depth, part)?;
                    for key in keys {
                        part(& $($mutable)? key.value, depth)?;
                    }
                    for count in [limit, offset] {
                        if let Some(count) = count {
                            part(count, depth)?;
                        }
                    }
                    Ok(())
                }
                Plan::Set { left, right, operation: _, all: _, kinds: _ } => {
                    $plan_parts(left, depth, part)?;
                    $plan_parts(right, depth, part)
                }
                Plan::Lock { input, joins, condition, locks: _ } => {
                    $plan_parts(input, depth, part)?;
                    for join in joins {
                        if let Some(on) = & $($mutable)? join.on {
                            part(on, depth)?;
                        }
                    }
                    match condition {
                        Some(condition) => part(condition, depth),
                        None => Ok(()),
                    }
                }
                Plan::Modifying { input, modifies: _ } => $plan_parts(input, depth, part),
                Plan::Recursive(recursive) if recursive.looks_out => {
                    let recursive = $recursive(recursive);
                    $plan_parts(& $($mutable)? recursive.first, depth, part)?;
                    $plan_parts(& $($mutable)? recursive.step, depth, part)
                }
                // They depend on nothing outside.
                Plan::Shared { .. } | Plan::Modified(_) | Plan::System(_) | Plan::Recursive(_) | Plan::Working(_) => Ok(()),
            }
        }

        fn $steps(
            steps: & $($mutable)? [Step],
            depth: usize,
            part: &mut dyn FnMut(& $($mutable)? Expr, usize) -> SqlResult<()>,
        ) -> SqlResult<()> {
            for step in steps {
                match & $($mutable)? step.source {
                    Source::Table { access, table: _, columns: _ } => match access {
                        Access::All => {}
                        Access::Index { prefix, lower, upper, index: _, backward: _ } => {
                            for value in prefix {
                                part(& $($mutable)? value.value, depth)?;
                            }
                            for limit in [lower, upper] {
                                if let Some(limit) = limit {
                                    part(& $($mutable)? limit.value.value, depth)?;
                                }
                            }
                        }
                        Access::AnyOf { prefix, list, index: _ } => {
                            for value in prefix {
                                part(& $($mutable)? value.value, depth)?;
                            }
                            match list {
                                List::Values(values) => {
                                    for value in values {
                                        part(& $($mutable)? value.value, depth)?;
                                    }
                                }
                                List::Array { array, kind: _ } => part(array, depth)?,
                            }
                        }
                    },
                    Source::Query { plan, is_lateral } => $plan_parts(plan, depth + usize::from(*is_lateral), part)?,
                    Source::Functions { calls, is_numbered: _ } => {
                        for call in calls {
                            for argument in & $($mutable)? call.arguments {
                                part(argument, depth)?;
                            }
                        }
                    }
                    Source::Group(steps) => $steps(steps, depth, part)?,
                    Source::Full(full) => {
                        let Full { left, right, on, keys } = & $($mutable)? **full;
                        $steps(& $($mutable)? left.steps, depth, part)?;
                        $steps(& $($mutable)? right.steps, depth, part)?;
                        if let Some(on) = on {
                            part(on, depth)?;
                        }
                        for key in keys {
                            part(& $($mutable)? key.before, depth)?;
                            part(& $($mutable)? key.own, depth)?;
                        }
                    }
                }
                for condition in [& $($mutable)? step.on, & $($mutable)? step.filter] {
                    if let Some(condition) = condition {
                        part(condition, depth)?;
                    }
                }
                if let Some(Kept { condition, keys, id: _, is_constant: _ }) = & $($mutable)? step.kept {
                    if let Some(condition) = condition {
                        part(condition, depth)?;
                    }
                    for key in keys {
                        part(& $($mutable)? key.before, depth)?;
                        part(& $($mutable)? key.own, depth)?;
                    }
                }
            }
            Ok(())
        }
    };
}

fn recursive_of(recursive: &Arc<Recursive>) -> &Recursive {
    recursive
}

/// Copy of the plan's own, if other plans have it, too.
fn recursive_mut(recursive: &mut Arc<Recursive>) -> &mut Recursive {
    Arc::make_mut(recursive)
}

walks!(parts_of, plan_parts_of, step_parts_of, recursive_of);
walks!(parts_mut, plan_parts_mut, step_parts_mut, recursive_mut, mut);

/// Makes a plan that looks at rows of enclosing queries say the same from within so many more queries.
pub(crate) fn move_inward(plan: &mut Plan, by: usize) -> SqlResult<()> {
    plan_parts_mut(plan, 0, &mut |part, depth| {
        rewrite(part, depth, &mut |expr, depth| {
            if let Expr::Outer { level, .. } = expr
                && depth < *level
            {
                *level += by;
            }
            Ok(false)
        })
    })
}

/// Whether a plan's rows are others in each round of a recursive query. (None is looked at in an expression.)
pub(crate) fn has_working(plan: &Plan) -> bool {
    if statement::pulse::walk(NODE).is_err() {
        return false;
    }
    match plan {
        Plan::Working(_) => true,
        // What is shared has the same rows whenever it is asked.
        Plan::Unit
        | Plan::Values(_)
        | Plan::Modified(_)
        | Plan::System(_)
        | Plan::Recursive(_)
        | Plan::Shared { .. } => false,
        Plan::Filter { input, .. }
        | Plan::Project { input, .. }
        | Plan::Aggregate { input, .. }
        | Plan::Windows { input, .. }
        | Plan::Sets { input, .. }
        | Plan::Sort { input, .. }
        | Plan::Distinct { input, .. }
        | Plan::DistinctOn { input, .. }
        | Plan::Limit { input, .. }
        | Plan::Ties { input, .. }
        | Plan::Lock { input, .. }
        | Plan::Modifying { input, .. } => has_working(input),
        Plan::Set { left, right, .. } => has_working(left) || has_working(right),
        Plan::Joins(joins) => joins.steps.iter().any(|step| source_has_working(&step.source)),
    }
}

/// The same of a source.
pub(crate) fn source_has_working(source: &Source) -> bool {
    let any = |steps: &[Step]| steps.iter().any(|step| source_has_working(&step.source));
    match source {
        Source::Table { .. } | Source::Functions { .. } => false,
        Source::Query { plan, .. } => has_working(plan),
        Source::Group(steps) => any(steps),
        Source::Full(full) => any(&full.left.steps) || any(&full.right.steps),
    }
}

/// Calls `change` with an expression and all in it, outer ones first, and how many queries within the first each stands.
/// What it says it has changed is not gone into.
///
/// # Errors
/// Those of `change`.
pub fn rewrite(
    expr: &mut Expr,
    depth: usize,
    change: &mut dyn FnMut(&mut Expr, usize) -> SqlResult<bool>,
) -> SqlResult<()> {
    if change(expr, depth)? {
        return Ok(());
    }
    parts_mut(expr, depth, &mut |part, depth| rewrite(part, depth, change))
}

/// Puts the values of an [`Expr::Let`] in the place of their names in its body, so that each is computed as often as it is
/// named.
///
/// # Errors
/// `0A000` where a query names them.
pub fn substitute(values: &[Expr], body: &mut Expr) -> SqlResult<()> {
    rewrite(body, 0, &mut |expr, depth| match expr {
        Expr::Local(at) => {
            let inlined = values.get(*at).filter(|_| depth == 0).cloned();
            *expr = inlined.ok_or_else(|| SqlError::unsupported("a value that a query computes once"))?;
            Ok(true)
        }
        // Its body names its own.
        Expr::Let { values: own, body: _ } => {
            own.iter_mut().try_for_each(|value| substitute(values, value))?;
            Ok(true)
        }
        _ => Ok(false),
    })
}

/// Calls `look` with an expression and all in it.
pub fn visit(expr: &Expr, depth: usize, look: &mut dyn FnMut(&Expr, usize)) {
    look(expr, depth);
    // Looking never fails.
    let _ = parts_of(expr, depth, &mut |part, depth| {
        visit(part, depth, look);
        Ok(())
    });
}

/// [`rewrite`] of all expressions of a plan; `depth` is that of its own rows' expressions.
///
/// # Errors
/// Those of `change`.
pub(crate) fn rewrite_plan(
    plan: &mut Plan,
    depth: usize,
    change: &mut dyn FnMut(&mut Expr, usize) -> SqlResult<bool>,
) -> SqlResult<()> {
    plan_parts_mut(plan, depth, &mut |part, depth| rewrite(part, depth, change))
}

/// [`visit`] of all expressions of a plan.
pub(crate) fn visit_plan(plan: &Plan, depth: usize, look: &mut dyn FnMut(&Expr, usize)) {
    // Looking never fails.
    let _ = plan_parts_of(plan, depth, &mut |part, depth| {
        visit(part, depth, look);
        Ok(())
    });
}

/// Columns from here on stand for something that is not yet placed; they are no places.
pub(crate) const PLACEHOLDERS: usize = 1 << 40;

/// Some places of a row, and whether an enclosing query's are looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    bits: Vec<u64>,
    /// True if a column of an outer query is among them.
    pub looks_out: bool,
}

impl Slots {
    /// These places.
    pub fn range(first: usize, width: usize) -> Slots {
        let mut slots = Slots::default();
        (first..first + width).for_each(|slot| slots.add(slot));
        slots
    }

    /// Adds a slot.
    pub fn add(&mut self, slot: usize) {
        if PLACEHOLDERS <= slot {
            return;
        }
        let word = slot / 64;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (slot % 64);
    }

    /// Adds all slots of another set.
    pub fn add_all(&mut self, other: &Slots) {
        let _ = statement::pulse::walk(other.bits.len() / WORDS);
        if self.bits.len() < other.bits.len() {
            self.bits.resize(other.bits.len(), 0);
        }
        self.bits.iter_mut().zip(&other.bits).for_each(|(word, other)| *word |= other);
    }

    pub(crate) fn remove_all(&mut self, other: &Slots) {
        let _ = statement::pulse::walk(other.bits.len() / WORDS);
        self.bits.iter_mut().zip(&other.bits).for_each(|(word, other)| *word &= !other);
    }

    /// Tells if the slot is in the set.
    pub fn has(&self, slot: usize) -> bool {
        self.bits.get(slot / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    /// Says whether any of them is this one or one behind it.
    pub fn reaches(&self, slot: usize) -> bool {
        let word = slot / 64;
        self.bits.iter().enumerate().skip(word).any(|(at, bits)| {
            let behind = if at == word { u64::MAX << (slot % 64) } else { u64::MAX };
            bits & behind != 0
        })
    }

    /// True without any slot.
    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|word| *word == 0)
    }

    /// Whether each of them is also in the other.
    pub fn is_within(&self, other: &Slots) -> bool {
        let _ = statement::pulse::walk(self.bits.len() / WORDS);
        let of = |at: usize| other.bits.get(at).copied().unwrap_or(0);
        self.bits.iter().enumerate().all(|(at, word)| word & !of(at) == 0)
    }

    /// Tells if two sets have a slot in common.
    pub fn meets(&self, other: &Slots) -> bool {
        let _ = statement::pulse::walk(self.bits.len() / WORDS);
        self.bits.iter().zip(&other.bits).any(|(word, other)| word & other != 0)
    }
}

/// Says whether an expression of a plan may differ from one evaluation to the next.
pub(crate) fn is_volatile_plan(plan: &Plan) -> bool {
    let mut found = false;
    let _ = plan_parts_of(plan, 0, &mut |part, _| {
        found |= part.is_volatile();
        Ok(())
    });
    found
}

fn note(expr: &Expr, depth: usize, target: usize, slots: &mut Slots) -> SqlResult<()> {
    match expr {
        Expr::Column(column) if depth == target => slots.add(*column),
        Expr::Outer { level, column } if level + target == depth => {
            slots.add(*column);
            slots.looks_out |= PLACEHOLDERS <= *column;
        }
        Expr::Outer { level, .. } if depth < level + target => slots.looks_out = true,
        _ => {}
    }
    parts_of(expr, depth, &mut |part, depth| note(part, depth, target, slots))
}

/// The places of its row that an expression looks at.
pub fn slots_of(expr: &Expr) -> Slots {
    let mut slots = Slots::default();
    // Noting never fails.
    let _ = note(expr, 0, 0, &mut slots);
    slots
}

/// The places that a plan looks at of the row that is `depth` queries out of its own rows; from 1 on.
pub(crate) fn slots_of_plan(plan: &Plan, depth: usize) -> Slots {
    let mut slots = Slots::default();
    let _ = plan_parts_of(plan, depth, &mut |part, depth| note(part, depth, 0, &mut slots));
    slots
}
