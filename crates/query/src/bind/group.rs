//! Grouping: `GROUP BY` with grouping sets, and the expressions above it.
//!
//! Expressions of a query are first bound over the rows of `FROM`, as if there were no grouping. Then each
//! subexpression that is a group, or depends on one, is replaced by a column of the grouped row, and any column that
//! remains is an error.
//!
//! **Invariant:** a grouped row consists of the groups, the aggregates and, with grouping sets, the number of the set.
//! Values of window functions follow any row, and then those of set-returning functions.

use super::calls::{AGGREGATES, GROUPINGS, SETS, WINDOWS};
use super::select::SelectValues;
use super::{Binder, Clause, NameScope, settled};
use crate::plan::{Expr, PLACEHOLDERS, Typed, rewrite, slots_of};
use catalog::TableInfo;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::sync::Arc;
use syntax::ast::{self, ExprKind, GroupItem};
use syntax::lex::Span;
use types::Kind;
use types::datum::Datum;
use types::ops::CastContext;

/// Groups of a query.
pub(super) struct Grouping {
    pub(super) groups: Vec<(Expr, Kind)>,
    /// With grouping sets: the items of the select list or of ORDER BY that GROUP BY names by position, by output name
    /// or by an equal expression, each with its group. Such an item is NULL where its group is not in the set, even if
    /// it is a constant or equal to another group.
    named: Vec<(usize, usize)>,
    /// Grouping sets, as in [`crate::plan::Plan::Aggregate`].
    pub(super) sets: Option<Vec<Vec<usize>>>,
    /// Tables whose primary key is among the groups, with the slots of their first columns. All their columns are
    /// functionally dependent on the groups.
    determined: Vec<(usize, Arc<TableInfo>)>,
}

/// Layout of the grouped row: slots of the collected calls.
pub(super) struct GroupedRowLayout {
    pub(super) aggregates: usize,
    /// Slot of the number of the grouping set.
    pub(super) set: Option<usize>,
    pub(super) windows: usize,
    pub(super) sets: usize,
    /// Values of each call of `grouping`, one for each grouping set.
    pub(super) groupings: Vec<Vec<i32>>,
}

/// Units of work for comparing an expression with others.
const COMPARED: usize = 256;

/// True if a HAVING condition can be evaluated below the grouping, as a qual on input rows: it has no aggregate, no
/// query and no volatile function, so it is true of all rows of a group or of none.
pub(super) fn is_of_rows(condition: &Expr) -> bool {
    fn is_collected(expr: &Expr) -> bool {
        matches!(expr, Expr::Column(column) if PLACEHOLDERS <= *column) || expr.parts().into_iter().any(is_collected)
    }
    !condition.has_query() && !condition.is_volatile() && !is_collected(condition)
}

/// Maximal number of grouping sets, as in PostgreSQL.
const SETS_MAX: usize = 4096;
const CUBE_MAX: usize = 12;

