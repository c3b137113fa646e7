//! Instances over a small database, driven directly.

use bench::data::{Data, DataConfig, LoadSteps, answer_digest};
use bench::mixed::{Instance, LowLoop, LowQuery, MakeRequest, RunEnd};
use host::stop::Stop;
use sched::{Event, Policy, Rungs, SchedulerSettings, Start};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use workloads::tpcc::Scale;
use workloads::tpch::Comments;

fn load(warehouses: i32) -> Arc<Data> {
    let config = DataConfig { scale_factor: 0.01, scale: Scale::small(warehouses), seed: 7, comments: Comments::Short };
    Data::load(&config, &Stop::default(), &LoadSteps::default()).unwrap()
}

fn settings(policy: Policy, workers: usize) -> SchedulerSettings {
    SchedulerSettings { name: policy.name().to_owned(), policy, workers, ..SchedulerSettings::default() }
}

/// Sends `count` New-Orders; see [`send_of`].
fn send(data: &Data, instance: &Instance, count: u64, under_way: u64) -> Vec<Start> {
    send_of(data.new_orders(11), instance, count, under_way)
}

/// Sends `count` requests, at most `under_way` at a time, and waits for all of them; returns the way in which each came
/// to run.
fn send_of(mut make: MakeRequest, instance: &Instance, count: u64, under_way: u64) -> Vec<Start> {
    let mut starts = Vec::new();
    for sent in 1..=count {
        instance.scheduler().submit(make(sent)).unwrap();
        let left_under_way = if sent == count { 0 } else { under_way - 1 };
        while left_under_way < sent - starts.len() as u64 {
            instance.scheduler().drain_events(&mut |event| {
                if let Event::Completed(completed) = event {
                    starts.push(completed.start);
                }
            });
            std::thread::yield_now();
        }
    }
    starts
}

/// Repeats `query` on one worker, and returns when it has run once: before, the worker may be idle still.
fn repeat(instance: &Instance, query: LowQuery) -> LowLoop {
    let runs = Arc::new(AtomicU64::new(0));
    let ended = runs.clone();
    let on_end = Arc::new(move |_: &RunEnd<'_>| {
        ended.fetch_add(1, SeqCst);
    });
    let low = instance.run_queries(vec![query], 1, 1, on_end).unwrap();
    while runs.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    low
}

/// Goal: preemption is invisible. The same seed under wait, yield and preempt, one worker, TPC-C's full mix in the order of
/// submission: the same final tables, and the same answers over tables that nobody writes.
pub fn policies_change_when_never_what() {
    let mut seen: Vec<(&str, u64, BTreeMap<String, u64>)> = Vec::new();
    for policy in [Policy::Wait, Policy::Yield, Policy::Preempt] {
        let data = load(2);
        let before = data.digest();
        let instance = Instance::start(&data, settings(policy, 1)).unwrap();
        let answers = Arc::new(Mutex::new(BTreeMap::new()));
        let queries: Vec<LowQuery> = [2, 3, 9, 13, 21].map(|number| data.tpch_query(number).unwrap()).into();
        let (runs, kept) = (Arc::new(AtomicU64::new(0)), answers.clone());
        let counted = runs.clone();
        let on_end = Arc::new(move |end: &RunEnd<'_>| {
            if let Some(answer) = end.answer {
                let digest = answer_digest(answer);
                let before = kept.lock().unwrap().insert(end.query.name().to_owned(), digest);
                assert!(before.is_none_or(|before| before == digest), "{} changed its answer", end.query.name());
                counted.fetch_add(1, SeqCst);
            }
        });
        let low = instance.run_queries(queries, 1, 1, on_end).unwrap();
        send_of(data.full_mix(11), &instance, 400, 50);
        while runs.load(SeqCst) < 5 {
            std::thread::yield_now();
        }
        low.stop().unwrap();
        drop(instance);
        let outcomes = data.outcomes();
        assert_eq!((outcomes.committed + outcomes.rolled_back, outcomes.failed), (400, 0));
        data.check().unwrap();
        assert_ne!(data.digest(), before, "the mix changed nothing");
        let answers = answers.lock().unwrap().clone();
        assert_eq!(answers.len(), 5);
        seen.push((policy.name(), data.digest(), answers));
    }
    for (policy, digest, answers) in &seen[1..] {
        assert_eq!(*digest, seen[0].1, "the tables under {policy} differ from those under wait");
        assert_eq!(*answers, seen[0].2, "the answers under {policy} differ from those under wait");
    }
}

