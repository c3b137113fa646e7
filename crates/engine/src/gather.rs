//! Gathering one column of many hot rows into a fresh Arrow array.

use crate::layout::{Image, Layout};
use crate::raw::version::Version;
use crate::scan::GATHER_ROWS;
use crate::value::Type;
use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, NullBuffer, ScalarBuffer};
use preempt::safepoint;
use std::collections::HashSet;
use std::sync::Arc;

/// The column's values in these versions, with a safepoint each [`GATHER_ROWS`] rows.
pub(crate) fn column(layout: &Layout, column: usize, versions: &[&Version]) -> ArrayRef {
    let slot = layout.slots[column];
    let nulls = if slot.nullable { nulls(layout, column, versions) } else { None };
    match slot.kind {
        Type::Int32 => primitive::<Int32Type>(layout, versions, nulls, |image| image.i32(column)),
        Type::Date => primitive::<Date32Type>(layout, versions, nulls, |image| image.i32(column)),
        Type::Int64 => primitive::<Int64Type>(layout, versions, nulls, |image| image.i64(column)),
        Type::Timestamp => primitive::<TimestampMicrosecondType>(layout, versions, nulls, |image| image.i64(column)),
        Type::Decimal { precision, scale } => {
            let decimals = values(layout, versions, |image| image.decimal(column));
            let array = PrimitiveArray::<Decimal128Type>::new(decimals, nulls);
            Arc::new(array.with_precision_and_scale(precision, scale).expect("checked when the table was made"))
        }
        Type::Text => text(layout, column, versions),
    }
}

fn values<T: ArrowNativeType>(
    layout: &Layout,
    versions: &[&Version],
    read: impl Fn(Image<'_>) -> T,
) -> ScalarBuffer<T> {
    let mut values = Vec::with_capacity(versions.len());
    for some in versions.chunks(GATHER_ROWS) {
        values.extend(some.iter().map(|version| read(Image { layout, bytes: version.image() })));
        safepoint();
    }
    values.into()
}

fn primitive<T: ArrowPrimitiveType>(
    layout: &Layout,
    versions: &[&Version],
    nulls: Option<NullBuffer>,
    read: impl Fn(Image<'_>) -> T::Native,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values(layout, versions, read), nulls))
}

fn nulls(layout: &Layout, column: usize, versions: &[&Version]) -> Option<NullBuffer> {
    let mut valid = BooleanBufferBuilder::new(versions.len());
    for some in versions.chunks(GATHER_ROWS) {
        some.iter().for_each(|version| valid.append(!Image { layout, bytes: version.image() }.is_null(column)));
        safepoint();
    }
    let nulls = NullBuffer::new(valid.finish());
    (0 < nulls.null_count()).then_some(nulls)
}

fn text(layout: &Layout, column: usize, versions: &[&Version]) -> ArrayRef {
    let mut texts = StringViewBuilder::with_capacity(versions.len());
    for some in versions.chunks(GATHER_ROWS) {
        for version in some {
            let image = Image { layout, bytes: version.image() };
            if layout.slots[column].nullable && image.is_null(column) {
                texts.append_null();
            } else {
                texts.append_value(image.text(column));
            }
        }
        safepoint();
    }
    let texts = texts.finish();
    debug_assert_eq!(texts.len(), versions.len());
    Arc::new(texts)
}

/// Texts of at most so many bytes stand in their views.
const INLINE_BYTES: usize = 12;
/// So many longer ones are looked at to find out whether equal ones are worth sharing.
const SAMPLE: usize = 1024;

/// The column as a block keeps it: equal long texts share their bytes if there are few different ones, and no buffer
/// holds texts that no row has.
pub(crate) fn sealed(column: ArrayRef) -> ArrayRef {
    let Some(texts) = column.as_string_view_opt() else { return column };
    let mut different = HashSet::new();
    let mut looked = 0;
    for text in texts.iter().flatten().filter(|text| INLINE_BYTES < text.len()).take(SAMPLE) {
        looked += 1;
        different.insert(text);
    }
    let mut sealed = StringViewBuilder::with_capacity(texts.len());
    if 2 * different.len() <= looked {
        sealed = sealed.with_deduplicate_strings();
    }
    for start in (0..texts.len()).step_by(GATHER_ROWS) {
        for at in start..texts.len().min(start + GATHER_ROWS) {
            sealed.append_option(texts.is_valid(at).then(|| texts.value(at)));
        }
        safepoint();
    }
    Arc::new(sealed.finish())
}
