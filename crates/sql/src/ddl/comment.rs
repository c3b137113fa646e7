//! `COMMENT ON`.

use super::{Ddl, DdlResult, words_of};
use catalog::Relation;
use statement::error::{SqlError, SqlResult, SqlState};
use syntax::ast::{CommentCommand, ObjectKind, ObjectName};

impl Ddl<'_> {
    pub(super) fn comment(&mut self, comment: &CommentCommand) -> SqlResult<DdlResult> {
        let CommentCommand { kind, name, table, text } = comment;
        let (oid, column) = match (kind, table) {
            (ObjectKind::Constraint, Some(table)) => (self.commented_constraint(name, table)?, 0),
            (ObjectKind::Table | ObjectKind::View | ObjectKind::Index | ObjectKind::Sequence, _) => {
                (self.commented_relation(*kind, name)?, 0)
            }
            (ObjectKind::Column, _) => self.commented_column(name)?,
            (ObjectKind::Schema, _) => {
                let name = name.to_string();
                let schema = self.state.schema(&name).ok_or_else(|| {
                    let message = format!("schema \"{name}\" does not exist");
                    SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
                })?;
                self.check_schema_owner(schema)?;
                (schema.oid, 0)
            }
            (ObjectKind::Constraint | ObjectKind::Database | ObjectKind::Role, _) => {
                let words = words_of(*kind).to_uppercase();
                return Err(SqlError::unsupported(format_args!("COMMENT ON {words}")));
            }
        };
        // An empty comment removes the comment.
        let text = text.as_deref().filter(|text| !text.is_empty());
        self.state.set_comment(oid, column, text);
        Ok("COMMENT".into())
    }

    fn commented_relation(&self, kind: ObjectKind, name: &ObjectName) -> SqlResult<u32> {
        let binder = self.binder();
        let relation = binder.relation_named(name)?;
        self.check_owner(relation)?;
        let wanted = words_of(kind);
        if relation.word() != wanted {
            let article = if wanted == "index" { "an" } else { "a" };
            let message = format!("\"{}\" is not {article} {wanted}", relation.name());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Ok(relation.oid())
    }

    fn commented_constraint(&self, name: &ObjectName, table: &ObjectName) -> SqlResult<u32> {
        let (name, table) = (name.to_string(), self.binder().table(table)?);
        self.check_owner_of_part(&Relation::Table(std::sync::Arc::clone(&table)))?;
        let found = table.constraints.iter().find(|one| one.name == name).ok_or_else(|| {
            let message = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })?;
        Ok(found.oid)
    }

    /// Returns the OID of a column's relation, and the column's number.
    fn commented_column(&self, name: &ObjectName) -> SqlResult<(u32, i16)> {
        let [of @ .., column] = &name.parts[..] else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
        };
        if of.is_empty() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
        }
        let binder = self.binder();
        let relation = binder.relation_named(&ObjectName { parts: of.to_vec() })?;
        self.check_owner_of_part(relation)?;
        let number = match relation {
            Relation::Table(table) => table.column(column).map(|at| table.columns[at].number),
            Relation::View(view) => {
                view.columns.iter().position(|(name, _)| **name == **column).map(|at| at as i16 + 1)
            }
            Relation::Sequence(_) | Relation::Index { .. } => None,
        };
        let number = number.ok_or_else(|| {
            let message = format!("column \"{column}\" of relation \"{}\" does not exist", relation.name());
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        Ok((relation.oid(), number))
    }
}
