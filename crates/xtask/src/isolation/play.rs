//! A spec played as isolationtester plays it, with the same output.
//!
//! **Invariant:** the output depends on the order in which steps block and end, never on their duration.

use super::connection::{AnswerPart, Connection};
use super::print::{Message, TextTable};
use super::spec::{Blocker, Spec, Turn};
use crate::wire::Address;
use anyhow::{Context, bail, ensure};
use std::fmt::Write;
use std::time::{Duration, Instant};

const CLOSED: &str = "server closed the connection unexpectedly\n\tThis probably means the server terminated \
                      abnormally\n\tbefore or while processing the request.\n";

/// Output of a spec, and the errors in it.
#[derive(Default)]
pub struct Played {
    pub output: String,
    pub errors: Vec<Message>,
}

/// Plays all permutations. An error that ends them early is printed, too.
pub fn play(spec: &Spec, name: &str, address: &Address, step_max: Duration) -> Played {
    let mut played = Played::default();
    for unused in &spec.unused {
        let _ = writeln!(played.output, "unused step name: {unused}");
    }
    let _ = writeln!(played.output, "Parsed test spec with {} sessions", spec.sessions.len());
    let mut stage = match SpecRun::open(spec, name, address, step_max) {
        Ok(stage) => stage,
        Err(error) => {
            let _ = writeln!(played.output, "{error:#}");
            return played;
        }
    };
    for turns in &spec.permutations {
        if let Err(error) = stage.permutation(turns) {
            let _ = writeln!(stage.played.output, "{error:#}");
            break;
        }
    }
    played.output += &stage.played.output;
    played.errors = stage.played.errors;
    played
}

/// Session of a spec at play.
struct Actor<'a> {
    name: &'a str,
    connection: Connection,
    active: Option<Active>,
    notices: usize,
    notifications: Vec<String>,
}

/// Step under way.
struct Active {
    step: usize,
    /// First result of the step, once it has come.
    first: Option<AnswerPart>,
    /// Sessions that have to reach these numbers of notices before the step ends.
    notices: Vec<(usize, usize)>,
}

/// Manner of looking at a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepPoll {
    /// First look: the step was sent a moment ago.
    First,
    /// Later look; the step may still wait for a lock.
    Again,
    /// Later looks, until the step's answer is there.
    ToItsEnd,
}

struct SpecRun<'a> {
    spec: &'a Spec,
    step_max: Duration,
    control: Connection,
    actors: Vec<Actor<'a>>,
    /// Process IDs of all sessions, as an array.
    pids: String,
    has_new_notice: bool,
    played: Played,
}

impl<'a> SpecRun<'a> {
    fn open(spec: &'a Spec, name: &str, address: &Address, step_max: Duration) -> anyhow::Result<SpecRun<'a>> {
        // The settings are those of pg_regress, in this order.
        let program = format!("isolation/{name}");
        let open = |session: &str| {
            let settings = [
                ("application_name", program.as_str()),
                ("TimeZone", "PST8PDT"),
                ("DateStyle", "Postgres, MDY"),
                ("IntervalStyle", "postgres_verbose"),
            ];
            let mut connection = Connection::open(address, &settings)?;
            let session = session.replace('\'', "''");
            connection.send(&format!(
                "SELECT set_config('application_name', current_setting('application_name') || '/{session}', false)"
            ))?;
            let answer = connection.answer(step_max)?;
            let is_set = answer.iter().any(|event| matches!(event, AnswerPart::Rows(_)));
            ensure!(is_set, "setting of application name failed: {answer:?}");
            Ok(connection)
        };
        let control = open("control connection")?;
        let mut actors = Vec::new();
        for session in &spec.sessions {
            actors.push(Actor {
                name: &session.name,
                connection: open(&session.name)?,
                active: None,
                notices: 0,
                notifications: Vec::new(),
            });
        }
        let pids: Vec<String> = actors.iter().map(|actor| actor.connection.pid.to_string()).collect();
        let pids = pids.join(",");
        Ok(SpecRun { spec, step_max, control, actors, pids, has_new_notice: false, played: Played::default() })
    }

    fn permutation(&mut self, turns: &[Turn]) -> anyhow::Result<()> {
        let spec = self.spec;
        let names: Vec<&str> = turns.iter().map(|turn| spec.steps[turn.step].name.as_str()).collect();
        let _ = writeln!(self.played.output, "\nstarting permutation: {}", names.join(" "));
        for setup in &spec.setups {
            if let Err(message) = self.by_control(setup)? {
                bail!("setup failed: {}", message.full());
            }
        }
        for (at, session) in spec.sessions.iter().enumerate() {
            let Some(setup) = &session.setup else { continue };
            if let Err(message) = self.by_session(at, setup)? {
                bail!("setup of session {} failed: {}", session.name, message.full());
            }
        }
        let mut waiting = Vec::new();
        for turn in turns {
            self.take_turn(turn, turns, &mut waiting)?;
        }
        self.look_at_all(&mut waiting, StepPoll::ToItsEnd)?;
        ensure!(waiting.is_empty(), "failed to complete permutation due to mutually-blocking steps");
        for (at, session) in spec.sessions.iter().enumerate() {
            let Some(teardown) = &session.teardown else { continue };
            if let Err(message) = self.by_session(at, teardown)? {
                let _ = write!(self.played.output, "teardown of session {} failed: {}", session.name, message.full());
            }
        }
        if let Some(teardown) = &spec.teardown
            && let Err(message) = self.by_control(teardown)?
        {
            let _ = write!(self.played.output, "teardown failed: {}", message.full());
        }
        Ok(())
    }

    /// Begins a step, when its session has ended the one before.
    fn take_turn<'t>(&mut self, turn: &'t Turn, turns: &'t [Turn], waiting: &mut Vec<&'t Turn>) -> anyhow::Result<()> {
        let spec = self.spec;
        let step = &spec.steps[turn.step];
        let begun = Instant::now();
        while let Some(active) = &self.actors[step.session].active {
            let former = active.step;
            let former = turns.iter().find(|turn| turn.step == former).context("an active step has its turn")?;
            if !self.waits(former, StepPoll::ToItsEnd)? {
                waiting.retain(|turn| turn.step != former.step);
            }
            self.look_at_all(waiting, StepPoll::Again)?;
            let name = &spec.steps[former.step].name;
            let is_active = self.actors[step.session].active.is_some();
            ensure!(
                !is_active || begun.elapsed() < 2 * self.step_max,
                "step {name} timed out after {} seconds",
                begun.elapsed().as_secs()
            );
        }
        let actor = &mut self.actors[step.session];
        actor.connection.send(&step.sql).with_context(|| format!("failed to send query for step {}", step.name))?;
        let notices = turn.blockers.iter().filter_map(|blocker| match blocker {
            Blocker::Notices { step, count } => {
                let session = spec.steps[*step].session;
                Some((session, count + self.actors[session].notices))
            }
            Blocker::Once | Blocker::Step(_) => None,
        });
        let active = Active { step: turn.step, first: None, notices: notices.collect() };
        self.actors[step.session].active = Some(active);
        let waits = self.waits(turn, StepPoll::First)?;
        self.look_at_all(waiting, StepPoll::Again)?;
        if waits {
            waiting.push(turn);
        }
        Ok(())
    }

