//! From a text to statements that can be run.

use super::action::Action;
use super::explain::Explain;
use super::explain_options::ExplainOptions;
use super::parts::{ParsedStatement, StatementText, parts};
use super::{BoundStatement, Session, Statement, TransactionBlock, wire};
use statement::bulk::{DeferredDrops, LargeValue};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use statement::stack;
use std::sync::Arc;
use std::time::Instant;
use syntax::ast::{self, ExplainCommand, TransactionCommand};
use syntax::grammar::{Parsed, parse};
use syntax::tree::Tree;
use types::SqlType;
use types::ops::context::clock_us;

impl Session {
    /// All statements of a text, for the simple protocol.
    ///
    /// # Errors
    /// When any is not in the grammar: none of them is run then.
    pub fn split(&mut self, text: &str) -> SqlResult<Vec<StatementText>> {
        self.message.end();
        self.message.begin();
        let (planning, deadline) = (Arc::clone(&self.planning), self.begin_timer());
        let split = || pulse::with_room(text.len().saturating_mul(wire::COPIES), || stack::bounded(|| parts(text)));
        let split = statement::planning::during(&planning, deadline, split);
        self.leavings.add(DeferredDrops::take());
        let (parts, _) = split?;
        self.has_several = 1 < parts.len();
        Ok(parts)
    }

    /// Looks, between two statements of a text that was split, whether the rest is still wanted.
    ///
    /// # Errors
    /// `57014`: somebody has cancelled it.
    pub fn goes_on(&self) -> SqlResult<()> {
        self.message.check()
    }

    /// Analyses one statement. `types` are the parameters' type numbers as far as the client says; 0: it does not.
    ///
    /// # Errors
    /// Grammar, names, types.
    pub fn prepare(&mut self, text: &str, types: &[u32]) -> SqlResult<Arc<Statement>> {
        self.prepare_parsed(text, None, types)
    }

    /// Analyses a statement of a text that was split, as [`Session::prepare_once`] does.
    ///
    /// # Errors
    /// Names, types.
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
        let (planning, deadline) = (Arc::clone(&self.planning), self.begin_timer());
        let room = text.len().saturating_mul(wire::COPIES);
        let mut notices = Vec::new();
        let is_deep = parsed.as_ref().is_some_and(|parsed| parsed.tree.is_deep());
        let analyse = || self.analyse_text(text, parsed.take(), types, &mut notices);
        let prepare = || pulse::with_room(room, || stack::fitting(is_deep, || stack::bounded(analyse)));
        let prepared = statement::planning::during(&planning, deadline, prepare);
        self.notices.extend(notices.into_iter().map(|notice| ("NOTICE", notice)));
        self.leavings.add(DeferredDrops::take());
        let (statement, is_deep) = prepared?;
        self.is_deep |= is_deep;
        Ok(statement)
    }

    /// Analyses a text, of which `parsed` is the tree if it is there.
    fn analyse_text(
        &mut self,
        text: &str,
        parsed: Option<ParsedStatement>,
        types: &[u32],
        notices: &mut Vec<SqlError>,
    ) -> SqlResult<Arc<Statement>> {
        let begun = Instant::now();
        self.unbound = None;
        self.take_reloaded();
        let parsed = match parsed {
            Some(parsed) => Some(parsed),
            None => match parse_one(text) {
                // Whatever it is, the transaction has failed.
                Err(error) if self.has_failed && error.state() == SqlState::FEATURE_NOT_SUPPORTED => {
                    return Err(engine::Error::InFailedTransaction.into());
                }
                parsed => parsed?,
            },
        };
        let class = self.class_of_text(text)?;
        let Some(ParsedStatement { tree, notices: of_names }) = parsed else {
            return Ok(Arc::new(Statement::of("", BoundStatement::fixed(Action::Empty))));
        };
        let tree = tree.into_statement();
        // They replace those of a call on a smaller stack.
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
            0 => Ok(None),
            oid => SqlType::from_oid(*oid).map(Some).ok_or_else(|| {
                let message = format!("type with OID {oid} does not exist");
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            }),
        };
        let given = types.iter().map(given).collect::<SqlResult<_>>()?;
        if self.block == TransactionBlock::None && !std::mem::replace(&mut self.is_timed, true) {
            self.settings.forms.now_us = clock_us();
        }
        self.refresh_env();
        let tree = LargeValue::new(Tree::new(tree));
        let (bound, parameters, columns) = self.analyse_statement(text, &tree, given)?;
        let tree = tree.into_inner();
        let statement = Statement { tree, parameters, columns, class, ..Statement::of(text, bound) };
        Ok(Arc::new(match explain {
            Some(options) => Explain::new(options, statement, begun.elapsed()).into_statement(text),
            None => statement,
        }))
    }
}

/// Parses a text that is one statement, or none.
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

/// Returns true for a statement that a transaction which has failed may do: it ends it, or goes back.
fn may_end_failed(tree: &ast::Statement) -> bool {
    matches!(
        tree,
        ast::Statement::Transaction(
            TransactionCommand::Commit { .. } | TransactionCommand::Rollback { .. } | TransactionCommand::RollbackTo(_)
        )
    )
}

/// # Errors
/// `0A000`: a statement that has no plan.
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
