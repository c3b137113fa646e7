//! Lookup of routines that statements name: PostgreSQL's `LookupFuncWithArgs`.

use super::Ddl;
use super::grant::no_schema;
use super::routine_parameters::mode_of;
use super::routine_types::{DeclaredType, written};
use catalog::acl::Privileges;
use catalog::{Routine, RoutineKind};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::ast::{ParameterDefinition, RoutineName, RoutineWord};
use types::{Kind, PG_CATALOG};

/// Name of a routine, with the schema if one is written.
struct RoutinePlace {
    schema: Option<String>,
    name: String,
}

/// Routine that a statement names.
pub(super) enum NamedRoutine {
    /// Routine that a user has defined.
    Own(Arc<Routine>),
    /// Function of the system: its name with the types of its arguments.
    System(String),
}

/// Returns the word of a statement for a kind of routine.
pub(super) fn word_of(word: RoutineWord) -> &'static str {
    match word {
        RoutineWord::Function => "function",
        RoutineWord::Procedure => "procedure",
        RoutineWord::Routine => "routine",
    }
}

/// Returns true if a statement with this word is about routines of this kind.
pub(super) fn takes(word: RoutineWord, kind: RoutineKind) -> bool {
    match (word, kind) {
        (RoutineWord::Routine, _)
        | (RoutineWord::Function, RoutineKind::Function)
        | (RoutineWord::Procedure, RoutineKind::Procedure) => true,
        (RoutineWord::Function, RoutineKind::Procedure) | (RoutineWord::Procedure, RoutineKind::Function) => false,
    }
}

