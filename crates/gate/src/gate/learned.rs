//! Expected times of statements, by their fingerprints.
//!
//! **Invariant:** memory is bounded: when it is full, it forgets the statements that were not seen since the last time
//! it was full.

use std::collections::HashMap;

/// Number of different statements that are kept apart.
const STATEMENTS_MAX: usize = 4_096;
/// Weight of a new observation against all earlier ones.
const NEWEST: f64 = 1.0 / 16.0;

#[derive(Clone, Copy, Debug)]
struct ExpectedTime {
    ns: f64,
    /// Round in which the statement was seen last.
    round: u32,
}

/// Means that forget old observations.
#[derive(Debug, Default)]
pub(super) struct Learned {
    statements: HashMap<u64, ExpectedTime>,
    round: u32,
}

impl Learned {
    /// Returns the expected time of the statement, in nanoseconds; none if it is not known.
    pub(super) fn expected_ns(&self, fingerprint: u64) -> Option<f64> {
        self.statements.get(&fingerprint).map(|expected| expected.ns)
    }

    /// Records the time that the statement has taken.
    pub(super) fn learn(&mut self, fingerprint: u64, ns: f64) {
        let round = self.round;
        if let Some(expected) = self.statements.get_mut(&fingerprint) {
            expected.ns += (ns - expected.ns) * NEWEST;
            expected.round = round;
            return;
        }
        if STATEMENTS_MAX <= self.statements.len() {
            self.statements.retain(|_, expected| expected.round == round);
            self.round += 1;
            if STATEMENTS_MAX <= self.statements.len() {
                // Every statement was in use: none is worth more than another.
                self.statements.clear();
            }
        }
        self.statements.insert(fingerprint, ExpectedTime { ns, round: self.round });
    }
}
