//! What a name can stand for.
//!
//! **Invariant:** a description never changes; a change makes another. A table's columns and indexes stand in the engine's
//! table in the same order, stored as [`crate::storage`] says.

use engine::Table;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use types::SqlType;

/// Whatever shares the names of tables.
#[derive(Clone, Debug)]
pub enum Relation {
    /// A table.
    Table(Arc<TableInfo>),
    /// A view.
    View(Arc<ViewInfo>),
    /// A sequence.
    Sequence(Arc<Sequence>),
    /// An index of the table with this number, at this position there.
    Index {
        /// The table.
        table: Arc<TableInfo>,
        /// Which of its indexes.
        position: usize,
    },
}

impl Relation {
    /// Its number.
    pub fn oid(&self) -> u32 {
        match self {
            Relation::Table(table) => table.oid,
            Relation::View(view) => view.oid,
            Relation::Sequence(sequence) => sequence.oid,
            Relation::Index { table, position } => table.indexes[*position].oid,
        }
    }

    /// Its name, without the schema.
    pub fn name(&self) -> &str {
        match self {
            Relation::Table(table) => &table.name,
            Relation::View(view) => &view.name,
            Relation::Sequence(sequence) => &sequence.name,
            Relation::Index { table, position } => &table.indexes[*position].name,
        }
    }

    /// The number of its schema.
    pub fn schema(&self) -> u32 {
        match self {
            Relation::Table(table) | Relation::Index { table, .. } => table.schema,
            Relation::View(view) => view.schema,
            Relation::Sequence(sequence) => sequence.schema,
        }
    }

    /// What messages call it.
    pub fn word(&self) -> &'static str {
        match self {
            Relation::Table(_) => "table",
            Relation::View(_) => "view",
            Relation::Sequence(_) => "sequence",
            Relation::Index { .. } => "index",
        }
    }
}

/// A table.
pub struct TableInfo {
    /// Its number, which stays when it changes.
    pub oid: u32,
    /// The number of its schema.
    pub schema: u32,
    /// Its name.
    pub name: String,
    /// The role that made it.
    pub owner: String,
    /// Its columns, as the engine's table has them.
    pub columns: Vec<ColumnDef>,
    /// Its indexes, as the engine's table has them.
    pub indexes: Vec<IndexInfo>,
    /// Keys, checks and references, in the order of their making.
    pub constraints: Vec<Constraint>,
    /// The next column's number; numbers of dropped columns are not given again.
    pub next_column: i16,
    /// Where its rows are.
    pub table: Arc<Table>,
    /// Whether the program that the engine belongs to made it, and not a statement. Whoever made it goes on using that very
    /// table, so its definition stays.
    pub is_adopted: bool,
    /// Rows that VACUUM or ANALYZE counted last.
    pub counted: Arc<Counted>,
    /// See [`TableInfo::is_retired`].
    pub retired: AtomicBool,
}

/// Number of a table's rows as of the last time that somebody counted them, no part of any transaction.
#[derive(Debug)]
pub struct Counted(AtomicI64);

impl Default for Counted {
    fn default() -> Counted {
        Counted(AtomicI64::new(-1))
    }
}

impl Counted {
    /// Returns the number; -1 before the first time.
    pub fn rows(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the count of rows.
    pub fn set(&self, rows: i64) {
        self.0.store(rows, Ordering::Relaxed);
    }
}

impl TableInfo {
    /// The position of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The position of the column with this number.
    pub fn column_numbered(&self, number: i16) -> Option<usize> {
        self.columns.iter().position(|column| column.number == number)
    }

    /// The primary key's index.
    pub fn primary_key(&self) -> Option<&IndexInfo> {
        self.indexes.iter().find(|index| index.is_primary)
    }

