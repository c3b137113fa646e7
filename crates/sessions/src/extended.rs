//! The extended protocol: parse, bind, describe, execute, close.
//!
//! **Invariant:** a message that fails has answered nothing but its error. The unnamed statement never fails for columns that
//! somebody has changed since its `Parse`, of the same batch: PostgreSQL keeps its tables locked meanwhile, here its columns are
//! told when it runs.

use crate::backend::Backend;
use crate::lent::Lent;
use crate::session::TEXT_MAX;
use crate::session::{Held, Prepared, Session, State, Then, tag_rows};
use server::door::{Hot, Marks};
use sql::session::{Outcome, bytes_of_rows};
use statement::SqlResult;
use statement::outcome::{Tag, TransactionStatus};
use std::sync::Arc;
use std::time::Instant;
use types::Datum;
use wire::Stop;
use wire::errors;
use wire::frame::{self, Bind, Codes, Parse};
use wire::reply::Format;
use wire::reply::Formats;

/// What a prepared statement weighs beside its text, and how many times its text: trees and plans, measured generously.
const STATEMENT_BYTES: usize = 2 << 10;
const STATEMENT_TIMES: usize = 32;
/// What a portal weighs beside its values and rows.
const PORTAL_BYTES: usize = 512;
/// Rows that are weighed between two looks at the limit.
const ROWS_WEIGHED: usize = 1024;

/// What a statement weighs.
fn weight_of(name: &str, text: &str) -> usize {
    name.len() + text.len() * STATEMENT_TIMES + STATEMENT_BYTES
}

/// One format for all, or one for each of `count`.
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

impl<B: Backend> Session<B> {
    fn statement(&self, name: &str) -> SqlResult<Arc<Prepared<B::Statement>>> {
        self.statements.get(name).cloned().ok_or_else(|| errors::no_statement(name))
    }

    /// Makes room for a statement.
    fn begin_parse(&mut self, name: &str, text: &str) -> SqlResult<()> {
        if self.statements.has_named(name) {
            return Err(errors::statement_exists(name));
        }
        if name.is_empty() {
            // It is gone even if the new one is refused.
            self.take_statement(name);
            // Only one of a session is kept, and no longer than until the next: a text may be as long as by the simple protocol. While it
            // is read, the process is asked for what it takes.
            return Ok(());
        }
        self.check_room(weight_of(name, text))
    }

