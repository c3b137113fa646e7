//! Options of a proxy.
//!
//! **Invariant:** the default follows the defaults of the settings.

use crate::clients::priority;
use crate::servers::nodes::WatchOptions;
use crate::servers::pool::PoolLimits;
use crate::servers::target::TargetRole;
use crate::setup::sessions::{self, SessionDefaults};
use crate::statements::resets::Resets;
use settings::priority::Rules;
use settings::sources::OptionError;
use settings::{Defaults, SettingSource};
use stage::Class;
use statement::SqlError;
use statement::time::TimeSource;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Minimum interval at which servers are asked for their state.
const PERIOD_MIN: Duration = Duration::from_millis(10);

/// Options of a proxy.
#[derive(Clone)]
pub struct UpstreamOptions {
    /// Limits of the connections to the servers.
    pub limits: PoolLimits,
    /// Options of the watch over the servers.
    pub watching: WatchOptions,
    /// Time after which a client that waits for slot and connection is disconnected; `None`: never.
    pub query_wait: Option<Duration>,
    /// Query for a role's password, `$1` being its name. The second column of the row is as in `pg_authid`; a third
    /// one, if there is any, is true for a password that has expired.
    pub auth_query: String,
    /// True if server processes that run transactions of class `low` have a lower processor priority meanwhile.
    pub internal_priorities: bool,
    /// True if unnamed statements that repeat are prepared once on each connection.
    pub prepare: bool,
    /// Interval between two samples of the wait events of server processes; `None` for no samples.
    pub watch: Option<Duration>,
    /// Rules when connections are asked for state that their clients have left, by user and database.
    pub resets: Arc<Resets>,
    /// Classes of clients by user, database and application.
    pub rules: Arc<Rules>,
    /// Settings that clients' sessions begin with.
    pub sessions: Arc<SessionDefaults>,
    /// All settings, for the views.
    pub settings: Defaults,
    /// Source from which the settings are read again; without it they cannot be reloaded.
    pub again: Option<SettingsSource>,
    /// Clock of everything that deals with the servers.
    pub time: TimeSource,
}

/// Source of all settings.
pub type SettingsSource = Arc<dyn Fn() -> Result<Defaults, OptionError> + Send + Sync>;

impl fmt::Debug for UpstreamOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamOptions").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Default for UpstreamOptions {
    fn default() -> UpstreamOptions {
        PoolLimits::default().into()
    }
}

impl From<PoolLimits> for UpstreamOptions {
    fn from(limits: PoolLimits) -> UpstreamOptions {
        let settings = Defaults::default();
        let auth_query = settings.get("overtake.upstream_auth_query").to_owned();
        let (rules, watch, watching) = (Arc::default(), watch_of(&settings), WatchOptions::default());
        UpstreamOptions {
            limits,
            watching,
            query_wait: None,
            auth_query,
            internal_priorities: false,
            prepare: false,
            watch,
            resets: Arc::default(),
            rules,
            sessions: Arc::default(),
            settings,
            again: None,
            time: TimeSource::system(),
        }
    }
}

/// Interval of the watchers. Below 10 ms there is no benefit, and above 10 s the figures mean nothing.
fn watch_of(settings: &Defaults) -> Option<Duration> {
    let name = "overtake.upstream_watch";
    (settings.number(name) != -1)
        .then(|| settings.duration(name).clamp(Duration::from_millis(10), Duration::from_secs(10)))
}

impl UpstreamOptions {
    /// Class of a client that has not asked for one, where no rule gives another.
    pub(crate) fn class(&self) -> Result<Class, SqlError> {
        settings::priority::class_of(self.settings.get("overtake.priority"))
    }

    /// Highest class of a role, for which the server has reported this one.
    pub(crate) fn class_max(&self, said: Option<Class>, is_superuser: bool) -> Class {
        const NAME: &str = priority::MAX;
        let by_default = if is_superuser { Class::High } else { Class::Normal };
        let own = (self.settings.source(NAME) != SettingSource::Default)
            .then(|| settings::priority::class_of(self.settings.get(NAME)).ok());
        said.or(own.flatten()).unwrap_or(by_default)
    }

