//! Translation of notes and redo records into a [`History`], and the faults that do not depend on dependencies.
//!
//! **Invariant:** the records alone say which versions there were. The notes must agree with them: each read with the
//! rows of its snapshot and the transaction's own writes, each write with its record and with the version before it.

use super::model::{Content, Fate, History, Predicate, Read, ReadVersion, Txn, Version};
use super::notes::{Attempt, Commit, End, Note, content_of, writer_of};
use std::collections::{BTreeMap, HashMap};

/// History, and its faults that are not cycles.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    /// Transactions and versions.
    pub history: History,
    /// Sentence for each fault.
    pub faults: Vec<String>,
}

/// Version of a key, and the timestamp of its beginning.
struct Dated {
    timestamp: u64,
    version: Version,
}

/// Rebuilds the versions of `keys` keys and finds the version that each read saw. Commits before all others that none
/// of the attempts made are the initial state.
pub(super) fn resolve(keys: usize, mut attempts: Vec<Attempt>, mut commits: Vec<Commit>) -> Resolved {
    commits.sort_by_key(|commit| commit.timestamp);
    attempts.sort_by_key(order);
    let mut resolver = Resolver {
        numbers: attempts.iter().enumerate().map(|(at, attempt)| (attempt.number, at)).collect(),
        attempts: &attempts,
        keys: (0..keys).map(|_| vec![absent(0, None)]).collect(),
        values: HashMap::new(),
        faults: Vec::new(),
    };
    resolver.replay(&commits);
    let txns = (0..attempts.len()).map(|at| resolver.txn(at)).collect();
    let keys = resolver.keys.iter().map(|versions| versions.iter().map(|dated| dated.version).collect()).collect();
    Resolved { history: History { txns, keys }, faults: resolver.faults }
}

fn absent(timestamp: u64, writer: Option<usize>) -> Dated {
    Dated { timestamp, version: Version { writer, content: None } }
}

/// Sort key of an attempt: committed ones first, in the order of their commits; a reader stands behind the last commit
/// that it can have seen.
fn order(attempt: &Attempt) -> (bool, u64, bool) {
    match attempt.end {
        End::Wrote(timestamp) => (false, timestamp, false),
        End::Read(timestamp) => (false, timestamp, true),
        End::Aborted(_) => (true, attempt.number, false),
    }
}

struct Resolver<'a> {
    attempts: &'a [Attempt],
    /// Position of each attempt by its number.
    numbers: HashMap<u64, usize>,
    keys: Vec<Vec<Dated>>,
    /// Place of each committed value: its key and the position of its version.
    values: HashMap<u64, (usize, usize)>,
    faults: Vec<String>,
}

/// Writes of a transaction by key.
type OwnWrites = BTreeMap<usize, Mine>;

#[derive(Debug, Clone, Copy)]
struct Mine {
    /// Value of the key, or none if the transaction removed the key.
    value: Option<u64>,
    /// True if this replaces the row that the snapshot has. A row inserted because the snapshot's row had been deleted
    /// since stands beside it.
    hides: bool,
}

