//! `FROM`: tables, queries, joins.
//!
//! Joins are nested loops from left to right, each with the best index for what is known before it. Conditions of `WHERE`
//! take part in that choice where the join is an inner one.

use super::access;
use super::{Binder, Relation, Scope, column_info, columns_of, refuse, settled};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::ops::Context;
use crate::parse::folded;
use crate::plan::{Expr, Plan, Source, Typed};
use crate::session::ColumnInfo;
use crate::types::Kind;
use sqlparser::ast::{self, JoinConstraint, JoinOperator, TableFactor};

/// One step of the nested loops, before its access is chosen.
pub(crate) struct Step {
    source: Source,
    pub(crate) is_outer: bool,
    pub(crate) condition: Vec<Expr>,
    pub(crate) first: usize,
    width: usize,
}

impl Binder<'_> {
    /// Binds all of `FROM` into the scope.
    pub(crate) fn from(&self, from: &[ast::TableWithJoins], scope: &mut Scope<'_>) -> SqlResult<Vec<Step>> {
        let mut steps = Vec::new();
        for ast::TableWithJoins { relation, joins } in from {
            steps.push(self.factor(relation, scope)?);
            for ast::Join { relation, global, join_operator } in joins {
                refuse!(*global => "GLOBAL JOIN");
                let is_cross = matches!(join_operator, JoinOperator::CrossJoin(_));
                let (constraint, is_outer) = match join_operator {
                    JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (constraint, false),
                    JoinOperator::CrossJoin(JoinConstraint::None) => (&JoinConstraint::None, false),
                    JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (constraint, true),
                    JoinOperator::Right(_) | JoinOperator::RightOuter(_) => {
                        return Err(SqlError::unsupported("RIGHT JOIN"));
                    }
                    JoinOperator::FullOuter(_) => return Err(SqlError::unsupported("FULL JOIN")),
                    _ => return Err(SqlError::unsupported("this kind of join")),
                };
                let mut step = self.factor(relation, scope)?;
                step.is_outer = is_outer;
                match constraint {
                    JoinConstraint::None if is_cross => {}
                    JoinConstraint::None => {
                        let message = "syntax error: a JOIN needs ON or USING";
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                    JoinConstraint::On(on) => {
                        let on = self.expr(on, scope)?;
                        step.condition.push(self.condition(on, "JOIN/ON")?);
                    }
                    JoinConstraint::Using(names) => {
                        for name in names {
                            let [name] = &self.name_parts(name)?[..] else {
                                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a qualified name in USING"));
                            };
                            step.condition.push(self.using(name, scope)?);
                        }
                    }
                    JoinConstraint::Natural => return Err(SqlError::unsupported("NATURAL JOIN")),
                }
                steps.push(step);
            }
        }
        Ok(steps)
    }

    /// The plan of the steps, and what of the conjuncts it has not used up.
    pub(crate) fn join(&self, steps: Vec<Step>, conditions: Vec<Expr>) -> Plan {
        let mut plan = Plan::Unit;
        let mut left: Vec<Expr> = conditions;
        for Step { mut source, is_outer, mut condition, first, width } in steps {
            let reach = first + width;
            let mut seen: Vec<&Expr> = condition.iter().collect();
            if !is_outer {
                seen.extend(left.iter().filter(|one| access::needs(one) <= reach));
            }
            if let Source::Table { table, access } = &mut source {
                *access = access::choose(table, first, &seen);
            }
            if !is_outer {
                let (now, later) = left.into_iter().partition(|one| access::needs(one) <= reach);
                condition.extend::<Vec<Expr>>(now);
                left = later;
            }
            plan = Plan::Join { input: Box::new(plan), source, is_outer, condition: all_of(condition), width };
        }
        match all_of(left) {
            Some(condition) => Plan::Filter { input: Box::new(plan), condition },
            None => plan,
        }
    }

    /// `a.name = b.name`, and from now on the unqualified name is the first one's.
    fn using(&self, name: &str, scope: &mut Scope<'_>) -> SqlResult<Expr> {
        let ident = ast::Ident::with_quote('"', name);
        let right = scope.relations.len() - 1;
        let missing = |side: &str| {
            let message = format!("column \"{name}\" specified in USING clause does not exist in {side} table");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        };
        let relation = &scope.relations[right];
        let at = relation.columns.iter().position(|column| column.name == name).ok_or_else(|| missing("right"))?;
        let right_value = Typed { expr: Expr::Column(relation.first + at), kind: relation.columns[at].kind };
        scope.relations[right].hidden.push(at);
        let left_value = self
            .column(&[ident], scope)
            .map_err(|error| if error.state() == SqlState::UNDEFINED_COLUMN { missing("left") } else { error })?;
        let Expr::Column(left_at) = left_value.expr else { return Err(missing("left")) };
        for relation in &mut scope.relations {
            if let Some(at) = left_at.checked_sub(relation.first).filter(|at| *at < relation.columns.len())
                && !relation.merged.contains(&at)
            {
                relation.merged.push(at);
            }
        }
        Ok(self.operator("=", Some(left_value), right_value)?.expr)
    }

    fn factor(&self, factor: &TableFactor, scope: &mut Scope<'_>) -> SqlResult<Step> {
        let first = scope.width;
        let step = |source: Source, width: usize| Step { source, is_outer: false, condition: Vec::new(), first, width };
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                json_path: None,
                sample: None,
                index_hints,
            } => {
                refuse!(
                    !with_hints.is_empty() => "a hint", !partitions.is_empty() => "PARTITION",
                    !index_hints.is_empty() => "an index hint",
                );
                let parts = self.name_parts(name)?;
                if let [name] = &parts[..]
                    && let Some((_, plan, columns)) = self.with.borrow().iter().rev().find(|(with, ..)| with == name)
                {
                    if matches!(&**plan, Plan::Modified(modify) if modify.returning.is_none()) {
                        let message = format!("WITH query \"{name}\" does not have a RETURNING clause");
                        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                    }
                    let width = columns.len();
                    scope.add(self.relation(name, alias, columns.clone(), first, None)?, width)?;
                    let plan = Box::new(Plan::Shared(std::sync::Arc::clone(plan)));
                    return Ok(step(Source::Query { plan, is_lateral: false }, width));
                }
                if let Some(table) = self.system_table(&self.qualified(name)?) {
                    let columns = crate::system::columns_of(&table);
                    let width = columns.len();
                    scope.add(self.relation(&table.name, alias, columns, first, None)?, width)?;
                    let plan = Box::new(Plan::System(table));
                    return Ok(step(Source::Query { plan, is_lateral: false }, width));
                }
                match self.relation_named(name)?.clone() {
                    crate::catalog::Relation::Table(table) => {
                        let width = table.columns.len() + 1;
                        let relation = self.relation(&table.name, alias, columns_of(&table), first, Some(&table))?;
                        scope.add(relation, width)?;
                        Ok(step(Source::Table { table, access: crate::plan::Access::All }, width))
                    }
                    crate::catalog::Relation::View(view) => {
                        let bound = self.view(&view)?;
                        let width = bound.columns.len();
                        scope.add(self.relation(&view.name, alias, bound.columns, first, None)?, width)?;
                        Ok(step(Source::Query { plan: Box::new(bound.plan), is_lateral: false }, width))
                    }
                    other @ crate::catalog::Relation::Index { .. } => {
                        let message = format!("cannot open relation \"{}\"", other.name());
                        let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
                        Err(self.at_name(error.detail("This operation is not supported for indexes."), name))
                    }
                    crate::catalog::Relation::Sequence(_) => Err(SqlError::unsupported("a sequence in FROM")),
                }
            }
            TableFactor::Derived { lateral, subquery, alias, sample: None } => {
                let Some(alias) = alias else {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery in FROM must have an alias")
                        .hint("For example, FROM (SELECT ...) [AS] foo."));
                };
                // What a lateral one sees is this row, as that of an enclosing query.
                let parent = if *lateral { Some(&*scope) } else { scope.parent };
                let mut bound = self.query(subquery, parent)?;
                bound.columns.iter_mut().for_each(|column| column.kind = settled(column.kind));
                let width = bound.columns.len();
                let relation = self.relation("", &Some(alias.clone()), bound.columns, first, None)?;
                scope.add(relation, width)?;
                Ok(step(Source::Query { plan: Box::new(bound.plan), is_lateral: *lateral }, width))
            }
            TableFactor::Function { lateral: _, name, args, with_ordinality: false, alias } => {
                self.series(&self.name_parts(name)?, args, alias, scope)
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality: false, .. }
                if args.settings.is_none() =>
            {
                self.series(&self.name_parts(name)?, &args.args, alias, scope)
            }
            other => Err(SqlError::unsupported(format_args!("{other} in FROM"))),
        }
    }

    fn series(
        &self,
        name: &[String],
        args: &[ast::FunctionArg],
        alias: &Option<ast::TableAlias>,
        scope: &mut Scope<'_>,
    ) -> SqlResult<Step> {
        let [name] = name else { return Err(SqlError::unsupported("this function in FROM")) };
        refuse!(name != "generate_series" => format_args!("the function {name} in FROM"));
        let mut values = Vec::new();
        for arg in args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg)) = arg else {
                return Err(SqlError::unsupported("this argument"));
            };
            values.push(self.expr(arg, scope)?);
        }
        if !(2..=3).contains(&values.len()) {
            return Err(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                "function generate_series takes two or three arguments",
            ));
        }
        let kind = if values.iter().any(|value| value.kind.kind == Kind::Int8) { Kind::Int8 } else { Kind::Int4 };
        let mut values = values.into_iter().map(|value| {
            let value = self.coerce(value, kind.into(), Context::Implicit)?;
            Ok::<_, SqlError>(self.coerce(value, Kind::Int8.into(), Context::Implicit)?.expr)
        });
        let mut next = || values.next().transpose();
        let (from, to, step) = (next()?, next()?, next()?);
        let (Some(from), Some(to)) = (from, to) else { return Err(SqlError::unsupported("generate_series")) };
        let first = scope.width;
        let own = alias.as_ref().map_or_else(|| name.clone(), |alias| folded(&alias.name));
        let columns = vec![column_info(own, kind.into())];
        scope.add(self.relation(name, alias, columns, first, None)?, 1)?;
        let source = Source::Series { from, to, step, kind: kind.into() };
        Ok(Step { source, is_outer: false, condition: Vec::new(), first, width: 1 })
    }

    fn relation(
        &self,
        name: &str,
        alias: &Option<ast::TableAlias>,
        mut columns: Vec<ColumnInfo>,
        first: usize,
        table: Option<&std::sync::Arc<crate::catalog::TableInfo>>,
    ) -> SqlResult<Relation> {
        let mut own_name = name.to_owned();
        if let Some(ast::TableAlias { explicit: _, name, columns: names, at }) = alias {
            refuse!(at.is_some() => "AT behind an alias");
            own_name = folded(name);
            if columns.len() < names.len() {
                let message = format!(
                    "table \"{own_name}\" has {} columns available but {} columns specified",
                    columns.len(),
                    names.len()
                );
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
            }
            for (column, ast::TableAliasColumnDef { name, data_type }) in columns.iter_mut().zip(names) {
                refuse!(data_type.is_some() => "a type behind an alias");
                column.name = folded(name);
            }
        }
        Ok(Relation { alias: own_name, columns, first, table: table.cloned(), hidden: Vec::new(), merged: Vec::new() })
    }
}

/// All of them as one condition.
pub(crate) fn all_of(mut conditions: Vec<Expr>) -> Option<Expr> {
    match conditions.len() {
        0 | 1 => conditions.pop(),
        _ => Some(Expr::And(conditions)),
    }
}

/// A condition's conjuncts, owned.
pub(crate) fn split(condition: Expr) -> Vec<Expr> {
    match condition {
        Expr::And(parts) => parts.into_iter().flat_map(split).collect(),
        other => vec![other],
    }
}
