//! Statements that are transactions of their own.
//!
//! **Invariant:** nothing of such a statement reaches the client before it has run, nor before its commit where a
//! commit is known to follow, unless a row may be refused: a committed statement is never answered with an error. So a
//! statement that a more important transaction has aborted until then can be run again, and no tag is followed by the
//! error that the commit failed.

use super::{Session, Stop, Streaming};
use crate::lent::Lent;
use engine::memory::SMALL_BYTES;
use server::stats::StatementTotals;
use sql::session::{Outcome, Portal};
use std::sync::atomic::Ordering::Relaxed;
use types::Datum;

/// Continuation of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// End of its transaction, if no other statement belongs to that.
    Commit,
    /// Perhaps more rows of the same portal.
    MoreRows,
    /// Unknown: the client has not sent it yet, or sends another statement.
    Unknown,
}

/// Returns true if each row is sure to be written: it fits into a message, and needs no check for room.
fn fits(outcome: &Outcome) -> bool {
    let Outcome::Rows(rows, _) = outcome else { return true };
    let written_max = |row: &[Datum]| row.iter().map(Datum::written_max).sum::<u64>();
    let is_small = |row: &[Datum]| row.iter().all(|value| value.text_bytes() <= SMALL_BYTES);
    rows.iter().all(|row| written_max(row) < ROW_MAX && is_small(row))
}

/// Maximum bytes of a row, which leaves room for the lengths of its values.
const ROW_MAX: u64 = (i32::MAX - (1 << 16)) as u64;

impl Session {
    /// Runs a portal to its end, or to its commit, and again when a more important transaction has aborted it, within
    /// `statement_timeout`.
    ///
    /// Each abort means that a more important transaction has gone on, so the repetitions end when there are no more of
    /// these. Between two of them the other sessions of this thread have their turn.
    pub(super) async fn run_alone(
        &mut self,
        totals: &StatementTotals,
        portal: &mut Lent<Portal>,
        mut streaming: Option<&mut Streaming>,
        commits: bool,
    ) -> Result<Outcome, Stop> {
        let is_modifying = self.sql.is_modifying(portal);
        loop {
            let outcome = match self.run_to_end(totals, portal, streaming.as_deref_mut()).await {
                Ok(outcome) if !commits || (is_modifying && !fits(&outcome)) => Ok(outcome),
                Ok(outcome) => self.commit().await.map(|()| outcome),
                Err(stop) => Err(stop),
            };
            match outcome {
                Err(Stop::Error(error)) if error.is_preempted() && !has_begun(streaming.as_deref()) => {
                    self.sql.begin_again();
                    self.stats.run_again.fetch_add(1, Relaxed);
                    self.conn.give_way().await;
                }
                outcome => return outcome,
            }
        }
    }
}

/// Returns true if rows have been sent, so that the statement cannot run again.
fn has_begun(streaming: Option<&Streaming>) -> bool {
    streaming.is_some_and(Streaming::has_begun)
}

#[cfg(test)]
mod tests {
    use super::*;
    use statement::outcome::CommandTag;
    use types::SqlType;
    use types::forms::Forms;
    use types::text;

    #[test]
    fn a_row_that_may_be_too_long_is_sent_before_the_commit() {
        let number = text::input("1e131000", SqlType::from(types::Kind::Numeric), &Forms::default()).unwrap();
        let of = |values: Vec<Datum>| {
            let tag = CommandTag { words: "INSERT 0", rows: Some(1) };
            Outcome::Rows(vec![[Datum::Null].into(), [Datum::Array(values.into())].into()], tag)
        };
        assert!(fits(&of(vec![number.clone(); 1_000])));
        assert!(!fits(&of(vec![number; 16_384])));
        assert!(fits(&of(Vec::new())));
        let text = |bytes| {
            Outcome::Rows(vec![[Datum::Text("x".repeat(bytes).into())].into()], CommandTag { words: "", rows: None })
        };
        assert!(fits(&text(SMALL_BYTES)));
        assert!(!fits(&text(SMALL_BYTES + 1)));
        assert!(fits(&Outcome::Empty));
    }
}
