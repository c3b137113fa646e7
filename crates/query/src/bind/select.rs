//! `SELECT`.
//!
//! **Invariant:** all clauses of a query are bound over the rows of `FROM`. Grouping, set-returning functions and
//! ordering follow, each in a plan node above the one before.

use super::calls::QueryCalls;
use super::group::{GroupedRowLayout, Grouping};
use super::query::{QueryTail, limited};
use super::{Binder, BoundQuery, Clause, NameScope, settled};
use crate::plan::{
    AggregateCall, ColumnInfo, Expr, Hold, JoinGroup, Plan, Slots, SortKey, TableRowLock, Typed, WindowCall, all_of,
    slots_of, split,
};
use crate::rewrite::{from_clause, pull_up};
use catalog::acl::Privileges;
use engine::{RowLock, TableLock, Wait};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::ast::{self, Distinct, LockStrength, LockWait};
use syntax::lex::Span;
use types::ops::CastContext;
use types::{Kind, SqlType};

/// Target list: the select list, followed by values that only ORDER BY needs.
pub(super) struct SelectValues {
    pub(super) columns: Vec<ColumnInfo>,
    pub(super) all: Vec<Expr>,
}

impl SelectValues {
    /// Returns the index of a value, which is added if it is new.
    fn place(&mut self, value: Expr, is_same: impl Fn(&Expr, &Expr) -> bool) -> usize {
        self.all.iter().position(|own| is_same(own, &value)).unwrap_or_else(|| {
            self.all.push(value);
            self.all.len() - 1
        })
    }
}

