//! Tables, figures and charts of the phases.
//!
//! **Invariant:** a ratio is of the same server, transaction and kind of client: beside analytics to idle.

use super::Arguments;
use super::phases::Measured;
use super::urgent::Kind;
use crate::report::{PercentileChart, Report, Table, number};

/// Figures of an idle PostgreSQL are those of it with remedies, too.
fn base(key: &str) -> &str {
    if key == "postgres_remedies" { "postgres" } else { key }
}

/// The idle phase that belongs to a phase.
fn idle<'m>(all: &'m [Measured], of: &Measured) -> Option<&'m Measured> {
    all.iter().find(|phase| {
        phase.analytics == 0
            && phase.kind == of.kind
            && phase.is_realtime == of.is_realtime
            && base(phase.key) == base(of.key)
    })
}

fn p99_us(phase: &Measured) -> f64 {
    phase.seen.latency.quantile_us(0.99)
}

/// How a phase's figures begin: without the server's key if it is ours.
fn prefix(phase: &Measured) -> String {
    let server = if phase.key == "overtake" { String::new() } else { format!(".{}", phase.key) };
    let load = if phase.analytics == 0 { "idle".to_owned() } else { format!("a{}", phase.analytics) };
    format!("wire.mixed{server}.{}.{load}", phase.kind.name())
}

/// Puts everything into the report.
pub fn fill(report: &mut Report, arguments: &Arguments, realtime_allowed: bool, all: &[Measured]) {
    for kind in Kind::ALL {
        let what = match kind {
            Kind::Update => "one-statement updates by key",
            Kind::NewOrder => "interactive New-Orders",
        };
        let header =
            ["", "p50 µs", "p99 µs", "p99.9 µs", "max µs", "p99 / idle", "late p99 µs", "unfinished", "queries/min"];
        let title = format!(
            "{} {what} a second, open loop, beside TPC-H at scale factor {}",
            number(arguments.rate),
            arguments.scale_factor
        );
        let mut table = Table::new(title, &header);
        let mut chart = PercentileChart::new(format!("{what}: latency from the intended arrival"), "µs");
        for phase in all.iter().filter(|phase| phase.kind == kind) {
            let latency = phase.seen.latency.quantiles_us();
            let ratio = idle(all, phase).filter(|_| 0 < phase.analytics).map(|idle| p99_us(phase) / p99_us(idle));
            let load = if phase.analytics == 0 { "idle".to_owned() } else { format!("{} sessions", phase.analytics) };
            let client = if phase.is_realtime { "" } else { ", ordinary client" };
            table.row([
                format!("{}, {load}{client}", phase.title),
                number(latency.p50),
                number(latency.p99),
                number(latency.p999),
                number(latency.max),
                ratio.map_or_else(String::new, number),
                number(phase.seen.late.quantile_us(0.99)),
                number(phase.seen.unfinished as f64),
                if phase.analytics == 0 { String::new() } else { number(phase.queries_per_min) },
            ]);
            if phase.is_realtime == realtime_allowed {
                chart.series(format!("{} {load}", base(phase.key)), &phase.seen.latency);
            }
            figures(report, phase, ratio, realtime_allowed);
        }
        report.table(table);
        report.chart(chart);
    }
    report.note(format!("{} connections; a transaction that finds none free waits, and that is in its latency. Unfinished ones count with the time that they had waited. Late: from the intended arrival until the client's own thread had it.", arguments.clients));
    report.note(if realtime_allowed {
        "The client stands for another machine, so its two threads run in the real-time class; \"ordinary client\": they compete with the server for the processors."
    } else {
        "The real-time class is not allowed here: the client competes with the server for the processors, and the figures are those of an ordinary client."
    });
}

fn figures(report: &mut Report, phase: &Measured, ratio: Option<f64>, realtime_allowed: bool) {
    let prefix = prefix(phase);
    // Where the real-time class is not allowed, the ordinary client is the only one.
    let client = if phase.is_realtime == realtime_allowed { "" } else { "ordinary_" };
    report.quantiles(&format!("{prefix}.{client}us"), &phase.seen.latency.quantiles_us());
    report.quantiles(&format!("{prefix}.{client}late_us"), &phase.seen.late.quantiles_us());
    report.figure(format!("{prefix}.{client}unfinished"), phase.seen.unfinished as f64);
    if let Some(ratio) = ratio {
        report.figure(format!("{prefix}.{client}p99_vs_idle"), ratio);
        report.figure(format!("{prefix}.{client}queries_per_min"), phase.queries_per_min);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::wire::mixed::urgent::Seen;

    fn phase(key: &'static str, analytics: u32, is_realtime: bool, us: u64) -> Measured {
        let mut seen = Seen::default();
        seen.latency.record_ns(us * 1_000);
        let title = key.to_owned();
        Measured { key, title, kind: Kind::Update, analytics, is_realtime, seen, queries_per_min: 0.0 }
    }

    #[test]
    fn names_are_those_that_were_promised() {
        assert_eq!(prefix(&phase("overtake", 4, true, 1)), "wire.mixed.update.a4");
        assert_eq!(prefix(&phase("postgres", 4, true, 1)), "wire.mixed.postgres.update.a4");
        assert_eq!(prefix(&phase("overtake", 0, true, 1)), "wire.mixed.update.idle");
    }

    #[test]
    fn a_ratio_is_to_the_same_servers_same_client() {
        let all = [
            phase("overtake", 0, true, 10),
            phase("overtake", 0, false, 20),
            phase("postgres", 0, true, 30),
            phase("postgres_remedies", 4, true, 60),
        ];
        assert_eq!(idle(&all, &all[3]).map(|idle| idle.seen.latency.quantiles_us().max), Some(30.0));
        let ours = phase("overtake", 2, false, 1);
        assert_eq!(idle(&all, &ours).map(|idle| idle.seen.latency.quantiles_us().max), Some(20.0));
    }
}
