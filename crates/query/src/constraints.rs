//! Constraints that a data-modifying statement checks, bound together with it: CHECK constraints, and foreign keys in
//! both directions.
//!
//! **Invariant:** they cover every table that the statement can change, directly or by referential actions.

use crate::plan::Expr;
use catalog::{ForeignAction, TableInfo};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::Kind;

/// Constraints of a statement, by table.
#[derive(Clone, Debug, Default)]
pub struct ConstraintRules {
    /// Constraints of each table, by its OID.
    pub tables: BTreeMap<u32, TableRules>,
}

/// Constraints of one table.
#[derive(Clone, Debug)]
pub struct TableRules {
    /// Table.
    pub table: Arc<TableInfo>,
    /// CHECK constraints by name, in the order of their names.
    pub checks: Vec<(String, Expr)>,
    /// Foreign keys of the table, in order of creation.
    pub references: Vec<OutgoingReference>,
    /// Foreign keys that refer to the table, in order of creation.
    pub referenced: Vec<IncomingReference>,
}

/// Foreign key, as seen from the referencing table.
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
    /// Unique index of the parent on these columns.
    pub parent_index: usize,
    /// True with `MATCH FULL`.
    pub match_full: bool,
}

/// Foreign key, as seen from the referenced table.
#[derive(Clone, Debug)]
pub struct IncomingReference {
    /// Name of the constraint.
    pub name: String,
    /// Referenced columns.
    pub columns: Vec<usize>,
    /// Unique index on these columns.
    pub index: usize,
    /// Referencing table.
    pub child: Arc<TableInfo>,
    /// Referencing columns, in the order of `columns`.
    pub child_columns: Vec<usize>,
    /// Types by which the referencing columns are compared with the key.
    pub compared: Vec<Kind>,
    /// Index of the child that starts with the referencing columns, in any order.
    pub child_index: Option<usize>,
    /// Action of `ON DELETE`.
    pub on_delete: ForeignAction,
    /// Action of `ON UPDATE`.
    pub on_update: ForeignAction,
    /// Defaults of the referencing columns, for `SET DEFAULT`.
    pub defaults: Vec<Expr>,
}

/// Returns the type by which a referencing column is compared with the key. The comparison is the key's equality:
/// strings that refer to a `char(n)` are compared as such, without trailing blanks.
pub fn compared(child: Kind, parent: Kind) -> Kind {
    match (child, parent) {
        (Kind::Text | Kind::Varchar, Kind::Bpchar) => parent,
        (child, _) => child,
    }
}

impl TableRules {
    /// True if there are no constraints.
    pub fn is_empty(&self) -> bool {
        self.checks.is_empty() && self.references.is_empty() && self.referenced.is_empty()
    }

    /// True if a row may refer to another row of the same table.
    pub fn refers_to_itself(&self) -> bool {
        self.references.iter().any(|reference| reference.parent.oid == self.table.oid)
    }
}
