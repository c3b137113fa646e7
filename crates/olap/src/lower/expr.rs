//! Values and conditions.
//!
//! **Invariant:** parts that depend on no row are evaluated here, once, by the same code as on the row path. The rest
//! is evaluated on arrays where that means the same, and otherwise row by row by the row path's functions. Volatile
//! functions are refused.

use super::compare::{binary, comparison_named, lit_text};
use super::correlated::{self, SubqueryUse, TotalSubquery};
use super::guards::{self, guarded};
use super::{LoweredExpr, LoweredRow, Lowering, build};
use crate::functions::defined::{CalledRoutine, StatementContext};
use crate::functions::kernels::{self, DateField, Kernel};
use crate::functions::rows::{self, RowComputation};
use crate::functions::stored;
use crate::values::{Repr, mismatch, scalar};
use catalog::RoutineResult;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Spans};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{Exists, InSubquery, Like};
use datafusion::logical_expr::{
    Expr as Df, JoinType, LogicalPlan, LogicalPlanBuilder, Operator as DfOperator, Subquery, cast, lit,
};
use query::plan::{Expr, Over, Plan, RoutineCall, substitute};
use statement::{SqlError, SqlResult};
use std::sync::Arc;
use types::ops::Callee;
use types::{Datum, Kind, SqlType};

