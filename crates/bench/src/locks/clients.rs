//! The clients: one thread that plays all of them, and keeps the engine's time.
//!
//! **Invariant:** a client submits its next statement when its time is over, whatever the others do; all clients take
//! the same time, so they are due in the order in which their statements ended. The lateness of this thread is
//! reported.

use super::load::LockLoad;
use super::phase::LockPhaseResult;
use super::terminal::{Message, StatementEnd, Terminal};
use anyhow::{Context, ensure};
use engine::{Engine, Error};
use host::stop::Stop;
use preempt::{BoundedQueue, os};
use sched::{Event, Scheduler};
use stage::Class;
use statement::error::state_of;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use workloads::tpcc::Random;

/// Maximum time between two looks at the messages, in which a client may get late.
const LOOK: Duration = Duration::from_micros(50);
/// Maximum time between two looks at the engine's own deadlines.
const EXPIRE_NS: u64 = 250_000;
/// Time since the beginning of the last transaction after which one that has not ended is lost.
const STRAGGLERS_NS_MAX: u64 = 30_000_000_000;
const REALTIME_PRIORITY: i32 = 20;

/// Clients of a phase.
pub struct Clients<'a> {
    /// Scheduler that receives the statements.
    pub scheduler: &'a Scheduler,
    /// Engine whose waits expire.
    pub engine: &'a Engine,
    /// Load that makes the transactions.
    pub load: &'a mut dyn LockLoad,
    /// Random numbers that choose the classes.
    pub random: Random,
    /// Percentage of class high, as in [`super::LocksArguments`].
    pub high_percent: i32,
    /// Nanoseconds between two statements of a client.
    pub client_time_ns: u64,
    /// Terminals, one for each session.
    pub terminals: Vec<Arc<Terminal>>,
    /// Messages from the terminals.
    pub messages: Arc<BoundedQueue<Message>>,
}

/// Transaction of a client.
#[derive(Clone, Copy)]
struct ClientTransaction {
    class: Class,
    /// Moment at which the client wanted to begin.
    due_ns: u64,
}

struct Loop<'a, 'b> {
    clients: &'b mut Clients<'a>,
    /// Transaction of each client; none if its next statement begins a transaction.
    running: Vec<Option<ClientTransaction>>,
    due: VecDeque<(u64, usize)>,
    window_ns: (u64, u64),
    /// Moment of the next look at the engine's waits.
    expire_ns: u64,
    result: LockPhaseResult,
}

impl Clients<'_> {
    /// Runs the clients through `warm_up` and `duration`, then until their last transactions have ended.
    ///
    /// # Errors
    /// An error for a transaction that failed or was lost; a stop.
    pub fn run(&mut self, warm_up: Duration, duration: Duration, stop: &Stop) -> anyhow::Result<LockPhaseResult> {
        // The kernel refuses this without the privilege: the lateness is printed either way.
        let _ = os::set_realtime(REALTIME_PRIORITY);
        let now_ns = os::now_ns();
        let from_ns = now_ns + warm_up.as_nanos() as u64;
        let to_ns = from_ns + duration.as_nanos() as u64;
        let count = self.terminals.len();
        let mut clients = Loop {
            running: vec![None; count],
            // The beginnings of the clients are spread over one statement's time.
            due: (0..count).map(|at| (now_ns + self.client_time_ns * at as u64 / count as u64, at)).collect(),
            window_ns: (from_ns, to_ns),
            expire_ns: now_ns,
            result: LockPhaseResult { seconds: duration.as_secs_f64(), ..LockPhaseResult::default() },
            clients: self,
        };
        clients.run(stop)?;
        Ok(clients.result)
    }
}

