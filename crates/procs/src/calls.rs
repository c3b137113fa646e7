//! Calls that stored code makes.
//!
//! **Invariant:** a handle is a number of the module's [`Manifest`](crate::Manifest), or of a cursor that the same
//! invocation has opened. Any other is an error, never another table.

use engine::{Table, Txn};
use statement::error::SqlResult;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use types::SqlType;
use types::datum::Datum;

/// Number of a table in the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableHandle(pub u16);

/// Number of a statement in the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StatementHandle(pub u16);

/// Number of a cursor of this invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CursorHandle(pub u32);

/// Result of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Rows that the statement has changed, or returned.
    pub rows: u64,
    /// Cursor over the rows of the result; `None` for a statement without any.
    pub cursor: Option<CursorHandle>,
}

/// Level of a notice, as in `RAISE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's names")]
pub enum NoticeLevel {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
}

/// End of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TransactionEnd {
    Commit,
    Rollback,
}

/// Receiver of a row. It stops the walk by returning `Break`.
pub type EachRow<'a> = dyn FnMut(&[Datum]) -> SqlResult<ControlFlow<()>> + 'a;

/// Receiver of a row with the types of its columns. It leaves the row to the next receiver by returning `Break`.
pub type EachTypedRow<'a> = dyn FnMut(&[SqlType], &[Datum]) -> SqlResult<ControlFlow<()>> + 'a;

/// Receiver of types.
pub type EachTypes<'a> = dyn FnMut(&[SqlType]) -> SqlResult<()> + 'a;

/// Thing whose types code asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the calls")]
pub enum TypesOf {
    Key(TableHandle),
    Columns(TableHandle),
    Parameters(StatementHandle),
}

/// Call of a batch that is about to be made.
#[derive(Clone, Debug)]
pub struct ComingCall {
    /// Kind of the call.
    pub what: ComingKind,
    /// Place of its values among those of all.
    pub values: Range<usize>,
}

/// Kind of a call that may reach a row by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the calls")]
pub enum ComingKind {
    Get { table: TableHandle, locks: bool },
    Delete(TableHandle),
    Statement(StatementHandle),
}

/// Does what [`EngineCalls::query`] does, by a cursor.
///
/// # Errors
/// Those of the statement and of `each`.
pub fn query_by_cursor<E: EngineCalls + ?Sized>(
    engine: &mut E,
    statement: StatementHandle,
    parameters: &[Datum],
    each: &mut EachTypedRow<'_>,
) -> SqlResult<Executed> {
    let Executed { rows, cursor } = engine.execute(statement, parameters)?;
    let Some(open) = cursor else { return Ok(Executed { rows, cursor }) };
    let columns = engine.cursor_columns(open)?;
    let is_over = engine.next(open, u32::MAX, &mut |row| each(&columns, row))?;
    Ok(Executed { rows, cursor: cursor.filter(|_| !is_over) })
}

/// Engine as stored code sees it, within one invocation.
///
/// Each call is a command of its own within the calling statement. After an error the invocation must end with that
/// error: its effects since the last commit are undone as a whole.
///
/// # Errors
/// All calls fail with `39000` for a handle that does not exist, with `42501` if the caller lacks a right, and with
/// what the same SQL would fail with.
pub trait EngineCalls {
    /// Returns the types of the primary key's columns, in the key's order.
    fn key(&mut self, table: TableHandle) -> SqlResult<Arc<[SqlType]>>;

    /// Returns the types of a table's columns, as the manifest lists them.
    fn columns(&mut self, table: TableHandle) -> SqlResult<Arc<[SqlType]>>;

    /// Returns the types of a statement's parameters.
    fn parameters(&mut self, statement: StatementHandle) -> SqlResult<Arc<[SqlType]>>;

    /// Returns the types of a cursor's columns.
    fn cursor_columns(&mut self, cursor: CursorHandle) -> SqlResult<Arc<[SqlType]>>;

    /// Passes types to `each`: those that [`EngineCalls::key`] and the like return, but nobody has to count who has them.
    fn with_types(&mut self, of: TypesOf, each: &mut EachTypes<'_>) -> SqlResult<()> {
        let types = match of {
            TypesOf::Key(table) => self.key(table)?,
            TypesOf::Columns(table) => self.columns(table)?,
            TypesOf::Parameters(statement) => self.parameters(statement)?,
        };
        each(&types)
    }

