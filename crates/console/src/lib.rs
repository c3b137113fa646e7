//! The console: a live page in a browser that shows the gate's state.
//!
//! The input is rows, named as the columns of the views of the schema `overtake`, so it shows nothing that SQL would
//! not say. `src/page/` holds the page itself: plain HTML, CSS and JavaScript modules, compiled in, no build step and
//! no network.
//!
//! **Invariant:** the console changes nothing. It runs on a thread of its own. A page asks once a second; for any
//! number of pages, the server computes the effect of other limits once in five seconds at most.

mod api;

use serde_json::{Map, Value};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

pub use web::Shutdown;

/// A row: values by the names of their columns.
pub type Row = Map<String, Value>;

/// Source of the gate's rows. All functions must be quick but `forecast` and `verdict`, which may take seconds.
pub trait RowSource: Send + Sync {
    /// Returns the row of `overtake.mpl`, or `None` if the gate is off.
    fn mpl(&self) -> Option<Row>;
    /// Returns the rows of `overtake.gate_resources`.
    fn resources(&self) -> Vec<Row>;
    /// Returns the rows of `overtake.gate`.
    fn classes(&self) -> Vec<Row>;
    /// Returns the rows of `overtake.gate_histogram`.
    fn histogram(&self) -> Vec<Row>;
    /// Returns the rows of `overtake.mpl_log`.
    fn log(&self) -> Vec<Row>;
    /// Returns the rows of `overtake.mpl_history`, this many seconds back.
    fn history(&self, seconds: f64) -> Vec<Row>;
    /// Returns the rows of `overtake.mpl_forecast`.
    fn forecast(&self) -> Vec<Row>;
    /// Returns the row of `overtake.mpl_verdict`.
    fn verdict(&self) -> Option<Row>;
    /// Returns the rows of `overtake.stages`, which are there without a gate, too.
    fn stages(&self) -> Vec<Row>;
}

/// Serves the page on `listener` until `shutdown`. (Bind to a loopback address: the page has no password.)
///
/// # Errors
/// The error of the listener or of the thread's runtime.
pub fn serve(listener: TcpListener, source: Arc<dyn RowSource>, shutdown: Shutdown) -> io::Result<()> {
    web::serve(listener, api::routes(source), shutdown)
}
