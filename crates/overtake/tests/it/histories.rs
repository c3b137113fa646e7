//! Goal: SERIALIZABLE transactions behave as if one ran after the other, whichever path their queries take. Method:
//! sessions read one key or all, by rows or as analytics, and then replace a value or insert a key that they did not
//! find. Each value is written once, and each writer has read the value that it replaces, so the values alone order the
//! versions of a key. The dependencies that follow from them (Adya 1999) must have no cycle. At REPEATABLE READ the
//! same sessions must make one: the check can fail.

use crate::serve::{connect, runtime, serve};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

const SESSIONS: u64 = 4;
const TRANSACTIONS: u64 = 60;
/// Number of keys that are there from the beginning.
const KEYS: u64 = 4;
/// Maximum number of keys: others may be inserted, up to this one.
const KEYS_MAX: u64 = 24;
/// Value of a key that is not there.
const ABSENT: u64 = 0;

/// Committed transaction: values that it read, and the value that it wrote last.
#[derive(Debug)]
struct Txn {
    reads: HashMap<u64, u64>,
    write: Option<(u64, u64)>,
}

/// Random number generator by Marsaglia (Xorshift RNGs, 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Runs one transaction; returns nothing if it could not be serialized.
async fn transaction(client: &Client, level: &str, random: &mut Random, next: &AtomicU64) -> Option<Txn> {
    match attempt(client, level, random, next).await {
        Ok(txn) => Some(txn),
        Err(error) => {
            let is_conflict = [Some(&SqlState::T_R_SERIALIZATION_FAILURE), Some(&SqlState::UNIQUE_VIOLATION)];
            assert!(is_conflict.contains(&error.code()), "{error:?}");
            client.batch_execute("rollback").await.unwrap();
            None
        }
    }
}

async fn attempt(
    client: &Client,
    level: &str,
    random: &mut Random,
    next: &AtomicU64,
) -> Result<Txn, tokio_postgres::Error> {
    client.batch_execute(&format!("begin isolation level {level}")).await?;
    let mut reads = HashMap::new();
    for _ in 0..=random.below(3) {
        let path = ["row", "analytics"][random.below(2) as usize];
        let only = random.below(KEYS);
        let keys = if random.below(2) == 0 { 0..KEYS_MAX } else { only..only + 1 };
        let (first, end) = (keys.start, keys.end);
        let query = format!("select k, v from register where {first} <= k and k < {end}");
        client.batch_execute(&format!("set local overtake.path = {path}")).await?;
        let mut found = HashMap::new();
        for message in client.simple_query(&query).await? {
            if let SimpleQueryMessage::Row(row) = message {
                let number = |at| row.get(at).and_then(|text: &str| text.parse().ok()).unwrap();
                found.insert(number(0), number(1));
            }
        }
        for key in keys {
            let value = found.get(&key).copied().unwrap_or(ABSENT);
            let before = *reads.entry(key).or_insert(value);
            assert_eq!(before, value, "key {key} changed within a snapshot, now by {path}");
        }
    }
    let mut write = None;
    if random.below(4) != 0 {
        let mut seen: Vec<_> = reads.iter().collect();
        seen.sort_unstable();
        // The initial keys get more of the writes.
        let among = if random.below(8) == 0 { seen.len() } else { seen.len().min(KEYS as usize) };
        let (key, before) = seen[random.below(among as u64) as usize];
        let value = next.fetch_add(1, Relaxed);
        let statement = match *before {
            ABSENT => format!("insert into register values ({key}, {value})"),
            _ => format!("update register set v = {value} where k = {key}"),
        };
        client.batch_execute(&statement).await?;
        write = Some((*key, value));
    }
    client.batch_execute("commit").await?;
    Ok(Txn { reads, write })
}

