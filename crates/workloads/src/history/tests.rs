//! Histories made by hand, one for each anomaly, and their innocent neighbours.

use super::*;
use engine::Isolation;

/// History of transactions T0, T1, ... that committed in this order, with one row per key that was there before.
struct Hand(History);

fn content(value: u64) -> Option<Content> {
    Some(Content { group: (value % 10) as i64, value })
}

fn history(txns: usize, keys: usize) -> Hand {
    let txn = |at: usize| Txn { name: format!("T{at}"), fate: Fate::Committed, reads: Vec::new() };
    let first = |key: usize| vec![Version { writer: None, content: content(key as u64) }];
    Hand(History { txns: (0..txns).map(txn).collect(), keys: (0..keys).map(first).collect() })
}

impl Hand {
    /// Notes that the transaction read the key in its version `at`.
    fn read(mut self, txn: usize, key: usize, at: usize) -> Hand {
        self.0.txns[txn].reads.push(Read { key, seen: ReadVersion::At(at), missed: None });
        self
    }

    /// Notes that the transaction looked for the predicate and saw that the key's version `at` does not fulfil it.
    fn missed(mut self, txn: usize, predicate: Predicate, key: usize, at: usize) -> Hand {
        assert!(!predicate.holds(key, self.0.keys[key][at].content));
        self.0.txns[txn].reads.push(Read { key, seen: ReadVersion::At(at), missed: Some(predicate) });
        self
    }

    fn saw(mut self, txn: usize, key: usize, seen: ReadVersion) -> Hand {
        self.0.txns[txn].reads.push(Read { key, seen, missed: None });
        self
    }

    /// Notes that the transaction wrote the key's next version.
    fn wrote(mut self, txn: usize, key: usize, value: u64) -> Hand {
        self.0.keys[key].push(Version { writer: Some(txn), content: content(value) });
        self
    }

    fn deleted(mut self, txn: usize, key: usize) -> Hand {
        self.0.keys[key].push(Version { writer: Some(txn), content: None });
        self
    }

    fn absent(mut self, key: usize) -> Hand {
        self.0.keys[key][0].content = None;
        self
    }

    /// Checks that exactly these anomalies are found.
    fn has(&self, anomalies: &[Anomaly]) -> Findings {
        let findings = check(&self.0);
        assert_eq!(findings.counts.keys().copied().collect::<Vec<_>>(), anomalies, "{:?}", findings.examples);
        findings
    }
}

#[test]
fn a_serial_history_has_nothing() {
    history(3, 2).read(0, 0, 0).wrote(0, 0, 10).read(1, 0, 1).wrote(1, 0, 11).wrote(1, 1, 12).read(2, 1, 1).has(&[]);
    // Two concurrent transactions that change different rows.
    history(2, 2).read(0, 0, 0).wrote(0, 0, 10).read(1, 1, 0).wrote(1, 1, 11).has(&[]);
    // A reader of the old state comes before the writer, even if it ends later.
    history(2, 2).wrote(0, 0, 10).wrote(0, 1, 11).read(1, 0, 0).read(1, 1, 0).has(&[]);
}

#[test]
fn dirty_writes_are_g0() {
    let dirty = history(2, 2).wrote(0, 0, 10).wrote(1, 0, 11).wrote(1, 1, 12).wrote(0, 1, 13);
    let words = &dirty.has(&[Anomaly::G0]).examples[&Anomaly::G0].words;
    assert!(words.contains("T0 wrote key 0, and T1 replaced that\n"), "{words}");
    assert!(words.contains("T1 wrote key 1, and T0 replaced that\n"), "{words}");
    history(2, 2).wrote(0, 0, 10).wrote(1, 0, 11).wrote(0, 1, 12).wrote(1, 1, 13).has(&[]);
}

#[test]
fn reads_of_the_undone_are_g1a_and_of_the_unfinished_g1b() {
    history(2, 1).saw(1, 0, ReadVersion::Undone(0)).has(&[Anomaly::G1a]);
    history(2, 1).wrote(0, 0, 10).saw(1, 0, ReadVersion::Intermediate(0)).has(&[Anomaly::G1b]);
    // An aborted reader harms nobody.
    let mut aborted = history(2, 1).saw(1, 0, ReadVersion::Undone(0));
    aborted.0.txns[1].fate = Fate::Aborted;
    aborted.has(&[]);
}

