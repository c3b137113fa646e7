//! Bounds: the least and the greatest value of a column of a block, and its nulls. They suffice to leave the block out
//! of a scan.
//!
//! **Invariant:** a condition is ruled out only if no row of the block satisfies it, whichever of its rows are gone or hot.

use crate::row::condition::{Comparison, Condition, Constant, Test};
use crate::row::types::compare;
use crate::row::value::Value;

/// Bounds of a column's values.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// Least and greatest of the values that are not null; none if all are null.
    least_greatest: Option<(Constant, Constant)>,
    nulls: usize,
    rows_count: usize,
}

impl Bounds {
    /// Creates the bounds of `rows_count` values, `nulls` of them null, the others between these two.
    pub(crate) fn new(least_greatest: Option<(Value<'_>, Value<'_>)>, nulls: usize, rows_count: usize) -> Bounds {
        let least_greatest = least_greatest.map(|(least, greatest)| (least.into(), greatest.into()));
        Bounds { least_greatest, nulls, rows_count }
    }

    /// Returns true if any of the values may satisfy the condition.
    pub(crate) fn may_hold(&self, condition: &Condition) -> bool {
        let (comparison, constant) = match &condition.test {
            Test::IsNull => return 0 < self.nulls,
            Test::IsNotNull => return self.nulls < self.rows_count,
            Test::Compare(comparison, constant) => (comparison, constant.value()),
        };
        if constant == Value::Null {
            return false;
        }
        let Some((least, greatest)) = &self.least_greatest else { return false };
        let (Some(least), Some(greatest)) = (compare(least.value(), constant), compare(greatest.value(), constant))
        else {
            return true; // Of another type: not for us to decide.
        };
        match comparison {
            Comparison::Equal => least.is_le() && greatest.is_ge(),
            Comparison::NotEqual => least.is_ne() || greatest.is_ne(),
            Comparison::Less => least.is_lt(),
            Comparison::LessOrEqual => least.is_le(),
            Comparison::Greater => greatest.is_gt(),
            Comparison::GreaterOrEqual => greatest.is_ge(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the bounds rule out, no value between them satisfies.
    #[test]
    fn nothing_is_ruled_out_that_holds() {
        use Comparison::*;
        for (least, greatest, nulls) in [(3, 3, 0), (3, 5, 0), (3, 5, 2), (0, 0, 5)] {
            let bounds = match nulls {
                5 => Bounds::new(None, 5, 5),
                _ => Bounds::new(Some((Value::Int32(least), Value::Int32(greatest))), nulls, 5),
            };
            let values = |condition: &Condition| {
                let some = (least..=greatest).map(Value::Int32).filter(|_| nulls < 5);
                some.chain((0..nulls).map(|_| Value::Null)).any(|value| condition.holds(value))
            };
            for constant in 0..8 {
                for comparison in [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual] {
                    let condition = Condition::compare(0, comparison, Value::Int32(constant));
                    assert_eq!(bounds.may_hold(&condition), values(&condition), "{condition:?} of {bounds:?}");
                }
            }
            for condition in [Condition::is_null(0), Condition::is_not_null(0)] {
                assert_eq!(bounds.may_hold(&condition), values(&condition), "{condition:?} of {bounds:?}");
            }
            assert!(!bounds.may_hold(&Condition::compare(0, NotEqual, Value::Null)));
        }
    }
}
