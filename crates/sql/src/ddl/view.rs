//! `CREATE VIEW`.
//!
//! **Invariant:** a view keeps its query as it was written, but for `*`, the schemas of relations, and names that have changed since, and what
//! it uses, which is kept from being dropped under it.

use super::{Ddl, Defined};
use catalog::{Relation, ViewInfo};
use query::bind::{Binder, settled};
use sqlparser::ast::{self, Visit, Visitor};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::ops::ControlFlow;
use std::sync::Arc;
use syntax::parse::folded;

impl Ddl<'_> {
    pub(super) fn create_view(&mut self, create: &ast::CreateView) -> SqlResult<Defined> {
        let ast::CreateView {
            or_alter,
            or_replace,
            materialized,
            secure,
            name,
            name_before_not_exists: _,
            columns,
            query,
            options,
            cluster_by,
            comment,
            with_no_schema_binding,
            if_not_exists,
            temporary,
            copy_grants,
            to,
            params,
        } = create;
        refuse!(
            *or_alter || *secure || *with_no_schema_binding || *copy_grants => "an option of CREATE VIEW",
            *materialized => "CREATE MATERIALIZED VIEW", *temporary => "CREATE TEMPORARY VIEW",
            *if_not_exists => "CREATE VIEW IF NOT EXISTS", *options != ast::CreateTableOptions::None => "WITH in CREATE VIEW",
            !cluster_by.is_empty() || comment.is_some() || to.is_some() || params.is_some() => "an option of CREATE VIEW",
        );
        let (schema, own_name) = self.place(name).map_err(SqlError::nowhere)?;
        let binder = self.binder().noting();
        let mut bound = binder.query(query, None)?;
        binder.without_parameters()?;
        if bound.columns.len() < columns.len() {
            let message = "CREATE VIEW specifies more column names than columns";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let mut named: Vec<(String, types::SqlType)> = Vec::new();
        for (at, column) in bound.columns.iter_mut().enumerate() {
            let name = match columns.get(at) {
                Some(ast::ViewColumnDef { name, data_type, options }) => {
                    refuse!(data_type.is_some() || options.is_some() => "a type in a view's columns");
                    folded(name)
                }
                None => column.name.clone(),
            };
            if named.iter().any(|(other, _)| *other == name) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            named.push((name, settled(column.kind)));
        }
        let mut uses = used(&binder, query)?;
        let (query, named_by_literals) = self.settled_query(query, &binder.take_notes())?;
        uses.extend(named_by_literals);
        // What cannot be said again must not be kept.
        let text = syntax::parse::print::query(&query)?;
        let existing = self.state.relations().find(|one| one.schema() == schema && one.name() == own_name).cloned();
        let mut beside = Vec::new();
        let oid = match existing {
            None => self.catalog.oid()?,
            Some(Relation::View(old)) if *or_replace => {
                check_replaced(&old, &named)?;
                if old.columns.len() < named.len() {
                    beside = self.beside_new_column(old.oid, old.columns.len() as i16 + 1)?;
                }
                self.state.remove(old.oid);
                old.oid
            }
            Some(other) if *or_replace => {
                let message = format!("\"{}\" is not a view", other.name());
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            Some(other) => {
                let message = format!("relation \"{}\" already exists", other.name());
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
            }
        };
        self.state.add(Relation::View(Arc::new(ViewInfo {
            oid,
            schema,
            name: own_name,
            owner: self.user(),
            columns: named,
            text,
            query,
            path: self.path.to_vec(),
            uses,
        })))?;
        self.put_renamed(beside, "add a column to a view")?;
        Ok("CREATE VIEW".into())
    }
}

/// A view may be replaced by one that has its columns, and perhaps more behind them.
fn check_replaced(old: &ViewInfo, new: &[(String, types::SqlType)]) -> SqlResult<()> {
    let invalid = |message: String| Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    if new.len() < old.columns.len() {
        return invalid("cannot drop columns from view".to_owned());
    }
    for ((old_name, old_kind), (name, kind)) in old.columns.iter().zip(new) {
        if old_name != name {
            let message = format!("cannot change name of view column \"{old_name}\" to \"{name}\"");
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
                .hint("Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead."));
        }
        if old_kind != kind {
            return invalid(format!(
                "cannot change data type of view column \"{name}\" from {} to {}",
                old_kind.name(),
                kind.name()
            ));
        }
    }
    Ok(())
}

/// Numbers of the relations that a query names. Names of its own `WITH` queries may hide some; to count one too many only keeps
/// it from being dropped without CASCADE.
pub(super) fn used(binder: &Binder<'_>, query: &ast::Query) -> SqlResult<Vec<u32>> {
    struct Names<'b> {
        binder: &'b Binder<'b>,
        found: Vec<u32>,
    }
    impl Visitor for Names<'_> {
        type Break = SqlError;

        fn pre_visit_relation(&mut self, name: &ast::ObjectName) -> ControlFlow<SqlError> {
            match self.binder.qualified(name) {
                Ok(name) => {
                    if let Some(relation) = self.binder.find(&name)
                        && !self.found.contains(&relation.oid())
                    {
                        self.found.push(relation.oid());
                    }
                    ControlFlow::Continue(())
                }
                Err(error) => ControlFlow::Break(error),
            }
        }
    }
    let mut names = Names { binder, found: Vec::new() };
    match query.visit(&mut names) {
        ControlFlow::Continue(()) => Ok(names.found),
        ControlFlow::Break(error) => Err(error),
    }
}
