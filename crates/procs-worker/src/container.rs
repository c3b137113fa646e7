//! Root of a container: the steps that a child takes to build it.

use crate::elf::ExecutableKind;
use std::ffi::{CStr, CString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Step within the new root, which is the current folder.
pub(crate) enum RootStep {
    /// Creates a folder.
    Folder(CString),
    /// Creates an empty file.
    File(CString),
    /// Creates a symbolic link at the second path to the first.
    Link(CString, CString),
    /// Shows the first path of the old root at the second, read-only and without devices.
    Bind(CString, CString),
    /// Shows a device of the old root.
    Device(CString, CString),
}

/// Root of a container.
pub(crate) struct Root {
    /// Folder of the old root over which the new one is mounted.
    pub(crate) base: &'static CStr,
    /// Options of the file system.
    pub(crate) options: CString,
    pub(crate) steps: Vec<RootStep>,
}

/// Folders of programs and libraries.
const PROGRAM_FOLDERS: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// Files below `/etc` that programs of distributions need.
const ETC_FOLDERS: [&str; 1] = ["/etc/alternatives"];
/// Bytes of the new root besides the executable.
const ROOT_BYTES: u64 = 1 << 20;

fn text(path: &str) -> CString {
    // No path here has a zero byte.
    CString::new(path).unwrap_or_default()
}

/// Adds a path of the old root, if it is there: a folder, or a link as it is.
fn show(path: &str, steps: &mut Vec<RootStep>) {
    let inside = text(path.trim_start_matches('/'));
    let Ok(kind) = fs::symlink_metadata(path).map(|data| data.file_type()) else { return };
    if kind.is_symlink() {
        let target = fs::read_link(path).ok().and_then(|target| CString::new(target.as_os_str().as_bytes()).ok());
        steps.extend(target.map(|target| RootStep::Link(target, inside)));
    } else if kind.is_dir() {
        steps.push(RootStep::Folder(inside.clone()));
        steps.push(RootStep::Bind(text(path), inside));
    }
}

impl Root {
    /// Returns the root for an executable of this kind and length.
    pub(crate) fn of(kind: ExecutableKind, executable_bytes: u64) -> Root {
        let mut steps = vec![
            RootStep::Folder(text("dev")),
            RootStep::File(text("dev/null")),
            RootStep::Device(text("/dev/null"), text("dev/null")),
        ];
        match kind {
            ExecutableKind::Static => {}
            ExecutableKind::Dynamic | ExecutableKind::Script => {
                PROGRAM_FOLDERS.iter().for_each(|path| show(path, &mut steps));
                steps.push(RootStep::Folder(text("etc")));
                ETC_FOLDERS.iter().for_each(|path| show(path, &mut steps));
            }
        }
        let bases = [c"/tmp", c"/run", c"/mnt", c"/dev"];
        let is_there = |base: &CStr| base.to_str().is_ok_and(|base| Path::new(base).is_dir());
        let base = bases.into_iter().find(|base| is_there(base)).unwrap_or(c"/");
        let options = text(&format!("mode=0755,size={},nr_inodes=64", executable_bytes + ROOT_BYTES));
        Root { base, options, steps }
    }
}
