//! Look-ups by key from another network: by the kernel's TCP, and by TCP over AF_XDP at the server or at both ends.
//!
//! **Invariant:** each server has networks of its own, with a cable (a veth pair) between it and the clients, so that
//! neither is in the other's way; they take turns in each round. Both kinds of clients of a server over AF_XDP share its
//! cable, one after the other.

use super::drive::{Driven, Round, Work, drive};
use super::key_value;
use super::pairs::Processors;
use super::rungs::POINTS;
use crate::report::{Report, TextTable, median, number};
use crate::wire::links::Link;
use crate::wire::servers::{MeasuredServer, overtake_in};
use ::xdp::lab::Lab;
use anyhow::Context;
use host::stop::Stop;
use preempt::os;
use std::sync::Arc;
use std::thread;

/// Keys and titles of what is compared.
pub const SIDES: [(&str, &str); 3] = [("tcp", "TCP"), ("af_xdp", "AF_XDP"), ("both", "AF_XDP at both ends")];
/// Numbers of connections, and the greatest one.
pub const CLIENTS: [u32; 4] = [1, 16, 64, 1_000];
const CLIENTS_MAX: u32 = 1_000;
/// Greatest number of connections with clients over AF_XDP.
const BOTH_MAX: u32 = 64;
/// Number of connections by which goals are stated.
const GOAL_CLIENTS: u32 = 64;
/// Connections with loss, and one in how many packets is lost.
const LOSS_CLIENTS: u32 = 64;
const LOST_ONE_IN: u32 = 100;
const MTU: usize = 1500;
/// Part of the names of figures with loss.
pub const LOSS: &str = "loss";

/// Returns the title of the rows with loss.
pub fn loss_title() -> String {
    format!("{LOSS_CLIENTS} clients, one packet in {LOST_ONE_IN} is lost")
}

/// Server with its networks, and clients of one kind.
struct Side {
    lab: Arc<Lab>,
    target: MeasuredServer,
}

/// Figures of one server.
#[derive(Clone, Copy)]
struct Figures {
    per_s: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us: f64,
    /// Timed around the calls of the kernel, at the server and at the clients.
    calls_us: f64,
    client_calls_us: f64,
    /// As the kernel's ticks tell, at the server and at the clients.
    kernel_us: f64,
    client_kernel_us: f64,
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
        let target = started?.by(name, Link::Timed);
        key_value::load(&target)?;
        Ok(Side { lab: Arc::new(lab), target })
    }

    /// Returns the same server for clients over AF_XDP.
    fn with_xdp_clients(&self, name: (&'static str, &'static str)) -> Side {
        let link = Link::Xdp { interface: self.lab.client_interface() };
        Side { lab: Arc::clone(&self.lab), target: self.target.by(name, link) }
    }

    /// Measures one round. This thread, and the one with the clients, are in the clients' network.
    fn round(&self, round: Round, stop: &Stop) -> anyhow::Result<Driven> {
        self.lab.join_clients()?;
        let driven = drive(&self.target, (&POINTS[0], Work::Points), round, stop)?;
        tracing::info!(transport = self.target.key, clients = round.clients, per_s = driven.per_s(), "measured");
        Ok(driven)
    }
}

