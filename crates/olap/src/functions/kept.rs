//! Aggregates of the row path, fed row by row.
//!
//! **Invariant:** parts of a group that were aggregated apart merge without a difference. An aggregate that accepts its
//! own result as input (`min`, `bool_and`, ...) passes on its result so far; any other passes on its rows.

use super::defined::{self, AggregateBody};
use super::outwards;
use crate::values::{ArrayReader, Repr, mismatch, scalar};
use catalog::storage;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{Accumulator, AggregateUDF, GroupsAccumulator};
use engine::Value;
use statement::SqlResult;
use statement::pulse;
use std::cmp::Ordering;
use std::sync::Arc;
use types::ops::{Aggregate, compare};
use types::{Datum, Kind, SqlType};

/// Sort key of an aggregate's input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AggregateOrder {
    pub(crate) kind: Kind,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// Call of an aggregate. Its sort keys follow its own arguments.
#[derive(Clone, Debug)]
pub(crate) struct KeptAggregate {
    pub(crate) aggregate: &'static Aggregate,
    /// Representations of all arguments, sort keys included.
    pub(crate) reprs: Vec<Repr>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) order: Vec<AggregateOrder>,
    pub(crate) is_distinct: bool,
    pub(crate) result: Repr,
}

/// Units of work of a row.
const ROW: usize = 64;

/// Returns true if the aggregate accepts its own result as input.
fn folds(call: &KeptAggregate) -> bool {
    let again = matches!(call.aggregate.name, "min" | "max" | "bool_and" | "bool_or" | "every" | "bit_and" | "bit_or");
    again && call.order.is_empty()
}

impl KeptAggregate {
    /// Returns the aggregate as DataFusion has it.
    pub(crate) fn function(self) -> AggregateUDF {
        defined::aggregate(self)
    }
}

impl AggregateBody for KeptAggregate {
    fn name(&self) -> &str {
        self.aggregate.name
    }

    fn arguments_count(&self) -> usize {
        self.reprs.len()
    }

    fn result(&self) -> DataType {
        self.result.data_type()
    }

    fn state(&self, of: &str) -> Vec<FieldRef> {
        let kind = if folds(self) { self.result.data_type() } else { DataType::Binary };
        vec![Arc::new(Field::new(format!("{of}[state]"), kind, true))]
    }

    fn one(&self) -> Box<dyn Accumulator> {
        Box::new(KeptGroup::new(self.clone()))
    }

    fn many(&self) -> Option<Box<dyn GroupsAccumulator>> {
        None
    }
}

/// State of one group.
#[derive(Debug)]
struct KeptGroup {
    call: KeptAggregate,
    folded: Option<types::ops::Accumulator>,
    rows: Vec<Box<[Datum]>>,
    bytes: usize,
}

impl KeptGroup {
    fn new(call: KeptAggregate) -> KeptGroup {
        let folded = folds(&call).then(|| call.aggregate.start());
        KeptGroup { call, folded, rows: Vec::new(), bytes: 0 }
    }

    fn add(&mut self, row: Box<[Datum]>) -> SqlResult<()> {
        if let Some(folded) = &mut self.folded {
            return folded.add(&row);
        }
        let beside = |value: &Datum| match value {
            Datum::Array(items) => size_of_val(&**items),
            other => other.text_bytes(),
        };
        pulse::tick(ROW)?;
        self.bytes += size_of_val(&*row) + row.iter().map(beside).sum::<usize>();
        self.rows.push(row);
        Ok(())
    }

    fn finish(&mut self) -> SqlResult<Datum> {
        if let Some(folded) = &self.folded {
            return folded.clone().finish();
        }
        let own = self.call.reprs.len() - self.call.order.len();
        let KeptAggregate { order, kinds, .. } = &self.call;
        if !order.is_empty() {
            pulse::sort_by(&mut self.rows, |left, right| {
                let keys = order.iter().zip(left[own..].iter().zip(&right[own..]));
                keys.fold(Ordering::Equal, |before, (key, (left, right))| {
                    before.then_with(|| ordered(left, right, *key))
                })
            })?;
        }
        if self.call.is_distinct {
            let by = |left: &[Datum], right: &[Datum]| {
                let values = kinds[..own].iter().zip(left.iter().zip(right));
                values.fold(Ordering::Equal, |before, (kind, (left, right))| {
                    let key = AggregateOrder { kind: *kind, descending: false, nulls_first: false };
                    before.then_with(|| ordered(left, right, key))
                })
            };
            pulse::sort_by(&mut self.rows, |left, right| by(left, right))?;
            self.rows.dedup_by(|left, right| by(left, right).is_eq());
        }
        let mut accumulator = self.call.aggregate.start();
        self.rows.iter().try_for_each(|row| accumulator.add(&row[..own]))?;
        accumulator.finish()
    }
}

