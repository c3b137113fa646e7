//! Expressions with the results of PostgreSQL 15: `tests/cases.tsv`, which `tests/against_postgres.sh` regenerates.
//!
//! Each line has an expression in a minimal subset of SQL (typed literals, with one operator or function around them),
//! a tab, and type and value, or the error.

use super::NoSession;
use super::{
    CastContext, FunctionTable, common_kind, find_cast, resolve_aggregate, resolve_function, resolve_operator,
};
use crate::datum::Datum;
use crate::forms::Forms;
use crate::{Kind, SqlType, binary, modifier, text};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::LazyLock;

const CASES: &str = include_str!("../../tests/cases.tsv");

/// A value and its type.
type Typed = (Datum, SqlType);

struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    fn blanks(&mut self) {
        self.0 = self.0.trim_start();
    }

    fn word(&mut self, of: impl Fn(char) -> bool) -> &'a str {
        let len = self.0.find(|c| !of(c)).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(len);
        self.0 = rest;
        word
    }

    fn eat(&mut self, token: &str) -> bool {
        self.0.strip_prefix(token).map(|rest| self.0 = rest).is_some()
    }

    fn sql_type(&mut self) -> SqlType {
        let mut name = self.word(|c| c.is_ascii_alphanumeric() || c == '_' || c == '"').to_owned();
        for more in [" precision", " varying", " with time zone", " without time zone"] {
            if self.eat(more) {
                name += more;
            }
        }
        let mut typmod = -1;
        if self.eat("(") {
            let numbers: Vec<i32> =
                self.word(|c| c != ')').split(',').map(|number| number.parse().expect("a number")).collect();
            self.eat(")");
            typmod = match (name.as_str(), &numbers[..]) {
                ("numeric", [precision]) => SqlType::numeric(*precision, 0).typmod,
                ("numeric", [precision, scale]) => SqlType::numeric(*precision, *scale).typmod,
                ("varchar" | "bpchar" | "char", [length]) => length + 4,
                ("interval", [digits]) => 0x7fff << 16 | digits,
                (_, numbers) => numbers[0],
            };
        }
        if self.eat("[]") {
            name += "[]";
        }
        SqlType { kind: Kind::from_name(&name).unwrap_or_else(|| panic!("type {name}")), typmod }
    }

    /// Reads `'text'::type::type`, or NULL.
    fn literal(&mut self) -> SqlResult<Typed> {
        self.blanks();
        let mut value: Typed = if self.eat("NULL") {
            (Datum::Null, Kind::Unknown.into())
        } else {
            assert!(self.eat("'"), "a literal at {}", self.0);
            let mut text = String::new();
            loop {
                text += self.word(|c| c != '\'');
                self.eat("'");
                if !self.eat("'") {
                    break;
                }
                text.push('\'');
            }
            (Datum::text(text), Kind::Unknown.into())
        };
        let mut error = None;
        while self.eat("::") {
            let to = self.sql_type();
            if error.is_none() {
                match cast(&value, to) {
                    Ok(done) => value = done,
                    Err(found) => error = Some(found),
                }
            }
        }
        error.map_or(Ok(value), Err)
    }
}

/// Table of the functions that need no catalog.
static FUNCTIONS: LazyLock<FunctionTable> = LazyLock::new(|| FunctionTable::with(Vec::new()));

/// Applies an explicit cast.
fn cast((value, from): &Typed, to: SqlType) -> SqlResult<Typed> {
    let found = find_cast(from.kind, to.kind, CastContext::Explicit);
    if found.is_none() && from.kind != to.kind {
        let message = format!("cannot cast type {} to {}", from.kind.name(), to.kind.name());
        return Err(SqlError::new(SqlState::CANNOT_COERCE, message));
    }
    if value.is_null() {
        return Ok((Datum::Null, to));
    }
    let value = found.map_or_else(|| Ok(value.clone()), |cast| (cast.eval)(value, to, &NoSession))?;
    Ok((modifier::apply(value, to, true)?, to))
}

