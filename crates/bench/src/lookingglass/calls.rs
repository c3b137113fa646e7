//! Cost of one invocation, in process: what a level of isolation adds to a call of linked code.
//!
//! **Invariant:** all levels run the same statement over the same rows in turn, in short blocks, so that what the
//! machine does meanwhile is in all of them. A figure is the median of its blocks' means.

use super::code::{self, CodePlace};
use crate::report::median;
use crate::report::{Report, TextTable, number};
use anyhow::Context;
use engine::{Engine, EngineConfig};
use host::stop::Stop;
use preempt::os;
use procs::native::NativeRuntime;
use procs::{Runtime, Runtimes};
use procs_wasm::{WasmConfig, WasmRuntime};
use procs_worker::WorkerConfig;
use settings::Connect;
use sql::session::{Database, Session, Statement, Step};
use statement::error::{SqlError, SqlResult};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use types::Datum;
use workloads::key_value::KeyValueModule;
use workloads::tpcc::TpccModule;

/// Rows of the table.
const ROWS: i32 = 100_000;
/// Blocks of each line.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    count: usize,
    /// Calls of a block.
    calls: u32,
}

const BLOCKS: Blocks = Blocks { count: 60, calls: 500 };
/// Blocks of a quick look.
const FEW_BLOCKS: Blocks = Blocks { count: 3, calls: 100 };
/// Calls of the engine in one batch.
const BATCH: usize = 10;

/// Line of the table.
struct Line {
    key: &'static str,
    title: &'static str,
    place: CodePlace,
    /// Entry, and number of the keys that it gets.
    entry: (&'static str, usize),
}

const fn place(key: &'static str, language: &'static str, isolation: &'static str) -> CodePlace {
    CodePlace { key, language, isolation }
}

const NATIVE: CodePlace = place("native", "native", "");
const WASM: CodePlace = place("wasm", "wasm", "");
const TYPESCRIPT: CodePlace = place("typescript", "wasm", "");
const PROCESS: CodePlace = place("process", "exec", "");
const PROCESS_SOCKET: CodePlace = place("process_socket", "exec", "channel = 'unix_socket'");
const CONTAINER: CodePlace = place("container", "exec", "isolation = 'container'");
const CONTAINER_SOCKET: CodePlace =
    place("container_socket", "exec", "isolation = 'container', channel = 'unix_socket'");
const GVISOR: CodePlace = place("gvisor", "exec", "isolation = 'gvisor'");
const GVISOR_SOCKET: CodePlace = place("gvisor_socket", "exec", "isolation = 'gvisor', channel = 'unix_socket'");
const VM: CodePlace = place("vm", "exec", "isolation = 'vm'");
const VM_SOCKET: CodePlace = place("vm_socket", "exec", "isolation = 'vm', channel = 'unix_socket'");

/// Entries that look up one row, ten rows by as many calls, and ten rows by one batch of calls.
const ONE: (&str, usize) = ("read", 1);
const TEN: (&str, usize) = ("read", BATCH);
const TOGETHER: (&str, usize) = ("read_together", BATCH);

const LINES: &[Line] = &[
    Line { key: "native", title: "native", place: NATIVE, entry: ONE },
    Line { key: "wasm", title: "wasm", place: WASM, entry: ONE },
    Line { key: "typescript", title: "wasm, TypeScript", place: TYPESCRIPT, entry: ONE },
    Line { key: "process", title: "process, shared memory", place: PROCESS, entry: ONE },
    Line { key: "process_socket", title: "process, unix socket", place: PROCESS_SOCKET, entry: ONE },
    Line { key: "container", title: "container, shared memory", place: CONTAINER, entry: ONE },
    Line { key: "container_socket", title: "container, unix socket", place: CONTAINER_SOCKET, entry: ONE },
    Line { key: "gvisor", title: "gvisor, shared memory", place: GVISOR, entry: ONE },
    Line { key: "gvisor_socket", title: "gvisor, unix socket", place: GVISOR_SOCKET, entry: ONE },
    Line { key: "vm", title: "vm, shared memory", place: VM, entry: ONE },
    Line { key: "vm_socket", title: "vm, unix socket", place: VM_SOCKET, entry: ONE },
    Line { key: "native_10", title: "native, 10 calls", place: NATIVE, entry: TEN },
    Line { key: "wasm_10", title: "wasm, 10 calls", place: WASM, entry: TEN },
    Line { key: "process_10", title: "process, 10 calls", place: PROCESS, entry: TEN },
    Line { key: "native_batch", title: "native, 10 calls foreseen", place: NATIVE, entry: TOGETHER },
    Line { key: "wasm_batch", title: "wasm, one batch of 10", place: WASM, entry: TOGETHER },
    Line { key: "typescript_batch", title: "wasm, TypeScript, one batch of 10", place: TYPESCRIPT, entry: TOGETHER },
    Line { key: "process_batch", title: "process, one batch of 10", place: PROCESS, entry: TOGETHER },
    Line { key: "container_batch", title: "container, one batch of 10", place: CONTAINER, entry: TOGETHER },
    Line { key: "gvisor_batch", title: "gvisor, one batch of 10", place: GVISOR, entry: TOGETHER },
    Line { key: "vm_batch", title: "vm, one batch of 10", place: VM, entry: TOGETHER },
];

/// Regime of a call: where the two sides are, and how they wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Regime {
    /// Caller and workers have one processor together: each hand-over is a switch.
    SameCore,
    /// They have one each, and the caller sleeps until the answer wakes it.
    Blocking,
    /// They have one each, and both look at the shared memory for some time before they sleep. A socket cannot be
    /// polled: its calls block here, too.
    Polling,
}

