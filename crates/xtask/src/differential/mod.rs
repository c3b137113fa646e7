//! `cargo xtask differential`: random queries, each on the row path, on the analytics path, and on PostgreSQL 15. Every
//! difference is a fault: of Overtake, or of the generator, which may ask only for results with a single right answer.
//!
//! **Invariant:** a query is a function of the seed, its index and the catalog. `--seed N --only K` is the same query
//! again.
//!
//! It stands in `xtask` and speaks the protocol itself: it needs no other crate, so it builds in seconds, and no part
//! of the product can make it blind to the product's own mistakes.

mod aggregates;
mod ast;
mod catalog;
mod compare;
mod exprs;
mod hints;
mod lateral;
mod operators;
mod queries;
mod rng;
pub use rng::Rng;
mod schema;
mod shapes;
mod shrink;
mod totals;
mod types;

use crate::server;
use crate::wire::{Address, QueryAnswer, WireClient};
use anyhow::{Context, ensure};
use ast::QueryTree;
use catalog::Catalog;
use compare::{Difference, compare, describe};
use locked::{Locked, LockedResult};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Callables that are not tried, with the reason of each.
const KNOWN: &str = include_str!("known.tsv");

/// Planted bugs, each a fault that once was there: `sql::plants` and `olap` look for these names.
const PLANTS: [&str; 17] = [
    "same_call_merged",
    "unused_output_raises",
    "guard_ignored",
    "having_of_total_lost",
    "array_append_null",
    "filter_below_grouping_sets",
    "offset_under_sort",
    "srf_under_distinct_on",
    "char_padding_lost",
    "empty_aggregate_null",
    "interval_format_wide",
    "lists_lose_nulls",
    "mode_of_varchar_is_text",
    "nested_cast_label",
    "recursion_looks_nowhere",
    "uuids_are_equal",
    "value_of_no_rows_lost",
];

/// Random queries on both paths and on PostgreSQL 15.
#[derive(clap::Args)]
pub struct Differential {
    /// Seed of the queries; the time of day by default
    #[arg(long)]
    seed: Option<u64>,
    /// Number of queries
    #[arg(long, default_value_t = 20_000)]
    queries: u64,
    /// Seconds after which no further query begins
    #[arg(long)]
    seconds: Option<u64>,
    /// The query with this index alone, with all answers
    #[arg(long)]
    only: Option<u64>,
    /// PostgreSQL 15 to compare with, `host=… port=… user=… dbname=…`; by default one of this run's own, if it is installed
    #[arg(long)]
    postgres: Option<String>,
    /// Compare the two paths alone
    #[arg(long, conflicts_with = "postgres")]
    no_postgres: bool,
    /// Compare the row path alone with PostgreSQL
    #[arg(long, conflicts_with = "no_postgres")]
    no_analytics: bool,
    /// Binary to test; by default `overtake` is built in release
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Queries in flight
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Failures after which the run stops
    #[arg(long, default_value_t = 10)]
    failures: usize,
    /// Build with planted bugs, and succeed when each of these is found; `all` for all there are
    #[arg(long)]
    plant: Vec<String>,
    /// Print the statements that make the tables, and nothing else
    #[arg(long)]
    tables: bool,
    /// Print the callables that were never answered, those that are left out, and what PostgreSQL alone answered
    #[arg(long)]
    verbose: bool,
}

/// Side of a comparison that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Row,
    Analytics,
    Postgres,
}

/// Answers to one query.
struct Answers {
    row: QueryAnswer,
    analytics: QueryAnswer,
    postgres: Option<QueryAnswer>,
}

/// Judgement about one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    /// The query ran into a timeout in the reference server.
    Late,
    Different(Side, Difference),
}

fn state(answer: &QueryAnswer) -> &str {
    match answer {
        QueryAnswer::Rows { .. } => "",
        QueryAnswer::Error { state, .. } => state,
    }
}

const REFUSED: &str = "0A000";
const CANCELED: &str = "57014";

impl Answers {
    /// Returns the SQLSTATEs of the answers; empty ones for rows.
    fn states(&self) -> [Option<&str>; 3] {
        [Some(state(&self.row)), Some(state(&self.analytics)), self.postgres.as_ref().map(state)]
    }

