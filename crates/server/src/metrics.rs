//! Metrics for Prometheus, health and readiness, by HTTP.
//!
//! **Invariant:** who asks costs a small task and a bounded time; nothing of the database is touched.

use crate::stats::Stats;
use sql::observe::Observe;
use std::fmt::Write;
use std::net::TcpListener as StdTcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request has to be here by then, and to be no longer than this.
const PATIENCE: Duration = Duration::from_secs(5);
const REQUEST_MAX: usize = 8 << 10;

/// Answers for ever.
pub(crate) async fn serve(listener: StdTcpListener, stats: Arc<Stats>) {
    let listener = match listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener)) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the metrics cannot be served"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let stats = Arc::clone(&stats);
                tokio::spawn(async move { drop(tokio::time::timeout(PATIENCE, answer(stream, &stats)).await) });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn answer(mut stream: TcpStream, stats: &Stats) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        if REQUEST_MAX < request.len() || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let line = request.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let (status, body) = match (words.next(), words.next()) {
        (Some(b"GET" | b"HEAD"), Some(b"/metrics")) => ("200 OK", text(stats)),
        // It listens, so it accepts.
        (Some(b"GET" | b"HEAD"), Some(b"/healthz" | b"/readyz")) => ("200 OK", "ok\n".to_owned()),
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

/// Prometheus' text format.
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
    let name = "overtake_stage_seconds";
    let _ = writeln!(out, "# HELP {name} Where the time of statements goes, by class.\n# TYPE {name} summary");
    for row in stats.stages() {
        let labels = format!("class=\"{}\",stage=\"{}\"", row.class, row.stage);
        let times = row.times;
        let _ = writeln!(out, "{name}{{{labels},quantile=\"0.5\"}} {}", times.p50_us / 1e6);
        let _ = writeln!(out, "{name}{{{labels},quantile=\"0.99\"}} {}", times.p99_us / 1e6);
        let _ =
            writeln!(out, "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {}", times.total_us / 1e6, times.count);
    }
    out
}
