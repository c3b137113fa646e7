//! Calls of functions, and of aggregates, which are collected for the grouping.

use super::{Binder, Grouping, Scope, refuse};
use crate::catalog::DATABASE;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::ops;
use crate::plan::{AggregateCall, Expr, Typed};
use crate::types::{Kind, SqlType};
use sqlparser::ast::{self, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArguments};

impl Binder<'_> {
    /// Whether an expression of a grouped query is one of its groups.
    pub(crate) fn group_of(&self, expr: &ast::Expr, scope: &Scope<'_>) -> Option<Typed> {
        let grouping = scope.grouping.as_ref()?.borrow();
        let at = grouping.groups.iter().position(|(group, _)| group == expr)?;
        Some(Typed { expr: Expr::Column(at), kind: grouping.groups[at].1.kind })
    }

    pub(crate) fn function(&self, function: &ast::Function, scope: &Scope<'_>) -> SqlResult<Typed> {
        let ast::Function { name, uses_odbc_syntax, parameters, args, within_group, filter, null_treatment, over } =
            function;
        refuse!(
            *uses_odbc_syntax => "the ODBC syntax of functions",
            *parameters != FunctionArguments::None => "a function with parameters",
            !within_group.is_empty() => "WITHIN GROUP",
            null_treatment.is_some() => "RESPECT NULLS and IGNORE NULLS",
            over.is_some() => "a window function",
        );
        let parts = self.name_parts(name)?;
        let name_text = match &parts[..] {
            [name] => name.as_str(),
            [schema, name] if schema == "pg_catalog" => name.as_str(),
            _ => return Err(SqlError::unsupported(format_args!("the function {name}"))),
        };
        let (distinct, args) = match args {
            FunctionArguments::None => (false, &[][..]),
            FunctionArguments::Subquery(_) => return Err(SqlError::unsupported("a query as an argument")),
            FunctionArguments::List(ast::FunctionArgumentList { duplicate_treatment, args, clauses }) => {
                refuse!(!clauses.is_empty() => "ORDER BY and other clauses among arguments");
                (*duplicate_treatment == Some(DuplicateTreatment::Distinct), &args[..])
            }
        };
        if is_aggregate(name_text) {
            return self.aggregate(function, name_text, distinct, args, filter.as_deref(), scope);
        }
        refuse!(distinct => "DISTINCT among the arguments of a function", filter.is_some() => "FILTER on a function");
        let arguments = self.arguments(args, scope)?;
        match name_text {
            "coalesce" => {
                let (arguments, kind) = self.common(arguments, "COALESCE")?;
                Ok(Typed { expr: Expr::Coalesce(arguments), kind })
            }
            "nullif" => {
                let Ok([left, right]) = <[Typed; 2]>::try_from(arguments) else {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "NULLIF takes two arguments"));
                };
                let (value, kind) = (left.expr.clone(), left.kind);
                let equal = self.operator("=", Some(left), right)?;
                let nothing = Expr::Constant(crate::datum::Datum::Null);
                let expr = Expr::Case { whens: vec![(equal.expr, nothing)], otherwise: Box::new(value) };
                Ok(Typed { expr, kind: super::settled(kind) })
            }
            "greatest" | "least" => {
                let of = if name_text == "greatest" { "GREATEST" } else { "LEAST" };
                let (arguments, kind) = self.common(arguments, of)?;
                let greatest = name_text == "greatest";
                Ok(Typed { expr: Expr::Extreme { greatest, kind: self.comparable(kind.kind)?, arguments }, kind })
            }
            "current_timestamp" if arguments.is_empty() => Ok(now(Kind::Timestamptz)),
            "localtimestamp" if arguments.is_empty() => Ok(now(Kind::Timestamp)),
            "version" if arguments.is_empty() => Ok(text(crate::settings::VERSION, Kind::Text)),
            "current_user" | "session_user" | "user" | "current_role" if arguments.is_empty() => {
                Ok(text(&self.env.user, Kind::Name))
            }
            "current_database" | "current_catalog" if arguments.is_empty() => Ok(text(DATABASE, Kind::Name)),
            "current_date" if arguments.is_empty() => Ok(now(Kind::Date)),
            "nextval" | "currval" | "setval" | "lastval" => self.sequence_call(name_text, arguments),
            _ => self.call(name_text, arguments),
        }
    }

    /// Applies a function of the table.
    pub(crate) fn call(&self, name: &str, arguments: Vec<Typed>) -> SqlResult<Typed> {
        let kinds: Vec<Kind> = arguments.iter().map(|argument| argument.kind.kind).collect();
        let function = ops::resolve_function(name, &kinds)?.function;
        let declared = |at: usize| function.arguments.get(at).or(function.arguments.last()).copied();
        let arguments = arguments
            .into_iter()
            .enumerate()
            .map(|(at, argument)| match declared(at) {
                // Any type, as its text.
                Some(Kind::Void) | None => {
                    let text = self.coerce(argument, Kind::Text.into(), ops::Context::Explicit);
                    text.map(|typed| typed.expr)
                }
                Some(kind) => self.argument(argument, kind),
            })
            .collect::<SqlResult<_>>()?;
        let (eval, strict) = (function.eval, function.strict);
        let expr = Expr::Call { eval, strict, operator: None, function: Some(function), arguments };
        Ok(Typed { expr, kind: function.result.into() })
    }

    fn arguments(&self, args: &[FunctionArg], scope: &Scope<'_>) -> SqlResult<Vec<Typed>> {
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
        is_distinct: bool,
        args: &[FunctionArg],
        filter: Option<&ast::Expr>,
        scope: &Scope<'_>,
    ) -> SqlResult<Typed> {
        let Some(grouping) = &scope.grouping else {
            let message = "aggregate functions are not allowed here";
            return Err(self.at_name(SqlError::new(SqlState::GROUPING_ERROR, message), &function.name));
        };
        let known = |grouping: &Grouping| grouping.calls.iter().position(|(call, ..)| call == function);
        let at = known(&grouping.borrow());
        let at = match at {
            Some(at) => at,
            None => {
                // The arguments are over the rows before grouping.
                let before = Scope {
                    relations: scope.relations.clone(),
                    width: scope.width,
                    parent: scope.parent,
                    grouping: None,
                };
                let arguments = match args {
                    [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] => Vec::new(),
                    args => self.arguments(args, &before)?,
                };
                let kinds: Vec<Kind> = arguments.iter().map(|argument| argument.kind.kind).collect();
                let is_star = matches!(args, [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
                if arguments.is_empty() && !is_star {
                    let message = format!("{name}(*) must be used to call a parameterless aggregate function");
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
                let no_such = || SqlError::unsupported(format_args!("the aggregate {name}"));
                let aggregate = ops::resolve_aggregate(name, &kinds)?.ok_or_else(no_such)?.aggregate;
                let kind = aggregate.result.into();
                let arguments: Vec<Expr> = arguments
                    .into_iter()
                    .zip(aggregate.arguments)
                    .map(|(argument, to)| match to {
                        // Any type, as it is.
                        Kind::Void => Ok(argument.expr),
                        to => self.argument(argument, *to),
                    })
                    .collect::<SqlResult<_>>()?;
                let filter = filter.map(|filter| self.condition(self.expr(filter, &before)?, "FILTER")).transpose()?;
                let looks_out = arguments.iter().any(Expr::looks_out) && !arguments.iter().any(Expr::looks_at_row);
                refuse!(looks_out => "an aggregate of an enclosing query");
                let argument_kinds: Vec<Kind> = aggregate
                    .arguments
                    .iter()
                    .zip(&kinds)
                    .map(|(declared, given)| if *declared == Kind::Void { *given } else { *declared })
                    .collect();
                if is_distinct {
                    argument_kinds.iter().try_for_each(|kind| self.comparable(*kind).map(drop))?;
                }
                let call = AggregateCall { aggregate, arguments, argument_kinds, is_distinct, filter };
                let mut grouping = grouping.borrow_mut();
                grouping.calls.push((function.clone(), call, kind));
                grouping.calls.len() - 1
            }
        };
        let grouping = grouping.borrow();
        let kind: SqlType = grouping.calls[at].2;
        Ok(Typed { expr: Expr::Column(grouping.groups.len() + at), kind })
    }
}

fn text(value: &str, kind: Kind) -> Typed {
    Typed { expr: Expr::Constant(crate::datum::Datum::text(value)), kind: kind.into() }
}

/// Whether a name is one of an aggregate.
pub(crate) fn is_aggregate(name: &str) -> bool {
    !matches!(ops::resolve_aggregate(name, &[]), Ok(None))
}

fn now(kind: Kind) -> Typed {
    Typed { expr: Expr::Now { to: kind.into() }, kind: kind.into() }
}
