//! Outcome of a transaction whose connection was lost before its answer was complete.
//!
//! **Invariant:** a client is told that its transaction was rolled back only if nothing was sent that could have
//! committed it: a COMMIT, or any statement outside of a block that may write, which commits by itself. In doubt the
//! outcome is unknown: a client that repeats what may have been done does it twice.

use crate::statements::scan::{Scan, contains, skip_blanks};
use statement::{SqlError, SqlState};

/// Effect of a text on the transaction block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BlockEffect {
    /// Begins a block, and does nothing else.
    Begins,
    /// Ends a block without a commit, and does nothing else.
    RollsBack,
    Commits,
    /// One or more statements that change nothing.
    Reads,
    /// Statement.
    #[default]
    States,
    /// Several statements, some of which may end blocks.
    Mixes,
}

impl BlockEffect {
    /// Effect of a simple query, which may have several statements.
    pub(crate) fn of_query(text: &[u8], scan: &Scan) -> BlockEffect {
        let several = text.iter().position(|&byte| byte == b';').is_some_and(|at| {
            let rest = skip_blanks(text, at + 1);
            rest < text.len()
        });
        match BlockEffect::of_statement(text, scan) {
            act @ (BlockEffect::Commits | BlockEffect::Reads) => act,
            act if !several => act,
            BlockEffect::States if !contains(text, b"rollback") && !contains(text, b"abort") => BlockEffect::States,
            BlockEffect::Begins | BlockEffect::RollsBack | BlockEffect::States | BlockEffect::Mixes => {
                BlockEffect::Mixes
            }
        }
    }

    /// Effect of a prepared statement, which is a single one.
    pub(crate) fn of_statement(text: &[u8], scan: &Scan) -> BlockEffect {
        if scan.commits {
            return BlockEffect::Commits;
        }
        let text = &text[skip_blanks(text, 0)..];
        let length = text.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let is = |own: &[u8]| text[..length].eq_ignore_ascii_case(own);
        match text.first().map(u8::to_ascii_lowercase) {
            Some(b'b') if is(b"begin") => BlockEffect::Begins,
            Some(b's') if is(b"start") => BlockEffect::Begins,
            Some(b'r') if is(b"rollback") => BlockEffect::of_rollback(text, length),
            Some(b'a') if is(b"abort") => BlockEffect::of_rollback(text, length),
            _ if scan.reads => BlockEffect::Reads,
            _ => BlockEffect::States,
        }
    }

    /// Effect of a ROLLBACK, whose first word ends there.
    fn of_rollback(text: &[u8], mut at: usize) -> BlockEffect {
        loop {
            at = skip_blanks(text, at);
            let length = text[at..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
            let is = |own: &[u8]| text[at..at + length].eq_ignore_ascii_case(own);
            return match text.get(at) {
                None | Some(b';' | 0) => BlockEffect::RollsBack,
                _ if is(b"work") || is(b"transaction") => {
                    at += length;
                    continue;
                }
                // ROLLBACK TO stays inside the block, and ROLLBACK PREPARED concerns another transaction.
                _ if is(b"to") || is(b"prepared") => BlockEffect::States,
                // AND CHAIN, for instance.
                _ => BlockEffect::Mixes,
            };
        }
    }
}

/// Known outcome of a transaction whose connection was lost.
#[derive(Debug, Default)]
pub(crate) struct TransactionOutcome {
    /// True if the next statement is inside a block, as far as is known.
    is_in_block: bool,
    /// Statement that may have been committed.
    doubt: Option<Doubt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    /// Statement outside of a block.
    Statement,
    Commit,
}

impl TransactionOutcome {
    /// Notes that a text with this effect is sent to be run.
    pub(crate) fn sent(&mut self, act: BlockEffect) {
        match act {
            BlockEffect::Begins => self.is_in_block = true,
            BlockEffect::RollsBack => self.is_in_block = false,
            BlockEffect::Commits => {
                self.doubt = Some(Doubt::Commit);
                self.is_in_block = false;
            }
            BlockEffect::Reads => {}
            BlockEffect::States if self.is_in_block => {}
            BlockEffect::States => self.doubt = self.doubt.max(Some(Doubt::Statement)),
            BlockEffect::Mixes => {
                self.doubt = self.doubt.max(Some(Doubt::Statement));
                self.is_in_block = false;
            }
        }
    }

