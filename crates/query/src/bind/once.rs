//! Values that an expression uses several times but computes once.

use super::Binder;
use crate::plan::{Expr, Typed};
use statement::error::SqlResult;

impl Binder<'_> {
    /// Builds an expression from values that it may use several times. Each value is computed once into a local
    /// variable, unless it is as cheap to compute as to look up. An expression therefore never grows beyond its text,
    /// however deep such constructs nest.
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

/// True if a value has no parts and means the same anywhere. A local variable does not: it belongs to the innermost
/// [`Expr::Let`].
fn is_leaf(expr: &Expr) -> bool {
    matches!(expr, Expr::Constant(_) | Expr::Parameter(_) | Expr::Column(_) | Expr::Outer { .. } | Expr::Now { .. })
}
