//! All levels of a server, and the code that they have loaded.
//!
//! **Invariant:** code runs at the level it was told to, or not at all.

use crate::level::Level;
use crate::native::NativeRuntime;
use crate::runtime::{Artifact, Availability, Program, Runtime};
use crate::shares::{CodeShares, CodeTenant, ShareLimits, Tenant};
use locked::{Locked, LockedResult};
use preempt::memory::HeldMapping;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Greatest number of programs that are kept.
const KEPT_MAX: usize = 256;

/// Part of these, and of their bytes, that one tenant may have loaded.
const TENANT_PART: usize = 4;

/// Greatest number of bytes of code that are kept, together. A statement brings at most 64 MB, which up to three levels
/// load, so a definition finds all that it has loaded, within the part of its tenant.
const KEPT_BYTES_MAX: usize = 768 << 20;

/// Time between two looks of a statement that waits for another one to load the same code.
const LOOK: Duration = Duration::from_millis(10);

/// Level and digest of a program.
type ProgramKey = (Level, [u8; 32]);

/// Loaded code, and the code that statements are loading.
#[derive(Default)]
struct Programs {
    kept: HashMap<ProgramKey, KeptProgram>,
    /// Keys of these, the oldest first.
    order: VecDeque<ProgramKey>,
    /// Bytes of code of all that are kept.
    bytes: usize,
    loading: HashSet<ProgramKey>,
}

struct KeptProgram {
    program: Arc<dyn Program>,
    /// Bytes of its code.
    bytes: usize,
    /// The same bytes, counted as the process's: levels copy code to where no allocator counts it.
    _held: HeldMapping,
    /// Tenant that has loaded it.
    tenant: Tenant,
}

impl Programs {
    /// Keeps a program. Returns those that have to go for it: the tenant's own beyond its part, else those of the tenant
    /// that has the most; of these the oldest that nobody uses, else the oldest.
    fn keep(&mut self, key: ProgramKey, new: KeptProgram) -> Vec<KeptProgram> {
        let mut surplus = Vec::new();
        loop {
            let (count, bytes) = self.of(new.tenant);
            let is_over = |part: usize, count: usize, bytes: usize| {
                KEPT_MAX / part <= count || KEPT_BYTES_MAX / part < bytes + new.bytes
            };
            let of = if is_over(TENANT_PART, count, bytes) {
                new.tenant
            } else if is_over(1, self.kept.len(), self.bytes) {
                self.greatest().unwrap_or(new.tenant)
            } else {
                break;
            };
            let Some(gone) = self.remove_oldest(of) else { break };
            surplus.push(gone);
        }
        self.bytes += new.bytes;
        self.order.push_back(key);
        self.kept.insert(key, new);
        surplus
    }

    /// Returns the number of programs that a tenant has loaded, and their bytes.
    fn of(&self, tenant: Tenant) -> (usize, usize) {
        let all = self.kept.values().filter(|kept| kept.tenant == tenant);
        all.fold((0, 0), |(count, bytes), kept| (count + 1, bytes + kept.bytes))
    }

    /// Returns the tenant that has loaded the greatest part.
    fn greatest(&self) -> Option<Tenant> {
        let part = |tenant: &Tenant| {
            let (count, bytes) = self.of(*tenant);
            (count * (KEPT_BYTES_MAX / KEPT_MAX)).max(bytes)
        };
        let tenants: HashSet<Tenant> = self.kept.values().map(|kept| kept.tenant).collect();
        tenants.into_iter().max_by_key(|tenant| (part(tenant), *tenant))
    }

    fn remove_oldest(&mut self, tenant: Tenant) -> Option<KeptProgram> {
        let place = |is_one: &dyn Fn(&KeptProgram) -> bool| {
            self.order
                .iter()
                .position(|key| self.kept.get(key).is_some_and(|kept| kept.tenant == tenant && is_one(kept)))
        };
        let oldest = place(&|kept| Arc::strong_count(&kept.program) == 1).or_else(|| place(&|_| true))?;
        let gone = self.order.remove(oldest).and_then(|key| self.kept.remove(&key))?;
        self.bytes -= gone.bytes;
        Some(gone)
    }
}

