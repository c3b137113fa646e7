//! Deadlocks: found when a session parks, by following the waits from waiter to holder.
//!
//! A cycle in which a session waits for another only because that one stands before it in a queue is *soft*: it is
//! opened by changing the order of that queue, as PostgreSQL does (`README`, "The Deadlock Detection Algorithm"), and
//! no transaction is aborted.
//!
//! **Invariant:** a session undoes its statement, publishes that it is parked, and only then looks. A cycle of parked
//! sessions does not move, so the last of them to park sees all of it. One latch is held at a time: a wait that is
//! followed may be gone a moment later, so a cycle counts only if a second look finds one again.

use super::entry::{Foreign, Holders};
use super::key::Waited;
use super::waiter::Phase;
use super::{Key, LockTable, Mode, Waiter};
use crate::error::Error;
use crate::raw::slots::Registry;
use crate::sync::SeqCst;
use core::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A session that was reached, and the one from which it was reached.
struct Reached {
    waiter: Arc<Waiter>,
    from: usize,
    /// True if the sessions that it waits for were reached.
    followed: bool,
}

/// Sessions reached so far. The first is the start of the search.
#[derive(Default)]
struct Search {
    reached: Vec<Reached>,
    /// Index of each of them, by its id.
    known: HashMap<u64, usize>,
}

impl Search {
    /// Returns the index of a session; it is reached now from `from`, if it was not before.
    fn reach(&mut self, waiter: &Arc<Waiter>, from: usize) -> usize {
        *self.known.entry(waiter.id).or_insert_with(|| {
            self.reached.push(Reached { waiter: waiter.clone(), from, followed: false });
            self.reached.len() - 1
        })
    }
}

impl LockTable {
    /// Publishes that the session is parked, and breaks every deadlock that this closes: by the order of a queue, if
    /// that is enough; else the least important of a cycle is the victim, and of those the youngest.
    pub(crate) fn park(&self, registry: &Registry, holders: &dyn Holders, me: &Arc<Waiter>) {
        me.with(|state| state.parked = true);
        // In one queue every waiter waits for those before it, and only an open transaction keeps what others wait for
        // in another. So without one that waits there is no cycle; the last to park sees that there is.
        if self.parked_count.load(SeqCst) == 0 {
            return;
        }
        let mut moved = HashSet::new();
        while self.find_cycle(registry, holders, me).is_some()
            && let Some(cycle) = self.find_cycle(registry, holders, me)
        {
            if self.reorder(registry, holders, &cycle, &mut moved) {
                continue;
            }
            let rank = |waiter: &Arc<Waiter>| {
                waiter.with(|state| (state.importance, Reverse((state.born_ns, waiter.id)), state.number))
            };
            let at = (0..cycle.len()).min_by_key(|at| rank(&cycle[*at])).expect("a cycle has members");
            let victim = &cycle[at];
            let (_, _, number) = rank(victim);
            let waited = cycle[at..].iter().chain(&cycle[..at]).map(|waiter| {
                let (key, mode) = waiter.with(|state| state.place)?;
                Some(Waited { session: Arc::from(&*waiter.name), wanted: key.wanted(mode) })
            });
            // One of them has just given up: it may be a cycle no more.
            let Some(waited) = waited.collect::<Option<Arc<[Waited]>>>() else { continue };
            if self.fail(registry, holders, victim, Some(number), Error::Deadlock(waited)) {
                super::Tally::one(&self.tally.deadlocks);
            }
        }
    }

