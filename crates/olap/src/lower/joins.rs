//! Join trees.
//!
//! **Invariant:** the condition of an outer join is evaluated at that join, and all others over the joined row above.
//! The inputs keep the order of the tree; DataFusion chooses its own.

use super::guards::plan_can_raise;
use super::{LoweredColumn, LoweredPlan, LoweredRow, Lowering, build};
use crate::functions::can_raise;
use crate::values::Repr;
use datafusion::common::{Column, JoinType, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr as Df, LogicalPlan, LogicalPlanBuilder};
use query::plan::{Expr, InputKind, JoinGroup, JoinInput, JoinTree, TableInfo};
use statement::{SqlError, SqlResult};
use types::Datum;

/// Input, with the conditions on the row that it belongs to.
struct JoinedInput<'p> {
    plan: LogicalPlan,
    conditions: Vec<&'p Expr>,
}

/// Maximum number of sources of a join.
const JOINS_MAX: usize = 200;

impl Lowering<'_> {
    pub(super) fn join_tree(&self, tree: &JoinTree, outer: Option<&LoweredRow<'_>>) -> SqlResult<LoweredPlan> {
        // DataFusion finds unused columns itself.
        let JoinTree { when, group, width, needed: _ } = tree;
        let mut places = vec![None; *width];
        let JoinedInput { plan, conditions } = self.join_group(group, &mut places, outer)?;
        let asked = match when {
            Some(Expr::And(parts)) => &parts[..],
            when => when.as_slice(),
        };
        let mut is_guard = false;
        for condition in asked {
            is_guard |= !matches!(self.known(condition)?, Some(Datum::Bool(true)));
        }
        // They become joins, which may evaluate other parts first.
        let joins = |part: &Expr| part.has_query() && !matches!(part, Expr::Call { .. } | Expr::Scalar(_));
        if is_guard && asked.iter().any(joins) {
            let row = LoweredRow { places: &places, outer };
            for condition in &conditions {
                if can_raise(&self.condition(condition, &row, true)?) {
                    return Err(SqlError::unsupported("EXISTS before a condition that can fail as analytics"));
                }
            }
        }
        if is_guard && plan_can_raise(&plan) {
            return Err(SqlError::unsupported("a condition on sources that can fail as analytics"));
        }
        // Conditions without columns are evaluated before all others.
        let conditions: Vec<&Expr> = when.iter().chain(conditions).collect();
        self.filter(LoweredPlan { plan, places }, &conditions, outer)
    }

    fn join_group<'p>(
        &self,
        group: &'p JoinGroup,
        places: &mut Vec<Option<LoweredColumn>>,
        outer: Option<&LoweredRow<'_>>,
    ) -> SqlResult<JoinedInput<'p>> {
        let JoinGroup { inputs, conditions } = group;
        // DataFusion nests its joins.
        if JOINS_MAX < inputs.len() {
            return Err(SqlError::unsupported("a join of so many sources as analytics"));
        }
        let mut joined: Option<LogicalPlan> = None;
        let mut asked = Vec::new();
        for input in inputs {
            let mut part = self.input(input, places, outer)?;
            joined = Some(match (joined, &input.outer) {
                (None, None) => part.plan,
                (Some(before), None) => build(LogicalPlanBuilder::from(before).cross_join(part.plan))?,
                (before, Some(condition)) => {
                    let before = before.map_or_else(|| build(Ok(LogicalPlanBuilder::empty(true))), Ok)?;
                    part.conditions.extend(&condition.on);
                    let on = self.all(&part.conditions, places, outer)?;
                    part.conditions.clear();
                    build(LogicalPlanBuilder::from(before).join_on(part.plan, JoinType::Left, on))?
                }
            });
            asked.extend(part.conditions);
        }
        asked.extend(conditions);
        let plan = joined.map_or_else(|| build(Ok(LogicalPlanBuilder::empty(true))), Ok)?;
        Ok(JoinedInput { plan, conditions: asked })
    }

    /// Returns the conjunction of a join's conditions. DataFusion does not look for subqueries there.
    fn all(
        &self,
        conditions: &[&Expr],
        places: &[Option<LoweredColumn>],
        outer: Option<&LoweredRow<'_>>,
    ) -> SqlResult<Vec<Df>> {
        if conditions.iter().any(|condition| condition.has_query()) {
            return Err(SqlError::unsupported("a subquery in the condition of an outer join as analytics"));
        }
        let row = LoweredRow { places, outer };
        let parts = conditions.iter().flat_map(|condition| match condition {
            Expr::And(parts) => parts.iter().collect(),
            whole => vec![*whole],
        });
        parts.map(|condition| self.condition(condition, &row, false)).collect()
    }

    fn input<'p>(
        &self,
        input: &'p JoinInput,
        places: &mut Vec<Option<LoweredColumn>>,
        outer: Option<&LoweredRow<'_>>,
    ) -> SqlResult<JoinedInput<'p>> {
        let first = input.first;
        let plan = match &input.kind {
            InputKind::Table(table) => self.table(table, &mut places[first..])?,
            InputKind::Query { plan, is_lateral: false } => {
                let lowered = self.plan(plan, outer)?;
                for (place, own) in places[first..].iter_mut().zip(lowered.places) {
                    *place = own;
                }
                lowered.plan
            }
            InputKind::Group(group) => return self.join_group(group, places, outer),
            InputKind::Full { left, right, on } => {
                let left = self.side(left, places, outer)?;
                let right = self.side(right, places, outer)?;
                let on = self.all(&on.iter().collect::<Vec<_>>(), places, outer)?;
                build(LogicalPlanBuilder::from(left).join_on(right, JoinType::Full, on))?
            }
            InputKind::Query { is_lateral: true, .. } => return Err(SqlError::unsupported("LATERAL as analytics")),
            InputKind::Functions { .. } => return Err(SqlError::unsupported("functions in FROM as analytics")),
        };
        Ok(JoinedInput { plan, conditions: Vec::new() })
    }

    /// Returns one side of a full join.
    fn side(
        &self,
        group: &JoinGroup,
        places: &mut Vec<Option<LoweredColumn>>,
        outer: Option<&LoweredRow<'_>>,
    ) -> SqlResult<LogicalPlan> {
        let JoinedInput { plan, conditions } = self.join_group(group, places, outer)?;
        let lowered = self.filter(LoweredPlan { plan, places: places.clone() }, &conditions, outer)?;
        Ok(lowered.plan)
    }

    /// Returns the rows of a table, whose columns take the first of these places.
    fn table(&self, table: &TableInfo, places: &mut [Option<LoweredColumn>]) -> SqlResult<LogicalPlan> {
        let name = TableReference::bare(self.name("t"));
        let provider = self.tables.provider(&table.table).ok_or_else(crate::values::mismatch)?;
        let plan = build(LogicalPlanBuilder::scan(name.clone(), provider_as_source(provider), None))?;
        let fields = table.table.schema().fields().iter();
        for ((place, column), field) in places.iter_mut().zip(&table.columns).zip(fields) {
            let own = Column::new(Some(name.clone()), field.name());
            *place = Some(LoweredColumn { column: own, repr: Repr::of_column(column.kind)? });
        }
        Ok(plan)
    }
}
