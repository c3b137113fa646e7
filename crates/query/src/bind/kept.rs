//! Names of relations, and literals, in the texts that definitions keep: defaults, conditions, queries of views.
//!
//! **Invariant:** a literal is read once, when the definition is created. A literal whose value depends on the
//! session's settings or on the clock, such as a date or `'now'`, is kept in a form that every session reads alike. The
//! text means the same under any search path and follows renames, because a literal that names a relation
//! (`nextval('s')`, `'t'::regclass`) is kept as the relation's OID. The name is restored only for display.

use super::{Binder, NameReference, NameScope, NameTarget};
use statement::error::{SqlError, SqlResult};
use syntax::ast;
use syntax::edit::{Edits, on_one_line};
use syntax::grammar;
use syntax::lex::{Keyword, Lexeme, Lexer, Span};
use types::SqlType;

/// Type of the literals that name relations.
const REGCLASS: &str = "regclass";

/// Quotes a text as a literal.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Edits literals into the form that a definition keeps: literals that depend on settings or the clock become
/// independent of them, and names of relations become OIDs. Returns the OIDs.
pub fn settle(notes: &[NameReference], edits: &mut Edits) -> Vec<u32> {
    let mut uses = Vec::new();
    for NameReference { span, of } in notes.iter().filter(|note| note.span.is_known()) {
        match of {
            NameTarget::Moment(plain) => edits.replace(*span, quoted(plain)),
            NameTarget::Literal(oid) => {
                edits.replace(*span, format!("'{oid}'"));
                uses.push(*oid);
            }
            // The text calls the routine under any search path, and depends on it.
            NameTarget::Routine { oid, name } => {
                edits.replace(*span, name.clone());
                uses.push(*oid);
            }
            NameTarget::Relation(_) | NameTarget::Column(..) | NameTarget::Star(_) => {}
        }
    }
    uses.sort_unstable();
    uses.dedup();
    uses
}

/// Replaces OIDs of relations by their names, as `'name'::regclass`. Literals for which `name` returns `None` stay.
pub fn name_literals(text: &str, notes: &[NameReference], edits: &mut Edits, name: impl Fn(u32) -> Option<String>) {
    for NameReference { span, of } in notes.iter().filter(|note| note.span.is_known()) {
        let oid = match of {
            NameTarget::Literal(oid) => *oid,
            NameTarget::Moment(_)
            | NameTarget::Relation(_)
            | NameTarget::Column(..)
            | NameTarget::Routine { .. }
            | NameTarget::Star(_) => continue,
        };
        if let Some(name) = name(oid) {
            let cast = if is_regclass(text, *span) { "" } else { "::regclass" };
            edits.replace(*span, format!("{}{cast}", quoted(&name)));
        }
    }
}

/// True if the text casts a literal to `regclass`.
fn is_regclass(text: &str, literal: Span) -> bool {
    let before = Span { start: 0, end: literal.start }.of(text).trim_end();
    let word = before.len().checked_sub(REGCLASS.len()).and_then(|at| before.get(at..));
    if word.is_some_and(|word| word.eq_ignore_ascii_case(REGCLASS)) {
        return true;
    }
    let behind = text.get(literal.end as usize..).unwrap_or_default();
    let mut lexer = Lexer::new(behind);
    let (Ok(sign), Ok(kind)) = (lexer.next_token(), lexer.next_token()) else { return false };
    matches!(sign.lexeme, Lexeme::TypeCast | Lexeme::Keyword(Keyword::As))
        && kind.span.of(behind).eq_ignore_ascii_case(REGCLASS)
}

impl Binder<'_> {
    /// Returns the text of an expression of this type in the form that a definition keeps, and the OIDs of the
    /// relations that it names.
    ///
    /// # Errors
    /// Fails if the expression cannot be bound.
    pub fn kept(self, expr: &ast::KeptExpr, scope: &NameScope<'_>, to: SqlType) -> SqlResult<(String, Vec<u32>)> {
        let binder = self.noting();
        let notes = binder.notes_of(&expr.value, scope, to).map_err(SqlError::nowhere)?;
        let mut edits = Edits::default();
        let uses = settle(&notes, &mut edits);
        Ok((on_one_line(&edits.apply(binder.text, expr.extent))?, uses))
    }

    /// Returns the text of a kept expression, which is the binder's own text, with the relations' names from `name`.
    ///
    /// # Errors
    /// Fails if the text cannot be parsed.
    pub fn kept_text(
        self,
        scope: &NameScope<'_>,
        to: SqlType,
        name: impl Fn(u32) -> Option<String>,
    ) -> SqlResult<String> {
        let binder = self.noting();
        let tree = grammar::expression(binder.text)?;
        let mut edits = Edits::default();
        // A text that can no longer be bound is shown as it is stored.
        if let Ok(notes) = binder.notes_of(&tree, scope, to) {
            name_literals(binder.text, &notes, &mut edits, name);
        }
        Ok(edits.apply(binder.text, Span::new(0, binder.text.len())))
    }

    /// Binds an expression of a definition, and returns the notes.
    fn notes_of(&self, expr: &ast::Expr, scope: &NameScope<'_>, to: SqlType) -> SqlResult<Vec<NameReference>> {
        let bound = self.expr(expr, scope)?;
        self.coerce_default(bound, to)?;
        Ok(self.take_notes())
    }
}
