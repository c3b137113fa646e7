//! Window functions.

use super::calls::{AGGREGATES, CallKey, SETS, WINDOWS};
use super::{Binder, Clause, NameScope, settled};
use crate::plan::{
    Exclude, Expr, Frame, FrameBound, FrameUnit, RangeSteps, SortKey, Typed, WindowCall, WindowFunction, visit,
};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use syntax::ast::{self, FrameExclusion, FunctionCall, Name, Over, WindowDefinition, WindowSpec};
use syntax::lex::Span;
use types::datum::Datum;
use types::ops::{self, CastContext};
use types::{Kind, SqlType};

/// Window as the statement defines it, with the clauses of a named window that it refers to.
#[derive(Clone, Copy)]
struct WrittenWindow<'s> {
    partition: &'s [ast::Expr],
    order: &'s [ast::SortBy],
    frame: Option<&'s ast::Frame>,
    /// Position of the window.
    span: Span,
}

/// True if two evaluations of a call may differ.
fn is_volatile(call: &WindowCall) -> bool {
    let WindowCall { function, arguments, partition, order, frame } = call;
    let of_aggregate = function.aggregate().into_iter().flat_map(|call| call.arguments.iter().chain(&call.filter));
    let values = partition.iter().map(|(value, _)| value).chain(order.iter().map(|key| &key.value));
    let offsets = [&frame.start, &frame.end].into_iter().filter_map(FrameBound::offset);
    values.chain(arguments).chain(of_aggregate).chain(offsets).any(Expr::is_volatile)
}

/// Converts a frame's exclusion.
fn exclude_of(exclusion: FrameExclusion) -> Exclude {
    match exclusion {
        FrameExclusion::NoOthers => Exclude::NoOthers,
        FrameExclusion::CurrentRow => Exclude::CurrentRow,
        FrameExclusion::Group => Exclude::Group,
        FrameExclusion::Ties => Exclude::Ties,
    }
}

/// Returns the offset of a `PRECEDING` or `FOLLOWING` bound.
fn offset_of(bound: &ast::FrameBound) -> Option<&ast::Expr> {
    match bound {
        ast::FrameBound::Preceding(offset) | ast::FrameBound::Following(offset) => Some(offset),
        ast::FrameBound::UnboundedPreceding | ast::FrameBound::CurrentRow | ast::FrameBound::UnboundedFollowing => None,
    }
}

fn windowing(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::WINDOWING_ERROR, message)
}

/// Returns the error `42809` for `OVER` with a function that is neither a window function nor an aggregate.
pub(super) fn not_windowed(name: &str) -> SqlError {
    let message = format!("OVER specified, but {name} is not a window function nor an aggregate function");
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}

/// True if a name is that of a window function that is not an aggregate.
pub(super) fn is_window(name: &str) -> bool {
    matches!(
        name,
        "row_number"
            | "rank"
            | "dense_rank"
            | "percent_rank"
            | "cume_dist"
            | "ntile"
            | "lag"
            | "lead"
            | "first_value"
            | "last_value"
            | "nth_value"
    )
}

/// True if an expression contains a call of a window function.
pub(super) fn has_window(expr: &Expr) -> bool {
    let mut found = false;
    visit(expr, 0, &mut |expr, depth| {
        found |= depth == 0 && matches!(expr, Expr::Column(at) if WINDOWS <= *at && *at < SETS);
    });
    found
}

/// Partition, order and frame of a window.
type BoundWindow = (Vec<(Expr, Kind)>, Vec<SortKey>, Frame);

