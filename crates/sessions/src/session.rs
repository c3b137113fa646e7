//! Session of one client, from the first `ReadyForQuery` to its end.
//!
//! **Invariant:** after an error in the extended protocol nothing is done until `Sync`. Each `Sync` and each simple
//! query is answered by one `ReadyForQuery`, whatever happens. A portal does not outlive its transaction.

mod alone;
mod place;
mod stream;

pub(crate) use alone::Then;
pub(crate) use stream::Streaming;

use crate::codec::{self, Scratch};
use crate::lent::Lent;
use crate::names::Names;
use bytes::Buf;
use engine::memory::{SMALL_BYTES, has_room};
use server::admission::{About, Admission, Hot, Marks, Slot};
use server::network::Below;
use server::service::SessionLimits;
use server::stats::{SessionStats, StatementTotals, Stats};
use server::workers::{Dispatch, Workers};
use sql::session::{Canceller, Outcome, Parked, Portal, PreparationFailure, Statement};
use stage::{Class, Stage, StageKey, StageShard};
use statement::error::Cancellation;
use statement::outcome::{CommandTag, TransactionStatus};
use statement::{SqlError, SqlResult};
use std::sync::Arc;
use std::vec;
use types::Datum;
use wire::Cancel;
use wire::Stop;
use wire::conn::Conn;
use wire::errors;
use wire::frame::{self};
use wire::reply::Formats;
use wire::wait::Gone;
use wire::wake::Waiter;

/// Longest text in bytes that is parsed and planned on the thread that read it. Longer ones are handled where
/// they delay no other session.
pub(crate) const TEXT_MAX: usize = 4 << 10;
/// A statement as the protocol sees it.
pub(crate) struct Prepared {
    pub(crate) statement: Arc<Statement>,
    pub(crate) text: Arc<str>,
    /// Statistics of the statement.
    pub(crate) totals: Arc<StatementTotals>,
    /// Marks of the statement for the admission gate, as of this generation of the gate's settings.
    pub(crate) marks: Marks,
    pub(crate) generation: u32,
}

/// A portal as the protocol sees it.
pub(crate) struct Held {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) portal: Lent<Portal>,
    pub(crate) formats: Formats,
    /// Key at which its values conflict with other transactions.
    pub(crate) hot: Hot,
    pub(crate) state: State,
}

/// Progress of a portal.
pub(crate) enum State {
    /// The portal has not run.
    Ready,
    /// The portal has run, and not all rows were sent: the rows that are left, and their weight in bytes.
    Rows(vec::IntoIter<Box<[Datum]>>, CommandTag, usize),
    /// The portal has sent all its rows. A further `Execute` returns none.
    Exhausted(CommandTag),
    /// The portal has run, or failed, and cannot be run again.
    Ended,
}

pub(crate) struct Session {
    pub(crate) conn: Conn,
    pub(crate) sql: Lent<sql::session::Session>,
    waiter: Arc<Waiter>,
    pub(crate) canceller: Arc<dyn Cancel>,
    pub(crate) message_max: usize,
    pub(crate) statements: Names<Arc<Prepared>>,
    pub(crate) portals: Names<Held>,
    /// A `Describe` that is not answered yet, by statement and formats. Its columns are sent with the rows
    /// if the `Execute` is next.
    pub(crate) described: Option<(Arc<Prepared>, Formats)>,
    /// True if messages are ignored until `Sync`.
    pub(crate) skips: bool,
    /// True if the client knows that it is its turn: `ReadyForQuery` was the last message sent.
    is_ready: bool,
    /// Limit on the weight of its statements and portals, in bytes.
    pub(crate) memory_max: usize,
    dispatch: Dispatch,
    workers: Arc<Workers>,
    below: Arc<Below>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) activity: Arc<SessionStats>,
    /// Sums of stages that the session's thread alone adds to.
    shard: Arc<StageShard>,
    /// Statement to which the stages since the last booking belong, as far as it is known.
    pub(crate) booked: Booked,
    pub(crate) admission: Admission,
    /// Admission slot of the transaction, from its first statement to its end.
    slot: Option<Slot>,
    /// True if something in the transaction has failed.
    has_failed: bool,
    /// True if a statement has run since the last commit.
    has_run: bool,
}