impl Regime {
    const ALL: [Regime; 3] = [Regime::SameCore, Regime::Blocking, Regime::Polling];

    /// Returns the part of figures' names that stands before their unit.
    fn suffix(self) -> &'static str {
        match self {
            Regime::SameCore => "_same_core",
            Regime::Blocking => "_blocking",
            // The regime of a server with processors of its own, and the benchmark's answer.
            Regime::Polling => "",
        }
    }
}

/// Microseconds of a call of each line in one regime; none where the machine lacks the level.
type LineTimes = Vec<Option<f64>>;

/// Measures all lines in all regimes.
///
/// # Errors
/// A stop; errors of the database.
pub fn measure(report: &mut Report, (own, other): (usize, usize), is_quick: bool, stop: &Stop) -> anyhow::Result<()> {
    let blocks = if is_quick { FEW_BLOCKS } else { BLOCKS };
    let mut modules = code::modules();
    match code::typescript() {
        Ok(module) => modules.push(module),
        Err(error) => report.note(format!("Not shown: TypeScript: {error:#}.")),
    }
    let measure = |regime| in_regime(regime, (own, other), (&modules, blocks), stop);
    let all: Vec<LineTimes> = Regime::ALL.into_iter().map(measure).collect::<anyhow::Result<_>>()?;
    let header =
        ["", "same core", "beyond native", "other core, blocking", "beyond native", "polling", "beyond native"];
    let title = "One prepared SELECT of a stored function, in process, us a call";
    let mut table = TextTable::new(title, &header);
    for (at, line) in LINES.iter().enumerate() {
        let times: Option<Vec<f64>> = all.iter().map(|times| times.get(at).copied().flatten()).collect();
        let Some(times) = times else {
            report.note(format!("Not shown: {}.", line.title));
            continue;
        };
        let mut row = vec![line.title.to_owned()];
        for ((regime, us), times) in Regime::ALL.into_iter().zip(times).zip(&all) {
            let suffix = regime.suffix();
            report.figure(format!("glass.call.{}{suffix}_us", line.key), us);
            let beyond = of(times, native_of(line)).map(|native| us - native);
            beyond.into_iter().for_each(|us| {
                report.figure(format!("glass.call.{}{suffix}_beyond_native_us", line.key), us);
            });
            row.extend([number(us), beyond.map_or_else(String::new, number)]);
        }
        table.row(row);
    }
    report.table(table);
    crossings(report, &all);
    report.note(
        "Calls in process have no wire: a session's prepared statement, one look-up by key within the function. Same \
         core: caller and worker have one processor. Blocking: one each, and the caller sleeps at each call. Polling: one \
         each, and both poll the shared memory for some time before they sleep; a socket blocks there, too. The look-ups of \
         a batch are foreseen and overlap, so a batch is compared with linked code whose look-ups are foreseen, too.",
    );
    Ok(())
}