    fn described(&self) -> String {
        let Answers { row, analytics, postgres } = self;
        let mut text = format!("  row: {}\n  analytics: {}\n", describe(row), describe(analytics));
        if let Some(postgres) = postgres {
            text.push_str(&format!("  PostgreSQL: {}\n", describe(postgres)));
        }
        text
    }

    fn judge(&self, query: &QueryTree) -> Verdict {
        let Answers { row, analytics, postgres } = self;
        for (side, answer) in
            [(Side::Row, Some(row)), (Side::Analytics, Some(analytics)), (Side::Postgres, postgres.as_ref())]
        {
            if answer.is_some_and(|answer| state(answer).starts_with("XX")) && side != Side::Postgres {
                return Verdict::Different(side, Difference::Internal);
            }
        }
        let right = postgres.as_ref().unwrap_or(row);
        if state(right) == CANCELED {
            return Verdict::Late;
        }
        for (side, answer) in [(Side::Row, row), (Side::Analytics, analytics)] {
            if state(answer) == CANCELED {
                return Verdict::Different(side, Difference::Late);
            }
            if state(answer) != REFUSED
                && let Some(kind) = compare(query, right, answer)
            {
                return Verdict::Different(side, kind);
            }
        }
        Verdict::Same
    }
}

/// Connections of one worker.
struct Connections {
    row: WireClient,
    analytics: WireClient,
    postgres: Option<WireClient>,
}

const SETTINGS: &str = "set timezone = 'America/New_York'; set statement_timeout = '5s'";

impl Connections {
    fn open(targets: &Targets) -> anyhow::Result<Connections> {
        let connect = |path: &str| {
            let mut client = WireClient::connect(&targets.server)?;
            client.run(&format!("{SETTINGS}; set overtake.path = {path}"))?;
            anyhow::Ok(client)
        };
        let postgres = targets.postgres.as_ref().map(|address| {
            let mut client = WireClient::connect(address)?;
            client.run(&format!("{SETTINGS}; set jit = off; set search_path = {}", targets.schema))?;
            anyhow::Ok(client)
        });
        let second = if targets.analytics { "analytics" } else { "row" };
        Ok(Connections { row: connect("row")?, analytics: connect(second)?, postgres: postgres.transpose()? })
    }

    /// Sends the query to all servers at once. A dead connection of Overtake's counts as XX000, and is replaced.
    fn ask(&mut self, targets: &Targets, text: &str) -> anyhow::Result<Answers> {
        let mut dead = false;
        let mut lost = |error: anyhow::Error| {
            dead = true;
            QueryAnswer::Error { state: "XX000".to_owned(), message: format!("{error:#}") }
        };
        // An error in sending shows in receiving, too.
        let _ = (self.row.send(text), self.analytics.send(text));
        if let Some(postgres) = &mut self.postgres {
            postgres.send(text)?;
        }
        let row = self.row.receive().unwrap_or_else(&mut lost);
        let analytics = self.analytics.receive().unwrap_or_else(&mut lost);
        let postgres = self.postgres.as_mut().map(WireClient::receive).transpose()?;
        if dead {
            *self = Connections::open(targets).context("the server is gone")?;
        }
        Ok(Answers { row, analytics, postgres })
    }
}

/// Addresses of a run.
#[derive(Clone)]
struct Targets {
    server: Address,
    postgres: Option<Address>,
    /// True if the analytics path is asked, too; otherwise the row path is asked twice.
    analytics: bool,
    /// Schema of the tables at PostgreSQL.
    schema: String,
}

/// Counts of a run.
#[derive(Default)]
struct Tally {
    by_row: AtomicU64,
    as_analytics: AtomicU64,
    by_postgres: AtomicU64,
    refused_by_row: AtomicU64,
    refused_as_analytics: AtomicU64,
    failed: AtomicU64,
    late: AtomicU64,
    asked: AtomicU64,
    /// Messages of refusals by the row path, and errors of values where PostgreSQL answers: their number, and the first
    /// query.
    excused: Mutex<BTreeMap<String, (u64, u64)>>,
}

