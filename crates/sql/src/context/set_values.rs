//! Values of settings, as statements write them.

use query::bind::Binder;
use settings::SEARCH_PATH;
use statement::error::{SqlError, SqlResult, SqlState};
use syntax::ast::{SetValue, ZoneValue};
use syntax::names::quoted_name;

/// Value of a setting, as text; `None` for its default.
///
/// PostgreSQL keeps a list as one text (`flatten_set_variable_args`), with names quoted where needed. A string
/// constant is one name, whatever it contains.
///
/// # Errors
/// `22023`: the setting takes no list.
pub(crate) fn value_of(name: &str, values: &[SetValue]) -> SqlResult<Option<String>> {
    let has_names = name.eq_ignore_ascii_case(SEARCH_PATH);
    if 1 < values.len() && !has_names && !name.eq_ignore_ascii_case("datestyle") {
        let message = format!("SET {name} takes only one argument");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let text = |value: &SetValue| match value {
        SetValue::Text(name) if has_names => quoted_name(name),
        SetValue::Text(value) | SetValue::Number(value) => value.to_string(),
    };
    Ok((!values.is_empty()).then(|| values.iter().map(text).collect::<Vec<_>>().join(", ")))
}

/// Value of `SET TIME ZONE`, as text; `None` for the default.
///
/// # Errors
/// Errors of an interval's value.
pub(crate) fn zone_value(binder: &Binder<'_>, zone: Option<&ZoneValue>) -> SqlResult<Option<String>> {
    Ok(match zone {
        None => None,
        Some(ZoneValue::Value(SetValue::Text(value) | SetValue::Number(value))) => Some(value.to_string()),
        Some(ZoneValue::Interval(interval)) => Some(binder.zone_interval(interval)?),
    })
}
