//! `sum` and `avg`, for many groups at once.
//!
//! **Invariant:** sums of integers and numerics are exact, in 128 bits; a sum that does not fit is an error. An average
//! is PostgreSQL's quotient of numerics, with its scale. Values whose scales differ from row to row are stored at the
//! largest scale, and their sum has the largest scale that was met: `sum(case when ... then 1.50 else 0 end)` is `0` if
//! only the zeros were met.

use super::defined::{self, AggregateBody};
use super::outwards;
use crate::values::{Repr, array, mismatch};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, Int64Builder,
};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{Accumulator, AggregateUDF, EmitTo, GroupsAccumulator};
use statement::{SqlError, SqlResult, SqlState};
use std::fmt::Debug;
use std::sync::Arc;
use types::numeric::Numeric;
use types::{Datum, Kind};

/// Sum or average, with the representations of its values and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sum {
    /// Representation of the values.
    pub(crate) of: SumRepr,
    /// True if the sum is divided by the number of values.
    pub(crate) average: bool,
    pub(crate) result: Repr,
}

/// Representation of summed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SumRepr {
    /// Integers of 64 bits.
    Integers,
    /// Decimals of this scale.
    Decimals(u8),
    /// Decimals of this scale; a second argument, of 64 bits, is the actual scale of each.
    Mixed(u8),
    Floats,
}

impl Sum {
    /// Returns the aggregate as DataFusion has it.
    pub(crate) fn function(self) -> AggregateUDF {
        defined::aggregate(self)
    }

    fn groups(self) -> Box<dyn GroupsAccumulator> {
        match self.of {
            SumRepr::Floats => Box::new(GroupSums::<f64>::new(self)),
            SumRepr::Integers | SumRepr::Decimals(_) | SumRepr::Mixed(_) => Box::new(GroupSums::<i128>::new(self)),
        }
    }
}

impl AggregateBody for Sum {
    fn name(&self) -> &str {
        if self.average { "avg" } else { "sum" }
    }

    fn arguments_count(&self) -> usize {
        match self.of {
            SumRepr::Mixed(_) => 2,
            SumRepr::Integers | SumRepr::Decimals(_) | SumRepr::Floats => 1,
        }
    }

    fn result(&self) -> DataType {
        self.result.data_type()
    }

    fn state(&self, of: &str) -> Vec<FieldRef> {
        let total = match self.of {
            SumRepr::Floats => DataType::Float64,
            SumRepr::Integers | SumRepr::Decimals(_) | SumRepr::Mixed(_) => state_type(),
        };
        let field = |part: &str, kind: DataType| Arc::new(Field::new(format!("{of}[{part}]"), kind, true));
        let mut fields = vec![field("total", total), field("count", DataType::Int64)];
        if let SumRepr::Mixed(_) = self.of {
            fields.push(field("scale", DataType::Int64));
        }
        fields
    }

    fn one(&self) -> Box<dyn Accumulator> {
        match self.of {
            SumRepr::Floats => Box::new(SingleGroupSum { groups: GroupSums::<f64>::new(*self), indices: Vec::new() }),
            SumRepr::Integers | SumRepr::Decimals(_) | SumRepr::Mixed(_) => {
                Box::new(SingleGroupSum { groups: GroupSums::<i128>::new(*self), indices: Vec::new() })
            }
        }
    }

    fn many(&self) -> Option<Box<dyn GroupsAccumulator>> {
        Some(self.groups())
    }
}

/// Returns the type in which totals are passed on: decimals without a scale, as both sides know theirs.
fn state_type() -> DataType {
    DataType::Decimal128(38, 0)
}

/// Accumulated total of a group.
trait RunningTotal: Copy + Send + Sync + Debug + 'static {
    /// Neutral total: adding any value to it yields the value.
    const NOTHING: Self;
    fn plus(self, other: Self) -> SqlResult<Self>;
    /// Passes on each value of an array that is not null, with its position.
    fn each(array: &dyn Array, to: impl FnMut(usize, Self) -> SqlResult<()>) -> SqlResult<()>;
    fn state(totals: Vec<Self>) -> ArrayRef;
    fn datum(self, count: i64, scale: u8, sum: Sum) -> SqlResult<Datum>;
    /// Returns the totals as the result, if they already are in its form; null where no value was summed.
    fn answer(totals: &[Self], counts: &[i64], sum: Sum) -> Option<ArrayRef>;
}

impl RunningTotal for i128 {
    const NOTHING: i128 = 0;

    #[inline]
    fn plus(self, other: i128) -> SqlResult<i128> {
        self.checked_add(other).ok_or_else(|| SqlError::unsupported("so large a sum as analytics"))
    }

    #[inline]
    fn each(array: &dyn Array, mut to: impl FnMut(usize, i128) -> SqlResult<()>) -> SqlResult<()> {
        if let Some(values) = array.as_primitive_opt::<Decimal128Type>() {
            each_value(values, to)
        } else {
            each_value(array.as_primitive_opt::<Int64Type>().ok_or_else(mismatch)?, |at, value| {
                to(at, i128::from(value))
            })
        }
    }

