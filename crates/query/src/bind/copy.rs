//! `COPY`: columns of a table, or a query.
//!
//! **Invariant:** a file or program of the server's machine is never touched.

use super::from::input;
use super::needs::numbers_of;
use super::write::BoundChange;
use super::{Binder, settled};
use crate::change::Modify;
use crate::constraints::ConstraintRules;
use crate::copy::{CopyColumns, CopyOptions};
use crate::plan::{ColumnInfo, Expr, Hold, InputKind, Plan, Slots};
use crate::rewrite::from_clause;
use catalog::TableInfo;
use catalog::acl::Privileges;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::ast::{self, CopyOf, CopyPlace, InsertColumn, Statement};
use types::SqlType;
use types::datum::Datum;

/// `COPY ... FROM STDIN`
#[derive(Debug)]
pub struct CopyFrom {
    /// Table that takes the rows.
    pub table: Arc<TableInfo>,
    /// Positions of the columns in the data.
    pub places: Vec<usize>,
    /// Defaults of the columns that are missing in the data, except null ones.
    pub defaults: Vec<(usize, Expr)>,
    /// Options of the statement.
    pub options: CopyOptions,
    /// For each column of the data: `FORCE_NOT_NULL`, so the null string is read as text.
    pub force_not_null: Vec<bool>,
    /// For each column of the data: `FORCE_NULL`, so a quoted null string is read as null.
    pub force_null: Vec<bool>,
    /// Constraints to check; `None` without any.
    pub rules: Option<Arc<ConstraintRules>>,
}

/// Source of the rows of `COPY … TO`.
#[derive(Debug)]
pub enum CopySource {
    /// A query, or a whole table.
    Query(Box<Plan>),
    /// INSERT, UPDATE or DELETE with RETURNING.
    Change(Box<Modify>),
}

/// `COPY ... TO STDOUT`
#[derive(Debug)]
pub struct CopyTo {
    /// Source of the rows.
    pub rows: CopySource,
    /// Names of the columns.
    pub names: Vec<String>,
    /// Types of the columns.
    pub kinds: Vec<SqlType>,
    /// Options of the statement.
    pub options: CopyOptions,
    /// Columns with `FORCE_QUOTE`.
    pub force_quote: Vec<bool>,
}

