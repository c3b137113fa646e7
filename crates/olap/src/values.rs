//! Representation of SQL's values in Arrow arrays.
//!
//! **Invariant:** a [`Repr`] determines the array's type and the [`Datum`] variant of its values. Values are read back
//! as they were written, including display scale and blanks. Columns are represented as in [`catalog::storage`];
//! values that no column can hold, as numerics of varying scale, are keyed bytes as in [`catalog::storage::keyed`].

use catalog::storage;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, BooleanArray, BooleanBuilder, Decimal128Builder,
    NullArray, PrimitiveArray, PrimitiveBuilder, RecordBatch, StringViewArray, StringViewBuilder,
};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::ScalarValue;
use engine::Value;
use query::rows::BatchValue;
use statement::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use types::numeric::Numeric;
use types::{Datum, Kind, SqlType};

/// Number of digits of Arrow's decimals.
pub(crate) const DIGITS_MAX: u8 = 38;

/// Arrow representation of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Repr {
    /// Untyped null.
    Null,
    Bool,
    Int2,
    Int4,
    Int8,
    /// OID, and other types represented by 64-bit integers.
    Oid,
    Time,
    /// Represented by 64 bits.
    Float4,
    Float8,
    /// Numerics of one scale and a maximum precision.
    Decimal {
        precision: u8,
        scale: u8,
    },
    Text,
    /// `char(n)` with its trailing blanks.
    Blanks,
    /// `char(n)` without its trailing blanks.
    Padded(u32),
    Bytes,
    Uuid,
    Date,
    Timestamp,
    /// Keyed bytes of a type.
    Keyed(Kind),
}

/// Error for a bug: a value is not of the type that the binder determined.
pub(crate) fn mismatch() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "analytics met a value of another type than was planned")
}

impl Repr {
    /// Returns the representation of a table's column.
    pub(crate) fn of_column(kind: SqlType) -> SqlResult<Repr> {
        match kind.kind {
            Kind::Bpchar => Ok(Repr::Padded(kind.max_length().unwrap_or(0) as u32)),
            Kind::Numeric => Ok(match storage::decimal(kind) {
                Some((precision, scale)) => Repr::Decimal { precision, scale: scale.unsigned_abs() },
                None => Repr::Keyed(Kind::Numeric),
            }),
            kind => Repr::of_kind(kind),
        }
    }

    /// Returns the representation of a function's result.
    pub(crate) fn of_kind(kind: Kind) -> SqlResult<Repr> {
        Ok(match kind {
            Kind::Bool => Repr::Bool,
            Kind::Int2 => Repr::Int2,
            Kind::Int4 => Repr::Int4,
            Kind::Int8 => Repr::Int8,
            Kind::Oid
            | Kind::Regclass
            | Kind::Regtype
            | Kind::Regproc
            | Kind::Regprocedure
            | Kind::Regnamespace
            | Kind::Regrole => Repr::Oid,
            Kind::Time => Repr::Time,
            Kind::Float4 => Repr::Float4,
            Kind::Float8 => Repr::Float8,
            Kind::Text | Kind::Varchar | Kind::Name | Kind::Json | Kind::InternalChar | Kind::Unknown => Repr::Text,
            Kind::Bpchar => Repr::Blanks,
            Kind::Bytea => Repr::Bytes,
            Kind::Uuid => Repr::Uuid,
            Kind::Date => Repr::Date,
            Kind::Timestamp | Kind::Timestamptz => Repr::Timestamp,
            Kind::Numeric | Kind::Interval | Kind::Array(_) => Repr::Keyed(kind),
            other => return Err(SqlError::unsupported(format_args!("type {} as analytics", other.name()))),
        })
    }

