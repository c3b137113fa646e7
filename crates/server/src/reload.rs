//! Settings that change while a server runs.
//!
//! **Invariant:** a setting that needs a restart keeps its value, and the log says so.

use settings::{Defaults, Setting, SettingSource};

/// True if a new value of a setting takes effect without a restart.
pub fn is_changeable(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "overtake.priority_rules",
        "overtake.query_wait_timeout",
        "overtake.target",
        "overtake.upstream_auth_query",
        "overtake.upstream_idle",
        "overtake.upstream_lifetime",
        "overtake.upstream_pool",
        "overtake.upstream_prepare",
        "overtake.upstream_reset",
    ];
    let is_of_gate = name.starts_with("overtake.mpl") || name.starts_with("overtake.gate_");
    NAMES.contains(&name) || (is_of_gate && name != "overtake.mpl_processors")
}

/// Returns the names of the settings of `before` that have other values in `now` and may change. The log names those
/// that may not change; they get their old values back.
pub fn changed<'d>(
    before: impl Iterator<Item = Setting<'d>>,
    now: &mut Defaults,
    may_change: impl Fn(&Setting<'_>) -> bool,
) -> Vec<&'static str> {
    let mut names = Vec::new();
    for setting in before {
        if now.get(setting.name) == setting.value {
            continue;
        }
        if may_change(&setting) {
            names.push(setting.name);
            continue;
        }
        tracing::warn!("parameter \"{}\" cannot be changed without restarting the server", setting.name);
        // The value was accepted at the start.
        if let Err(error) = now.set(setting.name, setting.value, SettingSource::CommandLine) {
            tracing::error!(error = error.message(), "a setting that was good is not any more");
        }
    }
    names
}
