//! Goal: a hostile tenant's code harms nobody, at any level of isolation. Method: one server; the tenant's code makes
//! each attack at each level, while another tenant's code works at the same level and must give right answers. The
//! table of what came of it is that of the documentation.

use crate::procedures::proc;
use crate::serve::{connect, runtime, serve_by, value};
use crate::{overtake, text};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// Secret of the other tenant.
const SECRET: &str = "the combination is 7-19-42";
/// Value in the environment of the server.
const ENVIRONMENT: &str = "password-of-the-server";
/// Page with the table.
const PAGE: &str = "../../docs/procedures.md";
/// Time after which attacks that never end are ended, and others have failed to end by themselves.
const TIMEOUT: Duration = Duration::from_millis(400);
const LONG_TIMEOUT: Duration = Duration::from_secs(30);

/// Outcome that is allowed to an attack.
enum Allowed {
    /// The statement fails with one of these SQLSTATEs.
    Fails(&'static [&'static str]),
    /// The code gets nothing, or the statement fails so.
    Nothing(&'static [&'static str]),
    /// The same, except at the level `process`, which limits what code takes, but not what it sees.
    NothingBeyondProcess(&'static [&'static str]),
}

use Allowed::{Fails, Nothing, NothingBeyondProcess};

/// Answers of code that has got nothing.
const NOTHING: [&str; 3] = ["finds nothing", "is refused", "limited"];
const SUCCEEDS: &str = "**succeeds**";

impl Allowed {
    /// Returns true if a cell of the table is an allowed outcome at a level.
    fn has(&self, level: &str, cell: &str) -> bool {
        let (states, may_get_nothing) = match self {
            Fails(states) => (states, false),
            Nothing(states) | NothingBeyondProcess(states) => (states, true),
        };
        let may_succeed = matches!(self, NothingBeyondProcess(_)) && level == "process";
        states.contains(&cell) || (may_get_nothing && NOTHING.contains(&cell)) || (may_succeed && cell == SUCCEEDS)
    }
}

/// Name of the attack in the code, words for the table, and outcome.
const ATTACKS: &[(&str, &str, Allowed)] = &[
    ("row", "reads a row without the right to", Fails(&["42501"])),
    ("write", "writes a row without the right to", Fails(&["42501"])),
    ("statement", "executes a statement without the rights", Fails(&["42501"])),
    ("handle", "forges the handle of a table", Fails(&["39000"])),
    ("own memory", "looks for the other's secret in its own memory", Nothing(&[])),
    ("other memory", "looks for it in the memory of other processes", NothingBeyondProcess(&["38000"])),
    ("environment", "reads the server's environment", Nothing(&["38000"])),
    ("file", "reads a file of the host", NothingBeyondProcess(&["38000"])),
    ("network", "connects to the server", NothingBeyondProcess(&["38000"])),
    ("program", "starts a program of the host", NothingBeyondProcess(&["38000"])),
    ("memory", "takes all memory", Fails(&["53200", "38000"])),
    ("stack", "takes all of the stack", Fails(&["38000"])),
    ("descriptors", "opens all descriptors", Nothing(&["38000"])),
    ("disk", "fills the disk", Nothing(&["38000", "53200"])),
    ("loop", "never ends", Fails(&["57014"])),
    ("calls", "never ends, with calls", Fails(&["57014"])),
    ("sleep", "never answers", Fails(&["57014", "38000"])),
    ("notices", "sends endless notices", Fails(&["54000"])),
    ("result", "returns 4 MB", Fails(&["54000", "39000"])),
    ("panic", "panics", Fails(&["38000"])),
    ("abort", "aborts", Fails(&["38000"])),
    ("garbage", "writes garbage to every descriptor", Fails(&["38000", "39000"])),
];

/// Returns the cell of the table for an outcome.
///
/// # Panics
/// If the outcome is not allowed.
fn cell(name: &str, level: &str, allowed: &Allowed, outcome: &Result<String, String>) -> String {
    let cell = match outcome {
        Ok(told) if told == "got it" => SUCCEEDS,
        Ok(told) => told,
        Err(state) => state,
    };
    assert!(allowed.has(level, cell), "{name} at {level}: {cell}");
    cell.to_owned()
}

