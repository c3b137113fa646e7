//! Generator of expressions, by the type that is wanted.

use super::ast::{Body, Choices, Expr, ExprNode, Form, FromItem, Item, QueryTree, Select};
use super::catalog::{ArgumentSlot, Callable, CallableKind, Catalog, WantedType};
use super::rng::Rng;
use super::schema::{COLUMNS, TABLES};
use super::types::{ELEMENTS, Ty};

/// Value that an expression can begin with: a column, a key of GROUP BY, an aggregate.
#[derive(Clone)]
pub struct Leaf {
    pub expr: Expr,
    /// True if sums of the value are exact.
    pub tame: bool,
    pub wild: bool,
}

/// Values in reach, and the expressions that may be built of them.
#[derive(Clone, Default)]
pub struct ExprScope {
    pub leaves: Vec<Leaf>,
    /// Columns of enclosing queries.
    pub outer: Vec<Leaf>,
    /// Columns that make a row of FROM unique; none if there are no such columns.
    pub unique: Option<Vec<Expr>>,
    /// True if no subquery is allowed, as in the keys of GROUP BY.
    pub plain: bool,
}

/// Columns of a CTE: name, type, vagueness.
pub type CteColumns = Vec<(String, Ty, bool)>;

/// Generator of one query.
pub struct QueryGenerator<'a> {
    pub rng: Rng,
    pub catalog: &'a Catalog,
    pub aliases: usize,
    /// Queries with names that FROM can mention, with their columns.
    pub ctes: Vec<(String, CteColumns)>,
    /// Indexes of the callables that were used.
    pub used: Vec<usize>,
}

pub fn column(name: String, ty: Ty, vague: bool) -> Expr {
    Expr { node: ExprNode::Column(name), ty, vague }
}

pub fn call(template: &str, args: Vec<Expr>, ty: Ty) -> Expr {
    let vague = args.iter().any(|arg| arg.vague);
    Expr { node: ExprNode::Call { template: template.to_owned(), args }, ty, vague }
}

