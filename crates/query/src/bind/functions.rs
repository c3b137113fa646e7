//! Calls of functions, and of aggregates, which are collected for the grouping.

use super::calls::{AGGREGATES, Written};
use super::{Binder, Clause, Scope};
use crate::plan::{AggregateCall, Expr, SortKey, Typed, rewrite, visit};
use sqlparser::ast::{self, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArguments, Spanned};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use types::datum::Datum;
use types::ops::{self, Context};
use types::{Kind, SqlType};

/// Says whether a value can be cast to a type.
fn is_cast(value: &Typed, to: Kind) -> bool {
    let from = value.kind.kind;
    from == Kind::Unknown || from == to || ops::find_cast(from, to, Context::Explicit).is_some()
}

impl Binder<'_> {
    /// A call. What is wrong with it as a whole stands where its name does.
    pub fn function(&self, function: &ast::Function, scope: &Scope<'_>) -> SqlResult<Typed> {
        self.called(function, scope).map_err(|error| {
            let error = match &function.name.0[..] {
                [schema, ast::ObjectNamePart::Identifier(name)] if schema.to_string() == "pg_catalog" => {
                    in_schema(error, &syntax::parse::folded(name))
                }
                _ => error,
            };
            self.at_name(error, &function.name)
        })
    }

    /// # Errors
    /// `42601` for a call that PostgreSQL's grammar knows, with too few or too many arguments.
    fn check_count(&self, name: &str, written: &ast::ObjectName, args: &[FunctionArg]) -> SqlResult<()> {
        let most = match name {
            "nullif" => 2,
            "coalesce" | "greatest" | "least" => usize::MAX,
            _ => return Ok(()),
        };
        let least = if name == "nullif" { 2 } else { 1 };
        let (place, near) = match args.get(most) {
            Some(extra) => (self.source.word_before(extra.span().into(), &[","]), ","),
            None if args.len() < least => {
                let from = args.last().map_or(written.span(), Spanned::span);
                (self.source.word_after(from.into(), &[")"]), ")")
            }
            None => return Ok(()),
        };
        let message = format!("syntax error at or near \"{near}\"");
        Err(self.at_place(SqlError::new(SqlState::SYNTAX_ERROR, message), place))
    }

    /// # Errors
    /// `42883`, or `3F000` if not even the schema is there: a function of a schema of the client's.
    pub(super) fn foreign_function(
        &self,
        schema: &str,
        name: &str,
        args: &[FunctionArg],
        scope: &Scope<'_>,
    ) -> SqlError {
        if self.catalog.schema(schema).is_none() {
            let message = format!("schema \"{schema}\" does not exist");
            return SqlError::new(SqlState::INVALID_SCHEMA_NAME, message);
        }
        match self.arguments(args, scope) {
            Ok(given) => no_function(&format!("{schema}.{name}"), &given),
            Err(error) => error,
        }
    }

    fn called(&self, function: &ast::Function, scope: &Scope<'_>) -> SqlResult<Typed> {
        let ast::Function { name, uses_odbc_syntax, parameters, args, within_group, filter, null_treatment, over } =
            function;
        refuse!(
            *uses_odbc_syntax => "the ODBC syntax of functions",
            *parameters != FunctionArguments::None => "a function with parameters",
            null_treatment.is_some() => "RESPECT NULLS and IGNORE NULLS",
        );
        let parts = self.name_parts(name)?;
        let name_text = match &parts[..] {
            [name] => name.as_str(),
            [schema, name] if schema == "pg_catalog" => name.as_str(),
            [schema, name] if schema == "information_schema" && name == "_pg_expandarray" => name.as_str(),
            [schema, own] => {
                let args = if let FunctionArguments::List(list) = args { &list.args[..] } else { &[] };
                return Err(self.foreign_function(schema, own, args, scope));
            }
            _ => return Err(SqlError::unsupported(format_args!("the function {name}"))),
        };
        let (distinct, args, order) = match args {
            FunctionArguments::None => (false, &[][..], &[][..]),
            FunctionArguments::Subquery(query) if name_text == "array" => return self.array_query(query, scope),
            FunctionArguments::Subquery(_) => return Err(SqlError::unsupported("a query as an argument")),
            FunctionArguments::List(ast::FunctionArgumentList { duplicate_treatment, args, clauses }) => {
                let order = match &clauses[..] {
                    [] => &[][..],
                    [ast::FunctionArgumentClause::OrderBy(order)] => order,
                    _ => return Err(SqlError::unsupported("a clause among arguments")),
                };
                (*duplicate_treatment == Some(DuplicateTreatment::Distinct), &args[..], order)
            }
        };
        if let Some(over) = over {
            if distinct {
                let message = "DISTINCT is not implemented for window functions";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            refuse!(!order.is_empty() => "ORDER BY among the arguments of a window function");
            return self.window(function, name_text, args, over, scope);
        }
        if super::window::is_window(name_text) && within_group.is_empty() {
            let message = format!("window function {name_text} requires an OVER clause");
            return Err(self.at_name(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message), name));
        }
        if !within_group.is_empty() && (distinct || !order.is_empty()) {
            let what = if distinct { "DISTINCT" } else { "multiple ORDER BY clauses" };
            let message = format!("cannot use {what} with WITHIN GROUP");
            return Err(self.at_name(SqlError::new(SqlState::SYNTAX_ERROR, message), name));
        }
        let is_ordered = ops::aggregates::is_ordered_set(name_text);
        if !within_group.is_empty() && !is_ordered {
            if matches!(name_text, "rank" | "dense_rank" | "percent_rank" | "cume_dist") {
                return Err(SqlError::unsupported(format_args!("the hypothetical-set aggregate {name_text}")));
            }
            // As by PostgreSQL, one that takes all of these as arguments is looked for.
            let mut all = self.arguments(args, scope)?;
            for key in within_group {
                all.push(self.expr(&key.expr, scope)?);
            }
            return self.call(name_text, all).map_err(|error| self.at_name(error, name));
        }
        if is_ordered {
            if within_group.is_empty() {
                return self.call(name_text, self.arguments(args, scope)?).map_err(|error| self.at_name(error, name));
            }
            // It is given the values in their order, and with each of them its own arguments.
            let value = |key: &ast::OrderByExpr| FunctionArg::Unnamed(FunctionArgExpr::Expr(key.expr.clone()));
            let all: Vec<FunctionArg> = within_group.iter().map(value).chain(args.iter().cloned()).collect();
            return self.aggregate(function, name_text, (false, &all, within_group), filter.as_deref(), scope);
        }
        if is_aggregate(name_text) {
            return self.aggregate(function, name_text, (distinct, args, order), filter.as_deref(), scope);
        }
        let not_aggregate = |what: &str| {
            let message = format!("{what} specified, but {name_text} is not an aggregate function");
            Err(self.at_name(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message), name))
        };
        if distinct {
            return not_aggregate("DISTINCT");
        }
        if !order.is_empty() {
            return not_aggregate("ORDER BY");
        }
        if filter.is_some() {
            return not_aggregate("FILTER");
        }
        if name_text == "grouping" {
            return self.grouping_call(args, scope);
        }
        if super::sets::is_set(name_text) {
            return self.set_in_list(name_text, args, &function.name, scope);
        }
        match name_text {
            "json_build_object" | "json_build_array" => return self.json_call(name_text, args, scope),
            "to_json" | "row_to_json" | "array_to_json" => return self.json_of(name_text, args, scope),
            _ => {}
        }
        if let [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] = args {
            if ops::resolve_function(self.env.functions(), name_text, &[]).is_ok() {
                let message = format!("{name_text}(*) specified, but {name_text} is not an aggregate function");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            return Err(no_function(name_text, &[]));
        }
        self.check_count(name_text, name, args)?;
        let arguments = match name_text {
            "coalesce" => self.without_sets("COALESCE", scope, || self.arguments(args, scope))?,
            _ => self.arguments(args, scope)?,
        };
        match name_text {
            "coalesce" => {
                let (arguments, kind) = self.common(arguments, "COALESCE")?;
                Ok(Typed::new(Expr::Coalesce(arguments), kind))
            }
            "nullif" => {
                let Ok([left, right]) = <[Typed; 2]>::try_from(arguments) else {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "NULLIF takes two arguments"));
                };
                self.once([left], |binder, [left]| binder.null_if(left, right))
            }
            "greatest" | "least" => {
                let of = if name_text == "greatest" { "GREATEST" } else { "LEAST" };
                let (arguments, kind) = self.common(arguments, of)?;
                let greatest = name_text == "greatest";
                Ok(Typed::new(Expr::Extreme { greatest, kind: self.comparable(kind.kind)?, arguments }, kind))
            }
            "current_timestamp" => self.now_rounded(name_text, Kind::Timestamptz, &arguments),
            "localtimestamp" => self.now_rounded(name_text, Kind::Timestamp, &arguments),
            "current_date" if arguments.is_empty() => Ok(now(Kind::Date)),
            "nextval" | "currval" | "setval" | "lastval" => self.sequence_call(name_text, arguments),
            _ => match (super::advisory::call_named(name_text), ops::said(name_text)) {
                (Some(call), _) => self.advisory_call(name_text, call, arguments),
                (None, Some(function)) if arguments.is_empty() => {
                    let (eval, strict, kind) = (function.eval, function.strict, function.result);
                    let function = Some(function);
                    Ok(Typed::new(Expr::Call { eval, strict, operator: None, function, arguments: Vec::new() }, kind))
                }
                (None, _) => self.call(name_text, arguments),
            },
        }
    }

    /// `current_timestamp`, perhaps with a precision.
    fn now_rounded(&self, name: &str, kind: Kind, arguments: &[Typed]) -> SqlResult<Typed> {
        match arguments {
            [] => Ok(now(kind)),
            [Typed { expr: Expr::Constant(Datum::Int4(precision @ 0..)), .. }] => {
                let to = SqlType { kind, typmod: (*precision).min(MAX_PRECISION) };
                self.coerce(now(kind), to, Context::Explicit)
            }
            _ => Err(no_function(name, arguments)),
        }
    }

    fn null_if(&self, left: Typed, right: Typed) -> SqlResult<Typed> {
        let (mut value, mut kind) = (left.expr.clone(), left.kind);
        let equal = self.operator("=", Some(left), right)?;
        // It is what `=` takes it for.
        if let Expr::Call { operator: Some(operator), arguments, .. } = &equal.expr
            && let (Some(left), Some(argument)) = (operator.left, arguments.first())
            && kind.kind != left
        {
            (value, kind) = (argument.clone(), left.into());
        }
        let nothing = Expr::Constant(types::datum::Datum::Null);
        let expr = Expr::Case { whens: vec![(equal.expr, nothing)], otherwise: Box::new(value) };
        Ok(Typed::new(expr, super::settled(kind)))
    }

    /// As [`Binder::call`], of a function that is called by a syntax of its own, whose errors name its schema.
    pub(super) fn syntax_call(&self, name: &str, arguments: Vec<Typed>) -> SqlResult<Typed> {
        self.call(name, arguments).map_err(|error| in_schema(error, name))
    }

    /// Applies a function of the table.
    pub fn call(&self, name: &str, arguments: Vec<Typed>) -> SqlResult<Typed> {
        if let Some(called) = self.call_with_vectors(name, &arguments) {
            return called;
        }
        let kinds: Vec<Kind> = arguments.iter().map(|argument| argument.kind.kind).collect();
        let resolved = match ops::resolve_function(self.env.functions(), name, &kinds) {
            Ok(resolved) => resolved,
            // One value behind the name of a type is cast to it (`func_get_detail`).
            Err(error) => match (Kind::from_typname(name), <[Typed; 1]>::try_from(arguments)) {
                (Some(to), Ok([value])) if error.state() == SqlState::UNDEFINED_FUNCTION && is_cast(&value, to) => {
                    return self.coerce(value, to.into(), Context::Explicit);
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
                    let message = format!("could not determine data type of parameter ${}", at + 1);
                    let error = SqlError::new(SqlState::INDETERMINATE_DATATYPE, message);
                    Err(self.at_place(error, argument.place))
                }
                Some(kind) => self.argument(argument, kind),
            })
            .collect::<SqlResult<_>>()?;
        arguments.extend(resolved.told_types(&kinds).map(Expr::Constant));
        let (eval, strict) = (function.eval, function.strict);
        let expr = Expr::Call { eval, strict, operator: None, function: Some(function), arguments };
        Ok(Typed::new(expr, function.result))
    }

    /// A value of any type as its text, which of truth values is not what a cast to text gives.
    pub(super) fn shown(&self, argument: Typed) -> SqlResult<Expr> {
        match ops::casts::shown(argument.kind.kind).filter(|_| argument.kind.kind != Kind::Unknown) {
            None => self.argument(argument, Kind::Text),
            Some(cast) => {
                let (eval, to) = (cast.eval, Kind::Text.into());
                Ok(Expr::Cast { eval, to, argument: Box::new(argument.expr) })
            }
        }
    }

    pub(super) fn arguments(&self, args: &[FunctionArg], scope: &Scope<'_>) -> SqlResult<Vec<Typed>> {
        args.iter()
            .map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.expr(expr, scope),
                other => Err(SqlError::unsupported(format_args!("the argument {other}"))),
            })
            .collect()
    }

    fn aggregate(
        &self,
        function: &ast::Function,
        name: &str,
        (is_distinct, args, order): (bool, &[FunctionArg], &[ast::OrderByExpr]),
        filter: Option<&ast::Expr>,
        scope: &Scope<'_>,
    ) -> SqlResult<Typed> {
        let at_name = |message: String| self.at_name(SqlError::new(SqlState::GROUPING_ERROR, message), &function.name);
        let clause = scope.clause.get();
        // The arguments are over the rows before grouping.
        scope.clause.set(Clause::Aggregate);
        let call = self.aggregate_call(function, name, (is_distinct, args, order), filter, scope);
        scope.clause.set(clause);
        let (mut call, kind) = call?;
        // It belongs to the innermost query that it looks at a row of.
        let level = level_of(&mut call, |_| true).unwrap_or(0);
        if level == 0 && clause == Clause::Aggregate {
            return Err(at_name("aggregate function calls cannot be nested".to_owned()));
        }
        let mut owner = scope;
        for _ in 0..level {
            let Some(parent) = owner.parent else { break };
            owner = parent;
        }
        // An aggregate in it belongs to a query further out.
        if level_of(&mut call, is_aggregate_column) == Some(level) {
            return Err(at_name("aggregate function calls cannot be nested".to_owned()));
        }
        if !owner.clause.get().allows_aggregates() {
            return Err(at_name(match owner.clause.get() {
                Clause::Aggregate => "aggregate function calls cannot be nested".to_owned(),
                clause => format!("aggregate functions are not allowed in {}", clause.name()),
            }));
        }
        if 0 < level {
            call_parts(&mut call).try_for_each(|expr| inward(expr, level))?;
        }
        let mut calls = owner.calls.borrow_mut();
        // ORDER BY names what the select list has computed. Elsewhere a volatile one is computed for itself.
        let is_named = clause == Clause::OrderBy || !call_parts(&mut call).any(|part| part.is_volatile());
        let written = Written::new(function);
        let known = calls.aggregates.iter().position(|(other, ..)| level == 0 && is_named && other.is_same(&written));
        let at = known.unwrap_or(calls.aggregates.len());
        if known.is_none() {
            calls.aggregates.push((written, call, kind));
        }
        let column = AGGREGATES + at;
        let expr = if level == 0 { Expr::Column(column) } else { Expr::Outer { level, column } };
        Ok(Typed::new(expr, kind))
    }

    pub(super) fn aggregate_call(
        &self,
        function: &ast::Function,
        name: &str,
        (is_distinct, args, order): (bool, &[FunctionArg], &[ast::OrderByExpr]),
        filter: Option<&ast::Expr>,
        scope: &Scope<'_>,
    ) -> SqlResult<(AggregateCall, SqlType)> {
        let is_star = matches!(args, [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
        let mut own_name = name;
        let arguments = match (name, args) {
            _ if is_star => Vec::new(),
            ("json_agg", [arg]) => {
                let (value, is_structured) = self.json_argument(arg, scope)?;
                if is_structured {
                    own_name = ops::aggregates::JSON_ROWS;
                }
                vec![value]
            }
            ("json_object_agg", [FunctionArg::Unnamed(FunctionArgExpr::Expr(key)), value]) => {
                vec![self.json_key(self.expr(key, scope)?)?, self.json_argument(value, scope)?.0]
            }
            _ => self.arguments(args, scope)?,
        };
        let kinds: Vec<Kind> = arguments.iter().map(|argument| argument.kind.kind).collect();
        if arguments.is_empty() && !is_star && name != "count" {
            return Err(no_function(name, &[]));
        }
        if arguments.is_empty() && !is_star {
            let message = format!("{name}(*) must be used to call a parameterless aggregate function");
            return Err(self.at_name(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message), &function.name));
        }
        let no_such = || SqlError::unsupported(format_args!("the aggregate {name}"));
        // One of ordered sets has the values in their order as its first arguments. They are bound once, however deep such calls stand
        // in one another, and messages name them last.
        let is_of_order = ops::aggregates::is_ordered_set(name);
        let aggregate = ops::resolve_aggregate(own_name, &kinds)
            .map_err(|error| match error.state() {
                SqlState::UNDEFINED_FUNCTION if is_of_order => {
                    let (keys, own) = arguments.split_at(order.len().min(arguments.len()));
                    no_function(name, &[own, keys].concat())
                }
                _ => error,
            })
            .map_err(|error| self.at_name(error, &function.name))?
            .ok_or_else(no_such)?
            .aggregate;
        // As they are written, for keys to be found among them.
        let given: Vec<Expr> = match is_distinct && !order.is_empty() {
            true => arguments.iter().map(|argument| argument.expr.clone()).collect(),
            false => Vec::new(),
        };
        let arguments: Vec<Expr> = arguments
            .into_iter()
            .zip(aggregate.arguments)
            .map(|(argument, to)| match to {
                // Any type, as it is.
                Kind::Void => Ok(argument.expr),
                to => self.argument(argument, *to),
            })
            .collect::<SqlResult<_>>()?;
        let filter = match filter {
            None => None,
            Some(filter) => {
                let clause = scope.clause.replace(Clause::Filter);
                let filter = self.expr(filter, scope).and_then(|filter| self.condition(filter, "FILTER"));
                scope.clause.set(clause);
                Some(filter?)
            }
        };
        let argument_kinds: Vec<Kind> = aggregate
            .arguments
            .iter()
            .zip(&kinds)
            .map(|(declared, given)| if *declared == Kind::Void { *given } else { *declared })
            .collect();
        let mut keys = Vec::with_capacity(order.len());
        for (at, ast::OrderByExpr { expr, options, with_fill }) in order.iter().enumerate() {
            refuse!(with_fill.is_some() => "WITH FILL");
            let value = match argument_kinds.get(at).filter(|_| is_of_order) {
                Some(kind) => Typed::new(Expr::Column(at), *kind),
                None => self.expr(expr, scope)?,
            };
            keys.push(self.sort_key(value, options).map_err(|error| self.at_key(error, expr))?);
        }
        if is_distinct {
            argument_kinds.iter().try_for_each(|kind| self.groupable(*kind).map(drop))?;
            // Each once: the order is one of the arguments, by which they are sorted in any case.
            for (key, written) in keys.iter_mut().zip(order) {
                let is_it = |expr: &Expr| self.are_same(expr, &key.value, scope);
                let Some(at) = given.iter().position(is_it).or_else(|| arguments.iter().position(is_it)) else {
                    let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
                    let error = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
                    return Err(self.at_expr(error, &written.expr));
                };
                key.value = Expr::Column(at);
            }
            for (at, kind) in argument_kinds.iter().enumerate() {
                let is_there = keys.iter().any(|key| matches!(key.value, Expr::Column(own) if own == at));
                if !is_there {
                    let value = Expr::Column(at);
                    keys.push(SortKey { value, kind: *kind, descending: false, nulls_first: false });
                }
            }
        }
        let kind = aggregate.result.into();
        let orders_arguments = is_distinct || is_of_order;
        Ok((
            AggregateCall { aggregate, arguments, argument_kinds, is_distinct, order: keys, orders_arguments, filter },
            kind,
        ))
    }
}

