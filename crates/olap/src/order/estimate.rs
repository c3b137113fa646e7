//! Estimates of the rows of a plan and the distinct values of a column, from samples that are taken when the run is
//! planned.
//!
//! **Invariant:** an estimate may be wrong, but is never an error: it decides how fast a plan is, not its meaning.

use super::reduce::inside_alias;
use crate::scan::EngineTable;
use arrow_array::cast::AsArray;
use datafusion::common::{Column, DFSchema, JoinType, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Aggregate, Expr, FetchType, Join, LogicalPlan, Operator, TableScan};
use datafusion::physical_expr::create_physical_expr;
use engine::{Sample, Snapshot, Table};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Row IDs in a sample: among 512, a condition that one row in a hundred satisfies is found with 99 % probability.
const SAMPLE_IDS: u64 = 512;

/// Selectivities of conditions that cannot be sampled.
const EQUAL_SHARE: f64 = 0.1;
const OTHER_SHARE: f64 = 0.3;

/// Estimator of rows and distinct values.
pub(super) struct Estimator {
    snapshot: Arc<Snapshot>,
    /// Samples by table and columns, as the same ones are needed again and again.
    samples: RefCell<HashMap<(u32, Vec<usize>), Sample>>,
}

/// Set of columns in which no two rows have the same values.
pub(super) struct UniqueKey {
    pub columns: Vec<Column>,
    /// Number of distinct values without conditions.
    pub values: f64,
}

impl Estimator {
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Estimator {
        Estimator { snapshot, samples: RefCell::default() }
    }

    /// Returns the estimated rows of a plan, at least 1.
    pub(super) fn rows(&self, plan: &LogicalPlan) -> f64 {
        let rows = match plan {
            LogicalPlan::TableScan(scan) => table_of(scan).map_or(1_000.0, |table| self.table_rows(&table)),
            LogicalPlan::Filter(filter) => {
                return (self.rows(&filter.input) * self.share(&filter.predicate, &filter.input)).max(1.0);
            }
            LogicalPlan::Limit(limit) => {
                let rows = self.rows(&limit.input);
                match limit.get_fetch_type() {
                    Ok(FetchType::Literal(Some(most))) => rows.min(most as f64),
                    _ => rows,
                }
            }
            LogicalPlan::Aggregate(aggregate) => self.groups(aggregate),
            LogicalPlan::Join(join) => self.joined(join),
            LogicalPlan::Union(union) => union.inputs.iter().map(|input| self.rows(input)).sum(),
            LogicalPlan::Values(values) => values.values.len() as f64,
            other => other.inputs().into_iter().map(|input| self.rows(input)).fold(1.0, f64::max),
        };
        rows.max(1.0)
    }

    fn groups(&self, aggregate: &Aggregate) -> f64 {
        let rows = self.rows(&aggregate.input);
        let groups: f64 = aggregate.group_expr.iter().map(|key| self.values(&aggregate.input, key)).product();
        rows.min(groups)
    }

    /// Returns the estimated rows of a join that is not reordered here.
    fn joined(&self, join: &Join) -> f64 {
        let (left, right) = (self.rows(&join.left), self.rows(&join.right));
        let values = |(one, two): &(Expr, Expr)| self.values(&join.left, one).max(self.values(&join.right, two));
        let inner = left * right / join.on.iter().map(values).fold(1.0, f64::max);
        let matched = |of: &LogicalPlan, by: &LogicalPlan, by_rows: f64, is_left: bool| {
            let keys = join.on.iter().map(|(left, right)| if is_left { (left, right) } else { (right, left) });
            let share = |(value, wanted)| self.matched_share(self.values(of, value), by, by_rows, wanted);
            keys.map(share).fold(1.0, f64::min)
        };
        match join.join_type {
            JoinType::Inner => inner,
            JoinType::Left => inner.max(left),
            JoinType::Right => inner.max(right),
            JoinType::Full => inner.max(left + right),
            JoinType::LeftSemi => left * matched(&join.left, &join.right, right, true),
            JoinType::RightSemi => right * matched(&join.right, &join.left, left, false),
            JoinType::LeftAnti | JoinType::LeftMark => left,
            JoinType::RightAnti | JoinType::RightMark => right,
        }
    }

