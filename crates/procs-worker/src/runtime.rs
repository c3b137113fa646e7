//! The levels `process`, `container` and `gvisor`.

use crate::elf::{self, ExecutableKind};
use crate::instance::{self, WorkerInstance};
use crate::spawner::{Executable, Order, Places, Spawner};
use crate::system::{self, Exit};
use procs::ends;
use procs::{Artifact, ArtifactKind, Availability, Channel, Instance, Level, Limits, Program, Runtime, Tenant};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::env;
use std::io::{self, Write};
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
}

/// Loaded executable.
#[derive(Debug)]
struct WorkerProgram {
    level: Level,
    shared: Arc<WorkerShared>,
    executable: Arc<Executable>,
}

/// Creates the levels `process`, `container` and `gvisor`. Runs an executable that does nothing at each, to see whether
/// the machine has it.
///
/// # Errors
/// Those of the system if the thread that creates workers cannot start.
pub fn runtimes(config: WorkerConfig) -> io::Result<Vec<Arc<dyn Runtime>>> {
    let places = Arc::new(Places::new(config.tenant_max, config.server_max));
    let shared = Arc::new(WorkerShared { spawner: Spawner::start()?, places, start_max: config.start_max });
    let levels = [Level::Process, Level::Container, Level::Gvisor].into_iter().map(|level| {
        let availability = shared.probe(level).map_or_else(Availability::Missing, |()| Availability::Ready);
        Arc::new(WorkerRuntime { level, shared: Arc::clone(&shared), availability }) as Arc<dyn Runtime>
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

impl WorkerShared {
    /// Tries a level. Returns the reason if it cannot be had.
    fn probe(&self, level: Level) -> Result<(), String> {
        match level {
            Level::Process | Level::Container => {}
            Level::Gvisor => return Err(gvisor()),
            Level::Native | Level::Wasm | Level::Vm => return Err("it is not part of this runtime".to_owned()),
        }
        let told = |error: SqlError| error.message().to_owned();
        let executable = Arc::new(copied(&elf::nothing()).map_err(told)?);
        let place = self.places.take(Tenant(0)).map_err(told)?;
        let (_reader, output) = instance::pipe().map_err(told)?;
        let channel = instance::prepare(Channel::UnixSocket).map_err(told)?.map(|(_, worker)| worker);
        let order = Order {
            executable,
            is_container: level == Level::Container,
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
                Some(exit) => return Err(format!("a process that does nothing ended with {exit:?}")),
                None if PROBE_MAX < begin.elapsed() => return Err("a process that does nothing did not end".to_owned()),
                None => thread::sleep(Duration::from_millis(1)),
            }
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
        if artifact.kind() != ArtifactKind::Exec {
            return Err(ends::not_loadable("it is no executable"));
        }
        let executable = Arc::new(copied(artifact.bytes())?);
        Ok(Arc::new(WorkerProgram { level: self.level, shared: Arc::clone(&self.shared), executable }))
    }
}

impl Program for WorkerProgram {
    fn open(&self, tenant: Tenant, channel: Channel, limits: &Limits) -> SqlResult<Box<dyn Instance>> {
        let place = self.shared.places.take(tenant)?;
        let (host, worker) = instance::prepare(channel)?.ok_or_else(|| {
            SqlError::unsupported(format!("channel \"{channel}\" of isolation level \"{}\"", self.level))
        })?;
        let (pipe, output) = instance::pipe()?;
        let order = Order {
            executable: Arc::clone(&self.executable),
            is_container: self.level == Level::Container,
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