/// Statement whose stages are not booked yet.
#[derive(Default)]
pub(crate) struct Booked {
    pub(crate) totals: Option<Arc<StatementTotals>>,
    class: Option<Class>,
    /// True if it has run: the next message belongs to another one.
    is_over: bool,
    /// Time in which it needed no thread here, in nanoseconds.
    parked_ns: u64,
}

impl Session {
    /// Creates the session on the thread that serves it.
    pub(crate) fn new(
        conn: Conn,
        mut sql: sql::session::Session,
        waiter: Arc<Waiter>,
        limits: SessionLimits,
        (stats, activity): (Arc<Stats>, Arc<SessionStats>),
    ) -> Session {
        let (statements, portals) = (Names::new(), Names::new());
        let (canceller, shard) = (canceller(&sql), stats.book().shard());
        sql.clock_by(&conn.clock);
        let SessionLimits { message_max, memory_max, dispatch, workers, below, admission } = limits;
        Session {
            conn,
            sql: Lent::new(sql),
            waiter,
            canceller,
            message_max,
            statements,
            portals,
            described: None,
            skips: false,
            is_ready: false,
            memory_max,
            dispatch,
            workers,
            below,
            stats,
            activity,
            shard,
            booked: Booked::default(),
            admission,
            slot: None,
            has_failed: false,
            has_run: false,
        }
    }

    /// Answers until the client leaves, or must leave, in the runtime of the caller.
    pub(crate) async fn serve(mut self) {
        if let Err(error) = self.conn.settle() {
            tracing::warn!(%error, "a session could not be taken over by its thread");
            self.stats.leave(&self.activity);
            return;
        }
        // The login belongs to no statement.
        self.conn.clock.rest();
        self.conn.clock.take();
        self.ready();
        let last_words = loop {
            // A partial message counts as none.
            if matches!(frame::whole(&self.conn.input, self.message_max), Ok(None)) {
                self.slot.iter_mut().for_each(Slot::idle);
                if let Err(gone) = self.end_answers().await {
                    break self.farewell(gone);
                }
            }
            self.conn.idle_limit = if self.is_ready { self.sql.idle_limit() } else { None };
            let (kind, length) = match self.conn.next(self.message_max).await {
                Ok(Ok(found)) => found,
                Ok(Err(broken)) => break Some(errors::broken(broken)),
                Err(gone) => break self.farewell(gone),
            };
            self.is_ready = false;
            if self.activity.end.is_ended() {
                break errors::gone(Gone::Server);
            }
            match kind {
                b'X' => break None,
                // No password was requested.
                b'p' => break Some(errors::unexpected(b'p')),
                _ => {}
            }
            if self.skips && kind != b'S' {
                self.conn.input.advance(length);
                continue;
            }
            self.conn.clock.enter(Stage::Decode);
            if let Err(gone) = self.answer(kind, length).await {
                break self.farewell(gone);
            }
            if let Err(gone) = self.flush_much().await {
                break self.farewell(gone);
            }
            // If no input is left, the next read gives the other sessions their turn, after
            // the answer has been written.
            if !self.conn.input.is_empty()
                && let Err(gone) = self.conn.take_turns().await
            {
                break errors::gone(gone);
            }
        };
        // The open transaction is rolled back before the client can see the end, and a client that does not read the
        // last message keeps no slot.
        match self.sql.lend() {
            Some(sql) if sql.has_long_end() => drop(tokio::task::spawn_blocking(|| drop(sql)).await),
            sql => drop(sql),
        }
        drop(self.slot);
        self.stats.leave(&self.activity);
        // An application that disconnects has often prepared all its statements. Freeing their plans takes as long as
        // some transactions of the thread's other sessions.
        if TEXT_MAX < self.statements.weight().saturating_add(self.portals.weight()) {
            place::drop_below(self.below, (self.statements, self.portals));
        }
        if let Some(error) = last_words {
            self.conn.replies.error("FATAL", &error);
        }
        // A client that has sent a request and `Terminate` at once gets its answer.
        if !self.conn.replies.out.is_empty() {
            self.conn.close().await;
        }
    }

