//! Reads of one row by its key: what is left of their plans once the executor's general operators are taken away.
//!
//! **Invariant:** a keyed read has the rows and the errors of the plan that it was made of. A plan of any other shape
//! has none, and runs in the executor.

use crate::plan::{Access, Expr, JoinStep, Joins, KeyValue, Plan, RowSource, TableRowLock};
use crate::routine::BodyWork;
use catalog::TableInfo;
use engine::{RowLock, Wait};
use std::sync::Arc;

/// Read of the row that has a key of a unique index.
#[derive(Debug)]
pub struct KeyedRead {
    /// Description of the table.
    pub table: Arc<TableInfo>,
    /// Unique index.
    pub index: usize,
    /// Values of the key, which are parameters.
    pub key: Vec<KeyValue>,
    /// Positions of the columns that the result consists of.
    pub columns: Box<[usize]>,
    /// Lock of the row; `None` for a read without one.
    pub lock: Option<KeyedLock>,
}

/// Lock of the row that a keyed read has found.
#[derive(Debug)]
pub struct KeyedLock {
    /// Mode of the lock.
    pub mode: RowLock,
    /// Behaviour when another transaction has locked the row.
    pub wait: Wait,
    /// Condition that a newer version of the row has to meet, too.
    pub condition: Option<Expr>,
}

impl KeyedRead {
    /// Returns the keyed read that does the work of a statement; `None` if there is none.
    pub(super) fn of(work: &BodyWork) -> Option<KeyedRead> {
        let plan = match work {
            BodyWork::Rows(plan) | BodyWork::Locking(_, plan) => plan,
            BodyWork::Change(_) | BodyWork::Refused(_) => return None,
        };
        let Plan::Project { input, columns } = &**plan else { return None };
        let (input, locks) = match &**input {
            Plan::Lock { input, locks, joins, condition } if joins.is_empty() => {
                let [TableRowLock { table: _, first: 0, mode, wait }] = locks[..] else { return None };
                (input, Some(KeyedLock { mode, wait, condition: condition.clone() }))
            }
            _ => (input, None),
        };
        let (table, index, key) = key_of(input)?;
        let column = |value: &Expr| match value {
            Expr::Column(at) if *at < table.columns.len() => Some(*at),
            _ => None,
        };
        let columns = columns.iter().map(column).collect::<Option<_>>()?;
        Some(KeyedRead { table: Arc::clone(table), index, key: key.to_vec(), columns, lock: locks })
    }
}

/// Returns the table, the index and the key of a plan that reads one row by parameters alone.
fn key_of(plan: &Plan) -> Option<(&Arc<TableInfo>, usize, &[KeyValue])> {
    let Plan::Joins(Joins { when: None, steps, width: _ }) = plan else { return None };
    let [JoinStep { source, is_outer: false, on: _, filter: None, first: 0, width: _, kept: None }] = &steps[..] else {
        return None;
    };
    let RowSource::Table { table, access: Access::Key { index, values, decides: true }, columns: _ } = source else {
        return None;
    };
    values.iter().all(|key| matches!(key.value, Expr::Parameter(_))).then_some((table, *index, values))
}
