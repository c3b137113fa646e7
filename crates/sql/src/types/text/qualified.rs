//! Qualified names as text: `schema.name`, parts in quotes where they must be.

use super::{NAME_MAX, clipped};

/// Splits a name into its parts, folded unless they stand in quotes. `None`: it is no name.
pub(crate) fn name_parts(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut part = String::new();
            let mut letters = quoted.char_indices().peekable();
            let end = loop {
                match letters.next()? {
                    (at, '"') if letters.peek().is_some_and(|(_, next)| *next == '"') => {
                        letters.next();
                        let _ = at;
                        part.push('"');
                    }
                    (at, '"') => break at + 1,
                    (_, letter) => part.push(letter),
                }
            };
            if part.is_empty() {
                return None;
            }
            parts.push(clipped(&part, NAME_MAX).to_owned());
            rest = quoted[end..].trim_start();
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            let word = rest[..end].trim_end();
            let is_word = word.chars().all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '$');
            if word.is_empty() || !is_word || word.starts_with(|first: char| first.is_ascii_digit() || first == '$') {
                return None;
            }
            parts.push(clipped(&word.to_lowercase(), NAME_MAX).to_owned());
            rest = &rest[end..];
        }
        match rest.strip_prefix('.') {
            Some(more) => rest = more.trim_start(),
            None if rest.is_empty() => return Some(parts),
            None => return None,
        }
    }
}
