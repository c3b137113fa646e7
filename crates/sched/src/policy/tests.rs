use super::*;
use Point::{Boundary, Dedicated, Idle, Interrupt, Late, Safepoint, YieldPoint};

const POINTS: [Point; 7] = [Interrupt, Safepoint, YieldPoint, Boundary, Idle, Dedicated, Late];

fn heads(high: Option<u64>, normal: Option<u64>, low: Option<u64>, low_job: Option<u64>) -> Heads {
    Heads { requests: [high, normal, low], low_job }
}

/// Goal: each policy lets a high request run at exactly its own points. Method: all pairs against a table.
#[test]
fn each_policy_has_its_points() {
    let one = heads(Some(1), None, None, None);
    let expected = |policy| match policy {
        Policy::Wait | Policy::Boundary => vec![Boundary, Idle],
        Policy::Yield => vec![YieldPoint, Boundary, Idle],
        Policy::Preempt => vec![Interrupt, Safepoint, Boundary, Idle, Late],
        Policy::Thread => vec![Dedicated],
    };
    for policy in Policy::ALL {
        let points: Vec<Point> =
            POINTS.into_iter().filter(|&point| decide(policy, point, &one, Share::Open) == Some(Class::High)).collect();
        assert_eq!(points, expected(policy), "{policy}");
    }
}

/// Goal: nothing comes out of empty queues, at no point, under no policy.
#[test]
fn empty_queues_give_nothing() {
    for policy in Policy::ALL {
        for point in POINTS {
            for low_job in [None, Some(3)] {
                assert_eq!(decide(policy, point, &heads(None, None, None, low_job), Share::Open), None);
            }
        }
    }
}

/// Goal: `wait` looks at the place in the line alone, and a query in the line comes first if it is older.
#[test]
fn wait_is_first_in_first_out() {
    let wait = |heads| decide(Policy::Wait, Boundary, &heads, Share::Open);
    assert_eq!(wait(heads(Some(9), Some(5), Some(7), None)), Some(Class::Normal));
    assert_eq!(wait(heads(Some(9), None, Some(7), None)), Some(Class::Low));
    assert_eq!(wait(heads(Some(9), Some(5), Some(7), Some(6))), Some(Class::Normal));
    assert_eq!(wait(heads(Some(9), Some(5), Some(7), Some(4))), None);
}

/// Goal: the other policies go by class; low requests and queries keep their order among themselves.
#[test]
fn classes_are_ordered() {
    for policy in [Policy::Boundary, Policy::Yield, Policy::Preempt] {
        let at_end = |heads| decide(policy, Boundary, &heads, Share::Open);
        assert_eq!(at_end(heads(Some(9), Some(5), Some(1), Some(2))), Some(Class::High));
        assert_eq!(at_end(heads(None, Some(5), Some(1), Some(2))), Some(Class::Normal));
        assert_eq!(at_end(heads(None, None, Some(1), Some(2))), Some(Class::Low));
        assert_eq!(at_end(heads(None, None, Some(3), Some(2))), None);
    }
}

/// Goal: a low request never interrupts a query, and never runs on a thread that the kernel prefers.
#[test]
fn low_requests_interrupt_nothing() {
    for policy in Policy::ALL {
        for point in [Interrupt, Safepoint, YieldPoint, Dedicated, Late] {
            assert_eq!(decide(policy, point, &heads(None, None, Some(1), None), Share::Open), None);
        }
        assert_eq!(decide(policy, Idle, &heads(None, None, Some(1), None), Share::Open), Some(Class::Low));
    }
}

/// Goal: a closed cap keeps urgent work from everywhere but from its place in a line.
#[test]
fn the_cap_closes_every_point() {
    for policy in Policy::ALL {
        for point in POINTS {
            let class = decide(policy, point, &heads(Some(1), None, None, None), Share::Closed);
            let in_line = policy == Policy::Wait && point == Boundary;
            assert_eq!(class, in_line.then_some(Class::High), "{policy} {point:?}");
        }
    }
}

#[test]
fn names_parse_back() {
    for policy in Policy::ALL {
        assert_eq!(policy.name().parse(), Ok(policy));
    }
    assert!("fifo".parse::<Policy>().is_err());
}
