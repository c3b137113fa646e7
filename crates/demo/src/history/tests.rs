use super::{EventHistory, TRANSACTIONS_MAX, UPDATE_MAX};
use crate::facts::Policy;
use crate::records::{Cursor, QueryRun, Start, UrgentOutcome, UrgentTransaction};

fn transaction(ticket: u64, policy: Policy, latency_ns: u64) -> UrgentTransaction {
    UrgentTransaction {
        ticket,
        policy,
        worker: 0,
        arrived_ns: 1_000,
        started_ns: 1_000 + latency_ns / 2,
        ended_ns: 1_000 + latency_ns,
        start: Start::Signalled,
        aborts_count: 1,
        is_on_cpu: !ticket.is_multiple_of(2),
        outcome: UrgentOutcome::Committed,
    }
}

fn tickets(history: &EventHistory, cursor: &mut Cursor) -> (Vec<u64>, u64) {
    let update = history.poll(*cursor, 0, Vec::new());
    *cursor = update.next;
    (update.transactions.iter().map(|transaction| transaction.ticket).collect(), update.missed_count)
}

/// Goal: a reader sees every kept record once and learns of those it was too slow for. Method: two readers, one slow.
#[test]
fn each_record_is_read_once_or_counted_as_missed() {
    let history = EventHistory::new();
    let (mut quick, mut slow) = (Cursor::default(), Cursor::default());
    history.transaction(transaction(1, Policy::Wait, 10));
    assert_eq!(tickets(&history, &mut quick), (vec![1], 0));
    assert_eq!(tickets(&history, &mut slow), (vec![1], 0));
    assert_eq!(tickets(&history, &mut quick), (vec![], 0));

    let more = TRANSACTIONS_MAX as u64 + 5;
    for ticket in 2..2 + more {
        history.transaction(transaction(ticket, Policy::Wait, 10));
    }
    let (first, missed) = tickets(&history, &mut slow);
    assert_eq!(missed, 5);
    assert_eq!(first.len(), UPDATE_MAX);
    assert_eq!(first[0], 7);
    let (rest, missed) = tickets(&history, &mut slow);
    assert_eq!(missed, 0);
    assert_eq!(first.len() + rest.len(), TRANSACTIONS_MAX);
    assert_eq!(rest.last(), Some(&(1 + more)));
    assert_eq!(tickets(&history, &mut slow), (vec![], 0));

    let mut fresh = Cursor::default();
    assert_eq!(tickets(&history, &mut fresh).1, 0, "who begins has missed nothing");
}

/// Goal: a clear forgets everything and restarts old cursors. Method: read, clear, record, read with the old cursor.
#[test]
fn a_clear_starts_every_reader_anew() {
    let history = EventHistory::new();
    let mut cursor = Cursor::default();
    history.transaction(transaction(1, Policy::Preempt, 10));
    history.transaction(transaction(2, Policy::Preempt, 10));
    assert_eq!(tickets(&history, &mut cursor).0, [1, 2]);
    history.clear();
    history.transaction(transaction(3, Policy::Preempt, 10));
    assert_eq!(tickets(&history, &mut cursor), (vec![3], 0));
    assert_eq!(history.poll(cursor, 0, Vec::new()).summaries[Policy::Preempt.index()].count, 1);
}

/// Goal: percentiles on CPU stand beside the raw ones, of their New-Orders alone, and the latest latency is the last one
/// that ended. Method: short ones on CPU, long ones that waited for a processor.
#[test]
fn figures_on_cpu_stand_beside_the_raw_ones() {
    let history = EventHistory::new();
    for _ in 0..50 {
        history.transaction(transaction(1, Policy::Preempt, 40_000));
        history.transaction(transaction(2, Policy::Preempt, 4_000_000));
    }
    let summaries = history.poll(Cursor::default(), 0, Vec::new()).summaries;
    let summary = &summaries[Policy::Preempt.index()];
    let (raw, on_cpu) = (summary.latency_us.expect("recorded"), summary.on_cpu_us.expect("recorded"));
    assert_eq!((summary.count, summary.on_cpu_count, summary.latest_us), (100, 50, Some(4_000.0)));
    assert!((raw.p99 - 4_000.0).abs() < 10.0 && (on_cpu.p99 - 40.0).abs() < 0.1, "{raw:?} {on_cpu:?}");
    let none = &summaries[Policy::Wait.index()];
    assert_eq!((none.on_cpu_us, none.on_cpu_count, none.latest_us), (None, 0, None));
}

/// Goal: the verdict belongs to the summaries of its update. Method: three updates, the figures change in between.
#[test]
fn the_verdict_is_that_of_the_same_update() {
    let history = EventHistory::new();
    let verdict = || history.poll(Cursor::default(), 0, Vec::new()).verdict;
    history.transaction(transaction(1, Policy::Wait, 800_000));
    assert_eq!(verdict(), "");
    history.transaction(transaction(1, Policy::Preempt, 100_000));
    assert!(verdict().contains(" 8.0 times sooner under preempt "), "{}", verdict());
    history.transaction(transaction(1, Policy::Preempt, 400_000));
    assert!(verdict().contains(" 2.0 times sooner under preempt "), "{}", verdict());
    history.clear();
    assert_eq!(verdict(), "");
}

/// Goal: summaries are per policy, in the page's units, and cancelled runs do not count. Method: known numbers.
#[test]
fn summaries_are_per_policy() {
    let history = EventHistory::new();
    for latency_us in 1..=100 {
        history.transaction(transaction(0, Policy::Yield, latency_us * 1_000));
    }
    let run = |query: &str, ms: u64, finished| QueryRun {
        policy: Policy::Yield,
        query: query.to_owned(),
        started_ns: 0,
        ended_ns: ms * 1_000_000,
        overtaken_count: 0,
        finished,
    };
    history.run(run("q2", 40, true));
    history.run(run("q2", 4, false));
    let update = history.poll(Cursor::default(), 7, Vec::new());
    assert_eq!(update.now_ns, 7);
    let summary = &update.summaries[Policy::Yield.index()];
    let latency = summary.latency_us.expect("100 were recorded");
    assert_eq!((summary.count, summary.aborts_count, summary.runs_count), (100, 100, 1));
    assert!((latency.p50 - 50.0).abs() < 0.1, "{latency:?}");
    assert!((latency.p99 - 99.0).abs() < 0.2, "{latency:?}");
    assert!((latency.max - 100.0).abs() < 0.2, "{latency:?}");
    assert!((summary.run_ms.expect("one finished").p50 - 40.0).abs() < 0.1);
    assert_eq!(update.summaries[Policy::Wait.index()].latency_us, None);

    history.run(run("q9", 400, true));
    let run_ms =
        history.poll(Cursor::default(), 7, Vec::new()).summaries[Policy::Yield.index()].run_ms.expect("q9 ran");
    assert!((run_ms.p50 - 400.0).abs() < 1.0, "another query is another distribution");
}
