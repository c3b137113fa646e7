//! Runs of a script: one interleaving, or all that can happen.
//!
//! **Invariant:** an interleaving is chosen step by step among the sessions that do not wait, so each run is one that
//! can happen, and each that can happen is run once. Every run starts from fresh tables.

use super::statement::{Begin, Keys, Level, ScriptStatement};
use super::{Script, ScriptStep};

/// Result of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Success without rows.
    Done,
    /// The rows read, with all columns.
    Rows(Vec<Vec<Option<i64>>>),
    /// Number of rows written.
    Count(u64),
    /// A commit that rolled back, because the transaction had failed before.
    RolledBack,
    /// Failure with this SQLSTATE.
    Failed(String),
}

/// Database that executes steps.
pub trait Executor {
    /// Creates the script's tables and rows anew, and an idle session for each of the script's.
    fn set_up(&mut self, script: &Script, level: Level);
    /// Runs a statement; a `begin` includes its level. Returns `None` if the statement waits.
    fn submit(&mut self, session: usize, statement: &ScriptStatement) -> Option<Reply>;
    /// Returns the result of a session's statement that waited, or `None` if it still waits.
    fn resume(&mut self, session: usize) -> Option<Reply>;
    /// Rolls back all transactions that are open or wait, and returns the rows of each table in the order of their
    /// keys.
    fn end(&mut self) -> Vec<Vec<Vec<Option<i64>>>>;
}

/// Outcome of one interleaving.
#[derive(Debug, Clone)]
pub struct InterleavingOutcome {
    /// Transcript of the run.
    pub line: String,
    /// Replies to each step of each session, without those that waited for ever.
    pub(super) replies: Vec<Vec<String>>,
    /// True for each session that did nothing but commit, and met no conflict.
    pub(super) committed: Vec<bool>,
    /// Final rows.
    pub(super) rows: String,
}

/// Runs the permutations that the script lists, or else all interleavings.
///
/// # Panics
/// When the executor cannot begin a transaction.
pub fn explore(script: &Script, level: Level, executor: &mut dyn Executor) -> Vec<InterleavingOutcome> {
    if !script.permutations.is_empty() {
        return script.permutations.iter().map(|permutation| run(script, level, executor, permutation)).collect();
    }
    let mut outcomes = Vec::new();
    let mut prefixes = vec![Vec::new()];
    while let Some(mut choices) = prefixes.pop() {
        let mut run = Interleaving::new(script, level, executor);
        let mut taken = 0;
        while let [first, others @ ..] = &run.ready()[..] {
            if taken == choices.len() {
                // Later prefixes first, so that the sessions' own order comes out first.
                prefixes.extend(others.iter().rev().map(|other| [&choices[..], &[*other]].concat()));
                choices.push(*first);
            }
            run.step(choices[taken]);
            taken += 1;
        }
        outcomes.push(run.end());
    }
    outcomes
}

/// Returns the transcripts of [`explore`].
pub fn transcripts(outcomes: &[InterleavingOutcome]) -> Vec<String> {
    outcomes.iter().map(|outcome| outcome.line.clone()).collect()
}

/// Runs one interleaving; sessions that it does not name do nothing. A step whose session waits is put off until it can
/// be run.
pub(super) fn run(
    script: &Script,
    level: Level,
    executor: &mut dyn Executor,
    sessions: &[usize],
) -> InterleavingOutcome {
    let mut run = Interleaving::new(script, level, executor);
    let mut left = sessions.to_vec();
    loop {
        let ready = run.ready();
        let Some(at) = left.iter().position(|session| ready.contains(session)) else { return run.end() };
        run.step(left.remove(at));
    }
}

/// Errors that depend on concurrent transactions: serialization failure, deadlock, lock not available.
const CONFLICTS: [&str; 3] = ["40001", "40P01", "55P03"];

struct Interleaving<'s, 'e> {
    script: &'s Script,
    level: Level,
    executor: &'e mut dyn Executor,
    /// Next step of each session.
    next: Vec<usize>,
    /// True for each session that is in a transaction.
    open: Vec<bool>,
    committed: Vec<bool>,
    /// Sessions that wait, in the order in which they began to.
    waiting: Vec<usize>,
    replies: Vec<Vec<String>>,
    line: String,
}

impl<'s, 'e> Interleaving<'s, 'e> {
    fn new(script: &'s Script, level: Level, executor: &'e mut dyn Executor) -> Interleaving<'s, 'e> {
        executor.set_up(script, level);
        let count = script.sessions.len();
        Interleaving {
            script,
            level,
            executor,
            next: vec![0; count],
            open: vec![false; count],
            committed: vec![true; count],
            waiting: Vec::new(),
            replies: vec![Vec::new(); count],
            line: String::new(),
        }
    }

