//! The two binaries: built or taken, and stripped.

use super::tools;
use crate::plants::target_directory;
use crate::tidy::root;
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Binary with its symbols, and a copy without.
pub(super) struct Binary {
    pub(super) name: &'static str,
    pub(super) whole: PathBuf,
    pub(super) stripped: PathBuf,
}

/// Binaries of a run.
pub(super) struct Binaries {
    pub(super) overtake: Binary,
    /// Gate's binary, only where a package needs it.
    pub(super) gate: Option<Binary>,
}

impl Binaries {
    /// Takes the binaries that are given, builds the others, and strips copies in the folder of the packages.
    pub(super) fn new(
        overtake: Option<&Path>,
        gate: Option<&Path>,
        with_gate: bool,
        out: &Path,
    ) -> anyhow::Result<Binaries> {
        let take = |name: &'static str, given: Option<&Path>| {
            let whole = match given {
                Some(file) => file.canonicalize().with_context(|| format!("no binary {}", file.display()))?,
                None => build(name)?,
            };
            let stripped = out.join("stage/stripped").join(name);
            std::fs::create_dir_all(out.join("stage/stripped"))?;
            tools::run(Command::new("strip").arg("-o").arg(&stripped).arg(&whole))?;
            anyhow::Ok(Binary { name, whole, stripped })
        };
        let gate = if with_gate { Some(take("overtake-gate", gate)?) } else { None };
        Ok(Binaries { overtake: take("overtake", overtake)?, gate })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Binary> {
        std::iter::once(&self.overtake).chain(&self.gate)
    }

    /// Returns the gate's binary, for packages that contain it.
    pub(super) fn gate(&self) -> anyhow::Result<&Binary> {
        self.gate.as_ref().context("the binary overtake-gate is part of this package")
    }
}

/// Builds a package's binary in the release profile.
fn build(package: &str) -> anyhow::Result<PathBuf> {
    let began = Instant::now();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--package", package]).current_dir(root());
    ensure!(cargo.status().context("cargo cannot be started")?.success(), "{package} does not build");
    println!("{package} was built in {:.1} min", began.elapsed().as_secs_f64() / 60.0);
    Ok(root().join(target_directory()).join("release").join(package))
}

/// Returns the oldest version of the C library that has every symbol that a binary calls: `2.35`.
pub(super) fn glibc(binary: &Path) -> anyhow::Result<String> {
    let text = tools::run(Command::new("readelf").args(["--wide", "--version-info"]).arg(binary))?;
    newest(&text).with_context(|| format!("{} needs no version of glibc", binary.display()))
}

/// Returns the newest of the versions `GLIBC_2.34` in a text.
fn newest(text: &str) -> Option<String> {
    let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|letter: char| letter != '.' && !letter.is_ascii_digit()).unwrap_or(rest.len());
        let numbers: Option<Vec<u32>> = rest[..end].split('.').map(|number| number.parse().ok()).collect();
        numbers
    });
    let newest = versions.max()?;
    Some(newest.iter().map(u32::to_string).collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::newest;

    #[test]
    fn the_newest_version_counts_by_numbers() {
        let text = "  0x0010: Name: GLIBC_2.4  Flags: none\n  Name: GLIBC_2.34  Flags\n Name: GLIBC_2.2.5  Flags: none";
        assert_eq!(newest(text).as_deref(), Some("2.34"));
        assert_eq!(newest("GCC_3.0"), None);
    }
}
