//! Trigonometric functions, in radians and degrees, and other functions of numbers.

use super::get::{float, int, numeric, out_of_range};
use super::{Function, PlainFunction, function};
use crate::Kind;
use crate::datum::Datum;
use crate::numeric::Numeric;
use statement::error::{SqlError, SqlResult, SqlState};
use std::f64::consts::LN_2;

fn input_out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}

/// Applies a function of an angle, which must be finite.
fn of_angle(args: &[Datum], of: fn(f64) -> f64) -> SqlResult<Datum> {
    let x = float(&args[0])?;
    if x.is_infinite() { Err(input_out_of_range()) } else { Ok(Datum::Float8(of(x))) }
}

/// Applies a function of a number from -1 to 1.
fn of_ratio(args: &[Datum], of: fn(f64) -> f64) -> SqlResult<Datum> {
    let x = float(&args[0])?;
    let is_beyond = !x.is_nan() && !(-1.0..=1.0).contains(&x);
    if is_beyond { Err(input_out_of_range()) } else { Ok(Datum::Float8(of(x))) }
}

/// Bound from which on the inverse of a hyperbolic function is the logarithm of twice the number.
const LARGE: f64 = 268_435_456.0;

const DEGREE: f64 = 0.017_453_292_519_943_295;

// In degrees, round angles have exact results: PostgreSQL scales by the values of its own functions
// at 30, 45 and 60 degrees.

fn sin_first(x: f64) -> f64 {
    (x * DEGREE).sin() / (30.0 * DEGREE).sin() / 2.0
}

fn cos_first(x: f64) -> f64 {
    1.0 - (1.0 - (x * DEGREE).cos()) / (1.0 - (60.0 * DEGREE).cos()) / 2.0
}

fn sin_quarter(x: f64) -> f64 {
    if x <= 30.0 { sin_first(x) } else { cos_first(90.0 - x) }
}

fn cos_quarter(x: f64) -> f64 {
    if x <= 60.0 { cos_first(x) } else { sin_first(90.0 - x) }
}

fn sind(x: f64) -> f64 {
    let mut x = x % 360.0;
    let mut sign = 1.0;
    if x < 0.0 {
        (x, sign) = (-x, -sign);
    }
    if x > 180.0 {
        (x, sign) = (360.0 - x, -sign);
    }
    if x > 90.0 {
        x = 180.0 - x;
    }
    sign * sin_quarter(x)
}

fn cosd(x: f64) -> f64 {
    let mut x = (x % 360.0).abs();
    let mut sign = 1.0;
    if x > 180.0 {
        x = 360.0 - x;
    }
    if x > 90.0 {
        (x, sign) = (180.0 - x, -sign);
    }
    sign * cos_quarter(x)
}

/// Returns the tangent or cotangent, as a quotient of sine and cosine.
fn tand(x: f64, cotangent: bool) -> f64 {
    let mut x = x % 360.0;
    let mut sign = 1.0;
    if x < 0.0 {
        (x, sign) = (-x, -sign);
    }
    if x > 180.0 {
        (x, sign) = (360.0 - x, -sign);
    }
    if x > 90.0 {
        (x, sign) = (180.0 - x, -sign);
    }
    let (above, below, at_45) = if cotangent {
        (cos_quarter(x), sin_quarter(x), cos_quarter(45.0) / sin_quarter(45.0))
    } else {
        (sin_quarter(x), cos_quarter(x), sin_quarter(45.0) / cos_quarter(45.0))
    };
    let result = sign * ((above / below) / at_45);
    // -0 becomes 0.
    if result == 0.0 { 0.0 } else { result }
}

fn asin_first(x: f64) -> f64 {
    if x <= 0.5 { x.asin() / 0.5_f64.asin() * 30.0 } else { 90.0 - x.acos() / 0.5_f64.acos() * 60.0 }
}

fn asind(x: f64) -> f64 {
    if x.is_nan() || x >= 0.0 { asin_first(x) } else { -asin_first(-x) }
}

fn acos_first(x: f64) -> f64 {
    if x <= 0.5 { 90.0 - x.asin() / 0.5_f64.asin() * 30.0 } else { x.acos() / 0.5_f64.acos() * 60.0 }
}

fn acosd(x: f64) -> f64 {
    if x.is_nan() || x >= 0.0 { acos_first(x) } else { 90.0 + asin_first(-x) }
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.abs()
}

