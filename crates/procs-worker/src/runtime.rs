//! The levels `process`, `container`, `gvisor` and `vm`.

use crate::channel::HostChannel;
use crate::elf::{self, ExecutableKind};
use crate::gvisor::{Runsc, SandboxRoot};
use crate::instance::{self, WorkerInstance};
use crate::spawner::{self, Executable, MachineOrder, Order, Spawner};
use crate::system::{self, Exit};
use procs::ends;
use procs::{
    Artifact, Availability, Channel, CodeTenant, Instance, InstanceKind, Level, Limits, Program, Runtime, Tenant,
};
use procs_vm::Image;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Greatest length of an executable in bytes.
const EXECUTABLE_MAX: usize = 256 << 20;
/// Bytes of an executable that are copied between two looks.
const COPY_BYTES: usize = 1 << 20;
/// Time in which the executable of a probe must end.
const PROBE_MAX: Duration = Duration::from_secs(5);

/// Limits of the levels.
#[derive(Clone, Copy, Debug)]
pub struct WorkerConfig {
    /// Greatest time from the start of a worker until it is ready.
    pub start_max: Duration,
}

impl Default for WorkerConfig {
    fn default() -> WorkerConfig {
        WorkerConfig { start_max: Duration::from_secs(10) }
    }
}

/// Common parts of the levels.
#[derive(Debug)]
struct WorkerShared {
    spawner: Spawner,
    start_max: Duration,
}

/// Level that runs code in processes.
#[derive(Debug)]
struct WorkerRuntime {
    level: Level,
    shared: Arc<WorkerShared>,
    availability: Availability,
    means: Means,
}

/// Parts of a level that its workers need.
#[derive(Clone, Debug)]
enum Means {
    /// Nothing but the executable.
    Own,
    /// Monitor and device of machines.
    Machines { monitor: Arc<Executable>, kvm: Arc<File> },
    /// `runsc`, as a file and as an executable.
    Sandboxes { runsc: Arc<Runsc>, executable: Arc<Executable> },
}

/// Loaded executable.
#[derive(Debug)]
struct WorkerProgram {
    level: Level,
    shared: Arc<WorkerShared>,
    executable: Arc<Executable>,
    means: Means,
    /// Files of its sandboxes.
    root: Option<SandboxRoot>,
}

/// Creates the levels `process`, `container`, `gvisor` and `vm`. Runs an executable that does nothing at each, to see whether
/// the machine has it.
///
/// # Errors
/// Those of the system if the thread that creates workers cannot start.
pub fn runtimes(config: WorkerConfig) -> io::Result<Vec<Arc<dyn Runtime>>> {
    let shared = Arc::new(WorkerShared { spawner: Spawner::start()?, start_max: config.start_max });
    let levels = [Level::Process, Level::Container, Level::Gvisor, Level::Vm].into_iter().map(|level| {
        let (availability, means) = match WorkerShared::probe(&shared, level) {
            Ok(means) => (Availability::Ready, means),
            Err(reason) => (Availability::Missing(reason), Means::Own),
        };
        Arc::new(WorkerRuntime { level, shared: Arc::clone(&shared), availability, means }) as Arc<dyn Runtime>
    });
    Ok(levels.collect())
}

