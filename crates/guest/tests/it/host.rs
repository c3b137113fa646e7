//! Host of worker processes.

use crate::memory::{Memory, inherit};
use procs::abi::{CHANNEL_VARIABLE, MessageKind};
use procs::{Channel, EngineCalls, wire};
use statement::error::{SqlError, SqlResult, SqlState};
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use types::SqlType;
use types::datum::Datum;

pub const CHANNELS: [Channel; 2] = [Channel::SharedMemory, Channel::UnixSocket];

enum Link {
    Shared(Memory),
    Socket(UnixStream),
}

/// Worker process.
pub struct Worker {
    child: Child,
    link: Link,
}

impl Worker {
    pub fn start(program: &Path, channel: Channel) -> Worker {
        let (link, theirs) = match channel {
            Channel::SharedMemory => (Link::Shared(Memory::new()), None),
            Channel::UnixSocket => {
                let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
                (Link::Socket(ours), Some(theirs))
            }
            Channel::Direct => panic!("no channel of processes"),
        };
        let fd = match (&link, &theirs) {
            (Link::Shared(memory), _) => memory.file.as_fd(),
            (Link::Socket(ours), theirs) => theirs.as_ref().unwrap_or(ours).as_fd(),
        };
        inherit(fd);
        let child = Command::new(program)
            .env(CHANNEL_VARIABLE, format!("{channel}:{}", fd.as_raw_fd()))
            .spawn()
            .expect("a process");
        let mut worker = Worker { child, link };
        assert_eq!(worker.receive(), (MessageKind::Ready as u32, Vec::new()));
        worker
    }

    fn send(&mut self, kind: MessageKind, entry: u32, bytes: &[u8]) {
        match &mut self.link {
            Link::Shared(memory) => memory.send(kind as u32, entry, bytes),
            Link::Socket(stream) => {
                for word in [kind as u32, entry, bytes.len() as u32] {
                    stream.write_all(&word.to_le_bytes()).expect("written");
                }
                stream.write_all(bytes).expect("written");
            }
        }
    }

    fn receive(&mut self) -> (u32, Vec<u8>) {
        match &mut self.link {
            Link::Shared(memory) => memory.receive(),
            Link::Socket(stream) => {
                let mut head = [0; 12];
                stream.read_exact(&mut head).expect("a message");
                let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes"));
                let mut bytes = vec![0; word(8) as usize];
                stream.read_exact(&mut bytes).expect("a message");
                (word(0), bytes)
            }
        }
    }

    /// Returns the number of times that threads of the process have gone to sleep.
    pub fn sleeps(&self) -> u64 {
        let count = |path: PathBuf| {
            let status = fs::read_to_string(path.join("status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("a process");
        threads.map(|thread| count(thread.expect("a thread").path())).sum()
    }

    /// Closes the host's end of a socket, and waits until the process ends.
    pub fn hang_up(&mut self) -> ExitStatus {
        let Link::Socket(stream) = &self.link else { panic!("no socket") };
        stream.shutdown(Shutdown::Both).expect("a socket");
        self.child.wait().expect("a process")
    }

    /// Runs an entry.
    pub fn invoke(
        &mut self,
        entry: impl Into<u32>,
        rows: &[&[Datum]],
        arguments: &[SqlType],
        engine: &mut dyn EngineCalls,
    ) -> SqlResult<Vec<Vec<Datum>>> {
        let mut bytes = Vec::new();
        wire::put_arguments(rows, arguments, &mut bytes)?;
        self.send(MessageKind::Invoke, entry.into(), &bytes);
        let mut failure = None;
        loop {
            let (kind, bytes) = self.receive();
            match MessageKind::numbered(kind) {
                Some(MessageKind::Call) => {
                    assert!(failure.is_none(), "a call after an error");
                    let mut answer = Vec::new();
                    match wire::serve(engine, &bytes, &mut answer) {
                        Ok(()) => self.send(MessageKind::Answer, 0, &answer),
                        Err(error) => {
                            self.send(MessageKind::Abort, 0, error.message().as_bytes());
                            failure = Some(error);
                        }
                    }
                }
                Some(MessageKind::Return) => return wire::result(&bytes, &engine.result()),
                Some(MessageKind::Fail) => {
                    let text = String::from_utf8(bytes).expect("a text");
                    return Err(failure.unwrap_or_else(|| SqlError::new(SqlState::EXTERNAL_ROUTINE_EXCEPTION, text)));
                }
                other => panic!("{other:?} of a worker"),
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
