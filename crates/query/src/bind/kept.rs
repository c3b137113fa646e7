//! Names of relations and literals in what a definition keeps: defaults, conditions, queries of views.
//!
//! **Invariant:** a literal is read once, when the definition is made: one that another session's settings would read as another
//! value, as a date or `'now'`, is kept as all read it alike. What is kept means the same whatever the search path, and follows what gets another name: a literal that names a
//! relation (`nextval('s')`, `'t'::regclass`) has the relation's number in its place. The name is put back only to show it.

use super::{Binder, Note, Noted, Scope};
use sqlparser::ast::{self, Expr, Ident, SelectItem, ValueWithSpan, VisitMut, VisitorMut};
use sqlparser::tokenizer::{Location, Span};
use statement::error::{SqlError, SqlResult};
use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::ControlFlow;
use syntax::parse::print;
use types::SqlType;

/// Gives every name and literal a place of its own, by which it is found later.
struct Numbers(u64);

/// See `Numbers`.
pub fn number(tree: &mut impl VisitMut) {
    let _ = tree.visit(&mut Numbers(0));
}

impl Numbers {
    fn next(&mut self) -> Span {
        self.0 += 1;
        let place = Location { line: 1, column: self.0 };
        Span { start: place, end: place }
    }

    fn number_last(&mut self, name: &mut ast::ObjectName) {
        if let Some(ast::ObjectNamePart::Identifier(name)) = name.0.last_mut() {
            name.span = self.next();
        }
    }
}

impl VisitorMut for Numbers {
    type Break = Infallible;

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<Infallible> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) = item {
                self.number_last(name);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &mut ast::ObjectName) -> ControlFlow<Infallible> {
        self.number_last(name);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        match expr {
            Expr::Identifier(name) => name.span = self.next(),
            Expr::CompoundIdentifier(parts) => parts.iter_mut().for_each(|part: &mut Ident| part.span = self.next()),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<Infallible> {
        value.span = self.next();
        ControlFlow::Continue(())
    }
}

/// Relations that literals name, by where those stand, from the notes of a binding of a numbered tree.
pub fn literals(notes: &[Note]) -> HashMap<Span, u32> {
    let literal = |note: &Note| match note.of {
        Noted::Literal(oid) if note.span != Span::empty() => Some((note.span, oid)),
        Noted::Literal(_) | Noted::Moment(_) | Noted::Relation(_) | Noted::Column(..) | Noted::Star(_) => None,
    };
    notes.iter().filter_map(literal).collect()
}

/// Puts the literals that settings or the clock decide as any settings read them, by the notes of a binding of a numbered tree.
pub fn fix_moments(tree: &mut impl VisitMut, notes: &[Note]) {
    struct Writer(HashMap<Span, String>);
    impl VisitorMut for Writer {
        type Break = Infallible;

        fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<Infallible> {
            if let Some(plain) = self.0.get(&value.span) {
                value.value = ast::Value::SingleQuotedString(plain.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let moment = |note: &Note| match &note.of {
        Noted::Moment(plain) if note.span != Span::empty() => Some((note.span, plain.clone())),
        Noted::Moment(_) | Noted::Literal(_) | Noted::Relation(_) | Noted::Column(..) | Noted::Star(_) => None,
    };
    let moments: HashMap<Span, String> = notes.iter().filter_map(moment).collect();
    if !moments.is_empty() {
        let _ = tree.visit(&mut Writer(moments));
    }
}

/// Puts the numbers of relations in the place of literals that name them.
pub fn number_literals(tree: &mut impl VisitMut, literals: &HashMap<Span, u32>) {
    struct Writer<'w>(&'w HashMap<Span, u32>);
    impl VisitorMut for Writer<'_> {
        type Break = Infallible;

        fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<Infallible> {
            if let Some(oid) = self.0.get(&value.span) {
                value.value = ast::Value::SingleQuotedString(oid.to_string());
            }
            ControlFlow::Continue(())
        }
    }
    if !literals.is_empty() {
        let _ = tree.visit(&mut Writer(literals));
    }
}

/// Puts names in the place of literals that name relations, as `'name'::regclass`; those for which `name` has nothing stay.
pub fn name_literals(tree: &mut impl VisitMut, literals: &HashMap<Span, u32>, name: impl Fn(u32) -> Option<String>) {
    struct Writer<'w, F>(&'w HashMap<Span, u32>, F);
    impl<F: Fn(u32) -> Option<String>> VisitorMut for Writer<'_, F> {
        type Break = Infallible;

        fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<Infallible> {
            if let Some(text) = self.0.get(&value.span).and_then(|oid| (self.1)(*oid)) {
                value.value = ast::Value::SingleQuotedString(text);
            }
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
            match expr {
                Expr::Value(value) if self.0.contains_key(&value.span) => {
                    let inner = Box::new(Expr::Value(value.clone()));
                    *expr = cast_to_regclass(inner);
                }
                // It was written with a cast already.
                Expr::Cast { expr: inner, data_type: ast::DataType::Regclass, .. } if is_cast_literal(inner) => {
                    let inner = std::mem::replace(&mut **inner, Expr::Value(ast::Value::Null.into()));
                    *expr = inner;
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    if !literals.is_empty() {
        let _ = tree.visit(&mut Writer(literals, name));
    }
}

fn cast_to_regclass(expr: Box<Expr>) -> Expr {
    Expr::Cast { kind: ast::CastKind::DoubleColon, expr, data_type: ast::DataType::Regclass, format: None }
}

/// Tells whether it is the cast of a literal, as [`cast_to_regclass`] makes it.
fn is_cast_literal(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Cast { kind: ast::CastKind::DoubleColon, expr, data_type: ast::DataType::Regclass, format: None }
            if matches!(**expr, Expr::Value(_))
    )
}

impl Binder<'_> {
    /// An expression of this type as a definition keeps it, and the numbers of the relations that it names.
    ///
    /// # Errors
    /// Those of binding it; `0A000`: it has no text.
    pub fn kept(self, expr: &Expr, scope: &Scope<'_>, to: SqlType) -> SqlResult<(Expr, Vec<u32>)> {
        let (mut tree, notes) = self.with_notes(expr, scope, to)?;
        fix_moments(&mut tree, &notes);
        let literals = literals(&notes);
        number_literals(&mut tree, &literals);
        // What cannot be said again must not be kept.
        print::expression(&tree)?;
        let mut uses: Vec<u32> = literals.into_values().collect();
        uses.sort_unstable();
        uses.dedup();
        Ok((tree, uses))
    }

    /// The text of an expression that a definition keeps, with relations as `name` says.
    ///
    /// # Errors
    /// `0A000`: it has none.
    pub fn kept_text(
        self,
        expr: &Expr,
        scope: &Scope<'_>,
        to: SqlType,
        name: impl Fn(u32) -> Option<String>,
    ) -> SqlResult<String> {
        let tree = match self.with_notes(expr, scope, to) {
            Ok((mut tree, notes)) => {
                name_literals(&mut tree, &literals(&notes), name);
                tree
            }
            Err(_) => expr.clone(),
        };
        print::expression(&tree)
    }

    fn with_notes(self, expr: &Expr, scope: &Scope<'_>, to: SqlType) -> SqlResult<(Expr, Vec<Note>)> {
        let mut tree = expr.clone();
        number(&mut tree);
        let binder = self.noting();
        let bound = binder.expr(&tree, scope).map_err(SqlError::nowhere)?;
        binder.coerce_default(bound, to).map_err(SqlError::nowhere)?;
        let notes = binder.take_notes();
        Ok((tree, notes))
    }
}
