//! Names.

use super::Parser;
use crate::ast::{Name, ObjectName, OperatorName};
use crate::lex::{Keyword, KeywordCategory, Lexeme, Token, value};
use crate::names::NAME_MAX;
use statement::error::{SqlError, SqlResult, SqlState};

/// SQLSTATE `42622`: a name that was truncated.
const NAME_TOO_LONG: SqlState = SqlState::NAME_TOO_LONG;

impl Parser<'_> {
    /// Returns true if a token may name a column or a table: `ColId` of PostgreSQL's grammar.
    pub(super) fn is_column_name(lexeme: Lexeme) -> bool {
        match lexeme {
            Lexeme::Word | Lexeme::Quoted | Lexeme::UnicodeQuoted => true,
            Lexeme::Keyword(word) => {
                matches!(word.category(), KeywordCategory::Unreserved | KeywordCategory::ColumnName)
            }
            _ => false,
        }
    }

    /// Returns true if a token may name a function or a type: `type_function_name`.
    pub(super) fn is_function_name(lexeme: Lexeme) -> bool {
        match lexeme {
            Lexeme::Word | Lexeme::Quoted | Lexeme::UnicodeQuoted => true,
            Lexeme::Keyword(word) => {
                matches!(word.category(), KeywordCategory::Unreserved | KeywordCategory::TypeOrFunction)
            }
            _ => false,
        }
    }

    /// Returns true if a word calls a function of SQL without parentheses. CURRENT_SCHEMA does so too, but may name a
    /// function or a type as well.
    pub(super) fn is_value_function(word: Keyword) -> bool {
        matches!(
            word,
            Keyword::CurrentDate
                | Keyword::CurrentTime
                | Keyword::CurrentTimestamp
                | Keyword::Localtime
                | Keyword::Localtimestamp
                | Keyword::CurrentRole
                | Keyword::CurrentUser
                | Keyword::SessionUser
                | Keyword::User
                | Keyword::CurrentCatalog
        )
    }

    /// Returns true if a token may be a label: `ColLabel`.
    pub(super) fn is_label(lexeme: Lexeme) -> bool {
        matches!(lexeme, Lexeme::Word | Lexeme::Quoted | Lexeme::UnicodeQuoted | Lexeme::Keyword(_))
    }

    /// Returns true if a token may be a label without `AS`: `BareColLabel`.
    pub(super) fn is_bare_label(lexeme: Lexeme) -> bool {
        match lexeme {
            Lexeme::Keyword(word) => word.is_bare_label(),
            lexeme => Self::is_label(lexeme),
        }
    }

    /// Returns the name of a token that was taken.
    pub(super) fn name_of(&mut self, token: Token) -> SqlResult<Name> {
        let (text, whole) = value::name(self.text, token)?;
        if let Some(whole) = whole {
            let message = format!("identifier \"{whole}\" will be truncated to \"{text}\"");
            debug_assert!(text.len() <= NAME_MAX, "it was cut");
            self.notices.push(SqlError::new(NAME_TOO_LONG, message));
        }
        Ok(Name { text, span: token.span })
    }

    /// Parses the name of a column or a table.
    pub(super) fn column_name(&mut self) -> SqlResult<Name> {
        if !Self::is_column_name(self.token.lexeme) {
            return Err(self.unexpected());
        }
        let token = self.next()?;
        self.name_of(token)
    }

    /// Parses a label, which may be any word.
    pub(super) fn label(&mut self) -> SqlResult<Name> {
        if !Self::is_label(self.token.lexeme) {
            return Err(self.unexpected());
        }
        let token = self.next()?;
        self.name_of(token)
    }

    /// Parses names of columns in parentheses.
    pub(super) fn column_names(&mut self) -> SqlResult<Vec<Name>> {
        self.expect(Lexeme::LeftParen)?;
        let mut names = vec![self.column_name()?];
        while self.eat(Lexeme::Comma)? {
            names.push(self.column_name()?);
        }
        self.expect(Lexeme::RightParen)?;
        Ok(names)
    }

    /// Parses a qualified name: `any_name`.
    pub(super) fn object_name(&mut self) -> SqlResult<ObjectName> {
        let mut parts = vec![self.column_name()?];
        while self.eat(Lexeme::Dot)? {
            parts.push(self.label()?);
        }
        Ok(ObjectName { parts })
    }

    /// Parses an operator after the word `OPERATOR`, in parentheses.
    pub(super) fn qualified_operator(&mut self) -> SqlResult<OperatorName> {
        let from = self.expect_word(Keyword::Operator)?.span;
        self.expect(Lexeme::LeftParen)?;
        let mut schemas = Vec::new();
        while Self::is_column_name(self.token.lexeme) {
            schemas.push(self.column_name()?);
            self.expect(Lexeme::Dot)?;
        }
        let Some(signs) = self.operator_signs() else { return Err(self.unexpected()) };
        self.next()?;
        self.expect(Lexeme::RightParen)?;
        Ok(OperatorName { schemas, signs, span: self.since(from) })
    }

    /// Returns the signs of the operator at the current token, if it is one.
    pub(super) fn operator_signs(&self) -> Option<Box<str>> {
        let signs = match self.token.lexeme {
            Lexeme::NotEqual => "<>",
            Lexeme::Operator
            | Lexeme::Less
            | Lexeme::Greater
            | Lexeme::Equal
            | Lexeme::LessEqual
            | Lexeme::GreaterEqual
            | Lexeme::Plus
            | Lexeme::Minus
            | Lexeme::Star
            | Lexeme::Slash
            | Lexeme::Percent
            | Lexeme::Caret => self.token.span.of(self.text),
            _ => return None,
        };
        Some(signs.into())
    }

    /// Takes the operator at the current token.
    pub(super) fn operator(&mut self) -> SqlResult<OperatorName> {
        let Some(signs) = self.operator_signs() else { return Err(self.unexpected()) };
        let span = self.next()?.span;
        Ok(OperatorName { schemas: Vec::new(), signs, span })
    }
}
