//! `PREPARE`, `EXECUTE`, `DEALLOCATE`.
//!
//! **Invariant:** what a name stands for does not change with the transaction: `ROLLBACK` takes no `PREPARE` back, as in PostgreSQL.

use super::{Session, Statement, Step};
use crate::bind::Binder;
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::ops::{Context, Env};
use crate::parse::folded;
use crate::plan::Expr;
use crate::session::ColumnInfo;
use sqlparser::ast;
use std::collections::HashMap;
use std::sync::{Arc, RwLock};

/// Statements by name.
#[derive(Default)]
pub(super) struct Prepared {
    by_name: HashMap<String, Arc<Statement>>,
    /// Values of the `EXECUTE` that waits: they are made once.
    waiting: Option<Vec<Datum>>,
}

/// An `EXECUTE`, bound.
#[derive(Debug)]
pub(crate) struct Execute {
    statement: Arc<Statement>,
    arguments: Vec<Expr>,
}

impl Execute {
    /// Columns of its rows, if it has rows.
    pub(super) fn columns(&self) -> Option<Vec<ColumnInfo>> {
        self.statement.columns.clone()
    }

    /// What it runs.
    pub(super) fn statement(&self) -> &Arc<Statement> {
        &self.statement
    }
}

impl Session {
    /// `PREPARE`
    pub(super) fn prepare_named(
        &mut self,
        text: &str,
        name: &str,
        types: &[ast::DataType],
        tree: &ast::Statement,
    ) -> SqlResult<()> {
        if self.prepared.by_name.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState("42P05"), message));
        }
        let is_plannable = matches!(
            tree,
            ast::Statement::Query(_)
                | ast::Statement::Insert(_)
                | ast::Statement::Update(_)
                | ast::Statement::Delete(_)
        );
        if !is_plannable {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "syntax error: PREPARE takes a query or a change of rows",
            ));
        }
        let given = {
            let (state, path) = (self.state(), self.search_path()?);
            let binder = Binder::new(&state, &path, text, &self.env, Vec::new());
            types.iter().map(|of| binder.type_of(of).map(Some)).collect::<SqlResult<_>>()?
        };
        let (bound, parameters, columns) = self.bind_now(text, tree, None, given)?;
        let statement = Statement {
            text: text.to_owned(),
            tree: Some(tree.clone()),
            copy: None,
            parameters,
            columns,
            bound: RwLock::new(Arc::new(bound)),
            class: None,
        };
        self.prepared.by_name.insert(name.to_owned(), Arc::new(statement));
        Ok(())
    }

    /// Binds an `EXECUTE`.
    pub(super) fn bind_execute(&mut self, text: &str, name: &str, arguments: &[ast::Expr]) -> SqlResult<Execute> {
        let statement = self.prepared.by_name.get(name).cloned().ok_or_else(|| no_statement(name))?;
        let (given, wanted) = (arguments.len(), statement.parameters.len());
        if given != wanted {
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message)
                .detail(format!("Expected {wanted} parameters but got {given}.")));
        }
        let (state, path) = (self.state(), self.search_path()?);
        let binder = Binder::new(&state, &path, text, &self.env, Vec::new());
        let mut bound = Vec::with_capacity(given);
        for (at, (argument, kind)) in arguments.iter().zip(&statement.parameters).enumerate() {
            let argument = binder.expr(argument, &crate::bind::Scope::default())?;
            let of = argument.kind;
            let argument = binder.coerce(argument, *kind, Context::Assignment).map_err(|error| {
                if error.state() != SqlState::CANNOT_COERCE {
                    return error;
                }
                let message = format!(
                    "parameter ${} of type {} cannot be coerced to the expected type {}",
                    at + 1,
                    of.name(),
                    kind.name()
                );
                SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                    .hint("You will need to rewrite or cast the expression.")
            })?;
            bound.push(argument.expr);
        }
        binder.without_parameters()?;
        Ok(Execute { statement, arguments: bound })
    }

    /// Runs one.
    pub(super) fn execute_named(&mut self, execute: &Execute) -> SqlResult<Step> {
        let values = match self.prepared.waiting.take() {
            Some(values) if self.is_parked => values,
            _ => self.values_of(execute)?,
        };
        let action = self.current(&execute.statement)?;
        let step = self.act(&execute.statement, &action, &values)?;
        if matches!(step, Step::Parked(_)) {
            self.prepared.waiting = Some(values);
        }
        Ok(step)
    }

    /// The values that it gives.
    pub(super) fn values_of(&self, execute: &Execute) -> SqlResult<Vec<Datum>> {
        execute.arguments.iter().map(|one| constant(one, &self.env)).collect()
    }

    /// `DEALLOCATE`; without a name: all.
    pub(super) fn deallocate(&mut self, name: Option<&str>) -> SqlResult<()> {
        match name {
            None => self.prepared.by_name.clear(),
            Some(name) => {
                self.prepared.by_name.remove(name).ok_or_else(|| no_statement(name))?;
            }
        }
        Ok(())
    }
}

fn no_statement(name: &str) -> SqlError {
    SqlError::new(SqlState("26000"), format!("prepared statement \"{name}\" does not exist"))
}

/// The value of an expression that looks at no row.
fn constant(expr: &Expr, env: &Env) -> SqlResult<Datum> {
    Ok(match expr {
        Expr::Constant(value) => value.clone(),
        Expr::Cast { eval, to, argument } => match constant(argument, env)? {
            Datum::Null => Datum::Null,
            value => eval(&value, *to, env)?,
        },
        Expr::Call { eval, strict, operator: _, function: _, arguments } => {
            let values = arguments.iter().map(|one| constant(one, env)).collect::<SqlResult<Vec<_>>>()?;
            if *strict && values.iter().any(Datum::is_null) { Datum::Null } else { eval.call(&values, env)? }
        }
        _ => return Err(SqlError::unsupported("an argument of EXECUTE that is more than a constant")),
    })
}

/// The parts of an `EXECUTE` that PostgreSQL knows.
pub(super) fn parts_of(statement: &ast::Statement) -> SqlResult<Option<(String, &[ast::Expr])>> {
    let ast::Statement::Execute {
        name,
        parameters,
        has_parentheses: _,
        immediate: false,
        into,
        using,
        output: false,
        default: false,
    } = statement
    else {
        return Ok(None);
    };
    let name = match name.as_ref().map(|name| &name.0[..]) {
        Some([ast::ObjectNamePart::Identifier(name)]) if into.is_empty() && using.is_empty() => folded(name),
        _ => return Err(SqlError::unsupported("this EXECUTE")),
    };
    Ok(Some((name, parameters)))
}
