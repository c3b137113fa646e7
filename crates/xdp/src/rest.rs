//! Time for which a port is polled before its thread sleeps: longer where that was worth it, and none where it was not.
//!
//! **Invariant:** waits that polling does not shorten cost almost nothing: after a failure, polling is left out of more
//! and more waits.

use crate::count;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Time of polling, and the least number of looks in it.
const TIME: Duration = Duration::from_micros(30);
const LOOKS_MIN: u32 = 4;
/// Least and greatest number of waits without polling after one that was in vain.
const PAUSE: (u32, u32) = (8, 512);

/// Rest of a port: what it does while no frame comes.
#[derive(Debug)]
pub(crate) struct Rest {
    /// Waits without polling that are left, and their number after the next failure.
    pause: (u32, u32),
    wait: Wait,
}

#[derive(Clone, Copy, Debug)]
enum Wait {
    None,
    Polling { since: Instant, looks: u32 },
    Sleeping,
}

/// True if another thread can run while this one polls.
fn is_useful() -> bool {
    static IS_USEFUL: OnceLock<bool> = OnceLock::new();
    *IS_USEFUL.get_or_init(|| thread::available_parallelism().is_ok_and(|count| 1 < count.get()))
}

impl Rest {
    pub(crate) fn new() -> Rest {
        Rest { pause: (0, PAUSE.0), wait: Wait::None }
    }

    /// Takes note of a look that has found nothing. Returns true if the caller should look again soon, and false if it
    /// should sleep.
    pub(crate) fn looks_again(&mut self, now: Instant) -> bool {
        match self.wait {
            Wait::None if !is_useful() || 0 < self.pause.0 => {
                self.pause.0 = self.pause.0.saturating_sub(1);
                self.sleeps();
                false
            }
            Wait::None => {
                self.wait = Wait::Polling { since: now, looks: 1 };
                true
            }
            Wait::Polling { since, looks } if looks < LOOKS_MIN || now < since + TIME => {
                self.wait = Wait::Polling { since, looks: looks + 1 };
                true
            }
            Wait::Polling { looks, .. } => {
                self.pause = (self.pause.1, (2 * self.pause.1).min(PAUSE.1));
                count::EMPTY_LOOKS.add(looks.into());
                self.sleeps();
                false
            }
            Wait::Sleeping => false,
        }
    }

    fn sleeps(&mut self) {
        self.wait = Wait::Sleeping;
        count::SLEEPS.add(1);
    }

    /// Takes note of a frame that has come.
    pub(crate) fn is_over(&mut self) {
        if let Wait::Polling { looks, .. } = self.wait {
            self.pause = (0, PAUSE.0);
            count::EMPTY_LOOKS.add(looks.into());
        }
        self.wait = Wait::None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_in_vain_is_left_out_more_and_more() {
        if !is_useful() {
            return;
        }
        let (mut rest, begun) = (Rest::new(), Instant::now());
        let mut polled = Vec::new();
        for wait in 0..1000 {
            if rest.looks_again(begun) {
                polled.push(wait);
                while rest.looks_again(begun + TIME) {}
            }
            rest.is_over();
        }
        assert_eq!(polled, [0, 9, 26, 59, 124, 253, 510]);
        while !rest.looks_again(begun) {
            rest.is_over();
        }
        // A success ends that.
        rest.is_over();
        assert!(rest.looks_again(begun));
    }
}
