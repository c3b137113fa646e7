//! The table of operators, functions, casts and aggregates, and PostgreSQL's rules to choose among them.
//!
//! **Invariant:** an `eval` gets values of exactly the kinds that its entry declares. [`resolve_operator`] and
//! [`resolve_function`] name the casts that ensure it. A strict entry never sees NULL: the caller returns NULL itself.

pub mod aggregates;
mod arithmetic;
pub mod arrays;
pub mod build;
pub mod bytes;
mod callable;
pub mod casts;
pub mod compare;
pub mod context;
mod datetime;
mod fields;
mod formatting;
pub mod get;
pub mod json;
pub mod like;
mod math;
mod moments;
mod no_session;
mod ordered;
mod polymorphic;
mod regexp;
mod resolve;
mod session;
mod statistics;
mod strings;
#[cfg(test)]
mod tests;
mod text_functions;
mod trigonometry;

pub use aggregates::{Accumulator, Aggregate, ResolvedAggregate, resolve_aggregate};
pub use bytes::decoded;
pub use callable::{Callable, Callee};
pub use casts::{Cast, CastContext, find_cast};
pub use compare::{compare, is_comparable, is_same};
pub use context::{CallContext, Eval, PlainFunction};
pub use get::{impossible, mistyped};
pub use no_session::NoSession;
pub use resolve::{
    ResolvedFunction, ResolvedOperator, can_coerce, common_kind, is_function, resolve_function, resolve_operator,
};
pub use resolve::{common_kind_of, declared_kinds, function_error, select_candidate};
pub use session::said;

use crate::Kind;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Entry of the table of operators.
#[derive(Debug)]
pub struct Operator {
    /// Name as it is written. LIKE is `~~`, ILIKE `~~*`.
    pub name: &'static str,
    /// Type of the left operand, `None` for a prefix operator.
    pub left: Option<Kind>,
    /// Type of the right operand.
    pub right: Kind,
    /// Type of the result.
    pub result: Kind,
    /// True if the result is NULL when any operand is. Only `||` of arrays is not strict: NULL
    /// is an element, or no array.
    pub strict: bool,
    /// Code that gets the left operand, if there is one, and the right.
    pub eval: Eval,
}

/// Entry of the table of functions.
#[derive(Debug)]
pub struct Function {
    /// Name of the function.
    pub name: &'static str,
    /// Types of the arguments. [`Kind::Void`] stands for any type, passed as its text.
    pub arguments: &'static [Kind],
    /// True if the last argument may be repeated.
    pub variadic: bool,
    /// Type of the result.
    pub result: Kind,
    /// True if the result is NULL when any argument is.
    pub strict: bool,
    /// True if two calls may return different results.
    pub volatile: bool,
    /// True if the OIDs of the arguments' types are passed after the arguments.
    pub told_types: bool,
    /// Code that computes the result.
    pub eval: Eval,
}

impl Function {
    /// Returns true if a call does more than return a value: a query with such a call may not be started twice.
    pub fn has_effects(&self) -> bool {
        const ANSWERS: [&str; 7] = [
            "clock_timestamp",
            "timeofday",
            "random",
            "gen_random_uuid",
            "pg_blocking_pids",
            "pg_isolation_test_session_is_blocked",
            "pg_safe_snapshot_blocking_pids",
        ];
        self.volatile && !ANSWERS.contains(&self.name)
    }
}

const fn operator(name: &'static str, left: Kind, right: Kind, result: Kind, eval: PlainFunction) -> Operator {
    Operator { name, left: Some(left), right, result, strict: true, eval: Eval::Plain(eval) }
}

const fn prefix(name: &'static str, right: Kind, result: Kind, eval: PlainFunction) -> Operator {
    Operator { name, left: None, right, result, strict: true, eval: Eval::Plain(eval) }
}

const fn function(name: &'static str, arguments: &'static [Kind], result: Kind, eval: PlainFunction) -> Function {
    Function {
        name,
        arguments,
        variadic: false,
        result,
        strict: true,
        volatile: false,
        told_types: false,
        eval: Eval::Plain(eval),
    }
}

/// Creates an operator like [`operator`], for one that depends on the session's state.
const fn operator_in(
    name: &'static str,
    left: Kind,
    right: Kind,
    result: Kind,
    eval: context::ContextFunction,
) -> Operator {
    Operator { name, left: Some(left), right, result, strict: true, eval: Eval::InContext(eval) }
}

/// Creates a function like [`function`], for one that depends on the session's state.
const fn function_in(
    name: &'static str,
    arguments: &'static [Kind],
    result: Kind,
    eval: context::ContextFunction,
) -> Function {
    Function {
        name,
        arguments,
        variadic: false,
        result,
        strict: true,
        volatile: false,
        told_types: false,
        eval: Eval::InContext(eval),
    }
}

/// Creates an entry like `function_in`, for entries that other modules of the crate add.
pub const fn line_in(
    name: &'static str,
    arguments: &'static [Kind],
    result: Kind,
    eval: context::ContextFunction,
) -> Function {
    function_in(name, arguments, result, eval)
}

fn by_name<T>(lines: Vec<T>, name: impl Fn(&T) -> &'static str) -> HashMap<&'static str, Vec<&'static T>> {
    let mut table: HashMap<_, Vec<_>> = HashMap::new();
    for line in Box::leak(lines.into_boxed_slice()).iter() {
        table.entry(name(line)).or_default().push(line);
    }
    table
}

/// Operators by name. The table is built at the first use, which is a statement's analysis: no urgent
/// context comes here first.
static OPERATORS: LazyLock<HashMap<&'static str, Vec<&'static Operator>>> = LazyLock::new(|| {
    let operators = [
        arithmetic::operators(),
        compare::operators(),
        datetime::operators(),
        like::operators(),
        regexp::operators(),
        arrays::operators(),
        math::operators(),
        strings::operators(),
        json::operators(),
    ];
    by_name(operators.into_iter().flatten().collect(), |line| line.name)
});

/// Returns the operators of a name.
pub fn operators_named(name: &str) -> &'static [&'static Operator] {
    OPERATORS.get(name).map_or(&[], Vec::as_slice)
}

/// Functions by name: functions of values, and functions that an upper layer adds.
#[derive(Debug)]
pub struct FunctionTable(HashMap<&'static str, Vec<&'static Function>>);

impl FunctionTable {
    /// Creates a table of the functions of values and of `more`, which come first. A process creates one table, as
    /// its entries are never freed.
    pub fn with(more: Vec<Function>) -> FunctionTable {
        let functions = [
            more,
            session::functions(),
            regexp::functions(),
            arrays::functions(),
            text_functions::functions(),
            bytes::functions(),
            moments::functions(),
            trigonometry::functions(),
            math::functions(),
            strings::functions(),
            like::functions(),
            fields::functions(),
            formatting::functions(),
            json::functions(),
        ];
        FunctionTable(by_name(functions.into_iter().flatten().collect(), |line| line.name))
    }

    /// Returns the functions of a name.
    pub fn named(&self, name: &str) -> &[&'static Function] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}
