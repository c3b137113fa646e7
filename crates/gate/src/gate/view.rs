//! View of a gate: its state, copied for display.

use super::entry::{Ticket, TransactionState};
use super::times::Times;
use super::{ClassState, Gate};
use crate::settings::ClassId;
use std::time::Duration;

/// Counts of events at the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateCounters {
    /// Slots lent by transactions that waited for their clients.
    pub lent: u64,
    /// Transactions that had to wait because of their hot keys.
    pub held_back: u64,
    /// Extra slots given.
    pub extra: u64,
    /// Transactions turned away because too many waited.
    pub turned_away: u64,
    /// Transactions turned away because they had waited for too long.
    pub timed_out: u64,
    /// Transactions whose clients gave up while they waited.
    pub given_up: u64,
    /// Transactions that ran for too long and are of another class since.
    pub demoted: u64,
    /// Transactions that ran for too long and were to be cancelled.
    pub cancelled: u64,
}

/// Position of a waiting transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whereabouts {
    /// Approximate number of transactions before it.
    pub ahead: usize,
    /// Approximate time that it will still wait: at the recent pace of admission of its class. None where no pace was
    /// seen.
    pub expected: Option<Duration>,
}

/// View of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassView {
    /// Name of the class.
    pub name: String,
    /// Number of slots in use.
    pub slots: u32,
    /// Transactions that wait, those for hot keys included.
    pub waiting: usize,
    /// Transactions that wait for hot keys.
    pub held_back: usize,
    /// Transactions that wait for their clients and have lent their slots.
    pub lent: usize,
    /// Transactions that have arrived, refused ones left out.
    pub arrived: u64,
    /// Transactions that were done.
    pub done: u64,
    /// Transactions that have failed.
    pub failed: u64,
    /// Times outside.
    pub wait: Times,
    /// Times active inside.
    pub inside: Times,
    /// Times that transactions waited for the client.
    pub idle: Times,
    /// Mean work of a transaction in seconds of a processor.
    pub demand: f64,
    /// Squared coefficient of variation of the work.
    pub c2: f64,
}

/// View of the whole gate.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Limit in force.
    pub mpl: u32,
    /// Slots in use.
    pub slots: u32,
    /// Extra slots in use.
    pub extras: u32,
    /// Transactions that the gate knows.
    pub transactions: usize,
    /// View of each class.
    pub classes: Vec<ClassView>,
    /// Counts of events.
    pub counters: GateCounters,
}

impl Gate {
    /// Returns a view of the gate: a copy, so that its reader holds nothing up.
    pub fn view(&self) -> View {
        let class = |(class, settings): (&ClassState, &crate::settings::ClassSettings)| ClassView {
            name: settings.name.clone(),
            slots: class.slots,
            waiting: class.queue.len() + class.held_back,
            held_back: class.held_back,
            lent: class.lent,
            arrived: class.arrived,
            done: class.done,
            failed: class.failed,
            wait: class.wait.clone(),
            inside: class.inside.clone(),
            idle: class.idle.clone(),
            demand: class.demand.mean(),
            c2: class.demand.c2(),
        };
        View {
            mpl: self.mpl,
            slots: self.slots,
            extras: self.extras,
            transactions: self.entries.len(),
            classes: self.classes.iter().zip(&self.settings.classes).map(class).collect(),
            counters: self.counters,
        }
    }

    /// Returns the class of a transaction, and the time that it has been active.
    pub fn active(&self, ticket: Ticket) -> Option<(ClassId, Duration)> {
        let entry = self.entries.get(ticket)?;
        let now = if entry.state == TransactionState::Inside { self.now.since(entry.since) } else { Duration::ZERO };
        Some((entry.class, entry.active + now))
    }

    /// Returns the number of transactions that were done.
    pub fn done(&self) -> u64 {
        self.classes.iter().map(|class| class.done).sum()
    }

    /// Returns the position of a transaction; none if it does not wait.
    pub fn whereabouts(&self, ticket: Ticket) -> Option<Whereabouts> {
        let entry = self.entries.get(ticket)?;
        let (id, place) = (entry.class, entry.place);
        match entry.state {
            // The time that others keep its row says nothing of slots.
            TransactionState::HeldBack => {
                let level = self.settings.classes[id.index()].level;
                let ahead = self.hot.before(entry.hot?, level, place.number(), ticket);
                Some(Whereabouts { ahead, expected: None })
            }
            TransactionState::Waiting | TransactionState::Returning => {
                Some(self.behind(id, self.classes[id.index()].queue.before(place)))
            }
            TransactionState::Inside
            | TransactionState::Resting
            | TransactionState::Lent
            | TransactionState::Asking => None,
        }
    }

    /// Returns the position of a transaction that has `own` transactions of its own class before it.
    pub(super) fn behind(&self, id: ClassId, own: usize) -> Whereabouts {
        Whereabouts { ahead: self.ahead_in_level(id, own), expected: self.expected_wait(id, own) }
    }

    /// Returns the recent interval of admission of the class, times its position: transactions that go before it
    /// meanwhile, as long as they go on coming as they have, and bounds on slots are contained in that. Those of levels
    /// above that wait now come before, at the pace of all.
    fn expected_wait(&self, id: ClassId, own: usize) -> Option<Duration> {
        let level = self.settings.classes[id.index()].level;
        let classes = self.settings.classes.iter().zip(&self.classes);
        let above: usize =
            classes.filter(|(settings, _)| settings.level < level).map(|(_, class)| class.queue.len()).sum();
        let above_ns = if above == 0 { 0.0 } else { self.pace.interval_ns()? * above as f64 };
        let own_ns = self.classes[id.index()].pace.interval_ns()? * (own + 1) as f64;
        Some(Duration::from_nanos((above_ns + own_ns) as u64))
    }

    /// Returns the number of transactions before one with `own` of its own class before it: all of the levels above,
    /// and of other classes of its level as many as their weights say.
    fn ahead_in_level(&self, id: ClassId, own: usize) -> usize {
        let mine = &self.settings.classes[id.index()];
        let others =
            self.settings.classes.iter().zip(&self.classes).enumerate().filter(|(index, _)| *index != id.index());
        let ahead = others.map(|(_, (settings, class))| {
            if settings.level < mine.level {
                class.queue.len()
            } else if settings.level == mine.level {
                let share = (own + 1) * settings.weight as usize / mine.weight as usize;
                class.queue.len().min(share)
            } else {
                0
            }
        });
        own + ahead.sum::<usize>()
    }
}
