//! Tables, figures and charts of the phases.

use super::LowResults;
use super::phase::PhaseResult;
use super::variant::Variant;
use crate::delivery::SignalAlone;
use crate::mixed::Tally;
use crate::report::median;
use crate::report::{PercentileChart, Report, TextTable, number};
use sched::{Policy, Start};
use stage::Histogram;

const QUANTILES: [&str; 6] = ["", "p50", "p90", "p99", "p99.9", "max"];

/// Fills `report`.
pub fn fill(report: &mut Report, signal: Option<&SignalAlone>, high_alone: &PhaseResult, lows: &[LowResults]) {
    report_signal(report, signal);
    figures_of_times(report, "alone.preempt", &high_alone.tally);
    for low in lows {
        report_low(report, high_alone, low, signal);
    }
    let late = generator_late(high_alone, lows);
    report.quantiles("generator.late_us", &late.quantiles_us());
    let quantiles = late.quantiles_us();
    report.note(format!(
        "The generator submitted {} µs late at p50, {} at p99, {} at most; this is inside the end-to-end times.",
        number(quantiles.p50),
        number(quantiles.p99),
        number(quantiles.max)
    ));
    report.note(
        "On CPU: only New-Orders whose worker waited at most 0.1 ms for a processor between submit and end \
         (schedstat); the share kept is in the tables.",
    );
}

fn report_signal(report: &mut Report, signal: Option<&SignalAlone>) {
    match signal {
        Some(SignalAlone { delay, delay_on_cpu }) => {
            report.quantiles("delivery.signal_us", &delay.quantiles_us());
            report.quantiles("delivery.signal_on_cpu_us", &delay_on_cpu.quantiles_us());
        }
        None => report.note("The signal rung alone was not measured: it needs two processors."),
    }
}

fn generator_late(high_alone: &PhaseResult, lows: &[LowResults]) -> Histogram {
    let mut late = Histogram::new();
    let phases = lows.iter().flat_map(|low| low.policies.iter().map(|(_, result)| result));
    for offered in phases.chain([high_alone]).filter_map(|phase| phase.offered.as_ref()) {
        late.add(&offered.late);
    }
    late
}

fn figures_of_times(report: &mut Report, prefix: &str, tally: &Tally) {
    for (what, times) in [("start", &tally.start), ("run", &tally.run), ("e2e", &tally.e2e)] {
        report.quantiles(&format!("{prefix}.{what}_us"), &times.raw.quantiles_us());
        report.quantiles(&format!("{prefix}.{what}_on_cpu_us"), &times.on_cpu.quantiles_us());
    }
    report.figure(format!("{prefix}.on_cpu_share"), tally.on_cpu_share());
}

fn report_low(report: &mut Report, high_alone: &PhaseResult, low: &LowResults, signal: Option<&SignalAlone>) {
    let name = &low.name;
    let low_alone_per_s = low.alone.low_per_s();
    report.figure(format!("{name}.alone.low_per_s"), low_alone_per_s);
    report.quantiles(&format!("{name}.alone.low_us"), &low.alone.low_time.quantiles_us());
    for (variant, result) in &low.policies {
        figures_of_policy(report, &format!("{name}.{variant}"), low_alone_per_s, *variant, result);
    }
    let title = name.to_uppercase();
    let rows = low.policies.iter().map(|(variant, result)| (variant.name(), result));
    let with_alone: Vec<(&str, &PhaseResult)> = rows.chain([("no query", high_alone)]).collect();
    type Pick = fn(&Tally) -> &Histogram;
    let pictures: [(&str, Pick); 5] = [
        ("start delay (from submit), raw", |tally| &tally.start.raw),
        ("start delay (from submit), on CPU", |tally| &tally.start.on_cpu),
        ("run", |tally| &tally.run.raw),
        ("end to end (from the scheduled arrival), raw", |tally| &tally.e2e.raw),
        ("end to end (from the scheduled arrival), on CPU", |tally| &tally.e2e.on_cpu),
    ];
    for (what, pick) in pictures {
        let mut table = TextTable::new(format!("New-Order beside {title}: {what}, µs"), &QUANTILES);
        for (policy, result) in &with_alone {
            let numbers = pick(&result.tally).quantiles_us().named().map(|(_, value)| number(value));
            table.row([(*policy).to_owned()].into_iter().chain(numbers));
        }
        report.table(table);
    }
    rates(report, &title, low, &with_alone);
    starts(report, &title, low);
    let mut chart = PercentileChart::new(format!("New-Order beside {title}, end to end"), "µs");
    for (policy, result) in &with_alone {
        chart.series(*policy, &result.tally.e2e.raw);
    }
    report.chart(chart);
    verdicts(report, &title, low, signal);
}

