//! Stored code that a session calls: planned calls of its modules, and instances.
//!
//! **Invariant:** an instance is used by one session only, for one tenant, and by one invocation at a time; one whose
//! invocation has failed is dropped, unless it can go on. Calls are planned by the catalog, the path, the settings and
//! the role that they are used with, which has the rights that they need. Planning calls no routine, so it may happen
//! under the lock of a call's place.

use super::Env;
use super::planned::{KeptRoutine, PlannedRoutine};
use super::routines::KeptVersions;
use super::urgent::UrgentCode;
use catalog::rights::Rights;
use catalog::{CatalogState, Constraint, ConstraintKind, Module, TableInfo};
use locked::Locked;
use procs::shares::IdleInstances;
use procs::{
    Artifact, Channel, CursorHandle, Instance, InstanceKind, Level, Limits, NoticeLevel, Runtimes, StatementHandle,
    TableHandle, Tenant,
};
use query::code::{CallScope, CodeTable, PlannedCall, TableCall};
use stage::{IsolationLevel, StageClock};
use statement::error::{SqlError, SqlResult, SqlState};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Greatest number of modules whose calls a session keeps.
const MODULES_MAX: usize = 100;
/// Greatest number of settings for which the calls of a module are kept.
const SETTINGS_MAX: usize = 4;
/// Greatest number of instances that a session keeps.
const INSTANCES_MAX: usize = 16;
/// Greatest memory of an instance that a session keeps, in bytes. It cannot give back what it does not need now.
const IDLE_BYTES_MAX: usize = 16 << 20;
/// Greatest number of bytes of the notices of one statement: they are kept until it has ended.
const NOTICES_MAX: usize = 1 << 20;
/// Bytes of a notice besides its text.
const NOTICE_BYTES: usize = 128;

/// OID of a module, and name of the role that calls it.
type ModuleKey = (u32, Arc<str>);

/// Severity and text of a notice.
pub(crate) type CodeNotice = (&'static str, SqlError);

/// Stored code of a session.
pub(crate) struct SessionCode {
    runtimes: Arc<Runtimes>,
    /// Stage clock of the session; `None` for a query that goes on beside it.
    clock: Mutex<Option<Arc<StageClock>>>,
    modules: Mutex<HashMap<ModuleKey, Vec<KeptModule>>>,
    /// Planned routines, the one that was called last at the end.
    pub(super) routines: Mutex<Vec<KeptRoutine>>,
    instances: Arc<KeptInstances>,
    /// True if the server knows of the instances.
    are_known: AtomicBool,
    /// Strongest level at which code ran since the last booking: an [`IsolationLevel`].
    pub(super) level: AtomicU8,
    has_notices: AtomicBool,
    notices: Mutex<CodeNotices>,
}

/// Notices of one statement, and their bytes.
#[derive(Default)]
struct CodeNotices {
    all: Vec<CodeNotice>,
    bytes: usize,
}

impl CodeNotices {
    fn add(&mut self, level: NoticeLevel, message: &str) {
        let severity = match level {
            NoticeLevel::Debug => "DEBUG1",
            NoticeLevel::Log => "LOG",
            NoticeLevel::Info => "INFO",
            NoticeLevel::Notice => "NOTICE",
            NoticeLevel::Warning => "WARNING",
        };
        let state = match level {
            NoticeLevel::Warning => SqlState::WARNING,
            NoticeLevel::Debug | NoticeLevel::Log | NoticeLevel::Info | NoticeLevel::Notice => {
                SqlState::SUCCESSFUL_COMPLETION
            }
        };
        self.bytes += notice_bytes(message);
        self.all.push((severity, SqlError::new(state, message)));
    }
}

/// Returns the bytes that a notice counts for.
pub(crate) fn notice_bytes(message: &str) -> usize {
    message.len() + NOTICE_BYTES
}

/// Idle instances of a session.
#[derive(Default)]
struct KeptInstances(Mutex<IdleList>);

#[derive(Default)]
struct IdleList {
    /// The least recently used first.
    all: Vec<(InstanceKey, Box<dyn Instance>)>,
    /// Number of times that the session has forgotten its instances. Those in use then are not kept.
    forgotten: u64,
}

impl IdleInstances for KeptInstances {
    fn give_up(&self, tenant: Tenant, of: &[InstanceKind]) -> bool {
        let given = {
            let all = &mut self.0.locked_anyway().all;
            let is_one = |(key, _): &(InstanceKey, _)| {
                key.tenant == tenant && of.contains(&InstanceKind::of(key.level.artifact()))
            };
            let at = all.iter().position(is_one);
            at.map(|at| all.remove(at))
        };
        given.is_some()
    }
}

struct KeptModule {
    versions: KeptVersions,
    code: Arc<ModuleCode>,
}

/// Program of an instance, by its digest, and whom it serves how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InstanceKey {
    pub(super) digest: [u8; 32],
    pub(super) level: Level,
    pub(super) channel: Channel,
    pub(super) tenant: Tenant,
    pub(super) memory: u64,
    /// True for an instance that urgent contexts use.
    pub(super) is_urgent: bool,
}

