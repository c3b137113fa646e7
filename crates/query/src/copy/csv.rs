//! Reader of CSV.
//!
//! **Invariant:** line ends inside quotes do not end a row; a quoted field is never null unless `FORCE_NULL` applies.

use super::read::{CopyReader, EndMarker, LineBoundary, LineEnd, NextRow, OTHER_STYLE};
use super::{CopyField, CopyFields, bad};
use statement::error::SqlResult;
use statement::pulse;

impl CopyReader {
    pub(super) fn csv(
        &mut self,
        data: &[u8],
        at: &mut usize,
        is_all: bool,
        fields: &mut CopyFields,
    ) -> SqlResult<NextRow> {
        let begin = *at;
        if begin == data.len() {
            return Ok(if is_all { NextRow::End } else { NextRow::More });
        }
        if data[begin..].starts_with(b"\\.") {
            match self.mark_at(data, begin, is_all) {
                EndMarker::More => return Ok(NextRow::More),
                EndMarker::End => {
                    self.has_ended = true;
                    *at = data.len();
                    return Ok(NextRow::End);
                }
                // The marker is data here; its newline raises an error of its own below.
                EndMarker::OtherStyle if self.line_end == LineEnd::Both && data.get(begin + 2) == Some(&b'\n') => {}
                EndMarker::OtherStyle => {
                    self.line_number += 1;
                    return Err(bad(OTHER_STYLE));
                }
                EndMarker::None => {}
            }
        }
        let mut here = begin;
        // Line ends inside quotes count as lines.
        let mut lines = 1;
        // Position up to which bytes have been counted as work.
        let mut counted = begin;
        loop {
            let start = fields.made.len();
            let from = here;
            let (mut was_quoted, mut in_quote, mut is_plain) = (false, false, true);
            // Width of the line end behind the field; `None` behind a delimiter.
            let behind = loop {
                if counted + pulse::SLICE <= here {
                    pulse::tick(here - counted)?;
                    counted = here;
                }
                let Some(&byte) = data.get(here) else {
                    if !is_all {
                        return Ok(NextRow::More);
                    }
                    if in_quote {
                        self.line_number += 1;
                        fields.line = Some(begin..data.len());
                        return Err(bad("unterminated CSV quoted field"));
                    }
                    break Some(0);
                };
                if in_quote {
                    if byte == self.escape {
                        match data.get(here + 1) {
                            None if !is_all => return Ok(NextRow::More),
                            Some(&next) if next == self.quote || next == self.escape => {
                                fields.made.push(next);
                                here += 2;
                                continue;
                            }
                            _ => {}
                        }
                    }
                    if byte == self.quote {
                        in_quote = false;
                    } else {
                        // Like PostgreSQL, this counts newlines only once they are known to end lines.
                        let end = if self.line_end == LineEnd::Newline { b'\n' } else { b'\r' };
                        lines += u64::from(byte == end);
                        fields.made.push(byte);
                    }
                    here += 1;
                    continue;
                }
                match byte {
                    b'\n' | b'\r' => match self.line_end_at(data, here, is_all)? {
                        LineBoundary::More => return Ok(NextRow::More),
                        LineBoundary::End(bytes) => break Some(bytes),
                        LineBoundary::Data => {
                            self.line_number += lines;
                            let what = if byte == b'\n' { "newline" } else { "carriage return" };
                            return Err(bad(format!("unquoted {what} found in data"))
                                .hint(format!("Use quoted CSV field to represent {what}.")));
                        }
                    },
                    byte if byte == self.delimiter => break None,
                    byte if byte == self.quote => {
                        (in_quote, was_quoted, is_plain) = (true, true, false);
                        here += 1;
                    }
                    byte => {
                        fields.made.push(byte);
                        here += 1;
                    }
                }
            };
            let made = start..fields.made.len();
            let field = if !was_quoted && fields.made[made.clone()] == *self.null {
                CopyField::Null
            } else if is_plain {
                fields.made.truncate(start);
                CopyField::Raw(from..here)
            } else {
                CopyField::Made(made)
            };
            fields.add(field, self.columns);
            match behind {
                None => here += 1,
                Some(bytes) => {
                    self.line_number += lines;
                    fields.line = Some(begin..here);
                    *at = here + bytes;
                    return Ok(NextRow::Row);
                }
            }
        }
    }
}
