//! Mathematical functions.

use super::arithmetic::{ABSOLUTE, REMAINDER, checked_float};
use super::get::{float, int, numeric};
use super::{Function, Operator, function, operator, prefix};
use crate::Kind;
use crate::datum::Datum;
use statement::error::SqlState;
use statement::error::{SqlError, SqlResult};

fn refused(state: SqlState, message: &str) -> SqlError {
    SqlError::new(state, message)
}

fn sqrt(args: &[Datum]) -> SqlResult<Datum> {
    let x = float(&args[0])?;
    if x < 0.0 {
        return Err(refused(
            SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
            "cannot take square root of a negative number",
        ));
    }
    Ok(Datum::Float8(x.sqrt()))
}

fn exp(args: &[Datum]) -> SqlResult<Datum> {
    let x = float(&args[0])?;
    Ok(Datum::Float8(checked_float(x.exp(), x.is_infinite(), x.is_infinite())?))
}

/// Returns the logarithm that `of` computes.
fn logarithm(x: f64, of: fn(f64) -> f64) -> SqlResult<Datum> {
    if x == 0.0 {
        return Err(refused(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, "cannot take logarithm of zero"));
    }
    if x < 0.0 {
        return Err(refused(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, "cannot take logarithm of a negative number"));
    }
    Ok(Datum::Float8(of(x)))
}

fn power(args: &[Datum]) -> SqlResult<Datum> {
    let (x, y) = (float(&args[0])?, float(&args[1])?);
    if x.is_nan() || y.is_nan() {
        let one = (x.is_nan() && y == 0.0) || (y.is_nan() && x == 1.0);
        return Ok(Datum::Float8(if one { 1.0 } else { f64::NAN }));
    }
    if x == 0.0 && y < 0.0 {
        return Err(refused(
            SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
            "zero raised to a negative power is undefined",
        ));
    }
    if x < 0.0 && y.is_finite() && y.fract() != 0.0 {
        return Err(refused(
            SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
            "a negative number raised to a non-integer power yields a complex result",
        ));
    }
    let infinite = x.is_infinite() || y.is_infinite();
    Ok(Datum::Float8(checked_float(x.powf(y), infinite, infinite || x == 0.0)?))
}

fn numeric_power(args: &[Datum]) -> SqlResult<Datum> {
    Ok(Datum::Numeric(numeric(&args[0])?.power(numeric(&args[1])?.as_ref())?))
}

fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        0.0
    }
}

