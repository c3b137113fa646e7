//! `ALTER TABLE ... ALTER COLUMN ... TYPE`.

use super::Ddl;
use super::alter::TableAlteration;
use super::columns::{TableDraft, collation_of, scope_of};
use super::index::settle_classes;
use super::rewrite::ColumnSource;
use super::sequence::{SequenceOptions, check_identity};
use catalog::storage::column_type;
use catalog::{Constraint, ConstraintKind, Relation, TableInfo};
use query::plan::{Expr, Typed};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::ast::{Expr as Written, ObjectName, TypeName};
use syntax::names::quoted_name;
use types::SqlType;
use types::ops::CastContext;

/// New type of a column, and the value that rows get, computed from the old row.
pub(super) struct Retype {
    column: String,
    kind: SqlType,
    collation: Option<u32>,
    value: Expr,
}

impl Ddl<'_> {
    /// Looks up the new type of a column. The sequence of an identity gets it at once.
    pub(super) fn prepare_retype(
        &mut self,
        old: &TableInfo,
        name: &str,
        type_name: &TypeName,
        collation: Option<&ObjectName>,
        using: Option<&Written>,
    ) -> SqlResult<Retype> {
        let using = match using {
            Some(using) => {
                let binder = self.binder();
                let bound = binder.expr(using, &scope_of(&binder, &old.name, &old.columns)?)?;
                binder.without_parameters()?;
                Some(bound)
            }
            None => None,
        };
        let Some(at) = old.column(name) else {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", old.name);
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        let column = &old.columns[at];
        let kind = self.binder().type_of(type_name).map_err(SqlError::nowhere)?;
        let collation = collation.map(|name| collation_of(name, kind.kind)).transpose()?;
        if let Some(identity) = column.identity {
            check_identity(kind)?;
            let sequence = self.sequence_of(identity)?;
            let changed = self.renumbered(&sequence, kind, &SequenceOptions::default())?;
            self.state.replace(Relation::Sequence(Arc::new(changed)))?;
        }
        column_type(kind)?;
        // Without USING, the value is an assignment cast of the column itself.
        let is_said = using.is_some();
        let value = using.unwrap_or_else(|| Typed::new(Expr::Column(at), column.kind));
        let value = self.binder().coerce(value, kind, CastContext::Assignment).map_err(|error| {
            if error.state() != SqlState::CANNOT_COERCE {
                return error;
            }
            let type_name = kind.kind.name();
            if is_said {
                let message = format!(
                    "result of USING clause for column \"{name}\" cannot be cast automatically to type {type_name}"
                );
                return SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                    .hint("You might need to add an explicit cast.");
            }
            let message = format!("column \"{name}\" cannot be cast automatically to type {type_name}");
            SqlError::new(SqlState::DATATYPE_MISMATCH, message).hint(format!(
                "You might need to specify \"USING {}::{}\".",
                quoted_name(name),
                kind.name()
            ))
        })?;
        Ok(Retype { column: column.name.clone(), kind, collation, value: value.expr })
    }

    pub(super) fn retype(&mut self, work: &mut TableAlteration<'_>, retype: Retype) -> SqlResult<()> {
        let Retype { column: name, kind, collation, value } = retype;
        let at = work.draft.need_column(&name)?;
        let column = work.draft.columns[at].clone();
        if !matches!(work.sources[at], ColumnSource::Column(_)) {
            let message = format!("cannot alter type of column \"{name}\" twice");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if let Some(default) = &column.default {
            let default = self.default_again(default, kind, &name).map_err(|_| {
                let type_name = kind.kind.name();
                let message = format!("default for column \"{name}\" cannot be cast automatically to type {type_name}");
                SqlError::new(SqlState::DATATYPE_MISMATCH, message)
            })?;
            work.draft.columns[at].default = Some(default);
        }
        self.refuse_used_by_views(work.draft.oid, column.number, &name)?;
        work.sources[at] = ColumnSource::Made(value, kind);
        work.draft.columns[at].kind = kind;
        work.draft.columns[at].collation = collation;
        work.copies = true;
        // Conditions on the column must still find their operators.
        for constraint in &work.draft.constraints {
            if let ConstraintKind::Check(check) = &constraint.what {
                self.columns_of_check(&work.draft.name, &work.draft.columns, check)?;
            }
        }
        settle_classes(&mut work.draft, at, kind.kind)?;
        let refers = |constraint: &Constraint| match &constraint.what {
            ConstraintKind::ForeignKey(key) => {
                let is_parent = key.parent == work.draft.oid && key.parent_columns.contains(&column.number);
                is_parent || key.columns.contains(&at)
            }
            ConstraintKind::PrimaryKey { .. } | ConstraintKind::Unique { .. } | ConstraintKind::Check(_) => false,
        };
        let others = self.state.referencing(work.draft.oid).filter(|child| child.oid != work.draft.oid);
        let is_referred = others
            .flat_map(|child| child.foreign_keys())
            .any(|(_, key)| key.parent == work.draft.oid && key.parent_columns.contains(&column.number));
        let refers = work.draft.constraints.iter().any(refers);
        refuse!(is_referred || refers => "to alter the type of a column of a foreign key");
        Ok(())
    }

    /// Returns the OIDs of the conditions that use a column with new values: they may not hold for those.
    pub(super) fn checks_of_retyped(
        &self,
        draft: &TableDraft,
        old: &TableInfo,
        sources: &[ColumnSource],
    ) -> SqlResult<Vec<u32>> {
        let is_retyped = |at: &usize| {
            matches!(sources[*at], ColumnSource::Made(..)) && old.column_numbered(draft.columns[*at].number).is_some()
        };
        let mut found = Vec::new();
        for constraint in &draft.constraints {
            if let ConstraintKind::Check(check) = &constraint.what
                && self.columns_of_check(&draft.name, &draft.columns, check)?.iter().any(is_retyped)
            {
                found.push(constraint.oid);
            }
        }
        Ok(found)
    }
}
