//! Locks of folders, by which a server tells those of other servers from what is left of killed ones. Numbers of
//! processes would not tell them: a server in another namespace has others.
//!
//! **Invariant:** the lock of a folder is held as long as its server needs it, and ends with the process in whichever
//! way.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens and locks a folder; `None` if it cannot be opened, or somebody else has locked it.
pub(crate) fn locked(path: &Path) -> Option<File> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.try_lock().ok().map(|()| file)
}

/// Locks a folder that this process has just created. A server that sweeps may have been faster: it has the lock, or
/// has removed the folder by now. Then there is `None`, and the folder is not to be used.
pub(crate) fn locked_new(path: &Path) -> Option<File> {
    let file = locked(path)?;
    let number = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let ours = file.metadata().map(number).ok()?;
    (fs::metadata(path).map(number).ok() == Some(ours)).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_by_one_and_of_a_folder_that_is_there() {
        let base = std::env::temp_dir().join(format!("overtake-lock-{}", std::process::id()));
        let (folder, moved) = (base.join("folder"), base.join("moved"));
        fs::create_dir_all(&folder).expect("a folder");
        let lock = locked_new(&folder).expect("nobody else has it");
        assert!(locked(&folder).is_none() && locked_new(&folder).is_none());
        drop(lock);
        assert!(locked(&folder).is_some());
        fs::rename(&folder, &moved).expect("moved");
        assert!(locked_new(&folder).is_none());
        fs::remove_dir_all(&base).expect("removed");
    }
}
