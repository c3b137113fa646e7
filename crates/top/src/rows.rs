//! Rows as text, and typed access to their columns.

use std::str::FromStr;
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

/// Splits an answer into the rows of each statement.
pub(crate) fn split(messages: Vec<SimpleQueryMessage>) -> Vec<Vec<SimpleQueryRow>> {
    let mut answers = vec![Vec::new()];
    for message in messages {
        match message {
            SimpleQueryMessage::Row(row) => answers.last_mut().expect("there is one from the beginning").push(row),
            SimpleQueryMessage::CommandComplete(_) => answers.push(Vec::new()),
            _ => {}
        }
    }
    answers.pop();
    answers
}

/// Access to a row's columns. A column has no value if it is NULL, or an older server does not have it.
pub(crate) trait RowAccess {
    fn say(&self, column: &str) -> Option<&str>;

    fn text(&self, column: &str) -> String {
        self.say(column).unwrap_or_default().to_owned()
    }

    fn maybe<T: FromStr>(&self, column: &str) -> Option<T> {
        self.say(column)?.parse().ok()
    }

    fn number<T: FromStr + Default>(&self, column: &str) -> T {
        self.maybe(column).unwrap_or_default()
    }
}

impl RowAccess for SimpleQueryRow {
    fn say(&self, column: &str) -> Option<&str> {
        self.try_get(column).ok().flatten()
    }
}