    /// Writes the answers before the client's turn, and books the stages up to here.
    async fn end_answers(&mut self) -> Result<(), Gone> {
        if self.conn.is_due {
            self.conn.write_out(|| {}).await?;
        }
        self.conn.clock.enter(Stage::NetworkRead);
        self.book();
        Ok(())
    }

    /// Books the stages that have ended to the statement that they belong to.
    pub(crate) fn book(&mut self) {
        let Booked { totals, class, .. } = std::mem::take(&mut self.booked);
        let class = class.unwrap_or_else(|| self.sql.class());
        let key = StageKey { class, transport: self.conn.transport, isolation: self.sql.take_isolation() };
        self.stats.add(&self.shard, key, &self.conn.clock.take(), totals.as_deref());
    }

    /// Returns the last message to a client, if there is one.
    fn farewell(&self, gone: Gone) -> Option<SqlError> {
        self.stats.note_unread(&self.activity, gone);
        match gone {
            Gone::Idle => Some(errors::idle(self.sql.status() != TransactionStatus::Idle)),
            gone => errors::gone(gone),
        }
    }

    /// Answers the first message of the input.
    async fn answer(&mut self, kind: u8, length: usize) -> Result<(), Gone> {
        if self.booked.is_over && matches!(kind, b'P' | b'B' | b'Q') {
            self.book();
        }
        if kind != b'E' {
            self.tell_columns();
        }
        let message = self.conn.lift(length);
        let body = message.body();
        let answered = match kind {
            b'P' => match (length <= TEXT_MAX).then(|| self.parse(body)) {
                Some(parsed) if !self.sql.is_unbound() => parsed,
                parsed => {
                    self.conn.put_back(message);
                    let body = self.conn.split(length);
                    let answered = self.parse_waiting(&body, parsed.and_then(Result::err)).await;
                    return self.answered(answered).await;
                }
            },
            b'B' => self.bind(body),
            b'D' => self.describe(body),
            b'C' => self.close(body),
            b'E' => {
                let asked = frame::execute(body).map(|(name, rows_max)| (Box::<str>::from(name), rows_max));
                self.conn.put_down(message);
                let answered = match asked {
                    Ok((name, rows_max)) => self.execute(&name, rows_max).await,
                    Err(malformed) => Err(malformed.into()),
                };
                return self.answered(answered).await;
            }
            b'Q' => {
                self.conn.put_back(message);
                let body = self.conn.split(length);
                return self.query(&body).await;
            }
            b'H' => {
                self.conn.is_due = true;
                Ok(())
            }
            b'S' => {
                self.conn.put_down(message);
                return self.sync().await;
            }
            b'F' => {
                self.conn.put_down(message);
                self.failed(&SqlError::unsupported("a function call message")).await?;
                return self.sync().await;
            }
            // PostgreSQL ignores them outside of COPY: a client whose COPY was refused may have sent them already.
            b'd' | b'c' | b'f' => Ok(()),
            kind => Err(Stop::Error(errors::unexpected(kind))),
        };
        self.conn.put_down(message);
        self.answered(answered).await
    }

    /// Sends the client the error, if there is one.
    async fn answered(&mut self, answered: Result<(), Stop>) -> Result<(), Gone> {
        match answered {
            Ok(()) => Ok(()),
            Err(Stop::Gone(gone)) => Err(gone),
            Err(Stop::Error(error)) => {
                self.failed(&error).await?;
                self.skips = true;
                Ok(())
            }
        }
    }

