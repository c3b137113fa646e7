//! `overtake demo`: the PreemptDB demonstration over one loaded database.
//!
//! **Invariant:** only the chosen instance's query and arrivals run. Three instances (a scheduler and its workers each)
//! exist side by side over the same data, but the others' workers sleep, so they do not compete.

mod admission;
mod collector;
mod facts;
mod spectacle;
mod wire;

use crate::arguments::scale_factor;
use crate::data::DataConfig;
use anyhow::Context;
use clap::Args;
use host::memory;
use host::refusal::Refusal;
use host::say::say;
use host::stop::Stop;
use spectacle::Spectacle;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use wire::Addresses;

/// Arguments of `demo`.
#[derive(Args, Clone, Debug)]
pub struct DemoArguments {
    /// Port of the page at http://127.0.0.1:PORT/; 0 takes a free port.
    #[arg(long, default_value_t = 7878)]
    port: u16,
    /// First of three ports of 127.0.0.1 at which psql reaches the instances: this one (wait), the next (yield) and the
    /// one after (preempt); 0 takes free ones [default: those after the page's].
    #[arg(long, value_name = "PORT")]
    psql_port: Option<u16>,
    /// TPC-H's scale factor, 0.01 to 100; the default takes about 1 GB of memory, and 1 about 3 GB.
    #[arg(long, value_name = "FACTOR", default_value_t = 0.25, value_parser = scale_factor)]
    scale_factor: f64,
    /// TPC-C's warehouses.
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    warehouses: u32,
    /// Workers of each instance, pinned to a processor each [default: one for each processor but one, which the browser
    /// gets].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: Option<u32>,
    /// `yield`: batch boundaries between two points at which the query yields.
    #[arg(long, value_name = "BATCHES", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    yield_interval: u32,
}

/// Serves the page until it is stopped.
///
/// # Errors
/// A [`Refusal`] for a port that is taken or too little memory; the error that ended the server.
pub fn run(arguments: &DemoArguments, stop: &Stop) -> anyhow::Result<()> {
    let data = DataConfig {
        scale_factor: arguments.scale_factor,
        scale: workloads::tpcc::Scale::spec(arguments.warehouses as i32),
        seed: 42,
        comments: workloads::tpch::Comments::Short,
    };
    memory::require(data.memory_bytes(), "lower --scale-factor or --warehouses, or raise the container's limit")?;
    let listener = bind(arguments.port)?;
    let address = listener.local_addr().context("the server's address")?;
    let first = arguments.psql_port.unwrap_or(if arguments.port == 0 { 0 } else { arguments.port.saturating_add(1) });
    let addresses = Addresses::take(first)?;
    let cpus = preempt::os::cpus().len();
    let workers = arguments.workers.map_or_else(|| admission::workers_by_default(cpus), |workers| workers as usize);
    let mut said = format!("Overtake's demonstration: http://{address}/   (Ctrl-C ends it)\n");
    for psql in addresses.psql() {
        said += &format!("  {}   (under {})\n", psql.command, psql.policy.name());
    }
    let spectacle = Arc::new(Spectacle::new(data, workers, arguments.yield_interval, addresses, stop.clone()));
    // This happens at once: a program that reads the first line may read no other.
    if let Err(error) = say(said) {
        tracing::warn!(%error, "the addresses cannot be printed");
    }
    let shutdown = demo::Shutdown::new();
    let loader = {
        let spectacle = Arc::clone(&spectacle);
        std::thread::Builder::new().name("loader".into()).spawn(move || spectacle.load())?
    };
    let watcher = {
        let (stop, shutdown) = (stop.clone(), shutdown.clone());
        std::thread::Builder::new().name("stop".into()).spawn(move || {
            while stop.wait(Duration::from_secs(3_600)).is_ok() {}
            shutdown.trigger();
        })?
    };
    let page: Arc<dyn demo::Demo> = spectacle.clone();
    // This thread is the page's server from here on, and the threads that it starts stay there with it.
    admission::keep_off_workers(workers);
    let served = demo::serve(listener, page, shutdown);
    stop.request_now();
    // Both threads check for the stop.
    for thread in [loader, watcher] {
        thread.join().map_err(|_| anyhow::anyhow!("a thread of the demonstration panicked"))?;
    }
    spectacle.close();
    served.context("the page's server")
}

fn bind(port: u16) -> anyhow::Result<TcpListener> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Err(Refusal::new(format!(
            "port {port} is taken; choose another one with --port, or --port 0 for any free one"
        ))
        .into()),
        Err(error) => Err(Refusal::new(format!("cannot listen on port {port}: {error}")).into()),
    }
}
