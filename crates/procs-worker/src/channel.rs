//! The host's side of a channel.
//!
//! **Invariant:** a wait calls its look at least every [`SLICE`], and a message of the worker is in memory of the host
//! before anything in it is looked at.

use crate::shared::SharedChannel;
use procs::Channel;
use procs::abi::MessageKind;
use procs::ends;
use procs::format::garbled;
use procs::wire::AREA_BYTES;
use statement::error::SqlResult;
use std::hint;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Greatest time between two looks.
const SLICE: Duration = Duration::from_millis(2);
/// Least and greatest time for which the host spins, in microseconds.
const SPIN_US: (u32, u32) = (20, 50);
/// Waits without spinning before it is tried again.
const SPIN_RETRY: u32 = 32;
/// Looks at the turn between two looks at the clock.
const SPIN_BATCH: u32 = 64;
/// Bytes of a message before its contents, over a socket.
const HEAD: usize = 12;
/// Hosts that spin by the clock. Half of the processors at most: workers need the others. The first looks of a host, a
/// microsecond, are not counted.
static SPINNING: AtomicUsize = AtomicUsize::new(0);

/// Look of a wait, which ends it by an error.
pub(crate) type Look<'a> = dyn FnMut() -> SqlResult<()> + 'a;
/// Runner of a wait in which the thread sleeps.
pub(crate) type Asleep<'a> = dyn Fn(&mut dyn FnMut()) + 'a;

/// Time for which a host spins before it sleeps: longer where that was worth it.
#[derive(Debug)]
pub(crate) struct Spin {
    us: u32,
    /// Waits since spinning was given up.
    skipped: u32,
    /// Hosts that may spin at once.
    at_once_max: usize,
}

impl Spin {
    fn new() -> Spin {
        // Nobody spins while the worker starts.
        Spin { us: SPIN_US.0, skipped: 0, at_once_max: 0 }
    }

    /// Spins until `is_done`. Returns false if it has not come true.
    fn until(&mut self, is_done: impl Fn() -> bool) -> bool {
        // Most answers come within the time that a clock and a count of those who spin would take several times.
        if self.us != 0 && self.at_once_max != 0 && looks(&is_done) {
            self.us = SPIN_US.1;
            return true;
        }
        if self.us == 0 {
            self.skipped += 1;
            if self.skipped < SPIN_RETRY {
                return is_done();
            }
            (self.us, self.skipped) = (SPIN_US.0, 0);
        }
        let spinning = SPINNING.fetch_add(1, Relaxed);
        let is_allowed = spinning < self.at_once_max;
        let done = if is_allowed { spin(Duration::from_micros(self.us.into()), &is_done) } else { is_done() };
        SPINNING.fetch_sub(1, Relaxed);
        if done {
            self.us = (self.us * 2).clamp(SPIN_US.0, SPIN_US.1);
        } else if is_allowed {
            self.us = if SPIN_US.0 < self.us { SPIN_US.0 } else { 0 };
        }
        done
    }
}

/// Looks some times whether `is_done`.
fn looks(is_done: &impl Fn() -> bool) -> bool {
    (0..SPIN_BATCH).any(|_| {
        let done = is_done();
        if !done {
            hint::spin_loop();
        }
        done
    })
}

fn spin(time: Duration, is_done: &impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() <= time {
        if looks(is_done) {
            return true;
        }
    }
    false
}

/// The host's side of a channel.
pub(crate) enum HostChannel {
    /// Shared memory.
    Shared(SharedChannel, Spin),
    /// Socket.
    Socket(UnixStream),
}

/// The host's side of a channel, the worker's, and the worker's doorbell.
pub(crate) type Ends = (HostChannel, OwnedFd, Option<OwnedFd>);

impl HostChannel {
    /// Creates a channel. Returns the worker's side, too: its descriptor, and that of a doorbell for a worker on a kernel
    /// of its own.
    pub(crate) fn create(channel: Channel, has_own_kernel: bool) -> io::Result<Option<Ends>> {
        Ok(match channel {
            Channel::Direct => None,
            Channel::SharedMemory => {
                let bells = has_own_kernel.then(UnixStream::pair).transpose()?;
                let (ours, theirs) = bells.map_or((None, None), |(ours, theirs)| (Some(ours), Some(theirs)));
                ours.as_ref().map_or(Ok(()), |bell| bell.set_nonblocking(true))?;
                let memory = SharedChannel::create(ours)?;
                let file = memory.file().try_clone()?.into();
                Some((HostChannel::Shared(memory, Spin::new()), file, theirs.map(OwnedFd::from)))
            }
            Channel::UnixSocket => {
                let (host, worker) = UnixStream::pair()?;
                host.set_read_timeout(Some(SLICE))?;
                host.set_write_timeout(Some(SLICE))?;
                Some((HostChannel::Socket(host), worker.into(), None))
            }
        })
    }

