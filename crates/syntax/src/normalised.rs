//! Texts of statements without their values, as `overtake.statements` shows them.

/// Returns a statement's text without the parts that differ from call to call: literals become `$1`, `$2`, comments and
/// blanks one blank.
pub fn normalised(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut count = 0;
    let mut rest = text.trim();
    let mut follows_word = false;
    let blank = |out: &mut String| {
        if !out.is_empty() && !out.ends_with(' ') {
            out.push(' ');
        }
    };
    while let Some(letter) = rest.chars().next() {
        let (length, is_literal) = match letter {
            '\'' => (quoted(rest, '\''), true),
            '"' => (quoted(rest, '"'), false),
            '$' if !follows_word => match dollar_quoted(rest) {
                Some(length) => (length, true),
                None => (1, false),
            },
            // Digits after letters are a part of the word: `t1`.
            digit if digit.is_ascii_digit() && !follows_word => {
                let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.');
                (end.unwrap_or(rest.len()), true)
            }
            '-' if rest.starts_with("--") => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                blank(&mut out);
                follows_word = false;
                continue;
            }
            '/' if rest.starts_with("/*") => {
                rest = rest.find("*/").map_or("", |end| &rest[end + 2..]);
                blank(&mut out);
                follows_word = false;
                continue;
            }
            letter if letter.is_whitespace() => {
                rest = rest.trim_start();
                blank(&mut out);
                follows_word = false;
                continue;
            }
            letter => (letter.len_utf8(), false),
        };
        let (piece, after) = rest.split_at(length.min(rest.len()));
        if is_literal {
            count += 1;
            out.push('$');
            out.push_str(&count.to_string());
        } else {
            out.push_str(piece);
        }
        follows_word = !is_literal && (letter.is_alphanumeric() || letter == '_' || letter == '$' || letter == '"');
        rest = after;
    }
    out.truncate(out.trim_end().trim_end_matches(';').len());
    out
}

/// Returns the length of a quoted piece, including its quotes.
fn quoted(text: &str, quote: char) -> usize {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter == quote {
            match letters.peek() {
                Some((_, next)) if *next == quote => drop(letters.next()),
                _ => return at + 1,
            }
        }
    }
    text.len()
}

/// Returns the length of a dollar-quoted text, including its tags; `None` if none begins here.
fn dollar_quoted(text: &str) -> Option<usize> {
    let tag = text.get(1..)?.split_once('$')?.0;
    let is_tag = !tag.starts_with(|letter: char| letter.is_ascii_digit())
        && tag.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    let tag = is_tag.then(|| text.get(..tag.len() + 2))??;
    let inside = text.get(tag.len()..)?;
    Some(inside.find(tag).map_or(text.len(), |end| tag.len() + end + tag.len()))
}

#[cfg(test)]
mod tests {
    use super::normalised;

    #[test]
    fn literals_and_blanks_make_no_difference() {
        let is = |text, wanted| assert_eq!(normalised(text), wanted);
        is("select  1 ,\n 'it''s', t1.c2 from t1 -- x\n where a=-2.5e3;", "select $1 , $2, t1.c2 from t1 where a=-$3");
        is("/* a */ select \"A 1\" /* b", "select \"A 1\"");
        is("select $1, 'open", "select $1, $1");
        is("create function f() as $$ select 'a''b' $$ language sql", "create function f() as $1 language sql");
        is("select $a$ $b$ $$ $a$, $1, t$a$b, $c$ open", "select $1, $1, t$a$b, $2");
        is("", "");
    }
}
