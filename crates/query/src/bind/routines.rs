//! Calls of routines that the database stores: which one a call means, and its arguments.
//!
//! The rules are those of PostgreSQL's `FuncnameGetCandidates` and `func_get_detail`: routines of all schemas of the
//! search path and built-in functions compete; of two with the same types the one of the earlier schema counts, and
//! `pg_catalog` comes first.

use super::sets::check_set_arguments;
use super::{Binder, Clause, NameScope, NameTarget};
use crate::plan::{Expr, RoutineCall, SetCall, SetFunction, Typed};
use catalog::acl::Privileges;
use catalog::rights::Rights;
use catalog::{CatalogState, Routine, RoutineKind, RoutineResult};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::{pulse, refuse};
use std::sync::Arc;
use syntax::ast::{Argument, FunctionCall};
use types::ops::{self, CastContext, can_coerce};
use types::{Kind, SqlType};

/// Source of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArgumentSource {
    /// Argument at this position of the call.
    Given(usize),
    /// Array of the arguments from this position of the call on.
    Rest(usize),
    /// Default of the parameter.
    Default,
}

/// Routine that a call may mean.
struct Candidate<'c> {
    routine: &'c Arc<Routine>,
    /// Types that the arguments of the call must have, in the call's order.
    declared: Vec<Kind>,
    /// Source of each input parameter's value.
    sources: Vec<ArgumentSource>,
    /// True if another of the same schema is as good: two that differ in parameters with defaults.
    has_equal: bool,
}

impl Candidate<'_> {
    /// Returns true if arguments form a variadic array.
    fn is_variadic(&self) -> bool {
        self.sources.iter().any(|source| matches!(source, ArgumentSource::Rest(_)))
    }
}

/// Kind of a call, which decides the parameters that take values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStyle {
    /// Call in an expression or in FROM.
    Function,
    /// `CALL`, which has an argument for output parameters, too.
    Procedure,
}

/// Routine that a call means, with the values of its input parameters.
pub(super) struct FoundRoutine {
    pub(super) routine: Arc<Routine>,
    pub(super) arguments: Vec<Typed>,
}

/// Meaning of a call.
pub(super) enum CallMeaning {
    /// There is no routine of this name.
    Unknown,
    /// Built-in function, with the arguments of the call.
    BuiltIn(Vec<Typed>),
    /// Stored routine.
    Routine(FoundRoutine),
}

