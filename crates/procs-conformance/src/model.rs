//! Model of an engine: tables in maps, statements as closures.
//!
//! **Invariant:** the model does what [`EngineCalls`] promises and nothing else. It counts its calls, so that a test can
//! end an invocation at each of them.

use procs::format::garbled;
use procs::{
    CursorHandle, DirectBody, EachRow, EngineCalls, Executed, NoticeLevel, StatementHandle, TableHandle, TransactionEnd,
};
use statement::error::{Cancellation, SqlError, SqlResult, SqlState};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use types::SqlType;
use types::datum::Datum;

/// Part of a key, in the order of keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KeyPart {
    Int(i64),
    Text(String),
}

fn part(value: &Datum) -> SqlResult<KeyPart> {
    Ok(match value {
        Datum::Int2(value) => KeyPart::Int(i64::from(*value)),
        Datum::Int4(value) => KeyPart::Int(i64::from(*value)),
        Datum::Int8(value) => KeyPart::Int(*value),
        Datum::Text(value) => KeyPart::Text(value.to_string()),
        other => return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, format!("{other:?} is no key of the model"))),
    })
}

fn parts(values: &[Datum]) -> SqlResult<Vec<KeyPart>> {
    values.iter().map(part).collect()
}

/// Table of the model. The first columns are its key.
#[derive(Clone, Debug)]
pub struct ModelTable {
    columns: Arc<[SqlType]>,
    key: Arc<[SqlType]>,
    rows: BTreeMap<Vec<KeyPart>, Vec<Datum>>,
}

impl ModelTable {
    /// Creates an empty table.
    pub fn new(columns: &[SqlType], key_columns: usize) -> ModelTable {
        let key = columns.iter().take(key_columns).copied().collect();
        ModelTable { columns: columns.into(), key, rows: BTreeMap::new() }
    }

    /// Inserts a row, or replaces that with its key.
    ///
    /// # Errors
    /// `23502` for a key that is neither an integer nor a text.
    pub fn put(&mut self, row: Vec<Datum>) -> SqlResult<()> {
        let key = parts(row.get(..self.key.len()).unwrap_or(&row))?;
        self.rows.insert(key, row);
        Ok(())
    }

    /// Returns the rows, in the order of the key.
    pub fn rows(&self) -> impl Iterator<Item = &Vec<Datum>> {
        self.rows.values()
    }
}

/// Rows of a statement, and the number that it reports.
pub type Ran = (u64, Option<Vec<Vec<Datum>>>);

/// Body of a statement of the model.
pub type Run = dyn FnMut(&mut [ModelTable], &[Datum]) -> SqlResult<Ran> + Send;

/// Statement of the model.
pub struct ModelStatement {
    parameters: Arc<[SqlType]>,
    columns: Arc<[SqlType]>,
    run: Box<Run>,
}

impl fmt::Debug for ModelStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelStatement").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

impl ModelStatement {
    /// Creates a statement with these types of parameters and of columns.
    pub fn new(
        parameters: &[SqlType],
        columns: &[SqlType],
        run: impl FnMut(&mut [ModelTable], &[Datum]) -> SqlResult<Ran> + Send + 'static,
    ) -> ModelStatement {
        ModelStatement { parameters: parameters.into(), columns: columns.into(), run: Box::new(run) }
    }
}

/// Cursor of the model: its columns, and the rows that are left.
#[derive(Debug)]
struct ModelCursor {
    columns: Arc<[SqlType]>,
    rows: std::collections::VecDeque<Vec<Datum>>,
}

/// Model of an engine.
#[derive(Debug, Default)]
pub struct ModelEngine {
    /// Tables, by number.
    pub tables: Vec<ModelTable>,
    /// Statements, by number.
    pub statements: Vec<ModelStatement>,
    /// Types of the result's columns.
    pub result: Vec<SqlType>,
    /// Rows that were emitted.
    pub emitted: Vec<Vec<Datum>>,
    /// Notices.
    pub notices: Vec<(NoticeLevel, String)>,
    /// Ends of transactions.
    pub ends: Vec<TransactionEnd>,
    /// Number of calls so far.
    pub calls: u64,
    /// Number of the call that is refused as a serialization failure; 0 for none.
    pub fails_at: u64,
    /// True once the statement is cancelled.
    pub is_cancelled: Arc<AtomicBool>,
    /// Waits for code in which the thread slept, and their time.
    pub asleep: Cell<(u64, Duration)>,
    cursors: HashMap<u32, ModelCursor>,
    cursors_made: u32,
}

fn no_handle(what: &str, number: u32) -> SqlError {
    garbled(&format!("{number} is the number of no {what}"))
}

impl ModelEngine {
    fn counted(&mut self) -> SqlResult<()> {
        self.calls += 1;
        if self.calls == self.fails_at {
            return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, "the model refuses this call"));
        }
        self.look()
    }

    fn table(&mut self, table: TableHandle) -> SqlResult<&mut ModelTable> {
        self.tables.get_mut(usize::from(table.0)).ok_or_else(|| no_handle("table", u32::from(table.0)))
    }

    fn statement(&mut self, statement: StatementHandle) -> SqlResult<&mut ModelStatement> {
        let number = statement.0;
        self.statements.get_mut(usize::from(number)).ok_or_else(|| no_handle("statement", u32::from(number)))
    }

    fn cursor(&mut self, cursor: CursorHandle) -> SqlResult<&mut ModelCursor> {
        self.cursors.get_mut(&cursor.0).ok_or_else(|| no_handle("cursor", cursor.0))
    }

    fn opened(&mut self, columns: Arc<[SqlType]>, rows: Vec<Vec<Datum>>) -> CursorHandle {
        self.cursors_made += 1;
        self.cursors.insert(self.cursors_made, ModelCursor { columns, rows: rows.into() });
        CursorHandle(self.cursors_made)
    }
}

