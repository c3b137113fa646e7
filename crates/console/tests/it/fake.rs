//! A fake gate: it has been searching, and holds at 8.

use console::{Row, RowSource, Shutdown};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

#[derive(Default)]
pub struct Fake {
    /// Number of looks so far: each look shows that something has happened.
    pub looks: AtomicU64,
    pub forecasts: AtomicU64,
    pub has_no_gate: bool,
}

fn rows(value: Value) -> Vec<Row> {
    serde_json::from_value(value).unwrap()
}

impl RowSource for Fake {
    fn mpl(&self) -> Option<Row> {
        let mpl = json!([{ "mode": "auto", "mpl": 8, "phase": "holding", "slots": 8, "extra_slots": 1, "transactions": 50,
            "throughput": 8000.0, "response_ms": 6.1, "active": 7.9, "saturated": 0.97, "c2": 1.4, "lent_total": 12, "dominating": "lock", "source": "events" }]);
        (!self.has_no_gate).then(|| rows(mpl).remove(0))
    }

    fn resources(&self) -> Vec<Row> {
        let resource = |name: &str, share: f64, dominates: bool| {
            json!({ "resource": name, "share": share, "dominates": dominates, "busy": null, "host_busy": null,
                "demand_ms": share, "samples": 900, "source": "events" })
        };
        rows(json!([resource("lock", 0.7, true), resource("processor", 0.2, false), resource("client", 0.1, false)]))
    }

    fn classes(&self) -> Vec<Row> {
        let looks = self.looks.fetch_add(1, Relaxed);
        let class = |name: &str, waiting: u64, p50: f64| {
            json!({ "class": name, "slots": 3, "waiting": waiting, "lent": 0, "arrived": 1000 * looks, "done": 999 * looks,
                "failed": 2, "response_ms": 4.0, "demand_ms": 0.2, "c2": 1.4, "wait_p50_ms": p50, "wait_p99_ms": p50 * 9.0,
                "wait_max_ms": p50 * 20.0, "inside_p50_ms": 0.9, "inside_p99_ms": 3.1, "inside_max_ms": 9.0,
                "idle_p50_ms": 0.05, "idle_p99_ms": 0.4, "idle_max_ms": 8.0 })
        };
        // Names come from the administrator, and must not be taken as markup.
        rows(json!([class("high", 0, 0.2), class("normal", 37, 5.0), class("<i>low</i>", 5, 40.0)]))
    }

    fn histogram(&self) -> Vec<Row> {
        let mut all = Vec::new();
        for class in ["high", "normal"] {
            for (what, begin) in [("wait", 8.0), ("inside", 256.0), ("idle", 0.0)] {
                for step in 0..6_u32 {
                    let lower = begin * f64::from(2_u32.pow(step));
                    let upper = if lower == 0.0 { 1.0 } else { lower * 2.0 };
                    all.push(json!({ "class": class, "what": what, "lower_us": lower, "upper_us": upper, "count": 10 * (step + 1) }));
                    if lower == 0.0 {
                        break;
                    }
                }
            }
        }
        rows(all.into())
    }

    fn log(&self) -> Vec<Row> {
        let moved = |ago: f64, from: u32, to: u32, reason: &str| {
            json!({ "seconds_ago": ago, "mpl": from, "next_mpl": to, "reason": reason, "completions": 40_000,
                "throughput": 8_200.0 - f64::from(from), "throughput_off": 0.004, "response_ms": 5.0 + f64::from(from) / 10.0,
                "saturated": 1.0, "c2": 1.4 })
        };
        rows(json!([
            moved(90.0, 3, 12, "more may be done there; losses are counted from the best"),
            moved(60.0, 12, 8, "the lowest that keeps the thresholds, by the curve"),
            moved(30.0, 8, 8, "it keeps the thresholds, at a loss of 2.1 %"),
        ]))
    }

    fn history(&self, seconds: f64) -> Vec<Row> {
        let point = |ago: u32| {
            let mpl = if ago < 60 { 8 } else { 12 };
            let wave = (f64::from(ago) / 7.0).sin();
            json!({ "seconds_ago": ago, "seconds": 1.0, "mpl": mpl, "active": 7.5, "waiting": 40.0 + 4.0 * wave,
                "throughput": 8_000.0 + 300.0 * wave, "response_ms": if ago == 5 { None } else { Some(6.0 - wave) } })
        };
        rows((0..200_u32).rev().filter(|ago| f64::from(*ago) < seconds).map(point).collect::<Vec<_>>().into())
    }

    fn forecast(&self) -> Vec<Row> {
        self.forecasts.fetch_add(1, Relaxed);
        let limit = |mpl: u32| {
            let n = f64::from(mpl);
            let throughput = n / (1.0e-4 + 1.0e-4 * n + 2e-6 * n * n);
            json!({ "mpl": mpl, "throughput": throughput, "response_ms": 50.0 / throughput * 1e3, "first_ms": 1.0,
                "first_times": 6.0, "is_enough": 8 <= mpl })
        };
        rows([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64].map(limit).to_vec().into())
    }

    fn stages(&self) -> Vec<Row> {
        let stage = |class: &str, transport: &str, stage: &str, ms: f64, is_waiting: bool| {
            json!({ "class": class, "transport": transport, "isolation": "none", "stage": stage, "is_waiting": is_waiting,
                "count": 100, "total_ms": ms, "p50_ms": 0.01, "p99_ms": 0.02, "p999_ms": 0.02, "max_ms": 0.03,
                "share": 0.1, "overhead": 0.004 })
        };
        rows(json!([
            stage("high", "tcp", "run", 500.0, false),
            stage("high", "tcp", "lock_wait", 200.0, true),
            stage("high", "unix", "run", 100.0, false),
            stage("high", "unix", "network_write", 200.0, false),
            stage("normal", "tcp", "gate", 0.0, true),
            stage("normal", "tcp", "encode", 3.0, false),
        ]))
    }

    fn verdict(&self) -> Option<Row> {
        let words = "MPL 8 is in force; MPL 6 would be the <lowest> that costs almost nothing.";
        Some(rows(json!([{ "mode": "auto", "mpl": 6, "verdict": words, "source": "events" }])).remove(0))
    }
}

/// A console on a free port, ended and joined when dropped.
pub struct Served {
    pub address: SocketAddr,
    pub fake: Arc<Fake>,
    shutdown: Shutdown,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Served {
    pub fn new(fake: Fake) -> Served {
        Served::on(TcpListener::bind("127.0.0.1:0").unwrap(), fake)
    }

    pub fn on(listener: TcpListener, fake: Fake) -> Served {
        let address = listener.local_addr().unwrap();
        let (fake, shutdown) = (Arc::new(fake), Shutdown::new());
        let (source, asked) = (Arc::clone(&fake), shutdown.clone());
        let thread = thread::spawn(move || console::serve(listener, source, asked));
        Served { address, fake, shutdown, thread: Some(thread) }
    }

    pub fn end(&mut self) {
        self.shutdown.trigger();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }

    /// Returns status, head and body of the response to a request with this `Host`.
    pub fn get(&self, path: &str, host: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_lowercase(), body.to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end();
    }
}
