//! Events that happen because time passes: slots are lent, waits and runs end, deadlocks are broken.
//!
//! **Invariant:** a transaction that is due was in one state all the while; one that has moved on is left alone.

use super::entry::{GateEntry, Ticket, TransactionState};
use super::timer::Timer;
use super::{Ending, Event, Gate};
use crate::settings::Reaction;
use crate::time::Time;

impl Gate {
    /// Returns the time at which [`Gate::tick`] has something to do, if nothing else happens before.
    pub fn due(&self) -> Option<Time> {
        let mut due =
            self.settings.stall_patience.filter(|_| 0 < self.queued).map(|patience| self.progress.after(patience));
        let mut also = |timer: &Timer| {
            // Asked after each call; most gates have nothing to time.
            if let Some(next) = timer.next() {
                due = Some(due.map_or(next, |due| due.min(next)));
            }
        };
        also(&self.lend_timer);
        also(&self.return_timer);
        for class in &self.classes {
            also(&class.wait_timer);
            also(&class.run_timer);
        }
        due
    }

    /// Lets time pass: slots are lent, waits end.
    pub fn tick(&mut self, now: Time) {
        self.pass(now);
        while let Some(ticket) = self.lend_timer.pop(now, &self.entries) {
            self.release(ticket);
            self.turn(ticket, TransactionState::Lent);
            self.counters.lent += 1;
            let Some(entry) = self.entries.get_mut(ticket) else { continue };
            self.classes[entry.class.index()].lent += 1;
            // Nor does it hold back those outside that would meet it at its row: its client may be one of them.
            if let Some(key) = entry.hot.take() {
                self.pass_on(key);
            }
        }
        while let Some(ticket) = self.return_timer.pop(now, &self.entries) {
            self.let_in_extra(ticket);
        }
        for index in 0..self.classes.len() {
            self.end_waits(index);
            self.end_runaways(index);
        }
        self.admit();
        self.end_stall();
    }

    /// Refuses the transactions that have waited for too long.
    fn end_waits(&mut self, index: usize) {
        while let Some(ticket) = self.classes[index].wait_timer.pop(self.now, &self.entries) {
            let Some(whereabouts) = self.whereabouts(ticket) else { continue };
            let Some(class) = self.entries.get(ticket).map(|entry| entry.class) else { continue };
            self.leave(self.now, ticket, Ending::Failed);
            self.counters.given_up -= 1;
            self.counters.timed_out += 1;
            self.events.push_back(Event::TimedOut(ticket, class, whereabouts));
        }
    }

    fn end_runaways(&mut self, index: usize) {
        let Some(runaway) = self.settings.classes[index].runaway else { return };
        while let Some(ticket) = self.classes[index].run_timer.pop(self.now, &self.entries) {
            match runaway.reaction {
                Reaction::Demote(to) => {
                    self.counters.demoted += 1;
                    self.reclass(self.now, ticket, to);
                    self.events.push_back(Event::Demoted(ticket, to));
                }
                Reaction::Cancel => {
                    self.counters.cancelled += 1;
                    self.events.push_back(Event::Runaway(ticket));
                }
            }
        }
    }

    /// Resolves a stall: if no transaction makes progress and none is known to be able to, one that waits may be the
    /// one that the others wait for.
    fn end_stall(&mut self) {
        let Some(patience) = self.settings.stall_patience else { return };
        if self.queued == 0 || self.now < self.progress.after(patience) {
            return;
        }
        let holders: Vec<&GateEntry> =
            self.entries.iter().map(|(_, entry)| entry).filter(|entry| entry.state.has_slot()).collect();
        let may_be_stuck = |entry: &GateEntry| {
            !self.settings.knows_stalls || entry.is_stalled || entry.state == TransactionState::Resting
        };
        if !holders.iter().all(|entry| may_be_stuck(entry)) {
            self.progress = self.now;
            return;
        }
        // An owner that is inside, too, with another transaction; else the first one.
        let is_own = |ticket: &Ticket| {
            let own = self.entries.get(*ticket).map_or(0, |entry| entry.owner);
            own != 0 && holders.iter().any(|holder| holder.owner == own)
        };
        let own = self.classes.iter().flat_map(|class| class.queue.runnable()).find(is_own);
        let first = || self.classes.iter().find_map(|class| class.queue.first());
        match own.or_else(first) {
            Some(ticket) => self.let_in_extra(ticket),
            // All of them wait for connections: no slot helps.
            None => self.progress = self.now,
        }
    }
}
