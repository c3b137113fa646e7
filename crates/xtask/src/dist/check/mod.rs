//! `cargo xtask dist --check`: installs each package in an empty place, starts the server from there, and asks it for `select 1`.

mod program;

use super::tools;
use crate::server;
use anyhow::{Context, ensure};
use program::{Program, ask};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Outcome of one package.
enum CheckOutcome {
    Works(String),
    /// The package was not tried, for this reason.
    NotTried(String),
}

use CheckOutcome::{NotTried, Works};

/// Tries the packages of a folder.
///
/// # Errors
/// If one of them does not work. All are tried before that.
pub(super) fn run(folder: &Path) -> anyhow::Result<()> {
    let place = tools::empty_folder(&std::env::temp_dir().join(format!("overtake-dist-{}", std::process::id())))?;
    let mut failed = 0;
    let mut report = |what: &str, outcome: anyhow::Result<CheckOutcome>| match outcome {
        Ok(Works(how)) => println!("works      {what}: {how}"),
        Ok(NotTried(why)) => println!("not tried  {what}: {why}"),
        Err(error) => {
            failed += 1;
            println!("FAILED     {what}: {error:#}");
        }
    };
    let found = |suffix: &str| find(folder, suffix);
    report("tar.xz", with(found(".tar.xz"), |file| tar(file, &place)));
    report("deb overtake", with(found("overtake_*.deb"), |file| deb(file, &place)));
    report("deb overtake-gate", with(found("overtake-gate_*.deb"), |file| deb_of_gate(file, &place)));
    let units = place.join("deb/lib/systemd/system");
    report("units", if units.exists() { verify(&units) } else { Ok(NotTried("no package has one".to_owned())) });
    report("wheel", with(found(".whl"), |file| wheel(file, &place)));
    report("wheel's fixture of pytest", if place.join("venv").exists() { pytest(&place) } else { Ok(none()) });
    report("npm", with(found(".tgz"), |file| npm(file, &place)));
    report("container", with(Some(folder.join("container")).filter(|folder| folder.exists()), container));
    fs::remove_dir_all(&place)?;
    ensure!(failed == 0, "{failed} of them failed");
    Ok(())
}

fn none() -> CheckOutcome {
    NotTried("there is no such package here".to_owned())
}

fn with(
    file: Option<PathBuf>,
    try_it: impl FnOnce(&Path) -> anyhow::Result<CheckOutcome>,
) -> anyhow::Result<CheckOutcome> {
    file.map_or_else(|| Ok(none()), |file| try_it(&file))
}

/// Returns a file in a folder by the end of its name, or by its begin and end: `overtake_*.deb`.
fn find(folder: &Path, pattern: &str) -> Option<PathBuf> {
    let (begin, end) = pattern.split_once('*').unwrap_or(("", pattern));
    let mut files: Vec<PathBuf> = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    // The last file has the newest version.
    files.into_iter().rfind(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(begin) && name.ends_with(end)
    })
}

/// Starts `overtake serve`, asks it, and ends it.
fn serve(binary: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(binary);
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
    let mut program = Program::start(command)?;
    let asked = program.ask()?;
    program.terminate()?;
    Ok(asked)
}

/// Starts a gate's binary before a PostgreSQL 15, or before `overtake` where none is installed.
fn serve_gate(binary: &Path, arguments: &[&str], overtake: &Path) -> anyhow::Result<String> {
    let (behind, name) = if server::has_postgres() {
        (server::postgres()?, "PostgreSQL 15")
    } else {
        (server::overtake(overtake, None)?, "overtake")
    };
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", behind.address.port());
    let asked = serve(binary, &[arguments, &["--upstream", &url]].concat())?;
    Ok(format!("{asked}, before {name}"))
}

fn tar(file: &Path, place: &Path) -> anyhow::Result<CheckOutcome> {
    let folder = tools::empty_folder(&place.join("tar"))?;
    tools::run(Command::new("tar").arg("-xf").arg(file).args(["--strip-components=1", "-C"]).arg(&folder))?;
    let overtake = folder.join("bin/overtake");
    let alone = serve(&overtake, &[])?;
    let gate = serve_gate(&folder.join("bin/overtake-gate"), &[], &overtake)?;
    Ok(Works(format!("overtake {alone}; overtake-gate {gate}")))
}

