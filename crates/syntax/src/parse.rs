//! The parser adapter: text to syntax trees, and its errors in PostgreSQL's words.
//!
//! **Invariant:** positions are counted in characters of the text that the client sent, the first being 1.

pub mod alters;
pub mod copy_options;
pub mod cursors;
pub mod explain_options;
pub mod forms;
mod grammar;
mod lexer;
pub mod maintenance;
mod names;
pub mod paths;
mod pieces;
pub mod print;
mod queries;
mod refused;
pub mod relations;
pub mod rewrite;
mod role_words;
pub mod sequences;
mod set_value;
mod typos;

use crate::tags::Tags;
use grammar::Grammar;
pub use set_value::set_value;
use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, Whitespace};
use statement::bulk::Bulk;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::ops::Range;

/// Greatest depth of a tree that any thread's stack has room for, and of open parentheses in its text.
const SMALL: Depth = Depth { tree: 200, nesting: 20 };
/// The same of a definition. Its tree stays in the catalog, where anybody may drop it.
const KEPT: Depth = Depth { tree: 500, nesting: 50 };
/// The same of a large stack.
const LARGE: Depth = Depth { tree: statement::stack::TREE_MAX, nesting: statement::stack::NESTING_MAX };
/// Greatest number of the parser's calls under way for each open parenthesis, and beside those: for signs and NOT in a row.
const CALLS_MAX: (usize, usize) = (8, 600);
/// Words that make a tree deeper.
const CHAINING: &[Keyword] = &[
    Keyword::AND,
    Keyword::OR,
    Keyword::NOT,
    Keyword::IS,
    Keyword::IN,
    Keyword::LIKE,
    Keyword::ILIKE,
    Keyword::BETWEEN,
    Keyword::UNION,
    Keyword::INTERSECT,
    Keyword::EXCEPT,
    Keyword::JOIN,
    Keyword::COLLATE,
    Keyword::AT,
    Keyword::NOTNULL,
    Keyword::SIMILAR,
    Keyword::OVERLAPS,
    Keyword::OPERATOR,
    Keyword::RLIKE,
    Keyword::REGEXP,
    Keyword::MATCH,
    Keyword::MEMBER,
    Keyword::DIV,
    Keyword::XOR,
];

/// One statement of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// Tree of the statement.
    pub tree: ast::Statement,
    /// Its text, without the semicolon.
    pub text: String,
    /// Of a COPY from or to the client, what stands behind that.
    pub copy: Option<Vec<copy_options::Written>>,
    /// It is an `EXPLAIN` of this statement.
    pub explain: Option<explain_options::Options>,
    /// Of names in it that were cut.
    pub notices: Vec<SqlError>,
}

/// Statement of a text of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Text of the statement, without the semicolon.
    pub text: String,
    /// Characters of the whole text that stand before it.
    pub before: usize,
}

/// All statements of a text; none if it is empty.
///
/// # Errors
/// `42601`, with its position.
pub fn parse(text: &str) -> SqlResult<Vec<Parsed>> {
    each(text, told, |_, parsed| parsed)
}

/// Whether these words could be statements, of ours or of PostgreSQL's.
fn is_syntax(text: &str) -> bool {
    match each(text, |_, _, error| error, |_, parsed| parsed) {
        Ok(_) => true,
        Err(error) => error.state() == SqlState::FEATURE_NOT_SUPPORTED,
    }
}

/// The library's error as a client is told it: a clause of PostgreSQL's is refused, anything else is near a word.
fn told(text: &str, piece: &[TokenWithSpan], error: SqlError) -> SqlError {
    let is_syntax = error.state() == SqlState::SYNTAX_ERROR;
    match is_syntax.then(|| refused::clause(text, piece, &error)).flatten() {
        Some(refusal) => refusal,
        None => typos::told(text, piece, error),
    }
}