    /// Reports an error to the client and the session.
    pub(crate) async fn failed(&mut self, error: &SqlError) -> Result<(), Gone> {
        self.conn.clock.enter(Stage::Unattributed);
        self.tell_columns();
        self.notices();
        self.conn.replies.error("ERROR", error);
        self.conn.is_due = true;
        self.has_failed = true;
        self.beside(sql::session::Session::fail).await
    }

    /// Ends the implicit transaction, and sends `ReadyForQuery`.
    async fn sync(&mut self) -> Result<(), Gone> {
        self.skips = false;
        // From the next batch on, the unnamed statement is treated like any other.
        if let Some(unnamed) = self.statements.get("") {
            unnamed.statement.fix_columns();
        }
        match self.commit().await {
            Ok(()) => {}
            Err(Stop::Error(error)) => self.failed(&error).await?,
            Err(Stop::Gone(gone)) => return Err(gone),
        }
        self.ready();
        Ok(())
    }

    /// Ends the implicit transaction, if there is one.
    pub(crate) async fn commit(&mut self) -> Result<(), Stop> {
        let before = self.conn.clock.position();
        if std::mem::take(&mut self.has_run) {
            self.conn.clock.enter(Stage::Run);
        }
        let ended = self.beside(sql::session::Session::sync).await?;
        self.conn.clock.restore(before);
        Ok(ended?)
    }

    async fn query(&mut self, body: &[u8]) -> Result<(), Gone> {
        let answered = match frame::query(body) {
            Ok(text) => self.simple(text).await,
            Err(malformed) => Err(malformed.into()),
        };
        match answered {
            Ok(()) => {}
            Err(Stop::Gone(gone)) => return Err(gone),
            Err(Stop::Error(error)) => self.failed(&error).await?,
        }
        // After a success there is nothing left to end: the last statement has committed before its tag.
        self.sync().await
    }

    fn ready(&mut self) {
        self.conn.clock.enter(Stage::Unattributed);
        let status = self.sql.status();
        // The end of the transaction has closed its portals. Otherwise the next statement would take away a new portal
        // of the same name.
        self.rename();
        if status == TransactionStatus::Idle {
            self.portals.clear();
            self.leave();
        }
        self.notices();
        for (name, value) in self.sql.take_reports() {
            if name == "application_name" {
                self.activity.set_application(&value);
            }
            self.conn.replies.parameter_status(name, value);
        }
        self.activity.rest(status);
        self.conn.replies.ready(status);
        self.is_ready = true;
        self.conn.is_due = true;
    }

    pub(crate) fn notices(&mut self) {
        for (severity, notice) in self.sql.take_notices() {
            self.conn.replies.notice(severity, &notice);
        }
    }

