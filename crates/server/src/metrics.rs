//! Metrics for Prometheus, health and readiness, by HTTP.
//!
//! **Invariant:** a request costs a small task and a bounded time; of the database, only counters are touched. In front
//! of an upstream, `/readyz` may ask a server whether it is reachable, at most once a second.

use crate::admission::{Admission, AdmissionView, Mode};
use crate::service::Service;
use crate::stats::Stats;
use crate::xdp_lines;
use gate::{ClassView, Times};
use stage::observe::{Observe, RunPartRow};
use std::fmt::Write;
use std::net::TcpListener as StdTcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Time within which a request has to arrive, and its maximum size in bytes.
const PATIENCE: Duration = Duration::from_secs(5);
const REQUEST_MAX: usize = 8 << 10;

/// Admission controls with the names of the servers behind them. An empty name makes no label.
type Admissions = Vec<(Arc<str>, Admission)>;

/// Source of further metrics.
type More = Arc<dyn Fn() -> String + Send + Sync>;

/// Answers requests, for ever.
pub async fn serve(
    listener: StdTcpListener,
    stats: Arc<Stats>,
    admissions: Admissions,
    front: impl Service,
    more: More,
) {
    let listener = match listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener)) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the metrics cannot be served"),
    };
    let admissions = Arc::new(admissions);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (stats, admissions, front) = (Arc::clone(&stats), Arc::clone(&admissions), front.clone());
                let more = Arc::clone(&more);
                tokio::spawn(async move {
                    let text = || text(&stats) + &gate(&admissions) + &front.metrics() + &more();
                    drop(tokio::time::timeout(PATIENCE, answer(stream, text, &front)).await);
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn answer(mut stream: TcpStream, text: impl Fn() -> String, front: &impl Service) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        if REQUEST_MAX < request.len() || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let line = request.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let (status, body) = match (words.next(), words.next()) {
        (Some(b"GET" | b"HEAD"), Some(b"/metrics")) => ("200 OK", text()),
        // The process answers, so it is alive.
        (Some(b"GET" | b"HEAD"), Some(b"/healthz")) => ("200 OK", "ok\n".to_owned()),
        (Some(b"GET" | b"HEAD"), Some(b"/readyz")) => match front.ready().await {
            Ok(()) => ("200 OK", "ok\n".to_owned()),
            Err(why) => ("503 Service Unavailable", format!("{why}\n")),
        },
        (Some(b"GET" | b"HEAD"), _) => ("404 Not Found", "There are /metrics, /healthz and /readyz.\n".to_owned()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    if !line.starts_with(b"HEAD") {
        stream.write_all(body.as_bytes()).await?;
    }
    stream.shutdown().await
}

/// Metrics in Prometheus' text format.
fn text(stats: &Stats) -> String {
    let mut out = String::new();
    let mut single = |name: &str, kind: &str, help: &str, value: u64| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    };
    single("overtake_sessions", "gauge", "Sessions that are open.", stats.sessions() as u64);
    single("overtake_connections_total", "counter", "Sessions that have begun.", stats.connections.load(Relaxed));
    single("overtake_turned_away_total", "counter", "Clients turned away.", stats.turned_away.load(Relaxed));
    single("overtake_errors_total", "counter", "Statements that have failed.", stats.errors.load(Relaxed));
    single("overtake_cancels_total", "counter", "Requests to cancel.", stats.cancels.load(Relaxed));
    let help = "Clients disconnected because they took nothing of what they were sent.";
    single("overtake_unread_total", "counter", help, stats.unread.load(Relaxed));
    let help = "Statements run again after a more important transaction had aborted them.";
    single("overtake_statements_run_again_total", "counter", help, stats.run_again.load(Relaxed));
    let rings = rings::spin::counts();
    let help = "Looks at shared memory that found nothing new: processor time that was no work.";
    single("overtake_shared_empty_looks_total", "counter", help, rings.empty_looks);
    let help = "Sleeps until a client that shares memory sends a wake-up.";
    single("overtake_shared_sleeps_total", "counter", help, rings.sleeps);
    let help = "Wake-ups sent to clients that share memory.";
    single("overtake_shared_wakes_total", "counter", help, rings.wakes);
    for (name, help, value) in xdp_lines::counters() {
        single(name, "counter", help, value);
    }
    stages(&mut out, stats);
    out
}

/// Metrics of the stage clock.
fn stages(out: &mut String, stats: &Stats) {
    let name = "overtake_stage_seconds";
    let help = "Where the time of statements goes, by class, transport, isolation level and stage.";
    // Writing to a string does not fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} summary");
    for row in stats.stages() {
        let (transport, isolation) = (row.transport.name(), row.isolation.name());
        let labels = format!(
            "class=\"{}\",transport=\"{transport}\",isolation=\"{isolation}\",stage=\"{}\"",
            row.class,
            row.stage.name()
        );
        let times = row.times;
        for (quantile, us) in [("0.5", times.p50_us), ("0.99", times.p99_us), ("0.999", times.p999_us)] {
            let _ = writeln!(out, "{name}{{{labels},quantile=\"{quantile}\"}} {}", us / 1e6);
        }
        let _ =
            writeln!(out, "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {}", times.total_us / 1e6, times.count);
    }
    let part = |row: RunPartRow| {
        let (transport, isolation, part) = (row.transport.name(), row.isolation.name(), row.part.name());
        let class = row.class;
        let labels = format!("class=\"{class}\",transport=\"{transport}\",isolation=\"{isolation}\",part=\"{part}\"");
        (labels, row.share)
    };
    let parts: Vec<(String, f64)> = stats.run_parts().into_iter().map(part).collect();
    let help = "Shares of the parts of the stage run, as measured on one transaction in 64.";
    family(out, ("overtake_run_part_ratio", "gauge", help), &parts);
    let clock = stats.clock();
    let alone = |value: f64| [(String::new(), value)];
    let help = "Stamps of the stage clock.";
    family(out, ("overtake_stage_stamps_total", "counter", help), &alone(clock.stamps as f64));
    let help = "Cost of a stamp of the stage clock, as measured at the start.";
    family(out, ("overtake_stage_stamp_seconds", "gauge", help), &alone(clock.stamp_ns / 1e9));
    let help = "Cost of the stage clock as a share of the processor time of all stages.";
    family(out, ("overtake_stage_overhead_ratio", "gauge", help), &alone(clock.overhead));
}

/// One family of values, by labels.
pub fn family(out: &mut String, (name, kind, help): (&str, &str, &str), values: &[(String, f64)]) {
    if values.is_empty() {
        return;
    }
    // Writing to a string does not fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in values {
        let _ = match &**labels {
            "" => writeln!(out, "{name} {value}"),
            labels => writeln!(out, "{name}{{{labels}}} {value}"),
        };
    }
}

/// Metrics of the gates, if there are any.
fn gate(admissions: &Admissions) -> String {
    let mut out = String::new();
    let label = |server: &str| if server.is_empty() { String::new() } else { format!("server=\"{server}\"") };
    let views: Vec<(String, AdmissionView, &Admission)> = admissions
        .iter()
        .filter_map(|(server, admission)| Some((label(server), admission.view()?, admission)))
        .collect();
    let mut family = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
        family(&mut out, (name, kind, help), values);
    };
    let alone = |value: &dyn Fn(&AdmissionView) -> Option<f64>| -> Vec<(String, f64)> {
        views.iter().filter_map(|(server, view, _)| Some((server.clone(), value(view)?))).collect()
    };
    // Under observation no limit is in force, so none is reported.
    let mpl = alone(&|view| (view.mode != Mode::Observe).then(|| view.gate.mpl.into()));
    family("overtake_mpl", "gauge", "Transactions that may be active.", &mpl);
    let holding = alone(&|view| view.phase.map(|phase| f64::from(u8::from(phase == gate::control::Phase::Holding))));
    family("overtake_mpl_holding", "gauge", "Whether the limit was found, and is only watched.", &holding);
    let extras = alone(&|view| Some(view.gate.extras.into()));
    family("overtake_gate_extra_slots", "gauge", "Slots beyond the limit, in use.", &extras);
    let with = |server: &str, name: &str, value: &str| match server {
        "" => format!("{name}=\"{value}\""),
        server => format!("{server},{name}=\"{value}\""),
    };
    let shares = views.iter().flat_map(|(server, _, admission)| {
        admission.resources().into_iter().map(|row| (with(server, "resource", row.resource.name()), row.share))
    });
    let shares: Vec<(String, f64)> = shares.collect();
    family("overtake_gate_resource_share", "gauge", "Where transactions inside spend their time, lately.", &shares);
    type Count = fn(&AdmissionView) -> u64;
    let counters: [(&str, &str, Count); 8] = [
        ("overtake_gate_held_back_total", "Transactions that waited for others with their hot keys.", |view| {
            view.gate.counters.held_back
        }),
        ("overtake_gate_lent_total", "Slots lent by transactions that waited for their clients.", |view| {
            view.gate.counters.lent
        }),
        ("overtake_gate_extra_total", "Slots given beyond the limit.", |view| view.gate.counters.extra),
        ("overtake_gate_turned_away_total", "Transactions turned away because too many waited.", |view| {
            view.gate.counters.turned_away
        }),
        ("overtake_gate_timed_out_total", "Transactions turned away because they had waited too long.", |view| {
            view.gate.counters.timed_out
        }),
        ("overtake_gate_given_up_total", "Transactions whose clients have given up waiting.", |view| {
            view.gate.counters.given_up
        }),
        ("overtake_gate_demoted_total", "Transactions demoted because they ran too long.", |view| {
            view.gate.counters.demoted
        }),
        (
            "overtake_gate_cancelled_total",
            "Transactions whose statements were cancelled because they ran too long.",
            |view| view.gate.counters.cancelled,
        ),
    ];
    for (name, help, count) in counters {
        family(name, "counter", help, &alone(&|view| Some(count(view) as f64)));
    }
    let all_classes =
        || views.iter().flat_map(|(server, view, _)| view.gate.classes.iter().map(move |class| (server, class)));
    let classes = |value: &dyn Fn(&ClassView) -> f64| -> Vec<(String, f64)> {
        all_classes().map(|(server, class)| (with(server, "class", &class.name), value(class))).collect()
    };
    family("overtake_gate_slots", "gauge", "Slots that a class has.", &classes(&|class| class.slots.into()));
    family(
        "overtake_gate_waiting",
        "gauge",
        "Transactions that wait to be let in.",
        &classes(&|class| class.waiting as f64),
    );
    family(
        "overtake_gate_done_total",
        "counter",
        "Transactions that have ended well.",
        &classes(&|class| class.done as f64),
    );
    family("overtake_gate_c2", "gauge", "Squared coefficient of variation of demands.", &classes(&|class| class.c2));
    for (name, help, times) in [
        ("overtake_gate_wait_seconds", "Time outside.", (|class| &class.wait) as fn(&ClassView) -> &Times),
        ("overtake_gate_inside_seconds", "Time active inside.", |class| &class.inside),
        ("overtake_gate_idle_seconds", "Time in which it was the client's turn.", |class| &class.idle),
    ] {
        // Without a gate, a histogram would have a header and no values.
        if views.is_empty() {
            continue;
        }
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
        for (server, class) in all_classes() {
            histogram(&mut out, name, &with(server, "class", &class.name), times(class));
        }
    }
    out
}

