//! Session state that functions use: settings, clocks, role, random numbers.
//!
//! **Invariant:** the answers of a context stay the same while a statement runs, except for the state of `random()` and
//! for settings that [`CallContext::ask`] has requested.

use super::casts::{CastContext, find_cast};
use crate::datum::Datum;
use crate::forms::Forms;
use crate::ops::build::checked;
use crate::{Kind, SqlType};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::any::Any;
use std::fmt::Debug;

/// Function that computes a value from its arguments alone.
pub type PlainFunction = fn(&[Datum]) -> SqlResult<Datum>;

/// Function that computes a value from its arguments and the session's state.
pub type ContextFunction = fn(&[Datum], &dyn CallContext) -> SqlResult<Datum>;

/// Session of a function call.
pub trait CallContext: Debug + Send + Sync + Any {
    /// Returns the settings that govern the text forms of values, and the start of the transaction.
    fn forms(&self) -> &Forms;

    /// Returns the start of the statement, in microseconds since 1970.
    fn statement_us(&self) -> i64;

    /// Returns the present time, in microseconds since 1970.
    fn clock_us(&self) -> i64;

    /// Returns the name of the current role.
    fn user(&self) -> &str;

    /// Returns the name of the session user, which `SET ROLE` does not change.
    fn session_user(&self) -> &str {
        self.user()
    }

    /// Returns the name of the database.
    fn database(&self) -> &str;

    /// Returns the version of the server, as `version()` shows it.
    fn version(&self) -> &str;

    /// Returns the process ID by which the client knows the session.
    fn backend_pid(&self) -> u32;

    /// Returns the value of a setting that the statement sees.
    ///
    /// # Errors
    /// `42704` for an unknown setting.
    fn setting(&self, name: &str) -> SqlResult<String>;

    /// Requests a setting that takes effect after the statement has run. The value `None` stands for the default.
    /// Returns the value that will be shown.
    ///
    /// # Errors
    /// Those of `SET`.
    fn ask(&self, name: &str, value: Option<&str>, is_local: bool) -> SqlResult<String>;

    /// Lets the session sleep: the statement is undone, and run again afterwards.
    ///
    /// # Errors
    /// The request to undo the statement.
    fn sleep(&self, seconds: f64) -> SqlResult<()>;

    /// Returns a random number from 0 to less than 1.
    fn random(&self) -> f64;

    /// Returns 64 random bits.
    fn random_bits(&self) -> u64;

    /// Makes `random()` return the numbers that belong to this seed, from -1 to 1.
    fn set_seed(&self, seed: f64);
}

/// Units of work of a cheap function.
const CALL: usize = 16;

/// Code of a function or an operator.
#[derive(Clone, Copy, Debug)]
pub enum Eval {
    /// Code that depends on the arguments alone.
    Plain(PlainFunction),
    /// Code that also depends on the session's state: settings, clocks, role, random numbers.
    InContext(ContextFunction),
}

impl Eval {
    /// Computes the value.
    ///
    /// # Errors
    /// Those of the function or operator; `54000` for a result that is too long; `57014`.
    #[inline]
    pub fn call(self, args: &[Datum], context: &dyn CallContext) -> SqlResult<Datum> {
        pulse::tick(CALL)?;
        match self {
            Eval::Plain(eval) => eval(args),
            Eval::InContext(eval) => eval(args, context),
        }
        .and_then(checked)
    }
}

/// Returns the start of the transaction, as a value of this type.
///
/// # Errors
/// `42846` for a type that is not a date or time; those of the cast.
pub fn now(context: &dyn CallContext, to: SqlType) -> SqlResult<Datum> {
    let now = Datum::Timestamp(context.forms().now_us);
    if to.kind == Kind::Timestamptz {
        return Ok(now);
    }
    let no_cast = || SqlError::new(SqlState::CANNOT_COERCE, "the clock has no such type");
    let cast = find_cast(Kind::Timestamptz, to.kind, CastContext::Explicit).ok_or_else(no_cast)?;
    (cast.eval)(&now, to, context)
}
