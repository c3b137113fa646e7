//! Functions that compute whole arrays.
//!
//! **Invariant:** numerics of one scale are integers here, so sums and products are exact. A result of more than 38
//! digits is an error, never a wrapped number. Where the arguments have too few digits for that, nothing is checked.

use super::defined;
use super::{arithmetic, outwards};
use crate::values::{DIGITS_MAX, Repr, padded};
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, AsArray, BinaryViewArray, BooleanArray, Decimal128Array, Float64Array,
    Int64Array, Scalar, StringViewArray, new_null_array,
};
use datafusion::arrow::compute;
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::{DataType, Date32Type, Decimal128Type, Float64Type, Int64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs};
use statement::SqlError;
use std::sync::Arc;
use types::calendar;

/// Arithmetic operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    /// Division of integers only.
    Divide,
}

/// Field of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DateField {
    Year,
    Month,
    Day,
}

/// Function of whole arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kernel {
    /// Operation on two integers of the result's type.
    Integers(Arithmetic, Repr),
    /// Operation on two decimals, each multiplied by a power of ten first.
    Decimals { operation: Arithmetic, left_shift: u8, right_shift: u8, result: Repr, checked: bool },
    /// Decimal with more digits after the point.
    Shifted { shift: u8, result: Repr, checked: bool },
    /// Float such that equal ones have equal bits, in PostgreSQL's order: no -0, one NaN.
    Canonical,
    /// Comparable part of keyed bytes.
    Key,
    /// Text with the blanks of `char(n)`.
    Pad(u32),
    /// Field of a date, as a numeric without a scale.
    Part(DateField),
    /// Boolean as a number. DataFusion turns a CASE of booleans into ANDs and ORs, which evaluate more than the CASE
    /// does.
    Flag,
    /// Boolean from such a number.
    Truth,
    /// Value itself, declared as nullable.
    OrNull(Repr),
    /// First argument, declared as nullable. It depends on the rows of the second argument, so no rule makes a constant
    /// of it.
    Beside(Repr),
}

/// Returns a call of a kernel.
pub(crate) fn call(kernel: Kernel, arguments: Vec<Expr>) -> Expr {
    defined::call(kernel, arguments)
}

/// Returns 10 to this power.
pub(crate) fn ten_to(power: u8) -> i128 {
    10_i128.pow(u32::from(power.min(DIGITS_MAX)))
}

impl Kernel {
    fn data_type(self) -> DataType {
        match self {
            Kernel::Integers(_, result)
            | Kernel::Decimals { result, .. }
            | Kernel::Shifted { result, .. }
            | Kernel::OrNull(result)
            | Kernel::Beside(result) => result.data_type(),
            Kernel::Canonical => DataType::Float64,
            Kernel::Key => DataType::BinaryView,
            Kernel::Flag => DataType::Int64,
            Kernel::Truth => DataType::Boolean,
            Kernel::Pad(_) => DataType::Utf8View,
            Kernel::Part(_) => Repr::Decimal { precision: 10, scale: 0 }.data_type(),
        }
    }
}

fn type_name(of: Repr) -> &'static str {
    match of {
        Repr::Int2 => "smallint",
        Repr::Int4 => "integer",
        Repr::Int8 => "bigint",
        Repr::Decimal { .. } => "numeric field",
        Repr::Null
        | Repr::Bool
        | Repr::Oid
        | Repr::Time
        | Repr::Float4
        | Repr::Float8
        | Repr::Text
        | Repr::Blanks
        | Repr::Padded(_)
        | Repr::Bytes
        | Repr::Uuid
        | Repr::Keyed(_)
        | Repr::Date
        | Repr::Timestamp => "value",
    }
}

fn overflow() -> ArrowError {
    ArrowError::ArithmeticOverflow(String::new())
}

/// Decimal operand: a constant for all rows, or an array.
enum DecimalOperand {
    Constant(Option<i128>),
    Each(Decimal128Array),
}

