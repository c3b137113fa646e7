//! Access paths: the index that finds the rows of a table, given the values that are known before it.
//!
//! **Invariant:** the qual is rechecked above the index scan, and the key that is looked up is the value that the qual
//! compares with. A choice here can make a query slow, but never wrong. A key of integers that is the whole qual is the
//! only one that is not rechecked.

use crate::plan::{Access, Expr, KeyBound, KeyList, KeyValue, Over, Slots, slots_of};
use catalog::TableInfo;
use catalog::storage::search::{KeyPrecision, keeps_order, precision};
use types::Kind;
use types::datum::Datum;
use types::ops::Callee;

/// Comparison of a column with a known value.
#[derive(Clone)]
struct ColumnBound {
    column: usize,
    comparison: ComparisonKind,
    value: KeyValue,
}

/// Equality of a column with any value of a list.
struct AnyOf {
    column: usize,
    list: KeyList,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ComparisonKind {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl ComparisonKind {
    const ALL: [(&'static str, ComparisonKind); 5] = [
        ("=", ComparisonKind::Equal),
        ("<", ComparisonKind::Less),
        ("<=", ComparisonKind::LessOrEqual),
        (">", ComparisonKind::Greater),
        (">=", ComparisonKind::GreaterOrEqual),
    ];

    /// Commutes the comparison.
    fn turned(self) -> ComparisonKind {
        match self {
            ComparisonKind::Equal => ComparisonKind::Equal,
            ComparisonKind::Less => ComparisonKind::Greater,
            ComparisonKind::LessOrEqual => ComparisonKind::GreaterOrEqual,
            ComparisonKind::Greater => ComparisonKind::Less,
            ComparisonKind::GreaterOrEqual => ComparisonKind::LessOrEqual,
        }
    }
}

/// Table to access: its slots of the row, and the slots that are known before.
pub(super) struct AccessTarget<'w> {
    pub(super) table: &'w TableInfo,
    pub(super) first: usize,
    pub(super) known: &'w Slots,
}

/// Quality of an access path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AccessRank {
    /// True if the path finds at most one row.
    pub(super) is_point: bool,
    /// Number of index columns that equal a value.
    pub(super) equal: usize,
    /// Number of bounds on the next column; 3 for a list of values.
    pub(super) next: usize,
}

/// Sort key that is a column of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderKey {
    pub(super) column: usize,
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
}

/// Returns the best access path to the rows that satisfy these conditions.
pub(super) fn choose(wanted: &AccessTarget<'_>, conditions: &[&Expr]) -> (Access, AccessRank) {
    let mut best = (Access::All, AccessRank::default());
    for found in ways(wanted, conditions) {
        if best.1 < found.1 {
            best = found;
        }
    }
    best
}

/// Returns an access path of the best rank that yields the rows in this order. A scan of a whole index is worthwhile
/// only if few rows are wanted.
pub(super) fn in_order(
    wanted: &AccessTarget<'_>,
    conditions: &[&Expr],
    keys: &[OrderKey],
    few_wanted: bool,
) -> Option<Access> {
    let best = choose(wanted, conditions).1;
    if best == AccessRank::default() && !few_wanted {
        return None;
    }
    ways(wanted, conditions).into_iter().filter(|(_, rank)| *rank == best).find_map(|(access, _)| match access {
        Access::Index { index, prefix, lower, upper, backward: _ } => {
            let backward = is_backward(wanted.table, index, prefix.len(), keys)?;
            Some(Access::Index { index, prefix, lower, upper, backward })
        }
        key @ Access::Key { .. } => Some(key),
        Access::All | Access::AnyOf { .. } => None,
    })
}

/// Returns whether an index yields this order by a backward scan (true) or a forward scan (false), or `None` if it does
/// not. The first `equal` columns are constant in all rows.
fn is_backward(table: &TableInfo, index: usize, equal: usize, keys: &[OrderKey]) -> Option<bool> {
    let (same, mut columns) = table.table.indexes()[index].columns.split_at_checked(equal)?;
    let mut seen = same.to_vec();
    let mut backward = None;
    for key in keys {
        if seen.contains(&key.column) {
            continue;
        }
        let (next, rest) = columns.split_first()?;
        // Indexes store nulls last.
        let is_there = *next == key.column
            && *backward.get_or_insert(key.descending) == key.descending
            && (key.nulls_first == key.descending || table.columns[key.column].not_null);
        if !is_there {
            return None;
        }
        seen.push(*next);
        columns = rest;
    }
    Some(backward.unwrap_or(false))
}

