//! Relations: the objects that share the names of tables.
//!
//! **Invariant:** a description never changes; a change makes another. A table's columns and indexes stand in the
//! engine's table in the same order, stored as [`crate::storage`] says.

use engine::Table;
use locked::RwLocked;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, RwLock, Weak};
use types::SqlType;

/// An object in the name space of tables.
#[derive(Clone, Debug)]
pub enum Relation {
    /// A table.
    Table(Arc<TableInfo>),
    /// A view.
    View(Arc<ViewInfo>),
    /// A sequence.
    Sequence(Arc<Sequence>),
    /// An index, given as a position among the indexes of its table.
    Index {
        /// Table of the index.
        table: Arc<TableInfo>,
        /// Position among the table's indexes.
        position: usize,
    },
}

impl Relation {
    /// Returns the table, if the relation is one.
    pub fn as_table(&self) -> Option<&Arc<TableInfo>> {
        match self {
            Relation::Table(table) => Some(table),
            Relation::View(_) | Relation::Sequence(_) | Relation::Index { .. } => None,
        }
    }

    /// Returns the view, if the relation is one.
    pub fn as_view(&self) -> Option<&Arc<ViewInfo>> {
        match self {
            Relation::View(view) => Some(view),
            Relation::Table(_) | Relation::Sequence(_) | Relation::Index { .. } => None,
        }
    }

    /// Returns the sequence, if the relation is one.
    pub fn as_sequence(&self) -> Option<&Arc<Sequence>> {
        match self {
            Relation::Sequence(sequence) => Some(sequence),
            Relation::Table(_) | Relation::View(_) | Relation::Index { .. } => None,
        }
    }

    /// Returns the OID of the relation.
    pub fn oid(&self) -> u32 {
        match self {
            Relation::Table(table) => table.oid,
            Relation::View(view) => view.oid,
            Relation::Sequence(sequence) => sequence.oid,
            Relation::Index { table, position } => table.indexes[*position].oid,
        }
    }

    /// Returns the name of the relation, without the schema.
    pub fn name(&self) -> &str {
        match self {
            Relation::Table(table) => &table.name,
            Relation::View(view) => &view.name,
            Relation::Sequence(sequence) => &sequence.name,
            Relation::Index { table, position } => &table.indexes[*position].name,
        }
    }

    /// Returns the OID of its schema.
    pub fn schema(&self) -> u32 {
        match self {
            Relation::Table(table) | Relation::Index { table, .. } => table.schema,
            Relation::View(view) => view.schema,
            Relation::Sequence(sequence) => sequence.schema,
        }
    }

    /// Returns the OID of the role that owns the relation. An index has the owner of its table.
    pub fn owner(&self) -> u32 {
        match self {
            Relation::Table(table) | Relation::Index { table, .. } => table.owner,
            Relation::View(view) => view.owner,
            Relation::Sequence(sequence) => sequence.owner,
        }
    }

    /// Returns the word that messages use for this kind of relation.
    pub fn word(&self) -> &'static str {
        match self {
            Relation::Table(_) => "table",
            Relation::View(_) => "view",
            Relation::Sequence(_) => "sequence",
            Relation::Index { .. } => "index",
        }
    }
}

/// Description of a table.
pub struct TableInfo {
    /// OID of the table, which stays when the table changes.
    pub oid: u32,
    /// OID of the schema.
    pub schema: u32,
    /// Name of the table.
    pub name: String,
    /// OID of the role that owns the table.
    pub owner: u32,
    /// Columns, in the order of the engine's table.
    pub columns: Vec<ColumnDef>,
    /// Indexes, in the order of the engine's table.
    pub indexes: Vec<IndexInfo>,
    /// Keys, checks and references, in the order of their creation.
    pub constraints: Vec<Constraint>,
    /// Attribute number of the next column; numbers of dropped columns are not given again.
    pub next_column: i16,
    /// Table of the engine that holds the rows.
    pub table: Arc<Table>,
    /// True if the program that embeds the engine created the table, and not a statement. That program goes on using
    /// that very table, so its definition stays.
    pub is_adopted: bool,
    /// Row count of the last VACUUM or ANALYZE.
    pub counted: Arc<TableRowCount>,
    /// True once the description is out of date: see [`TableInfo::is_retired`].
    pub retired: AtomicBool,
}