/// Runs all sessions. Returns the committed transactions, and the values at the end.
async fn history(url: &str, level: &'static str, seed: u64) -> (Vec<Txn>, HashMap<u64, u64>) {
    let admin = connect(url).await;
    let first: Vec<String> = (0..KEYS).map(|key| format!("({key}, {})", key + 1)).collect();
    let make = "drop table if exists register; create table register (k int8 primary key, v int8 not null)";
    admin.batch_execute(&format!("{make}; insert into register values {}", first.join(", "))).await.unwrap();
    let next = std::sync::Arc::new(AtomicU64::new(KEYS + 1));
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|session| {
            let (url, next) = (url.to_owned(), next.clone());
            tokio::spawn(async move {
                let client = connect(&url).await;
                let mut random = Random((seed * SESSIONS + session + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
                let mut committed = Vec::new();
                for _ in 0..TRANSACTIONS {
                    committed.extend(transaction(&client, level, &mut random, &next).await);
                }
                committed
            })
        })
        .collect();
    let mut all = Vec::new();
    for session in sessions {
        all.extend(session.await.unwrap());
    }
    let rows = admin.query("select k, v from register", &[]).await.unwrap();
    let last = rows.iter().map(|row| (row.get::<_, i64>(0) as u64, row.get::<_, i64>(1) as u64)).collect();
    (all, last)
}

/// Returns the transactions that no serial order can hold: each is behind another of them.
///
/// # Panics
/// If an update was lost, or no transaction wrote a value.
fn on_cycles(txns: &[Txn], last: &HashMap<u64, u64>) -> Vec<usize> {
    let mut writers = HashMap::new();
    let mut successors = HashMap::new();
    for (at, txn) in txns.iter().enumerate() {
        if let Some((key, value)) = txn.write {
            writers.insert((key, value), at);
            let other = successors.insert((key, txn.reads[&key]), at);
            assert!(other.is_none(), "an update is lost: {:?} and {txn:?}", other.map(|other| &txns[other]));
        }
    }
    for (key, value) in last {
        assert!(!successors.contains_key(&(*key, *value)), "the last write of key {key} is gone");
    }
    let mut edges: HashSet<(usize, usize)> = HashSet::new();
    for (at, txn) in txns.iter().enumerate() {
        for read in txn.reads.iter().map(|(key, value)| (*key, *value)) {
            let is_first = read.1 == ABSENT || read == (read.0, read.0 + 1);
            assert!(is_first || writers.contains_key(&read), "{read:?} was read, and not committed");
            edges.extend(writers.get(&read).map(|writer| (*writer, at)));
            edges.extend(successors.get(&read).filter(|other| **other != at).map(|other| (at, *other)));
        }
    }
    let mut before = vec![0; txns.len()];
    edges.iter().for_each(|(_, to)| before[*to] += 1);
    let mut free: VecDeque<usize> = (0..txns.len()).filter(|at| before[*at] == 0).collect();
    let mut left: HashSet<usize> = (0..txns.len()).collect();
    while let Some(at) = free.pop_front() {
        left.remove(&at);
        for (_, to) in edges.iter().filter(|(from, _)| *from == at) {
            before[*to] -= 1;
            if before[*to] == 0 {
                free.push_back(*to);
            }
        }
    }
    let mut left: Vec<usize> = left.into_iter().collect();
    left.sort_unstable();
    left
}

/// Goal: histories at SERIALIZABLE have no cycle. The test counts the commits, so that a server that aborts everything
/// does not pass.
pub fn serializable_histories_have_no_cycle_on_either_path() {
    let (_program, url) = serve(&[]);
    runtime().block_on(async {
        let (mut committed, mut attempted) = (0, 0);
        for seed in 0..6 {
            let (txns, last) = history(&url, "serializable", seed).await;
            let cycles = on_cycles(&txns, &last);
            assert!(cycles.is_empty(), "seed {seed}: {:#?}", cycles.iter().map(|at| &txns[*at]).collect::<Vec<_>>());
            committed += txns.len() as u64;
            attempted += SESSIONS * TRANSACTIONS;
        }
        assert!(attempted / 4 < committed, "{committed} of {attempted} were committed");
        println!("{committed} of {attempted} were committed");
        for seed in 0.. {
            assert!(seed < 20, "REPEATABLE READ allows what the check should have found");
            let (txns, last) = history(&url, "repeatable read", seed).await;
            if !on_cycles(&txns, &last).is_empty() {
                break;
            }
        }
    });
}
