//! Queries of views as PostgreSQL writes them: every column with its table, every cast that was made, one line for each part.
//!
//! **Invariant:** what is written means the same when it is read again. A query with anything that is not known here is not
//! written at all.

use super::deparse::{Shown, Writer};
use super::{quoted, reg};
use crate::session::Env;
use catalog::{Relation, Seen, ViewInfo};
use query::bind::kept::{literals, name_literals};
use query::bind::{Binder, Note, Noted, Scope};
use query::plan::Expr;
use sqlparser::ast::{self, JoinConstraint, JoinOperator, TableFactor, VisitMut, VisitorMut};
use sqlparser::tokenizer::Span;
use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::ControlFlow;
use syntax::parse::{folded, print};
use types::Kind;

/// The query of a view; nothing if it has parts that are not known here.
pub(super) fn query(seen: &Seen, env: &Env, view: &ViewInfo, pretty: bool) -> Option<String> {
    let ast::Query { with: None, body, order_by, limit_clause: None, fetch: None, locks, .. } = &view.query else {
        return None;
    };
    let ast::SetExpr::Select(select) = &**body else { return None };
    if !locks.is_empty() || !select.named_window.is_empty() || select.from.is_empty() {
        return None;
    }
    let binder = Binder::new(&seen.state, &view.path, &view.text, env, Vec::new()).without_expansion();
    let mut scope = Scope::default();
    binder.from(&select.from, &mut scope).ok()?;
    let columns = columns(&scope);
    let writer = Writer { seen, env, columns: &columns, pretty };
    let all = Query { binder, scope: &scope, writer, view };
    let mut written = all.targets(select)?;
    written.push_str(&all.sources(&select.from)?);
    if let Some(condition) = &select.selection {
        written.push_str(&format!("\n  WHERE {}", all.condition(condition)?));
    }
    let ast::GroupByExpr::Expressions(groups, modifiers) = &select.group_by else { return None };
    if !modifiers.is_empty() || select.having.is_some() {
        return None;
    }
    if !groups.is_empty() {
        let groups: Option<Vec<_>> = groups.iter().map(|group| all.column(group)).collect();
        written.push_str(&format!("\n  GROUP BY {}", groups?.join(", ")));
    }
    if let Some(order) = order_by {
        written.push_str(&format!("\n  ORDER BY {}", all.order(order)?));
    }
    Some(format!("{written};"))
}

/// All columns of FROM by their places in the row.
fn columns(scope: &Scope<'_>) -> Vec<Shown> {
    let mut all = Vec::new();
    for relation in &scope.relations {
        for (column, value) in relation.columns.iter().zip(&relation.values) {
            let Expr::Column(at) = value else { continue };
            while all.len() <= *at {
                all.push(Shown::default());
            }
            let text = format!("{}.{}", quoted(&relation.alias), quoted(&column.name));
            all[*at] = Shown { text, kind: Some(column.kind.kind), is_compound: false };
        }
    }
    all
}

struct Query<'q> {
    binder: Binder<'q>,
    scope: &'q Scope<'q>,
    writer: Writer<'q>,
    view: &'q ViewInfo,
}

