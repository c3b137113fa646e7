//! Tables: their definition, row map and indexes.
//!
//! **Invariant:** a table, once created, keeps its id, which no other ever has, its columns and its indexes. Schema
//! changes will come as new layouts beside the old ones, which is why each image names its own.

use crate::counters::VersionBytes;
use crate::error::InvalidDefinition;
use crate::error::{Error, Result};
use crate::frozen::block::Totals;
use crate::raw::btree::BTree;
use crate::raw::once::OnceBox;
use crate::raw::rows::RowMap;
use crate::row::key;
use crate::row::layout::{COLUMNS_MAX, Layout};
use crate::row::value::Type;
use crate::row::writer::Touched;
use crate::sync::{AtomicU64, SeqCst};
use arrow_schema::{Field, Schema, SchemaRef};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

/// Largest number of indexes of one table: a bit each in a change's record.
const INDEXES_MAX: usize = u64::BITS as usize;

/// Definition of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// Type of the column.
    pub kind: Type,
    /// True if the column may be null.
    pub nullable: bool,
}

impl Column {
    /// Returns a column that is never null.
    pub fn required(name: &str, kind: Type) -> Column {
        Column { name: name.to_owned(), kind, nullable: false }
    }

    /// Returns a column that may be null.
    pub fn nullable(name: &str, kind: Type) -> Column {
        Column { name: name.to_owned(), kind, nullable: true }
    }
}

/// Definition of an index. A unique index does not compare rows that have a null in the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexDef {
    /// Name of the index.
    pub name: String,
    /// Positions of its columns in the table, most significant first.
    pub columns: Vec<usize>,
    /// True if no two rows may have equal keys.
    pub unique: bool,
}

impl IndexDef {
    /// Returns a unique index.
    pub fn unique(name: &str, columns: &[usize]) -> IndexDef {
        IndexDef { name: name.to_owned(), columns: columns.to_vec(), unique: true }
    }

    /// Returns an index that allows equal keys.
    pub fn plain(name: &str, columns: &[usize]) -> IndexDef {
        IndexDef { name: name.to_owned(), columns: columns.to_vec(), unique: false }
    }
}

/// Definition of a table, for [`crate::Engine::create_table`]. Index 0 is the primary key if it is unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDef {
    /// Name of the table.
    pub name: String,
    /// Columns of the table.
    pub columns: Vec<Column>,
    /// Indexes of the table; none is allowed for tables that are only scanned.
    pub indexes: Vec<IndexDef>,
}

/// A table of one engine. Get it from [`crate::Engine::table`] or [`crate::Engine::create_table`].
///
/// A holder of it can use it, also when it was dropped ([`crate::Engine::drop_table`]): its memory is free when it has
/// no holder any more, not even of a [`std::sync::Weak`].
pub struct Table {
    pub(crate) id: u32,
    /// Number of its engine; none when it may be used no more.
    pub(crate) engine: AtomicU64,
    /// True after [`Table::retire`].
    retired: AtomicBool,
    def: TableDef,
    schema: SchemaRef,
    pub(crate) layout: Layout,
    pub(crate) indexes: Vec<Index>,
    /// Columns that any index has in its key.
    pub(crate) key_columns: Touched,
    pub(crate) rows: RowMap,
    pub(crate) version_bytes: VersionBytes,
    pub(crate) blocks: Arc<Totals>,
    /// Tables that were in its place before, and that SERIALIZABLE transactions which it meets may have read.
    elders: OnceBox<Vec<u32>>,
    /// Length of the first row's image, 0 before it: the expected length of others.
    image_bytes: AtomicUsize,
}

pub(crate) struct Index {
    pub(crate) def: IndexDef,
    pub(crate) tree: BTree,
    pub(crate) key_columns: Touched,
    /// True if any update ever changed a key, so that an entry's key may differ from its row's.
    pub(crate) keys_changed: AtomicBool,
}

impl Index {
    /// Returns true if a reader must compare an entry's key with the key of the version it sees.
    #[inline]
    pub(crate) fn needs_recheck(&self) -> bool {
        self.keys_changed.load(Ordering::Acquire)
    }
}

impl Table {
    pub(crate) fn new(engine: u64, id: u32, def: TableDef) -> Result<Table> {
        check(&def)?;
        let layout = Layout::new(0, &def.columns);
        let fields: Vec<Field> =
            def.columns.iter().map(|column| Field::new(&column.name, column.kind.arrow(), column.nullable)).collect();
        let indexes: Vec<Index> = def
            .indexes
            .iter()
            .map(|index| Index {
                key_columns: touched(&index.columns),
                def: index.clone(),
                tree: BTree::new(),
                keys_changed: AtomicBool::new(false),
            })
            .collect();
        let key_columns = Touched(indexes.iter().fold(0, |all, index| all | index.key_columns.0));
        Ok(Table {
            id,
            engine: AtomicU64::new(engine),
            retired: AtomicBool::new(false),
            schema: Arc::new(Schema::new(fields)),
            layout,
            indexes,
            key_columns,
            rows: RowMap::new(),
            version_bytes: VersionBytes::new(),
            blocks: Arc::default(),
            elders: OnceBox::new(),
            image_bytes: AtomicUsize::new(0),
            def,
        })
    }

