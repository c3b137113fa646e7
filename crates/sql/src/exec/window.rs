//! Window functions.
//!
//! **Invariant:** rows are returned in the order of the last window, each with the values of all calls. Rows that are
//! equal in a window's order keep their sequence.

use super::aggregate::GroupAggregate;
use super::order::order_of;
use super::{Flow, RowSink, RowStack, Run, expr};
use query::plan::{Exclude, Expr, FrameBound, FrameUnit, Plan, RangeSteps, SortKey, WindowCall, WindowFunction};
use statement::bulk::Bulk;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::holdings::MemoryUse;
use statement::pulse;
use std::cmp::Ordering;
use std::ops::Range;
use types::Kind;
use types::datum::Datum;
use types::ops::{compare, impossible, mistyped};

/// Row with its partition and sort keys in a window.
struct WindowRow {
    number: usize,
    partition: Vec<Datum>,
    order: Vec<Datum>,
}

/// Units of work of placing a row.
const PLACED: usize = 64;

/// Rows of one partition in order, with the peers of each.
struct WindowPartition<'p> {
    rows: &'p [WindowRow],
    peers: Vec<Range<usize>>,
    /// Number of each row's peer group, and the start of each group.
    group_of: Vec<usize>,
    groups: Vec<Range<usize>>,
}

