//! Control groups of containers.
//!
//! **Invariant:** a group belongs to one worker, and is removed after its process has been reaped. Its folders are
//! locked meanwhile, so that another server does not remove it.

use crate::lock::{locked, locked_new};
use crate::system;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Greatest number of processes and threads of a worker.
pub(crate) const TASKS_MAX: u64 = 64;

/// Folder at which the hierarchies are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// Begin of the names of groups.
const PREFIX: &str = "overtake-";
/// Greatest number of names that are tried for a group.
const NAMES_MAX: u32 = 1_000;

/// Folders below which this process may create groups.
#[derive(Clone, Debug)]
pub(crate) enum Groups {
    /// Version 1: folders of the controllers `memory` and `pids`.
    First(Arc<[PathBuf; 2]>),
    /// Version 2.
    Second(Arc<Path>),
}

/// Group of one worker.
#[derive(Debug)]
pub(crate) struct Group {
    folders: Vec<PathBuf>,
    /// Locks of the folders.
    locks: Vec<File>,
    is_second: bool,
}

/// Returns the path of this process's group within a hierarchy, from `/proc/self/cgroup`.
fn own_path(text: &str, controller: &str) -> Option<String> {
    let line =
        text.lines().find(|line| line.split(':').nth(1).is_some_and(|all| all.split(',').any(|one| one == controller)));
    line?.splitn(3, ':').nth(2).map(|path| path.trim_start_matches('/').to_owned())
}

/// Returns the folder of this process's group; the root of the hierarchy if another root is mounted.
fn own_folder(root: &str, path: &str) -> PathBuf {
    let own = Path::new(root).join(path);
    if own.is_dir() { own } else { PathBuf::from(root) }
}

/// Returns the folder of this process's control group: of a controller of version 1, or of version 2 if the name is
/// empty. `None` if there is no such hierarchy.
pub fn own_group(controller: &str) -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let root = if controller.is_empty() { ROOT.to_owned() } else { format!("{ROOT}/{controller}") };
    Some(own_folder(&root, &own_path(&text, controller)?)).filter(|folder| folder.join("cgroup.procs").is_file())
}

/// Returns true if this process can create groups of either version, so that its workers have their limits by them.
pub fn has_groups() -> bool {
    Groups::find().is_some()
}

impl Groups {
    /// Returns the folders in which this process can create groups that limit; `None` if there are none.
    pub(crate) fn find() -> Option<Groups> {
        let text = fs::read_to_string("/proc/self/cgroup").ok()?;
        let groups = Groups::second(&text).or_else(|| Groups::first(&text))?;
        groups.sweep();
        // Created and removed once, so that a refusal is known before a worker needs it.
        let probe = groups.create(1 << 20, TASKS_MAX).ok()?;
        probe.remove().ok()?;
        Some(groups)
    }

    fn second(text: &str) -> Option<Groups> {
        let folder = own_folder(ROOT, &own_path(text, "")?);
        let controllers = fs::read_to_string(folder.join("cgroup.subtree_control")).ok()?;
        let has = |name| controllers.split_whitespace().any(|one| one == name);
        (has("memory") && has("pids")).then(|| Groups::Second(folder.into()))
    }

    fn first(text: &str) -> Option<Groups> {
        let folder = |name: &str| Some(own_folder(&format!("{ROOT}/{name}"), &own_path(text, name)?));
        Some(Groups::First(Arc::new([folder("memory")?, folder("pids")?])))
    }

    fn parents(&self) -> Vec<&Path> {
        match self {
            Groups::First(parents) => parents.iter().map(PathBuf::as_path).collect(),
            Groups::Second(parent) => vec![parent],
        }
    }

    /// Removes the groups of servers that have ended without a chance to do so. The kernel refuses it for groups with
    /// processes.
    fn sweep(&self) {
        for entry in self.parents().into_iter().filter_map(|parent| fs::read_dir(parent).ok()).flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
            let is_ours = owner.is_some_and(|owner| owner.parse::<u32>().is_ok());
            if let Some(_lock) = is_ours.then(|| locked(&entry.path())).flatten() {
                let _ = fs::remove_dir(entry.path());
            }
        }
    }

    /// Creates a group with this memory in bytes, and this number of processes and threads.
    pub(crate) fn create(&self, memory: u64, tasks: u64) -> io::Result<Group> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut group = Group::new(matches!(self, Groups::Second(_)));
        let mut tries = 0;
        while let Err(error) = group.make(&self.parents(), NUMBER.fetch_add(1, Relaxed)) {
            let _ = group.remove();
            group = Group::new(group.is_second);
            tries += 1;
            // A server that had the number of this process, or has it in another namespace, may have such a group.
            if error.kind() != io::ErrorKind::AlreadyExists || NAMES_MAX <= tries {
                return Err(error);
            }
        }
        match group.limit(memory, tasks) {
            Ok(()) => Ok(group),
            Err(error) => {
                let _ = group.remove();
                Err(error)
            }
        }
    }
}

