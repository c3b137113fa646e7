//! Look-ups by key from another network: by the kernel's TCP, and by the server's own over AF_XDP.
//!
//! **Invariant:** each server has networks of its own, with a cable (a veth pair) between it and the clients, so that
//! neither is in the other's way; they take turns in each round.

use super::drive::{Driven, Round, Work, drive};
use super::key_value;
use super::pairs::Processors;
use super::rungs::POINTS;
use crate::report::{Report, TextTable, median, number};
use crate::wire::servers::{MeasuredServer, overtake_in};
use ::xdp::lab::Lab;
use anyhow::Context;
use host::stop::Stop;
use preempt::os;
use std::thread;

/// Numbers of connections, and the greatest one.
const CLIENTS: [u32; 4] = [1, 16, 64, 1_000];
const CLIENTS_MAX: u32 = 1_000;
/// Number of connections by which goals are stated.
const GOAL_CLIENTS: u32 = 64;
/// Connections with loss, and one in how many packets is lost.
const LOSS_CLIENTS: u32 = 64;
const LOST_ONE_IN: u32 = 100;
const MTU: usize = 1500;

/// Server with its networks.
struct Side {
    lab: Lab,
    target: MeasuredServer,
}

/// Figures of one server.
#[derive(Clone, Copy)]
struct Figures {
    per_s: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us: f64,
    /// Timed around the calls of the kernel.
    calls_us: f64,
    /// As the kernel's ticks tell.
    kernel_us: f64,
    busy: f64,
    probes: f64,
}

impl Side {
    fn start(
        processors: Processors,
        name: (&'static str, &'static str),
        listens: &dyn Fn(&Lab) -> String,
    ) -> anyhow::Result<Side> {
        let lab = Lab::new(MTU)?;
        lab.join_clients()?;
        os::pin_to_cpu(processors.server).context("pinning a server")?;
        let started = overtake_in(&lab, name, CLIENTS_MAX + 20, &[&listens(&lab)]);
        os::pin_to_cpu(processors.client).context("pinning the clients")?;
        let side = Side { target: started?, lab };
        key_value::load(&side.target)?;
        Ok(side)
    }

    /// Measures one round. This thread, and the one with the clients, are in the clients' network.
    fn round(&self, round: Round, stop: &Stop) -> anyhow::Result<Driven> {
        self.lab.join_clients()?;
        let driven = drive(&self.target, (&POINTS[0], Work::Points), round, stop)?;
        tracing::info!(transport = self.target.key, clients = round.clients, per_s = driven.per_s(), "measured");
        Ok(driven)
    }
}

/// Measures both.
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
    // This thread stays where it is; the other one moves between networks.
    let measured = thread::scope(|scope| {
        let measuring = scope.spawn(|| within(report, processors, rounds, round, stop));
        measuring.join().map_err(|_| anyhow::anyhow!("the measuring thread has panicked"))
    });
    measured?
}

