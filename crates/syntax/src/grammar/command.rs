//! Commands: transactions, settings, prepared statements, cursors, locks.

use super::Parser;
use crate::ast::Statement;
use crate::ast::{
    ConstraintsCommand, DeclareCommand, DiscardTarget, ExecuteCommand, FetchCommand, FetchDirection, LockCommand,
    ObjectName, PrepareCommand, SetCommand, SetTarget, SetValue, SettingName, TableLockMode, TransactionCommand,
    TransactionMode, ZoneValue,
};
use crate::lex::{Keyword, Lexeme};
use statement::error::{SqlError, SqlResult, SqlState};

impl Parser<'_> {
    /// Parses `BEGIN`, `START`, `COMMIT`, `END`, `ROLLBACK`, `ABORT`, `SAVEPOINT` or `RELEASE`, at the current token.
    pub(super) fn transaction(&mut self) -> SqlResult<Statement> {
        let from = self.token.span;
        let Lexeme::Keyword(word) = self.next()?.lexeme else { return Err(self.unexpected()) };
        let command = match word {
            Keyword::Begin => {
                self.eat_transaction_word()?;
                TransactionCommand::Begin { modes: self.transaction_modes()?, is_start: false }
            }
            Keyword::Start => {
                self.expect_word(Keyword::Transaction)?;
                TransactionCommand::Begin { modes: self.transaction_modes()?, is_start: true }
            }
            Keyword::Savepoint => TransactionCommand::Savepoint(self.column_name()?),
            Keyword::Release => {
                // `SAVEPOINT` may be a name, too.
                if self.is_word(Keyword::Savepoint) && Self::is_column_name(self.ahead(1)?) {
                    self.next()?;
                }
                TransactionCommand::Release(self.column_name()?)
            }
            Keyword::Commit | Keyword::Rollback if self.is_word(Keyword::Prepared) => {
                self.next()?;
                self.text()?;
                let verb = if word == Keyword::Commit { "COMMIT" } else { "ROLLBACK" };
                return Ok(self.unsupported(format!("{verb} PREPARED"), from));
            }
            Keyword::Rollback => {
                self.eat_transaction_word()?;
                if self.eat_word(Keyword::To)? {
                    if self.is_word(Keyword::Savepoint) && Self::is_column_name(self.ahead(1)?) {
                        self.next()?;
                    }
                    TransactionCommand::RollbackTo(self.column_name()?)
                } else {
                    TransactionCommand::Rollback { is_chained: self.chain()? }
                }
            }
            Keyword::Abort => {
                self.eat_transaction_word()?;
                TransactionCommand::Rollback { is_chained: self.chain()? }
            }
            _ => {
                self.eat_transaction_word()?;
                TransactionCommand::Commit { is_chained: self.chain()? }
            }
        };
        Ok(Statement::Transaction(command))
    }

    /// Parses `WORK` or `TRANSACTION`, if there is one.
    fn eat_transaction_word(&mut self) -> SqlResult<()> {
        if !self.eat_word(Keyword::Work)? {
            self.eat_word(Keyword::Transaction)?;
        }
        Ok(())
    }

    /// Parses `AND CHAIN` or `AND NO CHAIN`, if there is one.
    fn chain(&mut self) -> SqlResult<bool> {
        if !self.eat_word(Keyword::And)? {
            return Ok(false);
        }
        let is_chained = !self.eat_word(Keyword::No)?;
        self.expect_word(Keyword::Chain)?;
        Ok(is_chained)
    }

    /// Parses modes of a transaction, with commas between them or without.
    fn transaction_modes(&mut self) -> SqlResult<Vec<TransactionMode>> {
        let mut modes = Vec::new();
        loop {
            let mode = match self.token.lexeme {
                Lexeme::Keyword(Keyword::Isolation) => {
                    self.expect_words(&[Keyword::Isolation, Keyword::Level])?;
                    self.isolation_level()?
                }
                Lexeme::Keyword(Keyword::Read) => {
                    self.next()?;
                    match self.token.lexeme {
                        Lexeme::Keyword(Keyword::Only) => TransactionMode::ReadOnly,
                        Lexeme::Keyword(Keyword::Write) => TransactionMode::ReadWrite,
                        _ => return Err(self.unexpected()),
                    }
                }
                Lexeme::Keyword(Keyword::Deferrable) => TransactionMode::Deferrable,
                Lexeme::Keyword(Keyword::Not) => {
                    self.next()?;
                    if !self.is_word(Keyword::Deferrable) {
                        return Err(self.unexpected());
                    }
                    TransactionMode::NotDeferrable
                }
                _ => return Ok(modes),
            };
            self.next()?;
            modes.push(mode);
            if self.eat(Lexeme::Comma)?
                && !matches!(
                    self.token.lexeme,
                    Lexeme::Keyword(Keyword::Isolation | Keyword::Read | Keyword::Deferrable | Keyword::Not)
                )
            {
                return Err(self.unexpected());
            }
        }
    }

    /// Parses an isolation level up to its last word, which is then the current token.
    fn isolation_level(&mut self) -> SqlResult<TransactionMode> {
        match self.token.lexeme {
            Lexeme::Keyword(Keyword::Serializable) => Ok(TransactionMode::Serializable),
            Lexeme::Keyword(Keyword::Repeatable) => {
                self.next()?;
                if self.is_word(Keyword::Read) { Ok(TransactionMode::RepeatableRead) } else { Err(self.unexpected()) }
            }
            Lexeme::Keyword(Keyword::Read) => {
                self.next()?;
                match self.token.lexeme {
                    Lexeme::Keyword(Keyword::Committed) => Ok(TransactionMode::ReadCommitted),
                    Lexeme::Keyword(Keyword::Uncommitted) => Ok(TransactionMode::ReadUncommitted),
                    _ => Err(self.unexpected()),
                }
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Parses `SET`, at the current token.
    pub(super) fn set(&mut self) -> SqlResult<Statement> {
        let from = self.expect_word(Keyword::Set)?.span;
        // `CONSTRAINTS` and `NAMES` may begin the name of a setting.
        let names_setting = matches!(self.ahead(1)?, Lexeme::Dot | Lexeme::Equal | Lexeme::Keyword(Keyword::To));
        if !names_setting && self.eat_word(Keyword::Constraints)? {
            return self.constraints();
        }
        let is_local = !names_setting && self.eat_word(Keyword::Local)?;
        if !is_local && self.is_word(Keyword::Session) {
            match self.ahead(1)? {
                Lexeme::Keyword(Keyword::Characteristics) => {
                    self.expect_words(&[
                        Keyword::Session,
                        Keyword::Characteristics,
                        Keyword::As,
                        Keyword::Transaction,
                    ])?;
                    let modes = self.some_modes()?;
                    let target = SetTarget::Characteristics(modes);
                    return Ok(Statement::Set(SetCommand { is_local, target }));
                }
                Lexeme::Keyword(Keyword::Authorization) => {}
                // `SESSION` has no effect, unless it is the setting's own name.
                Lexeme::Equal | Lexeme::Dot | Lexeme::Keyword(Keyword::To) => {}
                _ => drop(self.next()?),
            }
        }
        let follows = self.ahead(1)?;
        let target = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Transaction) if !matches!(follows, Lexeme::Equal | Lexeme::Dot) => {
                self.next()?;
                if self.eat_word(Keyword::Snapshot)? {
                    let snapshot = self.text()?;
                    return Ok(self.unsupported(format!("SET TRANSACTION SNAPSHOT '{snapshot}'"), from));
                }
                SetTarget::Transaction(self.some_modes()?)
            }
            Lexeme::Keyword(Keyword::Time) => {
                self.expect_words(&[Keyword::Time, Keyword::Zone])?;
                SetTarget::TimeZone(self.zone()?)
            }
            Lexeme::Keyword(Keyword::Catalog) => {
                self.next()?;
                let at = self.token.span;
                self.text()?;
                let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "current database cannot be changed");
                return Err(error.at(at.position(self.text)));
            }
            Lexeme::Keyword(Keyword::Schema) => {
                let span = self.next()?.span;
                let value = SetValue::Text(self.text()?);
                SetTarget::Setting(self.setting_of("search_path", span), vec![value])
            }
            Lexeme::Keyword(Keyword::Names)
                if !matches!(follows, Lexeme::Dot | Lexeme::Equal | Lexeme::Keyword(Keyword::To)) =>
            {
                let span = self.next()?.span;
                let mut values = Vec::new();
                if Self::is_text(self.token.lexeme) {
                    values.push(SetValue::Text(self.text()?));
                } else {
                    self.eat_word(Keyword::Default)?;
                }
                SetTarget::Setting(self.setting_of("client_encoding", span), values)
            }
            Lexeme::Keyword(Keyword::Role) if !matches!(follows, Lexeme::Equal | Lexeme::Keyword(Keyword::To)) => {
                let span = self.next()?.span;
                let role = self.non_reserved_word_or_text()?;
                SetTarget::Setting(self.setting_of("role", span), vec![SetValue::Text(role)])
            }
            Lexeme::Keyword(Keyword::Session) if follows == Lexeme::Keyword(Keyword::Authorization) => {
                let span = self.next()?.span;
                self.next()?;
                let mut values = Vec::new();
                if !self.eat_word(Keyword::Default)? {
                    values.push(SetValue::Text(self.non_reserved_word_or_text()?));
                }
                SetTarget::Setting(self.setting_of("session_authorization", span), values)
            }
            Lexeme::Keyword(Keyword::Xml) if follows == Lexeme::Keyword(Keyword::Option) => {
                self.next()?;
                self.next()?;
                if !self.eat_word(Keyword::Document)? {
                    self.expect_word(Keyword::Content)?;
                }
                return Ok(self.unsupported("SET XML OPTION", from));
            }
            _ => {
                let name = self.setting_name()?;
                if self.is_word(Keyword::From) {
                    self.expect_words(&[Keyword::From, Keyword::Current])?;
                    SetTarget::FromCurrent(name)
                } else {
                    if !self.eat(Lexeme::Equal)? {
                        self.expect_word(Keyword::To)?;
                    }
                    SetTarget::Setting(name, self.set_values()?)
                }
            }
        };
        Ok(Statement::Set(SetCommand { is_local, target }))
    }

    fn some_modes(&mut self) -> SqlResult<Vec<TransactionMode>> {
        let modes = self.transaction_modes()?;
        if modes.is_empty() { Err(self.unexpected()) } else { Ok(modes) }
    }

    fn setting_of(&self, name: &str, span: crate::lex::Span) -> ObjectName {
        ObjectName { parts: vec![crate::ast::Name { text: name.into(), span }] }
    }

    /// Parses the name of a setting: `var_name`.
    pub(super) fn setting_name(&mut self) -> SqlResult<ObjectName> {
        let mut parts = vec![self.column_name()?];
        while self.eat(Lexeme::Dot)? {
            parts.push(self.column_name()?);
        }
        Ok(ObjectName { parts })
    }

    /// Parses values of a setting; none for `DEFAULT`.
    pub(super) fn set_values(&mut self) -> SqlResult<Vec<SetValue>> {
        if self.eat_word(Keyword::Default)? {
            return Ok(Vec::new());
        }
        let mut values = vec![self.set_value()?];
        while self.eat(Lexeme::Comma)? {
            values.push(self.set_value()?);
        }
        Ok(values)
    }

    fn set_value(&mut self) -> SqlResult<SetValue> {
        match self.token.lexeme {
            Lexeme::Integer | Lexeme::Decimal | Lexeme::Plus | Lexeme::Minus => {
                Ok(SetValue::Number(self.signed_number()?))
            }
            Lexeme::Keyword(word @ (Keyword::True | Keyword::False | Keyword::On)) => {
                self.next()?;
                Ok(SetValue::Text(word.word().into()))
            }
            _ => self.non_reserved_word_or_text().map(SetValue::Text),
        }
    }

    /// Parses a number with a sign, as it is written: `NumericOnly`.
    pub(super) fn signed_number(&mut self) -> SqlResult<Box<str>> {
        let is_negative = match self.token.lexeme {
            Lexeme::Minus | Lexeme::Plus => self.next()?.lexeme == Lexeme::Minus,
            _ => false,
        };
        if !matches!(self.token.lexeme, Lexeme::Integer | Lexeme::Decimal) {
            return Err(self.unexpected());
        }
        let digits = self.next()?.span.of(self.text);
        Ok(if is_negative { format!("-{digits}").into() } else { digits.into() })
    }

    /// Parses a word that is not reserved, or text: `NonReservedWord_or_Sconst`.
    pub(super) fn non_reserved_word_or_text(&mut self) -> SqlResult<Box<str>> {
        if Self::is_text(self.token.lexeme) {
            return self.text();
        }
        let lexeme = self.token.lexeme;
        if !Self::is_column_name(lexeme) && !Self::is_function_name(lexeme) {
            return Err(self.unexpected());
        }
        let token = self.next()?;
        Ok(self.name_of(token)?.text)
    }

    fn zone(&mut self) -> SqlResult<Option<ZoneValue>> {
        Ok(match self.token.lexeme {
            Lexeme::Keyword(Keyword::Default | Keyword::Local) => {
                self.next()?;
                None
            }
            Lexeme::Keyword(Keyword::Interval) => Some(ZoneValue::Interval(self.literal_of_type()?)),
            Lexeme::Integer | Lexeme::Decimal | Lexeme::Plus | Lexeme::Minus => {
                Some(ZoneValue::Value(SetValue::Number(self.signed_number()?)))
            }
            lexeme if Self::is_text(lexeme) => Some(ZoneValue::Value(SetValue::Text(self.text()?))),
            Lexeme::Word | Lexeme::Quoted | Lexeme::UnicodeQuoted => {
                let token = self.next()?;
                Some(ZoneValue::Value(SetValue::Text(self.name_of(token)?.text)))
            }
            _ => return Err(self.unexpected()),
        })
    }

    /// Parses `SET CONSTRAINTS`, from the names on.
    fn constraints(&mut self) -> SqlResult<Statement> {
        let mut names = Vec::new();
        if !self.eat_word(Keyword::All)? {
            names.push(self.object_name()?);
            while self.eat(Lexeme::Comma)? {
                names.push(self.object_name()?);
            }
        }
        let is_deferred = self.eat_word(Keyword::Deferred)?;
        if !is_deferred {
            self.expect_word(Keyword::Immediate)?;
        }
        Ok(Statement::Constraints(ConstraintsCommand { names, is_deferred }))
    }

    /// Parses the setting of `SHOW` or `RESET`, whose word was taken.
    pub(super) fn shown_setting(&mut self) -> SqlResult<SettingName> {
        let from = self.token.span;
        let follows = self.ahead(1)?;
        match self.token.lexeme {
            Lexeme::Keyword(Keyword::All) => {
                self.next()?;
                Ok(SettingName::All)
            }
            Lexeme::Keyword(Keyword::Time) if follows == Lexeme::Keyword(Keyword::Zone) => {
                self.next()?;
                self.next()?;
                Ok(SettingName::Named(self.setting_of("timezone", from)))
            }
            Lexeme::Keyword(Keyword::Transaction) if follows == Lexeme::Keyword(Keyword::Isolation) => {
                self.expect_words(&[Keyword::Transaction, Keyword::Isolation, Keyword::Level])?;
                Ok(SettingName::Named(self.setting_of("transaction_isolation", from)))
            }
            Lexeme::Keyword(Keyword::Session) if follows == Lexeme::Keyword(Keyword::Authorization) => {
                self.next()?;
                self.next()?;
                Ok(SettingName::Named(self.setting_of("session_authorization", from)))
            }
            _ => self.setting_name().map(SettingName::Named),
        }
    }

    /// Parses `DISCARD`, at the current token.
    pub(super) fn discard(&mut self) -> SqlResult<Statement> {
        self.expect_word(Keyword::Discard)?;
        let target = match self.token.lexeme {
            Lexeme::Keyword(Keyword::All) => DiscardTarget::All,
            Lexeme::Keyword(Keyword::Plans) => DiscardTarget::Plans,
            Lexeme::Keyword(Keyword::Sequences) => DiscardTarget::Sequences,
            Lexeme::Keyword(Keyword::Temp | Keyword::Temporary) => DiscardTarget::Temporary,
            _ => return Err(self.unexpected()),
        };
        self.next()?;
        Ok(Statement::Discard(target))
    }

    /// Parses `PREPARE`, at the current token.
    pub(super) fn prepare(&mut self) -> SqlResult<Statement> {
        let from = self.expect_word(Keyword::Prepare)?.span;
        if self.is_word(Keyword::Transaction) && Self::is_text(self.ahead(1)?) {
            self.next()?;
            self.text()?;
            return Ok(self.unsupported("PREPARE TRANSACTION", from));
        }
        let name = self.column_name()?;
        let mut types = Vec::new();
        if self.eat(Lexeme::LeftParen)? {
            types.push(self.type_name()?);
            while self.eat(Lexeme::Comma)? {
                types.push(self.type_name()?);
            }
            self.expect(Lexeme::RightParen)?;
        }
        self.expect_word(Keyword::As)?;
        let statement = self.within(Self::preparable)?;
        Ok(Statement::Prepare(Box::new(PrepareCommand { name, types, statement })))
    }

    /// Parses a statement that may be prepared, explained or copied.
    pub(super) fn preparable(&mut self) -> SqlResult<Statement> {
        match self.token.lexeme {
            Lexeme::LeftParen => self.statement(),
            Lexeme::Keyword(
                Keyword::Select
                | Keyword::Values
                | Keyword::Table
                | Keyword::With
                | Keyword::Insert
                | Keyword::Update
                | Keyword::Delete
                | Keyword::Merge,
            ) => self.statement(),
            _ => Err(self.unexpected()),
        }
    }

    /// Parses `EXECUTE`, at the current token.
    pub(super) fn execute(&mut self) -> SqlResult<ExecuteCommand> {
        self.expect_word(Keyword::Execute)?;
        let name = self.column_name()?;
        let mut values = Vec::new();
        if self.eat(Lexeme::LeftParen)? {
            values = self.exprs()?;
            self.expect(Lexeme::RightParen)?;
        }
        Ok(ExecuteCommand { name, values })
    }

    /// Parses `DEALLOCATE`, at the current token; the name is `None` for `ALL`.
    pub(super) fn deallocate(&mut self) -> SqlResult<Statement> {
        self.expect_word(Keyword::Deallocate)?;
        // `PREPARE` may be a name, too.
        if self.is_word(Keyword::Prepare) && !matches!(self.ahead(1)?, Lexeme::End | Lexeme::Semicolon) {
            self.next()?;
        }
        let name = if self.eat_word(Keyword::All)? { None } else { Some(self.column_name()?) };
        Ok(Statement::Deallocate(name))
    }

    /// Parses `DECLARE`, at the current token.
    pub(super) fn declare(&mut self) -> SqlResult<Statement> {
        self.expect_word(Keyword::Declare)?;
        let name = self.column_name()?;
        let (mut is_binary, mut is_insensitive, mut scrolls) = (false, None, None);
        loop {
            match self.token.lexeme {
                Lexeme::Keyword(Keyword::Binary) => is_binary = true,
                Lexeme::Keyword(Keyword::Insensitive) => say(&mut is_insensitive, true, ["INSENSITIVE", "ASENSITIVE"])?,
                Lexeme::Keyword(Keyword::Asensitive) => say(&mut is_insensitive, false, ["INSENSITIVE", "ASENSITIVE"])?,
                Lexeme::Keyword(Keyword::Scroll) => say(&mut scrolls, true, ["SCROLL", "NO SCROLL"])?,
                Lexeme::Keyword(Keyword::No) => {
                    self.next()?;
                    if !self.is_word(Keyword::Scroll) {
                        return Err(self.unexpected());
                    }
                    say(&mut scrolls, false, ["SCROLL", "NO SCROLL"])?;
                }
                _ => break,
            }
            self.next()?;
        }
        self.expect_word(Keyword::Cursor)?;
        let mut is_held = false;
        if self.is_word(Keyword::With) || self.is_word(Keyword::Without) {
            is_held = self.next()?.lexeme == Lexeme::Keyword(Keyword::With);
            self.expect_word(Keyword::Hold)?;
        }
        self.expect_word(Keyword::For)?;
        let query = self.query()?;
        let declare = DeclareCommand { name, is_binary, is_insensitive, scrolls, is_held, query };
        Ok(Statement::Declare(Box::new(declare)))
    }

    /// Parses `FETCH` or `MOVE`, at the current token.
    pub(super) fn fetch_rows(&mut self) -> SqlResult<Statement> {
        let is_move = self.next()?.lexeme == Lexeme::Keyword(Keyword::Move);
        let direction = self.fetch_direction()?;
        let has_direction = direction.is_some();
        let has_word = self.eat_word(Keyword::From)? || self.eat_word(Keyword::In)?;
        let name = self.column_name()?;
        let _ = (has_direction, has_word);
        let direction = direction.unwrap_or(FetchDirection::Forward(1));
        Ok(Statement::Fetch(FetchCommand { name, direction, is_move }))
    }

    /// Parses the direction of a FETCH, if there is one: a word may be the cursor's name instead.
    fn fetch_direction(&mut self) -> SqlResult<Option<FetchDirection>> {
        // The last word is the cursor's name, even if it could be a direction.
        let names_cursor = matches!(self.ahead(1)?, Lexeme::End | Lexeme::Semicolon);
        let Lexeme::Keyword(word) = self.token.lexeme else {
            return match self.token.lexeme {
                Lexeme::Integer | Lexeme::Plus | Lexeme::Minus => Ok(Some(FetchDirection::Forward(self.row_number()?))),
                _ => Ok(None),
            };
        };
        if names_cursor {
            return Ok(None);
        }
        let direction = match word {
            Keyword::Next => FetchDirection::Forward(1),
            Keyword::Prior => FetchDirection::Backward(1),
            Keyword::First => FetchDirection::Absolute(1),
            Keyword::Last => FetchDirection::Absolute(-1),
            Keyword::All => FetchDirection::ForwardAll,
            Keyword::Absolute => {
                self.next()?;
                return Ok(Some(FetchDirection::Absolute(self.row_number()?)));
            }
            Keyword::Relative => {
                self.next()?;
                return Ok(Some(FetchDirection::Relative(self.row_number()?)));
            }
            Keyword::Forward | Keyword::Backward => {
                self.next()?;
                let is_forward = word == Keyword::Forward;
                return Ok(Some(match self.token.lexeme {
                    Lexeme::Keyword(Keyword::All) => {
                        self.next()?;
                        if is_forward { FetchDirection::ForwardAll } else { FetchDirection::BackwardAll }
                    }
                    Lexeme::Integer | Lexeme::Plus | Lexeme::Minus => {
                        let count = self.row_number()?;
                        if is_forward { FetchDirection::Forward(count) } else { FetchDirection::Backward(count) }
                    }
                    _ if is_forward => FetchDirection::Forward(1),
                    _ => FetchDirection::Backward(1),
                }));
            }
            _ => return Ok(None),
        };
        self.next()?;
        Ok(Some(direction))
    }

    /// Parses the number of a row, with its sign: `SignedIconst`.
    fn row_number(&mut self) -> SqlResult<i64> {
        let is_negative = match self.token.lexeme {
            Lexeme::Minus | Lexeme::Plus => self.next()?.lexeme == Lexeme::Minus,
            _ => false,
        };
        let number = i64::from(self.integer()?);
        Ok(if is_negative { -number } else { number })
    }

    /// Parses `CLOSE`, at the current token; the name is `None` for `ALL`.
    pub(super) fn close(&mut self) -> SqlResult<Statement> {
        self.expect_word(Keyword::Close)?;
        let name = if self.eat_word(Keyword::All)? { None } else { Some(self.column_name()?) };
        Ok(Statement::Close(name))
    }

    /// Parses `LOCK`, at the current token.
    pub(super) fn lock(&mut self) -> SqlResult<Statement> {
        self.expect_word(Keyword::Lock)?;
        self.eat_word(Keyword::Table)?;
        let mut tables = vec![self.relation()?];
        while self.eat(Lexeme::Comma)? {
            tables.push(self.relation()?);
        }
        let mut mode = TableLockMode::AccessExclusive;
        if self.eat_word(Keyword::In)? {
            mode = self.lock_mode()?;
            self.expect_word(Keyword::Mode)?;
        }
        let no_wait = self.eat_word(Keyword::Nowait)?;
        Ok(Statement::Lock(LockCommand { tables, mode, no_wait }))
    }

    fn lock_mode(&mut self) -> SqlResult<TableLockMode> {
        let word = self.token.lexeme;
        let Lexeme::Keyword(word @ (Keyword::Access | Keyword::Row | Keyword::Share | Keyword::Exclusive)) = word
        else {
            return Err(self.unexpected());
        };
        self.next()?;
        Ok(match word {
            Keyword::Access => {
                let is_share = self.eat_word(Keyword::Share)?;
                if !is_share {
                    self.expect_word(Keyword::Exclusive)?;
                }
                if is_share { TableLockMode::AccessShare } else { TableLockMode::AccessExclusive }
            }
            Keyword::Row => {
                let is_share = self.eat_word(Keyword::Share)?;
                if !is_share {
                    self.expect_word(Keyword::Exclusive)?;
                }
                if is_share { TableLockMode::RowShare } else { TableLockMode::RowExclusive }
            }
            Keyword::Share => match self.token.lexeme {
                Lexeme::Keyword(Keyword::Update) => {
                    self.expect_words(&[Keyword::Update, Keyword::Exclusive])?;
                    TableLockMode::ShareUpdateExclusive
                }
                Lexeme::Keyword(Keyword::Row) => {
                    self.expect_words(&[Keyword::Row, Keyword::Exclusive])?;
                    TableLockMode::ShareRowExclusive
                }
                _ => TableLockMode::Share,
            },
            _ => TableLockMode::Exclusive,
        })
    }
}

/// Records an option of a cursor.
///
/// # Errors
/// `42P11` if the opposite option was given before.
fn say(option: &mut Option<bool>, is_on: bool, words: [&str; 2]) -> SqlResult<()> {
    if option.replace(is_on) == Some(!is_on) {
        let [one, other] = words;
        return Err(SqlError::new(
            SqlState::INVALID_CURSOR_DEFINITION,
            format!("cannot specify both {one} and {other}"),
        ));
    }
    Ok(())
}
