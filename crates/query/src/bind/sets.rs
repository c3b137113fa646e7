//! Set-returning functions in `FROM` and in the select list.

use super::calls::SETS;
use super::from::input;
use super::functions::is_system;
use super::{Binder, Clause, FromRelation, NameScope, column_info};
use crate::plan::{Expr, InputKind, JoinGroup, SetCall, SetFunction, Slots, Typed, slots_of, visit};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use syntax::ast::{self, Argument, ExprKind, FunctionCall};
use types::datum::Datum;
use types::interval::Interval;
use types::numeric::Numeric;
use types::ops::{self, CastContext};
use types::{Kind, SqlType};

/// Hint for a set where rows cannot be multiplied.
const MOVE_TO_FROM: &str = "You might be able to move the set-returning function into a LATERAL FROM item.";

/// True if a name is that of a set-returning function.
pub(super) fn is_set(name: &str) -> bool {
    matches!(
        name,
        "generate_series"
            | "unnest"
            | "generate_subscripts"
            | "string_to_table"
            | "pg_partition_ancestors"
            | "pg_listening_channels"
            | "json_array_elements"
            | "json_array_elements_text"
            | "json_object_keys"
            | "regexp_split_to_table"
            | "regexp_matches"
    ) || !fields_of(name).is_empty()
}

/// Returns the columns of a function whose rows have several; empty for any other.
pub(super) fn fields_of(name: &str) -> &'static [&'static str] {
    match name {
        "json_each" | "json_each_text" => &["key", "value"],
        "pg_options_to_table" => &["option_name", "option_value"],
        "aclexplode" => &["grantor", "grantee", "privilege_type", "is_grantable"],
        "_pg_expandarray" => &["x", "n"],
        _ => &[],
    }
}

/// Returns the name of a function's single output column, if it has one that a table alias does not change.
fn output_of(name: &str) -> Option<&'static str> {
    match name {
        "json_array_elements" | "json_array_elements_text" => Some("value"),
        "pg_partition_ancestors" => Some("relid"),
        _ => None,
    }
}

/// Returns the call and the function's name, if an expression calls a function with several columns.
pub(super) fn composite(expr: &ast::Expr) -> Option<(&FunctionCall, &str)> {
    let ExprKind::Call(call) = &expr.kind else { return None };
    let name = call.name.parts.last().filter(|name| !fields_of(name).is_empty())?;
    Some((call, name))
}

/// Returns the name of the column for a field of a composite value. It contains a NUL, so no client can write it.
pub(super) fn field_name(value: &str, field: &str) -> String {
    format!("{value}\0{field}")
}

/// True if an expression contains a call of a set-returning function.
pub(super) fn has_set(expr: &Expr) -> bool {
    let mut found = false;
    visit(expr, 0, &mut |expr, _| {
        found |= matches!(expr, Expr::Column(at) if SETS <= *at && *at < super::calls::GROUPINGS)
    });
    found
}

/// # Errors
/// `0A000` if an argument of a set-returning function is a set itself.
pub(super) fn check_set_arguments(arguments: &[Typed]) -> SqlResult<()> {
    refuse!(arguments.iter().any(|argument| has_set(&argument.expr))
        => "a set among the arguments of a function that returns a set");
    Ok(())
}

