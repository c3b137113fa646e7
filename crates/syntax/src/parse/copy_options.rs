//! What stands behind `STDIN` and `STDOUT` in a COPY: options in today's and in old syntax. The library knows but some.
//!
//! **Invariant:** each option is used or refused, in PostgreSQL's words (`ProcessCopyOptions`).

use super::near;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use statement::error::{SqlError, SqlResult, SqlState};

/// An option as it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    name: String,
    value: Value,
    position: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    None,
    /// A word or a number.
    Word(String),
    Text(String),
    Star,
    List(Vec<String>),
}

/// How the data look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `text`
    Text,
    /// `csv`
    Csv,
    /// `binary`
    Binary,
}

/// Columns that an option names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// All columns: `*`.
    All,
    /// Columns of these names.
    These(Vec<String>),
}

/// What they come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Format of the data.
    pub format: Format,
    /// Byte between fields.
    pub delimiter: u8,
    /// Text of NULL.
    pub null: String,
    /// True if the first line has the columns' names.
    pub header: bool,
    /// The header's names are compared with the columns'.
    pub header_must_match: bool,
    /// Quoting byte of CSV.
    pub quote: u8,
    /// Byte before a quote in a quoted field.
    pub escape: u8,
    /// Columns that are always quoted.
    pub force_quote: Named,
    /// Columns that are never NULL.
    pub force_not_null: Named,
    /// Columns in which a quoted text may be NULL.
    pub force_null: Named,
    /// True with `FREEZE`.
    pub freeze: bool,
}

/// If a statement is a COPY from or to the client: the tokens that the library parses, and the options behind them.
pub fn cut<'t>(text: &str, tokens: &'t [TokenWithSpan]) -> SqlResult<Option<(&'t [TokenWithSpan], Vec<Written>)>> {
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let mut words = tokens.iter().enumerate().filter(|(_, token)| !is_space(token));
    if !words.next().is_some_and(|(_, token)| is_word(token, "copy")) {
        return Ok(None);
    }
    let (mut depth, mut is_behind) = (0_usize, false);
    let mut words = words.peekable();
    let of_query = words.peek().is_some_and(|(_, token)| token.token == Token::LParen);
    for (at, token) in words {
        if of_query && depth == 0 && is_word(token, "from") {
            return Err(near(text, Some(token)));
        }
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if is_behind && (is_word(token, "stdin") || is_word(token, "stdout")) => {
                let rest: Vec<&TokenWithSpan> =
                    tokens[at + 1..].iter().filter(|token| !is_space(token) && token.token != Token::EOF).collect();
                let options = Cursor { text, tokens: &rest, at: 0 }.options()?;
                return Ok(Some((&tokens[..=at], options)));
            }
            _ => {}
        }
        is_behind = depth == 0 && (is_word(token, "from") || is_word(token, "to"));
    }
    Ok(None)
}

fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// A way through tokens.
struct Cursor<'c, 't> {
    text: &'c str,
    tokens: &'c [&'t TokenWithSpan],
    at: usize,
}

impl Cursor<'_, '_> {
    fn peek(&self) -> Option<&TokenWithSpan> {
        self.tokens.get(self.at).copied()
    }

    /// Goes on if the next word is this.
    fn word(&mut self, word: &str) -> bool {
        let is_it = self.peek().is_some_and(|token| is_word(token, word));
        self.at += usize::from(is_it);
        is_it
    }

    fn token(&mut self, token: &Token) -> bool {
        let is_it = self.peek().is_some_and(|next| next.token == *token);
        self.at += usize::from(is_it);
        is_it
    }

    fn wrong(&self) -> SqlError {
        near(self.text, self.peek())
    }

    fn position(&self) -> usize {
        self.peek().map_or(0, |token| crate::parse::position(self.text, token.span.start))
    }

    fn options(mut self) -> SqlResult<Vec<Written>> {
        self.word("with");
        let mut all = Vec::new();
        if self.token(&Token::LParen) {
            loop {
                let position = self.position();
                let name = self.name()?;
                all.push(Written { name, value: self.value()?, position });
                if self.token(&Token::RParen) {
                    break;
                }
                if !self.token(&Token::Comma) {
                    return Err(self.wrong());
                }
            }
        } else {
            while self.peek().is_some_and(|token| !is_word(token, "where")) {
                all.push(self.old()?);
            }
        }
        if self.word("where") {
            return Err(SqlError::unsupported("COPY FROM ... WHERE"));
        }
        if self.peek().is_some() {
            return Err(self.wrong());
        }
        Ok(all)
    }

