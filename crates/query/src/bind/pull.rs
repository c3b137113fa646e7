//! Simple subqueries of `FROM` are pulled up, as by PostgreSQL's `pull_up_subqueries`: their sources and conditions become the
//! enclosing query's, and their columns are computed where they are used.
//!
//! **Invariant:** a pulled query has nothing but sources, conditions and columns, none of them volatile. Of one on the nullable
//! side of an outer join each column is null where its sources are.

use super::from::joined_steps;
use super::from::{Group, Item, ItemSource, Outer, split};
use super::subquery::lifted;
use crate::plan::{Expr, Plan, Slots, is_volatile_plan, rewrite, rewrite_plan, slots_of, visit, visit_plan};
use statement::error::SqlResult;

/// Sources of a query, beyond which none is pulled up.
const SOURCES_MAX: usize = 64;

/// Parts of expressions that pulling up a query may add, since its columns are used more than once.
const GROWTH_MAX: usize = 2_000;

/// A query that only joins, chooses and computes.
#[derive(Clone, Debug)]
pub struct Simple {
    pub(super) group: Group,
    pub(super) conditions: Vec<Expr>,
    pub(super) columns: Vec<Expr>,
    /// Places of its row.
    pub(super) width: usize,
}

impl Simple {
    /// The query as a plan of its own.
    pub(super) fn into_plan(self) -> Plan {
        let Simple { group, conditions, columns, width: _ } = self;
        let mut needed = Slots::default();
        columns.iter().for_each(|column| needed.add_all(&slots_of(column)));
        let input = Box::new(Plan::Joins(joined_steps(group, conditions, Some(&needed))));
        Plan::Project { input, columns }
    }
}

/// A source, with its places of the row before and after.
struct Leaf {
    first: usize,
    width: usize,
    to: usize,
    to_width: usize,
    /// Columns of a query that is pulled up.
    columns: Option<Vec<Expr>>,
}

/// New values of the places of a row.
struct Moves {
    leaves: Vec<Leaf>,
    /// By place.
    values: Vec<Expr>,
}

impl Moves {
    /// Puts the sources side by side, from this place on.
    fn new(mut leaves: Vec<Leaf>, start: usize) -> SqlResult<Moves> {
        leaves.sort_by_key(|leaf| (leaf.first, leaf.width));
        let mut next = start;
        let mut values = Vec::new();
        for leaf in &mut leaves {
            leaf.to = next;
            next += leaf.to_width;
            values.resize_with(values.len().max(leaf.first), || Expr::Constant(types::datum::Datum::Null));
            match &leaf.columns {
                None => values.extend((leaf.to..next).map(Expr::Column)),
                Some(columns) => {
                    for column in columns {
                        let mut column = column.clone();
                        shift(&mut column, leaf.to)?;
                        values.push(column);
                    }
                }
            }
        }
        Ok(Moves { leaves, values })
    }

    fn width(&self) -> usize {
        self.leaves.last().map_or(0, |leaf| leaf.to + leaf.to_width)
    }

    fn leaf(&self, item: &Item) -> Option<&Leaf> {
        self.leaves.iter().find(|leaf| leaf.first == item.first && leaf.width == item.width)
    }

    fn change(&self, expr: &mut Expr, depth: usize) -> SqlResult<bool> {
        let column = match expr {
            Expr::Column(column) if depth == 0 => *column,
            Expr::Outer { level, column } if *level == depth && 0 < depth => *column,
            _ => return Ok(false),
        };
        if let Some(value) = self.values.get(column) {
            let mut value = value.clone();
            for _ in 0..depth {
                value = lifted(value)?;
            }
            *expr = value;
        }
        Ok(true)
    }

    fn apply(&self, expr: &mut Expr) -> SqlResult<()> {
        rewrite(expr, 0, &mut |expr, depth| self.change(expr, depth))
    }

