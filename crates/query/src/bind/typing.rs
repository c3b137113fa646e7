//! Types of literals, parameters and casts.

use super::{Binder, Noted};
use crate::plan::{Expr, Typed};
use sqlparser::ast;
use statement::error::{SqlError, SqlResult, SqlState};
use types::datum::Datum;
use types::forms::Forms;
use types::ops::{self, CallContext, Context};
use types::{Kind, SqlType, modifier, text};

/// Comparison for equality of operands of two kinds: that of the operator `=`, whatever the syntax.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Equality {
    /// Both as values of this kind.
    One(Kind),
    /// By an operator of two kinds, neither of which has all values of the other.
    Two,
}

/// Chooses the comparison that `=` makes of operands of these kinds.
///
/// # Errors
/// Those of the operator: `42883`, `42725`.
pub(super) fn equality(left: Kind, right: Kind) -> SqlResult<Equality> {
    let operator = ops::resolve_operator("=", Some(left), right)?.operator;
    let width = |kind: Kind| match kind {
        Kind::Int2 => Some(2),
        Kind::Int4 => Some(4),
        Kind::Int8 => Some(8),
        _ => None,
    };
    let (one, two) = (operator.left.unwrap_or(operator.right), operator.right);
    Ok(match (one, two) {
        // Varying strings are compared as text, whose values they are.
        (Kind::Text, Kind::Text) if left == Kind::Varchar && right == Kind::Varchar => Equality::One(left),
        (one, two) if one == two => Equality::One(one),
        (Kind::Float4, Kind::Float8) | (Kind::Float8, Kind::Float4) => Equality::One(Kind::Float8),
        (Kind::Name, Kind::Text) | (Kind::Text, Kind::Name) => Equality::One(Kind::Text),
        (one, two) => match (width(one), width(two)) {
            (Some(own), Some(other)) => Equality::One(if own < other { two } else { one }),
            _ => Equality::Two,
        },
    })
}

/// Says whether the values that texts stand for depend on DateStyle, TimeZone, IntervalStyle or the clock.
fn is_read_by_settings(kind: Kind) -> bool {
    match kind.element() {
        Some(element) => is_read_by_settings(element),
        None => {
            matches!(kind, Kind::Date | Kind::Time | Kind::Timestamp | Kind::Timestamptz | Kind::Interval)
        }
    }
}

