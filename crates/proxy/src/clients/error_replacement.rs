//! Errors of a server about a cancelled statement, where the gate has cancelled it.

use crate::clients::turn::Turn;
use crate::statements::message;
use bytes::BytesMut;
use statement::SqlError;
use statement::SqlState;

/// PostgreSQL's message for a statement whose time is over. No cancel has ended it.
const TIMEOUT: &str = "canceling statement due to statement timeout";

impl Turn {
    /// Returns the replacement for an `ErrorResponse` with this body, if it results from the gate's cancel.
    pub(crate) fn runaway(&self, body: &[u8]) -> Option<Box<[u8]>> {
        let is_cancel =
            message::state(body) == Some(SqlState::QUERY_CANCELED) && message::field(body, b'M') != Some(TIMEOUT);
        let error = is_cancel.then(|| self.told_runaway()).flatten()?;
        Some(in_place_of(body, &error))
    }
}

/// Builds an `ErrorResponse` with this error, in place of the server's with this body. The position in the text and the
/// other fields are kept, as they are still true.
pub(crate) fn in_place_of(body: &[u8], error: &SqlError) -> Box<[u8]> {
    let mut out = BytesMut::new();
    message::put(&mut out, b'E', |out| put(out, body, error));
    out.to_vec().into()
}

fn put(out: &mut BytesMut, mut body: &[u8], error: &SqlError) {
    let mut field = |name: u8, value: &[u8]| {
        out.extend_from_slice(&[name]);
        out.extend_from_slice(value);
        out.extend_from_slice(&[0]);
    };
    while let Some((&name, rest)) = body.split_first().filter(|&(&name, _)| name != 0) {
        let Some((value, after)) = message::text(rest) else { break };
        body = after;
        match name {
            b'M' => field(name, error.message().as_bytes()),
            b'C' => field(name, error.state().0.as_bytes()),
            b'D' | b'H' => {}
            _ => field(name, value),
        }
    }
    for (name, value) in [(b'D', error.detail_text()), (b'H', error.hint_text())] {
        if let Some(value) = value {
            field(name, value.as_bytes());
        }
    }
    out.extend_from_slice(&[0]);
}
