//! `overtake serve`: a database over PostgreSQL's wire protocol.
//!
//! **Invariant:** the housekeeping runs as long as sessions do, because waits end by it.

mod analytics;
mod console;
mod purge;
mod starvation;

use self::console::Console;
use analytics::{Lanes, Wanted};
use anyhow::Context;
use clap::Args;
use engine::{Engine, EngineConfig, Housekeeper};
use host::memory;
use host::refusal::Refusal;
use host::say::say;
use host::stop::Stop;
use preempt::os;
use proxy::{Upstream, UpstreamOptions, Url};
use purge::{Heaps, MemoryLimits, Purging};
use server::{Config, Dispatch, Door, DoorOptions, Server};
use sessions::Views;
use settings::sources;
use settings::sources::OptionError;
use settings::{Defaults, Source};
use sql::session::Database;
use starvation::Watch;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Of threads that read the network, where they run in the real-time class.
const NETWORK_PRIORITY: i32 = 1;

/// Arguments of `serve`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// The configuration file: lines NAME = VALUE, the names being those of `pg_settings`. The same names count as
    /// environment variables (OVERTAKE_PORT; OVERTAKE_PRIORITY for overtake.priority) and after -c; the last of file,
    /// environment and flag counts.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Checks file, environment and flags, and ends: 0 if they can be used, 2 if not.
    #[arg(long)]
    check_config: bool,
    /// A setting; may be given several times.
    #[arg(short = 'c', long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Where clients connect; may be given several times. Port 0 takes a free one. The setting listen_addresses.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    listen: Vec<(String, u16)>,
    /// A directory for the unix socket `.s.PGSQL.PORT`, PORT being the first address's. The setting
    /// unix_socket_directories.
    #[arg(long, value_name = "DIRECTORY")]
    socket: Option<PathBuf>,
    /// Sessions at a time; more are turned away (SQLSTATE 53300). The setting max_connections.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: Option<u32>,
    /// Servers to stand before, in place of a database of its own: postgres://user:password@host:port/database. Clients share
    /// connections to them, transaction by transaction. Of several hosts, separated by commas or given by several of these, the
    /// one that says that it is the primary gets transactions; the others get those of clients that ask for a standby
    /// (overtake.target). The password is that of this user; others prove theirs.
    #[arg(long, value_name = "URL")]
    upstream: Vec<Url>,
    /// Where metrics, /healthz and /readyz are served by HTTP. The setting overtake.metrics.
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// A page that shows what the gate does, for browsers on this machine: 127.0.0.1:PORT. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = loopback)]
    console: Option<SocketAddr>,
}

/// An address or a name, with its port.
fn address(text: &str) -> Result<(String, u16), String> {
    let (name, port) = text.rsplit_once(':').ok_or("it is no ADDRESS:PORT")?;
    let port = port.parse().map_err(|error| format!("port \"{port}\": {error}"))?;
    if name.is_empty() || name.contains(',') {
        return Err("it is no ADDRESS:PORT".to_owned());
    }
    Ok((text.to_owned(), port))
}

/// An address of this machine for itself: the console has no password.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "it is no ADDRESS:PORT".to_owned())?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("the page has no password, so it is for this machine only: take 127.0.0.1".to_owned()),
    }
}

impl Arguments {
    /// The settings, from file, environment and flags.
    fn settings(&self) -> Result<Defaults, OptionError> {
        let mut settings = Defaults::default();
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        for unknown in sources::read_environment(variables, &mut settings)? {
            tracing::warn!("{unknown}");
        }
        let flag = |settings: &mut Defaults, name: &str, value: &dyn Display| {
            sources::read_flag(&format!("{name}={value}"), settings)
        };
        if let Some(file) = &self.config {
            sources::read_file(file, &mut settings)?;
            flag(&mut settings, "config_file", &file.display())?;
        }
        if let Some((_, port)) = self.listen.first() {
            let all: Vec<&str> = self.listen.iter().map(|(address, _)| &**address).collect();
            flag(&mut settings, "listen_addresses", &all.join(","))?;
            flag(&mut settings, "port", port)?;
        }
        if let Some(directory) = &self.socket {
            flag(&mut settings, "unix_socket_directories", &directory.display())?;
        }
        if let Some(count) = &self.connections {
            flag(&mut settings, "max_connections", count)?;
        }
        if let Some(address) = &self.metrics {
            flag(&mut settings, "overtake.metrics", address)?;
        }
        for assignment in &self.set {
            sources::read_flag(assignment, &mut settings)?;
        }
        Ok(settings)
    }
}

