//! What the protocol needs of a session, and no more.
//!
//! **Invariant:** the protocol knows the session only through these traits, so that it can be tested with a session that
//! follows a script. Nothing here blocks; what must wait is [`Run::Parked`].

use bytes::BytesMut;
use settings::Connect;
use sql::session::{Outcome, Part, Renamed};
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

/// Opens sessions. Cloned for each connection.
pub trait Backends: Clone + Send + Sync + 'static {
    /// Its sessions.
    type Backend: Backend;

    /// Opens one.
    ///
    /// # Errors
    /// Unknown database, settings that do not exist or do not take the value.
    fn connect(&self, connect: Connect) -> SqlResult<Self::Backend>;
}

/// What running a portal came to.
pub enum Run {
    /// It is done.
    Done(Outcome),
    /// It waits; run the portal again when the wait is over.
    Parked(Box<dyn Parked>),
    /// It is a COPY that wants data: [`Backend::copy_data`].
    CopyIn(CopyShape),
    /// It is a COPY that gives data: [`Backend::copy_next`].
    CopyOut(CopyShape),
}

/// Outcome of a preparation that has failed.
pub enum Unbound {
    /// The error stands.
    Stands,
    /// It is to be prepared again.
    Again,
    /// It waits for a definition that is not committed; ask again when the wait is over.
    Parked(Box<dyn Parked>),
}

/// How far a COPY has come.
pub enum CopyPart {
    /// There is more to come.
    More,
    /// That was all; its tag.
    Last(Tag),
    /// It waits; ask again when the wait is over.
    Parked(Box<dyn Parked>),
}

