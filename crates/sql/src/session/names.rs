//! What a session has by name: prepared statements, of the protocol and of `PREPARE`, and portals, of the protocol and of
//! `DECLARE`. Each kind has one namespace.
//!
//! **Invariant:** whoever keeps a copy is told which names stand for something else since it asked.

use super::cursor_rows::CursorRows;
use super::{Portal, Session, Statement};
use crate::session::action::Action;
use locked::Locked;
use query::rows::bytes_of;
use statement::error::{SqlError, SqlResult, SqlState};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use types::datum::Datum;
use types::ops::context::clock_us;

/// Shared by the session and by what its statements are run with, for the views of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionNames(Arc<Mutex<NamedObjects>>);

/// Prepared statements and portals of a session, by name.
#[derive(Debug, Default)]
pub(crate) struct NamedObjects {
    pub(crate) statements: BTreeMap<String, NamedStatement>,
    pub(crate) portals: BTreeMap<String, Cursor>,
}

/// A prepared statement.
#[derive(Debug)]
pub(crate) struct NamedStatement {
    pub(crate) statement: Arc<Statement>,
    pub(crate) since_us: i64,
    /// By `PREPARE`, not by the protocol.
    pub(crate) is_from_sql: bool,
}

/// A portal that has a name.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// What is shown of it.
    pub(crate) text: String,
    pub(super) statement: Arc<Statement>,
    pub(super) values: Vec<Datum>,
    pub(super) rows: CursorRows,
    /// The row on which it stands, from 1; 0: before the first; one more than there are: behind the last.
    pub(super) at: usize,
    pub(crate) is_scrollable: bool,
    pub(crate) is_held: bool,
    pub(crate) is_binary: bool,
    pub(crate) since_us: i64,
    /// The transaction that has opened it is open still.
    pub(super) is_new: bool,
    /// How many savepoints there were.
    pub(super) level: usize,
    /// What its rows take.
    pub(super) bytes: usize,
}

impl SessionNames {
    /// To look at, for a moment.
    pub(crate) fn get(&self) -> MutexGuard<'_, NamedObjects> {
        self.0.locked_anyway()
    }
}

/// Names that stand for something else than before.
#[derive(Debug, Default)]
pub struct ChangedNames {
    /// Of statements.
    pub statements: Vec<String>,
    /// Of portals.
    pub portals: Vec<String>,
}

/// Bytes of a row that is kept.
pub(super) fn bytes_of_row(row: &[Datum]) -> usize {
    bytes_of(row) + size_of::<Box<[Datum]>>()
}

/// Bytes of rows that are kept.
pub fn bytes_of_rows(rows: &[Box<[Datum]>]) -> usize {
    rows.iter().map(|row| bytes_of_row(row)).sum()
}

impl Session {
    /// Gives a statement a name, which `EXECUTE` knows, too.
    ///
    /// # Errors
    /// `42P05`
    pub fn name_statement(&mut self, name: &str, statement: &Arc<Statement>) -> SqlResult<()> {
        self.put_statement(name, statement, false)
    }

    pub(super) fn put_statement(&mut self, name: &str, statement: &Arc<Statement>, is_from_sql: bool) -> SqlResult<()> {
        let mut names = self.names.get();
        let statements = &mut names.statements;
        if statements.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        let named = NamedStatement { statement: Arc::clone(statement), since_us: clock_us(), is_from_sql };
        statements.insert(name.to_owned(), named);
        Ok(())
    }

    /// The statement of this name.
    pub fn statement_named(&self, name: &str) -> Option<Arc<Statement>> {
        self.names.get().statements.get(name).map(|named| Arc::clone(&named.statement))
    }

    /// The name is free again.
    pub fn forget_statement(&mut self, name: &str) {
        self.names.get().statements.remove(name);
    }

