//! `overtake bench lookingglass`: where a transaction's processor time goes, stored and interactive, after "OLTP Through
//! the Looking Glass 16 Years Later" (CIDR 2025).
//!
//! **Invariant:** each server runs on a processor of its own, and the clients on another; every rung is measured by the
//! same code, and a row in which the server had time left, or the clients had none, is marked. TPC-C's consistency
//! conditions hold afterwards, or there is no report.

mod calls;
mod code;
mod drive;
mod goals;
mod key_value;
mod ladder;
mod linked;
mod manual;
mod neighbours;
mod new_order;
mod page;
mod pairs;
mod programs;
mod results;
mod rungs;
mod sides;
mod transports;
mod urgent;
mod usage;
mod xdp;

use crate::arguments::PhaseDuration;
use crate::report::{Machine, Report};
use crate::wire::client::Control;
use crate::wire::servers::{MeasuredServer, ServerChoice, ServerName};
use crate::wire::tpcc;
use anyhow::Context;
use clap::{Args, ValueEnum};
use drive::{Round, Work, drive_within};
use host::memory;
use host::refusal::Refusal;
use host::stop::Stop;
use neighbours::Neighbours;
use pairs::Processors;
use preempt::os;
use results::Row;
use rungs::{POINTS, RUNGS, Rung};
use serde::Serialize;
use sides::Sides;
use std::fmt;
use std::path::PathBuf;
use workloads::tpcc::Scale;

/// Arguments of `bench lookingglass`.
#[derive(Args, Debug, Serialize)]
pub struct GlassArguments {
    /// Length of one round.
    #[command(flatten)]
    #[serde(flatten)]
    duration: PhaseDuration,
    /// Number of clients, all on one thread, 1 to 1,000.
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: u32,
    /// Number of TPC-C's warehouses, 1 to 100.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    warehouses: u32,
    /// Use a population fifty times smaller than the standard's, for a quick look.
    #[arg(long)]
    small: bool,
    /// Number of rounds of each rung, in turn, 1 to 100.
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Number of pairs for the cost of the stage clock, 2 to 1,000; 0 leaves it out.
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = pairs_count)]
    pairs: u32,
    /// Servers to measure; PostgreSQL 15 is found, or installed where apt-get can.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values = ["overtake", "postgres"])]
    servers: Vec<ServerName>,
    /// Parts to measure, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values_t = GlassPart::ALL)]
    parts: Vec<GlassPart>,
    /// Seed of population and inputs.
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
    /// Page of the documentation whose tables between marks are written from the figures.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    docs: Option<PathBuf>,
    /// Figures of an earlier run, as `--json` wrote them, to draw and to write instead of measuring.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    figures: Option<PathBuf>,
}

/// Part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GlassPart {
    /// New-Order by each rung.
    NewOrder,
    /// Key-value mix by each rung.
    KeyValue,
    /// Look-ups by key, one and several on the way.
    Points,
    /// Calls of stored code, in process.
    Calls,
    /// Lines that change from level to level, counted by git.
    Lines,
    /// New-Order in linked code, in process.
    Linked,
    /// Look-ups by key over each transport.
    Transports,
    /// Look-ups by key from another network, by the kernel's TCP and the server's own.
    Xdp,
    /// Cost of the stage clock.
    Clock,
    /// Calls of class high beside queries on all workers.
    Urgent,
}

impl GlassPart {
    /// All parts.
    pub const ALL: [GlassPart; 10] = [
        GlassPart::NewOrder,
        GlassPart::KeyValue,
        GlassPart::Points,
        GlassPart::Calls,
        GlassPart::Lines,
        GlassPart::Linked,
        GlassPart::Transports,
        GlassPart::Xdp,
        GlassPart::Clock,
        GlassPart::Urgent,
    ];
}

impl fmt::Display for GlassPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

fn pairs_count(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(1) | Err(_) => Err("0, or a number of pairs from 2 to 1000 is needed".to_owned()),
        Ok(count) if 1_000 < count => Err("0, or a number of pairs from 2 to 1000 is needed".to_owned()),
        Ok(count) => Ok(count),
    }
}

