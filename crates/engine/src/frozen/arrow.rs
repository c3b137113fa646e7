//! The Arrow form of each type.
//!
//! **Invariant:** [`raw`] returns the stored values that a [`Builder`] was given; scans and blocks have exactly the
//! types of [`Type::arrow`].

use crate::frozen::bounds::Bounds;
use crate::raw::text;
use crate::row::types::{Raw, Storage, compare};
use crate::row::value::{Type, Value};
use arrow_array::builder::GenericByteViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, BinaryViewType, ByteViewType, Date32Type, Decimal128Type, Float64Type, Int16Type, Int32Type,
    Int64Type, StringViewType, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, BooleanArray, GenericByteViewArray, PrimitiveArray};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::{DataType, TimeUnit};
use std::collections::HashSet;
use std::sync::Arc;

impl Type {
    /// Returns the Arrow type that scans return.
    pub fn arrow(self) -> DataType {
        match self {
            Type::Bool => DataType::Boolean,
            Type::Int16 => DataType::Int16,
            Type::Int32 => DataType::Int32,
            Type::Int64 => DataType::Int64,
            Type::Float64 => DataType::Float64,
            Type::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            Type::Text => DataType::Utf8View,
            Type::Bytes | Type::Keyed => DataType::BinaryView,
            Type::Date => DataType::Date32,
            Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }
}

/// Returns one value of an array of the type, as it is stored in a row.
#[inline]
pub(crate) fn raw(kind: Type, array: &dyn Array, at: usize) -> Raw<'_> {
    if array.is_null(at) {
        return Raw::Null;
    }
    match kind {
        Type::Bool => Raw::One(u8::from(array.as_boolean().value(at))),
        Type::Int16 => Raw::Two(array.as_primitive::<Int16Type>().value(at) as u16),
        Type::Int32 => Raw::Four(array.as_primitive::<Int32Type>().value(at) as u32),
        Type::Date => Raw::Four(array.as_primitive::<Date32Type>().value(at) as u32),
        Type::Int64 => Raw::Eight(array.as_primitive::<Int64Type>().value(at) as u64),
        Type::Timestamp => Raw::Eight(array.as_primitive::<TimestampMicrosecondType>().value(at) as u64),
        Type::Float64 => Raw::Eight(array.as_primitive::<Float64Type>().value(at).to_bits()),
        Type::Decimal { .. } => {
            let decimal = array.as_primitive::<Decimal128Type>().value(at);
            if kind.storage() == Storage::Eight {
                Raw::Eight(decimal as i64 as u64)
            } else {
                Raw::Sixteen(decimal as u128)
            }
        }
        Type::Text => Raw::Bytes(array.as_string_view().value(at).as_bytes()),
        Type::Bytes | Type::Keyed => Raw::Bytes(array.as_binary_view().value(at)),
    }
}

/// An array in the making, out of row images.
pub(crate) struct Builder {
    kind: Type,
    values: Values,
    /// Validity of each value; none in a column that is never null.
    valid: Option<BooleanBufferBuilder>,
}

enum Values {
    Bool(BooleanBufferBuilder),
    Two(Vec<i16>),
    Four(Vec<i32>),
    Eight(Vec<i64>),
    Float(Vec<f64>),
    Decimal(Vec<i128>),
    Text(GenericByteViewBuilder<StringViewType>),
    Bytes(GenericByteViewBuilder<BinaryViewType>),
}

impl Builder {
    pub(crate) fn new(kind: Type, nullable: bool, capacity: usize) -> Builder {
        let values = match kind {
            Type::Bool => Values::Bool(BooleanBufferBuilder::new(capacity)),
            Type::Int16 => Values::Two(Vec::with_capacity(capacity)),
            Type::Int32 | Type::Date => Values::Four(Vec::with_capacity(capacity)),
            Type::Int64 | Type::Timestamp => Values::Eight(Vec::with_capacity(capacity)),
            Type::Float64 => Values::Float(Vec::with_capacity(capacity)),
            Type::Decimal { .. } => Values::Decimal(Vec::with_capacity(capacity)),
            Type::Text => Values::Text(GenericByteViewBuilder::with_capacity(capacity)),
            Type::Bytes | Type::Keyed => Values::Bytes(GenericByteViewBuilder::with_capacity(capacity)),
        };
        Builder { kind, values, valid: nullable.then(|| BooleanBufferBuilder::new(capacity)) }
    }

