//! The console: what the gate does, on a page in a browser, live.
//!
//! It is told rows, with the names that the views of the schema `overtake` give to their columns, so it shows nothing that SQL would
//! not say. `src/page/` holds the page itself: plain HTML, CSS and JavaScript modules, compiled in, no build step and no network.
//!
//! **Invariant:** it changes nothing. It runs on a thread of its own; a page asks once a second, and however many do, the server
//! computes what other limits would do once in five seconds at most.

mod api;

use serde_json::{Map, Value};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

pub use web::Shutdown;

/// A row: its values by the names of their columns.
pub type Row = Map<String, Value>;

/// Who knows the gate. All of it must be quick but forecast and verdict, which may take seconds.
pub trait Source: Send + Sync {
    /// `overtake.mpl`; nothing if the gate is off.
    fn mpl(&self) -> Option<Row>;
    /// `overtake.gate_resources`.
    fn resources(&self) -> Vec<Row>;
    /// `overtake.gate`.
    fn classes(&self) -> Vec<Row>;
    /// `overtake.gate_histogram`.
    fn histogram(&self) -> Vec<Row>;
    /// `overtake.mpl_log`.
    fn log(&self) -> Vec<Row>;
    /// `overtake.mpl_history`, so many seconds back.
    fn history(&self, seconds: f64) -> Vec<Row>;
    /// `overtake.mpl_forecast`.
    fn forecast(&self) -> Vec<Row>;
    /// `overtake.mpl_verdict`.
    fn verdict(&self) -> Option<Row>;
}

/// Serves the page on `listener` until `shutdown`. (Bind to a loopback address: the page has no password.)
///
/// # Errors
/// What the listener or the thread's runtime says.
pub fn serve(listener: TcpListener, source: Arc<dyn Source>, shutdown: Shutdown) -> io::Result<()> {
    web::serve(listener, api::routes(source), shutdown)
}
