//! Properties of a transaction that its first statement tells the gate: the statement by which its length is expected,
//! and the key at which it conflicts with others.
//!
//! **Invariant:** the cost arises only where the settings ask for it. A text is scanned once, and a prepared statement
//! once for all its transactions.

use super::hot::HotRules;
use syntax::fingerprint::{self, Literal};
use syntax::tags::Tags;
use wire::frame::Bind;

/// Tag of the comment by which a statement names its hot key.
const TAG: &str = "hot_key";

/// Properties of one statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Fingerprint of the statement, if it is needed.
    pub fingerprint: Option<u64>,
    /// Key at which the transaction conflicts with others.
    pub hot: Hot,
}

/// Hot key of a statement: where its transactions conflict with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hot {
    /// No key is known.
    #[default]
    Unknown,
    /// Key that the statement names itself, in a comment.
    Tag(u64),
    /// Key that a rule determines, from a value in the statement's text.
    Key(u64),
    /// Key that a rule determines, from the value of a parameter.
    Parameter {
        /// Hash of the rule's name.
        name: u64,
        /// Number of the parameter, from 1.
        number: usize,
    },
}

/// Properties of statements that the settings need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NeededMarks {
    /// True if a class depends on the expected length.
    pub(crate) fingerprints: bool,
    pub hot: HotRules,
}

impl NeededMarks {
    pub(crate) fn is_nothing(&self) -> bool {
        !self.fingerprints && self.hot.is_empty()
    }

    /// Returns the marks of a text.
    pub fn marks(&self, text: &[u8]) -> Marks {
        if self.is_nothing() {
            return Marks { fingerprint: None, hot: tagged(text) };
        }
        let fingerprint = fingerprint::of(text);
        let hot = match tagged(text) {
            Hot::Unknown => self.hot.of(fingerprint, text),
            tagged @ (Hot::Tag(_) | Hot::Key(_) | Hot::Parameter { .. }) => tagged,
        };
        Marks { fingerprint: self.fingerprints.then_some(fingerprint), hot }
    }
}

/// Returns the key that a text names in a comment. Almost every text is decided by its last letter.
pub(crate) fn tagged(text: &[u8]) -> Hot {
    let is_open = |text: &[u8]| text.starts_with(b"/*");
    let end = text.trim_ascii_end();
    let end = end.strip_suffix(b";").map_or(end, <[u8]>::trim_ascii_end);
    if !(end.ends_with(b"*/") || is_open(text.trim_ascii_start())) {
        return Hot::Unknown;
    }
    let tags = std::str::from_utf8(text).ok().and_then(Tags::of);
    let key = tags.and_then(|tags| tags.get(TAG)).and_then(|key| fingerprint::of_key(&key));
    key.map_or(Hot::Unknown, Hot::Tag)
}

impl Hot {
    /// Returns the key, unless it depends on a parameter. `session` is the key that the session has set.
    pub fn key(self, session: Option<u64>) -> Option<u64> {
        match self {
            Hot::Tag(key) => Some(key),
            Hot::Key(key) => session.or(Some(key)),
            Hot::Unknown | Hot::Parameter { .. } => session,
        }
    }

    /// Resolves the key with the values of this `Bind`.
    pub fn bound(self, bind: &Bind<'_>) -> Hot {
        let Hot::Parameter { name, number } = self else { return self };
        let value = number.checked_sub(1).and_then(|at| bind.values.iter().nth(at)).flatten();
        let Some(value) = value else { return Hot::Unknown };
        let format = match bind.formats.count() {
            0 => 0,
            1 => bind.formats.iter().next().unwrap_or(0),
            _ => bind.formats.iter().nth(number - 1).unwrap_or(0),
        };
        // Whole numbers have the same key in either format.
        let number = match (format, value.len()) {
            (0, _) => None,
            (_, 2) => value.first_chunk().map(|bytes| i64::from(i16::from_be_bytes(*bytes))),
            (_, 4) => value.first_chunk().map(|bytes| i64::from(i32::from_be_bytes(*bytes))),
            (_, 8) => value.first_chunk().map(|bytes| i64::from_be_bytes(*bytes)),
            _ => None,
        };
        Hot::Key(match number {
            Some(number) => fingerprint::of_value(name, number.to_string().as_bytes()),
            None => fingerprint::of_value(name, value),
        })
    }
}

