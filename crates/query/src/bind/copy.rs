//! `COPY`: which columns of which table, or which query.
//!
//! **Invariant:** a file or program of the server's machine is never touched.

use super::{Binder, is_change, settled};
use crate::change::Modify;
use crate::constraints::Rules;
use crate::copy::Options;
use crate::plan::{Access, Expr, Hold, Joins, Plan, Source, Step};
use catalog::TableInfo;
use sqlparser::ast;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::parse::copy_options::{Named, Written};
use types::SqlType;
use types::datum::Datum;

/// `COPY ... FROM STDIN`
#[derive(Debug)]
pub struct CopyFrom {
    /// Table that takes the rows.
    pub table: Arc<TableInfo>,
    /// The columns of the data.
    pub places: Vec<usize>,
    /// Values of the other columns that are not just null.
    pub defaults: Vec<(usize, Expr)>,
    /// Options of the statement.
    pub options: Options,
    /// For each column of the data: what looks like null is none.
    pub force_not_null: Vec<bool>,
    /// For each column of the data: null may stand in quotes.
    pub force_null: Vec<bool>,
    /// Constraints to check; `None` without any.
    pub rules: Option<Arc<Rules>>,
}

/// Where rows come from.
#[derive(Debug)]
pub enum Copied {
    /// Query, or a whole table.
    Query(Box<Plan>),
    /// INSERT, UPDATE or DELETE with RETURNING.
    Change(Box<Modify>),
}

/// `COPY ... TO STDOUT`
#[derive(Debug)]
pub struct CopyTo {
    /// Source of the rows.
    pub rows: Copied,
    /// Names of the columns.
    pub names: Vec<String>,
    /// Types of the columns.
    pub kinds: Vec<SqlType>,
    /// Options of the statement.
    pub options: Options,
    /// Columns with `FORCE_QUOTE`.
    pub force_quote: Vec<bool>,
}

impl Binder<'_> {
    /// Binds a `COPY … FROM`; `None` for a `COPY … TO`.
    pub fn copy_from(&self, copy: &ast::Statement, written: &[Written]) -> SqlResult<Option<CopyFrom>> {
        let (source, is_to) = parts(copy)?;
        if is_to {
            return Ok(None);
        }
        let ast::CopySource::Table { table_name, columns } = source else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error: COPY FROM needs a table"));
        };
        let options = Options::of(written, true)?;
        let table = self.table(table_name)?;
        let places = self.copied_columns(&table, columns)?;
        let mut defaults = Vec::new();
        for at in (0..table.columns.len()).filter(|at| !places.contains(at)) {
            match self.default(&table, at)? {
                Expr::Constant(Datum::Null) => {}
                value => defaults.push((at, value)),
            }
        }
        let names: Vec<String> = places.iter().map(|at| table.columns[*at].name.clone()).collect();
        let among = |named: &Named, what: &str| named.among(&names, &|name| unknown(Some(&table), name, what));
        let force_not_null = among(&options.force_not_null, "FORCE_NOT_NULL")?;
        let force_null = among(&options.force_null, "FORCE_NULL")?;
        let rules = self.rules(&table, false)?;
        self.will_hold(&table, Hold::Write);
        Ok(Some(CopyFrom { table, places, defaults, options, force_not_null, force_null, rules }))
    }

    /// Binds a `COPY … TO`.
    pub fn copy_to(&self, copy: &ast::Statement, written: &[Written]) -> SqlResult<CopyTo> {
        let (source, _) = parts(copy)?;
        let options = Options::of(written, false)?;
        let (rows, names, kinds, table) = match source {
            ast::CopySource::Table { table_name, columns } => {
                let table = self.table(table_name)?;
                let places = self.copied_columns(&table, columns)?;
                let names: Vec<String> = places.iter().map(|at| table.columns[*at].name.clone()).collect();
                let kinds = places.iter().map(|at| table.columns[*at].kind).collect();
                let source =
                    Source::Table { table: Arc::clone(&table), access: Access::All, columns: Some(places.clone()) };
                let width = table.columns.len() + 1;
                let plan = Plan::Joins(Joins {
                    when: None,
                    steps: vec![Step { source, is_outer: false, on: None, filter: None, first: 0, width, kept: None }],
                    width,
                });
                let columns = places.into_iter().map(Expr::Column).collect();
                let plan = Plan::Project { input: Box::new(plan), columns };
                (Copied::Query(Box::new(plan)), names, kinds, Some(table))
            }
            ast::CopySource::Query(query) => {
                let (rows, columns) = if is_change(query) {
                    let written = self.modifying(query)?;
                    let Some(columns) = written.columns else {
                        let message = "COPY query must have a RETURNING clause";
                        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                    };
                    let mut modify = written.modify;
                    modify.with = self.take_modifies();
                    (Copied::Change(Box::new(modify)), columns)
                } else {
                    let bound = self.query(query, None)?;
                    let modifies = self.take_modifies();
                    let plan = match modifies.is_empty() {
                        true => bound.plan,
                        false => Plan::Modifying { modifies, input: Box::new(bound.plan) },
                    };
                    (Copied::Query(Box::new(plan)), bound.columns)
                };
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

    fn copied_columns(&self, table: &TableInfo, columns: &[ast::Ident]) -> SqlResult<Vec<usize>> {
        let names: Vec<ast::ObjectName> =
            columns.iter().map(|column| ast::ObjectName::from(vec![column.clone()])).collect();
        self.places(table, &names).map_err(SqlError::nowhere)
    }
}

/// What an option names is no column of the data.
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

fn parts(copy: &ast::Statement) -> SqlResult<(&ast::CopySource, bool)> {
    let ast::Statement::Copy { source, to, target, options, legacy_options, values } = copy else {
        return Err(SqlError::new(SqlState::INTERNAL_ERROR, "this is no COPY"));
    };
    refuse!(
        !matches!(target, ast::CopyTarget::Stdin | ast::CopyTarget::Stdout) => "COPY with a file or program of the server",
        !options.is_empty() || !legacy_options.is_empty() || !values.is_empty() => "this form of COPY",
    );
    Ok((source, *to))
}