    /// Runs a portal to its end, waiting where it must, and counts it. A portal that is a transaction of its own so far
    /// is run again when a more important one aborts it, and committed here if the commit follows.
    pub(crate) async fn run(
        &mut self,
        text: &Arc<str>,
        totals: &Arc<StatementTotals>,
        (marks, then): (Marks, Then),
        portal: &mut Lent<Portal>,
        streaming: Option<&mut Streaming>,
    ) -> Result<Outcome, Stop> {
        let class = self.sql.class_of(portal);
        if self.sql.status() == TransactionStatus::Idle && !self.has_run {
            let is_sampled = self.shard.samples_next();
            self.conn.clock.sample(is_sampled);
        }
        self.conn.clock.enter(portal.planning_stage());
        // `Bind` has named it.
        let known = self.booked.totals.take().filter(|known| Arc::ptr_eq(known, totals));
        let totals_of = known.unwrap_or_else(|| Arc::clone(totals));
        self.booked = Booked { totals: Some(totals_of), class: Some(class), ..Booked::default() };
        self.conn.lap();
        self.activity.begin(text, class, self.conn.now);
        // A transaction that has a slot keeps it to its end. A statement that begins none needs no admission.
        let needs_slot = self.admission.is_there() && (self.slot.is_some() || !self.sql.does_nothing_inside(portal));
        let entered = if needs_slot { self.enter(class, marks).await } else { Ok(()) };
        let is_alone = then != Then::MoreRows && self.sql.is_alone(portal);
        self.has_run = true;
        self.sql.ends_with_statement(then == Then::Commit);
        let ran = match entered {
            Ok(()) if is_alone => self.run_alone(totals, portal, streaming, then == Then::Commit).await,
            Ok(()) => self.run_to_end(totals, portal, streaming).await,
            Err(stop) => Err(stop),
        };
        if ran.is_ok() {
            self.notices();
        }
        let outcome = ran.map_err(|stop| self.cancelled_by_gate(stop));
        self.rename();
        self.conn.lap();
        // Stages up to here count as the time of the statement. Its answers are booked later, together with these.
        self.conn.clock.enter(Stage::Encode);
        self.booked.is_over = true;
        let times = self.conn.clock.ended();
        let rows = match &outcome {
            Ok(Outcome::Rows(rows, _)) => Some(rows.len() as u64),
            Ok(Outcome::Done(tag) | Outcome::Streamed(tag)) => Some(tag.rows.unwrap_or(0)),
            Ok(Outcome::Empty) => Some(0),
            Err(_) => None,
        };
        self.stats.count(totals, &times, self.booked.parked_ns, rows);
        if let Some(from) = self.sql.log_from() {
            let ms = |of: &dyn Fn(Stage) -> bool| times.sum(of) as f64 / 1e6;
            let (all, wait) = (ms(&|stage| stage != Stage::NetworkRead), ms(&Stage::is_waiting));
            if from.as_secs_f64() * 1e3 <= all {
                tracing::info!(pid = self.activity.pid(), ms = all, wait_ms = wait, %class, statement = %text, "slow statement");
            }
        }
        outcome
    }

    /// Replaces the error of a cancel by the gate by one that says so.
    fn cancelled_by_gate(&self, stop: Stop) -> Stop {
        match &stop {
            Stop::Error(error) if error.cancellation() == Some(Cancellation::UserRequest) => {
                self.slot.as_ref().and_then(Slot::runaway).map_or(stop, Stop::Error)
            }
            _ => stop,
        }
    }

    /// Gives the slot back: the transaction has ended.
    fn leave(&mut self) {
        let has_failed = std::mem::take(&mut self.has_failed);
        if let Some(slot) = self.slot.take()
            && !has_failed
        {
            slot.done(self.conn.time.now());
        }
    }

    /// Tells the gate whether the transaction waits for a lock, in which case perhaps no
    /// admitted transaction can go on.
    fn stall(&self, is_stalled: bool) {
        if let Some(slot) = &self.slot {
            slot.stall(is_stalled);
        }
    }

    /// Waits for admission, after which the transaction has a slot. The wait is part of the statement's time.
    async fn enter(&mut self, class: Class, marks: Marks) -> Result<(), Stop> {
        let begun = self.conn.now;
        let before = self.conn.clock.enter(Stage::Gate);
        let timeout = self.sql.time_left();
        let entered = match self.slot.as_mut() {
            Some(slot) => {
                slot.reclass(class);
                self.conn.before_admission(slot.active(), &self.activity.end, timeout).await.map(Ok)
            }
            None => {
                let hot_key = marks.hot.key(self.sql.hot_key());
                let about = About { class, fingerprint: marks.fingerprint, hot_key, owner: self.activity.owner() };
                let entered =
                    self.conn.before_admission(self.admission.enter(about, begun), &self.activity.end, timeout).await;
                entered.map(|entered| {
                    entered.map(|slot| {
                        slot.cancel_by(|| Arc::clone(&self.canceller));
                        self.slot = Some(slot);
                    })
                })
            }
        };
        self.conn.clock.restore(before);
        match entered? {
            Ok(()) => Ok(()),
            Err(away) => {
                if let Some(notice) = &away.notice {
                    self.conn.replies.notice("NOTICE", notice);
                }
                Err(Stop::Error(away.error))
            }
        }
    }

