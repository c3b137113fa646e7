//! Grouping.

use super::{LoweredColumn, LoweredExpr, LoweredPlan, LoweredRow, Lowering, build, refused};
use crate::functions::can_raise;
use crate::functions::kept::{AggregateOrder, KeptAggregate};
use crate::functions::sums::{Sum, SumRepr};
use crate::order::is_repeatable;
use crate::values::{DIGITS_MAX, Repr, mismatch};
use datafusion::common::Column;
use datafusion::functions_aggregate::{count, min_max};
use datafusion::logical_expr::expr::{AggregateFunction, Case};
use datafusion::logical_expr::{AggregateUDF, Expr as Df, LogicalPlanBuilder, cast, lit};
use query::plan::{AggregateCall, Expr, Plan};
use statement::{SqlError, SqlResult};
use std::sync::Arc;
use types::Kind;

impl Lowering<'_> {
    pub(super) fn aggregate(
        &self,
        input: &Plan,
        groups: &[(Expr, Kind)],
        sets: Option<&[Vec<usize>]>,
        calls: &[AggregateCall],
        outer: Option<&LoweredRow<'_>>,
    ) -> SqlResult<LoweredPlan> {
        let Some(sets) = sets else {
            let all: Vec<usize> = (0..groups.len()).collect();
            return self.grouped(self.plan(input, outer)?, groups, &all, calls, outer);
        };
        // The union of all sets: columns that a set leaves out are null, and the number of the set comes last.
        let mut union: Option<(LoweredPlan, Vec<Repr>)> = None;
        let mut all = Vec::new();
        for (number, set) in sets.iter().enumerate() {
            let input = self.plan(input, outer)?;
            // Each set computes the input rows again.
            if number == 0 && 1 < sets.len() && !is_repeatable(&input.plan).map_err(refused)? {
                return Err(SqlError::unsupported("grouping sets over a LIMIT as analytics"));
            }
            all.push((number, self.grouped(input, groups, set, calls, outer)?));
        }
        let width = groups.len() + calls.len();
        let reprs = (0..width).map(|at| {
            let values = all.iter().filter_map(|(_, one)| one.places.get(at)?.as_ref());
            let values: Vec<LoweredExpr> = values.map(|place| LoweredExpr::of(place.value(), place.repr)).collect();
            self.unified(values.iter())
        });
        let mut reprs = reprs.collect::<SqlResult<Vec<Repr>>>()?;
        for (number, one) in all {
            let mut values = Vec::with_capacity(width + 1);
            for (at, repr) in reprs.iter().take(width).enumerate() {
                let value = match one.places.get(at).and_then(Option::as_ref) {
                    Some(place) => LoweredExpr::of(place.value(), place.repr),
                    None => LoweredExpr::of(lit(datafusion::common::ScalarValue::Null), Repr::Null),
                };
                values.push((self.fitted(value, *repr)?, *repr));
            }
            values.push((lit(number as i32), Repr::Int4));
            let next = self.project(one.plan, values)?;
            union = Some(match union {
                None => {
                    reprs.push(Repr::Int4);
                    (next, reprs.clone())
                }
                Some((before, reprs)) => {
                    let plan = build(LogicalPlanBuilder::from(before.plan).union(next.plan))?;
                    (self.renamed(plan, &reprs)?, reprs)
                }
            });
        }
        union.map(|(lowered, _)| lowered).ok_or_else(mismatch)
    }

    /// Groups by some of the values.
    fn grouped(
        &self,
        input: LoweredPlan,
        groups: &[(Expr, Kind)],
        set: &[usize],
        calls: &[AggregateCall],
        outer: Option<&LoweredRow<'_>>,
    ) -> SqlResult<LoweredPlan> {
        let row = LoweredRow { places: &input.places, outer };
        let mut keys = Vec::new();
        let mut found = Vec::new();
        let mut places = vec![None; groups.len()];
        for at in set {
            let (group, kind) = groups.get(*at).ok_or_else(mismatch)?;
            let value = self.settled(self.value(group, &row)?);
            let name = self.name("c");
            let repr = value.repr;
            self.group(value, *kind, &name, &mut keys, &mut found)?;
            places[*at] = Some(LoweredColumn { column: Column::new_unqualified(name), repr });
        }
        for call in calls {
            let (aggregate, repr) = self.aggregate_call(call, &row)?;
            let name = self.name("a");
            found.push(aggregate.alias(&name));
            places.push(Some(LoweredColumn { column: Column::new_unqualified(name), repr }));
        }
        if keys.is_empty() && found.is_empty() {
            // Without groups there is always one row.
            found.push(self.function(count::count_udaf(), vec![lit(1_i64)], false, None).alias(self.name("a")));
        }
        let plan = build(LogicalPlanBuilder::from(input.plan).aggregate(keys, found))?;
        Ok(LoweredPlan { plan, places })
    }

    fn function(&self, function: Arc<AggregateUDF>, arguments: Vec<Df>, is_distinct: bool, filter: Option<Df>) -> Df {
        // DataFusion evaluates arguments before the filter.
        let guarded = |argument: Df| match &filter {
            Some(filter) if can_raise(&argument) => {
                let whens = vec![(Box::new(filter.clone()), Box::new(argument))];
                Df::Case(Case::new(None, whens, None))
            }
            _ => argument,
        };
        let arguments = arguments.into_iter().map(guarded).collect();
        let filter = filter.map(Box::new);
        Df::AggregateFunction(AggregateFunction::new_udf(function, arguments, is_distinct, filter, Vec::new(), None))
    }

    fn aggregate_call(&self, call: &AggregateCall, row: &LoweredRow<'_>) -> SqlResult<(Df, Repr)> {
        let AggregateCall { aggregate, arguments, argument_kinds, is_distinct, order, orders_arguments, filter } = call;
        let filter = filter.as_ref().map(|filter| self.condition(filter, row, false)).transpose()?;
        let mut values = arguments.iter().map(|argument| self.value(argument, row)).collect::<SqlResult<Vec<_>>>()?;
        let kind = argument_kinds.first().copied().unwrap_or(Kind::Void);
        match (aggregate.name, &values[..]) {
            ("count", []) => {
                return Ok((self.function(count::count_udaf(), vec![lit(1_i64)], false, filter), Repr::Int8));
            }
            ("count", [value]) if value.repr != Repr::Null => {
                let argument = if *is_distinct { self.comparable(value.clone(), kind)? } else { value.expr.clone() };
                return Ok((self.function(count::count_udaf(), vec![argument], *is_distinct, filter), Repr::Int8));
            }
            ("sum" | "avg", [value]) if !is_distinct => {
                if let Some((sum, arguments)) = self.sum(aggregate.name == "avg", aggregate.arguments, value)? {
                    return Ok((self.function(Arc::new(sum.function()), arguments, false, filter), sum.result));
                }
            }
            ("min" | "max", [value]) if is_ordered(value, kind) => {
                let function = if aggregate.name == "min" { min_max::min_udaf() } else { min_max::max_udaf() };
                return Ok((self.function(function, vec![value.expr.clone()], false, filter), value.repr));
            }
            _ => {}
        }
        // Their results depend on the order.
        if matches!(
            aggregate.name.split('\0').next(),
            Some("string_agg" | "array_agg" | "json_agg" | "json_object_agg")
        ) && order.is_empty()
        {
            return Err(SqlError::unsupported(format_args!("{} without an order as analytics", aggregate.name)));
        }
        if *is_distinct && !order.is_empty() {
            return Err(SqlError::unsupported("DISTINCT with an order as analytics"));
        }
        let mut kinds = argument_kinds.clone();
        let mut keys = Vec::with_capacity(order.len());
        for key in order {
            let argument = match key.value {
                Expr::Column(at) if *orders_arguments => values.get(at).cloned(),
                _ => None,
            };
            values.push(match argument {
                Some(argument) => argument,
                None => self.value(&key.value, row)?,
            });
            kinds.push(key.kind);
            keys.push(AggregateOrder { kind: key.kind, descending: key.descending, nulls_first: key.nulls_first });
        }
        let values: Vec<LoweredExpr> = values.into_iter().map(|value| self.settled(value)).collect();
        let result = match aggregate.name {
            "min" | "max" => self.unified(values.iter().take(1))?,
            _ => Repr::of_kind(aggregate.result)?,
        };
        let result = if result == Repr::Null { Repr::of_kind(aggregate.result)? } else { result };
        let reprs = values.iter().map(|value| value.repr).collect();
        let exprs = values.into_iter().map(|value| value.expr).collect();
        let call = KeptAggregate { aggregate, reprs, kinds, order: keys, is_distinct: *is_distinct, result };
        Ok((self.function(Arc::new(call.function()), exprs, false, filter), result))
    }

    /// Returns a sum or average on arrays, with its arguments.
    fn sum(&self, average: bool, declared: &[Kind], value: &LoweredExpr) -> SqlResult<Option<(Sum, Vec<Df>)>> {
        let keyed = Repr::Keyed(Kind::Numeric);
        let wide = |scale: u8| Repr::Decimal { precision: DIGITS_MAX, scale };
        let (of, result) = match (value.repr, declared) {
            (Repr::Int2 | Repr::Int4, _) => (SumRepr::Integers, if average { keyed } else { Repr::Int8 }),
            (Repr::Int8, [Kind::Int8]) => (SumRepr::Integers, if average { keyed } else { wide(0) }),
            (Repr::Decimal { scale, .. }, [Kind::Numeric]) => match &value.scale {
                Some(_) => (SumRepr::Mixed(scale), keyed),
                None => (SumRepr::Decimals(scale), if average { keyed } else { wide(scale) }),
            },
            (Repr::Float8, [Kind::Float8]) => (SumRepr::Floats, Repr::Float8),
            _ => return Ok(None),
        };
        let argument = match value.repr {
            Repr::Int2 | Repr::Int4 => cast(value.expr.clone(), Repr::Int8.data_type()),
            _ => value.expr.clone(),
        };
        let arguments = [Some(argument), value.scale.as_ref().map(|scale| (**scale).clone())];
        Ok(Some((Sum { of, average, result }, arguments.into_iter().flatten().collect())))
    }
}

/// Returns true if the order of the array's values is that of the SQL values.
fn is_ordered(value: &LoweredExpr, kind: Kind) -> bool {
    let is_plain = matches!(
        value.repr,
        Repr::Int2
            | Repr::Int4
            | Repr::Int8
            | Repr::Oid
            | Repr::Time
            | Repr::Decimal { .. }
            | Repr::Text
            | Repr::Padded(_)
            | Repr::Date
            | Repr::Timestamp
    );
    is_plain && value.scale.is_none() && (kind != Kind::Bpchar || matches!(value.repr, Repr::Padded(_)))
}