#[test]
fn circular_information_flow_is_g1c() {
    let circle = history(2, 2).wrote(0, 0, 10).wrote(1, 1, 11).read(0, 1, 1).read(1, 0, 1);
    let words = &circle.has(&[Anomaly::G1c]).examples[&Anomaly::G1c].words;
    assert!(words.contains("T0 wrote key 0, and T1 read that\n"), "{words}");
    history(2, 2).wrote(0, 0, 10).wrote(1, 1, 11).read(1, 0, 1).has(&[]);
    // By a write instead of one of the reads.
    history(2, 2).wrote(0, 0, 10).read(1, 0, 1).wrote(1, 1, 11).wrote(0, 1, 12).has(&[Anomaly::G1c]);
}

#[test]
fn a_lost_update_is_told_from_read_skew() {
    let lost = history(2, 1).read(0, 0, 0).read(1, 0, 0).wrote(0, 0, 10).wrote(1, 0, 11);
    let words = &lost.has(&[Anomaly::LostUpdate]).examples[&Anomaly::LostUpdate].words;
    assert_eq!(words, "T1 read key 0 in a version that T0 replaced\nT0 wrote key 0, and T1 replaced that\n");
    // The second read what the first wrote.
    history(2, 1).read(0, 0, 0).read(1, 0, 1).wrote(0, 0, 10).wrote(1, 0, 11).has(&[]);
    let skew = history(2, 2).read(1, 0, 0).wrote(0, 0, 10).wrote(0, 1, 11).read(1, 1, 1);
    skew.has(&[Anomaly::GSingle]);
    // The same through a third transaction.
    history(3, 3)
        .wrote(0, 0, 10)
        .wrote(0, 1, 11)
        .read(1, 1, 1)
        .wrote(1, 2, 12)
        .read(2, 2, 1)
        .read(2, 0, 0)
        .has(&[Anomaly::GSingle]);
}

#[test]
fn write_skew_on_rows_is_g2_item() {
    let skew = history(2, 2).read(0, 0, 0).read(0, 1, 0).read(1, 0, 0).read(1, 1, 0).wrote(0, 0, 10).wrote(1, 1, 11);
    let findings = skew.has(&[Anomaly::G2Item]);
    assert_eq!(findings.examples[&Anomaly::G2Item].length, 2);
    // Only one of the two read the other one's row.
    history(2, 2).read(0, 0, 0).read(0, 1, 0).read(1, 1, 0).wrote(0, 0, 10).wrote(1, 1, 11).has(&[]);
    // The read-only anomaly of Fekete, O'Neil and O'Neil: T0 is the writer, T1 the reader, T2 the transaction that
    // makes it wrong.
    let fekete = history(3, 2).wrote(0, 1, 20).read(1, 0, 0).read(1, 1, 1).read(2, 0, 0).read(2, 1, 0).wrote(2, 0, 30);
    fekete.has(&[Anomaly::G2Item]);
    let without_the_reader = history(3, 2).wrote(0, 1, 20).read(2, 0, 0).read(2, 1, 0).wrote(2, 0, 30);
    without_the_reader.has(&[]);
}

#[test]
fn write_skew_on_what_is_missing_is_g2() {
    let absent = |txn| move |hand: Hand, key| hand.missed(txn, Predicate::Keys(key, key), key, 0);
    let both = absent(1)(absent(0)(history(2, 2).absent(0).absent(1), 1), 0).wrote(0, 0, 10).wrote(1, 1, 11);
    let words = &both.has(&[Anomaly::G2]).examples[&Anomaly::G2].words;
    assert!(words.contains("T0 looked for key 1 and did not find key 1, which T1 put there\n"), "{words}");
    absent(0)(history(2, 2).absent(0).absent(1), 1).wrote(0, 0, 10).wrote(1, 1, 11).has(&[]);
    // One anti-dependency on a row, one on a missing row.
    absent(0)(history(2, 2).absent(1), 1).wrote(0, 0, 10).read(1, 0, 0).wrote(1, 1, 11).has(&[Anomaly::G2]);
}