fn prepared(args: &[Typed], casts: &[Option<&'static super::Cast>]) -> SqlResult<Vec<Datum>> {
    let one = |((value, _), cast): (&Typed, &Option<&'static super::Cast>)| match cast {
        Some(cast) if !value.is_null() => (cast.eval)(value, cast.to.into(), &NoSession),
        _ => Ok(value.clone()),
    };
    args.iter().zip(casts).map(one).collect()
}

fn evaluate(expression: &str) -> SqlResult<Typed> {
    let mut reader = Reader(expression);
    let is_operator = |c: char| "+-*/<>=~!@#%^&|`".contains(c);
    if reader.0.starts_with(|c: char| c.is_ascii_lowercase()) {
        let name = reader.word(|c| c != '(').trim_start_matches("pg_catalog.");
        reader.eat("(");
        let mut args = Vec::new();
        while !reader.eat(")") {
            args.push(reader.literal()?);
            reader.eat(",");
        }
        if name.ends_with("send") {
            let mut bytes = Vec::new();
            binary::output(&args[0].0, args[0].1, &mut bytes);
            let back = binary::input(&bytes, args[0].1, binary::ValueOrigin::Field)?;
            assert_eq!(back, args[0].0, "{expression} from binary");
            return Ok((Datum::Bytes(bytes.into()), Kind::Bytea.into()));
        }
        let kinds: Vec<Kind> = args.iter().map(|(_, kind)| kind.kind).collect();
        let found = resolve_function(&FUNCTIONS, name, &kinds)?;
        let result = found.function.result.into();
        let mut values = prepared(&args, &found.casts)?;
        values.extend(found.told_types(&kinds));
        if found.function.strict && values.iter().any(Datum::is_null) {
            return Ok((Datum::Null, result));
        }
        return Ok((found.function.eval.call(&values, &NoSession)?, result));
    }
    let left = if reader.0.starts_with(['\'', 'N']) { Some(reader.literal()?) } else { None };
    reader.blanks();
    if reader.0.is_empty() {
        return Ok(left.expect("an expression"));
    }
    let name = reader.word(is_operator);
    let right = reader.literal()?;
    let found = resolve_operator(name, left.as_ref().map(|(_, kind)| kind.kind), right.1.kind)?;
    let result = found.operator.result.into();
    let (mut args, mut casts) = (Vec::new(), Vec::new());
    if let Some(left) = left {
        args.push(left);
        casts.push(found.left);
    }
    args.push(right);
    casts.push(found.right);
    let values = prepared(&args, &casts)?;
    if values.iter().any(Datum::is_null) {
        return Ok((Datum::Null, result));
    }
    Ok((found.operator.eval.call(&values, &NoSession)?, result))
}

/// Formats a result like the script does with PostgreSQL's.
fn shown(result: &SqlResult<Typed>) -> String {
    let written = match result {
        Ok((Datum::Null, kind)) => format!("{}|NULL", kind.kind.name()),
        Ok((value, kind)) => format!("{}|{}", kind.kind.name(), text::to_string(value, *kind, &Forms::DEFAULT)),
        Err(error) => {
            let state = error.state();
            let (detail, hint) = (error.detail_text().unwrap_or(""), error.hint_text().unwrap_or(""));
            format!("ERROR {state} {}|{detail}|{hint}", error.message())
        }
    };
    written.replace('\n', "\\n")
}

#[test]
fn expressions_are_what_postgresql_says() {
    let mut wrong = Vec::new();
    for line in CASES.lines() {
        let (expression, expected) = line.split_once('\t').expect("a tab in each line");
        let found = shown(&evaluate(expression));
        if found != expected {
            wrong.push(format!("{expression}\n  PostgreSQL: {expected}\n  we:         {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), CASES.lines().count(), wrong.join("\n"));
}

/// Runs an aggregate over literals of one type. An empty string is NULL.
fn aggregate(name: &str, kind: Kind, values: &[&str], rest: &[Datum]) -> String {
    let mut kinds = vec![kind];
    kinds.extend(rest.iter().map(|_| Kind::Unknown));
    let found = resolve_aggregate(name, &kinds).expect("resolved").expect("an aggregate");
    let mut accumulator = found.aggregate.start();
    for value in values {
        let value = if value.is_empty() {
            Datum::Null
        } else {
            text::input(value, kind.into(), &Forms::DEFAULT).expect("a value")
        };
        let args: Vec<Typed> = std::iter::once((value, kind.into()))
            .chain(rest.iter().map(|value| (value.clone(), Kind::Unknown.into())))
            .collect();
        accumulator.add(&prepared(&args, &found.casts).expect("casts")).expect("in range");
    }
    let result = found.aggregate.result;
    shown(&accumulator.finish().map(|value| (value, result.into())))
}

#[test]
fn aggregates_are_what_postgresql_says() {
    let max = "9223372036854775807";
    for (name, kind, values, expected) in [
        ("count", Kind::Text, &["a", "", "b"][..], "bigint|2"),
        ("count", Kind::Text, &[], "bigint|0"),
        ("sum", Kind::Int2, &["1", "2"], "bigint|3"),
        ("sum", Kind::Int4, &["2147483647", "2147483647", ""], "bigint|4294967294"),
        ("sum", Kind::Int8, &[max, max], "numeric|18446744073709551614"),
        ("sum", Kind::Int4, &["", ""], "bigint|NULL"),
        ("sum", Kind::Numeric, &["1.5", "2.25"], "numeric|3.75"),
        ("sum", Kind::Float4, &["0.1", "0.2"], "real|0.3"),
        ("sum", Kind::Interval, &["1 day", "01:00"], "interval|1 day 01:00:00"),
        ("avg", Kind::Int4, &["1", "2", "4"], "numeric|2.3333333333333333"),
        ("avg", Kind::Int8, &["1", "2"], "numeric|1.5000000000000000"),
        ("avg", Kind::Numeric, &["100.5", "200"], "numeric|150.2500000000000000"),
        ("avg", Kind::Float8, &["1", "2"], "double precision|1.5"),
        ("avg", Kind::Float4, &["1", "2"], "double precision|1.5"),
        ("avg", Kind::Interval, &["1 day", "2 days"], "interval|1 day 12:00:00"),
        ("min", Kind::Text, &["b", "", "B"], "text|B"),
        ("max", Kind::Varchar, &["b", "a"], "text|b"),
        ("max", Kind::Float8, &["1", "NaN", "2"], "double precision|NaN"),
        ("min", Kind::Date, &["2024-01-02", "2024-01-01"], "date|2024-01-01"),
        ("bool_and", Kind::Bool, &["t", "f", ""], "boolean|f"),
        ("bool_or", Kind::Bool, &["t", "f"], "boolean|t"),
        ("bool_or", Kind::Bool, &[""], "boolean|NULL"),
        ("array_agg", Kind::Int4, &["1", "", "2"], "integer[]|{1,NULL,2}"),
    ] {
        assert_eq!(aggregate(name, kind, values, &[]), expected, "{name} of {values:?}");
    }
    let comma = [Datum::text(", ")];
    assert_eq!(aggregate("string_agg", Kind::Text, &["a", "", "b"], &comma), "text|a, b");
    assert!(resolve_aggregate("lower", &[Kind::Text]).expect("no error").is_none());
    let error = resolve_aggregate("sum", &[Kind::Text]).expect_err("no such sum");
    assert_eq!(error.message(), "function sum(text) does not exist");
    let error = resolve_aggregate("sum", &[Kind::Unknown]).expect_err("which sum");
    assert_eq!(error.message(), "function sum(unknown) is not unique");
}

#[test]
fn the_common_type_of_several_values() {
    use Kind::{Date, Float8, Int2, Int4, Int8, Numeric, Text, Timestamp, Timestamptz, Unknown, Varchar};
    for (kinds, expected) in [
        (&[Unknown, Unknown][..], Text),
        (&[Int4, Unknown], Int4),
        (&[Int2, Int8, Int4], Int8),
        (&[Int4, Numeric], Numeric),
        (&[Numeric, Float8, Int4], Float8),
        (&[Varchar, Text], Varchar),
        (&[Varchar, Varchar], Varchar),
        (&[Date, Timestamp, Unknown], Timestamp),
        (&[Timestamp, Timestamptz], Timestamptz),
    ] {
        assert_eq!(common_kind(kinds, "UNION"), Ok(expected), "{kinds:?}");
    }
    let error = common_kind(&[Int4, Text], "CASE").expect_err("no common type");
    assert_eq!(error.to_string(), "CASE types integer and text cannot be matched (SQLSTATE 42804)");
}

#[test]
fn equal_values_have_equal_hashes() {
    let hash_of = |written: &str, kind: Kind| {
        let mut hasher = std::collections::hash_map::DefaultHasher::new();
        super::compare::hash(&text::input(written, kind.into(), &Forms::DEFAULT).expect("a value"), kind, &mut hasher);
        std::hash::Hasher::finish(&hasher)
    };
    for (kind, a, b) in [
        (Kind::Numeric, "1.0", "1.00"),
        (Kind::Float8, "0", "-0"),
        (Kind::Bpchar, "a", "a  "),
        (Kind::Interval, "1 mon", "30 days"),
        (Kind::Array(crate::Element::Numeric), "{1,NULL}", "{1.0,NULL}"),
    ] {
        assert_eq!(hash_of(a, kind), hash_of(b, kind), "{a} and {b}");
    }
    assert_ne!(hash_of("a", Kind::Text), hash_of("a ", Kind::Text));
}

/// Returns a value of another variant than those of this type.
fn other_than(kind: Kind, at: usize) -> Datum {
    let interval = Datum::Interval(crate::interval::Interval::default());
    let uuid = Datum::Uuid([1; 16]);
    let bytes = Datum::Bytes([1].into());
    // Two arguments of one type get values of different types, which do not compare.
    let (first, second) = if at.is_multiple_of(2) { (uuid, interval) } else { (bytes, interval) };
    match (kind, &first) {
        (Kind::Uuid, Datum::Uuid(_)) | (Kind::Bytea, Datum::Bytes(_)) => second,
        _ => first,
    }
}

/// Goal: no entry of the tables accepts a value of another type than it declares. Method: all
/// entries, with such values.
#[test]
fn no_line_answers_for_values_of_other_types() {
    let mut answered = Vec::new();
    let mut call = |name: &str, kinds: &[Kind], eval: super::Eval| {
        let values: Vec<Datum> = kinds.iter().enumerate().map(|(at, kind)| other_than(*kind, at)).collect();
        // Returning an argument is not accepting it, and many `pg_*` functions return the same for all objects.
        if let Ok(answer) = eval.call(&values, &NoSession)
            && !values.contains(&answer)
            && !name.starts_with("pg_")
        {
            let kinds: Vec<String> = kinds.iter().map(|kind| kind.name()).collect();
            answered.push(format!("{name}({}): {answer:?}", kinds.join(", ")));
        }
    };
    for operator in super::OPERATORS.values().flatten() {
        let kinds: Vec<Kind> = operator.left.into_iter().chain([operator.right]).collect();
        call(operator.name, &kinds, operator.eval);
    }
    for function in FUNCTIONS.0.values().flatten().filter(|function| !function.arguments.is_empty()) {
        call(function.name, function.arguments, function.eval);
    }
    for from in Kind::all() {
        for to in Kind::all() {
            if let Some(cast) = find_cast(from, to, CastContext::Explicit)
                && let Ok(answer) = (cast.eval)(&other_than(from, 0), to.into(), &NoSession)
                && answer != other_than(from, 0)
            {
                answered.push(format!("{} as {}: {answer:?}", from.name(), to.name()));
            }
        }
    }
    answered.sort();
    assert!(answered.is_empty(), "{} answer:\n{}", answered.len(), answered.join("\n"));
}