impl Binder<'_> {
    /// Returns the meaning of a call, as far as stored routines are concerned. Functions that are bound in a way of their
    /// own (aggregates, sets) take precedence over routines that are called without a schema.
    ///
    /// # Errors
    /// `42883`, `42725` if there are routines of this name but no fitting one, and no built-in function of the name;
    /// `42809` if the routine is of the other kind; those of the arguments.
    pub(super) fn find_routine(
        &self,
        call: &FunctionCall,
        style: CallStyle,
        scope: &NameScope<'_>,
    ) -> SqlResult<CallMeaning> {
        if self.catalog.has_no_routines() || call.is_special {
            return Ok(CallMeaning::Unknown);
        }
        let (schema, name) = match &call.name.parts[..] {
            [name] if style == CallStyle::Function && super::functions::has_own_binding(name) => {
                return Ok(CallMeaning::Unknown);
            }
            [name] => (None, name),
            [schema, name] if !super::functions::is_system(schema, name) => (Some(&**schema), name),
            [database, schema, name] if **database == *catalog::DATABASE => (Some(&**schema), name),
            _ => return Ok(CallMeaning::Unknown),
        };
        if let Some(schema) = schema {
            self.check_usage(schema, &call.name)?;
        }
        let named = self.routines_named(schema, name);
        if named.is_empty() || call.is_star {
            return Ok(CallMeaning::Unknown);
        }
        let given = self.given_arguments(&call.arguments, scope)?;
        self.check_names(&call.arguments)?;
        let kinds: Vec<Kind> = given.iter().map(|argument| argument.kind.kind).collect();
        let mut candidates: Vec<Candidate<'_>> = Vec::new();
        for routine in named {
            pulse::tick(given.len())?;
            if let Some(candidate) = candidate(routine, call, style) {
                add(&mut candidates, candidate);
            }
        }
        let has_names = call.arguments.iter().any(|argument| argument.name.is_some());
        let built_in = match schema {
            None if style == CallStyle::Function && !has_names => {
                ops::declared_kinds(self.env.functions(), name, given.len())
            }
            _ => Vec::new(),
        };
        let candidate = match chosen(&kinds, &built_in, candidates) {
            Choice::Routine(candidate) => candidate,
            Choice::BuiltIn => return Ok(CallMeaning::BuiltIn(given)),
            Choice::Several => return Err(self.no_routine(call, &given, style, true)),
            // A built-in function may take arguments of any type, or the name may be that of a type.
            Choice::Nothing if !built_in.is_empty() => return Ok(CallMeaning::BuiltIn(given)),
            Choice::Nothing => return Err(self.no_routine(call, &given, style, false)),
        };
        let routine = Arc::clone(candidate.routine);
        self.check_kind(call, &given, &routine, style)?;
        let note = || NameTarget::Routine { oid: routine.oid, name: self.qualified_routine(&routine) };
        self.note(call.name.span(), note);
        let arguments = self.values_of_parameters(&candidate, style, given)?;
        Ok(CallMeaning::Routine(FoundRoutine { routine, arguments }))
    }

    /// Checks that named arguments come last, each name once.
    ///
    /// # Errors
    /// `42601`
    pub(super) fn check_names(&self, arguments: &[Argument]) -> SqlResult<()> {
        let mut seen: Vec<&str> = Vec::new();
        for argument in arguments {
            let message = match &argument.name {
                Some(name) if seen.contains(&&**name) => format!("argument name \"{}\" used more than once", &**name),
                None if !seen.is_empty() => "positional argument cannot follow named argument".to_owned(),
                Some(name) => {
                    seen.push(name);
                    continue;
                }
                None => continue,
            };
            return Err(self.at_place(SqlError::new(SqlState::SYNTAX_ERROR, message), argument.span()));
        }
        Ok(())
    }

    /// Returns the routines of a name, in the order of the search path.
    fn routines_named(&self, schema: Option<&str>, name: &str) -> Vec<&Arc<Routine>> {
        let of = |schema: &str| self.catalog.schema(schema).map(|schema| self.catalog.routines_named(schema.oid, name));
        match schema {
            Some(schema) => of(schema).into_iter().flatten().collect(),
            None => self.path.iter().filter_map(|schema| of(schema)).flatten().collect(),
        }
    }

    fn qualified_routine(&self, routine: &Routine) -> String {
        let schema = self.catalog.schema_numbered(routine.schema).map_or("", |schema| &*schema.name);
        let quoted = |name: &str| syntax::names::quoted_name(name);
        format!("{}.{}", quoted(schema), quoted(&routine.name))
    }

    /// Binds the arguments, also those with names.
    pub(super) fn given_arguments(&self, arguments: &[Argument], scope: &NameScope<'_>) -> SqlResult<Vec<Typed>> {
        arguments.iter().map(|argument| self.expr(&argument.value, scope)).collect()
    }

    /// Checks that a call is of the routine's kind. As in PostgreSQL, the error names the types that are given.
    ///
    /// # Errors
    /// `42809`
    fn check_kind(&self, call: &FunctionCall, given: &[Typed], routine: &Routine, style: CallStyle) -> SqlResult<()> {
        let wrong = |what: &str, hint: &str| {
            let message = format!("{} is {what}", signature(call, given));
            let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint);
            Err(self.at_name(error, &call.name))
        };
        match (style, routine.kind) {
            (CallStyle::Function, RoutineKind::Function) | (CallStyle::Procedure, RoutineKind::Procedure) => Ok(()),
            (CallStyle::Function, RoutineKind::Procedure) => wrong("a procedure", "To call a procedure, use CALL."),
            (CallStyle::Procedure, RoutineKind::Function) => {
                wrong("not a procedure", "To call a function, use SELECT.")
            }
        }
    }

    /// Returns the error for a call that no routine fits, or several fit equally.
    pub(super) fn no_routine(
        &self,
        call: &FunctionCall,
        given: &[Typed],
        style: CallStyle,
        has_several: bool,
    ) -> SqlError {
        let word = if style == CallStyle::Procedure { "procedure" } else { "function" };
        let written = format!("{word} {}", signature(call, given));
        let error = match has_several {
            true => SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("{written} is not unique"))
                .hint(format!("Could not choose a best candidate {word}. You might need to add explicit type casts.")),
            false => SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("{written} does not exist")).hint(format!(
                "No {word} matches the given name and argument types. You might need to add explicit type casts."
            )),
        };
        self.at_name(error, &call.name)
    }

    /// Returns the values of the routine's input parameters, of their types.
    fn values_of_parameters(
        &self,
        candidate: &Candidate<'_>,
        style: CallStyle,
        given: Vec<Typed>,
    ) -> SqlResult<Vec<Typed>> {
        let mut given: Vec<Option<Typed>> = given.into_iter().map(Some).collect();
        let mut values = Vec::new();
        for (parameter, source) in parameters_of(candidate.routine, style).zip(&candidate.sources) {
            let value = match *source {
                ArgumentSource::Given(at) => {
                    let value = given.get_mut(at).and_then(Option::take).ok_or_else(unmatched)?;
                    self.as_parameter(value, parameter.kind)?
                }
                ArgumentSource::Rest(from) => {
                    let element = parameter.kind.element().unwrap_or(parameter.kind);
                    let items = given.iter_mut().skip(from).filter_map(Option::take);
                    let items = items.map(|item| self.argument(item, element)).collect::<SqlResult<_>>()?;
                    Typed::new(Expr::Array(items), parameter.kind)
                }
                ArgumentSource::Default => self.default_of_parameter(parameter)?,
            };
            // The argument for an output parameter only helps to choose the procedure.
            if parameter.mode.is_input() {
                values.push(value);
            }
        }
        Ok(values)
    }

    fn as_parameter(&self, value: Typed, kind: Kind) -> SqlResult<Typed> {
        let place = value.place;
        Ok(Typed::new(self.argument(value, kind)?, kind).at(place))
    }

    fn default_of_parameter(&self, parameter: &catalog::RoutineParameter) -> SqlResult<Typed> {
        let text = parameter.default.as_deref().ok_or_else(unmatched)?;
        let to = SqlType::from(parameter.kind);
        let inner = Binder::new(self.catalog, self.path, text, self.env, Vec::new()).of_stored_text();
        let value = syntax::grammar::expression(text)
            .and_then(|tree| inner.expr(&tree, &NameScope::default()))
            .and_then(|value| inner.coerce(value, to, CastContext::Assignment));
        inner.take_tables().iter().for_each(|table| self.names(table));
        value.map_err(SqlError::nowhere)
    }

    /// Returns true if the current role may call a routine, so that its body may take the place of the call.
    pub(super) fn may_execute(&self, routine: &Routine) -> bool {
        Rights::of_session(self.catalog, self.env)
            .is_none_or(|rights| rights.on(routine.securable()).has(Privileges::EXECUTE))
    }

    /// Binds a call of a stored function in an expression.
    pub(super) fn routine_in_expression(
        &self,
        call: &FunctionCall,
        found: FoundRoutine,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        let FoundRoutine { routine, arguments } = found;
        super::functions::check_plain(call, &routine.name)?;
        if call.over.is_some() {
            return Err(super::window::not_windowed(&routine.name));
        }
        let RoutineResult::Value(kind) = routine.result else {
            return Err(SqlError::unsupported(format_args!("a composite value of {} here", routine.name)));
        };
        if routine.is_set {
            return self.routine_as_set(call, routine, arguments, kind, scope);
        }
        if self.may_execute(&routine)
            && let Some(value) = self.inlined(&routine, &arguments)?
        {
            return Ok(value);
        }
        Ok(Typed::new(of_call(routine, arguments, self.catalog), kind))
    }

    /// Binds a call of a set-returning function in the select list.
    fn routine_as_set(
        &self,
        call: &FunctionCall,
        routine: Arc<Routine>,
        arguments: Vec<Typed>,
        kind: Kind,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        self.check_set_place(&call.name, scope)?;
        check_set_arguments(&arguments)?;
        let set =
            SetCall { function: SetFunction::Routine, arguments: vec![of_call(routine, arguments, self.catalog)] };
        Ok(Typed::new(self.collect_set(set, scope), kind))
    }

    /// Binds the procedure that `CALL` names. Returns it with the values of its input parameters.
    ///
    /// # Errors
    /// `42883`, `42725`, `42809`; those of the arguments.
    pub fn call_of_procedure(&self, call: &FunctionCall) -> SqlResult<RoutineCall> {
        refuse!(call.is_star => "CALL with *");
        refuse!(call.over.is_some() => "OVER in CALL");
        let scope = NameScope::default();
        scope.clause.set(Clause::Call);
        super::functions::check_plain(call, call.name.parts.last().map_or("", |name| name))?;
        let found = match self.find_routine(call, CallStyle::Procedure, &scope)? {
            CallMeaning::Routine(found) => found,
            CallMeaning::Unknown | CallMeaning::BuiltIn(_) => {
                let given = self.given_arguments(&call.arguments, &scope)?;
                return Err(self.no_routine(call, &given, CallStyle::Procedure, false));
            }
        };
        let arguments = found.arguments.into_iter().map(|argument| argument.expr).collect();
        Ok(RoutineCall::new(found.routine, arguments, self.catalog))
    }
}

