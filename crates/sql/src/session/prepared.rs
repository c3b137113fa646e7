//! `PREPARE`, `EXECUTE`, `DEALLOCATE`.
//!
//! **Invariant:** prepared statements are not transactional: `ROLLBACK` does not remove them, as in PostgreSQL.

use super::action::Action;
use super::cursors::{Declare, Fetch};
use super::define::AnalysedStatement;
use super::{BoundStatement, Session, Statement, Step};
use crate::context::{Env, SESSION_USER};
use query::bind::Binder;
use query::plan::ColumnInfo;
use query::plan::Expr;
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use syntax::ast::{self, DeclareCommand, DiscardTarget, ExecuteCommand, PrepareCommand};
use syntax::tree::Tree;
use types::SqlType;
use types::datum::Datum;
use types::ops::CastContext;

/// Bound `EXECUTE`.
#[derive(Debug)]
pub(crate) struct Execute {
    statement: Arc<Statement>,
    arguments: Vec<Expr>,
}

impl Execute {
    /// Returns the columns of its result, if there is one.
    pub(super) fn columns(&self) -> Option<Vec<ColumnInfo>> {
        self.statement.columns.clone()
    }

    /// Returns the statement that it runs.
    pub(super) fn statement(&self) -> &Arc<Statement> {
        &self.statement
    }
}

impl Session {
    /// Returns the binding of a statement, its parameters and its columns.
    pub(super) fn analyse_statement(
        &mut self,
        text: &str,
        tree: &ast::Statement,
        given: Vec<Option<SqlType>>,
    ) -> SqlResult<AnalysedStatement> {
        match tree {
            ast::Statement::Execute(command) => {
                let execute = self.bind_execute(text, command)?;
                let columns = execute.columns();
                Ok((BoundStatement::fixed(Action::Execute(execute)), Vec::new(), columns))
            }
            ast::Statement::Declare(command) => self.analyse_declare(text, command, given),
            ast::Statement::Fetch(command) => {
                let fetch = Fetch::new(command);
                let columns = self.fetch_columns(&fetch);
                Ok((BoundStatement::fixed(Action::Fetch(fetch)), Vec::new(), columns))
            }
            ast::Statement::Lock(_) => {
                let bound = self.bind_now(text, tree, given);
                if bound.is_err() {
                    // This error has precedence.
                    self.need_block("LOCK TABLE")?;
                }
                bound
            }
            _ => self.bind_now(text, tree, given),
        }
    }

    fn analyse_declare(
        &mut self,
        text: &str,
        command: &DeclareCommand,
        given: Vec<Option<SqlType>>,
    ) -> SqlResult<AnalysedStatement> {
        let query = ast::Statement::Query(Box::new(command.query.clone()));
        let (bound, parameters, columns) = self.bind_now(text, &query, given)?;
        let (tree, own) = (Some(Tree::new(query)), parameters.clone());
        let statement =
            Statement { tree, parameters: own, columns, has_fixed_columns: false.into(), ..Statement::of(text, bound) };
        let declare = Declare::new(command, statement)?;
        Ok((BoundStatement::fixed(Action::Declare(Box::new(declare))), parameters, None))
    }

