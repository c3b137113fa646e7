//! The levels `process`, `container`, `gvisor` and `vm`.

use crate::elf::{self, ExecutableKind};
use crate::instance::{self, WorkerInstance};
use crate::spawner::{Executable, MachineOrder, Order, Places, Spawner};
use crate::system::{self, Exit};
use procs::ends;
use procs::{Artifact, Availability, Channel, Instance, Level, Limits, Program, Runtime, Tenant};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use procs_vm::Image;
use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
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
    /// Greatest number of workers of one tenant.
    pub tenant_max: usize,
    /// Greatest number of workers.
    pub server_max: usize,
    /// Greatest time from the start of a worker until it is ready.
    pub start_max: Duration,
}

impl Default for WorkerConfig {
    fn default() -> WorkerConfig {
        WorkerConfig { tenant_max: 64, server_max: 512, start_max: Duration::from_secs(10) }
    }
}

/// Common parts of the levels.
#[derive(Debug)]
struct WorkerShared {
    spawner: Spawner,
    places: Arc<Places>,
    start_max: Duration,
}

/// Level that runs code in processes.
#[derive(Debug)]
struct WorkerRuntime {
    level: Level,
    shared: Arc<WorkerShared>,
    availability: Availability,
    /// Monitor and device of the level `vm`.
    machines: Option<Arc<Machines>>,
}

/// Monitor of machines, and the device that makes them.
#[derive(Debug)]
struct Machines {
    monitor: Arc<Executable>,
    kvm: Arc<File>,
}

/// Loaded executable.
#[derive(Debug)]
struct WorkerProgram {
    level: Level,
    shared: Arc<WorkerShared>,
    executable: Arc<Executable>,
    machines: Option<Arc<Machines>>,
}

