//! Interface of what an expression calls.
//!
//! **Invariant:** executors and binder see a call through this interface alone, so that a function that the database stores is
//! called as a built-in one is.

use super::{CallContext, Function, Operator};
use crate::Kind;
use crate::datum::Datum;
use statement::error::{SqlError, SqlResult, SqlState};
use std::fmt::Debug;
use std::ptr;

/// Function or operator that an expression calls.
pub trait Callable: Debug + Send + Sync {
    /// Name, as errors show it.
    fn name(&self) -> &str;

    /// Kind of object, as errors show it: `function`, `operator`.
    fn noun(&self) -> &'static str;

    /// Type of the result.
    fn result(&self) -> Kind;

    /// Returns true if the result is NULL when any argument is.
    fn is_strict(&self) -> bool;

    /// Returns true if two calls may return different results.
    fn is_volatile(&self) -> bool;

    /// Returns true if a call does more than return a value: a query with such a call may not be started twice.
    fn has_effects(&self) -> bool;

    /// Computes the result from arguments. None of them is NULL if the callable is strict.
    ///
    /// # Errors
    /// Those of the code; `54000` for a result that is too long; `57014`.
    fn compute(&self, arguments: &[Datum], context: &dyn CallContext) -> SqlResult<Datum>;
}

impl Callable for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn noun(&self) -> &'static str {
        "function"
    }

    fn result(&self) -> Kind {
        self.result
    }

    fn is_strict(&self) -> bool {
        self.strict
    }

    fn is_volatile(&self) -> bool {
        self.volatile
    }

    fn has_effects(&self) -> bool {
        Function::has_effects(self)
    }

    fn compute(&self, arguments: &[Datum], context: &dyn CallContext) -> SqlResult<Datum> {
        self.eval.call(arguments, context)
    }
}

impl Callable for Operator {
    fn name(&self) -> &str {
        self.name
    }

    fn noun(&self) -> &'static str {
        "operator"
    }

    fn result(&self) -> Kind {
        self.result
    }

    fn is_strict(&self) -> bool {
        self.strict
    }

    fn is_volatile(&self) -> bool {
        false
    }

    fn has_effects(&self) -> bool {
        false
    }

    fn compute(&self, arguments: &[Datum], context: &dyn CallContext) -> SqlResult<Datum> {
        self.eval.call(arguments, context)
    }
}

/// Callable of an expression.
#[derive(Clone, Copy, Debug)]
pub enum Callee {
    /// Entry of the table of functions.
    Function(&'static Function),
    /// Entry of the table of operators.
    Operator(&'static Operator),
}

impl Callee {
    /// Returns the interface.
    #[inline]
    pub fn callable(&self) -> &dyn Callable {
        match self {
            Callee::Function(function) => *function,
            Callee::Operator(operator) => *operator,
        }
    }

    /// Returns the operator, if it is one.
    pub fn operator(&self) -> Option<&'static Operator> {
        match self {
            Callee::Operator(operator) => Some(operator),
            Callee::Function(_) => None,
        }
    }

    /// Returns the function, if it is one.
    pub fn function(&self) -> Option<&'static Function> {
        match self {
            Callee::Function(function) => Some(function),
            Callee::Operator(_) => None,
        }
    }

    /// Returns true if both stand for the same entry of a table.
    pub fn is_same(&self, other: &Callee) -> bool {
        match (self, other) {
            (Callee::Function(function), Callee::Function(other)) => ptr::eq(*function, *other),
            (Callee::Operator(operator), Callee::Operator(other)) => ptr::eq(*operator, *other),
            (Callee::Function(_), Callee::Operator(_)) | (Callee::Operator(_), Callee::Function(_)) => false,
        }
    }

    /// Calls it: the result of a strict one is NULL when any argument is.
    ///
    /// # Errors
    /// Those of [`Callable::compute`]; an internal error names the callable.
    #[inline]
    pub fn call(&self, arguments: &[Datum], context: &dyn CallContext) -> SqlResult<Datum> {
        let callable = self.callable();
        if callable.is_strict() && arguments.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        callable.compute(arguments, context).map_err(|error| self.of_call(error))
    }

    #[cold]
    fn of_call(&self, error: SqlError) -> SqlError {
        if error.state() != SqlState::INTERNAL_ERROR {
            return error;
        }
        let callable = self.callable();
        error.context(format!("{} {}", callable.noun(), callable.name()))
    }
}
