//! Data definition: `CREATE`, `ALTER`, `DROP`, `TRUNCATE`, `COMMENT`.
//!
//! A statement changes a copy of the catalog, and tables of the engine that no other transaction knows yet. Both become
//! visible with the transaction's commit, or are discarded, so definitions are transactional as rows are.
//!
//! **Invariant:** nothing that another transaction can see changes here. A table whose rows must look different is
//! copied into a new one ([`rewrite`]); readers continue with the old one. The statement may be run again after a wait;
//! its changes so far are dropped then.

mod alter;
mod columns;
mod comment;
mod constraints;
mod default_rights;
mod drop;
mod grant;
mod identity;
mod index;
mod like;
mod module;
mod moves;
mod names;
pub(crate) mod owned;
mod owners;
mod passes;
mod renames;
mod retype;
mod rewrite;
mod rights;
pub(crate) mod role;
mod routine;
mod routine_body;
mod routine_changes;
mod routine_isolation;
mod routine_names;
mod routine_options;
mod routine_parameters;
mod routine_types;
mod routine_urgent;
mod sequence;
mod table;
mod uses;
mod view;

use self::columns::TableDraft;
use crate::exec::Run;
use catalog::{Catalog, CatalogState, Relation, TableInfo};
use engine::{Engine, Table, TableDef, TableLock, Wait};
use query::bind::Binder;
use stage::turn;
use statement::error::{RetryReason, SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::ast::{ObjectKind, ObjectName, RoutineWord, Statement};
use syntax::names::{NAME_MAX, clipped};

/// Context of one statement that is being executed.
pub(crate) struct Ddl<'a> {
    pub(crate) run: &'a Run<'a>,
    pub(crate) engine: &'a Engine,
    pub(crate) catalog: &'a Catalog,
    pub(crate) state: CatalogState,
    pub(crate) path: &'a [String],
    pub(crate) text: &'a str,
    pub(crate) made: &'a mut DdlEffects,
    /// True if the transaction reads by a snapshot that may be older than its locks.
    pub(crate) keeps_snapshot: bool,
    /// Tables as of that snapshot, where the catalog has replaced them since.
    pub(crate) kept: &'a [Arc<TableInfo>],
    /// Locks that the transaction holds on tables of the engine.
    pub(crate) locked: &'a mut Vec<(usize, TableLock)>,
}

/// Returns true if the error asks to run the statement again.
pub(crate) fn asks_again(error: &SqlError) -> bool {
    error.begins_again() == Some(RetryReason::Locked)
}

/// Code that a definition needs, and that is loaded without the lock of definitions.
#[derive(Debug)]
pub(crate) struct CodeToLoad {
    level: procs::Level,
    artifact: procs::Artifact,
    /// True to compile it for urgent contexts, too.
    is_urgent: bool,
    /// Tenant whose share it is.
    tenant: procs::Tenant,
}

impl CodeToLoad {
    /// Loads the code, which may take seconds. Threads of the level, or another statement that wants the same code, do
    /// the work: this thread misses no processor meanwhile, so the time stays that of the statement's stage.
    ///
    /// # Errors
    /// Those of the runtime.
    pub(crate) fn load(&self, runtimes: &procs::Runtimes) -> SqlResult<()> {
        turn::outside(|| {
            let program = runtimes.program(self.level, &self.artifact, self.tenant)?;
            if self.is_urgent { program.compile_for_urgent(&runtimes.tenant(self.tenant)) } else { Ok(()) }
        })
    }
}

/// Side results of a statement, beside the new state.
#[derive(Default)]
pub(crate) struct DdlEffects {
    /// Tables of the engine that the statement has created.
    pub(crate) tables: Vec<Arc<Table>>,
    pub(crate) notices: Vec<(&'static str, SqlError)>,
    /// Code that must be loaded, without the lock of definitions, before the statement is run again.
    pub(crate) to_load: Option<CodeToLoad>,
}

/// Result of a definition.
pub(crate) struct DdlResult {
    pub(crate) tag: &'static str,
    /// Number of rows, for the tags that contain one.
    pub(crate) rows: Option<u64>,
}

impl From<&'static str> for DdlResult {
    fn from(tag: &'static str) -> DdlResult {
        DdlResult { tag, rows: None }
    }
}

