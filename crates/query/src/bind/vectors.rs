//! `int2vector` and `oidvector`: arrays of the system catalogs whose subscripts start at 0.
//!
//! **Invariant:** functions on arrays see them as arrays. Subscripts are shifted by one in arguments and results.

use super::Binder;
use crate::plan::{Expr, Typed};
use statement::error::SqlResult;
use types::Kind;
use types::datum::Datum;
use types::ops::{self, CastContext};

/// Returns the array type that corresponds to a vector type.
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
    /// Binds a call of an array function with vectors among its arguments; `None` for any other call.
    pub(super) fn call_with_vectors(&self, name: &str, arguments: &[Typed]) -> Option<SqlResult<Typed>> {
        let kinds: Vec<Kind> = arguments.iter().map(|argument| argument.kind.kind).collect();
        if kinds.iter().all(|kind| array_of(*kind).is_none()) {
            return None;
        }
        // A function that takes vectors, or values of any type, gets them unchanged.
        let takes_them = |function: &ops::Function| {
            let declared = |at: usize| function.arguments.get(at).or(function.arguments.last()).copied();
            let is_taken = |(at, kind): (usize, &Kind)| array_of(*kind).is_none_or(|array| declared(at) != Some(array));
            kinds.iter().enumerate().all(is_taken)
        };
        if ops::resolve_function(self.env.functions(), name, &kinds).is_ok_and(|found| takes_them(found.function)) {
            return None;
        }
        Some(self.call_as_arrays(name, arguments))
    }

    fn call_as_arrays(&self, name: &str, arguments: &[Typed]) -> SqlResult<Typed> {
        let is_first = arguments.first().is_some_and(|first| array_of(first.kind.kind).is_some());
        let mut arguments = arguments.to_vec();
        for argument in &mut arguments {
            if let Some(array) = array_of(argument.kind.kind) {
                *argument = self.coerce(argument.clone(), array.into(), CastContext::Implicit)?;
            }
        }
        if !is_first {
            return self.call(name, arguments);
        }
        let places = match name {
            "[]" => 1..2,
            "[:]" => 1..3,
            "array_position" => 2..3,
            _ => 0..0,
        };
        for at in arguments.get_mut(places).unwrap_or_default() {
            let place = at.place;
            *at = self.operator("+", Some(at.clone()), one())?.at(place);
        }
        match name {
            "array_dims" => {
                let length = self.call("cardinality", arguments)?;
                self.call("[dims]", vec![length])
            }
            "array_positions" => {
                let found = self.call(name, arguments)?;
                self.call("[positions]", vec![found])
            }
            "array_lower" | "array_upper" | "array_position" => {
                let result = self.call(name, arguments)?;
                self.operator("-", Some(result), one())
            }
            _ => self.call(name, arguments),
        }
    }
}

/// Returns the bounds of a slice without bounds, as subscripts of an array or a vector.
pub(super) fn widest(kind: Kind) -> (i32, i32) {
    if array_of(kind).is_some() { (0, i32::MAX - 1) } else { (1, i32::MAX) }
}
