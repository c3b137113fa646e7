//! Connections that are not authenticated yet.
//!
//! **Invariant:** their number is bounded, and they take no place of a session. At the bound, the oldest connection
//! gives way to a new one, once it has had some time to log in. So connections that send nothing keep nobody out, an
//! administrator for instance.

use locked::Locked;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Time for which a connection keeps its place before newcomers. Without it, in a crowd that reconnects at once, the
/// first would be dropped.
const TIME: Duration = Duration::from_secs(1);

pub(crate) struct Strangers {
    most: usize,
    all: Mutex<StrangerList>,
}

#[derive(Default)]
struct StrangerList {
    last: u64,
    /// Entries, ordered by their numbers.
    entries: VecDeque<StrangerEntry>,
}

struct StrangerEntry {
    number: u64,
    since: Instant,
    way: Arc<Notify>,
}

/// Unauthenticated connection, until it has logged in, or has gone.
pub(crate) struct Stranger {
    of: Arc<Strangers>,
    number: u64,
    way: Arc<Notify>,
}

impl Strangers {
    pub fn new(most: usize) -> Arc<Strangers> {
        Arc::new(Strangers { most, all: Mutex::default() })
    }

    fn all(&self) -> MutexGuard<'_, StrangerList> {
        self.all.locked()
    }

    /// Adds a connection. Returns `None` if there are too many, and all are recent.
    pub fn enter(self: &Arc<Strangers>, now: Instant) -> Option<Stranger> {
        let mut all = self.all();
        if self.most <= all.entries.len() {
            let oldest = all.entries.front().filter(|oldest| TIME <= now.saturating_duration_since(oldest.since))?;
            oldest.way.notify_one();
            all.entries.pop_front();
        }
        all.last += 1;
        let (number, way) = (all.last, Arc::new(Notify::new()));
        all.entries.push_back(StrangerEntry { number, since: now, way: Arc::clone(&way) });
        drop(all);
        Some(Stranger { of: Arc::clone(self), number, way })
    }
}

impl Stranger {
    /// Signal that the connection has to give way to others.
    pub fn way(&self) -> Arc<Notify> {
        Arc::clone(&self.way)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // The drop may be part of the unwinding of a panic under this lock.
        let mut all = self.of.all.locked_anyway();
        if let Ok(at) = all.entries.binary_search_by_key(&self.number, |entry| entry.number) {
            all.entries.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_gives_way_when_it_has_had_its_time() {
        let (strangers, begun) = (Strangers::new(2), Instant::now());
        let gives_way = |stranger: &Stranger| {
            let way = stranger.way();
            let mut notified = std::pin::pin!(way.notified());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            notified.as_mut().poll(&mut context).is_ready()
        };
        let first = strangers.enter(begun).expect("there is room");
        let second = strangers.enter(begun + TIME / 2).expect("there is room");
        assert!(strangers.enter(begun + TIME / 2).is_none());
        let third = strangers.enter(begun + TIME).expect("the first gives way");
        assert!(gives_way(&first) && !gives_way(&second) && !gives_way(&third));
        assert!(strangers.enter(begun + TIME).is_none());
        drop((first, second));
        let fourth = strangers.enter(begun + TIME).expect("the second has gone");
        assert!(!gives_way(&third) && !gives_way(&fourth) && strangers.enter(begun + TIME).is_none());
    }
}
