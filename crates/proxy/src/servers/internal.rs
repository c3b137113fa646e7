//! Internal priorities: the server process that runs a transaction of class `low` has the lowest processor priority
//! meanwhile (Schroeder et al., section 5.2), and so has one whose transaction the gate demotes to that.
//!
//! Two values decide the share of a process: its nice value; and, where the kernel makes a group of each session
//! (autogroups, and every server process is a session), the group's, beside which the first has no effect. Both are set
//! then.
//!
//! **Invariant:** a process is lowered only if it is known to be the connection's own, and if its former priority can
//! be restored. The priority is restored before a transaction of another class, or a question of the proxy's own, is
//! sent to the process; a while after its connection went to the pool; and when the connection is closed. A transaction
//! of class `low` behind another one costs nothing.

use crate::servers::process::Process;
use crate::servers::server_conn::ServerConn;
use rustix::process::{Pid, geteuid, setpriority_process};
use stage::Class;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use wire::io::Peer;

/// Nice value of processes that run only when nothing else wants to.
const LOWEST: i32 = 19;
/// Bits of `CapEff`.
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_SYS_NICE: u64 = 1 << 23;

/// Rights of this process over other processes.
#[derive(Clone, Copy, Debug)]
struct ProcessRights {
    user: u32,
    /// Capabilities that count on the host itself: in a user namespace none do.
    capabilities: u64,
}

/// Reason why a process keeps its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FixedReason {
    NotHere,
    /// The process belongs to this user.
    OtherUser(u32),
    /// The old priority could not be restored.
    NoWayBack,
    /// The autogroup may be changed ten times a second only.
    Autogroup,
}

/// Priority control of the process of one connection.
#[derive(Debug, Default)]
pub(crate) enum PriorityControl {
    /// The priority cannot be changed, or is not to be.
    #[default]
    Fixed,
    At(Box<ControlledProcess>),
}

/// Process whose priority can be changed.
#[derive(Debug)]
pub(crate) struct ControlledProcess {
    process: Process,
    /// Autogroup of the process, if that counts, and the group's original value.
    autogroup: Option<(File, i32)>,
    is_lowered: bool,
}

/// Setting of the processor priority of server processes.
#[derive(Debug)]
pub(crate) struct Internal {
    is_on: bool,
    rights: ProcessRights,
    was_told: AtomicBool,
}

impl ProcessRights {
    fn of_this_process() -> ProcessRights {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let users = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        ProcessRights { user: geteuid().as_raw(), capabilities: capabilities(&status, &users) }
    }

    fn has(&self, capability: u64) -> bool {
        self.capabilities & capability != 0
    }

    /// Checks that the rights suffice to lower this process, and to restore its priority.
    fn suffice(&self, process: &Process) -> Result<(), FixedReason> {
        if self.has(CAP_SYS_NICE) {
        } else if self.user != process.user {
            return Err(FixedReason::OtherUser(process.user));
        } else if process.stat.nice < process.nice_min {
            return Err(FixedReason::NoWayBack);
        }
        if process.is_autogrouped && !self.has(CAP_SYS_ADMIN) { Err(FixedReason::Autogroup) } else { Ok(()) }
    }
}

fn capabilities(status: &str, users: &str) -> u64 {
    let is_host: Vec<&str> = users.split_whitespace().collect();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    if is_host == ["0", "0", "4294967295"] { bits } else { 0 }
}

impl fmt::Display for FixedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FixedReason::NotHere => f.write_str(
                "the server is not on this host, or its processes cannot be seen or told from here; \
                 overtake.internal_priorities = off says that nothing is to be done",
            ),
            FixedReason::OtherUser(user) => write!(
                f,
                "its processes belong to user {user}: give this one CAP_SYS_NICE \
                 (AmbientCapabilities=CAP_SYS_NICE, or setcap cap_sys_nice+ep on the program)",
            ),
            FixedReason::NoWayBack => f.write_str(
                "what a process had could not be given back: give this one CAP_SYS_NICE, or the server a limit of nice values \
                 (LimitNICE=20 in its unit, ulimit -e 20 before its start)",
            ),
            FixedReason::Autogroup => f.write_str(
                "the kernel makes a group of each server process, which may be changed ten times a second only: set \
                 kernel.sched_autogroup_enabled = 0, or give this one CAP_SYS_ADMIN",
            ),
        }
    }
}

