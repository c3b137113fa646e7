//! Which index finds the rows of a table, given what is known before it.
//!
//! **Invariant:** the condition is kept whole above the look-up, so a choice here can make a query slow, never wrong.

use crate::catalog::TableInfo;
use crate::ops;
use crate::plan::{Access, Expr, Limit};
use crate::types::Kind;

/// What `AND` joins.
pub(crate) fn conjuncts(condition: &Expr) -> Vec<&Expr> {
    match condition {
        Expr::And(parts) => parts.iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}

/// How a column compares with a value that is known before.
struct Bound {
    column: usize,
    comparison: Comparison,
    value: Expr,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    const ALL: [(&'static str, Comparison); 5] = [
        ("=", Comparison::Equal),
        ("<", Comparison::Less),
        ("<=", Comparison::LessOrEqual),
        (">", Comparison::Greater),
        (">=", Comparison::GreaterOrEqual),
    ];

    /// With its sides exchanged.
    fn turned(self) -> Comparison {
        match self {
            Comparison::Equal => Comparison::Equal,
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        }
    }
}

/// The best way to the rows of `table`, whose columns begin at `first` and for which only what is before it is known.
pub(crate) fn choose(table: &TableInfo, first: usize, conditions: &[&Expr]) -> Access {
    let bounds: Vec<Bound> = conditions
        .iter()
        .flat_map(|condition| conjuncts(condition))
        .filter_map(|one| bound(table, first, one))
        .collect();
    let find = |column: usize, wanted: &[Comparison]| {
        bounds.iter().find(|bound| bound.column == column && wanted.contains(&bound.comparison))
    };
    let mut best = Access::All;
    let mut best_score = 0;
    for (index, def) in table.table.indexes().iter().enumerate() {
        let equal: Vec<&Bound> = def.columns.iter().map_while(|column| find(*column, &[Comparison::Equal])).collect();
        let next = def.columns.get(equal.len()).copied();
        let side = |wanted: &[Comparison], inclusive: Comparison| {
            let bound = find(next?, wanted)?;
            Some(Limit { value: bound.value.clone(), inclusive: bound.comparison == inclusive })
        };
        let lower = side(&[Comparison::Greater, Comparison::GreaterOrEqual], Comparison::GreaterOrEqual);
        let upper = side(&[Comparison::Less, Comparison::LessOrEqual], Comparison::LessOrEqual);
        let is_point = def.unique && equal.len() == def.columns.len();
        let score =
            4 * equal.len() + usize::from(lower.is_some()) + usize::from(upper.is_some()) + 100 * usize::from(is_point);
        if best_score < score {
            best_score = score;
            best =
                Access::Index { index, prefix: equal.iter().map(|bound| bound.value.clone()).collect(), lower, upper };
        }
    }
    best
}

/// A conjunct as a bound of one of the table's columns, which must stand in it itself. A value of a narrower kind, as in
/// `bigint = integer`, is cast: the index compares values of the column's kind. One of a wider kind is not looked up.
fn bound(table: &TableInfo, first: usize, condition: &Expr) -> Option<Bound> {
    let Expr::Call { operator: Some(operator), arguments, .. } = condition else { return None };
    let [left, right] = &arguments[..] else { return None };
    let own = |expr: &Expr| match expr {
        Expr::Column(at) => at.checked_sub(first).filter(|at| *at < table.columns.len()),
        _ => None,
    };
    let (column, column_kind, value, value_kind, is_turned) = match (own(left), own(right)) {
        (Some(column), None) => (column, operator.left?, right, operator.right, false),
        (None, Some(column)) => (column, operator.right, left, operator.left?, true),
        _ => return None,
    };
    if !is_known_before(value, first) {
        return None;
    }
    let (_, comparison) = Comparison::ALL.into_iter().find(|(name, _)| *name == operator.name)?;
    let value = if value_kind == column_kind {
        value.clone()
    } else {
        let is_integer = |kind: Kind| matches!(kind, Kind::Int2 | Kind::Int4 | Kind::Int8);
        let cast = ops::find_cast(value_kind, column_kind, ops::Context::Implicit)
            .filter(|_| is_integer(value_kind) && is_integer(column_kind))?;
        Expr::Cast { eval: cast.eval, to: column_kind.into(), argument: Box::new(value.clone()) }
    };
    Some(Bound { column, comparison: if is_turned { comparison.turned() } else { comparison }, value })
}

/// Whether the value depends on nothing but columns before this one.
fn is_known_before(expr: &Expr, first: usize) -> bool {
    needs(expr) <= first
}

/// The number of columns, from the first on, that a condition needs.
pub(crate) fn needs(expr: &Expr) -> usize {
    match expr {
        Expr::Column(at) => at + 1,
        // Their queries may refer to any column of this row.
        Expr::Scalar(_) | Expr::Exists(_) | Expr::InQuery { .. } => usize::MAX,
        other => other.parts().into_iter().map(needs).max().unwrap_or(0),
    }
}
