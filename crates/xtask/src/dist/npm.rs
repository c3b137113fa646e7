//! The package of npm.

use super::{PackagingJob, tools};
use std::path::PathBuf;
use std::process::Command;

/// Makes `overtake-VERSION.tgz`.
pub(super) fn make(job: &PackagingJob) -> anyhow::Result<Vec<PathBuf>> {
    let folder = job.stage("npm")?;
    for name in ["index.js", "index.d.ts"] {
        tools::copy(&job.input("npm").join(name), &folder.join(name), 0o644)?;
    }
    let manifest = std::fs::read_to_string(job.input("npm/package.json"))?.replace("VERSION", &job.version);
    tools::write(&folder.join("package.json"), &manifest, 0o644)?;
    tools::copy(&job.binaries.overtake.stripped, &folder.join("bin/overtake"), 0o755)?;
    job.copy_licences(&folder)?;
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--pack-destination"]).arg(&job.out).current_dir(&folder);
    let name = tools::run(&mut npm)?;
    Ok(vec![job.out.join(name.trim())])
}
