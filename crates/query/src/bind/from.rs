//! Binding of FROM: tables, queries, functions.

use super::{Binder, Clause, FromRelation, NameScope, NameTarget, Visibility, columns_of, settled};
use crate::plan::{ColumnInfo, InputKind, JoinGroup, JoinInput, Plan, Slots, slots_of_plan};
use catalog::TableInfo;
use catalog::acl::Privileges;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::ast::{self, FromItem};

impl Binder<'_> {
    /// Binds a whole FROM clause into the scope.
    pub fn from(&self, from: &[FromItem], scope: &mut NameScope<'_>) -> SqlResult<JoinGroup> {
        self.bind_from_items(from, scope)
    }

    /// Binds items of FROM that come from several clauses, as [`Binder::from`] does.
    pub(super) fn bind_from_items<'i>(
        &self,
        from: impl IntoIterator<Item = &'i FromItem>,
        scope: &mut NameScope<'_>,
    ) -> SqlResult<JoinGroup> {
        let mut all = JoinGroup::default();
        for one in from {
            // The executor recurses from each input to the next, so their number is limited like the nesting of
            // queries.
            statement::stack::check_queries(all.inputs.len() / 4)?;
            statement::pulse::tick(scope.relations.len())?;
            let JoinGroup { inputs, conditions } = self.bind_from_item(one, scope)?;
            all.inputs.extend(inputs);
            all.conditions.extend(conditions);
            scope.relations.iter_mut().for_each(|relation| relation.reach = Visibility::Lateral { is_allowed: true });
        }
        scope.relations.iter_mut().for_each(|relation| relation.reach = Visibility::All);
        statement::stack::check_queries(all.inputs.len() / 4)?;
        Ok(all)
    }

    /// Binds a system table, whose rows are computed when it is read.
    pub(super) fn system_in_from(
        &self,
        table: &Arc<catalog::SystemTable>,
        name: &str,
        alias: Option<&ast::Alias>,
        scope: &mut NameScope<'_>,
    ) -> SqlResult<JoinGroup> {
        let first = scope.width;
        let columns = crate::plan::columns_of_system(table);
        let width = columns.len();
        let is_keyed = table.columns.first().is_some_and(|column| column.not_null);
        let relation = self.relation(name, alias, columns, first, None)?;
        // A function in FROM has no OID, and is nobody's to refuse.
        let need = (table.oid != 0).then(|| self.need(table.oid, Privileges::SELECT));
        let (own, system) = (alias.is_none().then_some(table.oid), is_keyed.then_some(table.oid));
        scope.add(FromRelation { own, system, need, ..relation }, width)?;
        let plan = Box::new(Plan::System(Arc::clone(table)));
        Ok(input(InputKind::Query { plan, is_lateral: false }, first, width, Slots::default()))
    }

    /// Binds an item of `FROM` into the scope.
    pub(super) fn bind_from_item(&self, from: &FromItem, scope: &mut NameScope<'_>) -> SqlResult<JoinGroup> {
        statement::stack::check()?;
        match from {
            FromItem::Table(table) => self.table_in_from(table, scope),
            FromItem::Query { query, alias, is_lateral, span: _ } => {
                self.query_in_from(query, alias.as_ref(), *is_lateral, scope)
            }
            // Functions in FROM are lateral even without the keyword LATERAL.
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

    /// Binds a table, a view or a query of `WITH`.
    fn table_in_from(&self, table: &ast::TableItem, scope: &mut NameScope<'_>) -> SqlResult<JoinGroup> {
        // There is no inheritance, so ONLY has no effect.
        let ast::TableItem { name, is_only: _, alias, is_sampled, span: _ } = table;
        refuse!(*is_sampled => "TABLESAMPLE");
        let (first, alias) = (scope.width, alias.as_ref());
        if let Some((name, plan, columns, _)) = self.named_query(name, scope)? {
            let width = columns.len();
            scope.add(self.relation(&name, alias, columns, first, None)?, width)?;
            return Ok(input(of_query(plan), first, width, Slots::default()));
        }
        if let Some(table) = self.system_table(&self.qualified(name)?) {
            return self.system_in_from(&table, &table.name, alias, scope);
        }
        match self.relation_in_query(name)?.clone() {
            catalog::Relation::Table(table) => {
                let width = table.columns.len() + 1;
                let relation = self.relation(&table.name, alias, columns_of(&table), first, Some(&table))?;
                self.note(Binder::span_of(name), || NameTarget::Relation(table.oid));
                let (own, need) = (alias.is_none().then_some(table.oid), Some(self.need_in_from(table.oid, name)));
                scope.add(FromRelation { own, need, ..relation }, width)?;
                Ok(input(InputKind::Table(table), first, width, Slots::default()))
            }
            catalog::Relation::View(view) => {
                let need = Some(self.need_in_from(view.oid, name));
                let bound = self.view(&view)?;
                let width = bound.columns.len();
                let relation = self.relation(&view.name, alias, bound.columns, first, None)?;
                self.note(Binder::span_of(name), || NameTarget::Relation(view.oid));
                let own = alias.is_none().then_some(view.oid);
                scope.add(FromRelation { own, need, ..relation }, width)?;
                Ok(input(of_query(bound.plan), first, width, Slots::default()))
            }
            other @ catalog::Relation::Index { .. } => {
                let message = format!("cannot open relation \"{}\"", other.name());
                let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
                Err(self.at_name(error.detail("This operation is not supported for indexes."), name))
            }
            catalog::Relation::Sequence(sequence) => {
                let table = Arc::new(catalog::system::sequence_table(&sequence));
                self.note(Binder::span_of(name), || NameTarget::Relation(sequence.oid));
                self.system_in_from(&table, &sequence.name, alias, scope)
            }
        }
    }

    /// Binds a subquery.
    fn query_in_from(
        &self,
        query: &ast::Query,
        alias: Option<&ast::Alias>,
        is_lateral: bool,
        scope: &mut NameScope<'_>,
    ) -> SqlResult<JoinGroup> {
        let first = scope.width;
        // A lateral subquery sees the row of this FROM as that of an enclosing query.
        let mut bound = if is_lateral {
            let before = scope.clause.replace(Clause::From);
            scope.is_lateral.set(true);
            let bound = self.query(query, Some(scope));
            scope.is_lateral.set(false);
            scope.clause.set(before);
            bound?
        } else {
            self.query(query, scope.parent).map_err(|error| self.aside(error, scope))?
        };
        bound.columns.iter_mut().for_each(|column| column.kind = settled(column.kind));
        let width = bound.columns.len();
        let relation = self.relation("", alias, bound.columns, first, None)?;
        scope.add(relation, width)?;
        let needs = if is_lateral { slots_of_plan(&bound.plan, 1) } else { Slots::default() };
        // A subquery without LATERAL depends on no row of this FROM, so it need not be run again for each.
        let source = match is_lateral {
            true => InputKind::Query { plan: Box::new(bound.plan), is_lateral: true },
            false => of_query(bound.plan),
        };
        Ok(input(source, first, width, needs))
    }

    pub(super) fn relation(
        &self,
        name: &str,
        alias: Option<&ast::Alias>,
        mut columns: Vec<ColumnInfo>,
        first: usize,
        table: Option<&Arc<TableInfo>>,
    ) -> SqlResult<FromRelation> {
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
        Ok(FromRelation::new(own_name, columns, first, table))
    }
}

/// Input that is a query without LATERAL.
fn of_query(plan: Plan) -> InputKind {
    InputKind::Query { plan: Box::new(plan), is_lateral: false }
}

/// Join group of a single input.
pub(super) fn input(kind: InputKind, first: usize, width: usize, needs: Slots) -> JoinGroup {
    JoinGroup::one(JoinInput { kind, first, width, outer: None, needs })
}