    fn state(totals: Vec<i128>) -> ArrayRef {
        Arc::new(Decimal128Array::from(totals).with_data_type(state_type()))
    }

    fn datum(self, count: i64, scale: u8, sum: Sum) -> SqlResult<Datum> {
        if sum.average {
            return Ok(Datum::Numeric(Numeric::from_parts(self, u16::from(scale)).div(&Numeric::from(count))?));
        }
        match sum.result {
            Repr::Int8 => i64::try_from(self)
                .map(Datum::Int8)
                .map_err(|_| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range")),
            Repr::Decimal { .. } | Repr::Keyed(Kind::Numeric) => {
                Ok(Datum::Numeric(Numeric::from_parts(self, u16::from(scale))))
            }
            _ => Err(mismatch()),
        }
    }

    fn answer(totals: &[i128], counts: &[i64], sum: Sum) -> Option<ArrayRef> {
        let Sum { of: SumRepr::Decimals(_) | SumRepr::Integers, average: false, result: Repr::Decimal { .. } } = sum
        else {
            return None;
        };
        let both = totals.iter().zip(counts);
        let array: Decimal128Array = both.map(|(total, count)| (*count != 0).then_some(*total)).collect();
        Some(Arc::new(array.with_data_type(sum.result.data_type())))
    }
}

impl RunningTotal for f64 {
    // A sum of negative zeros is a negative zero.
    const NOTHING: f64 = -0.0;

    #[inline]
    fn plus(self, other: f64) -> SqlResult<f64> {
        let sum = self + other;
        if sum.is_infinite() && self.is_finite() && other.is_finite() {
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
        }
        Ok(sum)
    }

    #[inline]
    fn each(array: &dyn Array, to: impl FnMut(usize, f64) -> SqlResult<()>) -> SqlResult<()> {
        each_value(array.as_primitive_opt::<Float64Type>().ok_or_else(mismatch)?, to)
    }

    fn state(totals: Vec<f64>) -> ArrayRef {
        Arc::new(Float64Array::from(totals))
    }

    fn datum(self, count: i64, _: u8, sum: Sum) -> SqlResult<Datum> {
        // PostgreSQL's average begins with zero, and its sum with the first value.
        Ok(Datum::Float8(if sum.average { (0.0 + self) / count as f64 } else { self }))
    }

    fn answer(_: &[f64], _: &[i64], _: Sum) -> Option<ArrayRef> {
        None
    }
}

#[inline]
fn each_value<T: datafusion::arrow::datatypes::ArrowPrimitiveType>(
    values: &datafusion::arrow::array::PrimitiveArray<T>,
    mut to: impl FnMut(usize, T::Native) -> SqlResult<()>,
) -> SqlResult<()> {
    match values.nulls() {
        None => values.values().iter().enumerate().try_for_each(|(at, value)| to(at, *value)),
        Some(nulls) => nulls.valid_indices().try_for_each(|at| to(at, values.value(at))),
    }
}

/// Sums of groups.
#[derive(Debug)]
struct GroupSums<T> {
    sum: Sum,
    totals: Vec<T>,
    counts: Vec<i64>,
    /// Largest scales of the values met; only for mixed scales.
    scales: Vec<u8>,
}

impl<T: RunningTotal> GroupSums<T> {
    fn new(sum: Sum) -> GroupSums<T> {
        GroupSums { sum, totals: Vec::new(), counts: Vec::new(), scales: Vec::new() }
    }

    fn resize(&mut self, groups: usize) {
        self.totals.resize(groups, T::NOTHING);
        self.counts.resize(groups, 0);
        if let SumRepr::Mixed(_) = self.sum.of {
            self.scales.resize(groups, 0);
        }
    }