/// One session; see [`sql::session::Session`], whose functions these are.
pub trait Backend: Send + 'static {
    /// A statement, analysed; cloning it costs nothing to speak of.
    type Statement: Clone + Send + Sync + 'static;
    /// A statement with its parameters.
    type Portal: Send;

    /// All statements of a text.
    ///
    /// # Errors
    /// When any is not in the grammar.
    fn split(&mut self, text: &str) -> SqlResult<Vec<Part>>;

    /// Takes the leavings of its statements, if any: to drop it may take a while.
    fn take_leavings(&mut self) -> Option<Box<dyn Send>> {
        None
    }

    /// Looks, between two statements of such a text, whether the rest is still wanted.
    fn goes_on(&self) -> SqlResult<()>;

    /// Analyses one statement; `types` as far as the client says, 0 where it does not. Nobody knows its columns yet: when it has run
    /// they are those of its rows, unless they were fixed before.
    ///
    /// # Errors
    /// Grammar, names, types.
    fn prepare(&mut self, text: &str, types: &[u32]) -> SqlResult<Self::Statement>;

    /// The client knows the statement's columns now.
    fn fix_columns(&self, _statement: &Self::Statement) {}

    /// Tells whether the preparation that has failed may have failed for a definition that is not committed.
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

    /// Type numbers of its parameters.
    fn parameters(&self, statement: &Self::Statement) -> Vec<u32>;

    /// How many parameters it has.
    fn parameter_count(&self, statement: &Self::Statement) -> usize;

    /// Columns of its rows, if it returns rows.
    fn columns<'s>(&self, statement: &'s Self::Statement) -> Option<Vec<Column<'s>>>;

    /// How many columns its rows have, if it returns rows.
    fn column_count(&self, statement: &Self::Statement) -> Option<usize>;

    /// Reads the value of one parameter.
    ///
    /// # Errors
    /// It is none of the parameter's type.
    fn read(&self, statement: &Self::Statement, parameter: usize, format: Format, bytes: &[u8]) -> SqlResult<Datum>;

    /// Binds a statement to values.
    ///
    /// # Errors
    /// Values that do not fit the statement.
    fn bind(&mut self, statement: &Self::Statement, values: Vec<Datum>) -> SqlResult<Self::Portal>;

    /// Gives a statement a name, which SQL knows, too. A session whose SQL knows no names has nothing to do, here and below.
    ///
    /// # Errors
    /// `42P05`: the name is taken.
    fn name_statement(&mut self, _name: &str, _statement: &Self::Statement) -> SqlResult<()> {
        Ok(())
    }

    /// The statement that SQL has given this name, and its text.
    fn statement_named(&self, _name: &str) -> Option<(Self::Statement, String)> {
        None
    }

    /// The name is free again.
    fn forget_statement(&mut self, _name: &str) {}

    /// Gives a portal a name, which SQL knows, too. Returns the one to be run in its place.
    ///
    /// # Errors
    /// `42P03`: the name is taken.
    fn name_portal(&mut self, _name: &str, portal: Self::Portal) -> SqlResult<Self::Portal> {
        Ok(portal)
    }

    /// The portal that SQL has given this name, as [`Backend::name_portal`] returns it, with the statement that describes its
    /// rows, and their format.
    fn portal_named(&self, _name: &str) -> Option<(Self::Portal, Self::Statement, Format)> {
        None
    }

    /// Of a portal that has a name: how many rows it gives when it is run next; nothing: all that are left. Says whether it
    /// is one that can be run again for the next ones.
    fn advance(&mut self, _portal: &mut Self::Portal, _rows: Option<usize>) -> bool {
        false
    }

    /// The name is free again.
    fn close_portal(&mut self, _name: &str) {}

    /// Names that SQL has given or taken away since the last call.
    fn take_renamed(&mut self) -> Option<Box<Renamed>> {
        None
    }

    /// What the session keeps of rows for portals that have names, in bytes.
    fn kept_bytes(&self) -> usize {
        0
    }

    /// The format in which a simple query shows the rows of this statement.
    fn simple_format(&self, _statement: &Self::Statement) -> Format {
        Format::Text
    }

    /// Tells whether [`Backend::stay_for`] can park the portal, or need not: it ends soon.
    fn can_move(&self, _portal: &Self::Portal) -> bool {
        true
    }

    /// A portal that is executed from now on is parked as [`Parked::is_elsewhere`] after so long: its thread has others to serve.
    /// Nothing: it may take its time.
    fn stay_for(&mut self, _limit: Option<Duration>) {}

    /// Runs it to its end.
    ///
    /// # Errors
    /// Whatever the statement meets.
    fn execute(&mut self, portal: &mut Self::Portal) -> SqlResult<Run>;

    /// Takes a piece of what a COPY is given; pieces end anywhere. An empty one says that the client sends no more for now. If it
    /// waits, it has kept the piece, and is called with an empty one when the wait is over.
    ///
    /// # Errors
    /// Data that are none of the table's; whatever inserting them meets.
    fn copy_data(&mut self, portal: &mut Self::Portal, data: &[u8]) -> SqlResult<Option<Box<dyn Parked>>>;

    /// All that a COPY is given has come.
    ///
    /// # Errors
    /// As [`Backend::copy_data`].
    fn copy_done(&mut self, portal: &mut Self::Portal) -> SqlResult<CopyPart>;

    /// Appends the next rows of a COPY, about a buffer's worth.
    ///
    /// # Errors
    /// Whatever reading them meets.
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

    /// True if an end of the open transaction, or an error in it, may take longer than other sessions of its thread should wait.
    fn has_long_end(&self) -> bool {
        false
    }

    /// True if the portal would be a transaction of its own that can be run twice: nothing is open, and it is one query or change.
    fn is_alone(&self, _portal: &Self::Portal) -> bool {
        false
    }

    /// False if the portal is a query that changes no rows.
    fn is_modifying(&self, _portal: &Self::Portal) -> bool {
        true
    }

    /// Forgets what such a portal has done: its transaction and its notices.
    fn begin_again(&mut self) {}

    /// To be told when a message failed before it got here.
    fn fail(&mut self);

    /// Whether a transaction is open.
    fn status(&self) -> TransactionStatus;

    /// How long the client may now say nothing: `idle_in_transaction_session_timeout`, or `idle_session_timeout`.
    fn idle_limit(&self) -> Option<Duration> {
        None
    }

    /// The class of the open transaction, or of the next one.
    fn class(&self) -> Class {
        Class::Normal
    }

    /// The class that the portal runs in, which may have one for itself: by a hint, by a rule.
    fn class_of(&self, _portal: &Self::Portal) -> Class {
        self.class()
    }

    /// What the next transaction meets others at, as the session says.
    fn hot_key(&self) -> Option<u64> {
        None
    }

    /// Whether no transaction has begun, and the portal begins none: it needs no place inside.
    fn does_nothing_inside(&self, _portal: &Self::Portal) -> bool {
        false
    }

    /// Time that the statement under way, or the one that begins now, has left, waits included.
    fn time_left(&self) -> Option<Duration> {
        None
    }

    /// Whether nobody can come to wait for this session while it runs the portal: a query outside of any transaction, that
    /// takes no locks.
    fn holds_nothing(&self, _portal: &Self::Portal) -> bool {
        false
    }

    /// Whether it is a large query, before it has run.
    fn is_large(&self, _portal: &Self::Portal) -> bool {
        false
    }

    /// Statements that take as long as this are logged: `log_min_duration_statement`.
    fn log_from(&self) -> Option<Duration> {
        None
    }

    /// Settings to be reported, all at first and then those that have changed.
    fn take_reports(&mut self) -> Vec<(&'static str, String)>;

    /// Notices since the last call, with their severities.
    fn take_notices(&mut self) -> Vec<(&'static str, SqlError)>;

    /// Cancels from another thread what this session is doing.
    fn canceller(&self) -> Arc<dyn Cancel>;
}
