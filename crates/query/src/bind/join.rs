//! Joins in `FROM`, and the visibility of names in them.
//!
//! **Invariant:** `ON` sees the two sides of its join and nothing else of `FROM`; only LATERAL items see earlier items.

use super::{Binder, Clause, FromRelation, NameScope, NameTarget, Visibility};
use crate::plan::{ColumnInfo, Expr, InputKind, JoinGroup, JoinInput, OuterCondition, Slots, Typed, slots_of, split};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use syntax::ast::{self, FromItem, JoinCondition, JoinItem};
use syntax::lex::Span;
use types::ops::{Callee, CastContext};

#[derive(Clone, Copy, PartialEq, Eq)]
enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
}

impl JoinKind {
    fn of(kind: ast::JoinKind) -> JoinKind {
        match kind {
            ast::JoinKind::Inner | ast::JoinKind::Cross => JoinKind::Inner,
            ast::JoinKind::Left => JoinKind::Left,
            ast::JoinKind::Right => JoinKind::Right,
            ast::JoinKind::Full => JoinKind::Full,
        }
    }
}

/// Column of one side of a join with its value, as `USING` finds it.
type SideColumn = (ColumnInfo, Expr);

impl Binder<'_> {
    /// Binds a left-deep chain of joins in a loop, so that long chains do not overflow the stack.
    pub(super) fn joined(&self, last: &JoinItem, scope: &mut NameScope<'_>) -> SqlResult<JoinGroup> {
        let start = scope.relations.len();
        let named = self.recursive_references();
        let mut joins = vec![last];
        let mut first = &last.left;
        // A join with an alias hides the names inside, so it is bound on its own.
        while let FromItem::Join(join) = first
            && join.alias.is_none()
        {
            joins.push(join);
            first = &join.left;
        }
        let mut left = self.bind_from_item(first, scope)?;
        for JoinItem { kind, left: _, right, condition, alias: _, span: _ } in joins.into_iter().rev() {
            statement::pulse::tick(scope.relations.len() * 2)?;
            let kind = JoinKind::of(*kind);
            let middle = scope.relations.len();
            let is_allowed = matches!(kind, JoinKind::Inner | JoinKind::Left);
            set_reach(&mut scope.relations[start..], Visibility::Lateral { is_allowed });
            if matches!(kind, JoinKind::Right | JoinKind::Full) {
                self.none_named_since(&named, "an outer join")?;
            }
            let is_nullable = matches!(kind, JoinKind::Left | JoinKind::Full);
            let right = match is_nullable {
                true => self.within("an outer join", || self.bind_from_item(right, scope))?,
                false => self.bind_from_item(right, scope)?,
            };
            set_reach(&mut scope.relations[start..], Visibility::All);
            let on = self.join_condition(condition, kind, (start, middle), scope)?;
            left = group_of(left, right, kind, on)?;
        }
        if let Some(alias) = &last.alias {
            self.name_join(alias, start, scope)?;
        }
        Ok(left)
    }

    /// Binds the condition of a join. Relations of the left side begin at `start`, those of the right side at `middle`.
    fn join_condition(
        &self,
        condition: &JoinCondition,
        kind: JoinKind,
        (start, middle): (usize, usize),
        scope: &mut NameScope<'_>,
    ) -> SqlResult<Vec<Expr>> {
        match condition {
            JoinCondition::None => Ok(Vec::new()),
            JoinCondition::On(on) => {
                let before = scope.clause.replace(Clause::JoinCondition);
                let on = self.expr(on, scope).and_then(|on| self.condition(on, "JOIN/ON"));
                scope.clause.set(before);
                Ok(split(on?))
            }
            JoinCondition::Using(names, alias) => {
                let mut all: Vec<String> = Vec::new();
                for name in names {
                    if all.iter().any(|other| **other == **name) {
                        let message = format!("column name \"{name}\" appears more than once in USING clause");
                        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                    }
                    all.push(name.to_string());
                }
                let on = self.merge(&all, kind, start, middle, scope)?;
                if let Some(alias) = alias {
                    name_merged(alias, all.len(), scope)?;
                }
                Ok(on)
            }
            JoinCondition::Natural => {
                let (left, right) = (open(&scope.relations[start..middle]), open(&scope.relations[middle..]));
                let is_common = |name: &String| right.iter().any(|(column, _)| column.name == *name);
                let names: Vec<String> = left.into_iter().map(|(column, _)| column.name).filter(is_common).collect();
                self.merge(&names, kind, start, middle, scope)
            }
        }
    }

    /// Merges the columns of a join by `USING` or `NATURAL`; merged columns come first.
    fn merge(
        &self,
        names: &[String],
        kind: JoinKind,
        start: usize,
        middle: usize,
        scope: &mut NameScope<'_>,
    ) -> SqlResult<Vec<Expr>> {
        let (left, right) = (open(&scope.relations[start..middle]), open(&scope.relations[middle..]));
        let mut conditions = Vec::new();
        let mut columns: Vec<SideColumn> = Vec::new();
        for name in names {
            let (left, right) = (side_column(&left, name, "left")?, side_column(&right, name, "right")?);
            for (column, _) in [left, right] {
                // The use is noted without a position, since the text does not name the column of each side.
                self.note(Span::NOWHERE, || NameTarget::Column(column.table, column.number));
            }
            [left, right].into_iter().for_each(|(_, value)| self.note_reads(value, scope));
            let typed = |(column, value): &SideColumn| Typed::new(value.clone(), column.kind);
            let common = types::ops::common_kind(&[left.0.kind.kind, right.0.kind.kind], "JOIN/USING")?;
            conditions.push(self.operator("=", Some(typed(left)), typed(right))?.expr);
            let to = if left.0.kind == right.0.kind { left.0.kind } else { common.into() };
            let cast = |side: &SideColumn| self.coerce(typed(side), to, CastContext::Implicit).map(|typed| typed.expr);
            let value = match kind {
                JoinKind::Inner if left.0.kind.kind != common && right.0.kind.kind == common => cast(right)?,
                JoinKind::Inner | JoinKind::Left => cast(left)?,
                JoinKind::Right => cast(right)?,
                JoinKind::Full => Expr::Coalesce(vec![cast(left)?, cast(right)?]),
            };
            let info = if kind == JoinKind::Right { &right.0 } else { &left.0 };
            columns.push((ColumnInfo { kind: to, ..info.clone() }, value));
        }
        for (column, value) in left.into_iter().chain(right) {
            if !names.contains(&column.name) {
                columns.push((column, value));
            }
        }
        self.close(columns, start, "", scope);
        Ok(conditions)
    }

    /// Replaces the unqualified columns of these relations by those of their join.
    fn close(&self, columns: Vec<SideColumn>, start: usize, alias: &str, scope: &mut NameScope<'_>) {
        scope.relations[start..].iter_mut().for_each(|relation| relation.is_open = false);
        let first = scope.width;
        let (columns, values) = columns.into_iter().unzip();
        scope.relations.push(FromRelation {
            alias: alias.to_owned(),
            columns,
            values,
            first,
            table: None,
            is_named: !alias.is_empty(),
            is_open: true,
            reach: Visibility::All,
            own: None,
            system: None,
            is_value: false,
            need: None,
        });
    }

    /// Names a join by its alias, which hides the names inside.
    fn name_join(&self, alias: &ast::Alias, start: usize, scope: &mut NameScope<'_>) -> SqlResult<()> {
        let columns = open(&scope.relations[start..]);
        let (infos, values): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let named = self.relation("", Some(alias), infos, scope.width, None)?;
        scope.relations[start..].iter_mut().for_each(|relation| relation.is_named = false);
        let name = named.alias;
        if scope.relations.iter().any(|other| other.is_named && other.alias == name) {
            let message = format!("table name \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
        }
        self.close(named.columns.into_iter().zip(values).collect(), start, &name, scope);
        Ok(())
    }
}