    /// Adds values that row images store, as many as `raws` gives each time.
    pub(crate) fn add<'a, I: Iterator<Item = Raw<'a>>>(&mut self, raws: impl Fn() -> I) {
        match &mut self.values {
            Values::Bool(values) => raws().for_each(|raw| values.append(raw == Raw::One(1))),
            Values::Two(values) => values.extend(raws().map(|raw| if let Raw::Two(v) = raw { v as i16 } else { 0 })),
            Values::Four(values) => values.extend(raws().map(|raw| if let Raw::Four(v) = raw { v as i32 } else { 0 })),
            Values::Eight(values) => {
                values.extend(raws().map(|raw| if let Raw::Eight(v) = raw { v as i64 } else { 0 }))
            }
            Values::Float(values) => {
                values.extend(raws().map(|raw| if let Raw::Eight(v) = raw { f64::from_bits(v) } else { 0.0 }));
            }
            Values::Decimal(values) => values.extend(raws().map(|raw| match raw {
                Raw::Eight(v) => i128::from(v as i64),
                Raw::Sixteen(v) => v as i128,
                _ => 0,
            })),
            Values::Text(values) => raws().for_each(|raw| values.append_option(bytes(raw).map(text::trusted))),
            Values::Bytes(values) => raws().for_each(|raw| values.append_option(bytes(raw))),
        }
        if let Some(valid) = &mut self.valid {
            raws().for_each(|raw| valid.append(raw != Raw::Null));
        }
    }

    pub(crate) fn finish(self) -> ArrayRef {
        let nulls = self.valid.map(|mut valid| NullBuffer::new(valid.finish())).filter(|nulls| 0 < nulls.null_count());
        match (self.values, self.kind) {
            (Values::Bool(mut values), _) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            (Values::Two(values), _) => primitive::<Int16Type>(values, nulls),
            (Values::Four(values), Type::Date) => primitive::<Date32Type>(values, nulls),
            (Values::Four(values), _) => primitive::<Int32Type>(values, nulls),
            (Values::Eight(values), Type::Timestamp) => primitive::<TimestampMicrosecondType>(values, nulls),
            (Values::Eight(values), _) => primitive::<Int64Type>(values, nulls),
            (Values::Float(values), _) => primitive::<Float64Type>(values, nulls),
            (Values::Decimal(values), kind) => {
                Arc::new(PrimitiveArray::<Decimal128Type>::new(values.into(), nulls).with_data_type(kind.arrow()))
            }
            (Values::Text(mut values), _) => Arc::new(values.finish()),
            (Values::Bytes(mut values), _) => Arc::new(values.finish()),
        }
    }
}

fn bytes(raw: Raw<'_>) -> Option<&[u8]> {
    if let Raw::Bytes(bytes) = raw { Some(bytes) } else { None }
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
}

/// Longest text, in bytes, that stands in its view.
const INLINE_BYTES: usize = 12;
/// Number of longer texts that are sampled to find out whether equal ones are worth sharing.
const SAMPLE: usize = 1024;
/// Bytes of a buffer of long texts: at most, and where equal ones share their bytes, so that their number is unknown in
/// advance.
const BUFFER_MAX: usize = 2 << 20;
const SHARED_BUFFER: usize = 32 << 10;

/// Returns the column as a block keeps it: equal long texts share their bytes if there are few different ones, and no
/// buffer holds texts that no row has.
pub(crate) fn sealed(column: ArrayRef, rest: impl Fn()) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(shared(column.as_string_view(), rest)),
        DataType::BinaryView => Arc::new(shared(column.as_binary_view(), rest)),
        _ => column,
    }
}

