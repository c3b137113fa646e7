//! Tables of the gate: classes and their times, the limit now and over time, the reasons why it has moved, and the
//! forecast of other limits.

use crate::door::{Door, GateSample, Mode, ResourceRow};
use gate::control::{LimitForecast, Move, Phase};
use gate::{ClassObservation, ClassView, Time, Times};
use types::table::{NamedRows, ProvidedTable, count, ms};
use types::{Datum, Kind};

/// Returns the rows of one of the gate's tables; no rows for other names.
pub fn lines(door: &Door, table: &str) -> NamedRows {
    match table {
        "gate" => classes(door),
        "gate_histogram" => histograms(door),
        "mpl" => mpl(door),
        "mpl_forecast" => mpl_forecast(door),
        "mpl_history" => history(door, f64::INFINITY),
        "mpl_log" => mpl_log(door),
        "mpl_verdict" => mpl_verdict(door),
        "gate_resources" => resources(door),
        _ => NamedRows::new(),
    }
}

/// Names and columns of the tables.
pub fn tables() -> [ProvidedTable; 8] {
    // `lines` and the functions below it return the values in the order of these columns.
    use Kind::{Bool, Float8, Int8, Text};
    let gate = [
        &[("class", Text)][..],
        &["slots", "waiting", "held_back", "lent", "arrived", "done", "failed"].map(|name| (name, Int8)),
        &["response_ms", "demand_ms", "c2", "wait_p50_ms", "wait_p99_ms", "wait_max_ms"].map(|name| (name, Float8)),
        &["inside_p50_ms", "inside_p99_ms", "inside_max_ms"].map(|name| (name, Float8)),
        &["idle_p50_ms", "idle_p99_ms", "idle_max_ms"].map(|name| (name, Float8)),
    ]
    .concat();
    let gate_histogram = [
        &[("class", Text), ("what", Text)][..],
        &["lower_us", "upper_us"].map(|name| (name, Float8)),
        &[("count", Int8)],
    ]
    .concat();
    let mpl = [
        &[("mode", Text), ("mpl", Int8), ("phase", Text)][..],
        &["slots", "extra_slots", "transactions"].map(|name| (name, Int8)),
        &["throughput", "throughput_off", "response_ms", "active", "saturated", "c2"].map(|name| (name, Float8)),
        &["lent_total", "held_back_total", "extra_total", "turned_away_total", "timed_out_total"]
            .map(|name| (name, Int8)),
        &["given_up_total", "demoted_total", "cancelled_total"].map(|name| (name, Int8)),
        &[("dominating", Text), ("source", Text)],
    ]
    .concat();
    let mpl_log = [
        &[("seconds_ago", Float8), ("mpl", Int8), ("next_mpl", Int8), ("reason", Text), ("completions", Int8)][..],
        &["throughput", "throughput_off", "response_ms", "saturated", "c2"].map(|name| (name, Float8)),
    ]
    .concat();
    let mpl_forecast = [
        &[("mpl", Int8)][..],
        &["throughput", "response_ms", "first_ms", "first_times"].map(|name| (name, Float8)),
        &[("is_enough", Bool), ("source", Text)],
    ]
    .concat();
    let mpl_history = [
        &["seconds_ago", "seconds"].map(|name| (name, Float8))[..],
        &[("mpl", Int8)],
        &["active", "waiting", "throughput", "response_ms"].map(|name| (name, Float8)),
    ]
    .concat();
    let resources = [
        &[("resource", Text), ("share", Float8), ("dominates", Bool)][..],
        &["busy", "host_busy", "demand_ms"].map(|name| (name, Float8)),
        &[("samples", Int8), ("source", Text)],
    ]
    .concat();
    [
        ProvidedTable::new("gate", &gate),
        ProvidedTable::new("gate_histogram", &gate_histogram),
        ProvidedTable::new("gate_resources", &resources),
        ProvidedTable::new("mpl", &mpl),
        ProvidedTable::new("mpl_forecast", &mpl_forecast),
        ProvidedTable::new("mpl_history", &mpl_history),
        ProvidedTable::new("mpl_log", &mpl_log),
        ProvidedTable::new("mpl_verdict", &[("mode", Text), ("mpl", Int8), ("verdict", Text), ("source", Text)]),
    ]
}

fn classes(door: &Door) -> NamedRows {
    let Some(view) = door.view() else { return NamedRows::new() };
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
fn histograms(door: &Door) -> NamedRows {
    let Some(view) = door.view() else { return NamedRows::new() };
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
pub fn history(door: &Door, seconds: f64) -> NamedRows {
    let Some(now) = door.seconds() else { return NamedRows::new() };
    let is_limited = door.mode() != Mode::Observe;
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
    door.history(seconds).iter().map(row).collect()
}

fn mpl(door: &Door) -> NamedRows {
    let Some(view) = door.view() else { return vec![vec![("mode", Datum::text(Mode::Off.name()))]] };
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
        ("dominating", door.dominating().map_or(Datum::Null, |resource| Datum::text(resource.name()))),
        ("source", Datum::text(door.model_source().name())),
    ];
    vec![line]
}

/// Rows of the resources that transactions inside spend their time on.
fn resources(door: &Door) -> NamedRows {
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
    door.resources().iter().map(row).collect()
}

/// Value of a width that is known; NULL where too little was observed to tell.
fn finite(width: f64) -> Datum {
    if width.is_finite() { Datum::Float8(width) } else { Datum::Null }
}

fn mpl_log(door: &Door) -> NamedRows {
    let Some(view) = door.view() else { return NamedRows::new() };
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
fn mpl_verdict(door: &Door) -> NamedRows {
    let verdict = door.verdict();
    let line = vec![
        ("mode", Datum::text(door.mode().name())),
        ("mpl", verdict.mpl.map_or(Datum::Null, |mpl| count(mpl.into()))),
        ("verdict", Datum::text(&*verdict.words)),
        ("source", Datum::text(door.model_source().name())),
    ];
    vec![line]
}

fn mpl_forecast(door: &Door) -> NamedRows {
    let Some(forecast) = door.forecast() else { return NamedRows::new() };
    let source = door.model_source().name();
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
