//! `VACUUM`, `REINDEX` and the like: they wait for conflicting locks, and have nothing else to do. `VACUUM` and
//! `ANALYZE` also count rows, for `pg_class.reltuples`.

use super::run::{RunNeeds, StatementRun};
use super::{Outcome, Session, Step};
use catalog::TableInfo;
use engine::{TableLock, Txn};
use query::plan::{Hold, TableUse};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::outcome::CommandTag;

/// Maximum number of row ids that are examined to count a table's rows. For a larger table the count is an estimate.
const SAMPLE_IDS: u64 = 1 << 14;

fn count(txn: &Txn<'_>, table: &TableInfo) -> SqlResult<()> {
    let sample = txn.snapshot()?.scan(&table.table, &[], SAMPLE_IDS as usize).sample(SAMPLE_IDS);
    let rows = if sample.rows.num_rows() == 0 { 0 } else { sample.rows_of_all().round() as i64 };
    table.counted.set(rows);
    Ok(())
}

impl Session {
    /// # Errors
    /// `25001` in a transaction block.
    pub(super) fn refuse_block(&self, words: &str, more: &str) -> SqlResult<()> {
        if self.is_in_block() {
            let message = format!("{words}{more} cannot run inside a transaction block");
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        Ok(())
    }

    pub(super) fn maintain(
        &mut self,
        words: &'static str,
        skipped: &[String],
        given: StatementRun<'_>,
    ) -> SqlResult<Step> {
        let bound = given.bound;
        let is_concurrent = || {
            let mode = |one: &TableUse| matches!(one.hold, Hold::Lock(TableLock::ShareUpdateExclusive, _));
            words == "REINDEX" && bound.uses.iter().any(mode)
        };
        if words == "VACUUM" {
            self.refuse_block(words, "")?;
        } else if is_concurrent() {
            self.refuse_block(words, " CONCURRENTLY")?;
        }
        if words == "SET CONSTRAINTS" && !self.is_in_block() {
            let message = "SET CONSTRAINTS can only be used in transaction blocks";
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, message);
        }
        if !self.is_parked {
            for table in skipped {
                let verb = words.to_lowercase();
                let message = format!("skipping \"{table}\" --- only table or database owner can {verb} it");
                self.warn(SqlState::WARNING, &message);
            }
        }
        let done = || Step::Done(Outcome::Done(CommandTag { words, rows: None }));
        // The engine takes such locks only for transactions that may write.
        if bound.uses.is_empty() || self.settings.is_read_only() {
            return Ok(done());
        }
        let counts = matches!(words, "VACUUM" | "ANALYZE");
        let ran = self.run(&[], RunNeeds::of(bound), |run| {
            if counts {
                bound.uses.iter().try_for_each(|one| count(run.txn, &one.table))?;
            }
            run.txn.has_read_nothing();
            Ok(())
        })?;
        self.step_of(ran, given, |_, ()| Ok(done()))
    }
}
