//! Names that are too long, as `truncate_identifier` cuts them.

use super::rewrite::is_word;
use crate::names::{NAME_MAX, clipped};
use crate::parse::folded;
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;

/// The tokens with long names cut, and a notice of each; nothing if no name is long.
///
/// # Errors
/// Those of [`pulse::tick`].
pub(super) fn cut(tokens: &[TokenWithSpan]) -> SqlResult<Option<(Vec<TokenWithSpan>, Vec<SqlError>)>> {
    if !pulse::walked(tokens).any(is_long) {
        return Ok(None);
    }
    let mut cut = super::copied(tokens)?;
    let mut notices = Vec::new();
    for at in 0..cut.len() {
        pulse::tick(pulse::ITEM)?;
        // What `U&"..."` stands for is shorter: it is cut when it is known.
        let is_escaped = match cut[..at] {
            [.., ref u, ref and] => {
                and.token == Token::Ampersand && and.span.end == cut[at].span.start && is_word(u, "u")
            }
            _ => false,
        };
        if is_escaped || !is_long(&cut[at]) {
            continue;
        }
        let span = cut[at].span;
        if let Token::Word(word) = &mut cut[at].token {
            let whole = folded(&ast::Ident { value: word.value.clone(), quote_style: word.quote_style, span });
            let short = shortened(word);
            let message = format!("identifier \"{whole}\" will be truncated to \"{}\"", clipped(&whole, short));
            notices.push(SqlError::new(SqlState::NAME_TOO_LONG, message).nowhere());
        }
    }
    Ok(Some((cut, notices)))
}

/// Cuts a name. Returns the length in bytes that is left.
pub(super) fn shortened(word: &mut Word) -> usize {
    let length = clipped(&word.value, NAME_MAX).len();
    word.value.truncate(length);
    length
}

fn is_long(token: &TokenWithSpan) -> bool {
    matches!(&token.token, Token::Word(word) if NAME_MAX < word.value.len())
}
