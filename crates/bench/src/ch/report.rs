//! Tables and figures of `bench ch`.

use super::verify::Verified;
use super::watch::QueryRun;
use super::{PolicyResult, TpccAlone};
use crate::report::{PercentileChart, Report, TextTable, number};
use sched::Policy;
use workloads::ch::QUERIES_COUNT;

/// Times of one query under one policy, and at rest.
struct QueryTimes {
    rest_ms: f64,
    loaded_ms: f64,
    /// Time under load over the time at rest at the same moment; the mean of all runs.
    times: f64,
    runs: usize,
}

impl PolicyResult {
    /// Returns the times of each query.
    fn queries(&self) -> Vec<QueryTimes> {
        let [before, loaded, after] = &self.runs;
        let (from_ns, to_ns) = self.phase.loaded_ns;
        (1..=QUERIES_COUNT)
            .map(|query| {
                let (early, late) = (median_ms(before, query), median_ms(after, query));
                let at_rest = |at_ns: f64| {
                    let way = ((at_ns - from_ns as f64) / (to_ns - from_ns) as f64).clamp(0.0, 1.0);
                    early + (late - early) * way
                };
                let is_loaded =
                    |run: &&QueryRun| run.query == query && from_ns <= run.started_ns && run.ended_ns <= to_ns;
                // A run that began in the warm-up counts if no other has ended.
                let inside: Vec<&QueryRun> = loaded.iter().filter(is_loaded).collect();
                let all: Vec<&QueryRun> = loaded.iter().filter(|run| run.query == query).collect();
                let runs = if inside.is_empty() { all } else { inside };
                let mean =
                    |of: &dyn Fn(&QueryRun) -> f64| runs.iter().map(|run| of(run)).sum::<f64>() / runs.len() as f64;
                QueryTimes {
                    rest_ms: mean(&|run| at_rest(run.middle_ns())),
                    loaded_ms: mean(&QueryRun::ms),
                    times: mean(&|run| run.ms() / at_rest(run.middle_ns())),
                    runs: runs.len(),
                }
            })
            .collect()
    }
}

fn median_ms(runs: &[QueryRun], query: usize) -> f64 {
    let mut times: Vec<f64> = runs.iter().filter(|run| run.query == query).map(QueryRun::ms).collect();
    times.sort_unstable_by(f64::total_cmp);
    (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2.0
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    (values.map(f64::ln).sum::<f64>() / QUERIES_COUNT as f64).exp()
}

/// Fills the report.
pub fn fill(report: &mut Report, alone: &TpccAlone, policies: &[PolicyResult], verified: &Verified) {
    let header = [
        "",
        "queries' time of rest",
        "left of that",
        "TPC-C/s",
        "start p50 µs",
        "e2e p50 µs",
        "e2e p99 µs",
        "e2e p99 on CPU",
        "aborts",
        "dead versions",
        "longest chain",
    ];
    let mut table = TextTable::new("CH-benCHmark: TPC-C urgent beside its 22 queries", &header);
    for policy in policies {
        let queries = policy.queries();
        let times = geometric_mean(queries.iter().map(|query| query.times));
        // A query that has only the rest of the processors takes longer in inverse proportion; the remaining factor is
        // the cost of running beside transactions.
        let vs_rest = times * (1.0 - alone.share);
        let (phase, name) = (&policy.phase, policy.variant.name());
        let dead = phase.versions_dead_max.iter().copied().max().unwrap_or(0);
        table.row([
            name.to_owned(),
            number(times),
            number(vs_rest),
            number(phase.high_per_s()),
            number(phase.tally.start.raw.quantile_us(0.5)),
            number(phase.tally.e2e.raw.quantile_us(0.5)),
            number(phase.tally.e2e.raw.quantile_us(0.99)),
            number(phase.tally.e2e.on_cpu.quantile_us(0.99)),
            number(phase.outcomes.aborts as f64),
            number(dead as f64),
            number(policy.chain_max as f64),
        ]);
        report.figure(format!("ch.{name}.times"), times);
        report.figure(format!("ch.{name}.vs_rest"), vs_rest);
        report.figure(format!("ch.{name}.high_per_s"), phase.high_per_s());
        report.figure(format!("ch.{name}.aborts"), phase.outcomes.aborts as f64);
        report.figure(format!("ch.{name}.versions_dead"), dead as f64);
        report.figure(format!("ch.{name}.chain_max"), policy.chain_max as f64);
        report.quantiles(&format!("ch.{name}.start_us"), &phase.tally.start.raw.quantiles_us());
        report.quantiles(&format!("ch.{name}.e2e_us"), &phase.tally.e2e.raw.quantiles_us());
        report.quantiles(&format!("ch.{name}.e2e_on_cpu_us"), &phase.tally.e2e.on_cpu.quantiles_us());
    }
    report.table(table);
    let mut chart = PercentileChart::new("TPC-C beside CH-benCHmark, end to end", "µs");
    for policy in policies {
        chart.series(policy.variant.name(), &policy.phase.tally.e2e.raw);
    }
    report.chart(chart);
    if let Some(preempt) = policies.iter().find(|policy| policy.variant.name() == "preempt") {
        of_queries(report, preempt);
        let times = geometric_mean(preempt.queries().iter().map(|query| query.times));
        report.figure("ch.vs_rest", times * (1.0 - alone.share));
    }
    let preempting = policies.iter().filter(|policy| policy.variant.policy == Policy::Preempt);
    report.figure("ch.chain_max", preempting.map(|policy| policy.chain_max).max().unwrap_or(0) as f64);
    report.figure("ch.answers", verified.answers as f64);
    report.figure("ch.wrong", 0.0);
    report.note(format!(
        "{} answers, {} of them to different questions or of different snapshots: each was computed once more, at rest, from a \
         replay of the redo records ({} in all) up to its snapshot's number, and none was wrong.",
        verified.answers, verified.distinct, verified.records
    ));
    report.figure("ch.share", alone.share);
    report.figure("ch.process_share", alone.process_share);
    report.quantiles("ch.alone.e2e_us", &alone.phase.tally.e2e.raw.quantiles_us());
    report.note(
        "Queries' time of rest: the time under load over that at rest at the same size of the tables, between a measurement \
         before and one after; the geometric mean of the 22.",
    );
    report.note(format!(
        "Left of that: times one minus TPC-C's share of the workers' processors, {:.1} %: what its transactions take alone, \
         from their first instruction to their end, on CPU. With terminals, scheduling and housekeeping it is {:.1} %.",
        100.0 * alone.share,
        100.0 * alone.process_share
    ));
}

fn of_queries(report: &mut Report, policy: &PolicyResult) {
    let header = ["", "at rest ms", "under load ms", "times", "runs"];
    let mut table = TextTable::new(format!("Each query at rest and under {}", policy.variant.name()), &header);
    for (at, query) in policy.queries().iter().enumerate() {
        table.row([
            format!("Q{}", at + 1),
            number(query.rest_ms),
            number(query.loaded_ms),
            number(query.times),
            number(query.runs as f64),
        ]);
        report.figure(format!("ch.q{:02}.rest_ms", at + 1), query.rest_ms);
        report.figure(format!("ch.q{:02}.loaded_ms", at + 1), query.loaded_ms);
    }
    report.table(table);
}