/// Key of a literal.
pub(super) fn of_literal(name: u64, literal: Literal<'_>) -> Hot {
    match literal {
        Literal::Parameter(number) => Hot::Parameter { name, number },
        Literal::Written(value) if value.contains(&b'\'') => {
            let text = String::from_utf8_lossy(value).replace("''", "'");
            Hot::Key(fingerprint::of_value(name, text.as_bytes()))
        }
        Literal::Written(value) => Hot::Key(fingerprint::of_value(name, value)),
        Literal::Named(_) => Hot::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(rules: &str) -> NeededMarks {
        NeededMarks { fingerprints: true, hot: HotRules::parse(rules).expect("rules") }
    }

    fn key(text: &str) -> Hot {
        Hot::Key(fingerprint::of_key(text).expect("a key"))
    }

    /// Result of a `Bind` of these values, the last one in this format.
    fn bound(hot: Hot, format: u8, values: &[&[u8]]) -> Hot {
        let mut body = vec![0, 0];
        body.extend(u16::try_from(values.len()).expect("a few").to_be_bytes());
        (1..values.len()).for_each(|_| body.extend([0, 0]));
        body.extend([0, format]);
        body.extend(u16::try_from(values.len()).expect("a few").to_be_bytes());
        for value in values {
            body.extend(i32::try_from(value.len()).expect("short").to_be_bytes());
            body.extend(*value);
        }
        body.extend([0, 0]);
        hot.bound(&Bind::read(&body).expect("a bind"))
    }

    #[test]
    fn who_asks_for_nothing_gets_only_what_is_said() {
        let nothing = NeededMarks::default();
        assert_eq!(nothing.marks(b"select 1"), Marks::default());
        let said = nothing.marks(b"select 1 /*hot_key='a%3A7'*/ ;");
        assert_eq!(said, Marks { fingerprint: None, hot: Hot::Tag(fingerprint::of_key("a:7").expect("a key")) });
        assert_eq!(tagged(b"select 1 /*hot_key=''*/"), Hot::Unknown);
        assert_eq!(tagged(b"/*hot_key='x'*/ select 1").key(Some(3)), fingerprint::of_key("x"));
    }

    #[test]
    fn a_row_is_the_same_by_whatever_way_its_key_comes() {
        let asked = asked("a: update t set n = n + $1 where id = $key; a: select n from t where id = $key for update");
        assert_eq!(asked.marks(b"update t set n = n + 5 where id = 42").hot, key("a:42"));
        assert_eq!(asked.marks(b"SELECT n FROM t WHERE id = '42' FOR UPDATE").hot, key("a:42"));
        assert_eq!(asked.marks(b"update t set n = n + 5 where id = 'it''s'").hot, key("a:it's"));
        let parameter = asked.marks(b"update t set n = n + $2 where id = $3").hot;
        assert_eq!(bound(parameter, 0, &[b"x", b"5", b"42"]), key("a:42"));
        for value in [&42_i16.to_be_bytes()[..], &42_i32.to_be_bytes(), &42_i64.to_be_bytes()] {
            assert_eq!(bound(parameter, 1, &[b"x", b"5", value]), key("a:42"));
        }
        assert_eq!(bound(parameter, 1, &[b"5", b"42"]), Hot::Unknown);
        // A tag takes precedence over a rule. Other statements have no known key.
        assert_eq!(
            asked.marks(b"update t set n = n + 5 where id = 42 /*hot_key='b'*/").hot.key(None),
            fingerprint::of_key("b")
        );
        assert_eq!(asked.marks(b"update t set n = n + 5 where id = 42").hot.key(Some(1)), Some(1));
        assert_eq!(asked.marks(b"update u set n = n + 5 where id = 42").hot, Hot::Unknown);
        assert!(asked.marks(b"update u set n = 1").fingerprint.is_some());
    }
}
