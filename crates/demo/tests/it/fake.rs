//! A stand-in for scheduler and engine: a query of about 45 ms that repeats on two workers, and New-Orders that start
//! where each policy lets them. Time is the wall clock; events are worked out when the page asks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use demo::facts::{
    Allowed, Delivery, Facts, Figure1, Figure1Row, LoadProgress, LoadStep, LoadedDatabase, Policy, Psql, QueryInfo,
    Rung, Segment, WorkerContext,
};
use demo::records::{Cursor, InstanceInfo, QueryRun, Span, Start, Update, UrgentOutcome, UrgentTransaction, WorkerNow};
use demo::{Demo, Error, EventHistory};

const WORKERS: usize = 2;
const RUN_NS: u64 = 45_000_000;
const YIELD_NS: u64 = 6_000_000;
const ORDER_NS: u64 = 24_000;
pub const RATE_MAX: f64 = 5_000.0;
/// Maximum number of New-Orders issued by hand before the page reads; more are refused, as by a full queue.
pub const QUEUE_MAX: usize = 64;

pub struct Fake {
    origin: Instant,
    history: EventHistory,
    pub loading: AtomicBool,
    inner: Mutex<Inner>,
}

struct Inner {
    selected: Policy,
    query: Option<String>,
    rate: f64,
    tickets: u64,
    /// Tickets and arrivals.
    queued: Vec<(u64, u64)>,
    next_arrival_ns: f64,
    run: (u64, u64),
    overtaken: u64,
    random: u64,
}

impl Fake {
    pub fn new() -> Fake {
        let inner = Inner {
            selected: Policy::Preempt,
            query: None,
            rate: 0.0,
            tickets: 0,
            queued: Vec::new(),
            next_arrival_ns: 0.0,
            run: (0, 0),
            overtaken: 0,
            random: 7,
        };
        Fake {
            origin: Instant::now(),
            history: EventHistory::new(),
            loading: AtomicBool::new(false),
            inner: Mutex::new(inner),
        }
    }

    fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    fn ready(&self) -> Result<(), Error> {
        if self.loading.load(Ordering::Relaxed) { Err(Error::Loading) } else { Ok(()) }
    }

    /// Plays the events up to now.
    fn advance(&self, inner: &mut Inner) -> u64 {
        let now = self.now_ns();
        loop {
            while 0.0 < inner.rate
                && inner.next_arrival_ns < now.min(if inner.query.is_some() { inner.run.1 } else { now }) as f64
            {
                inner.queued.push((0, inner.next_arrival_ns as u64));
                inner.next_arrival_ns += 1e9 / inner.rate * (0.5 + inner.dice());
            }
            if inner.query.is_none() || now < inner.run.1 {
                self.serve(inner, now);
                return now;
            }
            let end = inner.run.1;
            self.serve(inner, end);
            self.end_run(inner, end, true);
            inner.begin_run(end + 300_000);
        }
    }

    /// Runs the transactions that may run up to `until`, the end of the run or now.
    fn serve(&self, inner: &mut Inner, until: u64) {
        let at_end = inner.query.is_some() && until == inner.run.1;
        let mut free = [0u64; WORKERS];
        for (ticket, arrived) in std::mem::take(&mut inner.queued) {
            let jitter = (inner.dice() * inner.dice() * 9_000.0) as u64;
            let due = match (inner.query.is_some(), inner.selected) {
                (false, _) => (arrived + 3_000 + jitter, Start::Idle),
                (true, Policy::Wait) => (if at_end { until } else { u64::MAX }, Start::Boundary),
                (true, Policy::Yield) => {
                    (inner.run.0 + (arrived.saturating_sub(inner.run.0) / YIELD_NS + 1) * YIELD_NS, Start::Yielded)
                }
                (true, Policy::Preempt) => {
                    (arrived + 2_600 + jitter, if inner.dice() < 0.7 { Start::Signalled } else { Start::Polled })
                }
            };
            if until < due.0 {
                inner.queued.push((ticket, arrived));
                continue;
            }
            let worker = if free[0] <= free[1] { 0 } else { 1 };
            let started_ns = due.0.max(free[worker]).max(arrived);
            let ended_ns = started_ns + ORDER_NS + (inner.dice() * 8_000.0) as u64;
            free[worker] = ended_ns;
            inner.overtaken += 1;
            let aborts_count = u32::from(inner.dice() < 0.02);
            let outcome = if inner.dice() < 0.01 { UrgentOutcome::RolledBack } else { UrgentOutcome::Committed };
            let policy = inner.selected;
            self.history.transaction(UrgentTransaction {
                ticket,
                policy,
                worker,
                arrived_ns: arrived,
                started_ns,
                ended_ns,
                start: due.1,
                aborts_count,
                is_on_cpu: inner.dice() < 0.9,
                outcome,
            });
        }
    }

