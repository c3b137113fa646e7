//! Capture of the diverted frames, which tcpdump does not see: a file that tcpdump and Wireshark read.
//!
//! **Invariant:** no more than the limit is on the disk. When half of it is full, the file gets `.1` at the end of its
//! name, in place of an older one, and a new one begins. A disk that refuses ends the capture, not the server.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of the file's header, and of that of each frame.
const HEADER: u64 = 24;
const RECORD: u64 = 16;
/// Mark of files with nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
/// Kind of the frames: Ethernet.
const ETHERNET: u32 = 1;
/// Longest frame.
const LONGEST: u32 = 1 << 16;

/// File to which frames are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureFile {
    /// Path.
    pub path: PathBuf,
    /// Bytes that it may take, with the older one.
    pub bytes_max: u64,
}

#[derive(Debug)]
pub(crate) struct Capture {
    what: CaptureFile,
    file: BufWriter<File>,
    bytes: u64,
}

fn create(path: &Path) -> io::Result<BufWriter<File>> {
    // It shows passwords' proofs and data: nobody else may read it.
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let mut file = BufWriter::with_capacity(64 << 10, file);
    for word in [MAGIC, 2 | 4 << 16, 0, 0, LONGEST, ETHERNET] {
        file.write_all(&word.to_ne_bytes())?;
    }
    Ok(file)
}

impl Capture {
    /// Begins a capture.
    pub(crate) fn start(what: CaptureFile) -> io::Result<Capture> {
        let file = create(&what.path)?;
        Ok(Capture { what, file, bytes: HEADER })
    }

    /// Writes a frame.
    pub(crate) fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        let bytes = RECORD + frame.len() as u64;
        if self.what.bytes_max / 2 < self.bytes + bytes && HEADER < self.bytes {
            self.file.flush()?;
            let mut older = OsString::from(&self.what.path);
            older.push(".1");
            fs::rename(&self.what.path, older)?;
            (self.file, self.bytes) = (create(&self.what.path)?, HEADER);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let length = frame.len() as u32;
        for word in [now.as_secs() as u32, now.subsec_nanos(), length, length] {
            self.file.write_all(&word.to_ne_bytes())?;
        }
        self.file.write_all(frame)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Writes what is still in memory.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the frames of a file.
    fn frames(path: &Path) -> Vec<Vec<u8>> {
        let bytes = fs::read(path).unwrap();
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(4), word(20)), (MAGIC, 2 | 4 << 16, ETHERNET));
        let (mut frames, mut at) = (Vec::new(), 24);
        while at < bytes.len() {
            let length = word(at + 8) as usize;
            assert_eq!(word(at + 12) as usize, length);
            frames.push(bytes[at + 16..at + 16 + length].to_vec());
            at += 16 + length;
        }
        frames
    }

    #[test]
    fn the_newest_frames_are_kept_within_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("capture");
        let mut capture = Capture::start(CaptureFile { path: path.clone(), bytes_max: 4_000 }).unwrap();
        for number in 0..1_000_u32 {
            let mut frame = vec![0; 60 + number as usize % 40];
            frame[..4].copy_from_slice(&number.to_ne_bytes());
            capture.write(&frame).unwrap();
        }
        capture.flush().unwrap();
        let older = folder.path().join("capture.1");
        let all = [frames(&older), frames(&path)].concat();
        let numbers: Vec<u32> = all.iter().map(|frame| u32::from_ne_bytes(frame[..4].try_into().unwrap())).collect();
        assert!(20 < numbers.len() && numbers.last() == Some(&999));
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
        let size = |path: &Path| fs::metadata(path).unwrap().len();
        assert!(size(&older) + size(&path) <= 4_000);
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
