//! Proxies before a PostgreSQL: Overtake's gate, and PgBouncer in transaction mode with its defaults.
//!
//! **Invariant:** both stand before the same cluster, on the same machine, and are accessed as the cluster itself is;
//! the processor time of a proxy is that of its own processes alone.

pub mod cost;
pub mod internal;
pub mod real;
pub mod soak;
pub mod tpcb;

use super::links::Link;
use super::postgres::{Folder, free_port, install, is_root, user};
use super::servers::{MeasuredServer, Server, ServerProcess};
use anyhow::Context;
use host::refusal::Refusal;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Maximum number of client connections to a proxy.
const CLIENTS_MAX: u32 = 5_000;

/// Starts a gate before this cluster, with these settings. Returns the address of its metrics, too.
///
/// # Errors
/// If the gate does not start.
pub fn gate(postgres: &MeasuredServer, settings: &[&str]) -> anyhow::Result<(MeasuredServer, String)> {
    let metrics = format!("127.0.0.1:{}", free_port()?);
    let upstream = postgres.url.clone();
    let server = Server::serve(CLIENTS_MAX, postgres.transport(), |command| {
        command.args(["--upstream", &upstream, "--metrics", &metrics]);
        for setting in settings {
            command.args(["-c", setting]);
        }
    })?;
    Ok((before(postgres, "gate", "Overtake's gate", server)?, metrics))
}

/// Starts PgBouncer before this cluster, and returns its version, too.
///
/// # Errors
/// If PgBouncer is not available, or does not start.
pub fn pgbouncer(postgres: &MeasuredServer) -> anyhow::Result<(MeasuredServer, String)> {
    let program = find_or_install()?;
    let output = Command::new(&program).arg("--version").output().context("pgbouncer")?;
    let version = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned();
    let folder = Folder::new("overtake-pgbouncer")?;
    let port = free_port()?;
    let upstream: tokio_postgres::Config = postgres.url.parse().context("the cluster's address")?;
    let upstream_port = upstream.get_ports().first().copied().context("the cluster's port")?;
    // Pool size, queue and timeouts are PgBouncer's defaults.
    let text = format!(
        "[databases]\n* = host=127.0.0.1 port={upstream_port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
         max_client_conn = {CLIENTS_MAX}\nignore_startup_parameters = extra_float_digits\n"
    );
    let config = folder.path().join("pgbouncer.ini");
    fs::write(&config, text).context("PgBouncer's configuration")?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).context("PgBouncer's folder")?;
    let mut command = Command::new(program);
    if is_root() {
        // PgBouncer refuses to run as root.
        let (uid, gid) = user("postgres").ok_or_else(|| Refusal::new("there is no user postgres to run PgBouncer"))?;
        chown(&config, Some(uid), Some(gid)).context("PgBouncer's configuration")?;
        command.uid(uid).gid(gid);
    }
    let log = fs::File::create(folder.path().join("log")).context("PgBouncer's log")?;
    command.arg("-q").arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let child = command.spawn().context("pgbouncer")?;
    let server = Server {
        running: ServerProcess::Program { child, _folder: folder },
        base_url: format!("postgresql://postgres@127.0.0.1:{port}"),
    };
    Ok((before(postgres, "pgbouncer", "PgBouncer", server)?, version))
}

fn before(
    postgres: &MeasuredServer,
    key: &'static str,
    title: &'static str,
    server: Server,
) -> anyhow::Result<MeasuredServer> {
    let database = postgres.url.rsplit('/').next().context("the cluster's database")?;
    let url = format!("{}/{database}", server.base_url);
    let target = MeasuredServer {
        key,
        title,
        url,
        is_unlogged: postgres.is_unlogged,
        link: Link::Address,
        server: Arc::new(server),
    };
    target.wait()?;
    Ok(target)
}

fn find_or_install() -> anyhow::Result<PathBuf> {
    const ADVICE: &str = "install it (Debian and Ubuntu: `apt-get install pgbouncer`)";
    let find = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories = std::iter::once(PathBuf::from("/usr/sbin")).chain(std::env::split_paths(&path));
        directories.into_iter().map(|directory| directory.join("pgbouncer")).find(|program| program.is_file())
    };
    if let Some(program) = find() {
        return Ok(program);
    }
    install("pgbouncer", ADVICE)?;
    find().ok_or_else(|| Refusal::new(format!("PgBouncer was not found; {ADVICE}")).into())
}
