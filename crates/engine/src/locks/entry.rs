//! Entry of the lock table: one thing that is locked or waited for.
//!
//! **Invariant:** the queue is in the order in which its members are served. A member that was woken keeps its place
//! until its session comes back and has the lock, or gives up; a session that comes meanwhile passes it a few times at
//! most. So a wake-up is never a lost place.

use super::key::Key;
use super::mode::Mode;
use super::waiter::{Ended, Waiter};
use crate::raw::slots::Registry;
use std::collections::VecDeque;
use std::sync::Arc;

/// Owner of locks: a transaction, or a session for those that outlive its transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Who {
    /// Owner word of the transaction.
    pub(crate) owner: u64,
    /// Number of the session, which no owner word is; 0 without one.
    pub(crate) session: u64,
}

impl Who {
    /// Returns true if a lock of this owner is its own. No owner waits for itself.
    pub(crate) fn is(self, owner: u64) -> bool {
        owner == self.owner || (owner == self.session && is_session(owner))
    }
}

/// Returns true if a lock's owner is a session, and no transaction. Sessions keep their locks until they release them.
pub(crate) fn is_session(owner: u64) -> bool {
    owner != 0 && !crate::raw::slots::is_owner(owner)
}

/// A lock that is held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Granted {
    /// Owner word, or a session's number.
    pub(crate) owner: u64,
    pub(crate) mode: Mode,
}

/// A place in the queue.
pub(crate) struct QueuePlace {
    pub(crate) waiter: Arc<Waiter>,
    pub(crate) owner: u64,
    pub(crate) mode: Mode,
    pub(crate) importance: u64,
    /// Importance that counts here: equal for all where `overtake.lock_priority` is `none`. Decided once, so that the
    /// queue keeps its order when the setting changes.
    pub(crate) rank: u64,
    pub(crate) arrival: u64,
    pub(crate) woken: bool,
    /// Number of times that it was woken in vain, because another passed it.
    pub(crate) passed: u32,
    /// True if its transaction had the lock in some mode when it came.
    pub(crate) upgrades: bool,
    /// For a row, the transactions that had the lock in its way when it came. While one of them has it, the place loses
    /// nothing when others go first, and transactions that they do not exclude are delayed by no more than their own
    /// time.
    pub(crate) blockers: Vec<u64>,
}

/// Number of times that a woken place may be passed.
const PASSED_MAX: u32 = 3;

impl QueuePlace {
    pub(crate) fn who(&self) -> Who {
        Who { owner: self.owner, session: self.waiter.id }
    }

    /// Returns true if a running transaction of this rank may go first although this one was woken: until that one is
    /// there the row would lie idle, and each transaction that met its place would be undone and queue up too (a lock
    /// convoy: Blasgen et al., 1979).
    fn lets_pass(&self, rank: u64) -> bool {
        self.woken && self.passed < PASSED_MAX && self.rank <= rank
    }
}

#[derive(Default)]
pub(crate) struct LockEntry {
    pub(crate) granted: Vec<Granted>,
    /// Places in order of rank and arrival. The queue can be thousands long, so nothing that happens often goes through
    /// all of it.
    queue: VecDeque<QueuePlace>,
    /// Number of places of each mode.
    modes: [u32; Mode::COUNT],
    /// Number of places of transactions that had the lock in some mode when they came.
    upgrades: u32,
}

/// Obstacles to a lock.
#[derive(Debug, Default)]
pub(crate) struct Obstacles {
    /// Transactions that hold the wanted lock.
    pub(crate) owners: Vec<u64>,
    /// True if another stands before it in the queue.
    pub(crate) ahead: bool,
    /// True if it has been queued just now, so that a holder that went before that did not wake it.
    pub(crate) fresh: bool,
}

impl Obstacles {
    /// Returns the owner, if one transaction is all that stands in the way.
    pub(crate) fn only_owner(&self) -> Option<u64> {
        match self.owners[..] {
            [owner] if !self.ahead => Some(owner),
            _ => None,
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.owners.is_empty() && !self.ahead
    }
}

/// Locks that are not in the table: end words, marks of tables written, the life of a transaction.
pub(crate) trait Holders {
    /// Calls `each` with the owners that hold `key` in this way, and their modes.
    fn each(&self, key: Key, each: &mut dyn FnMut(u64, Mode));
}

/// Holders for a caller that cannot look. A session that is woken without need looks itself, and keeps its place.
pub(crate) struct Unknown;

impl Holders for Unknown {
    fn each(&self, _key: Key, _each: &mut dyn FnMut(u64, Mode)) {}
}

/// Locks of [`Holders`], written down.
pub(crate) struct Foreign(Vec<Granted>);

impl Foreign {
    pub(crate) fn none() -> Foreign {
        Foreign(Vec::new())
    }

