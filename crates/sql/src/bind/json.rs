//! `json_build_object`, `json_build_array`, `to_json`: values of any type as JSON.
//!
//! **Invariant:** each argument is JSON by its own type before the function sees it: the table of functions has no type for
//! "any".

use super::Binder;
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::ops::Context;
use crate::plan::{Expr, Typed};
use crate::types::Kind;

impl Binder<'_> {
    /// A call of one of these functions.
    pub(super) fn json_call(&self, name: &str, arguments: Vec<Typed>) -> SqlResult<Typed> {
        let is_object = name == "json_build_object";
        if is_object && arguments.len() % 2 == 1 {
            let message = "argument list must have even number of elements";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .hint("The arguments of json_build_object() must consist of alternating keys and values."));
        }
        if name == "to_json" && arguments.len() != 1 {
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, "function to_json takes one argument"));
        }
        let mut parts = Vec::with_capacity(arguments.len());
        for (at, argument) in arguments.into_iter().enumerate() {
            let is_key = is_object && at % 2 == 0;
            parts.push(if is_key { self.json_text(argument, "json_key")? } else { self.json_value(argument)? });
        }
        let made = match name {
            "to_json" => parts.swap_remove(0),
            "json_build_object" if parts.is_empty() => constant("{}"),
            "json_build_array" if parts.is_empty() => constant("[]"),
            _ => self.call(if is_object { "json_object_of" } else { "json_array_of" }, parts)?,
        };
        Ok(Typed { kind: Kind::Json.into(), ..made })
    }

    /// A value's JSON, as text; null stays null.
    fn json_value(&self, argument: Typed) -> SqlResult<Typed> {
        match argument.kind.kind {
            Kind::Json | Kind::Bool | Kind::Int2 | Kind::Int4 | Kind::Int8 => {
                self.coerce(argument, Kind::Text.into(), Context::Explicit)
            }
            Kind::Numeric | Kind::Float4 | Kind::Float8 => self.json_text(argument, "json_number"),
            Kind::Timestamp | Kind::Timestamptz | Kind::Array(_) | Kind::Int2Vector | Kind::OidVector => {
                Err(SqlError::unsupported(format_args!("JSON of {}", argument.kind.name())))
            }
            _ => self.json_text(argument, "json_string"),
        }
    }

    fn json_text(&self, argument: Typed, function: &str) -> SqlResult<Typed> {
        let text = self.coerce(argument, Kind::Text.into(), Context::Explicit)?;
        self.call(function, vec![text])
    }
}

fn constant(text: &str) -> Typed {
    Typed { expr: Expr::Constant(Datum::text(text)), kind: Kind::Text.into() }
}