/// The texts of all statements. One that is PostgreSQL's and is not here is refused when it is its turn, as what stands before
/// it is done first.
///
/// # Errors
/// `42601`, with its position; `57014`.
pub fn texts(text: &str) -> SqlResult<Vec<Part>> {
    each(text, told, |piece, parsed| {
        let own = match parsed {
            Err(error) if error.state() == SqlState::FEATURE_NOT_SUPPORTED => {
                let is_word = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
                let mut words = piece.tokens.iter().filter(is_word);
                let Some(first) = words.next() else { return Ok(None) };
                let last = words.next_back().unwrap_or(first);
                offset(piece.text, first.span.start)..offset(piece.text, last.span.end)
            }
            parsed => match parsed? {
                Some(_) => extent(piece.text, piece.tokens),
                None => return Ok(None),
            },
        };
        let before = piece.before + piece.text[..own.start].chars().count();
        Ok(Some(Part { text: pulse::copied(&piece.text[own])?, before }))
    })
}

/// Where a statement begins and ends, with its hint and its tags.
fn extent(text: &str, piece: &[TokenWithSpan]) -> Range<usize> {
    let is_word = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let belongs = |token: &&TokenWithSpan| match &token.token {
        Token::Whitespace(Whitespace::MultiLineComment(comment)) => {
            comment.starts_with('+') || Tags::of(&format!("/*{comment}*/")).is_some()
        }
        _ => is_word(token),
    };
    let (first, last) = (piece.iter().find(belongs), piece.iter().rfind(belongs));
    let begin = first.map_or(0, |token| offset(text, token.span.start));
    begin..last.map_or(begin, |token| offset(text, token.span.end))
}

