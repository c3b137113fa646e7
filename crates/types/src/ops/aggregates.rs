//! Aggregates, each a state machine that is fed row by row.
//!
//! **Invariant:** all aggregates but `count(*)` skip rows whose first argument is NULL. They do
//! so here, not in the caller.

use super::build::{self, BytesBuilder, ITEMS_MAX, TextBuilder, too_many_items};
use super::casts::Cast;
use super::get::{boolean, bytes, float, impossible, int, interval, mistyped, numeric, out_of_range, text};
use super::ordered;
use super::resolve::{self, can_coerce};
use super::statistics::{Moments, PairSums, RegressionStatistic, Squares, Variance};
use super::{CastContext, compare, find_cast};
use crate::Kind;
use crate::datum::Datum;
use crate::interval::Interval;
use crate::numeric::Numeric;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::plants::is_planted;
use statement::pulse;
use std::sync::LazyLock;

/// Entry of the table of aggregates.
#[derive(Debug)]
pub struct Aggregate {
    /// Name of the aggregate.
    pub name: &'static str,
    /// Types of the arguments, empty for `count(*)`. [`Kind::Void`] stands for any type, passed as it is.
    pub arguments: &'static [Kind],
    /// Type of the result.
    pub result: Kind,
    what: AggregateKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum AggregateKind {
    CountAll,
    Count,
    Sum,
    Average,
    Min,
    Max,
    And,
    Or,
    Strings,
    Array,
    /// Values of JSON, each on a line of its own if `lines`.
    Json {
        lines: bool,
    },
    JsonMembers,
    /// Aggregate of ordered values, as in `ordered`.
    Ordered(ordered::OrderedAggregate),
    Bytes,
    Bits(BitAggregate),
    Variance(Variance),
    Regression(RegressionStatistic),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum BitAggregate {
    And,
    Or,
    Xor,
}

/// Name of `json_agg` for arrays and rows, which stand on lines of their own.
pub const JSON_ROWS: &str = "json_agg\0rows";

/// An aggregate with the casts of its arguments.
#[derive(Clone, Debug)]
pub struct ResolvedAggregate {
    /// Chosen aggregate.
    pub aggregate: &'static Aggregate,
    /// Casts, one for each argument.
    pub casts: Vec<Option<&'static Cast>>,
}

/// State of an aggregate between rows.
#[derive(Clone, Debug)]
pub struct Accumulator {
    aggregate: &'static Aggregate,
    rows: i64,
    state: AggregateState,
}

#[derive(Clone, Debug)]
enum AggregateState {
    Empty,
    /// Sum of integers: 2^64 of them fit.
    Integer(i128),
    Numeric(Numeric),
    Float4(f32),
    Float8(f64),
    Interval(Interval),
    Value(Datum),
    Text(TextBuilder),
    Items(Vec<Datum>),
    /// Ordered values, and the aggregate's direct argument.
    Ordered(Vec<Datum>, Datum),
    Bytes(BytesBuilder),
    Moments(Moments),
    Squares(Box<Squares>),
    Pairs(PairSums),
}

impl Aggregate {
    /// Starts the aggregate.
    pub fn start(&'static self) -> Accumulator {
        Accumulator { aggregate: self, rows: 0, state: AggregateState::Empty }
    }
}

/// Returns true if an aggregate needs ordered values: `WITHIN GROUP`.
pub fn is_ordered_set(name: &str) -> bool {
    matches!(name, "percentile_cont" | "percentile_disc" | "mode")
}

/// Units of work for one row.
const ROW: usize = 8;

/// Returns true if a null counts as a value.
fn takes_null(what: AggregateKind) -> bool {
    matches!(what, AggregateKind::Array | AggregateKind::Json { .. } | AggregateKind::JsonMembers)
}

/// Returns the sum of floats. PostgreSQL refuses a sum that becomes infinite.
fn float_sum(a: f64, b: f64) -> SqlResult<f64> {
    super::arithmetic::checked_float(a + b, a.is_infinite() || b.is_infinite(), true)
}

impl Accumulator {
    /// Adds the arguments of one row.
    ///
    /// # Errors
    /// A sum out of range.
    pub fn add(&mut self, args: &[Datum]) -> SqlResult<()> {
        pulse::tick(ROW)?;
        let what = self.aggregate.what;
        if what == AggregateKind::CountAll {
            self.rows += 1;
            return Ok(());
        }
        if let AggregateKind::Regression(_) = what {
            return self.pair(args);
        }
        let Some(value) = args.first().filter(|value| takes_null(what) || !value.is_null()) else { return Ok(()) };
        self.rows += 1;
        match what {
            AggregateKind::CountAll | AggregateKind::Count => {}
            AggregateKind::Sum | AggregateKind::Average => self.sum(value)?,
            AggregateKind::Min | AggregateKind::Max => {
                let kind = self.aggregate.arguments[0];
                let replaces = match &self.state {
                    AggregateState::Value(best) => {
                        let order = compare(value, best, kind);
                        // As in PostgreSQL, the last of equal values that look different is kept, and
                        // the first of padded texts.
                        let is_equal = order.is_eq() && kind != Kind::Bpchar;
                        is_equal || if what == AggregateKind::Min { order.is_lt() } else { order.is_gt() }
                    }
                    _ => true,
                };
                if replaces {
                    self.state = AggregateState::Value(value.clone());
                }
            }
            AggregateKind::And | AggregateKind::Or => {
                let value = boolean(value)?;
                self.state = AggregateState::Value(Datum::Bool(match (&self.state, what) {
                    (AggregateState::Value(Datum::Bool(before)), AggregateKind::And) => *before && value,
                    (AggregateState::Value(Datum::Bool(before)), _) => *before || value,
                    _ => value,
                }));
            }
            AggregateKind::Strings => {
                let delimiter = args.get(1).filter(|delimiter| !delimiter.is_null()).map_or(Ok(""), text)?;
                self.grow("", delimiter, &[text(value)?])?;
            }
            AggregateKind::Bits(bits) => self.bits(bits, value)?,
            AggregateKind::Variance(_) => self.spread(value)?,
            AggregateKind::Regression(_) => {}
            AggregateKind::Json { lines } => {
                let value = if value.is_null() { "null" } else { text(value)? };
                self.grow("[", if lines { ", \n " } else { ", " }, &[value])?;
            }
            AggregateKind::Ordered(_) => match &mut self.state {
                AggregateState::Ordered(values, _) => values.push(value.clone()),
                state => {
                    *state = AggregateState::Ordered(vec![value.clone()], args.get(1).cloned().unwrap_or_default())
                }
            },
            AggregateKind::JsonMembers => {
                if value.is_null() {
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "field name must not be null"));
                }
                let own = args.get(1).filter(|own| !own.is_null()).map_or(Ok("null"), text)?;
                self.grow("{ ", ", ", &[text(value)?, " : ", own])?;
            }
            AggregateKind::Bytes => match &mut self.state {
                AggregateState::Bytes(all) => {
                    if let Some(delimiter) = args.get(1).filter(|delimiter| !delimiter.is_null()) {
                        all.push_slice(bytes(delimiter)?)?;
                    }
                    all.push_slice(bytes(value)?)?;
                }
                state => {
                    let mut all = BytesBuilder::default();
                    all.push_slice(bytes(value)?)?;
                    *state = AggregateState::Bytes(all);
                }
            },
            AggregateKind::Array => match &mut self.state {
                AggregateState::Items(items) if items.len() == ITEMS_MAX => return Err(too_many_items()),
                AggregateState::Items(items) => items.push(value.clone()),
                state => *state = AggregateState::Items(vec![value.clone()]),
            },
        }
        Ok(())
    }

