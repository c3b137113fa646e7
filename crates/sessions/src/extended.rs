//! The extended query protocol: parse, bind, describe, execute, close.
//!
//! **Invariant:** a message that fails is answered by its error alone. The unnamed statement never fails because
//! columns have changed since its `Parse` in the same batch: PostgreSQL keeps its tables locked meanwhile; here its
//! columns are sent when it runs.

use crate::codec;
use crate::lent::Lent;
use crate::session::TEXT_MAX;
use crate::session::{Held, Prepared, Session, State, Streaming, Then, tag_rows};
use server::admission::{Hot, Marks};
use sql::session::{Outcome, Statement, bytes_of_rows};
use statement::SqlResult;
use statement::outcome::{CommandTag, TransactionStatus};
use std::sync::Arc;
use types::Datum;
use wire::Stop;
use wire::errors;
use wire::frame::{self, Bind, Codes, Parse};
use wire::reply::Format;
use wire::reply::Formats;

/// Estimated bytes of a prepared statement beside its text, and as a multiple of its text: trees and plans, measured
/// generously.
const STATEMENT_BYTES: usize = 2 << 10;
const STATEMENT_TIMES: usize = 32;
/// Estimated bytes of a portal beside its values and rows.
const PORTAL_BYTES: usize = 512;
/// Number of rows that are weighed between two looks at the limit.
const ROWS_WEIGHED: usize = 1024;

/// Returns the estimated bytes of a prepared statement.
fn weight_of(name: &str, text: &str) -> usize {
    name.len() + text.len() * STATEMENT_TIMES + STATEMENT_BYTES
}

/// Reads format codes: one for all values, or one for each of `count`.
fn formats(codes: Codes<'_>, count: usize, mismatch: impl FnOnce() -> statement::SqlError) -> SqlResult<Formats> {
    let format = |code: i16| match code {
        0 => Ok(Format::Text),
        1 => Ok(Format::Binary),
        code => Err(errors::format_code(code)),
    };
    match codes.count() {
        0 => Ok(Formats::All(Format::Text)),
        1 => codes.iter().next().map_or(Ok(Format::Text), format).map(Formats::All),
        given if given == count => Ok(Formats::Each(codes.iter().map(format).collect::<Result<_, _>>()?)),
        _ => Err(mismatch()),
    }
}

impl Session {
    fn statement(&self, name: &str) -> SqlResult<Arc<Prepared>> {
        self.statements.get(name).cloned().ok_or_else(|| errors::no_statement(name))
    }

    /// Checks that there is room for a statement, and makes the unnamed one's place free.
    fn begin_parse(&mut self, name: &str, text: &str) -> SqlResult<()> {
        if self.statements.has_named(name) {
            return Err(errors::statement_exists(name));
        }
        if name.is_empty() {
            // The old unnamed statement is gone even if the new one is refused.
            self.take_statement(name);
            // Only one unnamed statement of a session is kept, and no longer than until the next: a text may be as long
            // as in the simple protocol. While it is parsed, the process is asked for the memory it takes.
            return Ok(());
        }
        self.check_room(weight_of(name, text))
    }

    /// Removes the statement of this name.
    pub(crate) fn take_statement(&mut self, name: &str) {
        if let Some((old, _)) = self.statements.take(name)
            && TEXT_MAX < old.text.len()
        {
            self.drop_aside(old);
        }
    }

    pub(crate) fn parse(&mut self, body: &[u8]) -> Result<(), Stop> {
        let Parse { name, text, types } = Parse::read(body)?;
        self.begin_parse(name, text)?;
        let statement = self.sql.prepare_once(text, &types)?;
        let (marks, generation) = self.marks(text);
        let totals = self.stats.statement(text);
        self.parsed(name, Prepared { statement, text: text.into(), totals, marks, generation })
    }

    /// Does the same, and waits for uncommitted definitions for which it may fail. `failed` is the error of a first
    /// attempt, if there was one.
    pub(crate) async fn parse_waiting(&mut self, body: &[u8], mut failed: Option<Stop>) -> Result<(), Stop> {
        loop {
            let parsed = match failed.take() {
                Some(failed) => Err(failed),
                None if body.len() < TEXT_MAX => self.parse(body),
                None => self.parse_aside(body).await,
            };
            match parsed {
                Err(Stop::Error(error)) if !self.may_prepare_again().await? => return Err(Stop::Error(error)),
                Err(Stop::Error(_)) => {}
                parsed => return parsed,
            }
        }
    }