impl Query<'_> {
    fn targets(&self, select: &ast::Select) -> Option<String> {
        let mut targets: Vec<(String, String)> = Vec::new();
        for item in &select.projection {
            match item {
                ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, alias: _ } => {
                    targets.push(self.target(expr)?);
                }
                ast::SelectItem::Wildcard(_) => {
                    let relations = self.scope.relations.iter();
                    let columns = relations.flat_map(|relation| relation.columns.iter().zip(&relation.values));
                    for (column, value) in columns {
                        targets.push((self.writer.whole(value, column.kind.kind)?, column.name.clone()));
                    }
                }
                _ => return None,
            }
        }
        if targets.len() != self.view.columns.len() {
            return None;
        }
        let named = targets
            .into_iter()
            .zip(&self.view.columns)
            .map(|((text, own), (name, _))| if own == *name { text } else { format!("{text} AS {}", quoted(name)) });
        let distinct = match &select.distinct {
            None | Some(ast::Distinct::All) => "",
            Some(ast::Distinct::Distinct) => "DISTINCT ",
            Some(ast::Distinct::On(_)) => return None,
        };
        Some(format!(" SELECT {distinct}{}", named.collect::<Vec<_>>().join(",\n    ")))
    }

    /// An expression, and the name that it has by itself; nothing that is no column has one.
    fn target(&self, expr: &ast::Expr) -> Option<(String, String)> {
        let Ok(typed) = self.binder.expr(expr, self.scope) else { return Some((self.aggregate(expr)?, String::new())) };
        let own = match (&typed.expr, expr) {
            (Expr::Column(_), ast::Expr::Identifier(name)) => folded(name),
            (Expr::Column(_), ast::Expr::CompoundIdentifier(parts)) => folded(parts.last()?),
            _ => String::new(),
        };
        Some((self.writer.whole(&typed.expr, typed.kind.kind)?, own))
    }

    /// A plain call of an aggregate.
    fn aggregate(&self, expr: &ast::Expr) -> Option<String> {
        let ast::Expr::Function(call) = expr else { return None };
        let plain = call.filter.is_none() && call.over.is_none() && call.within_group.is_empty();
        let ast::FunctionArguments::List(list) = &call.args else { return None };
        let is_distinct = match list.duplicate_treatment {
            None | Some(ast::DuplicateTreatment::All) => "",
            Some(ast::DuplicateTreatment::Distinct) => "DISTINCT ",
        };
        let name = call.name.0.last()?.as_ident().map(folded)?;
        let is_one = !matches!(types::ops::resolve_aggregate(&name, &[]), Ok(None));
        if !plain || !is_one || !list.clauses.is_empty() {
            return None;
        }
        let arguments: Option<Vec<String>> = list
            .args
            .iter()
            .map(|argument| match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard) => Some("*".to_owned()),
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => self.column(expr),
                _ => None,
            })
            .collect();
        Some(format!("{}({is_distinct}{})", quoted(&name), arguments?.join(", ")))
    }

    /// A column, and nothing else.
    fn column(&self, expr: &ast::Expr) -> Option<String> {
        let typed = self.binder.expr(expr, self.scope).ok()?;
        matches!(typed.expr, Expr::Column(_)).then(|| self.writer.whole(&typed.expr, typed.kind.kind)).flatten()
    }

    fn condition(&self, expr: &ast::Expr) -> Option<String> {
        let typed = self.binder.expr(expr, self.scope).ok()?;
        self.writer.whole(&typed.expr, Kind::Bool)
    }

    fn order(&self, order: &ast::OrderBy) -> Option<String> {
        let ast::OrderByKind::Expressions(keys) = &order.kind else { return None };
        let written: Option<Vec<String>> = keys
            .iter()
            .map(|key| {
                let is_down = match &key.options.sort {
                    None | Some(ast::OrderBySort::Asc) => false,
                    Some(ast::OrderBySort::Desc) => true,
                    Some(ast::OrderBySort::Using(_)) => return None,
                };
                // Nulls are first where the order is downward.
                let nulls = match key.options.nulls_first {
                    Some(true) if !is_down => " NULLS FIRST",
                    Some(false) if is_down => " NULLS LAST",
                    _ => "",
                };
                Some(format!("{}{}{nulls}", self.column(&key.expr)?, if is_down { " DESC" } else { "" }))
            })
            .collect();
        Some(written?.join(", "))
    }

    fn sources(&self, from: &[ast::TableWithJoins]) -> Option<String> {
        let written: Option<Vec<String>> = from.iter().map(|source| self.source(source)).collect();
        Some(format!("\n   FROM {}", written?.join(",\n    ")))
    }

    fn source(&self, source: &ast::TableWithJoins) -> Option<String> {
        let mut written = self.relation(&source.relation)?;
        for join in &source.joins {
            let (word, constraint) = match &join.join_operator {
                JoinOperator::Join(on) | JoinOperator::Inner(on) => ("JOIN", on),
                JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => ("LEFT JOIN", on),
                JoinOperator::Right(on) | JoinOperator::RightOuter(on) => ("RIGHT JOIN", on),
                JoinOperator::FullOuter(on) => ("FULL JOIN", on),
                JoinOperator::CrossJoin(on) => ("CROSS JOIN", on),
                _ => return None,
            };
            let right = self.relation(&join.relation)?;
            let on = match constraint {
                JoinConstraint::None => String::new(),
                JoinConstraint::On(on) if self.writer.pretty => format!(" ON {}", self.condition(on)?),
                JoinConstraint::On(on) => format!(" ON ({})", self.condition(on)?),
                JoinConstraint::Using(_) | JoinConstraint::Natural => return None,
            };
            written = format!("{written}\n     {word} {right}{on}");
            if !self.writer.pretty {
                written = format!("({written})");
            }
        }
        Some(written)
    }

    fn relation(&self, factor: &TableFactor) -> Option<String> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
        let found = self.binder.find(&self.binder.qualified(name).ok()?)?;
        if !matches!(found, Relation::Table(_) | Relation::View(_)) {
            return None;
        }
        let shown = reg::relation_shown(self.writer.seen, found.oid())?;
        match alias {
            None => Some(shown),
            Some(alias) if alias.columns.is_empty() => Some(format!("{shown} {}", quoted(&folded(&alias.name)))),
            Some(_) => None,
        }
    }
}

