//! What a statement that changes rows must keep true, bound once with it: checks, and references in both directions.
//!
//! **Invariant:** the rules of a statement cover each table that it can change, by its own words or by what a reference does in
//! consequence.

use crate::plan::Expr;
use catalog::{ForeignAction, TableInfo};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::Kind;

/// The rules of a statement, by the tables' numbers.
#[derive(Clone, Debug, Default)]
pub struct ConstraintRules {
    /// Rules of each table, by its OID.
    pub tables: BTreeMap<u32, TableRules>,
}

/// The rules of one table.
#[derive(Clone, Debug)]
pub struct TableRules {
    /// Table.
    pub table: Arc<TableInfo>,
    /// Names and conditions, in the order of their names.
    pub checks: Vec<(String, Expr)>,
    /// Its references, in the order of their making.
    pub references: Vec<OutgoingReference>,
    /// References to it, likewise.
    pub referenced: Vec<IncomingReference>,
}

/// A reference, seen from the table that refers.
#[derive(Clone, Debug)]
pub struct OutgoingReference {
    /// Name of the constraint.
    pub name: String,
    /// Referencing columns.
    pub columns: Vec<usize>,
    /// Referenced table.
    pub parent: Arc<TableInfo>,
    /// Referenced columns, in the order of `columns`.
    pub parent_columns: Vec<usize>,
    /// The parent's unique index of these.
    pub parent_index: usize,
    /// True with `MATCH FULL`.
    pub match_full: bool,
}

/// A reference, seen from the table that is referred to.
#[derive(Clone, Debug)]
pub struct IncomingReference {
    /// Name of the constraint.
    pub name: String,
    /// Referenced columns.
    pub columns: Vec<usize>,
    /// The unique index of these.
    pub index: usize,
    /// Referencing table.
    pub child: Arc<TableInfo>,
    /// Referencing columns, in the order of `columns`.
    pub child_columns: Vec<usize>,
    /// The kinds as which values of these are compared with the key.
    pub compared: Vec<Kind>,
    /// An index of the child that begins with these, in any order.
    pub child_index: Option<usize>,
    /// `ON DELETE`
    pub on_delete: ForeignAction,
    /// `ON UPDATE`
    pub on_update: ForeignAction,
    /// Of the child's columns, for `SET DEFAULT`.
    pub defaults: Vec<Expr>,
}

/// The kind as which values of a column are compared with those of the key that it refers to. That is the key's equality:
/// strings that refer to a `char(n)` are compared as such, without the blanks at the end.
pub fn compared(child: Kind, parent: Kind) -> Kind {
    match (child, parent) {
        (Kind::Text | Kind::Varchar, Kind::Bpchar) => parent,
        (child, _) => child,
    }
}

impl TableRules {
    /// True without any rule.
    pub fn is_empty(&self) -> bool {
        self.checks.is_empty() && self.references.is_empty() && self.referenced.is_empty()
    }

    /// Whether a row may refer to another of the same table.
    pub fn refers_to_itself(&self) -> bool {
        self.references.iter().any(|reference| reference.parent.oid == self.table.oid)
    }
}
