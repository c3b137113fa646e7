//! The work of the host and the kernel during a phase, beside the client's latencies: the part of a latency that no
//! server causes.
//!
//! Two bare sleepers, one in the real-time class where that is allowed and an ordinary one, wake at a fixed pace and do
//! next to nothing. Their lateness is the machine's own: no server could have answered sooner. (The kernel lets an
//! ordinary thread sleep 50 µs longer than it asks for.) The counters are those of the threads named `network`, which
//! read from clients and run short statements.
//!
//! **Invariant:** nothing here is derived from the client's latencies; a counter that the kernel does not show is
//! absent, not 0.

use super::super::servers::MeasuredServer;
use crate::background::Background;
use preempt::os;
use stage::Histogram;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Time from one waking of a sleeper to the next.
const PERIOD: Duration = Duration::from_millis(2);
/// Priority of the sleeper, above the urgent client's.
const PRIORITY: i32 = 30;
/// Number of the system call `futex` on x86-64, in which a thread waits for a mutex or a latch.
const FUTEX: &[u8] = b"202 ";

/// Watch over one phase.
pub struct HostWatch {
    before: KernelCounters,
    threads: Arc<Vec<ServerThread>>,
    ordinary: Background<Slept>,
    realtime: Option<Background<Slept>>,
}

/// Observations of a watch.
#[derive(Clone, Debug, Default)]
pub struct HostSample {
    /// Lateness of an ordinary thread's waking.
    pub sleeper: Histogram,
    /// Lateness of the waking of a thread in the real-time class.
    pub realtime_sleeper: Option<Histogram>,
    /// Share of all processors' time that the hypervisor gave to others.
    pub steal: Option<f64>,
    /// Server's threads that read from clients.
    pub network: Option<NetworkSample>,
}

/// Counters of the network threads during a phase, all together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkSample {
    /// Microseconds that a thread was ready and had no processor, per time that it got one.
    pub delay_us: f64,
    /// Number of times per second that another thread took the processor from one.
    pub taken_per_s: f64,
    /// Page faults per second.
    pub faults_per_s: f64,
    /// Share of the time in which a thread slept for a mutex or a latch, by samples.
    pub locked: Option<f64>,
}

/// Thread of the server.
struct ServerThread {
    schedstat: File,
    status: File,
    stat: File,
    /// File of the system call in which the thread is.
    syscall: Option<File>,
}

/// Counters of the kernel so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct KernelCounters {
    at_ns: u64,
    steal: u64,
    total: u64,
    waited_ns: u64,
    runs: u64,
    taken: u64,
    faults: u64,
}

/// Observations of a sleeper.
#[derive(Clone, Debug, Default)]
struct Slept {
    late: Histogram,
    samples: u64,
    locked: u64,
    is_realtime: bool,
}

impl HostWatch {
    /// Begins to watch a server's threads, if the server is on this machine, and the host.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(target: &MeasuredServer) -> anyhow::Result<HostWatch> {
        let pid = target.processes().map(super::super::processes::Processes::parent);
        let threads = Arc::new(pid.map(threads).unwrap_or_default());
        let looked_at = Arc::clone(&threads);
        let ordinary = Background::start("sleeper", move |is_over| Ok(sleep(is_over, &looked_at)))?;
        let realtime = os::realtime_allowed().then(|| {
            Background::start("sleeper-rt", |is_over| {
                let is_realtime = os::set_realtime(PRIORITY).is_ok();
                Ok(Slept { is_realtime, ..sleep(is_over, &[]) })
            })
        });
        Ok(HostWatch { before: KernelCounters::read(&threads), threads, ordinary, realtime: realtime.transpose()? })
    }

    /// Ends the watch and returns its observations.
    ///
    /// # Errors
    /// If a sleeper panicked.
    pub fn stop(self) -> anyhow::Result<HostSample> {
        let after = KernelCounters::read(&self.threads);
        let slept = self.ordinary.stop()?;
        let realtime = self.realtime.map(Background::stop).transpose()?;
        let can_sample = 0 < slept.samples;
        let locked = can_sample.then(|| slept.locked as f64 / slept.samples as f64);
        Ok(HostSample {
            sleeper: slept.late,
            realtime_sleeper: realtime.filter(|slept| slept.is_realtime).map(|slept| slept.late),
            steal: self.before.steal(&after),
            network: (!self.threads.is_empty()).then(|| self.before.network(&after, locked)),
        })
    }
}

/// Wakes at a fixed pace, and samples the state of the threads.
fn sleep(is_over: &AtomicBool, threads: &[ServerThread]) -> Slept {
    let mut slept = Slept::default();
    let mut due_ns = os::now_ns();
    while !is_over.load(SeqCst) {
        due_ns += PERIOD.as_nanos() as u64;
        loop {
            let left = due_ns.saturating_sub(os::now_ns());
            if left == 0 || is_over.load(SeqCst) {
                break;
            }
            std::thread::sleep(Duration::from_nanos(left));
        }
        slept.late.record_ns(os::now_ns().saturating_sub(due_ns));
        // A late sleeper skips the wakings that it has missed: otherwise one wait would count many times.
        due_ns = due_ns.max(os::now_ns().saturating_sub(PERIOD.as_nanos() as u64));
        for syscall in threads.iter().filter_map(|thread| thread.syscall.as_ref()) {
            let mut bytes = [0; 16];
            if let Ok(count) = syscall.read_at(&mut bytes, 0) {
                slept.samples += 1;
                slept.locked += u64::from(bytes[..count].starts_with(FUTEX));
            }
        }
    }
    slept
}

