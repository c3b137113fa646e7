//! Thread that creates workers and reaps them.
//!
//! It is the parent of all of them: the kernel ends a worker with the thread that has created it, so that must be one
//! that lives as long as the server. It is also the only one that is suspended while a child is on its way.
//!
//! **Invariant:** a worker that was created is killed and reaped, whatever becomes of its instance, and its place is
//! free afterwards.

use crate::cgroup::{self, Group, Groups};
use crate::child::{self, COPIES_FROM, ChildPlan, ChildStack, ContainerPlan, NOBODY};
use crate::confine::{self, Start};
use crate::container::Root;
use crate::elf::ExecutableKind;
use crate::seccomp;
use crate::system::{self, Exit};
use locked::{Locked, LockedResult};
use procs::Tenant;
use procs::abi::CHANNEL_VARIABLE;
use procs::ends;
use statement::error::SqlResult;
use statement::pulse;
use std::collections::HashMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two looks at workers that are about to end.
const REAP: Duration = Duration::from_millis(1);
/// Time in which a place becomes free, if workers are about to end.
const PLACE_WAIT: Duration = Duration::from_millis(200);
/// Time between two looks while somebody waits for a place.
const PLACE_LOOK: Duration = Duration::from_millis(5);
/// Bytes of a worker's group besides its memory and its executable.
const GROUP_BYTES: u64 = 4 << 20;
/// Greatest file that a worker outside of a container may write, in bytes.
const FILE_MAX: u64 = 64 << 20;

/// Executable in memory.
#[derive(Debug)]
pub(crate) struct Executable {
    pub(crate) file: File,
    pub(crate) kind: ExecutableKind,
    pub(crate) len: u64,
}

/// Order to create a worker.
pub(crate) struct Order {
    pub(crate) executable: Arc<Executable>,
    pub(crate) is_container: bool,
    /// Value of the variable with the channel, without the descriptor.
    pub(crate) channel_name: &'static str,
    pub(crate) channel: OwnedFd,
    pub(crate) output: OwnedFd,
    /// Greatest memory in bytes.
    pub(crate) memory: u64,
    pub(crate) place: Place,
}

enum Message {
    Create(Box<Order>, Sender<io::Result<WorkerProcess>>),
    End(WorkerProcess, Duration),
}

/// Number of workers of each tenant.
#[derive(Debug, Default)]
struct Counts {
    tenants: HashMap<Tenant, usize>,
    all: usize,
    /// Workers whose instance is gone.
    ending: usize,
}

/// Places for workers.
#[derive(Debug)]
pub(crate) struct Places {
    counts: Mutex<Counts>,
    changed: Condvar,
    tenant_max: usize,
    server_max: usize,
}

/// Place of one worker.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    tenant: Tenant,
    is_ending: bool,
}

impl Places {
    pub(crate) fn new(tenant_max: usize, server_max: usize) -> Places {
        Places { counts: Mutex::default(), changed: Condvar::new(), tenant_max, server_max }
    }

    /// Returns a place for a worker of a tenant.
    ///
    /// # Errors
    /// `53000` if there is none; those of the statement's pulse.
    pub(crate) fn take(self: &Arc<Places>, tenant: Tenant) -> SqlResult<Place> {
        let begin = Instant::now();
        let mut counts = self.counts.locked_anyway();
        loop {
            let of_tenant = counts.tenants.get(&tenant).copied().unwrap_or(0);
            let refused = if self.tenant_max <= of_tenant {
                ends::exhausted("workers of one role", self.tenant_max)
            } else if self.server_max <= counts.all {
                ends::exhausted("workers of stored code", self.server_max)
            } else {
                counts.all += 1;
                *counts.tenants.entry(tenant).or_default() += 1;
                return Ok(Place { places: Arc::clone(self), tenant, is_ending: false });
            };
            if counts.ending == 0 || PLACE_WAIT < begin.elapsed() {
                return Err(refused);
            }
            counts = self.changed.wait_timeout(counts, PLACE_LOOK).anyway().0;
            pulse::look()?;
        }
    }
}

impl Place {
    /// Notes that the worker's instance is gone.
    fn end(&mut self) {
        self.is_ending = true;
        self.places.counts.locked_anyway().ending += 1;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.places.counts.locked_anyway();
        counts.all -= 1;
        counts.ending -= usize::from(self.is_ending);
        if let Some(count) = counts.tenants.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                counts.tenants.remove(&self.tenant);
            }
        }
        self.places.changed.notify_all();
    }
}

/// Process of a worker, and what belongs to it.
#[derive(Debug)]
struct WorkerProcess {
    pid: i32,
    descriptor: OwnedFd,
    group: Option<Group>,
    place: Place,
}

/// Process of an instance. It is killed and reaped when the value is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    process: Option<WorkerProcess>,
    spawner: Spawner,
    /// Time in which the process may end by itself.
    pub(crate) grace: Duration,
}

