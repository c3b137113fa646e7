//! `COMMENT ON`.

use super::{Ddl, Defined};
use catalog::Relation;
use sqlparser::ast::{self, CommentObject};
use statement::error::{SqlError, SqlResult, SqlState};

impl Ddl<'_> {
    pub(super) fn comment(
        &mut self,
        object: &CommentObject,
        name: &ast::ObjectName,
        text: Option<&str>,
    ) -> SqlResult<Defined> {
        // An empty comment is none.
        let text = text.filter(|text| !text.is_empty());
        if let Some((constraint, table)) = syntax::parse::alters::constraint(name) {
            let table = self.binder().table(&table)?;
            let found = table.constraints.iter().find(|one| one.name == constraint).ok_or_else(|| {
                let message = format!("constraint \"{constraint}\" for table \"{}\" does not exist", table.name);
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            })?;
            self.state.set_comment(found.oid, 0, text);
            return Ok("COMMENT".into());
        }
        let (oid, column) = match object {
            CommentObject::Table | CommentObject::View | CommentObject::Index | CommentObject::Sequence => {
                let relation = self.binder().relation_named(name)?.clone();
                let wanted = object.to_string().to_lowercase();
                if relation.word() != wanted {
                    let article = if wanted == "index" { "an" } else { "a" };
                    let message = format!("\"{}\" is not {article} {wanted}", relation.name());
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
                (relation.oid(), 0)
            }
            CommentObject::Column => {
                let mut of = name.clone();
                let Some(ast::ObjectNamePart::Identifier(last)) = of.0.pop() else {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
                };
                if of.0.is_empty() {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
                }
                let wanted = syntax::parse::folded(&last);
                let relation = self.binder().relation_named(&of)?.clone();
                let number = match &relation {
                    Relation::Table(table) => table.column(&wanted).map(|at| table.columns[at].number),
                    Relation::View(view) => {
                        view.columns.iter().position(|(name, _)| *name == wanted).map(|at| at as i16 + 1)
                    }
                    _ => None,
                };
                let number = number.ok_or_else(|| {
                    let message = format!("column \"{wanted}\" of relation \"{}\" does not exist", relation.name());
                    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
                })?;
                (relation.oid(), number)
            }
            CommentObject::Schema => {
                let parts = self.binder().name_parts(name)?;
                let schema = parts.first().and_then(|name| self.state.schema(name)).ok_or_else(|| {
                    let message = format!("schema \"{}\" does not exist", parts.join("."));
                    SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
                })?;
                (schema.oid, 0)
            }
            other => return Err(SqlError::unsupported(format_args!("COMMENT ON {other}"))),
        };
        self.state.set_comment(oid, column, text);
        Ok("COMMENT".into())
    }
}