impl Tally {
    fn count(&self, index: u64, answers: &Answers, verdict: Verdict) {
        let add = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let Answers { row, analytics, postgres } = answers;
        add(&self.asked);
        for (answer, answered, refused) in
            [(row, &self.by_row, &self.refused_by_row), (analytics, &self.as_analytics, &self.refused_as_analytics)]
        {
            match state(answer) {
                "" => add(answered),
                REFUSED => add(refused),
                _ => {}
            }
        }
        if postgres.as_ref().is_some_and(|answer| state(answer).is_empty()) {
            add(&self.by_postgres);
        }
        if !state(postgres.as_ref().unwrap_or(row)).is_empty() {
            add(&self.failed);
        }
        if verdict == Verdict::Late {
            add(&self.late);
        }
        if verdict == Verdict::Same
            && let (QueryAnswer::Error { state, message }, Some(QueryAnswer::Rows { .. })) = (row, postgres)
        {
            let mut excused = self.excused.locked();
            excused.entry(format!("{state} {message}")).or_insert((0, index)).0 += 1;
        }
    }
}

/// Runs the command.
///
/// # Errors
/// If a query differs, or a server cannot be used; with plants, when one of them is not found.
pub fn run(options: &Differential) -> anyhow::Result<()> {
    if options.tables {
        println!("{SETTINGS};\n{};", schema::statements().join(";\n"));
        return Ok(());
    }
    let plants = plants_of(options)?;
    let seed = options.seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        now.as_secs() % 1_000_000
    });
    println!("seed {seed}");
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => server::build(!plants.is_empty())?,
    };
    let theirs = postgres_of(options)?;
    let postgres = theirs.as_ref().map(|(address, _)| address);
    if plants.is_empty() {
        let found = run_once(options, seed, &binary, postgres, None)?;
        ensure!(found == 0, "{found} queries differ");
        return Ok(());
    }
    let mut unnoticed = Vec::new();
    for plant in plants {
        let is_found = 0 < run_once(options, seed, &binary, postgres, Some(plant))?;
        println!("plant {plant}: {}\n", if is_found { "found" } else { "NOT FOUND" });
        if !is_found {
            unnoticed.push(plant);
        }
    }
    ensure!(unnoticed.is_empty(), "planted bugs that were not found: {}", unnoticed.join(", "));
    Ok(())
}

/// Returns the planted bugs to look for.
fn plants_of(options: &Differential) -> anyhow::Result<Vec<&'static str>> {
    let mut found = Vec::new();
    for name in &options.plant {
        let named: Vec<_> = PLANTS.into_iter().filter(|plant| name == "all" || name == plant).collect();
        ensure!(!named.is_empty(), "there is no planted bug {name}, only {}", PLANTS.join(", "));
        found.extend(named);
    }
    Ok(found)
}

/// Starts the server, perhaps with a planted bug, asks the queries, and returns the number of those that differ.
fn run_once(
    options: &Differential,
    seed: u64,
    binary: &Path,
    postgres: Option<&Address>,
    plant: Option<&str>,
) -> anyhow::Result<usize> {
    let ours = server::overtake(binary, plant)?;
    // The same binary without its bug: a query that it answers wrongly, too, does not reveal the bug.
    let sound = plant.is_some().then(|| server::overtake(binary, None)).transpose()?;
    let targets = Targets {
        server: ours.address.clone(),
        postgres: postgres.cloned(),
        analytics: !options.no_analytics,
        schema: format!("differential_{}", std::process::id()),
    };
    let sound = sound.as_ref().map(|server| Targets { server: server.address.clone(), ..targets.clone() });
    let catalog = prepare(&targets, options)?;
    if let Some(sound) = &sound {
        let mut client = WireClient::connect(&sound.server)?;
        schema::statements().iter().try_for_each(|statement| client.run(statement).map(drop))?;
    }
    // One query is enough to find a plant.
    let failures_max = if plant.is_some() { 1 } else { options.failures };
    let found = match options.only {
        Some(index) => show(&targets, &catalog, seed, index)?,
        None => search(&targets, sound.as_ref(), &catalog, seed, options, failures_max)?,
    };
    if let Some(address) = &targets.postgres {
        WireClient::connect(address)?.run(&format!("drop schema {} cascade", targets.schema))?;
    }
    Ok(found)
}

