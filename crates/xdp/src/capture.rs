//! Capture of the diverted frames, which tcpdump does not see: a file that tcpdump and Wireshark read.
//!
//! **Invariant:** no more than the limit is on the disk. When half of it is full, the file gets `.1` at the end of its
//! name, in place of an older one, and a new one begins. A disk that refuses ends the capture, not the server.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
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
    // It shows passwords' proofs and data: nobody else may read it. The mode counts only for a file that is new. A link
    // is not followed, since it could lead to any file that the server may write; nor is the mode of a device changed.
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.set_len(0)?;
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
        for path in [&older, &path] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_file_that_exists_is_closed_to_others_and_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("capture");
        fs::write(&path, [1; 5_000]).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mut capture = Capture::start(CaptureFile { path: path.clone(), bytes_max: 1 << 20 }).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        capture.write(b"a frame").unwrap();
        capture.flush().unwrap();
        assert_eq!(frames(&path), [b"a frame"]);
    }

    #[test]
    fn a_link_is_not_followed_and_a_device_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("capture"), folder.path().join("other"));
        fs::write(&other, "precious").unwrap();
        fs::set_permissions(&other, Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let refused = Capture::start(CaptureFile { path, bytes_max: 1 << 20 }).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ELOOP));
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
        assert_eq!(fs::metadata(&other).unwrap().permissions().mode() & 0o777, 0o644);
        // One that nobody minds, and only root could change: the test is harmless if it fails.
        let device = CaptureFile { path: "/dev/full".into(), bytes_max: 1 << 20 };
        let mode = || fs::metadata("/dev/full").unwrap().permissions().mode();
        let before = mode();
        assert_eq!(Capture::start(device).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(mode(), before);
    }
}
