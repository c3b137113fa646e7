//! Calls of functions and aggregates; aggregates are collected for the grouping.

use super::calls::{AGGREGATES, CallKey};
use super::place::call_start;
use super::routines::{CallMeaning, CallStyle};
use super::{Binder, Clause, NameScope};
use crate::plan::{AggregateCall, Expr, SortKey, Typed, rewrite, visit};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use syntax::ast::{self, Argument, FunctionCall, SessionValue};
use syntax::lex::Span;
use types::ops::{self, Callee, CastContext};
use types::{Kind, SqlType};

/// True if a value can be cast to a type.
fn is_cast(value: &Typed, to: Kind) -> bool {
    let from = value.kind.kind;
    from == Kind::Unknown || from == to || ops::find_cast(from, to, CastContext::Explicit).is_some()
}

impl Binder<'_> {
    /// Binds a call. Errors of the call as a whole point to its name.
    pub fn function(&self, call: &FunctionCall, span: Span, scope: &NameScope<'_>) -> SqlResult<Typed> {
        match self.called(call, scope) {
            Ok(typed) if typed.place.is_known() => Ok(typed),
            Ok(typed) => Ok(typed.at(call_start(call, span))),
            // An error with a position is about an argument.
            Err(error) if error.is_placed() => Err(error),
            Err(error) => Err(self.at_name(in_schema_of(error, &call.name), &call.name)),
        }
    }

    /// Returns the error for a function with a client's schema: `42883`, or `3F000` if the schema does not exist.
    pub(super) fn foreign_function(&self, schema: &str, call: &FunctionCall, scope: &NameScope<'_>) -> SqlError {
        if self.catalog.schema(schema).is_none() {
            let message = format!("schema \"{schema}\" does not exist");
            return SqlError::new(SqlState::INVALID_SCHEMA_NAME, message);
        }
        self.unknown_function(call, scope)
    }

    /// Returns the error for a call of a function that does not exist; that of an argument which has one.
    fn unknown_function(&self, call: &FunctionCall, scope: &NameScope<'_>) -> SqlError {
        match self.given_arguments(&call.arguments, scope) {
            Ok(given) => self.no_routine(call, &given, CallStyle::Function, false),
            Err(error) => error,
        }
    }

    /// Returns the name by which the function of a call is looked up.
    fn own_name<'c>(&self, call: &'c FunctionCall, scope: &NameScope<'_>) -> SqlResult<&'c str> {
        match &call.name.parts[..] {
            [name] => Ok(name),
            [schema, name] if is_system(schema, name) => Ok(name),
            [schema, _] => Err(self.foreign_function(schema, call, scope)),
            _ => Err(SqlError::unsupported(format_args!("the function {}", call.name))),
        }
    }

    fn called(&self, call: &FunctionCall, scope: &NameScope<'_>) -> SqlResult<Typed> {
        match self.find_routine(call, CallStyle::Function, scope)? {
            CallMeaning::Unknown => self.check_names(&call.arguments)?,
            CallMeaning::Routine(found) => return self.routine_in_expression(call, found, scope),
            CallMeaning::BuiltIn(arguments) => {
                let name = self.own_name(call, scope)?;
                check_plain(call, name)?;
                refuse!(call.is_variadic => "VARIADIC");
                if call.over.is_some() {
                    return Err(super::window::not_windowed(name));
                }
                return self.plain_call(name, arguments);
            }
        }
        refuse!(call.is_variadic => "VARIADIC");
        let name = self.own_name(call, scope)?;
        if call.arguments.iter().any(|argument| argument.name.is_some()) && !self.is_built_in(name) {
            return Err(self.unknown_function(call, scope));
        }
        if let Some(over) = &call.over {
            check_over(call, name)?;
            return self.window(call, name, over, scope);
        }
        if super::window::is_window(name) && !call.is_within_group {
            let message = format!("window function {name} requires an OVER clause");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        if call.is_within_group || ops::aggregates::is_ordered_set(name) {
            return self.ordered_set(call, name, scope);
        }
        if is_aggregate(name) {
            return self.aggregate(call, name, scope);
        }
        check_plain(call, name)?;
        if call.is_star {
            return Err(self.no_star(name));
        }
        if super::sets::is_set(name) {
            return self.set_in_list(name, &call.arguments, &call.name, scope);
        }
        match name {
            "json_build_object" | "json_build_array" => self.json_call(name, &self.unnamed(call)?, scope),
            "to_json" | "row_to_json" | "array_to_json" => self.json_of(name, &self.unnamed(call)?, scope),
            _ => self.plain_call(name, self.arguments(&call.arguments, scope)?),
        }
    }

    /// Binds a call with `WITHIN GROUP`, or of an aggregate that requires it.
    fn ordered_set(&self, call: &FunctionCall, name: &str, scope: &NameScope<'_>) -> SqlResult<Typed> {
        if !call.is_within_group {
            return self.call(name, self.arguments(&call.arguments, scope)?);
        }
        if ops::aggregates::is_ordered_set(name) {
            return self.aggregate(call, name, scope);
        }
        if matches!(name, "rank" | "dense_rank" | "percent_rank" | "cume_dist") {
            return Err(SqlError::unsupported(format_args!("the hypothetical-set aggregate {name}")));
        }
        // Like PostgreSQL, this looks for a function that takes all of these as arguments.
        let mut all = self.arguments(&call.arguments, scope)?;
        for key in &call.order_by {
            all.push(self.expr(&key.value, scope)?);
        }
        self.call(name, all)
    }

    /// Returns the error for `name(*)`, where the function is not an aggregate.
    pub(super) fn no_star(&self, name: &str) -> SqlError {
        if ops::resolve_function(self.env.functions(), name, &[]).is_ok() {
            let message = format!("{name}(*) specified, but {name} is not an aggregate function");
            return SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
        }
        no_function(name, &[])
    }

    /// Returns true if a function of this name is built in.
    fn is_built_in(&self, name: &str) -> bool {
        has_own_binding(name)
            || is_of_sequences(name)
            || super::advisory::call_named(name).is_some()
            || ops::said(name).is_some()
            || ops::is_function(self.env.functions(), name)
    }

    /// Binds the call of a function whose arguments are plain values.
    fn plain_call(&self, name: &str, arguments: Vec<Typed>) -> SqlResult<Typed> {
        match name {
            name if is_of_sequences(name) => self.sequence_call(name, arguments),
            _ => match (super::advisory::call_named(name), ops::said(name)) {
                (Some(call), _) => self.advisory_call(name, call, arguments),
                (None, Some(function)) if arguments.is_empty() => Ok(said(function)),
                (None, _) => self.call(name, arguments),
            },
        }
    }

    /// Binds `CURRENT_DATE` and its like.
    pub(super) fn session_value(&self, value: SessionValue) -> SqlResult<Typed> {
        let name = match value {
            SessionValue::CurrentDate => return Ok(now(Kind::Date)),
            SessionValue::CurrentTimestamp(precision) => return self.now_rounded(Kind::Timestamptz, precision),
            SessionValue::LocalTimestamp(precision) => return self.now_rounded(Kind::Timestamp, precision),
            SessionValue::CurrentTime(_) => return Err(SqlError::unsupported("CURRENT_TIME")),
            SessionValue::LocalTime(_) => return Err(SqlError::unsupported("LOCALTIME")),
            SessionValue::CurrentSchema => return self.call("current_schema", Vec::new()),
            SessionValue::CurrentRole => "current_role",
            SessionValue::CurrentUser => "current_user",
            SessionValue::User => "user",
            SessionValue::SessionUser => "session_user",
            SessionValue::CurrentCatalog => "current_catalog",
        };
        ops::said(name).map(said).ok_or_else(|| no_function(name, &[]))
    }

    /// Binds `CURRENT_TIMESTAMP`, with or without a precision.
    fn now_rounded(&self, kind: Kind, precision: Option<i32>) -> SqlResult<Typed> {
        match precision {
            None => Ok(now(kind)),
            Some(digits) => {
                let to = SqlType { kind, typmod: digits.min(super::typing::MAX_PRECISION) };
                self.coerce(now(kind), to, CastContext::Explicit)
            }
        }
    }

    /// Binds `NULLIF`.
    pub(super) fn null_if_equal(&self, left: Typed, right: Typed) -> SqlResult<Typed> {
        self.once([left], |binder, [left]| binder.null_if(left, right))
    }

    /// Binds `GREATEST` or `LEAST`.
    pub(super) fn extreme(&self, is_greatest: bool, arguments: Vec<Typed>) -> SqlResult<Typed> {
        let (arguments, kind) = self.common(arguments, if is_greatest { "GREATEST" } else { "LEAST" })?;
        Ok(Typed::new(Expr::Extreme { greatest: is_greatest, kind: self.comparable(kind.kind)?, arguments }, kind))
    }

    fn null_if(&self, left: Typed, right: Typed) -> SqlResult<Typed> {
        let (mut value, mut kind) = (left.expr.clone(), left.kind);
        let equal = self.operator("=", Some(left), right)?;
        // The result has the type that `=` has converted the left operand to.
        if let Expr::Call { callee: Callee::Operator(operator), arguments } = &equal.expr
            && let (Some(left), Some(argument)) = (operator.left, arguments.first())
            && kind.kind != left
        {
            (value, kind) = (argument.clone(), left.into());
        }
        let nothing = Expr::Constant(types::datum::Datum::Null);
        let expr = Expr::Case { whens: vec![(equal.expr, nothing)], otherwise: Box::new(value) };
        Ok(Typed::new(expr, super::settled(kind)))
    }

    /// Binds a function with a syntax of its own as [`Binder::call`] does. Its errors name the schema, as in
    /// PostgreSQL.
    pub(super) fn syntax_call(&self, name: &str, arguments: Vec<Typed>) -> SqlResult<Typed> {
        self.call(name, arguments).map_err(|error| in_schema(error, name))
    }

    /// Binds a call of a function in the table of functions.
    pub fn call(&self, name: &str, arguments: Vec<Typed>) -> SqlResult<Typed> {
        if let Some(called) = self.call_with_vectors(name, &arguments) {
            return called;
        }
        let kinds: Vec<Kind> = arguments.iter().map(|argument| argument.kind.kind).collect();
        let resolved = match ops::resolve_function(self.env.functions(), name, &kinds) {
            Ok(resolved) => resolved,
            // A call of a type's name with one argument is a cast, as in PostgreSQL's `func_get_detail`.
            Err(error) => match (Kind::from_typname(name), <[Typed; 1]>::try_from(arguments)) {
                (Some(to), Ok([value])) if error.state() == SqlState::UNDEFINED_FUNCTION && is_cast(&value, to) => {
                    return self.coerce(value, to.into(), CastContext::Explicit);
                }
                _ => return Err(error),
            },
        };
        let function = resolved.function;
        let declared = |at: usize| function.arguments.get(at).or(function.arguments.last()).copied();
        let mut arguments: Vec<Expr> = arguments
            .into_iter()
            .enumerate()
            .map(|(at, argument)| match declared(at) {
                Some(Kind::Void) | None => self.shown(argument),
                Some(Kind::Unknown) if let Expr::Parameter(at) = argument.expr => {
                    Err(self.at_place(super::undetermined(at), argument.place))
                }
                Some(kind) => self.argument(argument, kind),
            })
            .collect::<SqlResult<_>>()?;
        arguments.extend(resolved.told_types(&kinds).map(Expr::Constant));
        let expr = Expr::Call { callee: Callee::Function(function), arguments };
        Ok(Typed::new(expr, function.result))
    }

    /// Converts a value of any type to its text form. For Booleans this is `t` or `f`, unlike a cast to text.
    pub(super) fn shown(&self, argument: Typed) -> SqlResult<Expr> {
        match ops::casts::shown(argument.kind.kind).filter(|_| argument.kind.kind != Kind::Unknown) {
            None => self.argument(argument, Kind::Text),
            Some(cast) => {
                let (eval, to) = (cast.eval, Kind::Text.into());
                Ok(Expr::Cast { eval, to, argument: Box::new(argument.expr) })
            }
        }
    }

    /// Binds the arguments of a call.
    pub(super) fn arguments(&self, arguments: &[Argument], scope: &NameScope<'_>) -> SqlResult<Vec<Typed>> {
        arguments.iter().map(|argument| self.expr(self.value_of(argument)?, scope)).collect()
    }

    /// Returns the values of a call's arguments, which must not be named.
    fn unnamed<'c>(&self, call: &'c FunctionCall) -> SqlResult<Vec<&'c ast::Expr>> {
        call.arguments.iter().map(|argument| self.value_of(argument)).collect()
    }

    /// Returns the value of an argument.
    ///
    /// # Errors
    /// Fails with `0A000` if the argument is named.
    fn value_of<'c>(&self, argument: &'c Argument) -> SqlResult<&'c ast::Expr> {
        match &argument.name {
            None => Ok(&argument.value),
            Some(name) => {
                let value = argument.value.span.of(self.text);
                Err(SqlError::unsupported(format_args!("the argument {name} => {value}")))
            }
        }
    }

    fn aggregate(&self, function: &FunctionCall, name: &str, scope: &NameScope<'_>) -> SqlResult<Typed> {
        let grouping_error = |message: String| SqlError::new(SqlState::GROUPING_ERROR, message);
        let clause = scope.clause.get();
        // Arguments see the rows before grouping, so they have a clause of their own.
        scope.clause.set(Clause::Aggregate);
        let call = self.aggregate_call(function, name, scope);
        scope.clause.set(clause);
        let (mut call, kind) = call?;
        // An aggregate belongs to the innermost query whose row its arguments refer to.
        let level = level_of(&mut call, |_| true).unwrap_or(0);
        if level == 0 && clause == Clause::Aggregate {
            return Err(grouping_error("aggregate function calls cannot be nested".to_owned()));
        }
        let mut owner = scope;
        for _ in 0..level {
            let Some(parent) = owner.parent else { break };
            owner = parent;
        }
        // An aggregate inside it is legal only if it belongs to a query further out.
        if level_of(&mut call, is_aggregate_column) == Some(level) {
            return Err(grouping_error("aggregate function calls cannot be nested".to_owned()));
        }
        if !owner.clause.get().allows_aggregates() {
            return Err(grouping_error(match owner.clause.get() {
                Clause::Aggregate => "aggregate function calls cannot be nested".to_owned(),
                clause => format!("aggregate functions are not allowed in {}", clause.name()),
            }));
        }
        if 0 < level {
            call.parts_mut().try_for_each(|expr| inward(expr, level))?;
        }
        let mut calls = owner.calls.borrow_mut();
        // ORDER BY may refer to the value in the select list. Any other volatile call is evaluated on its own.
        let is_named = clause == Clause::OrderBy || !call.parts_mut().any(|part| part.is_volatile());
        let written = CallKey::new(function);
        let known = calls.aggregates.iter().position(|(other, ..)| level == 0 && is_named && other.is_same(&written));
        let at = known.unwrap_or(calls.aggregates.len());
        if known.is_none() {
            calls.aggregates.push((written, call, kind));
        }
        let column = AGGREGATES + at;
        let expr = if level == 0 { Expr::Column(column) } else { Expr::Outer { level, column } };
        Ok(Typed::new(expr, kind))
    }

    /// Binds the call of an aggregate. An ordered-set aggregate receives the sorted values, each together with its
    /// direct arguments.
    pub(super) fn aggregate_call(
        &self,
        function: &FunctionCall,
        name: &str,
        scope: &NameScope<'_>,
    ) -> SqlResult<(AggregateCall, SqlType)> {
        let FunctionCall { is_star, is_distinct, order_by, filter, .. } = function;
        let (arguments, own_name) = self.aggregate_arguments(function, name, scope)?;
        let kinds: Vec<Kind> = arguments.iter().map(|argument| argument.kind.kind).collect();
        if arguments.is_empty() && !is_star {
            if name != "count" {
                return Err(no_function(name, &[]));
            }
            let message = format!("{name}(*) must be used to call a parameterless aggregate function");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        // An ordered-set aggregate takes the sorted values as its first arguments, so that they are bound once, however
        // deep such calls nest. Messages list them last.
        let is_of_order = ops::aggregates::is_ordered_set(name);
        let aggregate = ops::resolve_aggregate(own_name, &kinds)
            .map_err(|error| match error.state() {
                SqlState::UNDEFINED_FUNCTION if is_of_order => {
                    let (keys, own) = arguments.split_at(order_by.len().min(arguments.len()));
                    no_function(name, &[own, keys].concat())
                }
                _ => error,
            })
            .map_err(|error| self.at_name(error, &function.name))?
            .ok_or_else(|| SqlError::unsupported(format_args!("the aggregate {name}")))?
            .aggregate;
        // Keys are also looked up among the arguments before coercion.
        let given: Vec<Expr> = match *is_distinct && !order_by.is_empty() {
            true => arguments.iter().map(|argument| argument.expr.clone()).collect(),
            false => Vec::new(),
        };
        let arguments: Vec<Expr> = arguments
            .into_iter()
            .zip(aggregate.arguments)
            .map(|(argument, to)| match to {
                // `Void` declares an argument of any type, which is passed without a cast.
                Kind::Void => Ok(argument.expr),
                to => self.argument(argument, *to),
            })
            .collect::<SqlResult<_>>()?;
        let filter = filter.as_ref().map(|filter| self.filter(filter, scope)).transpose()?;
        let argument_kinds: Vec<Kind> = aggregate
            .arguments
            .iter()
            .zip(&kinds)
            .map(|(declared, given)| if *declared == Kind::Void { *given } else { *declared })
            .collect();
        let mut order = Vec::with_capacity(order_by.len());
        for (at, key) in order_by.iter().enumerate() {
            let value = match argument_kinds.get(at).filter(|_| is_of_order) {
                Some(kind) => Typed::new(Expr::Column(at), *kind),
                None => self.expr(&key.value, scope)?,
            };
            order.push(self.sort_key(value, key)?);
        }
        if *is_distinct {
            argument_kinds.iter().try_for_each(|kind| self.groupable(*kind).map(drop))?;
            self.place_keys(&mut order, order_by, [&given, &arguments], scope)?;
            order_by_all(&mut order, &argument_kinds);
        }
        let kind = aggregate.result.into();
        let (is_distinct, orders_arguments) = (*is_distinct, *is_distinct || is_of_order);
        Ok((AggregateCall { aggregate, arguments, argument_kinds, is_distinct, order, orders_arguments, filter }, kind))
    }

    /// Binds the arguments of an aggregate, and returns them with the name by which it is looked up.
    fn aggregate_arguments<'n>(
        &self,
        function: &FunctionCall,
        name: &'n str,
        scope: &NameScope<'_>,
    ) -> SqlResult<(Vec<Typed>, &'n str)> {
        if function.is_star {
            return Ok((Vec::new(), name));
        }
        let values = self.unnamed(function)?;
        match (name, &values[..]) {
            ("json_agg", [value]) => {
                let (value, is_structured) = self.json_argument(value, scope)?;
                let own_name = if is_structured { ops::aggregates::JSON_ROWS } else { name };
                Ok((vec![value], own_name))
            }
            ("json_object_agg", [key, value]) => {
                let key = self.json_key(self.expr(key, scope)?)?;
                Ok((vec![key, self.json_argument(value, scope)?.0], name))
            }
            _ => {
                let keys = function.order_by.iter().filter(|_| function.is_within_group).map(|key| &key.value);
                let all = keys.chain(values).map(|value| self.expr(value, scope));
                Ok((all.collect::<SqlResult<_>>()?, name))
            }
        }
    }

    /// Binds the condition of `FILTER`.
    fn filter(&self, filter: &ast::Expr, scope: &NameScope<'_>) -> SqlResult<Expr> {
        let clause = scope.clause.replace(Clause::Filter);
        let filter = self.expr(filter, scope).and_then(|filter| self.condition(filter, "FILTER"));
        scope.clause.set(clause);
        filter
    }

    /// Replaces the sort keys of an aggregate with `DISTINCT` by columns of its arguments. Since the arguments are
    /// sorted to find duplicates anyway, keys can only be arguments.
    fn place_keys(
        &self,
        order: &mut [SortKey],
        written: &[ast::SortBy],
        [given, arguments]: [&[Expr]; 2],
        scope: &NameScope<'_>,
    ) -> SqlResult<()> {
        for (key, written) in order.iter_mut().zip(written) {
            let is_it = |expr: &Expr| self.are_same(expr, &key.value, scope);
            let Some(at) = given.iter().position(is_it).or_else(|| arguments.iter().position(is_it)) else {
                let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
                let error = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
                return Err(self.at_expr(error, &written.value));
            };
            key.value = Expr::Column(at);
        }
        Ok(())
    }
}

