//! Shrinker: smaller queries that still fail. Each step removes a part (a column, a condition, a join, a key, a LIMIT)
//! or replaces a call by one of its arguments, as long as the same kind of difference stays.

use super::ast::{Body, Distinct, Expr, ExprNode, FromItem, Group, QueryTree, Select};

/// Maximum number of tries of one shrinking.
const TRIES_MAX: usize = 1500;

/// Returns the smallest query found that still fails.
pub fn shrink(query: QueryTree, mut fails: impl FnMut(&QueryTree) -> bool) -> QueryTree {
    let mut best = query;
    let mut tries = 0;
    'again: loop {
        let length = best.to_string().len();
        let mut candidates = queries(&best);
        candidates.retain(|candidate| candidate.to_string().len() < length);
        candidates.sort_by_key(|candidate| candidate.to_string().len());
        for candidate in candidates {
            tries += 1;
            if TRIES_MAX < tries {
                return best;
            }
            if fails(&candidate) {
                best = candidate;
                continue 'again;
            }
        }
        return best;
    }
}

/// Returns the list with each of its elements removed, and with each element replaced.
fn lists<T: Clone>(all: &[T], least: usize, of: impl Fn(&T) -> Vec<T>) -> Vec<Vec<T>> {
    let mut found = Vec::new();
    for at in 0..all.len() {
        if least < all.len() {
            let mut fewer = all.to_vec();
            fewer.remove(at);
            found.push(fewer);
        }
        for other in of(&all[at]) {
            let mut changed = all.to_vec();
            changed[at] = other;
            found.push(changed);
        }
    }
    found
}

fn exprs(expr: &Expr) -> Vec<Expr> {
    let mut found = Vec::new();
    match &expr.node {
        ExprNode::Literal { .. } | ExprNode::Column(_) => {}
        ExprNode::Call { template, args } => {
            // An argument can take the call's place only if it has the same type.
            found.extend(args.iter().filter(|arg| arg.ty == expr.ty).cloned());
            for (at, arg) in args.iter().enumerate() {
                for other in exprs(arg) {
                    let mut args = args.clone();
                    args[at] = other;
                    found.push(Expr { node: ExprNode::Call { template: template.clone(), args }, ..expr.clone() });
                }
            }
            if let Some((before, _)) = template.split_once(" filter (where") {
                found.push(Expr {
                    node: ExprNode::Call { template: before.to_owned(), args: args.clone() },
                    ..expr.clone()
                });
            }
        }
        ExprNode::Query { template, args, query } => {
            for other in queries(query) {
                found.push(Expr {
                    node: ExprNode::Query { template: template.clone(), args: args.clone(), query: Box::new(other) },
                    ..expr.clone()
                });
            }
            for (at, arg) in args.iter().enumerate() {
                for other in exprs(arg) {
                    let mut args = args.clone();
                    args[at] = other;
                    found.push(Expr {
                        node: ExprNode::Query { template: template.clone(), args, query: query.clone() },
                        ..expr.clone()
                    });
                }
            }
        }
    }
    found
}

fn froms(from: &FromItem) -> Vec<FromItem> {
    match from {
        FromItem::Table { .. } | FromItem::Call { .. } => Vec::new(),
        FromItem::Sub { query, alias, columns, lateral } => queries(query)
            .into_iter()
            .filter(|other| other.outputs().len() == columns.len())
            .map(|other| FromItem::Sub {
                query: Box::new(other),
                alias: alias.clone(),
                columns: columns.clone(),
                lateral: *lateral,
            })
            .chain((0..columns.len()).filter_map(|at| {
                // The unused column is removed from both lists.
                let mut query = query.clone();
                let Body::Select(select) = &mut query.body else { return None };
                if select.items.len() < 2 || select.items.len() != columns.len() {
                    return None;
                }
                select.items.remove(at);
                let mut columns = columns.clone();
                columns.remove(at);
                Some(FromItem::Sub { query, alias: alias.clone(), columns, lateral: *lateral })
            }))
            .collect(),
        FromItem::Join { kind, left, right, on } => {
            let mut found = vec![(**left).clone(), (**right).clone()];
            let join = |left: &FromItem, right: &FromItem, on: &[Expr]| FromItem::Join {
                kind,
                left: Box::new(left.clone()),
                right: Box::new(right.clone()),
                on: on.to_vec(),
            };
            found.extend(froms(left).iter().map(|left| join(left, right, on)));
            found.extend(froms(right).iter().map(|right| join(left, right, on)));
            found.extend(lists(on, 1, exprs).iter().map(|on| join(left, right, on)));
            found
        }
    }
}

