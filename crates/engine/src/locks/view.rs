//! The lock table for people: [`crate::Engine::locks`].

use super::Holders;
use super::entry::Foreign;
use super::key::Wanted;
use super::mode::Mode;
use super::tally::class_of;
use super::waiter::Phase;
use super::{LockStats, LockTable};
use crate::engine::Inner;
use crate::raw::open::OpenSlot;
use preempt::Region;
use stage::Class;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A lock that a transaction has, or a place in a queue. What is in the rows themselves (changes, the end of a transaction) is
/// among them where somebody waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockView {
    /// The table, if a table or a row of it is locked.
    pub table: Option<String>,
    /// Its number, as [`crate::Table::number`] says.
    pub table_number: Option<u32>,
    /// The row.
    pub row: Option<u64>,
    /// The mode, as in SQL; `transaction` for the wait for a transaction's end.
    pub mode: &'static str,
    /// Whether it is had rather than waited for.
    pub granted: bool,
    /// Whether the wait is over, and the session on its way: it keeps its place until it has what it waited for.
    pub woken: bool,
    /// The transaction, as [`crate::Txn::id`] says.
    pub transaction: u64,
    /// The name of its session, if it has one and is still open.
    pub session: Option<Arc<str>>,
    /// Its class, if it is still open.
    pub class: Option<Class>,
    /// The transactions that have what is waited for, or whose end it is, and then those that stand before it in the queue and
    /// exclude it.
    pub blocked_by: Vec<u64>,
}

impl LockTable {
    pub(crate) fn view(&self, inner: &Inner, holders: &dyn Holders) -> Vec<LockView> {
        let tables = inner.tables.all();
        let name = |id: u32| tables.iter().find(|table| table.id == id).map(|table| table.name().to_owned());
        let open = inner.registry.open_slots().into_iter();
        let whose = |slot: OpenSlot| (slot.owner, (inner.sessions.name(slot.session), class_of(slot.importance)));
        let open: HashMap<u64, _> = open.map(whose).collect();
        let mut all = Vec::new();
        for stripe in &self.stripes {
            let region = Region::enter();
            let stripe = stripe.lock(&region);
            for (key, entry) in &stripe.entries {
                let one = |mode: Mode, transaction| {
                    let (session, class) = open.get(&transaction).cloned().unzip();
                    let Wanted { table, row, mode } = key.wanted(mode);
                    LockView {
                        table: table.and_then(name),
                        table_number: table,
                        row,
                        mode,
                        granted: true,
                        woken: false,
                        transaction,
                        session: session.flatten(),
                        class,
                        blocked_by: Vec::new(),
                    }
                };
                let foreign = Foreign::of(*key, &inner.registry, holders);
                let is_waited_for = !entry.queue().is_empty();
                let elsewhere = foreign.all().iter().filter(|_| is_waited_for);
                all.extend(entry.granted.iter().chain(elsewhere).map(|granted| one(granted.mode, granted.owner)));
                all.extend(entry.queue().iter().enumerate().map(|(position, place)| {
                    let mut blocked_by = Vec::new();
                    entry.each_owner(&foreign, position, &mut |owner| blocked_by.push(owner));
                    let before = (0..position).filter(|before| entry.must_let_pass(&foreign, position, *before));
                    blocked_by.extend(before.map(|before| entry.queue()[before].owner));
                    let mut known = HashSet::new();
                    blocked_by.retain(|owner| known.insert(*owner));
                    LockView {
                        granted: false,
                        woken: place.waiter.with(|state| state.phase != Phase::Waiting),
                        session: Some(Arc::from(&*place.waiter.name)),
                        class: Some(class_of(place.importance)),
                        blocked_by,
                        ..one(place.mode, place.owner)
                    }
                }));
            }
        }
        all
    }

    pub(crate) fn stats(&self) -> LockStats {
        self.tally.read(self.entries(), self.waiting() as u64)
    }
}
