//! Names: their greatest length, and their form in a statement.

/// Greatest length of a name, in bytes: `NAMEDATALEN` less one.
pub const NAME_MAX: usize = 63;

/// Truncates a text to this many bytes, but not within a character.
pub fn clipped(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Words that must be quoted as names: PostgreSQL 15's keywords that are not unreserved.
const KEYWORDS: &str = " all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean \
    both case cast char character check coalesce collate collation column concurrently constraint create cross \
    current_catalog current_date current_role current_schema current_time current_timestamp current_user dec decimal default \
    deferrable desc distinct do else end except exists extract false fetch float for foreign freeze from full grant greatest \
    group grouping having ilike in initially inner inout int integer intersect interval into is isnull join lateral leading \
    least left like limit localtime localtimestamp national natural nchar none normalize not notnull null nullif numeric \
    offset on only or order out outer overlaps overlay placing position precision primary real references returning right row \
    select session_user setof similar smallint some substring symmetric table tablesample then time timestamp to trailing \
    treat trim true union unique user using values varchar variadic verbose when where window with xmlattributes xmlconcat \
    xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable ";

/// Returns a name as a statement must write it.
pub fn quoted_name(name: &str) -> String {
    let mut chars = name.chars();
    let plain = chars.next().is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !KEYWORDS.split_ascii_whitespace().any(|word| word == name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Splits a qualified name into its parts, folded unless they are quoted; `None` if the text is no name.
pub fn name_parts(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut part = String::new();
            let mut letters = quoted.char_indices().peekable();
            let end = loop {
                // A quote without an end makes the text no name.
                match letters.next()? {
                    (at, '"') if letters.peek().is_some_and(|(_, next)| *next == '"') => {
                        letters.next();
                        let _ = at;
                        part.push('"');
                    }
                    (at, '"') => break at + 1,
                    (_, letter) => part.push(letter),
                }
            };
            if part.is_empty() {
                return None;
            }
            parts.push(clipped(&part, NAME_MAX).to_owned());
            rest = quoted[end..].trim_start();
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            let word = rest[..end].trim_end();
            let is_word = word.chars().all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '$');
            if word.is_empty() || !is_word || word.starts_with(|first: char| first.is_ascii_digit() || first == '$') {
                return None;
            }
            parts.push(clipped(&word.to_lowercase(), NAME_MAX).to_owned());
            rest = &rest[end..];
        }
        match rest.strip_prefix('.') {
            Some(more) => rest = more.trim_start(),
            None if rest.is_empty() => return Some(parts),
            None => return None,
        }
    }
}
