//! Cursors: `DECLARE`, `FETCH`, `MOVE`, `CLOSE`.
//!
//! **Invariant:** a cursor shows the rows as of its declaration, or for a portal of the protocol as of its first run,
//! regardless of later changes. All rows are made at that time, which takes their locks and raises their errors. The
//! exception is a large query that only reads: it goes on while its cursor moves forward, on the snapshot of that
//! time; see [`super::cursor_rows`].

use super::analysis::Analysis;
use super::cursor_rows::{ArrivingRows, CursorRows};
use super::names::{Cursor, bytes_of_rows};
use super::stream::{CAPACITY, Destination};
use super::{Outcome, Parked, Portal, Session, Statement, Step};
use query::plan::ColumnInfo;
use settings::value::bytes;
use statement::error::{Cancellation, SqlError, SqlResult, SqlState};
use statement::outcome::CommandTag;
use std::sync::Arc;
use syntax::ast::{DeclareCommand, FetchCommand, FetchDirection, LockStrength, Query};
use types::datum::Datum;

/// Bound `DECLARE`.
#[derive(Debug)]
pub(crate) struct Declare {
    name: String,
    statement: Arc<Statement>,
    is_scrollable: bool,
    /// True if the cursor was declared with SCROLL.
    is_scroll: bool,
    is_held: bool,
    is_binary: bool,
}

/// `FETCH` or `MOVE`.
#[derive(Debug)]
pub(crate) struct Fetch {
    cursor: String,
    to: FetchTarget,
    is_move: bool,
}

/// Direction and target of a `FETCH`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FetchTarget {
    Forward(FetchCount),
    Backward(FetchCount),
    Absolute(i64),
    Relative(i64),
}

/// Progress of making the rows of a cursor.
enum CursorProgress {
    Rows(CursorRows),
    Waits(Step),
}

/// Number of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FetchCount {
    Some(u64),
    All,
}

impl FetchTarget {
    fn forward(count: i64) -> FetchTarget {
        if count < 0 {
            FetchTarget::Backward(FetchCount::Some(count.unsigned_abs()))
        } else {
            FetchTarget::Forward(FetchCount::Some(count as u64))
        }
    }

    fn backward(count: i64) -> FetchTarget {
        if count < 0 {
            FetchTarget::Forward(FetchCount::Some(count.unsigned_abs()))
        } else {
            FetchTarget::Backward(FetchCount::Some(count as u64))
        }
    }

    fn of(direction: FetchDirection) -> FetchTarget {
        match direction {
            FetchDirection::Forward(count) => FetchTarget::forward(count),
            FetchDirection::ForwardAll => FetchTarget::Forward(FetchCount::All),
            FetchDirection::Backward(count) => FetchTarget::backward(count),
            FetchDirection::BackwardAll => FetchTarget::Backward(FetchCount::All),
            FetchDirection::Absolute(row) => FetchTarget::Absolute(row),
            FetchDirection::Relative(count) => FetchTarget::Relative(count),
        }
    }
}

impl Fetch {
    pub(super) fn new(command: &FetchCommand) -> Fetch {
        let FetchCommand { name, direction, is_move } = command;
        Fetch { cursor: name.to_string(), to: FetchTarget::of(*direction), is_move: *is_move }
    }
}

impl Declare {
    /// # Errors
    /// Options that the query does not allow.
    pub(super) fn new(declare: &DeclareCommand, statement: Statement) -> SqlResult<Declare> {
        let DeclareCommand { name, is_binary, is_insensitive, scrolls, is_held, query } = declare;
        let is_read_only = query.locking.is_empty();
        let refused = |words: &str, why: &str| {
            SqlError::unsupported(format_args!("DECLARE {words} ... {}", locks_of(query)))
                .detail(format!("{why} cursors must be READ ONLY."))
        };
        if !is_read_only {
            if *is_held {
                return Err(refused("CURSOR WITH HOLD", "Holdable"));
            }
            if *scrolls == Some(true) {
                return Err(refused("SCROLL CURSOR", "Scrollable"));
            }
            if *is_insensitive == Some(true) {
                let message = format!("DECLARE INSENSITIVE CURSOR ... {} is not valid", locks_of(query));
                return Err(SqlError::new(SqlState::INVALID_CURSOR_DEFINITION, message)
                    .detail("Insensitive cursors must be READ ONLY."));
            }
        }
        if statement.traits.is_modifying {
            let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(Declare {
            name: name.to_string(),
            statement: Arc::new(statement),
            is_scrollable: scrolls.unwrap_or(is_read_only),
            is_scroll: *scrolls == Some(true),
            is_held: *is_held,
            is_binary: *is_binary,
        })
    }
}

/// Returns the locking clause of a query, for messages.
fn locks_of(query: &Query) -> &'static str {
    match query.locking.first().map(|locking| locking.strength) {
        None => "",
        Some(LockStrength::Update) => "FOR UPDATE",
        Some(LockStrength::NoKeyUpdate) => "FOR NO KEY UPDATE",
        Some(LockStrength::Share) => "FOR SHARE",
        Some(LockStrength::KeyShare) => "FOR KEY SHARE",
    }
}