    /// Appends to the text: after `first` for the first row, after `between` for the others.
    fn grow(&mut self, first: &str, between: &str, parts: &[&str]) -> SqlResult<()> {
        let mut new = TextBuilder::default();
        let (all, begin) = match &mut self.state {
            AggregateState::Text(all) => (all, between),
            _ => (&mut new, first),
        };
        all.push_str(begin)?;
        parts.iter().try_for_each(|part| all.push_str(part))?;
        if !matches!(self.state, AggregateState::Text(_)) {
            self.state = AggregateState::Text(new);
        }
        Ok(())
    }

    /// Adds both variables of a row. A row with a NULL among them does not count.
    fn pair(&mut self, args: &[Datum]) -> SqlResult<()> {
        let [y, x, ..] = args else { return Ok(()) };
        if y.is_null() || x.is_null() {
            return Ok(());
        }
        let mut pairs = if let AggregateState::Pairs(pairs) = self.state { pairs } else { PairSums::default() };
        pairs.add(float(y)?, float(x)?)?;
        self.state = AggregateState::Pairs(pairs);
        Ok(())
    }

    fn spread(&mut self, value: &Datum) -> SqlResult<()> {
        if matches!(value, Datum::Float4(_) | Datum::Float8(_)) {
            let mut moments =
                if let AggregateState::Moments(moments) = self.state { moments } else { Moments::default() };
            moments.add(float(value)?)?;
            self.state = AggregateState::Moments(moments);
            return Ok(());
        }
        if !matches!(self.state, AggregateState::Squares(_)) {
            self.state = AggregateState::Squares(Box::default());
        }
        if let AggregateState::Squares(squares) = &mut self.state {
            squares.add(numeric(value)?.as_ref())
        } else {
            Ok(())
        }
    }

