//! `DROP OWNED`, `REASSIGN OWNED`, and the objects that keep a role from being dropped.

use super::columns::TableDraft;
use super::drop::DroppedObjects;
use super::{Ddl, DdlResult};
use catalog::acl::{AclKind, Securable};
use catalog::{CatalogSnapshot, CatalogState, DATABASE, DATABASE_OID, OWNER, Relation};
use engine::TableLock;
use settings::roles::is_predefined;
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::ast::{DropOwned, ReassignOwned};

impl Ddl<'_> {
    pub(super) fn drop_owned(&mut self, command: &DropOwned) -> SqlResult<DdlResult> {
        let DropOwned { roles, is_cascading } = command;
        let roles = roles.iter().map(|role| self.role(role)).collect::<SqlResult<Vec<_>>>()?;
        for role in &roles {
            self.check_has_rights_of(*role, "drop")?;
        }
        for role in roles {
            self.check_not_pinned(role, "drop objects owned by")?;
            self.drop_all_owned(role, *is_cascading)?;
            self.forget_rights_of(role);
        }
        Ok("DROP OWNED".into())
    }

    fn drop_all_owned(&mut self, role: u32, cascades: bool) -> SqlResult<()> {
        let mut doomed = DroppedObjects::default();
        let mut owned: Vec<Relation> = self.owned_relations(role);
        owned.sort_by_key(Relation::oid);
        owned.into_iter().for_each(|relation| doomed.add(relation));
        let routines: Vec<_> = self.state.routines().filter(|one| one.owner == role).cloned().collect();
        routines.into_iter().for_each(|routine| doomed.add_routine(routine));
        let modules: Vec<_> = self.state.modules().filter(|module| module.owner == role).cloned().collect();
        for module in &modules {
            self.add_users(module, role, &mut doomed);
        }
        let schemas: Vec<_> = self.state.schemas().filter(|schema| schema.owner == role).cloned().collect();
        for schema in &schemas {
            let inside: Vec<Relation> =
                self.state.relations().filter(|relation| relation.schema() == schema.oid).cloned().collect();
            let routines: Vec<_> = self.state.routines().filter(|one| one.schema == schema.oid).cloned().collect();
            for routine in routines {
                if routine.owner != role && !cascades {
                    let shown = format!("function {}", self.shown_routine(&routine));
                    doomed.depends(shown, &format!("schema {}", schema.name));
                }
                doomed.add_routine(routine);
            }
            for relation in inside {
                let is_left = !matches!(relation, Relation::Index { .. }) && relation.owner() != role;
                if is_left && !cascades {
                    doomed.depends(
                        format!("{} {}", relation.word(), self.shown(&relation)),
                        &format!("schema {}", schema.name),
                    );
                }
                if is_left {
                    doomed.add(relation);
                }
            }
        }
        self.follow(&mut doomed)?;
        if !cascades && !doomed.dependents.is_empty() {
            let message = "cannot drop desired object(s) because other objects depend on them";
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .detail(doomed.dependents.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        self.say(&doomed);
        self.carry_out(doomed)?;
        modules.iter().for_each(|module| self.state.remove_module(&module.name));
        for schema in schemas {
            self.state.remove_schema(&schema.name);
            self.state.forget(schema.oid);
        }
        Ok(())
    }

    /// Returns the relations that a role owns; indexes and owned sequences belong to their tables.
    fn owned_relations(&self, role: u32) -> Vec<Relation> {
        let is_own = |relation: &&Relation| match relation {
            Relation::Index { .. } => false,
            Relation::Sequence(sequence) => sequence.owned_by.is_none() && sequence.owner == role,
            Relation::Table(_) | Relation::View(_) => relation.owner() == role,
        };
        self.state.relations().filter(is_own).cloned().collect()
    }

    /// Removes a role from all access control lists, and its default privileges.
    fn forget_rights_of(&mut self, role: u32) {
        let lists = self.state.acls().filter(|(.., list)| list.names(role));
        let owner = |oid| owner_of(&self.state, oid).unwrap_or(catalog::OWNER);
        let changed: Vec<_> = lists.map(|(oid, column, list)| (oid, column, list.without(role, owner(oid)))).collect();
        for (oid, column, list) in changed {
            let is_needed = column == 0 || !list.is_empty();
            self.state.set_acl(oid, column, is_needed.then_some(list));
        }
        let defaults: Vec<_> = self.state.default_rights().map(|(key, rights)| (*key, rights.clone())).collect();
        for (key, mut rights) in defaults {
            if key.0 == role {
                self.state.set_default_rights(key, None);
            } else if rights.list.names(role) {
                rights.list = rights.list.without(role, key.0);
                self.put_default_rights(key, rights);
            }
        }
    }

    pub(super) fn reassign_owned(&mut self, command: &ReassignOwned) -> SqlResult<DdlResult> {
        let ReassignOwned { roles, to } = command;
        let roles = roles.iter().map(|role| self.role(role)).collect::<SqlResult<Vec<_>>>()?;
        for role in &roles {
            self.check_has_rights_of(*role, "reassign")?;
        }
        let to = self.role(to)?;
        self.check_has_rights_of(to, "reassign")?;
        for role in roles {
            self.check_not_pinned(role, "reassign ownership of objects owned by")?;
            let schemas: Vec<_> = self.state.schemas().filter(|schema| schema.owner == role).cloned().collect();
            schemas.into_iter().for_each(|schema| self.give_schema(schema, to));
            let routines: Vec<_> = self.state.routines().filter(|one| one.owner == role).cloned().collect();
            for routine in routines {
                self.give_routine(&routine, to)?;
            }
            let modules: Vec<_> = self.state.modules().filter(|one| one.owner == role).cloned().collect();
            modules.iter().for_each(|module| self.give_module(module, to));
            for relation in self.owned_relations(role) {
                match &relation {
                    Relation::Table(table) => {
                        self.lock(table, TableLock::AccessExclusive)?;
                        let mut draft = TableDraft::of(table);
                        draft.owner = to;
                        let new = self.replace_table(draft.finish(Arc::clone(&table.table)))?;
                        self.own_relation_rights(new.oid, role, to);
                        self.own_sequences(&new)?;
                    }
                    Relation::View(_) | Relation::Sequence(_) | Relation::Index { .. } => {
                        self.give_relation(&relation, to)?;
                    }
                }
            }
        }
        Ok("REASSIGN OWNED".into())
    }

    fn check_has_rights_of(&self, role: u32, verb: &str) -> SqlResult<()> {
        if self.roles().is_none_or(|roles| roles.has_rights_of(self.user(), role)) {
            return Ok(());
        }
        let message = format!("permission denied to {verb} objects");
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    fn check_not_pinned(&self, role: u32, what: &str) -> SqlResult<()> {
        if role != OWNER && !is_predefined(role) {
            return Ok(());
        }
        let name = self.role_name(role);
        let message = format!("cannot {what} role {name} because they are required by the database system");
        Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message))
    }
}

