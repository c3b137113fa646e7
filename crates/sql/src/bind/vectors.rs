//! `int2vector` and `oidvector`: the catalog's arrays, which count from 0.
//!
//! **Invariant:** to functions of arrays they are arrays; places in them, given or returned, are one less.

use super::Binder;
use crate::datum::Datum;
use crate::error::SqlResult;
use crate::ops::{self, Context};
use crate::plan::{Expr, Typed};
use crate::types::Kind;

/// The type of the array that a vector is.
pub(super) fn array_of(kind: Kind) -> Option<Kind> {
    match kind {
        Kind::Int2Vector | Kind::OidVector => kind.element()?.array_of(),
        _ => None,
    }
}

fn one() -> Typed {
    Typed::new(Expr::Constant(Datum::Int4(1)), Kind::Int4)
}

impl Binder<'_> {
    /// A call of a function that takes arrays, with vectors among its arguments; nothing for any other.
    pub(super) fn call_with_vectors(&self, name: &str, arguments: &[Typed]) -> Option<SqlResult<Typed>> {
        let kinds: Vec<Kind> = arguments.iter().map(|argument| argument.kind.kind).collect();
        if kinds.iter().all(|kind| array_of(*kind).is_none()) || ops::resolve_function(name, &kinds).is_ok() {
            return None;
        }
        Some(self.call_as_arrays(name, arguments))
    }

    fn call_as_arrays(&self, name: &str, arguments: &[Typed]) -> SqlResult<Typed> {
        let mut arguments = arguments.to_vec();
        for argument in &mut arguments {
            if let Some(array) = array_of(argument.kind.kind) {
                *argument = self.coerce(argument.clone(), array.into(), Context::Implicit)?;
            }
        }
        if name == "[]"
            && let Some(at) = arguments.get_mut(1)
        {
            *at = self.operator("+", Some(at.clone()), one())?;
        }
        let result = self.call(name, arguments)?;
        match name {
            "array_lower" | "array_upper" => self.operator("-", Some(result), one()),
            _ => Ok(result),
        }
    }

    /// The least and the greatest place in a vector.
    pub(super) fn places_of_vector(&self, vector: Typed) -> SqlResult<(Typed, Typed)> {
        let last = self.operator("-", Some(self.call("cardinality", vec![vector])?), one())?;
        Ok((Typed::new(Expr::Constant(Datum::Int4(0)), Kind::Int4), last))
    }
}
