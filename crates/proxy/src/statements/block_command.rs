//! Commands that only open or close a transaction block, as texts.

use crate::statements::scan::end_of_blanks;

/// Command that only opens or closes a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockCommand {
    Begin,
    Commit,
    Rollback,
}

/// Returns the command that a text consists of, if it is one of these. Modes that a server may refuse are excluded:
/// `SERIALIZABLE` and `READ WRITE`, which a standby does not support.
pub(crate) fn bare(text: &[u8]) -> Option<BlockCommand> {
    let begin = end_of_blanks(text, 0)?;
    let next = text.get(begin + 1).map(u8::to_ascii_lowercase);
    match text.get(begin)?.to_ascii_lowercase() {
        b'b' | b'c' | b'e' | b'r' | b'a' => {}
        b's' if next == Some(b't') => {}
        _ => return None,
    }
    let words = words(&text[begin..])?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let modes = match &words[..] {
        ["begin", "work" | "transaction", modes @ ..]
        | ["start", "transaction", modes @ ..]
        | ["begin", modes @ ..] => modes,
        ["commit" | "end"] | ["commit" | "end", "work" | "transaction"] => return Some(BlockCommand::Commit),
        ["rollback" | "abort"] | ["rollback" | "abort", "work" | "transaction"] => return Some(BlockCommand::Rollback),
        _ => return None,
    };
    are_modes(modes).then_some(BlockCommand::Begin)
}

/// True if a text that opens a block is a `START TRANSACTION`, which has a tag of its own.
pub(crate) fn is_start(text: &[u8]) -> bool {
    let begin = end_of_blanks(text, 0).unwrap_or(text.len());
    text.get(begin).is_some_and(|byte| byte.eq_ignore_ascii_case(&b's'))
}

/// True if a text begins with a statement that a server runs in a failed block, because it may end the block.
pub(crate) fn leads_out(text: &[u8]) -> bool {
    let mut at = 0;
    let mut next = || {
        at = end_of_blanks(text, at)?;
        while text.get(at) == Some(&b';') {
            at = end_of_blanks(text, at + 1)?;
        }
        let begin = at;
        at += text[at..].iter().take_while(|&&byte| byte.is_ascii_alphanumeric() || byte == b'_').count();
        Some(text[begin..at].to_ascii_lowercase())
    };
    match next().as_deref() {
        Some(b"commit" | b"end" | b"rollback" | b"abort") => true,
        Some(b"prepare") => next().is_some_and(|word| word == b"transaction"),
        _ => false,
    }
}

/// Length in bytes that none of these words reaches.
const WORDS_MAX: usize = 16;

/// Splits a text into words and commas, up to the end, or to a semicolon with nothing behind it.
fn words(text: &[u8]) -> Option<Vec<String>> {
    let (mut all, mut at) = (Vec::new(), 0);
    loop {
        at = end_of_blanks(text, at)?;
        let length = match text.get(at) {
            None => return Some(all),
            Some(b';') => return (end_of_blanks(text, at + 1)? == text.len()).then_some(all),
            Some(b',') => 1,
            Some(_) => text[at..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count(),
        };
        if length == 0 || all.len() == WORDS_MAX {
            return None;
        }
        all.push(String::from_utf8_lossy(&text[at..at + length]).to_ascii_lowercase());
        at += length;
    }
}

fn are_modes(mut words: &[&str]) -> bool {
    let mut is_first = true;
    while !words.is_empty() {
        if !is_first && words[0] == "," {
            words = &words[1..];
        }
        words = match words {
            ["isolation", "level", "read", "committed" | "uncommitted", rest @ ..]
            | ["isolation", "level", "repeatable", "read", rest @ ..]
            | ["read", "only", rest @ ..]
            | ["not", "deferrable", rest @ ..]
            | ["deferrable", rest @ ..] => rest,
            _ => return false,
        };
        is_first = false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_out_of_a_failed_block_is_known() {
        for text in [
            "rollback; select 1",
            " ; /* a */ COMMIT and chain",
            "end",
            "abort;begin",
            "ROLLBACK/**/to a",
            "prepare -- a\n transaction 'a'",
        ] {
            assert!(leads_out(text.as_bytes()), "{text}");
        }
        for text in ["", ";", "select 1; rollback", "prepare a as select 1", "rollbacks", "commit_all", "/* rollback"] {
            assert!(!leads_out(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn commands_that_cannot_fail_are_known() {
        for text in [
            "begin",
            " BEGIN ;",
            "/* a */ Begin Work -- x",
            "start transaction read only, isolation level repeatable read;",
            "BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED NOT DEFERRABLE",
            "begin/*action='pay'*/",
        ] {
            assert_eq!(bare(text.as_bytes()), Some(BlockCommand::Begin), "{text}");
        }
        for (text, is) in [
            ("COMMIT", BlockCommand::Commit),
            ("end work;", BlockCommand::Commit),
            ("rollback", BlockCommand::Rollback),
            ("abort transaction", BlockCommand::Rollback),
        ] {
            assert_eq!(bare(text.as_bytes()), Some(is), "{text}");
        }
        for text in [
            "",
            "begin; select 1",
            "begin isolation level serializable",
            "begin read write",
            "begin , read only",
            "begin read only,",
            "beginning",
            "begin 1",
            "start",
            "commit and chain",
            "begin /* a",
            "commit; /* /* a */",
            "begin -- a\r; delete from t",
            "commit prepared 'a'",
            "rollback to a",
            "select 1",
            "set a = 1",
            "stop",
            "a b c d e f g h i j k l m n o p q r s t",
        ] {
            assert_eq!(bare(text.as_bytes()), None, "{text}");
        }
    }
}
