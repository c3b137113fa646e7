//! The facts that the page shows of the machine and the database.

use crate::data::{Data, DataConfig};
use crate::delivery;
use crate::mixed::LowQuery;
use crate::report::Machine;
use demo::facts::{
    Allowed, Delivery, Facts, Figure1, Figure1Row, LoadedDatabase, Policy, Psql, QueryInfo, Rung, Segment,
    WorkerContext,
};
use host::stop::Stop;
use std::sync::Arc;
use std::time::Duration;
use workloads::{ch, tpch};

/// Maximum rate of New-Orders, per second, that the page may ask for.
const RATE_MAX: f64 = 5_000.0;
/// Time of the measurement of each rung at start.
const MEASURE: Duration = Duration::from_millis(250);

const TPCH: &str = "TPC-H, which nobody writes";
const CH: &str = "CH-benCHmark, over the tables that orders write";

/// Name and description of the default query.
const REPORT: (&str, &str) = ("report", "Revenue report by tax rate");
/// Time that a run of the default query is to take on one worker: long enough that whoever waits for its end sees it.
const REPORT_RUN: Duration = Duration::from_millis(700);
/// Number of tax rates of the first report that is timed to find out how many make [`REPORT_RUN`].
const REPORT_RATES_FIRST: usize = 2;
/// Maximum number of tax rates: a small database is done early rather than asked an endless question.
const REPORT_RATES_MAX: usize = 200;

/// Queries to choose from after the default one: number and description.
const TPCH_QUERIES: [(usize, &str); 6] = [
    (2, "Q2, minimum cost supplier"),
    (1, "Q1, pricing summary report"),
    (5, "Q5, local supplier volume"),
    (9, "Q9, product type profit"),
    (18, "Q18, large volume customer"),
    (21, "Q21, suppliers who kept orders waiting"),
];
const CH_QUERIES: [(usize, &str); 6] = [
    (1, "Q1, order lines by number"),
    (5, "Q5, revenue in Europe by nation"),
    (9, "Q9, profit by nation and year"),
    (12, "Q12, orders by carrier and size"),
    (18, "Q18, customers of large orders"),
    (21, "Q21, suppliers who kept orders waiting"),
];
const SCAN: &str = "Our own scan (Q6 by hand), dense safepoints";
const SCAN_SQL: &str = "-- not SQL: TPC-H's Q6 written against the engine, a safepoint each 1,024 rows";

/// Medians of the rungs, in µs.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryMedians {
    poll_us: Option<f64>,
    signal_us: Option<f64>,
}

/// Measures the rungs on this machine.
pub fn measure(stop: &Stop) -> anyhow::Result<DeliveryMedians> {
    let [poll_us, signal_us] = delivery::medians_us(MEASURE, stop)?;
    Ok(DeliveryMedians { poll_us, signal_us })
}

/// Returns the facts of the machine, without a database.
pub fn machine(workers: usize, yield_interval: u32, psql: Vec<Psql>) -> Facts {
    let machine = Machine::read();
    let realtime = machine.realtime_allowed;
    Facts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        cpu_model: machine.cpu_model,
        cpus: machine.cpus,
        kernel: format!("Linux {}", machine.kernel),
        memory_bytes: machine.memory_bytes,
        workers,
        delivery: rungs(&DeliveryMedians::default(), realtime, &machine.uintr),
        realtime: Allowed {
            allowed: realtime,
            why: if realtime {
                "Tried at start: SCHED_FIFO was granted, so the arrivals' thread is not late.".to_owned()
            } else {
                "Tried at start: SCHED_FIFO was refused (it needs CAP_SYS_NICE or RLIMIT_RTPRIO), so arrivals may be \
                 a little late."
                    .to_owned()
            },
        },
        side_by_side: false,
        yields: format!("every {yield_interval} batch boundaries"),
        rate_per_s_max: RATE_MAX,
        psql,
        database: None,
    }
}

/// Returns the facts with those of the database, when it is loaded.
pub fn with_database(machine: &Facts, config: &DataConfig, data: &Data, measured: &DeliveryMedians) -> Facts {
    let uintr = preempt::os::uintr().to_string();
    Facts {
        delivery: rungs(measured, machine.realtime.allowed, &uintr),
        database: Some(LoadedDatabase {
            scale_factor: config.scale_factor,
            warehouses: config.scale.warehouses as usize,
            rows_count: data.rows_count(),
            bytes: data.bytes(),
        }),
        ..machine.clone()
    }
}

fn rungs(measured: &DeliveryMedians, realtime: bool, uintr: &str) -> Delivery {
    let rung = |name: &str, available, in_use, why: &str, delay_us_p50| Rung {
        name: name.to_owned(),
        available,
        in_use,
        why: why.to_owned(),
        delay_us_p50,
    };
    Delivery {
        in_use: "poll and signal".to_owned(),
        why: "A query of DataFusion is foreign code without safepoints of ours, so a signal interrupts it. Our own scans \
              poll a flag each 1,024 rows or fewer, which is faster and costs the sender a tenth of a microsecond."
            .to_owned(),
        rungs: vec![
            rung("poll", true, true, "A flag in the worker's own cache line, read where safepoints are dense.", measured.poll_us),
            rung("signal", true, true, "SIGURG to the worker's thread: interrupts any code between two instructions.", measured.signal_us),
            rung(
                "thread",
                realtime,
                false,
                "A real-time thread that the kernel prefers. Not one of the three instances; `overtake bench preempt` measures it beside them.",
                None,
            ),
            rung("user interrupt", false, false, &format!("UINTR is {uintr}."), None),
        ],
    }
}

