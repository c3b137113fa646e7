//! `FROM`: tables, queries, functions.
//!
//! What is bound here is a tree of joins; `steps` decides how it is gone through.

use super::pull::Simple;
use super::push::{cheapest_first, push_down};
use super::steps::{self, steps_of};
use super::{Binder, Clause, Noted, Reach, Relation, Scope, columns_of, settled};
use crate::plan::ColumnInfo;
use crate::plan::{Expr, Joins, OuterJoin, Plan, SetCall, Slots, slots_of, slots_of_plan};
use catalog::TableInfo;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::ast::{self, FromItem};

/// Sources, joined by inner joins but for those that say otherwise.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub(super) items: Vec<Item>,
    pub(super) conditions: Vec<Expr>,
}

/// A source.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) source: ItemSource,
    pub(super) first: usize,
    pub(super) width: usize,
    pub(super) outer: Option<Outer>,
    /// What a lateral one looks at.
    pub(super) needs: Slots,
}

/// An outer join: its condition, and its left side.
#[derive(Clone, Debug)]
pub(super) struct Outer {
    pub(super) on: Vec<Expr>,
    pub(super) left: Slots,
}

#[derive(Clone, Debug)]
pub(super) enum ItemSource {
    Table(Arc<TableInfo>),
    Query {
        plan: Box<Plan>,
        is_lateral: bool,
    },
    Functions {
        calls: Vec<SetCall>,
        is_numbered: bool,
    },
    /// A query that may be pulled up; see [`super::pull`].
    Simple(Box<Simple>),
    Group(Group),
    Full {
        left: Group,
        right: Group,
        on: Vec<Expr>,
    },
}

impl Item {
    /// Its places of the row.
    pub(super) fn own(&self) -> Slots {
        Slots::range(self.first, self.width)
    }

    /// Whether it may be joined to what is known.
    pub(super) fn can_follow(&self, known: &Slots) -> bool {
        self.needs.is_within(known) && self.outer.as_ref().is_none_or(|outer| outer.left.is_within(known))
    }

    fn is_nullable(&self, slot: usize) -> bool {
        if !self.own().has(slot) {
            return false;
        }
        self.outer.is_some()
            || match &self.source {
                ItemSource::Group(group) => group.is_nullable(slot),
                ItemSource::Full { .. } => true,
                _ => false,
            }
    }
}

impl Group {
    pub(super) fn one(item: Item) -> Group {
        Group { items: vec![item], conditions: Vec::new() }
    }

    /// Its places of the row, which stand side by side.
    pub(super) fn places(&self) -> (usize, usize) {
        let first = self.items.iter().map(|item| item.first).min().unwrap_or(0);
        let end = self.items.iter().map(|item| item.first + item.width).max().unwrap_or(0);
        (first, end - first)
    }

    pub(super) fn own(&self) -> Slots {
        let (first, width) = self.places();
        Slots::range(first, width)
    }

    /// Whether a function's columns begin here.
    pub(super) fn is_function(&self, slot: usize) -> bool {
        self.items.iter().any(|item| match &item.source {
            ItemSource::Functions { .. } => item.first == slot,
            ItemSource::Group(group) => group.is_function(slot),
            ItemSource::Full { left, right, .. } => left.is_function(slot) || right.is_function(slot),
            ItemSource::Table(_) | ItemSource::Query { .. } | ItemSource::Simple(_) => false,
        })
    }

    /// Whether a recursive query's last round is among the sources.
    pub(super) fn has_working(&self) -> bool {
        self.items.iter().any(|item| match &item.source {
            ItemSource::Query { plan, .. } => matches!(**plan, Plan::Working(_)),
            ItemSource::Group(group) => group.has_working(),
            ItemSource::Full { left, right, .. } => left.has_working() || right.has_working(),
            ItemSource::Table(_) | ItemSource::Functions { .. } | ItemSource::Simple(_) => false,
        })
    }

    /// Whether an outer join may fill the place with null.
    pub(super) fn is_nullable(&self, slot: usize) -> bool {
        self.items.iter().any(|item| item.is_nullable(slot))
    }

    /// The outer joins, each behind those on its left and on its nullable side.
    pub(super) fn outer_joins(&self) -> Vec<OuterJoin> {
        let mut joins = Vec::new();
        for Item { source, first, width, outer, needs: _ } in &self.items {
            if let ItemSource::Group(group) = source {
                joins.extend(group.outer_joins());
            }
            if let Some(outer) = outer {
                joins.push(OuterJoin { on: all_of(outer.on.clone()), first: *first, width: *width });
            }
        }
        joins
    }

    /// As one source.
    pub(super) fn into_item(mut self) -> Item {
        if let ([Item { outer: None, .. }], true) = (&self.items[..], self.conditions.is_empty())
            && let Some(item) = self.items.pop()
        {
            return item;
        }
        let (first, width) = self.places();
        let own = self.own();
        let mut needs = Slots::default();
        self.items.iter().for_each(|item| needs.add_all(&item.needs));
        // What its parts need of one another does not count.
        needs.remove_all(&own);
        Item { source: ItemSource::Group(self), first, width, outer: None, needs }
    }
}

