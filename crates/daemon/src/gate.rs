//! `serve` before other servers: the gate, without a database of its own.

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
use server::{Config, Door, DoorOptions, HbaRule, Server};
use settings::Defaults;
use settings::sources::OptionError;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Real-time priority of threads that read the network.
const NETWORK_PRIORITY: i32 = 1;

/// Configuration of a process that serves, from its settings.
pub struct ServerSetup {
    /// Settings of file, environment and flags.
    pub settings: Defaults,
    /// Configuration of the network.
    pub config: Config,
    /// Limits of the process's memory, which count already.
    pub limits: MemoryLimits,
    /// Heaps of the network's threads, once these have begun.
    pub heaps: Heaps,
}

/// Refusal of settings that cannot be used.
pub fn refused(error: &OptionError) -> Refusal {
    Refusal::new(error.to_string())
}

impl ServerSetup {
    /// Prepares the configuration. `default` is the gate's limit where the settings say none.
    ///
    /// # Errors
    /// A [`Refusal`] for settings that cannot be used.
    pub fn new(arguments: &ServeArguments, default: &str) -> anyhow::Result<ServerSetup> {
        let settings = arguments.settings().map_err(|error| refused(&error))?;
        let mut config = Config::from_settings(&settings).map_err(|error| refused(&error))?;
        let heaps = set_network_threads(&mut config, settings.is_on("overtake.network_realtime"));
        let is_own = arguments.upstream.is_empty();
        let door = DoorOptions::from_settings(&settings, default, is_own).map_err(|error| refused(&error))?;
        config.door = Door::new(&door).map_err(|error| Refusal::new(format!("overtake.gate_classes: {error}")))?;
        let limits = MemoryLimits::of(settings.bytes("overtake.memory"), memory::limit_bytes());
        limits.set();
        Ok(ServerSetup { settings, config, limits, heaps })
    }
}

/// Sets the first steps of threads that read the network. Their heaps are known once they have begun.
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

/// Runtime of the thread that takes connections; sessions have threads of their own.
///
/// # Errors
/// The system has no room for it.
pub fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("the server's runtime")
}

/// Serves clients of other servers until it is stopped.
///
/// # Errors
/// A [`Refusal`] for settings that cannot be used, and for an address that is taken or not ours; whatever ends the server.
pub fn run(arguments: &ServeArguments, stop: &Stop) -> anyhow::Result<()> {
    let runtime = runtime()?;
    // Heard from the very beginning: by default the signal ends the process.
    let hangups = {
        let _inside = runtime.enter();
        signal(SignalKind::hangup()).context("SIGHUP")?
    };
    let ServerSetup { settings, mut config, limits, heaps } = ServerSetup::new(arguments, "auto")?;
    let url = Url::joined(arguments.upstream.iter().cloned());
    let url = url.map_err(|error| Refusal::new(format!("--upstream: {error}")))?;
    if settings.number("overtake.network_threads") == 0 {
        // They only pass messages on, and one that is busy sleeps less often than two that are not.
        config.network_threads = (os::cpus().len() / 2).max(1);
    }
    let mut options = UpstreamOptions::from_settings(&settings).map_err(|error| refused(&error))?;
    let own = arguments.clone();
    options.again = Some(Arc::new(move || own.settings()));
    let upstream = Upstream::new(url.clone(), options, config.door.clone())
        .map_err(|error| Refusal::new(format!("--upstream: {error}")))?;
    if arguments.check_config {
        say("The settings can be used.\n")?;
        return Ok(());
    }
    if settings.get("hba_file").is_empty() && upstream.has_password() {
        // Trust would lend the password of the URL's role to every user of this machine.
        config.rules = HbaRule::of_a_gate_with_passwords();
    }
    let network_begun = Arc::clone(&config.network_begun);
    let (front, shown) = (upstream.clone(), upstream.clone());
    let server = Server::bind(config, upstream).map_err(|error| Refusal::new(format!("cannot listen {error}")))?;
    let _purging = Purging::start(limits, heaps)?;
    let hosts: Vec<String> = url.hosts.iter().map(ToString::to_string).collect();
    announce(format_args!("Overtake is listening in front of {}.\n", hosts.join(", ")));
    for address in server.addresses().context("the server's addresses")? {
        announce(format_args!("  psql \"postgresql://{}@{address}/{}\"\n", url.user, url.database));
    }
    let _console = Console::start(arguments.console, move || shown.door())?;
    network_begun();
    runtime.spawn(async move {
        front.reload_on_hangup(hangups, || notify(ServiceState::Reloading), || notify(ServiceState::Ready)).await;
    });
    notify(ServiceState::Ready);
    let result = runtime.block_on(server.run(until(stop.clone())));
    stop.request_now();
    result.context("the server")
}
