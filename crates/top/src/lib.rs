//! `overtake top`: live display of the gate in a terminal; as text or JSON where there is none.
//!
//! It is a client like others: its only source is the views of the schema `overtake`, or the administration database in
//! front of an upstream. Read the modules in this order: [`Target`] (the server to connect to), [`Client`] (queries of
//! the views), [`Look`] (their contents), [`Screen`] (drawing), [`plain`] (text and JSON), [`run`].
//!
//! **Invariant:** drawing knows neither connection nor clock: the picture follows from the looks alone, so that it can
//! be tested.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - what a server is asked: `error`, `rows`, `tls`, `target`
//! - contents of the views: `look`
//! - the connection: `client`
//! - changes between looks: `watch`
//! - drawing: `screen`
//! - output: `plain`, `live`

mod client;
mod error;
mod live;
mod look;
pub mod plain;
mod rows;
mod screen;
mod target;
pub mod tls;
mod watch;

pub use client::Client;
pub use error::Error;
pub use look::{ClassRow, ForecastRow, HistoryRow, Look, MoveRow, MplRow, StageRow};
pub use screen::Screen;
pub use target::Target;
pub use tls::Encryption;
pub use watch::GateWatch;

use std::io::IsTerminal;
use std::time::Duration;

/// Options of [`run`].
#[derive(Clone, Debug)]
pub struct TopOptions {
    /// Server to connect to.
    pub target: Target,
    /// Interval between two looks.
    pub interval: Duration,
    /// Number of looks after which the program ends; `None`: no limit.
    pub count: Option<u64>,
    /// True to write one JSON object for each look.
    pub json: bool,
}

/// Shows the gate until the program is told to end: on a terminal with keys; as text if standard output is no terminal,
/// or a count or JSON is asked for. `wait` waits for this long, and returns true if the program is to end.
///
/// # Errors
/// The first connection cannot be made, or the server has no gate of ours; standard output cannot be written to.
pub fn run(options: &TopOptions, wait: &dyn Fn(Duration) -> bool) -> Result<(), Error> {
    let is_text = options.json || options.count.is_some() || !std::io::stdout().is_terminal();
    if is_text { plain::run(options, &mut std::io::stdout().lock(), wait) } else { live::run(options, wait) }
}
