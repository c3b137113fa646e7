//! Catalog of a session, and uncommitted definitions of its transaction.
//!
//! **Invariant:** definitions of a transaction are private until its commit is decided. Then the new state is
//! published and replaced descriptions are retired, both before the locks are released; so a session that waited for
//! one of these locks sees the change. Tables of the engine that the catalog no longer names are dropped.

use super::action::{self, Action};
use super::authority::StatementNeeds;
use super::run::{RunNeeds, RunOutcome};
use super::{BoundStatement, Outcome, Session, Statement, Step, read_only};
use crate::context::with_kept;
use crate::ddl::{Ddl, DdlEffects, asks_again, verb};
use crate::system::SnapshotNames;
use catalog::acl::Privileges;
use catalog::rights::{Rights, role_named};
use catalog::{Catalog, CatalogSnapshot, CatalogState, ORDER, Relation, Sequence, TableInfo};
use engine::{ReplacedTable, Table, TableLock};
use locked::RwLocked;
use query::bind::Binder;
use query::plan::ColumnInfo;
use query::plan::TableUse;
use query::planner::Planner;
use stage::Stage;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::outcome::CommandTag;
use statement::pulse;
use std::cell::RefCell;
use std::sync::Arc;
use syntax::ast;
use types::SqlType;

/// Length of a text from which on its tables are determined only when it is bound.
const LONG_TEXT: usize = 4 << 10;

/// Uncommitted definitions of the transaction.
pub(super) struct PendingDefinitions {
    /// Catalog before the first definition; no other transaction has changed it since.
    base: Arc<CatalogState>,
    states: CatalogStates,
    /// Tables as of the transaction's snapshot that others have replaced in the catalog since.
    kept: Arc<[Arc<TableInfo>]>,
    /// Tables of the engine that the transaction created.
    tables: Vec<Arc<Table>>,
}

/// Catalog with the transaction's definitions.
#[derive(Clone)]
pub(super) struct CatalogStates {
    /// State to publish.
    published: Arc<CatalogState>,
    /// State as the transaction sees it, with the tables that it keeps.
    seen: Arc<CatalogState>,
}

impl CatalogStates {
    fn new(published: CatalogState, kept: &[Arc<TableInfo>], catalog: &Catalog) -> SqlResult<CatalogStates> {
        let published = Arc::new(published);
        let seen = match with_kept(&published, kept, catalog)? {
            Some(seen) => Arc::new(seen),
            None => Arc::clone(&published),
        };
        Ok(CatalogStates { published, seen })
    }
}

/// Returns the tables that a snapshot with the pinned catalog sees in an older version than the current one has.
fn replaced_since(pinned: &CatalogState, current: &CatalogState) -> Vec<Arc<TableInfo>> {
    let is_replaced = |table: &&Arc<TableInfo>| {
        current.table_numbered(table.oid).is_some_and(|now| !Arc::ptr_eq(&now.table, &table.table))
    };
    pinned.tables().filter(is_replaced).cloned().collect()
}

/// Catalog of a transaction that keeps its snapshot.
pub(super) struct PinnedCatalog {
    state: Arc<CatalogState>,
    /// Version of the shared catalog up to which it has all changes that the snapshot allows.
    pub(super) upto: u64,
}

impl PinnedCatalog {
    pub(super) fn new(state: Arc<CatalogState>) -> PinnedCatalog {
        PinnedCatalog { upto: state.version(), state }
    }
}

/// Tables of the engine, by address, with the modes in which the open transaction has locked them for definitions.
pub(super) type DefinitionLocks = Vec<(usize, TableLock)>;

impl PendingDefinitions {
    pub(super) fn states(&self) -> CatalogStates {
        self.states.clone()
    }
}

pub(super) type AnalysedStatement = (BoundStatement, Vec<SqlType>, Option<Vec<ColumnInfo>>);

impl Session {
    /// Returns the catalog for the next statement.
    pub(super) fn state(&self) -> Arc<CatalogState> {
        match (&self.work, &self.pinned) {
            (Some(work), _) => Arc::clone(&work.states.seen),
            (None, Some(pinned)) => Arc::clone(&pinned.state),
            (None, None) => self.database.catalog.current(),
        }
    }

    /// Returns true if the transaction has uncommitted definitions.
    pub(super) fn has_definitions(&self) -> bool {
        self.work.is_some()
    }

