//! Binding of expressions.

use super::place::start;
use super::subquery::is_row;
use super::typing::{Equality, equality};
use super::{Binder, NameScope};
use crate::plan::{Expr, ListId, Plan, Typed, new_id, slots_of};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use statement::refuse;
use syntax::ast::{self, CastStyle, Constant, ExprKind, IsTest, OperatorName};
use syntax::lex::Span;
use types::datum::Datum;
use types::numeric::Numeric;
use types::ops::CastContext;
use types::{Kind, SqlType};

impl Binder<'_> {
    /// Binds an expression over a scope's row.
    ///
    /// # Errors
    /// Fails with the first error in the expression. An error without a position gets that of the innermost expression
    /// around it.
    pub fn expr(&self, expr: &ast::Expr, scope: &NameScope<'_>) -> SqlResult<Typed> {
        statement::stack::check()?;
        match self.expr_somewhere(expr, scope) {
            Ok(typed) if typed.place.is_known() => Ok(typed),
            found => self.placed(found, expr),
        }
    }

    #[inline(never)]
    fn placed(&self, found: SqlResult<Typed>, expr: &ast::Expr) -> SqlResult<Typed> {
        match found {
            Ok(typed) => Ok(typed.at(start(expr))),
            Err(error) => Err(self.at_expr(error, expr)),
        }
    }

    fn expr_somewhere(&self, expr: &ast::Expr, scope: &NameScope<'_>) -> SqlResult<Typed> {
        match &expr.kind {
            ExprKind::Infix { .. } => self.chain(expr, scope),
            ExprKind::Prefix { operator, operand } => self.prefix(operator, operand, expr.span, scope),
            ExprKind::Not(operand) => self.not(operand, expr.span, scope),
            ExprKind::Call(call) => self.function(call, expr.span, scope),
            _ => self.expr_of_any_kind(expr, scope),
        }
    }

    /// Binds the kinds of expressions that do not chain. It is a function of its own so that long chains of operators
    /// have small stack frames.
    #[inline(never)]
    fn expr_of_any_kind(&self, expr: &ast::Expr, scope: &NameScope<'_>) -> SqlResult<Typed> {
        match &expr.kind {
            ExprKind::Constant(constant) => Ok(self.literal(constant)?.at(expr.span)),
            ExprKind::Parameter(number) => self.parameter(*number),
            ExprKind::Column(name) => self.column(name, scope),
            ExprKind::Cast { value, to, style: CastStyle::Literal } => self.literal_of_type(value, to, scope),
            ExprKind::Cast { value, to, style } => self.cast(value, to, *style, expr.span, scope),
            ExprKind::Prefix { .. } | ExprKind::Infix { .. } | ExprKind::Not(_) | ExprKind::Call(_) => {
                self.expr_somewhere(expr, scope)
            }
            ExprKind::And(parts) => Ok(truth(Expr::And(self.conditions(parts, "AND", scope)?))),
            ExprKind::Or(parts) => Ok(truth(Expr::Or(self.conditions(parts, "OR", scope)?))),
            ExprKind::Is { value, test, is_not, at: _ } => self.is_test(value, *test, *is_not, scope),
            ExprKind::IsDistinct { left, right, is_not, at } => {
                let left = self.expr(left, scope)?;
                let place = left.place;
                Ok(negated_if(!is_not, self.is_same(left, self.expr(right, scope)?, *at)?).at(place))
            }
            // IN has no operator on rows, so it becomes a comparison of rows for each item.
            ExprKind::InList { value, list, is_not, at } if is_row(value) => {
                let equal = list.iter().map(|other| Ok(self.row_comparison("=", value, other, scope)?.expr));
                let equal = equal.collect::<SqlResult<_>>().map_err(|error| self.at_place(error, *at))?;
                Ok(negated_if(*is_not, truth(Expr::Or(equal))))
            }
            ExprKind::InList { value, list, is_not, at } => {
                let value = self.expr(value, scope)?;
                let place = value.place;
                Ok(self.in_list(value, list, *is_not, *at, scope)?.at(place))
            }
            ExprKind::InQuery { value, query, is_not, at } => {
                let found = self.in_query(value, query, scope).map_err(|error| self.at_place(error, *at))?;
                Ok(negated_if(*is_not, found))
            }
            ExprKind::Quantified { value, operator, quantifier, of } => self
                .quantified(value, operator, *quantifier, of, scope)
                .map_err(|error| self.at_place(error, operator.span)),
            ExprKind::Subquery(query) => self.scalar(query, scope),
            ExprKind::Exists(query) => self.exists(query, scope),
            ExprKind::ArrayQuery(query) => self.array_query(query, scope),
            ExprKind::Array(elements) => self.array(elements, scope),
            // A set-returning function in a branch that may not be evaluated has no defined number of rows.
            ExprKind::Case { operand, branches, otherwise } => self
                .without_sets("CASE", scope, || self.case(operand.as_deref(), branches, otherwise.as_deref(), scope)),
            ExprKind::Coalesce(arguments) => {
                let arguments = self.without_sets("COALESCE", scope, || self.exprs(arguments, scope))?;
                let (arguments, kind) = self.common(arguments, "COALESCE")?;
                Ok(Typed::new(Expr::Coalesce(arguments), kind))
            }
            ExprKind::NullIf(sides) => {
                let [left, right] = &**sides;
                self.null_if_equal(self.expr(left, scope)?, self.expr(right, scope)?)
            }
            ExprKind::Greatest(arguments) => self.extreme(true, self.exprs(arguments, scope)?),
            ExprKind::Least(arguments) => self.extreme(false, self.exprs(arguments, scope)?),
            ExprKind::Grouping(arguments) => self.grouping_call(arguments, scope),
            ExprKind::Session(value) => self.session_value(*value),
            ExprKind::Like { kind, value, pattern, escape, is_not, at } => {
                let value = self.expr(value, scope)?;
                let pattern = self.pattern(*kind, pattern, escape.as_deref(), *at, scope)?;
                self.like(*kind, value, pattern, *is_not, *at)
            }
            ExprKind::Between { value, low, high, is_not, is_symmetric, at } => {
                let found = match is_symmetric {
                    false => self.between(value, [low, high], *is_not, scope),
                    true => self.between_symmetric(value, [low, high], *is_not, scope),
                };
                Ok(truth(found.map_err(|error| self.at_place(error, *at))?))
            }
            ExprKind::Collate { value, collation, at } => self.collated(value, collation, *at, scope),
            ExprKind::Indirection { of, steps } => self.access(of, steps, scope),
            ExprKind::Row { .. } => {
                // Errors in the row's fields are the user's, so they take precedence over the refusal.
                self.row_values(expr, scope)?;
                Err(SqlError::unsupported("a row as a value"))
            }
            ExprKind::AllColumns(_) => Err(SqlError::unsupported("a whole row as a value")),
            ExprKind::Default => Err(SqlError::new(SqlState::SYNTAX_ERROR, "DEFAULT is not allowed in this context")),
            ExprKind::CurrentOf(_) => Err(SqlError::unsupported("WHERE CURRENT OF")),
            ExprKind::Unsupported(feature) => Err(SqlError::unsupported(feature)),
        }
    }

    /// Binds several expressions.
    pub(super) fn exprs(&self, all: &[ast::Expr], scope: &NameScope<'_>) -> SqlResult<Vec<Typed>> {
        all.iter().map(|one| self.expr(one, scope)).collect()
    }

    /// Binds the operands of `AND` or `OR`.
    fn conditions(&self, all: &[ast::Expr], of: &str, scope: &NameScope<'_>) -> SqlResult<Vec<Expr>> {
        all.iter().map(|one| self.condition(self.expr(one, scope)?, of)).collect()
    }

    /// Binds a number, text, Boolean or null.
    fn literal(&self, constant: &Constant) -> SqlResult<Typed> {
        let (datum, kind) = match constant {
            Constant::Integer(number) => (Datum::Int4(*number), Kind::Int4),
            Constant::Number(digits) => number(digits)?,
            Constant::Text(text) => (Datum::text(&**text), Kind::Unknown),
            Constant::Boolean(value) => (Datum::Bool(*value), Kind::Bool),
            Constant::Null => (Datum::Null, Kind::Unknown),
            Constant::Bits(digits) => return Err(SqlError::unsupported(format_args!("the literal B'{digits}'"))),
            Constant::Hex(digits) => return Err(SqlError::unsupported(format_args!("the literal X'{digits}'"))),
        };
        Ok(Typed::new(Expr::Constant(datum), kind))
    }

    fn parameter(&self, number: i32) -> SqlResult<Typed> {
        let no_such = || SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter ${number}"));
        let at =
            u16::try_from(number).ok().and_then(|number| usize::from(number).checked_sub(1)).ok_or_else(no_such)?;
        if self.parameters_max().is_some_and(|count| count <= at) {
            return Err(no_such());
        }
        let mut parameters = self.parameters.borrow_mut();
        if parameters.len() <= at {
            parameters.resize(at + 1, None);
        }
        let kind = *parameters[at].get_or_insert(Kind::Unknown.into());
        Ok(Typed::new(Expr::Parameter(at), kind))
    }

    /// `type 'literal'`
    fn literal_of_type(&self, literal: &ast::Expr, to: &ast::TypeName, scope: &NameScope<'_>) -> SqlResult<Typed> {
        if let Some(fields) = to.fields {
            return self.interval_with_fields(literal, fields, &to.modifiers);
        }
        let to = self.type_of(to)?;
        self.coerce(self.expr(literal, scope)?, to, CastContext::Explicit)
    }

    /// `value::type`, `CAST (value AS type)`
    fn cast(
        &self,
        written: &ast::Expr,
        to: &ast::TypeName,
        style: CastStyle,
        span: Span,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        let to = self.type_of(to)?;
        if let (ExprKind::Array(elements), Kind::Array(_), Some(element)) = (&written.kind, to.kind, to.element()) {
            return self.array_as(elements, to, element, written, scope);
        }
        let value = self.expr(written, scope)?;
        let is_cast = value.kind != to && value.kind.kind != Kind::Unknown;
        let (at, is_function) = match style {
            CastStyle::Sign(sign) => (sign, false),
            CastStyle::Function | CastStyle::Literal => (span, true),
        };
        let cast = self.coerce(value, to, CastContext::Explicit).map_err(|error| self.at_place(error, at))?;
        // The error position of CAST (…) is the word CAST, unless it casts nothing.
        Ok(if is_function && is_cast { cast.at(span) } else { cast })
    }

    /// Binds a prefix operator.
    fn prefix(
        &self,
        operator: &OperatorName,
        operand: &ast::Expr,
        span: Span,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        refuse!(!operator.schemas.is_empty() => "OPERATOR() before its operand");
        let operand = self.expr(operand, scope)?;
        Ok(self.operator(&operator.signs, None, operand)?.at(span))
    }

    fn not(&self, operand: &ast::Expr, span: Span, scope: &NameScope<'_>) -> SqlResult<Typed> {
        let operand = self.expr(operand, scope)?;
        Ok(not(truth(self.condition(operand, "NOT")?)).at(span))
    }

    /// Binds a left-deep chain of infix operators in a loop, since thousands of them would overflow the stack.
    fn chain(&self, whole: &ast::Expr, scope: &NameScope<'_>) -> SqlResult<Typed> {
        let mut outer = Vec::new();
        let mut first = whole;
        while let ExprKind::Infix { left, operator, right } = &first.kind {
            if is_row(left) {
                let found = self.row_comparison(operator_name(operator)?, left, right, scope);
                let found = found.map_err(|error| self.at_place(error, operator.span));
                return self.rest_of_chain(found, first, &outer, scope);
            }
            outer.push((first, operator, &**right));
            first = left;
        }
        self.rest_of_chain(self.expr(first, scope), first, &outer, scope)
    }

    fn rest_of_chain(
        &self,
        found: SqlResult<Typed>,
        first: &ast::Expr,
        outer: &[(&ast::Expr, &OperatorName, &ast::Expr)],
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        let mut all = found.map_err(|error| self.at_expr(error, first))?;
        if !all.place.is_known() {
            all = all.at(start(first));
        }
        for (whole, operator, right) in outer.iter().rev() {
            all = self.binary(all, operator, right, scope).map_err(|error| self.at_expr(error, whole))?;
        }
        Ok(all)
    }

    fn binary(
        &self,
        left: Typed,
        operator: &OperatorName,
        right: &ast::Expr,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        let place = left.place;
        let right = self.expr(right, scope)?;
        let found = self.operator(operator_name(operator)?, Some(left), right);
        Ok(found.map_err(|error| self.at_place(written_in_full(error, operator), operator.span))?.at(place))
    }

    /// Binds `IS NULL`, `IS TRUE` and their like.
    fn is_test(&self, value: &ast::Expr, test: IsTest, is_not: bool, scope: &NameScope<'_>) -> SqlResult<Typed> {
        if test == IsTest::Null && is_row(value) {
            // The test applies to each field, so a row can be neither NULL nor NOT NULL.
            let one = |value: Typed| negated_if(is_not, truth(Expr::IsNull(Box::new(value.expr)))).expr;
            return Ok(truth(Expr::And(self.row_values(value, scope)?.into_iter().map(one).collect())));
        }
        let value = self.expr(value, scope)?;
        let place = value.place;
        let found = match (test, is_not) {
            (IsTest::Null, _) => truth(Expr::IsNull(Box::new(value.expr))),
            (IsTest::True, false) => self.is_bool(value, Some(true), "IS TRUE")?,
            (IsTest::True, true) => self.is_bool(value, Some(true), "IS NOT TRUE")?,
            (IsTest::False, false) => self.is_bool(value, Some(false), "IS FALSE")?,
            (IsTest::False, true) => self.is_bool(value, Some(false), "IS NOT FALSE")?,
            (IsTest::Unknown, false) => self.is_bool(value, None, "IS UNKNOWN")?,
            (IsTest::Unknown, true) => self.is_bool(value, None, "IS NOT UNKNOWN")?,
            (IsTest::Normalized, false) => return Err(SqlError::unsupported("IS NORMALIZED")),
            (IsTest::Normalized, true) => return Err(SqlError::unsupported("IS NOT NORMALIZED")),
            (IsTest::Document, false) => return Err(SqlError::unsupported("IS DOCUMENT")),
            (IsTest::Document, true) => return Err(SqlError::unsupported("IS NOT DOCUMENT")),
        };
        Ok(negated_if(is_not, found).at(place))
    }

    fn is_bool(&self, argument: Typed, value: Option<bool>, of: &str) -> SqlResult<Typed> {
        Ok(truth(Expr::IsBool(Box::new(self.condition(argument, of)?), value)))
    }

    /// Binds `IS NOT DISTINCT FROM`: equality by the types' operator, with two nulls equal.
    fn is_same(&self, left: Typed, right: Typed, at: Span) -> SqlResult<Typed> {
        let equality = equality(left.kind.kind, right.kind.kind).map_err(|error| self.at_place(error, at))?;
        Ok(truth(match equality {
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

    /// Binds `IN` with a list, as PostgreSQL's `transformAExprIn` does: items without columns form one array, the
    /// others are compared one by one.
    fn in_list(
        &self,
        argument: Typed,
        list: &[ast::Expr],
        negated: bool,
        place: Span,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        let at = |error: SqlError| {
            let error = if negated { error.replaced(" = ", " <> ") } else { error };
            self.at_place(error, place)
        };
        let list = self.exprs(list, scope)?;
        let own = argument.kind.kind;
        let (array, mut rest): (Vec<Typed>, Vec<Typed>) = list.into_iter().partition(|one| {
            // The error is dropped here because the next check finds the cancellation again.
            let _ = pulse::walk(pulse::ITEM);
            slots_of(&one.expr).is_empty()
        });
        // Items with the same equality operator share one list.
        let mut lists: Vec<(Equality, Vec<Typed>)> = Vec::new();
        let kinds: Vec<Kind> = std::iter::once(own).chain(array.iter().map(|one| one.kind.kind)).collect();
        match types::ops::common_kind(&kinds, "IN") {
            Ok(common) if 1 < array.len() => {
                let items = array.into_iter().map(|one| {
                    pulse::tick(pulse::ITEM)?;
                    self.coerce(one, common.into(), CastContext::Implicit)
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

    /// Appends conditions for `IN`, of which one must be true; if `negated`, for `NOT IN`, of which all must be true.
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

    /// Returns a plan that casts the columns of another one. Errors point into `written`, if that is given.
    pub fn converted(
        &self,
        plan: Plan,
        from: &[SqlType],
        to: &[SqlType],
        written: Option<&ast::Query>,
    ) -> SqlResult<Plan> {
        if from == to {
            return Ok(plan);
        }
        // A literal of unknown type is read as a value of the target type, so the cast goes into the projection.
        let plan = match plan {
            Plan::Project { input, columns } => {
                let convert = |(at, ((expr, from), to)): (usize, ((Expr, &SqlType), &SqlType))| {
                    let start = written.map_or(Span::NOWHERE, |query| self.column_start(query, at));
                    let value = self.coerce(Typed::new(expr, *from).at(start), *to, CastContext::Implicit);
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
            self.coerce(typed, *to, CastContext::Implicit).map(|typed| typed.expr)
        };
        let columns = from.iter().zip(to).enumerate().map(column).collect::<SqlResult<_>>()?;
        Ok(Plan::Project { input: Box::new(plan), columns })
    }

    fn case(
        &self,
        operand: Option<&ast::Expr>,
        branches: &[ast::CaseBranch],
        otherwise: Option<&ast::Expr>,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        let Some(operand) = operand else { return self.case_of(None, branches, otherwise, scope) };
        let mut operand = self.expr(operand, scope)?;
        if operand.kind.kind == Kind::Unknown {
            operand = self.coerce(operand, Kind::Text.into(), CastContext::Implicit)?;
        }
        self.once([operand], |binder, [operand]| binder.case_of(Some(&operand), branches, otherwise, scope))
    }

    fn case_of(
        &self,
        operand: Option<&Typed>,
        branches: &[ast::CaseBranch],
        otherwise: Option<&ast::Expr>,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        let mut whens = Vec::new();
        // PostgreSQL resolves the result type with the ELSE value first.
        let nothing = Typed::new(Expr::Constant(Datum::Null), Kind::Unknown);
        let mut results = vec![otherwise.map_or(Ok(nothing), |otherwise| self.expr(otherwise, scope))?];
        for ast::CaseBranch { condition, value, span } in branches {
            let condition = self.expr(condition, scope)?;
            whens.push(match operand {
                None => self.condition(condition, "CASE/WHEN")?,
                Some(operand) => {
                    let found = self.operator("=", Some(operand.clone()), condition);
                    found.map_err(|error| self.at_place(error, *span))?.expr
                }
            });
            results.push(self.expr(value, scope)?);
        }
        let (mut results, kind) = self.common(results, "CASE")?;
        let otherwise = Box::new(results.remove(0));
        Ok(Typed::new(Expr::Case { whens: whens.into_iter().zip(results).collect(), otherwise }, kind))
    }
}

/// Minimal length of a list or array that is hashed; shorter ones are searched linearly. (PostgreSQL's
/// `MIN_ARRAY_SIZE_FOR_HASHED_SAOP`.)
pub(super) const HASHED_MIN: usize = 9;

/// Returns an id for a hash table, if one is wanted.
pub(super) fn hashed(is_wanted: bool) -> Option<ListId> {
    is_wanted.then(|| ListId(new_id()))
}

/// Returns an operator's name in the table of operators.
pub(super) fn operator_name(operator: &OperatorName) -> SqlResult<&str> {
    match &operator.schemas[..] {
        [] => Ok(&operator.signs),
        [schema] if **schema == *types::PG_CATALOG => Ok(&operator.signs),
        _ => Err(SqlError::unsupported(format_args!("the operator {}", in_full(operator)))),
    }
}

/// Returns an operator's name with the schemas that are written before it.
fn in_full(operator: &OperatorName) -> String {
    let parts = operator.schemas.iter().map(|schema| &*schema.text).chain([&*operator.signs]);
    parts.collect::<Vec<_>>().join(".")
}

/// Restores the schemas of an operator in the message of its error.
#[inline(never)]
fn written_in_full(error: SqlError, operator: &OperatorName) -> SqlError {
    if operator.schemas.is_empty() {
        return error;
    }
    error.replaced(&format!(" {} ", operator.signs), &format!(" {} ", in_full(operator)))
}

/// Reads a numeric literal that does not fit `integer`, or has a sign.
fn number(digits: &str) -> SqlResult<(Datum, Kind)> {
    // The grammar reads -2147483648 with its sign, and it is an integer.
    if let Ok(small) = digits.parse() {
        return Ok((Datum::Int4(small), Kind::Int4));
    }
    if let Ok(large) = digits.parse() {
        return Ok((Datum::Int8(large), Kind::Int8));
    }
    Ok((Datum::Numeric(Numeric::parse(digits)?), Kind::Numeric))
}

/// Gives an expression the type `boolean`.
pub fn truth(expr: Expr) -> Typed {
    Typed::new(expr, Kind::Bool)
}

pub(super) fn not(typed: Typed) -> Typed {
    truth(Expr::Not(Box::new(typed.expr)))
}

pub(super) fn negated_if(negated: bool, typed: Typed) -> Typed {
    if negated { not(typed) } else { typed }
}
