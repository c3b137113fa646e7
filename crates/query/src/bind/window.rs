//! Window functions.

use super::calls::{AGGREGATES, SETS, WINDOWS, Written};
use super::{Binder, Clause, Scope, settled};
use crate::plan::{
    Exclude, Expr, Frame, FrameBound, FrameUnit, Place, RangeSteps, SortKey, Typed, WindowCall, WindowFunction, visit,
};
use sqlparser::ast::{self, Spanned, WindowFrameBound, WindowFrameUnits, WindowType};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use syntax::parse::folded;
use syntax::parse::rewrite::marked;
use types::datum::Datum;
use types::ops::{self, Context};
use types::{Kind, SqlType};

/// A window as it is written, with what it takes from a named one.
#[derive(Clone, Default)]
struct Spec<'s> {
    partition: &'s [ast::Expr],
    order: &'s [ast::OrderByExpr],
    frame: Option<&'s ast::WindowFrame>,
    exclude: Exclude,
}

/// Whether two evaluations of a call may differ.
fn is_volatile(call: &WindowCall) -> bool {
    let WindowCall { function, arguments, partition, order, frame } = call;
    let aggregate = match function {
        WindowFunction::Aggregate(call) => Some(call),
        _ => None,
    };
    let of_aggregate = aggregate.into_iter().flat_map(|call| call.arguments.iter().chain(&call.filter));
    let values = partition.iter().map(|(value, _)| value).chain(order.iter().map(|key| &key.value));
    let offsets = [&frame.start, &frame.end].into_iter().filter_map(FrameBound::offset);
    values.chain(arguments).chain(of_aggregate).chain(offsets).any(Expr::is_volatile)
}

/// Of the mark that stands for it.
fn exclude_of(what: &str) -> Exclude {
    match what {
        "exclude current row" => Exclude::CurrentRow,
        "exclude group" => Exclude::Group,
        "exclude ties" => Exclude::Ties,
        _ => Exclude::NoOthers,
    }
}

fn windowing(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState("42P20"), message)
}

/// Whether a name is one of a window function that is no aggregate.
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

/// Whether a window function's call stands in an expression.
pub(super) fn has_window(expr: &Expr) -> bool {
    let mut found = false;
    visit(expr, 0, &mut |expr, depth| {
        found |= depth == 0 && matches!(expr, Expr::Column(at) if WINDOWS <= *at && *at < SETS);
    });
    found
}

/// The expressions of a call.
pub(super) fn window_parts(call: &mut WindowCall) -> impl Iterator<Item = &mut Expr> {
    let WindowCall { function, arguments, partition, order, frame: _ } = call;
    let inner = match function {
        WindowFunction::Aggregate(call) => Some(super::functions::call_parts(call)),
        _ => None,
    };
    arguments
        .iter_mut()
        .chain(inner.into_iter().flatten())
        .chain(partition.iter_mut().map(|(value, _)| value))
        .chain(order.iter_mut().map(|key| &mut key.value))
}

/// What a window says: its partition, its order, its frame.
type Window = (Vec<(Expr, Kind)>, Vec<SortKey>, Frame);