fn ordered(left: &Datum, right: &Datum, key: AggregateOrder) -> Ordering {
    match (left.is_null(), right.is_null()) {
        (false, false) => {
            let order = compare(left, right, key.kind);
            if key.descending { order.reverse() } else { order }
        }
        (left, right) if key.nulls_first => right.cmp(&left),
        (left, right) => left.cmp(&right),
    }
}

/// Encodes rows as bytes: each value as its length in four bytes, or all ones for null, and its keyed form.
fn pack(rows: &[Box<[Datum]>], kinds: &[Kind]) -> SqlResult<Vec<u8>> {
    let mut all = Vec::new();
    let mut buffer = Vec::new();
    for (value, kind) in rows.iter().flat_map(|row| row.iter().zip(kinds)) {
        if value.is_null() {
            all.extend_from_slice(&u32::MAX.to_be_bytes());
            continue;
        }
        // An array of one item is keyed bytes, whatever its item is.
        pulse::tick(ROW)?;
        let item = Datum::Array(Box::new([value.clone()]));
        let (value, kind) = match kind.array_of() {
            Some(array) => (&item, array),
            None => (value, *kind),
        };
        let Value::Keyed(bytes) = storage::store(value, SqlType::from(kind), &mut buffer)? else {
            return Err(mismatch());
        };
        all.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        all.extend_from_slice(bytes);
    }
    Ok(all)
}

fn unpack(mut packed: &[u8], kinds: &[Kind], to: &mut dyn FnMut(Box<[Datum]>) -> SqlResult<()>) -> SqlResult<()> {
    let mut take = |kind: Kind| -> Option<Datum> {
        let (len, rest) = packed.split_first_chunk::<4>()?;
        let len = u32::from_be_bytes(*len);
        if len == u32::MAX {
            packed = rest;
            return Some(Datum::Null);
        }
        let (bytes, rest) = rest.split_at_checked(len as usize)?;
        packed = rest;
        match kind.array_of() {
            Some(array) => match storage::keyed::datum(bytes, array)? {
                Datum::Array(items) => items.into_vec().pop(),
                _ => None,
            },
            None => storage::keyed::datum(bytes, kind),
        }
    };
    loop {
        let mut row = Vec::with_capacity(kinds.len());
        for kind in kinds {
            match take(*kind) {
                Some(value) => row.push(value),
                None if row.is_empty() => return Ok(()),
                None => return Err(mismatch()),
            }
        }
        pulse::tick(ROW)?;
        to(row.into())?;
    }
}

impl Accumulator for KeptGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let readers = values.iter().zip(&self.call.reprs).map(|(array, repr)| ArrayReader::new(array.as_ref(), *repr));
        let readers = readers.collect::<SqlResult<Vec<_>>>().map_err(outwards)?;
        for row in 0..values.first().map_or(0, |array| array.len()) {
            let row = readers.iter().map(|reader| reader.datum(row)).collect::<SqlResult<_>>();
            row.and_then(|row| self.add(row)).map_err(outwards)?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.finish().map_err(outwards)?;
        scalar(&value, self.call.result).map_err(outwards)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        if self.folded.is_some() {
            return Ok(vec![self.evaluate()?]);
        }
        let packed = pack(&self.rows, &self.call.kinds).map_err(outwards)?;
        Ok(vec![ScalarValue::Binary(Some(packed))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(states) = states.first() else { return Ok(()) };
        if self.folded.is_some() {
            let reader = ArrayReader::new(states.as_ref(), self.call.result).map_err(outwards)?;
            return (0..states.len()).try_for_each(|row| self.add(Box::new([reader.datum(row)?]))).map_err(outwards);
        }
        let kinds = self.call.kinds.clone();
        for packed in states.as_binary::<i32>().iter().flatten() {
            unpack(packed, &kinds, &mut |row| self.add(row)).map_err(outwards)?;
        }
        Ok(())
    }
}
