//! Groups of joins as relations and conditions, and as plans again.

use super::estimate::Estimator;
use super::reduce::{ReducingValues, reduced};
use super::search::{EquivalenceClass, JoinOrder, JoinProblem, JoinRelation, RELATIONS_MAX, RelationSet};
use super::{is_repeatable, joined, nothing, ordered};
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{can_hash, conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator};
use std::collections::HashMap;
use std::sync::Arc;

/// Selectivity of a condition between relations, if nothing is known.
const CONDITION_SHARE: f64 = 0.3;

/// Largest share of the groups up to which a grouped relation is reduced, as the relation that reduces it is read
/// twice.
const REDUCED_SHARE: f64 = 0.2;

/// Adjacent joins, taken apart into relations and conditions.
#[derive(Default)]
pub(super) struct JoinGraph {
    pub relations: Vec<GraphRelation>,
    equalities: Vec<(Expr, Expr)>,
    pub conditions: Vec<Expr>,
}

/// Relation of a group.
pub(super) struct GraphRelation {
    pub plan: LogicalPlan,
    /// Semi or anti join, if the relation only filters the rows of others.
    decides: Option<SemiJoin>,
}

/// Semi or anti join.
struct SemiJoin {
    /// True for an anti join: rows without a match stay.
    is_anti: bool,
    /// Equalities between values of the other relations and the relation's own.
    on: Vec<(Expr, Expr)>,
    filter: Option<Expr>,
}

/// Equal values: the expression of each, and the position of its relation.
type EqualExprs = Vec<(Expr, usize)>;

/// Returns true if a join is one of those that are reordered.
pub(super) fn belongs(join: &Join) -> bool {
    let is_kind = match join.join_type {
        // An inner join may have its equalities among its other conditions.
        JoinType::Inner => true,
        JoinType::LeftSemi | JoinType::LeftAnti => !join.on.is_empty(),
        JoinType::Left
        | JoinType::Right
        | JoinType::Full
        | JoinType::RightSemi
        | JoinType::RightAnti
        | JoinType::LeftMark
        | JoinType::RightMark => false,
    };
    is_kind && !join.null_aware && join.null_equality == NullEquality::NullEqualsNothing
}

/// Returns the plan without projections that only select columns, as columns are found by their names.
pub(super) fn bare(mut plan: &LogicalPlan) -> &LogicalPlan {
    while let LogicalPlan::Projection(projection) = plan
        && projection.expr.iter().all(|value| matches!(value, Expr::Column(_)))
    {
        plan = &projection.input;
    }
    plan
}

impl JoinGraph {
    /// Takes the plan apart, as far as it consists of joins.
    pub(super) fn take_apart(&mut self, plan: LogicalPlan) -> Result<()> {
        let join = match bare(&plan) {
            LogicalPlan::Join(join) if belongs(join) => join.clone(),
            _ => {
                self.relations.push(GraphRelation { plan, decides: None });
                return Ok(());
            }
        };
        let Join { left, right, on, filter, join_type, .. } = join;
        self.take_apart(Arc::unwrap_or_clone(left))?;
        if join_type == JoinType::Inner {
            self.take_apart(Arc::unwrap_or_clone(right))?;
            self.equalities.extend(on);
            self.conditions.extend(filter.into_iter().flat_map(split_conjunction_owned));
        } else {
            let decides = Some(SemiJoin { is_anti: join_type == JoinType::LeftAnti, on, filter });
            self.relations.push(GraphRelation { plan: Arc::unwrap_or_clone(right), decides });
        }
        Ok(())
    }

    /// Returns the joins in the best order; `None` if there is none.
    pub(super) fn put_together(self, estimator: &Estimator) -> Result<Option<LogicalPlan>> {
        let Some(mut shape) = ResolvedGraph::of(self)? else { return Ok(None) };
        shape.reduce(estimator)?;
        let Some(tree) = shape.joining(estimator).search() else { return Ok(None) };
        // The relations are ordered last: if the group has no order, they are left to the caller.
        for part in &mut shape.relations {
            part.plan = ordered(std::mem::replace(&mut part.plan, nothing()), estimator)?.data;
        }
        shape.plan(&tree).map(Some)
    }
}

