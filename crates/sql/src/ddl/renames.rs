//! Rewrites the queries of views when the names in them change. `*` stands for the columns at the time of the view's
//! creation, and a renamed object gets its new name in the queries, too.
//!
//! **Invariant:** a rewritten query keeps its meaning: it binds, each of its names stands for the same relation or
//! column of a table, and so do the columns that joins merge. A view for which that does not hold prevents the rename.

use super::Ddl;
use crate::system::quoted;
use catalog::{Relation, ViewInfo};
use query::bind::{Binder, NameReference, NameTarget, settled};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::collections::HashSet;
use std::sync::Arc;
use syntax::ast::{Expr, ExprKind, Name, ObjectName, SelectItem, visit};
use syntax::edit::Edits;
use syntax::grammar;
use syntax::lex::Span;

/// Object that is renamed.
pub(super) struct RenamedObject<'r> {
    pub(super) what: NameTarget,
    pub(super) to: &'r str,
    /// New schema of the object, if it moves.
    pub(super) schema: Option<&'r str>,
}

/// View, the new text of its query, and the meanings of the names in it.
pub(super) type ViewChange = (Arc<ViewInfo>, String, Vec<NameReference>);

/// Visitor that replaces an old name in the text of a query with the new one.
struct NameReplacer {
    /// Positions of the names' first bytes.
    names: HashSet<u32>,
    /// New schema of the relation, quoted, if it moves.
    schema: Option<String>,
    /// New name, quoted.
    to: String,
    edits: Edits,
}

impl NameReplacer {
    fn of(notes: &[NameReference], renamed: &RenamedObject<'_>) -> NameReplacer {
        let is_written = |note: &&NameReference| note.of == renamed.what && note.span.is_known();
        let mut writer = NameReplacer {
            names: HashSet::new(),
            schema: renamed.schema.map(quoted),
            to: quoted(renamed.to),
            edits: Edits::default(),
        };
        for note in notes.iter().filter(is_written) {
            if writer.names.insert(note.span.start) {
                writer.edits.replace(note.span, &*writer.to);
            }
        }
        writer
    }

    /// Replaces the schema in a name of several parts, the last of which is the relation's.
    fn put_schema(&mut self, relation: &[Name]) {
        if let (Some(schema), [.., before, own]) = (&self.schema, relation)
            && self.names.contains(&own.span.start)
        {
            self.edits.replace(before.span, &**schema);
        }
    }
}

impl visit::Visitor for NameReplacer {
    fn relation(&mut self, name: &ObjectName) {
        match (&self.schema, &name.parts[..]) {
            (Some(schema), [own]) if self.names.contains(&own.span.start) => {
                let own_schema = Span { start: own.span.start, end: own.span.start };
                self.edits.replace(own_schema, format!("{schema}."));
            }
            (_, parts) => self.put_schema(parts),
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            // A schema is followed by a table and a column.
            ExprKind::Column(name) => {
                if let [relation @ .., _] = &name.parts[..] {
                    self.put_schema(relation);
                }
            }
            ExprKind::AllColumns(Some(name)) => self.put_schema(&name.parts),
            _ => {}
        }
    }

    /// Keeps the output name of a renamed column.
    fn select_item(&mut self, item: &SelectItem) {
        if let (None, ExprKind::Column(name)) = (&item.label, &item.value.kind)
            && let Some(own) = name.parts.last()
            && self.names.contains(&own.span.start)
        {
            self.edits.insert_behind(item.span, format!(" AS {}", quoted(own)));
        }
    }
}

impl Ddl<'_> {
    /// Returns a binder for a view's query with this text.
    pub(super) fn binder_of_view<'t>(&'t self, view: &'t ViewInfo, text: &'t str) -> Binder<'t> {
        Binder::new(&self.state, &view.path, text, self.run.env, Vec::new()).of_stored_text()
    }

    /// Returns the rewritten queries of the views that use a relation. Must be called before the catalog is changed.
    pub(super) fn renamed(&self, relation: u32, renamed: &RenamedObject<'_>) -> SqlResult<Vec<ViewChange>> {
        let views = self.state.views().filter(|view| view.uses.contains(&relation));
        let changed = views.map(|view| {
            let query = grammar::query(&view.text)?;
            let binder = self.binder_of_view(view, &view.text).noting();
            binder.query(&query, None)?;
            let notes = binder.take_notes();
            let mut writer = NameReplacer::of(&notes, renamed);
            visit::query(&query, &mut writer);
            let text = writer.edits.apply(&view.text, Span::new(0, view.text.len()));
            Ok((Arc::clone(view), text, notes))
        });
        changed.collect()
    }

    /// Returns the queries of the views that use a table which gets a column of this number: their text is unchanged,
    /// but its meaning may differ then.
    pub(super) fn beside_new_column(&self, table: u32, number: i16) -> SqlResult<Vec<ViewChange>> {
        self.renamed(table, &RenamedObject { what: NameTarget::Column(table, number), to: "", schema: None })
    }

    /// Puts rewritten queries in place. Must be called after the catalog is changed.
    ///
    /// # Errors
    /// `0A000`: a query has lost its meaning.
    pub(super) fn put_renamed(&mut self, changed: Vec<ViewChange>, action: &str) -> SqlResult<()> {
        for (view, text, notes) in changed {
            if self.state.relation_numbered(view.oid).is_none() {
                continue; // The view was dropped with a column.
            }
            let is_same = {
                let binder = self.binder_of_view(&view, &text).noting();
                let kinds = binder
                    .query(&grammar::query(&text)?, None)
                    .map(|bound| bound.columns.iter().map(|column| settled(column.kind)).collect::<Vec<_>>());
                let old: Vec<_> = view.columns.iter().map(|(_, kind)| *kind).collect();
                kinds.is_ok_and(|kinds| kinds == old) && binder.take_notes() == notes
            };
            if !is_same {
                let message = format!("cannot {action} used by a view");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                    .detail(format!("view {} would not mean the same any more", view.name))
                    .hint("Drop the view first, and create it again afterwards."));
            }
            self.state.replace(Relation::View(Arc::new(ViewInfo { text, ..(*view).clone() })))?;
        }
        Ok(())
    }

    /// Renames a column of a view.
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
