//! Session of one client, without a server connection most of the time.
//!
//! **Invariant:** the identity of a client, its names and its settings are kept here, so that any connection can be
//! made to serve it.

use crate::ProxyState;
use crate::clients::cancel_request::CancelTarget;
use crate::clients::leftovers;
use crate::clients::priority::{self, CommandResult, LocalStatement, Priority, SetCommand, Setting};
use crate::servers::params::Params;
use crate::servers::pool::Pool;
use crate::servers::target::{self, ClientTargets};
use crate::setup::reload::effective;
use crate::setup::unknown;
use crate::statements::resets::Reset;
use crate::statements::session_settings::SessionSettings;
use crate::statements::shared::StatementNames;
use settings::priority::Rules;
use statement::SqlError;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use wire::Cancel;

/// State of a client that does not depend on a connection.
pub(crate) struct Client {
    pub(crate) shared: Arc<ProxyState>,
    pub(crate) pool: Arc<Pool>,
    /// Number of the client, unique in this process.
    pub(crate) number: u64,
    pub(crate) names: StatementNames,
    /// Number of its last message.
    pub(crate) message: u64,
    pub(crate) settings: Arc<SessionSettings>,
    /// Settings at its login.
    login: Arc<SessionSettings>,
    /// Text of the settings under which statements are parsed, with the settings that it was made from.
    context: (Arc<SessionSettings>, Arc<str>),
    /// Settings that the client was told.
    pub(crate) told: Arc<Params>,
    /// Settings of two parts that its statements have named.
    pub(crate) customs: BTreeSet<String>,
    pub(crate) application: Arc<str>,
    pub(crate) priority: Priority,
    pub(crate) rules: Arc<Rules>,
    pub(crate) reset: Reset,
    /// Version of everything that the class of a statement depends on: the proxy's settings, in the upper half, and the
    /// application.
    pub(crate) knowledge: u64,
    pub(crate) targets: ClientTargets,
    pub(crate) reach: Arc<CancelTarget>,
}

impl Client {
    pub(crate) fn new(
        shared: Arc<ProxyState>,
        pool: Arc<Pool>,
        number: u64,
        (priority, targets): (Priority, ClientTargets),
        settings: Arc<SessionSettings>,
        told: Arc<Params>,
    ) -> Client {
        let application = told.get("application_name").unwrap_or_default().into();
        // The order matters: rules that are reloaded meanwhile are read once more.
        let knowledge = u64::from(shared.generation()) << 32;
        let (rules, reset) = (Arc::clone(&shared.options().rules), shared.options().resets.of(&pool.user, &pool.name));
        Client {
            shared,
            pool,
            number,
            names: StatementNames::default(),
            message: 0,
            login: Arc::clone(&settings),
            context: (Arc::clone(&settings), settings.context()),
            settings,
            told,
            customs: BTreeSet::new(),
            application,
            priority,
            rules,
            reset,
            knowledge,
            targets,
            reach: Arc::default(),
        }
    }

    /// Returns the settings under which its statements are parsed, as one text.
    pub(crate) fn context(&mut self) -> Arc<str> {
        // The kept reference prevents changes of the settings in place.
        if !Arc::ptr_eq(&self.context.0, &self.settings) {
            self.context = (Arc::clone(&self.settings), self.settings.context());
        }
        Arc::clone(&self.context.1)
    }

    /// Returns the handle by which others cancel what the client is doing.
    pub(crate) fn canceller(&self) -> Arc<dyn Cancel> {
        Arc::clone(&self.reach) as Arc<dyn Cancel>
    }

    /// Runs a command about the target of the next transactions.
    pub(crate) fn aim(&mut self, command: &target::TargetCommand) -> Result<CommandResult, SqlError> {
        let target::TargetCommand::Set { is_local, tag, value } = command else {
            return Ok(CommandResult::Shows(target::NAME.into(), self.targets.current().name().into()));
        };
        let target = self.targets.set(*is_local, value.as_deref())?;
        if !is_local {
            // The setting goes with the client to any server that it gets.
            let settings = Arc::make_mut(&mut self.settings);
            match value {
                Some(_) => settings.set(target::NAME, target.name()),
                None => drop(settings.remove(target::NAME)),
            }
        }
        Ok(CommandResult::Tag(tag))
    }

    /// Runs a command that the proxy answers itself, and returns the answer.
    pub(crate) fn command(&mut self, text: &[u8], is_open: bool) -> Option<Result<CommandResult, SqlError>> {
        match priority::command(text)? {
            priority::PriorityCommand::Deallocate(name) => {
                self.names.remove(&name).then_some(Ok(CommandResult::Tag("DEALLOCATE")))
            }
            priority::PriorityCommand::Set(set) => Some(self.set(set, is_open).map(CommandResult::Tag)),
            priority::PriorityCommand::SetOther(name) => {
                unknown::refused(&self.shared.options().settings, &name).map(Err)
            }
            priority::PriorityCommand::Show(name) => {
                let has = self.has_setting(&name);
                has.then(|| Ok(CommandResult::Shows(Arc::clone(&name), self.shown(&name))))
            }
        }
    }

