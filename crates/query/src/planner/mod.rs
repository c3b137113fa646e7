//! Planner of the row executor: it chooses a join order and an access path to each table of a logical plan.
//!
//! The choices depend on the numbers of rows in tables. [`TableSizes`] remembers them, so that the owner of a cached
//! plan can tell when replanning may pay off.
//!
//! The modules, in reading order: `steps` (joins as nested loops), `order` (join order), `access` (indexes), `sorted`
//! (rows in the order of an index), `columns` (columns that are read), `sizes`.
//!
//! **Invariant:** a plan for the row executor has the rows of the logical plan. No [`Plan::From`] is left in it or in
//! plans that it refers to.

mod access;
mod columns;
mod order;
mod sizes;
mod sorted;
mod steps;

use crate::change::{Assignments, Change, Modify, NewValue};
use crate::plan::{
    AggregateCall, ChildMut, Expr, JoinTree, Joins, Plan, Recursive, SetOperation, Slots, SortKey,
    children_of_expr_mut, children_of_plan_mut,
};
pub use sizes::TableSizes;
use statement::error::SqlResult;
use std::collections::HashMap;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use types::Kind;
use types::datum::Datum;

/// Plan for the row executor.
#[derive(Clone, Debug)]
pub struct RowPlan(Plan);

impl Deref for RowPlan {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.0
    }
}

/// Planner of one statement.
#[derive(Default)]
pub struct Planner {
    sizes: TableSizes,
    /// Planned shared queries, by id.
    shared: HashMap<u64, Arc<Plan>>,
    /// Planned recursive queries, by id.
    recursive: HashMap<u64, Arc<Recursive>>,
    /// Planned data-modifying statements of `WITH`, each with its logical plan, by the address of the latter.
    modified: HashMap<*const Modify, (Arc<Modify>, Arc<Modify>)>,
}

/// Properties that an operator prefers for the rows of its input.
#[derive(Clone, Default)]
struct RequiredProperties {
    /// Sort order of the rows.
    order: Option<Vec<SortKey>>,
    /// True if the operator reads only a few of the rows.
    few: bool,
}

impl Planner {
    /// Plans a query.
    ///
    /// # Errors
    /// Fails with `54001` if the query is too deep, and with `57014` if the statement is cancelled.
    pub fn query(&mut self, mut logical: Plan) -> SqlResult<RowPlan> {
        self.plan(&mut logical, &RequiredProperties::default())?;
        Ok(RowPlan(logical))
    }

    /// Plans a query in place.
    ///
    /// # Errors
    /// Fails as [`Planner::query`] does.
    pub fn in_place(&mut self, plan: &mut Plan) -> SqlResult<()> {
        self.plan(plan, &RequiredProperties::default()).map(drop)
    }

    /// Plans the inputs of a data-modifying statement.
    ///
    /// # Errors
    /// Fails as [`Planner::query`] does.
    pub fn change(&mut self, modify: &mut Modify) -> SqlResult<()> {
        let Modify { change, returning, with } = modify;
        match change {
            Change::Insert { input, conflict, table: _, rules: _ } => {
                self.plan(input, &RequiredProperties::default())?;
                if let Some(update) = conflict.as_mut().and_then(|conflict| conflict.update.as_mut()) {
                    self.assignments(&mut update.assignments)?;
                    self.exprs(&mut update.condition)?;
                }
            }
            Change::Update { target, assignments, rules: _ } => {
                self.plan(&mut target.input, &RequiredProperties::default())?;
                self.exprs(&mut target.condition)?;
                self.assignments(assignments)?;
            }
            Change::Delete { target, rules: _ } => {
                self.plan(&mut target.input, &RequiredProperties::default())?;
                self.exprs(&mut target.condition)?;
            }
        }
        self.exprs(returning.iter_mut().flatten())?;
        with.iter_mut().try_for_each(|modify| self.modified(modify))
    }

    /// Returns the sizes of tables on which the plans depend.
    pub fn into_sizes(self) -> TableSizes {
        self.sizes
    }

    fn assignments(&mut self, assignments: &mut Assignments) -> SqlResult<()> {
        assignments.values.iter_mut().try_for_each(|value| match value {
            NewValue::One(value) => self.expr(value),
            NewValue::Row { plan, width: _ } => self.plan(plan, &RequiredProperties::default()).map(drop),
        })
    }

