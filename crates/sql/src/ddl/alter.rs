//! `ALTER TABLE`.
//!
//! The actions change a draft one after another, in the order of their passes ([`super::passes`]). At the end the rows
//! of the table are copied if the draft has other columns or indexes, and the new constraints are verified.
//!
//! **Invariant:** the table is locked against all writers before the first row is copied.

use super::columns::TableDraft;
use super::constraints::{NewConstraint, NewConstraintKind, key_word};
use super::drop::DroppedObjects;
use super::index::remove_index;
use super::names::no_table;
use super::passes::{AlterPass, AlterStep, AlterSteps, not_prepared, pass_of};
use super::renames::ViewChange;
use super::rewrite::ColumnSource;
use super::{Ddl, DdlResult, altering};
use catalog::{ColumnDef, ConstraintKind, IdentityColumn, IndexInfo, Relation, Sequence, TableInfo};
use engine::TableLock;
use query::plan::Expr;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use statement::refuse;
use std::sync::Arc;
use syntax::ast::{
    AlterAction, AlterActionKind, AlterTable, ColumnDefinition, KeptExpr, ObjectKind, TableConstraint,
    TableConstraintKind,
};
use syntax::grammar;
use types::ops::CastContext;

/// State of an `ALTER TABLE` that is being executed.
pub(super) struct TableAlteration<'a> {
    pub(super) old: Arc<TableInfo>,
    pub(super) draft: TableDraft,
    /// Source of each column of the draft.
    pub(super) sources: Vec<ColumnSource>,
    /// True if the rows must be copied.
    pub(super) copies: bool,
    /// Steps that are still to be taken.
    pub(super) steps: AlterSteps<'a>,
    /// Views that use the table, if it gets a column.
    views: Vec<ViewChange>,
}

/// Returns the lock on the table that an action takes: the weakest that PostgreSQL takes for it, or the strongest where
/// that is not known.
fn lock_of(action: &AlterActionKind) -> TableLock {
    match action {
        AlterActionKind::AddConstraint(constraint) if matches!(constraint.kind, TableConstraintKind::Foreign(..)) => {
            TableLock::ShareRowExclusive
        }
        AlterActionKind::ValidateConstraint(_) | AlterActionKind::SetOptions(_) | AlterActionKind::ResetOptions(_) => {
            TableLock::ShareUpdateExclusive
        }
        _ => TableLock::AccessExclusive,
    }
}

