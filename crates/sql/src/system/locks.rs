//! Locks, their holders and their waiters: `overtake.locks`, `pg_locks`, `pg_blocking_pids`.
//!
//! `overtake.locks` shows the engine's locks as they are. `pg_locks` shows them as PostgreSQL would: a session that
//! waits for a row waits for the end of a transaction, which holds a lock on itself.
//!
//! **Invariant:** every session that is reported to block another has a row of its own, so a join finds it.

use super::functions::{integer, line, snapshot};
use super::server::DATABASE_OID;
use super::{SystemContext, SystemRows, array, int, oid, or_null, text, yes};
use catalog::CatalogState;
use engine::{Advisory, LockView, Table, Waited, WantedLock};
use statement::error::SqlResult;
use std::collections::{BTreeMap, HashMap};
use types::datum::Datum;
use types::ops::{CallContext, Function, get};
use types::{Element, Kind};

/// Returns the engine's name of a session. [`pid`] is the inverse.
pub(crate) fn session_name(user: &str, pid: u32) -> String {
    format!("{user} {pid}")
}

/// Returns the process ID in a session's name. Sessions of programs that use the engine without SQL may have none.
fn pid(session: Option<&str>) -> Option<i32> {
    session?.rsplit(' ').next()?.parse().ok()
}

/// Locks, and the sessions of their transactions.
struct LockList {
    all: Vec<LockView>,
    sessions: HashMap<u64, i32>,
}

impl LockList {
    fn of(snapshot: &catalog::CatalogSnapshot) -> LockList {
        let all = snapshot.provider.as_ref().map(|provider| provider.locks()).unwrap_or_default();
        let of = |lock: &LockView| Some((lock.transaction, pid(lock.session.as_deref())?));
        LockList { sessions: all.iter().filter_map(of).collect(), all }
    }

    /// Returns the process ID of a transaction's session; 0, as in PostgreSQL, for a transaction without a process.
    fn whose(&self, transaction: u64) -> i32 {
        self.sessions.get(&transaction).copied().unwrap_or(0)
    }

    /// Returns the process IDs of the sessions that block a lock.
    fn blockers(&self, lock: &LockView) -> Vec<i32> {
        let mut pids: Vec<i32> = lock.blocked_by.iter().map(|transaction| self.whose(*transaction)).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }
}

/// OIDs of relations by the engine's table numbers. A table that was replaced, or is not committed, has none.
struct RelationOids(HashMap<u32, u32>);

impl RelationOids {
    fn of(state: &CatalogState) -> RelationOids {
        let tables = state.tables().map(|table| (table.table.number(), table.oid));
        let sequences = state.sequences().map(|sequence| (sequence.shared.lock.number(), sequence.oid));
        RelationOids(tables.chain(sequences).collect())
    }

    fn locked_by(&self, lock: &LockView) -> Datum {
        or_null(lock.table_number.and_then(|number| self.0.get(&number).copied()), oid)
    }
}

fn pids(pids: Vec<i32>) -> Datum {
    array(pids.into_iter().map(Datum::Int4))
}

/// Adds the rows of `overtake.locks`.
pub(super) fn locks(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    let locks = LockList::of(source.snapshot);
    let relations = RelationOids::of(source.state());
    for lock in &locks.all {
        rows.add([
            ("relation", relations.locked_by(lock)),
            ("row", or_null(lock.row, |row| int(row as i64))),
            ("advisory", or_null(lock.advisory, |lock| text(numbers(lock)))),
            ("mode", text(lock.mode)),
            ("granted", yes(lock.granted)),
            ("woken", yes(lock.woken)),
            ("pid", or_null(locks.sessions.get(&lock.transaction), |pid| int((*pid).into()))),
            ("class", or_null(lock.class, |class| text(class.name()))),
            ("transaction", or_null(Some(lock.transaction).filter(|_| !lock.of_session), |id| int(id as i64))),
            ("blocked_by", if lock.granted { Datum::Null } else { pids(locks.blockers(lock)) }),
        ]);
    }
    Ok(())
}

