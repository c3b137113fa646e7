//! Tables and rows over the wire: the same statements for every server.
//!
//! **Invariant:** rows go by COPY, and by INSERT of many rows only to a server that says it has no COPY; other refusals
//! of a server (`0A000`) are returned, to be printed, never passed over.

use super::client::Control;
use super::servers::MeasuredServer;
use anyhow::{Context, bail, ensure};
use arrow_array::RecordBatch;
use engine::{Column, IndexDef, Type};
use workloads::tpch::write_rows;

/// Number of bytes that a message of COPY aims at.
const CHUNK_BYTES: usize = 1 << 18;
/// Number of rows of an INSERT.
const INSERT_ROWS: usize = 500;

/// Table as SQL creates it.
pub struct TableSql {
    name: String,
    columns: Vec<String>,
    indexes: Vec<(bool, String)>,
}

impl TableSql {
    /// Creates the description of a table with these columns. The first unique index is its primary key.
    ///
    /// # Errors
    /// If a column has a type that no table of these workloads has.
    pub fn new(name: &str, columns: &[Column], indexes: &[IndexDef]) -> anyhow::Result<TableSql> {
        let column = |column: &Column| {
            let null = if column.nullable { "" } else { " not null" };
            Ok(format!("{} {}{null}", column.name, type_name(column.kind)?))
        };
        let names = |of: &[usize]| {
            let names: Vec<&str> = of.iter().filter_map(|at| Some(&*columns.get(*at)?.name)).collect();
            names.join(", ")
        };
        Ok(TableSql {
            name: name.to_owned(),
            columns: columns.iter().map(column).collect::<anyhow::Result<_>>()?,
            indexes: indexes.iter().map(|index| (index.unique, names(&index.columns))).collect(),
        })
    }

    /// Creates the table, with its primary key.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn create(&self, control: &Control, target: &MeasuredServer) -> anyhow::Result<()> {
        if !target.is_overtake() && !target.is_postgres() {
            control.batch(&format!("drop table if exists {}", self.name))?;
        }
        let mut parts = self.columns.clone();
        parts.extend(self.primary_key().map(|key| format!("primary key ({key})")));
        let unlogged = if target.is_unlogged { "unlogged " } else { "" };
        control.batch(&format!("create {unlogged}table {} ({})", self.name, parts.join(", ")))
    }

    fn primary_key(&self) -> Option<&str> {
        self.indexes.iter().find(|(is_unique, _)| *is_unique).map(|(_, columns)| &**columns)
    }

    /// Creates the table's other indexes. Returns those that the server does not support.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn index(&self, control: &Control) -> anyhow::Result<Vec<String>> {
        let mut refused = Vec::new();
        let primary_key = self.primary_key();
        for (is_unique, columns) in &self.indexes {
            if Some(&**columns) != primary_key {
                let unique = if *is_unique { "unique " } else { "" };
                refused
                    .extend(control.batch_if_supported(&format!("create {unique}index on {} ({columns})", self.name))?);
            }
        }
        Ok(refused)
    }

    /// Sends rows to the table.
    ///
    /// # Errors
    /// Errors of the server; fewer rows there than were sent.
    pub fn fill(&self, control: &Control, batches: impl Iterator<Item = RecordBatch>) -> anyhow::Result<u64> {
        let mut rows_count = 0;
        let mut chunks = batches.flat_map(|batch| {
            rows_count += batch.num_rows() as u64;
            chunks(&batch)
        });
        let statement = format!("copy {} from stdin with (delimiter '|', null '')", self.name);
        let Some(copied) = control.copy(&statement, &mut chunks)? else {
            for chunk in chunks {
                self.insert(control, &chunk?)?;
            }
            return Ok(rows_count);
        };
        ensure!(copied == rows_count, "{} took {copied} of {rows_count} rows", self.name);
        Ok(rows_count)
    }

    fn insert(&self, control: &Control, chunk: &[u8]) -> anyhow::Result<()> {
        let text = std::str::from_utf8(chunk).context("rows are text")?;
        let lines: Vec<&str> = text.lines().collect();
        lines.chunks(INSERT_ROWS).try_for_each(|lines| {
            let rows: Vec<String> = lines.iter().map(|line| literals(line)).collect();
            control.batch(&format!("insert into {} values {}", self.name, rows.join(", ")))
        })
    }
}

/// Returns the rows of a batch as text, in pieces.
fn chunks(batch: &RecordBatch) -> Vec<anyhow::Result<Vec<u8>>> {
    // Lines of these tables are some hundred bytes.
    const ROWS: usize = CHUNK_BYTES / 128;
    let parts = (0..batch.num_rows()).step_by(ROWS);
    let chunk = |from: usize| {
        let mut bytes = Vec::with_capacity(CHUNK_BYTES);
        write_rows(&batch.slice(from, ROWS.min(batch.num_rows() - from)), &mut bytes).context("rows")?;
        Ok(bytes)
    };
    parts.map(chunk).collect()
}

/// Returns a line of cells as a row of `VALUES`; the server gives each literal its column's type.
fn literals(line: &str) -> String {
    let cell = |cell: &str| if cell.is_empty() { "null".to_owned() } else { format!("'{}'", cell.replace('\'', "''")) };
    format!("({})", line.split('|').map(cell).collect::<Vec<_>>().join(", "))
}

fn type_name(kind: Type) -> anyhow::Result<String> {
    Ok(match kind {
        Type::Int32 => "integer".to_owned(),
        Type::Int64 => "bigint".to_owned(),
        Type::Text => "text".to_owned(),
        Type::Date => "date".to_owned(),
        Type::Timestamp => "timestamp".to_owned(),
        Type::Decimal { precision, scale } => format!("numeric({precision}, {scale})"),
        other => bail!("no table of our workloads has a column of type {other:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_unique_index_is_the_primary_key() {
        let columns =
            [Column::required("a", Type::Int32), Column::nullable("b", Type::Decimal { precision: 4, scale: 2 })];
        let table = TableSql::new("t", &columns, &[IndexDef::plain("i", &[1]), IndexDef::unique("p", &[1, 0])])
            .expect("it has a form in SQL");
        assert_eq!(table.columns, ["a integer not null", "b numeric(4, 2)"]);
        assert_eq!(table.primary_key(), Some("b, a"));
        assert_eq!(TableSql::new("t", &columns, &[]).expect("it has a form in SQL").primary_key(), None);
    }

    #[test]
    fn a_line_becomes_literals() {
        assert_eq!(literals("1|it's||x"), "('1', 'it''s', null, 'x')");
    }
}
