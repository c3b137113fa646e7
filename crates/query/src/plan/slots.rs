//! Sets of slots of a row, and those that an expression or a plan reads.

use super::walk::{Child, exprs_of, parts_of};
use super::{Expr, Plan};
use statement::error::SqlResult;

/// Words of [`Slots`] that are processed in a unit of work.
const WORDS: usize = 8;

/// First number of placeholder columns, for values that have no slot yet.
pub(crate) const PLACEHOLDERS: usize = 1 << 40;

/// Set of slots of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    bits: Vec<u64>,
    /// True if an enclosing query's column is read, too.
    pub looks_out: bool,
}

impl Slots {
    /// Set of adjacent slots.
    pub fn range(first: usize, width: usize) -> Slots {
        let mut slots = Slots::default();
        (first..first + width).for_each(|slot| slots.add(slot));
        slots
    }

    /// Adds a slot.
    pub fn add(&mut self, slot: usize) {
        if PLACEHOLDERS <= slot {
            return;
        }
        let word = slot / 64;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (slot % 64);
    }

    /// Adds all slots of another set.
    pub fn add_all(&mut self, other: &Slots) {
        let _ = statement::pulse::walk(other.bits.len() / WORDS);
        if self.bits.len() < other.bits.len() {
            self.bits.resize(other.bits.len(), 0);
        }
        self.bits.iter_mut().zip(&other.bits).for_each(|(word, other)| *word |= other);
    }

    pub(crate) fn remove_all(&mut self, other: &Slots) {
        let _ = statement::pulse::walk(other.bits.len() / WORDS);
        self.bits.iter_mut().zip(&other.bits).for_each(|(word, other)| *word &= !other);
    }

    /// True if the slot is in the set.
    pub fn has(&self, slot: usize) -> bool {
        self.bits.get(slot / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    /// True if the set has this slot or a later one.
    pub fn reaches(&self, slot: usize) -> bool {
        let word = slot / 64;
        self.bits.iter().enumerate().skip(word).any(|(at, bits)| {
            let behind = if at == word { u64::MAX << (slot % 64) } else { u64::MAX };
            bits & behind != 0
        })
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|word| *word == 0)
    }

    /// True if the other set has all slots of this one.
    pub fn is_within(&self, other: &Slots) -> bool {
        let _ = statement::pulse::walk(self.bits.len() / WORDS);
        let of = |at: usize| other.bits.get(at).copied().unwrap_or(0);
        self.bits.iter().enumerate().all(|(at, word)| word & !of(at) == 0)
    }

    /// True if the sets have a slot in common.
    pub fn meets(&self, other: &Slots) -> bool {
        let _ = statement::pulse::walk(self.bits.len() / WORDS);
        self.bits.iter().zip(&other.bits).any(|(word, other)| word & other != 0)
    }
}

fn note(expr: &Expr, depth: usize, target: usize, slots: &mut Slots) -> SqlResult<()> {
    match expr {
        Expr::Column(column) if depth == target => slots.add(*column),
        Expr::Outer { level, column } if level + target == depth => {
            slots.add(*column);
            slots.looks_out |= PLACEHOLDERS <= *column;
        }
        Expr::Outer { level, .. } if depth < level + target => slots.looks_out = true,
        _ => {}
    }
    parts_of(expr, depth, &mut |part, depth| note(part, depth, target, slots))
}

/// Returns the slots of its row that an expression reads.
pub fn slots_of(expr: &Expr) -> Slots {
    let mut slots = Slots::default();
    // The error is dropped: the walk fails only if the statement is cancelled, which the next check finds again.
    let _ = note(expr, 0, 0, &mut slots);
    slots
}

/// Returns the slots that a plan reads of the row `depth` queries outside of its own rows; `depth` is at least 1.
pub(crate) fn slots_of_plan(plan: &Plan, depth: usize) -> Slots {
    let mut slots = Slots::default();
    let _ = exprs_of(plan, depth, &mut |part, depth| note(part, depth, 0, &mut slots));
    slots
}

/// Adds the slots of the joined row that a child of a FROM clause reads: an expression over the row, or a lateral
/// subquery.
pub(crate) fn add_child(slots: &mut Slots, child: Child<'_>, deeper: usize) {
    match child {
        Child::Expr(expr) => slots.add_all(&slots_of(expr)),
        // A subquery without LATERAL cannot refer to the row.
        Child::Plan(plan) if 0 < deeper => slots.add_all(&slots_of_plan(plan, deeper)),
        Child::Plan(_) => {}
    }
}
