//! Checks before a merge: `cargo xtask ci quick | full | nightly`.
//!
//! Each step is a command. The minutes of each are printed in the end, and the last line is `N passed, N failed`, by which a
//! CI server judges the run.

use crate::tidy::root;
use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use locked::Locked;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Options of `cargo xtask ci`.
#[derive(Parser)]
pub struct Ci {
    /// Extent of the checks.
    extent: Extent,
    /// Print the steps and do not run them.
    #[arg(long)]
    list: bool,
}

/// Extent of the checks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Extent {
    /// Format, lints and tests of the crates that do not compile DataFusion: for each change.
    Quick,
    /// Checks that must be green before a merge.
    Full,
    /// Full checks, and searches that find more the longer they run.
    Nightly,
}

/// Programs that tests call, with the Debian packages that have them.
const TOOLS: &[(&str, &str)] = &[
    ("chromium", "chromium"),
    ("psql", "postgresql-client"),
    ("pgbench", "postgresql"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("python3", "python3"),
    ("java", "default-jdk-headless"),
    ("patroni", "patroni"),
    ("etcd", "etcd-server"),
];

/// gVisor, whose `runsc` a level of isolation runs. Go's module proxy has it; Debian's package is older than the platform
/// `systrap`.
const RUNSC: &str = "gvisor.dev/gvisor/runsc@v0.0.0-20250523182742-eede7a881b20";

/// Seeds of random queries and of random texts before a merge. Nightly runs take another one each day.
const SEEDS: (u64, u64) = (23, 6);

/// Step of the checks.
enum CiStep {
    /// Installation of missing programs.
    Tools,
    /// Command with its arguments, and variables of its environment.
    Command(Vec<String>, Vec<(&'static str, &'static str)>),
    /// Check that no test reported that it was skipped.
    NothingSkipped,
}

/// Runs the checks, and ends the process if a step fails: its report is the last that is printed.
pub fn run(options: &Ci) {
    let steps = steps(options.extent);
    if options.list {
        for (name, step) in &steps {
            println!("{name:<14} {}", step.shown());
        }
        return;
    }
    let mut report = CiReport::new();
    let outcome = steps.iter().try_for_each(|(name, step)| report.step(name, step));
    if let Err(error) = &outcome {
        println!("\n=== {error:#}");
    }
    report.print(outcome.is_err());
    if outcome.is_err() {
        std::process::exit(1);
    }
}

/// Returns the steps in the order in which they are run. The steps that fail soonest come first.
fn steps(extent: Extent) -> Vec<(&'static str, CiStep)> {
    let command = |line: &str| CiStep::Command(line.split(' ').map(str::to_owned).collect(), Vec::new());
    let binary = target().join("release/overtake").display().to_string();
    let format = ("format", command("cargo fmt --all --check"));
    if extent == Extent::Quick {
        return vec![
            format,
            ("clippy", command("cargo clippy --all-targets -- -D warnings")),
            ("test", command("cargo test --no-fail-fast")),
        ];
    }
    let doc = command("cargo doc --no-deps --workspace --release").with(("RUSTDOCFLAGS", "-Dwarnings"));
    let mut steps = vec![
        ("tools", CiStep::Tools),
        format,
        // In release, because DataFusion is compiled in that profile only; the documentation uses the same metadata.
        ("clippy", command("cargo clippy --workspace --all-targets --release -- -D warnings")),
        ("doc", doc),
        // The command is the README's, word for word.
        ("test", command("cargo test --release --workspace --no-fail-fast")),
        ("skips", CiStep::NothingSkipped),
        ("shuttle", command("cargo test --release -p preempt -p sched -p engine --features shuttle --test shuttle")),
        ("plants", command("cargo xtask plants")),
        // This is the binary that the tests were built with: `cargo run` would ask cargo once more.
        ("smoke", command(&format!("{binary} bench delivery --duration 1"))),
        ("clients", command(&format!(".ci/clients/run {binary}"))),
    ];
    let (seeds, queries, seconds, texts) = match extent {
        Extent::Quick | Extent::Full => (SEEDS, 3_000, 60, "--texts 3000"),
        // One text in two thousand differs, within clauses that are refused here.
        Extent::Nightly => ((days(), days()), 100_000, 1_800, "--texts 100000 --failures 1000 --allowed 100"),
    };
    let search = format!(
        "cargo xtask differential --binary {binary} --seed {} --queries {queries} --seconds {seconds}",
        seeds.0
    );
    steps.push(("differential", command(&search)));
    steps.push(("grammar", command(&format!("cargo xtask grammar {texts} --seed {}", seeds.1))));
    steps
}

/// Returns cargo's target folder: outside the checkout, so that a fresh clone starts warm.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns the folder of programs that are compiled for the tests.
fn tools() -> PathBuf {
    target().join("tools")
}

/// Returns the file of gVisor's `runsc`.
fn runsc() -> PathBuf {
    std::env::var_os("OVERTAKE_RUNSC").map_or_else(|| tools().join("runsc"), PathBuf::from)
}

/// Returns the days since 1970.
fn days() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.as_secs() / 86_400
}

