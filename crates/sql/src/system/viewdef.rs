//! Queries of views as PostgreSQL writes them: every column with its table, every implicit cast, one line for each
//! part.
//!
//! **Invariant:** the text has the same meaning when it is parsed again. A query with a part of an unknown kind is not
//! written at all.

use super::deparse::{DeparsedColumn, Deparser};
use super::{quoted, reg};
use crate::context::Env;
use catalog::{CatalogSnapshot, Relation, ViewInfo};
use query::bind::kept::name_literals;
use query::bind::{Binder, NameReference, NameScope, NameTarget};
use query::plan::Expr;
use std::collections::HashMap;
use syntax::ast::{
    self, Alias, Argument, Distinct, ExprKind, FromItem, FunctionCall, GroupItem, JoinCondition, JoinItem, JoinKind,
    Limit, NullsOrder, ObjectName, QueryBody, Select, SelectItem, SortBy, SortOrder, TableItem,
};
use syntax::edit::Edits;
use syntax::grammar;
use syntax::lex::{Keyword, Span};
use types::Kind;

/// Returns the query of a view; `None` if it has a part of an unknown kind.
pub(super) fn query(snapshot: &CatalogSnapshot, env: &Env, view: &ViewInfo, pretty: bool) -> Option<String> {
    let tree = grammar::query(&view.text).ok()?;
    // Every field of the tree is either written below or required to be absent here.
    let ast::Query { with: None, body, order_by, limit, locking, span: _ } = &tree else { return None };
    let Limit { count: None, offset: None, with_ties: _ } = limit else { return None };
    let QueryBody::Select(select) = body else { return None };
    let Select {
        distinct,
        list,
        into: None,
        from,
        condition,
        group_by,
        is_group_distinct: false,
        having: None,
        windows,
    } = &**select
    else {
        return None;
    };
    if !locking.is_empty() || !windows.is_empty() || from.is_empty() {
        return None;
    }
    let binder =
        Binder::new(&snapshot.state, &view.path, &view.text, env, Vec::new()).of_stored_text().without_expansion();
    let mut scope = NameScope::default();
    binder.from(from, &mut scope).ok()?;
    let columns = columns(&scope);
    let writer = Deparser { snapshot, env, columns: &columns, pretty };
    let all = QueryDeparser { binder, scope: &scope, writer, view };
    let mut written = all.targets(distinct, list)?;
    written.push_str(&all.sources(from)?);
    if let Some(condition) = condition {
        written.push_str(&format!("\n  WHERE {}", all.condition(condition)?));
    }
    if !group_by.is_empty() {
        let groups: Option<Vec<_>> = group_by.iter().map(|group| all.group(group)).collect();
        written.push_str(&format!("\n  GROUP BY {}", groups?.join(", ")));
    }
    if !order_by.is_empty() {
        written.push_str(&format!("\n  ORDER BY {}", all.order(order_by)?));
    }
    Some(format!("{written};"))
}

/// Returns all columns of FROM by their positions in the row.
fn columns(scope: &NameScope<'_>) -> Vec<DeparsedColumn> {
    let mut all = Vec::new();
    for relation in &scope.relations {
        for (column, value) in relation.columns.iter().zip(&relation.values) {
            let Expr::Column(at) = value else { continue };
            while all.len() <= *at {
                all.push(DeparsedColumn::default());
            }
            let text = format!("{}.{}", quoted(&relation.alias), quoted(&column.name));
            all[*at] = DeparsedColumn { text, kind: Some(column.kind.kind), is_compound: false };
        }
    }
    all
}

struct QueryDeparser<'q> {
    binder: Binder<'q>,
    scope: &'q NameScope<'q>,
    writer: Deparser<'q>,
    view: &'q ViewInfo,
}

