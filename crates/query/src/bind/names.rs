//! Lookup of relations by name.
//!
//! **Invariant:** a name without a schema refers to the first match in the search path. A missing relation is `42P01`,
//! or `3F000` if even its schema does not exist.

use super::{Binder, BoundQuery, ViewExpansion};
use crate::plan::ColumnInfo;
use crate::plan::{Expr, Plan};
use catalog::{DATABASE, Relation, TableInfo, ViewInfo};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::ast;
use types::datum::Datum;

/// Name with an optional schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualifiedName {
    pub schema: Option<String>,
    pub name: String,
}

impl Binder<'_> {
    /// Splits a name into schema and relation.
    ///
    /// # Errors
    /// Fails if the name has too many parts, or is in another database.
    pub fn qualified(&self, name: &ast::ObjectName) -> SqlResult<QualifiedName> {
        let mut parts: Vec<String> = name.parts.iter().map(|part| part.to_string()).collect();
        if parts.len() == 3 && parts[0] == DATABASE {
            parts.remove(0);
        }
        match &mut parts[..] {
            [name] => Ok(QualifiedName { schema: None, name: std::mem::take(name) }),
            [schema, name] => Ok(QualifiedName { schema: Some(std::mem::take(schema)), name: std::mem::take(name) }),
            parts if parts.len() == 3 => {
                let message = format!("cross-database references are not implemented: \"{}\"", parts.join("."));
                Err(self.at_name(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message), name))
            }
            parts => {
                let message = format!("improper qualified name (too many dotted names): {}", parts.join("."));
                Err(self.at_name(SqlError::new(SqlState::SYNTAX_ERROR, message), name))
            }
        }
    }

    /// Returns the relation of this name, if there is one.
    pub fn find(&self, name: &QualifiedName) -> Option<&Relation> {
        match &name.schema {
            Some(schema) => self.catalog.relation_in(schema, &name.name),
            None => self.catalog.relation(self.path, &name.name),
        }
    }

    /// Returns the system table that this name refers to, if it does. `pg_catalog` is searched first unless the path
    /// names it.
    pub fn system_table(&self, name: &QualifiedName) -> Option<Arc<catalog::SystemTable>> {
        let find =
            |schema: &str| catalog::system::find(schema, &name.name, self.env.catalog_snapshot().map(Arc::as_ref));
        if let Some(schema) = &name.schema {
            return find(schema);
        }
        let implied = !self.path.iter().any(|schema| schema == types::PG_CATALOG);
        if let Some(table) = implied.then(|| find(types::PG_CATALOG)).flatten() {
            return Some(table);
        }
        for schema in self.path {
            if self.catalog.relation_in(schema, &name.name).is_some() {
                return None;
            }
            if let Some(table) = find(schema) {
                return Some(table);
            }
        }
        None
    }

    /// Returns the relation of this name, for utility commands.
    ///
    /// # Errors
    /// Fails with `42P01`, or `3F000` if the schema does not exist, both without a position, as in PostgreSQL.
    pub fn relation_named(&self, name: &ast::ObjectName) -> SqlResult<&Relation> {
        let found = self.relation_in_query(name);
        let qualified = found.is_err().then(|| self.qualified(name)).transpose()?;
        if let Some(QualifiedName { schema: Some(schema), .. }) = qualified
            && self.catalog.schema(&schema).is_none()
        {
            let message = format!("schema \"{schema}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
        }
        found.map_err(SqlError::nowhere)
    }

    /// Returns the relation of this name, for queries and data-modifying statements.
    ///
    /// # Errors
    /// Fails with `42P01` and a position.
    pub(crate) fn relation_in_query(&self, name: &ast::ObjectName) -> SqlResult<&Relation> {
        let wanted = self.qualified(name)?;
        if self.system_table(&wanted).is_some() {
            let message = format!("permission denied: \"{}\" is a system catalog", wanted.name);
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        if let Some(schema) = &wanted.schema {
            self.check_usage(schema, name)?;
        }
        let found = self.find(&wanted).ok_or_else(|| self.at_name(no_relation(&wanted), name))?;
        if let Relation::Table(table) = found {
            self.names(table);
        }
        Ok(found)
    }

    /// Returns the OID of a relation in a schema; system tables are included.
    pub(super) fn relation_number(&self, schema: &str, name: &str) -> Option<u32> {
        let system =
            || catalog::system::find(schema, name, self.env.catalog_snapshot().map(Arc::as_ref)).map(|table| table.oid);
        self.catalog.relation_in(schema, name).map(Relation::oid).or_else(system)
    }

    /// Returns one row of a table as a relation of FROM.
    pub fn row_of(&self, name: &str, columns: Vec<ColumnInfo>) -> super::FromRelation {
        super::FromRelation::new(name, columns, 0, None)
    }

    /// Binds the query of a view. Names are looked up by the search path of the view's creation.
    ///
    /// # Errors
    /// Fails with `42P17` if the view's query leads to the view itself.
    pub fn view(&self, view: &ViewInfo) -> SqlResult<BoundQuery> {
        let outer = match &self.views {
            ViewExpansion::Expanded(outer) => outer,
            ViewExpansion::Opaque => {
                let column = |(at, (name, kind)): (usize, &(String, types::SqlType))| ColumnInfo {
                    name: name.clone(),
                    kind: *kind,
                    table: view.oid,
                    number: at as i16 + 1,
                };
                // The plan is never run, but plans may be compared, so it contains the view's OID.
                let which = view.columns.iter().map(|_| Expr::Constant(Datum::Oid(view.oid))).collect();
                let columns = view.columns.iter().enumerate().map(column).collect();
                return Ok(BoundQuery::new(Plan::Values(vec![which]), columns));
            }
        };
        if outer.contains(&view.oid) {
            let message = format!("infinite recursion detected in rules for relation \"{}\"", view.name);
            return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message).nowhere());
        }
        let inner = Binder::new(self.catalog, &view.path, &view.text, self.env, Vec::new());
        let views = ViewExpansion::Expanded(outer.iter().copied().chain([view.oid]).collect());
        let inner = Binder { views, ..inner }.of_stored_text();
        // Positions in its errors would point into the view's text instead of the statement's, so they are dropped.
        let bound = syntax::grammar::query(&view.text).and_then(|query| inner.query(&query, None));
        let bound = bound.map_err(SqlError::nowhere);
        inner.take_tables().iter().for_each(|table| self.names(table));
        self.need_as_owner(view, &inner);
        let mut bound = bound?;
        let height = inner.height.get() + 1;
        statement::stack::check_queries(height)?;
        self.height.set(self.height.get().max(height));
        if bound.columns.len() != view.columns.len() {
            let message = format!("view \"{}\" does not have the columns any more that it was made with", view.name);
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
        }
        for ((at, column), (name, kind)) in bound.columns.iter_mut().enumerate().zip(&view.columns) {
            column.name.clone_from(name);
            column.kind = *kind;
            (column.table, column.number) = (view.oid, at as i16 + 1);
        }
        Ok(bound)
    }

    /// Returns the table of this name, for utility commands.
    ///
    /// # Errors
    /// Fails with `42P01`, or `42809` if the relation is not a table.
    pub fn table(&self, name: &ast::ObjectName) -> SqlResult<Arc<TableInfo>> {
        a_table(self.relation_named(name)?)
    }

    /// Returns the table of this name, for data-modifying statements.
    pub(super) fn table_in_query(&self, name: &ast::ObjectName) -> SqlResult<Arc<TableInfo>> {
        a_table(self.relation_in_query(name)?)
    }
}

/// Returns the error `42P01` for this name.
pub fn no_relation(name: &QualifiedName) -> SqlError {
    let full = match &name.schema {
        Some(schema) => format!("{schema}.{}", name.name),
        None => name.name.clone(),
    };
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{full}\" does not exist"))
}

fn a_table(relation: &Relation) -> SqlResult<Arc<TableInfo>> {
    match relation {
        Relation::Table(table) => Ok(Arc::clone(table)),
        other => {
            let message = format!("\"{}\" is not a table", other.name());
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
    }
}