fn factorial(args: &[Datum]) -> SqlResult<Datum> {
    let n = int(&args[0])?;
    if n < 0 {
        return Err(refused(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "factorial of a negative number is undefined"));
    }
    if n > 32_177 {
        return Err(refused(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format"));
    }
    Ok(Datum::Numeric(crate::numeric::Numeric::factorial(n)?))
}

/// Radians of one degree.
const DEGREE: f64 = std::f64::consts::PI / 180.0;

fn angle(x: f64, scaled: fn(f64) -> f64) -> SqlResult<Datum> {
    Ok(Datum::Float8(checked_float(scaled(x), x.is_infinite(), x == 0.0)?))
}

pub(super) fn operators() -> Vec<Operator> {
    vec![
        operator("^", Kind::Float8, Kind::Float8, Kind::Float8, power),
        operator("^", Kind::Numeric, Kind::Numeric, Kind::Numeric, numeric_power),
        prefix("|/", Kind::Float8, Kind::Float8, sqrt),
        prefix("||/", Kind::Float8, Kind::Float8, |a| Ok(Datum::Float8(float(&a[0])?.cbrt()))),
    ]
}

/// Defines a function with one argument that both float8 and numeric have.
macro_rules! both {
    ($all:ident, $name:literal, |$x:ident| $float:expr, |$n:ident| $numeric:expr) => {
        $all.push(function($name, &[Kind::Float8], Kind::Float8, |a| {
            let $x = float(&a[0])?;
            Ok(Datum::Float8($float))
        }));
        $all.push(function($name, &[Kind::Numeric], Kind::Numeric, |a| {
            let $n = numeric(&a[0])?;
            Ok(Datum::Numeric($numeric))
        }));
    };
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Float8, Int2, Int4, Int8, Numeric};
    let mut all = vec![
        function("round", &[Numeric, Int4], Numeric, |a| {
            numeric(&a[0])?.round(int(&a[1])? as i32).in_range().map(Datum::Numeric)
        }),
        function("trunc", &[Numeric, Int4], Numeric, |a| Ok(Datum::Numeric(numeric(&a[0])?.trunc(int(&a[1])? as i32)))),
        function("div", &[Numeric, Numeric], Numeric, |a| {
            Ok(Datum::Numeric(numeric(&a[0])?.div_trunc(numeric(&a[1])?.as_ref())?))
        }),
        function("log", &[Numeric, Numeric], Numeric, |a| {
            Ok(Datum::Numeric(numeric(&a[1])?.log(numeric(&a[0])?.as_ref())?))
        }),
        function("scale", &[Numeric], Int4, |a| {
            let number = numeric(&a[0])?;
            Ok(if number.is_finite() { Datum::Int4(number.scale() as i32) } else { Datum::Null })
        }),
        function("trim_scale", &[Numeric], Numeric, |a| Ok(Datum::Numeric(numeric(&a[0])?.trim_scale()))),
        function("factorial", &[Int8], Numeric, factorial),
        function("pi", &[], Float8, |_| Ok(Datum::Float8(std::f64::consts::PI))),
        function("cbrt", &[Float8], Float8, |a| Ok(Datum::Float8(float(&a[0])?.cbrt()))),
        // Divided, as in PostgreSQL: to_degrees() multiplies, and differs in the last digit.
        function("degrees", &[Float8], Float8, |a| angle(float(&a[0])?, |x| x / DEGREE)),
        function("radians", &[Float8], Float8, |a| angle(float(&a[0])?, |x| x * DEGREE)),
    ];
    for name in ["abs", "mod"] {
        for (kind, eval) in
            ABSOLUTE.into_iter().filter(|_| name == "abs").chain(REMAINDER.into_iter().filter(|_| name == "mod"))
        {
            let arguments: &'static [Kind] = match (kind, name) {
                (Int2, "abs") => &[Int2],
                (Int4, "abs") => &[Int4],
                (Int8, "abs") => &[Int8],
                (Kind::Float4, _) => &[Kind::Float4],
                (Float8, _) => &[Float8],
                (_, "abs") => &[Numeric],
                (Int2, _) => &[Int2, Int2],
                (Int4, _) => &[Int4, Int4],
                (Int8, _) => &[Int8, Int8],
                _ => &[Numeric, Numeric],
            };
            all.push(function(name, arguments, kind, eval));
        }
    }
    both!(all, "round", |x| x.round_ties_even(), |n| n.round(0));
    both!(all, "trunc", |x| x.trunc(), |n| n.trunc(0));
    both!(all, "ceil", |x| x.ceil(), |n| n.ceil());
    both!(all, "ceiling", |x| x.ceil(), |n| n.ceil());
    both!(all, "floor", |x| x.floor(), |n| n.floor());
    both!(all, "sign", |x| sign(x), |n| n.sign());
    for name in ["power", "pow"] {
        all.push(function(name, &[Float8, Float8], Float8, power));
        all.push(function(name, &[Numeric, Numeric], Numeric, numeric_power));
    }
    for name in ["log", "log10"] {
        all.push(function(name, &[Float8], Float8, |a| logarithm(float(&a[0])?, f64::log10)));
        all.push(function(name, &[Numeric], Numeric, |a| {
            Ok(Datum::Numeric(numeric(&a[0])?.log(&crate::numeric::Numeric::from(10))?))
        }));
    }
    all.push(function("sqrt", &[Float8], Float8, sqrt));
    all.push(function("sqrt", &[Numeric], Numeric, |a| Ok(Datum::Numeric(numeric(&a[0])?.sqrt()?))));
    all.push(function("exp", &[Float8], Float8, exp));
    all.push(function("exp", &[Numeric], Numeric, |a| Ok(Datum::Numeric(numeric(&a[0])?.exp()?))));
    all.push(function("ln", &[Float8], Float8, |a| logarithm(float(&a[0])?, f64::ln)));
    all.push(function("ln", &[Numeric], Numeric, |a| Ok(Datum::Numeric(numeric(&a[0])?.ln()?))));
    all
}
