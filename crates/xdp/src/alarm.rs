//! Times at which connections are looked at, whatever happens.
//!
//! **Invariant:** a connection has one time at most, which is never later than the one that it has asked for. Nothing
//! stays behind when times change, so connections whose times change often take no more memory than others.

use std::collections::BTreeSet;
use std::time::Duration;

/// Alarms of connections, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    order: BTreeSet<(Duration, u32)>,
    /// Time of each connection that is in the order.
    times: Vec<Option<Duration>>,
}

impl Alarms {
    /// Asks for a look at a connection at this time at the latest. An earlier one that is due anyway comes instead; the
    /// connection asks again then.
    pub(crate) fn ask(&mut self, number: u32, at: Duration) {
        let place = number as usize;
        if self.times.len() <= place {
            self.times.resize(place + 1, None);
        }
        let time = &mut self.times[place];
        if time.is_none_or(|time| at < time) {
            if let Some(later) = time.replace(at) {
                self.order.remove(&(later, number));
            }
            self.order.insert((at, number));
        }
    }

    /// Forgets a connection.
    pub(crate) fn forget(&mut self, number: u32) {
        if let Some(time) = self.times.get_mut(number as usize).and_then(Option::take) {
            self.order.remove(&(time, number));
        }
    }

    /// Takes a connection whose time has come.
    pub(crate) fn ring(&mut self, now: Duration) -> Option<u32> {
        let (_, number) = self.order.first().copied().filter(|(at, _)| *at <= now)?;
        self.forget(number);
        Some(number)
    }

    /// Returns the earliest time.
    pub(crate) fn first(&self) -> Option<Duration> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Returns the number of times that are kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_alarms_leave_nothing_behind() {
        let (mut alarms, long) = (Alarms::default(), Duration::from_secs(60));
        for number in 0..3 {
            alarms.ask(number, long);
        }
        for round in 0..10_000_u64 {
            let now = Duration::from_millis(20 * round);
            let short = now + Duration::from_millis(10);
            alarms.ask(1, short);
            assert_eq!((alarms.first(), alarms.ring(now)), (Some(short), None));
            assert_eq!(alarms.ring(short), Some(1));
            alarms.ask(1, short + long);
            assert_eq!(alarms.len(), if short < long { 3 } else { 1 });
            // Nobody asks again for the others.
            if short < long && long <= short + Duration::from_millis(20) {
                assert_eq!((alarms.ring(long), alarms.ring(long), alarms.ring(long)), (Some(0), Some(2), None));
            }
        }
    }

    #[test]
    fn the_earliest_wish_counts_and_who_has_gone_is_not_looked_at() {
        let (mut alarms, at) = (Alarms::default(), Duration::from_millis);
        alarms.ask(5, at(30));
        alarms.ask(5, at(40));
        alarms.ask(2, at(20));
        alarms.forget(7);
        assert_eq!((alarms.first(), alarms.len()), (Some(at(20)), 2));
        alarms.forget(2);
        assert_eq!((alarms.ring(at(29)), alarms.ring(at(30)), alarms.ring(at(99))), (None, Some(5), None));
        alarms.ask(2, at(50));
        assert_eq!((alarms.first(), alarms.len()), (Some(at(50)), 1));
    }
}
