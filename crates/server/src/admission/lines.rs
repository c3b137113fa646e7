//! Tables of the gate: classes and their times, the limit now and over time, the reasons why it has moved, and the
//! forecast of other limits.

use crate::admission::{Admission, GateSample, Mode, ResourceRow};
use gate::control::{LimitForecast, Move, Phase};
use gate::{ClassObservation, ClassView, Time, Times};
use types::table::{NamedRows, ProvidedTable, count, ms};
use types::{Datum, Kind};

/// Returns the rows of one of the gate's tables; no rows for other names.
pub fn lines(admission: &Admission, table: &str) -> NamedRows {
    match table {
        "gate" => classes(admission),
        "gate_histogram" => histograms(admission),
        "mpl" => mpl(admission),
        "mpl_forecast" => mpl_forecast(admission),
        "mpl_history" => history(admission, f64::INFINITY),
        "mpl_log" => mpl_log(admission),
        "mpl_verdict" => mpl_verdict(admission),
        "gate_resources" => resources(admission),
        _ => NamedRows::new(),
    }
}

/// Definitions of the tables. `lines` and the functions below it return the values in the order of these columns.
pub fn tables() -> [ProvidedTable; 8] {
    use Kind::{Bool, Float8, Int8, Text};
    const SOURCE: &str = "Source of the model: `assumed`, `configured`, `stage clock` or `wait events`.";
    [
        ProvidedTable::new(
            "gate",
            "Classes at the gate, with the times of their transactions: before admission, active inside, and idle inside, \
             while the client keeps the transaction open without a statement.",
            &[
                ("class", Text, "Name of the class."),
                ("slots", Int8, "Slots that its transactions use."),
                ("waiting", Int8, "Transactions that wait for admission, including those held back."),
                ("held_back", Int8, "Transactions that wait because others use their hot keys."),
                ("lent", Int8, "Transactions that wait for their clients and have lent their slots."),
                ("arrived", Int8, "Transactions that have arrived, without those turned away."),
                ("done", Int8, "Transactions that have ended well."),
                ("failed", Int8, "Transactions that have failed."),
                ("response_ms", Float8, "Mean time from arrival to end, without the client's own time."),
                ("demand_ms", Float8, "Mean work of a transaction, as time of one processor."),
                ("c2", Float8, "Squared coefficient of variation of the work."),
                ("wait_p50_ms", Float8, "Median of the time before admission."),
                ("wait_p99_ms", Float8, "99th percentile of it."),
                ("wait_max_ms", Float8, "Maximum of it."),
                ("inside_p50_ms", Float8, "Median of the time active inside."),
                ("inside_p99_ms", Float8, "99th percentile of it."),
                ("inside_max_ms", Float8, "Maximum of it."),
                ("idle_p50_ms", Float8, "Median of the time idle inside."),
                ("idle_p99_ms", Float8, "99th percentile of it."),
                ("idle_max_ms", Float8, "Maximum of it."),
            ],
        ),
        ProvidedTable::new(
            "gate_histogram",
            "Histograms of the times of each class, without empty buckets.",
            &[
                ("class", Text, "Name of the class."),
                ("what", Text, "Time measured: `wait`, `inside` or `idle`."),
                ("lower_us", Float8, "Lower bound of the bucket, in microseconds."),
                ("upper_us", Float8, "Upper bound of the bucket, in microseconds."),
                ("count", Int8, "Number of times in the bucket."),
            ],
        ),
        ProvidedTable::new(
            "gate_resources",
            "Resources on which transactions inside spend their time.",
            &[
                ("resource", Text, "`processor`, `lock`, `io`, `log`, `client` or `other`."),
                ("share", Float8, "Share of the time of transactions inside, from 0 to 1."),
                ("dominates", Bool, "True if transactions spend most of their time inside the database here."),
                ("busy", Float8, "Share of the resource's servers that work; NULL if unknown."),
                ("host_busy", Float8, "Share of the machine's processors that work for any process; NULL if unknown."),
                ("demand_ms", Float8, "Time that a transaction needs of the resource; NULL if unknown."),
                ("samples", Int8, "Number of samples behind these figures."),
                ("source", Text, "Source of the figures: `assumed`, `configured`, `stage clock` or `wait events`."),
            ],
        ),
        ProvidedTable::new(
            "mpl",
            "The limit of active transactions (multiprogramming limit, MPL), the state of its controller, and counts since \
             the start.",
            &[
                ("mode", Text, "`off`, `observe`, `fixed` or `auto`."),
                ("mpl", Int8, "Limit in force; NULL while the gate only observes."),
                ("phase", Text, "`searching` or `holding`; NULL without a controller."),
                ("slots", Int8, "Slots in use."),
                ("extra_slots", Int8, "Slots in use beyond the limit."),
                ("transactions", Int8, "Transactions that the gate knows."),
                ("throughput", Float8, "Transactions per second that complete."),
                (
                    "throughput_off",
                    Float8,
                    "Half the width of the confidence interval of the throughput, as a share of it.",
                ),
                ("response_ms", Float8, "Mean time from arrival to end."),
                ("active", Float8, "Mean number of active transactions."),
                ("saturated", Float8, "Share of the time in which a transaction waited for admission, from 0 to 1."),
                ("c2", Float8, "Squared coefficient of variation of the work of a transaction."),
                ("lent_total", Int8, "Slots lent by transactions that waited for their clients."),
                ("held_back_total", Int8, "Transactions that had to wait because of their hot keys."),
                ("extra_total", Int8, "Slots given beyond the limit."),
                ("turned_away_total", Int8, "Transactions turned away because too many waited."),
                ("timed_out_total", Int8, "Transactions turned away because they had waited too long."),
                ("given_up_total", Int8, "Transactions whose clients gave up while they waited."),
                ("demoted_total", Int8, "Transactions that ran too long and were moved to another class."),
                ("cancelled_total", Int8, "Transactions that ran too long and were cancelled."),
                (
                    "dominating",
                    Text,
                    "Resource on which transactions spend most of their time; NULL if none dominates.",
                ),
                ("source", Text, SOURCE),
            ],
        ),
        ProvidedTable::new(
            "mpl_forecast",
            "Forecast of what other limits would do.",
            &[
                ("mpl", Int8, "Limit."),
                ("throughput", Float8, "Transactions per second at this limit."),
                ("response_ms", Float8, "Mean time from arrival to end at this limit."),
                ("first_ms", Float8, "The same for a transaction that goes before all others."),
                ("first_times", Float8, "Factor by which that is shorter than the mean time now."),
                ("is_enough", Bool, "True if the limit costs almost no throughput."),
                ("source", Text, SOURCE),
            ],
        ),
        ProvidedTable::new(
            "mpl_history",
            "History of the gate: one row for each second of the last hour, and for each minute of the last day.",
            &[
                ("seconds_ago", Float8, "Age of the end of the interval."),
                ("seconds", Float8, "Length of the interval."),
                ("mpl", Int8, "Limit at the end of the interval; NULL while the gate only observes."),
                ("active", Float8, "Mean number of active transactions."),
                ("waiting", Float8, "Mean number of transactions that waited for admission."),
                ("throughput", Float8, "Transactions per second that completed."),
                ("response_ms", Float8, "Mean time from arrival to end; NULL if no transaction completed."),
            ],
        ),
        ProvidedTable::new(
            "mpl_log",
            "Observations of the controller, and what followed from each.",
            &[
                ("seconds_ago", Float8, "Age of the observation."),
                ("mpl", Int8, "Limit that was observed."),
                ("next_mpl", Int8, "Limit that follows."),
                ("reason", Text, "Reason, in words."),
                ("completions", Int8, "Number of transactions that completed."),
                ("throughput", Float8, "Transactions per second that completed."),
                (
                    "throughput_off",
                    Float8,
                    "Half the width of the confidence interval of the throughput, as a share of it.",
                ),
                ("response_ms", Float8, "Mean time from arrival to end."),
                ("saturated", Float8, "Share of the time in which a transaction waited for admission, from 0 to 1."),
                ("c2", Float8, "Squared coefficient of variation of the work of a transaction."),
            ],
        ),
        ProvidedTable::new(
            "mpl_verdict",
            "One sentence on the limit: what the lowest one that costs almost nothing would do, that no gain is expected, \
             or why nothing can be said.",
            &[
                ("mode", Text, "`off`, `observe`, `fixed` or `auto`."),
                ("mpl", Int8, "Limit that the sentence recommends; NULL if it recommends none."),
                ("verdict", Text, "The sentence."),
                ("source", Text, SOURCE),
            ],
        ),
    ]
}

