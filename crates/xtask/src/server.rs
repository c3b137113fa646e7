//! Servers of a run: the binary of this repository, and a PostgreSQL 15 in a temporary folder. Both end with the run.

use crate::wire::{Address, WireClient};
use anyhow::{Context, bail, ensure};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Server process, ended when this is dropped.
pub struct Server {
    process: Child,
    folder: Option<PathBuf>,
    pub address: Address,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing can be done about an error: the run is over.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

const POSTGRES: &str = "/usr/lib/postgresql/15/bin";

/// Returns true if PostgreSQL 15 is installed.
pub fn has_postgres() -> bool {
    Path::new(POSTGRES).join("postgres").exists()
}

/// Builds the binary; with the planted bugs, of which each process chooses one, in a folder of its own.
///
/// # Errors
/// If it does not build.
pub fn build(with_plants: bool) -> anyhow::Result<PathBuf> {
    let mut folder = crate::plants::target_directory();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--package", "overtake"]);
    if with_plants {
        folder.push("plants");
        cargo.env("OVERTAKE_PLANT", "chosen");
    }
    cargo.env("CARGO_TARGET_DIR", &folder);
    ensure!(cargo.status().context("cargo cannot be started")?.success(), "the build failed");
    Ok(folder.join("release/overtake"))
}

/// Starts the binary on a port that is free, perhaps with a planted bug.
///
/// # Errors
/// If it does not say that it listens.
pub fn overtake(binary: &Path, plant: Option<&str>) -> anyhow::Result<Server> {
    let mut command = Command::new(binary);
    // Beside other programs, such as builds, analytics would stand still.
    command.args(["serve", "--listen", "127.0.0.1:0", "--set", "overtake.analytics_threads=ordinary"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    // Variables of the same prefix are settings of the server.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("OVERTAKE_") {
            command.env_remove(name);
        }
    }
    match plant {
        Some(plant) => command.env("PLANTED_BUG", plant),
        None => command.env_remove("PLANTED_BUG"),
    };
    let mut process = command.spawn().with_context(|| format!("{} does not start", binary.display()))?;
    let output = process.stdout.take().context("it has a standard output")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        if let Some((_, rest)) = line.split_once("@127.0.0.1:") {
            let port = rest.split('/').next().unwrap_or_default().parse().context("a port")?;
            return Ok(Server { process, folder: None, address: Address::local(port) });
        }
    }
    bail!("{} ended before it listened", binary.display())
}

/// Starts a PostgreSQL of this run's own, in a temporary folder, in the locale that Overtake has.
///
/// # Errors
/// If it cannot be made or does not answer within half a minute.
pub fn postgres() -> anyhow::Result<Server> {
    let folder = std::env::temp_dir().join(format!("overtake-differential-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    // PostgreSQL refuses to run as root.
    let is_root = Command::new("id").arg("-u").output()?.stdout == b"0\n";
    let command = |program: &str| {
        let program = Path::new(POSTGRES).join(program);
        if is_root {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        }
    };
    if is_root {
        ensure!(Command::new("chown").arg("postgres").arg(&folder).status()?.success(), "chown failed");
    }
    let data = folder.join("data");
    let made = command("initdb")
        .arg("-D")
        .arg(&data)
        .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"])
        .output()?;
    ensure!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut start = command("postgres");
    start.arg("-D").arg(&data).args(["-p", &port.to_string()]).arg("-k").arg(&folder);
    start.args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "timezone=UTC"]);
    let process = start.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let server = Server { process, folder: Some(folder), address: Address::local(port) };
    let begun = Instant::now();
    while WireClient::connect(&server.address).is_err() {
        ensure!(begun.elapsed() < Duration::from_secs(30), "PostgreSQL does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(server)
}
