//! Equality of expressions, including their subqueries (PostgreSQL's `equal`).
//!
//! Ids of shared and recursive queries are assigned at each binding, so they differ between copies of the same text.
//! Two such queries are equal if they have the same id, or if both were created since a given moment and are
//! structurally equal. An older one is the object of a name, and equals only itself.
//!
//! **Invariant:** there is no recursion: pending comparisons are kept in a list, so that nesting cannot overflow the
//! stack. A pair of queries is compared once, however often it is referenced, and within one comparison ids are paired
//! one to one.

use super::{
    AggregateCall, Expr, Frame, FrameBound, FrameUnit, InputKind, JoinGroup, JoinInput, JoinTree, OuterCondition,
    OuterJoin, Over, Plan, RangeSteps, Recursive, RoutineCall, SetCall, SetFunction, SortKey, TableRowLock, WindowCall,
    WindowFunction,
};
use statement::pulse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::{mem, ptr};
use types::Kind;
use types::datum::Datum;
use types::ops::Eval;

/// Units of work for comparing two nodes.
const NODE: usize = 8;
/// Bytes of a constant that are compared in a unit of work.
const BYTES: usize = 16;

/// Condition under which two queries with different ids may be copies of each other.
#[derive(Clone, Copy)]
pub(crate) struct QueryCopies<'p> {
    /// Lower bound of the ids of both, in the order of [`super::new_id`].
    pub since: u64,
    /// Hashes of the names in them, by id: as in PostgreSQL, queries with different names are not equal.
    pub names: &'p HashMap<u64, u64>,
}

impl QueryCopies<'_> {
    fn may_be(self, left: u64, right: u64) -> bool {
        self.since <= left && self.since <= right && self.names.get(&left) == self.names.get(&right)
    }
}

/// True if two expressions are equal. Without `copies` a query equals only itself. If the statement is cancelled, the
/// result is false.
pub(crate) fn is_same(left: &Expr, right: &Expr, copies: Option<QueryCopies<'_>>) -> bool {
    compare(copies, |comparison| comparison.expr(left, right))
}

/// True if two calls of set-returning functions are equal.
pub(crate) fn is_same_set(left: &SetCall, right: &SetCall, copies: Option<QueryCopies<'_>>) -> bool {
    compare(copies, |comparison| comparison.set_call(left, right))
}

/// Compares the outermost nodes by `begin`, then all pending pairs.
fn compare<'p>(copies: Option<QueryCopies<'p>>, begin: impl FnOnce(&mut PlanComparison<'p>) -> bool) -> bool {
    let mut comparison = PlanComparison { copies, todo: Vec::new(), partners: HashMap::new(), taken: HashSet::new() };
    let mut is_same = pulse::walk(NODE).is_ok() && begin(&mut comparison);
    while is_same && let Some(pair) = comparison.todo.pop() {
        is_same = pulse::walk(NODE).is_ok()
            && match pair {
                ComparedPair::Exprs(left, right) => comparison.expr(left, right),
                ComparedPair::Plans(left, right) => comparison.plan(left, right),
                ComparedPair::Groups(left, right) => comparison.inputs(left, right),
            };
    }
    is_same
}

/// Pair of nodes that are yet to be compared.
enum ComparedPair<'p> {
    Exprs(&'p Expr, &'p Expr),
    Plans(&'p Plan, &'p Plan),
    Groups(&'p JoinGroup, &'p JoinGroup),
}

/// Relation of two queries with ids.
enum NumberMatch {
    /// A pair that is met for the first time: they are equal if their contents are.
    First,
    Again,
    Others,
}

/// State of [`is_same`]. Each method compares two nodes without their children, and adds these to the pending pairs.
struct PlanComparison<'p> {
    copies: Option<QueryCopies<'p>>,
    todo: Vec<ComparedPair<'p>>,
    /// Ids of the right side by those of the left side.
    partners: HashMap<u64, u64>,
    /// Ids of the right side that have a partner.
    taken: HashSet<u64>,
}