    pub(crate) fn all(&self) -> &[Granted] {
        &self.0
    }

    pub(crate) fn of(key: Key, registry: &Registry, holders: &dyn Holders) -> Foreign {
        let mut foreign = Vec::new();
        if let Key::Transaction(owner) = key {
            if registry.is_active(owner) {
                foreign.push(Granted { owner, mode: Mode::LIFE });
            }
        } else {
            holders.each(key, &mut |owner, mode| foreign.push(Granted { owner, mode }));
        }
        Foreign(foreign)
    }
}

impl LockEntry {
    /// Forgets the locks of transactions that are decided, and reports each.
    pub(crate) fn clean(&mut self, registry: &Registry, mut gone: impl FnMut(Mode)) {
        self.granted.retain(|granted| {
            let is_active = is_session(granted.owner) || registry.is_active(granted.owner);
            if !is_active {
                gone(granted.mode);
            }
            is_active
        });
    }

    /// Returns true if the owner holds it in some mode already.
    pub(crate) fn has(&self, foreign: &Foreign, who: Who) -> bool {
        self.granted.iter().chain(&foreign.0).any(|granted| who.is(granted.owner))
    }

    /// Returns true if `owner` holds it in exactly this mode.
    pub(crate) fn is_granted(&self, owner: u64, mode: Mode) -> bool {
        self.granted.iter().any(|granted| granted.owner == owner && granted.mode == mode)
    }

    /// Returns true if `owner` holds it in a mode that covers `mode`.
    pub(crate) fn covers(&self, owner: u64, mode: Mode) -> bool {
        self.granted.iter().any(|granted| granted.owner == owner && granted.mode.covers(mode))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.granted.is_empty() && self.queue.is_empty()
    }

    pub(crate) fn queue(&self) -> &VecDeque<QueuePlace> {
        &self.queue
    }

    pub(crate) fn insert(&mut self, at: usize, place: QueuePlace) {
        self.modes[place.mode.number()] += 1;
        self.upgrades += u32::from(place.upgrades);
        self.queue.insert(at, place);
    }

    pub(crate) fn remove(&mut self, at: usize) -> QueuePlace {
        let place = self.queue.remove(at).expect("it is there");
        self.modes[place.mode.number()] -= 1;
        self.upgrades -= u32::from(place.upgrades);
        place
    }

    /// Makes the session of the place at `at`, which was woken in vain, wait on as this owner for this mode. Returns
    /// the mode before.
    pub(crate) fn wait_on(&mut self, at: usize, owner: u64, mode: Mode, upgrades: bool) -> Mode {
        let mut place = self.remove(at);
        place.passed += u32::from(place.woken);
        (place.owner, place.woken, place.upgrades) = (owner, false, upgrades);
        let before = core::mem::replace(&mut place.mode, mode);
        self.insert(at, place);
        before
    }

    pub(crate) fn position(&self, waiter: &Arc<Waiter>) -> Option<usize> {
        self.queue.iter().position(|place| Arc::ptr_eq(&place.waiter, waiter))
    }

    /// Returns the position of a waiter that comes now.
    pub(crate) fn insertion(&self, rank: u64, arrival: u64) -> usize {
        self.queue.partition_point(|place| if place.rank == rank { place.arrival < arrival } else { rank < place.rank })
    }

    /// Returns the owners that hold it in a mode that excludes `mode`.
    pub(crate) fn owners(&self, foreign: &Foreign, mode: Mode) -> Vec<u64> {
        let held = self.granted.iter().chain(&foreign.0);
        let mut owners: Vec<u64> =
            held.filter(|granted| mode.excludes(granted.mode)).map(|granted| granted.owner).collect();
        owners.dedup();
        owners
    }

