//! Choice of the class that goes next.
//!
//! In this order: a class below its minimum; then levels, strictly, except that a class from which no transaction has
//! been admitted for long counts as a higher one, before those that belong there; then weighted shares among classes of
//! one level.
//!
//! Ageing admits one at a time and not before its period has passed again, so it bounds the wait of the lowest class
//! and the loss of the highest: of a queue of thousands that are old, the important do not stand behind all. Shares are
//! of the time in slots: each class has an account of the time used, divided by its weight, and the smallest goes next
//! (start-time fair queueing, Goyal, Vin and Cheng 1996). The expected use of a transaction is charged at admission,
//! and corrected when it leaves.
//!
//! **Invariant:** as long as a slot is free and a class that may have it waits, one is admitted.

use crate::settings::{ClassSettings, SlotLimit};
use std::time::Duration;

/// State of a class that wants a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    pub(super) settings: &'a ClassSettings,
    /// Number of slots that the class has.
    pub(super) slots: u32,
    /// Time in slots over weight.
    pub(super) used: f64,
    /// Time that the first of the class has waited.
    pub(super) waited: Duration,
    /// Time since which none has been admitted from its subqueue; zero while a transaction admitted from there by ageing is
    /// inside.
    pub(super) aged: Duration,
}

impl Candidate<'_> {
    /// Returns true if the class may have one more slot at all.
    fn may(&self) -> bool {
        !matches!(self.settings.slots_max, SlotLimit::Strict(most) if most <= self.slots)
    }

    /// Returns true if the class gives way to any other that may have one.
    fn yields(&self) -> bool {
        matches!(self.settings.slots_max, SlotLimit::Yielding(most) if most <= self.slots)
    }

    fn is_below_minimum(&self) -> bool {
        self.slots < self.settings.slots_min
    }

    fn is_raised(&self, ageing: Option<Duration>) -> bool {
        self.level(ageing) < self.settings.level
    }

    fn level(&self, ageing: Option<Duration>) -> u8 {
        let raised = match ageing {
            // Most wait for less: two comparisons cost less than a division.
            Some(ageing) if !ageing.is_zero() && ageing <= self.aged => self.aged.as_nanos() / ageing.as_nanos(),
            _ => 0,
        };
        self.settings.level.saturating_sub(u8::try_from(raised).unwrap_or(u8::MAX))
    }
}

/// Returns the candidate that goes next, by its place, and whether it does because none of it has for long.
pub(super) fn next<'a>(
    candidates: impl Iterator<Item = (usize, Candidate<'a>)>,
    ageing: Option<Duration>,
) -> Option<(usize, bool)> {
    let key = |candidate: &Candidate<'_>| {
        let level = candidate.level(ageing);
        (candidate.yields(), !candidate.is_below_minimum(), level, level == candidate.settings.level)
    };
    let before = |a: &Candidate<'_>, b: &Candidate<'_>| {
        let shares = || match (a.is_raised(ageing), b.is_raised(ageing)) {
            (true, true) => b.waited.cmp(&a.waited),
            _ => a.used.total_cmp(&b.used).then(b.waited.cmp(&a.waited)),
        };
        key(a).cmp(&key(b)).then_with(shares)
    };
    let next = candidates.filter(|(_, candidate)| candidate.may()).min_by(|(_, a), (_, b)| before(a, b));
    next.map(|(index, candidate)| (index, candidate.is_raised(ageing)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(level: u8) -> ClassSettings {
        ClassSettings::new("a", level)
    }

    fn candidate(settings: &ClassSettings) -> Candidate<'_> {
        Candidate { settings, slots: 0, used: 0.0, waited: Duration::ZERO, aged: Duration::ZERO }
    }

    fn first(candidates: &[Candidate<'_>], ageing: Option<Duration>) -> Option<usize> {
        next(candidates.iter().copied().enumerate(), ageing).map(|(index, _)| index)
    }

    #[test]
    fn levels_are_strict_until_somebody_has_waited_long() {
        let (low, high) = (class(2), class(0));
        let mut waiting = [candidate(&low), candidate(&high)];
        assert_eq!(first(&waiting, None), Some(1));
        // What it had before does not count.
        (waiting[0].aged, waiting[0].used) = (Duration::from_secs(2), 1e9);
        let ageing = Some(Duration::from_secs(1));
        assert_eq!(next(waiting.iter().copied().enumerate(), ageing), Some((0, true)), "it has come to the same level");
        assert_eq!(first(&waiting, None), Some(1));
        (waiting[0].waited, waiting[0].aged) = (Duration::from_secs(60), Duration::from_millis(1_999));
        assert_eq!(first(&waiting, Some(Duration::from_secs(1))), Some(1));
    }

    #[test]
    fn a_class_below_its_minimum_goes_before_all() {
        let (low, high) = (ClassSettings { slots_min: 2, ..class(2) }, class(0));
        let mut waiting = [candidate(&low), candidate(&high)];
        assert_eq!(first(&waiting, None), Some(0));
        waiting[0].slots = 2;
        assert_eq!(first(&waiting, None), Some(1));
    }

    #[test]
    fn a_maximum_yields_or_holds() {
        let (low, high) = (ClassSettings { slots_max: SlotLimit::Yielding(1), ..class(0) }, class(2));
        let full = Candidate { slots: 1, ..candidate(&low) };
        assert_eq!(first(&[full, candidate(&high)], None), Some(1));
        assert_eq!(first(&[full], None), Some(0), "no slot stays empty");
        let strict = ClassSettings { slots_max: SlotLimit::Strict(1), ..class(0) };
        assert_eq!(first(&[Candidate { slots: 1, ..candidate(&strict) }], None), None);
        assert_eq!(first(&[candidate(&strict)], None), Some(0));
    }

    #[test]
    fn who_has_used_least_of_its_share_goes_first() {
        let one = class(1);
        let (a, b) = (Candidate { used: 2.0, ..candidate(&one) }, Candidate { used: 1.0, ..candidate(&one) });
        assert_eq!(first(&[a, b], None), Some(1));
    }
}