/// Converts a number of rows; a greater one than fits stands for all.
fn rows_of(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn no_rows() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a cursor without rows")
}

fn no_cursor(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

fn only_forward() -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
        .hint("Declare it with SCROLL option to enable backward scan.")
}

impl Cursor {
    /// Moves over rows in one direction, as far as there are any. Returns the range of rows passed, in the order of
    /// the query.
    fn go(&mut self, is_forward: bool, count: FetchCount) -> SqlResult<std::ops::Range<usize>> {
        let rows = self.rows.known();
        let most = match count {
            FetchCount::All => usize::MAX,
            FetchCount::Some(count) => rows_of(count),
        };
        if is_forward {
            let first = self.at.min(rows);
            let found = most.min(rows - first);
            // After a move past the end, the cursor is behind the last row.
            self.at = if self.at <= rows && found == most { self.at + found } else { rows + 1 };
            return Ok(first..first + found);
        }
        if !self.is_scrollable {
            return Err(only_forward());
        }
        let last = self.at.saturating_sub(1).min(rows);
        let found = most.min(last);
        self.at = if found == most { if found == 0 { self.at } else { last + 1 - found } } else { 0 };
        Ok(last - found..last)
    }

    fn rewind(&mut self) -> SqlResult<()> {
        if self.at != 0 && !self.is_scrollable {
            return Err(only_forward());
        }
        self.at = 0;
        Ok(())
    }

    /// Moves to the target in PostgreSQL's steps, which a cursor that cannot scroll may refuse. Returns the range of
    /// rows to show, true if they are shown from the last to the first, and the row count that a `MOVE` reports.
    fn fetch(&mut self, to: FetchTarget, is_move: bool) -> SqlResult<(std::ops::Range<usize>, bool, u64)> {
        let rows = self.rows.known();
        let one = FetchCount::Some(1);
        let of = |range: std::ops::Range<usize>, is_back: bool| {
            let count = range.len() as u64;
            Ok((range, is_back, count))
        };
        match to {
            FetchTarget::Forward(FetchCount::Some(0))
            | FetchTarget::Backward(FetchCount::Some(0))
            | FetchTarget::Relative(0) => {
                // The current row again. PostgreSQL goes one back and one forward, which NO SCROLL refuses.
                let is_on_row = 1 <= self.at && self.at <= rows;
                if is_move {
                    return Ok((0..0, false, u64::from(is_on_row)));
                }
                if is_on_row {
                    self.go(false, one)?;
                    return of(self.go(true, one)?, false);
                }
                of(0..0, false)
            }
            FetchTarget::Backward(FetchCount::All) if is_move => {
                let passed = self.at.saturating_sub(1) as u64;
                self.rewind()?;
                Ok((0..0, false, passed))
            }
            FetchTarget::Forward(count) => of(self.go(true, count)?, false),
            FetchTarget::Backward(count) => of(self.go(false, count)?, true),
            FetchTarget::Absolute(0) => {
                self.rewind()?;
                of(0..0, false)
            }
            FetchTarget::Absolute(count) if 0 < count => {
                // PostgreSQL rewinds where that is the shorter way, which a cursor that cannot scroll refuses unless it
                // is at the start.
                let before = count as u64 - 1;
                let behind = self.at.min(rows) as u64;
                if before <= behind / 2 {
                    self.rewind()?;
                    self.go(true, FetchCount::Some(before))?;
                } else if before < self.at as u64 {
                    self.go(false, FetchCount::Some(self.at as u64 - before))?;
                } else {
                    self.go(true, FetchCount::Some(before - self.at as u64))?;
                }
                of(self.go(true, one)?, false)
            }
            // Counted from the end, which is only known once the last row has come.
            FetchTarget::Absolute(count) => {
                self.go(true, FetchCount::All)?;
                if count < -1 {
                    self.go(false, FetchCount::Some(count.unsigned_abs() - 1))?;
                }
                of(self.go(false, one)?, true)
            }
            FetchTarget::Relative(count) => {
                let (is_forward, steps) = (0 < count, count.unsigned_abs());
                if 1 < steps {
                    self.go(is_forward, FetchCount::Some(steps - 1))?;
                }
                of(self.go(is_forward, one)?, !is_forward)
            }
        }
    }

