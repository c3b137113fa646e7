//! Sources of rows.

use super::expr::balanced;
use super::{LoweredColumn, LoweredExpr, LoweredPlan, LoweredRow, Lowering, build, refused};
use crate::order::is_repeatable;
use crate::values::{Repr, mismatch};
use datafusion::common::Column;
use datafusion::functions_aggregate::{first_last, min_max};
use datafusion::logical_expr::expr::{AggregateFunction, Sort};
use datafusion::logical_expr::{Expr as Df, LogicalPlan, LogicalPlanBuilder};
use query::plan::{Expr, Plan, SetOperation, SortKey};
use statement::{SqlError, SqlResult};
use types::{Datum, Kind};

impl Lowering<'_> {
    pub(super) fn plan(&self, plan: &Plan, outer: Option<&LoweredRow<'_>>) -> SqlResult<LoweredPlan> {
        let _level = self.level()?;
        self.plans.set(self.plans.get() + 1);
        if super::PLANS_MAX < self.plans.get() {
            return Err(SqlError::unsupported("a query of so many parts as analytics"));
        }
        match plan {
            Plan::Unit => Ok(LoweredPlan { plan: build(Ok(LogicalPlanBuilder::empty(true)))?, places: Vec::new() }),
            Plan::Values(rows) => self.literal_rows(rows, outer),
            Plan::From(tree) => self.join_tree(tree, outer),
            Plan::Filter { input, condition } => {
                let input = self.plan(input, outer)?;
                self.filter(input, &[condition], outer)
            }
            Plan::Project { input, columns } => {
                let input = self.plan(input, outer)?;
                let row = LoweredRow { places: &input.places, outer };
                let values = columns.iter().map(|column| self.stored(column, &row)).collect::<SqlResult<_>>()?;
                self.project(input.plan, values)
            }
            Plan::Aggregate { input, groups, sets, calls } => {
                self.aggregate(input, groups, sets.as_deref(), calls, outer)
            }
            Plan::Sort { input, keys } => self.sort(input, keys, outer),
            Plan::Distinct { input, kinds } => {
                let input = self.plan(input, outer)?;
                self.distinct(input, kinds)
            }
            Plan::Limit { input, limit, offset } => {
                let count = |expr: &Option<Expr>| expr.as_ref().map_or(Ok(None), |expr| self.count(expr));
                let (limit, offset) = (count(limit)?, count(offset)?);
                let LoweredPlan { plan, places } = self.plan(input, outer)?;
                let plan = build(LogicalPlanBuilder::from(plan).limit(offset.unwrap_or(0), limit))?;
                Ok(LoweredPlan { plan, places })
            }
            Plan::Set { operation, all, kinds, left, right } => {
                let sides = [self.plan(left, outer)?, self.plan(right, outer)?];
                self.set(*operation, *all, kinds, sides)
            }
            Plan::Shared { id, plan, .. } => {
                let lowered = self.plan(plan, None)?;
                // Each use computes the rows again.
                if !self.shared.borrow_mut().insert(*id) && !is_repeatable(&lowered.plan).map_err(refused)? {
                    return Err(SqlError::unsupported(
                        "a query of WITH that is used twice and has a LIMIT as analytics",
                    ));
                }
                Ok(lowered)
            }
            // Logical plans have no such node.
            Plan::Joins(_) => Err(mismatch()),
            Plan::Windows { .. } => Err(SqlError::unsupported("window functions as analytics")),
            Plan::Sets { .. } => Err(SqlError::unsupported("functions that return sets as analytics")),
            Plan::DistinctOn { .. } => Err(SqlError::unsupported("DISTINCT ON as analytics")),
            Plan::Ties { .. } => Err(SqlError::unsupported("WITH TIES as analytics")),
            Plan::Lock { .. } => Err(SqlError::unsupported("FOR UPDATE as analytics")),
            Plan::Recursive(_) | Plan::Working(_) => Err(SqlError::unsupported("WITH RECURSIVE as analytics")),
            Plan::Routine(_) => Err(SqlError::unsupported("a stored function as analytics")),
            Plan::System(_) => Err(SqlError::unsupported("the catalog as analytics")),
            Plan::Modified(_) | Plan::Modifying { .. } => Err(SqlError::unsupported("changes as analytics")),
        }
    }

    /// Returns a value in a column's representation.
    pub(super) fn stored(&self, expr: &Expr, row: &LoweredRow<'_>) -> SqlResult<(Df, Repr)> {
        let value = self.settled(self.value(expr, row)?);
        Ok((value.expr, value.repr))
    }

    /// Returns the rows for which all conditions are true.
    pub(super) fn filter(
        &self,
        input: LoweredPlan,
        conditions: &[&Expr],
        outer: Option<&LoweredRow<'_>>,
    ) -> SqlResult<LoweredPlan> {
        let LoweredPlan { mut plan, places } = input;
        let row = LoweredRow { places: &places, outer };
        let all = conditions.iter().map(|condition| self.condition(condition, &row, true));
        if let Some(condition) = balanced(all.collect::<SqlResult<_>>()?, Df::and) {
            plan = build(LogicalPlanBuilder::from(plan).filter(condition))?;
        }
        Ok(LoweredPlan { plan, places })
    }

    fn literal_rows(&self, rows: &[Vec<Expr>], outer: Option<&LoweredRow<'_>>) -> SqlResult<LoweredPlan> {
        let row = LoweredRow { places: &[], outer };
        let width = rows.first().map_or(0, Vec::len);
        if rows.iter().flatten().any(Expr::has_query) {
            return Err(SqlError::unsupported("a subquery in VALUES as analytics"));
        }
        if width == 0 {
            return Err(SqlError::unsupported("rows without columns as analytics"));
        }
        let values = rows.iter().map(|values| values.iter().map(|value| self.value(value, &row)).collect());
        let values = values.collect::<SqlResult<Vec<Vec<LoweredExpr>>>>()?;
        let reprs = (0..width).map(|at| self.unified(values.iter().map(|row| &row[at])));
        let reprs = reprs.collect::<SqlResult<Vec<_>>>()?;
        let fitted = values.into_iter().map(|row| {
            row.into_iter().zip(&reprs).map(|(value, repr)| self.fitted(value, *repr)).collect::<SqlResult<Vec<_>>>()
        });
        let plan = build(LogicalPlanBuilder::values(fitted.collect::<SqlResult<_>>()?))?;
        let columns = plan.schema().columns().into_iter().map(Df::Column).zip(reprs).collect();
        self.project(plan, columns)
    }

    fn sort(&self, input: &Plan, keys: &[SortKey], outer: Option<&LoweredRow<'_>>) -> SqlResult<LoweredPlan> {
        let LoweredPlan { plan, places } = self.plan(input, outer)?;
        let row = LoweredRow { places: &places, outer };
        let keys = keys.iter().map(|SortKey { value, kind, descending, nulls_first }| {
            let value = self.value(value, &row)?;
            Ok(Sort::new(self.comparable(value, *kind)?, !descending, *nulls_first))
        });
        let plan = build(LogicalPlanBuilder::from(plan).sort(keys.collect::<SqlResult<Vec<_>>>()?))?;
        Ok(LoweredPlan { plan, places })
    }

    /// Returns the count of `LIMIT` or `OFFSET`, which must be constant; `None` for null.
    fn count(&self, expr: &Expr) -> SqlResult<Option<usize>> {
        let value = self.value(expr, &LoweredRow { places: &[], outer: None })?;
        match value.constant {
            Some(Datum::Null) => Ok(None),
            Some(Datum::Int8(count)) if 0 <= count => Ok(usize::try_from(count).ok()),
            _ => Err(SqlError::unsupported("this LIMIT as analytics")),
        }
    }

    /// Returns each row once, distinct by its first columns.
    fn distinct(&self, input: LoweredPlan, kinds: &[Kind]) -> SqlResult<LoweredPlan> {
        let mut groups = Vec::new();
        let mut rest = Vec::new();
        // Places of the row's values above the grouping.
        let mut places = Vec::new();
        for (at, place) in input.places.iter().enumerate() {
            let Some(place) = place else {
                places.push(None);
                continue;
            };
            let name = self.name("c");
            let value = LoweredExpr::of(place.value(), place.repr);
            match kinds.get(at) {
                Some(kind) => self.group(value, *kind, &name, &mut groups, &mut rest)?,
                None => rest.push(self.any_of(value).alias(&name)),
            }
            places.push(Some(LoweredColumn { column: Column::new_unqualified(name), repr: place.repr }));
        }
        let plan = build(LogicalPlanBuilder::from(input.plan).aggregate(groups, rest))?;
        Ok(LoweredPlan { plan, places })
    }

    fn set(
        &self,
        operation: SetOperation,
        all: bool,
        kinds: &[Kind],
        sides: [LoweredPlan; 2],
    ) -> SqlResult<LoweredPlan> {
        let [left, right] = sides;
        let reprs = (0..kinds.len()).map(|at| {
            let values =
                [&left, &right].map(|side| side.place(at).map(|place| LoweredExpr::of(place.value(), place.repr)));
            let [left, right] = values;
            self.unified([&left?, &right?].into_iter())
        });
        let reprs = reprs.collect::<SqlResult<Vec<Repr>>>()?;
        let fit = |side: LoweredPlan| {
            let values = reprs.iter().enumerate().map(|(at, repr)| {
                let place = side.place(at)?;
                Ok((self.fitted(LoweredExpr::of(place.value(), place.repr), *repr)?, *repr))
            });
            let values = values.collect::<SqlResult<Vec<_>>>()?;
            self.project(side.plan, values)
        };
        let (left, right) = (fit(left)?, fit(right)?);
        if operation == SetOperation::Union {
            let plan = build(LogicalPlanBuilder::from(left.plan).union(right.plan))?;
            let union = self.renamed(plan, &reprs)?;
            return if all { Ok(union) } else { self.distinct(union, kinds) };
        }
        // DataFusion makes joins of these two. They compare representations, and equal values of these types may have
        // different ones; and they do not count duplicates, as ALL would have to.
        let is_plain = |repr: &Repr| !matches!(repr, Repr::Keyed(_) | Repr::Float4 | Repr::Float8);
        if all || !reprs.iter().all(is_plain) || kinds.contains(&Kind::Bpchar) {
            return Err(SqlError::unsupported("this set operation as analytics"));
        }
        let plan = match operation {
            SetOperation::Except => LogicalPlanBuilder::except(left.plan, right.plan, false),
            SetOperation::Intersect => LogicalPlanBuilder::intersect(left.plan, right.plan, false),
            SetOperation::Union => return Err(mismatch()),
        };
        self.renamed(plan.map_err(refused)?, &reprs)
    }

    /// Returns the plan's columns under unique names.
    pub(super) fn renamed(&self, plan: LogicalPlan, reprs: &[Repr]) -> SqlResult<LoweredPlan> {
        let columns = plan.schema().columns().into_iter().map(Df::Column).zip(reprs.iter().copied()).collect();
        self.project(plan, columns)
    }

    /// Adds a grouping key under this name. Where equal values may look different (blanks, digits of a numeric, the
    /// sign of zero), the group also keeps one of its values.
    pub(super) fn group(
        &self,
        value: LoweredExpr,
        kind: Kind,
        name: &str,
        keys: &mut Vec<Df>,
        found: &mut Vec<Df>,
    ) -> SqlResult<()> {
        let key = self.comparable(value.clone(), kind)?;
        let is_lost = statement::plants::is_planted("char_padding_lost") && value.repr == Repr::Blanks;
        if key == value.expr || value.repr == Repr::Null || is_lost {
            keys.push(key.alias(name));
        } else {
            keys.push(key.alias(self.name("k")));
            found.push(self.any_of(value).alias(name));
        }
        Ok(())
    }

    /// Returns one value of a group in which all are equal.
    fn any_of(&self, value: LoweredExpr) -> Df {
        let function = match value.repr {
            // `min` over numbers would not return NaN.
            Repr::Float4 | Repr::Float8 => first_last::first_value_udaf(),
            Repr::Null
            | Repr::Bool
            | Repr::Int2
            | Repr::Int4
            | Repr::Int8
            | Repr::Oid
            | Repr::Time
            | Repr::Decimal { .. }
            | Repr::Text
            | Repr::Blanks
            | Repr::Padded(_)
            | Repr::Bytes
            | Repr::Uuid
            | Repr::Date
            | Repr::Timestamp
            | Repr::Keyed(_) => min_max::min_udaf(),
        };
        Df::AggregateFunction(AggregateFunction::new_udf(function, vec![value.expr], false, None, Vec::new(), None))
    }
}
