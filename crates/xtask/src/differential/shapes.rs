//! Queries of a certain shape, each for a kind of fault that random ones meet too seldom: padding, recursion, guards, sets in
//! the select list. Constants that fail have none: PostgreSQL computes them when it plans, rows or no rows; rows here compute
//! them when a row needs them.

use super::ast::{Body, Cte, Distinct, Expr, FromItem, Group, Item, QueryTree, Select};
use super::catalog::WantedType;
use super::exprs::{ExprScope, QueryGenerator, call, column};
use super::queries::COMMON;
use super::schema::TABLES;
use super::types::Ty;

/// A series of moments from an argument on. One from infinity has no end.
macro_rules! moments {
    ($long:literal, $step:literal) => {
        concat!(
            "generate_series(nullif(nullif($0, 'infinity'), '-infinity'), ",
            "nullif(nullif($0, 'infinity'), '-infinity') + interval '",
            $long,
            "', interval '",
            $step,
            "')"
        )
    };
}
pub(super) use moments;

/// Calls that return sets, with the types of their arguments. Every set is small.
const SETS: [(&str, &[Ty], Ty); 16] = [
    ("generate_series(1, least($0, 3))", &[Ty::Int4], Ty::Int4),
    ("generate_series($0, $0 + 1)", &[Ty::Int8], Ty::Int8),
    ("generate_series(2, -least($0, 2), -1)", &[Ty::Int4], Ty::Int4),
    ("(generate_series(1, 2) + $0)", &[Ty::Int4], Ty::Int4),
    ("generate_series($0, $0 + 1, 0.25)", &[Ty::Numeric], Ty::Numeric),
    (moments!("2 hours", "30 minutes"), &[Ty::Timestamptz], Ty::Timestamptz),
    (moments!("3 days", "1 day"), &[Ty::Timestamptz], Ty::Timestamptz),
    (moments!("2 months", "1 month"), &[Ty::Timestamp], Ty::Timestamp),
    ("unnest($0)", &[Ty::Int4Array], Ty::Int4),
    ("unnest($0)", &[Ty::TextArray], Ty::Text),
    ("(unnest($0) || '-')", &[Ty::TextArray], Ty::Text),
    ("generate_subscripts($0, 1)", &[Ty::Int4Array], Ty::Int4),
    ("generate_subscripts($0, 1, true)", &[Ty::TextArray], Ty::Int4),
    ("regexp_split_to_table($0, 'b')", &[Ty::Text], Ty::Text),
    ("string_to_table($0, 'b')", &[Ty::Text], Ty::Text),
    ("(regexp_matches($0, '[a-z]', 'g'))[1]", &[Ty::Text], Ty::Text),
];

