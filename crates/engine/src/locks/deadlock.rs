//! Deadlocks: found when a session parks, by following who waits for whom.
//!
//! **Invariant:** a session undoes its statement, says that it is parked, and only then looks. A cycle of parked sessions
//! does not move, so the last of them to park sees all of it. One latch is held at a time: what is followed may be gone a
//! moment later, so a cycle counts only if a second look finds one again.

use super::entry::{Foreign, Holders};
use super::waiter::Phase;
use super::{LockTable, Waiter};
use crate::error::Error;
use crate::raw::slots::Registry;
use core::cmp::Reverse;
use std::sync::Arc;

/// A session that was reached, and from which of them. The first is where the search began.
struct Reached {
    waiter: Arc<Waiter>,
    from: usize,
    /// Whether those that it waits for were reached.
    followed: bool,
}

impl LockTable {
    /// Says that the session is parked, and breaks every deadlock that this closes: the least important of a cycle is the
    /// victim, and of those the youngest.
    pub(crate) fn park(&self, registry: &Registry, holders: &dyn Holders, me: &Arc<Waiter>) {
        me.with(|state| state.parked = true);
        while self.find_cycle(registry, holders, me).is_some()
            && let Some(cycle) = self.find_cycle(registry, holders, me)
        {
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

    /// The sessions of a cycle through `me`.
    fn find_cycle(&self, registry: &Registry, holders: &dyn Holders, me: &Arc<Waiter>) -> Option<Vec<Arc<Waiter>>> {
        let mut reached = vec![Reached { waiter: me.clone(), from: 0, followed: false }];
        let mut at = 0;
        while at < reached.len() {
            if !reached[at].followed
                && let Some(last) = self.follow(registry, holders, &mut reached, at)
            {
                let mut cycle = vec![reached[last].waiter.clone()];
                let mut back = last;
                while back != 0 {
                    back = reached[back].from;
                    cycle.push(reached[back].waiter.clone());
                }
                return Some(cycle);
            }
            at += 1;
        }
        None
    }

    /// Reaches those that a parked session waits for: in its queue those before it, which are followed at once, for they
    /// wait there too; then the parked sessions that have what is wanted. Returns who waits for the first, if one of them
    /// does.
    fn follow(
        &self,
        registry: &Registry,
        holders: &dyn Holders,
        reached: &mut Vec<Reached>,
        from: usize,
    ) -> Option<usize> {
        let waiter = reached[from].waiter.clone();
        let me = reached[0].waiter.clone();
        reached[from].followed = true;
        let place = waiter.with(|state| state.place.filter(|_| state.parked && state.phase == Phase::Waiting));
        let (key, _) = place?;
        let mut owners: Vec<(u64, usize)> = Vec::new();
        let closes = self.with_entry(key, false, |entry| {
            let entry = entry?;
            let foreign = Foreign::of(key, registry, holders);
            // Places of the queue that stand in somebody's way, by where they are among the reached.
            let mut chain = vec![(entry.position(&waiter)?, from)];
            let first = chain[0].0;
            for position in (0..=first).rev() {
                if position < first {
                    let behind = chain.iter().find(|(behind, _)| entry.must_let_pass(&foreign, *behind, position));
                    let Some((_, from)) = behind.copied() else { continue };
                    let before = &entry.queue[position].waiter;
                    if Arc::ptr_eq(before, &me) {
                        return Some(from);
                    }
                    if !before.with(|state| state.parked && state.phase == Phase::Waiting) {
                        continue; // It was woken, or is about to look itself.
                    }
                    let known = reached.iter().position(|other| Arc::ptr_eq(&other.waiter, before));
                    if known.is_some_and(|known| reached[known].followed) {
                        continue;
                    }
                    let at = known.unwrap_or(reached.len());
                    if known.is_none() {
                        reached.push(Reached { waiter: before.clone(), from, followed: true });
                    }
                    reached[at].followed = true;
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
            if reached.iter().all(|other| !Arc::ptr_eq(&other.waiter, &session)) {
                reached.push(Reached { waiter: session, from: at, followed: false });
            }
        }
        None
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