/// Returns the PostgreSQL 15 to compare with: the one that was named, or one of the run's own.
fn postgres_of(options: &Differential) -> anyhow::Result<Option<(Address, Option<server::Server>)>> {
    if let Some(url) = &options.postgres {
        return Ok(Some((Address::read(url)?, None)));
    }
    if options.no_postgres {
        return Ok(None);
    }
    if server::has_postgres() {
        let own = server::postgres()?;
        return Ok(Some((own.address.clone(), Some(own))));
    }
    let message = "PostgreSQL 15 is not installed: only the two paths are compared with each other";
    ensure!(std::env::var_os("OVERTAKE_CI").is_none(), "{message}");
    println!("\n*** {message} ***\n");
    Ok(None)
}

/// Makes the tables, and reads the callables.
fn prepare(targets: &Targets, options: &Differential) -> anyhow::Result<Catalog> {
    let mut ours = WireClient::connect(&targets.server)?;
    let mut theirs = targets.postgres.as_ref().map(WireClient::connect).transpose()?;
    if let Some(theirs) = &mut theirs {
        theirs.run(&format!("create schema {0}; set search_path = {0}", targets.schema))?;
    }
    for statement in schema::statements() {
        ours.run(&statement)?;
        if let Some(theirs) = &mut theirs {
            theirs.run(&statement)?;
        }
    }
    let known = known().map(|(signature, ty, _)| (signature.to_owned(), types::Ty::by_name(ty))).collect();
    let catalog = Catalog::read(&mut ours, theirs.as_mut(), &known)?;
    println!("{} callables, {} in the catalog are left out", catalog.all.len(), catalog.left_out.len());
    if options.verbose {
        println!("left out: {}", catalog.left_out.join(" "));
    }
    Ok(catalog)
}

/// Returns the exceptions: one callable, the type or `any`, and the reason.
fn known() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let lines = KNOWN.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.filter_map(|line| {
        let (signature, rest) = line.split_once('\t')?;
        let (ty, reason) = rest.split_once('\t')?;
        Some((signature, ty, reason))
    })
}

/// Shows one query with its answers.
fn show(targets: &Targets, catalog: &Catalog, seed: u64, index: u64) -> anyhow::Result<usize> {
    let generated = queries::generate(catalog, seed, index);
    let mut connections = Connections::open(targets)?;
    let answers = connections.ask(targets, &generated.query.to_string())?;
    let verdict = report(targets, &mut connections, index, &generated.query, &answers)?;
    Ok(usize::from(matches!(verdict, Verdict::Different(..))))
}

/// Prints a query with its answers, and the query that is left when it is shrunk. A difference that does not come again
/// is reported all the same: it depends on the work that ran beside it.
fn report(
    targets: &Targets,
    connections: &mut Connections,
    index: u64,
    query: &QueryTree,
    first: &Answers,
) -> anyhow::Result<Verdict> {
    let text = query.to_string();
    let found = first.judge(query);
    let mut shown = format!("query {index}: {found:?}\n  {text};\n");
    let answers = connections.ask(targets, &text)?;
    let verdict = answers.judge(query);
    if verdict != found {
        shown.push_str(&format!("{}asked again, it was {verdict:?}:\n", first.described()));
    }
    let (query, answers) = match verdict {
        // Every smaller query would be waited for, too.
        Verdict::Different(_, kind) if kind != Difference::Late => {
            let small = shrink::shrink(query.clone(), |smaller| {
                // The errors must stay the same, too: a query that lost a necessary part fails in another way.
                connections
                    .ask(targets, &smaller.to_string())
                    .is_ok_and(|found| found.judge(smaller) == verdict && found.states() == answers.states())
            });
            let answers = connections.ask(targets, &small.to_string())?;
            shown.push_str(&format!("shrunk:\n  {small};\n"));
            (small, answers)
        }
        Verdict::Same | Verdict::Late | Verdict::Different(..) => (query.clone(), answers),
    };
    shown.push_str(&answers.described());
    drop(query);
    println!("{shown}");
    Ok(found)
}