    /// Runs a `PREPARE`.
    pub(super) fn prepare_named(&mut self, text: &str, command: &PrepareCommand) -> SqlResult<()> {
        let PrepareCommand { name, types, statement: tree } = command;
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
            let binder = Binder::new(&state, &path, text, &*self.env, Vec::new());
            types.iter().map(|of| binder.type_of(of).map(Some)).collect::<SqlResult<_>>()?
        };
        let (bound, parameters, columns) = self.bind_now(text, tree, given)?;
        let statement =
            Statement { tree: Some(Tree::new(tree.clone())), parameters, columns, ..Statement::of(text, bound) };
        self.put_statement(name, &Arc::new(statement), true)?;
        self.note_statement(name);
        Ok(())
    }

    /// Binds an `EXECUTE`.
    pub(super) fn bind_execute(&mut self, text: &str, command: &ExecuteCommand) -> SqlResult<Execute> {
        let ExecuteCommand { name, values: arguments } = command;
        let statement = self.statement_named(name).ok_or_else(|| no_statement(name))?;
        // EXECUTE of an EXECUTE could lead to an endless chain, as names change their meaning.
        if matches!(
            *statement.bound().action,
            Action::Execute(_) | Action::Explain(_) | Action::Declare(_) | Action::Fetch(_)
        ) {
            return Err(SqlError::unsupported("EXECUTE of EXECUTE, EXPLAIN, DECLARE or FETCH"));
        }
        let (given, wanted) = (arguments.len(), statement.parameters.len());
        if given != wanted {
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message)
                .detail(format!("Expected {wanted} parameters but got {given}.")));
        }
        let (state, path) = (self.state(), self.search_path()?);
        let binder = Binder::new(&state, &path, text, &*self.env, Vec::new());
        let mut bound = Vec::with_capacity(given);
        for (at, (argument, kind)) in arguments.iter().zip(&statement.parameters).enumerate() {
            let scope = query::bind::NameScope::default();
            scope.clause.set(query::bind::Clause::Execute);
            let argument = binder.expr(argument, &scope)?;
            let (of, place) = (argument.kind, argument.place);
            let argument = binder.coerce(argument, *kind, CastContext::Assignment).map_err(|error| {
                if error.state() != SqlState::CANNOT_COERCE {
                    return error;
                }
                let message = format!(
                    "parameter ${} of type {} cannot be coerced to the expected type {}",
                    at + 1,
                    of.name(),
                    kind.name()
                );
                let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message);
                binder.at_place(error.hint("You will need to rewrite or cast the expression."), place)
            })?;
            bound.push(argument.expr);
        }
        binder.without_parameters()?;
        Ok(Execute { statement, arguments: bound })
    }

    /// Runs an `EXECUTE`.
    pub(super) fn execute_named(&mut self, execute: &Execute) -> SqlResult<Step> {
        let values = match self.waiting.take() {
            Some(values) if self.is_parked => values,
            _ => self.values_of(execute)?,
        };
        let step = self.act_current(&execute.statement, &values)?;
        match &step {
            Step::Parked(_) => self.waiting = Some(values),
            Step::Done(_) | Step::CopyIn(_) | Step::CopyOut(_) => {
                execute.statement.runs.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(step)
    }

    /// Returns the values of its parameters.
    pub(super) fn values_of(&self, execute: &Execute) -> SqlResult<Vec<Datum>> {
        execute.arguments.iter().map(|one| constant(one, &self.env)).collect()
    }

    /// `DEALLOCATE`; without a name, of all statements.
    pub(super) fn deallocate(&mut self, name: Option<&str>) -> SqlResult<()> {
        let mut names = self.names.get();
        let gone: Vec<String> = match name {
            None => std::mem::take(&mut names.statements).into_keys().collect(),
            Some(name) => {
                names.statements.remove(name).ok_or_else(|| no_statement(name))?;
                vec![name.to_owned()]
            }
        };
        drop(names);
        gone.iter().for_each(|name| self.note_statement(name));
        Ok(())
    }

    /// Runs a `DISCARD`. Returns its tag.
    pub(super) fn discard(&mut self, what: DiscardTarget) -> SqlResult<&'static str> {
        self.open_implicit_for_discard(what)?;
        Ok(match what {
            DiscardTarget::All => {
                self.close_cursor(None)?;
                self.settings.reset_all();
                // A setting that stays is not reported to the client.
                if self.settings.show(SESSION_USER)? != self.user {
                    self.set_setting(SESSION_USER, None, false)?;
                }
                self.numbers.forget();
                self.advised.unlock_all();
                self.deallocate(None)?;
                self.env.code.forget_routines();
                "DISCARD ALL"
            }
            // A plan belongs to its statement, and is renewed when its tables change.
            DiscardTarget::Plans => "DISCARD PLANS",
            DiscardTarget::Sequences => {
                self.numbers.forget();
                "DISCARD SEQUENCES"
            }
            DiscardTarget::Temporary => "DISCARD TEMP",
        })
    }

    fn open_implicit_for_discard(&mut self, what: DiscardTarget) -> SqlResult<()> {
        if what == DiscardTarget::All && self.is_in_block() {
            let message = "DISCARD ALL cannot run inside a transaction block";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        self.open_implicit();
        Ok(())
    }
}

fn no_statement(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, format!("prepared statement \"{name}\" does not exist"))
}

/// Returns the value of an expression without columns.
fn constant(expr: &Expr, env: &Env) -> SqlResult<Datum> {
    Ok(match expr {
        Expr::Constant(value) => value.clone(),
        Expr::Cast { eval, to, argument } => match constant(argument, env)? {
            Datum::Null => Datum::Null,
            value => eval(&value, *to, env)?,
        },
        Expr::Call { callee, arguments } => {
            let values = arguments.iter().map(|one| constant(one, env)).collect::<SqlResult<Vec<_>>>()?;
            callee.call(&values, env)?
        }
        _ => return Err(SqlError::unsupported("an argument of EXECUTE that is more than a constant")),
    })
}
