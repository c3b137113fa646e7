//! Other load that comes and goes: threads that burn processor time, and one that writes to a disk.
//!
//! **Invariant:** their running times follow from the seed and the time since the start, and from nothing else.

use super::super::super::postgres::Folder;
use super::Background;
use anyhow::Context;
use std::fs::File;
use std::hint::black_box;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use workloads::tpcc::Random;

/// Seconds that a thread runs, and those that it pauses, at least and at most.
const RUNS_S: [i32; 2] = [5, 90];
const PAUSES_S: [i32; 2] = [5, 120];
/// Bytes of one write, and of the file, which is written again from its beginning.
const WRITE_BYTES: usize = 1 << 20;
const FILE_WRITES: u32 = 256;

/// Running threads of other load.
pub(super) struct OtherLoad {
    began: Instant,
    hogs: Vec<Vec<Range<Duration>>>,
    threads: Vec<Background<()>>,
}

impl OtherLoad {
    /// Starts this many threads, and a writer.
    ///
    /// # Errors
    /// If a thread cannot be started, or the file cannot be made.
    pub(super) fn start(hogs: u32, writes: bool, seed: u64, length: Duration) -> anyhow::Result<OtherLoad> {
        let began = Instant::now();
        let mut load = OtherLoad { began, hogs: Vec::new(), threads: Vec::new() };
        for at in 0..hogs {
            let bursts = bursts(seed, at.into(), length);
            load.hogs.push(bursts.clone());
            let body = move |is_over: &AtomicBool| {
                follow(&bursts, began, is_over, || {
                    burn();
                    Ok(())
                })
            };
            load.threads.push(Background::start("hog", body)?);
        }
        if writes {
            let (bursts, folder) = (bursts(seed, u64::MAX, length), Folder::new("overtake-writer")?);
            let mut file = File::create(folder.path().join("written")).context("the other load's file")?;
            let mut count = 0u32;
            let body = move |is_over: &AtomicBool| {
                // The folder is removed with the thread.
                let _folder = folder;
                let block = vec![0x5a; WRITE_BYTES];
                follow(&bursts, began, is_over, || {
                    if count.is_multiple_of(FILE_WRITES) {
                        file.seek(SeekFrom::Start(0))?;
                    }
                    count += 1;
                    file.write_all(&block)?;
                    Ok(file.sync_data()?)
                })
            };
            load.threads.push(Background::start("writer", body)?);
        }
        Ok(load)
    }

    /// Returns the mean number of burning threads that run during this time, which is relative to `start`.
    pub(super) fn mean(&self, time: &Range<Duration>) -> f64 {
        let length = time.end.saturating_sub(time.start).as_secs_f64();
        let ran = self.hogs.iter().flatten().map(|burst| overlap(burst, time)).sum::<Duration>();
        if length == 0.0 { 0.0 } else { ran.as_secs_f64() / length }
    }

    /// Ends the threads.
    ///
    /// # Errors
    /// The first error of a thread.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        tracing::debug!(after = ?self.began.elapsed(), "the other load ends");
        self.threads.into_iter().try_for_each(Background::stop).context("the other load")
    }
}

/// Returns the bursts of a thread: pauses and bursts in turn, a pause first.
fn bursts(seed: u64, thread: u64, length: Duration) -> Vec<Range<Duration>> {
    let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(thread));
    let mut seconds = |[least, most]: [i32; 2]| Duration::from_secs(random.uniform(least, most).unsigned_abs().into());
    let (mut bursts, mut at) = (Vec::new(), Duration::ZERO);
    while at < length {
        let start = at + seconds(PAUSES_S);
        at = start + seconds(RUNS_S);
        bursts.push(start..at);
    }
    bursts
}

/// Repeats a piece of work while a burst lasts.
fn follow(
    bursts: &[Range<Duration>],
    began: Instant,
    is_over: &AtomicBool,
    mut work: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for burst in bursts {
        loop {
            let now = began.elapsed();
            if is_over.load(SeqCst) {
                return Ok(());
            }
            if burst.end <= now {
                break;
            }
            match burst.start.checked_sub(now).filter(|left| !left.is_zero()) {
                Some(left) => std::thread::park_timeout(left),
                None => work()?,
            }
        }
    }
    Ok(())
}

/// Burns some hundred microseconds of a processor.
fn burn() {
    let mut word = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..100_000 {
        word = word.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ (word >> 29);
    }
    black_box(word);
}

fn overlap(a: &Range<Duration>, b: &Range<Duration>) -> Duration {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn bursts_are_the_seeds_and_cover_the_time() {
        let some = bursts(42, 0, S(3_600));
        assert_eq!(some, bursts(42, 0, S(3_600)));
        assert_ne!(some, bursts(42, 1, S(3_600)));
        assert_ne!(some, bursts(43, 0, S(3_600)));
        assert!(some.is_sorted_by(|a, b| a.end < b.start) && S(3_500) < some[some.len() - 1].end);
        let ran: f64 = some.iter().map(|burst| overlap(burst, &(S(0)..S(3_600))).as_secs_f64()).sum();
        assert!((0.2..0.7).contains(&(ran / 3_600.0)), "{ran}");
    }

    #[test]
    fn the_mean_counts_parts_of_bursts() {
        let hogs = vec![vec![S(10)..S(20)], vec![S(15)..S(30)]];
        let load = OtherLoad { began: Instant::now(), hogs, threads: Vec::new() };
        assert_eq!(load.mean(&(S(10)..S(20))), 1.5);
        assert_eq!(load.mean(&(S(0)..S(5))), 0.0);
        assert_eq!(load.mean(&(S(3)..S(3))), 0.0);
    }

    #[test]
    fn a_thread_works_while_a_burst_lasts_and_ends_when_told() {
        let (is_over, mut count) = (AtomicBool::new(false), 0);
        let work = || {
            count += 1;
            is_over.store(count == 3, SeqCst);
            Ok(())
        };
        follow(&[S(0)..S(3_600)], Instant::now(), &is_over, work).expect("it works");
        assert_eq!(count, 3);
    }
}
