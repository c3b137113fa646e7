//! Requests and responses.

use crate::{Row, RowSource};
use axum::Router;
use axum::extract::{Json, Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use web::Refusal;
use web::kind::{CSS, HTML, SCRIPT};

/// Path, type and text of each file.
const FILES: [(&str, &str, &str); 6] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/style.css", CSS, include_str!("page/style.css")),
    ("/main.js", SCRIPT, include_str!("page/main.js")),
    ("/charts.js", SCRIPT, include_str!("page/charts.js")),
    ("/tables.js", SCRIPT, include_str!("page/tables.js")),
    ("/format.js", SCRIPT, include_str!("page/format.js")),
];

/// Time for which one forecast serves all pages.
const FORECAST: Duration = Duration::from_secs(5);
/// Greatest age of the history, in seconds.
const PAST_MAX_S: f64 = 172_800.0;

/// Forecast of the effect of other limits.
#[derive(Clone, Serialize)]
struct Forecast {
    limits: Vec<Row>,
    verdict: Option<Row>,
}

#[derive(Clone)]
struct ConsoleState {
    source: Arc<dyn RowSource>,
    /// Last forecast, and the time of its computation.
    forecast: Arc<Mutex<Option<(Instant, Forecast)>>>,
}

/// Returns all routes.
pub(crate) fn routes(source: Arc<dyn RowSource>) -> Router {
    let mut router = Router::new().route("/api/look", get(look)).route("/api/forecast", get(forecast));
    for (path, kind, text) in FILES {
        router = router.route(path, get(move || async move { web::file(kind, text) }));
    }
    web::guarded(router.with_state(ConsoleState { source, forecast: Arc::default() }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    /// Length of the history to return, in seconds.
    past: f64,
}

#[derive(Serialize)]
struct GateViews {
    mpl: Option<Row>,
    resources: Vec<Row>,
    classes: Vec<Row>,
    histogram: Vec<Row>,
    log: Vec<Row>,
    history: Vec<Row>,
    stages: Vec<Row>,
}

async fn look(
    State(shared): State<ConsoleState>,
    past: Result<Query<HistoryQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<GateViews>, Refusal> {
    let Query(HistoryQuery { past }) = past.map_err(|error| Refusal::invalid(error.body_text()))?;
    if !(0.0..=PAST_MAX_S).contains(&past) {
        return Err(Refusal::invalid(format!("{past} seconds are not within the history")));
    }
    let source = shared.source;
    let looked = tokio::task::spawn_blocking(move || GateViews {
        mpl: source.mpl(),
        resources: source.resources(),
        classes: source.classes(),
        histogram: source.histogram(),
        log: source.log(),
        history: source.history(past),
        stages: source.stages(),
    });
    Ok(Json(looked.await.map_err(|_| failed())?))
}

async fn forecast(State(shared): State<ConsoleState>) -> Result<Json<Forecast>, Refusal> {
    // Held during the computation: concurrent requests wait and get the same result.
    let mut known = shared.forecast.lock().await;
    if let Some((at, forecast)) = &*known
        && at.elapsed() < FORECAST
    {
        return Ok(Json(forecast.clone()));
    }
    let source = shared.source;
    let computed = move || Forecast { limits: source.forecast(), verdict: source.verdict() };
    let forecast = tokio::task::spawn_blocking(computed).await.map_err(|_| failed())?;
    *known = Some((Instant::now(), forecast.clone()));
    Ok(Json(forecast))
}

fn failed() -> Refusal {
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the look ended unexpectedly")
}
