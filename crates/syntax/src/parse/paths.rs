//! Lists as values of a setting: `SET search_path`, and the same of a role or a database.
//!
//! PostgreSQL keeps such a list as one text (`flatten_set_variable_args`). Names are quoted there where they must be: a string
//! constant is one name, whatever stands in it.

use super::rewrite::is_word;
use crate::names::quoted_name;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use statement::error::SqlResult;
use statement::pulse;

/// Name of the setting with the schemas where names are looked up.
pub const SEARCH_PATH: &str = "search_path";

/// Makes one string constant of the list.
pub(super) fn lists(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let has_names = |token: &TokenWithSpan| is_word(token, SEARCH_PATH);
    let is_list = |token: &TokenWithSpan| has_names(token) || is_word(token, "datestyle");
    let Some(setting) = pulse::walked(tokens).position(is_list).filter(|at| is_set(tokens, *at)) else { return Ok(()) };
    let quoted = if has_names(&tokens[setting]) { quoted_name } else { str::to_owned };
    let from = setting + 2;
    let mut names = Vec::new();
    let mut at = from;
    loop {
        pulse::tick(pulse::ITEM)?;
        names.push(match tokens.get(at).map(|token| &token.token) {
            Some(Token::Word(word)) if word.quote_style.is_some() => quoted(&word.value),
            Some(Token::Word(word)) if word.value.eq_ignore_ascii_case("default") => return Ok(()),
            Some(Token::Word(word)) => quoted(&word.value.to_ascii_lowercase()),
            Some(Token::SingleQuotedString(name) | Token::EscapedStringLiteral(name)) => quoted(name),
            Some(Token::Number(digits, false)) => digits.clone(),
            // The parser says what is wrong.
            _ => return Ok(()),
        });
        at += 1;
        match tokens.get(at).map(|token| &token.token) {
            Some(Token::Comma) => at += 1,
            None | Some(Token::EOF | Token::SemiColon) => break,
            _ => return Ok(()),
        }
    }
    let list = TokenWithSpan { token: Token::SingleQuotedString(names.join(", ")), span: tokens[from].span };
    tokens.splice(from..at, [list]);
    Ok(())
}

/// Says whether the setting there is set: `SET`, perhaps behind `ALTER ROLE` or `ALTER DATABASE`, stands before it.
fn is_set(tokens: &[TokenWithSpan], at: usize) -> bool {
    let is = |at: Option<usize>, words: &[&str]| {
        at.and_then(|at| tokens.get(at)).is_some_and(|token| words.iter().any(|word| is_word(token, word)))
    };
    let assigns = is(Some(at + 1), &["to"]) || matches!(tokens.get(at + 1).map(|token| &token.token), Some(Token::Eq));
    let set = if is(at.checked_sub(1), &["local", "session"]) { at.checked_sub(2) } else { at.checked_sub(1) };
    assigns && is(set, &["set"]) && (set == Some(0) || is(Some(0), &["alter"]))
}
