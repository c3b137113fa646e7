//! The order in which the actions of one `ALTER TABLE` are done: not that of its text, but that of PostgreSQL's passes
//! (`AT_PASS_*` of tablecmds.c).
//!
//! **Invariant:** an action adds steps to its own pass or to later ones, so no step comes after one of a later pass. Steps of one
//! pass keep the order of the text.

use super::Ddl;
use super::alter::Work;
use super::retype::Retype;
use sqlparser::ast::{AlterColumnOperation, AlterTableOperation, TableConstraint};
use statement::error::{SqlError, SqlResult, SqlState};
use std::collections::BTreeMap;
use syntax::parse::alters::{ColumnChange, column_change};
use syntax::parse::folded;

/// A pass over the actions, in the order in which they come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pass {
    /// Columns, constraints, defaults and identities go.
    Drop,
    /// Columns get other types.
    Retype,
    AddColumn,
    /// Constraints are looked at, and wait for a pass of their own.
    AddConstraint,
    /// Columns become NOT NULL.
    Attributes,
    AddIndex,
    /// Other constraints, defaults and identities come.
    AddOther,
    Other,
}

/// A part of what is to be done.
pub(super) enum Step<'a> {
    Action(&'a AlterTableOperation),
    /// A column gets another type, which was looked up before the first step.
    Retype(Retype),
    Constraint {
        constraint: TableConstraint,
        not_valid: bool,
    },
}

/// The steps that are still to be taken.
#[derive(Default)]
pub(super) struct Steps<'a> {
    left: BTreeMap<(Pass, usize), Step<'a>>,
    added: usize,
}

impl<'a> Steps<'a> {
    pub(super) fn add(&mut self, pass: Pass, step: Step<'a>) {
        self.left.insert((pass, self.added), step);
        self.added += 1;
    }

    pub(super) fn next(&mut self) -> Option<Step<'a>> {
        self.left.pop_first().map(|(_, step)| step)
    }
}

/// The pass in which an action is done.
///
/// # Errors
/// `0A000` for an action that is not known.
pub(super) fn pass_of(operation: &AlterTableOperation) -> SqlResult<Pass> {
    Ok(match operation {
        AlterTableOperation::AddColumn { .. } => Pass::AddColumn,
        AlterTableOperation::AddConstraint { .. } => Pass::AddConstraint,
        AlterTableOperation::DropColumn { .. } | AlterTableOperation::DropConstraint { .. } => Pass::Drop,
        AlterTableOperation::AlterColumn { column_name: _, op } => match op {
            AlterColumnOperation::SetNotNull => Pass::Attributes,
            AlterColumnOperation::DropNotNull | AlterColumnOperation::DropDefault => Pass::Drop,
            AlterColumnOperation::SetDataType { .. } => Pass::Retype,
            AlterColumnOperation::AddGenerated { .. } => Pass::AddOther,
            AlterColumnOperation::SetDefault { value } => match column_change(value)? {
                None | Some(ColumnChange::SequenceName(_)) => Pass::AddOther,
                Some(ColumnChange::DropIdentity { .. }) => Pass::Drop,
                Some(ColumnChange::Identity { .. } | ColumnChange::Options) => Pass::Other,
            },
        },
        // Each of these stands alone.
        AlterTableOperation::RenameColumn { .. }
        | AlterTableOperation::RenameConstraint { .. }
        | AlterTableOperation::RenameTable { .. } => Pass::Other,
        AlterTableOperation::OwnerTo { .. }
        | AlterTableOperation::SetLogged
        | AlterTableOperation::SetUnlogged
        | AlterTableOperation::SetOptionsParens { .. }
        | AlterTableOperation::ValidateConstraint { .. } => Pass::Other,
        other => return Err(SqlError::unsupported(format_args!("ALTER TABLE {other}"))),
    })
}

impl Ddl<'_> {
    /// The step of an action. Another type is looked up by the table as it was before all of them.
    pub(super) fn prepared<'a>(&mut self, work: &Work<'_>, operation: &'a AlterTableOperation) -> SqlResult<Step<'a>> {
        Ok(match operation {
            AlterTableOperation::AlterColumn {
                column_name,
                op: AlterColumnOperation::SetDataType { data_type, using, had_set: _ },
            } => Step::Retype(self.prepare_retype(&work.old, &folded(column_name), data_type, using.as_ref())?),
            other => Step::Action(other),
        })
    }
}

/// A step of a kind that [`Ddl::prepared`] does not make.
pub(super) fn not_prepared() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "an action of ALTER TABLE was not prepared")
}