    /// Returns the share of `of` distinct values that also occur in a plan of so many rows: as many as the plan has
    /// distinct values.
    pub(super) fn matched_share(&self, of: f64, by: &LogicalPlan, by_rows: f64, wanted: &Expr) -> f64 {
        (self.values(by, wanted).min(by_rows) / of.max(1.0)).min(1.0)
    }

    fn table_rows(&self, table: &Arc<Table>) -> f64 {
        self.sample(table, &[]).rows_of_all()
    }

    fn sample(&self, table: &Arc<Table>, columns: &[usize]) -> Sample {
        let take = || self.snapshot.scan(table, columns, SAMPLE_IDS as usize).sample(SAMPLE_IDS);
        let mut samples = self.samples.borrow_mut();
        samples.entry((table.number(), columns.to_vec())).or_insert_with(take).clone()
    }

    /// Returns the selectivity of a condition on the rows of `input`.
    pub(super) fn share(&self, condition: &Expr, input: &LogicalPlan) -> f64 {
        if let LogicalPlan::TableScan(scan) = input
            && let Some(table) = table_of(scan)
            && let Some(share) = self.sampled_share(condition, scan, &table)
        {
            return share;
        }
        let each = split_conjunction(condition).into_iter().map(|condition| match condition {
            Expr::BinaryExpr(binary) if binary.op == Operator::Eq => EQUAL_SHARE,
            _ => OTHER_SHARE,
        });
        each.product()
    }

    fn sampled_share(&self, condition: &Expr, scan: &TableScan, table: &Arc<Table>) -> Option<f64> {
        let names = condition.column_refs().into_iter().map(|column| table.column(&column.name));
        let mut columns = names.collect::<Option<Vec<usize>>>()?;
        columns.sort_unstable();
        columns.dedup();
        let Sample { rows, .. } = self.sample(table, &columns);
        let count = rows.num_rows();
        if count == 0 {
            return Some(1.0);
        }
        let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &rows.schema()).ok()?;
        let (properties, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
        let test = create_physical_expr(condition, &schema, &properties, &context).ok()?;
        let held = test.evaluate(&rows).ok()?.into_array(count).ok()?;
        let held = held.as_boolean_opt()?;
        let hits = held.iter().filter(|held| *held == Some(true)).count();
        Some((hits as f64).max(0.5) / count as f64)
    }

    /// Returns the estimated number of distinct values, conditions not counted.
    pub(super) fn values(&self, plan: &LogicalPlan, value: &Expr) -> f64 {
        match value {
            Expr::Alias(alias) => self.values(plan, &alias.expr),
            Expr::Cast(cast) => self.values(plan, &cast.expr),
            Expr::Literal(..) => 1.0,
            Expr::Column(column) => match origin(plan, column) {
                Some((table, at)) => self.column_values(&table, at),
                None => self.rows(plan),
            },
            other => {
                let of = other.column_refs().into_iter().map(|column| self.values(plan, &Expr::Column(column.clone())));
                of.product::<f64>().sqrt()
            }
        }
    }

    /// Returns the distinct values of a column by the guaranteed error estimator: a value that the sample has once
    /// stands for others of its kind (Charikar et al., PODS 2000).
    fn column_values(&self, table: &Arc<Table>, column: usize) -> f64 {
        let all = self.table_rows(table);
        if table.indexes().iter().any(|index| index.unique && index.columns == [column]) {
            return all;
        }
        let Sample { rows, .. } = self.sample(table, &[column]);
        let count = rows.num_rows();
        let mut seen: HashMap<ScalarValue, usize> = HashMap::with_capacity(count);
        for at in 0..count {
            if let Ok(value) = ScalarValue::try_from_array(rows.column(0), at) {
                *seen.entry(value).or_default() += 1;
            }
        }
        let once = seen.values().filter(|count| **count == 1).count() as f64;
        let scale = (all / (count as f64).max(1.0)).max(1.0).sqrt();
        (scale * once + (seen.len() as f64 - once)).clamp(1.0, all.max(1.0))
    }

