//! Unnamed statements that repeat.
//!
//! A server parses and plans a statement without a name each time that it is sent. A frequent one is prepared under a
//! name instead, once on each connection, where [`Repeated`] is turned on. That is a promise that result types do not
//! change under clients that have asked for no prepared statement, so the operator decides.
//!
//! **Invariant:** each place holds one text, of limited length, so that memory is bounded whatever clients send. A
//! frequent text does not lose its place to those that come once, unless they are very many.

use crate::statements::shared::SharedStatement;
use locked::Locked;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Number of times that a text is seen before it is prepared. JDBC's `prepareThreshold`.
const TIMES: u8 = 5;
/// Number of other texts that displace one which does not come any more.
const HEAT_MAX: u8 = 64;
const PLACES: usize = 1 << 10;
/// Length in bytes above which texts are sent as they are.
const LENGTH_MAX: usize = 16 << 10;

#[derive(Default)]
struct RepeatBucket {
    hash: u64,
    /// Counter that rises with each occurrence of the text, and falls with each one of another.
    heat: u8,
    /// Settings that the text was sent under, and its statement; `None` before it was seen often enough.
    found: Option<(Box<str>, Arc<SharedStatement>)>,
}

/// Counts of unnamed statements that repeat.
pub(crate) struct Repeated {
    is_on: AtomicBool,
    /// Hasher of the texts. A client that finds two texts with one hash only keeps one of them from being prepared.
    hasher: BuildHasherDefault<DefaultHasher>,
    places: Box<[Mutex<RepeatBucket>]>,
}

impl Default for Repeated {
    fn default() -> Repeated {
        let places = (0..PLACES).map(|_| Mutex::default()).collect();
        Repeated { is_on: AtomicBool::new(false), hasher: BuildHasherDefault::default(), places }
    }
}

impl fmt::Debug for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repeated").field("is_on", &self.is_on).finish_non_exhaustive()
    }
}

impl Repeated {
    /// Turns it on or off.
    pub(crate) fn turn(&self, is_on: bool) {
        self.is_on.store(is_on, Relaxed);
        if !is_on {
            self.clear();
        }
    }

    /// Returns the statement of a `Parse`, by its body behind the name, if it was seen often enough; `make` creates it.
    pub(crate) fn get(
        &self,
        context: &str,
        body: &[u8],
        make: impl FnOnce() -> Arc<SharedStatement>,
    ) -> Option<Arc<SharedStatement>> {
        if !self.is_on.load(Relaxed) || LENGTH_MAX < body.len() {
            return None;
        }
        let hash = self.hasher.hash_one((context, body));
        let mut place = self.places[hash as usize % PLACES].locked_anyway();
        if place.hash != hash {
            place.heat = place.heat.saturating_sub(1);
            if place.heat == 0 {
                *place = RepeatBucket { hash, heat: 1, found: None };
            }
            return None;
        }
        place.heat = (place.heat + 1).min(HEAT_MAX);
        if place.found.is_none() && TIMES <= place.heat {
            place.found = Some((context.into(), make()));
        }
        let (own, statement) = place.found.as_ref()?;
        (**own == *context && *statement.body == *body).then(|| Arc::clone(statement))
    }

    /// Forgets all texts.
    pub(crate) fn clear(&self) {
        for place in &self.places {
            *place.locked_anyway() = RepeatBucket::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::shared::SharedStatements;

    /// Number of requests until the text was a statement.
    fn asked(all: &SharedStatements, path: &str, body: &[u8]) -> Option<usize> {
        (1..=100).find(|_| all.repeated(path, body).is_some())
    }

    #[test]
    fn the_fifth_time_counts_under_the_same_settings() {
        let all = SharedStatements::default();
        let body = b"select $1\0\0\0";
        assert_eq!(asked(&all, "", body), None);
        all.repeated.turn(true);
        assert_eq!((asked(&all, "", body), asked(&all, "a", body)), (Some(5), Some(5)));
        assert_eq!(asked(&all, "", body), Some(1));
        assert_eq!(asked(&all, "", &[b'-'; LENGTH_MAX + 1]), None);
        all.repeated.turn(false);
        assert_eq!(asked(&all, "", body), None);
    }

    #[test]
    fn those_that_come_once_take_no_place_from_one_that_comes_often() {
        let all = SharedStatements::default();
        all.repeated.turn(true);
        let body = b"select $1\0\0\0";
        asked(&all, "", body);
        let number = all.repeated("", body).expect("it is known").number;
        for at in 0..20 * PLACES {
            all.repeated("", format!("select {at}\0\0\0").as_bytes());
            if at % (PLACES / 8) == 0 {
                assert_eq!(all.repeated("", body).expect("it is known").number, number);
            }
        }
        // A text that does not come any more is displaced.
        for at in 0..200 * PLACES {
            all.repeated("", format!("select -{at}\0\0\0").as_bytes());
        }
        assert!(Some(1) < asked(&all, "", body));
    }
}