    fn bits(&mut self, bits: BitAggregate, value: &Datum) -> SqlResult<()> {
        let AggregateState::Value(before) = &self.state else {
            self.state = AggregateState::Value(value.clone());
            return Ok(());
        };
        let (a, b) = (int(before)?, int(value)?);
        let all = match bits {
            BitAggregate::And => a & b,
            BitAggregate::Or => a | b,
            BitAggregate::Xor => a ^ b,
        };
        self.state = AggregateState::Value(match value {
            Datum::Int2(_) => Datum::Int2(all as i16),
            Datum::Int4(_) => Datum::Int4(all as i32),
            Datum::Int8(_) => Datum::Int8(all),
            other => return Err(mistyped(other)),
        });
        Ok(())
    }

    fn sum(&mut self, value: &Datum) -> SqlResult<()> {
        // avg(float4) sums in float8.
        let wide = self.aggregate.what == AggregateKind::Average;
        match (&mut self.state, value) {
            (AggregateState::Integer(sum), _) => *sum += i128::from(int(value)?),
            (AggregateState::Numeric(sum), _) => *sum = sum.add(numeric(value)?.as_ref())?,
            (AggregateState::Float4(sum), _) => *sum = float_sum_narrow(*sum, float(value)? as f32)?,
            (AggregateState::Float8(sum), _) => *sum = float_sum(*sum, float(value)?)?,
            (AggregateState::Interval(sum), _) => *sum = sum.plus(interval(value)?)?,
            (state, Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_)) => {
                *state = AggregateState::Integer(i128::from(int(value)?))
            }
            (state, Datum::Numeric(first)) => *state = AggregateState::Numeric(first.clone()),
            (state, Datum::Float4(first)) if !wide => *state = AggregateState::Float4(*first),
            (state, Datum::Float4(_) | Datum::Float8(_)) => *state = AggregateState::Float8(float(value)?),
            (state, Datum::Interval(first)) => *state = AggregateState::Interval(*first),
            (_, other) => return Err(mistyped(other)),
        }
        Ok(())
    }

    /// Returns the result.
    ///
    /// # Errors
    /// A sum out of range.
    pub fn finish(self) -> SqlResult<Datum> {
        let (what, rows) = (self.aggregate.what, self.rows);
        if matches!(what, AggregateKind::CountAll | AggregateKind::Count) {
            return Ok(Datum::Int8(rows));
        }
        let average = what == AggregateKind::Average;
        Ok(match self.state {
            AggregateState::Empty if what == AggregateKind::Regression(RegressionStatistic::Count) => Datum::Int8(0),
            AggregateState::Moments(moments) => match what {
                AggregateKind::Variance(spread) => moments.finish(spread),
                _ => return Err(impossible("moments of another aggregate")),
            },
            AggregateState::Squares(squares) => match what {
                AggregateKind::Variance(spread) => squares.finish(spread)?,
                _ => return Err(impossible("moments of another aggregate")),
            },
            AggregateState::Pairs(pairs) => match what {
                AggregateKind::Regression(relation) => pairs.finish(relation),
                _ => return Err(impossible("pairs of another aggregate")),
            },
            AggregateState::Bytes(all) => all.finish(),
            AggregateState::Empty => Datum::Null,
            AggregateState::Integer(sum) if average => Datum::Numeric(Numeric::from(sum).div(&Numeric::from(rows))?),
            AggregateState::Integer(sum) if self.aggregate.result == Kind::Numeric => {
                Datum::Numeric(Numeric::from(sum))
            }
            AggregateState::Integer(sum) => Datum::Int8(i64::try_from(sum).map_err(|_| out_of_range("bigint"))?),
            AggregateState::Numeric(sum) if average => Datum::Numeric(sum.div(&Numeric::from(rows))?),
            AggregateState::Numeric(sum) => Datum::Numeric(sum),
            AggregateState::Float4(sum) => Datum::Float4(sum),
            // PostgreSQL starts an average with zero, and a sum with the first value.
            AggregateState::Float8(sum) if average => Datum::Float8((0.0 + sum) / rows as f64),
            AggregateState::Float8(sum) => Datum::Float8(sum),
            AggregateState::Interval(sum) if average => Datum::Interval(sum.scaled(|part| part / rows as f64)?),
            AggregateState::Interval(sum) => Datum::Interval(sum),
            AggregateState::Value(value) => value,
            AggregateState::Ordered(values, own) => match what {
                AggregateKind::Ordered(ordered) => {
                    ordered::finish(ordered, &values, &own, self.aggregate.arguments[0])?
                }
                _ => return Err(impossible("ordered values of another aggregate")),
            },
            AggregateState::Text(mut all) => {
                all.push_str(match what {
                    AggregateKind::Json { .. } => "]",
                    AggregateKind::JsonMembers => " }",
                    AggregateKind::Strings => "",
                    AggregateKind::CountAll
                    | AggregateKind::Count
                    | AggregateKind::Sum
                    | AggregateKind::Average
                    | AggregateKind::Min
                    | AggregateKind::Max
                    | AggregateKind::And
                    | AggregateKind::Or
                    | AggregateKind::Array
                    | AggregateKind::Ordered(_)
                    | AggregateKind::Bytes
                    | AggregateKind::Bits(_)
                    | AggregateKind::Variance(_)
                    | AggregateKind::Regression(_) => return Err(impossible("a text of another aggregate")),
                })?;
                all.finish()
            }
            AggregateState::Items(items) => build::array(items)?,
        })
    }
}

