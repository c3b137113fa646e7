//! Parameters and results of routines.
//!
//! **Invariant:** the parameters with defaults are the last of the input parameters, and a variadic one is an array and
//! the last of them.

use super::Ddl;
use super::routine_types::{DeclaredType, is_polymorphic, written};
use catalog::{Language, ParameterMode, RoutineParameter, RoutineResult};
use query::bind::{Clause, NameScope};
use statement::error::{SqlError, SqlResult, SqlState};
use syntax::ast::{
    CreateRoutine, Expr, ExprKind, KeptExpr, ObjectName, ParameterDefinition, ParameterModeWord, RoutineReturns,
    TypeName, visit,
};
use types::ops::CastContext;
use types::{Kind, SqlType, pseudo};

/// Greatest number of parameters, PostgreSQL's.
const PARAMETERS_MAX: usize = 100;

/// Returns an error about a function's definition. `42P13`
pub(super) fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, message)
}

/// Returns the mode of a parameter.
pub(super) fn mode_of(word: Option<ParameterModeWord>) -> ParameterMode {
    match word {
        None | Some(ParameterModeWord::In) => ParameterMode::In,
        Some(ParameterModeWord::Out) => ParameterMode::Out,
        Some(ParameterModeWord::InOut) => ParameterMode::InOut,
        Some(ParameterModeWord::Variadic) => ParameterMode::Variadic,
    }
}

/// Visitor that finds the first column that an expression names.
#[derive(Default)]
struct FirstColumn(Option<ObjectName>);

impl visit::Visitor for FirstColumn {
    fn expr(&mut self, expr: &Expr) {
        if let ExprKind::Column(name) = &expr.kind
            && self.0.is_none()
        {
            self.0 = Some(name.clone());
        }
    }
}