impl Loop<'_, '_> {
    fn run(&mut self, stop: &Stop) -> anyhow::Result<()> {
        loop {
            stop.wait(Duration::ZERO)?;
            while let Some(message) = self.clients.messages.pop() {
                self.ended(message)?;
            }
            let now_ns = os::now_ns();
            while let Some(&(due_ns, terminal)) = self.due.front()
                && due_ns <= now_ns
            {
                self.due.pop_front();
                self.next(terminal, due_ns, now_ns)?;
            }
            self.drain_events();
            if self.window_ns.1 <= now_ns && self.running.iter().all(Option::is_none) {
                return Ok(());
            }
            ensure!(
                now_ns < self.window_ns.1 + STRAGGLERS_NS_MAX,
                "{} transactions had not ended {} s after the last one began",
                self.running.iter().flatten().count(),
                STRAGGLERS_NS_MAX / 1_000_000_000
            );
            if self.expire_ns <= now_ns {
                let next_ns = self.clients.engine.expire_waits(now_ns).unwrap_or(u64::MAX);
                self.expire_ns = next_ns.min(now_ns + EXPIRE_NS);
            }
            self.sleep();
        }
    }

    fn sleep(&self) {
        let due_ns = self.due.front().map_or(u64::MAX, |&(due_ns, _)| due_ns).min(self.expire_ns);
        let left = Duration::from_nanos(due_ns.saturating_sub(os::now_ns()));
        if !left.is_zero() {
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// Submits the client's next statement: its pause is over.
    fn next(&mut self, terminal: usize, due_ns: u64, now_ns: u64) -> anyhow::Result<()> {
        let class = match self.running[terminal] {
            Some(running) => running.class,
            None if self.window_ns.1 <= due_ns => return Ok(()),
            None => {
                let is_high = self.clients.random.percent(self.clients.high_percent);
                let class = if is_high { Class::High } else { Class::Low };
                self.running[terminal] = Some(ClientTransaction { class, due_ns });
                let script = self.clients.load.script();
                self.clients.terminals[terminal].enter(script, class);
                class
            }
        };
        self.result.late.record_ns(now_ns - due_ns);
        let request = self.clients.terminals[terminal].request(class);
        self.clients.scheduler.submit(request).context("a statement was turned away")
    }

    fn ended(&mut self, message: Message) -> anyhow::Result<()> {
        let Message { terminal, at_ns, what } = message;
        let running = self.running[terminal].context("a statement ended twice")?;
        let (from_ns, to_ns) = self.window_ns;
        let is_counted = (from_ns..to_ns).contains(&at_ns);
        let tally = self.result.of(running.class);
        match what {
            StatementEnd::Statement => {}
            StatementEnd::Committed { run_ns } => {
                self.running[terminal] = None;
                self.clients.load.committed();
                if is_counted {
                    tally.response.record_ns(at_ns - running.due_ns);
                    tally.run_ns += run_ns;
                }
            }
            // One New-Order in a hundred ends this way, by specification.
            StatementEnd::Aborted { error: Error::RolledBack, .. } => self.running[terminal] = None,
            StatementEnd::Aborted { run_ns, error } if error.is_retryable() => {
                if is_counted {
                    tally.wasted_ns += run_ns;
                    *tally.aborts.entry(state_of(&error).0).or_default() += 1;
                }
            }
            StatementEnd::Aborted { error, .. } => return Err(error).context("a transaction failed"),
        }
        self.due.push_back((at_ns + self.clients.client_time_ns, terminal));
        Ok(())
    }

    /// Drains the scheduler's events, and counts the time parked.
    fn drain_events(&mut self) {
        let (from_ns, to_ns) = self.window_ns;
        let result = &mut self.result;
        self.clients.scheduler.drain_events(&mut |event| {
            if let Event::Completed(completed) = event
                && completed.stamps.end_ns.is_some_and(|end_ns| (from_ns..to_ns).contains(&end_ns))
            {
                let tally = result.of(completed.class);
                tally.lock_wait_ns += completed.stamps.lock_wait_ns;
                tally.parks += u64::from(completed.parks);
            }
        });
    }
}
