//! Deadlines: whoever has one is told when it is there, though nothing of it runs.
//!
//! **Invariant:** nobody is kept from ending by a deadline to come.

use locked::{Locked, LockedResult};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread;
use std::time::Instant;

/// Has a deadline.
pub(crate) trait DeadlineTarget: Send + Sync {
    /// It is there.
    fn is_late(&self);
}

/// A thread that waits for the next one.
pub(crate) struct Deadlines(Arc<DeadlineQueue>);

#[derive(Default)]
struct DeadlineQueue {
    state: Mutex<DeadlineState>,
    changed: Condvar,
}

#[derive(Default)]
struct DeadlineState {
    waiting: BinaryHeap<PendingDeadline>,
    arrivals: u64,
    is_over: bool,
}

/// The soonest is the greatest.
struct PendingDeadline {
    order: Reverse<(Instant, u64)>,
    who: Weak<dyn DeadlineTarget>,
}

impl PartialEq for PendingDeadline {
    fn eq(&self, other: &PendingDeadline) -> bool {
        self.order == other.order
    }
}

impl Eq for PendingDeadline {}

impl PartialOrd for PendingDeadline {
    fn partial_cmp(&self, other: &PendingDeadline) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PendingDeadline {
    fn cmp(&self, other: &PendingDeadline) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

impl Deadlines {
    /// Starts the thread, which ends with this.
    pub(crate) fn new() -> io::Result<Deadlines> {
        let shared = Arc::<DeadlineQueue>::default();
        let there = Arc::clone(&shared);
        thread::Builder::new().name("deadlines".to_owned()).spawn(move || there.run())?;
        Ok(Deadlines(shared))
    }

    /// Has `who` told at this moment, unless it is gone by then.
    pub(crate) fn add(&self, at: Instant, who: Weak<dyn DeadlineTarget>) {
        let mut state = self.0.state();
        // Most have ended long before their deadline; they are not kept until then.
        if state.waiting.len() == state.waiting.capacity() {
            state.waiting.retain(|waiting| 0 < waiting.who.strong_count());
        }
        state.arrivals += 1;
        let order = Reverse((at, state.arrivals));
        state.waiting.push(PendingDeadline { order, who });
        drop(state);
        self.0.changed.notify_one();
    }
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        // The drop may be part of the unwinding of a panic under this lock.
        self.0.state.locked_anyway().is_over = true;
        self.0.changed.notify_one();
    }
}

impl DeadlineQueue {
    fn state(&self) -> MutexGuard<'_, DeadlineState> {
        self.state.locked()
    }

    fn run(&self) {
        let mut state = self.state();
        while !state.is_over {
            let now = Instant::now();
            let next = state.waiting.peek().map(|waiting| waiting.order.0.0);
            state = match next {
                None => self.changed.wait(state).or_end_process(),
                Some(at) if now < at => {
                    let (state, _) = self.changed.wait_timeout(state, at - now).or_end_process();
                    state
                }
                Some(_) => {
                    let late = state.waiting.pop().and_then(|waiting| waiting.who.upgrade());
                    drop(state);
                    if let Some(late) = late {
                        late.is_late();
                    }
                    self.state()
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    struct Tells(Mutex<Sender<u32>>, u32);

    impl DeadlineTarget for Tells {
        fn is_late(&self) {
            let _ = self.0.locked_anyway().send(self.1);
        }
    }

    #[test]
    fn the_soonest_is_told_first_and_who_is_gone_is_not() {
        let deadlines = Deadlines::new().expect("a thread");
        let (told, tells) = channel();
        let all: Vec<Arc<Tells>> = (0..4).map(|at| Arc::new(Tells(Mutex::new(told.clone()), at))).collect();
        let now = Instant::now();
        for (who, ms) in all.iter().zip([30, 10, 20, 0]) {
            let who: Weak<Tells> = Arc::downgrade(who);
            deadlines.add(now + Duration::from_millis(ms), who);
        }
        assert_eq!(tells.recv(), Ok(3));
        let mut all = all;
        drop(all.remove(2));
        let rest: Vec<u32> = tells.iter().take(2).collect();
        assert!(rest == [1, 0] && now.elapsed() >= Duration::from_millis(30), "{rest:?}");
    }
}
