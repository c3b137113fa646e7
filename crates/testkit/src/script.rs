//! Isolation scripts: sessions with named steps, all their interleavings, and the expected result of each, as data
//! files.
//!
//! **Invariant:** a script names no engine. Its steps are plain data ([`ScriptStatement`]): an [`Executor`] turns them
//! into calls of an API, or [`to_sql`] into text for a server, and both must give the same transcripts. The
//! expectations are those of PostgreSQL 15 where a file does not say otherwise.
//!
//! ```text
//! # Lost update: both read 10, both write.                      Subject of the file.
//! table t id v                                                  The first column is the primary key; all are integers.
//! row t 1 10
//! session a                                                     Options: class high; level serializable; read only
//!   ra: read t 1                                                A session's first step begins a transaction, and so
//!   wa: update t 1 set v = 11                                   does a step after its commit, unless it is `begin`.
//!   ca: commit
//! session b
//!   rb: read t 1
//!   wb: update t 1 set v = 12
//!   cb: commit
//! permutation ra rb wa wb ca cb                                 Without any: all interleavings that can happen.
//! expect read committed
//!   ra=10 rb=10 wa wb~ ca wb cb | t 1:12
//! expect repeatable read, serializable
//!   ra=10 rb=10 wa wb~ ca wb!40001 cb=rollback | t 1:11
//! ```
//!
//! A *transcript* is one line: the steps in order with their results. `wb~` waits, and is listed a second time where it
//! ended. `=` is followed by the rows read (the columns behind the key of one row, `key:columns` of many, `none`), or
//! by the number of rows written if it is not one; `!` is followed by the SQLSTATE of an error. Behind the bar are the
//! final rows. `stuck` before the bar says that the steps that still waited would have waited for ever.
//!
//! A step of a session that waits cannot be next, so such interleavings do not exist; a step of a listed permutation is
//! put off until it can be run. A session's steps after an error are run like any other: they give 25P02, and `commit`
//! rolls back, as in PostgreSQL.
//!
//! Over a wire the replies that one step brings have no order among each other, and a session that waited only until
//! another was the victim of their deadlock is not seen to wait: such transcripts are compared as
//! [`Script::compare_unordered`] does.
//!
//! `expect` holds for both databases. A section `overtake LEVELS` lists our results where those of PostgreSQL differ,
//! which a section `postgresql LEVELS` may record. A comment there says why.

mod explore;
mod parse;
mod serial;
mod sql;
mod statement;

#[cfg(test)]
mod tests;

pub use explore::{Executor, InterleavingOutcome, Reply, explore, transcripts};
pub use parse::parse;
pub use serial::check_serial;
pub use sql::{to_sql, to_sql_table};
pub use statement::{
    Begin, CompareOp, Keys, Level, NewValue, RowCondition, RowLock, ScriptClass, ScriptStatement, TABLE_MODES, Wait,
    Which,
};

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// A script: the contents of one file.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Name of the file, without folder and extension.
    pub name: String,
    /// Tables of the script.
    pub tables: Vec<ScriptTable>,
    /// Sessions of the script.
    pub sessions: Vec<ScriptSession>,
    /// Interleavings listed, as indices of sessions; empty: all that can happen.
    pub permutations: Vec<Vec<usize>>,
    /// Expected transcripts.
    pub expectations: Vec<Expectation>,
    /// Text of the file up to the first expectation, unchanged.
    pub head: String,
}

/// A table and its initial rows.
#[derive(Debug, Clone)]
pub struct ScriptTable {
    /// Name of the table.
    pub name: String,
    /// Names of the columns, all 64-bit integers; the first is the primary key, the others may be null.
    pub columns: Vec<String>,
    /// Columns, except the first, that have an index; true if it is unique.
    pub indexes: Vec<(usize, bool)>,
    /// Initial rows.
    pub rows: Vec<Vec<Option<i64>>>,
}

/// A session and its steps.
#[derive(Debug, Clone)]
pub struct ScriptSession {
    /// Name of the session.
    pub name: String,
    /// Beginning of transactions that no step begins explicitly. Without a level, the level under test.
    pub begin: Begin,
    /// Steps of the session, in order.
    pub steps: Vec<ScriptStep>,
}

/// A named statement.
#[derive(Debug, Clone)]
pub struct ScriptStep {
    /// Name of the step, unique in the script.
    pub name: String,
    /// Statement of the step.
    pub statement: ScriptStatement,
}

/// Databases that an expectation binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// PostgreSQL and Overtake.
    Both,
    /// Overtake alone.
    Overtake,
    /// PostgreSQL alone.
    PostgreSql,
}

/// Transcripts that are expected.
#[derive(Debug, Clone)]
pub struct Expectation {
    /// Databases that the expectation binds.
    pub who: Who,
    /// Levels under test to which the expectation applies.
    pub levels: Vec<Level>,
    /// Expected transcripts.
    pub lines: BTreeSet<String>,
}

