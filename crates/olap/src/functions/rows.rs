//! A function of values, a row at a time.

use super::outwards;
use crate::values::{Reader, Repr, array, scalar};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use sql::{Datum, SqlResult};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Computes a value of its arguments' values.
pub(crate) type Eval = Arc<dyn Fn(&[Datum]) -> SqlResult<Datum> + Send + Sync>;

pub(super) struct Function {
    name: String,
    arguments: Vec<Repr>,
    result: Repr,
    /// Null if any argument is.
    strict: bool,
    eval: Eval,
    signature: Signature,
}

impl Function {
    pub(super) fn is_strict(&self) -> bool {
        self.strict
    }
}

/// A call of such a function.
pub(crate) fn call(name: &str, arguments: Vec<(Expr, Repr)>, result: Repr, strict: bool, eval: Eval) -> Expr {
    let (exprs, reprs): (Vec<Expr>, Vec<Repr>) = arguments.into_iter().unzip();
    let signature = if exprs.is_empty() {
        Signature::nullary(Volatility::Immutable)
    } else {
        Signature::any(exprs.len(), Volatility::Immutable)
    };
    let function = Function { name: name.to_owned(), arguments: reprs, result, strict, eval, signature };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(function)), exprs))
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The same only if it is the same value: closures cannot be compared.
impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        Arc::ptr_eq(&self.eval, &other.eval) && self.result == other.result && self.arguments == other.arguments
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.result.hash(state);
    }
}

/// An argument of all rows of a batch.
enum Argument<'a> {
    Same(Datum),
    Each(Reader<'a>),
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result.data_type())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ScalarFunctionArgs { args, number_rows, .. } = args;
        let is_constant = args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arguments = args.iter().zip(&self.arguments).map(|(arg, repr)| match arg {
            ColumnarValue::Array(array) => Ok(Argument::Each(Reader::new(array.as_ref(), *repr).map_err(outwards)?)),
            ColumnarValue::Scalar(scalar) => {
                let array = scalar.to_array()?;
                Ok(Argument::Same(Reader::new(array.as_ref(), *repr).map_err(outwards)?.datum(0)))
            }
        });
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let mut values = vec![Datum::Null; arguments.len()];
        let mut one = |row: usize| {
            for (value, argument) in values.iter_mut().zip(&arguments) {
                *value = match argument {
                    Argument::Same(datum) => datum.clone(),
                    Argument::Each(reader) => reader.datum(row),
                };
                if self.strict && value.is_null() {
                    return Ok(Datum::Null);
                }
            }
            (self.eval)(&values)
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
