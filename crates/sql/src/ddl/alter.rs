//! `ALTER TABLE`.
//!
//! Its actions change a draft one after another, in the order of their passes ([`super::passes`]); at the end the table's rows
//! are copied if the draft has other columns or indexes, and what is new in it is looked at.
//!
//! **Invariant:** the table is locked against everybody who writes before the first row is copied.

use super::columns::Draft;
use super::constraints::{PRIMARY_KEY, UNIQUE};
use super::drop::Doomed;
use super::index::remove_index;
use super::passes::{Pass, Step, Steps, not_prepared, pass_of};
use super::renames::{Changed, Renamed};
use super::rewrite::Source;
use super::{Ddl, Defined};
use catalog::{ColumnDef, ConstraintKind, Identity, IndexInfo, Relation, Sequence, TableInfo, ViewInfo};
use engine::TableLock;
use query::bind::Noted;
use query::plan::Expr;
use sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation, DropBehavior, TableConstraint};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use statement::refuse;
use std::sync::Arc;
use syntax::parse::folded;
use types::ops::Context;

/// An `ALTER TABLE` under way.
pub(super) struct Work<'a> {
    pub(super) old: Arc<TableInfo>,
    pub(super) draft: Draft,
    /// Where the draft's columns come from.
    pub(super) sources: Vec<Source>,
    /// Whether rows must be copied.
    pub(super) copies: bool,
    /// Steps that are still to be taken.
    pub(super) steps: Steps<'a>,
    /// Views that name a column that gets another name.
    views: Vec<Changed>,
}

/// Lock on the table that an action takes: the least that PostgreSQL takes for it, and where it is not known the strongest.
fn lock_of(action: &AlterTableOperation) -> TableLock {
    match action {
        AlterTableOperation::AddConstraint { constraint: TableConstraint::ForeignKey(_), not_valid: _ } => {
            TableLock::ShareRowExclusive
        }
        AlterTableOperation::ValidateConstraint { .. } | AlterTableOperation::SetOptionsParens { .. } => {
            TableLock::ShareUpdateExclusive
        }
        _ => TableLock::AccessExclusive,
    }
}