/// Place of an instance in use among those that are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InstancePlace {
    key: InstanceKey,
    /// Number of times that the session had forgotten its instances before.
    forgotten: u64,
}

/// Planned calls of a module, by the numbers of its manifest. Each is planned when it is first used.
#[derive(Debug)]
pub(crate) struct ModuleCode {
    module: Arc<Module>,
    path: Box<[String]>,
    tables: Vec<OnceLock<Arc<PlannedTable>>>,
    statements: Vec<Mutex<Option<Arc<PlannedCall>>>>,
    direct: OnceLock<DirectTables>,
    pub(super) urgent: OnceLock<Arc<UrgentCode>>,
}

/// Tables that code uses without SQL. The role has the rights to read and write them.
#[derive(Debug)]
pub(crate) struct DirectTables {
    /// Tables of the engine, by the numbers of the manifest.
    pub(crate) engine: Vec<Arc<engine::Table>>,
    /// Descriptions of the tables, and the calls whose locks writing takes.
    pub(crate) puts: Vec<(Arc<TableInfo>, Arc<PlannedCall>)>,
}

/// Table of a module, with its planned calls.
#[derive(Debug)]
pub(crate) struct PlannedTable {
    pub(crate) table: CodeTable,
    /// Calls without a cursor: get, get and lock, put, insert, delete.
    calls: [OnceLock<Arc<PlannedCall>>; 5],
    scans: Mutex<HashMap<TableCall, Arc<PlannedCall>>>,
}

impl fmt::Debug for SessionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionCode")
    }
}

impl SessionCode {
    pub(crate) fn new(runtimes: Arc<Runtimes>, clock: Option<Arc<StageClock>>) -> Arc<SessionCode> {
        let (modules, routines, instances, are_known, level, has_notices, notices) = Default::default();
        let clock = Mutex::new(clock);
        Arc::new(SessionCode { runtimes, clock, modules, routines, instances, are_known, level, has_notices, notices })
    }

    /// Returns the stage clock that runs.
    pub(crate) fn clock(&self) -> Option<Arc<StageClock>> {
        self.clock.locked_anyway().clone()
    }

    /// Sets the stage clock that runs from now on.
    pub(crate) fn clock_by(&self, clock: &Arc<StageClock>) {
        *self.clock.locked_anyway() = Some(Arc::clone(clock));
    }

    /// Returns the levels of the server.
    pub(crate) fn runtimes(&self) -> &Arc<Runtimes> {
        &self.runtimes
    }

    /// Returns the code of a query that goes on while the session runs other statements.
    pub(crate) fn apart(&self) -> Arc<SessionCode> {
        SessionCode::new(Arc::clone(&self.runtimes), None)
    }

    /// Returns the strongest level at which code ran since the last call.
    pub(crate) fn take_level(&self) -> IsolationLevel {
        // Most sessions never call code.
        let level = match self.level.load(Relaxed) {
            0 => 0,
            _ => self.level.swap(0, Relaxed),
        };
        IsolationLevel::ALL.get(usize::from(level)).copied().unwrap_or(IsolationLevel::None)
    }

    /// Adds a notice to those that the client receives when the statement has ended.
    ///
    /// # Errors
    /// `54000` for too many of them.
    pub(crate) fn notice(&self, level: NoticeLevel, message: &str) -> SqlResult<()> {
        let mut notices = self.notices.locked_anyway();
        check_notices(notices.bytes + notice_bytes(message))?;
        notices.add(level, message);
        self.has_notices.store(true, Relaxed);
        Ok(())
    }

    /// Adds a notice of an account that was checked elsewhere.
    pub(crate) fn add_notice(&self, level: NoticeLevel, message: &str) {
        self.notices.locked_anyway().add(level, message);
        self.has_notices.store(true, Relaxed);
    }

    /// Returns the number of notices so far.
    pub(crate) fn count_notices(&self) -> usize {
        self.notices.locked_anyway().all.len()
    }