impl QueryDeparser<'_> {
    fn targets(&self, distinct: &Distinct, list: &[SelectItem]) -> Option<String> {
        let mut targets: Vec<(String, String)> = Vec::new();
        for SelectItem { value, label: _, span: _ } in list {
            match &value.kind {
                ExprKind::AllColumns(None) => self.all_columns(&mut targets)?,
                ExprKind::AllColumns(Some(_)) => return None,
                _ => targets.push(self.target(value)?),
            }
        }
        if targets.len() != self.view.columns.len() {
            return None;
        }
        let named = targets
            .into_iter()
            .zip(&self.view.columns)
            .map(|((text, own), (name, _))| if own == *name { text } else { format!("{text} AS {}", quoted(name)) });
        let distinct = match distinct {
            Distinct::No => "",
            Distinct::Rows => "DISTINCT ",
            Distinct::On(_) => return None,
        };
        Some(format!(" SELECT {distinct}{}", named.collect::<Vec<_>>().join(",\n    ")))
    }

    fn all_columns(&self, targets: &mut Vec<(String, String)>) -> Option<()> {
        let relations = self.scope.relations.iter();
        for (column, value) in relations.flat_map(|relation| relation.columns.iter().zip(&relation.values)) {
            targets.push((self.writer.whole(value, column.kind.kind)?, column.name.clone()));
        }
        Some(())
    }

    /// Returns the text of an expression, and the name that it gets without an alias: only a column gets one.
    fn target(&self, expr: &ast::Expr) -> Option<(String, String)> {
        let Ok(typed) = self.binder.expr(expr, self.scope) else { return Some((self.aggregate(expr)?, String::new())) };
        let own = match &typed.expr {
            Expr::Column(_) => own_name(expr).unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        Some((self.writer.whole(&typed.expr, typed.kind.kind)?, own))
    }

    /// Returns the text of a plain call of an aggregate.
    fn aggregate(&self, expr: &ast::Expr) -> Option<String> {
        let ExprKind::Call(call) = &expr.kind else { return None };
        let FunctionCall {
            name,
            arguments,
            is_star,
            is_distinct,
            is_variadic: false,
            order_by,
            is_within_group: false,
            filter: None,
            over: None,
            is_special: false,
        } = &**call
        else {
            return None;
        };
        let name = &**name.parts.last()?;
        let is_one = !matches!(types::ops::resolve_aggregate(name, &[]), Ok(None));
        if !is_one || !order_by.is_empty() {
            return None;
        }
        let argument = |argument: &Argument| match argument.name {
            Some(_) => None,
            None => self.column(&argument.value),
        };
        let arguments: Vec<String> = match is_star {
            true => vec!["*".to_owned()],
            false => arguments.iter().map(argument).collect::<Option<_>>()?,
        };
        let distinct = if *is_distinct { "DISTINCT " } else { "" };
        Some(format!("{}({distinct}{})", quoted(name), arguments.join(", ")))
    }

    fn group(&self, group: &GroupItem) -> Option<String> {
        match group {
            GroupItem::Expr(key) => self.column(key),
            GroupItem::Empty(_) | GroupItem::Rollup(..) | GroupItem::Cube(..) | GroupItem::Sets(..) => None,
        }
    }

    /// Returns the text of a column; `None` for any other expression.
    fn column(&self, expr: &ast::Expr) -> Option<String> {
        let typed = self.binder.expr(expr, self.scope).ok()?;
        matches!(typed.expr, Expr::Column(_)).then(|| self.writer.whole(&typed.expr, typed.kind.kind)).flatten()
    }

    fn condition(&self, expr: &ast::Expr) -> Option<String> {
        let typed = self.binder.expr(expr, self.scope).ok()?;
        self.writer.whole(&typed.expr, Kind::Bool)
    }

    fn order(&self, keys: &[SortBy]) -> Option<String> {
        let written: Option<Vec<String>> = keys.iter().map(|key| self.sort_key(key)).collect();
        Some(written?.join(", "))
    }

    fn sort_key(&self, key: &SortBy) -> Option<String> {
        let SortBy { value, order, nulls } = key;
        let is_down = match order {
            SortOrder::Default | SortOrder::Ascending => false,
            SortOrder::Descending => true,
            SortOrder::Using(_) => return None,
        };
        // Nulls come first in a descending order by default.
        let nulls = match nulls {
            NullsOrder::First if !is_down => " NULLS FIRST",
            NullsOrder::Last if is_down => " NULLS LAST",
            NullsOrder::First | NullsOrder::Last | NullsOrder::Default => "",
        };
        Some(format!("{}{}{nulls}", self.column(value)?, if is_down { " DESC" } else { "" }))
    }

    fn sources(&self, from: &[FromItem]) -> Option<String> {
        let written: Option<Vec<String>> = from.iter().map(|source| self.source(source)).collect();
        Some(format!("\n   FROM {}", written?.join(",\n    ")))
    }

    fn source(&self, source: &FromItem) -> Option<String> {
        match source {
            FromItem::Table(table) => self.relation(table),
            FromItem::Join(join) => self.join(join),
            FromItem::Query { .. } | FromItem::Functions { .. } | FromItem::Unsupported(..) => None,
        }
    }

    fn join(&self, join: &JoinItem) -> Option<String> {
        let JoinItem { kind, left, right: FromItem::Table(right), condition, alias: None, span: _ } = join else {
            return None;
        };
        let word = match kind {
            JoinKind::Inner => "JOIN",
            JoinKind::Left => "LEFT JOIN",
            JoinKind::Right => "RIGHT JOIN",
            JoinKind::Full => "FULL JOIN",
            JoinKind::Cross => "CROSS JOIN",
        };
        let (left, right) = (self.source(left)?, self.relation(right)?);
        let on = match condition {
            JoinCondition::None => String::new(),
            JoinCondition::On(on) if self.writer.pretty => format!(" ON {}", self.condition(on)?),
            JoinCondition::On(on) => format!(" ON ({})", self.condition(on)?),
            JoinCondition::Using(..) | JoinCondition::Natural => return None,
        };
        let written = format!("{left}\n     {word} {right}{on}");
        Some(if self.writer.pretty { written } else { format!("({written})") })
    }

    fn relation(&self, table: &TableItem) -> Option<String> {
        let TableItem { name, is_only: false, alias, is_sampled: false, span: _ } = table else { return None };
        let found = self.binder.find(&self.binder.qualified(name).ok()?)?;
        if !matches!(found, Relation::Table(_) | Relation::View(_)) {
            return None;
        }
        let shown = reg::relation_shown(self.writer.snapshot, found.oid())?;
        match alias {
            None => Some(shown),
            Some(Alias { name: Some(name), columns }) if columns.is_empty() => {
                Some(format!("{shown} {}", quoted(name)))
            }
            Some(_) => None,
        }
    }
}

