//! Contents of the views at one look, by the names of their columns.

use crate::rows::RowAccess;
use serde::Serialize;

/// Message shown when the gate is off.
pub const NO_GATE: &str = "There is no gate: overtake.mpl is off. Start the server with -c overtake.mpl=auto, with a number, or with \
observe, which changes nothing and watches.";

/// The row of `overtake.mpl`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/views.md describes the view's columns")]
pub struct MplRow {
    pub mode: String,
    pub mpl: Option<u32>,
    pub phase: Option<String>,
    pub slots: u32,
    pub extra_slots: u32,
    pub transactions: u64,
    pub throughput: f64,
    pub response_ms: f64,
    pub active: f64,
    pub saturated: f64,
    pub c2: f64,
    pub lent_total: u64,
    pub extra_total: u64,
    pub turned_away_total: u64,
    pub timed_out_total: u64,
    pub given_up_total: u64,
    pub demoted_total: u64,
    pub cancelled_total: u64,
    pub dominating: Option<String>,
}

/// A row of `overtake.gate`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/views.md describes the view's columns")]
pub struct ClassRow {
    pub class: String,
    pub slots: u32,
    pub waiting: u64,
    pub lent: u64,
    pub arrived: u64,
    pub done: u64,
    pub failed: u64,
    pub demand_ms: f64,
    pub c2: f64,
    pub wait_p50_ms: f64,
    pub wait_p99_ms: f64,
    pub inside_p50_ms: f64,
    pub inside_p99_ms: f64,
    pub idle_p50_ms: f64,
    pub idle_p99_ms: f64,
    /// Arrivals per second since the previous look; `None` at the first.
    pub arrivals_per_second: Option<f64>,
    /// Completions per second since the previous look; `None` at the first.
    pub done_per_second: Option<f64>,
}

/// A row of `overtake.mpl_log`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/views.md describes the view's columns")]
pub struct MoveRow {
    pub seconds_ago: f64,
    pub mpl: u32,
    pub next_mpl: u32,
    pub reason: String,
    pub throughput: f64,
    pub response_ms: f64,
    pub c2: f64,
}

/// A row of `overtake.mpl_history`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/views.md describes the view's columns")]
pub struct HistoryRow {
    pub seconds_ago: f64,
    pub seconds: f64,
    pub mpl: Option<u32>,
    pub active: f64,
    pub waiting: f64,
    pub throughput: f64,
    pub response_ms: Option<f64>,
}

/// A row of `overtake.mpl_forecast`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/views.md describes the view's columns")]
pub struct ForecastRow {
    pub mpl: u32,
    pub throughput: f64,
    pub response_ms: f64,
    pub first_ms: f64,
    pub is_enough: bool,
}

/// Stage of the statements of one class, over all transports and isolation levels, from `overtake.stages`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/views.md describes the view's columns")]
pub struct StageRow {
    pub class: String,
    pub stage: String,
    pub is_waiting: bool,
    pub total_ms: f64,
}

/// Contents of all views at one look.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Look {
    /// State of the gate; `None` if it is off.
    pub mpl: Option<MplRow>,
    /// Priority classes of the gate.
    pub classes: Vec<ClassRow>,
    /// Moves of the limit with their reasons, the latest first.
    pub moves: Vec<MoveRow>,
    /// Points of the history since the previous look, the oldest first.
    pub history: Vec<HistoryRow>,
    /// Forecast for other limits; `None` if this look did not ask for it.
    pub forecast: Option<Vec<ForecastRow>>,
    /// Forecast in one sentence: `overtake.mpl_verdict`. It is read together with the forecast.
    pub verdict: Option<String>,
    /// Stages that statements have passed, by class, in the order of the view. A gate in front of an upstream has none.
    pub stages: Vec<StageRow>,
}

impl Look {
    /// Returns the classes that have stages, each with its stages and their shares of its time, 0 to 1.
    pub(crate) fn shares(&self) -> Vec<(&str, Vec<(&StageRow, f64)>)> {
        let mut classes: Vec<(&str, Vec<(&StageRow, f64)>)> = Vec::new();
        for row in &self.stages {
            match classes.iter_mut().find(|(class, _)| *class == row.class) {
                Some((_, own)) => own.push((row, row.total_ms)),
                None => classes.push((&row.class, vec![(row, row.total_ms)])),
            }
        }
        for (_, own) in &mut classes {
            let all: f64 = own.iter().map(|(_, ms)| ms).sum();
            own.iter_mut().for_each(|(_, ms)| *ms /= all);
        }
        classes
    }
}

