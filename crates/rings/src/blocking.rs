//! Stream of bytes over a pair of rings, for threads that may block.

use crate::pair::{Pair, RING_BYTES, Side, WANTS_BYTES, WANTS_ROOM};
use crate::spin::{self, Spin};
use crate::stream::{GREETING_TIME, receive, silent};
use crate::system;
use std::hint;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Looks at the ring between two looks at the clock.
const LOOKS: u32 = 64;

/// Client's side of a pair of rings, whose reads and writes block.
#[derive(Debug)]
pub struct BlockingStream {
    pair: Pair,
    bell: UnixStream,
    spin: Spin,
    timeout: Option<Duration>,
    is_gone: bool,
}

impl BlockingStream {
    /// Connects to the socket of a server. Waits for its memory, for 10 s at most.
    ///
    /// # Errors
    /// Nobody listens there, or it is no such server, or it has not answered in time ([`ErrorKind::TimedOut`]).
    pub fn connect(path: &Path) -> io::Result<BlockingStream> {
        BlockingStream::accept_within(UnixStream::connect(path)?, GREETING_TIME)
    }

    fn accept_within(bell: UnixStream, limit: Duration) -> io::Result<BlockingStream> {
        bell.set_read_timeout(Some(limit))?;
        let memory = loop {
            match receive(&bell) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(silent()),
                received => break received?,
            }
        };
        bell.set_nonblocking(true)?;
        let pair = Pair::new(memory, Side::Client);
        Ok(BlockingStream { pair, bell, spin: Spin::new(), timeout: None, is_gone: false })
    }

    /// Limits the time for which a call waits; it fails with [`ErrorKind::WouldBlock`] then.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// Declares that this side writes no more.
    pub fn end(&mut self) {
        self.pair.end();
        self.wake(WANTS_BYTES);
    }

    fn wake(&mut self, reason: u32) {
        if self.pair.must_wake(reason) {
            spin::count_wake();
            if let Err(error) = system::send_byte(self.bell.as_fd())
                && !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
            {
                self.is_gone = true;
            }
        }
    }

    /// Sleeps until the socket says something, or has ended.
    fn sleep(&mut self) -> io::Result<()> {
        let limit = self.timeout.map_or(-1, |time| i32::try_from(time.as_millis()).unwrap_or(i32::MAX));
        self.spin.sleeps();
        if !system::wait_readable(&self.bell, limit)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        match self.bell.read(&mut [0; 64]) {
            Ok(0) => self.is_gone = true,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.is_gone = true,
        }
        Ok(())
    }

    /// Returns the number of bytes to take, once there are some; 0 at the end.
    fn until_available(&mut self) -> io::Result<usize> {
        loop {
            for _ in 0..LOOKS {
                let is_last = self.is_gone || self.pair.has_ended();
                let available = self.pair.available()?;
                if 0 < available || is_last {
                    self.spin.is_over();
                    self.pair.no_longer_want(WANTS_BYTES);
                    return Ok(available);
                }
                hint::spin_loop();
            }
            if self.spin.looks_again() {
                continue;
            }
            self.pair.want(WANTS_BYTES);
            if self.pair.available()? == 0 && !self.pair.has_ended() {
                self.sleep()?;
            }
        }
    }
}

impl Read for BlockingStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let available = self.until_available()?;
        let count = available.min(into.len());
        if let Some(into) = into.get_mut(..count).filter(|into| !into.is_empty()) {
            self.pair.take(into);
            if available - count <= RING_BYTES / 2 {
                self.wake(WANTS_ROOM);
            }
        }
        Ok(count)
    }
}

impl Write for BlockingStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            if self.is_gone {
                return Err(ErrorKind::BrokenPipe.into());
            }
            let count = self.pair.room()?.min(bytes.len());
            if let Some(first) = bytes.get(..count).filter(|first| !first.is_empty() || bytes.is_empty()) {
                self.pair.no_longer_want(WANTS_ROOM);
                self.pair.put(first);
                self.wake(WANTS_BYTES);
                return Ok(count);
            }
            self.pair.want(WANTS_ROOM);
            if self.pair.room()? == 0 {
                self.sleep()?;
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_server_of_another_kind() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let error = BlockingStream::accept_within(ours, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(theirs);
    }
}