    /// Returns the version of that catalog.
    fn version(&self) -> u64 {
        match (&self.work, &self.pinned) {
            (Some(work), _) => work.states.seen.version(),
            (None, Some(pinned)) => pinned.state.version(),
            (None, None) => self.database.catalog.current_version(),
        }
    }

    /// Makes the catalog of the next statement the one by which values are read and written and functions are
    /// evaluated. Shared state is touched only if the catalog has changed.
    pub(super) fn see_now(&mut self) -> Arc<CatalogSnapshot> {
        // First, since another current role drops the snapshot of the one before.
        self.refresh_authority();
        match &self.catalog_snapshot {
            Some(seen)
                if self.roles.is_none()
                    && seen.state.version() == self.version()
                    && Arc::ptr_eq(&seen.path, &self.path)
                    && Arc::ptr_eq(&seen.roles, &self.database.roles) =>
            {
                let seen = Arc::clone(seen);
                self.refresh_env();
                seen
            }
            _ => {
                let state = self.state();
                self.see(&state)
            }
        }
    }

    /// Returns the search path.
    pub(super) fn search_path(&mut self) -> SqlResult<Arc<[String]>> {
        self.refresh_authority();
        // What a role may use changes with the roles and the catalog.
        let is_superuser = self.settings.is_superuser();
        let rights = if is_superuser { None } else { Some((self.roles_seen().version(), self.version())) };
        let version = (self.settings.version(), rights);
        if self.path_version == Some(version) {
            return Ok(Arc::clone(&self.path));
        }
        let user = &*self.env.user;
        let setting = self.settings.show("search_path")?;
        // The setting accepts lists of names only.
        let names = settings::names_of(setting).unwrap_or_default().into_iter();
        let names = names.map(|name| if name == "$user" { user.to_owned() } else { name });
        let path: Vec<String> = match is_superuser {
            true => names.collect(),
            // Schemas that the role may not use are left out, without an error.
            false => {
                let state = self.state();
                let rights = Rights::new(&state, self.roles_seen(), role_named(self.roles_seen(), user));
                names.filter(|name| rights.has_schema(name, Privileges::USAGE)).collect()
            }
        };
        if *path != *self.path {
            self.path = path.into();
        }
        self.path_version = Some(version);
        Ok(Arc::clone(&self.path))
    }

    /// Makes this catalog the one by which values are read and written and functions are evaluated.
    pub(super) fn see(&mut self, state: &Arc<CatalogState>) -> Arc<CatalogSnapshot> {
        self.refresh_authority();
        let roles = self.roles.as_ref().map_or(&self.database.roles, |changed| &changed.seen);
        let is_same = |seen: &&Arc<CatalogSnapshot>| {
            Arc::ptr_eq(&seen.state, state) && Arc::ptr_eq(&seen.path, &self.path) && Arc::ptr_eq(&seen.roles, roles)
        };
        if self.catalog_snapshot.as_ref().is_none_or(|seen| !is_same(&seen)) {
            let seen = Arc::new(CatalogSnapshot {
                state: Arc::clone(state),
                path: Arc::clone(&self.path),
                roles: Arc::clone(roles),
                provider: self.database.provider.clone(),
            });
            self.settings.forms.naming =
                Some(Arc::new(SnapshotNames { snapshot: Arc::clone(&seen), role: self.current_role() }));
            self.catalog_snapshot = Some(seen);
        }
        self.refresh_env();
        self.catalog_snapshot.clone().expect("it was just made")
    }

    /// Binds a statement by the current catalog. That may contain definitions which a transaction that keeps its
    /// snapshot does not know.
    pub(super) fn bind_now(
        &mut self,
        text: &str,
        tree: &ast::Statement,
        given: Vec<Option<SqlType>>,
    ) -> SqlResult<AnalysedStatement> {
        let bound = self.bind_seen(text, tree, given.clone());
        let version = self.database.catalog.current_version();
        let is_old = self.work.is_none() && self.pinned.as_ref().is_some_and(|pinned| pinned.upto != version);
        if is_old && bound.as_ref().is_err_and(SqlError::is_of_names) {
            self.advance_pinned(&[])?;
            return self.bind_seen(text, tree, given);
        }
        bound
    }