impl Binder<'_> {
    pub(super) fn select(
        &self,
        select: &ast::Select,
        tail: QueryTail<'_>,
        parent: Option<&NameScope<'_>>,
    ) -> SqlResult<BoundQuery> {
        let ast::Select { distinct, list, into, from, condition, group_by, is_group_distinct, having, windows } =
            select;
        refuse!(into.is_some() => "SELECT INTO", *is_group_distinct => "GROUP BY DISTINCT");
        let mut scope = NameScope::inside(parent);
        let mut tree = self.from(from, &mut scope)?;
        self.check_windows(windows)?;
        scope.windows.clone_from(windows);
        let scope = scope;
        let inside = |clause: Clause| scope.clause.set(clause);

        inside(Clause::SelectList);
        let (columns, all) = self.projection(list, &scope)?.into_iter().unzip();
        let mut values = SelectValues { columns, all };
        self.add_names(scope.relations.iter().map(|relation| &relation.alias));
        self.add_names(values.columns.iter().map(|column| &column.name));
        inside(Clause::Where);
        let mut selection = match condition {
            Some(condition) => {
                let condition = self.expr(condition, &scope)?;
                split(self.condition(condition, "WHERE")?)
            }
            None => Vec::new(),
        };
        inside(Clause::Having);
        let mut having = match having {
            Some(having) => {
                let condition = self.expr(having, &scope)?;
                Some(self.condition(condition, "HAVING")?)
            }
            None => None,
        };
        let is_distinct = *distinct == Distinct::Rows;
        inside(Clause::OrderBy);
        let mut keys = self.order(tail.order, &mut values, is_distinct, &scope)?;
        inside(Clause::GroupBy);
        let mut grouping = self.group_by(group_by, &mut values, &scope)?;
        inside(Clause::DistinctOn);
        let on = match distinct {
            Distinct::On(on) => Some(self.distinct_on(on, &mut values, &mut keys, &scope)?),
            Distinct::No | Distinct::Rows => None,
        };
        inside(Clause::Other);

        let calls = scope.calls.take();
        let is_grouped = !group_by.is_empty() || having.is_some() || !calls.aggregates.is_empty();
        if !calls.aggregates.is_empty() && tree.has_working() {
            let message = "aggregate functions are not allowed in a recursive query's recursive term";
            let error = SqlError::new(SqlState::INVALID_RECURSION, message);
            return Err(match calls.aggregates.first() {
                Some((written, ..)) => self.at_name(error, &written.name),
                None => error,
            });
        }
        let locks = self.locks(tail.locks, &scope, &tree)?;
        if let Some(clause) = tail.locks.first() {
            let word = lock_word(clause);
            let not_with = |what: &str| {
                let message = format!("{word} is not allowed with {what}");
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            };
            if *distinct != Distinct::No {
                return not_with("DISTINCT clause");
            }
            if !group_by.is_empty() {
                return not_with("GROUP BY clause");
            }
            if having.is_some() {
                return not_with("HAVING clause");
            }
            if is_grouped {
                return not_with("aggregate functions");
            }
            if !calls.windows.is_empty() {
                return not_with("window functions");
            }
            if !calls.sets.is_empty() {
                return not_with("set-returning functions in the target list");
            }
        }
        // A row that has changed before it is locked is rechecked against the quals and outer joins that selected it,
        // as in PostgreSQL's EvalPlanQual.
        let (joins, condition) = match locks.is_empty() {
            true => (Vec::new(), None),
            false => (tree.outer_joins(), all_of(selection.iter().chain(&tree.conditions).cloned().collect())),
        };

        let QueryCalls { aggregates, windows, mut sets, groupings } = calls;
        let mut windows: Vec<WindowCall> = windows.into_iter().map(|(_, call, _)| call).collect();
        let mut layout = GroupedRowLayout {
            aggregates: 0,
            set: None,
            windows: scope.width,
            sets: scope.width,
            groupings: Vec::new(),
        };
        let mut aggregates: Vec<_> = aggregates.into_iter().map(|(_, call, _)| call).collect();
        let of_rows = match grouping.sets {
            None => having.iter().cloned().flat_map(split).filter(super::group::is_of_rows).collect(),
            Some(_) => Vec::new(),
        };
        if is_grouped {
            let more = sets.iter_mut().flat_map(|set| &mut set.arguments);
            let more = more.chain(windows.iter_mut().flat_map(WindowCall::parts_mut));
            for (at, expr) in values.all.iter_mut().enumerate() {
                self.regroup_item(at, expr, &mut grouping, &scope)?;
            }
            for expr in having.iter_mut().chain(more) {
                self.regroup(expr, &mut grouping, &scope)?;
            }
            layout.groupings = self.grouping_values(&groupings, &grouping, &scope)?;
            layout.aggregates = grouping.groups.len();
            layout.windows = layout.aggregates + aggregates.len();
            if grouping.sets.is_some() {
                layout.set = Some(layout.windows);
                layout.windows += 1;
            }
            layout.sets = layout.windows;
        } else if !groupings.is_empty() {
            let message = "arguments to GROUPING must be grouping expressions of the associated query level";
            let place = groupings.iter().flatten().next().map_or(Span::NOWHERE, |first| first.place);
            return Err(self.at_place(SqlError::new(SqlState::GROUPING_ERROR, message), place));
        }
        // HAVING quals that hold for whole groups go below the grouping: rows that they exclude are not computed, so
        // they cannot fail.
        selection.extend(of_rows);
        let width = {
            let mut over_row: Vec<&mut Expr> = selection.iter_mut().collect();
            if is_grouped {
                over_row.extend(grouping.groups.iter_mut().map(|(group, _)| group));
            } else {
                over_row.extend(&mut values.all);
                over_row.extend(sets.iter_mut().flat_map(|set| &mut set.arguments));
                over_row.extend(windows.iter_mut().flat_map(WindowCall::parts_mut));
            }
            over_row.extend(aggregates.iter_mut().flat_map(AggregateCall::parts_mut));
            pull_up(&mut tree, &mut over_row, locks.is_empty())?.width(scope.width)
        };
        if !is_grouped {
            layout.windows = width;
        }
        layout.sets = layout.windows + windows.len();
        // Subqueries in these expressions may refer to aggregates of this query, too.
        let below = selection.iter_mut().chain(aggregates.iter_mut().flat_map(AggregateCall::parts_mut));
        let more = sets
            .iter_mut()
            .flat_map(|set| &mut set.arguments)
            .chain(windows.iter_mut().flat_map(WindowCall::parts_mut));
        for expr in values.all.iter_mut().chain(&mut having).chain(more).chain(below) {
            layout.place(expr)?;
        }

        // Slots of the FROM row that the nodes above it read.
        let mut needed = Slots::default();
        let mut need = |expr: &Expr| needed.add_all(&slots_of(expr));
        if is_grouped {
            grouping.groups.iter().for_each(|(group, _)| need(group));
            aggregates.iter().flat_map(AggregateCall::parts).for_each(&mut need);
        } else {
            values.all.iter().chain(sets.iter().flat_map(|set| &set.arguments)).for_each(&mut need);
            windows.iter_mut().flat_map(WindowCall::parts_mut).for_each(|expr| need(expr));
        }
        let needed = locks.is_empty().then_some(&needed);
        let mut plan = match from.is_empty() {
            true => match all_of(selection) {
                Some(condition) => Plan::Filter { input: Box::new(Plan::Unit), condition },
                None => Plan::Unit,
            },
            false => from_clause(tree, selection, needed),
        };
        // Sort keys over the rows of FROM rather than the target list.
        let at_source = |key: &SortKey| match key.value {
            Expr::Column(at) => SortKey { value: values.all[at].clone(), ..key.clone() },
            _ => key.clone(),
        };
        let source_keys: Vec<SortKey> = keys.iter().map(at_source).collect();
        if is_grouped {
            let Grouping { groups, sets, .. } = grouping;
            plan = Plan::Aggregate { input: Box::new(plan), groups, sets, calls: aggregates };
            if let Some(condition) = having {
                plan = Plan::Filter { input: Box::new(plan), condition };
            }
        }
        if !windows.is_empty() {
            plan = Plan::Windows { input: Box::new(plan), calls: windows };
        }
        let waits = waits_for_order(&values, &keys, on.as_deref(), !tail.order.is_empty(), is_distinct, layout.sets);
        if waits && locks.is_empty() {
            let SelectValues { mut columns, all } = values;
            columns.iter_mut().for_each(|column| column.kind = settled(column.kind));
            plan = Plan::Sort { input: Box::new(plan), keys: source_keys };
            if let Some(on) = on {
                let at_source = |(value, kind): (Expr, Kind)| match value {
                    Expr::Column(at) => (all[at].clone(), kind),
                    other => (other, kind),
                };
                plan = Plan::DistinctOn { input: Box::new(plan), values: on.into_iter().map(at_source).collect() };
            }
            if !sets.is_empty() {
                plan = Plan::Sets { input: Box::new(plan), calls: sets };
            }
            let width = columns.len();
            let has_extra = all.len() != width;
            plan = limited(
                Plan::Project { input: Box::new(plan), columns: all },
                QueryTail { order: &[], locks: &[], ..tail },
                keys,
            );
            if has_extra {
                plan = Plan::Project { input: Box::new(plan), columns: (0..width).map(Expr::Column).collect() };
            }
            return Ok(BoundQuery::new(plan, columns));
        }
        if !sets.is_empty() {
            plan = Plan::Sets { input: Box::new(plan), calls: sets };
        }
        let SelectValues { mut columns, all: mut values } = values;
        if is_distinct {
            columns.iter_mut().for_each(|column| column.kind = settled(column.kind));
        }
        let width = columns.len();
        if !locks.is_empty() {
            // As in PostgreSQL, rows are locked after sorting and before the limit.
            let keys = source_keys;
            if !keys.is_empty() {
                plan = Plan::Sort { input: Box::new(plan), keys: keys.clone() };
            }
            for lock in &locks {
                let is_hasty = lock.wait != Wait::Block;
                let hold = if is_hasty { Hold::Hasty } else { Hold::Lock(TableLock::RowShare, Wait::Block) };
                self.will_hold(&lock.table, hold);
            }
            plan = Plan::Lock { input: Box::new(plan), locks, joins, condition };
            plan = limited(plan, QueryTail { order: &[], locks: &[], ..tail }, keys);
            values.truncate(width);
            return Ok(BoundQuery::new(Plan::Project { input: Box::new(plan), columns: values }, columns));
        }
        let extra = values.len() != width;
        plan = Plan::Project { input: Box::new(plan), columns: values };
        if is_distinct {
            let kind = |(at, column): (usize, &ColumnInfo)| {
                let kind = self.groupable(settled(column.kind).kind);
                kind.map_err(|error| self.at_place(error, self.item_start(list, at)))
            };
            let kinds = columns.iter().enumerate().map(kind).collect::<SqlResult<_>>()?;
            plan = Plan::Distinct { input: Box::new(plan), kinds };
        }
        if !keys.is_empty() {
            plan = Plan::Sort { input: Box::new(plan), keys: keys.clone() };
        }
        if let Some(values) = on {
            plan = Plan::DistinctOn { input: Box::new(plan), values };
        }
        plan = limited(plan, QueryTail { order: &[], locks: &[], ..tail }, keys);
        if extra {
            plan = Plan::Project { input: Box::new(plan), columns: (0..width).map(Expr::Column).collect() };
        }
        Ok(BoundQuery::new(plan, columns))
    }

    /// Binds ORDER BY. Each key is a result column, by number or name, or an expression of its own.
    fn order(
        &self,
        order: &[ast::SortBy],
        values: &mut SelectValues,
        is_distinct: bool,
        scope: &NameScope<'_>,
    ) -> SqlResult<Vec<SortKey>> {
        let mut keys = Vec::with_capacity(order.len());
        let width = values.columns.len();
        for key in order {
            let expr = &key.value;
            let are_same = |a, b| self.are_same(&values.all[a], &values.all[b], scope);
            let at = self.output_column("ORDER BY", expr, &values.columns, are_same)?;
            let (at, kind) = match at {
                Some(at) => (at, self.settle(values, at)?),
                None => {
                    let value = self.expr(expr, scope)?;
                    let kind = settled(value.kind);
                    let value = self.coerce(value, kind, CastContext::Implicit)?;
                    (values.place(value.expr, |a, b| self.are_same(a, b, scope)), kind)
                }
            };
            if is_distinct && width <= at {
                let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                return Err(self.at_expr(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message), expr));
            }
            keys.push(self.sort_key(Typed::new(Expr::Column(at), kind), key)?);
        }
        Ok(keys)
    }

    /// Settles the type of an item that is ordered or grouped: an unknown type becomes text, as in PostgreSQL's
    /// `addTargetToSortList`.
    pub(super) fn settle(&self, values: &mut SelectValues, at: usize) -> SqlResult<SqlType> {
        let kind = settled(values.columns[at].kind);
        if kind != values.columns[at].kind {
            let item = Typed::new(values.all[at].clone(), values.columns[at].kind);
            values.all[at] = self.coerce(item, kind, CastContext::Implicit)?.expr;
            values.columns[at].kind = kind;
        }
        Ok(kind)
    }

    /// Binds `DISTINCT ON`. Its values become the leading sort keys.
    fn distinct_on(
        &self,
        on: &[ast::Expr],
        values: &mut SelectValues,
        keys: &mut Vec<SortKey>,
        scope: &NameScope<'_>,
    ) -> SqlResult<Vec<(Expr, Kind)>> {
        let mut places = Vec::with_capacity(on.len());
        let mut written = Vec::with_capacity(on.len());
        for expr in on {
            let are_same = |a, b| self.are_same(&values.all[a], &values.all[b], scope);
            let at = self.output_column("DISTINCT ON", expr, &values.columns, are_same)?;
            let (at, kind) = match at {
                Some(at) => (at, self.settle(values, at)?),
                None => {
                    let value = self.expr(expr, scope)?;
                    let kind = settled(value.kind);
                    let value = self.coerce(value, kind, CastContext::Implicit)?.expr;
                    (values.place(value, |a, b| self.are_same(a, b, scope)), kind)
                }
            };
            self.groupable(kind.kind).map_err(|error| self.at_expr(error, expr))?;
            if !places.iter().any(|(other, _)| *other == at) {
                places.push((at, kind.kind));
                written.push(expr);
            }
        }
        // A repeated sort key has no effect.
        let mut known = Vec::with_capacity(keys.len());
        keys.retain(|key| {
            let Expr::Column(at) = key.value else { return true };
            let is_new = !known.contains(&at);
            known.push(at);
            is_new
        });
        let is_on = |key: &SortKey| matches!(key.value, Expr::Column(at) if places.iter().any(|(own, _)| *own == at));
        let leading = keys.iter().take_while(|key| is_on(key)).count();
        let is_there = |at: usize| keys.iter().any(|key| matches!(key.value, Expr::Column(own) if own == at));
        let missing: Vec<_> = places.iter().filter(|(at, _)| !is_there(*at)).copied().collect();
        if leading < keys.len() && (!missing.is_empty() || keys[leading..].iter().any(is_on)) {
            let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
            let error = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
            // The error points to the expression that comes too late or, without one, to the one that is missing.
            let late = keys[leading..].iter().find(|key| is_on(key)).and_then(|key| match key.value {
                Expr::Column(at) => places.iter().position(|(own, _)| *own == at),
                _ => None,
            });
            let at = late.or_else(|| places.iter().position(|(at, _)| !is_there(*at)));
            return Err(at.map_or(error.clone(), |at| self.at_expr(error, written[at])));
        }
        for (at, kind) in missing {
            keys.push(SortKey { value: Expr::Column(at), kind, descending: false, nulls_first: false });
        }
        Ok(places.into_iter().map(|(at, kind)| (Expr::Column(at), kind)).collect())
    }

    fn locks(&self, clauses: &[ast::Locking], scope: &NameScope<'_>, tree: &JoinGroup) -> SqlResult<Vec<TableRowLock>> {
        let mut locks: Vec<TableRowLock> = Vec::new();
        for clause in clauses {
            if clause.of.is_empty() {
                self.lock_relations(clause, None, scope, tree, &mut locks)?;
            }
            for name in &clause.of {
                let [own] = &name.parts[..] else {
                    let message = format!("{} must specify unqualified relation names", lock_word(clause));
                    return Err(self.at_name(SqlError::new(SqlState::SYNTAX_ERROR, message), name));
                };
                self.lock_relations(clause, Some(own), scope, tree, &mut locks)?;
            }
        }
        Ok(locks)
    }

    /// Appends the locks of a clause on the relation of this name, or on all relations.
    fn lock_relations(
        &self,
        clause: &ast::Locking,
        of: Option<&ast::Name>,
        scope: &NameScope<'_>,
        tree: &JoinGroup,
        locks: &mut Vec<TableRowLock>,
    ) -> SqlResult<()> {
        let ast::Locking { strength, of: _, wait, span: _ } = clause;
        let (mode, wait) = (mode_of(*strength), wait_of(*wait));
        let refused =
            |what: &str| SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{} {what}", lock_word(clause)));
        let mut found = false;
        for relation in &scope.relations {
            let is_own =
                |(at, value): (usize, &Expr)| matches!(value, Expr::Column(own) if *own == relation.first + at);
            let is_join = !relation.values.iter().enumerate().all(is_own);
            let is_meant = match of {
                Some(of) => relation.is_named && *relation.alias == **of,
                None => !is_join && !tree.is_function(relation.first),
            };
            if !is_meant {
                continue;
            }
            found = true;
            if let Some(need) = relation.need {
                self.extend_need(need, |need| need.privileges |= Privileges::UPDATE);
            }
            let Some(table) = &relation.table else {
                return Err(match of.filter(|_| is_join) {
                    Some(of) => self.at(refused("cannot be applied to a join"), of),
                    None => SqlError::unsupported("FOR UPDATE of a query in FROM"),
                });
            };
            if tree.is_nullable(relation.first) {
                return Err(refused("cannot be applied to the nullable side of an outer join"));
            }
            // With several clauses on a relation, the strongest mode counts, and NOWAIT takes precedence over SKIP
            // LOCKED.
            match locks.iter_mut().find(|lock| lock.first == relation.first) {
                Some(lock) => {
                    lock.mode = lock.mode.max(mode);
                    lock.wait = match (lock.wait, wait) {
                        (Wait::NoWait, _) | (_, Wait::NoWait) => Wait::NoWait,
                        (Wait::SkipLocked, _) | (_, Wait::SkipLocked) => Wait::SkipLocked,
                        (other, _) => other,
                    };
                }
                None => locks.push(TableRowLock { table: Arc::clone(table), first: relation.first, mode, wait }),
            }
        }
        match of.filter(|_| !found) {
            None => Ok(()),
            Some(of) => {
                let word = lock_word(clause);
                let message = format!("relation \"{of}\" in {word} clause not found in FROM clause");
                Err(self.at(SqlError::new(SqlState::UNDEFINED_TABLE, message), of))
            }
        }
    }
}

