//! Requests for connections, until the client has shown that it is at its address.
//!
//! **Invariant:** a request costs a small entry of a bounded table, or nothing: when the table is full, the answer
//! itself carries what is needed later (a SYN cookie). Buffers are made for clients only that have answered.

use crate::count;
use crate::frame::Offer;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddrV4;
use std::time::Duration;

/// Number of requests that are remembered, and the time for which they are. If a client's acknowledgement is lost, its
/// first bytes acknowledge as well; nobody asks for them.
const OPEN_MAX: usize = 4096;
const OPEN_TIME: Duration = Duration::from_mins(1);
/// Length of a period of cookies. They are valid in theirs and in the next one.
const PERIOD: Duration = Duration::from_secs(32);
/// Segment sizes that a cookie can tell apart.
const SIZES: [u16; 8] = [88, 536, 1024, 1220, 1360, 1400, 1440, 1460];
/// Bits of a cookie that are a hash. Above them are three bits of the size and five of the period.
const HASH_BITS: u32 = 24;

#[derive(Clone, Copy, Debug)]
struct Open {
    theirs: u32,
    ours: u32,
    offer: Offer,
    at: Duration,
}

/// Client that has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) offer: Offer,
    /// Time from the answer to its acknowledgement, if it is known.
    pub(crate) rtt: Option<Duration>,
}

/// Requests that are open.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    /// Secret of this process.
    secret: RandomState,
    open: HashMap<SocketAddrV4, Open>,
    /// Their times and addresses, one for each that is open: closed and replaced ones leave at once, so that nobody
    /// can pile them up behind a request that stays open.
    order: BTreeSet<(Duration, SocketAddrV4)>,
    /// Time of the last cookie.
    cookie_at: Option<Duration>,
}

fn period(now: Duration) -> u32 {
    (now.as_secs() / PERIOD.as_secs()) as u32
}

impl Handshakes {
    /// Takes a request with this sequence number. Returns the number with which to answer, and what may be answered to
    /// the offer. A repeated request has the same answer.
    pub(crate) fn request(&mut self, from: SocketAddrV4, theirs: u32, offer: Offer, now: Duration) -> (u32, Offer) {
        if let Some(open) = self.open.get(&from).filter(|open| open.theirs == theirs) {
            return (open.ours, open.offer);
        }
        self.forget(now);
        if self.open.len() < OPEN_MAX || self.open.contains_key(&from) {
            let ours = self.secret.hash_one((from, theirs, now)) as u32;
            if let Some(replaced) = self.open.insert(from, Open { theirs, ours, offer, at: now }) {
                self.order.remove(&(replaced.at, from));
            }
            self.order.insert((now, from));
            return (ours, offer);
        }
        self.cookie_at = Some(now);
        count::COOKIES.add(1);
        let size = SIZES.iter().rposition(|size| *size <= offer.mss).unwrap_or(0);
        // A cookie has no room for the rest.
        let offer = Offer { mss: offer.mss, scale: None, sack: false };
        (self.cookie(from, theirs, period(now), size), offer)
    }

    fn cookie(&self, from: SocketAddrV4, theirs: u32, period: u32, size: usize) -> u32 {
        let hash = self.secret.hash_one((from, theirs, period, size)) as u32;
        (period & 31) << (HASH_BITS + 3) | (size as u32) << HASH_BITS | hash & ((1 << HASH_BITS) - 1)
    }

    /// Takes an acknowledgement of an answer. Returns what the client has offered, if it was answered so. The request
    /// is closed then.
    pub(crate) fn acknowledged(
        &mut self,
        from: SocketAddrV4,
        theirs: u32,
        ours: u32,
        now: Duration,
    ) -> Option<Answered> {
        if self.open.get(&from).is_some_and(|open| (open.theirs, open.ours) == (theirs, ours)) {
            let open = self.open.remove(&from)?;
            self.order.remove(&(open.at, from));
            return Some(Answered { offer: open.offer, rtt: Some(now.saturating_sub(open.at)) });
        }
        if self.cookie_at.is_none_or(|at| at + 2 * PERIOD < now) {
            return None;
        }
        let size = (ours >> HASH_BITS & 7) as usize;
        let is_ours = |period| self.cookie(from, theirs, period, size) == ours;
        let now = period(now);
        let is_ours = is_ours(now) || now.checked_sub(1).is_some_and(is_ours);
        let offer = Offer { mss: *SIZES.get(size)?, scale: None, sack: false };
        is_ours.then_some(Answered { offer, rtt: None })
    }

