//! Options of COPY.
//!
//! **Invariant:** each option is used or refused, with PostgreSQL's messages and in the order of its checks
//! (`ProcessCopyOptions`).

use statement::error::{SqlError, SqlResult, SqlState};
use syntax::ast::{CommandOption, OptionValue};

/// Format of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// `text`
    Text,
    /// `csv`
    Csv,
    /// `binary`
    Binary,
}

/// Columns that an option names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyColumns {
    /// All columns: `*`.
    All,
    /// Columns of these names.
    These(Vec<String>),
}

/// Options of COPY, with the defaults of those that are not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// Format of the data.
    pub format: CopyFormat,
    /// Byte between fields.
    pub delimiter: u8,
    /// Text of NULL.
    pub null: String,
    /// True if the first line has the columns' names.
    pub header: bool,
    /// True if the header's names must match the columns'.
    pub header_must_match: bool,
    /// Quoting byte of CSV.
    pub quote: u8,
    /// Byte before a quote in a quoted field.
    pub escape: u8,
    /// Columns that are always quoted.
    pub force_quote: CopyColumns,
    /// Columns in which the null string is read as text.
    pub force_not_null: CopyColumns,
    /// Columns in which a quoted null string is read as NULL.
    pub force_null: CopyColumns,
    /// True with `FREEZE`.
    pub freeze: bool,
}

const NAMES: &[&str] = &[
    "format",
    "freeze",
    "delimiter",
    "null",
    "header",
    "quote",
    "escape",
    "force_quote",
    "force_not_null",
    "force_null",
    "encoding",
];

/// Options in the syntax tree, with the statement's text.
struct WrittenOptions<'o> {
    options: &'o [CommandOption],
    text: &'o str,
    is_from: bool,
}

impl<'o> WrittenOptions<'o> {
    fn find(&self, name: &str) -> Option<&'o CommandOption> {
        self.options.iter().find(|option| *option.name == *name)
    }

    /// Adds the position of an option to an error.
    fn at(&self, error: SqlError, option: &CommandOption) -> SqlError {
        error.at(option.name.span.position(self.text))
    }

    /// Refuses unknown and repeated options.
    fn check_names(&self) -> SqlResult<()> {
        for (at, option) in self.options.iter().enumerate() {
            if !NAMES.contains(&&*option.name) {
                let message = format!("option \"{}\" not recognized", option.name);
                return Err(self.at(SqlError::new(SqlState::SYNTAX_ERROR, message), option));
            }
            if self.options[..at].iter().any(|other| other.name == option.name) {
                let error = SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options");
                return Err(self.at(error, option));
            }
        }
        Ok(())
    }

    fn string(&self, name: &str) -> SqlResult<Option<&'o str>> {
        let Some(option) = self.find(name) else { return Ok(None) };
        match &option.value {
            Some(OptionValue::Text(text) | OptionValue::Number(text)) => Ok(Some(text)),
            Some(OptionValue::Star) => Ok(Some("*")),
            Some(OptionValue::List(_)) | None => Err(syntax(&format!("{name} requires a parameter"))),
        }
    }

    fn format(&self) -> SqlResult<CopyFormat> {
        let Some(option) = self.find("format") else { return Ok(CopyFormat::Text) };
        match self.string("format")? {
            None | Some("text") => Ok(CopyFormat::Text),
            Some("csv") => Ok(CopyFormat::Csv),
            Some("binary") => Ok(CopyFormat::Binary),
            Some(other) => Err(self.at(invalid(&format!("COPY format \"{other}\" not recognized")), option)),
        }
    }

    /// Returns whether there is a header, and whether its names must match the columns'.
    fn header(&self) -> SqlResult<(bool, bool)> {
        let Some(option) = self.find("header") else { return Ok((false, false)) };
        if let Some(value) = boolean(option) {
            return Ok((value, false));
        }
        match &option.value {
            Some(OptionValue::Text(word)) if word.eq_ignore_ascii_case("match") && self.is_from => Ok((true, true)),
            Some(OptionValue::Text(word)) if word.eq_ignore_ascii_case("match") => {
                Err(unsupported("cannot use \"match\" with HEADER in COPY TO"))
            }
            _ => Err(syntax("header requires a Boolean value or \"match\"")),
        }
    }

    fn freeze(&self) -> SqlResult<bool> {
        match self.find("freeze") {
            None => Ok(false),
            Some(option) => boolean(option).ok_or_else(|| syntax("freeze requires a Boolean value")),
        }
    }

    fn columns(&self, name: &str) -> SqlResult<CopyColumns> {
        let Some(option) = self.find(name) else { return Ok(CopyColumns::These(Vec::new())) };
        match &option.value {
            Some(OptionValue::Star) if name == "force_quote" => Ok(CopyColumns::All),
            Some(OptionValue::List(names)) => Ok(CopyColumns::These(names.iter().map(ToString::to_string).collect())),
            Some(OptionValue::Star | OptionValue::Text(_) | OptionValue::Number(_)) | None => {
                let message = format!("argument to option \"{name}\" must be a list of column names");
                Err(self.at(invalid(&message), option))
            }
        }
    }

    fn check_encoding(&self) -> SqlResult<()> {
        let Some(encoding) = self.string("encoding")? else { return Ok(()) };
        let plain: String = encoding.chars().filter(char::is_ascii_alphanumeric).collect();
        match &*plain.to_ascii_lowercase() {
            "utf8" | "unicode" => Ok(()),
            _ => Err(SqlError::unsupported(format_args!("the encoding {encoding} in COPY"))),
        }
    }

    fn check_binary(&self) -> SqlResult<()> {
        for (name, what) in [("delimiter", "DELIMITER"), ("null", "NULL")] {
            if self.find(name).is_some() {
                return Err(syntax(&format!("cannot specify {what} in BINARY mode")));
            }
        }
        Ok(())
    }

    /// Refuses an option of CSV in another format.
    fn only_csv(&self, name: &str, what: &str, is_csv: bool) -> SqlResult<()> {
        match self.find(name) {
            Some(_) if !is_csv => Err(unsupported(&format!("COPY {what} available only in CSV mode"))),
            _ => Ok(()),
        }
    }

    /// Refuses an option of one direction in the other.
    fn only(&self, name: &str, what: &str, of_from: bool) -> SqlResult<()> {
        let of = if of_from { "FROM" } else { "TO" };
        match self.find(name) {
            Some(_) if self.is_from != of_from => {
                Err(unsupported(&format!("COPY {what} only available using COPY {of}")))
            }
            _ => Ok(()),
        }
    }

    fn check_forced(&self, is_csv: bool) -> SqlResult<()> {
        for (name, what, of_from) in [
            ("force_quote", "force quote", false),
            ("force_not_null", "force not null", true),
            ("force_null", "force null", true),
        ] {
            self.only_csv(name, what, is_csv)?;
            self.only(name, what, of_from)?;
        }
        Ok(())
    }
}