impl Binder<'_> {
    /// Binds GROUP BY. Each group is an expression, a position in the select list, or an output name.
    pub(super) fn group_by(
        &self,
        groups: &[GroupItem],
        items: &mut SelectValues,
        scope: &NameScope<'_>,
    ) -> SqlResult<Grouping> {
        let has_sets = groups
            .iter()
            .any(|group| matches!(group, GroupItem::Rollup(..) | GroupItem::Cube(..) | GroupItem::Sets(..)));
        let mut grouping = Grouping { groups: Vec::new(), named: Vec::new(), sets: None, determined: Vec::new() };
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        for group in groups {
            pulse::tick(COMPARED)?;
            let choices = self.choices(group, sets.len(), items, scope, &mut grouping)?;
            if !has_sets {
                continue;
            }
            let mut both = Vec::with_capacity(sets.len() * choices.len());
            for set in &sets {
                for choice in &choices {
                    pulse::tick(set.len() + choice.len())?;
                    both.push([&set[..], choice].concat());
                }
            }
            sets = both;
        }
        for set in &mut sets {
            set.sort_unstable();
            set.dedup();
        }
        // Only groups that are in every set identify a row's key.
        let in_all = |at: usize| !has_sets || sets.iter().all(|set| set.contains(&at));
        let has_column = |slot: usize| {
            let is_it = |(group, _): &(Expr, Kind)| matches!(group, Expr::Column(at) if *at == slot);
            grouping.groups.iter().enumerate().any(|(at, group)| in_all(at) && is_it(group))
        };
        grouping.determined = scope
            .relations
            .iter()
            .filter_map(|relation| {
                let table = relation.table.as_ref()?;
                let key = &table.primary_key()?.columns;
                let is_there = key.iter().all(|column| has_column(relation.first + column));
                is_there.then(|| (relation.first, Arc::clone(table)))
            })
            .collect();
        let width = items.columns.len();
        for (item, _) in grouping.named.iter().filter(|(item, _)| *item < width) {
            self.settle(items, *item)?;
        }
        if has_sets {
            grouping.sets = Some(sets);
        } else {
            grouping.named.clear();
        }
        Ok(grouping)
    }

    /// Returns the grouping sets of an item of `GROUP BY`. Each will be combined with each of the `before` sets of the
    /// items before it.
    fn choices(
        &self,
        item: &GroupItem,
        before: usize,
        items: &SelectValues,
        scope: &NameScope<'_>,
        grouping: &mut Grouping,
    ) -> SqlResult<Vec<Vec<usize>>> {
        let mut lists = |keys: &[ast::Expr]| -> SqlResult<Vec<Vec<usize>>> {
            keys.iter().map(|key| self.group_list(key, items, scope, grouping)).collect()
        };
        // The number of sets is checked before they are built, since a CUBE has 2^n of them.
        match item {
            GroupItem::Expr(key) => lists(std::slice::from_ref(key)),
            GroupItem::Empty(_) => Ok(vec![Vec::new()]),
            GroupItem::Rollup(keys, _) => {
                let lists = lists(keys)?;
                check_sets(before, lists.len() + 1)?;
                rollup(&lists)
            }
            GroupItem::Cube(keys, _) => {
                let lists = lists(keys)?;
                if CUBE_MAX < lists.len() {
                    let message = "CUBE is limited to 12 elements";
                    return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
                }
                check_sets(before, 1 << lists.len())?;
                Ok(cube(&lists))
            }
            GroupItem::Sets(all, _) => {
                let lists = all.iter().map(|item| match item {
                    GroupItem::Expr(key) => self.group_list(key, items, scope, grouping),
                    GroupItem::Empty(_) => Ok(Vec::new()),
                    GroupItem::Rollup(..) | GroupItem::Cube(..) | GroupItem::Sets(..) => {
                        Err(SqlError::unsupported("ROLLUP, CUBE or GROUPING SETS in GROUPING SETS"))
                    }
                });
                let lists = lists.collect::<SqlResult<Vec<_>>>()?;
                check_sets(before, lists.len())?;
                Ok(lists)
            }
        }
    }

    /// Returns the groups of a key. A row without the keyword `ROW` stands for its fields.
    fn group_list(
        &self,
        key: &ast::Expr,
        items: &SelectValues,
        scope: &NameScope<'_>,
        grouping: &mut Grouping,
    ) -> SqlResult<Vec<usize>> {
        let parts = match &key.kind {
            ExprKind::Row { fields, is_explicit: false } => fields,
            _ => std::slice::from_ref(key),
        };
        parts.iter().map(|part| self.group(part, items, scope, grouping)).collect()
    }

    /// Returns the index of a group, which is added if it is new.
    fn group(
        &self,
        group: &ast::Expr,
        items: &SelectValues,
        scope: &NameScope<'_>,
        grouping: &mut Grouping,
    ) -> SqlResult<usize> {
        self.group_somewhere(group, items, scope, grouping).map_err(|error| self.at_expr(error, group))
    }

    fn group_somewhere(
        &self,
        group: &ast::Expr,
        items: &SelectValues,
        scope: &NameScope<'_>,
        grouping: &mut Grouping,
    ) -> SqlResult<usize> {
        // A column of this query takes precedence over an output name, which takes precedence over columns of outer
        // queries.
        let own = match &group.kind {
            ExprKind::Column(name) if name.parts.len() == 1 => match self.column(name, scope) {
                Ok(column) if matches!(column.expr, Expr::Column(_) | Expr::Coalesce(_) | Expr::Cast { .. }) => {
                    Some(column)
                }
                Err(error) if error.state() == SqlState::AMBIGUOUS_COLUMN => return Err(error),
                Ok(_) | Err(_) => None,
            },
            _ => None,
        };
        let are_same = |a: usize, b: usize| self.are_same(&items.all[a], &items.all[b], scope);
        let (typed, named) = match own {
            Some(column) => (column, None),
            None => match self.output_column("GROUP BY", group, &items.columns, are_same)? {
                Some(at) => (Typed::new(items.all[at].clone(), items.columns[at].kind), Some(at)),
                None => (self.expr(group, scope)?, None),
            },
        };
        if super::functions::has_aggregate(&typed.expr) {
            let message = format!("aggregate functions are not allowed in {}", Clause::GroupBy.name());
            return Err(SqlError::new(SqlState::GROUPING_ERROR, message));
        }
        if super::window::has_window(&typed.expr) {
            let message = "window functions are not allowed in GROUP BY";
            return Err(SqlError::new(SqlState::WINDOWING_ERROR, message));
        }
        if super::sets::has_set(&typed.expr) {
            return Err(SqlError::unsupported("GROUP BY of a set"));
        }
        let (written, kind) = (typed.kind, settled(typed.kind));
        self.groupable(kind.kind)?;
        let value = self.coerce(typed, kind, CastContext::Implicit)?.expr;
        // An expression refers to the first equal item of the select list or of ORDER BY, as in PostgreSQL.
        let is_it = |(at, item): (usize, &Expr)| {
            items.columns.get(at).is_none_or(|info| info.kind == written) && self.are_same(item, &value, scope)
        };
        let named = named.or_else(|| items.all.iter().enumerate().position(is_it));
        let known = match named {
            Some(item) => grouping.named.iter().find(|(own, _)| *own == item).map(|(_, group)| *group),
            None => grouping.groups.iter().position(|(group, _)| self.are_same(group, &value, scope)),
        };
        let at = known.unwrap_or_else(|| {
            grouping.groups.push((value, kind.kind));
            grouping.groups.len() - 1
        });
        if let (Some(item), None) = (named, known) {
            grouping.named.push((item, at));
        }
        Ok(at)
    }

    /// Rewrites an item of the select list over the grouped rows, as [`Binder::regroup`] does.
    pub(super) fn regroup_item(
        &self,
        item: usize,
        expr: &mut Expr,
        grouping: &mut Grouping,
        scope: &NameScope<'_>,
    ) -> SqlResult<()> {
        match grouping.named.iter().find(|(own, _)| *own == item) {
            Some((_, group)) => {
                *expr = Expr::Column(*group);
                Ok(())
            }
            None => self.regroup(expr, grouping, scope),
        }
    }

    /// Rewrites an expression over the rows of `FROM` as one over the grouped rows; placeholders of aggregates stay.
    pub(super) fn regroup(&self, expr: &mut Expr, grouping: &mut Grouping, scope: &NameScope<'_>) -> SqlResult<()> {
        let has_sets = grouping.sets.is_some();
        rewrite(expr, 0, &mut |expr, depth| {
            let column = match expr {
                Expr::Column(column) if depth == 0 => Some(*column),
                Expr::Outer { level, column } if *level == depth => Some(*column),
                _ => None,
            };
            let at = match column {
                Some(column) if PLACEHOLDERS <= column => return Ok(true),
                Some(column) => {
                    let is_it = |(group, _): &(Expr, Kind)| matches!(group, Expr::Column(at) if *at == column);
                    match grouping.groups.iter().position(is_it) {
                        Some(at) => at,
                        None => match grouping.determines(column) {
                            Some(kind) => grouping.add(column, kind),
                            None => return Err(self.not_grouped(column, depth, scope)),
                        },
                    }
                }
                // Constants and parameters stay; any other expression may be a group as a whole.
                None if depth == 0 && !matches!(expr, Expr::Constant(_) | Expr::Parameter(_)) => {
                    match grouping.groups.iter().position(|(group, _)| self.are_same(group, expr, scope)) {
                        // A subquery without references to the row is evaluated on its own, unless the sets name the
                        // whole item, as in PostgreSQL 15.
                        Some(_) if has_sets && expr.has_query() && slots_of(expr).is_empty() => return Ok(false),
                        Some(at) => at,
                        None => return Ok(false),
                    }
                }
                None => return Ok(false),
            };
            *expr = if depth == 0 { Expr::Column(at) } else { Expr::Outer { level: depth, column: at } };
            Ok(true)
        })
    }

    fn not_grouped(&self, column: usize, depth: usize, scope: &NameScope<'_>) -> SqlError {
        let name = scope.name_of(column);
        let message = if depth == 0 {
            format!("column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function")
        } else {
            format!("subquery uses ungrouped column \"{name}\" from outer query")
        };
        let error = SqlError::new(SqlState::GROUPING_ERROR, message);
        let place = scope.uses.borrow().iter().find(|(used, _)| *used == column).map(|(_, place)| *place);
        self.at_place(error, place.unwrap_or(Span::NOWHERE))
    }

    /// Binds `grouping(...)`. A placeholder stands for the value until the groups are known.
    pub(super) fn grouping_call(&self, arguments: &[ast::Expr], scope: &NameScope<'_>) -> SqlResult<Typed> {
        let arguments = self.exprs(arguments, scope)?;
        if 31 < arguments.len() {
            let message = "GROUPING must have fewer than 32 arguments";
            return Err(SqlError::new(SqlState::TOO_MANY_ARGUMENTS, message));
        }
        if !scope.clause.get().allows_aggregates() {
            let message = format!("grouping operations are not allowed in {}", scope.clause.get().name());
            return Err(SqlError::new(SqlState::GROUPING_ERROR, message));
        }
        let mut calls = scope.calls.borrow_mut();
        calls.groupings.push(arguments);
        Ok(Typed::new(Expr::Column(GROUPINGS + calls.groupings.len() - 1), Kind::Int4))
    }

    /// Returns the values of each call of `grouping` in each grouping set.
    pub(super) fn grouping_values(
        &self,
        calls: &[Vec<Typed>],
        grouping: &Grouping,
        scope: &NameScope<'_>,
    ) -> SqlResult<Vec<Vec<i32>>> {
        let wrong = |argument: &Typed| {
            let message = "arguments to GROUPING must be grouping expressions of the associated query level";
            self.at_place(SqlError::new(SqlState::GROUPING_ERROR, message), argument.place)
        };
        let all = [(0..grouping.groups.len()).collect::<Vec<_>>()];
        let sets = grouping.sets.as_deref().unwrap_or(&all);
        calls
            .iter()
            .map(|arguments| {
                let find = |argument: &Expr| {
                    grouping.groups.iter().position(|(group, _)| self.are_same(group, argument, scope))
                };
                let places = arguments.iter().map(|one| find(&one.expr).ok_or_else(|| wrong(one)));
                let places = places.collect::<SqlResult<Vec<_>>>()?;
                let bits =
                    |set: &Vec<usize>| places.iter().fold(0, |bits, place| bits << 1 | i32::from(!set.contains(place)));
                Ok(sets.iter().map(bits).collect())
            })
            .collect()
    }
}