impl Binder<'_> {
    /// Binds a function with `OVER`.
    pub(super) fn window(
        &self,
        function: &FunctionCall,
        name: &str,
        over: &Over,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        let clause = scope.clause.get();
        let here = |error: SqlError| self.at_name(error, &function.name);
        match clause {
            Clause::Window => return Err(here(windowing("window function calls cannot be nested"))),
            Clause::Aggregate | Clause::Filter => {
                let message = "aggregate function calls cannot contain window function calls";
                return Err(here(SqlError::new(SqlState::GROUPING_ERROR, message)));
            }
            clause if !clause.allows_aggregates() || matches!(clause, Clause::Having | Clause::WindowDefinition) => {
                return Err(here(windowing(format!("window functions are not allowed in {}", clause.name()))));
            }
            _ => {}
        }
        // ORDER BY may refer to the value in the select list. Any other volatile call is evaluated on its own.
        let is_named = |call: &WindowCall| clause == Clause::OrderBy || !is_volatile(call);
        let written = CallKey::new(function);
        let known = {
            let calls = scope.calls.borrow();
            let at = calls.windows.iter().position(|(other, call, _)| other.is_same(&written) && is_named(call));
            at.map(|at| (at, calls.windows[at].2))
        };
        if let Some((at, kind)) = known {
            return Ok(Typed::new(Expr::Column(WINDOWS + at), kind));
        }
        scope.clause.set(Clause::Window);
        let call = self.window_call(function, name, over, scope);
        scope.clause.set(clause);
        let (call, kind) = call?;
        let mut calls = scope.calls.borrow_mut();
        calls.windows.push((written, call, kind));
        Ok(Typed::new(Expr::Column(WINDOWS + calls.windows.len() - 1), kind))
    }

    fn window_call(
        &self,
        function: &FunctionCall,
        name: &str,
        over: &Over,
        scope: &NameScope<'_>,
    ) -> SqlResult<(WindowCall, SqlType)> {
        let (function, arguments, kind) = if is_window(name) {
            refuse!(function.filter.is_some() => "FILTER for non-aggregate window functions");
            self.window_function(name, self.arguments(&function.arguments, scope)?)
                .map_err(|error| self.at_name(error, &function.name))?
        } else if super::functions::is_aggregate(name) {
            let (call, kind) = self.aggregate_call(function, name, scope)?;
            (WindowFunction::Aggregate(Box::new(call)), Vec::new(), kind)
        } else {
            return Err(self.at_name(not_windowed(name), &function.name));
        };
        let windows = scope.windows.as_slice();
        let spec = match over {
            Over::Name(name) => self.named_window(name, name.span, windows)?,
            Over::Spec(spec) => self.spec(spec, windows)?,
        };
        let clause = scope.clause.replace(Clause::WindowDefinition);
        let window = self.window_of(spec, scope);
        scope.clause.set(clause);
        let (partition, order, frame) = window?;
        // As for any function, the result has no modifier, whatever that of the arguments is.
        Ok((WindowCall { function, arguments, partition, order, frame }, kind.kind.into()))
    }

    fn window_of(&self, spec: WrittenWindow<'_>, scope: &NameScope<'_>) -> SqlResult<BoundWindow> {
        let mut partition = Vec::with_capacity(spec.partition.len());
        for expr in spec.partition {
            let value = self.expr(expr, scope)?;
            let kind = settled(value.kind);
            self.groupable(kind.kind).map_err(|error| self.at_expr(error, expr))?;
            partition.push((self.coerce(value, kind, CastContext::Implicit)?.expr, kind.kind));
        }
        let mut order = Vec::with_capacity(spec.order.len());
        for key in spec.order {
            order.push(self.sort_key(self.expr(&key.value, scope)?, key)?);
        }
        let frame = self.frame(spec.frame, &order, scope).map_err(|error| self.at_place(error, spec.span))?;
        Ok((partition, order, frame))
    }

    /// Returns the window with this name among these; `place` is the position of the error if there is none.
    fn named_window<'s>(
        &self,
        name: &Name,
        place: Span,
        windows: &'s [WindowDefinition],
    ) -> SqlResult<WrittenWindow<'s>> {
        statement::stack::check()?;
        statement::pulse::tick(windows.len() * statement::pulse::ITEM)?;
        let found = windows.iter().position(|window| *window.name == **name);
        let Some((at, definition)) = found.and_then(|at| Some((at, windows.get(at)?))) else {
            let error = SqlError::new(SqlState::UNDEFINED_OBJECT, format!("window \"{name}\" does not exist"));
            return Err(self.at_place(error, place));
        };
        // A window sees only those defined before it.
        self.spec(&definition.window, &windows[..at])
    }

    /// Resolves a window that may refer to these named ones.
    fn spec<'s>(&self, spec: &'s WindowSpec, windows: &'s [WindowDefinition]) -> SqlResult<WrittenWindow<'s>> {
        let WindowSpec { base, partition_by, order_by, frame, span } = spec;
        let own = WrittenWindow { partition: partition_by, order: order_by, frame: frame.as_ref(), span: *span };
        let Some(name) = base else { return Ok(own) };
        let base = self.named_window(name, *span, windows)?;
        let wrong = |message: String| Err(self.at_place(windowing(message), *span));
        if !own.partition.is_empty() {
            return wrong(format!("cannot override PARTITION BY clause of window \"{name}\""));
        }
        if !own.order.is_empty() && !base.order.is_empty() {
            return wrong(format!("cannot override ORDER BY clause of window \"{name}\""));
        }
        if base.frame.is_some() {
            return wrong(format!("cannot copy window \"{name}\" because it has a frame clause"));
        }
        Ok(WrittenWindow {
            partition: base.partition,
            order: if own.order.is_empty() { base.order } else { own.order },
            ..own
        })
    }

    /// Checks the named windows, whether they are used or not.
    pub(super) fn check_windows(&self, windows: &[WindowDefinition]) -> SqlResult<()> {
        for (at, WindowDefinition { name, window }) in windows.iter().enumerate() {
            statement::pulse::tick(at * statement::pulse::ITEM)?;
            if windows[..at].iter().any(|other| *other.name == **name) {
                let error = windowing(format!("window \"{name}\" is already defined"));
                return Err(self.at_place(error, window.span));
            }
            self.spec(window, &windows[..at])?;
        }
        Ok(())
    }

    fn window_function(&self, name: &str, arguments: Vec<Typed>) -> SqlResult<(WindowFunction, Vec<Expr>, SqlType)> {
        let kinds: Vec<String> = arguments.iter().map(|argument| argument.kind.kind.name()).collect();
        let no_such = || {
            let message = format!("function {name}({}) does not exist", kinds.join(", "));
            SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(
                "No function matches the given name and argument types. You might need to add explicit type casts.",
            )
        };
        let constant = |datum: Datum, kind: Kind| Typed::new(Expr::Constant(datum), kind);
        let unless_told = |error: SqlError| if error.is_placed() { error } else { no_such() };
        let int = |argument: Typed| self.argument(argument, Kind::Int4).map_err(unless_told);
        let known = |value: Typed| {
            let kind = settled(value.kind);
            Ok::<_, SqlError>((self.coerce(value, kind, CastContext::Implicit)?.expr, kind))
        };
        let count = arguments.len();
        let mut arguments = arguments.into_iter();
        let mut next = || arguments.next();
        let (function, result) = match (name, count) {
            ("row_number", 0) => (WindowFunction::RowNumber, Kind::Int8),
            ("rank", 0) => (WindowFunction::Rank, Kind::Int8),
            ("dense_rank", 0) => (WindowFunction::DenseRank, Kind::Int8),
            ("percent_rank", 0) => (WindowFunction::PercentRank, Kind::Float8),
            ("cume_dist", 0) => (WindowFunction::CumeDist, Kind::Float8),
            ("ntile", 1) => {
                let buckets = next().map(int).transpose()?;
                return Ok((WindowFunction::Ntile, buckets.into_iter().collect(), Kind::Int4.into()));
            }
            ("first_value" | "last_value", 1) => {
                let (value, kind) = known(next().ok_or_else(no_such)?)?;
                let function =
                    if name == "first_value" { WindowFunction::FirstValue } else { WindowFunction::LastValue };
                return Ok((function, vec![value], kind));
            }
            ("nth_value", 2) => {
                let (value, kind) = known(next().ok_or_else(no_such)?)?;
                let number = int(next().ok_or_else(no_such)?)?;
                return Ok((WindowFunction::NthValue, vec![value, number], kind));
            }
            ("lag" | "lead", 1..=3) => {
                let function = if name == "lag" { WindowFunction::Lag } else { WindowFunction::Lead };
                let value = next().ok_or_else(no_such)?;
                let offset = next().map_or_else(|| int(constant(Datum::Int4(1), Kind::Int4)), int)?;
                let (value, default, kind) = match next() {
                    None => {
                        let (value, kind) = known(value)?;
                        (value, Expr::Constant(Datum::Null), kind)
                    }
                    // Both are `anycompatible`, so PostgreSQL finds no function if they have no common type.
                    Some(default) => {
                        let (mut both, kind) =
                            self.common(vec![value, default], "LAG").map_err(|error| match error.state() {
                                SqlState::DATATYPE_MISMATCH | SqlState::CANNOT_COERCE => no_such(),
                                _ => error,
                            })?;
                        let default = both.pop().ok_or_else(no_such)?;
                        (both.pop().ok_or_else(no_such)?, default, kind)
                    }
                };
                return Ok((function, vec![value, offset, default], kind));
            }
            // With arguments, these names are those of hypothetical-set aggregates.
            ("rank" | "dense_rank" | "percent_rank" | "cume_dist", _) => {
                let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            _ => return Err(no_such()),
        };
        Ok((function, Vec::new(), result.into()))
    }

    fn frame(&self, frame: Option<&ast::Frame>, order: &[SortKey], scope: &NameScope<'_>) -> SqlResult<Frame> {
        let Some(ast::Frame { unit, start, end, exclusion, span: _ }) = frame else {
            let (unit, exclude) = (FrameUnit::Range(None), Exclude::NoOthers);
            return Ok(Frame { unit, start: FrameBound::UnboundedPreceding, end: FrameBound::CurrentRow, exclude });
        };
        let name = match unit {
            ast::FrameUnit::Rows => "ROWS",
            ast::FrameUnit::Groups => "GROUPS",
            ast::FrameUnit::Range => "RANGE",
        };
        let first_offset = offset_of(start).or_else(|| end.as_ref().and_then(offset_of));
        let (unit, offset) = match (unit, first_offset) {
            (ast::FrameUnit::Rows, _) => (FrameUnit::Rows, Kind::Int8),
            (ast::FrameUnit::Groups, _) if order.is_empty() => {
                return Err(windowing("GROUPS mode requires an ORDER BY clause"));
            }
            (ast::FrameUnit::Groups, _) => (FrameUnit::Groups, Kind::Int8),
            (ast::FrameUnit::Range, None) => (FrameUnit::Range(None), Kind::Int8),
            (ast::FrameUnit::Range, Some(offset)) => {
                let steps = self.range_steps(order, offset)?;
                let kind = steps.offset;
                (FrameUnit::Range(Some(steps)), kind)
            }
        };
        // The grammar has checked that the bounds fit together.
        let bound = |bound: &ast::FrameBound| {
            Ok::<_, SqlError>(match bound {
                ast::FrameBound::UnboundedPreceding => FrameBound::UnboundedPreceding,
                ast::FrameBound::Preceding(by) => FrameBound::Preceding(self.frame_offset(by, offset, name, scope)?),
                ast::FrameBound::CurrentRow => FrameBound::CurrentRow,
                ast::FrameBound::Following(by) => FrameBound::Following(self.frame_offset(by, offset, name, scope)?),
                ast::FrameBound::UnboundedFollowing => FrameBound::UnboundedFollowing,
            })
        };
        let start = bound(start)?;
        let end = end.as_ref().map_or(Ok(FrameBound::CurrentRow), bound)?;
        Ok(Frame { unit, start, end, exclude: exclude_of(*exclusion) })
    }

    /// Returns the steps of a RANGE frame with offsets, for this order. `written` is the first offset, for errors.
    fn range_steps(&self, order: &[SortKey], written: &ast::Expr) -> SqlResult<RangeSteps> {
        let [key] = order else {
            let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(windowing(message));
        };
        let offset = match key.kind {
            Kind::Int2 | Kind::Int4 | Kind::Int8 => Kind::Int8,
            Kind::Numeric => Kind::Numeric,
            Kind::Float4 | Kind::Float8 => Kind::Float8,
            Kind::Date | Kind::Time | Kind::Timestamp | Kind::Timestamptz | Kind::Interval => Kind::Interval,
            other => {
                let of = other.name();
                let message = format!("RANGE with offset PRECEDING/FOLLOWING is not supported for column type {of}");
                return Err(self.at_expr(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message), written));
            }
        };
        let eval =
            |name: &str| ops::resolve_operator(name, Some(key.kind), offset).map(|resolved| resolved.operator.eval);
        Ok(RangeSteps { minus: eval("-")?, plus: eval("+")?, offset })
    }

    /// Binds the offset of a bound, in a frame of this unit.
    fn frame_offset(&self, written: &ast::Expr, offset: Kind, unit: &str, scope: &NameScope<'_>) -> SqlResult<Expr> {
        let value = match self.expr(written, &NameScope::default()) {
            Err(error) if error.state() == SqlState::UNDEFINED_COLUMN => {
                // A column that does not exist in the query either is a different error, so it is bound there as well.
                self.expr(written, scope)?;
                let message = format!("argument of {unit} must not contain variables");
                return Err(self.at_expr(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message), written));
            }
            value => value?,
        };
        let kind = value.kind;
        match self.coerce(value, offset.into(), CastContext::Assignment) {
            Ok(value) => Ok(value.expr),
            Err(error) if error.state() == SqlState::CANNOT_COERCE => {
                let wanted = SqlType::from(offset).name();
                let message = format!("argument of {unit} must be type {wanted}, not type {}", kind.name());
                Err(self.at_expr(SqlError::new(SqlState::DATATYPE_MISMATCH, message), written))
            }
            Err(error) => Err(error),
        }
    }
}

const _: () = assert!(AGGREGATES < WINDOWS && WINDOWS < SETS);