/// Reads the scripts of a folder, in the order of their names.
///
/// # Errors
/// The name of the file, and the error in it.
pub fn read_folder(folder: &Path) -> Result<Vec<Script>, String> {
    let mut scripts = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".spec")) else { continue };
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        scripts.push(parse(name, &text)?);
    }
    scripts.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(scripts)
}

/// Normalises a transcript: the replies that one step brings are sorted, and a session that waited only within that
/// step counts as one that did not wait.
pub fn unordered(line: &str) -> String {
    let (steps, rows) = line.split_once(" | ").unwrap_or((line, ""));
    let name = |word: &str| word.split(['=', '!', '~']).next().unwrap_or(word).to_owned();
    let mut waiting: Vec<String> = Vec::new();
    let mut rounds: Vec<Vec<&str>> = Vec::new();
    for word in steps.split(' ') {
        let one = name(word);
        if let Some(at) = waiting.iter().position(|other| *other == one) {
            waiting.remove(at);
            let Some(round) = rounds.last_mut() else { continue };
            round.retain(|begun| begun.strip_suffix('~') != Some(one.as_str()));
            round.push(word);
        } else {
            waiting.extend(word.ends_with('~').then_some(one));
            rounds.push(vec![word]);
        }
    }
    rounds.iter_mut().for_each(|round| round.sort_unstable());
    format!("{} | {rows}", rounds.concat().join(" "))
}

impl Script {
    /// Returns the transcripts expected of `who` at a level; none if the file has no section for that level.
    pub fn expected(&self, who: Who, level: Level) -> BTreeSet<&str> {
        self.expectations
            .iter()
            .filter(|expectation| expectation.who == Who::Both || expectation.who == who)
            .filter(|expectation| expectation.levels.contains(&level))
            .flat_map(|expectation| expectation.lines.iter().map(String::as_str))
            .collect()
    }

    /// Describes the differences between the transcripts found and those expected of `who`; empty if there are none.
    pub fn compare(&self, who: Who, level: Level, found: &[String]) -> String {
        self.compare_as(who, level, found, str::to_owned)
    }

    /// Does the same as [`Script::compare`] for transcripts in the form of [`unordered`].
    pub fn compare_unordered(&self, who: Who, level: Level, found: &[String]) -> String {
        self.compare_as(who, level, found, unordered)
    }

    fn compare_as(&self, who: Who, level: Level, found: &[String], form: fn(&str) -> String) -> String {
        let expected: BTreeSet<String> = self.expected(who, level).into_iter().map(form).collect();
        let found: BTreeSet<String> = found.iter().map(|line| form(line)).collect();
        let mut words = String::new();
        for line in expected.difference(&found) {
            let _ = writeln!(words, "{} {level}: expected   {line}", self.name);
        }
        for line in found.difference(&expected) {
            let _ = writeln!(words, "{} {level}: came       {line}", self.name);
        }
        words
    }

    /// Returns the text of the file with these transcripts as its expectations. A transcript that several levels share
    /// is listed once.
    pub fn with_expectations(&self, found: &[(Who, Level, Vec<String>)]) -> String {
        let mut sections: std::collections::BTreeMap<(Who, Vec<Level>), Vec<&str>> = std::collections::BTreeMap::new();
        let lines: BTreeSet<&str> = found.iter().flat_map(|(_, _, lines)| lines.iter().map(String::as_str)).collect();
        for line in lines {
            let levels = |who: Who| -> Vec<Level> {
                let has = |of: &&(Who, Level, Vec<String>)| of.0 == who && of.2.iter().any(|other| other == line);
                found.iter().filter(has).map(|(_, level, _)| *level).collect()
            };
            let (ours, theirs) = (levels(Who::Overtake), levels(Who::PostgreSql));
            let (both, ours): (Vec<Level>, Vec<Level>) = ours.into_iter().partition(|level| theirs.contains(level));
            let theirs: Vec<Level> = theirs.into_iter().filter(|level| !both.contains(level)).collect();
            for (who, levels) in [(Who::Both, both), (Who::Overtake, ours), (Who::PostgreSql, theirs)] {
                if !levels.is_empty() {
                    sections.entry((who, levels)).or_default().push(line);
                }
            }
        }
        let mut text = self.head.trim_end().to_owned();
        text.push('\n');
        for ((who, levels), lines) in sections {
            let who = match who {
                Who::Both => "expect",
                Who::Overtake => "overtake",
                Who::PostgreSql => "postgresql",
            };
            let levels: Vec<&str> = levels.iter().map(|level| level.name()).collect();
            let _ = writeln!(text, "\n{who} {}", levels.join(", "));
            lines.iter().for_each(|line| {
                let _ = writeln!(text, "  {line}");
            });
        }
        text
    }
}
