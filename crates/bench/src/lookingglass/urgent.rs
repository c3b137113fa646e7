//! A CALL of class high beside Q2 on all workers: as a request of the scheduler that interrupts a query, and on the
//! thread that has read it.
//!
//! **Invariant:** all ways take turns on one server, beside the same sessions, with the same calls; the signal rung
//! alone is measured in the same run. The start delay is the server's own: from the hand-over to the first instruction
//! of the call.

use super::key_value;
use crate::delivery;
use crate::report::{Report, TextTable, number};
use crate::wire::client::{Control, connect, explain, runtime, text_rows};
use crate::wire::mixed::analytics::{Analytics, Remedy};
use crate::wire::servers::{MeasuredServer, overtake};
use crate::wire::tpch;
use anyhow::{Context, ensure};
use host::stop::Stop;
use preempt::os;
use procs::NativeModule;
use stage::Histogram;
use std::slice;
use std::time::Duration;
use workloads::key_value::TouchModule;
use workloads::tpcc::Random;

/// WebAssembly module of the procedure; empty if the toolchain could not make it.
const WASM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/urgent.wasm"));
/// Manifest of the procedure.
const MANIFEST: &str = include_str!(concat!(env!("OUT_DIR"), "/urgent.manifest"));

/// Scale factor of TPC-H's tables.
const SCALE_FACTOR: f64 = 0.1;
/// Length of the measurement of the signal rung alone.
const SIGNAL_ALONE: Duration = Duration::from_secs(2);
/// Calls before the first that is measured, for each way.
const WARM_UP: u32 = 50;
/// Mean pause between two calls.
const PAUSE_US: u64 = 1_000;
/// Calls of a turn.
const TURN: Duration = Duration::from_millis(500);

/// One way of making the call.
struct CallWay {
    key: &'static str,
    title: &'static str,
    /// Procedure, and whether it is urgent.
    procedure: &'static str,
    latency: Histogram,
}

fn ways() -> Vec<CallWay> {
    let way = |key, title, procedure| CallWay { key, title, procedure, latency: Histogram::new() };
    let mut all = vec![
        way("native.spot", "native, on the network's thread", "glass_touch_native"),
        way("native.urgent", "native, urgent", "glass_touch_native_urgent"),
    ];
    if !WASM.is_empty() {
        all.push(way("wasm.spot", "wasm, on the network's thread", "glass_touch_wasm"));
        all.push(way("wasm.urgent", "wasm, urgent", "glass_touch_wasm_urgent"));
    }
    all
}

/// Returns the begin of each way's figures, and its title.
pub fn titles() -> Vec<(&'static str, &'static str)> {
    ways().into_iter().map(|way| (way.key, way.title)).collect()
}

/// Measures and reports.
///
/// # Errors
/// A stop; errors of the server; a query that fails.
pub fn measure(report: &mut Report, seed: u64, duration: Duration, stop: &Stop) -> anyhow::Result<()> {
    tracing::info!("measuring the signal rung alone");
    let signal = delivery::signal_alone(SIGNAL_ALONE, stop)?.context("two processors are needed")?;
    let cpus = os::cpus();
    let target = overtake(20)?;
    key_value::load(&target)?;
    tpch::load(slice::from_ref(&target), SCALE_FACTOR, stop)?;
    set_up(&target)?;
    let workers = cpus.len() as u32;
    // Each session has a query on a worker, with some to spare: a worker is idle between two queries of one session.
    let analytics = Analytics::start(&target, 2 * workers, &[2], 0, Remedy::None)?;
    let mut ways = ways();
    let before = analytics.done();
    let turns = (duration.as_secs_f64() / TURN.as_secs_f64()).ceil() as u32;
    let rows = call(&target, &mut ways, (seed, turns.max(1)), stop)?;
    let queries = analytics.done() - before;
    analytics.stop()?;
    ensure!(0 < queries, "no query has ended beside the calls");
    fill(report, &ways, &rows, &signal);
    report.figure("glass.urgent.queries", queries as f64);
    Ok(())
}

/// Makes the procedures.
fn set_up(target: &MeasuredServer) -> anyhow::Result<()> {
    let control = Control::connect(target)?;
    let native = TouchModule;
    let mut modules = vec![("native", native.manifest(), "artifact native 'touch'".to_owned())];
    if !WASM.is_empty() {
        let hex: String = WASM.iter().map(|byte| format!("{byte:02x}")).collect();
        modules.push(("wasm", MANIFEST, format!("artifact wasm '\\x{hex}'")));
    }
    for (language, manifest, artifact) in modules {
        let name = format!("glass_touch_{language}");
        control.batch(&format!("create module {name} manifest $manifest${manifest}$manifest$ {artifact}"))?;
        for (procedure, parameters) in [(name.clone(), ""), (format!("{name}_urgent"), "set (urgent = true)")] {
            let create = format!("create procedure {procedure}(k int) language {language}");
            control.batch(&format!("{create} {parameters} as '{name}', 'touch'"))?;
        }
    }
    Ok(())
}