    /// Forgets what is too old.
    fn forget(&mut self, now: Duration) {
        while let Some((at, from)) = self.order.first().copied()
            && at + OPEN_TIME <= now
        {
            self.order.pop_first();
            self.open.remove(&from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: Offer = Offer { mss: 1430, scale: Some(7), sack: true };

    fn client(number: u32) -> SocketAddrV4 {
        SocketAddrV4::new((0x0a00_0000 + number).into(), 4000)
    }

    #[test]
    fn only_who_answers_gets_through_and_only_once() {
        let (mut handshakes, now) = (Handshakes::default(), Duration::from_secs(100));
        let (ours, offer) = handshakes.request(client(1), 7, OFFER, now);
        assert_eq!(offer, OFFER);
        assert_eq!(handshakes.request(client(1), 7, OFFER, now + Duration::from_secs(1)), (ours, OFFER));
        for (number, theirs, ours) in [(2, 7, ours), (1, 8, ours), (1, 7, ours.wrapping_add(1))] {
            assert_eq!(handshakes.acknowledged(client(number), theirs, ours, now), None);
        }
        let answered = handshakes.acknowledged(client(1), 7, ours, now + Duration::from_millis(3)).unwrap();
        assert_eq!(answered, Answered { offer: OFFER, rtt: Some(Duration::from_millis(3)) });
        assert_eq!(handshakes.acknowledged(client(1), 7, ours, now), None);
    }

    #[test]
    fn a_flood_keeps_nobody_out_and_takes_no_memory() {
        let (mut handshakes, now) = (Handshakes::default(), Duration::from_secs(100));
        for number in 0..100_000 {
            handshakes.request(client(number), number, OFFER, now);
        }
        assert_eq!((handshakes.open.len(), handshakes.order.len()), (OPEN_MAX, OPEN_MAX));
        let (ours, offer) = handshakes.request(client(200_000), 7, OFFER, now);
        assert_eq!((offer.scale, offer.sack), (None, false));
        for late in [0, 31, 63] {
            let answered = handshakes.acknowledged(client(200_000), 7, ours, now + Duration::from_secs(late));
            let expected = Offer { mss: 1400, scale: None, sack: false };
            // A cookie of the period's end is valid for a little longer than one period.
            if late < 60 {
                assert_eq!(answered.unwrap(), Answered { offer: expected, rtt: None });
            } else {
                assert_eq!(answered, None);
            }
        }
        let wrong = |bit: u32| ours ^ 1 << bit;
        assert!((0..32).all(|bit| handshakes.acknowledged(client(200_000), 7, wrong(bit), now).is_none()));
        // When it is over, requests are remembered again.
        let later = now + OPEN_TIME;
        assert_eq!(handshakes.request(client(300_000), 7, OFFER, later).1, OFFER);
        assert_eq!(handshakes.open.len(), 1);
    }

    #[test]
    fn closed_requests_are_forgotten() {
        let mut handshakes = Handshakes::default();
        for number in 0..100_000_u32 {
            let now = Duration::from_millis(number.into());
            let (ours, _) = handshakes.request(client(number), 7, OFFER, now);
            assert!(handshakes.acknowledged(client(number), 7, ours, now).is_some());
        }
        assert!(handshakes.order.is_empty() && handshakes.open.is_empty());
    }

    #[test]
    fn one_address_takes_one_place_however_often_it_asks() {
        let (mut handshakes, begin) = (Handshakes::default(), Duration::from_secs(100));
        // It never answers, so what comes behind it cannot be forgotten.
        handshakes.request(client(1), 7, OFFER, begin);
        let mut last = (0, OFFER);
        for number in 0..100_000_u32 {
            let now = begin + Duration::from_micros(number.into());
            last = handshakes.request(client(2), number, OFFER, now);
            let (ours, _) = handshakes.request(client(3), number, OFFER, now);
            assert!(handshakes.acknowledged(client(3), number, ours, now).is_some());
        }
        assert_eq!((handshakes.open.len(), handshakes.order.len()), (2, 2));
        // The last request counts, and its time: it outlives the one that never answered.
        let later = begin + OPEN_TIME + Duration::from_millis(1);
        handshakes.request(client(4), 7, OFFER, later);
        assert_eq!((handshakes.open.len(), handshakes.order.len()), (2, 2));
        assert_eq!(handshakes.acknowledged(client(2), 99_998, last.0, later), None);
        assert!(handshakes.acknowledged(client(2), 99_999, last.0, later).is_some());
        handshakes.request(client(5), 7, OFFER, later + OPEN_TIME);
        assert_eq!((handshakes.open.len(), handshakes.order.len()), (1, 1));
    }
}