/// Creates the levels `process`, `container`, `gvisor` and `vm`. Runs an executable that does nothing at each, to see whether
/// the machine has it.
///
/// # Errors
/// Those of the system if the thread that creates workers cannot start.
pub fn runtimes(config: WorkerConfig) -> io::Result<Vec<Arc<dyn Runtime>>> {
    let places = Arc::new(Places::new(config.tenant_max, config.server_max));
    let shared = Arc::new(WorkerShared { spawner: Spawner::start()?, places, start_max: config.start_max });
    let levels = [Level::Process, Level::Container, Level::Gvisor, Level::Vm].into_iter().map(|level| {
        let (availability, machines) = match shared.probe(level) {
            Ok(machines) => (Availability::Ready, machines),
            Err(reason) => (Availability::Missing(reason), None),
        };
        Arc::new(WorkerRuntime { level, shared: Arc::clone(&shared), availability, machines }) as Arc<dyn Runtime>
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
    let mut file = system::memory_file(c"overtake-worker", true).map_err(failed)?;
    for part in bytes.chunks(COPY_BYTES) {
        pulse::copies(part.len())?;
        file.write_all(part).map_err(failed)?;
    }
    system::seal(&file, true).map_err(failed)?;
    Ok(Executable { file, kind, len: bytes.len() as u64 })
}

impl Machines {
    /// Opens the device, and copies the monitor into memory.
    fn new() -> Result<Machines, String> {
        const DEVICE: &str = "/dev/kvm";
        if procs_vm::MONITOR.is_empty() {
            return Err("virtual machines are for Linux on x86-64".to_owned());
        }
        let opened = File::options().read(true).write(true).open(DEVICE);
        let kvm = opened.map_err(|error| format!("{DEVICE} cannot be opened: {error}"))?;
        let monitor = copied(procs_vm::MONITOR).map_err(|error| error.message().to_owned())?;
        Ok(Machines { monitor: Arc::new(monitor), kvm: Arc::new(kvm) })
    }

    /// Returns the executable of a worker that runs an image, and the machine for it.
    fn order(&self, image: &Arc<Executable>) -> (Arc<Executable>, MachineOrder) {
        let machine = MachineOrder { image: Arc::clone(image), kvm: Arc::clone(&self.kvm) };
        (Arc::clone(&self.monitor), machine)
    }
}

impl WorkerShared {
    /// Tries a level. Returns the reason if it cannot be had.
    fn probe(&self, level: Level) -> Result<Option<Arc<Machines>>, String> {
        let machines = match level {
            Level::Process | Level::Container => None,
            Level::Gvisor => return Err(gvisor()),
            Level::Vm => Some(Arc::new(Machines::new()?)),
            Level::Native | Level::Wasm => return Err("it is not part of this runtime".to_owned()),
        };
        let reason = |reason: String| match level {
            Level::Vm => format!("{reason}; KVM here is by {}", procs_vm::hypervisor()),
            _ => reason,
        };
        self.probe_with(level, machines.as_deref()).map(|()| machines).map_err(reason)
    }

    /// Runs an executable that does nothing.
    fn probe_with(&self, level: Level, machines: Option<&Machines>) -> Result<(), String> {
        let told = |error: SqlError| error.message().to_owned();
        let executable = Arc::new(copied(&elf::nothing()).map_err(told)?);
        let place = self.places.take(Tenant(0)).map_err(told)?;
        let (mut reader, output) = instance::pipe().map_err(told)?;
        let channel = instance::prepare(Channel::UnixSocket).map_err(told)?.map(|(_, worker)| worker);
        let (executable, machine) = ordered(&executable, machines);
        let order = Order {
            executable,
            machine,
            is_container: is_confined(level),
            channel_name: Channel::UnixSocket.name(),
            channel: channel.ok_or("there is no socket")?,
            output,
            memory: Limits::default().memory,
            place,
        };
        let worker = self.spawner.create(order).map_err(told)?.map_err(|error| error.to_string())?;
        let begin = Instant::now();
        loop {
            match worker.exit() {
                Some(Exit::Status(0)) => return Ok(()),
                Some(exit) => {
                    let mut said = String::new();
                    // What there is, as the other end may be open still.
                    let _ = reader.read_to_string(&mut said);
                    let said = if said.is_empty() { format!("{exit:?}") } else { said.trim().to_owned() };
                    return Err(format!("code that does nothing ended with: {said}"));
                }
                None if PROBE_MAX < begin.elapsed() => return Err("code that does nothing did not end".to_owned()),
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

/// Returns true if the worker of a level is a container.
fn is_confined(level: Level) -> bool {
    match level {
        Level::Native | Level::Wasm | Level::Process => false,
        Level::Container | Level::Gvisor | Level::Vm => true,
    }
}

/// Returns what a worker executes: the code, or the monitor of a machine for it.
fn ordered(code: &Arc<Executable>, machines: Option<&Machines>) -> (Arc<Executable>, Option<MachineOrder>) {
    match machines {
        None => (Arc::clone(code), None),
        Some(machines) => {
            let (monitor, machine) = machines.order(code);
            (monitor, Some(machine))
        }
    }
}

/// Returns the reason for which gVisor cannot be had.
fn gvisor() -> String {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_found = env::split_paths(&path).any(|folder| Path::new(&folder).join("runsc").is_file());
    match is_found {
        true => "this server does not run containers of gVisor".to_owned(),
        false => "runsc was not found in PATH".to_owned(),
    }
}

impl Runtime for WorkerRuntime {
    fn level(&self) -> Level {
        self.level
    }

    fn availability(&self) -> Availability {
        self.availability.clone()
    }

    fn load(&self, artifact: &Artifact) -> SqlResult<Arc<dyn Program>> {
        if let Availability::Missing(reason) = &self.availability {
            let what = format!("isolation level \"{}\" on this machine", self.level);
            return Err(SqlError::unsupported(what).detail(reason.clone()));
        }
        if artifact.kind() != self.level.artifact() {
            return Err(ends::not_loadable("it is no artifact of this level"));
        }
        if self.level == Level::Vm {
            Image::read(artifact.bytes()).map_err(ends::not_loadable)?;
        }
        let executable = Arc::new(copied(artifact.bytes())?);
        let (shared, machines) = (Arc::clone(&self.shared), self.machines.clone());
        Ok(Arc::new(WorkerProgram { level: self.level, shared, executable, machines }))
    }
}

impl Program for WorkerProgram {
    fn open(&self, tenant: Tenant, channel: Channel, limits: &Limits) -> SqlResult<Box<dyn Instance>> {
        let place = self.shared.places.take(tenant)?;
        let (host, worker) = instance::prepare(channel)?.ok_or_else(|| {
            SqlError::unsupported(format!("channel \"{channel}\" of isolation level \"{}\"", self.level))
        })?;
        let (pipe, output) = instance::pipe()?;
        let (executable, machine) = ordered(&self.executable, self.machines.as_deref());
        let order = Order {
            executable,
            machine,
            is_container: is_confined(self.level),
            channel_name: channel.name(),
            channel: worker,
            output,
            memory: limits.memory,
            place,
        };
        let (spawner, start_max) = (&self.shared.spawner, self.shared.start_max);
        Ok(Box::new(WorkerInstance::open(spawner, order, host, pipe, limits, start_max)?))
    }
}
