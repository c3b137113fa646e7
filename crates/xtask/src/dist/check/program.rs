//! Program of a package that serves: it prints an address, is asked, and is ended.

use crate::wire::{Address, WireClient};
use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Time in which a program must make progress; otherwise it is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// Running program, killed when this is dropped.
pub(super) struct Program {
    process: Child,
    /// Output of the program, kept open although it is read no more.
    _output: ChildStdout,
    port: u16,
    /// Time from the start until the address was printed.
    start: Duration,
}

impl Drop for Program {
    fn drop(&mut self) {
        // The process has ended already, or nothing can be done about it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Program {
    /// Starts a program and reads the port on which it serves.
    pub(super) fn start(mut command: Command) -> anyhow::Result<Program> {
        // Variables of that prefix are settings of the server.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OVERTAKE_")) {
            command.env_remove(name);
        }
        let began = Instant::now();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process =
            command.spawn().with_context(|| format!("{} does not start", command.get_program().display()))?;
        let mut output = BufReader::new(process.stdout.take().context("it has a standard output")?);
        let mut line = String::new();
        while output.read_line(&mut line)? != 0 {
            if let Some((_, rest)) = line.split_once("@127.0.0.1:") {
                let port = rest.split('/').next().unwrap_or_default().parse().context("a port")?;
                let start = began.elapsed();
                return Ok(Program { process, _output: output.into_inner(), port, start });
            }
            line.clear();
        }
        bail!("{} ended before it listened: {}", command.get_program().display(), process.wait()?)
    }

    /// Starts a program that has a service manager.
    pub(super) fn start_for(mut command: Command, manager: &Manager) -> anyhow::Result<Program> {
        command.env("NOTIFY_SOCKET", &manager.path);
        Program::start(command)
    }

    /// Asks the server, and describes its answer.
    pub(super) fn ask(&self) -> anyhow::Result<String> {
        Ok(format!("{}, up after {:.2} s", ask(self.port)?, self.start.as_secs_f64()))
    }

    /// Asks the server, then closes the program's standard input, which is to end both.
    pub(super) fn ask_and_close(mut self) -> anyhow::Result<String> {
        let asked = self.ask()?;
        drop(self.process.stdin.take());
        self.wait()?;
        ensure!(ask(self.port).is_err(), "the server still answers after its program has ended");
        Ok(asked)
    }

    /// Sends a signal.
    pub(super) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(kill_process(Pid::from_child(&self.process), signal)?)
    }

    /// Ends the program as a service manager does.
    pub(super) fn terminate(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)?;
        self.wait()
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait()? {
                ensure!(status.success(), "it ended with {status}");
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Asks the server on a port of this machine for `select 1`.
pub(super) fn ask(port: u16) -> anyhow::Result<String> {
    let rows = WireClient::connect(&Address::local(port))?.run("select 1")?;
    ensure!(rows == [[Some("1".to_owned())]], "select 1 is {rows:?}");
    Ok("select 1".to_owned())
}

/// Socket of a service manager.
pub(super) struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    /// Makes the socket at a path, in place of one before.
    pub(super) fn new(path: &Path) -> anyhow::Result<Manager> {
        if path.exists() {
            std::fs::remove_file(path)?;
        }
        let socket = UnixDatagram::bind(path)?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(Manager { socket, path: path.to_owned() })
    }

    /// Takes the next message, which has to have this line.
    pub(super) fn expect(&self, line: &str) -> anyhow::Result<()> {
        let mut buffer = [0; 512];
        let length =
            self.socket.recv(&mut buffer).with_context(|| format!("the service manager was not told {line}"))?;
        let text = String::from_utf8_lossy(&buffer[..length]);
        ensure!(text.lines().any(|is| is == line), "the service manager was told {text:?} in place of {line}");
        Ok(())
    }
}
