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
    /// Part of it in the kernel.
    own_kernel: u64,
    /// Time of the children that ended, and of theirs.
    ended_children: u64,
    /// Part of it in the kernel.
    ended_kernel: u64,
}

/// Processor time of one process or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessorTime {
    /// Seconds in all.
    pub all_s: f64,
    /// Seconds in the kernel.
    pub kernel_s: f64,
}

impl ProcessorTime {
    /// Returns the time of a process without its children, exact to hundredths of a second.
    ///
    /// # Errors
    /// If the process does not live.
    pub fn of_one(pid: u32) -> anyhow::Result<ProcessorTime> {
        let stat = stat(pid).with_context(|| format!("process {pid} does not live"))?;
        Ok(ProcessorTime { all_s: seconds(stat.own), kernel_s: seconds(stat.own_kernel) })
    }

    /// Returns the time since an earlier reading.
    pub fn since(self, before: ProcessorTime) -> ProcessorTime {
        ProcessorTime { all_s: self.all_s - before.all_s, kernel_s: self.kernel_s - before.kernel_s }
    }

    /// Returns the sum of two times.
    pub fn plus(self, other: ProcessorTime) -> ProcessorTime {
        ProcessorTime { all_s: self.all_s + other.all_s, kernel_s: self.kernel_s + other.kernel_s }
    }
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / TICKS_PER_S
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
        Ok(self.processor_time()?.all_s)
    }

    /// Returns the processor time so far, exact to hundredths of a second for each process.
    ///
    /// # Errors
    /// Errors of [`Processes::processor_s`].
    pub fn processor_time(self) -> anyhow::Result<ProcessorTime> {
        for _ in 0..READINGS_MAX {
            let before = self.children()?;
            let living = |of: fn(&Stat) -> u64| before.iter().map(|(_, stat)| of(stat)).sum::<u64>();
            let parent = stat(self.parent).with_context(|| format!("process {} does not live", self.parent))?;
            let after = self.children()?;
            if before.iter().map(|(pid, _)| pid).eq(after.iter().map(|(pid, _)| pid)) {
                let sum = |of: fn(&Stat) -> u64| seconds(of(&parent) + living(of));
                return Ok(ProcessorTime {
                    all_s: sum(|stat| stat.own + stat.ended_children),
                    kernel_s: sum(|stat| stat.own_kernel + stat.ended_kernel),
                });
            }
        }
        bail!("the children of process {} come and go too fast to count their time", self.parent)
    }

    /// Returns the nanoseconds that the living threads of the process itself have had a processor, as the scheduler
    /// counts them: for a process that starts and ends no threads meanwhile.
    ///
    /// # Errors
    /// If the process does not live.
    pub fn threads_ns(self) -> anyhow::Result<u64> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.parent));
        let tasks = tasks.with_context(|| format!("process {} does not live", self.parent))?;
        let of = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_ascii_whitespace().next()?.parse::<u64>().ok()
        };
        Ok(tasks.flatten().filter_map(of).sum())
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
        own_kernel: number(12)?,
        ended_children: number(13)? + number(14)?,
        ended_kernel: number(14)?,
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
        let expected = Stat { parent: 7, own: 120, own_kernel: 20, ended_children: 7, ended_kernel: 4 };
        assert_eq!(parse_stat(text), Some(expected));
        assert_eq!(parse_stat("12 (a"), None);
    }

    #[test]
    fn this_process_has_time_and_memory() {
        let own = Processes::of(std::process::id());
        let before = own.processor_s().expect("it lives");
        assert!((0.0..1e6).contains(&before));
        let alone = ProcessorTime::of_one(std::process::id()).expect("it lives");
        assert!(0.0 <= alone.kernel_s && alone.kernel_s <= alone.all_s, "{alone:?}");
        assert!(0 < own.threads_ns().expect("it lives"));
        assert!(0 < own.memory_bytes().expect("it lives"));
        assert!(Processes::of(u32::MAX).processor_s().is_err());
    }
}
