//! Server process at the other end of a connection, if it is on this host, as `/proc` describes it.
//!
//! **Invariant:** a process is taken for a connection's own only if there is evidence beside its number, because a
//! server that is elsewhere, in another PID namespace, or no PostgreSQL at all, sends a number as well. For TCP the
//! evidence is its title, in which PostgreSQL writes the address and port of its client; for a unix socket its parent,
//! which is the listening process.

use std::fs;
use std::net::{IpAddr, UdpSocket};
use wire::io::Peer;

/// Process of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// User that owns it.
    pub(crate) user: u32,
    pub(crate) stat: Stat,
    /// Highest priority, as a nice value, that it may be given without a special right.
    pub(crate) nice_min: i32,
    /// Number of processors that it may use.
    pub(crate) processors: Option<u32>,
    /// True if the kernel treats its session as a group of its own, in which case its nice value has no effect outside
    /// the group.
    pub(crate) is_autogrouped: bool,
}

/// Fields of `/proc/PID/stat` that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) parent: i32,
    pub(crate) nice: i32,
    /// Start time in ticks since the host began, which distinguishes it from a later process of the same number.
    pub(crate) began: u64,
    /// Processor time that it has had, in ticks.
    pub(crate) used: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Stat> {
        // The name may contain anything, parentheses too.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Stat {
            parent: fields.get(1)?.parse().ok()?,
            nice: fields.get(16)?.parse().ok()?,
            began: number(19)?,
            used: number(11)? + number(12)?,
        })
    }

    /// Reads the fields of a process; `None` if there is none.
    pub(crate) fn of(pid: i32) -> Option<Stat> {
        Stat::parse(&read(pid, "stat")?)
    }
}

fn read(pid: i32, name: &str) -> Option<String> {
    // A title may be in any encoding.
    fs::read(format!("/proc/{pid}/{name}")).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Words of a line `Name: first second ...`.
fn line<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.split_whitespace().collect()))
}

impl Process {
    /// Returns the process of this number that serves this connection, if it is on this host and visible.
    pub(crate) fn serving(peer: Peer, pid: i32) -> Option<Process> {
        let stat = Stat::of(pid)?;
        let (title, status) = (read(pid, "cmdline")?, read(pid, "status")?);
        let is_it = match peer {
            Peer::Tcp { ours, theirs } => is_here(theirs.ip()) && is_titled(&title, ours.port()),
            // The listener has a number here. So this process must be visible as well, and in no inner namespace.
            Peer::Unix(listener) => {
                listener == Some(stat.parent)
                    && title.contains("postgres")
                    && line(&status, "NSpid:").is_none_or(|pids| pids.len() == 1)
            }
            Peer::Unknown => false,
        };
        if !is_it {
            return None;
        }
        let user = line(&status, "Uid:")?.first()?.parse().ok()?;
        let nice_min = nice_min(&read(pid, "limits").unwrap_or_default());
        let is_autogrouped = has_autogroups() && is_in_root_group(&read(pid, "cgroup").unwrap_or_default());
        let processors = line(&status, "Cpus_allowed_list:").and_then(|words| count(words.first()?));
        Some(Process { pid, user, stat, nice_min, processors, is_autogrouped })
    }

    /// True if the process still exists, and its number is not another one's.
    pub(crate) fn is_there(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.began == self.stat.began)
    }
}

/// True if an address is one of this host's: only then can a socket be bound to it.
fn is_here(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// True for a title `postgres: user database 127.0.0.1(43210) idle` with this port.
fn is_titled(title: &str, port: u16) -> bool {
    title.starts_with("postgres") && title.contains(&format!("({port})"))
}

/// Number of processors in a list `0-3,8`.
fn count(list: &str) -> Option<u32> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(last.parse::<u32>().ok()?.checked_sub(first.parse().ok()?)? + 1)
    };
    list.split(',').map(part).sum()
}

