//! Runner of integration tests, each in a process of its own: once plain, and, if its subject is in that process, once
//! under a storm of interrupts.
//!
//! Signals are a property of a process, so tests that use them must not share one. A test binary (`harness = false`)
//! calls [`main`] with its tests; without arguments it re-executes itself for every run of a test. In the storm the
//! test's own thread is a registered worker, and a thread interrupts one of all registered workers, chosen at random,
//! 1,000 times a second; every interrupt allocates and frees in its urgent context. The counts are printed, and fewer
//! than 500 a second is a failure: the storm would prove nothing. (Not if all the storms together were so short that
//! the rate is chance, as when one short test is chosen.)
//!
//! The output of a test that passed is not shown, except for the lines that contain `SKIPPED`.
//!
//! A test that must end its process is a *case*: it runs only when a test asks for it by [`run_case`].

pub mod script;
mod storm;

/// Temporary folder that is removed when the value is dropped.
pub use tempfile::TempDir;

use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[global_allocator]
static HEAP: preempt::Heap = preempt::Heap::HEAP;

/// Time limit of a test; a longer one counts as hung.
const TEST_TIME_MAX: Duration = Duration::from_secs(300);
/// Number of tests of [`Runs::Beside`] that run at a time.
const BESIDE_COUNT: usize = 2;
/// Time from which on a test's time is printed.
const LONG: Duration = Duration::from_secs(1);
/// Least rate of interrupts per second, over all tests of a run; a lower one fails the run.
const STORM_RATE_MIN: f64 = 500.0;
/// Total length of storms below which their rate is not judged.
const STORM_TIME_MIN: Duration = Duration::from_millis(500);
/// Word that marks a line to be printed even if the test passed.
const SKIPPED: &str = "SKIPPED";

/// Times at which a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// Once plain and once in a storm.
    PlainAndStorm,
    /// Once plain: no registered worker runs what is tested, so a storm would prove nothing.
    Plain,
    /// The same, beside another such test: nothing in it depends on the time that something takes.
    Beside,
    /// Only when a test asks for it by [`run_case`].
    WhenAsked,
}

/// A test, or a case that a test runs by [`run_case`]. Create it by [`test!`], [`plain!`], [`beside!`] or [`case!`].
pub struct Test {
    /// Path below the test binary.
    pub name: &'static str,
    /// Body of the test, which panics on failure.
    pub run: fn(),
    /// Times at which the test runs.
    pub runs: Runs,
}

/// A test whose subject runs on workers in its process: `testkit::test!(module::function)`.
#[macro_export]
macro_rules! test {
    ($path:path) => {
        $crate::Test { name: stringify!($path), run: $path, runs: $crate::Runs::PlainAndStorm }
    };
}

/// A test of other processes, or of the proxy, which has no workers: `testkit::plain!(module::function)`.
#[macro_export]
macro_rules! plain {
    ($path:path) => {
        $crate::Test { name: stringify!($path), run: $path, runs: $crate::Runs::Plain }
    };
}

/// A test like those of [`plain!`] whose outcome no load of the machine changes: `testkit::beside!(module::function)`.
#[macro_export]
macro_rules! beside {
    ($path:path) => {
        $crate::Test { name: stringify!($path), run: $path, runs: $crate::Runs::Beside }
    };
}

/// A case that ends its process: `testkit::case!(module::function)`.
#[macro_export]
macro_rules! case {
    ($path:path) => {
        $crate::Test { name: stringify!($path), run: $path, runs: $crate::Runs::WhenAsked }
    };
}

/// Runs the case `name` of this test binary in a process of its own and returns its status and output.
pub fn run_case(name: &str) -> Output {
    let program = std::env::current_exe().expect("a running program has a path");
    Command::new(program).args(["--exec", name]).output().expect("the test binary can be started")
}

