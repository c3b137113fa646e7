//! Generator of queries. Each has one callable in its focus, in turn, so that all are tried equally often; calls of it that
//! differ only in their constants stand side by side.

use super::ast::{Body, Cte, Distinct, Expr, ExprNode, FromItem, Group, Item, QueryTree, Select};
use super::catalog::{CallableKind, Catalog, WantedType};
use super::exprs::{ExprScope, Leaf, QueryGenerator, call, column};
use super::rng::Rng;
use super::schema::TABLES;
use super::types::{ELEMENTS, Ty};

/// Query, and the callables in it.
pub struct Generated {
    pub query: QueryTree,
    pub used: Vec<usize>,
}

/// Types of columns that are made without a particular reason.
pub const COMMON: [Ty; 12] = [
    Ty::Int4,
    Ty::Int8,
    Ty::Text,
    Ty::Numeric,
    Ty::Date,
    Ty::Timestamp,
    Ty::Bool,
    Ty::Float8,
    Ty::Interval,
    Ty::Bpchar,
    Ty::Varchar,
    Ty::Timestamptz,
];

/// Directions of ORDER BY.
pub const DIRECTIONS: [&str; 5] = ["", "", " desc", " nulls first", " desc nulls last"];

/// Generates the query with this index.
pub fn generate(catalog: &Catalog, seed: u64, index: u64) -> Generated {
    // Every round of as many queries as there are callables has each callable once, in an order of its own.
    let count = catalog.all.len() as u64;
    let shift = Rng::new(seed, u64::MAX - index / count).below(catalog.all.len());
    let focus = (index as usize + shift) % catalog.all.len();
    let mut generator =
        QueryGenerator { rng: Rng::new(seed, index), catalog, aliases: 0, ctes: Vec::new(), used: Vec::new() };
    let query = generator.top(focus);
    Generated { query, used: generator.used }
}

