//! The only path by which functions and aggregates of this crate reach DataFusion.
//!
//! **Invariant:** functions that DataFusion takes for equal compute the same values. It compares functions by name (for
//! common subexpressions), by equality and by hash. Here all three are one text, [`FunctionIdentity`]: the name and the
//! `Debug` form of all that the function captures, that is, constants, types, modifiers and the session's settings. A
//! function is plain data with a derived `Debug`. A closure has none, so a function cannot capture a value that its
//! identity does not show. A tidy test (crate `xtask`) keeps DataFusion's traits of functions, and handwritten `Debug`
//! of functions, out of all other files.

use catalog::Routine;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, GroupsAccumulator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use query::analytics::StoredCode;
use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use types::ops::CallContext;

/// Data that computes a value of each row.
pub(crate) trait ScalarBody: Debug + Send + Sync + 'static {
    /// Returns the name that `EXPLAIN` shows.
    fn name(&self) -> &str;
    /// Returns the constants that `EXPLAIN` shows after the name; empty if there are none.
    fn constants(&self) -> String {
        String::new()
    }
    /// Returns the type of the values.
    fn result(&self) -> DataType;
    /// Returns true if the value is null whenever an argument is.
    fn is_strict(&self) -> bool;
    /// Returns true if the function fails for some arguments, so that it must not see rows that the query has excluded.
    fn can_raise(&self) -> bool;
    /// Computes the values of a batch.
    fn invoke(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue>;
}

/// Data that computes a value of each group of rows.
pub(crate) trait AggregateBody: Debug + Send + Sync + 'static {
    /// Returns the name that `EXPLAIN` shows.
    fn name(&self) -> &str;
    /// Returns the number of arguments.
    fn arguments_count(&self) -> usize;
    /// Returns the type of the values.
    fn result(&self) -> DataType;
    /// Returns the type and the name of each part of a group's state.
    fn state(&self, of: &str) -> Vec<FieldRef>;
    /// Begins one group.
    fn one(&self) -> Box<dyn Accumulator>;
    /// Begins many groups at once, if that is known to be faster.
    fn many(&self) -> Option<Box<dyn GroupsAccumulator>>;
}

/// Settings, zone and clock of the statement. Their address is part of a function's identity, as a statement has one of
/// them.
#[derive(Clone)]
pub(crate) struct StatementContext(Arc<dyn CallContext>);

impl StatementContext {
    pub(crate) fn of(context: &Arc<dyn CallContext>) -> StatementContext {
        StatementContext(Arc::clone(context))
    }
}

impl Deref for StatementContext {
    type Target = dyn CallContext;

    fn deref(&self) -> &(dyn CallContext + 'static) {
        &*self.0
    }
}

impl Debug for StatementContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({:p})", Arc::as_ptr(&self.0))
    }
}

/// Stored function, and the code of the statement that calls it. Both are part of a function's identity: by OID, and by
/// address.
#[derive(Clone)]
pub(crate) struct CalledRoutine {
    pub(crate) routine: Arc<Routine>,
    pub(crate) code: Arc<dyn StoredCode>,
}

impl Debug for CalledRoutine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Routine({}, {:p})", self.routine.oid, Arc::as_ptr(&self.code))
    }
}

/// Delimiters of the part of an identity that users need not see. `Debug` escapes both characters in texts.
const HIDDEN: [char; 2] = ['\u{1}', '\u{2}'];

/// Name, equality and hash of a function, as the module explains.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FunctionIdentity(String);

impl FunctionIdentity {
    fn of(name: &str, constants: &str, captured: &dyn Debug) -> FunctionIdentity {
        if statement::plants::is_planted("same_call_merged") {
            return FunctionIdentity(name.to_owned());
        }
        let [begin, end] = HIDDEN;
        FunctionIdentity(format!("{name}{constants}{begin}{captured:?}{end}"))
    }
}

/// Returns a text of DataFusion's in a readable form: without the hidden parts of the functions' identities.
pub(crate) fn readable(text: &str) -> String {
    let [begin, end] = HIDDEN;
    let mut shown = String::with_capacity(text.len());
    let mut depth = 0_usize;
    for part in text.chars() {
        if part == begin {
            depth += 1;
        } else if part == end {
            depth = depth.saturating_sub(1);
        } else if depth == 0 {
            shown.push(part);
        }
    }
    shown
}

/// Returns a call of a function.
pub(crate) fn call(function: impl ScalarBody, arguments: Vec<Expr>) -> Expr {
    let signature = match arguments.len() {
        0 => Signature::nullary(Volatility::Immutable),
        some => Signature::any(some, Volatility::Immutable),
    };
    let identity = FunctionIdentity::of(function.name(), &function.constants(), &function);
    let defined = DefinedFunction { identity, signature, what: Arc::new(function) as Arc<dyn ScalarBody> };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(defined)), arguments))
}

/// Returns an aggregate as DataFusion has it.
pub(crate) fn aggregate(function: impl AggregateBody) -> AggregateUDF {
    let signature = Signature::any(function.arguments_count(), Volatility::Immutable);
    let identity = FunctionIdentity::of(function.name(), "", &function);
    let defined = DefinedFunction { identity, signature, what: Arc::new(function) as Arc<dyn AggregateBody> };
    AggregateUDF::new_from_impl(defined)
}

/// Returns the function of this crate behind one of DataFusion's; `None` if it is DataFusion's own.
pub(crate) fn of(function: &ScalarUDF) -> Option<&dyn ScalarBody> {
    function.inner().downcast_ref::<DefinedFunction<dyn ScalarBody>>().map(|defined| &*defined.what)
}

/// Function or aggregate as DataFusion has it.
struct DefinedFunction<T: ?Sized> {
    identity: FunctionIdentity,
    signature: Signature,
    what: Arc<T>,
}

impl<T: ?Sized> Debug for DefinedFunction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.identity.0)
    }
}

impl<T: ?Sized> PartialEq for DefinedFunction<T> {
    fn eq(&self, other: &DefinedFunction<T>) -> bool {
        self.identity == other.identity
    }
}

impl<T: ?Sized> Eq for DefinedFunction<T> {}

impl<T: ?Sized> Hash for DefinedFunction<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity.hash(state);
    }
}

impl ScalarUDFImpl for DefinedFunction<dyn ScalarBody> {
    fn name(&self) -> &str {
        &self.identity.0
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.what.result())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.what.invoke(args)
    }
}

impl AggregateUDFImpl for DefinedFunction<dyn AggregateBody> {
    fn name(&self) -> &str {
        &self.identity.0
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.what.result())
    }

    /// Returns the value over no rows, which a correlated subquery without rows has. The aggregate itself computes it.
    fn default_value(&self, _: &DataType) -> Result<ScalarValue> {
        if statement::plants::is_planted("empty_aggregate_null") {
            return ScalarValue::try_from(self.what.result());
        }
        self.what.one().evaluate()
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(self.what.one())
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(self.what.state(args.name))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        self.what.many().is_some()
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.what.many().ok_or_else(|| super::outwards(crate::values::mismatch()))
    }
}
