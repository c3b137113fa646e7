//! Grouping and aggregates.
//!
//! **Invariant:** a grouping set without columns has one group, even without rows. Rows for DISTINCT or ordered
//! aggregates are kept until the end of the group.

use super::hash_table::RowTable;
use super::order::order_of;
use super::{Flow, RowSink, RowStack, Run};
use query::plan::{AggregateCall, Expr, Plan};
use statement::bulk::Bulk;
use statement::error::SqlResult;
use statement::holdings::MemoryUse;
use statement::pulse;
use types::Kind;
use types::datum::Datum;
use types::ops::Accumulator;

/// State of an aggregate in one group.
pub(super) enum GroupAggregate {
    Direct(Accumulator),
    /// Distinct arguments.
    Distinct(RowTable),
    /// Sort keys and arguments.
    Ordered(Bulk<(Vec<Datum>, Vec<Datum>)>),
}

impl GroupAggregate {
    pub(super) fn new(call: &AggregateCall) -> GroupAggregate {
        if call.is_distinct {
            GroupAggregate::Distinct(RowTable::new(call.argument_kinds.clone()))
        } else if call.order.is_empty() {
            GroupAggregate::Direct(call.aggregate.start())
        } else {
            GroupAggregate::Ordered(Bulk::new())
        }
    }

    /// Returns the result, without changing the state.
    pub(super) fn finish(&self, run: &Run<'_>, call: &AggregateCall) -> SqlResult<Datum> {
        let mut accumulator = call.aggregate.start();
        match self {
            GroupAggregate::Direct(accumulator) => return accumulator.clone().finish(),
            GroupAggregate::Distinct(table) => {
                // The sort keys are arguments then.
                let keyed = |at: usize| {
                    let row = table.row(at);
                    let rows = RowStack { row, outer: None };
                    let values = call.order.iter().map(|key| run.value(&key.value, &rows));
                    Ok((values.collect::<SqlResult<Vec<_>>>()?, row))
                };
                let mut all = (0..table.len()).map(keyed).collect::<SqlResult<Vec<_>>>()?;
                pulse::sort_by(&mut all, |(left, _), (right, _)| order_of(left, right, &call.order))?;
                for (_, arguments) in all {
                    accumulator.add(arguments)?;
                }
            }
            GroupAggregate::Ordered(rows) => {
                let mut all: Vec<&(Vec<Datum>, Vec<Datum>)> = rows.iter().collect();
                pulse::sort_by(&mut all, |(left, _), (right, _)| order_of(left, right, &call.order))?;
                for (_, arguments) in all {
                    accumulator.add(arguments)?;
                }
            }
        }
        accumulator.finish()
    }
}

/// Groups of one grouping set.
struct GroupTable<'s> {
    /// Columns of the set; `None` for all columns, without grouping sets.
    set: Option<&'s [usize]>,
    table: RowTable,
    /// States of all aggregates, group after group.
    states: Vec<GroupAggregate>,
}

impl Run<'_> {
    /// Adds a row to an aggregate.
    pub(super) fn accumulate(
        &self,
        call: &AggregateCall,
        state: &mut GroupAggregate,
        rows: &RowStack<'_>,
        buffer: &mut Vec<Datum>,
    ) -> SqlResult<()> {
        if let Some(filter) = &call.filter
            && !self.holds(filter, rows)?
        {
            return Ok(());
        }
        buffer.clear();
        for argument in &call.arguments {
            buffer.push(self.value(argument, rows)?);
        }
        match state {
            GroupAggregate::Direct(accumulator) => accumulator.add(buffer),
            GroupAggregate::Distinct(table) => {
                if table.put(buffer)?.1 {
                    self.keep(MemoryUse::HashTables, buffer)?;
                }
                Ok(())
            }
            GroupAggregate::Ordered(all) => {
                let arguments = RowStack { row: buffer, outer: None };
                let over = if call.orders_arguments { &arguments } else { rows };
                let keys = call.order.iter().map(|key| self.value(&key.value, over)).collect::<SqlResult<Vec<_>>>()?;
                self.keep(MemoryUse::HashTables, buffer)?;
                self.keep(MemoryUse::HashTables, &keys)?;
                all.push((keys, buffer.clone()));
                Ok(())
            }
        }
    }

    pub(super) fn aggregate(
        &self,
        input: &Plan,
        groups: &[(Expr, Kind)],
        sets: Option<&[Vec<usize>]>,
        calls: &[AggregateCall],
        outer: Option<&RowStack<'_>>,
        each: &mut RowSink<'_>,
    ) -> SqlResult<Flow> {
        let kinds: Vec<Kind> = groups.iter().map(|(_, kind)| *kind).collect();
        let start = |set: Option<&'_ [usize]>| {
            let kinds = match set {
                Some(set) => set.iter().filter_map(|at| kinds.get(*at).copied()).collect(),
                None => kinds.clone(),
            };
            RowTable::new(kinds)
        };
        let mut all: Vec<GroupTable<'_>> = match sets {
            None => vec![GroupTable { set: None, table: start(None), states: Vec::new() }],
            Some(sets) => sets
                .iter()
                .map(|set| GroupTable { set: Some(set), table: start(Some(set)), states: Vec::new() })
                .collect(),
        };
        for one in &mut all {
            // A set without columns has a group even without rows.
            if one.set.map_or(groups.is_empty(), <[usize]>::is_empty) {
                one.table.put(&[])?;
                one.states.extend(calls.iter().map(GroupAggregate::new));
            }
        }
        let mut values: Vec<Datum> = Vec::with_capacity(groups.len());
        let mut key: Vec<Datum> = Vec::new();
        let mut buffer: Vec<Datum> = Vec::new();
        let of_groups = groups.iter().map(|(group, _)| group);
        let mut exprs = of_groups.chain(calls.iter().flat_map(|call| &call.arguments));
        let _ = self.rows_for(input, outer, &mut exprs, &mut |row| {
            let rows = RowStack { row, outer };
            values.clear();
            for (group, _) in groups {
                values.push(self.value(group, &rows)?);
            }
            for one in &mut all {
                let (number, is_new) = match one.set {
                    None => one.table.put(&values)?,
                    Some(set) => {
                        key.clear();
                        key.extend(set.iter().filter_map(|at| values.get(*at).cloned()));
                        one.table.put(&key)?
                    }
                };
                if is_new {
                    self.keep(MemoryUse::HashTables, &values)?;
                    one.states.extend(calls.iter().map(GroupAggregate::new));
                }
                let states = &mut one.states[number * calls.len()..];
                for (call, state) in calls.iter().zip(states) {
                    self.accumulate(call, state, &rows, &mut buffer)?;
                }
            }
            Ok(Flow::Continue(()))
        })?;
        let mut row: Vec<Datum> = Vec::new();
        for (set_number, one) in all.iter().enumerate() {
            for number in 0..one.table.len() {
                row.clear();
                match one.set {
                    None => row.extend_from_slice(one.table.row(number)),
                    Some(set) => {
                        row.resize(groups.len(), Datum::Null);
                        for (at, value) in set.iter().zip(one.table.row(number)) {
                            row[*at] = value.clone();
                        }
                    }
                }
                for (call, state) in calls.iter().zip(&one.states[number * calls.len()..]) {
                    row.push(state.finish(self, call)?);
                }
                if one.set.is_some() {
                    row.push(Datum::Int4(set_number as i32));
                }
                if each(&row)?.is_break() {
                    return Ok(Flow::Break(()));
                }
            }
        }
        Ok(Flow::Continue(()))
    }
}
