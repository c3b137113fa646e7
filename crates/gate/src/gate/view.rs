//! What a gate shows of itself.

use super::entry::{State, Ticket};
use super::times::Times;
use super::{Class, Gate};
use crate::settings::ClassId;
use std::time::Duration;

/// What has happened, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
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

/// Where somebody stands who waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whereabouts {
    /// How many go before it, about.
    pub ahead: usize,
    /// How long it will wait yet, about: at the speed of late.
    pub expected: Duration,
}

/// One class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassView {
    /// Its name.
    pub name: String,
    /// Slots that it has.
    pub slots: u32,
    /// Transactions that wait, those for hot keys included.
    pub waiting: usize,
    /// Of them, those that wait for hot keys.
    pub held_back: usize,
    /// Transactions that wait for their clients and have lent their slots.
    pub lent: usize,
    /// Transactions that have come, those that were turned away left out.
    pub arrived: u64,
    /// Transactions that have done what they were for.
    pub done: u64,
    /// Transactions that have failed.
    pub failed: u64,
    /// Times outside.
    pub wait: Times,
    /// Times active inside.
    pub inside: Times,
    /// Times in which it was the client's turn.
    pub idle: Times,
    /// The mean work of a transaction in seconds of a processor.
    pub demand: f64,
    /// Its squared coefficient of variation.
    pub c2: f64,
}

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The limit.
    pub mpl: u32,
    /// Slots in use.
    pub slots: u32,
    /// Of them, extra ones.
    pub extras: u32,
    /// Transactions that the gate knows.
    pub transactions: usize,
    /// Each class.
    pub classes: Vec<ClassView>,
    /// What has happened.
    pub counters: Counters,
}

impl Gate {
    /// What there is to see: a copy, so that whoever looks holds nobody up.
    pub fn view(&self) -> View {
        let class = |(class, settings): (&Class, &crate::settings::ClassSettings)| ClassView {
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

    /// How many have done what they were for.
    pub fn done(&self) -> u64 {
        self.classes.iter().map(|class| class.done).sum()
    }

    /// Where somebody stands; nothing if it does not wait.
    pub fn whereabouts(&self, ticket: Ticket) -> Option<Whereabouts> {
        let entry = self.entries.get(ticket)?;
        let own = match entry.state {
            State::HeldBack => self.classes[entry.class.index()].queue.len(),
            state if state.is_queued() => self.classes[entry.class.index()].queue.before(entry.place),
            _ => return None,
        };
        let ahead = self.ahead_in_level(entry.class, own);
        Some(Whereabouts { ahead, expected: self.expected_wait(ahead) })
    }

    /// How many go before one who comes now.
    pub(super) fn ahead_of_all(&self, id: ClassId) -> usize {
        self.ahead_in_level(id, self.classes[id.index()].queue.len())
    }

    /// How many go before one with so many of its own class before it: all of the levels above, and of other classes of its
    /// level as many as their weights say.
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

    pub(super) fn expected_wait(&self, ahead: usize) -> Duration {
        Duration::from_nanos(((ahead + 1) as f64 * self.interval_ns) as u64)
    }
}
