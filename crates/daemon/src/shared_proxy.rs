//! `overtake shared-proxy`: clients that know TCP and unix sockets only, before a server that shares memory.

use crate::gate::runtime;
use crate::process::{announce, until};
use anyhow::bail;
use clap::{ArgGroup, Args};
use host::refusal::Refusal;
use host::stop::Stop;
use overtake_client::proxy::{Failure, SharedProxy};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Examples of `shared-proxy --help`.
const EXAMPLES: &str = "\
Examples:
  overtake serve --shared /run/overtake/shared
  overtake shared-proxy --server /run/overtake/shared --listen 127.0.0.1:6543
      psql \"postgresql://postgres@127.0.0.1:6543/postgres\" goes over shared memory from the proxy on";

/// Arguments of `shared-proxy`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("places").args(["listen", "socket"]).required(true).multiple(true)))]
pub struct SharedProxyArguments {
    /// The server's socket: its setting overtake.listen_shared.
    #[arg(long, value_name = "PATH")]
    server: PathBuf,
    /// Address for clients; may be given several times. Port 0 takes a free one. The server sees all these clients as local
    /// ones, so only this machine's addresses are taken.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// A unix socket for clients; may be given several times. Drivers look for DIRECTORY/.s.PGSQL.PORT.
    #[arg(long, value_name = "PATH")]
    socket: Vec<PathBuf>,
}

/// Serves clients until it is stopped.
///
/// # Errors
/// Fails with a [`Refusal`] for an address that is in use, or is not the loopback interface's; and if no server answers
/// at its socket. If the server ends later, clients are refused until it is back.
pub fn run(arguments: &SharedProxyArguments, stop: &Stop) -> anyhow::Result<()> {
    runtime()?.block_on(serve(arguments, stop))
}

/// Checks that a server shares memory at this socket.
async fn check_server(server: &Path) -> anyhow::Result<()> {
    // The connection ends at once, before it has said anything.
    match overtake_client::connect(server).await {
        Ok(_) => Ok(()),
        Err(error) => bail!(
            "connection to server on socket \"{}\" failed: {error}\n\tIs the server running with --shared {}?",
            server.display(),
            server.display()
        ),
    }
}

async fn serve(arguments: &SharedProxyArguments, stop: &Stop) -> anyhow::Result<()> {
    check_server(&arguments.server).await?;
    let mut proxy = SharedProxy::new(&arguments.server);
    for &address in &arguments.listen {
        if !address.ip().is_loopback() {
            // Rules for `local` clients would let in clients of other machines.
            let why = format!("--listen {address}: the server sees clients as local ones: take 127.0.0.1 or ::1");
            return Err(Refusal::new(why).into());
        }
        let bound = proxy.listen(address).await;
        let bound = bound.map_err(|error| Refusal::new(format!("cannot listen on {address}: {error}")))?;
        announce(format_args!("Listening on {bound}.\n"));
    }
    for path in &arguments.socket {
        let bound = proxy.listen_unix(path);
        bound.map_err(|error| Refusal::new(format!("cannot listen on {}: {error}", path.display())))?;
        announce(format_args!("Listening on {}.\n", path.display()));
    }
    let tells = |failure: &Failure| match failure {
        Failure::Unreachable(error) => tracing::warn!(%error, "the server's socket cannot be reached"),
        Failure::Unaccepted(error) => tracing::warn!(%error, "a connection could not be accepted"),
    };
    tokio::select! {
        () = proxy.run(Arc::new(tells)) => {}
        () = until(stop.clone()) => {}
    }
    Ok(())
}