    /// Target of a client that has not asked for one, unless the URL has one.
    pub(crate) fn target(&self) -> TargetRole {
        TargetRole::named(self.settings.get("overtake.target")).unwrap_or_default()
    }

    /// Reads the options from the settings.
    ///
    /// # Errors
    /// A query that asks for no role; an invalid rule; a setting of sessions that cannot reach the servers.
    pub fn from_settings(settings: &Defaults) -> Result<UpstreamOptions, OptionError> {
        let limits = PoolLimits {
            size: usize::try_from(settings.number("overtake.upstream_pool")).unwrap_or(1),
            idle: settings.duration("overtake.upstream_idle"),
            lifetime: settings.duration("overtake.upstream_lifetime"),
        };
        let watching = WatchOptions {
            period: settings.duration("overtake.upstream_check").max(PERIOD_MIN),
            patience: settings.duration("overtake.upstream_wait"),
        };
        let (name, auth_query) = ("overtake.upstream_auth_query", settings.get("overtake.upstream_auth_query"));
        if !auth_query.contains("$1") {
            return Err(OptionError::of(name, "$1 does not stand in it, the name of the role".to_owned()));
        }
        let rules = Rules::parse(settings.get("overtake.priority_rules")).map_err(|error| {
            let why = format!("{}: {}", error.message(), error.detail_text().unwrap_or_default());
            OptionError::of("overtake.priority_rules", why)
        })?;
        let resets = Resets::parse(settings.get("overtake.upstream_reset"))
            .map_err(|error| OptionError::of("overtake.upstream_reset", error))?;
        TargetRole::of(settings.get("overtake.target"))
            .map_err(|error| OptionError::of("overtake.target", error.message().to_owned()))?;
        Ok(UpstreamOptions {
            limits,
            watching,
            query_wait: Some(settings.duration("overtake.query_wait_timeout")).filter(|time| !time.is_zero()),
            auth_query: auth_query.to_owned(),
            internal_priorities: settings.is_on("overtake.internal_priorities"),
            prepare: settings.is_on("overtake.upstream_prepare"),
            watch: watch_of(settings),
            resets: Arc::new(resets),
            rules: Arc::new(rules),
            sessions: Arc::new(sessions::read(settings)?),
            settings: settings.clone(),
            again: None,
            time: TimeSource::system(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::sources::read_flag;

    #[test]
    fn settings_reach_the_front() {
        let mut settings = Defaults::default();
        let by_default = UpstreamOptions::from_settings(&settings).expect("defaults").limits;
        let wanted = PoolLimits::default();
        assert_eq!(
            (by_default.size, by_default.idle, by_default.lifetime),
            (wanted.size, wanted.idle, wanted.lifetime)
        );
        for flag in ["overtake.upstream_pool=7", "overtake.upstream_idle=5s", "overtake.upstream_lifetime=2min"] {
            read_flag(flag, &mut settings).expect("a setting");
        }
        let limits = UpstreamOptions::from_settings(&settings).expect("settings").limits;
        assert_eq!((limits.size, limits.idle, limits.lifetime.as_secs()), (7, Duration::from_secs(5), 120));
        let watch = |value: &str| {
            let mut settings = settings.clone();
            read_flag(&format!("overtake.upstream_watch={value}"), &mut settings).expect("a setting");
            UpstreamOptions::from_settings(&settings).expect("settings").watch
        };
        assert_eq!((watch("-1"), watch("1s")), (None, Some(Duration::from_secs(1))));
        for wrong in [
            "overtake.upstream_auth_query=select 1",
            "overtake.priority_rules=urgent user=x",
            "overtake.upstream_reset=x",
        ] {
            let mut settings = settings.clone();
            read_flag(wrong, &mut settings).expect("a setting");
            let error = UpstreamOptions::from_settings(&settings).expect_err(wrong).to_string();
            assert!(error.starts_with(wrong.split('=').next().unwrap_or_default()), "{error}");
        }
    }
}
