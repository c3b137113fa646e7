//! `overtake bench delivery`: the delay with which an interrupt reaches a busy worker by each rung, and its cost.
//!
//! The receiver is a registered worker, pinned and busy; the sender is pinned to another processor and sends after a
//! random pause of 50 to 150 µs. Each rung is measured in two phases: one in which the receiver does plain work, for
//! the delay and the sender's cost, and one in which it watches the clock, for the time that an interrupt steals from
//! it. So watching does not change the delay.

mod costs;
mod rungs;

use crate::arguments::PhaseDuration;
use crate::report::{Machine, PercentileChart, Report, TextTable, number};
use clap::Args;
use costs::Costs;
use host::memory;
use host::stop::Stop;
use preempt::os;
use rungs::{DeliveryWay, Processors, ReceiverWork, RungTimes};
use serde::Serialize;
use std::time::Duration;

/// Arguments of `bench delivery`.
#[derive(Args, Debug, Serialize)]
pub struct DeliveryArguments {
    /// Length of each of the two phases of the three rungs.
    #[command(flatten)]
    #[serde(flatten)]
    duration: PhaseDuration,
}

const MEMORY_BYTES: u64 = 64 << 20;

/// Results of both phases of a rung.
struct RungResult {
    way: DeliveryWay,
    plain: RungTimes,
    watched: RungTimes,
}

/// Measures and reports.
///
/// # Errors
/// If memory is short, the run is stopped, or an interrupt is lost.
pub fn run(arguments: &DeliveryArguments, stop: &Stop) -> anyhow::Result<Report> {
    memory::require(MEMORY_BYTES, "end other programs, or raise the container's limit")?;
    let machine = Machine::read();
    let mut report = Report::new("delivery", arguments, machine.clone())?;
    report.figure("delivery.uintr_available", f64::from(u8::from(os::uintr().kernel)));
    report.note(format!("User interrupts (UINTR), the rung below a signal: {}.", machine.uintr));
    let cpus = os::cpus();
    let receiver = *cpus.last().unwrap_or(&0);
    let duration = arguments.duration.get();
    stop.wait(Duration::ZERO)?;
    tracing::info!("measuring what regions, the allocator's guard and safepoints cost");
    report_costs(&mut report, &costs::measure(receiver)?);
    if cpus.len() < 2 {
        report.note("The delivery itself was not measured: it needs two processors, one for the sender.");
        return Ok(report);
    }
    let processors = Processors { sender: cpus[0], receiver };
    let mut results = Vec::new();
    for way in [DeliveryWay::Poll, DeliveryWay::Signal, DeliveryWay::thread(machine.realtime_allowed)] {
        let phase = |busy| {
            tracing::info!(rung = way.name(), receiver = ?busy, seconds = duration.as_secs_f64(), "measuring");
            rungs::measure(way, busy, processors, duration, stop)
        };
        results.push(RungResult { way, plain: phase(ReceiverWork::Working)?, watched: phase(ReceiverWork::Watching)? });
    }
    report_rungs(&mut report, &results);
    Ok(report)
}

/// Delays of the signal rung alone: the best that this machine can do.
pub struct SignalAlone {
    /// Time from send to first instruction, of all requests.
    pub delay: stage::Histogram,
    /// Time from send to first instruction, of requests during which neither side had to wait for a processor.
    pub delay_on_cpu: stage::Histogram,
}

/// Measures the signal rung alone; returns nothing on a machine with one processor.
///
/// # Errors
/// If the run is stopped, or an interrupt is lost.
pub fn signal_alone(duration: Duration, stop: &Stop) -> anyhow::Result<Option<SignalAlone>> {
    let cpus = os::cpus();
    let [sender, .., receiver] = cpus[..] else { return Ok(None) };
    let RungTimes { delay, delay_on_cpu, .. } =
        rungs::measure(DeliveryWay::Signal, ReceiverWork::Working, Processors { sender, receiver }, duration, stop)?;
    Ok(Some(SignalAlone { delay, delay_on_cpu }))
}

