//! COPY of a session: its data arrive or leave in several calls.
//!
//! **Invariant:** incoming data are buffered up to one piece and one incomplete row. Rows inserted from a piece belong
//! to the transaction; an error fails the transaction.

use super::run::{RunNeeds, RunOutcome, StatementRun};
use super::{Action, Outcome, Parked, Session, Step};
use crate::exec::ConstraintEvent;
use crate::exec::copy::{CopyOutput, CopyState};
use engine::memory::SMALL_BYTES;
use query::bind::{CopyFrom, CopySource, CopyTo};
use query::copy::CopyFormat;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::holdings::{MemoryUse, SessionHoldings};
use statement::outcome::CommandTag;
use statement::outcome::CopyShape;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

/// Size of the data that are inserted as one part of a statement.
const PIECE_BYTES: usize = 1 << 16;
/// Maximum length of a row. A longer one would not fit into a table.
const ROW_BYTES_MAX: usize = 128 << 20;

/// Progress of a COPY.
#[derive(Debug)]
pub enum CopyPart {
    /// More data follow.
    More,
    /// All data were sent; the command tag.
    Last(CommandTag),
    /// The COPY waits. Call again after the wait.
    Parked(Parked),
}

/// Flag of a COPY under way, by which a cancel reaches it between its pieces, when no statement runs.
#[derive(Default)]
pub(super) struct CopyFlag(AtomicU8);

const ON: u8 = 1;
const CANCELLED: u8 = 2;

impl CopyFlag {
    pub(super) fn cancel(&self) {
        // Without a COPY there is nothing to cancel.
        let _ = self.0.compare_exchange(ON, CANCELLED, SeqCst, SeqCst);
    }
}

/// COPY under way.
pub(super) enum ActiveCopy {
    In(Box<IncomingCopy>),
    Out(CopyOutput),
}

pub(super) struct IncomingCopy {
    action: Arc<Action>,
    state: CopyState,
    /// Foreign keys that are checked at the end.
    later: Vec<ConstraintEvent>,
    /// Data that are not inserted yet.
    data: Vec<u8>,
    /// Number of buffered bytes from which on the data are examined again.
    wanted: usize,
    is_all: bool,
}

impl IncomingCopy {
    /// Buffers data. An incomplete row counts as memory of its statement.
    fn takes(&mut self, data: &[u8], holdings: &SessionHoldings) -> SqlResult<()> {
        let needed = self.data.len() + data.len();
        let before = self.data.capacity();
        if before < needed {
            let capacity = needed.max(2 * before);
            // The old buffer is freed only after it was copied into the new one.
            SqlError::check_room(if capacity < SMALL_BYTES { 0 } else { capacity })?;
            self.data.reserve_exact(capacity - self.data.len());
            holdings.add(MemoryUse::Results, (self.data.capacity() - before) as i64);
        }
        self.data.extend_from_slice(data);
        Ok(())
    }
}

fn tag(rows: u64) -> CommandTag {
    CommandTag { words: "COPY", rows: Some(rows) }
}

fn none_under_way() -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, "there is no COPY in progress")
}

impl Session {
    /// Starts a COPY.
    pub(super) fn copy(&mut self, given: StatementRun<'_>) -> SqlResult<Step> {
        match &*given.bound.action {
            Action::CopyFrom(from) => self.copy_in(given, from),
            Action::CopyTo(to) => self.copy_out(given, to),
            _ => Err(none_under_way()),
        }
    }

    fn copy_in(&mut self, given: StatementRun<'_>, from: &CopyFrom) -> SqlResult<Step> {
        if self.settings.is_read_only() {
            let message = "cannot execute COPY FROM in a read-only transaction";
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        match self.run(&[], RunNeeds::of(given.bound), |_| Ok(()))? {
            RunOutcome::Parked(parked) => return Ok(Step::Parked(parked)),
            RunOutcome::Moved => return self.again(given),
            RunOutcome::Done(()) => {}
        }
        if from.options.freeze {
            let message = "COPY FREEZE has no effect on this server";
            self.notices.push(("NOTICE", SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message)));
        }
        self.copy_flag.0.store(ON, SeqCst);
        self.copying = Some(ActiveCopy::In(Box::new(IncomingCopy {
            action: Arc::clone(&given.bound.action),
            state: CopyState::new(from),
            later: Vec::new(),
            data: Vec::new(),
            wanted: PIECE_BYTES,
            is_all: false,
        })));
        let is_binary = from.options.format == CopyFormat::Binary;
        Ok(Step::CopyIn(CopyShape { is_binary, columns: from.places.len() }))
    }

    fn copy_out(&mut self, given: StatementRun<'_>, to: &CopyTo) -> SqlResult<Step> {
        let is_binary = to.options.format == CopyFormat::Binary;
        let shape = CopyShape { is_binary, columns: to.kinds.len() };
        if let CopySource::Query(plan) = &to.rows
            && let Some(sink) = self.sink_of(given, plan)
        {
            return self.stream_copy(given, to, shape, &sink);
        }
        let ran = self.run(given.values, RunNeeds::of(given.bound), |run| run.copy_out(to))?;
        self.step_of(ran, given, |session, sent| {
            session.copy_flag.0.store(ON, SeqCst);
            session.copying = Some(ActiveCopy::Out(sent));
            Ok(Step::CopyOut(shape))
        })
    }

