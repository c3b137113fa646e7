//! Join trees: the FROM clause and WHERE condition of a logical plan, as PostgreSQL's `FromExpr` and `JoinExpr`.
//!
//! **Invariant:** each input of a group stands behind those that it looks at or is joined to, so that the inputs can be joined
//! in their order. Any other order that [`JoinInput::can_follow`] allows has the same rows.

use super::{Expr, OuterJoin, Plan, SetCall, Slots};
use catalog::TableInfo;
use std::sync::Arc;

/// FROM clause with its conditions.
#[derive(Clone, Debug)]
pub struct JoinTree {
    /// Condition that looks at no row of the inputs: unless it holds, there are no rows.
    pub when: Option<Expr>,
    /// Inputs and conditions.
    pub group: JoinGroup,
    /// Number of places of the joined row.
    pub width: usize,
    /// Places that operators above look at; `None`: all.
    pub needed: Option<Slots>,
}

/// Inputs, joined by inner joins but for those that say otherwise.
#[derive(Clone, Debug, Default)]
pub struct JoinGroup {
    /// Inputs in an order in which they can be joined.
    pub inputs: Vec<JoinInput>,
    /// Conditions on the joined row.
    pub conditions: Vec<Expr>,
}

/// Input of a join.
#[derive(Clone, Debug)]
pub struct JoinInput {
    /// Source of its rows.
    pub kind: InputKind,
    /// First place in the row.
    pub first: usize,
    /// Number of places.
    pub width: usize,
    /// Condition of the outer join of which this is the nullable side.
    pub outer: Option<OuterCondition>,
    /// Places that a lateral input looks at.
    pub needs: Slots,
}

/// Condition of an outer join.
#[derive(Clone, Debug)]
pub struct OuterCondition {
    /// Conjuncts.
    pub on: Vec<Expr>,
    /// Places of the side whose rows are kept.
    pub left: Slots,
}

/// Source of the rows of an input.
#[derive(Clone, Debug)]
pub enum InputKind {
    /// Table.
    Table(Arc<TableInfo>),
    /// Query; a lateral one sees the row of the inputs before it as that of an enclosing query.
    Query {
        /// Plan of the query.
        plan: Box<Plan>,
        /// LATERAL.
        is_lateral: bool,
    },
    /// Functions that return sets, side by side, a shorter one filled up with nulls.
    Functions {
        /// Calls, one for each column.
        calls: Vec<SetCall>,
        /// WITH ORDINALITY: one more column has the number of the row.
        is_numbered: bool,
    },
    /// Joins in parentheses, or on the nullable side of an outer join.
    Group(JoinGroup),
    /// FULL JOIN.
    Full {
        /// Left side.
        left: JoinGroup,
        /// Right side.
        right: JoinGroup,
        /// Conjuncts of its condition.
        on: Vec<Expr>,
    },
}

impl JoinInput {
    /// Returns its places of the row.
    pub fn own(&self) -> Slots {
        Slots::range(self.first, self.width)
    }

    /// Returns true if it may be joined to a row of which these places are known.
    pub fn can_follow(&self, known: &Slots) -> bool {
        self.needs.is_within(known) && self.outer.as_ref().is_none_or(|outer| outer.left.is_within(known))
    }

    fn is_nullable(&self, slot: usize) -> bool {
        if !self.own().has(slot) {
            return false;
        }
        self.outer.is_some()
            || match &self.kind {
                InputKind::Group(group) => group.is_nullable(slot),
                InputKind::Full { .. } => true,
                InputKind::Table(_) | InputKind::Query { .. } | InputKind::Functions { .. } => false,
            }
    }
}

impl JoinGroup {
    /// Creates a group of one input.
    pub fn one(input: JoinInput) -> JoinGroup {
        JoinGroup { inputs: vec![input], conditions: Vec::new() }
    }

    /// Returns the first of its places of the row, which stand side by side, and their number.
    pub fn places(&self) -> (usize, usize) {
        let first = self.inputs.iter().map(|input| input.first).min().unwrap_or(0);
        let end = self.inputs.iter().map(|input| input.first + input.width).max().unwrap_or(0);
        (first, end - first)
    }

    /// Returns its places of the row.
    pub fn own(&self) -> Slots {
        let (first, width) = self.places();
        Slots::range(first, width)
    }

    /// Returns true if the columns of a function begin at this place.
    pub fn is_function(&self, slot: usize) -> bool {
        self.inputs.iter().any(|input| match &input.kind {
            InputKind::Functions { .. } => input.first == slot,
            InputKind::Group(group) => group.is_function(slot),
            InputKind::Full { left, right, .. } => left.is_function(slot) || right.is_function(slot),
            InputKind::Table(_) | InputKind::Query { .. } => false,
        })
    }

    /// Returns true if the last round of a recursive query is among the inputs.
    pub fn has_working(&self) -> bool {
        self.inputs.iter().any(|input| match &input.kind {
            InputKind::Query { plan, .. } => matches!(**plan, Plan::Working(_)),
            InputKind::Group(group) => group.has_working(),
            InputKind::Full { left, right, .. } => left.has_working() || right.has_working(),
            InputKind::Table(_) | InputKind::Functions { .. } => false,
        })
    }

    /// Returns true if an outer join may fill the place with null.
    pub fn is_nullable(&self, slot: usize) -> bool {
        self.inputs.iter().any(|input| input.is_nullable(slot))
    }

    /// Returns the outer joins, each behind those on its left and on its nullable side.
    pub fn outer_joins(&self) -> Vec<OuterJoin> {
        let mut joins = Vec::new();
        for JoinInput { kind, first, width, outer, needs: _ } in &self.inputs {
            if let InputKind::Group(group) = kind {
                joins.extend(group.outer_joins());
            }
            if let Some(outer) = outer {
                joins.push(OuterJoin { on: all_of(outer.on.clone()), first: *first, width: *width });
            }
        }
        joins
    }

    /// Turns the group into one input.
    pub fn into_input(mut self) -> JoinInput {
        if let ([JoinInput { outer: None, .. }], true) = (&self.inputs[..], self.conditions.is_empty())
            && let Some(input) = self.inputs.pop()
        {
            return input;
        }
        let (first, width) = self.places();
        let own = self.own();
        let mut needs = Slots::default();
        self.inputs.iter().for_each(|input| needs.add_all(&input.needs));
        // What its parts need of one another does not count.
        needs.remove_all(&own);
        JoinInput { kind: InputKind::Group(self), first, width, outer: None, needs }
    }
}

/// Returns the conjunction of conditions; `None` without any.
pub fn all_of(mut conditions: Vec<Expr>) -> Option<Expr> {
    match conditions.len() {
        0 | 1 => conditions.pop(),
        _ => Some(Expr::And(conditions)),
    }
}

/// Returns the conjuncts of a condition.
pub fn split(condition: Expr) -> Vec<Expr> {
    match condition {
        Expr::And(parts) => parts.into_iter().flat_map(split).collect(),
        other => vec![other],
    }
}
