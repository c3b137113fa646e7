//! The fields of one row, as its format has them.
//!
//! **Invariant:** a field's bytes stand in the data themselves, or, if they had to be changed, in memory beside them. Fields that
//! no column takes are counted and not kept: a line of delimiters has as many as it has bytes.

use std::ops::Range;

/// One field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyField {
    /// NULL.
    Null,
    /// Bytes of the data.
    Raw(Range<usize>),
    /// Bytes that were made from them.
    Made(Range<usize>),
}

/// A row's fields, and where it stands.
#[derive(Clone, Debug, Default)]
pub struct CopyFields {
    /// Fields in order.
    pub all: Vec<CopyField>,
    /// Number of fields in the data, those that are not kept included.
    pub found: usize,
    /// What fields are made of.
    pub made: Vec<u8>,
    /// The row in the data, without its end; none while it is not known.
    pub line: Option<Range<usize>>,
}

impl CopyFields {
    /// Empties the row.
    pub fn clear(&mut self) {
        self.all.clear();
        self.found = 0;
        self.made.clear();
        self.line = None;
    }

    /// Adds the next field of a row for so many columns.
    pub fn add(&mut self, field: CopyField, columns: usize) {
        self.found += 1;
        // An empty line of a table without columns has one field, which is looked at.
        if self.found <= columns.max(1) {
            self.all.push(field);
        } else if let CopyField::Made(range) = field {
            self.made.truncate(range.start);
        }
    }

    /// The bytes of a field, nothing if it is null or there is none.
    pub fn bytes<'a>(&'a self, data: &'a [u8], at: usize) -> Option<&'a [u8]> {
        match self.all.get(at)? {
            CopyField::Null => None,
            CopyField::Raw(range) => data.get(range.clone()),
            CopyField::Made(range) => self.made.get(range.clone()),
        }
    }
}