/// Returns the tag of a definition, for refusals.
pub(crate) fn verb(statement: &Statement) -> &'static str {
    match statement {
        Statement::CreateTable(_) => "CREATE TABLE",
        Statement::CreateTableAs(_) => "CREATE TABLE AS",
        Statement::CreateIndex(_) => "CREATE INDEX",
        Statement::CreateView(_) => "CREATE VIEW",
        Statement::CreateSequence(_) => "CREATE SEQUENCE",
        Statement::CreateSchema(_) => "CREATE SCHEMA",
        Statement::AlterTable(alter) => altering(alter.kind),
        Statement::AlterSequence(_) => altering(ObjectKind::Sequence),
        Statement::Rename(rename) => altering(rename.kind),
        Statement::SetSchema(set) => altering(set.kind),
        Statement::Owner(owner) => altering(owner.kind),
        Statement::Drop(drop) => dropping(drop.kind),
        Statement::DropDatabase(_) => dropping(ObjectKind::Database),
        Statement::Truncate(_) => "TRUNCATE TABLE",
        Statement::Comment(_) | Statement::CommentRoutine(_) => "COMMENT",
        Statement::CreateRoutine(create) if create.is_procedure => "CREATE PROCEDURE",
        Statement::CreateRoutine(_) => "CREATE FUNCTION",
        Statement::AlterRoutine(alter) => match alter.word {
            RoutineWord::Function => "ALTER FUNCTION",
            RoutineWord::Procedure => "ALTER PROCEDURE",
            RoutineWord::Routine => "ALTER ROUTINE",
        },
        Statement::DropRoutines(drop) => match drop.word {
            RoutineWord::Function => "DROP FUNCTION",
            RoutineWord::Procedure => "DROP PROCEDURE",
            RoutineWord::Routine => "DROP ROUTINE",
        },
        Statement::CreateModule(_) => "CREATE MODULE",
        Statement::OwnModule(_) => "ALTER MODULE",
        Statement::DropModules(_) => "DROP MODULE",
        Statement::Grant(grant) if grant.change.is_grant => "GRANT",
        Statement::Grant(_) => "REVOKE",
        Statement::DefaultPrivileges(_) => "ALTER DEFAULT PRIVILEGES",
        Statement::DropOwned(_) => "DROP OWNED",
        Statement::ReassignOwned(_) => "REASSIGN OWNED",
        _ => "this statement",
    }
}

/// Returns the words of an object's kind.
fn words_of(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Table => "table",
        ObjectKind::View => "view",
        ObjectKind::Index => "index",
        ObjectKind::Sequence => "sequence",
        ObjectKind::Schema => "schema",
        ObjectKind::Column => "column",
        ObjectKind::Constraint => "constraint",
        ObjectKind::Database => "database",
        ObjectKind::Role => "role",
    }
}

/// Returns the tag of an `ALTER` of this kind.
fn altering(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Table => "ALTER TABLE",
        ObjectKind::View => "ALTER VIEW",
        ObjectKind::Index => "ALTER INDEX",
        ObjectKind::Sequence => "ALTER SEQUENCE",
        ObjectKind::Schema => "ALTER SCHEMA",
        // No definition is about one of these alone.
        ObjectKind::Column | ObjectKind::Constraint | ObjectKind::Database | ObjectKind::Role => "ALTER",
    }
}

/// Returns the tag of a `DROP` of this kind.
fn dropping(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Table => "DROP TABLE",
        ObjectKind::View => "DROP VIEW",
        ObjectKind::Index => "DROP INDEX",
        ObjectKind::Sequence => "DROP SEQUENCE",
        ObjectKind::Schema => "DROP SCHEMA",
        ObjectKind::Database => "DROP DATABASE",
        ObjectKind::Role => "DROP ROLE",
        // Both are dropped by ALTER TABLE.
        ObjectKind::Column | ObjectKind::Constraint => "DROP",
    }
}

/// Refuses a table that no statement has created.
///
/// # Errors
/// `0A000`
fn refuse_adopted(table: &TableInfo) -> SqlResult<()> {
    if !table.is_adopted {
        return Ok(());
    }
    let what = format_args!("a definition that changes \"{}\" or refers to it", table.name);
    let detail = "The program itself has made the table and uses it as it is.";
    Err(SqlError::unsupported(what).detail(detail))
}