    fn exprs<'e>(&mut self, exprs: impl IntoIterator<Item = &'e mut Expr>) -> SqlResult<()> {
        exprs.into_iter().try_for_each(|expr| self.expr(expr))
    }

    /// Plans the subqueries in an expression.
    fn expr(&mut self, expr: &mut Expr) -> SqlResult<()> {
        children_of_expr_mut(expr, &mut |child, _| match child {
            ChildMut::Expr(part) => self.expr(part),
            ChildMut::Plan(plan) => self.plan(plan, &RequiredProperties::default()).map(drop),
        })
    }

    /// Plans an operator and all below it. Returns true if its rows come in the wanted order.
    fn plan(&mut self, plan: &mut Plan, wanted: &RequiredProperties) -> SqlResult<bool> {
        statement::stack::check()?;
        match plan {
            Plan::Shared { id, plan } => {
                self.shared(*id, plan)?;
                return Ok(false);
            }
            Plan::Recursive(recursive) => {
                self.recursive(recursive)?;
                return Ok(false);
            }
            Plan::Modified(modify) => {
                self.modified(modify)?;
                return Ok(false);
            }
            Plan::Modifying { modifies, input: _ } => {
                modifies.iter_mut().try_for_each(|modify| self.modified(modify))?;
            }
            Plan::Aggregate { input, groups, sets: None, calls } if groups.is_empty() => {
                if let Plan::From(tree) = &**input
                    && let Some(ends) = self.ends(tree, calls)?
                {
                    **input = ends;
                    return Ok(false);
                }
            }
            _ => {}
        }
        let below = wanted_below(plan, wanted);
        let mut is_given = false;
        children_of_plan_mut(plan, &mut |child, _| match child {
            ChildMut::Expr(expr) => self.expr(expr),
            ChildMut::Plan(input) => {
                is_given = self.plan(input, &below)?;
                Ok(())
            }
        })?;
        // The subqueries of a join tree have been planned above, so its joins can be planned now.
        match mem::replace(plan, Plan::Unit) {
            Plan::From(tree) => {
                let mut joins = self.joins(*tree);
                is_given = wanted.order.as_ref().is_some_and(|keys| sorted::put_in_order(&mut joins, keys, wanted.few));
                *plan = Plan::Joins(joins);
                Ok(is_given)
            }
            Plan::Sort { input, keys: _ } if is_given => {
                *plan = *input;
                Ok(false)
            }
            other => {
                let keeps_order = matches!(other, Plan::Project { .. } | Plan::Distinct { .. });
                *plan = other;
                Ok(is_given && keeps_order)
            }
        }
    }

    fn joins(&mut self, tree: JoinTree) -> Joins {
        let JoinTree { when, group, width, needed } = tree;
        let mut steps = steps::steps_of(group, Vec::new(), &Slots::default(), &mut self.sizes);
        if let Some(needed) = &needed {
            columns::prune(&mut steps, needed);
        }
        Joins { when, steps, width }
    }

    /// Plans a shared query once, however often it is referenced.
    fn shared(&mut self, id: u64, plan: &mut Arc<Plan>) -> SqlResult<()> {
        if !self.shared.contains_key(&id) {
            let mut own = Plan::clone(plan);
            self.plan(&mut own, &RequiredProperties::default())?;
            self.shared.insert(id, Arc::new(own));
        }
        if let Some(planned) = self.shared.get(&id) {
            plan.clone_from(planned);
        }
        Ok(())
    }

    /// Plans a recursive query once, however often it is referenced.
    fn recursive(&mut self, recursive: &mut Arc<Recursive>) -> SqlResult<()> {
        let id = recursive.id;
        if !self.recursive.contains_key(&id) {
            let Recursive { id, all, kinds, first, step, references, looks_out } = &**recursive;
            let (mut first, mut step) = (first.clone(), step.clone());
            self.plan(&mut first, &RequiredProperties::default())?;
            self.plan(&mut step, &RequiredProperties::default())?;
            let references = AtomicUsize::new(references.load(Ordering::Relaxed));
            let (id, all, kinds, looks_out) = (*id, *all, kinds.clone(), *looks_out);
            self.recursive.insert(id, Arc::new(Recursive { id, all, kinds, first, step, references, looks_out }));
        }
        if let Some(planned) = self.recursive.get(&id) {
            recursive.clone_from(planned);
        }
        Ok(())
    }

    /// Plans a data-modifying statement of `WITH` once, however often it is referenced.
    fn modified(&mut self, modify: &mut Arc<Modify>) -> SqlResult<()> {
        let key = Arc::as_ptr(modify);
        if !self.modified.contains_key(&key) {
            let mut own = Modify::clone(modify);
            self.change(&mut own)?;
            // The logical plan is kept as long as the planner, so that its address cannot be reused.
            self.modified.insert(key, (Arc::clone(modify), Arc::new(own)));
        }
        if let Some((_, planned)) = self.modified.get(&key) {
            modify.clone_from(planned);
        }
        Ok(())
    }

    /// Replaces the input of `min` and `max` by the first and last rows of indexes, if all arguments have one. The
    /// arguments of the calls become columns of these rows.
    fn ends(&mut self, tree: &JoinTree, calls: &mut [AggregateCall]) -> SqlResult<Option<Plan>> {
        let Some(keys) = calls.iter().map(end_of).collect::<Option<Vec<SortKey>>>() else { return Ok(None) };
        let columns: Vec<Expr> = keys.iter().map(|key| key.value.clone()).collect();
        let kinds: Vec<Kind> = keys.iter().map(|key| key.kind).collect();
        let mut rows: Option<Plan> = None;
        for key in keys {
            let value = key.value.clone();
            let mut input = Plan::From(Box::new(tree.clone()));
            if !self.plan(&mut input, &RequiredProperties { order: Some(vec![key]), few: true })? {
                return Ok(None);
            }
            let condition = Expr::Not(Box::new(Expr::IsNull(Box::new(value))));
            let input = Box::new(Plan::Filter { input: Box::new(input), condition });
            let input = Box::new(Plan::Limit { input, limit: Some(Expr::Constant(Datum::Int8(1))), offset: None });
            let one = Plan::Project { input, columns: columns.clone() };
            rows = Some(match rows {
                None => one,
                Some(before) => Plan::Set {
                    operation: SetOperation::Union,
                    all: true,
                    kinds: kinds.clone(),
                    left: Box::new(before),
                    right: Box::new(one),
                },
            });
        }
        if rows.is_some() {
            for (at, argument) in calls.iter_mut().flat_map(|call| &mut call.arguments).enumerate() {
                *argument = Expr::Column(at);
            }
        }
        Ok(rows)
    }
}

