//! Lowering of bound plans to DataFusion's.
//!
//! **Invariant:** a lowered plan returns the rows of the row path for the same plan: the same values, display scales,
//! blanks and nulls. A plan that cannot be lowered exactly is refused with `0A000`, and runs on the row path. SQL
//! names are not used: each column gets a unique name here, and is found by its place in the row.
//!
//! The modules, in the order to read them: `plan` (sources of rows), `joins` (`FROM`), `expr` (values and conditions),
//! `guards` (which of them see all rows), `compare` (which compare as arrays do), `number` (arithmetic), `aggregate`.

mod aggregate;
mod compare;
mod correlated;
mod expr;
mod guards;
mod joins;
mod number;
mod plan;
#[cfg(test)]
mod tests;

pub(crate) use guards::{asks_for_one_row, plan_can_raise};

use crate::scan::TableOrigin;
use crate::values::Repr;
use datafusion::arrow::datatypes::Field;
use datafusion::common::{Column, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr as Df, LogicalPlan, LogicalPlanBuilder};
use query::analytics::{AnalyticsQuery, StoredCode};
use query::plan::Expr;
use statement::pulse;
use statement::{SqlError, SqlResult};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::Arc;
use types::ops::CallContext;
use types::{Datum, SqlType};

/// Maximum number of adjacent conditions of a whole query: a chain of twice as many overflows DataFusion's stack.
const CONDITIONS_MAX: usize = 2000;
/// Maximum number of expressions copied for local values. DataFusion has no local values, so nested ones double at
/// each level.
const COPIES_MAX: usize = 20_000;
/// Maximum depth of nested plans and expressions: DataFusion descends them by recursion, without checking its stack of
/// 8 MiB.
const DEPTH_MAX: usize = 500;
/// Units of work of lowering a plan or expression.
const LEVEL: usize = 512;
/// Maximum number of plans of a query, where a query of `WITH` counts each time it is used.
const PLANS_MAX: usize = 2_000;

/// Lowers a plan over the rows of `tables`, without optimizing it. Values of parameters become constants, so that
/// scans can use them.
///
/// # Errors
/// `0A000` for plans that are not supported here; errors of constants.
pub(crate) fn lower(query: &AnalyticsQuery<'_>, parameters: &[Datum], tables: &TableOrigin) -> SqlResult<LogicalPlan> {
    let AnalyticsQuery { plan, parameters: _, columns, context, code } = *query;
    let lowering = Lowering::new(parameters, (context, code), tables);
    let lowered = lowering.plan(plan, None)?;
    let answer = columns.iter().enumerate().map(|(at, kind)| {
        let place = lowered.place(at)?;
        Ok(answer_column(place, *kind))
    });
    let answer = answer.collect::<SqlResult<Vec<_>>>()?;
    Ok(lowering.project(lowered.plan, answer)?.plan)
}

/// Returns a value as a result column. Properties that neither its array's type nor its SQL type tells are put into
/// the value.
fn answer_column(place: &LoweredColumn, kind: SqlType) -> (Df, Repr) {
    match place.repr {
        Repr::Padded(length) if kind.max_length() != Some(length as usize) => (
            crate::functions::kernels::call(crate::functions::kernels::Kernel::Pad(length), vec![place.value()]),
            Repr::Text,
        ),
        // Where untyped nulls were compared, they have an array of some type.
        Repr::Null => (Df::Literal(ScalarValue::Null, None), Repr::Null),
        repr => (place.value(), repr),
    }
}

/// State of a lowering.
struct Lowering<'a> {
    parameters: &'a [Datum],
    context: &'a Arc<dyn CallContext>,
    /// Stored code that the plan may call.
    code: Option<&'a Arc<dyn StoredCode>>,
    tables: &'a TableOrigin,
    /// Number of the next unique name.
    next: Cell<u64>,
    /// Queries of `WITH` that were lowered before.
    shared: RefCell<HashSet<u64>>,
    /// Current nesting depth of plans and expressions.
    depth: Cell<usize>,
    conditions: Cell<usize>,
    /// Number of expressions copied for local values.
    copies: Cell<usize>,
    /// Number of lowered plans.
    plans: Cell<usize>,
}

/// Column at a place of a row.
#[derive(Clone, Debug)]
struct LoweredColumn {
    column: Column,
    repr: Repr,
}

/// Plan, and the columns of its row; `None` for an unused place.
struct LoweredPlan {
    plan: LogicalPlan,
    places: Vec<Option<LoweredColumn>>,
}

/// Row that an expression is over, with those of the enclosing queries.
#[derive(Clone, Copy)]
struct LoweredRow<'r> {
    places: &'r [Option<LoweredColumn>],
    outer: Option<&'r LoweredRow<'r>>,
}

/// Lowered expression.
#[derive(Clone, Debug)]
struct LoweredExpr {
    expr: Df,
    repr: Repr,
    /// Constant value, if it is the same for all rows.
    constant: Option<Datum>,
    /// Scale of each value, for decimals whose scale differs from row to row.
    scale: Option<Box<Df>>,
}