impl QueryGenerator<'_> {
    pub fn alias(&mut self, prefix: &str) -> String {
        self.aliases += 1;
        format!("{prefix}{}", self.aliases)
    }

    pub fn literal(&mut self, ty: Ty) -> Expr {
        let node = ExprNode::Literal { raw: ty.random(&mut self.rng), choices: Choices::Type(ty), form: Form::Typed };
        Expr { node, ty, vague: false }
    }

    /// Generates a literal, or NULL.
    fn constant(&mut self, ty: Ty) -> Expr {
        if self.rng.chance(6) { call(&format!("null::{}", ty.name()), Vec::new(), ty) } else { self.literal(ty) }
    }

    fn pooled(&mut self, pool: &'static [&'static str], ty: Ty, form: Form) -> Expr {
        Expr {
            node: ExprNode::Literal { raw: self.rng.word(pool), choices: Choices::Pool(pool), form },
            ty,
            vague: false,
        }
    }

    /// Returns the columns of a table, under an alias.
    pub fn table_leaves(alias: &str) -> Vec<Leaf> {
        let id = Leaf { expr: column(format!("{alias}.id"), Ty::Int4, false), tame: true, wild: false };
        let others = COLUMNS.iter().map(|of| Leaf {
            expr: column(format!("{alias}.{}", of.name), of.ty, false),
            tame: of.tame && of.ty != Ty::Interval,
            wild: of.wild,
        });
        std::iter::once(id).chain(others).collect()
    }

    /// Returns a value of the type that is in reach, if there is one.
    pub fn leaf(&mut self, ty: Ty, scope: &ExprScope, exact: bool) -> Option<Expr> {
        let fits = |leaf: &&Leaf| leaf.expr.ty == ty && !(exact && leaf.expr.vague);
        let from_outer = !scope.outer.is_empty() && self.rng.chance(20);
        let leaves = if from_outer { &scope.outer } else { &scope.leaves };
        let mut found: Vec<&Leaf> = leaves.iter().filter(fits).collect();
        if found.iter().any(|leaf| !leaf.wild) && self.rng.chance(88) {
            found.retain(|leaf| !leaf.wild);
        }
        if found.is_empty() { None } else { Some(self.rng.pick(&found).expr.clone()) }
    }

    /// Returns a value of the type whose sums are exact.
    fn tame(&mut self, ty: Ty, scope: &ExprScope) -> Option<Expr> {
        let found: Vec<&Leaf> =
            scope.leaves.iter().filter(|leaf| leaf.expr.ty == ty && leaf.tame && !leaf.expr.vague).collect();
        if found.is_empty() {
            return None;
        }
        let leaf = self.rng.pick(&found).expr.clone();
        let choices: &'static [&'static str] = &["1", "2", "3", "0.5", "-4"];
        if ty.is_float() && ty.element().is_none() && self.rng.chance(50) {
            let factor = self.pooled(choices, ty, Form::Typed);
            let template = *self.rng.pick(&["($0 * $1)", "($0 + $1)", "($0 - $1)"]);
            return Some(call(template, vec![leaf, factor], ty));
        }
        Some(leaf)
    }

    /// Generates an expression of the type. An exact one depends only on determined values.
    pub fn expr(&mut self, ty: Ty, depth: usize, scope: &ExprScope, exact: bool) -> Expr {
        let roll = self.rng.below(100);
        if depth == 0 || roll < 30 {
            if !self.rng.chance(12)
                && let Some(leaf) = self.leaf(ty, scope, exact)
            {
                return leaf;
            }
            return self.constant(ty);
        }
        if roll < 34 && !scope.plain && ty != Ty::Name {
            if matches!(ty, Ty::Int4 | Ty::Int8) && self.rng.chance(30) {
                return self.counted_steps(ty, scope);
            }
            return self.subquery(ty, depth - 1, scope, exact);
        }
        if (34..38).contains(&roll)
            && !(exact && ty == Ty::Float8)
            && let Some(row) = self.row_of_operators(ty, scope)
        {
            return row;
        }
        if ty == Ty::Bpchar && self.rng.chance(40) {
            // The values have one length: equal values of several lengths print differently.
            let text = self.expr(Ty::Text, depth - 1, scope, exact);
            return call("($0)::char(5)", vec![text], ty);
        }
        match self.call_of(ty, depth, scope, exact) {
            Some(call) => call,
            None => self.leaf(ty, scope, exact).unwrap_or_else(|| self.literal(ty)),
        }
    }

    /// Generates a call of some function that returns the type.
    fn call_of(&mut self, ty: Ty, depth: usize, scope: &ExprScope, exact: bool) -> Option<Expr> {
        let catalog = self.catalog;
        for _ in 0..20 {
            let at = self.rng.below(catalog.all.len());
            let callable = &catalog.all[at];
            let fits = match callable.returns {
                WantedType::Exact(returned) => returned == ty,
                WantedType::Element => ELEMENTS.contains(&ty) && self.rng.chance(25),
                WantedType::Array => ty.element().is_some(),
                WantedType::Any | WantedType::Word => false,
            };
            if callable.kind == CallableKind::Scalar && fits && !(exact && callable.vague) {
                let element = match callable.returns {
                    WantedType::Element => ty,
                    WantedType::Array => ty.element().expect("it is an array"),
                    WantedType::Exact(_) | WantedType::Any | WantedType::Word => *self.rng.pick(&ELEMENTS),
                };
                if catalog.is_excepted(at, element) {
                    continue;
                }
                return Some(self.call(at, element, depth - 1, scope));
            }
        }
        None
    }

    /// Generates a call of this callable, with its polymorphic places of this type.
    pub fn call(&mut self, at: usize, element: Ty, depth: usize, scope: &ExprScope) -> Expr {
        let callable = &self.catalog.all[at];
        self.used.push(at);
        let ty = match callable.returns {
            WantedType::Exact(ty) => ty,
            WantedType::Array => element.array().unwrap_or(Ty::TextArray),
            WantedType::Element | WantedType::Any | WantedType::Word => element,
        };
        let args = self.arguments(callable, element, depth, scope);
        let mut made = call(&callable.template, args, ty);
        // Of equal values that print differently, some functions may return either.
        let picks = callable.template.starts_with("greatest")
            || callable.template.starts_with("least")
            || callable.template.starts_with("nullif");
        made.vague |= callable.vague || picks && !ty.is_clean();
        made
    }

    fn slot_type(&mut self, slot: &ArgumentSlot, element: Ty) -> Ty {
        match slot.want {
            WantedType::Exact(ty) => ty,
            WantedType::Element => element,
            WantedType::Array => element.array().unwrap_or(Ty::TextArray),
            WantedType::Any => *self.rng.pick(&ELEMENTS),
            WantedType::Word => Ty::Text,
        }
    }

    fn arguments(&mut self, callable: &Callable, element: Ty, depth: usize, scope: &ExprScope) -> Vec<Expr> {
        // One place at least takes a value of the row; constants stand in many of the others.
        let open: Vec<usize> = (0..callable.slots.len()).filter(|at| callable.slots[*at].pool.is_none()).collect();
        let main = if open.is_empty() { usize::MAX } else { *self.rng.pick(&open) };
        let is_sum = callable.kind == CallableKind::Aggregate || callable.kind == CallableKind::Window;
        let mut args = Vec::new();
        for (at, slot) in callable.slots.iter().enumerate() {
            let ty = self.slot_type(slot, element);
            let arg = if let WantedType::Word = slot.want {
                self.pooled(slot.pool.unwrap_or(&["1"]), ty, Form::Word)
            } else if let Some(pool) =
                slot.pool.filter(|_| callable.kind == CallableKind::OrderedSet || self.rng.chance(92))
            {
                let form = if ty == Ty::Text && self.rng.chance(70) { Form::Unknown } else { Form::Typed };
                self.pooled(pool, ty, form)
            } else if is_sum
                && ty.is_float()
                && let Some(tame) = self.tame(ty, scope)
            {
                tame
            } else if at == main {
                let found = if depth == 0 || self.rng.chance(60) { self.leaf(ty, scope, true) } else { None };
                found.unwrap_or_else(|| self.expr(ty, depth, scope, true))
            } else if self.rng.chance(45) || ty == Ty::Name {
                if ty == Ty::Name { self.literal(ty) } else { self.constant(ty) }
            } else {
                self.expr(ty, depth.min(1), scope, true)
            };
            args.push(match slot.wrap {
                Some(template) => call(template, vec![arg], ty),
                None => arg,
            });
        }
        args
    }

    /// Generates a condition.
    pub fn condition(&mut self, depth: usize, scope: &ExprScope) -> Expr {
        if !scope.plain && self.rng.chance(10) {
            return self.exists(depth, scope);
        }
        if self.rng.chance(35) {
            // The comparison keeps a part of the rows.
            let ty = *self.rng.pick(&[Ty::Int4, Ty::Int8, Ty::Numeric, Ty::Text, Ty::Date, Ty::Timestamp, Ty::Float8]);
            if let Some(leaf) = self.leaf(ty, scope, true) {
                let other = self.expr(ty, depth.min(1), scope, true);
                let template =
                    *self.rng.pick(&["($0 = $1)", "($0 <> $1)", "($0 < $1)", "($0 >= $1)", "($0 > $1)", "($0 <= $1)"]);
                return call(template, vec![leaf, other], Ty::Bool);
            }
        }
        self.expr(Ty::Bool, depth.max(1), scope, true)
    }

    /// Generates FROM, WHERE and the scope of a small subquery over one table, which may have to refer to the row
    /// around it.
    pub fn small(&mut self, scope: &ExprScope, must_look: bool) -> (Select, ExprScope) {
        let (table, _) = *self.rng.pick(&TABLES);
        let alias = self.alias("s");
        let mut outer = scope.leaves.clone();
        outer.extend(scope.outer.iter().cloned());
        let unique = Some(vec![column(format!("{alias}.id"), Ty::Int4, false)]);
        let leaves = Self::table_leaves(&alias);
        let inner = ExprScope { leaves, outer, unique, plain: true };
        let mut filter = Vec::new();
        if must_look || self.rng.chance(60) {
            let ty = *self.rng.pick(&[Ty::Int4, Ty::Int4, Ty::Text, Ty::Date, Ty::Int8]);
            let mine = ExprScope { outer: Vec::new(), ..inner.clone() };
            let theirs = ExprScope { leaves: inner.outer.clone(), ..ExprScope::default() };
            if let (Some(one), Some(two)) = (self.leaf(ty, &mine, true), self.leaf(ty, &theirs, true)) {
                let template =
                    *self.rng.pick(&["($0 = $1)", "($0 = $1)", "($0 = $1)", "($0 < $1)", "($0 = ($1 + 1000))"]);
                let template = if template.contains('+') && !matches!(ty, Ty::Int4 | Ty::Int8 | Ty::Date) {
                    "($0 = $1)"
                } else {
                    template
                };
                filter.push(call(template, vec![one, two], Ty::Bool));
            }
        }
        if self.rng.chance(40) {
            filter.push(self.condition(1, &inner));
        }
        let from = vec![FromItem::Table { name: table.to_owned(), alias }];
        let select = Select::plain(Vec::new(), from, filter);
        (select, inner)
    }

    /// Generates a scalar subquery: an aggregate, or the first row by the key.
    pub fn subquery(&mut self, ty: Ty, depth: usize, scope: &ExprScope, exact: bool) -> Expr {
        let (mut select, inner) = self.small(scope, false);
        let aggregate = if self.rng.chance(70) { self.aggregate(Some(ty), depth.min(1), &inner, exact) } else { None };
        let mut query = if let Some(value) = aggregate {
            select.items.push(Item { expr: value, name: None });
            // Null where a count, which no row leaves null, does not do.
            if self.rng.chance(25) {
                let template =
                    *self.rng.pick(&["(count(*) <> 1)", "(count(*) = 0)", "(count(*) < 2)", "(count(*) > 1)"]);
                select.having.push(call(template, Vec::new(), Ty::Bool));
            }
            QueryTree::of(Body::Select(Box::new(select)))
        } else {
            let value = self.expr(ty, depth.min(1), &inner, exact);
            select.items.push(Item { expr: value, name: None });
            let mut query = QueryTree::of(Body::Select(Box::new(select)));
            query.order = inner.unique.into_iter().flatten().map(|key| (key, "")).collect();
            query.limit = Some(1);
            query
        };
        query.total = true;
        let vague = query.outputs()[0].1;
        Expr {
            node: ExprNode::Query { template: "($q)".to_owned(), args: Vec::new(), query: Box::new(query) },
            ty,
            vague,
        }
    }

    /// Generates a scalar subquery of this aggregate that refers to the row around it. Some of these rows find none.
    pub fn correlated(&mut self, at: usize, element: Ty, scope: &ExprScope) -> Expr {
        let (select, inner) = self.small(scope, true);
        let value = self.aggregate_call(at, element, 1, &inner);
        let query = self.total(select, value, &inner);
        let (ty, vague) = query.outputs()[0];
        Expr {
            node: ExprNode::Query { template: "($q)".to_owned(), args: Vec::new(), query: Box::new(query) },
            ty,
            vague,
        }
    }

    pub fn exists(&mut self, depth: usize, scope: &ExprScope) -> Expr {
        if self.rng.chance(20) {
            return self.exists_of_part(depth, scope);
        }
        let (mut select, inner) = self.small(scope, false);
        let ty = *self.rng.pick(&[Ty::Int4, Ty::Text, Ty::Int8, Ty::Date, Ty::Numeric]);
        let value = self.expr(ty, depth.min(1), &inner, true);
        select.items.push(Item { expr: value, name: None });
        let template = *self.rng.pick(&[
            "exists ($q)",
            "not exists ($q)",
            "($0 in ($q))",
            "($0 not in ($q))",
            "($0 = any ($q))",
            "($0 <> all ($q))",
            "($0 < any ($q))",
            "($0 >= all ($q))",
        ]);
        if template == "($0 in ($q))" && self.rng.chance(25) {
            return self.row_in_query(select, &inner, depth, scope);
        }
        let args = if template.contains("$0") { vec![self.expr(ty, depth.min(1), scope, true)] } else { Vec::new() };
        let query = Box::new(QueryTree::of(Body::Select(Box::new(select))));
        Expr { node: ExprNode::Query { template: template.to_owned(), args, query }, ty: Ty::Bool, vague: false }
    }

    /// Generates `(a, b) IN (query)` and its kin. The query has one column so far.
    fn row_in_query(&mut self, mut select: Select, inner: &ExprScope, depth: usize, scope: &ExprScope) -> Expr {
        let ty = *self.rng.pick(&[Ty::Int4, Ty::Text, Ty::Int8, Ty::Date]);
        let first = select.items[0].expr.ty;
        let value = self.expr(ty, depth.min(1), inner, true);
        select.items.push(Item { expr: value, name: None });
        let template = *self.rng.pick(&[
            "(($0, $1) in ($q))",
            "(($0, $1) not in ($q))",
            "(($0, $1) = any ($q))",
            "(($0, $1) < any ($q))",
            "(($0, $1) <> all ($q))",
        ]);
        let args = vec![self.expr(first, depth.min(1), scope, true), self.expr(ty, depth.min(1), scope, true)];
        let query = Box::new(QueryTree::of(Body::Select(Box::new(select))));
        Expr { node: ExprNode::Query { template: template.to_owned(), args, query }, ty: Ty::Bool, vague: false }
    }
}