impl Lowering<'_> {
    /// Returns the value of an expression without columns that is the same at each evaluation; `None` for other
    /// expressions.
    ///
    /// # Errors
    /// `0A000` for a value that fails, since only the row path knows if it is needed at all.
    pub(super) fn known(&self, expr: &Expr) -> SqlResult<Option<Datum>> {
        self.computed(expr).map_err(|error| match error.state().class() {
            // A cancel, a timeout or a lack of memory, which is not about the value.
            "53" | "54" | "57" | "XX" | "0A" => error,
            _ => SqlError::unsupported("a constant that fails as analytics").detail(error.message().to_owned()),
        })
    }

    fn computed(&self, expr: &Expr) -> SqlResult<Option<Datum>> {
        Ok(match expr {
            Expr::Constant(datum) => Some(datum.clone()),
            Expr::Parameter(at) => Some(self.parameters.get(*at).cloned().ok_or_else(mismatch)?),
            Expr::Call { callee, arguments } => {
                if callee.callable().is_volatile() {
                    return Ok(None);
                }
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    let Some(value) = self.computed(argument)? else { return Ok(None) };
                    values.push(value);
                }
                Some(callee.call(&values, &**self.context)?)
            }
            Expr::Cast { eval, to, argument } => match self.computed(argument)? {
                None => None,
                Some(Datum::Null) => Some(Datum::Null),
                Some(value) => Some(eval(&value, *to, &**self.context)?),
            },
            Expr::Array(items) => {
                let items = items.iter().map(|item| self.computed(item)).collect::<SqlResult<Option<Vec<_>>>>()?;
                items.map(|items| Datum::Array(items.into()))
            }
            Expr::Now { to } => Some(types::ops::context::now(&**self.context, *to)?),
            _ => None,
        })
    }

    fn constant(&self, datum: Datum) -> SqlResult<LoweredExpr> {
        let repr = Repr::of_datum(&datum, None)?;
        Ok(LoweredExpr { expr: Df::Literal(scalar(&datum, repr)?, None), repr, constant: Some(datum), scale: None })
    }

    pub(super) fn value(&self, expr: &Expr, row: &LoweredRow<'_>) -> SqlResult<LoweredExpr> {
        let _level = self.level()?;
        if let Some(known) = self.known(expr)? {
            return self.constant(known);
        }
        let boolean = |expr: Df| Ok(LoweredExpr::of(expr, Repr::Bool));
        match expr {
            Expr::Column(at) => row.value(*at),
            Expr::Outer { level, column } => row.outer_value(*level, *column),
            Expr::Call { .. } => self.call(expr, row),
            Expr::Cast { argument, to, eval } => {
                let argument = self.value(argument, row)?;
                self.cast(argument, *to, *eval)
            }
            Expr::And(parts) => boolean(self.connected(parts, row, true)?),
            Expr::Or(parts) => boolean(self.connected(parts, row, false)?),
            Expr::Not(inner) => boolean(Df::Not(Box::new(self.boolean(inner, row)?))),
            Expr::IsNull(inner) => boolean(self.value(inner, row)?.expr.is_null()),
            Expr::IsBool(inner, wanted) => {
                let inner = self.boolean(inner, row)?;
                boolean(match wanted {
                    Some(true) => inner.is_true(),
                    Some(false) => inner.is_false(),
                    None => inner.is_unknown(),
                })
            }
            Expr::IsSame { kind, arguments } => {
                let [left, right] = &**arguments;
                let (left, right) = (self.value(left, row)?, self.value(right, row)?);
                match self.pair(left.clone(), *kind, right.clone(), *kind)? {
                    Some((left, right)) => boolean(binary(left, DfOperator::IsNotDistinctFrom, right)),
                    None => self.by_rows("is_same", vec![left, right], Repr::Bool, false, RowComputation::Same(*kind)),
                }
            }
            Expr::Case { whens, otherwise } => {
                let whens = whens.iter().map(|(when, then)| Ok((self.boolean(when, row)?, self.value(then, row)?)));
                let (whens, otherwise) = (whens.collect::<SqlResult<Vec<_>>>()?, self.value(otherwise, row)?);
                let parts = whens.iter().flat_map(|(when, then)| [when, &then.expr]).chain([&otherwise.expr]);
                // The first condition is always evaluated. Of all other parts, a subquery would be computed even where
                // PostgreSQL does not reach it.
                guards::lazy(parts.skip(1))?;
                self.choice(whens, otherwise)
            }
            // A plan of DataFusion has no place for a value that is computed once, so it is copied wherever it is used.
            // A volatile one would differ from copy to copy.
            Expr::Let { values, body } if !values.iter().any(Expr::is_volatile) => {
                let mut inlined = (**body).clone();
                substitute(values, &mut inlined)?;
                self.count_copies(&inlined)?;
                self.value(&inlined, row)
            }
            Expr::Let { .. } => Err(SqlError::unsupported("volatile functions as analytics")),
            Expr::Coalesce(parts) => {
                let mut values = parts.iter().map(|part| self.value(part, row)).collect::<SqlResult<Vec<_>>>()?;
                guards::lazy(values.iter().skip(1).map(|value| &value.expr))?;
                let last = values.pop().ok_or_else(mismatch)?;
                self.choice(values.into_iter().map(|value| (value.expr.clone().is_not_null(), value)).collect(), last)
            }
            Expr::Extreme { greatest, kind, arguments } => self.extreme(*greatest, *kind, arguments, row),
            Expr::InList { kind, argument, list, hashed: _ } => self.in_list(*kind, argument, list, row),
            Expr::Quantified { all, arguments, over: Over::Array(array), condition, hashed: _ } => {
                self.any_item(*all, arguments, array, condition, row)
            }
            Expr::Scalar(plan) => self.scalar_query(plan, row),
            Expr::Exists(plan) => boolean(self.exists(plan, row, false)?),
            Expr::InQuery { .. } | Expr::Quantified { .. } => {
                Err(SqlError::unsupported("a subquery in a value as analytics"))
            }
            Expr::Array(_) | Expr::ArrayQuery(_) => Err(SqlError::unsupported("ARRAY as analytics")),
            Expr::Sequence { .. } => Err(SqlError::unsupported("sequences as analytics")),
            Expr::Routine(call) => self.stored_function(call, row),
            Expr::Advisory { .. } => Err(SqlError::unsupported("advisory locks as analytics")),
            // These are known before the query runs, or inlined above.
            Expr::Constant(_) | Expr::Parameter(_) | Expr::Local(_) | Expr::Now { .. } => Err(mismatch()),
        }
    }

    /// Returns a value that is true, false or null.
    fn boolean(&self, expr: &Expr, row: &LoweredRow<'_>) -> SqlResult<Df> {
        let value = self.value(expr, row)?;
        match value.repr {
            Repr::Bool => Ok(value.expr),
            Repr::Null => self.fitted(value, Repr::Bool),
            _ => Err(mismatch()),
        }
    }

    fn connected(&self, parts: &[Expr], row: &LoweredRow<'_>, is_and: bool) -> SqlResult<Df> {
        self.count_conditions(parts.len())?;
        let parts = parts.iter().map(|part| self.boolean(part, row)).collect::<SqlResult<Vec<_>>>()?;
        guarded(parts, is_and, true)
    }

    /// Returns a condition, where null means false. Only with `decides`, for a condition that alone decides about a
    /// row, may it be `NOT IN`: within others a null of it would count as true.
    pub(super) fn condition(&self, expr: &Expr, row: &LoweredRow<'_>, decides: bool) -> SqlResult<Df> {
        let _level = self.level()?;
        let all = |parts: &[Expr], decides: bool| {
            self.count_conditions(parts.len())?;
            parts.iter().map(|part| self.condition(part, row, decides)).collect::<SqlResult<Vec<_>>>()
        };
        match expr {
            // Conditions that decide alone stay separate and are evaluated in turn (module `barriers`).
            Expr::And(parts) if decides => balanced(all(parts, true)?, Df::and).ok_or_else(mismatch),
            Expr::And(parts) => guarded(all(parts, false)?, true, false),
            Expr::Or(parts) => guarded(all(parts, false)?, false, false),
            Expr::InQuery { kinds, arguments, query } => self.in_query(kinds, arguments, query, row, false),
            Expr::Not(inner) => match &**inner {
                Expr::Exists(plan) => self.exists(plan, row, true),
                Expr::InQuery { kinds, arguments, query } if decides => {
                    self.in_query(kinds, arguments, query, row, true)
                }
                _ => self.boolean(expr, row),
            },
            _ => self.boolean(expr, row),
        }
    }

    fn call(&self, expr: &Expr, row: &LoweredRow<'_>) -> SqlResult<LoweredExpr> {
        let Expr::Call { callee, arguments } = expr else { return Err(mismatch()) };
        let callable = callee.callable();
        if callable.is_volatile() {
            return Err(SqlError::unsupported("functions that differ from call to call as analytics"));
        }
        if let (Callee::Operator(operator), [left, right]) = (callee, &arguments[..])
            && let Some(left_kind) = operator.left
        {
            let (left, right) = (self.value(left, row)?, self.value(right, row)?);
            if let Some(comparison) = comparison_named(operator.name)
                && let Some(compared) = self.comparison(comparison, &left, left_kind, &right, operator.right)?
            {
                return Ok(LoweredExpr::of(compared, Repr::Bool));
            }
            if let Some(computed) = self.arithmetic(operator.name, &left, &right, operator.result)? {
                return Ok(computed);
            }
            if let Some(like) = self.like(operator.name, left_kind, &left, &right)? {
                return Ok(like);
            }
        }
        if let (Some("extract"), [part, of]) = (callee.function().map(|function| function.name), &arguments[..])
            && let Some(part) = self.known(part)?.as_ref().and_then(part_named)
        {
            let of = self.value(of, row)?;
            if of.repr == Repr::Date {
                let repr = Repr::Decimal { precision: 10, scale: 0 };
                return Ok(LoweredExpr::of(kernels::call(Kernel::Part(part), vec![of.expr]), repr));
            }
        }
        // Constants are no arrays: they become part of the function.
        let mut frame = Vec::with_capacity(arguments.len());
        let mut values = Vec::new();
        for argument in arguments {
            let known = self.known(argument)?;
            if known.is_none() {
                values.push(self.value(argument, row)?);
            }
            frame.push(known);
        }
        if callable.is_strict() && frame.iter().flatten().any(Datum::is_null) {
            return self.constant(Datum::Null);
        }
        let body = RowComputation::Call { callee: *callee, frame, session: StatementContext::of(self.context) };
        self.by_rows(callable.name(), values, Repr::of_kind(callable.result())?, callable.is_strict(), body)
    }

    /// Lowers the call of a stored function that is a computation. All others belong to the session's transaction.
    fn stored_function(&self, call: &RoutineCall, row: &LoweredRow<'_>) -> SqlResult<LoweredExpr> {
        let RoutineCall { routine, arguments, is_computation } = call;
        let (Some(code), RoutineResult::Value(result), true) = (self.code, &routine.result, is_computation) else {
            return Err(SqlError::unsupported("a stored function as analytics"));
        };
        let arguments = arguments.iter().zip(routine.inputs()).map(|(argument, input)| {
            if let Some(known) = self.known(argument)? {
                let repr = Repr::of_datum(&known, Some(input.kind))?;
                return Ok((Df::Literal(scalar(&known, repr)?, None), repr));
            }
            let value = self.settled(self.value(argument, row)?);
            Ok((value.expr, value.repr))
        });
        let arguments = arguments.collect::<SqlResult<Vec<_>>>()?;
        let called = CalledRoutine { routine: Arc::clone(routine), code: Arc::clone(code) };
        let result = Repr::of_kind(*result)?;
        Ok(LoweredExpr::of(stored::call(called, arguments, result), result))
    }

    fn by_rows(
        &self,
        name: &str,
        arguments: Vec<LoweredExpr>,
        result: Repr,
        strict: bool,
        body: RowComputation,
    ) -> SqlResult<LoweredExpr> {
        let arguments = arguments.into_iter().map(|value| {
            let value = self.settled(value);
            (value.expr, value.repr)
        });
        Ok(LoweredExpr::of(rows::call(name, arguments.collect(), result, strict, body), result))
    }

    /// Lowers `LIKE` with a pattern without an escape.
    fn like(&self, name: &str, kind: Kind, left: &LoweredExpr, right: &LoweredExpr) -> SqlResult<Option<LoweredExpr>> {
        let (negated, case_insensitive) = match name {
            "~~" => (false, false),
            "!~~" => (true, false),
            _ => return Ok(None),
        };
        let (Some(Datum::Text(pattern)), Repr::Text, true) = (&right.constant, left.repr, kind != Kind::Bpchar) else {
            return Ok(None);
        };
        if pattern.contains('\\') {
            return Ok(None);
        }
        let (own, pattern) = (Box::new(left.expr.clone()), Box::new(lit_text(pattern)));
        Ok(Some(LoweredExpr::of(Df::Like(Like::new(negated, own, pattern, None, case_insensitive)), Repr::Bool)))
    }

    fn cast(&self, argument: LoweredExpr, to: SqlType, eval: query::plan::CastEval) -> SqlResult<LoweredExpr> {
        let is_bare = to.typmod < 0;
        let native = match (argument.repr, to.kind) {
            // The array has no trailing blanks; the shown value has them.
            (Repr::Padded(_), Kind::Text | Kind::Varchar) if is_bare && !self.keeps_blanks(to, eval) => {
                Some((argument.expr.clone(), Repr::Text))
            }
            (Repr::Text, Kind::Text | Kind::Varchar) if is_bare && self.keeps_blanks(to, eval) => {
                Some((argument.expr.clone(), Repr::Text))
            }
            (Repr::Int2 | Repr::Int4, Kind::Int4 | Kind::Int8) => {
                let to = Repr::of_kind(to.kind)?;
                Some((self.fitted(argument.clone(), to)?, to))
            }
            (Repr::Int2 | Repr::Int4 | Repr::Int8, Kind::Numeric) if is_bare => {
                let precision = match argument.repr {
                    Repr::Int2 => 5,
                    Repr::Int4 => 10,
                    Repr::Int8 => 19,
                    _ => return Err(mismatch()),
                };
                let to = Repr::Decimal { precision, scale: 0 };
                Some((cast(argument.expr.clone(), to.data_type()), to))
            }
            (Repr::Int2 | Repr::Int4 | Repr::Int8, Kind::Float8) => {
                Some((cast(argument.expr.clone(), Repr::Float8.data_type()), Repr::Float8))
            }
            (Repr::Float4, Kind::Float8) => Some((argument.expr.clone(), Repr::Float8)),
            (Repr::Decimal { .. } | Repr::Keyed(Kind::Numeric), Kind::Numeric) if is_bare => {
                Some((argument.expr.clone(), argument.repr))
            }
            (Repr::Decimal { precision, scale }, Kind::Numeric) if argument.scale.is_none() => {
                let fits = |(wide, at): (i32, i32)| i32::from(scale) == at && i32::from(precision) <= wide;
                to.precision_and_scale().is_some_and(fits).then(|| (argument.expr.clone(), argument.repr))
            }
            _ => None,
        };
        if let Some((expr, repr)) = native {
            return Ok(LoweredExpr { expr, repr, constant: None, scale: argument.scale });
        }
        let body = RowComputation::Cast { eval, to, session: StatementContext::of(self.context) };
        self.by_rows("cast", vec![argument], Repr::of_kind(to.kind)?, true, body)
    }

    /// Returns true if a cast to text keeps trailing blanks. A cast from char(n) removes them, though its arrays are
    /// the same for constants.
    fn keeps_blanks(&self, to: SqlType, eval: query::plan::CastEval) -> bool {
        let probe = Datum::text("a ");
        eval(&probe, to, &**self.context).is_ok_and(|same| same == probe)
    }

    fn extreme(&self, greatest: bool, kind: Kind, arguments: &[Expr], row: &LoweredRow<'_>) -> SqlResult<LoweredExpr> {
        let values = arguments.iter().map(|argument| self.value(argument, row)).collect::<SqlResult<Vec<_>>>()?;
        let result = self.unified(values.iter())?;
        // One representation for all, since the scale of the result is that of one argument.
        let result = if matches!(result, Repr::Decimal { .. }) { Repr::Keyed(Kind::Numeric) } else { result };
        self.by_rows(
            if greatest { "greatest" } else { "least" },
            values,
            result,
            false,
            RowComputation::Extreme { greatest, kind },
        )
    }

    fn in_list(&self, kind: Kind, argument: &Expr, list: &[Expr], row: &LoweredRow<'_>) -> SqlResult<LoweredExpr> {
        let argument = self.value(argument, row)?;
        let list = list.iter().map(|item| self.value(item, row)).collect::<SqlResult<Vec<_>>>()?;
        match self.any_of_list(&argument, kind, &list)? {
            Some(any) => Ok(LoweredExpr::of(any, Repr::Bool)),
            None => {
                let each = list.into_iter().map(|item| {
                    let pair = vec![argument.clone(), item];
                    self.by_rows("equal", pair, Repr::Bool, true, RowComputation::Equal(kind)).map(|value| value.expr)
                });
                let any = balanced(each.collect::<SqlResult<_>>()?, Df::or);
                Ok(LoweredExpr::of(any.unwrap_or_else(|| lit(false)), Repr::Bool))
            }
        }
    }

    /// Lowers `ANY` and `ALL` over a constant array, with one comparison.
    fn any_item(
        &self,
        all: bool,
        arguments: &[Expr],
        array: &Expr,
        condition: &Expr,
        row: &LoweredRow<'_>,
    ) -> SqlResult<LoweredExpr> {
        let refused = || SqlError::unsupported("this ANY or ALL as analytics");
        let (Some(items), [argument]) = (self.known(array)?, arguments) else { return Err(refused()) };
        let items = match items {
            Datum::Array(items) => items,
            Datum::Null => return self.constant(Datum::Null),
            _ => return Err(mismatch()),
        };
        let Expr::Call { callee: callee @ Callee::Operator(operator), arguments: sides } = condition else {
            return Err(refused());
        };
        if !matches!(&sides[..], [Expr::Column(0), Expr::Column(1)]) {
            return Err(refused());
        }
        let argument = self.value(argument, row)?;
        // `<> ALL` is the negation of `= ANY`, with the same nulls.
        let is_list = operator.name == if all { "<>" } else { "=" };
        if is_list && operator.left == Some(operator.right) {
            let list = items.iter().map(|item| self.constant(item.clone())).collect::<SqlResult<Vec<_>>>()?;
            if let Some(any) = self.any_of_list(&argument, operator.right, &list)? {
                return Ok(LoweredExpr::of(if all { Df::Not(Box::new(any)) } else { any }, Repr::Bool));
            }
        }
        // The row path uses a hash table; here each row would visit all items.
        if is_list && ITEMS_MAX < items.len() {
            return Err(SqlError::unsupported("so long an array of another type as analytics"));
        }
        let body = RowComputation::AnyItem { all, callee: *callee, items, session: StatementContext::of(self.context) };
        self.by_rows(if all { "all" } else { "any" }, vec![argument], Repr::Bool, false, body)
    }

    fn subquery(&self, plan: LogicalPlan, of: SubqueryUse) -> SqlResult<Subquery> {
        correlated::check(&plan, of)?;
        let outer_ref_columns = plan.all_out_ref_exprs();
        Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() })
    }

    fn scalar_query(&self, plan: &Plan, row: &LoweredRow<'_>) -> SqlResult<LoweredExpr> {
        // A second row is an error already, which DataFusion raises itself.
        let lowered = self.plan(unlimited(plan, 2), Some(row))?;
        let place = lowered.place(0)?;
        let (value, repr) = (place.value(), place.repr);
        let is_correlated = !lowered.plan.all_out_ref_exprs().is_empty();
        if is_correlated && let Some(total) = TotalSubquery::of(&lowered.plan, value.clone())? {
            let lowered = self.total(total, repr)?;
            let repr = lowered.place(0)?.repr;
            return Ok(LoweredExpr::of(Df::ScalarSubquery(self.subquery(lowered.plan, SubqueryUse::Value)?), repr));
        }
        let plan = build(LogicalPlanBuilder::from(lowered.plan).project([value.clone()]))?;
        if is_correlated && is_settled(&value, &plan) {
            return Err(SqlError::unsupported("a correlated subquery of a constant as analytics"));
        }
        if stays_nullable(&value, &plan) || repr == Repr::Null {
            return Ok(LoweredExpr::of(Df::ScalarSubquery(self.subquery(plan, SubqueryUse::Value)?), repr));
        }
        if !is_correlated {
            // A join with a single empty row has this meaning.
            let nothing = LogicalPlanBuilder::empty(true);
            let plan = build(nothing.join_on(plan, JoinType::Left, [lit(true)]))?;
            return Ok(LoweredExpr::of(Df::ScalarSubquery(self.subquery(plan, SubqueryUse::Value)?), repr));
        }
        // A correlated subquery becomes an outer join, but earlier rules rely on the column's nullability.
        let found = Df::ScalarSubquery(self.subquery(plan, SubqueryUse::Value)?);
        Ok(LoweredExpr::of(kernels::call(Kernel::OrNull(repr), vec![found]), repr))
    }

    fn exists(&self, plan: &Plan, row: &LoweredRow<'_>, negated: bool) -> SqlResult<Df> {
        let lowered = self.plan(unlimited(plan, 1), Some(row))?;
        Ok(Df::Exists(Exists::new(self.subquery(lowered.plan, SubqueryUse::Rows)?, negated)))
    }

    fn in_query(
        &self,
        kinds: &[Kind],
        arguments: &[Expr],
        query: &Plan,
        row: &LoweredRow<'_>,
        negated: bool,
    ) -> SqlResult<Df> {
        let lowered = self.plan(query, Some(row))?;
        let mut pairs = Vec::with_capacity(kinds.len());
        for (at, (argument, kind)) in arguments.iter().zip(kinds).enumerate() {
            let place = lowered.place(at)?;
            let own = LoweredExpr::of(place.value(), place.repr);
            let refused = || SqlError::unsupported("IN between these types as analytics");
            pairs.push(self.pair(self.value(argument, row)?, *kind, own, *kind)?.ok_or_else(refused)?);
        }
        let builder = LogicalPlanBuilder::from(lowered.plan);
        let (left, right) = match <[_; 1]>::try_from(pairs) {
            Ok([pair]) => pair,
            Err(pairs) => return self.row_in_query(pairs, builder, row, negated),
        };
        // DataFusion derives nullability from columns alone, and a value over columns that are never null may be null.
        let chooses = |part: &Df| Ok(matches!(part, Df::Case(_) | Df::ScalarSubquery(_)));
        if negated && left.exists(chooses).unwrap_or(true) {
            return Err(SqlError::unsupported("NOT IN of a value that a condition chooses as analytics"));
        }
        let is_computed = left.exists(|part| Ok(!is_plain(part))).unwrap_or(true);
        let looks_out = !builder.plan().all_out_ref_exprs().is_empty();
        if negated && (left.column_refs().is_empty() || is_computed || looks_out) {
            // DataFusion's own `NOT IN` lets a null in any row decide for this query; this expression has SQL's
            // meaning.
            let differs_from_none = seen_from_within(left, row)?.eq(right).is_not_false();
            let plan = build(builder.filter(differs_from_none))?;
            return Ok(Df::Exists(Exists::new(self.subquery(plan, SubqueryUse::Rows)?, true)));
        }
        let plan = build(builder.project([right.alias(self.name("c"))]))?;
        Ok(Df::InSubquery(InSubquery::new(Box::new(left), self.subquery(plan, SubqueryUse::Rows)?, negated)))
    }

    /// Lowers `IN` of a row of several values to a semi join. A row that compares as null is not in the query, which
    /// is correct where null means false.
    fn row_in_query(
        &self,
        pairs: Vec<(Df, Df)>,
        builder: LogicalPlanBuilder,
        row: &LoweredRow<'_>,
        negated: bool,
    ) -> SqlResult<Df> {
        if negated {
            return Err(SqlError::unsupported("NOT IN of rows as analytics"));
        }
        let asks = |part: &Df| Ok(matches!(part, Df::ScalarSubquery(_) | Df::Exists(_) | Df::InSubquery(_)));
        if pairs.iter().any(|(left, _)| left.exists(asks).unwrap_or(true)) {
            return Err(SqlError::unsupported("IN of rows with queries as analytics"));
        }
        let equal = pairs.into_iter().map(|(left, right)| Ok(seen_from_within(left, row)?.eq(right)));
        let all = balanced(equal.collect::<SqlResult<_>>()?, Df::and).ok_or_else(mismatch)?;
        let plan = build(builder.filter(all))?;
        Ok(Df::Exists(Exists::new(self.subquery(plan, SubqueryUse::Rows)?, false)))
    }
}

