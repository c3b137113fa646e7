//! Parse and analysis of statements.

use super::action::Action;
use super::explain::Explain;
use super::parts::{ParsedStatement, StatementText, parts};
use super::{BoundStatement, Session, Statement, TransactionBlock, wire};
use crate::explain::ExplainOptions;
use stage::Stage;
use statement::bulk::{DeferredDrops, LargeValue};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use statement::stack;
use std::sync::Arc;
use syntax::ast::{self, ExplainCommand, TransactionCommand};
use syntax::grammar::{Parsed, parse};
use syntax::tree::Tree;
use types::{Kind, SqlType};

impl Session {
    /// Splits a text into statements, for the simple protocol.
    ///
    /// # Errors
    /// A syntax error in any of them; then none is run.
    pub fn split(&mut self, text: &str) -> SqlResult<Vec<StatementText>> {
        self.message.end();
        self.message.begin();
        let before = self.clock.enter(Stage::Parse);
        let (planning, deadline) = (Arc::clone(&self.planning), self.begin_timer());
        let split = || pulse::with_room(text.len().saturating_mul(wire::COPIES), || stack::bounded(|| parts(text)));
        let split = statement::planning::during(&planning, deadline, split);
        self.leavings.add(DeferredDrops::take());
        self.clock.restore(before);
        let (parts, _) = split?;
        self.has_several = 1 < parts.len();
        Ok(parts)
    }

    /// Checks for a cancel between two statements of a text.
    ///
    /// # Errors
    /// `57014` if the query was canceled.
    pub fn goes_on(&self) -> SqlResult<()> {
        self.message.check()
    }

    /// Analyses one statement. `types` are the OIDs of the parameters' types, as far as the client specifies them; 0
    /// leaves one unspecified.
    ///
    /// # Errors
    /// Errors of syntax, names and types.
    pub fn prepare(&mut self, text: &str, types: &[u32]) -> SqlResult<Arc<Statement>> {
        self.prepare_parsed(text, None, types)
    }

    /// Analyses one statement of a split text, as [`Session::prepare_once`] does.
    ///
    /// # Errors
    /// Errors of names and types.
    pub fn prepare_part(&mut self, part: &mut StatementText) -> SqlResult<Arc<Statement>> {
        let statement = self.prepare_parsed(&part.text, part.parsed.take(), &[])?;
        statement.unfix_columns();
        Ok(statement)
    }

    fn prepare_parsed(
        &mut self,
        text: &str,
        mut parsed: Option<ParsedStatement>,
        types: &[u32],
    ) -> SqlResult<Arc<Statement>> {
        let before = self.clock.enter(if parsed.is_some() { Stage::Plan } else { Stage::Parse });
        let (planning, deadline) = (Arc::clone(&self.planning), self.begin_timer());
        let room = text.len().saturating_mul(wire::COPIES);
        let mut notices = Vec::new();
        let is_deep = parsed.as_ref().is_some_and(|parsed| parsed.tree.is_deep());
        let analyse = || self.analyse_text(text, parsed.take(), types, &mut notices);
        let prepare = || pulse::with_room(room, || stack::fitting(is_deep, || stack::bounded(analyse)));
        let prepared = statement::planning::during(&planning, deadline, prepare);
        self.notices.extend(notices.into_iter().map(|notice| ("NOTICE", notice)));
        self.leavings.add(DeferredDrops::take());
        self.clock.restore(before);
        let (statement, is_deep) = prepared?;
        self.is_deep |= is_deep;
        Ok(statement)
    }

    /// Analyses a text. `parsed` is its tree, if it was parsed before.
    fn analyse_text(
        &mut self,
        text: &str,
        parsed: Option<ParsedStatement>,
        types: &[u32],
        notices: &mut Vec<SqlError>,
    ) -> SqlResult<Arc<Statement>> {
        let begun = self.time.now();
        self.unbound = None;
        self.take_reloaded();
        let parsed = match parsed {
            Some(parsed) => Some(parsed),
            None => match parse_one(text) {
                // The failed transaction is reported first, whatever the statement is.
                Err(error) if self.has_failed && error.state() == SqlState::FEATURE_NOT_SUPPORTED => {
                    return Err(engine::Error::InFailedTransaction.into());
                }
                parsed => parsed?,
            },
        };
        self.clock.enter(Stage::Plan);
        let class = self.class_of_text(text)?;
        let Some(ParsedStatement { tree, notices: of_names }) = parsed else {
            return Ok(Arc::new(Statement::of("", BoundStatement::fixed(Action::Empty))));
        };
        let tree = tree.into_statement();
        // If the call was repeated on a larger stack, these replace the notices of the first try.
        *notices = of_names;
        if self.has_failed && !may_end_failed(&tree) {
            return Err(engine::Error::InFailedTransaction.into());
        }
        let (explain, tree) = match tree {
            ast::Statement::Explain(explain) => {
                let ExplainCommand { options, statement } = *explain;
                let options = ExplainOptions::of(&options, text)?;
                check_explained(&statement)?;
                (Some(options), statement)
            }
            tree => (None, tree),
        };
        let given = |oid: &u32| match oid {
            // As in PostgreSQL, a type `unknown` is one to be found out.
            0 => Ok(None),
            oid if *oid == Kind::Unknown.oid() => Ok(None),
            oid => SqlType::from_oid(*oid).map(Some).ok_or_else(|| {
                let message = format!("type with OID {oid} does not exist");
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            }),
        };
        let given = types.iter().map(given).collect::<SqlResult<_>>()?;
        if self.block == TransactionBlock::None && !std::mem::replace(&mut self.is_timed, true) {
            self.settings.forms.now_us = self.time.unix_us();
        }
        self.refresh_env();
        let tree = LargeValue::new(Tree::new(tree));
        let (bound, parameters, columns) = self.analyse_statement(text, &tree, given)?;
        let tree = tree.into_inner();
        let statement = Statement { tree, parameters, columns, class, ..Statement::of(text, bound) };
        Ok(Arc::new(match explain {
            Some(options) => Explain::new(options, statement, self.time.since(begun)).into_statement(text),
            None => statement,
        }))
    }
}

/// Parses a text of at most one statement.
fn parse_one(text: &str) -> SqlResult<Option<ParsedStatement>> {
    let mut all = parse(text)?;
    if 1 < all.len() {
        let message = "cannot insert multiple commands into a prepared statement";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    let part =
        |Parsed { statement, span: _, extent: _, notices }| ParsedStatement { tree: Tree::new(statement), notices };
    Ok(all.pop().map(part))
}

/// Returns true for a statement that a failed transaction allows, because it ends the transaction or rolls back to a
/// savepoint.
fn may_end_failed(tree: &ast::Statement) -> bool {
    matches!(
        tree,
        ast::Statement::Transaction(
            TransactionCommand::Commit { .. } | TransactionCommand::Rollback { .. } | TransactionCommand::RollbackTo(_)
        )
    )
}

/// # Errors
/// `0A000` for a statement that has no plan.
fn check_explained(tree: &ast::Statement) -> SqlResult<()> {
    match tree {
        ast::Statement::Query(_)
        | ast::Statement::Insert(_)
        | ast::Statement::Update(_)
        | ast::Statement::Delete(_)
        | ast::Statement::Execute(_)
        | ast::Statement::CreateTableAs(_) => Ok(()),
        ast::Statement::Declare(_) => Err(SqlError::unsupported("EXPLAIN DECLARE")),
        ast::Statement::Unsupported(foreign) => Err(SqlError::unsupported(&foreign.feature)),
        _ => Err(SqlError::unsupported("EXPLAIN of this statement")),
    }
}
