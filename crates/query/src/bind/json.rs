//! JSON of values of any type, including rows: `json_build_object`, `json_build_array`, `to_json`, `row_to_json`,
//! `json_agg`.
//!
//! **Invariant:** each argument is converted to JSON by its own type before the function sees it, because the table of
//! functions has no type for "any".

use super::subquery::is_row;
use super::{Binder, NameScope};
use crate::plan::ColumnInfo;
use crate::plan::{Expr, Plan, SetCall, SetFunction, Typed};
use crate::rewrite::lifted;
use statement::error::{SqlError, SqlResult, SqlState};
use syntax::ast::{self, ExprKind};
use types::datum::Datum;
use types::ops::CastContext;
use types::{Element, Kind};

impl Binder<'_> {
    /// Binds a call of `json_build_object` or `json_build_array`.
    pub(super) fn json_call(&self, name: &str, arguments: &[&ast::Expr], scope: &NameScope<'_>) -> SqlResult<Typed> {
        let is_object = name == "json_build_object";
        if is_object && arguments.len() % 2 == 1 {
            let message = "argument list must have even number of elements";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .hint("The arguments of json_build_object() must consist of alternating keys and values.")
                .nowhere());
        }
        let mut parts = Vec::with_capacity(arguments.len());
        for (at, argument) in arguments.iter().enumerate() {
            let is_key = is_object && at % 2 == 0;
            parts.push(match is_key {
                true => self.json_key(self.expr(argument, scope)?)?,
                false => self.json_argument(argument, scope)?.0,
            });
        }
        let made = match name {
            "json_build_object" if parts.is_empty() => constant("{}"),
            "json_build_array" if parts.is_empty() => constant("[]"),
            _ => self.call(if is_object { "json_object_of" } else { "json_array_of" }, parts)?,
        };
        Ok(Typed { kind: Kind::Json.into(), ..made })
    }

    /// Converts a value to JSON as text; null stays null.
    fn json_value(&self, argument: Typed) -> SqlResult<Typed> {
        match argument.kind.kind {
            Kind::Json | Kind::Bool | Kind::Int2 | Kind::Int4 | Kind::Int8 => {
                self.coerce(argument, Kind::Text.into(), CastContext::Explicit)
            }
            Kind::Numeric | Kind::Float4 | Kind::Float8 => self.json_text(argument, "json_number"),
            Kind::Date | Kind::Timestamp | Kind::Timestamptz => self.call("json_moment", vec![argument]),
            Kind::Array(element) => self.json_array(argument, element.kind()),
            Kind::Int2Vector | Kind::OidVector => {
                Err(SqlError::unsupported(format_args!("JSON of {}", argument.kind.name())))
            }
            _ => self.json_text(argument, "json_string"),
        }
    }

    /// Converts an array to JSON by a subquery over its elements.
    fn json_array(&self, array: Typed, element: Kind) -> SqlResult<Typed> {
        self.once([array], |binder, [array]| binder.json_array_of(array, element))
    }

    fn json_array_of(&self, array: Typed, element: Kind) -> SqlResult<Typed> {
        let is_null = Expr::IsNull(Box::new(array.expr.clone()));
        let item = self.json_value(Typed::new(Expr::Column(0), element))?;
        let calls = vec![SetCall { function: SetFunction::Unnest, arguments: vec![lifted(array.expr)?] }];
        let input = Box::new(Plan::Sets { input: Box::new(Plan::Unit), calls });
        let items = Plan::Project { input, columns: vec![item.expr] };
        let texts = Typed::new(Expr::ArrayQuery(Box::new(items)), Kind::Array(Element::Text));
        let made = self.call("json_items", vec![texts])?;
        let nothing = Expr::Constant(Datum::Null);
        let expr = Expr::Case { whens: vec![(is_null, nothing)], otherwise: Box::new(made.expr) };
        Ok(Typed::new(expr, made.kind))
    }

    /// Returns the columns of a row: of `ROW(...)`, or of a relation that is named as a value.
    fn record(&self, expr: &ast::Expr, scope: &NameScope<'_>) -> SqlResult<Option<Vec<(String, Typed)>>> {
        if is_row(expr) {
            let values = self.row_values(expr, scope)?;
            return Ok(Some(values.into_iter().enumerate().map(|(at, one)| (format!("f{}", at + 1), one)).collect()));
        }
        let ExprKind::Column(ast::ObjectName { parts }) = &expr.kind else { return Ok(None) };
        let [name] = &parts[..] else { return Ok(None) };
        // A column with this name takes precedence over a relation.
        if scope.relations.iter().any(|one| one.is_open && one.columns.iter().any(|column| column.name == **name)) {
            return Ok(None);
        }
        let Some(relation) = scope.relations.iter().find(|one| one.is_named && !one.is_value && one.alias == **name)
        else {
            return Ok(None);
        };
        self.is_one(&super::columns::Qualifier::Alias(name.to_string()), scope, name)?;
        let values = relation.columns.iter().zip(&relation.values);
        let value = |(column, value): (&ColumnInfo, &Expr)| {
            if let Expr::Column(slot) = value {
                scope.uses.borrow_mut().push((*slot, name.span));
            }
            self.note_reads(value, scope);
            (column.name.clone(), Typed::new(value.clone(), column.kind))
        };
        Ok(Some(values.map(value).collect()))
    }

    /// Converts an argument to JSON as text, and tells whether it is an array or a row. Only here may rows be values.
    pub(super) fn json_argument(&self, expr: &ast::Expr, scope: &NameScope<'_>) -> SqlResult<(Typed, bool)> {
        let Some(record) = self.record(expr, scope)? else {
            let value = self.expr(expr, scope)?;
            let is_array = matches!(value.kind.kind, Kind::Array(_));
            return Ok((self.json_value(value)?, is_array));
        };
        let mut parts = Vec::with_capacity(2 * record.len());
        for (name, value) in record {
            parts.push(self.json_text(constant(&name), "json_key")?);
            parts.push(self.json_value(value)?);
        }
        Ok((if parts.is_empty() { constant("{}") } else { self.call("json_record_of", parts)? }, true))
    }

    /// Binds `row_to_json`, `array_to_json` or `to_json` with one argument.
    pub(super) fn json_of(&self, name: &str, args: &[&ast::Expr], scope: &NameScope<'_>) -> SqlResult<Typed> {
        let [arg] = args else {
            if args.is_empty() {
                return Err(super::functions::no_function(name, &[]));
            }
            let message = format!("function {name} takes one argument here");
            return Err(SqlError::unsupported(message));
        };
        let (made, is_structured) = self.json_argument(arg, scope)?;
        if !is_structured && name != "to_json" {
            return Err(super::functions::no_function(name, &[self.expr(arg, scope)?]));
        }
        Ok(Typed { kind: Kind::Json.into(), ..made })
    }

    /// Converts the key of an object's member to JSON.
    pub(super) fn json_key(&self, key: Typed) -> SqlResult<Typed> {
        match key.kind.kind {
            // Keys use ISO 8601, as values do.
            Kind::Date | Kind::Timestamp | Kind::Timestamptz => self.call("json_moment", vec![key]),
            Kind::Array(_) | Kind::Json | Kind::Int2Vector | Kind::OidVector => {
                let message = "key value must be scalar, not array, composite, or json";
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).nowhere())
            }
            _ => self.json_text(key, "json_key"),
        }
    }

    fn json_text(&self, argument: Typed, function: &str) -> SqlResult<Typed> {
        // A cast to text would strip the trailing blanks of char(n).
        let text = if argument.kind.kind == Kind::Bpchar {
            Typed::new(self.shown(argument)?, Kind::Text)
        } else {
            self.coerce(argument, Kind::Text.into(), CastContext::Explicit)?
        };
        self.call(function, vec![text])
    }
}

fn constant(text: &str) -> Typed {
    Typed::new(Expr::Constant(Datum::text(text)), Kind::Text)
}
