//! Rows in the order of an index.

use super::access::{self, AccessTarget, OrderKey};
use crate::plan::{Expr, JoinStep, Joins, RowSource, Slots, SortKey};

/// Makes the rows come in this order, if an index of the first source yields it; joins keep the order of the outer
/// rows. Returns true on success.
pub(super) fn put_in_order(joins: &mut Joins, keys: &[SortKey], few_wanted: bool) -> bool {
    let Some(JoinStep {
        source: RowSource::Table { table, access, .. }, is_outer: false, on, first, kept: None, ..
    }) = joins.steps.first_mut()
    else {
        return false;
    };
    let key = |key: &SortKey| match key.value {
        Expr::Column(at) => {
            let column = at.checked_sub(*first).filter(|at| *at < table.columns.len())?;
            Some(OrderKey { column, descending: key.descending, nulls_first: key.nulls_first })
        }
        _ => None,
    };
    let Some(keys) = keys.iter().map(key).collect::<Option<Vec<_>>>() else { return false };
    let wanted = AccessTarget { table, first: *first, known: &Slots::default() };
    let conditions: Vec<&Expr> = on.iter().collect();
    match access::in_order(&wanted, &conditions, &keys, few_wanted) {
        Some(found) => {
            *access = found;
            true
        }
        None => false,
    }
}
