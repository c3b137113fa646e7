//! Rules that name the value of a statement at which its transactions conflict with others: `overtake.gate_hot`.
//!
//! A rule is a statement in which `$key` stands for that value, `update accounts set balance = balance + $1 where id =
//! $key`. The rule matches all statements that differ from it only in their values. Where several statements have one
//! name before them, `accounts: …`, equal values are one key.
//!
//! **Invariant:** a rule has its value in one place, and every statement of its fingerprint has that place, too.

use super::marks::{Hot, of_literal};
use std::collections::HashMap;
use syntax::fingerprint::{self, Literal};

/// Table of the rules, by the fingerprints of their statements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotRules(HashMap<u64, KeyPosition>);

/// Position of the key in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyPosition {
    /// Hash of the rule's name.
    name: u64,
    /// Index of the key among the statement's values.
    value: usize,
}

/// Splits a text at semicolons outside of quotes.
fn cut(text: &str) -> Vec<&str> {
    let (mut quote, mut parts, mut begin) = (None, Vec::new(), 0);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            (None, ';') => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Splits a rule into the name before its statement, if any, and the statement.
fn named(rule: &str) -> (Option<&str>, &str) {
    let is_name = |name: &str| name.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    match rule.split_once(':') {
        Some((name, statement)) if is_name(name) && !name.is_empty() && !statement.starts_with(':') => {
            (Some(name), statement)
        }
        _ => (None, rule),
    }
}

impl HotRules {
    /// Parses rules that are separated by semicolons.
    ///
    /// # Errors
    /// The reason why one of them is invalid.
    pub fn parse(text: &str) -> Result<HotRules, String> {
        let mut rules = HashMap::new();
        for rule in cut(text) {
            let (name, statement) = named(rule);
            let mut places = Vec::new();
            let fingerprint = fingerprint::walk(statement.as_bytes(), |value, literal| {
                if literal == Literal::Named(b"key") {
                    places.push(value);
                }
            });
            let [value] = places[..] else {
                return Err(format!("\"{rule}\": $key must stand in it once, for the value that it meets others at"));
            };
            let name = match name {
                Some(name) => fingerprint::of_bytes([name.as_bytes()]),
                None => fingerprint,
            };
            if rules.insert(fingerprint, KeyPosition { name, value }).is_some() {
                return Err(format!("\"{rule}\": this statement is there twice"));
            }
        }
        Ok(HotRules(rules))
    }

    /// True if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the key of a statement with this fingerprint.
    pub fn of(&self, fingerprint: u64, text: &[u8]) -> Hot {
        let Some(place) = self.0.get(&fingerprint) else { return Hot::Unknown };
        let mut hot = Hot::Unknown;
        fingerprint::walk(text, |value, literal| {
            if value == place.value {
                hot = of_literal(place.name, literal);
            }
        });
        hot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_one_key_each() {
        assert!(HotRules::parse(" ; ").expect("none").is_empty());
        let two = "update t set a = ';' where id = $key; b: select x::int from t where id = $key";
        assert_eq!(HotRules::parse(two).expect("rules").0.len(), 2);
        for wrong in [
            "update t set a = 1",
            "update t set a = $key where id = $key",
            "update t set a = $1 where id = $key; update t set a = 2 where id=$key",
        ] {
            assert!(HotRules::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn statements_without_a_name_keep_apart() {
        let rules =
            HotRules::parse("update t set a = 1 where id = $key; update u set a = 1 where id = $key").expect("rules");
        let hot = |text: &str| rules.of(fingerprint::of(text.as_bytes()), text.as_bytes());
        assert_ne!(hot("update t set a = 1 where id = 7"), hot("update u set a = 1 where id = 7"));
        assert_eq!(hot("update t set a = 1 where id = 7"), hot("update t set a = 2 where id = 7"));
    }
}
