//! Instances: workers that run invocations.
//!
//! **Invariant:** each message is answered, or the worker is spent. A spent worker is never sent another invocation. After
//! an error of a call, only the worker's own `FAIL` makes it ready for the next.

use crate::channel::{Ends, HostChannel};
use crate::patrol::WorkerActivity;
use crate::spawner::{Order, Spawner, Worker};
use crate::system::{self, Exit};
use procs::abi::MessageKind;
use procs::ends::{self, Deadline};
use procs::format::garbled;
use procs::wire;
use procs::{EngineCalls, Instance, Invocation, Limits};
use procs_vm::status;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::collections::VecDeque;
use std::io::{self, PipeReader, Read};
use std::sync::Arc;
use std::time::Duration;
use types::datum::Datum;

/// Last bytes of the output that an error shows.
const OUTPUT_MAX: usize = 4 << 10;
/// Time in which a worker may end after an error of its call.
const GRACE: Duration = Duration::from_millis(50);
/// Time in which a worker must end an invocation to be used again.
const PATIENCE: Duration = Duration::from_millis(5);

/// Standard output and error of a worker.
struct Output {
    pipe: PipeReader,
    last: VecDeque<u8>,
}

impl Output {
    /// Takes what the worker has written, so that it never waits for room.
    fn drain(&mut self) {
        let mut bytes = [0; OUTPUT_MAX];
        // Bounded: a worker that writes without end must not keep the host here.
        for _ in 0..32 {
            match self.pipe.read(&mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(count) => self.last.extend(bytes.iter().take(count)),
            }
            let extra = self.last.len().saturating_sub(OUTPUT_MAX);
            self.last.drain(..extra);
        }
    }

