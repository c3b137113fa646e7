//! Cursors over rows.

use crate::bytes::{Message, code};
use crate::call::Call;
use crate::error::Result;
use crate::row::Row;
use std::collections::VecDeque;

/// Rows that one call fetches.
const FETCH_ROWS: u32 = 256;

/// Cursor over the rows of a table or of a statement's result. It is open until its last row is fetched, it is closed,
/// or the invocation ends.
#[derive(Debug)]
pub struct Cursor {
    number: u32,
    fetched: VecDeque<Row>,
    is_over: bool,
}

impl Cursor {
    pub(crate) fn numbered(number: u32) -> Cursor {
        Cursor { number, fetched: VecDeque::new(), is_over: false }
    }

    /// Returns the next row, and `None` after the last. Rows are fetched in packets.
    ///
    /// # Errors
    /// As [`Call`].
    pub fn next(&mut self, call: &mut Call<'_>) -> Result<Option<Row>> {
        while self.fetched.is_empty() && !self.is_over {
            let request = call.begin(code::NEXT);
            request.extend_from_slice(&self.number.to_le_bytes());
            request.extend_from_slice(&FETCH_ROWS.to_le_bytes());
            let answer = call.exchange_shared()?;
            let mut answer = Message::from(&answer, 0);
            self.fetched.extend(answer.rows()?);
            self.is_over = answer.reader.bool()?;
        }
        Ok(self.fetched.pop_front())
    }

    /// Returns an iterator over the rows, for code that makes no other calls meanwhile.
    pub fn rows<'c, 'h>(self, call: &'c mut Call<'h>) -> CursorRows<'c, 'h> {
        CursorRows { cursor: self, call }
    }

    /// Closes the cursor.
    ///
    /// # Errors
    /// As [`Call`].
    pub fn close(self, call: &mut Call<'_>) -> Result<()> {
        if self.is_over {
            return Ok(());
        }
        call.begin(code::CLOSE).extend_from_slice(&self.number.to_le_bytes());
        call.exchange().map(drop)
    }
}

/// Iterator over the rows of a cursor.
#[derive(Debug)]
pub struct CursorRows<'c, 'h> {
    cursor: Cursor,
    call: &'c mut Call<'h>,
}

impl Iterator for CursorRows<'_, '_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        self.cursor.next(self.call).transpose()
    }
}
