//! Positions of expressions in error messages, as PostgreSQL's `exprLocation` defines them: that of the leftmost part,
//! without parentheses.

use super::Binder;
use statement::pulse;
use syntax::ast::{self, CastStyle, ExprKind, Indirection, QueryBody};
use syntax::lex::Span;

/// Returns the position of an expression. A typed literal has the position of its text, which is all that is left of it
/// after binding. A bound part knows its position itself.
pub(super) fn start(mut expr: &ast::Expr) -> Span {
    loop {
        // The error is dropped here because the next check finds the cancellation again.
        let _ = pulse::walk(pulse::ITEM);
        expr = match &expr.kind {
            ExprKind::Cast { value, style: CastStyle::Sign(_) | CastStyle::Literal, .. }
            | ExprKind::Collate { value, .. }
            | ExprKind::Is { value, .. }
            | ExprKind::Like { value, .. }
            | ExprKind::Between { value, .. }
            | ExprKind::InList { value, .. }
            | ExprKind::InQuery { value, .. }
            | ExprKind::Quantified { value, .. }
            | ExprKind::Infix { left: value, .. }
            | ExprKind::IsDistinct { left: value, .. }
            | ExprKind::Indirection { of: value, .. } => value,
            ExprKind::And(all) | ExprKind::Or(all) => match all.first() {
                Some(first) => first,
                None => return expr.span,
            },
            ExprKind::Call(call) => return call_start(call, expr.span),
            ExprKind::Constant(_)
            | ExprKind::Parameter(_)
            | ExprKind::Column(_)
            | ExprKind::AllColumns(_)
            | ExprKind::Cast { style: CastStyle::Function, .. }
            | ExprKind::Prefix { .. }
            | ExprKind::Not(_)
            | ExprKind::Subquery(_)
            | ExprKind::Exists(_)
            | ExprKind::ArrayQuery(_)
            | ExprKind::Array(_)
            | ExprKind::Row { .. }
            | ExprKind::Case { .. }
            | ExprKind::Coalesce(_)
            | ExprKind::NullIf(_)
            | ExprKind::Greatest(_)
            | ExprKind::Least(_)
            | ExprKind::Grouping(_)
            | ExprKind::Session(_)
            | ExprKind::Default
            | ExprKind::CurrentOf(_)
            | ExprKind::Unsupported(_) => return expr.span,
        };
    }
}

/// Returns the position of a call with this span. A call with a syntax of its own may start with something other than
/// its first argument: `moment AT TIME ZONE zone` is `timezone(zone, moment)`, and has the position of `AT`.
pub(super) fn call_start(call: &ast::FunctionCall, span: Span) -> Span {
    if !call.is_special {
        return span;
    }
    let name = call.name.span();
    match call.arguments.first().map(|first| start(&first.value)) {
        Some(first) if first.is_known() && first.start < name.start => first,
        _ => name,
    }
}

impl Binder<'_> {
    /// Returns the position of a query's column, as far as the tree shows it.
    pub(super) fn column_start(&self, query: &ast::Query, at: usize) -> Span {
        match &query.body {
            QueryBody::Select(select) => self.item_start(&select.list, at),
            QueryBody::SetOperation { left, .. } => self.column_start(left, at),
            QueryBody::Values(rows) => rows.first().and_then(|row| row.get(at)).map_or(Span::NOWHERE, start),
        }
    }

    /// Returns the position of a column of this select list.
    pub(super) fn item_start(&self, items: &[ast::SelectItem], at: usize) -> Span {
        let is_star = |item: &ast::SelectItem| match &item.value.kind {
            ExprKind::AllColumns(_) => true,
            ExprKind::Indirection { steps, .. } => matches!(steps.last(), Some(Indirection::All(_))),
            _ => false,
        };
        // Columns of a `*` have its position. The tree does not tell their number, so columns behind it get the same.
        let star = items.iter().take(at + 1).position(is_star);
        items.get(star.unwrap_or(at)).map_or(Span::NOWHERE, |item| start(&item.value))
    }
}
