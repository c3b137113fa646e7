//! Client of the PostgreSQL protocol that needs no library: simple queries, text results, no password. It reports
//! details that the comparison is about and ordinary clients hide: types and type modifiers of the columns, and
//! SQLSTATEs.

use anyhow::{Context, bail, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Maximum duration of an answer; a longer one counts as a dead connection. The servers' own `statement_timeout` is
/// shorter.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Byte stream to a server.
pub trait Stream: Read + Write + Send {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// Address of a server, as in libpq's `host=… port=… user=… dbname=…`.
#[derive(Clone, Debug)]
pub struct Address {
    host: String,
    port: u16,
    user: String,
    database: String,
}

impl Address {
    /// Returns an address on this machine.
    pub fn local(port: u16) -> Address {
        let name = || "postgres".to_owned();
        Address { host: "127.0.0.1".to_owned(), port, user: name(), database: name() }
    }

    /// Returns the port of the address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reads an address.
    ///
    /// # Errors
    /// If the text has another form, or another key.
    pub fn read(text: &str) -> anyhow::Result<Address> {
        let mut address = Address::local(5432);
        for pair in text.split_whitespace() {
            let (key, value) = pair.split_once('=').with_context(|| format!("{pair}: expected key=value"))?;
            match key {
                "host" => value.clone_into(&mut address.host),
                "port" => address.port = value.parse().with_context(|| format!("port {value}"))?,
                "user" => value.clone_into(&mut address.user),
                "dbname" => value.clone_into(&mut address.database),
                _ => bail!("{key}: the address has host, port, user and dbname only"),
            }
        }
        Ok(address)
    }

    /// Connects. A read that finds nothing for `read_max` is an error.
    ///
    /// # Errors
    /// If no server listens there.
    pub fn open(&self, read_max: Duration) -> anyhow::Result<Box<dyn Stream>> {
        if self.host.starts_with('/') {
            let stream = UnixStream::connect(format!("{}/.s.PGSQL.{}", self.host, self.port))?;
            stream.set_read_timeout(Some(read_max))?;
            Ok(Box::new(stream))
        } else {
            let stream = TcpStream::connect((self.host.as_str(), self.port))?;
            stream.set_read_timeout(Some(read_max))?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
    }

    /// Returns the message that opens a session with these settings.
    pub fn startup(&self, settings: &[(&str, &str)]) -> Vec<u8> {
        let mut body = 196_608_i32.to_be_bytes().to_vec();
        for (name, value) in [("user", self.user.as_str()), ("database", &self.database)].iter().chain(settings) {
            for text in [name, value] {
                body.extend(text.as_bytes());
                body.push(0);
            }
        }
        body.push(0);
        [length(body.len()).as_slice(), &body].concat()
    }
}

/// Returns the message of a simple query.
pub fn query(text: &str) -> Vec<u8> {
    let mut message = vec![b'Q'];
    message.extend(length(text.len() + 1));
    message.extend(text.as_bytes());
    message.push(0);
    message
}

/// Column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultColumn {
    pub name: String,
    pub oid: u32,
    /// Type's modifier: the length of a char(n), the scale of a numeric.
    pub modifier: i32,
}

/// Rows as text, or the error that ended the statement.
#[derive(Clone, Debug)]
pub enum QueryAnswer {
    Rows { columns: Vec<ResultColumn>, rows: Vec<Vec<Option<String>>> },
    Error { state: String, message: String },
}

/// Connection to a server.
pub struct WireClient {
    stream: Box<dyn Stream>,
    unread: Vec<u8>,
    at: usize,
    /// Position of the last error, in characters from 1.
    position: Option<usize>,
}

impl WireClient {
    /// Connects and logs in without a password.
    ///
    /// # Errors
    /// If the server is not there or asks for a password.
    pub fn connect(address: &Address) -> anyhow::Result<WireClient> {
        let mut client = WireClient { stream: address.open(ANSWER_MAX)?, unread: Vec::new(), at: 0, position: None };
        client.stream.write_all(&address.startup(&[]))?;
        match client.receive()? {
            QueryAnswer::Rows { .. } => Ok(client),
            QueryAnswer::Error { state, message } => bail!("login failed: {state} {message}"),
        }
    }

    /// Runs statements that have to succeed.
    ///
    /// # Errors
    /// If one fails.
    pub fn run(&mut self, text: &str) -> anyhow::Result<Vec<Vec<Option<String>>>> {
        self.send(text)?;
        match self.receive()? {
            QueryAnswer::Rows { rows, .. } => Ok(rows),
            QueryAnswer::Error { state, message } => bail!("{state} {message}\n{text}"),
        }
    }

    /// Sends a query. Its answer has to be received before the next.
    ///
    /// # Errors
    /// If the connection is dead.
    pub fn send(&mut self, text: &str) -> anyhow::Result<()> {
        Ok(self.stream.write_all(&query(text))?)
    }

    /// Receives everything up to the next ReadyForQuery.
    ///
    /// # Errors
    /// If the connection is dead, or silent for a minute.
    pub fn receive(&mut self) -> anyhow::Result<QueryAnswer> {
        let mut columns = Vec::new();
        let mut rows = Vec::new();
        let mut error = None;
        loop {
            let kind = self.bytes(1)?[0];
            let size = i32::from_be_bytes(self.bytes(4)?.try_into().expect("four bytes"));
            let body = self.bytes(usize::try_from(size)?.checked_sub(4).context("a message without a length")?)?;
            let mut reader = FieldReader(&body);
            match kind {
                b'T' => columns = reader.columns()?,
                b'D' => rows.push(reader.row()?),
                b'E' => {
                    self.position = reader.position()?;
                    error = Some(reader.error()?);
                }
                b'R' => ensure!(reader.int4()? == 0, "the server asks for a password"),
                b'Z' => break,
                // Parameters, keys, notices, tags: nothing to compare.
                b'S' | b'K' | b'N' | b'C' | b'I' | b'A' | b'v' => {}
                other => bail!("unexpected message {:?}", char::from(other)),
            }
        }
        self.unread.drain(..self.at);
        self.at = 0;
        Ok(match error {
            Some((state, message)) => QueryAnswer::Error { state, message },
            None => QueryAnswer::Rows { columns, rows },
        })
    }

    /// Returns the position of the last answer's error, if it had one.
    pub fn position(&self) -> Option<usize> {
        self.position
    }

    fn bytes(&mut self, count: usize) -> anyhow::Result<Vec<u8>> {
        while self.unread.len() < self.at + count {
            let mut block = [0; 65536];
            let read = self.stream.read(&mut block).context("the connection is dead")?;
            ensure!(0 < read, "the server closed the connection");
            self.unread.extend(&block[..read]);
        }
        let found = self.unread[self.at..self.at + count].to_vec();
        self.at += count;
        Ok(found)
    }
}

fn length(body: usize) -> [u8; 4] {
    i32::try_from(body + 4).expect("messages are short").to_be_bytes()
}

/// Fields of a message that are still unread.
pub struct FieldReader<'a>(pub &'a [u8]);

impl<'a> FieldReader<'a> {
    pub fn take(&mut self, count: usize) -> anyhow::Result<&'a [u8]> {
        let (found, rest) = self.0.split_at_checked(count).context("a message ends early")?;
        self.0 = rest;
        Ok(found)
    }

    fn int2(&mut self) -> anyhow::Result<i16> {
        Ok(i16::from_be_bytes(self.take(2)?.try_into()?))
    }

    pub fn int4(&mut self) -> anyhow::Result<i32> {
        Ok(i32::from_be_bytes(self.take(4)?.try_into()?))
    }

    pub fn text(&mut self) -> anyhow::Result<String> {
        let end = self.0.iter().position(|byte| *byte == 0).context("a text without an end")?;
        let text = String::from_utf8(self.take(end)?.to_vec())?;
        self.take(1)?;
        Ok(text)
    }

    /// Returns the position in an error's message, which stays unread.
    ///
    /// # Errors
    /// If the message is cut off.
    pub fn position(&self) -> anyhow::Result<Option<usize>> {
        let mut reader = FieldReader(self.0);
        loop {
            match reader.take(1)? {
                [0] => return Ok(None),
                [b'P'] => return Ok(Some(reader.text()?.parse()?)),
                _ => drop(reader.text()?),
            }
        }
    }

    pub fn columns(&mut self) -> anyhow::Result<Vec<ResultColumn>> {
        let count = self.int2()?;
        let mut columns = Vec::new();
        for _ in 0..count {
            let name = self.text()?;
            self.take(6)?;
            let oid = u32::from_be_bytes(self.take(4)?.try_into()?);
            self.take(2)?;
            columns.push(ResultColumn { name, oid, modifier: self.int4()? });
            self.take(2)?;
        }
        Ok(columns)
    }

    pub fn row(&mut self) -> anyhow::Result<Vec<Option<String>>> {
        let count = self.int2()?;
        let mut row = Vec::new();
        for _ in 0..count {
            row.push(match self.int4()? {
                -1 => None,
                size => Some(String::from_utf8(self.take(usize::try_from(size)?)?.to_vec())?),
            });
        }
        Ok(row)
    }

    fn error(&mut self) -> anyhow::Result<(String, String)> {
        let (mut state, mut message) = (String::new(), String::new());
        loop {
            match self.take(1)?[0] {
                0 => return Ok((state, message)),
                b'C' => state = self.text()?,
                b'M' => message = self.cut_text()?,
                _ => drop(self.cut_text()?),
            }
        }
    }

    /// Returns a text that may end within a character: PostgreSQL cuts quotations in messages at a number of bytes.
    fn cut_text(&mut self) -> anyhow::Result<String> {
        let end = self.0.iter().position(|byte| *byte == 0).context("a text without an end")?;
        let text = String::from_utf8_lossy(self.take(end)?).into_owned();
        self.take(1)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_quotes_half_a_character_is_read() {
        let body = b"C22P02\0Minvalid input: \xe6\x97\0Whalf \xe6\0\0";
        let (state, message) = FieldReader(body).error().expect("an error");
        assert_eq!((state.as_str(), message.as_str()), ("22P02", "invalid input: \u{fffd}"));
        assert!(FieldReader(b"Chalf \xe6\0\0").error().is_err(), "states are compared, so they have to be right");
    }
}
