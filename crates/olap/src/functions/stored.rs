//! Stored functions: code in a sandbox, called for up to 1,024 rows at once.
//!
//! **Invariant:** a strict function is not called for a row with a null among its arguments.

use super::defined::{self, CalledRoutine, ScalarBody};
use super::outwards;
use super::rows::BatchArgument;
use crate::values::{Repr, array, mismatch, scalar};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs};
use query::analytics::{CODE_BYTES_MAX, CODE_ROWS_MAX};
use query::rows::bytes_of;
use statement::SqlResult;
use statement::pulse;
use types::Datum;

/// Units of work of a row.
const ROW: usize = 16;

/// Call of a stored function.
#[derive(Debug)]
struct StoredFunction {
    called: CalledRoutine,
    arguments: Vec<Repr>,
    result: Repr,
}

/// Returns a call of a stored function.
pub(crate) fn call(called: CalledRoutine, arguments: Vec<(Expr, Repr)>, result: Repr) -> Expr {
    let (exprs, arguments): (Vec<Expr>, Vec<Repr>) = arguments.into_iter().unzip();
    defined::call(StoredFunction { called, arguments, result }, exprs)
}

impl StoredFunction {
    /// Returns the values of these rows.
    fn values(&self, arguments: &[BatchArgument<'_>], rows: usize) -> SqlResult<Vec<Datum>> {
        let mut values = Vec::with_capacity(rows);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for row in 0..rows {
            pulse::tick(ROW)?;
            let given = arguments.iter().map(|argument| argument.datum(row)).collect::<SqlResult<Vec<Datum>>>()?;
            bytes += bytes_of(&given);
            batch.push(given);
            if CODE_ROWS_MAX <= batch.len() || CODE_BYTES_MAX <= bytes {
                self.add_values(&std::mem::take(&mut batch), &mut values)?;
                bytes = 0;
            }
        }
        self.add_values(&batch, &mut values)?;
        Ok(values)
    }

    /// Calls the function for a batch.
    fn add_values(&self, batch: &[Vec<Datum>], values: &mut Vec<Datum>) -> SqlResult<()> {
        let CalledRoutine { routine, code } = &self.called;
        let is_called = |row: &&Vec<Datum>| !(routine.is_strict && row.iter().any(Datum::is_null));
        let given: Vec<&[Datum]> = batch.iter().filter(is_called).map(Vec::as_slice).collect();
        let returned = if given.is_empty() { Vec::new() } else { code.call(routine, &given)? };
        let mut returned = returned.into_iter();
        for row in batch {
            let value = if is_called(&row) { returned.next().ok_or_else(mismatch)? } else { Datum::Null };
            values.push(value);
        }
        Ok(())
    }
}

impl ScalarBody for StoredFunction {
    fn name(&self) -> &str {
        &self.called.routine.name
    }

    fn result(&self) -> DataType {
        self.result.data_type()
    }

    fn is_strict(&self) -> bool {
        self.called.routine.is_strict
    }

    fn can_raise(&self) -> bool {
        true
    }

    fn invoke(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ScalarFunctionArgs { args, number_rows, .. } = args;
        let is_constant = args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arguments = args.iter().zip(&self.arguments).map(|(arg, repr)| BatchArgument::new(arg, *repr));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        // A call that is the same for all rows is not made if there are none.
        let rows = if is_constant { number_rows.min(1) } else { number_rows };
        let values = self.values(&arguments, rows).map_err(outwards)?;
        match values.first() {
            Some(value) if is_constant => Ok(ColumnarValue::Scalar(scalar(value, self.result).map_err(outwards)?)),
            _ => Ok(ColumnarValue::Array(array(values.into_iter().map(Ok), self.result).map_err(outwards)?)),
        }
    }
}