impl Group {
    fn new(is_second: bool) -> Group {
        Group { folders: Vec::new(), locks: Vec::new(), is_second }
    }

    /// Returns the folder of the controller of memory.
    fn memory(&self) -> &Path {
        self.folders.first().map_or(Path::new("/nonexistent"), PathBuf::as_path)
    }

    /// Creates and locks the folders of the group of this number.
    fn make(&mut self, parents: &[&Path], number: u64) -> io::Result<()> {
        for parent in parents {
            let folder = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            fs::create_dir(&folder)?;
            let lock = locked_new(&folder);
            self.folders.push(folder);
            // Another server has it, to remove it.
            self.locks.push(lock.ok_or(io::ErrorKind::AlreadyExists)?);
        }
        Ok(())
    }

    fn limit(&self, memory: u64, tasks: u64) -> io::Result<()> {
        let (memory, tasks) = (memory.to_string(), tasks.to_string());
        if self.is_second {
            fs::write(self.memory().join("memory.max"), memory)?;
            // Not all kernels account for swap.
            let _ = fs::write(self.memory().join("memory.swap.max"), "0");
            return fs::write(self.memory().join("pids.max"), tasks);
        }
        fs::write(self.memory().join("memory.limit_in_bytes"), &memory)?;
        let _ = fs::write(self.memory().join("memory.memsw.limit_in_bytes"), memory);
        self.folders.get(1).map_or(Ok(()), |pids| fs::write(pids.join("pids.max"), tasks))
    }

    /// Puts a process into the group.
    pub(crate) fn add(&self, process: i32) -> io::Result<()> {
        self.folders.iter().try_for_each(|folder| fs::write(folder.join("cgroup.procs"), process.to_string()))
    }

    /// Returns true if the kernel has killed a process of the group for its memory.
    pub(crate) fn was_out_of_memory(&self) -> bool {
        let name = if self.is_second { "memory.events" } else { "memory.oom_control" };
        let text = fs::read_to_string(self.memory().join(name)).unwrap_or_default();
        let killed = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        killed.is_some_and(|count| count.trim() != "0")
    }

    /// Returns the numbers of the processes in the group.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.memory().join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Kills all processes of the group, also those that have left the session of its worker.
    pub(crate) fn kill(&self) {
        for number in self.processes() {
            // The number may be another process's by now, but not once the descriptor is open and it is still listed.
            if let Ok(process) = system::process(number)
                && self.processes().contains(&number)
            {
                system::kill(&process);
            }
        }
    }

    /// Removes the group, whose worker has been reaped. Fails as long as a process of the group has not ended.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.kill();
        let mut result = Ok(());
        for folder in &self.folders {
            match fs::remove_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => result = Err(error),
                _ => {}
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found() {
        let text = "9:name=systemd:/a\n4:cpu,memory:/b/c\n0::/d:e\n";
        assert_eq!(own_path(text, "memory").as_deref(), Some("b/c"));
        assert_eq!(own_path(text, "").as_deref(), Some("d:e"));
        assert_eq!(own_path(text, "pids"), None);
    }

    /// Goal: a server removes the groups of those that were killed, whatever their numbers were, and no others. Method:
    /// folders in the place of the kernel's.
    #[test]
    fn groups_of_killed_servers_are_removed() {
        let own = std::process::id();
        let base = std::env::temp_dir().join(format!("overtake-groups-{own}"));
        let parents = ["memory", "pids"].map(|name| base.join(name));
        let groups = Groups::First(Arc::new(parents.clone()));
        // A process has the number of the second, as it may be that of a killed server in another namespace.
        let named = |name: &str| parents.each_ref().map(|parent| parent.join(name));
        let [left, other, foreign] = ["overtake-4194304-0", "overtake-other-0", "overtake-4194304-1"].map(named);
        let numbered = named(&format!("overtake-{own}-7"));
        for folder in [&left, &numbered, &other, &foreign].into_iter().flatten() {
            fs::create_dir_all(folder).expect("a folder");
        }
        let _locks = foreign.each_ref().map(|folder| locked(folder).expect("nobody else has it"));
        let mut live = Group::new(false);
        live.make(&groups.parents(), 8).expect("a group");
        groups.sweep();
        let are_there = |folders: &[PathBuf]| folders.iter().map(|folder| folder.exists()).collect::<Vec<_>>();
        assert_eq!([&left, &numbered].map(|folders| are_there(folders)), [[false; 2], [false; 2]]);
        assert_eq!([&other, &foreign].map(|folders| are_there(folders)), [[true; 2], [true; 2]]);
        assert_eq!(are_there(&live.folders), [true; 2]);
        live.remove().expect("removed");
        assert_eq!(are_there(&live.folders), [false; 2]);
        fs::remove_dir_all(&base).expect("removed");
    }
}