impl Binder<'_> {
    /// Binds an expression that may not be evaluated for each row, where set-returning functions are illegal.
    ///
    /// # Errors
    /// Fails with `0A000` if it calls one.
    pub(super) fn without_sets<T>(
        &self,
        what: &str,
        scope: &NameScope<'_>,
        bind: impl FnOnce() -> SqlResult<T>,
    ) -> SqlResult<T> {
        let before = scope.calls.borrow().sets.len();
        let bound = bind()?;
        if before < scope.calls.borrow().sets.len() {
            let message = format!("set-returning functions are not allowed in {what}");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).hint(MOVE_TO_FROM));
        }
        Ok(bound)
    }

    /// Binds a call of a set-returning function in the select list.
    pub(super) fn set_in_list(
        &self,
        name: &str,
        args: &[Argument],
        written: &ast::ObjectName,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        self.check_set_place(written, scope)?;
        let arguments = self.arguments(args, scope)?;
        check_set_arguments(&arguments)?;
        if !fields_of(name).is_empty() {
            return Err(SqlError::unsupported(format_args!("a composite value of {name} here")));
        }
        let (call, kind) = self.set_call(name, arguments).map_err(|error| self.at_name(error, written))?;
        Ok(Typed::new(self.collect_set(call, scope), kind))
    }

    /// Checks that a set-returning function may be called in the clause that is being bound.
    ///
    /// # Errors
    /// `0A000`
    pub(super) fn check_set_place(&self, written: &ast::ObjectName, scope: &NameScope<'_>) -> SqlResult<()> {
        let error = match scope.clause.get() {
            clause @ (Clause::Aggregate | Clause::Window) => {
                let message = format!("{} cannot contain set-returning function calls", clause.name());
                SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).hint(MOVE_TO_FROM)
            }
            clause if clause.allows_sets() => return Ok(()),
            clause => {
                let message = format!("set-returning functions are not allowed in {}", clause.name());
                SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            }
        };
        Err(self.at_name(error, written))
    }

    /// Adds a call of a set-returning function to those of the query. Returns the column of its values.
    pub(super) fn collect_set(&self, call: SetCall, scope: &NameScope<'_>) -> Expr {
        let mut calls = scope.calls.borrow_mut();
        // ORDER BY and DISTINCT ON may refer to the value in the select list.
        let is_named = scope.clause.get() != Clause::SelectList && !call.arguments.iter().any(Expr::is_volatile);
        let known = calls.sets.iter().position(|other| is_named && self.are_same_sets(other, &call, scope));
        let at = known.unwrap_or(calls.sets.len());
        if known.is_none() {
            calls.sets.push(call);
        }
        Expr::Column(SETS + at)
    }

    /// Binds a composite value in the select list to adjacent columns for its fields.
    pub(super) fn composite_in_list(
        &self,
        function: &FunctionCall,
        name: &str,
        scope: &NameScope<'_>,
    ) -> SqlResult<Vec<(&'static str, Typed)>> {
        if scope.clause.get() != Clause::SelectList {
            return Err(SqlError::unsupported("a composite value outside of a select list"));
        }
        let found = self.set_arguments(function, name, scope);
        let found = found.and_then(|arguments| self.composite_calls(name, arguments));
        let found = found.map_err(|error| self.at_name(error, &function.name))?;
        let mut calls = scope.calls.borrow_mut();
        let value = |((call, kind), field): ((SetCall, SqlType), &&'static str)| {
            calls.sets.push(call);
            (*field, Typed::new(Expr::Column(SETS + calls.sets.len() - 1), kind))
        };
        Ok(found.into_iter().zip(fields_of(name)).map(value).collect())
    }

    /// Returns a set-returning call for each column of a composite function.
    fn composite_calls(&self, name: &str, mut arguments: Vec<Typed>) -> SqlResult<Vec<(SetCall, SqlType)>> {
        let of_items = |function: &str, arguments: Vec<Typed>, kind: Kind| {
            let arguments = vec![self.call(function, arguments)?.expr];
            Ok::<_, SqlError>((SetCall { function: SetFunction::Unnest, arguments }, SqlType::from(kind)))
        };
        if name == "pg_options_to_table" {
            let names = of_items("[option names]", arguments.clone(), Kind::Text)?;
            return Ok(vec![names, of_items("[option values]", arguments, Kind::Text)?]);
        }
        if name == "aclexplode" {
            let of = |function: &str, kind: Kind| of_items(function, arguments.clone(), kind);
            return Ok(vec![
                of("[acl grantors]", Kind::Oid)?,
                of("[acl grantees]", Kind::Oid)?,
                of("[acl privileges]", Kind::Text)?,
                of("[acl options]", Kind::Bool)?,
            ]);
        }
        if name != "_pg_expandarray" {
            let kind = if name == "json_each" { Kind::Json } else { Kind::Text };
            let values = of_items(name, arguments.clone(), kind)?;
            return Ok(vec![of_items("json_each_keys", arguments, Kind::Text)?, values]);
        }
        let [array] = &mut arguments[..] else {
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {name} takes one argument")));
        };
        if super::vectors::array_of(array.kind.kind).is_some() {
            let element = array.kind.kind.element().unwrap_or(Kind::Int2);
            if let Some(kind) = element.array_of() {
                array.kind = kind.into();
            }
        }
        let one = Typed::new(Expr::Constant(Datum::Int4(1)), Kind::Int4);
        let places = vec![array.clone(), one];
        Ok(vec![self.set_call("unnest", arguments)?, self.set_call("generate_subscripts", places)?])
    }

    /// Resolves a set-returning function, and converts its arguments to the declared types.
    fn set_call(&self, name: &str, mut arguments: Vec<Typed>) -> SqlResult<(SetCall, SqlType)> {
        let kinds: Vec<Kind> = arguments.iter().map(|argument| argument.kind.kind).collect();
        let no_such = || {
            let names: Vec<String> = kinds.iter().map(|kind| kind.name()).collect();
            let message = format!("function {name}({}) does not exist", names.join(", "));
            SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(
                "No function matches the given name and argument types. You might need to add explicit type casts.",
            )
        };
        let ambiguous = || {
            let names: Vec<String> = kinds.iter().map(|kind| kind.name()).collect();
            let message = format!("function {name}({}) is not unique", names.join(", "));
            SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message)
                .hint("Could not choose a best candidate function. You might need to add explicit type casts.")
        };
        let as_kinds = |arguments: Vec<Typed>, to: &[Kind]| {
            arguments
                .into_iter()
                .zip(to)
                .map(|(argument, to)| self.argument(argument, *to))
                .collect::<SqlResult<Vec<_>>>()
        };
        let constant = |datum: Datum, kind: Kind| Typed::new(Expr::Constant(datum), kind);
        match (name, &kinds[..]) {
            ("generate_series", [from, to, step @ ..]) if step.len() <= 1 => {
                let (kind, step_kind) = series_kind(*from, *to, step.first().copied()).ok_or_else(|| {
                    if kinds.iter().all(|kind| *kind == Kind::Unknown) { ambiguous() } else { no_such() }
                })?;
                let (one, zero) = match step_kind {
                    Kind::Int4 => (Datum::Int4(1), Datum::Int4(0)),
                    Kind::Int8 => (Datum::Int8(1), Datum::Int8(0)),
                    Kind::Numeric => (Datum::Numeric(Numeric::from(1_i64)), Datum::Numeric(Numeric::ZERO)),
                    // Series of dates and timestamps step by intervals, which have no default.
                    Kind::Interval => (Datum::Null, Datum::Interval(Interval::default())),
                    other => {
                        let message = format!("a series that steps by {}", other.name());
                        return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
                    }
                };
                if step.is_empty() {
                    arguments.push(constant(one, step_kind));
                }
                let add = ops::resolve_operator("+", Some(kind), step_kind)?.operator.eval;
                let function = SetFunction::Series { kind, step: step_kind, add, zero };
                let arguments = as_kinds(arguments, &[kind, kind, step_kind])?;
                Ok((SetCall { function, arguments }, kind.into()))
            }
            ("unnest", [Kind::Unknown]) => Err(ambiguous()),
            ("unnest", [Kind::Array(element)]) => {
                let kind = element.kind().into();
                let arguments = arguments.into_iter().map(|argument| argument.expr).collect();
                Ok((SetCall { function: SetFunction::Unnest, arguments }, kind))
            }
            ("generate_subscripts", [array, _, reverse @ ..]) if reverse.len() <= 1 && array.element().is_some() => {
                if reverse.is_empty() {
                    arguments.push(constant(Datum::Bool(false), Kind::Bool));
                }
                let arguments = as_kinds(arguments, &[*array, Kind::Int4, Kind::Bool])?;
                let first = if super::vectors::array_of(*array).is_some() { 0 } else { 1 };
                Ok((SetCall { function: SetFunction::Subscripts { first }, arguments }, Kind::Int4.into()))
            }
            ("unnest", [vector]) if super::vectors::array_of(*vector).is_some() => {
                let kind = vector.element().unwrap_or(*vector).into();
                let arguments = arguments.into_iter().map(|argument| argument.expr).collect();
                Ok((SetCall { function: SetFunction::Unnest, arguments }, kind))
            }
            // LISTEN is refused, so a session listens on no channel.
            ("pg_listening_channels", []) => {
                let arguments = vec![Expr::Constant(Datum::Array(Box::default()))];
                Ok((SetCall { function: SetFunction::Unnest, arguments }, Kind::Text.into()))
            }
            ("pg_partition_ancestors", [_]) => {
                let all = vec![self.call(name, arguments)?.expr];
                Ok((SetCall { function: SetFunction::Unnest, arguments: all }, Kind::Regclass.into()))
            }
            ("json_array_elements" | "json_array_elements_text" | "json_object_keys" | "regexp_split_to_table", _) => {
                let kind = if name == "json_array_elements" { Kind::Json } else { Kind::Text };
                let all = vec![self.call(name, arguments)?.expr];
                Ok((SetCall { function: SetFunction::Unnest, arguments: all }, kind.into()))
            }
            ("regexp_matches", _) => {
                let kind = Kind::Array(types::Element::Text);
                let all = vec![self.call(name, arguments)?.expr];
                Ok((SetCall { function: SetFunction::Unnest, arguments: all }, kind.into()))
            }
            ("string_to_table", [_, _, null @ ..]) if null.len() <= 1 => {
                if null.is_empty() {
                    arguments.push(constant(Datum::Null, Kind::Text));
                }
                let arguments = as_kinds(arguments, &[Kind::Text; 3])?;
                Ok((SetCall { function: SetFunction::StringToTable, arguments }, Kind::Text.into()))
            }
            _ => Err(no_such()),
        }
    }

    /// Binds a function in `FROM`: a set-returning function, `unnest` of several arrays side by side, or any other
    /// function as a set of one row.
    pub(super) fn function_in_from(
        &self,
        written: &ast::Expr,
        is_numbered: bool,
        alias: Option<&ast::Alias>,
        scope: &mut NameScope<'_>,
    ) -> SqlResult<JoinGroup> {
        let call = match &written.kind {
            ExprKind::Call(call) => Some(&**call),
            _ => None,
        };
        if let Some(call) = call
            && let Some(group) = self.routine_in_from(call, is_numbered, alias, scope)?
        {
            return Ok(group);
        }
        let name = match call {
            Some(call) => self.name_in_from(call, scope)?,
            None => super::query::name_of(written),
        };
        let is_bare = call.is_some_and(|call| call.arguments.is_empty() && !call.is_star) && !is_numbered;
        if let Some(table) = catalog::system::function_in_from(&name).filter(|_| is_bare) {
            return self.system_in_from(&table, &name, alias, scope);
        }
        let clause = scope.clause.replace(Clause::From);
        scope.is_lateral.set(true);
        let calls = match call {
            Some(call) if is_set(&name) => self.set_calls(call, &name, scope),
            _ => self.set_of_one(written, scope).map(|call| vec![call]),
        };
        scope.is_lateral.set(false);
        scope.clause.set(clause);
        self.functions_as_item(&name, calls?, is_numbered, alias, scope)
    }

    /// Returns the name by which a function in `FROM` is looked up.
    fn name_in_from(&self, call: &FunctionCall, scope: &NameScope<'_>) -> SqlResult<String> {
        match &call.name.parts[..] {
            [name] => Ok(name.to_string()),
            [schema, name] if is_system(schema, name) => Ok(name.to_string()),
            [schema, _] => Err(self.foreign_function(schema, call, scope)),
            _ => Err(SqlError::unsupported("this function in FROM")),
        }
    }

    /// Adds these functions, whose rows stand side by side, as one item of `FROM`.
    fn functions_as_item(
        &self,
        name: &str,
        calls: Vec<(SetCall, SqlType)>,
        is_numbered: bool,
        alias: Option<&ast::Alias>,
        scope: &mut NameScope<'_>,
    ) -> SqlResult<JoinGroup> {
        let first = scope.width;
        let alias_name = alias.and_then(|alias| alias.name.as_deref());
        let own = match (output_of(name), alias_name, &calls[..]) {
            (Some(output), ..) => output,
            (None, Some(alias), [_]) => alias,
            _ => name,
        };
        let mut columns: Vec<_> = calls.iter().map(|(_, kind)| column_info(own, *kind)).collect();
        for (column, field) in columns.iter_mut().zip(fields_of(name)) {
            (*field).clone_into(&mut column.name);
        }
        if is_numbered {
            columns.push(column_info("ordinality", Kind::Int8.into()));
        }
        let width = columns.len();
        let relation = self.relation(name, alias, columns, first, None)?;
        scope.add(FromRelation { is_value: width == 1, ..relation }, width)?;
        let calls: Vec<SetCall> = calls.into_iter().map(|(call, _)| call).collect();
        let mut needs = Slots::default();
        calls.iter().flat_map(|call| &call.arguments).for_each(|argument| needs.add_all(&slots_of(argument)));
        Ok(input(InputKind::Functions { calls, is_numbered }, first, width, needs))
    }

    /// Binds a value as a set of one row.
    fn set_of_one(&self, written: &ast::Expr, scope: &NameScope<'_>) -> SqlResult<(SetCall, SqlType)> {
        let value = self.expr(written, scope)?;
        let kind = super::settled(value.kind);
        let value = self.coerce(value, kind, CastContext::Implicit)?;
        Ok((SetCall { function: SetFunction::One, arguments: vec![value.expr] }, kind))
    }

    /// Binds a call in `FROM` to set-returning calls whose rows stand side by side.
    fn set_calls(&self, call: &FunctionCall, name: &str, scope: &NameScope<'_>) -> SqlResult<Vec<(SetCall, SqlType)>> {
        let arguments = self.set_arguments(call, name, scope)?;
        if !fields_of(name).is_empty() {
            return self.composite_calls(name, arguments);
        }
        if name == "unnest" && 1 < arguments.len() {
            return arguments.into_iter().map(|argument| self.set_call(name, vec![argument])).collect();
        }
        Ok(vec![self.set_call(name, arguments)?])
    }

    /// Binds the arguments of a set-returning function.
    fn set_arguments(&self, call: &FunctionCall, name: &str, scope: &NameScope<'_>) -> SqlResult<Vec<Typed>> {
        refuse!(call.is_variadic => "VARIADIC");
        if call.over.is_some() {
            return Err(super::window::not_windowed(name));
        }
        super::functions::check_plain(call, name)?;
        if call.is_star {
            return Err(self.no_star(name));
        }
        self.arguments(&call.arguments, scope)
    }
}