    /// Looks at all waiting steps, again while ends and notices may release others of them.
    fn look_at_all(&mut self, waiting: &mut Vec<&Turn>, look: StepPoll) -> anyhow::Result<()> {
        loop {
            self.has_new_notice = false;
            let before = waiting.len();
            let mut has_blocker = false;
            let mut at = 0;
            while let Some(turn) = waiting.get(at) {
                if self.waits(turn, look)? {
                    has_blocker |= !turn.blockers.is_empty();
                    at += 1;
                } else {
                    waiting.remove(at);
                }
            }
            if !has_blocker || (waiting.len() == before && !self.has_new_notice) {
                return Ok(());
            }
        }
    }

    /// Looks at a step, prints its result if it has ended, and returns true if it has not.
    fn waits(&mut self, turn: &Turn, look: StepPoll) -> anyhow::Result<bool> {
        let spec = self.spec;
        let step = &spec.steps[turn.step];
        let wait = |stage: &mut SpecRun<'_>| {
            if look == StepPoll::First {
                let _ = writeln!(stage.played.output, "step {}: {} <waiting ...>", step.name, step.sql);
            }
            Ok(true)
        };
        if look == StepPoll::First && turn.blockers.contains(&Blocker::Once) {
            return wait(self);
        }
        let begun = Instant::now();
        while self.is_busy(step.session)? {
            if look != StepPoll::ToItsEnd && self.is_blocked(step.session)? {
                // An answer that arrived during the question counts, too.
                if self.is_busy(step.session)? {
                    return wait(self);
                }
                break;
            }
            if self.step_max < begun.elapsed() {
                // PostgreSQL's program cancels the step and plays on. Here the spec ends: it differs in any case.
                self.actors[step.session].connection.cancel()?;
                bail!("isolationtester: canceling step {} after {} seconds", step.name, self.step_max.as_secs());
            }
        }
        if self.is_held(turn, step.session) {
            return wait(self);
        }
        let begins = if look == StepPoll::First { step.sql.as_str() } else { "<... completed>" };
        let _ = writeln!(self.played.output, "step {}: {begins}", step.name);
        self.print_rest(step.session)?;
        Ok(false)
    }

    /// Reads on until the first result of the session's step, or until nothing comes; returns true if it has not come.
    fn is_busy(&mut self, session: usize) -> anyhow::Result<bool> {
        loop {
            let actor = &mut self.actors[session];
            let active = actor.active.as_mut().context("a session without a step is not busy")?;
            if active.first.is_some() {
                return Ok(false);
            }
            match actor.connection.next()? {
                None => return Ok(true),
                Some(event @ (AnswerPart::Notice(_) | AnswerPart::Notification { .. })) => {
                    self.take_aside(session, event)
                }
                Some(event) => active.first = Some(event),
            }
        }
    }

    /// Takes an event that can come at any time.
    fn take_aside(&mut self, session: usize, event: AnswerPart) {
        match event {
            AnswerPart::Notice(message) => {
                let actor = &mut self.actors[session];
                let _ = write!(self.played.output, "{}: {}", actor.name, message.full());
                actor.notices += 1;
                self.has_new_notice = true;
            }
            AnswerPart::Notification { pid, channel, payload } => {
                let sender = self.actors.iter().find(|actor| actor.connection.pid == pid);
                let sender = sender.map_or_else(|| format!("PID {pid}"), |actor| actor.name.to_owned());
                let actor = &mut self.actors[session];
                let text = format!("{}: NOTIFY \"{channel}\" with payload \"{payload}\" from {sender}\n", actor.name);
                actor.notifications.push(text);
            }
            AnswerPart::Rows(_) | AnswerPart::Done | AnswerPart::Error(_) | AnswerPart::Closed | AnswerPart::Ready => {
                unreachable!("results are printed")
            }
        }
    }

    /// Prints all results of a step, and waits for those behind the first.
    fn print_rest(&mut self, session: usize) -> anyhow::Result<()> {
        let active = self.actors[session].active.take().context("a step is under way")?;
        let mut next = active.first;
        let begun = Instant::now();
        loop {
            match next.take() {
                Some(AnswerPart::Ready) => break,
                Some(AnswerPart::Closed) => {
                    let _ = writeln!(self.played.output, "{CLOSED}");
                    break;
                }
                Some(AnswerPart::Rows(table)) => self.played.output += &table.print(),
                Some(AnswerPart::Done) => {}
                Some(AnswerPart::Error(message)) => {
                    let _ = writeln!(self.played.output, "{}:  {}", message.severity, message.primary);
                    self.played.errors.push(message);
                }
                Some(event @ (AnswerPart::Notice(_) | AnswerPart::Notification { .. })) => {
                    self.take_aside(session, event)
                }
                None => ensure!(begun.elapsed() < self.step_max, "the rest of an answer does not come"),
            }
            next = self.actors[session].connection.next()?;
        }
        for text in std::mem::take(&mut self.actors[session].notifications) {
            self.played.output += &text;
        }
        Ok(())
    }

    /// Asks the server whether a session waits for another of the spec.
    fn is_blocked(&mut self, session: usize) -> anyhow::Result<bool> {
        let pid = self.actors[session].connection.pid;
        let pids = &self.pids;
        self.control.send(&format!("SELECT pg_catalog.pg_isolation_test_session_is_blocked({pid}, '{{{pids}}}')"))?;
        for event in self.control.answer(self.step_max)? {
            match event {
                AnswerPart::Rows(table) => return Ok(table.rows[0][0].as_deref() == Some("t")),
                AnswerPart::Error(message) => bail!("lock wait query failed: {}", message.full()),
                _ => {}
            }
        }
        bail!("lock wait query failed: no rows")
    }

    /// Returns true if a step has a condition that holds it back.
    fn is_held(&self, turn: &Turn, session: usize) -> bool {
        let is_active = |step: usize| {
            let other = &self.actors[self.spec.steps[step].session];
            other.active.as_ref().is_some_and(|active| active.step == step)
        };
        let steps = turn.blockers.iter().any(|blocker| matches!(blocker, Blocker::Step(step) if is_active(*step)));
        let notices = self.actors[session].active.iter().flat_map(|active| &active.notices);
        steps || notices.into_iter().any(|(session, count)| self.actors[*session].notices < *count)
    }

    fn by_control(&mut self, sql: &str) -> anyhow::Result<Result<(), Message>> {
        self.control.send(sql)?;
        let events = self.control.answer(self.step_max)?;
        Ok(self.print_last(events))
    }

    fn by_session(&mut self, session: usize, sql: &str) -> anyhow::Result<Result<(), Message>> {
        self.actors[session].connection.send(sql)?;
        let mut results = Vec::new();
        for event in self.actors[session].connection.answer(self.step_max)? {
            if matches!(event, AnswerPart::Notice(_) | AnswerPart::Notification { .. }) {
                self.take_aside(session, event);
            } else {
                results.push(event);
            }
        }
        Ok(self.print_last(results))
    }

    /// Prints the last result's rows, as `PQexec` returns the last result only.
    fn print_last(&mut self, events: Vec<AnswerPart>) -> Result<(), Message> {
        let results = events
            .into_iter()
            .rev()
            .find(|event| !matches!(event, AnswerPart::Notice(_) | AnswerPart::Notification { .. }));
        match results {
            Some(AnswerPart::Rows(table)) => self.print_table(&table),
            Some(AnswerPart::Error(message)) => {
                self.played.errors.push(message.clone());
                return Err(message);
            }
            Some(AnswerPart::Closed) => {
                return Err(Message {
                    severity: "FATAL".to_owned(),
                    primary: CLOSED.trim_end().to_owned(),
                    ..Message::default()
                });
            }
            Some(AnswerPart::Done | AnswerPart::Ready | AnswerPart::Notice(_) | AnswerPart::Notification { .. })
            | None => {}
        }
        Ok(())
    }

    fn print_table(&mut self, table: &TextTable) {
        self.played.output += &table.print();
    }
}
