//! Thread that creates workers and reaps them.
//!
//! It is the parent of all of them: the kernel ends a worker with the thread that has created it, so that must be one
//! that lives as long as the server. It is also the only one that is suspended while a child is on its way.
//!
//! **Invariant:** a worker that was created is killed and reaped, whatever becomes of its instance, and its share is
//! given back afterwards.

use crate::cgroup::{self, Group, Groups};
use crate::child::{self, COPIES_FROM, ChildPlan, ChildStack, ContainerPlan, NOBODY};
use crate::confine::{self, Start};
use crate::container::Root;
use crate::elf::ExecutableKind;
use crate::gvisor::{Folder, SandboxOrder};
use crate::patrol::{PATROL, Patrol, WorkerActivity};
use crate::seccomp;
use crate::system::{self, Exit};
use procs::abi::{CHANNEL_VARIABLE, SHARED_BYTES};
use procs::{Channel, InstanceShare};
use statement::error::SqlResult;
use statement::pulse;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two looks at workers that are about to end.
const REAP: Duration = Duration::from_millis(1);
/// Time between two looks while somebody waits for a worker.
const LOOK: Duration = Duration::from_millis(5);
/// Bytes of a worker's group besides its memory and its executable.
const GROUP_BYTES: u64 = 4 << 20;
/// Bytes of KVM for a machine, besides a share of its memory for page tables.
const MACHINE_BYTES: u64 = 16 << 20;
/// Bytes of the processes of a sandbox.
const SANDBOX_BYTES: u64 = 160 << 20;
/// Greatest number of threads of a sandbox.
const SANDBOX_TASKS_MAX: u64 = 512;
/// Greatest number of descriptors of each process of a sandbox.
const SANDBOX_FILES_MAX: u64 = 4_096;
/// Part of a machine's memory that is as large as its page tables, those of KVM included.
const MACHINE_SHARE: u64 = 64;
/// Greatest file that a worker outside of a container may write, in bytes.
const FILE_MAX: u64 = 64 << 20;
/// Greatest file that a worker in a container may write, in bytes: the memory of its channel, for runtimes that cannot
/// map it. Nothing else that it could write is a file.
const CHANNEL_FILE_MAX: u64 = SHARED_BYTES as u64;

/// Executable in memory.
#[derive(Debug)]
pub(crate) struct Executable {
    pub(crate) file: File,
    pub(crate) kind: ExecutableKind,
    pub(crate) len: u64,
}

/// Machine that a worker runs as its monitor.
#[derive(Clone)]
pub(crate) struct MachineOrder {
    /// Image of the machine. The executable of the order is the monitor.
    pub(crate) image: Arc<Executable>,
    /// `/dev/kvm`
    pub(crate) kvm: Arc<File>,
}

/// Order to create a worker.
pub(crate) struct Order {
    pub(crate) executable: Arc<Executable>,
    pub(crate) machine: Option<MachineOrder>,
    /// Sandbox of gVisor. The executable of the order is `runsc`.
    pub(crate) sandbox: Option<SandboxOrder>,
    /// Socket by which a worker on a kernel of its own is woken.
    pub(crate) doorbell: Option<OwnedFd>,
    pub(crate) is_container: bool,
    /// Value of the variable with the channel, without the descriptor.
    pub(crate) channel_name: &'static str,
    pub(crate) channel: OwnedFd,
    pub(crate) output: OwnedFd,
    /// Greatest memory in bytes.
    pub(crate) memory: u64,
    pub(crate) share: InstanceShare,
    pub(crate) activity: Arc<WorkerActivity>,
}

/// Returns the memory in bytes that a worker may use whose code may use `memory`.
pub(crate) fn allowed_memory(memory: u64, is_machine: bool, is_sandbox: bool) -> u64 {
    let machine = if is_machine { MACHINE_BYTES + memory / MACHINE_SHARE } else { 0 };
    let sandbox = if is_sandbox { SANDBOX_BYTES } else { 0 };
    memory.saturating_add(machine + sandbox)
}

impl Order {
    /// Returns the memory that the worker may use in bytes: that of its code, and of the machine around it.
    fn allowed_memory(&self) -> u64 {
        allowed_memory(self.memory, self.machine.is_some(), self.sandbox.is_some())
    }

