//! `FROM`.
//!
//! **Invariant:** what the row path asks while it goes through the steps is asked here of the joined row: the condition of an
//! outer join at the join, all else above. So sources may stand in the order in which the statement names them, from
//! which DataFusion makes its own.

use super::guards::plan_can_raise;
use super::{Lowered, Lowering, Place, Row, build};
use crate::functions::can_raise;
use crate::values::Repr;
use datafusion::common::{Column, JoinType, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr as Df, LogicalPlan, LogicalPlanBuilder};
use query::plan::{self, Expr, Full, Joins, Side, Source, Step, TableInfo};
use statement::{SqlError, SqlResult};
use std::ops::Range;
use types::Datum;

/// Whether all that a condition looks at is there, or at these own places.
fn is_placed(condition: &Expr, places: &[Option<Place>], own: Range<usize>) -> bool {
    let mut all = true;
    // Looking changes nothing, and never fails.
    let _ = plan::rewrite(&mut condition.clone(), 0, &mut |part, depth| {
        let at = match part {
            Expr::Column(at) if depth == 0 => Some(*at),
            Expr::Outer { level, column } if *level == depth && 0 < depth => Some(*column),
            _ => None,
        };
        all &= at.is_none_or(|at| own.contains(&at) || places.get(at).is_some_and(Option::is_some));
        Ok(false)
    });
    all
}

/// What makes a match; of a group, what has been moved into it too.
fn of_match(step: &Step) -> Vec<&Expr> {
    let mut all: Vec<&Expr> = step.on.iter().chain(step.kept.iter().flat_map(|kept| &kept.condition)).collect();
    if let Source::Group(steps) = &step.source {
        all.extend(steps.iter().flat_map(|step| of_match(step).into_iter().chain(&step.filter)));
    }
    all
}

/// A source, and the conditions that are asked of the row it is in.
struct Part<'p> {
    plan: LogicalPlan,
    conditions: Vec<&'p Expr>,
}

/// Greatest number of sources of a join.
const JOINS_MAX: usize = 200;

