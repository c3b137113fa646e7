//! `serve` in front of other servers: the gate without a database of its own.

use crate::arguments::ServeArguments;
use crate::console::Console;
use crate::process::{ServiceState, announce, notify, until};
use crate::purge::{Heaps, MemoryLimits, Purging};
use anyhow::Context;
use host::memory;
use host::refusal::Refusal;
use host::say::say;
use host::stop::Stop;
use preempt::os;
use proxy::{Upstream, UpstreamOptions, Url};
use server::{Admission, AdmissionOptions, Config, HbaRule, Server};
use settings::Defaults;
use settings::sources::OptionError;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Real-time priority of the threads that read the network.
const NETWORK_PRIORITY: i32 = 1;

/// Configuration of a serving process, derived from its settings.
pub struct ServerSetup {
    /// Settings of file, environment and flags.
    pub settings: Defaults,
    /// Configuration of the network.
    pub config: Config,
    /// Memory limits of the process, which are already in force.
    pub limits: MemoryLimits,
    /// Heaps of the network's threads, as soon as these have started.
    pub heaps: Heaps,
}

/// Refusal of settings that cannot be used.
pub fn refused(error: &OptionError) -> Refusal {
    Refusal::new(error.to_string())
}

impl ServerSetup {
    /// Prepares the configuration. `default` is the gate's limit if the settings specify none.
    ///
    /// # Errors
    /// Fails with a [`Refusal`] for settings that cannot be used.
    pub fn new(arguments: &ServeArguments, default: &str) -> anyhow::Result<ServerSetup> {
        let settings = arguments.settings().map_err(|error| refused(&error))?;
        let mut config = Config::from_settings(&settings).map_err(|error| refused(&error))?;
        let heaps = set_network_threads(&mut config, settings.is_on("overtake.network_realtime"));
        let is_own = arguments.upstream.is_empty();
        let admission = AdmissionOptions::from_settings(&settings, default, is_own).map_err(|error| refused(&error))?;
        config.admission =
            Admission::new(&admission).map_err(|error| Refusal::new(format!("overtake.gate_classes: {error}")))?;
        let limits = MemoryLimits::of(settings.bytes("overtake.memory"), memory::limit_bytes());
        limits.set();
        Ok(ServerSetup { settings, config, limits, heaps })
    }
}

/// Registers the first steps of the network's threads, whose heaps are known only once they have started.
fn set_network_threads(config: &mut Config, is_realtime: bool) -> Heaps {
    let heaps = Heaps::default();
    let begun = {
        let heaps = heaps.clone();
        move || {
            heaps.add_this();
            if is_realtime && let Err(error) = os::set_realtime(NETWORK_PRIORITY) {
                tracing::warn!(%error, "the threads that read the network stay in the ordinary class");
            }
        }
    };
    config.network_begun = Arc::new(begun);
    config.lent_begun = Arc::new(move || {
        if is_realtime && let Err(error) = os::set_ordinary() {
            tracing::warn!(%error, "a long statement stays in the real-time class");
        }
    });
    heaps
}

/// Creates the runtime of the thread that accepts connections; sessions have threads of their own.
///
/// # Errors
/// Fails if the system has no resources for it.
pub fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("the server's runtime")
}

/// Serves clients of other servers until it is stopped.
///
/// # Errors
/// Fails with a [`Refusal`] for settings that cannot be used, and for an address that is in use or does not belong to
/// this machine; otherwise with the error that ends the server.
pub fn run(arguments: &ServeArguments, stop: &Stop) -> anyhow::Result<()> {
    let runtime = runtime()?;
    // The handler is installed first because the signal ends the process by default.
    let hangups = {
        let _inside = runtime.enter();
        signal(SignalKind::hangup()).context("SIGHUP")?
    };
    let ServerSetup { settings, mut config, limits, heaps } = ServerSetup::new(arguments, "auto")?;
    let url = Url::joined(arguments.upstream.iter().cloned());
    let url = url.map_err(|error| Refusal::new(format!("--upstream: {error}")))?;
    if settings.number("overtake.network_threads") == 0 {
        // These threads only forward messages, and one busy thread sleeps less often than two idle ones.
        config.network_threads = (os::cpus().len() / 2).max(1);
    }
    let mut options = UpstreamOptions::from_settings(&settings).map_err(|error| refused(&error))?;
    let own = arguments.clone();
    options.again = Some(Arc::new(move || own.settings()));
    let upstream = Upstream::new(url.clone(), options, config.admission.clone())
        .map_err(|error| Refusal::new(format!("--upstream: {error}")))?;
    if arguments.check_config {
        say("The settings can be used.\n")?;
        return Ok(());
    }
    if settings.get("hba_file").is_empty() && upstream.has_password() {
        // Trust authentication would lend the password of the URL's role to every user of this machine.
        config.rules = HbaRule::of_a_gate_with_passwords();
    }
    let network_begun = Arc::clone(&config.network_begun);
    let (front, shown, stats) = (upstream.clone(), upstream.clone(), Arc::clone(&config.stats));
    let server = Server::bind(config, upstream).map_err(|error| Refusal::new(format!("cannot listen {error}")))?;
    let _purging = Purging::start(limits, heaps)?;
    let hosts: Vec<String> = url.hosts.iter().map(ToString::to_string).collect();
    announce(format_args!("Overtake is listening in front of {}.\n", hosts.join(", ")));
    for address in server.addresses().context("the server's addresses")? {
        announce(format_args!("  psql \"postgresql://{}@{address}/{}\"\n", url.user, url.database));
    }
    let _console = Console::start(arguments.console, move || shown.admission(), stats)?;
    network_begun();
    runtime.spawn(async move {
        front.reload_on_hangup(hangups, || notify(ServiceState::Reloading), || notify(ServiceState::Ready)).await;
    });
    notify(ServiceState::Ready);
    let result = runtime.block_on(server.run(until(stop.clone())));
    stop.request_now();
    result.context("the server")
}
