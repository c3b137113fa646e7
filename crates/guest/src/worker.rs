//! Executables: a loop that runs the entries of a module for the server.

use crate::bytes::{AREA_BYTES, shortened};
use crate::call::Host;
use crate::error::{Error, Result};
use crate::module::{Arguments, Module, invoke};
use crate::shared::{Shared, socket};
use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Environment variable that names the channel.
const CHANNEL_VARIABLE: &str = "OVERTAKE_CHANNEL";
/// Bytes before the contents of a message on a socket.
const HEAD_BYTES: usize = 12;

/// Kinds of messages.
mod kind {
    pub(super) const INVOKE: u32 = 1;
    pub(super) const ANSWER: u32 = 2;
    pub(super) const ABORT: u32 = 3;
    pub(super) const READY: u32 = 4;
    pub(super) const CALL: u32 = 5;
    pub(super) const RETURN: u32 = 6;
    pub(super) const FAIL: u32 = 7;
}

thread_local! {
    /// Message of the last panic.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the module for the server that has started this process, until the server ends it. With the argument
/// `--manifest`, prints the manifest.
pub fn worker<M: Module>() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|argument| argument == "--manifest") {
        return ended(io::stdout().write_all(M::MANIFEST.as_bytes()));
    }
    std::panic::set_hook(Box::new(|panic| PANIC.with_borrow_mut(|message| *message = panic.to_string())));
    ended(open().and_then(|channel| serve::<M>(channel)))
}

fn ended(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "overtake worker: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Channel to the server.
enum Link {
    Shared(Shared),
    Socket(UnixStream, Vec<u8>),
}

/// Message of the server: kind, entry, contents.
type Message<'a> = (u32, u32, &'a [u8]);

fn open() -> io::Result<Link> {
    let unknown = || {
        let message =
            format!("{CHANNEL_VARIABLE} must be shared_memory:FD or unix_socket:FD; Overtake starts this program");
        io::Error::new(io::ErrorKind::InvalidInput, message)
    };
    let channel = std::env::var(CHANNEL_VARIABLE).map_err(|_| unknown())?;
    let (name, fd) = channel.split_once(':').ok_or_else(unknown)?;
    let fd = fd.parse().map_err(|_| unknown())?;
    match name {
        "shared_memory" => Shared::open(fd).map(Link::Shared),
        "unix_socket" => Ok(Link::Socket(socket(fd), Vec::new())),
        _ => Err(unknown()),
    }
}

impl Link {
    fn send(&mut self, kind: u32, contents: &[u8]) -> io::Result<()> {
        match self {
            Link::Shared(shared) => {
                shared.send(kind, contents);
                Ok(())
            }
            Link::Socket(stream, buffer) => {
                buffer.clear();
                for word in [kind, 0, contents.len() as u32] {
                    buffer.extend_from_slice(&word.to_le_bytes());
                }
                buffer.extend_from_slice(contents);
                stream.write_all(buffer)
            }
        }
    }

    /// Waits for a message. `None` if the server has closed the channel.
    fn receive(&mut self) -> io::Result<Option<Message<'_>>> {
        match self {
            Link::Shared(shared) => Ok(Some(shared.receive())),
            Link::Socket(stream, buffer) => receive(stream, buffer),
        }
    }
}

fn receive<'a>(stream: &mut UnixStream, buffer: &'a mut Vec<u8>) -> io::Result<Option<Message<'a>>> {
    let mut head = [0; HEAD_BYTES];
    match stream.read_exact(&mut head) {
        Ok(()) => (),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut words = head.chunks_exact(4).map(|word| word.try_into().map_or(0, u32::from_le_bytes));
    let mut word = || words.next().unwrap_or(0);
    let (kind, entry, len) = (word(), word(), word() as usize);
    if AREA_BYTES < len {
        return Err(io::Error::other("a message of the server is too long"));
    }
    buffer.resize(len, 0);
    stream.read_exact(buffer)?;
    Ok(Some((kind, entry, buffer)))
}

/// Server during one invocation.
struct Server<'l> {
    link: &'l mut Link,
    /// Reason why the invocation must end, once there is one. Code that goes on after an error makes no more calls.
    end: Option<String>,
}

impl Host for Server<'_> {
    fn exchange(&mut self, request: &[u8]) -> Result<&[u8]> {
        if let Some(end) = &self.end {
            return Err(Error::aborted(end.as_str()));
        }
        match answer(self.link, request) {
            Ok(answer) => Ok(answer),
            Err(end) => Err(Error::aborted(self.end.insert(end).as_str())),
        }
    }
}

/// Sends a request, and waits for the answer. Fails with the reason why the invocation must end.
fn answer<'l>(link: &'l mut Link, request: &[u8]) -> std::result::Result<&'l [u8], String> {
    let lost = |error: io::Error| format!("the channel is lost: {error}");
    link.send(kind::CALL, request).map_err(lost)?;
    match link.receive().map_err(lost)? {
        Some((kind::ANSWER, _, answer)) => Ok(answer),
        Some((kind::ABORT, _, text)) => Err(String::from_utf8_lossy(text).into_owned()),
        Some(_) => Err("the server broke the protocol".to_owned()),
        None => Err("the server has closed the channel".to_owned()),
    }
}

fn serve<M: Module>(mut link: Link) -> io::Result<()> {
    link.send(kind::READY, &[])?;
    while let Some((kind, entry, contents)) = link.receive()? {
        if kind != kind::INVOKE {
            return Err(io::Error::other(format!("message {kind} instead of an invocation")));
        }
        let arguments = Arguments::read(contents);
        match run::<M>(&mut link, entry, arguments) {
            Ok(result) => link.send(kind::RETURN, &result)?,
            Err(message) => link.send(kind::FAIL, shortened(&message).as_bytes())?,
        }
    }
    Ok(())
}

/// Runs an entry. A panic is an error with its message.
fn run<M: Module>(link: &mut Link, entry: u32, arguments: Result<Arguments>) -> std::result::Result<Vec<u8>, String> {
    let mut server = Server { link, end: None };
    let outcome = catch_unwind(AssertUnwindSafe(|| invoke::<M>(&mut server, entry, arguments)));
    match (outcome, server.end) {
        (_, Some(end)) => Err(end),
        (Ok(Ok(result)), None) => Ok(result),
        (Ok(Err(error)), None) => Err(error.message().to_owned()),
        (Err(_), None) => Err(PANIC.take()),
    }
}
