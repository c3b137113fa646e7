//! View of the lock table: [`crate::Engine::locks`].

use super::Holders;
use super::entry::{Foreign, Granted, LockEntry, Who, is_session};
use super::key::{Advisory, Key, WantedLock};
use super::mode::Mode;
use super::tally::class_of;
use super::waiter::Phase;
use super::{LockStats, LockTable};
use crate::raw::open::OpenSlot;
use crate::raw::slots::Registry;
use crate::schema::tables::Tables;
use preempt::Region;
use stage::Class;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A lock that a transaction has, or a place in a queue. Locks in the rows themselves (changes, the end of a
/// transaction) are included where a session waits for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockView {
    /// Table, if a table or a row of it is locked.
    pub table: Option<String>,
    /// Number of the table, as [`crate::Table::number`] returns it.
    pub table_number: Option<u32>,
    /// Row.
    pub row: Option<u64>,
    /// Number of the application's own, if that is locked.
    pub advisory: Option<Advisory>,
    /// Mode, as in SQL; `transaction` for the wait for a transaction's end.
    pub mode: &'static str,
    /// True if the lock is held rather than waited for.
    pub granted: bool,
    /// True if the wait is over, and the session on its way: it keeps its place until it has the lock that it waited
    /// for.
    pub woken: bool,
    /// Transaction, as [`crate::Txn::id`] returns it. A lock that outlives transactions has a number of its session
    /// here, which no transaction has.
    pub transaction: u64,
    /// True if the lock outlives the transaction.
    pub of_session: bool,
    /// Name of the session, if there is one and it is still open.
    pub session: Option<Arc<str>>,
    /// Class of the session, if it is still open.
    pub class: Option<Class>,
    /// Transactions that hold the awaited lock, or whose end is awaited, and then those that stand before it in the
    /// queue and exclude it.
    pub blocked_by: Vec<u64>,
}

impl LockTable {
    /// Returns all locks and places in queues. `name_of` gives the names of sessions that are open.
    pub(crate) fn view(
        &self,
        tables: &Tables,
        registry: &Registry,
        name_of: impl Fn(u64) -> Option<Arc<str>>,
        holders: &dyn Holders,
    ) -> Vec<LockView> {
        let tables = tables.all();
        let name = |id: u32| tables.iter().find(|table| table.id == id).map(|table| table.name().to_owned());
        let mut all = Vec::new();
        for stripe in &self.stripes {
            // Copied under the latch, and looked at outside: a queue may be thousands long.
            let copies: Vec<Copied> = {
                let region = Region::enter();
                let stripe = stripe.lock(&region);
                stripe.entries.iter().map(|(key, entry)| Copied::of(*key, entry, registry, holders)).collect()
            };
            for copied in copies {
                copied.tell(&name, &mut all);
            }
        }
        // Transactions that have begun since are included, and one that has ended belongs to no session.
        let whose = |slot: OpenSlot| (slot.owner, (name_of(slot.session), class_of(slot.importance)));
        let open: HashMap<u64, _> = registry.open_slots().into_iter().map(whose).collect();
        for lock in all.iter_mut().filter(|lock| lock.granted) {
            if lock.of_session {
                lock.session = name_of(lock.transaction);
                continue;
            }
            let (session, class) = open.get(&lock.transaction).cloned().unzip();
            (lock.session, lock.class) = (session.flatten(), class);
        }
        all
    }

    pub(crate) fn stats(&self) -> LockStats {
        self.tally.read(self.entries(), self.waiting() as u64)
    }
}

/// Copy of an entry.
struct Copied {
    key: Key,
    /// Locks that are elsewhere too, if a session waits for them.
    granted: Vec<Granted>,
    queue: Vec<CopiedPlace>,
}

struct CopiedPlace {
    owner: u64,
    session_number: u64,
    mode: Mode,
    session: Arc<str>,
    class: Class,
    woken: bool,
    /// True if it has the lock in another mode: then it waits for no place.
    has_it: bool,
}

impl Copied {
    fn of(key: Key, entry: &LockEntry, registry: &Registry, holders: &dyn Holders) -> Copied {
        let foreign = Foreign::of(key, registry, holders);
        let queue = entry.queue().iter().map(|place| CopiedPlace {
            owner: place.owner,
            mode: place.mode,
            session: Arc::from(&*place.waiter.name),
            class: class_of(place.importance),
            woken: place.waiter.with(|state| state.phase != Phase::Waiting),
            has_it: entry.has(&foreign, place.who()),
            session_number: place.waiter.id,
        });
        let queue: Vec<CopiedPlace> = queue.collect();
        let elsewhere = foreign.all().iter().filter(|_| !queue.is_empty());
        Copied { key, granted: entry.granted.iter().chain(elsewhere).copied().collect(), queue }
    }

    fn tell(self, name: &dyn Fn(u32) -> Option<String>, all: &mut Vec<LockView>) {
        let one = |mode: Mode, transaction| {
            let WantedLock { table, row, transaction: _, advisory, mode } = self.key.wanted(mode);
            LockView {
                table: table.and_then(name),
                table_number: table,
                row,
                advisory,
                mode,
                granted: true,
                woken: false,
                transaction,
                of_session: is_session(transaction),
                session: None,
                class: None,
                blocked_by: Vec::new(),
            }
        };
        all.extend(self.granted.iter().map(|granted| one(granted.mode, granted.owner)));
        for (position, place) in self.queue.iter().enumerate() {
            let who = Who { owner: place.owner, session: place.session_number };
            let excluded = |(owner, mode): &(u64, Mode)| !who.is(*owner) && place.mode.excludes(*mode);
            let holders = self.granted.iter().map(|granted| (granted.owner, granted.mode));
            let before = self.queue[..position].iter().filter(|_| !place.has_it).map(|one| (one.owner, one.mode));
            let mut known = HashSet::new();
            let blocked_by = holders.chain(before).filter(excluded).map(|(owner, _)| owner);
            all.push(LockView {
                granted: false,
                woken: place.woken,
                session: Some(Arc::clone(&place.session)),
                class: Some(place.class),
                blocked_by: blocked_by.filter(|owner| known.insert(*owner)).collect(),
                ..one(place.mode, place.owner)
            });
        }
    }
}
