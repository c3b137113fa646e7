//! Who is turned away, and what is said then.

use gate::{Refused, Whereabouts};
use sql::{SqlError, SqlState};
use std::time::Duration;

/// Why a transaction was turned away; what the client is told besides.
#[derive(Debug)]
pub(crate) struct TurnedAway {
    pub(crate) error: SqlError,
    /// Class, place and expected wait.
    pub(crate) notice: Option<SqlError>,
}

impl From<SqlError> for TurnedAway {
    fn from(error: SqlError) -> TurnedAway {
        TurnedAway { error, notice: None }
    }
}

fn told(class: &str, ahead: usize, expected: Duration) -> SqlError {
    let ms = expected.as_secs_f64() * 1e3;
    SqlError::new(SqlState("00000"), format!("transaction of class \"{class}\" was turned away"))
        .detail(format!("{ahead} transactions were to go before it; the expected wait was {ms:.0} ms."))
}

pub(super) fn refusal(refused: &Refused) -> TurnedAway {
    let Refused::Full { class, waiting, expected } = refused;
    let error = SqlError::new(SqlState("53300"), refused.to_string())
        .detail(format!("{waiting} of them are waiting, as many as may."))
        .hint("Try again later, or raise queue_max of the class in overtake.gate_classes.");
    TurnedAway { error, notice: Some(told(class, *waiting, *expected)) }
}

pub(super) fn timed_out(class: &str, at: Whereabouts) -> TurnedAway {
    let error =
        SqlError::new(SqlState("57014"), format!("transaction of class \"{class}\" waited too long to be let in"))
            .hint("Try again later, or raise wait_max of the class in overtake.gate_classes.");
    TurnedAway { error, notice: Some(told(class, at.ahead, at.expected)) }
}