    /// Whether there is a newer description, or none any more. Only somebody who holds a lock of the table that its change
    /// would have to wait for may rely on "no".
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// All the same but for what is given by the caller afterwards.
    pub fn copy(&self) -> TableInfo {
        TableInfo {
            oid: self.oid,
            schema: self.schema,
            name: self.name.clone(),
            owner: self.owner.clone(),
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

    /// Its references to other tables.
    pub fn foreign_keys(&self) -> impl Iterator<Item = (&Constraint, &ForeignKey)> {
        self.constraints.iter().filter_map(|constraint| match &constraint.what {
            ConstraintKind::ForeignKey(key) => Some((constraint, key)),
            _ => None,
        })
    }

    /// Its conditions.
    pub fn checks(&self) -> impl Iterator<Item = (&Constraint, &Check)> {
        self.constraints.iter().filter_map(|constraint| match &constraint.what {
            ConstraintKind::Check(check) => Some((constraint, &**check)),
            _ => None,
        })
    }
}

impl std::fmt::Debug for TableInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct ColumnDef {
    /// Its name.
    pub name: String,
    /// Its number, from 1, which stays when others are dropped.
    pub number: i16,
    /// Its type.
    pub kind: SqlType,
    /// Whether it must have a value.
    pub not_null: bool,
    /// What it has if nothing is said.
    pub default: Option<DefaultExpr>,
    /// Whether it numbers its rows.
    pub identity: Option<Identity>,
    /// OID of the collation that its definition names. Every collation compares as `C` does; a dump says which it was.
    pub collation: Option<u32>,
}

/// Expression of a definition, parsed and bound whenever it is used.
#[derive(Clone, Debug)]
pub struct DefaultExpr {
    /// Text of the expression. OIDs stand in the place of relations' names, so that it means the same whatever the search path.
    pub text: String,
    /// OIDs of the relations that it names.
    pub uses: Vec<u32>,
}

/// `GENERATED ... AS IDENTITY`. The column's default is the sequence's next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Whether values of its own are refused.
    pub always: bool,
    /// The number of its sequence.
    pub sequence: u32,
}

/// An index.
#[derive(Clone, Debug)]
pub struct IndexInfo {
    /// Its number.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// Its access method.
    pub method: IndexMethod,
    /// Positions of its key columns.
    pub columns: Vec<usize>,
    /// Positions of the columns that it has beside its key (`INCLUDE`). They are in its definition only: rows are read anyway.
    pub include: Vec<usize>,
    /// The orders of its columns as its definition says them; empty if all ascend with nulls last, in the order that is their
    /// type's own. The index itself ascends, and is read in both directions.
    pub order: Vec<IndexOrder>,
    /// Whether two rows may not have the same key.
    pub is_unique: bool,
    /// Whether it is the primary key's.
    pub is_primary: bool,
}

/// Access method of an index, as its definition says it. Each is a B-tree, which does all that a hash index does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexMethod {
    /// `btree`
    #[default]
    BTree,
    /// `hash`
    Hash,
}

impl IndexMethod {
    /// Its name in SQL.
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
    /// `DESC`
    pub descends: bool,
    /// `NULLS FIRST`, said or meant.
    pub nulls_first: bool,
    /// Number of the operator class, if it is not the type's own. It orders values as that one does.
    pub class: Option<u32>,
}

impl IndexInfo {
    /// Returns the positions of its columns, those of the key first.
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
    /// Its number.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// What it says.
    pub what: ConstraintKind,
    /// False as long as rows that were there before it may break it (`NOT VALID`); those that are written do not.
    pub is_valid: bool,
}

impl Constraint {
    /// Creates one that holds for all rows.
    pub fn new(oid: u32, name: String, what: ConstraintKind) -> Constraint {
        Constraint { oid, name, what, is_valid: true }
    }
}

/// See [`Constraint`].
#[derive(Clone, Debug)]
pub enum ConstraintKind {
    /// The index at this position of the table is its primary key.
    PrimaryKey {
        /// Which index.
        index: usize,
    },
    /// The index at this position allows no two equal keys.
    Unique {
        /// Which index.
        index: usize,
    },
    /// Each row satisfies it, or it is null.
    Check(Box<Check>),
    /// Each row without nulls in these columns has its row in another table.
    ForeignKey(ForeignKey),
}

/// `CHECK (...)`
#[derive(Clone, Debug)]
pub struct Check {
    /// Text of the condition. OIDs stand in the place of relations' names. Names are the table's columns, without the table's.
    pub text: String,
    /// OIDs of the relations that it names.
    pub uses: Vec<u32>,
}

/// `FOREIGN KEY ... REFERENCES`
#[derive(Clone, Debug)]
pub struct ForeignKey {
    /// Positions of the referencing columns.
    pub columns: Vec<usize>,
    /// The number of the table that is referred to.
    pub parent: u32,
    /// Numbers of its columns there, of which it has a unique index.
    pub parent_columns: Vec<i16>,
    /// What becomes of the row when its parent goes.
    pub on_delete: ForeignAction,
    /// What becomes of it when its parent's key changes.
    pub on_update: ForeignAction,
    /// `MATCH FULL`: all columns are null or none is.
    pub match_full: bool,
}

/// What a reference does when what it refers to goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignAction {
    /// Refuses, at the end of the statement.
    NoAction,
    /// Refuses, at once.
    Restrict,
    /// Goes or changes with it.
    Cascade,
    /// Becomes null.
    SetNull,
    /// Becomes the default.
    SetDefault,
}

