//! Admission and release: queues and slots.
//!
//! **Invariant:** a transaction with a slot is counted once in all, and once in its class; a waiting one, once in
//! `queued` and in its class's queue.

use super::entry::{GateEntry, Ticket, TransactionState};
use super::queue::QueuePlace;
use super::rooms::PoolId;
use super::shares::{self, Candidate};
use super::window::LeaveFigures;
use super::{ClassState, Ending, Event, Gate};
use crate::settings::{ClassId, SlotLimit};
use crate::time::ns_of;
use std::time::Duration;

impl Gate {
    pub(super) fn state(&self, ticket: Ticket) -> Option<TransactionState> {
        self.entries.get(ticket).map(|entry| entry.state)
    }

    pub(super) fn turn(&mut self, ticket: Ticket, state: TransactionState) {
        let now = self.now;
        if let Some(entry) = self.entries.get_mut(ticket) {
            entry.turn(state, now);
        }
    }

    pub(super) fn weight(&self, id: ClassId) -> f64 {
        f64::from(self.settings.classes[id.index()].weight)
    }

    /// Returns true if one more transaction of this class that needs a connection of this pool may be admitted. No
    /// other can need slot and connection more: one that may have both has them.
    pub(super) fn has_room(&self, id: ClassId, pool: Option<PoolId>) -> bool {
        let is_full = |most| most <= self.classes[id.index()].slots;
        self.slots < self.limit()
            && self.rooms.is_open(pool)
            && !matches!(self.settings.classes[id.index()].slots_max, SlotLimit::Strict(most) if is_full(most))
    }

    pub(super) fn limit(&self) -> u32 {
        self.mpl.saturating_add(self.extras)
    }

    pub(super) fn enqueue(&mut self, ticket: Ticket, place: QueuePlace) {
        let Some(entry) = self.entries.get_mut(ticket) else { return };
        entry.place = place;
        let (id, subqueue, pool) = (entry.class, entry.subqueue(), entry.needs());
        if self.queued == 0 {
            // Before a transaction waited, progress was neither possible nor missing: a stall counts from now.
            self.progress = self.now;
        }
        let class = &self.classes[id.index()];
        if class.queue.is_empty() && class.slots == 0 {
            self.join_level(id);
        }
        self.queued += 1;
        self.classes[id.index()].queue.push(place, ticket, subqueue, self.rooms.is_open(pool));
    }

    /// Joins the accounts of its level. A class that had nothing to do has not saved up for it: it begins where the
    /// others of its level are.
    pub(super) fn join_level(&mut self, id: ClassId) {
        let level = self.settings.classes[id.index()].level;
        let of_level = |index: &usize| *index != id.index() && self.settings.classes[*index].level == level;
        let busy = |class: &&ClassState| 0 < class.slots || !class.queue.is_empty();
        let others = (0..self.classes.len()).filter(of_level).map(|index| &self.classes[index]).filter(busy);
        if let Some(least) = others.map(|class| class.used).min_by(f64::total_cmp) {
            let class = &mut self.classes[id.index()];
            class.used = class.used.max(least);
        }
    }

    pub(super) fn set_wait_timer(&mut self, ticket: Ticket, id: ClassId) {
        self.classes[id.index()].wait_timer.set(self.now, ticket, &self.entries);
    }

    /// Admits every transaction that may be admitted.
    pub(super) fn admit(&mut self) {
        while self.slots < self.limit() && 0 < self.queued {
            let candidates = self.classes.iter().zip(&self.settings.classes).enumerate();
            let candidates = candidates.filter_map(|(index, (class, settings))| {
                let first = self.entries.get(class.queue.first()?)?;
                let waited = self.now.since(first.since);
                let subqueue = first.subqueue();
                let is_served = class.queue.has_aged(subqueue);
                let aged =
                    if is_served { Duration::ZERO } else { waited.min(self.now.since(class.queue.served(subqueue))) };
                Some((index, Candidate { settings, slots: class.slots, used: class.used, waited, aged }))
            });
            let Some((index, is_aged)) = shares::next(candidates, self.settings.ageing) else { return };
            let Some(ticket) = self.classes[index].queue.first() else { return };
            if is_aged && let Some(entry) = self.entries.get_mut(ticket) {
                let subqueue = entry.subqueue();
                entry.aged = Some((entry.class, subqueue));
                self.classes[index].queue.age(subqueue);
            }
            self.dequeue(ticket);
            self.step(index);
            self.let_in(ticket);
            self.events.push_back(Event::Admitted(ticket));
        }
    }

