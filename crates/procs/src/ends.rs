//! Errors with which a level ends code, whatever the code wanted.

use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse::Watch;
use std::time::{Duration, Instant};

/// Time at which an invocation must end.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
    limit: Duration,
}

impl Deadline {
    /// Returns the end of an invocation that begins now; `None` without a limit, or with one beyond all clocks.
    pub fn from_now(limit: Option<Duration>) -> Option<Deadline> {
        let limit = limit?;
        Some(Deadline { at: Instant::now().checked_add(limit)?, limit })
    }

    /// Looks whether the time is over.
    ///
    /// # Errors
    /// `57014`
    pub fn look(&self) -> SqlResult<()> {
        if Instant::now() < self.at { Ok(()) } else { Err(out_of_time(self.limit)) }
    }
}

impl Deadline {
    /// Checks that a wait which begins now ends before the deadline.
    ///
    /// # Errors
    /// `57014`
    pub fn check_wait(&self, wait: Duration) -> SqlResult<()> {
        let ends_before = Instant::now().checked_add(wait).is_some_and(|end| end <= self.at);
        if ends_before { Ok(()) } else { Err(out_of_time(self.limit)) }
    }
}

impl Watch for Deadline {
    fn look(&self) -> SqlResult<()> {
        Deadline::look(self)
    }
}

/// Returns the error for an invocation that exceeds [`Limits::time`](crate::Limits::time).
pub fn out_of_time(limit: Duration) -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to time limit of routine")
        .detail(format!("An invocation may take {} ms.", limit.as_millis()))
}

/// Returns the error for an instance that exceeds [`Limits::memory`](crate::Limits::memory), in bytes.
pub fn out_of_memory(limit_bytes: u64) -> SqlError {
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory for the routine")
        .detail(format!("An instance may use {} kB.", limit_bytes >> 10))
}

/// Returns the error for code that has crashed.
pub fn crashed(reason: &str) -> SqlError {
    SqlError::new(SqlState::EXTERNAL_ROUTINE_EXCEPTION, format!("the routine crashed: {reason}"))
}

/// Returns the error for code that reports a failure of its own.
pub fn failed(reason: &str) -> SqlError {
    SqlError::new(SqlState::EXTERNAL_ROUTINE_EXCEPTION, format!("the routine failed: {reason}"))
}

/// Returns the error for an invocation of an instance whose last one has failed.
pub fn spent() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "an instance is used after an invocation that has failed")
}

/// Returns the error for code that is not of the level's kind.
pub fn not_loadable(reason: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, format!("the artifact cannot be loaded: {reason}"))
}

/// Returns the error for a limit of the server that is reached, such as that of instances.
pub fn exhausted(what: &str, limit: usize) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_RESOURCES, format!("too many {what}")).detail(format!("The limit is {limit}."))
}
