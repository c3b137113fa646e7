//! Properties of a transaction, from the message that begins it: its class, and the rest that admission needs.
//!
//! **Invariant:** the properties of a named statement are determined once for each client. They are kept until the
//! client's application or the settings change.

use crate::clients::client::Client;
use crate::clients::priority;
use crate::statements::block_command::{BlockCommand, bare};
use crate::statements::message;
use crate::statements::properties::StatementProperties;
use server::admission::{About, Hot, Marks};
use settings::priority::hint;
use stage::Class;
use statement::{SqlError, SqlResult};
use wire::frame::{Bind, HEAD};

/// Text behind the name in the body of a `Parse`.
fn text_of(body: &[u8]) -> &[u8] {
    message::text(body).map_or(body, |(text, _)| text)
}

fn is_begin(text: &[u8]) -> bool {
    bare(text) == Some(BlockCommand::Begin)
}

impl Client {
    /// Properties of a transaction that begins with the first message of this input, or has begun with a BEGIN with
    /// these properties.
    ///
    /// # Errors
    /// `42501`: the transaction asks for a class that its client may not have; `22023`: for one that does not exist.
    pub(crate) fn about(&mut self, begun: StatementProperties, input: &[u8], owner: u64) -> Result<About, SqlError> {
        let (known, bind) = self.first_known(begun, input);
        let class = known.class?;
        let Marks { fingerprint, mut hot } = known.marks;
        if matches!(hot, Hot::Parameter { .. }) {
            // A key whose value has not arrived yet counts as unknown.
            hot = bind.and_then(|body| Bind::read(body).ok()).map_or(Hot::Unknown, |bind| hot.bound(&bind));
        }
        let class = class.unwrap_or_else(|| self.priority.class());
        Ok(About { class, fingerprint, hot_key: hot.key(self.priority.hot_key()), owner })
    }

    /// Returns the properties of the first effective statement in the input, as far as it has arrived, and the `Bind`
    /// of that statement.
    fn first_known<'a>(
        &mut self,
        mut begun: StatementProperties,
        mut input: &'a [u8],
    ) -> (StatementProperties, Option<&'a [u8]>) {
        let mut has_begun = false;
        while let Some(Some((kind, length))) = message::head(input)
            && let Some(body) = input.get(HEAD..length)
        {
            let (known, bind, is_begin) = match (kind, message::text(body)) {
                (b'Q', Some((text, _))) => (self.known(text), None, is_begin(text)),
                (b'P', Some((_, rest))) => {
                    let text = text_of(rest);
                    (self.known(text), bind_in(&input[length..]), is_begin(text))
                }
                (b'B', Some((_, rest))) => {
                    let name = message::text(rest).map_or(&b""[..], |(name, _)| name);
                    let is_begun = has_begun && name.is_empty();
                    let is_begin =
                        is_begun || self.names.bare(name).is_some_and(|(bare, _)| bare == BlockCommand::Begin);
                    (
                        if is_begun { StatementProperties::default() } else { self.known_by_name(name) },
                        Some(body),
                        is_begin,
                    )
                }
                (b'D' | b'E' | b'S' | b'H', _) if has_begun => (StatementProperties::default(), None, true),
                _ => break,
            };
            if !is_begin {
                return (begun.and(known), bind);
            }
            (begun, has_begun) = (begun.and(known), true);
            input = &input[length..];
        }
        (begun, None)
    }

    /// Returns the properties that a BEGIN gives by its comments.
    pub(crate) fn known_of_begin(&self, text: &[u8]) -> StatementProperties {
        if text.contains(&b'/') { self.known(text) } else { StatementProperties::default() }
    }

    fn known(&self, text: &[u8]) -> StatementProperties {
        let rules = &self.rules;
        let by_rule = || {
            let text = std::str::from_utf8(text).ok().filter(|_| rules.are_about_statements())?;
            rules.of_statement(&self.pool.user, &self.pool.name, &self.application, text)
        };
        let class = self.class_by_hint(text).and_then(|by_hint| match by_hint.or_else(by_rule) {
            None => self.class_by_set(text),
            class => Ok(class),
        });
        StatementProperties { class, marks: self.shared.admission().marks(text), by: self.knowledge }
    }

    fn class_by_hint(&self, text: &[u8]) -> SqlResult<Option<Class>> {
        // Almost no text begins with a comment.
        if !text.trim_ascii_start().starts_with(b"/*+") {
            return Ok(None);
        }
        self.permitted(hint(&String::from_utf8_lossy(text))?, priority::denied_hint)
    }

    /// Returns the class, unless it is above the client's highest one: then the error that `denied` makes of the two.
    fn permitted(
        &self,
        class: Option<Class>,
        denied: impl FnOnce(Class, Class) -> SqlError,
    ) -> SqlResult<Option<Class>> {
        let max = self.priority.max();
        match class {
            Some(class) if class.outranks(max) => Err(denied(class, max)),
            class => Ok(class),
        }
    }

    /// Returns the class that a SET at the beginning of a text with several statements gives, perhaps behind a BEGIN.
    fn class_by_set(&self, mut text: &[u8]) -> SqlResult<Option<Class>> {
        let mut class = None;
        // The commands that matter have no semicolon in them, so the first one ends the statement.
        while let Some(end) = priority::may_open(text).then(|| memchr::memchr(b';', text)).flatten() {
            match priority::class_set(&text[..end]) {
                Some(set) => class = Some(set?),
                None if is_begin(&text[..end]) => {}
                None => break,
            }
            text = &text[end + 1..];
        }
        self.permitted(class, |_, max| priority::denied(max))
    }

    fn known_by_name(&mut self, name: &[u8]) -> StatementProperties {
        if name.is_empty() {
            return self.known(text_of(&self.names.unnamed.body));
        }
        match self.names.known(name) {
            Some(known) if known.by == self.knowledge => return known.clone(),
            _ => {}
        }
        let Some(statement) = self.names.get(name) else { return StatementProperties::default() };
        let known = self.known(text_of(&statement.body));
        self.names.know(name, known.clone());
        known
    }
}

/// Returns the body of the `Bind` that follows, perhaps behind a `Describe`, if it has arrived.
fn bind_in(mut input: &[u8]) -> Option<&[u8]> {
    loop {
        let (kind, length) = message::head(input)??;
        match kind {
            b'B' => return input.get(HEAD..length),
            b'D' => input = input.get(length..)?,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bind_is_found_if_it_has_come() {
        let bind = [&b"B\0\0\0\x0c\0\0\0\0\0\0\0\0"[..], b"E\0\0\0\x09\0\0\0\0\0"].concat();
        let described = [&b"D\0\0\0\x06S\0"[..], &bind].concat();
        assert_eq!(bind_in(&bind), Some(&[0; 8][..]));
        assert_eq!(bind_in(&described), Some(&[0; 8][..]));
        for none in [&described[..10], &bind[..12], &b"S\0\0\0\x04"[..], b""] {
            assert_eq!(bind_in(none), None);
        }
    }
}
