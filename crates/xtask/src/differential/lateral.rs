//! LATERAL: items of FROM that refer to the rows of the items before them.

use super::ast::{Body, Cte, Expr, ExprNode, FromItem, Group, Item, QueryTree, Select};
use super::exprs::{ExprScope, Leaf, QueryGenerator, call, column};
use super::queries::COMMON;
use super::shapes::moments;
use super::types::Ty;

/// Set-returning calls over one value, with its type.
const CALLS: [(&str, Ty, Ty); 7] = [
    ("generate_series(1, least($0, 3))", Ty::Int4, Ty::Int4),
    ("generate_series($0, $0 + 2)", Ty::Int8, Ty::Int8),
    ("unnest($0)", Ty::Int4Array, Ty::Int4),
    ("unnest($0)", Ty::TextArray, Ty::Text),
    ("generate_subscripts($0, 1)", Ty::Int4Array, Ty::Int4),
    ("regexp_split_to_table($0, 'b')", Ty::Text, Ty::Text),
    (moments!("1 day", "12 hours"), Ty::Timestamptz, Ty::Timestamptz),
];

fn one(expr: Expr) -> Item {
    Item { expr, name: None }
}

fn simple(items: Vec<Expr>, from: Vec<FromItem>, filter: Vec<Expr>) -> QueryTree {
    QueryTree::of(Body::Select(Box::new(Select::plain(items.into_iter().map(one).collect(), from, filter))))
}