/// Returns the report's text for this many tax rates.
fn report_sql(rates: usize) -> String {
    let values: Vec<String> = (1..=rates).map(|rate| format!("({:.3})", rate as f64 / 1e3)).collect();
    let values: Vec<String> = values.chunks(10).map(|line| line.join(", ")).collect();
    format!(
        "select tax.rate, l_returnflag, l_linestatus,\n       \
         sum(l_extendedprice * (1 - l_discount) * (1 + tax.rate)) as revenue\n  \
         from lineitem cross join (values\n         {}) as tax (rate)\n \
         group by tax.rate, l_returnflag, l_linestatus\n \
         order by tax.rate, l_returnflag, l_linestatus\n",
        values.join(",\n         ")
    )
}

/// Returns the number of tax rates with which a run takes [`REPORT_RUN`], if one with `rates` took this long.
fn report_rates(rates: usize, timed: Duration) -> usize {
    let one = timed.as_secs_f64() / rates as f64;
    ((REPORT_RUN.as_secs_f64() / one.max(1e-9)).round() as usize).clamp(1, REPORT_RATES_MAX)
}

/// Returns names, titles and texts of the queries, set by set, the default one first; it has as many tax rates as it
/// is timed with.
pub fn query_infos() -> Vec<QueryInfo> {
    let info = |set: &str, name: String, title: &str, sql: &str| QueryInfo {
        name,
        set: set.to_owned(),
        title: title.to_owned(),
        sql: sql.to_owned(),
    };
    let report = info(TPCH, REPORT.0.to_owned(), REPORT.1, &report_sql(REPORT_RATES_FIRST));
    let of_tpch = TPCH_QUERIES.map(|(number, title)| info(TPCH, format!("q{number}"), title, tpch::query(number)));
    let scan = info(TPCH, "scan".to_owned(), SCAN, SCAN_SQL);
    let of_ch = CH_QUERIES.map(|(number, title)| info(CH, format!("ch{number}"), title, ch::query(number)));
    [report].into_iter().chain(of_tpch).chain([scan]).chain(of_ch).collect()
}

/// Returns the queries with their names, titles and texts, ready to run. `time` runs a query and returns its time: the
/// default one is made to take [`REPORT_RUN`] on this machine.
///
/// # Errors
/// Those of `time`; a query that does not prepare, which would be a bug.
pub fn queries(
    data: &Arc<Data>,
    mut time: impl FnMut(LowQuery) -> anyhow::Result<Duration>,
) -> anyhow::Result<Vec<(QueryInfo, LowQuery)>> {
    let report = |rates: usize| data.query(REPORT.0, &report_sql(rates));
    // Twice: a run has a part that does not grow with the rates, and many groups cost more than few.
    let mut rates = REPORT_RATES_FIRST;
    for _ in 0..2 {
        rates = report_rates(rates, time(report(rates)?)?);
    }
    let of_tpch = TPCH_QUERIES.iter().map(|(number, _)| data.tpch_query(*number));
    let of_ch = CH_QUERIES.iter().map(|(number, _)| data.ch_query(*number));
    let ready = [report(rates)].into_iter().chain(of_tpch).chain([Ok(data.dense_scan())]).chain(of_ch);
    let named = query_infos().into_iter().zip(ready).map(|(info, query)| Ok((info, query?)));
    let mut queries = named.collect::<anyhow::Result<Vec<_>>>()?;
    if let Some((info, _)) = queries.first_mut() {
        info.sql = report_sql(rates);
    }
    Ok(queries)
}

/// Returns the paper's Figure 1, played by the scheduler's own decisions.
pub fn figure1() -> Figure1 {
    let rows = Policy::ALL.map(|policy| {
        let scenario = sched::sim::figure1_scenario(super::admission::sched_policy(policy));
        let arrival = scenario.transactions[0].arrive;
        let trace = sched::sim::simulate(&scenario);
        let segments = trace
            .segments
            .iter()
            .map(|segment| Segment {
                context: match segment.context {
                    sched::sim::SimContext::Query(_) => WorkerContext::Query,
                    sched::sim::SimContext::Transaction(_) => WorkerContext::Urgent,
                },
                start: segment.start as f64,
                end: segment.end as f64,
            })
            .collect();
        let ended = trace.ended(sched::sim::SimContext::Transaction(0)).expect("the simulation runs to its end");
        Figure1Row { policy, segments, latency: (ended - arrival) as f64 }
    });
    Figure1 {
        arrival: sched::sim::figure1_scenario(sched::Policy::Wait).transactions[0].arrive as f64,
        rows: rows.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{REPORT_RATES_MAX, query_infos, report_rates, report_sql};
    use std::time::Duration;

    /// Goal: a run of the default query takes 0.5 to 1 s on every machine. Method: machines on which a tax rate takes
    /// from 5 ms to half a second.
    #[test]
    fn the_default_query_takes_half_a_second_to_a_second() {
        for one_ms in [5, 12, 35, 72, 144, 233, 500] {
            let rates = report_rates(2, Duration::from_millis(one_ms * 2));
            assert!((500..=1_000).contains(&(one_ms * rates as u64)), "{one_ms} ms: {rates} rates");
        }
        assert_eq!(report_rates(2, Duration::ZERO), REPORT_RATES_MAX);
        assert_eq!(report_rates(2, Duration::from_secs(60)), 1, "it is never empty");
    }

    /// Goal: the default query comes first, and asks for as many rates as it says. Method: its text.
    #[test]
    fn the_default_query_is_the_report() {
        assert_eq!(query_infos()[0].name, "report");
        assert!(report_sql(12).contains("(0.001), (0.002)") && report_sql(12).contains("(0.012)) as tax (rate)"));
    }
}
