//! `overtake top`: display of the gate of a running server.

use anyhow::Context;
use clap::Args;
use host::refusal::Refusal;
use host::stop::Stop;
use std::time::Duration;
use top::{Error, Target, TopOptions};

/// Arguments of `top`.
#[derive(Args, Clone, Debug)]
pub struct TopArguments {
    /// The server, as psql takes it: postgresql://user@host:port/database, or "host=... port=...". What it does not say is taken from
    /// PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE and PGSSLMODE (disable, prefer or require; the certificate is not verified); without those it is postgres at 127.0.0.1:5432.
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = host::arguments::seconds)]
    interval: f64,
    /// One look, as text; the same as --count 1.
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// So many looks, as text.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// One JSON object for each look, on a line of its own.
    #[arg(long)]
    json: bool,
}

/// Shows the display until it is stopped.
///
/// # Errors
/// Fails with a [`Refusal`] for an invalid URL, and if no Overtake server answers.
pub fn run(arguments: &TopArguments, stop: &Stop) -> anyhow::Result<()> {
    let target = Target::new(arguments.url.as_deref(), |name| std::env::var(name).ok());
    // As with psql without a root certificate file, the certificate is not verified.
    let tls = wire::tls::client::unverified().context("encryption")?;
    let options = TopOptions {
        target: target.map_err(|error| Refusal::new(error.to_string()))?.encrypted_by(tls),
        interval: Duration::from_secs_f64(arguments.interval),
        count: if arguments.once { Some(1) } else { arguments.count },
        json: arguments.json,
    };
    top::run(&options, &|limit| stop.wait(limit).is_err()).map_err(|error: Error| error.into())
}
