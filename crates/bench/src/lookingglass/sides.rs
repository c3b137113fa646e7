//! A control group for each server, and one for the clients: processors and processor time of either side.
//!
//! **Invariant:** a group has one side and all that it starts, so that no process of a worker or of a session is left
//! out, ended ones included. The groups are gone when the value is dropped; processes that were in them go on outside.

use super::pairs::Processors;
use crate::wire::processes::ProcessorTime;
use crate::wire::servers::MeasuredServer;
use anyhow::{Context, bail};
use procs_worker::own_group;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

/// Begin of the names of groups.
const PREFIX: &str = "overtake-bench-";
/// Number of times that a busy group is tried to be removed, and the time between two tries.
const REMOVALS_MAX: u32 = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);
/// Name of the clients' group, beside the keys of servers.
const CLIENTS: &str = "clients";
/// Looks for processes that have been started meanwhile.
const LOOKS_MAX: u32 = 100;
/// Unit of `cpuacct.stat`: 100 per second on every Linux (`USER_HZ`).
const TICKS_PER_S: f64 = 100.0;

/// Groups of both sides.
#[derive(Default)]
pub struct Sides {
    groups: Vec<SideGroup>,
    /// Reason why there are none.
    reason: Option<String>,
}

/// Group of one side.
struct SideGroup {
    name: String,
    folders: Folders,
}

/// Folders of a group.
enum Folders {
    /// Version 1: those of the controllers `cpuset` and `cpuacct`.
    First { set: PathBuf, accounts: PathBuf },
    /// Version 2.
    Second(PathBuf),
}

impl Sides {
    /// Puts the servers and this process into groups. Without the means for that, there are none, and a reason.
    pub fn enter(targets: &[MeasuredServer], processors: Processors) -> Sides {
        let mut sides = Sides::default();
        if let Err(error) = sides.fill(targets, processors) {
            sides.groups.clear();
            sides.reason = Some(format!("{error:#}"));
        }
        sides
    }

    fn fill(&mut self, targets: &[MeasuredServer], processors: Processors) -> anyhow::Result<()> {
        sweep();
        for target in targets {
            let processes = target.processes().context("a server is not a process of this machine")?;
            self.add(target.key, processors.server)?.take_tree(processes.parent())?;
        }
        self.add(CLIENTS, processors.client)?.take(std::process::id())
    }

    fn add(&mut self, name: &str, processor: usize) -> anyhow::Result<&SideGroup> {
        let group = SideGroup::create(name, processor)?;
        self.groups.push(group);
        self.groups.last().context("it was added")
    }

    /// Returns the processor time of a server and all that it has started; `None` without groups.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn of_server(&self, target: &MeasuredServer) -> anyhow::Result<Option<ProcessorTime>> {
        self.of(target.key)
    }

    /// Returns the processor time of the clients; `None` without groups.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn of_clients(&self) -> anyhow::Result<Option<ProcessorTime>> {
        self.of(CLIENTS)
    }

    fn of(&self, name: &str) -> anyhow::Result<Option<ProcessorTime>> {
        let group = self.groups.iter().find(|group| group.name == name);
        group.map(|group| group.folders.time().with_context(|| format!("the control group of {name}"))).transpose()
    }

    /// Returns the sentence that says how the sides were kept apart.
    pub fn told(&self) -> String {
        match (&self.reason, self.groups.first()) {
            (None, Some(SideGroup { folders: Folders::First { .. }, .. })) => {
                "Each server and the clients are in control groups of their own, with one processor each (version 1: \
                 cpuset, cpuacct)."
                    .to_owned()
            }
            (None, Some(_)) => "Each server and the clients are in control groups of their own (version 2), pinned to \
                                their processors by sched_setaffinity."
                .to_owned(),
            (reason, _) => format!(
                "No control groups ({}): both sides are pinned by sched_setaffinity, and their processor time is that \
                 of /proc.",
                reason.as_deref().unwrap_or("not asked for")
            ),
        }
    }
}

impl SideGroup {
    fn create(name: &str, processor: usize) -> anyhow::Result<SideGroup> {
        let own = format!("{PREFIX}{}-{name}", std::process::id());
        let make = |folder: PathBuf| -> anyhow::Result<PathBuf> {
            fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
            Ok(folder)
        };
        if let Some((set, accounts)) = own_group("cpuset").zip(own_group("cpuacct")) {
            let memory = fs::read_to_string(set.join("cpuset.effective_mems")).context("cpuset.effective_mems")?;
            let set = make(set.join(&own))?;
            let folders = Folders::First { accounts: set.clone(), set };
            // From here on the folders are removed on every path.
            let mut group = SideGroup { name: name.to_owned(), folders };
            let Folders::First { set, accounts: own_accounts } = &mut group.folders else { bail!("it was made so") };
            fs::write(set.join("cpuset.mems"), memory.trim()).context("cpuset.mems")?;
            fs::write(set.join("cpuset.cpus"), processor.to_string()).context("cpuset.cpus")?;
            if !set.join("cpuacct.usage").is_file() {
                *own_accounts = make(accounts.join(&own))?;
            }
            return Ok(group);
        }
        let parent = own_group("").context("neither cpuset and cpuacct of version 1 nor version 2 is mounted")?;
        let shared = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
        if shared.split_whitespace().any(|controller| controller == "memory") {
            bail!("workers of the server have groups beside its own in version 2, and their time would be missing");
        }
        let folder = make(parent.join(&own))?;
        let group = SideGroup { name: name.to_owned(), folders: Folders::Second(folder) };
        group.folders.time()?;
        Ok(group)
    }