    fn needs(&self, before: &Slots) -> Slots {
        let mut after = before.clone();
        after.remove_all(before);
        let values = self.values.iter().enumerate();
        values.filter(|(at, _)| before.has(*at)).for_each(|(_, value)| after.add_all(&slots_of(value)));
        after
    }

    /// Whole sources.
    fn sources(&self, before: &Slots) -> Slots {
        let mut after = Slots::default();
        for leaf in self.leaves.iter().filter(|leaf| before.meets(&Slots::range(leaf.first, leaf.width))) {
            after.add_all(&Slots::range(leaf.to, leaf.to_width));
        }
        after
    }

    fn group(&self, group: Group) -> SqlResult<Group> {
        let mut all = Group { items: Vec::with_capacity(group.items.len()), conditions: Vec::new() };
        for item in group.items {
            let leaf = self.leaf(&item);
            let Item { source, mut first, mut width, outer, needs } = item;
            if let Some(leaf) = leaf {
                (first, width) = (leaf.to, leaf.to_width);
            }
            let needs = self.needs(&needs);
            let outer = match outer {
                None => None,
                Some(Outer { mut on, left }) => {
                    on.iter_mut().try_for_each(|on| self.apply(on))?;
                    Some(Outer { on, left: self.sources(&left) })
                }
            };
            let source = match source {
                ItemSource::Simple(simple) if leaf.is_some_and(|leaf| leaf.columns.is_some()) => {
                    let Simple { group, conditions, columns: _, width: _ } = *simple;
                    let moves = Moves::new(leaves_of(&group), first)?;
                    let mut own = moves.group(group)?;
                    for mut condition in conditions {
                        moves.apply(&mut condition)?;
                        own.conditions.push(condition);
                    }
                    if outer.is_none() {
                        all.items.append(&mut own.items);
                        all.conditions.append(&mut own.conditions);
                        continue;
                    }
                    ItemSource::Group(own)
                }
                ItemSource::Simple(simple) => {
                    ItemSource::Query { plan: Box::new(simple.into_plan()), is_lateral: false }
                }
                ItemSource::Table(table) => ItemSource::Table(table),
                ItemSource::Query { mut plan, is_lateral } => {
                    if is_lateral {
                        rewrite_plan(&mut plan, 1, &mut |expr, depth| self.change(expr, depth))?;
                    }
                    ItemSource::Query { plan, is_lateral }
                }
                ItemSource::Functions { mut calls, is_numbered } => {
                    calls.iter_mut().flat_map(|call| &mut call.arguments).try_for_each(|one| self.apply(one))?;
                    ItemSource::Functions { calls, is_numbered }
                }
                ItemSource::Group(group) => {
                    let group = self.group(group)?;
                    (first, width) = group.places();
                    ItemSource::Group(group)
                }
                ItemSource::Full { left, right, mut on } => {
                    let (left, right) = (self.group(left)?, self.group(right)?);
                    on.iter_mut().try_for_each(|on| self.apply(on))?;
                    let ((a, a_width), (b, b_width)) = (left.places(), right.places());
                    first = a.min(b);
                    width = (a + a_width).max(b + b_width) - first;
                    ItemSource::Full { left, right, on }
                }
            };
            all.items.push(Item { source, first, width, outer, needs });
        }
        for mut condition in group.conditions {
            self.apply(&mut condition)?;
            all.conditions.push(condition);
        }
        Ok(all)
    }
}

/// The expression over a row whose places begin so much further on.
fn shift(expr: &mut Expr, by: usize) -> SqlResult<()> {
    rewrite(expr, 0, &mut |expr, depth| {
        match expr {
            Expr::Column(column) if depth == 0 => *column += by,
            Expr::Outer { level, column } if *level == depth && 0 < depth => *column += by,
            _ => return Ok(false),
        }
        Ok(true)
    })
}