impl<'a> Ddl<'a> {
    pub(crate) fn apply(&mut self, statement: &Statement) -> SqlResult<DdlResult> {
        match statement {
            Statement::CreateTable(create) => self.create_table(create),
            Statement::CreateTableAs(create) => self.create_table_as(create),
            Statement::CreateIndex(create) => self.create_index(create),
            Statement::CreateView(create) => self.create_view(create),
            Statement::CreateSequence(create) => self.create_sequence(create),
            Statement::CreateSchema(create) => self.create_schema(create),
            Statement::AlterTable(alter) => self.alter_table(alter),
            Statement::AlterSequence(alter) => self.alter_sequence(alter),
            Statement::Rename(rename) => self.rename(rename),
            Statement::SetSchema(set) => self.move_relation(set),
            Statement::Owner(owner) => self.change_owner(owner),
            Statement::Drop(drop) => self.drop_objects(drop),
            Statement::DropDatabase(drop) => {
                let words = if drop.is_forced { "DROP DATABASE WITH (FORCE)" } else { "DROP DATABASE" };
                Err(SqlError::unsupported(words))
            }
            Statement::Truncate(truncate) => self.truncate(truncate),
            Statement::Comment(comment) => self.comment(comment),
            Statement::CreateRoutine(create) => self.create_routine(statement, create),
            Statement::AlterRoutine(alter) => self.alter_routine(statement, alter),
            Statement::DropRoutines(drop) => self.drop_routines(statement, drop),
            Statement::CommentRoutine(comment) => self.comment_on_routine(comment),
            Statement::CreateModule(create) => self.create_module(create),
            Statement::OwnModule(own) => self.own_module(own),
            Statement::DropModules(drop) => self.drop_modules(drop),
            Statement::Grant(grant) => self.grant(grant),
            Statement::DefaultPrivileges(defaults) => self.default_privileges(defaults),
            Statement::DropOwned(drop) => self.drop_owned(drop),
            Statement::ReassignOwned(reassign) => self.reassign_owned(reassign),
            other => Err(SqlError::unsupported(format_args!("the statement {}", verb(other)))),
        }
    }