/// The query of a view as its author has written it, with the schemas of relations that the session's path does not find, and
/// with the names that its columns have; nothing if it does not have this plan. A view that cannot be bound means nothing that
/// could be compared.
pub(super) fn as_written(seen: &Seen, env: &Env, view: &ViewInfo, plan: Option<&str>) -> Option<String> {
    let binder = Binder::new(&seen.state, &view.path, &view.text, env, Vec::new()).noting();
    let bound = match binder.query(&view.query, None) {
        Ok(bound) => bound,
        Err(error) if error.is_of_names() => return shown(&view.query),
        // It might be bound another time, and mean something else then.
        Err(_) => return None,
    };
    let notes = binder.take_notes();
    let of_relation = |note: &Note| match note.of {
        Noted::Relation(oid) if note.span != Span::empty() => Some((note.span, oid)),
        Noted::Relation(_) | Noted::Literal(_) | Noted::Moment(_) | Noted::Column(..) | Noted::Star(_) => None,
    };
    let relations = notes.iter().filter_map(of_relation).collect();
    let mut query = view.query.clone();
    let _ = query.visit(&mut Qualifier { seen, relations });
    name_literals(&mut query, &literals(&notes), |oid| reg::relation_shown(seen, oid));
    let is_right = |text: &String| plan.is_none_or(|plan| is_same(seen, env, view, plan, text));
    // Every output says its name: another server may call it otherwise.
    let aliased = || {
        let mut query = query.clone();
        name_columns(&mut query.body, &view.columns)?;
        shown(&query).filter(is_right)
    };
    // The queries inside have their own names for what the view calls otherwise.
    let is_named = bound.columns.iter().zip(&view.columns).all(|(column, (name, _))| column.name == *name);
    let plain = || shown(&query).filter(|text| is_named && is_right(text));
    let wrapped = || {
        let names: Vec<String> = view.columns.iter().map(|(name, _)| quoted(name)).collect();
        let inner = print::query(&query).ok()?;
        let names = names.join(", ");
        Some(format!(" SELECT {names}\n   FROM ({inner}) view({names});"))
            .filter(|text| with_columns(seen, env, view, text).is_some())
    };
    aliased().or_else(plain).or_else(wrapped)
}

/// A query as a statement.
fn shown(query: &ast::Query) -> Option<String> {
    print::query(query).ok().map(|text| format!(" {text};"))
}

fn ident(name: &str) -> ast::Ident {
    ast::Ident { quote_style: (quoted(name) != name).then_some('"'), ..ast::Ident::new(name) }
}

/// Gives the outputs of a query these names.
fn name_columns(body: &mut ast::SetExpr, columns: &[(String, types::SqlType)]) -> Option<()> {
    match body {
        ast::SetExpr::Select(select) if select.projection.len() == columns.len() => {
            for (item, (name, _)) in select.projection.iter_mut().zip(columns) {
                let nothing = ast::SelectItem::UnnamedExpr(ast::Expr::Value(ast::Value::Null.into()));
                let (ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) =
                    std::mem::replace(item, nothing)
                else {
                    return None;
                };
                let own = match &expr {
                    ast::Expr::Identifier(own) => Some(own),
                    ast::Expr::CompoundIdentifier(parts) => parts.last(),
                    _ => None,
                };
                *item = match own.is_some_and(|own| folded(own) == *name) {
                    true => ast::SelectItem::UnnamedExpr(expr),
                    false => ast::SelectItem::ExprWithAlias { expr, alias: ident(name) },
                };
            }
            Some(())
        }
        ast::SetExpr::SetOperation { left, .. } => name_columns(left, columns),
        ast::SetExpr::Query(query) => name_columns(&mut query.body, columns),
        ast::SetExpr::Select(_)
        | ast::SetExpr::Values(_)
        | ast::SetExpr::Insert(_)
        | ast::SetExpr::Update(_)
        | ast::SetExpr::Delete(_)
        | ast::SetExpr::Merge(_)
        | ast::SetExpr::Table(_) => None,
    }
}