/// Returns the title of each line, and the names of its figures: for each regime the time of a call, and what it is
/// beyond linked code.
pub fn names() -> Vec<(&'static str, [String; 6])> {
    let of = |line: &Line| {
        let [same, blocking, polling] = Regime::ALL.map(|regime| format!("glass.call.{}{}", line.key, regime.suffix()));
        let us = |name: &str| [format!("{name}_us"), format!("{name}_beyond_native_us")];
        let [[a, b], [c, d], [e, f]] = [us(&same), us(&blocking), us(&polling)];
        (line.title, [a, b, c, d, e, f])
    };
    LINES.iter().map(of).collect()
}

/// Returns the key of the line of linked code that does the same.
fn native_of(line: &Line) -> &'static str {
    match line.entry {
        ONE => "native",
        TOGETHER => "native_batch",
        _ => "native_10",
    }
}

fn of(times: &[Option<f64>], key: &str) -> Option<f64> {
    LINES.iter().zip(times).find(|(line, _)| line.key == key).and_then(|(_, us)| *us)
}

/// Reports the cost of crossing once with ten calls, over that of crossing with one.
fn crossings(report: &mut Report, all: &[LineTimes]) {
    for (regime, times) in Regime::ALL.into_iter().zip(all) {
        for line in LINES.iter().filter(|line| line.entry == TOGETHER && line.place.key != NATIVE.key) {
            let beyond = |key: &str, native: &str| Some(of(times, key)? - of(times, native)?);
            let Some(batch) = beyond(line.key, "native_batch") else { continue };
            if let Some(one) = beyond(line.place.key, "native").filter(|us| 0.0 < *us) {
                report.figure(format!("glass.call.{}{}_crossing_times", line.key, regime.suffix()), batch / one);
            }
        }
    }
}

/// Measures all lines in a regime, with the caller on the first processor.
fn in_regime(
    regime: Regime,
    (own, other): (usize, usize),
    (modules, blocks): (&[String], Blocks),
    stop: &Stop,
) -> anyhow::Result<LineTimes> {
    let workers = if regime == Regime::SameCore { own } else { other };
    // A server counts the processors of both sides when a worker starts, and never polls if there is one only.
    let at_start = if regime == Regime::Blocking { workers } else { own };
    // Workers inherit the processor of the thread that makes the levels; the measuring thread moves away afterwards.
    thread::scope(|scope| {
        let measured = scope.spawn(|| -> anyhow::Result<LineTimes> {
            os::pin_to_cpu(workers).context("pinning the workers")?;
            let runtimes = runtimes()?;
            os::pin_to_cpu(at_start).context("pinning the caller")?;
            let database = Database::new(Engine::new(EngineConfig::in_memory())).with_runtimes(runtimes);
            lines(&database, own, (modules, blocks), stop)
        });
        measured.join().map_err(|_| anyhow::anyhow!("the measuring thread has panicked"))?
    })
}

fn runtimes() -> anyhow::Result<Arc<Runtimes>> {
    let native: Arc<dyn Runtime> =
        Arc::new(NativeRuntime::new(vec![Arc::new(TpccModule::default()), Arc::new(KeyValueModule)]));
    let wasm = WasmRuntime::new(WasmConfig { instances_max: 64, ..WasmConfig::default() }).context("wasm")?;
    let wasm: Arc<dyn Runtime> = Arc::new(wasm);
    let workers = procs_worker::runtimes(WorkerConfig::default()).context("workers")?;
    Ok(Arc::new(Runtimes::new([native, wasm].into_iter().chain(workers).collect())))
}

