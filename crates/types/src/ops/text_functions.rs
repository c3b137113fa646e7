//! `format`, quoting, `overlay` and other functions of text; functions of any type.

use super::arrays::kind_of;
use super::build::{self, TextBuilder};
use super::get::{bytes, impossible, int, text};
use super::polymorphic::{ParameterType, PolymorphicFunction};
use super::strings::{characters, offset};
use super::{CallContext, Eval, Function, function};
use crate::Kind;
use crate::datum::Datum;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse::{self, slices};
use syntax::names::quoted_name;

fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Appends a text between quotes. Quotes in it are doubled, as are the characters of `doubled`.
fn push_quoted(out: &mut TextBuilder, value: &str, quote: char, doubled: &[char]) -> SqlResult<()> {
    out.push(quote)?;
    for slice in slices(value) {
        pulse::tick(4 * slice.len())?;
        for c in slice.chars() {
            if c == quote || doubled.contains(&c) {
                out.push(c)?;
            }
            out.push(c)?;
        }
    }
    out.push(quote)
}

/// Appends a text as a literal of a statement.
fn push_literal(out: &mut TextBuilder, value: &str) -> SqlResult<()> {
    if value.contains('\\') {
        out.push('E')?;
    }
    push_quoted(out, value, '\'', &['\\'])
}

/// Appends a name of any length as [`quoted_name`] writes it.
fn push_name(out: &mut TextBuilder, name: &str) -> SqlResult<()> {
    // No longer name is plain.
    if name.len() <= 64 { out.push_str(&quoted_name(name)) } else { push_quoted(out, name, '"', &[]) }
}

fn quote_nullable(args: &[Datum]) -> SqlResult<Datum> {
    let mut out = TextBuilder::default();
    match &args[0] {
        Datum::Null => out.push_str("NULL")?,
        value => push_literal(&mut out, text(value)?)?,
    }
    Ok(out.finish())
}

/// Quotes any value, with the text of a cast.
fn quote_any(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let kind = kind_of(args.get(1))?;
    let cast = super::find_cast(kind, Kind::Text, super::CastContext::Explicit);
    let value = match cast {
        Some(cast) if !args[0].is_null() => (cast.eval)(&args[0], Kind::Text.into(), env)?,
        _ => args[0].clone(),
    };
    quote_nullable(&[value])
}

/// Reads a number in a format. Returns `None` if no digits stand there.
fn digits(rest: &mut &str) -> SqlResult<Option<i64>> {
    let len = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(len);
    *rest = after;
    if digits.is_empty() {
        return Ok(None);
    }
    let number = digits
        .parse::<i32>()
        .map_err(|_| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "number is out of range"))?;
    Ok(Some(i64::from(number)))
}