/// Number of a table's rows when they were last counted; no part of any transaction.
#[derive(Debug)]
pub struct TableRowCount(AtomicI64);

impl Default for TableRowCount {
    fn default() -> TableRowCount {
        TableRowCount(AtomicI64::new(-1))
    }
}

impl TableRowCount {
    /// Returns the number; -1 before the first count.
    pub fn rows(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the count of rows.
    pub fn set(&self, rows: i64) {
        self.0.store(rows, Ordering::Relaxed);
    }
}

impl TableInfo {
    /// Returns the position of a column, by its name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Returns the position of a column, by its attribute number.
    pub fn column_numbered(&self, number: i16) -> Option<usize> {
        self.columns.iter().position(|column| column.number == number)
    }

    /// Returns the primary key's index.
    pub fn primary_key(&self) -> Option<&IndexInfo> {
        self.indexes.iter().find(|index| index.is_primary)
    }

    /// Returns true if there is a newer description, or the table was dropped. Only a session that holds a lock of the
    /// table that conflicts with such a change may rely on `false`.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Copies the description, not retired, for the caller to change.
    pub fn copy(&self) -> TableInfo {
        TableInfo {
            oid: self.oid,
            schema: self.schema,
            name: self.name.clone(),
            owner: self.owner,
            columns: self.columns.clone(),
            indexes: self.indexes.clone(),
            constraints: self.constraints.clone(),
            next_column: self.next_column,
            table: Arc::clone(&self.table),
            is_adopted: self.is_adopted,
            counted: Arc::clone(&self.counted),
            retired: AtomicBool::new(false),
        }
    }

    /// Returns the foreign keys of the table.
    pub fn foreign_keys(&self) -> impl Iterator<Item = (&Constraint, &ForeignKey)> {
        self.constraints.iter().filter_map(|constraint| match &constraint.what {
            ConstraintKind::ForeignKey(key) => Some((constraint, key)),
            ConstraintKind::PrimaryKey { .. } | ConstraintKind::Unique { .. } | ConstraintKind::Check(_) => None,
        })
    }

    /// Returns the check constraints of the table.
    pub fn checks(&self) -> impl Iterator<Item = (&Constraint, &CheckConstraint)> {
        self.constraints.iter().filter_map(|constraint| match &constraint.what {
            ConstraintKind::Check(check) => Some((constraint, &**check)),
            ConstraintKind::PrimaryKey { .. } | ConstraintKind::Unique { .. } | ConstraintKind::ForeignKey(_) => None,
        })
    }
}

impl std::fmt::Debug for TableInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// Description of a column of a table.
#[derive(Clone, Debug)]
pub struct ColumnDef {
    /// Name of the column.
    pub name: String,
    /// Attribute number, from 1, which stays when other columns are dropped.
    pub number: i16,
    /// Type of the column.
    pub kind: SqlType,
    /// True if the column is `NOT NULL`.
    pub not_null: bool,
    /// Default value, if the column has one.
    pub default: Option<DefaultExpr>,
    /// Identity of the column, if it is generated as one.
    pub identity: Option<IdentityColumn>,
    /// OID of the collation that the column's definition names. Every collation compares as `C` does; a dump says which
    /// it was.
    pub collation: Option<u32>,
}

/// Expression of a definition, parsed and bound whenever it is used.
#[derive(Clone, Debug)]
pub struct DefaultExpr {
    /// Text of the expression. OIDs stand in the place of relations' names, so that it means the same under any search
    /// path.
    pub text: String,
    /// OIDs of the relations that the expression names.
    pub uses: Vec<u32>,
}

/// `GENERATED ... AS IDENTITY`. The column's default is the sequence's next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentityColumn {
    /// True for `GENERATED ALWAYS`: explicit values are refused.
    pub always: bool,
    /// OID of the sequence.
    pub sequence: u32,
}

