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
const BLOCKS: usize = 60;
/// Calls of a block.
const CALLS: u32 = 500;
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

const NATIVE: CodePlace = CodePlace { key: "native", language: "native", isolation: "" };
const WASM: CodePlace = CodePlace { key: "wasm", language: "wasm", isolation: "" };
const TYPESCRIPT: CodePlace = CodePlace { key: "typescript", language: "wasm", isolation: "" };
const PROCESS: CodePlace = CodePlace { key: "process", language: "exec", isolation: "" };
const SOCKET: CodePlace = CodePlace { key: "socket", language: "exec", isolation: "channel = 'unix_socket'" };
const CONTAINER: CodePlace = CodePlace { key: "container", language: "exec", isolation: "isolation = 'container'" };
const GVISOR: CodePlace = CodePlace { key: "gvisor", language: "exec", isolation: "isolation = 'gvisor'" };
const VM: CodePlace = CodePlace { key: "vm", language: "exec", isolation: "isolation = 'vm'" };

const LINES: [Line; 13] = [
    Line { key: "native", title: "native", place: NATIVE, entry: ("read", 1) },
    Line { key: "wasm", title: "wasm", place: WASM, entry: ("read", 1) },
    Line { key: "typescript", title: "wasm, TypeScript", place: TYPESCRIPT, entry: ("read", 1) },
    Line { key: "process", title: "process, shared memory", place: PROCESS, entry: ("read", 1) },
    Line { key: "process_socket", title: "process, unix socket", place: SOCKET, entry: ("read", 1) },
    Line { key: "container", title: "container, shared memory", place: CONTAINER, entry: ("read", 1) },
    Line { key: "gvisor", title: "gvisor, shared memory", place: GVISOR, entry: ("read", 1) },
    Line { key: "vm", title: "vm, shared memory", place: VM, entry: ("read", 1) },
    Line { key: "native_10", title: "native, 10 calls", place: NATIVE, entry: ("read", BATCH) },
    Line { key: "wasm_10", title: "wasm, 10 calls", place: WASM, entry: ("read", BATCH) },
    Line { key: "wasm_batch", title: "wasm, one batch of 10", place: WASM, entry: ("read_together", BATCH) },
    Line {
        key: "typescript_batch",
        title: "wasm, TypeScript, one batch of 10",
        place: TYPESCRIPT,
        entry: ("read_together", BATCH),
    },
    Line { key: "process_batch", title: "process, one batch of 10", place: PROCESS, entry: ("read_together", BATCH) },
];

/// Measures all lines, with the workers on the processor of the caller and on another one.
///
/// # Errors
/// A stop; errors of the database.
pub fn measure(report: &mut Report, (own, other): (usize, usize), stop: &Stop) -> anyhow::Result<()> {
    let mut modules = code::modules();
    match code::typescript() {
        Ok(module) => modules.push(module),
        Err(error) => report.note(format!("Not shown: TypeScript: {error:#}.")),
    }
    let same = on_processors(own, own, &modules, stop)?;
    let apart = on_processors(own, other, &modules, stop)?;
    let header = ["", "same core, us a call", "beyond native", "other core, us a call", "beyond native"];
    let mut table = TextTable::new("One prepared SELECT of a stored function, in process", &header);
    let native = |times: &[Option<f64>], line: &Line| {
        let key = if line.entry.1 == 1 { "native" } else { "native_10" };
        LINES.iter().zip(times).find(|(line, _)| line.key == key).and_then(|(_, us)| *us)
    };
    for ((line, same_us), apart_us) in LINES.iter().zip(&same).zip(&apart) {
        let (Some(same_us), Some(apart_us)) = (same_us, apart_us) else {
            report.note(format!("Not shown: {}.", line.title));
            continue;
        };
        let beyond = |us: f64, times: &[Option<f64>]| native(times, line).map_or(f64::NAN, |native| us - native);
        let (same_beyond, apart_beyond) = (beyond(*same_us, &same), beyond(*apart_us, &apart));
        table.row([
            line.title.to_owned(),
            number(*same_us),
            number(same_beyond),
            number(*apart_us),
            number(apart_beyond),
        ]);
        report.figure(format!("glass.call.{}_same_core_us", line.key), *same_us);
        report.figure(format!("glass.call.{}_us", line.key), *apart_us);
        report.figure(format!("glass.call.{}_beyond_native_us", line.key), apart_beyond);
    }
    report.table(table);
    report.note(
        "Calls in process have no wire: a session's prepared statement, one look-up by key within the function. On \
         another core a worker polls its ring for some time before it sleeps.",
    );
    Ok(())
}

/// Measures all lines with the caller and the workers on these processors. A line that the machine lacks has no figure.
fn on_processors(own: usize, workers: usize, modules: &[String], stop: &Stop) -> anyhow::Result<Vec<Option<f64>>> {
    // Workers inherit the processor of the thread that makes the levels; the measuring thread moves away afterwards.
    thread::scope(|scope| {
        let measured = scope.spawn(|| -> anyhow::Result<Vec<Option<f64>>> {
            os::pin_to_cpu(workers).context("pinning the workers")?;
            let runtimes = runtimes()?;
            os::pin_to_cpu(own).context("pinning the caller")?;
            let database = Database::new(Engine::new(EngineConfig::in_memory())).with_runtimes(runtimes);
            lines(&database, modules, stop)
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

fn lines(database: &Database, modules: &[String], stop: &Stop) -> anyhow::Result<Vec<Option<f64>>> {
    let wishes = Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() };
    let mut session = database.connect(wishes).map_err(|error| anyhow::anyhow!("{error}"))?;
    run(&mut session, "create table glass_kv (k int primary key, v int not null)")?;
    run(&mut session, &format!("insert into glass_kv select generate_series(1, {ROWS}), 0"))?;
    for module in modules {
        run(&mut session, module)?;
    }
    let mut calls = Vec::new();
    for line in &LINES {
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
    for block in 0..=BLOCKS {
        for ((line, call), means) in LINES.iter().zip(&calls).zip(&mut means) {
            stop.wait(Duration::ZERO)?;
            let Some(call) = call else { continue };
            let us = of_block(&mut session, call, line.entry.1, block)?;
            // The first block makes instances and plans.
            if 0 < block {
                means.push(us);
            }
        }
    }
    Ok(means.iter().map(|means| (!means.is_empty()).then(|| median(means))).collect())
}

/// Returns the mean time of a call in a block, in microseconds.
fn of_block(session: &mut Session, call: &Arc<Statement>, keys: usize, block: usize) -> anyhow::Result<f64> {
    let key = |number: usize| Datum::Int4((number * 7_919 % ROWS as usize) as i32 + 1);
    let begun = Instant::now();
    for number in 0..CALLS as usize {
        let first = (block * CALLS as usize + number) * keys;
        let values: Vec<Datum> = (first..first + keys).map(key).collect();
        execute(session, call, vec![Datum::Array(values.into())]).map_err(told)?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS))
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
