//! Pull-up of simple subqueries of FROM, as PostgreSQL's `pull_up_subqueries`: their inputs and quals move into the
//! enclosing query, and their columns are computed where they are used.
//!
//! **Invariant:** a pulled-up subquery has only inputs, quals and columns, none of them volatile. On the nullable side
//! of an outer join its columns are also strict, so that each is null where the inputs are.

use super::lifted;
use crate::plan::{
    Expr, InputKind, JoinGroup, JoinInput, JoinTree, OuterCondition, PLACEHOLDERS, Plan, Slots, is_volatile_plan,
    rewrite, rewrite_plan, slots_of, split, visit, visit_plan,
};
use statement::error::{SqlError, SqlResult, SqlState};

/// Number of inputs of a query above which no subquery is pulled up.
const SOURCES_MAX: usize = 64;

/// Maximal growth of expressions by pulling up a subquery whose columns are used several times.
const GROWTH_MAX: usize = 2_000;

/// True if a query may be pulled up.
pub(crate) fn is_simple(plan: &Plan) -> bool {
    simple(plan).is_some()
}

/// Returns the join tree and the columns of a query that may be pulled up: it only joins, filters and projects.
fn simple(plan: &Plan) -> Option<(&JoinTree, &[Expr])> {
    let (tree, columns) = parts(plan)?;
    (!tree.group.has_working() && !is_volatile_plan(plan)).then_some((tree, columns))
}

/// Returns the join tree and the columns of a query that has nothing else.
fn parts(plan: &Plan) -> Option<(&JoinTree, &[Expr])> {
    let Plan::Project { input, columns } = plan else { return None };
    let Plan::From(tree) = &**input else { return None };
    Some((tree, columns))
}

/// Input with its slots of the row before and after the pull-up.
struct PulledSource {
    first: usize,
    width: usize,
    to: usize,
    to_width: usize,
    /// Columns of the subquery, if it is pulled up.
    columns: Option<Vec<Expr>>,
}

/// New values of the slots of a row.
struct SlotMoves {
    leaves: Vec<PulledSource>,
    /// Value for each old slot.
    values: Vec<Expr>,
}

impl SlotMoves {
    /// Lays the inputs out side by side from this slot on.
    fn new(mut leaves: Vec<PulledSource>, start: usize) -> SqlResult<SlotMoves> {
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
        Ok(SlotMoves { leaves, values })
    }

    fn width(&self) -> usize {
        self.leaves.last().map_or(0, |leaf| leaf.to + leaf.to_width)
    }

