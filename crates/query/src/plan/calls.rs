//! Aggregates, functions that return sets, and keys of an order.

use super::Expr;
use types::Kind;
use types::datum::Datum;
use types::ops::{Aggregate, Eval};

/// Call of a function that returns a set of values.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SetCall {
    pub function: SetFunction,
    pub arguments: Vec<Expr>,
}

#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SetFunction {
    /// `generate_series`: from, to, step; what adds a step, and a step of nothing.
    Series { kind: Kind, step: Kind, add: Eval, zero: Datum },
    /// Elements of an array.
    Unnest,
    /// `generate_subscripts(array, dimension, reverse)`, of an array that begins at this place.
    Subscripts { first: i32 },
    /// `string_to_table(text, delimiter, null)`
    StringToTable,
    /// Function of one value: a set of one.
    One,
}

#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct AggregateCall {
    pub aggregate: &'static Aggregate,
    pub arguments: Vec<Expr>,
    pub argument_kinds: Vec<Kind>,
    pub is_distinct: bool,
    /// Order in which it is given the rows.
    pub order: Vec<SortKey>,
    /// True if the keys of the order are over the arguments and not over the row, as those of DISTINCT and WITHIN GROUP.
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

    /// Returns the expressions over the row, to be changed.
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