/// Description of an index.
#[derive(Clone, Debug)]
pub struct IndexInfo {
    /// OID of the index.
    pub oid: u32,
    /// Name of the index.
    pub name: String,
    /// Access method of the index.
    pub method: IndexMethod,
    /// Positions of the key columns in the table.
    pub columns: Vec<usize>,
    /// Positions of the columns beside the key (`INCLUDE`). They are in the definition only: rows are read anyway.
    pub include: Vec<usize>,
    /// Orders of the columns as the definition says them; empty if all ascend with nulls last, in the order of their
    /// type's default operator class. The index itself ascends, and is read in both directions.
    pub order: Vec<IndexOrder>,
    /// True if no two rows may have the same key.
    pub is_unique: bool,
    /// True for the index of the primary key.
    pub is_primary: bool,
}

/// Access method of an index, as its definition says it. Each method is a B-tree, which does all that a hash index
/// does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexMethod {
    /// `btree`
    #[default]
    BTree,
    /// `hash`
    Hash,
}

impl IndexMethod {
    /// Returns the name of the method in SQL.
    pub fn name(self) -> &'static str {
        match self {
            IndexMethod::BTree => "btree",
            IndexMethod::Hash => "hash",
        }
    }
}

/// Order of a column of an index, as its definition says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexOrder {
    /// True for `DESC`.
    pub descends: bool,
    /// True for `NULLS FIRST`, explicit or implied.
    pub nulls_first: bool,
    /// OID of the operator class, if it is not the type's default. Values are ordered as by the default one.
    pub class: Option<u32>,
}

impl IndexInfo {
    /// Returns the positions of the columns, those of the key first.
    pub fn all_columns(&self) -> impl Iterator<Item = &usize> {
        self.columns.iter().chain(&self.include)
    }

    /// Returns the order of the column at this position of the index.
    pub fn order_of(&self, at: usize) -> IndexOrder {
        self.order.get(at).copied().unwrap_or_default()
    }
}

/// A constraint of a table.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// OID of the constraint.
    pub oid: u32,
    /// Name of the constraint.
    pub name: String,
    /// Kind of the constraint, with its parts.
    pub what: ConstraintKind,
    /// False as long as rows that existed before the constraint may violate it (`NOT VALID`); new rows may not.
    pub is_valid: bool,
}

impl Constraint {
    /// Creates a constraint that holds for all rows.
    pub fn new(oid: u32, name: String, what: ConstraintKind) -> Constraint {
        Constraint { oid, name, what, is_valid: true }
    }
}

/// Kind of a [`Constraint`], with its parts.
#[derive(Clone, Debug)]
pub enum ConstraintKind {
    /// Primary key, which an index of the table enforces.
    PrimaryKey {
        /// Position among the table's indexes.
        index: usize,
    },
    /// Unique constraint, which an index of the table enforces.
    Unique {
        /// Position among the table's indexes.
        index: usize,
    },
    /// Condition that is true or null for each row.
    Check(Box<CheckConstraint>),
    /// Reference to another table: each row without nulls in the columns has its parent row there.
    ForeignKey(ForeignKey),
}

/// A check constraint: `CHECK (...)`.
#[derive(Clone, Debug)]
pub struct CheckConstraint {
    /// Text of the condition. OIDs stand in the place of relations' names. Columns of the table are named without the
    /// table's name.
    pub text: String,
    /// OIDs of the relations that the condition names.
    pub uses: Vec<u32>,
}

/// A foreign key: `FOREIGN KEY ... REFERENCES`.
#[derive(Clone, Debug)]
pub struct ForeignKey {
    /// Positions of the referencing columns.
    pub columns: Vec<usize>,
    /// OID of the referenced table.
    pub parent: u32,
    /// Attribute numbers of the referenced columns, on which the referenced table has a unique index.
    pub parent_columns: Vec<i16>,
    /// Action when the referenced row is deleted.
    pub on_delete: ForeignAction,
    /// Action when the referenced key is updated.
    pub on_update: ForeignAction,
    /// True for `MATCH FULL`: all columns are null, or none is.
    pub match_full: bool,
}

