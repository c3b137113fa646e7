//! Tables, figures and charts of the phases.
//!
//! **Invariant:** a ratio is of the same run, transaction and kind of client: beside analytics to idle of the same
//! server, or Overtake's to PostgreSQL's beside as many sessions. The reported value of several runs is the median.

use super::MixedArguments;
use super::host::{HostSample, NetworkSample};
use super::phases::{PhaseRun, PhaseRuns};
use super::urgent::UrgentKind;
use crate::report::median;
use crate::report::{PercentileChart, Report, TextTable, number};
use stage::{Histogram, Quantiles};

/// Returns the key of the idle server: an idle PostgreSQL's figures are also those of PostgreSQL with remedies.
fn base(key: &str) -> &str {
    if key == "postgres_remedies" { "postgres" } else { key }
}

/// Returns the idle phase that belongs to a phase.
fn idle<'m>(all: &'m [PhaseRuns], of: &PhaseRuns) -> Option<&'m PhaseRuns> {
    let idle = |phase: &&PhaseRuns| phase.analytics == 0 && base(phase.key) == base(of.key);
    all.iter().filter(|phase| is_alike(phase, of)).find(idle)
}

/// Returns the phase of PostgreSQL without remedies that belongs to a phase of another server.
fn postgres<'m>(all: &'m [PhaseRuns], of: &PhaseRuns) -> Option<&'m PhaseRuns> {
    let postgres = |phase: &&PhaseRuns| phase.analytics == of.analytics && phase.key == "postgres";
    all.iter().filter(|phase| base(of.key) != "postgres" && is_alike(phase, of)).find(postgres)
}

fn is_alike(phase: &PhaseRuns, other: &PhaseRuns) -> bool {
    phase.kind == other.kind && phase.is_realtime == other.is_realtime
}

/// Returns the median of the runs.
fn of_runs(phase: &PhaseRuns, value: impl Fn(&PhaseRun) -> f64) -> f64 {
    median(&phase.runs.iter().map(value).collect::<Vec<_>>())
}

/// Returns the median of the runs, of a value that is not known everywhere.
fn known_of_runs(phase: &PhaseRuns, value: impl Fn(&HostSample) -> Option<f64>) -> Option<f64> {
    let known: Vec<f64> = phase.runs.iter().filter_map(|run| value(&run.host)).collect();
    (!known.is_empty()).then(|| median(&known))
}

/// Returns the median of the ratios of a quantile to that of another phase in the same run.
fn ratio(phase: &PhaseRuns, to: &PhaseRuns, quantile: f64) -> f64 {
    let of = |run: &PhaseRun| run.seen.latency.quantile_us(quantile);
    let ratios: Vec<f64> = phase.runs.iter().zip(&to.runs).map(|(run, to)| of(run) / of(to)).collect();
    median(&ratios)
}

/// Returns the median of each quantile.
fn quantiles(phase: &PhaseRuns, of: impl Fn(&PhaseRun) -> Quantiles) -> Quantiles {
    let each = |value: fn(Quantiles) -> f64| of_runs(phase, |run| value(of(run)));
    Quantiles {
        p50: each(|of| of.p50),
        p90: each(|of| of.p90),
        p99: each(|of| of.p99),
        p999: each(|of| of.p999),
        max: each(|of| of.max),
    }
}

/// Returns the prefix of a phase's figures: without the server's key if it is Overtake.
fn prefix(phase: &PhaseRuns) -> String {
    let server = if phase.key == "overtake" { String::new() } else { format!(".{}", phase.key) };
    let load = if phase.analytics == 0 { "idle".to_owned() } else { format!("a{}", phase.analytics) };
    format!("wire.mixed{server}.{}.{load}", phase.kind.name())
}

/// Returns a phase's label for people.
fn label(phase: &PhaseRuns) -> String {
    let load = if phase.analytics == 0 { "idle".to_owned() } else { format!("{} sessions", phase.analytics) };
    let client = if phase.is_realtime { "" } else { ", ordinary client" };
    format!("{}, {load}{client}", phase.title)
}