    fn leaf(&self, input: &JoinInput) -> Option<&PulledSource> {
        self.leaves.iter().find(|leaf| leaf.first == input.first && leaf.width == input.width)
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

    /// Returns the new slots of the inputs that have any of these slots.
    fn sources(&self, before: &Slots) -> Slots {
        let mut after = Slots::default();
        for leaf in self.leaves.iter().filter(|leaf| before.meets(&Slots::range(leaf.first, leaf.width))) {
            after.add_all(&Slots::range(leaf.to, leaf.to_width));
        }
        after
    }

    fn group(&self, group: JoinGroup) -> SqlResult<JoinGroup> {
        let mut all = JoinGroup { inputs: Vec::with_capacity(group.inputs.len()), conditions: Vec::new() };
        for input in group.inputs {
            let leaf = self.leaf(&input);
            let JoinInput { kind, mut first, mut width, outer, needs } = input;
            if let Some(leaf) = leaf {
                (first, width) = (leaf.to, leaf.to_width);
            }
            let needs = self.needs(&needs);
            let outer = match outer {
                None => None,
                Some(OuterCondition { mut on, left }) => {
                    on.iter_mut().try_for_each(|on| self.apply(on))?;
                    Some(OuterCondition { on, left: self.sources(&left) })
                }
            };
            let kind = match kind {
                InputKind::Query { plan, is_lateral: false } if leaf.is_some_and(|leaf| leaf.columns.is_some()) => {
                    let JoinTree { when, mut group, width: _, needed: _ } = tree_of(*plan)?;
                    group.conditions.extend(when);
                    let moves = SlotMoves::new(leaves_of(&group), first)?;
                    let mut own = moves.group(group)?;
                    // The inputs and quals move into this group. On the nullable side of an outer join they stay
                    // together, because the join's condition applies to their combined rows.
                    if outer.is_none() {
                        all.inputs.append(&mut own.inputs);
                        all.conditions.append(&mut own.conditions);
                        continue;
                    }
                    InputKind::Group(own)
                }
                InputKind::Table(table) => InputKind::Table(table),
                InputKind::Query { mut plan, is_lateral } => {
                    if is_lateral {
                        rewrite_plan(&mut plan, 1, &mut |expr, depth| self.change(expr, depth))?;
                    }
                    InputKind::Query { plan, is_lateral }
                }
                InputKind::Functions { mut calls, is_numbered } => {
                    calls.iter_mut().flat_map(|call| &mut call.arguments).try_for_each(|one| self.apply(one))?;
                    InputKind::Functions { calls, is_numbered }
                }
                InputKind::Group(group) => {
                    let group = self.group(group)?;
                    (first, width) = group.places();
                    InputKind::Group(group)
                }
                InputKind::Full { left, right, mut on } => {
                    let (left, right) = (self.group(left)?, self.group(right)?);
                    on.iter_mut().try_for_each(|on| self.apply(on))?;
                    let ((a, a_width), (b, b_width)) = (left.places(), right.places());
                    first = a.min(b);
                    width = (a + a_width).max(b + b_width) - first;
                    InputKind::Full { left, right, on }
                }
            };
            all.inputs.push(JoinInput { kind, first, width, outer, needs });
        }
        for mut condition in group.conditions {
            self.apply(&mut condition)?;
            all.conditions.push(condition);
        }
        Ok(all)
    }
}

/// Shifts the slots of an expression.
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

/// Returns the inputs of a group in which nothing is pulled up.
fn leaves_of(group: &JoinGroup) -> Vec<PulledSource> {
    let mut leaves = Vec::new();
    for input in &group.inputs {
        match &input.kind {
            InputKind::Group(group) => leaves.extend(leaves_of(group)),
            InputKind::Full { left, right, on: _ } => {
                leaves.extend(leaves_of(left).into_iter().chain(leaves_of(right)))
            }
            InputKind::Table(_) | InputKind::Query { .. } | InputKind::Functions { .. } => {
                let (first, width) = (input.first, input.width);
                leaves.push(PulledSource { first, width, to: first, to_width: width, columns: None });
            }
        }
    }
    leaves
}

/// Number of references to each slot of the row.
#[derive(Default)]
struct SlotUses(Vec<usize>);

impl SlotUses {
    fn note(&mut self, expr: &Expr, depth: usize) {
        match expr {
            Expr::Column(column) if depth == 0 => self.add(*column),
            Expr::Outer { level, column } if *level == depth && 0 < depth => self.add(*column),
            _ => {}
        }
    }

    fn add(&mut self, column: usize) {
        if PLACEHOLDERS <= column {
            return;
        }
        self.0.resize(self.0.len().max(column + 1), 0);
        self.0[column] += 1;
    }

    fn add_expr(&mut self, expr: &Expr) {
        visit(expr, 0, &mut |expr, depth| self.note(expr, depth));
    }