impl Lowering<'_> {
    pub(super) fn joins(&self, joins: &Joins, outer: Option<&Row<'_>>) -> SqlResult<Lowered> {
        let Joins { when, steps, width } = joins;
        let mut places = vec![None; *width];
        let Part { plan, conditions } = self.steps(steps, &mut places, outer)?;
        let asked = match when {
            Some(Expr::And(parts)) => &parts[..],
            when => when.as_slice(),
        };
        let mut is_guard = false;
        for condition in asked {
            is_guard |= !matches!(self.known(condition)?, Some(Datum::Bool(true)));
        }
        // They become joins, which evaluate what they like before.
        let joins = |part: &Expr| part.has_query() && !matches!(part, Expr::Call { .. } | Expr::Scalar(_));
        if is_guard && asked.iter().any(joins) {
            let row = Row { places: &places, outer };
            for condition in &conditions {
                if can_raise(&self.condition(condition, &row, true)?) {
                    return Err(SqlError::unsupported("EXISTS before a condition that can fail as analytics"));
                }
            }
        }
        if is_guard && plan_can_raise(&plan) {
            return Err(SqlError::unsupported("a condition on sources that can fail as analytics"));
        }
        // What looks at no row is asked before all that looks at one.
        let conditions: Vec<&Expr> = when.iter().chain(conditions).collect();
        self.filter(Lowered { plan, places }, &conditions, outer)
    }

    fn steps<'p>(
        &self,
        steps: &'p [Step],
        places: &mut Vec<Option<Place>>,
        outer: Option<&Row<'_>>,
    ) -> SqlResult<Part<'p>> {
        // DataFusion's joins stand one inside the other.
        if JOINS_MAX < steps.len() {
            return Err(SqlError::unsupported("a join of so many sources as analytics"));
        }
        let mut left: Vec<&Step> = steps.iter().collect();
        left.sort_by_key(|step| step.first);
        let mut joined: Option<LogicalPlan> = None;
        let mut conditions = Vec::new();
        while !left.is_empty() {
            // The null side of a right join is named before what it is joined to.
            let is_ready = |step: &&Step| {
                let own = step.first..step.first + step.width;
                !step.is_outer || of_match(step).into_iter().all(|on| is_placed(on, places, own.clone()))
            };
            let step = left.remove(left.iter().position(is_ready).unwrap_or(0));
            let Step { source, is_outer, on, filter, first, width: _, kept } = step;
            let mut part = self.source(source, *first, places, outer)?;
            part.conditions.extend(on);
            part.conditions.extend(kept.iter().flat_map(|kept| &kept.condition));
            joined = Some(match joined {
                None if !is_outer => part.plan,
                None => {
                    let unit = build(Ok(LogicalPlanBuilder::empty(true)))?;
                    let on = self.all(&part.conditions, places, outer)?;
                    part.conditions.clear();
                    build(LogicalPlanBuilder::from(unit).join_on(part.plan, JoinType::Left, on))?
                }
                Some(before) if *is_outer => {
                    let on = self.all(&part.conditions, places, outer)?;
                    part.conditions.clear();
                    build(LogicalPlanBuilder::from(before).join_on(part.plan, JoinType::Left, on))?
                }
                Some(before) => build(LogicalPlanBuilder::from(before).cross_join(part.plan))?,
            });
            conditions.extend(part.conditions);
            conditions.extend(filter);
        }
        let plan = joined.map_or_else(|| build(Ok(LogicalPlanBuilder::empty(true))), Ok)?;
        Ok(Part { plan, conditions })
    }

    /// Conditions of a join. One that has a query in it is not looked for there by DataFusion.
    fn all(&self, conditions: &[&Expr], places: &[Option<Place>], outer: Option<&Row<'_>>) -> SqlResult<Vec<Df>> {
        if conditions.iter().any(|condition| condition.has_query()) {
            return Err(SqlError::unsupported("a subquery in the condition of an outer join as analytics"));
        }
        let row = Row { places, outer };
        let parts = conditions.iter().flat_map(|condition| match condition {
            Expr::And(parts) => parts.iter().collect(),
            whole => vec![*whole],
        });
        parts.map(|condition| self.condition(condition, &row, false)).collect()
    }

    fn source<'p>(
        &self,
        source: &'p Source,
        first: usize,
        places: &mut Vec<Option<Place>>,
        outer: Option<&Row<'_>>,
    ) -> SqlResult<Part<'p>> {
        match source {
            Source::Table { table, access: _, columns: _ } => {
                let plan = self.table(table, &mut places[first..])?;
                Ok(Part { plan, conditions: Vec::new() })
            }
            Source::Query { plan, is_lateral: false } => {
                let lowered = self.plan(plan, outer)?;
                for (place, own) in places[first..].iter_mut().zip(lowered.places) {
                    *place = own;
                }
                Ok(Part { plan: lowered.plan, conditions: Vec::new() })
            }
            Source::Group(steps) => self.steps(steps, places, outer),
            Source::Full(full) => {
                let Full { left, right, on, keys: _ } = &**full;
                let left = self.side(left, places, outer)?;
                let right = self.side(right, places, outer)?;
                let on: Vec<&Expr> = on.iter().collect();
                let on = self.all(&on, places, outer)?;
                let plan = build(LogicalPlanBuilder::from(left).join_on(right, JoinType::Full, on))?;
                Ok(Part { plan, conditions: Vec::new() })
            }
            Source::Query { is_lateral: true, .. } => Err(SqlError::unsupported("LATERAL as analytics")),
            Source::Functions { .. } => Err(SqlError::unsupported("functions in FROM as analytics")),
        }
    }

    fn side(&self, side: &Side, places: &mut Vec<Option<Place>>, outer: Option<&Row<'_>>) -> SqlResult<LogicalPlan> {
        let Side { steps, first: _, width: _ } = side;
        let Part { plan, conditions } = self.steps(steps, places, outer)?;
        let lowered = self.filter(Lowered { plan, places: places.clone() }, &conditions, outer)?;
        Ok(lowered.plan)
    }

    /// A table's rows, whose columns take the first of these places.
    fn table(&self, table: &TableInfo, places: &mut [Option<Place>]) -> SqlResult<LogicalPlan> {
        let name = TableReference::bare(self.name("t"));
        let provider = self.tables.provider(&table.table).ok_or_else(crate::values::mismatch)?;
        let plan = build(LogicalPlanBuilder::scan(name.clone(), provider_as_source(provider), None))?;
        let fields = table.table.schema().fields().iter();
        for ((place, column), field) in places.iter_mut().zip(&table.columns).zip(fields) {
            let own = Column::new(Some(name.clone()), field.name());
            *place = Some(Place { column: own, repr: Repr::of_column(column.kind)? });
        }
        Ok(plan)
    }
}