/// Rungs that a server has, and the reasons why it does not have others.
type Available<'a> = Vec<(&'a MeasuredServer, Vec<&'static Rung>)>;

/// Measures and reports.
///
/// # Errors
/// If PostgreSQL is not available, memory is short, there is one processor only, a server refuses something, a condition
/// does not hold, or the run is stopped.
pub fn run(arguments: &GlassArguments, stop: &Stop) -> anyhow::Result<Report> {
    if let Some(docs) = &arguments.docs {
        page::check(docs)?;
    }
    let mut report = Report::new("lookingglass", arguments, Machine::read())?;
    match &arguments.figures {
        Some(file) => {
            page::read_figures(file)?.into_iter().for_each(|(name, value)| report.figure(name, value));
            report.note(format!("Figures of an earlier run: {}; the machine above is this one.", file.display()));
        }
        None => measure(&mut report, arguments, stop)?,
    }
    results::charts(&mut report);
    ladder::fill(&mut report);
    goals::fill(&mut report);
    if let Some(docs) = &arguments.docs {
        page::write(docs, &report)?;
    }
    Ok(report)
}

fn measure(report: &mut Report, arguments: &GlassArguments, stop: &Stop) -> anyhow::Result<()> {
    // A warehouse takes 110 MB here while it is made, as much in each server, and the growth of a run.
    let needed = (1_000 + 600 * u64::from(arguments.warehouses)) << 20;
    memory::require(
        if arguments.small { 500 << 20 } else { needed },
        "lower --warehouses, or raise the container's limit",
    )?;
    let cpus = os::cpus();
    let [server_cpu, client_cpu, ..] = *cpus else {
        return Err(Refusal::new("two processors are needed: one for the server, one for the clients").into());
    };
    let has = |part| arguments.parts.contains(&part);
    let processors = Processors { server: server_cpu, client: client_cpu };
    let scale = match (arguments.warehouses as i32, arguments.small) {
        (warehouses, true) => Scale::small(warehouses),
        (warehouses, false) => Scale::spec(warehouses),
    };
    let round = Round { scale, clients: arguments.clients, seed: arguments.seed, duration: arguments.duration.get() };
    let neighbours = Neighbours::watch(client_cpu, server_cpu)?;
    // The servers of a part end with it: the others have the processor alone.
    if has(GlassPart::NewOrder) || has(GlassPart::KeyValue) || has(GlassPart::Points) {
        by_servers(report, arguments, processors, round, stop)?;
    }
    if has(GlassPart::Calls) {
        calls::measure(report, (server_cpu, client_cpu), arguments.small, stop)?;
    }
    if has(GlassPart::Lines) {
        ladder::count(report);
    }
    if has(GlassPart::Linked) {
        linked::measure(report, scale, arguments.seed, client_cpu, stop)?;
    }
    if has(GlassPart::Transports) {
        transports::measure(report, processors, arguments.rounds, round, stop)?;
    }
    if has(GlassPart::Xdp) {
        xdp::measure(report, processors, arguments.rounds, round, stop)?;
    }
    if has(GlassPart::Clock) && 0 < arguments.pairs {
        pairs::measure(report, processors, arguments.pairs, round, stop)?;
    }
    if has(GlassPart::Urgent) {
        // The server has all processors.
        os::pin_to_cpus(&cpus).context("the processors")?;
        urgent::measure(report, arguments.seed, round.duration, stop)?;
    }
    neighbours.tell(report);
    notes(report, arguments, (server_cpu, client_cpu));
    Ok(())
}

/// Conditions of the measurement of servers.
#[derive(Clone, Copy)]
struct Measuring<'a> {
    arguments: &'a GlassArguments,
    sides: &'a Sides,
    round: Round,
}