/// Puts everything into the report.
pub fn fill(report: &mut Report, arguments: &MixedArguments, realtime_allowed: bool, all: &[PhaseRuns]) {
    for &kind in &arguments.kinds {
        let what = match kind {
            UrgentKind::Update => "one-statement updates by key",
            UrgentKind::NewOrder => "interactive New-Orders",
        };
        let title = format!(
            "{} {what} a second, open loop, beside TPC-H at scale factor {}",
            number(arguments.rate),
            arguments.scale_factor
        );
        let header = [
            "",
            "p50 µs",
            "p99 µs",
            "p99.9 µs",
            "max µs",
            "p99 / idle",
            "p99.9 / PG",
            "late p99 µs",
            "unfinished",
            "queries/min",
        ];
        let mut table = TextTable::new(title, &header);
        let mut chart = PercentileChart::new(format!("{what}: latency from the intended arrival"), "µs");
        for phase in all.iter().filter(|phase| phase.kind == kind) {
            let latency = quantiles(phase, |run| run.seen.latency.quantiles_us());
            let to_idle = idle(all, phase).filter(|_| 0 < phase.analytics).map(|idle| ratio(phase, idle, 0.99));
            let to_postgres = postgres(all, phase).map(|postgres| ratio(phase, postgres, 0.999));
            let told = |value: Option<f64>| value.map_or_else(String::new, number);
            table.row([
                label(phase),
                number(latency.p50),
                number(latency.p99),
                number(latency.p999),
                number(latency.max),
                told(to_idle),
                told(to_postgres),
                number(of_runs(phase, |run| run.seen.late.quantile_us(0.99))),
                number(phase.runs.iter().map(|run| run.seen.unfinished as f64).sum()),
                told((0 < phase.analytics).then(|| of_runs(phase, |run| run.queries_per_min))),
            ]);
            // The chart shows one kind of client: the one in the real-time class where that is allowed.
            if phase.is_realtime == realtime_allowed {
                let mut latency = Histogram::new();
                phase.runs.iter().for_each(|run| latency.add(&run.seen.latency));
                let load =
                    if phase.analytics == 0 { "idle".to_owned() } else { format!("{} sessions", phase.analytics) };
                chart.series(format!("{} {load}", base(phase.key)), &latency);
            }
            figures(report, phase, [to_idle, to_postgres], realtime_allowed);
        }
        report.table(table);
        report.chart(chart);
        report.table(host_table(all, kind, what));
    }
    report.note(format!(
        "Medians of {} runs, in which the servers take turns; ratios are of the same run.",
        arguments.runs
    ));
    report.note(format!("{} connections; a transaction that finds none free waits, and that is in its latency. Unfinished ones count with the time that they had waited. Late: from the intended arrival until the client's own thread had it.", arguments.clients));
    report.note("Sleepers are threads of the benchmark that wake every 2 ms and do nothing else: how late they wake is the host's own. Delay: of the server's threads that read from clients, from ready to running, on average; taken: how often others took the processor from them; locks: the share of the time in which one waited for a mutex or a latch. Steal is the hypervisor's.");
    report.note(if realtime_allowed {
        "The client stands for another machine, so its two threads run in the real-time class; \"ordinary client\": they compete with the server for the processors."
    } else {
        "The real-time class is not allowed here: the client competes with the server for the processors, and the figures are those of an ordinary client."
    });
}

/// Returns the table of the host's observations.
fn host_table(all: &[PhaseRuns], kind: UrgentKind, what: &str) -> TextTable {
    let header = [
        "",
        "sleeper p99 µs",
        "p99.9 µs",
        "real-time p99 µs",
        "p99.9 µs",
        "steal %",
        "delay µs",
        "taken/s",
        "faults/s",
        "locks %",
    ];
    let mut table = TextTable::new(format!("The host and the server's threads meanwhile: {what}"), &header);
    for phase in all.iter().filter(|phase| phase.kind == kind) {
        let told = |value: Option<f64>| value.map_or_else(String::new, number);
        let sleeper = |quantile: f64| known_of_runs(phase, |host| Some(host.sleeper.quantile_us(quantile)));
        let realtime =
            |quantile: f64| known_of_runs(phase, |host| Some(host.realtime_sleeper.as_ref()?.quantile_us(quantile)));
        let network =
            |value: fn(NetworkSample) -> Option<f64>| told(known_of_runs(phase, |host| host.network.and_then(value)));
        table.row([
            label(phase),
            told(sleeper(0.99)),
            told(sleeper(0.999)),
            told(realtime(0.99)),
            told(realtime(0.999)),
            told(known_of_runs(phase, |host| Some(100.0 * host.steal?))),
            network(|seen| Some(seen.delay_us)),
            network(|seen| Some(seen.taken_per_s)),
            network(|seen| Some(seen.faults_per_s)),
            network(|seen| Some(100.0 * seen.locked?)),
        ]);
    }
    table
}