impl Ddl<'_> {
    pub(super) fn alter_table(&mut self, alter: &AlterTable) -> SqlResult<DdlResult> {
        // Inheritance does not exist here, so ONLY makes no difference.
        let AlterTable { kind, name, if_exists, is_only: _, actions } = alter;
        for action in actions {
            self.refuse_action(*kind, action)?;
        }
        let done = Ok(DdlResult::from(altering(*kind)));
        match self.altered(*kind, name, *if_exists)? {
            None => {}
            Some(Relation::Table(old)) => self.alter_columns(&old, actions)?,
            Some(relation) => self.alter_another(&relation, actions)?,
        }
        done
    }

    /// Refuses an action that is not implemented.
    ///
    /// # Errors
    /// `0A000`
    fn refuse_action(&self, kind: ObjectKind, action: &AlterAction) -> SqlResult<()> {
        let feature = match (&action.kind, kind) {
            (AlterActionKind::Unsupported(feature), _) => feature,
            (AlterActionKind::AlterConstraint(_), _) => "ALTER TABLE ALTER CONSTRAINT",
            (AlterActionKind::SetDefault { .. } | AlterActionKind::DropDefault { .. }, ObjectKind::View) => {
                "ALTER VIEW ALTER COLUMN"
            }
            (AlterActionKind::SetOptions(_), ObjectKind::View) => "ALTER VIEW SET (option)",
            (AlterActionKind::ResetOptions(_), ObjectKind::View) => "ALTER VIEW RESET (option)",
            _ => return Ok(()),
        };
        Err(self.binder().at_place(SqlError::unsupported(feature), action.span))
    }

    /// Changes a relation that is not a table.
    fn alter_another(&mut self, relation: &Relation, actions: &[AlterAction]) -> SqlResult<()> {
        for AlterAction { kind: action, span: _ } in actions {
            match (action, relation) {
                (AlterActionKind::OwnerTo(owner), _) => self.set_owner(relation, owner)?,
                (AlterActionKind::SetOptions(_) | AlterActionKind::ResetOptions(_), Relation::Index { .. }) => {
                    self.say_options_are_ignored();
                }
                _ => return Err(only_for_tables(action, relation)),
            }
        }
        Ok(())
    }

    /// Changes a table.
    fn alter_columns(&mut self, old: &Arc<TableInfo>, actions: &[AlterAction]) -> SqlResult<()> {
        let locks = actions.iter().map(|action| lock_of(&action.kind));
        self.lock(old, locks.max().unwrap_or(TableLock::AccessExclusive))?;
        let sources = (0..old.columns.len()).map(ColumnSource::Column).collect();
        let (draft, old) = (TableDraft::of(old), Arc::clone(old));
        let mut work =
            TableAlteration { draft, old, sources, copies: false, steps: AlterSteps::default(), views: Vec::new() };
        for action in actions {
            let step = self.prepared(&work, action)?;
            work.steps.add(pass_of(&action.kind), step);
        }
        while let Some(step) = work.steps.next() {
            match step {
                AlterStep::Action(action) => self.alter(&mut work, action)?,
                AlterStep::Retype(retype) => self.retype(&mut work, retype)?,
                AlterStep::Constraint(constraint) => self.add_table_constraint(&mut work, &constraint)?,
            }
        }
        self.finish_altered(work)
    }

    /// Puts a changed table in place, and verifies its new constraints.
    fn finish_altered(&mut self, work: TableAlteration<'_>) -> SqlResult<()> {
        let TableAlteration { old, draft, sources, copies, views, steps: _ } = work;
        let retyped = self.checks_of_retyped(&draft, &old, &sources)?;
        refuse!(
            self.keeps_snapshot && !retyped.is_empty() =>
                "to alter the type of a column that a CHECK looks at above READ COMMITTED"
        );
        let new = if copies {
            self.rebuild(&old, draft, &sources)?
        } else {
            let new = draft.finish(Arc::clone(&old.table));
            self.replace_table(new)?
        };
        if new.owner != old.owner {
            self.own_relation_rights(new.oid, old.owner, new.owner);
            self.own_sequences(&new)?;
        }
        self.put_renamed(views, "add a column to a table")?;
        // The transaction's snapshot decides whether rows satisfy a new constraint, so it must have all of them.
        let is_new = |constraint: &catalog::Constraint| {
            let was_valid = |before: &catalog::Constraint| before.oid == constraint.oid && before.is_valid;
            !matches!(constraint.what, ConstraintKind::PrimaryKey { .. } | ConstraintKind::Unique { .. })
                && constraint.is_valid
                && (!old.constraints.iter().any(was_valid) || retyped.contains(&constraint.oid))
        };
        refuse!(
            self.keeps_snapshot && new.constraints.iter().any(is_new) =>
                "to add a CHECK or a FOREIGN KEY to a table above READ COMMITTED"
        );
        if !copies {
            self.verify_not_null(&old, &new)?;
        }
        self.verify(&new, is_new)
    }

    fn say_options_are_ignored(&mut self) {
        self.notice(SqlState::WARNING, "storage parameters are ignored".to_owned());
    }

    fn alter<'a>(&mut self, work: &mut TableAlteration<'a>, action: &'a AlterActionKind) -> SqlResult<()> {
        match action {
            AlterActionKind::AddColumn { column, if_not_exists } => self.add_new_column(work, column, *if_not_exists),
            AlterActionKind::AddConstraint(constraint) => self.look_at_constraint(work, constraint),
            AlterActionKind::DropColumn { name, if_exists, is_cascading } => {
                self.drop_column(work, name, *if_exists, *is_cascading)
            }
            AlterActionKind::DropConstraint { name, if_exists, is_cascading } => {
                self.drop_constraint(work, name, *if_exists, *is_cascading)
            }
            AlterActionKind::SetNotNull { column } => {
                let at = work.draft.need_column(column)?;
                work.draft.columns[at].not_null = true;
                Ok(())
            }
            AlterActionKind::DropNotNull { column } => drop_not_null(work, column),
            AlterActionKind::SetDefault { column, value } => self.set_default(work, column, value),
            AlterActionKind::DropDefault { column } => drop_default(work, column),
            AlterActionKind::AddIdentity { column, is_always, options } => {
                let at = work.draft.need_column(column)?;
                let mut identity = work.draft.columns[at].clone();
                check_new_identity(&identity, &work.draft.name)?;
                self.identify(&work.draft, &mut identity, *is_always, options)?;
                work.draft.columns[at] = identity;
                Ok(())
            }
            AlterActionKind::SetIdentity { column, generated, options } => {
                let at = work.draft.need_column(column)?;
                self.set_identity(&mut work.draft, at, generated, options)
            }
            AlterActionKind::DropIdentity { column, if_exists } => {
                let at = work.draft.need_column(column)?;
                self.drop_identity(&mut work.draft, at, *if_exists)
            }
            AlterActionKind::ColumnOptions { column, options: _ } => {
                work.draft.need_column(column)?;
                self.say_options_are_ignored();
                Ok(())
            }
            AlterActionKind::SetOptions(_) | AlterActionKind::ResetOptions(_) => {
                self.say_options_are_ignored();
                Ok(())
            }
            AlterActionKind::OwnerTo(owner) => {
                let owner = self.role(owner)?;
                self.check_new_owner(&Relation::Table(Arc::clone(&work.old)), owner)?;
                work.draft.owner = owner;
                Ok(())
            }
            AlterActionKind::SetLogged | AlterActionKind::SetUnlogged => {
                self.notice(SqlState::WARNING, "LOGGED and UNLOGGED are ignored: all data is in memory".to_owned());
                Ok(())
            }
            // No table has OIDs.
            AlterActionKind::WithoutOids => Ok(()),
            AlterActionKind::ValidateConstraint(name) => self.validate(work, name),
            AlterActionKind::SetType { .. } | AlterActionKind::AlterConstraint(_) | AlterActionKind::Unsupported(_) => {
                Err(not_prepared())
            }
        }
    }

    fn add_new_column<'a>(
        &mut self,
        work: &mut TableAlteration<'a>,
        column: &'a ColumnDefinition,
        if_not_exists: bool,
    ) -> SqlResult<()> {
        if work.draft.column(&column.name).is_some() {
            let message = format!("column \"{}\" of relation \"{}\" already exists", column.name, work.draft.name);
            if if_not_exists {
                self.notice(SqlState::DUPLICATE_COLUMN, format!("{message}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        work.views = self.beside_new_column(work.draft.oid, work.draft.next_column)?;
        let mut pending = Vec::new();
        // PostgreSQL reports errors of the default without a position in the statement's text.
        self.add_column(&mut work.draft, column, &mut pending).map_err(|error| match error.state() {
            SqlState::UNDEFINED_OBJECT | SqlState::SYNTAX_ERROR | SqlState::INVALID_PARAMETER_VALUE => error,
            _ => error.nowhere(),
        })?;
        let at = work.draft.columns.len() - 1;
        let value = self.first_value(&work.draft.columns[at])?;
        work.sources.push(ColumnSource::Made(value, work.draft.columns[at].kind));
        work.copies = true;
        pending.into_iter().try_for_each(|one| self.plan_constraint(work, one))
    }

    fn look_at_constraint<'a>(
        &mut self,
        work: &mut TableAlteration<'a>,
        constraint: &'a TableConstraint,
    ) -> SqlResult<()> {
        if let (true, TableConstraintKind::Key(key, _)) = (constraint.is_not_valid, &constraint.kind) {
            let name = if key.is_primary { "PRIMARY KEY" } else { "UNIQUE" };
            let message = format!("{name} constraints cannot be marked NOT VALID");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        self.plan_constraint(work, NewConstraint::from(constraint))
    }

    fn validate(&mut self, work: &mut TableAlteration<'_>, name: &str) -> SqlResult<()> {
        let table = work.draft.name.clone();
        let of = || format!("constraint \"{name}\" of relation \"{table}\"");
        let Some(found) = work.draft.constraints.iter_mut().find(|one| one.name == name) else {
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("{} does not exist", of())));
        };
        let parent = match &found.what {
            ConstraintKind::ForeignKey(key) => self.state.table_numbered(key.parent).cloned(),
            ConstraintKind::Check(_) => None,
            ConstraintKind::PrimaryKey { .. } | ConstraintKind::Unique { .. } => {
                let message = format!("{} is not a foreign key or check constraint", of());
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        };
        found.is_valid = true;
        match parent {
            Some(parent) if parent.oid != work.draft.oid => self.lock(&parent, TableLock::RowShare),
            _ => Ok(()),
        }
    }

    fn set_default(&mut self, work: &mut TableAlteration<'_>, column: &str, value: &KeptExpr) -> SqlResult<()> {
        let at = work.draft.need_column(column)?;
        if work.draft.columns[at].identity.is_some() {
            return Err(is_identity(column, &work.draft.name));
        }
        let default = self.default(value, work.draft.columns[at].kind, column).map_err(SqlError::nowhere)?;
        work.draft.columns[at].default = Some(default);
        Ok(())
    }

    /// Plans a constraint for its pass: keys come before everything that may use them.
    fn plan_constraint<'a>(&mut self, work: &mut TableAlteration<'a>, constraint: NewConstraint<'a>) -> SqlResult<()> {
        let pass = match &constraint.what {
            NewConstraintKind::Key { options, columns } => {
                self.check_key(&work.draft, columns, constraint.span, key_word(options)).map_err(unplaced)?;
                AlterPass::AddIndex
            }
            NewConstraintKind::Foreign { .. }
            | NewConstraintKind::Check { .. }
            | NewConstraintKind::Copied(_)
            | NewConstraintKind::KeyUsingIndex
            | NewConstraintKind::Exclude => AlterPass::AddOther,
        };
        work.steps.add(pass, AlterStep::Constraint(constraint));
        Ok(())
    }

    fn add_table_constraint(
        &mut self,
        work: &mut TableAlteration<'_>,
        constraint: &NewConstraint<'_>,
    ) -> SqlResult<()> {
        let before = work.draft.constraints.len();
        match &constraint.what {
            NewConstraintKind::Foreign { .. } => self.add_reference(&mut work.draft, constraint)?,
            what @ (NewConstraintKind::Check { .. }
            | NewConstraintKind::Copied(_)
            | NewConstraintKind::Key { .. }
            | NewConstraintKind::KeyUsingIndex
            | NewConstraintKind::Exclude) => {
                work.copies |= matches!(what, NewConstraintKind::Key { .. });
                self.add_constraint(&mut work.draft, constraint).map_err(unplaced)?;
            }
        }
        let is_valid = !constraint.is_not_valid;
        work.draft.constraints[before..].iter_mut().for_each(|added| added.is_valid = is_valid);
        Ok(())
    }

    /// Returns the value that rows get in a new column. A value that is the same for all rows is computed here, even if
    /// the table has no rows.
    fn first_value(&self, column: &ColumnDef) -> SqlResult<Expr> {
        let value = self.default_of(column)?;
        if value.is_volatile() {
            return Ok(value);
        }
        let run = crate::exec::Run { catalog: &self.state, ..self.run.again() };
        Ok(Expr::Constant(run.value_of(&value, &[])?))
    }

    fn default_of(&self, column: &ColumnDef) -> SqlResult<Expr> {
        let binder = self.binder();
        if let Some(IdentityColumn { sequence, .. }) = column.identity {
            let next = query::plan::Typed::new(binder.next_number(sequence), types::Kind::Int8);
            return Ok(binder.coerce(next, column.kind, CastContext::Assignment)?.expr);
        }
        let Some(default) = &column.default else {
            return Ok(Expr::Constant(types::datum::Datum::Null));
        };
        let (tree, binder) = (grammar::expression(&default.text)?, self.binder_of(&default.text));
        let bound = binder.expr(&tree, &query::bind::NameScope::default()).map_err(SqlError::nowhere)?;
        Ok(binder.coerce_default(bound, column.kind).map_err(SqlError::nowhere)?.expr)
    }

    fn drop_column(
        &mut self,
        work: &mut TableAlteration<'_>,
        name: &str,
        if_exists: bool,
        cascades: bool,
    ) -> SqlResult<()> {
        let Some(at) = work.draft.column(name) else {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", work.draft.name);
            if if_exists {
                self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        let number = work.draft.columns[at].number;
        let column = format!("column {name} of table {}", self.shown(&Relation::Table(Arc::clone(&work.old))));
        let mut doomed = DroppedObjects::default();
        doomed.columns.push((work.draft.oid, number));
        let owned = |one: &&Arc<Sequence>| one.owned_by == Some((work.draft.oid, number));
        let sequences: Vec<Arc<Sequence>> = self.state.sequences().filter(owned).cloned().collect();
        sequences.into_iter().for_each(|sequence| doomed.add(Relation::Sequence(sequence)));
        self.doom_views(&mut doomed, work.draft.oid, number, &column)?;
        for child in self.state.referencing(work.draft.oid) {
            for (constraint, key) in child.foreign_keys() {
                let beside = |index: &IndexInfo| {
                    let is_key = |at: &usize| key.parent_columns.contains(&work.draft.columns[*at].number);
                    index.include.contains(&at)
                        && index.is_unique
                        && index.columns.len() == key.parent_columns.len()
                        && index.columns.iter().all(is_key)
                };
                // Dropping a column that an index includes also drops the key that the reference relies on.
                let relies = key.parent_columns.contains(&number) || work.draft.indexes.iter().any(beside);
                if key.parent != work.draft.oid || !relies {
                    continue;
                }
                let is_own = child.oid == work.draft.oid;
                // Constraints on the column itself are dropped with it without a notice.
                let is_gone = !work.draft.constraints.iter().any(|one| one.oid == constraint.oid);
                if is_own && (is_gone || key.columns.contains(&at)) {
                    continue;
                }
                let on = self.shown(&Relation::Table(Arc::clone(child)));
                doomed.depends(format!("constraint {} on table {on}", constraint.name), &column);
                doomed.constraints.push((child.oid, constraint.oid));
            }
        }
        if !cascades && !doomed.dependents.is_empty() {
            let message = format!("cannot drop {column} because other objects depend on it");
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .detail(doomed.dependents.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        self.say(&doomed);
        // The draft, not the catalog, loses the table's own constraints and defaults.
        let own = work.draft.oid;
        let constraints = std::mem::take(&mut doomed.constraints).into_iter();
        let (here, elsewhere): (Vec<_>, _) = constraints.partition(|(table, _)| *table == own);
        doomed.constraints = elsewhere;
        work.draft.constraints.retain(|one| !here.contains(&(own, one.oid)));
        let defaults = std::mem::take(&mut doomed.defaults).into_iter();
        let (here, elsewhere): (Vec<_>, _) = defaults.partition(|(table, _)| *table == own);
        doomed.defaults = elsewhere;
        let columns = work.draft.columns.iter_mut();
        columns.filter(|column| here.contains(&(own, column.number))).for_each(|column| column.default = None);
        self.carry_out(doomed)?;
        // Indexes, keys, references and checks on the column are dropped without a notice.
        while let Some(position) =
            work.draft.indexes.iter().position(|index| index.all_columns().any(|column| *column == at))
        {
            work.draft.constraints.retain(|one| {
                !matches!(one.what, ConstraintKind::PrimaryKey { index } | ConstraintKind::Unique { index } if index == position)
            });
            remove_index(&mut work.draft, position);
        }
        let mut gone = Vec::new();
        for constraint in &work.draft.constraints {
            let has_it = match &constraint.what {
                ConstraintKind::ForeignKey(key) => key.columns.contains(&at),
                ConstraintKind::Check(check) => {
                    self.columns_of_check(&work.draft.name, &work.draft.columns, check)?.contains(&at)
                }
                // A key goes with its index.
                ConstraintKind::PrimaryKey { .. } | ConstraintKind::Unique { .. } => false,
            };
            if has_it {
                gone.push(constraint.oid);
            }
        }
        work.draft.constraints.retain(|one| !gone.contains(&one.oid));
        self.state.set_comment(work.draft.oid, number, None);
        self.state.forget_column(work.draft.oid, number);
        work.draft.columns.remove(at);
        work.sources.remove(at);
        let shift = |position: &mut usize| *position -= usize::from(at < *position);
        work.draft
            .indexes
            .iter_mut()
            .flat_map(|index| index.columns.iter_mut().chain(&mut index.include))
            .for_each(shift);
        for constraint in &mut work.draft.constraints {
            if let ConstraintKind::ForeignKey(key) = &mut constraint.what {
                key.columns.iter_mut().for_each(shift);
            }
        }
        work.copies = true;
        Ok(())
    }

    fn drop_constraint(
        &mut self,
        work: &mut TableAlteration<'_>,
        name: &str,
        if_exists: bool,
        cascades: bool,
    ) -> SqlResult<()> {
        let Some(at) = work.draft.constraints.iter().position(|constraint| constraint.name == name) else {
            let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", work.draft.name);
            if if_exists {
                self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        };
        let constraint = work.draft.constraints[at].clone();
        if let ConstraintKind::PrimaryKey { index } | ConstraintKind::Unique { index } = constraint.what {
            let numbers: Vec<i16> =
                work.draft.indexes[index].columns.iter().map(|at| work.draft.columns[*at].number).collect();
            // Another unique index over the same columns can take over the references, so dropping this one breaks
            // none.
            let others = work.draft.indexes.iter().enumerate().any(|(other, one)| {
                other != index
                    && one.is_unique
                    && one.columns.len() == numbers.len()
                    && one.columns.iter().all(|at| numbers.contains(&work.draft.columns[*at].number))
            });
            let uses = |key: &catalog::ForeignKey| {
                key.parent == work.draft.oid
                    && key.parent_columns.len() == numbers.len()
                    && key.parent_columns.iter().all(|number| numbers.contains(number))
            };
            let children: Vec<_> =
                if others { Vec::new() } else { self.state.referencing(work.draft.oid).cloned().collect() };
            for child in children {
                let dependents: Vec<_> =
                    child.foreign_keys().filter(|(_, key)| uses(key)).map(|(one, _)| one.clone()).collect();
                for dependent in dependents {
                    if !cascades {
                        let table = &work.draft.name;
                        let message = format!(
                            "cannot drop constraint {name} on table {table} because other objects depend on it"
                        );
                        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                            .detail(format!(
                                "constraint {} on table {} depends on index {name}",
                                dependent.name, child.name
                            ))
                            .hint("Use DROP ... CASCADE to drop the dependent objects too."));
                    }
                    // The table's own references live in the draft. Another table is locked and replaced in the
                    // catalog.
                    if child.oid == work.draft.oid {
                        work.draft.constraints.retain(|one| one.oid != dependent.oid);
                    } else {
                        self.lock(&child, TableLock::AccessExclusive)?;
                        let current =
                            self.state.table_numbered(child.oid).cloned().unwrap_or_else(|| Arc::clone(&child));
                        let mut without = current.copy();
                        without.constraints.retain(|one| one.oid != dependent.oid);
                        self.replace_table(without)?;
                    }
                    let message = format!("drop cascades to constraint {} on table {}", dependent.name, child.name);
                    self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
                }
            }
            remove_index(&mut work.draft, index);
            work.copies = true;
        }
        work.draft.constraints.retain(|one| one.oid != constraint.oid);
        Ok(())
    }

    /// Verifies columns that have become NOT NULL without a copy of the rows.
    fn verify_not_null(&self, old: &TableInfo, new: &TableInfo) -> SqlResult<()> {
        let strict: Vec<usize> = (0..new.columns.len())
            .filter(|at| new.columns[*at].not_null && !old.columns.get(*at).is_some_and(|column| column.not_null))
            .collect();
        if strict.is_empty() {
            return Ok(());
        }
        let newest = self.run.txn.newest_snapshot()?;
        let null_in = |id| {
            newest.with_row(&new.table, engine::RowId(id), |row| {
                strict.iter().copied().find(|at| matches!(row.get(*at), engine::Value::Null))
            })
        };
        let mut found = None;
        for id in 0..new.table.rows_bound() {
            pulse::tick(pulse::ITEM * strict.len())?;
            found = null_in(id).flatten();
            if found.is_some() {
                break;
            }
        }
        let Some(at) = found else { return Ok(()) };
        let message = format!("column \"{}\" of relation \"{}\" contains null values", new.columns[at].name, new.name);
        let error = SqlError::new(SqlState::NOT_NULL_VIOLATION, message);
        Err(self.state.about(error, new).about_column(&new.columns[at].name))
    }
}

fn drop_not_null(work: &mut TableAlteration<'_>, name: &str) -> SqlResult<()> {
    let at = work.draft.need_column(name)?;
    if work.draft.indexes.iter().any(|index| index.is_primary && index.columns.contains(&at)) {
        let message = format!("column \"{name}\" is in a primary key");
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    }
    if work.draft.columns[at].identity.is_some() {
        return Err(is_identity(name, &work.draft.name));
    }
    work.draft.columns[at].not_null = false;
    // The engine's column may be one that cannot store nulls.
    work.copies |= work
        .old
        .column_numbered(work.draft.columns[at].number)
        .is_some_and(|old| !work.old.table.columns()[old].nullable);
    Ok(())
}

fn drop_default(work: &mut TableAlteration<'_>, name: &str) -> SqlResult<()> {
    let at = work.draft.need_column(name)?;
    if work.draft.columns[at].identity.is_some() {
        return Err(
            is_identity(name, &work.draft.name).hint("Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.")
        );
    }
    work.draft.columns[at].default = None;
    Ok(())
}

/// Error for an identity column. `42601`
fn is_identity(column: &str, table: &str) -> SqlError {
    let message = format!("column \"{column}\" of relation \"{table}\" is an identity column");
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// Checks that an existing column can become an identity.
///
/// # Errors
/// `22023`, `55000`: the column cannot become an identity.
fn check_new_identity(column: &ColumnDef, table: &str) -> SqlResult<()> {
    super::sequence::check_identity(column.kind)?;
    let wrong = if !column.not_null {
        "must be declared NOT NULL before identity can be added"
    } else if column.identity.is_some() {
        "is already an identity column"
    } else if column.default.is_some() {
        "already has a default value"
    } else {
        return Ok(());
    };
    let message = format!("column \"{}\" of relation \"{table}\" {wrong}", column.name);
    Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
}

/// Error for an action that only tables support. `42809`
fn only_for_tables(action: &AlterActionKind, relation: &Relation) -> SqlError {
    let Some(words) = words_of_action(action) else { return no_table(relation) };
    let kind = match relation {
        Relation::View(_) => "views",
        Relation::Index { .. } => "indexes",
        Relation::Sequence(_) => "sequences",
        Relation::Table(_) => "tables",
    };
    let message = format!("ALTER action {words} cannot be performed on relation \"{}\"", relation.name());
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).detail(format!("This operation is not supported for {kind}."))
}

/// Removes the position from an error of a constraint: PostgreSQL reports most of them without one.
fn unplaced(error: SqlError) -> SqlError {
    match error.state() {
        SqlState::DUPLICATE_COLUMN => error,
        _ => error.nowhere(),
    }
}

/// Returns the words of an action in messages, if they are known.
fn words_of_action(action: &AlterActionKind) -> Option<&'static str> {
    Some(match action {
        AlterActionKind::AddColumn { .. } => "ADD COLUMN",
        AlterActionKind::DropColumn { .. } => "DROP COLUMN",
        AlterActionKind::AddConstraint(_) => "ADD CONSTRAINT",
        AlterActionKind::DropConstraint { .. } => "DROP CONSTRAINT",
        AlterActionKind::SetType { .. } => "ALTER COLUMN ... SET DATA TYPE",
        AlterActionKind::SetNotNull { .. } => "ALTER COLUMN ... SET NOT NULL",
        AlterActionKind::DropNotNull { .. } => "ALTER COLUMN ... DROP NOT NULL",
        AlterActionKind::SetDefault { .. }
        | AlterActionKind::DropDefault { .. }
        | AlterActionKind::AddIdentity { .. }
        | AlterActionKind::SetIdentity { .. }
        | AlterActionKind::DropIdentity { .. }
        | AlterActionKind::ColumnOptions { .. }
        | AlterActionKind::AlterConstraint(_)
        | AlterActionKind::ValidateConstraint(_)
        | AlterActionKind::SetOptions(_)
        | AlterActionKind::ResetOptions(_)
        | AlterActionKind::SetLogged
        | AlterActionKind::SetUnlogged
        | AlterActionKind::WithoutOids
        | AlterActionKind::OwnerTo(_)
        | AlterActionKind::Unsupported(_) => return None,
    })
}
