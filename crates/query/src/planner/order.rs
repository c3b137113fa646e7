//! Join order: a greedy choice of the cheapest next input, as far as the sizes of tables tell.
//!
//! Inputs that constants find come first, then inputs that an index finds by the rows before them, then hash tables.
//! The order need not be that of the statement: inner joins commute, and an outer join may be anywhere after its left
//! side.

use super::access::{self, AccessRank, AccessTarget};
use super::sizes::TableSizes;
use super::steps::{Condition, conditions, key_of};
use crate::plan::{Expr, InputKind, JoinInput, Slots};
use statement::pulse;

/// Assumed number of rows of an input that is not a table.
const ROWS_OF_OTHERS: u64 = 64;

/// Estimates the cost of the next step; lower is better.
fn cost(rank: AccessRank, has_keys: bool, is_filtered: bool, is_first: bool, rows_bound: u64) -> u64 {
    let size = u64::from(u64::BITS - rows_bound.leading_zeros()) + 1;
    match rank {
        AccessRank { is_point: true, .. } => 1,
        AccessRank { equal, .. } if 0 < equal => 3,
        AccessRank { next, .. } if 0 < next && is_first => 4 + size,
        _ if has_keys => 20 + size,
        AccessRank { next, .. } if 0 < next => 30 + size,
        _ if is_first => {
            if is_filtered {
                10 + 2 * size
            } else {
                12 + 2 * size
            }
        }
        _ => 200 + size,
    }
}

/// Maximal number of inputs for which each is tried as the first.
const TRIED_MAX: usize = 6;

/// Maximal number of pairs of input and condition that the search considers. With more inputs, each step tries only the
/// next ones in the order of the statement, so that planning time stays linear.
const PAIRS_MAX: usize = 1_000_000;

/// Returns the order in which the inputs are joined, given the slots that are known before them.
pub(super) fn order_of(items: &[JoinInput], all: &[Condition], known: &Slots, sizes: &mut TableSizes) -> Vec<usize> {
    if items.len() <= 1 {
        return (0..items.len()).collect();
    }
    let rows = |input: &JoinInput| match &input.kind {
        InputKind::Table(table) => sizes.of(&table.table),
        InputKind::Query { .. } | InputKind::Functions { .. } | InputKind::Group(_) | InputKind::Full { .. } => {
            ROWS_OF_OTHERS
        }
    };
    let rows: Vec<u64> = items.iter().map(rows).collect();
    let search = JoinOrderSearch { inputs: items, rows: &rows, conditions: all };
    let firsts: Vec<Option<usize>> =
        if items.len() <= TRIED_MAX { (0..items.len()).map(Some).collect() } else { vec![None] };
    let tried = firsts.into_iter().filter_map(|first| search.greedy(known, first));
    tried.min_by_key(|(cost, _)| *cost).map_or_else(|| (0..items.len()).collect(), |(_, order)| order)
}

/// Search for a join order.
struct JoinOrderSearch<'s> {
    inputs: &'s [JoinInput],
    /// Number of rows of each input.
    rows: &'s [u64],
    conditions: &'s [Condition],
}

impl JoinOrderSearch<'_> {
    /// Returns the order in which each next input is the cheapest, with its cost. It starts with the given input;
    /// `None` if that cannot be the first.
    fn greedy(&self, known: &Slots, first: Option<usize>) -> Option<(u64, Vec<usize>)> {
        let count = self.inputs.len();
        let mut known = known.clone();
        let mut order: Vec<usize> = Vec::with_capacity(count);
        let mut total = 0;
        let window = (PAIRS_MAX / (count * (self.conditions.len() + 1))).max(1);
        let mut rest: Vec<usize> = (0..count).collect();
        while order.len() < count {
            pulse::walk(rest.len()).ok()?;
            let next = rest
                .iter()
                .copied()
                .filter(|at| !order.is_empty() || first.is_none_or(|first| first == *at))
                .filter(|at| self.inputs[*at].can_follow(&known))
                .take(window)
                .map(|at| (self.step_cost(at, &known, order.is_empty()), at))
                .min()?;
            total += next.0;
            known.add_all(&self.inputs[next.1].own());
            order.push(next.1);
            rest.retain(|at| *at != next.1);
        }
        Some((total, order))
    }

    fn step_cost(&self, at: usize, known: &Slots, is_first: bool) -> u64 {
        let _ = pulse::walk(64 + self.conditions.len());
        let input = &self.inputs[at];
        let own = input.own();
        let mut reach = known.clone();
        reach.add_all(&own);
        let on: Vec<Condition>;
        let is_usable = |one: &&Condition| one.slots.meets(&own) && one.slots.is_within(&reach);
        let usable: Vec<&Condition> = match &input.outer {
            None => self.conditions.iter().filter(is_usable).collect(),
            Some(outer) => {
                on = conditions(outer.on.clone());
                on.iter().collect()
            }
        };
        let has_keys = usable.iter().any(|one| key_of(one, known, &own).is_some());
        let is_filtered = usable.iter().any(|one| one.slots.is_within(&own));
        let rank = match &input.kind {
            InputKind::Table(table) => {
                let exprs: Vec<&Expr> = usable.iter().map(|one| &one.expr).collect();
                access::choose(&AccessTarget { table, first: input.first, known }, &exprs).1
            }
            InputKind::Query { .. } | InputKind::Functions { .. } | InputKind::Group(_) | InputKind::Full { .. } => {
                AccessRank::default()
            }
        };
        cost(rank, has_keys, is_filtered, is_first, self.rows[at])
    }
}