impl Resolver<'_> {
    fn replay(&mut self, commits: &[Commit]) {
        let attempts = self.attempts;
        let by_timestamp: HashMap<u64, usize> = (attempts.iter().enumerate())
            .filter_map(|(at, attempt)| match attempt.end {
                End::Wrote(timestamp) => Some((timestamp, at)),
                End::Read(_) | End::Aborted(_) => None,
            })
            .collect();
        // Commits before the first attempt's make the initial rows and have no writer.
        let first = by_timestamp.keys().min().copied().unwrap_or(u64::MAX);
        let mut rows: HashMap<u64, (usize, u64)> = HashMap::new();
        let mut seen = 0;
        for commit in commits {
            let writer = by_timestamp.get(&commit.timestamp).copied();
            seen += usize::from(writer.is_some());
            if writer.is_none() && first < commit.timestamp {
                self.faults.push(format!("a commit at {} that no session was told of", commit.timestamp));
            }
            // An update may give the row another key: the old key then loses its row, and the new one gets it.
            let mut net: BTreeMap<usize, Option<u64>> = BTreeMap::new();
            for change in &commit.changes {
                let before = rows.get(&change.row).copied();
                if let Some((key, _)) = before {
                    net.insert(key, None);
                }
                if change.is_delete {
                    rows.remove(&change.row);
                    continue;
                }
                let key = change.key.or(before.map(|(key, _)| key));
                let value = change.value.or(before.map(|(_, value)| value));
                let (Some(key), Some(value)) = (key, value) else {
                    self.faults.push(format!("the record of {} changes a row that does not exist", commit.timestamp));
                    continue;
                };
                rows.insert(change.row, (key, value));
                net.insert(key, Some(value));
            }
            if let Some(writer) = writer {
                self.compare_record(writer, &net);
            }
            for (key, value) in net {
                self.add_version(commit.timestamp, writer, key, value);
            }
            let mut live: Vec<usize> = rows.values().map(|(key, _)| *key).collect();
            live.sort_unstable();
            if let Some(twice) = live.windows(2).find(|pair| pair[0] == pair[1]) {
                self.faults
                    .push(format!("the commit at {} makes a second row with key {}", commit.timestamp, twice[0]));
            }
        }
        if seen != by_timestamp.len() {
            let missing = by_timestamp.len() - seen;
            self.faults.push(format!("{missing} transactions were told that they committed, but left no record"));
        }
    }

    fn add_version(&mut self, timestamp: u64, writer: Option<usize>, key: usize, value: Option<u64>) {
        let versions = &mut self.keys[key];
        let content = value.map(content_of);
        if content.is_none() && versions.last().is_some_and(|last| last.version.content.is_none()) {
            // One transaction inserted and deleted the row: nothing happened.
            return;
        }
        if let Some(value) = value {
            self.values.insert(value, (key, versions.len()));
        }
        if writer.is_none() {
            versions.clear();
            value.map(|value| self.values.insert(value, (key, 0)));
        }
        versions.push(Dated { timestamp, version: Version { writer, content } });
    }

    /// Checks that the record has the writes that the transaction notes.
    fn compare_record(&mut self, at: usize, net: &BTreeMap<usize, Option<u64>>) {
        let attempt = &self.attempts[at];
        let mut stack = vec![OwnWrites::new()];
        for note in &attempt.notes {
            apply(note, &mut stack);
        }
        let own = stack.pop().unwrap_or_default();
        for key in own.keys().chain(net.keys()) {
            // A key that was inserted and removed again may be missing on either side.
            let wrote = own.get(key).and_then(|own| own.value);
            let record = net.get(key).copied().flatten();
            if wrote != record {
                self.faults.push(format!("{} left key {key} as {wrote:?}, its record says {record:?}", name(attempt)));
            }
        }
    }

    fn txn(&mut self, at: usize) -> Txn {
        let attempts = self.attempts;
        let attempt = &attempts[at];
        let fate = if is_aborted(attempt) { Fate::Aborted } else { Fate::Committed };
        let mut reads = Vec::new();
        let mut stack = vec![OwnWrites::new()];
        let mut now = 0;
        let undone = undone(&attempt.notes);
        for (note, undone) in attempt.notes.iter().zip(undone) {
            let own = stack.last().expect("the bottom of the stack stays");
            match note {
                Note::Statement { snapshot, floor } => {
                    now = *snapshot;
                    if snapshot < floor {
                        self.fault(attempt, &format!("began with snapshot {snapshot} after {floor} had been reported"));
                    }
                }
                Note::Found { key, value } => self.found(attempt, own, *key, *value, Some(now), &mut reads),
                Note::Locked { key, value } => self.found(attempt, own, *key, *value, None, &mut reads),
                Note::Looked { predicate, found } => {
                    self.looked(attempt, own, *predicate, *found, now, &mut reads);
                }
                Note::Wrote { key, value, base } => {
                    if let Some(base) = base {
                        self.found(attempt, own, *key, *base, None, &mut reads);
                    }
                    // An undone write gave the row back: another version may have come before the next write.
                    if !own.contains_key(key) && !undone {
                        self.check_base(at, *key, *value, *base);
                    }
                }
                Note::Removed { key, base: Some(base) } => self.found(attempt, own, *key, *base, None, &mut reads),
                Note::Removed { base: None, .. } | Note::Savepoint | Note::RolledBack | Note::Released => {}
            }
            apply(note, &mut stack);
        }
        Txn { name: name(attempt), fate, reads }
    }

    /// Checks a read that returned a row.
    fn found(
        &mut self,
        attempt: &Attempt,
        own: &OwnWrites,
        key: usize,
        value: u64,
        snapshot: Option<u64>,
        reads: &mut Vec<Read>,
    ) {
        match own.get(&key) {
            Some(own) if own.value == Some(value) => return,
            // An attempt that is being aborted may find a row in its earlier state, until the session learns of the
            // abort.
            Some(own) if own.hides && is_aborted(attempt) => return,
            Some(own) if own.hides => {
                let own = own.value;
                return self.fault(attempt, &format!("read key {key} as {value:#x}, though it had made it {own:x?}"));
            }
            _ => {}
        }
        let seen = match self.values.get(&value) {
            Some((at, _)) if *at != key => {
                return self.fault(attempt, &format!("read key {key} as {value:#x}, which key {at} got"));
            }
            Some((_, version)) => ReadVersion::At(*version),
            None => match self.numbers.get(&writer_of(value)) {
                Some(writer) if is_aborted(&self.attempts[*writer]) => ReadVersion::Undone(*writer),
                Some(writer) => ReadVersion::Intermediate(*writer),
                None => return self.fault(attempt, &format!("read key {key} as {value:#x}, which nobody wrote")),
            },
        };
        if let Some(snapshot) = snapshot {
            let right = self.version_at(key, snapshot);
            if seen != ReadVersion::At(right) {
                let content = self.keys[key][right].version.content;
                let words = format!("read key {key} as {value:#x}; its snapshot {snapshot} has {content:x?}");
                self.fault(attempt, &words);
            }
        }
        reads.push(Read { key, seen, missed: None });
    }

    /// Checks a search that found only some of the rows.
    fn looked(
        &mut self,
        attempt: &Attempt,
        own: &OwnWrites,
        predicate: Predicate,
        found: u64,
        snapshot: u64,
        reads: &mut Vec<Read>,
    ) {
        for key in (0..self.keys.len()).filter(|key| predicate.concerns(*key) && found & (1 << key) == 0) {
            let own = own.get(&key);
            let at = self.version_at(key, snapshot);
            let old = self.keys[key][at].version.content.filter(|_| own.is_none_or(|own| !own.hides));
            let new: Option<Content> = own.and_then(|own| own.value).map(content_of);
            if own.is_some() && is_aborted(attempt) {
                continue;
            }
            if predicate.holds(key, old) || predicate.holds(key, new) {
                let words =
                    format!("looked for {predicate} in snapshot {snapshot} and missed key {key}, {old:x?}, {new:x?}");
                self.fault(attempt, &words);
            } else if own.is_none() {
                reads.push(Read { key, seen: ReadVersion::At(at), missed: Some(predicate) });
            }
        }
    }

    /// Checks that a committed write replaced the version directly before its own.
    fn check_base(&mut self, at: usize, key: usize, value: u64, base: Option<u64>) {
        let attempt = &self.attempts[at];
        let Some(version) = self.keys[key].iter().position(|dated| dated.version.writer == Some(at)) else { return };
        let before = self.keys[key][version - 1].version.content.map(|content| content.value);
        if before != base {
            let words = format!("wrote key {key} as {value:#x} over {base:x?}, but the version before is {before:x?}");
            self.fault(attempt, &words);
        }
    }

    fn version_at(&self, key: usize, snapshot: u64) -> usize {
        self.keys[key].partition_point(|dated| dated.timestamp <= snapshot).saturating_sub(1)
    }

    fn fault(&mut self, attempt: &Attempt, words: &str) {
        self.faults.push(format!("{} {words}", name(attempt)));
    }
}