    /// Returns the marks of a statement for the admission gate.
    pub(crate) fn marks_of(&self, prepared: &Prepared) -> Marks {
        if prepared.generation == self.admission.generation() {
            return prepared.marks;
        }
        self.admission.marks(prepared.text.as_bytes())
    }

    /// Returns the marks of a text, with the generation of the gate's settings from which they follow.
    pub(crate) fn marks(&self, text: &str) -> (Marks, u32) {
        let generation = self.admission.generation();
        (self.admission.marks(text.as_bytes()), generation)
    }

    /// Takes over the names that a statement, or the end of its transaction, has given or taken away in SQL.
    fn rename(&mut self) {
        let Some(renamed) = self.sql.take_renamed() else { return };
        for name in &renamed.statements {
            self.statements.take(name);
            if let Some(statement) = self.sql.statement_named(name) {
                self.keep_statement(name, statement);
            }
        }
        for name in &renamed.portals {
            self.portals.take(name);
        }
    }

    /// Waits, after the preparation of a statement has failed, for uncommitted definitions for which it may have
    /// failed. Returns true if the statement is to be prepared again.
    pub(crate) async fn may_prepare_again(&mut self) -> Result<bool, Stop> {
        loop {
            let awaited = self.sql.await_definitions();
            match self.unless_ended(awaited)? {
                PreparationFailure::Stands => return Ok(false),
                PreparationFailure::Again => return Ok(true),
                PreparationFailure::Parked(parked) => self.wait(&parked).await?,
            }
        }
    }

    /// Waits until the parked work can go on.
    pub(crate) async fn wait(&mut self, parked: &Parked) -> Result<(), Gone> {
        let begun = self.conn.time.now();
        let is_lock = matches!(parked, Parked::Lock(_));
        // Other threads run the statement, or it sleeps.
        let before = match is_lock {
            true => self.conn.clock.enter(Stage::LockWait),
            false => self.conn.clock.enter_away(Stage::Run),
        };
        if matches!(parked, Parked::Analysis(_) | Parked::Rows(..)) {
            self.activity.set_analysed();
        } else {
            self.activity.set_waiting(true);
        }
        if is_lock {
            self.stall(true);
        }
        let on_ready = |wake| parked.on_ready(wake);
        let waited = self.conn.wait(on_ready, parked.until(), &self.waiter, &*self.canceller).await;
        if is_lock {
            self.stall(false);
        }
        self.activity.set_waiting(false);
        self.conn.clock.restore(before);
        if !is_lock {
            let ns = u64::try_from(self.conn.time.since(begun).as_nanos()).unwrap_or(u64::MAX);
            self.booked.parked_ns = self.booked.parked_ns.saturating_add(ns);
        }
        waited
    }

    /// Returns an error if there is no room for a statement or portal of this weight in bytes, in
    /// place of the one of this name.
    pub(crate) fn check_room(&self, weight: usize) -> SqlResult<()> {
        if SMALL_BYTES < self.weight_with(weight) && !has_room(weight) {
            return Err(SqlError::no_room());
        }
        self.check_kept(weight)
    }

    /// Does the same for memory that the session has taken already.
    pub(crate) fn check_kept(&self, weight: usize) -> SqlResult<()> {
        if self.weight_with(weight) <= self.memory_max { Ok(()) } else { Err(errors::out_of_memory(self.memory_max)) }
    }