fn float_sum_narrow(a: f32, b: f32) -> SqlResult<f32> {
    let sum = a + b;
    super::arithmetic::checked_float(f64::from(sum), a.is_infinite() || b.is_infinite(), true)?;
    Ok(sum)
}

static TABLE: LazyLock<Vec<Aggregate>> = LazyLock::new(|| {
    use Kind::{Bool, Float4, Float8, Int2, Int4, Int8, Interval as Span, Numeric as Exact, Text};
    const FRACTIONS: Kind = Kind::Array(crate::Element::Float8);
    let line = |name, arguments, result, what| Aggregate { name, arguments, result, what };
    let mut all = vec![
        line("count", &[], Int8, AggregateKind::CountAll),
        line("count", &[Kind::Void], Int8, AggregateKind::Count),
        line("sum", &[Int2], Int8, AggregateKind::Sum),
        line("sum", &[Int4], Int8, AggregateKind::Sum),
        line("sum", &[Int8], Exact, AggregateKind::Sum),
        line("sum", &[Exact], Exact, AggregateKind::Sum),
        line("sum", &[Float4], Float4, AggregateKind::Sum),
        line("sum", &[Float8], Float8, AggregateKind::Sum),
        line("sum", &[Span], Span, AggregateKind::Sum),
        line("avg", &[Int2], Exact, AggregateKind::Average),
        line("avg", &[Int4], Exact, AggregateKind::Average),
        line("avg", &[Int8], Exact, AggregateKind::Average),
        line("avg", &[Exact], Exact, AggregateKind::Average),
        line("avg", &[Float4], Float8, AggregateKind::Average),
        line("avg", &[Float8], Float8, AggregateKind::Average),
        line("avg", &[Span], Span, AggregateKind::Average),
        line("bool_and", &[Bool], Bool, AggregateKind::And),
        line("every", &[Bool], Bool, AggregateKind::And),
        line("bool_or", &[Bool], Bool, AggregateKind::Or),
        line("string_agg", &[Text, Text], Text, AggregateKind::Strings),
        // Their arguments are JSON texts.
        line("json_agg", &[Text], Kind::Json, AggregateKind::Json { lines: false }),
        line(JSON_ROWS, &[Text], Kind::Json, AggregateKind::Json { lines: true }),
        line("json_object_agg", &[Text, Text], Kind::Json, AggregateKind::JsonMembers),
        line("string_agg", &[Kind::Bytea, Kind::Bytea], Kind::Bytea, AggregateKind::Bytes),
    ];
    let continuous = AggregateKind::Ordered(ordered::OrderedAggregate::Continuous);
    all.extend([
        line("percentile_cont", &[Float8, Float8], Float8, continuous),
        line("percentile_cont", &[Span, Float8], Span, continuous),
        line("percentile_cont", &[Float8, FRACTIONS], FRACTIONS, continuous),
        line("percentile_cont", &[Span, FRACTIONS], Kind::Array(crate::Element::Interval), continuous),
    ]);
    for (name, sample, root) in [
        ("variance", true, false),
        ("var_samp", true, false),
        ("var_pop", false, false),
        ("stddev", true, true),
        ("stddev_samp", true, true),
        ("stddev_pop", false, true),
    ] {
        let spread = AggregateKind::Variance(Variance { sample, root });
        for (kind, own) in [
            (Int2, &[Int2]),
            (Int4, &[Int4]),
            (Int8, &[Int8]),
            (Exact, &[Exact]),
            (Float4, &[Float4]),
            (Float8, &[Float8]),
        ] {
            let result = if matches!(kind, Float4 | Float8) { Float8 } else { Exact };
            all.push(line(name, own, result, spread));
        }
    }
    for (name, relation) in [
        ("regr_count", RegressionStatistic::Count),
        ("regr_sxx", RegressionStatistic::Sxx),
        ("regr_syy", RegressionStatistic::Syy),
        ("regr_sxy", RegressionStatistic::Sxy),
        ("regr_avgx", RegressionStatistic::AverageX),
        ("regr_avgy", RegressionStatistic::AverageY),
        ("regr_r2", RegressionStatistic::R2),
        ("regr_slope", RegressionStatistic::Slope),
        ("regr_intercept", RegressionStatistic::Intercept),
        ("covar_pop", RegressionStatistic::CovariancePopulation),
        ("covar_samp", RegressionStatistic::CovarianceSample),
        ("corr", RegressionStatistic::Correlation),
    ] {
        let result = if relation == RegressionStatistic::Count { Int8 } else { Float8 };
        all.push(line(name, &[Float8, Float8], result, AggregateKind::Regression(relation)));
    }
    for (name, bits) in [("bit_and", BitAggregate::And), ("bit_or", BitAggregate::Or), ("bit_xor", BitAggregate::Xor)] {
        for (kind, own) in [(Int2, &[Int2]), (Int4, &[Int4]), (Int8, &[Int8])] {
            all.push(line(name, own, kind, AggregateKind::Bits(bits)));
        }
    }
    // PostgreSQL has no min and max of bool, bytea and uuid.
    let comparable = |kind: &Kind| {
        compare::is_comparable(*kind)
            && !matches!(
                kind,
                Bool | Kind::Bytea
                    | Kind::Uuid
                    | Kind::Varchar
                    | Kind::Name
                    | Kind::InternalChar
                    | Kind::Unknown
                    | Kind::Regclass
                    | Kind::Regtype
                    | Kind::Regproc
                    | Kind::Regprocedure
                    | Kind::Regnamespace
                    | Kind::Regrole
                    | Kind::Int2Vector
                    | Kind::OidVector
            )
    };
    for kind in Kind::all() {
        let own: &'static [Kind] = Box::leak(Box::new([kind]));
        if comparable(&kind) {
            all.push(line("min", own, kind, AggregateKind::Min));
            all.push(line("max", own, kind, AggregateKind::Max));
        }
        // Aggregates over any type with an order are declared with the type of their argument: `varchar`, not `text`.
        let is_any = compare::is_comparable(kind)
            && !matches!(kind, Kind::Unknown | Kind::Void | Kind::Int2Vector | Kind::OidVector)
            && !(kind == Kind::Varchar && is_planted("mode_of_varchar_is_text"));
        if is_any {
            all.push(line("mode", own, kind, AggregateKind::Ordered(ordered::OrderedAggregate::Mode)));
            let discrete = AggregateKind::Ordered(ordered::OrderedAggregate::Discrete);
            all.push(line("percentile_disc", Box::leak(Box::new([kind, Float8])), kind, discrete));
            if let Some(array) = kind.array_of() {
                all.push(line("percentile_disc", Box::leak(Box::new([kind, FRACTIONS])), array, discrete));
            }
        }
        if let Some(array) = kind.array_of() {
            all.push(line("array_agg", own, array, AggregateKind::Array));
        }
    }
    all
});

