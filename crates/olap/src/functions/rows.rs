//! Functions that are evaluated a row at a time.

use super::defined::{self, ScalarBody, StatementContext};
use super::outwards;
use crate::values::{ArrayReader, Repr, array, mismatch, scalar};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs};
use query::plan::CastEval;
use statement::SqlResult;
use statement::pulse;
use std::cmp::Ordering;
use types::ops::{Callee, compare, is_same};
use types::{Datum, Kind, SqlType};

/// Computation over the arguments' values. It is data, so its `Debug` form shows all that it captures.
#[derive(Debug)]
pub(crate) enum RowComputation {
    /// Entry of the tables of functions and operators. The frame has the constants; the arguments fill its free places.
    Call { callee: Callee, frame: Vec<Option<Datum>>, session: StatementContext },
    /// Cast to a type with its modifier.
    Cast { eval: CastEval, to: SqlType, session: StatementContext },
    /// `ANY` or `ALL` of the items of a constant array.
    AnyItem { all: bool, callee: Callee, items: Box<[Datum]>, session: StatementContext },
    /// `GREATEST` or `LEAST`.
    Extreme { greatest: bool, kind: Kind },
    /// `IS NOT DISTINCT FROM`.
    Same(Kind),
    /// Equality of two values that are not null.
    Equal(Kind),
    /// Text without its trailing blanks.
    Trimmed,
    /// Numeric, rounded to as many digits after the point as the second argument says.
    Rounded,
    /// Numeric with the same value in another representation.
    Numeric,
}

/// Units of work of a row.
const ROW: usize = 16;

/// Function that is evaluated a row at a time.
#[derive(Debug)]
struct RowFunction {
    name: String,
    arguments: Vec<Repr>,
    result: Repr,
    /// True if the value is null whenever an argument is.
    strict: bool,
    body: RowComputation,
}

/// Returns a call of a function.
pub(crate) fn call(name: &str, arguments: Vec<(Expr, Repr)>, result: Repr, strict: bool, body: RowComputation) -> Expr {
    let (exprs, reprs): (Vec<Expr>, Vec<Repr>) = arguments.into_iter().unzip();
    defined::call(RowFunction { name: name.to_owned(), arguments: reprs, result, strict, body }, exprs)
}

impl RowComputation {
    fn eval(&self, values: &[Datum]) -> SqlResult<Datum> {
        pulse::tick(ROW)?;
        match self {
            RowComputation::Call { callee, frame, session } => {
                if values.len() == frame.len() {
                    return callee.call(values, &**session);
                }
                let mut given = values.iter();
                // Arguments fill the free places of the frame in order.
                let of = |constant: &Option<Datum>| match constant {
                    Some(constant) => Ok(constant.clone()),
                    None => given.next().cloned().ok_or_else(mismatch),
                };
                let all = frame.iter().map(of).collect::<SqlResult<Vec<Datum>>>()?;
                callee.call(&all, &**session)
            }
            RowComputation::Cast { eval, to, session } => eval(&values[0], *to, &**session),
            RowComputation::AnyItem { all, callee, items, session } => {
                // The result is that of PostgreSQL: a decisive item ends the search, and a null makes the rest
                // undecided.
                let mut result = Datum::Bool(*all);
                for item in items {
                    let pair = [values[0].clone(), item.clone()];
                    match callee.call(&pair, &**session)? {
                        Datum::Bool(value) if value != *all => return Ok(Datum::Bool(value)),
                        Datum::Bool(_) => {}
                        Datum::Null => result = Datum::Null,
                        other => return Err(mismatch().detail(format!("{other:?} is no truth value"))),
                    }
                }
                Ok(result)
            }
            RowComputation::Extreme { greatest, kind } => {
                let wanted = if *greatest { Ordering::Greater } else { Ordering::Less };
                let mut best = &Datum::Null;
                for value in values.iter().filter(|value| !value.is_null()) {
                    if best.is_null() || compare(value, best, *kind) == wanted {
                        best = value;
                    }
                }
                Ok(best.clone())
            }
            RowComputation::Same(kind) => Ok(Datum::Bool(is_same(&values[0], &values[1], *kind))),
            RowComputation::Equal(kind) => Ok(Datum::Bool(compare(&values[0], &values[1], *kind).is_eq())),
            RowComputation::Trimmed => match &values[0] {
                Datum::Text(text) => Ok(Datum::text(text.trim_end_matches(' '))),
                _ => Err(mismatch()),
            },
            RowComputation::Rounded => match (&values[0], &values[1]) {
                (Datum::Numeric(number), Datum::Int8(scale)) => Ok(Datum::Numeric(number.round(*scale as i32))),
                _ => Err(mismatch()),
            },
            RowComputation::Numeric => Ok(values[0].clone()),
        }
    }
}