/// Whether a call of an aggregate stands in an expression.
pub(super) fn has_aggregate(expr: &Expr) -> bool {
    let mut found = false;
    visit(expr, 0, &mut |expr, depth| {
        found |= depth == 0 && matches!(expr, Expr::Column(at) if AGGREGATES <= *at && *at < super::calls::WINDOWS);
    });
    found
}

/// What an aggregate evaluates over the rows before grouping.
pub(super) fn call_parts(call: &mut AggregateCall) -> impl Iterator<Item = &mut Expr> {
    let AggregateCall { arguments, order, orders_arguments, filter, aggregate: _, argument_kinds: _, is_distinct: _ } =
        call;
    let keys = if *orders_arguments { &mut [][..] } else { &mut order[..] };
    arguments.iter_mut().chain(keys.iter_mut().map(|key| &mut key.value)).chain(filter)
}

/// Says whether a column stands for an aggregate.
fn is_aggregate_column(column: usize) -> bool {
    (AGGREGATES..super::calls::WINDOWS).contains(&column)
}

/// Number of queries out of the nearest row that a call looks at, by these columns.
fn level_of(call: &mut AggregateCall, is_counted: impl Fn(usize) -> bool) -> Option<usize> {
    let mut least: Option<usize> = None;
    for part in call_parts(call) {
        visit(part, 0, &mut |expr, depth| {
            let level = match expr {
                Expr::Column(column) if depth == 0 && is_counted(*column) => Some(0),
                Expr::Outer { level, column } if is_counted(*column) => level.checked_sub(depth),
                _ => None,
            };
            // A reference to a row of a query inside is none.
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

/// An expression as the query so many levels out would say it.
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

/// `42883`, in PostgreSQL's words.
pub(super) fn no_function(name: &str, given: &[Typed]) -> SqlError {
    let kinds: Vec<Kind> = given.iter().map(|one| one.kind.kind).collect();
    ops::function_error(name, &kinds, false)
}

/// The error of a function that is not there, which was called by its full name.
fn in_schema(error: SqlError, name: &str) -> SqlError {
    match error.state() {
        SqlState::UNDEFINED_FUNCTION | SqlState::AMBIGUOUS_FUNCTION => {
            error.replaced(&format!("function {name}("), &format!("function pg_catalog.{name}("))
        }
        _ => error,
    }
}

/// Whether a name is one of an aggregate.
pub fn is_aggregate(name: &str) -> bool {
    !matches!(ops::resolve_aggregate(name, &[]), Ok(None))
}

/// Digits of a second's fraction that a moment has at most.
const MAX_PRECISION: i32 = 6;

fn now(kind: Kind) -> Typed {
    Typed::new(Expr::Now { to: kind.into() }, kind)
}
