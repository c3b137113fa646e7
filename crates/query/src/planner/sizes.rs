//! Sizes of tables on which a plan depends.

use engine::Table;
use std::sync::Arc;

/// Rows up to which a table is small: it may double without another plan.
const SMALL: u64 = 256;

/// Numbers of rows of tables, as they were when a plan was made.
#[derive(Clone, Debug, Default)]
pub struct TableSizes(Vec<(Arc<Table>, u64)>);

impl TableSizes {
    /// Returns the number of rows of a table, on which the plan depends from now on.
    pub(super) fn of(&mut self, table: &Arc<Table>) -> u64 {
        if let Some((_, rows)) = self.0.iter().find(|(known, _)| Arc::ptr_eq(known, table)) {
            return *rows;
        }
        let rows = table.rows_bound();
        self.0.push((Arc::clone(table), rows));
        rows
    }

    /// Returns true unless a table has at least twice or at most half the rows that it had, so that another plan may be better.
    pub fn are_current(&self) -> bool {
        self.0.iter().all(|(table, then)| {
            let (then, now) = ((*then).max(SMALL), table.rows_bound().max(SMALL));
            now / 2 < then && then / 2 < now
        })
    }
}