/// Returns the access paths of all indexes.
fn ways(wanted: &AccessTarget<'_>, conditions: &[&Expr]) -> Vec<(Access, AccessRank)> {
    let mut bounds = Vec::new();
    let mut lists = Vec::new();
    for condition in conditions {
        wanted.note(condition, &mut bounds, &mut lists);
    }
    let conjuncts: usize = conditions.iter().map(|condition| conjuncts(condition)).sum();
    let find = |column: usize, wanted: &[ComparisonKind]| {
        bounds.iter().find(|bound| bound.column == column && wanted.contains(&bound.comparison))
    };
    let way = |(index, def): (usize, &engine::IndexDef)| {
        let equal: Vec<&ColumnBound> =
            def.columns.iter().map_while(|column| find(*column, &[ComparisonKind::Equal])).collect();
        let prefix = || equal.iter().map(|bound| bound.value.clone()).collect::<Vec<_>>();
        let next = def.columns.get(equal.len()).copied();
        let is_point = def.unique && equal.len() == def.columns.len();
        let list = lists.iter().find(|list| Some(list.column) == next);
        let side = |wanted: &[ComparisonKind], inclusive: ComparisonKind| {
            let bound = find(next?, wanted)?;
            Some(Box::new(KeyBound { value: bound.value.clone(), inclusive: bound.comparison == inclusive }))
        };
        let lower = side(&[ComparisonKind::Greater, ComparisonKind::GreaterOrEqual], ComparisonKind::GreaterOrEqual);
        let upper = side(&[ComparisonKind::Less, ComparisonKind::LessOrEqual], ComparisonKind::LessOrEqual);
        let sides = usize::from(lower.is_some()) + usize::from(upper.is_some());
        let rank = AccessRank { is_point, equal: equal.len(), next: if list.is_some() { 3 } else { sides } };
        let access = match list {
            Some(list) => Access::AnyOf { index, prefix: prefix(), list: list.list.clone() },
            None if is_point => {
                // As many conjuncts as columns: each is the equality of one of them.
                let decides = conjuncts == equal.len() && equal.iter().all(|bound| wanted.is_of_integers(bound));
                Access::Key { index, values: prefix(), decides }
            }
            None => Access::Index { index, prefix: prefix(), lower, upper, backward: false },
        };
        (access, rank)
    };
    wanted.table.table.indexes().iter().enumerate().map(way).collect()
}

/// Returns the number of parts of a condition that must all hold.
fn conjuncts(condition: &Expr) -> usize {
    if let Expr::And(parts) = condition { parts.iter().map(conjuncts).sum() } else { 1 }
}

