//! A slow device and little memory for the server, by the kernel's control groups (either version).
//!
//! **Invariant:** the groups are gone when the value is dropped; processes that were in them go on outside.

use super::super::super::servers::MeasuredServer;
use anyhow::{Context, ensure};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = "/sys/fs/cgroup";
/// Maximum number of reads per second of the device.
pub const READS_PER_S: u32 = 400;
/// Memory of the server, in bytes, the kernel's cache of its files included.
const MEMORY_BYTES: u64 = 256 << 20;

/// Control groups that limit a server's device and memory.
pub struct Throttled(Vec<PathBuf>);

impl Throttled {
    /// Limits the server's processes from now on, and those of its new sessions.
    ///
    /// # Errors
    /// If the machine does not allow it, or has no control groups.
    pub fn new(server: &MeasuredServer) -> anyhow::Result<Throttled> {
        let pid = server.processes().context("the server is not of this machine")?.parent();
        let device = fs::metadata(std::env::temp_dir()).context("the temporary files")?.dev();
        // The bits are packed as the kernel packs them into 64 bits.
        let major = (device >> 8 & 0xfff) | (device >> 32 & !0xfff);
        let minor = (device & 0xff) | (device >> 12 & !0xff);
        let (device, bytes) = (format!("{major}:{minor}"), MEMORY_BYTES.to_string());
        let name = format!("overtake-{}", std::process::id());
        let root = Path::new(ROOT);
        let (reads, least) = (format!("{device} {READS_PER_S}"), format!("{device} riops={READS_PER_S}"));
        let groups: Vec<(PathBuf, &str, &str)> = if root.join("cgroup.controllers").exists() {
            let group = root.join(&name);
            vec![(group.clone(), "io.max", &least), (group, "memory.max", &bytes)]
        } else {
            vec![
                (root.join("blkio").join(&name), "blkio.throttle.read_iops_device", &reads),
                (root.join("memory").join(&name), "memory.limit_in_bytes", &bytes),
            ]
        };
        let mut throttled = Throttled(Vec::new());
        for (group, setting, value) in groups {
            let what = || format!("{}: {setting} = {value}", group.display());
            if !group.exists() {
                fs::create_dir(&group).with_context(what)?;
                throttled.0.push(group.clone());
            }
            fs::write(group.join(setting), value).with_context(what)?;
            fs::write(group.join("cgroup.procs"), pid.to_string()).with_context(what)?;
        }
        forget_files(server)?;
        Ok(throttled)
    }
}

/// Drops the kernel's cache of the server's large files: pages cached since they were written are charged to no memory
/// limit here.
fn forget_files(server: &MeasuredServer) -> anyhow::Result<()> {
    let data = server.folder().context("the server's files are not of this machine")?.join("data/base");
    let dropped = ["-size", "+1M", "-type", "f", "-exec", "dd", "of={}", "oflag=nocache", "conv=notrunc,fdatasync"];
    let mut find = Command::new("find");
    find.arg(data).args(dropped).args(["count=0", "status=none", ";"]);
    let output = find.output().context("find")?;
    ensure!(output.status.success(), "find and dd: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

impl Drop for Throttled {
    fn drop(&mut self) {
        for group in &self.0 {
            let inside = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            let outside = group.parent().map(|parent| parent.join("cgroup.procs")).unwrap_or_default();
            for pid in inside.lines() {
                // A process that has ended meanwhile is out.
                let _ = fs::write(&outside, pid);
            }
            let _ = fs::remove_dir(group);
        }
    }
}
