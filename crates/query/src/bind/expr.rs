//! Expressions.

use super::subquery::{is_row, unnested};
use super::typing::{Equality, equality};
use super::{Binder, Scope};
use crate::plan::{Expr, ListId, Place, Plan, Typed, new_id, slots_of};
use sqlparser::ast::{self, BinaryOperator, CastKind, UnaryOperator};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use syntax::parse::rewrite::{VALUES, marked, symmetric};
use types::datum::Datum;
use types::numeric::Numeric;
use types::ops::Context;
use types::{Kind, SqlType};

/// Words that stand before an operand and are an operator together.
const BETWEEN: &[&str] = &["NOT", "BETWEEN", "SYMMETRIC", "ASYMMETRIC"];
const LIKE: &[&str] = &["NOT", "LIKE", "ILIKE", "~~", "!~~", "~~*", "!~~*"];
const IN: &[&str] = &["NOT", "IN"];

/// The values of an `IN`, without the mark before them.
fn values_of(list: &[ast::Expr]) -> &[ast::Expr] {
    match list.split_first() {
        Some((first, rest)) if marked(first) == Some(VALUES) => rest,
        _ => list,
    }
}

impl Binder<'_> {
    /// Binds an expression over a scope's row.
    ///
    /// # Errors
    /// Whatever is wrong with it; what no part of it has given a place stands where it begins.
    pub fn expr(&self, expr: &ast::Expr, scope: &Scope<'_>) -> SqlResult<Typed> {
        statement::stack::check()?;
        match self.expr_somewhere(expr, scope) {
            Ok(typed) if typed.place.is_known() => Ok(typed),
            found => self.placed(found, expr),
        }
    }

    #[inline(never)]
    fn placed(&self, found: SqlResult<Typed>, expr: &ast::Expr) -> SqlResult<Typed> {
        match found {
            Ok(typed) => Ok(typed.at(self.start(expr))),
            Err(error) => Err(self.at_expr(error, expr)),
        }
    }

    /// What is made of the leftmost part of an expression, at the place where that leads to.
    fn made_of(&self, expr: &ast::Expr, part: Typed, make: impl FnOnce(Typed) -> SqlResult<Typed>) -> SqlResult<Typed> {
        let place = self.start_from(expr, part.place);
        Ok(make(part)?.at(place))
    }

    fn expr_somewhere(&self, expr: &ast::Expr, scope: &Scope<'_>) -> SqlResult<Typed> {
        match expr {
            ast::Expr::Nested(inner) => self.expr(inner, scope),
            ast::Expr::UnaryOp { op, expr: inner } => self.unary(expr, *op, inner, scope),
            ast::Expr::BinaryOp { left: _, op: BinaryOperator::Overlaps, right: _ } => self.special(expr, scope),
            ast::Expr::BinaryOp { .. } => self.chain(expr, scope),
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
            ast::Expr::Value(value) => Ok(self.literal(&value.value)?.at(value.span.into())),
            ast::Expr::TypedString(ast::TypedString { data_type, value, uses_odbc_syntax: false }) => {
                let to = match data_type {
                    // A constant has any length (`ConstCharacter`).
                    ast::DataType::Char(None) | ast::DataType::Character(None) => Kind::Bpchar.into(),
                    data_type => self.type_of(data_type)?,
                };
                self.coerce(self.literal(&value.value)?.at(value.span.into()), to, Context::Explicit)
            }
            ast::Expr::Interval(ast::Interval {
                value,
                leading_field: None,
                leading_precision: None,
                last_field: None,
                fractional_seconds_precision: None,
            }) => self.coerce(one(value)?, Kind::Interval.into(), Context::Explicit),
            ast::Expr::Interval(fields) => self.interval_with_fields(fields),
            ast::Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, format: None } => {
                if let ast::Expr::Array(ast::Array { elem, named: true }) = unnested(inner)
                    && let Ok(to) = self.type_of(data_type)
                    && let (Kind::Array(_), Some(element)) = (to.kind, to.element())
                {
                    return self.array_as(elem, to, element, expr, scope);
                }
                let value = one(inner)?;
                let place = value.place;
                let to = self.type_of(data_type).map_err(|error| self.at_type(error, expr, place))?;
                let is_cast = value.kind != to && value.kind.kind != Kind::Unknown;
                let cast =
                    self.coerce(value, to, Context::Explicit).map_err(|error| self.at_cast(error, expr, place))?;
                // `CAST` is its beginning, if it is anything.
                let is_named = matches!(expr, ast::Expr::Cast { kind: CastKind::Cast, .. }) && is_cast;
                Ok(if is_named { cast.at(self.start_from(expr, place)) } else { cast })
            }
            ast::Expr::IsNull(inner) | ast::Expr::IsNotNull(inner) if is_row(inner) => {
                // Each of its values, so that a row may be neither.
                let is_null = matches!(expr, ast::Expr::IsNull(_));
                let one = |value: Typed| truth(Expr::IsNull(Box::new(value.expr)));
                let all = self.row_values(inner, scope)?.into_iter().map(one);
                let all = all.map(|one| if is_null { one.expr } else { not(one).expr }).collect();
                Ok(truth(Expr::And(all)))
            }
            ast::Expr::IsNull(inner)
            | ast::Expr::IsNotNull(inner)
            | ast::Expr::IsTrue(inner)
            | ast::Expr::IsNotTrue(inner)
            | ast::Expr::IsFalse(inner)
            | ast::Expr::IsNotFalse(inner)
            | ast::Expr::IsUnknown(inner)
            | ast::Expr::IsNotUnknown(inner) => self.made_of(expr, one(inner)?, |value| self.test(expr, value)),
            ast::Expr::IsDistinctFrom(left, right) => {
                self.made_of(expr, one(left)?, |left| Ok(not(self.is_same(left, one(right)?, right)?)))
            }
            ast::Expr::IsNotDistinctFrom(left, right) => {
                self.made_of(expr, one(left)?, |left| self.is_same(left, one(right)?, right))
            }
            ast::Expr::Between { expr, negated, low, high } => {
                // What is negated is told by the opposite operators.
                let (above, below) = if *negated { ("<", ">") } else { (">=", "<=") };
                let bounds = |low: &ast::Expr, high: &ast::Expr| {
                    let at = |error| self.at_words(error, BETWEEN, low);
                    let low = self.operator(above, Some(one(expr)?), one(low)?).map_err(at)?;
                    let high = self.operator(below, Some(one(expr)?), one(high)?).map_err(at)?;
                    let both = vec![low.expr, high.expr];
                    Ok::<_, SqlError>(if *negated { Expr::Or(both) } else { Expr::And(both) })
                };
                let Some(low) = symmetric(low) else { return Ok(truth(bounds(low, high)?)) };
                let both = vec![bounds(low, high)?, bounds(high, low)?];
                Ok(truth(if *negated { Expr::And(both) } else { Expr::Or(both) }))
            }
            ast::Expr::InList { expr, list, negated } if is_row(expr) => {
                let list = values_of(list);
                let at = |error| match list.first() {
                    Some(first) => self.at_words(error, IN, first),
                    None => error,
                };
                let equal = list.iter().map(|other| Ok(self.row_comparison("=", expr, other, scope).map_err(at)?.expr));
                Ok(negated_if(*negated, truth(Expr::Or(equal.collect::<SqlResult<_>>()?))))
            }
            ast::Expr::InList { expr: left, list, negated } => {
                self.made_of(expr, one(left)?, |left| self.in_list(left, values_of(list), *negated, scope))
            }
            ast::Expr::InSubquery { expr, subquery, negated } => {
                let found = self.in_query(expr, subquery, scope);
                let at = |error| self.at_place(error, self.source.words_before(self.query_start(subquery), IN));
                Ok(negated_if(*negated, found.map_err(at)?))
            }
            ast::Expr::Exists { subquery, negated } => Ok(negated_if(*negated, self.exists(subquery, scope)?)),
            ast::Expr::Subquery(query) => self.scalar(query, scope),
            ast::Expr::AnyOp { left, compare_op, right, is_some: _ } => self
                .quantified(left, compare_op, right, false, scope)
                .map_err(|error| self.at_operator(error, &compare_op.to_string(), right)),
            ast::Expr::AllOp { left, compare_op, right } => self
                .quantified(left, compare_op, right, true, scope)
                .map_err(|error| self.at_operator(error, &compare_op.to_string(), right)),
            ast::Expr::Array(ast::Array { elem, named: true }) => self.array(elem, scope),
            ast::Expr::Like { negated: false, any: true, expr, pattern, escape_char: None } => {
                self.quantified_as(expr, "~~", pattern, false, scope)
            }
            ast::Expr::ILike { negated: false, any: true, expr, pattern, escape_char: None } => {
                self.quantified_as(expr, "~~*", pattern, false, scope)
            }
            ast::Expr::Like { negated, any: false, expr: left, pattern, escape_char: None } => {
                let names = ["~~", "!~~"];
                self.made_of(expr, one(left)?, |left| self.like(*negated, names, left, one(pattern)?, pattern))
            }
            ast::Expr::ILike { negated, any: false, expr: left, pattern, escape_char: None } => {
                let names = ["~~*", "!~~*"];
                self.made_of(expr, one(left)?, |left| self.like(*negated, names, left, one(pattern)?, pattern))
            }
            ast::Expr::Case { case_token: _, end_token: _, operand, conditions, else_result } => {
                self.without_sets("CASE", scope, || {
                    self.case(operand.as_deref(), conditions, else_result.as_deref(), scope)
                })
            }
            ast::Expr::Extract { field, syntax: ast::ExtractSyntax::From, expr: of } => {
                let field = Typed::new(Expr::Constant(Datum::text(field.to_string().to_lowercase())), Kind::Unknown);
                self.made_of(expr, one(of)?, |of| self.syntax_call("extract", vec![field, of]))
            }
            ast::Expr::Substring { expr: of, substring_from, substring_for, special, shorthand } => {
                let mut arguments = vec![one(of)?];
                let place = self.start_from(expr, arguments[0].place);
                match (substring_from, substring_for) {
                    (Some(from), length) => {
                        arguments.push(one(from)?);
                        if let Some(length) = length {
                            arguments.push(one(length)?);
                        }
                    }
                    (None, Some(length)) => {
                        let first = Expr::Constant(Datum::Int4(1));
                        arguments.extend([Typed::new(first, Kind::Int4), one(length)?]);
                    }
                    (None, None) => {}
                }
                // With commas it is a call as any other.
                let found = match (shorthand, special) {
                    (true, _) => self.call("substr", arguments),
                    (false, true) => self.call("substring", arguments),
                    (false, false) => self.syntax_call("substring", arguments),
                };
                Ok(found?.at(place))
            }
            ast::Expr::Trim { trim_where, trim_what, expr: of, trim_characters } => {
                let name = match trim_where {
                    None | Some(ast::TrimWhereField::Both) => "btrim",
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                };
                let what = trim_what.as_deref().into_iter().chain(trim_characters.iter().flatten());
                self.made_of(expr, one(of)?, |of| {
                    let arguments = std::iter::once(Ok(of)).chain(what.map(one)).collect::<SqlResult<_>>()?;
                    self.syntax_call(name, arguments)
                })
            }
            ast::Expr::AtTimeZone { timestamp, time_zone } => {
                let zone = one(time_zone)?;
                self.made_of(expr, one(timestamp)?, |timestamp| {
                    self.syntax_call("timezone", vec![zone, timestamp])
                        .map_err(|error| self.at_words(error, &["AT", "TIME", "ZONE"], time_zone))
                })
            }
            ast::Expr::Position { expr: wanted, r#in } => {
                let of = one(r#in)?;
                self.made_of(expr, one(wanted)?, |wanted| self.syntax_call("position", vec![of, wanted]))
            }
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
        let constant = |datum: Datum, kind: Kind| Ok(Typed::new(Expr::Constant(datum), kind));
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
        Ok(Typed::new(Expr::Parameter(number - 1), kind))
    }

    fn unary(&self, whole: &ast::Expr, op: UnaryOperator, expr: &ast::Expr, scope: &Scope<'_>) -> SqlResult<Typed> {
        if op == UnaryOperator::Minus
            && let Some(number) = negated(expr)
        {
            return self.literal(&ast::Value::Number(number, false));
        }
        let argument = self.expr(expr, scope)?;
        let place = self.start_from(whole, argument.place);
        match op {
            UnaryOperator::Not => Ok(not(truth(self.condition(argument, "NOT")?))),
            UnaryOperator::Minus => self.operator("-", None, argument),
            UnaryOperator::Plus => self.operator("+", None, argument),
            other => self.operator(super::special::prefix_name(other)?, None, argument),
        }
        .map(|typed| typed.at(place))
    }

    /// Operators in a row, of which the first is innermost: a loop, as there may be thousands.
    fn chain(&self, whole: &ast::Expr, scope: &Scope<'_>) -> SqlResult<Typed> {
        let mut outer = Vec::new();
        let mut first = whole;
        while let ast::Expr::BinaryOp { left, op, right } = first {
            if matches!(op, BinaryOperator::Overlaps) {
                break;
            }
            if is_row(left) {
                let name = operator_name(op)?;
                let found = self.row_comparison(&name, left, right, scope);
                return self.rest_of_chain(
                    found.map_err(|error| self.at_operator(error, &name, right)),
                    first,
                    &outer,
                    scope,
                );
            }
            outer.push((first, op, &**right));
            first = left;
        }
        self.rest_of_chain(self.expr(first, scope), first, &outer, scope)
    }

    fn rest_of_chain(
        &self,
        found: SqlResult<Typed>,
        first: &ast::Expr,
        outer: &[(&ast::Expr, &BinaryOperator, &ast::Expr)],
        scope: &Scope<'_>,
    ) -> SqlResult<Typed> {
        let mut all = found.map_err(|error| self.at_expr(error, first))?;
        for (at, (whole, op, right)) in outer.iter().enumerate().rev() {
            // A list made for AND or OR goes on with the next of them.
            let is_list = outer.get(at + 1).is_some_and(|(_, before, _)| before == op);
            all = self.binary(all, op, right, is_list, scope).map_err(|error| self.at_expr(error, whole))?;
        }
        Ok(all)
    }

    fn binary(
        &self,
        left: Typed,
        op: &BinaryOperator,
        right: &ast::Expr,
        is_list: bool,
        scope: &Scope<'_>,
    ) -> SqlResult<Typed> {
        let of_right = self.expr(right, scope)?;
        let place = left.place;
        let found = match op {
            BinaryOperator::And => {
                let right = |binder: &Self| binder.condition(of_right, "AND");
                match left.expr {
                    Expr::And(mut all) if is_list => {
                        all.push(right(self)?);
                        truth(Expr::And(all))
                    }
                    expr => truth(Expr::And(vec![self.condition(Typed { expr, ..left }, "AND")?, right(self)?])),
                }
            }
            BinaryOperator::Or => {
                let right = |binder: &Self| binder.condition(of_right, "OR");
                match left.expr {
                    Expr::Or(mut all) if is_list => {
                        all.push(right(self)?);
                        truth(Expr::Or(all))
                    }
                    expr => truth(Expr::Or(vec![self.condition(Typed { expr, ..left }, "OR")?, right(self)?])),
                }
            }
            op => {
                let name = operator_name(op)?;
                let found = self.operator(&name, Some(left), of_right);
                found.map_err(|error| self.at_operator(written_in_full(error, op, &name), &name, right))?
            }
        };
        Ok(found.at(place))
    }

    /// `IS NULL`, `IS TRUE` and the like, of a value.
    fn test(&self, written: &ast::Expr, value: Typed) -> SqlResult<Typed> {
        match written {
            ast::Expr::IsNull(_) => Ok(truth(Expr::IsNull(Box::new(value.expr)))),
            ast::Expr::IsNotNull(_) => Ok(not(truth(Expr::IsNull(Box::new(value.expr))))),
            ast::Expr::IsTrue(_) => self.is_bool(value, Some(true), "IS TRUE"),
            ast::Expr::IsNotTrue(_) => Ok(not(self.is_bool(value, Some(true), "IS NOT TRUE")?)),
            ast::Expr::IsFalse(_) => self.is_bool(value, Some(false), "IS FALSE"),
            ast::Expr::IsNotFalse(_) => Ok(not(self.is_bool(value, Some(false), "IS NOT FALSE")?)),
            ast::Expr::IsUnknown(_) => self.is_bool(value, None, "IS UNKNOWN"),
            ast::Expr::IsNotUnknown(_) => Ok(not(self.is_bool(value, None, "IS NOT UNKNOWN")?)),
            other => Err(SqlError::unsupported(format_args!("the expression {other}"))),
        }
    }

    fn is_bool(&self, argument: Typed, value: Option<bool>, of: &str) -> SqlResult<Typed> {
        Ok(truth(Expr::IsBool(Box::new(self.condition(argument, of)?), value)))
    }

    /// `LIKE`, and its negation, which is an operator of its own in errors.
    fn like(
        &self,
        negated: bool,
        names: [&str; 2],
        left: Typed,
        right: Typed,
        pattern: &ast::Expr,
    ) -> SqlResult<Typed> {
        let found = self.operator(names[0], Some(left), right).map_err(|error| {
            let error = if negated { error.replaced(names[0], names[1]) } else { error };
            self.at_words(error, LIKE, pattern)
        });
        Ok(negated_if(negated, found?))
    }

    fn is_same(&self, left: Typed, right: Typed, written: &ast::Expr) -> SqlResult<Typed> {
        let at = |error: SqlError| self.at_words(error, &["IS", "NOT", "DISTINCT", "FROM"], written);
        Ok(truth(match equality(left.kind.kind, right.kind.kind).map_err(at)? {
            Equality::One(kind) => {
                let arguments = Box::new([self.argument(left, kind)?, self.argument(right, kind)?]);
                Expr::IsSame { kind, arguments }
            }
            Equality::Two => {
                let either = self.once([left, right], |binder, [left, right]| {
                    let is_null = |one: &Typed| Expr::IsNull(Box::new(one.expr.clone()));
                    let both_null = Expr::And(vec![is_null(&left), is_null(&right)]);
                    Ok(truth(Expr::Coalesce(vec![binder.operator("=", Some(left), right)?.expr, both_null])))
                });
                either?.expr
            }
        }))
    }

    /// `IN` of a list, as PostgreSQL's `transformAExprIn`: values that look at no row become one array, the others are
    /// compared each for itself.
    fn in_list(&self, argument: Typed, list: &[ast::Expr], negated: bool, scope: &Scope<'_>) -> SqlResult<Typed> {
        let Some(written) = list.first() else { return Ok(truth(Expr::Constant(Datum::Bool(negated)))) };
        let at = |error: SqlError| {
            let error = if negated { error.replaced(" = ", " <> ") } else { error };
            self.at_words(error, IN, written)
        };
        let list: Vec<Typed> = list.iter().map(|one| self.expr(one, scope)).collect::<SqlResult<_>>()?;
        let own = argument.kind.kind;
        let (array, mut rest): (Vec<Typed>, Vec<Typed>) = list.into_iter().partition(|one| {
            // Whoever looks next finds that the statement must end.
            let _ = pulse::walk(pulse::ITEM);
            slots_of(&one.expr).is_empty()
        });
        // Values that compare alike are one list.
        let mut lists: Vec<(Equality, Vec<Typed>)> = Vec::new();
        let kinds: Vec<Kind> = std::iter::once(own).chain(array.iter().map(|one| one.kind.kind)).collect();
        match types::ops::common_kind(&kinds, "IN") {
            Ok(common) if 1 < array.len() => {
                let items = array.into_iter().map(|one| {
                    pulse::tick(pulse::ITEM)?;
                    self.coerce(one, common.into(), Context::Implicit)
                });
                lists.push((equality(own, common).map_err(at)?, items.collect::<SqlResult<_>>()?));
            }
            _ => rest.splice(..0, array).for_each(drop),
        }
        let of_rows = lists.len();
        for one in rest {
            let found = equality(own, one.kind.kind).map_err(at)?;
            match lists.get_mut(of_rows..).and_then(<[_]>::last_mut) {
                Some((before, all)) if *before == found => all.push(one),
                _ => lists.push((found, vec![one])),
            }
        }
        let is_named_once = matches!(&lists[..], [(by, items)] if items.len() == 1 || *by != Equality::Two);
        let all = |binder: &Self, argument: &Typed| {
            let mut parts = Vec::new();
            for (by, items) in lists {
                binder.any_equal(argument, by, items, negated, &mut parts).map_err(at)?;
            }
            Ok(truth(match parts.pop() {
                Some(only) if parts.is_empty() => only,
                last => {
                    let all = parts.into_iter().chain(last).collect();
                    if negated { Expr::And(all) } else { Expr::Or(all) }
                }
            }))
        };
        if is_named_once {
            return all(self, &argument);
        }
        self.once([argument], |binder, [argument]| all(binder, &argument))
    }

    /// Adds conditions of which one is true if the value is equal to any of these; negated, of which none is false if not.
    fn any_equal(
        &self,
        value: &Typed,
        by: Equality,
        items: Vec<Typed>,
        negated: bool,
        parts: &mut Vec<Expr>,
    ) -> SqlResult<()> {
        match by {
            Equality::One(kind) if 1 < items.len() => {
                let argument = Box::new(self.argument(value.clone(), kind)?);
                let list = items.into_iter().map(|one| self.argument(one, kind)).collect::<SqlResult<Vec<_>>>()?;
                let hashed = hashed(HASHED_MIN <= list.len() && list.iter().all(Expr::is_fixed));
                parts.push(negated_if(negated, truth(Expr::InList { kind, argument, list, hashed })).expr);
            }
            _ => {
                for one in items {
                    parts.push(self.operator(if negated { "<>" } else { "=" }, Some(value.clone()), one)?.expr);
                }
            }
        }
        Ok(())
    }

    /// The plan's rows with their columns cast. They are `written` there, if anywhere.
    pub fn converted(
        &self,
        plan: Plan,
        from: &[SqlType],
        to: &[SqlType],
        written: Option<&ast::SetExpr>,
    ) -> SqlResult<Plan> {
        if from == to {
            return Ok(plan);
        }
        // A literal of unknown type is read as one of the type.
        let plan = match plan {
            Plan::Project { input, columns } => {
                let convert = |(at, ((expr, from), to)): (usize, ((Expr, &SqlType), &SqlType))| {
                    let start = written.map_or(Place::NOWHERE, |body| self.column_start(body, at));
                    let value = self.coerce(Typed::new(expr, *from).at(start), *to, Context::Implicit);
                    value.map(|typed| typed.expr).map_err(|error| self.at_place(error, start))
                };
                let columns =
                    columns.into_iter().zip(from).zip(to).enumerate().map(convert).collect::<SqlResult<_>>()?;
                return Ok(Plan::Project { input, columns });
            }
            plan => plan,
        };
        let column = |(at, (from, to)): (usize, (&SqlType, &SqlType))| {
            let typed = Typed::new(Expr::Column(at), *from);
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
        let Some(operand) = operand else { return self.case_of(None, conditions, otherwise, scope) };
        let mut operand = self.expr(operand, scope)?;
        if operand.kind.kind == Kind::Unknown {
            operand = self.coerce(operand, Kind::Text.into(), Context::Implicit)?;
        }
        self.once([operand], |binder, [operand]| binder.case_of(Some(&operand), conditions, otherwise, scope))
    }

    fn case_of(
        &self,
        operand: Option<&Typed>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
        scope: &Scope<'_>,
    ) -> SqlResult<Typed> {
        let mut whens = Vec::new();
        // The ELSE comes first where the type is decided.
        let nothing = Typed::new(Expr::Constant(Datum::Null), Kind::Unknown);
        let mut results = vec![otherwise.map_or(Ok(nothing), |otherwise| self.expr(otherwise, scope))?];
        for ast::CaseWhen { condition, result } in conditions {
            let condition = self.expr(condition, scope)?;
            whens.push(match operand {
                None => self.condition(condition, "CASE/WHEN")?,
                Some(operand) => {
                    let place = condition.place;
                    let found = self.operator("=", Some(operand.clone()), condition);
                    found.map_err(|error| self.at_place(error, self.source.word_before(place, &["WHEN"])))?.expr
                }
            });
            results.push(self.expr(result, scope)?);
        }
        let (mut results, kind) = self.common(results, "CASE")?;
        let otherwise = Box::new(results.remove(0));
        Ok(Typed::new(Expr::Case { whens: whens.into_iter().zip(results).collect(), otherwise }, kind))
    }
}

/// Lists and arrays of fewer values are gone through. (PostgreSQL's `MIN_ARRAY_SIZE_FOR_HASHED_SAOP`.)
pub(super) const HASHED_MIN: usize = 9;

/// A number for a hash table, if there is to be one.
pub(super) fn hashed(is_wanted: bool) -> Option<ListId> {
    is_wanted.then(|| ListId(new_id()))
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
        other => return super::special::operator_name(other),
    }
    .to_owned())
}