/// Writes the project, and installs its module.
fn deploy(folder: &Path, url: &str) {
    let directory = folder.join("hostile");
    let output = proc(&["new", "--language", "rust"], &directory);
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::write(directory.join("src/main.rs"), include_str!("hostile/guest.rs")).unwrap();
    let routines =
        ["answer(bigint) RETURNS bigint", "remember(bigint) RETURNS bigint", "attack(text, text) RETURNS text"];
    let mut sql = String::new();
    for routine in routines {
        let entry = routine.split('(').next().unwrap();
        writeln!(sql, "CREATE OR REPLACE FUNCTION {routine} LANGUAGE wasm AS 'hostile', '{entry}';").unwrap();
    }
    fs::write(directory.join("procedures.sql"), sql).unwrap();
    let output = proc(&["deploy", "--url", url], &directory);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// Uses the server as the other tenant, until told to stop. Returns the number of answers, and the longest wait.
async fn neighbour(url: String, is_over: Arc<AtomicBool>) -> (u64, Duration) {
    let (client, mut count, mut longest) = (connect(&url).await, 0, Duration::ZERO);
    while !is_over.load(Relaxed) {
        let begun = Instant::now();
        assert_eq!(value(&client, "select answer(1) + answer(2)").await, "1");
        longest = longest.max(begun.elapsed());
        count += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    (count, longest)
}

/// Makes an attack in a transaction that has written before. Returns what the code says, or the SQLSTATE.
async fn attacked(client: &Client, name: &str, argument: &str) -> Result<String, String> {
    let timeout = if matches!(name, "loop" | "calls" | "sleep") { TIMEOUT } else { LONG_TIMEOUT };
    let limit = format!("begin; set local statement_timeout = {}", timeout.as_millis());
    client.batch_execute(&format!("{limit}; insert into loot values ('before')")).await.unwrap();
    let begun = Instant::now();
    let outcome = client.query_one("select attack($1, $2)", &[&name, &argument]).await;
    let took = begun.elapsed();
    // A machine that does other things meanwhile may be late; code that does not end at all is what this finds.
    assert!(took < timeout + Duration::from_secs(5), "{name}: {took:?}");
    let outcome = outcome.map(|row| row.get::<_, String>(0)).map_err(|error| {
        let state = error.code().unwrap_or_else(|| panic!("{name}: the connection ended: {error}")).code().to_owned();
        assert_ne!(state, "XX000", "{name}: {error:?}");
        state
    });
    if outcome.is_err() {
        let state = client.batch_execute("select 1").await.unwrap_err().code().unwrap().code().to_owned();
        assert_eq!(state, "25P02", "{name}: the transaction must have failed");
    }
    client.batch_execute("rollback").await.unwrap();
    assert_eq!(value(client, "select count(*) from loot").await, "0", "{name}");
    outcome
}

/// Returns the table between the marks of a page.
fn table_of(page: &str) -> (usize, usize) {
    let (begin, end) = ("<!-- attacks: begin -->\n", "<!-- attacks: end -->");
    (page.find(begin).expect("a mark") + begin.len(), page.find(end).expect("a mark"))
}

/// Compares the columns of the levels that this machine has with those of the page.
fn compare(levels: &[String], rows: &[Vec<String>]) {
    let page = fs::read_to_string(PAGE).unwrap();
    let (begin, end) = table_of(&page);
    let mut table = format!("| attack | {} |\n|---|{}\n", levels.join(" | "), "---|".repeat(levels.len()));
    for row in rows {
        writeln!(table, "| {} |", row.join(" | ")).unwrap();
    }
    println!("{table}");
    if std::env::var_os("OVERTAKE_BLESS").is_some() {
        fs::write(PAGE, format!("{}{table}{}", &page[..begin], &page[end..])).unwrap();
        return;
    }
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
    };
    let mut lines = page[begin..end].lines().map(cells);
    let header = lines.next().unwrap();
    let written: Vec<Vec<String>> = lines.skip(1).collect();
    assert_eq!(written.len(), rows.len(), "{PAGE} is not what happens: run this test with OVERTAKE_BLESS=1");
    for (at, level) in levels.iter().enumerate() {
        let Some(column) = header.iter().position(|name| name == level) else {
            panic!("{PAGE} lacks {level}: run this test with OVERTAKE_BLESS=1");
        };
        // Which of several ends an attack comes to depends on the machine: on its control groups, for instance.
        for ((row, written), (_, _, allowed)) in rows.iter().zip(&written).zip(ATTACKS) {
            assert_eq!(row[0], written[0], "run this test with OVERTAKE_BLESS=1");
            let is_so = row[at + 1] == written[column] || allowed.has(level, &written[column]);
            assert!(is_so, "{}, {level}: {written:?}: run this test with OVERTAKE_BLESS=1", row[0]);
        }
    }
}

pub fn tenants_harm_nobody_at_any_level() {
    let folder = testkit::folder("hostile");
    let mut command = overtake();
    command.args(["serve", "--listen", "127.0.0.1:0"]).env("SECRET_OF_THE_SERVER", ENVIRONMENT);
    let (mut program, url) = serve_by(command);
    deploy(folder.path(), &url);
    runtime().block_on(async {
        let owner = connect(&url).await;
        let set_up = format!(
            "create role alice login; create role mallory login; create table loot (what text);
             create table vault (id bigint primary key, secret text); insert into vault values (1, '{SECRET}');
             alter table vault owner to alice; grant insert, select on loot to mallory"
        );
        owner.batch_execute(&set_up).await.unwrap();
        let levels =
            "select isolation from overtake.isolation_levels where available and artifact in ('wasm', 'exec', 'guest')";
        let rows = owner.query(levels, &[]).await.unwrap();
        let levels: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert!(levels.iter().any(|level| level == "wasm") && levels.iter().any(|level| level == "process"));
        let as_role = |role: &str| url.replacen("postgres@", &format!("{role}@"), 1);
        let address = url.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
        let reversed = |text: &str| text.chars().rev().collect::<String>();
        let mut table: Vec<Vec<String>> = ATTACKS.iter().map(|(_, words, _)| vec![(*words).to_owned()]).collect();
        for level in &levels {
            let set = |name: &str| format!("alter function {name} set (isolation = '{level}')");
            let names = ["answer(bigint)", "remember(bigint)", "attack(text, text)"];
            owner.batch_execute(&names.map(set).join(";")).await.unwrap();
            let alice = connect(&as_role("alice")).await;
            alice.batch_execute("select remember(1)").await.unwrap();
            // Alice's own instance has it, so the search finds what there is.
            let own = format!("select attack('own memory', '{}')", reversed(SECRET));
            assert_eq!(value(&alice, &own).await, "got it", "{level}");
            let is_over = Arc::new(AtomicBool::new(false));
            let neighbour = tokio::spawn(neighbour(as_role("alice"), Arc::clone(&is_over)));
            let mallory = connect(&as_role("mallory")).await;
            for ((name, _, allowed), row) in ATTACKS.iter().zip(&mut table) {
                let argument = match *name {
                    "own memory" | "other memory" => reversed(SECRET),
                    "environment" => reversed(ENVIRONMENT),
                    "network" => address.clone(),
                    _ => String::new(),
                };
                let outcome = attacked(&mallory, name, &argument).await;
                row.push(cell(name, level, allowed, &outcome));
                assert_eq!(value(&alice, "select answer(1)").await, "1", "after {name} at {level}");
            }
            is_over.store(true, Relaxed);
            let (count, longest) = neighbour.await.unwrap();
            assert!(10 < count, "{count} answers at {level}");
            println!("{level}: {count} answers for the other tenant meanwhile, the slowest after {longest:?}");
            assert_eq!(value(&alice, "select secret from vault").await, SECRET);
        }
        compare(&levels, &table);
    });
    let (status, log) = program.interrupted();
    assert!(status.success(), "{status} {log}");
}