fn figures_of_policy(report: &mut Report, prefix: &str, low_alone_per_s: f64, variant: Variant, result: &PhaseResult) {
    let tally = &result.tally;
    figures_of_times(report, prefix, tally);
    report.figure(format!("{prefix}.low_per_s"), result.low_per_s());
    report.figure(format!("{prefix}.low_times"), result.low_per_s() / low_alone_per_s);
    report.quantiles(&format!("{prefix}.low_us"), &result.low_time.quantiles_us());
    report.figure(format!("{prefix}.high_per_s"), result.high_per_s());
    report.figure(format!("{prefix}.done"), tally.done as f64);
    let offered = result.offered.as_ref().map_or((0, 0), |offered| (offered.arrivals, offered.rejected));
    report.figure(format!("{prefix}.offered"), offered.0 as f64);
    report.figure(format!("{prefix}.rejected"), offered.1 as f64);
    report.figure(format!("{prefix}.aborts"), result.outcomes.aborts as f64);
    report.figure(format!("{prefix}.retries"), tally.retries as f64);
    report.figure(format!("{prefix}.failed"), (tally.failed + result.outcomes.failed) as f64);
    report.figure(format!("{prefix}.polled_share"), tally.share(&[Start::Polled]));
    report.figure(format!("{prefix}.signalled_share"), tally.share(&[Start::Signalled, Start::Deferred]));
    // A signal that landed in a region was delivered by the signal rung too; its share is reported separately as well.
    report.figure(format!("{prefix}.deferred_share"), tally.share(&[Start::Deferred]));
    report.figure(format!("{prefix}.boundary_share"), tally.share(&[Start::Boundary]));
    report.figure(format!("{prefix}.idle_share"), tally.share(&[Start::Idle]));
    report.figure(format!("{prefix}.claimed_share"), tally.share(&[Start::Claimed]));
    report.figure(format!("{prefix}.versions_dead_first_half"), result.versions_dead_max[0] as f64);
    report.figure(format!("{prefix}.versions_dead_second_half"), result.versions_dead_max[1] as f64);
    report.figure(format!("{prefix}.stolen"), result.counters.stolen as f64);
    report.figure(format!("{prefix}.overflowed"), result.counters.overflowed as f64);
    report.figure(format!("{prefix}.capped"), result.counters.capped as f64);
    if variant.policy == Policy::Preempt {
        let interrupts = &result.interrupts;
        report.figure(format!("{prefix}.interrupts.taken"), interrupts.signals as f64);
        report.figure(format!("{prefix}.interrupts.deferred"), interrupts.landed_in_region as f64);
        report.figure(format!("{prefix}.interrupts.served_signalled"), interrupts.signalled as f64);
        report.figure(format!("{prefix}.interrupts.served_deferred"), interrupts.deferred as f64);
        report.figure(format!("{prefix}.interrupts.served_polled"), interrupts.polled as f64);
        report.figure(format!("{prefix}.interrupts.deferred_us_max"), interrupts.deferred_ns_max as f64 / 1e3);
    }
}

fn rates(report: &mut Report, title: &str, low: &LowResults, with_alone: &[(&str, &PhaseResult)]) {
    let low_alone_per_s = low.alone.low_per_s();
    let header = ["", "queries/s", "of alone", "query ms p50", "New-Order/s", "aborts", "retries", "on CPU"];
    let mut table = TextTable::new(format!("Throughput beside {title}"), &header);
    let row = |policy: &str, result: &PhaseResult| {
        [
            policy.to_owned(),
            number(result.low_per_s()),
            number(result.low_per_s() / low_alone_per_s),
            number(result.low_time.quantile_us(0.5) / 1e3),
            number(result.high_per_s()),
            number(result.outcomes.aborts as f64),
            number(result.tally.retries as f64),
            format!("{:.0} %", 100.0 * result.tally.on_cpu_share()),
        ]
    };
    table.row(row("query alone", &low.alone));
    for (policy, result) in with_alone {
        table.row(row(policy, result));
    }
    report.table(table);
}