/// Code that this statement loads. Its end lets others try who want the same.
struct Loading<'r>(&'r Runtimes, ProgramKey);

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.programs.locked_anyway().loading.remove(&self.1);
        self.0.has_loaded.notify_all();
    }
}

/// Levels of a server.
pub struct Runtimes {
    runtimes: Vec<Arc<dyn Runtime>>,
    programs: Mutex<Programs>,
    /// Notified when a program was loaded, or was not.
    has_loaded: Condvar,
    shares: Arc<CodeShares>,
}

impl fmt::Debug for Runtimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtimes").field("runtimes", &self.runtimes).finish_non_exhaustive()
    }
}

impl Default for Runtimes {
    /// Returns the level `native`, without modules.
    fn default() -> Runtimes {
        Runtimes::new(vec![Arc::new(NativeRuntime::new(Vec::new()))])
    }
}

impl Runtimes {
    /// Creates the levels of a server.
    pub fn new(runtimes: Vec<Arc<dyn Runtime>>) -> Runtimes {
        Runtimes::with_limits(runtimes, ShareLimits::default())
    }

    /// Creates the levels of a server whose tenants have these shares.
    pub fn with_limits(runtimes: Vec<Arc<dyn Runtime>>, limits: ShareLimits) -> Runtimes {
        let (programs, has_loaded, shares) = (Mutex::default(), Condvar::new(), CodeShares::new(limits));
        Runtimes { runtimes, programs, has_loaded, shares }
    }

    /// Returns the shares of tenants.
    pub fn shares(&self) -> &Arc<CodeShares> {
        &self.shares
    }

    /// Returns a tenant with its shares.
    pub fn tenant(&self, tenant: Tenant) -> CodeTenant {
        CodeTenant { shares: Arc::clone(&self.shares), tenant }
    }

    /// Availability of each level.
    pub fn levels(&self) -> impl Iterator<Item = (Level, Availability)> + '_ {
        Level::ALL.into_iter().map(|level| (level, self.availability(level)))
    }

    /// Availability of a level.
    pub fn availability(&self, level: Level) -> Availability {
        match self.runtime(level) {
            Some(runtime) => runtime.availability(),
            None => Availability::Missing("this server was built without it".to_owned()),
        }
    }

    /// Returns the means of the machine that a level uses, where there are several.
    pub fn means(&self, level: Level) -> Option<&str> {
        self.runtime(level).and_then(|runtime| runtime.means())
    }

    fn runtime(&self, level: Level) -> Option<&Arc<dyn Runtime>> {
        self.runtimes.iter().find(|runtime| runtime.level() == level)
    }

    /// Returns true if the program of an artifact is loaded.
    pub fn has_program(&self, level: Level, artifact: &Artifact) -> bool {
        self.programs.locked_anyway().kept.contains_key(&(level, artifact.digest()))
    }

    /// Returns the program of an artifact, which is loaded for this tenant if that was not done before. Of many
    /// statements that want it, one loads it.
    ///
    /// # Errors
    /// `0A000` with the reason if the level is missing; those of [`Runtime::load`]; `53200` if there is no room for the
    /// code; `57014` if the statement is cancelled.
    pub fn program(&self, level: Level, artifact: &Artifact, tenant: Tenant) -> SqlResult<Arc<dyn Program>> {
        let runtime = match (self.runtime(level), self.availability(level)) {
            (Some(runtime), Availability::Ready) => runtime,
            (_, Availability::Missing(reason)) => return Err(missing_level(level, &reason)),
            (None, Availability::Ready) => return Err(missing_level(level, "it is not part of this server")),
        };
        let key = (level, artifact.digest());
        let loading = loop {
            let mut programs = self.programs.locked_anyway();
            if let Some(program) = programs.kept.get(&key) {
                return Ok(Arc::clone(&program.program));
            }
            if programs.loading.insert(key) {
                break Loading(self, key);
            }
            // Loading takes long, and its statement may be cancelled: then this one loads the code.
            drop(self.has_loaded.wait_timeout(programs, LOOK).or_end_process());
            pulse::look()?;
        };
        let bytes = artifact.bytes().len();
        let mut held = HeldMapping::default();
        if !held.resize(bytes) {
            return Err(SqlError::no_room());
        }
        let program = runtime.load(artifact, &self.tenant(tenant))?;
        let kept = KeptProgram { program: Arc::clone(&program), bytes, _held: held, tenant };
        let surplus = self.programs.locked_anyway().keep(key, kept);
        drop(loading);
        // Outside of the lock: the end of a program may take long.
        drop(surplus);
        Ok(program)
    }
}