/// Maximum number of items of an array that each row visits.
const ITEMS_MAX: usize = 1000;

/// Returns true if DataFusion takes a value over this plan as nullable, whatever its rules make of the plan. A scalar
/// subquery without rows is null, but DataFusion relies on the column: `(SELECT id FROM empty) IS NULL` was false.
/// Declaring the column nullable does not last, since rules turn values into constants and outer joins into inner
/// ones. They leave aggregates as they are, and values computed from these.
fn stays_nullable(value: &Df, plan: &LogicalPlan) -> bool {
    match (value, plan) {
        (Df::Column(_), LogicalPlan::Projection(projection)) => {
            let behind = of_column(value, plan).and_then(|at| projection.expr.get(at));
            behind.is_some_and(|behind| stays_nullable(behind, &projection.input))
        }
        (Df::Column(_), LogicalPlan::Aggregate(aggregate)) => {
            let at = of_column(value, plan).filter(|at| aggregate.group_expr.len() <= *at);
            at.is_some_and(|at| plan.schema().field(at).is_nullable())
        }
        (Df::Column(_), LogicalPlan::Filter(filter)) => stays_nullable(value, &filter.input),
        (Df::Alias(alias), _) => stays_nullable(&alias.expr, plan),
        (Df::Cast(cast), _) => stays_nullable(&cast.expr, plan),
        (Df::BinaryExpr(binary), _) => stays_nullable(&binary.left, plan) || stays_nullable(&binary.right, plan),
        (Df::ScalarFunction(call), _) => call.args.iter().any(|argument| stays_nullable(argument, plan)),
        // Nothing is known of other values.
        _ => false,
    }
}

