//! Portals of a client on its connection, with the effects of the statements that were bound to them.
//!
//! **Invariant:** each portal has the statement that was bound to it last, in whatever order portals are run. The
//! effect of a portal that is missing here, because it was not bound by a message or has gone with its transaction, is
//! unknown.

use crate::clients::outcome::BlockEffect;
use crate::clients::priority::LocalStatement;
use std::collections::HashMap;

#[derive(Clone, Debug)]
pub(crate) struct Portal {
    pub(crate) act: BlockEffect,
    /// True if it may be a COPY FROM STDIN.
    pub(crate) copies_in: bool,
    /// The proxy's own statement, for which the server has a replacement.
    pub(crate) served: Option<LocalStatement>,
}

/// Unknown portal: of SQL's DECLARE, for instance.
static UNKNOWN: Portal = Portal { act: BlockEffect::Mixes, copies_in: false, served: None };

#[derive(Debug, Default)]
pub(crate) struct Portals {
    unnamed: Option<Portal>,
    named: HashMap<Box<[u8]>, Portal>,
    /// Number of portals that were left when ordinary ones were last forgotten.
    swept_at: usize,
}

/// Number of named portals above which those of ordinary statements are forgotten.
const NAMED_MAX: usize = 64;

impl Portals {
    /// Binds a portal by a message.
    pub(crate) fn bind(&mut self, name: &[u8], portal: Portal) {
        if name.is_empty() {
            self.unnamed = Some(portal);
            return;
        }
        if NAMED_MAX + 2 * self.swept_at <= self.named.len() {
            self.named.retain(|_, portal| portal.copies_in || portal.served.is_some());
            self.swept_at = self.named.len();
        }
        self.named.insert(name.into(), portal);
    }

    pub(crate) fn get(&self, name: &[u8]) -> &Portal {
        let own = if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) };
        own.unwrap_or(&UNKNOWN)
    }

    /// Closes a portal by a message.
    pub(crate) fn close(&mut self, name: &[u8]) {
        if name.is_empty() {
            self.unnamed = None;
        } else {
            self.named.remove(name);
        }
    }

    /// Forgets all portals, which end with their transaction.
    pub(crate) fn forget(&mut self) {
        self.unnamed = None;
        if !self.named.is_empty() {
            (self.named, self.swept_at) = (HashMap::new(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portals_do_what_was_bound_to_them() {
        let plain = |act| Portal { act, copies_in: false, served: None };
        let mut portals = Portals::default();
        portals.bind(b"c", plain(BlockEffect::Commits));
        portals.bind(b"", plain(BlockEffect::States));
        let act = |portals: &Portals, name: &[u8]| portals.get(name).act;
        assert_eq!(
            [b"".as_slice(), b"c", b"d"].map(|name| act(&portals, name)),
            [BlockEffect::States, BlockEffect::Commits, BlockEffect::Mixes]
        );
        portals.bind(b"c", plain(BlockEffect::RollsBack));
        assert_eq!(act(&portals, b"c"), BlockEffect::RollsBack);
        portals.close(b"");
        assert_eq!(act(&portals, b""), BlockEffect::Mixes);
        // Few are kept, except those that differ from ordinary ones.
        portals.bind(b"copy", Portal { copies_in: true, ..plain(BlockEffect::States) });
        for number in 0..10_000 {
            portals.bind(format!("p{number}").as_bytes(), plain(BlockEffect::States));
            assert_eq!(act(&portals, format!("p{number}").as_bytes()), BlockEffect::States);
        }
        assert!(portals.get(b"copy").copies_in && portals.named.len() < 100);
        portals.forget();
        assert!(!portals.get(b"copy").copies_in && act(&portals, b"c") == BlockEffect::Mixes);
    }
}