/// Resolves an aggregate by its name, in lower case, and its arguments' kinds. Returns `None` if
/// no aggregate has the name.
///
/// # Errors
/// `42883`, `42725`. `0A000` for an array of arrays.
pub fn resolve_aggregate(name: &str, arguments: &[Kind]) -> SqlResult<Option<ResolvedAggregate>> {
    let named: Vec<&'static Aggregate> = TABLE.iter().filter(|line| line.name == name).collect();
    if named.is_empty() {
        return Ok(None);
    }
    let exact = named.iter().copied().find(|line| line.arguments == arguments);
    let found = match exact {
        Some(found) => found,
        None if name == "array_agg" && matches!(arguments, [Kind::Array(_)]) => {
            return Err(SqlError::unsupported("an array of more than one dimension"));
        }
        None => {
            let candidates: Vec<Vec<Kind>> = named.iter().map(|line| line.arguments.to_vec()).collect();
            let fits = |declared: &Vec<Kind>| {
                declared.len() == arguments.len()
                    && arguments.iter().zip(declared).all(|(from, to)| can_coerce(*from, *to))
            };
            let is_ambiguous = candidates.iter().any(fits);
            let chosen = resolve::select_candidate(arguments, candidates)
                .ok_or_else(|| resolve::function_error(name, arguments, is_ambiguous))?;
            let line = named.into_iter().find(|line| line.arguments == chosen);
            line.ok_or_else(|| resolve::function_error(name, arguments, false))?
        }
    };
    let casts = arguments
        .iter()
        .zip(found.arguments)
        .map(|(from, to)| if *to == Kind::Void { None } else { find_cast(*from, *to, CastContext::Implicit) });
    Ok(Some(ResolvedAggregate { aggregate: found, casts: casts.collect() }))
}