    /// Drops the notices after the first ones.
    pub(crate) fn drop_notices_after(&self, count: usize) {
        let mut notices = self.notices.locked_anyway();
        let kept = count.min(notices.all.len());
        let dropped: usize = notices.all.drain(kept..).map(|(_, notice)| notice_bytes(notice.message())).sum();
        notices.bytes -= dropped;
    }

    /// Takes the notices of the statement.
    pub(crate) fn take_notices(&self) -> Vec<CodeNotice> {
        if !self.has_notices.swap(false, Relaxed) {
            return Vec::new();
        }
        std::mem::take(&mut *self.notices.locked_anyway()).all
    }

    /// Returns the module of a routine with its planned calls.
    ///
    /// # Errors
    /// `42704`: the module does not exist.
    pub(crate) fn module(
        &self,
        name: &str,
        catalog: &CatalogState,
        path: &[String],
        env: &Env,
    ) -> SqlResult<Arc<ModuleCode>> {
        let module = catalog.module(name).ok_or_else(|| no_module(name))?;
        let versions = KeptVersions::new(catalog, env);
        let key = (module.oid, Arc::clone(&env.user));
        let mut modules = self.modules.locked_anyway();
        if MODULES_MAX <= modules.len() && !modules.contains_key(&key) {
            modules.clear();
        }
        let all = modules.entry(key).or_default();
        if let Some(kept) = all.iter().find(|kept| kept.versions == versions && *kept.code.path == *path) {
            return Ok(Arc::clone(&kept.code));
        }
        let code = Arc::new(ModuleCode::new(module, path));
        // Routines of one module may have settings of their own.
        if SETTINGS_MAX <= all.len() {
            all.remove(0);
        }
        all.push(KeptModule { versions, code: Arc::clone(&code) });
        Ok(code)
    }

    /// Calls `body` with an instance of a routine's program: one that is kept, or a new one. It is kept afterwards if
    /// `body` succeeds. `asleep` runs the wait for the process of a new one.
    ///
    /// # Errors
    /// Those of `body`; `0A000`: the level is missing.
    pub(crate) fn with_instance<R>(
        &self,
        planned: &PlannedRoutine,
        asleep: impl Fn(&mut dyn FnMut()),
        body: impl FnOnce(&mut dyn Instance) -> SqlResult<R>,
    ) -> SqlResult<R> {
        let key = planned.instance;
        self.level.fetch_max(isolation_of(key.level) as u8, Relaxed);
        let (kept, place) = self.take_instance(key);
        // A process may have been killed while it was idle.
        let mut instance = match kept.filter(|kept| kept.is_alive()) {
            Some(kept) => kept,
            None => {
                let module = &planned.code.module;
                let artifact = module.artifact(key.level.artifact());
                let artifact = artifact.ok_or_else(|| no_artifact(&module.name, key.level))?;
                let limits = &planned.routine.isolation.limits;
                self.opened(key.level, artifact, (key.tenant, key.channel), limits, &asleep)?
            }
        };
        let result = body(&mut *instance);
        if result.is_err() && !instance.is_reusable() {
            return result;
        }
        self.keep_instance(place, instance);
        result
    }

    /// Takes an idle instance, if there is one, and the place to which it, or a new one, returns.
    pub(super) fn take_instance(&self, key: InstanceKey) -> (Option<Box<dyn Instance>>, InstancePlace) {
        let mut instances = self.instances.0.locked_anyway();
        let at = instances.all.iter().position(|(of, _)| *of == key);
        let kept = at.map(|at| instances.all.remove(at).1);
        (kept, InstancePlace { key, forgotten: instances.forgotten })
    }

    /// Keeps an instance for the next call, unless it has become large, or the session has forgotten its instances
    /// meanwhile.
    pub(crate) fn keep_instance(&self, InstancePlace { key, forgotten }: InstancePlace, instance: Box<dyn Instance>) {
        let surplus = {
            let mut instances = self.instances.0.locked_anyway();
            if instances.forgotten == forgotten && instance.idle_bytes() <= IDLE_BYTES_MAX {
                let surplus = (INSTANCES_MAX <= instances.all.len()).then(|| instances.all.remove(0).1);
                instances.all.push((key, instance));
                surplus
            } else {
                Some(instance)
            }
        };
        // Outside of the lock: the end of an instance may take long.
        drop(surplus);
    }