/// Measures all lines. The workers start where the caller is; then it moves to this processor.
fn lines(
    database: &Database,
    own: usize,
    (modules, blocks): (&[String], Blocks),
    stop: &Stop,
) -> anyhow::Result<LineTimes> {
    let wishes = Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() };
    let mut session = database.connect(wishes).map_err(|error| anyhow::anyhow!("{error}"))?;
    run(&mut session, "create table glass_kv (k int primary key, v int not null)")?;
    run(&mut session, &format!("insert into glass_kv select generate_series(1, {ROWS}), 0"))?;
    for module in modules {
        run(&mut session, module)?;
    }
    let mut calls = Vec::new();
    for line in LINES {
        let name = format!("call_{}", line.key);
        let module = match line.place.key {
            "native" => "glass_key_value",
            "typescript" => code::TYPESCRIPT,
            _ => "glass",
        };
        let function = line.place.function(&name, "keys int[]) returns int", (module, line.entry.0));
        let made = function.iter().try_for_each(|statement| run(&mut session, statement));
        match made {
            Ok(()) => {
                let text = format!("select {name}($1)");
                let call = session.prepare(&text, &[]).map_err(|error| anyhow::anyhow!("{text}: {error}"))?;
                calls.push(Some(call));
            }
            Err(error) => {
                tracing::warn!(level = line.title, %error, "not shown");
                calls.push(None);
            }
        }
    }
    let mut means: Vec<Vec<f64>> = LINES.iter().map(|_| Vec::new()).collect();
    for block in 0..=blocks.count {
        if block == 1 {
            os::pin_to_cpu(own).context("pinning the caller")?;
        }
        for ((line, call), means) in LINES.iter().zip(&calls).zip(&mut means) {
            stop.wait(Duration::ZERO)?;
            let Some(call) = call else { continue };
            let us = of_block(&mut session, call, line.entry.1, (block, blocks.calls))?;
            // The first block makes instances and plans.
            if 0 < block {
                means.push(us);
            }
        }
    }
    Ok(means.iter().map(|means| (!means.is_empty()).then(|| median(means))).collect())
}

/// Returns the mean time of a call in a block, in microseconds.
fn of_block(
    session: &mut Session,
    call: &Arc<Statement>,
    keys: usize,
    (block, calls): (usize, u32),
) -> anyhow::Result<f64> {
    let key = |number: usize| Datum::Int4((number * 7_919 % ROWS as usize) as i32 + 1);
    let begun = Instant::now();
    for number in 0..calls as usize {
        let first = (block * calls as usize + number) * keys;
        let values: Vec<Datum> = (first..first + keys).map(key).collect();
        execute(session, call, vec![Datum::Array(values.into())]).map_err(told)?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / f64::from(calls))
}

fn run(session: &mut Session, text: &str) -> anyhow::Result<()> {
    let statement = session.prepare(text, &[]).map_err(|error| anyhow::anyhow!("{error}"))?;
    execute(session, &statement, Vec::new()).map_err(told)
}

fn told(error: SqlError) -> anyhow::Error {
    anyhow::anyhow!("{error}: {}", error.detail_text().unwrap_or_default())
}

/// Runs a prepared statement to its end, in a transaction of its own.
///
/// # Errors
/// Those of the statement; the session can go on.
pub fn execute(session: &mut Session, statement: &Arc<Statement>, values: Vec<Datum>) -> SqlResult<()> {
    let run = |session: &mut Session| {
        let mut portal = session.bind(statement, values)?;
        loop {
            match session.execute(&mut portal)? {
                Step::Parked(parked) => parked.wait(),
                Step::Done(_) => return Ok(()),
                Step::CopyIn(_) | Step::CopyOut(_) => return Err(SqlError::unsupported("COPY")),
            }
        }
    };
    let ran = run(session);
    ran.and(session.sync())
}