/// Returns true if rules can make a constant of a value or a part of it. In a correlated subquery, which becomes an
/// outer join, that would be null where an aggregate over no rows still has a row.
fn is_settled(value: &Df, plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => {
            let behind = of_column(value, plan).and_then(|at| projection.expr.get(at));
            behind.is_none_or(|behind| {
                let columns = behind.column_refs();
                let chooses = |part: &Df| {
                    let Df::Case(case) = part else { return Ok(false) };
                    Ok(case.when_then_expr.iter().any(|(when, _)| when.column_refs().is_empty()))
                };
                let within = |column: &&Column| is_settled(&Df::Column((*column).clone()), &projection.input);
                columns.is_empty() || behind.exists(chooses).unwrap_or(true) || columns.iter().any(within)
            })
        }
        LogicalPlan::Filter(filter) => is_settled(value, &filter.input),
        // Columns of other plans are computed.
        _ => false,
    }
}

/// Returns the position of the plan's column that a value is.
fn of_column(value: &Df, plan: &LogicalPlan) -> Option<usize> {
    let Df::Column(column) = value else { return None };
    plan.schema().maybe_index_of_column(column)
}

/// Rewrites a value of a row to a reference from a subquery.
fn seen_from_within(value: Df, row: &LoweredRow<'_>) -> SqlResult<Df> {
    let outward = |part: Df| {
        let Df::Column(column) = &part else { return Ok(Transformed::no(part)) };
        let place = row.places.iter().flatten().find(|place| place.column == *column);
        let place = place.ok_or_else(|| DataFusionError::Plan(format!("{column} is not of the row")))?;
        Ok(Transformed::yes(place.as_outer()))
    };
    value.transform_down(outward).map(|seen| seen.data).map_err(super::refused)
}