impl DecimalOperand {
    fn new(value: &ColumnarValue, shift: u8) -> Result<DecimalOperand, ArrowError> {
        let by = ten_to(shift);
        match value {
            ColumnarValue::Scalar(scalar) => {
                let array = scalar.to_array().map_err(|error| ArrowError::ComputeError(error.to_string()))?;
                let value = array.as_primitive::<Decimal128Type>();
                let value = (!value.is_null(0)).then(|| value.value(0).mul_checked(by)).transpose()?;
                Ok(DecimalOperand::Constant(value))
            }
            ColumnarValue::Array(array) => {
                let array = array.as_primitive::<Decimal128Type>();
                Ok(DecimalOperand::Each(match shift {
                    0 => array.clone(),
                    _ => compute::try_unary(array, |value| value.mul_checked(by))?,
                }))
            }
        }
    }
}

fn decimals(
    operation: Arithmetic,
    [left, right]: [DecimalOperand; 2],
    checked: bool,
    rows: usize,
) -> Result<Decimal128Array, ArrowError> {
    fn apply(
        [left, right]: [DecimalOperand; 2],
        rows: usize,
        checked: bool,
        safe: impl Fn(i128, i128) -> i128,
        careful: impl Fn(i128, i128) -> Option<i128>,
    ) -> Result<Decimal128Array, ArrowError> {
        // A check costs time for each row, so it is left out where the results are known to fit. Constants are always
        // checked.
        let careful = |left, right| careful(left, right).ok_or_else(overflow);
        Ok(match (left, right, checked) {
            (DecimalOperand::Constant(None), _, _) | (_, DecimalOperand::Constant(None), _) => {
                Decimal128Array::new_null(rows)
            }
            (DecimalOperand::Constant(Some(left)), DecimalOperand::Constant(Some(right)), _) => {
                Decimal128Array::from_value(careful(left, right)?, rows)
            }
            (DecimalOperand::Constant(Some(left)), DecimalOperand::Each(right), false) => {
                compute::unary(&right, |right| safe(left, right))
            }
            (DecimalOperand::Constant(Some(left)), DecimalOperand::Each(right), true) => {
                compute::try_unary(&right, |right| careful(left, right))?
            }
            (DecimalOperand::Each(left), DecimalOperand::Constant(Some(right)), false) => {
                compute::unary(&left, |left| safe(left, right))
            }
            (DecimalOperand::Each(left), DecimalOperand::Constant(Some(right)), true) => {
                compute::try_unary(&left, |left| careful(left, right))?
            }
            (DecimalOperand::Each(left), DecimalOperand::Each(right), false) => compute::binary(&left, &right, safe)?,
            (DecimalOperand::Each(left), DecimalOperand::Each(right), true) => {
                compute::try_binary(&left, &right, careful)?
            }
        })
    }
    let both = [left, right];
    match operation {
        Arithmetic::Add => apply(both, rows, checked, i128::wrapping_add, within(i128::checked_add)),
        Arithmetic::Subtract => apply(both, rows, checked, i128::wrapping_sub, within(i128::checked_sub)),
        Arithmetic::Multiply => apply(both, rows, checked, product, within(i128::checked_mul)),
        Arithmetic::Divide => Err(ArrowError::ComputeError("a quotient of decimals has no scale".to_owned())),
    }
}

/// Returns a product that is known to fit. Most factors are narrow, and their product takes one instruction.
fn product(left: i128, right: i128) -> i128 {
    match (i64::try_from(left), i64::try_from(right)) {
        (Ok(left), Ok(right)) => i128::from(left) * i128::from(right),
        _ => left.wrapping_mul(right),
    }
}