    fn text(&self) -> String {
        let bytes: Vec<u8> = self.last.iter().copied().filter(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

/// Process and output of a worker.
struct Watched {
    worker: Worker,
    output: Output,
    memory_max: u64,
    /// True if the process is the monitor of a machine.
    is_monitor: bool,
    /// True if the process is `runsc`, whose exit status tells the signal that has killed the code.
    is_sandbox: bool,
}

impl Watched {
    /// Looks whether the worker still runs.
    fn look(&mut self) -> SqlResult<()> {
        self.output.drain();
        match self.worker.exit() {
            None => Ok(()),
            Some(exit) => Err(self.crashed(exit)),
        }
    }

    /// Returns the error for a worker that has ended.
    fn crashed(&mut self, exit: Exit) -> SqlError {
        self.output.drain();
        let mut error = if self.worker.was_out_of_memory() {
            return ends::out_of_memory(self.memory_max);
        } else {
            match exit {
                Exit::Status(status) if self.is_monitor => self.machine_ended(status),
                Exit::Status(status) if self.is_sandbox && (129..=192).contains(&status) => {
                    ends::crashed(&format!("it was killed by {}", signal_name(status - status::SIGNAL)))
                }
                Exit::Status(status) => ends::crashed(&format!("it ended with exit status {status}")),
                Exit::Signal(signal) => ends::crashed(&format!("it was killed by {}", signal_name(signal))),
            }
        };
        let output = self.output.text();
        if !output.is_empty() {
            error = error.detail(format!("Its last output:\n{output}"));
        }
        error
    }
}

impl Watched {
    /// Returns the error for a machine whose monitor has ended with this status.
    fn machine_ended(&self, ended: i32) -> SqlError {
        match ended {
            status::NO_MEMORY => ends::out_of_memory(self.memory_max),
            status::FAULT => ends::crashed("a fault shut its virtual machine down"),
            status::DEVICE => ends::crashed("it reached for a device that its virtual machine does not have"),
            status::STUCK => ends::crashed("the hypervisor cannot go on with its code"),
            status::NO_IMAGE => ends::crashed("its image cannot be loaded"),
            status::NO_MACHINE => not_created(&io::Error::other("there is no virtual machine for it")),
            status::MONITOR => ends::crashed("its monitor has failed"),
            status if (status::SIGNAL..status::FAULT).contains(&status) => {
                ends::crashed(&format!("it was killed by {}", signal_name(status - status::SIGNAL)))
            }
            status => ends::crashed(&format!("it ended with exit status {status}")),
        }
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXFSZ => "SIGXFSZ",
        other => return format!("signal {other}"),
    };
    format!("signal {signal} ({name})")
}

/// Worker that runs invocations.
pub(crate) struct WorkerInstance {
    channel: HostChannel,
    watched: Watched,
    activity: Arc<WorkerActivity>,
    /// Message of the worker.
    request: Vec<u8>,
    /// Message for the worker.
    answer: Vec<u8>,
    is_spent: bool,
    /// True if the code has learned of the error of its last invocation, and has ended it.
    has_ended: bool,
    /// Coarse time of the last answer.
    answered_ns: i64,
}

/// Returns the error for a worker that cannot be created: that of the artifact if the kernel refuses to execute it.
pub(crate) fn not_created(error: &io::Error) -> SqlError {
    if error.kind() == io::ErrorKind::InvalidData {
        return ends::not_loadable(&error.to_string());
    }
    SqlError::new(SqlState::INSUFFICIENT_RESOURCES, format!("a worker of stored code cannot be created: {error}"))
}

/// Creates the channel of a worker.
pub(crate) fn prepare(channel: procs::Channel, has_own_kernel: bool) -> SqlResult<Option<Ends>> {
    HostChannel::create(channel, has_own_kernel).map_err(|error| not_created(&error))
}

/// Hint for code that ends before it is ready, where it shares memory with the server.
const OTHER_LAYOUT: &str = "If the module was built for an earlier version of the server, copy the library of this \
                            version into the project (overtake proc new), and build and deploy it again.";

/// Creates the pipe for a worker's output.
pub(crate) fn pipe() -> SqlResult<(PipeReader, std::os::fd::OwnedFd)> {
    let (reader, writer) = io::pipe().map_err(|error| not_created(&error))?;
    system::set_nonblocking(&reader).map_err(|error| not_created(&error))?;
    Ok((reader, writer.into()))
}

impl WorkerInstance {
    /// Creates a worker, and waits until it is ready.
    pub(crate) fn open(
        spawner: &Spawner,
        order: Order,
        channel: HostChannel,
        pipe: PipeReader,
        limits: &Limits,
        start_max: Duration,
    ) -> SqlResult<WorkerInstance> {
        let activity = Arc::clone(&order.activity);
        let starting = activity.run();
        let (is_monitor, is_sandbox) = (order.machine.is_some(), order.sandbox.is_some());
        let worker = spawner.create(order)?.map_err(|error| not_created(&error))?;
        let output = Output { pipe, last: VecDeque::new() };
        let watched = Watched { worker, output, memory_max: limits.memory, is_monitor, is_sandbox };
        let (request, answer) = (Vec::new(), Vec::new());
        let kept = Arc::clone(&activity);
        let mut instance = WorkerInstance {
            channel,
            watched,
            activity: kept,
            request,
            answer,
            is_spent: false,
            has_ended: false,
            answered_ns: 0,
        };
        let is_shared = matches!(instance.channel, HostChannel::Shared(..));
        let deadline = Deadline::from_now(Some(start_max));
        let watched = &mut instance.watched;
        let mut look = || {
            pulse::look()?;
            watched.look()?;
            deadline.map_or(Ok(()), |deadline| deadline.look()).map_err(|_| not_ready(start_max))
        };
        // Whoever opens an instance books the whole time as a wait.
        let received = instance.channel.receive(&mut instance.request, &mut look, &|wait| wait());
        // Code that was built with the library of another version ends, because it does not know the layout.
        let other_layout = |error: SqlError| match is_shared && error.state() == SqlState::EXTERNAL_ROUTINE_EXCEPTION {
            true => error.hint(OTHER_LAYOUT),
            false => error,
        };
        drop(starting);
        match received.map_err(other_layout)? {
            MessageKind::Ready => {
                instance.channel.runs_on(instance.watched.worker.processors());
                Ok(instance)
            }
            other => Err(unexpected(other)),
        }
    }

    fn exchange(&mut self, invocation: &Invocation<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Vec<Datum>>> {
        engine.look()?;
        let deadline = Deadline::from_now(invocation.limits.time);
        let WorkerInstance { channel, watched, request, answer, has_ended, .. } = self;
        wire::put_arguments(invocation.rows, invocation.arguments, answer)?;
        let mut kind = MessageKind::Invoke;
        loop {
            let mut look = || {
                engine.look()?;
                deadline.map_or(Ok(()), |deadline| deadline.look())?;
                watched.look()
            };
            channel.send(kind, u32::from(invocation.entry), answer, &mut look)?;
            let received = channel.receive(request, &mut look, &|wait| engine.asleep(wait))?;
            match received {
                MessageKind::Call => {}
                MessageKind::Return => return wire::result(request, invocation.result),
                MessageKind::Fail => return Err(ends::failed(&told(request))),
                MessageKind::Invoke | MessageKind::Answer | MessageKind::Abort | MessageKind::Ready => {
                    return Err(unexpected(received));
                }
            }
            // The limit holds for engines that know none, too.
            let served = deadline.map_or(Ok(()), |deadline| deadline.look());
            if let Err(error) = served.and_then(|()| wire::serve(engine, request, answer)) {
                // It waits for an answer, so it learns of the error and may end by itself. One that takes no message
                // has as little time as one that gives none: nobody hears a cancel here.
                watched.worker.grace = GRACE;
                let told = error.message().as_bytes();
                let told = told.get(..OUTPUT_MAX).unwrap_or(told);
                let patience = Deadline::from_now(Some(PATIENCE));
                let mut look = || {
                    patience.map_or(Ok(()), |patience| patience.look())?;
                    watched.look()
                };
                let told = channel
                    .send(MessageKind::Abort, 0, told, &mut look)
                    .and_then(|()| channel.receive(request, &mut look, &|wait| engine.asleep(wait)));
                if matches!(told, Ok(MessageKind::Fail)) {
                    watched.worker.grace = Duration::ZERO;
                    *has_ended = true;
                }
                return Err(error);
            }
            kind = MessageKind::Answer;
        }
    }
}

/// Returns the text with which code has failed.
fn told(bytes: &[u8]) -> String {
    let bytes = bytes.get(..OUTPUT_MAX).unwrap_or(bytes);
    String::from_utf8_lossy(bytes).replace('\0', "").trim().to_owned()
}

fn not_ready(start_max: Duration) -> SqlError {
    ends::failed(&format!("it was not ready after {} ms", start_max.as_millis()))
}

fn unexpected(kind: MessageKind) -> SqlError {
    garbled(&format!("a message of kind {} out of turn", kind as u32))
}

impl Instance for WorkerInstance {
    fn invoke(&mut self, invocation: &Invocation<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Vec<Datum>>> {
        if self.is_spent {
            return Err(ends::spent());
        }
        self.is_spent = true;
        self.has_ended = false;
        let activity = Arc::clone(&self.activity);
        let running = activity.run();
        let result = self.exchange(invocation, engine);
        drop(running);
        self.is_spent = result.is_err() && !self.has_ended;
        self.answered_ns = system::coarse_ns();
        result
    }

    fn is_alive(&self) -> bool {
        // To ask the kernel takes longer than a message. A worker that has answered a moment ago was alive; if it has
        // ended since then, the invocation fails as if it had ended a moment later.
        self.answered_ns == system::coarse_ns() || self.watched.worker.exit().is_none()
    }

    fn is_reusable(&self) -> bool {
        !self.is_spent
    }
}