/// Checks the number of sets before they are built: the product of both numbers.
///
/// # Errors
/// Fails with `54001` if there are too many.
fn check_sets(sets: usize, choices: usize) -> SqlResult<()> {
    if sets.saturating_mul(choices) <= SETS_MAX {
        return Ok(());
    }
    let message = "too many grouping sets present (maximum 4096)";
    Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message))
}

/// Returns the sets of ROLLUP, from all lists down to none. A group that occurs again adds nothing to a set.
fn rollup(lists: &[Vec<usize>]) -> SqlResult<Vec<Vec<usize>>> {
    let mut set = Vec::new();
    let mut sets = vec![Vec::new()];
    for list in lists {
        for group in list {
            pulse::tick(1 + set.len())?;
            if !set.contains(group) {
                set.push(*group);
            }
        }
        sets.push(set.clone());
    }
    sets.reverse();
    Ok(sets)
}

/// Returns the sets of CUBE: all subsets of the lists, the largest first.
fn cube(lists: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let count = lists.len();
    let subset = |bits: usize| {
        let chosen = (0..count).filter(|at| bits >> (count - 1 - at) & 1 == 1);
        chosen.flat_map(|at| lists[at].clone()).collect()
    };
    (0..1_usize << count).rev().map(subset).collect()
}

