//! Types of literals, parameters and casts.

use super::{Binder, NameTarget};
use crate::plan::{Expr, Typed};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use syntax::ast::{self, Constant, ExprKind};
use types::datum::Datum;
use types::forms::Forms;
use types::ops::{self, CallContext, Callee, CastContext};
use types::{Kind, SqlType, modifier, text};

/// Equality comparison of operands of two types, as the operator `=` defines it. Every syntax for equality uses it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Equality {
    /// Comparison of both operands as values of this type.
    One(Kind),
    /// Comparison by an operator of two types, neither of which includes the other.
    Two,
}

/// Returns the equality comparison of operands of these types.
///
/// # Errors
/// Fails as the operator does: `42883`, `42725`.
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
        // Values of varchar are text, so two of them compare as such.
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

/// True if reading a value from text depends on DateStyle, TimeZone, IntervalStyle or the clock.
fn is_read_by_settings(kind: Kind) -> bool {
    match kind.element() {
        Some(element) => is_read_by_settings(element),
        None => {
            matches!(kind, Kind::Date | Kind::Time | Kind::Timestamp | Kind::Timestamptz | Kind::Interval)
        }
    }
}

impl Binder<'_> {
    /// Converts a value to a type, if `context` allows the cast.
    ///
    /// # Errors
    /// Fails with `42846` or `42804` without a position, which depends on the purpose of the cast. An invalid literal
    /// is an error with a position.
    pub fn coerce(&self, typed: Typed, to: SqlType, context: CastContext) -> SqlResult<Typed> {
        let place = typed.place;
        self.coerced(typed, to, context).map(|typed| typed.at(place))
    }

    /// Converts a default to the type of its column. A literal of the type that exceeds the column's length is accepted
    /// here; the error is raised when the default is used.
    ///
    /// # Errors
    /// Fails as [`Binder::coerce`] does.
    pub fn coerce_default(&self, typed: Typed, to: SqlType) -> SqlResult<Typed> {
        let is_literal = matches!((typed.kind.kind, &typed.expr), (Kind::Unknown, Expr::Constant(Datum::Text(_))));
        // The modifier of an interval decides how the literal is read, so it cannot be applied later.
        if !is_literal || to.typmod < 0 || to.kind == Kind::Interval {
            return self.coerce(typed, to, CastContext::Assignment);
        }
        let value = self.coerce(typed, to.kind.into(), CastContext::Assignment)?;
        if let Expr::Constant(constant) = &value.expr
            && let Ok(fitted) = modifier::apply(constant.clone(), to, false)
        {
            return Ok(Typed { expr: Expr::Constant(fitted), kind: to, ..value });
        }
        self.coerce(value, to, CastContext::Assignment)
    }

    fn coerced(&self, typed: Typed, to: SqlType, context: CastContext) -> SqlResult<Typed> {
        let (from, place) = (typed.kind, typed.place);
        if from.kind == Kind::Unknown {
            match typed.expr {
                Expr::Constant(Datum::Null) => return Ok(Typed::new(typed.expr, to)),
                Expr::Constant(Datum::Text(name))
                    if to.kind == Kind::Regclass
                        && name.bytes().any(|byte| !byte.is_ascii_digit())
                        && let Ok(relation) = self.catalog.relation_written(self.path, &name) =>
                {
                    self.check_written_usage(&name).map_err(|error| self.at_place(error, place))?;
                    self.note(place, || NameTarget::Literal(relation.oid()));
                    return Ok(Typed::new(Expr::Constant(Datum::Oid(relation.oid())), to));
                }
                Expr::Constant(Datum::Text(text)) => {
                    // An explicit cast truncates a long string, while the type's input function would refuse it.
                    let element = to.element().map_or(to.kind, |element| element.kind);
                    let is_cut = context == CastContext::Explicit && matches!(element, Kind::Varchar | Kind::Bpchar);
                    let read_as = if is_cut { to.kind.into() } else { to };
                    let value = text::input(&text, read_as, self.env.forms());
                    let expr = Expr::Constant(value.map_err(|error| {
                        // As in PostgreSQL, an invalid value is an error with a position, and a violated modifier one
                        // without.
                        match text::input(&text, to.kind.into(), self.env.forms()) {
                            Ok(_) if to.kind != Kind::Interval => error.nowhere(),
                            _ => self.at_place(error, place),
                        }
                    })?);
                    if let (true, Expr::Constant(datum)) = (is_read_by_settings(to.kind), &expr) {
                        let mut plain = String::new();
                        text::output(datum, read_as, &Forms::default(), &mut plain);
                        if *plain != *text {
                            self.note(place, || NameTarget::Moment(plain));
                        }
                    }
                    if let (Kind::Regclass, Expr::Constant(Datum::Oid(oid))) = (to.kind, &expr) {
                        self.note(place, || NameTarget::Literal(*oid));
                    }
                    return if is_cut {
                        self.coerce(Typed::new(expr, read_as), to, context)
                    } else {
                        Ok(Typed::new(expr, to))
                    };
                }
                // A target of unknown type tells nothing about the parameter.
                Expr::Parameter(_) if to.kind == Kind::Unknown => return Ok(typed),
                Expr::Parameter(at) => {
                    let known = self.parameters.borrow_mut()[at].replace(to.kind.into());
                    if let Some(known) = known.filter(|known| ![Kind::Unknown, to.kind].contains(&known.kind)) {
                        let message = format!("inconsistent types deduced for parameter ${}", at + 1);
                        let error = SqlError::new(SqlState::AMBIGUOUS_PARAMETER, message).detail(format!(
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
                // A cast to the type alone keeps the value and drops the modifier.
                return Ok(Typed { kind: to, ..typed });
            }
            return Ok(Typed::new(modified(typed.expr, to, context), to));
        }
        if from.kind == Kind::Varchar && to.kind == Kind::Text {
            // The values are the same, and a cast node would keep the column from matching its index.
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

    /// Converts an expression to a condition.
    pub fn condition(&self, typed: Typed, of: &str) -> SqlResult<Expr> {
        if !matches!(typed.kind.kind, Kind::Bool | Kind::Unknown) {
            let message = format!("argument of {of} must be type boolean, not type {}", typed.kind.name());
            return Err(self.at_place(SqlError::new(SqlState::DATATYPE_MISMATCH, message), typed.place));
        }
        self.coerce(typed, Kind::Bool.into(), CastContext::Implicit).map(|typed| typed.expr)
    }

    /// Converts all values to a common type, by the rules of `UNION` and `CASE`.
    pub fn common(&self, all: Vec<Typed>, of: &str) -> SqlResult<(Vec<Expr>, SqlType)> {
        let kinds: Vec<Kind> = all.iter().map(|typed| typed.kind.kind).collect();
        let kind = ops::common_kind_of(&kinds, of).map_err(|(at, error)| self.at_place(error, all[at].place))?;
        let same = all.first().map(|typed| typed.kind).filter(|kind| all.iter().all(|typed| typed.kind == *kind));
        let to = same.filter(|same| same.kind == kind).unwrap_or_else(|| kind.into());
        let coerced = all.into_iter().map(|typed| {
            statement::pulse::tick(32)?;
            Ok(self.coerce(typed, to, CastContext::Implicit)?.expr)
        });
        Ok((coerced.collect::<SqlResult<_>>()?, to))
    }

    /// Binds the call of an operator.
    pub fn operator(&self, name: &str, left: Option<Typed>, right: Typed) -> SqlResult<Typed> {
        let operator = ops::resolve_operator(name, left.as_ref().map(|left| left.kind.kind), right.kind.kind)?.operator;
        let mut arguments = Vec::with_capacity(2);
        for (argument, to) in left.into_iter().zip(operator.left).chain([(right, operator.right)]) {
            arguments.push(self.argument(argument, to)?);
        }
        let expr = Expr::Call { callee: Callee::Operator(operator), arguments };
        Ok(Typed::new(expr, operator.result))
    }

    /// Converts an argument of a function or operator, whose modifier is irrelevant.
    pub fn argument(&self, argument: Typed, to: Kind) -> SqlResult<Expr> {
        self.coerce(argument, to.into(), CastContext::Implicit).map(|typed| typed.expr)
    }

    /// Checks that a type has an equality operator.
    ///
    /// # Errors
    /// Fails with `42883` if it has none.
    pub(crate) fn groupable(&self, kind: Kind) -> SqlResult<Kind> {
        if ops::is_comparable(kind) {
            return Ok(kind);
        }
        let message = format!("could not identify an equality operator for type {}", SqlType::from(kind).name());
        Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
    }

    /// Checks that a type has an ordering operator.
    ///
    /// # Errors
    /// Fails with `42883` if it has none.
    pub fn comparable(&self, kind: Kind) -> SqlResult<Kind> {
        if ops::is_comparable(kind) {
            return Ok(kind);
        }
        let message = format!("could not identify an ordering operator for type {}", SqlType::from(kind).name());
        Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
            .hint("Use an explicit ordering operator or modify the query."))
    }

    /// Returns the type that a statement names.
    ///
    /// # Errors
    /// Fails with the name's position and `42704`, `3F000`, `22023` or `42601`, or with `0A000` for a type of
    /// PostgreSQL's that is not supported.
    pub fn type_of(&self, name: &ast::TypeName) -> SqlResult<SqlType> {
        self.type_somewhere(name).map_err(|error| self.at_place(error, name.span))
    }

    fn type_somewhere(&self, name: &ast::TypeName) -> SqlResult<SqlType> {
        refuse!(
            name.is_set => "SETOF",
            name.is_of_column => "%TYPE",
            name.fields.is_some() => "an interval of these fields",
        );
        let kind = self.kind_of(name)?;
        let typmod = self.typmod_of(kind, name)?;
        // PostgreSQL ignores the bounds and the number of dimensions, so any number of brackets names one array type.
        // Arrays of several dimensions are not supported as values.
        if name.dimensions.is_empty() || matches!(kind, Kind::Array(_)) {
            return Ok(SqlType { kind, typmod });
        }
        let of = SqlType { kind, typmod };
        let no_arrays = || SqlError::unsupported(format_args!("arrays of {}", of.name()));
        Ok(SqlType { kind: kind.array_of().ok_or_else(no_arrays)?, typmod })
    }

    /// Returns the type of a name without its brackets.
    fn kind_of(&self, name: &ast::TypeName) -> SqlResult<Kind> {
        let (schema, own) = match &name.name.parts[..] {
            [own] => (None, Some(own)),
            [schema, own] => (Some(schema), Some(own)),
            _ => (None, None),
        };
        let is_system = schema.is_none_or(|schema| &**schema == types::PG_CATALOG);
        if let Some(kind) = own.filter(|_| is_system).and_then(|own| kind_named(own)) {
            return Ok(kind);
        }
        if let Some(schema) = schema.filter(|_| !is_system)
            && self.catalog.schema(schema).is_none()
        {
            let message = format!("schema \"{schema}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
        }
        if let Some(own) = own
            && Kind::is_foreign(own)
        {
            return Err(SqlError::unsupported(format_args!("type {own}")));
        }
        let message = format!("type \"{}\" does not exist", said(name));
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
    }

    /// Returns the modifier of a type; -1 without one.
    fn typmod_of(&self, kind: Kind, name: &ast::TypeName) -> SqlResult<i32> {
        if name.modifiers.is_empty() {
            return Ok(-1);
        }
        let of = match kind {
            Kind::Varchar => "varchar",
            Kind::Bpchar => "char",
            Kind::Numeric => "NUMERIC",
            Kind::Time => "TIME",
            Kind::Timestamp | Kind::Timestamptz => "TIMESTAMP",
            Kind::Interval => "INTERVAL",
            _ => {
                let message = format!("type modifier is not allowed for type \"{}\"", said(name));
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        let numbers = name.modifiers.iter().map(|one| self.type_modifier(one)).collect::<SqlResult<Vec<i32>>>()?;
        let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        match (kind, &numbers[..]) {
            (Kind::Varchar | Kind::Bpchar, [length]) => string_length(*length, of),
            (Kind::Numeric, [precision]) => numeric(*precision, 0),
            (Kind::Numeric, [precision, scale]) => numeric(*precision, *scale),
            (Kind::Numeric, _) => Err(invalid("invalid NUMERIC type modifier".to_owned())),
            (Kind::Time | Kind::Timestamp | Kind::Timestamptz | Kind::Interval, [digits]) => {
                if *digits < 0 {
                    let zone = if kind == Kind::Timestamptz { " WITH TIME ZONE" } else { "" };
                    return Err(invalid(format!("{of}({digits}){zone} precision must not be negative")));
                }
                let digits = (*digits).min(MAX_PRECISION);
                Ok(if kind == Kind::Interval { ALL_FIELDS << 16 | digits } else { digits })
            }
            (Kind::Interval, _) => Err(invalid("invalid INTERVAL type modifier".to_owned())),
            _ => Err(invalid("invalid type modifier".to_owned())),
        }
    }

    /// Returns the value of a type modifier. Like PostgreSQL, it reads constants and names alike.
    fn type_modifier(&self, modifier: &ast::Expr) -> SqlResult<i32> {
        let text = match &modifier.kind {
            ExprKind::Constant(Constant::Integer(number)) => return Ok(*number),
            ExprKind::Constant(Constant::Number(text) | Constant::Text(text)) => &**text,
            ExprKind::Column(name) if let [only] = &name.parts[..] => &**only,
            _ => {
                let message = "type modifiers must be simple constants or identifiers";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        match text::input(text, Kind::Int4.into(), self.env.forms())? {
            Datum::Int4(number) => Ok(number),
            _ => Err(SqlError::unsupported(format_args!("the type modifier {text}"))),
        }
    }
}

/// Maximal number of fractional digits of seconds; larger precisions mean this one.
pub(super) const MAX_PRECISION: i32 = 6;

/// Mask of an interval's modifier that keeps all fields (`INTERVAL_FULL_RANGE`).
const ALL_FIELDS: i32 = 0x7fff;

/// Maximal length of character strings (`MaxAttrSize`).
const LENGTH_MAX: i32 = 10_485_760;

/// Returns the type with this name in `pg_type.typname`.
fn kind_named(name: &str) -> Option<Kind> {
    match name.strip_prefix('_') {
        Some(element) => kind_named(element)?.array_of(),
        // Only the quoted name reaches this point: `char` as a keyword is `bpchar`.
        None if name == "char" => Some(Kind::InternalChar),
        None => Kind::from_name(name).filter(|kind| kind.type_name() == name),
    }
}

/// Returns a type's name for error messages.
fn said(name: &ast::TypeName) -> String {
    format!("{}{}", name.name, if name.dimensions.is_empty() { "" } else { "[]" })
}

/// Returns the modifier of a string type with this maximal length.
fn string_length(length: i32, of: &str) -> SqlResult<i32> {
    let message = match length {
        1..=LENGTH_MAX => return Ok(length + 4),
        ..=0 => format!("length for type {of} must be at least 1"),
        _ => format!("length for type {of} cannot exceed {LENGTH_MAX}"),
    };
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

/// Applies a type modifier: rounds, pads, or refuses what is too long, which an explicit cast truncates.
fn modified(expr: Expr, to: SqlType, context: CastContext) -> Expr {
    let eval = match context {
        CastContext::Explicit => {
            |datum: &Datum, to: SqlType, _: &dyn CallContext| modifier::apply(datum.clone(), to, true)
        }
        CastContext::Implicit | CastContext::Assignment => {
            |datum: &Datum, to: SqlType, _: &dyn CallContext| modifier::apply(datum.clone(), to, false)
        }
    };
    Expr::Cast { eval, to, argument: Box::new(expr) }
}

/// Returns the modifier of `numeric`.
fn numeric(precision: i32, scale: i32) -> SqlResult<i32> {
    if !(1..=1000).contains(&precision) {
        let message = format!("NUMERIC precision {precision} must be between 1 and 1000");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    if !(-1000..=1000).contains(&scale) {
        let message = format!("NUMERIC scale {scale} must be between -1000 and 1000");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(SqlType::numeric(precision, scale).typmod)
}

/// Returns the column name of a cast: the name of the type, or of an array's element type, in `pg_type`.
pub(crate) fn short_name(name: &ast::TypeName) -> String {
    name.name.parts.last().map(ast::Name::to_string).unwrap_or_default()
}