/// Shares the bytes of equal texts. `rest` is called now and then.
fn shared<T: ByteViewType>(column: &GenericByteViewArray<T>, rest: impl Fn()) -> GenericByteViewArray<T> {
    let mut different = HashSet::new();
    let mut looked = 0;
    let long = column.bytes_iter().filter(|bytes| INLINE_BYTES < bytes.len());
    for bytes in long.take(SAMPLE) {
        looked += 1;
        different.insert(bytes);
    }
    let total: usize = byte_lengths(column).filter(|bytes| INLINE_BYTES < *bytes).sum();
    let shares = 2 * different.len() <= looked;
    // Buffers of one size that the texts fill: those that grow by doubling would leave up to half of the last one empty for as
    // long as the block lives.
    let buffer_bytes = if shares { total.clamp(1, SHARED_BUFFER) } else { total.div_ceil(total.div_ceil(BUFFER_MAX)) };
    let mut sealed =
        GenericByteViewBuilder::<T>::with_capacity(column.len()).with_fixed_block_size(buffer_bytes as u32);
    if shares {
        sealed = sealed.with_deduplicate_strings();
    }
    for (at, value) in column.iter().enumerate() {
        sealed.append_option(value);
        if at.is_multiple_of(crate::frozen::gather::GATHER_ROWS) {
            rest();
        }
    }
    sealed.finish()
}

/// Returns the bytes that the column holds: of a slice its share of the buffers, of texts that share their bytes the
/// buffers.
pub(crate) fn bytes_held(column: &dyn Array) -> usize {
    let views_bytes = |lengths: &mut dyn Iterator<Item = usize>| {
        lengths.map(|bytes| size_of::<u128>() + if INLINE_BYTES < bytes { bytes } else { 0 }).sum()
    };
    let values_bytes: usize = match column.data_type() {
        DataType::Utf8View | DataType::BinaryView => views_bytes(&mut byte_lengths(column)),
        DataType::Boolean => column.len() / 8,
        kind => column.len() * kind.primitive_width().unwrap_or(0),
    };
    let valid_bytes = column.nulls().map_or(0, |_| column.len() / 8);
    (values_bytes + valid_bytes).min(column.get_array_memory_size())
}

/// Returns the length in bytes of each text, or byte string, of the column; nothing for a column of another type.
pub(crate) fn byte_lengths(column: &dyn Array) -> impl Iterator<Item = usize> {
    let views = match column.data_type() {
        DataType::Utf8View => &column.as_string_view().views()[..],
        DataType::BinaryView => &column.as_binary_view().views()[..],
        _ => &[],
    };
    // The lower half of a view is the length, whatever stands in the place of a null.
    views.iter().enumerate().map(|(at, view)| if column.is_null(at) { 0 } else { *view as u32 as usize })
}

/// Returns the bounds of a column.
pub(crate) fn bounds(kind: Type, column: &dyn Array) -> Bounds {
    match kind {
        Type::Int16 => primitive_bounds::<Int16Type>(column, Value::Int16),
        Type::Int32 => primitive_bounds::<Int32Type>(column, Value::Int32),
        Type::Date => primitive_bounds::<Date32Type>(column, Value::Date),
        Type::Int64 => primitive_bounds::<Int64Type>(column, Value::Int64),
        Type::Timestamp => primitive_bounds::<TimestampMicrosecondType>(column, Value::Timestamp),
        Type::Decimal { .. } => primitive_bounds::<Decimal128Type>(column, Value::Decimal),
        Type::Text => view_bounds(column.as_string_view(), Value::Text),
        Type::Bytes => view_bounds(column.as_binary_view(), Value::Bytes),
        Type::Keyed => view_bounds(column.as_binary_view(), Value::Keyed),
        Type::Bool | Type::Float64 => {
            let values = (0..column.len()).filter_map(|at| match kind.value(raw(kind, column, at)) {
                None | Some(Value::Null) => None,
                value => value,
            });
            let bounds = values.fold(None, |bounds, value| match bounds {
                None => Some((value, value)),
                Some((least, _)) if compare(value, least).is_some_and(|order| order.is_lt()) => {
                    bounds.map(|(_, greatest)| (value, greatest))
                }
                Some((_, greatest)) if compare(greatest, value).is_some_and(|order| order.is_lt()) => {
                    bounds.map(|(least, _)| (least, value))
                }
                Some(_) => bounds,
            });
            Bounds::new(bounds, column.null_count(), column.len())
        }
    }
}