/// Checks that nothing depends on a role that is dropped.
///
/// # Errors
/// `2BP01` with the objects that it owns, and those that it has been granted something on.
pub(crate) fn check_unused(state: &CatalogState, snapshot: &CatalogSnapshot, name: &str, role: u32) -> SqlResult<()> {
    let uses = uses_of(state, snapshot, role);
    if uses.is_empty() {
        return Ok(());
    }
    let message = format!("role \"{name}\" cannot be dropped because some objects depend on it");
    Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).detail(uses.join("\n")))
}

/// Returns what depends on a role, one line each, in the order of the objects' OIDs.
fn uses_of(state: &CatalogState, snapshot: &CatalogSnapshot, role: u32) -> Vec<String> {
    let mut lines: Vec<(u32, i16, String)> = Vec::new();
    for (oid, column, list) in state.acls() {
        let is_owner = owner_of(state, oid) == Some(role);
        if list.names(role) && !(is_owner && column == 0) {
            lines.extend(
                described(state, snapshot, oid, column).map(|of| (oid, column, format!("privileges for {of}"))),
            );
        }
    }
    let relations = state.relations().filter(|relation| !matches!(relation, Relation::Index { .. }));
    let owned = relations.map(|relation| (relation.oid(), relation.owner()));
    let routines = state.routines().map(|routine| (routine.oid, routine.owner));
    let modules = state.modules().map(|module| (module.oid, module.owner));
    let schemas = state.schemas().map(|schema| (schema.oid, schema.owner));
    for (oid, owner) in owned.chain(schemas).chain(routines).chain(modules) {
        if owner == role {
            lines.extend(described(state, snapshot, oid, 0).map(|of| (oid, 0, format!("owner of {of}"))));
        }
    }
    for ((of, schema, kind), rights) in state.default_rights() {
        let objects = match kind {
            AclKind::Table | AclKind::Column => "relations",
            AclKind::Sequence => "sequences",
            AclKind::Routine => "functions",
            AclKind::Type => "types",
            AclKind::Schema => "schemas",
            AclKind::Database | AclKind::Language => continue,
        };
        let verb = match (*of == role, rights.list.names(role)) {
            (true, _) => "owner of",
            (false, true) => "privileges for",
            (false, false) => continue,
        };
        let owner = snapshot.roles.name_of(*of).unwrap_or_default();
        let mut line = format!("{verb} default privileges on new {objects} belonging to role {owner}");
        if let Some(schema) = state.schema_numbered(*schema) {
            line.push_str(&format!(" in schema {}", schema.name));
        }
        lines.push((rights.oid, 0, line));
    }
    lines.sort();
    lines.into_iter().map(|(.., line)| line).collect()
}