impl Internal {
    pub(crate) fn new(is_on: bool) -> Internal {
        Internal { is_on, rights: ProcessRights::of_this_process(), was_told: AtomicBool::new(false) }
    }

    /// Returns the priority control for the process that serves a new connection. The files are read on a blocking
    /// thread.
    pub(crate) async fn lever(self: &Arc<Internal>, peer: Peer, pid: i32) -> PriorityControl {
        if !self.is_on {
            return PriorityControl::Fixed;
        }
        let own = Arc::clone(self);
        tokio::task::spawn_blocking(move || own.find(peer, pid)).await.unwrap_or_default()
    }

    fn find(&self, peer: Peer, pid: i32) -> PriorityControl {
        let found = Process::serving(peer, pid).ok_or(FixedReason::NotHere);
        match found.and_then(|process| self.rights.suffice(&process).map(|()| process)) {
            Ok(process) => PriorityControl::At(Box::new(ControlledProcess::new(process))),
            Err(why) => {
                self.tell(why);
                PriorityControl::Fixed
            }
        }
    }

    /// Sets the priority for a transaction of this class that begins on a connection.
    pub(crate) fn begins(&self, server: &mut ServerConn, class: Class) {
        if !self.is_on {
            return;
        }
        match class {
            Class::Low => server.line.lever().lower(),
            Class::High | Class::Normal => server.line.lever().release(),
        }
    }

    /// Logs the reason, once.
    fn tell(&self, why: FixedReason) {
        if !self.was_told.swap(true, Relaxed) {
            tracing::warn!("server processes keep their processor priority under overtake.internal_priorities: {why}");
        }
    }
}

impl PriorityControl {
    /// Lowers the process, so that it runs when nothing else wants to.
    pub(crate) fn lower(&mut self) {
        if let PriorityControl::At(grip) = self
            && !grip.is_lowered
        {
            grip.is_lowered = true;
            if let Err(error) = grip.set(LOWEST, LOWEST) {
                grip.failed(&error);
            }
        }
    }

    /// Restores the priority of the process.
    pub(crate) fn release(&mut self) {
        if let PriorityControl::At(grip) = self {
            grip.release();
        }
    }
}

impl ControlledProcess {
    fn new(process: Process) -> ControlledProcess {
        let autogroup = process.is_autogrouped.then(|| autogroup(process.pid)).flatten();
        ControlledProcess { process, autogroup, is_lowered: false }
    }

    fn set(&mut self, nice: i32, group: i32) -> io::Result<()> {
        setpriority_process(Pid::from_raw(self.process.pid), nice)?;
        if let Some((file, _)) = &mut self.autogroup {
            file.write_all(group.to_string().as_bytes())?;
        }
        Ok(())
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.is_lowered) {
            let group = self.autogroup.as_ref().map_or(0, |(_, own)| *own);
            if let Err(error) = self.set(self.process.stat.nice, group) {
                self.failed(&error);
            }
        }
    }

    fn failed(&self, error: &io::Error) {
        // The process may have ended in between; then there is nothing to report.
        if self.process.is_there() {
            tracing::warn!(%error, pid = self.process.pid, "the priority of a server process could not be changed");
        }
    }
}

impl Drop for ControlledProcess {
    fn drop(&mut self) {
        // The connection may be closed because the process has died, and its number may be another one's.
        if self.is_lowered && self.process.is_there() {
            self.release();
        }
    }
}