    /// Returns the greatest number of processes and threads.
    fn tasks_max(&self) -> u64 {
        if self.sandbox.is_some() { SANDBOX_TASKS_MAX } else { cgroup::TASKS_MAX }
    }
}

enum Message {
    Create(Box<Order>, Sender<io::Result<WorkerProcess>>),
    End(WorkerProcess, Duration),
}

/// Process of a worker, and what belongs to it.
#[derive(Debug)]
struct WorkerProcess {
    pid: i32,
    descriptor: OwnedFd,
    group: Option<Arc<Group>>,
    share: InstanceShare,
    /// Folder of its sandbox.
    folder: Option<Folder>,
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
        group.is_some_and(|group| group.was_out_of_memory())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.share.end();
            // The thread ends after the last sender.
            let _ = self.spawner.orders.send(Message::End(process, self.grace));
        }
    }
}

/// Handle of the thread.
#[derive(Clone, Debug)]
pub(crate) struct Spawner {
    orders: Sender<Message>,
    /// True if each worker has a control group.
    pub(crate) has_groups: bool,
}

impl Spawner {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Spawner> {
        let (sender, receiver) = mpsc::channel();
        let groups = Groups::find();
        let has_groups = groups.is_some();
        let state = SpawnerThread {
            stack: ChildStack::new()?,
            groups,
            ending: Vec::new(),
            left: Vec::new(),
            patrol: Patrol::default(),
        };
        thread::Builder::new().name("procs-workers".to_owned()).spawn(move || state.run(&receiver))?;
        Ok(Spawner { orders: sender, has_groups })
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
            match receiver.recv_timeout(LOOK) {
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
    left: Vec<Arc<Group>>,
    patrol: Patrol,
}

impl SpawnerThread {
    fn run(mut self, orders: &Receiver<Message>) {
        loop {
            let is_idle = self.ending.is_empty() && self.left.is_empty();
            let received = match (is_idle, self.patrol.is_needed()) {
                (true, false) => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
                (true, true) => orders.recv_timeout(PATROL),
                (false, _) => orders.recv_timeout(REAP),
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
            self.patrol.look();
        }
    }

    fn end(&mut self, process: WorkerProcess, grace: Duration) {
        self.patrol.remove(process.pid);
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
                    let WorkerProcess { group, share, folder, .. } = process;
                    self.left.extend(group);
                    drop((share, folder));
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

    fn create(&mut self, mut order: Order) -> io::Result<WorkerProcess> {
        let memory = order.allowed_memory().saturating_add(order.executable.len + GROUP_BYTES);
        let group = self.groups.as_ref().map(|groups| groups.create(memory, order.tasks_max())).transpose()?;
        let group = group.map(Arc::new);
        let created = self.create_in(&order, group.as_deref()).and_then(|(pid, descriptor)| {
            let patrolled = descriptor.try_clone().inspect_err(|_| child::reap(&descriptor))?;
            self.patrol.add(pid, patrolled, group.clone(), &order.activity);
            Ok((pid, descriptor))
        });
        match created {
            Ok((pid, descriptor)) => {
                let folder = order.sandbox.take().map(|sandbox| sandbox.folder);
                Ok(WorkerProcess { pid, descriptor, group, share: order.share, folder })
            }
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
        let machine = order.machine.as_ref();
        let mut further = Vec::new();
        if let Some(MachineOrder { image, kvm }) = machine {
            further.extend([copy(&image.file)?, copy(kvm)?]);
        }
        further.extend(order.doorbell.as_ref().map(|bell| copy(bell)).transpose()?);
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
            further: further.iter().map(OwnedFd::as_raw_fd).collect(),
            arguments: arguments(order),
            limits: limits(order, group.is_some()),
            environment: environment(order),
            container: order.is_container.then(|| ContainerPlan {
                root: Root::of(order.executable.kind, order.executable.len),
                filter: if machine.is_some() { seccomp::monitor_filter() } else { seccomp::filter() },
                is_root: system::user().0 == 0,
                landlock: confine::landlock_version(),
            }),
            is_admitted: order.is_container || group.is_some(),
            stage: AtomicU32::new(child::STAGE_NEW),
            process: AtomicI32::new(-1),
            failure: AtomicU64::new(0),
        };
        if !plan.is_admitted {
            return child::create(&plan, &mut self.stack);
        }
        // This thread is suspended until the executable runs, which may start processes of its own at once.
        thread::scope(|scope| {
            let admission = thread::Builder::new().name("procs-admission".to_owned());
            let admission = admission.spawn_scoped(scope, || admit(&plan, group))?;
            let created = child::create(&plan, &mut self.stack);
            // Ends the other thread if there was no child.
            plan.stage.store(child::STAGE_ENDS, SeqCst);
            system::futex_wake(&plan.stage);
            // A child that was not admitted has failed as well, but does not know why.
            match (admission.join(), created) {
                (Ok(Err(reason)), Err(_)) => Err(reason),
                (_, created) => created,
            }
        })
    }
}

impl WorkerProcess {
    /// Kills the process, and those that it has started and not put into another session.
    fn kill(&self) {
        system::kill_with_group(self.pid, &self.descriptor);
    }

    /// Reaps the process, if it has ended. Its number is taken until then, so its group is no other one.
    fn exit_reaped(&self) -> bool {
        if !matches!(system::exit_of(&self.descriptor, false), Ok(None)) {
            system::kill_group(self.pid);
        }
        !matches!(system::exit_of(&self.descriptor, true), Ok(None))
    }
}

/// Waits until the child waits; then maps the users of a container, puts the child into its group, and lets it go on.
fn admit(plan: &ChildPlan, group: Option<&Group>) -> io::Result<()> {
    let stage = &plan.stage;
    while stage.load(SeqCst) == child::STAGE_NEW {
        system::futex_wait(stage, child::STAGE_NEW, Duration::from_secs(1));
    }
    if stage.load(SeqCst) != child::STAGE_WAITS {
        return Ok(());
    }
    let is_admitted = number_of(plan.process.load(SeqCst)).and_then(|process| {
        if plan.container.is_some() {
            map_users(process)?;
        }
        group.map_or(Ok(()), |group| group.add(process))
    });
    stage.store(if is_admitted.is_ok() { child::STAGE_ADMITTED } else { child::STAGE_ENDS }, SeqCst);
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

fn environment(order: &Order) -> Vec<CString> {
    if order.machine.is_some() {
        let memory = format!("{}={}", procs_vm::MEMORY_VARIABLE, order.memory);
        return CString::new(memory).into_iter().collect();
    }
    let channel = format!("{CHANNEL_VARIABLE}={}:{}", order.channel_name, child::CHANNEL_FD);
    let all = [channel.as_str(), "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"];
    all.into_iter().filter_map(|one| CString::new(one).ok()).collect()
}

fn arguments(order: &Order) -> Vec<CString> {
    match &order.sandbox {
        Some(sandbox) => sandbox.arguments.clone(),
        None => vec![c"overtake-worker".to_owned()],
    }
}

/// Returns the limits of a worker.
fn limits(order: &Order, has_group: bool) -> Vec<(u32, u64)> {
    if order.sandbox.is_some() {
        // The code has those of its own kernel, and all processes together those of the group.
        return vec![(libc::RLIMIT_CORE, 0), (libc::RLIMIT_NOFILE, SANDBOX_FILES_MAX)];
    }
    let file_max = match (order.is_container, order.channel_name == Channel::SharedMemory.name()) {
        (false, _) => FILE_MAX,
        (true, true) => CHANNEL_FILE_MAX,
        (true, false) => 0,
    };
    let mut limits = vec![
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_NOFILE, 64),
        (libc::RLIMIT_MSGQUEUE, 0),
        (libc::RLIMIT_MEMLOCK, 0),
        (libc::RLIMIT_FSIZE, file_max),
    ];
    // A group counts what is used. Without one, what is asked for has to do.
    if !has_group {
        limits.push((libc::RLIMIT_DATA, order.allowed_memory()));
    }
    // Outside of a container, the number would count all processes of the server's user.
    if order.is_container {
        limits.push((libc::RLIMIT_NPROC, cgroup::TASKS_MAX));
    }
    limits
}

#[cfg(test)]
mod tests;
