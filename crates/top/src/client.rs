//! Client that queries the views.
//!
//! In front of an upstream the administration database answers, which needs no slot at the gate. Our own engine has the
//! views in its database, and querying them is a transaction like any other, which runs at high priority.

use crate::error::{Error, reason};
use crate::look::{ClassRow, ForecastRow, HistoryRow, Look, MoveRow, MplRow, StageRow};
use crate::rows::{RowAccess, split};
use crate::target::Target;
use crate::tls::Encryption;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{NoTls, SimpleQueryRow};

/// Name of the administration database.
const ADMIN: &str = "overtake";
/// History that the first look asks for, in seconds.
const PAST: u32 = 300;
/// Interval between forecasts of the effect of other limits, which take the server a while, and change slowly.
const FORECAST: Duration = Duration::from_secs(10);
/// Most moves of the limit that a look keeps.
const MOVES_MAX: usize = 64;
/// Time limit of an answer; after it, the connection counts as lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// Language of the queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    /// `SHOW`, one at a time, for the administration database.
    Admin,
    /// `SELECT`, all together, for our own engine.
    Views,
}

/// Connection to a server; it must live in a tokio runtime.
#[derive(Debug)]
pub struct Client {
    client: tokio_postgres::Client,
    driver: JoinHandle<()>,
    dialect: Dialect,
    /// Time of the last look, and the classes that it saw.
    before: Option<(Instant, Vec<ClassRow>)>,
    forecast_at: Option<Instant>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

async fn connect(
    target: &Target,
    database: &str,
) -> Result<(tokio_postgres::Client, JoinHandle<()>), tokio_postgres::Error> {
    let config = target.of(database);
    Ok(match &target.tls {
        Some(tls) => {
            let (client, connection) = config.connect(Encryption::new(Arc::clone(tls))).await?;
            (client, tokio::spawn(async move { drop(connection.await) }))
        }
        None => {
            let (client, connection) = config.connect(NoTls).await?;
            (client, tokio::spawn(async move { drop(connection.await) }))
        }
    })
}

impl Client {
    /// Connects to the server.
    ///
    /// # Errors
    /// The server cannot be reached, refuses the login, or is no Overtake.
    pub async fn connect(target: &Target) -> Result<Client, Error> {
        let told = |error: &tokio_postgres::Error| Error::Connect { target: target.to_string(), reason: reason(error) };
        let (found, dialect) = match connect(target, ADMIN).await {
            Ok(found) => (found, Dialect::Admin),
            // The server has no upstream behind it, or it is no Overtake.
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_DATABASE) => {
                let database = if target.database() == ADMIN { "postgres" } else { target.database() };
                let found = connect(target, database).await.map_err(|error| told(&error))?;
                (found, Dialect::Views)
            }
            Err(error) => return Err(told(&error)),
        };
        let (client, driver) = found;
        let client = Client { client, driver, dialect, before: None, forecast_at: None };
        let test = match dialect {
            Dialect::Admin => "SHOW MPL",
            Dialect::Views => "SELECT mpl FROM overtake.mpl",
        };
        client
            .client
            .simple_query(test)
            .await
            .map_err(|error| Error::Foreign { target: target.to_string(), reason: reason(&error) })?;
        if dialect == Dialect::Views {
            // A role that may not set the priority waits like the others.
            drop(client.client.simple_query("SET overtake.priority = high").await);
        }
        Ok(client)
    }

