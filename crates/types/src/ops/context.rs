//! Session as functions see it: settings, clocks, role, chance.
//!
//! **Invariant:** what a context answers stays the same while a statement runs, but for the state of `random()` and for
//! settings that [`CallContext::ask`] has asked for.

use super::casts::{Context, find_cast};
use crate::datum::Datum;
use crate::forms::Forms;
use crate::ops::build::checked;
use crate::{Kind, SqlType};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::any::Any;
use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

/// Computes a value of its arguments alone.
pub type Plain = fn(&[Datum]) -> SqlResult<Datum>;

/// Computes a value of its arguments and the session's state.
pub type InContext = fn(&[Datum], &dyn CallContext) -> SqlResult<Datum>;

/// Session of a call.
pub trait CallContext: Debug + Send + Sync + Any {
    /// Settings by which values are read and written as text; and when the transaction began.
    fn forms(&self) -> &Forms;

    /// Begin of the statement, in microseconds since 1970.
    fn statement_us(&self) -> i64;

    /// Name of the role.
    fn user(&self) -> &str;

    /// Name of the database.
    fn database(&self) -> &str;

    /// Version of the server, as `version()` shows it.
    fn version(&self) -> &str;

    /// Number by which the client knows the session.
    fn backend_pid(&self) -> u32;

    /// Value of a setting, as the statement sees it.
    ///
    /// # Errors
    /// `42704` for an unknown setting.
    fn setting(&self, name: &str) -> SqlResult<String>;

    /// Asks for a setting, to be made when the statement has run; `None` as a value is its default. Returns what will be shown.
    ///
    /// # Errors
    /// Those of `SET`.
    fn ask(&self, name: &str, value: Option<&str>, is_local: bool) -> SqlResult<String>;

    /// Lets the session sleep: the statement is taken back, and run again afterwards.
    ///
    /// # Errors
    /// The request to take the statement back.
    fn sleep(&self, seconds: f64) -> SqlResult<()>;

    /// A random number from 0 to less than 1.
    fn random(&self) -> f64;

    /// 64 random bits.
    fn random_bits(&self) -> u64;

    /// Makes `random()` give the numbers that belong to this seed, from -1 to 1.
    fn set_seed(&self, seed: f64);
}

/// Units of work of a cheap function.
const CALL: usize = 16;

/// Code of a function or an operator.
#[derive(Clone, Copy, Debug)]
pub enum Eval {
    /// Of its arguments alone.
    Plain(Plain),
    /// Also of the session's state: settings, clocks, role, chance.
    InContext(InContext),
}

impl Eval {
    /// Computes the value.
    ///
    /// # Errors
    /// Those of the function or operator; `54000` for a result that is longer than any may be; `57014`.
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

/// The time now, in microseconds since 1970.
pub fn clock_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

/// Begin of the transaction, as a value of this type.
///
/// # Errors
/// `42846` for a type that is none of a clock; those of the cast.
pub fn now(context: &dyn CallContext, to: SqlType) -> SqlResult<Datum> {
    let now = Datum::Timestamp(context.forms().now_us);
    if to.kind == Kind::Timestamptz {
        return Ok(now);
    }
    let no_cast = || SqlError::new(SqlState::CANNOT_COERCE, "the clock has no such type");
    let cast = find_cast(Kind::Timestamptz, to.kind, Context::Explicit).ok_or_else(no_cast)?;
    (cast.eval)(&now, to, context)
}
