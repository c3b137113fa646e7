//! Entries of a folder: those that are seen, and those that are durable.

use super::survival::{Chooser, SurvivingItem};
use std::collections::BTreeMap;

/// Thing that a name of a folder means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// File of this number.
    File(usize),
    Folder,
}

/// Entries of a folder.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    pub(super) now: BTreeMap<String, Entry>,
    durable: BTreeMap<String, Entry>,
    /// Changes since the last sync, in order.
    pending: Vec<EntryChange>,
}

#[derive(Clone, Debug)]
enum EntryChange {
    Remove(String),
    /// New name of an entry, which may have had another one.
    Put {
        name: String,
        entry: Entry,
        before: Option<String>,
    },
}

impl EntryChange {
    fn apply(&self, to: &mut BTreeMap<String, Entry>) {
        match self {
            EntryChange::Remove(name) => {
                to.remove(name);
            }
            EntryChange::Put { name, entry, before } => {
                if let Some(before) = before {
                    to.remove(before);
                }
                to.insert(name.clone(), *entry);
            }
        }
    }
}

impl Entries {
    fn change(&mut self, change: EntryChange) {
        change.apply(&mut self.now);
        self.pending.push(change);
    }

    pub(super) fn put(&mut self, name: &str, entry: Entry) {
        self.change(EntryChange::Put { name: name.to_owned(), entry, before: None });
    }

    pub(super) fn rename(&mut self, from: &str, to: &str, entry: Entry) {
        self.change(EntryChange::Put { name: to.to_owned(), entry, before: Some(from.to_owned()) });
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.change(EntryChange::Remove(name.to_owned()));
    }

    pub(super) fn sync(&mut self) {
        let durable = &mut self.durable;
        self.pending.drain(..).for_each(|change| change.apply(durable));
    }

    /// Returns the folder after a crash.
    pub(super) fn after_crash(&self, chooser: &mut Chooser) -> Entries {
        let mut left = self.durable.clone();
        self.pending.iter().filter(|_| chooser.keeps(SurvivingItem::Entry)).for_each(|change| change.apply(&mut left));
        Entries { now: left.clone(), durable: left, pending: Vec::new() }
    }
}
