//! Steps of nested loops: placement of the quals, and access to the rows of each source.
//!
//! **Invariant:** a qual of an inner join is evaluated as soon as its slots are known, and the condition of an outer
//! join exactly at that join.

use super::access::{self, AccessTarget};
use super::order::order_of;
use super::sizes::TableSizes;
use crate::plan::{
    Access, Expr, FullJoin, FullJoinSide, InputKind, JoinGroup, JoinHashTable, JoinInput, JoinKey, JoinStep, Joins,
    KeyList, OuterCondition, Plan, RowSource, Slots, all_of, has_working, new_id, slots_of, slots_of_plan, split,
};
use statement::pulse;
use types::Kind;
use types::ops::Callee;

/// Condition with the slots that it reads.
#[derive(Clone)]
pub(super) struct Condition {
    pub(super) expr: Expr,
    pub(super) slots: Slots,
}

/// Splits conditions into conjuncts.
pub(super) fn conditions(exprs: Vec<Expr>) -> Vec<Condition> {
    let one = |expr: Expr| Condition { slots: slots_of(&expr), expr };
    exprs.into_iter().flat_map(split).map(one).collect()
}

/// Plans the steps of a group with additional conditions. `known` has the slots that are known before it.
pub(super) fn steps_of(group: JoinGroup, more: Vec<Expr>, known: &Slots, sizes: &mut TableSizes) -> Vec<JoinStep> {
    let JoinGroup { inputs, conditions: own } = group;
    let all = conditions(own.into_iter().chain(more).collect());
    let order = order_of(&inputs, &all, known, sizes);
    let mut inputs: Vec<Option<JoinInput>> = inputs.into_iter().map(Some).collect();
    // A volatile qual without columns must be evaluated for each row of the join, so it goes to the last step.
    let (mut of_join, mut left): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|one| one.slots.is_empty() && one.expr.is_volatile());
    let last = order.last().copied();
    let mut known = known.clone();
    let mut steps: Vec<JoinStep> = Vec::new();
    for at in order {
        // A cancelled statement uses nothing of this plan.
        if pulse::walk(left.len() + 1).is_err() {
            break;
        }
        let Some(input) = inputs.get_mut(at).and_then(Option::take) else { continue };
        let mut reach = known.clone();
        reach.add_all(&input.own());
        let (mut now, later): (Vec<_>, Vec<_>) = left.into_iter().partition(|one| one.slots.is_within(&reach));
        left = later;
        if last == Some(at) {
            now.append(&mut of_join);
        }
        steps.push(step_of(input, now, (&known, steps.is_empty()), sizes));
        known = reach;
    }
    // Every slot belongs to an input, so nothing is left here. If a qual were, it must not be lost.
    if let (Some(last), false) = (steps.last_mut(), left.is_empty()) {
        let rest = last.filter.take().into_iter().chain(left.into_iter().map(|one| one.expr)).collect();
        last.filter = all_of(rest);
    }
    steps
}

/// Returns the hash key of a condition that is an equality between known slots and these own ones, if equal values have
/// equal hashes. A volatile condition has a value for each pair of rows, so it cannot be a key.
pub(super) fn key_of(condition: &Condition, known: &Slots, own: &Slots) -> Option<JoinKey> {
    if condition.expr.is_volatile() {
        return None;
    }
    let Expr::Call { callee: Callee::Operator(operator), arguments } = &condition.expr else { return None };
    let (left_kind, right_kind) = (operator.left?, operator.right);
    let is_integer = |kind: Kind| matches!(kind, Kind::Int2 | Kind::Int4 | Kind::Int8);
    let hashes = left_kind == right_kind || (is_integer(left_kind) && is_integer(right_kind));
    let ([left, right], true, "=") = (&arguments[..], hashes, operator.name) else { return None };
    let (left_slots, right_slots) = (slots_of(left), slots_of(right));
    let key = |before: &Expr, own: &Expr| JoinKey { before: before.clone(), own: own.clone(), kind: right_kind };
    let is_side = |slots: &Slots, of: &Slots| !slots.is_empty() && slots.is_within(of);
    if is_side(&left_slots, known) && is_side(&right_slots, own) {
        return Some(key(left, right));
    }
    (is_side(&right_slots, known) && is_side(&left_slots, own)).then(|| key(right, left))
}

/// Wraps a source in a plan, for walks.
fn as_plan(source: &RowSource) -> Plan {
    let step =
        JoinStep { source: source.clone(), is_outer: false, on: None, filter: None, first: 0, width: 0, kept: None };
    Plan::Joins(Joins { when: None, steps: vec![step], width: 0 })
}