impl Binder<'_> {
    /// The value as one of this type, where `context` allows the cast.
    ///
    /// # Errors
    /// `42846` or `42804`, without a place: it depends on what the cast is for; for a literal, with it, that it is no such value.
    pub fn coerce(&self, typed: Typed, to: SqlType, context: Context) -> SqlResult<Typed> {
        let place = typed.place;
        self.coerced(typed, to, context).map(|typed| typed.at(place))
    }

    /// A default as a value of its column. Whether a literal has room in the column is another matter than what it stands for:
    /// who uses the default finds out.
    ///
    /// # Errors
    /// As [`Binder::coerce`].
    pub fn coerce_default(&self, typed: Typed, to: SqlType) -> SqlResult<Typed> {
        let is_literal = matches!((typed.kind.kind, &typed.expr), (Kind::Unknown, Expr::Constant(Datum::Text(_))));
        // The modifier of an interval says how it is read.
        if !is_literal || to.typmod < 0 || to.kind == Kind::Interval {
            return self.coerce(typed, to, Context::Assignment);
        }
        let value = self.coerce(typed, to.kind.into(), Context::Assignment)?;
        if let Expr::Constant(constant) = &value.expr
            && let Ok(fitted) = modifier::apply(constant.clone(), to, false)
        {
            return Ok(Typed { expr: Expr::Constant(fitted), kind: to, ..value });
        }
        self.coerce(value, to, Context::Assignment)
    }

    fn coerced(&self, typed: Typed, to: SqlType, context: Context) -> SqlResult<Typed> {
        let (from, place) = (typed.kind, typed.place);
        if from.kind == Kind::Unknown {
            match typed.expr {
                Expr::Constant(Datum::Null) => return Ok(Typed::new(typed.expr, to)),
                Expr::Constant(Datum::Text(name))
                    if to.kind == Kind::Regclass
                        && name.bytes().any(|byte| !byte.is_ascii_digit())
                        && let Ok(relation) = self.catalog.relation_written(self.path, &name) =>
                {
                    self.note(place.into(), || Noted::Literal(relation.oid()));
                    return Ok(Typed::new(Expr::Constant(Datum::Oid(relation.oid())), to));
                }
                Expr::Constant(Datum::Text(text)) => {
                    // A cast cuts what is too long; input would refuse it.
                    let element = to.element().map_or(to.kind, |element| element.kind);
                    let is_cut = context == Context::Explicit && matches!(element, Kind::Varchar | Kind::Bpchar);
                    let read_as = if is_cut { to.kind.into() } else { to };
                    let value = text::input(&text, read_as, self.env.forms());
                    let expr = Expr::Constant(value.map_err(|error| {
                        // That the value does not fit the modifier is another matter than that it is none.
                        match text::input(&text, to.kind.into(), self.env.forms()) {
                            Ok(_) if to.kind != Kind::Interval => error.nowhere(),
                            _ => self.at_place(error, place),
                        }
                    })?);
                    if let (true, Expr::Constant(datum)) = (is_read_by_settings(to.kind), &expr) {
                        let mut plain = String::new();
                        text::output(datum, read_as, &Forms::default(), &mut plain);
                        if *plain != *text {
                            self.note(place.into(), || Noted::Moment(plain));
                        }
                    }
                    if let (Kind::Regclass, Expr::Constant(Datum::Oid(oid))) = (to.kind, &expr) {
                        self.note(place.into(), || Noted::Literal(*oid));
                    }
                    return if is_cut {
                        self.coerce(Typed::new(expr, read_as), to, context)
                    } else {
                        Ok(Typed::new(expr, to))
                    };
                }
                // That says nothing of its type.
                Expr::Parameter(_) if to.kind == Kind::Unknown => return Ok(typed),
                Expr::Parameter(at) => {
                    let known = self.parameters.borrow_mut()[at].replace(to.kind.into());
                    if let Some(known) = known.filter(|known| known.kind != to.kind) {
                        let message = format!("inconsistent types deduced for parameter ${}", at + 1);
                        let error = SqlError::new(SqlState("42P08"), message).detail(format!(
                            "{} versus {}",
                            known.name(),
                            SqlType::from(to.kind).name()
                        ));
                        return Err(self.at_place(error, place));
                    }
                    let typed = Typed::new(Expr::Parameter(at), to.kind);
                    return self.coerce(typed, to, context);
                }
                _ => {}
            }
        }
        if from.kind == to.kind {
            if to.typmod < 0 || from.typmod == to.typmod {
                // The same values, whose modifier a cast to the type alone forgets.
                return Ok(Typed { kind: to, ..typed });
            }
            return Ok(Typed::new(modified(typed.expr, to, context), to));
        }
        if from.kind == Kind::Varchar && to.kind == Kind::Text {
            // The same values: a cast would only keep the column from its index.
            return Ok(Typed { kind: to, ..typed });
        }
        let Some(cast) = ops::find_cast(from.kind, to.kind, context) else {
            let message = format!("cannot cast type {} to {}", from.kind.name(), to.kind.name());
            return Err(SqlError::new(SqlState::CANNOT_COERCE, message));
        };
        let mut expr = Expr::Cast { eval: cast.eval, to, argument: Box::new(typed.expr) };
        if 0 <= to.typmod {
            expr = modified(expr, to, context);
        }
        Ok(Typed::new(expr, to))
    }

    /// As a value that decides: a condition.
    pub fn condition(&self, typed: Typed, of: &str) -> SqlResult<Expr> {
        if !matches!(typed.kind.kind, Kind::Bool | Kind::Unknown) {
            let message = format!("argument of {of} must be type boolean, not type {}", typed.kind.name());
            return Err(self.at_place(SqlError::new(SqlState::DATATYPE_MISMATCH, message), typed.place));
        }
        self.coerce(typed, Kind::Bool.into(), Context::Implicit).map(|typed| typed.expr)
    }

    /// All as one type, by the rules of `UNION` and `CASE`.
    pub fn common(&self, all: Vec<Typed>, of: &str) -> SqlResult<(Vec<Expr>, SqlType)> {
        let kinds: Vec<Kind> = all.iter().map(|typed| typed.kind.kind).collect();
        let kind = ops::common_kind_of(&kinds, of).map_err(|(at, error)| self.at_place(error, all[at].place))?;
        let same = all.first().map(|typed| typed.kind).filter(|kind| all.iter().all(|typed| typed.kind == *kind));
        let to = same.filter(|same| same.kind == kind).unwrap_or_else(|| kind.into());
        let coerced = all.into_iter().map(|typed| {
            statement::pulse::tick(32)?;
            Ok(self.coerce(typed, to, Context::Implicit)?.expr)
        });
        Ok((coerced.collect::<SqlResult<_>>()?, to))
    }

    /// Applies an operator.
    pub fn operator(&self, name: &str, left: Option<Typed>, right: Typed) -> SqlResult<Typed> {
        let operator = ops::resolve_operator(name, left.as_ref().map(|left| left.kind.kind), right.kind.kind)?.operator;
        let mut arguments = Vec::with_capacity(2);
        for (argument, to) in left.into_iter().zip(operator.left).chain([(right, operator.right)]) {
            arguments.push(self.argument(argument, to)?);
        }
        let expr = Expr::Call {
            eval: operator.eval,
            strict: operator.strict,
            operator: Some(operator),
            function: None,
            arguments,
        };
        Ok(Typed::new(expr, operator.result))
    }

    /// An argument of a function or operator: its modifier does not matter.
    pub fn argument(&self, argument: Typed, to: Kind) -> SqlResult<Expr> {
        self.coerce(argument, to.into(), Context::Implicit).map(|typed| typed.expr)
    }

    /// Looks whether values of a kind can be told from one another.
    ///
    /// # Errors
    /// `42883` if they cannot.
    pub(crate) fn groupable(&self, kind: Kind) -> SqlResult<Kind> {
        if ops::is_comparable(kind) {
            return Ok(kind);
        }
        let message = format!("could not identify an equality operator for type {}", SqlType::from(kind).name());
        Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
    }

    /// Looks whether values of a kind have an order.
    ///
    /// # Errors
    /// `42883` if they have none.
    pub fn comparable(&self, kind: Kind) -> SqlResult<Kind> {
        if ops::is_comparable(kind) {
            return Ok(kind);
        }
        let message = format!("could not identify an ordering operator for type {}", SqlType::from(kind).name());
        Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
            .hint("Use an explicit ordering operator or modify the query."))
    }

    /// A type as a statement writes it.
    pub fn type_of(&self, data_type: &ast::DataType) -> SqlResult<SqlType> {
        use ast::{CharacterLength, DataType, ExactNumberInfo, TimezoneInfo};
        let length = |length: &Option<CharacterLength>, default: i32, name: &str| match length {
            None => Ok(default),
            Some(CharacterLength::IntegerLength { length, unit: None }) if (1..=10_485_760).contains(length) => {
                Ok(*length as i32 + 4)
            }
            Some(CharacterLength::IntegerLength { length: 0, .. }) => {
                let message = format!("length for type {name} must be at least 1");
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
            Some(CharacterLength::IntegerLength { length: _, unit: None }) => {
                let message = format!("length for type {name} cannot exceed 10485760");
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
            Some(_) => Err(SqlError::unsupported("this length of a string")),
        };
        let with = |kind: Kind, typmod: i32| Ok(SqlType { kind, typmod });
        match data_type {
            DataType::Bool | DataType::Boolean => Ok(Kind::Bool.into()),
            DataType::SmallInt(None) | DataType::Int2(None) => Ok(Kind::Int2.into()),
            DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => Ok(Kind::Int4.into()),
            DataType::BigInt(None) | DataType::Int8(None) => Ok(Kind::Int8.into()),
            DataType::Real | DataType::Float4 => Ok(Kind::Float4.into()),
            DataType::Float8 | DataType::DoublePrecision | DataType::Double(ExactNumberInfo::None) => {
                Ok(Kind::Float8.into())
            }
            DataType::Float(ExactNumberInfo::None) => Ok(Kind::Float8.into()),
            DataType::Text => Ok(Kind::Text.into()),
            DataType::Varchar(size) | DataType::CharacterVarying(size) | DataType::CharVarying(size) => {
                with(Kind::Varchar, length(size, -1, "varchar")?)
            }
            DataType::Char(size) | DataType::Character(size) => with(Kind::Bpchar, length(size, 5, "char")?),
            DataType::Bytea => Ok(Kind::Bytea.into()),
            DataType::Date => Ok(Kind::Date.into()),
            DataType::Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
                with(Kind::Time, second_digits(*digits))
            }
            DataType::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
                with(Kind::Timestamp, second_digits(*digits))
            }
            DataType::Timestamp(digits, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
                with(Kind::Timestamptz, second_digits(*digits))
            }
            DataType::Interval { fields: None, precision: None } => Ok(Kind::Interval.into()),
            DataType::Interval { fields: None, precision: Some(digits) } => {
                with(Kind::Interval, 0x7fff << 16 | second_digits(Some(*digits)))
            }
            // PostgreSQL takes the length, and does not look at it.
            DataType::Array(
                ast::ArrayElemTypeDef::SquareBracket(element, _) | ast::ArrayElemTypeDef::Qualified(element, _),
            ) => {
                let missing = |error: SqlError| match error.state() {
                    SqlState::UNDEFINED_OBJECT => error.replaced("\" does not", "[]\" does not"),
                    _ => error,
                };
                let of = self.type_of(element).map_err(missing)?;
                // Any number of brackets is one array type; of more dimensions than one it has no values here.
                if matches!(of.kind, Kind::Array(_)) {
                    return Ok(of);
                }
                let no_arrays = || SqlError::unsupported(format_args!("arrays of {}", of.name()));
                with(of.kind.array_of().ok_or_else(no_arrays)?, of.typmod)
            }
            DataType::Uuid => Ok(Kind::Uuid.into()),
            DataType::JSON => Ok(Kind::Json.into()),
            DataType::Regclass => Ok(Kind::Regclass.into()),
            DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => numeric(info),
            DataType::Custom(name, modifiers) if modifiers.is_empty() => {
                let parts = self.name_parts(name)?;
                let is_quoted =
                    name.0.last().is_some_and(|part| part.as_ident().is_some_and(|ident| ident.quote_style.is_some()));
                let named = match &parts[..] {
                    // `char` without quotes is another type.
                    [.., name] if is_quoted && name == "char" => Some(Kind::InternalChar),
                    [name] => Kind::from_name(name),
                    [schema, name] if schema == "pg_catalog" => Kind::from_name(name),
                    _ => None,
                };
                if let ([schema, _], None) = (&parts[..], named)
                    && schema != "pg_catalog"
                    && self.catalog.schema(schema).is_none()
                {
                    let message = format!("schema \"{schema}\" does not exist");
                    return Err(self.at_name(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message), name));
                }
                if let (None, [name] | [_, name]) = (named, &parts[..])
                    && Kind::is_foreign(name)
                {
                    return Err(SqlError::unsupported(format_args!("type {name}")));
                }
                named.map(SqlType::from).ok_or_else(|| {
                    let message = format!("type \"{}\" does not exist", parts.join("."));
                    self.at_name(SqlError::new(SqlState::UNDEFINED_OBJECT, message), name)
                })
            }
            other => Err(SqlError::unsupported(format_args!("type {other}"))),
        }
    }
}