    /// Returns the range of rows that a forward move needs. It is empty for a backward move.
    fn reach(&self, to: FetchTarget, is_move: bool) -> std::ops::Range<usize> {
        let (needed, end) = match to {
            FetchTarget::Forward(FetchCount::All) => (self.at, usize::MAX),
            FetchTarget::Forward(FetchCount::Some(count)) => (self.at, self.at.saturating_add(rows_of(count))),
            FetchTarget::Absolute(row) if 0 < row => (row as usize - 1, row as usize),
            FetchTarget::Relative(count) if 0 < count => {
                let end = self.at.saturating_add(rows_of(count.unsigned_abs()));
                (end - 1, end)
            }
            FetchTarget::Absolute(_) | FetchTarget::Relative(_) | FetchTarget::Backward(_) => (self.at, self.at),
        };
        if is_move { end..end } else { needed..end }
    }
}

impl Session {
    /// Returns the columns of a `FETCH`.
    pub(super) fn fetch_columns(&self, fetch: &Fetch) -> Option<Vec<ColumnInfo>> {
        if fetch.is_move {
            return None;
        }
        self.names.get().portals.get(&fetch.cursor)?.statement.columns.clone()
    }

    /// Returns true if the statement is a `FETCH` from a cursor that was declared BINARY.
    pub fn is_binary(&self, statement: &Statement) -> bool {
        match &*statement.bound().action {
            super::Action::Fetch(fetch) => self.names.get().portals.get(&fetch.cursor).is_some_and(|one| one.is_binary),
            _ => false,
        }
    }

    /// `DECLARE`
    pub(super) fn declare(&mut self, declare: &Declare, values: &[Datum]) -> SqlResult<Step> {
        let Declare { name, statement, is_scrollable, is_scroll, is_held, is_binary } = declare;
        if name.is_empty() {
            return Err(SqlError::new(SqlState::INVALID_CURSOR_NAME, "invalid cursor name: must not be empty"));
        }
        if !is_held {
            self.need_block("DECLARE CURSOR")?;
        }
        if self.names.get().portals.contains_key(name) {
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")));
        }
        self.open_implicit();
        let rows = match self.make_rows(statement, values, !is_scroll && !is_held)? {
            CursorProgress::Rows(rows) => rows,
            CursorProgress::Waits(step) => return Ok(step),
        };
        let bytes = self.bytes_kept(&rows)?;
        let is_scrollable = *is_scrollable && matches!(rows, CursorRows::Whole(_));
        let (is_held, is_binary) = (*is_held, *is_binary);
        let new = self.new_portal(&statement.as_run());
        let cursor = Cursor { rows, bytes, is_scrollable, is_held, is_binary, ..new };
        self.put_portal(name, cursor)?;
        Ok(Step::Done(Outcome::Done(CommandTag { words: "DECLARE CURSOR", rows: None })))
    }