    pub(super) fn dequeue(&mut self, ticket: Ticket) {
        if let Some(entry) = self.entries.get(ticket) {
            self.queued -= 1;
            self.classes[entry.class.index()].queue.remove(entry.place, entry.subqueue());
        }
    }

    /// Counts the admission of a transaction of this class that has waited.
    fn step(&mut self, index: usize) {
        self.pace.step();
        self.classes[index].pace.step();
    }

    pub(super) fn let_in(&mut self, ticket: Ticket) {
        let now = self.now;
        let Some(entry) = self.entries.get_mut(ticket) else { return };
        entry.turn(TransactionState::Inside, now);
        let (id, charged, subqueue) = (entry.class, entry.charged, entry.subqueue());
        self.occupy(ticket);
        self.classes[id.index()].queue.serve(subqueue, now);
        self.slots += 1;
        self.classes[id.index()].slots += 1;
        self.classes[id.index()].used += charged / self.weight(id);
        self.progress = now;
        self.activate(ticket);
    }

    /// Admits a transaction in addition to all that are inside.
    pub(super) fn let_in_extra(&mut self, ticket: Ticket) {
        self.dequeue(ticket);
        self.extras += 1;
        self.counters.extra += 1;
        if let Some(entry) = self.entries.get_mut(ticket) {
            entry.is_extra = true;
        }
        self.let_in(ticket);
        self.events.extend([Event::Extra(ticket), Event::Admitted(ticket)]);
    }

    /// Makes a transaction active.
    pub(super) fn activate(&mut self, ticket: Ticket) {
        let now = self.now;
        let reading = self.meter.begin(now);
        let Some(entry) = self.entries.get_mut(ticket) else { return };
        entry.meter = reading;
        let id = entry.class;
        self.classes[id.index()].run_timer.set(now, ticket, &self.entries);
    }

    /// Ends a transaction's active time.
    pub(super) fn deactivate(&mut self, ticket: Ticket) {
        let reading = self.meter.end(self.now);
        if let Some(entry) = self.entries.get_mut(ticket) {
            entry.demand += reading - entry.meter;
            entry.is_stalled = false;
        }
    }

    /// Frees the transaction's slot.
    pub(super) fn release(&mut self, ticket: Ticket) {
        let Some(entry) = self.entries.get_mut(ticket) else { return };
        self.extras -= u32::from(std::mem::take(&mut entry.is_extra));
        let id = entry.class;
        if let Some((class, subqueue)) = entry.aged.take() {
            self.classes[class.index()].queue.rejuvenate(subqueue);
        }
        // The charge is settled; the transaction is charged anew if it comes back.
        self.slots -= 1;
        self.classes[id.index()].slots -= 1;
        self.progress = self.now;
    }

    /// Lets the next transaction that waits for this key go on to the queue or inside.
    pub(super) fn pass_on(&mut self, key: u64) {
        let Some(next) = self.hot.give_up(key) else { return };
        let Some(entry) = self.entries.get_mut(next) else { return };
        // The transaction stands where it would if it had not been held back, and its wait goes on.
        entry.state = TransactionState::Waiting;
        let (id, place) = (entry.class, entry.place);
        self.classes[id.index()].held_back -= 1;
        self.enqueue(next, place);
    }

    /// Counts the end of a transaction that was inside.
    pub(super) fn count(&mut self, entry: GateEntry, ending: Ending, active_count: u32) {
        let GateEntry { class: id, waited, active, rested, demand, charged, fingerprint, .. } = entry;
        let weight = self.weight(id);
        let class = &mut self.classes[id.index()];
        let taken_ns = ns_of(active) as f64;
        class.used += (taken_ns - charged) / weight;
        class.expected_ns += (taken_ns - class.expected_ns) / 64.0;
        class.wait.record_ns(ns_of(waited));
        class.inside.record_ns(ns_of(active));
        class.idle.record_ns(ns_of(rested));
        if ending == Ending::Failed {
            class.failed += 1;
            self.window.failed();
            return;
        }
        class.done += 1;
        self.totals.left(waited + active);
        class.demand.add(demand / 1e9);
        if let Some(print) = fingerprint {
            self.learned.learn(print, demand);
        }
        let left =
            LeaveFigures { class: id.index(), wait: waited, active, idle: rested, demand_ns: demand, active_count };
        self.window.left(self.now, &left);
    }
}