/// The main function of a test binary. Accepts cargo's usual arguments: words filter by name, `--list` lists.
pub fn main(package: &str, tests: &[Test]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [exec, name, rest @ ..] = arguments.as_slice()
        && exec == "--exec"
    {
        let test = tests.iter().find(|test| test.name == name).unwrap_or_else(|| panic!("no test is named {name}"));
        preempt::self_test().expect("a test process allocates through the guard");
        match rest.first() {
            Some(flag) if flag == "--storm" => storm::run(test.run),
            _ => (test.run)(),
        }
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let chosen: Vec<&Test> = tests
        .iter()
        .filter(|test| test.runs != Runs::WhenAsked)
        .filter(|test| filters.is_empty() || filters.iter().any(|f| test.name.contains(f.as_str())))
        .collect();
    if arguments.iter().any(|argument| argument == "--list") {
        chosen.iter().for_each(|test| println!("{}: test", test.name));
        return ExitCode::SUCCESS;
    }
    run_all(package, &chosen)
}

fn run_all(package: &str, tests: &[&Test]) -> ExitCode {
    let storm_count = tests.iter().filter(|test| test.runs == Runs::PlainAndStorm).count();
    println!("\nrunning {} tests of {package}, {storm_count} also under 1,000 interrupts per second", tests.len());
    let began = Instant::now();
    let report = Mutex::new(RunReport::default());
    let (beside, alone): (Vec<&Test>, Vec<&Test>) = tests.iter().partition(|test| test.runs == Runs::Beside);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..BESIDE_COUNT {
            scope.spawn(|| {
                while let Some(test) = beside.get(next.fetch_add(1, Relaxed)) {
                    run_and_report(test, false, &report);
                }
            });
        }
    });
    for test in alone {
        run_and_report(test, false, &report);
        if test.runs == Runs::PlainAndStorm {
            run_and_report(test, true, &report);
        }
    }
    let RunReport { passed, mut failed, storms } = report.into_inner().expect("no test panics in this process");
    // The rate is judged over all storms together: those of single tests are short.
    if storm_count > 0 && failed.is_empty() {
        println!("storm of {package}: {storms}");
        if is_too_calm(&storms) {
            let rate = storms.per_second();
            let why = format!("the storm reached {rate:.0} interrupts per second, fewer than {STORM_RATE_MIN}\n");
            failed.push(("storm rate".into(), why));
        }
    }
    for (label, output) in &failed {
        println!("\n---- {label} ----\n{output}");
    }
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "\ntest result: {verdict}. {passed} passed; {} failed; 0 ignored; 0 measured; 0 filtered out; finished in {seconds:.2}s\n",
        failed.len()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Outcomes of the tests so far.
#[derive(Default)]
struct RunReport {
    passed: usize,
    /// Labels and outputs.
    failed: Vec<(String, String)>,
    storms: storm::Counts,
}

/// Runs one test, prints its line and adds its outcome.
fn run_and_report(test: &Test, storm: bool, report: &Mutex<RunReport>) {
    let label = format!("{}{}", test.name, if storm { " (storm)" } else { "" });
    let began = Instant::now();
    let outcome = run_one(test.name, storm);
    let took = began.elapsed();
    let mut report = report.lock().expect("no test panics in this process");
    match outcome {
        Ok(output) => {
            let counts = storm::Counts::find(&output);
            report.storms.add(&counts);
            let shown = if took < LONG { String::new() } else { format!("  [{:.1} s]", took.as_secs_f64()) };
            let counts = if storm { format!("  [{counts}]") } else { String::new() };
            println!("test {label} ... ok{counts}{shown}");
            output.lines().filter(|line| line.contains(SKIPPED)).for_each(|line| println!("{line}"));
            report.passed += 1;
        }
        Err(output) => {
            println!("test {label} ... FAILED");
            report.failed.push((label, output));
        }
    }
    let _ = std::io::stdout().flush();
}

/// Returns true if the storm lasted long enough to be judged, and interrupted too rarely.
fn is_too_calm(storm: &storm::Counts) -> bool {
    STORM_TIME_MIN <= storm.lasted() && storm.per_second() < STORM_RATE_MIN
}

/// Runs one test in a process of its own. Both results carry the test's output.
fn run_one(name: &str, storm: bool) -> Result<String, String> {
    let program = std::env::current_exe().expect("a running program has a path");
    let mut command = Command::new(program);
    command.args(["--exec", name]).args(storm.then_some("--storm")).stdin(Stdio::null());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("the test process could not be started: {error}"))?;
    let readers = [reader(child.stdout.take()), reader(child.stderr.take())];
    // The watchdog learns of the end by the drop of `ended`, so it need not poll.
    let id = child.id();
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let hung = end.recv_timeout(TEST_TIME_MAX) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
        if hung {
            let _ = Command::new("kill").args(["-ABRT", &id.to_string()]).status();
        }
        hung
    });
    let status = child.wait().map_err(|error| error.to_string())?;
    drop(ended);
    let hung = watchdog.join().expect("the watchdog does not panic");
    let output: String = readers.into_iter().map(|reader| reader.join().expect("a reader does not panic")).collect();
    if status.success() {
        Ok(output)
    } else if hung {
        Err(format!("{output}\nhung: killed after {} s", TEST_TIME_MAX.as_secs()))
    } else {
        Err(format!("{output}\nended with {status}"))
    }
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Creates an empty folder `overtake-NAME-…` that no other process has ever had; other users may look into it.
///
/// A name made of the process ID alone would recur, and a killed test leaves its folder behind.
///
/// # Panics
/// When the temporary directory cannot be written.
pub fn folder(name: &str) -> TempDir {
    let prefix = format!("overtake-{name}-");
    tempfile::Builder::new()
        .prefix(&prefix)
        .permissions(Permissions::from_mode(0o755))
        .tempdir()
        .expect("the temporary directory can be written")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_storm_that_lasted_can_be_too_calm() {
        let storm =
            |sent: u64, millis: u64| storm::Counts::find(&format!("\nstorm-counts {sent} 0 0 {}\n", millis * 1_000));
        assert!(is_too_calm(&storm(249, 500)));
        assert!(!is_too_calm(&storm(250, 500)));
        assert!(!is_too_calm(&storm(0, 499)));
    }
}