/// Lowest nice value by the soft limit of `Max nice priority`, from 1, which is nice 19, to 40.
fn nice_min(limits: &str) -> i32 {
    let soft = line(limits, "Max nice priority").and_then(|words| words.first().copied());
    match soft {
        Some("unlimited") => -20,
        soft => 20 - soft.and_then(|soft| soft.parse().ok()).unwrap_or(0),
    }
}

fn has_autogroups() -> bool {
    fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").is_ok_and(|text| text.trim() == "1")
}

/// True if a process is in no control group of processors but the outermost; the kernel makes autogroups of no others.
fn is_in_root_group(groups: &str) -> bool {
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        if controllers.split(',').any(|controller| controller == "cpu") {
            return path == "/";
        }
    }
    // In version 2, the innermost group that has the controller counts.
    let path = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let mut at = Some(path.trim_end_matches('/'));
    while let Some(path) = at.filter(|path| !path.is_empty()) {
        if fs::exists(format!("/sys/fs/cgroup{path}/cpu.weight")).unwrap_or(false) {
            return false;
        }
        at = path.rsplit_once('/').map(|(outer, _)| outer);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr};

    #[test]
    fn a_stat_is_read_past_any_name() {
        let text = "57 (postgres: a) b) S 12 57 57 0 -1 4194560 1 0 0 0 30 12 0 0 25 5 1 0 98765 1 2 3";
        assert_eq!(Stat::parse(text), Some(Stat { parent: 12, nice: 5, began: 98_765, used: 42 }));
        assert_eq!(Stat::parse("57 (postgres"), None);
        let own = i32::try_from(std::process::id()).expect("a number");
        assert!(Stat::of(own).is_some_and(|stat| 0 < stat.began && 0 < stat.parent));
    }

    #[test]
    fn titles_name_the_client() {
        assert!(is_titled("postgres: postgres shop 127.0.0.1(42102) idle", 42_102));
        assert!(is_titled("postgres: main: postgres shop ::1(42102) SELECT", 42_102));
        assert!(!is_titled("postgres: postgres shop 127.0.0.1(4210) idle", 42_102));
        assert!(!is_titled("pgbouncer (42102)", 42_102));
    }

    #[test]
    fn limits_are_nice_values() {
        let limits = |soft: &str| format!("Limit  Soft Limit  Hard Limit  Units\nMax nice priority   {soft}   0   \n");
        for (soft, nice) in [("0", 20), ("1", 19), ("20", 0), ("40", -20), ("unlimited", -20)] {
            assert_eq!(nice_min(&limits(soft)), nice, "{soft}");
        }
        assert_eq!(nice_min(""), 20);
    }

    #[test]
    fn processors_are_counted() {
        for (list, wanted) in [("0", Some(1)), ("0-1", Some(2)), ("0-3,8,10-11", Some(7)), ("", None), ("3-1", None)] {
            assert_eq!(count(list), wanted, "{list}");
        }
    }

    #[test]
    fn groups_of_processors_are_told() {
        assert!(is_in_root_group("9:name=systemd:/x\n1:cpu,cpuacct:/\n0::/x"));
        assert!(!is_in_root_group("2:cpuacct:/\n1:cpu:/helpers\n0::/"));
        assert!(is_in_root_group("0::/"));
        assert!(is_in_root_group("0::/no/such/group"));
    }

    #[test]
    fn nobody_is_taken_for_a_server_process_by_its_number() {
        let own = i32::try_from(std::process::id()).expect("a number");
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let tcp = Peer::Tcp { ours: address(1), theirs: address(2) };
        for peer in [Peer::Unknown, tcp, Peer::Unix(Stat::of(own).map(|stat| stat.parent)), Peer::Unix(None)] {
            assert_eq!(Process::serving(peer, own), None, "{peer:?}");
        }
        assert!(is_here(Ipv4Addr::LOCALHOST.into()) && !is_here(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