impl Binder<'_> {
    /// Binds all of `FROM` into the scope.
    pub fn from(&self, from: &[FromItem], scope: &mut Scope<'_>) -> SqlResult<Group> {
        self.bind_from_items(from, scope)
    }

    /// As [`Binder::from`], of items that stand in several places.
    pub(super) fn bind_from_items<'i>(
        &self,
        from: impl IntoIterator<Item = &'i FromItem>,
        scope: &mut Scope<'_>,
    ) -> SqlResult<Group> {
        let mut all = Group::default();
        for one in from {
            // The executor goes from each source to the next.
            statement::stack::check_queries(all.items.len() / 4)?;
            statement::pulse::tick(scope.relations.len())?;
            let Group { items, conditions } = self.bind_from_item(one, scope)?;
            all.items.extend(items);
            all.conditions.extend(conditions);
            scope.relations.iter_mut().for_each(|relation| relation.reach = Reach::Lateral { is_allowed: true });
        }
        scope.relations.iter_mut().for_each(|relation| relation.reach = Reach::All);
        statement::stack::check_queries(all.items.len() / 4)?;
        Ok(all)
    }

    /// The plan of the sources, with all columns.
    pub fn join(&self, group: Group, conditions: Vec<Expr>) -> Plan {
        Plan::Joins(joined_steps(group, conditions, None))
    }

    /// A table whose rows are made when it is read.
    pub(super) fn system_in_from(
        &self,
        table: &Arc<catalog::SystemTable>,
        name: &str,
        alias: Option<&ast::Alias>,
        scope: &mut Scope<'_>,
    ) -> SqlResult<Group> {
        let first = scope.width;
        let columns = crate::plan::columns_of_system(table);
        let width = columns.len();
        let is_keyed = table.columns.first().is_some_and(|column| column.not_null);
        let relation = self.relation(name, alias, columns, first, None)?;
        let (own, system) = (alias.is_none().then_some(table.oid), is_keyed.then_some(table.oid));
        scope.add(Relation { own, system, ..relation }, width)?;
        let plan = Box::new(Plan::System(Arc::clone(table)));
        Ok(item(ItemSource::Query { plan, is_lateral: false }, first, width, Slots::default()))
    }

    /// Binds an item of `FROM` into the scope.
    pub(super) fn bind_from_item(&self, from: &FromItem, scope: &mut Scope<'_>) -> SqlResult<Group> {
        statement::stack::check()?;
        match from {
            FromItem::Table(table) => self.table_in_from(table, scope),
            FromItem::Query { query, alias, is_lateral, span: _ } => {
                self.query_in_from(query, alias.as_ref(), *is_lateral, scope)
            }
            // Functions see what is before them with and without the word LATERAL.
            FromItem::Functions { functions, is_rows_from: _, with_ordinality, alias, is_lateral: _, span: _ } => {
                let [function] = &functions[..] else {
                    return Err(SqlError::unsupported("ROWS FROM with several functions"));
                };
                refuse!(!function.columns.is_empty() => "a list of column definitions");
                self.function_in_from(&function.call, *with_ordinality, alias.as_ref(), scope)
                    .map_err(|error| self.at_expr(error, &function.call))
            }
            FromItem::Join(join) => self.joined(join, scope),
            FromItem::Unsupported(feature, span) => Err(self.at_place(SqlError::unsupported(feature), *span)),
        }
    }

    /// Table, view or query of `WITH`.
    fn table_in_from(&self, table: &ast::TableItem, scope: &mut Scope<'_>) -> SqlResult<Group> {
        // Nothing inherits, so ONLY says nothing.
        let ast::TableItem { name, is_only: _, alias, is_sampled, span: _ } = table;
        refuse!(*is_sampled => "TABLESAMPLE");
        let (first, alias) = (scope.width, alias.as_ref());
        if let Some((name, plan, columns, _)) = self.named_query(name, scope)? {
            let width = columns.len();
            scope.add(self.relation(&name, alias, columns, first, None)?, width)?;
            let simple = self.inlined(&plan);
            return Ok(item(query_source((plan, simple)), first, width, Slots::default()));
        }
        if let Some(table) = self.system_table(&self.qualified(name)?) {
            return self.system_in_from(&table, &table.name, alias, scope);
        }
        match self.relation_in_query(name)?.clone() {
            catalog::Relation::Table(table) => {
                let width = table.columns.len() + 1;
                let relation = self.relation(&table.name, alias, columns_of(&table), first, Some(&table))?;
                self.note(Binder::span_of(name), || Noted::Relation(table.oid));
                scope.add(Relation { own: alias.is_none().then_some(table.oid), ..relation }, width)?;
                Ok(item(ItemSource::Table(table), first, width, Slots::default()))
            }
            catalog::Relation::View(view) => {
                let bound = self.view(&view)?;
                let width = bound.columns.len();
                let relation = self.relation(&view.name, alias, bound.columns, first, None)?;
                self.note(Binder::span_of(name), || Noted::Relation(view.oid));
                scope.add(Relation { own: alias.is_none().then_some(view.oid), ..relation }, width)?;
                Ok(item(query_source((bound.plan, bound.simple)), first, width, Slots::default()))
            }
            other @ catalog::Relation::Index { .. } => {
                let message = format!("cannot open relation \"{}\"", other.name());
                let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
                Err(self.at_name(error.detail("This operation is not supported for indexes."), name))
            }
            catalog::Relation::Sequence(sequence) => {
                let table = Arc::new(catalog::system::sequence_table(&sequence));
                self.note(Binder::span_of(name), || Noted::Relation(sequence.oid));
                self.system_in_from(&table, &sequence.name, alias, scope)
            }
        }
    }

    /// Query in parentheses.
    fn query_in_from(
        &self,
        query: &ast::Query,
        alias: Option<&ast::Alias>,
        is_lateral: bool,
        scope: &mut Scope<'_>,
    ) -> SqlResult<Group> {
        let first = scope.width;
        // What a lateral one sees is this row, as that of an enclosing query.
        let mut bound = if is_lateral {
            let before = scope.clause.replace(Clause::From);
            scope.is_lateral.set(true);
            let bound = self.query(query, Some(scope));
            scope.is_lateral.set(false);
            scope.clause.set(before);
            bound?
        } else {
            self.may_pull.set(true);
            self.query(query, scope.parent).map_err(|error| self.aside(error, scope))?
        };
        bound.columns.iter_mut().for_each(|column| column.kind = settled(column.kind));
        let width = bound.columns.len();
        let relation = self.relation("", alias, bound.columns, first, None)?;
        scope.add(relation, width)?;
        let needs = if is_lateral { slots_of_plan(&bound.plan, 1) } else { Slots::default() };
        // One that needs nothing of this row need not be run for each.
        let source = match is_lateral {
            true => ItemSource::Query { plan: Box::new(bound.plan), is_lateral: true },
            false => query_source((bound.plan, bound.simple)),
        };
        Ok(item(source, first, width, needs))
    }

    pub(super) fn relation(
        &self,
        name: &str,
        alias: Option<&ast::Alias>,
        mut columns: Vec<ColumnInfo>,
        first: usize,
        table: Option<&Arc<TableInfo>>,
    ) -> SqlResult<Relation> {
        let mut own_name = name;
        if let Some(ast::Alias { name, columns: names }) = alias {
            own_name = name.as_deref().unwrap_or(own_name);
            refuse!(names.iter().any(|column| column.kind.is_some()) => "a list of column definitions");
            if columns.len() < names.len() {
                let message = format!(
                    "table \"{own_name}\" has {} columns available but {} columns specified",
                    columns.len(),
                    names.len()
                );
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message).nowhere());
            }
            for (column, ast::AliasColumn { name, kind: _ }) in columns.iter_mut().zip(names) {
                column.name = name.to_string();
            }
        }
        Ok(Relation::new(own_name, columns, first, table))
    }
}

