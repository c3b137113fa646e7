//! Values that an expression names several times and computes once.

use super::Binder;
use crate::error::SqlResult;
use crate::plan::{Expr, Typed, visit};

impl Binder<'_> {
    /// Makes an expression of values that it may name several times. One that is volatile, or has a query in it, is computed
    /// once: the expression names a local value instead.
    pub(super) fn once<const N: usize>(
        &self,
        values: [Typed; N],
        body: impl FnOnce(&Self, [Typed; N]) -> SqlResult<Typed>,
    ) -> SqlResult<Typed> {
        let mut locals = Vec::new();
        let named = values.map(|value| {
            if value.expr.is_volatile() || value.expr.has_query() || has_local(&value.expr) {
                let local = Expr::Local(locals.len());
                locals.push(value.expr);
                Typed { expr: local, ..value }
            } else {
                value
            }
        });
        let made = body(self, named)?;
        Ok(match locals.is_empty() {
            true => made,
            false => Typed { expr: Expr::Let { values: locals, body: Box::new(made.expr) }, ..made },
        })
    }
}

/// Whether it names a local value, which is no other expression's.
fn has_local(expr: &Expr) -> bool {
    let mut found = false;
    visit(expr, 0, &mut |expr, _| found |= matches!(expr, Expr::Local(_)));
    found
}
