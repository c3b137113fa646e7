use super::*;

const UNIT: CapSettings = CapSettings { low_share_percent: 10, window_ns: 100, entry_requests_max: 64 };

fn high(arrive: u64, length: u64) -> SimTransaction {
    SimTransaction { arrive, length, class: Class::High }
}

fn scenario(policy: Policy, queries: &[(u64, u64)], transactions: &[SimTransaction]) -> Scenario {
    Scenario {
        policy,
        yield_every: 6,
        cap: UNIT,
        queries: queries.iter().map(|&(arrive, length)| SimQuery { arrive, length }).collect(),
        transactions: transactions.to_vec(),
    }
}

fn text(policy: Policy, queries: &[(u64, u64)], transactions: &[SimTransaction]) -> String {
    simulate(&scenario(policy, queries, transactions)).text()
}

/// Goal: Figure 1 of the paper. A 12-unit query, a 1-unit transaction that arrives at 4.
#[test]
fn figure1_of_the_paper() {
    let done_after = |policy| {
        let trace = figure1().into_iter().find(|trace| trace.policy == policy).expect("every policy is drawn");
        assert_eq!(
            trace.ended(SimContext::Query(0)),
            Some(if policy == Policy::Wait || policy == Policy::Boundary { 12 } else { 13 })
        );
        trace.ended(SimContext::Transaction(0)).expect("it ran") - 4
    };
    assert_eq!(done_after(Policy::Wait), 9);
    assert_eq!(done_after(Policy::Boundary), 9);
    assert_eq!(done_after(Policy::Yield), 3);
    assert_eq!(done_after(Policy::Preempt), 1);
    assert_eq!(done_after(Policy::Thread), 1);
    let texts: Vec<String> = figure1().iter().map(Trace::text).collect();
    assert_eq!(texts, ["QQQQQQQQQQQQT", "QQQQQQQQQQQQT", "QQQQQQTQQQQQQ", "QQQQTQQQQQQQQ", "QQQQTQQQQQQQQ"]);
}

/// Goal: `wait` keeps the line, queries included; `boundary` overtakes the waiting query but not the running one.
#[test]
fn wait_is_strict_and_boundary_goes_by_class() {
    // The second query is submitted before the first transaction, the third after it.
    let queries = [(0, 4), (1, 3), (3, 2)];
    let transactions = [high(2, 1), high(6, 1)];
    assert_eq!(text(Policy::Wait, &queries, &transactions), "QQQQQQQTQQT");
    assert_eq!(text(Policy::Boundary, &queries, &transactions), "QQQQTQQQTQQ");
    let trace = simulate(&scenario(Policy::Wait, &queries, &transactions));
    assert_eq!(trace.started(SimContext::Query(1)), Some(4));
    assert_eq!(trace.started(SimContext::Query(2)), Some(8));
}

/// Goal: among requests, `wait` goes by arrival and the others by class, at one and the same boundary.
#[test]
fn class_order_at_a_boundary() {
    let classes = [Class::Low, Class::Normal, Class::High];
    let transactions: Vec<SimTransaction> =
        classes.into_iter().zip(1..).map(|(class, arrive)| SimTransaction { arrive, length: 1, class }).collect();
    let order = |policy| {
        let trace = simulate(&scenario(policy, &[(0, 5)], &transactions));
        let order = trace.segments.iter().filter_map(|segment| match segment.context {
            SimContext::Transaction(one) => Some(one),
            SimContext::Query(_) => None,
        });
        order.collect::<Vec<usize>>()
    };
    assert_eq!(order(Policy::Wait), [0, 1, 2]);
    assert_eq!(order(Policy::Boundary), [2, 1, 0]);
    // These run as they come, but the low one waits for the end of the query.
    assert_eq!(order(Policy::Preempt), [1, 2, 0]);
    assert_eq!(order(Policy::Thread), [1, 2, 0]);
    assert_eq!(order(Policy::Yield), [2, 1, 0]);
}

/// Goal: a running transaction is not interrupted, and a more important one that came meanwhile is next.
#[test]
fn a_running_transaction_is_not_interrupted() {
    let transactions = [
        SimTransaction { arrive: 1, length: 4, class: Class::Normal },
        SimTransaction { arrive: 2, length: 1, class: Class::Normal },
        SimTransaction { arrive: 3, length: 1, class: Class::High },
    ];
    let trace = simulate(&scenario(Policy::Preempt, &[(0, 3)], &transactions));
    let started = [0, 1, 2].map(|one| trace.started(SimContext::Transaction(one)));
    assert_eq!(started, [Some(1), Some(6), Some(5)]);
    assert_eq!(trace.text(), "QTTTTTTQQ");
}