impl CiStep {
    fn with(self, variable: (&'static str, &'static str)) -> CiStep {
        match self {
            CiStep::Command(words, mut variables) => {
                variables.push(variable);
                CiStep::Command(words, variables)
            }
            other => other,
        }
    }

    fn shown(&self) -> String {
        match self {
            CiStep::Tools => "install what tests call".to_owned(),
            CiStep::NothingSkipped => "no test was skipped".to_owned(),
            CiStep::Command(words, variables) => {
                let variables = variables.iter().map(|(name, value)| format!("{name}={value} "));
                format!("{}{}", variables.collect::<String>(), words.join(" "))
            }
        }
    }
}

/// Results of the steps so far.
struct CiReport {
    began: Instant,
    /// Minutes of each step.
    minutes: Vec<(String, f64)>,
    passed: usize,
    failed: usize,
    /// Lines of output that say that a test did not run.
    skipped: Vec<String>,
}

impl CiReport {
    fn new() -> CiReport {
        CiReport { began: Instant::now(), minutes: Vec::new(), passed: 0, failed: 0, skipped: Vec::new() }
    }

    fn step(&mut self, name: &str, step: &CiStep) -> anyhow::Result<()> {
        println!("\n=== {name}: {}", step.shown());
        let began = Instant::now();
        let outcome = match step {
            CiStep::Tools => self.install_tools(),
            CiStep::Command(words, variables) => self.command(words, variables),
            CiStep::NothingSkipped => self.nothing_was_skipped(),
        };
        let minutes = began.elapsed().as_secs_f64() / 60.0;
        println!("=== {minutes:6.1} min  {name}");
        self.minutes.push((name.to_owned(), minutes));
        outcome.with_context(|| format!("the step {name} failed"))
    }

    /// Runs a command and reads what it prints, which is printed at once.
    fn command(&mut self, words: &[String], variables: &[(&str, &str)]) -> anyhow::Result<()> {
        let (program, arguments) = words.split_first().context("a command has a program")?;
        let mut child = Command::new(program)
            .args(arguments)
            .envs(variables.iter().copied())
            .env("CARGO_TERM_COLOR", "never")
            // A test that cannot run here fails instead of being skipped.
            .env("OVERTAKE_CI", "1")
            .env("OVERTAKE_RUNSC", runsc())
            .current_dir(root())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let readers = [
            child.stdout.take().map(|pipe| read(pipe, Arc::clone(&lines))),
            child.stderr.take().map(|pipe| read(pipe, Arc::clone(&lines))),
        ];
        for reader in readers.into_iter().flatten() {
            ensure!(reader.join().is_ok(), "its output could not be read");
        }
        let status = child.wait()?;
        for line in lines.locked().drain(..) {
            self.note(line);
        }
        ensure!(status.success(), "{status}");
        Ok(())
    }