    /// True if [`Client::command`] answers this text.
    pub(crate) fn is_command(&self, text: &[u8]) -> bool {
        match priority::command(text) {
            Some(priority::PriorityCommand::Deallocate(name)) => self.names.get(&name).is_some(),
            Some(priority::PriorityCommand::Show(name)) => self.has_setting(&name),
            Some(priority::PriorityCommand::Set(_)) => true,
            Some(priority::PriorityCommand::SetOther(_)) | None => false,
        }
    }

    /// Runs a SET or RESET that the proxy answers; returns its tag.
    pub(crate) fn set(&mut self, set: SetCommand, is_open: bool) -> Result<&'static str, SqlError> {
        let of_session = set.of_session();
        let tag = self.priority.set(set, is_open)?;
        // A value that the server was told by `set_config` is replaced.
        if let Some(name) = of_session.map(Setting::name)
            && self.settings.get(name) != self.login.get(name)
        {
            keep(&mut self.settings, name, self.login.get(name));
        }
        Ok(tag)
    }

    /// Adopts the settings that the server reports for the session; `had` are those that it had before.
    pub(crate) fn follow(&mut self, had: &SessionSettings, has: &Arc<SessionSettings>) {
        let mut settings = Arc::clone(has);
        for setting in Setting::ALL {
            let name = setting.name();
            let value = has.get(name);
            if value == had.get(name) {
                // Nobody has set it at the server, so the value that was set here stays.
                if value != self.settings.get(name) {
                    keep(&mut settings, name, self.settings.get(name));
                }
                continue;
            }
            let is_as_at_login = value == self.login.get(name);
            self.priority.follow(setting, value.filter(|_| !is_as_at_login));
        }
        for (name, value) in self.login.iter() {
            // RESET goes back to the value of the login, which this connection was not told by its own login.
            if has.get(name).is_none() && had.get(name).is_some() && !name.starts_with("overtake.") {
                keep(&mut settings, name, Some(value));
            }
        }
        let target = has.get(target::NAME);
        if target != had.get(target::NAME) {
            self.targets.follow(target);
        } else if target != self.settings.get(target::NAME) {
            keep(&mut settings, target::NAME, self.settings.get(target::NAME));
        }
        self.settings = settings;
    }

    /// True if the server's empty value of this setting holds for the client: its statements have named the setting. If
    /// the login has another value for it, it was reset to that.
    pub(crate) fn may_be_empty(&self, name: &str) -> bool {
        let is_named = self.customs.contains(name);
        is_named && self.login.get(name).is_none_or(str::is_empty) && !leftovers::OWN.contains(&name)
    }

    /// Returns the proxy's own statement that this text is.
    pub(crate) fn served(&self, text: &[u8]) -> Option<LocalStatement> {
        priority::served(text, |name| self.has_setting(name))
    }

    fn has_setting(&self, name: &str) -> bool {
        self.shared.options().settings.has(name)
    }

    /// Returns the value of a setting of the proxy's for SHOW.
    pub(crate) fn shown(&self, name: &str) -> Arc<str> {
        if name == target::NAME {
            return self.targets.current().name().into();
        }
        let settings = &self.shared.options().settings;
        self.priority.shown(name).unwrap_or_else(|| effective(name, settings.get(name)).into())
    }

    /// Sets the application name.
    pub(crate) fn rename(&mut self, application: &str) {
        self.application = application.into();
        self.knowledge += 1;
    }

    /// Adopts settings that were reloaded since.
    pub(crate) fn learn(&mut self) {
        let generation = self.shared.generation();
        if self.knowledge >> 32 != u64::from(generation) {
            self.rules = Arc::clone(&self.shared.options().rules);
            self.reset = self.shared.options().resets.of(&self.pool.user, &self.pool.name);
            self.knowledge = u64::from(generation) << 32;
        }
    }

    /// Longest time that the client may wait for slot and connection.
    pub(crate) fn query_wait(&self) -> Option<Duration> {
        self.shared.options().query_wait
    }

    /// Time limit of a statement that the client has set.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        let ms = self.settings.get("statement_timeout")?.parse().ok()?;
        Some(Duration::from_millis(ms)).filter(|timeout| !timeout.is_zero())
    }
}

/// Sets one setting to this value; `None` removes it.
fn keep(settings: &mut Arc<SessionSettings>, name: &str, value: Option<&str>) {
    let settings = Arc::make_mut(settings);
    match value {
        Some(value) => settings.set(name, value),
        None => drop(settings.remove(name)),
    }
}
