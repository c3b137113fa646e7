//! Values that an expression names several times and computes once.

use super::Binder;
use crate::plan::{Expr, Typed};
use statement::error::SqlResult;

impl Binder<'_> {
    /// Makes an expression of values that it may name several times. A value is computed once, and the expression names it as a
    /// local one; what is as cheap to compute as to look up stands where it is named. So an expression never grows by more than
    /// what is written, however deep such expressions stand in one another.
    pub(super) fn once<const N: usize>(
        &self,
        values: [Typed; N],
        body: impl FnOnce(&Self, [Typed; N]) -> SqlResult<Typed>,
    ) -> SqlResult<Typed> {
        let mut locals = Vec::new();
        let named = values.map(|value| {
            if is_leaf(&value.expr) {
                return value;
            }
            let local = Expr::Local(locals.len());
            locals.push(value.expr);
            Typed { expr: local, ..value }
        });
        let made = body(self, named)?;
        Ok(match locals.is_empty() {
            true => made,
            false => Typed { expr: Expr::Let { values: locals, body: Box::new(made.expr) }, ..made },
        })
    }
}

/// Tells whether a value has no parts and is the same wherever it stands. A local one is not: it is that of the innermost
/// [`Expr::Let`].
fn is_leaf(expr: &Expr) -> bool {
    matches!(expr, Expr::Constant(_) | Expr::Parameter(_) | Expr::Column(_) | Expr::Outer { .. } | Expr::Now { .. })
}
