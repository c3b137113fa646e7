//! What the controller did, and why.

use crate::gate::{Estimate, Observation};
use crate::time::Time;
use std::fmt;

/// Why a limit was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// Where the model says, to begin with.
    Model,
    /// One limit says nothing of others, and lower ones are wanted.
    Below,
    /// More may be done there, by the curve: losses are counted from the best.
    BestMayBeThere,
    /// The lowest that keeps the thresholds, by the curve.
    LowestByCurve,
    /// Between one that keeps the thresholds and one that does not.
    Between,
    /// It was seen to keep the thresholds, and the next lower one not to.
    Found {
        /// The share of the best throughput that is lost there, as observed.
        loss: f64,
    },
    /// The lowest at which the mean response grows by no more than it may, by the model.
    Response {
        /// The load, as observed.
        load: f64,
        /// C² of the demands, as observed.
        c2: f64,
        /// It was there already.
        is_there: bool,
    },
    /// The class responds soonest somewhere near.
    SoonestNear,
    /// The class was seen to respond sooner there than at either side.
    Soonest,
    /// It stays as it was.
    Stays,
    /// What was seen is known less well than a limit may cost, so nothing follows from it.
    Unsure {
        /// Half the width of the interval of confidence, over the mean.
        half_width: f64,
        /// The width that would say something.
        wanted: f64,
    },
    /// It is compared with this limit, in turn: seen alone, neither is known well enough.
    InTurn {
        /// The limit that is known.
        with: u32,
    },
    /// The same limit did as well in turn; the next search waits.
    Waits,
    /// The search has lasted long enough: it holds the lowest limit that was seen to keep the thresholds, and looks at lower ones
    /// later.
    Rests,
    /// A comparison was broken off: neither limit held anybody back any more.
    NotBound,
}

impl Reason {
    /// Whether the search is over with it.
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

/// What was seen, in short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Transactions that left.
    pub completions: u64,
    /// In how many seconds.
    pub seconds: f64,
    /// In a second; after a comparison, as sure as its ratio is.
    pub throughput: Estimate,
    /// Mean seconds from arrival to end.
    pub response: Estimate,
    /// The share of the time in which somebody waited.
    pub saturated: f64,
    /// C² of their demands.
    pub c2: f64,
}

impl From<&Observation> for Seen {
    fn from(seen: &Observation) -> Seen {
        Seen {
            completions: seen.completions,
            seconds: seen.lasted.as_secs_f64(),
            throughput: seen.throughput,
            response: seen.response,
            saturated: seen.saturated,
            c2: seen.demand.c2(),
        }
    }
}

/// The end of one observation, and what was done then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// When.
    pub at: Time,
    /// The limit that was observed.
    pub from: u32,
    /// The next one.
    pub to: u32,
    /// Why.
    pub reason: Reason,
    /// What was observed.
    pub seen: Seen,
}
