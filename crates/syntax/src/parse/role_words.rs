//! Statements about users, groups and settings of databases, in the words that the library knows: those about roles.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

fn is_word(token: &TokenWithSpan, words: &[&str]) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none()
        && words.iter().any(|one| word.value.eq_ignore_ascii_case(one)))
}

fn word(text: &str, keyword: Keyword, span: Span) -> TokenWithSpan {
    TokenWithSpan { token: Token::Word(Word { value: text.to_owned(), quote_style: None, keyword }), span }
}

/// Statements about users, groups and settings of databases in the words that the parser knows: those about roles.
pub(super) fn as_roles(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let at: Vec<usize> =
        (0..tokens.len()).filter(|&at| !matches!(tokens[at].token, Token::Whitespace(_))).take(3).collect();
    let [verb, kind, name] = at[..] else { return None };
    if !is_word(&tokens[verb], &["create", "alter", "drop"]) {
        return None;
    }
    let mut changed = tokens.to_vec();
    let span = tokens[kind].span;
    if is_word(&tokens[kind], &["database"]) && is_word(&tokens[verb], &["alter"]) {
        // The same as of all roles in that database.
        let sets = tokens.iter().any(|token| is_word(token, &["set", "reset"]));
        if !sets {
            return None;
        }
        changed[kind] = word("ROLE", Keyword::ROLE, span);
        let all =
            [word("ALL", Keyword::ALL, span), word("IN", Keyword::IN, span), word("DATABASE", Keyword::DATABASE, span)];
        changed.splice(name..name, all);
        return Some(changed);
    }
    if !is_word(&tokens[kind], &["role", "user", "group"]) || is_word(&tokens[name], &["mapping"]) {
        return None;
    }
    changed[kind] = word("ROLE", Keyword::ROLE, span);
    // Passwords are always encrypted.
    changed.retain(|token| !is_word(token, &["encrypted"]));
    let says = tokens.iter().any(|token| is_word(token, &["login", "nologin"]));
    if is_word(&tokens[verb], &["create"]) && is_word(&tokens[kind], &["user"]) && !says {
        let end = changed.iter().position(|token| token.token == Token::EOF).unwrap_or(changed.len());
        changed.insert(end, word("LOGIN", Keyword::LOGIN, span));
    }
    Some(changed)
}
