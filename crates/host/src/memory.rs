//! Memory that this process may still take, asked before a run that would need more.

use crate::refusal::Refusal;
use crate::stop::{Stop, Stopped};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Returns the bytes that this process can take now: what the machine has to spare, or the container's limit if that is
/// nearer. `None` if the kernel does not say.
pub fn available_bytes() -> Option<u64> {
    let machine = meminfo_bytes("MemAvailable:");
    let container = container_left_bytes(Path::new("/sys/fs/cgroup"));
    machine.into_iter().chain(container).min()
}

/// Returns the bytes that this process may have at most: the machine's memory, or the limit of its control group if
/// that is less.
pub fn limit_bytes() -> usize {
    /// Assumed memory of a machine that does not report its own.
    const UNKNOWN: u64 = 4 << 30;
    let machine = total_bytes().unwrap_or(UNKNOWN);
    let group = container(Path::new("/sys/fs/cgroup"), |directory, limit, _| number(&directory.join(limit)));
    usize::try_from(group.map_or(machine, |group| machine.min(group))).unwrap_or(usize::MAX)
}

/// Returns the bytes of memory of this machine.
pub fn total_bytes() -> Option<u64> {
    meminfo_bytes("MemTotal:")
}

/// Returns the bytes of memory that this process has touched and keeps, as the kernel counts them.
pub fn own_bytes() -> Option<u64> {
    field_bytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// Returns the bytes of [`own_bytes`] without those that belong to files, such as the program's own text. `None` if the
/// kernel does not say.
pub fn anonymous_bytes() -> Option<usize> {
    /// Page size of x86-64.
    const PAGE_BYTES: usize = 4096;
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = pages.split_ascii_whitespace().skip(1).map(|pages| pages.parse::<usize>().ok());
    let (resident, of_files) = (pages.next()??, pages.next()??);
    Some(resident.saturating_sub(of_files) * PAGE_BYTES)
}

/// Refuses a run that needs more memory than is available.
///
/// # Errors
/// A [`Refusal`] that says how much is missing and `advice`.
pub fn require(needed_bytes: u64, advice: &str) -> Result<(), Refusal> {
    check(needed_bytes, available_bytes(), advice)
}

fn check(needed_bytes: u64, available_bytes: Option<u64>, advice: &str) -> Result<(), Refusal> {
    match available_bytes {
        Some(available) if available < needed_bytes => Err(Refusal::new(format!(
            "too little memory: {} needed, {} available; {advice}",
            in_words(needed_bytes),
            in_words(available)
        ))),
        _ => Ok(()),
    }
}

/// Touches this much memory and gives it back to the allocator, which keeps it (see `preempt::prepare_heap`): later
/// measurements do not pay for the first use of a page. On a virtual machine that cost is not the kernel's clearing
/// alone: the hypervisor has to find the page (measured here: 0.5 GB/s at the first use, 10 GB/s later).
///
/// # Errors
/// [`Stopped`] if a stop was asked for.
pub fn warm(bytes: u64, stop: &Stop) -> Result<(), Stopped> {
    const BLOCK_BYTES: usize = 1 << 20;
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for at in 0..bytes / BLOCK_BYTES as u64 {
        if at.is_multiple_of(64) {
            stop.wait(Duration::ZERO)?;
        }
        blocks.push(vec![1; BLOCK_BYTES]);
    }
    drop(std::hint::black_box(blocks));
    Ok(())
}

/// Formats a size for people: `1.5 GiB`, `640 MiB`.
pub fn in_words(bytes: u64) -> String {
    const MIB: f64 = 1_048_576.0;
    let mib = bytes as f64 / MIB;
    if mib < 1024.0 { format!("{mib:.0} MiB") } else { format!("{:.1} GiB", mib / 1024.0) }
}

fn meminfo_bytes(field: &str) -> Option<u64> {
    field_bytes(&fs::read_to_string("/proc/meminfo").ok()?, field)
}

fn field_bytes(meminfo: &str, field: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Returns the bytes that the limit of this process's control group leaves.
fn container_left_bytes(mount: &Path) -> Option<u64> {
    container(mount, |directory, limit, usage| {
        Some(number(&directory.join(limit))?.saturating_sub(number(&directory.join(usage))?))
    })
}

/// Returns the least value that `find` returns for this process's control group, version 2 or 1, and all its ancestors.
/// The arguments of `find` are the directory and the names of the files of the limit and of the usage.
fn container(mount: &Path, find: impl Fn(&Path, &str, &str) -> Option<u64>) -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let paths = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        match (parts.next()?, parts.next()?) {
            ("", path) => Some((mount.to_path_buf(), path, "memory.max", "memory.current")),
            (controllers, path) if controllers.split(',').any(|name| name == "memory") => {
                Some((mount.join("memory"), path, "memory.limit_in_bytes", "memory.usage_in_bytes"))
            }
            _ => None,
        }
    });
    let mut least = None;
    for (root, path, limit, usage) in paths {
        // Inside a container the path may be the host's and not exist here; the root is then the container's own group.
        let group = root.join(path.trim_start_matches('/'));
        for directory in group.ancestors().take_while(|directory| directory.starts_with(&root)) {
            least = least.into_iter().chain(find(directory, limit, usage)).min();
        }
    }
    least
}

/// Returns the number in a file; `None` for `max` and for a missing file.
fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_kibibytes() {
        let text = "MemTotal:       24689588 kB\nMemAvailable:    1024 kB\n";
        assert_eq!(field_bytes(text, "MemAvailable:"), Some(1024 * 1024));
        assert_eq!(field_bytes(text, "Swap:"), None);
    }

    #[test]
    fn this_machine_has_memory() {
        let (available, total) = (available_bytes().expect("Linux says"), total_bytes().expect("Linux says"));
        assert!(0 < available);
        assert!(available <= total);
        assert!(0 < limit_bytes() && limit_bytes() as u64 <= total);
        assert!(own_bytes().is_some_and(|own| 0 < own && own < total));
    }

    #[test]
    fn too_little_is_refused_with_both_sizes() {
        let refusal = check(3 << 30, Some(640 << 20), "try less").expect_err("there is too little");
        assert_eq!(refusal.to_string(), "too little memory: 3.0 GiB needed, 640 MiB available; try less");
        assert!(check(1, Some(1), "").is_ok());
        assert!(check(u64::MAX, None, "").is_ok());
    }
}