    /// Returns the weight of the named statements and of the portals, plus `more`, in bytes.
    fn weight_with(&self, more: usize) -> usize {
        let own = self.statements.weight_of_named().saturating_add(self.portals.weight());
        own.saturating_add(self.sql.kept_bytes()).saturating_add(more)
    }

    /// Returns true if a statement has ended the transaction that portals of `before` belong to.
    pub(crate) fn has_ended(&self, before: TransactionStatus, outcome: &Outcome) -> bool {
        let Outcome::Done(CommandTag { words, .. }) = outcome else { return false };
        let is_idle = self.sql.status() == TransactionStatus::Idle;
        // `AND CHAIN` leaves a transaction open, but another one. `ROLLBACK TO` has the tag
        // `ROLLBACK` too, and ends nothing.
        *words == "COMMIT" || (before != TransactionStatus::Idle && is_idle)
    }

    /// Sends rows, at most `limit`, and returns how many were sent.
    pub(crate) async fn send(
        &mut self,
        statement: &Statement,
        formats: &Formats,
        rows: &mut vec::IntoIter<Box<[Datum]>>,
        limit: usize,
    ) -> Result<u64, Stop> {
        let (mut sent, mut scratch) = (0, Scratch::default());
        for row in rows.take(limit) {
            let (columns, forms) = (statement.columns().unwrap_or_default(), self.sql.forms());
            let write = |at, format, value: &_, out: &mut _| {
                codec::write((columns, forms), &mut scratch, at, format, value, out);
            };
            self.conn.replies.row(formats, &row, write)?;
            sent += 1;
            self.row_written(sent).await?;
        }
        Ok(sent)
    }

    /// Sends what is due after a row, of which so many have been written.
    async fn row_written(&mut self, sent: u64) -> Result<(), Stop> {
        self.flush_much().await?;
        // A client that reads everything at once would keep the other sessions of this thread waiting until the end
        // of the result.
        if sent.is_multiple_of(ROWS) || self.conn.replies.out.is_empty() {
            self.conn.lap();
            self.conn.take_turns().await?;
        }
        Ok(())
    }

    /// Writes the answers if they have become long. While a client does not read them, its slot is free for others.
    pub(crate) async fn flush_much(&mut self) -> Result<(), Gone> {
        if self.conn.has_much() { self.flush_all().await } else { Ok(()) }
    }

    /// Writes the answers, with the same effect on the slot.
    pub(crate) async fn flush_all(&mut self) -> Result<(), Gone> {
        let (slot, mut has_stalled) = (&mut self.slot, false);
        let stalls = || {
            has_stalled = true;
            slot.iter_mut().for_each(Slot::unread);
        };
        self.conn.flush_or(stalls).await?;
        if let Some(slot) = slot.as_mut().filter(|_| has_stalled) {
            // A transaction that comes back waits for no longer than the gate's patience.
            slot.active().await;
        }
        Ok(())
    }
}

/// Canceller of an SQL session, as the server and the connection call it.
struct Cancels(Canceller);

impl Cancel for Cancels {
    fn cancel(&self) {
        self.0.cancel();
    }
}

/// Returns a handle that cancels the session's work from another thread.
pub(crate) fn canceller(sql: &sql::session::Session) -> Arc<dyn Cancel> {
    Arc::new(Cancels(sql.canceller()))
}

/// Number of rows that are written between two looks at the clock.
const ROWS: u64 = 32;

/// Returns the count for the tag of a statement that has returned rows, of which `sent` were sent now.
pub(crate) fn tag_rows(tag: &CommandTag, sent: u64, was_suspended: bool) -> Option<u64> {
    match tag.rows {
        Some(rows) if !was_suspended => Some(rows),
        Some(_) => Some(sent),
        // Other statements that return rows, `SHOW` and `EXPLAIN`, do not count them.
        None => matches!(tag.words, "SELECT" | "FETCH").then_some(sent),
    }
}

#[cfg(test)]
mod tests;
