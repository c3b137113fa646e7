//! Goal: workers that are killed leave nothing behind. Method: a thread kills every child of this process by SIGKILL,
//! at any step of its life, while another one runs invocations; then descriptors, mappings, threads, processes and
//! control groups of this process are those from before.

use procs::{Artifact, Availability, CodeTenant, Level, Limits, Manifest, Tenant};
use procs_conformance::{Subject, built, engine};
use procs_worker::WorkerConfig;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use types::Kind;

/// Returns the number of workers that are killed at a level.
fn kills(level: Level) -> u32 {
    match level {
        Level::Native | Level::Wasm => 0,
        Level::Process => 10_000,
        Level::Container => 2_000,
        // They start more slowly: a sandbox takes a quarter of a second.
        Level::Gvisor | Level::Vm => 200,
    }
}

/// Calls of an invocation: more than any worker makes before it is killed.
const CALLS: i64 = 1 << 40;

/// Descriptors, mappings, threads and children of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holdings {
    descriptors: usize,
    mappings: usize,
    threads: usize,
    children: usize,
}

fn holdings() -> Holdings {
    let count = |folder: &str| fs::read_dir(folder).expect("a folder").count();
    Holdings {
        descriptors: count("/proc/self/fd"),
        mappings: fs::read_to_string("/proc/self/maps")
            .expect("mappings")
            .lines()
            .filter(|line| !line.contains("[heap]"))
            .count(),
        threads: count("/proc/self/task"),
        children: children().len(),
    }
}

/// Returns the children of all threads.
fn children() -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").expect("tasks").flatten();
    let texts = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    texts.flat_map(|text| text.split_whitespace().flat_map(str::parse).collect::<Vec<i32>>()).collect()
}

/// Returns the bits of a time in microseconds, within which a child is killed: about as long as it takes to start.
fn wait_bits(level: Level) -> u32 {
    if level == Level::Gvisor { 19 } else { 12 }
}

/// Kills children, each a while after it was seen first, until told to stop.
fn kill_children(is_over: &AtomicBool, wait_bits: u32) {
    let mut seen = Vec::new();
    let mut round = 0_u64;
    while !is_over.load(Relaxed) {
        round += 1;
        // Times from 0 to the greatest, in an order that looks random.
        let wait = Duration::from_micros(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - wait_bits));
        let now = children();
        for child in now.iter().filter(|child| seen.contains(*child)) {
            if let Some(child) = Pid::from_raw(*child) {
                let _ = kill_process(child, Signal::KILL);
            }
        }
        seen = now;
        thread::sleep(wait);
    }
}

/// Returns the names of control groups that this process has made.
fn groups() -> Vec<String> {
    let name = format!("overtake-{}-", std::process::id());
    let mut all = Vec::new();
    let mut folders = vec![Path::new("/sys/fs/cgroup").to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&name) {
                all.push(entry.path().display().to_string());
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    all
}

/// Flag that is set at the end of a scope, however it ends.
struct SetAtEnd<'f>(&'f AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Returns the number of descriptions of sandboxes that this process has left.
fn sandboxes() -> usize {
    let name = format!("overtake-gvisor-{}-", std::process::id());
    let is_ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&name);
    let bases = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten().filter(is_ours);
    let all = bases.flat_map(|base| fs::read_dir(base.path()).into_iter().flatten().flatten());
    all.filter(|sandbox| sandbox.path().join("config.json").exists()).count()
}

/// Waits until no worker is left and the process has no more than before.
fn settle(before: Option<Holdings>) -> Holdings {
    let begin = Instant::now();
    loop {
        let now = holdings();
        // A thread is listed for a moment after it was joined.
        let is_within = |before: Holdings| now.descriptors <= before.descriptors && now.threads <= before.threads;
        let is_settled = before.is_none_or(is_within) && now.children == 0 && groups().is_empty() && sandboxes() == 0;
        if is_settled || Duration::from_secs(5) < begin.elapsed() {
            return now;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn main() {
    let code = built(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let manifest = Arc::new(Manifest::parse(&code.manifest).expect("a manifest"));
    let runtimes = procs_worker::runtimes(WorkerConfig::default()).expect("a thread");
    for runtime in &runtimes {
        if let Availability::Missing(reason) = runtime.availability() {
            println!("SKIPPED: {}: {reason}", runtime.level());
            continue;
        }
        let artifact = Artifact::new(runtime.level().artifact(), code.executable.as_slice());
        let program = runtime.load(&artifact, &CodeTenant::alone(Tenant(10))).expect("an executable");
        for channel in runtime.level().channels() {
            let subject = Subject::new(runtime.level(), *channel, &program, &manifest);
            let run = || {
                let result = subject.run("many_calls", CALLS, Limits::default(), &mut engine(Kind::Int8.into()));
                let error = result.expect_err("it is killed");
                assert_eq!(error.state().0, "38000", "{error:?}");
            };
            let killed = |rounds| {
                let is_over = AtomicBool::new(false);
                thread::scope(|scope| {
                    scope.spawn(|| kill_children(&is_over, wait_bits(runtime.level())));
                    let _over = SetAtEnd(&is_over);
                    (0..rounds).for_each(|_| run());
                });
            };
            killed(20);
            thread::sleep(Duration::from_millis(50));
            let before = settle(None);
            let begin = Instant::now();
            let rounds = kills(runtime.level()) / runtime.level().channels().len() as u32;
            killed(rounds);
            let each = begin.elapsed() / rounds;
            let after = settle(Some(before));
            assert_eq!((after.descriptors, after.threads, after.children), (before.descriptors, before.threads, 0));
            // Arenas of the allocator come and go.
            assert!(after.mappings <= before.mappings + 8, "{before:?} {after:?}");
            assert_eq!(groups(), Vec::<String>::new());
            assert_eq!(sandboxes(), 0);
            println!("{}: {rounds} workers killed, {each:?} each; {after:?}", subject.name);
        }
    }
}