/// The sources of a group in which nothing is pulled up.
fn leaves_of(group: &Group) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    for item in &group.items {
        match &item.source {
            ItemSource::Group(group) => leaves.extend(leaves_of(group)),
            ItemSource::Full { left, right, on: _ } => {
                leaves.extend(leaves_of(left).into_iter().chain(leaves_of(right)))
            }
            ItemSource::Table(_) | ItemSource::Query { .. } | ItemSource::Functions { .. } | ItemSource::Simple(_) => {
                let (first, width) = (item.first, item.width);
                leaves.push(Leaf { first, width, to: first, to_width: width, columns: None });
            }
        }
    }
    leaves
}

/// Number of times that each place of the row is looked at.
#[derive(Default)]
struct Uses(Vec<usize>);

impl Uses {
    fn note(&mut self, expr: &Expr, depth: usize) {
        match expr {
            Expr::Column(column) if depth == 0 => self.add(*column),
            Expr::Outer { level, column } if *level == depth && 0 < depth => self.add(*column),
            _ => {}
        }
    }

    fn add(&mut self, column: usize) {
        if crate::plan::PLACEHOLDERS <= column {
            return;
        }
        self.0.resize(self.0.len().max(column + 1), 0);
        self.0[column] += 1;
    }

    fn add_expr(&mut self, expr: &Expr) {
        visit(expr, 0, &mut |expr, depth| self.note(expr, depth));
    }

    fn add_group(&mut self, group: &Group) {
        group.conditions.iter().for_each(|one| self.add_expr(one));
        for item in &group.items {
            item.outer.iter().flat_map(|outer| &outer.on).for_each(|on| self.add_expr(on));
            match &item.source {
                ItemSource::Table(_) | ItemSource::Simple(_) => {}
                ItemSource::Query { plan, is_lateral } => {
                    if *is_lateral {
                        visit_plan(plan, 1, &mut |expr, depth| self.note(expr, depth));
                    }
                }
                ItemSource::Functions { calls, is_numbered: _ } => {
                    calls.iter().flat_map(|call| &call.arguments).for_each(|one| self.add_expr(one));
                }
                ItemSource::Group(group) => self.add_group(group),
                ItemSource::Full { left, right, on } => {
                    self.add_group(left);
                    self.add_group(right);
                    on.iter().for_each(|on| self.add_expr(on));
                }
            }
        }
    }
}

fn size(expr: &Expr) -> usize {
    let mut size = 0;
    visit(expr, 0, &mut |_, _| size += 1);
    size
}

/// Says whether it is null where all of the row is.
fn is_strict(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Call { strict: true, arguments, .. } => arguments.iter().any(is_strict),
        Expr::Cast { argument, .. } => is_strict(argument),
        _ => false,
    }
}

/// Choice of the queries that are pulled up.
struct Choice {
    uses: Uses,
    sources: usize,
    leaves: Vec<Leaf>,
}

impl Choice {
    fn add(&mut self, group: &Group, is_nullable: bool, can_pull: bool) {
        for item in &group.items {
            let is_nullable = is_nullable || item.outer.is_some();
            let (first, width) = (item.first, item.width);
            let kept = Leaf { first, width, to: first, to_width: width, columns: None };
            match &item.source {
                ItemSource::Group(group) => self.add(group, is_nullable, can_pull),
                ItemSource::Full { left, right, on: _ } => {
                    self.add(left, true, false);
                    self.add(right, true, false);
                }
                ItemSource::Simple(simple) if can_pull && self.can_pull(simple, first, is_nullable) => {
                    self.leaves.push(Leaf { to_width: simple.width, columns: Some(simple.columns.clone()), ..kept });
                }
                ItemSource::Table(_)
                | ItemSource::Query { .. }
                | ItemSource::Functions { .. }
                | ItemSource::Simple(_) => self.leaves.push(kept),
            }
        }
    }

