//! Code that attacks the host. The table of what happens is printed.

use crate::{processes, subjects};
use procs::{Channel, Level, Limits};
use procs_conformance::{Subject, engine};
use procs_worker::has_groups;
use statement::error::SqlError;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};
use types::Kind;

/// Attack, and what is expected at a level.
type Attack = (&'static str, fn(&Subject) -> Result<String, String>);

fn told(error: &SqlError) -> String {
    format!("{} {}", error.state().0, error.message())
}

/// Returns the error if it is of one of these states.
fn ends_with(states: &[&str], result: Result<i64, SqlError>) -> Result<String, String> {
    match result {
        Err(error) if states.contains(&error.state().0) => Ok(told(&error)),
        Err(error) => Err(format!("expected {states:?}: {error:?}")),
        Ok(value) => Err(format!("expected {states:?}: {value}")),
    }
}

fn run(subject: &Subject, entry: &str, argument: i64, limits: Limits) -> Result<i64, SqlError> {
    subject.run(entry, argument, limits, &mut engine(Kind::Int8.into()))
}

fn forged_handles(subject: &Subject) -> Result<String, String> {
    (0..5).try_fold(String::new(), |_, kind| ends_with(&["39000"], run(subject, "forge", kind, Limits::default())))
}

fn unknown_entry(subject: &Subject) -> Result<String, String> {
    let mut instance = subject.open(&Limits::default()).map_err(|error| told(&error))?;
    let invocation =
        procs::Invocation { entry: 9_999, rows: &[], arguments: &[], result: &[], limits: Limits::default() };
    ends_with(&["39000"], instance.invoke(&invocation, &mut engine(Kind::Int8.into())).map(|rows| rows.len() as i64))
}

/// Cancels an entry that does not end. Measures how long it goes on.
fn cancelled(subject: &Subject, entry: &str) -> Result<String, String> {
    let mut engine = engine(Kind::Int8.into());
    let is_cancelled = Arc::clone(&engine.is_cancelled);
    let mut instance = subject.open(&Limits::default()).map_err(|error| told(&error))?;
    let canceller = thread::spawn(move || {
        thread::sleep(Duration::from_millis(60));
        is_cancelled.store(true, Relaxed);
        Instant::now()
    });
    let types = (Kind::Int8.into(), Kind::Int8.into());
    let arguments = [types::datum::Datum::Int8(1)];
    let result = subject.invoke(&mut *instance, entry, &arguments, types, Limits::default(), &mut engine);
    drop(instance);
    let ended = Instant::now();
    let late = ended.saturating_duration_since(canceller.join().map_err(|_| "no canceller")?);
    if Duration::from_millis(100) < late {
        return Err(format!("it went on for {late:?}"));
    }
    ends_with(&["57014"], result.map(|rows| rows.len() as i64))
}

fn endless_loop(subject: &Subject) -> Result<String, String> {
    cancelled(subject, "endless")
}

fn endless_calls(subject: &Subject) -> Result<String, String> {
    cancelled(subject, "endless_calls")
}

fn time_limit(subject: &Subject) -> Result<String, String> {
    let limits = Limits { time: Some(Duration::from_millis(50)), ..Limits::default() };
    ends_with(&["57014"], run(subject, "endless", 0, limits))?;
    ends_with(&["57014"], run(subject, "endless_calls", 0, limits))
}

fn memory_bomb(subject: &Subject) -> Result<String, String> {
    let limits = Limits { memory: 48 << 20, ..Limits::default() };
    // Without control groups, only an allocation is refused, and the code decides what becomes of it.
    let states: &[&str] = if subject.level == Level::Wasm { &["53200"] } else { &["53200", "38000"] };
    ends_with(states, run(subject, "memory_bomb", 0, limits))
}

fn stack_bomb(subject: &Subject) -> Result<String, String> {
    ends_with(&["38000"], run(subject, "stack_bomb", 0, Limits::default()))
}

fn fork_bomb(subject: &Subject) -> Result<String, String> {
    match subject.level {
        Level::Wasm => ends_with(&["0A000"], run(subject, "fork_bomb", 0, Limits::default())),
        // Without control groups, processes outside of containers have no limit of their own.
        Level::Process if !has_groups() => Ok("not limited".to_owned()),
        _ => match run(subject, "fork_bomb", 0, Limits::default()) {
            Ok(children) if children < 64 => Ok(format!("{children} children, then no more")),
            // The kernel of a sandbox ends when its group has no thread left for it.
            Err(error) if subject.level == Level::Gvisor && error.state().0 == "38000" => Ok(told(&error)),
            other => Err(format!("{other:?}")),
        },
    }
}

fn descriptors(subject: &Subject) -> Result<String, String> {
    match run(subject, "descriptors", 0, Limits::default()) {
        Ok(count) if subject.level != Level::Wasm && count < 64 => Ok(format!("{count} files, then no more")),
        Err(error) if subject.level == Level::Wasm => Ok(told(&error)),
        other => Err(format!("{other:?}")),
    }
}

/// Asks the code for something of the host. It gets it only at the level `process`.
fn asked(subject: &Subject, entry: &str, argument: &str) -> Result<String, String> {
    let answer = subject.ask(entry, argument, &mut engine(Kind::Int8.into())).map_err(|error| told(&error))?;
    let is_refused = answer.starts_with("refused: ");
    if is_refused == (subject.level != Level::Process) { Ok(answer) } else { Err(answer) }
}

fn host_file(subject: &Subject) -> Result<String, String> {
    asked(subject, "host_files", "/etc/passwd").map(|answer| answer.chars().take(40).collect())
}

/// Asks the code for something that a kernel of its own has as well.
fn asked_kernel(subject: &Subject, argument: &str) -> Result<String, String> {
    if subject.level != Level::Gvisor {
        return asked(subject, "host_files", argument);
    }
    subject.ask("host_files", argument, &mut engine(Kind::Int8.into())).map_err(|error| told(&error))
}

fn writes_file(subject: &Subject) -> Result<String, String> {
    const PATH: &str = "/tmp/overtake-conformance";
    let _ = std::fs::remove_file(PATH);
    let answer = asked_kernel(subject, &format!("write {PATH}"))?;
    let is_written = std::path::Path::new(PATH).exists();
    if is_written == (subject.level == Level::Process) { Ok(answer) } else { Err(format!("{answer}: {is_written}")) }
}

fn process_files(subject: &Subject) -> Result<String, String> {
    let answer =
        asked_kernel(subject, "/proc/self/status").map(|answer| answer.chars().take(30).collect::<String>())?;
    // A process of the host is not called so.
    let is_own = subject.level != Level::Gvisor || answer.contains("worker");
    if is_own { Ok(answer) } else { Err(answer) }
}

fn environment(subject: &Subject) -> Result<String, String> {
    let answer = subject.ask("host_files", "environment", &mut engine(Kind::Int8.into()));
    if subject.level == Level::Wasm {
        // There is none, so the guest's library panics.
        return ends_with(&["38000"], answer.map(|_| 0));
    }
    let answer = answer.map_err(|error| told(&error))?;
    let mut names: Vec<&str> = answer.trim_start_matches("ok:").split_whitespace().collect();
    names.sort_unstable();
    names.retain(|name| subject.level != Level::Gvisor || *name != "HOME");
    if names == ["LANG", "OVERTAKE_CHANNEL", "PATH"] { Ok(answer) } else { Err(answer) }
}

fn network(subject: &Subject) -> Result<String, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    asked(subject, "host_network", &address.to_string())
}