impl Ddl<'_> {
    /// Returns the routine that a statement names.
    ///
    /// # Errors
    /// `42883`: it does not exist. `42725`: the name alone means several. `42809`: it is of another kind. `42704`,
    /// `3F000`: a type or a schema does not exist.
    pub(super) fn routine_named(&mut self, word: RoutineWord, name: &RoutineName) -> SqlResult<NamedRoutine> {
        self.routine_found(word, name)?.ok_or_else(|| self.no_routine(word, name))
    }

    /// Returns the routine that a statement with `IF EXISTS` names; `None`, with a notice, if it does not exist.
    ///
    /// # Errors
    /// `42725`, `42809`
    pub(super) fn routine_if_exists(
        &mut self,
        word: RoutineWord,
        name: &RoutineName,
    ) -> SqlResult<Option<NamedRoutine>> {
        // The lookup itself gives the notices about types, once.
        let given = self.made.notices.len();
        let missing = self.missing_part(name)?;
        self.made.notices.truncate(given);
        let missing = match missing {
            Some(missing) => missing,
            None => match self.routine_found(word, name)? {
                Some(found) => return Ok(Some(found)),
                None => {
                    let kinds: Vec<String> = inputs(name).map(|one| written(&one.kind)).collect();
                    format!("{} {}({}) does not exist", word_of(word), name.name, kinds.join(","))
                }
            },
        };
        self.notice(SqlState::SUCCESSFUL_COMPLETION, format!("{missing}, skipping"));
        Ok(None)
    }

    /// Returns the message about a schema or a type in the name that does not exist.
    fn missing_part(&mut self, name: &RoutineName) -> SqlResult<Option<String>> {
        let qualified = self.routine_place(name)?;
        if let Some(schema) = qualified.schema.filter(|schema| !self.has_schema(schema)) {
            return Ok(Some(format!("schema \"{schema}\" does not exist")));
        }
        for parameter in inputs(name) {
            match self.declared_type(&parameter.kind) {
                Ok(DeclaredType::Missing) => {
                    return Ok(Some(format!("type \"{}\" does not exist", written(&parameter.kind))));
                }
                Ok(_) => {}
                Err(error) if error.state() == SqlState::INVALID_SCHEMA_NAME => {
                    return Ok(Some(error.message().to_owned()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn routine_place(&self, name: &RoutineName) -> SqlResult<RoutinePlace> {
        let qualified = self.binder().qualified(&name.name).map_err(SqlError::nowhere)?;
        Ok(RoutinePlace { schema: qualified.schema, name: qualified.name })
    }

    /// Checks that the current role may look up a name in the schema that is written.
    ///
    /// # Errors
    /// `42501`
    fn check_place(&self, place: &RoutinePlace) -> SqlResult<()> {
        match (&place.schema, self.rights()) {
            (Some(schema), Some(rights)) => rights.check_schema(schema, Privileges::USAGE),
            (None, _) | (_, None) => Ok(()),
        }
    }

    fn has_schema(&self, name: &str) -> bool {
        self.state.schema(name).is_some() || catalog::system::is_schema(name)
    }

    fn routine_found(&mut self, word: RoutineWord, name: &RoutineName) -> SqlResult<Option<NamedRoutine>> {
        let qualified = self.routine_place(name)?;
        if let Some(schema) = qualified.schema.as_ref().filter(|schema| !self.has_schema(schema)) {
            return Err(no_schema(schema));
        }
        self.check_place(&qualified)?;
        match &name.parameters {
            None => self.only_routine(word, name, &qualified),
            Some(parameters) => self.routine_with(word, name, parameters, &qualified),
        }
    }

    /// Returns the only routine of a name that a statement with this word can mean.
    fn only_routine(
        &self,
        word: RoutineWord,
        name: &RoutineName,
        qualified: &RoutinePlace,
    ) -> SqlResult<Option<NamedRoutine>> {
        let mut found: Vec<Arc<Routine>> = Vec::new();
        for routine in self.routines_by_name(qualified) {
            let is_hidden = found.iter().any(|one| one.input_kinds() == routine.input_kinds());
            if takes(word, routine.kind) && !is_hidden {
                found.push(routine);
            }
        }
        let system = if word == RoutineWord::Procedure { Vec::new() } else { system_kinds(qualified) };
        match (&found[..], &system[..]) {
            ([], []) => Ok(None),
            ([one], []) => Ok(Some(NamedRoutine::Own(Arc::clone(one)))),
            ([], [kinds]) => Ok(Some(NamedRoutine::System(system_shown(&qualified.name, kinds)))),
            _ => Err(not_unique(word, name)
                .hint(format!("Specify the argument list to select the {} unambiguously.", word_of(word)))),
        }
    }

    /// Returns the routine with these types of parameters. Without modes, those of a procedure may be all of its
    /// parameters, as the standard has it.
    fn routine_with(
        &mut self,
        word: RoutineWord,
        name: &RoutineName,
        parameters: &[ParameterDefinition],
        qualified: &RoutinePlace,
    ) -> SqlResult<Option<NamedRoutine>> {
        let kinds = self.input_types(name)?;
        // No routine has a parameter of another type.
        let Some(kinds) = kinds.iter().map(value_kind).collect::<Option<Vec<Kind>>>() else { return Ok(None) };
        let system = system_kinds(qualified).into_iter().find(|own| *own == kinds);
        if let Some(kinds) = system.filter(|_| !self.path.iter().any(|schema| schema == PG_CATALOG)) {
            return match word {
                RoutineWord::Procedure => Err(wrong_kind(name, &kinds, word)),
                _ => Ok(Some(NamedRoutine::System(system_shown(&qualified.name, &kinds)))),
            };
        }
        let by_inputs = self.routines_by_name(qualified).into_iter().find(|one| one.input_kinds() == kinds);
        let has_modes = parameters.iter().any(|one| one.mode.is_some());
        let by_all = if word == RoutineWord::Function || has_modes {
            None
        } else {
            let has_them = |routine: &Arc<Routine>| {
                routine.kind == RoutineKind::Procedure
                    && routine.parameters.iter().map(|one| one.kind).eq(kinds.iter().copied())
            };
            self.routines_by_name(qualified).into_iter().find(has_them)
        };
        let found = match (by_inputs, by_all) {
            (Some(one), Some(other)) if one.oid != other.oid => return Err(not_unique(word, name)),
            (one, other) => one.or(other),
        };
        match found {
            Some(found) if !takes(word, found.kind) => Err(wrong_kind(name, &kinds, word)),
            found => Ok(found.map(NamedRoutine::Own)),
        }
    }

    /// Returns the types of the input parameters in a name.
    fn input_types(&mut self, name: &RoutineName) -> SqlResult<Vec<DeclaredType>> {
        let mut types = Vec::new();
        for parameter in inputs(name) {
            match self.declared_type(&parameter.kind)? {
                DeclaredType::Missing => {
                    let message = format!("type \"{}\" does not exist", written(&parameter.kind));
                    return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
                }
                found => types.push(found),
            }
        }
        Ok(types)
    }

    /// Returns the routines of a name in the order in which the search path finds them.
    fn routines_by_name(&self, name: &RoutinePlace) -> Vec<Arc<Routine>> {
        let schemas = match &name.schema {
            Some(schema) => std::slice::from_ref(schema),
            None => self.path,
        };
        let schemas = schemas.iter().filter_map(|schema| self.state.schema(schema));
        schemas.flat_map(|schema| self.state.routines_named(schema.oid, &name.name)).cloned().collect()
    }

    fn no_routine(&mut self, word: RoutineWord, name: &RoutineName) -> SqlError {
        let word = if word == RoutineWord::Procedure { "procedure" } else { "function" };
        let message = match &name.parameters {
            None => format!("could not find a {word} named \"{}\"", name.name),
            Some(_) => match self.input_types(name) {
                Ok(types) => {
                    let types: Vec<String> = types.iter().map(DeclaredType::shown).collect();
                    format!("{word} {}({}) does not exist", name.name, types.join(", "))
                }
                Err(error) => return error,
            },
        };
        SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
    }
}

/// Returns the input parameters in a name.
fn inputs(name: &RoutineName) -> impl Iterator<Item = &ParameterDefinition> {
    name.parameters.iter().flatten().filter(|one| mode_of(one.mode).is_input())
}

fn value_kind(declared: &DeclaredType) -> Option<Kind> {
    match declared {
        DeclaredType::Value(kind) => Some(*kind),
        DeclaredType::Pseudo(_) | DeclaredType::Rows(..) | DeclaredType::Missing => None,
    }
}

/// Returns the types of the arguments of each of the system's functions with this name.
fn system_kinds(name: &RoutinePlace) -> Vec<Vec<Kind>> {
    if name.schema.as_ref().is_some_and(|schema| schema != PG_CATALOG) {
        return Vec::new();
    }
    let kind = |number: &u32| types::SqlType::from_oid(*number).map(|kind| kind.kind);
    // Functions with arguments of other types are none that a statement could name here.
    let kinds = |arguments: &[u32]| arguments.iter().map(kind).collect::<Option<Vec<Kind>>>();
    crate::system::arguments_of(&name.name).filter_map(kinds).collect()
}

fn system_shown(name: &str, kinds: &[Kind]) -> String {
    let kinds: Vec<String> = kinds.iter().map(|kind| types::SqlType::from(*kind).name()).collect();
    format!("{}({})", crate::system::quoted(name), kinds.join(","))
}

/// Error for a routine of another kind than the statement's word. `42809`
fn wrong_kind(name: &RoutineName, kinds: &[Kind], word: RoutineWord) -> SqlError {
    let kinds: Vec<String> = kinds.iter().map(|kind| types::SqlType::from(*kind).name()).collect();
    let message = format!("{}({}) is not a {}", name.name, kinds.join(", "), word_of(word));
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}

/// Error for a name that means several routines. `42725`
fn not_unique(word: RoutineWord, name: &RoutineName) -> SqlError {
    let message = format!("{} name \"{}\" is not unique", word_of(word), name.name);
    SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message)
}