impl Worker {
    /// Returns the end of the process, if it has ended.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.process.as_ref().and_then(|process| system::exit_of(&process.descriptor, false).ok().flatten())
    }

    /// Number of processors on which the process or this thread may run.
    pub(crate) fn processors(&self) -> usize {
        self.process.as_ref().map_or(1, |process| system::processors_with(process.pid))
    }

    /// Returns true if the kernel has killed the process for its memory.
    pub(crate) fn was_out_of_memory(&self) -> bool {
        let group = self.process.as_ref().and_then(|process| process.group.as_ref());
        group.is_some_and(Group::was_out_of_memory)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.place.end();
            // The thread ends after the last sender.
            let _ = self.spawner.orders.send(Message::End(process, self.grace));
        }
    }
}

/// Handle of the thread.
#[derive(Clone, Debug)]
pub(crate) struct Spawner {
    orders: Sender<Message>,
}

impl Spawner {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Spawner> {
        let (sender, receiver) = mpsc::channel();
        let state =
            SpawnerThread { stack: ChildStack::new()?, groups: Groups::find(), ending: Vec::new(), left: Vec::new() };
        thread::Builder::new().name("procs-workers".to_owned()).spawn(move || state.run(&receiver))?;
        Ok(Spawner { orders: sender })
    }

    /// Creates a worker, and waits until its executable runs.
    ///
    /// # Errors
    /// Those of the statement's pulse; the outer one. Those of the kernel; the inner one.
    pub(crate) fn create(&self, order: Order) -> SqlResult<io::Result<Worker>> {
        let (sender, receiver) = mpsc::channel();
        let gone = || io::Error::other("the thread of workers has ended");
        if self.orders.send(Message::Create(Box::new(order), sender)).is_err() {
            return Ok(Err(gone()));
        }
        // Whatever a look says, the worker that is on its way has to be taken and ended.
        let mut looked = Ok(());
        loop {
            match receiver.recv_timeout(PLACE_LOOK) {
                Ok(created) => {
                    let spawner = self.clone();
                    let wrap = |process| Worker { process: Some(process), spawner, grace: Duration::ZERO };
                    let worker = created.map(wrap);
                    looked?;
                    return Ok(worker);
                }
                Err(RecvTimeoutError::Timeout) => looked = looked.and_then(|()| pulse::look()),
                Err(RecvTimeoutError::Disconnected) => return Ok(Err(gone())),
            }
        }
    }
}

/// State of the thread.
struct SpawnerThread {
    stack: ChildStack,
    groups: Option<Groups>,
    ending: Vec<(WorkerProcess, Option<Instant>)>,
    /// Groups that were busy when their process had ended.
    left: Vec<Group>,
}

impl SpawnerThread {
    fn run(mut self, orders: &Receiver<Message>) {
        loop {
            let is_idle = self.ending.is_empty() && self.left.is_empty();
            let received = match is_idle {
                true => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => orders.recv_timeout(REAP),
            };
            match received {
                Ok(Message::Create(order, reply)) => {
                    // The other side waits for the answer in any case.
                    let _ = reply.send(self.create(*order));
                }
                Ok(Message::End(process, grace)) => self.end(process, grace),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if is_idle => return,
                Err(RecvTimeoutError::Disconnected) => thread::sleep(REAP),
            }
            self.reap();
        }
    }

    fn end(&mut self, process: WorkerProcess, grace: Duration) {
        let kills_at = (!grace.is_zero()).then(|| Instant::now() + grace);
        if kills_at.is_none() {
            process.kill();
        }
        self.ending.push((process, kills_at));
    }

    /// Kills workers whose grace is over, and reaps those that have ended.
    fn reap(&mut self) {
        for (process, kills_at) in mem::take(&mut self.ending) {
            match (process.exit_reaped(), kills_at) {
                (true, _) => {
                    let WorkerProcess { group, place, .. } = process;
                    self.left.extend(group);
                    drop(place);
                }
                (false, Some(at)) if at <= Instant::now() => {
                    process.kill();
                    self.ending.push((process, None));
                }
                (false, kills_at) => self.ending.push((process, kills_at)),
            }
        }
        // A group may be busy for a moment after its last process has been reaped.
        self.left.retain(|group| group.remove().is_err());
    }

    fn create(&mut self, order: Order) -> io::Result<WorkerProcess> {
        let memory = order.memory.saturating_add(order.executable.len + GROUP_BYTES);
        let group = self.groups.as_ref().map(|groups| groups.create(memory)).transpose()?;
        match self.create_in(&order, group.as_ref()) {
            Ok((pid, descriptor)) => Ok(WorkerProcess { pid, descriptor, group, place: order.place }),
            Err(error) => {
                self.left.extend(group);
                Err(error)
            }
        }
    }