fn numeric_gcd(a: &Numeric, b: &Numeric) -> SqlResult<Numeric> {
    if a.is_nan() || b.is_nan() || !a.is_finite() || !b.is_finite() {
        return Ok(Numeric::NAN);
    }
    let scale = a.scale().max(b.scale()) as i32;
    let (mut a, mut b) = (a.abs(), b.abs());
    while !b.is_zero() {
        (a, b) = (b.clone(), a.rem(&b)?);
    }
    Ok(a.round(scale))
}

fn width_bucket(args: &[Datum]) -> SqlResult<Datum> {
    let refused = |message: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION, message));
    let (x, low, high, count) = (float(&args[0])?, float(&args[1])?, float(&args[2])?, int(&args[3])?);
    if count <= 0 {
        return refused("count must be greater than zero");
    }
    if x.is_nan() || low.is_nan() || high.is_nan() {
        return refused("operand, lower bound, and upper bound cannot be NaN");
    }
    if !low.is_finite() || !high.is_finite() {
        return refused("lower and upper bounds must be finite");
    }
    if low == high {
        return refused("lower bound cannot equal upper bound");
    }
    let beyond = || i32::try_from(count + 1).map(Datum::Int4).map_err(|_| out_of_range("integer"));
    let bucket = |above: f64, width: f64| {
        // Rounding must not lead beyond the last bucket.
        let at = if width.is_finite() {
            (count as f64 * (above / width)) as i64
        } else {
            (count as f64 * ((above / 2.0) / (width / 2.0))) as i64
        };
        Ok(Datum::Int4(at.min(count - 1) as i32 + 1))
    };
    if low < high {
        if x < low {
            Ok(Datum::Int4(0))
        } else if x >= high {
            beyond()
        } else {
            bucket(x - low, high - low)
        }
    } else if x > low {
        Ok(Datum::Int4(0))
    } else if x <= high {
        beyond()
    } else {
        bucket(low - x, low - high)
    }
}

fn numeric_width_bucket(args: &[Datum]) -> SqlResult<Datum> {
    let refused = |message: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION, message));
    let (x, low, high, count) = (numeric(&args[0])?, numeric(&args[1])?, numeric(&args[2])?, int(&args[3])?);
    if count <= 0 {
        return refused("count must be greater than zero");
    }
    if x.is_nan() || low.is_nan() || high.is_nan() {
        return refused("operand, lower bound, and upper bound cannot be NaN");
    }
    if !low.is_finite() || !high.is_finite() {
        return refused("lower and upper bounds must be finite");
    }
    let beyond = || i32::try_from(count + 1).map(Datum::Int4).map_err(|_| out_of_range("integer"));
    let inside = |above: Numeric, width: Numeric| -> SqlResult<Datum> {
        let at = above.mul(&Numeric::from(count))?.div_trunc(&width)?;
        Ok(Datum::Int4(at.to_integer::<i32>("integer")? + 1))
    };
    match low.cmp(&high) {
        std::cmp::Ordering::Equal => refused("lower bound cannot equal upper bound"),
        std::cmp::Ordering::Less if *x < *low => Ok(Datum::Int4(0)),
        std::cmp::Ordering::Less if *x >= *high => beyond(),
        std::cmp::Ordering::Less => inside(x.sub(&low)?, high.sub(&low)?),
        std::cmp::Ordering::Greater if *x > *low => Ok(Datum::Int4(0)),
        std::cmp::Ordering::Greater if *x <= *high => beyond(),
        std::cmp::Ordering::Greater => inside(low.sub(&x)?, low.sub(&high)?),
    }
}

