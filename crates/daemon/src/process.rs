//! Start and end of a process.

use host::refusal::{self, Refusal};
use host::say::{complain, say};
use host::stop::Stop;
use std::env::VarError;
use std::ffi::OsStr;
use std::fmt::Display;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::ExitCode;
use std::time::Duration;

/// Runs a command of this process and reports its outcome.
///
/// Exit codes: 0 for success; 1 for failure; 2 if the arguments or this machine do not allow it; 130 if Ctrl-C ended an
/// unfinished run.
pub fn run_command(command: impl FnOnce(&Stop) -> anyhow::Result<()>) -> ExitCode {
    let ran = prepared().and_then(|stop| command(&stop));
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("overtake: {error:#}\n"));
            refusal::exit_code(&error)
        }
    }
}

fn prepared() -> anyhow::Result<Stop> {
    preempt::self_test()?;
    // Freed memory is kept: returning it would take milliseconds inside the allocator, where nothing can interrupt.
    preempt::prepare_heap();
    init_tracing()?;
    Stop::install()
}

/// Sends log messages to standard error, so that reports on standard output stay clean. `OVERTAKE_LOG` filters them.
fn init_tracing() -> anyhow::Result<()> {
    let filter = match std::env::var("OVERTAKE_LOG") {
        Ok(filter) => filter.parse().map_err(|error| Refusal::new(format!("OVERTAKE_LOG: {error}")))?,
        Err(VarError::NotPresent) => tracing_subscriber::EnvFilter::new("info"),
        Err(error) => return Err(Refusal::new(format!("OVERTAKE_LOG: {error}")).into()),
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(std::io::stderr);
    // A failure to write the log must not end the server: the subscriber would panic when it reports the failure.
    log.log_internal_errors(false).init();
    Ok(())
}

/// Prints addresses for clients. A server whose standard output is closed keeps serving.
pub fn announce(text: impl Display) {
    if let Err(error) = say(text) {
        tracing::warn!(%error, "an address cannot be printed");
    }
}

/// Completes when the process is asked to stop, and notifies the service manager.
pub async fn until(stop: Stop) {
    let wait = move || while stop.wait(Duration::from_secs(3_600)).is_ok() {};
    // The waiting task ends with the process at the latest.
    let _ = tokio::task::spawn_blocking(wait).await;
    notify(ServiceState::Stopping);
}

/// State of a server in notifications to the service manager.
#[derive(Clone, Copy, Debug)]
pub enum ServiceState {
    /// Clients can connect or, after [`ServiceState::Reloading`], the settings have been read again.
    Ready,
    /// The settings are being read again.
    Reloading,
    /// The server has been asked to stop.
    Stopping,
}

/// Notifies the service manager of a state, by the protocol of sd_notify(3). It does nothing without a manager, which
/// sets `NOTIFY_SOCKET`.
pub fn notify(state: ServiceState) {
    let Some(address) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&address, state) {
        tracing::warn!(%error, ?state, "the service manager cannot be told of the server's state");
    }
}

/// Sends a state to a socket: a path, or `@` and an abstract name.
fn send(address: &OsStr, state: ServiceState) -> io::Result<()> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    let text = match state {
        ServiceState::Ready => "READY=1\n",
        ServiceState::Reloading => "RELOADING=1\n",
        ServiceState::Stopping => "STOPPING=1\n",
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text that arrives at a socket when a state is sent to this address.
    fn received(socket: &UnixDatagram, address: &OsStr, state: ServiceState) -> String {
        send(address, state).unwrap();
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn states_reach_a_socket_by_path_and_by_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        assert_eq!(received(&socket, path.as_os_str(), ServiceState::Ready), "READY=1\n");
        assert_eq!(received(&socket, path.as_os_str(), ServiceState::Reloading), "RELOADING=1\n");
        let name = format!("overtake-notify-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        assert_eq!(received(&socket, OsStr::new(&format!("@{name}")), ServiceState::Stopping), "STOPPING=1\n");
        send(folder.path().join("nobody").as_os_str(), ServiceState::Ready).unwrap_err();
    }
}
