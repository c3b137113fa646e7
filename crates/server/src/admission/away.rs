//! Refusals of admission, and their messages.

use gate::{Refused, Whereabouts};
use statement::{SqlError, SqlState};

/// Refusal of a transaction, with a notice for the client.
#[derive(Debug)]
pub struct TurnedAway {
    /// Error for the client.
    pub error: SqlError,
    /// Class, place and expected wait.
    pub notice: Option<SqlError>,
}

impl From<SqlError> for TurnedAway {
    fn from(error: SqlError) -> TurnedAway {
        TurnedAway { error, notice: None }
    }
}

fn told(class: &str, at: Whereabouts, wait: &str) -> SqlError {
    let ahead = match at.ahead {
        1 => "1 transaction was".to_owned(),
        count => format!("{count} transactions were"),
    };
    let expected = at.expected.map(|time| format!("; the expected {wait} was {:.0} ms", time.as_secs_f64() * 1e3));
    SqlError::new(SqlState::SUCCESSFUL_COMPLETION, format!("transaction of class \"{class}\" was turned away"))
        .detail(format!("{ahead} to go before it{}.", expected.unwrap_or_default()))
}

pub(super) fn refusal(refused: &Refused) -> TurnedAway {
    let Refused::Full { class, waiting, at } = refused;
    let error = SqlError::new(SqlState::TOO_MANY_CONNECTIONS, refused.to_string())
        .detail(format!("{waiting} of them are waiting, as many as may."))
        .hint("Try again later, or raise queue_max of the class in overtake.gate_classes.");
    TurnedAway { error, notice: Some(told(class, *at, "wait")) }
}

pub(super) fn timed_out(class: &str, at: Whereabouts) -> TurnedAway {
    let error = SqlError::new(
        SqlState::QUERY_CANCELED,
        format!("transaction of class \"{class}\" waited too long to be let in"),
    )
    .hint("Try again later, or raise wait_max of the class in overtake.gate_classes.");
    TurnedAway { error, notice: Some(told(class, at, "further wait")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_wait_is_said_where_it_is_known() {
        let detail =
            |ahead, expected| told("low", Whereabouts { ahead, expected }, "wait").detail_text().map(str::to_owned);
        assert_eq!(detail(1, None).as_deref(), Some("1 transaction was to go before it."));
        let expected = Some(Duration::from_millis(1_500));
        let wanted = "2 transactions were to go before it; the expected wait was 1500 ms.";
        assert_eq!(detail(2, expected).as_deref(), Some(wanted));
    }
}
