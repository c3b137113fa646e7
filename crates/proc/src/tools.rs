//! Programs of this machine.

use anyhow::Context;
use host::stop::Stop;
use rustix::process::{Pid, Signal};
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Returns the path of a program.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    find_in(&std::env::var_os("PATH")?, name)
}

fn find_in(folders: &OsStr, name: &str) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(folders).map(|folder| folder.join(name)).find(|path| is_program(path))
}

/// Longest time that a compiler, or a download of one, may take.
const TOOL_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Longest time for which a program that is still open for writing is tried again.
const BUSY_LIMIT: Duration = Duration::from_secs(5);
/// Time between two looks whether a program has ended, or can be started.
const LOOK: Duration = Duration::from_millis(5);

/// Runs the programs of a build, each for a limited time.
///
/// **Invariant:** a run that is stopped, or exceeds its time, leaves nothing behind: what the program has started ends
/// with it.
#[derive(Clone)]
pub struct Tools {
    stop: Stop,
    load_limit: Duration,
}

impl Default for Tools {
    fn default() -> Tools {
        Tools::new(&Stop::default(), Tools::LOAD_LIMIT)
    }
}

impl Tools {
    /// Longest time that loading the code of a project takes, unless another is given.
    pub const LOAD_LIMIT: Duration = Duration::from_secs(60);

    /// Creates a runner whose programs end when a stop is requested, or when loading the code of a project takes too
    /// long.
    pub fn new(stop: &Stop, load_limit: Duration) -> Tools {
        Tools { stop: stop.clone(), load_limit }
    }

    /// Runs a tool to its end. Returns what it prints.
    ///
    /// # Errors
    /// Fails with the program's messages if it fails, and if it does not end in time; with [`host::stop::Stopped`] if a
    /// stop is requested.
    pub(crate) fn run(&self, command: &mut Command) -> anyhow::Result<Vec<u8>> {
        let name = command.get_program().to_string_lossy().into_owned();
        self.run_within(command, TOOL_LIMIT)?.with_context(|| {
            format!("{name} has not ended after {} minutes, and was stopped", TOOL_LIMIT.as_secs() / 60)
        })
    }

    /// Runs a program that loads the code of the project.
    ///
    /// # Errors
    /// The same as those of [`Tools::run`].
    pub(crate) fn load(&self, command: &mut Command) -> anyhow::Result<Vec<u8>> {
        self.run_within(command, self.load_limit)?.with_context(|| {
            let limit = self.load_limit.as_secs_f64();
            format!("the project's code has not ended {limit} s after its start, and was stopped (--load-limit)")
        })
    }

    /// Runs a program. Returns nothing if it does not end in time.
    fn run_within(&self, command: &mut Command, limit: Duration) -> anyhow::Result<Option<Vec<u8>>> {
        let name = command.get_program().to_string_lossy().into_owned();
        let told = || format!("cannot run {name}");
        // A group of its own, so that all of it can be ended.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut running = Running { child: self.spawn(command, BUSY_LIMIT)?.with_context(told)?, is_over: false };
        let (stdout, stderr) = (reader(running.child.stdout.take()), reader(running.child.stderr.take()));
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = running.child.try_wait().with_context(told)?
                && stdout.is_finished()
                && stderr.is_finished()
            {
                running.is_over = true;
                break status;
            }
            if limit <= begun.elapsed() {
                return Ok(None);
            }
            self.stop.wait(LOOK)?;
        };
        let (stdout, stderr) = (read(stdout).with_context(told)?, read(stderr).with_context(told)?);
        if status.success() {
            return Ok(Some(stdout));
        }
        // Some compilers report errors on standard output.
        let messages = if stderr.is_empty() { &stdout } else { &stderr };
        let messages = String::from_utf8_lossy(messages);
        Err(Failed(format!("{name} failed ({status}):\n{}", messages.trim_end())).into())
    }

    /// Starts a program that may have just been written.
    ///
    /// A process that another thread is starting meanwhile holds a copy of the descriptor by which the file was written,
    /// until it executes its own program. Until then the kernel refuses to execute the file (ETXTBSY).
    fn spawn(&self, command: &mut Command, limit: Duration) -> Result<io::Result<Child>, host::stop::Stopped> {
        let begun = Instant::now();
        loop {
            let spawned = command.spawn();
            let is_busy = spawned.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ExecutableFileBusy);
            if !is_busy || limit <= begun.elapsed() {
                return Ok(spawned);
            }
            self.stop.wait(LOOK)?;
        }
    }
}

