//! Operators and functions that have a syntax of their own: `SIMILAR TO`, `OVERLAY`, subscripts and the like.

use super::expr::negated_if;
use super::sets::{composite, field_name};
use super::subquery::unnested;
use super::{Binder, Scope};
use crate::plan::{Expr, Place, Typed};
use sqlparser::ast::{self, BinaryOperator, Spanned, UnaryOperator};
use statement::error::{SqlError, SqlResult, SqlState};
use types::datum::Datum;
use types::ops::Context;
use types::{Kind, SqlType};

/// The name of an operator in the table, for those that are written as they are named.
pub(super) fn operator_name(op: &BinaryOperator) -> SqlResult<String> {
    match op {
        BinaryOperator::PGCustomBinaryOperator(parts) => match &parts[..] {
            [name] => Ok(name.clone()),
            [schema, name] if schema == "pg_catalog" => Ok(name.clone()),
            _ => Err(SqlError::unsupported(format_args!("the operator {op}"))),
        },
        BinaryOperator::And
        | BinaryOperator::Or
        | BinaryOperator::Xor
        | BinaryOperator::Overlaps
        | BinaryOperator::DuckIntegerDivide
        | BinaryOperator::MyIntegerDivide
        | BinaryOperator::Match
        | BinaryOperator::Regexp
        | BinaryOperator::Glob
        | BinaryOperator::Assignment => Err(SqlError::unsupported(format_args!("the operator {op}"))),
        other => Ok(other.to_string()),
    }
}

/// As [`operator_name`], of operators with one operand.
pub(super) fn prefix_name(op: UnaryOperator) -> SqlResult<&'static str> {
    match op {
        UnaryOperator::BitwiseNot => Ok("~"),
        UnaryOperator::PGAbs => Ok("@"),
        UnaryOperator::PGSquareRoot => Ok("|/"),
        UnaryOperator::PGCubeRoot => Ok("||/"),
        UnaryOperator::PGPrefixFactorial => Ok("!!"),
        other => Err(SqlError::unsupported(format_args!("the operator {other}"))),
    }
}

/// `42809`
fn not_composite(field: &str, kind: Kind) -> SqlError {
    let message = format!("column notation .{field} applied to type {}, which is not a composite type", kind.name());
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}

fn integer(value: i32) -> Typed {
    Typed::new(Expr::Constant(Datum::Int4(value)), Kind::Int4)
}