/// Measures the work that clients have done by the servers.
fn by_servers(
    report: &mut Report,
    arguments: &GlassArguments,
    processors: Processors,
    round: Round,
    stop: &Stop,
) -> anyhow::Result<()> {
    let has = |part| arguments.parts.contains(&part);
    // Servers inherit the processor of the thread that starts them.
    os::pin_to_cpu(processors.server).context("pinning the servers")?;
    let targets = ServerChoice::over_tcp(&arguments.servers).start(true, arguments.clients + 20)?;
    os::pin_to_cpu(processors.client).context("pinning the clients")?;
    let available = set_up(report, arguments, &targets, round.scale, stop)?;
    let sides = Sides::enter(&targets, processors);
    report.note(sides.told());
    let measuring = Measuring { arguments, sides: &sides, round };
    if has(GlassPart::NewOrder) {
        measure_work(report, measuring, &available, ("glass.new_order", Work::NewOrder), stop)?;
        for target in &targets {
            tracing::info!(server = target.title, "checking the consistency conditions");
            report.note(tpcc::check(target, stop)?);
        }
    }
    if has(GlassPart::KeyValue) {
        for calls in key_value::CALLS {
            let key = format!("glass.kv.{calls}");
            measure_work(report, measuring, &available, (&key, Work::KeyValue(calls)), stop)?;
        }
    }
    if has(GlassPart::Points) {
        points(report, measuring, &targets, stop)?;
    }
    Ok(())
}

/// Loads the tables and makes what the rungs need.
fn set_up<'a>(
    report: &mut Report,
    arguments: &GlassArguments,
    targets: &'a [MeasuredServer],
    scale: Scale,
    stop: &Stop,
) -> anyhow::Result<Available<'a>> {
    for refused in tpcc::load(targets, scale, arguments.seed, stop)? {
        report.note(refused);
    }
    let mut available = Vec::new();
    for target in targets {
        key_value::load(target)?;
        let control = Control::connect(target)?;
        if target.is_overtake() {
            code::make_modules(&control)?;
        }
        let mut rungs = Vec::new();
        for rung in &RUNGS {
            if !rung.is_for(target) {
                continue;
            }
            match rung.set_up(&control, target)? {
                None => rungs.push(rung),
                Some(reason) => report.note(format!("Not shown: {}, {}: {reason}.", target.title, rung.title)),
            }
        }
        available.push((target, rungs));
    }
    Ok(available)
}

/// Measures all rungs of all servers in turn.
fn measure_work(
    report: &mut Report,
    measuring: Measuring<'_>,
    available: &Available<'_>,
    (key, work): (&str, Work),
    stop: &Stop,
) -> anyhow::Result<()> {
    let arguments = measuring.arguments;
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (target, rungs) in available {
        rows.extend(rungs.iter().filter(|rung| rung.does(work)).map(|rung| Row::new(target, rung, work)));
    }
    measure_rows(&mut rows, measuring, stop)?;
    let title = match work {
        Work::NewOrder => format!("New-Order, {} warehouses, {} clients", arguments.warehouses, arguments.clients),
        Work::KeyValue(1) => format!("Key-value mix, 1 call, {} clients", arguments.clients),
        Work::KeyValue(calls) => format!("Key-value mix, {calls} calls, {} clients", arguments.clients),
        Work::Points => format!("Look-ups by key, {} clients", arguments.clients),
    };
    results::fill(report, key, &title, &rows);
    ratios(report, key, &rows);
    Ok(())
}

