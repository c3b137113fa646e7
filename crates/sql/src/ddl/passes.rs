//! Order in which the actions of one `ALTER TABLE` are executed: not that of the text, but that of PostgreSQL's passes
//! (`AT_PASS_*` of tablecmds.c).
//!
//! **Invariant:** an action adds steps to its own pass or to later ones, so no step follows one of a later pass. Steps
//! of one pass keep the order of the text.

use super::Ddl;
use super::alter::TableAlteration;
use super::constraints::NewConstraint;
use super::retype::Retype;
use statement::error::{SqlError, SqlResult, SqlState};
use std::collections::BTreeMap;
use syntax::ast::{AlterAction, AlterActionKind};

/// Pass over the actions, in the order of execution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AlterPass {
    /// Drops columns, constraints, defaults and identities.
    Drop,
    /// Changes the types of columns.
    Retype,
    AddColumn,
    /// Checks constraints, and plans each for a pass of its own.
    AddConstraint,
    /// Makes columns NOT NULL.
    Attributes,
    AddIndex,
    /// Adds other constraints, defaults and identities.
    AddOther,
    Other,
}

/// Step of the execution of an `ALTER TABLE`.
pub(super) enum AlterStep<'a> {
    Action(&'a AlterActionKind),
    /// Change of a column's type, which was looked up before the first step.
    Retype(Retype),
    Constraint(NewConstraint<'a>),
}

/// Steps that are still to be taken.
#[derive(Default)]
pub(super) struct AlterSteps<'a> {
    left: BTreeMap<(AlterPass, usize), AlterStep<'a>>,
    added: usize,
}

impl<'a> AlterSteps<'a> {
    pub(super) fn add(&mut self, pass: AlterPass, step: AlterStep<'a>) {
        self.left.insert((pass, self.added), step);
        self.added += 1;
    }

    pub(super) fn next(&mut self) -> Option<AlterStep<'a>> {
        self.left.pop_first().map(|(_, step)| step)
    }
}

/// Returns the pass of an action.
pub(super) fn pass_of(action: &AlterActionKind) -> AlterPass {
    match action {
        AlterActionKind::AddColumn { .. } => AlterPass::AddColumn,
        AlterActionKind::AddConstraint(_) => AlterPass::AddConstraint,
        AlterActionKind::DropColumn { .. }
        | AlterActionKind::DropConstraint { .. }
        | AlterActionKind::DropNotNull { .. }
        | AlterActionKind::DropDefault { .. }
        | AlterActionKind::DropIdentity { .. } => AlterPass::Drop,
        AlterActionKind::SetNotNull { .. } => AlterPass::Attributes,
        AlterActionKind::SetType { .. } => AlterPass::Retype,
        AlterActionKind::AddIdentity { .. } | AlterActionKind::SetDefault { .. } => AlterPass::AddOther,
        AlterActionKind::SetIdentity { .. }
        | AlterActionKind::ColumnOptions { .. }
        | AlterActionKind::OwnerTo(_)
        | AlterActionKind::SetLogged
        | AlterActionKind::SetUnlogged
        | AlterActionKind::WithoutOids
        | AlterActionKind::SetOptions(_)
        | AlterActionKind::ResetOptions(_)
        | AlterActionKind::ValidateConstraint(_)
        // Refused before any step is taken.
        | AlterActionKind::AlterConstraint(_)
        | AlterActionKind::Unsupported(_) => AlterPass::Other,
    }
}

impl Ddl<'_> {
    /// Returns the step of an action. The type of a changed column is looked up by the table as it was before all
    /// actions.
    pub(super) fn prepared<'a>(
        &mut self,
        work: &TableAlteration<'_>,
        action: &'a AlterAction,
    ) -> SqlResult<AlterStep<'a>> {
        let AlterAction { kind: action, span: _ } = action;
        Ok(match action {
            AlterActionKind::SetType { column, kind, collation, using } => {
                AlterStep::Retype(self.prepare_retype(&work.old, column, kind, collation.as_ref(), using.as_ref())?)
            }
            other => AlterStep::Action(other),
        })
    }
}

/// Error for a step of a kind that [`Ddl::prepared`] does not make.
pub(super) fn not_prepared() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "an action of ALTER TABLE was not prepared")
}
