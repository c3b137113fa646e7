//! Fields of one row in their encoded form.
//!
//! **Invariant:** a field's bytes are in the data itself or, if they had to be decoded, in a buffer beside it. Fields
//! beyond the columns are counted but not kept, because a line of delimiters has as many fields as bytes.

use std::ops::Range;

/// Field of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyField {
    /// NULL.
    Null,
    /// Range of bytes in the data.
    Raw(Range<usize>),
    /// Range of decoded bytes in the buffer.
    Made(Range<usize>),
}

/// Fields of a row, with its position in the data.
#[derive(Clone, Debug, Default)]
pub struct CopyFields {
    /// Fields in order.
    pub all: Vec<CopyField>,
    /// Number of fields in the data, including those that are not kept.
    pub found: usize,
    /// Buffer of decoded bytes.
    pub made: Vec<u8>,
    /// Range of the row in the data without its line end; `None` while it is unknown.
    pub line: Option<Range<usize>>,
}

impl CopyFields {
    /// Clears the row.
    pub fn clear(&mut self) {
        self.all.clear();
        self.found = 0;
        self.made.clear();
        self.line = None;
    }

    /// Appends the next field of a row with this number of columns.
    pub fn add(&mut self, field: CopyField, columns: usize) {
        self.found += 1;
        // An empty line for a table without columns has one field, which the caller checks.
        if self.found <= columns.max(1) {
            self.all.push(field);
        } else if let CopyField::Made(range) = field {
            self.made.truncate(range.start);
        }
    }

    /// Returns the bytes of a field; `None` if it is null or missing.
    pub fn bytes<'a>(&'a self, data: &'a [u8], at: usize) -> Option<&'a [u8]> {
        match self.all.get(at)? {
            CopyField::Null => None,
            CopyField::Raw(range) => data.get(range.clone()),
            CopyField::Made(range) => self.made.get(range.clone()),
        }
    }
}
