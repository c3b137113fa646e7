//! Transaction block that has begun for its client and not for a server yet.
//!
//! A BEGIN tells nothing about the work to come, and needs no server: it is answered here and sent with the first
//! statement behind it, in the same write. So the gate judges the transaction by that statement, a client that is slow
//! to send it occupies no slot, and the server is asked once instead of twice.
//!
//! **Invariant:** a command that is held back cannot fail at a server, not even at a standby. A block that was opened
//! here either ends here or is opened there before anything else: no statement of it ever runs by itself.

use crate::statements::block_command::{BlockCommand, bare};
use crate::statements::message;
use crate::statements::properties::StatementProperties;
use crate::statements::shared::{PREFIX, StatementNames};
use statement::outcome::TransactionStatus;
use wire::frame::HEAD;
use wire::reply::Replies;

/// Block of a client, as long as no server has it.
#[derive(Debug, Default)]
pub(crate) enum Block {
    #[default]
    Closed,
    /// Begun by this text. A query leaves no portal.
    Begun { text: Box<[u8]>, known: StatementProperties, is_query: bool },
    /// Failed, because its first statement was refused here. It had begun by this text.
    Failed { text: Box<[u8]> },
}

impl Block {
    pub(crate) fn status(&self) -> TransactionStatus {
        match self {
            Block::Closed => TransactionStatus::Idle,
            Block::Begun { .. } => TransactionStatus::Open,
            Block::Failed { .. } => TransactionStatus::Failed,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self, Block::Closed)
    }

    /// Marks the block as failed after a refusal.
    pub(crate) fn fail(&mut self) {
        *self = match std::mem::take(self) {
            Block::Closed => Block::Closed,
            Block::Begun { text, .. } | Block::Failed { text } => Block::Failed { text },
        };
    }

    /// Properties that its BEGIN gives.
    pub(crate) fn known(&self) -> StatementProperties {
        match self {
            Block::Begun { known, .. } => known.clone(),
            Block::Closed | Block::Failed { .. } => StatementProperties::default(),
        }
    }

    /// True if this command is answered without a server. Commands that cause a warning go to the server.
    pub(crate) fn takes(&self, bare: BlockCommand) -> bool {
        (bare == BlockCommand::Begin) != self.is_open()
    }
}

