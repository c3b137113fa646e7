//! Interface of a session, as far as the protocol needs it.
//!
//! **Invariant:** the protocol knows the session only through these traits, so that it can be tested with a scripted
//! session. Nothing here blocks; work that must wait returns [`Run::Parked`].

use bytes::BytesMut;
use settings::Connect;
use sql::session::{Destination, Outcome, Part, Renamed, ResultSink};
use stage::Class;
use statement::outcome::CopyShape;
use statement::outcome::{Tag, TransactionStatus};
use statement::{SqlError, SqlResult};
use std::sync::Arc;
use std::time::Duration;
use types::Datum;
use wire::Cancel;
use wire::Parked;
use wire::copy::CopyRows;
use wire::reply::Column;
use wire::reply::Format;

/// Factory of sessions, cloned for each connection.
pub trait Backends: Clone + Send + Sync + 'static {
    /// Session that a connection gets.
    type Backend: Backend;

    /// Opens a session.
    ///
    /// # Errors
    /// Unknown database, settings that do not exist or do not accept the value.
    fn connect(&self, connect: Connect) -> SqlResult<Self::Backend>;
}

/// Outcome of running a portal.
pub enum Run {
    /// The portal has run to its end.
    Done(Outcome),
    /// The portal waits. Run it again when the wait is over.
    Parked(Box<dyn Parked>),
    /// The portal is a COPY that needs data: [`Backend::copy_data`].
    CopyIn(CopyShape),
    /// The portal is a COPY that returns data: [`Backend::copy_next`].
    CopyOut(CopyShape),
}

/// Outcome of a preparation that has failed.
pub enum Unbound {
    /// The error stands.
    Stands,
    /// The statement is to be prepared again.
    Again,
    /// The preparation waits for an uncommitted definition. Ask again when the wait is over.
    Parked(Box<dyn Parked>),
}

/// Progress of a COPY.
pub enum CopyPart {
    /// More is to come.
    More,
    /// The COPY is complete, with this tag.
    Last(Tag),
    /// The COPY waits. Ask again when the wait is over.
    Parked(Box<dyn Parked>),
}

