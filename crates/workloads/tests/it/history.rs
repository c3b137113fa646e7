//! Random histories, short ones: the long form is `overtake bench history`.

use engine::Isolation;
use workloads::history::{Anomaly, RoundConfig, RoundOutcome, round};

/// Runs rounds, each with another number of keys, until they have found the anomalies that the level allows; at least a
/// few.
fn rounds(isolation: Isolation, seed: u64) -> RoundOutcome {
    let mut all = RoundOutcome::default();
    for (count, keys) in (0_u64..).zip([3, 6, 12, 24].into_iter().cycle()) {
        all.add(round(&RoundConfig {
            isolation,
            threads: 3,
            sessions: 3,
            transactions: 4_000,
            keys,
            seed: seed + count,
        }));
        let done = all.missing(isolation).is_empty() || 16 <= count;
        if all.is_wrong(isolation) || (4 <= count && done) {
            break;
        }
    }
    let counts: Vec<_> = Anomaly::ALL.iter().map(|anomaly| (anomaly.name(), all.findings.count(*anomaly))).collect();
    println!("{isolation:?}: {} committed, {} urgent, {:?}, {counts:?}", all.committed, all.urgent, all.aborted);
    for anomaly in all.forbidden(isolation) {
        println!("{}:\n{}", anomaly.name(), all.findings.examples[&anomaly].words);
    }
    all.faults.iter().take(10).for_each(|fault| println!("{fault}"));
    if let Some(evidence) = &all.evidence {
        let path = testkit::folder("history").keep().join("history.txt");
        std::fs::write(&path, evidence).unwrap();
        println!("the whole history is in {}", path.display());
    }
    assert!(!all.is_wrong(isolation), "{isolation:?}");
    all
}

/// READ COMMITTED: nothing is read that was not committed, and lost updates are found, as is everything that is weaker.
pub fn read_committed_allows_lost_updates() {
    let all = rounds(Isolation::ReadCommitted, 3);
    assert_eq!(all.missing(Isolation::ReadCommitted), []);
}

/// REPEATABLE READ: snapshots are consistent and updates are not lost, but write skew on rows, and on missing rows, is
/// found: so the checker sees the anomalies that it looks for.
pub fn repeatable_read_allows_write_skew_and_no_more() {
    let all = rounds(Isolation::RepeatableRead, 1);
    assert_eq!(all.missing(Isolation::RepeatableRead), []);
}

/// SERIALIZABLE: nothing is found.
pub fn serializable_allows_nothing() {
    rounds(Isolation::Serializable, 2);
}