impl StageRow {
    /// Adds the rows of each class and stage up, and leaves out stages that no statement has passed.
    pub(crate) fn all(rows: &[impl RowAccess]) -> Vec<StageRow> {
        let mut all: Vec<StageRow> = Vec::new();
        for row in rows {
            let (class, stage) = (row.text("class"), row.text("stage"));
            let is_waiting = row.say("is_waiting") == Some("t");
            let total_ms: f64 = row.number("total_ms");
            match all.iter_mut().find(|one| one.class == class && one.stage == stage) {
                Some(known) => known.total_ms += total_ms,
                None if 0.0 < total_ms => all.push(StageRow { class, stage, is_waiting, total_ms }),
                None => {}
            }
        }
        all
    }
}

/// Returns stages in words: the longest first, without those below half a percent.
pub(crate) fn in_words(shares: &[(&StageRow, f64)]) -> Vec<String> {
    let mut shares: Vec<_> = shares.iter().filter(|(_, share)| 0.005 <= *share).collect();
    shares.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    shares.into_iter().map(|(row, share)| format!("{} {:.0} %", row.stage, share * 100.0)).collect()
}

impl MplRow {
    pub(crate) fn of(row: &impl RowAccess) -> MplRow {
        MplRow {
            mode: row.text("mode"),
            mpl: row.maybe("mpl"),
            phase: row.maybe("phase"),
            slots: row.number("slots"),
            extra_slots: row.number("extra_slots"),
            transactions: row.number("transactions"),
            throughput: row.number("throughput"),
            response_ms: row.number("response_ms"),
            active: row.number("active"),
            saturated: row.number("saturated"),
            c2: row.number("c2"),
            lent_total: row.number("lent_total"),
            extra_total: row.number("extra_total"),
            turned_away_total: row.number("turned_away_total"),
            timed_out_total: row.number("timed_out_total"),
            given_up_total: row.number("given_up_total"),
            demoted_total: row.number("demoted_total"),
            cancelled_total: row.number("cancelled_total"),
            dominating: row.maybe("dominating"),
        }
    }
}

impl ClassRow {
    pub(crate) fn of(row: &impl RowAccess) -> ClassRow {
        ClassRow {
            class: row.text("class"),
            slots: row.number("slots"),
            waiting: row.number("waiting"),
            lent: row.number("lent"),
            arrived: row.number("arrived"),
            done: row.number("done"),
            failed: row.number("failed"),
            demand_ms: row.number("demand_ms"),
            c2: row.number("c2"),
            wait_p50_ms: row.number("wait_p50_ms"),
            wait_p99_ms: row.number("wait_p99_ms"),
            inside_p50_ms: row.number("inside_p50_ms"),
            inside_p99_ms: row.number("inside_p99_ms"),
            idle_p50_ms: row.number("idle_p50_ms"),
            idle_p99_ms: row.number("idle_p99_ms"),
            arrivals_per_second: None,
            done_per_second: None,
        }
    }
}

impl MoveRow {
    pub(crate) fn of(row: &impl RowAccess) -> MoveRow {
        MoveRow {
            seconds_ago: row.number("seconds_ago"),
            mpl: row.number("mpl"),
            next_mpl: row.number("next_mpl"),
            reason: row.text("reason"),
            throughput: row.number("throughput"),
            response_ms: row.number("response_ms"),
            c2: row.number("c2"),
        }
    }
}

impl HistoryRow {
    pub(crate) fn of(row: &impl RowAccess) -> HistoryRow {
        HistoryRow {
            seconds_ago: row.number("seconds_ago"),
            seconds: row.number("seconds"),
            mpl: row.maybe("mpl"),
            active: row.number("active"),
            waiting: row.number("waiting"),
            throughput: row.number("throughput"),
            response_ms: row.maybe("response_ms"),
        }
    }
}

impl ForecastRow {
    pub(crate) fn of(row: &impl RowAccess) -> ForecastRow {
        ForecastRow {
            mpl: row.number("mpl"),
            throughput: row.number("throughput"),
            response_ms: row.number("response_ms"),
            first_ms: row.number("first_ms"),
            is_enough: row.say("is_enough") == Some("t"),
        }
    }
}
