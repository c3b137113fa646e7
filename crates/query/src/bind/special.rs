//! Operators with a syntax of their own (`LIKE`, `BETWEEN`, `COLLATE`), subscripts and fields.

use super::expr::negated_if;
use super::sets::{composite, field_name};
use super::{Binder, NameScope};
use crate::plan::{Expr, Typed};
use statement::error::{SqlError, SqlResult, SqlState};
use syntax::ast::{self, ExprKind, Indirection, LikeKind, Name, ObjectName};
use syntax::lex::Span;
use types::datum::Datum;
use types::ops::CastContext;
use types::{Kind, SqlType};

/// Returns the error `42809` for a field of a value that is not composite.
fn not_composite(field: &str, kind: Kind) -> SqlError {
    let message = format!("column notation .{field} applied to type {}, which is not a composite type", kind.name());
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}

fn integer(value: i32) -> Typed {
    Typed::new(Expr::Constant(Datum::Int4(value)), Kind::Int4)
}

/// Returns the error `42704` for an unknown collation.
pub fn no_collation(name: &str) -> SqlError {
    let message = format!("collation \"{name}\" for encoding \"UTF8\" does not exist");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

/// True if values of a type are strings, which have collations.
pub fn takes_collation(kind: Kind) -> bool {
    match kind {
        Kind::Array(element) => takes_collation(element.kind()),
        kind => matches!(kind, Kind::Text | Kind::Varchar | Kind::Bpchar | Kind::Name | Kind::Unknown),
    }
}

/// Returns the error `42804` for a collation of a type without collations.
pub fn not_collated(kind: Kind) -> SqlError {
    SqlError::new(SqlState::DATATYPE_MISMATCH, format!("collations are not supported by type {}", kind.name()))
}

impl Binder<'_> {
    /// Binds the pattern of `LIKE` and its like in the form that the operator takes.
    pub(super) fn pattern(
        &self,
        kind: LikeKind,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
        at: Span,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        let mut arguments = vec![self.expr(pattern, scope)?];
        if let Some(escape) = escape {
            arguments.push(self.expr(escape, scope)?);
        }
        let function = match (kind, &arguments[..]) {
            (LikeKind::SimilarTo, _) => "similar_to_escape",
            (LikeKind::Like | LikeKind::ILike, [_, _]) => "like_escape",
            (LikeKind::Like | LikeKind::ILike, _) => return Ok(arguments.remove(0)),
        };
        self.syntax_call(function, arguments).map_err(|error| self.at_place(error, at))
    }

    /// Binds `LIKE` and its like. A negated one is an operator of its own in error messages.
    pub(super) fn like(
        &self,
        kind: LikeKind,
        value: Typed,
        pattern: Typed,
        is_not: bool,
        at: Span,
    ) -> SqlResult<Typed> {
        let place = value.place;
        let name = match kind {
            LikeKind::Like => "~~",
            LikeKind::ILike => "~~*",
            LikeKind::SimilarTo => "~",
        };
        let found = self.operator(name, Some(value), pattern).map_err(|error| {
            let error = if is_not { error.replaced(&format!(" {name} "), &format!(" !{name} ")) } else { error };
            self.at_place(error, at)
        });
        Ok(negated_if(is_not, found?).at(place))
    }

    /// Binds `BETWEEN` or `NOT BETWEEN`.
    pub(super) fn between(
        &self,
        value: &ast::Expr,
        [low, high]: [&ast::Expr; 2],
        is_not: bool,
        scope: &NameScope<'_>,
    ) -> SqlResult<Expr> {
        // NOT BETWEEN uses the opposite operators, as PostgreSQL does, so that errors name these.
        let (above, below) = if is_not { ("<", ">") } else { (">=", "<=") };
        let low = self.operator(above, Some(self.expr(value, scope)?), self.expr(low, scope)?)?;
        let high = self.operator(below, Some(self.expr(value, scope)?), self.expr(high, scope)?)?;
        let both = vec![low.expr, high.expr];
        Ok(if is_not { Expr::Or(both) } else { Expr::And(both) })
    }

    /// Binds `BETWEEN SYMMETRIC`, with bounds in any order.
    pub(super) fn between_symmetric(
        &self,
        value: &ast::Expr,
        [one, other]: [&ast::Expr; 2],
        is_not: bool,
        scope: &NameScope<'_>,
    ) -> SqlResult<Expr> {
        let both =
            vec![self.between(value, [one, other], is_not, scope)?, self.between(value, [other, one], is_not, scope)?];
        Ok(if is_not { Expr::And(both) } else { Expr::Or(both) })
    }

    /// Binds `value COLLATE collation`.
    pub(super) fn collated(
        &self,
        value: &ast::Expr,
        collation: &ObjectName,
        at: Span,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        let value = self.expr(value, scope)?;
        check_collation(collation, value.kind.kind).map_err(|error| self.at_place(error, at))?;
        Ok(value)
    }

    /// Binds `a.b.c[1]`, `(value).field`, `(value).field[1]` or `value[1]`.
    pub(super) fn access(&self, of: &ast::Expr, steps: &[Indirection], scope: &NameScope<'_>) -> SqlResult<Typed> {
        let (value, rest) = match steps {
            [Indirection::Field(_), Indirection::Field(_), ..] => {
                return Err(SqlError::unsupported("a field of a field"));
            }
            [Indirection::Field(field), rest @ ..] => (self.field(of, field, scope)?, rest),
            rest => (self.expr(of, scope)?, rest),
        };
        let place = value.place;
        match rest {
            [] => Ok(value),
            [Indirection::Element(index)] => Ok(self.element(value, index, scope)?.at(place)),
            [Indirection::Slice(lower, upper)] => {
                Ok(self.slice(value, [lower.as_deref(), upper.as_deref()], scope)?.at(place))
            }
            [Indirection::All(_)] => Err(SqlError::unsupported("the columns of a composite value")),
            _ => Err(SqlError::unsupported("more than one subscript, or a field of an element")),
        }
    }

    /// Binds a field of a composite value.
    fn field(&self, of: &ast::Expr, field: &Name, scope: &NameScope<'_>) -> SqlResult<Typed> {
        if let Some((function, name)) = composite(of) {
            let found = self.composite_in_list(function, name, scope)?.into_iter().find(|(own, _)| **own == **field);
            return found.map(|(_, value)| value).ok_or_else(|| {
                let message = format!("could not identify column \"{field}\" in record data type");
                self.at(SqlError::new(SqlState::UNDEFINED_COLUMN, message), field)
            });
        }
        let not_composite = |value: &Typed| self.at_expr(not_composite(field, value.kind.kind), of);
        let ExprKind::Column(ObjectName { parts }) = &of.kind else {
            return Err(not_composite(&self.expr(of, scope)?));
        };
        let mut parts = parts.clone();
        if let Some(last) = parts.last_mut() {
            last.text = field_name(last, field).into();
        }
        self.column(&ObjectName { parts }, scope).map_err(|error| match self.expr(of, scope) {
            // No column has a composite type.
            Ok(value) => not_composite(&value),
            Err(_) if error.state() == SqlState::UNDEFINED_COLUMN => {
                SqlError::unsupported(format_args!("a field of {}", of.span.of(self.text)))
            }
            Err(_) => error,
        })
    }

    /// Binds `array[index]`.
    fn element(&self, array: Typed, index: &ast::Expr, scope: &NameScope<'_>) -> SqlResult<Typed> {
        let SqlType { kind, typmod } = array.kind;
        // The elements of a name are its bytes, whose subscripts start at 0.
        let is_byte = kind == Kind::Name;
        if !is_byte {
            check_array(kind)?;
        }
        let found = self.call("[]", vec![array, self.subscript(index, scope)?])?;
        // The type modifier of an array applies to its elements.
        Ok(if is_byte { found } else { Typed { kind: SqlType { typmod, ..found.kind }, ..found } })
    }

    /// Binds `array[lower : upper]`.
    fn slice(&self, array: Typed, [lower, upper]: [Option<&ast::Expr>; 2], scope: &NameScope<'_>) -> SqlResult<Typed> {
        let SqlType { kind, typmod } = array.kind;
        check_array(kind)?;
        let bound = |bound: Option<&ast::Expr>, default: i32| match bound {
            Some(bound) => self.subscript(bound, scope),
            None => Ok(integer(default)),
        };
        let (least, greatest) = super::vectors::widest(kind);
        let found = self.call("[:]", vec![array, bound(lower, least)?, bound(upper, greatest)?])?;
        Ok(Typed { kind: SqlType { typmod, ..found.kind }, ..found })
    }

    /// Binds a subscript or a bound of a slice.
    fn subscript(&self, written: &ast::Expr, scope: &NameScope<'_>) -> SqlResult<Typed> {
        let typed = self.expr(written, scope)?;
        let refused = || SqlError::new(SqlState::DATATYPE_MISMATCH, "array subscript must have type integer");
        self.coerce(typed, Kind::Int4.into(), CastContext::Assignment)
            .map_err(|error| if error.state() == SqlState::CANNOT_COERCE { refused() } else { error })
            .map_err(|error| self.at_expr(error, written))
    }
}

/// # Errors
/// Fails with `42804` if values of the type have no elements.
fn check_array(kind: Kind) -> SqlResult<()> {
    if kind.element().is_some() {
        return Ok(());
    }
    let message = format!("cannot subscript type {} because it does not support subscripting", kind.name());
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
}

/// # Errors
/// Fails with `42804` if the type has no collations, and with `42704` if the collation does not exist.
fn check_collation(collation: &ObjectName, kind: Kind) -> SqlResult<()> {
    if !takes_collation(kind) {
        return Err(not_collated(kind));
    }
    if is_collation(collation) { Ok(()) } else { Err(no_collation(&collation.to_string())) }
}

/// True if a collation of this name exists. All of them order by bytes.
pub(super) fn is_collation(name: &ObjectName) -> bool {
    let name = match &name.parts[..] {
        [name] => name,
        [schema, name] if **schema == *types::PG_CATALOG => name,
        _ => return false,
    };
    matches!(&**name, "C" | "POSIX" | "default" | "ucs_basic")
}
