//! Page of the console, beside the server.

use crate::process::announce;
use anyhow::Context;
use console::{Row, RowSource, Shutdown};
use host::refusal::Refusal;
use serde_json::Value;
use server::{Admission, Stats, stage_lines};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use types::Datum;
use types::table::NamedRows;

/// Server of the console's page, which stops when it is dropped.
pub struct Console {
    shutdown: Shutdown,
    thread: Option<JoinHandle<()>>,
}

impl Console {
    /// Binds the address, if there is one, and serves the page of the current admission and of these statistics.
    ///
    /// # Errors
    /// Fails with a [`Refusal`] if the address is in use or does not belong to this machine.
    pub fn start(
        address: Option<SocketAddr>,
        admission: impl Fn() -> Admission + Send + Sync + 'static,
        stats: Arc<Stats>,
    ) -> anyhow::Result<Option<Console>> {
        let Some(address) = address else { return Ok(None) };
        let listener = TcpListener::bind(address)
            .map_err(|error| Refusal::new(format!("--console {address}: {error}; choose another")))?;
        let address = listener.local_addr().context("the console's address")?;
        let (shutdown, source) = (Shutdown::new(), Arc::new(Shown(admission, stats)));
        let asked = shutdown.clone();
        let thread = thread::Builder::new().name("console".to_owned()).spawn(move || {
            if let Err(error) = console::serve(listener, source, asked) {
                tracing::error!(%error, "the console cannot be served");
            }
        });
        announce(format_args!("  console: http://{address}/\n"));
        Ok(Some(Console { shutdown, thread: Some(thread.context("the console's thread")?) }))
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.shutdown.trigger();
        if let Some(thread) = self.thread.take() {
            // The thread has logged its error.
            drop(thread.join());
        }
    }
}

struct Shown<D>(D, Arc<Stats>);

impl<D: Fn() -> Admission + Send + Sync> RowSource for Shown<D> {
    fn mpl(&self) -> Option<Row> {
        rows((self.0)().lines("mpl")).pop().filter(|row| row.get("mode").is_none_or(|mode| mode != "off"))
    }

    fn resources(&self) -> Vec<Row> {
        rows((self.0)().lines("gate_resources"))
    }

    fn classes(&self) -> Vec<Row> {
        rows((self.0)().lines("gate"))
    }

    fn histogram(&self) -> Vec<Row> {
        rows((self.0)().lines("gate_histogram"))
    }

    fn log(&self) -> Vec<Row> {
        rows((self.0)().lines("mpl_log"))
    }

    fn history(&self, seconds: f64) -> Vec<Row> {
        rows((self.0)().history_lines(seconds))
    }

    fn forecast(&self) -> Vec<Row> {
        rows((self.0)().lines("mpl_forecast"))
    }

    fn verdict(&self) -> Option<Row> {
        rows((self.0)().lines("mpl_verdict")).pop()
    }

    fn stages(&self) -> Vec<Row> {
        rows(stage_lines::lines(&*self.1))
    }
}

fn rows(lines: NamedRows) -> Vec<Row> {
    let row = |line: Vec<(&'static str, Datum)>| line.into_iter().map(|(name, value)| (name.to_owned(), json(&value)));
    lines.into_iter().map(|line| row(line).collect()).collect()
}

/// Converts a value of the gate's views.
fn json(value: &Datum) -> Value {
    match value {
        Datum::Null => Value::Null,
        Datum::Bool(value) => (*value).into(),
        Datum::Int8(value) => (*value).into(),
        // A float that JSON cannot represent becomes null.
        Datum::Float8(value) => (*value).into(),
        Datum::Text(text) => text.to_string().into(),
        other => format!("{other:?}").into(),
    }
}