impl<'p> WindowPartition<'p> {
    fn new(rows: &'p [WindowRow], keys: &[SortKey]) -> SqlResult<WindowPartition<'p>> {
        let (mut groups, mut group_of): (Vec<Range<usize>>, Vec<usize>) = (Vec::new(), Vec::new());
        for at in 0..rows.len() {
            pulse::tick(PLACED)?;
            let is_peer = 0 < at && order_of(&rows[at - 1].order, &rows[at].order, keys).is_eq();
            match groups.last_mut() {
                Some(last) if is_peer => last.end = at + 1,
                _ => groups.push(at..at + 1),
            }
            group_of.push(groups.len() - 1);
        }
        let mut peers = Vec::with_capacity(group_of.len());
        for group in &group_of {
            pulse::tick(2)?;
            peers.push(groups[*group].clone());
        }
        Ok(WindowPartition { rows, peers, group_of, groups })
    }
}

/// Returns the rows of a frame, without those excluded.
fn counted(
    exclude: Exclude,
    partition: &WindowPartition<'_>,
    frame: &Range<usize>,
    row: usize,
) -> impl DoubleEndedIterator<Item = usize> {
    let peers = &partition.peers[row];
    let own = row..row + 1;
    let (hole, kept) = match exclude {
        Exclude::NoOthers => (0..0, 0..0),
        Exclude::CurrentRow => (own, 0..0),
        Exclude::Group => (peers.clone(), 0..0),
        Exclude::Ties => (peers.clone(), own),
    };
    let hole = hole.start.clamp(frame.start, frame.end)..hole.end.clamp(frame.start, frame.end);
    let kept = kept.start.clamp(frame.start, frame.end)..kept.end.clamp(frame.start, frame.end);
    (frame.start..hole.start).chain(kept).chain(hole.end..frame.end)
}

/// Offsets of a frame, the same for all rows.
struct FrameOffsets {
    start: Datum,
    end: Datum,
}

impl Run<'_> {
    pub(super) fn windows(
        &self,
        input: &Plan,
        calls: &[WindowCall],
        outer: Option<&RowStack<'_>>,
        each: &mut RowSink<'_>,
    ) -> SqlResult<Flow> {
        let rows = Bulk::from(self.collect_for(MemoryUse::Windows, input, outer)?);
        // Each row has an entry in each window's order, and results.
        let beside = size_of::<WindowRow>() + size_of::<Vec<Datum>>() + calls.len() * size_of::<Datum>();
        pulse::check_room(rows.len() * beside)?;
        let mut results = Bulk::from(Vec::with_capacity(rows.len()));
        for _ in 0..rows.len() {
            pulse::tick(PLACED)?;
            results.push(vec![Datum::Null; calls.len()]);
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        for (at, call) in calls.iter().enumerate() {
            let mut placed = Bulk::from(Vec::with_capacity(rows.len()));
            for (number, row) in rows.iter().enumerate() {
                self.made_row()?;
                let scope = RowStack { row, outer };
                let value = |expr: &Expr| self.value(expr, &scope);
                let partition = call.partition.iter().map(|(expr, _)| value(expr)).collect::<SqlResult<Vec<_>>>()?;
                let keys = call.order.iter().map(|key| value(&key.value)).collect::<SqlResult<Vec<_>>>()?;
                placed.push(WindowRow { number, partition, order: keys });
            }
            let by_partition = |left: &WindowRow, right: &WindowRow| {
                let pairs = left.partition.iter().zip(&right.partition).zip(&call.partition);
                let mut orders = pairs.map(|((left, right), (_, kind))| expr::order(left, right, *kind));
                orders.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
            };
            pulse::sort_by(&mut placed, |left, right| {
                by_partition(left, right).then_with(|| order_of(&left.order, &right.order, &call.order))
            })?;
            for part in placed.chunk_by(|left, right| by_partition(left, right).is_eq()) {
                self.goes_on()?;
                let partition = WindowPartition::new(part, &call.order)?;
                let values = self.window(call, &partition, &rows, outer)?;
                for (placed, value) in part.iter().zip(values) {
                    pulse::tick(1)?;
                    results[placed.number][at] = value;
                }
            }
            order = placed.iter().map(|placed| placed.number).collect();
        }
        let mut wide = Vec::new();
        for number in order {
            self.made_row()?;
            wide.clear();
            wide.extend_from_slice(&rows[number]);
            wide.append(&mut results[number]);
            if each(&wide)?.is_break() {
                return Ok(Flow::Break(()));
            }
        }
        Ok(Flow::Continue(()))
    }

    /// Evaluates a call for the rows of one partition.
    fn window(
        &self,
        call: &WindowCall,
        partition: &WindowPartition<'_>,
        rows: &[Box<[Datum]>],
        outer: Option<&RowStack<'_>>,
    ) -> SqlResult<Bulk<Datum>> {
        let count = partition.rows.len();
        let argument = |at: usize, row: usize| match call.arguments.get(at) {
            Some(argument) => self.value(argument, &RowStack { row: &rows[partition.rows[row].number], outer }),
            None => Ok(Datum::Null),
        };
        let mut values = Bulk::from(Vec::with_capacity(count));
        let mut each = |value: &dyn Fn(usize) -> Datum| {
            (0..count).try_for_each(|row| {
                values.push(value(row));
                pulse::tick(4)
            })
        };
        match &call.function {
            WindowFunction::RowNumber => each(&|row| Datum::Int8(row as i64 + 1))?,
            WindowFunction::Rank => each(&|row| Datum::Int8(partition.peers[row].start as i64 + 1))?,
            WindowFunction::DenseRank => each(&|row| Datum::Int8(partition.group_of[row] as i64 + 1))?,
            WindowFunction::PercentRank => {
                let rank = |start: usize| if count <= 1 { 0.0 } else { start as f64 / (count - 1) as f64 };
                each(&|row| Datum::Float8(rank(partition.peers[row].start)))?;
            }
            WindowFunction::CumeDist => {
                each(&|row| Datum::Float8(partition.peers[row].end as f64 / count as f64))?;
            }
            WindowFunction::Ntile => match argument(0, 0)? {
                Datum::Int4(buckets) if 0 < buckets => ntile(count, buckets as usize, &mut values),
                Datum::Int4(_) => {
                    let message = "argument of ntile must be greater than zero";
                    return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTILE_FUNCTION, message));
                }
                Datum::Null => values.resize(count, Datum::Null),
                other => return Err(mistyped(&other)),
            },
            WindowFunction::Lag | WindowFunction::Lead => {
                let sign = if matches!(call.function, WindowFunction::Lag) { -1 } else { 1 };
                for row in 0..count {
                    pulse::tick(PLACED)?;
                    let offset = match argument(1, row)? {
                        Datum::Int4(offset) => offset,
                        Datum::Null => {
                            values.push(Datum::Null);
                            continue;
                        }
                        other => return Err(mistyped(&other)),
                    };
                    let other = usize::try_from(row as i64 + sign * i64::from(offset)).ok();
                    values.push(match other.filter(|other| *other < count) {
                        Some(other) => argument(0, other)?,
                        None => argument(2, row)?,
                    });
                }
            }
            WindowFunction::FirstValue | WindowFunction::LastValue | WindowFunction::NthValue => {
                let offsets = self.offsets(call, outer)?;
                for row in 0..count {
                    pulse::tick(PLACED)?;
                    let frame = self.frame(call, partition, &offsets, row)?;
                    let mut rows = counted(call.frame.exclude, partition, &frame, row);
                    let wanted = match call.function {
                        WindowFunction::FirstValue => rows.next(),
                        WindowFunction::LastValue => rows.next_back(),
                        _ => match argument(1, row)? {
                            Datum::Int4(number) if 0 < number => rows.nth(number as usize - 1),
                            Datum::Int4(_) => {
                                let message = "argument of nth_value must be greater than zero";
                                return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE_FUNCTION, message));
                            }
                            Datum::Null => None,
                            other => return Err(mistyped(&other)),
                        },
                    };
                    values.push(match wanted {
                        Some(wanted) => argument(0, wanted)?,
                        None => Datum::Null,
                    });
                }
            }
            WindowFunction::Aggregate(aggregate) => {
                let offsets = self.offsets(call, outer)?;
                let mut buffer = Vec::new();
                // Latest state, and the rows that it covers.
                let mut state = GroupAggregate::new(aggregate);
                let mut done = 0..0;
                let mut last: Option<Datum> = None;
                for row in 0..count {
                    pulse::tick(PLACED)?;
                    let frame = self.frame(call, partition, &offsets, row)?;
                    if call.frame.exclude != Exclude::NoOthers {
                        let mut state = GroupAggregate::new(aggregate);
                        for row in counted(call.frame.exclude, partition, &frame, row) {
                            self.made_row()?;
                            let rows = RowStack { row: &rows[partition.rows[row].number], outer };
                            self.accumulate(aggregate, &mut state, &rows, &mut buffer)?;
                        }
                        values.push(state.finish(self, aggregate)?);
                        continue;
                    }
                    if frame.start != done.start || frame.end < done.end {
                        state = GroupAggregate::new(aggregate);
                        done = frame.start..frame.start;
                        last = None;
                    }
                    for row in done.end..frame.end {
                        self.made_row()?;
                        let rows = RowStack { row: &rows[partition.rows[row].number], outer };
                        self.accumulate(aggregate, &mut state, &rows, &mut buffer)?;
                        last = None;
                    }
                    done = frame;
                    let value = match last.take() {
                        Some(value) => value,
                        None => state.finish(self, aggregate)?,
                    };
                    last = Some(value.clone());
                    values.push(value);
                }
            }
        }
        Ok(values)
    }

    fn offsets(&self, call: &WindowCall, outer: Option<&RowStack<'_>>) -> SqlResult<FrameOffsets> {
        let offset = |bound: &FrameBound, which: &str| {
            let Some(offset) = bound.offset() else { return Ok(Datum::Null) };
            let value = self.value(offset, &RowStack { row: &[], outer })?;
            let (state, what) = match &value {
                Datum::Null => (SqlState::NULL_VALUE_NOT_ALLOWED, "null"),
                Datum::Int8(number) if *number < 0 && !matches!(call.frame.unit, FrameUnit::Range(_)) => {
                    (SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE, "negative")
                }
                _ => return Ok(value),
            };
            Err(SqlError::new(state, format!("frame {which} offset must not be {what}")))
        };
        Ok(FrameOffsets { start: offset(&call.frame.start, "starting")?, end: offset(&call.frame.end, "ending")? })
    }

    /// Returns the frame of a row.
    fn frame(
        &self,
        call: &WindowCall,
        partition: &WindowPartition<'_>,
        offsets: &FrameOffsets,
        row: usize,
    ) -> SqlResult<Range<usize>> {
        let count = partition.rows.len();
        let start = match &call.frame.start {
            FrameBound::UnboundedPreceding => 0,
            FrameBound::UnboundedFollowing => count,
            bound @ (FrameBound::Preceding(_) | FrameBound::CurrentRow | FrameBound::Following(_)) => {
                self.edge(call, partition, bound, &offsets.start, row, true)?
            }
        };
        let end = match &call.frame.end {
            FrameBound::UnboundedPreceding => 0,
            FrameBound::UnboundedFollowing => count,
            bound @ (FrameBound::Preceding(_) | FrameBound::CurrentRow | FrameBound::Following(_)) => {
                self.edge(call, partition, bound, &offsets.end, row, false)?
            }
        };
        Ok(start.min(count)..end.min(count).max(start.min(count)))
    }

    /// Returns the start or the end of a frame.
    fn edge(
        &self,
        call: &WindowCall,
        partition: &WindowPartition<'_>,
        bound: &FrameBound,
        offset: &Datum,
        row: usize,
        is_start: bool,
    ) -> SqlResult<usize> {
        let steps = match (bound, offset) {
            (FrameBound::Preceding(_), Datum::Int8(offset)) => -i128::from(*offset),
            (FrameBound::Following(_), Datum::Int8(offset)) => i128::from(*offset),
            (FrameBound::CurrentRow, _) => 0,
            // RANGE with an offset: see `range_edge`.
            (_, _) if matches!(call.frame.unit, FrameUnit::Range(_)) => 0,
            (_, other) => return Err(mistyped(other)),
        };
        let limited = |at: i128, count: usize| usize::try_from(at.max(0)).unwrap_or(usize::MAX).min(count);
        match &call.frame.unit {
            FrameUnit::Rows => Ok(limited(row as i128 + steps + i128::from(!is_start), partition.rows.len())),
            FrameUnit::Groups => {
                let group = partition.group_of[row] as i128 + steps;
                let groups = &partition.groups;
                Ok(match usize::try_from(group) {
                    Err(_) => 0,
                    Ok(group) => match groups.get(group) {
                        Some(peers) if is_start => peers.start,
                        Some(peers) => peers.end,
                        None => partition.rows.len(),
                    },
                })
            }
            FrameUnit::Range(None) => {
                let peers = &partition.peers[row];
                Ok(if is_start { peers.start } else { peers.end })
            }
            FrameUnit::Range(Some(range)) => match bound {
                FrameBound::CurrentRow => {
                    let peers = &partition.peers[row];
                    Ok(if is_start { peers.start } else { peers.end })
                }
                bound @ (FrameBound::UnboundedPreceding
                | FrameBound::Preceding(_)
                | FrameBound::Following(_)
                | FrameBound::UnboundedFollowing) => {
                    self.range_edge(call, partition, (bound, offset, range), row, is_start)
                }
            },
        }
    }

    /// Returns the first row whose value is not before the bound; for an end, the row behind the last whose value is
    /// not after it.
    fn range_edge(
        &self,
        call: &WindowCall,
        partition: &WindowPartition<'_>,
        (bound, offset, range): (&FrameBound, &Datum, &RangeSteps),
        row: usize,
        is_start: bool,
    ) -> SqlResult<usize> {
        let (Some(key), Some(own)) = (call.order.first(), partition.rows[row].order.first()) else { return Ok(row) };
        let zero = match range.offset {
            Kind::Int8 => Datum::Int8(0),
            Kind::Numeric => Datum::Numeric(types::numeric::Numeric::ZERO),
            Kind::Float8 => Datum::Float8(0.0),
            Kind::Interval => Datum::Interval(types::interval::Interval::default()),
            other => return Err(impossible(&format!("a frame's offset of type {}", other.name()))),
        };
        let is_negative = match (own, offset) {
            // Only the time of day counts, not months and days.
            (Datum::Time(_), Datum::Interval(offset)) => offset.micros < 0,
            (_, Datum::Float8(offset)) => offset.is_nan() || *offset < 0.0,
            (_, Datum::Numeric(offset)) if offset.is_nan() => true,
            _ => compare(offset, &zero, range.offset).is_lt(),
        };
        if is_negative {
            return Err(SqlError::new(
                SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE,
                "invalid preceding or following size in window function",
            ));
        }
        if own.is_null() {
            let peers = &partition.peers[row];
            return Ok(if is_start { peers.start } else { peers.end });
        }
        let is_less = matches!(bound, FrameBound::Preceding(_)) != key.descending;
        // `None` is beyond the range of the type, and so beyond all values.
        let step = |own: i64, offset: i64| {
            let limit = if is_less { own.checked_sub(offset) } else { own.checked_add(offset) };
            limit.map_or(Datum::Null, Datum::Int8)
        };
        let limit = match (own, offset) {
            (Datum::Int2(own), Datum::Int8(offset)) => step((*own).into(), *offset),
            (Datum::Int4(own), Datum::Int8(offset)) => step((*own).into(), *offset),
            (Datum::Int8(own), Datum::Int8(offset)) => step(*own, *offset),
            (Datum::Float4(own), Datum::Float8(offset)) => Datum::Float8(stepped((*own).into(), *offset, is_less)),
            (Datum::Float8(own), Datum::Float8(offset)) => Datum::Float8(stepped(*own, *offset, is_less)),
            (Datum::Time(own), Datum::Interval(offset)) => Datum::Time(match is_less {
                true => own.saturating_sub(offset.micros),
                false => own.saturating_add(offset.micros),
            }),
            _ => {
                let eval = if is_less { &range.minus } else { &range.plus };
                eval.call(&[own.clone(), offset.clone()], self.env)?
            }
        };
        // Infinity plus or minus infinity is no bound.
        let is_nowhere = |value: &Datum| match value {
            Datum::Float8(value) => value.is_nan(),
            Datum::Numeric(value) => value.is_nan(),
            _ => false,
        };
        if is_nowhere(&limit) && !is_nowhere(&as_float8(own)) {
            // NaN sorts behind all other values, and stays behind or before the bound.
            let is_before = |placed: &WindowRow| match placed.order.first() {
                None => false,
                Some(value) if value.is_null() => key.nulls_first,
                Some(value) => is_nowhere(&as_float8(value)) && key.descending,
            };
            let is_behind = |placed: &WindowRow| match placed.order.first() {
                None => false,
                Some(value) if value.is_null() => !key.nulls_first,
                Some(value) => is_nowhere(&as_float8(value)) && !key.descending,
            };
            return Ok(match is_start {
                true => partition.rows.partition_point(is_before),
                false => partition.rows.partition_point(|placed| !is_behind(placed)),
            });
        }
        // Nulls are at one end of the order, and only in frames of nulls.
        let is_before = |other: &WindowRow| match other.order.first() {
            None => false,
            Some(value) if value.is_null() => key.nulls_first,
            Some(value) => {
                let order = match key.kind {
                    _ if limit.is_null() && is_less => Ordering::Greater,
                    _ if limit.is_null() => Ordering::Less,
                    Kind::Float4 => compare(&as_float8(value), &limit, Kind::Float8),
                    kind => compare(value, &limit, kind),
                };
                let order = if key.descending { order.reverse() } else { order };
                if is_start { order.is_lt() } else { order.is_le() }
            }
        };
        Ok(partition.rows.partition_point(is_before))
    }
}

fn stepped(own: f64, offset: f64, is_less: bool) -> f64 {
    if is_less { own - offset } else { own + offset }
}

fn as_float8(value: &Datum) -> Datum {
    match value {
        Datum::Float4(value) => Datum::Float8((*value).into()),
        other => other.clone(),
    }
}

/// Returns the bucket numbers; the first buckets may have one row more.
fn ntile(count: usize, buckets: usize, values: &mut Vec<Datum>) {
    let (size, larger) = (count / buckets, count % buckets);
    for row in 0..count {
        let in_larger = larger * (size + 1);
        let bucket = if row < in_larger { row / (size + 1) } else { larger + (row - in_larger) / size.max(1) };
        values.push(Datum::Int4(bucket as i32 + 1));
    }
}