/// Group whose conditions know their relations.
struct ResolvedGraph {
    relations: Vec<GraphRelation>,
    /// For each semi or anti join, the relations that must be joined before it.
    needs: Vec<RelationSet>,
    classes: Vec<EqualExprs>,
    conditions: Vec<(RelationSet, Expr)>,
}

/// Positions of relations by their columns.
struct ColumnOwners(HashMap<Column, usize>);

impl ColumnOwners {
    /// Returns `None` if two relations have the same column.
    fn of(relations: &[GraphRelation]) -> Option<ColumnOwners> {
        let mut owners = HashMap::new();
        for (at, part) in relations.iter().enumerate().filter(|(_, part)| part.decides.is_none()) {
            for column in part.plan.schema().columns() {
                if owners.insert(column, at).is_some() {
                    return None;
                }
            }
        }
        Some(ColumnOwners(owners))
    }

    /// Returns the relations that an expression uses, columns of `besides` not counted.
    fn set(&self, expr: &Expr, besides: Option<&LogicalPlan>) -> Option<RelationSet> {
        let mut set = 0;
        for column in expr.column_refs() {
            match self.0.get(column) {
                Some(at) => set |= 1 << at,
                None if besides.is_some_and(|plan| plan.schema().has_column(column)) => {}
                None => return None,
            }
        }
        Some(set)
    }

    fn one(&self, expr: &Expr) -> Option<usize> {
        let set = self.set(expr, None)?;
        (set.count_ones() == 1).then_some(set.trailing_zeros() as usize)
    }
}