/// Plans the step of an input. `now` has the inner join quals whose slots are known with it.
fn step_of(
    input: JoinInput,
    now: Vec<Condition>,
    (known, is_first): (&Slots, bool),
    sizes: &mut TableSizes,
) -> JoinStep {
    let own = input.own();
    let JoinInput { kind, first, width, outer, needs } = input;
    let is_outer = outer.is_some();
    let (mut on, filter) = match outer {
        None => (now, Vec::new()),
        Some(OuterCondition { on, left: _ }) => (conditions(on), now),
    };
    let exprs: Vec<&Expr> = on.iter().map(|one| &one.expr).collect();
    // A source whose rows do not depend on those before it can be kept in a hash table, unless it is read once anyway.
    let mut can_keep = needs.is_empty() && !(is_first && known.is_empty());
    let source = match kind {
        InputKind::Table(table) => {
            let (mut access, mut rank) = access::choose(&AccessTarget { table: &table, first, known }, &exprs);
            if can_keep && rank.equal == 0 && !is_first {
                // A hash table is built once, while a range of an index would be scanned for each row.
                (access, rank) =
                    access::choose(&AccessTarget { table: &table, first, known: &Slots::default() }, &exprs);
            }
            can_keep = can_keep && !rank.is_point && access_slots(&access).is_empty();
            RowSource::Table { table, access, columns: None }
        }
        InputKind::Query { plan, is_lateral } => RowSource::Query { plan, is_lateral },
        InputKind::Functions { calls, is_numbered } => RowSource::Functions { calls, is_numbered },
        InputKind::Group(group) => {
            can_keep = false;
            let on = std::mem::take(&mut on).into_iter().map(|one| one.expr).collect();
            RowSource::Group(steps_of(group, on, known, sizes))
        }
        InputKind::Full { left, right, on } => full(left, right, on, sizes),
    };
    let mut kept = None;
    if can_keep {
        let keys: Vec<JoinKey> = on.iter().filter_map(|one| key_of(one, known, &own)).collect();
        let is_own = |one: &Condition| one.slots.is_within(&own) && !one.slots.is_empty();
        let (own_conditions, rest): (Vec<_>, Vec<_>) = on.into_iter().partition(is_own);
        on = rest;
        let plan = as_plan(&source);
        let slots = slots_of_plan(&plan, 1);
        let is_constant = slots.is_empty()
            && !slots.looks_out
            && !has_working(&plan)
            && own_conditions.iter().all(|one| !one.slots.looks_out)
            && keys.iter().all(|key| !slots_of(&key.own).looks_out);
        let condition = all_of(own_conditions.into_iter().map(|one| one.expr).collect());
        kept = Some(JoinHashTable { id: new_id(), is_constant, condition, keys });
    }
    let expr = |all: Vec<Condition>| all_of(all.into_iter().map(|one| one.expr).collect());
    JoinStep { source, is_outer, on: expr(on), filter: expr(filter), first, width, kept }
}

/// Returns the slots that an access path reads.
fn access_slots(access: &Access) -> Slots {
    let mut slots = Slots::default();
    let exprs: Vec<&Expr> = match access {
        Access::All => Vec::new(),
        Access::Key { values, index: _, decides: _ } => values.iter().map(|value| &value.value).collect(),
        Access::Index { prefix, lower, upper, index: _, backward: _ } => {
            let values = prefix.iter().chain([lower, upper].into_iter().flatten().map(|limit| &limit.value));
            values.map(|value| &value.value).collect()
        }
        Access::AnyOf { prefix, list, index: _ } => match list {
            KeyList::Values(values) => prefix.iter().chain(values).map(|value| &value.value).collect(),
            KeyList::Array { array, kind: _ } => prefix.iter().map(|value| &value.value).chain([array]).collect(),
        },
    };
    exprs.into_iter().for_each(|expr| slots.add_all(&slots_of(expr)));
    slots
}

fn full(left: JoinGroup, right: JoinGroup, on: Vec<Expr>, sizes: &mut TableSizes) -> RowSource {
    let (left_slots, right_slots) = (left.own(), right.own());
    let on = conditions(on);
    let keys = on.iter().filter_map(|one| key_of(one, &left_slots, &right_slots)).collect();
    let mut side = |group: JoinGroup| {
        let (first, width) = group.places();
        FullJoinSide { steps: steps_of(group, Vec::new(), &Slots::default(), sizes), first, width }
    };
    let on = all_of(on.into_iter().map(|one| one.expr).collect());
    RowSource::Full(Box::new(FullJoin { left: side(left), right: side(right), on, keys }))
}