/// Goal: under preempt a New-Order runs while the query goes on, on each rung; under wait only at the query's end.
pub fn urgent_work_overtakes_a_running_query_under_preempt() {
    let data = load(1);
    let rungs = [(Policy::Preempt, Rungs::Signal), (Policy::Preempt, Rungs::Both), (Policy::Preempt, Rungs::Poll)];
    for (policy, rungs) in rungs.into_iter().chain([(Policy::Wait, Rungs::Both)]) {
        let instance = Instance::start(&data, SchedulerSettings { rungs, ..settings(policy, 1) }).unwrap();
        let query = if rungs == Rungs::Poll { data.dense_scan() } else { data.tpch_query(9).unwrap() };
        let low = repeat(&instance, query);
        let starts = send(&data, &instance, 300, 1);
        low.stop().unwrap();
        let is_nested = |start: &&Start| matches!(start, Start::Polled | Start::Signalled | Start::Deferred);
        let nested = starts.iter().filter(is_nested).count();
        match policy {
            Policy::Wait => assert_eq!(nested, 0, "under wait a query was interrupted"),
            _ => assert!(nested > 100, "{rungs}: only {nested} of 300 New-Orders interrupted the query"),
        }
    }
    data.check().unwrap();
}

/// Goal: under yield a New-Order starts at a yield point of the query, also of the hand-written scan.
pub fn both_kinds_of_query_yield() {
    let data = load(1);
    for query in [data.dense_scan(), data.tpch_query(9).unwrap()] {
        let name = query.name().to_owned();
        let instance = Instance::start(&data, settings(Policy::Yield, 1)).unwrap();
        let low = repeat(&instance, query);
        let starts = send(&data, &instance, 300, 1);
        low.stop().unwrap();
        let yielded = starts.iter().filter(|start| **start == Start::Yielded).count();
        assert!(yielded > 0, "{name} never yielded");
    }
}

/// Goal: stopping a loop cancels the query and waits for its end, however often.
pub fn a_query_can_be_stopped_and_another_started() {
    let data = load(1);
    let instance = Instance::start(&data, settings(Policy::Preempt, 2)).unwrap();
    for turn in 0..20 {
        let running = Arc::new(AtomicBool::new(false));
        let ended = running.clone();
        let query = if turn % 2 == 0 { data.tpch_query(18).unwrap() } else { data.dense_scan() };
        let on_end = Arc::new(move |_: &RunEnd<'_>| ended.store(true, SeqCst));
        let low = instance.run_queries(vec![query], 2, 1, on_end).unwrap();
        low.stop().unwrap();
        assert!(running.load(SeqCst), "a stop waits for the end");
        assert_eq!(instance.scheduler().queued_low_jobs(), 0);
    }
}

/// Goal: the hand-written scan computes Q6's answer through SQL.
pub fn the_dense_scan_gives_q6s_answer() {
    let data = load(1);
    let instance = Instance::start(&data, settings(Policy::Wait, 1)).unwrap();
    let expected = Arc::new(Mutex::new(None));
    let kept = expected.clone();
    let on_end = Arc::new(move |end: &RunEnd<'_>| {
        if let Some(answer) = end.answer {
            *kept.lock().unwrap() = answer.texts()[0][0].clone();
        }
    });
    let low = instance.run_queries(vec![data.tpch_query(6).unwrap()], 1, 1, on_end).unwrap();
    while expected.lock().unwrap().is_none() {
        std::thread::yield_now();
    }
    low.stop().unwrap();
    let lineitem = data.engine().table("lineitem").unwrap();
    let sum = bench::mixed::revenue(&data.engine().snapshot(), &lineitem, &AtomicBool::new(false), &mut || ()).unwrap();
    let text = format!("{}.{:04}", sum / 10_000, sum % 10_000);
    assert_eq!(expected.lock().unwrap().as_deref(), Some(text.as_str()));
}