    /// Reads all views once.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub async fn look(&mut self) -> Result<Look, Error> {
        match tokio::time::timeout(PATIENCE, self.ask()).await {
            Ok(look) => look,
            Err(_) => Err(Error::Lost(format!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }

    /// Returns the server whose gate is shown, of several upstreams: the primary, or the first while there is none.
    async fn server(&self) -> Result<Option<String>, Error> {
        if self.dialect == Dialect::Views {
            return Ok(None);
        }
        let servers = match self.client.simple_query("SHOW UPSTREAM").await {
            Ok(messages) => split(messages).pop().unwrap_or_default(),
            // An older version has only one upstream.
            Err(error) if error.as_db_error().is_some() => return Ok(None),
            Err(error) => return Err(Error::Lost(reason(&error))),
        };
        let primary = servers.iter().find(|row| row.say("role") == Some("primary"));
        Ok(primary.or(servers.first()).map(|row| row.text("server")))
    }

    async fn ask(&mut self) -> Result<Look, Error> {
        let now = Instant::now();
        // Looks overlap by two seconds, so that no point of the history is missed; `GateWatch` skips those that it has.
        let past = match &self.before {
            Some((at, _)) => u32::try_from(now.duration_since(*at).as_secs()).unwrap_or(PAST).min(PAST) + 2,
            None => PAST,
        };
        let wants_forecast = self.forecast_at.is_none_or(|at| FORECAST <= now.duration_since(at));
        let mut questions = match self.dialect {
            Dialect::Admin => vec![
                "SHOW MPL".to_owned(),
                "SHOW GATE".to_owned(),
                "SHOW MPL LOG".to_owned(),
                format!("SHOW MPL HISTORY {past}"),
            ],
            Dialect::Views => vec![
                "SELECT * FROM overtake.mpl".to_owned(),
                "SELECT * FROM overtake.gate".to_owned(),
                "SELECT * FROM overtake.mpl_log ORDER BY seconds_ago DESC".to_owned(),
                format!("SELECT * FROM overtake.mpl_history WHERE seconds_ago < {past} ORDER BY seconds_ago DESC"),
                "SELECT * FROM overtake.stages".to_owned(),
            ],
        };
        if wants_forecast {
            let outlook = match self.dialect {
                Dialect::Admin => ["SHOW FORECAST", "SHOW VERDICT"],
                Dialect::Views => {
                    ["SELECT * FROM overtake.mpl_forecast ORDER BY mpl", "SELECT verdict FROM overtake.mpl_verdict"]
                }
            };
            questions.extend(outlook.map(str::to_owned));
        }
        let server = self.server().await?;
        let mut answers = self.answers(&questions).await?.into_iter().map(|mut rows| {
            let is_other = |row: &SimpleQueryRow| row.say("server").is_some_and(|own| Some(own) != server.as_deref());
            rows.retain(|row| server.is_none() || !is_other(row));
            rows
        });
        let mut next = || answers.next().unwrap_or_default();
        let mpl = next().first().map(MplRow::of).filter(|mpl| mpl.mode != "off");
        let mut classes: Vec<ClassRow> = next().iter().map(ClassRow::of).collect();
        let mut moves: Vec<MoveRow> = next().iter().map(MoveRow::of).collect();
        moves.reverse();
        moves.truncate(MOVES_MAX);
        let history: Vec<HistoryRow> = next().iter().map(HistoryRow::of).collect();
        let stages = match self.dialect {
            Dialect::Admin => Vec::new(),
            Dialect::Views => StageRow::all(&next()),
        };
        let forecast: Option<Vec<ForecastRow>> = wants_forecast.then(|| next().iter().map(ForecastRow::of).collect());
        let verdict = next().first().map(|row| row.text("verdict"));
        // An empty forecast is asked for again at the next look: the server has seen too little so far.
        if forecast.as_ref().is_some_and(|forecast| !forecast.is_empty()) {
            self.forecast_at = Some(now);
        }
        if let Some((at, before)) = &self.before {
            rates(&mut classes, before, now.duration_since(*at).as_secs_f64());
        }
        self.before = Some((now, classes.clone()));
        Ok(Look { mpl, classes, moves, history, forecast, verdict, stages })
    }

    async fn answers(&self, questions: &[String]) -> Result<Vec<Vec<SimpleQueryRow>>, Error> {
        let lost = |error: tokio_postgres::Error| Error::Lost(reason(&error));
        if self.dialect == Dialect::Views {
            return Ok(split(self.client.simple_query(&questions.join("; ")).await.map_err(lost)?));
        }
        let mut answers = Vec::new();
        for question in questions {
            answers.extend(split(self.client.simple_query(question).await.map_err(lost)?));
        }
        Ok(answers)
    }
}

fn rates(classes: &mut [ClassRow], before: &[ClassRow], seconds: f64) {
    for class in classes {
        let Some(old) = before.iter().find(|old| old.class == class.class) else { continue };
        let rate = |now: u64, then: u64| Some(now.saturating_sub(then) as f64 / seconds.max(1e-3));
        class.arrivals_per_second = rate(class.arrived, old.arrived);
        class.done_per_second = rate(class.done, old.done);
    }
}
