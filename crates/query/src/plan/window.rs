//! Window functions.

use super::{AggregateCall, Expr, SortKey};
use types::Kind;
use types::ops::Eval;

/// Call of a window function.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct WindowCall {
    pub function: WindowFunction,
    pub arguments: Vec<Expr>,
    pub partition: Vec<(Expr, Kind)>,
    pub order: Vec<SortKey>,
    pub frame: Frame,
}

impl WindowCall {
    /// Returns the expressions over the row for modification.
    pub(crate) fn parts_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let WindowCall { function, arguments, partition, order, frame: _ } = self;
        let inner = function.aggregate_mut().map(AggregateCall::parts_mut);
        arguments
            .iter_mut()
            .chain(inner.into_iter().flatten())
            .chain(partition.iter_mut().map(|(value, _)| value))
            .chain(order.iter_mut().map(|key| &mut key.value))
    }
}

/// Window function.
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
    /// Aggregate over the rows of the frame; the call has its arguments.
    Aggregate(Box<AggregateCall>),
}

impl WindowFunction {
    /// Returns the aggregate, if it is one.
    pub(crate) fn aggregate(&self) -> Option<&AggregateCall> {
        match self {
            WindowFunction::Aggregate(call) => Some(call),
            WindowFunction::RowNumber
            | WindowFunction::Rank
            | WindowFunction::DenseRank
            | WindowFunction::PercentRank
            | WindowFunction::CumeDist
            | WindowFunction::Ntile
            | WindowFunction::Lag
            | WindowFunction::Lead
            | WindowFunction::FirstValue
            | WindowFunction::LastValue
            | WindowFunction::NthValue => None,
        }
    }

    /// Returns the aggregate, if it is one, for modification.
    pub(crate) fn aggregate_mut(&mut self) -> Option<&mut AggregateCall> {
        match self {
            WindowFunction::Aggregate(call) => Some(call),
            WindowFunction::RowNumber
            | WindowFunction::Rank
            | WindowFunction::DenseRank
            | WindowFunction::PercentRank
            | WindowFunction::CumeDist
            | WindowFunction::Ntile
            | WindowFunction::Lag
            | WindowFunction::Lead
            | WindowFunction::FirstValue
            | WindowFunction::LastValue
            | WindowFunction::NthValue => None,
        }
    }
}

/// Frame: the rows around the current row over which a window function is computed.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Frame {
    pub unit: FrameUnit,
    pub start: FrameBound,
    pub end: FrameBound,
    pub exclude: Exclude,
}

/// Rows that are excluded from a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exclude {
    /// No row.
    #[default]
    NoOthers,
    /// Current row.
    CurrentRow,
    /// Current row and its peers.
    Group,
    /// Peers of the current row.
    Ties,
}

/// Unit of a frame.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum FrameUnit {
    Rows,
    /// Groups of peers.
    Groups,
    /// Values of the single sort key, with the operators for offsets, if there are any.
    Range(Option<RangeSteps>),
}

/// Operators that compute the ends of a RANGE frame.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct RangeSteps {
    pub minus: Eval,
    pub plus: Eval,
    /// Type of the offset.
    pub offset: Kind,
}

/// End of a frame.
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
    /// Returns the offset of `PRECEDING` or `FOLLOWING`.
    pub fn offset(&self) -> Option<&Expr> {
        match self {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => Some(offset),
            FrameBound::UnboundedPreceding | FrameBound::CurrentRow | FrameBound::UnboundedFollowing => None,
        }
    }
}
