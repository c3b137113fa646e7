//! Requests and answers. Every refusal is JSON: `{"error": {"code", "message", "hint"}}`.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, FromRequest, Json, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::routing::{get, post};
use futures::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use crate::facts::{LoadProgress, Policy};
use crate::records::{Cursor, InstanceInfo, Update};
use crate::{Demo, Error, assets};
use web::{OpenPages, Refusal, Shutdown};

/// Milliseconds between two updates of one page.
const UPDATE_MS: u64 = 100;
/// Maximum size of a command, in bytes: a command is a few words.
const COMMAND_BYTES_MAX: usize = 4_096;

/// State that every handler can reach.
#[derive(Clone)]
pub struct ApiState {
    demo: Arc<dyn Demo>,
    shutdown: Shutdown,
    audience: Audience,
}

/// Counts of the viewers and of their commands; clones share them.
#[derive(Clone, Default)]
pub struct Audience {
    /// Open pages.
    pub pages: OpenPages,
    commands: Arc<AtomicU64>,
}

impl Audience {
    /// Returns the number of commands so far.
    pub fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }
}

/// Returns the router with every route.
pub fn router(demo: Arc<dyn Demo>, shutdown: Shutdown, audience: Audience) -> Router {
    let mut router = Router::new()
        .route("/plotly.js", get(assets::charts))
        .route("/api/facts", get(|State(shared): State<ApiState>| async move { Json(shared.demo.facts()) }))
        .route("/api/loading", get(|State(shared): State<ApiState>| async move { Json(shared.demo.loading()) }))
        .route("/api/queries", get(|State(shared): State<ApiState>| async move { Json(shared.demo.queries()) }))
        .route("/api/figure1", get(|State(shared): State<ApiState>| async move { Json(shared.demo.figure1()) }))
        .route("/api/instances", get(|State(shared): State<ApiState>| async move { Json(shared.demo.instances()) }))
        .route("/api/events", get(events))
        .route("/api/select", post(select))
        .route("/api/query/start", post(start_query))
        .route("/api/query/stop", post(stop_query))
        .route("/api/new-order", post(new_order))
        .route("/api/rate", post(rate))
        .route("/api/clear", post(clear));
    for (path, kind, text) in assets::FILES {
        router = router.route(path, get(move || async move { web::file(kind, text) }));
    }
    let router = router.layer(DefaultBodyLimit::max(COMMAND_BYTES_MAX));
    web::guarded(router.with_state(ApiState { demo, shutdown, audience }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Select {
    policy: Policy,
}

async fn select(
    State(shared): State<ApiState>,
    CommandBody(body): CommandBody<Select>,
) -> Result<Json<serde_json::Value>, Refusal> {
    command(shared, move |demo| demo.select(body.policy)).await?;
    Ok(Json(json!({ "selected": body.policy })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartQuery {
    name: String,
}

async fn start_query(
    State(shared): State<ApiState>,
    CommandBody(body): CommandBody<StartQuery>,
) -> Result<Json<serde_json::Value>, Refusal> {
    let queries = shared.demo.queries();
    if !queries.iter().any(|query| query.name == body.name) {
        let names: Vec<&str> = queries.iter().map(|query| query.name.as_str()).collect();
        return Err(Refusal::invalid(format!("unknown query {:?}", body.name))
            .hint(format!("Choose one of: {}.", names.join(", "))));
    }
    let name = body.name.clone();
    command(shared, move |demo| demo.start_query(&name)).await?;
    Ok(Json(json!({ "started": body.name })))
}

/// Arguments of a command without any: `{}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

async fn stop_query(
    State(shared): State<ApiState>,
    CommandBody(Nothing {}): CommandBody<Nothing>,
) -> Result<Json<serde_json::Value>, Refusal> {
    command(shared, |demo| demo.stop_query()).await?;
    Ok(Json(json!({ "stopped": true })))
}

async fn new_order(
    State(shared): State<ApiState>,
    CommandBody(Nothing {}): CommandBody<Nothing>,
) -> Result<Json<serde_json::Value>, Refusal> {
    let ticket = command(shared, |demo| demo.issue()).await?;
    Ok(Json(json!({ "ticket": ticket })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    per_second: f64,
}

async fn rate(
    State(shared): State<ApiState>,
    CommandBody(body): CommandBody<Rate>,
) -> Result<Json<serde_json::Value>, Refusal> {
    let max = shared.demo.facts().rate_per_s_max;
    if !(0.0..=max).contains(&body.per_second) {
        return Err(Refusal::invalid(format!("{} New-Orders a second are out of bounds", body.per_second))
            .hint(format!("The rate may be from 0 to {max} a second.")));
    }
    command(shared, move |demo| demo.set_rate(body.per_second)).await?;
    Ok(Json(json!({ "per_second": body.per_second })))
}

async fn clear(
    State(shared): State<ApiState>,
    CommandBody(Nothing {}): CommandBody<Nothing>,
) -> Result<Json<serde_json::Value>, Refusal> {
    command(shared, |demo| {
        demo.clear();
        Ok(())
    })
    .await?;
    Ok(Json(json!({ "cleared": true })))
}

/// Runs a command off the thread that serves all pages: it may take as long as a query's cancellation.
async fn command<R: Send + 'static>(
    shared: ApiState,
    run: impl FnOnce(&dyn Demo) -> Result<R, Error> + Send + 'static,
) -> Result<R, Refusal> {
    let run = move || {
        // Counted before it runs: what it starts is not taken for a load that nobody wants.
        shared.audience.commands.fetch_add(1, Ordering::Relaxed);
        run(&*shared.demo)
    };
    match tokio::task::spawn_blocking(run).await {
        Ok(result) => result.map_err(Refusal::from),
        Err(_) => Err(Refusal::from(Error::Internal("the command ended unexpectedly".to_owned()))),
    }
}

/// Message of the stream.
#[derive(Serialize)]
struct Message {
    loading: LoadProgress,
    instances: Vec<InstanceInfo>,
    update: Update,
}

/// Streams ten updates a second. The next one is made when the connection has taken the last: a slow page gets fewer,
/// larger ones (bounded by the records that the implementation keeps), and costs nothing in between.
async fn events(State(shared): State<ApiState>) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    let page = shared.audience.pages.open()?;
    let mut ticks = interval(Duration::from_millis(UPDATE_MS));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let state = Some((shared, ticks, Cursor::default(), page));
    Ok(Sse::new(stream::unfold(state, |state| async move {
        let (shared, mut ticks, cursor, page) = state?;
        tokio::select! {
            _ = ticks.tick() => {}
            () = shared.shutdown.wait() => return Some((Ok(Event::default().event("end").data("{}")), None)),
        }
        let update = shared.demo.poll(cursor);
        let cursor = update.next;
        let message = Message { loading: shared.demo.loading(), instances: shared.demo.instances(), update };
        let event = Event::default().json_data(&message).expect("plain structs of numbers and strings become JSON");
        Some((Ok(event), Some((shared, ticks, cursor, page))))
    })))
}

/// JSON body of a command; errors in it become a [`Refusal`].
struct CommandBody<T>(T);

impl<S: Send + Sync, T> FromRequest<S> for CommandBody<T>
where
    Json<T>: FromRequest<S, Rejection = JsonRejection>,
{
    type Rejection = Refusal;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<CommandBody<T>, Refusal> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(body)) => Ok(CommandBody(body)),
            Err(rejection) => Err(Refusal::new(rejection.status(), "invalid", rejection.body_text())),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let (status, code) = match error {
            Error::Loading => (StatusCode::SERVICE_UNAVAILABLE, "loading"),
            Error::Invalid(_) => (StatusCode::BAD_REQUEST, "invalid"),
            Error::Conflict(_) => (StatusCode::CONFLICT, "conflict"),
            Error::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        Refusal::new(status, code, error.to_string())
    }
}