fn selects(select: &Select) -> Vec<Select> {
    let mut found = Vec::new();
    let mut with = |change: &dyn Fn(&mut Select)| {
        let mut other = select.clone();
        change(&mut other);
        found.push(other);
    };
    for items in lists(&select.items, 1, |item| {
        exprs(&item.expr).into_iter().map(|expr| super::ast::Item { expr, name: item.name.clone() }).collect()
    }) {
        with(&|other| other.items = items.clone());
    }
    for filter in lists(&select.filter, 0, exprs) {
        with(&|other| other.filter = filter.clone());
    }
    for having in lists(&select.having, 0, exprs) {
        with(&|other| other.having = having.clone());
    }
    for from in lists(&select.from, 1, froms) {
        with(&|other| other.from = from.clone());
    }
    if !matches!(select.distinct, Distinct::No) {
        with(&|other| other.distinct = Distinct::No);
    }
    match &select.group {
        None => {}
        Some(Group::Keys(keys)) => {
            with(&|other| other.group = None);
            for keys in lists(keys, 1, exprs) {
                with(&|other| other.group = Some(Group::Keys(keys.clone())));
            }
        }
        Some(Group::Rollup(keys) | Group::Cube(keys)) => {
            with(&|other| other.group = Some(Group::Keys(keys.clone())));
            for keys in lists(keys, 1, exprs) {
                with(&|other| other.group = Some(Group::Rollup(keys.clone())));
            }
        }
        Some(Group::Beside(keys, sets)) => {
            with(&|other| other.group = Some(Group::Keys(keys.clone())));
            // Either part alone is smaller: the common keys, or the sets.
            with(&|other| other.group = Some((**sets).clone()));
        }
        Some(Group::Sets(sets)) => {
            for sets in lists(sets, 1, |_| Vec::new()) {
                with(&|other| other.group = Some(Group::Sets(sets.clone())));
            }
        }
    }
    found
}

/// Returns every query that is one step smaller.
pub fn queries(query: &QueryTree) -> Vec<QueryTree> {
    let mut found = Vec::new();
    let mut with = |change: &dyn Fn(&mut QueryTree)| {
        let mut other = query.clone();
        change(&mut other);
        found.push(other);
    };
    if query.limit.is_some() {
        with(&|other| other.limit = None);
    }
    if query.offset.is_some() {
        with(&|other| other.offset = None);
    }
    // Under DISTINCT ON, LIMIT and OFFSET the order decides which rows there are.
    let is_on = matches!(&query.body, Body::Select(select) if matches!(select.distinct, Distinct::On(_)));
    if !query.order.is_empty() && !is_on && query.limit.is_none() && query.offset.is_none() {
        with(&|other| {
            other.order = Vec::new();
            other.total = false;
        });
        for at in 0..query.order.len() {
            with(&|other| {
                other.order.remove(at);
                other.total = false;
            });
        }
    }
    for at in 0..query.with.len() {
        with(&|other| drop(other.with.remove(at)));
        for smaller in queries(&query.with[at].query) {
            if smaller.outputs().len() == query.with[at].columns.len() {
                with(&|other| other.with[at].query = smaller.clone());
            }
        }
    }
    match &query.body {
        Body::Select(select) => {
            for smaller in selects(select) {
                with(&|other| {
                    other.body = Body::Select(Box::new(smaller.clone()));
                    // Positions in ORDER BY would count other columns.
                    if smaller.items.len() != select.items.len()
                        && other.order.iter().any(|(key, _)| key.to_string().parse::<usize>().is_ok())
                    {
                        other.order = Vec::new();
                        (other.limit, other.offset, other.total) = (None, None, false);
                    }
                });
            }
            for from in &select.from {
                if let FromItem::Sub { query: inner, lateral: false, .. } = from {
                    with(&|other| {
                        let with = std::mem::take(&mut other.with);
                        *other = (**inner).clone();
                        other.with.extend(with);
                    });
                }
            }
        }
        Body::Values(rows) => {
            for rows in lists(rows, 1, |_| Vec::new()) {
                with(&|other| other.body = Body::Values(rows.clone()));
            }
        }
        Body::Set { operator, left, right } => {
            for side in [left, right] {
                with(&|other| {
                    let with = std::mem::take(&mut other.with);
                    *other = (**side).clone();
                    other.with.extend(with);
                });
            }
            for smaller in queries(left) {
                with(&|other| {
                    other.body = Body::Set { operator, left: Box::new(smaller.clone()), right: right.clone() }
                });
            }
            for smaller in queries(right) {
                with(&|other| {
                    other.body = Body::Set { operator, left: left.clone(), right: Box::new(smaller.clone()) }
                });
            }
        }
    }
    found
}
