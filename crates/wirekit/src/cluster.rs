//! PostgreSQL 15 server of a test, in a folder of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use testkit::TempDir;
use tokio_postgres::NoTls;

/// Folder of the programs on Debian; elsewhere they are on the path.
pub const DEBIAN: &str = "/usr/lib/postgresql/15/bin";

/// Lines that the server has logged, as they arrive.
#[derive(Default)]
struct Log {
    text: Mutex<String>,
    grown: Condvar,
}

impl Log {
    /// Records the log to its end.
    fn follow(self: Arc<Log>, said: ChildStderr) {
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            let mut text = self.text.lock().unwrap();
            *text += &line;
            text.push('\n');
            self.grown.notify_all();
        }
    }

    /// Waits until the log contains this text.
    fn until(&self, said: &str) {
        assert!(self.until_either(said, said));
    }

    /// Waits until the log contains one of these texts, and returns true if it was the first.
    fn until_either(&self, one: &str, other: &str) -> bool {
        let text = self.text.lock().unwrap();
        let patience = Duration::from_secs(60);
        let is_silent = |text: &mut String| !text.contains(one) && !text.contains(other);
        let (text, waited) = self.grown.wait_timeout_while(text, patience, is_silent).unwrap();
        assert!(!waited.timed_out(), "never: {one}\n{text}");
        text.contains(one)
    }
}

/// PostgreSQL server of a test, with a folder of its own.
pub struct Cluster {
    postmaster: Child,
    log: Arc<Log>,
    folder: PathBuf,
    /// Scratch folder, which contains `folder` and is removed with its contents.
    _scratch: TempDir,
    /// Port on the loopback address.
    pub port: u16,
}

fn program(name: &str) -> PathBuf {
    let debian = Path::new(DEBIAN).join(name);
    if debian.is_file() { debian } else { PathBuf::from(name) }
}

/// Returns the user `postgres` when this process runs as root, because PostgreSQL refuses to run as root.
pub fn owner() -> Option<(u32, u32)> {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = users.lines().find(|line| is_root && line.starts_with("postgres:"))?;
    let mut numbers = line.split(':').skip(2).map(|number| number.parse().unwrap());
    Some((numbers.next()?, numbers.next()?))
}

/// Command for a program of PostgreSQL, run as the owner of its files.
pub fn as_owner(name: &str) -> Command {
    let mut command = Command::new(program(name));
    if let Some((user, group)) = owner() {
        command.uid(user).gid(group);
    }
    command.current_dir("/tmp").stdin(Stdio::null());
    command
}

/// Cluster that was never started. It is made once per machine, because `initdb` takes longer than most tests.
fn template() -> PathBuf {
    let template = std::env::temp_dir().join("overtake-cluster-15");
    if !template.is_dir() {
        let made = std::env::temp_dir().join(format!("overtake-cluster-15-{}", std::process::id()));
        let mut initdb = as_owner("initdb");
        initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"]).arg(&made);
        let output = initdb.output().unwrap();
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        if fs::rename(&made, &template).is_err() {
            // Another test was faster.
            fs::remove_dir_all(&made).unwrap();
        }
    }
    template
}

/// True if a program is installed and reports this version. Where everything is to be tested, it has to be installed.
pub fn is_there(name: &str, version: &str, title: &str) -> bool {
    let output = Command::new(program(name)).arg("--version").output();
    let is_there = output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(version));
    if !is_there {
        assert!(std::env::var_os("OVERTAKE_CI").is_none(), "{title} is not installed");
        println!("SKIPPED: {title} is not installed");
    }
    is_there
}