    /// Does the same for a long text, on another thread.
    async fn parse_aside(&mut self, body: &[u8]) -> Result<(), Stop> {
        let Parse { name, text, types } = Parse::read(body)?;
        self.begin_parse(name, text)?;
        let text: Arc<str> = text.into();
        let (stats, admission) = (Arc::clone(&self.stats), self.admission.clone());
        self.activity.announce(&text, self.sql.class(), self.conn.now);
        let prepared = self.aside(move |sql| {
            let statement = sql.prepare_once(&text, &types)?;
            let (totals, generation) = (stats.statement(&text), admission.generation());
            let marks = admission.marks(text.as_bytes());
            Ok::<_, statement::SqlError>(Prepared { statement, text, totals, marks, generation })
        });
        let prepared = prepared.await??;
        self.parsed(name, prepared)
    }

    fn parsed(&mut self, name: &str, prepared: Prepared) -> Result<(), Stop> {
        if !name.is_empty() {
            prepared.statement.fix_columns();
            self.sql.name_statement(name, &prepared.statement)?;
        }
        let weight = weight_of(name, &prepared.text);
        self.booked.totals = Some(Arc::clone(&prepared.totals));
        self.statements.put(name, Arc::new(prepared), weight);
        self.notices();
        self.conn.replies.parse_complete();
        Ok(())
    }

    /// Keeps a statement under its name.
    pub(crate) fn keep_statement(&mut self, name: &str, statement: Arc<Statement>) {
        let text: Arc<str> = statement.text().into();
        let (marks, generation) = self.marks(&text);
        let (totals, weight) = (self.stats.statement(&text), weight_of(name, &text));
        self.statements.put(name, Arc::new(Prepared { statement, text, totals, marks, generation }), weight);
    }

    pub(crate) fn bind(&mut self, body: &[u8]) -> Result<(), Stop> {
        let bind = Bind::read(body)?;
        let prepared = self.statement(bind.statement)?;
        // `Execute` may come much later. A plan that is made here belongs to the statement anyway.
        self.booked.totals = Some(Arc::clone(&prepared.totals));
        let statement = &prepared.statement;
        let (given, wanted) = (bind.values.count(), statement.parameters().len());
        let parameter_formats =
            formats(bind.formats, given, || errors::parameter_formats(bind.formats.count(), given))?;
        if given != wanted {
            return Err(errors::parameter_count(given, bind.statement, wanted).into());
        }
        if self.portals.has_named(bind.portal) {
            return Err(errors::portal_exists(bind.portal).into());
        }
        let mut weight = body.len() + bind.values.count() * size_of::<Datum>() + PORTAL_BYTES;
        // A named portal keeps the unnamed statement alive when another takes its place.
        if bind.statement.is_empty() && !bind.portal.is_empty() {
            weight = weight.saturating_add(weight_of("", &prepared.text));
        }
        if bind.portal.is_empty() {
            self.take_unnamed_portal();
        }
        self.check_room(weight)?;
        let mut values = Vec::with_capacity(given);
        for ((at, value), &kind) in bind.values.iter().enumerate().zip(statement.parameters()) {
            values.push(match value {
                Some(bytes) => codec::parameter(at + 1, bytes, parameter_formats.of(at), kind, self.sql.forms())?,
                None => Datum::Null,
            });
        }
        // As in PostgreSQL, a statement without rows accepts any number of formats: they mean nothing.
        let formats = match statement.columns().map(<[_]>::len) {
            Some(count) => formats(bind.results, count, || errors::result_formats(bind.results.count(), count))?,
            None => Formats::All(Format::Text),
        };
        let hot = self.marks_of(&prepared).hot.bound(&bind);
        let mut portal = self.sql.bind(statement, values)?;
        if !bind.portal.is_empty() {
            statement.fix_columns();
            portal = self.sql.name_portal(bind.portal, portal)?;
        }
        let portal = Lent::new(portal);
        self.portals.put(bind.portal, Held { prepared, portal, formats, hot, state: State::Ready }, weight);
        self.notices();
        self.conn.replies.bind_complete();
        Ok(())
    }

    /// Removes the unnamed portal.
    pub(crate) fn take_unnamed_portal(&mut self) {
        if self.portals.take("").is_some() {
            self.sql.close_portal("");
        }
    }

    pub(crate) fn describe(&mut self, body: &[u8]) -> Result<(), Stop> {
        match frame::target(body)? {
            (b'S', name) => {
                let prepared = self.statement(name)?;
                let oids = prepared.statement.parameters().iter().map(|kind| kind.oid());
                self.conn.replies.parameters(oids.collect());
                self.describe_as(prepared, Formats::All(Format::Text));
            }
            (b'P', name) => {
                self.find_portal(name);
                let held = self.portals.get(name).ok_or_else(|| errors::no_portal(name))?;
                let (prepared, formats) = (Arc::clone(&held.prepared), held.formats.clone());
                self.describe_as(prepared, formats);
            }
            (other, _) => return Err(errors::target("DESCRIBE", other).into()),
        }
        Ok(())
    }