/// Session behind the protocol. The functions are those of [`sql::session::Session`].
pub trait Backend: Send + 'static {
    /// An analysed statement, cheap to clone.
    type Statement: Clone + Send + Sync + 'static;
    /// A statement with its parameters.
    type Portal: Send;

    /// Splits a text into its statements.
    ///
    /// # Errors
    /// A statement that is not in the grammar.
    fn split(&mut self, text: &str) -> SqlResult<Vec<Part>>;

    /// Takes the leavings of the session's statements, if there are any. Dropping them may take a while.
    fn take_leavings(&mut self) -> Option<Box<dyn Send>> {
        None
    }

    /// Returns an error, between two statements of such a text, if the rest is no longer wanted.
    fn goes_on(&self) -> SqlResult<()>;

    /// Analyses one statement. `types` are the type OIDs that the client gives, 0 where it gives none. The
    /// columns are not fixed yet: when the statement has run they are those of its rows, unless
    /// [`Backend::fix_columns`] was called before.
    ///
    /// # Errors
    /// Errors of grammar, names and types.
    fn prepare(&mut self, text: &str, types: &[u32]) -> SqlResult<Self::Statement>;

    /// Fixes the statement's columns, which the client knows now.
    fn fix_columns(&self, _statement: &Self::Statement) {}

    /// Returns true if the failed preparation may have failed because of an uncommitted definition.
    fn is_unbound(&self) -> bool {
        false
    }

    /// Waits for that definition.
    ///
    /// # Errors
    /// Those of the wait.
    fn await_definitions(&mut self) -> SqlResult<Unbound> {
        Ok(Unbound::Stands)
    }

    /// Returns the type OIDs of the statement's parameters.
    fn parameters(&self, statement: &Self::Statement) -> Vec<u32>;

    /// Returns the number of the statement's parameters.
    fn parameter_count(&self, statement: &Self::Statement) -> usize;

    /// Returns the columns of the statement's rows, if it returns rows.
    fn columns<'s>(&self, statement: &'s Self::Statement) -> Option<Vec<Column<'s>>>;

    /// Returns the number of columns of the statement's rows, if it returns rows.
    fn column_count(&self, statement: &Self::Statement) -> Option<usize>;

    /// Reads the value of one parameter.
    ///
    /// # Errors
    /// Bytes that are not a value of the parameter's type.
    fn read(&self, statement: &Self::Statement, parameter: usize, format: Format, bytes: &[u8]) -> SqlResult<Datum>;

    /// Binds a statement to values.
    ///
    /// # Errors
    /// Values that do not fit the statement.
    fn bind(&mut self, statement: &Self::Statement, values: Vec<Datum>) -> SqlResult<Self::Portal>;

    /// Gives a statement a name, which SQL knows, too. A session whose SQL knows no names does nothing, here and below.
    ///
    /// # Errors
    /// `42P05` if the name is taken.
    fn name_statement(&mut self, _name: &str, _statement: &Self::Statement) -> SqlResult<()> {
        Ok(())
    }

    /// Returns the statement that SQL has given this name, and its text.
    fn statement_named(&self, _name: &str) -> Option<(Self::Statement, String)> {
        None
    }

    /// Frees the name of a statement.
    fn forget_statement(&mut self, _name: &str) {}

    /// Gives a portal a name, which SQL knows, too. Returns the portal to be run in its place.
    ///
    /// # Errors
    /// `42P03` if the name is taken.
    fn name_portal(&mut self, _name: &str, portal: Self::Portal) -> SqlResult<Self::Portal> {
        Ok(portal)
    }

    /// Returns the portal that SQL has given this name, in the form that [`Backend::name_portal`] returns, with the
    /// statement that describes its rows, and their format.
    fn portal_named(&self, _name: &str) -> Option<(Self::Portal, Self::Statement, Format)> {
        None
    }

    /// Sets the number of rows that a named portal returns when it is run next; `None` stands for all that are left.
    /// Returns true if the portal can be run again for the next rows.
    fn advance(&mut self, _portal: &mut Self::Portal, _rows: Option<usize>) -> bool {
        false
    }

    /// Frees the name of a portal.
    fn close_portal(&mut self, _name: &str) {}

    /// Takes the names that SQL has given or taken away since the last call.
    fn take_renamed(&mut self) -> Option<Box<Renamed>> {
        None
    }

    /// Returns the bytes of the rows that the session keeps for named portals.
    fn kept_bytes(&self) -> usize {
        0
    }

    /// Returns the format in which a simple query shows the rows of this statement.
    fn simple_format(&self, _statement: &Self::Statement) -> Format {
        Format::Text
    }

    /// Returns true if [`Backend::stay_for`] can park the portal, or need not because it ends soon.
    fn can_move(&self, _portal: &Self::Portal) -> bool {
        true
    }

    /// Limits the time after which a portal executed from now on is parked as [`Parked::is_elsewhere`], since its
    /// thread has other sessions to serve. `None` sets no limit.
    fn stay_for(&mut self, _limit: Option<Duration>) {}

    /// Says where the rows of the portal that is executed next may go.
    fn stream_to(&mut self, _destination: Destination) {}

    /// Returns the sink of the portal that was executed last, if it has one.
    fn sink(&self) -> Option<Arc<ResultSink>> {
        None
    }

    /// Runs a portal to its end.
    ///
    /// # Errors
    /// Any error of the statement.
    fn execute(&mut self, portal: &mut Self::Portal) -> SqlResult<Run>;

    /// Takes a piece of the data of a COPY. Pieces may end anywhere. An empty piece means that the client sends no more
    /// for now. A call that returns a wait has kept its piece; call again with an empty one when the wait is over.
    ///
    /// # Errors
    /// Data that do not fit the table, and errors of inserting them.
    fn copy_data(&mut self, portal: &mut Self::Portal, data: &[u8]) -> SqlResult<Option<Box<dyn Parked>>>;

    /// Ends the data of a COPY, all of which has come.
    ///
    /// # Errors
    /// Those of [`Backend::copy_data`].
    fn copy_done(&mut self, portal: &mut Self::Portal) -> SqlResult<CopyPart>;

    /// Appends the next rows of a COPY, about a buffer's worth.
    ///
    /// # Errors
    /// Any error of reading them.
    fn copy_next(&mut self, portal: &mut Self::Portal, rows: &mut CopyRows<'_>) -> SqlResult<CopyPart>;

    /// Appends one value that is not null, without its length.
    ///
    /// # Errors
    /// The type has no such format.
    fn write(
        &mut self,
        statement: &Self::Statement,
        column: usize,
        format: Format,
        value: &Datum,
        out: &mut BytesMut,
    ) -> SqlResult<()>;

    /// Ends the implicit transaction, if there is one.
    ///
    /// # Errors
    /// Those of a commit.
    fn sync(&mut self) -> SqlResult<()>;

    /// Returns true if the end of the open transaction, or an error in it, may take longer than other sessions
    /// of its thread should wait.
    fn has_long_end(&self) -> bool {
        false
    }

    /// Returns true if the portal would be a transaction of its own that can be run twice: no transaction is open, and
    /// the portal is one query or change.
    fn is_alone(&self, _portal: &Self::Portal) -> bool {
        false
    }

    /// Returns false if the portal is a query that changes no rows.
    fn is_modifying(&self, _portal: &Self::Portal) -> bool {
        true
    }

    /// Forgets the work of such a portal: its transaction and its notices.
    fn begin_again(&mut self) {}

    /// Tells the session that a message failed before it got here.
    fn fail(&mut self);

    /// Returns the status of the transaction.
    fn status(&self) -> TransactionStatus;

    /// Returns the time that the client may now be idle: `idle_in_transaction_session_timeout`,
    /// or `idle_session_timeout`.
    fn idle_limit(&self) -> Option<Duration> {
        None
    }

    /// Returns the class of the open transaction, or of the next one.
    fn class(&self) -> Class {
        Class::Normal
    }

    /// Returns the class that the portal runs in. A hint or a rule may give it one of its own.
    fn class_of(&self, _portal: &Self::Portal) -> Class {
        self.class()
    }

    /// Returns the key at which the session says that the next transaction conflicts with others.
    fn hot_key(&self) -> Option<u64> {
        None
    }

    /// Returns true if no transaction has begun and the portal begins none: it needs no admission.
    fn does_nothing_inside(&self, _portal: &Self::Portal) -> bool {
        false
    }

    /// Returns the time that is left to the current statement, or to the one that begins now, waits included.
    fn time_left(&self) -> Option<Duration> {
        None
    }

    /// Returns true if no other session can come to wait for this one while it runs the portal: a query outside of any
    /// transaction that takes no locks.
    fn holds_nothing(&self, _portal: &Self::Portal) -> bool {
        false
    }

    /// Returns true if the portal is a large query, as far as that is known before it has run.
    fn is_large(&self, _portal: &Self::Portal) -> bool {
        false
    }

    /// Returns the duration from which on statements are logged: `log_min_duration_statement`.
    fn log_from(&self) -> Option<Duration> {
        None
    }

    /// Takes the settings to be reported: at first all, later those that have changed.
    fn take_reports(&mut self) -> Vec<(&'static str, String)>;

    /// Takes the notices since the last call, with their severities.
    fn take_notices(&mut self) -> Vec<(&'static str, SqlError)>;

    /// Returns a handle that cancels the session's work from another thread.
    fn canceller(&self) -> Arc<dyn Cancel>;
}