impl AccessTarget<'_> {
    /// Returns true if a bound compares integers: a key is found exactly where they are equal, and comparing never fails.
    fn is_of_integers(&self, bound: &ColumnBound) -> bool {
        let is_integer = |kind: Kind| matches!(kind, Kind::Int2 | Kind::Int4 | Kind::Int8);
        is_integer(bound.value.kind) && is_integer(self.table.columns[bound.column].kind.kind)
    }

    /// Returns the table's column, if the expression is one.
    fn own(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Column(at) => at.checked_sub(self.first).filter(|at| *at < self.table.columns.len()),
            _ => None,
        }
    }

    /// True if a value is the same for all rows of the table. A volatile one must be computed for each of them.
    fn is_known(&self, expr: &Expr) -> bool {
        slots_of(expr).is_within(self.known) && !expr.is_volatile()
    }

    fn note(&self, condition: &Expr, bounds: &mut Vec<ColumnBound>, lists: &mut Vec<AnyOf>) {
        match condition {
            Expr::And(parts) => parts.iter().for_each(|part| self.note(part, bounds, lists)),
            Expr::Call { .. } => {
                match self.bound(condition) {
                    Some((bound, KeyPrecision::Exact)) => bounds.push(bound),
                    Some((bound, KeyPrecision::Near)) if bound.comparison == ComparisonKind::Equal => {
                        for comparison in [ComparisonKind::GreaterOrEqual, ComparisonKind::LessOrEqual] {
                            bounds.push(ColumnBound { comparison, ..bound.clone() });
                        }
                    }
                    Some((bound, KeyPrecision::Near)) => bounds.push(bound),
                    None => {}
                }
                self.note_prefix(condition, bounds);
            }
            Expr::InList { kind, argument, list, hashed: _ } => {
                if let Some(column) = self.compared(argument, *kind)
                    && list.iter().all(|value| self.is_known(value))
                {
                    let one = |value: &Expr| KeyValue { value: value.clone(), kind: *kind };
                    lists.push(AnyOf { column, list: KeyList::Values(list.iter().map(one).collect()) });
                }
            }
            Expr::Quantified { all: false, arguments, over: Over::Array(array), condition, hashed: _ } => {
                lists.extend(self.any_of_array(arguments, array, condition));
            }
            // An OR of equalities on one column is a list of values.
            Expr::Or(_) => {
                let mut values = Vec::new();
                if let Some(column) = self.equalities(condition, &mut values) {
                    lists.push(AnyOf { column, list: KeyList::Values(values) });
                }
            }
            _ => {}
        }
    }

    /// Recognizes `column = ANY (array)` with elements that an index finds exactly.
    fn any_of_array(&self, arguments: &[Expr], array: &Expr, condition: &Expr) -> Option<AnyOf> {
        let [argument] = arguments else { return None };
        let Expr::Call { callee: Callee::Operator(operator), arguments: sides } = condition else { return None };
        let [left, Expr::Column(1)] = &sides[..] else { return None };
        let column = self.own(argument)?;
        let key = self.table.columns[column].kind.kind;
        let is_column = match left {
            Expr::Column(0) => true,
            Expr::Cast { to, argument, eval: _ } => {
                matches!(**argument, Expr::Column(0)) && to.typmod < 0 && keeps_order(key, to.kind)
            }
            _ => false,
        };
        let kind = operator.right;
        let is_found = is_column
            && operator.name == "="
            && precision(kind, key) == Some(KeyPrecision::Exact)
            && self.is_known(array);
        is_found.then(|| AnyOf { column, list: KeyList::Array { array: array.clone(), kind } })
    }

    /// Returns the table's column, if the expression is one or an order-preserving cast of one, and if the column's
    /// index finds values of this type exactly.
    fn compared(&self, expr: &Expr, kind: Kind) -> Option<usize> {
        let column = self.own_or_cast(expr)?;
        (precision(kind, self.table.columns[column].kind.kind) == Some(KeyPrecision::Exact)).then_some(column)
    }

    /// Returns the table's column, if the expression is one or an order-preserving cast of one.
    fn own_or_cast(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Cast { to, argument, eval: _ } if to.typmod < 0 => {
                let column = self.own(argument)?;
                keeps_order(self.table.columns[column].kind.kind, to.kind).then_some(column)
            }
            expr => self.own(expr),
        }
    }

    /// Returns the column, if all arms of an `OR` compare the same one with `=`.
    fn equalities(&self, condition: &Expr, values: &mut Vec<KeyValue>) -> Option<usize> {
        match condition {
            Expr::Or(parts) => {
                let mut columns = parts.iter().map(|part| self.equalities(part, values));
                let first = columns.next()??;
                columns.all(|column| column == Some(first)).then_some(first)
            }
            Expr::InList { kind, argument, list, hashed: _ } => {
                let column = self.compared(argument, *kind)?;
                let fits = list.iter().all(|value| self.is_known(value));
                values.extend(list.iter().map(|value| KeyValue { value: value.clone(), kind: *kind }));
                fits.then_some(column)
            }
            condition => match self.bound(condition)? {
                (ColumnBound { column, comparison: ComparisonKind::Equal, value }, KeyPrecision::Exact) => {
                    values.push(value);
                    Some(column)
                }
                (_, KeyPrecision::Exact | KeyPrecision::Near) => None,
            },
        }
    }

    /// Recognizes a conjunct that bounds one of the table's columns, which may be inside an order-preserving cast.
    fn bound(&self, condition: &Expr) -> Option<(ColumnBound, KeyPrecision)> {
        let Expr::Call { callee: Callee::Operator(operator), arguments } = condition else { return None };
        let [left, right] = &arguments[..] else { return None };
        let (column, value, kind, is_turned) = match (self.own_or_cast(left), self.own_or_cast(right)) {
            (Some(column), None) => (column, right, operator.right, false),
            (None, Some(column)) => (column, left, operator.left?, true),
            _ => return None,
        };
        let (_, comparison) = ComparisonKind::ALL.into_iter().find(|(name, _)| *name == operator.name)?;
        if !self.is_known(value) {
            return None;
        }
        let precision = precision(kind, self.table.columns[column].kind.kind)?;
        let comparison = if is_turned { comparison.turned() } else { comparison };
        Some((ColumnBound { column, comparison, value: KeyValue { value: value.clone(), kind } }, precision))
    }

    /// Derives a range from `text LIKE 'prefix%'`: from the prefix up to the next string that does not start with it.
    fn note_prefix(&self, condition: &Expr, bounds: &mut Vec<ColumnBound>) {
        let Expr::Call { callee: Callee::Operator(operator), arguments } = condition else { return };
        if operator.name != "~~" || operator.left != Some(Kind::Text) {
            return;
        }
        let [column, Expr::Constant(Datum::Text(pattern))] = &arguments[..] else { return };
        let Some(column) = self.own(column) else { return };
        let mut prefix = String::new();
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            match character {
                '%' | '_' => break,
                '\\' => prefix.extend(characters.next()),
                other => prefix.push(other),
            }
        }
        if prefix.is_empty() {
            return;
        }
        let text = |text: &str| KeyValue { value: Expr::Constant(Datum::text(text)), kind: Kind::Text };
        bounds.push(ColumnBound { column, comparison: ComparisonKind::GreaterOrEqual, value: text(&prefix) });
        // The upper bound increments the last character that has a successor, and drops those behind it.
        while let Some(last) = prefix.pop() {
            let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
            if let Some(next) = next {
                prefix.push(next);
                bounds.push(ColumnBound { column, comparison: ComparisonKind::Less, value: text(&prefix) });
                return;
            }
        }
    }
}