impl Ddl<'_> {
    pub(super) fn alter_table(&mut self, alter: &ast::AlterTable) -> SqlResult<Defined> {
        let ast::AlterTable { name, if_exists, only: _, operations, location, on_cluster, table_type, end_token: _ } =
            alter;
        refuse!(location.is_some() || on_cluster.is_some() || table_type.is_some() => "this ALTER TABLE");
        let done = Ok(Defined::from("ALTER TABLE"));
        let binder = self.binder();
        let qualified = binder.qualified(name)?;
        let Some(relation) = binder.find(&qualified).cloned() else {
            if !if_exists {
                return Err(binder.relation_named(name).err().unwrap_or_else(|| query::bind::no_relation(&qualified)));
            }
            let message = format!("relation \"{}\" does not exist, skipping", qualified.name);
            self.notice(SqlState("00000"), message);
            return done;
        };
        match &operations[..] {
            [AlterTableOperation::RenameTable { table_name }] => {
                self.rename_relation(&relation, table_name)?;
                return done;
            }
            [AlterTableOperation::OwnerTo { new_owner }] if !matches!(relation, Relation::Table(_)) => {
                self.set_owner(&relation, new_owner)?;
                return done;
            }
            [AlterTableOperation::RenameColumn { old_column_name, new_column_name }] => {
                if let Relation::View(view) = &relation {
                    self.rename_view_column(view, &folded(old_column_name), &folded(new_column_name))?;
                    return done;
                }
            }
            _ => {}
        }
        let Relation::Table(old) = relation else {
            return Err(match operations.first().and_then(action) {
                Some(action) => {
                    let message =
                        format!("ALTER action {action} cannot be performed on relation \"{}\"", relation.name());
                    let kind = match relation {
                        Relation::View(_) => "views",
                        Relation::Index { .. } => "indexes",
                        _ => "sequences",
                    };
                    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                        .detail(format!("This operation is not supported for {kind}."))
                }
                None => {
                    let message = format!("\"{}\" is not a table", relation.name());
                    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                }
            });
        };
        self.lock(&old, operations.iter().map(lock_of).max().unwrap_or(TableLock::AccessExclusive))?;
        let sources = (0..old.columns.len()).map(Source::Column).collect();
        let mut work =
            Work { draft: Draft::of(&old), old, sources, copies: false, steps: Steps::default(), views: Vec::new() };
        for operation in operations {
            let step = self.prepared(&work, operation)?;
            work.steps.add(pass_of(operation)?, step);
        }
        while let Some(step) = work.steps.next() {
            match step {
                Step::Action(operation) => self.alter(&mut work, operation)?,
                Step::Retype(retype) => self.retype(&mut work, retype)?,
                Step::Constraint { constraint, not_valid } => {
                    self.add_table_constraint(&mut work, &constraint, not_valid)?
                }
            }
        }
        let Work { old, draft, sources, copies, views, .. } = work;
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
            self.own_sequences(&new)?;
        }
        let renames = matches!(operations[..], [AlterTableOperation::RenameColumn { .. }]);
        self.put_renamed(views, if renames { "rename a column" } else { "add a column to a table" })?;
        // Whether rows satisfy it is looked up by the transaction's snapshot, which must have all of them.
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
        self.verify(&new, is_new)?;
        done
    }

    fn alter(&mut self, work: &mut Work<'_>, operation: &AlterTableOperation) -> SqlResult<()> {
        match operation {
            AlterTableOperation::AddColumn { column_keyword: _, if_not_exists, column_def, column_position: None } => {
                let name = folded(&column_def.name);
                if work.draft.column(&name).is_some() {
                    let message = format!("column \"{name}\" of relation \"{}\" already exists", work.draft.name);
                    if *if_not_exists {
                        self.notice(SqlState::DUPLICATE_COLUMN, format!("{message}, skipping"));
                        return Ok(());
                    }
                    return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                }
                work.views = self.beside_new_column(work.draft.oid, work.draft.next_column)?;
                let mut pending = Vec::new();
                // PostgreSQL looks at a default without the text that it stands in.
                self.add_column(&mut work.draft, column_def, &mut pending).map_err(|error| match error.state() {
                    SqlState::UNDEFINED_OBJECT | SqlState::SYNTAX_ERROR | SqlState::INVALID_PARAMETER_VALUE => error,
                    _ => error.nowhere(),
                })?;
                let at = work.draft.columns.len() - 1;
                let value = self.first_value(&work.draft.columns[at])?;
                work.sources.push(Source::Made(value, work.draft.columns[at].kind));
                work.copies = true;
                pending.into_iter().try_for_each(|one| self.plan_constraint(work, one, false))
            }
            AlterTableOperation::AddConstraint { constraint, not_valid } => {
                let name = match constraint {
                    TableConstraint::PrimaryKey(_) => Some("PRIMARY KEY"),
                    TableConstraint::Unique(_) => Some("UNIQUE"),
                    _ => None,
                };
                if let Some(name) = name.filter(|_| *not_valid) {
                    let message = format!("{name} constraints cannot be marked NOT VALID");
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                self.plan_constraint(work, constraint.clone(), *not_valid)
            }
            AlterTableOperation::DropColumn { has_column_keyword: _, column_names, if_exists, drop_behavior } => {
                for name in column_names {
                    self.drop_column(work, &folded(name), *if_exists, drop_behavior.as_ref())?;
                }
                Ok(())
            }
            AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
                self.drop_constraint(work, &folded(name), *if_exists, drop_behavior.as_ref())
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                self.rename_column(work, &folded(old_column_name), &folded(new_column_name))
            }
            AlterTableOperation::RenameConstraint { old_name, new_name } => {
                let (old, new) = (folded(old_name), folded(new_name));
                if work.draft.constraints.iter().any(|constraint| constraint.name == new) {
                    let message = format!("constraint \"{new}\" for relation \"{}\" already exists", work.draft.name);
                    return Err(SqlError::new(SqlState("42710"), message));
                }
                let table = work.draft.name.clone();
                let constraint = work.draft.constraints.iter_mut().find(|one| one.name == old).ok_or_else(|| {
                    let message = format!("constraint \"{old}\" for table \"{table}\" does not exist");
                    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                })?;
                constraint.name.clone_from(&new);
                if let ConstraintKind::PrimaryKey { index } | ConstraintKind::Unique { index } = constraint.what {
                    work.draft.indexes[index].name = new;
                    work.copies = true;
                }
                Ok(())
            }
            AlterTableOperation::AlterColumn { column_name, op } => self.alter_column(work, &folded(column_name), op),
            AlterTableOperation::OwnerTo { new_owner } => {
                work.draft.owner = self.owner(new_owner)?;
                Ok(())
            }
            AlterTableOperation::SetLogged | AlterTableOperation::SetUnlogged => {
                self.notice(SqlState("01000"), "LOGGED and UNLOGGED are ignored: all data is in memory".to_owned());
                Ok(())
            }
            AlterTableOperation::SetOptionsParens { options: _ } => {
                self.notice(SqlState("01000"), "storage parameters are ignored".to_owned());
                Ok(())
            }
            AlterTableOperation::ValidateConstraint { name } => {
                let name = folded(name);
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
            other => Err(SqlError::unsupported(format_args!("ALTER TABLE {other}"))),
        }
    }

    /// A constraint waits for its pass: keys come before what may look at them.
    fn plan_constraint(&mut self, work: &mut Work<'_>, constraint: TableConstraint, not_valid: bool) -> SqlResult<()> {
        let pass = match &constraint {
            TableConstraint::PrimaryKey(key) => {
                self.check_key(&work.draft, &key.columns, PRIMARY_KEY).map_err(unplaced)?;
                Pass::AddIndex
            }
            TableConstraint::Unique(key) => {
                self.check_key(&work.draft, &key.columns, UNIQUE).map_err(unplaced)?;
                Pass::AddIndex
            }
            TableConstraint::ForeignKey(_)
            | TableConstraint::Check(_)
            | TableConstraint::Index(_)
            | TableConstraint::FulltextOrSpatial(_)
            | TableConstraint::PrimaryKeyUsingIndex(_)
            | TableConstraint::UniqueUsingIndex(_)
            | TableConstraint::Exclude(_) => Pass::AddOther,
        };
        work.steps.add(pass, Step::Constraint { constraint, not_valid });
        Ok(())
    }

    fn add_table_constraint(
        &mut self,
        work: &mut Work<'_>,
        constraint: &TableConstraint,
        not_valid: bool,
    ) -> SqlResult<()> {
        let before = work.draft.constraints.len();
        match constraint {
            TableConstraint::ForeignKey(key) => self.add_reference(&mut work.draft, key)?,
            other => {
                work.copies |= matches!(other, TableConstraint::PrimaryKey(_) | TableConstraint::Unique(_));
                self.add_constraint(&mut work.draft, other).map_err(unplaced)?;
            }
        }
        work.draft.constraints[before..].iter_mut().for_each(|added| added.is_valid = !not_valid);
        Ok(())
    }

    /// The value that rows get in a new column. One that is the same for all is made here, for a table without rows, too.
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
        if let Some(Identity { sequence, .. }) = column.identity {
            let next = query::plan::Typed::new(binder.next_number(sequence), types::Kind::Int8);
            return Ok(binder.coerce(next, column.kind, Context::Assignment)?.expr);
        }
        let Some(default) = &column.default else {
            return Ok(Expr::Constant(types::datum::Datum::Null));
        };
        let bound = binder.expr(&default.tree, &query::bind::Scope::default())?;
        Ok(binder.coerce_default(bound, column.kind)?.expr)
    }

    fn drop_column(
        &mut self,
        work: &mut Work<'_>,
        name: &str,
        if_exists: bool,
        behavior: Option<&DropBehavior>,
    ) -> SqlResult<()> {
        let Some(at) = work.draft.column(name) else {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", work.draft.name);
            if if_exists {
                self.notice(SqlState("00000"), format!("{message}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        let cascades = behavior == Some(&DropBehavior::Cascade);
        let number = work.draft.columns[at].number;
        let column = format!("column {name} of table {}", self.shown(&Relation::Table(Arc::clone(&work.old))));
        let mut doomed = Doomed::default();
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
                // The key that it relies on goes with a column that its index includes, too.
                let relies = key.parent_columns.contains(&number) || work.draft.indexes.iter().any(beside);
                if key.parent != work.draft.oid || !relies {
                    continue;
                }
                let is_own = child.oid == work.draft.oid;
                // What is on the column, too, goes with it without a word.
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
            return Err(SqlError::new(SqlState("2BP01"), message)
                .detail(doomed.dependents.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        self.say(&doomed);
        // What the table itself loses is the draft's.
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
        // Indexes, keys, references and checks with it go without a word.
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
                    self.bind_check(&work.draft.name, &work.draft.columns, &check.tree)?.contains(&at)
                }
                _ => false,
            };
            if has_it {
                gone.push(constraint.oid);
            }
        }
        work.draft.constraints.retain(|one| !gone.contains(&one.oid));
        self.state.set_comment(work.draft.oid, number, None);
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
        work: &mut Work<'_>,
        name: &str,
        if_exists: bool,
        behavior: Option<&DropBehavior>,
    ) -> SqlResult<()> {
        let Some(at) = work.draft.constraints.iter().position(|constraint| constraint.name == name) else {
            let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", work.draft.name);
            if if_exists {
                self.notice(SqlState("00000"), format!("{message}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        };
        let constraint = work.draft.constraints[at].clone();
        if let ConstraintKind::PrimaryKey { index } | ConstraintKind::Unique { index } = constraint.what {
            let numbers: Vec<i16> =
                work.draft.indexes[index].columns.iter().map(|at| work.draft.columns[*at].number).collect();
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
                    if behavior != Some(&DropBehavior::Cascade) {
                        let table = &work.draft.name;
                        let message = format!(
                            "cannot drop constraint {name} on table {table} because other objects depend on it"
                        );
                        return Err(SqlError::new(SqlState("2BP01"), message)
                            .detail(format!(
                                "constraint {} on table {} depends on index {name}",
                                dependent.name, child.name
                            ))
                            .hint("Use DROP ... CASCADE to drop the dependent objects too."));
                    }
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
                    self.notice(SqlState("00000"), message);
                }
            }
            remove_index(&mut work.draft, index);
            work.copies = true;
        }
        work.draft.constraints.retain(|one| one.oid != constraint.oid);
        Ok(())
    }

    fn rename_column(&mut self, work: &mut Work<'_>, old: &str, new: &str) -> SqlResult<()> {
        let at = work
            .draft
            .column(old)
            .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{old}\" does not exist")))?;
        if work.draft.column(new).is_some() {
            let message = format!("column \"{new}\" of relation \"{}\" already exists", work.draft.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        let what = Noted::Column(work.draft.oid, work.draft.columns[at].number);
        work.views = self.renamed(work.draft.oid, &Renamed { what, to: new, schema: None })?;
        for constraint in &work.draft.constraints {
            if let ConstraintKind::Check(check) = &constraint.what {
                let used = self.bind_check(&work.draft.name, &work.draft.columns, &check.tree)?;
                refuse!(used.contains(&at) => "to rename a column that a CHECK looks at");
            }
        }
        work.draft.columns[at].name = new.to_owned();
        Ok(())
    }

    fn alter_column(&mut self, work: &mut Work<'_>, name: &str, operation: &AlterColumnOperation) -> SqlResult<()> {
        let at = work.draft.need_column(name)?;
        if let AlterColumnOperation::SetDefault { value } = operation
            && let Some(change) = syntax::parse::alters::column_change(value)?
        {
            return self.change_column(&mut work.draft, at, change);
        }
        match operation {
            AlterColumnOperation::SetNotNull => work.draft.columns[at].not_null = true,
            AlterColumnOperation::DropNotNull => {
                if work.draft.indexes.iter().any(|index| index.is_primary && index.columns.contains(&at)) {
                    let message = format!("column \"{name}\" is in a primary key");
                    return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                }
                if work.draft.columns[at].identity.is_some() {
                    let message =
                        format!("column \"{name}\" of relation \"{}\" is an identity column", work.draft.name);
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                work.draft.columns[at].not_null = false;
                // The engine's column may be one that has no place for nulls.
                work.copies |= work
                    .old
                    .column_numbered(work.draft.columns[at].number)
                    .is_some_and(|old| !work.old.table.columns()[old].nullable);
            }
            AlterColumnOperation::SetDefault { value } => {
                if work.draft.columns[at].identity.is_some() {
                    let message =
                        format!("column \"{name}\" of relation \"{}\" is an identity column", work.draft.name);
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                work.draft.columns[at].default =
                    Some(self.default(value, work.draft.columns[at].kind, name).map_err(SqlError::nowhere)?);
            }
            AlterColumnOperation::DropDefault => {
                if work.draft.columns[at].identity.is_some() {
                    let message =
                        format!("column \"{name}\" of relation \"{}\" is an identity column", work.draft.name);
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message)
                        .hint("Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead."));
                }
                work.draft.columns[at].default = None;
            }
            AlterColumnOperation::SetDataType { .. } => return Err(not_prepared()),
            AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
                let mut column = work.draft.columns[at].clone();
                super::sequence::check_identity(column.kind)?;
                let wrong = if !column.not_null {
                    Some("must be declared NOT NULL before identity can be added")
                } else if column.identity.is_some() {
                    Some("is already an identity column")
                } else {
                    column.default.is_some().then_some("already has a default value")
                };
                if let Some(wrong) = wrong {
                    let message = format!("column \"{name}\" of relation \"{}\" {wrong}", work.draft.name);
                    return Err(SqlError::new(SqlState("55000"), message));
                }
                let always = matches!(generated_as, Some(ast::GeneratedAs::Always));
                let mut numbers = super::sequence::Numbers::of(column.kind);
                numbers.set(&self.binder(), sequence_options.as_deref().unwrap_or_default())?;
                self.number(&work.draft, &mut column, Some(always), numbers)?;
                work.draft.columns[at] = column;
            }
        }
        Ok(())
    }

    fn rename_relation(&mut self, relation: &Relation, to: &ast::RenameTableNameKind) -> SqlResult<()> {
        let (ast::RenameTableNameKind::To(to) | ast::RenameTableNameKind::As(to)) = to;
        if let Some(schema) = syntax::parse::alters::schema(to) {
            return self.set_schema(relation, schema);
        }
        let parts = self.binder().name_parts(to)?;
        let [new] = &parts[..] else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a relation keeps its schema when it is renamed"));
        };
        if self.is_taken(relation.schema(), new) {
            let message = format!("relation \"{new}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        let views =
            self.renamed(relation.oid(), &Renamed { what: Noted::Relation(relation.oid()), to: new, schema: None })?;
        match relation {
            Relation::Table(table) => {
                self.lock(table, TableLock::AccessExclusive)?;
                let mut renamed = table.copy();
                renamed.name.clone_from(new);
                self.replace_table(renamed)?;
            }
            Relation::View(view) => {
                let renamed = catalog::ViewInfo { name: new.clone(), ..(**view).clone() };
                self.state.replace(Relation::View(Arc::new(renamed)))?;
            }
            Relation::Sequence(sequence) => {
                let renamed = Sequence { name: new.clone(), ..sequence.next_version() };
                self.state.replace(Relation::Sequence(Arc::new(renamed)))?;
            }
            Relation::Index { .. } => {
                return Err(SqlError::unsupported("ALTER TABLE RENAME of an index; use ALTER INDEX"));
            }
        }
        self.put_renamed(views, &format!("rename a {}", relation.word()))
    }

    /// Only the owner of a schema can change: views keep the path by which their names were found, with its name.
    pub(super) fn alter_schema(&mut self, alter: &ast::AlterSchema) -> SqlResult<Defined> {
        let ast::AlterSchema { name, if_exists, operations } = alter;
        let owner = match &operations[..] {
            [ast::AlterSchemaOperation::OwnerTo { owner }] => owner,
            [ast::AlterSchemaOperation::Rename { .. }] => return Err(SqlError::unsupported("ALTER SCHEMA RENAME")),
            _ => return Err(SqlError::unsupported("this ALTER SCHEMA")),
        };
        refuse!(*if_exists => "ALTER SCHEMA IF EXISTS");
        let parts = self.binder().name_parts(name)?;
        let found = match &parts[..] {
            [name] => self.state.schema(name).cloned(),
            _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "the name of a schema has one part")),
        };
        let Some(schema) = found else {
            let message = format!("schema \"{}\" does not exist", parts.join("."));
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
        };
        let owner = self.owner(owner)?;
        self.state.put_schema(catalog::Schema { owner, ..schema });
        Ok("ALTER SCHEMA".into())
    }

    /// The role of this name.
    fn owner(&self, to: &ast::Owner) -> SqlResult<String> {
        let ast::Owner::Ident(name) = to else { return Ok(self.user()) };
        let name = folded(name);
        let roles = self.run.env.seen.as_ref().map(|seen| &seen.roles);
        if roles.is_some_and(|roles| roles.get(&name).is_none()) {
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist")));
        }
        Ok(name)
    }

    /// The sequences of a table's columns have its owner.
    fn own_sequences(&mut self, table: &TableInfo) -> SqlResult<()> {
        let is_own = |one: &&Arc<Sequence>| one.owned_by.is_some_and(|(of, _)| of == table.oid);
        let sequences: Vec<Arc<Sequence>> = self.state.sequences().filter(is_own).cloned().collect();
        for sequence in sequences {
            let owned = Sequence { owner: table.owner.clone(), ..sequence.next_version() };
            self.state.replace(Relation::Sequence(Arc::new(owned)))?;
        }
        Ok(())
    }

    fn set_owner(&mut self, relation: &Relation, to: &ast::Owner) -> SqlResult<()> {
        let owner = self.owner(to)?;
        let changed = match relation {
            Relation::View(view) => Relation::View(Arc::new(ViewInfo { owner, ..(**view).clone() })),
            Relation::Sequence(sequence) => {
                if let Some(table) = sequence.owned_by.and_then(|(table, _)| self.state.table_numbered(table)) {
                    let message = format!("cannot change owner of sequence \"{}\"", sequence.name);
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                        .detail(format!("Sequence \"{}\" is linked to table \"{}\".", sequence.name, table.name)));
                }
                Relation::Sequence(Arc::new(Sequence { owner, ..sequence.next_version() }))
            }
            Relation::Index { table, .. } => {
                if table.owner != owner {
                    let message = format!("cannot change owner of index \"{}\"", relation.name());
                    let warning = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                        .hint("Change the ownership of the index's table, instead.");
                    self.made.notices.push(("WARNING", warning));
                }
                return Ok(());
            }
            other @ Relation::Table(_) => {
                let message = format!("\"{}\" is not a view or sequence", other.name());
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        };
        self.state.replace(changed)
    }

    /// A column that has become NOT NULL without its rows being copied.
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

/// PostgreSQL looks at most of a constraint without the text that it stands in.
fn unplaced(error: SqlError) -> SqlError {
    match error.state() {
        SqlState::DUPLICATE_COLUMN => error,
        _ => error.nowhere(),
    }
}

/// What PostgreSQL calls a change, if it is of tables alone.
fn action(operation: &AlterTableOperation) -> Option<&'static str> {
    use ast::AlterColumnOperation as Column;
    Some(match operation {
        AlterTableOperation::AddColumn { .. } => "ADD COLUMN",
        AlterTableOperation::DropColumn { .. } => "DROP COLUMN",
        AlterTableOperation::AddConstraint { .. } => "ADD CONSTRAINT",
        AlterTableOperation::DropConstraint { .. } => "DROP CONSTRAINT",
        AlterTableOperation::AlterColumn { op: Column::SetDataType { .. }, .. } => "ALTER COLUMN ... SET DATA TYPE",
        AlterTableOperation::AlterColumn { op: Column::SetNotNull, .. } => "ALTER COLUMN ... SET NOT NULL",
        AlterTableOperation::AlterColumn { op: Column::DropNotNull, .. } => "ALTER COLUMN ... DROP NOT NULL",
        _ => return None,
    })
}
