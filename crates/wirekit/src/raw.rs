//! Client of the wire protocol, byte by byte.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Longest time that a test waits for an answer.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Connection that sends any bytes and writes down the messages that come back.
pub struct Raw<S> {
    /// Stream to the server.
    pub stream: S,
    /// Number of the session, once it has begun.
    pub pid: i32,
    /// Secret of its cancel requests.
    pub secret: i32,
}

/// Message of this kind, with its length.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(body.len() + 4).unwrap();
    [&[kind], &length.to_be_bytes()[..], body].concat()
}

/// Start-up packet with these parameters.
pub fn startup(version: i32, pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    for (name, value) in pairs {
        body.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
    }
    body.push(0);
    untyped(&body)
}

/// Message without a kind byte.
pub fn untyped(body: &[u8]) -> Vec<u8> {
    message(0, body)[1..].to_vec()
}

/// Message `Query`.
pub fn query(text: &str) -> Vec<u8> {
    message(b'Q', &[text.as_bytes(), b"\0"].concat())
}

/// Message `Parse`.
pub fn parse(name: &str, text: &str, types: &[u32]) -> Vec<u8> {
    let mut body = [name.as_bytes(), b"\0", text.as_bytes(), b"\0"].concat();
    body.extend(u16::try_from(types.len()).unwrap().to_be_bytes());
    types.iter().for_each(|oid| body.extend(oid.to_be_bytes()));
    message(b'P', &body)
}

/// Message `Bind`, with the values as they are given.
pub fn bind(portal: &str, statement: &str, formats: &[i16], values: &[Option<&[u8]>], results: &[i16]) -> Vec<u8> {
    let mut body = [portal.as_bytes(), b"\0", statement.as_bytes(), b"\0"].concat();
    let codes = |body: &mut Vec<u8>, codes: &[i16]| {
        body.extend(u16::try_from(codes.len()).unwrap().to_be_bytes());
        codes.iter().for_each(|code| body.extend(code.to_be_bytes()));
    };
    codes(&mut body, formats);
    body.extend(u16::try_from(values.len()).unwrap().to_be_bytes());
    for value in values {
        body.extend(value.map_or(-1, |value| i32::try_from(value.len()).unwrap()).to_be_bytes());
        body.extend(value.unwrap_or_default());
    }
    codes(&mut body, results);
    message(b'B', &body)
}

/// Message `Describe` or `Close`.
pub fn named(kind: u8, target: u8, name: &str) -> Vec<u8> {
    message(kind, &[&[target], name.as_bytes(), b"\0"].concat())
}

/// Message `Execute`.
pub fn execute(portal: &str, rows: i32) -> Vec<u8> {
    message(b'E', &[portal.as_bytes(), b"\0", &rows.to_be_bytes()].concat())
}

/// Message `Sync`.
pub fn sync() -> Vec<u8> {
    message(b'S', b"")
}

impl Raw<TcpStream> {
    /// Connects without sending anything. Reads of the answer wait for [`PATIENCE`] at most.
    pub fn connect(address: SocketAddr) -> Raw<TcpStream> {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Raw { stream, pid: 0, secret: 0 }
    }
}

impl<S: Read + Write> Raw<S> {
    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Reads this many bytes.
    pub fn exactly(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Reads messages up to `ReadyForQuery`, or to the end, and writes them down.
    pub fn answer(&mut self) -> String {
        let mut all = vec![];
        for one in self.by_ref() {
            let is_ready = one.starts_with("Z(");
            all.push(one);
            if is_ready {
                return all.join(" ");
            }
        }
        all.push("end".into());
        all.join(" ")
    }

    /// Sends bytes, and reads the answer.
    pub fn ask(&mut self, bytes: &[u8]) -> String {
        self.send(bytes);
        self.answer()
    }

    /// Begins a session.
    pub fn start(&mut self, pairs: &[(&str, &str)]) -> String {
        self.ask(&startup(3 << 16, pairs))
    }
}

/// Messages, written down, until the connection ends.
impl<S: Read + Write> Iterator for Raw<S> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let (mut kind, begun) = ([0], Instant::now());
        loop {
            // The connection may end with a reset when the server has left some of our bytes unread.
            match self.stream.read(&mut kind) {
                Ok(0) => return None,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                // Under the storm of interrupts, the timeout of the socket never expires.
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    assert!(begun.elapsed() < PATIENCE, "no answer");
                }
                read => break assert_eq!(read.unwrap(), 1),
            }
        }
        let length = i32::from_be_bytes(self.exactly(4).try_into().unwrap());
        let body = self.exactly(usize::try_from(length).unwrap() - 4);
        if kind[0] == b'K' {
            self.pid = i32::from_be_bytes(body[..4].try_into().unwrap());
            self.secret = i32::from_be_bytes(body[4..].try_into().unwrap());
        }
        Some(written_down(kind[0], &body))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn written_down(kind: u8, body: &[u8]) -> String {
    let short = |at: usize| i16::from_be_bytes(body[at..at + 2].try_into().unwrap());
    let long = |at: usize| i32::from_be_bytes(body[at..at + 4].try_into().unwrap());
    let strings = |body: &[u8]| body.split(|&byte| byte == 0).filter(|s| !s.is_empty()).map(text).collect::<Vec<_>>();
    let inner = match kind {
        b'E' | b'N' => strings(body)
            .iter()
            // `V` repeats `S`. Each field begins with its letter.
            .filter(|field| !field.starts_with('V'))
            .map(|field| if "SCM".contains(&field[..1]) { field[1..].to_owned() } else { field.clone() })
            .collect::<Vec<_>>()
            .join("|"),
        b'Z' | b'C' => strings(body).join(""),
        b'S' => strings(body).join("="),
        b'T' => {
            let mut at = 2;
            let columns = (0..short(0)).map(|_| {
                let name: Vec<u8> = body[at..].iter().copied().take_while(|&byte| byte != 0).collect();
                at += name.len() + 1 + 18;
                format!("{}:{}:{}", text(&name), long(at - 12), short(at - 2))
            });
            columns.collect::<Vec<_>>().join(",")
        }
        b'D' => {
            let mut at = 2;
            let values = (0..short(0)).map(|_| {
                let length = long(at);
                at += 4;
                let Ok(length) = usize::try_from(length) else { return "NULL".to_owned() };
                at += length;
                let value = &body[at - length..at];
                if value.contains(&0) { format!("{value:?}") } else { text(value) }
            });
            values.collect::<Vec<_>>().join(",")
        }
        b'G' | b'H' => format!("{},{}", body[0], short(1)),
        b'd' => text(&body[..body.len().min(8)]).trim().to_owned(),
        b't' => {
            (0..usize::from(short(0).unsigned_abs())).map(|n| long(2 + 4 * n).to_string()).collect::<Vec<_>>().join(",")
        }
        b'R' => format!("{} {}", long(0), strings(&body[4..]).join(",")).trim().to_owned(),
        b'v' => format!("{:#x} {}", long(0), strings(&body[8..]).join(",")).trim().to_owned(),
        _ => String::new(),
    };
    if inner.is_empty() { char::from(kind).to_string() } else { format!("{}({inner})", char::from(kind)) }
}