/// Referential action: the effect on a referencing row when the referenced row is deleted or its key is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignAction {
    /// Refuses the change, at the end of the statement.
    NoAction,
    /// Refuses the change at once.
    Restrict,
    /// Deletes or updates the referencing row too.
    Cascade,
    /// Sets the referencing columns to null.
    SetNull,
    /// Sets the referencing columns to their defaults.
    SetDefault,
}

/// Description of a view.
#[derive(Debug, Clone)]
pub struct ViewInfo {
    /// OID of the view.
    pub oid: u32,
    /// OID of the schema.
    pub schema: u32,
    /// Name of the view.
    pub name: String,
    /// OID of the role that owns the view.
    pub owner: u32,
    /// Columns: names and types.
    pub columns: Vec<(String, SqlType)>,
    /// Text of the view's query.
    pub text: String,
    /// Search path at the time of the definition. Names of relations in the text include their schemas.
    pub path: Vec<String>,
    /// OIDs of the relations that the view uses.
    pub uses: Vec<u32>,
}

/// Definition of a sequence. Its value is shared by all its definitions and is no part of any transaction.
#[derive(Debug, Clone)]
pub struct Sequence {
    /// OID of the sequence.
    pub oid: u32,
    /// OID of the schema.
    pub schema: u32,
    /// Name of the sequence.
    pub name: String,
    /// OID of the role that owns the sequence.
    pub owner: u32,
    /// Type of the values: smallint, integer or bigint.
    pub kind: SqlType,
    /// Start value.
    pub start: i64,
    /// Increment of each step.
    pub increment: i64,
    /// Least value.
    pub min: i64,
    /// Greatest value.
    pub max: i64,
    /// True if the sequence wraps around at its end.
    pub cycle: bool,
    /// Number of values that a session may preallocate. None is preallocated: that only changes which numbers are left
    /// out, and nothing may count on these. A dump says what it was.
    pub cache: i64,
    /// OID of the table and attribute number of the column that own the sequence.
    pub owned_by: Option<(u32, i16)>,
    /// Current value.
    pub value: Arc<Mutex<SequenceValue>>,
    /// State that all definitions of the sequence share.
    pub shared: Arc<SharedSequence>,
    /// Version of this definition: the number of definitions before it.
    pub version: u64,
}

impl Sequence {
    /// Returns the next definition, which does not differ yet.
    pub fn next_version(&self) -> Sequence {
        Sequence { version: self.version + 1, ..self.clone() }
    }

    /// Returns the definition that counts for a transaction that has locked the sequence: the committed one, unless
    /// this one is the transaction's own. `None` if it was dropped; a session with an older catalog still finds it
    /// there.
    pub fn newest(self: &Arc<Sequence>) -> Option<Arc<Sequence>> {
        let current = self.shared.current.read_locked_anyway();
        let Some(current) = &*current else { return Some(Arc::clone(self)) };
        let current = current.upgrade()?;
        Some(if self.version < current.version { current } else { Arc::clone(self) })
    }

    /// Makes this definition the committed one.
    pub fn publish(self: &Arc<Sequence>) {
        *self.shared.current.write_locked_anyway() = Some(Arc::downgrade(self));
    }

    /// Marks the sequence as dropped by a committed transaction.
    pub fn retire(&self) {
        *self.shared.current.write_locked_anyway() = Some(Weak::new());
    }
}

/// State that all definitions of a [`Sequence`] share.
pub struct SharedSequence {
    /// A table of the engine without columns, which is locked in the sequence's place: taking values locks it as
    /// writing rows locks a table.
    pub lock: Arc<Table>,
    /// Committed definition, which the catalog keeps alive; `None` before the first commit. Once the sequence is
    /// dropped, a dangling reference.
    current: RwLock<Option<Weak<Sequence>>>,
}

impl SharedSequence {
    /// Creates the shared state of a new sequence.
    pub fn new(lock: Arc<Table>) -> Arc<SharedSequence> {
        Arc::new(SharedSequence { lock, current: RwLock::new(None) })
    }
}

impl std::fmt::Debug for SharedSequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.lock.name())
    }
}

/// Current value of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceValue {
    /// Last value, or the first if none was taken.
    pub last: i64,
    /// True if the last value was taken.
    pub is_called: bool,
}
