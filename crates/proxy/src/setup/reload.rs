//! Settings of the front that are read again while it serves: the gate's, the rules, those of the pools.
//!
//! **Invariant:** all that was read counts, or nothing of it. A setting that cannot be changed while the front serves keeps its value,
//! and the log says so.

use crate::Upstream;
use crate::servers::pool::Pool;
use crate::setup::options::UpstreamOptions;
use server::door::DoorOptions;
use server::reload::{changed, is_changeable};
use settings::Defaults;
use settings::sources::OptionError;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio::signal::unix::Signal;

/// The options in force.
pub(crate) struct Live {
    options: RwLock<Arc<UpstreamOptions>>,
    generation: AtomicU32,
    /// One reads at a time.
    reading: Mutex<()>,
}

impl Live {
    pub(crate) fn new(options: UpstreamOptions) -> Live {
        Live { options: RwLock::new(Arc::new(options)), generation: AtomicU32::new(0), reading: Mutex::new(()) }
    }
}

/// What `overtake.mpl` is before an upstream unless it is said.
const MPL: &str = "auto";

/// A setting's value as the front goes by it.
pub(crate) fn effective<'v>(name: &str, value: &'v str) -> &'v str {
    if name == "overtake.mpl" && value.is_empty() { MPL } else { value }
}

impl crate::Shared {
    pub(crate) fn options(&self) -> Arc<UpstreamOptions> {
        Arc::clone(&self.live.options.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How often they were read.
    pub(crate) fn generation(&self) -> u32 {
        self.live.generation.load(Acquire)
    }

    /// Reads the settings again, and goes by them. Says whose values are others now; nothing, if they come from nowhere.
    ///
    /// # Errors
    /// What cannot be read, or makes no front; all stays as it was.
    pub(crate) fn read_again(&self) -> Result<Option<Vec<&'static str>>, OptionError> {
        let _reading = self.live.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.options();
        let Some(again) = &before.again else { return Ok(None) };
        let mut settings = again()?;
        let changed = differing(&before.settings, &mut settings);
        let options = UpstreamOptions::from_settings(&settings)?;
        let door = DoorOptions::from_settings(&settings, MPL, false)?;
        let is_possible = self
            .nodes
            .change_doors(&door)
            .map_err(|error| OptionError::of("overtake.gate_classes", error.to_string()))?;
        if !is_possible {
            let why = "a gate cannot be put up or taken away without restarting the server";
            return Err(OptionError::of("overtake.mpl", why.to_owned()));
        }
        let options = UpstreamOptions { again: before.again.clone(), ..options };
        let (limits, resets) = (options.limits, Arc::clone(&options.resets));
        self.statements.repeated.turn(options.prepare);
        *self.live.options.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(options);
        // Behind that: a pool that is made meanwhile has them already, or is among these.
        self.all_pools().iter().for_each(|pool| pool.set_limits(limits));
        // Whoever sees the number finds what it stands for.
        self.live.generation.fetch_add(1, Release);
        // What clients have left on connections by the rule before is not for those that come.
        let is_another = |pool: &Pool| resets.of(&pool.user, &pool.name) != before.resets.of(&pool.user, &pool.name);
        self.all_pools().iter().filter(|pool| is_another(pool)).for_each(|pool| pool.reconnect());
        Ok(Some(changed))
    }

    /// The same, and what servers have said of logins is forgotten; all of it in the log.
    ///
    /// # Errors
    /// As [`Shared::read_again`](crate::Shared::read_again).
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
    /// Reads the settings again, as `RELOAD` does.
    ///
    /// # Errors
    /// What cannot be read, or makes no front; all stays as it was.
    pub fn reload(&self) -> Result<(), OptionError> {
        self.0.reload().map(drop)
    }

    /// Reads the settings again at each SIGHUP, for ever, in the runtime of the caller. What is wrong with them is in the log.
    /// `begun` is called before each time, `done` after it.
    pub async fn reload_on_hangup(&self, mut hangups: Signal, begun: impl Fn(), done: impl Fn()) {
        while hangups.recv().await.is_some() {
            let upstream = self.clone();
            begun();
            // Files are read on a thread beside.
            drop(tokio::task::spawn_blocking(move || upstream.reload()).await);
            done();
        }
    }
}

/// As [`changed`]: sessions that begin after that have the new values.
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