/// Adds the relation of `USING (...) AS alias`: the merged columns alone, which come first in the last relation.
fn name_merged(alias: &ast::Name, count: usize, scope: &mut NameScope<'_>) -> SqlResult<()> {
    let Some(join) = scope.relations.last() else { return Ok(()) };
    let columns = join.columns.iter().take(count).cloned().collect();
    let values = join.values.iter().take(count).cloned().collect();
    let alias = alias.to_string();
    let named = FromRelation { alias, columns, values, is_named: true, is_open: false, ..join.clone() };
    scope.add(named, 0)
}

fn set_reach(relations: &mut [FromRelation], reach: Visibility) {
    relations.iter_mut().for_each(|relation| relation.reach = reach);
}

/// Returns the columns that can be named without a qualifier.
fn open(relations: &[FromRelation]) -> Vec<SideColumn> {
    let open = relations.iter().filter(|relation| relation.is_open);
    open.flat_map(|relation| relation.columns.iter().cloned().zip(relation.values.iter().cloned())).collect()
}

fn side_column<'s>(side: &'s [SideColumn], name: &str, which: &str) -> SqlResult<&'s SideColumn> {
    let mut found = side.iter().filter(|(column, _)| column.name == name);
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column),
        (Some(_), Some(_)) => {
            let message = format!("common column name \"{name}\" appears more than once in {which} table");
            Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message))
        }
        (None, _) => {
            let message = format!("column \"{name}\" specified in USING clause does not exist in {which} table");
            Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
        }
    }
}

