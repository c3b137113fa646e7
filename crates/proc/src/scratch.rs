//! Scratch servers of this executable.

use crate::connection::Session;
use anyhow::{Context, bail};
use host::stop::Stop;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_postgres::Config;

/// Longest time that a server may take to start.
const START: Duration = Duration::from_secs(60);
/// Time between two looks whether it has.
const LOOK: Duration = Duration::from_millis(10);
/// Beginning of the socket's name; the port follows.
const SOCKET: &str = ".s.PGSQL.";
/// Lines of the server's messages that are shown if it does not start.
const SHOWN: usize = 10;

/// Server with an empty database, on a free port of this machine and a socket in a folder of its own. It ends with the
/// value.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: TempDir,
    child: Child,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The data is in memory, and nobody wants it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Scratch {
    /// Starts a server of this executable.
    ///
    /// # Errors
    /// Fails with the server's last messages if it does not start.
    pub(crate) fn start(executable: &Path) -> anyhow::Result<Scratch> {
        let folder = tempfile::Builder::new().prefix("overtake-proc-").tempdir().context("a folder for a server")?;
        let log = File::create(folder.path().join("log")).context("a file for a server's messages")?;
        let mut command = Command::new(executable);
        command.args(["serve", "--listen", "127.0.0.1:0", "--socket"]).arg(folder.path());
        // Settings for another server. The program of gVisor is no setting, but a fact of the machine.
        let is_setting = |name: &OsStr| name.as_encoded_bytes().starts_with(b"OVERTAKE_") && name != "OVERTAKE_RUNSC";
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_setting(name)) {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().context("a file for a server's messages")?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {}", executable.display()))?;
        Ok(Scratch { folder, child })
    }

    /// Connects to the server as soon as it has started.
    ///
    /// # Errors
    /// Fails with the server's last messages if it does not start; with [`host::stop::Stopped`] after Ctrl-C.
    pub(crate) async fn connect(&mut self, stop: &Stop) -> anyhow::Result<Session> {
        let begun = Instant::now();
        loop {
            stop.wait(Duration::ZERO)?;
            if let Some(config) = self.address()
                && let Ok(session) = Session::plain(&config).await
            {
                return Ok(session);
            }
            let ended = self.child.try_wait().context("the scratch server")?;
            if ended.is_some() || START < begun.elapsed() {
                bail!("the scratch server does not start:\n{}", self.messages());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns the address of the socket, once there is one.
    fn address(&self) -> Option<Config> {
        let names = fs::read_dir(self.folder.path()).ok()?;
        let port = names.filter_map(Result::ok).find_map(|entry| {
            let name = entry.file_name();
            name.to_str()?.strip_prefix(SOCKET)?.parse().ok()
        })?;
        let mut config = Config::new();
        config.host_path(self.folder.path()).port(port).user("postgres").dbname("postgres");
        Some(config)
    }

    fn messages(&self) -> String {
        let log = fs::read(self.folder.path().join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(SHOWN)..).unwrap_or_default().join("\n")
    }
}
