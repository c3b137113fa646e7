//! Tokens of a text, with operators that end where PostgreSQL's end (`scan.l`).
//!
//! The library takes all signs in a row for one operator. PostgreSQL's ends before a comment, and before signs of numbers
//! unless it has a character that no operator of standard SQL has: `a>-1` compares, `a@-1` is one operator.

use super::Grammar;
use super::pieces::Place;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, TokenizerError, Whitespace};
use statement::error::SqlResult;
use statement::pulse::{self, SLICE};

/// Units of work of a byte that is made a token.
const BYTE: usize = 8;
/// Bytes that the library is given at once, unless a token is longer: less than a millisecond's work.
const WINDOW: usize = 1 << 14;
/// A window in which no token ends is made so many times as long.
const GROWTH: usize = 8;
/// Characters of operators.
const SIGNS: &str = "+-*/<>=~!@#%^&|`?";
/// Those that an operator has which may end in `+` or `-`.
const UNCOMMON: &str = "~!@#%^&|`?";

/// Words that are keywords of other dialects, and names in PostgreSQL.
const FOREIGN: &[Keyword] = &[
    Keyword::ANTI,
    Keyword::APPLY,
    Keyword::ASOF,
    Keyword::DISTRIBUTE,
    Keyword::DIV,
    Keyword::GLOB,
    Keyword::LAMBDA,
    Keyword::MATCH_RECOGNIZE,
    Keyword::MEMBER,
    Keyword::MINUS,
    Keyword::PIVOT,
    Keyword::PREWHERE,
    Keyword::PRIOR,
    Keyword::QUALIFY,
    Keyword::REGEXP,
    Keyword::RLIKE,
    Keyword::SAMPLE,
    Keyword::SEMI,
    Keyword::SETTINGS,
    Keyword::SORT,
    Keyword::STRUCT,
    Keyword::TOP,
    Keyword::UNPIVOT,
    Keyword::XOR,
];

/// Tokens, those before an error too, and the error if there is one.
pub(super) type Tokens = (Vec<TokenWithSpan>, Result<(), TokenizerError>);

/// # Errors
/// Those of [`pulse::tick`].
pub(super) fn tokens(text: &str) -> SqlResult<Tokens> {
    let mut made = Vec::new();
    let mut from = Place::START;
    loop {
        let (found, outcome) = library(text, from, WINDOW)?;
        if made.is_empty() && !found.iter().any(|token| too_long(&token.token).is_some()) {
            return Ok((native(merged(found)), outcome));
        }
        match split(text, from, found, &mut made)? {
            Some(behind) => from = behind,
            None => return Ok((native(merged(made)), outcome)),
        }
    }
}

/// The tokens without what PostgreSQL does not know: words that are keywords of other dialects, and their `==`.
fn native(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for TokenWithSpan { token, .. } in &mut tokens {
        match token {
            Token::Word(word) if FOREIGN.contains(&word.keyword) => word.keyword = Keyword::NoKeyword,
            Token::DoubleEq => *token = Token::CustomBinaryOperator("==".to_owned()),
            _ => {}
        }
    }
    tokens
}

