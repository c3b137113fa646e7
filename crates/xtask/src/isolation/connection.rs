//! Connection that can be asked whether an answer has come, as libpq's `PQisBusy`: a step that waits for a lock must not
//! hold up the steps of others.
//!
//! **Invariant:** between two queries nothing of the former's answer is unread.

use super::print::{Message, TextTable};
use crate::wire::{self, Address, FieldReader, Stream};
use anyhow::{Context, bail, ensure};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// Maximum wait of one look for an answer.
const LOOK_MAX: Duration = Duration::from_millis(10);

/// Part of an answer, in the order of arrival.
#[derive(Debug)]
pub enum AnswerPart {
    Notice(Message),
    Notification {
        pid: i32,
        channel: String,
        payload: String,
    },
    /// Rows that a statement returned.
    Rows(TextTable),
    /// End of a statement without rows.
    Done,
    Error(Message),
    /// End of the connection in the middle of an answer.
    Closed,
    /// End of the whole answer.
    Ready,
}

/// Connection to a server.
pub struct Connection {
    address: Address,
    stream: Box<dyn Stream>,
    unread: Vec<u8>,
    /// Result whose rows are arriving.
    table: Option<TextTable>,
    events: VecDeque<AnswerPart>,
    key: [u8; 8],
    pub pid: i32,
    pub is_closed: bool,
}

impl Connection {
    /// Connects and logs in without a password.
    ///
    /// # Errors
    /// If the server is not there, asks for a password, or refuses.
    pub fn open(address: &Address, settings: &[(&str, &str)]) -> anyhow::Result<Connection> {
        let mut stream = address.open(LOOK_MAX)?;
        stream.write_all(&address.startup(settings))?;
        let mut connection = Connection {
            address: address.clone(),
            stream,
            unread: Vec::new(),
            table: None,
            events: VecDeque::new(),
            key: [0; 8],
            pid: 0,
            is_closed: false,
        };
        connection.finish(Duration::from_secs(30))?;
        Ok(connection)
    }

    /// Sends statements.
    ///
    /// # Errors
    /// If the connection is dead.
    pub fn send(&mut self, sql: &str) -> anyhow::Result<()> {
        Ok(self.stream.write_all(&wire::query(sql))?)
    }

    /// Asks the server to cancel the running statement.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn cancel(&self) -> anyhow::Result<()> {
        let mut stream = self.address.open(Duration::from_secs(10))?;
        stream.write_all(&[&[0, 0, 0, 16, 4, 210, 22, 46], self.key.as_slice()].concat())?;
        // The server closes the connection when it has passed the request on.
        let _ = stream.read(&mut [0]);
        Ok(())
    }

    /// Returns the next part of the answer, or nothing if none comes in a hundredth of a second.
    ///
    /// # Errors
    /// If the server breaks the protocol.
    pub fn next(&mut self) -> anyhow::Result<Option<AnswerPart>> {
        if self.events.is_empty() {
            let mut block = [0; 16384];
            match self.stream.read(&mut block) {
                Ok(0) => self.close(),
                Ok(read) => {
                    self.unread.extend(&block[..read]);
                    self.decode()?;
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.close(),
            }
        }
        Ok(self.events.pop_front())
    }

    /// Receives all parts of an answer but its end.
    ///
    /// # Errors
    /// If the server breaks the protocol, or is silent for `answer_max`.
    pub fn answer(&mut self, answer_max: Duration) -> anyhow::Result<Vec<AnswerPart>> {
        let begun = Instant::now();
        let mut events = Vec::new();
        loop {
            match self.next()? {
                Some(AnswerPart::Ready) => return Ok(events),
                Some(AnswerPart::Closed) => {
                    events.push(AnswerPart::Closed);
                    return Ok(events);
                }
                Some(event) => events.push(event),
                None => ensure!(begun.elapsed() < answer_max, "no answer in {} s", answer_max.as_secs()),
            }
        }
    }

    /// Receives the answer to the startup message.
    fn finish(&mut self, answer_max: Duration) -> anyhow::Result<()> {
        for event in self.answer(answer_max)? {
            match event {
                AnswerPart::Error(message) => bail!("login failed: {}", message.primary),
                AnswerPart::Closed => bail!("the server closed the connection"),
                _ => {}
            }
        }
        Ok(())
    }

    fn close(&mut self) {
        self.is_closed = true;
        self.events.push_back(AnswerPart::Closed);
    }

    fn decode(&mut self) -> anyhow::Result<()> {
        let mut at = 0;
        while let Some(head) = self.unread.get(at..at + 5) {
            let size = u32::from_be_bytes(head[1..].try_into().expect("four bytes"));
            let end = at + 1 + usize::try_from(size)?;
            // An incomplete message stays unread until the rest of it has come.
            let Some(body) = self.unread.get(at + 5..end) else { break };
            let mut reader = FieldReader(body);
            let event = match head[0] {
                b'T' => {
                    let columns = reader.columns()?.into_iter().map(|column| column.name).collect();
                    self.table = Some(TextTable { columns, rows: Vec::new() });
                    None
                }
                b'D' => {
                    self.table.as_mut().context("a row before its columns")?.rows.push(reader.row()?);
                    None
                }
                b'C' => Some(self.table.take().map_or(AnswerPart::Done, AnswerPart::Rows)),
                b'I' => Some(AnswerPart::Done),
                b'E' => {
                    self.table = None;
                    Some(AnswerPart::Error(message(&mut reader)?))
                }
                b'N' => Some(AnswerPart::Notice(message(&mut reader)?)),
                b'A' => Some(AnswerPart::Notification {
                    pid: reader.int4()?,
                    channel: reader.text()?,
                    payload: reader.text()?,
                }),
                b'Z' => Some(AnswerPart::Ready),
                b'K' => {
                    self.key = body.try_into().context("a key of another length")?;
                    self.pid = reader.int4()?;
                    None
                }
                b'R' => {
                    ensure!(reader.int4()? == 0, "the server asks for a password");
                    None
                }
                b'S' => None,
                other => bail!("unexpected message {:?}", char::from(other)),
            };
            self.events.extend(event);
            at = end;
        }
        self.unread.drain(..at);
        Ok(())
    }
}

fn message(reader: &mut FieldReader<'_>) -> anyhow::Result<Message> {
    let mut message = Message::default();
    loop {
        let kind = reader.take(1)?[0];
        if kind == 0 {
            return Ok(message);
        }
        let text = reader.text()?;
        match kind {
            b'S' => message.severity = text,
            b'C' => message.state = text,
            b'M' => message.primary = text,
            b'D' => message.detail = Some(text),
            b'H' => message.hint = Some(text),
            // Positions, sources and names are not shown by isolationtester.
            _ => {}
        }
    }
}
