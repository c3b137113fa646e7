//! The log of the controller: its moves, and their reasons.

use crate::gate::{Estimate, Observation};
use crate::time::Time;
use std::fmt;

/// Reason of the choice of a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// The model proposes the limit as the start.
    Model,
    /// One limit says nothing of others, and lower ones are wanted.
    Below,
    /// Throughput may be higher there, by the curve: losses are counted from the best.
    BestMayBeThere,
    /// The limit is the lowest that keeps the thresholds, by the curve.
    LowestByCurve,
    /// The limit is between one that keeps the thresholds and one that does not.
    Between,
    /// The limit was observed to keep the thresholds, and the next lower one not to.
    Found {
        /// Share of the best throughput that is lost there, as observed.
        loss: f64,
    },
    /// The limit is the lowest at which the mean response grows by no more than it may, by the model.
    Response {
        /// Load, as observed.
        load: f64,
        /// C² of the demands, as observed.
        c2: f64,
        /// True if the limit was in force already.
        is_there: bool,
    },
    /// The class responds soonest somewhere near.
    SoonestNear,
    /// The class was observed to respond sooner there than at either side.
    Soonest,
    /// The limit stays.
    Stays,
    /// The observation is less precise than the loss a limit may cost, so nothing follows from it.
    Unsure {
        /// Half the width of the interval of confidence, over the mean.
        half_width: f64,
        /// Width that would be conclusive.
        wanted: f64,
    },
    /// The limit is compared with this one, in turn: observed alone, neither is known well enough.
    InTurn {
        /// Limit that is known.
        with: u32,
    },
    /// The limit that is held did as well in turn; the next search waits.
    Waits,
    /// The search has lasted long enough: it holds the lowest limit that was observed to keep the thresholds, and looks
    /// at lower ones later.
    Rests,
    /// A comparison was broken off: neither limit held anything back any more.
    NotBound,
}

impl Reason {
    /// Returns true if the search ends with this reason.
    pub fn is_final(&self) -> bool {
        matches!(self, Reason::Found { .. } | Reason::Soonest | Reason::Response { is_there: true, .. })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Model => f.write_str("the model starts here"),
            Reason::Below => f.write_str("lower ones may do as much"),
            Reason::BestMayBeThere => f.write_str("more may be done there; losses are counted from the best"),
            Reason::LowestByCurve => f.write_str("the lowest that keeps the thresholds, by the curve"),
            Reason::Between => f.write_str("between one that keeps the thresholds and one that does not"),
            Reason::Found { loss } => write!(f, "it keeps the thresholds, at a loss of {:.1} %", loss * 100.0),
            Reason::Response { load, c2, .. } => {
                write!(f, "the lowest for the mean response at load {load:.2} and C\u{b2} {c2:.1}, by the model")
            }
            Reason::SoonestNear => f.write_str("the class may respond sooner there"),
            Reason::Soonest => f.write_str("the class responds soonest here"),
            Reason::Stays => f.write_str("nothing has changed"),
            Reason::Unsure { half_width, wanted } => {
                let [known, wanted] = [half_width, wanted].map(|width| width * 100.0);
                write!(
                    f,
                    "throughput is known to \u{b1} {known:.0} % only, and \u{b1} {wanted:.0} % are wanted: nothing follows"
                )
            }
            Reason::InTurn { with } => {
                write!(f, "compared in turn with {with}, as the host is not steady enough to see it alone")
            }
            Reason::Rests => f.write_str("it keeps the thresholds; others are looked at later"),
            Reason::NotBound => {
                f.write_str("nobody waits any more, so there is nothing to compare: back to what it was")
            }
            Reason::Waits => {
                f.write_str("other throughput, but the last search for such a reason ended where it began")
            }
        }
    }
}

/// Summary of an observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObservationSummary {
    /// Transactions that left.
    pub completions: u64,
    /// Length in seconds.
    pub seconds: f64,
    /// Transactions per second; after a comparison, as certain as its ratio is.
    pub throughput: Estimate,
    /// Mean seconds from arrival to end.
    pub response: Estimate,
    /// Share of the time in which transactions waited.
    pub saturated: f64,
    /// C² of the demands.
    pub c2: f64,
}

impl From<&Observation> for ObservationSummary {
    fn from(seen: &Observation) -> ObservationSummary {
        ObservationSummary {
            completions: seen.completions,
            seconds: seen.lasted.as_secs_f64(),
            throughput: seen.throughput,
            response: seen.response,
            saturated: seen.saturated,
            c2: seen.demand.c2(),
        }
    }
}

/// End of one observation, and the decision that followed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// Time of the decision.
    pub at: Time,
    /// Limit that was observed.
    pub from: u32,
    /// Next limit.
    pub to: u32,
    /// Reason of the decision.
    pub reason: Reason,
    /// Summary of the observation.
    pub seen: ObservationSummary,
}