/// First request in a client's input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FirstRequest {
    /// Whole request for one of these commands, up to the point where its `ReadyForQuery` is due.
    Alone(BlockRequest),
    /// Incomplete request for one of these commands. The client sends the rest without waiting for an answer.
    Partly,
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BlockRequest {
    pub(crate) bare: BlockCommand,
    pub(crate) text: Box<[u8]>,
    /// Length in bytes of all of its messages.
    pub(crate) length: usize,
    by: BlockProtocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockProtocol {
    Query,
    Execute { is_parsed: bool, is_described: bool },
}

/// Size in bytes that a `Bind` of no parameters and an `Execute` do not exceed.
const MESSAGE_MAX: usize = 256;

/// Classifies the input, whose first message has this kind and length.
pub(crate) fn found(kind: u8, length: usize, input: &[u8], names: &StatementNames) -> FirstRequest {
    if kind == b'Q' {
        let Some((text, _)) = message::text(&input[HEAD..length]) else { return FirstRequest::Other };
        let alone =
            |bare| FirstRequest::Alone(BlockRequest { bare, text: text.into(), length, by: BlockProtocol::Query });
        return bare(text).map_or(FirstRequest::Other, alone);
    }
    if !matches!(kind, b'P' | b'B') {
        return FirstRequest::Other;
    }
    // The first message tells the command; the last kind tells how far the request has come.
    let (mut said, mut last, mut at) = (None, 0, 0);
    let (mut is_parsed, mut is_described) = (false, false);
    loop {
        let rest = &input[at..];
        let length = match message::head(rest) {
            Some(Some((_, length))) if length <= rest.len() => length,
            Some(Some((_, length))) if MESSAGE_MAX < length => return FirstRequest::Other,
            Some(_) => return if said.is_some() { FirstRequest::Partly } else { FirstRequest::Other },
            None => return FirstRequest::Other,
        };
        let (kind, body) = (rest[0], &rest[HEAD..length]);
        match (last, kind) {
            (0, b'P') => {
                let Some((b"", rest)) = message::text(body) else { return FirstRequest::Other };
                let Some((text, [0, 0])) = message::text(rest) else { return FirstRequest::Other };
                let Some(bare) = bare(text) else { return FirstRequest::Other };
                (said, is_parsed) = (Some((bare, text)), true);
            }
            (0 | b'P', b'B') => {
                let Some((b"", rest)) = message::text(body) else { return FirstRequest::Other };
                // No formats and no values of parameters are allowed; the result may have any format.
                let Some((name, [0, 0, 0, 0, high, low, formats @ ..])) = message::text(rest) else {
                    return FirstRequest::Other;
                };
                if formats.len() != 2 * usize::from(u16::from_be_bytes([*high, *low])) {
                    return FirstRequest::Other;
                }
                said = match said {
                    Some(said) if name.is_empty() => Some(said),
                    None => names.bare(name),
                    Some(_) => None,
                };
                if said.is_none() {
                    return FirstRequest::Other;
                }
            }
            (b'B', b'D') if *body == *b"P\0" => is_described = true,
            (b'B' | b'D', b'E') if body.first() == Some(&0) && body.len() == 5 => {}
            (b'E', b'S') => {
                let Some((bare, text)) = said else { return FirstRequest::Other };
                let by = BlockProtocol::Execute { is_parsed, is_described };
                return FirstRequest::Alone(BlockRequest { bare, text: text.into(), length: at + length, by });
            }
            _ => return FirstRequest::Other,
        }
        (last, at) = (kind, at + length);
    }
}

impl BlockRequest {
    pub(crate) fn is_query(&self) -> bool {
        self.by == BlockProtocol::Query
    }

    /// Unnamed statement that the request leaves, if it differs from the one before, in the form that `Parse` has
    /// behind the name.
    pub(crate) fn unnamed(&self) -> Option<Vec<u8>> {
        match self.by {
            BlockProtocol::Query => Some(Vec::new()),
            BlockProtocol::Execute { is_parsed: true, .. } => Some([&self.text, &[0; 3][..]].concat()),
            BlockProtocol::Execute { .. } => None,
        }
    }

    /// Writes the answer, except `ReadyForQuery`.
    pub(crate) fn answer(&self, tag: &'static str, replies: &mut Replies) {
        if let BlockProtocol::Execute { is_parsed, is_described } = self.by {
            if is_parsed {
                replies.parse_complete();
            }
            replies.bind_complete();
            if is_described {
                replies.no_data();
            }
        }
        replies.command(tag);
    }
}

/// Opens a block at a server; nothing follows before the next message of the client.
pub(crate) fn open(out: &mut bytes::BytesMut, text: &[u8]) {
    message::put(out, b'P', |out| {
        for part in [&[0][..], text, &[0; 3]] {
            out.extend_from_slice(part);
        }
    });
    message::put(out, b'B', |out| out.extend_from_slice(&[0; 8]));
    message::put(out, b'E', |out| out.extend_from_slice(&[0; 5]));
}

/// Opens a block at a server and makes it fail, in one query.
pub(crate) fn open_failed(out: &mut bytes::BytesMut, text: &[u8]) {
    message::put(out, b'Q', |out| {
        // The text may end with a comment. No savepoint of this name exists.
        for part in [text, b"\n; ROLLBACK TO SAVEPOINT \"", PREFIX.as_bytes(), b"\"\0"] {
            out.extend_from_slice(part);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;

    #[test]
    fn all_that_asks_for_one_is_found_when_it_has_come() {
        let names = StatementNames::default();
        let mut all = BytesMut::new();
        open(&mut all, b"begin");
        let first = message::head(&all).flatten().expect("a message").1;
        for end in first..all.len() {
            assert_eq!(found(b'P', first, &all[..end], &names), FirstRequest::Partly, "{end}");
        }
        let found_in = |more: &[u8]| found(b'P', first, &[&all, more].concat(), &names);
        assert_eq!(found_in(b""), FirstRequest::Partly);
        let sync = b"S\0\0\0\x04";
        let FirstRequest::Alone(alone) = found_in(sync) else { panic!("it stands alone") };
        assert_eq!(
            (alone.bare, &*alone.text, alone.length),
            (BlockCommand::Begin, &b"begin"[..], all.len() + sync.len())
        );
        assert_eq!(alone.unnamed().as_deref(), Some(&b"begin\0\0\0"[..]));
        // The client wants an answer in between, or goes on before there is one.
        assert_eq!(found_in(b"H\0\0\0\x04"), FirstRequest::Other);
        assert_eq!(found_in(&all), FirstRequest::Other);
    }
}