    /// The statement of this name is gone.
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
        let statement = self.backend.prepare(text, &types)?;
        let (marks, generation) = self.marks(text);
        let totals = self.stats.statement(text);
        self.parsed(name, Prepared { statement, text: text.into(), totals, marks, generation })
    }

    /// The same, waiting for definitions under way for which it may fail, as it has `failed` once if that is known.
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

    /// The same of a long text.
    async fn parse_aside(&mut self, body: &[u8]) -> Result<(), Stop> {
        let Parse { name, text, types } = Parse::read(body)?;
        self.begin_parse(name, text)?;
        let text: Arc<str> = text.into();
        let (stats, door) = (Arc::clone(&self.stats), self.door.clone());
        self.seen.announce(&text, self.backend.class(), Instant::now());
        let prepared = self.aside(move |backend| {
            let statement = backend.prepare(&text, &types)?;
            let (totals, generation) = (stats.statement(&text), door.generation());
            let marks = door.marks(text.as_bytes());
            Ok::<_, statement::SqlError>(Prepared { statement, text, totals, marks, generation })
        });
        let prepared = prepared.await??;
        self.parsed(name, prepared)
    }

    fn parsed(&mut self, name: &str, prepared: Prepared<B::Statement>) -> Result<(), Stop> {
        if !name.is_empty() {
            self.backend.fix_columns(&prepared.statement);
            self.backend.name_statement(name, &prepared.statement)?;
        }
        let weight = weight_of(name, &prepared.text);
        self.statements.put(name, Arc::new(prepared), weight);
        self.spent.parse += self.conn.lap();
        self.notices();
        self.conn.replies.parse_complete();
        Ok(())
    }

    /// Keeps it by its name.
    pub(crate) fn keep_statement(&mut self, name: &str, statement: B::Statement, text: &str) {
        let (marks, generation) = self.marks(text);
        let prepared = Prepared { statement, text: text.into(), totals: self.stats.statement(text), marks, generation };
        self.statements.put(name, Arc::new(prepared), weight_of(name, text));
    }

    pub(crate) fn bind(&mut self, body: &[u8]) -> Result<(), Stop> {
        let bind = Bind::read(body)?;
        let prepared = self.statement(bind.statement)?;
        let statement = &prepared.statement;
        let (given, wanted) = (bind.values.count(), self.backend.parameter_count(statement));
        let parameter_formats =
            formats(bind.formats, given, || errors::parameter_formats(bind.formats.count(), given))?;
        if given != wanted {
            return Err(errors::parameter_count(given, bind.statement, wanted).into());
        }
        if self.portals.has_named(bind.portal) {
            return Err(errors::portal_exists(bind.portal).into());
        }
        let mut weight = body.len() + bind.values.count() * size_of::<Datum>() + PORTAL_BYTES;
        // A named portal keeps the unnamed statement when another takes its place.
        if bind.statement.is_empty() && !bind.portal.is_empty() {
            weight = weight.saturating_add(weight_of("", &prepared.text));
        }
        if bind.portal.is_empty() {
            self.portals.take("");
        }
        self.check_room(weight)?;
        let mut values = Vec::with_capacity(given);
        for (at, value) in bind.values.iter().enumerate() {
            values.push(match value {
                Some(bytes) => self.backend.read(statement, at, parameter_formats.of(at), bytes)?,
                None => Datum::Null,
            });
        }
        // A statement without rows takes any number of formats, as there: they say nothing.
        let formats = match self.backend.column_count(statement) {
            Some(count) => formats(bind.results, count, || errors::result_formats(bind.results.count(), count))?,
            None => Formats::All(Format::Text),
        };
        let hot = self.marks_of(&prepared).hot.bound(&bind);
        let mut portal = self.backend.bind(statement, values)?;
        if !bind.portal.is_empty() {
            self.backend.fix_columns(statement);
            portal = self.backend.name_portal(bind.portal, portal)?;
        }
        let portal = Lent::new(portal);
        self.portals.put(bind.portal, Held { prepared, portal, formats, hot, state: State::Ready }, weight);
        self.notices();
        self.conn.replies.bind_complete();
        Ok(())
    }

    pub(crate) fn describe(&mut self, body: &[u8]) -> Result<(), Stop> {
        match frame::target(body)? {
            (b'S', name) => {
                let prepared = self.statement(name)?;
                self.conn.replies.parameters(self.backend.parameters(&prepared.statement));
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

    /// Tells the columns: those of the unnamed statement when the next message is known.
    fn describe_as(&mut self, prepared: Arc<Prepared<B::Statement>>, formats: Formats) {
        let is_unnamed = self.statements.get("").is_some_and(|unnamed| Arc::ptr_eq(unnamed, &prepared));
        let waits = is_unnamed && self.backend.column_count(&prepared.statement).is_some();
        self.described = Some((prepared, formats));
        if !waits {
            self.tell_columns();
        }
    }

    /// Answers the `Describe` that is not answered yet, if there is one.
    pub(crate) fn tell_columns(&mut self) {
        if let Some((prepared, formats)) = self.described.take() {
            self.backend.fix_columns(&prepared.statement);
            self.conn.replies.columns(self.backend.columns(&prepared.statement), &formats);
        }
    }

    pub(crate) fn close(&mut self, body: &[u8]) -> Result<(), Stop> {
        // What does not exist is closed already.
        match frame::target(body)? {
            (b'S', name) => {
                self.statements.take(name);
                self.backend.forget_statement(name);
            }
            (b'P', name) => {
                self.portals.take(name);
                self.backend.close_portal(name);
            }
            (other, _) => return Err(errors::target("CLOSE", other).into()),
        }
        self.conn.replies.close_complete();
        Ok(())
    }

    pub(crate) async fn execute(&mut self, name: &str, rows_max: i32) -> Result<(), Stop> {
        let limit = usize::try_from(rows_max).ok().filter(|&limit| 0 < limit);
        self.find_portal(name);
        let runs_now = |held: &Held<B>, described: &Arc<_>| {
            matches!(held.state, State::Ready) && Arc::ptr_eq(&held.prepared, described)
        };
        if let Some((described, _)) = &self.described
            && !self.portals.get(name).is_some_and(|held| runs_now(held, described))
        {
            self.tell_columns();
        }
        let held = self.portals.get_mut(name).ok_or_else(|| errors::no_portal(name))?;
        // Out of its place while it runs; whatever fails leaves it there, ended.
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
            State::Ended if self.backend.status() == TransactionStatus::Failed => Err(errors::aborted().into()),
            State::Ended => Err(errors::cannot_be_run(name).into()),
        }
    }

    /// Portals that SQL has opened are here when they are asked for.
    fn find_portal(&mut self, name: &str) {
        if name.is_empty() || self.portals.has_named(name) {
            return;
        }
        let Some((portal, statement, format)) = self.backend.portal_named(name) else { return };
        let text = Arc::from(format!("FETCH FROM {name}"));
        let totals = self.stats.statement(&text);
        // It is of a transaction that has begun.
        let (marks, generation, hot) = (Marks::default(), self.door.generation(), Hot::Unknown);
        let prepared = Arc::new(Prepared { statement, totals, text, marks, generation });
        let (portal, formats) = (Lent::new(portal), Formats::All(format));
        self.portals.put(name, Held { prepared, portal, formats, hot, state: State::Ready }, PORTAL_BYTES);
    }

    async fn start(&mut self, name: &str, limit: Option<usize>) -> Result<(), Stop> {
        let held = self.portals.get_mut(name).ok_or_else(|| errors::no_portal(name))?;
        let (prepared, hot, mut portal) = (Arc::clone(&held.prepared), held.hot, held.portal.take());
        let goes_on = !name.is_empty() && self.backend.advance(&mut portal, limit);
        let before = self.backend.status();
        let then = match limit {
            Some(_) => Then::MoreRows,
            None if frame::is_sync(&self.conn.input) => Then::Commit,
            None => Then::Unknown,
        };
        let marks = Marks { hot, ..self.marks_of(&prepared) };
        let outcome = self.run(&prepared.text, &prepared.totals, (marks, then), &mut portal).await;
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

    /// Looks whether the formats of each column are still of as many, if the columns have changed since the `Bind`.
    fn fit_formats(&self, name: &str) -> SqlResult<()> {
        let Some(held) = self.portals.get(name) else { return Ok(()) };
        if let Formats::Each(each) = &held.formats
            && let Some(count) = self.backend.column_count(&held.prepared.statement)
            && each.len() != count
        {
            return Err(errors::result_formats(each.len(), count));
        }
        Ok(())
    }

    /// Bytes of rows that a portal is to keep.
    ///
    /// # Errors
    /// `53200`: the session may not keep them.
    fn weigh(&self, rows: &[Box<[Datum]>]) -> SqlResult<usize> {
        rows.chunks(ROWS_WEIGHED).try_fold(0, |before, rows| {
            let bytes = before + bytes_of_rows(rows);
            self.check_kept(bytes).map(|()| bytes)
        })
    }

    /// Sends rows up to the limit. Like PostgreSQL, does not look beyond it: the last row may already have been sent. `kept`:
    /// what they weigh, if the portal was suspended.
    async fn go_on(
        &mut self,
        name: &str,
        (mut rows, tag): (std::vec::IntoIter<Box<[Datum]>>, Tag),
        limit: Option<usize>,
        kept: Option<usize>,
    ) -> Result<(), Stop> {
        let Some(held) = self.portals.get(name) else { return Err(errors::no_portal(name).into()) };
        let (prepared, formats) = (Arc::clone(&held.prepared), held.formats.clone());
        let was_suspended = kept.is_some();
        let (now, later) = rows.as_slice().split_at(limit.unwrap_or(usize::MAX).min(rows.len()));
        let left = match kept {
            // Nothing is left to weigh.
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
