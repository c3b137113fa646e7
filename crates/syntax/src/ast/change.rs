//! Statements that change rows.

use super::{Expr, FromItem, IndexKey, Indirection, Name, Query, SelectItem, TableItem, With};
use crate::lex::Span;

/// `INSERT`
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Insert {
    /// `WITH`
    pub with: Option<With>,
    /// Table that takes the rows.
    pub table: TableItem,
    /// Columns that get values; all if none are named.
    pub columns: Vec<InsertColumn>,
    /// `OVERRIDING`
    pub overriding: Option<Overriding>,
    /// Rows.
    pub source: InsertSource,
    /// `ON CONFLICT`
    pub on_conflict: Option<OnConflict>,
    /// `RETURNING`
    pub returning: Vec<SelectItem>,
    /// Place of the statement.
    pub span: Span,
}

/// Column that an INSERT names, perhaps a part of it.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct InsertColumn {
    /// Name of the column.
    pub name: Name,
    /// Steps into it.
    pub steps: Vec<Indirection>,
}

/// `OVERRIDING … VALUE`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum Overriding {
    User,
    System,
}

/// Rows of an INSERT.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum InsertSource {
    /// `DEFAULT VALUES`
    Default,
    /// Query, or `VALUES`.
    Query(Box<Query>),
}

/// `ON CONFLICT`
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct OnConflict {
    /// Index or constraint that is meant.
    pub arbiter: Arbiter,
    /// Action.
    pub action: OnConflictAction,
    /// Place of the clause.
    pub span: Span,
}

/// Index or constraint that an `ON CONFLICT` is about.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Arbiter {
    /// Any.
    Any,
    /// Index over these keys, with this predicate.
    Index {
        /// Keys.
        keys: Vec<IndexKey>,
        /// Predicate of a partial index.
        predicate: Option<Expr>,
        /// Place of the list of keys.
        span: Span,
    },
    /// `ON CONSTRAINT name`
    Constraint(Name),
}

/// Action of an `ON CONFLICT`.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum OnConflictAction {
    /// `DO NOTHING`
    Nothing,
    /// `DO UPDATE SET … WHERE …`
    Update(Vec<Assignment>, Option<Expr>),
}

/// Assignment of an UPDATE.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Assignment {
    /// Columns that get values; several with `(a, b) = …`.
    pub columns: Vec<InsertColumn>,
    /// True for columns in parentheses.
    pub is_row: bool,
    /// Value, or row of values.
    pub value: Expr,
}

/// `UPDATE`
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Update {
    /// `WITH`
    pub with: Option<With>,
    /// Table that is changed.
    pub table: TableItem,
    /// `SET`
    pub assignments: Vec<Assignment>,
    /// `FROM`
    pub from: Vec<FromItem>,
    /// `WHERE`
    pub condition: Option<Expr>,
    /// `RETURNING`
    pub returning: Vec<SelectItem>,
    /// Place of the statement.
    pub span: Span,
}

/// `DELETE`
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Delete {
    /// `WITH`
    pub with: Option<With>,
    /// Table whose rows are deleted.
    pub table: TableItem,
    /// `USING`
    pub using: Vec<FromItem>,
    /// `WHERE`
    pub condition: Option<Expr>,
    /// `RETURNING`
    pub returning: Vec<SelectItem>,
    /// Place of the statement.
    pub span: Span,
}
