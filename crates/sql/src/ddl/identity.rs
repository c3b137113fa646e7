//! Identities of columns that are there: `SET GENERATED`, `SET` and `RESTART` of their sequences, `DROP IDENTITY`.

use super::Ddl;
use super::columns::Draft;
use catalog::{Identity, Relation};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::parse::alters::ColumnChange;

impl Ddl<'_> {
    pub(super) fn change_column(&mut self, draft: &mut Draft, at: usize, change: ColumnChange) -> SqlResult<()> {
        let column = &mut draft.columns[at];
        let (always, options, restart) = match change {
            ColumnChange::SequenceName(name) => {
                let identity = column.identity;
                let Some(identity) = identity else { return Err(not_identity(&draft.name, &column.name)) };
                return self.name_sequence(identity.sequence, draft, &name);
            }
            ColumnChange::Options => {
                self.notice(SqlState("01000"), "storage parameters are ignored".to_owned());
                return Ok(());
            }
            ColumnChange::DropIdentity { if_exists } => {
                if let Some(Identity { sequence, .. }) = column.identity.take() {
                    self.state.remove(sequence);
                    self.state.forget(sequence);
                    return Ok(());
                }
                let error = not_identity(&draft.name, &column.name);
                if !if_exists {
                    return Err(error);
                }
                self.notice(SqlState("00000"), format!("{}, skipping", error.message()));
                return Ok(());
            }
            ColumnChange::Identity { always, options, restart } => (always, options, restart),
        };
        let Some(identity) = &mut column.identity else { return Err(not_identity(&draft.name, &column.name)) };
        identity.always = always.unwrap_or(identity.always);
        if options.is_empty() && restart.is_none() {
            return Ok(());
        }
        let sequence = self.sequence_of(*identity)?;
        let changed = self.renumbered(&sequence, sequence.kind, &options, restart)?;
        self.state.replace(Relation::Sequence(Arc::new(changed)))
    }
}

impl Ddl<'_> {
    /// Gives the sequence of an identity, which was just made, the name that the statement says.
    pub(super) fn name_sequence(&mut self, sequence: u32, draft: &Draft, name: &[String]) -> SqlResult<()> {
        let (schema, name) = match name {
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
        if (own.schema, &own.name) == (schema, name) {
            return Ok(());
        }
        let is_beside = schema == draft.schema;
        if if is_beside { self.is_taken_beside(draft, name) } else { self.is_taken(schema, name) } {
            let message = format!("relation \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        let named = catalog::Sequence { schema, name: name.clone(), ..own.next_version() };
        self.state.replace(Relation::Sequence(Arc::new(named)))
    }
}

fn not_identity(table: &str, column: &str) -> SqlError {
    let message = format!("column \"{column}\" of relation \"{table}\" is not an identity column");
    SqlError::new(SqlState("55000"), message)
}
