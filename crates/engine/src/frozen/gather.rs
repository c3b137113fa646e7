//! Gathering columns of many hot rows into fresh Arrow arrays.
//!
//! **Invariant:** all columns of some rows are gathered while those rows are in the cache, with a safepoint behind them.

use crate::frozen::arrow::Builder;
use crate::raw::version::Version;
use crate::row::layout::{Image, Layout};
use arrow_array::ArrayRef;
use preempt::safepoint;

/// Hot rows, or newer versions of one, between two safepoints. The design allows 1,024; a row that is not in the cache costs up to 0.1 µs.
pub(crate) const GATHER_ROWS: usize = 256;

/// Columns under construction.
pub(crate) struct Gather<'l> {
    layout: &'l Layout,
    columns: Vec<(usize, Builder)>,
    /// Number of rows of the columns.
    pub(crate) rows_count: usize,
}

impl<'l> Gather<'l> {
    /// Creates columns for those at these positions, for about `capacity` rows.
    pub(crate) fn new(layout: &'l Layout, columns: impl IntoIterator<Item = usize>, capacity: usize) -> Gather<'l> {
        let builder = |column: usize| {
            let slot = &layout.slots[column];
            (column, Builder::new(slot.kind, slot.nullable, capacity))
        };
        Gather { layout, columns: columns.into_iter().map(builder).collect(), rows_count: 0 }
    }

    /// Adds rows, with a safepoint every [`GATHER_ROWS`].
    pub(crate) fn add(&mut self, versions: &[&Version]) {
        let layout = self.layout;
        for versions in versions.chunks(GATHER_ROWS) {
            for (column, builder) in &mut self.columns {
                let column = *column;
                let images = || versions.iter().map(|version| Image { layout, bytes: version.image() });
                if layout.slots[column].nullable {
                    builder.add(|| images().map(|image| image.raw(column)));
                } else {
                    builder.add(|| images().map(|image| image.stored(column)));
                }
            }
            safepoint();
        }
        self.rows_count += versions.len();
    }

    pub(crate) fn finish(self) -> Vec<ArrayRef> {
        self.columns.into_iter().map(|(_, builder)| builder.finish()).collect()
    }
}