    /// Returns the obstacles of a waiter of this rank, which is or would be at `position` of the queue. A holder of the
    /// lock in some mode waits for none that waits for it.
    pub(crate) fn obstacles(
        &self,
        foreign: &Foreign,
        who: Who,
        mode: Mode,
        (position, rank): (usize, u64),
    ) -> Obstacles {
        let has_it = self.has(foreign, who);
        let mut owners = self.owners(foreign, mode);
        owners.retain(|other| !who.is(*other));
        let bars = |place: &&QueuePlace| mode.excludes(place.mode) && !self.lets_overtake(foreign, place, rank);
        let first = self.queue.iter().take(position).find(bars);
        // If that one lets us pass so do the others: they wait for it, and are no more important.
        let ahead = !has_it && first.is_some_and(|first| !first.lets_pass(rank));
        Obstacles { owners, ahead, fresh: false }
    }

    /// Returns true if a waiter of this rank may go before a place that it excludes, if nothing else is in its way.
    ///
    /// The place waits for a transaction that was there before it, so it does not wait longer than those take that
    /// overtake it meanwhile. Once that transaction has ended, none overtakes: the place does not starve.
    fn lets_overtake(&self, foreign: &Foreign, place: &QueuePlace, rank: u64) -> bool {
        let mut held = self.granted.iter().chain(&foreign.0);
        !place.blockers.is_empty()
            && place.rank <= rank
            && held.any(|granted| place.mode.excludes(granted.mode) && place.blockers.contains(&granted.owner))
    }

    /// Returns true if the member at `behind` must let that at `before` go first.
    pub(crate) fn must_let_pass(&self, foreign: &Foreign, behind: usize, before: usize) -> bool {
        let (place, first) = (&self.queue[behind], &self.queue[before]);
        place.mode.excludes(first.mode)
            && !self.has(foreign, place.who())
            && !self.lets_overtake(foreign, first, place.rank)
    }

    /// Moves the member at `behind` to the one at `before`, in front of it, unless that matters more or has the lock in
    /// its way. Returns true if it did.
    pub(crate) fn move_forward(&mut self, foreign: &Foreign, behind: usize, before: usize) -> bool {
        let (place, first) = (&self.queue[behind], &self.queue[before]);
        let mut held = self.granted.iter().chain(&foreign.0);
        let is_held = held.any(|granted| first.who().is(granted.owner) && place.mode.excludes(granted.mode));
        if behind <= before || place.rank < first.rank || is_held {
            return false;
        }
        // The queue stays in the order of arrivals.
        let arrival = first.arrival;
        let mut place = self.remove(behind);
        place.arrival = arrival;
        place.waiter.set_arrival(arrival);
        self.insert(before, place);
        true
    }

    /// Calls `each` with the owners that hold what the member at `position` wants.
    pub(crate) fn each_owner(&self, foreign: &Foreign, position: usize, each: &mut dyn FnMut(u64)) {
        let place = &self.queue[position];
        for granted in self.granted.iter().chain(&foreign.0) {
            if !place.who().is(granted.owner) && place.mode.excludes(granted.mode) {
                each(granted.owner);
            }
        }
    }

    /// Ends the wait of every member that has nothing in the way any more. They stay in the queue.
    pub(crate) fn grant(&mut self, foreign: &Foreign, wakes: &mut Vec<Ended>) {
        let modes = (0..Mode::COUNT).filter(|mode| self.modes[*mode] != 0);
        let present = modes.fold(0, |all, mode| all | 1 << mode);
        // Modes that a member further in front excludes; and those that only such exclude as let their equals overtake.
        let mut closed: u16 = 0;
        let (mut equals, mut overtaken) = (u64::MAX, 0);
        for position in 0..self.queue.len() {
            if present & !closed == 0 && self.upgrades == 0 {
                break;
            }
            let place = &self.queue[position];
            if place.rank != equals {
                closed |= core::mem::take(&mut overtaken);
                equals = place.rank;
            }
            let is_behind = place.mode.is_in(closed);
            if self.lets_overtake(foreign, place, place.rank) {
                overtaken |= place.mode.excluded();
            } else {
                closed |= place.mode.excluded();
            }
            if place.woken || is_behind && !self.has(foreign, place.who()) {
                continue;
            }
            let mut is_held = false;
            self.each_owner(foreign, position, &mut |_| is_held = true);
            if !is_held {
                let place = &mut self.queue[position];
                place.woken = true;
                wakes.push(place.waiter.end_wait(None, None));
            }
        }
    }

    /// Ends every member's wait.
    pub(crate) fn wake_all(&mut self, wakes: &mut Vec<Ended>) {
        for place in self.queue.iter_mut().filter(|place| !place.woken) {
            place.woken = true;
            wakes.push(place.waiter.end_wait(None, None));
        }
    }
}