/// Limits the results of an operation to 38 digits.
fn within(operation: impl Fn(i128, i128) -> Option<i128>) -> impl Fn(i128, i128) -> Option<i128> {
    let limit = ten_to(DIGITS_MAX) as u128;
    move |left, right| operation(left, right).filter(|value| value.unsigned_abs() < limit)
}

fn typed(array: Decimal128Array, of: DataType) -> ArrayRef {
    Arc::new(array.with_data_type(of))
}

/// Returns the comparable part of keyed bytes: without the bytes after the key, and without the length at the end.
fn key(bytes: &[u8]) -> Option<&[u8]> {
    let (both, len) = bytes.split_last_chunk::<4>()?;
    both.get(..both.len().checked_sub(u32::from_be_bytes(*len) as usize)?)
}

fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

impl Kernel {
    fn apply(self, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
        let first = |args: &[ColumnarValue]| args[0].to_array(rows);
        let result = self.data_type();
        Ok(match self {
            Kernel::Integers(operation, of) => {
                let error = |error: ArrowError| arithmetic(&error, type_name(of));
                if args.iter().any(|arg| matches!(arg, ColumnarValue::Scalar(scalar) if scalar.is_null())) {
                    return Ok(new_null_array(&result, rows));
                }
                let operands = args.iter().map(operand).collect::<Result<Vec<_>>>()?;
                let [left, right] = &operands[..] else { return Err(outwards(crate::values::mismatch())) };
                let computed = match operation {
                    Arithmetic::Add => numeric::add(left.as_ref(), right.as_ref()),
                    Arithmetic::Subtract => numeric::sub(left.as_ref(), right.as_ref()),
                    Arithmetic::Multiply => numeric::mul(left.as_ref(), right.as_ref()),
                    Arithmetic::Divide => numeric::div(left.as_ref(), right.as_ref()),
                };
                computed.map_err(error)?
            }
            Kernel::Decimals { operation, left_shift, right_shift, checked, .. } => {
                let computed = DecimalOperand::new(&args[0], left_shift)
                    .and_then(|left| Ok([left, DecimalOperand::new(&args[1], right_shift)?]))
                    .and_then(|operands| decimals(operation, operands, checked, rows));
                typed(computed.map_err(too_wide)?, result)
            }
            Kernel::Shifted { shift, checked, .. } => {
                let array = first(args)?;
                let array = array.as_primitive::<Decimal128Type>();
                let by = ten_to(shift);
                let shifted = match checked {
                    false => compute::unary::<_, _, Decimal128Type>(array, |value| product(value, by)),
                    true => compute::try_unary::<_, _, Decimal128Type>(array, |value| value.mul_checked(by))
                        .map_err(too_wide)?,
                };
                typed(shifted, result)
            }
            Kernel::OrNull(_) | Kernel::Beside(_) => first(args)?,
            Kernel::Canonical => {
                let array = first(args)?;
                let canonical: Float64Array = compute::unary(array.as_primitive::<Float64Type>(), canonical);
                Arc::new(canonical)
            }
            Kernel::Key => {
                let array = first(args)?;
                Arc::new(array.as_binary_view().iter().map(|bytes| bytes.and_then(key)).collect::<BinaryViewArray>())
            }
            Kernel::Flag => {
                let array = first(args)?;
                Arc::new(array.as_boolean().iter().map(|value| value.map(i64::from)).collect::<Int64Array>())
            }
            Kernel::Truth => {
                let array = first(args)?;
                let numbers = array.as_primitive::<Int64Type>().iter();
                Arc::new(numbers.map(|number| number.map(|number| number != 0)).collect::<BooleanArray>())
            }
            Kernel::Pad(length) => {
                let array = first(args)?;
                let texts = array.as_string_view().iter();
                let texts = texts.map(|text| text.map(|text| padded(text, length as usize)));
                Arc::new(texts.collect::<StringViewArray>())
            }
            Kernel::Part(part) => {
                let array = first(args)?;
                let dates = array.as_primitive::<Date32Type>();
                // Fields of an infinite date are no finite numbers: only the row path supports them.
                let of = |days: i32| {
                    if matches!(days, i32::MAX | i32::MIN) {
                        return Err(ArrowError::ComputeError(String::new()));
                    }
                    let (year, month, day) = civil(days);
                    Ok(i128::from(match part {
                        DateField::Year => year,
                        DateField::Month => month,
                        DateField::Day => day,
                    }))
                };
                let parts = compute::try_unary::<_, _, Decimal128Type>(dates, of)
                    .map_err(|_| outwards(SqlError::unsupported("a field of an infinite date as analytics")))?;
                typed(parts, result)
            }
        })
    }
}