fn owner_of(state: &CatalogState, oid: u32) -> Option<u32> {
    let relation = state.relation_numbered(oid).map(Securable::relation);
    let of = relation.or_else(|| state.schema_numbered(oid).map(catalog::Schema::securable));
    let of = of.or_else(|| state.routine_numbered(oid).map(|routine| routine.securable()));
    of.map(|of| of.owner)
}

/// Returns an object's description: `column v of table t`.
fn described(state: &CatalogState, snapshot: &CatalogSnapshot, oid: u32, column: i16) -> Option<String> {
    if oid == DATABASE_OID {
        return Some(format!("database {DATABASE}"));
    }
    if let Some(schema) = state.schema_numbered(oid) {
        return Some(format!("schema {}", schema.name));
    }
    if let Some(routine) = state.routine_numbered(oid) {
        let name = crate::system::shown_routine(state, &snapshot.path, routine);
        // PostgreSQL describes procedures so, too.
        return Some(format!("function {name}"));
    }
    if let Some(module) = state.modules().find(|module| module.oid == oid) {
        return Some(format!("module {}", module.name));
    }
    let (word, column) = match state.relation_numbered(oid) {
        None => ("table", None),
        Some(relation) => (relation.word(), column_name(relation, column)),
    };
    let relation = format!("{word} {}", crate::system::relation_shown(snapshot, oid)?);
    Some(column.map_or_else(|| relation.clone(), |column| format!("column {column} of {relation}")))
}

fn column_name(relation: &Relation, number: i16) -> Option<&str> {
    if number == 0 {
        return None;
    }
    match relation {
        Relation::Table(table) => table.column_numbered(number).map(|at| &*table.columns[at].name),
        Relation::View(view) => {
            let at = usize::try_from(number).ok()?.checked_sub(1)?;
            view.columns.get(at).map(|(name, _)| &**name)
        }
        Relation::Sequence(_) | Relation::Index { .. } => None,
    }
}