    fn end_run(&self, inner: &mut Inner, end_ns: u64, finished: bool) {
        let policy = inner.selected;
        for worker in 0..WORKERS {
            self.history.span(Span { policy, worker, context: WorkerContext::Query, start_ns: inner.run.0, end_ns });
        }
        let query = inner.query.clone().expect("only a run that goes on is ended");
        self.history.run(QueryRun {
            policy,
            query,
            started_ns: inner.run.0,
            ended_ns: end_ns,
            overtaken_count: inner.overtaken,
            finished,
        });
        inner.overtaken = 0;
    }
}

impl Inner {
    fn begin_run(&mut self, start: u64) {
        self.run = (start, start + RUN_NS + (self.dice() * 3e6) as u64);
    }

    /// Returns a number from 0 to 1, the same in every run of the test.
    fn dice(&mut self) -> f64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 40) as f64 / (1u64 << 24) as f64
    }
}

impl Demo for Fake {
    fn facts(&self) -> Facts {
        let rung = |name: &str, available, in_use, why: &str, delay| Rung {
            name: name.to_owned(),
            available,
            in_use,
            why: why.to_owned(),
            delay_us_p50: delay,
        };
        Facts {
            version: concat!("overtake ", env!("CARGO_PKG_VERSION")).to_owned(),
            cpu_model: "Fake Processor at 2.90 GHz".to_owned(),
            cpus: WORKERS,
            kernel: "Linux 6.1.0".to_owned(),
            memory_bytes: 24 << 30,
            workers: WORKERS,
            delivery: Delivery {
                in_use: "flag and signal".to_owned(),
                why: "A worker in a scan of ours sees its flag within 1,024 rows; one in foreign code is interrupted by a signal. This processor has no user interrupts, so the signal is the fastest way into foreign code.".to_owned(),
                rungs: vec![
                    rung("poll", true, true, "The worker reads a flag in its own cache line at safepoints.", Some(0.4)),
                    rung("signal", true, true, "The kernel interrupts the worker wherever it is, third-party code included.", Some(2.6)),
                    rung("thread", true, false, "A thread of the real-time class runs the transaction; the kernel takes the core away from the query.", Some(3.9)),
                    rung("user interrupt", false, false, "The processor does not have UINTR (CPUID leaf 7, EDX bit 5).", None),
                ],
            },
            realtime: Allowed { allowed: true, why: "SCHED_FIFO was granted at start".to_owned() },
            side_by_side: false,
            yields: "every 1,000 batches".to_owned(),
            rate_per_s_max: RATE_MAX,
            psql: Policy::ALL.map(|policy| Psql { policy, command: format!("psql -p {}", 7_879 + policy.index()) }).into(),
            database: self.ready().is_ok().then_some(LoadedDatabase {
                scale_factor: 0.5,
                warehouses: 1,
                rows_count: 4_830_112,
                bytes: 912 << 20,
            }),
        }
    }

    fn loading(&self) -> LoadProgress {
        if self.ready().is_ok() {
            return LoadProgress::Ready { elapsed_ms: 4_000 };
        }
        let step = |name: &str, done, total| LoadStep { name: name.to_owned(), done, total, unit: "rows".to_owned() };
        LoadProgress::Loading {
            steps: vec![
                step("TPC-H tables", 3_100_000, 4_330_000),
                step("TPC-C warehouse", 500_112, 500_112),
                step("Statistics", 0, 0),
            ],
            elapsed_ms: self.now_ns() / 1_000_000,
        }
    }