/// The library's tokens from a place on. It is given a window of the text at a time; the next one begins at the last token
/// before which the text can be cut: what stands before that was read to its end.
///
/// # Errors
/// Those of [`pulse::tick`].
fn library(text: &str, from: Place, least: usize) -> SqlResult<Tokens> {
    let mut tokens: Vec<TokenWithSpan> = Vec::new();
    let (mut from, mut window) = (from, least);
    loop {
        let rest = &text[from.byte..];
        let end = rest.ceil_char_boundary(window.min(rest.len()));
        pulse::tick(end * BYTE)?;
        let begin = tokens.len();
        let mut found = Vec::new();
        let outcome = Tokenizer::new(&Grammar::new(), &rest[..end]).tokenize_with_location_into_buf(&mut found);
        let is_last = end == rest.len();
        let cut = if is_last { found.len() } else { found.iter().rposition(is_cut).unwrap_or(0) };
        let next = found.get(cut).map(|token| token.span.start);
        let long = match is_last || 0 < cut || !found.last().is_none_or(is_cut) {
            true => None,
            false => {
                let begin = found.last().map_or(from, |last| from.upto(text, from.absolute(last.span.end)));
                long_text(text, begin)?
            }
        };
        if tokens.is_empty() && !is_last {
            // As many as in the first window: to move them when there are more takes a while.
            let more = (rest.len() / end.max(1)).saturating_mul(found.len());
            tokens.reserve(more.saturating_add(more / 8));
        }
        tokens.extend(found.into_iter().take(if long.is_some() { usize::MAX } else { cut }));
        if 0 < from.byte {
            for TokenWithSpan { span, .. } in &mut tokens[begin..] {
                *span = Span::new(from.absolute(span.start), from.absolute(span.end));
            }
        }
        match next {
            // An error of a window that is not the last is its end's.
            _ if is_last => {
                let absolute =
                    |error: TokenizerError| TokenizerError { location: from.absolute(error.location), ..error };
                return Ok((tokens, outcome.map_err(absolute)));
            }
            _ if let Some((text, behind)) = long => {
                tokens.push(text);
                (from, window) = (behind, least);
            }
            Some(next) if 0 < cut => (from, window) = (from.upto(text, from.absolute(next)), least),
            // One token is longer.
            _ => window *= GROWTH,
        }
    }
}

/// The text in quotes that begins there and the place behind it, if one does and it has an end. The library reads a text of any length
/// without a look.
///
/// # Errors
/// Those of [`pulse::tick`].
fn long_text(text: &str, begin: Place) -> SqlResult<Option<(TokenWithSpan, Place)>> {
    if !text[begin.byte..].starts_with('\'') {
        return Ok(None);
    }
    let mut value = String::new();
    let mut byte = begin.byte + 1;
    let mut is_open = true;
    while is_open {
        let rest = &text[byte..];
        let slice = &rest[..rest.floor_char_boundary(SLICE)];
        if slice.is_empty() {
            return Ok(None);
        }
        let (own, length) = match slice.find('\'') {
            None => (slice, slice.len()),
            // One that another one follows stands for itself.
            Some(at) if rest.as_bytes().get(at + 1) == Some(&b'\'') => (&slice[..=at], at + 2),
            Some(at) => {
                is_open = false;
                (&slice[..at], at + 1)
            }
        };
        pulse::tick(1 + length)?;
        value.push_str(own);
        byte += length;
    }
    let mut behind = begin;
    for slice in pulse::slices(&text[begin.byte..byte]) {
        pulse::tick(slice.len())?;
        behind = behind.behind(slice);
    }
    let span = Span::new(begin.location, behind.location);
    Ok(Some((TokenWithSpan { token: Token::SingleQuotedString(value), span }, behind)))
}

/// Tells whether the text can be cut before a token: it begins one whatever stands before it.
fn is_cut(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(Whitespace::Space) | Token::Comma | Token::LParen)
}

/// Signs of which PostgreSQL's operator is only the beginning.
fn too_long(token: &Token) -> Option<&str> {
    match token {
        Token::CustomBinaryOperator(signs) if length(signs) < signs.len() => Some(signs),
        _ => None,
    }
}