/// Returns the name that a column has without an alias.
fn own_name(expr: &ast::Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Column(name) => name.parts.last().map(|last| &**last),
        _ => None,
    }
}

/// Returns the query of a view as its author wrote it, with the schemas of relations that the session's search path
/// does not find, and with the names of the view's columns; `None` if that text does not have this plan. A view that
/// cannot be bound has no plan to compare.
pub(super) fn as_written(snapshot: &CatalogSnapshot, env: &Env, view: &ViewInfo, plan: Option<&str>) -> Option<String> {
    let text = &*view.text;
    let tree = grammar::query(text).ok()?;
    let binder = Binder::new(&snapshot.state, &view.path, text, env, Vec::new()).of_stored_text().noting();
    let bound = match binder.query(&tree, None) {
        Ok(bound) => bound,
        Err(error) if error.is_of_names() => return Some(shown(text)),
        // The view might bind at another time, and mean something else then.
        Err(_) => return None,
    };
    let notes = binder.take_notes();
    let mut edits = Edits::default();
    let relations = relations(&notes);
    ast::visit::query(&tree, &mut PathQualifier { snapshot, text, relations, edits: &mut edits });
    name_literals(text, &notes, &mut edits, |oid| reg::relation_shown(snapshot, oid));
    let whole = Span::new(0, text.len());
    let is_right = |text: &String| plan.is_none_or(|plan| is_same(snapshot, env, view, plan, text));
    // Every output column gets an alias, since another server may name it differently.
    let aliased = || {
        let mut edits = edits.clone();
        name_columns(&tree, &view.columns, &mut edits)?;
        Some(shown(&edits.apply(text, whole))).filter(is_right)
    };
    // Subqueries may keep names of their own where the view has others.
    let is_named = bound.columns.iter().zip(&view.columns).all(|(column, (name, _))| column.name == *name);
    let plain = || Some(shown(&edits.apply(text, whole))).filter(|text| is_named && is_right(text));
    let wrapped = || {
        let names: Vec<String> = view.columns.iter().map(|(name, _)| quoted(name)).collect();
        let inner = edits.apply(text, whole);
        let names = names.join(", ");
        Some(format!(" SELECT {names}\n   FROM ({inner}) view({names});"))
            .filter(|text| with_columns(snapshot, env, view, text).is_some())
    };
    aliased().or_else(plain).or_else(wrapped)
}

/// Returns a query as a statement.
fn shown(query: &str) -> String {
    format!(" {query};")
}

/// Returns the relations that names stand for, by the first bytes of the names' last parts.
fn relations(notes: &[NameReference]) -> HashMap<u32, u32> {
    let relation = |note: &NameReference| match note.of {
        NameTarget::Relation(oid) if note.span.is_known() => Some((note.span.start, oid)),
        NameTarget::Relation(_)
        | NameTarget::Literal(_)
        | NameTarget::Moment(_)
        | NameTarget::Column(..)
        | NameTarget::Routine { .. }
        | NameTarget::Star(_) => None,
    };
    notes.iter().filter_map(relation).collect()
}

