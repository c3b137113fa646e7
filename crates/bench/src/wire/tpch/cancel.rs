//! The time in which a cancelled query ends.
//!
//! **Invariant:** a time is from the moment at which the client asks for the end, on a connection of its own as the
//! protocol demands, to the error at the connection of the query. A query that answers before it was asked to end is
//! run again; one that answers afterwards counts as ended then, and its connection is left: the cancel may come late,
//! and hit the next one.

use super::super::client::{Control, explain};
use super::super::servers::MeasuredServer;
use anyhow::Context;
use host::stop::Stop;
use stage::Histogram;
use std::time::{Duration, Instant};
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;
use workloads::tpch;

/// Cancels of one server.
pub struct Cancels {
    /// Times from the request to the end.
    pub times: Histogram,
    /// Number of queries that answered after they were asked to end.
    pub answered: u64,
}

/// Cancels each query `each` times, at moments spread over the time that it takes (`medians_ms`).
///
/// # Errors
/// A stop; an error of a query that is not its cancellation.
pub fn measure(target: &MeasuredServer, medians_ms: &[f64], each: u32, stop: &Stop) -> anyhow::Result<Cancels> {
    let mut control = Control::connect(target)?;
    let mut cancels = Cancels { times: Histogram::new(), answered: 0 };
    for (query, ms) in medians_ms.iter().enumerate() {
        for turn in 0..each {
            let mut share = (f64::from(turn) + 0.5) / f64::from(each);
            loop {
                stop.wait(Duration::ZERO)?;
                let after = Duration::from_secs_f64(ms / 1e3 * share);
                let ended = once(&control, tpch::query(query + 1), after);
                match ended.with_context(|| format!("{}: query {}", target.title, query + 1))? {
                    Some(CancelledQuery { time, answered }) => {
                        cancels.times.record_ns(time.as_nanos() as u64);
                        if answered {
                            cancels.answered += 1;
                            control = Control::connect(target)?;
                        }
                        break;
                    }
                    // The cancel came too late; a query is not always as slow.
                    None => share /= 2.0,
                }
            }
        }
    }
    Ok(cancels)
}

struct CancelledQuery {
    time: Duration,
    answered: bool,
}

/// Runs a query and cancels it after this time; returns `None` if it answers before.
fn once(control: &Control, text: &str, after: Duration) -> anyhow::Result<Option<CancelledQuery>> {
    control.with(async |client| {
        let token = client.cancel_token();
        let mut query = std::pin::pin!(client.simple_query(text));
        tokio::select! {
            biased;
            early = &mut query => return early.map(|_| None).map_err(|error| explain(&error)),
            () = tokio::time::sleep(after) => {}
        }
        let asked = Instant::now();
        let (said, ended) = tokio::join!(token.cancel_query(NoTls), async { (query.await, asked.elapsed()) });
        said.map_err(|error| explain(&error)).context("the request to cancel")?;
        match ended {
            (Ok(_), time) => Ok(Some(CancelledQuery { time, answered: true })),
            (Err(error), time) if error.code() == Some(&SqlState::QUERY_CANCELED) => {
                Ok(Some(CancelledQuery { time, answered: false }))
            }
            (Err(error), _) => Err(explain(&error)),
        }
    })
}