/// Measures all.
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
    let tcp = Side::start(processors, SIDES[0], &|lab| format!("listen_addresses={}", lab.server_address()))?;
    let af_xdp = Side::start(processors, SIDES[1], &|lab| format!("overtake.listen_xdp={}", lab.server_interface()))?;
    let both = af_xdp.with_xdp_clients(SIDES[2]);
    let sides = [tcp, af_xdp, both];
    let header = [
        "",
        "per s",
        "p50 us",
        "p99 us",
        "server us",
        "server calls us",
        "times TCP",
        "client calls us",
        "both times TCP",
        "server kernel us by ticks",
        "client kernel us by ticks",
        "server busy",
    ];
    let mut table = TextTable::new("Look-ups by key over a cable between two networks", &header);
    for clients in CLIENTS {
        let round = Round { clients, ..round };
        let sides = if clients <= BOTH_MAX { &sides[..] } else { &sides[..2] };
        let figures = turns(sides, rounds, round, stop)?;
        fill(report, &mut table, (&clients.to_string(), &format!("{clients} clients")), &figures);
        if let [tcp, af_xdp, both] = figures[..]
            && clients == GOAL_CLIENTS
        {
            report.figure("glass.xdp.calls_times_tcp", af_xdp.calls_us / tcp.calls_us);
            report.figure("glass.xdp.both_calls_times_tcp", both.all_calls_us() / tcp.all_calls_us());
            report.figure("glass.xdp.kernel_times_tcp", af_xdp.kernel_us / tcp.kernel_us);
            report.figure("glass.xdp.p99_times_tcp", af_xdp.p99_us / tcp.p99_us);
        }
    }
    let losses = sides[..2].iter().map(|side| side.lab.lose(LOST_ONE_IN)).collect::<Result<Vec<_>, _>>();
    match losses {
        Ok(losses) => {
            let figures = turns(&sides[..2], rounds, Round { clients: LOSS_CLIENTS, ..round }, stop)?;
            fill(report, &mut table, (LOSS, &loss_title()), &figures);
            drop(losses);
        }
        Err(error) => report.note(format!("Not shown: AF_XDP with loss: {error}.")),
    }
    report.table(table);
    report.note(
        "AF_XDP: veth pairs in generic mode, frames copied. The call that sends runs the other end's receive path, on \
         the sender's account, for all transports alike. Calls: time around the calls of the kernel that read and \
         write; for TCP, the server's stages network_read and network_write and the clients' reads and writes, which \
         contain a little more. Waiting for either is not part of it; the ticks' kernel time is of everything, to \
         about 4 ms in each second. AF_XDP at both ends: the sum of both ends' calls is compared with TCP's \
         (glass.xdp.both_calls_times_tcp). The paper's figure for both ends in user space is -85 %, by DPDK with \
         network cards that it polls and that do not copy; a veth pair cannot show that.",
    );
    Ok(())
}

/// Measures all sides in turn.
fn turns(sides: &[Side], rounds: u32, round: Round, stop: &Stop) -> anyhow::Result<Vec<Figures>> {
    let mut all = vec![Vec::new(); sides.len()];
    for number in 0..rounds {
        for (side, rounds) in sides.iter().zip(&mut all) {
            rounds.push(side.round(Round { seed: round.seed + u64::from(number), ..round }, stop)?);
        }
    }
    Ok(all.iter().map(|rounds| Figures::of(rounds)).collect())
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
            client_calls_us: of(&|driven| driven.us_each(driven.used.client_calls_s)),
            kernel_us: of(&|driven| driven.us_each(driven.used.server.kernel_s)),
            client_kernel_us: of(&|driven| driven.us_each(driven.used.client.kernel_s)),
            busy: of(&|driven| driven.used.server_busy()),
            probes: of(&|driven| driven.used.frames.probes),
        }
    }

    fn all_calls_us(&self) -> f64 {
        self.calls_us + self.client_calls_us
    }
}

fn fill(report: &mut Report, table: &mut TextTable, (key, title): (&str, &str), figures: &[Figures]) {
    for ((key_of_side, name), side) in SIDES.iter().zip(figures) {
        let tcp = figures[0];
        let prefix = format!("glass.xdp.{key}.{key_of_side}");
        for (figure, value) in [
            ("per_s", side.per_s),
            ("p50_us", side.p50_us),
            ("p99_us", side.p99_us),
            ("cpu_us", side.cpu_us),
            ("calls_us", side.calls_us),
            ("client_calls_us", side.client_calls_us),
            ("kernel_us", side.kernel_us),
            ("client_kernel_us", side.client_kernel_us),
            ("server_busy", side.busy),
        ] {
            report.figure(format!("{prefix}.{figure}"), value);
        }
        let numbers = [
            side.per_s,
            side.p50_us,
            side.p99_us,
            side.cpu_us,
            side.calls_us,
            side.calls_us / tcp.calls_us,
            side.client_calls_us,
            side.all_calls_us() / tcp.all_calls_us(),
            side.kernel_us,
            side.client_kernel_us,
            side.busy,
        ];
        table.row([format!("{title}: {name}")].into_iter().chain(numbers.map(number)));
        if key_of_side != &SIDES[0].0 {
            report.figure(format!("{prefix}.probes"), side.probes);
        }
    }
}
