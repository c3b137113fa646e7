//! All levels of a server, and the code that they have loaded.
//!
//! **Invariant:** code runs at the level it was told to, or not at all.

use crate::level::{ArtifactKind, Level};
use crate::native::NativeRuntime;
use crate::runtime::{Artifact, Availability, Program, Runtime, Tenant};
use locked::{Locked, LockedResult};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Duration;

/// Greatest number of programs that are kept.
const KEPT_MAX: usize = 256;

/// Greatest number of bytes of code that are kept, together. A statement brings at most 64 MB, which up to three levels
/// load, so a definition finds all that it has loaded.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// Time between two looks of a statement that waits for another one to load the same code.
const LOOK: Duration = Duration::from_millis(10);

/// Level and digest of a program.
type ProgramKey = (Level, [u8; 32]);

/// Sessions' idle instances, which may be taken back when others need their places.
pub trait IdleInstances: Send + Sync {
    /// Drops an idle instance of this tenant whose place an artifact of this kind can take. Returns false if there is none.
    fn give_up(&self, tenant: Tenant, of: ArtifactKind) -> bool;
}

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
}

impl Programs {
    /// Keeps a program. Returns those that have to go for it: the oldest that nobody uses, else the oldest.
    fn keep(&mut self, key: ProgramKey, new: KeptProgram) -> Vec<KeptProgram> {
        let mut surplus = Vec::new();
        while KEPT_MAX <= self.kept.len() || KEPT_BYTES_MAX < self.bytes + new.bytes {
            let is_idle =
                |key: &ProgramKey| self.kept.get(key).is_none_or(|kept| Arc::strong_count(&kept.program) == 1);
            let oldest = self.order.iter().position(is_idle).unwrap_or(0);
            let Some(oldest) = self.order.remove(oldest) else { break };
            let Some(gone) = self.kept.remove(&oldest) else { continue };
            self.bytes -= gone.bytes;
            surplus.push(gone);
        }
        self.bytes += new.bytes;
        self.order.push_back(key);
        self.kept.insert(key, new);
        surplus
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
    /// Sessions that keep instances.
    idle: Mutex<Vec<Weak<dyn IdleInstances>>>,
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
        Runtimes { runtimes, programs: Mutex::default(), has_loaded: Condvar::new(), idle: Mutex::default() }
    }

    /// Adds a session that keeps idle instances.
    pub fn keep(&self, idle: Weak<dyn IdleInstances>) {
        let mut all = self.idle.locked_anyway();
        if all.len() == all.capacity() {
            all.retain(|session| session.strong_count() != 0);
        }
        all.push(idle);
    }

    /// Has a session drop an idle instance of this tenant whose place an artifact of this kind can take. Returns false
    /// if none has one.
    pub fn make_room(&self, tenant: Tenant, of: ArtifactKind) -> bool {
        let all: Vec<_> = self.idle.locked_anyway().iter().filter_map(Weak::upgrade).collect();
        all.iter().any(|session| session.give_up(tenant, of))
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

    /// Returns the program of an artifact, which is loaded if that was not done before. Of many statements that want it,
    /// one loads it.
    ///
    /// # Errors
    /// `0A000` with the reason if the level is missing; those of [`Runtime::load`]; `53200` if there is no room for the
    /// code; `57014` if the statement is cancelled.
    pub fn program(&self, level: Level, artifact: &Artifact) -> SqlResult<Arc<dyn Program>> {
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
        // The levels copy the code, or make more of it.
        let bytes = artifact.bytes().len();
        SqlError::check_room(bytes)?;
        let program = runtime.load(artifact)?;
        let surplus = self.programs.locked_anyway().keep(key, KeptProgram { program: Arc::clone(&program), bytes });
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

    fn load(&self, _artifact: &Artifact) -> SqlResult<Arc<dyn Program>> {
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
        fn open(&self, _: Tenant, _: Channel, _: &Limits) -> SqlResult<Box<dyn Instance>> {
            Err(missing_level(Level::Wasm, "it is none"))
        }
    }

    #[test]
    fn kept_code_has_a_limit_in_bytes() {
        let mut programs = Programs::default();
        let key = |number| (Level::Wasm, [number; 32]);
        let keep = |programs: &mut Programs, number, bytes| -> Arc<dyn Program> {
            let program: Arc<dyn Program> = Arc::new(Code);
            programs.keep(key(number), KeptProgram { program: Arc::clone(&program), bytes });
            program
        };
        let numbers = |programs: &Programs| -> Vec<u8> { programs.order.iter().map(|(_, digest)| digest[0]).collect() };
        let in_use = keep(&mut programs, 1, KEPT_BYTES_MAX / 2);
        drop(keep(&mut programs, 2, KEPT_BYTES_MAX / 4));
        drop(keep(&mut programs, 3, KEPT_BYTES_MAX / 4));
        assert_eq!(numbers(&programs), [1, 2, 3]);
        // The oldest that nobody uses goes first, and one that is in use only if no other is left.
        drop(keep(&mut programs, 4, 1));
        assert_eq!(numbers(&programs), [1, 3, 4]);
        drop(keep(&mut programs, 5, KEPT_BYTES_MAX));
        assert_eq!(numbers(&programs), [5]);
        assert_eq!((programs.bytes, programs.kept.len()), (KEPT_BYTES_MAX, 1));
        drop(in_use);
    }

    #[test]
    fn kept_code_has_a_limit_in_number() {
        let mut programs = Programs::default();
        for number in 0..KEPT_MAX + 10 {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            programs.keep((Level::Wasm, digest), KeptProgram { program: Arc::new(Code), bytes: 1 });
        }
        assert_eq!((programs.kept.len(), programs.order.len(), programs.bytes), (KEPT_MAX, KEPT_MAX, KEPT_MAX));
    }
}
