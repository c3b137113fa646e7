//! The order in which the row executor joins, and how it finds the rows of each source.
//!
//! First comes what is found by constants, then what an index finds by what is already there, then what is kept in a hash
//! table. Joins need not be in the statement's order: inner ones go in any order, and an outer one stands anywhere behind
//! its left side.
//!
//! **Invariant:** every condition of an inner join is asked as soon as all it looks at is there, and of an outer join
//! exactly where the join is.

use super::access::{self, OrderKey, Rank, Wanted};
use super::from::{Group, Item, ItemSource, Outer, all_of, split};
use super::unused::drop_unused;
use crate::plan::{
    Access, Expr, Full, JoinKey, Joins, Kept, List, Plan, Side, Slots, SortKey, Source, Step, new_id, slots_of,
    slots_of_plan, source_has_working,
};
use statement::pulse;
use types::Kind;

/// A condition, and what it looks at.
#[derive(Clone)]
struct Condition {
    expr: Expr,
    slots: Slots,
}

fn conditions(exprs: Vec<Expr>) -> Vec<Condition> {
    let one = |expr: Expr| Condition { slots: slots_of(&expr), expr };
    exprs.into_iter().flat_map(split).map(one).collect()
}

/// How costly a next step is thought to be: less is better.
fn cost(rank: Rank, has_keys: bool, is_filtered: bool, is_first: bool, rows_bound: u64) -> u64 {
    let size = u64::from(u64::BITS - rows_bound.leading_zeros()) + 1;
    match rank {
        Rank { is_point: true, .. } => 1,
        Rank { equal, .. } if 0 < equal => 3,
        Rank { next, .. } if 0 < next && is_first => 4 + size,
        _ if has_keys => 20 + size,
        Rank { next, .. } if 0 < next => 30 + size,
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

/// Up to so many sources every one is tried as the first.
const TRIED_MAX: usize = 6;

/// Greatest number of pairs of a source and a condition looked at to find an order. Of more sources than that is enough for, only the
/// next ones of the statement's order are tried at each step.
const PAIRS_MAX: usize = 1_000_000;

/// Makes the steps of a group. `known` is what is known before it.
pub(super) fn steps_of(group: Group, more: Vec<Expr>, known: &Slots) -> Vec<Step> {
    let Group { items, conditions: own } = group;
    let all = conditions(own.into_iter().chain(more).collect());
    let order = order_of(&items, &all, known);
    let mut items: Vec<Option<Item>> = items.into_iter().map(Some).collect();
    // A volatile condition that looks at no row has a value for each row of the join.
    let (mut of_join, mut left): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|one| one.slots.is_empty() && one.expr.is_volatile());
    let last = order.last().copied();
    let mut known = known.clone();
    let mut steps: Vec<Step> = Vec::new();
    for at in order {
        // Of what must end nothing is used.
        if pulse::walk(left.len() + 1).is_err() {
            break;
        }
        let Some(item) = items.get_mut(at).and_then(Option::take) else { continue };
        let mut reach = known.clone();
        reach.add_all(&item.own());
        let (mut now, later): (Vec<_>, Vec<_>) = left.into_iter().partition(|one| one.slots.is_within(&reach));
        left = later;
        if last == Some(at) {
            now.append(&mut of_join);
        }
        steps.push(step_of(item, now, &known, steps.is_empty()));
        known = reach;
    }
    // Nothing is left but what looks at places that no item has, of which there are none.
    if let (Some(last), false) = (steps.last_mut(), left.is_empty()) {
        let rest = last.filter.take().into_iter().chain(left.into_iter().map(|one| one.expr)).collect();
        last.filter = all_of(rest);
    }
    steps
}

fn order_of(items: &[Item], all: &[Condition], known: &Slots) -> Vec<usize> {
    if items.len() <= 1 {
        return (0..items.len()).collect();
    }
    let firsts: Vec<Option<usize>> =
        if items.len() <= TRIED_MAX { (0..items.len()).map(Some).collect() } else { vec![None] };
    let tried = firsts.into_iter().filter_map(|first| greedy(items, all, known, first));
    tried.min_by_key(|(cost, _)| *cost).map_or_else(|| (0..items.len()).collect(), |(_, order)| order)
}

/// Always the cheapest next one, beginning with the given one, if it can.
fn greedy(items: &[Item], all: &[Condition], known: &Slots, first: Option<usize>) -> Option<(u64, Vec<usize>)> {
    let mut known = known.clone();
    let mut order: Vec<usize> = Vec::with_capacity(items.len());
    let mut total = 0;
    let window = (PAIRS_MAX / (items.len() * (all.len() + 1))).max(1);
    let mut rest: Vec<usize> = (0..items.len()).collect();
    while order.len() < items.len() {
        pulse::walk(rest.len()).ok()?;
        let next = rest
            .iter()
            .copied()
            .filter(|at| !order.is_empty() || first.is_none_or(|first| first == *at))
            .filter(|at| items[*at].can_follow(&known))
            .take(window)
            .map(|at| (step_cost(&items[at], all, &known, order.is_empty()), at))
            .min()?;
        total += next.0;
        known.add_all(&items[next.1].own());
        order.push(next.1);
        rest.retain(|at| *at != next.1);
    }
    Some((total, order))
}

fn step_cost(item: &Item, all: &[Condition], known: &Slots, is_first: bool) -> u64 {
    let _ = pulse::walk(64 + all.len());
    let own = item.own();
    let mut reach = known.clone();
    reach.add_all(&own);
    let on: Vec<Condition>;
    let usable: Vec<&Condition> = match &item.outer {
        None => all.iter().filter(|one| one.slots.meets(&own) && one.slots.is_within(&reach)).collect(),
        Some(outer) => {
            on = conditions(outer.on.clone());
            on.iter().collect()
        }
    };
    let has_keys = usable.iter().any(|one| key_of(one, known, &own).is_some());
    let is_filtered = usable.iter().any(|one| one.slots.is_within(&own));
    let (rank, rows_bound) = match &item.source {
        ItemSource::Table(table) => {
            let exprs: Vec<&Expr> = usable.iter().map(|one| &one.expr).collect();
            let wanted = Wanted { table, first: item.first, known };
            (access::choose(&wanted, &exprs).1, table.table.rows_bound())
        }
        _ => (Rank::default(), 64),
    };
    cost(rank, has_keys, is_filtered, is_first, rows_bound)
}

/// An equality between known places and these own ones whose values hash as they compare. A volatile one has a value for each
/// pair of rows, and none for a row.
fn key_of(condition: &Condition, known: &Slots, own: &Slots) -> Option<JoinKey> {
    if condition.expr.is_volatile() {
        return None;
    }
    let Expr::Call { operator: Some(operator), arguments, .. } = &condition.expr else { return None };
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

/// Whether it looks at enclosing queries.
fn looks_out(source: &Source) -> bool {
    let step = Step { source: source.clone(), is_outer: false, on: None, filter: None, first: 0, width: 0, kept: None };
    let plan = Plan::Joins(Joins { when: None, steps: vec![step], width: 0 });
    let slots = slots_of_plan(&plan, 1);
    !slots.is_empty() || slots.looks_out
}

fn step_of(item: Item, now: Vec<Condition>, known: &Slots, is_first: bool) -> Step {
    let own = item.own();
    let Item { source, first, width, outer, needs } = item;
    let is_outer = outer.is_some();
    let (mut on, filter) = match outer {
        None => (now, Vec::new()),
        Some(Outer { on, left: _ }) => (conditions(on), now),
    };
    let exprs: Vec<&Expr> = on.iter().map(|one| &one.expr).collect();
    // Whether its rows are the same whatever is before it, and it is not found quickly anyway.
    let mut can_keep = needs.is_empty() && !(is_first && known.is_empty());
    let source = match source {
        ItemSource::Table(table) => {
            let (mut access, mut rank) = access::choose(&Wanted { table: &table, first, known }, &exprs);
            if can_keep && rank.equal == 0 && !is_first {
                // Kept by a key rather than gone through within bounds again and again.
                (access, rank) = access::choose(&Wanted { table: &table, first, known: &Slots::default() }, &exprs);
            }
            can_keep = can_keep && !rank.is_point && access_slots(&access).is_empty();
            Source::Table { table, access, columns: None }
        }
        ItemSource::Query { plan, is_lateral } => Source::Query { plan, is_lateral },
        ItemSource::Simple(simple) => Source::Query { plan: Box::new(simple.into_plan()), is_lateral: false },
        ItemSource::Functions { calls, is_numbered } => Source::Functions { calls, is_numbered },
        ItemSource::Group(group) => {
            can_keep = false;
            let on = std::mem::take(&mut on).into_iter().map(|one| one.expr).collect();
            Source::Group(steps_of(group, on, known))
        }
        ItemSource::Full { left, right, on } => full(left, right, on),
    };
    let mut kept = None;
    if can_keep {
        let keys: Vec<JoinKey> = on.iter().filter_map(|one| key_of(one, known, &own)).collect();
        let is_own = |one: &Condition| one.slots.is_within(&own) && !one.slots.is_empty();
        let (own_conditions, rest): (Vec<_>, Vec<_>) = on.into_iter().partition(is_own);
        on = rest;
        let is_constant = !looks_out(&source)
            && !source_has_working(&source)
            && own_conditions.iter().all(|one| !one.slots.looks_out)
            && keys.iter().all(|key| !slots_of(&key.own).looks_out);
        let condition = all_of(own_conditions.into_iter().map(|one| one.expr).collect());
        kept = Some(Kept { id: new_id(), is_constant, condition, keys });
    }
    let expr = |all: Vec<Condition>| all_of(all.into_iter().map(|one| one.expr).collect());
    Step { source, is_outer, on: expr(on), filter: expr(filter), first, width, kept }
}

/// Has the rows made in this order, if an index of the first source gives it: whatever is joined to its rows comes in their
/// order. Says whether it does.
pub(super) fn put_in_order(joins: &mut Joins, keys: &[SortKey], few_wanted: bool) -> bool {
    let Some(Step { source: Source::Table { table, access, .. }, is_outer: false, on, first, kept: None, .. }) =
        joins.steps.first_mut()
    else {
        return false;
    };
    let key = |key: &SortKey| match key.value {
        Expr::Column(at) => {
            let column = at.checked_sub(*first).filter(|at| *at < table.columns.len())?;
            Some(OrderKey { column, descending: key.descending, nulls_first: key.nulls_first })
        }
        _ => None,
    };
    let Some(keys) = keys.iter().map(key).collect::<Option<Vec<_>>>() else { return false };
    let wanted = Wanted { table, first: *first, known: &Slots::default() };
    let conditions: Vec<&Expr> = on.iter().collect();
    match access::in_order(&wanted, &conditions, &keys, few_wanted) {
        Some(found) => {
            *access = found;
            true
        }
        None => false,
    }
}

/// What a way to rows looks at.
fn access_slots(access: &Access) -> Slots {
    let mut slots = Slots::default();
    let exprs: Vec<&Expr> = match access {
        Access::All => Vec::new(),
        Access::Index { prefix, lower, upper, index: _, backward: _ } => {
            let values = prefix.iter().chain([lower, upper].into_iter().flatten().map(|limit| &limit.value));
            values.map(|value| &value.value).collect()
        }
        Access::AnyOf { prefix, list, index: _ } => match list {
            List::Values(values) => prefix.iter().chain(values).map(|value| &value.value).collect(),
            List::Array { array, kind: _ } => prefix.iter().map(|value| &value.value).chain([array]).collect(),
        },
    };
    exprs.into_iter().for_each(|expr| slots.add_all(&slots_of(expr)));
    slots
}

fn full(left: Group, right: Group, on: Vec<Expr>) -> Source {
    let (left_slots, right_slots) = (left.own(), right.own());
    let on = conditions(on);
    let keys = on.iter().filter_map(|one| key_of(one, &left_slots, &right_slots)).collect();
    let side = |group: Group| {
        let (first, width) = group.places();
        Side { steps: steps_of(group, Vec::new(), &Slots::default()), first, width }
    };
    let on = all_of(on.into_iter().map(|one| one.expr).collect());
    Source::Full(Box::new(Full { left: side(left), right: side(right), on, keys }))
}

/// Whether a condition is an equality of both sides, by which PostgreSQL can do a full join.
pub(super) fn is_equality(condition: &Expr, left: &Slots, right: &Slots) -> bool {
    let Expr::Call { operator: Some(operator), arguments, .. } = condition else { return false };
    let [a, b] = &arguments[..] else { return false };
    let (a, b) = (slots_of(a), slots_of(b));
    let is_side = |slots: &Slots, of: &Slots| !slots.is_empty() && slots.is_within(of);
    operator.name == "="
        && !condition.is_volatile()
        && ((is_side(&a, left) && is_side(&b, right)) || (is_side(&b, left) && is_side(&a, right)))
}

/// The columns of its tables that are looked at, given what is looked at above.
pub(super) fn prune(steps: &mut [Step], needed: &Slots) {
    let mut all = needed.clone();
    note_steps(steps, &mut all);
    mark(steps, &all);
}

fn note_steps(steps: &[Step], slots: &mut Slots) {
    let mut note = |expr: &Expr| slots.add_all(&slots_of(expr));
    for step in steps {
        step.on.iter().chain(&step.filter).for_each(&mut note);
        if let Some(kept) = &step.kept {
            kept.condition.iter().for_each(&mut note);
            kept.keys.iter().flat_map(|key| [&key.before, &key.own]).for_each(&mut note);
        }
    }
    for step in steps {
        match &step.source {
            Source::Table { access, .. } => slots.add_all(&access_slots(access)),
            Source::Query { plan, is_lateral } => {
                if *is_lateral {
                    slots.add_all(&slots_of_plan(plan, 1));
                }
            }
            Source::Functions { calls, is_numbered: _ } => {
                calls.iter().flat_map(|call| &call.arguments).for_each(|expr| slots.add_all(&slots_of(expr)));
            }
            Source::Group(steps) => note_steps(steps, slots),
            Source::Full(full) => {
                let Full { left, right, on, keys } = &**full;
                note_steps(&left.steps, slots);
                note_steps(&right.steps, slots);
                on.iter().for_each(|on| slots.add_all(&slots_of(on)));
                keys.iter().flat_map(|key| [&key.before, &key.own]).for_each(|expr| slots.add_all(&slots_of(expr)));
            }
        }
    }
}

fn mark(steps: &mut [Step], slots: &Slots) {
    for step in steps {
        let first = step.first;
        match &mut step.source {
            Source::Table { table, columns, .. } => {
                *columns = Some((0..=table.columns.len()).filter(|at| slots.has(first + at)).collect());
            }
            Source::Query { plan, is_lateral: _ } => {
                let mut used = Slots::default();
                (0..step.width).filter(|at| slots.has(first + at)).for_each(|at| used.add(at));
                drop_unused(plan, &used);
            }
            Source::Functions { .. } => {}
            Source::Group(steps) => mark(steps, slots),
            Source::Full(full) => {
                mark(&mut full.left.steps, slots);
                mark(&mut full.right.steps, slots);
            }
        }
    }
}