    /// Returns a binder for the statement's text and the catalog as the statement has it so far.
    pub(crate) fn binder(&self) -> Binder<'_> {
        Binder::new(&self.state, self.path, self.text, self.run.env, Vec::new())
    }

    /// Returns a binder for the text of a stored definition.
    pub(crate) fn binder_of<'t>(&'t self, text: &'t str) -> Binder<'t> {
        Binder::new(&self.state, self.path, text, self.run.env, Vec::new()).of_stored_text()
    }

    pub(crate) fn notice(&mut self, state: SqlState, message: String) {
        self.made.notices.push(("NOTICE", SqlError::new(state, message)));
    }

    /// Returns the schema's OID and the name of a new relation.
    pub(crate) fn place(&self, name: &ObjectName) -> SqlResult<(u32, String)> {
        let binder = self.binder();
        let wanted = binder.qualified(name)?;
        let schema = match &wanted.schema {
            Some(schema) => self.state.schema(schema).ok_or_else(|| {
                let message = format!("schema \"{schema}\" does not exist");
                binder.at_name(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message), name)
            })?,
            None => self.path.iter().find_map(|schema| self.state.schema(schema)).ok_or_else(|| {
                let message = "no schema has been selected to create in";
                binder.at_name(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message), name)
            })?,
        };
        self.check_create(schema).map_err(|error| binder.at_name(error, name))?;
        Ok((schema.oid, wanted.name))
    }

    /// Returns true if a schema has a relation of this name.
    pub(crate) fn is_taken(&self, schema: u32, name: &str) -> bool {
        self.state.relations().any(|relation| relation.schema() == schema && relation.name() == name)
    }

    /// Returns true if the schema of a table that is being defined has a relation of this name. The draft stands for
    /// the table and its indexes.
    fn is_taken_beside(&self, draft: &TableDraft, name: &str) -> bool {
        let is_other = |relation: &Relation| match relation {
            Relation::Table(table) | Relation::Index { table, .. } => table.oid != draft.oid,
            Relation::View(_) | Relation::Sequence(_) => true,
        };
        let has_it = |relation: &Relation| relation.schema() == draft.schema && relation.name() == name;
        draft.name == name
            || draft.indexes.iter().any(|index| index.name == name)
            || self.state.relations().any(|relation| has_it(relation) && is_other(relation))
    }

    /// Returns a name that the schema does not have: `table_column_suffix`, if need be with a number at the end. The
    /// longer one of the table's name and the columns' names is cut until the name fits (PostgreSQL's
    /// `makeObjectName`).
    pub(crate) fn free_name(&self, parts: &[&str], suffix: &str, is_taken: impl Fn(&str) -> bool) -> String {
        let mut parts = parts.iter().copied().filter(|part| !part.is_empty());
        let first = parts.next().unwrap_or_default();
        let second = parts.collect::<Vec<_>>().join("_");
        let candidate = |number: usize| {
            let end = if number == 0 { format!("_{suffix}") } else { format!("_{suffix}{number}") };
            let between = if second.is_empty() { "" } else { "_" };
            let room = NAME_MAX.saturating_sub(end.len() + between.len());
            // The first part gets the space that the second leaves, and at least half.
            let of_first = first.len().min(room.div_ceil(2).max(room.saturating_sub(second.len())));
            let (first, second) = (clipped(first, of_first), clipped(&second, room - of_first));
            format!("{first}{between}{second}{end}")
        };
        let mut number = 0;
        loop {
            let name = candidate(number);
            if !is_taken(&name) {
                return name;
            }
            number += 1;
        }
    }

    /// Creates a table of the engine that no other transaction knows.
    pub(crate) fn engine_table(&mut self, mut def: TableDef) -> SqlResult<Arc<Table>> {
        if self.engine.table(&def.name).is_some() {
            def.name = format!("{}#{}", def.name, self.catalog.version());
        }
        let table = self.engine.create_table(def)?;
        self.made.tables.push(Arc::clone(&table));
        Ok(table)
    }

    /// Waits until no conflicting lock on the table is held, and locks it in this mode.
    ///
    /// # Errors
    /// An error that [`asks_again`], if the lock was not held before: the statement's snapshot may be older than the
    /// commit of the previous holder, so the statement is run again. Its changes so far, to tables that no other
    /// transaction knows, are dropped. `0A000` for a table that no statement has created: every definition that touches
    /// a table comes here first. `40001` for a table whose rows are elsewhere by the transaction's snapshot.
    pub(crate) fn lock(&mut self, table: &TableInfo, mode: TableLock) -> SqlResult<()> {
        refuse_adopted(table)?;
        self.check_current(table)?;
        self.lock_engine_table(&table.table, mode)
    }

    /// Locks a table of the engine, whatever it stands for, as [`Ddl::lock`] does.
    pub(crate) fn lock_engine_table(&mut self, table: &Arc<Table>, mode: TableLock) -> SqlResult<()> {
        let lock = (Arc::as_ptr(table) as usize, mode);
        let is_own = self.made.tables.iter().any(|own| Arc::ptr_eq(own, table));
        if is_own || self.locked.contains(&lock) {
            return Ok(());
        }
        self.run.txn.lock_table(table, mode, Wait::Block)?;
        self.locked.push(lock);
        Err(SqlError::again(RetryReason::Locked))
    }

    /// Locks tables as [`Ddl::lock_engine_table`] does, so that the statement is run again once for all of them.
    pub(crate) fn lock_all(&mut self, tables: &[Arc<Table>], mode: TableLock) -> SqlResult<()> {
        let mut is_first = true;
        for table in tables {
            let lock = (Arc::as_ptr(table) as usize, mode);
            if self.locked.contains(&lock) || self.made.tables.iter().any(|own| Arc::ptr_eq(own, table)) {
                continue;
            }
            // A wait makes this attempt release its locks, so only the first lock is waited for.
            match self.run.txn.lock_table(table, mode, if is_first { Wait::Block } else { Wait::NoWait }) {
                Ok(()) => self.locked.push(lock),
                Err(engine::Error::LockNotAvailable(_)) if !is_first => break,
                Err(error) => return Err(error.into()),
            }
            is_first = false;
        }
        if is_first { Ok(()) } else { Err(SqlError::again(RetryReason::Locked)) }
    }

    fn check_current(&self, table: &TableInfo) -> SqlResult<()> {
        let is_kept = self.kept.iter().any(|kept| kept.oid == table.oid);
        if is_kept { Err(SqlError::changed_since()) } else { Ok(()) }
    }

    /// Puts a table's new description in place.
    pub(crate) fn replace_table(&mut self, table: TableInfo) -> SqlResult<Arc<TableInfo>> {
        self.check_current(&table)?;
        let table = Arc::new(table);
        self.state.replace(Relation::Table(Arc::clone(&table)))?;
        Ok(table)
    }

    /// Returns the name of a relation in messages, with its schema if the search path does not find it.
    pub(crate) fn shown(&self, relation: &Relation) -> String {
        let name = relation.name();
        let found = self.state.relation(self.path, name).map(Relation::oid);
        let quoted = crate::system::quoted;
        match self.state.schema_numbered(relation.schema()) {
            Some(schema) if found != Some(relation.oid()) => format!("{}.{}", quoted(&schema.name), quoted(name)),
            _ => quoted(name),
        }
    }
}