/// Puts schemas before names of relations that need them, and takes them from those that do not.
struct Qualifier<'q> {
    seen: &'q Seen,
    /// By where their names are written.
    relations: HashMap<Span, u32>,
}

impl VisitorMut for Qualifier<'_> {
    type Break = Infallible;

    fn pre_visit_relation(&mut self, name: &mut ast::ObjectName) -> ControlFlow<Infallible> {
        if let Some(ast::ObjectNamePart::Identifier(last)) = name.0.last()
            && let Some(oid) = self.relations.get(&last.span)
            && let Some((schema, _)) = reg::relation_name(self.seen, *oid)
        {
            let is_found = reg::relation_by_path(self.seen, &folded(last)) == Some(*oid);
            let parts = if is_found { vec![last.clone()] } else { vec![ident(&schema), last.clone()] };
            *name = ast::ObjectName::from(parts);
        }
        ControlFlow::Continue(())
    }
}

/// The one query of a text, bound by the session's path.
fn bound(seen: &Seen, env: &Env, text: &str) -> Option<query::bind::Bound> {
    let mut parsed = syntax::parse::parse(text).ok()?;
    let (Some(one), true) = (parsed.pop(), parsed.is_empty()) else { return None };
    let ast::Statement::Query(query) = one.tree else { return None };
    let binder = Binder::new(&seen.state, &seen.path, text, env, Vec::new()).without_expansion();
    binder.query(&query, None).ok()
}

/// A text as the session's path reads it, if it is a query with the columns of the view.
fn with_columns(seen: &Seen, env: &Env, view: &ViewInfo, text: &str) -> Option<query::bind::Bound> {
    bound(seen, env, text).filter(|bound| {
        let mut columns = bound.columns.iter().zip(&view.columns);
        bound.columns.len() == view.columns.len()
            && columns.all(|(own, (name, kind))| own.name == *name && query::bind::settled(own.kind) == *kind)
    })
}

/// Plan of the view's query, as text; nothing if it cannot be bound. The views that it names are not bound themselves: the text
/// of each view of a chain would take as long as the chain is, and that of one that reaches itself could not be compared.
pub(super) fn plan_of(seen: &Seen, env: &Env, view: &ViewInfo) -> Option<String> {
    let binder = Binder::new(&seen.state, &view.path, &view.text, env, Vec::new()).without_expansion();
    binder.query(&view.query, None).ok().map(|own| plan_text(&own.plan))
}

/// Tells whether a text, read by the session's path, is the query of the view: it has its columns, and this plan.
pub(super) fn is_same(seen: &Seen, env: &Env, view: &ViewInfo, plan: &str, text: &str) -> bool {
    with_columns(seen, env, view, text).is_some_and(|written| plan_text(&written.plan) == plan)
}

/// A plan as text, in which queries that are shared have the numbers of their order, and no others.
fn plan_text(plan: &query::plan::Plan) -> String {
    let text = format!("{plan:?}");
    let mut written = String::with_capacity(text.len());
    let mut known: Vec<&str> = Vec::new();
    let mut rest = &*text;
    while let Some(at) = ["id: ", "Working("].iter().filter_map(|word| Some(rest.find(word)? + word.len())).min() {
        written.push_str(&rest[..at]);
        let length = rest[at..].bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest[at..].split_at(length);
        let place = known.iter().position(|one| *one == number).unwrap_or_else(|| {
            known.push(number);
            known.len() - 1
        });
        written.push_str(&format!("#{place}"));
        rest = after;
    }
    written.push_str(rest);
    written
}
