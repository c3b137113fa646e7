//! Places in a text.

use std::hash::{Hash, Hasher};

/// Place in a text: bytes from `start` to before `end`.
///
/// Two spans are always equal: trees are compared by their contents, as PostgreSQL's `equal()` does, not by their
/// places.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Byte after the last.
    pub end: u32,
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Eq for Span {}

/// Equal trees have equal hashes.
impl Hash for Span {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Span {
    /// Place of a part that is not in any text.
    pub const NOWHERE: Span = Span { start: 0, end: 0 };

    /// Returns true for a place in a text.
    pub fn is_known(self) -> bool {
        0 < self.end
    }

    /// Returns this place, or the other if this one is unknown.
    #[must_use]
    pub fn or(self, other: Span) -> Span {
        if self.is_known() { self } else { other }
    }

    /// Creates the span of these bytes.
    pub fn new(start: usize, end: usize) -> Span {
        // Texts are shorter: a message of the protocol has at most 1 GiB.
        let byte = |byte: usize| u32::try_from(byte).unwrap_or(u32::MAX);
        Span { start: byte(start), end: byte(end) }
    }

    /// Returns the span from the beginning of this one to the end of another.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end }
    }

    /// Returns the text of the span.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or("")
    }

    /// Returns the character of the text at which the span begins, the first being 1: the position of an error.
    pub fn position(self, text: &str) -> usize {
        let end = text.floor_char_boundary(self.start as usize);
        text[..end].chars().count() + 1
    }
}