/// Error of a program that has ended by itself, with its messages.
#[derive(Debug)]
pub(crate) struct Failed(String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// Program that ends with the value, and all of its group.
struct Running {
    child: Child,
    /// The program has ended by itself.
    is_over: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<io::Result<Vec<u8>>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes)).map(|_| bytes)
    })
}

fn read(reader: JoinHandle<io::Result<Vec<u8>>>) -> io::Result<Vec<u8>> {
    reader.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// Makes a file executable.
pub(crate) fn make_executable(path: &Path) -> anyhow::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_executable_files_of_the_path() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("text"), "").expect("a file");
        std::fs::write(folder.path().join("program"), "").expect("a file");
        make_executable(&folder.path().join("program")).expect("a program");
        let path = std::env::join_paths([Path::new("/nowhere"), folder.path()]).expect("a path");
        assert_eq!(find_in(&path, "program"), Some(folder.path().join("program")));
        assert_eq!(find_in(&path, "text"), None);
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let tools = Tools::default();
        let mut shell = Command::new("sh");
        let error = tools.run(shell.args(["-c", "echo output; echo reason >&2; exit 3"])).expect_err("it fails");
        assert_eq!(error.to_string(), "sh failed (exit status: 3):\nreason");
        assert_eq!(tools.run(Command::new("sh").args(["-c", "echo output"])).expect("it runs"), b"output\n");
    }

    #[test]
    fn a_program_that_is_open_for_writing_is_started_once_it_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("program");
        std::fs::write(&program, "#!/bin/sh\necho output\n").expect("a file");
        make_executable(&program).expect("a program");
        let open = || std::fs::File::options().append(true).open(&program).expect("a file");
        let writer = open();
        let closes = std::thread::spawn(move || {
            std::thread::sleep(LOOK * 20);
            drop(writer);
        });
        let tools = Tools::default();
        assert_eq!(tools.run(&mut Command::new(&program)).expect("it runs"), b"output\n");
        closes.join().expect("it is closed");
        let _writer = open();
        let error = tools.spawn(&mut Command::new(&program), LOOK).expect("no stop").expect_err("it is open");
        assert_eq!(error.kind(), io::ErrorKind::ExecutableFileBusy);
    }

    /// Runs a shell that starts a program without end, and writes its number to a file. Returns the error, once that
    /// program is gone.
    fn endless(tools: &Tools) -> anyhow::Error {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("number");
        let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let error = tools.load(Command::new("sh").args(["-c", &script])).expect_err("it does not end");
        let number = std::fs::read_to_string(&file).expect("a number");
        let state = format!("/proc/{}/stat", number.trim());
        // A zombie waits for whoever has inherited it.
        let runs = || std::fs::read_to_string(&state).is_ok_and(|state| !state.contains(") Z "));
        for _ in 0..1_000 {
            if !runs() {
                return error;
            }
            std::thread::sleep(LOOK);
        }
        panic!("the program still runs");
    }

    #[test]
    fn a_program_that_does_not_end_is_stopped_with_what_it_has_started() {
        let error = endless(&Tools::new(&Stop::default(), Duration::from_secs(1)));
        let expected = "the project's code has not ended 1 s after its start, and was stopped (--load-limit)";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_request_to_stop_ends_a_program() {
        let stop = Stop::default();
        let later = stop.clone();
        let begun = Instant::now();
        let requests = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(1));
            later.request_now();
        });
        let error = endless(&Tools::new(&stop, Tools::LOAD_LIMIT));
        assert!(error.is::<host::stop::Stopped>(), "{error}");
        assert!(begun.elapsed() < Tools::LOAD_LIMIT / 2);
        requests.join().expect("a request");
    }
}