/// Returns the medians of the poll and the signal rung, in µs, on a machine with two processors.
///
/// # Errors
/// Errors of [`signal_alone`].
pub fn medians_us(duration: Duration, stop: &Stop) -> anyhow::Result<[Option<f64>; 2]> {
    let cpus = os::cpus();
    let [sender, .., receiver] = cpus[..] else { return Ok([None; 2]) };
    let processors = Processors { sender, receiver };
    let median = |way| {
        let measured = rungs::measure(way, ReceiverWork::Working, processors, duration, stop)?;
        anyhow::Ok(Some(measured.delay.quantile_us(0.5)))
    };
    Ok([median(DeliveryWay::Poll)?, median(DeliveryWay::Signal)?])
}

fn report_costs(report: &mut Report, costs: &Costs) {
    let figures = [
        ("region, enter and exit", "region_ns", costs.region_ns),
        ("safepoint, nothing asked", "safepoint_ns", costs.safepoint_ns),
        ("64 bytes allocated and freed, plain", "alloc_plain_ns", costs.alloc_plain_ns),
        ("64 bytes allocated and freed, guarded", "alloc_guarded_ns", costs.alloc_guarded_ns),
        ("reading the clock", "clock_ns", costs.clock_ns),
    ];
    let mut table = TextTable::new("What code pays for being interruptible", &["", "ns"]);
    for (what, figure, value) in figures {
        table.row([what.to_owned(), number(value)]);
        report.figure(format!("delivery.{figure}"), value);
    }
    report.table(table);
    report.figure("delivery.safepoint_1024_ratio", costs.safepoint_1024_ratio);
    report.note(format!(
        "A vectorised sum with a safepoint each 1,024 rows takes {:.4} times as long as without one.",
        costs.safepoint_1024_ratio
    ));
}

fn report_rungs(report: &mut Report, results: &[RungResult]) {
    let header = ["rung", "p50", "p90", "p99", "p99.9", "max", "samples"];
    let mut delays = TextTable::new("Send to first instruction, µs", &header);
    let mut prices = TextTable::new("What one interrupt costs, µs (median)", &["rung", "sender", "receiver"]);
    let mut chart = PercentileChart::new("Send to first instruction of the urgent context", "µs");
    for RungResult { way, plain, watched } in results {
        let name = way.name();
        for (label, figure, histogram) in [
            (name.to_owned(), format!("delivery.{name}_us"), &plain.delay),
            (format!("{name}, on CPU"), format!("delivery.{name}_on_cpu_us"), &plain.delay_on_cpu),
        ] {
            if histogram.count() == 0 {
                continue; // No sample was on CPU; the share says so.
            }
            let quantiles = histogram.quantiles_us();
            let numbers = quantiles.named().map(|(_, value)| number(value));
            delays.row([label.clone()].into_iter().chain(numbers).chain([number(histogram.count() as f64)]));
            report.quantiles(&figure, &quantiles);
            chart.series(label, histogram);
        }
        let (sender_us, stolen_us) = (plain.sender.quantile_us(0.5), watched.stolen.quantile_us(0.5));
        prices.row([name.to_owned(), number(sender_us), number(stolen_us)]);
        report.figure(format!("delivery.{name}_sender_us"), sender_us);
        report.figure(format!("delivery.{name}_stolen_us"), stolen_us);
        let share = plain.delay_on_cpu.count() as f64 / plain.delay.count() as f64;
        report.figure(format!("delivery.{name}_on_cpu_share"), share);
        report.figure(format!("delivery.{name}_samples"), plain.delay.count() as f64);
        report.note(format!("{}{}", way.explanation(), plain.remarks(share)));
    }
    report.table(delays);
    report.table(prices);
    report.chart(chart);
    report.note(
        "On CPU: sender and receiver together waited at most 0.1 ms for a processor between a send and the next one.",
    );
}