/// Returns the expression of a call.
pub(super) fn of_call(routine: Arc<Routine>, arguments: Vec<Typed>, catalog: &CatalogState) -> Expr {
    let arguments = arguments.into_iter().map(|argument| argument.expr).collect();
    Expr::Routine(Box::new(RoutineCall::new(routine, arguments, catalog)))
}

fn unmatched() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a call whose arguments do not match the parameters")
}

/// Returns the parameters that a call has a place for.
fn parameters_of(routine: &Routine, style: CallStyle) -> impl Iterator<Item = &catalog::RoutineParameter> {
    routine.parameters.iter().filter(move |parameter| match style {
        CallStyle::Function => parameter.mode.is_input(),
        CallStyle::Procedure => true,
    })
}

/// Matches the arguments of a call to the parameters of a routine, by number and names. `None` if they do not fit.
fn candidate<'c>(routine: &'c Arc<Routine>, call: &FunctionCall, style: CallStyle) -> Option<Candidate<'c>> {
    let parameters: Vec<_> = parameters_of(routine, style).collect();
    let count = call.arguments.len();
    let positional = call.arguments.iter().take_while(|argument| argument.name.is_none()).count();
    let last = parameters.len().checked_sub(1);
    let is_variadic = parameters.last().is_some_and(|last| last.mode == catalog::ParameterMode::Variadic);
    let mut declared = vec![Kind::Unknown; count];
    let mut sources = vec![ArgumentSource::Default; parameters.len()];
    // The elements of a variadic array have no names, so a call with names must pass the array itself.
    if call.is_variadic != is_variadic && (call.is_variadic || positional < count) {
        return None;
    }
    // Arguments from the last parameter on form its array, unless the call passes the array itself.
    let rest = last.filter(|last| is_variadic && !call.is_variadic && *last < count);
    for (at, argument) in call.arguments.iter().enumerate() {
        let place = match (&argument.name, rest) {
            (None, Some(rest)) if rest <= at => {
                sources[rest] = ArgumentSource::Rest(rest);
                declared[at] = parameters[rest].kind.element()?;
                continue;
            }
            (None, _) => at,
            (Some(name), _) => parameters.iter().position(|one| one.name.as_deref() == Some(&**name))?,
        };
        let source = sources.get_mut(place).filter(|source| **source == ArgumentSource::Default)?;
        *source = ArgumentSource::Given(at);
        declared[at] = parameters[place].kind;
    }
    let has_value = |(parameter, source): (&&catalog::RoutineParameter, &ArgumentSource)| {
        *source != ArgumentSource::Default || parameter.default.is_some()
    };
    parameters.iter().zip(&sources).all(has_value).then_some(Candidate { routine, declared, sources, has_equal: false })
}

