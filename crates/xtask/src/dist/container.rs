//! The folder in which docker or podman builds an image.

use super::{PackagingJob, tools};
use std::path::PathBuf;

/// Makes the folder `container`.
pub(super) fn make(job: &PackagingJob) -> anyhow::Result<Vec<PathBuf>> {
    let folder = tools::empty_folder(&job.out.join("container"))?;
    for name in ["Containerfile", "trust.conf"] {
        tools::copy(&job.input("container").join(name), &folder.join(name), 0o644)?;
    }
    tools::copy(&job.binaries.overtake.stripped, &folder.join("overtake"), 0o755)?;
    Ok(vec![folder])
}