    /// Sends the columns. Those of the unnamed statement wait until the next message is known.
    fn describe_as(&mut self, prepared: Arc<Prepared>, formats: Formats) {
        let is_unnamed = self.statements.get("").is_some_and(|unnamed| Arc::ptr_eq(unnamed, &prepared));
        let waits = is_unnamed && prepared.statement.columns().is_some();
        self.described = Some((prepared, formats));
        if !waits {
            self.tell_columns();
        }
    }

    /// Answers the `Describe` that is not answered yet, if there is one.
    pub(crate) fn tell_columns(&mut self) {
        if let Some((prepared, formats)) = self.described.take() {
            prepared.statement.fix_columns();
            self.conn.replies.columns(prepared.statement.columns().map(codec::columns), &formats);
        }
    }

    pub(crate) fn close(&mut self, body: &[u8]) -> Result<(), Stop> {
        // A name that does not exist is closed already.
        match frame::target(body)? {
            (b'S', name) => {
                self.statements.take(name);
                self.sql.forget_statement(name);
            }
            (b'P', name) => {
                self.portals.take(name);
                self.sql.close_portal(name);
            }
            (other, _) => return Err(errors::target("CLOSE", other).into()),
        }
        self.conn.replies.close_complete();
        Ok(())
    }

    pub(crate) async fn execute(&mut self, name: &str, rows_max: i32) -> Result<(), Stop> {
        let limit = usize::try_from(rows_max).ok().filter(|&limit| 0 < limit);
        self.find_portal(name);
        let runs_now = |held: &Held, described: &Arc<_>| {
            matches!(held.state, State::Ready) && Arc::ptr_eq(&held.prepared, described)
        };
        if let Some((described, _)) = &self.described
            && !self.portals.get(name).is_some_and(|held| runs_now(held, described))
        {
            self.tell_columns();
        }
        let held = self.portals.get_mut(name).ok_or_else(|| errors::no_portal(name))?;
        // A portal that may not run now may run after a rollback to a savepoint.
        match &held.state {
            State::Ready => self.sql.check_runnable(&held.portal)?,
            State::Rows(..) | State::Exhausted(_) if self.sql.status() == TransactionStatus::Failed => {
                return Err(errors::aborted().into());
            }
            State::Rows(..) | State::Exhausted(_) | State::Ended => {}
        }
        // The state is taken out while the portal runs. If anything fails, the portal stays ended.
        let state = std::mem::replace(&mut held.state, State::Ended);
        match state {
            State::Ready => self.start(name, limit).await,
            State::Rows(rows, tag, bytes) => self.go_on(name, (rows, tag), limit, Some(bytes)).await,
            State::Exhausted(tag) => {
                let rows = tag_rows(&tag, 0, true);
                self.conn.replies.complete(&tag, rows);
                self.set(name, State::Exhausted(tag));
                Ok(())
            }
            State::Ended if self.sql.status() == TransactionStatus::Failed => Err(errors::aborted().into()),
            State::Ended => Err(errors::cannot_be_run(name).into()),
        }
    }

    /// Takes over a portal that SQL has opened, when it is first asked for.
    fn find_portal(&mut self, name: &str) {
        if name.is_empty() || self.portals.has_named(name) {
            return;
        }
        let Some((portal, statement, is_binary)) = self.sql.portal_named(name) else { return };
        let text = Arc::from(format!("FETCH FROM {name}"));
        let totals = self.stats.statement(&text);
        // The portal belongs to a transaction that has begun.
        let (marks, generation, hot) = (Marks::default(), self.admission.generation(), Hot::Unknown);
        let prepared = Arc::new(Prepared { statement, totals, text, marks, generation });
        let (portal, formats) = (Lent::new(portal), Formats::All(codec::format_of(is_binary)));
        self.portals.put(name, Held { prepared, portal, formats, hot, state: State::Ready }, PORTAL_BYTES);
    }

