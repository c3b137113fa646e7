//! State of a connection.

use crate::count::{Counted, Counts};
use crate::ring::Completion;
use std::io;
use std::mem;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::task::Waker;

/// Bytes that are received ahead of reads, and bytes that wait to be sent. Beyond that, a side waits. What the kernel
/// has received until it hears that, comes as well: all buffers of the ring at most. All of it is counted.
pub(crate) const AHEAD: usize = 64 << 10;
/// Capacity of an empty buffer that is kept.
pub(crate) const KEEP: usize = 16 << 10;

/// Operations of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Receive,
    CancelReceive,
    Send,
    CancelAll,
}

/// State of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receive {
    Off,
    Armed,
    /// It is being cancelled.
    Ending,
    /// Nothing more comes.
    Over,
}

/// Connection.
pub(crate) struct Slot {
    pub(crate) socket: Arc<TcpStream>,
    pub(crate) receive: Receive,
    /// Bytes that have come, from `taken` on.
    pub(crate) input: Vec<u8>,
    pub(crate) taken: usize,
    pub(crate) read_error: Option<io::Error>,
    pub(crate) reader: Option<Waker>,
    pub(crate) is_sending: bool,
    pub(crate) sent: usize,
    /// Capacity of the bytes that are being sent.
    pub(crate) sending: usize,
    /// Bytes behind those that are being sent.
    pub(crate) output: Vec<u8>,
    pub(crate) write_error: Option<io::ErrorKind>,
    pub(crate) writer: Option<Waker>,
    /// Operations that are not over.
    pub(crate) operations: usize,
    pub(crate) is_dropped: bool,
    counted: Counted,
}

impl Slot {
    pub(crate) fn new(socket: Arc<TcpStream>, counts: Counts) -> Slot {
        Slot {
            socket,
            receive: Receive::Off,
            input: Vec::new(),
            taken: 0,
            read_error: None,
            reader: None,
            is_sending: false,
            sent: 0,
            sending: 0,
            output: Vec::new(),
            write_error: None,
            writer: None,
            operations: 0,
            is_dropped: false,
            counted: Counted::new(counts),
        }
    }

    /// Counts the bytes that it holds.
    pub(crate) fn count(&mut self) {
        self.counted.set(self.input.capacity() + self.output.capacity() + self.sending);
    }

    /// Takes back the state that an operation was to have, which was refused.
    pub(crate) fn has_refused(&mut self, operation: Operation) {
        match operation {
            Operation::Receive => self.receive = Receive::Over,
            // The receiving operation goes on.
            Operation::CancelReceive => self.receive = Receive::Armed,
            Operation::Send => {
                self.is_sending = false;
                (self.sent, self.sending) = (0, 0);
                self.output.clear();
            }
            Operation::CancelAll => {}
        }
    }

    /// Ends the connection for an error, of which its reader and its writer hear. The end of the socket ends the
    /// operations that are on their way.
    pub(crate) fn end(&mut self, error: io::Error, wakes: &mut Vec<Waker>) {
        self.write_error = Some(error.kind());
        self.read_error = Some(error);
        let _ = self.socket.shutdown(Shutdown::Both);
        wakes.extend(self.reader.take());
        wakes.extend(self.writer.take());
    }

    /// Takes note of a completion. Bytes that are to be sent next are handed to `send`.
    pub(crate) fn take(&mut self, completion: Completion<'_>, wakes: &mut Vec<Waker>, send: impl FnOnce(Vec<u8>)) {
        match completion {
            Completion::Received { bytes, goes_on } => {
                self.input.extend_from_slice(bytes);
                if !goes_on {
                    self.operations -= 1;
                    self.receive = Receive::Off;
                }
                wakes.extend(self.reader.take());
            }
            Completion::ReceiveOver { error } => {
                self.operations -= 1;
                // Without a buffer, or cancelled because enough had come, it goes on later.
                let is_interrupted = matches!(error, libc::ENOBUFS | libc::ECANCELED | libc::EINTR | libc::EAGAIN);
                self.receive = if is_interrupted { Receive::Off } else { Receive::Over };
                if error != 0 && !is_interrupted {
                    self.read_error = Some(io::Error::from_raw_os_error(error));
                }
                wakes.extend(self.reader.take());
            }
            Completion::Sent { result, bytes } => {
                self.operations -= 1;
                self.has_sent(result, bytes, send);
                if !self.is_sending || self.output.len() < AHEAD {
                    wakes.extend(self.writer.take());
                }
            }
            Completion::Cancelled => self.operations -= 1,
        }
    }

    fn has_sent(&mut self, result: i32, mut bytes: Vec<u8>, send: impl FnOnce(Vec<u8>)) {
        self.is_sending = false;
        self.sending = 0;
        match usize::try_from(result) {
            Ok(count) => self.sent += count,
            Err(_) if matches!(-result, libc::EINTR | libc::EAGAIN) => {}
            Err(_) => {
                self.write_error = Some(io::Error::from_raw_os_error(-result).kind());
                return;
            }
        }
        if self.is_dropped {
            return;
        }
        if self.sent < bytes.len() {
            self.is_sending = true;
            return send(bytes);
        }
        self.sent = 0;
        bytes.clear();
        bytes.shrink_to(KEEP);
        mem::swap(&mut bytes, &mut self.output);
        if !bytes.is_empty() {
            self.is_sending = true;
            send(bytes);
        }
    }
}