/// A view.
#[derive(Debug, Clone)]
pub struct ViewInfo {
    /// Its number.
    pub oid: u32,
    /// The number of its schema.
    pub schema: u32,
    /// Its name.
    pub name: String,
    /// The role that made it.
    pub owner: String,
    /// Its columns: names and types.
    pub columns: Vec<(String, SqlType)>,
    /// Text of its query.
    pub text: String,
    /// Where names were looked up when it was made. Those of relations say their schemas.
    pub path: Vec<String>,
    /// Numbers of the relations that it uses.
    pub uses: Vec<u32>,
}

/// A sequence. Its definition; its value is shared by all its definitions and is no part of any transaction.
#[derive(Debug, Clone)]
pub struct Sequence {
    /// Its number.
    pub oid: u32,
    /// The number of its schema.
    pub schema: u32,
    /// Its name.
    pub name: String,
    /// The role that made it.
    pub owner: String,
    /// smallint, integer or bigint.
    pub kind: SqlType,
    /// Where it starts.
    pub start: i64,
    /// What is added each time.
    pub increment: i64,
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
    /// Whether it begins again at its end.
    pub cycle: bool,
    /// How many values a session may take at once. None is taken ahead: that changes which numbers are left out, and these
    /// are nobody's to count on. A dump says what it was.
    pub cache: i64,
    /// Table and column number that it goes with.
    pub owned_by: Option<(u32, i16)>,
    /// Where it is.
    pub value: Arc<Mutex<SequenceValue>>,
    /// What all its definitions share.
    pub shared: Arc<SharedSequence>,
    /// Counts its definitions.
    pub version: u64,
}

impl Sequence {
    /// Its next definition, as yet the same.
    pub fn next_version(&self) -> Sequence {
        Sequence { version: self.version + 1, ..self.clone() }
    }

    /// The definition that counts for a transaction that has locked it: the committed one, unless this is the transaction's
    /// own. Nothing: it was dropped, though whoever has an older catalog still finds it there.
    pub fn newest(self: &Arc<Sequence>) -> Option<Arc<Sequence>> {
        let current = self.shared.current.read().unwrap_or_else(PoisonError::into_inner);
        let Some(current) = &*current else { return Some(Arc::clone(self)) };
        let current = current.upgrade()?;
        Some(if self.version < current.version { current } else { Arc::clone(self) })
    }

    /// This definition is committed.
    pub fn publish(self: &Arc<Sequence>) {
        *self.shared.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::downgrade(self));
    }

    /// It is committed that there is none any more.
    pub fn retire(&self) {
        *self.shared.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Weak::new());
    }
}

/// See [`Sequence`].
pub struct SharedSequence {
    /// A table of the engine without columns, which is locked in its place: who takes values locks it as who writes rows.
    pub lock: Arc<Table>,
    /// The committed definition, which the catalog keeps; nothing before the first is. Once it is dropped, one that is gone.
    current: RwLock<Option<Weak<Sequence>>>,
}

impl SharedSequence {
    /// Creates what a new sequence shares with its later definitions.
    pub fn new(lock: Arc<Table>) -> Arc<SharedSequence> {
        Arc::new(SharedSequence { lock, current: RwLock::new(None) })
    }
}

impl std::fmt::Debug for SharedSequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.lock.name())
    }
}

/// Where a sequence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceValue {
    /// The last value, or the first if none was taken.
    pub last: i64,
    /// Whether the last value was taken.
    pub is_called: bool,
}