/// Exponents of the bounds of buckets, which are powers of two in microseconds: 16 us to 67 s.
const BOUNDS: std::ops::RangeInclusive<u32> = 4..=26;

fn histogram(out: &mut String, name: &str, labels: &str, times: &Times) {
    for power in BOUNDS {
        let us = 1u64 << power;
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{}\"}} {}", us as f64 / 1e6, times.below_us(us));
    }
    let (sum, count) = (times.sum(), times.count());
    let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
    let _ = writeln!(out, "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {count}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{AdmissionOptions, Resource, ResourceSample};

    #[test]
    fn what_transactions_spend_their_time_on_is_a_family() {
        let admission = Admission::new(&AdmissionOptions { mode: Mode::Fixed, ..AdmissionOptions::default() })
            .expect("an admission");
        let mut sample = ResourceSample::default();
        (sample.at[Resource::Lock as usize], sample.at[Resource::Io as usize]) = (3, 1);
        admission.record(Duration::from_secs(1), &sample);
        let said = gate(&vec![(Arc::from(""), admission)]);
        for line in ["{resource=\"lock\"} 0.75\n", "{resource=\"io\"} 0.25\n", "{resource=\"processor\"} 0\n"] {
            assert!(said.contains(&format!("overtake_gate_resource_share{line}")), "{said}");
        }
    }

    #[test]
    fn the_gates_times_are_histograms() {
        let options = AdmissionOptions {
            mode: Mode::Fixed,
            gate: gate::GateSettings::of_priorities(4),
            ..AdmissionOptions::default()
        };
        let admission = Admission::new(&options).expect("these settings make a gate");
        let out = gate(&vec![(Arc::from(""), admission)]);
        for line in [
            "# TYPE overtake_gate_idle_seconds histogram",
            "overtake_gate_wait_seconds_bucket{class=\"high\",le=\"0.000016\"} 0",
            "overtake_gate_wait_seconds_bucket{class=\"high\",le=\"+Inf\"} 0",
            "overtake_gate_inside_seconds_count{class=\"low\"} 0",
        ] {
            assert!(out.lines().any(|own| own == line), "{line} is not in {out}");
        }
    }

    #[test]
    fn several_servers_have_labels() {
        let options = AdmissionOptions {
            mode: Mode::Fixed,
            gate: gate::GateSettings::of_priorities(4),
            ..AdmissionOptions::default()
        };
        let admission = || Admission::new(&options).expect("these settings make a gate");
        let out = gate(&vec![(Arc::from("one:1"), admission()), (Arc::from("two:2"), admission())]);
        for line in [
            "overtake_mpl{server=\"two:2\"} 4",
            "overtake_gate_held_back_total{server=\"one:1\"} 0",
            "overtake_gate_slots{server=\"two:2\",class=\"low\"} 0",
            "overtake_gate_resource_share{server=\"one:1\",resource=\"lock\"} 0",
            "overtake_gate_inside_seconds_count{server=\"two:2\",class=\"low\"} 0",
        ] {
            assert!(out.lines().any(|own| own == line), "{line} is not in {out}");
        }
        let types = out.lines().filter(|line| line.starts_with("# TYPE overtake_gate_wait_seconds "));
        assert_eq!(types.count(), 1);
    }
}
