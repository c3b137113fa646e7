//! Steps as PostgreSQL's SQL.

use super::ScriptTable;
use super::statement::{Begin, CompareOp, Keys, Level, NewValue, RowLock, ScriptStatement, TABLE_MODES, Wait, Which};
use std::fmt::Write as _;

/// Returns the statements that create a table, its indexes and its rows.
pub fn to_sql_table(table: &ScriptTable) -> Vec<String> {
    let columns: Vec<String> = (table.columns.iter().enumerate())
        .map(|(at, column)| format!("{column} bigint{}", if at == 0 { " primary key" } else { "" }))
        .collect();
    let mut all = vec![format!("CREATE TABLE {} ({})", table.name, columns.join(", "))];
    for (column, unique) in &table.indexes {
        let unique = if *unique { "UNIQUE " } else { "" };
        all.push(format!("CREATE {unique}INDEX ON {} ({})", table.name, table.columns[*column]));
    }
    all.extend(table.rows.iter().map(|row| insert(table, row)));
    all
}

/// Returns a step as SQL. `level` is the level of a transaction whose beginning names none.
pub fn to_sql(tables: &[ScriptTable], level: Level, statement: &ScriptStatement) -> String {
    match statement {
        ScriptStatement::Begin(Begin { level: own, read_only, deferrable, .. }) => {
            let mut sql = format!("BEGIN ISOLATION LEVEL {}", own.unwrap_or(level).name().to_uppercase());
            sql.push_str(if *read_only { " READ ONLY" } else { "" });
            sql.push_str(if *deferrable { " DEFERRABLE" } else { "" });
            sql
        }
        ScriptStatement::Read { table, rows, backward, limit, lock } => {
            let table = &tables[*table];
            let desc = if *backward { " DESC" } else { "" };
            let mut sql = format!("SELECT * FROM {}{} ORDER BY ", table.name, conditions(table, rows));
            // The order of an executor's read by an index, so that transcripts are the same.
            if let Keys::By(column, ..) = rows.keys {
                let _ = write!(sql, "{}{desc}, ", table.columns[column]);
            }
            let _ = write!(sql, "{}{desc}", table.columns[0]);
            if let Some(limit) = limit {
                let _ = write!(sql, " LIMIT {limit}");
            }
            if let Some((lock, wait)) = lock {
                sql.push_str(match lock {
                    RowLock::KeyShare => " FOR KEY SHARE",
                    RowLock::Share => " FOR SHARE",
                    RowLock::NoKeyUpdate => " FOR NO KEY UPDATE",
                    RowLock::Update => " FOR UPDATE",
                });
                sql.push_str(wait_words(*wait));
            }
            sql
        }
        ScriptStatement::Insert { table, values } => insert(&tables[*table], values),
        ScriptStatement::Update { table, rows, set } => {
            let table = &tables[*table];
            let set: Vec<String> = set
                .iter()
                .map(|(column, set)| match set {
                    NewValue::To(value) => format!("{} = {}", table.columns[*column], number(*value)),
                    NewValue::Plus(source, more) => {
                        format!("{} = {} + ({more})", table.columns[*column], table.columns[*source])
                    }
                })
                .collect();
            format!("UPDATE {} SET {}{}", table.name, set.join(", "), conditions(table, rows))
        }
        ScriptStatement::Delete { table, rows } => {
            format!("DELETE FROM {}{}", tables[*table].name, conditions(&tables[*table], rows))
        }
        ScriptStatement::LockTable { table, mode, wait } => {
            let mode = TABLE_MODES[*mode].to_uppercase();
            format!("LOCK TABLE {} IN {mode} MODE{}", tables[*table].name, wait_words(*wait))
        }
        ScriptStatement::Savepoint(name) => format!("SAVEPOINT {name}"),
        ScriptStatement::RollbackTo(name) => format!("ROLLBACK TO {name}"),
        ScriptStatement::Release(name) => format!("RELEASE {name}"),
        ScriptStatement::Commit => "COMMIT".to_owned(),
        ScriptStatement::Rollback => "ROLLBACK".to_owned(),
    }
}

fn insert(table: &ScriptTable, values: &[Option<i64>]) -> String {
    let values: Vec<String> = values.iter().map(|value| number(*value)).collect();
    format!("INSERT INTO {} VALUES ({})", table.name, values.join(", "))
}

fn number(value: Option<i64>) -> String {
    value.map_or("NULL".to_owned(), |value| value.to_string())
}

fn wait_words(wait: Wait) -> &'static str {
    match wait {
        Wait::Block => "",
        Wait::NoWait => " NOWAIT",
        Wait::SkipLocked => " SKIP LOCKED",
    }
}

fn conditions(table: &ScriptTable, rows: &Which) -> String {
    let mut all = Vec::new();
    let between = |column: &str, low: i64, high: i64| format!("{column} BETWEEN {low} AND {high}");
    match rows.keys {
        Keys::All => {}
        Keys::One(key) => all.push(format!("{} = {key}", table.columns[0])),
        Keys::Between(low, high) => all.push(between(&table.columns[0], low, high)),
        Keys::By(column, low, high) => all.push(between(&table.columns[column], low, high)),
    }
    if let Some(condition) = rows.condition {
        let sign = match condition.comparison {
            CompareOp::Equal => "=",
            CompareOp::NotEqual => "<>",
            CompareOp::Less => "<",
            CompareOp::Greater => ">",
        };
        all.push(format!("{} {sign} {}", table.columns[condition.column], condition.value));
    }
    if all.is_empty() { String::new() } else { format!(" WHERE {}", all.join(" AND ")) }
}
