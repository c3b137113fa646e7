//! Isolation scripts: sessions with named steps, every interleaving of them, and what each must give, as data files.
//!
//! **Invariant:** a script names no engine. Its steps are plain data ([`Statement`]): an [`Executor`] turns them into
//! calls of an API, or [`to_sql`] into text for a server, and both must give the same transcripts. The expectations
//! are those of PostgreSQL 15 where a file does not say otherwise.
//!
//! ```text
//! # Lost update: both read 10, both write.                      What the file is about.
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
//! A *transcript* is one line: the steps in order with what they gave. `wb~` waits, and stands a second time where it
//! ended; `=` is followed by what was read (the columns behind the key of one row, `key:columns` of many, `none`), or by
//! how many rows were written if not one; `!` by the SQLSTATE of an error. Behind the bar stand the rows at the end.
//! `stuck` before it says that what still waited would have waited for ever.
//!
//! A step of a session that waits cannot be next, so such interleavings do not exist; one of a listed permutation is put
//! off until it can be run. A session's steps after an error
//! are run like any other: they give 25P02, and `commit` rolls back, as in PostgreSQL.
//!
//! `expect` holds for both; a section `overtake LEVELS` says what we give where PostgreSQL, whose own lines a section
//! `postgresql LEVELS` may record, gives something else. A comment there says why.

mod explore;
mod parse;
mod serial;
mod sql;
mod statement;

#[cfg(test)]
mod tests;

pub use explore::{Executor, Outcome, Reply, explore, transcripts};
pub use parse::parse;
pub use serial::check_serial;
pub use sql::{to_sql, to_sql_table};
pub use statement::{
    Begin, Class, Comparison, Condition, Keys, Level, RowLock, Set, Statement, TABLE_MODES, Wait, Which,
};

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A script: one file.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// The file's name without folder and extension.
    pub name: String,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Its sessions.
    pub sessions: Vec<Session>,
    /// The interleavings listed, as indices of sessions; empty: all that can happen.
    pub permutations: Vec<Vec<usize>>,
    /// What must come out.
    pub expectations: Vec<Expectation>,
    /// The file up to the first expectation, as it stands.
    pub head: String,
}

/// A table and its rows at the beginning.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns, all 64-bit integers; the first is the primary key, the others may be null.
    pub columns: Vec<String>,
    /// The columns, but for the first, that have an index, and whether it is unique.
    pub indexes: Vec<(usize, bool)>,
    /// The rows.
    pub rows: Vec<Vec<Option<i64>>>,
}

/// A session and its steps.
#[derive(Debug, Clone)]
pub struct Session {
    /// Its name.
    pub name: String,
    /// How its transactions begin where no step says so. The level, if there is none, is the one under test.
    pub begin: Begin,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

/// A named statement.
#[derive(Debug, Clone)]
pub struct Step {
    /// Its name, alone in the script.
    pub name: String,
    /// What it does.
    pub statement: Statement,
}

/// Whom an expectation binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// PostgreSQL and us.
    Both,
    /// Us.
    Overtake,
    /// PostgreSQL.
    PostgreSql,
}

/// Transcripts that must come out.
#[derive(Debug, Clone)]
pub struct Expectation {
    /// Whom it binds.
    pub who: Who,
    /// The levels under test for which it stands.
    pub levels: Vec<Level>,
    /// The transcripts.
    pub lines: BTreeSet<String>,
}

impl Script {
    /// The transcripts expected of `who` at a level; none if the file says nothing of that level.
    pub fn expected(&self, who: Who, level: Level) -> BTreeSet<&str> {
        self.expectations
            .iter()
            .filter(|expectation| expectation.who == Who::Both || expectation.who == who)
            .filter(|expectation| expectation.levels.contains(&level))
            .flat_map(|expectation| expectation.lines.iter().map(String::as_str))
            .collect()
    }

    /// What differs between the transcripts found and those expected of `who`, in words; empty if nothing does.
    pub fn compare(&self, who: Who, level: Level, found: &[String]) -> String {
        let expected = self.expected(who, level);
        let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
        let mut words = String::new();
        for line in expected.difference(&found) {
            let _ = writeln!(words, "{} {level}: expected   {line}", self.name);
        }
        for line in found.difference(&expected) {
            let _ = writeln!(words, "{} {level}: came       {line}", self.name);
        }
        words
    }

    /// The file with these transcripts as its expectations. Those that several levels share stand once.
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
