//! Programs of this machine.

use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the path of a program.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    find_in(&std::env::var_os("PATH")?, name)
}

fn find_in(folders: &OsStr, name: &str) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(folders).map(|folder| folder.join(name)).find(|path| is_program(path))
}

/// Runs a program to its end. Returns what it prints.
///
/// # Errors
/// Fails with the last lines of its messages if the program fails.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    // Some compilers report errors on standard output.
    let messages = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    bail!("{name} failed ({}):\n{}", output.status, String::from_utf8_lossy(messages).trim_end())
}

/// Makes a file executable.
pub(crate) fn make_executable(path: &Path) -> anyhow::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_executable_files_of_the_path() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("text"), "").expect("a file");
        std::fs::write(folder.path().join("program"), "").expect("a file");
        make_executable(&folder.path().join("program")).expect("a program");
        let path = std::env::join_paths([Path::new("/nowhere"), folder.path()]).expect("a path");
        assert_eq!(find_in(&path, "program"), Some(folder.path().join("program")));
        assert_eq!(find_in(&path, "text"), None);
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let error = run(Command::new("sh").args(["-c", "echo output; echo reason >&2; exit 3"])).expect_err("it fails");
        assert_eq!(error.to_string(), "sh failed (exit status: 3):\nreason");
        assert_eq!(run(Command::new("sh").args(["-c", "echo output"])).expect("it runs"), b"output\n");
    }
}