/// Returns the least scale that represents the number exactly.
fn min_scale(number: &Numeric) -> Datum {
    if number.is_finite() { Datum::Int4(number.trim_scale().scale() as i32) } else { Datum::Null }
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Float8, Int4, Int8, Numeric as Exact};
    let float_function = |name, eval: PlainFunction| function(name, &[Float8], Float8, eval);
    let mut all = vec![
        float_function("sin", |a| of_angle(a, f64::sin)),
        float_function("cos", |a| of_angle(a, f64::cos)),
        float_function("tan", |a| of_angle(a, f64::tan)),
        float_function("cot", |a| {
            let x = float(&a[0])?;
            if x.is_infinite() { Err(input_out_of_range()) } else { Ok(Datum::Float8(1.0 / x.tan())) }
        }),
        float_function("asin", |a| of_ratio(a, f64::asin)),
        float_function("acos", |a| of_ratio(a, f64::acos)),
        float_function("atan", |a| Ok(Datum::Float8(float(&a[0])?.atan()))),
        function("atan2", &[Float8, Float8], Float8, |a| Ok(Datum::Float8(float(&a[0])?.atan2(float(&a[1])?)))),
        float_function("sinh", |a| Ok(Datum::Float8(float(&a[0])?.sinh()))),
        float_function("cosh", |a| Ok(Datum::Float8(float(&a[0])?.cosh()))),
        float_function("tanh", |a| Ok(Datum::Float8(float(&a[0])?.tanh()))),
        float_function("asinh", |a| {
            let x = float(&a[0])?;
            // The library's own sums overflow there.
            Ok(Datum::Float8(if x.abs() < LARGE { x.asinh() } else { (x.abs().ln() + LN_2).copysign(x) }))
        }),
        float_function("acosh", |a| {
            let x = float(&a[0])?;
            if x < 1.0 {
                return Err(input_out_of_range());
            }
            Ok(Datum::Float8(if x < LARGE { x.acosh() } else { x.ln() + LN_2 }))
        }),
        float_function("atanh", |a| of_ratio(a, f64::atanh)),
        float_function("sind", |a| of_angle(a, sind)),
        float_function("cosd", |a| of_angle(a, cosd)),
        float_function("tand", |a| of_angle(a, |x| tand(x, false))),
        float_function("cotd", |a| of_angle(a, |x| tand(x, true))),
        float_function("asind", |a| of_ratio(a, asind)),
        float_function("acosd", |a| of_ratio(a, acosd)),
        float_function("atand", |a| Ok(Datum::Float8(float(&a[0])?.atan() / 1_f64.atan() * 45.0))),
        function("atan2d", &[Float8, Float8], Float8, |a| {
            Ok(Datum::Float8(float(&a[0])?.atan2(float(&a[1])?) / 1_f64.atan() * 45.0))
        }),
        function("min_scale", &[Exact], Int4, |a| Ok(min_scale(numeric(&a[0])?.as_ref()))),
        function("width_bucket", &[Float8, Float8, Float8, Int4], Int4, width_bucket),
        function("width_bucket", &[Exact, Exact, Exact, Int4], Int4, numeric_width_bucket),
        function("gcd", &[Exact, Exact], Exact, |a| {
            Ok(Datum::Numeric(numeric_gcd(numeric(&a[0])?.as_ref(), numeric(&a[1])?.as_ref())?))
        }),
        function("lcm", &[Exact, Exact], Exact, |a| {
            let (x, y) = (numeric(&a[0])?, numeric(&a[1])?);
            let common = numeric_gcd(&x, &y)?;
            if !common.is_finite() {
                return Ok(Datum::Numeric(common));
            }
            let scale = x.scale().max(y.scale()) as i32;
            if common.is_zero() {
                return Ok(Datum::Numeric(common));
            }
            Ok(Datum::Numeric(x.div_trunc(&common)?.mul(&y)?.abs().round(scale)))
        }),
    ];
    for (kind, name) in [(Int4, "integer"), (Int8, "bigint")] {
        let own: &'static [Kind] = if kind == Int4 { &[Int4, Int4] } else { &[Int8, Int8] };
        let (divisor, multiple): (PlainFunction, PlainFunction) = if name == "integer" {
            (
                |a| narrow(gcd(int(&a[0])?.into(), int(&a[1])?.into())),
                |a| narrow(lcm(int(&a[0])?.into(), int(&a[1])?.into())),
            )
        } else {
            (
                |a| wide(gcd(int(&a[0])?.into(), int(&a[1])?.into())),
                |a| wide(lcm(int(&a[0])?.into(), int(&a[1])?.into())),
            )
        };
        all.push(function("gcd", own, kind, divisor));
        all.push(function("lcm", own, kind, multiple));
    }
    all
}

fn lcm(a: i128, b: i128) -> i128 {
    if a == 0 || b == 0 { 0 } else { (a / gcd(a, b) * b).abs() }
}

fn narrow(value: i128) -> SqlResult<Datum> {
    i32::try_from(value).map(Datum::Int4).map_err(|_| out_of_range("integer"))
}

fn wide(value: i128) -> SqlResult<Datum> {
    i64::try_from(value).map(Datum::Int8).map_err(|_| out_of_range("bigint"))
}