impl EngineCalls for ModelEngine {
    fn key(&mut self, table: TableHandle) -> SqlResult<Arc<[SqlType]>> {
        self.table(table).map(|table| Arc::clone(&table.key))
    }

    fn columns(&mut self, table: TableHandle) -> SqlResult<Arc<[SqlType]>> {
        self.table(table).map(|table| Arc::clone(&table.columns))
    }

    fn parameters(&mut self, statement: StatementHandle) -> SqlResult<Arc<[SqlType]>> {
        self.statement(statement).map(|statement| Arc::clone(&statement.parameters))
    }

    fn cursor_columns(&mut self, cursor: CursorHandle) -> SqlResult<Arc<[SqlType]>> {
        self.cursor(cursor).map(|cursor| Arc::clone(&cursor.columns))
    }

    fn get(&mut self, table: TableHandle, key: &[Datum], _locks: bool, each: &mut EachRow<'_>) -> SqlResult<bool> {
        self.counted()?;
        let key = parts(key)?;
        match self.table(table)?.rows.get(&key) {
            Some(row) => each(row).map(|_| true),
            None => Ok(false),
        }
    }

    fn put(&mut self, table: TableHandle, row: &[Datum], is_new: bool) -> SqlResult<()> {
        self.counted()?;
        let table = self.table(table)?;
        let key = parts(row.get(..table.key.len()).unwrap_or(row))?;
        if is_new && table.rows.contains_key(&key) {
            return Err(SqlError::new(SqlState::UNIQUE_VIOLATION, "duplicate key in the model"));
        }
        table.rows.insert(key, row.to_vec());
        Ok(())
    }

    fn delete(&mut self, table: TableHandle, key: &[Datum]) -> SqlResult<bool> {
        self.counted()?;
        let key = parts(key)?;
        Ok(self.table(table)?.rows.remove(&key).is_some())
    }

    fn scan(&mut self, table: TableHandle, prefix: &[Datum], is_descending: bool) -> SqlResult<CursorHandle> {
        self.counted()?;
        let prefix = parts(prefix)?;
        let table = self.table(table)?;
        let found = table.rows.iter().filter(|(key, _)| key.starts_with(&prefix)).map(|(_, row)| row.clone());
        let mut rows: Vec<Vec<Datum>> = found.collect();
        if is_descending {
            rows.reverse();
        }
        let columns = Arc::clone(&table.columns);
        Ok(self.opened(columns, rows))
    }

    fn next(&mut self, cursor: CursorHandle, count: u32, each: &mut EachRow<'_>) -> SqlResult<bool> {
        self.counted()?;
        let rows = &mut self.cursor(cursor)?.rows;
        for _ in 0..count {
            let Some(row) = rows.front() else { break };
            if each(row)? == ControlFlow::Break(()) {
                return Ok(false);
            }
            rows.pop_front();
        }
        let is_over = rows.is_empty();
        if is_over {
            self.cursors.remove(&cursor.0);
        }
        Ok(is_over)
    }

    fn close(&mut self, cursor: CursorHandle) -> SqlResult<()> {
        self.counted()?;
        self.cursor(cursor)?;
        self.cursors.remove(&cursor.0);
        Ok(())
    }

    fn execute(&mut self, statement: StatementHandle, parameters: &[Datum]) -> SqlResult<Executed> {
        self.counted()?;
        let number = usize::from(statement.0);
        self.statement(statement)?;
        let statement = &mut self.statements[number];
        let (rows, found) = (statement.run)(&mut self.tables, parameters)?;
        let columns = Arc::clone(&statement.columns);
        Ok(Executed { rows, cursor: found.map(|found| self.opened(columns, found)) })
    }

    fn end_transaction(&mut self, end: TransactionEnd) -> SqlResult<()> {
        self.counted()?;
        self.cursors.clear();
        self.ends.push(end);
        Ok(())
    }

    fn notice(&mut self, level: NoticeLevel, message: &str) -> SqlResult<()> {
        self.counted()?;
        self.notices.push((level, message.to_owned()));
        Ok(())
    }

    fn emit(&mut self, row: &[Datum]) -> SqlResult<()> {
        self.counted()?;
        self.emitted.push(row.to_vec());
        Ok(())
    }

    fn result(&self) -> Arc<[SqlType]> {
        self.result.as_slice().into()
    }

    fn look(&self) -> SqlResult<()> {
        if self.is_cancelled.load(Relaxed) { Err(SqlError::cancelled(Cancellation::UserRequest)) } else { Ok(()) }
    }

    fn asleep(&self, wait: &mut dyn FnMut()) {
        let begun = Instant::now();
        wait();
        let (count, time) = self.asleep.get();
        self.asleep.set((count + 1, time + begun.elapsed()));
    }

    fn direct(&mut self, _body: &mut DirectBody<'_>) -> SqlResult<bool> {
        Ok(false)
    }
}
