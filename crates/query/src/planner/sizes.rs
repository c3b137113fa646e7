//! Sizes of tables on which a plan depends.

use engine::Table;
use std::sync::Arc;

/// Number of rows below which a table is small, and changes in its size do not matter.
const SMALL: u64 = 256;

/// Numbers of rows of tables, as of the time of planning.
#[derive(Clone, Debug, Default)]
pub struct TableSizes(Vec<(Arc<Table>, u64)>);

impl TableSizes {
    /// Returns the number of rows of a table, and notes that the plan depends on it.
    pub(super) fn of(&mut self, table: &Arc<Table>) -> u64 {
        if let Some((_, rows)) = self.0.iter().find(|(known, _)| Arc::ptr_eq(known, table)) {
            return *rows;
        }
        let rows = table.rows_bound();
        self.0.push((Arc::clone(table), rows));
        rows
    }

    /// True unless a table has grown or shrunk by a factor of two, so that another plan may be better.
    pub fn are_current(&self) -> bool {
        self.0.iter().all(|(table, then)| {
            let (then, now) = ((*then).max(SMALL), table.rows_bound().max(SMALL));
            now / 2 < then && then / 2 < now
        })
    }
}
