//! Load of the machine, time that the host of the virtual machine took, and the cost of waking a thread.

use crate::report::Report;
use crate::report::median;
use crate::wire::mixed::host::steal_of;
use anyhow::Context;
use preempt::os;
use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

/// Watch over a run.
pub struct Neighbours {
    /// Stolen ticks and ticks of all kinds at the begin.
    ticks: Option<(u64, u64)>,
    wake_us: f64,
}

/// Number of wake-ups that are timed.
const WAKES: u32 = 2_000;

impl Neighbours {
    /// Begins to watch, and measures the cost of a wake-up from one of the processors to the other.
    ///
    /// # Errors
    /// If a thread cannot be pinned.
    pub fn watch(from: usize, to: usize) -> anyhow::Result<Neighbours> {
        Ok(Neighbours { ticks: ticks(), wake_us: wake_us(from, to)? })
    }

    /// Adds figures and a note to the report.
    pub fn tell(&self, report: &mut Report) {
        let stolen = self.ticks.zip(ticks()).map(|(before, after)| share(before, after));
        let load = load();
        report.figure("glass.machine.wake_us", self.wake_us);
        let load_text = load.map_or("unknown".to_owned(), |load| format!("{load:.2}"));
        let steal_text = stolen.map_or("unknown".to_owned(), |share| format!("{:.2} %", 100.0 * share));
        load.into_iter().for_each(|load| report.figure("glass.machine.load_after", load));
        stolen.into_iter().for_each(|share| report.figure("glass.machine.steal_percent", 100.0 * share));
        report.note(format!(
            "Load average at the end {load_text}; processor time that the host took {steal_text}; waking a thread on the \
             other processor takes {:.1} µs (median of {WAKES}).",
            self.wake_us
        ));
    }
}

/// Returns the load average of the last minute.
fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Returns the stolen ticks, and the ticks of all kinds.
fn ticks() -> Option<(u64, u64)> {
    steal_of(&fs::read_to_string("/proc/stat").ok()?)
}

fn share(before: (u64, u64), after: (u64, u64)) -> f64 {
    after.0.saturating_sub(before.0) as f64 / after.1.saturating_sub(before.1).max(1) as f64
}

/// Returns half of the round trip between two threads that sleep until the other one wakes them, in microseconds.
fn wake_us(from: usize, to: usize) -> anyhow::Result<f64> {
    let (ping, pinged) = mpsc::channel::<()>();
    let (pong, ponged) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        let pinned = os::pin_to_cpu(to);
        while pinged.recv().is_ok() && pong.send(()).is_ok() {}
        pinned
    });
    let one = thread::spawn(move || {
        let pinned = os::pin_to_cpu(from);
        let trip = |_| {
            let began = Instant::now();
            let answered = ping.send(()).is_ok() && ponged.recv().is_ok();
            answered.then(|| began.elapsed().as_secs_f64() * 1e6 / 2.0)
        };
        pinned.map(|()| (0..WAKES).filter_map(trip).collect::<Vec<f64>>())
    });
    let trips = one.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?.context("pinning a thread")?;
    other.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?.context("pinning a thread")?;
    Ok(median(&trips))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_ticks_are_a_share_of_all() {
        assert_eq!(share((80, 558), (100, 658)), 0.2);
        assert_eq!(share((80, 558), (80, 558)), 0.0);
    }

    #[test]
    fn a_wake_up_takes_time() {
        let cpu = os::cpus()[0];
        assert!(0.0 < wake_us(cpu, cpu).expect("this processor is there"));
    }
}
