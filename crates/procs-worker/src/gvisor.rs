//! Sandboxes of gVisor: the files that `runsc` needs, and its arguments.
//!
//! **Invariant:** a folder belongs to one program or one sandbox, and is removed with it. Nobody but the server's user can
//! read it. A server's own folder is locked while it lives, so that another server does not remove it.

use crate::child::{CHANNEL_FD, NOBODY};
use crate::lock::{locked, locked_new};
use procs::abi::CHANNEL_VARIABLE;
use std::env;
use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Environment variable with the path of `runsc`, if it is not in `PATH`.
const VARIABLE: &str = "OVERTAKE_RUNSC";
/// Greatest number of files that code in a sandbox has open.
const FILES_MAX: u64 = 64;

/// Folder that is removed with the value.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

/// Attempts to lock a new folder.
const LOCK_ATTEMPTS: usize = 100;
/// Beginning of the names of folders. The number of the server's process follows.
const NAME: &str = "overtake-gvisor-";

/// Folder of a server, which is locked as long as the server lives. It is removed with the value.
#[derive(Debug)]
struct ServerFolder {
    folder: Folder,
    #[expect(dead_code, reason = "holds the lock")]
    lock: File,
}

/// Removes the folders of servers that were killed.
fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(NAME);
        // One of another user stays.
        if let Some(_lock) = is_ours.then(|| locked(&entry.path())).flatten() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl ServerFolder {
    /// Creates and locks a folder.
    fn new(base: &Path) -> io::Result<ServerFolder> {
        for _ in 0..LOCK_ATTEMPTS {
            let folder = Folder::new(base)?;
            if let Some(lock) = locked_new(&folder.0) {
                return Ok(ServerFolder { folder, lock });
            }
        }
        Err(io::Error::other("no folder could be locked"))
    }
}

impl Folder {
    /// Creates a folder that only this user can enter. Its name is used once.
    pub(crate) fn new(base: &Path) -> io::Result<Folder> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let name = format!("{NAME}{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
            let path = base.join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Folder(path)),
                // A server that was killed has left it, and the number of its process has come again.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Whatever is left lies in a folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `runsc` of this machine.
#[derive(Debug)]
pub(crate) struct Runsc {
    /// Program file.
    pub(crate) file: Arc<File>,
    /// Folder of all sandboxes.
    folder: ServerFolder,
}

/// Root of the file system of a program's sandboxes.
#[derive(Debug)]
pub(crate) struct SandboxRoot(Folder);

/// Sandbox that is about to be created.
#[derive(Debug)]
pub(crate) struct SandboxOrder {
    /// Folder with the description and the state of the sandbox.
    pub(crate) folder: Folder,
    /// Arguments of `runsc`.
    pub(crate) arguments: Vec<CString>,
}

impl Runsc {
    /// Finds `runsc`.
    ///
    /// # Errors
    /// The reason if there is none.
    pub(crate) fn find() -> Result<Runsc, String> {
        let path = match env::var_os(VARIABLE) {
            Some(path) => PathBuf::from(path),
            None => {
                let folders = env::var_os("PATH").unwrap_or_default();
                let mut all = env::split_paths(&folders).map(|folder| folder.join("runsc"));
                all.find(|path| path.is_file())
                    .ok_or_else(|| format!("runsc was not found in PATH, and {VARIABLE} is not set"))?
            }
        };
        let file = File::open(&path).map_err(|error| format!("{} cannot be opened: {error}", path.display()))?;
        let base = env::temp_dir();
        sweep(&base);
        let folder = ServerFolder::new(&base).map_err(|error| format!("there is no folder for sandboxes: {error}"))?;
        Ok(Runsc { file: Arc::new(file), folder })
    }

    /// Creates the root of a program's sandboxes, which has the executable alone.
    pub(crate) fn root(&self, executable: &[u8]) -> io::Result<SandboxRoot> {
        let root = SandboxRoot(Folder::new(&self.folder.folder.0)?);
        let path = root.0.0.join("worker");
        let mut file = File::create_new(&path)?;
        file.write_all(executable)?;
        // The code is nobody, and runs as such.
        file.set_permissions(fs::Permissions::from_mode(0o555))?;
        fs::set_permissions(&root.0.0, fs::Permissions::from_mode(0o755))?;
        Ok(root)
    }

