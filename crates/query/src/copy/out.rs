//! Writer of rows.
//!
//! **Invariant:** the readers in this module read the output back unchanged.

use super::{CopyFormat, CopyOptions};
use statement::error::{SqlError, SqlResult, SqlState};
use types::datum::Datum;
use types::forms::Forms;
use types::{SqlType, binary, text};

/// Writer of the rows of one COPY.
#[derive(Debug)]
pub struct CopyWriter<'o> {
    /// Options of the statement.
    pub options: &'o CopyOptions,
    /// Types of the columns.
    pub kinds: &'o [SqlType],
    /// Columns whose values are always quoted.
    pub force_quote: &'o [bool],
    /// Settings for the text form of values.
    pub forms: &'o Forms,
}

impl CopyWriter<'_> {
    /// Appends the beginning of the data: nothing, the columns' names, or the header of the binary format.
    pub fn begin(&self, names: &[String], out: &mut Vec<u8>) {
        if self.options.format == CopyFormat::Binary {
            out.extend_from_slice(b"PGCOPY\n\xff\r\n\0");
            out.extend_from_slice(&[0; 8]);
        } else if self.options.header {
            for (at, name) in names.iter().enumerate() {
                self.separate(at, out);
                match self.options.format {
                    CopyFormat::Csv => self.csv(name, false, names.len() == 1, out),
                    CopyFormat::Text | CopyFormat::Binary => self.text(name, out),
                }
            }
            out.push(b'\n');
        }
    }

    /// Appends the end of the data.
    pub fn end(&self, out: &mut Vec<u8>) {
        if self.options.format == CopyFormat::Binary {
            out.extend_from_slice(&(-1_i16).to_be_bytes());
        }
    }

    fn separate(&self, at: usize, out: &mut Vec<u8>) {
        if 0 < at {
            out.push(self.options.delimiter);
        }
    }

    /// Appends a row with its end. `buffer` is scratch memory for one value.
    ///
    /// # Errors
    /// Fails with `54000` for a value that is too long.
    pub fn row(&self, row: &[Datum], buffer: &mut String, out: &mut Vec<u8>) -> SqlResult<()> {
        if self.options.format == CopyFormat::Binary {
            return self.binary(row, out);
        }
        for (at, (value, kind)) in row.iter().zip(self.kinds).enumerate() {
            self.separate(at, out);
            if value.is_null() {
                out.extend_from_slice(self.options.null.as_bytes());
                continue;
            }
            buffer.clear();
            text::output(value, *kind, self.forms, buffer);
            match self.options.format {
                CopyFormat::Csv => {
                    let is_forced = self.force_quote.get(at).copied().unwrap_or(false);
                    self.csv(buffer, is_forced, row.len() == 1, out);
                }
                CopyFormat::Text | CopyFormat::Binary => self.text(buffer, out),
            }
        }
        out.push(b'\n');
        Ok(())
    }

    fn binary(&self, row: &[Datum], out: &mut Vec<u8>) -> SqlResult<()> {
        let too_long = |_| SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a row is too long for COPY");
        out.extend_from_slice(&i16::try_from(row.len()).map_err(too_long)?.to_be_bytes());
        for (value, kind) in row.iter().zip(self.kinds) {
            let start = out.len();
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            if !value.is_null() {
                binary::output(value, *kind, out);
                let length = i32::try_from(out.len() - start - 4).map_err(too_long)?;
                out[start..start + 4].copy_from_slice(&length.to_be_bytes());
            }
        }
        Ok(())
    }

    fn text(&self, value: &str, out: &mut Vec<u8>) {
        for byte in value.bytes() {
            let letter = match byte {
                8 => b'b',
                12 => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                11 => b'v',
                b'\\' => b'\\',
                byte if byte == self.options.delimiter => byte,
                byte => {
                    out.push(byte);
                    continue;
                }
            };
            out.extend_from_slice(&[b'\\', letter]);
        }
    }

    fn csv(&self, value: &str, is_forced: bool, is_alone: bool, out: &mut Vec<u8>) {
        let CopyOptions { delimiter, quote, escape, null, .. } = self.options;
        let is_special = |byte: u8| byte == *delimiter || byte == *quote || matches!(byte, b'\n' | b'\r');
        // An unquoted `\.` on a line of its own would end the data.
        let needs_quotes = is_forced || value == null || (is_alone && value == "\\.") || value.bytes().any(is_special);
        if !needs_quotes {
            out.extend_from_slice(value.as_bytes());
            return;
        }
        out.push(*quote);
        for byte in value.bytes() {
            if byte == *quote || byte == *escape {
                out.push(*escape);
            }
            out.push(byte);
        }
        out.push(*quote);
    }
}