/// Returns the key of an advisory lock, as the application writes it.
fn numbers(lock: Advisory) -> String {
    match lock {
        Advisory::One(number) => number.to_string(),
        Advisory::Two(first, second) => format!("{first}, {second}"),
        Advisory::Program(_) => "definitions".to_owned(),
    }
}

/// Returns `classid`, `objid` and `objsubid` of an advisory lock; `None` for one that PostgreSQL does not have.
fn parts(lock: Advisory) -> Option<(u32, u32, i64)> {
    match lock {
        Advisory::One(number) => Some(((number as u64 >> 32) as u32, number as u32, 1)),
        Advisory::Two(first, second) => Some((first as u32, second as u32, 2)),
        Advisory::Program(_) => None,
    }
}

/// Returns PostgreSQL's name of a lock mode: `ShareRowExclusiveLock` for `share row exclusive`.
fn mode(words: &str) -> String {
    // The modes of row locks in PostgreSQL, for waiters.
    let words = match words {
        "for update" | "for no key update" => "exclusive",
        "for share" | "for key share" | "transaction" => "share",
        other => other,
    };
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    words.split(' ').map(capital).collect::<String>() + "Lock"
}

/// Returns a transaction's ID in the 32 bits that PostgreSQL has for it.
fn short(transaction: u64) -> u32 {
    transaction as u32
}

fn xid(transaction: u64) -> Datum {
    oid(short(transaction))
}

/// Adds the rows of `pg_locks`.
pub(super) fn pg_locks(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    let locks = LockList::of(source.snapshot);
    let relations = RelationOids::of(source.state());
    // Transactions that block others, or wait, hold the lock on themselves.
    let mut alive = BTreeMap::new();
    for lock in &locks.all {
        let whose = |transaction: u64| (transaction, locks.whose(transaction));
        if !lock.granted && lock.advisory.is_none() {
            alive.extend(lock.blocked_by.iter().copied().chain([lock.transaction]).map(whose));
        }
    }
    let held_by = |transaction: u64, pid: i32| {
        [
            ("virtualtransaction", text(format!("{pid}/{transaction}"))),
            ("pid", int(pid.into())),
            ("fastpath", yes(false)),
        ]
    };
    for (transaction, pid) in alive {
        let own = [("locktype", text("transactionid")), ("transactionid", xid(transaction))];
        let how = [("mode", text("ExclusiveLock")), ("granted", yes(true))];
        rows.add(own.into_iter().chain(how).chain(held_by(transaction, pid)));
    }
    for lock in &locks.all {
        let own = if lock.of_session { 0 } else { lock.transaction };
        let held_by = held_by(own, locks.whose(lock.transaction));
        let is_table = lock.table_number.is_some() && lock.row.is_none();
        if is_table {
            let what = [
                ("locktype", text("relation")),
                ("database", oid(DATABASE_OID)),
                ("relation", relations.locked_by(lock)),
                ("mode", text(mode(lock.mode))),
                ("granted", yes(lock.granted)),
            ];
            rows.add(what.into_iter().chain(held_by));
        } else if let Some(advisory) = lock.advisory {
            let Some((class, object, parts)) = parts(advisory) else { continue };
            let what = [
                ("locktype", text("advisory")),
                ("database", oid(DATABASE_OID)),
                ("classid", oid(class)),
                ("objid", oid(object)),
                ("objsubid", int(parts)),
                ("mode", text(mode(lock.mode))),
                ("granted", yes(lock.granted)),
            ];
            rows.add(what.into_iter().chain(held_by));
        } else if !lock.granted {
            for other in &lock.blocked_by {
                let what = [
                    ("locktype", text("transactionid")),
                    ("transactionid", xid(*other)),
                    ("mode", text("ShareLock")),
                    ("granted", yes(false)),
                ];
                rows.add(what.into_iter().chain(held_by.clone()));
            }
        }
    }
    Ok(())
}

