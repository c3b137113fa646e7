//! `overtake top`: what the gate does, live, in a terminal; as text or JSON where there is none.
//!
//! It is a client like others: the views of the schema `overtake` tell it everything, or the administration database before an
//! upstream. To be read in this order: [`Target`] (where to connect), [`Client`] (how the views are asked), [`Look`] (what they
//! say), [`Screen`] (how it is drawn), [`plain`] (how it is written), [`run`].
//!
//! **Invariant:** drawing knows neither connection nor clock: what is shown follows from the looks, so that it can be tested.

mod client;
mod error;
mod live;
mod look;
pub mod plain;
mod rows;
mod screen;
mod target;
mod tls;
mod watch;

pub use client::Client;
pub use error::Error;
pub use look::{Class, Expected, Look, Moment, Move, Mpl};
pub use screen::Screen;
pub use target::Target;
pub use watch::Watch;

use std::io::IsTerminal;
use std::time::Duration;

/// What to show, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whom to ask.
    pub target: Target,
    /// Between two looks.
    pub interval: Duration,
    /// So many looks, then it ends; none: for ever.
    pub count: Option<u64>,
    /// One JSON object for each look.
    pub json: bool,
}

/// Shows it, until it is told to end: on a terminal with keys; as text if standard output is none, or a count or JSON is asked for.
/// `wait` waits for so long, and says whether the program is to end.
///
/// # Errors
/// The first connection cannot be made, or what is there is no gate of ours; standard output cannot be written to.
pub fn run(options: &Options, wait: &dyn Fn(Duration) -> bool) -> Result<(), Error> {
    let is_text = options.json || options.count.is_some() || !std::io::stdout().is_terminal();
    if is_text { plain::run(options, &mut std::io::stdout().lock(), wait) } else { live::run(options, wait) }
}
