//! `ALTER … OWNER TO`.

use super::{Ddl, DdlResult, altering};
use catalog::{Relation, Schema, Sequence, TableInfo, ViewInfo};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::ast::{ObjectKind, ObjectName, OwnerCommand, RoleName};

impl Ddl<'_> {
    pub(super) fn change_owner(&mut self, command: &OwnerCommand) -> SqlResult<DdlResult> {
        let OwnerCommand { kind, name, owner, if_exists } = command;
        if *kind == ObjectKind::Schema {
            self.own_schema(name, owner)?;
        } else if let Some(relation) = self.altered(*kind, name, *if_exists)? {
            self.set_owner(&relation, owner)?;
        }
        Ok(altering(*kind).into())
    }

    fn own_schema(&mut self, name: &ObjectName, owner: &RoleName) -> SqlResult<()> {
        let name = name.to_string();
        let Some(schema) = self.state.schema(&name).cloned() else {
            let message = format!("schema \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
        };
        let owner = self.owner(owner)?;
        self.state.put_schema(Schema { owner, ..schema });
        Ok(())
    }

    /// Returns the name of an existing role.
    pub(super) fn owner(&self, to: &RoleName) -> SqlResult<String> {
        let name = match to {
            RoleName::Named(name) => &**name,
            RoleName::CurrentRole | RoleName::CurrentUser | RoleName::SessionUser => return Ok(self.user()),
            // No role has this name.
            RoleName::Public => "public",
        };
        let roles = self.run.env.catalog_snapshot.as_ref().map(|snapshot| &snapshot.roles);
        if roles.is_some_and(|roles| roles.get(name).is_none()) {
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist")));
        }
        Ok(name.to_owned())
    }

    /// Gives the sequences of a table's columns the owner of the table.
    pub(super) fn own_sequences(&mut self, table: &TableInfo) -> SqlResult<()> {
        let is_own = |one: &&Arc<Sequence>| one.owned_by.is_some_and(|(of, _)| of == table.oid);
        let sequences: Vec<Arc<Sequence>> = self.state.sequences().filter(is_own).cloned().collect();
        for sequence in sequences {
            let owned = Sequence { owner: table.owner.clone(), ..sequence.next_version() };
            self.state.replace(Relation::Sequence(Arc::new(owned)))?;
        }
        Ok(())
    }

    /// Changes the owner of a relation that is not a table.
    pub(super) fn set_owner(&mut self, relation: &Relation, to: &RoleName) -> SqlResult<()> {
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
}