    /// Takes notice of calls that are about to be made, and may ask for the memory that they will need. A hint: it never
    /// fails, reads nothing, and promises nothing about the calls.
    fn foresee(&mut self, calls: &[ComingCall], values: &[Datum]) {
        let _ = (calls, values);
    }

    /// Passes the row with this key to `each`, if there is one; with `locks`, after it is locked as `FOR UPDATE` does.
    /// Returns true if there is a row.
    fn get(&mut self, table: TableHandle, key: &[Datum], locks: bool, each: &mut EachRow<'_>) -> SqlResult<bool>;

    /// Does what [`EngineCalls::get`] does, and passes the types of the columns, too.
    fn get_typed(
        &mut self,
        table: TableHandle,
        key: &[Datum],
        locks: bool,
        each: &mut EachTypedRow<'_>,
    ) -> SqlResult<bool> {
        let columns = self.columns(table)?;
        self.get(table, key, locks, &mut |row| each(&columns, row))
    }

    /// Inserts a row, or updates the listed columns of the row with its key. With `is_new`, only inserts.
    fn put(&mut self, table: TableHandle, row: &[Datum], is_new: bool) -> SqlResult<()>;

    /// Deletes the row with this key. Returns true if there was one.
    fn delete(&mut self, table: TableHandle, key: &[Datum]) -> SqlResult<bool>;

    /// Opens a cursor over the rows whose key begins with these values, in the order of the key.
    fn scan(&mut self, table: TableHandle, prefix: &[Datum], is_descending: bool) -> SqlResult<CursorHandle>;

    /// Passes the next rows of a cursor to `each`, at most `count`. A row for which `each` breaks is passed again by
    /// the next call. Returns true if no row is left; the cursor is closed then.
    fn next(&mut self, cursor: CursorHandle, count: u32, each: &mut EachRow<'_>) -> SqlResult<bool>;

    /// Closes a cursor.
    fn close(&mut self, cursor: CursorHandle) -> SqlResult<()>;

    /// Executes a statement of the manifest.
    fn execute(&mut self, statement: StatementHandle, parameters: &[Datum]) -> SqlResult<Executed>;

    /// Executes a statement as [`EngineCalls::execute`] does, and passes the rows of its result to `each`. If that breaks,
    /// the row and those behind it are left to the cursor that is returned.
    fn query(
        &mut self,
        statement: StatementHandle,
        parameters: &[Datum],
        each: &mut EachTypedRow<'_>,
    ) -> SqlResult<Executed> {
        query_by_cursor(self, statement, parameters, each)
    }

    /// Commits the transaction, or rolls it back, and begins another. All cursors are closed.
    ///
    /// # Errors
    /// `2D000` unless the code is a procedure that `CALL` runs outside a transaction block, without settings and rights
    /// of its own; those of a commit.
    fn end_transaction(&mut self, end: TransactionEnd) -> SqlResult<()>;

    /// Sends a notice to the client.
    fn notice(&mut self, level: NoticeLevel, message: &str) -> SqlResult<()>;

    /// Adds a row to the result of a set-returning function.
    fn emit(&mut self, row: &[Datum]) -> SqlResult<()>;

    /// Returns the types of the result's columns.
    fn result(&self) -> Arc<[SqlType]>;

    /// Looks whether the invocation must end: it was cancelled, or a time limit is exceeded.
    ///
    /// # Errors
    /// `57014` and the like.
    fn look(&self) -> SqlResult<()>;

    /// Runs a wait in which this thread sleeps until code in another process answers, so that its time can be told from
    /// work. It is called for waits alone: an answer that is there, or that is polled for, costs nothing more.
    fn asleep(&self, wait: &mut dyn FnMut()) {
        wait();
    }

    /// Calls `body` with the transaction and the tables of the manifest, by number, for code that is linked into the
    /// server. The caller may read and write these tables. Returns false where there is no engine, as in tests.
    fn direct(&mut self, body: &mut DirectBody<'_>) -> SqlResult<bool>;
}

/// Code that uses the engine without SQL.
pub type DirectBody<'a> = dyn FnMut(&Txn<'_>, &[Arc<Table>]) -> SqlResult<()> + 'a;
