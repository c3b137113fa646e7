//! Prepared statements and portals of a session, by name: those of the protocol and of `PREPARE` share one namespace,
//! those of the protocol and of `DECLARE` another.
//!
//! **Invariant:** a caller that caches names learns which of them have changed their meaning since it last asked.

use super::cursor_rows::CursorRows;
use super::{Portal, Session, Statement};
use crate::context::{ListedPortal, ListedStatement, SessionObjects};
use crate::session::action::Action;
use locked::Locked;
use query::rows::bytes_of;
use statement::error::{SqlError, SqlResult, SqlState};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use types::datum::Datum;

/// Names that the session shares with the environment of its statements, where system views read them.
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
    /// True if `PREPARE` created the statement, not the protocol.
    pub(crate) is_from_sql: bool,
}

/// A portal that has a name.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// Text that the view shows.
    pub(crate) text: String,
    pub(super) statement: Arc<Statement>,
    pub(super) values: Vec<Datum>,
    pub(super) rows: CursorRows,
    /// Current row, from 1; 0 before the first row, one more than the number of rows behind the last.
    pub(super) at: usize,
    pub(crate) is_scrollable: bool,
    pub(crate) is_held: bool,
    pub(crate) is_binary: bool,
    pub(crate) since_us: i64,
    /// True while the transaction that opened the portal is open.
    pub(super) is_new: bool,
    /// Number of savepoints when the portal was opened.
    pub(super) level: usize,
    /// Memory of its rows, in bytes.
    pub(super) bytes: usize,
}

impl SessionNames {
    /// Returns the names for the environment of statements.
    pub(super) fn listed(&self) -> Arc<dyn SessionObjects> {
        Arc::<Mutex<NamedObjects>>::clone(&self.0)
    }

    /// Locks the names, for a short time.
    pub(crate) fn get(&self) -> MutexGuard<'_, NamedObjects> {
        self.0.locked_anyway()
    }
}

impl SessionObjects for Mutex<NamedObjects> {
    fn portals(&self) -> Vec<ListedPortal> {
        let names = self.locked_anyway();
        let named = names.portals.iter().filter(|(name, _)| !name.is_empty());
        let listed = named.map(|(name, cursor)| ListedPortal {
            name: name.clone(),
            text: cursor.text.clone(),
            is_held: cursor.is_held,
            is_binary: cursor.is_binary,
            is_scrollable: cursor.is_scrollable,
            since_us: cursor.since_us,
        });
        listed.collect()
    }

    fn statements(&self) -> Vec<ListedStatement> {
        let names = self.locked_anyway();
        let listed = names.statements.iter().map(|(name, named)| ListedStatement {
            name: name.clone(),
            text: named.statement.text().to_owned(),
            since_us: named.since_us,
            parameters: named.statement.parameters().to_vec(),
            is_from_sql: named.is_from_sql,
            runs: named.statement.runs(),
        });
        listed.collect()
    }
}

/// Names whose meaning has changed.
#[derive(Debug, Default)]
pub struct ChangedNames {
    /// Prepared statements.
    pub statements: Vec<String>,
    /// Portals.
    pub portals: Vec<String>,
}

/// Returns the bytes of a row that is kept.
pub(super) fn bytes_of_row(row: &[Datum]) -> usize {
    bytes_of(row) + size_of::<Box<[Datum]>>()
}

/// Returns the bytes of rows that are kept.
pub fn bytes_of_rows(rows: &[Box<[Datum]>]) -> usize {
    rows.iter().map(|row| bytes_of_row(row)).sum()
}

