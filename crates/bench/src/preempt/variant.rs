//! The policies that are compared, `preempt` with each choice of rungs.

use sched::{Policy, Rungs};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Policy and the rungs by which it reaches a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Policy: the moments at which urgent work may run.
    pub policy: Policy,
    /// Rungs by which `preempt` delivers; the other policies ignore them.
    pub rungs: Rungs,
}

impl Variant {
    /// Policy `preempt` with both rungs.
    pub const PREEMPT: Variant = Variant { policy: Policy::Preempt, rungs: Rungs::Both };

    /// Every variant, the slowest first.
    pub const ALL: [Variant; 7] = [
        Variant { policy: Policy::Wait, rungs: Rungs::Both },
        Variant { policy: Policy::Boundary, rungs: Rungs::Both },
        Variant { policy: Policy::Yield, rungs: Rungs::Both },
        Variant { policy: Policy::Preempt, rungs: Rungs::Poll },
        Variant { policy: Policy::Preempt, rungs: Rungs::Signal },
        Variant::PREEMPT,
        Variant { policy: Policy::Thread, rungs: Rungs::Both },
    ];

    /// Returns the name in arguments and figures.
    pub fn name(self) -> &'static str {
        match (self.policy, self.rungs) {
            (Policy::Preempt, Rungs::Poll) => "preempt_poll",
            (Policy::Preempt, Rungs::Signal) => "preempt_signal",
            (policy, _) => policy.name(),
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(name: &str) -> Result<Variant, String> {
        Variant::ALL.into_iter().find(|variant| variant.name() == name).ok_or_else(|| {
            let names = Variant::ALL.map(Variant::name).join(", ");
            format!("unknown policy \"{name}\": it is one of {names}")
        })
    }
}

impl Serialize for Variant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
