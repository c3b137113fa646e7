//! Text forms of floats: the shortest digits that read back as the same float, in the layout of C's `%g`.

use super::{invalid, trimmed};
use statement::error::{SqlError, SqlResult, SqlState};
use std::fmt::LowerExp;
use std::str::FromStr;

/// Returns the value of a special text: NaN and the infinities.
fn special(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    match unsigned.to_ascii_lowercase().as_str() {
        "nan" => Some(f64::NAN),
        "inf" | "infinity" => Some(sign * f64::INFINITY),
        _ => None,
    }
}

/// Returns, for a text of digits, point and exponent, whether any digit before the exponent is not
/// 0; `None` for other texts.
fn is_number(text: &str) -> Option<bool> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], &unsigned[at + 1..]),
        None => (unsigned, "0"),
    };
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let good = digits(whole) && digits(fraction) && digits(exponent) && !exponent.is_empty();
    (good && whole.len() + fraction.len() > 0).then(|| mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte)))
}

fn parse<T: std::str::FromStr + Into<f64> + Copy>(text: &str, type_name: &str) -> SqlResult<Result<T, f64>> {
    let written = trimmed(text);
    if let Some(value) = special(written) {
        return Ok(Err(value));
    }
    let nonzero = is_number(written).ok_or_else(|| invalid(type_name, text))?;
    let value: T = written.parse().map_err(|_| invalid(type_name, text))?;
    let wide: f64 = value.into();
    if wide.is_infinite() || (nonzero && wide == 0.0) {
        let message = format!("\"{written}\" is out of range for type {type_name}");
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    Ok(Ok(value))
}

/// Reads a float8.
///
/// # Errors
/// `22P02`, `22003`.
pub fn parse_f64(text: &str) -> SqlResult<f64> {
    Ok(parse::<f64>(text, "double precision")?.unwrap_or_else(|special| special))
}

/// Reads a float4.
///
/// # Errors
/// `22P02`, `22003`.
pub fn parse_f32(text: &str) -> SqlResult<f32> {
    Ok(parse::<f32>(text, "real")?.unwrap_or_else(|special| special as f32))
}

/// Lays out digits and exponent (`1.5e3`, as Rust writes it). From `limit` on, the exponent is written.
fn lay_out(out: &mut String, scientific: &str, limit: i32) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= limit {
        let sign = if exponent < 0 { '-' } else { '+' };
        out.push_str(&format!("{mantissa}e{sign}{:02}", exponent.abs()));
        return;
    }
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    if mantissa.starts_with('-') {
        out.push('-');
    }
    if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        out.push_str(&digits);
        return;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.push_str(&digits);
        out.extend(std::iter::repeat_n('0', whole - digits.len()));
    } else {
        out.push_str(&digits[..whole]);
        out.push('.');
        out.push_str(&digits[whole..]);
    }
}

fn push_special(out: &mut String, value: f64) -> bool {
    if value.is_nan() {
        out.push_str("NaN");
    } else if value.is_infinite() {
        out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    !value.is_finite()
}

/// Returns true if digits and exponent (`1.5e3`) lie exactly between the float `mantissa` * 2^`exponent` and a
/// neighbour. Such digits do read back as the float, by the rule for ties, but PostgreSQL does not rely on that rule.
fn is_tie(scientific: &str, mantissa: u64, exponent: i32) -> bool {
    let Some((digits, ten)) = scientific.split_once('e') else { return false };
    let fraction = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len() as i32);
    let ten = ten.parse::<i32>().unwrap_or(0) - fraction;
    let digits: u128 = digits.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
    // digits * 10^ten = (2 * mantissa ± 1) * 2^(exponent - 1): both sides are 2^n times an odd number.
    let Ok(power) = 5_u128.checked_pow(ten.unsigned_abs()).ok_or(()) else { return false };
    let odd = if ten >= 0 { digits.checked_mul(power) } else { digits.is_multiple_of(power).then_some(digits / power) };
    let Some(value) = odd.filter(|value| *value > 0) else { return false };
    let (odd, two) = (value >> value.trailing_zeros(), value.trailing_zeros() as i32 + ten);
    // The lower neighbour of a power of two is at half the distance.
    let middles = [(2 * u128::from(mantissa) + 1, exponent - 1), (2 * u128::from(mantissa) - 1, exponent - 1)];
    let low = (4 * u128::from(mantissa) - 1, exponent - 2);
    middles.contains(&(odd, two)) || (mantissa.is_power_of_two() && low == (odd, two))
}

fn digits_of(scientific: &str) -> usize {
    scientific.split('e').next().map_or(0, |mantissa| mantissa.bytes().filter(u8::is_ascii_digit).count())
}

/// Returns the digits and exponent that PostgreSQL writes for the finite float `value`, whose magnitude is `mantissa` *
/// 2^`two`: the fewest digits that read back as the same float, and at most `places_max` after the first.
fn shortest<F: Copy + PartialEq + LowerExp + FromStr>(value: F, mantissa: u64, two: i32, places_max: usize) -> String {
    let gives_it = |written: &str| written.parse().is_ok_and(|parsed: F| parsed == value);
    let mut written = format!("{value:e}");
    // Of two shortest texts that are equally near, PostgreSQL takes the even one, to which exact formatting rounds.
    let places = digits_of(&written).max(1) - 1;
    let even = format!("{value:.places$e}");
    if gives_it(&even) {
        written = even;
    }
    if mantissa > 0 && is_tie(&written, mantissa, two) {
        for places in digits_of(&written)..=places_max {
            written = format!("{value:.places$e}");
            if gives_it(&written) && !is_tie(&written, mantissa, two) {
                break;
            }
        }
    }
    written
}

/// Returns digits and exponent with at most so many digits, without trailing zeros.
fn rounded<F: LowerExp>(value: F, digits: i32) -> String {
    let places = digits.max(1) as usize - 1;
    let written = format!("{value:.places$e}");
    let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let mantissa = if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    format!("{mantissa}e{exponent}")
}

/// Appends a float8 by the setting `extra_float_digits`.
pub fn push_f64(out: &mut String, value: f64, extra: i32) {
    if push_special(out, value) {
        return;
    }
    if extra <= 0 {
        let digits = (15 + extra).max(1);
        return lay_out(out, &rounded(value, digits), digits);
    }
    let bits = value.to_bits() & (u64::MAX >> 1);
    let (fraction, exponent) = (bits & ((1 << 52) - 1), (bits >> 52) as i32);
    let (mantissa, two) = if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
    lay_out(out, &shortest(value, mantissa, two, 17), 15);
}

/// Appends a float4 by the setting `extra_float_digits`.
pub fn push_f32(out: &mut String, value: f32, extra: i32) {
    if push_special(out, f64::from(value)) {
        return;
    }
    if extra <= 0 {
        let digits = (6 + extra).max(1);
        return lay_out(out, &rounded(value, digits), digits);
    }
    let bits = value.to_bits() & (u32::MAX >> 1);
    let (fraction, exponent) = (bits & ((1 << 23) - 1), (bits >> 23) as i32);
    let (mantissa, two) = if exponent == 0 { (fraction, -149) } else { (fraction | 1 << 23, exponent - 150) };
    lay_out(out, &shortest(value, u64::from(mantissa), two, 9), 6);
}
