//! Joins of `FROM`, and what names see of them.
//!
//! **Invariant:** `ON` sees the two sides of its join and nothing else of `FROM`; an earlier part is seen only by what is
//! LATERAL.

use super::from::{Group, Item, ItemSource, Outer, split};
use super::steps::is_equality;
use super::{Binder, Clause, Noted, Reach, Relation, Scope};
use crate::plan::ColumnInfo;
use crate::plan::{Expr, Typed};
use sqlparser::ast::{self, JoinConstraint, JoinOperator, TableFactor};
use sqlparser::tokenizer::Span;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use syntax::parse::folded;
use syntax::parse::rewrite::{JOIN_ALIAS, mark};
use types::ops::Context;

#[derive(Clone, Copy, PartialEq, Eq)]
enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
}

/// A column of a side, as `USING` finds it.
type SideColumn = (ColumnInfo, Expr);

impl Binder<'_> {
    /// A factor and what is joined to it.
    pub(super) fn joined(
        &self,
        relation: &TableFactor,
        joins: &[ast::Join],
        scope: &mut Scope<'_>,
    ) -> SqlResult<Group> {
        let start = scope.relations.len();
        let named = self.recursive_references();
        let mut left = self.factor(relation, scope)?;
        for ast::Join { relation, global, join_operator } in joins {
            refuse!(*global => "GLOBAL JOIN");
            statement::pulse::tick(scope.relations.len() * 2)?;
            let (constraint, kind) = match join_operator {
                JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (constraint, JoinKind::Inner),
                JoinOperator::CrossJoin(JoinConstraint::None) => (&JoinConstraint::None, JoinKind::Inner),
                JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (constraint, JoinKind::Left),
                JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (constraint, JoinKind::Right),
                JoinOperator::FullOuter(constraint) => (constraint, JoinKind::Full),
                _ => return Err(SqlError::unsupported("this kind of join")),
            };
            let middle = scope.relations.len();
            let is_allowed = matches!(kind, JoinKind::Inner | JoinKind::Left);
            set_reach(&mut scope.relations[start..], Reach::Lateral { is_allowed });
            if matches!(kind, JoinKind::Right | JoinKind::Full) {
                self.none_named_since(&named, "an outer join")?;
            }
            let is_nullable = matches!(kind, JoinKind::Left | JoinKind::Full);
            let right = match is_nullable {
                true => self.within("an outer join", || self.factor(relation, scope))?,
                false => self.factor(relation, scope)?,
            };
            set_reach(&mut scope.relations[start..], Reach::All);
            let on = match constraint {
                JoinConstraint::None if matches!(join_operator, JoinOperator::CrossJoin(_)) => Vec::new(),
                JoinConstraint::None => return Err(self.end_of_join(relation)),
                JoinConstraint::On(on) => {
                    let before = scope.clause.replace(Clause::JoinCondition);
                    let on = self.expr(on, scope).and_then(|on| self.condition(on, "JOIN/ON"));
                    scope.clause.set(before);
                    split(on?)
                }
                JoinConstraint::Using(names) => {
                    let mut all: Vec<String> = Vec::new();
                    let mut alias = None;
                    for name in names {
                        if let [ast::ObjectNamePart::Identifier(is), ast::ObjectNamePart::Identifier(own)] = &name.0[..]
                            && mark(is) == Some(JOIN_ALIAS)
                        {
                            alias = Some(own);
                            continue;
                        }
                        let [name] = &self.name_parts(name)?[..] else {
                            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a qualified name in USING"));
                        };
                        if all.contains(name) {
                            let message = format!("column name \"{name}\" appears more than once in USING clause");
                            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                        }
                        all.push(name.clone());
                    }
                    let on = self.merge(&all, kind, start, middle, scope)?;
                    if let Some(alias) = alias {
                        self.name_merged(alias, all.len(), scope)?;
                    }
                    on
                }
                JoinConstraint::Natural => {
                    let (left, right) = (open(&scope.relations[start..middle]), open(&scope.relations[middle..]));
                    let is_common = |name: &String| right.iter().any(|(column, _)| column.name == *name);
                    let names: Vec<String> =
                        left.into_iter().map(|(column, _)| column.name).filter(is_common).collect();
                    self.merge(&names, kind, start, middle, scope)?
                }
            };
            left = group_of(left, right, kind, on)?;
        }
        Ok(left)
    }

    /// A JOIN without its condition: the text goes on with something else.
    fn end_of_join(&self, relation: &TableFactor) -> SqlError {
        let _ = relation;
        SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input").at(self.source.text.chars().count() + 1)
    }

    /// The columns of a join by `USING`: first the merged ones.
    fn merge(
        &self,
        names: &[String],
        kind: JoinKind,
        start: usize,
        middle: usize,
        scope: &mut Scope<'_>,
    ) -> SqlResult<Vec<Expr>> {
        let (left, right) = (open(&scope.relations[start..middle]), open(&scope.relations[middle..]));
        let mut conditions = Vec::new();
        let mut columns: Vec<SideColumn> = Vec::new();
        for name in names {
            let (left, right) = (side_column(&left, name, "left")?, side_column(&right, name, "right")?);
            for (column, _) in [left, right] {
                // Nobody has written it where it stands.
                self.note(Span::empty(), || Noted::Column(column.table, column.number));
            }
            let typed = |(column, value): &SideColumn| Typed::new(value.clone(), column.kind);
            let common = types::ops::common_kind(&[left.0.kind.kind, right.0.kind.kind], "JOIN/USING")?;
            conditions.push(self.operator("=", Some(typed(left)), typed(right))?.expr);
            let to = if left.0.kind == right.0.kind { left.0.kind } else { common.into() };
            let cast = |side: &SideColumn| self.coerce(typed(side), to, Context::Implicit).map(|typed| typed.expr);
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

    /// `USING (...) AS alias`: a relation of the merged columns alone, which are the first of the last relation.
    fn name_merged(&self, alias: &ast::Ident, count: usize, scope: &mut Scope<'_>) -> SqlResult<()> {
        syntax::parse::check_name(self.source.text, alias)?;
        let Some(join) = scope.relations.last() else { return Ok(()) };
        let columns = join.columns.iter().take(count).cloned().collect();
        let values = join.values.iter().take(count).cloned().collect();
        let named = Relation { alias: folded(alias), columns, values, is_named: true, is_open: false, ..join.clone() };
        scope.add(named, 0)
    }

    /// From now on the columns of these relations are those of the join.
    fn close(&self, columns: Vec<SideColumn>, start: usize, alias: &str, scope: &mut Scope<'_>) {
        scope.relations[start..].iter_mut().for_each(|relation| relation.is_open = false);
        let first = scope.width;
        let (columns, values) = columns.into_iter().unzip();
        scope.relations.push(Relation {
            alias: alias.to_owned(),
            columns,
            values,
            first,
            table: None,
            is_named: !alias.is_empty(),
            is_open: true,
            reach: Reach::All,
            own: None,
            system: None,
            is_value: false,
        });
    }

    /// A join with an alias, which hides the names in it.
    pub(super) fn name_join(&self, alias: &ast::TableAlias, start: usize, scope: &mut Scope<'_>) -> SqlResult<()> {
        let columns = open(&scope.relations[start..]);
        let (infos, values): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let named = self.relation("", &Some(alias.clone()), infos, scope.width, None)?;
        scope.relations[start..].iter_mut().for_each(|relation| relation.is_named = false);
        let name = folded(&alias.name);
        if scope.relations.iter().any(|other| other.is_named && other.alias == name) {
            let message = format!("table name \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
        }
        self.close(named.columns.into_iter().zip(values).collect(), start, &name, scope);
        Ok(())
    }
}

fn set_reach(relations: &mut [Relation], reach: Reach) {
    relations.iter_mut().for_each(|relation| relation.reach = reach);
}

/// The columns that can be named without their relation.
fn open(relations: &[Relation]) -> Vec<SideColumn> {
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

/// Two sides as one group.
fn group_of(mut left: Group, right: Group, kind: JoinKind, on: Vec<Expr>) -> SqlResult<Group> {
    match kind {
        JoinKind::Inner => {
            left.items.extend(right.items);
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
            for item in left.items.iter().chain(&right.items) {
                refuse!(!item.needs.is_within(&own) => "LATERAL in FULL JOIN of what is before it");
            }
            let source = ItemSource::Full { left, right, on };
            let needs = crate::plan::Slots::default();
            Ok(Group::one(Item { source, first, width: end - first, outer: None, needs }))
        }
    }
}

/// A group whose rows are kept without a match on the other side.
fn outer(mut kept: Group, nullable: Group, on: Vec<Expr>) -> Group {
    let left = kept.own();
    let mut item = nullable.into_item();
    item.outer = Some(Outer { on, left });
    kept.items.push(item);
    kept
}
