//! `overtake serve`: a database over PostgreSQL's wire protocol.
//!
//! **Invariant:** the housekeeping runs as long as sessions do, because waits end by it.

use crate::bench::background;
use crate::refusal::Refusal;
use crate::stop::Stop;
use anyhow::Context;
use clap::Args;
use engine::{Engine, EngineConfig};
use server::{Config, Server};
use sql::session::Database;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `serve`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Where clients connect; may be given several times. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5432")]
    listen: Vec<SocketAddr>,
    /// A directory for the unix socket `.s.PGSQL.PORT`, PORT being the first address's.
    #[arg(long, value_name = "DIRECTORY")]
    socket: Option<PathBuf>,
    /// Sessions at a time; more are turned away (SQLSTATE 53300).
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
}

/// Serves until it is stopped.
///
/// # Errors
/// A [`Refusal`] for an address that is taken or not ours; whatever ends the server.
pub fn run(arguments: &Arguments, stop: &Stop) -> anyhow::Result<()> {
    let engine = Engine::new(EngineConfig::in_memory());
    let config = Config {
        listen: arguments.listen.clone(),
        unix: arguments.socket.clone().zip(arguments.listen.first().map(SocketAddr::port)),
        connections_max: arguments.connections as usize,
        ..Config::default()
    };
    let server = Server::bind(config, Database::new(engine.clone())).map_err(|error| {
        let wanted: Vec<String> = arguments.listen.iter().map(SocketAddr::to_string).collect();
        Refusal::new(format!("cannot listen on {}: {error}; choose another by --listen", wanted.join(", ")))
    })?;
    let addresses = server.addresses().context("the server's addresses")?;
    let housekeeping = background::housekeeping(&engine)?;
    println!("Overtake is listening. Data is in memory: it is gone when this process ends.");
    for address in addresses {
        println!("  psql \"postgresql://postgres@{address}/postgres\"");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("the server's threads")?;
    let stopped = stop.clone();
    let result = runtime.block_on(server.run(async move {
        let wait = move || while stopped.wait(Duration::from_secs(3_600)).is_ok() {};
        // It ends with the process at the latest.
        let _ = tokio::task::spawn_blocking(wait).await;
    }));
    stop.request_now();
    housekeeping.stop().context("the housekeeping")?;
    result.context("the server")
}