/// Describes the object of a lock request.
pub(crate) fn named(state: &CatalogState, wanted: &WantedLock) -> String {
    if let Some(advisory) = wanted.advisory {
        return match parts(advisory) {
            Some((class, object, parts)) => format!("advisory lock [{DATABASE_OID},{class},{object},{parts}]"),
            None => "the catalog".to_owned(),
        };
    }
    if let Some(transaction) = wanted.transaction {
        return format!("transaction {}", short(transaction));
    }
    let number = |table: &Table| wanted.table == Some(table.number());
    let table = state.tables().find(|table| number(&table.table)).map(|table| &table.name);
    let found = table.or_else(|| state.sequences().find(|one| number(&one.shared.lock)).map(|one| &one.name));
    match (found, wanted.row) {
        (Some(name), Some(_)) => format!("row in relation \"{name}\""),
        (Some(name), None) => format!("relation \"{name}\""),
        // The table is being created by another transaction, or was replaced.
        (None, Some(_)) => "row".to_owned(),
        (None, None) => "relation".to_owned(),
    }
}

/// Describes the waits of a deadlock, one per line.
pub(crate) fn circle(state: &CatalogState, circle: &[Waited]) -> String {
    let process = |at: usize| {
        let session = &circle[at % circle.len()].session;
        pid(Some(session)).map_or_else(|| format!("Session \"{session}\""), |pid| format!("Process {pid}"))
    };
    let line = |at: usize| {
        let wanted = &circle[at].wanted;
        let next = process(at + 1);
        let by = next[..1].to_lowercase() + &next[1..];
        format!("{} waits for {} on {}; blocked by {by}.", process(at), mode(wanted.mode), named(state, wanted))
    };
    (0..circle.len()).map(line).collect::<Vec<_>>().join("\n")
}

/// Executes `pg_blocking_pids`. A woken waiter does not count as waiting, though it may wait again.
fn blocking_pids(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let waiter = integer(args.first())? as i32;
    let locks = LockList::of(snapshot(env)?);
    let waits = |lock: &&LockView| !lock.granted && !lock.woken && locks.whose(lock.transaction) == waiter;
    let mut all: Vec<i32> = locks.all.iter().filter(waits).flat_map(|lock| locks.blockers(lock)).collect();
    all.sort_unstable();
    all.dedup();
    Ok(pids(all))
}

/// Returns true if a session waits for one of the given sessions.
fn is_blocked(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let blockers = blocking_pids(&args[..1], env)?;
    let interesting = get::items(&args[1])?.iter().map(get::int).collect::<SqlResult<Vec<_>>>()?;
    let blockers = get::items(&blockers)?.iter().map(get::int).collect::<SqlResult<Vec<_>>>()?;
    Ok(Datum::Bool(blockers.iter().any(|pid| interesting.contains(pid))))
}

pub(super) fn functions() -> Vec<Function> {
    const PIDS: Kind = Kind::Array(Element::Int4);
    let volatile = |function: Function| Function { volatile: true, ..function };
    vec![
        volatile(line("pg_blocking_pids", &[Kind::Int4], PIDS, blocking_pids)),
        volatile(line("pg_isolation_test_session_is_blocked", &[Kind::Int4, PIDS], Kind::Bool, is_blocked)),
        // No session waits for a safe snapshot: read-only transactions are never checked.
        volatile(line("pg_safe_snapshot_blocking_pids", &[Kind::Int4], PIDS, |_, _| Ok(pids(Vec::new())))),
    ]
}

#[cfg(test)]
mod tests {
    use super::{mode, pid, session_name};

    #[test]
    fn names_are_read_back() {
        assert_eq!(pid(Some(&session_name("a role", 12))), Some(12));
        assert_eq!((pid(Some("urgent")), pid(None)), (None, None));
        assert_eq!(mode("share row exclusive"), "ShareRowExclusiveLock");
    }
}