/// Appends sort keys for the arguments that are not keys yet.
fn order_by_all(order: &mut Vec<SortKey>, kinds: &[Kind]) {
    for (at, kind) in kinds.iter().enumerate() {
        let is_there = order.iter().any(|key| matches!(key.value, Expr::Column(own) if own == at));
        if !is_there {
            order.push(SortKey { value: Expr::Column(at), kind: *kind, descending: false, nulls_first: false });
        }
    }
}

/// True if a function with this schema is a system function.
pub(super) fn is_system(schema: &str, name: &str) -> bool {
    schema == types::PG_CATALOG || (schema == "information_schema" && name == "_pg_expandarray")
}

/// # Errors
/// Fails with `0A000` if the call has a clause that window functions do not take.
fn check_over(call: &FunctionCall, name: &str) -> SqlResult<()> {
    if call.is_distinct {
        let message = "DISTINCT is not implemented for window functions";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    if call.is_within_group {
        let message = format!("OVER is not supported for ordered-set aggregate {name}");
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    refuse!(!call.order_by.is_empty() => "ORDER BY among the arguments of a window function");
    Ok(())
}

/// # Errors
/// Fails with `42809` if the call has a clause that only aggregates take.
pub(super) fn check_plain(call: &FunctionCall, name: &str) -> SqlResult<()> {
    let clause = match (call.is_distinct, call.order_by.is_empty(), &call.filter) {
        (true, ..) => "DISTINCT",
        (_, false, _) => "ORDER BY",
        (_, _, Some(_)) => "FILTER",
        (false, true, None) => return Ok(()),
    };
    let message = format!("{clause} specified, but {name} is not an aggregate function");
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
}

/// True if an expression contains a call of an aggregate.
pub(super) fn has_aggregate(expr: &Expr) -> bool {
    let mut found = false;
    visit(expr, 0, &mut |expr, depth| {
        found |= depth == 0 && matches!(expr, Expr::Column(at) if AGGREGATES <= *at && *at < super::calls::WINDOWS);
    });
    found
}

/// True for the name of a function of sequences.
fn is_of_sequences(name: &str) -> bool {
    matches!(name, "nextval" | "currval" | "setval" | "lastval")
}

/// True if a column is the placeholder of an aggregate.
fn is_aggregate_column(column: usize) -> bool {
    (AGGREGATES..super::calls::WINDOWS).contains(&column)
}

/// Returns the distance, in query levels, of the nearest row that a call refers to by the counted columns.
fn level_of(call: &mut AggregateCall, is_counted: impl Fn(usize) -> bool) -> Option<usize> {
    let mut least: Option<usize> = None;
    for part in call.parts_mut() {
        visit(part, 0, &mut |expr, depth| {
            let level = match expr {
                Expr::Column(column) if depth == 0 && is_counted(*column) => Some(0),
                Expr::Outer { level, column } if is_counted(*column) => level.checked_sub(depth),
                _ => None,
            };
            // References to rows of queries inside the call do not count.
            if let Some(level) = level.filter(|level| 0 < *level || depth == 0) {
                least = Some(least.map_or(level, |least| least.min(level)));
            } else if matches!(expr, Expr::Outer { level, column } if *level == depth && 0 < depth && is_counted(*column))
            {
                least = Some(0);
            }
        });
    }
    least
}

/// Rewrites an expression for the query that is `by` levels further out.
fn inward(expr: &mut Expr, by: usize) -> SqlResult<()> {
    rewrite(expr, 0, &mut |expr, depth| {
        if let Expr::Outer { level, column } = expr
            && depth < *level
        {
            let left = level.saturating_sub(by);
            *expr = if left == 0 { Expr::Column(*column) } else { Expr::Outer { level: left, column: *column } };
            return Ok(true);
        }
        Ok(false)
    })
}

/// Returns the error `42883` in PostgreSQL's words.
pub(super) fn no_function(name: &str, given: &[Typed]) -> SqlError {
    let kinds: Vec<Kind> = given.iter().map(|one| one.kind.kind).collect();
    ops::function_error(name, &kinds, false)
}

/// Qualifies the function in an error if the call has named `pg_catalog`.
fn in_schema_of(error: SqlError, name: &ast::ObjectName) -> SqlError {
    match &name.parts[..] {
        [schema, name] if **schema == *types::PG_CATALOG => in_schema(error, name),
        _ => error,
    }
}

/// Qualifies the function in an error with `pg_catalog`.
fn in_schema(error: SqlError, name: &str) -> SqlError {
    match error.state() {
        SqlState::UNDEFINED_FUNCTION | SqlState::AMBIGUOUS_FUNCTION => {
            error.replaced(&format!("function {name}("), &format!("function pg_catalog.{name}("))
        }
        _ => error,
    }
}

/// True for the name of an aggregate, a window function or another whose calls are not bound as plain calls are.
pub(super) fn has_own_binding(name: &str) -> bool {
    is_aggregate(name)
        || super::window::is_window(name)
        || super::sets::is_set(name)
        || ops::aggregates::is_ordered_set(name)
        || matches!(
            name,
            "json_build_object" | "json_build_array" | "to_json" | "row_to_json" | "array_to_json" | "grouping"
        )
}

/// True if a name is that of an aggregate.
pub fn is_aggregate(name: &str) -> bool {
    !matches!(ops::resolve_aggregate(name, &[]), Ok(None))
}

/// Returns the call of a function that has a syntax of its own, such as `CURRENT_USER`.
fn said(function: &'static ops::Function) -> Typed {
    Typed::new(Expr::Call { callee: Callee::Function(function), arguments: Vec::new() }, function.result)
}

fn now(kind: Kind) -> Typed {
    Typed::new(Expr::Now { to: kind.into() }, kind)
}