    /// Returns the bytes of its indexes.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.indexes.iter().map(|index| index.tree.bytes()).sum()
    }

    /// Closes a dropped table without a user: from now on every call with it is refused.
    pub(crate) fn close(&self) {
        self.engine.store(0, SeqCst);
    }

    /// Retires the table: a commit has taken all its rows away, and another table has them, or none. Called before the
    /// locks go that kept writers out, so a transaction that gets the table afterwards finds it.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// Checks that the table is in use. To be called by a transaction that has the table locked against a retirement,
    /// before it changes or locks a row: no one would see the change.
    ///
    /// # Errors
    /// [`Error::SerializationFailure`]
    #[inline]
    pub(crate) fn check_in_use(&self) -> Result<()> {
        if self.retired.load(Ordering::Acquire) { Err(Error::SerializationFailure) } else { Ok(()) }
    }

    /// Returns the number of the table: tables are numbered in the order in which they were created, and no number is
    /// given out twice.
    pub fn number(&self) -> u32 {
        self.id
    }

    /// Returns the tables that were in its place before.
    #[inline]
    pub(crate) fn elders(&self) -> &[u32] {
        self.elders.get().map_or(&[], |elders| elders)
    }

    /// Sets those tables, before anyone else knows the table.
    pub(crate) fn set_elders(&self, elders: Vec<u32>) {
        let is_new = self.elders.set(Box::new(elders)).is_ok();
        debug_assert!(is_new, "a table takes one other's place");
    }

    /// Returns the approximate length of a row image.
    #[inline]
    pub(crate) fn image_bytes(&self) -> usize {
        self.image_bytes.load(Ordering::Relaxed)
    }

    /// Sets the length of a row image. The first one counts.
    #[inline]
    pub(crate) fn expect_image_bytes(&self, bytes: usize) {
        if self.image_bytes() == 0 {
            self.image_bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// Returns the set of all indexes, a bit each.
    pub(crate) fn all_indexes(&self) -> u64 {
        u64::MAX.checked_shr(u64::BITS - self.indexes.len() as u32).unwrap_or(0)
    }

    /// Returns the table's name.
    pub fn name(&self) -> &str {
        &self.def.name
    }

    /// Returns the columns.
    pub fn columns(&self) -> &[Column] {
        &self.def.columns
    }

    /// Returns the position of the column called `name`.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.def.columns.iter().position(|column| column.name == name)
    }

    /// Returns the indexes.
    pub fn indexes(&self) -> &[IndexDef] {
        &self.def.indexes
    }

    /// Returns the position of the index called `name`.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.def.indexes.iter().position(|index| index.name == name)
    }

    /// Returns the schema of full scans.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns a bound on the number of rows of the table: ids given out, dead rows included.
    pub fn rows_bound(&self) -> u64 {
        self.rows.end()
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("name", &self.def.name).finish_non_exhaustive()
    }
}

fn touched(columns: &[usize]) -> Touched {
    let mut set = Touched::default();
    for column in columns {
        set.add(*column);
    }
    set
}

fn check(def: &TableDef) -> Result<()> {
    let bad = |why: InvalidDefinition| Err(Error::InvalidDefinition { name: def.name.clone(), why });
    // Names of columns and indexes are looked up by name, so each must be there and be unique.
    if def.name.is_empty() {
        return bad(InvalidDefinition::NoName);
    }
    if COLUMNS_MAX < def.columns.len() {
        return bad(InvalidDefinition::ManyColumns(COLUMNS_MAX));
    }
    for (position, column) in def.columns.iter().enumerate() {
        if column.name.is_empty() {
            return bad(InvalidDefinition::UnnamedColumn(position));
        }
        if def.columns[..position].iter().any(|other| other.name == column.name) {
            return bad(InvalidDefinition::SameColumn(column.name.clone()));
        }
        if let Type::Decimal { precision, scale } = column.kind
            && !(1..=38).contains(&precision) | !(0..=precision as i8).contains(&scale)
        {
            return bad(InvalidDefinition::Decimal { column: column.name.clone(), precision, scale });
        }
    }
    if INDEXES_MAX < def.indexes.len() {
        return bad(InvalidDefinition::ManyIndexes(INDEXES_MAX));
    }
    for (position, index) in def.indexes.iter().enumerate() {
        if index.name.is_empty() {
            return bad(InvalidDefinition::UnnamedIndex(position));
        }
        if def.indexes[..position].iter().any(|other| other.name == index.name) {
            return bad(InvalidDefinition::SameIndex(index.name.clone()));
        }
        if index.columns.is_empty() || key::COLUMNS_MAX < index.columns.len() {
            return bad(InvalidDefinition::IndexWidth { index: index.name.clone(), most: key::COLUMNS_MAX });
        }
        if index.columns.iter().any(|column| def.columns.len() <= *column) {
            return bad(InvalidDefinition::IndexColumn(index.name.clone()));
        }
    }
    Ok(())
}