    fn create_in(&mut self, order: &Order, group: Option<&Group>) -> io::Result<(i32, OwnedFd)> {
        let null = File::open("/dev/null")?;
        let copy = |file: &dyn AsRawFd| system::copy_above(file.as_raw_fd(), COPIES_FROM);
        let (input, output) = (copy(&null)?, copy(&order.output)?);
        let (channel, program) = (copy(&order.channel)?, copy(&order.executable.file)?);
        let program = program.as_raw_fd();
        let start = match (order.is_container, order.executable.kind) {
            (true, _) => Start::Copied(program, order.executable.len),
            (false, ExecutableKind::Script) => Start::Script(program),
            (false, ExecutableKind::Static | ExecutableKind::Dynamic) => Start::Descriptor(program),
        };
        let plan = ChildPlan {
            start,
            input: input.as_raw_fd(),
            output: output.as_raw_fd(),
            channel: channel.as_raw_fd(),
            limits: limits(order, group.is_some()),
            environment: environment(order.channel_name),
            container: order.is_container.then(|| ContainerPlan {
                root: Root::of(order.executable.kind, order.executable.len),
                filter: seccomp::filter(),
                is_root: system::user().0 == 0,
                landlock: confine::landlock_version(),
            }),
            stage: AtomicU32::new(child::STAGE_NEW),
            process: AtomicI32::new(-1),
            failure: AtomicU64::new(0),
        };
        if !order.is_container {
            let (pid, descriptor) = child::create(&plan, &mut self.stack)?;
            if let Some(Err(error)) = group.map(|group| group.add(pid)) {
                // One that has ended at once cannot be added, and need not be.
                if matches!(system::exit_of(&descriptor, false), Ok(None)) {
                    child::reap(&descriptor);
                    return Err(error);
                }
            }
            return Ok((pid, descriptor));
        }
        thread::scope(|scope| {
            let mapper = thread::Builder::new().name("procs-users".to_owned());
            let mapper = mapper.spawn_scoped(scope, || admit(&plan, group))?;
            let created = child::create(&plan, &mut self.stack);
            // Ends the other thread if there was no child.
            plan.stage.store(child::STAGE_ENDS, SeqCst);
            system::futex_wake(&plan.stage);
            // A child that was not admitted has failed as well, but does not know why.
            match (mapper.join(), created) {
                (Ok(Err(reason)), Err(_)) => Err(reason),
                (_, created) => created,
            }
        })
    }
}

impl WorkerProcess {
    /// Kills the process, and those that it has started and not put into another session.
    fn kill(&self) {
        system::kill_group(self.pid);
        system::kill(&self.descriptor);
    }

    /// Reaps the process, if it has ended. Its number is taken until then, so its group is no other one.
    fn exit_reaped(&self) -> bool {
        if !matches!(system::exit_of(&self.descriptor, false), Ok(None)) {
            system::kill_group(self.pid);
        }
        !matches!(system::exit_of(&self.descriptor, true), Ok(None))
    }
}

/// Waits until the child waits; then maps its users, puts it into its group, and lets it go on.
fn admit(plan: &ChildPlan, group: Option<&Group>) -> io::Result<()> {
    let stage = &plan.stage;
    while stage.load(SeqCst) == child::STAGE_NEW {
        system::futex_wait(stage, child::STAGE_NEW, Duration::from_secs(1));
    }
    if stage.load(SeqCst) != child::STAGE_WAITS {
        return Ok(());
    }
    let is_admitted = number_of(plan.process.load(SeqCst)).and_then(|process| {
        map_users(process)?;
        group.map_or(Ok(()), |group| group.add(process))
    });
    stage.store(if is_admitted.is_ok() { child::STAGE_MAPPED } else { child::STAGE_ENDS }, SeqCst);
    system::futex_wake(stage);
    is_admitted
}

/// Returns the number of the process with this descriptor.
fn number_of(descriptor: i32) -> io::Result<i32> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}"))?;
    let number = text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok());
    number.ok_or_else(|| io::Error::other("the process has ended"))
}

/// Maps the user of a container: to `nobody` if the server is root's, else to the server's.
fn map_users(process: i32) -> io::Result<()> {
    let (user, group) = system::user();
    let is_root = user == 0;
    let (user, group) = if is_root { (NOBODY, NOBODY) } else { (user, group) };
    if !is_root {
        // Required of a group's map that is not written by root.
        fs::write(format!("/proc/{process}/setgroups"), "deny")?;
    }
    fs::write(format!("/proc/{process}/gid_map"), format!("{NOBODY} {group} 1"))?;
    fs::write(format!("/proc/{process}/uid_map"), format!("{NOBODY} {user} 1"))
}

fn environment(channel_name: &str) -> Vec<CString> {
    let channel = format!("{CHANNEL_VARIABLE}={channel_name}:{}", child::CHANNEL_FD);
    let all = [channel.as_str(), "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"];
    all.into_iter().filter_map(|one| CString::new(one).ok()).collect()
}

/// Returns the limits of a worker.
fn limits(order: &Order, has_group: bool) -> Vec<(u32, u64)> {
    let mut limits = vec![
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_NOFILE, 64),
        (libc::RLIMIT_MSGQUEUE, 0),
        (libc::RLIMIT_MEMLOCK, 0),
        (libc::RLIMIT_FSIZE, if order.is_container { 0 } else { FILE_MAX }),
    ];
    // A group counts what is used. Without one, what is asked for has to do.
    if !has_group {
        limits.push((libc::RLIMIT_DATA, order.memory));
    }
    // Outside of a container, the number would count all processes of the server's user.
    if order.is_container {
        limits.push((libc::RLIMIT_NPROC, cgroup::TASKS_MAX));
    }
    limits
}