    fn old(&mut self) -> SqlResult<Written> {
        let position = self.position();
        let written = |name: &str, value: Value| Written { name: name.to_owned(), value, position };
        for (word, name, value) in [
            ("binary", "format", Value::Word("binary".to_owned())),
            ("csv", "format", Value::Word("csv".to_owned())),
            ("freeze", "freeze", Value::None),
            ("header", "header", Value::None),
        ] {
            if self.word(word) {
                return Ok(written(name, value));
            }
        }
        for word in ["delimiter", "null", "quote", "escape", "encoding"] {
            if self.word(word) {
                if word != "encoding" {
                    self.word("as");
                }
                return Ok(written(word, Value::Text(self.string()?)));
            }
        }
        if !self.word("force") {
            return Err(self.wrong());
        }
        let name = if self.word("quote") {
            if self.token(&Token::Mul) {
                return Ok(written("force_quote", Value::Star));
            }
            "force_quote"
        } else if self.word("null") {
            "force_null"
        } else if self.word("not") && self.word("null") {
            "force_not_null"
        } else {
            return Err(self.wrong());
        };
        let mut columns = vec![self.name()?];
        while self.token(&Token::Comma) {
            columns.push(self.name()?);
        }
        Ok(written(name, Value::List(columns)))
    }

    /// A name, lower case unless it is quoted.
    fn name(&mut self) -> SqlResult<String> {
        let Some(TokenWithSpan { token: Token::Word(word), .. }) = self.peek() else { return Err(self.wrong()) };
        let name = if word.quote_style.is_some() { word.value.clone() } else { word.value.to_ascii_lowercase() };
        self.at += 1;
        Ok(name)
    }

    fn string(&mut self) -> SqlResult<String> {
        let Some(token) = self.peek() else { return Err(self.wrong()) };
        let text = match &token.token {
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => text.clone(),
            Token::DollarQuotedString(quoted) => quoted.value.clone(),
            _ => return Err(self.wrong()),
        };
        self.at += 1;
        Ok(text)
    }

    fn value(&mut self) -> SqlResult<Value> {
        let sign = if self.token(&Token::Minus) { "-" } else { "" };
        let Some(token) = self.peek() else { return Err(self.wrong()) };
        let value = match &token.token {
            Token::Word(_) => Value::Word(self.name()?),
            Token::Number(digits, _) => {
                let word = format!("{sign}{digits}");
                self.at += 1;
                Value::Word(word)
            }
            Token::Mul => {
                self.at += 1;
                Value::Star
            }
            Token::LParen => {
                self.at += 1;
                let mut items = Vec::new();
                loop {
                    items.push(match self.peek().map(|token| &token.token) {
                        Some(Token::Word(_)) => self.name()?,
                        _ => self.string()?,
                    });
                    if self.token(&Token::RParen) {
                        break Value::List(items);
                    }
                    if !self.token(&Token::Comma) {
                        return Err(self.wrong());
                    }
                }
            }
            Token::Comma | Token::RParen => Value::None,
            _ => Value::Text(self.string()?),
        };
        Ok(value)
    }
}

impl Written {
    fn text(&self) -> SqlResult<&str> {
        match &self.value {
            Value::Word(text) | Value::Text(text) => Ok(text),
            Value::Star => Ok("*"),
            Value::None | Value::List(_) => {
                Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{} requires a parameter", self.name)))
            }
        }
    }

    fn boolean(&self) -> SqlResult<Option<bool>> {
        let word = match &self.value {
            Value::None => return Ok(Some(true)),
            Value::Word(word) | Value::Text(word) => word.to_ascii_lowercase(),
            Value::Star | Value::List(_) => return Ok(None),
        };
        Ok(match &*word {
            "true" | "on" | "1" => Some(true),
            "false" | "off" | "0" => Some(false),
            _ => None,
        })
    }

    fn columns(&self) -> SqlResult<Named> {
        match &self.value {
            Value::Star if self.name == "force_quote" => Ok(Named::All),
            Value::List(names) => Ok(Named::These(names.clone())),
            _ => {
                let message = format!("argument to option \"{}\" must be a list of column names", self.name);
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).at(self.position))
            }
        }
    }
}