/// Runs the queries, and reports those that differ.
///
/// With `sound`, only a query counts in which that server does not differ, and no late answer.
fn search(
    targets: &Targets,
    sound: Option<&Targets>,
    catalog: &Catalog,
    seed: u64,
    options: &Differential,
    failures_max: usize,
) -> anyhow::Result<usize> {
    let next = AtomicU64::new(0);
    let tally = Tally::default();
    let failures = Mutex::new(0);
    let answered = Mutex::new((BTreeSet::new(), BTreeSet::new()));
    let begun = Instant::now();
    let is_over = || {
        options.seconds.is_some_and(|seconds| Duration::from_secs(seconds) <= begun.elapsed())
            || failures_max <= *failures.locked()
    };
    let work = || -> anyhow::Result<()> {
        let mut connections = Connections::open(targets)?;
        let mut others = sound.map(Connections::open).transpose()?;
        while !is_over() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if options.queries <= index {
                break;
            }
            if index.is_multiple_of(10_000) && 0 < index {
                println!("… {index} queries, {:.0} s", begun.elapsed().as_secs_f64());
            }
            let generated = queries::generate(catalog, seed, index);
            let text = generated.query.to_string();
            let answers = connections.ask(targets, &text)?;
            let verdict = answers.judge(&generated.query);
            tally.count(index, &answers, verdict);
            let mut guard = answered.locked();
            if state(&answers.row).is_empty() {
                guard.0.extend(generated.used.iter().copied());
            }
            if state(&answers.analytics).is_empty() {
                guard.1.extend(generated.used.iter().copied());
            }
            drop(guard);
            // Late answers come from a busy machine, too: they find no planted bug.
            let is_different = match verdict {
                Verdict::Different(_, kind) => sound.is_none() || kind != Difference::Late,
                Verdict::Same | Verdict::Late => false,
            };
            if is_different
                && let (Some(others), Some(sound)) = (&mut others, sound)
                && matches!(others.ask(sound, &text)?.judge(&generated.query), Verdict::Different(..))
            {
                println!("query {index} differs without the planted bug, too");
                continue;
            }
            if is_different {
                *failures.locked() += 1;
                report(targets, &mut connections, index, &generated.query, &answers)?;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let failures = failures.into_inner().or_end_process();
    let (rows, analytics) = answered.into_inner().or_end_process();
    println!(
        "seed {seed}: {} queries in {:.0} s; answered by rows {}, as analytics {}, by PostgreSQL {}; refused by rows {}, as analytics {}; \
         {} ended in an error; {} were late; of {} callables {} were answered by rows, {} as analytics; {failures} differ",
        read(&tally.asked),
        begun.elapsed().as_secs_f64(),
        read(&tally.by_row),
        read(&tally.as_analytics),
        read(&tally.by_postgres),
        read(&tally.refused_by_row),
        read(&tally.refused_as_analytics),
        read(&tally.failed),
        read(&tally.late),
        catalog.all.len(),
        rows.len(),
        analytics.len(),
    );
    if options.verbose {
        let excused = tally.excused.into_inner().or_end_process();
        for (message, (count, first)) in excused {
            println!("answered by PostgreSQL alone, {count} times, first in query {first}: {message}");
        }
        for (path, known) in [("by rows", &rows), ("as analytics", &analytics)] {
            let never =
                (0..catalog.all.len()).filter(|at| !known.contains(at)).map(|at| catalog.all[at].signature.as_str());
            println!("never answered {path}: {}", never.collect::<Vec<_>>().join("; "));
        }
    }
    Ok(failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_a_function_of_seed_and_index() {
        let catalog = Catalog::of_forms();
        let text = |seed, index| queries::generate(&catalog, seed, index).query.to_string();
        let mut known = BTreeSet::new();
        for index in 0..300 {
            assert_eq!(text(7, index), text(7, index));
            known.insert(text(7, index));
        }
        assert!(290 < known.len(), "only {} of 300 queries are different ones", known.len());
        assert_ne!(text(7, 3), text(8, 3));
    }

    #[test]
    fn every_callable_has_its_turn() {
        let catalog = Catalog::of_forms();
        let count = catalog.all.len() as u64;
        let used: BTreeSet<usize> =
            (0..20 * count).flat_map(|index| queries::generate(&catalog, 1, index).used).collect();
        let never: Vec<&str> = (0..catalog.all.len())
            .filter(|at| !used.contains(at))
            .map(|at| catalog.all[at].signature.as_str())
            .collect();
        assert!(never.is_empty(), "{never:?}");
    }

    #[test]
    fn calls_that_differ_only_in_a_constant_stand_side_by_side() {
        let catalog = Catalog::of_forms();
        let like = catalog.all.iter().position(|callable| callable.template == "($0 ilike $1)").expect("it is a form");
        let mut side_by_side = 0;
        for index in 0..20 * catalog.all.len() as u64 {
            let generated = queries::generate(&catalog, 2, index);
            let text = generated.query.to_string();
            if generated.used.contains(&like) && 2 <= text.matches(" ilike ").count() {
                side_by_side += 1;
            }
        }
        assert!(5 < side_by_side, "only {side_by_side} queries call it twice");
    }

    #[test]
    fn a_failing_query_is_shrunk_to_what_fails() {
        let catalog = Catalog::of_forms();
        let fails = |query: &QueryTree| query.to_string().contains(" similar to ");
        let long = (0..10_000)
            .map(|index| queries::generate(&catalog, 3, index).query)
            .filter(fails)
            .find(|query| 600 < query.to_string().len());
        let small = shrink::shrink(long.expect("there is a long one"), fails).to_string();
        assert!(small.len() < 250, "{small}");
    }

    #[test]
    fn an_internal_error_is_a_difference_whoever_shares_it() {
        let query = queries::generate(&Catalog::of_forms(), 1, 0).query;
        let error = |state: &str| QueryAnswer::Error { state: state.to_owned(), message: String::new() };
        for (row, analytics, side) in [
            ("XX000", "XX000", Side::Row),
            ("XX000", REFUSED, Side::Row),
            (REFUSED, "XX000", Side::Analytics),
            ("22012", "XX001", Side::Analytics),
            (CANCELED, "XX000", Side::Analytics),
        ] {
            for postgres in [None, Some(error("22012")), Some(error("XX000"))] {
                let answers = Answers { row: error(row), analytics: error(analytics), postgres };
                assert_eq!(answers.judge(&query), Verdict::Different(side, Difference::Internal), "{row} {analytics}");
            }
        }
    }

    #[test]
    fn who_is_late_where_another_answers_differs() {
        let query = queries::generate(&Catalog::of_forms(), 1, 0).query;
        let error = |state: &str| QueryAnswer::Error { state: state.to_owned(), message: String::new() };
        for (row, analytics, postgres, verdict) in [
            (CANCELED, REFUSED, Some("22012"), Verdict::Different(Side::Row, Difference::Late)),
            ("22012", CANCELED, Some("22012"), Verdict::Different(Side::Analytics, Difference::Late)),
            ("22012", CANCELED, None, Verdict::Different(Side::Analytics, Difference::Late)),
            ("22012", "22012", Some(CANCELED), Verdict::Late),
            (CANCELED, "22012", None, Verdict::Late),
            ("22012", "22012", Some("22012"), Verdict::Same),
        ] {
            let answers = Answers { row: error(row), analytics: error(analytics), postgres: postgres.map(error) };
            assert_eq!(answers.judge(&query), verdict, "{row} {analytics} {postgres:?}");
        }
    }

    #[test]
    fn every_planted_bug_is_in_the_sources() {
        let mut found = BTreeSet::new();
        let mut folders: Vec<PathBuf> =
            ["types", "catalog", "query", "sql", "olap"].map(|of| Path::new("..").join(of).join("src")).into();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder of sources") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(path).expect("a source");
                let names = text.split("is_planted(\"").skip(1).filter_map(|rest| rest.split('"').next());
                found.extend(names.map(str::to_owned));
            }
        }
        assert_eq!(found, PLANTS.map(str::to_owned).into());
    }

    #[test]
    fn exceptions_are_few_and_have_reasons() {
        assert!(known().count() <= 20);
        assert!(known().all(|(signature, _, reason)| !signature.is_empty() && 10 < reason.len()));
    }
}
