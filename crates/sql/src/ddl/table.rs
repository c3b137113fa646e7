//! `CREATE TABLE`, `CREATE TABLE AS`, `CREATE SCHEMA`, `TRUNCATE`.

use super::columns::Draft;
use super::like::LikeIndex;
use super::rewrite::Source;
use super::{Ddl, Defined};
use crate::session::with_kept;
use catalog::{ColumnDef, Relation, Schema, TableInfo};
use engine::TableLock;
use query::bind::Binder;
use sqlparser::ast::{self, Spanned, Statement, TableConstraint};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::parse::{folded, relations};

/// Whether options begin with this word.
fn says(options: &ast::CreateTableOptions, word: &str) -> bool {
    options.to_string().trim_start().to_uppercase().starts_with(word)
}

/// Order in which a new table gets constraints of each kind, as in PostgreSQL. Names that nobody has written are numbered in it.
fn kind_order(constraint: &TableConstraint) -> u8 {
    match constraint {
        TableConstraint::Check(_) => 0,
        TableConstraint::PrimaryKey(_) => 1,
        TableConstraint::Unique(_) => 2,
        TableConstraint::ForeignKey(_) => 3,
        // Refused when they are added.
        TableConstraint::Index(_)
        | TableConstraint::FulltextOrSpatial(_)
        | TableConstraint::PrimaryKeyUsingIndex(_)
        | TableConstraint::UniqueUsingIndex(_)
        | TableConstraint::Exclude(_) => 4,
    }
}