/// Goal: an idle worker runs a transaction at once under every policy.
#[test]
fn idle_workers_start_at_once() {
    for policy in Policy::ALL {
        assert_eq!(text(policy, &[(8, 2)], &[high(3, 2)]), "...TT...QQ", "{policy}");
    }
}

/// Goal: in a flood of urgent work each window of the worker keeps a tenth for the query, under every policy that lets
/// urgent work hold up a query; and without the cap it starves.
#[test]
fn the_starvation_cap_keeps_a_share() {
    let flood: Vec<SimTransaction> = (0..2_000).map(|at| high(at, 1)).collect();
    for policy in [Policy::Preempt, Policy::Thread] {
        let trace = simulate(&scenario(policy, &[(0, 100)], &flood));
        for window in 0..9 {
            let (from, to) = (window * 100, window * 100 + 100);
            let query: u64 = trace
                .segments
                .iter()
                .filter(|segment| matches!(segment.context, SimContext::Query(_)))
                .map(|segment| segment.end.min(to).saturating_sub(segment.start.max(from)))
                .sum();
            assert!((10..=20).contains(&query), "{policy}: the query had {query} of window {window}");
        }
        let uncapped = Scenario { cap: CapSettings::OFF, ..scenario(policy, &[(0, 100)], &flood) };
        assert!(1_900 < simulate(&uncapped).ended(SimContext::Query(0)).expect("it ran"), "{policy}");
    }
}

/// Goal: at the end of a query the cap lets the next one start, however long the line of urgent work.
#[test]
fn the_cap_lets_the_next_query_start() {
    let flood: Vec<SimTransaction> = (0..1_000).map(|at| high(at, 1)).collect();
    let trace = simulate(&scenario(Policy::Boundary, &[(0, 10), (1, 10)], &flood));
    // 90 units of a window for the flood, then a query, and the same again.
    assert_eq!([0, 1].map(|query| trace.started(SimContext::Query(query))), [Some(90), Some(190)]);
}

/// Goal: a burst runs by budgets, with a rest for the query in between.
#[test]
fn a_burst_is_cut_by_the_budget() {
    let burst: Vec<SimTransaction> = (0..40).map(|_| high(5, 1)).collect();
    let cap = CapSettings { low_share_percent: 10, window_ns: 1_000, entry_requests_max: 18 };
    let trace = simulate(&Scenario { cap, ..scenario(Policy::Preempt, &[(0, 20)], &burst) });
    let expected = ["QQQQQ", &"T".repeat(18), "QQ", &"T".repeat(18), "QQ", "TTTT", &"Q".repeat(11)].concat();
    assert_eq!(trace.text(), expected);
}

/// Goal: whatever the policy, everything that was submitted runs to its end, once, and time is not lost.
#[test]
fn nothing_is_lost() {
    // A small generator, so that the cases are the same on every run.
    let mut state: u64 = 7;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    for _ in 0..200 {
        let queries: Vec<(u64, u64)> = (0..below(5)).map(|_| (below(100), 1 + below(30))).collect();
        let transactions: Vec<SimTransaction> = (0..below(40))
            .map(|_| SimTransaction { arrive: below(120), length: 1 + below(4), class: Class::ALL[below(3) as usize] })
            .collect();
        for policy in Policy::ALL {
            let trace = simulate(&scenario(policy, &queries, &transactions));
            let ran = |context| {
                let segments = trace.segments.iter().filter(|segment| segment.context == context);
                segments.map(|segment| segment.end - segment.start).sum::<u64>()
            };
            for (at, &(_, length)) in queries.iter().enumerate() {
                assert_eq!(ran(SimContext::Query(at)), length, "{policy}");
            }
            for (at, transaction) in transactions.iter().enumerate() {
                assert_eq!(ran(SimContext::Transaction(at)), transaction.length, "{policy}");
                assert!(transaction.arrive <= trace.started(SimContext::Transaction(at)).expect("it ran"));
            }
            assert!(trace.segments.is_sorted_by(|one, next| one.end <= next.start));
        }
    }
}
