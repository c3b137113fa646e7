//! Calls of SQL functions that are replaced by their body, as PostgreSQL's `inline_function` does.
//!
//! **Invariant:** the inlined expression has the value that a call would have had, and evaluates a volatile argument at
//! most once.

use super::{Binder, ViewExpansion};
use crate::plan::{ChildMut, Expr, Plan, Typed, children_of_expr_mut, children_of_plan_mut, rewrite, visit};
use catalog::{Language, Routine, RoutineBody, RoutineResult, Volatility};
use statement::error::{SqlError, SqlResult};
use std::sync::Arc;
use syntax::ast::{Query, Statement};
use types::ops::CastContext;
use types::{Kind, SqlType};

/// Nesting of inlined calls above which calls stay. A function that calls another twice, and so on, doubles the work of
/// binding at each level.
const DEPTH_MAX: usize = 6;

impl<'c> Binder<'c> {
    /// Returns a binder for a text of a routine's body, where the input parameters can be named.
    pub(crate) fn of_body(
        routine: &Arc<Routine>,
        catalog: &'c catalog::CatalogState,
        path: &'c [String],
        text: &'c str,
        env: &'c dyn catalog::SessionContext,
    ) -> Binder<'c> {
        let parameters = routine.inputs().map(|parameter| Some(SqlType::from(parameter.kind))).collect();
        Binder { body: Some(Arc::clone(routine)), ..Binder::new(catalog, path, text, env, parameters) }
    }

    /// Returns the input parameter of the routine whose body is bound that a name stands for: `name`, `routine.name`.
    pub(super) fn parameter_named(&self, parts: &[syntax::ast::Name]) -> Option<Typed> {
        let routine = self.body.as_ref()?;
        let name = match parts {
            [name] => name,
            [qualifier, name] if **qualifier == *routine.name => name,
            _ => return None,
        };
        let found = routine.inputs().enumerate().find(|(_, parameter)| parameter.name.as_deref() == Some(&**name));
        found.map(|(at, parameter)| Typed::new(Expr::Parameter(at), parameter.kind))
    }

    /// Returns the number of parameters that a text may name, if it is a routine's body.
    pub(super) fn parameters_max(&self) -> Option<usize> {
        self.body.as_ref().map(|routine| routine.inputs().count())
    }

    /// Returns the value of a call without the call, if the function is simple: one SELECT of one expression.
    ///
    /// # Errors
    /// `57014` and the like. A body that cannot be bound is not inlined; its call reports the error.
    pub(super) fn inlined(&self, routine: &Arc<Routine>, arguments: &[Typed]) -> SqlResult<Option<Typed>> {
        let (RoutineResult::Value(kind), Language::Sql) = (routine.result, routine.language) else { return Ok(None) };
        let is_plain = !routine.is_set && !routine.is_security_definer && routine.settings.is_empty();
        let is_known = self.inlining.contains(&routine.oid) || DEPTH_MAX <= self.inlining.len();
        if !is_plain || is_known || kind == Kind::Void || matches!(self.views, ViewExpansion::Opaque) {
            return Ok(None);
        }
        let body = match self.expression_of(routine, kind) {
            Ok(Some(body)) => body,
            Ok(None) => return Ok(None),
            Err(error) if error.is_of_names() => return Ok(None),
            Err(error) => return Err(error),
        };
        let keeps_promise = routine.volatility == Volatility::Volatile || !body.is_volatile();
        if body.has_query() || !keeps_promise {
            return Ok(None);
        }
        Ok(replaced(body, routine, arguments)?.map(|expr| Typed::new(expr, kind)))
    }

    /// Returns the rows of a call in FROM without the call, if the function is one query and its arguments are the same
    /// for all rows: PostgreSQL's `inline_set_returning_function`.
    ///
    /// # Errors
    /// As [`Binder::inlined`].
    pub(super) fn inlined_rows(&self, routine: &Arc<Routine>, arguments: &[Typed]) -> SqlResult<Option<Plan>> {
        let is_plain = routine.is_set
            && routine.volatility != Volatility::Volatile
            && !routine.is_strict
            && !routine.is_security_definer
            && routine.settings.is_empty();
        let is_known = self.inlining.contains(&routine.oid) || DEPTH_MAX <= self.inlining.len();
        let are_fixed = arguments.iter().all(|argument| argument.expr.is_fixed() && !argument.expr.looks_at_row());
        // Within a view, the function's query would be run with the rights of the view's owner.
        let is_outside = matches!(&self.views, ViewExpansion::Expanded(around) if around.is_empty());
        if !is_plain || is_known || !are_fixed || !is_outside {
            return Ok(None);
        }
        match self.query_of(routine) {
            Ok(Some(mut plan)) => {
                let values: Vec<Expr> = arguments.iter().map(|argument| argument.expr.clone()).collect();
                Ok(fill_plan(&mut plan, &values)?.then_some(plan))
            }
            Ok(None) => Ok(None),
            Err(error) if error.is_of_names() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Binds the body of a function as a query over its parameters; `None` if it is more than that.
    fn query_of(&self, routine: &Arc<Routine>) -> SqlResult<Option<Plan>> {
        let text = match &routine.body {
            RoutineBody::Text(text) | RoutineBody::Atomic(text) => text,
            RoutineBody::Return(_) | RoutineBody::Code { .. } => return Ok(None),
        };
        let Some((query, text)) = only_query(text)? else { return Ok(None) };
        let inner = self.of_inlined(routine, text);
        let super::BoundQuery { plan, mut columns, names: _ } = inner.query(&query, None)?;
        if !inner.take_modifies().is_empty() || !inner.take_uses().is_empty() {
            return Ok(None);
        }
        columns.iter_mut().for_each(|column| column.kind = super::settled(column.kind));
        let plan = super::as_result(&inner, plan, &columns, routine, self.catalog)?;
        inner.take_tables().iter().for_each(|table| self.names(table));
        let height = inner.height.get() + 1;
        statement::stack::check_queries(height)?;
        self.height.set(self.height.get().max(height));
        self.needs.borrow_mut().extend(inner.take_needs());
        Ok(Some(plan))
    }

    /// Binds the body of a function as an expression over its parameters; `None` if it is more than that.
    fn expression_of(&self, routine: &Arc<Routine>, kind: Kind) -> SqlResult<Option<Expr>> {
        let text = match &routine.body {
            RoutineBody::Return(text) => {
                let inner = self.of_inlined(routine, text);
                let value = inner.expr(&syntax::grammar::expression(text)?, &super::NameScope::default())?;
                return inner.as_result(value, kind).map(Some);
            }
            RoutineBody::Text(text) | RoutineBody::Atomic(text) => text,
            RoutineBody::Code { .. } => return Ok(None),
        };
        let Some((query, text)) = only_query(text)? else { return Ok(None) };
        let inner = self.of_inlined(routine, text);
        let super::BoundQuery { plan, columns, names: _ } = inner.query(&query, None)?;
        let is_alone = inner.take_modifies().is_empty() && inner.take_tables().is_empty();
        let (Plan::Project { input, columns: mut values }, [column], true) = (plan, &columns[..], is_alone) else {
            return Ok(None);
        };
        let (Plan::Unit, Some(value), true) = (&*input, values.pop(), values.is_empty()) else { return Ok(None) };
        inner.as_result(Typed::new(value, column.kind), kind).map(Some)
    }

    /// Returns the binder of a body that is to take the place of a call.
    fn of_inlined<'b>(&self, routine: &'b Arc<Routine>, text: &'b str) -> Binder<'b>
    where
        'c: 'b,
    {
        let inlining = self.inlining.iter().copied().chain([routine.oid]).collect();
        let path = routine.path.as_deref().unwrap_or(self.path);
        let inner = Binder::of_body(routine, self.catalog, path, text, self.env);
        Binder { views: self.views.clone(), inlining, ..inner }
    }

    fn as_result(&self, value: Typed, kind: Kind) -> SqlResult<Expr> {
        self.coerce(value, kind.into(), CastContext::Assignment).map(|value| value.expr)
    }
}

/// Returns the query that a body consists of, and its text; `None` if the body is something else.
fn only_query(body: &str) -> SqlResult<Option<(Box<Query>, &str)>> {
    let mut statements = syntax::grammar::parse(body)?;
    let (Some(only), true) = (statements.pop(), statements.is_empty()) else { return Ok(None) };
    let text = only.extent.of(body);
    Ok(match only.statement {
        Statement::Query(query) => Some((query, text)),
        _ => None,
    })
}

/// Puts the arguments in the places of the parameters. `None` if that would evaluate one too often or not at all.
fn replaced(mut body: Expr, routine: &Routine, arguments: &[Typed]) -> SqlResult<Option<Expr>> {
    let mut uses = vec![0_usize; arguments.len()];
    let mut has_locals = false;
    visit(&body, 0, &mut |expr, _| match expr {
        Expr::Parameter(at) => uses.get_mut(*at).into_iter().for_each(|uses| *uses += 1),
        expr => has_locals |= matches!(expr, Expr::Let { .. }),
    });
    if routine.is_strict && (uses.contains(&0) || !is_strict(&body)) {
        return Ok(None);
    }
    let mut values = Vec::new();
    let mut places = Vec::with_capacity(arguments.len());
    for (argument, uses) in arguments.iter().zip(&uses) {
        let expr = &argument.expr;
        let is_leaf = matches!(expr, Expr::Constant(_) | Expr::Parameter(_) | Expr::Column(_) | Expr::Outer { .. });
        let is_repeated = *uses != 1 && !is_leaf;
        let is_free = !has_locals || !has_local(expr);
        if (is_repeated && (expr.is_volatile() || expr.has_query() || has_locals)) || !is_free {
            return Ok(None);
        }
        if is_repeated && 1 < *uses {
            values.push(expr.clone());
            places.push(Expr::Local(values.len() - 1));
        } else {
            places.push(expr.clone());
        }
    }
    // Within a Let, a local of an argument would be one of the new Let.
    if !values.is_empty() && arguments.iter().any(|argument| has_local(&argument.expr)) {
        return Ok(None);
    }
    rewrite(&mut body, 0, &mut |expr, _| {
        let Expr::Parameter(at) = expr else { return Ok(false) };
        let place = places.get(*at).cloned();
        *expr = place.ok_or_else(|| SqlError::unsupported("a parameter that the function does not have"))?;
        Ok(true)
    })?;
    Ok(Some(match values.is_empty() {
        true => body,
        false => Expr::Let { values, body: Box::new(body) },
    }))
}

/// Puts values, which are the same for all rows, in the places of the parameters of a plan. Returns false if a part of the
/// plan cannot be changed.
fn fill_plan(plan: &mut Plan, values: &[Expr]) -> SqlResult<bool> {
    match plan {
        Plan::Shared { id: _, plan } => return fill_plan(Arc::make_mut(plan), values),
        Plan::Recursive(_) | Plan::Working(_) | Plan::Modified(_) | Plan::Modifying { .. } => return Ok(false),
        _ => {}
    }
    let mut is_whole = true;
    children_of_plan_mut(plan, &mut |child, _| {
        is_whole &= fill_child(child, values)?;
        Ok(())
    })?;
    Ok(is_whole)
}

/// Does the same in an expression.
fn fill_expr(expr: &mut Expr, values: &[Expr]) -> SqlResult<bool> {
    if let Expr::Parameter(at) = expr {
        let Some(value) = values.get(*at) else { return Ok(false) };
        *expr = value.clone();
        return Ok(true);
    }
    let mut is_whole = match expr {
        Expr::Quantified { condition, .. } => fill_expr(condition, values)?,
        _ => true,
    };
    children_of_expr_mut(expr, &mut |child, _| {
        is_whole &= fill_child(child, values)?;
        Ok(())
    })?;
    Ok(is_whole)
}

fn fill_child(child: ChildMut<'_>, values: &[Expr]) -> SqlResult<bool> {
    match child {
        ChildMut::Expr(expr) => fill_expr(expr, values),
        ChildMut::Plan(plan) => fill_plan(plan, values),
    }
}

fn has_local(expr: &Expr) -> bool {
    let mut found = false;
    visit(expr, 0, &mut |expr, _| found |= matches!(expr, Expr::Local(_)));
    found
}

/// Returns true if the expression is null whenever a parameter in it is.
fn is_strict(expr: &Expr) -> bool {
    let own = match expr {
        Expr::Parameter(_) | Expr::Constant(_) | Expr::Cast { .. } | Expr::Not(_) => true,
        Expr::Call { callee, arguments: _ } => callee.callable().is_strict(),
        Expr::Column(_)
        | Expr::Outer { .. }
        | Expr::And(_)
        | Expr::Or(_)
        | Expr::IsNull(_)
        | Expr::IsBool(..)
        | Expr::IsSame { .. }
        | Expr::Case { .. }
        | Expr::Let { .. }
        | Expr::Local(_)
        | Expr::Coalesce(_)
        | Expr::Extreme { .. }
        | Expr::Scalar(_)
        | Expr::Exists(_)
        | Expr::InQuery { .. }
        | Expr::InList { .. }
        | Expr::Quantified { .. }
        | Expr::Array(_)
        | Expr::ArrayQuery(_)
        | Expr::Now { .. }
        | Expr::Sequence { .. }
        | Expr::Routine(_)
        | Expr::Advisory { .. } => false,
    };
    own && expr.parts().into_iter().all(is_strict)
}