    /// Returns the representation of a constant; numerics keep their scale.
    pub(crate) fn of_datum(datum: &Datum, kind: Option<Kind>) -> SqlResult<Repr> {
        Ok(match datum {
            Datum::Null => Repr::Null,
            Datum::Bool(_) => Repr::Bool,
            Datum::Int2(_) => Repr::Int2,
            Datum::Int4(_) => Repr::Int4,
            Datum::Int8(_) => Repr::Int8,
            Datum::Oid(_) => Repr::Oid,
            Datum::Time(_) => Repr::Time,
            Datum::Float4(_) => Repr::Float4,
            Datum::Float8(_) => Repr::Float8,
            Datum::Text(_) => Repr::Text,
            Datum::Bytes(_) => Repr::Bytes,
            Datum::Uuid(_) => Repr::Uuid,
            Datum::Date(_) => Repr::Date,
            Datum::Timestamp(_) => Repr::Timestamp,
            Datum::Interval(_) => Repr::Keyed(Kind::Interval),
            Datum::Numeric(number) => match fixed(number) {
                Some((unscaled, scale)) => Repr::Decimal { precision: digits(unscaled).max(scale), scale },
                None => Repr::Keyed(Kind::Numeric),
            },
            Datum::Array(_) => match kind {
                Some(kind @ Kind::Array(_)) => Repr::Keyed(kind),
                _ => return Err(SqlError::unsupported("an array of an unknown type as analytics")),
            },
        })
    }

    /// Returns the type of the arrays.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Repr::Null => DataType::Null,
            Repr::Bool => DataType::Boolean,
            Repr::Int2 => DataType::Int16,
            Repr::Int4 => DataType::Int32,
            Repr::Int8 | Repr::Oid | Repr::Time => DataType::Int64,
            Repr::Float4 | Repr::Float8 => DataType::Float64,
            Repr::Decimal { precision, scale } => DataType::Decimal128(precision.max(1), scale as i8),
            Repr::Text | Repr::Blanks | Repr::Padded(_) => DataType::Utf8View,
            Repr::Bytes | Repr::Uuid | Repr::Keyed(_) => DataType::BinaryView,
            Repr::Date => DataType::Date32,
            Repr::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }

    /// Returns the representation of a result column, from its array's type and its SQL type.
    fn of_answer(array: &dyn Array, kind: SqlType) -> SqlResult<Repr> {
        Ok(match array.data_type() {
            DataType::Null => Repr::Null,
            DataType::Decimal128(precision, scale) => {
                Repr::Decimal { precision: *precision, scale: scale.unsigned_abs() }
            }
            _ if kind.kind == Kind::Numeric => Repr::Keyed(Kind::Numeric),
            _ if kind.kind == Kind::Bpchar && kind.max_length().is_some() => Repr::of_column(kind)?,
            _ => Repr::of_kind(kind.kind)?,
        })
    }
}

/// Returns the unscaled value and the scale of a number that fits a decimal.
pub(crate) fn fixed(number: &Numeric) -> Option<(i128, u8)> {
    if !number.is_finite() {
        return None;
    }
    let scale = u8::try_from(number.scale()).ok().filter(|scale| *scale <= DIGITS_MAX)?;
    let unscaled = number.to_i128_with_scale(u32::from(scale))?;
    (digits(unscaled) <= DIGITS_MAX).then_some((unscaled, scale))
}

/// Returns the number of digits of an integer; 1 for 0.
pub(crate) fn digits(unscaled: i128) -> u8 {
    unscaled.unsigned_abs().checked_ilog10().map_or(1, |log| log as u8 + 1)
}