/// Returns the plan without limits of at least `least` rows.
fn unlimited(mut plan: &Plan, least: i64) -> &Plan {
    while let Plan::Limit { input, limit: Some(Expr::Constant(Datum::Int8(limit))), offset: None } = plan
        && least <= *limit
    {
        plan = input;
    }
    plan
}

/// Returns true for a part that is null only where a column is.
fn is_plain(part: &Df) -> bool {
    matches!(part, Df::Column(_) | Df::Literal(..) | Df::Cast(_) | Df::BinaryExpr(_) | Df::Negative(_) | Df::Alias(_))
}

fn part_named(name: &Datum) -> Option<DateField> {
    let Datum::Text(name) = name else { return None };
    match &**name {
        "year" => Some(DateField::Year),
        "month" => Some(DateField::Month),
        "day" => Some(DateField::Day),
        _ => None,
    }
}

/// Connects conditions in their order, as a balanced tree if they are many.
pub(super) fn balanced(mut parts: Vec<Df>, connect: fn(Df, Df) -> Df) -> Option<Df> {
    const FEW: usize = 16;
    while FEW < parts.len() {
        let mut pairs = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(first) = rest.next() {
            pairs.push(match rest.next() {
                Some(second) => connect(first, second),
                None => first,
            });
        }
        parts = pairs;
    }
    parts.into_iter().reduce(connect)
}
