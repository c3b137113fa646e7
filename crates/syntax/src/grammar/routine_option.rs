//! Options of functions and procedures.

use super::Parser;
use crate::ast::{RoutineOption, RoutineOptionKind, Statement};
use crate::lex::{Keyword, Lexeme};
use statement::error::SqlResult;

impl Parser<'_> {
    /// Parses an option of a routine, if there is one: `createfunc_opt_item` if it is new, otherwise
    /// `common_func_opt_item`.
    pub(super) fn routine_option(&mut self, is_new: bool) -> SqlResult<Option<RoutineOption>> {
        let from = self.token.span;
        let Lexeme::Keyword(word) = self.token.lexeme else { return Ok(None) };
        let kind = match self.common_routine_option(word)? {
            Some(kind) => kind,
            None if is_new => match self.new_routine_option(word)? {
                Some(kind) => kind,
                None => return Ok(None),
            },
            None => return Ok(None),
        };
        Ok(Some(RoutineOption { kind, span: self.since(from) }))
    }

    /// Parses an option that only a new routine takes, if there is one.
    fn new_routine_option(&mut self, word: Keyword) -> SqlResult<Option<RoutineOptionKind>> {
        if !matches!(word, Keyword::As | Keyword::Language | Keyword::Transform | Keyword::Window) {
            return Ok(None);
        }
        self.next()?;
        Ok(Some(match word {
            Keyword::As => {
                let first = self.text()?;
                let second = if self.eat(Lexeme::Comma)? { Some(self.text()?) } else { None };
                RoutineOptionKind::As(first, second)
            }
            Keyword::Language => RoutineOptionKind::Language(self.non_reserved_word_or_text()?),
            Keyword::Transform => {
                let mut types = Vec::new();
                loop {
                    self.expect_words(&[Keyword::For, Keyword::Type])?;
                    types.push(self.type_name()?);
                    if !self.eat(Lexeme::Comma)? {
                        break;
                    }
                }
                RoutineOptionKind::Transform(types)
            }
            _ => RoutineOptionKind::Window,
        }))
    }

    fn common_routine_option(&mut self, word: Keyword) -> SqlResult<Option<RoutineOptionKind>> {
        let kind = match word {
            Keyword::Immutable => RoutineOptionKind::Immutable,
            Keyword::Stable => RoutineOptionKind::Stable,
            Keyword::Volatile => RoutineOptionKind::Volatile,
            Keyword::Strict => RoutineOptionKind::Strict(true),
            Keyword::Leakproof => RoutineOptionKind::Leakproof(true),
            _ => return self.long_routine_option(word),
        };
        self.next()?;
        Ok(Some(kind))
    }

    /// Parses an option of several words, if there is one.
    fn long_routine_option(&mut self, word: Keyword) -> SqlResult<Option<RoutineOptionKind>> {
        Ok(Some(match word {
            Keyword::Called => {
                self.expect_words(&[Keyword::Called, Keyword::On, Keyword::Null, Keyword::Input])?;
                RoutineOptionKind::Strict(false)
            }
            Keyword::Returns => {
                self.expect_words(&[Keyword::Returns, Keyword::Null, Keyword::On, Keyword::Null, Keyword::Input])?;
                RoutineOptionKind::Strict(true)
            }
            Keyword::Not => {
                self.expect_words(&[Keyword::Not, Keyword::Leakproof])?;
                RoutineOptionKind::Leakproof(false)
            }
            Keyword::External | Keyword::Security => {
                self.eat_word(Keyword::External)?;
                self.expect_word(Keyword::Security)?;
                let is_definer = self.eat_word(Keyword::Definer)?;
                if !is_definer {
                    self.expect_word(Keyword::Invoker)?;
                }
                RoutineOptionKind::SecurityDefiner(is_definer)
            }
            Keyword::Cost => {
                self.next()?;
                RoutineOptionKind::Cost(self.signed_number()?)
            }
            Keyword::Rows => {
                self.next()?;
                RoutineOptionKind::Rows(self.signed_number()?)
            }
            Keyword::Support => {
                self.next()?;
                RoutineOptionKind::Support(self.object_name()?)
            }
            Keyword::Parallel => {
                self.next()?;
                RoutineOptionKind::Parallel(self.column_name()?)
            }
            Keyword::Reset if self.ahead(1)? == Lexeme::LeftParen => {
                self.next()?;
                RoutineOptionKind::ResetParameters(self.column_names()?)
            }
            Keyword::Set if self.ahead(1)? == Lexeme::LeftParen => {
                self.next()?;
                RoutineOptionKind::SetParameters(self.storage_parameters()?)
            }
            Keyword::Reset => {
                self.next()?;
                RoutineOptionKind::Reset(self.shown_setting()?)
            }
            Keyword::Set => return self.routine_setting().map(Some),
            _ => return Ok(None),
        }))
    }

    /// Parses `SET` of a routine: `set_rest_more`. Neither `LOCAL` nor modes of transactions may follow.
    fn routine_setting(&mut self) -> SqlResult<RoutineOptionKind> {
        let begins = self.ahead(1)?;
        let names_setting =
            matches!(self.ahead(2)?, Lexeme::Dot | Lexeme::Equal | Lexeme::Keyword(Keyword::To | Keyword::From));
        let is_refused = match begins {
            Lexeme::Keyword(Keyword::Local | Keyword::Constraints) => true,
            Lexeme::Keyword(Keyword::Transaction) => self.ahead(2)? != Lexeme::Keyword(Keyword::Snapshot),
            Lexeme::Keyword(Keyword::Session) => self.ahead(2)? != Lexeme::Keyword(Keyword::Authorization),
            _ => false,
        };
        if is_refused && !names_setting {
            self.next()?;
            self.next()?;
            return Err(self.unexpected());
        }
        match self.set()? {
            Statement::Set(set) => Ok(RoutineOptionKind::Set(set.target)),
            // Refused by name, like the statement of its own.
            Statement::Unsupported(setting) => Ok(RoutineOptionKind::Unsupported(setting.feature)),
            _ => Err(self.unexpected()),
        }
    }
}
