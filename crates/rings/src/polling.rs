//! Polling before a sleep: in all waits where that was worth it, and in few where it was not.
//!
//! **Invariant:** waits that polling does not shorten cost almost nothing: after a failure, polling is left out of more
//! and more waits.

use std::time::{Duration, Instant};

/// Least number of looks before a sleep. On a busy thread, one look takes as long as the turns of all others.
const LOOKS_MIN: u32 = 4;
/// Least and greatest number of waits without polling after one that was in vain.
const PAUSE: (u32, u32) = (8, 512);

/// Polling of whoever waits again and again: a stream, or a port. The caller has the clock and the counters.
#[derive(Debug)]
pub struct Polling {
    /// False if polling would keep those from working for whom it waits.
    is_useful: bool,
    /// Waits without polling that are left, and their number after the next failure.
    pause: (u32, u32),
    /// Present wait.
    wait: Wait,
}

#[derive(Clone, Copy, Debug)]
enum Wait {
    None,
    Polling { since: Instant, looks: u32 },
    Sleeping,
}

/// Step after a look that has found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Another look, soon.
    Look,
    /// The first sleep of this wait, after this number of looks in vain.
    FallAsleep(u32),
    /// Another sleep of this wait.
    Sleep,
}

impl Polling {
    /// Creates the state of one that polls if that is useful.
    pub fn new(is_useful: bool) -> Polling {
        Polling { is_useful, pause: (0, PAUSE.0), wait: Wait::None }
    }

    /// Takes note of a look that has found nothing, and returns the next step. The clock is asked if the wait polls;
    /// `longest` is the greatest time for which it may, at that moment.
    pub fn next(&mut self, clock: impl FnOnce() -> Instant, longest: impl FnOnce(Instant) -> Duration) -> Step {
        match self.wait {
            Wait::None if !self.is_useful => self.fall_asleep(0),
            Wait::None if 0 < self.pause.0 => {
                self.pause.0 -= 1;
                self.fall_asleep(0)
            }
            Wait::None => {
                self.wait = Wait::Polling { since: clock(), looks: 1 };
                Step::Look
            }
            Wait::Polling { since, looks } => {
                let now = clock();
                if looks < LOOKS_MIN || now.saturating_duration_since(since) < longest(now) {
                    self.wait = Wait::Polling { since, looks: looks + 1 };
                    return Step::Look;
                }
                self.pause = (self.pause.1, (2 * self.pause.1).min(PAUSE.1));
                self.fall_asleep(looks)
            }
            Wait::Sleeping => Step::Sleep,
        }
    }

    fn fall_asleep(&mut self, looks: u32) -> Step {
        self.wait = Wait::Sleeping;
        Step::FallAsleep(looks)
    }

    /// Takes note of the end of a wait. Returns the number of looks in vain, unless a step has told it.
    pub fn is_over(&mut self) -> u32 {
        let Wait::Polling { looks, .. } = std::mem::replace(&mut self.wait, Wait::None) else { return 0 };
        self.pause = (0, PAUSE.0);
        looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_micros(30);

    fn next(polling: &mut Polling, now: Instant) -> Step {
        polling.next(|| now, |_| TIME)
    }

    #[test]
    fn what_was_in_vain_is_left_out_more_and_more() {
        let (mut polling, begun) = (Polling::new(true), Instant::now());
        let mut polled = Vec::new();
        for wait in 0..1000 {
            if next(&mut polling, begun) == Step::Look {
                polled.push(wait);
                while next(&mut polling, begun + TIME) == Step::Look {}
            }
            assert_eq!((next(&mut polling, begun), polling.is_over()), (Step::Sleep, 0));
        }
        assert_eq!(polled, [0, 9, 26, 59, 124, 253, 510]);
        while next(&mut polling, begun) != Step::Look {
            polling.is_over();
        }
        // A success ends that.
        assert_eq!(polling.is_over(), 1);
        assert_eq!(next(&mut polling, begun), Step::Look);
    }

    #[test]
    fn a_wait_polls_for_its_time_and_some_looks() {
        let (mut polling, begun) = (Polling::new(true), Instant::now());
        let late = begun + TIME;
        // One look takes longer than the time: there are four all the same.
        let steps = [begun, late, late, late, late, late].map(|now| next(&mut polling, now));
        assert_eq!(steps, [Step::Look, Step::Look, Step::Look, Step::Look, Step::FallAsleep(4), Step::Sleep]);
        polling.is_over();
        let mut polling = Polling::new(true);
        for looks in 0..9 {
            assert_eq!(next(&mut polling, begun + TIME / 10 * looks), Step::Look, "{looks}");
        }
        assert_eq!(polling.next(|| late, |now| if now == late { 2 * TIME } else { TIME }), Step::Look);
        assert_eq!(next(&mut polling, late), Step::FallAsleep(10));
    }

    #[test]
    fn without_a_use_nobody_polls() {
        let mut polling = Polling::new(false);
        for _ in 0..20 {
            let asked = || -> Instant { panic!("the clock costs time") };
            assert_eq!(polling.next(asked, |_| TIME), Step::FallAsleep(0));
            assert_eq!(polling.next(asked, |_| TIME), Step::Sleep);
            assert_eq!(polling.is_over(), 0);
        }
    }
}