    /// Puts a process into the group. What it starts from now on is in the group, too.
    fn take(&self, pid: u32) -> anyhow::Result<()> {
        self.folders.each().into_iter().try_for_each(|folder| {
            let told = || format!("{}: process {pid}", folder.display());
            fs::write(folder.join("cgroup.procs"), pid.to_string()).with_context(told)
        })
    }

    /// Puts a process and all that it has started into the group.
    fn take_tree(&self, pid: u32) -> anyhow::Result<()> {
        let mut taken = vec![pid];
        self.take(pid)?;
        for _ in 0..LOOKS_MAX {
            let fresh: Vec<u32> = children_of(&taken)?.into_iter().filter(|child| !taken.contains(child)).collect();
            if fresh.is_empty() {
                return Ok(());
            }
            for child in fresh {
                // One that has ended meanwhile needs no group.
                if let Err(error) = self.take(child)
                    && Path::new(&format!("/proc/{child}")).exists()
                {
                    return Err(error);
                }
                taken.push(child);
            }
        }
        bail!("the processes of a server come and go too fast to find them")
    }
}

impl Drop for SideGroup {
    fn drop(&mut self) {
        self.folders.remove();
    }
}

/// Returns the children of some processes.
fn children_of(parents: &[u32]) -> anyhow::Result<Vec<u32>> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc").context("/proc")? {
        let name = entry.context("/proc")?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The second field is a name in brackets, which may contain anything.
        let parent = text.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
        children.extend(parent.filter(|parent| parents.contains(parent)).map(|_| pid));
    }
    Ok(children)
}

impl Folders {
    /// Returns each folder once.
    fn each(&self) -> Vec<&Path> {
        match self {
            Folders::First { set, accounts } if set == accounts => vec![set],
            Folders::First { set, accounts } => vec![set, accounts],
            Folders::Second(folder) => vec![folder],
        }
    }

    fn time(&self) -> anyhow::Result<ProcessorTime> {
        let read = |folder: &Path, name: &str| fs::read_to_string(folder.join(name)).with_context(|| name.to_owned());
        let time = match self {
            Folders::First { accounts, .. } => {
                first_time(&read(accounts, "cpuacct.usage")?, &read(accounts, "cpuacct.stat")?)
            }
            Folders::Second(folder) => second_time(&read(folder, "cpu.stat")?),
        };
        time.context("the kernel gives no processor time")
    }

    /// Removes the folders. Processes in them move to the folders above.
    fn remove(&self) {
        for folder in self.each() {
            let outside = folder.parent().map(|parent| parent.join("cgroup.procs")).unwrap_or_default();
            // Processes start others meanwhile, and one that ends stays for a moment.
            for _ in 0..REMOVALS_MAX {
                for pid in fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default().lines() {
                    // A process that has ended meanwhile is out.
                    let _ = fs::write(&outside, pid);
                }
                match fs::remove_dir(folder) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(REMOVAL_PAUSE),
                    Ok(()) | Err(_) => break,
                }
            }
        }
    }
}

/// Returns the time from `cpuacct.usage`, in nanoseconds, and `cpuacct.stat`, which has the kernel's part.
fn first_time(usage: &str, stat: &str) -> Option<ProcessorTime> {
    let ticks = stat.lines().find_map(|line| line.strip_prefix("system "))?.trim().parse::<f64>().ok()?;
    let all_s = usage.trim().parse::<f64>().ok()? / 1e9;
    Some(ProcessorTime { all_s, kernel_s: (ticks / TICKS_PER_S).min(all_s) })
}

/// Returns the time from `cpu.stat`.
fn second_time(stat: &str) -> Option<ProcessorTime> {
    let of = |name: &str| {
        let value = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        value.trim().parse::<f64>().ok().map(|us| us / 1e6)
    };
    Some(ProcessorTime { all_s: of("usage_usec")?, kernel_s: of("system_usec")? })
}

/// Removes groups of runs that were killed.
fn sweep() {
    for parent in ["cpuset", "cpuacct", ""].into_iter().filter_map(own_group) {
        for entry in fs::read_dir(&parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner =
                name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
            if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
                // The kernel refuses it for groups with processes.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_both_versions_are_read() {
        let first = first_time("12500000000\n", "user 1000\nsystem 250\n");
        assert_eq!(first, Some(ProcessorTime { all_s: 12.5, kernel_s: 2.5 }));
        let second = second_time("usage_usec 12500000\nuser_usec 10000000\nsystem_usec 2500000\nnr_periods 0\n");
        assert_eq!(second, first);
        assert_eq!((first_time("", "system 1"), second_time("usage_usec 1")), (None, None));
    }

    #[test]
    fn a_group_has_the_time_of_a_process_that_has_ended() {
        // The machine may have no groups; the reason is told then.
        let Ok(group) = SideGroup::create("test", preempt::os::cpus()[0]) else { return };
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "read line; for i in $(seq 20000); do :; done"]).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().expect("a shell");
        group.take_tree(child.id()).expect("it is alive");
        let before = group.folders.time().expect("it has a time");
        drop(child.stdin.take());
        child.wait().expect("it ends");
        let used = group.folders.time().expect("it has a time").since(before);
        assert!(0.001 < used.all_s && used.kernel_s <= used.all_s + 0.01, "{used:?}");
        let folders: Vec<PathBuf> = group.folders.each().into_iter().map(Path::to_path_buf).collect();
        drop(group);
        assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
    }
}
