//! Tables in memory that serve calls.

use procs::{
    CursorHandle, DirectBody, EachRow, EngineCalls, Executed, NoticeLevel, StatementHandle, TableHandle, TransactionEnd,
};
use statement::error::{SqlError, SqlResult, SqlState};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use types::datum::Datum;
use types::{Kind, SqlType};

/// Columns and rows of a cursor.
type OpenCursor = (Arc<[SqlType]>, VecDeque<Vec<Datum>>);

/// The tables `account` and `every_kind`, whose column has any type.
#[derive(Debug)]
pub struct Tables {
    pub tables: [BTreeMap<i64, Vec<Datum>>; 2],
    /// Type of the second column of each table.
    pub columns: [SqlType; 2],
    pub result: Vec<SqlType>,
    /// Each call, by name.
    pub log: Vec<String>,
    pub emitted: Vec<Vec<Datum>>,
    cursors: HashMap<u32, OpenCursor>,
}

pub fn numeric(text: &str) -> Datum {
    types::text::input(text, Kind::Numeric.into(), &types::forms::Forms::DEFAULT).expect("a number")
}

impl Tables {
    pub fn new(value: SqlType, result: &[SqlType]) -> Tables {
        let account = |id: i64, balance| (id, vec![Datum::Int8(id), numeric(balance)]);
        Tables {
            tables: [BTreeMap::from([account(1, "100.50"), account(2, "7"), account(3, "0.25")]), BTreeMap::new()],
            columns: [Kind::Numeric.into(), value],
            result: result.to_vec(),
            log: Vec::new(),
            emitted: Vec::new(),
            cursors: HashMap::new(),
        }
    }

    fn table(&mut self, table: TableHandle) -> SqlResult<&mut BTreeMap<i64, Vec<Datum>>> {
        self.tables.get_mut(usize::from(table.0)).ok_or_else(|| SqlError::unsupported("this table"))
    }

    fn open(&mut self, columns: Arc<[SqlType]>, rows: VecDeque<Vec<Datum>>) -> CursorHandle {
        let number = self.cursors.len() as u32 + 40;
        self.cursors.insert(number, (columns, rows));
        CursorHandle(number)
    }
}

fn id(key: &[Datum]) -> i64 {
    let [Datum::Int8(id), ..] = key else { panic!("{key:?} is no key") };
    *id
}

fn missing() -> SqlError {
    SqlError::unsupported("this cursor")
}

impl EngineCalls for Tables {
    fn key(&mut self, table: TableHandle) -> SqlResult<Arc<[SqlType]>> {
        self.table(table)?;
        Ok(Arc::from([Kind::Int8.into()]))
    }

    fn columns(&mut self, table: TableHandle) -> SqlResult<Arc<[SqlType]>> {
        self.table(table)?;
        let second = self.columns.get(usize::from(table.0)).copied();
        Ok([Some(Kind::Int8.into()), second].into_iter().flatten().collect())
    }

    fn parameters(&mut self, statement: StatementHandle) -> SqlResult<Arc<[SqlType]>> {
        let all = [Kind::Int8.into(), Kind::Text.into()];
        Ok(Arc::from(if statement.0 == 0 { &all[..] } else { &[] }))
    }

    fn cursor_columns(&mut self, cursor: CursorHandle) -> SqlResult<Arc<[SqlType]>> {
        self.cursors.get(&cursor.0).map(|(columns, _)| Arc::clone(columns)).ok_or_else(missing)
    }

    fn get(&mut self, table: TableHandle, key: &[Datum], locks: bool, each: &mut EachRow<'_>) -> SqlResult<bool> {
        self.log.push(format!("get {} {} {locks}", table.0, id(key)));
        let row = self.table(table)?.get(&id(key)).cloned();
        row.as_ref().map(|row| each(row)).transpose()?;
        Ok(row.is_some())
    }

    fn put(&mut self, table: TableHandle, row: &[Datum], is_new: bool) -> SqlResult<()> {
        self.log.push(format!("put {} {} {is_new}", table.0, id(row)));
        let before = self.table(table)?.insert(id(row), row.to_vec());
        if is_new && before.is_some() { Err(SqlError::new(SqlState::UNIQUE_VIOLATION, "twice")) } else { Ok(()) }
    }

    fn delete(&mut self, table: TableHandle, key: &[Datum]) -> SqlResult<bool> {
        self.log.push(format!("delete {} {}", table.0, id(key)));
        Ok(self.table(table)?.remove(&id(key)).is_some())
    }

    fn scan(&mut self, table: TableHandle, prefix: &[Datum], is_descending: bool) -> SqlResult<CursorHandle> {
        self.log.push(format!("scan {} {} {is_descending}", table.0, prefix.len()));
        let columns = self.columns(table)?;
        let rows = self.table(table)?.values().filter(|row| row.starts_with(prefix)).cloned();
        let mut rows: Vec<Vec<Datum>> = rows.collect();
        if is_descending {
            rows.reverse();
        }
        Ok(self.open(columns, rows.into()))
    }

    fn next(&mut self, cursor: CursorHandle, count: u32, each: &mut EachRow<'_>) -> SqlResult<bool> {
        self.log.push("next".to_owned());
        // At most two, so that more than one call is needed.
        for _ in 0..count.min(2) {
            let (_, rows) = self.cursors.get_mut(&cursor.0).ok_or_else(missing)?;
            let Some(row) = rows.front() else { break };
            if each(row)? == ControlFlow::Break(()) {
                break;
            }
            rows.pop_front();
        }
        Ok(self.cursors.get(&cursor.0).is_none_or(|(_, rows)| rows.is_empty()))
    }

    fn close(&mut self, cursor: CursorHandle) -> SqlResult<()> {
        self.log.push("close".to_owned());
        self.cursors.remove(&cursor.0).map(drop).ok_or_else(missing)
    }

    fn execute(&mut self, statement: StatementHandle, parameters: &[Datum]) -> SqlResult<Executed> {
        self.log.push(format!("execute {} {}", statement.0, parameters.len()));
        if statement.0 == 0 {
            return Ok(Executed { rows: 1, cursor: None });
        }
        let ids: VecDeque<Vec<Datum>> = self.tables[0].keys().map(|id| vec![Datum::Int8(*id)]).collect();
        let rows = ids.len() as u64;
        Ok(Executed { rows, cursor: Some(self.open(Arc::from([Kind::Int8.into()]), ids)) })
    }

    fn notice(&mut self, level: NoticeLevel, message: &str) -> SqlResult<()> {
        self.log.push(format!("notice {level:?} {message}"));
        Ok(())
    }

    fn end_transaction(&mut self, end: TransactionEnd) -> SqlResult<()> {
        self.log.push(format!("{end:?}"));
        Ok(())
    }

    fn emit(&mut self, row: &[Datum]) -> SqlResult<()> {
        self.emitted.push(row.to_vec());
        Ok(())
    }

    fn result(&self) -> Arc<[SqlType]> {
        Arc::from(self.result.as_slice())
    }

    fn look(&self) -> SqlResult<()> {
        Ok(())
    }

    fn direct(&mut self, _body: &mut DirectBody<'_>) -> SqlResult<bool> {
        Ok(false)
    }
}