/// Measures the rows in turn, round by round.
fn measure_rows(rows: &mut [Row<'_>], measuring: Measuring<'_>, stop: &Stop) -> anyhow::Result<()> {
    let Measuring { arguments, sides, round } = measuring;
    for number in 1..=arguments.rounds {
        for row in rows.iter_mut() {
            let round = Round { seed: round.seed + u64::from(number), ..round };
            let driven = drive_within(sides, row.target, (row.rung, row.work), round, stop)?;
            let (server, per_s) = (row.target.title, driven.per_s());
            tracing::info!(number, server, rung = row.rung.key, work = ?row.work, per_s, "measured");
            row.add(&driven);
        }
    }
    Ok(())
}

/// Adds the ratios of the stored to the interactive transaction.
fn ratios(report: &mut Report, key: &str, rows: &[Row<'_>]) {
    let of = |key: &str| rows.iter().find(|row| row.key() == key);
    for prefix in ["", "postgres_"] {
        let Some(interactive) = of(&format!("{prefix}interactive")) else { continue };
        for (rung, name) in [("native", "native_times"), ("wasm", "wasm_stored_times")] {
            if let Some(stored) = of(&format!("{prefix}{rung}")) {
                report.figure(format!("{key}.{prefix}{name}"), stored.per_s() / interactive.per_s());
            }
        }
        if let (Some(native), Some(wasm)) = (of(&format!("{prefix}native")), of(&format!("{prefix}wasm"))) {
            report.figure(format!("{key}.{prefix}wasm_times"), wasm.per_s() / native.per_s());
        }
        if let Some(stored) = of(&format!("{prefix}stored_sql")) {
            report.figure(format!("{key}.{prefix}stored_times"), stored.per_s() / interactive.per_s());
            report.figure(format!("{key}.{prefix}stored_cpu_times"), interactive.cpu_us() / stored.cpu_us());
        }
        if let (Some(stored), Some(pipelined)) = (of(&format!("{prefix}stored_sql")), of(&format!("{prefix}pipelined")))
        {
            report.figure(format!("{key}.{prefix}stored_over_pipelined_times"), stored.per_s() / pipelined.per_s());
        }
        if let Some(pipelined) = of(&format!("{prefix}pipelined")) {
            report.figure(format!("{key}.{prefix}pipelined_cpu_times"), interactive.cpu_us() / pipelined.cpu_us());
        }
    }
}

/// Measures look-ups by key with one and with several requests on the way.
fn points(
    report: &mut Report,
    measuring: Measuring<'_>,
    targets: &[MeasuredServer],
    stop: &Stop,
) -> anyhow::Result<()> {
    let row = |target| POINTS.iter().map(move |rung| Row::new(target, rung, Work::Points));
    let mut rows: Vec<Row<'_>> = targets.iter().flat_map(row).collect();
    measure_rows(&mut rows, measuring, stop)?;
    let title = format!("Look-ups by key, {} clients", measuring.arguments.clients);
    results::fill(report, "glass.point", &title, &rows);
    for prefix in ["", "postgres_"] {
        let of = |rung: &Rung| rows.iter().find(|row| row.key() == format!("{prefix}{}", rung.key));
        let [one, many] = &POINTS;
        if let Some((one, many)) = of(one).zip(of(many)) {
            let name = format!("glass.point.{prefix}pipelined_over_unpipelined");
            report.figure(name, many.cpu_us() / one.cpu_us());
        }
    }
    Ok(())
}

fn notes(report: &mut Report, arguments: &GlassArguments, (server_cpu, client_cpu): (usize, usize)) {
    report.note(format!(
        "Servers on processor {server_cpu}, clients on processor {client_cpu}. A row is client-bound if the clients used \
         {:.0} % of their processor or more, and server-idle if the server used less of its own: its rate says nothing \
         about the server then, its processor time does. Workers are part of the server.",
        100.0 * usage::SATURATED
    ));
    report.note(format!(
        "Rates are medians of {} rounds in turn, processor times of all rounds together, per committed transaction. \
         READ COMMITTED. Rolled back New-Orders (1 %) do not count.",
        arguments.rounds
    ));
    report.note(
        "Level client: code at the client, over TCP, as bench wire tpcc has it. Pipelined: a New-Order in two round \
         trips, a key-value transaction in one. One batch: all calls of the engine cross together; New-Order has two \
         batches everywhere. Stored, SQL: New-Order is one statement with data-modifying CTEs over arrays; a key-value \
         function has a statement for each call. PL/pgSQL and PL/Python run one statement for each call and each line.",
    );
    report.note(
        "Stages are those of docs/stages.md that are work. Outside: processor time of the server that no stage has; \
         the bars add it to unattributed. A worker on the server's processor runs within the call that wakes it; that \
         time is booked to the workers, not to the crossing. Overtake has no log yet; PostgreSQL runs with synchronous_commit off.",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_none_or_several() {
        assert_eq!((pairs_count("0"), pairs_count("2"), pairs_count("1000")), (Ok(0), Ok(2), Ok(1_000)));
        for wrong in ["1", "1001", "-1", "x"] {
            assert!(pairs_count(wrong).is_err(), "{wrong}");
        }
    }
}