/// Gives the output columns of a query these names. A set operation has those of its first query.
fn name_columns(query: &ast::Query, columns: &[(String, types::SqlType)], edits: &mut Edits) -> Option<()> {
    match &query.body {
        QueryBody::Select(select) if select.list.len() == columns.len() => {
            select.list.iter().zip(columns).try_for_each(|(item, (name, _))| name_column(item, name, edits))
        }
        QueryBody::SetOperation { left, .. } => name_columns(left, columns, edits),
        QueryBody::Select(_) | QueryBody::Values(_) => None,
    }
}

fn name_column(item: &SelectItem, name: &str, edits: &mut Edits) -> Option<()> {
    let SelectItem { value, label, span } = item;
    match (&value.kind, label) {
        (ExprKind::AllColumns(_), _) => return None,
        (_, Some(label)) if **label == *name => {}
        // Without AS, not every keyword may be a label.
        (_, Some(label)) if Keyword::of(name).is_some() => edits.replace(label.span, format!("\"{name}\"")),
        (_, Some(label)) => edits.replace(label.span, quoted(name)),
        (_, None) if own_name(value) == Some(name) => {}
        (_, None) => edits.insert_behind(*span, format!(" AS {}", quoted(name))),
    }
    Some(())
}

/// Visitor that adds the schemas of relations to names that need them, and removes them from those that do not.
struct PathQualifier<'q> {
    snapshot: &'q CatalogSnapshot,
    text: &'q str,
    /// OIDs of relations by the first bytes of their names' last parts.
    relations: HashMap<u32, u32>,
    edits: &'q mut Edits,
}

impl ast::visit::Visitor for PathQualifier<'_> {
    fn relation(&mut self, name: &ObjectName) {
        if let Some(last) = name.parts.last()
            && let Some(oid) = self.relations.get(&last.span.start)
            && let Some((schema, _)) = reg::relation_name(self.snapshot, *oid)
        {
            let is_found = reg::relation_by_path(self.snapshot, last) == Some(*oid);
            let own = last.span.of(self.text);
            let written = if is_found { own.to_owned() } else { format!("{}.{own}", quoted(&schema)) };
            self.edits.replace(name.span(), written);
        }
    }
}

/// Binds the only query of a text by the session's search path.
fn bound(snapshot: &CatalogSnapshot, env: &Env, text: &str) -> Option<query::bind::BoundQuery> {
    let mut parsed = grammar::parse(text).ok()?;
    let (Some(one), true) = (parsed.pop(), parsed.is_empty()) else { return None };
    let ast::Statement::Query(query) = one.statement else { return None };
    let binder =
        Binder::new(&snapshot.state, &snapshot.path, text, env, Vec::new()).of_stored_text().without_expansion();
    binder.query(&query, None).ok()
}

/// Binds a text by the session's search path. `None` if it is not a query with the columns of the view.
fn with_columns(snapshot: &CatalogSnapshot, env: &Env, view: &ViewInfo, text: &str) -> Option<query::bind::BoundQuery> {
    bound(snapshot, env, text).filter(|bound| {
        let mut columns = bound.columns.iter().zip(&view.columns);
        bound.columns.len() == view.columns.len()
            && columns.all(|(own, (name, kind))| own.name == *name && query::bind::settled(own.kind) == *kind)
    })
}

/// Returns the plan of the view's query, as text; `None` if it cannot be bound. Views that it names are not expanded:
/// the text of a chain of views would grow with its length, and a view that reaches itself could not be compared.
pub(super) fn plan_of(snapshot: &CatalogSnapshot, env: &Env, view: &ViewInfo) -> Option<String> {
    let binder =
        Binder::new(&snapshot.state, &view.path, &view.text, env, Vec::new()).of_stored_text().without_expansion();
    let tree = grammar::query(&view.text).ok()?;
    binder.query(&tree, None).ok().map(|own| plan_text(&own.plan))
}

/// Returns true if a text, bound by the session's search path, is the query of the view: it has the view's columns, and
/// this plan.
pub(super) fn is_same(snapshot: &CatalogSnapshot, env: &Env, view: &ViewInfo, plan: &str, text: &str) -> bool {
    with_columns(snapshot, env, view, text).is_some_and(|written| plan_text(&written.plan) == plan)
}

/// Returns a plan as text, in which shared queries are numbered by the order of their appearance.
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