/// Adds tokens to `made`, too long operators in their parts. Gives the place from which on the text is to be made tokens anew,
/// if a comment was taken for signs and what stands behind it for other tokens than it is.
fn split(
    text: &str,
    from: Place,
    found: Vec<TokenWithSpan>,
    made: &mut Vec<TokenWithSpan>,
) -> SqlResult<Option<Place>> {
    let mut found = found.into_iter().peekable();
    let mut place = from;
    while let Some(token) = found.next() {
        let Some(mut rest) = too_long(&token.token) else {
            made.push(token);
            continue;
        };
        let mut start = token.span.start;
        while !rest.is_empty() {
            if rest.starts_with("--") || rest.starts_with("/*") {
                place = place.upto(text, start);
                let end = place.byte + comment(&text[place.byte..]);
                let behind = place.upto_byte(text, end);
                let (comments, outcome) = library(&text[..end], place, WINDOW)?;
                if outcome.is_err() || comments.len() != 1 {
                    // It has no end: the error is the text's.
                    return Ok(Some(place));
                }
                made.extend(comments);
                let at = |location: Location| (location.line, location.column);
                while found.next_if(|next| at(next.span.start) < at(behind.location)).is_some() {}
                let goes_on = found.peek().is_some_and(|next| next.span.start == behind.location);
                if !goes_on {
                    return Ok(Some(behind));
                }
                break;
            }
            let (own, more) = rest.split_at(length(rest));
            let end = Location { column: start.column + own.len() as u64, ..start };
            made.push(TokenWithSpan { token: operator_of(own), span: Span::new(start, end) });
            (rest, start) = (more, end);
        }
    }
    Ok(None)
}

/// Operators that the library takes for several tokens, as `^-`, are one.
fn merged(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.windows(2).take_while(|_| pulse::walk(pulse::ITEM).is_ok()).any(|two| one_of(&two[0], &two[1]).is_some())
    {
        return tokens;
    }
    let mut made: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        match made.last_mut().and_then(|last| Some((one_of(last, &token)?, last))) {
            Some((both, last)) => {
                *last = TokenWithSpan { token: operator_of(&both), span: Span::new(last.span.start, token.span.end) };
            }
            None => made.push(token),
        }
    }
    made
}

/// The operator that two tokens are.
fn one_of(first: &TokenWithSpan, second: &TokenWithSpan) -> Option<String> {
    if first.span.end != second.span.start {
        return None;
    }
    let both = signs(&first.token)? + &signs(&second.token)?;
    (length(&both) == both.len()).then_some(both)
}

/// The signs that a token is a part of an operator with.
fn signs(token: &Token) -> Option<String> {
    match token {
        Token::Word(_) | Token::Whitespace(_) | Token::Number(..) | Token::SingleQuotedString(_) => None,
        Token::LParen | Token::RParen | Token::LBracket | Token::RBracket | Token::Comma | Token::Period => None,
        // These are no operators.
        Token::SemiColon | Token::Colon | Token::DoubleColon | Token::Assignment | Token::RArrow | Token::EOF => None,
        sign => Some(sign.to_string()).filter(|sign| !sign.is_empty() && sign.chars().all(|one| SIGNS.contains(one))),
    }
}

/// The token of an operator.
fn operator_of(operator: &str) -> Token {
    match Tokenizer::new(&Grammar::new(), operator).tokenize().map(<[Token; 1]>::try_from) {
        Ok(Ok([token])) => token,
        _ => Token::CustomBinaryOperator(operator.to_owned()),
    }
}

/// Bytes of the operator with which these signs begin, which are no comment.
fn length(signs: &str) -> usize {
    let comment = ["--", "/*"].iter().filter_map(|comment| signs.find(comment)).min();
    let mut operator = &signs[..comment.unwrap_or(signs.len())];
    while 1 < operator.len()
        && operator.ends_with(['+', '-'])
        && !operator[..operator.len() - 1].chars().any(|one| UNCOMMON.contains(one))
    {
        operator = &operator[..operator.len() - 1];
    }
    operator.len()
}