/// The steps; given what is needed of the row, only those columns are read.
pub(super) fn joined_steps(mut group: Group, conditions: Vec<Expr>, needed: Option<&Slots>) -> Joins {
    let width = group.items.iter().map(|item| item.first + item.width).max().unwrap_or(0);
    // What looks at nothing that changes is asked once.
    let (when, mut conditions): (Vec<_>, Vec<_>) = conditions.into_iter().flat_map(split).partition(is_once);
    push_down(&mut group, &mut conditions);
    let conditions = cheapest_first(std::mem::take(&mut group.conditions).into_iter().chain(conditions).collect());
    let mut steps = steps_of(group, conditions, &Slots::default());
    if let Some(needed) = needed {
        steps::prune(&mut steps, needed);
    }
    Joins { when: all_of(when), steps, width }
}

/// A query without LATERAL.
fn query_source(bound: (Plan, Option<Box<Simple>>)) -> ItemSource {
    match bound {
        (_, Some(simple)) => ItemSource::Simple(simple),
        (plan, None) => ItemSource::Query { plan: Box::new(plan), is_lateral: false },
    }
}

pub(super) fn item(source: ItemSource, first: usize, width: usize, needs: Slots) -> Group {
    Group::one(Item { source, first, width, outer: None, needs })
}

/// Whether a condition is the same for every row: it looks at none, and calls nothing volatile.
fn is_once(condition: &Expr) -> bool {
    slots_of(condition).is_empty() && !condition.is_volatile()
}

/// All of them as one condition.
pub(crate) fn all_of(mut conditions: Vec<Expr>) -> Option<Expr> {
    match conditions.len() {
        0 | 1 => conditions.pop(),
        _ => Some(Expr::And(conditions)),
    }
}

/// A condition's conjuncts, owned.
pub fn split(condition: Expr) -> Vec<Expr> {
    match condition {
        Expr::And(parts) => parts.into_iter().flat_map(split).collect(),
        other => vec![other],
    }
}