    fn can_pull(&mut self, simple: &Simple, first: usize, is_nullable: bool) -> bool {
        if simple.columns.is_empty() || (is_nullable && !simple.columns.iter().all(is_strict)) {
            return false;
        }
        let more = |(at, column): (usize, &Expr)| {
            let uses = self.uses.0.get(first + at).copied().unwrap_or(0);
            uses.saturating_sub(1).saturating_mul(size(column) - 1)
        };
        let growth = simple.columns.iter().enumerate().map(more).fold(0, usize::saturating_add);
        let sources = self.sources + leaves_of(&simple.group).len() - 1;
        if GROWTH_MAX < growth || SOURCES_MAX < sources {
            return false;
        }
        self.sources = sources;
        true
    }
}

fn has_simple(group: &Group) -> bool {
    group.items.iter().any(|item| match &item.source {
        ItemSource::Simple(_) => true,
        ItemSource::Group(group) => has_simple(group),
        ItemSource::Full { left, right, on: _ } => has_simple(left) || has_simple(right),
        ItemSource::Table(_) | ItemSource::Query { .. } | ItemSource::Functions { .. } => false,
    })
}

/// Result of [`pull_up`], for what is said of the row afterwards.
pub(super) struct Pulled(Option<Moves>);

impl Pulled {
    pub(super) fn apply(&self, expr: &mut Expr) -> SqlResult<()> {
        self.0.as_ref().map_or(Ok(()), |moves| moves.apply(expr))
    }

    /// Places of the row, which had this many.
    pub(super) fn width(&self, before: usize) -> usize {
        self.0.as_ref().map_or(before, Moves::width)
    }

    /// Place where the columns of a source begin that began there.
    pub(super) fn first(&self, before: usize) -> usize {
        let leaf = self.0.iter().flat_map(|moves| &moves.leaves).find(|leaf| leaf.first == before && 0 < leaf.width);
        leaf.map_or(before, |leaf| leaf.to)
    }
}

/// Says whether two evaluations of the sources may differ.
pub(super) fn is_volatile(group: &Group) -> bool {
    let of_item = |item: &Item| {
        item.outer.iter().flat_map(|outer| &outer.on).any(Expr::is_volatile)
            || match &item.source {
                ItemSource::Table(_) => false,
                ItemSource::Query { plan, is_lateral: _ } => is_volatile_plan(plan),
                ItemSource::Simple(simple) => {
                    simple.columns.iter().chain(&simple.conditions).any(Expr::is_volatile) || is_volatile(&simple.group)
                }
                ItemSource::Functions { calls, is_numbered: _ } => {
                    calls.iter().flat_map(|call| &call.arguments).any(Expr::is_volatile)
                }
                ItemSource::Group(group) => is_volatile(group),
                ItemSource::Full { left, right, on } => {
                    is_volatile(left) || is_volatile(right) || on.iter().any(Expr::is_volatile)
                }
            }
    };
    group.conditions.iter().any(Expr::is_volatile) || group.items.iter().any(of_item)
}

/// Pulls up the simple queries among the sources, unless they must stay; those that stay become plans. These expressions are
/// over the row.
pub(super) fn pull_up(tree: &mut Group, exprs: &mut [&mut Expr], can_pull: bool) -> SqlResult<Pulled> {
    if !has_simple(tree) {
        return Ok(Pulled(None));
    }
    let mut uses = Uses::default();
    exprs.iter().for_each(|expr| uses.add_expr(expr));
    uses.add_group(tree);
    let sources = leaves_of(tree).len();
    let mut choice = Choice { uses, sources, leaves: Vec::new() };
    choice.add(tree, false, can_pull);
    let moves = Moves::new(choice.leaves, 0)?;
    *tree = moves.group(std::mem::take(tree))?;
    // What was one condition may now be several.
    tree.conditions = std::mem::take(&mut tree.conditions).into_iter().flat_map(split).collect();
    exprs.iter_mut().try_for_each(|expr| moves.apply(expr))?;
    Ok(Pulled(Some(moves)))
}
