//! Queries of views follow what they name: `*` stands for the columns that there are when a view is made, and what gets another
//! name is named so in them from then on.
//!
//! **Invariant:** a query that was written anew means what it meant: it is bound, each of its names stands for the same relation
//! or column of a table, and so do the columns that joins merge. One of which that is not so keeps what it uses from being renamed.

use super::Ddl;
use crate::system::quoted;
use catalog::{Relation, State, ViewInfo};
use query::bind::kept::{fix_moments, literals, number, number_literals};
use query::bind::{Binder, Note, Noted};
use sqlparser::ast::{self, Expr, Ident, SelectItem, VisitMut, VisitorMut};
use sqlparser::tokenizer::Span;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use syntax::parse::folded;

/// What gets another name.
pub(super) struct Renamed<'r> {
    pub(super) what: Noted,
    pub(super) to: &'r str,
    /// Its schema, if that is another from now on.
    pub(super) schema: Option<&'r str>,
}

/// A view with its query as it will be, and what its names stand for.
pub(super) type Changed = (Arc<ViewInfo>, ast::Query, Vec<Note>);

fn ident(name: &str, span: Span) -> Ident {
    let quote_style = (quoted(name) != name).then_some('"');
    Ident { value: name.to_owned(), quote_style, span }
}

/// Puts names into a query, by where the old ones are written.
struct Writer<'w> {
    /// Names of relations, and of columns.
    names: HashSet<Span>,
    to: &'w str,
    schema: Option<&'w str>,
    stars: HashMap<Span, Vec<(Option<String>, String)>>,
}

impl Writer<'_> {
    fn put(&self, name: &mut Ident) {
        if self.names.contains(&name.span) {
            *name = ident(self.to, name.span);
        }
    }

    fn items(&self, items: &mut Vec<SelectItem>) {
        for item in std::mem::take(items) {
            let star = match &item {
                SelectItem::Wildcard(options) => self.stars.get(&options.wildcard_token.0.span),
                SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    self.stars.get(&Binder::span_of(name))
                }
                _ => None,
            };
            match (star, item) {
                (Some(columns), _) => items.extend(columns.iter().map(|(table, column)| {
                    let column = ident(column, Span::empty());
                    SelectItem::UnnamedExpr(match table {
                        Some(table) => Expr::CompoundIdentifier(vec![ident(table, Span::empty()), column]),
                        None => Expr::Identifier(column),
                    })
                })),
                // A column keeps the name that it has outside.
                (None, SelectItem::UnnamedExpr(expr)) => {
                    let own = match &expr {
                        Expr::Identifier(name) => Some(name),
                        Expr::CompoundIdentifier(parts) => parts.last(),
                        _ => None,
                    };
                    let alias = own.filter(|own| self.names.contains(&own.span)).cloned();
                    items.push(match alias {
                        Some(alias) => SelectItem::ExprWithAlias { expr, alias: ident(&folded(&alias), Span::empty()) },
                        None => SelectItem::UnnamedExpr(expr),
                    });
                }
                (None, mut item) => {
                    if let SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) =
                        &mut item
                        && let Some(ast::ObjectNamePart::Identifier(name)) = name.0.last_mut()
                    {
                        self.put(name);
                    }
                    items.push(item);
                }
            }
        }
    }
}