/// Returns the order in which the first non-null value is the result of the aggregate: `min` or `max` of a column.
fn end_of(call: &AggregateCall) -> Option<SortKey> {
    let AggregateCall { aggregate, arguments, argument_kinds, is_distinct: _, order, orders_arguments, filter } = call;
    let descending = match aggregate.name {
        "min" => false,
        "max" => true,
        _ => return None,
    };
    match (&arguments[..], &argument_kinds[..], filter) {
        ([value @ Expr::Column(_)], [kind], None) if order.is_empty() || *orders_arguments => {
            Some(SortKey { value: value.clone(), kind: *kind, descending, nulls_first: descending })
        }
        _ => None,
    }
}

/// Returns the properties that an operator prefers for its input, given those preferred for its own rows.
fn wanted_below(plan: &Plan, wanted: &RequiredProperties) -> RequiredProperties {
    let few = wanted.few;
    match plan {
        Plan::Project { input: _, columns } => {
            let key = |key: &SortKey| match key.value {
                Expr::Column(at) => match columns.get(at)? {
                    Expr::Column(own) => Some(SortKey { value: Expr::Column(*own), ..key.clone() }),
                    _ => None,
                },
                _ => None,
            };
            let order = wanted.order.as_ref().and_then(|keys| keys.iter().map(key).collect());
            RequiredProperties { order, few }
        }
        Plan::Distinct { .. } => wanted.clone(),
        Plan::Sort { input: _, keys } => RequiredProperties { order: Some(keys.clone()), few },
        Plan::DistinctOn { .. } | Plan::Sets { .. } | Plan::Lock { .. } => RequiredProperties { order: None, few },
        Plan::Limit { input: _, limit, offset: _ } | Plan::Ties { input: _, keys: _, limit, offset: _ } => {
            RequiredProperties { order: None, few: limit.is_some() }
        }
        // These operators read all of their input, in any order.
        Plan::Unit
        | Plan::Values(_)
        | Plan::From(_)
        | Plan::Joins(_)
        | Plan::Filter { .. }
        | Plan::Aggregate { .. }
        | Plan::Windows { .. }
        | Plan::Set { .. }
        | Plan::System(_)
        | Plan::Routine(_)
        | Plan::Shared { .. }
        | Plan::Recursive(_)
        | Plan::Working(_)
        | Plan::Modified(_)
        | Plan::Modifying { .. } => RequiredProperties::default(),
    }
}
