//! A session: what one client has open.
//!
//! **Invariant:** nothing here blocks. A statement that must wait has had no effect; it is given again when its ticket is
//! ready.

use crate::datum::Datum;
use crate::error::{SqlError, SqlResult};
use crate::types::SqlType;
use engine::{Engine, Ticket};
use std::sync::Arc;

/// What all sessions share.
#[derive(Clone)]
pub struct Database {
    engine: Engine,
}

/// Who connects, and with what wishes.
#[derive(Clone, Debug, Default)]
pub struct Connect {
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// Settings of the start-up packet, `application_name` among them, and those of its `options`.
    pub settings: Vec<(String, String)>,
    /// The number by which the client knows this session.
    pub backend_pid: u32,
}

/// What `ReadyForQuery` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// None is open.
    Idle,
    /// One is open.
    Open,
    /// One is open, and a statement of it has failed.
    Failed,
}

/// One column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: SqlType,
    /// The number of its table, 0 if it is no table's column.
    pub table: u32,
    /// Its number in its table, from 1; 0 likewise.
    pub number: i16,
}

/// A statement, analysed. It can be bound again and again, by this session only.
#[derive(Debug)]
pub struct Statement {
    parameters: Vec<SqlType>,
    columns: Option<Vec<ColumnInfo>>,
}

impl Statement {
    /// Types of its parameters.
    pub fn parameters(&self) -> &[SqlType] {
        &self.parameters
    }

    /// Columns of its rows, if it returns rows.
    pub fn columns(&self) -> Option<&[ColumnInfo]> {
        self.columns.as_deref()
    }
}

/// A statement with its parameters, about to be run or run.
#[derive(Debug)]
pub struct Portal {
    statement: Arc<Statement>,
}

/// What a statement came to.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// The text was empty.
    Empty,
    /// Rows, and the tag to be completed by how many were sent (`SELECT`), or whole (`INSERT 0 3`).
    Rows(Vec<Box<[Datum]>>, Tag),
    /// No rows.
    Done(Tag),
}

/// A command tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// `SELECT`, `INSERT 0`, `CREATE TABLE`.
    pub words: &'static str,
    /// How many rows, for those that say so.
    pub rows: Option<u64>,
}

/// As [`engine::Step`].
#[derive(Debug)]
pub enum Step {
    /// It is done.
    Done(Outcome),
    /// It waits; run the portal again when the ticket is ready.
    Parked(Ticket),
}

/// One client's session.
pub struct Session {
    database: Database,
}

impl Database {
    /// Over this engine.
    pub fn new(engine: Engine) -> Database {
        Database { engine }
    }

    /// Opens a session.
    ///
    /// # Errors
    /// Unknown role or database, a setting that does not exist or does not take the value.
    pub fn connect(&self, connect: Connect) -> SqlResult<Session> {
        let _ = (connect, &self.engine);
        Ok(Session { database: self.clone() })
    }
}

impl Session {
    /// All statements of a text, for the simple protocol.
    ///
    /// # Errors
    /// When any is not in the grammar: none of them is run then.
    pub fn split(&mut self, text: &str) -> SqlResult<Vec<String>> {
        let _ = (text, &self.database);
        Err(SqlError::unsupported("SQL"))
    }

    /// Analyses one statement. `types` are the parameters' type numbers as far as the client says; 0: it does not.
    ///
    /// # Errors
    /// Grammar, names, types.
    pub fn prepare(&mut self, text: &str, types: &[u32]) -> SqlResult<Arc<Statement>> {
        let _ = (text, types);
        Err(SqlError::unsupported("SQL"))
    }

    /// Binds it to values of its parameters' types.
    ///
    /// # Errors
    /// Not as many values as parameters.
    pub fn bind(&mut self, statement: &Arc<Statement>, values: Vec<Datum>) -> SqlResult<Portal> {
        let _ = values;
        Ok(Portal { statement: Arc::clone(statement) })
    }

    /// Runs it to its end. Outside a transaction block it becomes part of the implicit transaction, which
    /// [`Session::sync`] ends.
    ///
    /// # Errors
    /// Whatever the statement meets; the transaction has failed then.
    pub fn execute(&mut self, portal: &mut Portal) -> SqlResult<Step> {
        let _ = &portal.statement;
        Err(SqlError::unsupported("SQL"))
    }

    /// The end of a simple query, or `Sync`: commits or rolls back the implicit transaction, if there is one.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn sync(&mut self) -> SqlResult<()> {
        Ok(())
    }

    /// To be told when a message failed before it got here (a protocol error, bad parameters): the transaction has failed.
    pub fn fail(&mut self) {}

    /// Whether a transaction is open.
    pub fn status(&self) -> TransactionStatus {
        TransactionStatus::Idle
    }

    /// Settings to be reported to the client, all at first and then those that have changed since.
    pub fn take_reports(&mut self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Notices since the last call: errors in form, `NOTICE` or `WARNING` in severity.
    pub fn take_notices(&mut self) -> Vec<(&'static str, SqlError)> {
        Vec::new()
    }

    /// Cancels from another thread what this session is doing.
    pub fn canceller(&self) -> Canceller {
        Canceller {}
    }
}

/// See [`Session::canceller`].
#[derive(Clone)]
pub struct Canceller {}

impl Canceller {
    /// Makes the statement under way, if any, end with `57014`.
    pub fn cancel(&self) {}
}