fn starts(report: &mut Report, title: &str, low: &LowResults) {
    let header = [
        "",
        "polled",
        "signalled",
        "deferred",
        "yielded",
        "boundary",
        "idle",
        "dedicated",
        "claimed",
        "signals",
        "in region",
    ];
    let mut table = TextTable::new(format!("How New-Orders came to run beside {title}, percent; signals"), &header);
    for (variant, result) in &low.policies {
        let shares = Start::ALL.map(|start| number(100.0 * result.tally.share(&[start])));
        let interrupts = [result.interrupts.signals, result.interrupts.landed_in_region].map(|n| number(n as f64));
        table.row([variant.name().to_owned()].into_iter().chain(shares).chain(interrupts));
    }
    report.table(table);
    if low.alone.answers_count() > 0 {
        report.note(format!(
            "{title}: every answer under every policy was equal to the undisturbed one ({} quer{}).",
            low.alone.answers_count(),
            if low.alone.answers_count() == 1 { "y" } else { "ies" }
        ));
    }
}

/// Reports the tails of `preempt` as multiples of those of `thread`, each pair from one round.
fn tails(report: &mut Report, title: &str, low: &LowResults) {
    let in_round = |round: &[(Variant, [f64; 2])], policy| {
        round.iter().find(|(variant, _)| variant.name() == policy).map(|(_, tails)| *tails)
    };
    let pairs = || low.tails.iter().filter_map(|round| Some((in_round(round, "preempt")?, in_round(round, "thread")?)));
    if pairs().next().is_none() {
        return;
    }
    let of = |at: usize| median(&pairs().map(|(preempt, thread)| preempt[at] / thread[at]).collect::<Vec<f64>>());
    let ratios = [of(0), of(1)];
    report.figure(format!("{}.preempt.start_p999_vs_thread", low.name), ratios[0]);
    report.figure(format!("{}.preempt.e2e_p999_vs_thread", low.name), ratios[1]);
    report.note(format!(
        "{title}: raw p99.9 under preempt is {} times that under thread from submit to start, and {} times end to end \
         (median of {} rounds).",
        number(ratios[0]),
        number(ratios[1]),
        low.tails.len()
    ));
}

/// Reports the ratios that people look for.
fn verdicts(report: &mut Report, title: &str, low: &LowResults, signal: Option<&SignalAlone>) {
    let find = |name| low.policies.iter().find(|(variant, _)| variant.name() == name).map(|(_, result)| result);
    tails(report, title, low);
    let Some(preempt) = find("preempt") else { return };
    let p99 = |histogram: &Histogram| histogram.quantile_us(0.99);
    if let Some(wait) = find("wait") {
        let times = p99(&wait.tally.e2e.raw) / p99(&preempt.tally.e2e.on_cpu);
        report.figure(format!("{}.wait.e2e_p99_times", low.name), times);
        report.note(format!(
            "{title}: end-to-end p99 under preempt (on CPU) is {} times below that under wait (raw); queries/s are {} of alone.",
            number(times),
            number(preempt.low_per_s() / low.alone.low_per_s())
        ));
    }
    if let Some(SignalAlone { delay_on_cpu, .. }) = signal {
        let start = &preempt.tally.start.on_cpu;
        let ratios = [0.5, 0.99].map(|at| start.quantile_us(at) / delay_on_cpu.quantile_us(at));
        report.figure(format!("{}.preempt.start_vs_signal.p50", low.name), ratios[0]);
        report.figure(format!("{}.preempt.start_vs_signal.p99", low.name), ratios[1]);
        report.note(format!(
            "{title}: start delay under preempt (on CPU) is {} times the signal rung's (on CPU) at p50 and {} times at p99.",
            number(ratios[0]),
            number(ratios[1])
        ));
    }
}