fn too_wide(_: ArrowError) -> datafusion::error::DataFusionError {
    outwards(SqlError::unsupported("so large a number as analytics"))
}

/// Returns the year (as `extract` counts it: -1 is 1 BC), month and day.
fn civil(days: i32) -> (i64, i64, i64) {
    let calendar::CivilDate { year, month, day } = calendar::civil_of(i64::from(days));
    (if year <= 0 { year - 1 } else { year }, month, day)
}

fn operand(value: &ColumnarValue) -> Result<Box<dyn datafusion::arrow::array::Datum>> {
    Ok(match value {
        ColumnarValue::Array(array) => Box::new(Arc::clone(array)),
        ColumnarValue::Scalar(scalar) => Box::new(Scalar::new(scalar.to_array()?)),
    })
}

impl defined::ScalarBody for Kernel {
    fn name(&self) -> &str {
        match self {
            Kernel::Integers(Arithmetic::Add, _) | Kernel::Decimals { operation: Arithmetic::Add, .. } => "plus",
            Kernel::Integers(Arithmetic::Subtract, _) | Kernel::Decimals { operation: Arithmetic::Subtract, .. } => {
                "minus"
            }
            Kernel::Integers(Arithmetic::Multiply, _) | Kernel::Decimals { operation: Arithmetic::Multiply, .. } => {
                "times"
            }
            Kernel::Integers(Arithmetic::Divide, _) | Kernel::Decimals { operation: Arithmetic::Divide, .. } => {
                "divided"
            }
            Kernel::Shifted { .. } => "rescaled",
            Kernel::Canonical => "canonical",
            Kernel::Key => "key",
            Kernel::Flag => "flag",
            Kernel::Truth => "truth",
            Kernel::OrNull(_) => "or_null",
            Kernel::Beside(_) => "beside",
            Kernel::Pad(_) => "padded",
            Kernel::Part(DateField::Year) => "year",
            Kernel::Part(DateField::Month) => "month",
            Kernel::Part(DateField::Day) => "day",
        }
    }

    fn result(&self) -> DataType {
        self.data_type()
    }

    fn is_strict(&self) -> bool {
        !matches!(self, Kernel::Beside(_))
    }

    fn can_raise(&self) -> bool {
        match self {
            Kernel::Integers(..) | Kernel::Part(_) => true,
            Kernel::Decimals { checked, .. } | Kernel::Shifted { checked, .. } => *checked,
            Kernel::Canonical
            | Kernel::Key
            | Kernel::Pad(_)
            | Kernel::Flag
            | Kernel::Truth
            | Kernel::OrNull(_)
            | Kernel::Beside(_) => false,
        }
    }

    fn invoke(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ScalarFunctionArgs { mut args, number_rows, .. } = args;
        if matches!(self, Kernel::Beside(_)) {
            args.truncate(1);
        }
        // The optimizer also evaluates a null that has no type yet.
        if args.iter().any(|arg| arg.data_type().is_null()) {
            return Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from(&self.data_type())?));
        }
        let is_constant = args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let array = self.apply(&args, if is_constant { 1 } else { number_rows })?;
        Ok(if is_constant {
            ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&array, 0)?)
        } else {
            ColumnarValue::Array(array)
        })
    }
}