/// Applies the modifier: rounds, pads, or refuses what is too long; an explicit cast cuts it off.
fn modified(expr: Expr, to: SqlType, context: Context) -> Expr {
    let eval = match context {
        Context::Explicit => |datum: &Datum, to: SqlType, _: &dyn CallContext| modifier::apply(datum.clone(), to, true),
        _ => |datum: &Datum, to: SqlType, _: &dyn CallContext| modifier::apply(datum.clone(), to, false),
    };
    Expr::Cast { eval, to, argument: Box::new(expr) }
}

/// The modifier of a type of time with so many digits of a second; more than 6 are 6.
fn second_digits(digits: Option<u64>) -> i32 {
    digits.map_or(-1, |digits| digits.min(6) as i32)
}

fn numeric(info: &ast::ExactNumberInfo) -> SqlResult<SqlType> {
    let (precision, scale) = match info {
        ast::ExactNumberInfo::None => return Ok(Kind::Numeric.into()),
        ast::ExactNumberInfo::Precision(precision) => (*precision as i64, 0),
        ast::ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision as i64, *scale),
    };
    if !(1..=1000).contains(&precision) {
        let message = format!("NUMERIC precision {precision} must be between 1 and 1000");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    if !(-1000..=1000).contains(&scale) {
        let message = format!("NUMERIC scale {scale} must be between -1000 and 1000");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(SqlType::numeric(precision as i32, scale as i32))
}

/// What `pg_type` calls a type: the name of a column that is a cast.
pub(crate) fn short_name(data_type: &ast::DataType) -> String {
    use ast::DataType;
    let name = match data_type {
        DataType::Bool | DataType::Boolean => "bool",
        DataType::SmallInt(_) | DataType::Int2(_) => "int2",
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => "int4",
        DataType::BigInt(_) | DataType::Int8(_) => "int8",
        DataType::Real | DataType::Float4 => "float4",
        DataType::Float8 | DataType::DoublePrecision | DataType::Double(_) | DataType::Float(_) => "float8",
        DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::CharVarying(_) => "varchar",
        DataType::Char(_) | DataType::Character(_) => "bpchar",
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => "numeric",
        DataType::Timestamp(_, ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz) => "timestamptz",
        DataType::Timestamp(..) => "timestamp",
        DataType::Time(..) => "time",
        DataType::Interval { .. } => "interval",
        // As the array's elements.
        DataType::Array(ast::ArrayElemTypeDef::SquareBracket(of, _) | ast::ArrayElemTypeDef::AngleBracket(of)) => {
            return short_name(of);
        }
        DataType::Custom(name, _) => {
            let last = name.0.last().and_then(ast::ObjectNamePart::as_ident);
            return last.map(syntax::parse::folded).unwrap_or_default();
        }
        other => return other.to_string().to_lowercase(),
    };
    name.to_owned()
}
