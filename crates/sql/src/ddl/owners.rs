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
        self.check_schema_owner(&schema)?;
        let owner = self.role(owner)?;
        if owner != schema.owner {
            self.check_may_become(owner)?;
            self.check_create_schema()?;
        }
        self.give_schema(schema, owner);
        Ok(())
    }

    /// Makes a role the owner of a schema.
    pub(super) fn give_schema(&mut self, schema: Schema, owner: u32) {
        self.own_rights(schema.oid, &[], schema.owner, owner);
        self.state.put_schema(Schema { owner, ..schema });
    }

    /// Gives the sequences of a table's columns the owner of the table.
    pub(super) fn own_sequences(&mut self, table: &TableInfo) -> SqlResult<()> {
        let is_own = |one: &&Arc<Sequence>| one.owned_by.is_some_and(|(of, _)| of == table.oid);
        let sequences: Vec<Arc<Sequence>> = self.state.sequences().filter(is_own).cloned().collect();
        for sequence in sequences {
            self.own_relation_rights(sequence.oid, sequence.owner, table.owner);
            let owned = Sequence { owner: table.owner, ..sequence.next_version() };
            self.state.replace(Relation::Sequence(Arc::new(owned)))?;
        }
        Ok(())
    }

    /// Changes the owner of a relation that is not a table.
    pub(super) fn set_owner(&mut self, relation: &Relation, to: &RoleName) -> SqlResult<()> {
        let owner = self.role(to)?;
        self.check_new_owner(relation, owner)?;
        self.give_relation(relation, owner)
    }

    /// Makes a role the owner of a relation that is not a table.
    pub(super) fn give_relation(&mut self, relation: &Relation, owner: u32) -> SqlResult<()> {
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
        self.own_relation_rights(relation.oid(), relation.owner(), owner);
        self.state.replace(changed)
    }
}