/// Returns the threads of this process that read from clients.
fn threads(pid: u32) -> Vec<ServerThread> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let open = |task: fs::DirEntry| {
        let file = |name: &str| File::open(task.path().join(name)).ok();
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        if !name.starts_with("network") {
            return None;
        }
        let (schedstat, status, stat) = (file("schedstat")?, file("status")?, file("stat")?);
        let syscall = file("syscall").filter(|file| file.read_at(&mut [0; 16], 0).is_ok());
        Some(ServerThread { schedstat, status, stat, syscall })
    };
    tasks.flatten().filter_map(open).collect()
}

impl KernelCounters {
    fn read(threads: &[ServerThread]) -> KernelCounters {
        let mut counters = KernelCounters { at_ns: os::now_ns(), ..KernelCounters::default() };
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        (counters.steal, counters.total) = steal_of(&text).unwrap_or_default();
        for thread in threads {
            let text = |file: &File| {
                let mut bytes = [0; 4_096];
                let count = file.read_at(&mut bytes, 0).unwrap_or(0);
                String::from_utf8_lossy(&bytes[..count]).into_owned()
            };
            let (waited_ns, runs) = schedstat_of(&text(&thread.schedstat)).unwrap_or_default();
            counters.waited_ns += waited_ns;
            counters.runs += runs;
            counters.taken += taken_of(&text(&thread.status)).unwrap_or_default();
            counters.faults += faults_of(&text(&thread.stat)).unwrap_or_default();
        }
        counters
    }

    /// Returns the share that the hypervisor took between the two readings.
    fn steal(&self, after: &KernelCounters) -> Option<f64> {
        let total = after.total.checked_sub(self.total).filter(|total| 0 < *total)?;
        Some(after.steal.saturating_sub(self.steal) as f64 / total as f64)
    }

    fn network(&self, after: &KernelCounters, locked: Option<f64>) -> NetworkSample {
        let seconds = (after.at_ns - self.at_ns) as f64 / 1e9;
        let runs = after.runs.saturating_sub(self.runs).max(1) as f64;
        NetworkSample {
            delay_us: after.waited_ns.saturating_sub(self.waited_ns) as f64 / 1e3 / runs,
            taken_per_s: after.taken.saturating_sub(self.taken) as f64 / seconds,
            faults_per_s: after.faults.saturating_sub(self.faults) as f64 / seconds,
            locked,
        }
    }
}

/// Returns the stolen ticks, and the ticks of all kinds, of the first line of `/proc/stat`.
pub(crate) fn steal_of(text: &str) -> Option<(u64, u64)> {
    let fields = text.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    // The guests' time is a part of user and nice time, so the last two fields do not count.
    let ticks: Vec<u64> = fields.take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    Some((*ticks.get(7)?, ticks.iter().sum()))
}

/// Returns the nanoseconds that a thread was ready without a processor, and the number of times that it got one.
fn schedstat_of(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_ascii_whitespace().skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Returns the number of times that another thread took the processor.
fn taken_of(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?.trim().parse().ok()
}

/// Returns the page faults, minor and major.
fn faults_of(text: &str) -> Option<u64> {
    // The second field is a name in brackets, which may contain anything.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(number(7)? + number(9)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_understood() {
        let stat = "cpu  10 20 30 400 5 6 7 80 9 9\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(steal_of(stat), Some((80, 558)));
        assert_eq!(schedstat_of("123 456 7\n"), Some((456, 7)));
        let status = "voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t34\n";
        assert_eq!(taken_of(status), Some(34));
        let stat = "12 (network) 0) S 7 12 12 0 -1 4194560 1000 2 3 4 100 20\n";
        assert_eq!(faults_of(stat), Some(1_003));
        assert_eq!((steal_of("cpu"), schedstat_of(""), taken_of(""), faults_of("1 (a")), (None, None, None, None));
    }

    #[test]
    fn rates_are_of_the_time_between() {
        let before = KernelCounters { at_ns: 0, steal: 10, total: 100, waited_ns: 0, runs: 10, taken: 1, faults: 5 };
        let after = KernelCounters {
            at_ns: 2_000_000_000,
            steal: 30,
            total: 500,
            waited_ns: 50_000,
            runs: 20,
            taken: 5,
            faults: 25,
        };
        assert_eq!(before.steal(&after), Some(0.05));
        let seen = before.network(&after, Some(0.5));
        let expected = NetworkSample { delay_us: 5.0, taken_per_s: 2.0, faults_per_s: 10.0, locked: Some(0.5) };
        assert_eq!(seen, expected);
    }
}
