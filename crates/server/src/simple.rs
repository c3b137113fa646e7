//! The simple protocol: one text, any number of statements.
//!
//! **Invariant:** all statements are in the grammar before the first is run. The implicit transaction is committed before
//! the last statement's tag is sent, so that a tag is never followed by the news that it was in vain.

use crate::backend::Backend;
use crate::lent::Lent;
use crate::reply::Formats;
use crate::session::{Session, Stop, tag_rows};
use sql::session::Outcome;

impl<B: Backend> Session<B> {
    /// Answers `Query`, but for `ReadyForQuery`.
    pub(crate) async fn simple(&mut self, text: &str) -> Result<(), Stop> {
        // PostgreSQL drops them too.
        self.statements.take("");
        self.portals.take("");
        let statements = self.backend.split(text)?;
        if statements.is_empty() {
            self.conn.replies.empty();
        }
        let mut from = 0;
        for (at, statement) in statements.iter().enumerate() {
            // An error's position counts from the begin of the whole text.
            let begin = text[from..].find(statement.as_str()).map(|found| from + found);
            let before = begin.map_or(0, |begin| text[..begin].chars().count());
            from = begin.map_or(from, |begin| begin + statement.len());
            match self.one(statement, at + 1 == statements.len()).await {
                Ok(()) => {}
                Err(Stop::Error(error)) => return Err(Stop::Error(error.moved(before))),
                Err(gone) => return Err(gone),
            }
        }
        Ok(())
    }

    async fn one(&mut self, text: &str, is_last: bool) -> Result<(), Stop> {
        let statement = self.backend.prepare(text, &[])?;
        let formats = Formats::All(self.backend.simple_format(&statement));
        if 0 < self.backend.parameter_count(&statement) {
            return Err(sql::session::no_parameter(text).into());
        }
        let mut portal = Lent::new(self.backend.bind(&statement, Vec::new())?);
        let before = self.backend.status();
        let totals = self.stats.statement(text);
        let (marks, _) = self.marks(text);
        let outcome = self.run(&text.into(), &totals, marks, &mut portal).await?;
        if self.has_ended(before, &outcome) {
            self.portals.clear();
        }
        let (tag, rows) = match outcome {
            Outcome::Rows(rows, tag) => {
                let columns = self.backend.columns(&statement);
                self.conn.replies.columns(Some(columns.unwrap_or_default()), &formats);
                let sent = self.send(&statement, &formats, &mut rows.into_iter(), usize::MAX).await?;
                let rows = tag_rows(&tag, sent, false);
                (Some(tag), rows)
            }
            Outcome::Done(tag) => {
                let rows = tag.rows;
                (Some(tag), rows)
            }
            Outcome::Empty => (None, None),
        };
        if is_last {
            self.commit()?;
            self.notices();
        }
        match tag {
            Some(tag) => self.conn.replies.complete(&tag, rows),
            None => self.conn.replies.empty(),
        }
        Ok(())
    }
}