fn processes_of_host(subject: &Subject) -> Result<String, String> {
    asked(subject, "host_processes", "")
}

fn crash(subject: &Subject) -> Result<String, String> {
    match subject.level {
        Level::Wasm => ends_with(&["38000"], run(subject, "leaves", 3, Limits::default())),
        // The kernel keeps the first process of a namespace from killing itself by a signal.
        Level::Container => ends_with(&["38000"], run(subject, "leaves", 0, Limits::default())),
        _ => {
            ends_with(&["38000"], run(subject, "leaves", 0, Limits::default()))?;
            ends_with(&["38000"], run(subject, "dies_by_signal", 6, Limits::default()))?;
            ends_with(&["38000"], run(subject, "dies_by_signal", 9, Limits::default()))
        }
    }
}

const ATTACKS: &[Attack] = &[
    ("forged handles", forged_handles),
    ("unknown entry", unknown_entry),
    ("endless loop, cancelled", endless_loop),
    ("endless calls, cancelled", endless_calls),
    ("time limit", time_limit),
    ("memory bomb", memory_bomb),
    ("stack bomb", stack_bomb),
    ("fork bomb", fork_bomb),
    ("all descriptors", descriptors),
    ("reads a host file", host_file),
    ("writes a host file", writes_file),
    ("reads /proc", process_files),
    ("reads the environment", environment),
    ("connects to the host", network),
    ("runs a program of the host", processes_of_host),
    ("crash", crash),
];

/// Results of one attack, by the names of subjects.
type Results<'a> = Vec<(&'a str, &'a Result<String, String>)>;