/// Unpacks a package of Debian below `deb`, and returns the server's binary and the arguments for its configuration there.
fn unpack(file: &Path, place: &Path, name: &str) -> anyhow::Result<(PathBuf, String)> {
    let root = place.join("deb");
    fs::create_dir_all(&root)?;
    tools::run(Command::new("dpkg-deb").arg("-x").arg(file).arg(&root))?;
    let conffiles = tools::run(Command::new("dpkg-deb").arg("-I").arg(file).arg("conffiles"))?;
    for conffile in conffiles.lines() {
        ensure!(root.join(conffile.trim_start_matches('/')).exists(), "the conffile {conffile} is missing");
    }
    let config = root.join(format!("etc/overtake/{name}.conf"));
    Ok((root.join("usr/bin").join(name), config.display().to_string()))
}

/// Setting without a socket: the unit makes the folder of the socket.
const NO_SOCKET: &str = "unix_socket_directories=";

fn deb(file: &Path, place: &Path) -> anyhow::Result<CheckOutcome> {
    let (binary, config) = unpack(file, place, "overtake")?;
    let arguments = ["--config", &config, "--set", NO_SOCKET];
    let asked = serve(&binary, &arguments)?;
    let told = notified(&binary, &arguments, place)?;
    Ok(Works(format!("{asked}; {told}")))
}

fn deb_of_gate(file: &Path, place: &Path) -> anyhow::Result<CheckOutcome> {
    let (binary, config) = unpack(file, place, "overtake-gate")?;
    let arguments = ["--config", &config, "--set", NO_SOCKET];
    let asked = serve_gate(&binary, &arguments, &place.join("deb/usr/bin/overtake"))?;
    // The gate need not reach its server to be ready.
    let url = ["--upstream", "postgres://postgres@127.0.0.1:1/postgres"];
    let told = notified(&binary, &[&arguments[..], &url[..]].concat(), place)?;
    Ok(Works(format!("{asked}; {told}")))
}

/// Checks the messages of a server to the service manager: at its start, at SIGHUP and at SIGTERM.
fn notified(binary: &Path, arguments: &[&str], place: &Path) -> anyhow::Result<String> {
    let manager = program::Manager::new(&place.join("notify"))?;
    let mut command = Command::new(binary);
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
    let mut program = Program::start_for(command, &manager)?;
    manager.expect("READY=1")?;
    program.signal(rustix::process::Signal::HUP)?;
    manager.expect("RELOADING=1")?;
    manager.expect("READY=1")?;
    program.terminate()?;
    manager.expect("STOPPING=1")?;
    Ok("sd_notify READY, RELOADING, STOPPING".to_owned())
}

/// Checks the units with systemd; their programs are below another root.
fn verify(units: &Path) -> anyhow::Result<CheckOutcome> {
    if !tools::is_installed("systemd-analyze") {
        return Ok(NotTried("no systemd-analyze".to_owned()));
    }
    let root = units.ancestors().nth(3).context("units are below a root")?;
    let mut said = Vec::new();
    for entry in fs::read_dir(units)? {
        let unit = entry?.path();
        let text = fs::read_to_string(&unit)?.replace("/usr/bin/", &format!("{}/usr/bin/", root.display()));
        let changed = root.join(unit.file_name().context("a unit has a name")?);
        fs::write(&changed, text)?;
        let output = Command::new("systemd-analyze").arg("verify").arg(&changed).output()?;
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success() && complaints.trim().is_empty(), "{complaints}");
        said.push(unit.file_name().unwrap_or_default().to_string_lossy().into_owned());
    }
    Ok(Works(format!("systemd-analyze verify has nothing against {}; not started by systemd", said.join(", "))))
}