/// Keeps the stack of a transaction's writes, one map per savepoint.
fn apply(note: &Note, stack: &mut Vec<OwnWrites>) {
    let top = stack.last_mut().expect("the bottom of the stack stays");
    match note {
        Note::Wrote { key, value, base } => {
            let hides = top.get(key).map_or(base.is_some(), |before| before.hides);
            top.insert(*key, Mine { value: Some(*value), hides });
        }
        Note::Removed { key, .. } => {
            let hides = top.get(key).is_none_or(|before| before.hides);
            top.insert(*key, Mine { value: None, hides });
        }
        Note::Savepoint => {
            let copy = top.clone();
            stack.push(copy);
        }
        Note::RolledBack => drop(stack.pop()),
        Note::Released => {
            let top = stack.pop().unwrap_or_default();
            *stack.last_mut().expect("the bottom of the stack stays") = top;
        }
        Note::Statement { .. } | Note::Found { .. } | Note::Locked { .. } | Note::Looked { .. } => {}
    }
}

fn is_aborted(attempt: &Attempt) -> bool {
    matches!(attempt.end, End::Aborted(_))
}

/// Returns, for each note, whether a rollback to a savepoint undid it.
fn undone(notes: &[Note]) -> Vec<bool> {
    let mut undone = vec![false; notes.len()];
    let mut savepoints = Vec::new();
    for (at, note) in notes.iter().enumerate() {
        match note {
            Note::Savepoint => savepoints.push(at),
            Note::Released => drop(savepoints.pop()),
            Note::RolledBack => {
                let from = savepoints.pop().unwrap_or(at);
                undone[from..at].fill(true);
            }
            _ => {}
        }
    }
    undone
}

fn name(attempt: &Attempt) -> String {
    let end = match attempt.end {
        End::Read(_) => "reader".to_owned(),
        End::Wrote(timestamp) => format!("committed at {timestamp}"),
        End::Aborted(why) => format!("aborted: {why}"),
    };
    format!("T{} (session {}, {end})", attempt.number, attempt.session)
}
