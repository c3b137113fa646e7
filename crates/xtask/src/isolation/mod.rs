//! `cargo xtask isolation`: PostgreSQL's isolation suite, unmodified. Each spec is played as PostgreSQL's own
//! isolationtester plays it, and its output is compared byte for byte with the expected ones.
//!
//! **Invariant:** `known.tsv` names each spec that is not equal, with the reason. A spec that changes, for better or for
//! worse, fails the run until the list says so.

mod connection;
mod known;
mod play;
mod print;
mod spec;

use crate::server::{self, Server};
use crate::wire::Address;
use anyhow::{Context, ensure};
use known::KnownDifferences;
use locked::Locked;
use play::Played;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// PostgreSQL's isolation suite.
#[derive(clap::Args)]
pub struct Isolation {
    /// Folder `src/test/isolation` of PostgreSQL 15's sources
    #[arg(long)]
    suite: PathBuf,
    /// Server to play on, `host=… port=… user=… dbname=…`; every spec must be equal there. By default each spec has a
    /// server of its own, and `known.tsv` says which are equal
    #[arg(long)]
    url: Option<String>,
    /// Binary to test; by default `overtake` is built in release
    #[arg(long, conflicts_with = "url")]
    binary: Option<PathBuf>,
    /// Specs at once
    #[arg(long, default_value_t = 3, conflicts_with = "url")]
    jobs: usize,
    /// Seconds after which a step that does not block counts as stuck
    #[arg(long, default_value_t = 30)]
    step_seconds: u64,
    /// Folder for the outputs of specs that are not equal
    #[arg(long)]
    out: Option<PathBuf>,
    /// Specs to play; by default all of the suite's `isolation_schedule`
    specs: Vec<String>,
}

/// Result of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SpecOutcome {
    Equal,
    /// The server refused a feature or a name, with this message.
    Refused(String),
    /// The output differs: this many permutations of all are equal.
    Differs {
        equal: usize,
        of: usize,
    },
}

impl std::fmt::Display for SpecOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SpecOutcome::Equal => write!(f, "equal"),
            SpecOutcome::Refused(message) => write!(f, "refused\t{message}"),
            SpecOutcome::Differs { equal, of } => write!(f, "differs\t{equal}/{of}"),
        }
    }
}

/// SQLSTATEs for missing features, functions, types and settings, columns.
const REFUSED: [&str; 4] = ["0A000", "42883", "42704", "42703"];

/// Compares the output of a played spec with the expected outputs.
fn judge(played: &Played, expected: &[String]) -> SpecOutcome {
    if expected.contains(&played.output) {
        return SpecOutcome::Equal;
    }
    let is_expected = |message: &str| expected.iter().any(|text| text.contains(message));
    let refusal = |error: &&print::Message| REFUSED.contains(&&*error.state) && !is_expected(&error.primary);
    if let Some(error) = played.errors.iter().find(refusal) {
        return SpecOutcome::Refused(error.primary.clone());
    }
    let parts = |text: &str| text.split("\nstarting permutation:").skip(1).map(str::to_owned).collect::<Vec<_>>();
    let found = parts(&played.output);
    let counts = expected.iter().map(|text| {
        let wanted = parts(text);
        (wanted.iter().zip(&found).filter(|(wanted, found)| wanted == found).count(), wanted.len())
    });
    let (equal, of) = counts.max_by_key(|(equal, _)| *equal).unwrap_or_default();
    SpecOutcome::Differs { equal, of }
}

/// Returns the expected outputs of a spec: `NAME.out`, `NAME_1.out`, `NAME_2.out` and so on.
fn expected(suite: &Path, name: &str) -> anyhow::Result<Vec<String>> {
    let mut texts = Vec::new();
    for variant in std::iter::once(String::new()).chain((0..10).map(|at| format!("_{at}"))) {
        let path = suite.join(format!("expected/{name}{variant}.out"));
        if path.exists() {
            texts.push(fs::read_to_string(&path)?);
        }
    }
    ensure!(!texts.is_empty(), "{name} has no expected output");
    Ok(texts)
}

/// Returns the names of the suite's schedule.
fn schedule(suite: &Path) -> anyhow::Result<Vec<String>> {
    let path = suite.join("isolation_schedule");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let names = text.lines().filter_map(|line| line.strip_prefix("test:")).flat_map(str::split_whitespace);
    Ok(names.map(str::to_owned).collect())
}

/// Server on which specs are played.
enum SpecServer {
    /// Separate server for each spec.
    Own(PathBuf),
    Other(Address),
}

