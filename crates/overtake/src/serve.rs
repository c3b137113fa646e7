//! `overtake serve`: a database over PostgreSQL's wire protocol.
//!
//! **Invariant:** the housekeeping runs as long as sessions do, because waits end by it.

mod analytics;
mod code;
mod starvation;
mod urgent;

use analytics::{AnalyticsSettings, ClassRuntimes};
use anyhow::Context;
use daemon::gate::{ServerSetup, runtime};
use daemon::{Console, Purging, ServeArguments, ServiceState, announce, notify, until};
use engine::{Engine, EngineConfig, Housekeeper};
use host::refusal::Refusal;
use host::say::say;
use host::stop::Stop;
use preempt::os;
use server::{Admission, Config, Dispatch, Server};
use sessions::Views;
use settings::SettingSource;
use sql::session::Database;
use starvation::StarvationWatch;
use std::sync::{Arc, OnceLock};
use tokio::signal::unix::{SignalKind, signal};

/// Serves until it is stopped.
///
/// # Errors
/// A [`Refusal`] for settings that cannot be used, and for an address that is taken or does not belong to this machine;
/// the error that ended the server.
pub fn run(arguments: &ServeArguments, stop: &Stop) -> anyhow::Result<()> {
    if !arguments.upstream.is_empty() {
        return daemon::gate::run(arguments, stop);
    }
    if arguments.without_stage_clock {
        stage::switch_off();
    }
    let runtime = runtime()?;
    // The signal is handled from the very beginning: by default it ends the process, and in-memory data with it.
    let mut hangups = {
        let _inside = runtime.enter();
        signal(SignalKind::hangup()).context("SIGHUP")?
    };
    let ServerSetup { settings, mut config, limits, heaps } = ServerSetup::new(arguments, "off")?;
    let class_runtimes = AnalyticsSettings::from_settings(&settings);
    let watch = Arc::<StarvationWatch>::default();
    set_threads_below(&mut config, class_runtimes.are_ordinary(), &watch);
    let is_default = settings.source("listen_addresses") == SettingSource::Default;
    let is_handed_over = settings.get("overtake.dispatch") == "worker";
    let engine = Engine::new(EngineConfig::in_memory());
    engine.set_lock_config(sessions::lock_config(engine.lock_config(), &settings));
    let views = Views::new(config.stats.clone(), engine.clone());
    views.let_in_by(config.admission.clone());
    let urgent_metrics = Arc::<OnceLock<Box<dyn Fn() -> String + Send + Sync>>>::default();
    config.more_metrics = {
        let (views, urgent) = (views.clone(), Arc::clone(&urgent_metrics));
        Arc::new(move || views.memory_metrics() + &urgent.get().map_or_else(String::new, |urgent| urgent()))
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
    // The class_runtimes outlive the network's threads, on which sessions end.
    let class_runtimes = ClassRuntimes::start(&engine, class_runtimes, watch)?;
    views.schedule_by(class_runtimes.scheduling());
    let mut database = database.with_analytics(class_runtimes.analytics()).with_runtimes(code::runtimes());
    if let Some(urgent) = class_runtimes.urgent() {
        database = database.with_urgent(Arc::<urgent::UrgentQueue>::clone(&urgent));
        let counted = database.clone();
        let metrics = move || urgent::metrics(&urgent, &counted.urgent_counts());
        // This is the only place that sets it.
        let _ = urgent_metrics.set(Box::new(metrics));
    }
    if is_handed_over {
        config.dispatch = Dispatch::Worker;
    }
    let network_begun = Arc::clone(&config.network_begun);
    let (admission, gate) = (config.admission.clone(), config.admission.clone());
    let (reloaded, stats) = (database.clone(), Arc::clone(&config.stats));
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
    let _console = Console::start(arguments.console, move || admission.clone(), stats)?;
    let stopped = stop.clone();
    network_begun();
    let own = arguments.clone();
    runtime.spawn(async move {
        while hangups.recv().await.is_some() {
            let (database, gate, own) = (reloaded.clone(), gate.clone(), own.clone());
            notify(ServiceState::Reloading);
            // Files are read on another thread.
            drop(tokio::task::spawn_blocking(move || reload(&database, &gate, &own)).await);
            notify(ServiceState::Ready);
        }
    });
    notify(ServiceState::Ready);
    let result = runtime.block_on(server.run(until(stopped)));
    stop.request_now();
    drop(runtime);
    drop(class_runtimes);
    housekeeping.stop().context("the housekeeping")?;
    result.context("the server")
}

/// Reads the settings again. Settings that cannot be used change nothing; the log reports the outcome.
fn reload(database: &Database, admission: &Admission, arguments: &ServeArguments) {
    match sessions::reload(database, admission, || arguments.settings()) {
        Ok(changed) => tracing::info!(changed = %changed.join(", "), "SIGHUP: the settings were read again"),
        Err(error) => tracing::error!(%error, "SIGHUP: the settings stay as they were: they cannot be read again"),
    }
}

/// Sets the initialisers of threads that run long queries by rows.
fn set_threads_below(config: &mut Config, are_ordinary: bool, watch: &Arc<StarvationWatch>) {
    let watch = Arc::clone(watch);
    config.below_begun = Arc::new(move || {
        watch.add_current_by_rows();
        if !are_ordinary && let Err(error) = os::set_idle() {
            tracing::warn!(%error, "a long query cannot be put below other threads");
        }
    });
}
