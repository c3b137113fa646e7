//! The server's threads and its shutdown.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use axum::Router;

/// Time for open connections to finish after a shutdown was requested.
const GRACE_MS: u64 = 1_000;
/// Most commands at work at once, each on a thread of its own.
const COMMANDS_MAX: usize = 8;
/// Exit code of a program that a second Ctrl-C ends: 128 and SIGINT's number.
const INTERRUPTED: i32 = 130;

/// Request to shut the server down; clones share one flag.
#[derive(Clone, Debug)]
pub struct Shutdown {
    flag: Arc<watch::Sender<bool>>,
}

impl Default for Shutdown {
    fn default() -> Shutdown {
        Shutdown::new()
    }
}

impl Shutdown {
    /// Creates a flag that is not set yet.
    pub fn new() -> Shutdown {
        Shutdown { flag: Arc::new(watch::Sender::new(false)) }
    }

    /// Requests the shutdown; repeated calls do no harm. Callable from any thread.
    pub fn trigger(&self) {
        self.flag.send_replace(true);
    }

    /// Waits until the shutdown is requested.
    pub async fn wait(&self) {
        let mut asked = self.flag.subscribe();
        asked.wait_for(|asked| *asked).await.expect("self keeps the sender alive");
    }
}

/// Serves a page on `listener` until `shutdown`: then pages are told, open connections get a second, and the function
/// returns. The calling thread is the server; it must not be a worker. (Bind to a loopback address: the page has no
/// password.)
///
/// # Errors
/// The error of the listener or of the thread's runtime.
pub fn serve(listener: TcpListener, routes: Router, shutdown: Shutdown) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let asked = shutdown.clone();
        let server = axum::serve(listener, routes).with_graceful_shutdown(async move { asked.wait().await });
        let out_of_grace = async {
            shutdown.wait().await;
            tokio::time::sleep(Duration::from_millis(GRACE_MS)).await;
        };
        tokio::select! {
            served = async { server.await } => served,
            () = out_of_grace => Ok(()),
        }
    });
    // A command that hangs must not keep the program alive: its thread is left behind.
    runtime.shutdown_background();
    served
}

/// Makes Ctrl-C and SIGTERM trigger `shutdown`; a second one ends the process at once. Needs a thread that is not a
/// worker.
///
/// # Errors
/// An error if the handlers or the thread cannot be created.
pub fn shutdown_on_ctrl_c(shutdown: &Shutdown) -> io::Result<()> {
    let runtime = runtime()?;
    let (mut interrupts, mut terminations) = {
        let _context = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let shutdown = shutdown.clone();
    thread::Builder::new().name("ctrl-c".to_owned()).spawn(move || {
        runtime.block_on(async {
            for second in [false, true] {
                tokio::select! {
                    _ = interrupts.recv() => {}
                    _ = terminations.recv() => {}
                }
                if second {
                    std::process::exit(INTERRUPTED);
                }
                shutdown.trigger();
            }
        });
    })?;
    Ok(())
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().max_blocking_threads(COMMANDS_MAX).thread_name("page").build()
}