/// Combines two sides into one group.
fn group_of(mut left: JoinGroup, right: JoinGroup, kind: JoinKind, on: Vec<Expr>) -> SqlResult<JoinGroup> {
    match kind {
        JoinKind::Inner => {
            left.inputs.extend(right.inputs);
            left.conditions.extend(right.conditions);
            left.conditions.extend(on);
            Ok(left)
        }
        JoinKind::Left => Ok(outer(left, right, on)),
        JoinKind::Right => Ok(outer(right, left, on)),
        JoinKind::Full => {
            let (left_slots, right_slots) = (left.own(), right.own());
            let can_do = on.is_empty()
                || on.iter().any(|one| is_equality(one, &left_slots, &right_slots))
                || on.iter().all(|one| matches!(one, Expr::Constant(_)));
            if !can_do {
                let message = "FULL JOIN is only supported with merge-joinable or hash-joinable join conditions";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            let mut own = left_slots;
            own.add_all(&right_slots);
            let (first, end) = {
                let ((a, a_width), (b, b_width)) = (left.places(), right.places());
                (a.min(b), (a + a_width).max(b + b_width))
            };
            for input in left.inputs.iter().chain(&right.inputs) {
                refuse!(!input.needs.is_within(&own) => "LATERAL in FULL JOIN of what is before it");
            }
            let kind = InputKind::Full { left, right, on };
            Ok(JoinGroup::one(JoinInput { kind, first, width: end - first, outer: None, needs: Slots::default() }))
        }
    }
}

/// Returns the group of an outer join, which keeps rows of the first side without a match.
fn outer(mut kept: JoinGroup, nullable: JoinGroup, on: Vec<Expr>) -> JoinGroup {
    let left = kept.own();
    let mut input = nullable.into_input();
    input.outer = Some(OuterCondition { on, left });
    kept.inputs.push(input);
    kept
}

/// True if a condition is an equality between both sides, as PostgreSQL requires for full joins.
fn is_equality(condition: &Expr, left: &Slots, right: &Slots) -> bool {
    let Expr::Call { callee: Callee::Operator(operator), arguments } = condition else { return false };
    let [a, b] = &arguments[..] else { return false };
    let (a, b) = (slots_of(a), slots_of(b));
    let is_side = |slots: &Slots, of: &Slots| !slots.is_empty() && slots.is_within(of);
    operator.name == "="
        && !condition.is_volatile()
        && ((is_side(&a, left) && is_side(&b, right)) || (is_side(&b, left) && is_side(&a, right)))
}