    /// Says on how many processors this thread and the worker may run: on one, neither can answer while the other spins.
    pub(crate) fn runs_on(&mut self, processors: usize) {
        match self {
            HostChannel::Shared(_, spin) => spin.at_once_max = processors / 2,
            HostChannel::Socket(_) => {}
        }
    }

    /// Sends a message, whose contents fit the area.
    ///
    /// # Errors
    /// Those of `look`.
    pub(crate) fn send(
        &mut self,
        kind: MessageKind,
        entry: u32,
        contents: &[u8],
        look: &mut Look<'_>,
    ) -> SqlResult<()> {
        match self {
            HostChannel::Shared(memory, _) => {
                memory.give((kind as u32, entry), contents);
                Ok(())
            }
            HostChannel::Socket(socket) => {
                let mut message = Vec::with_capacity(HEAD + contents.len());
                for number in [kind as u32, entry, contents.len() as u32] {
                    message.extend_from_slice(&number.to_le_bytes());
                }
                message.extend_from_slice(contents);
                write(socket, &message, look)
            }
        }
    }

    /// Waits for a message of the worker. Its contents take the place of what `contents` holds. The part of the wait in
    /// which the thread sleeps is run by `asleep`: none if the message comes while it polls.
    ///
    /// # Errors
    /// Those of `look`; `39000` for a message that is none.
    pub(crate) fn receive(
        &mut self,
        contents: &mut Vec<u8>,
        look: &mut Look<'_>,
        asleep: &Asleep<'_>,
    ) -> SqlResult<MessageKind> {
        let (kind, _entry, len) = match self {
            HostChannel::Shared(memory, spin) => {
                if !spin.until(|| memory.is_ours()) {
                    sleep_until(asleep, || {
                        while !memory.is_ours() {
                            look()?;
                            memory.sleep(SLICE);
                        }
                        Ok(())
                    })?;
                }
                memory.take(contents)
            }
            HostChannel::Socket(socket) => {
                let mut head = [0; HEAD];
                // A worker cannot answer before the call that sleeps for it.
                sleep_until(asleep, || read(socket, &mut head, look))?;
                let [kind, entry, len] = [0, 4, 8].map(|at| number(&head, at));
                contents.clear();
                // A message that is too long is refused, not read.
                if len as usize <= AREA_BYTES {
                    contents.resize(len as usize, 0);
                    read(socket, contents, look)?;
                }
                (kind, entry, len)
            }
        };
        if AREA_BYTES < len as usize {
            return Err(garbled(&format!("a message of {len} bytes")));
        }
        MessageKind::numbered(kind).ok_or_else(|| garbled(&format!("{kind} is the kind of no message")))
    }
}

/// Runs a wait by `asleep`.
fn sleep_until(asleep: &Asleep<'_>, mut wait: impl FnMut() -> SqlResult<()>) -> SqlResult<()> {
    let mut waited = Ok(());
    asleep(&mut || waited = wait());
    waited
}

fn number(head: &[u8; HEAD], at: usize) -> u32 {
    head.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Returns an error unless the operation is to be tried again.
fn retried(error: &io::Error, look: &mut Look<'_>) -> SqlResult<()> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => look(),
        ErrorKind::Interrupted => Ok(()),
        // Whoever looks finds out whether the worker has crashed.
        _ => closed(look),
    }
}

/// Gives a worker that has closed its socket a moment to end, so that its exit is known.
fn closed(look: &mut Look<'_>) -> SqlResult<()> {
    for _ in 0..20 {
        look()?;
        std::thread::sleep(SLICE);
    }
    Err(ends::crashed("it has closed its channel"))
}

/// Reads all of these bytes. Looks after each part, because a worker may send one byte at a time for ever.
fn read(socket: &mut UnixStream, bytes: &mut [u8], look: &mut Look<'_>) -> SqlResult<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match socket.read(rest) {
            Ok(0) => closed(look)?,
            Ok(count) if count == rest.len() => done += count,
            Ok(count) => {
                done += count;
                look()?;
            }
            Err(error) => retried(&error, look)?,
        }
    }
    Ok(())
}

/// Writes all of these bytes. Looks after each part, because a worker may take one byte at a time for ever.
fn write(socket: &mut UnixStream, bytes: &[u8], look: &mut Look<'_>) -> SqlResult<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match socket.write(rest) {
            Ok(0) => closed(look)?,
            Ok(count) if count == rest.len() => done += count,
            Ok(count) => {
                done += count;
                look()?;
            }
            Err(error) => retried(&error, look)?,
        }
    }
    Ok(())
}

impl Drop for HostChannel {
    fn drop(&mut self) {
        if let HostChannel::Socket(socket) = self {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}
