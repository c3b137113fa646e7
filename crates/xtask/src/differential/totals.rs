//! Totals in scalar subqueries: expressions of a total, and the conditions that its one row has to meet. Over no rows a
//! total has a row all the same, for which a join has to supply the missing values.

use super::ast::{Body, Expr, FromItem, Item, QueryTree, Select};
use super::exprs::{ExprScope, Leaf, QueryGenerator, call, column};
use super::types::Ty;

/// Conditions on a count; some hold over no rows, some do not, and a count is never null.
const ON_COUNT: [&str; 12] = [
    "($0 = 0)",
    "($0 <> 0)",
    "($0 <> 1)",
    "($0 < 2)",
    "($0 <= 1)",
    "($0 > 0)",
    "($0 >= 2)",
    "($0 in (0, 2))",
    "(not ($0 = 1))",
    "($0 is null)",
    "($0 is not null)",
    "(case when $0 = 0 then true when $0 > 1 then false end)",
];

/// Expressions of a count, and their types.
const OF_COUNT: [(&str, Ty); 14] = [
    ("($0 is null)", Ty::Bool),
    ("($0 is not null)", Ty::Bool),
    ("(not ($0 is null))", Ty::Bool),
    ("($0 = 0)", Ty::Bool),
    ("(($0 is null)::integer)", Ty::Int4),
    ("(case when $0 is null then 1 else 2 end)", Ty::Int4),
    ("(case when $0 >= 0 then 5 else 6 end)", Ty::Int4),
    ("(case when $0 = 0 then null else 7 end)", Ty::Int4),
    ("($0 + 1)", Ty::Int8),
    ("($0 * 0)", Ty::Int8),
    ("coalesce($0, 5)", Ty::Int8),
    ("nullif($0, 0)", Ty::Int8),
    ("($0)::text", Ty::Text),
    ("(10 / nullif($0, 1))", Ty::Int8),
];

impl QueryGenerator<'_> {
    /// Generates a scalar query of this value of a total, or of an expression of it.
    pub fn total(&mut self, mut select: Select, value: Expr, inner: &ExprScope) -> QueryTree {
        let (count, condition) = (self.count(inner), self.of_total(&value, inner));
        let value = match self.rng.below(10) {
            0..5 => value,
            5 | 6 if value.ty.is_ordered() && !value.vague => {
                let (literal, ty) = (self.literal(value.ty), value.ty);
                let template = *self.rng.pick(&["coalesce($0, $1)", "(case when $2 > 0 then $0 else $1 end)"]);
                call(template, vec![value, literal, count.clone()], ty)
            }
            7 => call("($0 is null)", vec![Expr { vague: false, ..value }], Ty::Bool),
            _ => {
                let (template, ty) = *self.rng.pick(&OF_COUNT);
                call(template, vec![count.clone()], ty)
            }
        };
        select.items.push(Item { expr: value.clone(), name: None });
        match self.rng.below(10) {
            0..4 => select.having.push(condition),
            // The same condition, asked by an enclosing query.
            4..6 => return self.around_total(select, count),
            _ => {}
        }
        QueryTree::of(Body::Select(Box::new(select)))
    }

    /// Generates a query of the first column of a query with a total, for which the count, as a second column, decides.
    fn around_total(&mut self, mut select: Select, count: Expr) -> QueryTree {
        let (ty, vague) = (select.items[0].expr.ty, select.items[0].expr.vague);
        select.items.push(Item { expr: count, name: None });
        let alias = self.alias("y");
        let [value, count] = [("c1", ty, vague), ("c2", Ty::Int8, false)]
            .map(|(name, ty, vague)| column(format!("{alias}.{name}"), ty, vague));
        let condition = call(self.rng.word(&ON_COUNT), vec![count], Ty::Bool);
        let from = FromItem::Sub {
            query: Box::new(QueryTree::of(Body::Select(Box::new(select)))),
            alias,
            columns: ["c1", "c2"].map(str::to_owned).into(),
            lateral: false,
        };
        let items = vec![Item { expr: value, name: None }];
        QueryTree::of(Body::Select(Box::new(Select::plain(items, vec![from], vec![condition]))))
    }

    /// Generates a count of all rows, or of the values of a column.
    fn count(&mut self, inner: &ExprScope) -> Expr {
        let own = ExprScope { outer: Vec::new(), ..inner.clone() };
        let ty = *self.rng.pick(&[Ty::Int4, Ty::Text, Ty::Date]);
        let leaf = if self.rng.chance(50) { self.leaf(ty, &own, true) } else { None };
        match leaf {
            Some(leaf) => call(self.rng.word(&["count($0)", "count(distinct $0)"]), vec![leaf], Ty::Int8),
            None => call("count(*)", Vec::new(), Ty::Int8),
        }
    }

    /// Generates a condition of HAVING.
    fn of_total(&mut self, value: &Expr, inner: &ExprScope) -> Expr {
        let count = self.count(inner);
        let asked = call(self.rng.word(&ON_COUNT), vec![count.clone()], Ty::Bool);
        match self.rng.below(10) {
            0..6 => asked,
            6 => call("($0 is null)", vec![Expr { vague: false, ..value.clone() }], Ty::Bool),
            7 | 8 => {
                let nothing = call("($0 is null)", vec![Expr { vague: false, ..value.clone() }], Ty::Bool);
                call(self.rng.word(&["($0 and $1)", "($0 or $1)"]), vec![nothing, asked], Ty::Bool)
            }
            _ => {
                let leaf = |expr: &Expr| Leaf { expr: expr.clone(), tame: false, wild: false };
                let leaves = [value, &count].into_iter().map(leaf).collect();
                self.condition(1, &ExprScope { leaves, plain: true, ..ExprScope::default() })
            }
        }
    }
}
