//! Processor time and memory of a server's processes, from `/proc`.
//!
//! **Invariant:** nothing is counted twice or left out: children that ended are in their parent's sum once it has waited for
//! them, and a reading during which the set of living children changed is taken again.

use anyhow::{Context, bail};
use std::fs;

/// Unit of `utime` and `stime` in `/proc`: 100 per second on every Linux (`USER_HZ`).
const TICKS_PER_S: f64 = 100.0;
const READINGS_MAX: u32 = 100;

/// Process and all its children.
#[derive(Clone, Copy, Debug)]
pub struct Processes {
    parent: u32,
}

/// Contents of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// Process's own time, user and system, in ticks.
    own: u64,
    /// Time of the children that ended, and of theirs.
    ended_children: u64,
}

impl Processes {
    /// Returns the process and its children, those of PostgreSQL's postmaster for instance.
    pub fn of(parent: u32) -> Processes {
        Processes { parent }
    }

    /// Returns the parent process.
    pub fn parent(self) -> u32 {
        self.parent
    }

    /// Returns the seconds of processor time so far, exact to hundredths for each process.
    ///
    /// # Errors
    /// If the process does not live, or its children come and go too fast to be counted.
    pub fn processor_s(self) -> anyhow::Result<f64> {
        for _ in 0..READINGS_MAX {
            let before = self.children()?;
            let living: u64 = before.iter().map(|(_, stat)| stat.own + stat.ended_children).sum();
            let parent = stat(self.parent).with_context(|| format!("process {} does not live", self.parent))?;
            let after = self.children()?;
            if before.iter().map(|(pid, _)| pid).eq(after.iter().map(|(pid, _)| pid)) {
                return Ok((parent.own + parent.ended_children + living) as f64 / TICKS_PER_S);
            }
        }
        bail!("the children of process {} come and go too fast to count their time", self.parent)
    }

    /// Returns the bytes of memory that the process and its children hold: shared pages count in parts (`Pss`).
    ///
    /// # Errors
    /// If the process does not live, or the kernel does not report it.
    pub fn memory_bytes(self) -> anyhow::Result<u64> {
        let mut bytes = pss_bytes(self.parent).with_context(|| format!("memory of process {}", self.parent))?;
        // A child that has ended meanwhile holds nothing.
        bytes += self.children()?.iter().filter_map(|(pid, _)| pss_bytes(*pid)).sum::<u64>();
        Ok(bytes)
    }

    /// Returns the living children, in the order of their process IDs.
    fn children(self) -> anyhow::Result<Vec<(u32, Stat)>> {
        let mut children = Vec::new();
        for entry in fs::read_dir("/proc").context("/proc")? {
            let name = entry.context("/proc")?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            children.extend(stat(pid).filter(|stat| stat.parent == self.parent).map(|stat| (pid, stat)));
        }
        children.sort_unstable_by_key(|(pid, _)| *pid);
        Ok(children)
    }
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The second field is a name in brackets, which may contain anything.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(number(1)?).ok()?,
        own: number(11)? + number(12)?,
        ended_children: number(13)? + number(14)?,
    })
}

fn pss_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_brackets_and_blanks() {
        let text = "12 (a) b) S 7 12 12 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0 5 6 7\n";
        assert_eq!(parse_stat(text), Some(Stat { parent: 7, own: 120, ended_children: 7 }));
        assert_eq!(parse_stat("12 (a"), None);
    }

    #[test]
    fn this_process_has_time_and_memory() {
        let own = Processes::of(std::process::id());
        let before = own.processor_s().expect("it lives");
        assert!((0.0..1e6).contains(&before));
        assert!(0 < own.memory_bytes().expect("it lives"));
        assert!(Processes::of(u32::MAX).processor_s().is_err());
    }
}
