//! Settings of the proxy that are reloaded while it serves: those of the gate, the rules, and those of the pools.
//!
//! **Invariant:** either everything that was read takes effect, or nothing. A setting that cannot be changed while the
//! proxy serves keeps its value, and the log says so.

use crate::Upstream;
use crate::servers::pool::Pool;
use crate::setup::options::UpstreamOptions;
use locked::{Locked, RwLocked};
use server::admission::AdmissionOptions;
use server::reload::{changed, is_changeable};
use settings::Defaults;
use settings::sources::OptionError;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, RwLock};
use tokio::signal::unix::Signal;

/// Options in force.
pub(crate) struct LiveOptions {
    options: RwLock<Arc<UpstreamOptions>>,
    generation: AtomicU32,
    /// Lock that serializes reloads.
    reading: Mutex<()>,
}

impl LiveOptions {
    pub(crate) fn new(options: UpstreamOptions) -> LiveOptions {
        LiveOptions { options: RwLock::new(Arc::new(options)), generation: AtomicU32::new(0), reading: Mutex::new(()) }
    }
}

/// Value of `overtake.mpl` in front of an upstream, where it is not set.
const MPL: &str = "auto";

/// Value of a setting as the proxy applies it.
pub(crate) fn effective<'v>(name: &str, value: &'v str) -> &'v str {
    if name == "overtake.mpl" && value.is_empty() { MPL } else { value }
}

impl crate::ProxyState {
    pub(crate) fn options(&self) -> Arc<UpstreamOptions> {
        Arc::clone(&self.live.options.read_locked_anyway())
    }

    /// Number of reloads.
    pub(crate) fn generation(&self) -> u32 {
        self.live.generation.load(Acquire)
    }

    /// Reloads the settings, and applies them. Returns the names of those that have changed; `None` if there is no
    /// source.
    ///
    /// # Errors
    /// The settings cannot be read, or are invalid; nothing changes then.
    pub(crate) fn read_again(&self) -> Result<Option<Vec<&'static str>>, OptionError> {
        let _reading = self.live.reading.locked();
        let before = self.options();
        let Some(again) = &before.again else { return Ok(None) };
        let mut settings = again()?;
        let changed = differing(&before.settings, &mut settings);
        let options = UpstreamOptions::from_settings(&settings)?;
        let admission = AdmissionOptions::from_settings(&settings, MPL, false)?;
        let is_possible = self
            .nodes
            .change_admissions(&admission)
            .map_err(|error| OptionError::of("overtake.gate_classes", error.to_string()))?;
        if !is_possible {
            let why = "a gate cannot be put up or taken away without restarting the server";
            return Err(OptionError::of("overtake.mpl", why.to_owned()));
        }
        let options = UpstreamOptions { again: before.again.clone(), time: before.time.clone(), ..options };
        let (limits, resets) = (options.limits, Arc::clone(&options.resets));
        self.statements.repeated.turn(options.prepare);
        *self.live.options.write_locked_anyway() = Arc::new(options);
        // The limits follow the options: a pool that is created meanwhile has them already, or is among these.
        self.all_pools().iter().for_each(|pool| pool.set_limits(limits));
        // A reader of the new number also sees the settings that belong to it.
        self.live.generation.fetch_add(1, Release);
        // State that clients have left on connections under the old rule must not reach later ones.
        let is_another = |pool: &Pool| resets.of(&pool.user, &pool.name) != before.resets.of(&pool.user, &pool.name);
        self.all_pools().iter().filter(|pool| is_another(pool)).for_each(|pool| pool.reconnect());
        Ok(Some(changed))
    }

    /// Reloads like [`ProxyState::read_again`](crate::ProxyState::read_again), and forgets the answers of servers about
    /// logins. Everything is logged.
    ///
    /// # Errors
    /// The same as those of [`ProxyState::read_again`](crate::ProxyState::read_again).
    pub(crate) fn reload(&self) -> Result<Option<Vec<&'static str>>, OptionError> {
        let read = self.read_again();
        match &read {
            Ok(Some(changed)) => tracing::info!(changed = %changed.join(", "), "the settings were read again"),
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "the settings stay as they were: they cannot be read again"),
        }
        self.forget_logins();
        read
    }
}

impl Upstream {
    /// Reloads the settings, as `RELOAD` does.
    ///
    /// # Errors
    /// The settings cannot be read, or are invalid; nothing changes then.
    pub fn reload(&self) -> Result<(), OptionError> {
        self.0.reload().map(drop)
    }

    /// Reloads the settings at each SIGHUP, for ever, in the runtime of the caller. Errors are logged. `begun` is
    /// called before each reload, `done` after it.
    pub async fn reload_on_hangup(&self, mut hangups: Signal, begun: impl Fn(), done: impl Fn()) {
        while hangups.recv().await.is_some() {
            let upstream = self.clone();
            begun();
            // Files are read on a blocking thread.
            drop(tokio::task::spawn_blocking(move || upstream.reload()).await);
            done();
        }
    }
}

/// Returns the changed settings like [`changed`]; sessions that begin later have the new values.
fn differing(before: &Defaults, now: &mut Defaults) -> Vec<&'static str> {
    changed(before.all(), now, |setting| !setting.is_of_server || is_changeable(setting.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::sources::read_flag;

    #[test]
    fn only_some_settings_change() {
        let before = Defaults::default();
        let mut now = before.clone();
        let flags = ["port=7", "overtake.mpl=7", "overtake.priority_rules=low user=x", "overtake.mpl_processors=9"];
        for flag in flags.into_iter().chain(["statement_timeout=1s"]) {
            read_flag(flag, &mut now).expect("a setting");
        }
        assert_eq!(differing(&before, &mut now), ["overtake.mpl", "overtake.priority_rules", "statement_timeout"]);
        assert_eq!((now.get("port"), now.get("overtake.mpl"), now.get("overtake.mpl_processors")), ("5432", "7", "0"));
    }
}