/// Level that cannot run on this machine.
#[derive(Debug)]
pub struct MissingRuntime {
    level: Level,
    reason: String,
}

impl MissingRuntime {
    /// Creates a level that refuses all code for this reason.
    pub fn new(level: Level, reason: impl Into<String>) -> MissingRuntime {
        MissingRuntime { level, reason: reason.into() }
    }
}

impl Runtime for MissingRuntime {
    fn level(&self) -> Level {
        self.level
    }

    fn availability(&self) -> Availability {
        Availability::Missing(self.reason.clone())
    }

    fn load(&self, _: &Artifact, _: &CodeTenant) -> SqlResult<Arc<dyn Program>> {
        Err(missing_level(self.level, &self.reason))
    }
}

/// Returns the error for a level that cannot run here, for a reason.
pub fn missing_level(level: Level, reason: &str) -> SqlError {
    let message = format!("isolation level \"{level}\" is not available on this machine");
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .detail(reason)
        .hint("The view overtake.isolation_levels lists the levels that this server can run.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Channel;
    use crate::runtime::{Instance, Limits};

    #[derive(Debug)]
    struct Code;

    impl Program for Code {
        fn open(&self, _: &CodeTenant, _: Channel, _: &Limits) -> SqlResult<Box<dyn Instance>> {
            Err(missing_level(Level::Wasm, "it is none"))
        }
    }

    fn keep(programs: &mut Programs, number: usize, bytes: usize, tenant: u32) -> Arc<dyn Program> {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_le_bytes());
        let program: Arc<dyn Program> = Arc::new(Code);
        let kept =
            KeptProgram { program: Arc::clone(&program), bytes, _held: HeldMapping::default(), tenant: Tenant(tenant) };
        programs.keep((Level::Wasm, digest), kept);
        program
    }

    fn numbers(programs: &Programs) -> Vec<u8> {
        programs.order.iter().map(|(_, digest)| digest[0]).collect()
    }

    #[test]
    fn kept_code_has_a_limit_in_bytes() {
        let mut programs = Programs::default();
        let part = KEPT_BYTES_MAX / TENANT_PART;
        let in_use = keep(&mut programs, 1, part / 2, 7);
        drop(keep(&mut programs, 2, part / 4, 7));
        drop(keep(&mut programs, 3, part / 4, 7));
        assert_eq!(numbers(&programs), [1, 2, 3]);
        // The oldest that nobody uses goes first, and one that is in use only if no other is left.
        drop(keep(&mut programs, 4, 1, 7));
        assert_eq!(numbers(&programs), [1, 3, 4]);
        drop(keep(&mut programs, 5, part, 7));
        assert_eq!(numbers(&programs), [5]);
        assert_eq!((programs.bytes, programs.kept.len()), (part, 1));
        drop(in_use);
    }

    /// Goal: a tenant that loads much code takes away its own, and others' code stays.
    #[test]
    fn kept_code_is_shared_among_tenants() {
        let mut programs = Programs::default();
        drop(keep(&mut programs, 0, 1, 1));
        for number in 1..KEPT_MAX + 10 {
            drop(keep(&mut programs, number, 1, 2));
        }
        assert_eq!((programs.of(Tenant(1)).0, programs.of(Tenant(2)).0), (1, KEPT_MAX / TENANT_PART));
        // If all have much, the one with the most gives way, whoever has the oldest.
        for tenant in 3..2 + TENANT_PART as u32 * 2 {
            for number in 0..KEPT_MAX / TENANT_PART / 2 {
                drop(keep(&mut programs, 1_000 * tenant as usize + number, 1, tenant));
            }
        }
        assert_eq!((programs.kept.len(), programs.order.len(), programs.bytes), (KEPT_MAX, KEPT_MAX, KEPT_MAX));
        assert_eq!(programs.of(Tenant(1)).0, 1);
    }
}
