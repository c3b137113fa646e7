//! Functions of sequences.

use super::{Binder, NameTarget};
use crate::plan::{Expr, SequenceCall, Typed};
use catalog::Relation;
use statement::error::{SqlError, SqlResult, SqlState};
use types::Kind;
use types::datum::Datum;
use types::ops::CastContext;

impl Binder<'_> {
    /// Returns the next value of an identity column's sequence. Whoever may write to the table may take it.
    pub fn next_number(&self, sequence: u32) -> Expr {
        Expr::Sequence { call: SequenceCall::Identity, arguments: vec![Expr::Constant(Datum::Oid(sequence))] }
    }

    pub(crate) fn sequence_call(&self, name: &str, arguments: Vec<Typed>) -> SqlResult<Typed> {
        let (call, counts) = match name {
            "nextval" => (SequenceCall::Next, 1..=1),
            "currval" => (SequenceCall::Current, 1..=1),
            "setval" => (SequenceCall::Set, 2..=3),
            _ => (SequenceCall::Last, 0..=0),
        };
        if !counts.contains(&arguments.len()) {
            let kinds: Vec<String> = arguments.iter().map(|argument| argument.kind.kind.name()).collect();
            let message = format!("function {name}({}) does not exist", kinds.join(", "));
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(
                "No function matches the given name and argument types. You might need to add explicit type casts.",
            ));
        }
        let mut bound = Vec::with_capacity(arguments.len());
        for (at, argument) in arguments.into_iter().enumerate() {
            bound.push(match at {
                0 => self.sequence_argument(name, argument)?,
                1 => self.coerce(argument, Kind::Int8.into(), CastContext::Implicit)?.expr,
                _ => self.coerce(argument, Kind::Bool.into(), CastContext::Implicit)?.expr,
            });
        }
        Ok(Typed::new(Expr::Sequence { call, arguments: bound }, Kind::Int8))
    }

    /// Binds the sequence of a call. A constant name is resolved at bind time, and a literal of digits is an OID, as
    /// for `regclass`.
    fn sequence_argument(&self, name: &str, argument: Typed) -> SqlResult<Expr> {
        if matches!(argument.kind.kind, Kind::Oid | Kind::Regclass) {
            return Ok(argument.expr);
        }
        let place = argument.place;
        if let (Kind::Unknown, Expr::Constant(Datum::Text(digits))) = (argument.kind.kind, &argument.expr)
            && let Ok(oid) = digits.parse()
        {
            self.note(place, || NameTarget::Literal(oid));
            return Ok(Expr::Constant(Datum::Oid(oid)));
        }
        let is_literal = argument.kind.kind == Kind::Unknown;
        let own = argument.clone();
        let argument = self.coerce(argument, Kind::Text.into(), CastContext::Implicit);
        let argument = argument.map_err(|_| super::functions::no_function(name, &[own]))?.expr;
        match &argument {
            Expr::Constant(Datum::Text(written)) => {
                self.check_written_usage(written)?;
                let relation = self.catalog.relation_written(self.path, written);
                let relation = relation.map_err(|error| self.at_place(error, place))?;
                if is_literal {
                    self.note(place, || NameTarget::Literal(relation.oid()));
                }
                Ok(Expr::Constant(Datum::Oid(relation.oid())))
            }
            _ => Ok(argument),
        }
    }
}

/// Returns the error `42809` for a relation that is not a sequence.
pub fn not_a_sequence(relation: &Relation) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a sequence", relation.name()))
}
