//! `CREATE VIEW`.
//!
//! **Invariant:** a view keeps its query as written, except for `*`, the schemas of relations, and names that have
//! changed since. The relations that it uses cannot be dropped without it.

use super::{Ddl, DdlResult};
use crate::system::quoted;
use catalog::{CatalogState, Relation, ViewInfo};
use query::bind::kept::settle;
use query::bind::{BoundQuery, NameReference, NameTarget, settled};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::collections::HashMap;
use std::sync::Arc;
use syntax::ast::{
    CommonStatement, CommonTable, CreateView, Distinct, Expr, ExprKind, FromItem, Limit, Materialized, Name,
    ObjectName, Persistence, Query, QueryBody, Select, SelectItem, TableItem, With, visit,
};
use syntax::edit::{Edits, on_one_line};
use syntax::grammar;
use syntax::lex::Span;
use types::SqlType;

impl Ddl<'_> {
    pub(super) fn create_view(&mut self, create: &CreateView) -> SqlResult<DdlResult> {
        refuse!(
            create.persistence != Persistence::Permanent => "CREATE TEMPORARY VIEW",
            !create.options.is_empty() => "WITH in CREATE VIEW",
            create.has_check_option => "WITH CHECK OPTION",
        );
        let (schema, own_name) = self.place(&create.name).map_err(SqlError::nowhere)?;
        let recursive = create.is_recursive.then(|| recursive_query(create));
        let binder = self.binder().noting();
        let bound = binder.query(recursive.as_ref().unwrap_or(&create.query), None)?;
        binder.without_parameters()?;
        let columns = view_columns(create, &bound)?;
        let (text, uses) = self.kept_query(create, &binder.take_notes())?;
        let existing = self.state.relations().find(|one| one.schema() == schema && one.name() == own_name).cloned();
        let mut beside = Vec::new();
        let mut owner = self.user();
        let is_new = existing.is_none();
        let oid = match existing {
            None => self.catalog.oid()?,
            Some(Relation::View(old)) if create.or_replace => {
                self.check_owner(&Relation::View(Arc::clone(&old)))?;
                owner = old.owner;
                check_replaced(&old, &columns)?;
                if old.columns.len() < columns.len() {
                    // The new columns may change the meaning of views over this one, so their queries are bound again
                    // afterwards.
                    beside = self.beside_new_column(old.oid, old.columns.len() as i16 + 1)?;
                }
                self.state.remove(old.oid);
                old.oid
            }
            Some(other) if create.or_replace => {
                let message = format!("\"{}\" is not a view", other.name());
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            Some(other) => {
                let message = format!("relation \"{}\" already exists", other.name());
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
            }
        };
        let path = self.path.to_vec();
        let view = ViewInfo { oid, schema, name: own_name, owner, columns, text, path, uses };
        let view = Relation::View(Arc::new(view));
        // A replaced view keeps its owner and its privileges.
        if is_new {
            self.add_relation(view)?
        } else {
            self.state.add(view)?
        }
        self.put_renamed(beside, "add a column to a view")?;
        Ok("CREATE VIEW".into())
    }

    /// Returns the stored text of a view's query, by the notes of its binding: with `*` expanded, relations with their
    /// schemas, and OIDs of relations in literals. Also returns the OIDs of the relations that it uses.
    fn kept_query(&self, create: &CreateView, notes: &[NameReference]) -> SqlResult<(String, Vec<u32>)> {
        let mut edits = Edits::default();
        let mut uses = settle(notes, &mut edits);
        let mut relations = HashMap::new();
        for note in notes {
            match &note.of {
                NameTarget::Star(columns) => edits.replace(note.span, written_out(note.span.of(self.text), columns)),
                NameTarget::Relation(oid) => {
                    relations.insert(note.span.start, *oid);
                    uses.push(*oid);
                }
                NameTarget::Literal(_)
                | NameTarget::Moment(_)
                | NameTarget::Column(..)
                | NameTarget::Routine { .. } => {}
            }
        }
        let mut qualifier = SchemaQualifier { text: self.text, state: &self.state, relations, edits };
        visit::query(&create.query, &mut qualifier);
        let text = on_one_line(&qualifier.edits.apply(self.text, create.extent))?;
        let text = if create.is_recursive { recursive_text(create, &text) } else { text };
        // The text must bind again. It does not if `*` stood for columns of two relations with the same name.
        self.binder_of(&text).noting().query(&grammar::query(&text)?, None).map_err(SqlError::nowhere)?;
        uses.sort_unstable();
        uses.dedup();
        Ok((text, uses))
    }
}