    fn bind_seen(
        &mut self,
        text: &str,
        tree: &ast::Statement,
        given: Vec<Option<SqlType>>,
    ) -> SqlResult<AnalysedStatement> {
        let path = self.search_path()?;
        let common = self.database.catalog.current_version();
        let seen = self.see_now();
        let state = &seen.state;
        let tables = RefCell::default();
        let bind = || {
            let binder = Binder::new(state, &path, text, &*self.env, given.clone());
            let mut planner = Planner::default();
            let bound = action::of_statement(&binder, &mut planner, tree);
            tables.replace(binder.take_tables());
            let (action, columns) = bound?;
            let dependencies = (binder.take_uses(), planner.into_sizes(), binder.take_needs());
            Ok((Arc::new(action), columns, binder.parameter_types()?, dependencies))
        };
        let bound = pulse::preparing(|| statement::stack::bounded(bind));
        let tables = tables.into_inner();
        let ((action, columns, parameters, (uses, sizes, needs)), is_deep) = match bound {
            Ok(bound) => bound,
            Err(error) if !error.is_of_names() => {
                self.unbound = None;
                return Err(error);
            }
            Err(error) => {
                self.note_failed(tables, common);
                return Err(error);
            }
        };
        self.unbound = None;
        self.is_deep |= is_deep;
        let catalog = state.version();
        let bound = BoundStatement {
            action,
            known: Arc::default(),
            columns: columns.as_deref().map(Arc::from),
            needs: StatementNeeds::new(needs),
            uses,
            sizes,
            tables,
            catalog,
            path,
            is_deep,
        };
        if LONG_TEXT < text.len()
            && let Action::Query(plan) = &*bound.action
        {
            // Binding is not inside a run here, so it holds up no other statement. What was bound on a large stack is
            // walked on one.
            statement::stack::fitting(is_deep, || {
                pulse::preparing(|| {
                    bound.known.read(&plan.rows);
                    Ok(())
                })
            })?;
        }
        Ok((bound, parameters, columns))
    }