    /// Makes the rows of a cursor. `may_arrive` is true if it never moves back and ends with its transaction.
    fn make_rows(
        &mut self,
        statement: &Arc<Statement>,
        values: &[Datum],
        may_arrive: bool,
    ) -> SqlResult<CursorProgress> {
        let analysis = self.analysis.0.get();
        if let Some(rows) = analysis.as_ref().and_then(|analysis| self.detach(analysis)) {
            return Ok(CursorProgress::Rows(rows));
        }
        self.check_cursor_time()?;
        // A rollback to a savepoint undoes changes that the run would have read in part.
        let has_changed_nothing = self.engine.weight() == 0;
        if may_arrive && has_changed_nothing {
            self.destination = Destination::Cursor { is_large: false };
        }
        let step = self.act_current(statement, values);
        self.destination = Destination::Whole;
        match step? {
            Step::Done(Outcome::Rows(rows, _)) => Ok(CursorProgress::Rows(CursorRows::Whole(rows))),
            // The query has ended meanwhile.
            Step::Done(Outcome::Streamed(_)) => {
                let rows = analysis.as_ref().and_then(|analysis| analysis.begun_rows());
                let rows = rows.map(|rows| ArrivingRows::new(None, Arc::clone(rows)));
                rows.map(|rows| CursorProgress::Rows(CursorRows::Arriving(rows))).ok_or_else(no_rows)
            }
            Step::Done(_) => Err(no_rows()),
            Step::Parked(Parked::Analysis(analysis)) => Ok(match self.detach(&analysis) {
                Some(rows) => CursorProgress::Rows(rows),
                None => CursorProgress::Waits(Step::Parked(Parked::Rows(analysis, self.deadline))),
            }),
            step @ (Step::Parked(_) | Step::CopyIn(_) | Step::CopyOut(_)) => Ok(CursorProgress::Waits(step)),
        }
    }

    /// Gives the run under way to its cursor, if it has produced rows.
    fn detach(&mut self, analysis: &Arc<Analysis>) -> Option<CursorRows> {
        let rows = Arc::clone(analysis.begun_rows()?);
        self.analysis.0.set(None);
        self.running = None;
        Some(CursorRows::Arriving(ArrivingRows::new(Some(Arc::clone(analysis)), rows)))
    }

    /// # Errors
    /// `57014` if the statement has exceeded its time limit. A cursor's run does not check that itself.
    fn check_cursor_time(&self) -> SqlResult<()> {
        if self.analysis.0.get().is_some() && self.deadline.is_some_and(|deadline| self.time.is_past(deadline)) {
            return Err(SqlError::cancelled(Cancellation::StatementTimeout));
        }
        Ok(())
    }

    /// Makes sure that the rows of a `FETCH` have arrived. Returns the wait, if they have not.
    fn await_rows(&mut self, name: &str, to: FetchTarget, is_move: bool) -> SqlResult<Option<Step>> {
        let is_late = self.check_cursor_time();
        {
            let mut names = self.names.get();
            let cursor = names.portals.get_mut(name).ok_or_else(|| no_cursor(name))?;
            let range = cursor.reach(to, is_move);
            let CursorRows::Arriving(rows) = &mut cursor.rows else { return Ok(None) };
            let awaited = rows.poll(&range);
            // While the statement waits, a cancel ends the run, and so does an error here.
            self.analysis.0.set(awaited.as_ref().ok().cloned().flatten());
            if let Some(analysis) = awaited? {
                is_late?;
                return Ok(Some(Step::Parked(Parked::Rows(analysis, self.deadline))));
            }
        }
        Ok(None)
    }

    /// Returns the bytes of the rows that a cursor keeps.
    ///
    /// # Errors
    /// `53200` if the session may not keep them.
    fn bytes_kept(&self, rows: &CursorRows) -> SqlResult<usize> {
        let bytes = match rows {
            CursorRows::None => 0,
            CursorRows::Whole(rows) => bytes_of_rows(rows),
            CursorRows::Arriving(_) => CAPACITY,
        };
        self.check_kept(bytes).map(|()| bytes)
    }

    /// # Errors
    /// `53200` if the session's cursors would exceed their limit with these additional bytes.
    fn check_kept(&self, more: usize) -> SqlResult<()> {
        let most = bytes(self.settings.show("overtake.session_memory")?);
        if most.is_none_or(|most| self.kept_bytes().saturating_add(more) <= most) {
            return Ok(());
        }
        let kilobytes = most.unwrap_or_default() >> 10;
        Err(SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .detail(format!("Prepared statements and portals of one session may take {kilobytes} kB."))
            .hint("Close some, or raise overtake.session_memory."))
    }