    /// Returns the sets of columns in which no two rows of a plan are equal.
    pub(super) fn keys(&self, plan: &LogicalPlan) -> Vec<UniqueKey> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let Some(table) = table_of(scan) else { return Vec::new() };
                let values = self.table_rows(&table);
                let unique = table.indexes().iter().filter(|index| index.unique);
                let columns = |columns: &[usize]| {
                    let name = |at: &usize| table.schema().field(*at).name().clone();
                    columns.iter().map(|at| Column::new(Some(scan.table_name.clone()), name(at))).collect()
                };
                unique.map(|index| UniqueKey { columns: columns(&index.columns), values }).collect()
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let outside = |column: &Column| {
                    let at = alias.input.schema().maybe_index_of_column(column)?;
                    Some(Column::from(alias.schema.qualified_field(at)))
                };
                renamed(self.keys(&alias.input), outside)
            }
            LogicalPlan::Filter(filter) => self.keys(&filter.input),
            LogicalPlan::Sort(sort) => self.keys(&sort.input),
            LogicalPlan::Projection(projection) => {
                let outside = |column: &Column| {
                    let at =
                        projection.expr.iter().position(|expr| unaliased(expr) == &Expr::Column(column.clone()))?;
                    Some(Column::from(projection.schema.qualified_field(at)))
                };
                renamed(self.keys(&projection.input), outside)
            }
            LogicalPlan::Aggregate(aggregate) if !aggregate.group_expr.is_empty() => {
                let columns =
                    (0..aggregate.group_expr.len()).map(|at| Column::from(aggregate.schema.qualified_field(at)));
                vec![UniqueKey { columns: columns.collect(), values: self.groups(aggregate) }]
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the keys whose columns all have a name outside, by those names.
fn renamed(keys: Vec<UniqueKey>, outside: impl Fn(&Column) -> Option<Column>) -> Vec<UniqueKey> {
    let key = |UniqueKey { columns, values }: UniqueKey| {
        let columns = columns.iter().map(&outside).collect::<Option<_>>()?;
        Some(UniqueKey { columns, values })
    };
    keys.into_iter().filter_map(key).collect()
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// Returns the engine's table of a scan.
fn table_of(scan: &TableScan) -> Option<Arc<Table>> {
    let provider = source_as_provider(&scan.source).ok()?;
    Some(Arc::clone(provider.downcast_ref::<EngineTable>()?.table()))
}

/// Returns the table's column that a plan's column stands for, if its values are unchanged.
fn origin(plan: &LogicalPlan, column: &Column) -> Option<(Arc<Table>, usize)> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let table = table_of(scan)?;
            let at = table.column(&column.name)?;
            scan.projected_schema.has_column(column).then_some((table, at))
        }
        LogicalPlan::Projection(projection) => {
            let at = projection.schema.maybe_index_of_column(column)?;
            let Expr::Column(inside) = unaliased(&projection.expr[at]) else { return None };
            origin(&projection.input, inside)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let at = aggregate.schema.maybe_index_of_column(column)?;
            let Expr::Column(inside) = unaliased(aggregate.group_expr.get(at)?) else { return None };
            origin(&aggregate.input, inside)
        }
        LogicalPlan::SubqueryAlias(alias) => origin(&alias.input, &inside_alias(alias, column)?),
        LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_) | LogicalPlan::Join(_) => {
            let input = plan.inputs().into_iter().find(|input| input.schema().has_column(column))?;
            origin(input, column)
        }
        _ => None,
    }
}
