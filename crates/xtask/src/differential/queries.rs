//! Generator of queries. Each has one callable in its focus, in turn, so that all are tried equally often; calls of it that
//! differ only in their constants stand side by side.

use super::ast::{Body, Cte, Distinct, Expr, FromItem, Group, Item, Query, Select};
use super::catalog::{Catalog, Kind, Want};
use super::exprs::{Gen, Leaf, Scope, call, column};
use super::rng::Rng;
use super::schema::TABLES;
use super::types::{ELEMENTS, Ty};

/// A query, and the callables in it.
pub struct Generated {
    pub query: Query,
    pub used: Vec<usize>,
}

/// Types of columns that are made without a reason of their own.
const COMMON: [Ty; 12] = [
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

const DIRECTIONS: [&str; 5] = ["", "", " desc", " nulls first", " desc nulls last"];

/// Generates the query with this index.
pub fn generate(catalog: &Catalog, seed: u64, index: u64) -> Generated {
    // Every round of as many queries as there are callables has each callable once, in an order of its own.
    let count = catalog.all.len() as u64;
    let shift = Rng::new(seed, u64::MAX - index / count).below(catalog.all.len());
    let focus = (index as usize + shift) % catalog.all.len();
    let mut generator = Gen { rng: Rng::new(seed, index), catalog, aliases: 0, ctes: Vec::new(), used: Vec::new() };
    let query = generator.top(focus);
    Generated { query, used: generator.used }
}

impl Gen<'_> {
    fn top(&mut self, focus: usize) -> Query {
        let is_aggregate = matches!(self.catalog.all[focus].kind, Kind::Aggregate | Kind::OrderedSet);
        let mut query = match self.rng.below(100) {
            _ if is_aggregate && self.rng.chance(25) => self.looking_around(focus),
            0..50 => self.select(Some(focus), 2, &[], 2),
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

    /// ORDER BY, LIMIT and OFFSET by the positions of the columns, where these determine the order.
    fn finish(&mut self, query: &mut Query) {
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

    /// LIMIT and OFFSET, of a query whose order is total.
    fn cut(&mut self, query: &mut Query) {
        match self.rng.below(10) {
            0..3 => query.limit = Some(self.rng.below(12)),
            3..5 => query.offset = Some(self.rng.below(12)),
            5 => (query.limit, query.offset) = (Some(1 + self.rng.below(9)), Some(self.rng.below(6))),
            _ => {}
        }
    }

    /// A table, a subquery, a CTE or a list of values in FROM.
    fn relation(&mut self, depth: usize, scope: &mut Scope) -> FromItem {
        let roll = self.rng.below(100);
        if roll < 70 || depth == 0 {
            let (table, _) = TABLES[[0, 0, 0, 1, 1, 2, 2, 3][self.rng.below(8)]];
            let alias = self.alias("t");
            if let Some(unique) = &mut scope.unique {
                unique.push(column(format!("{alias}.id"), Ty::Int4, false));
            }
            scope.leaves.extend(Self::table_leaves(&alias));
            return FromItem::Table { name: table.to_owned(), alias };
        }
        if roll < 76 && !self.ctes.is_empty() {
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
        let (lateral, mut query) = if roll < 82 {
            (false, self.values())
        } else if roll < 88 && !scope.leaves.is_empty() {
            let outer = scope.leaves.clone();
            (true, if self.rng.chance(25) { self.steps(&outer) } else { self.select(None, 1, &outer, depth - 1) })
        } else if roll < 93 {
            (false, self.set_operation(None, 1))
        } else {
            (false, self.select(None, 1, &[], depth - 1))
        };
        self.finish(&mut query);
        self.derived(query, lateral, scope)
    }

    fn derived(&mut self, query: Query, lateral: bool, scope: &mut Scope) -> FromItem {
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

    /// FROM with joins.
    fn from(&mut self, depth: usize, scope: &mut Scope) -> Vec<FromItem> {
        let mut from = self.relation(depth, scope);
        for _ in 0..[0, 0, 0, 1, 1, 2][self.rng.below(6)] {
            let kind = *self.rng.pick(&["inner", "inner", "left", "left", "right", "full", "cross"]);
            let mut right_scope = Scope { unique: Some(Vec::new()), ..Scope::default() };
            let right = self.relation(depth, &mut right_scope);
            let mut on = Vec::new();
            if kind != "cross" {
                // An equality, for the hash join, and now and then more.
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
                let plain = Scope { plain: true, ..scope.clone() };
                on.push(self.condition(1, &plain));
            }
            from = FromItem::Join { kind, left: Box::new(from), right: Box::new(right), on };
        }
        let mut all = vec![from];
        if self.rng.chance(4) {
            all.extend(self.function_in_from(scope));
        }
        all
    }

    /// A function that returns rows, in FROM.
    fn function_in_from(&mut self, scope: &mut Scope) -> Option<FromItem> {
        let sets: Vec<usize> =
            (0..self.catalog.all.len()).filter(|at| self.catalog.all[*at].kind == Kind::Set).collect();
        let catalog = self.catalog;
        let plain = Scope { plain: true, ..scope.clone() };
        let (made, ty) = if sets.is_empty() || self.rng.chance(40) {
            let array = self.leaf(Ty::Int4Array, scope, true)?;
            (call("unnest($0)", vec![array], Ty::Int4), Ty::Int4)
        } else {
            let at = *self.rng.pick(&sets);
            let Want::Exact(ty) = catalog.all[at].returns else { return None };
            (self.call(at, Ty::Int4, 0, &plain), ty)
        };
        let alias = self.alias("f");
        let columns = vec!["c1".to_owned(), "c2".to_owned()];
        scope.unique = None;
        for (name, ty) in [("c1", ty), ("c2", Ty::Int8)] {
            scope.leaves.push(Leaf { expr: column(format!("{alias}.{name}"), ty, false), tame: true, wild: false });
        }
        Some(FromItem::Call { call: made, alias, columns, ordinality: true })
    }

    /// Calls of the callable that differ only in their constants.
    fn variants(&mut self, focus: usize, scope: &Scope) -> Vec<Expr> {
        let callable = &self.catalog.all[focus];
        let tried: Vec<Ty> =
            ELEMENTS.into_iter().filter(|element| !self.catalog.is_excepted(focus, *element)).collect();
        let element = *self.rng.pick(&tried);
        let first = match callable.kind {
            Kind::Scalar => self.call(focus, element, 1, scope),
            Kind::Aggregate | Kind::OrderedSet => self.aggregate_call(focus, element, 1, scope),
            Kind::Window | Kind::Set => return Vec::new(),
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

    /// A SELECT.
    pub fn select(&mut self, focus: Option<usize>, items: usize, outer: &[Leaf], depth: usize) -> Query {
        let mut scope = Scope { unique: Some(Vec::new()), outer: Vec::new(), ..Scope::default() };
        let from = self.from(depth, &mut scope);
        scope.outer = outer.to_vec();
        let kind = focus.map(|focus| self.catalog.all[focus].kind);
        let is_aggregate = matches!(kind, Some(Kind::Aggregate | Kind::OrderedSet));
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
        let windows = kind == Some(Kind::Window) || self.rng.chance(6);
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
    fn spread(&mut self, select: &mut Select, variants: Vec<Expr>, scope: &Scope) {
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

    fn as_condition(&mut self, expr: Expr, scope: &Scope) -> Expr {
        let ty = expr.ty;
        if ty == Ty::Bool {
            return expr;
        }
        let other = if self.rng.chance(70) { self.literal(ty) } else { self.expr(ty, 1, scope, true) };
        let template =
            *self.rng.pick(&["($0 <> $1)", "($0 is distinct from $1)", "($0 >= $1)", "($0 <= $1)", "($0 = $1)"]);
        call(template, vec![expr, other], Ty::Bool)
    }

    /// DISTINCT, and ORDER BY with LIMIT and OFFSET by a unique key.
    fn order_rows(&mut self, mut select: Select, scope: &Scope) -> Query {
        let sortable = |expr: &Expr| expr.ty.is_ordered() && !expr.vague;
        if self.rng.chance(8) && select.items.iter().all(|item| item.expr.ty.is_ordered()) {
            select.distinct = Distinct::Yes;
            for item in &mut select.items {
                item.expr.vague |= !item.expr.ty.is_clean();
            }
            return Query::of(Body::Select(Box::new(select)));
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
            if !items.is_empty() && self.rng.chance(60) {
                order.push((self.rng.pick(&items).clone(), *self.rng.pick(&DIRECTIONS)));
            }
            for key in unique {
                order.push((key.clone(), *self.rng.pick(&DIRECTIONS)));
            }
        }
        let mut query = Query::of(Body::Select(Box::new(select)));
        query.total = !order.is_empty();
        query.order = order;
        if query.total {
            self.cut(&mut query);
        }
        query
    }

    /// GROUP BY with aggregates, HAVING, grouping sets.
    fn grouped(&mut self, mut select: Select, focus: Option<usize>, items: usize, scope: Scope) -> Query {
        let is_aggregate = focus.is_some_and(|focus| self.catalog.all[focus].kind != Kind::Scalar);
        let plain = Scope { plain: true, outer: Vec::new(), ..scope.clone() };
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
        // The same key twice would be one key in a grouping set.
        let mut known = std::collections::BTreeSet::new();
        keys.retain(|key| known.insert(key.to_string()));
        while aggregates.len() < items {
            let found = self.aggregate(None, 1, &plain, false);
            aggregates.push(found.unwrap_or_else(|| call("count(*)", Vec::new(), Ty::Int8)));
        }
        let mut grouped = Scope { plain: true, ..Scope::default() };
        for expr in &mut keys {
            grouped.leaves.push(Leaf { expr: expr.clone(), tame: false, wild: false });
            // Which of several equal values stands for the group is not determined, but only printing tells.
            expr.vague |= !expr.ty.is_clean();
            grouped.leaves.last_mut().expect("it was pushed").expr.vague = expr.vague;
        }
        grouped.leaves.extend(aggregates.iter().map(|expr| Leaf { expr: expr.clone(), tame: false, wild: false }));
        for expr in keys.iter().chain(&aggregates) {
            select.items.push(Item { expr: expr.clone(), name: None });
        }
        if self.rng.chance(25) {
            let ty = *self.rng.pick(&COMMON);
            let expr = self.expr(ty, 1, &grouped, false);
            select.items.push(Item { expr, name: None });
        }
        // Of two keys that are the same once constants are folded PostgreSQL 15 orders by one, even where a set lacks it.
        let folds = |key: &Expr| ["case ", "coalesce("].iter().any(|word| key.to_string().contains(word));
        let sets = !keys.is_empty() && self.rng.chance(25) && !keys.iter().any(folds);
        select.group = match (keys.is_empty(), sets) {
            (true, _) => None,
            (false, false) => Some(Group::Keys(keys.clone())),
            (false, true) => Some(match self.rng.below(3) {
                0 => Group::Rollup(keys.clone()),
                1 => Group::Cube(keys.clone()),
                _ => {
                    let mut all: Vec<Vec<Expr>> = keys.iter().map(|key| vec![key.clone()]).collect();
                    all.extend([keys.clone(), Vec::new()]);
                    Group::Sets(all)
                }
            }),
        };
        if self.rng.chance(if sets { 50 } else { 25 }) {
            select.having.push(self.condition(1, &grouped));
            if self.rng.chance(30) {
                let mut other = select.having[0].clone();
                other.vary(&mut self.rng);
                select.having.push(other);
            }
        }
        let mut query = Query::of(Body::Select(Box::new(select)));
        if !keys.is_empty() && !sets && keys.iter().all(|key| !key.vague) && self.rng.chance(50) {
            query.order = keys.iter().map(|key| (key.clone(), *self.rng.pick(&DIRECTIONS))).collect();
            query.total = true;
            self.cut(&mut query);
        }
        query
    }

    /// An aggregate of a call: counted, filtered by, or the largest.
    fn counted(&mut self, expr: Expr, scope: &Scope) -> Expr {
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

    /// A query around a query in FROM: a filter above, an order above an order.
    fn around(&mut self, focus: usize) -> Query {
        let mut inner = self.select(Some(focus), 2, &[], 1);
        self.finish(&mut inner);
        let mut scope = Scope::default();
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
        Query::of(Body::Select(Box::new(select)))
    }

    fn with(&mut self, focus: usize) -> Query {
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

    /// Two mentions of a CTE, joined or side by side.
    fn mentions_of_cte(&mut self) -> Query {
        let (name, columns) = self.ctes[0].clone();
        let mut scope = Scope::default();
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
        Query::of(Body::Select(Box::new(select)))
    }

    /// Aggregates in scalar subqueries that look at the row around them.
    fn looking_around(&mut self, focus: usize) -> Query {
        let mut scope = Scope { unique: Some(Vec::new()), ..Scope::default() };
        let from = self.from(0, &mut scope);
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

    /// Values of one `char(n)` that are grouped or made distinct, where their blanks show.
    fn padded(&mut self) -> Query {
        let mut scope = Scope { unique: Some(Vec::new()), ..Scope::default() };
        let from = self.from(0, &mut scope);
        let plain = Scope { plain: true, ..scope };
        let (template, types): (&str, &[Ty]) = *self.rng.pick(&[
            ("($0)::char(5)", &[Ty::Text][..]),
            ("($0)::char(3)", &[Ty::Varchar]),
            ("($0)::char(8)", &[Ty::Bpchar]),
            ("coalesce($0, $1)", &[Ty::Bpchar, Ty::Bpchar]),
            ("case when $0 then $1 else $2 end", &[Ty::Bool, Ty::Bpchar, Ty::Bpchar]),
        ]);
        let values = types.iter().map(|ty| self.leaf(*ty, &plain, true).unwrap_or_else(|| self.literal(*ty))).collect();
        let key = call(template, values, Ty::Bpchar);
        let mut select = Select::plain(vec![Item { expr: key.clone(), name: None }], from, Vec::new());
        match self.rng.below(4) {
            0 => {}
            1 | 2 => select.distinct = Distinct::Yes,
            _ => select.group = Some(Group::Keys(vec![key])),
        }
        let mut outer = Scope::default();
        let from = vec![self.derived(Query::of(Body::Select(Box::new(select))), false, &mut outer)];
        let value = outer.leaves[0].expr.clone();
        let mut select = Select::plain(Vec::new(), from, Vec::new());
        let is_grouped = self.rng.chance(50);
        let shown: &[(&str, Ty)] = if is_grouped {
            &[
                ("max($0)", Ty::Bpchar),
                ("min($0)", Ty::Bpchar),
                ("octet_length(max($0))", Ty::Int4),
                ("(min($0) || '|')", Ty::Text),
                ("(max($0) like 'a %')", Ty::Bool),
                ("sum(octet_length($0))", Ty::Int8),
                ("count(distinct $0)", Ty::Int8),
                ("count($0)", Ty::Int8),
            ]
        } else {
            &[
                ("$0", Ty::Bpchar),
                ("octet_length($0)", Ty::Int4),
                ("($0 || '|')", Ty::Text),
                ("($0)::text", Ty::Text),
                ("($0 like '% ')", Ty::Bool),
                ("length($0)", Ty::Int4),
            ]
        };
        for _ in 0..1 + self.rng.below(3) {
            let (template, ty) = *self.rng.pick(shown);
            select.items.push(Item { expr: call(template, vec![value.clone()], ty), name: None });
        }
        Query::of(Body::Select(Box::new(select)))
    }

    /// WITH RECURSIVE: numbers from a table's rows on.
    fn recursive(&mut self, focus: usize) -> Query {
        let last = ["4", "7", "12"][self.rng.below(3)];
        let operator = *self.rng.pick(&["union", "union all"]);
        let number = |text: &str| call(text, Vec::new(), Ty::Int4);
        let select = |items: Vec<Expr>, from: FromItem, filter: Expr| {
            let items = items.into_iter().map(|expr| Item { expr, name: None }).collect();
            Query::of(Body::Select(Box::new(Select::plain(items, vec![from], vec![filter]))))
        };
        let base = FromItem::Table { name: (*self.rng.pick(&["t1", "t3", "t4"])).to_owned(), alias: "a".to_owned() };
        let left =
            select(vec![number("a.id"), number("coalesce(a.i, 1)")], base, call("(a.id < 4)", Vec::new(), Ty::Bool));
        let step = *self.rng.pick(&["(r.x * 2) % 7", "r.x + r.k", "abs(r.x - 3)"]);
        let again = FromItem::Table { name: "r".to_owned(), alias: "r".to_owned() };
        let right = select(
            vec![number("r.k + 1"), number(step)],
            again,
            call(&format!("(r.k < {last})"), Vec::new(), Ty::Bool),
        );
        let query = Query::of(Body::Set { operator, left: Box::new(left), right: Box::new(right) });
        let columns = vec![("k".to_owned(), Ty::Int4, false), ("x".to_owned(), Ty::Int4, false)];
        self.ctes.push(("r".to_owned(), columns));
        let mut main = if self.rng.chance(60) { self.mentions_of_cte() } else { self.select(Some(focus), 2, &[], 1) };
        let columns = vec!["k".to_owned(), "x".to_owned()];
        main.with.push(Cte { name: "r".to_owned(), columns, query, recursive: true, materialized: "" });
        main
    }

    /// Something that fails on some rows, behind a condition that keeps these away, or in a column that nobody uses.
    fn guarded(&mut self) -> Query {
        let (table, _) = *self.rng.pick(&TABLES);
        let alias = self.alias("t");
        let (ty, name, guard, failing) = *self.rng.pick(&[
            (Ty::Int4, "i", "($0 <> 0)", "(($1 / $0) > 1)"),
            (Ty::Numeric, "n", "($0 > 0)", "(ln($0) < $1)"),
            (Ty::Text, "s", "($0 ~ '^[0-9]+$')", "($0::integer > $1)"),
            (Ty::Int8, "l", "($0 <> 5)", "($1 % ($0 - 5) = 1)"),
        ]);
        let value = column(format!("{alias}.{name}"), ty, false);
        let number = self.literal(Ty::Int4);
        let id = Item { expr: column(format!("{alias}.id"), Ty::Int4, false), name: None };
        let (guard, failing) =
            (call(guard, vec![value.clone()], Ty::Bool), call(failing, vec![value, number], Ty::Bool));
        let from = vec![FromItem::Table { name: table.to_owned(), alias }];
        let mut select = Select::plain(vec![id], from, Vec::new());
        let is_unused = self.rng.chance(30);
        match self.rng.below(3) {
            _ if is_unused => select.items.push(Item { expr: failing, name: None }),
            0 => select.filter.extend([guard, failing]),
            1 => select.filter.push(call("case when $0 then $1 else false end", vec![guard, failing], Ty::Bool)),
            _ => {
                select.filter.push(guard);
                select.items.push(Item { expr: failing, name: None });
            }
        }
        let mut query = Query::of(Body::Select(Box::new(select)));
        if is_unused {
            let mut scope = Scope::default();
            let from = vec![self.derived(query, false, &mut scope)];
            let items = vec![Item { expr: scope.leaves[0].expr.clone(), name: None }];
            let outside = Select::plain(items, from, Vec::new());
            query = Query::of(Body::Select(Box::new(outside)));
        }
        query.strict = true;
        query
    }

    /// WITH RECURSIVE that begins with a column of an enclosing query.
    fn steps(&mut self, outer: &[Leaf]) -> Query {
        let scope = Scope { leaves: outer.to_vec(), ..Scope::default() };
        let first = self.leaf(Ty::Int4, &scope, true).unwrap_or_else(|| self.literal(Ty::Int4));
        let first = call("greatest($0, 1)", vec![first], Ty::Int4);
        let name = self.alias("r");
        let select = |item: Expr, from: Vec<FromItem>, filter: Vec<Expr>| {
            let items = vec![Item { expr: item, name: None }];
            Query::of(Body::Select(Box::new(Select::plain(items, from, filter))))
        };
        let again = || vec![FromItem::Table { name: name.clone(), alias: name.clone() }];
        let number = |text: String, ty: Ty| call(&text, Vec::new(), ty);
        let (left, step) = (select(first, Vec::new(), Vec::new()), number(format!("{name}.k + 1"), Ty::Int4));
        let right = select(step, again(), vec![number(format!("({name}.k < 4)"), Ty::Bool)]);
        let query = Query::of(Body::Set { operator: "union all", left: Box::new(left), right: Box::new(right) });
        let mut main = select(column(format!("{name}.k"), Ty::Int4, false), again(), Vec::new());
        main.with.push(Cte { name, columns: vec!["k".to_owned()], query, recursive: true, materialized: "" });
        main
    }

    /// VALUES.
    fn values(&mut self) -> Query {
        let types: Vec<Ty> = (0..1 + self.rng.below(3)).map(|_| *self.rng.pick(&COMMON)).collect();
        let mut rows = Vec::new();
        for _ in 0..1 + self.rng.below(5) {
            let mut row = Vec::new();
            for ty in &types {
                let null = self.rng.chance(15);
                row.push(if null { call(&format!("null::{}", ty.name()), Vec::new(), *ty) } else { self.literal(*ty) });
            }
            rows.push(row);
        }
        Query::of(Body::Values(rows))
    }

    /// UNION, INTERSECT, EXCEPT, each with ALL and without.
    fn set_operation(&mut self, focus: Option<usize>, items: usize) -> Query {
        let left = self.select(focus, items, &[], 1);
        let types = left.outputs();
        let operator =
            *self.rng.pick(&["union", "union all", "union all", "intersect", "intersect all", "except", "except all"]);
        // Of values of several lengths that are equal, any may stay.
        let can_merge = |(ty, vague): &(Ty, bool)| ty.is_ordered() && *ty != Ty::Bpchar && !vague;
        if operator != "union all" && !types.iter().all(can_merge) {
            return left;
        }
        let mut scope = Scope { unique: Some(Vec::new()), ..Scope::default() };
        let from = self.from(0, &mut scope);
        let mut select = Select::plain(Vec::new(), from, Vec::new());
        for (ty, _) in &types {
            let expr = self.expr(*ty, 1, &scope, operator != "union all");
            select.items.push(Item { expr, name: None });
        }
        if self.rng.chance(40) {
            select.filter.push(self.condition(1, &scope));
        }
        let right = self.order_rows(select, &scope);
        Query::of(Body::Set { operator, left: Box::new(left), right: Box::new(right) })
    }
}