    /// Describes a sandbox: its channel by this name, and the memory of its code in bytes.
    pub(crate) fn order(
        &self,
        root: &SandboxRoot,
        channel_name: &str,
        memory: u64,
        has_doorbell: bool,
    ) -> io::Result<SandboxOrder> {
        let folder = Folder::new(&self.folder.folder.0)?;
        fs::write(folder.0.join("config.json"), description(&root.0.0, channel_name, memory))?;
        let path = folder.0.display();
        let id = folder.0.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let pass = |fd: i32| format!("--pass-fd={fd}:{fd}");
        let mut arguments = vec![
            "runsc".to_owned(),
            "--rootless".to_owned(),
            "--network=none".to_owned(),
            "--platform=systrap".to_owned(),
            "--ignore-cgroups".to_owned(),
            format!("--root={path}"),
            "run".to_owned(),
            format!("--bundle={path}"),
            pass(CHANNEL_FD),
        ];
        arguments.extend(has_doorbell.then(|| pass(CHANNEL_FD + 1)));
        arguments.push(id);
        let arguments = arguments.into_iter().filter_map(|one| CString::new(one).ok()).collect();
        Ok(SandboxOrder { folder, arguments })
    }
}

/// Returns the description of a sandbox, as the Open Container Initiative has it.
fn description(root: &Path, channel_name: &str, memory: u64) -> String {
    let environment = [
        format!("{CHANNEL_VARIABLE}={channel_name}:{CHANNEL_FD}"),
        "PATH=/usr/local/bin:/usr/bin:/bin".to_owned(),
        "LANG=C.UTF-8".to_owned(),
    ]
    .map(|one| text(&one))
    .join(",");
    let limit = |name: &str, limit: u64| format!(r#"{{"type":"{name}","hard":{limit},"soft":{limit}}}"#);
    let limits = [limit("RLIMIT_NOFILE", FILES_MAX), limit("RLIMIT_DATA", memory), limit("RLIMIT_CORE", 0)].join(",");
    let namespaces = ["pid", "network", "ipc", "uts", "mount"].map(|name| format!(r#"{{"type":"{name}"}}"#)).join(",");
    let root = text(&root.display().to_string());
    format!(
        r#"{{"ociVersion":"1.0.0","process":{{"user":{{"uid":{NOBODY},"gid":{NOBODY}}},"args":["/worker"],"env":[{environment}],
"cwd":"/","capabilities":{{}},"noNewPrivileges":true,"rlimits":[{limits}]}},
"root":{{"path":{root},"readonly":true}},"linux":{{"namespaces":[{namespaces}]}}}}"#
    )
}

/// Returns a text as JSON writes it.
fn text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter < ' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted() {
        assert_eq!(text("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }

    #[test]
    fn folders_are_gone_with_their_values() {
        let folder = Folder::new(&env::temp_dir()).expect("a folder");
        let path = folder.0.clone();
        fs::write(path.join("file"), "x").expect("a file");
        assert_eq!(fs::metadata(&path).expect("a folder").permissions().mode() & 0o777, 0o700);
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn folders_of_killed_servers_are_removed() {
        let base = Folder::new(&env::temp_dir()).expect("a folder");
        // It is the lock that counts: a number may be that of a process in another namespace.
        let names = ["overtake-gvisor-4194304-0", "overtake-gvisor-1-0", "other-4194304-0"];
        let [left, numbered, other] = names.map(|name| base.0.join(name));
        for path in [&left, &numbered, &other] {
            fs::create_dir(path).expect("a folder");
            fs::write(path.join("file"), "x").expect("a file");
        }
        let live = ServerFolder::new(&base.0).expect("a folder");
        fs::write(base.0.join("overtake-gvisor-file"), "x").expect("a file");
        let _lock = locked(&numbered).expect("nobody else has it");
        sweep(&base.0);
        assert_eq!([&left, &numbered, &other, &live.folder.0].map(|path| path.exists()), [false, true, true, true]);
        let path = live.folder.0.clone();
        drop(live);
        assert!(!path.exists());
    }
}