/// Copies an executable into memory where nobody can change it.
fn copied(bytes: &[u8]) -> SqlResult<Executable> {
    let kind = ExecutableKind::of(bytes).map_err(ends::not_loadable)?;
    if EXECUTABLE_MAX < bytes.len() {
        let message = format!("an executable exceeds {} MB", EXECUTABLE_MAX >> 20);
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let failed = |error: io::Error| {
        SqlError::new(SqlState::INSUFFICIENT_RESOURCES, format!("an executable cannot be copied into memory: {error}"))
    };
    let mut file = system::memory_file(c"overtake-worker").map_err(failed)?;
    for part in bytes.chunks(COPY_BYTES) {
        pulse::copies(part.len())?;
        file.write_all(part).map_err(failed)?;
    }
    system::seal(&file).map_err(failed)?;
    Ok(Executable { file, kind, len: bytes.len() as u64 })
}

impl Means {
    /// Finds what a level needs.
    ///
    /// # Errors
    /// The reason if the machine lacks it.
    fn find(level: Level, has_groups: bool) -> Result<Means, String> {
        match level {
            Level::Process | Level::Container => Ok(Means::Own),
            Level::Gvisor => {
                let runsc = Runsc::find()?;
                if !has_groups {
                    return Err("the memory of a sandbox cannot be limited without control groups".to_owned());
                }
                let file = runsc.file.try_clone().map_err(|error| error.to_string())?;
                let len = file.metadata().map_err(|error| error.to_string())?.len();
                let executable = Arc::new(Executable { file, kind: ExecutableKind::Static, len });
                Ok(Means::Sandboxes { runsc: Arc::new(runsc), executable })
            }
            Level::Vm => {
                const DEVICE: &str = "/dev/kvm";
                if procs_vm::MONITOR.is_empty() {
                    return Err("virtual machines are for Linux on x86-64".to_owned());
                }
                let opened = File::options().read(true).write(true).open(DEVICE);
                let kvm = opened.map_err(|error| format!("{DEVICE} cannot be opened: {error}"))?;
                let monitor = copied(procs_vm::MONITOR).map_err(|error| error.message().to_owned())?;
                Ok(Means::Machines { monitor: Arc::new(monitor), kvm: Arc::new(kvm) })
            }
            Level::Native | Level::Wasm => Err("it is not part of this runtime".to_owned()),
        }
    }

    fn has_own_kernel(&self) -> bool {
        match self {
            Means::Own | Means::Machines { .. } => false,
            Means::Sandboxes { .. } => true,
        }
    }
}

impl WorkerShared {
    /// Tries a level. Returns what its workers need, or the reason if it cannot be had.
    fn probe(shared: &Arc<WorkerShared>, level: Level) -> Result<Means, String> {
        let means = Means::find(level, shared.spawner.has_groups)?;
        let reason = |reason: String| match level {
            Level::Vm => format!("{reason} ({})", procs_vm::hypervisor()),
            _ => reason,
        };
        let told = |error: SqlError| error.message().to_owned();
        let program = WorkerProgram::new(level, shared, &means, &elf::nothing()).map_err(told)?;
        program.probe().map(|()| means).map_err(reason)
    }
}

impl WorkerProgram {
    fn new(level: Level, shared: &Arc<WorkerShared>, means: &Means, code: &[u8]) -> SqlResult<WorkerProgram> {
        let executable = Arc::new(copied(code)?);
        let root = match means {
            Means::Own | Means::Machines { .. } => None,
            Means::Sandboxes { .. } if executable.kind != ExecutableKind::Static => {
                return Err(ends::not_loadable(
                    "a sandbox of gVisor has no libraries, so the executable must be static",
                ));
            }
            Means::Sandboxes { runsc, .. } => Some(runsc.root(code).map_err(|error| instance::not_created(&error))?),
        };
        Ok(WorkerProgram { level, shared: Arc::clone(shared), executable, means: means.clone(), root })
    }

    /// Returns the order for a worker, and what the host has of it.
    fn order(&self, tenant: &CodeTenant, channel: Channel, memory: u64) -> SqlResult<(Order, HostChannel, PipeReader)> {
        let (is_machine, is_sandbox) = match self.means {
            Means::Own => (false, false),
            Means::Machines { .. } => (true, false),
            Means::Sandboxes { .. } => (false, true),
        };
        let allowed = spawner::allowed_memory(memory, is_machine, is_sandbox);
        let share = tenant.take(InstanceKind::Worker, allowed)?;
        let (host, worker, doorbell) = instance::prepare(channel, self.means.has_own_kernel())?.ok_or_else(|| {
            SqlError::unsupported(format!("channel \"{channel}\" of isolation level \"{}\"", self.level))
        })?;
        let (pipe, output) = instance::pipe()?;
        let (mut machine, mut sandbox) = (None, None);
        let executable = match (&self.means, &self.root) {
            (Means::Machines { monitor, kvm }, _) => {
                machine = Some(MachineOrder { image: Arc::clone(&self.executable), kvm: Arc::clone(kvm) });
                monitor
            }
            (Means::Sandboxes { runsc, executable }, Some(root)) => {
                let order = runsc.order(root, channel.name(), memory, doorbell.is_some());
                sandbox = Some(order.map_err(|error| instance::not_created(&error))?);
                executable
            }
            (Means::Own | Means::Sandboxes { .. }, _) => &self.executable,
        };
        let order = Order {
            executable: Arc::clone(executable),
            machine,
            sandbox,
            doorbell,
            is_container: match self.level {
                Level::Container | Level::Vm => true,
                Level::Native | Level::Wasm | Level::Process | Level::Gvisor => false,
            },
            channel_name: channel.name(),
            channel: worker,
            output,
            memory,
            share,
            activity: Arc::default(),
        };
        Ok((order, host, pipe))
    }

    /// Runs an executable that ends at once.
    fn probe(&self) -> Result<(), String> {
        let told = |error: SqlError| error.message().to_owned();
        let (order, _host, mut pipe) =
            self.order(&CodeTenant::alone(Tenant(0)), Channel::UnixSocket, Limits::default().memory).map_err(told)?;
        let worker = self.shared.spawner.create(order).map_err(told)?.map_err(|error| error.to_string())?;
        let begin = Instant::now();
        loop {
            match worker.exit() {
                Some(Exit::Status(0)) => return Ok(()),
                Some(exit) => {
                    let mut said = String::new();
                    // What there is, as the other end may be open still.
                    let _ = pipe.read_to_string(&mut said);
                    let said = if said.is_empty() { format!("{exit:?}") } else { said.trim().to_owned() };
                    return Err(format!("code that does nothing ended with: {said}"));
                }
                None if PROBE_MAX < begin.elapsed() => return Err("code that does nothing did not end".to_owned()),
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

impl Runtime for WorkerRuntime {
    fn level(&self) -> Level {
        self.level
    }

    fn availability(&self) -> Availability {
        self.availability.clone()
    }

    fn means(&self) -> Option<&str> {
        match self.means {
            Means::Own => None,
            Means::Machines { .. } => Some(procs_vm::hypervisor()),
            Means::Sandboxes { .. } => Some("runsc, platform systrap"),
        }
    }

    fn load(&self, artifact: &Artifact, _tenant: &CodeTenant) -> SqlResult<Arc<dyn Program>> {
        if let Availability::Missing(reason) = &self.availability {
            return Err(procs::missing_level(self.level, reason));
        }
        if artifact.kind() != self.level.artifact() {
            return Err(ends::not_loadable("it is no artifact of this level"));
        }
        if self.level == Level::Vm {
            Image::read(artifact.bytes()).map_err(ends::not_loadable)?;
        }
        Ok(Arc::new(WorkerProgram::new(self.level, &self.shared, &self.means, artifact.bytes())?))
    }
}

impl Program for WorkerProgram {
    fn open(&self, tenant: &CodeTenant, channel: Channel, limits: &Limits) -> SqlResult<Box<dyn Instance>> {
        let (order, host, pipe) = self.order(tenant, channel, limits.memory)?;
        let (spawner, start_max) = (&self.shared.spawner, self.shared.start_max);
        Ok(Box::new(WorkerInstance::open(spawner, order, host, pipe, limits, start_max)?))
    }
}
