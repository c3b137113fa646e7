//! Database as a server makes it; server settings that sessions share, and their reload.
//!
//! **Invariant:** a session changes to reloaded settings between transactions only, and what it has set by itself stays.

use super::{Database, Session, TransactionBlock};
use engine::Engine;
use locked::RwLocked;
use procs::Runtimes;
use query::analytics::Analytics;
use settings::Defaults;
use settings::priority::Rules;
use settings::roles::Roles;
use statement::error::SqlResult;
use statement::time::TimeSource;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, RwLock};

/// Server settings as of one reload.
#[derive(Debug, Default)]
pub(super) struct ServerSettings {
    pub(super) defaults: Defaults,
    pub(super) rules: Rules,
    /// Number of reloads before this one.
    generation: u64,
}

/// Current server settings of a database.
#[derive(Debug, Default)]
pub(super) struct LiveSettings {
    current: RwLock<Arc<ServerSettings>>,
    /// Generation of `current`. It is published later, so a session that sees it finds the settings.
    generation: AtomicU64,
}

impl LiveSettings {
    pub(super) fn current(&self) -> Arc<ServerSettings> {
        Arc::clone(&self.current.read_locked())
    }
}

impl Database {
    /// Creates a database over this engine.
    pub fn new(engine: Engine) -> Database {
        Database {
            engine,
            catalog: Arc::default(),
            analytics: None,
            provider: None,
            runtimes: Arc::default(),
            server: Arc::default(),
            roles: Arc::new(Roles::of_a_fresh_server()),
            time: TimeSource::system(),
            cursor_threads: Arc::default(),
            procedure_threads: Arc::default(),
            ending_procedures: Arc::default(),
            urgent: None,
        }
    }

    /// Sets the clock from which sessions take the time.
    #[must_use]
    pub fn with_time(self, time: TimeSource) -> Database {
        Database { time, ..self }
    }

    /// Sets the analytics for large queries.
    #[must_use]
    pub fn with_analytics(self, analytics: Arc<dyn Analytics>) -> Database {
        Database { analytics: Some(analytics), ..self }
    }

    /// Sets the levels of isolation at which stored code runs.
    #[must_use]
    pub fn with_runtimes(self, runtimes: Arc<Runtimes>) -> Database {
        Database { runtimes, ..self }
    }

    /// Sets the provider of the views about the server's sessions.
    #[must_use]
    pub fn with_provider(self, provider: Arc<dyn catalog::Provider>) -> Database {
        Database { provider: Some(provider), ..self }
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the settings with these values.
    ///
    /// # Errors
    /// Priority rules that cannot be parsed.
    pub fn with_defaults(self, defaults: Defaults) -> SqlResult<Database> {
        let rules = Rules::parse(defaults.get("overtake.priority_rules"))?;
        let current = RwLock::new(Arc::new(ServerSettings { defaults, rules, generation: 0 }));
        Ok(Database { server: Arc::new(LiveSettings { current, generation: AtomicU64::new(0) }), ..self })
    }

    /// Checks settings before they replace the server's.
    ///
    /// # Errors
    /// Priority rules that cannot be parsed.
    pub fn prepare_reload(&self, defaults: Defaults) -> SqlResult<Reload> {
        let rules = Rules::parse(defaults.get("overtake.priority_rules"))?;
        Ok(Reload { server: Arc::clone(&self.server), defaults, rules })
    }

    /// Returns the server's settings in force.
    pub fn defaults(&self) -> Defaults {
        self.server.current().defaults.clone()
    }
}

/// Checked settings that are about to replace the server's.
#[must_use]
pub struct Reload {
    server: Arc<LiveSettings>,
    defaults: Defaults,
    rules: Rules,
}

impl Reload {
    /// Replaces the server's settings. A session takes them at its next statement outside a transaction block, except
    /// those that it, its role or its database has set.
    pub fn apply(self) {
        let Reload { server, defaults, rules } = self;
        let mut current = server.current.write_locked();
        let generation = current.generation + 1;
        *current = Arc::new(ServerSettings { defaults, rules, generation });
        server.generation.store(generation, Release);
    }
}

impl Session {
    /// Takes reloaded settings, if there are any and no transaction block is open.
    pub(super) fn take_reloaded(&mut self) {
        if self.server.generation == self.database.server.generation.load(Acquire)
            || self.block != TransactionBlock::None
        {
            return;
        }
        self.server = self.database.server.current();
        self.settings.reload(&self.server.defaults);
    }
}
