//! Joins as the row planner makes them of a FROM clause and as the row executor runs them: nested loops, with sources that are
//! found by an index or kept in a hash table.

use super::{Expr, Plan, SetCall};
use catalog::TableInfo;
use std::sync::Arc;
use types::Kind;

/// Sources, each joined to those before it.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Joins {
    /// Condition that looks at no row of these: unless it holds, there are none.
    pub when: Option<Expr>,
    /// Steps in the order of the nested loops.
    pub steps: Vec<JoinStep>,
    /// Places of the row.
    pub width: usize,
}

/// Step of nested loops: a source whose rows are joined to each row of the steps before it.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct JoinStep {
    pub source: RowSource,
    /// True if a row without a match is kept, with nulls for the columns of the source.
    pub is_outer: bool,
    /// Condition of a match.
    pub on: Option<Expr>,
    /// Condition on the joined row, behind an outer join.
    pub filter: Option<Expr>,
    /// First place of the source in the row.
    pub first: usize,
    pub width: usize,
    /// Hash table of a source that depends on nothing before it: its rows are made once, and found by their keys.
    pub kept: Option<JoinHashTable>,
}

/// Hash table of the rows of a source.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct JoinHashTable {
    pub id: u64,
    /// True if nothing in it depends on an enclosing query, so that it is made once for the whole statement.
    pub is_constant: bool,
    /// Part of the join condition that looks at the source alone: it decides which rows are kept.
    pub condition: Option<Expr>,
    /// Equalities of the join condition. Without any, all kept rows are visited.
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
        /// Columns that anything looks at, with the row's id as the one behind the last; `None`: all.
        columns: Option<Vec<usize>>,
    },
    /// Query; a lateral one sees the values known before it, as the row of its enclosing query.
    Query { plan: Box<Plan>, is_lateral: bool },
    /// Functions that return sets, side by side, a shorter one filled up with nulls; then perhaps the row's number.
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

/// Side of a full join, with its places of the row.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FullJoinSide {
    pub steps: Vec<JoinStep>,
    pub first: usize,
    pub width: usize,
}

/// Access path to rows of a table. Its expressions are over the values known before the table.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Access {
    All,
    /// Range of an index: its leading columns equal these values, and the next one is between the bounds.
    Index {
        index: usize,
        prefix: Vec<KeyValue>,
        lower: Option<Box<KeyBound>>,
        upper: Option<Box<KeyBound>>,
        /// True if it is read from the greatest key down.
        backward: bool,
    },
    /// Several keys of an index: its leading columns equal these values, and the next one any of the list.
    AnyOf {
        index: usize,
        prefix: Vec<KeyValue>,
        list: KeyList,
    },
}

/// Value that is looked up among the keys of an index. It may have another kind than they have; see `storage::search`.
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
    /// Elements of an array, of this kind.
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