impl Binder<'_> {
    /// A function with `OVER`.
    pub(super) fn window(
        &self,
        function: &ast::Function,
        name: &str,
        args: &[ast::FunctionArg],
        over: &WindowType,
        scope: &Scope<'_>,
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
        // ORDER BY names what the select list has computed. Elsewhere a volatile one is computed for itself.
        let is_named = |call: &WindowCall| clause == Clause::OrderBy || !is_volatile(call);
        let written = Written::new(function);
        let known = {
            let calls = scope.calls.borrow();
            let at = calls.windows.iter().position(|(other, call, _)| other.is_same(&written) && is_named(call));
            at.map(|at| (at, calls.windows[at].2))
        };
        if let Some((at, kind)) = known {
            return Ok(Typed::new(Expr::Column(WINDOWS + at), kind));
        }
        scope.clause.set(Clause::Window);
        let call = self.window_call(function, name, args, over, scope);
        scope.clause.set(clause);
        let (call, kind) = call?;
        let mut calls = scope.calls.borrow_mut();
        calls.windows.push((written, call, kind));
        Ok(Typed::new(Expr::Column(WINDOWS + calls.windows.len() - 1), kind))
    }

    fn window_call(
        &self,
        function: &ast::Function,
        name: &str,
        args: &[ast::FunctionArg],
        over: &WindowType,
        scope: &Scope<'_>,
    ) -> SqlResult<(WindowCall, SqlType)> {
        let written = function;
        let (function, arguments, kind) = if is_window(name) {
            refuse!(function.filter.is_some() => "FILTER for non-aggregate window functions");
            self.window_function(name, self.arguments(args, scope)?)
                .map_err(|error| self.at_name(error, &function.name))?
        } else if super::functions::is_aggregate(name) {
            let filter = function.filter.as_deref();
            let (call, kind) = self.aggregate_call(function, name, (false, args, &[]), filter, scope)?;
            (WindowFunction::Aggregate(Box::new(call)), Vec::new(), kind)
        } else {
            let message = format!("OVER specified, but {name} is not a window function nor an aggregate function");
            return Err(self.at_name(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message), &function.name));
        };
        let windows = scope.windows.as_slice();
        let spec = match over {
            WindowType::NamedWindow(name) => self.named_window(name, windows, windows.len())?,
            WindowType::WindowSpec(spec) => (self.spec(spec, windows, windows.len()))
                .map_err(|error| self.at_place(error, self.window_start(written)))?,
        };
        let clause = scope.clause.replace(Clause::WindowDefinition);
        let window = self.window_of(written, spec, scope);
        scope.clause.set(clause);
        let (partition, order, frame) = window?;
        // As of any function's result, whatever the modifier of its arguments.
        Ok((WindowCall { function, arguments, partition, order, frame }, kind.kind.into()))
    }

    /// Where the window of a call begins.
    fn window_start(&self, function: &ast::Function) -> Place {
        let over = self.source.word_after(function.name.span().into(), &["OVER"]);
        self.source.next(over)
    }

    fn window_of(&self, function: &ast::Function, spec: Spec<'_>, scope: &Scope<'_>) -> SqlResult<Window> {
        let mut partition = Vec::with_capacity(spec.partition.len());
        for expr in spec.partition {
            let value = self.expr(expr, scope)?;
            let kind = settled(value.kind);
            self.groupable(kind.kind).map_err(|error| self.at_expr(error, expr))?;
            partition.push((self.coerce(value, kind, Context::Implicit)?.expr, kind.kind));
        }
        let mut order = Vec::with_capacity(spec.order.len());
        for ast::OrderByExpr { expr, options, with_fill } in spec.order {
            refuse!(with_fill.is_some() => "WITH FILL");
            let key = self.sort_key(self.expr(expr, scope)?, options);
            order.push(key.map_err(|error| self.at_key(error, expr))?);
        }
        let frame = self.frame(spec.frame, spec.exclude, &order, (function, scope));
        let frame = frame.map_err(|error| self.at_place(error, self.window_start(function)))?;
        Ok((partition, order, frame))
    }

    fn named_window<'s>(
        &self,
        name: &ast::Ident,
        windows: &'s [ast::NamedWindowDefinition],
        before: usize,
    ) -> SqlResult<Spec<'s>> {
        statement::stack::check()?;
        statement::pulse::tick(before * statement::pulse::ITEM)?;
        let wanted = folded(name);
        let found = windows.iter().take(before).position(|ast::NamedWindowDefinition(own, _)| folded(own) == wanted);
        let Some((at, ast::NamedWindowDefinition(_, definition))) = found.and_then(|at| Some((at, windows.get(at)?)))
        else {
            let error = SqlError::new(SqlState::UNDEFINED_OBJECT, format!("window \"{wanted}\" does not exist"));
            return Err(self.at(error, name));
        };
        match definition {
            ast::NamedWindowExpr::NamedWindow(other) => self.named_window(other, windows, at),
            ast::NamedWindowExpr::WindowSpec(spec) => self.spec(spec, windows, at),
        }
    }

    fn spec<'s>(
        &self,
        spec: &'s ast::WindowSpec,
        windows: &'s [ast::NamedWindowDefinition],
        before: usize,
    ) -> SqlResult<Spec<'s>> {
        let ast::WindowSpec { window_name, partition_by, order_by, window_frame } = spec;
        // The first part may be a mark.
        let (exclude, partition) =
            match partition_by.split_first().and_then(|(first, rest)| Some((marked(first)?, rest))) {
                Some((what, rest)) => (exclude_of(what), rest),
                None => (Exclude::NoOthers, &partition_by[..]),
            };
        let own = Spec { partition, order: order_by, frame: window_frame.as_ref(), exclude };
        let Some(name) = window_name else { return Ok(own) };
        let base = self.named_window(name, windows, before)?;
        let name = folded(name);
        if !own.partition.is_empty() {
            return Err(windowing(format!("cannot override PARTITION BY clause of window \"{name}\"")));
        }
        if !own.order.is_empty() && !base.order.is_empty() {
            return Err(windowing(format!("cannot override ORDER BY clause of window \"{name}\"")));
        }
        if base.frame.is_some() {
            return Err(windowing(format!("cannot copy window \"{name}\" because it has a frame clause")));
        }
        Ok(Spec { partition: base.partition, order: if own.order.is_empty() { base.order } else { own.order }, ..own })
    }

    /// Looks at the named windows, used or not.
    pub(super) fn check_windows(&self, windows: &[ast::NamedWindowDefinition]) -> SqlResult<()> {
        for (at, ast::NamedWindowDefinition(name, definition)) in windows.iter().enumerate() {
            statement::pulse::tick(at * statement::pulse::ITEM)?;
            let written = name;
            let name = folded(name);
            if windows[..at].iter().any(|ast::NamedWindowDefinition(other, _)| folded(other) == name) {
                let error = windowing(format!("window \"{name}\" is already defined"));
                return Err(self.at_place(error, self.source.next(self.source.next(written.span.into()))));
            }
            match definition {
                ast::NamedWindowExpr::NamedWindow(other) => self.named_window(other, windows, at)?,
                ast::NamedWindowExpr::WindowSpec(spec) => self.spec(spec, windows, at).map_err(|error| {
                    let place = self.source.next(self.source.next(written.span.into()));
                    self.at_place(error, place)
                })?,
            };
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
            Ok::<_, SqlError>((self.coerce(value, kind, Context::Implicit)?.expr, kind))
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
            ("rank" | "dense_rank" | "percent_rank" | "cume_dist", _) => {
                let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            _ => return Err(no_such()),
        };
        Ok((function, Vec::new(), result.into()))
    }

    fn frame(
        &self,
        frame: Option<&ast::WindowFrame>,
        exclude: Exclude,
        order: &[SortKey],
        (function, scope): (&ast::Function, &Scope<'_>),
    ) -> SqlResult<Frame> {
        let Some(ast::WindowFrame { units, start_bound, end_bound }) = frame else {
            let unit = FrameUnit::Range(None);
            return Ok(Frame { unit, start: FrameBound::UnboundedPreceding, end: FrameBound::CurrentRow, exclude });
        };
        let current = WindowFrameBound::CurrentRow;
        let end_bound = end_bound.as_ref().unwrap_or(&current);
        // The bounds stand behind these words.
        let at = |message: &str, is_end: bool| {
            let unit = self.source.word_after(self.window_start(function), &["ROWS", "RANGE", "GROUPS"]);
            let between = self.source.next(unit);
            let is_between = self.source.word_after(unit, &["BETWEEN"]) == between;
            let before = match (is_between, is_end) {
                (false, _) => unit,
                (true, false) => between,
                (true, true) => self.source.word_after(between, &["AND"]),
            };
            Err(self.at_place(windowing(message), self.source.next(before)))
        };
        match (start_bound, end_bound) {
            (WindowFrameBound::Following(None), _) => {
                return at("frame start cannot be UNBOUNDED FOLLOWING", false);
            }
            (_, WindowFrameBound::Preceding(None)) => {
                return at("frame end cannot be UNBOUNDED PRECEDING", true);
            }
            (WindowFrameBound::CurrentRow, WindowFrameBound::Preceding(Some(_))) => {
                return at("frame starting from current row cannot have preceding rows", true);
            }
            (
                WindowFrameBound::Following(Some(_)),
                WindowFrameBound::Preceding(Some(_)) | WindowFrameBound::CurrentRow,
            ) => {
                return at("frame starting from following row cannot have preceding rows", true);
            }
            _ => {}
        }
        let has_offset = [start_bound, end_bound]
            .into_iter()
            .any(|bound| matches!(bound, WindowFrameBound::Preceding(Some(_)) | WindowFrameBound::Following(Some(_))));
        let (unit, offset) = match units {
            WindowFrameUnits::Rows => (FrameUnit::Rows, Kind::Int8),
            WindowFrameUnits::Groups => {
                if order.is_empty() {
                    return Err(windowing("GROUPS mode requires an ORDER BY clause"));
                }
                (FrameUnit::Groups, Kind::Int8)
            }
            WindowFrameUnits::Range if !has_offset => (FrameUnit::Range(None), Kind::Int8),
            WindowFrameUnits::Range => {
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
                        let message = format!(
                            "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {}",
                            other.name()
                        );
                        let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
                        let offset = [start_bound, end_bound].into_iter().find_map(|bound| match bound {
                            WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => {
                                offset.as_deref()
                            }
                            WindowFrameBound::CurrentRow => None,
                        });
                        return Err(offset.map_or(error.clone(), |offset| self.at_expr(error, offset)));
                    }
                };
                let eval = |name: &str| {
                    ops::resolve_operator(name, Some(key.kind), offset).map(|resolved| resolved.operator.eval)
                };
                (FrameUnit::Range(Some(RangeSteps { minus: eval("-")?, plus: eval("+")?, offset })), offset)
            }
        };
        let name = match units {
            WindowFrameUnits::Rows => "ROWS",
            WindowFrameUnits::Groups => "GROUPS",
            WindowFrameUnits::Range => "RANGE",
        };
        let value = |expr: &ast::Expr| {
            let nothing = Scope::default();
            // The library takes any text for an interval; only where one is wanted it is.
            let expr = match expr {
                ast::Expr::Interval(interval) if offset != Kind::Interval => &*interval.value,
                expr => expr,
            };
            let value = match self.expr(expr, &nothing) {
                Err(error) if error.state() == SqlState::UNDEFINED_COLUMN => {
                    // It may have none at all.
                    self.expr(expr, scope)?;
                    let message = format!("argument of {name} must not contain variables");
                    return Err(self.at_expr(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message), expr));
                }
                value => value?,
            };
            let kind = value.kind;
            match self.coerce(value, offset.into(), Context::Assignment) {
                Ok(value) => Ok(value.expr),
                Err(error) if error.state() == SqlState::CANNOT_COERCE => {
                    let wanted = SqlType::from(offset).name();
                    let message = format!("argument of {name} must be type {wanted}, not type {}", kind.name());
                    Err(self.at_expr(SqlError::new(SqlState::DATATYPE_MISMATCH, message), expr))
                }
                Err(error) => Err(error),
            }
        };
        let bound = |bound: &WindowFrameBound, is_start: bool| {
            Ok::<_, SqlError>(match bound {
                WindowFrameBound::CurrentRow => FrameBound::CurrentRow,
                WindowFrameBound::Preceding(Some(offset)) => FrameBound::Preceding(value(offset)?),
                WindowFrameBound::Following(Some(offset)) => FrameBound::Following(value(offset)?),
                WindowFrameBound::Preceding(None) | WindowFrameBound::Following(None) if is_start => {
                    FrameBound::UnboundedPreceding
                }
                WindowFrameBound::Preceding(None) | WindowFrameBound::Following(None) => FrameBound::UnboundedFollowing,
            })
        };
        Ok(Frame { unit, start: bound(start_bound, true)?, end: bound(end_bound, false)?, exclude })
    }
}

const _: () = assert!(AGGREGATES < WINDOWS && WINDOWS < SETS);
