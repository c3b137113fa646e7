//! Changes of existing identity columns: `SET GENERATED`, `SET` and `RESTART` of their sequences, `DROP IDENTITY`.

use super::Ddl;
use super::columns::TableDraft;
use super::sequence::{SequenceOptions, SequenceStatement};
use catalog::{IdentityColumn, Relation};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::ast::{ObjectName, SequenceOption};

impl Ddl<'_> {
    /// Executes `DROP IDENTITY`.
    pub(super) fn drop_identity(&mut self, draft: &mut TableDraft, at: usize, if_exists: bool) -> SqlResult<()> {
        let column = &mut draft.columns[at];
        if let Some(IdentityColumn { sequence, .. }) = column.identity.take() {
            self.state.remove(sequence);
            self.state.forget(sequence);
            return Ok(());
        }
        let error = not_identity(&draft.name, &column.name);
        if !if_exists {
            return Err(error);
        }
        self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("{}, skipping", error.message()));
        Ok(())
    }

    /// Executes `SET GENERATED`, `SET option` and `RESTART`. `generated` is true for `ALWAYS`.
    pub(super) fn set_identity(
        &mut self,
        draft: &mut TableDraft,
        at: usize,
        generated: &[bool],
        options: &[SequenceOption],
    ) -> SqlResult<()> {
        let column = &mut draft.columns[at];
        let always = match generated {
            [] => None,
            [always] => Some(*always),
            _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options")),
        };
        let Some(identity) = &mut column.identity else { return Err(not_identity(&draft.name, &column.name)) };
        identity.always = always.unwrap_or(identity.always);
        let identity = *identity;
        let options = SequenceOptions::of(&self.binder(), options, SequenceStatement::Alter)?;
        if !options.say_numbers() {
            return Ok(());
        }
        let sequence = self.sequence_of(identity)?;
        let changed = self.renumbered(&sequence, sequence.kind, &options)?;
        self.state.replace(Relation::Sequence(Arc::new(changed)))
    }
}

impl Ddl<'_> {
    /// Gives the new sequence of an identity the name that the statement specifies.
    pub(super) fn name_sequence(&mut self, sequence: u32, draft: &TableDraft, name: &ObjectName) -> SqlResult<()> {
        let (schema, name) = match &name.parts[..] {
            [name] => (draft.schema, name),
            [schema, name] => {
                let found = self.state.schema(schema).ok_or_else(|| {
                    let message = format!("schema \"{schema}\" does not exist");
                    SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
                })?;
                (found.oid, name)
            }
            _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "improper qualified name of a sequence")),
        };
        let Some(Relation::Sequence(own)) = self.state.relation_numbered(sequence).cloned() else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "an identity has no sequence"));
        };
        if (own.schema, &*own.name) == (schema, &**name) {
            return Ok(());
        }
        let is_beside = schema == draft.schema;
        if if is_beside { self.is_taken_beside(draft, name) } else { self.is_taken(schema, name) } {
            let message = format!("relation \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        let named = catalog::Sequence { schema, name: name.to_string(), ..own.next_version() };
        self.state.replace(Relation::Sequence(Arc::new(named)))
    }
}

fn not_identity(table: &str, column: &str) -> SqlError {
    let message = format!("column \"{column}\" of relation \"{table}\" is not an identity column");
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}
