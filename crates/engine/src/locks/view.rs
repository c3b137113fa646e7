//! The lock table for people: [`crate::Engine::locks`].

use super::Holders;
use super::entry::Foreign;
use super::key::Key;
use super::tally::class_of;
use super::waiter::Phase;
use super::{LockStats, LockTable};
use crate::engine::Inner;
use preempt::Region;
use stage::Class;

/// A lock that a transaction has, or a place in a queue. The row locks of changes are not among them: those are in the
/// rows themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockView {
    /// The table, if a table or a row of it is locked.
    pub table: Option<String>,
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
    /// The name of the session that waits.
    pub session: Option<String>,
    /// The class of who waits.
    pub class: Option<Class>,
    /// The transactions that have what is waited for, or whose end it is. None: only others in the queue stand before it.
    pub blocked_by: Vec<u64>,
}

impl LockTable {
    pub(crate) fn view(&self, inner: &Inner, holders: &dyn Holders) -> Vec<LockView> {
        let mut all = Vec::new();
        let tables = inner.tables.all();
        let name = |id: u32| tables.iter().find(|table| table.id == id).map(|table| table.name().to_owned());
        for stripe in &self.stripes {
            let region = Region::enter();
            let stripe = stripe.lock(&region);
            for (key, entry) in &stripe.entries {
                let (table, row) = match *key {
                    Key::Row { table, row } => (Some(table), Some(row)),
                    Key::Table(table) => (Some(table), None),
                    Key::Transaction(_) => (None, None),
                };
                let table = table.and_then(name);
                let one = |mode: &'static str, transaction| LockView {
                    table: table.clone(),
                    row,
                    mode,
                    granted: true,
                    woken: false,
                    transaction,
                    session: None,
                    class: None,
                    blocked_by: Vec::new(),
                };
                all.extend(entry.granted.iter().map(|granted| one(granted.mode.name(), granted.owner)));
                let foreign = Foreign::of(*key, &inner.registry, holders);
                all.extend(entry.queue().iter().enumerate().map(|(position, place)| {
                    let mut blocked_by = Vec::new();
                    entry.each_owner(&foreign, position, &mut |owner| blocked_by.push(owner));
                    blocked_by.dedup();
                    LockView {
                        granted: false,
                        woken: place.waiter.with(|state| state.phase != Phase::Waiting),
                        session: Some(place.waiter.name.clone()),
                        class: Some(class_of(place.importance)),
                        blocked_by,
                        ..one(place.mode.name(), place.owner)
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
