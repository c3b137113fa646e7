//! Files and commands that all packages need.

use anyhow::{Context, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a command and returns its output.
///
/// # Errors
/// If the command cannot be started or fails; with its message.
pub(super) fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {}", command.get_program().display(), said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Copies a file into a folder that is made for it, with these permissions.
pub(super) fn copy(from: &Path, to: &Path, mode: u32) -> anyhow::Result<()> {
    parent(to)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(mode))?)
}

/// Writes a file into a folder that is made for it, with these permissions.
pub(super) fn write(to: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    parent(to)?;
    fs::write(to, text).with_context(|| format!("cannot write {}", to.display()))?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(mode))?)
}

fn parent(of: &Path) -> anyhow::Result<()> {
    let folder = of.parent().context("a file is in a folder")?;
    // Under any umask of the caller, folders of packages can be entered.
    for folder in folder.ancestors().filter(|folder| !folder.exists()).collect::<Vec<_>>().into_iter().rev() {
        fs::create_dir(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Makes a folder that is empty.
pub(super) fn empty_folder(folder: &Path) -> anyhow::Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("{} cannot be emptied", folder.display()))?;
    }
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    Ok(folder.to_owned())
}

/// Returns the bytes of a file, or of the files in a folder.
pub(super) fn size(path: &Path) -> anyhow::Result<u64> {
    if !path.is_dir() {
        return Ok(fs::metadata(path)?.len());
    }
    fs::read_dir(path)?.map(|entry| size(&entry?.path())).sum()
}

/// Formats bytes in megabytes of a million, as packages are measured.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

/// Returns true if a program is in the path.
pub(super) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
