//! Expressions.

use super::subquery::is_row;
use super::{Binder, Scope};
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::ops::Context;
use crate::parse::rewrite::{SYMMETRIC, mark};
use crate::plan::{Expr, Plan, Typed};
use crate::types::numeric::Numeric;
use crate::types::{Kind, SqlType};
use sqlparser::ast::{self, BinaryOperator, CastKind, UnaryOperator};

/// The lower bound of a `BETWEEN SYMMETRIC`.
fn symmetric(low: &ast::Expr) -> Option<&ast::Expr> {
    let ast::Expr::Function(ast::Function { name, args: ast::FunctionArguments::List(list), .. }) = low else {
        return None;
    };
    let [ast::ObjectNamePart::Identifier(name)] = &name.0[..] else { return None };
    match (mark(name), &list.args[..]) {
        (Some(SYMMETRIC), [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(low))]) => Some(low),
        _ => None,
    }
}

impl Binder<'_> {
    /// Binds an expression over a scope's row.
    pub(crate) fn expr(&self, expr: &ast::Expr, scope: &Scope<'_>) -> SqlResult<Typed> {
        match expr {
            ast::Expr::Nested(inner) => self.expr(inner, scope),
            ast::Expr::UnaryOp { op, expr } => self.unary(*op, expr, scope),
            ast::Expr::BinaryOp { left: _, op: BinaryOperator::Overlaps, right: _ } => self.special(expr, scope),
            ast::Expr::BinaryOp { left, op, right } => self.binary(left, op, right, scope),
            ast::Expr::Function(function) => self.function(function, scope),
            other => self.expr_of_any_kind(other, scope),
        }
    }

    /// As [`Binder::expr`]. Apart from it, since long chains of operators must have small frames.
    #[inline(never)]
    fn expr_of_any_kind(&self, expr: &ast::Expr, scope: &Scope<'_>) -> SqlResult<Typed> {
        let one = |expr: &ast::Expr| self.expr(expr, scope);
        match expr {
            ast::Expr::Identifier(ident) => self.column(std::slice::from_ref(ident), scope),
            ast::Expr::CompoundIdentifier(parts) => self.column(parts, scope),
            ast::Expr::Value(value) => self.literal(&value.value),
            ast::Expr::TypedString(ast::TypedString { data_type, value, uses_odbc_syntax: false }) => {
                let to = self.type_of(data_type)?;
                self.coerce(self.literal(&value.value)?, to, Context::Explicit)
            }
            ast::Expr::Interval(ast::Interval {
                value,
                leading_field: None,
                leading_precision: None,
                last_field: None,
                fractional_seconds_precision: None,
            }) => self.coerce(one(value)?, Kind::Interval.into(), Context::Explicit),
            ast::Expr::Interval(fields) => super::interval::with_fields(fields, &self.env.forms),
            ast::Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, format: None } if matches!(&**expr, ast::Expr::Array(ast::Array { elem, named: true }) if elem.is_empty()) =>
            {
                let kind = self.type_of(data_type)?;
                if kind.kind.element().is_none() {
                    return self.expr(expr, scope);
                }
                Ok(Typed { expr: Expr::Array(Vec::new()), kind })
            }
            ast::Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, format: None } => {
                self.coerce(one(expr)?, self.type_of(data_type)?, Context::Explicit)
            }
            ast::Expr::IsNull(inner) | ast::Expr::IsNotNull(inner) if is_row(inner) => {
                // Each of its values, so that a row may be neither.
                let is_null = matches!(expr, ast::Expr::IsNull(_));
                let one = |value: Typed| truth(Expr::IsNull(Box::new(value.expr)));
                let all = self.row_values(inner, scope)?.into_iter().map(one);
                let all = all.map(|one| if is_null { one.expr } else { not(one).expr }).collect();
                Ok(truth(Expr::And(all)))
            }
            ast::Expr::IsNull(inner) => Ok(truth(Expr::IsNull(Box::new(one(inner)?.expr)))),
            ast::Expr::IsNotNull(inner) => Ok(not(truth(Expr::IsNull(Box::new(one(inner)?.expr))))),
            ast::Expr::IsTrue(inner) => self.is_bool(one(inner)?, true, "IS TRUE"),
            ast::Expr::IsNotTrue(inner) => Ok(not(self.is_bool(one(inner)?, true, "IS NOT TRUE")?)),
            ast::Expr::IsFalse(inner) => self.is_bool(one(inner)?, false, "IS FALSE"),
            ast::Expr::IsNotFalse(inner) => Ok(not(self.is_bool(one(inner)?, false, "IS NOT FALSE")?)),
            ast::Expr::IsUnknown(inner) => {
                Ok(truth(Expr::IsNull(Box::new(self.condition(one(inner)?, "IS UNKNOWN")?))))
            }
            ast::Expr::IsNotUnknown(inner) => {
                Ok(not(truth(Expr::IsNull(Box::new(self.condition(one(inner)?, "IS NOT UNKNOWN")?)))))
            }
            ast::Expr::IsDistinctFrom(left, right) => Ok(not(self.is_same(one(left)?, one(right)?)?)),
            ast::Expr::IsNotDistinctFrom(left, right) => self.is_same(one(left)?, one(right)?),
            ast::Expr::Between { expr, negated, low, high } if let Some(low) = symmetric(low) => {
                let between = |low: &ast::Expr, high: &ast::Expr| {
                    let low = self.operator(">=", Some(one(expr)?), one(low)?)?;
                    let high = self.operator("<=", Some(one(expr)?), one(high)?)?;
                    Ok::<_, SqlError>(Expr::And(vec![low.expr, high.expr]))
                };
                Ok(negated_if(*negated, truth(Expr::Or(vec![between(low, high)?, between(high, low)?]))))
            }
            ast::Expr::Between { expr, negated, low, high } => {
                let low = self.operator(">=", Some(one(expr)?), one(low)?)?;
                let high = self.operator("<=", Some(one(expr)?), one(high)?)?;
                Ok(negated_if(*negated, truth(Expr::And(vec![low.expr, high.expr]))))
            }
            ast::Expr::InList { expr, list, negated } if is_row(expr) => {
                let equal = list.iter().map(|other| Ok(self.row_comparison("=", expr, other, scope)?.expr));
                Ok(negated_if(*negated, truth(Expr::Or(equal.collect::<SqlResult<_>>()?))))
            }
            ast::Expr::InList { expr, list, negated } => self.in_list(one(expr)?, list, *negated, scope),
            ast::Expr::InSubquery { expr, subquery, negated } => {
                Ok(negated_if(*negated, self.in_query(expr, subquery, scope)?))
            }
            ast::Expr::Exists { subquery, negated } => Ok(negated_if(*negated, self.exists(subquery, scope)?)),
            ast::Expr::Subquery(query) => self.scalar(query, scope),
            ast::Expr::AnyOp { left, compare_op, right, is_some: _ } => {
                self.quantified(left, compare_op, right, false, scope)
            }
            ast::Expr::AllOp { left, compare_op, right } => self.quantified(left, compare_op, right, true, scope),
            ast::Expr::Array(ast::Array { elem, named: true }) => self.array(elem, scope),
            ast::Expr::Like { negated: false, any: true, expr, pattern, escape_char: None } => {
                self.quantified_as(expr, "~~", pattern, false, scope)
            }
            ast::Expr::ILike { negated: false, any: true, expr, pattern, escape_char: None } => {
                self.quantified_as(expr, "~~*", pattern, false, scope)
            }
            ast::Expr::Like { negated, any: false, expr, pattern, escape_char: None } => {
                Ok(negated_if(*negated, self.operator("~~", Some(one(expr)?), one(pattern)?)?))
            }
            ast::Expr::ILike { negated, any: false, expr, pattern, escape_char: None } => {
                Ok(negated_if(*negated, self.operator("~~*", Some(one(expr)?), one(pattern)?)?))
            }
            ast::Expr::Case { case_token: _, end_token: _, operand, conditions, else_result } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), scope)
            }
            ast::Expr::Extract { field, syntax: ast::ExtractSyntax::From, expr } => {
                let field = Typed {
                    expr: Expr::Constant(Datum::text(field.to_string().to_lowercase())),
                    kind: Kind::Text.into(),
                };
                self.call("extract", vec![field, one(expr)?])
            }
            ast::Expr::Substring { expr, substring_from, substring_for, special: _, shorthand: _ } => {
                let mut arguments = vec![one(expr)?];
                match (substring_from, substring_for) {
                    (Some(from), length) => {
                        arguments.push(one(from)?);
                        if let Some(length) = length {
                            arguments.push(one(length)?);
                        }
                    }
                    (None, Some(length)) => {
                        let first = Expr::Constant(Datum::Int4(1));
                        arguments.extend([Typed { expr: first, kind: Kind::Int4.into() }, one(length)?]);
                    }
                    (None, None) => {}
                }
                self.call("substring", arguments)
            }
            ast::Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    None | Some(ast::TrimWhereField::Both) => "btrim",
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                };
                let what = trim_what.as_deref().into_iter().chain(trim_characters.iter().flatten());
                let arguments = std::iter::once(&**expr).chain(what).map(one).collect::<SqlResult<_>>()?;
                self.call(name, arguments)
            }
            ast::Expr::AtTimeZone { timestamp, time_zone } => {
                self.call("timezone", vec![one(time_zone)?, one(timestamp)?])
            }
            ast::Expr::Position { expr, r#in } => self.call("position", vec![one(r#in)?, one(expr)?]),
            ast::Expr::Ceil { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                self.call("ceil", vec![one(expr)?])
            }
            ast::Expr::Floor { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                self.call("floor", vec![one(expr)?])
            }
            other => self.special(other, scope),
        }
    }

    /// A number, text, truth value, null or parameter.
    fn literal(&self, value: &ast::Value) -> SqlResult<Typed> {
        let constant = |datum: Datum, kind: Kind| Ok(Typed { expr: Expr::Constant(datum), kind: kind.into() });
        match value {
            ast::Value::Number(digits, false) => {
                if let Ok(small) = digits.parse::<i32>() {
                    return constant(Datum::Int4(small), Kind::Int4);
                }
                if let Ok(large) = digits.parse::<i64>() {
                    return constant(Datum::Int8(large), Kind::Int8);
                }
                constant(Datum::Numeric(Numeric::parse(digits)?), Kind::Numeric)
            }
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => {
                constant(Datum::text(&**text), Kind::Unknown)
            }
            ast::Value::DollarQuotedString(ast::DollarQuotedString { value, tag: _ }) => {
                constant(Datum::text(&**value), Kind::Unknown)
            }
            ast::Value::Boolean(value) => constant(Datum::Bool(*value), Kind::Bool),
            ast::Value::Null => constant(Datum::Null, Kind::Unknown),
            ast::Value::Placeholder(name) => self.parameter(name),
            other => Err(SqlError::unsupported(format_args!("the literal {other}"))),
        }
    }

    fn parameter(&self, name: &str) -> SqlResult<Typed> {
        let no_such = || SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}"));
        let number: usize = name.strip_prefix('$').and_then(|digits| digits.parse().ok()).ok_or_else(no_such)?;
        if !(1..=usize::from(u16::MAX)).contains(&number) {
            return Err(no_such());
        }
        let mut parameters = self.parameters.borrow_mut();
        if parameters.len() < number {
            parameters.resize(number, None);
        }
        let kind = parameters[number - 1].unwrap_or_else(|| Kind::Unknown.into());
        Ok(Typed { expr: Expr::Parameter(number - 1), kind })
    }

    fn unary(&self, op: UnaryOperator, expr: &ast::Expr, scope: &Scope<'_>) -> SqlResult<Typed> {
        // The least integer is a literal too.
        if let (UnaryOperator::Minus, ast::Expr::Value(value)) = (op, expr)
            && let ast::Value::Number(digits, false) = &value.value
        {
            return self.literal(&ast::Value::Number(format!("-{digits}"), false));
        }
        let argument = self.expr(expr, scope)?;
        match op {
            UnaryOperator::Not => Ok(not(truth(self.condition(argument, "NOT")?))),
            UnaryOperator::Minus => self.operator("-", None, argument),
            UnaryOperator::Plus => self.operator("+", None, argument),
            other => self.operator(super::syntax::prefix_name(other)?, None, argument),
        }
    }

    fn binary(&self, left: &ast::Expr, op: &BinaryOperator, right: &ast::Expr, scope: &Scope<'_>) -> SqlResult<Typed> {
        if is_row(left) {
            return self.row_comparison(&operator_name(op)?, left, right, scope);
        }
        let (left, right) = (self.expr(left, scope)?, self.expr(right, scope)?);
        match op {
            BinaryOperator::And => {
                return Ok(truth(Expr::And(vec![self.condition(left, "AND")?, self.condition(right, "AND")?])));
            }
            BinaryOperator::Or => {
                return Ok(truth(Expr::Or(vec![self.condition(left, "OR")?, self.condition(right, "OR")?])));
            }
            _ => {}
        }
        self.operator(&operator_name(op)?, Some(left), right)
    }

    fn is_bool(&self, argument: Typed, value: bool, of: &str) -> SqlResult<Typed> {
        Ok(truth(Expr::IsBool(Box::new(self.condition(argument, of)?), value)))
    }

    fn is_same(&self, left: Typed, right: Typed) -> SqlResult<Typed> {
        let kind = self.comparable(crate::ops::common_kind(&[left.kind.kind, right.kind.kind], "IS DISTINCT FROM")?)?;
        let arguments = Box::new([self.argument(left, kind)?, self.argument(right, kind)?]);
        Ok(truth(Expr::IsSame { kind, arguments }))
    }

    fn in_list(&self, argument: Typed, list: &[ast::Expr], negated: bool, scope: &Scope<'_>) -> SqlResult<Typed> {
        let list: Vec<Typed> = list.iter().map(|one| self.expr(one, scope)).collect::<SqlResult<_>>()?;
        let (mut all, kind) = self.common(std::iter::once(argument).chain(list).collect(), "IN")?;
        let argument = Box::new(all.remove(0));
        let kind = self.comparable(kind.kind)?;
        Ok(negated_if(negated, truth(Expr::InList { kind, argument, list: all })))
    }

    /// The plan's rows with their columns cast.
    pub(crate) fn converted(&self, plan: Plan, from: &[SqlType], to: &[SqlType]) -> SqlResult<Plan> {
        if from == to {
            return Ok(plan);
        }
        // A literal of unknown type is read as one of the type.
        let plan = match plan {
            Plan::Project { input, columns } => {
                let convert = |((expr, from), to): ((Expr, &SqlType), &SqlType)| {
                    self.coerce(Typed { expr, kind: *from }, *to, Context::Implicit).map(|typed| typed.expr)
                };
                let columns = columns.into_iter().zip(from).zip(to).map(convert).collect::<SqlResult<_>>()?;
                return Ok(Plan::Project { input, columns });
            }
            plan => plan,
        };
        let column = |(at, (from, to)): (usize, (&SqlType, &SqlType))| {
            let typed = Typed { expr: Expr::Column(at), kind: *from };
            self.coerce(typed, *to, Context::Implicit).map(|typed| typed.expr)
        };
        let columns = from.iter().zip(to).enumerate().map(column).collect::<SqlResult<_>>()?;
        Ok(Plan::Project { input: Box::new(plan), columns })
    }

    fn case(
        &self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
        scope: &Scope<'_>,
    ) -> SqlResult<Typed> {
        let mut whens = Vec::new();
        // The ELSE comes first where the type is decided.
        let nothing = Typed { expr: Expr::Constant(Datum::Null), kind: Kind::Unknown.into() };
        let mut results = vec![otherwise.map_or(Ok(nothing), |otherwise| self.expr(otherwise, scope))?];
        for ast::CaseWhen { condition, result } in conditions {
            let condition = self.expr(condition, scope)?;
            whens.push(match operand {
                None => self.condition(condition, "CASE/WHEN")?,
                Some(operand) => self.operator("=", Some(self.expr(operand, scope)?), condition)?.expr,
            });
            results.push(self.expr(result, scope)?);
        }
        let (mut results, kind) = self.common(results, "CASE")?;
        let otherwise = Box::new(results.remove(0));
        Ok(Typed { expr: Expr::Case { whens: whens.into_iter().zip(results).collect(), otherwise }, kind })
    }
}

/// The name of an operator in the table.
pub(super) fn operator_name(op: &BinaryOperator) -> SqlResult<String> {
    Ok(match op {
        BinaryOperator::Plus => "+",
        BinaryOperator::Minus => "-",
        BinaryOperator::Multiply => "*",
        BinaryOperator::Divide => "/",
        BinaryOperator::Modulo => "%",
        BinaryOperator::StringConcat => "||",
        BinaryOperator::Gt => ">",
        BinaryOperator::Lt => "<",
        BinaryOperator::GtEq => ">=",
        BinaryOperator::LtEq => "<=",
        BinaryOperator::Eq => "=",
        BinaryOperator::NotEq => "<>",
        other => return super::syntax::operator_name(other),
    }
    .to_owned())
}

/// A truth value.
pub(crate) fn truth(expr: Expr) -> Typed {
    Typed { expr, kind: Kind::Bool.into() }
}

pub(super) fn not(typed: Typed) -> Typed {
    truth(Expr::Not(Box::new(typed.expr)))
}

pub(super) fn negated_if(negated: bool, typed: Typed) -> Typed {
    if negated { not(typed) } else { typed }
}