/// True if the select list is computed after sorting and `DISTINCT ON`, as in PostgreSQL's `make_sort_input_target`:
/// with `ORDER BY`, if set-returning functions or volatile values are in the list and none of them is a sort key. They
/// are then evaluated only for the remaining rows, in their order.
fn waits_for_order(
    values: &SelectValues,
    keys: &[SortKey],
    on: Option<&[(Expr, Kind)]>,
    is_ordered: bool,
    is_distinct: bool,
    first_set: usize,
) -> bool {
    // With DISTINCT all columns are sort keys.
    if !is_ordered || is_distinct || statement::plants::is_planted("srf_under_distinct_on") {
        return false;
    }
    let on = on.unwrap_or_default();
    let is_key = |at: usize| {
        let mut all = keys.iter().map(|key| &key.value).chain(on.iter().map(|(value, _)| value));
        all.any(|value| matches!(value, Expr::Column(own) if *own == at))
    };
    let makes_set = |expr: &Expr| slots_of(expr).reaches(first_set);
    let (of_keys, others): (Vec<_>, Vec<_>) = values.all.iter().enumerate().partition(|(at, _)| is_key(*at));
    if of_keys.iter().any(|(_, expr)| makes_set(expr) || expr.is_volatile()) {
        return false;
    }
    others.iter().any(|(_, expr)| makes_set(expr) || expr.is_volatile())
}

/// Returns the keywords of a locking clause.
pub(super) fn lock_word(clause: &ast::Locking) -> &'static str {
    match clause.strength {
        LockStrength::Update => "FOR UPDATE",
        LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
        LockStrength::Share => "FOR SHARE",
        LockStrength::KeyShare => "FOR KEY SHARE",
    }
}

fn mode_of(strength: LockStrength) -> RowLock {
    match strength {
        LockStrength::Update => RowLock::Update,
        LockStrength::NoKeyUpdate => RowLock::NoKeyUpdate,
        LockStrength::Share => RowLock::Share,
        LockStrength::KeyShare => RowLock::KeyShare,
    }
}

fn wait_of(wait: LockWait) -> Wait {
    match wait {
        LockWait::Block => Wait::Block,
        LockWait::NoWait => Wait::NoWait,
        LockWait::SkipLocked => Wait::SkipLocked,
    }
}