impl Ddl<'_> {
    pub(super) fn create_table(&mut self, create: &ast::CreateTable) -> SqlResult<Defined> {
        self.refuse_others(create)?;
        let (schema, name) = self.place(&create.name)?;
        let tag = if create.query.is_some() { "CREATE TABLE AS" } else { "CREATE TABLE" };
        if self.is_taken(schema, &name) {
            let message = format!("relation \"{name}\" already exists");
            if !create.if_not_exists {
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
            }
            self.notice(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
            return Ok(tag.into());
        }
        let mut draft = Draft {
            oid: self.catalog.oid()?,
            schema,
            name,
            owner: self.user(),
            columns: Vec::new(),
            indexes: Vec::new(),
            constraints: Vec::new(),
            next_column: 1,
            counted: Arc::default(),
        };
        if let Some(query) = &create.query {
            return self.create_table_as(create, draft, query);
        }
        let (mut pending, mut copied, mut indexes) = (Vec::new(), Vec::new(), Vec::new());
        for column in &create.columns {
            match relations::like(column) {
                Some((of, options)) => self.add_like(&mut draft, of, options, &mut copied, &mut indexes)?,
                None => self.add_column(&mut draft, column, &mut pending)?,
            }
        }
        pending.extend(create.constraints.iter().cloned());
        // Those of columns and those of the table stand between one another. Another table's come last.
        pending.sort_by_key(|one| (kind_order(one), one.span().start));
        pending.append(&mut copied);
        let table = self.finish_new(draft, &pending, indexes)?;
        debug_assert!(!table.is_retired());
        Ok(tag.into())
    }

    /// Makes the table of a draft with its constraints, in this order, and puts it into the state.
    fn finish_new(
        &mut self,
        mut draft: Draft,
        pending: &[TableConstraint],
        indexes: Vec<LikeIndex>,
    ) -> SqlResult<Arc<TableInfo>> {
        pending.iter().try_for_each(|one| self.add_constraint(&mut draft, one))?;
        self.add_like_indexes(&mut draft, indexes)?;
        for one in pending {
            if let TableConstraint::ForeignKey(key) = one {
                self.add_reference(&mut draft, key)?;
            }
        }
        let schema = self.schema_of(draft.schema)?;
        let table = self.engine_table(draft.engine_def(&schema)?)?;
        let table = Arc::new(draft.finish(table));
        self.state.add(Relation::Table(Arc::clone(&table)))?;
        Ok(table)
    }

    fn create_table_as(
        &mut self,
        create: &ast::CreateTable,
        mut draft: Draft,
        query: &ast::Query,
    ) -> SqlResult<Defined> {
        refuse!(!create.constraints.is_empty() => "a constraint in CREATE TABLE AS");
        if create.columns.iter().any(|column| !relations::is_untyped(column)) {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error: a column of CREATE TABLE AS has a type"));
        }
        // It reads what the transaction's queries read.
        let seen = with_kept(&self.state, self.kept, self.catalog)?;
        let catalog = seen.as_ref().unwrap_or(&self.state);
        let binder = Binder::new(catalog, self.path, self.text, self.run.env, Vec::new());
        let mut bound = binder.query(query, None)?;
        binder.without_parameters()?;
        bound.columns.iter_mut().for_each(|column| column.kind = query::bind::settled(column.kind));
        if bound.columns.len() < create.columns.len() {
            let message = "too many column names were specified";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        for (at, column) in bound.columns.iter().enumerate() {
            let name = match create.columns.get(at) {
                Some(own) => folded(&own.name),
                None => column.name.clone(),
            };
            if draft.column(&name).is_some() {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            draft.columns.push(ColumnDef {
                name,
                number: at as i16 + 1,
                kind: column.kind,
                not_null: false,
                default: None,
                identity: None,
                collation: None,
            });
        }
        draft.next_column = draft.columns.len() as i16 + 1;
        let plan = bound.plan;
        let table = self.finish_new(draft, &[], Vec::new())?;
        let wants_rows = !matches!(create.with_data, Some(ast::WithData { data: false, .. }));
        let rows = if wants_rows { self.run.collect(&plan, None)? } else { Vec::new() };
        self.insert_all(&table, &rows)?;
        Ok(Defined { tag: "SELECT", rows: Some(rows.len() as u64) })
    }

    pub(super) fn schema_of(&self, oid: u32) -> SqlResult<Schema> {
        let missing = || SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema with OID {oid} does not exist"));
        self.state.schema_numbered(oid).cloned().ok_or_else(missing)
    }

    /// Whatever else the statement says, compared with one that says nothing else.
    fn refuse_others(&mut self, create: &ast::CreateTable) -> SqlResult<()> {
        let plain = syntax::parse::parse("create table t (a int)")?;
        let [syntax::parse::Parsed { tree: Statement::CreateTable(plain), .. }] = &plain[..] else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "CREATE TABLE does not parse"));
        };
        refuse!(
            create.temporary => "TEMPORARY", create.like.is_some() => "LIKE", create.inherits.is_some() => "INHERITS",
            create.partition_by.is_some() || create.partition_of.is_some() => "PARTITION",
            create.on_commit.is_some() => "ON COMMIT", says(&create.table_options, "TABLESPACE") => "TABLESPACE",
        );
        // These say how a table is stored, which nobody can see here.
        if create.unlogged {
            self.notice(SqlState("01000"), "UNLOGGED is ignored: all data is in memory".to_owned());
        }
        if let ast::CreateTableOptions::With(options) = &create.table_options {
            let names: Vec<String> = options.iter().map(ToString::to_string).collect();
            self.notice(SqlState("01000"), format!("storage parameters are ignored: {}", names.join(", ")));
        } else {
            refuse!(create.table_options != plain.table_options => "an option of CREATE TABLE");
        }
        let same = ast::CreateTable {
            name: plain.name.clone(),
            columns: plain.columns.clone(),
            constraints: plain.constraints.clone(),
            if_not_exists: plain.if_not_exists,
            unlogged: plain.unlogged,
            table_options: plain.table_options.clone(),
            query: plain.query.clone(),
            with_data: plain.with_data,
            ..create.clone()
        };
        refuse!(same != *plain => "an option of CREATE TABLE");
        Ok(())
    }

    pub(super) fn create_schema(&mut self, statement: &Statement) -> SqlResult<Defined> {
        let Statement::CreateSchema {
            schema_name,
            or_replace: false,
            if_not_exists,
            with: None,
            options: None,
            default_collate_spec: None,
            clone: None,
        } = statement
        else {
            return Err(SqlError::unsupported("this CREATE SCHEMA"));
        };
        let name = match schema_name {
            ast::SchemaName::Simple(name) => match &self.binder().name_parts(name)?[..] {
                [name] => name.clone(),
                _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "the name of a schema has one part")),
            },
            _ => return Err(SqlError::unsupported("CREATE SCHEMA AUTHORIZATION")),
        };
        if name.starts_with("pg_") {
            let message = format!("unacceptable schema name \"{name}\"");
            return Err(
                SqlError::new(SqlState("42939"), message).detail("The prefix \"pg_\" is reserved for system schemas.")
            );
        }
        if *if_not_exists && self.state.schema(&name).is_some() {
            self.notice(SqlState("42P06"), format!("schema \"{name}\" already exists, skipping"));
            return Ok("CREATE SCHEMA".into());
        }
        let schema = Schema { oid: self.catalog.oid()?, name, owner: self.user() };
        self.state.add_schema(schema)?;
        Ok("CREATE SCHEMA".into())
    }

    pub(super) fn truncate(&mut self, truncate: &ast::Truncate) -> SqlResult<Defined> {
        let ast::Truncate { table_names, partitions, table: _, if_exists, identity, cascade, on_cluster } = truncate;
        refuse!(partitions.is_some() => "PARTITION", *if_exists => "TRUNCATE IF EXISTS", on_cluster.is_some() => "ON CLUSTER");
        let mut tables: Vec<Arc<TableInfo>> = Vec::new();
        for ast::TruncateTableTarget { name, only: _, has_asterisk: _ } in table_names {
            let table = self.binder().table(name)?;
            if tables.iter().all(|other| other.oid != table.oid) {
                tables.push(table);
            }
        }
        let cascades = matches!(cascade, Some(ast::CascadeOption::Cascade));
        let mut at = 0;
        while at < tables.len() {
            let parent = Arc::clone(&tables[at]);
            let children: Vec<_> = self.state.referencing(parent.oid).cloned().collect();
            for child in children {
                if tables.iter().any(|other| other.oid == child.oid) {
                    continue;
                }
                if !cascades {
                    return Err(SqlError::new(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        "cannot truncate a table referenced in a foreign key constraint",
                    )
                    .detail(format!("Table \"{}\" references \"{}\".", child.name, parent.name))
                    .hint(format!(
                        "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                        child.name
                    )));
                }
                self.notice(SqlState("00000"), format!("truncate cascades to table \"{}\"", child.name));
                tables.push(child);
            }
            at += 1;
        }
        for table in tables {
            let mut draft = Draft::of(&table);
            draft.counted = Arc::default();
            let fresh = self.in_place_of(&table, draft)?;
            self.replace_table(fresh)?;
            if matches!(identity, Some(ast::TruncateIdentityOption::Restart)) {
                self.restart_sequences(table.oid)?;
            }
        }
        Ok("TRUNCATE TABLE".into())
    }

    /// The sequences that a table owns begin again, in this transaction's eyes: each gets a value of its own.
    fn restart_sequences(&mut self, table: u32) -> SqlResult<()> {
        let owned: Vec<_> =
            self.state.sequences().filter(|one| one.owned_by.is_some_and(|(of, _)| of == table)).cloned().collect();
        for sequence in owned {
            self.lock_engine_table(&sequence.shared.lock, TableLock::AccessExclusive)?;
            let value = catalog::SequenceValue { last: sequence.start, is_called: false };
            let fresh = catalog::Sequence { value: Arc::new(std::sync::Mutex::new(value)), ..sequence.next_version() };
            self.state.replace(Relation::Sequence(Arc::new(fresh)))?;
        }
        Ok(())
    }

    /// A table with these rows in the place of another: `sources` says where each column comes from.
    pub(super) fn rebuild(&mut self, old: &TableInfo, draft: Draft, sources: &[Source]) -> SqlResult<Arc<TableInfo>> {
        let table = self.in_place_of(old, draft)?;
        // What is copied is there for every snapshot, so it must be what this one has.
        if self.keeps_snapshot && !self.run.txn.is_unchanged(&old.table)? {
            return Err(SqlError::changed_since());
        }
        self.copy_rows(old, &table, sources)?;
        self.replace_table(table)
    }

    /// A table of its own in the engine, without rows, for another's description. Locks of rows and of tables, and notes of
    /// what was read, are of a table of the engine: whoever has one must not be left with the old table, while others go on
    /// with the new one. So this excludes everybody who has any, whatever the statement does.
    fn in_place_of(&mut self, old: &TableInfo, draft: Draft) -> SqlResult<TableInfo> {
        self.lock(old, TableLock::AccessExclusive)?;
        let schema = self.schema_of(draft.schema)?;
        let fresh = self.engine_table(draft.engine_def(&schema)?)?;
        Ok(draft.finish(fresh))
    }
}
