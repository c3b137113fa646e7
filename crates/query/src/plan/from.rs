//! Join trees: the FROM clause and the quals of a logical plan, like PostgreSQL's `FromExpr` and `JoinExpr`.
//!
//! **Invariant:** each input of a group follows those that it refers to or is joined to, so that the inputs can be
//! joined in their order. Any other order that [`JoinInput::can_follow`] allows gives the same rows.

use super::{Expr, OuterJoin, Plan, SetCall, Slots};
use catalog::TableInfo;
use std::sync::Arc;

/// FROM clause with its quals.
#[derive(Clone, Debug)]
pub struct JoinTree {
    /// One-time filter: a qual without references to the inputs. If it is not true, there are no rows.
    pub when: Option<Expr>,
    /// Inputs and conditions.
    pub group: JoinGroup,
    /// Number of slots of the joined row.
    pub width: usize,
    /// Slots that operators above read; `None` means all.
    pub needed: Option<Slots>,
}

/// Inputs that are joined by inner joins, except those with an outer join condition.
#[derive(Clone, Debug, Default)]
pub struct JoinGroup {
    /// Inputs in an order in which they can be joined.
    pub inputs: Vec<JoinInput>,
    /// Quals on the joined row.
    pub conditions: Vec<Expr>,
}

/// Input of a join.
#[derive(Clone, Debug)]
pub struct JoinInput {
    /// Source of its rows.
    pub kind: InputKind,
    /// First slot in the row.
    pub first: usize,
    /// Number of slots.
    pub width: usize,
    /// Condition of the outer join, if this input is its nullable side.
    pub outer: Option<OuterCondition>,
    /// Slots that a lateral input reads.
    pub needs: Slots,
}

/// Condition of an outer join.
#[derive(Clone, Debug)]
pub struct OuterCondition {
    /// Conjuncts.
    pub on: Vec<Expr>,
    /// Slots of the side whose rows are preserved.
    pub left: Slots,
}

/// Source of the rows of an input.
#[derive(Clone, Debug)]
pub enum InputKind {
    /// Table.
    Table(Arc<TableInfo>),
    /// Subquery. A lateral one sees the row of the inputs before it as that of an enclosing query.
    Query {
        /// Plan of the query.
        plan: Box<Plan>,
        /// LATERAL.
        is_lateral: bool,
    },
    /// Set-returning functions side by side; shorter sets are padded with nulls.
    Functions {
        /// Calls, one for each column.
        calls: Vec<SetCall>,
        /// WITH ORDINALITY: an additional column has the number of the row.
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
    /// Returns the input's slots.
    pub fn own(&self) -> Slots {
        Slots::range(self.first, self.width)
    }

    /// True if the input can be joined to a row that has these slots.
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
    /// Group of one input.
    pub fn one(input: JoinInput) -> JoinGroup {
        JoinGroup { inputs: vec![input], conditions: Vec::new() }
    }

    /// Returns the first slot of the group and their number; they are adjacent.
    pub fn places(&self) -> (usize, usize) {
        let first = self.inputs.iter().map(|input| input.first).min().unwrap_or(0);
        let end = self.inputs.iter().map(|input| input.first + input.width).max().unwrap_or(0);
        (first, end - first)
    }

    /// Returns the group's slots.
    pub fn own(&self) -> Slots {
        let (first, width) = self.places();
        Slots::range(first, width)
    }

    /// True if the columns of a function start at this slot.
    pub fn is_function(&self, slot: usize) -> bool {
        self.inputs.iter().any(|input| match &input.kind {
            InputKind::Functions { .. } => input.first == slot,
            InputKind::Group(group) => group.is_function(slot),
            InputKind::Full { left, right, .. } => left.is_function(slot) || right.is_function(slot),
            InputKind::Table(_) | InputKind::Query { .. } => false,
        })
    }

    /// True if the working table of a recursive query is among the inputs.
    pub fn has_working(&self) -> bool {
        self.inputs.iter().any(|input| match &input.kind {
            InputKind::Query { plan, .. } => matches!(**plan, Plan::Working(_)),
            InputKind::Group(group) => group.has_working(),
            InputKind::Full { left, right, .. } => left.has_working() || right.has_working(),
            InputKind::Table(_) | InputKind::Functions { .. } => false,
        })
    }

    /// True if an outer join may set the slot to null.
    pub fn is_nullable(&self, slot: usize) -> bool {
        self.inputs.iter().any(|input| input.is_nullable(slot))
    }

    /// Returns the outer joins, each after those inside both of its sides.
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
        // References between the parts are resolved inside the group.
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