impl ResolvedGraph {
    /// Returns `None` if the group cannot be reordered.
    fn of(group: JoinGraph) -> Result<Option<ResolvedGraph>> {
        let JoinGraph { mut relations, mut equalities, conditions } = group;
        if RELATIONS_MAX < relations.len() {
            return Ok(None);
        }
        let Some(owners) = ColumnOwners::of(&relations) else { return Ok(None) };
        let mut others = Vec::new();
        for condition in conditions {
            match condition {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right })
                    if is_hashed(&left, &relations, &owners)? && is_hashed(&right, &relations, &owners)? =>
                {
                    equalities.push((*left, *right));
                }
                condition => others.push(condition),
            }
        }
        let mut classes: Vec<EqualExprs> = Vec::new();
        for (left, right) in equalities {
            match (owners.one(&left), owners.one(&right)) {
                (Some(one), Some(two)) if one != two => unite(&mut classes, (left, one), (right, two)),
                _ => others.push(left.eq(right)),
            }
        }
        // Values of one relation that equal the same value of another are equal to each other.
        for class in &mut classes {
            let mut kept: EqualExprs = Vec::with_capacity(class.len());
            for (value, at) in class.drain(..) {
                match kept.iter().find(|(_, other)| *other == at) {
                    Some((first, _)) => others.push(first.clone().eq(value)),
                    None => kept.push((value, at)),
                }
            }
            *class = kept;
        }
        let plain = (0..relations.len()).filter(|at| relations[*at].decides.is_none());
        let all: RelationSet = plain.fold(0, |set, at| set | 1 << at);
        let mut conditions = Vec::new();
        for condition in others {
            let Some(set) = owners.set(&condition, None) else { return Ok(None) };
            let set = if set == 0 { all } else { set };
            if set.count_ones() == 1 {
                let part = &mut relations[set.trailing_zeros() as usize];
                part.plan = LogicalPlanBuilder::from(part.plan.clone()).filter(condition)?.build()?;
            } else {
                conditions.push((set, condition));
            }
        }
        let mut needs = Vec::with_capacity(relations.len());
        for part in &relations {
            let mut needed = 0;
            if let Some(SemiJoin { on, filter, .. }) = &part.decides {
                for looks in on.iter().map(|(others, _)| others).chain(filter) {
                    let Some(set) = owners.set(looks, Some(&part.plan)) else { return Ok(None) };
                    needed |= set;
                }
                if needed == 0 {
                    return Ok(None);
                }
            }
            needs.push(needed);
        }
        Ok(Some(ResolvedGraph { relations, needs, classes, conditions }))
    }

    /// Reduces grouped relations by the relations that they are joined with, where few of the groups are needed.
    fn reduce(&mut self, estimator: &Estimator) -> Result<()> {
        for at in 0..self.relations.len() {
            let mut best: Option<(f64, LogicalPlan)> = None;
            for class in &self.classes {
                let Some((Expr::Column(own), _)) = class.iter().find(|(_, of)| *of == at) else { continue };
                let plan = &self.relations[at].plan;
                let groups = estimator.values(plan, &Expr::Column(own.clone()));
                for (by, value) in self.asked_by(class, at) {
                    let share = estimator.rows(&self.relations[by].plan) / groups;
                    if REDUCED_SHARE < share || best.as_ref().is_some_and(|(least, _)| *least <= share) {
                        continue;
                    }
                    let name = format!("wanted_{at}_{by}_{}", self.needs.len());
                    let wanted = ReducingValues { plan: &self.relations[by].plan, value, name };
                    if is_repeatable(wanted.plan)?
                        && let Some(reduced) = reduced(plan, own, &wanted)?
                    {
                        best = Some((share, reduced));
                    }
                }
            }
            if let Some((_, plan)) = best {
                self.relations[at].plan = plan;
            }
        }
        Ok(())
    }

    /// Returns the relations that contain all values of a class which joined rows of another one can have, and their
    /// values.
    fn asked_by<'s>(&'s self, class: &'s EqualExprs, besides: usize) -> impl Iterator<Item = (usize, &'s Expr)> {
        let joined = class.iter().filter(move |(_, at)| *at != besides).map(|(value, at)| (*at, value));
        let deciding = self.relations.iter().enumerate().filter_map(move |(at, part)| {
            let decision = part.decides.as_ref().filter(|decision| !decision.is_anti && decision.filter.is_none())?;
            match &decision.on[..] {
                [(others, own)] if class.iter().any(|(value, _)| value == others) => Some((at, own)),
                _ => None,
            }
        });
        joined.chain(deciding)
    }

    fn joining(&self, estimator: &Estimator) -> JoinProblem {
        let class = |equals: &EqualExprs| {
            let values = |(value, at): &(Expr, usize)| (*at, estimator.values(&self.relations[*at].plan, value));
            EquivalenceClass { members: equals.iter().map(values).collect() }
        };
        JoinProblem {
            relations: (0..self.relations.len()).map(|at| self.relation(at, estimator)).collect(),
            classes: self.classes.iter().map(class).collect(),
            conditions: self.conditions.iter().map(|(set, _)| (*set, CONDITION_SHARE)).collect(),
        }
    }

    fn relation(&self, at: usize, estimator: &Estimator) -> JoinRelation {
        let GraphRelation { plan, decides } = &self.relations[at];
        let rows = estimator.rows(plan);
        let decides = decides.as_ref().map(|decision| (self.needs[at], self.kept(decision, plan, rows, estimator)));
        let in_class = |column: &Column| {
            let is_it = |(value, of): &(Expr, usize)| *of == at && *value == Expr::Column(column.clone());
            self.classes.iter().position(|class| class.iter().any(is_it))
        };
        let keys = estimator.keys(plan).into_iter();
        let keys = keys
            .filter_map(|key| Some((key.columns.iter().map(in_class).collect::<Option<Vec<usize>>>()?, key.values)));
        JoinRelation { rows, is_one_row: is_one_row(plan), decides, keys: keys.collect() }
    }

    /// Returns the share of others' rows that a semi or anti join keeps.
    fn kept(&self, decision: &SemiJoin, own: &LogicalPlan, rows: f64, estimator: &Estimator) -> f64 {
        let share = |(others, value): &(Expr, Expr)| {
            let asked = self.relations.iter().filter(|part| part.decides.is_none());
            let has =
                |part: &&GraphRelation| others.column_refs().iter().all(|column| part.plan.schema().has_column(column));
            let of = asked.into_iter().find(has).map_or(1.0, |part| estimator.values(&part.plan, others));
            estimator.matched_share(of, own, rows, value)
        };
        let matched = decision.on.iter().map(share).fold(1.0, f64::min);
        if decision.is_anti { (1.0 - matched).max(CONDITION_SHARE) } else { matched }
    }

    fn plan(mut self, tree: &JoinOrder) -> Result<LogicalPlan> {
        self.part(tree)
    }

    fn part(&mut self, tree: &JoinOrder) -> Result<LogicalPlan> {
        let (build, probe) = match tree {
            JoinOrder::Relation(at) => return Ok(std::mem::replace(&mut self.relations[*at].plan, nothing())),
            JoinOrder::Join(build, probe) => (&**build, &**probe),
        };
        for (decider, is_build) in [(build, true), (probe, false)] {
            if let JoinOrder::Relation(at) = decider
                && let Some(SemiJoin { is_anti, on, filter }) = self.relations[*at].decides.take()
            {
                let (left, right) = (Arc::new(self.part(build)?), Arc::new(self.part(probe)?));
                let join_type = match (is_build, is_anti) {
                    (false, false) => JoinType::LeftSemi,
                    (false, true) => JoinType::LeftAnti,
                    (true, false) => JoinType::RightSemi,
                    (true, true) => JoinType::RightAnti,
                };
                let sides = |(others, own)| if is_build { (own, others) } else { (others, own) };
                let on = on.into_iter().map(sides).collect();
                return joined(left, right, on, filter, join_type, NullEquality::NullEqualsNothing);
            }
        }
        let (built, probed) = (build.set(), probe.set());
        let (left, right) = (Arc::new(self.part(build)?), Arc::new(self.part(probe)?));
        let first = |class: &EqualExprs, set: RelationSet| {
            class.iter().find(|(_, at)| set & (1 << at) != 0).map(|(value, _)| value.clone())
        };
        let on = self.classes.iter().filter_map(|class| Some((first(class, built)?, first(class, probed)?)));
        let on = on.collect();
        let is_complete = |set: RelationSet| set & !(built | probed) == 0 && set & !built != 0 && set & !probed != 0;
        let filter = self.conditions.extract_if(.., |(set, _)| is_complete(*set)).map(|(_, condition)| condition);
        let filter = conjunction(filter.collect::<Vec<_>>());
        joined(left, right, on, filter, JoinType::Inner, NullEquality::NullEqualsNothing)
    }
}

/// Returns true if the plan never has more than one row.
fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Filter(_) | LogicalPlan::Sort(_) => {
            plan.inputs().into_iter().all(is_one_row)
        }
        _ => false,
    }
}

/// Returns true if an equality with this value of one relation can be evaluated by hashing.
fn is_hashed(value: &Expr, relations: &[GraphRelation], owners: &ColumnOwners) -> Result<bool> {
    let Some(at) = owners.one(value) else { return Ok(false) };
    Ok(can_hash(&value.get_type(relations[at].plan.schema())?))
}

/// Puts two values into one class.
fn unite(classes: &mut Vec<EqualExprs>, left: (Expr, usize), right: (Expr, usize)) {
    let position = |value: &(Expr, usize)| classes.iter().position(|class| class.contains(value));
    match (position(&left), position(&right)) {
        (None, None) => classes.push(vec![left, right]),
        (Some(at), None) => classes[at].push(right),
        (None, Some(at)) => classes[at].push(left),
        (Some(one), Some(two)) if one != two => {
            let more = classes.swap_remove(one.max(two));
            classes[one.min(two)].extend(more);
        }
        _ => {}
    }
}
