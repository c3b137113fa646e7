//! Messages that the proxy writes to a server, and reads from one.
//!
//! **Invariant:** a server is trusted no more than a client: anything that does not fit is `None`, and ends its
//! connection.

use bytes::BytesMut;
use statement::SqlState;
use wire::frame::HEAD;

/// Longest message of a server, rows included. A greater length is an error.
pub(crate) const MESSAGE_MAX: usize = 1 << 30;

/// Appends one message.
pub(crate) fn put(out: &mut BytesMut, kind: u8, body: impl FnOnce(&mut BytesMut)) {
    out.extend_from_slice(&[kind, 0, 0, 0, 0]);
    let begin = out.len() - 4;
    body(out);
    // Messages of the proxy are far shorter than the limit of a length.
    let length = (out.len() - begin) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a simple query.
pub(crate) fn query(out: &mut BytesMut, text: &str) {
    put(out, b'Q', |out| {
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(&[0]);
    });
}

/// Appends `Close` or `Describe` of a statement.
pub(crate) fn about_statement(out: &mut BytesMut, kind: u8, name: &[u8]) {
    put(out, kind, |out| {
        out.extend_from_slice(b"S");
        out.extend_from_slice(name);
        out.extend_from_slice(&[0]);
    });
}

/// Returns the kind and length, head included, of the message that begins here; the inner `None` if it cannot be one.
pub(crate) fn head(input: &[u8]) -> Option<Option<(u8, usize)>> {
    let (Some(&kind), Some(length)) = (input.first(), input.get(1..).and_then(|rest| rest.first_chunk::<4>())) else {
        return Some(None);
    };
    let length =
        usize::try_from(i32::from_be_bytes(*length)).ok().filter(|length| (4..MESSAGE_MAX).contains(length))?;
    Some(Some((kind, HEAD - 4 + length)))
}

/// Splits off the text up to its zero byte.
pub(crate) fn text(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(0, body)?;
    Some((&body[..end], &body[end + 1..]))
}

/// Returns a field of an `ErrorResponse` or `NoticeResponse`.
pub(crate) fn field(mut body: &[u8], name: u8) -> Option<&str> {
    while let Some((&own, rest)) = body.split_first().filter(|&(&own, _)| own != 0) {
        let (value, after) = text(rest)?;
        if own == name {
            return std::str::from_utf8(value).ok();
        }
        body = after;
    }
    None
}

/// Returns the SQLSTATE of an `ErrorResponse` or `NoticeResponse`, if it is one that this program knows.
pub(crate) fn state(body: &[u8]) -> Option<SqlState> {
    field(body, b'C').and_then(SqlState::of_code)
}

/// Returns the setting that a `FunctionCall` of `set_config` names; the inner `None` if that cannot be read.
pub(crate) fn set_by_call(body: &[u8]) -> Option<Option<String>> {
    /// The OID is the same in every version.
    const SET_CONFIG: u32 = 2078;
    let (function, rest) = body.split_first_chunk::<4>()?;
    if u32::from_be_bytes(*function) != SET_CONFIG {
        return None;
    }
    let name = || {
        let (formats, rest) = rest.split_first_chunk::<2>()?;
        let rest = rest.get(2 * usize::from(u16::from_be_bytes(*formats)) + 2..)?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        // A text is the same in both formats.
        let name = rest.get(..usize::try_from(i32::from_be_bytes(*length)).ok()?)?;
        std::str::from_utf8(name).ok().map(str::to_ascii_lowercase)
    };
    Some(name())
}

/// Returns the columns of a `DataRow` in text form.
pub(crate) fn row(body: &[u8]) -> Option<Vec<Option<String>>> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let mut columns = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            columns.push(None);
            rest = after;
            continue;
        };
        let (value, after) = after.split_at_checked(length)?;
        columns.push(Some(String::from_utf8_lossy(value).into_owned()));
        rest = after;
    }
    Some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_set_config_names_its_setting() {
        let call = |function: u32| [&function.to_be_bytes()[..], &[0, 0, 0, 3, 0, 0, 0, 4], b"My.x"].concat();
        assert_eq!(set_by_call(&call(2078)), Some(Some("my.x".to_owned())));
        assert_eq!(set_by_call(&call(177)), None);
        assert_eq!(set_by_call(&call(2078)[..11]), Some(None));
    }
}
