//! The tables of the schema `overtake`, and `pg_stat_activity`: the server's state as rows.
//!
//! **Invariant:** readers get copies and never hold up running statements.

pub(crate) mod memory;

use catalog::Provider;
use engine::Engine;
use server::admission::Admission;
use server::stage_lines;
use server::stats::{ANALYTICS_STATE, BELOW_STATE, Stats};
use server::xdp_lines;
use stage::Stage;
use stage::observe::{Observe, Scheduling, Times};
use statement::outcome::Signal;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};
use types::table::{NamedRows, ProvidedTable, count, ms};
use types::{Datum, Kind};

/// Provider of the server's own tables.
pub struct Views {
    stats: Arc<Stats>,
    engine: Engine,
    scheduling: OnceLock<Arc<dyn Scheduling>>,
    admission: OnceLock<Admission>,
}

impl fmt::Debug for Views {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Views")
    }
}

impl Views {
    /// Creates the provider for this server and this engine.
    pub fn new(stats: Arc<Stats>, engine: Engine) -> Arc<Views> {
        Arc::new(Views { stats, engine, scheduling: OnceLock::new(), admission: OnceLock::new() })
    }

    /// Adds the scheduler of analytics. Only the first one counts.
    pub fn schedule_by(&self, scheduling: Arc<dyn Scheduling>) {
        // A later one is not asked.
        let _ = self.scheduling.set(scheduling);
    }

    /// Adds the admission gate. Only the first one counts.
    pub fn let_in_by(&self, admission: Admission) {
        admission.clocked_by(&self.stats);
        let _ = self.admission.set(admission);
    }
}

/// OID of the database `postgres`, as in PostgreSQL.
const DATABASE_OID: i64 = 5;

