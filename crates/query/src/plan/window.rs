//! Window functions, as plans have them.

use super::{AggregateCall, Expr, SortKey};
use types::Kind;
use types::ops::Eval;

/// A call of a window function.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct WindowCall {
    pub function: WindowFunction,
    pub arguments: Vec<Expr>,
    pub partition: Vec<(Expr, Kind)>,
    pub order: Vec<SortKey>,
    pub frame: Frame,
}

/// What it computes.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "PostgreSQL's names")]
pub enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    /// Arguments: value, offset, default.
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
    /// Over the frame's rows; the call has its arguments.
    Aggregate(Box<AggregateCall>),
}

/// Which rows around a row it looks at.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Frame {
    pub unit: FrameUnit,
    pub start: FrameBound,
    pub end: FrameBound,
    pub exclude: Exclude,
}

/// Which rows of a frame do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exclude {
    /// All count.
    #[default]
    NoOthers,
    /// The row whose frame it is.
    CurrentRow,
    /// It, and those that are equal to it in the order.
    Group,
    /// Only the latter.
    Ties,
}

/// What a frame counts.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum FrameUnit {
    Rows,
    /// Rows that are equal in the order.
    Groups,
    /// Values of the one key of the order; for offsets, what takes them from a value and adds them.
    Range(Option<RangeSteps>),
}

/// How a `RANGE` frame's ends are computed.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct RangeSteps {
    pub minus: Eval,
    pub plus: Eval,
    /// The offset's kind, and its least value.
    pub offset: Kind,
}

/// An end of a frame.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum FrameBound {
    UnboundedPreceding,
    Preceding(Expr),
    CurrentRow,
    Following(Expr),
    UnboundedFollowing,
}

impl FrameBound {
    /// Offset of `PRECEDING` and `FOLLOWING`.
    pub fn offset(&self) -> Option<&Expr> {
        match self {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => Some(offset),
            FrameBound::UnboundedPreceding | FrameBound::CurrentRow | FrameBound::UnboundedFollowing => None,
        }
    }
}