impl LoweredColumn {
    fn value(&self) -> Df {
        Df::Column(self.column.clone())
    }

    /// Returns a reference from a subquery within the row's query.
    fn as_outer(&self) -> Df {
        let field = Field::new(self.column.name.clone(), self.repr.data_type(), true);
        Df::OuterReferenceColumn(Arc::new(field), self.column.clone())
    }
}

impl LoweredPlan {
    fn place(&self, at: usize) -> SqlResult<&LoweredColumn> {
        place(&self.places, at)
    }
}

impl LoweredRow<'_> {
    fn value(&self, at: usize) -> SqlResult<LoweredExpr> {
        let place = place(self.places, at)?;
        Ok(LoweredExpr::of(place.value(), place.repr))
    }

    /// Returns a value of the row of an enclosing query, `level` queries out.
    fn outer_value(&self, level: usize, at: usize) -> SqlResult<LoweredExpr> {
        let mut row = self;
        for _ in 0..level {
            row = row.outer.ok_or_else(crate::values::mismatch)?;
        }
        let place = place(row.places, at)?;
        Ok(LoweredExpr::of(place.as_outer(), place.repr))
    }
}

fn place(places: &[Option<LoweredColumn>], at: usize) -> SqlResult<&LoweredColumn> {
    places.get(at).and_then(Option::as_ref).ok_or_else(crate::values::mismatch)
}

impl LoweredExpr {
    fn of(expr: Df, repr: Repr) -> LoweredExpr {
        LoweredExpr { expr, repr, constant: None, scale: None }
    }
}

/// Guard of [`Lowering::level`].
struct DepthGuard<'l>(&'l Cell<usize>);

impl Drop for DepthGuard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<'a> Lowering<'a> {
    fn new(
        parameters: &'a [Datum],
        (context, code): (&'a Arc<dyn CallContext>, Option<&'a Arc<dyn StoredCode>>),
        tables: &'a TableOrigin,
    ) -> Lowering<'a> {
        Lowering {
            parameters,
            context,
            code,
            tables,
            next: Cell::new(0),
            shared: RefCell::default(),
            depth: Cell::new(0),
            conditions: Cell::new(0),
            copies: Cell::new(0),
            plans: Cell::new(0),
        }
    }

    /// Goes one level deeper, until the guard is dropped.
    ///
    /// # Errors
    /// `0A000`
    fn level(&self) -> SqlResult<DepthGuard<'_>> {
        let level = DepthGuard(&self.depth);
        self.depth.set(self.depth.get() + 1);
        pulse::tick(LEVEL)?;
        if DEPTH_MAX < self.depth.get() {
            return Err(SqlError::unsupported("a query as deep as this one as analytics"));
        }
        Ok(level)
    }

    /// Counts adjacent conditions. DataFusion gathers as many as it can from the whole query into one chain, without a
    /// bound on its depth.
    ///
    /// # Errors
    /// `0A000`
    fn count_conditions(&self, more: usize) -> SqlResult<()> {
        self.conditions.set(self.conditions.get().saturating_add(more));
        if CONDITIONS_MAX < self.conditions.get() {
            return Err(SqlError::unsupported("as many conditions as these as analytics"));
        }
        Ok(())
    }

    /// Counts the parts of an expression into which local values were copied.
    ///
    /// # Errors
    /// `0A000`
    fn count_copies(&self, expr: &Expr) -> SqlResult<()> {
        let copies = self.copies.get() + expr.size();
        self.copies.set(copies);
        if COPIES_MAX < copies {
            return Err(SqlError::unsupported("values that are used as often as these as analytics"));
        }
        Ok(())
    }

    /// Returns a unique name.
    fn name(&self, of: &str) -> String {
        let number = self.next.get();
        self.next.set(number + 1);
        format!("{of}{number}")
    }

    /// Projects these values under unique names.
    fn project(&self, plan: LogicalPlan, values: Vec<(Df, Repr)>) -> SqlResult<LoweredPlan> {
        let mut places = Vec::with_capacity(values.len());
        let mut exprs = Vec::with_capacity(values.len());
        for (expr, repr) in values {
            let name = self.name("c");
            places.push(Some(LoweredColumn { column: Column::new_unqualified(name.clone()), repr }));
            exprs.push(expr.alias(name));
        }
        if exprs.is_empty() {
            // A row without columns has a dummy column.
            exprs.push(Df::Literal(ScalarValue::Boolean(Some(true)), None).alias(self.name("c")));
        }
        let plan = build(LogicalPlanBuilder::from(plan).project(exprs))?;
        Ok(LoweredPlan { plan, places })
    }
}

/// Returns the plan of a builder.
fn build(builder: Result<LogicalPlanBuilder, DataFusionError>) -> SqlResult<LogicalPlan> {
    builder.and_then(LogicalPlanBuilder::build).map_err(refused)
}

/// Error for a plan that DataFusion refuses.
pub(crate) fn refused(error: DataFusionError) -> SqlError {
    SqlError::unsupported("this query as analytics").detail(error.strip_backtrace())
}
