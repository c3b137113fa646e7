//! Failed logins by client address. After some wrong passwords the next ones are answered later, and few lines are
//! logged about a crowd.
//!
//! Wrong passwords of one role and address are answered one after the other, over however many connections they come.
//!
//! **Invariant:** a client that logs in with the right password never waits, no matter how many fail beside it; the
//! memory used is bounded.

use locked::Locked;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Number of wrong passwords of one address that are answered at once.
const FREE: u32 = 3;
/// Delay of the next answer. Each further one waits twice as long as the one before, up to the longest delay.
const DELAY: Duration = Duration::from_millis(250);
const DELAY_MAX: Duration = Duration::from_secs(4);
/// Time without another failure after which failures are forgotten. In that time, at most this many lines are logged
/// about clients that were turned away, and about sessions that have begun.
const PERIOD: Duration = Duration::from_mins(1);
const LINES: u32 = 10;
const SESSIONS: u32 = 100;
/// Maximum number of addresses that are remembered.
const ADDRESSES_MAX: usize = 10_000;
/// Longest time that an answer waits for those before it.
const WAIT_MAX: Duration = Duration::from_mins(1);
/// Maximum number of roles whose last answers are remembered.
const ROLES_MAX: usize = 10_000;

/// Failed logins by client address.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    addresses: Mutex<HashMap<Option<IpAddr>, Attempt>>,
    /// Time at which the last answer to an address and a role is due. Names come from clients, and may be long: their
    /// hashes stand for them.
    answers: Mutex<HashMap<(Option<IpAddr>, u64), Instant>>,
    hashes: RandomState,
}

/// Failures and log lines of one address.
#[derive(Debug)]
struct Attempt {
    failures: u32,
    failed: Instant,
    turned_away: Lines,
    sessions: Lines,
}

/// Log lines of one kind.
#[derive(Debug)]
struct Lines {
    count: u32,
    since: Instant,
    /// Number of lines that were not logged.
    left_out: u64,
}

impl Lines {
    fn new(now: Instant) -> Lines {
        Lines { count: 0, since: now, left_out: 0 }
    }

    /// Counts one more line. Returns `None` if that is too many; otherwise how many were left out before.
    fn one(&mut self, most: u32, now: Instant) -> Option<u64> {
        if PERIOD < now.saturating_duration_since(self.since) {
            (self.count, self.since) = (0, now);
        }
        if most <= self.count {
            self.left_out += 1;
            return None;
        }
        self.count += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Attempts {
    fn lock(&self) -> MutexGuard<'_, HashMap<Option<IpAddr>, Attempt>> {
        self.addresses.locked()
    }

    fn with<R>(&self, from: Option<IpAddr>, now: Instant, act: impl FnOnce(&mut Attempt) -> R) -> R {
        let mut all = self.lock();
        if ADDRESSES_MAX <= all.len() && !all.contains_key(&from) {
            all.clear();
        }
        let new = || {
            let [turned_away, sessions] = [Lines::new(now), Lines::new(now)];
            Attempt { failures: 0, failed: now, turned_away, sessions }
        };
        act(all.entry(from).or_insert_with(new))
    }

    /// Records a wrong password of this role. Returns how long the answer has to wait.
    pub fn failed(&self, from: Option<IpAddr>, role: &str, now: Instant) -> Duration {
        let delay = self.with(from, now, |attempt| {
            if PERIOD < now.saturating_duration_since(attempt.failed) {
                attempt.failures = 0;
            }
            attempt.failed = now;
            attempt.failures += 1;
            match attempt.failures.checked_sub(FREE + 1) {
                Some(count) => DELAY_MAX.min(DELAY * 2_u32.pow(count.min(10))),
                None => Duration::ZERO,
            }
        });
        if delay.is_zero() {
            return delay;
        }
        let mut answers = self.answers.locked();
        if ROLES_MAX <= answers.len() {
            answers.retain(|_, due| now < *due);
        }
        if ROLES_MAX <= answers.len() {
            answers.clear();
        }
        let due = answers.entry((from, self.hashes.hash_one(role))).or_insert(now);
        *due = ((*due).max(now) + delay).min(now + WAIT_MAX);
        due.saturating_duration_since(now)
    }

    /// Counts a log line about a client of this address that was turned away. Returns `None` if that is one line too
    /// many; otherwise how many were left out before.
    pub fn line(&self, from: Option<IpAddr>, now: Instant) -> Option<u64> {
        self.with(from, now, |attempt| attempt.turned_away.one(LINES, now))
    }

    /// Counts a log line about a session that has begun, like [`Attempts::line`]. A session whose begin is not logged
    /// has no line at its end.
    pub fn session(&self, from: Option<IpAddr>, now: Instant) -> Option<u64> {
        self.with(from, now, |attempt| attempt.sessions.one(SESSIONS, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_fail_the_longer_they_wait() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let mut next = now;
        let mut failed = || {
            let delay = attempts.failed(None, "ann", next);
            next += delay;
            delay.as_millis()
        };
        let ms: Vec<u128> = (0..9).map(|_| failed()).collect();
        assert_eq!(ms, [0, 0, 0, 250, 500, 1_000, 2_000, 4_000, 4_000]);
        let other = Some(IpAddr::from([127, 0, 0, 1]));
        assert_eq!(attempts.failed(other, "ann", now), Duration::ZERO);
        assert_eq!(attempts.failed(None, "ann", now + 3 * PERIOD), Duration::ZERO);
    }

    #[test]
    fn who_fails_on_several_connections_is_answered_on_one_after_the_other() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let failed = |role: &str| attempts.failed(None, role, now).as_millis();
        let ms: Vec<u128> = (0..9).map(|_| failed("ann")).collect();
        assert_eq!(ms, [0, 0, 0, 250, 750, 1_750, 3_750, 7_750, 11_750]);
        // Another role has a queue of its own.
        assert_eq!([failed("bob"), failed("bob")], [4_000, 8_000]);
        assert!((0..100).map(|_| failed("ann")).all(|ms| ms <= 60_000));
        assert_eq!(failed("ann"), 60_000);
        for number in 0..2 * ROLES_MAX {
            attempts.failed(None, &number.to_string(), now);
        }
        assert!(attempts.answers.lock().is_ok_and(|answers| answers.len() <= ROLES_MAX));
    }

    #[test]
    fn few_lines_are_logged_of_one_address() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let lines = (0..2_000).filter_map(|_| attempts.line(None, now)).count();
        assert_eq!(lines, 10);
        assert_eq!(attempts.line(None, now + 2 * PERIOD), Some(1_990));
        let sessions = (0..2_000).filter_map(|_| attempts.session(None, now)).count();
        assert_eq!(sessions, 100);
        assert_eq!(attempts.session(None, now + 2 * PERIOD), Some(1_900));
        for last in 0..20_000_u32 {
            attempts.line(Some(IpAddr::from(last.to_be_bytes())), now);
        }
        assert!(attempts.lock().len() <= ADDRESSES_MAX);
    }
}
