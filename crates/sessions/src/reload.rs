//! Reload of the settings of a server with its own engine.
//!
//! **Invariant:** either all settings read take effect, or none. A setting that needs a restart keeps its
//! value, and the log says so.

use engine::{LockConfig, LockPriority};
use server::admission::{Admission, AdmissionOptions};
use server::reload::{changed, is_changeable};
use settings::Defaults;
use settings::sources::OptionError;
use sql::session::Database;

/// Returns the configuration of locks with the values from the settings.
pub fn lock_config(config: LockConfig, settings: &Defaults) -> LockConfig {
    let name = settings.get("overtake.lock_priority");
    let priority = LockPriority::ALL.into_iter().find(|priority| priority.name() == name);
    LockConfig { priority: priority.unwrap_or(config.priority), ..config }
}

/// Reads the settings again and applies them to the gate and to sessions. Returns the names of the changed settings.
///
/// # Errors
/// Settings that cannot be read or applied. All settings then stay as they were.
pub fn reload(
    database: &Database,
    admission: &Admission,
    read: impl FnOnce() -> Result<Defaults, OptionError>,
) -> Result<Vec<&'static str>, OptionError> {
    let before = database.defaults();
    let mut settings = read()?;
    let names = changed(before.all(), &mut settings, |setting| {
        !setting.is_of_server || setting.name == "overtake.lock_priority" || is_changeable(setting.name)
    });
    let options = AdmissionOptions::from_settings(&settings, "off", true)?;
    let locks = lock_config(database.engine().lock_config(), &settings);
    let sessions = database
        .prepare_reload(settings)
        .map_err(|error| OptionError::of("overtake.priority_rules", error.message().to_owned()))?;
    let is_possible =
        admission.change(&options).map_err(|error| OptionError::of("overtake.gate_classes", error.to_string()))?;
    if !is_possible {
        let why = "the gate cannot be switched on or off without restarting the server";
        return Err(OptionError::of("overtake.mpl", why.to_owned()));
    }
    database.engine().set_lock_config(locks);
    sessions.apply();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Engine, EngineConfig};
    use settings::sources::read_flag;

    fn with(flags: &[&str]) -> Defaults {
        let mut settings = Defaults::default();
        for flag in flags {
            read_flag(flag, &mut settings).expect("a setting");
        }
        settings
    }

    #[test]
    fn a_reload_changes_what_may_change_and_all_or_nothing() {
        let database = Database::new(Engine::new(EngineConfig::in_memory()))
            .with_defaults(with(&["overtake.mpl=4", "statement_timeout=1s"]))
            .expect("settings");
        let options = AdmissionOptions::from_settings(&database.defaults(), "off", true).expect("options");
        let admission = Admission::new(&options).expect("a gate");
        let read = with(&["overtake.mpl=7", "overtake.lock_priority=pow", "statement_timeout=2s", "port=7000"]);
        let changed = reload(&database, &admission, || Ok(read)).expect("a reload");
        assert_eq!(changed, ["overtake.lock_priority", "overtake.mpl", "statement_timeout"]);
        let now = database.defaults();
        assert_eq!((now.get("overtake.mpl"), now.get("statement_timeout"), now.get("port")), ("7", "2s", "5432"));
        assert_eq!(database.engine().lock_config().priority, LockPriority::Pow);
        for wrong in ["overtake.mpl=off", "overtake.priority_rules=nonsense"] {
            let read = with(&[wrong, "statement_timeout=3s"]);
            reload(&database, &admission, || Ok(read)).expect_err(wrong);
            assert_eq!(database.defaults().get("statement_timeout"), "2s", "{wrong}");
        }
    }
}