fn classes(admission: &Admission) -> NamedRows {
    let Some(view) = admission.view() else { return NamedRows::new() };
    let seconds = |value: f64| Datum::Float8(value * 1e3);
    let row = |(class, seen): (&ClassView, &ClassObservation)| {
        let [wait, inside, idle] = [&class.wait, &class.inside, &class.idle].map(Times::quantiles_us);
        vec![
            ("class", Datum::text(&*class.name)),
            ("slots", count(class.slots.into())),
            ("waiting", count(class.waiting as u64)),
            ("held_back", count(class.held_back as u64)),
            ("lent", count(class.lent as u64)),
            ("arrived", count(class.arrived)),
            ("done", count(class.done)),
            ("failed", count(class.failed)),
            ("response_ms", seconds(seen.response.mean())),
            ("demand_ms", seconds(class.demand)),
            ("c2", Datum::Float8(class.c2)),
            ("wait_p50_ms", ms(wait.p50)),
            ("wait_p99_ms", ms(wait.p99)),
            ("wait_max_ms", ms(wait.max)),
            ("inside_p50_ms", ms(inside.p50)),
            ("inside_p99_ms", ms(inside.p99)),
            ("inside_max_ms", ms(inside.max)),
            ("idle_p50_ms", ms(idle.p50)),
            ("idle_p99_ms", ms(idle.p99)),
            ("idle_max_ms", ms(idle.max)),
        ]
    };
    view.gate.classes.iter().zip(&view.seen.classes).map(row).collect()
}