fn play_one(options: &Isolation, target: &SpecServer, name: &str) -> anyhow::Result<SpecOutcome> {
    let path = options.suite.join(format!("specs/{name}.spec"));
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let spec = spec::parse(&text).with_context(|| path.display().to_string())?;
    let expected = expected(&options.suite, name)?;
    let own: Option<Server> = match target {
        SpecServer::Own(binary) => Some(server::overtake(binary, None)?),
        SpecServer::Other(_) => None,
    };
    let address = match (target, &own) {
        (SpecServer::Other(address), _) => address,
        (SpecServer::Own(_), own) => &own.as_ref().context("the spec has a server")?.address,
    };
    let played = play::play(&spec, name, address, Duration::from_secs(options.step_seconds));
    let outcome = judge(&played, &expected);
    if let Some(folder) = &options.out
        && outcome != SpecOutcome::Equal
    {
        fs::write(folder.join(format!("{name}.out")), &played.output)?;
    }
    Ok(outcome)
}

/// Runs the command.
///
/// # Errors
/// If the suite cannot be read, or a spec has another outcome than the list says.
pub fn run(options: &Isolation) -> anyhow::Result<()> {
    let names = if options.specs.is_empty() { schedule(&options.suite)? } else { options.specs.clone() };
    let target = match (&options.url, &options.binary) {
        (Some(url), _) => SpecServer::Other(Address::read(url)?),
        (None, Some(binary)) => SpecServer::Own(binary.clone()),
        (None, None) => SpecServer::Own(server::build(false)?),
    };
    if let Some(folder) = &options.out {
        fs::create_dir_all(folder)?;
    }
    let known = match target {
        SpecServer::Own(_) => KnownDifferences::read()?,
        SpecServer::Other(_) => KnownDifferences::default(),
    };
    // Specs use the same names of tables, so on a shared server they cannot run side by side.
    let jobs = if options.url.is_some() { 1 } else { options.jobs.clamp(1, names.len().max(1)) };
    let next = Mutex::new(names.iter());
    let outcomes = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        let workers = (0..jobs).map(|_| {
            scope.spawn(|| -> anyhow::Result<()> {
                loop {
                    let name = next.locked().next();
                    let Some(name) = name else { return Ok(()) };
                    let outcome = play_one(options, &target, name)?;
                    println!("{name}\t{outcome}");
                    outcomes.locked().insert(name.clone(), outcome);
                }
            })
        });
        let workers: Vec<_> = workers.collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    let outcomes = outcomes.into_inner().expect("no worker panics with it");
    let count = |is: fn(&SpecOutcome) -> bool| outcomes.values().filter(|outcome| is(outcome)).count();
    println!(
        "\n{} of {} specs are equal, {} need what is refused, {} differ",
        count(|outcome| *outcome == SpecOutcome::Equal),
        outcomes.len(),
        count(|outcome| matches!(outcome, SpecOutcome::Refused(_))),
        count(|outcome| matches!(outcome, SpecOutcome::Differs { .. })),
    );
    let changes = known.changes(&outcomes, options.specs.is_empty());
    ensure!(changes.is_empty(), "{} specs are not as known.tsv says:\n{}", changes.len(), changes.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::print::Message;
    use super::{Played, SpecOutcome, judge};

    fn played(output: &str, errors: &[(&str, &str)]) -> Played {
        let error = |(state, primary): &(&str, &str)| Message {
            state: (*state).to_owned(),
            primary: (*primary).to_owned(),
            ..Message::default()
        };
        Played { output: output.to_owned(), errors: errors.iter().map(error).collect() }
    }

    #[test]
    fn outcomes_are_told_apart() {
        let one = "Parsed\n\nstarting permutation: a\nERROR:  x\n\nstarting permutation: b\ny\n";
        let other = one.replace("\ny", "\nz");
        let expected = [one.to_owned(), other.clone()];
        assert_eq!(judge(&played(&other, &[]), &expected), SpecOutcome::Equal);
        let output = one.replace("\ny", "\nw");
        assert_eq!(judge(&played(&output, &[("0A000", "x")]), &expected), SpecOutcome::Differs { equal: 1, of: 2 });
        assert_eq!(judge(&played(&output, &[("42883", "no f")]), &expected), SpecOutcome::Refused("no f".to_owned()));
        assert_eq!(judge(&played(&output, &[("40001", "no f")]), &expected), SpecOutcome::Differs { equal: 1, of: 2 });
    }
}