    fn add_group(&mut self, group: &JoinGroup) {
        group.conditions.iter().for_each(|one| self.add_expr(one));
        for input in &group.inputs {
            input.outer.iter().flat_map(|outer| &outer.on).for_each(|on| self.add_expr(on));
            match &input.kind {
                InputKind::Table(_) => {}
                InputKind::Query { plan, is_lateral } => {
                    if *is_lateral {
                        visit_plan(plan, 1, &mut |expr, depth| self.note(expr, depth));
                    }
                }
                InputKind::Functions { calls, is_numbered: _ } => {
                    calls.iter().flat_map(|call| &call.arguments).for_each(|one| self.add_expr(one));
                }
                InputKind::Group(group) => self.add_group(group),
                InputKind::Full { left, right, on } => {
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

/// True if an expression is null whenever all columns of the row are.
fn is_strict(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Call { callee, arguments } if callee.callable().is_strict() => arguments.iter().any(is_strict),
        Expr::Cast { argument, .. } => is_strict(argument),
        _ => false,
    }
}

/// Choice of the subqueries to pull up.
struct PullUpChoice {
    uses: SlotUses,
    sources: usize,
    leaves: Vec<PulledSource>,
}

impl PullUpChoice {
    fn add(&mut self, group: &JoinGroup, is_nullable: bool, can_pull: bool) {
        for input in &group.inputs {
            let is_nullable = is_nullable || input.outer.is_some();
            let (first, width) = (input.first, input.width);
            let kept = PulledSource { first, width, to: first, to_width: width, columns: None };
            match &input.kind {
                InputKind::Group(group) => self.add(group, is_nullable, can_pull),
                InputKind::Full { left, right, on: _ } => {
                    self.add(left, true, false);
                    self.add(right, true, false);
                }
                InputKind::Query { plan, is_lateral: false } if can_pull => match simple(plan) {
                    Some((tree, columns)) if self.can_pull(tree, columns, first, is_nullable) => {
                        self.leaves.push(PulledSource {
                            to_width: tree.width,
                            columns: Some(columns.to_vec()),
                            ..kept
                        });
                    }
                    Some(_) | None => self.leaves.push(kept),
                },
                InputKind::Table(_) | InputKind::Query { .. } | InputKind::Functions { .. } => self.leaves.push(kept),
            }
        }
    }

    fn can_pull(&mut self, tree: &JoinTree, columns: &[Expr], first: usize, is_nullable: bool) -> bool {
        if columns.is_empty() || (is_nullable && !columns.iter().all(is_strict)) {
            return false;
        }
        let more = |(at, column): (usize, &Expr)| {
            let uses = self.uses.0.get(first + at).copied().unwrap_or(0);
            uses.saturating_sub(1).saturating_mul(size(column) - 1)
        };
        let growth = columns.iter().enumerate().map(more).fold(0, usize::saturating_add);
        let sources = self.sources + leaves_of(&tree.group).len() - 1;
        if GROWTH_MAX < growth || SOURCES_MAX < sources {
            return false;
        }
        self.sources = sources;
        true
    }
}

/// Returns the join tree of a query that [`simple`] has accepted.
fn tree_of(plan: Plan) -> SqlResult<JoinTree> {
    if let Plan::Project { input, columns: _ } = plan
        && let Plan::From(tree) = *input
    {
        return Ok(*tree);
    }
    Err(SqlError::new(SqlState::INTERNAL_ERROR, "a query that is pulled up has no join tree"))
}

/// True if a subquery among the inputs may be simple.
fn has_simple(group: &JoinGroup) -> bool {
    group.inputs.iter().any(|input| match &input.kind {
        InputKind::Query { plan, is_lateral: false } => parts(plan).is_some(),
        InputKind::Group(group) => has_simple(group),
        InputKind::Full { left, right, on: _ } => has_simple(left) || has_simple(right),
        InputKind::Table(_) | InputKind::Query { is_lateral: true, .. } | InputKind::Functions { .. } => false,
    })
}

/// Result of [`pull_up`], for expressions over the row that are bound later.
pub(crate) struct PulledUp(Option<SlotMoves>);

impl PulledUp {
    pub(crate) fn apply(&self, expr: &mut Expr) -> SqlResult<()> {
        self.0.as_ref().map_or(Ok(()), |moves| moves.apply(expr))
    }

    /// Returns the new width of the row, given the old one.
    pub(crate) fn width(&self, before: usize) -> usize {
        self.0.as_ref().map_or(before, SlotMoves::width)
    }

    /// Returns the new slot of an input's first column, given the old one.
    pub(crate) fn first(&self, before: usize) -> usize {
        let leaf = self.0.iter().flat_map(|moves| &moves.leaves).find(|leaf| leaf.first == before && 0 < leaf.width);
        leaf.map_or(before, |leaf| leaf.to)
    }
}

/// Pulls up the simple subqueries among the inputs, unless `can_pull` forbids it. `exprs` refer to the joined row.
///
/// # Errors
/// Fails with `57014` if the statement is cancelled.
pub(crate) fn pull_up(tree: &mut JoinGroup, exprs: &mut [&mut Expr], can_pull: bool) -> SqlResult<PulledUp> {
    if !has_simple(tree) {
        return Ok(PulledUp(None));
    }
    let mut uses = SlotUses::default();
    exprs.iter().for_each(|expr| uses.add_expr(expr));
    uses.add_group(tree);
    let sources = leaves_of(tree).len();
    let mut choice = PullUpChoice { uses, sources, leaves: Vec::new() };
    choice.add(tree, false, can_pull);
    let moves = SlotMoves::new(choice.leaves, 0)?;
    *tree = moves.group(std::mem::take(tree))?;
    // A substituted column may turn one qual into a conjunction.
    tree.conditions = std::mem::take(&mut tree.conditions).into_iter().flat_map(split).collect();
    exprs.iter_mut().try_for_each(|expr| moves.apply(expr))?;
    Ok(PulledUp(Some(moves)))
}