    /// Lets one session of a cycle go before the next, if it waits for that only because it stands behind it. Returns
    /// true if it could. `moved` are the pairs for which this was tried: two orders that close a cycle each do not
    /// alternate for ever.
    fn reorder(
        &self,
        registry: &Registry,
        holders: &dyn Holders,
        cycle: &[Arc<Waiter>],
        moved: &mut HashSet<(u64, u64)>,
    ) -> bool {
        let place = |waiter: &Arc<Waiter>| waiter.with(|state| state.place);
        // As PostgreSQL does, the session that is farthest from the last to park first: that one waits already.
        let pairs = cycle.iter().zip(cycle.iter().cycle().skip(1)).collect::<Vec<_>>().into_iter().rev();
        for (behind, before) in pairs.filter(|(behind, before)| !Arc::ptr_eq(behind, before)) {
            let (Some((key, _)), Some((other, _))) = (place(behind), place(before)) else { continue };
            if key != other || !moved.insert((behind.id, before.id)) {
                continue;
            }
            let mut wakes = Vec::new();
            let is_moved = self.with_entry(key, false, |entry| {
                let Some(entry) = entry else { return false };
                let (Some(from), Some(to)) = (entry.position(behind), entry.position(before)) else { return false };
                entry.clean(registry, |mode| self.unmark(key, mode));
                let foreign = Foreign::of(key, registry, holders);
                let is_moved = entry.move_forward(&foreign, from, to);
                if is_moved {
                    entry.grant(&foreign, &mut wakes);
                }
                is_moved
            });
            super::wake(wakes);
            if is_moved {
                return true;
            }
        }
        false
    }

    /// Returns the sessions of a cycle through `me`, each of which waits for the next, and the last for the first.
    fn find_cycle(&self, registry: &Registry, holders: &dyn Holders, me: &Arc<Waiter>) -> Option<Vec<Arc<Waiter>>> {
        let mut search = Search::default();
        let mut at = search.reach(me, 0);
        while at < search.reached.len() {
            if !search.reached[at].followed
                && let Some(last) = self.follow(registry, holders, &mut search, at)
            {
                let mut cycle = vec![search.reached[last].waiter.clone()];
                let mut back = last;
                while back != 0 {
                    back = search.reached[back].from;
                    cycle.push(search.reached[back].waiter.clone());
                }
                cycle.reverse();
                return Some(cycle);
            }
            at += 1;
        }
        None
    }

    /// Reaches the sessions that a parked session waits for: in its queue those before it, which are followed at once,
    /// for they wait there too; then the parked sessions that hold the wanted lock. Returns the session that waits for
    /// the first, if one of them does.
    fn follow(&self, registry: &Registry, holders: &dyn Holders, search: &mut Search, from: usize) -> Option<usize> {
        let waiter = search.reached[from].waiter.clone();
        let me = search.reached[0].waiter.clone();
        search.reached[from].followed = true;
        let place = waiter.with(|state| state.place.filter(|_| state.parked && state.phase == Phase::Waiting));
        let (key, _) = place?;
        let mut owners: Vec<(u64, usize)> = Vec::new();
        let closes = self.with_entry(key, false, |entry| {
            let entry = entry?;
            let foreign = Foreign::of(key, registry, holders);
            // Places of the queue that stand in a waiter's way, by their indexes among the reached.
            let mut chain = vec![(entry.position(&waiter)?, from)];
            let first = chain[0].0;
            for position in (0..=first).rev() {
                if position < first {
                    let behind = chain.iter().find(|(behind, _)| entry.must_let_pass(&foreign, *behind, position));
                    let Some((_, from)) = behind.copied() else { continue };
                    let before = &entry.queue()[position].waiter;
                    if Arc::ptr_eq(before, &me) {
                        return Some(from);
                    }
                    if !before.with(|state| state.parked && state.phase == Phase::Waiting) {
                        continue; // It was woken, or is about to look itself.
                    }
                    let at = search.reach(before, from);
                    if core::mem::replace(&mut search.reached[at].followed, true) {
                        continue;
                    }
                    chain.push((position, at));
                }
                let (place, at) = chain[chain.len() - 1];
                if place == position {
                    entry.each_owner(&foreign, place, &mut |owner| {
                        if owners.iter().all(|(other, _)| *other != owner) {
                            owners.push((owner, at));
                        }
                    });
                }
            }
            None
        });
        if closes.is_some() {
            return closes;
        }
        for (owner, at) in owners {
            let Some(session) = self.parked_session(owner) else { continue };
            if Arc::ptr_eq(&session, &me) {
                return Some(at);
            }
            search.reach(&session, at);
        }
        None
    }

    /// Returns the transactions that hold `key` in a mode that excludes `mode`.
    pub(crate) fn owners_of(&self, registry: &Registry, holders: &dyn Holders, key: Key, mode: Mode) -> Vec<u64> {
        self.with_entry(key, false, |entry| {
            entry.map_or_else(Vec::new, |entry| entry.owners(&Foreign::of(key, registry, holders), mode))
        })
    }
}