/// Rows of the buckets that are not empty.
fn histograms(admission: &Admission) -> NamedRows {
    let Some(view) = admission.view() else { return NamedRows::new() };
    let mut lines = NamedRows::new();
    for class in &view.gate.classes {
        for (what, times) in [("wait", &class.wait), ("inside", &class.inside), ("idle", &class.idle)] {
            lines.extend(times.buckets().map(|(lower, upper, seen)| {
                vec![
                    ("class", Datum::text(&*class.name)),
                    ("what", Datum::text(what)),
                    ("lower_us", Datum::Float8(lower)),
                    ("upper_us", Datum::Float8(upper)),
                    ("count", count(seen)),
                ]
            }));
        }
    }
    lines
}

/// Rows of the history of the last seconds, the oldest first.
pub fn history(admission: &Admission, seconds: f64) -> NamedRows {
    let Some(now) = admission.seconds() else { return NamedRows::new() };
    let is_limited = admission.mode() != Mode::Observe;
    let row = |moment: &GateSample| {
        vec![
            ("seconds_ago", Datum::Float8((now - moment.at).max(0.0))),
            ("seconds", Datum::Float8(moment.seconds)),
            ("mpl", if is_limited { count(moment.mpl.into()) } else { Datum::Null }),
            ("active", Datum::Float8(moment.active)),
            ("waiting", Datum::Float8(moment.waiting)),
            ("throughput", Datum::Float8(moment.throughput)),
            ("response_ms", moment.response.map_or(Datum::Null, |response| Datum::Float8(response * 1e3))),
        ]
    };
    admission.history(seconds).iter().map(row).collect()
}

