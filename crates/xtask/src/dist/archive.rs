//! The archive: both binaries, configurations and units to adapt, and the inputs of monitoring.

use super::{PackagingJob, tools};
use std::path::PathBuf;
use std::process::Command;

/// Makes `overtake-VERSION-x86_64-linux.tar.xz`.
pub(super) fn make(job: &PackagingJob) -> anyhow::Result<Vec<PathBuf>> {
    let name = format!("overtake-{}-x86_64-linux", job.version);
    let stage = job.stage("tar")?;
    let folder = stage.join(&name);
    for binary in [&job.binaries.overtake, job.binaries.gate()?] {
        tools::copy(&binary.stripped, &folder.join("bin").join(binary.name), 0o755)?;
        for extension in ["service", "conf"] {
            let file = format!("{}.{extension}", binary.name);
            tools::copy(&job.input("debian").join(&file), &folder.join("etc").join(&file), 0o644)?;
        }
    }
    job.copy_monitoring(&folder)?;
    job.copy_licences(&folder)?;
    tools::copy(&job.input("README.md"), &folder.join("README.md"), 0o644)?;
    let path = job.out.join(format!("{name}.tar.xz"));
    let mut tar = Command::new("tar");
    // The owner is root, whoever runs the command; the time of the build is left out.
    tar.args(["--sort=name", "--owner=root:0", "--group=root:0", "--mtime=2026-01-01", "--xz", "-cf"]);
    tools::run(tar.arg(&path).arg("-C").arg(&stage).arg(&name).env("XZ_OPT", "-6 -T0"))?;
    Ok(vec![path])
}
