//! The destinations of a report besides standard output.
//!
//! **Invariant:** a file with the asked name is complete: it is written beside its place and then renamed, so a run
//! that fails or is stopped leaves the file of the run before.

use super::Report;
use anyhow::Context;
use clap::Args;
use host::refusal::Refusal;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Files that a user asked for.
#[derive(Args, Clone, Debug, Default)]
pub struct Output {
    /// File to write the figures to, as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// File to draw the charts into, as SVG.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Files that are ready to be written.
pub struct Opened {
    json: Option<PartialFile>,
    svg: Option<PartialFile>,
}

impl Output {
    /// Makes sure, before a long run, that the files can be written.
    ///
    /// # Errors
    /// A [`Refusal`] that names the file.
    pub fn open(&self) -> anyhow::Result<Opened> {
        let open = |path: &Option<PathBuf>| path.as_deref().map(PartialFile::create).transpose();
        Ok(Opened { json: open(&self.json)?, svg: open(&self.svg)? })
    }
}

impl Opened {
    pub(super) fn write(self, report: &Report) -> anyhow::Result<()> {
        if let Some(part) = self.json {
            part.finish(&report.json()?)?;
        }
        if let Some(part) = self.svg {
            part.finish(&report.svg()?)?;
        }
        Ok(())
    }
}

/// File under a temporary name, removed unless it is finished. An existing device or pipe has no temporary name: it
/// must not be replaced.
struct PartialFile {
    file: File,
    temporary: Option<PathBuf>,
    path: PathBuf,
}

impl PartialFile {
    fn create(path: &Path) -> anyhow::Result<PartialFile> {
        let refuse = |why: &dyn std::fmt::Display| Refusal::new(format!("cannot write {}: {why}", path.display()));
        let name = path.file_name().ok_or_else(|| refuse(&"it names no file"))?;
        if path.is_dir() {
            return Err(refuse(&"it is a directory").into());
        }
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let file = File::options().write(true).open(path).map_err(|error| refuse(&error))?;
            return Ok(PartialFile { file, temporary: None, path: path.to_owned() });
        }
        let mut part = name.to_owned();
        part.push(".part");
        let temporary = path.with_file_name(part);
        let file = File::create(&temporary).map_err(|error| refuse(&error))?;
        Ok(PartialFile { file, temporary: Some(temporary), path: path.to_owned() })
    }

    fn finish(mut self, text: &str) -> anyhow::Result<()> {
        let write = || -> std::io::Result<()> {
            self.file.write_all(text.as_bytes())?;
            match &self.temporary {
                Some(temporary) => fs::rename(temporary, &self.path),
                None => self.file.flush(),
            }
        };
        let mut write = write;
        write().with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After a rename there is nothing to remove; otherwise this is tidying up, and the run's own error matters
        // more.
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}
