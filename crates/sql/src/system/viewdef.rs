//! Queries of views as PostgreSQL writes them: every column with its table, every cast that was made, one line for each part.
//!
//! **Invariant:** what is written means the same when it is read again. A query with anything that is not known here is not
//! written at all.

use super::deparse::{Shown, Writer};
use super::{quoted, reg};
use crate::bind::{Binder, Scope};
use crate::catalog::{Relation, Seen, ViewInfo};
use crate::ops::Env;
use crate::parse::folded;
use crate::plan::Expr;
use crate::types::Kind;
use sqlparser::ast::{self, JoinConstraint, JoinOperator, TableFactor};

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
        let is_one = !matches!(crate::ops::resolve_aggregate(&name, &[]), Ok(None));
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