impl Cluster {
    /// Starts a server. Returns `None`, with a message, where PostgreSQL 15 is not installed.
    pub fn start(hba: &str) -> Option<Cluster> {
        if !is_there("initdb", "(PostgreSQL) 15.", "PostgreSQL 15") {
            return None;
        }
        let scratch = testkit::folder("upstream");
        let folder = scratch.path().join("data");
        let copied = Command::new("cp").arg("-a").arg(template()).arg(&folder).status().unwrap();
        assert!(copied.success());
        if !hba.is_empty() {
            fs::write(folder.join("pg_hba.conf"), hba).unwrap();
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (postmaster, log) = launch(&folder, port);
        let cluster = Cluster { postmaster, log, folder, _scratch: scratch, port };
        cluster.log.until("ready to accept connections");
        Some(cluster)
    }

    /// Creates a standby with the data of a stopped server. It follows no primary yet.
    pub fn copy(of: &Cluster) -> Cluster {
        let scratch = testkit::folder("upstream");
        let folder = scratch.path().join("data");
        of.copy_to(&folder);
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (postmaster, log) = launch(&folder, port);
        log.until("ready to accept read-only connections");
        Cluster { postmaster, log, folder, _scratch: scratch, port }
    }

    /// Becomes a standby with the data of a stopped server. This server has to be stopped as well.
    pub fn copy_again(&mut self, of: &Cluster) {
        fs::remove_dir_all(&self.folder).unwrap();
        of.copy_to(&self.folder);
        (self.postmaster, self.log) = launch(&self.folder, self.port);
        self.log.until("ready to accept read-only connections");
    }

    fn copy_to(&self, folder: &Path) {
        let copied = Command::new("cp").arg("-a").arg(&self.folder).arg(folder).status().unwrap();
        assert!(copied.success());
        let signal = folder.join("standby.signal");
        fs::write(&signal, "").unwrap();
        if let Some((user, group)) = owner() {
            std::os::unix::fs::chown(&signal, Some(user), Some(group)).unwrap();
        }
    }

    /// Promotes the standby to a primary, on a timeline of its own.
    pub fn promote(&self) {
        self.ask("select pg_promote()");
    }

    /// Kills the postmaster, by SIGKILL or by a shutdown, and starts another on the same data.
    pub fn restart(&mut self, signal: &str) {
        self.stop(signal);
        self.start_again();
    }

    /// Stops the server by a signal.
    pub fn stop(&mut self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.postmaster.id().to_string()]).status().unwrap().success());
        self.postmaster.wait().unwrap();
    }

    /// Starts the server again.
    pub fn start_again(&mut self) {
        loop {
            let (postmaster, log) = launch(&self.folder, self.port);
            (self.postmaster, self.log) = (postmaster, log);
            // The shared memory stays in use until the last process of the old server has exited.
            if self.log.until_either("ready to accept connections", "pre-existing shared memory block") {
                return;
            }
            self.postmaster.wait().unwrap();
        }
    }
}

/// Starts a postmaster and records its log.
fn launch(folder: &Path, port: u16) -> (Child, Arc<Log>) {
    let mut postgres = as_owner("postgres");
    postgres.arg("-D").arg(folder).args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k"]).arg(folder);
    for setting in ["fsync=off", "max_connections=60", "shared_buffers=16MB", "autovacuum=off"] {
        postgres.args(["-c", setting]);
    }
    let mut postmaster = postgres.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (log, said) = (Arc::new(Log::default()), postmaster.stderr.take().unwrap());
    let follower = Arc::clone(&log);
    std::thread::spawn(move || follower.follow(said));
    (postmaster, log)
}

impl Cluster {
    /// Runs a text through psql over the unix socket.
    pub fn ask(&self, text: &str) {
        let mut psql = as_owner("psql");
        psql.arg("-h").arg(&self.folder).args(["-p", &self.port.to_string(), "-U", "postgres", "-qc", text]);
        let output = psql.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Makes the server offer encryption, with the certificate of the tests.
    pub fn encrypt(&self) {
        self.encrypt_with(
            "tests",
            include_bytes!("../../wire/tests/tls/cert.pem"),
            include_bytes!("../../wire/tests/tls/key.pem"),
        );
    }

    /// Makes the server offer encryption with this certificate and its key, under a name that it has not had before.
    pub fn encrypt_with(&self, name: &str, certificate: &[u8], key: &[u8]) {
        for (ending, content) in [("crt", certificate), ("key", key)] {
            let path = self.folder.join(format!("{name}.{ending}"));
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            if let Some((user, group)) = owner() {
                std::os::unix::fs::chown(&path, Some(user), Some(group)).unwrap();
            }
        }
        self.ask(&format!("alter system set ssl_cert_file = '{name}.crt'"));
        self.ask(&format!("alter system set ssl_key_file = '{name}.key'"));
        self.ask("alter system set ssl = on");
        self.ask("select pg_reload_conf()");
        // The server reads the new files before it accepts the next client.
        self.log.until(&format!("\"ssl_key_file\" changed to \"{name}.key\""));
    }

    /// URL of the server's unix socket.
    pub fn socket_url(&self) -> String {
        format!("postgres://postgres@/postgres?host={}&port={}", self.folder.display(), self.port)
    }

    /// Restricts all processes that begin from now on to one processor.
    pub fn pin(&self) {
        let pinned = Command::new("taskset").args(["-cp", "0", &self.postmaster.id().to_string()]).output().unwrap();
        assert!(pinned.status.success(), "{}", String::from_utf8_lossy(&pinned.stderr));
    }

    /// Connects a client directly to the server.
    pub async fn client(&self) -> tokio_postgres::Client {
        self.try_client().await.unwrap()
    }

    /// Connects a client directly to the server, if it accepts one.
    pub async fn try_client(&self) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
        let config = format!("host=127.0.0.1 port={} user=postgres", self.port);
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
        tokio::spawn(async { drop(connection.await) });
        Ok(client)
    }

    /// Kills one of the server's processes by SIGKILL; the others follow.
    pub fn kill(pid: i32) {
        assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Immediate shutdown: none of the data is kept.
        let _ = Command::new("kill").args(["-QUIT", &self.postmaster.id().to_string()]).status();
        let _ = self.postmaster.wait();
    }
}
