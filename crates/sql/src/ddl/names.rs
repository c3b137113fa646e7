//! `ALTER … RENAME`.

use super::columns::TableDraft;
use super::index::same_columns;
use super::renames::RenamedObject;
use super::{Ddl, DdlResult, altering, words_of};
use catalog::{ConstraintKind, Relation, Sequence, TableInfo, ViewInfo};
use engine::TableLock;
use query::bind::{NameTarget, no_relation, not_a_sequence};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::ast::{ObjectKind, ObjectName, RenameCommand};

impl Ddl<'_> {
    /// Returns the relation that an `ALTER` of this kind names; `None` if it does not exist, and `IF EXISTS` is given.
    /// `ALTER TABLE` takes any relation.
    ///
    /// # Errors
    /// `42P01`: it does not exist. `3F000`: its schema does not exist either. `42809`: it is of another kind.
    pub(super) fn altered(
        &mut self,
        kind: ObjectKind,
        name: &ObjectName,
        if_exists: bool,
    ) -> SqlResult<Option<Relation>> {
        let binder = self.binder();
        let qualified = binder.qualified(name)?;
        binder.check_lookup(&qualified)?;
        let Some(relation) = binder.find(&qualified).cloned() else {
            if !if_exists {
                return Err(binder.relation_named(name).err().unwrap_or_else(|| no_relation(&qualified)));
            }
            let message = format!("relation \"{}\" does not exist, skipping", qualified.name);
            self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
            return Ok(None);
        };
        self.check_owner(&relation)?;
        match (kind, &relation) {
            (ObjectKind::View, Relation::View(_))
            | (ObjectKind::Index, Relation::Index { .. })
            | (ObjectKind::Sequence, Relation::Sequence(_))
            | (ObjectKind::Table, _) => Ok(Some(relation)),
            (ObjectKind::Sequence, other) => Err(not_a_sequence(other)),
            (kind, other) => {
                let article = if kind == ObjectKind::Index { "an" } else { "a" };
                let message = format!("\"{}\" is not {article} {}", other.name(), words_of(kind));
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
        }
    }

    pub(super) fn rename(&mut self, rename: &RenameCommand) -> SqlResult<DdlResult> {
        let RenameCommand { kind, name, part, to, if_exists } = rename;
        // Views keep the search path by which their names were found, with the names of its schemas.
        refuse!(*kind == ObjectKind::Schema => "ALTER SCHEMA RENAME");
        // A column is renamed whatever the statement calls its relation.
        let of = if part.is_some() { ObjectKind::Table } else { *kind };
        if let Some(relation) = self.altered(of, name, *if_exists)? {
            match part {
                None => self.rename_relation(&relation, to)?,
                Some((ObjectKind::Column, old)) => self.rename_column(&relation, old, to)?,
                Some((ObjectKind::Constraint, old)) => self.rename_constraint(&relation, old, to)?,
                Some((other, _)) => {
                    return Err(SqlError::unsupported(format_args!("to rename a {} so", words_of(*other))));
                }
            }
        }
        Ok(altering(*kind).into())
    }

    fn rename_relation(&mut self, relation: &Relation, new: &str) -> SqlResult<()> {
        self.check_create_beside(relation)?;
        if self.is_taken(relation.schema(), new) {
            let message = format!("relation \"{new}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        let views = self.renamed(
            relation.oid(),
            &RenamedObject { what: NameTarget::Relation(relation.oid()), to: new, schema: None },
        )?;
        match relation {
            Relation::Table(table) => {
                self.lock(table, TableLock::AccessExclusive)?;
                let mut renamed = table.copy();
                new.clone_into(&mut renamed.name);
                self.replace_table(renamed)?;
            }
            Relation::View(view) => {
                let renamed = ViewInfo { name: new.to_owned(), ..(**view).clone() };
                self.state.replace(Relation::View(Arc::new(renamed)))?;
            }
            Relation::Sequence(sequence) => {
                let renamed = Sequence { name: new.to_owned(), ..sequence.next_version() };
                self.state.replace(Relation::Sequence(Arc::new(renamed)))?;
            }
            Relation::Index { table, position } => self.rename_index(table, *position, new)?,
        }
        self.put_renamed(views, &format!("rename a {}", relation.word()))
    }

    /// Renames an index, and its constraint.
    fn rename_index(&mut self, table: &TableInfo, position: usize, new: &str) -> SqlResult<()> {
        let mut renamed = table.copy();
        for constraint in &mut renamed.constraints {
            if let ConstraintKind::PrimaryKey { index } | ConstraintKind::Unique { index } = constraint.what
                && index == position
            {
                new.clone_into(&mut constraint.name);
            }
        }
        new.clone_into(&mut renamed.indexes[position].name);
        // Messages contain the index's name in the engine, so it is renamed there, too, by a copy.
        self.rebuild(table, TableDraft::of(&renamed), &same_columns(table))?;
        Ok(())
    }

    fn rename_column(&mut self, relation: &Relation, old: &str, new: &str) -> SqlResult<()> {
        let table = match relation {
            Relation::Table(table) => table,
            Relation::View(view) => return self.rename_view_column(view, old, new),
            Relation::Sequence(_) | Relation::Index { .. } => return Err(no_table(relation)),
        };
        self.lock(table, TableLock::AccessExclusive)?;
        let mut draft = TableDraft::of(table);
        let at = draft
            .column(old)
            .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{old}\" does not exist")))?;
        if draft.column(new).is_some() {
            let message = format!("column \"{new}\" of relation \"{}\" already exists", draft.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        let what = NameTarget::Column(draft.oid, draft.columns[at].number);
        let views = self.renamed(draft.oid, &RenamedObject { what, to: new, schema: None })?;
        for (_, check) in table.checks() {
            let used = self.columns_of_check(&draft.name, &draft.columns, check)?;
            refuse!(used.contains(&at) => "to rename a column that a CHECK looks at");
        }
        new.clone_into(&mut draft.columns[at].name);
        self.replace_table(draft.finish(Arc::clone(&table.table)))?;
        self.put_renamed(views, "rename a column")
    }

    fn rename_constraint(&mut self, relation: &Relation, old: &str, new: &str) -> SqlResult<()> {
        let Relation::Table(table) = relation else { return Err(no_table(relation)) };
        self.lock(table, TableLock::AccessExclusive)?;
        let mut draft = TableDraft::of(table);
        if draft.constraints.iter().any(|constraint| constraint.name == new) {
            let message = format!("constraint \"{new}\" for relation \"{}\" already exists", draft.name);
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let Some(constraint) = draft.constraints.iter_mut().find(|one| one.name == old) else {
            let message = format!("constraint \"{old}\" for table \"{}\" does not exist", draft.name);
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        };
        new.clone_into(&mut constraint.name);
        if let ConstraintKind::PrimaryKey { index } | ConstraintKind::Unique { index } = constraint.what {
            new.clone_into(&mut draft.indexes[index].name);
            self.rebuild(table, draft, &same_columns(table))?;
        } else {
            self.replace_table(draft.finish(Arc::clone(&table.table)))?;
        }
        Ok(())
    }
}

/// Error for a relation that is not a table. `42809`
pub(super) fn no_table(relation: &Relation) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a table", relation.name()))
}
