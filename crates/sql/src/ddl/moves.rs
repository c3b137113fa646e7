//! `SET SCHEMA`: moves a relation into another schema, with everything that belongs to it.

use super::grant::no_schema;
use super::renames::RenamedObject;
use super::{Ddl, DdlResult, altering};
use catalog::{Relation, Sequence, TableInfo, ViewInfo};
use engine::TableLock;
use query::bind::NameTarget;
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::ast::SetSchemaCommand;

impl Ddl<'_> {
    pub(super) fn move_relation(&mut self, set: &SetSchemaCommand) -> SqlResult<DdlResult> {
        let SetSchemaCommand { kind, name, schema, if_exists } = set;
        if let Some(relation) = self.altered(*kind, name, *if_exists)? {
            self.set_schema(&relation, schema)?;
        }
        Ok(altering(*kind).into())
    }

    /// Returns the OID of the schema to which an object is to be moved.
    ///
    /// # Errors
    /// `3F000`; `42501`; `0A000` for the schemas of temporary objects and of the system.
    pub(super) fn schema_to_move_to(&self, name: &str) -> SqlResult<u32> {
        if name == "pg_temp" {
            let message = "cannot move objects into or out of temporary schemas";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if catalog::system::is_schema(name) {
            return Err(SqlError::unsupported(format_args!("to move objects into schema {name}")));
        }
        let schema = self.state.schema(name).ok_or_else(|| no_schema(name))?;
        self.check_create(schema)?;
        Ok(schema.oid)
    }

    fn set_schema(&mut self, relation: &Relation, name: &str) -> SqlResult<()> {
        let schema = self.schema_to_move_to(name)?;
        if let Relation::Sequence(sequence) = relation
            && let Some(table) = sequence.owned_by.and_then(|(table, _)| self.state.table_numbered(table))
        {
            let message = "cannot move an owned sequence into another schema";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .detail(format!("Sequence \"{}\" is linked to table \"{}\".", sequence.name, table.name)));
        }
        if relation.schema() == schema {
            return Ok(());
        }
        let renamed =
            RenamedObject { what: NameTarget::Relation(relation.oid()), to: relation.name(), schema: Some(name) };
        let views = self.renamed(relation.oid(), &renamed)?;
        match relation {
            Relation::Table(table) => self.move_table(table, schema, name)?,
            Relation::View(view) => {
                self.check_free(schema, name, &view.name)?;
                let moved = ViewInfo { schema, ..(**view).clone() };
                self.state.replace(Relation::View(Arc::new(moved)))?;
            }
            Relation::Sequence(sequence) => {
                self.check_free(schema, name, &sequence.name)?;
                let moved = Sequence { schema, ..sequence.next_version() };
                self.state.replace(Relation::Sequence(Arc::new(moved)))?;
            }
            Relation::Index { .. } => {
                let message = format!("\"{}\" is not a table, view, or sequence", relation.name());
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        }
        self.put_renamed(views, &format!("rename a {}", relation.word()))
    }

    fn check_free(&self, schema: u32, schema_name: &str, name: &str) -> SqlResult<()> {
        if !self.is_taken(schema, name) {
            return Ok(());
        }
        let message = format!("relation \"{name}\" already exists in schema \"{schema_name}\"");
        Err(SqlError::new(SqlState::DUPLICATE_TABLE, message))
    }

    /// Moves a table with its indexes and the sequences that it owns.
    fn move_table(&mut self, table: &Arc<TableInfo>, schema: u32, schema_name: &str) -> SqlResult<()> {
        self.lock(table, TableLock::AccessExclusive)?;
        let sequences: Vec<Arc<Sequence>> =
            self.state.sequences().filter(|one| one.owned_by.is_some_and(|(of, _)| of == table.oid)).cloned().collect();
        let own = [&*table.name].into_iter().chain(table.indexes.iter().map(|index| &*index.name));
        for name in own.chain(sequences.iter().map(|sequence| &*sequence.name)) {
            self.check_free(schema, schema_name, name)?;
        }
        let mut moved = table.copy();
        moved.schema = schema;
        for sequence in sequences {
            let sequence = Sequence { schema, ..sequence.next_version() };
            self.state.replace(Relation::Sequence(Arc::new(sequence)))?;
        }
        self.replace_table(moved)?;
        Ok(())
    }
}
