//! Text of a client's statement, as `pg_stat_activity` shows it.
//!
//! **Invariant:** a text is copied once, however often it is run in a row, and no more of it than PostgreSQL keeps.

use crate::statements::message;
use crate::statements::shared::StatementNames;
use std::sync::Arc;

/// Number of bytes for which PostgreSQL's `track_activity_query_size` leaves room.
const TEXT_MAX: usize = 1_023;

/// Last text that was shown.
#[derive(Debug, Default)]
pub(crate) struct ShownText(Arc<str>);

/// Returns as much of a text as is shown.
pub(crate) fn shortened(text: &[u8]) -> Arc<str> {
    let short = &text[..text.len().min(TEXT_MAX)];
    let written = String::from_utf8_lossy(short);
    if short.len() < text.len() {
        // The last character may have been cut.
        return written.trim_end_matches(char::REPLACEMENT_CHARACTER).into();
    }
    written.into()
}

impl ShownText {
    /// Returns this text, shortened.
    pub(crate) fn text(&mut self, text: &[u8]) -> &Arc<str> {
        if text != self.0.as_bytes() {
            self.0 = shortened(text);
        }
        &self.0
    }

    /// Returns the text of the statement of this name.
    pub(crate) fn statement(&mut self, names: &StatementNames, name: &[u8]) -> &Arc<str> {
        if name.is_empty() {
            return self.text(message::text(&names.unnamed.body).map_or(&[], |(text, _)| text));
        }
        if let Some(statement) = names.get(name) {
            self.0.clone_from(&statement.text);
        }
        &self.0
    }

    /// Returns the text that a message of this kind is about.
    pub(crate) fn message(&mut self, names: &StatementNames, kind: u8, body: &[u8]) -> &Arc<str> {
        let text = |rest| message::text(rest).map(|(text, _)| text);
        match (kind, message::text(body)) {
            (b'Q', Some((query, _))) => self.text(query),
            (b'P', Some((_, rest))) => self.text(text(rest).unwrap_or_default()),
            (b'B', Some((_, rest))) => self.statement(names, text(rest).unwrap_or_default()),
            _ => &self.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shared_and_short() {
        let mut shown = ShownText::default();
        let one = Arc::clone(shown.text(b"select 1"));
        assert!(Arc::ptr_eq(&one, shown.text(b"select 1")));
        assert_eq!(&**shown.message(&StatementNames::default(), b'P', b"a\0select 2\0\0\0"), "select 2");
        assert_eq!(&**shown.message(&StatementNames::default(), b'D', b"Sa\0"), "select 2");
        let long = "é".repeat(1_000);
        assert_eq!(shown.text(long.as_bytes()).len(), 1_022);
    }
}
