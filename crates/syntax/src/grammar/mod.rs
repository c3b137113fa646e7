//! Grammar of PostgreSQL 15 (`src/backend/parser/gram.y`), by recursive descent.
//!
//! **Invariant:** a text is refused at the token at which PostgreSQL's LALR parser stops, with its words: at the first
//! token that no statement could have there. So a function looks at the next token before it takes it, and never goes
//! back.

mod alter;
mod calls;
mod change;
mod command;
mod expr;
mod foreign;
mod from;
mod module;
mod names;
mod object;
mod primary;
mod query;
mod rights;
mod role;
mod routine;
mod routine_option;
mod table;
mod types;
mod utility;

use crate::ast::{Expr, MaintenanceCommand, MaintenanceKind, Query, Statement};
use crate::lex::{Keyword, Lexeme, Lexer, Span, Token, value};
use statement::error::{SqlError, SqlResult};
use statement::{pulse, stack};
use std::collections::VecDeque;

/// Units of work of a rule.
const RULE: usize = 16;
/// Greatest height of a tree for which any thread's stack has room, including for its drop.
const SMALL_TREE_MAX: usize = 400;

/// Parser of one text.
pub struct Parser<'t> {
    text: &'t str,
    lexer: Lexer<'t>,
    /// Token that the scanner has read ahead to determine the one before it.
    read: Option<Token>,
    /// Current token, which is not taken yet.
    token: Token,
    /// Lookahead: tokens after the current one.
    ahead: VecDeque<Token>,
    /// End of the last token that was taken.
    last_end: u32,
    /// Number of rules in progress, one inside the other.
    depth: usize,
    /// Height of the highest tree that was made since the field was set to 0.
    height: usize,
    /// True within the first argument of `substring`, where `SIMILAR` may stand without `TO`.
    in_substring: bool,
    /// True within `EXPLAIN`, where only a query may create a table.
    in_explain: bool,
    /// Notices of names that were truncated.
    notices: Vec<SqlError>,
}

