//! The simple query protocol: one text with any number of statements.
//!
//! **Invariant:** all statements are parsed before the first is run. The implicit transaction is committed before the
//! last statement's tag is sent, so that no tag is followed by the error that the commit failed.

use crate::codec;
use crate::lent::Lent;
use crate::session::TEXT_MAX;
use crate::session::{Session, Streaming, Then, tag_rows};
use server::admission::Marks;
use server::stats::StatementTotals;
use sql::session::{Outcome, Statement, StatementText};
use stage::Stage;
use std::sync::Arc;
use wire::Stop;
use wire::reply::Formats;

/// Place of a statement among those of its message.
#[derive(Clone, Copy)]
struct Place {
    is_only: bool,
    is_last: bool,
}

impl Session {
    /// Answers `Query`, but for `ReadyForQuery`.
    pub(crate) async fn simple(&mut self, text: &str) -> Result<(), Stop> {
        // PostgreSQL drops the unnamed portal and statement too.
        self.take_unnamed_portal();
        self.take_statement("");
        let statements = match text.len() <= TEXT_MAX {
            true => self.sql.split(text)?,
            false => {
                let text: Arc<str> = text.into();
                self.activity.announce(&text, self.sql.class(), self.conn.now);
                self.aside(move |sql| sql.split(&text)).await??
            }
        };
        if statements.is_empty() {
            self.conn.replies.empty();
        }
        let count = statements.len();
        for (at, mut part) in statements.into_iter().enumerate() {
            let before = part.before;
            if 0 < at {
                self.conn.clock.enter(Stage::Decode);
                self.book();
                self.conn.take_turns().await?;
            }
            self.sql.goes_on()?;
            let place = Place { is_only: count == 1, is_last: at + 1 == count };
            match self.one(&mut part, place).await {
                Ok(()) => {}
                // The position of an error counts from the start of the whole text.
                Err(Stop::Error(error)) => return Err(Stop::Error(error.moved(before))),
                Err(gone) => return Err(gone),
            }
        }
        Ok(())
    }

    async fn one(&mut self, part: &mut StatementText, place: Place) -> Result<(), Stop> {
        let text: Arc<str> = part.text.as_str().into();
        if text.len() <= TEXT_MAX {
            let statement = loop {
                match self.sql.prepare_part(part) {
                    Ok(statement) => break statement,
                    Err(error) if !self.may_prepare_again().await? => return Err(error.into()),
                    Err(_) => {}
                }
            };
            let totals = self.stats.statement(&text);
            let marks = self.marks(&text).0;
            return self.run_one(&statement, &text, &totals, marks, place).await;
        }
        self.activity.announce(&text, self.sql.class(), self.conn.now);
        let mut part = std::mem::take(part);
        let (statement, totals, marks) = loop {
            let (stats, admission) = (Arc::clone(&self.stats), self.admission.clone());
            let prepared = self.aside(move |sql| {
                let prepared = sql.prepare_part(&mut part);
                let noted = prepared
                    .map(|statement| (statement, stats.statement(&part.text), admission.marks(part.text.as_bytes())));
                (noted, part)
            });
            let (prepared, own) = prepared.await?;
            part = own;
            match prepared {
                Ok(prepared) => break prepared,
                Err(error) if !self.may_prepare_again().await? => return Err(error.into()),
                Err(_) => {}
            }
        };
        self.sql.goes_on()?;
        let ran = self.run_one(&statement, &text, &totals, marks, place).await;
        self.drop_aside((statement, text, part));
        ran
    }

    async fn run_one(
        &mut self,
        statement: &Arc<Statement>,
        text: &Arc<str>,
        totals: &Arc<StatementTotals>,
        marks: Marks,
        place: Place,
    ) -> Result<(), Stop> {
        let formats = Formats::All(codec::format_of(self.sql.is_binary(statement)));
        if !statement.parameters().is_empty() {
            return Err(sql::session::no_parameter(text).into());
        }
        let mut portal = Lent::new(self.sql.bind(statement, Vec::new())?);
        // The only statement of a message is a transaction of its own, so it commits as it runs, and can be run again
        // after a more important transaction has aborted it.
        let before = self.sql.status();
        let then = if place.is_only { Then::Commit } else { Then::Unknown };
        let mut streaming = Streaming::new(formats.clone(), true);
        let outcome = self.run(text, totals, (marks, then), &mut portal, Some(&mut streaming)).await?;
        if self.has_ended(before, &outcome) {
            self.portals.clear();
        }
        let (tag, rows) = match outcome {
            Outcome::Rows(rows, tag) => {
                let columns = codec::columns(statement.columns().unwrap_or_default());
                self.conn.replies.columns(Some(columns), &formats);
                let sent = self.send(statement, &formats, &mut rows.into_iter(), usize::MAX).await?;
                let rows = tag_rows(&tag, sent, false);
                (Some(tag), rows)
            }
            Outcome::Streamed(tag) => {
                self.end_stream(&streaming)?;
                let rows = tag.rows;
                (Some(tag), rows)
            }
            Outcome::Done(tag) => {
                let rows = tag.rows;
                (Some(tag), rows)
            }
            Outcome::Empty => (None, None),
        };
        // The commit comes before the tag: a client that reads the tag knows that the statement is committed.
        if place.is_last {
            self.commit().await?;
            self.notices();
        }
        match tag {
            Some(tag) => self.conn.replies.complete(&tag, rows),
            None => self.conn.replies.empty(),
        }
        Ok(())
    }
}