    fn note_scales(&mut self, scales: &ArrayRef, indices: &[usize], is_wanted: impl Fn(usize) -> bool) -> Result<()> {
        let scales = scales.as_primitive_opt::<Int64Type>().ok_or_else(|| outwards(mismatch()))?;
        for (row, group) in indices.iter().enumerate().filter(|(row, _)| is_wanted(*row)) {
            if scales.is_valid(row) {
                self.scales[*group] = self.scales[*group].max(scales.value(row) as u8);
            }
        }
        Ok(())
    }
}

impl<T: RunningTotal> GroupsAccumulator for GroupSums<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.resize(groups);
        let (totals, counts) = (&mut self.totals[..], &mut self.counts[..]);
        let mut add = |at: usize, value: T| {
            let group = indices[at];
            totals[group] = totals[group].plus(value)?;
            counts[group] += 1;
            Ok(())
        };
        let holds = |at: usize| filter.is_none_or(|filter| filter.is_valid(at) && filter.value(at));
        match filter {
            None => T::each(values[0].as_ref(), &mut add),
            Some(_) => T::each(values[0].as_ref(), |at, value| if holds(at) { add(at, value) } else { Ok(()) }),
        }
        .map_err(outwards)?;
        if let (SumRepr::Mixed(_), Some(scales)) = (self.sum.of, values.get(1)) {
            let valid = |at: usize| values[0].is_valid(at) && holds(at);
            self.note_scales(scales, indices, valid)?;
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], indices: &[usize], groups: usize) -> Result<()> {
        self.resize(groups);
        let (totals, counts) = (&mut self.totals[..], &mut self.counts[..]);
        let more = values[1].as_primitive_opt::<Int64Type>().ok_or_else(|| outwards(mismatch()))?;
        T::each(values[0].as_ref(), |at, value| {
            let group = indices[at];
            totals[group] = totals[group].plus(value)?;
            counts[group] += more.value(at);
            Ok(())
        })
        .map_err(outwards)?;
        match values.get(2) {
            Some(scales) => self.note_scales(scales, indices, |at| 0 < more.value(at)),
            None => Ok(()),
        }
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let (totals, counts) = (emit.take_needed(&mut self.totals), emit.take_needed(&mut self.counts));
        let scales = emit_scales(self.sum, emit, &mut self.scales);
        if let Some(answer) = T::answer(&totals, &counts, self.sum) {
            return Ok(answer);
        }
        let scale = |at: usize| match self.sum.of {
            SumRepr::Decimals(scale) => scale,
            SumRepr::Mixed(_) => scales[at],
            SumRepr::Integers | SumRepr::Floats => 0,
        };
        let all = totals.iter().zip(&counts).enumerate().map(|(at, (total, count))| {
            if *count == 0 {
                return Ok(Datum::Null);
            }
            match self.sum.of {
                SumRepr::Mixed(stored) => {
                    let Datum::Numeric(number) = total.datum(*count, stored, Sum { average: false, ..self.sum })?
                    else {
                        return Err(mismatch());
                    };
                    let number = number.round(i32::from(scale(at)));
                    let average = || number.div(&Numeric::from(*count));
                    Ok(Datum::Numeric(if self.sum.average { average()? } else { number }))
                }
                SumRepr::Integers | SumRepr::Decimals(_) | SumRepr::Floats => total.datum(*count, scale(at), self.sum),
            }
        });
        array(all, self.sum.result).map_err(outwards)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let (totals, counts) = (emit.take_needed(&mut self.totals), emit.take_needed(&mut self.counts));
        let mut all = vec![T::state(totals), Arc::new(Int64Array::from(counts)) as ArrayRef];
        if let SumRepr::Mixed(_) = self.sum.of {
            let scales = emit_scales(self.sum, emit, &mut self.scales);
            all.push(Arc::new(scales.into_iter().map(|scale| Some(i64::from(scale))).collect::<Int64Array>()));
        }
        Ok(all)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values[0].len();
        let mut totals = vec![T::NOTHING; rows];
        let mut counts = Int64Builder::with_capacity(rows);
        let holds = |at: usize| filter.is_none_or(|filter| filter.is_valid(at) && filter.value(at));
        T::each(values[0].as_ref(), |at, value| {
            if holds(at) {
                totals[at] = value;
            }
            Ok(())
        })
        .map_err(outwards)?;
        (0..rows).for_each(|at| counts.append_value(i64::from(values[0].is_valid(at) && holds(at))));
        let mut all = vec![T::state(totals), Arc::new(counts.finish()) as ArrayRef];
        if let (SumRepr::Mixed(_), Some(scales)) = (self.sum.of, values.get(1)) {
            all.push(Arc::clone(scales));
        }
        Ok(all)
    }

    fn size(&self) -> usize {
        self.totals.capacity() * size_of::<T>() + self.counts.capacity() * size_of::<i64>() + self.scales.capacity()
    }
}

fn emit_scales(sum: Sum, emit: EmitTo, scales: &mut Vec<u8>) -> Vec<u8> {
    if matches!(sum.of, SumRepr::Mixed(_)) { emit.take_needed(scales) } else { Vec::new() }
}

/// State of one group.
#[derive(Debug)]
struct SingleGroupSum<T> {
    groups: GroupSums<T>,
    indices: Vec<usize>,
}

impl<T: RunningTotal> SingleGroupSum<T> {
    fn indices(&mut self, values: &[ArrayRef]) {
        self.indices.resize(values.first().map_or(0, |values| values.len()), 0);
    }
}

impl<T: RunningTotal> Accumulator for SingleGroupSum<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.indices(values);
        self.groups.update_batch(values, &self.indices, None, 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // The group exists even without rows.
        self.groups.resize(1);
        ScalarValue::try_from_array(&self.groups.evaluate(EmitTo::All)?, 0)
    }

    fn size(&self) -> usize {
        self.groups.size() + self.indices.capacity() * size_of::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.groups.resize(1);
        self.groups.state(EmitTo::All)?.iter().map(|array| ScalarValue::try_from_array(array, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.indices(states);
        self.groups.merge_batch(states, &self.indices, 1)
    }
}