    /// Gives a portal a name, which `FETCH`, `MOVE` and `CLOSE` know, too. Returns what is to be run in its place: of a query,
    /// [`Session::advance`] says how far.
    ///
    /// # Errors
    /// `42P03`
    pub fn name_portal(&mut self, name: &str, portal: Portal) -> SqlResult<Portal> {
        let Portal { statement, values } = &portal;
        let is_query = statement.traits.is_query;
        let cursor = Cursor {
            text: statement.text.clone(),
            statement: Arc::clone(statement),
            values: if is_query { values.clone() } else { Vec::new() },
            rows: CursorRows::None,
            at: 0,
            is_scrollable: false,
            is_held: false,
            is_binary: false,
            since_us: clock_us(),
            is_new: true,
            level: self.savepoints.len(),
            bytes: 0,
        };
        let run = is_query.then(|| portal_of(name, statement));
        self.put_portal(name, cursor)?;
        Ok(run.unwrap_or(portal))
    }

    pub(super) fn put_portal(&mut self, name: &str, cursor: Cursor) -> SqlResult<()> {
        let mut names = self.names.get();
        let portals = &mut names.portals;
        if portals.contains_key(name) {
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")));
        }
        portals.insert(name.to_owned(), cursor);
        Ok(())
    }

    /// The portal of this name, as [`Session::name_portal`] returns it, the statement whose rows it has, and whether they were
    /// asked for in binary.
    pub fn portal_named(&self, name: &str) -> Option<(Portal, Arc<Statement>, bool)> {
        let names = self.names.get();
        let cursor = names.portals.get(name)?;
        Some((portal_of(name, &cursor.statement), Arc::clone(&cursor.statement), cursor.is_binary))
    }

    /// How many rows a portal that was named gives when it is run next; nothing: all. Says whether it is one of a query, which
    /// can be run again for the next ones.
    pub fn advance(portal: &mut Portal, rows: Option<usize>) -> bool {
        let goes_on = portal.statement.traits.advances;
        if goes_on {
            portal.values = rows.map(|rows| Datum::Int8(i64::try_from(rows).unwrap_or(i64::MAX))).into_iter().collect();
        }
        goes_on
    }

    /// The name is free again.
    pub fn close_portal(&mut self, name: &str) {
        self.names.get().portals.remove(name);
    }

    /// What rows of portals take, in bytes.
    pub fn kept_bytes(&self) -> usize {
        self.names.get().portals.values().map(|cursor| cursor.bytes).sum()
    }

    /// Names that SQL has given or taken away since the last call.
    pub fn take_renamed(&mut self) -> Option<Box<ChangedNames>> {
        self.renamed.take()
    }

    pub(super) fn note_statement(&mut self, name: &str) {
        self.renamed.get_or_insert_default().statements.push(name.to_owned());
    }

    /// Closes those portals of which this is true.
    pub(super) fn close_portals(&mut self, mut is_closed: impl FnMut(&mut Cursor) -> bool) {
        let mut names = self.names.get();
        if names.portals.is_empty() {
            return;
        }
        let renamed = &mut self.renamed;
        names.portals.retain(|name, cursor| {
            let is_closed = is_closed(cursor);
            if is_closed {
                renamed.get_or_insert_default().portals.push(name.clone());
            }
            !is_closed
        });
    }

    /// The transaction ends: what it has opened is closed, unless it committed and its cursor is held.
    pub(super) fn end_portals(&mut self, committed: bool) {
        self.close_portals(|cursor| {
            let is_kept = cursor.is_held && (committed || !cursor.is_new);
            (cursor.is_new, cursor.level) = (false, 0);
            !is_kept
        });
    }
}

/// What goes on with the rows of the portal that has this name.
fn portal_of(name: &str, statement: &Arc<Statement>) -> Portal {
    let bound = super::BoundStatement::fixed(Action::Advance(name.to_owned()));
    let (columns, class) = (statement.columns.clone(), statement.class);
    let statement = Statement { columns, class, ..Statement::of(&statement.text, bound) };
    Portal { statement: Arc::new(statement), values: Vec::new() }
}
