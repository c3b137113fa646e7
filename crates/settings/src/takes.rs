//! Values that settings take, and the contexts in which they change.

/// Values that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueType {
    /// Any text.
    Text,
    /// Names, quoted where they must be, separated by commas.
    Names,
    /// A Boolean: `on` or `off`.
    Switch,
    /// Milliseconds, or a number with a unit.
    Milliseconds,
    /// Milliseconds, a number with a unit, or -1.
    MillisecondsOrNever,
    /// At least this many kilobytes, or a number with a unit.
    Kilobytes(u64),
    /// An integer between these bounds, both included.
    Integer(i32, i32),
    /// A real number.
    Real,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Words for the style and order of dates.
    DateStyle,
    /// A time zone.
    TimeZone,
    /// No other value than the default.
    Fixed,
}

/// Context in which a setting may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingContext {
    /// Never.
    Internal,
    /// At the server's start.
    Postmaster,
    /// By a superuser; for other roles, a superuser sets it by `ALTER ROLE`.
    Superuser,
    /// By every session for itself.
    User,
}

impl SettingContext {
    /// Returns the name of the context in `pg_settings`.
    pub fn name(self) -> &'static str {
        match self {
            SettingContext::Internal => "internal",
            SettingContext::Postmaster => "postmaster",
            SettingContext::Superuser => "superuser",
            SettingContext::User => "user",
        }
    }
}

impl ValueType {
    /// Returns the name of the type in `pg_settings`.
    pub fn vartype(self) -> &'static str {
        match self {
            ValueType::Text | ValueType::Names | ValueType::DateStyle | ValueType::TimeZone | ValueType::Fixed => {
                "string"
            }
            ValueType::Switch => "bool",
            ValueType::Milliseconds
            | ValueType::MillisecondsOrNever
            | ValueType::Kilobytes(_)
            | ValueType::Integer(..) => "integer",
            ValueType::Real => "real",
            ValueType::OneOf(_) => "enum",
        }
    }

    /// Returns the unit of the values, if they have one.
    pub fn unit(self) -> Option<&'static str> {
        match self {
            ValueType::Milliseconds | ValueType::MillisecondsOrNever => Some("ms"),
            ValueType::Kilobytes(_) => Some("kB"),
            ValueType::Text
            | ValueType::Names
            | ValueType::DateStyle
            | ValueType::TimeZone
            | ValueType::Fixed
            | ValueType::Switch
            | ValueType::Integer(..)
            | ValueType::Real
            | ValueType::OneOf(_) => None,
        }
    }
}