/// Formats texts: `format`, whose arguments are all texts.
fn format(args: &[Datum]) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let pattern = text(&args[0])?;
    let mut out = TextBuilder::default();
    let mut next = 0_usize;
    let mut rest = pattern;
    let unterminated = || refused("unterminated format() type specifier").hint("For a single \"%\" use \"%%\".");
    let argument = |number: usize| args.get(number).ok_or_else(|| refused("too few arguments for format()"));
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at])?;
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%')?;
            rest = after;
            continue;
        }
        let zero = || refused("format specifies argument 0, but arguments are numbered from 1");
        // The number is a position, or the width.
        let (mut position, mut width, mut left) = (None, None, false);
        let number = digits(&mut rest)?;
        match (number, rest.strip_prefix('$')) {
            (Some(0), Some(_)) => return Err(zero()),
            (Some(number), Some(after)) => {
                position = Some(number as usize);
                rest = after;
            }
            (number, _) => width = number,
        }
        if width.is_none() {
            while let Some(after) = rest.strip_prefix('-') {
                left = true;
                rest = after;
            }
            if let Some(after) = rest.strip_prefix('*') {
                rest = after;
                let number = digits(&mut rest)?;
                let at = match number {
                    Some(0) => return Err(zero()),
                    Some(number) => {
                        rest = rest
                            .strip_prefix('$')
                            .ok_or_else(|| refused("width argument position must be ended by \"$\""))?;
                        number as usize
                    }
                    None => {
                        next += 1;
                        next
                    }
                };
                next = at;
                let wide = argument(at)?;
                if !wide.is_null() {
                    let parsed = crate::text::input(text(wide)?, Kind::Int4.into(), &Default::default())?;
                    width = Some(int(&parsed)?);
                }
            } else {
                width = digits(&mut rest)?;
            }
        }
        let kind = rest.chars().next().ok_or_else(unterminated)?;
        rest = &rest[kind.len_utf8()..];
        let at = position.unwrap_or(next + 1);
        next = at;
        if !matches!(kind, 's' | 'I' | 'L') {
            let error = refused(format!("unrecognized format() type specifier \"{kind}\""));
            return Err(error.hint("For a single \"%\" use \"%%\"."));
        }
        let value = argument(at)?;
        let mut written = TextBuilder::default();
        match (kind, value) {
            ('s', Datum::Null) => {}
            ('I', Datum::Null) => {
                return Err(SqlError::new(
                    SqlState::NULL_VALUE_NOT_ALLOWED,
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            ('L', Datum::Null) => written.push_str("NULL")?,
            ('I', value) => push_name(&mut written, text(value)?)?,
            ('L', value) => push_literal(&mut written, text(value)?)?,
            (_, value) => written.push_str(text(value)?)?,
        }
        let written = written.into_string();
        let width = width.unwrap_or(0);
        left |= width < 0;
        let missing = usize::try_from(width.abs()).unwrap_or(0).saturating_sub(written.chars().count());
        out.fits(missing)?;
        let blanks = " ".repeat(missing);
        let both = if left { [&written, &blanks] } else { [&blanks, &written] };
        both.into_iter().try_for_each(|part| out.push_str(part))?;
    }
    out.push_str(rest)?;
    Ok(out.finish())
}

/// Returns the number of characters that an overlay keeps at the start, and the position from which it keeps the rest.
fn overlaid(start: i64, count: i64) -> SqlResult<(i64, i64)> {
    if start <= 0 {
        return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let behind = start
        .checked_add(count)
        .ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"))?;
    if i32::try_from(behind).is_err() {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"));
    }
    Ok((start - 1, (behind - 1).max(0)))
}

fn overlay(args: &[Datum]) -> SqlResult<Datum> {
    let (all, new) = (text(&args[0])?, text(&args[1])?);
    let count = args.get(3).map_or_else(|| characters(new), int)?;
    let (before, behind) = overlaid(int(&args[2])?, count)?;
    build::texts(&[&all[..offset(all, before)?], new, &all[offset(all, behind)?..]])
}

fn byte_overlay(args: &[Datum]) -> SqlResult<Datum> {
    let (all, new) = (bytes(&args[0])?, bytes(&args[1])?);
    let count = args.get(3).map_or(Ok(new.len() as i64), int)?;
    let (before, behind) = overlaid(int(&args[2])?, count)?;
    let within = |at: i64| usize::try_from(at).unwrap_or(0).min(all.len());
    build::bytes(&[&all[..within(before)], new, &all[within(behind)..]])
}

fn unicode_name(args: &[Datum]) -> SqlResult<Datum> {
    let mut out = TextBuilder::default();
    push_name(&mut out, text(&args[0])?)?;
    Ok(out.finish())
}

fn pg_typeof(args: &[Datum]) -> SqlResult<Datum> {
    args.get(1).cloned().ok_or_else(|| impossible("pg_typeof is not told a type"))
}

/// Returns the bytes that a value takes in a row of PostgreSQL, without compression.
fn column_size(args: &[Datum]) -> SqlResult<Datum> {
    let kind = kind_of(args.get(1))?;
    // Short values in a row have a header of one byte; a computed value has one of four.
    Ok(match &args[0] {
        Datum::Null => Datum::Null,
        Datum::Text(value) if kind == Kind::Unknown => Datum::Int4(value.len() as i32 + 1),
        Datum::Text(value) if kind.len() < 0 => Datum::Int4(value.len() as i32 + 4),
        Datum::Bytes(value) => Datum::Int4(value.len() as i32 + 4),
        _ if kind.len() > 0 => Datum::Int4(i32::from(kind.len())),
        _ => return Err(SqlError::unsupported(format_args!("pg_column_size of {}", kind.name()))),
    })
}

fn nulls(args: &[Datum], wanted: bool) -> Datum {
    Datum::Int4(args.iter().filter(|arg| arg.is_null() == wanted).count() as i32)
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Bytea, Int4, Int8, Name, Text};
    let lenient = |function: Function| Function { strict: false, ..function };
    vec![
        function("quote_ident", &[Text], Text, unicode_name),
        function("quote_literal", &[Text], Text, quote_nullable),
        lenient(function("quote_nullable", &[Text], Text, quote_nullable)),
        function("overlay", &[Text, Text, Int4], Text, overlay),
        function("overlay", &[Text, Text, Int4, Int4], Text, overlay),
        function("overlay", &[Bytea, Bytea, Int4], Bytea, byte_overlay),
        function("overlay", &[Bytea, Bytea, Int4, Int4], Bytea, byte_overlay),
        function("to_hex", &[Int4], Text, |a| Ok(Datum::text(format!("{:x}", int(&a[0])? as u32)))),
        function("to_hex", &[Int8], Text, |a| Ok(Datum::text(format!("{:x}", int(&a[0])? as u64)))),
        function("getdatabaseencoding", &[], Name, |_| Ok(Datum::text("UTF8"))),
        function("pg_client_encoding", &[], Name, |_| Ok(Datum::text("UTF8"))),
    ]
}

pub(super) fn lines() -> Vec<PolymorphicFunction> {
    use ParameterType::{Any, Is, Raw, Shown};
    const TEXT: ParameterType = Is(Kind::Text);
    const INT: ParameterType = Is(Kind::Int4);
    let line = |name, arguments, variadic, result, eval: super::PlainFunction| PolymorphicFunction {
        name,
        arguments,
        variadic,
        result,
        strict: false,
        told_types: false,
        eval: Eval::Plain(eval),
    };
    vec![
        line("format", &[TEXT, Shown], true, TEXT, format),
        line("num_nulls", &[Any], true, INT, |a| Ok(nulls(a, true))),
        line("num_nonnulls", &[Any], true, INT, |a| Ok(nulls(a, false))),
        PolymorphicFunction {
            told_types: true,
            strict: true,
            eval: Eval::InContext(quote_any),
            ..line("quote_literal", &[Any], false, TEXT, quote_nullable)
        },
        PolymorphicFunction {
            told_types: true,
            eval: Eval::InContext(quote_any),
            ..line("quote_nullable", &[Any], false, TEXT, quote_nullable)
        },
        PolymorphicFunction { told_types: true, ..line("pg_typeof", &[Raw], false, Is(Kind::Regtype), pg_typeof) },
        PolymorphicFunction { told_types: true, ..line("pg_column_size", &[Raw], false, INT, column_size) },
    ]
}