    /// Notes an error: later messages may have been ignored, a BEGIN for instance.
    pub(crate) fn has_failed(&mut self) {
        if self.is_in_block {
            self.sent(BlockEffect::Mixes);
        }
    }

    /// Notes that everything sent is answered.
    pub(crate) fn settled(&mut self, is_in_block: bool) {
        *self = TransactionOutcome { is_in_block, doubt: None };
    }

    /// Returns the error for the client if the outcome of its transaction is unknown.
    pub(crate) fn unknown(&self) -> Option<SqlError> {
        let (message, detail) = match self.doubt? {
            Doubt::Commit => (
                "the connection to the server was lost during COMMIT",
                "Whether the transaction has been committed is not known.",
            ),
            Doubt::Statement => (
                "the connection to the server was lost during a statement that commits by itself",
                "Whether it has taken effect is not known.",
            ),
        };
        let error = SqlError::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, message).detail(detail);
        Some(error.hint("Look for its effects before you run it again."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::scan::scan;

    fn doubt(texts: &[&str]) -> Option<Doubt> {
        let mut outcome = TransactionOutcome::default();
        texts.iter().for_each(|text| outcome.sent(BlockEffect::of_query(text.as_bytes(), &scan(text.as_bytes()))));
        outcome.doubt
    }

    #[test]
    fn what_may_have_committed_is_in_doubt() {
        let (statement, commit) = (Some(Doubt::Statement), Some(Doubt::Commit));
        assert_eq!(doubt(&["insert into t values (1)"]), statement);
        assert_eq!(doubt(&["begin", "insert into t values (1)", "savepoint a", "rollback to a", "select 1;"]), None);
        assert_eq!(doubt(&["/* x */ START TRANSACTION;", "insert into t values (1); insert into t values (2)"]), None);
        assert_eq!(doubt(&["begin", "insert into t values (1)", "end"]), commit);
        assert_eq!(doubt(&["begin", "rollback"]), None);
        assert_eq!(doubt(&["begin", "rollback", "insert into t values (1)"]), statement);
        assert_eq!(doubt(&["begin", "ROLLBACK work /*app='to store'*/;", "insert into t values (1)"]), statement);
        assert_eq!(doubt(&["begin", "abort and chain", "insert into t values (1)"]), statement);
        assert_eq!(doubt(&["begin", "rollback transaction to savepoint a", "insert into t values (1)"]), None);
        assert_eq!(doubt(&["begin", "prepare  transaction 'a'"]), commit);
        assert_eq!(doubt(&["begin", "rollback; insert into t values (1)"]), statement);
        assert_eq!(doubt(&["begin; insert into t values (1)"]), statement);
        assert_eq!(doubt(&["rollback prepared 'a'"]), statement);
        assert_eq!(doubt(&["begin", "prepare transaction 'a'"]), commit);
        assert_eq!(doubt(&["select count(*) from t", "show work_mem; select 1"]), None);
        assert_eq!(doubt(&["select pay(1)"]), statement);
        assert_eq!(doubt(&["select 1", "insert into t values (1)", "select 2"]), statement);
        assert_eq!(doubt(&["begin; select 1", "commit"]), commit);
        assert_eq!(doubt(&["begin", "commit and chain", "insert into t values (1)"]), commit);
    }

    #[test]
    fn a_begin_that_may_have_been_ignored_is_none() {
        let mut outcome = TransactionOutcome::default();
        outcome.sent(BlockEffect::Begins);
        outcome.has_failed();
        outcome.sent(BlockEffect::States);
        assert_eq!(outcome.unknown().map(|error| error.state().0), Some("08007"));
        outcome.settled(true);
        outcome.sent(BlockEffect::States);
        assert!(outcome.unknown().is_none());
    }
}