#[test]
fn what_a_predicate_missed_matters_only_when_it_fulfils_it() {
    let sevens = Predicate::Groups(7, 7);
    // Key 1 changes, but never becomes a seven; T1 read the row that T0 wrote.
    let harmless = history(2, 2).missed(0, sevens, 1, 0).wrote(0, 0, 10).read(1, 0, 0).wrote(1, 1, 12);
    harmless.has(&[]);
    let harmful = history(2, 2).missed(0, sevens, 1, 0).wrote(0, 0, 10).read(1, 0, 0).wrote(1, 1, 17);
    harmful.has(&[Anomaly::G2]);
    // A later version than the next one fulfils the predicate.
    let later = history(3, 2).missed(0, sevens, 1, 0).wrote(0, 0, 10).read(2, 0, 0).wrote(1, 1, 12).wrote(2, 1, 17);
    later.has(&[Anomaly::G2]);
    assert!(!Predicate::Keys(0, 3).holds(0, None));
}

#[test]
fn who_misses_a_deleted_row_comes_after_the_deletion() {
    // T1 saw that T0 deleted key 0, but read key 1 as it was before T0.
    let one = Predicate::Keys(0, 0);
    let skew = history(2, 2).deleted(0, 0).wrote(0, 1, 10).missed(1, one, 0, 1).read(1, 1, 0);
    let words = &skew.has(&[Anomaly::GSingle]).examples[&Anomaly::GSingle].words;
    assert!(words.contains("T0 took key 0 from key 0, and T1 did not find it there\n"), "{words}");
    history(2, 2).deleted(0, 0).wrote(0, 1, 10).missed(1, one, 0, 1).read(1, 1, 1).has(&[]);
    // A phantom: T1 missed the key, then read another row of the key's inserter.
    let phantom = history(2, 2).absent(0).wrote(0, 0, 10).wrote(0, 1, 11).missed(1, one, 0, 0).read(1, 1, 1);
    phantom.has(&[Anomaly::GSingle]);
}

#[test]
fn a_key_that_is_used_again_is_another_row() {
    // T1 read the row that T0 deleted, and inserted another one with its key: no lost update, but as bad
    // as write skew.
    let again = history(2, 1).read(1, 0, 0).deleted(0, 0).wrote(1, 0, 10);
    let words = &again.has(&[Anomaly::G2Item]).examples[&Anomaly::G2Item].words;
    assert!(words.contains("T0 deleted key 0, and T1 inserted it again\n"), "{words}");
    history(2, 1).deleted(0, 0).missed(1, Predicate::Keys(0, 0), 0, 1).wrote(1, 0, 10).has(&[]);
}

#[test]
fn every_level_forbids_what_the_weaker_ones_do_and_allows_what_must_be_found() {
    for level in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let (forbidden, expected) = (forbidden(level), expected(level));
        assert_eq!(forbidden.len() + expected.len(), Anomaly::ALL.len());
        assert!(expected.iter().all(|anomaly| !forbidden.contains(anomaly)));
    }
}

#[test]
fn findings_add_up_and_keep_the_shortest_example() {
    let long = history(3, 3).read(0, 1, 0).read(1, 2, 0).read(2, 0, 0).wrote(0, 0, 10).wrote(1, 1, 11).wrote(2, 2, 12);
    let short = history(2, 2).read(0, 1, 0).read(1, 0, 0).wrote(0, 0, 10).wrote(1, 1, 11);
    let mut findings = long.has(&[Anomaly::G2Item]);
    assert_eq!(findings.examples[&Anomaly::G2Item].length, 3);
    findings.add(short.has(&[Anomaly::G2Item]));
    findings.add(long.has(&[Anomaly::G2Item]));
    assert_eq!(findings.count(Anomaly::G2Item), 3);
    assert_eq!(findings.examples[&Anomaly::G2Item].length, 2);
}

#[test]
fn a_long_history_without_circles_is_searched_in_no_time() {
    // A chain of 20,000 transactions on two keys; a recursive search would run out of stack.
    let mut chain = history(20_000, 2);
    for txn in 0..20_000 {
        chain = chain.read(txn, txn % 2, txn / 2).wrote(txn, txn % 2, 100 + txn as u64);
    }
    chain.has(&[]);
}