    /// Counts the tests that a line of output reports.
    fn note(&mut self, line: String) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.passed += count(result, "passed");
            self.failed += count(result, "failed");
            if 0 < count(result, "ignored") {
                self.skipped.push(line);
            }
        } else if line.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == "SKIPPED") {
            self.skipped.push(line);
        }
    }

    fn nothing_was_skipped(&self) -> anyhow::Result<()> {
        ensure!(self.skipped.is_empty(), "these did not run:\n{}", self.skipped.join("\n"));
        println!("no test was skipped");
        Ok(())
    }

    /// Installs the programs that are missing, and compiles the one that no package has.
    fn install_tools(&mut self) -> anyhow::Result<()> {
        let is_here = |program: &str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
        };
        let missing: Vec<&str> =
            TOOLS.iter().filter(|(program, _)| !is_here(program)).map(|(_, package)| *package).collect();
        if missing.is_empty() {
            println!("all packages are here");
        } else {
            self.install_packages(&missing)?;
        }
        if !runsc().is_file() {
            let folder = tools().display().to_string();
            // Its sandbox has no file, so the program must be static.
            let variables = [("GOBIN", folder.as_str()), ("CGO_ENABLED", "0")];
            self.command(&["go", "install", RUNSC].map(str::to_owned), &variables)?;
        }
        Ok(())
    }

    /// Installs packages of Debian.
    fn install_packages(&mut self, missing: &[&str]) -> anyhow::Result<()> {
        let words = |line: &str| -> Vec<String> {
            let is_root = rustix::process::geteuid().is_root();
            let line = if is_root { line.to_owned() } else { format!("sudo {line}") };
            line.split(' ').map(str::to_owned).collect()
        };
        self.command(&words("apt-get update -q"), &[])?;
        let install = format!("apt-get install -y -q --no-install-recommends {}", missing.join(" "));
        self.command(&words(&install), &[])
    }

    fn print(&self, has_failed: bool) {
        println!();
        for (name, minutes) in &self.minutes {
            println!("{minutes:6.1} min  {name}");
        }
        println!("{:6.1} min  in all", self.began.elapsed().as_secs_f64() / 60.0);
        // A step that fails without a failed test (formatting, a lint, a build) counts as one.
        let failed = if has_failed { self.failed.max(1) } else { self.failed };
        println!("\n{} passed, {failed} failed", self.passed);
    }
}

/// Returns the number before a word: `12 passed; 0 failed`.
fn count(result: &str, word: &str) -> usize {
    let words: Vec<&str> = result.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

/// Prints the lines of a pipe and keeps them, on a thread of its own.
fn read(pipe: impl std::io::Read + Send + 'static, lines: Arc<Mutex<Vec<String>>>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            let _ = writeln!(std::io::stdout(), "{line}");
            lines.locked().push(line);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{CiReport, CiStep, Extent, steps};

    #[test]
    fn results_of_tests_are_counted() {
        let mut report = CiReport::new();
        report.note("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out".to_owned());
        report.note("test result: FAILED. 4 passed; 2 failed; 1 ignored; 0 measured".to_owned());
        report.note("SKIPPED: no KVM".to_owned());
        assert_eq!((report.passed, report.failed, report.skipped.len()), (16, 2, 2));
        assert!(report.nothing_was_skipped().is_err());
    }

    /// Goal: the README names the command by which CI runs the tests.
    #[test]
    fn full_runs_the_command_of_the_readme() {
        let readme = std::fs::read_to_string(crate::tidy::root().join("README.md")).unwrap();
        let steps = steps(Extent::Full);
        let is_in_readme = |step: &CiStep| readme.contains(&step.shown());
        assert!(steps.iter().any(|(name, step)| *name == "test" && is_in_readme(step)));
    }

    #[test]
    fn a_failed_command_fails_the_step() {
        let mut report = CiReport::new();
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        report.command(&words("true"), &[]).unwrap();
        report.command(&words("false"), &[]).unwrap_err();
        report.command(&words("no-such-program"), &[]).unwrap_err();
    }
}