    /// Ends the COPY, after success or failure.
    pub(super) fn end_copy(&mut self) {
        if self.copying.take().is_some() {
            self.env.holdings.forget_results();
        }
        self.copy_flag.0.store(0, SeqCst);
    }

    /// Checks for a cancel of the COPY.
    fn copy_goes_on(&mut self) -> SqlResult<()> {
        let is_late = self.deadline.is_some_and(|deadline| self.time.is_past(deadline));
        if is_late || self.copy_flag.0.load(SeqCst) == CANCELLED {
            let error = self.told(engine::Error::Cancelled.into(), false);
            self.fail();
            return Err(error);
        }
        Ok(())
    }

    /// Receives a piece of the data, which may end anywhere in a row. If it has to wait, the piece is kept; call again
    /// with an empty one after the wait.
    ///
    /// # Errors
    /// Errors in the data, and those of inserting rows. The transaction has failed then.
    pub fn copy_data(&mut self, data: &[u8]) -> SqlResult<Option<Parked>> {
        self.copy_goes_on()?;
        let Some(ActiveCopy::In(copy)) = &mut self.copying else { return Err(none_under_way()) };
        if let Err(error) = copy.takes(data, &self.env.holdings) {
            self.fail();
            return Err(error);
        }
        // The client sends nothing at the moment, and may expect an error in what it has sent. Full pieces were
        // examined before.
        let is_due = match data {
            [] => (1..PIECE_BYTES).contains(&copy.data.len()),
            _ => copy.wanted <= copy.data.len(),
        };
        if !is_due && !self.is_parked {
            return Ok(None);
        }
        self.copy_piece()
    }

    /// Receives the end of the data. If it has to wait, call again after the wait.
    ///
    /// # Errors
    /// As [`Session::copy_data`].
    pub fn copy_done(&mut self) -> SqlResult<CopyPart> {
        self.copy_goes_on()?;
        let Some(ActiveCopy::In(copy)) = &mut self.copying else { return Err(none_under_way()) };
        copy.is_all = true;
        if let Some(parked) = self.copy_piece()? {
            return Ok(CopyPart::Parked(parked));
        }
        let Some(ActiveCopy::In(copy)) = &self.copying else { return Err(none_under_way()) };
        let rows = copy.state.rows;
        self.end_copy();
        self.end_timer();
        Ok(CopyPart::Last(tag(rows)))
    }

    /// Inserts the complete rows that are buffered.
    fn copy_piece(&mut self) -> SqlResult<Option<Parked>> {
        let Some(ActiveCopy::In(mut copy)) = self.copying.take() else { return Err(none_under_way()) };
        let action = Arc::clone(&copy.action);
        let Action::CopyFrom(from) = &*action else { return Err(none_under_way()) };
        let step = self
            .run(&[], RunNeeds::Nothing, |run| run.copy_in(from, &copy.state, &copy.data, copy.is_all, &copy.later));
        match step.inspect_err(|_| self.fail())? {
            // A table that foreign keys refer to was redefined.
            RunOutcome::Moved => {
                self.fail();
                Err(SqlError::changed_since())
            }
            RunOutcome::Parked(parked) => {
                self.copying = Some(ActiveCopy::In(copy));
                Ok(Some(parked))
            }
            RunOutcome::Done((mut state, later)) => {
                copy.later.extend(later);
                let rest = copy.data.len().saturating_sub(state.at);
                if ROW_BYTES_MAX < rest {
                    self.fail();
                    return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a row of COPY data is too long"));
                }
                copy.data.drain(..state.at.min(copy.data.len()));
                // A long row has left the buffer.
                if copy.data.len() < PIECE_BYTES {
                    copy.data.shrink_to(PIECE_BYTES);
                }
                self.env.holdings.add(MemoryUse::Results, copy.data.capacity() as i64);
                state.at = 0;
                // An incomplete row is not examined again with each piece.
                copy.wanted = PIECE_BYTES.max(2 * rest);
                copy.state = state;
                self.copying = Some(ActiveCopy::In(copy));
                Ok(None)
            }
        }
    }

    /// Passes the next rows of a COPY TO to `each`, about a buffer's worth, each with its line end.
    ///
    /// # Errors
    /// If no COPY TO is in progress.
    pub fn copy_next(&mut self, each: &mut dyn FnMut(&[u8])) -> SqlResult<CopyPart> {
        self.copy_goes_on()?;
        let Some(ActiveCopy::Out(sent)) = &mut self.copying else { return Err(none_under_way()) };
        if let Some(piece) = sent.next() {
            piece.messages().for_each(each);
        }
        if !sent.is_empty() {
            return Ok(CopyPart::More);
        }
        let rows = sent.rows;
        self.end_copy();
        self.end_timer();
        Ok(CopyPart::Last(tag(rows)))
    }
}

impl Step {
    /// Returns the outcome, if the COPY is complete.
    pub fn done(self) -> Option<Outcome> {
        match self {
            Step::Done(outcome) => Some(outcome),
            Step::Parked(_) | Step::CopyIn(_) | Step::CopyOut(_) => None,
        }
    }
}
