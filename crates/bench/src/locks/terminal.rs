//! One session at its terminal: the part that runs on a worker.
//!
//! **Invariant:** at most one request of a terminal is under way, so the thread that runs it finds the terminal's state
//! in place; and each request ends with exactly one message to the clients. Everything here may run in an urgent
//! context.

use super::load::TransactionScript;
use engine::{Begin, Engine, Error, Session, SessionOptions, Step, Wake};
use preempt::{BoundedQueue, Latch, no_preempt, os};
use sched::{Request, Resubmit, RunCx, RunOutcome, Work};
use stage::Class;
use std::sync::Arc;

/// Result of a statement.
pub enum StatementEnd {
    /// The statement ended, and the next one may follow.
    Statement,
    /// The statement was the commit.
    Committed {
        /// Time that the transaction's statements ran, the time parked excluded.
        run_ns: u64,
    },
    /// The transaction was rolled back.
    Aborted {
        /// Time that the transaction's statements ran in vain.
        run_ns: u64,
        /// Reason of the rollback.
        error: Error,
    },
}

/// Message that a statement has ended.
pub struct Message {
    /// Terminal of the statement.
    pub terminal: usize,
    /// Moment of the end.
    pub at_ns: u64,
    /// Result of the statement.
    pub what: StatementEnd,
}

/// Terminal of one session.
pub struct Terminal {
    index: usize,
    home: Latch<Option<Box<TerminalState>>>,
    messages: Arc<BoundedQueue<Message>>,
}

struct TerminalState {
    session: Session,
    script: Box<dyn TransactionScript>,
    begin: Begin,
    /// Position of the next statement; the one after the last is the commit.
    at: usize,
    run_ns: u64,
}

/// True if a statement was the commit.
type IsCommitted = bool;

impl TerminalState {
    fn step(&mut self) -> engine::Result<Step<IsCommitted>> {
        let TerminalState { session, script, begin, at, .. } = self;
        // The transaction's first statement may come back from a wait.
        if !session.is_open() {
            session.begin(*begin)?;
        }
        if *at == script.statements() {
            session.commit()?;
            return Ok(Step::Done(true));
        }
        match session.try_execute(|txn| script.run(*at, txn))? {
            Step::Done(()) => {
                *at += 1;
                Ok(Step::Done(false))
            }
            Step::Parked(ticket) => Ok(Step::Parked(ticket)),
        }
    }
}

struct TerminalStatement(Arc<Terminal>);

/// Callback by which the engine wakes a parked statement.
struct StatementWaker(Resubmit);

impl Wake for StatementWaker {
    fn wake(&self) {
        self.0.resubmit();
    }
}

impl Terminal {
    /// Creates a terminal whose statements report their ends to `messages`.
    pub fn new(
        index: usize,
        engine: &Engine,
        messages: &Arc<BoundedQueue<Message>>,
        script: Box<dyn TransactionScript>,
    ) -> Terminal {
        let options = SessionOptions { name: format!("terminal {index}"), ..SessionOptions::new(Class::Low) };
        let begin = Begin::new(Class::Low);
        let state = TerminalState { session: engine.session(options), script, begin, at: 0, run_ns: 0 };
        Terminal { index, home: Latch::new(Some(Box::new(state))), messages: Arc::clone(messages) }
    }

    fn take(&self) -> Box<TerminalState> {
        no_preempt(|no_preempt| self.home.lock(no_preempt).take()).expect("one request at a time")
    }

    fn put(&self, state: Box<TerminalState>) {
        no_preempt(|no_preempt| *self.home.lock(no_preempt) = Some(state));
    }

    /// Enters the next transaction of this terminal. No statement of the terminal may be under way.
    pub fn enter(&self, script: Box<dyn TransactionScript>, class: Class) {
        let mut state = self.take();
        (state.script, state.begin, state.at, state.run_ns) = (script, Begin::new(class), 0, 0);
        self.put(state);
    }

    /// Returns the terminal's next statement, as a request.
    pub fn request(self: &Arc<Self>, class: Class) -> Arc<Request> {
        Arc::new(Request::new(self.index as u64, class, Box::new(TerminalStatement(Arc::clone(self)))))
    }
}

impl Work for TerminalStatement {
    fn run(&self, cx: &RunCx<'_>) -> RunOutcome {
        let TerminalStatement(terminal) = self;
        let began_ns = os::now_ns();
        let mut state = terminal.take();
        let step = state.step();
        let at_ns = os::now_ns();
        state.run_ns += at_ns - began_ns;
        let run_ns = state.run_ns;
        let what = match step {
            Ok(Step::Done(false)) => StatementEnd::Statement,
            Ok(Step::Done(true)) => StatementEnd::Committed { run_ns },
            Ok(Step::Parked(ticket)) => {
                terminal.put(state);
                ticket.on_ready(Arc::new(StatementWaker(cx.resubmitter())));
                return RunOutcome::Parked;
            }
            Err(error) => {
                state.session.rollback();
                (state.at, state.run_ns) = (0, 0);
                StatementEnd::Aborted { run_ns, error }
            }
        };
        terminal.put(state);
        let message = Message { terminal: terminal.index, at_ns, what };
        assert!(terminal.messages.push(message).is_ok(), "there is room for a message of each terminal");
        RunOutcome::Done
    }
}