    /// Creates an instance.
    fn opened(
        &self,
        level: Level,
        artifact: &Artifact,
        (tenant, channel): (Tenant, Channel),
        limits: &Limits,
        asleep: &dyn Fn(&mut dyn FnMut()),
    ) -> SqlResult<Box<dyn Instance>> {
        self.become_known();
        let program = self.runtimes.program(level, artifact, tenant)?;
        let tenant = self.runtimes.tenant(tenant);
        // Nearly all of the time until a worker is ready is a wait for it.
        match channel {
            Channel::Direct => program.open(&tenant, channel, limits),
            Channel::SharedMemory | Channel::UnixSocket => {
                let mut opened = Err(SqlError::new(SqlState::INTERNAL_ERROR, "nobody has waited for a worker"));
                asleep(&mut || opened = program.open(&tenant, channel, limits));
                opened
            }
        }
    }

    /// Lets others take back idle instances from now on.
    pub(super) fn become_known(&self) {
        if !self.are_known.swap(true, Relaxed) {
            let idle: Weak<KeptInstances> = Arc::downgrade(&self.instances);
            self.runtimes.shares().keep(idle);
        }
    }

    /// Drops all instances and planned routines: nothing that they keep outlasts `DISCARD ALL`.
    pub(crate) fn forget_routines(&self) {
        self.routines.locked_anyway().clear();
        let all = {
            let mut instances = self.instances.0.locked_anyway();
            instances.forgotten += 1;
            std::mem::take(&mut instances.all)
        };
        drop(all);
    }
}

/// Returns the level as the stage clock knows it.
pub(super) fn isolation_of(level: Level) -> IsolationLevel {
    match level {
        Level::Native => IsolationLevel::Native,
        Level::Wasm => IsolationLevel::Wasm,
        Level::Process => IsolationLevel::Process,
        Level::Container => IsolationLevel::Container,
        Level::Gvisor => IsolationLevel::Gvisor,
        Level::Vm => IsolationLevel::Vm,
    }
}

/// Refuses a table whose rows must hold more than its columns and keys say: code without SQL would not check it.
///
/// # Errors
/// `0A000`
fn refuse_constraints(table: &TableInfo, scope: CallScope<'_>) -> SqlResult<()> {
    let is_checked = |constraint: &Constraint| match constraint.what {
        ConstraintKind::Check(_) | ConstraintKind::ForeignKey(_) => true,
        ConstraintKind::PrimaryKey { .. } | ConstraintKind::Unique { .. } => false,
    };
    if !table.constraints.iter().any(is_checked) && scope.catalog.referencing(table.oid).next().is_none() {
        return Ok(());
    }
    let what = format_args!("direct access of native code to table \"{}\"", table.name);
    Err(SqlError::unsupported(what).detail("The table has checks, or foreign keys from it or to it."))
}

/// Returns the error for a module that does not exist.
pub(crate) fn no_module(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("module \"{name}\" does not exist"))
}

/// Returns the error for a level for which a module has no code.
pub(crate) fn no_artifact(module: &str, level: Level) -> SqlError {
    let what = format_args!("isolation level \"{level}\" for module \"{module}\"");
    let detail = format!("The level runs artifacts of kind \"{}\", and the module has none.", level.artifact());
    SqlError::unsupported(what).detail(detail)
}

/// Checks the bytes of the notices of one statement.
///
/// # Errors
/// `54000`
pub(crate) fn check_notices(bytes: usize) -> SqlResult<()> {
    if bytes <= NOTICES_MAX {
        return Ok(());
    }
    let message = format!("the notices of a statement exceed {} kB", NOTICES_MAX >> 10);
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
}

/// Returns the error for a number that a manifest does not have.
pub(crate) fn no_handle(what: &str, number: u16) -> SqlError {
    let message = format!("the routine broke the protocol: {number} is the number of no {what}");
    SqlError::new(SqlState::EXTERNAL_ROUTINE_INVOCATION_EXCEPTION, message)
}

/// Returns the error for a cursor that is not open.
pub(crate) fn no_cursor(cursor: CursorHandle) -> SqlError {
    let message = format!("the routine broke the protocol: {} is the number of no open cursor", cursor.0);
    SqlError::new(SqlState::EXTERNAL_ROUTINE_INVOCATION_EXCEPTION, message)
}

/// Plans a call, and checks that the current role has the rights that it needs.
fn planned(plan: impl FnOnce() -> SqlResult<PlannedCall>, scope: CallScope<'_>) -> SqlResult<Arc<PlannedCall>> {
    let call = plan().map_err(SqlError::nowhere)?;
    if let Some(rights) = Rights::of_session(scope.catalog, scope.env) {
        call.statement.needs.iter().try_for_each(|need| rights.check(need))?;
    }
    Ok(Arc::new(call))
}