/// Serves until it is stopped.
///
/// # Errors
/// A [`Refusal`] for settings that cannot be used, and for an address that is taken or not ours; whatever ends the server.
pub fn run(arguments: &Arguments, stop: &Stop) -> anyhow::Result<()> {
    let refused = |error: OptionError| Refusal::new(error.to_string());
    // Of those who connect; sessions have threads of their own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("the server's runtime")?;
    // Heard from the very beginning: by default the signal ends the process, and in-memory data with it.
    let mut hangups = {
        let _inside = runtime.enter();
        signal(SignalKind::hangup()).context("SIGHUP")?
    };
    let settings = arguments.settings().map_err(refused)?;
    let mut config = Config::from_settings(&settings).map_err(refused)?;
    let is_realtime = settings.is_on("overtake.network_realtime");
    let lanes = Wanted::from_settings(&settings);
    let watch = Arc::<Watch>::default();
    let heaps = set_threads(&mut config, is_realtime, lanes.are_ordinary(), &watch);
    let default = if arguments.upstream.is_empty() { "off" } else { "auto" };
    let door = DoorOptions::from_settings(&settings, default, arguments.upstream.is_empty()).map_err(refused)?;
    config.door = Door::new(&door).map_err(|error| Refusal::new(format!("overtake.gate_classes: {error}")))?;
    let limits = MemoryLimits::of(settings.bytes("overtake.memory"), memory::limit_bytes());
    limits.set();
    if !arguments.upstream.is_empty() {
        let url = Url::joined(arguments.upstream.iter().cloned());
        let url = url.map_err(|error| Refusal::new(format!("--upstream: {error}")))?;
        if settings.number("overtake.network_threads") == 0 {
            // They only pass messages on, and one that is busy sleeps less often than two that are not.
            config.network_threads = (os::cpus().len() / 2).max(1);
        }
        let mut options = UpstreamOptions::from_settings(&settings).map_err(refused)?;
        let own = arguments.clone();
        options.again = Some(Arc::new(move || own.settings()));
        return serve_upstream(&runtime, arguments, config, &url, (options, limits, heaps), stop);
    }
    let is_default = settings.source("listen_addresses") == Source::Default;
    let is_handed_over = settings.get("overtake.dispatch") == "worker";
    let engine = Engine::new(EngineConfig::in_memory());
    engine.set_lock_config(sessions::lock_config(engine.lock_config(), &settings));
    let views = Views::new(config.stats.clone(), engine.clone());
    views.let_in_by(config.door.clone());
    config.more_metrics = {
        let views = views.clone();
        Arc::new(move || views.memory_metrics())
    };
    let database = Database::new(engine.clone())
        .with_provider(views.clone())
        .with_defaults(settings)
        .map_err(|error| Refusal::new(format!("{}: {}", error.message(), error.detail_text().unwrap_or_default())))?;
    if arguments.check_config {
        say("The settings can be used.\n")?;
        return Ok(());
    }
    config.roles = database.roles().clone();
    // Outlives the network's threads, on which sessions end.
    let lanes = Lanes::start(&engine, lanes, watch)?;
    views.schedule_by(lanes.scheduling());
    let database = database.with_analytics(lanes.analytics());
    if is_handed_over {
        config.dispatch = Dispatch::Worker;
    }
    let network_begun = Arc::clone(&config.network_begun);
    let (door, gate) = (config.door.clone(), config.door.clone());
    let reloaded = database.clone();
    let server = Server::bind(config, sessions::Sessions(database)).map_err(|error| {
        let how = if is_default { "choose another by --listen" } else { "choose another" };
        Refusal::new(format!("cannot listen {error}; {how}"))
    })?;
    let addresses = server.addresses().context("the server's addresses")?;
    let housekeeping = Housekeeper::start(&engine).context("the housekeeping")?;
    let _purging = Purging::start(limits, heaps)?;
    announce(format_args!("Overtake is listening. Data is in memory: it is gone when this process ends.\n"));
    for address in addresses {
        announce(format_args!("  psql \"postgresql://postgres@{address}/postgres\"\n"));
    }
    let _console = Console::start(arguments.console, move || door.clone())?;
    let stopped = stop.clone();
    network_begun();
    let own = arguments.clone();
    runtime.spawn(async move {
        while hangups.recv().await.is_some() {
            let (database, gate, own) = (reloaded.clone(), gate.clone(), own.clone());
            // Files are read on a thread beside.
            drop(tokio::task::spawn_blocking(move || reload(&database, &gate, &own)).await);
        }
    });
    let result = runtime.block_on(server.run(until(stopped)));
    stop.request_now();
    drop(runtime);
    drop(lanes);
    housekeeping.stop().context("the housekeeping")?;
    result.context("the server")
}