fn view_bounds<'a, T: ByteViewType>(
    column: &'a GenericByteViewArray<T>,
    value: fn(&'a T::Native) -> Value<'a>,
) -> Bounds
where
    T::Native: Ord,
{
    let bounds = column.iter().flatten().fold(None, |bounds, next| match bounds {
        None => Some((next, next)),
        Some((least, greatest)) if next < least => Some((next, greatest)),
        Some((least, greatest)) if greatest < next => Some((least, next)),
        Some(_) => bounds,
    });
    Bounds::new(bounds.map(|(least, greatest)| (value(least), value(greatest))), column.null_count(), column.len())
}

fn primitive_bounds<T: ArrowPrimitiveType>(column: &dyn Array, value: fn(T::Native) -> Value<'static>) -> Bounds
where
    T::Native: Ord,
{
    let array = column.as_primitive::<T>();
    let bounds = |(least, greatest): (T::Native, T::Native), next: T::Native| (least.min(next), greatest.max(next));
    let found = if array.null_count() == 0 {
        let values = array.values();
        values.first().map(|first| values.iter().copied().fold((*first, *first), bounds))
    } else {
        let mut values = array.iter().flatten();
        values.next().map(|first| values.fold((first, first), bounds))
    };
    Bounds::new(found.map(|(least, greatest)| (value(least), value(greatest))), array.null_count(), array.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::condition::{Comparison, Condition};
    use arrow_array::{Float64Array, StringViewArray};

    #[test]
    fn equal_long_texts_share_their_bytes() {
        let few = ["a long text that many rows have", "another long text of many rows", "short"];
        let texts: StringViewArray = (0..9_000).map(|at| (at % 4 < 3).then(|| few[at % 4])).collect();
        let before = texts.get_array_memory_size();
        let sealed = sealed(Arc::new(texts.clone()), || ());
        assert_eq!(sealed.as_string_view(), &texts);
        assert!(sealed.get_array_memory_size() < before - 8_000 * 24, "{} of {before}", sealed.get_array_memory_size());
    }

    #[test]
    fn texts_that_no_row_has_go() {
        let texts: StringViewArray = (0..9_000).map(|at| Some(format!("a long text of its own, {at}"))).collect();
        let some = texts.slice(0, 90);
        let sealed = sealed(Arc::new(some.clone()), || ());
        assert_eq!(sealed.as_string_view(), &some);
        assert!(sealed.get_array_memory_size() < texts.get_array_memory_size() / 10);
    }

    #[test]
    fn sealed_columns_hold_no_more_than_their_texts_need() {
        for length in [13, 40, 4_000] {
            for count in [1, 300, 9_000] {
                let texts: StringViewArray = (0..count).map(|at| Some(format!("{at:0length$}"))).collect();
                let sealed = sealed(Arc::new(texts.clone()), || ());
                assert_eq!(sealed.as_string_view(), &texts);
                let (held, takes) = (bytes_held(&sealed), sealed.get_buffer_memory_size());
                assert!(takes <= held + held / 20 + 64, "{count} texts of {length}: {takes} for {held}");
            }
        }
    }

    #[test]
    fn bounds_of_floats_know_that_nan_is_the_greatest() {
        let column = Float64Array::from(vec![Some(1.0), Some(f64::NAN), None, Some(-1.0)]);
        let bounds = bounds(Type::Float64, &column);
        let may = |comparison, v| bounds.may_hold(&Condition::compare(0, comparison, Value::Float64(v)));
        assert!(may(Comparison::Equal, f64::NAN) && may(Comparison::Greater, f64::INFINITY));
        assert!(!may(Comparison::Less, -1.0) && may(Comparison::LessOrEqual, -1.0));
    }
}
