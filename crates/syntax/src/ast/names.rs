//! Names of objects and types.

use super::Expr;
use crate::lex::Span;
use std::fmt;

/// Name in its effective form: folded to lower case unless it was quoted, and truncated to the greatest length.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// Text of the name.
    pub text: Box<str>,
    /// Place of the name.
    pub span: Span,
}

impl std::ops::Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Name of an object, with the names that qualify it: `schema.table`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectName {
    /// Names from the outermost to the object's own. There is at least one.
    pub parts: Vec<Name>,
}

impl ObjectName {
    /// Returns the place of the name with all its parts.
    pub fn span(&self) -> Span {
        match (self.parts.first(), self.parts.last()) {
            (Some(first), Some(last)) => first.span.to(last.span),
            _ => Span::default(),
        }
    }
}

impl fmt::Display for ObjectName {
    /// Formats the name as messages show it: parts joined by points, without quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.parts.iter().enumerate() {
            if 0 < at {
                f.write_str(".")?;
            }
            f.write_str(part)?;
        }
        Ok(())
    }
}

/// Name of a type with its modifiers.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct TypeName {
    /// Name. Types with a syntax of their own have PostgreSQL's names, as `int4` for `INTEGER`.
    pub name: ObjectName,
    /// True if the type is one with a syntax of its own, so that its name is looked up in `pg_catalog` alone.
    pub is_builtin: bool,
    /// Modifiers in parentheses.
    pub modifiers: Vec<Expr>,
    /// Fields of an `interval`.
    pub fields: Option<IntervalFields>,
    /// Bounds of an array's dimensions; `None` for a dimension without one.
    pub dimensions: Vec<Option<i32>>,
    /// True with `SETOF`.
    pub is_set: bool,
    /// True for the type of a column: `table.column%TYPE`.
    pub is_of_column: bool,
    /// Place of the type.
    pub span: Span,
}

/// Fields that an `interval` keeps: `INTERVAL DAY TO SECOND`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum IntervalFields {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    YearToMonth,
    DayToHour,
    DayToMinute,
    DayToSecond,
    HourToMinute,
    HourToSecond,
    MinuteToSecond,
}