impl Ddl<'_> {
    /// Returns the parameters of a new routine, the columns of `RETURNS TABLE` among them.
    ///
    /// # Errors
    /// `42P13`, `42704`, errors of the defaults; `0A000`
    pub(super) fn routine_parameters(
        &mut self,
        create: &CreateRoutine,
        language: Language,
    ) -> SqlResult<Vec<RoutineParameter>> {
        let mut made: Vec<RoutineParameter> = Vec::new();
        for definition in &create.parameters {
            if PARAMETERS_MAX <= made.len() {
                let message = format!("functions cannot have more than {PARAMETERS_MAX} arguments");
                return Err(SqlError::new(SqlState::TOO_MANY_ARGUMENTS, message));
            }
            let parameter = self.routine_parameter(definition, (create.is_procedure, language), &made)?;
            made.push(parameter);
        }
        if let Some(RoutineReturns::Table(columns, _)) = &create.returns {
            for (name, kind) in columns {
                let kind = self.parameter_kind(kind, ParameterMode::Table, (create.is_procedure, language))?;
                check_name(Some(&**name), ParameterMode::Table, &made)?;
                let name = Some(name.to_string());
                made.push(RoutineParameter { name, mode: ParameterMode::Table, kind, default: None });
            }
        }
        Ok(made)
    }

    fn routine_parameter(
        &mut self,
        definition: &ParameterDefinition,
        (is_procedure, language): (bool, Language),
        before: &[RoutineParameter],
    ) -> SqlResult<RoutineParameter> {
        let ParameterDefinition { name, mode, kind, default, span: _ } = definition;
        let mode = mode_of(*mode);
        let kind = self.parameter_kind(kind, mode, (is_procedure, language))?;
        let follows_variadic = before.iter().any(|one| one.mode == ParameterMode::Variadic);
        if mode.is_input() && follows_variadic {
            return Err(invalid("VARIADIC parameter must be the last input parameter"));
        }
        if mode.is_output() && follows_variadic && is_procedure {
            return Err(invalid("VARIADIC parameter must be the last parameter"));
        }
        if mode == ParameterMode::Variadic && !matches!(kind, Kind::Array(_)) {
            return Err(invalid("VARIADIC parameter must be an array"));
        }
        check_name(name.as_deref(), mode, before)?;
        let default = match default {
            Some(_) if !mode.is_input() => return Err(invalid("only input parameters can have default values")),
            Some(value) => Some(self.parameter_default(value, kind)?),
            None => {
                check_without_default(mode, is_procedure, before)?;
                None
            }
        };
        Ok(RoutineParameter { name: name.as_ref().map(ToString::to_string), mode, kind, default })
    }

    fn parameter_kind(
        &mut self,
        name: &TypeName,
        mode: ParameterMode,
        (is_procedure, language): (bool, Language),
    ) -> SqlResult<Kind> {
        let declared = self.declared_type(name)?;
        let kind = match &declared {
            DeclaredType::Value(kind) if mode.is_input() && matches!(kind, Kind::Void | Kind::Unknown) => {
                return Err(not_accepted(language, &declared.shown()));
            }
            DeclaredType::Value(kind) => *kind,
            DeclaredType::Missing => {
                let message = format!("type {} does not exist", written(name));
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
            DeclaredType::Pseudo(pseudo) if mode.is_input() && !is_polymorphic(pseudo) => {
                return Err(not_accepted(language, &declared.shown()));
            }
            DeclaredType::Pseudo(_) => {
                return Err(SqlError::unsupported(format_args!("type {} of a parameter", declared.shown())));
            }
            DeclaredType::Rows(..) => {
                return Err(SqlError::unsupported(format_args!("composite type {} of a parameter", declared.shown())));
            }
        };
        if name.is_set {
            let word = if is_procedure { "procedures" } else { "functions" };
            return Err(invalid(format!("{word} cannot accept set arguments")));
        }
        Ok(kind)
    }

    /// Returns the text of a parameter's default, which may name no columns.
    fn parameter_default(&self, value: &KeptExpr, kind: Kind) -> SqlResult<String> {
        let binder = self.binder();
        let scope = NameScope::default();
        scope.clause.set(Clause::Default);
        let bound = binder.expr(&value.value, &scope).map_err(|error| self.about_column_of_default(error, value))?;
        let (of, place) = (bound.kind, bound.place);
        binder.coerce(bound, kind.into(), CastContext::Assignment).map_err(|error| {
            if error.state() != SqlState::CANNOT_COERCE {
                return error;
            }
            let (wanted, of) = (SqlType::from(kind).name(), of.kind.name());
            let message = format!("argument of DEFAULT must be type {wanted}, not type {of}");
            binder.at_place(SqlError::new(SqlState::DATATYPE_MISMATCH, message), place)
        })?;
        binder.without_parameters()?;
        self.binder().kept(value, &NameScope::default(), kind.into()).map(|(text, _)| text)
    }

    /// Returns PostgreSQL's error for a default that names a column, if that is what the error is about: parameters
    /// have no table.
    fn about_column_of_default(&self, error: SqlError, value: &KeptExpr) -> SqlError {
        let mut first = FirstColumn::default();
        visit::expr(&value.value, &mut first);
        match first.0 {
            Some(name) if error.position() == Some(name.span().position(self.text)) => {
                self.binder().expr(&value.value, &NameScope::default()).err().unwrap_or(error)
            }
            _ => error,
        }
    }

    /// Returns the result of a new routine, and true if it is a set.
    ///
    /// # Errors
    /// `42P13`, `42704`, `0A000`
    pub(super) fn routine_result(
        &mut self,
        create: &CreateRoutine,
        parameters: &[RoutineParameter],
        language: Language,
    ) -> SqlResult<(RoutineResult, bool)> {
        let outputs: Vec<&RoutineParameter> = parameters.iter().filter(|one| one.mode.is_output()).collect();
        let required = match &outputs[..] {
            [] => None,
            [one] if !create.is_procedure => Some(RoutineResult::Value(one.kind)),
            _ => Some(RoutineResult::Row),
        };
        match (&create.returns, required) {
            (Some(RoutineReturns::Table(..)), Some(required)) => Ok((required, true)),
            (Some(RoutineReturns::Table(..)), None) => Err(invalid("function result type must be specified")),
            (Some(RoutineReturns::Type(name)), required) => {
                let result = self.declared_result(name, language)?;
                let is_same = match (required, result) {
                    (Some(RoutineResult::Row), RoutineResult::Record) | (None, _) => true,
                    (Some(required), result) => required == result,
                };
                if is_same {
                    return Ok((required.unwrap_or(result), name.is_set));
                }
                let wanted = match required {
                    Some(RoutineResult::Value(kind)) => SqlType::from(kind).name(),
                    _ => "record".to_owned(),
                };
                Err(invalid(format!("function result type must be {wanted} because of OUT parameters")))
            }
            (None, Some(required)) => Ok((required, false)),
            (None, None) if create.is_procedure => Ok((RoutineResult::Nothing, false)),
            (None, None) => Err(invalid("function result type must be specified")),
        }
    }

    /// Returns the result that `RETURNS type` declares.
    fn declared_result(&mut self, name: &TypeName, language: Language) -> SqlResult<RoutineResult> {
        let declared = self.declared_type(name)?;
        match &declared {
            DeclaredType::Value(Kind::Unknown) => Err(not_returned(language, &declared.shown())),
            DeclaredType::Value(kind) => Ok(RoutineResult::Value(*kind)),
            DeclaredType::Rows(relation, _) => Ok(RoutineResult::Relation(*relation)),
            DeclaredType::Missing => {
                let message = format!("type \"{}\" does not exist", written(name));
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
            }
            DeclaredType::Pseudo(pseudo) => match pseudo.name {
                "record" => Ok(RoutineResult::Record),
                "internal" => Err(invalid("unsafe use of pseudo-type \"internal\"")
                    .detail("A result of type internal requires at least one input of type internal.")),
                _ if is_polymorphic(pseudo) => {
                    Err(SqlError::unsupported(format_args!("the result type {}", pseudo::shown(pseudo))))
                }
                _ => Err(not_returned(language, &declared.shown())),
            },
        }
    }
}