    /// Runs `FETCH` or `MOVE`.
    pub(super) fn fetch(&mut self, statement: &Statement, fetch: &Fetch) -> SqlResult<Step> {
        if let Some(step) = self.made(&fetch.cursor)? {
            return Ok(step);
        }
        if let Some(step) = self.await_rows(&fetch.cursor, fetch.to, fetch.is_move)? {
            return Ok(step);
        }
        let mut names = self.names.get();
        let cursor = names.portals.get_mut(&fetch.cursor).ok_or_else(|| no_cursor(&fetch.cursor))?;
        let types = |columns: &Option<Vec<ColumnInfo>>| {
            columns.as_ref().map(|columns| columns.iter().map(|column| column.kind).collect::<Vec<_>>())
        };
        if !fetch.is_move && types(&cursor.statement.columns) != types(&statement.columns) {
            let message = "cached plan must not change result type";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let (range, is_back, count) = cursor.fetch(fetch.to, fetch.is_move)?;
        let outcome = if fetch.is_move {
            Outcome::Done(CommandTag { words: "MOVE", rows: Some(count) })
        } else {
            Outcome::Rows(
                cursor.rows.take(range, is_back, cursor.is_scrollable),
                CommandTag { words: "FETCH", rows: Some(count) },
            )
        };
        Ok(Step::Done(outcome))
    }

    /// Runs the statement of a portal. The rows of an unnamed one that its client reads piece by piece may arrive while they
    /// are made: then it becomes a cursor without a name, and these are the first of them.
    pub(super) fn act_portal(&mut self, portal: &Portal) -> SqlResult<Step> {
        let Portal { statement, values, rows_first } = portal;
        let Some(rows_first) = rows_first.filter(|_| statement.traits.is_query) else {
            return self.act_current(statement, values);
        };
        if !self.names.get().portals.contains_key("") {
            self.open_implicit();
            let rows = match self.make_rows(statement, values, true)? {
                CursorProgress::Waits(step) => return Ok(step),
                CursorProgress::Rows(CursorRows::Whole(rows)) => return Ok(Step::Done(super::queries::rows(rows))),
                CursorProgress::Rows(rows @ (CursorRows::None | CursorRows::Arriving(_))) => rows,
            };
            let bytes = self.bytes_kept(&rows)?;
            self.put_portal("", Cursor { rows, bytes, ..self.new_portal(statement) })?;
        }
        self.advance_portal("", &[Datum::Int8(i64::try_from(rows_first).unwrap_or(i64::MAX))])
    }

    /// Returns the next rows of a portal, for the protocol.
    pub(super) fn advance_portal(&mut self, name: &str, values: &[Datum]) -> SqlResult<Step> {
        let count = match values {
            [Datum::Int8(count)] => FetchCount::Some(count.unsigned_abs()),
            _ => FetchCount::All,
        };
        if let Some(step) = self.made(name)? {
            return Ok(step);
        }
        if let Some(step) = self.await_rows(name, FetchTarget::Forward(count), false)? {
            return Ok(step);
        }
        let mut names = self.names.get();
        let cursor = names.portals.get_mut(name).ok_or_else(|| no_cursor(name))?;
        let (range, is_back, count) = cursor.fetch(FetchTarget::Forward(count), false)?;
        Ok(Step::Done(Outcome::Rows(
            cursor.rows.take(range, is_back, cursor.is_scrollable),
            CommandTag { words: "SELECT", rows: Some(count) },
        )))
    }

    /// Makes the rows of a portal, if it has none yet. Returns the wait, if there is one.
    fn made(&mut self, name: &str) -> SqlResult<Option<Step>> {
        let (statement, values) = match self.names.get().portals.get(name) {
            None => return Err(no_cursor(name)),
            Some(cursor) if !matches!(cursor.rows, CursorRows::None) => return Ok(None),
            Some(cursor) => (Arc::clone(&cursor.statement), cursor.values.clone()),
        };
        if !statement.traits.is_query {
            return Err(SqlError::unsupported("FETCH from a portal that is no query"));
        }
        let rows = match self.make_rows(&statement, &values, true)? {
            CursorProgress::Rows(rows) => rows,
            CursorProgress::Waits(step) => return Ok(Some(step)),
        };
        let bytes = self.bytes_kept(&rows)?;
        if let Some(cursor) = self.names.get().portals.get_mut(name) {
            (cursor.rows, cursor.bytes) = (rows, bytes);
        }
        Ok(None)
    }

    /// `CLOSE`; without a name, of all cursors.
    pub(super) fn close_cursor(&mut self, name: Option<&str>) -> SqlResult<()> {
        let Some(name) = name else {
            self.close_portals(|_| true);
            return Ok(());
        };
        self.names.get().portals.remove(name).ok_or_else(|| no_cursor(name))?;
        self.renamed.get_or_insert_default().portals.push(name.to_owned());
        Ok(())
    }
}
