//! What a session keeps by name, and the one without.
//!
//! **Invariant:** the empty name is the unnamed one.

use std::collections::HashMap;

pub(crate) struct Names<T> {
    unnamed: Option<T>,
    named: HashMap<Box<str>, T>,
}

impl<T> Names<T> {
    pub(crate) fn new() -> Names<T> {
        Names { unnamed: None, named: HashMap::new() }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) }
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        if name.is_empty() { self.unnamed.as_mut() } else { self.named.get_mut(name) }
    }

    /// Puts it there, in place of what was.
    pub(crate) fn put(&mut self, name: &str, value: T) {
        if name.is_empty() {
            self.unnamed = Some(value);
        } else {
            self.named.insert(name.into(), value);
        }
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<T> {
        if name.is_empty() { self.unnamed.take() } else { self.named.remove(name) }
    }

    /// Whether a name, not the empty one, is taken.
    pub(crate) fn has_named(&self, name: &str) -> bool {
        !name.is_empty() && self.named.contains_key(name)
    }

    pub(crate) fn clear(&mut self) {
        self.unnamed = None;
        self.named.clear();
    }
}