impl<'p> PlanComparison<'p> {
    fn meet(&mut self, left: u64, right: u64) -> NumberMatch {
        match self.partners.get(&left) {
            Some(partner) if *partner == right => NumberMatch::Again,
            Some(_) => NumberMatch::Others,
            None if left != right && !self.copies.is_some_and(|copies| copies.may_be(left, right)) => {
                NumberMatch::Others
            }
            None if !self.taken.insert(right) => NumberMatch::Others,
            None => {
                self.partners.insert(left, right);
                NumberMatch::First
            }
        }
    }

    fn later(&mut self, left: &'p Expr, right: &'p Expr) -> bool {
        self.todo.push(ComparedPair::Exprs(left, right));
        true
    }

    fn query(&mut self, left: &'p Plan, right: &'p Plan) -> bool {
        self.todo.push(ComparedPair::Plans(left, right));
        true
    }

    fn exprs(&mut self, left: &'p [Expr], right: &'p [Expr]) -> bool {
        left.len() == right.len() && left.iter().zip(right).all(|(left, right)| self.later(left, right))
    }

    fn option(&mut self, left: Option<&'p Expr>, right: Option<&'p Expr>) -> bool {
        match (left, right) {
            (Some(left), Some(right)) => self.later(left, right),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    fn with_kinds(&mut self, left: &'p [(Expr, Kind)], right: &'p [(Expr, Kind)]) -> bool {
        left.len() == right.len()
            && left
                .iter()
                .zip(right)
                .all(|((left, kind), (other, other_kind))| kind == other_kind && self.later(left, other))
    }

    fn expr(&mut self, left: &'p Expr, right: &'p Expr) -> bool {
        match (left, right) {
            (Expr::Constant(left), Expr::Constant(right)) => is_same_constant(left, right),
            (Expr::Parameter(left), Expr::Parameter(right))
            | (Expr::Column(left), Expr::Column(right))
            | (Expr::Local(left), Expr::Local(right)) => left == right,
            (Expr::Outer { level, column }, Expr::Outer { level: other_level, column: other_column }) => {
                level == other_level && column == other_column
            }
            (Expr::Call { callee, arguments }, Expr::Call { callee: other, arguments: others }) => {
                callee.is_same(other) && self.exprs(arguments, others)
            }
            (Expr::Cast { eval, to, argument }, Expr::Cast { eval: other_eval, to: other_to, argument: other }) => {
                ptr::fn_addr_eq(*eval, *other_eval) && to == other_to && self.later(argument, other)
            }
            (Expr::And(left), Expr::And(right))
            | (Expr::Or(left), Expr::Or(right))
            | (Expr::Coalesce(left), Expr::Coalesce(right))
            | (Expr::Array(left), Expr::Array(right)) => self.exprs(left, right),
            (Expr::Not(left), Expr::Not(right)) | (Expr::IsNull(left), Expr::IsNull(right)) => self.later(left, right),
            (Expr::IsBool(left, value), Expr::IsBool(right, other_value)) => {
                value == other_value && self.later(left, right)
            }
            (Expr::IsSame { kind, arguments }, Expr::IsSame { kind: other_kind, arguments: others }) => {
                kind == other_kind && self.exprs(&arguments[..], &others[..])
            }
            (Expr::Case { whens, otherwise }, Expr::Case { whens: other_whens, otherwise: other_otherwise }) => {
                whens.len() == other_whens.len()
                    && whens.iter().zip(other_whens).all(|((when, then), (other_when, other_then))| {
                        self.later(when, other_when) && self.later(then, other_then)
                    })
                    && self.later(otherwise, other_otherwise)
            }
            (Expr::Let { values, body }, Expr::Let { values: others, body: other_body }) => {
                self.exprs(values, others) && self.later(body, other_body)
            }
            (
                Expr::Extreme { greatest, kind, arguments },
                Expr::Extreme { greatest: other_greatest, kind: other_kind, arguments: others },
            ) => greatest == other_greatest && kind == other_kind && self.exprs(arguments, others),
            (Expr::Scalar(left), Expr::Scalar(right))
            | (Expr::Exists(left), Expr::Exists(right))
            | (Expr::ArrayQuery(left), Expr::ArrayQuery(right)) => self.query(left, right),
            (
                Expr::InQuery { kinds, arguments, query },
                Expr::InQuery { kinds: other_kinds, arguments: others, query: other_query },
            ) => kinds == other_kinds && self.exprs(arguments, others) && self.query(query, other_query),
            (
                Expr::InList { kind, argument, list, hashed: _ },
                Expr::InList { kind: other_kind, argument: other, list: other_list, hashed: _ },
            ) => kind == other_kind && self.later(argument, other) && self.exprs(list, other_list),
            (
                Expr::Quantified { all, arguments, over, condition, hashed: _ },
                Expr::Quantified {
                    all: other_all,
                    arguments: others,
                    over: other_over,
                    condition: other_condition,
                    hashed: _,
                },
            ) => {
                let is_over_same = match (over, other_over) {
                    (Over::Query(left), Over::Query(right)) => self.query(left, right),
                    (Over::Array(left), Over::Array(right)) => self.later(left, right),
                    (Over::Query(_), Over::Array(_)) | (Over::Array(_), Over::Query(_)) => false,
                };
                is_over_same
                    && all == other_all
                    && self.exprs(arguments, others)
                    && self.later(condition, other_condition)
            }
            (Expr::Now { to }, Expr::Now { to: other_to }) => to == other_to,
            (Expr::Sequence { call, arguments }, Expr::Sequence { call: other_call, arguments: others }) => {
                call == other_call && self.exprs(arguments, others)
            }
            (Expr::Advisory { call, arguments }, Expr::Advisory { call: other_call, arguments: others }) => {
                call == other_call && self.exprs(arguments, others)
            }
            (Expr::Routine(call), Expr::Routine(other)) => self.routine(call, other),
            // Every variant is listed, so that the compiler reports a new one instead of it being unequal to itself.
            (
                Expr::Constant(_)
                | Expr::Parameter(_)
                | Expr::Column(_)
                | Expr::Outer { .. }
                | Expr::Call { .. }
                | Expr::Cast { .. }
                | Expr::And(_)
                | Expr::Or(_)
                | Expr::Not(_)
                | Expr::IsNull(_)
                | Expr::IsBool(..)
                | Expr::IsSame { .. }
                | Expr::Case { .. }
                | Expr::Let { .. }
                | Expr::Local(_)
                | Expr::Coalesce(_)
                | Expr::Extreme { .. }
                | Expr::Scalar(_)
                | Expr::Exists(_)
                | Expr::InQuery { .. }
                | Expr::InList { .. }
                | Expr::Quantified { .. }
                | Expr::Array(_)
                | Expr::ArrayQuery(_)
                | Expr::Now { .. }
                | Expr::Sequence { .. }
                | Expr::Routine(_)
                | Expr::Advisory { .. },
                _,
            ) => false,
        }
    }

    fn plan(&mut self, left: &'p Plan, right: &'p Plan) -> bool {
        match (left, right) {
            (Plan::Unit, Plan::Unit) => true,
            (Plan::Values(left), Plan::Values(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|(left, right)| self.exprs(left, right))
            }
            (Plan::From(tree), Plan::From(other)) => {
                let JoinTree { when, group, width, needed } = &**tree;
                *width == other.width
                    && *needed == other.needed
                    && self.option(when.as_ref(), other.when.as_ref())
                    && self.group(group, &other.group)
            }
            (Plan::Filter { input, condition }, Plan::Filter { input: other, condition: other_condition }) => {
                self.later(condition, other_condition) && self.query(input, other)
            }
            (Plan::Project { input, columns }, Plan::Project { input: other, columns: other_columns }) => {
                self.exprs(columns, other_columns) && self.query(input, other)
            }
            (
                Plan::Aggregate { input, groups, sets, calls },
                Plan::Aggregate { input: other, groups: other_groups, sets: other_sets, calls: other_calls },
            ) => {
                sets == other_sets
                    && self.with_kinds(groups, other_groups)
                    && calls.len() == other_calls.len()
                    && calls.iter().zip(other_calls).all(|(call, other)| self.aggregate(call, other))
                    && self.query(input, other)
            }
            (Plan::Windows { input, calls }, Plan::Windows { input: other, calls: other_calls }) => {
                calls.len() == other_calls.len()
                    && calls.iter().zip(other_calls).all(|(call, other)| self.window(call, other))
                    && self.query(input, other)
            }
            (Plan::Sets { input, calls }, Plan::Sets { input: other, calls: other_calls }) => {
                self.set_calls(calls, other_calls) && self.query(input, other)
            }
            (Plan::Sort { input, keys }, Plan::Sort { input: other, keys: other_keys }) => {
                self.sort_keys(keys, other_keys) && self.query(input, other)
            }
            (Plan::Distinct { input, kinds }, Plan::Distinct { input: other, kinds: other_kinds }) => {
                kinds == other_kinds && self.query(input, other)
            }
            (Plan::DistinctOn { input, values }, Plan::DistinctOn { input: other, values: other_values }) => {
                self.with_kinds(values, other_values) && self.query(input, other)
            }
            (
                Plan::Limit { input, limit, offset },
                Plan::Limit { input: other, limit: other_limit, offset: other_offset },
            ) => {
                self.option(limit.as_ref(), other_limit.as_ref())
                    && self.option(offset.as_ref(), other_offset.as_ref())
                    && self.query(input, other)
            }
            (
                Plan::Ties { input, keys, limit, offset },
                Plan::Ties { input: other, keys: other_keys, limit: other_limit, offset: other_offset },
            ) => {
                self.sort_keys(keys, other_keys)
                    && self.option(limit.as_ref(), other_limit.as_ref())
                    && self.option(offset.as_ref(), other_offset.as_ref())
                    && self.query(input, other)
            }
            (
                Plan::Set { operation, all, kinds, left, right },
                Plan::Set {
                    operation: other_operation,
                    all: other_all,
                    kinds: other_kinds,
                    left: other_left,
                    right: other_right,
                },
            ) => {
                operation == other_operation
                    && all == other_all
                    && kinds == other_kinds
                    && self.query(left, other_left)
                    && self.query(right, other_right)
            }
            (
                Plan::Lock { input, locks, joins, condition },
                Plan::Lock { input: other, locks: other_locks, joins: other_joins, condition: other_condition },
            ) => {
                locks.len() == other_locks.len()
                    && locks.iter().zip(other_locks).all(|(lock, other)| is_same_lock(lock, other))
                    && joins.len() == other_joins.len()
                    && joins.iter().zip(other_joins).all(|(join, other)| {
                        let OuterJoin { on, first, width } = join;
                        *first == other.first && *width == other.width && self.option(on.as_ref(), other.on.as_ref())
                    })
                    && self.option(condition.as_ref(), other_condition.as_ref())
                    && self.query(input, other)
            }
            (Plan::System(left), Plan::System(right)) => left.oid == right.oid,
            (Plan::Routine(call), Plan::Routine(other)) => self.expr(call, other),
            (Plan::Shared { id, plan }, Plan::Shared { id: other_id, plan: other }) => {
                match self.meet(*id, *other_id) {
                    NumberMatch::First => id == other_id || self.query(plan, other),
                    NumberMatch::Again => true,
                    NumberMatch::Others => false,
                }
            }
            (Plan::Recursive(left), Plan::Recursive(right)) => self.recursive(left, right),
            (Plan::Working(left), Plan::Working(right)) => match self.partners.get(left) {
                Some(partner) => partner == right,
                None => left == right,
            },
            // A data-modifying statement runs once, however often it is referenced.
            (Plan::Modified(left), Plan::Modified(right)) => Arc::ptr_eq(left, right),
            (Plan::Modifying { modifies, input }, Plan::Modifying { modifies: others, input: other }) => {
                modifies.len() == others.len()
                    && modifies.iter().zip(others).all(|(one, other)| Arc::ptr_eq(one, other))
                    && self.query(input, other)
            }
            (
                Plan::Unit
                | Plan::Values(_)
                | Plan::From(_)
                // Only logical plans are compared.
                | Plan::Joins(_)
                | Plan::Filter { .. }
                | Plan::Project { .. }
                | Plan::Aggregate { .. }
                | Plan::Windows { .. }
                | Plan::Sets { .. }
                | Plan::Sort { .. }
                | Plan::Distinct { .. }
                | Plan::DistinctOn { .. }
                | Plan::Limit { .. }
                | Plan::Ties { .. }
                | Plan::Set { .. }
                | Plan::Lock { .. }
                | Plan::System(_)
                | Plan::Routine(_)
                | Plan::Shared { .. }
                | Plan::Recursive(_)
                | Plan::Working(_)
                | Plan::Modified(_)
                | Plan::Modifying { .. },
                _,
            ) => false,
        }
    }

    fn routine(&mut self, left: &'p RoutineCall, right: &'p RoutineCall) -> bool {
        left.routine.oid == right.routine.oid && self.exprs(&left.arguments, &right.arguments)
    }

    fn recursive(&mut self, left: &'p Recursive, right: &'p Recursive) -> bool {
        let Recursive { id, all, kinds, first, step, references: _, looks_out } = left;
        match self.meet(*id, right.id) {
            // A correlated one may have been moved to another depth since its creation, so contents are compared.
            NumberMatch::First if *id == right.id && !looks_out => true,
            NumberMatch::First => {
                *all == right.all
                    && *kinds == right.kinds
                    && *looks_out == right.looks_out
                    && self.query(first, &right.first)
                    && self.query(step, &right.step)
            }
            NumberMatch::Again => true,
            NumberMatch::Others => false,
        }
    }

    fn group(&mut self, left: &'p JoinGroup, right: &'p JoinGroup) -> bool {
        self.todo.push(ComparedPair::Groups(left, right));
        true
    }

    fn inputs(&mut self, left: &'p JoinGroup, right: &'p JoinGroup) -> bool {
        let JoinGroup { inputs, conditions } = left;
        inputs.len() == right.inputs.len()
            && self.exprs(conditions, &right.conditions)
            && inputs.iter().zip(&right.inputs).all(|(left, right)| self.input(left, right))
    }

    fn input(&mut self, left: &'p JoinInput, right: &'p JoinInput) -> bool {
        let JoinInput { kind, first, width, outer, needs } = left;
        let is_outer_same = match (outer, &right.outer) {
            (None, None) => true,
            (Some(OuterCondition { on, left }), Some(right)) => *left == right.left && self.exprs(on, &right.on),
            (Some(_), None) | (None, Some(_)) => false,
        };
        is_outer_same
            && *first == right.first
            && *width == right.width
            && *needs == right.needs
            && self.input_kind(kind, &right.kind)
    }

    fn input_kind(&mut self, left: &'p InputKind, right: &'p InputKind) -> bool {
        match (left, right) {
            (InputKind::Table(table), InputKind::Table(other)) => table.oid == other.oid,
            (InputKind::Query { plan, is_lateral }, InputKind::Query { plan: other, is_lateral: other_is_lateral }) => {
                is_lateral == other_is_lateral && self.query(plan, other)
            }
            (
                InputKind::Functions { calls, is_numbered },
                InputKind::Functions { calls: others, is_numbered: other_is_numbered },
            ) => is_numbered == other_is_numbered && self.set_calls(calls, others),
            (InputKind::Group(left), InputKind::Group(right)) => self.group(left, right),
            (
                InputKind::Full { left, right, on },
                InputKind::Full { left: other_left, right: other_right, on: other_on },
            ) => self.group(left, other_left) && self.group(right, other_right) && self.exprs(on, other_on),
            (
                InputKind::Table(_)
                | InputKind::Query { .. }
                | InputKind::Functions { .. }
                | InputKind::Group(_)
                | InputKind::Full { .. },
                _,
            ) => false,
        }
    }

    fn sort_keys(&mut self, left: &'p [SortKey], right: &'p [SortKey]) -> bool {
        left.len() == right.len()
            && left.iter().zip(right).all(|(SortKey { value, kind, descending, nulls_first }, right)| {
                *kind == right.kind
                    && *descending == right.descending
                    && *nulls_first == right.nulls_first
                    && self.later(value, &right.value)
            })
    }

    fn set_call(&mut self, left: &'p SetCall, right: &'p SetCall) -> bool {
        let SetCall { function, arguments } = left;
        is_same_set_function(function, &right.function) && self.exprs(arguments, &right.arguments)
    }

    fn set_calls(&mut self, left: &'p [SetCall], right: &'p [SetCall]) -> bool {
        left.len() == right.len() && left.iter().zip(right).all(|(left, right)| self.set_call(left, right))
    }

    fn aggregate(&mut self, left: &'p AggregateCall, right: &'p AggregateCall) -> bool {
        let AggregateCall { aggregate, arguments, argument_kinds, is_distinct, order, orders_arguments, filter } = left;
        ptr::eq(*aggregate, right.aggregate)
            && *argument_kinds == right.argument_kinds
            && *is_distinct == right.is_distinct
            && *orders_arguments == right.orders_arguments
            && self.exprs(arguments, &right.arguments)
            && self.sort_keys(order, &right.order)
            && self.option(filter.as_ref(), right.filter.as_ref())
    }

    fn window(&mut self, left: &'p WindowCall, right: &'p WindowCall) -> bool {
        let WindowCall { function, arguments, partition, order, frame } = left;
        let is_function_same = match (function, &right.function) {
            (WindowFunction::Aggregate(left), WindowFunction::Aggregate(right)) => self.aggregate(left, right),
            (
                WindowFunction::RowNumber
                | WindowFunction::Rank
                | WindowFunction::DenseRank
                | WindowFunction::PercentRank
                | WindowFunction::CumeDist
                | WindowFunction::Ntile
                | WindowFunction::Lag
                | WindowFunction::Lead
                | WindowFunction::FirstValue
                | WindowFunction::LastValue
                | WindowFunction::NthValue
                | WindowFunction::Aggregate(_),
                other,
            ) => mem::discriminant(function) == mem::discriminant(other),
        };
        is_function_same
            && self.exprs(arguments, &right.arguments)
            && self.with_kinds(partition, &right.partition)
            && self.sort_keys(order, &right.order)
            && self.frame(frame, &right.frame)
    }

    fn frame(&mut self, left: &'p Frame, right: &'p Frame) -> bool {
        let Frame { unit, start, end, exclude } = left;
        is_same_unit(unit, &right.unit)
            && *exclude == right.exclude
            && self.bound(start, &right.start)
            && self.bound(end, &right.end)
    }

    fn bound(&mut self, left: &'p FrameBound, right: &'p FrameBound) -> bool {
        match (left, right) {
            (FrameBound::Preceding(left), FrameBound::Preceding(right))
            | (FrameBound::Following(left), FrameBound::Following(right)) => self.later(left, right),
            (
                FrameBound::UnboundedPreceding
                | FrameBound::Preceding(_)
                | FrameBound::CurrentRow
                | FrameBound::Following(_)
                | FrameBound::UnboundedFollowing,
                other,
            ) => mem::discriminant(left) == mem::discriminant(other),
        }
    }
}

/// True if two constants are identical, which is stricter than `=`: 1.0 and 1.00 display differently, as -0 and 0 do.
pub fn is_same_constant(left: &Datum, right: &Datum) -> bool {
    let _ = pulse::walk(left.text_bytes() / BYTES);
    match (left, right) {
        (Datum::Float4(left), Datum::Float4(right)) => left.to_bits() == right.to_bits(),
        (Datum::Float8(left), Datum::Float8(right)) => left.to_bits() == right.to_bits(),
        (Datum::Numeric(left), Datum::Numeric(right)) => left.scale() == right.scale() && left == right,
        (Datum::Array(left), Datum::Array(right)) => {
            let _ = pulse::walk(left.len());
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same_constant(left, right))
        }
        (
            Datum::Null
            | Datum::Bool(_)
            | Datum::Int2(_)
            | Datum::Int4(_)
            | Datum::Int8(_)
            | Datum::Oid(_)
            | Datum::Float4(_)
            | Datum::Float8(_)
            | Datum::Numeric(_)
            | Datum::Text(_)
            | Datum::Bytes(_)
            | Datum::Date(_)
            | Datum::Time(_)
            | Datum::Timestamp(_)
            | Datum::Interval(_)
            | Datum::Uuid(_)
            | Datum::Array(_),
            _,
        ) => left == right,
    }
}

fn is_same_eval(left: Eval, right: Eval) -> bool {
    match (left, right) {
        (Eval::Plain(left), Eval::Plain(right)) => ptr::fn_addr_eq(left, right),
        (Eval::InContext(left), Eval::InContext(right)) => ptr::fn_addr_eq(left, right),
        (Eval::Plain(_), Eval::InContext(_)) | (Eval::InContext(_), Eval::Plain(_)) => false,
    }
}

fn is_same_lock(left: &TableRowLock, right: &TableRowLock) -> bool {
    let TableRowLock { table, first, mode, wait } = left;
    table.oid == right.table.oid && *first == right.first && *mode == right.mode && *wait == right.wait
}

/// True if two set-returning functions are the same, whatever their arguments are.
fn is_same_set_function(left: &SetFunction, right: &SetFunction) -> bool {
    match (left, right) {
        (
            SetFunction::Series { kind, step, add, zero },
            SetFunction::Series { kind: other_kind, step: other_step, add: other_add, zero: other_zero },
        ) => {
            kind == other_kind
                && step == other_step
                && is_same_eval(*add, *other_add)
                && is_same_constant(zero, other_zero)
        }
        (SetFunction::Subscripts { first }, SetFunction::Subscripts { first: other }) => first == other,
        (
            SetFunction::Series { .. }
            | SetFunction::Unnest
            | SetFunction::Subscripts { .. }
            | SetFunction::StringToTable
            | SetFunction::One
            | SetFunction::Routine,
            other,
        ) => mem::discriminant(left) == mem::discriminant(other),
    }
}

fn is_same_unit(left: &FrameUnit, right: &FrameUnit) -> bool {
    match (left, right) {
        (FrameUnit::Range(Some(left)), FrameUnit::Range(Some(right))) => {
            let RangeSteps { minus, plus, offset } = left;
            is_same_eval(*minus, right.minus) && is_same_eval(*plus, right.plus) && *offset == right.offset
        }
        (FrameUnit::Range(left), FrameUnit::Range(right)) => left.is_none() && right.is_none(),
        (FrameUnit::Rows | FrameUnit::Groups | FrameUnit::Range(_), other) => {
            mem::discriminant(left) == mem::discriminant(other)
        }
    }
}