    fn queries(&self) -> Vec<QueryInfo> {
        let query = |set: &str, name: &str, title: &str| QueryInfo {
            name: name.to_owned(),
            set: set.to_owned(),
            title: title.to_owned(),
            sql: format!(
                "-- {title}\nselect s_acctbal, s_name, n_name, p_partkey\n  from part, supplier, partsupp, nation, region\n where p_partkey = ps_partkey\n limit 100"
            ),
        };
        vec![
            query("TPC-H", "q2", "Q2, minimum cost supplier"),
            query("TPC-H", "q9", "Q9, product type profit"),
            query("CH-benCHmark", "ch1", "Q1, lines by number"),
        ]
    }

    fn figure1(&self) -> Figure1 {
        let row = |policy, start: f64, latency| {
            let part = |context, start, end| Segment { context, start, end };
            let mut segments =
                vec![part(WorkerContext::Query, 0.0, start), part(WorkerContext::Urgent, start, start + 1.0)];
            if start < 12.0 {
                segments.push(part(WorkerContext::Query, start + 1.0, 13.0));
            }
            Figure1Row { policy, segments, latency }
        };
        Figure1 {
            arrival: 4.0,
            rows: vec![row(Policy::Wait, 12.0, 9.0), row(Policy::Yield, 6.0, 3.0), row(Policy::Preempt, 4.0, 1.0)],
        }
    }

    fn instances(&self) -> Vec<InstanceInfo> {
        let inner = self.inner.lock().unwrap();
        Policy::ALL
            .iter()
            .map(|&policy| {
                let selected = policy == inner.selected;
                InstanceInfo {
                    policy,
                    selected,
                    query: if selected { inner.query.clone() } else { None },
                    rate_per_s: if selected { inner.rate } else { 0.0 },
                    waiting_count: if selected { inner.queued.len() as u64 } else { 0 },
                }
            })
            .collect()
    }

    fn poll(&self, cursor: Cursor) -> Update {
        let mut inner = self.inner.lock().unwrap();
        let now = self.advance(&mut inner);
        let query_since_ns = inner.query.is_some().then_some(inner.run.0);
        let workers = (0..WORKERS)
            .map(|worker| WorkerNow {
                worker,
                name: format!("worker {worker}, cpu {worker}"),
                context: if query_since_ns.is_some() { WorkerContext::Query } else { WorkerContext::Idle },
                query_since_ns,
            })
            .collect();
        self.history.poll(cursor, now, workers)
    }

    fn select(&self, policy: Policy) -> Result<(), Error> {
        self.ready()?;
        let mut inner = self.inner.lock().unwrap();
        let now = self.advance(&mut inner);
        if inner.query.is_some() {
            self.end_run(&mut inner, now, false);
            inner.begin_run(now);
        }
        inner.selected = policy;
        Ok(())
    }

    fn start_query(&self, name: &str) -> Result<(), Error> {
        self.ready()?;
        self.stop_query()?;
        let mut inner = self.inner.lock().unwrap();
        let now = self.advance(&mut inner);
        inner.query = Some(name.to_owned());
        inner.begin_run(now);
        Ok(())
    }

    fn stop_query(&self) -> Result<(), Error> {
        let mut inner = self.inner.lock().unwrap();
        let now = self.advance(&mut inner);
        if inner.query.is_some() {
            self.end_run(&mut inner, now, false);
            inner.query = None;
        }
        Ok(())
    }

    fn issue(&self) -> Result<u64, Error> {
        self.ready()?;
        let mut inner = self.inner.lock().unwrap();
        if QUEUE_MAX <= inner.queued.len() {
            return Err(Error::Conflict("the queue of urgent transactions is full".to_owned()));
        }
        inner.tickets += 1;
        let ticket = inner.tickets;
        let now = self.now_ns();
        inner.queued.push((ticket, now));
        Ok(ticket)
    }

    fn set_rate(&self, per_second: f64) -> Result<(), Error> {
        self.ready()?;
        let mut inner = self.inner.lock().unwrap();
        let now = self.advance(&mut inner);
        inner.rate = per_second;
        inner.next_arrival_ns = now as f64;
        Ok(())
    }

    fn clear(&self) {
        self.history.clear();
    }
}
