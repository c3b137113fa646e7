//! `CREATE TABLE`, `CREATE TABLE AS`, `CREATE SCHEMA`, `TRUNCATE`.

use super::columns::TableDraft;
use super::constraints::{NewConstraint, NewConstraintKind};
use super::like::LikeIndex;
use super::rewrite::ColumnSource;
use super::{Ddl, DdlResult};
use crate::context::with_kept;
use catalog::acl::Privileges;
use catalog::rights::Rights;
use catalog::{ColumnDef, Relation, Schema, TableInfo};
use engine::TableLock;
use query::bind::Binder;
use query::planner::Planner;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::ast::{
    CreateSchema, CreateTable, CreateTableAs, ObjectName, Persistence, StorageParameter, TableElement, TableSource,
    TruncateCommand,
};
use syntax::lex::Span;

/// Returns the position of a constraint's kind in the order in which a new table gets its constraints, as in
/// PostgreSQL. Generated names are numbered in this order.
fn kind_order(constraint: &NewConstraint<'_>) -> u8 {
    match &constraint.what {
        NewConstraintKind::Check { .. } | NewConstraintKind::Copied(_) => 0,
        NewConstraintKind::Key { options, .. } if options.is_primary => 1,
        NewConstraintKind::Key { .. } => 2,
        NewConstraintKind::Foreign { .. } => 3,
        // Refused when they are added.
        NewConstraintKind::KeyUsingIndex | NewConstraintKind::Exclude => 4,
    }
}