/// The error of an operator that is written with its schema.
#[inline(never)]
fn written_in_full(error: SqlError, op: &BinaryOperator, name: &str) -> SqlError {
    match op {
        BinaryOperator::PGCustomBinaryOperator(parts) if 1 < parts.len() => {
            error.replaced(&format!(" {name} "), &format!(" {} ", parts.join(".")))
        }
        _ => error,
    }
}

/// The negative of a number, with the signs that are written before it, as PostgreSQL's `doNegate`: the least integer is a
/// literal, too.
pub(super) fn negated(expr: &ast::Expr) -> Option<String> {
    let (mut expr, mut is_negative) = (unnested(expr), true);
    while let ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } = expr {
        (expr, is_negative) = (unnested(inner), !is_negative);
    }
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, false) => Some(format!("{}{digits}", if is_negative { "-" } else { "" })),
            _ => None,
        },
        _ => None,
    }
}

/// A truth value.
pub fn truth(expr: Expr) -> Typed {
    Typed::new(expr, Kind::Bool)
}

pub(super) fn not(typed: Typed) -> Typed {
    truth(Expr::Not(Box::new(typed.expr)))
}

pub(super) fn negated_if(negated: bool, typed: Typed) -> Typed {
    if negated { not(typed) } else { typed }
}