/// Adds a candidate. Of several with the same types the first schema's counts, then one without a variadic array; others
/// are equally good.
fn add<'c>(candidates: &mut Vec<Candidate<'c>>, new: Candidate<'c>) {
    let Some(old) = candidates.iter_mut().find(|old| old.declared == new.declared) else {
        candidates.push(new);
        return;
    };
    if old.routine.schema != new.routine.schema {
        return;
    }
    match (old.is_variadic(), new.is_variadic()) {
        (false, true) => {}
        (true, false) => *old = new,
        (true, true) | (false, false) => old.has_equal = true,
    }
}

/// Result of the choice among built-in functions and routines.
enum Choice<'c> {
    Routine(Candidate<'c>),
    BuiltIn,
    /// Several fit equally.
    Several,
    Nothing,
}

/// Chooses among built-in functions and routines.
fn chosen<'c>(given: &[Kind], built_in: &[Vec<Kind>], mut candidates: Vec<Candidate<'c>>) -> Choice<'c> {
    if built_in.iter().any(|declared| declared == given) {
        return Choice::BuiltIn;
    }
    let fits = |declared: &[Kind]| given.iter().zip(declared).all(|(from, to)| can_coerce(*from, *to));
    // `pg_catalog` is searched first, so a built-in function hides routines with the same types.
    candidates.retain(|candidate| fits(&candidate.declared) && !built_in.contains(&candidate.declared));
    let exact = candidates.iter().position(|candidate| candidate.declared == given);
    let declared = match exact {
        Some(exact) => candidates[exact].declared.clone(),
        None => {
            let all = built_in.iter().chain(candidates.iter().map(|candidate| &candidate.declared)).cloned().collect();
            match ops::select_candidate(given, all) {
                Some(declared) => declared,
                None if candidates.is_empty() && !built_in.iter().any(|declared| fits(declared)) => {
                    return Choice::Nothing;
                }
                None => return Choice::Several,
            }
        }
    };
    if exact.is_none() && built_in.contains(&declared) {
        return Choice::BuiltIn;
    }
    match candidates.into_iter().find(|candidate| candidate.declared == declared) {
        Some(found) if found.has_equal => Choice::Several,
        Some(found) => Choice::Routine(found),
        None => Choice::Nothing,
    }
}

/// Returns a call with the types of its arguments.
fn signature(call: &FunctionCall, given: &[Typed]) -> String {
    let argument = |(argument, typed): (&Argument, &Typed)| match &argument.name {
        Some(name) => format!("{name} => {}", typed.kind.kind.name()),
        None => typed.kind.kind.name(),
    };
    let arguments: Vec<String> = call.arguments.iter().zip(given).map(argument).collect();
    format!("{}({})", call.name, arguments.join(", "))
}
