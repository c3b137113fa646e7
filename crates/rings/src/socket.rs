//! Socket files: unix sockets at which a process listens, for as long as it does.
//!
//! **Invariant:** a file on which somebody listens is never replaced, nor is one that is no socket.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Pause between two attempts to accept when the system has no descriptors left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Path of a unix socket, which is removed with the value.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Listens at a unix socket, and replaces a socket file on which nobody listens any more: a process that was killed
/// has left it.
///
/// # Errors
/// Somebody listens there ([`ErrorKind::AddrInUse`]), as for a file that is no socket, or the file cannot be created.
pub fn listen(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            if !is_left(path) {
                return Err(error);
            }
            fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    Ok((listener, SocketFile(path.to_owned())))
}

/// Returns true for a socket file on which nobody listens.
fn is_left(path: &Path) -> bool {
    // A file that is no socket refuses connections, too.
    fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
        && UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_were_left_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        // A listener that is gone leaves its file, as a process does that was killed.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let (listener, file) = listen(&path).unwrap();
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        UnixStream::connect(&path).unwrap();
        drop((listener, file));
        assert!(!path.exists());
        fs::write(&path, "no socket").unwrap();
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(fs::read(&path).unwrap(), b"no socket");
    }
}