impl QueryGenerator<'_> {
    fn top(&mut self, focus: usize) -> QueryTree {
        let is_aggregate = matches!(self.catalog.all[focus].kind, CallableKind::Aggregate | CallableKind::OrderedSet);
        let mut query = match self.rng.below(100) {
            _ if is_aggregate && self.rng.chance(25) => self.looking_around(focus),
            _ if self.catalog.all[focus].kind == CallableKind::Set && self.rng.chance(50) => {
                self.sets_in_list(Some(focus))
            }
            0..48 => self.select(Some(focus), 2, &[], 2),
            48..50 => self.sets_in_list(None),
            50..58 => self.set_operation(Some(focus), 2),
            58..78 => self.around(focus),
            78..86 => self.with(focus),
            86..90 => self.recursive(focus),
            90..92 => self.values(),
            92..95 => self.guarded(),
            95 => self.padded(),
            _ => self.select(Some(focus), 3, &[], 2),
        };
        if !query.strict {
            self.finish(&mut query);
        }
        query
    }

    /// Adds ORDER BY, LIMIT and OFFSET by the positions of the columns, where these determine the order.
    pub fn finish(&mut self, query: &mut QueryTree) {
        let outputs = query.outputs();
        let sortable = outputs.iter().all(|(ty, vague)| ty.is_clean() && !vague) && !outputs.is_empty();
        if query.order.is_empty() && sortable && self.rng.chance(50) {
            let mut places: Vec<usize> = (1..=outputs.len()).collect();
            let turn = self.rng.below(places.len());
            places.rotate_left(turn);
            for place in places {
                query.order.push((column(place.to_string(), Ty::Int4, false), *self.rng.pick(&DIRECTIONS)));
            }
            query.total = true;
        }
        if query.total && query.limit.is_none() && query.offset.is_none() && !query.order.is_empty() {
            self.cut(query);
        }
    }

    /// Adds LIMIT and OFFSET to a query whose order is total.
    fn cut(&mut self, query: &mut QueryTree) {
        match self.rng.below(10) {
            0..3 => query.limit = Some(self.rng.below(12)),
            3..5 => query.offset = Some(self.rng.below(12)),
            5 => (query.limit, query.offset) = (Some(1 + self.rng.below(9)), Some(self.rng.below(6))),
            _ => {}
        }
    }

    /// Generates a table, a subquery, a CTE or a list of values in FROM. `outer` are the columns of enclosing queries.
    fn relation(&mut self, depth: usize, scope: &mut ExprScope, outer: &[Leaf]) -> FromItem {
        let roll = self.rng.below(100);
        if roll < 72 || depth == 0 {
            let (table, _) = TABLES[[0, 0, 0, 1, 1, 2, 2, 3][self.rng.below(8)]];
            let alias = self.alias("t");
            if let Some(unique) = &mut scope.unique {
                unique.push(column(format!("{alias}.id"), Ty::Int4, false));
            }
            scope.leaves.extend(Self::table_leaves(&alias));
            return FromItem::Table { name: table.to_owned(), alias };
        }
        if roll < 78 && !self.ctes.is_empty() {
            let (name, columns) = self.rng.pick(&self.ctes.clone()).clone();
            let alias = self.alias("w");
            scope.unique = None;
            scope.leaves.extend(columns.iter().map(|(column_name, ty, vague)| Leaf {
                expr: column(format!("{alias}.{column_name}"), *ty, *vague),
                tame: !ty.is_float(),
                wild: false,
            }));
            return FromItem::Table { name, alias };
        }
        let mut query = match roll {
            0..84 => self.values(),
            84..92 => self.set_operation(None, 1),
            _ => self.select(None, 1, outer, depth - 1),
        };
        self.finish(&mut query);
        self.derived(query, false, scope)
    }

    /// Puts a query into FROM, with its columns in the scope.
    pub fn derived(&mut self, query: QueryTree, lateral: bool, scope: &mut ExprScope) -> FromItem {
        let alias = self.alias("q");
        let outputs = query.outputs();
        let columns: Vec<String> = (1..=outputs.len()).map(|at| format!("c{at}")).collect();
        scope.unique = None;
        scope.leaves.extend(columns.iter().zip(&outputs).map(|(name, (ty, vague))| Leaf {
            expr: column(format!("{alias}.{name}"), *ty, *vague),
            tame: !ty.is_float(),
            wild: false,
        }));
        FromItem::Sub { query: Box::new(query), alias, columns, lateral }
    }

    /// Generates FROM with joins. `outer` are the columns of enclosing queries.
    pub fn from(&mut self, depth: usize, scope: &mut ExprScope, outer: &[Leaf]) -> Vec<FromItem> {
        let mut from = self.relation(depth, scope, outer);
        for _ in 0..[0, 0, 0, 1, 1, 2][self.rng.below(6)] {
            let kind = *self.rng.pick(&["inner", "inner", "left", "left", "right", "full", "cross"]);
            let mut right_scope = ExprScope { unique: Some(Vec::new()), ..ExprScope::default() };
            let is_lateral = matches!(kind, "inner" | "left" | "cross") && self.rng.chance(14);
            let right = if is_lateral {
                self.lateral(depth, scope, outer, &mut right_scope)
            } else {
                self.relation(depth, &mut right_scope, outer)
            };
            let mut on = Vec::new();
            if kind != "cross" && is_lateral && self.rng.chance(70) {
                on.push(call("true", Vec::new(), Ty::Bool));
            } else if kind != "cross" {
                // The condition is an equality, for the hash join, and now and then more.
                let ty = *self.rng.pick(&[
                    Ty::Int4,
                    Ty::Int4,
                    Ty::Int8,
                    Ty::Text,
                    Ty::Date,
                    Ty::Numeric,
                    Ty::Timestamp,
                    Ty::Bpchar,
                ]);
                let (one, two) = (self.leaf(ty, scope, true), self.leaf(ty, &right_scope, true));
                match (one, two) {
                    (Some(one), Some(two)) => on.push(call("($0 = $1)", vec![one, two], Ty::Bool)),
                    _ => on.push(call("true", Vec::new(), Ty::Bool)),
                }
            }
            scope.leaves.extend(right_scope.leaves);
            scope.unique = match (scope.unique.take(), right_scope.unique) {
                (Some(one), Some(two)) => Some([one, two].concat()),
                _ => None,
            };
            if kind != "cross" && kind != "full" && self.rng.chance(30) {
                let plain = ExprScope { plain: true, ..scope.clone() };
                on.push(self.condition(1, &plain));
            }
            from = FromItem::Join { kind, left: Box::new(from), right: Box::new(right), on };
        }
        let mut all = vec![from];
        if self.rng.chance(4) {
            all.extend(self.function_in_from(scope));
        }
        // A condition of this kind does not stand beside a join: rows are late where PostgreSQL puts a condition below
        // the product.
        if self.rng.chance(3) && !matches!(all[0], FromItem::Join { .. }) {
            let mut right = ExprScope { unique: Some(Vec::new()), ..ExprScope::default() };
            all.push(self.lateral(depth, scope, outer, &mut right));
            scope.leaves.extend(right.leaves);
            scope.unique = scope.unique.take().and_then(|unique| Some([unique, right.unique?].concat()));
        }
        all
    }

    /// Generates a function that returns rows, in FROM.
    fn function_in_from(&mut self, scope: &mut ExprScope) -> Option<FromItem> {
        let sets: Vec<usize> =
            (0..self.catalog.all.len()).filter(|at| self.catalog.all[*at].kind == CallableKind::Set).collect();
        let catalog = self.catalog;
        let plain = ExprScope { plain: true, ..scope.clone() };
        let (made, ty) = if sets.is_empty() || self.rng.chance(40) {
            let array = self.leaf(Ty::Int4Array, scope, true)?;
            (call("unnest($0)", vec![array], Ty::Int4), Ty::Int4)
        } else {
            let at = *self.rng.pick(&sets);
            let WantedType::Exact(ty) = catalog.all[at].returns else { return None };
            (self.call(at, Ty::Int4, 0, &plain), ty)
        };
        Some(self.call_in_from(made, ty, scope))
    }

    /// Puts a call into FROM, with its rows numbered.
    pub fn call_in_from(&mut self, made: Expr, ty: Ty, scope: &mut ExprScope) -> FromItem {
        let alias = self.alias("f");
        let columns = vec!["c1".to_owned(), "c2".to_owned()];
        scope.unique = None;
        for (name, ty) in [("c1", ty), ("c2", Ty::Int8)] {
            scope.leaves.push(Leaf { expr: column(format!("{alias}.{name}"), ty, false), tame: true, wild: false });
        }
        FromItem::Call { call: made, alias, columns, ordinality: true }
    }

    /// Generates calls of the callable that differ only in their constants.
    fn variants(&mut self, focus: usize, scope: &ExprScope) -> Vec<Expr> {
        let callable = &self.catalog.all[focus];
        let tried: Vec<Ty> =
            ELEMENTS.into_iter().filter(|element| !self.catalog.is_excepted(focus, *element)).collect();
        let element = *self.rng.pick(&tried);
        let first = match callable.kind {
            CallableKind::Scalar => self.call(focus, element, 1, scope),
            CallableKind::Aggregate | CallableKind::OrderedSet => self.aggregate_call(focus, element, 1, scope),
            CallableKind::Window | CallableKind::Set => return Vec::new(),
        };
        let mut all = vec![first];
        if all[0].has_literal() {
            for _ in 0..1 + self.rng.below(2) {
                let mut other = all[0].clone();
                other.vary(&mut self.rng);
                all.push(other);
            }
        }
        all
    }

    /// Generates a SELECT.
    pub fn select(&mut self, focus: Option<usize>, items: usize, outer: &[Leaf], depth: usize) -> QueryTree {
        let mut scope = ExprScope { unique: Some(Vec::new()), outer: Vec::new(), ..ExprScope::default() };
        let from = self.from(depth, &mut scope, outer);
        scope.outer = outer.to_vec();
        let kind = focus.map(|focus| self.catalog.all[focus].kind);
        let is_aggregate = matches!(kind, Some(CallableKind::Aggregate | CallableKind::OrderedSet));
        let mut select = Select::plain(Vec::new(), from, Vec::new());
        for _ in 0..[0, 0, 1, 1, 2][self.rng.below(5)] {
            select.filter.push(self.condition(2, &scope));
        }
        let is_grouped = is_aggregate || self.rng.chance(25);
        if is_grouped {
            return self.grouped(select, focus, items, scope);
        }
        let variants = focus.map(|focus| self.variants(focus, &scope)).unwrap_or_default();
        self.spread(&mut select, variants, &scope);
        let least = if focus.is_some() { 1 } else { items };
        while select.items.len() < least || select.items.len() < items + 2 && self.rng.chance(40) {
            let ty = *self.rng.pick(&COMMON);
            let expr = self.expr(ty, 2, &scope, false);
            select.items.push(Item { expr, name: None });
        }
        let windows = kind == Some(CallableKind::Window) || self.rng.chance(6);
        if windows && let Some(window) = self.window(1, &scope) {
            select.items.push(Item { expr: window, name: None });
        }
        let items_count = select.items.len();
        if focus.is_some() && self.rng.chance(3) {
            // DISTINCT ON takes one row of each key before rows are made of it.
            let set = *self.rng.pick(&["generate_series(1, $0)", "unnest($0)"]);
            let ty = if set.starts_with("unnest") { Ty::Int4Array } else { Ty::Int4 };
            if let Some(leaf) = self.leaf(ty, &scope, true) {
                let argument = if ty == Ty::Int4 { call("least($0, 3)", vec![leaf], ty) } else { leaf };
                select.items.push(Item { expr: call(set, vec![argument], Ty::Int4), name: None });
            }
        }
        let has_set = items_count < select.items.len();
        let mut query = self.order_rows(select, &scope);
        if has_set {
            // The rows of one key have no order among themselves.
            (query.total, query.limit, query.offset) = (false, None, None);
        }
        query
    }

    /// Puts the calls into the items, the conditions, or both.
    fn spread(&mut self, select: &mut Select, variants: Vec<Expr>, scope: &ExprScope) {
        let in_filter = self.rng.chance(30);
        for (at, expr) in variants.into_iter().enumerate() {
            let can_filter = !expr.vague && expr.ty.is_ordered() && (in_filter || 0 < at && self.rng.chance(10));
            if can_filter {
                let expr = self.as_condition(expr, scope);
                select.filter.push(expr);
            } else if self.rng.chance(10) && expr.ty.is_ordered() && !expr.vague {
                let (condition, literal) = (self.as_condition(expr.clone(), scope), self.literal(expr.ty));
                select.items.push(Item {
                    expr: call("case when $0 then $1 else $2 end", vec![condition, expr.clone(), literal], expr.ty),
                    name: None,
                });
            } else {
                let name = if self.rng.chance(10) { Some(self.alias("x")) } else { None };
                select.items.push(Item { expr, name });
            }
        }
    }

    fn as_condition(&mut self, expr: Expr, scope: &ExprScope) -> Expr {
        let ty = expr.ty;
        if ty == Ty::Bool {
            return expr;
        }
        let other = if self.rng.chance(70) { self.literal(ty) } else { self.expr(ty, 1, scope, true) };
        let template =
            *self.rng.pick(&["($0 <> $1)", "($0 is distinct from $1)", "($0 >= $1)", "($0 <= $1)", "($0 = $1)"]);
        call(template, vec![expr, other], Ty::Bool)
    }

    /// Adds DISTINCT, or ORDER BY with LIMIT and OFFSET by a unique key.
    fn order_rows(&mut self, mut select: Select, scope: &ExprScope) -> QueryTree {
        let sortable = |expr: &Expr| expr.ty.is_ordered() && !expr.vague;
        if self.rng.chance(8) && select.items.iter().all(|item| item.expr.ty.is_ordered()) {
            select.distinct = Distinct::Yes;
            for item in &mut select.items {
                item.expr.vague |= !item.expr.ty.is_clean();
            }
            return QueryTree::of(Body::Select(Box::new(select)));
        }
        let mut order = Vec::new();
        if self.rng.chance(50)
            && let Some(unique) = &scope.unique
        {
            if self.rng.chance(8) {
                let keys: Vec<Expr> = (0..1 + self.rng.below(2))
                    .filter_map(|_| {
                        let ty = *self.rng.pick(&COMMON);
                        self.leaf(ty, scope, true)
                    })
                    .collect();
                if !keys.is_empty() {
                    // DISTINCT ON demands that its keys lead ORDER BY.
                    order.extend(keys.iter().cloned().map(|key| (key, "")));
                    select.distinct = Distinct::On(keys);
                }
            }
            let items: Vec<Expr> = select
                .items
                .iter()
                .map(|item| item.expr.clone())
                .filter(|expr| sortable(expr) && expr.has_column())
                .collect();
            if !scope.plain && self.rng.chance(6) {
                let ty = *self.rng.pick(&COMMON);
                order.push((self.subquery(ty, 1, scope, true), *self.rng.pick(&DIRECTIONS)));
            }
            if !items.is_empty() && self.rng.chance(60) {
                order.push((self.rng.pick(&items).clone(), *self.rng.pick(&DIRECTIONS)));
            }
            // The unique key comes last: the order is total whatever stands before it.
            for key in unique {
                order.push((key.clone(), *self.rng.pick(&DIRECTIONS)));
            }
        }
        let mut query = QueryTree::of(Body::Select(Box::new(select)));
        query.total = !order.is_empty();
        query.order = order;
        if query.total {
            self.cut(&mut query);
        }
        query
    }

    /// Generates GROUP BY with aggregates, HAVING, grouping sets.
    fn grouped(&mut self, mut select: Select, focus: Option<usize>, items: usize, scope: ExprScope) -> QueryTree {
        let is_aggregate = focus.is_some_and(|focus| self.catalog.all[focus].kind != CallableKind::Scalar);
        let plain = ExprScope { plain: true, outer: Vec::new(), ..scope.clone() };
        let mut keys: Vec<Expr> = Vec::new();
        let mut aggregates = Vec::new();
        let variants = focus.map(|focus| self.variants(focus, &plain)).unwrap_or_default();
        for variant in variants {
            if is_aggregate {
                aggregates.push(variant);
            } else if variant.ty.is_ordered()
                && !variant.vague
                && variant.has_column()
                && keys.len() < 3
                && self.rng.chance(50)
            {
                keys.push(variant);
            } else {
                aggregates.push(self.counted(variant, &plain));
            }
        }
        for _ in 0..[0, 1, 1, 2][self.rng.below(4)] {
            let ty = *self.rng.pick(&COMMON);
            let key =
                if self.rng.chance(60) { self.leaf(ty, &plain, true) } else { Some(self.expr(ty, 1, &plain, true)) };
            keys.extend(key.filter(|key| key.has_column() && !key.vague && key.ty.is_ordered()));
        }
        if self.rng.chance(4) {
            let ty = *self.rng.pick(&[Ty::Int4, Ty::Text, Ty::Date, Ty::Int8]);
            keys.push(self.subquery(ty, 1, &ExprScope { plain: false, ..plain.clone() }, true));
        }
        // Overtake does not recognise VALUES that refer to the row: it says that their columns are not grouped.
        keys.retain(|key| !key.to_string().contains("(values "));
        // The same key twice would be one key in a grouping set.
        let mut known = std::collections::BTreeSet::new();
        keys.retain(|key| known.insert(key.to_string()));
        while aggregates.len() < items {
            let found = self.aggregate(None, 1, &plain, false);
            aggregates.push(found.unwrap_or_else(|| call("count(*)", Vec::new(), Ty::Int8)));
        }
        let mut grouped = ExprScope { plain: true, ..ExprScope::default() };
        for expr in &mut keys {
            // It is not determined which of several equal values stands for the group, but only printing tells.
            expr.vague |= !expr.ty.is_clean();
            // PostgreSQL's parser makes one list of a connective within one of its kind, where it does not find the key again.
            let is_flattened = matches!(&expr.node, ExprNode::Call { template, .. } if template == "($0 and $1)" || template == "($0 or $1)");
            if !is_flattened {
                grouped.leaves.push(Leaf { expr: expr.clone(), tame: false, wild: false });
            }
        }
        grouped.leaves.extend(aggregates.iter().map(|expr| Leaf { expr: expr.clone(), tame: false, wild: false }));
        for expr in keys.iter().chain(&aggregates) {
            select.items.push(Item { expr: expr.clone(), name: None });
        }
        // Leaves of a group that a subquery may refer to.
        let is_seen = |leaf: &Leaf| match leaf.expr.node {
            ExprNode::Column(_) => true,
            _ => aggregates.iter().any(|own| own.to_string() == leaf.expr.to_string()) && leaf.expr.has_column(),
        };
        let seen = grouped.leaves.iter().filter(|leaf| is_seen(leaf)).cloned().collect();
        let seen = ExprScope { leaves: seen, plain: false, ..ExprScope::default() };
        if self.rng.chance(6) {
            let ty = *self.rng.pick(&COMMON);
            let expr = self.subquery(ty, 1, &seen, false);
            select.items.push(Item { expr, name: None });
        }
        if self.rng.chance(25) {
            let ty = *self.rng.pick(&COMMON);
            let expr = self.expr(ty, 1, &grouped, false);
            select.items.push(Item { expr, name: None });
        }
        // PostgreSQL 15 rewrites some keys when it plans (constants, AND and OR in lists, NOT in front of a
        // comparison). It does not recognise them above the sets, and takes their values where a set lacks them.
        let is_rewritten = |key: &Expr| {
            let text = key.to_string();
            key.ty == Ty::Bool && !matches!(key.node, ExprNode::Column(_))
                || ["case ", "coalesce(", " in (", " between ", " and ", " or ", "not "]
                    .iter()
                    .any(|word| text.contains(word))
        };
        // Overtake takes a subquery's value where a set lacks it, and does not distinguish a key from the same key with
        // COLLATE.
        let is_confused = |key: &Expr| ["(select ", " collate "].iter().any(|word| key.to_string().contains(word));
        let can_be_sets = !keys.iter().any(|key| is_rewritten(key) || is_confused(key));
        let sets = !keys.is_empty() && self.rng.chance(25) && can_be_sets;
        select.group = match (keys.is_empty(), sets) {
            (true, _) => None,
            (false, false) if self.rng.chance(10) => {
                Some(Group::Keys((1..=keys.len()).map(|at| column(at.to_string(), Ty::Int4, false)).collect()))
            }
            (false, false) => Some(Group::Keys(keys.clone())),
            (false, true) => Some(match self.rng.below(4) {
                0 => Group::Rollup(keys.clone()),
                1 => Group::Cube(keys.clone()),
                2 if 1 < keys.len() => {
                    let (first, others) = keys.split_at(1);
                    let inner = Group::Rollup(others.to_vec());
                    Group::Beside(first.to_vec(), Box::new(inner))
                }
                _ => {
                    let mut all: Vec<Vec<Expr>> = keys.iter().map(|key| vec![key.clone()]).collect();
                    all.extend([keys.clone(), Vec::new()]);
                    Group::Sets(all)
                }
            }),
        };
        if sets && self.rng.chance(30) {
            let key = self.rng.pick(&keys).clone();
            let key = Expr { vague: false, ..key };
            select.items.push(Item { expr: call("grouping($0)", vec![key], Ty::Int4), name: None });
        }
        let is_exact = !sets && !keys.is_empty() && keys.iter().all(|key| !key.vague);
        if is_exact && self.rng.chance(10) {
            let scope = ExprScope { unique: Some(keys.clone()), ..grouped.clone() };
            let window = self.window(1, &scope);
            select.items.extend(window.map(|expr| Item { expr, name: None }));
        }
        if self.rng.chance(if sets { 50 } else { 25 }) {
            let condition = if self.rng.chance(15) { self.exists(1, &seen) } else { self.condition(1, &grouped) };
            select.having.push(condition);
            if self.rng.chance(30) {
                let mut other = select.having[0].clone();
                other.vary(&mut self.rng);
                select.having.push(other);
            }
        }
        let mut query = QueryTree::of(Body::Select(Box::new(select)));
        if !keys.is_empty() && !sets && keys.iter().all(|key| !key.vague) && self.rng.chance(50) {
            if self.rng.chance(6) {
                let ty = *self.rng.pick(&COMMON);
                query.order.push((self.subquery(ty, 1, &seen, true), *self.rng.pick(&DIRECTIONS)));
            }
            query.order.extend(keys.iter().map(|key| (key.clone(), *self.rng.pick(&DIRECTIONS))));
            query.total = true;
            self.cut(&mut query);
        }
        query
    }

    /// Generates an aggregate of a call: counted, filtered by, or the largest.
    fn counted(&mut self, expr: Expr, scope: &ExprScope) -> Expr {
        if !expr.ty.is_ordered() || expr.vague {
            return call("count($0)", vec![Expr { vague: false, ..expr }], Ty::Int8);
        }
        match self.rng.below(5) {
            0 => call("count(distinct $0)", vec![expr], Ty::Int8),
            1 => {
                let condition = self.as_condition(expr, scope);
                call("count(*) filter (where $0)", vec![condition], Ty::Int8)
            }
            2 => {
                let condition = self.as_condition(expr, scope);
                call("sum(case when $0 then 1 else 0 end)", vec![condition], Ty::Int8)
            }
            3 if matches!(expr.ty, Ty::Int2 | Ty::Int4) => call("sum($0)", vec![expr], Ty::Int8),
            3 if expr.ty == Ty::Numeric => call("sum($0)", vec![expr], Ty::Numeric),
            _ if matches!(expr.ty, Ty::Int4 | Ty::Text | Ty::Date | Ty::Timestamp | Ty::Int8 | Ty::Timestamptz) => {
                let ty = expr.ty;
                let template = *self.rng.pick(&["max($0)", "min($0)"]);
                call(template, vec![expr], ty)
            }
            _ => call("count($0)", vec![expr], Ty::Int8),
        }
    }

    /// Generates a query around a query in FROM: a filter above, an order above an order.
    fn around(&mut self, focus: usize) -> QueryTree {
        let mut inner = self.select(Some(focus), 2, &[], 1);
        self.finish(&mut inner);
        let mut scope = ExprScope::default();
        let from = vec![self.derived(inner, false, &mut scope)];
        let mut select = Select::plain(Vec::new(), from, Vec::new());
        if self.rng.chance(60) {
            select.filter.push(self.condition(1, &scope));
        }
        if self.rng.chance(15) {
            return self.grouped(select, None, 2, scope);
        }
        for leaf in scope.leaves.clone() {
            let unused = self.rng.chance(15) && !select.items.is_empty();
            if !unused {
                select.items.push(Item { expr: leaf.expr, name: None });
            }
        }
        if self.rng.chance(30) {
            let ty = *self.rng.pick(&COMMON);
            let expr = self.expr(ty, 1, &scope, false);
            select.items.push(Item { expr, name: None });
        }
        QueryTree::of(Body::Select(Box::new(select)))
    }

    fn with(&mut self, focus: usize) -> QueryTree {
        let mut query = self.select(Some(focus), 2, &[], 1);
        self.finish(&mut query);
        let outputs = query.outputs();
        let columns: Vec<(String, Ty, bool)> =
            (1..).zip(&outputs).map(|(at, (ty, vague))| (format!("c{at}"), *ty, *vague)).collect();
        let name = self.alias("cte");
        self.ctes.push((name.clone(), columns.clone()));
        let mut main = if self.rng.chance(50) { self.select(None, 2, &[], 1) } else { self.mentions_of_cte() };
        let materialized = *self.rng.pick(&["", "", "materialized ", "not materialized "]);
        let columns = columns.into_iter().map(|(name, ..)| name).collect();
        main.with.push(Cte { name, columns, query, recursive: false, materialized });
        main
    }

    /// Generates two mentions of a CTE, joined or side by side.
    pub fn mentions_of_cte(&mut self) -> QueryTree {
        let (name, columns) = self.ctes[0].clone();
        let mut scope = ExprScope::default();
        let mut from = Vec::new();
        for _ in 0..1 + self.rng.below(2) {
            let alias = self.alias("w");
            scope.leaves.extend(columns.iter().map(|(column_name, ty, vague)| Leaf {
                expr: column(format!("{alias}.{column_name}"), *ty, *vague),
                tame: !ty.is_float(),
                wild: false,
            }));
            from.push(FromItem::Table { name: name.clone(), alias });
        }
        let mut select = Select::plain(Vec::new(), from, vec![self.condition(1, &scope)]);
        if self.rng.chance(50) {
            return self.grouped(select, None, 2, scope);
        }
        for leaf in scope.leaves.iter().take(6) {
            select.items.push(Item { expr: leaf.expr.clone(), name: None });
        }
        QueryTree::of(Body::Select(Box::new(select)))
    }

    /// Generates aggregates in scalar subqueries that refer to the row around them.
    fn looking_around(&mut self, focus: usize) -> QueryTree {
        let mut scope = ExprScope { unique: Some(Vec::new()), ..ExprScope::default() };
        let from = self.from(0, &mut scope, &[]);
        let mut select = Select::plain(Vec::new(), from, Vec::new());
        let tried: Vec<Ty> =
            ELEMENTS.into_iter().filter(|element| !self.catalog.is_excepted(focus, *element)).collect();
        let element = *self.rng.pick(&tried);
        let mut all = vec![self.correlated(focus, element, &scope)];
        if all[0].has_literal() && self.rng.chance(50) {
            let mut other = all[0].clone();
            other.vary(&mut self.rng);
            all.push(other);
        }
        self.spread(&mut select, all, &scope);
        if select.items.is_empty() {
            let ty = *self.rng.pick(&COMMON);
            let expr = self.expr(ty, 1, &scope, false);
            select.items.push(Item { expr, name: None });
        }
        self.order_rows(select, &scope)
    }

    /// Generates UNION, INTERSECT or EXCEPT, each with ALL and without; now and then of set operations.
    fn set_operation(&mut self, focus: Option<usize>, items: usize) -> QueryTree {
        let left = match self.rng.chance(20) {
            true => {
                let mut inner = self.set_operation(focus, items);
                self.finish(&mut inner);
                inner
            }
            false => self.select(focus, items, &[], 1),
        };
        let types = left.outputs();
        let operator = self.set_operator();
        if operator != "union all" && !types.iter().all(can_merge) {
            return left;
        }
        let mut right = self.side(&types, operator != "union all");
        if self.rng.chance(15) && types.iter().all(can_merge) {
            let (two, operator) = (self.side(&types, true), self.set_operator());
            right = QueryTree::of(Body::Set { operator, left: Box::new(right), right: Box::new(two) });
            self.finish(&mut right);
        }
        QueryTree::of(Body::Set { operator, left: Box::new(left), right: Box::new(right) })
    }

    fn set_operator(&mut self) -> &'static str {
        self.rng.word(&["union", "union all", "union all", "intersect", "intersect all", "except", "except all"])
    }

    /// Generates a side of a set operation with columns of these types.
    fn side(&mut self, types: &[(Ty, bool)], exact: bool) -> QueryTree {
        let mut scope = ExprScope { unique: Some(Vec::new()), ..ExprScope::default() };
        let from = self.from(0, &mut scope, &[]);
        let mut select = Select::plain(Vec::new(), from, Vec::new());
        for (ty, _) in types {
            let expr = self.expr(*ty, 1, &scope, exact);
            select.items.push(Item { expr, name: None });
        }
        if self.rng.chance(40) {
            select.filter.push(self.condition(1, &scope));
        }
        self.order_rows(select, &scope)
    }
}

/// Returns true if equal values can be merged. Where equal values have several lengths, any of them may stay.
fn can_merge((ty, vague): &(Ty, bool)) -> bool {
    ty.is_ordered() && *ty != Ty::Bpchar && !vague
}
