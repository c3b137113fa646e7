//! Walks over plans and expressions.
//!
//! A pair of functions knows the children of every operator and expression: [`children_of_plan`] and
//! [`children_of_expr`], with a mutable variant of each. All walks are built from them.
//!
//! **Invariant:** the children of a plan are all plans and expressions that it evaluates over its own rows or those of
//! enclosing queries. Plans that depend on nothing outside (shared and recursive queries, data-modifying statements) do
//! not appear as children; a caller that needs their contents visits them itself.

use super::{
    Access, Expr, FrameBound, FullJoin, InputKind, JoinGroup, JoinHashTable, JoinStep, JoinTree, Joins, KeyList, Over,
    Plan, Recursive, RowSource, WindowFunction,
};
use statement::error::{SqlError, SqlResult};
use std::sync::Arc;

/// Units of work for visiting an expression or plan.
const NODE: usize = 8;

/// Child of a plan or an expression.
#[derive(Clone, Copy, Debug)]
pub enum Child<'p> {
    /// Expression.
    Expr(&'p Expr),
    /// Plan.
    Plan(&'p Plan),
}

/// Mutable child of a plan or an expression.
#[derive(Debug)]
pub(crate) enum ChildMut<'p> {
    /// Expression.
    Expr(&'p mut Expr),
    /// Plan.
    Plan(&'p mut Plan),
}

macro_rules! walks {
    (
        $visibility:vis $of_expr:ident, $of_plan:ident, $of_group:ident, $of_steps:ident, $exprs_of:ident,
        $recursive:ident, $Child:ident $(, $mutable:tt)?
    ) => {
        /// Calls `each` with the children of an expression, and with 1 for a subquery, which is one level deeper, or
        /// else 0.
        ///
        /// # Errors
        /// Fails as `each` does, and if the statement is cancelled.
        $visibility fn $of_expr<'p>(
            expr: &'p $($mutable)? Expr,
            each: &mut dyn FnMut($Child<'p>, usize) -> SqlResult<()>,
        ) -> SqlResult<()> {
            statement::pulse::walk(NODE)?;
            match expr {
                Expr::Constant(_)
                | Expr::Parameter(_)
                | Expr::Column(_)
                | Expr::Outer { .. }
                | Expr::Local(_)
                | Expr::Now { .. } => {}
                Expr::Let { values, body } => {
                    for value in values {
                        each($Child::Expr(value), 0)?;
                    }
                    each($Child::Expr(body), 0)?;
                }
                Expr::Scalar(plan) | Expr::Exists(plan) | Expr::ArrayQuery(plan) => each($Child::Plan(plan), 1)?,
                Expr::Call { arguments, .. }
                | Expr::And(arguments)
                | Expr::Or(arguments)
                | Expr::Coalesce(arguments)
                | Expr::Array(arguments)
                | Expr::Sequence { arguments, call: _ }
                | Expr::Advisory { arguments, call: _ }
                | Expr::Extreme { arguments, .. } => {
                    for argument in arguments {
                        each($Child::Expr(argument), 0)?;
                    }
                }
                Expr::Routine(call) => {
                    for argument in & $($mutable)? call.arguments {
                        each($Child::Expr(argument), 0)?;
                    }
                }
                Expr::IsSame { arguments, kind: _ } => {
                    for side in & $($mutable)? **arguments {
                        each($Child::Expr(side), 0)?;
                    }
                }
                Expr::Cast { argument, .. }
                | Expr::Not(argument)
                | Expr::IsNull(argument)
                | Expr::IsBool(argument, _) => each($Child::Expr(argument), 0)?,
                Expr::InQuery { arguments, query, kinds: _ } => {
                    for argument in arguments {
                        each($Child::Expr(argument), 0)?;
                    }
                    each($Child::Plan(query), 1)?;
                }
                Expr::InList { argument, list, kind: _, hashed: _ } => {
                    each($Child::Expr(argument), 0)?;
                    for one in list {
                        each($Child::Expr(one), 0)?;
                    }
                }
                // The condition has a row of its own, so it is not a child.
                Expr::Quantified { arguments, over, condition: _, all: _, hashed: _ } => {
                    for argument in arguments {
                        each($Child::Expr(argument), 0)?;
                    }
                    match over {
                        Over::Query(plan) => each($Child::Plan(plan), 1)?,
                        Over::Array(array) => each($Child::Expr(array), 0)?,
                    }
                }
                Expr::Case { whens, otherwise } => {
                    for (when, then) in whens {
                        each($Child::Expr(when), 0)?;
                        each($Child::Expr(then), 0)?;
                    }
                    each($Child::Expr(otherwise), 0)?;
                }
            }
            Ok(())
        }

        /// Calls `each` with the children of a plan, and with 1 for a lateral subquery, which is one level deeper, or
        /// else 0.
        ///
        /// # Errors
        /// Fails as `each` does, and if the statement is cancelled.
        $visibility fn $of_plan<'p>(
            plan: &'p $($mutable)? Plan,
            each: &mut dyn FnMut($Child<'p>, usize) -> SqlResult<()>,
        ) -> SqlResult<()> {
            statement::pulse::walk(NODE)?;
            match plan {
                Plan::Unit => {}
                Plan::Values(rows) => {
                    for row in rows {
                        for value in row {
                            each($Child::Expr(value), 0)?;
                        }
                    }
                }
                Plan::From(tree) => {
                    let JoinTree { when, group, width: _, needed: _ } = & $($mutable)? **tree;
                    if let Some(when) = when {
                        each($Child::Expr(when), 0)?;
                    }
                    $of_group(group, each)?;
                }
                Plan::Joins(Joins { when, steps, width: _ }) => {
                    if let Some(when) = when {
                        each($Child::Expr(when), 0)?;
                    }
                    $of_steps(steps, each)?;
                }
                Plan::Filter { input, condition } => {
                    each($Child::Plan(input), 0)?;
                    each($Child::Expr(condition), 0)?;
                }
                Plan::Project { input, columns } => {
                    each($Child::Plan(input), 0)?;
                    for column in columns {
                        each($Child::Expr(column), 0)?;
                    }
                }
                Plan::Aggregate { input, groups, sets: _, calls } => {
                    each($Child::Plan(input), 0)?;
                    for (group, _) in groups {
                        each($Child::Expr(group), 0)?;
                    }
                    for call in calls {
                        for argument in & $($mutable)? call.arguments {
                            each($Child::Expr(argument), 0)?;
                        }
                        if !call.orders_arguments {
                            for key in & $($mutable)? call.order {
                                each($Child::Expr(& $($mutable)? key.value), 0)?;
                            }
                        }
                        if let Some(filter) = & $($mutable)? call.filter {
                            each($Child::Expr(filter), 0)?;
                        }
                    }
                }
                Plan::Windows { input, calls } => {
                    each($Child::Plan(input), 0)?;
                    for call in calls {
                        for argument in & $($mutable)? call.arguments {
                            each($Child::Expr(argument), 0)?;
                        }
                        for (value, _) in & $($mutable)? call.partition {
                            each($Child::Expr(value), 0)?;
                        }
                        for key in & $($mutable)? call.order {
                            each($Child::Expr(& $($mutable)? key.value), 0)?;
                        }
                        for bound in [& $($mutable)? call.frame.start, & $($mutable)? call.frame.end] {
                            match bound {
                                FrameBound::Preceding(offset) | FrameBound::Following(offset) => {
                                    each($Child::Expr(offset), 0)?;
                                }
                                FrameBound::UnboundedPreceding
                                | FrameBound::CurrentRow
                                | FrameBound::UnboundedFollowing => {}
                            }
                        }
                        if let WindowFunction::Aggregate(call) = & $($mutable)? call.function {
                            for argument in & $($mutable)? call.arguments {
                                each($Child::Expr(argument), 0)?;
                            }
                            if let Some(filter) = & $($mutable)? call.filter {
                                each($Child::Expr(filter), 0)?;
                            }
                        }
                    }
                }
                Plan::Sets { input, calls } => {
                    each($Child::Plan(input), 0)?;
                    for call in calls {
                        for argument in & $($mutable)? call.arguments {
                            each($Child::Expr(argument), 0)?;
                        }
                    }
                }
                Plan::Sort { input, keys } => {
                    each($Child::Plan(input), 0)?;
                    for key in keys {
                        each($Child::Expr(& $($mutable)? key.value), 0)?;
                    }
                }
                Plan::Distinct { input, kinds: _ } => each($Child::Plan(input), 0)?,
                Plan::DistinctOn { input, values } => {
                    each($Child::Plan(input), 0)?;
                    for (value, _) in values {
                        each($Child::Expr(value), 0)?;
                    }
                }
                Plan::Limit { input, limit, offset } => {
                    each($Child::Plan(input), 0)?;
                    for count in [limit, offset] {
                        if let Some(count) = count {
                            each($Child::Expr(count), 0)?;
                        }
                    }
                }
                Plan::Ties { input, keys, limit, offset } => {
                    each($Child::Plan(input), 0)?;
                    for key in keys {
                        each($Child::Expr(& $($mutable)? key.value), 0)?;
                    }
                    for count in [limit, offset] {
                        if let Some(count) = count {
                            each($Child::Expr(count), 0)?;
                        }
                    }
                }
                Plan::Set { left, right, operation: _, all: _, kinds: _ } => {
                    each($Child::Plan(left), 0)?;
                    each($Child::Plan(right), 0)?;
                }
                Plan::Lock { input, joins, condition, locks: _ } => {
                    each($Child::Plan(input), 0)?;
                    for join in joins {
                        if let Some(on) = & $($mutable)? join.on {
                            each($Child::Expr(on), 0)?;
                        }
                    }
                    if let Some(condition) = condition {
                        each($Child::Expr(condition), 0)?;
                    }
                }
                Plan::Routine(call) => each($Child::Expr(call), 0)?,
                Plan::Modifying { input, modifies: _ } => each($Child::Plan(input), 0)?,
                Plan::Recursive(recursive) if recursive.looks_out => {
                    let recursive = $recursive(recursive);
                    each($Child::Plan(& $($mutable)? recursive.first), 0)?;
                    each($Child::Plan(& $($mutable)? recursive.step), 0)?;
                }
                // These plans depend on nothing outside.
                Plan::Shared { .. }
                | Plan::Modified(_)
                | Plan::System(_)
                | Plan::Recursive(_)
                | Plan::Working(_) => {}
            }
            Ok(())
        }

        /// Calls `each` with the children of a join group.
        pub(crate) fn $of_group<'p>(
            group: &'p $($mutable)? JoinGroup,
            each: &mut dyn FnMut($Child<'p>, usize) -> SqlResult<()>,
        ) -> SqlResult<()> {
            for input in & $($mutable)? group.inputs {
                match & $($mutable)? input.kind {
                    InputKind::Table(_) => {}
                    InputKind::Query { plan, is_lateral } => each($Child::Plan(plan), usize::from(*is_lateral))?,
                    InputKind::Functions { calls, is_numbered: _ } => {
                        for call in calls {
                            for argument in & $($mutable)? call.arguments {
                                each($Child::Expr(argument), 0)?;
                            }
                        }
                    }
                    InputKind::Group(group) => $of_group(group, each)?,
                    InputKind::Full { left, right, on } => {
                        $of_group(left, each)?;
                        $of_group(right, each)?;
                        for condition in on {
                            each($Child::Expr(condition), 0)?;
                        }
                    }
                }
                if let Some(outer) = & $($mutable)? input.outer {
                    for condition in & $($mutable)? outer.on {
                        each($Child::Expr(condition), 0)?;
                    }
                }
            }
            for condition in & $($mutable)? group.conditions {
                each($Child::Expr(condition), 0)?;
            }
            Ok(())
        }

        /// Calls `each` with the children of the steps of nested loops.
        pub(crate) fn $of_steps<'p>(
            steps: &'p $($mutable)? [JoinStep],
            each: &mut dyn FnMut($Child<'p>, usize) -> SqlResult<()>,
        ) -> SqlResult<()> {
            for step in steps {
                match & $($mutable)? step.source {
                    RowSource::Table { access, table: _, columns: _ } => match access {
                        Access::All => {}
                        Access::Key { values, index: _, decides: _ } => {
                            for value in values {
                                each($Child::Expr(& $($mutable)? value.value), 0)?;
                            }
                        }
                        Access::Index { prefix, lower, upper, index: _, backward: _ } => {
                            for value in prefix {
                                each($Child::Expr(& $($mutable)? value.value), 0)?;
                            }
                            for limit in [lower, upper] {
                                if let Some(limit) = limit {
                                    each($Child::Expr(& $($mutable)? limit.value.value), 0)?;
                                }
                            }
                        }
                        Access::AnyOf { prefix, list, index: _ } => {
                            for value in prefix {
                                each($Child::Expr(& $($mutable)? value.value), 0)?;
                            }
                            match list {
                                KeyList::Values(values) => {
                                    for value in values {
                                        each($Child::Expr(& $($mutable)? value.value), 0)?;
                                    }
                                }
                                KeyList::Array { array, kind: _ } => each($Child::Expr(array), 0)?,
                            }
                        }
                    },
                    RowSource::Query { plan, is_lateral } => each($Child::Plan(plan), usize::from(*is_lateral))?,
                    RowSource::Functions { calls, is_numbered: _ } => {
                        for call in calls {
                            for argument in & $($mutable)? call.arguments {
                                each($Child::Expr(argument), 0)?;
                            }
                        }
                    }
                    RowSource::Group(steps) => $of_steps(steps, each)?,
                    RowSource::Full(full) => {
                        let FullJoin { left, right, on, keys } = & $($mutable)? **full;
                        $of_steps(& $($mutable)? left.steps, each)?;
                        $of_steps(& $($mutable)? right.steps, each)?;
                        if let Some(on) = on {
                            each($Child::Expr(on), 0)?;
                        }
                        for key in keys {
                            each($Child::Expr(& $($mutable)? key.before), 0)?;
                            each($Child::Expr(& $($mutable)? key.own), 0)?;
                        }
                    }
                }
                for condition in [& $($mutable)? step.on, & $($mutable)? step.filter] {
                    if let Some(condition) = condition {
                        each($Child::Expr(condition), 0)?;
                    }
                }
                if let Some(JoinHashTable { condition, keys, id: _, is_constant: _ }) = & $($mutable)? step.kept {
                    if let Some(condition) = condition {
                        each($Child::Expr(condition), 0)?;
                    }
                    for key in keys {
                        each($Child::Expr(& $($mutable)? key.before), 0)?;
                        each($Child::Expr(& $($mutable)? key.own), 0)?;
                    }
                }
            }
            Ok(())
        }

        /// Calls `each` with the expressions of a plan and of the plans below it. `depth` is that of expressions over
        /// the plan's own rows.
        pub(super) fn $exprs_of(
            plan: & $($mutable)? Plan,
            depth: usize,
            each: &mut dyn FnMut(& $($mutable)? Expr, usize) -> SqlResult<()>,
        ) -> SqlResult<()> {
            $of_plan(plan, &mut |child, deeper| match child {
                $Child::Expr(expr) => each(expr, depth + deeper),
                $Child::Plan(plan) => $exprs_of(plan, depth + deeper, each),
            })
        }
    };
}

fn recursive_of(recursive: &Arc<Recursive>) -> &Recursive {
    recursive
}

/// Returns the plan's own copy, which is cloned if other plans share it.
fn recursive_mut(recursive: &mut Arc<Recursive>) -> &mut Recursive {
    Arc::make_mut(recursive)
}

walks!(pub children_of_expr, children_of_plan, children_of_group, children_of_steps, exprs_of, recursive_of, Child);
walks!(
    pub(crate) children_of_expr_mut, children_of_plan_mut, children_of_group_mut, children_of_steps_mut, exprs_mut,
    recursive_mut, ChildMut, mut
);

/// Calls `each` with the children of an expression, where the expressions of a subquery replace it.
pub(super) fn parts_of(
    expr: &Expr,
    depth: usize,
    each: &mut dyn FnMut(&Expr, usize) -> SqlResult<()>,
) -> SqlResult<()> {
    children_of_expr(expr, &mut |child, deeper| match child {
        Child::Expr(part) => each(part, depth + deeper),
        Child::Plan(plan) => exprs_of(plan, depth + deeper, each),
    })
}

fn parts_mut(expr: &mut Expr, depth: usize, each: &mut dyn FnMut(&mut Expr, usize) -> SqlResult<()>) -> SqlResult<()> {
    children_of_expr_mut(expr, &mut |child, deeper| match child {
        ChildMut::Expr(part) => each(part, depth + deeper),
        ChildMut::Plan(plan) => exprs_mut(plan, depth + deeper, each),
    })
}

/// Adjusts a correlated plan to a place that is `by` queries deeper.
pub(crate) fn move_inward(plan: &mut Plan, by: usize) -> SqlResult<()> {
    rewrite_plan(plan, 0, &mut |expr, depth| {
        if let Expr::Outer { level, .. } = expr
            && depth < *level
        {
            *level += by;
        }
        Ok(false)
    })
}

/// True if a plan reads the working table of a recursive query, so that its rows differ in each iteration. Expressions
/// are not searched, because they cannot contain a recursive reference.
pub(crate) fn has_working(plan: &Plan) -> bool {
    if matches!(plan, Plan::Working(_)) {
        return true;
    }
    let mut found = false;
    // The error is dropped: the walk fails only if the statement is cancelled, and then nothing of it is used.
    let _ = children_of_plan(plan, &mut |child, _| {
        found |= match child {
            Child::Plan(plan) => !found && has_working(plan),
            Child::Expr(_) => false,
        };
        Ok(())
    });
    found
}

/// Calls `change` with an expression and all its descendants, outer ones first, and with the number of queries between
/// each and the first. The walk does not descend into an expression that `change` has replaced, for which it returns
/// true.
///
/// # Errors
/// Fails as `change` does.
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

/// Replaces the locals in the body of an [`Expr::Let`] by their values, so that each is computed at every reference.
///
/// # Errors
/// Fails with `0A000` if a subquery refers to a local.
pub fn substitute(values: &[Expr], body: &mut Expr) -> SqlResult<()> {
    rewrite(body, 0, &mut |expr, depth| match expr {
        Expr::Local(at) => {
            let inlined = values.get(*at).filter(|_| depth == 0).cloned();
            *expr = inlined.ok_or_else(|| SqlError::unsupported("a value that a query computes once"))?;
            Ok(true)
        }
        // The body of an inner `Let` refers to the values of that one.
        Expr::Let { values: own, body: _ } => {
            own.iter_mut().try_for_each(|value| substitute(values, value))?;
            Ok(true)
        }
        _ => Ok(false),
    })
}

/// Calls `look` with an expression and all its descendants.
pub fn visit(expr: &Expr, depth: usize, look: &mut dyn FnMut(&Expr, usize)) {
    look(expr, depth);
    // The closure returns no error, so there is none to report.
    let _ = parts_of(expr, depth, &mut |part, depth| {
        visit(part, depth, look);
        Ok(())
    });
}

/// Applies [`rewrite`] to all expressions of a plan; `depth` is that of expressions over the plan's own rows.
///
/// # Errors
/// Fails as `change` does.
pub(crate) fn rewrite_plan(
    plan: &mut Plan,
    depth: usize,
    change: &mut dyn FnMut(&mut Expr, usize) -> SqlResult<bool>,
) -> SqlResult<()> {
    exprs_mut(plan, depth, &mut |part, depth| rewrite(part, depth, change))
}

/// Applies [`visit`] to all expressions of a plan.
pub(crate) fn visit_plan(plan: &Plan, depth: usize, look: &mut dyn FnMut(&Expr, usize)) {
    // The closure returns no error, so there is none to report.
    let _ = exprs_of(plan, depth, &mut |part, depth| {
        visit(part, depth, look);
        Ok(())
    });
}

/// True if a plan contains a volatile expression.
pub fn is_volatile_plan(plan: &Plan) -> bool {
    let mut found = false;
    let _ = exprs_of(plan, 0, &mut |part, _| {
        found |= part.is_volatile();
        Ok(())
    });
    found
}