impl Session {
    /// Names a prepared statement; `EXECUTE` finds it, too.
    ///
    /// # Errors
    /// `42P05` if the name is in use.
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
        let named = NamedStatement { statement: Arc::clone(statement), since_us: self.time.unix_us(), is_from_sql };
        statements.insert(name.to_owned(), named);
        Ok(())
    }

    /// Returns the prepared statement of this name.
    pub fn statement_named(&self, name: &str) -> Option<Arc<Statement>> {
        self.names.get().statements.get(name).map(|named| Arc::clone(&named.statement))
    }

    /// Removes a prepared statement.
    pub fn forget_statement(&mut self, name: &str) {
        self.names.get().statements.remove(name);
    }

    /// Names a portal; `FETCH`, `MOVE` and `CLOSE` find it, too. Returns the portal to run in its place. For a query,
    /// [`Session::advance`] sets the number of rows.
    ///
    /// # Errors
    /// `42P03` if the name is in use.
    pub fn name_portal(&mut self, name: &str, portal: Portal) -> SqlResult<Portal> {
        let Portal { statement, values, rows_first: _ } = &portal;
        let is_query = statement.traits.is_query;
        let values = if is_query { values.clone() } else { Vec::new() };
        let cursor = Cursor { values, ..self.new_portal(statement) };
        let run = is_query.then(|| portal_of(name, statement));
        self.put_portal(name, cursor)?;
        Ok(run.unwrap_or(portal))
    }

    /// Returns a portal of a statement that has not run.
    pub(super) fn new_portal(&self, statement: &Arc<Statement>) -> Cursor {
        Cursor {
            text: statement.text.clone(),
            statement: Arc::clone(statement),
            values: Vec::new(),
            rows: CursorRows::None,
            at: 0,
            is_scrollable: false,
            is_held: false,
            is_binary: false,
            since_us: self.time.unix_us(),
            is_new: true,
            level: self.savepoints.len(),
            bytes: 0,
        }
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

    /// Returns the portal of this name, as [`Session::name_portal`] does; the statement of its rows; and true if the
    /// client asked for them in binary.
    pub fn portal_named(&self, name: &str) -> Option<(Portal, Arc<Statement>, bool)> {
        let names = self.names.get();
        let cursor = names.portals.get(name)?;
        Some((portal_of(name, &cursor.statement), Arc::clone(&cursor.statement), cursor.is_binary))
    }

    /// Sets the number of rows that the next run of a named portal returns; `None` for all. Returns true for a query,
    /// which can be run again for further rows.
    pub fn advance(portal: &mut Portal, rows: Option<usize>) -> bool {
        let goes_on = portal.statement.traits.advances;
        if goes_on {
            portal.values = rows.map(|rows| Datum::Int8(i64::try_from(rows).unwrap_or(i64::MAX))).into_iter().collect();
        }
        goes_on
    }

    /// Sets the number of rows that the first run of the unnamed portal returns at least: all of them, unless they arrive
    /// while they are made. After the run, [`Session::has_suspended`] tells which.
    pub fn suspend_at(&mut self, portal: &mut Portal, rows: usize) {
        self.close_portal("");
        portal.rows_first = Some(rows);
    }

    /// Returns true if the unnamed portal can be run again for further rows, after [`Session::advance`].
    pub fn has_suspended(&self, portal: &mut Portal) -> bool {
        let is_there = portal.rows_first.is_some() && self.names.get().portals.contains_key("");
        if is_there {
            *portal = portal_of("", &portal.statement);
        }
        is_there
    }

    /// Closes a portal.
    pub fn close_portal(&mut self, name: &str) {
        self.names.get().portals.remove(name);
    }

    /// Returns the memory of all portals' rows, in bytes.
    pub fn kept_bytes(&self) -> usize {
        self.names.get().portals.values().map(|cursor| cursor.bytes).sum()
    }

    /// Returns the names that SQL has created or removed since the last call.
    pub fn take_renamed(&mut self) -> Option<Box<ChangedNames>> {
        self.renamed.take()
    }

    pub(super) fn note_statement(&mut self, name: &str) {
        self.renamed.get_or_insert_default().statements.push(name.to_owned());
    }

    /// Closes the portals for which the closure returns true.
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

    /// Ends the queries of cursors that a failed transaction can only close: they were opened since its last savepoint.
    pub(super) fn end_cursor_runs(&mut self) {
        let level = self.savepoints.len();
        for cursor in self.names.get().portals.values_mut() {
            if cursor.is_new && cursor.level == level && matches!(cursor.rows, CursorRows::Arriving(_)) {
                (cursor.rows, cursor.bytes) = (CursorRows::None, 0);
            }
        }
    }

    /// Ends the transaction: closes the portals that it opened, except, after a commit, those WITH HOLD.
    pub(super) fn end_portals(&mut self, committed: bool) {
        self.close_portals(|cursor| {
            let is_kept = cursor.is_held && (committed || !cursor.is_new);
            (cursor.is_new, cursor.level) = (false, 0);
            !is_kept
        });
    }
}

/// Returns the portal that fetches the next rows of the portal of this name.
fn portal_of(name: &str, statement: &Arc<Statement>) -> Portal {
    let bound = super::BoundStatement::fixed(Action::Advance(name.to_owned()));
    let (columns, class) = (statement.columns.clone(), statement.class);
    let statement = Statement { columns, class, ..Statement::of(&statement.text, bound) };
    Portal { statement: Arc::new(statement), values: Vec::new(), rows_first: None }
}