/// `42704`
pub fn no_collation(name: &str) -> SqlError {
    let message = format!("collation \"{name}\" for encoding \"UTF8\" does not exist");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

/// Whether values of a kind are texts, which can be ordered in several ways.
pub fn takes_collation(kind: Kind) -> bool {
    match kind {
        Kind::Array(element) => takes_collation(element.kind()),
        kind => matches!(kind, Kind::Text | Kind::Varchar | Kind::Bpchar | Kind::Name | Kind::Unknown),
    }
}

/// `42804`
pub fn not_collated(kind: Kind) -> SqlError {
    SqlError::new(SqlState::DATATYPE_MISMATCH, format!("collations are not supported by type {}", kind.name()))
}

impl Binder<'_> {
    /// What [`Binder::expr`] leaves to this module.
    pub(super) fn special(&self, expr: &ast::Expr, scope: &Scope<'_>) -> SqlResult<Typed> {
        let one = |expr: &ast::Expr| self.expr(expr, scope);
        match expr {
            ast::Expr::Like { negated, any: false, expr, pattern, escape_char: Some(escape) } => {
                let pattern = self.call("like_escape", vec![one(pattern)?, one(escape)?])?;
                Ok(negated_if(*negated, self.operator("~~", Some(one(expr)?), pattern)?))
            }
            ast::Expr::ILike { negated, any: false, expr, pattern, escape_char: Some(escape) } => {
                let pattern = self.call("like_escape", vec![one(pattern)?, one(escape)?])?;
                Ok(negated_if(*negated, self.operator("~~*", Some(one(expr)?), pattern)?))
            }
            ast::Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                let written = &**pattern;
                let mut arguments = vec![one(pattern)?];
                if let Some(escape) = escape_char {
                    arguments.push(one(escape)?);
                }
                let pattern = self.syntax_call("similar_to_escape", arguments);
                let pattern = pattern.map_err(|error| self.at_words(error, &["NOT", "SIMILAR", "TO"], written))?;
                let found = self.operator("~", Some(one(expr)?), pattern);
                let words = &["NOT", "SIMILAR", "TO"];
                let at = |error: SqlError| {
                    let error = if *negated { error.replaced(" ~ ", " !~ ") } else { error };
                    self.at_words(error, words, written)
                };
                Ok(negated_if(*negated, found.map_err(at)?))
            }
            ast::Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut arguments = vec![one(expr)?, one(overlay_what)?, one(overlay_from)?];
                if let Some(count) = overlay_for {
                    arguments.push(one(count)?);
                }
                self.syntax_call("overlay", arguments)
            }
            ast::Expr::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain, scope),
            ast::Expr::Collate { expr, collation } => {
                let parts = self.name_parts(collation)?;
                let name = parts.last().map_or("", String::as_str);
                let at = |error| {
                    let place = collation.0.first().map_or(Place::NOWHERE, |first| first.span().into());
                    self.at_place(error, self.source.word_before(place, &["COLLATE"]))
                };
                let value = one(expr)?;
                if !takes_collation(value.kind.kind) {
                    return Err(at(not_collated(value.kind.kind)));
                }
                if !matches!(name, "C" | "POSIX" | "default" | "ucs_basic") {
                    return Err(at(no_collation(&parts.join("."))));
                }
                Ok(value)
            }
            ast::Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } => {
                let (ast::Expr::Tuple(left), ast::Expr::Tuple(right)) = (&**left, &**right) else {
                    return Err(SqlError::unsupported("OVERLAPS without rows"));
                };
                for (side, of) in [(left, "left"), (right, "right")] {
                    if side.len() != 2 {
                        let message = format!("wrong number of parameters on {of} side of OVERLAPS expression");
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                }
                self.call("overlaps", left.iter().chain(right).map(one).collect::<SqlResult<_>>()?)
            }
            other => Err(SqlError::unsupported(format_args!("the expression {other}"))),
        }
    }

    /// `a.b.c[1]`, `(value).field`, `(value).field[1]`, `value[1]`.
    fn access(&self, root: &ast::Expr, chain: &[ast::AccessExpr], scope: &Scope<'_>) -> SqlResult<Typed> {
        let fields: Vec<&ast::Ident> = (chain.iter())
            .map_while(|access| match access {
                ast::AccessExpr::Dot(ast::Expr::Identifier(field)) => Some(field),
                _ => None,
            })
            .collect();
        let qualified = |first: &[ast::Ident]| {
            let parts: Vec<ast::Ident> = first.iter().chain(fields.iter().copied()).cloned().collect();
            self.column(&parts, scope)
        };
        let value = match (root, &fields[..]) {
            (_, []) => self.expr(root, scope)?,
            (ast::Expr::Identifier(first), _) => qualified(std::slice::from_ref(first))?,
            (ast::Expr::CompoundIdentifier(first), _) => qualified(first)?,
            (_, [field]) => self.field(root, field, scope)?,
            _ => return Err(SqlError::unsupported(format_args!("a field of a field of {root}"))),
        };
        match &chain[fields.len()..] {
            [] => Ok(value),
            [ast::AccessExpr::Subscript(subscript)] => {
                let place = value.place;
                Ok(self.subscript(value, subscript, scope)?.at(place))
            }
            _ => Err(SqlError::unsupported("more than one subscript, or a field of an element")),
        }
    }

    /// A field of a composite value.
    fn field(&self, root: &ast::Expr, field: &ast::Ident, scope: &Scope<'_>) -> SqlResult<Typed> {
        let wanted = syntax::parse::folded(field);
        if let Some((function, name)) = composite(root) {
            let found = self.composite_in_list(function, name, scope)?.into_iter().find(|(own, _)| *own == wanted);
            return found.map(|(_, value)| value).ok_or_else(|| {
                let message = format!("could not identify column \"{wanted}\" in record data type");
                self.at(SqlError::new(SqlState::UNDEFINED_COLUMN, message), field)
            });
        }
        let mut parts = match unnested(root) {
            ast::Expr::Identifier(ident) => vec![ident.clone()],
            ast::Expr::CompoundIdentifier(parts) => parts.clone(),
            _ => {
                let kind = self.expr(root, scope)?.kind.kind;
                return Err(self.at_expr(not_composite(&wanted, kind), root));
            }
        };
        if let Some(last) = parts.last_mut() {
            let name = field_name(&syntax::parse::folded(last), &wanted);
            *last = ast::Ident { value: name, quote_style: Some('"'), span: last.span };
        }
        self.column(&parts, scope).map_err(|error| match self.expr(root, scope) {
            // No column is of a composite type.
            Ok(value) => self.at_expr(not_composite(&wanted, value.kind.kind), root),
            Err(_) if error.state() == SqlState::UNDEFINED_COLUMN => {
                SqlError::unsupported(format_args!("a field of {root}"))
            }
            Err(_) => error,
        })
    }

    fn subscript(&self, array: Typed, subscript: &ast::Subscript, scope: &Scope<'_>) -> SqlResult<Typed> {
        let SqlType { kind, typmod } = array.kind;
        // A name has its bytes as elements, which count from 0.
        let is_byte = kind == Kind::Name && matches!(subscript, ast::Subscript::Index { .. });
        if kind.element().is_none() && !is_byte {
            let message = format!("cannot subscript type {} because it does not support subscripting", kind.name());
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let index = |expr: &ast::Expr| {
            let typed = self.expr(expr, scope)?;
            let refused = || SqlError::new(SqlState::DATATYPE_MISMATCH, "array subscript must have type integer");
            self.coerce(typed, Kind::Int4.into(), Context::Assignment)
                .map_err(|error| if error.state() == SqlState::CANNOT_COERCE { refused() } else { error })
                .map_err(|error| self.at_expr(error, expr))
        };
        let found = match subscript {
            ast::Subscript::Index { index: at } => self.call("[]", vec![array, index(at)?])?,
            ast::Subscript::Slice { lower_bound, upper_bound, stride: None } => {
                let bound = |bound: &Option<ast::Expr>, default: i32| match bound {
                    Some(bound) => index(bound),
                    None => Ok(integer(default)),
                };
                let (least, greatest) = super::vectors::widest(kind);
                self.call("[:]", vec![array, bound(lower_bound, least)?, bound(upper_bound, greatest)?])?
            }
            ast::Subscript::Slice { lower_bound: _, upper_bound: _, stride: Some(_) } => {
                return Err(SqlError::unsupported("a slice with a stride"));
            }
        };
        // The array's modifier is that of its elements.
        Ok(if is_byte { found } else { Typed { kind: SqlType { typmod, ..found.kind }, ..found } })
    }
}