/// Returns a constant as `EXPLAIN` shows it; a long one is truncated.
fn shown(constant: &Datum) -> String {
    const LONGEST: usize = 24;
    let text = match constant {
        Datum::Null => "null".to_owned(),
        Datum::Bool(value) => value.to_string(),
        Datum::Int2(value) => value.to_string(),
        Datum::Int4(value) => value.to_string(),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) => value.to_string(),
        Datum::Oid(value) => value.to_string(),
        Datum::Float4(value) => value.to_string(),
        Datum::Float8(value) => value.to_string(),
        Datum::Numeric(value) => value.to_string(),
        Datum::Text(value) => format!("'{value}'"),
        Datum::Date(value) => value.to_string(),
        Datum::Bytes(_) | Datum::Interval(_) | Datum::Uuid(_) | Datum::Array(_) => format!("{constant:?}"),
    };
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

/// Argument of a function for all rows of a batch.
pub(super) enum BatchArgument<'a> {
    Same(Datum),
    Each(ArrayReader<'a>),
}

impl<'a> BatchArgument<'a> {
    /// Returns a reader of an argument.
    pub(super) fn new(argument: &'a ColumnarValue, repr: Repr) -> Result<BatchArgument<'a>> {
        match argument {
            ColumnarValue::Array(array) => {
                Ok(BatchArgument::Each(ArrayReader::new(array.as_ref(), repr).map_err(outwards)?))
            }
            ColumnarValue::Scalar(scalar) => {
                let array = scalar.to_array()?;
                let reader = ArrayReader::new(array.as_ref(), repr);
                Ok(BatchArgument::Same(reader.and_then(|reader| reader.datum(0)).map_err(outwards)?))
            }
        }
    }

    /// Returns the value of a row.
    pub(super) fn datum(&self, row: usize) -> SqlResult<Datum> {
        match self {
            BatchArgument::Same(datum) => Ok(datum.clone()),
            BatchArgument::Each(reader) => reader.datum(row),
        }
    }
}

impl ScalarBody for RowFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn constants(&self) -> String {
        match &self.body {
            RowComputation::Call { frame, .. } if frame.iter().any(Option::is_some) => {
                let of = |constant: &Option<Datum>| constant.as_ref().map_or_else(|| "_".to_owned(), shown);
                format!("[{}]", frame.iter().map(of).collect::<Vec<_>>().join(", "))
            }
            RowComputation::Cast { to, .. } => format!("[{}]", to.name()),
            RowComputation::AnyItem { items, .. } => format!("[{}]", shown(&Datum::Array(items.clone()))),
            RowComputation::Call { .. }
            | RowComputation::Extreme { .. }
            | RowComputation::Same(_)
            | RowComputation::Equal(_)
            | RowComputation::Trimmed
            | RowComputation::Rounded
            | RowComputation::Numeric => String::new(),
        }
    }

    fn result(&self) -> DataType {
        self.result.data_type()
    }

    fn is_strict(&self) -> bool {
        self.strict
    }

    fn can_raise(&self) -> bool {
        match self.body {
            RowComputation::Call { .. } | RowComputation::Cast { .. } | RowComputation::AnyItem { .. } => true,
            RowComputation::Extreme { .. }
            | RowComputation::Same(_)
            | RowComputation::Equal(_)
            | RowComputation::Trimmed
            | RowComputation::Rounded
            | RowComputation::Numeric => false,
        }
    }

    fn invoke(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ScalarFunctionArgs { args, number_rows, .. } = args;
        let is_constant = args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arguments = args.iter().zip(&self.arguments).map(|(arg, repr)| BatchArgument::new(arg, *repr));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let mut values = vec![Datum::Null; arguments.len()];
        let mut one = |row: usize| {
            for (value, argument) in values.iter_mut().zip(&arguments) {
                *value = argument.datum(row)?;
                if self.strict && value.is_null() {
                    return Ok(Datum::Null);
                }
            }
            self.body.eval(&values)
        };
        if is_constant {
            let value = one(0).map_err(outwards)?;
            return Ok(ColumnarValue::Scalar(match self.result {
                Repr::Null => ScalarValue::Null,
                result => scalar(&value, result).map_err(outwards)?,
            }));
        }
        Ok(ColumnarValue::Array(array((0..number_rows).map(one), self.result).map_err(outwards)?))
    }
}