    /// Returns the sessions that could be next.
    fn ready(&self) -> Vec<usize> {
        let has_step = |session: usize| self.next[session] < self.script.sessions[session].steps.len();
        (0..self.next.len()).filter(|session| has_step(*session) && !self.waiting.contains(session)).collect()
    }

    fn step(&mut self, session: usize) {
        let step = &self.script.sessions[session].steps[self.next[session]];
        let own = self.script.sessions[session].begin;
        if !self.open[session] && !matches!(step.statement, ScriptStatement::Begin(_)) {
            let begin = ScriptStatement::Begin(Begin { level: Some(own.level.unwrap_or(self.level)), ..own });
            assert_eq!(self.executor.submit(session, &begin), Some(Reply::Done), "{}: begin", self.script.name);
        }
        self.open[session] = true;
        let statement = match &step.statement {
            ScriptStatement::Begin(begin) => {
                ScriptStatement::Begin(Begin { level: Some(begin.level.or(own.level).unwrap_or(self.level)), ..*begin })
            }
            statement => statement.clone(),
        };
        match self.executor.submit(session, &statement) {
            Some(reply) => self.finished(session, &reply),
            None => {
                self.say(&format!("{}~", step.name));
                self.waiting.push(session);
            }
        }
        self.resume();
    }

    /// Collects the results of sessions that no longer wait, until there are none.
    fn resume(&mut self) {
        while let Some((session, reply)) =
            self.waiting.iter().find_map(|session| Some((*session, self.executor.resume(*session)?)))
        {
            self.waiting.retain(|other| *other != session);
            self.finished(session, &reply);
        }
    }

    fn finished(&mut self, session: usize, reply: &Reply) {
        let step = &self.script.sessions[session].steps[self.next[session]];
        self.next[session] += 1;
        match step.statement {
            ScriptStatement::Commit => self.committed[session] &= *reply == Reply::Done,
            ScriptStatement::Rollback => self.committed[session] = false,
            _ => {}
        }
        if let Reply::Failed(state) = reply {
            self.committed[session] &= !CONFLICTS.contains(&state.as_str());
        }
        // A commit ends the transaction whatever it replies.
        self.open[session] &= !matches!(step.statement, ScriptStatement::Commit | ScriptStatement::Rollback);
        let said = self.words(step, reply);
        self.say(&format!("{}{said}", step.name));
        self.replies[session].push(said);
    }

    fn say(&mut self, word: &str) {
        if !self.line.is_empty() {
            self.line.push(' ');
        }
        self.line.push_str(word);
    }

    fn words(&self, step: &ScriptStep, reply: &Reply) -> String {
        match (reply, &step.statement) {
            (Reply::Done, _) | (Reply::Count(1), _) => String::new(),
            (Reply::Count(count), _) => format!("={count}"),
            (Reply::RolledBack, _) => "=rollback".to_owned(),
            (Reply::Failed(state), _) => format!("!{state}"),
            (Reply::Rows(rows), _) if rows.is_empty() => "=none".to_owned(),
            (Reply::Rows(rows), ScriptStatement::Read { rows: which, .. })
                if matches!(which.keys, Keys::One(_)) && 1 < rows[0].len() =>
            {
                format!("={}", joined(rows[0][1..].iter().map(|value| number(*value)), "/"))
            }
            (Reply::Rows(rows), _) => format!("={}", joined(rows.iter().map(|row| row_words(row)), ",")),
        }
    }

    fn end(mut self) -> InterleavingOutcome {
        if !self.waiting.is_empty() {
            self.say("stuck");
        }
        let tables = self.executor.end();
        let rows = joined(
            self.script.tables.iter().zip(tables).map(|(table, rows)| {
                joined(std::iter::once(table.name.clone()).chain(rows.iter().map(|row| row_words(row))), " ")
            }),
            " ; ",
        );
        let all = |session: usize| self.next[session] == self.script.sessions[session].steps.len();
        let committed = (0..self.next.len()).map(|session| {
            let idle = self.next[session] == 0;
            !idle && self.committed[session] && all(session) && !self.open[session]
        });
        InterleavingOutcome {
            line: format!("{} | {rows}", self.line),
            committed: committed.collect(),
            replies: self.replies,
            rows,
        }
    }
}

fn number(value: Option<i64>) -> String {
    value.map_or("null".to_owned(), |value| value.to_string())
}

/// Formats a row as `key:column/column`.
fn row_words(row: &[Option<i64>]) -> String {
    let columns = joined(row[1..].iter().map(|value| number(*value)), "/");
    joined([number(row[0])].into_iter().chain((1 < row.len()).then_some(columns)), ":")
}

fn joined(words: impl Iterator<Item = String>, between: &str) -> String {
    words.collect::<Vec<_>>().join(between)
}
