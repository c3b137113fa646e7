//! `DROP`.
//!
//! **Invariant:** every dependent of a dropped object is dropped too, or prevents the drop.

use super::{Ddl, DdlResult, dropping, refuse_adopted, words_of};
use catalog::{ColumnDef, ConstraintKind, Relation, Routine, RoutineResult, Sequence, TableInfo};
use engine::TableLock;
use statement::error::{SqlError, SqlResult, SqlState};
use std::collections::HashSet;
use std::sync::Arc;
use syntax::ast::{DropCommand, ObjectKind, ObjectName};

/// Objects that a statement drops, in the order in which they were found.
#[derive(Default)]
pub(super) struct DroppedObjects {
    pub(super) relations: Vec<Relation>,
    pub(super) routines: Vec<Arc<Routine>>,
    /// OIDs of the relations and the routines.
    oids: HashSet<u32>,
    /// OIDs of the table and of the constraint.
    pub(super) constraints: Vec<(u32, u32)>,
    /// OID of the table, number of the column.
    pub(super) defaults: Vec<(u32, i16)>,
    /// Columns that are dropped with all that belongs to them: OID of the table, number of the column.
    pub(super) columns: Vec<(u32, i16)>,
    /// Lines of the error's detail: `view v depends on table t`.
    pub(super) dependents: Vec<String>,
    /// Descriptions for the notice: `view v`.
    pub(super) cascaded: Vec<String>,
}

impl DroppedObjects {
    fn has(&self, oid: u32) -> bool {
        self.oids.contains(&oid)
    }

    /// Adds a relation, unless it is among them already.
    pub(super) fn add(&mut self, relation: Relation) {
        if self.oids.insert(relation.oid()) {
            self.relations.push(relation);
        }
    }

    /// Adds a routine, unless it is among them already.
    pub(super) fn add_routine(&mut self, routine: Arc<Routine>) {
        if self.oids.insert(routine.oid) {
            self.routines.push(routine);
        }
    }

    /// Notes that the named object is dropped because of `what`.
    pub(super) fn depends(&mut self, name: String, what: &str) {
        self.dependents.push(format!("{name} depends on {what}"));
        self.cascaded.push(name);
    }
}