    /// Returns the statement as bound by the current catalog, or, if it has begun, as it was bound then.
    pub(super) fn current(&mut self, statement: &Statement) -> SqlResult<Arc<BoundStatement>> {
        let bound = statement.bound();
        let Some(tree) = &statement.tree else { return Ok(bound) };
        if !bound.action.uses_catalog() {
            return Ok(bound);
        }
        if let Some(running) = &self.running {
            return Ok(Arc::clone(running));
        }
        let (version, path) = (self.version(), self.search_path()?);
        let has_path = Arc::ptr_eq(&bound.path, &path) || bound.path == path;
        if bound.catalog == version && has_path && bound.sizes.are_current() {
            return Ok(bound);
        }
        let given = statement.parameters.iter().copied().map(Some).collect();
        let before = self.clock.enter(Stage::Plan);
        let (bound, _, columns) = self.bind_now(&statement.text, tree, given)?;
        self.clock.restore(before);
        if statement.has_columns_fixed() && !statement.keeps_columns(columns.as_deref()) {
            let message = "cached plan must not change result type";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let bound = Arc::new(bound);
        *statement.bound.write_locked_anyway() = Arc::clone(&bound);
        Ok(bound)
    }

    /// Returns the version that the shared catalog must still have once the statement has its snapshot, if that
    /// matters: the statement takes a new snapshot, or writes by the one that it has. `seen` is the catalog by which
    /// it was bound.
    pub(super) fn must_stay(&self, needs: &RunNeeds<'_>, seen: &CatalogState) -> Option<u64> {
        if self.work.is_some() {
            return None; // Nobody else changes it.
        }
        match &self.pinned {
            None => Some(seen.version()),
            Some(pinned) if self.engine.is_unread() || needs.writes() => Some(pinned.upto),
            Some(_) => None,
        }
    }

    /// Brings the catalog of a transaction that keeps its snapshot up to date, except for tables whose rows the
    /// snapshot sees in an older version; those it can only read.
    ///
    /// # Errors
    /// `40001` if the statement locks one of these tables.
    pub(super) fn advance_pinned(&mut self, uses: &[TableUse]) -> SqlResult<()> {
        let Some(pinned) = self.pinned.as_ref().filter(|_| self.work.is_none() && !self.engine.is_unread()) else {
            return Ok(());
        };
        let current = self.database.catalog.current();
        let stays = |table: &TableInfo| {
            current.table_numbered(table.oid).is_some_and(|now| Arc::ptr_eq(&now.table, &table.table))
        };
        if !uses.iter().all(|one| stays(&one.table)) {
            return Err(SqlError::changed_since());
        }
        let (kept, catalog) = (replaced_since(&pinned.state, &current), &self.database.catalog);
        let state = with_kept(&current, &kept, catalog)?.unwrap_or_else(|| current.next(catalog.version()));
        self.pinned = Some(PinnedCatalog { state: Arc::new(state), upto: current.version() });
        Ok(())
    }

    /// Runs a definition.
    pub(super) fn define(&mut self, text: &str, tree: &ast::Statement) -> SqlResult<Step> {
        let is_concurrent = match tree {
            ast::Statement::CreateIndex(create) => create.is_concurrent,
            ast::Statement::Drop(drop) => drop.is_concurrent,
            _ => false,
        };
        if is_concurrent {
            self.refuse_block(verb(tree), " CONCURRENTLY")?;
        }
        let path = self.search_path()?;
        let database = self.database.clone();
        let before = self
            .work
            .as_ref()
            .map(|work| (Arc::clone(&work.base), Arc::clone(&work.states.published), Arc::clone(&work.kept)));
        // A transaction that has not read anything takes its snapshot under the lock.
        let is_unread = !self.engine.is_open() || self.engine.is_unread();
        let pinned = self.pinned.as_ref().filter(|_| !is_unread).map(|pinned| Arc::clone(&pinned.state));
        let keeps_snapshot = self.settings.isolation() != engine::Isolation::ReadCommitted;
        let mut made = DdlEffects::default();
        let mut locked = std::mem::take(&mut self.locked);
        let result = self.run(&[], RunNeeds::Order, |run| {
            // No other session changes the catalog while this one has the lock.
            let (base, state, kept) = before.clone().unwrap_or_else(|| {
                let current = database.catalog.current();
                let kept = pinned.as_ref().map(|pinned| replaced_since(pinned, &current));
                (Arc::clone(&current), current, kept.unwrap_or_default().into())
            });
            let state = state.next(database.catalog.version());
            let run = &crate::exec::Run { catalog: &state, ..run.again() };
            let mut ddl = Ddl {
                keeps_snapshot,
                kept: &kept,
                locked: &mut locked,
                run,
                engine: &database.engine,
                catalog: &database.catalog,
                state: state.clone(),
                path: &path,
                text,
                made: &mut made,
            };
            let gives_back = matches!(
                tree,
                ast::Statement::Drop(_)
                    | ast::Statement::DropRoutines(_)
                    | ast::Statement::DropModules(_)
                    | ast::Statement::Truncate(_)
            );
            let defined = if gives_back { pulse::with_reserve(|| ddl.apply(tree)) } else { ddl.apply(tree) };
            match defined {
                Ok(defined) => {
                    let states = CatalogStates::new(ddl.state, &kept, &database.catalog)?;
                    Ok(Some((base, states, kept, defined)))
                }
                Err(error) if asks_again(&error) => {
                    // The statement is restarted under its new lock, perhaps with a newer snapshot.
                    run.txn.has_read_nothing();
                    // Other definitions do not wait while this statement waits for its next table.
                    if before.is_none() {
                        run.txn.give_back_advisory(ORDER);
                    }
                    if let Some(code) = ddl.made.to_load.take() {
                        code.load(run.env.code.runtimes())?;
                    }
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        });
        self.locked = locked;
        let DdlEffects { tables, notices, to_load: _ } = made;
        let drop_made = |tables: &[Arc<Table>]| tables.iter().for_each(|table| database.engine.drop_table(table));
        match result {
            // The next try has a new snapshot, and the locks obtained so far.
            Ok(RunOutcome::Done(None) | RunOutcome::Moved) => {
                drop_made(&tables);
                self.define(text, tree)
            }
            Ok(RunOutcome::Done(Some((base, states, kept, defined)))) => {
                if is_unread && let Some(pinned) = &mut self.pinned {
                    // The snapshot was taken after the catalog was pinned.
                    *pinned = PinnedCatalog::new(Arc::clone(&base));
                }
                let own = || PendingDefinitions { base, states: states.clone(), kept, tables: Vec::new() };
                let work = self.work.get_or_insert_with(own);
                work.states = states;
                work.tables.extend(tables);
                self.notices.extend(notices);
                Ok(Step::Done(Outcome::Done(CommandTag { words: defined.tag, rows: defined.rows })))
            }
            Ok(RunOutcome::Parked(parked)) => {
                drop_made(&tables);
                Ok(Step::Parked(parked))
            }
            Err(error) => {
                drop_made(&tables);
                Err(read_only(error, verb(tree)))
            }
        }
    }

    /// Restores the definitions as of a savepoint.
    pub(super) fn defined_back_to(&mut self, states: Option<CatalogStates>) {
        // Locks obtained since the savepoint are released.
        self.locked.clear();
        match (states, &mut self.work) {
            (Some(states), Some(work)) => work.states = states,
            // The lock that keeps others from changing the catalog is released, too.
            _ => self.undefine(),
        }
    }

    /// Commits, and publishes the definitions.
    pub(super) fn commit(&mut self) -> SqlResult<()> {
        let Some(work) = self.work.take() else {
            return self.engine.commit().map(|_| ()).map_err(SqlError::from);
        };
        let retired: Vec<Arc<TableInfo>> = without(&work.base, &work.states.published).cloned().collect();
        let is_new = |sequence: &&Arc<Sequence>| match work.base.relation_numbered(sequence.oid) {
            Some(Relation::Sequence(before)) => !Arc::ptr_eq(before, sequence),
            _ => true,
        };
        let is_gone = |sequence: &&Arc<Sequence>| work.states.published.relation_numbered(sequence.oid).is_none();
        let sequences = [
            work.states.published.sequences().filter(is_new).cloned().collect(),
            work.base.sequences().filter(is_gone).cloned().collect(),
        ];
        let replaced = retired.iter().filter_map(|old| {
            let new = work.states.published.table_numbered(old.oid).map(|new| Arc::clone(&new.table));
            let is_another = new.as_ref().is_none_or(|new| !Arc::ptr_eq(new, &old.table));
            is_another.then(|| ReplacedTable { old: Arc::clone(&old.table), new })
        });
        let replaced = replaced.collect();
        let state = Arc::clone(&work.states.published);
        let mut publication = self.database.catalog.publication(&work.base, state, replaced, retired, sequences);
        let result = self.engine.commit_with(&mut publication);
        // Descriptions that are no longer valid: the old ones or, if the commit failed, the new ones.
        let (lost, kept) = match &result {
            Ok(_) => (&work.base, &work.states.published),
            Err(_) => (&work.states.published, &work.base),
        };
        self.drop_unnamed(named(lost).chain(&work.tables), kept);
        result.map(|_| ()).map_err(SqlError::from)
    }

    /// Discards the definitions after a rollback, so that others may define objects again.
    pub(super) fn undefine(&mut self) {
        let Some(work) = self.work.take() else { return };
        self.drop_unnamed(work.tables.iter(), &work.base);
    }

    /// Drops those of the engine's tables that the state does not name.
    fn drop_unnamed<'t>(&self, tables: impl Iterator<Item = &'t Arc<Table>>, state: &CatalogState) {
        let mut gone: Vec<&Arc<Table>> =
            tables.filter(|table| named(state).all(|named| !Arc::ptr_eq(named, table))).collect();
        gone.sort_by_key(|table| Arc::as_ptr(table));
        gone.dedup_by(|left, right| Arc::ptr_eq(left, right));
        gone.into_iter().for_each(|table| self.database.engine.drop_table(table));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.engine.rollback();
        self.undefine();
        // A cursor's run keeps the session's context, and with it the cursor, until the cursor ends the run.
        let portals = std::mem::take(&mut self.names.get().portals);
        drop(portals);
    }
}

/// Returns the engine's tables that a state names.
fn named(state: &CatalogState) -> impl Iterator<Item = &Arc<Table>> {
    let tables = state.tables().map(|table| &table.table);
    tables.chain(state.sequences().map(|sequence| &sequence.shared.lock))
}

/// Returns the table descriptions that are in one state but not in the other.
fn without<'s>(state: &'s CatalogState, other: &'s CatalogState) -> impl Iterator<Item = &'s Arc<TableInfo>> {
    state.tables().filter(|table| match other.relation_numbered(table.oid) {
        Some(Relation::Table(now)) => !Arc::ptr_eq(now, table),
        _ => true,
    })
}
