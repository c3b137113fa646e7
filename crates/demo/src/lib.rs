//! The demonstration page of Overtake and the server that brings it to a browser.
//!
//! **Invariant:** this crate knows neither transactions nor queries. Everything that the page shows comes through one
//! trait, [`Demo`], which the binary implements with the real scheduler and engine; no value shown is made up here. The
//! server runs on its own threads, never on a worker, and reads state only by [`Demo::poll`], which must not block: a
//! slow or closed browser therefore cannot hold up a transaction.
//!
//! Reading order: the data that the page shows ([`facts`], [`records`]), the trait, the bounded store that an
//! implementation may fill ([`EventHistory`]), the server ([`serve`]). `src/page/` holds the page itself: plain HTML,
//! CSS and JavaScript modules, compiled in, no build step and no network. `chromium` (a feature, for tests) drives a
//! headless browser over it.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - data of the page: `facts`, `records`
//! - what follows from the data: `verdict`
//! - the trait of an implementation: `spectacle`
//! - an implementation's store: `history`
//! - the server: `assets`, `attendance`, `api`
//! - tests: `chromium`

pub mod facts;
pub mod records;

mod api;
mod assets;
mod attendance;
mod history;
mod spectacle;
mod verdict;

#[cfg(feature = "chromium")]
pub mod chromium;

pub use history::EventHistory;
pub use spectacle::{Demo, Error};
pub use web::{Shutdown, shutdown_on_ctrl_c};

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use attendance::Attendance;

/// Interval at which the viewers are counted.
const COUNT: Duration = Duration::from_millis(100);

/// Serves the page on `listener` until `shutdown`: pages are told, open connections get a second, then it returns. The
/// calling thread is the server; it must not be a worker. (Bind to a loopback address: the page has no password.)
///
/// When no page has been open for 10 s, query and arrivals stop, until a page opens.
///
/// # Errors
/// Errors of the listener or the thread's runtime.
pub fn serve(listener: TcpListener, demo: Arc<dyn Demo>, shutdown: Shutdown) -> io::Result<()> {
    let began = Instant::now();
    serve_by(listener, demo, shutdown, Arc::new(move || began.elapsed()))
}

/// Serves the page as [`serve`] does, by another clock, for tests.
///
/// # Errors
/// As for [`serve`].
pub fn serve_by(
    listener: TcpListener,
    demo: Arc<dyn Demo>,
    shutdown: Shutdown,
    clock: Arc<dyn Fn() -> Duration + Send + Sync>,
) -> io::Result<()> {
    let audience = api::Audience::default();
    let (ending, ended) = channel::<()>();
    let counter = {
        let (demo, audience) = (Arc::clone(&demo), audience.clone());
        thread::Builder::new().name("attendance".to_owned()).spawn(move || {
            let mut attendance = Attendance::new(clock());
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(COUNT) {
                attendance.look(&*demo, clock(), audience.pages.count(), audience.commands());
            }
        })?
    };
    let served = web::serve(listener, api::router(demo, shutdown.clone(), audience), shutdown);
    drop(ending);
    counter.join().map_err(|_| io::Error::other("the thread that counts viewers panicked"))?;
    served
}