impl Binder<'_> {
    /// Binds a `COPY … FROM`; `None` for a `COPY … TO`.
    pub fn copy_from(&self, copy: &ast::CopyCommand) -> SqlResult<Option<CopyFrom>> {
        let ast::CopyCommand { of, is_from, place, options, condition } = copy;
        if !is_from {
            return Ok(None);
        }
        of_client(place)?;
        refuse!(condition.is_some() => "COPY FROM ... WHERE");
        let CopyOf::Table(table_name, columns) = of else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error: COPY FROM needs a table"));
        };
        let options = CopyOptions::of(options, self.text, true)?;
        let table = self.table(table_name)?;
        let places = self.copied_columns(&table, columns)?;
        let need = self.need(table.oid, Privileges::INSERT);
        self.extend_need(need, |need| need.inserts = numbers_of(&table, &places));
        let mut defaults = Vec::new();
        for at in (0..table.columns.len()).filter(|at| !places.contains(at)) {
            match self.default(&table, at)? {
                Expr::Constant(Datum::Null) => {}
                value => defaults.push((at, value)),
            }
        }
        let names: Vec<String> = places.iter().map(|at| table.columns[*at].name.clone()).collect();
        let among = |named: &CopyColumns, what: &str| named.among(&names, &|name| unknown(Some(&table), name, what));
        let force_not_null = among(&options.force_not_null, "FORCE_NOT_NULL")?;
        let force_null = among(&options.force_null, "FORCE_NULL")?;
        let rules = self.rules(&table, false)?;
        self.will_hold(&table, Hold::Write);
        Ok(Some(CopyFrom { table, places, defaults, options, force_not_null, force_null, rules }))
    }

    /// Binds a `COPY … TO`.
    pub fn copy_to(&self, copy: &ast::CopyCommand) -> SqlResult<CopyTo> {
        // The caller has checked the direction, and the grammar allows no condition after COPY … TO.
        let ast::CopyCommand { of, is_from: _, place, options, condition: _ } = copy;
        of_client(place)?;
        let options = CopyOptions::of(options, self.text, false)?;
        let (rows, names, kinds, table) = match of {
            CopyOf::Table(name, columns) => {
                let table = self.table(name)?;
                let places = self.copied_columns(&table, columns)?;
                let need = self.need(table.oid, Privileges::SELECT);
                self.note_columns_read(need, &table, &places);
                let names: Vec<String> = places.iter().map(|at| table.columns[*at].name.clone()).collect();
                let kinds = places.iter().map(|at| table.columns[*at].kind).collect();
                (CopySource::Query(Box::new(whole(&table, places))), names, kinds, Some(table))
            }
            CopyOf::Statement(statement) => {
                let (rows, columns) = self.copied_rows(statement)?;
                self.without_parameters()?;
                let (names, kinds): (Vec<_>, Vec<_>) =
                    columns.into_iter().map(|column| (column.name, settled(column.kind))).unzip();
                (rows, names, kinds, None)
            }
        };
        let named = |name: &str| unknown(table.as_deref(), name, "FORCE_QUOTE");
        let force_quote = options.force_quote.among(&names, &named)?;
        Ok(CopyTo { rows, names, kinds, options, force_quote })
    }

    /// Binds the statement that COPY reads, and returns its rows and columns.
    fn copied_rows(&self, statement: &Statement) -> SqlResult<(CopySource, Vec<ColumnInfo>)> {
        let BoundChange { mut modify, columns } = match statement {
            Statement::Query(query) => {
                let bound = self.query(query, None)?;
                let modifies = self.take_modifies();
                let plan = match modifies.is_empty() {
                    true => bound.plan,
                    false => Plan::Modifying { modifies, input: Box::new(bound.plan) },
                };
                return Ok((CopySource::Query(Box::new(plan)), bound.columns));
            }
            Statement::Insert(insert) => self.insert(insert)?,
            Statement::Update(update) => self.update(update)?,
            Statement::Delete(delete) => self.delete(delete)?,
            _ => return Err(SqlError::unsupported("COPY of this statement")),
        };
        let Some(columns) = columns else {
            let message = "COPY query must have a RETURNING clause";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        };
        modify.with = self.take_modifies();
        Ok((CopySource::Change(Box::new(modify)), columns))
    }

    fn copied_columns(&self, table: &TableInfo, columns: &[ast::Name]) -> SqlResult<Vec<usize>> {
        let column = |name: &ast::Name| InsertColumn { name: name.clone(), steps: Vec::new() };
        let columns: Vec<InsertColumn> = columns.iter().map(column).collect();
        self.places(table, &columns).map_err(SqlError::nowhere)
    }
}

/// Returns the plan that reads these columns of all rows of a table.
fn whole(table: &Arc<TableInfo>, places: Vec<usize>) -> Plan {
    let mut needed = Slots::default();
    places.iter().for_each(|place| needed.add(*place));
    let width = table.columns.len() + 1;
    let group = input(InputKind::Table(Arc::clone(table)), 0, width, Slots::default());
    let plan = from_clause(group, Vec::new(), Some(&needed));
    let columns = places.into_iter().map(Expr::Column).collect();
    Plan::Project { input: Box::new(plan), columns }
}

/// # Errors
/// Fails with `0A000` if the data is not sent by or to the client.
fn of_client(place: &CopyPlace) -> SqlResult<()> {
    match place {
        CopyPlace::Client => Ok(()),
        CopyPlace::File(_) | CopyPlace::Program(_) => {
            Err(SqlError::unsupported("COPY with a file or program of the server"))
        }
    }
}

/// Returns the error for an option that names no column of the data.
fn unknown(table: Option<&TableInfo>, name: &str, what: &str) -> SqlError {
    match table {
        Some(table) if table.column(name).is_some() => {
            let message = format!("{what} column \"{name}\" not referenced by COPY");
            SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
        }
        Some(table) => {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        }
        None => SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")),
    }
}
