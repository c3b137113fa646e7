//! Gathering one column of many hot rows into a fresh Arrow array.

use crate::arrow;
use crate::layout::{Image, Layout};
use crate::raw::version::Version;
use crate::scan::GATHER_ROWS;
use arrow_array::ArrayRef;
use preempt::safepoint;

/// The column's values in these versions, with a safepoint each [`GATHER_ROWS`] rows.
pub(crate) fn column(layout: &Layout, column: usize, versions: &[&Version]) -> ArrayRef {
    let slot = layout.slots[column];
    arrow::gather(slot.kind, slot.nullable, || {
        versions.iter().enumerate().map(|(at, version)| {
            if at.is_multiple_of(GATHER_ROWS) {
                safepoint();
            }
            let image = Image { layout, bytes: version.image() };
            if slot.nullable { image.raw(column) } else { image.stored(column) }
        })
    })
}
