//! Bound plans as DataFusion's, the way there from SQL's meaning to columns.
//!
//! **Invariant:** a lowered plan has the rows that the row path finds for the same plan: values, display scales, blanks, nulls.
//! What cannot be said exactly is refused with `0A000`, and the row path does it. Names play no part: each column has
//! one of its own, made here, and is found by its place in the row.
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

pub(crate) use guards::plan_can_raise;

use crate::database::TableOrigin;
use crate::values::Repr;
use datafusion::arrow::datatypes::Field;
use datafusion::common::{Column, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr as Df, LogicalPlan, LogicalPlanBuilder};
use query::plan::{Expr, Plan};
use statement::pulse;
use statement::{SqlError, SqlResult};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::Arc;
use types::ops::CallContext;
use types::{Datum, SqlType};

/// Greatest number of conditions side by side, of a whole query: a chain of twice as many is too deep for its stack.
const CONDITIONS_MAX: usize = 2000;
/// Greatest number of expressions that are copied to where a local value is named. DataFusion has no name for such a value, so
/// those inside one another double at each level.
const COPIES_MAX: usize = 20_000;
/// Greatest depth of plans and expressions one inside the other: what DataFusion makes of them goes through its own
/// recursions, which ask nobody for room, on stacks of 8 MiB.
const DEPTH_MAX: usize = 500;
/// Units of work of a plan or expression that is lowered.
const LEVEL: usize = 512;
/// Greatest number of plans of a query, each query of `WITH` counted as often as it is named.
const PLANS_MAX: usize = 2_000;

/// A plan as DataFusion's, over the rows of `tables`, not yet optimised. The parameters' values become constants of it, so
/// that scans can use them.
///
/// # Errors
/// `0A000` for what this path does not do; errors of the constants in it.
pub(crate) fn lower(
    plan: &Plan,
    columns: &[SqlType],
    parameters: &[Datum],
    context: &Arc<dyn CallContext>,
    tables: &TableOrigin,
) -> SqlResult<LogicalPlan> {
    let lowering = Lowering::new(parameters, context, tables);
    let lowered = lowering.plan(plan, None)?;
    let answer = columns.iter().enumerate().map(|(at, kind)| {
        let place = lowered.place(at)?;
        Ok(answer_column(place, *kind))
    });
    let answer = answer.collect::<SqlResult<Vec<_>>>()?;
    Ok(lowering.project(lowered.plan, answer)?.plan)
}

/// A value as an answer's column: what its array's type and its SQL type do not say is put into the value.
fn answer_column(place: &LoweredColumn, kind: SqlType) -> (Df, Repr) {
    match place.repr {
        Repr::Padded(length) if kind.max_length() != Some(length as usize) => (
            crate::functions::kernels::call(crate::functions::kernels::Kernel::Pad(length), vec![place.value()]),
            Repr::Text,
        ),
        // Where nulls of no type were compared, they are an array of some type.
        Repr::Null => (Df::Literal(ScalarValue::Null, None), Repr::Null),
        repr => (place.value(), repr),
    }
}

/// What a lowering knows.
struct Lowering<'a> {
    parameters: &'a [Datum],
    context: &'a Arc<dyn CallContext>,
    tables: &'a TableOrigin,
    /// Of the names that are made.
    next: Cell<u64>,
    /// Queries of `WITH` that have been lowered once.
    shared: RefCell<HashSet<u64>>,
    /// Number of plans and expressions that are being lowered, one inside the other.
    depth: Cell<usize>,
    conditions: Cell<usize>,
    /// Number of expressions that have been copied for local values.
    copies: Cell<usize>,
    /// Number of plans that have been lowered.
    plans: Cell<usize>,
}

/// A place of a row.
#[derive(Clone, Debug)]
struct LoweredColumn {
    column: Column,
    repr: Repr,
}

/// A plan, and where its values are; nothing stands where nobody looks.
struct LoweredPlan {
    plan: LogicalPlan,
    places: Vec<Option<LoweredColumn>>,
}

/// The row that an expression is over, and those of the enclosing queries.
#[derive(Clone, Copy)]
struct LoweredRow<'r> {
    places: &'r [Option<LoweredColumn>],
    outer: Option<&'r LoweredRow<'r>>,
}

/// A lowered expression.
#[derive(Clone, Debug)]
struct LoweredExpr {
    expr: Df,
    repr: Repr,
    /// What it is, if it is the same for all rows.
    constant: Option<Datum>,
    /// Of decimals whose scale differs from row to row: which it is.
    scale: Option<Box<Df>>,
}

impl LoweredColumn {
    fn value(&self) -> Df {
        Df::Column(self.column.clone())
    }

    /// As a query within the row's asks for it.
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

    /// A value of the row so many queries out.
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

/// See [`Lowering::level`].
struct DepthGuard<'l>(&'l Cell<usize>);

impl Drop for DepthGuard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<'a> Lowering<'a> {
    fn new(parameters: &'a [Datum], context: &'a Arc<dyn CallContext>, tables: &'a TableOrigin) -> Lowering<'a> {
        Lowering {
            parameters,
            context,
            tables,
            next: Cell::new(0),
            shared: RefCell::default(),
            depth: Cell::new(0),
            conditions: Cell::new(0),
            copies: Cell::new(0),
            plans: Cell::new(0),
        }
    }

    /// One level deeper, as long as what is returned lives.
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

    /// Counts conditions that stand side by side. DataFusion gathers those that it can from the whole query, and makes a chain of
    /// them that is as deep as they are many, which nothing bounds on its way.
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

    /// Counts what an expression is made of that has its local values in the places of their names.
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

    /// A name that nobody else has.
    fn name(&self, of: &str) -> String {
        let number = self.next.get();
        self.next.set(number + 1);
        format!("{of}{number}")
    }

    /// These values, under names of their own.
    fn project(&self, plan: LogicalPlan, values: Vec<(Df, Repr)>) -> SqlResult<LoweredPlan> {
        let mut places = Vec::with_capacity(values.len());
        let mut exprs = Vec::with_capacity(values.len());
        for (expr, repr) in values {
            let name = self.name("c");
            places.push(Some(LoweredColumn { column: Column::new_unqualified(name.clone()), repr }));
            exprs.push(expr.alias(name));
        }
        if exprs.is_empty() {
            // A row of no columns is one that nobody looks at.
            exprs.push(Df::Literal(ScalarValue::Boolean(Some(true)), None).alias(self.name("c")));
        }
        let plan = build(LogicalPlanBuilder::from(plan).project(exprs))?;
        Ok(LoweredPlan { plan, places })
    }
}

/// What a builder has made.
fn build(builder: Result<LogicalPlanBuilder, DataFusionError>) -> SqlResult<LogicalPlan> {
    builder.and_then(LogicalPlanBuilder::build).map_err(refused)
}

/// What DataFusion does not plan.
pub(crate) fn refused(error: DataFusionError) -> SqlError {
    SqlError::unsupported("this query as analytics").detail(error.strip_backtrace())
}