/// Visitor that adds the schemas of relations to their names.
struct SchemaQualifier<'q> {
    text: &'q str,
    state: &'q CatalogState,
    /// OIDs of relations by the positions of their names.
    relations: HashMap<u32, u32>,
    edits: Edits,
}

impl visit::Visitor for SchemaQualifier<'_> {
    fn relation(&mut self, name: &ObjectName) {
        let [own] = &name.parts[..] else { return };
        let relation = self.relations.get(&own.span.start).and_then(|oid| self.state.relation_numbered(*oid));
        let schema = relation.and_then(|relation| self.state.schema_numbered(relation.schema()));
        if let Some(schema) = schema {
            let qualified = format!("{}.{}", quoted(&schema.name), own.span.of(self.text));
            self.edits.replace(own.span, qualified);
        }
    }
}

/// Expands `*` to the columns it stands for, qualified by the names of their relations if they have any.
fn written_out(star: &str, columns: &[(Option<String>, String)]) -> String {
    let of_relation = star.strip_suffix('*').filter(|before| !before.is_empty());
    let column = |(table, column): &(Option<String>, String)| match (of_relation, table) {
        // As written, perhaps with a schema.
        (Some(relation), _) => format!("{relation}{}", quoted(column)),
        (None, Some(table)) => format!("{}.{}", quoted(table), quoted(column)),
        (None, None) => quoted(column),
    };
    let columns = columns.iter().map(column).collect::<Vec<_>>().join(", ");
    // `TABLE name` stands for `SELECT * FROM name`.
    if star.ends_with('*') { columns } else { format!("SELECT {columns} FROM") }
}

/// Returns the query of a recursive view: `WITH RECURSIVE view (columns) AS (query) SELECT columns FROM view`. Parts
/// that the statement does not contain have no position.
fn recursive_query(create: &CreateView) -> Query {
    let nowhere = |name: &Name| Name { text: name.text.clone(), span: Span::NOWHERE };
    let own: Vec<Name> = create.name.parts.last().map(nowhere).into_iter().collect();
    let tables = own.iter().map(|name| CommonTable {
        name: name.clone(),
        columns: create.columns.iter().map(nowhere).collect(),
        materialized: Materialized::Default,
        statement: CommonStatement::Query(Box::new(create.query.clone())),
        unsupported: None,
    });
    let with = With { is_recursive: true, tables: tables.collect(), span: Span::NOWHERE };
    let item = |name: &Name| {
        let kind = ExprKind::Column(ObjectName { parts: vec![nowhere(name)] });
        SelectItem { value: Expr { kind, span: Span::NOWHERE }, label: None, span: Span::NOWHERE }
    };
    let name = ObjectName { parts: own };
    let from = TableItem { name, is_only: false, alias: None, is_sampled: false, span: Span::NOWHERE };
    let select = Select {
        distinct: Distinct::No,
        list: create.columns.iter().map(item).collect(),
        into: None,
        from: vec![FromItem::Table(from)],
        condition: None,
        group_by: Vec::new(),
        is_group_distinct: false,
        having: None,
        windows: Vec::new(),
    };
    let (order_by, locking) = (Vec::new(), Vec::new());
    let body = QueryBody::Select(Box::new(select));
    Query { with: Some(with), body, order_by, limit: Limit::default(), locking, span: Span::NOWHERE }
}

/// Returns the text of the query of a recursive view.
fn recursive_text(create: &CreateView, query: &str) -> String {
    let name = create.name.parts.last().map(|name| quoted(name)).unwrap_or_default();
    let columns = create.columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    format!("WITH RECURSIVE {name}({columns}) AS ({query}) SELECT {columns} FROM {name}")
}

/// Returns the names and types of a view's columns.
fn view_columns(create: &CreateView, bound: &BoundQuery) -> SqlResult<Vec<(String, SqlType)>> {
    if bound.columns.len() < create.columns.len() {
        let message = "CREATE VIEW specifies more column names than columns";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    let mut named: Vec<(String, SqlType)> = Vec::new();
    for (at, column) in bound.columns.iter().enumerate() {
        let name = create.columns.get(at).map_or_else(|| column.name.clone(), ToString::to_string);
        if named.iter().any(|(other, _)| *other == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        named.push((name, settled(column.kind)));
    }
    Ok(named)
}

/// Checks that a view may be replaced: the new one has the old columns, and perhaps more after them.
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
