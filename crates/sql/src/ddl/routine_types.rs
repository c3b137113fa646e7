//! Types in the definitions of routines: of parameters, and of results.

use super::Ddl;
use catalog::Relation;
use query::bind::no_relation;
use statement::error::{SqlError, SqlResult, SqlState};
use syntax::ast::{Name, ObjectName, TypeName};
use types::pseudo::{self, PseudoType};
use types::{Kind, PG_CATALOG, SqlType};

/// Type that a definition names.
#[derive(Clone)]
pub(super) enum DeclaredType {
    /// Type of values here.
    Value(Kind),
    /// Type that only functions have.
    Pseudo(&'static PseudoType),
    /// Type of the rows of this relation: its OID and its name.
    Rows(u32, String),
    /// No type.
    Missing,
}

impl DeclaredType {
    /// Returns the name that messages use.
    pub(super) fn shown(&self) -> String {
        match self {
            DeclaredType::Value(kind) => SqlType::from(*kind).name(),
            DeclaredType::Pseudo(pseudo) => pseudo::shown(pseudo),
            DeclaredType::Rows(_, name) => crate::system::quoted(name),
            DeclaredType::Missing => String::new(),
        }
    }
}

/// Returns true for a type that stands for the types of a call's arguments.
pub(super) fn is_polymorphic(pseudo: &PseudoType) -> bool {
    pseudo.name.starts_with("any") && pseudo.name != "any"
}

/// Returns a type's name as PostgreSQL's `TypeNameToString` writes it.
pub(super) fn written(name: &TypeName) -> String {
    let of_column = if name.is_of_column { "%TYPE" } else { "" };
    format!("{}{of_column}{}", name.name, if name.dimensions.is_empty() { "" } else { "[]" })
}

impl Ddl<'_> {
    /// Returns the type that a definition names. Modifiers are left out, as in PostgreSQL.
    ///
    /// # Errors
    /// `3F000`: the name's schema does not exist. `0A000`: the type is not supported here. Those of `%TYPE`.
    pub(super) fn declared_type(&mut self, name: &TypeName) -> SqlResult<DeclaredType> {
        if name.is_of_column {
            return self.type_of_column(name);
        }
        if name.dimensions.is_empty()
            && let Some(pseudo) = system_name(&name.name).and_then(pseudo::named)
        {
            return Ok(DeclaredType::Pseudo(pseudo));
        }
        let plain = TypeName { modifiers: Vec::new(), fields: None, is_set: false, ..name.clone() };
        let binder = self.binder();
        match binder.type_of(&plain) {
            Ok(found) => Ok(DeclaredType::Value(found.kind)),
            Err(error) if error.state() == SqlState::UNDEFINED_OBJECT => {
                let relation = binder.qualified(&name.name).ok().and_then(|named| binder.find(&named));
                match relation {
                    Some(relation @ (Relation::Table(_) | Relation::View(_))) if name.dimensions.is_empty() => {
                        Ok(DeclaredType::Rows(relation.oid(), relation.name().to_owned()))
                    }
                    Some(Relation::Table(_) | Relation::View(_)) => {
                        Err(SqlError::unsupported(format_args!("arrays of {}", name.name)))
                    }
                    Some(Relation::Sequence(_) | Relation::Index { .. }) | None => Ok(DeclaredType::Missing),
                }
            }
            Err(error) => Err(error.nowhere()),
        }
    }

    /// Returns the type of `table.column%TYPE`, with the notice that the definition keeps the type itself.
    fn type_of_column(&mut self, name: &TypeName) -> SqlResult<DeclaredType> {
        let (column, of) = match &name.name.parts[..] {
            [of @ .., column] if !of.is_empty() => (column, of),
            _ => {
                let message = format!("improper %TYPE reference (too few dotted names): {}", name.name);
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        let kind = self.kind_by_column(&ObjectName { parts: of.to_vec() }, column)?;
        let shown = SqlType::from(kind).name();
        let message = format!("type reference {} converted to {shown}", written(name));
        self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
        Ok(DeclaredType::Value(kind))
    }

    fn kind_by_column(&self, of: &ObjectName, column: &Name) -> SqlResult<Kind> {
        let binder = self.binder();
        let qualified = binder.qualified(of)?;
        let relation = binder.find(&qualified).ok_or_else(|| no_relation(&qualified))?;
        let kind = match relation {
            Relation::Table(table) => table.column(column).map(|at| table.columns[at].kind.kind),
            Relation::View(view) => view.columns.iter().find(|(name, _)| **name == **column).map(|(_, kind)| kind.kind),
            Relation::Sequence(_) | Relation::Index { .. } => None,
        };
        kind.ok_or_else(|| {
            let message = format!("column \"{column}\" of relation \"{}\" does not exist", relation.name());
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })
    }
}

/// Returns the name of an object of `pg_catalog`, if it can be one.
fn system_name(name: &ObjectName) -> Option<&str> {
    match &name.parts[..] {
        [own] => Some(own),
        [schema, own] if **schema == *PG_CATALOG => Some(own),
        _ => None,
    }
}