impl QueryGenerator<'_> {
    /// Generates a lateral source. `left` is the scope that it may refer to, beside the columns of enclosing queries;
    /// its columns go into `scope`.
    pub fn lateral(&mut self, depth: usize, left: &ExprScope, outer: &[Leaf], scope: &mut ExprScope) -> FromItem {
        let around: Vec<Leaf> = left.leaves.iter().chain(outer).cloned().collect();
        let roll = self.rng.below(100);
        if roll < 14 {
            let (template, from, ty) = *self.rng.pick(&CALLS);
            let seen = ExprScope { leaves: around.clone(), ..ExprScope::default() };
            if let Some(value) = self.leaf(from, &seen, true) {
                return self.call_in_from(call(template, vec![value], ty), ty, scope);
            }
        }
        // A source of one row keeps unique columns unique.
        let mut is_single = false;
        let mut query = match roll {
            0..30 => self.steps(&around),
            30..48 => {
                is_single = true;
                self.aggregated(&around)
            }
            48..62 => {
                is_single = self.rng.chance(50);
                self.first_rows(&around, if is_single { 1 } else { 3 })
            }
            62..70 => self.values_of(&around),
            70..76 => self.both_of(&around),
            76..84 => self.with_inside(&around),
            84..92 => self.per_group(&around),
            _ => self.select(None, 1, &around, depth.saturating_sub(1)),
        };
        if !is_single {
            self.finish(&mut query);
        }
        let unique = scope.unique.take();
        let made = self.derived(query, true, scope);
        scope.unique = unique.filter(|_| is_single);
        made
    }

    /// Generates a small query over one table, with conditions that tie its rows to those around it.
    fn tied(&mut self, around: &[Leaf]) -> (Select, ExprScope) {
        let scope = ExprScope { leaves: around.to_vec(), ..ExprScope::default() };
        let (mut select, mut inner) = self.small(&scope, true);
        inner.plain = true;
        if self.rng.chance(20) {
            let condition = self.condition(1, &inner);
            select.filter.push(condition);
        }
        (select, inner)
    }

    /// Generates aggregates of the rows that belong to the row around them.
    fn aggregated(&mut self, around: &[Leaf]) -> QueryTree {
        let (mut select, inner) = self.tied(around);
        for _ in 0..1 + self.rng.below(2) {
            let found = self.aggregate(None, 1, &inner, false);
            select.items.push(one(found.unwrap_or_else(|| call("count(*)", Vec::new(), Ty::Int8))));
        }
        if self.rng.chance(15) {
            select.having.push(call("(count(*) > 1)", Vec::new(), Ty::Bool));
        }
        QueryTree::of(Body::Select(Box::new(select)))
    }

    /// Generates a query of the first rows by the key.
    fn first_rows(&mut self, around: &[Leaf], rows: usize) -> QueryTree {
        let (mut select, inner) = self.tied(around);
        for _ in 0..1 + self.rng.below(2) {
            let ty = *self.rng.pick(&COMMON);
            select.items.push(one(self.expr(ty, 1, &inner, false)));
        }
        let mut query = QueryTree::of(Body::Select(Box::new(select)));
        let direction = *self.rng.pick(&["", " desc"]);
        query.order = inner.unique.into_iter().flatten().map(|key| (key, direction)).collect();
        query.total = true;
        query.limit = Some(rows);
        query
    }

    /// Generates VALUES of the row around it.
    fn values_of(&mut self, around: &[Leaf]) -> QueryTree {
        let scope = ExprScope { leaves: around.to_vec(), plain: true, ..ExprScope::default() };
        let types: Vec<Ty> = (0..1 + self.rng.below(2)).map(|_| *self.rng.pick(&COMMON)).collect();
        let rows = 1 + self.rng.below(3);
        let row = |gen_: &mut Self| types.iter().map(|ty| gen_.expr(*ty, 1, &scope, false)).collect();
        QueryTree::of(Body::Values((0..rows).map(|_| row(self)).collect()))
    }

    /// Generates UNION ALL, or another set operation, of values of the row around it.
    fn both_of(&mut self, around: &[Leaf]) -> QueryTree {
        let scope = ExprScope { leaves: around.to_vec(), plain: true, ..ExprScope::default() };
        let ty = *self.rng.pick(&[Ty::Int4, Ty::Text, Ty::Date, Ty::Int8, Ty::Timestamp]);
        let mut side = || {
            let value = self.expr(ty, 1, &scope, true);
            let filter = if self.rng.chance(30) { vec![self.condition(1, &scope)] } else { Vec::new() };
            Box::new(simple(vec![value], Vec::new(), filter))
        };
        let (left, right) = (side(), side());
        let operator = *self.rng.pick(&["union all", "union all", "union", "intersect", "except"]);
        QueryTree::of(Body::Set { operator, left, right })
    }

    /// Generates a WITH whose query refers to the row around it.
    fn with_inside(&mut self, around: &[Leaf]) -> QueryTree {
        let query = if self.rng.chance(50) { self.aggregated(around) } else { self.first_rows(around, 2) };
        let name = self.alias("w");
        let outputs = query.outputs();
        let columns: Vec<String> = (1..=outputs.len()).map(|at| format!("c{at}")).collect();
        let items = |alias: &str| -> Vec<Expr> {
            let pairs = columns.iter().zip(&outputs);
            pairs.map(|(own, (ty, vague))| column(format!("{alias}.{own}"), *ty, *vague)).collect()
        };
        let (one, two) = (self.alias("x"), self.alias("x"));
        let table = |alias: &String| FromItem::Table { name: name.clone(), alias: alias.clone() };
        let (items, from) = if self.rng.chance(40) {
            ([items(&one), items(&two)].concat(), vec![table(&one), table(&two)])
        } else {
            (items(&one), vec![table(&one)])
        };
        let mut main = simple(items, from, Vec::new());
        let materialized = *self.rng.pick(&["", "", "materialized ", "not materialized "]);
        main.with.push(Cte { name, columns, query, recursive: false, materialized });
        main
    }

    /// Generates groups of the rows that belong to the row around them.
    fn per_group(&mut self, around: &[Leaf]) -> QueryTree {
        let (mut select, inner) = self.tied(around);
        let ty = *self.rng.pick(&[Ty::Bool, Ty::Int2, Ty::Text, Ty::Date]);
        let mine = ExprScope { outer: Vec::new(), ..inner.clone() };
        let key = self.leaf(ty, &mine, true).filter(Expr::has_column);
        let found = self.aggregate(None, 1, &inner, false);
        select.items.push(one(found.unwrap_or_else(|| call("count(*)", Vec::new(), Ty::Int8))));
        if let Some(key) = key {
            select.items.insert(0, one(key.clone()));
            select.group = Some(if self.rng.chance(25) { Group::Rollup(vec![key]) } else { Group::Keys(vec![key]) });
        }
        QueryTree::of(Body::Select(Box::new(select)))
    }

    /// Generates a WITH RECURSIVE that begins with a column of an enclosing query, and may refer to it in each round.
    /// There are few rounds: it begins near zero, and ends there.
    pub fn steps(&mut self, around: &[Leaf]) -> QueryTree {
        let scope = ExprScope { leaves: around.to_vec(), ..ExprScope::default() };
        let mut looked = |choices: &'static [&'static str]| {
            let value = self.leaf(Ty::Int4, &scope, true).unwrap_or_else(|| self.literal(Ty::Int4));
            call(self.rng.word(choices), vec![value], Ty::Int4)
        };
        let first = looked(&["greatest($0, 1)", "coalesce($0 % 7, 2)", "abs($0 % 5)", "($0 % 9)"]);
        let bound = looked(&["least($0, 6)", "least(abs($0), 4)", "4", "3"]);
        let name = self.alias("r");
        let again = || vec![FromItem::Table { name: name.clone(), alias: name.clone() }];
        let number = |text: String, ty: Ty| call(&text, Vec::new(), ty);
        let left = simple(vec![first], Vec::new(), Vec::new());
        let below = call(&format!("({name}.k < $0)"), vec![bound], Ty::Bool);
        let right = simple(vec![number(format!("{name}.k + 1"), Ty::Int4)], again(), vec![below]);
        let operator = *self.rng.pick(&["union all", "union all", "union"]);
        let query = QueryTree::of(Body::Set { operator, left: Box::new(left), right: Box::new(right) });
        let (shown, ty) =
            *self.rng.pick(&[("k", Ty::Int4), ("k", Ty::Int4), ("sum(k)", Ty::Int8), ("count(*)", Ty::Int8)]);
        let shown = shown.replace('k', &format!("{name}.k"));
        let shown = if shown.ends_with(".k") { column(shown, ty, false) } else { number(shown, ty) };
        let mut main = simple(vec![shown], again(), Vec::new());
        main.with.push(Cte { name, columns: vec!["k".to_owned()], query, recursive: true, materialized: "" });
        main
    }

    /// Generates EXISTS or IN of a total, of groups or of some rows of those that belong to the row around them,
    /// perhaps under another total: queries that a condition may not be moved past.
    pub fn exists_of_part(&mut self, depth: usize, scope: &ExprScope) -> Expr {
        let around: Vec<Leaf> = scope.leaves.iter().chain(&scope.outer).cloned().collect();
        let mut query = match self.rng.below(5) {
            0 | 1 => self.aggregated(&around),
            2 => self.per_group(&around),
            _ => {
                let mut query = self.first_rows(&around, 2);
                query.offset = Some(self.rng.below(2));
                query
            }
        };
        if self.rng.chance(30) {
            let mut inner = ExprScope { outer: around, ..ExprScope::default() };
            let mut from = self.derived(query, false, &mut inner);
            if self.rng.chance(40) {
                let (select, _) = self.small(&ExprScope::default(), false);
                if let Some(left) = select.from.into_iter().next() {
                    let kind = *self.rng.pick(&["left join", "cross join"]);
                    let on = if kind == "left join" { vec![call("true", Vec::new(), Ty::Bool)] } else { Vec::new() };
                    from = FromItem::Join { kind, left: Box::new(left), right: Box::new(from), on };
                }
            }
            let value = if self.rng.chance(50) {
                call("count(*)", Vec::new(), Ty::Int8)
            } else {
                self.leaf(Ty::Int4, &inner, true).unwrap_or_else(|| call("count(*)", Vec::new(), Ty::Int8))
            };
            let filter = if self.rng.chance(50) { vec![self.condition(1, &inner)] } else { Vec::new() };
            query = simple(vec![value], vec![from], filter);
        }
        let (ty, vague) = query.outputs()[0];
        // IN needs one column whose equality is determined; other queries can only be asked by EXISTS.
        let one_column = query.outputs().len() == 1 && !vague && ty.is_ordered();
        let template = if one_column && self.rng.chance(50) {
            *self.rng.pick(&["($0 in ($q))", "($0 not in ($q))"])
        } else {
            *self.rng.pick(&["exists ($q)", "not exists ($q)"])
        };
        let args = if template.contains("$0") { vec![self.expr(ty, depth.min(1), scope, true)] } else { Vec::new() };
        Expr {
            node: ExprNode::Query { template: template.to_owned(), args, query: Box::new(query) },
            ty: Ty::Bool,
            vague: false,
        }
    }

    /// Generates a scalar subquery with WITH RECURSIVE over the row around it.
    pub fn counted_steps(&mut self, ty: Ty, scope: &ExprScope) -> Expr {
        let around: Vec<Leaf> = scope.leaves.iter().chain(&scope.outer).cloned().collect();
        let mut query = self.steps(&around);
        if let Body::Select(select) = &mut query.body {
            let key = query.with[0].name.clone();
            let shown =
                if ty == Ty::Int4 { ["max", "min"][self.rng.below(2)] } else { ["sum", "count"][self.rng.below(2)] };
            select.items = vec![one(call(&format!("{shown}({key}.k)"), Vec::new(), ty))];
        }
        Expr {
            node: ExprNode::Query { template: "($q)".to_owned(), args: Vec::new(), query: Box::new(query) },
            ty,
            vague: false,
        }
    }
}