impl Grouping {
    /// Returns the type of a column that is functionally dependent on the groups.
    fn determines(&self, column: usize) -> Option<Kind> {
        self.determined.iter().find_map(|(first, table)| {
            let column = table.columns.get(column.checked_sub(*first)?)?;
            Some(column.kind.kind)
        })
    }

    /// Adds a dependent column as a group to every set. This does not change the groups' rows.
    fn add(&mut self, column: usize, kind: Kind) -> usize {
        let at = self.groups.len();
        self.groups.push((Expr::Column(column), kind));
        self.sets.iter_mut().flatten().for_each(|set| set.push(at));
        at
    }
}

impl GroupedRowLayout {
    /// Replaces placeholders by the slots of the collected calls.
    pub(super) fn place(&self, expr: &mut Expr) -> SqlResult<()> {
        rewrite(expr, 0, &mut |expr, depth| {
            let column = match expr {
                Expr::Column(column) if depth == 0 => *column,
                Expr::Outer { level, column } if *level == depth => *column,
                _ => return Ok(false),
            };
            let at = |column: usize| {
                if depth == 0 { Expr::Column(column) } else { Expr::Outer { level: depth, column } }
            };
            if GROUPINGS <= column {
                *expr = self.grouping(column - GROUPINGS, &at);
            } else if SETS <= column {
                *expr = at(self.sets + column - SETS);
            } else if WINDOWS <= column {
                *expr = at(self.windows + column - WINDOWS);
            } else if AGGREGATES <= column {
                *expr = at(self.aggregates + column - AGGREGATES);
            }
            Ok(true)
        })
    }

    fn grouping(&self, call: usize, at: &dyn Fn(usize) -> Expr) -> Expr {
        let number = |value: i32| Expr::Constant(Datum::Int4(value));
        let values = self.groupings.get(call).map_or(&[][..], Vec::as_slice);
        let Some(set) = self.set else { return number(values.first().copied().unwrap_or(0)) };
        let when = |(own, value): (usize, &i32)| {
            let arguments = Box::new([at(set), number(own as i32)]);
            (Expr::IsSame { kind: Kind::Int4, arguments }, number(*value))
        };
        let whens = values.iter().enumerate().map(when).collect();
        Expr::Case { whens, otherwise: Box::new(number(0)) }
    }
}
