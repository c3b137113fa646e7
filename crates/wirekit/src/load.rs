//! Closed loop of clients that look rows up by key, over streams of any kind.
//!
//! **Invariant:** a client costs as little as possible beside its reads and writes: it counts answers and looks at
//! nothing else, so that what is measured is the server and the way to it.

use crate::raw::{bind, execute, parse, query, startup, sync};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Rows of the table.
pub const KEYS: u32 = 10_000;
/// Statements that make the table.
pub const SET_UP: &str = "create table kv (k int primary key, v text);
    insert into kv select k, repeat('v', 20) from generate_series(1, 10000) k";
/// Bytes that are read at once.
const READ: usize = 64 << 10;

/// Counter of messages in a stream of bytes.
#[derive(Default)]
struct Frames {
    /// Bytes of the present message that have not come yet.
    skip: usize,
    /// Begin of a head that has not come as a whole.
    head: Vec<u8>,
    /// True if an error has come.
    has_failed: bool,
}

impl Frames {
    /// Returns the number of `ReadyForQuery` that begin in these bytes.
    fn count(&mut self, mut bytes: &[u8]) -> usize {
        let mut ready = 0;
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return ready;
            }
            let more = (5 - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..more]);
            bytes = &bytes[more..];
            if let [kind, length @ ..] = self.head.as_slice()
                && let Ok(length) = <[u8; 4]>::try_from(length)
            {
                self.skip = u32::from_be_bytes(length) as usize - 4;
                ready += usize::from(*kind == b'Z');
                self.has_failed |= *kind == b'E';
                self.head.clear();
            }
        }
    }
}

/// Client with a session and a prepared look-up.
pub struct LoadClient<S> {
    stream: S,
    frames: Frames,
    read: Vec<u8>,
    seed: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> LoadClient<S> {
    /// Logs in as `postgres`, and prepares the look-up if the table exists.
    ///
    /// # Errors
    /// The stream fails, or the server refuses something.
    pub async fn begin(stream: S, number: u32) -> io::Result<LoadClient<S>> {
        let mut client = LoadClient { stream, frames: Frames::default(), read: vec![0; READ], seed: number | 1 };
        let packet = startup(3 << 16, &[("user", "postgres"), ("database", "postgres")]);
        client.exchange(&packet, 1).await?;
        Ok(client)
    }

    /// Runs statements.
    ///
    /// # Errors
    /// The stream fails, or the server refuses something.
    pub async fn run(&mut self, text: &str) -> io::Result<()> {
        self.exchange(&query(text), 1).await
    }

    /// Prepares the look-up.
    ///
    /// # Errors
    /// The stream fails, or the table does not exist.
    pub async fn prepare(&mut self) -> io::Result<()> {
        self.exchange(&[parse("s", "select v from kv where k = $1", &[23]), sync()].concat(), 1).await
    }

    async fn exchange(&mut self, bytes: &[u8], answers: usize) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        let mut left = answers;
        while 0 < left {
            let count = self.stream.read(&mut self.read).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left = left.saturating_sub(self.frames.count(&self.read[..count]));
        }
        if self.frames.has_failed { Err(io::Error::other("the server has refused something")) } else { Ok(()) }
    }

    /// Looks up rows, `depth` of them on the way at once, until it is over. Returns their number.
    ///
    /// # Errors
    /// The stream fails, or the server refuses something.
    pub async fn look_up(&mut self, depth: usize, is_over: Arc<AtomicBool>) -> io::Result<u64> {
        let (mut done, mut requests) = (0, Vec::new());
        while !is_over.load(Relaxed) {
            requests.clear();
            for _ in 0..depth {
                self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let key = (self.seed >> 8) % KEYS + 1;
                requests.extend_from_slice(&bind("", "s", &[1], &[Some(&key.to_be_bytes())], &[]));
                requests.extend_from_slice(&execute("", 0));
                requests.extend_from_slice(&sync());
            }
            self.exchange(&requests, depth).await?;
            done += depth as u64;
        }
        Ok(done)
    }
}

/// Nanoseconds of processor time that the threads of a process have taken. Threads that have ended do not count.
///
/// # Errors
/// The process has gone.
pub fn processor_ns(pid: u32) -> io::Result<u64> {
    let mut sum = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        sum += text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_wherever_they_are_torn() {
        let bytes = b"T\0\0\0\x06ZZD\0\0\0\x04Z\0\0\0\x05IC\0\0\0\x05ZZ\0\0\0\x05I";
        for at in 0..bytes.len() {
            let mut frames = Frames::default();
            assert_eq!(frames.count(&bytes[..at]) + frames.count(&bytes[at..]), 2);
            assert!(!frames.has_failed);
        }
    }
}