impl Ddl<'_> {
    pub(super) fn create_table(&mut self, create: &CreateTable) -> SqlResult<DdlResult> {
        let CreateTable { name, persistence, if_not_exists, elements, parameters, unsupported } = create;
        self.look_at_storage(*persistence, parameters, unsupported)?;
        let Some(mut draft) = self.new_draft(name, *if_not_exists)? else { return Ok("CREATE TABLE".into()) };
        let (mut pending, mut copied, mut indexes) = (Vec::new(), Vec::new(), Vec::new());
        for element in elements {
            match element {
                TableElement::Column(column) => self.add_column(&mut draft, column, &mut pending)?,
                TableElement::Constraint(constraint) => {
                    if constraint.is_not_valid {
                        let error = SqlError::unsupported("NOT VALID");
                        return Err(self.binder().at_place(error, constraint.span));
                    }
                    pending.push(NewConstraint::from(&**constraint));
                }
                TableElement::Like { table, options, span: _ } => {
                    self.add_like(&mut draft, table, options, &mut copied, &mut indexes)?;
                }
            }
        }
        // The constraints of columns and of the table are sorted together by position. Those copied from another table
        // come last.
        pending.sort_by_key(|one| (kind_order(one), one.span.start));
        pending.append(&mut copied);
        let table = self.finish_new(draft, &pending, indexes)?;
        debug_assert!(!table.is_retired());
        Ok("CREATE TABLE".into())
    }

    /// Returns the draft of a new table; `None` if the name is taken, and `IF NOT EXISTS` is given.
    fn new_draft(&mut self, name: &ObjectName, if_not_exists: bool) -> SqlResult<Option<TableDraft>> {
        let (schema, name) = self.place(name)?;
        if self.is_taken(schema, &name) {
            let message = format!("relation \"{name}\" already exists");
            if !if_not_exists {
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
            }
            self.notice(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
            return Ok(None);
        }
        Ok(Some(TableDraft {
            oid: self.catalog.oid()?,
            schema,
            name,
            owner: self.user(),
            columns: Vec::new(),
            indexes: Vec::new(),
            constraints: Vec::new(),
            next_column: 1,
            counted: Arc::default(),
        }))
    }

    /// Creates the table of a draft with its constraints, in this order, and adds it to the state.
    fn finish_new(
        &mut self,
        mut draft: TableDraft,
        pending: &[NewConstraint<'_>],
        indexes: Vec<LikeIndex>,
    ) -> SqlResult<Arc<TableInfo>> {
        pending.iter().try_for_each(|one| self.add_constraint(&mut draft, one))?;
        self.add_like_indexes(&mut draft, indexes)?;
        pending.iter().try_for_each(|one| self.add_reference(&mut draft, one))?;
        let schema = self.schema_of(draft.schema)?;
        let table = self.engine_table(draft.engine_def(&schema)?)?;
        let table = Arc::new(draft.finish(table));
        self.add_relation(Relation::Table(Arc::clone(&table)))?;
        Ok(table)
    }

    pub(super) fn create_table_as(&mut self, create: &CreateTableAs) -> SqlResult<DdlResult> {
        let CreateTableAs { name, persistence, if_not_exists, columns, parameters, source, with_data, unsupported } =
            create;
        self.look_at_storage(*persistence, parameters, unsupported)?;
        let query = match source {
            TableSource::Query(query) => query,
            TableSource::Execute(_) => return Err(SqlError::unsupported("CREATE TABLE AS EXECUTE")),
        };
        let Some(mut draft) = self.new_draft(name, *if_not_exists)? else { return Ok("CREATE TABLE AS".into()) };
        // The query reads what the transaction's other queries read.
        let seen = with_kept(&self.state, self.kept, self.catalog)?;
        let catalog = seen.as_ref().unwrap_or(&self.state);
        let binder = Binder::new(catalog, self.path, self.text, self.run.env, Vec::new());
        let mut bound = binder.query(query, None)?;
        binder.without_parameters()?;
        let needs = binder.take_needs();
        if let Some(rights) = Rights::of_session(catalog, self.run.env) {
            needs.iter().try_for_each(|need| rights.check(need))?;
        }
        bound.columns.iter_mut().for_each(|column| column.kind = query::bind::settled(column.kind));
        if bound.columns.len() < columns.len() {
            let message = "too many column names were specified";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        for (at, column) in bound.columns.iter().enumerate() {
            let name = columns.get(at).map_or_else(|| column.name.clone(), ToString::to_string);
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
        let plan = Planner::default().query(bound.plan)?;
        let table = self.finish_new(draft, &[], Vec::new())?;
        let rows = if *with_data { self.run.collect(&plan)? } else { Vec::new() };
        self.insert_all(&table, &rows)?;
        Ok(DdlResult { tag: "SELECT", rows: Some(rows.len() as u64) })
    }

    pub(super) fn schema_of(&self, oid: u32) -> SqlResult<Schema> {
        let missing = || SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema with OID {oid} does not exist"));
        self.state.schema_numbered(oid).cloned().ok_or_else(missing)
    }

    /// Checks the storage options of a new table, which have no effect here.
    ///
    /// # Errors
    /// `0A000`
    fn look_at_storage(
        &mut self,
        persistence: Persistence,
        parameters: &[StorageParameter],
        unsupported: &[(&'static str, Span)],
    ) -> SqlResult<()> {
        refuse!(persistence == Persistence::Temporary => "TEMPORARY");
        if let Some((feature, at)) = unsupported.first() {
            return Err(self.binder().at_place(SqlError::unsupported(feature), *at));
        }
        if persistence == Persistence::Unlogged {
            self.notice(SqlState::WARNING, "UNLOGGED is ignored: all data is in memory".to_owned());
        }
        let shown = |parameter: &StorageParameter| match &parameter.value {
            Some(value) => Ok(format!("{} = {value}", parameter.name)),
            None => Err(SqlError::unsupported("a storage parameter without a value, or of a key's index")),
        };
        let shown = parameters.iter().map(shown).collect::<SqlResult<Vec<_>>>()?;
        if !shown.is_empty() {
            self.notice(SqlState::WARNING, format!("storage parameters are ignored: {}", shown.join(", ")));
        }
        Ok(())
    }

    pub(super) fn create_schema(&mut self, create: &CreateSchema) -> SqlResult<DdlResult> {
        let CreateSchema { name, owner, if_not_exists, has_elements } = create;
        refuse!(*has_elements => "definitions in CREATE SCHEMA");
        let owner = owner.as_ref().map_or(Ok(self.user()), |owner| self.role(owner))?;
        let name = name.as_ref().map_or_else(|| self.role_name(owner), ToString::to_string);
        self.check_create_schema()?;
        self.check_may_become(owner)?;
        if name.starts_with("pg_") {
            let message = format!("unacceptable schema name \"{name}\"");
            return Err(SqlError::new(SqlState::RESERVED_NAME, message)
                .detail("The prefix \"pg_\" is reserved for system schemas."));
        }
        if catalog::system::is_schema(&name) || self.state.schema(&name).is_some() {
            if !if_not_exists {
                let message = format!("schema \"{name}\" already exists");
                return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message));
            }
            self.notice(SqlState::DUPLICATE_SCHEMA, format!("schema \"{name}\" already exists, skipping"));
            return Ok("CREATE SCHEMA".into());
        }
        let schema = Schema { oid: self.catalog.oid()?, name, owner };
        let of = schema.securable();
        self.state.add_schema(schema)?;
        self.give_default_rights(of, 0);
        Ok("CREATE SCHEMA".into())
    }

    pub(super) fn truncate(&mut self, truncate: &TruncateCommand) -> SqlResult<DdlResult> {
        let TruncateCommand { tables: targets, restarts, is_cascading } = truncate;
        let mut tables: Vec<Arc<TableInfo>> = Vec::new();
        // Inheritance does not exist here, so ONLY makes no difference.
        for target in targets {
            let table = self.binder().table(&target.name)?;
            self.check_privilege(table.oid, Privileges::TRUNCATE)?;
            if tables.iter().all(|other| other.oid != table.oid) {
                tables.push(table);
            }
        }
        let mut at = 0;
        while at < tables.len() {
            let parent = Arc::clone(&tables[at]);
            let children: Vec<_> = self.state.referencing(parent.oid).cloned().collect();
            for child in children {
                if tables.iter().any(|other| other.oid == child.oid) {
                    continue;
                }
                if !is_cascading {
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
                self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("truncate cascades to table \"{}\"", child.name));
                self.check_privilege(child.oid, Privileges::TRUNCATE)?;
                tables.push(child);
            }
            at += 1;
        }
        for table in tables {
            let mut draft = TableDraft::of(&table);
            draft.counted = Arc::default();
            let fresh = self.in_place_of(&table, draft)?;
            self.replace_table(fresh)?;
            if *restarts {
                self.restart_sequences(table.oid)?;
            }
        }
        Ok("TRUNCATE TABLE".into())
    }

    /// Restarts the sequences that a table owns, within this transaction: each gets a value of its own.
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

    /// Replaces a table by one with its rows: `sources` tells the source of each column.
    pub(super) fn rebuild(
        &mut self,
        old: &TableInfo,
        draft: TableDraft,
        sources: &[ColumnSource],
    ) -> SqlResult<Arc<TableInfo>> {
        let table = self.in_place_of(old, draft)?;
        // Every snapshot sees the copied rows, so they must be those of this snapshot.
        if self.keeps_snapshot && !self.run.txn.is_unchanged(&old.table)? {
            return Err(SqlError::changed_since());
        }
        self.copy_rows(old, &table, sources)?;
        self.replace_table(table)
    }

    /// Returns a description with a new, empty table of the engine in the place of another's. Locks of rows and tables,
    /// and records of reads, belong to a table of the engine. Their holder must not be left with the old table while
    /// others go on with the new one. So this excludes all holders, whatever the statement does.
    fn in_place_of(&mut self, old: &TableInfo, draft: TableDraft) -> SqlResult<TableInfo> {
        self.lock(old, TableLock::AccessExclusive)?;
        let schema = self.schema_of(draft.schema)?;
        let fresh = self.engine_table(draft.engine_def(&schema)?)?;
        Ok(draft.finish(fresh))
    }
}