impl Ddl<'_> {
    pub(super) fn drop_objects(&mut self, drop: &DropCommand) -> SqlResult<DdlResult> {
        let DropCommand { kind, names, if_exists, is_cascading, is_concurrent } = drop;
        let (tag, cascade) = (dropping(*kind), *is_cascading);
        if *is_concurrent && 1 < names.len() {
            let message = "DROP INDEX CONCURRENTLY does not support dropping multiple objects";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if *is_concurrent && cascade {
            let message = "DROP INDEX CONCURRENTLY does not support CASCADE";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let word = match kind {
            ObjectKind::Table | ObjectKind::View | ObjectKind::Index | ObjectKind::Sequence => words_of(*kind),
            ObjectKind::Schema => return self.drop_schemas(names, *if_exists, cascade),
            ObjectKind::Column | ObjectKind::Constraint | ObjectKind::Database | ObjectKind::Role => {
                return Err(SqlError::unsupported(format_args!("DROP {}", words_of(*kind).to_uppercase())));
            }
        };
        let mut doomed = DroppedObjects::default();
        for name in names {
            let binder = self.binder();
            let qualified = binder.qualified(name)?;
            binder.check_lookup(&qualified)?;
            let Some(relation) = binder.find(&qualified).cloned() else {
                let schema_is_there =
                    qualified.schema.as_ref().is_none_or(|schema| self.state.schema(schema).is_some());
                let message = match &qualified.schema {
                    Some(schema) if !schema_is_there => format!("schema \"{schema}\" does not exist"),
                    // PostgreSQL omits the schema from the name here.
                    _ => format!("{word} \"{}\" does not exist", qualified.name),
                };
                let state = match (schema_is_there, word) {
                    (false, _) => SqlState::INVALID_SCHEMA_NAME,
                    (true, "index") => SqlState::UNDEFINED_OBJECT,
                    (true, _) => SqlState::UNDEFINED_TABLE,
                };
                if !if_exists {
                    return Err(SqlError::new(state, message));
                }
                self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"));
                continue;
            };
            if relation.word() != word {
                let article = if word == "index" { "an" } else { "a" };
                let message = format!("\"{}\" is not {article} {word}", qualified.name);
                let of = relation.word();
                let own = if of == "index" { "an" } else { "a" };
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .hint(format!("Use DROP {} to remove {own} {of}.", of.to_uppercase())));
            }
            self.check_may_drop(&relation)?;
            if let Relation::Index { table, position } = &relation {
                self.refuse_key(table, *position)?;
            }
            if let Relation::Sequence(sequence) = &relation {
                self.refuse_identity(sequence)?;
            }
            doomed.add(relation);
        }
        let asked: Vec<String> =
            doomed.relations.iter().map(|one| format!("{} {}", one.word(), self.shown(one))).collect();
        self.follow(&mut doomed)?;
        self.drop_followed(doomed, &asked, cascade)?;
        Ok(tag.into())
    }

    /// Drops objects with their dependents, which [`Ddl::follow`] has added. `asked` describes the objects that the
    /// statement names.
    ///
    /// # Errors
    /// `2BP01`: there are dependents, and the statement does not cascade.
    pub(super) fn drop_followed(&mut self, doomed: DroppedObjects, asked: &[String], cascade: bool) -> SqlResult<()> {
        if !cascade && !doomed.dependents.is_empty() {
            let message = match asked {
                [one] => format!("cannot drop {one} because other objects depend on it"),
                _ => "cannot drop desired object(s) because other objects depend on them".to_owned(),
            };
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .detail(doomed.dependents.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        self.say(&doomed);
        self.carry_out(doomed)
    }

    pub(super) fn say(&mut self, doomed: &DroppedObjects) {
        match &doomed.cascaded[..] {
            [] => {}
            [one] => self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("drop cascades to {one}")),
            many => {
                let message = format!("drop cascades to {} other objects", many.len());
                let lines: Vec<String> = many.iter().map(|one| format!("drop cascades to {one}")).collect();
                let error = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message).detail(lines.join("\n"));
                self.made.notices.push(("NOTICE", error));
            }
        }
    }

    fn refuse_key(&self, table: &catalog::TableInfo, position: usize) -> SqlResult<()> {
        for constraint in &table.constraints {
            if let ConstraintKind::PrimaryKey { index } | ConstraintKind::Unique { index } = constraint.what
                && index == position
            {
                let (index, name) = (&table.indexes[position].name, &constraint.name);
                let message =
                    format!("cannot drop index {index} because constraint {name} on table {} requires it", table.name);
                return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                    .hint(format!("You can drop constraint {name} on table {} instead.", table.name)));
            }
        }
        Ok(())
    }

    /// Refuses to drop the sequence of an identity, which goes with its column only.
    fn refuse_identity(&self, sequence: &Sequence) -> SqlResult<()> {
        let Some((table, number)) = sequence.owned_by else { return Ok(()) };
        let Some(table) = self.state.table_numbered(table) else { return Ok(()) };
        let is_its = |column: &&ColumnDef| {
            column.number == number && column.identity.is_some_and(|identity| identity.sequence == sequence.oid)
        };
        let Some(column) = table.columns.iter().find(is_its) else { return Ok(()) };
        let on = format!("column {} of table {}", column.name, self.shown(&Relation::Table(Arc::clone(table))));
        let shown = self.shown(&Relation::Sequence(Arc::new(sequence.clone())));
        let message = format!("cannot drop sequence {shown} because {on} requires it");
        Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).hint(format!("You can drop {on} instead.")))
    }

    /// Adds the dependents of the objects that are dropped.
    pub(super) fn follow(&self, doomed: &mut DroppedObjects) -> SqlResult<()> {
        let (mut at, mut of_routines) = (0, 0);
        loop {
            self.run.txn.check_active()?;
            if let Some(routine) = doomed.routines.get(of_routines) {
                let (oid, what) = (routine.oid, format!("function {}", self.shown_routine(routine)));
                self.follow_uses(doomed, oid, &what);
                of_routines += 1;
                continue;
            }
            let Some(gone) = doomed.relations.get(at).cloned() else { break };
            let what = format!("{} {}", gone.word(), self.shown(&gone));
            self.follow_uses(doomed, gone.oid(), &what);
            self.follow_rows(doomed, &gone);
            if let Relation::Table(table) = &gone {
                // Sequences that the table owns are dropped without a notice.
                for sequence in self.state.sequences() {
                    if sequence.owned_by.is_some_and(|(of, _)| of == table.oid) {
                        doomed.add(Relation::Sequence(Arc::clone(sequence)));
                    }
                }
            }
            at += 1;
        }
        Ok(())
    }

    /// Adds the views, defaults and constraints whose texts name a relation or a routine.
    fn follow_uses(&self, doomed: &mut DroppedObjects, oid: u32, what: &str) {
        for view in self.state.views() {
            if view.uses.contains(&oid) && !doomed.has(view.oid) {
                let view = Relation::View(Arc::clone(view));
                let name = format!("view {}", self.shown(&view));
                doomed.depends(name, what);
                doomed.add(view);
            }
        }
        for table in self.state.tables().filter(|table| !doomed.has(table.oid)).cloned().collect::<Vec<_>>() {
            self.follow_into(doomed, &table, oid, what);
        }
    }

    /// Adds the functions that return rows of a relation.
    fn follow_rows(&self, doomed: &mut DroppedObjects, gone: &Relation) {
        let of_rows = RoutineResult::Relation(gone.oid());
        for routine in self.state.routines().filter(|routine| routine.result == of_rows) {
            if !doomed.has(routine.oid) {
                let name = format!("function {}", self.shown_routine(routine));
                doomed.depends(name, &format!("type {}", self.shown(gone)));
                doomed.add_routine(Arc::clone(routine));
            }
        }
    }

    /// Adds the defaults and constraints of a table that depend on a relation or a routine.
    fn follow_into(&self, doomed: &mut DroppedObjects, table: &Arc<TableInfo>, oid: u32, what: &str) {
        let on = || self.shown(&Relation::Table(Arc::clone(table)));
        for column in &table.columns {
            let place = (table.oid, column.number);
            if column.default.as_ref().is_some_and(|default| default.uses.contains(&oid))
                && !doomed.columns.contains(&place)
                && !doomed.defaults.contains(&place)
            {
                doomed.depends(format!("default value for column {} of table {}", column.name, on()), what);
                doomed.defaults.push(place);
            }
        }
        for constraint in &table.constraints {
            let uses = match &constraint.what {
                ConstraintKind::ForeignKey(key) => key.parent == oid,
                ConstraintKind::Check(check) => check.uses.contains(&oid),
                ConstraintKind::PrimaryKey { .. } | ConstraintKind::Unique { .. } => false,
            };
            if uses && !doomed.constraints.contains(&(table.oid, constraint.oid)) {
                doomed.depends(format!("constraint {} on table {}", constraint.name, on()), what);
                doomed.constraints.push((table.oid, constraint.oid));
            }
        }
    }

    /// Takes the locks that [`Ddl::carry_out`] needs.
    fn lock_doomed(&mut self, doomed: &DroppedObjects) -> SqlResult<()> {
        let changed = doomed.constraints.iter().map(|(table, _)| *table);
        let changed = changed.chain(doomed.defaults.iter().map(|(table, _)| *table));
        let mut tables: Vec<Arc<TableInfo>> =
            changed.filter_map(|oid| self.state.table_numbered(oid).cloned()).collect();
        let mut engine_tables = Vec::new();
        for relation in &doomed.relations {
            match relation {
                Relation::Table(table) | Relation::Index { table, .. } => tables.push(Arc::clone(table)),
                Relation::Sequence(sequence) => engine_tables.push(Arc::clone(&sequence.shared.lock)),
                Relation::View(_) => {}
            }
        }
        for table in tables {
            refuse_adopted(&table)?;
            self.check_current(&table)?;
            engine_tables.push(Arc::clone(&table.table));
        }
        self.lock_all(&engine_tables, TableLock::AccessExclusive)
    }

    pub(super) fn carry_out(&mut self, doomed: DroppedObjects) -> SqlResult<()> {
        self.lock_doomed(&doomed)?;
        for (table, constraint) in doomed.constraints {
            let Some(table) = self.state.table_numbered(table) else { continue };
            let mut without = table.copy();
            without.constraints.retain(|one| one.oid != constraint);
            self.replace_table(without)?;
        }
        for (table, number) in doomed.defaults {
            let Some(table) = self.state.table_numbered(table) else { continue };
            let mut without = table.copy();
            without
                .columns
                .iter_mut()
                .filter(|column| column.number == number)
                .for_each(|column| column.default = None);
            self.replace_table(without)?;
        }
        for relation in doomed.relations {
            if let Relation::Index { table, position } = &relation {
                self.drop_index(table.oid, table.indexes[*position].oid)?;
            } else {
                self.state.remove(relation.oid());
            }
            self.state.forget(relation.oid());
        }
        for routine in doomed.routines {
            self.state.remove_routine(routine.oid);
            self.state.forget(routine.oid);
        }
        Ok(())
    }

    fn drop_schemas(&mut self, names: &[ObjectName], if_exists: bool, cascade: bool) -> SqlResult<DdlResult> {
        let missing = names.iter().map(ToString::to_string).find(|name| self.state.schema(name).is_none());
        if let Some(name) = missing.filter(|_| !if_exists) {
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist")));
        }
        for name in names {
            let name = name.to_string();
            let Some(schema) = self.state.schema(&name).cloned() else {
                let message = format!("schema \"{name}\" does not exist, skipping");
                self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
                continue;
            };
            self.check_schema_owner(&schema)?;
            // Owned sequences and indexes are dropped with their tables, so only the rest counts as the schema's
            // content.
            let inside = |relation: &&Relation| {
                let is_own = match relation {
                    Relation::Sequence(sequence) => sequence.owned_by.is_none(),
                    Relation::Index { .. } => false,
                    Relation::Table(_) | Relation::View(_) => true,
                };
                is_own && relation.schema() == schema.oid
            };
            let mut relations: Vec<Relation> = self.state.relations().filter(inside).cloned().collect();
            relations.sort_by_key(Relation::oid);
            let mut own: Vec<(u32, String)> =
                relations.iter().map(|one| (one.oid(), format!("{} {}", one.word(), self.shown(one)))).collect();
            let mut doomed = DroppedObjects::default();
            relations.into_iter().for_each(|relation| doomed.add(relation));
            for routine in self.state.routines().filter(|routine| routine.schema == schema.oid) {
                own.push((routine.oid, format!("function {}", self.shown_routine(routine))));
                doomed.add_routine(Arc::clone(routine));
            }
            own.sort();
            let own: Vec<String> = own.into_iter().map(|(_, name)| name).collect();
            self.follow(&mut doomed)?;
            if !cascade && !own.is_empty() {
                let message = format!("cannot drop schema {} because other objects depend on it", schema.name);
                let lines: Vec<String> = own
                    .iter()
                    .map(|one| format!("{one} depends on schema {}", schema.name))
                    .chain(doomed.dependents)
                    .collect();
                return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                    .detail(lines.join("\n"))
                    .hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            doomed.cascaded.splice(0..0, own);
            self.say(&doomed);
            self.carry_out(doomed)?;
            self.state.remove_schema(&schema.name);
            self.state.forget(schema.oid);
        }
        Ok("DROP SCHEMA".into())
    }
}
