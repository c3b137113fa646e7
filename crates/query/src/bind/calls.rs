//! What a query computes beside its rows' values: aggregates, window functions, sets. They are collected while its
//! expressions are bound; in their places stand columns from [`PLACEHOLDERS`] on, until `group` knows where their values are.

use crate::plan::{AggregateCall, PLACEHOLDERS, SetCall, Typed, WindowCall};
use statement::pulse;
use std::hash::{DefaultHasher, Hash, Hasher};
use syntax::ast;
use types::SqlType;

/// Columns that stand for aggregates, window functions, sets, and calls of `grouping`.
pub(super) const AGGREGATES: usize = PLACEHOLDERS;
pub(super) const WINDOWS: usize = 2 * PLACEHOLDERS;
pub(super) const SETS: usize = 3 * PLACEHOLDERS;
pub(super) const GROUPINGS: usize = 4 * PLACEHOLDERS;

/// Aggregates, window functions and sets of a query.
#[derive(Default)]
pub(super) struct QueryCalls {
    pub(super) aggregates: Vec<(CallKey, AggregateCall, SqlType)>,
    pub(super) windows: Vec<(CallKey, WindowCall, SqlType)>,
    pub(super) sets: Vec<SetCall>,
    /// Arguments of `grouping`.
    pub(super) groupings: Vec<Vec<Typed>>,
}

/// Text of a call, so that the same call is made once, and its name. Kept as a hash of 128 bits: calls stand in one another, and a copy
/// of each would take the square of their depth.
pub(super) struct CallKey {
    pub(super) name: ast::ObjectName,
    hash: [u64; 2],
}

impl CallKey {
    /// Places in the text do not count.
    pub(super) fn new(call: &ast::FunctionCall) -> CallKey {
        let mut hasher = DoubleHasher([DefaultHasher::new(), DefaultHasher::new()]);
        hasher.0[1].write_u8(1);
        call.hash(&mut hasher);
        CallKey { name: call.name.clone(), hash: hasher.0.map(|one| one.finish()) }
    }

    pub(super) fn is_same(&self, other: &CallKey) -> bool {
        self.hash == other.hash
    }
}

/// Two hashes of the same bytes. Counts its work.
struct DoubleHasher([DefaultHasher; 2]);

impl Hasher for DoubleHasher {
    fn write(&mut self, bytes: &[u8]) {
        // What was stopped in the middle is never used.
        let _ = pulse::walk(bytes.len());
        self.0.iter_mut().for_each(|one| one.write(bytes));
    }

    fn finish(&self) -> u64 {
        self.0[0].finish()
    }
}

/// A part of a query, for what may stand in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clause {
    /// None of a query's: a default, a limit.
    #[default]
    Other,
    /// List of SELECT.
    SelectList,
    /// `WHERE`
    Where,
    /// `HAVING`
    Having,
    /// `GROUP BY`
    GroupBy,
    /// `ORDER BY`
    OrderBy,
    /// `DISTINCT ON`
    DistinctOn,
    /// `JOIN … ON`
    JoinCondition,
    /// Function in `FROM`.
    From,
    /// `VALUES`
    Values,
    /// `FILTER`
    Filter,
    /// `UPDATE … SET`
    Update,
    /// `RETURNING`
    Returning,
    /// `LIMIT`
    Limit,
    /// `OFFSET`
    Offset,
    /// The values of an `EXECUTE`.
    Execute,
    /// A default.
    Default,
    /// A `CHECK`.
    Check,
    /// The arguments of an aggregate.
    Aggregate,
    /// Those of a window function.
    Window,
    /// `OVER`, `WINDOW`
    WindowDefinition,
}

impl Clause {
    /// As PostgreSQL's messages call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Clause::Other => "this context",
            Clause::SelectList => "SELECT",
            Clause::Where => "WHERE",
            Clause::Having => "HAVING",
            Clause::GroupBy => "GROUP BY",
            Clause::OrderBy => "ORDER BY",
            Clause::DistinctOn => "DISTINCT ON",
            Clause::JoinCondition => "JOIN conditions",
            Clause::From => "functions in FROM",
            Clause::Values => "VALUES",
            Clause::Filter => "FILTER",
            Clause::Update => "UPDATE",
            Clause::Returning => "RETURNING",
            Clause::Limit => "LIMIT",
            Clause::Offset => "OFFSET",
            Clause::Execute => "EXECUTE parameters",
            Clause::Default => "DEFAULT expressions",
            Clause::Check => "check constraints",
            Clause::Aggregate => "aggregate function calls",
            Clause::Window => "window function calls",
            Clause::WindowDefinition => "window definitions",
        }
    }

    /// What messages call it, if it takes no queries.
    pub(super) fn refuses_queries(self) -> Option<&'static str> {
        match self {
            Clause::Default => Some("DEFAULT expression"),
            Clause::Check => Some("check constraint"),
            Clause::Other
            | Clause::SelectList
            | Clause::Where
            | Clause::Having
            | Clause::GroupBy
            | Clause::OrderBy
            | Clause::DistinctOn
            | Clause::JoinCondition
            | Clause::From
            | Clause::Values
            | Clause::Filter
            | Clause::Update
            | Clause::Returning
            | Clause::Limit
            | Clause::Offset
            | Clause::Execute
            | Clause::Aggregate
            | Clause::Window
            | Clause::WindowDefinition => None,
        }
    }

    pub(super) fn allows_aggregates(self) -> bool {
        matches!(
            self,
            Clause::SelectList
                | Clause::Having
                | Clause::OrderBy
                | Clause::DistinctOn
                | Clause::Window
                | Clause::WindowDefinition
        )
    }

    pub(super) fn allows_sets(self) -> bool {
        matches!(self, Clause::SelectList | Clause::OrderBy | Clause::DistinctOn | Clause::GroupBy)
    }
}