/// Reader of the values of an array.
pub(crate) enum ArrayReader<'a> {
    Null,
    Bool(&'a BooleanArray),
    Int2(&'a PrimitiveArray<Int16Type>),
    Int4(&'a PrimitiveArray<Int32Type>),
    Int8(&'a PrimitiveArray<Int64Type>),
    Oid(&'a PrimitiveArray<Int64Type>),
    Time(&'a PrimitiveArray<Int64Type>),
    Float4(&'a PrimitiveArray<Float64Type>),
    Float8(&'a PrimitiveArray<Float64Type>),
    Decimal(&'a PrimitiveArray<Decimal128Type>, u16),
    Text(&'a StringViewArray, usize),
    Bytes(&'a BinaryViewArray),
    Uuid(&'a BinaryViewArray),
    Keyed(&'a BinaryViewArray, Kind),
    Date(&'a PrimitiveArray<Date32Type>),
    Timestamp(&'a PrimitiveArray<TimestampMicrosecondType>),
}

impl<'a> ArrayReader<'a> {
    /// Returns a reader of an array in this representation.
    pub(crate) fn new(array: &'a dyn Array, repr: Repr) -> SqlResult<ArrayReader<'a>> {
        let missing = mismatch;
        Ok(match repr {
            Repr::Null => ArrayReader::Null,
            _ if matches!(array.data_type(), DataType::Null) => ArrayReader::Null,
            Repr::Bool => ArrayReader::Bool(array.as_boolean_opt().ok_or_else(missing)?),
            Repr::Int2 => ArrayReader::Int2(array.as_primitive_opt().ok_or_else(missing)?),
            Repr::Int4 => ArrayReader::Int4(array.as_primitive_opt().ok_or_else(missing)?),
            Repr::Int8 => ArrayReader::Int8(array.as_primitive_opt().ok_or_else(missing)?),
            Repr::Oid => ArrayReader::Oid(array.as_primitive_opt().ok_or_else(missing)?),
            Repr::Time => ArrayReader::Time(array.as_primitive_opt().ok_or_else(missing)?),
            Repr::Float4 => ArrayReader::Float4(array.as_primitive_opt().ok_or_else(missing)?),
            Repr::Float8 => ArrayReader::Float8(array.as_primitive_opt().ok_or_else(missing)?),
            Repr::Decimal { scale, .. } => {
                ArrayReader::Decimal(array.as_primitive_opt().ok_or_else(missing)?, u16::from(scale))
            }
            Repr::Text | Repr::Blanks => ArrayReader::Text(array.as_string_view_opt().ok_or_else(missing)?, 0),
            Repr::Padded(length) => ArrayReader::Text(array.as_string_view_opt().ok_or_else(missing)?, length as usize),
            Repr::Bytes => ArrayReader::Bytes(array.as_binary_view_opt().ok_or_else(missing)?),
            Repr::Uuid => ArrayReader::Uuid(array.as_binary_view_opt().ok_or_else(missing)?),
            Repr::Keyed(kind) => ArrayReader::Keyed(array.as_binary_view_opt().ok_or_else(missing)?, kind),
            Repr::Date => ArrayReader::Date(array.as_primitive_opt().ok_or_else(missing)?),
            Repr::Timestamp => ArrayReader::Timestamp(array.as_primitive_opt().ok_or_else(missing)?),
        })
    }

    /// Returns the value of a row.
    ///
    /// # Errors
    /// Bytes that are not a value of the type.
    pub(crate) fn datum(&self, row: usize) -> SqlResult<Datum> {
        self.value(row).map(BatchValue::into_datum)
    }

    /// Returns the value of a row without a copy of its text or bytes.
    ///
    /// # Errors
    /// Bytes that are not a value of the type.
    pub(crate) fn value(&self, row: usize) -> SqlResult<BatchValue<'a>> {
        fn of<T: ArrowPrimitiveType>(
            array: &PrimitiveArray<T>,
            row: usize,
            make: impl Fn(T::Native) -> Datum,
        ) -> Datum {
            if array.is_null(row) { Datum::Null } else { make(array.value(row)) }
        }
        Ok(BatchValue::Datum(match self {
            ArrayReader::Null => Datum::Null,
            ArrayReader::Bool(array) if array.is_null(row) => Datum::Null,
            ArrayReader::Bool(array) => Datum::Bool(array.value(row)),
            ArrayReader::Int2(array) => of(array, row, Datum::Int2),
            ArrayReader::Int4(array) => of(array, row, Datum::Int4),
            ArrayReader::Int8(array) => of(array, row, Datum::Int8),
            ArrayReader::Oid(array) => of(array, row, |value| Datum::Oid(value as u32)),
            ArrayReader::Time(array) => of(array, row, Datum::Time),
            ArrayReader::Float4(array) => of(array, row, |value| Datum::Float4(value as f32)),
            ArrayReader::Float8(array) => of(array, row, Datum::Float8),
            ArrayReader::Decimal(array, scale) => {
                of(array, row, |unscaled| Datum::Numeric(Numeric::from_parts(unscaled, *scale)))
            }
            ArrayReader::Text(array, _) if array.is_null(row) => Datum::Null,
            ArrayReader::Text(array, length) => {
                let text = array.value(row);
                return Ok(BatchValue::Text { text, blanks: blanks(text, *length) });
            }
            ArrayReader::Bytes(array) | ArrayReader::Uuid(array) | ArrayReader::Keyed(array, _)
                if array.is_null(row) =>
            {
                Datum::Null
            }
            ArrayReader::Bytes(array) => return Ok(BatchValue::Bytes(array.value(row))),
            ArrayReader::Uuid(array) => Datum::Uuid(array.value(row).try_into().map_err(|_| mismatch())?),
            ArrayReader::Keyed(array, kind) => storage::keyed::datum(array.value(row), *kind).ok_or_else(mismatch)?,
            ArrayReader::Date(array) => of(array, row, Datum::Date),
            ArrayReader::Timestamp(array) => of(array, row, Datum::Timestamp),
        }))
    }
}

/// Returns the number of blanks that fill a text up to a length in characters.
fn blanks(text: &str, length: usize) -> usize {
    if length == 0 { 0 } else { length.saturating_sub(text.chars().count()) }
}

/// Pads a text with blanks.
pub(crate) fn padded(text: &str, length: usize) -> String {
    let missing = blanks(text, length);
    let mut all = String::with_capacity(text.len() + missing);
    all.push_str(text);
    all.extend(std::iter::repeat_n(' ', missing));
    all
}

/// Returns the keyed bytes of a value.
fn keyed<'b>(datum: &'b Datum, kind: Kind, buffer: &'b mut Vec<u8>) -> SqlResult<&'b [u8]> {
    match storage::store(datum, SqlType::from(kind), buffer)? {
        Value::Keyed(bytes) => Ok(bytes),
        _ => Err(mismatch()),
    }
}

/// Returns an array of these values.
pub(crate) fn array(values: impl Iterator<Item = SqlResult<Datum>>, repr: Repr) -> SqlResult<ArrayRef> {
    fn of<T: ArrowPrimitiveType>(
        values: impl Iterator<Item = SqlResult<Datum>>,
        get: impl Fn(&Datum) -> Option<T::Native>,
    ) -> SqlResult<ArrayRef> {
        let mut builder = PrimitiveBuilder::<T>::with_capacity(values.size_hint().0);
        for value in values {
            match value? {
                Datum::Null => builder.append_null(),
                value => builder.append_value(get(&value).ok_or_else(mismatch)?),
            }
        }
        Ok(Arc::new(builder.finish()))
    }
    match repr {
        Repr::Null => {
            // The values are only checked for errors.
            let mut count = 0;
            for value in values {
                value?;
                count += 1;
            }
            Ok(Arc::new(NullArray::new(count)))
        }
        Repr::Bool => {
            let mut builder = BooleanBuilder::new();
            for value in values {
                match value? {
                    Datum::Null => builder.append_null(),
                    Datum::Bool(value) => builder.append_value(value),
                    _ => return Err(mismatch()),
                }
            }
            Ok(Arc::new(builder.finish()))
        }
        Repr::Int2 => of::<Int16Type>(values, |value| if let Datum::Int2(value) = value { Some(*value) } else { None }),
        Repr::Int4 => of::<Int32Type>(values, |value| if let Datum::Int4(value) = value { Some(*value) } else { None }),
        Repr::Int8 | Repr::Oid | Repr::Time => of::<Int64Type>(values, |value| match value {
            Datum::Int8(value) | Datum::Time(value) => Some(*value),
            Datum::Oid(value) => Some(i64::from(*value)),
            _ => None,
        }),
        Repr::Float4 | Repr::Float8 => of::<Float64Type>(values, |value| match value {
            Datum::Float4(value) => Some(f64::from(*value)),
            Datum::Float8(value) => Some(*value),
            _ => None,
        }),
        Repr::Decimal { scale, .. } => {
            let mut builder = Decimal128Builder::new().with_data_type(repr.data_type());
            for value in values {
                match value? {
                    Datum::Null => builder.append_null(),
                    // A numeric of the engine may have more digits than the 38 of a decimal.
                    Datum::Numeric(number) => builder.append_value(
                        number
                            .to_i128_with_scale(u32::from(scale))
                            .ok_or_else(|| SqlError::unsupported("so large a number as analytics"))?,
                    ),
                    _ => return Err(mismatch()),
                }
            }
            Ok(Arc::new(builder.finish()))
        }
        Repr::Text | Repr::Blanks | Repr::Padded(_) => {
            let is_padded = matches!(repr, Repr::Padded(_));
            let mut builder = StringViewBuilder::new();
            for value in values {
                match value? {
                    Datum::Null => builder.append_null(),
                    // Equal values of `char(n)` have equal representations then, whatever blanks they were given.
                    Datum::Text(text) if is_padded => builder.append_value(text.trim_end_matches(' ')),
                    Datum::Text(text) => builder.append_value(text),
                    _ => return Err(mismatch()),
                }
            }
            Ok(Arc::new(builder.finish()))
        }
        Repr::Bytes | Repr::Uuid | Repr::Keyed(_) => {
            let mut builder = BinaryViewBuilder::new();
            let mut buffer = Vec::new();
            for value in values {
                match (value?, repr) {
                    (Datum::Null, _) => builder.append_null(),
                    (value, Repr::Keyed(kind)) => builder.append_value(keyed(&value, kind, &mut buffer)?),
                    (Datum::Bytes(bytes), _) => builder.append_value(bytes),
                    (Datum::Uuid(bytes), _) => builder.append_value(bytes),
                    _ => return Err(mismatch()),
                }
            }
            Ok(Arc::new(builder.finish()))
        }
        Repr::Date => {
            of::<Date32Type>(values, |value| if let Datum::Date(value) = value { Some(*value) } else { None })
        }
        Repr::Timestamp => of::<TimestampMicrosecondType>(values, |value| {
            if let Datum::Timestamp(value) = value { Some(*value) } else { None }
        }),
    }
}

/// Returns a value as a scalar.
pub(crate) fn scalar(datum: &Datum, repr: Repr) -> SqlResult<ScalarValue> {
    let array = array(std::iter::once(Ok(datum.clone())), repr)?;
    ScalarValue::try_from_array(&array, 0).map_err(|_| mismatch())
}

/// Returns readers for the columns of a result, which have these types.
pub(crate) fn readers<'a>(batch: &'a RecordBatch, columns: &[SqlType]) -> SqlResult<Vec<ArrayReader<'a>>> {
    // A result without columns has a dummy column, since a batch takes its number of rows from an array.
    if batch.num_columns() != columns.len().max(1) {
        return Err(mismatch());
    }
    let readers = batch.columns().iter().zip(columns).map(|(array, kind)| {
        let repr = Repr::of_answer(array.as_ref(), *kind)?;
        ArrayReader::new(array.as_ref(), repr)
    });
    readers.collect()
}

/// Returns the rows of a result whose columns have these types.
pub(crate) fn rows(batches: &[RecordBatch], columns: &[SqlType]) -> SqlResult<Vec<Box<[Datum]>>> {
    let mut rows = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for batch in batches {
        let readers = readers(batch, columns)?;
        for row in 0..batch.num_rows() {
            rows.push(readers.iter().map(|reader| reader.datum(row)).collect::<SqlResult<_>>()?);
        }
    }
    Ok(rows)
}
