//! The wheel of Python, which a script of its standard library makes.

use super::{PackagingJob, tools};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Makes `overtake-VERSION-py3-none-manylinux_….whl`, whose tag has the version of glibc that the binary needs.
pub(super) fn make(job: &PackagingJob) -> anyhow::Result<Vec<PathBuf>> {
    // A wheel of another version of glibc would stay beside the new one.
    for entry in fs::read_dir(&job.out)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            fs::remove_file(path)?;
        }
    }
    let mut python = Command::new("python3");
    python.arg(job.input("python/build_wheel.py")).arg(&job.binaries.overtake.stripped);
    let path = tools::run(python.args([&job.version, &job.glibc]).arg(&job.out))?;
    Ok(vec![PathBuf::from(path.trim())])
}
