//! Aggregates, window functions and set-returning functions of a query. They are collected while expressions are bound.
//! Columns from [`PLACEHOLDERS`] on stand in their places until `group` knows where their values are.

use crate::plan::{AggregateCall, PLACEHOLDERS, SetCall, Typed, WindowCall};
use statement::pulse;
use std::hash::{DefaultHasher, Hash, Hasher};
use syntax::ast;
use types::SqlType;

/// Number of the first placeholder column of aggregates; below, those of window functions, sets and calls of
/// `grouping`.
pub(super) const AGGREGATES: usize = PLACEHOLDERS;
pub(super) const WINDOWS: usize = 2 * PLACEHOLDERS;
pub(super) const SETS: usize = 3 * PLACEHOLDERS;
pub(super) const GROUPINGS: usize = 4 * PLACEHOLDERS;

/// Aggregates, window functions and set-returning functions of a query.
#[derive(Default)]
pub(super) struct QueryCalls {
    pub(super) aggregates: Vec<(CallKey, AggregateCall, SqlType)>,
    pub(super) windows: Vec<(CallKey, WindowCall, SqlType)>,
    pub(super) sets: Vec<SetCall>,
    /// Arguments of each call of `grouping`.
    pub(super) groupings: Vec<Vec<Typed>>,
}

/// Identity of a call, by which equal calls are evaluated once, with the function's name. It is a hash of 128 bits
/// rather than the text: calls nest, and a copy of each text would take space quadratic in their depth.
pub(super) struct CallKey {
    pub(super) name: ast::ObjectName,
    hash: [u64; 2],
}

impl CallKey {
    /// Hashes a call. Source positions are not part of the hash.
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

/// Two hashes of the same bytes. It counts its work, so that long calls can be cancelled.
struct DoubleHasher([DefaultHasher; 2]);

impl Hasher for DoubleHasher {
    fn write(&mut self, bytes: &[u8]) {
        // The error is dropped because the statement ends at its next check; an unfinished hash is never used.
        let _ = pulse::walk(bytes.len());
        self.0.iter_mut().for_each(|one| one.write(bytes));
    }

    fn finish(&self) -> u64 {
        self.0[0].finish()
    }
}

/// Clause of a query, which decides what an expression in it may contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clause {
    /// No clause of a query: a default, a limit.
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
    /// Arguments of `EXECUTE`.
    Execute,
    /// Arguments of `CALL`.
    Call,
    /// Default of a column.
    Default,
    /// `CHECK` constraint.
    Check,
    /// Arguments of an aggregate.
    Aggregate,
    /// Arguments of a window function.
    Window,
    /// `OVER`, `WINDOW`
    WindowDefinition,
}

impl Clause {
    /// Returns the clause's name in PostgreSQL's messages.
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
            Clause::Call => "CALL arguments",
            Clause::Default => "DEFAULT expressions",
            Clause::Check => "check constraints",
            Clause::Aggregate => "aggregate function calls",
            Clause::Window => "window function calls",
            Clause::WindowDefinition => "window definitions",
        }
    }

    /// Returns the clause's name in the error for a subquery, if the clause allows none.
    pub(super) fn refuses_queries(self) -> Option<&'static str> {
        match self {
            Clause::Default => Some("DEFAULT expression"),
            Clause::Check => Some("check constraint"),
            Clause::Call => Some("CALL argument"),
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
