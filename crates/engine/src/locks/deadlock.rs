//! Deadlocks: found when a session parks, by following who waits for whom.
//!
//! **Invariant:** a session undoes its statement, says that it is parked, and only then looks. A cycle of parked sessions
//! does not move, so the last of them to park sees all of it. One latch is held at a time: what is followed may be gone a
//! moment later, so a cycle counts only if a second look finds it again.

use super::entry::{Foreign, Holders};
use super::waiter::Phase;
use super::{LockTable, Waiter};
use crate::error::Error;
use crate::raw::slots::Registry;
use core::cmp::Reverse;
use std::sync::Arc;

impl LockTable {
    /// Says that the session is parked, and breaks every deadlock that this closes: the least important of a cycle is the
    /// victim, and of those the youngest.
    pub(crate) fn park(&self, registry: &Registry, holders: &dyn Holders, me: &Arc<Waiter>) {
        me.with(|state| state.parked = true);
        while let Some(cycle) = self.cycle(registry, holders, me) {
            let rank = |waiter: &Arc<Waiter>| {
                waiter.with(|state| (state.importance, Reverse((state.born_ns, waiter.id)), state.number))
            };
            let victim = cycle.iter().min_by_key(|waiter| rank(waiter)).expect("a cycle has members");
            let (_, _, number) = rank(victim);
            if self.fail(registry, holders, victim, Some(number), Error::Deadlock) {
                super::Tally::one(&self.tally.deadlocks);
            }
        }
    }

    /// A cycle through `me`, seen twice.
    fn cycle(&self, registry: &Registry, holders: &dyn Holders, me: &Arc<Waiter>) -> Option<Vec<Arc<Waiter>>> {
        let cycle = self.find_cycle(registry, holders, me)?;
        let is_edge = |from: &Arc<Waiter>, to: &Arc<Waiter>| {
            self.waits_for(registry, holders, from).iter().any(|other| Arc::ptr_eq(other, to))
        };
        let is_there = (0..cycle.len()).all(|at| is_edge(&cycle[at], &cycle[(at + 1) % cycle.len()]));
        if is_there { Some(cycle) } else { self.find_cycle(registry, holders, me) }
    }

    fn find_cycle(&self, registry: &Registry, holders: &dyn Holders, me: &Arc<Waiter>) -> Option<Vec<Arc<Waiter>>> {
        // Depth first; each member of the path with those it waits for that are still to be followed.
        let mut path = vec![(me.clone(), self.waits_for(registry, holders, me))];
        let mut seen = vec![me.clone()];
        while let Some((_, next)) = path.last_mut() {
            let Some(next) = next.pop() else {
                path.pop();
                continue;
            };
            if Arc::ptr_eq(&next, me) {
                return Some(path.into_iter().map(|(waiter, _)| waiter).collect());
            }
            if seen.iter().all(|other| !Arc::ptr_eq(other, &next)) {
                seen.push(next.clone());
                let beyond = self.waits_for(registry, holders, &next);
                path.push((next, beyond));
            }
        }
        None
    }

    /// The parked sessions that stand in a parked session's way.
    fn waits_for(&self, registry: &Registry, holders: &dyn Holders, waiter: &Arc<Waiter>) -> Vec<Arc<Waiter>> {
        let place = waiter.with(|state| state.place.filter(|_| state.parked && state.phase == Phase::Waiting));
        let Some((key, _)) = place else { return Vec::new() };
        let (owners, mut sessions) = self.with_entry(key, false, |entry| {
            let Some(entry) = entry else { return (Vec::new(), Vec::new()) };
            let Some(at) = entry.position(waiter) else { return (Vec::new(), Vec::new()) };
            let foreign = Foreign::of(key, registry, holders);
            let place = &entry.queue[at];
            let obstacles = entry.obstacles(&foreign, place.owner, place.mode, at);
            (obstacles.owners, entry.ahead_of(&foreign, at))
        });
        sessions.extend(owners.into_iter().filter_map(|owner| self.parked_session(owner)));
        sessions
    }

    /// The transactions that stand in a waiting session's way.
    pub(super) fn owners_in_the_way(
        &self,
        registry: &Registry,
        holders: &dyn Holders,
        waiter: &Arc<Waiter>,
    ) -> Vec<u64> {
        let Some((key, _)) = waiter.with(|state| state.place) else { return Vec::new() };
        self.with_entry(key, false, |entry| {
            let Some(entry) = entry else { return Vec::new() };
            let Some(at) = entry.position(waiter) else { return Vec::new() };
            let place = &entry.queue[at];
            entry.obstacles(&Foreign::of(key, registry, holders), place.owner, place.mode, at).owners
        })
    }
}