impl<'t> Parser<'t> {
    /// Creates a parser at the beginning of a text.
    ///
    /// # Errors
    /// `57014`
    pub fn new(text: &'t str) -> SqlResult<Parser<'t>> {
        let mut lexer = Lexer::new(text);
        let mut read = None;
        let token = token(&mut lexer, &mut read)?;
        Ok(Parser {
            text,
            lexer,
            read,
            token,
            ahead: VecDeque::new(),
            last_end: 0,
            depth: 0,
            height: 0,
            in_substring: false,
            in_explain: false,
            notices: Vec::new(),
        })
    }

    /// Parses the next statement, and the semicolons around it. Returns it with the end of these semicolons; none at the end of
    /// the text.
    ///
    /// # Errors
    /// `42601` and others of the grammar, with their positions; `54001`; `57014`.
    fn next_statement(&mut self) -> SqlResult<Option<(Parsed, u32)>> {
        while self.eat(Lexeme::Semicolon)? {}
        if self.is(Lexeme::End) {
            return Ok(None);
        }
        let from = self.token.span;
        let statement = self.statement()?;
        let span = self.since(from);
        if !self.is(Lexeme::Semicolon) && !self.is(Lexeme::End) {
            return Err(self.unexpected());
        }
        let extent = Span { start: 0, end: self.token.span.start };
        let mut behind = extent.end;
        while self.is(Lexeme::Semicolon) {
            behind = self.next()?.span.end;
        }
        let notices = std::mem::take(&mut self.notices);
        Ok(Some((Parsed { statement, span, extent, notices }, behind)))
    }

    /// Checks that the current token is the end of the text.
    fn end(&self) -> SqlResult<()> {
        if self.is(Lexeme::End) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn statement(&mut self) -> SqlResult<Statement> {
        let with = if self.is_word(Keyword::With) { Some(self.with()?) } else { None };
        match self.token.lexeme {
            Lexeme::Keyword(Keyword::Insert) => Ok(Statement::Insert(Box::new(self.insert(with)?))),
            Lexeme::Keyword(Keyword::Update) => Ok(Statement::Update(Box::new(self.update(with)?))),
            Lexeme::Keyword(Keyword::Delete) => Ok(Statement::Delete(Box::new(self.delete(with)?))),
            Lexeme::Keyword(Keyword::Merge) => {
                let from = with.map_or(self.token.span, |with| with.span);
                self.skip_statement()?;
                Ok(self.unsupported("MERGE", from))
            }
            Lexeme::Keyword(word) if with.is_none() => self.command(word),
            _ => Ok(Statement::Query(Box::new(self.query_with(with)?))),
        }
    }

    /// Parses a statement that begins with this keyword and changes no rows.
    fn command(&mut self, word: Keyword) -> SqlResult<Statement> {
        // First, since unsupported statements may begin with the words of supported ones.
        if let Some(statement) = self.foreign()? {
            return Ok(statement);
        }
        match word {
            Keyword::Begin
            | Keyword::Start
            | Keyword::Commit
            | Keyword::End
            | Keyword::Rollback
            | Keyword::Abort
            | Keyword::Savepoint
            | Keyword::Release => self.transaction(),
            Keyword::Set => self.set(),
            Keyword::Show | Keyword::Reset => {
                self.next()?;
                let name = self.shown_setting()?;
                Ok(if word == Keyword::Show { Statement::Show(name) } else { Statement::Reset(name) })
            }
            Keyword::Discard => self.discard(),
            Keyword::Prepare => self.prepare(),
            Keyword::Execute => Ok(Statement::Execute(self.execute()?)),
            Keyword::Deallocate => self.deallocate(),
            Keyword::Declare => self.declare(),
            Keyword::Fetch | Keyword::Move => self.fetch_rows(),
            Keyword::Close => self.close(),
            Keyword::Call => self.call(),
            Keyword::Copy => self.copy(),
            Keyword::Explain => self.explain(),
            Keyword::Lock => self.lock(),
            Keyword::Vacuum | Keyword::Analyze | Keyword::Analyse => self.vacuum(),
            Keyword::Cluster => self.cluster(),
            Keyword::Reindex => self.reindex(),
            Keyword::Checkpoint => {
                self.next()?;
                let kind = MaintenanceKind::Checkpoint;
                let (options, targets) = (Vec::new(), Vec::new());
                Ok(Statement::Maintenance(MaintenanceCommand { kind, options, targets, index: None }))
            }
            Keyword::Create => self.create(),
            Keyword::Alter => self.alter(),
            Keyword::Drop => self.drop_objects(),
            Keyword::Truncate => self.truncate(),
            Keyword::Grant => self.grant(),
            Keyword::Revoke => self.revoke(),
            Keyword::Reassign => self.reassign_owned(),
            Keyword::Comment => self.comment(),
            Keyword::Unlisten => {
                self.next()?;
                let name = if self.eat(Lexeme::Star)? { None } else { Some(self.column_name()?) };
                Ok(Statement::Unlisten(name))
            }
            _ => Ok(Statement::Query(Box::new(self.query_with(None)?))),
        }
    }

    /// Takes the current token.
    fn next(&mut self) -> SqlResult<Token> {
        let next = match self.ahead.pop_front() {
            Some(token) => token,
            None => token(&mut self.lexer, &mut self.read)?,
        };
        let token = std::mem::replace(&mut self.token, next);
        self.last_end = token.span.end;
        Ok(token)
    }

    /// Returns the kind of the token that is `count` tokens after the current one.
    fn ahead(&mut self, count: usize) -> SqlResult<Lexeme> {
        while self.ahead.len() < count {
            let token = token(&mut self.lexer, &mut self.read)?;
            self.ahead.push_back(token);
        }
        Ok(self.ahead[count - 1].lexeme)
    }

    fn is(&self, lexeme: Lexeme) -> bool {
        self.token.lexeme == lexeme
    }

    fn is_word(&self, word: Keyword) -> bool {
        self.token.lexeme == Lexeme::Keyword(word)
    }

    /// Takes the current token if it is of this kind.
    fn eat(&mut self, lexeme: Lexeme) -> SqlResult<bool> {
        let is_there = self.is(lexeme);
        if is_there {
            self.next()?;
        }
        Ok(is_there)
    }

    fn eat_word(&mut self, word: Keyword) -> SqlResult<bool> {
        self.eat(Lexeme::Keyword(word))
    }

    /// Takes the current token, which must be of this kind.
    fn expect(&mut self, lexeme: Lexeme) -> SqlResult<Token> {
        if self.is(lexeme) { self.next() } else { Err(self.unexpected()) }
    }

    fn expect_word(&mut self, word: Keyword) -> SqlResult<Token> {
        self.expect(Lexeme::Keyword(word))
    }

    /// Takes these words, which must follow.
    fn expect_words(&mut self, words: &[Keyword]) -> SqlResult<()> {
        words.iter().try_for_each(|word| self.expect_word(*word).map(drop))
    }

    /// Creates a syntax error at the current token.
    fn unexpected(&self) -> SqlError {
        match (self.token.lexeme, self.lexer.error()) {
            (Lexeme::Broken, Some(error)) => error.clone(),
            _ => value::near("syntax error", self.text, self.token),
        }
    }

    /// Creates an error with PostgreSQL's own words at the current token.
    fn refused_here(&self, message: &str) -> SqlError {
        value::near(message, self.text, self.token)
    }

    /// Returns the place from a token to the last one that was taken.
    fn since(&self, from: Span) -> Span {
        Span { start: from.start, end: self.last_end.max(from.start) }
    }

    /// Runs a rule that contains itself. Its tree is one higher than the highest within.
    ///
    /// # Errors
    /// `54001` if the stack has no room for the rule, or no stack has room for the tree; `57014`.
    fn within<T>(&mut self, rule: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        pulse::tick(RULE)?;
        stack::check()?;
        self.depth += 1;
        let highest = std::mem::take(&mut self.height);
        let made = rule(self);
        self.depth -= 1;
        self.grow(1)?;
        self.height = self.height.max(highest);
        made
    }

    /// Adds to the height of the tree that was made last.
    fn grow(&mut self, more: usize) -> SqlResult<()> {
        self.height += more;
        let most = if stack::is_large() { stack::TREE_MAX } else { SMALL_TREE_MAX };
        if most < self.depth + self.height { Err(stack::exceeded()) } else { Ok(()) }
    }
}

/// Reads the next token as the grammar wants it (`base_yylex`): some keywords depend on the one after them.
fn token(lexer: &mut Lexer<'_>, read: &mut Option<Token>) -> SqlResult<Token> {
    let mut token = match read.take() {
        Some(token) => token,
        None => lexer.next_token()?,
    };
    let Lexeme::Keyword(word @ (Keyword::Not | Keyword::Nulls | Keyword::With)) = token.lexeme else {
        return Ok(token);
    };
    let next = *read.insert(lexer.next_token()?);
    let is_joined = match (word, next.lexeme) {
        (Keyword::Not, Lexeme::Keyword(next)) => {
            matches!(next, Keyword::Between | Keyword::In | Keyword::Like | Keyword::Ilike | Keyword::Similar)
        }
        (Keyword::Nulls, Lexeme::Keyword(next)) => matches!(next, Keyword::First | Keyword::Last),
        (_, Lexeme::Keyword(next)) => matches!(next, Keyword::Time | Keyword::Ordinality),
        _ => false,
    };
    if is_joined {
        token.lexeme = Lexeme::Joined(word);
    }
    Ok(token)
}

/// A statement of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// Syntax tree of the statement.
    pub statement: Statement,
    /// Place of the statement, from its first token to its last. Like all places in its tree it counts from the start of
    /// its extent.
    pub span: Span,
    /// Place in the whole text of the statement with the comments around it, up to the semicolons; the whole text if there is
    /// no other statement.
    pub extent: Span,
    /// Notices of names that were truncated.
    pub notices: Vec<SqlError>,
}

/// Parses the statements of a text.
///
/// # Errors
/// `42601` and others of the grammar, with their positions; `54001`; `57014`.
pub fn parse(text: &str) -> SqlResult<Vec<Parsed>> {
    let mut statements: Vec<Parsed> = Vec::new();
    let mut start = 0;
    loop {
        let rest = &text[start..];
        // Positions of an error count from the beginning of the whole text.
        let moved = |error: SqlError| error.moved(text[..start].chars().count());
        let next = Parser::new(rest).and_then(|mut parser| parser.next_statement()).map_err(moved)?;
        let Some((mut parsed, behind)) = next else { break };
        parsed.extent = Span::new(start, start + parsed.extent.of(rest).trim_end().len());
        statements.push(parsed);
        start += behind as usize;
        start += text[start..].len() - text[start..].trim_start().len();
    }
    if let [only] = &mut statements[..] {
        only.extent = Span::new(0, text.trim_end().len());
    }
    Ok(statements)
}

/// Parses a text that is one expression.
///
/// # Errors
/// Those of [`parse`].
pub fn expression(text: &str) -> SqlResult<Expr> {
    let mut parser = Parser::new(text)?;
    let expr = parser.expr()?;
    parser.end()?;
    Ok(expr)
}

/// Parses a text that is one query.
///
/// # Errors
/// Those of [`parse`].
pub fn query(text: &str) -> SqlResult<Query> {
    let mut parser = Parser::new(text)?;
    let query = parser.query()?;
    parser.end()?;
    Ok(query)
}

#[cfg(test)]
mod soup;
#[cfg(test)]
mod tests;
