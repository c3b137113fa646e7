//! Places in a text.

use std::hash::{Hash, Hasher};

/// Bytes of a text, from `start` to before `end`.
///
/// Two spans are always equal: trees are compared by what they say, as PostgreSQL's `equal()` does, not by where it stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Byte behind the last.
    pub end: u32,
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Eq for Span {}

/// Trees that are equal have equal hashes.
impl Hash for Span {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Span {
    /// Place of what no text says.
    pub const NOWHERE: Span = Span { start: 0, end: 0 };

    /// Returns true for the place of something that a text says.
    pub fn is_known(self) -> bool {
        0 < self.end
    }

    /// This place, or the other if nothing stands here.
    #[must_use]
    pub fn or(self, other: Span) -> Span {
        if self.is_known() { self } else { other }
    }

    /// Span of these bytes.
    pub fn new(start: usize, end: usize) -> Span {
        // Texts are shorter: a message of the protocol has at most 1 GiB.
        let byte = |byte: usize| u32::try_from(byte).unwrap_or(u32::MAX);
        Span { start: byte(start), end: byte(end) }
    }

    /// Span from the begin of this one to the end of another.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end }
    }

    /// Text of the span.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or("")
    }

    /// Character of the text at which the span begins, the first being 1: the position of an error.
    pub fn position(self, text: &str) -> usize {
        let end = text.floor_char_boundary(self.start as usize);
        text[..end].chars().count() + 1
    }
}