/// Returns the error for an argument of a type that only the system's functions have.
fn not_accepted(language: Language, shown: &str) -> SqlError {
    match language {
        Language::Sql => invalid(format!("SQL functions cannot have arguments of type {shown}")),
        Language::Native | Language::Wasm | Language::Exec => {
            let message = format!("{} functions cannot accept type {shown}", language.name());
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        }
    }
}

/// Returns the error for a result of a type that no function in this language has.
fn not_returned(language: Language, shown: &str) -> SqlError {
    match language {
        Language::Sql => invalid(format!("SQL functions cannot return type {shown}")),
        Language::Native | Language::Wasm | Language::Exec => {
            let message = format!("{} functions cannot return type {shown}", language.name());
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        }
    }
}

/// Refuses the name of another parameter of the same direction.
fn check_name(name: Option<&str>, mode: ParameterMode, before: &[RoutineParameter]) -> SqlResult<()> {
    let Some(name) = name else { return Ok(()) };
    // An input and an output may have the same name, which then means the input.
    let conflicts = |other: &RoutineParameter| {
        let (one, two) = (is_only_input(mode), is_only_input(other.mode));
        !(one && is_only_output(other.mode) || two && is_only_output(mode))
    };
    if before.iter().any(|other| other.name.as_deref() == Some(name) && conflicts(other)) {
        return Err(invalid(format!("parameter name \"{name}\" used more than once")));
    }
    Ok(())
}

fn is_only_input(mode: ParameterMode) -> bool {
    mode.is_input() && !mode.is_output()
}

fn is_only_output(mode: ParameterMode) -> bool {
    mode.is_output() && !mode.is_input()
}

/// Refuses a parameter without a default after one with a default.
fn check_without_default(mode: ParameterMode, is_procedure: bool, before: &[RoutineParameter]) -> SqlResult<()> {
    if before.iter().all(|one| one.default.is_none()) {
        return Ok(());
    }
    if mode.is_input() {
        return Err(invalid("input parameters after one with a default value must also have defaults"));
    }
    if is_procedure {
        return Err(invalid("procedure OUT parameters cannot appear after one with a default value"));
    }
    Ok(())
}