/// Returns the type of a series and that of its step.
fn series_kind(from: Kind, to: Kind, step: Option<Kind>) -> Option<(Kind, Kind)> {
    let ends = [from, to];
    let is_time = |kind: &Kind| matches!(kind, Kind::Date | Kind::Timestamp | Kind::Timestamptz);
    if ends.iter().any(is_time) || step == Some(Kind::Interval) {
        let fits = ends.iter().all(|kind| is_time(kind) || *kind == Kind::Unknown)
            && matches!(step, Some(Kind::Interval | Kind::Unknown));
        let is_plain = ends.contains(&Kind::Timestamp) && !ends.contains(&Kind::Timestamptz);
        return fits.then_some((if is_plain { Kind::Timestamp } else { Kind::Timestamptz }, Kind::Interval));
    }
    let all: Vec<Kind> = ends.into_iter().chain(step).collect();
    if all.iter().all(|kind| *kind == Kind::Unknown) {
        return None;
    }
    let known = || all.iter().filter(|kind| **kind != Kind::Unknown);
    let kind = if known().all(|kind| matches!(kind, Kind::Int2 | Kind::Int4)) {
        Kind::Int4
    } else if known().all(|kind| matches!(kind, Kind::Int2 | Kind::Int4 | Kind::Int8)) {
        Kind::Int8
    } else if known().all(|kind| matches!(kind, Kind::Int2 | Kind::Int4 | Kind::Int8 | Kind::Numeric)) {
        Kind::Numeric
    } else {
        return None;
    };
    Some((kind, kind))
}