type NamedRow = Vec<(&'static str, Datum)>;

fn text(value: &str) -> Datum {
    Datum::text(value)
}

/// Returns the time as a value, and null for 0, which stands for no time.
fn moment(us: i64) -> Datum {
    if us == 0 { Datum::Null } else { Datum::Timestamp(us) }
}

fn times(times: &Times) -> NamedRow {
    let Times { count: calls, total_us, p50_us, p99_us, p999_us: _, max_us } = *times;
    vec![
        ("calls", count(calls)),
        ("total_ms", ms(total_us)),
        ("p50_ms", ms(p50_us)),
        ("p99_ms", ms(p99_us)),
        ("max_ms", ms(max_us)),
    ]
}

/// State of a long statement whose threads get no processor time.
const STARVED: &str = "starved";

impl Views {
    /// Returns the sessions. A long statement is active, or starved if its threads get no processor time.
    fn sessions(&self) -> impl Iterator<Item = stage::observe::ActivityRow> {
        let scheduling = self.scheduling.get();
        self.stats.activity().into_iter().map(move |mut row| {
            let is_starved = match row.state {
                ANALYTICS_STATE => scheduling.is_some_and(|known| known.is_starved(row.class)),
                BELOW_STATE => scheduling.is_some_and(|known| known.are_rows_starved()),
                _ => return row,
            };
            row.state = if is_starved { STARVED } else { "active" };
            row
        })
    }

    fn activity(&self) -> NamedRows {
        let row = |row: stage::observe::ActivityRow| {
            vec![
                ("pid", Datum::Int8(row.pid.into())),
                ("usename", text(&row.user)),
                ("datname", text(&row.database)),
                ("application_name", text(&row.application)),
                ("client", row.client.as_deref().map_or(Datum::Null, text)),
                ("class", text(row.class.name())),
                ("state", text(row.state)),
                ("query", text(&row.query)),
                ("backend_start", moment(row.session_start_us)),
                ("query_start", moment(row.query_start_us)),
            ]
        };
        self.sessions().map(row).collect()
    }

    /// Returns the rows of `pg_stat_activity`. As in PostgreSQL, a statement that waits is active
    /// and shows its wait event.
    fn pg_activity(&self) -> NamedRows {
        let row = |row: stage::observe::ActivityRow| {
            let waits = row.state == "waiting";
            let event = |name| if waits { text(name) } else { Datum::Null };
            vec![
                ("pid", Datum::Int8(row.pid.into())),
                ("usename", text(&row.user)),
                ("datname", text(&row.database)),
                ("application_name", text(&row.application)),
                ("datid", Datum::Int8(DATABASE_OID)),
                ("client_addr", row.client.as_deref().map_or(Datum::Null, text)),
                ("wait_event_type", event("Lock")),
                ("wait_event", event("transactionid")),
                ("state", text(if waits || row.state == STARVED { "active" } else { row.state })),
                ("query", text(&row.query)),
                ("backend_start", moment(row.session_start_us)),
                ("query_start", moment(row.query_start_us)),
                ("backend_type", text("client backend")),
            ]
        };
        self.sessions().map(row).collect()
    }

    fn statements(&self) -> NamedRows {
        let row = |row: stage::observe::StatementRow| {
            let mut line = vec![("query", text(&row.query)), ("rows", count(row.rows)), ("errors", count(row.errors))];
            line.extend(times(&row.times));
            let parse = |stage| matches!(stage, Stage::Parse | Stage::Plan | Stage::PlanCached);
            line.extend([
                ("parse_ms", ms(row.us(parse))),
                ("run_ms", ms(row.us(|stage| stage == Stage::Run))),
                ("wait_ms", ms(row.us(Stage::is_waiting))),
            ]);
            line
        };
        self.stats.statements().into_iter().map(row).collect()
    }

    fn scheduler(&self) -> NamedRows {
        let row = |row: stage::observe::SchedulerRow| {
            vec![
                ("class", text(row.class.name())),
                ("workers", count(row.workers as u64)),
                ("running", count(row.running as u64)),
                ("waiting", count(row.waiting as u64)),
                ("memory_bytes", count(row.memory_bytes as u64)),
                ("starved", Datum::Bool(row.is_starved)),
                ("urgent_calls", count(row.urgent.calls)),
                ("urgent_interrupting", count(row.urgent.interrupting)),
                ("urgent_claimed", count(row.urgent.claimed)),
                ("urgent_held_back", count(row.urgent.held_back)),
                ("urgent_start_p50_us", Datum::Float8(row.urgent.start_p50_us)),
                ("urgent_start_p99_us", Datum::Float8(row.urgent.start_p99_us)),
            ]
        };
        self.scheduling.get().map_or_else(Vec::new, |known| known.scheduler()).into_iter().map(row).collect()
    }

    /// Returns the metrics of memory in Prometheus' text format.
    pub fn memory_metrics(&self) -> String {
        memory::metrics(&self.engine, self.idle())
    }

    /// Returns a function that tells whether a session, given by its PID, runs no statement now.
    pub(crate) fn idle(&self) -> impl Fn(u32) -> bool {
        let sessions = self.stats.activity();
        let idle: HashSet<i32> =
            sessions.into_iter().filter(|row| row.state.starts_with("idle")).map(|row| row.pid).collect();
        move |pid| i32::try_from(pid).is_ok_and(|pid| idle.contains(&pid))
    }

    fn transactions(&self) -> NamedRows {
        let row = |open: engine::OpenTransaction| {
            vec![
                ("session", open.session.as_deref().map_or(Datum::Null, text)),
                ("class", text(open.class.name())),
                ("open_ms", Datum::Float8(open.open_for.as_secs_f64() * 1e3)),
                ("writes", count(open.writes)),
            ]
        };
        self.engine.transactions().into_iter().map(row).collect()
    }
}

/// Definitions of the views whose rows are made here.
fn definitions() -> [ProvidedTable; 4] {
    use Kind::{Bool, Float8, Int4, Int8, Text, Timestamptz};
    [
        ProvidedTable::new(
            "activity",
            "Sessions, with the class of each.",
            &[
                ("pid", Int4, "PID of the session, as `pg_backend_pid()` returns it."),
                ("usename", Text, "Name of the role."),
                ("datname", Text, "Name of the database."),
                ("application_name", Text, "Name of the application, as the client reports it."),
                ("client", Text, "Address of the client; NULL for a Unix socket."),
                ("class", Text, "Class of its transaction: `low`, `normal` or `high`."),
                (
                    "state",
                    Text,
                    "`active`; `waiting`, for a lock; `starved`, a long query whose threads get no \
                     processor; `idle`; `idle in transaction`; `idle in transaction (aborted)`.",
                ),
                ("query", Text, "Statement that runs, or that ran last."),
                ("backend_start", Timestamptz, "Start of the session."),
                ("query_start", Timestamptz, "Start of the statement."),
            ],
        ),
        ProvidedTable::new(
            "scheduler",
            "Scheduler of analytics, by class.",
            &[
                ("class", Text, "Class of the queries: `low`, `normal` or `high`."),
                ("workers", Int8, "Worker threads."),
                ("running", Int8, "Queries that run."),
                ("waiting", Int8, "Queries that wait for a place."),
                ("memory_bytes", Int8, "Memory that the queries use."),
                ("starved", Bool, "True if the worker threads get no processor."),
                ("urgent_calls", Int8, "Calls of urgent procedures that the workers or the claimer have made."),
                ("urgent_interrupting", Int8, "Those of them that have interrupted a query."),
                (
                    "urgent_claimed",
                    Int8,
                    "Those of them that no worker had started in time, so that the claimer made them.",
                ),
                ("urgent_held_back", Int8, "Times that calls had to wait because queries were owed time."),
                ("urgent_start_p50_us", Float8, "Median of the times from the hand-over to the first instruction."),
                ("urgent_start_p99_us", Float8, "99th percentile of these times."),
            ],
        ),
        ProvidedTable::new(
            "statements",
            "Statements without their literals, with their times.",
            &[
                ("query", Text, "Text of the statement, with parameters in place of literals."),
                ("rows", Int8, "Rows returned or changed."),
                ("errors", Int8, "Executions that failed."),
                ("calls", Int8, "Executions."),
                ("total_ms", Float8, "Sum of the execution times."),
                ("p50_ms", Float8, "Median of the execution times."),
                ("p99_ms", Float8, "99th percentile of the execution times."),
                ("max_ms", Float8, "Maximum of the execution times."),
                ("parse_ms", Float8, "Sum of the stages `parse`, `plan` and `plan_cached`."),
                ("run_ms", Float8, "Sum of the stage `run`."),
                ("wait_ms", Float8, "Sum of the stages that wait."),
            ],
        ),
        ProvidedTable::new(
            "transactions",
            "Open transactions.",
            &[
                ("session", Text, "Name of the session; NULL for a transaction of the server itself."),
                ("class", Text, "Class of the transaction."),
                ("open_ms", Float8, "Time since its start."),
                ("writes", Int8, "Number of changes that it has made."),
            ],
        ),
    ]
}

impl Provider for Views {
    fn tables(&self) -> Vec<ProvidedTable> {
        let mut tables = Vec::from(memory::tables());
        tables.extend(definitions());
        tables.extend(stage_lines::tables());
        tables.push(xdp_lines::table());
        tables.extend(server::admission::lines::tables());
        tables
    }

    fn role_of(&self, pid: i32) -> Option<String> {
        self.stats.role_of(pid)
    }

    fn signal(&self, pid: i32, signal: Signal) -> bool {
        self.stats.signal(pid, signal)
    }

    fn locks(&self) -> Vec<engine::LockView> {
        self.engine.locks()
    }

    fn lines(&self, schema: &str, table: &str) -> NamedRows {
        match (schema, table) {
            ("overtake", "activity") => self.activity(),
            ("overtake", "af_xdp") => xdp_lines::lines(),
            ("overtake", "stages") => stage_lines::lines(&*self.stats),
            ("overtake", "run_parts") => stage_lines::run_parts(&*self.stats),
            ("overtake", "stage_clock") => stage_lines::clock(&*self.stats),
            ("overtake", "statement_stages") => stage_lines::of_statements(&*self.stats),
            ("overtake", "statements") => self.statements(),
            ("overtake", "scheduler") => self.scheduler(),
            ("overtake", "transactions") => self.transactions(),
            ("overtake", "memory") => memory::lines(&self.engine, self.idle()),
            ("overtake", "memory_total") => memory::total(),
            ("pg_catalog", "pg_stat_activity") => self.pg_activity(),
            ("overtake", table) => self
                .admission
                .get()
                .map_or_else(NamedRows::new, |admission| server::admission::lines::lines(admission, table)),
            _ => NamedRows::new(),
        }
    }
}
