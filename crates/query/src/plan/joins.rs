//! Joins that the row planner creates from a FROM clause and the row executor runs: nested loops over inputs that are
//! read by an index or from a hash table.

use super::{Expr, Plan, SetCall};
use catalog::TableInfo;
use std::sync::Arc;
use types::Kind;

/// Nested loops over sources, each joined to those before it.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Joins {
    /// One-time filter: a qual without references to these sources. If it is not true, there are no rows.
    pub when: Option<Expr>,
    /// Steps in the order of the nested loops.
    pub steps: Vec<JoinStep>,
    /// Number of slots of the row.
    pub width: usize,
}

/// Step of nested loops: a source whose rows are joined to each row of the steps before it.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct JoinStep {
    pub source: RowSource,
    /// True for a left join: a row without a match is kept, with nulls for the source's columns.
    pub is_outer: bool,
    /// Join condition.
    pub on: Option<Expr>,
    /// Qual on the joined row, evaluated after the outer join.
    pub filter: Option<Expr>,
    /// First slot of the source in the row.
    pub first: usize,
    pub width: usize,
    /// Hash table of a source that depends on nothing before it: its rows are computed once, and found by key.
    pub kept: Option<JoinHashTable>,
}

impl JoinStep {
    /// Returns the part of the condition of a match that the access path does not decide.
    pub fn residual(&self) -> Option<&Expr> {
        let is_decided = matches!(self.source, RowSource::Table { access: Access::Key { decides: true, .. }, .. });
        self.on.as_ref().filter(|_| !is_decided)
    }
}

/// Hash table of the rows of a source.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct JoinHashTable {
    pub id: u64,
    /// True if nothing in it depends on an enclosing query, so that it is built once for the whole statement.
    pub is_constant: bool,
    /// Part of the join condition that refers to the source alone; other rows are not stored.
    pub condition: Option<Expr>,
    /// Equalities of the join condition. Without any, all stored rows are visited.
    pub keys: Vec<JoinKey>,
}

/// Equality between values known before a source and its own columns.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct JoinKey {
    pub before: Expr,
    pub own: Expr,
    pub kind: Kind,
}

/// Source of rows of a FROM clause.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum RowSource {
    Table {
        table: Arc<TableInfo>,
        access: Access,
        /// Columns that are read, with the row id as the one behind the last; `None` means all.
        columns: Option<Vec<usize>>,
    },
    /// Subquery. A lateral one sees the values known before it as the row of its enclosing query.
    Query { plan: Box<Plan>, is_lateral: bool },
    /// Set-returning functions side by side, where shorter sets are padded with nulls, and with `is_numbered` the row
    /// number.
    Functions { calls: Vec<SetCall>, is_numbered: bool },
    /// Joins in parentheses, or on the nullable side of an outer join.
    Group(Vec<JoinStep>),
    /// `FULL JOIN`, with its right side in a hash table.
    Full(Box<FullJoin>),
}

/// Full join.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FullJoin {
    pub left: FullJoinSide,
    pub right: FullJoinSide,
    pub on: Option<Expr>,
    pub keys: Vec<JoinKey>,
}

/// Side of a full join, with its slots of the row.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FullJoinSide {
    pub steps: Vec<JoinStep>,
    pub first: usize,
    pub width: usize,
}

/// Access path to the rows of a table. Its expressions refer to the values known before the table.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Access {
    All,
    /// Key of a unique index, which at most one row has: all its columns equal these values.
    Key {
        index: usize,
        values: Vec<KeyValue>,
        /// True if the condition of the step says no more than that.
        decides: bool,
    },
    /// Range of an index: its leading columns equal these values, and the next one is between the bounds.
    Index {
        index: usize,
        prefix: Vec<KeyValue>,
        lower: Option<Box<KeyBound>>,
        upper: Option<Box<KeyBound>>,
        /// True for a backward scan, from the greatest key down.
        backward: bool,
    },
    /// Several ranges of an index: its leading columns equal these values, and the next one equals any of the list.
    AnyOf {
        index: usize,
        prefix: Vec<KeyValue>,
        list: KeyList,
    },
}

/// Value that is looked up among the keys of an index. Its type may differ from theirs; see `storage::search`.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct KeyValue {
    pub value: Expr,
    pub kind: Kind,
}

/// List of values, any of which a key may equal.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum KeyList {
    Values(Vec<KeyValue>),
    /// Elements of an array, of this type.
    Array {
        array: Expr,
        kind: Kind,
    },
}

#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct KeyBound {
    pub value: KeyValue,
    pub inclusive: bool,
}