impl QueryGenerator<'_> {
    /// Generates functions that return sets in the select list, several of them side by side, and in expressions.
    pub fn sets_in_list(&mut self, focus: Option<usize>) -> QueryTree {
        let mut scope = ExprScope { unique: Some(Vec::new()), ..ExprScope::default() };
        let from = self.from(0, &mut scope, &[]);
        let plain = ExprScope { plain: true, ..scope.clone() };
        let mut select = Select::plain(Vec::new(), from, Vec::new());
        if self.rng.chance(40) {
            select.filter.push(self.condition(1, &scope));
        }
        let keys = scope.unique.clone().unwrap_or_default();
        select.items.extend(keys.into_iter().map(|expr| Item { expr, name: None }));
        if let Some(focus) = focus
            && let WantedType::Exact(ty) = self.catalog.all[focus].returns
        {
            let made = self.call(focus, Ty::Int4, 0, &plain);
            select.items.push(Item { expr: Expr { ty, ..made }, name: None });
        }
        for _ in 0..1 + self.rng.below(2) {
            let (template, places, ty) = *self.rng.pick(&SETS);
            let args: Option<Vec<Expr>> = places.iter().map(|ty| self.leaf(*ty, &plain, true)).collect();
            if let Some(args) = args {
                select.items.push(Item { expr: call(template, args, ty), name: None });
            }
        }
        if select.items.is_empty() || self.rng.chance(30) {
            let ty = *self.rng.pick(&COMMON);
            let expr = self.expr(ty, 1, &plain, false);
            select.items.push(Item { expr, name: None });
        }
        if self.rng.chance(15) && select.items.iter().all(|item| item.expr.ty.is_clean() && !item.expr.vague) {
            select.distinct = Distinct::Yes;
        }
        QueryTree::of(Body::Select(Box::new(select)))
    }

    /// Generates values of one `char(n)` that are grouped or made distinct, where their blanks show.
    pub fn padded(&mut self) -> QueryTree {
        let mut scope = ExprScope { unique: Some(Vec::new()), ..ExprScope::default() };
        let from = self.from(0, &mut scope, &[]);
        let plain = ExprScope { plain: true, ..scope };
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
        let mut outer = ExprScope::default();
        let from = vec![self.derived(QueryTree::of(Body::Select(Box::new(select))), false, &mut outer)];
        let value = outer.leaves[0].expr.clone();
        let mut select = Select::plain(Vec::new(), from, Vec::new());
        let is_grouped = self.rng.chance(50);
        // The blanks of a char(n) show in its length, in concatenations and in LIKE.
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
        QueryTree::of(Body::Select(Box::new(select)))
    }

    /// Generates a WITH RECURSIVE: numbers from a table's rows on.
    pub fn recursive(&mut self, focus: usize) -> QueryTree {
        let last = ["4", "7", "12"][self.rng.below(3)];
        let operator = *self.rng.pick(&["union", "union all"]);
        let number = |text: &str| call(text, Vec::new(), Ty::Int4);
        let select = |items: Vec<Expr>, from: FromItem, filter: Expr| {
            let items = items.into_iter().map(|expr| Item { expr, name: None }).collect();
            QueryTree::of(Body::Select(Box::new(Select::plain(items, vec![from], vec![filter]))))
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
        let query = QueryTree::of(Body::Set { operator, left: Box::new(left), right: Box::new(right) });
        let columns = vec![("k".to_owned(), Ty::Int4, false), ("x".to_owned(), Ty::Int4, false)];
        self.ctes.push(("r".to_owned(), columns));
        let mut main = if self.rng.chance(60) { self.mentions_of_cte() } else { self.select(Some(focus), 2, &[], 1) };
        let columns = vec!["k".to_owned(), "x".to_owned()];
        main.with.push(Cte { name: "r".to_owned(), columns, query, recursive: true, materialized: "" });
        main
    }

    /// Generates an expression that fails on some rows, behind a condition that keeps these away, or in a column that
    /// nobody uses.
    pub fn guarded(&mut self) -> QueryTree {
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
        let is_unused = self.rng.chance(50);
        match self.rng.below(3) {
            _ if is_unused => select.items.push(Item { expr: failing, name: None }),
            0 => select.filter.extend([guard, failing]),
            1 => select.filter.push(call("case when $0 then $1 else false end", vec![guard, failing], Ty::Bool)),
            _ => {
                select.filter.push(guard);
                select.items.push(Item { expr: failing, name: None });
            }
        }
        let mut query = QueryTree::of(Body::Select(Box::new(select)));
        if is_unused {
            // A plain query becomes a part of the query around it; these do not.
            match self.rng.below(3) {
                0 => {
                    query.order = vec![(column("1".to_owned(), Ty::Int4, false), "")];
                    query.offset = Some(self.rng.below(3));
                }
                1 => {
                    let other = Box::new(query.clone());
                    query = QueryTree::of(Body::Set { operator: "union all", left: Box::new(query), right: other });
                }
                _ => {}
            }
            let mut scope = ExprScope::default();
            let from = vec![self.derived(query, false, &mut scope)];
            let items = vec![Item { expr: scope.leaves[0].expr.clone(), name: None }];
            let outside = Select::plain(items, from, Vec::new());
            query = QueryTree::of(Body::Select(Box::new(outside)));
        }
        query.strict = true;
        query
    }

    /// Generates VALUES.
    pub fn values(&mut self) -> QueryTree {
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
        QueryTree::of(Body::Values(rows))
    }
}