fn within(report: &mut Report, processors: Processors, rounds: u32, round: Round, stop: &Stop) -> anyhow::Result<()> {
    if let Err(error) = Lab::new(MTU) {
        report.note(format!("Not shown: AF_XDP: no networks for it can be made here: {error}."));
        return Ok(());
    }
    let sides = [
        Side::start(processors, ("tcp", "the kernel's TCP"), &|lab| {
            format!("listen_addresses={}", lab.server_address())
        })?,
        Side::start(processors, ("af_xdp", "AF_XDP"), &|lab| {
            format!("overtake.listen_xdp={}", lab.server_interface())
        })?,
    ];
    let header =
        ["", "per s", "p50 us", "p99 us", "server us", "calls us", "times TCP", "kernel us by ticks", "server busy"];
    let mut table = TextTable::new("Look-ups by key over a cable between two networks", &header);
    for clients in CLIENTS {
        let round = Round { clients, ..round };
        let [tcp, af_xdp] = turns(&sides, rounds, round, stop)?;
        fill(report, &mut table, (&clients.to_string(), &format!("{clients} clients")), [tcp, af_xdp]);
        if clients == GOAL_CLIENTS {
            report.figure("glass.xdp.calls_times_tcp", af_xdp.calls_us / tcp.calls_us);
            report.figure("glass.xdp.kernel_times_tcp", af_xdp.kernel_us / tcp.kernel_us);
            report.figure("glass.xdp.p99_times_tcp", af_xdp.p99_us / tcp.p99_us);
        }
    }
    let losses = sides.iter().map(|side| side.lab.lose(LOST_ONE_IN)).collect::<Result<Vec<_>, _>>();
    match losses {
        Ok(losses) => {
            let figures = turns(&sides, rounds, Round { clients: LOSS_CLIENTS, ..round }, stop)?;
            let title = format!("{LOSS_CLIENTS} clients, one packet in {LOST_ONE_IN} is lost");
            fill(report, &mut table, ("loss", &title), figures);
            drop(losses);
        }
        Err(error) => report.note(format!("Not shown: AF_XDP with loss: {error}.")),
    }
    report.table(table);
    report.note(
        "AF_XDP: veth pairs in generic mode, frames copied. The call that sends runs the clients' receive path, on the \
         server's account, for both transports alike. Calls: time around the calls of the kernel that read and write; \
         for TCP, the stages network_read and network_write, which contain a little more. Waiting for either is not \
         part of it; the ticks' kernel time is of everything, to about 4 ms in each second. The paper's saving needs a \
         network card whose driver does not copy; nothing here says anything about it.",
    );
    Ok(())
}

/// Measures both sides in turn.
fn turns(sides: &[Side; 2], rounds: u32, round: Round, stop: &Stop) -> anyhow::Result<[Figures; 2]> {
    let mut all = [Vec::new(), Vec::new()];
    for number in 0..rounds {
        for (side, rounds) in sides.iter().zip(&mut all) {
            rounds.push(side.round(Round { seed: round.seed + u64::from(number), ..round }, stop)?);
        }
    }
    Ok(all.map(|rounds| Figures::of(&rounds)))
}

impl Figures {
    /// Returns the medians of the rounds.
    fn of(rounds: &[Driven]) -> Figures {
        let of = |figure: &dyn Fn(&Driven) -> f64| median(&rounds.iter().map(figure).collect::<Vec<f64>>());
        Figures {
            per_s: of(&Driven::per_s),
            p50_us: of(&|driven| driven.latency.quantile_us(0.5)),
            p99_us: of(&|driven| driven.latency.quantile_us(0.99)),
            cpu_us: of(&|driven| driven.us_each(driven.used.threads_s.unwrap_or(f64::NAN))),
            calls_us: of(&|driven| driven.us_each(driven.used.calls_s())),
            kernel_us: of(&|driven| driven.us_each(driven.used.server.kernel_s)),
            busy: of(&|driven| driven.used.server_busy()),
            probes: of(&|driven| driven.used.frames.probes),
        }
    }
}

fn fill(report: &mut Report, table: &mut TextTable, (key, title): (&str, &str), figures: [Figures; 2]) {
    let [tcp, af_xdp] = figures;
    for (name, key_of_side, side) in [("TCP", "tcp", tcp), ("AF_XDP", "af_xdp", af_xdp)] {
        let prefix = format!("glass.xdp.{key}.{key_of_side}");
        for (figure, value) in [
            ("per_s", side.per_s),
            ("p50_us", side.p50_us),
            ("p99_us", side.p99_us),
            ("cpu_us", side.cpu_us),
            ("calls_us", side.calls_us),
            ("kernel_us", side.kernel_us),
            ("server_busy", side.busy),
        ] {
            report.figure(format!("{prefix}.{figure}"), value);
        }
        let times = side.calls_us / tcp.calls_us;
        let numbers =
            [side.per_s, side.p50_us, side.p99_us, side.cpu_us, side.calls_us, times, side.kernel_us, side.busy];
        table.row([format!("{title}: {name}")].into_iter().chain(numbers.map(number)));
    }
    report.figure(format!("glass.xdp.{key}.af_xdp.probes"), af_xdp.probes);
}