fn mpl(admission: &Admission) -> NamedRows {
    let Some(view) = admission.view() else { return vec![vec![("mode", Datum::text(Mode::Off.name()))]] };
    let phase = view
        .phase
        .map_or(Datum::Null, |phase| Datum::text(if phase == Phase::Holding { "holding" } else { "searching" }));
    // Under observation nobody is held back.
    let limit = if view.mode == Mode::Observe { Datum::Null } else { count(view.gate.mpl.into()) };
    let counters = view.gate.counters;
    let line = vec![
        ("mode", Datum::text(view.mode.name())),
        ("mpl", limit),
        ("phase", phase),
        ("slots", count(view.gate.slots.into())),
        ("extra_slots", count(view.gate.extras.into())),
        ("transactions", count(view.gate.transactions as u64)),
        ("throughput", Datum::Float8(view.seen.throughput.mean)),
        ("throughput_off", finite(view.seen.throughput.half_width)),
        ("response_ms", Datum::Float8(view.seen.response.mean * 1e3)),
        ("active", Datum::Float8(view.seen.active)),
        ("saturated", Datum::Float8(view.seen.saturated)),
        ("c2", Datum::Float8(view.seen.demand.c2())),
        ("lent_total", count(counters.lent)),
        ("held_back_total", count(counters.held_back)),
        ("extra_total", count(counters.extra)),
        ("turned_away_total", count(counters.turned_away)),
        ("timed_out_total", count(counters.timed_out)),
        ("given_up_total", count(counters.given_up)),
        ("demoted_total", count(counters.demoted)),
        ("cancelled_total", count(counters.cancelled)),
        ("dominating", admission.dominating().map_or(Datum::Null, |resource| Datum::text(resource.name()))),
        ("source", Datum::text(admission.model_source().name())),
    ];
    vec![line]
}

/// Rows of the resources that transactions inside spend their time on.
fn resources(admission: &Admission) -> NamedRows {
    let known = |value: Option<f64>| value.map_or(Datum::Null, Datum::Float8);
    let row = |row: &ResourceRow| {
        vec![
            ("resource", Datum::text(row.resource.name())),
            ("share", Datum::Float8(row.share)),
            ("dominates", Datum::Bool(row.dominates)),
            ("busy", known(row.busy)),
            ("host_busy", known(row.host_busy)),
            ("demand_ms", known(row.demand.map(|seconds| seconds * 1e3))),
            ("samples", count(row.samples)),
            ("source", Datum::text(row.source.name())),
        ]
    };
    admission.resources().iter().map(row).collect()
}

/// Value of a width that is known; NULL where too little was observed to tell.
fn finite(width: f64) -> Datum {
    if width.is_finite() { Datum::Float8(width) } else { Datum::Null }
}

fn mpl_log(admission: &Admission) -> NamedRows {
    let Some(view) = admission.view() else { return NamedRows::new() };
    let row = |moved: &Move| {
        let ago = view.seconds - moved.at.since(Time::ZERO).as_secs_f64();
        vec![
            ("seconds_ago", Datum::Float8(ago)),
            ("mpl", count(moved.from.into())),
            ("next_mpl", count(moved.to.into())),
            ("reason", Datum::text(&*moved.reason.to_string())),
            ("completions", count(moved.seen.completions)),
            ("throughput", Datum::Float8(moved.seen.throughput.mean)),
            ("throughput_off", finite(moved.seen.throughput.half_width)),
            ("response_ms", Datum::Float8(moved.seen.response.mean * 1e3)),
            ("saturated", Datum::Float8(moved.seen.saturated)),
            ("c2", Datum::Float8(moved.seen.c2)),
        ]
    };
    view.moves.iter().map(row).collect()
}

/// Row of the verdict: the effect of a limit, in words.
fn mpl_verdict(admission: &Admission) -> NamedRows {
    let verdict = admission.verdict();
    let line = vec![
        ("mode", Datum::text(admission.mode().name())),
        ("mpl", verdict.mpl.map_or(Datum::Null, |mpl| count(mpl.into()))),
        ("verdict", Datum::text(&*verdict.words)),
        ("source", Datum::text(admission.model_source().name())),
    ];
    vec![line]
}

fn mpl_forecast(admission: &Admission) -> NamedRows {
    let Some(forecast) = admission.forecast() else { return NamedRows::new() };
    let source = admission.model_source().name();
    let row = |limit: &LimitForecast| {
        vec![
            ("mpl", count(limit.mpl.into())),
            ("throughput", Datum::Float8(limit.throughput)),
            ("response_ms", Datum::Float8(limit.response * 1e3)),
            ("first_ms", Datum::Float8(limit.first * 1e3)),
            ("first_times", Datum::Float8(forecast.now / limit.first)),
            ("is_enough", Datum::Bool(forecast.lowest <= limit.mpl)),
            ("source", Datum::text(source)),
        ]
    };
    forecast.limits.iter().map(row).collect()
}