/// Bytes of the comment with which a text begins.
fn comment(text: &str) -> usize {
    if text.starts_with("--") {
        return text.find(['\n', '\r']).map_or(text.len(), |end| end + 1);
    }
    let mut open = 0_usize;
    let mut at = 0;
    while let Some(two) = text.as_bytes().get(at..at + 2) {
        match two {
            b"/*" => open += 1,
            b"*/" => open -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if open == 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::texts;

    fn split(text: &str) -> Vec<String> {
        let (tokens, outcome) = tokens(text).expect("nobody cancels");
        assert!(outcome.is_ok(), "{text}");
        // The places are those of the text.
        let lines: Vec<Vec<char>> = text.split('\n').map(|line| line.chars().collect()).collect();
        for TokenWithSpan { token, span } in &tokens {
            if span.start.line == span.end.line && !matches!(token, Token::Whitespace(_)) {
                let line = &lines[span.start.line as usize - 1];
                let own = &line[span.start.column as usize - 1..span.end.column as usize - 1];
                assert_eq!(own.iter().collect::<String>(), token.to_string(), "{text}");
            }
        }
        tokens
            .into_iter()
            .filter(|token| !matches!(token.token, Token::Whitespace(_)))
            .map(|token| token.token.to_string())
            .collect()
    }

    /// Goal: the tokens do not depend on how the text is cut. Method: windows of all lengths over texts that have all that may be long.
    #[test]
    fn windows_change_no_token() {
        for text in [
            "select a , b.1 , 1.5e3,(c),\n'a, (b' , \"x , (y\" , e'\\', (' , $$ a , ( $$ , $t$ , $$ ( $t$, $1 , x'1f', b'1', n'a , b'",
            "select 1 -- a , (\n , /* b , ( /* c , */ ( */ 2 , u&'d , \\00e9' , 'it''s , ' , a::text , b ->> 'c' , d @> e , (1) , 2.",
            "select 'é , 😀 , ( ' , é , \"😀 (\" , - 1 , a.\"b\" , a . * , 1 , .5 , 'open , (",
            "select $$ open , ( ",
            "select 1 , /* open , ( ",
        ] {
            let (whole, outcome) = library(text, Place::START, text.len()).expect("nobody cancels");
            for window in 1..=text.len() {
                let (tokens, other) = library(text, Place::START, window).expect("nobody cancels");
                assert_eq!(tokens, whole, "{window}: {text}");
                let spans = |tokens: &[TokenWithSpan]| tokens.iter().map(|token| token.span).collect::<Vec<_>>();
                assert_eq!(spans(&tokens), spans(&whole), "{window}: {text}");
                assert_eq!(other, outcome, "{window}: {text}");
            }
        }
    }

    #[test]
    fn operators_end_where_postgresqls_end() {
        for (text, wanted) in [
            ("1>-1", "1 > - 1"),
            ("1>=-1", "1 >= - 1"),
            ("1<>-1", "1 <> - 1"),
            ("1>>-1", "1 >> - 1"),
            ("1<<-+-1", "1 << - + - 1"),
            ("2>=+1", "2 >= + 1"),
            ("a->-1", "a -> - 1"),
            ("a->>-1", "a ->> - 1"),
            ("1<-1", "1 < - 1"),
            ("1=-1", "1 = - 1"),
            ("2*-1", "2 * - 1"),
            ("1-/*c*/2", "1 - 2"),
            ("1<=/*c*/2", "1 <= 2"),
            ("1>=/**/-1", "1 >= - 1"),
            ("1>-/*c*/1", "1 > - 1"),
            ("1<>--c\n1", "1 <> 1"),
            ("1>--c", "1 >"),
            ("1-/*'*/2-/*\"*/3", "1 - 2 - 3"),
            ("1>/* a /* ' */ - */-é'*/\n'", "1 > - é '*/\n'"),
            ("1>/*\n'\n*/-1", "1 > - 1"),
            ("2^-1", "2 ^- 1"),
            ("1=~1", "1 =~ 1"),
            ("a||-1", "a ||- 1"),
            ("a<->-b", "a <-> - b"),
            ("t.*,a=>-1", "t . * , a => - 1"),
            ("'>-/*'||\">-\"", "'>-/*' || \">-\""),
        ] {
            assert_eq!(split(text).join(" "), wanted, "{text}");
        }
        for signs in ["1-/*c*/2", "1>-1", "1>--'\n2"] {
            let text = format!("select {signs}; select 2");
            let found: Vec<String> = texts(&text).expect("statements").into_iter().map(|part| part.text).collect();
            assert_eq!(found, [&*format!("select {signs}"), "select 2"]);
        }
        assert!(tokens("select 1-/*").expect("nobody cancels").1.is_err());
    }
}
