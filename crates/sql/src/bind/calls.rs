//! What a query computes beside its rows' values: aggregates, window functions, sets. They are collected while its
//! expressions are bound; in their places stand columns from [`PLACEHOLDERS`] on, until `group` knows where their values are.

use crate::plan::{AggregateCall, PLACEHOLDERS, SetCall, Typed, WindowCall};
use crate::types::SqlType;
use sqlparser::ast;

/// Columns that stand for aggregates, window functions, sets, and calls of `grouping`.
pub(super) const AGGREGATES: usize = PLACEHOLDERS;
pub(super) const WINDOWS: usize = 2 * PLACEHOLDERS;
pub(super) const SETS: usize = 3 * PLACEHOLDERS;
pub(super) const GROUPINGS: usize = 4 * PLACEHOLDERS;

/// See the module.
#[derive(Default)]
pub(super) struct Calls {
    /// As written, so that the same call is made once.
    pub(super) aggregates: Vec<(ast::Function, AggregateCall, SqlType)>,
    pub(super) windows: Vec<(ast::Function, WindowCall, SqlType)>,
    pub(super) sets: Vec<SetCall>,
    /// Arguments of `grouping`.
    pub(super) groupings: Vec<Vec<Typed>>,
}

/// A part of a query, for what may stand in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Clause {
    /// None of a query's: a default, a limit.
    #[default]
    Other,
    SelectList,
    Where,
    Having,
    GroupBy,
    OrderBy,
    DistinctOn,
    JoinCondition,
    From,
    Values,
    Filter,
    Update,
    Returning,
    Limit,
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
            _ => None,
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