impl Options {
    /// # Errors
    /// `42601`, `22023`, `0A000`
    pub fn of(written: &[Written], is_from: bool) -> SqlResult<Options> {
        for (at, option) in written.iter().enumerate() {
            let is_known = [
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
            ]
            .contains(&&*option.name);
            if !is_known {
                let message = format!("option \"{}\" not recognized", option.name);
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(option.position));
            }
            if written[..at].iter().any(|other| other.name == option.name) {
                let error = SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options");
                return Err(error.at(option.position));
            }
        }
        let find = |name: &str| written.iter().find(|option| option.name == name);
        let text = |name: &str| find(name).map(Written::text).transpose();
        let format = match text("format")? {
            None | Some("text") => Format::Text,
            Some("csv") => Format::Csv,
            Some("binary") => Format::Binary,
            Some(other) => {
                let message = format!("COPY format \"{other}\" not recognized");
                let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
                return Err(error.at(find("format").map_or(0, |option| option.position)));
            }
        };
        let is_csv = format == Format::Csv;
        let (header, header_must_match) = match find("header") {
            None => (false, false),
            Some(option) => match (&option.value, option.boolean()?) {
                (_, Some(value)) => (value, false),
                (Value::Word(word) | Value::Text(word), None) if word.eq_ignore_ascii_case("match") => {
                    if !is_from {
                        return Err(unsupported("cannot use \"match\" with HEADER in COPY TO"));
                    }
                    (true, true)
                }
                _ => return Err(syntax("header requires a Boolean value or \"match\"")),
            },
        };
        let freeze = match find("freeze") {
            None => false,
            Some(option) => option.boolean()?.ok_or_else(|| syntax("freeze requires a Boolean value"))?,
        };
        let columns = |name: &str| match find(name) {
            None => Ok(Named::These(Vec::new())),
            Some(option) => option.columns(),
        };
        let (force_quote, force_not_null, force_null) =
            (columns("force_quote")?, columns("force_not_null")?, columns("force_null")?);
        if let Some(encoding) = text("encoding")? {
            let plain: String = encoding.chars().filter(char::is_ascii_alphanumeric).collect();
            match &*plain.to_ascii_lowercase() {
                "utf8" | "unicode" => {}
                _ => return Err(SqlError::unsupported(format_args!("the encoding {encoding} in COPY"))),
            }
        }
        if format == Format::Binary {
            for (name, what) in [("delimiter", "DELIMITER"), ("null", "NULL")] {
                if find(name).is_some() {
                    return Err(syntax(&format!("cannot specify {what} in BINARY mode")));
                }
            }
        }
        let delimiter = text("delimiter")?.unwrap_or(if is_csv { "," } else { "\t" });
        let null = text("null")?.unwrap_or(if is_csv { "" } else { "\\N" });
        let quote = text("quote")?.unwrap_or("\"");
        let escape = text("escape")?.unwrap_or(quote);
        let one = |text: &str, what: &str| match text.as_bytes() {
            [byte] => Ok(*byte),
            _ => Err(unsupported(&format!("COPY {what} must be a single one-byte character"))),
        };
        let delimiter_byte = one(delimiter, "delimiter")?;
        if matches!(delimiter_byte, b'\n' | b'\r') {
            return Err(invalid("COPY delimiter cannot be newline or carriage return"));
        }
        if null.contains(['\n', '\r']) {
            return Err(invalid("COPY null representation cannot use newline or carriage return"));
        }
        if !is_csv && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&delimiter_byte) {
            return Err(invalid(&format!("COPY delimiter cannot be \"{delimiter}\"")));
        }
        if format == Format::Binary && header {
            return Err(unsupported("cannot specify HEADER in BINARY mode"));
        }
        let only_csv = |name: &str, what: &str| match find(name) {
            Some(_) if !is_csv => Err(unsupported(&format!("COPY {what} available only in CSV mode"))),
            _ => Ok(()),
        };
        only_csv("quote", "quote")?;
        let (quote, escape_given) = (if is_csv { one(quote, "quote")? } else { b'"' }, escape);
        if is_csv && delimiter_byte == quote {
            return Err(invalid("COPY delimiter and quote must be different"));
        }
        only_csv("escape", "escape")?;
        let escape = if is_csv { one(escape_given, "escape")? } else { b'"' };
        only_csv("force_quote", "force quote")?;
        let only = |name: &str, what: &str, wanted: bool, of: &str| match find(name) {
            Some(_) if is_from != wanted => Err(unsupported(&format!("COPY {what} only available using COPY {of}"))),
            _ => Ok(()),
        };
        only("force_quote", "force quote", false, "TO")?;
        only_csv("force_not_null", "force not null")?;
        only("force_not_null", "force not null", true, "FROM")?;
        only_csv("force_null", "force null")?;
        only("force_null", "force null", true, "FROM")?;
        if null.as_bytes().contains(&delimiter_byte) {
            return Err(unsupported("COPY delimiter must not appear in the NULL specification"));
        }
        if is_csv && null.as_bytes().contains(&quote) {
            return Err(unsupported("CSV quote character must not appear in the NULL specification"));
        }
        Ok(Options {
            format,
            delimiter: delimiter_byte,
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

impl Named {
    /// Which of the columns these are; `unknown` says what is wrong with a name that is none of them.
    pub fn among(&self, columns: &[String], unknown: &dyn Fn(&str) -> SqlError) -> SqlResult<Vec<bool>> {
        let names = match self {
            Named::All => return Ok(vec![true; columns.len()]),
            Named::These(names) => names,
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