    async fn start(&mut self, name: &str, limit: Option<usize>) -> Result<(), Stop> {
        let held = self.portals.get_mut(name).ok_or_else(|| errors::no_portal(name))?;
        let (prepared, hot, mut portal) = (Arc::clone(&held.prepared), held.hot, held.portal.take());
        // A portal that may be suspended keeps its rows, or its query goes on.
        let mut streaming = limit.is_none().then(|| Streaming::new(held.formats.clone(), false));
        let mut goes_on = sql::session::Session::advance(&mut portal, limit);
        if let Some(limit) = limit
            && name.is_empty()
            && !goes_on
        {
            self.sql.suspend_at(&mut portal, limit);
        }
        let before = self.sql.status();
        let then = match limit {
            Some(_) => Then::MoreRows,
            None if frame::is_sync(&self.conn.input) => Then::Commit,
            None => Then::Unknown,
        };
        let marks = Marks { hot, ..self.marks_of(&prepared) };
        let streams = streaming.as_mut();
        let outcome = self.run(&prepared.text, &prepared.totals, (marks, then), &mut portal, streams).await;
        goes_on |= outcome.is_ok() && self.sql.has_suspended(&mut portal);
        if outcome.as_ref().is_ok_and(|outcome| self.has_ended(before, outcome)) {
            self.portals.clear();
        } else if let Some(held) = self.portals.get_mut(name) {
            held.portal = portal;
        }
        let outcome = outcome?;
        self.tell_columns();
        match outcome {
            Outcome::Rows(rows, tag) => {
                self.fit_formats(name)?;
                self.go_on(name, (rows.into_iter(), tag), limit, None).await?;
                if goes_on {
                    self.set(name, State::Ready);
                }
                Ok(())
            }
            Outcome::Streamed(tag) => {
                if let Some(streaming) = &streaming {
                    self.end_stream(streaming)?;
                }
                self.conn.replies.complete(&tag, tag.rows);
                // A portal of COPY does not run again.
                if tag.words != "COPY" {
                    self.set(name, State::Exhausted(tag));
                }
                Ok(())
            }
            Outcome::Done(tag) => {
                self.conn.replies.complete(&tag, tag.rows);
                Ok(())
            }
            Outcome::Empty => {
                self.conn.replies.empty();
                Ok(())
            }
        }
    }

    /// Returns an error if the `Bind` gave formats for each column and the number of columns has changed since.
    fn fit_formats(&self, name: &str) -> SqlResult<()> {
        let Some(held) = self.portals.get(name) else { return Ok(()) };
        let columns = held.prepared.statement.columns();
        columns.map_or(Ok(()), |columns| errors::check_formats(&held.formats, columns.len()))
    }

    /// Returns the estimated bytes of the rows that a portal is to keep.
    ///
    /// # Errors
    /// `53200` if the session may not keep them.
    fn weigh(&self, rows: &[Box<[Datum]>]) -> SqlResult<usize> {
        rows.chunks(ROWS_WEIGHED).try_fold(0, |before, rows| {
            let bytes = before + bytes_of_rows(rows);
            self.check_kept(bytes).map(|()| bytes)
        })
    }

    /// Sends rows up to the limit. As in PostgreSQL, a portal is suspended at the limit even if the last row has been
    /// sent. `kept` is the estimated size of the rows in bytes, if the portal was suspended.
    async fn go_on(
        &mut self,
        name: &str,
        (mut rows, tag): (std::vec::IntoIter<Box<[Datum]>>, CommandTag),
        limit: Option<usize>,
        kept: Option<usize>,
    ) -> Result<(), Stop> {
        let Some(held) = self.portals.get(name) else { return Err(errors::no_portal(name).into()) };
        let (prepared, formats) = (Arc::clone(&held.prepared), held.formats.clone());
        let was_suspended = kept.is_some();
        let (now, later) = rows.as_slice().split_at(limit.unwrap_or(usize::MAX).min(rows.len()));
        let left = match kept {
            // Nothing is left to keep.
            Some(_) if later.is_empty() => Ok(0),
            Some(kept) => Ok(kept.saturating_sub(bytes_of_rows(now))),
            None => self.weigh(later),
        };
        let left = match left {
            Ok(left) => left,
            Err(error) => {
                self.portals.take(name);
                return Err(error.into());
            }
        };
        let sent = self.send(&prepared.statement, &formats, &mut rows, limit.unwrap_or(usize::MAX)).await?;
        if limit.is_some_and(|limit| limit as u64 == sent) {
            self.conn.replies.suspended();
            if let Some((held, _)) = self.portals.take(name) {
                self.portals.put(name, Held { state: State::Rows(rows, tag, left), ..held }, left + PORTAL_BYTES);
            }
        } else {
            self.conn.replies.complete(&tag, tag_rows(&tag, sent, was_suspended));
            self.set(name, State::Exhausted(tag));
        }
        Ok(())
    }

    fn set(&mut self, name: &str, state: State) {
        if let Some(held) = self.portals.get_mut(name) {
            held.state = state;
        }
    }
}