fn wheel(file: &Path, place: &Path) -> anyhow::Result<CheckOutcome> {
    let venv = place.join("venv");
    tools::run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    tools::run(Command::new(venv.join("bin/pip")).args(["install", "--quiet", "--no-index"]).arg(file))?;
    let version = tools::run(Command::new(venv.join("bin/overtake")).arg("--version"))?;
    let mut python = Command::new(venv.join("bin/python"));
    python.args([
        "-c",
        "import overtake, sys\nwith overtake.serve() as dsn:\n    print(dsn, flush=True)\n    sys.stdin.read()\n",
    ]);
    let asked = Program::start(python)?.ask_and_close()?;
    Ok(Works(format!("{asked} ({})", version.trim())))
}

/// Runs pytest: the interpreter that has it sees the package of the virtual environment.
fn pytest(place: &Path) -> anyhow::Result<CheckOutcome> {
    if tools::run(Command::new("python3").args(["-c", "import pytest"])).is_err() {
        return Ok(NotTried("no pytest".to_owned()));
    }
    let path = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let packages = tools::run(Command::new(place.join("venv/bin/python")).args(["-c", path]))?;
    let test = "import socket, urllib.parse\ndef test_server(overtake_dsn):\n    url = urllib.parse.urlparse(overtake_dsn)\n    \
                socket.create_connection((url.hostname, url.port)).close()\n";
    tools::write(&place.join("pytest/test_overtake.py"), test, 0o644)?;
    let mut pytest = Command::new("python3");
    pytest.args(["-m", "pytest", "-q", "test_overtake.py"]).current_dir(place.join("pytest"));
    tools::run(pytest.env("PYTHONPATH", packages.trim()))?;
    Ok(Works("a test with overtake_dsn passes".to_owned()))
}

fn npm(file: &Path, place: &Path) -> anyhow::Result<CheckOutcome> {
    let folder = tools::empty_folder(&place.join("npm"))?;
    tools::write(&folder.join("package.json"), "{\"private\": true}", 0o644)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--offline", "--no-audit", "--no-fund", "--silent"]).arg(file);
    tools::run(npm.current_dir(&folder))?;
    let version = tools::run(Command::new(folder.join("node_modules/.bin/overtake")).arg("--version"))?;
    let mut node = Command::new("node");
    let script = "require('overtake').serve().then(({ dsn, close }) => {\n  console.log(dsn);\n  \
                  process.stdin.on('end', close).resume();\n});";
    node.args(["-e", script]).current_dir(&folder);
    let asked = Program::start(node)?.ask_and_close()?;
    Ok(Works(format!("{asked} ({})", version.trim())))
}

fn container(folder: &Path) -> anyhow::Result<CheckOutcome> {
    let works = |name: &&str| tools::run(Command::new(name).arg("info")).is_ok();
    let Some(engine) = ["podman", "docker"].into_iter().find(works) else {
        return Ok(NotTried("neither docker nor podman works here".to_owned()));
    };
    let run = |arguments: &[&str]| tools::run(Command::new(engine).args(arguments).current_dir(folder));
    let containerfile = fs::read_to_string(folder.join("Containerfile"))?;
    let base = containerfile.lines().find_map(|line| line.strip_prefix("FROM ")).context("an image has a base")?;
    if run(&["image", "inspect", base]).is_err() && run(&["pull", "--quiet", base]).is_err() {
        return Ok(NotTried(format!("{engine} is here, and its base {base} cannot be had")));
    }
    run(&["build", "-f", "Containerfile", "-t", "overtake-dist-check", "."])?;
    // The base image has no package of Overtake.
    if let Err(error) = run(&["run", "--rm", base, "true"]) {
        return Ok(NotTried(format!("{engine} builds the image, but cannot run containers here: {error:#}")));
    }
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let published = format!("127.0.0.1:{port}:5432");
    let trust = "OVERTAKE_HBA_FILE=/etc/overtake/trust.conf";
    let id = run(&["run", "-d", "--rm", "-p", &published, "-e", trust, "overtake-dist-check"])?;
    let began = Instant::now();
    let mut asked = ask(port);
    while asked.is_err() && began.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(100));
        asked = ask(port);
    }
    run(&["stop", id.trim()])?;
    Ok(Works(format!("{} by {engine}", asked?)))
}
