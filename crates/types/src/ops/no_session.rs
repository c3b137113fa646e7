//! Context of calls that belong to no session: PostgreSQL's defaults, with fixed clocks. Tests of lower crates use it.

use crate::forms::Forms;
use crate::ops::CallContext;
use statement::error::{SqlError, SqlResult, SqlState};

/// Context without settings, at the start of 2000.
#[derive(Clone, Copy, Debug)]
pub struct NoSession;

impl CallContext for NoSession {
    fn forms(&self) -> &Forms {
        static FORMS: Forms = Forms::DEFAULT;
        &FORMS
    }

    fn statement_us(&self) -> i64 {
        0
    }

    fn clock_us(&self) -> i64 {
        0
    }

    fn user(&self) -> &str {
        "postgres"
    }

    fn database(&self) -> &str {
        "postgres"
    }

    fn version(&self) -> &str {
        "15"
    }

    fn backend_pid(&self) -> u32 {
        1
    }

    fn setting(&self, name: &str) -> SqlResult<String> {
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, name))
    }

    fn ask(&self, name: &str, _: Option<&str>, _: bool) -> SqlResult<String> {
        self.setting(name)
    }

    fn sleep(&self, _: f64) -> SqlResult<()> {
        Ok(())
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn random_bits(&self) -> u64 {
        1
    }

    fn set_seed(&self, _: f64) {}
}