/// Reads the settings again. Settings that cannot be used leave all as it was; the log says what came of it.
fn reload(database: &Database, door: &Door, arguments: &Arguments) {
    match sessions::reload(database, door, || arguments.settings()) {
        Ok(changed) => tracing::info!(changed = %changed.join(", "), "SIGHUP: the settings were read again"),
        Err(error) => tracing::error!(%error, "SIGHUP: the settings stay as they were: they cannot be read again"),
    }
}

/// Prints where clients connect. A server whose standard output is gone serves all the same.
fn announce(text: impl Display) {
    if let Err(error) = say(text) {
        tracing::warn!(%error, "an address cannot be printed");
    }
}

/// Ready when the process is to stop.
async fn until(stop: Stop) {
    let wait = move || while stop.wait(Duration::from_secs(3_600)).is_ok() {};
    // It ends with the process at the latest.
    let _ = tokio::task::spawn_blocking(wait).await;
}

/// Sets the first steps of each kind of thread. The heaps are those of the network's threads, once these have begun.
fn set_threads(config: &mut Config, is_realtime: bool, are_ordinary: bool, watch: &Arc<Watch>) -> Heaps {
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
    let watch = Arc::clone(watch);
    config.below_begun = Arc::new(move || {
        watch.add_current_by_rows();
        if !are_ordinary && let Err(error) = os::set_idle() {
            tracing::warn!(%error, "a long query cannot be put below other threads");
        }
    });
    heaps
}

/// Serves clients of other servers until it is stopped.
fn serve_upstream(
    runtime: &Runtime,
    arguments: &Arguments,
    config: Config,
    url: &Url,
    (options, limits, heaps): (UpstreamOptions, MemoryLimits, Heaps),
    stop: &Stop,
) -> anyhow::Result<()> {
    let upstream = Upstream::new(url.clone(), options, config.door.clone())
        .map_err(|error| Refusal::new(format!("--upstream: {error}")))?;
    if arguments.check_config {
        say("The settings can be used.\n")?;
        return Ok(());
    }
    let network_begun = Arc::clone(&config.network_begun);
    let (front, shown) = (upstream.clone(), upstream.clone());
    let server = Server::bind(config, upstream).map_err(|error| Refusal::new(format!("cannot listen {error}")))?;
    let _purging = Purging::start(limits, heaps)?;
    let hosts: Vec<String> = url.hosts.iter().map(ToString::to_string).collect();
    announce(format_args!("Overtake is listening before {}.\n", hosts.join(", ")));
    for address in server.addresses().context("the server's addresses")? {
        announce(format_args!("  psql \"postgresql://{}@{address}/{}\"\n", url.user, url.database));
    }
    let _console = Console::start(arguments.console, move || shown.door())?;
    network_begun();
    runtime.spawn(async move {
        if let Err(error) = front.reload_on_hangup().await {
            tracing::warn!(%error, "SIGHUP cannot be heard: settings are read again by RELOAD only");
        }
    });
    let result = runtime.block_on(server.run(until(stop.clone())));
    stop.request_now();
    result.context("the server")
}
