//! Objects that a session keeps by name, and the unnamed one, with their weights in bytes.
//!
//! **Invariant:** the empty name stands for the unnamed object. The total weight is the sum over all objects.

use std::collections::HashMap;

pub(crate) struct Names<T> {
    unnamed: Option<(T, usize)>,
    named: HashMap<Box<str>, (T, usize)>,
    weight: usize,
}

impl<T> Names<T> {
    pub(crate) fn new() -> Names<T> {
        Names { unnamed: None, named: HashMap::new(), weight: 0 }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) }.map(|(value, _)| value)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        if name.is_empty() { self.unnamed.as_mut() } else { self.named.get_mut(name) }.map(|(value, _)| value)
    }

    /// Stores a value, in place of the one of this name.
    pub(crate) fn put(&mut self, name: &str, value: T, weight: usize) {
        let before = if name.is_empty() {
            self.unnamed.replace((value, weight))
        } else {
            self.named.insert(name.into(), (value, weight))
        };
        self.weight = self.weight.saturating_add(weight).saturating_sub(before.map_or(0, |(_, weight)| weight));
    }

    /// Removes a value, and returns it with its weight.
    pub(crate) fn take(&mut self, name: &str) -> Option<(T, usize)> {
        let taken = if name.is_empty() { self.unnamed.take() } else { self.named.remove(name) }?;
        self.weight = self.weight.saturating_sub(taken.1);
        Some(taken)
    }

    /// Returns true if a name, not the empty one, is taken.
    pub(crate) fn has_named(&self, name: &str) -> bool {
        !name.is_empty() && self.named.contains_key(name)
    }

    pub(crate) fn clear(&mut self) {
        self.unnamed = None;
        if !self.named.is_empty() {
            self.named = HashMap::new();
        }
        self.weight = 0;
    }

    /// Returns the approximate weight in bytes of all but the unnamed object.
    pub(crate) fn weight_of_named(&self) -> usize {
        self.weight.saturating_sub(self.unnamed.as_ref().map_or(0, |(_, weight)| *weight))
    }

    /// Returns the approximate weight in bytes of all objects.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }
}
