//! Grouping.

use super::{Each, Flow, Key, Rows, Run};
use crate::datum::Datum;
use crate::error::SqlResult;
use crate::ops::Accumulator;
use crate::plan::{AggregateCall, Expr, Plan};
use crate::types::Kind;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The aggregates of one group; for DISTINCT ones, the arguments seen.
struct Group<'k> {
    accumulators: Vec<Accumulator>,
    seen: Vec<BTreeSet<Key<'k>>>,
}

impl Run<'_> {
    pub(super) fn aggregate(
        &self,
        input: &Plan,
        groups: &[(Expr, Kind)],
        calls: &[AggregateCall],
        outer: Option<&Rows<'_>>,
        each: &mut Each<'_>,
    ) -> SqlResult<Flow> {
        let kinds: Vec<Kind> = groups.iter().map(|(_, kind)| *kind).collect();
        let start = || Group {
            accumulators: calls.iter().map(|call| call.aggregate.start()).collect(),
            seen: calls.iter().map(|_| BTreeSet::new()).collect(),
        };
        let mut all: BTreeMap<Key<'_>, Group<'_>> = BTreeMap::new();
        if groups.is_empty() {
            // No rows are a group too.
            all.insert(Key { values: Vec::new(), kinds: &kinds }, start());
        }
        self.every(input, outer, &mut |row| {
            let rows = Rows { row, outer };
            let values = groups.iter().map(|(group, _)| self.value(group, &rows)).collect::<SqlResult<_>>()?;
            let group = match all.entry(Key { values, kinds: &kinds }) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(place) => {
                    self.keep(&place.key().values)?;
                    place.insert(start())
                }
            };
            for ((call, accumulator), seen) in calls.iter().zip(&mut group.accumulators).zip(&mut group.seen) {
                if let Some(filter) = &call.filter
                    && !self.holds(filter, &rows)?
                {
                    continue;
                }
                let arguments: Vec<Datum> =
                    call.arguments.iter().map(|argument| self.value(argument, &rows)).collect::<SqlResult<_>>()?;
                let is_new =
                    !call.is_distinct || seen.insert(Key { values: arguments.clone(), kinds: &call.argument_kinds });
                if is_new {
                    accumulator.add(&arguments)?;
                }
            }
            Ok(())
        })?;
        for (key, group) in all {
            let mut row = key.values;
            for accumulator in group.accumulators {
                row.push(accumulator.finish()?);
            }
            if each(&row)?.is_break() {
                return Ok(Flow::Break(()));
            }
        }
        Ok(Flow::Continue(()))
    }
}
