//! Tags of a statement, as sqlcommenter writes them: `select 1 /*action='pay%20out',application='till'*/`.
//!
//! **Invariant:** only a comment that consists of tags as a whole has any. Names and values are percent-encoded, so
//! neither a comma nor the end of a comment can occur in them.

use std::borrow::Cow;

/// Tags of one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tags<'t>(&'t str);

impl<'t> Tags<'t> {
    /// Finds the tags of this text: in a comment after the statement, or before it.
    pub fn of(text: &'t str) -> Option<Tags<'t>> {
        let behind = text.trim_end_matches(|letter: char| letter.is_whitespace() || letter == ';');
        let behind = behind.strip_suffix("*/").and_then(|text| text.rsplit_once("/*")).map(|(_, comment)| comment);
        let before = || text.trim_start().strip_prefix("/*")?.split_once("*/").map(|(comment, _)| comment);
        behind.and_then(Tags::whole).or_else(|| before().and_then(Tags::whole))
    }

    fn whole(comment: &'t str) -> Option<Tags<'t>> {
        let mut rest = comment;
        loop {
            let (_, _, after) = first(rest)?;
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None => return after.is_empty().then_some(Tags(comment)),
            }
        }
    }

    /// Returns all tags, decoded.
    pub fn iter(self) -> impl Iterator<Item = (Cow<'t, str>, Cow<'t, str>)> {
        let mut rest = Some(self.0);
        std::iter::from_fn(move || {
            let (name, value, after) = first(rest?)?;
            rest = after.strip_prefix(',');
            Some((decoded(name), decoded(value)))
        })
    }

    /// Returns the value of a tag, decoded.
    pub fn get(self, name: &str) -> Option<Cow<'t, str>> {
        self.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }
}

/// Returns the name and value of the first tag, still encoded, and the rest.
fn first(text: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = text.split_once('=')?;
    let name = name.trim();
    let rest = rest.trim_start().strip_prefix('\'')?;
    let bytes = rest.as_bytes();
    let is_end = |at: &usize| bytes[*at] == b'\'' && (*at == 0 || bytes[*at - 1] != b'\\');
    let end = (0..bytes.len()).find(is_end)?;
    let is_name = !name.is_empty() && !name.contains(|letter: char| letter.is_whitespace() || letter == '\'');
    is_name.then_some((name, &rest[..end], rest[end + 1..].trim()))
}

fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '\\']) {
        return Cow::Borrowed(text);
    }
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let code = text.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (byte, code) {
            (b'%', Some(code)) => {
                out.push(code);
                at += 2;
            }
            (b'\\', _) if bytes.get(at + 1) == Some(&b'\'') => {}
            _ => out.push(byte),
        }
        at += 1;
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(String, String)> {
        let all = Tags::of(text).into_iter().flat_map(Tags::iter);
        all.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn tags_are_read_as_sqlcommenter_writes_them() {
        let text =
            "SELECT * FROM t /*action='%2Fparam*d',controller='index',framework='spring',traceparent='00-5b-00'*/";
        let wanted =
            [("action", "/param*d"), ("controller", "index"), ("framework", "spring"), ("traceparent", "00-5b-00")];
        assert_eq!(of(text), pairs(&wanted));
        assert_eq!(of("select 1 /* a = 'x' , b='it\\'s%27' */ ; "), pairs(&[("a", "x"), ("b", "it's'")]));
        assert_eq!(of("/*route='%C3%A9%zz'*/ select 1"), pairs(&[("route", "\u{e9}%zz")]));
        assert_eq!(Tags::of("/*a='1'*/ select 1 /*a='2'*/").and_then(|tags| tags.get("a")).as_deref(), Some("2"));
        assert_eq!(Tags::of("select 1 /*a=''*/").and_then(|tags| tags.get("a")).as_deref(), Some(""));
    }

    #[test]
    fn other_comments_are_none() {
        for text in [
            "",
            "select 1",
            "select 1 /* why */",
            "select 1 /*a='x' b='y'*/",
            "select 1 /*a=x*/",
            "select 1 /*a='x*/",
            "select '/*a=''x''*/'",
            "/*+ priority=high */ select 1",
            "*/",
            "/*",
            "/**/",
        ] {
            assert_eq!(Tags::of(text), None, "{text}");
        }
    }
}
