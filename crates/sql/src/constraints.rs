//! What a statement that changes rows must keep true, bound once with it: checks, and references in both directions.
//!
//! **Invariant:** the rules of a statement cover each table that it can change, by its own words or by what a reference does in
//! consequence.

use crate::catalog::{ForeignAction, TableInfo};
use crate::plan::Expr;
use crate::types::Kind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rules of a statement, by the tables' numbers.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub(crate) tables: BTreeMap<u32, TableRules>,
}

/// The rules of one table.
#[derive(Clone, Debug)]
pub(crate) struct TableRules {
    pub(crate) table: Arc<TableInfo>,
    /// Names and conditions, in the order of their names.
    pub(crate) checks: Vec<(String, Expr)>,
    /// Its references, in the order of their making.
    pub(crate) references: Vec<Reference>,
    /// References to it, likewise.
    pub(crate) referenced: Vec<Referenced>,
}

/// A reference, seen from the table that refers.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(crate) name: String,
    pub(crate) columns: Vec<usize>,
    pub(crate) parent: Arc<TableInfo>,
    pub(crate) parent_columns: Vec<usize>,
    /// The parent's unique index of these.
    pub(crate) parent_index: usize,
    pub(crate) match_full: bool,
}

/// A reference, seen from the table that is referred to.
#[derive(Clone, Debug)]
pub(crate) struct Referenced {
    pub(crate) name: String,
    pub(crate) columns: Vec<usize>,
    /// The unique index of these.
    pub(crate) index: usize,
    pub(crate) child: Arc<TableInfo>,
    pub(crate) child_columns: Vec<usize>,
    /// The kinds as which values of these are compared with the key.
    pub(crate) compared: Vec<Kind>,
    /// An index of the child that begins with these, in any order.
    pub(crate) child_index: Option<usize>,
    pub(crate) on_delete: ForeignAction,
    pub(crate) on_update: ForeignAction,
    /// Of the child's columns, for `SET DEFAULT`.
    pub(crate) defaults: Vec<Expr>,
}

/// The kind as which values of a column are compared with those of the key that it refers to. That is the key's equality:
/// strings that refer to a `char(n)` are compared as such, without the blanks at the end.
pub(crate) fn compared(child: Kind, parent: Kind) -> Kind {
    match (child, parent) {
        (Kind::Text | Kind::Varchar, Kind::Bpchar) => parent,
        (child, _) => child,
    }
}

impl TableRules {
    pub(crate) fn is_empty(&self) -> bool {
        self.checks.is_empty() && self.references.is_empty() && self.referenced.is_empty()
    }

    /// Whether a row may refer to another of the same table.
    pub(crate) fn refers_to_itself(&self) -> bool {
        self.references.iter().any(|reference| reference.parent.oid == self.table.oid)
    }
}
