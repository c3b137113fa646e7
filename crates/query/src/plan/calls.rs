//! Aggregates, set-returning functions, stored routines and sort keys.

use super::Expr;
use catalog::{CatalogState, Language, Routine, RoutineResult, Volatility};
use std::sync::Arc;
use types::Kind;
use types::datum::Datum;
use types::ops::{Aggregate, Eval};

/// Call of a set-returning function.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SetCall {
    pub function: SetFunction,
    pub arguments: Vec<Expr>,
}

#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SetFunction {
    /// `generate_series(start, stop, step)`, with the function that adds a step, and the value of a zero step.
    Series { kind: Kind, step: Kind, add: Eval, zero: Datum },
    /// Elements of an array.
    Unnest,
    /// `generate_subscripts(array, dimension, reverse)` of an array whose lower bound is `first`.
    Subscripts { first: i32 },
    /// `string_to_table(text, delimiter, null)`
    StringToTable,
    /// Function of one value, as a set of one row.
    One,
    /// Rows of one column of the [`Expr::Routine`] that is its only argument.
    Routine,
}

/// Call of a function that the database stores. Its arguments are those of [`Routine::inputs`], of their types.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct RoutineCall {
    pub routine: Arc<Routine>,
    pub arguments: Vec<Expr>,
    /// True if the call is a computation: a function whose value depends on its arguments and the session alone, with
    /// code that reaches no rows. It may be made on any thread, together with others, and again.
    pub is_computation: bool,
}

impl RoutineCall {
    /// Creates a call by the catalog that it is bound with.
    pub fn new(routine: Arc<Routine>, arguments: Vec<Expr>, catalog: &CatalogState) -> RoutineCall {
        let manifest = routine.module().and_then(|(module, _)| catalog.module(module)).map(|module| &module.manifest);
        let reaches_no_rows = manifest.is_some_and(|all| all.tables.is_empty() && all.statements.is_empty());
        let is_value = !routine.is_set && matches!(routine.result, RoutineResult::Value(_));
        let is_computation = reaches_no_rows && is_value && routine.volatility != Volatility::Volatile;
        RoutineCall { routine, arguments, is_computation }
    }

    /// Returns the reason for which the call is no computation, in words for users; `None` if it is one.
    pub fn why_no_computation(&self) -> Option<&'static str> {
        let routine = &self.routine;
        if self.is_computation {
            return None;
        }
        if routine.language == Language::Sql {
            return Some("It is an SQL function whose body could not become a part of the query.");
        }
        match routine.volatility {
            Volatility::Volatile => return Some("The function is VOLATILE."),
            Volatility::Stable | Volatility::Immutable => {}
        }
        let returns_value = match routine.result {
            RoutineResult::Value(_) => !routine.is_set,
            RoutineResult::Nothing | RoutineResult::Row | RoutineResult::Relation(_) | RoutineResult::Record => false,
        };
        // What remains in the end is the module, which only the catalog knows.
        Some(match returns_value {
            true => "Its module names tables or statements.",
            false => "The function returns more than one value.",
        })
    }

    /// Returns true if two calls may return different results, or have effects.
    pub fn is_volatile(&self) -> bool {
        self.routine.volatility == Volatility::Volatile
    }
}

#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct AggregateCall {
    pub aggregate: &'static Aggregate,
    pub arguments: Vec<Expr>,
    pub argument_kinds: Vec<Kind>,
    pub is_distinct: bool,
    /// Order in which it receives the rows.
    pub order: Vec<SortKey>,
    /// True if the sort keys refer to the arguments instead of the row, as for DISTINCT and WITHIN GROUP.
    pub orders_arguments: bool,
    pub filter: Option<Expr>,
}

impl AggregateCall {
    /// Returns the expressions over the row.
    pub fn parts(&self) -> impl Iterator<Item = &Expr> {
        let AggregateCall { arguments, order, orders_arguments, filter, .. } = self;
        let keys = if *orders_arguments { &[][..] } else { &order[..] };
        arguments.iter().chain(keys.iter().map(|key| &key.value)).chain(filter)
    }

    /// Returns the expressions over the row for modification.
    pub(crate) fn parts_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let AggregateCall { arguments, order, orders_arguments, filter, .. } = self;
        let keys = if *orders_arguments { &mut [][..] } else { &mut order[..] };
        arguments.iter_mut().chain(keys.iter_mut().map(|key| &mut key.value)).chain(filter)
    }
}

#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SortKey {
    pub value: Expr,
    pub kind: Kind,
    pub descending: bool,
    pub nulls_first: bool,
}