/// What is made of each statement of a text: of its own text, its tree and its tokens.
fn each<T>(
    text: &str,
    tell: impl Fn(&str, &[TokenWithSpan], SqlError) -> SqlError,
    make: impl Fn(pieces::Piece<'_>, SqlResult<Option<Parsed>>) -> SqlResult<Option<T>>,
) -> SqlResult<Vec<T>> {
    rewrite::check_text(text)?;
    let mut statements = Vec::new();
    pieces::of(text, pieces::WINDOW, |piece| {
        let parsed = statement(piece.text, piece.tokens).map_err(|error| match tell(piece.text, piece.tokens, error) {
            // What stands at its end is not the text's end.
            error if piece.semicolon.is_some() && error.message() == AT_END => near(piece.text, piece.semicolon),
            error => error,
        });
        statements.extend(make(piece, parsed).map_err(|error| error.moved(piece.before))?);
        Ok(())
    })?;
    Ok(statements)
}

/// How many tokens the first statement has. Rules have statements in parentheses, and functions have them behind `BEGIN ATOMIC`.
fn length(tokens: &[TokenWithSpan]) -> usize {
    let is_routine = refused::makes_routine(tokens);
    let (mut depth, mut blocks) = (0_usize, 0_usize);
    for (at, token) in pulse::walked(tokens).enumerate() {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::SemiColon if depth == 0 && blocks == 0 => return at,
            Token::Word(_) if is_routine => {
                let begins = |word| rewrite::is_word(token, word);
                if begins("begin") || (0 < blocks && begins("case")) {
                    blocks += 1;
                } else if begins("end") {
                    blocks = blocks.saturating_sub(1);
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// The statement of these tokens, if they are any.
fn statement(text: &str, piece: &[TokenWithSpan]) -> SqlResult<Option<Parsed>> {
    match names::cut(piece)? {
        None => statement_of(text, piece),
        Some((piece, notices)) => {
            let parsed = statement_of(text, &piece);
            drop(Bulk::from(piece));
            Ok(parsed?.map(|parsed| Parsed { notices, ..parsed }))
        }
    }
}

/// As [`statement`], of tokens whose names are no longer than names may be.
fn statement_of(text: &str, piece: &[TokenWithSpan]) -> SqlResult<Option<Parsed>> {
    let mut words = piece.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    let Some(first) = words.next() else { return Ok(None) };
    // A hint belongs to the statement.
    let hint = pulse::walked(piece).find(
        |token| matches!(&token.token, Token::Whitespace(Whitespace::MultiLineComment(text)) if text.starts_with('+')),
    );
    let begin = hint.map_or(first.span.start, |hint| hint.span.start.min(first.span.start));
    let last = words.next_back().unwrap_or(first);
    let depth = Depth::of(piece)?;
    depth.check(piece)?;
    if let Some(error) = refused::statement(text, piece) {
        return Err(error);
    }
    typos::check(text, piece)?;
    if let Some(tree) = maintenance::maintenance(text, piece)? {
        let text = pulse::copied(&text[offset(text, first.span.start)..offset(text, last.span.end)])?;
        return Ok(Some(Parsed { tree, text, copy: None, explain: None, notices: Vec::new() }));
    }
    let (piece, explain) = match explain_options::cut(text, piece)? {
        Some((options, piece)) => (piece, Some(options)),
        None => (piece, None),
    };
    let explained = piece;
    if explain.is_none()
        && let Some(tree) = cursors::fetch(text, piece)?
    {
        let text = pulse::copied(&text[offset(text, begin)..offset(text, last.span.end)])?;
        return Ok(Some(cursors::parsed(text, tree)));
    }
    let (piece, declare) = match cursors::cut(text, piece)? {
        Some((declare, piece)) => (piece, Some(declare)),
        None => (piece, None),
    };
    let declared = piece;
    let (piece, copy) = match copy_options::cut(text, piece)? {
        Some((piece, options)) => (piece, Some(options)),
        None => (piece, None),
    };
    let (piece, overriding) = match crate::overriding::cut(piece)? {
        Some((piece, what, token)) => (piece, Some((what, token))),
        None => (copied(piece)?, None),
    };
    let piece = role_words::as_roles(&piece).unwrap_or(piece);
    let piece = rewrite::rewrite(text, piece)?;
    let dialect = Grammar::new();
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(CALLS_MAX.0 * depth.nesting + CALLS_MAX.1)
        .with_tokens_with_locations(piece);
    let end = offset(text, last.span.end);
    let parsed = parser.parse_statement();
    let next = parser.peek_token();
    drop(Bulk::from(parser.into_tokens()));
    if let Some(stopped) = grammar::take_stopped() {
        return Err(stopped);
    }
    let mut tree = parsed.map_err(|error| parser_error(text, &error))?;
    if let Some((what, token)) = overriding {
        crate::overriding::put(&mut tree, what, text, &token)?;
    }
    if next.token != Token::EOF {
        return Err(near(text, Some(&next)));
    }
    if let ast::Statement::CreateTable(create) = &tree {
        relations::check_columns(text, declared, create)?;
    }
    if let Some(declare) = declare {
        tree = cursors::put(text, declare, tree, declared)?;
    }
    if explain.is_some() {
        explain_options::check(text, explained, &tree)?;
    }
    let text = pulse::copied(&text[offset(text, begin)..end])?;
    Ok(Some(Parsed { tree, copy, explain, text, notices: Vec::new() }))
}

/// The same tokens.
fn copied(tokens: &[TokenWithSpan]) -> SqlResult<Vec<TokenWithSpan>> {
    let mut copy = Vec::with_capacity(tokens.len());
    for TokenWithSpan { token, span } in tokens {
        pulse::tick(16)?;
        let token = match token {
            Token::SingleQuotedString(text) if pulse::SLICE < text.len() => {
                Token::SingleQuotedString(pulse::copied(text)?)
            }
            token => token.clone(),
        };
        copy.push(TokenWithSpan { token, span: *span });
    }
    Ok(copy)
}

/// An expression of ours.
///
/// # Errors
/// `42601`
pub fn expression(text: &str) -> SqlResult<ast::Expr> {
    let parsed = parse(&format!("SELECT {text}"))?;
    if let [Parsed { tree: ast::Statement::Query(query), .. }] = &parsed[..]
        && let ast::SetExpr::Select(select) = &*query.body
        && let [ast::SelectItem::UnnamedExpr(expr)] = &select.projection[..]
    {
        return Ok(expr.clone());
    }
    Err(SqlError::new(SqlState::SYNTAX_ERROR, "an expression was expected"))
}

/// Returns the greatest depth of the tree of some tokens. The parser makes it as deep as a chain of operators is long, in a loop.
#[derive(Clone, Copy)]
struct Depth {
    /// Operators in a row, those around open parentheses included, and the parentheses.
    tree: usize,
    /// Parentheses.
    nesting: usize,
}

impl Depth {
    fn of(tokens: &[TokenWithSpan]) -> SqlResult<Depth> {
        let mut lengths = vec![0_usize];
        // Of all that are open.
        let mut length = 0;
        // Signs, NOT and INTERVAL in a row, which nest as parentheses do.
        let mut prefixes = 0;
        // The token before, and the one before that.
        let (mut before, mut further) = (&Token::EOF, &Token::EOF);
        let mut most = Depth { tree: 0, nesting: 0 };
        for token in tokens {
            pulse::tick(4)?;
            prefixes = match &token.token {
                Token::Whitespace(_) => continue,
                Token::Word(word) if matches!(word.keyword, Keyword::NOT | Keyword::INTERVAL) => prefixes + 1,
                Token::Plus | Token::Minus | Token::Tilde => prefixes + 1,
                _ => 0,
            };
            // A field of a value. That of a name, as in `table.column`, makes nothing deeper.
            let is_field =
                matches!(before, Token::RParen | Token::RBracket | Token::Period) || *further == Token::Period;
            (further, before) = (before, &token.token);
            match &token.token {
                Token::LParen => lengths.push(0),
                // A subscript is a step of a chain, and what stands in it is on its own.
                Token::LBracket => {
                    if let Some(last) = lengths.last_mut() {
                        *last += 1;
                        length += 1;
                    }
                    lengths.push(0);
                }
                Token::RParen | Token::RBracket if 1 < lengths.len() => length -= lengths.pop().unwrap_or(0),
                Token::Comma => length -= lengths.last_mut().map_or(0, std::mem::take),
                Token::Number(..) | Token::SingleQuotedString(_) | Token::Placeholder(_) | Token::EOF => {}
                Token::Period if !is_field => {}
                Token::Word(word) if word.keyword == Keyword::CASE => {
                    lengths.push(0);
                }
                Token::Word(word) if word.keyword == Keyword::END && 1 < lengths.len() => {
                    length -= lengths.pop().unwrap_or(0);
                }
                Token::Word(word) if !CHAINING.contains(&word.keyword) && !rewrite::is_word(token, "isnull") => {}
                _ => {
                    if let Some(last) = lengths.last_mut() {
                        *last += 1;
                        length += 1;
                    }
                }
            }
            most.tree = most.tree.max(length + lengths.len());
            most.nesting = most.nesting.max(lengths.len() - 1 + prefixes);
        }
        Ok(most)
    }

    fn is_within(self, other: Depth) -> bool {
        self.tree <= other.tree && self.nesting <= other.nesting
    }

    /// # Errors
    /// `54001`, on a large stack only if it is too deep for that, too.
    fn check(self, tokens: &[TokenWithSpan]) -> SqlResult<()> {
        let is_kept = tokens
            .iter()
            .find(|token| !matches!(token.token, Token::Whitespace(_)))
            .is_some_and(|first| rewrite::is_word(first, "create") || rewrite::is_word(first, "alter"));
        let has_room = match statement::stack::is_large() {
            true => self.is_within(if is_kept { KEPT } else { LARGE }),
            false => self.is_within(SMALL),
        };
        if has_room { Ok(()) } else { Err(statement::stack::exceeded()) }
    }
}

/// `syntax error at or near "word"`.
pub fn near(text: &str, token: Option<&TokenWithSpan>) -> SqlError {
    match token {
        None | Some(TokenWithSpan { token: Token::EOF, .. }) => at_end(text),
        Some(token) => {
            let (from, to) = (offset(text, token.span.start), offset(text, token.span.end));
            let message = format!("syntax error at or near \"{}\"", &text[from..to.max(from)]);
            SqlError::new(SqlState::SYNTAX_ERROR, message).at(position(text, token.span.start))
        }
    }
}

const AT_END: &str = "syntax error at end of input";

fn at_end(text: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, AT_END).at(text.chars().count() + 1)
}

/// The tokens of a text; what stands behind an error is none, and nothing is if the statement has to end.
pub fn tokens(text: &str) -> Vec<TokenWithSpan> {
    lexer::tokens(text).map(|(tokens, _)| tokens).unwrap_or_default()
}

/// The library's messages name what was found by its place: the token there is what PostgreSQL calls near.
fn parser_error(text: &str, error: &ParserError) -> SqlError {
    let message = match error {
        ParserError::RecursionLimitExceeded => {
            return statement::stack::exceeded();
        }
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
    };
    let tokens = tokens(text);
    if let Some(location) = location_in(message) {
        return match tokens.iter().find(|token| token.span.start == location) {
            Some(token) => near(text, Some(token)),
            None => at_end(text),
        };
    }
    // Some messages name what was found, but not where: most likely the last of these.
    match message.rsplit_once("found: ").map(|(_, found)| found) {
        Some("EOF") => at_end(text),
        Some(found) => match tokens.iter().rfind(|token| token.token.to_string() == found) {
            Some(token) => near(text, Some(token)),
            None => SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error: {message}")),
        },
        None => SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error: {message}")),
    }
}

/// Out of `... at Line: 1, Column: 5`.
fn location_in(message: &str) -> Option<Location> {
    let (_, place) = message.rsplit_once("Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u64>().ok();
    Some(Location { line: digits(line)?, column: digits(column)? })
}

fn tokenizer_error(text: &str, message: &str, location: Location) -> SqlError {
    if message.starts_with("Expected a valid binary operator") {
        return SqlError::unsupported("this operator").at(position(text, location));
    }
    let message = match message {
        message if message.starts_with("Unterminated string literal") => "unterminated quoted string",
        message if message.starts_with("Unterminated encoded string literal") => "unterminated quoted string",
        message if message.starts_with("Unterminated dollar-quoted") => "unterminated dollar-quoted string",
        message if message.starts_with("Expected close delimiter") => "unterminated quoted identifier",
        message if message.contains("multi-line comment") => "unterminated /* comment",
        other => other,
    };
    let from = unended(text).unwrap_or_else(|| offset(text, location));
    SqlError::new(SqlState::SYNTAX_ERROR, format!("{message} at or near \"{}\"", &text[from..]))
        .at(text[..from].chars().count() + 1)
}

/// The byte where a comment or a dollar-quoted text begins that has no end: the library says where the text ends. With an end it
/// is the last token.
fn unended(text: &str) -> Option<usize> {
    let comment = "*/".repeat(text.matches("/*").count());
    let quote = text.rmatch_indices('$').find_map(|(end, _)| {
        let tag = text[..end].rfind('$').map(|begin| &text[begin..=end])?;
        tag[1..tag.len() - 1].chars().all(|c| c == '_' || c.is_alphanumeric()).then_some(tag)
    });
    [Some(&*comment), quote].into_iter().flatten().filter(|end| !end.is_empty()).find_map(|end| {
        let ended = format!("{text}{end}");
        let tokens = Tokenizer::new(&Grammar::new(), &ended).tokenize_with_location().ok()?;
        let last = tokens.iter().rfind(|token| token.token != Token::EOF)?;
        matches!(last.token, Token::Whitespace(Whitespace::MultiLineComment(_)) | Token::DollarQuotedString(_))
            .then(|| offset(&ended, last.span.start))
    })
}

/// The byte of this place.
fn offset(text: &str, location: Location) -> usize {
    #[cfg(test)]
    pieces::scanned(text.len());
    let mut left = location.line.saturating_sub(1);
    let start = if left == 0 {
        0
    } else {
        let newline = text.match_indices('\n').find(|_| {
            left -= 1;
            left == 0
        });
        newline.map_or(text.len(), |(at, _)| at + 1)
    };
    let (mut columns, mut at) = (location.column.saturating_sub(1) as usize, start);
    for slice in pulse::slices(&text[start..]) {
        let count = slice.chars().count();
        if columns < count {
            return slice.char_indices().nth(columns).map_or(text.len(), |(more, _)| at + more);
        }
        // Whoever looks next finds that the statement must end.
        let _ = pulse::walk(slice.len());
        columns -= count;
        at += slice.len();
    }
    text.len()
}

/// Its position, as an error carries it.
pub fn position(text: &str, location: Location) -> usize {
    text[..offset(text, location)].chars().count() + 1
}

/// The position of the beginning of a span in the statement's own text, for names; nothing if the tree does not say.
pub(crate) fn position_of(text: &str, span: Span) -> Option<usize> {
    (span.start.line != 0).then(|| position(text, span.start))
}

/// An identifier as the catalog has it: lower case unless it was quoted.
pub fn folded(ident: &ast::Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

/// Words that are no names unless they are quoted (`kwlist.h`, reserved ones). The library is more generous.
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "localtime",
    "localtimestamp",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "session_user",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];

/// Whether a word that is not quoted is no name.
fn is_reserved(word: &str) -> bool {
    RESERVED.binary_search(&&*word.to_lowercase()).is_ok()
}

/// # Errors
/// `42601` for a reserved word in the place of a name.
pub fn check_name(text: &str, ident: &ast::Ident) -> SqlResult<()> {
    if ident.quote_style.is_some() || !is_reserved(&ident.value) {
        return Ok(());
    }
    let message = format!("syntax error at or near \"{}\"", ident.value);
    let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
    Err(match position_of(text, ident.span) {
        Some(position) => error.at(position),
        None => error,
    })
}

#[cfg(test)]
mod soup;
#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> (String, Option<usize>) {
        let error = parse(text).unwrap_err();
        assert_eq!(error.state(), SqlState::SYNTAX_ERROR, "{text}");
        (error.message().to_owned(), error.position())
    }

    #[test]
    fn a_text_is_split_at_its_semicolons() {
        let found: Vec<String> =
            parse(" select 1;; select 'a;b' -- c;d\n; \n select 3 ").unwrap().into_iter().map(|one| one.text).collect();
        assert_eq!(found, ["select 1", "select 'a;b'", "select 3"]);
        assert!(parse(" ; -- nothing\n ;").unwrap().is_empty());
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn a_statement_keeps_its_hint_and_its_tags() {
        let text =
            "/* no */ select 1 /*a='1'*/ ; /*+ priority=low */ select 2 /* no */; /*b='2'*/ select 3\n/*c='\u{e9}'*/";
        let wanted = ["select 1 /*a='1'*/", "/*+ priority=low */ select 2", "/*b='2'*/ select 3\n/*c='\u{e9}'*/"];
        let found: Vec<String> = texts(text).unwrap().into_iter().map(|part| part.text).collect();
        assert_eq!(found, wanted);
        assert_eq!(texts("/*a='1'*/").unwrap(), Vec::new());
    }

    #[test]
    fn errors_read_as_postgresqls() {
        assert_eq!(error("selec 1"), ("syntax error at or near \"selec\"".to_owned(), Some(1)));
        assert_eq!(error("select 1;\nselect 'ü', from"), ("syntax error at or near \"from\"".to_owned(), Some(23)));
        assert_eq!(error("insert into t values (1"), ("syntax error at end of input".to_owned(), Some(24)));
        assert_eq!(error("select 'abc"), ("unterminated quoted string at or near \"'abc\"".to_owned(), Some(8)));
        assert_eq!(error("select (1 2)"), ("syntax error at or near \"2\"".to_owned(), Some(11)));
    }

    #[test]
    fn reserved_words_stand_in_order() {
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn what_is_too_deep_is_an_error_of_its_own() {
        let nested = |depth: usize| format!("select {}1{}", "(".repeat(depth), ")".repeat(depth));
        let chains = |length: usize| ["1=1 or ", "1+"].map(|part| format!("select {}1", part.repeat(length)));
        for text in chains(20_000).into_iter().chain([nested(5_000)]) {
            assert_eq!(parse(&text).unwrap_err().state(), SqlState::STATEMENT_TOO_COMPLEX);
            let (count, is_large) = statement::stack::bounded(|| parse(&text).map(|all| all.len())).unwrap();
            assert_eq!((count, is_large), (1, true));
        }
        for text in chains(60_000).into_iter().chain([nested(20_000)]) {
            let error = statement::stack::bounded(|| parse(&text).map(drop)).unwrap_err();
            assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX);
        }
        let many = format!("select 1 where 1 in ({})", vec!["-1"; 20_000].join(","));
        assert_eq!(parse(&many).unwrap().len(), 1);
        assert_eq!(parse(&"select -1;".repeat(2_000)).unwrap().len(), 2_000);
    }

    /// Goal: rewriting is linear. Method: so many that moving all tokens behind each would take minutes.
    #[test]
    fn what_is_written_often_is_rewritten_in_one_pass() {
        for one in ["inet '1.1.1.1'", "1 isnull", "1 notnull", "'a'::text collate \"C\"", "current_schema", "0x1"] {
            let many = vec![one; 100_000].join(", ");
            let result = parse(&format!("select 1 in ({many})"));
            match one {
                "0x1" => assert_eq!(result.unwrap_err().state(), SqlState::SYNTAX_ERROR),
                _ => assert_eq!(result.unwrap().len(), 1),
            }
        }
    }
}
