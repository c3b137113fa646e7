//! Look-ups by key over each transport: processor time of both sides.
//!
//! **Invariant:** transports take turns in each round, under the same load by the same driver, so that what the machine
//! does meanwhile is in all of them.

use super::drive::{Driven, Round, Work, drive};
use super::key_value;
use super::pairs::Processors;
use super::rungs::{POINTS, Rung};
use crate::report::median;
use crate::report::{Report, TextTable, number};
use crate::wire::servers::{MeasuredServer, TransportServers};
use anyhow::Context;
use host::stop::Stop;
use preempt::os;

/// Numbers of connections.
pub const CLIENTS: [u32; 3] = [1, 16, 64];

/// Rounds of one transport under one load.
struct TransportRow<'a> {
    target: &'a MeasuredServer,
    rung: &'static Rung,
    rounds: Vec<Driven>,
}

impl TransportRow<'_> {
    /// Returns the median of the rounds.
    fn median(&self, of: impl Fn(&Driven) -> f64) -> f64 {
        median(&self.rounds.iter().map(of).collect::<Vec<f64>>())
    }

    /// Returns the server's processor time for each look-up, in microseconds.
    fn server_us(&self) -> f64 {
        self.median(|driven| driven.us_each(driven.used.threads_s.unwrap_or(f64::NAN)))
    }
}

/// Measures all transports of a fresh server, and of one that uses io_uring.
///
/// # Errors
/// A stop; errors of a server.
pub fn measure(
    report: &mut Report,
    processors: Processors,
    rounds: u32,
    round: Round,
    stop: &Stop,
) -> anyhow::Result<()> {
    os::pin_to_cpu(processors.server).context("pinning the servers")?;
    let started = TransportServers::start(CLIENTS[CLIENTS.len() - 1] + 20);
    os::pin_to_cpu(processors.client).context("pinning the clients")?;
    let servers = started?;
    for server in servers.each() {
        key_value::load(server)?;
    }
    let targets = servers.targets();
    let header = ["", "per s", "server us", "times TCP", "server kernel us", "client us", "server busy"];
    let mut table = TextTable::new("Look-ups by key by transport", &header);
    for clients in CLIENTS {
        for rung in &POINTS {
            let mut rows: Vec<TransportRow<'_>> =
                targets.iter().map(|target| TransportRow { target, rung, rounds: Vec::new() }).collect();
            for number in 0..rounds {
                for row in &mut rows {
                    let round = Round { clients, seed: round.seed + u64::from(number), ..round };
                    let driven = drive(row.target, (row.rung, Work::Points), round, stop)?;
                    let (per_s, transport) = (driven.per_s(), row.target.key);
                    tracing::info!(transport, clients, depth = rung.key, number, per_s, "measured");
                    row.rounds.push(driven);
                }
            }
            fill(report, &mut table, clients, &rows);
        }
    }
    report.table(table);
    report.note(
        "Transports: one network thread's processor for the server, one thread with all clients on the other. Time \
         spent polling shared memory counts on both sides.",
    );
    Ok(())
}

fn fill(report: &mut Report, table: &mut TextTable, clients: u32, rows: &[TransportRow<'_>]) {
    let tcp_us = rows.first().map_or(f64::NAN, TransportRow::server_us);
    for row in rows {
        let prefix = format!("glass.transport.{clients}.{}.{}", row.rung.key, row.target.key);
        let (server_us, per_s) = (row.server_us(), row.median(Driven::per_s));
        let kernel_us = row.median(|driven| driven.us_each(driven.used.server.kernel_s));
        let client_us = row.median(|driven| driven.us_each(driven.used.client.all_s));
        let busy = row.median(|driven| driven.used.server_busy());
        report.figure(format!("{prefix}.per_s"), per_s);
        report.figure(format!("{prefix}.cpu_us"), server_us);
        report.figure(format!("{prefix}.cpu_times_tcp"), server_us / tcp_us);
        report.figure(format!("{prefix}.kernel_us"), kernel_us);
        report.figure(format!("{prefix}.client_cpu_us"), client_us);
        report.figure(format!("{prefix}.server_busy"), busy);
        let title = format!("{clients} clients, {}: {}", row.rung.title, row.target.title);
        let numbers = [per_s, server_us, server_us / tcp_us, kernel_us, client_us, busy].map(number);
        table.row([title].into_iter().chain(numbers));
    }
}