impl VisitorMut for Writer<'_> {
    type Break = Infallible;

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<Infallible> {
        self.items(&mut select.projection);
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &mut ast::ObjectName) -> ControlFlow<Infallible> {
        let Some(ast::ObjectNamePart::Identifier(last)) = name.0.last_mut() else {
            return ControlFlow::Continue(());
        };
        self.put(last);
        if let Some(schema) = self.schema
            && self.names.contains(&last.span)
        {
            let last = last.clone();
            *name = ast::ObjectName::from(vec![ident(schema, Span::empty()), last]);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        match expr {
            Expr::Identifier(name) => self.put(name),
            Expr::CompoundIdentifier(parts) => {
                parts.iter_mut().for_each(|part| self.put(part));
                // Where the schema stands, a table and a column stand behind it.
                if let (Some(schema), [.., before, table, _]) = (self.schema, &mut parts[..])
                    && self.names.contains(&table.span)
                {
                    *before = ident(schema, Span::empty());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Puts the schemas of relations before their names, by where those are written.
struct Qualifier<'q> {
    state: &'q State,
    relations: HashMap<Span, u32>,
}

impl VisitorMut for Qualifier<'_> {
    type Break = Infallible;

    fn pre_visit_relation(&mut self, name: &mut ast::ObjectName) -> ControlFlow<Infallible> {
        let relation = self.relations.get(&Binder::span_of(name)).and_then(|oid| self.state.relation_numbered(*oid));
        let schema = relation.and_then(|relation| self.state.schema_numbered(relation.schema()));
        if let (Some(schema), [ast::ObjectNamePart::Identifier(last)]) = (schema, &name.0[..]) {
            *name = ast::ObjectName::from(vec![ident(&schema.name, Span::empty()), last.clone()]);
        }
        ControlFlow::Continue(())
    }
}

impl Ddl<'_> {
    /// The query of a view that is made as it is kept, by the notes of its binding: with `*` written out, relations with their
    /// schemas, and numbers of relations in literals. Returns also the numbers of the relations that literals name.
    pub(super) fn settled_query(&self, query: &ast::Query, notes: &[Note]) -> SqlResult<(ast::Query, Vec<u32>)> {
        let star = |note: &Note| match &note.of {
            Noted::Star(columns) => Some((note.span, columns.clone())),
            _ => None,
        };
        let stars: HashMap<_, _> = notes.iter().filter_map(star).collect();
        let mut query = query.clone();
        if !stars.is_empty() {
            let _ = query.visit(&mut Writer { names: HashSet::new(), to: "", schema: None, stars });
        }
        number(&mut query);
        let binder = self.binder().noting();
        binder.query(&query, None).map_err(SqlError::nowhere)?;
        let notes = binder.take_notes();
        let relation = |note: &Note| match note.of {
            Noted::Relation(oid) => Some((note.span, oid)),
            _ => None,
        };
        let relations = notes.iter().filter_map(relation).collect();
        let _ = query.visit(&mut Qualifier { state: &self.state, relations });
        fix_moments(&mut query, &notes);
        let literals = literals(&notes);
        number_literals(&mut query, &literals);
        Ok((query, literals.into_values().collect()))
    }
}

impl Ddl<'_> {
    /// The queries of the views that use a relation, as they will be. To be asked before the catalog is changed.
    pub(super) fn renamed(&self, relation: u32, renamed: &Renamed<'_>) -> SqlResult<Vec<Changed>> {
        let views = self.state.views().filter(|view| view.uses.contains(&relation));
        let changed = views.map(|view| {
            let binder = Binder::new(&self.state, &view.path, &view.text, self.run.env, Vec::new()).noting();
            binder.query(&view.query, None)?;
            let notes = binder.take_notes();
            let is_written = |note: &&Note| note.of == renamed.what && note.span != Span::empty();
            let names: HashSet<Span> = notes.iter().filter(is_written).map(|note| note.span).collect();
            let mut query = view.query.clone();
            let _ = query.visit(&mut Writer { names, to: renamed.to, schema: renamed.schema, stars: HashMap::new() });
            Ok((Arc::clone(view), query, notes))
        });
        changed.collect()
    }

    /// The same where a table gets a column of this number: they stay as they are written, and may mean something else then.
    pub(super) fn beside_new_column(&self, table: u32, number: i16) -> SqlResult<Vec<Changed>> {
        self.renamed(table, &Renamed { what: Noted::Column(table, number), to: "", schema: None })
    }

    /// Puts them in place. To be called when the catalog is changed.
    ///
    /// # Errors
    /// `0A000`: one does not mean any more what it meant.
    pub(super) fn put_renamed(&mut self, changed: Vec<Changed>, action: &str) -> SqlResult<()> {
        for (view, query, notes) in changed {
            if self.state.relation_numbered(view.oid).is_none() {
                continue; // It went with a column.
            }
            let text = syntax::parse::print::query(&query)?;
            let is_same = {
                let binder = Binder::new(&self.state, &view.path, &text, self.run.env, Vec::new()).noting();
                let kinds = binder.query(&query, None).map(|bound| {
                    bound.columns.iter().map(|column| query::bind::settled(column.kind)).collect::<Vec<_>>()
                });
                let old: Vec<_> = view.columns.iter().map(|(_, kind)| *kind).collect();
                kinds.is_ok_and(|kinds| kinds == old) && binder.take_notes() == notes
            };
            if !is_same {
                let message = format!("cannot {action} used by a view");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                    .detail(format!("view {} would not mean the same any more", view.name))
                    .hint("Drop the view first, and create it again afterwards."));
            }
            self.state.replace(Relation::View(Arc::new(ViewInfo { text, query, ..(*view).clone() })))?;
        }
        Ok(())
    }

    /// Gives a column of a view another name.
    pub(super) fn rename_view_column(&mut self, view: &Arc<ViewInfo>, old: &str, new: &str) -> SqlResult<()> {
        let Some(at) = view.columns.iter().position(|(name, _)| name == old) else {
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{old}\" does not exist")));
        };
        if view.columns.iter().any(|(name, _)| name == new) {
            let message = format!("column \"{new}\" of relation \"{}\" already exists", view.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        let uses = self.state.views().any(|other| other.uses.contains(&view.oid));
        refuse!(uses => "to rename a column of a view that another view uses");
        let mut renamed = (**view).clone();
        new.clone_into(&mut renamed.columns[at].0);
        self.state.replace(Relation::View(Arc::new(renamed)))
    }
}
