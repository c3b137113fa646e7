//! The demonstration page of Overtake and the server that brings it to a browser.
//!
//! **Invariant:** this crate knows neither transactions nor queries. All that the page shows comes through one trait,
//! [`Demo`], which the binary implements with the real scheduler and engine; nothing shown is made up here.
//! The server runs on its own threads, never on a worker, and reads state only by [`Demo::poll`], which must not block:
//! a slow or closed browser therefore cannot hold up a transaction.
//!
//! Reading order: what the page shows ([`facts`], [`records`]), the trait, the bounded store that an implementation may
//! fill ([`History`]), the server ([`serve`]). `src/page/` holds the page itself: plain HTML, CSS and JavaScript modules,
//! compiled in, no build step and no network. `chromium` (a feature, for tests) drives a headless browser over it.

pub mod facts;
pub mod records;

mod api;
mod assets;
mod history;
mod spectacle;

#[cfg(feature = "chromium")]
pub mod chromium;

pub use history::History;
pub use spectacle::{Demo, Error};
pub use web::{Shutdown, shutdown_on_ctrl_c};

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

/// Serves the page on `listener` until `shutdown`: pages are told, open connections get a second, then it returns. The
/// calling thread is the server; it must not be a worker. (Bind to a loopback address: the page has no password.)
///
/// # Errors
/// What the listener or the thread's runtime says.
pub fn serve(listener: TcpListener, demo: Arc<dyn Demo>, shutdown: Shutdown) -> io::Result<()> {
    web::serve(listener, api::router(demo, shutdown.clone()), shutdown)
}