/// Returns the value of a Boolean option; `None` if it is not Boolean.
fn boolean(option: &CommandOption) -> Option<bool> {
    let word = match &option.value {
        None => return Some(true),
        Some(OptionValue::Text(word) | OptionValue::Number(word)) => word.to_ascii_lowercase(),
        Some(OptionValue::Star | OptionValue::List(_)) => return None,
    };
    match &*word {
        "true" | "on" | "1" => Some(true),
        "false" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Returns the single byte of a text, or an error.
fn one_byte(text: &str, what: &str) -> SqlResult<u8> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(unsupported(&format!("COPY {what} must be a single one-byte character"))),
    }
}

fn check_delimiter(delimiter: &str, null: &str, is_csv: bool) -> SqlResult<u8> {
    let byte = one_byte(delimiter, "delimiter")?;
    if matches!(byte, b'\n' | b'\r') {
        return Err(invalid("COPY delimiter cannot be newline or carriage return"));
    }
    if null.contains(['\n', '\r']) {
        return Err(invalid("COPY null representation cannot use newline or carriage return"));
    }
    if !is_csv && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&byte) {
        return Err(invalid(&format!("COPY delimiter cannot be \"{delimiter}\"")));
    }
    Ok(byte)
}

impl CopyOptions {
    /// Checks the options of a statement with this text.
    ///
    /// # Errors
    /// Fails with `42601`, `22023` or `0A000`.
    pub fn of(options: &[CommandOption], text: &str, is_from: bool) -> SqlResult<CopyOptions> {
        // The checks follow PostgreSQL's order, which decides the error of a statement with several mistakes.
        let written = WrittenOptions { options, text, is_from };
        written.check_names()?;
        let format = written.format()?;
        let is_csv = format == CopyFormat::Csv;
        let (header, header_must_match) = written.header()?;
        let freeze = written.freeze()?;
        let force_quote = written.columns("force_quote")?;
        let (force_not_null, force_null) = (written.columns("force_not_null")?, written.columns("force_null")?);
        written.check_encoding()?;
        if format == CopyFormat::Binary {
            written.check_binary()?;
        }
        let delimiter = written.string("delimiter")?.unwrap_or(if is_csv { "," } else { "\t" });
        let null = written.string("null")?.unwrap_or(if is_csv { "" } else { "\\N" });
        let quote = written.string("quote")?.unwrap_or("\"");
        let escape = written.string("escape")?.unwrap_or(quote);
        let delimiter = check_delimiter(delimiter, null, is_csv)?;
        if format == CopyFormat::Binary && header {
            return Err(unsupported("cannot specify HEADER in BINARY mode"));
        }
        written.only_csv("quote", "quote", is_csv)?;
        let quote = if is_csv { one_byte(quote, "quote")? } else { b'"' };
        if is_csv && delimiter == quote {
            return Err(invalid("COPY delimiter and quote must be different"));
        }
        written.only_csv("escape", "escape", is_csv)?;
        let escape = if is_csv { one_byte(escape, "escape")? } else { b'"' };
        written.check_forced(is_csv)?;
        if null.as_bytes().contains(&delimiter) {
            return Err(unsupported("COPY delimiter must not appear in the NULL specification"));
        }
        if is_csv && null.as_bytes().contains(&quote) {
            return Err(unsupported("CSV quote character must not appear in the NULL specification"));
        }
        Ok(CopyOptions {
            format,
            delimiter,
            null: null.to_owned(),
            header,
            header_must_match,
            quote,
            escape,
            force_quote,
            force_not_null,
            force_null,
            freeze,
        })
    }
}

impl CopyColumns {
    /// Returns for each column whether the option names it. `unknown` creates the error for a name that is not a
    /// column.
    pub fn among(&self, columns: &[String], unknown: &dyn Fn(&str) -> SqlError) -> SqlResult<Vec<bool>> {
        let names = match self {
            CopyColumns::All => return Ok(vec![true; columns.len()]),
            CopyColumns::These(names) => names,
        };
        match names.iter().find(|name| !columns.contains(name)) {
            Some(name) => Err(unknown(name)),
            None => Ok(columns.iter().map(|column| names.contains(column)).collect()),
        }
    }
}

fn syntax(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn unsupported(message: &str) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}
