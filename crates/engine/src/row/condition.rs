//! Conditions on the rows of a scan.
//!
//! **Invariant:** as in SQL, a comparison with null is never true; null is found by [`Test::IsNull`] alone. Several
//! conditions must all hold. A scan that is given them may leave rows out by them, and a SERIALIZABLE transaction
//! records them as its reads.

use crate::error::InvalidValue;
use crate::error::{Error, Result};
use crate::row::types::compare;
use crate::row::value::{Type, Value};
use crate::schema::table::Table;
use core::cmp::Ordering;

/// A comparison of a column with a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// Returns true if the comparison holds for two values with this ordering.
    pub(crate) fn holds(self, ordering: Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// Test of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// Comparison with a constant.
    Compare(Comparison, Constant),
    /// Test for null.
    IsNull,
    /// Test for a value that is not null.
    IsNotNull,
}

/// A value that owns its text or bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constant {
    /// Value of fixed length.
    Fixed(Value<'static>),
    /// Text.
    Text(Box<str>),
    /// Byte string.
    Bytes(Box<[u8]>),
    /// Bytes that begin with their key.
    Keyed(Box<[u8]>),
}

impl Constant {
    /// Returns the constant as a value.
    pub fn value(&self) -> Value<'_> {
        match self {
            Constant::Fixed(value) => *value,
            Constant::Text(text) => Value::Text(text),
            Constant::Bytes(bytes) => Value::Bytes(bytes),
            Constant::Keyed(bytes) => Value::Keyed(bytes),
        }
    }
}

impl From<Value<'_>> for Constant {
    fn from(value: Value<'_>) -> Constant {
        Constant::Fixed(match value {
            Value::Text(text) => return Constant::Text(text.into()),
            Value::Bytes(bytes) => return Constant::Bytes(bytes.into()),
            Value::Keyed(bytes) => return Constant::Keyed(bytes.into()),
            Value::Null => Value::Null,
            Value::Bool(v) => Value::Bool(v),
            Value::Int16(v) => Value::Int16(v),
            Value::Float64(v) => Value::Float64(v),
            Value::Int32(v) => Value::Int32(v),
            Value::Int64(v) => Value::Int64(v),
            Value::Decimal(v) => Value::Decimal(v),
            Value::Date(v) => Value::Date(v),
            Value::Timestamp(v) => Value::Timestamp(v),
        })
    }
}

/// A column and the test of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Position of the column in its table.
    pub column: usize,
    /// Test of the column.
    pub test: Test,
}

impl Condition {
    /// Returns the condition that the column compares with the value in this way; the value must be of its type. With
    /// null it never holds.
    pub fn compare(column: usize, comparison: Comparison, value: Value<'_>) -> Condition {
        Condition { column, test: Test::Compare(comparison, value.into()) }
    }

    /// Returns the condition that the column is null.
    pub fn is_null(column: usize) -> Condition {
        Condition { column, test: Test::IsNull }
    }

    /// Returns the condition that the column is not null.
    pub fn is_not_null(column: usize) -> Condition {
        Condition { column, test: Test::IsNotNull }
    }

    /// Returns true if a row with this value in the column satisfies the condition.
    pub fn holds(&self, value: Value<'_>) -> bool {
        match &self.test {
            Test::IsNull => value == Value::Null,
            Test::IsNotNull => value != Value::Null,
            Test::Compare(comparison, constant) => {
                compare(value, constant.value()).is_some_and(|ordering| comparison.holds(ordering))
            }
        }
    }

    /// Checks that the condition makes sense for the table.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the table has no such column or the constant is not of its type.
    pub fn check(&self, table: &Table) -> Result<()> {
        let bad = |column: &str, why: InvalidValue| {
            Err(Error::InvalidValue { place: format!("{}.{column}", table.name()), why })
        };
        let Some(column) = table.columns().get(self.column) else {
            return bad(&self.column.to_string(), InvalidValue::NoSuchColumn);
        };
        match &self.test {
            Test::Compare(_, constant) if constant.value() != Value::Null => {
                let fits = is_of(constant.value(), column.kind);
                if fits { Ok(()) } else { bad(&column.name, InvalidValue::OtherType) }
            }
            Test::Compare(..) | Test::IsNull | Test::IsNotNull => Ok(()),
        }
    }
}

/// Returns true if a value that is not null is of this type. A decimal may have more digits than the column could hold.
fn is_of(value: Value<'_>, kind: Type) -> bool {
    match kind {
        Type::Decimal { .. } => matches!(value, Value::Decimal(_)),
        kind => kind.raw(value).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_with_null_is_never_true() {
        let less = Condition::compare(0, Comparison::Less, Value::Int32(5));
        let not_equal = Condition::compare(0, Comparison::NotEqual, Value::Int32(5));
        assert!(less.holds(Value::Int32(4)) && !less.holds(Value::Int32(5)) && !less.holds(Value::Null));
        assert!(not_equal.holds(Value::Int32(4)) && !not_equal.holds(Value::Null));
        assert!(!Condition::compare(0, Comparison::Equal, Value::Null).holds(Value::Null));
        assert!(Condition::is_null(0).holds(Value::Null) && !Condition::is_null(0).holds(Value::Int32(0)));
        assert!(!Condition::is_not_null(0).holds(Value::Null) && Condition::is_not_null(0).holds(Value::Int32(0)));
    }

    #[test]
    fn texts_compare_by_their_bytes() {
        let from_b = Condition::compare(0, Comparison::GreaterOrEqual, Value::Text("b"));
        assert!(from_b.holds(Value::Text("b")) && from_b.holds(Value::Text("ä")) && !from_b.holds(Value::Text("a")));
    }
}
