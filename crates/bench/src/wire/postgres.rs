//! PostgreSQL 15: found or installed, run as a fresh cluster in a temporary folder, tuned, and removed at the end.
//!
//! **Invariant:** no cluster of the machine is touched; the folder is gone when the value is dropped. The server runs
//! as user `postgres` if this process is root, because it refuses root.

use anyhow::{Context, ensure};
use host::refusal::Refusal;
use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Folder of the programs in Debian's packages.
const DEBIAN: &str = "/usr/lib/postgresql/15/bin";
const MAJOR: &str = "15";
const ADVICE: &str =
    "install it (Debian and Ubuntu: `apt-get install postgresql-15`), or measure one server with --url";

/// Programs of an installation.
#[derive(Clone, Debug)]
pub struct Programs {
    directory: PathBuf,
}

impl Programs {
    /// Finds version 15, or installs it where that is possible.
    ///
    /// # Errors
    /// A [`Refusal`] with advice.
    pub fn find_or_install() -> anyhow::Result<Programs> {
        if let Some(programs) = Programs::find() {
            return Ok(programs);
        }
        // The installation makes no cluster: this module makes its own.
        install("postgresql-15", ADVICE)?;
        Programs::find().ok_or_else(|| Refusal::new(format!("PostgreSQL 15 was not found; {ADVICE}")).into())
    }

    fn find() -> Option<Programs> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories = std::iter::once(PathBuf::from(DEBIAN)).chain(std::env::split_paths(&path));
        directories.into_iter().map(|directory| Programs { directory }).find(|programs| {
            let has_all = ["initdb", "postgres", "pgbench"].iter().all(|name| programs.path(name).is_file());
            let version = Command::new(programs.path("postgres")).arg("--version").output();
            has_all && version.is_ok_and(|output| is_right(&String::from_utf8_lossy(&output.stdout)))
        })
    }

    /// Returns the path of a program.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// Installs a package of the system, if this process is root and there is apt-get; otherwise does nothing.
///
/// # Errors
/// If the package cannot be installed, with advice.
pub fn install(package: &str, advice: &str) -> Result<(), Refusal> {
    if !is_root() || Command::new("apt-get").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Ok(());
    }
    tracing::info!(package, "installing");
    let install = format!("apt-get -qq update && apt-get -qq install -y --no-install-recommends {package}");
    let mut command = Command::new("sh");
    command.args(["-c", &install]).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
    if command.status().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(Refusal::new(format!("{package} could not be installed; {advice}")))
}

/// Returns true if this is the version text of version 15.
fn is_right(version: &str) -> bool {
    version.split_ascii_whitespace().nth(2).is_some_and(|number| number.split('.').next() == Some(MAJOR))
}

/// Returns true if this process is root.
pub fn is_root() -> bool {
    user("root").is_some_and(|(uid, _)| {
        fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == uid)
    })
}

/// Returns the ID of a user, and of its group.
pub fn user(name: &str) -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut fields = line.split(':').skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Running cluster.
pub struct Cluster {
    child: Child,
    folder: Folder,
    port: u16,
}

/// Temporary folder, removed when the value is dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates a folder, whose name begins with `name`, among the temporary files.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn new(name: &str) -> anyhow::Result<Folder> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let folder = Folder(std::env::temp_dir().join(name));
        fs::create_dir(&folder.0).with_context(|| format!("the folder {}", folder.0.display()))?;
        Ok(folder)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Best effort: a remainder stays in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Cluster {
    /// Makes a cluster with the settings that suit this machine, and starts it.
    ///
    /// # Errors
    /// Errors of `initdb` or the server.
    pub fn start(programs: &Programs, memory_bytes: u64, connections_max: u32) -> anyhow::Result<Cluster> {
        let folder = Folder::new("overtake-postgres")?;
        let owner = if is_root() {
            let owner = user("postgres")
                .ok_or_else(|| Refusal::new("PostgreSQL refuses root, and there is no user postgres"))?;
            std::os::unix::fs::chown(&folder.0, Some(owner.0), Some(owner.1)).context("the cluster's folder")?;
            Some(owner)
        } else {
            None
        };
        let as_owner = |program: &str| {
            let mut command = Command::new(programs.path(program));
            if let Some((uid, gid)) = owner {
                command.uid(uid).gid(gid);
            }
            command.current_dir(&folder.0).stdin(Stdio::null());
            command
        };
        let data = folder.0.join("data");
        let made = as_owner("initdb")
            .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"])
            .arg(&data)
            .output()
            .context("initdb")?;
        ensure!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr).trim());
        let port = free_port()?;
        let mut command = as_owner("postgres");
        command.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k"]).arg(folder.path());
        for (name, value) in settings(memory_bytes, connections_max) {
            command.args(["-c", &format!("{name}={value}")]);
        }
        let log = fs::File::create(folder.0.join("log")).context("the cluster's log")?;
        let child = command.stdout(Stdio::null()).stderr(log).spawn().context("postgres")?;
        Ok(Cluster { child, folder, port })
    }

    /// Returns the port at which the cluster listens, on the machine itself.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the folder of the cluster's socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the process ID of the postmaster.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the end of the cluster's log.
    pub fn log(&self) -> String {
        last_lines(&self.folder.0.join("log"))
    }
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Immediate shutdown: the data is not kept. SIGKILL would leave its children and shared memory.
        let _ = Command::new("kill").args(["-QUIT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

/// Returns a port that no process listens on now.
///
/// # Errors
/// If there is none.
pub fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("a free port")?;
    Ok(listener.local_addr().context("a free port")?.port())
}

/// Returns the settings that administrators choose for such a machine, and those that take durability out of the
/// comparison.
fn settings(memory_bytes: u64, connections_max: u32) -> Vec<(&'static str, String)> {
    const MIB: u64 = 1 << 20;
    let shared = (memory_bytes / 4).clamp(128 * MIB, 8192 * MIB) / MIB;
    let text = |value: &str| value.to_owned();
    vec![
        ("shared_buffers", format!("{shared}MB")),
        ("effective_cache_size", format!("{}MB", memory_bytes / MIB * 3 / 4)),
        ("work_mem", text("256MB")),
        ("maintenance_work_mem", text("1GB")),
        ("max_connections", (connections_max + 10).to_string()),
        ("synchronous_commit", text("off")),
        ("wal_level", text("minimal")),
        ("max_wal_senders", text("0")),
        ("max_wal_size", text("32GB")),
        ("min_wal_size", text("2GB")),
        ("checkpoint_timeout", text("30min")),
        ("checkpoint_completion_target", text("0.9")),
        ("random_page_cost", text("1.1")),
        ("effective_io_concurrency", text("200")),
        ("jit", text("off")),
        ("autovacuum", text("on")),
        ("logging_collector", text("off")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_version_15_is_right() {
        assert!(is_right("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"));
        for wrong in ["postgres (PostgreSQL) 16.1", "postgres (PostgreSQL) 1.5", "postgres (PostgreSQL) 150.1", ""] {
            assert!(!is_right(wrong), "{wrong}");
        }
    }

    #[test]
    fn settings_follow_the_machine() {
        let of = |bytes, name| settings(bytes, 90).into_iter().find(|setting| setting.0 == name).expect("it is set").1;
        assert_eq!(of(16 << 30, "shared_buffers"), "4096MB");
        assert_eq!(of(64 << 30, "shared_buffers"), "8192MB");
        assert_eq!(of(16 << 30, "max_connections"), "100");
    }

    #[test]
    fn root_has_number_zero() {
        assert_eq!(user("root"), Some((0, 0)));
        assert_eq!(user("roo"), None);
    }
}
