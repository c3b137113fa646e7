//! `DROP`.
//!
//! **Invariant:** what depends on something goes with it, or keeps it.

use super::{Ddl, Defined, verb};
use crate::bind::refuse;
use crate::catalog::{ConstraintKind, Relation};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::forms;
use engine::TableLock;
use sqlparser::ast::{self, ObjectType, Statement};
use std::sync::Arc;

/// What is to go, in the order in which it was found.
#[derive(Default)]
pub(super) struct Doomed {
    pub(super) relations: Vec<Relation>,
    /// Table, constraint.
    pub(super) references: Vec<(u32, u32)>,
    /// Sentences for the error: `view v depends on table t`.
    pub(super) dependents: Vec<String>,
    /// Words for the notice: `view v`.
    pub(super) cascaded: Vec<String>,
}

impl Doomed {
    fn has(&self, oid: u32) -> bool {
        self.relations.iter().any(|relation| relation.oid() == oid)
    }
}

impl Ddl<'_> {
    pub(super) fn drop_objects(&mut self, statement: &Statement) -> SqlResult<Defined> {
        let Statement::Drop {
            object_type,
            if_exists,
            names,
            cascade,
            restrict: _,
            purge: false,
            temporary: false,
            table: None,
        } = statement
        else {
            return Err(SqlError::unsupported("this DROP"));
        };
        let tag = verb(statement);
        let is_concurrent = forms::is_concurrent(names);
        let names = if is_concurrent { &names[1..] } else { &names[..] };
        if is_concurrent && 1 < names.len() {
            let message = "DROP INDEX CONCURRENTLY does not support dropping multiple objects";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if is_concurrent && *cascade {
            let message = "DROP INDEX CONCURRENTLY does not support CASCADE";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if *object_type == ObjectType::Schema {
            return self.drop_schemas(names, *if_exists, *cascade);
        }
        let word = match object_type {
            ObjectType::Table => "table",
            ObjectType::View => "view",
            ObjectType::Index => "index",
            ObjectType::Sequence => "sequence",
            other => return Err(SqlError::unsupported(format_args!("DROP {other}"))),
        };
        let mut doomed = Doomed::default();
        for name in names {
            let binder = self.binder();
            let qualified = binder.qualified(name)?;
            let Some(relation) = binder.find(&qualified).cloned() else {
                let schema_is_there =
                    qualified.schema.as_ref().is_none_or(|schema| self.state.schema(schema).is_some());
                let message = match &qualified.schema {
                    Some(schema) if !schema_is_there => format!("schema \"{schema}\" does not exist"),
                    // PostgreSQL says the name without the schema here.
                    _ if word == "table" || word == "view" || word == "sequence" || word == "index" => {
                        format!("{word} \"{}\" does not exist", qualified.name)
                    }
                    _ => format!("relation \"{}\" does not exist", qualified.name),
                };
                let state = match (schema_is_there, word) {
                    (false, _) => SqlState::INVALID_SCHEMA_NAME,
                    (true, "index") => SqlState::UNDEFINED_OBJECT,
                    (true, _) => SqlState::UNDEFINED_TABLE,
                };
                if !if_exists {
                    return Err(SqlError::new(state, message));
                }
                self.notice(SqlState("00000"), format!("{message}, skipping"));
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
            if let Relation::Index { table, position } = &relation {
                self.refuse_key(table, *position)?;
            }
            doomed.relations.push(relation);
        }
        let asked = doomed.relations.len();
        self.follow(&mut doomed);
        if !cascade && !doomed.dependents.is_empty() {
            let first = &doomed.relations[0];
            let message = match &doomed.relations[..asked] {
                [one] => format!("cannot drop {} {} because other objects depend on it", one.word(), self.shown(one)),
                _ => "cannot drop desired object(s) because other objects depend on them".to_owned(),
            };
            debug_assert!(!first.name().is_empty());
            return Err(SqlError::new(SqlState("2BP01"), message)
                .detail(doomed.dependents.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        self.say(&doomed);
        self.carry_out(doomed)?;
        Ok(tag.into())
    }

    pub(super) fn say(&mut self, doomed: &Doomed) {
        match &doomed.cascaded[..] {
            [] => {}
            [one] => self.notice(SqlState("00000"), format!("drop cascades to {one}")),
            many => {
                let message = format!("drop cascades to {} other objects", many.len());
                let lines: Vec<String> = many.iter().map(|one| format!("drop cascades to {one}")).collect();
                let error = SqlError::new(SqlState("00000"), message).detail(lines.join("\n"));
                self.made.notices.push(("NOTICE", error));
            }
        }
    }

    fn refuse_key(&self, table: &crate::catalog::TableInfo, position: usize) -> SqlResult<()> {
        for constraint in &table.constraints {
            if let ConstraintKind::PrimaryKey { index } | ConstraintKind::Unique { index } = constraint.what
                && index == position
            {
                let (index, name) = (&table.indexes[position].name, &constraint.name);
                let message =
                    format!("cannot drop index {index} because constraint {name} on table {} requires it", table.name);
                return Err(SqlError::new(SqlState("2BP01"), message)
                    .hint(format!("You can drop constraint {name} on table {} instead.", table.name)));
            }
        }
        Ok(())
    }

    /// Adds what depends on what is to go.
    pub(super) fn follow(&self, doomed: &mut Doomed) {
        let mut at = 0;
        while at < doomed.relations.len() {
            let gone = doomed.relations[at].clone();
            let what = format!("{} {}", gone.word(), self.shown(&gone));
            for view in self.state.views() {
                if view.uses.contains(&gone.oid()) && !doomed.has(view.oid) {
                    let view = Relation::View(Arc::clone(view));
                    let name = format!("view {}", self.shown(&view));
                    doomed.dependents.push(format!("{name} depends on {what}"));
                    doomed.cascaded.push(name);
                    doomed.relations.push(view);
                }
            }
            if let Relation::Table(table) = &gone {
                for child in self.state.referencing(table.oid) {
                    if doomed.has(child.oid) {
                        continue;
                    }
                    for (constraint, key) in child.foreign_keys().filter(|(_, key)| key.parent == table.oid) {
                        if doomed.references.contains(&(child.oid, constraint.oid)) {
                            continue;
                        }
                        let _ = key;
                        let on = self.shown(&Relation::Table(Arc::clone(child)));
                        let name = format!("constraint {} on table {on}", constraint.name);
                        doomed.dependents.push(format!("{name} depends on {what}"));
                        doomed.cascaded.push(name);
                        doomed.references.push((child.oid, constraint.oid));
                    }
                }
                // Sequences of its own go without a word.
                for sequence in self.state.sequences() {
                    if sequence.owned_by.is_some_and(|(of, _)| of == table.oid) && !doomed.has(sequence.oid) {
                        doomed.relations.push(Relation::Sequence(Arc::clone(sequence)));
                    }
                }
            }
            if let Relation::Sequence(sequence) = &gone {
                let left: Vec<_> = self.state.tables().filter(|table| !doomed.has(table.oid)).collect();
                for table in left {
                    for column in &table.columns {
                        let owns = sequence.owned_by == Some((table.oid, column.number));
                        let uses = column
                            .default
                            .as_ref()
                            .is_some_and(|default| names_sequence(&default.tree, &sequence.name));
                        if owns || uses {
                            let on = self.shown(&Relation::Table(Arc::clone(table)));
                            let name = format!("default value for column {} of table {on}", column.name);
                            doomed.dependents.push(format!("{name} depends on {what}"));
                            doomed.cascaded.push(name);
                        }
                    }
                }
            }
            at += 1;
        }
    }

    pub(super) fn carry_out(&mut self, doomed: Doomed) -> SqlResult<()> {
        for (child, constraint) in doomed.references {
            let Some(table) = self.state.table_numbered(child).cloned() else { continue };
            self.lock(&table, TableLock::AccessExclusive)?;
            let mut without = table.copy();
            without.constraints.retain(|one| one.oid != constraint);
            self.replace_table(without)?;
        }
        for relation in doomed.relations {
            match &relation {
                Relation::Table(table) => self.lock(table, TableLock::AccessExclusive)?,
                Relation::Index { table, position } => {
                    let oid = table.indexes[*position].oid;
                    self.drop_index(table.oid, oid)?;
                    self.state.forget(oid);
                    continue;
                }
                Relation::Sequence(sequence) => {
                    self.lock_engine_table(&sequence.shared.lock, TableLock::AccessExclusive)?;
                    self.forget_defaults(sequence)?;
                }
                Relation::View(_) => {}
            }
            self.state.remove(relation.oid());
            self.state.forget(relation.oid());
        }
        Ok(())
    }

    /// Defaults that take from a sequence go with it.
    fn forget_defaults(&mut self, sequence: &crate::catalog::Sequence) -> SqlResult<()> {
        let tables: Vec<_> = self.state.tables().cloned().collect();
        for table in tables {
            let uses = |column: &crate::catalog::ColumnDef| {
                column.identity.is_some_and(|identity| identity.sequence == sequence.oid)
                    || column.default.as_ref().is_some_and(|default| names_sequence(&default.tree, &sequence.name))
            };
            if !table.columns.iter().any(uses) {
                continue;
            }
            let mut without = table.copy();
            for column in without.columns.iter_mut().filter(|column| uses(column)) {
                column.default = None;
                column.identity = None;
            }
            self.replace_table(without)?;
        }
        Ok(())
    }

    fn drop_schemas(&mut self, names: &[ast::ObjectName], if_exists: bool, cascade: bool) -> SqlResult<Defined> {
        for name in names {
            let parts = self.binder().name_parts(name)?;
            refuse!(parts.len() != 1 => "a schema of another database");
            let Some(schema) = self.state.schema(&parts[0]).cloned() else {
                let message = format!("schema \"{}\" does not exist", parts[0]);
                if !if_exists {
                    return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
                }
                self.notice(SqlState("00000"), format!("{message}, skipping"));
                continue;
            };
            let inside = |relation: &&Relation| {
                let is_own = match relation {
                    Relation::Sequence(sequence) => sequence.owned_by.is_none(),
                    Relation::Index { .. } => false,
                    Relation::Table(_) | Relation::View(_) => true,
                };
                is_own && relation.schema() == schema.oid
            };
            let mut doomed =
                Doomed { relations: self.state.relations().filter(inside).cloned().collect(), ..Doomed::default() };
            doomed.relations.sort_by_key(Relation::oid);
            let own: Vec<String> =
                doomed.relations.iter().map(|one| format!("{} {}", one.word(), self.shown(one))).collect();
            self.follow(&mut doomed);
            if !cascade && !own.is_empty() {
                let message = format!("cannot drop schema {} because other objects depend on it", schema.name);
                let lines: Vec<String> = own
                    .iter()
                    .map(|one| format!("{one} depends on schema {}", schema.name))
                    .chain(doomed.dependents)
                    .collect();
                return Err(SqlError::new(SqlState("2BP01"), message)
                    .detail(lines.join("\n"))
                    .hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            doomed.cascaded.splice(0..0, own);
            self.say(&doomed);
            self.carry_out(doomed)?;
            self.state.remove_schema(&schema.name);
        }
        Ok("DROP SCHEMA".into())
    }
}

/// Whether a default is the next value of the sequence of this name.
pub(super) fn names_sequence(default: &ast::Expr, name: &str) -> bool {
    let text = default.to_string();
    let Some(argument) = text.strip_prefix("nextval('") else { return false };
    let quoted = ast::Ident::with_quote('"', name).to_string();
    let named = argument.split('\'').next().unwrap_or("");
    named == name || named == quoted || named.ends_with(&format!(".{name}")) || named.ends_with(&format!(".{quoted}"))
}