fn figures(report: &mut Report, phase: &PhaseRuns, ratios: [Option<f64>; 2], realtime_allowed: bool) {
    let prefix = prefix(phase);
    // Where the real-time class is not allowed, the ordinary client is the only one.
    let client = if phase.is_realtime == realtime_allowed { "" } else { "ordinary_" };
    let (latency, late) =
        (|run: &PhaseRun| run.seen.latency.quantiles_us(), |run: &PhaseRun| run.seen.late.quantiles_us());
    report.quantiles(&format!("{prefix}.{client}us"), &quantiles(phase, latency));
    report.quantiles(&format!("{prefix}.{client}late_us"), &quantiles(phase, late));
    let sleeper = quantiles(phase, |run| run.host.sleeper.quantiles_us());
    report.quantiles(&format!("{prefix}.{client}sleeper_us"), &sleeper);
    let unfinished: u64 = phase.runs.iter().map(|run| run.seen.unfinished).sum();
    report.figure(format!("{prefix}.{client}unfinished"), unfinished as f64);
    let [to_idle, to_postgres] = ratios;
    if let Some(to_idle) = to_idle {
        report.figure(format!("{prefix}.{client}p99_vs_idle"), to_idle);
        report.figure(format!("{prefix}.{client}queries_per_min"), of_runs(phase, |run| run.queries_per_min));
    }
    let realtime = |host: &HostSample| host.realtime_sleeper.as_ref().map(|late| late.quantile_us(0.999));
    let known = [
        ("p999_vs_postgres", to_postgres),
        ("realtime_sleeper_p999_us", known_of_runs(phase, realtime)),
        ("steal", known_of_runs(phase, |host| host.steal)),
        ("network_delay_us", known_of_runs(phase, |host| Some(host.network?.delay_us))),
        ("network_taken_per_s", known_of_runs(phase, |host| Some(host.network?.taken_per_s))),
        ("network_faults_per_s", known_of_runs(phase, |host| Some(host.network?.faults_per_s))),
        ("network_locked", known_of_runs(phase, |host| host.network?.locked)),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            report.figure(format!("{prefix}.{client}{name}"), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::mixed::urgent::ClientResults;

    fn run(us: u64) -> PhaseRun {
        let mut seen = ClientResults::default();
        seen.latency.record_ns(us * 1_000);
        PhaseRun { seen, host: HostSample::default(), queries_per_min: 0.0 }
    }

    fn phase(key: &'static str, analytics: u32, is_realtime: bool, us: &[u64]) -> PhaseRuns {
        let (title, runs) = (key.to_owned(), us.iter().map(|us| run(*us)).collect());
        PhaseRuns { key, title, kind: UrgentKind::Update, analytics, is_realtime, runs }
    }

    #[test]
    fn names_are_those_that_were_promised() {
        assert_eq!(prefix(&phase("overtake", 4, true, &[1])), "wire.mixed.update.a4");
        assert_eq!(prefix(&phase("postgres", 4, true, &[1])), "wire.mixed.postgres.update.a4");
        assert_eq!(prefix(&phase("overtake", 0, true, &[1])), "wire.mixed.update.idle");
    }

    #[test]
    fn a_ratio_is_to_the_same_servers_same_client() {
        let all = [
            phase("overtake", 0, true, &[10]),
            phase("overtake", 0, false, &[20]),
            phase("postgres", 0, true, &[30]),
            phase("postgres_remedies", 4, true, &[60]),
            phase("postgres", 4, true, &[90]),
        ];
        let max = |phase: Option<&PhaseRuns>| phase.map(|phase| phase.runs[0].seen.latency.quantiles_us().max);
        assert_eq!(max(idle(&all, &all[3])), Some(30.0));
        assert_eq!(max(idle(&all, &phase("overtake", 2, false, &[1]))), Some(20.0));
        assert_eq!(max(postgres(&all, &phase("overtake", 4, true, &[1]))), Some(90.0));
        assert_eq!((max(postgres(&all, &all[3])), max(postgres(&all, &all[1]))), (None, None));
    }

    #[test]
    fn a_ratio_is_the_median_of_those_of_each_run() {
        let (busy, idle) = (phase("overtake", 2, true, &[10, 80, 90]), phase("overtake", 0, true, &[10, 40, 10]));
        assert!((ratio(&busy, &idle, 0.99) - 2.0).abs() < 0.1);
    }
}