/// Prints a table of attacks and levels. Returns the failures.
pub(crate) fn table(all: &[(&str, String, Result<String, String>)]) -> Vec<String> {
    let mut rows: BTreeMap<&str, Results<'_>> = BTreeMap::new();
    for (attack, subject, result) in all {
        rows.entry(attack).or_default().push((subject, result));
    }
    println!("attack x level");
    for (attack, results) in rows {
        println!("{attack}:");
        for (subject, result) in results {
            println!(
                "    {subject:<28} {}",
                result.as_deref().map_or_else(|error| format!("FAILED {error}"), str::to_owned)
            );
        }
    }
    all.iter()
        .filter_map(|(attack, subject, result)| Some(format!("{attack}, {subject}: {}", result.as_ref().err()?)))
        .collect()
}

#[test]
fn attacks_end_where_they_must() {
    let mut all = Vec::new();
    for (name, attack) in ATTACKS {
        for subject in subjects() {
            all.push((*name, subject.name.clone(), attack(subject)));
        }
    }
    let failures = table(&all);
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(
        !std::path::Path::new("/tmp/overtake-conformance").exists()
            || std::fs::remove_file("/tmp/overtake-conformance").is_ok()
    );
}

#[test]
fn a_worker_has_four_descriptors() {
    for subject in processes() {
        let open = subject.ask("open_files", "", &mut engine(Kind::Int8.into())).expect(&subject.name);
        // The doorbell of a kernel of its own.
        let has_bell = subject.level == Level::Gvisor && subject.channel == Channel::SharedMemory;
        assert_eq!(open, if has_bell { "0 1 2 3 4" } else { "0 1 2 3" }, "{}", subject.name);
    }
}

/// Goal: a process that leaves its worker's session ends with it. In a container, the kernel sees to that.
#[test]
fn no_process_outlives_its_worker() {
    for subject in processes().filter(|subject| subject.level == Level::Process) {
        if !has_groups() {
            println!("SKIPPED: {} without control groups", subject.name);
            continue;
        }
        let child = run(subject, "daemon", 0, Limits::default()).expect("a child");
        // A zombie has ended; whoever is its parent now may not want to know.
        let runs = || {
            let state = std::fs::read_to_string(format!("/proc/{child}/stat"));
            state.is_ok_and(|state| !state.contains(") Z "))
        };
        let begin = Instant::now();
        while runs() {
            assert!(begin.elapsed() < Duration::from_secs(5), "{}", subject.name);
            thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn a_container_is_closed() {
    for subject in processes().filter(|subject| subject.level == Level::Container) {
        let mut engine = engine(Kind::Int8.into());
        let allowed = subject.ask("forbidden_calls", "", &mut engine).expect(&subject.name);
        assert_eq!(allowed, "", "{}", subject.name);
        let identity = subject.ask("identity", "", &mut engine).expect(&subject.name);
        let expected = "process 1, user 65534, root [\"dev\", \"worker\"], folder made: false";
        assert_eq!(identity, expected, "{}", subject.name);
    }
}

#[test]
fn workers_of_a_tenant_are_limited() {
    for subject in processes() {
        let mut all = Vec::new();
        let error = loop {
            match subject.open(&Limits::default()) {
                Ok(instance) => all.push(instance),
                Err(error) => break error,
            }
        };
        assert_eq!(
            (all.len(), told(&error).as_str()),
            (64, "53000 too many workers of one tenant"),
            "{}",
            subject.name
        );
        assert_eq!(error.detail_text(), Some("The limit is 64."));
        all.truncate(60);
        // Their places are free as soon as they are reaped.
        let begun = Instant::now();
        while subject.open(&Limits::default()).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", subject.name);
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Goal: a worker that computes when it has nothing to do is ended, and an idle one stays.
#[test]
fn a_worker_that_computes_on_is_ended() {
    // Code in a virtual machine has no threads.
    let subjects: Vec<&Subject> = processes().filter(|subject| subject.level != Level::Vm).collect();
    let types = (Kind::Int8.into(), Kind::Int8.into());
    let opened = |entry: &str| -> Vec<_> {
        let open = |subject: &&Subject| {
            let mut instance = subject.open(&Limits::default()).expect(&subject.name);
            let mut engine = engine(Kind::Int8.into());
            let argument = [types::datum::Datum::Int8(1)];
            let rows = subject.invoke(&mut *instance, entry, &argument, types, Limits::default(), &mut engine);
            assert_eq!(rows.expect(&subject.name), [[types::datum::Datum::Int8(1)]], "{}", subject.name);
            instance
        };
        subjects.iter().map(open).collect()
    };
    let (idle, busy) = (opened("echo"), opened("lingers"));
    let begun = Instant::now();
    while busy.iter().any(|instance| instance.is_alive()) {
        assert!(begun.elapsed() < Duration::from_secs(120), "they go on");
        thread::sleep(Duration::from_millis(100));
    }
    assert!(idle.iter().all(|instance| instance.is_alive()));
}