/// Figures of the server's scheduler: calls, those that interrupted, those that were claimed, start delays.
struct Scheduled {
    /// Calls of urgent procedures, by this benchmark.
    made: f64,
    /// Those of them that were handed over to a worker.
    calls: f64,
    interrupting: f64,
    claimed: f64,
    start_us: [f64; 2],
}

/// Makes the calls, one way after the other, turn by turn.
fn call(
    target: &MeasuredServer,
    ways: &mut [CallWay],
    (seed, turns): (u64, u32),
    stop: &Stop,
) -> anyhow::Result<Scheduled> {
    let runtime = runtime()?;
    // Allowed or not, the client is the same for all ways.
    let is_realtime = os::set_realtime(20).is_ok();
    let made = runtime.block_on(async {
        let client = connect(&target.url).await?;
        client.batch_execute("set overtake.priority = high").await.map_err(|error| explain(&error))?;
        let mut random = Random::new(seed);
        let mut calls = Vec::new();
        for way in ways.iter() {
            let statement = client.prepare(&format!("call {}($1)", way.procedure)).await;
            calls.push(statement.map_err(|error| explain(&error))?);
        }
        let mut made = 0.0;
        for turn in 0..turns {
            for (way, statement) in ways.iter_mut().zip(&calls) {
                stop.wait(Duration::ZERO)?;
                let until_ns = os::now_ns() + TURN.as_nanos() as u64;
                let mut number = 0_u32;
                while os::now_ns() < until_ns {
                    let key = random.uniform(1, key_value::ROWS);
                    std::thread::sleep(Duration::from_micros(random.word() % (2 * PAUSE_US)));
                    let begun_ns = os::now_ns();
                    client.execute(statement, &[&key]).await.map_err(|error| explain(&error))?;
                    number += 1;
                    made += if way.procedure.ends_with("_urgent") { 1.0 } else { 0.0 };
                    if 0 < turn || WARM_UP < number {
                        way.latency.record_ns(os::now_ns() - begun_ns);
                    }
                }
            }
        }
        let figures = "select urgent_calls, urgent_interrupting, urgent_claimed, urgent_start_p50_us, \
                       urgent_start_p99_us from overtake.scheduler where class = 'normal'";
        let rows = text_rows(&client, figures).await.map_err(|error| explain(&error))?;
        let row = rows.into_iter().next().context("the scheduler's row")?;
        let figures: Vec<f64> = row.iter().flatten().filter_map(|figure| figure.parse().ok()).collect();
        let [calls, interrupting, claimed, p50, p99] = figures[..] else { anyhow::bail!("five figures are expected") };
        anyhow::Ok(Scheduled { made, calls, interrupting, claimed, start_us: [p50, p99] })
    });
    if is_realtime {
        os::set_ordinary().context("the client's scheduling class")?;
    }
    made
}

fn fill(report: &mut Report, ways: &[CallWay], rows: &Scheduled, signal: &delivery::SignalAlone) {
    let title = format!("A CALL beside Q2 on all workers, µs at the client ({:.0} calls were urgent)", rows.calls);
    let mut table = TextTable::new(title, &["", "p50", "p90", "p99", "calls"]);
    for way in ways {
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|quantile| way.latency.quantile_us(quantile));
        table.row([way.title.to_owned(), number(p50), number(p90), number(p99), number(way.latency.count() as f64)]);
        report.figure(format!("glass.urgent.{}.p50_us", way.key), p50);
        report.figure(format!("glass.urgent.{}.p99_us", way.key), p99);
    }
    report.table(table);
    let mut table = TextTable::new("Start of urgent calls, µs", &["", "p50", "p99"]);
    let alone = [signal.delay.quantile_us(0.5), signal.delay.quantile_us(0.99)];
    for (title, [p50, p99]) in
        [("signal rung alone", alone), ("from the hand-over to the first instruction", rows.start_us)]
    {
        table.row([title.to_owned(), number(p50), number(p99)]);
    }
    report.table(table);
    for ((name, start), alone) in ["p50", "p99"].iter().zip(rows.start_us).zip(alone) {
        report.figure(format!("glass.urgent.signal_{name}_us"), alone);
        report.figure(format!("glass.urgent.start_{name}_us"), start);
        report.figure(format!("glass.urgent.start_{name}_times_signal"), start / alone);
    }
    let handed_over = 100.0 * rows.calls / rows.made.max(1.0);
    report.figure("glass.urgent.handed_over_percent", handed_over);
    let percent = |count: f64| 100.0 * count / rows.calls.max(1.0);
    report.figure("glass.urgent.interrupting_percent", percent(rows.interrupting));
    report.figure("glass.urgent.claimed_percent", percent(rows.claimed));
    report.note(format!(
        "Urgent: {handed_over:.1} % of the calls were handed over to workers, and the others made where they were read, \
         as no worker was busy; of the former {:.1} % interrupted a query, {:.1} % were claimed after 100 µs. The start delay is the \
         server's own, in eighths of an octave; the client's times include the wire both ways, and for urgent calls the \
         wake-up of the session.",
        percent(rows.interrupting),
        percent(rows.claimed)
    ));
}