impl ModuleCode {
    fn new(module: &Arc<Module>, path: &[String]) -> ModuleCode {
        ModuleCode {
            module: Arc::clone(module),
            path: path.into(),
            tables: module.manifest.tables.iter().map(|_| OnceLock::new()).collect(),
            statements: module.manifest.statements.iter().map(|_| Mutex::new(None)).collect(),
            direct: OnceLock::new(),
            urgent: OnceLock::new(),
        }
    }

    /// Returns the module.
    pub(crate) fn module(&self) -> &Arc<Module> {
        &self.module
    }

    /// Returns the search path by which its calls are planned.
    pub(super) fn path(&self) -> &[String] {
        &self.path
    }

    /// Returns a table.
    ///
    /// # Errors
    /// `39000`: there is none of this number; those of [`CodeTable::new`].
    pub(crate) fn table(&self, handle: TableHandle, scope: CallScope<'_>) -> SqlResult<&Arc<PlannedTable>> {
        let at = usize::from(handle.0);
        let (Some(place), Some(named)) = (self.tables.get(at), self.module.manifest.tables.get(at)) else {
            return Err(no_handle("table", handle.0));
        };
        if let Some(table) = place.get() {
            return Ok(table);
        }
        let table = CodeTable::new(named, scope)?;
        let planned = PlannedTable { table, calls: Default::default(), scans: Mutex::default() };
        Ok(place.get_or_init(|| Arc::new(planned)))
    }

    /// Returns all tables for code that uses them without SQL.
    ///
    /// # Errors
    /// Those of [`ModuleCode::table`]; `42501` if the role may not read, insert, update and delete rows of each.
    pub(crate) fn direct(&self, scope: CallScope<'_>) -> SqlResult<&DirectTables> {
        if let Some(direct) = self.direct.get() {
            return Ok(direct);
        }
        let mut made = DirectTables { engine: Vec::new(), puts: Vec::new() };
        for number in 0..self.module.manifest.tables.len() {
            let table = self.table(TableHandle(number as u16), scope)?;
            refuse_constraints(&table.table.table, scope)?;
            table.call(TableCall::Delete, scope)?;
            let put = table.call(TableCall::Put { is_new: false }, scope)?;
            made.engine.push(Arc::clone(&table.table.table.table));
            made.puts.push((Arc::clone(&table.table.table), put));
        }
        Ok(self.direct.get_or_init(|| made))
    }

    /// Returns a statement, planned again if its tables have grown or shrunk much.
    ///
    /// # Errors
    /// `39000`: there is none of this number; those of [`PlannedCall::new`]; `42501`
    pub(crate) fn statement(&self, handle: StatementHandle, scope: CallScope<'_>) -> SqlResult<Arc<PlannedCall>> {
        let at = usize::from(handle.0);
        let (Some(place), Some(named)) = (self.statements.get(at), self.module.manifest.statements.get(at)) else {
            return Err(no_handle("statement", handle.0));
        };
        let mut kept = place.locked_anyway();
        if let Some(call) = &*kept
            && call.statement.is_current()
        {
            return Ok(Arc::clone(call));
        }
        let call = planned(|| PlannedCall::new(&named.text, &[], scope), scope).map_err(|error| {
            error.within(format!("statement \"{}\" of module \"{}\"", named.name, self.module.name))
        })?;
        Ok(Arc::clone(kept.insert(call)))
    }
}

impl PlannedTable {
    /// Returns a call.
    ///
    /// # Errors
    /// Those of [`CodeTable::plan`]; `42501`
    pub(crate) fn call(&self, call: TableCall, scope: CallScope<'_>) -> SqlResult<Arc<PlannedCall>> {
        let place = match call {
            TableCall::Get { locks } => usize::from(locks),
            TableCall::Put { is_new } => 2 + usize::from(is_new),
            TableCall::Delete => 4,
            TableCall::Scan { .. } => return self.scan(call, scope),
        };
        let Some(place) = self.calls.get(place) else { return self.scan(call, scope) };
        if let Some(call) = place.get() {
            return Ok(Arc::clone(call));
        }
        let call = planned(|| self.table.plan(call, scope), scope)?;
        Ok(Arc::clone(place.get_or_init(|| call)))
    }

    fn scan(&self, call: TableCall, scope: CallScope<'_>) -> SqlResult<Arc<PlannedCall>> {
        let mut scans = self.scans.locked_anyway();
        if let Some(planned) = scans.get(&call)
            && planned.statement.is_current()
        {
            return Ok(Arc::clone(planned));
        }
        let planned = planned(|| self.table.plan(call, scope), scope)?;
        scans.insert(call, Arc::clone(&planned));
        Ok(planned)
    }
}