/// Autogroup of a process with its nice value, from a line `/autogroup-67521 nice 0`.
fn autogroup(pid: i32) -> Option<(File, i32)> {
    let path = format!("/proc/{pid}/autogroup");
    let text = fs::read_to_string(&path).ok()?;
    let own = text.trim().rsplit(' ').next()?.parse().ok()?;
    Some((File::options().write(true).open(path).ok()?, own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::process::Stat;
    use std::process::Command;

    fn process(change: impl FnOnce(&mut Process)) -> Process {
        let stat = Stat { parent: 1, nice: 0, began: 1, used: 0 };
        let mut process = Process { pid: 7, user: 101, stat, nice_min: 20, processors: None, is_autogrouped: false };
        change(&mut process);
        process
    }

    #[test]
    fn nothing_is_taken_that_cannot_be_given_back() {
        let plain = ProcessRights { user: 101, capabilities: 0 };
        let other = ProcessRights { user: 102, capabilities: 0 };
        let nice = ProcessRights { user: 102, capabilities: CAP_SYS_NICE };
        let root = ProcessRights { user: 0, capabilities: CAP_SYS_NICE | CAP_SYS_ADMIN };
        let usual = process(|_| {});
        assert_eq!(plain.suffice(&usual), Err(FixedReason::NoWayBack));
        assert_eq!(other.suffice(&usual), Err(FixedReason::OtherUser(101)));
        assert_eq!(nice.suffice(&usual), Ok(()));
        // No capability is needed if the limits of the server let its processes regain their priority.
        assert_eq!(plain.suffice(&process(|it| it.nice_min = 0)), Ok(()));
        assert_eq!(plain.suffice(&process(|it| it.nice_min = 1)), Err(FixedReason::NoWayBack));
        assert_eq!(plain.suffice(&process(|it| (it.nice_min, it.stat.nice) = (15, 15))), Ok(()));
        let grouped = process(|it| (it.nice_min, it.is_autogrouped) = (0, true));
        assert_eq!(plain.suffice(&grouped), Err(FixedReason::Autogroup));
        assert_eq!(nice.suffice(&grouped), Err(FixedReason::Autogroup));
        assert_eq!(root.suffice(&grouped), Ok(()));
    }

    #[test]
    fn a_process_and_its_group_are_lowered_and_have_their_own_again() {
        let rights = ProcessRights::of_this_process();
        let mut child = Command::new("setsid").args(["sleep", "60"]).spawn().expect("a process");
        let pid = i32::try_from(child.id()).expect("a number");
        // The process has a session, and so a group, of its own before it becomes the other program.
        let name = || fs::read_to_string(format!("/proc/{pid}/comm")).expect("it is there");
        while name() != "sleep\n" {
            std::thread::yield_now();
        }
        let group = || fs::read_to_string(format!("/proc/{pid}/autogroup")).unwrap_or_default();
        let is_grouped = !group().is_empty();
        let found = process(|it| {
            (it.pid, it.is_autogrouped, it.user) = (pid, is_grouped, rights.user);
            it.stat = Stat::of(pid).expect("it is there");
        });
        let nice = || Stat::of(pid).map(|stat| stat.nice);
        if rights.suffice(&found).is_ok() {
            let before = (nice(), group());
            let mut lever = PriorityControl::At(Box::new(ControlledProcess::new(found)));
            lever.lower();
            assert_eq!(nice(), Some(LOWEST));
            assert!(!is_grouped || group().ends_with("nice 19\n"), "{}", group());
            lever.release();
            assert_eq!((nice(), group()), before);
            lever.lower();
            drop(lever);
            assert_eq!((nice(), group()), before);
        } else {
            assert!(
                std::env::var_os("OVERTAKE_CI").is_none(),
                "without the right to lower a process and to raise it again"
            );
            println!("SKIPPED in part: without the right to lower a process and to raise it again");
        }
        child.kill().and_then(|()| child.wait()).expect("it ends");
    }

    #[test]
    fn capabilities_count_on_the_host_only() {
        let status = "Name:\tovertake\nCapEff:\t0000000000a00000\n";
        let host = "         0          0 4294967295\n";
        assert_eq!(capabilities(status, host), CAP_SYS_NICE | CAP_SYS_ADMIN);
        assert_eq!(capabilities(status, "         0     100000      65536\n"), 0);
        assert_eq!(capabilities("", host), 0);
    }

    #[test]
    fn what_is_missing_is_said_with_what_to_grant() {
        for (why, word) in [
            (FixedReason::NotHere, "internal_priorities = off"),
            (FixedReason::OtherUser(101), "user 101"),
            (FixedReason::NoWayBack, "LimitNICE=20"),
            (FixedReason::Autogroup, "sched_autogroup_enabled = 0"),
        ] {
            assert!(why.to_string().contains(word), "{why}");
        }
    }
}
