//! The Arrow form of each type.
//!
//! **Invariant:** what [`gather`] makes of stored values, [`raw`] gives back; scans and blocks have exactly the types of
//! [`Type::arrow`].

use crate::bounds::Bounds;
use crate::types::{Raw, Storage, compare};
use crate::value::{Type, Value};
use arrow_array::builder::GenericByteViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, BinaryViewType, ByteViewType, Date32Type, Decimal128Type, Float64Type, Int16Type, Int32Type,
    Int64Type, StringViewType, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, BooleanArray, GenericByteViewArray, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};
use std::collections::HashSet;
use std::sync::Arc;

impl Type {
    /// The Arrow type that scans return.
    pub fn arrow(self) -> DataType {
        match self {
            Type::Bool => DataType::Boolean,
            Type::Int16 => DataType::Int16,
            Type::Int32 => DataType::Int32,
            Type::Int64 => DataType::Int64,
            Type::Float64 => DataType::Float64,
            Type::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            Type::Text => DataType::Utf8View,
            Type::Bytes => DataType::BinaryView,
            Type::Date => DataType::Date32,
            Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }
}

/// One value of an array of the type, as it is stored in a row.
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
        Type::Bytes => Raw::Bytes(array.as_binary_view().value(at)),
    }
}

/// An array of values out of row images, of which `raws` makes as many iterators as are asked for.
pub(crate) fn gather<'a, I: ExactSizeIterator<Item = Raw<'a>>>(
    kind: Type,
    nullable: bool,
    raws: impl Fn() -> I,
) -> ArrayRef {
    let nulls = || if nullable { nulls(raws()) } else { None };
    match kind {
        Type::Bool => Arc::new(BooleanArray::new(raws().map(|raw| raw == Raw::One(1)).collect(), nulls())),
        Type::Int16 => primitive::<Int16Type>(raws().map(|raw| two(raw) as i16), nulls()),
        Type::Int32 => primitive::<Int32Type>(raws().map(|raw| four(raw) as i32), nulls()),
        Type::Date => primitive::<Date32Type>(raws().map(|raw| four(raw) as i32), nulls()),
        Type::Int64 => primitive::<Int64Type>(raws().map(|raw| eight(raw) as i64), nulls()),
        Type::Timestamp => primitive::<TimestampMicrosecondType>(raws().map(|raw| eight(raw) as i64), nulls()),
        Type::Float64 => primitive::<Float64Type>(raws().map(|raw| f64::from_bits(eight(raw))), nulls()),
        Type::Decimal { precision, scale } => {
            let decimals = raws().map(|raw| match raw {
                Raw::Eight(v) => i128::from(v as i64),
                Raw::Sixteen(v) => v as i128,
                _ => 0,
            });
            let array = PrimitiveArray::<Decimal128Type>::new(decimals.collect(), nulls());
            Arc::new(array.with_precision_and_scale(precision, scale).expect("checked when the table was made"))
        }
        Type::Text => views::<StringViewType>(raws().map(|raw| bytes(raw).map(crate::raw::text::trusted))),
        Type::Bytes => views::<BinaryViewType>(raws().map(bytes)),
    }
}

fn two(raw: Raw<'_>) -> u16 {
    if let Raw::Two(v) = raw { v } else { 0 }
}

fn four(raw: Raw<'_>) -> u32 {
    if let Raw::Four(v) = raw { v } else { 0 }
}

fn eight(raw: Raw<'_>) -> u64 {
    if let Raw::Eight(v) = raw { v } else { 0 }
}

fn bytes(raw: Raw<'_>) -> Option<&[u8]> {
    if let Raw::Bytes(bytes) = raw { Some(bytes) } else { None }
}

fn nulls<'a>(raws: impl ExactSizeIterator<Item = Raw<'a>>) -> Option<NullBuffer> {
    let nulls: NullBuffer = raws.map(|raw| raw != Raw::Null).collect::<Vec<bool>>().into();
    (0 < nulls.null_count()).then_some(nulls)
}

fn primitive<T: ArrowPrimitiveType>(values: impl Iterator<Item = T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.collect(), nulls))
}

fn views<'a, T: ByteViewType>(values: impl ExactSizeIterator<Item = Option<&'a T::Native>>) -> ArrayRef {
    let mut views = GenericByteViewBuilder::<T>::with_capacity(values.len());
    values.for_each(|value| views.append_option(value));
    Arc::new(views.finish())
}

/// Texts of at most so many bytes stand in their views.
const INLINE_BYTES: usize = 12;
/// So many longer ones are looked at to find out whether equal ones are worth sharing.
const SAMPLE: usize = 1024;

/// The column as a block keeps it: equal long texts share their bytes if there are few different ones, and no buffer
/// holds texts that no row has.
pub(crate) fn sealed(column: ArrayRef, rest: impl Fn()) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(shared(column.as_string_view(), rest)),
        DataType::BinaryView => Arc::new(shared(column.as_binary_view(), rest)),
        _ => column,
    }
}

/// `rest` is called now and then.
fn shared<T: ByteViewType>(column: &GenericByteViewArray<T>, rest: impl Fn()) -> GenericByteViewArray<T> {
    let mut different = HashSet::new();
    let mut looked = 0;
    let long = column.bytes_iter().filter(|bytes| INLINE_BYTES < bytes.len());
    for bytes in long.take(SAMPLE) {
        looked += 1;
        different.insert(bytes);
    }
    let mut sealed = GenericByteViewBuilder::<T>::with_capacity(column.len());
    if 2 * different.len() <= looked {
        sealed = sealed.with_deduplicate_strings();
    }
    for (at, value) in column.iter().enumerate() {
        sealed.append_option(value);
        if at.is_multiple_of(crate::scan::GATHER_ROWS) {
            rest();
        }
    }
    sealed.finish()
}

/// The bounds of a column.
pub(crate) fn bounds(kind: Type, column: &dyn Array) -> Bounds {
    match kind {
        Type::Int16 => primitive_bounds::<Int16Type>(column, Value::Int16),
        Type::Int32 => primitive_bounds::<Int32Type>(column, Value::Int32),
        Type::Date => primitive_bounds::<Date32Type>(column, Value::Date),
        Type::Int64 => primitive_bounds::<Int64Type>(column, Value::Int64),
        Type::Timestamp => primitive_bounds::<TimestampMicrosecondType>(column, Value::Timestamp),
        Type::Decimal { .. } => primitive_bounds::<Decimal128Type>(column, Value::Decimal),
        Type::Bool | Type::Float64 | Type::Text | Type::Bytes => {
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
