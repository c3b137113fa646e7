//! Functions that query the catalog, as entries of the function table.
//!
//! **Invariant:** results are those of the catalog that the statement sees, and NULL for objects that do not exist.

use super::{definitions, pg_type, reg, routines, text};
use crate::context::Env;
use catalog::rights::role_named;
use catalog::{CatalogSnapshot, Relation, Routine};
use locked::Locked;
use statement::error::{SqlError, SqlResult, SqlState};
use std::any::Any;
use std::sync::LazyLock;
use syntax::names::NAME_MAX;
use types::datum::Datum;
use types::ops::get::{boolean, int, items, text as words};
use types::ops::{CallContext, Eval, Function, FunctionTable};
use types::{Element, Kind};

pub(super) fn line(
    name: &'static str,
    arguments: &'static [Kind],
    result: Kind,
    eval: types::ops::context::ContextFunction,
) -> Function {
    Function { strict: true, ..types::ops::line_in(name, arguments, result, eval) }
}

/// Returns the session of a call.
pub(super) fn session(context: &dyn CallContext) -> SqlResult<&Env> {
    let session = (context as &dyn Any).downcast_ref::<Env>();
    session.ok_or_else(|| SqlError::unsupported("a function of the session here"))
}

/// Returns the catalog of a call's statement.
pub(super) fn snapshot(context: &dyn CallContext) -> SqlResult<&CatalogSnapshot> {
    let snapshot = session(context)?.catalog_snapshot.as_deref();
    snapshot.ok_or_else(|| SqlError::unsupported("a function of the catalog here"))
}

/// Returns the table of all functions that statements may call.
pub(crate) fn all_functions() -> &'static FunctionTable {
    static TABLE: LazyLock<FunctionTable> = LazyLock::new(|| FunctionTable::with(functions()));
    &TABLE
}

pub(super) fn number(value: &Datum) -> SqlResult<u32> {
    int(value).map(|number| number as u32)
}

/// Returns the value of an optional argument, 0 by default.
pub(super) fn integer(value: Option<&Datum>) -> SqlResult<i64> {
    value.map_or(Ok(0), int)
}

/// Returns the value of an optional argument, false by default.
fn is_true(value: Option<&Datum>) -> SqlResult<bool> {
    value.map_or(Ok(false), boolean)
}

fn or_null(value: Option<String>) -> SqlResult<Datum> {
    Ok(value.map_or(Datum::Null, Datum::text))
}

/// Returns the comment on an object, or on a column of it.
fn comment(env: &dyn CallContext, of: u32, column: i64) -> SqlResult<Datum> {
    let snapshot = snapshot(env)?;
    let usual = snapshot.state.schema_numbered(of).filter(|schema| schema.name == catalog::PUBLIC && column == 0);
    let said = snapshot.state.comment(of, column as i16).or(usual.map(|_| "standard public schema"));
    or_null(said.or_else(|| own_comment(snapshot, of, column)).map(str::to_owned))
}

/// Returns the description of a table of the schema `overtake`, or of one of its columns.
fn own_comment(snapshot: &CatalogSnapshot, of: u32, column: i64) -> Option<&'static str> {
    let table = catalog::system::provided(Some(snapshot)).find(|table| table.oid == of)?;
    match usize::try_from(column).ok()?.checked_sub(1) {
        None => table.about,
        Some(at) => table.columns.get(at)?.about,
    }
}

fn describe(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let of = number(&args[0])?;
    let is_of = match args.get(1).map(words).transpose()? {
        None | Some("pg_class") => {
            let snapshot = snapshot(env)?;
            snapshot.state.relation_numbered(of).is_some()
                || snapshot.state.routine_numbered(of).is_some() && args.len() < 2
                || own_comment(snapshot, of, 0).is_some()
        }
        Some("pg_constraint") => {
            snapshot(env)?.state.tables().any(|table| table.constraints.iter().any(|constraint| constraint.oid == of))
        }
        Some("pg_proc") if snapshot(env)?.state.routine_numbered(of).is_some() => true,
        Some("pg_namespace") => snapshot(env)?.state.schema_numbered(of).is_some(),
        Some(_) => false,
    };
    if is_of {
        return comment(env, of, 0);
    }
    or_null(pg_type::description(args.get(1).map(words).transpose()?, of).map(str::to_owned))
}

fn is_visible(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let (snapshot, of) = (snapshot(env)?, number(&args[0])?);
    let Some((_, name)) = reg::relation_name(snapshot, of) else { return Ok(Datum::Null) };
    Ok(Datum::Bool(reg::relation_by_path(snapshot, &name) == Some(of)))
}

/// Returns the existing schemas of the search path, with the implicit ones if `implied`.
fn schemas(env: &dyn CallContext, implied: bool) -> SqlResult<Vec<String>> {
    let snapshot = snapshot(env)?;
    let own = snapshot.path.iter().filter(|name| reg::schema_number(snapshot, name).is_some()).cloned().collect();
    Ok(if implied {
        reg::search_path(snapshot)
            .filter(|name| reg::schema_number(snapshot, name).is_some())
            .map(str::to_owned)
            .collect()
    } else {
        own
    })
}

fn serial_sequence(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let snapshot = snapshot(env)?;
    let of = reg::relation_number(snapshot, words(&args[0])?)?;
    let column = words(&args[1])?;
    let Some(table) = snapshot.state.table_numbered(of) else { return Ok(Datum::Null) };
    let Some(at) = table.column(column) else {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
    };
    let wanted = Some((of, table.columns[at].number));
    let sequence = snapshot.state.sequences().find(|sequence| sequence.owned_by == wanted);
    let name = sequence.and_then(|sequence| reg::relation_name(snapshot, sequence.oid));
    or_null(name.map(|(schema, name)| format!("{}.{}", super::quoted(&schema), super::quoted(&name))))
}

/// Returns the OID of a named relation, or NULL if it does not exist.
fn relation_or_null(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let (snapshot, name) = (snapshot(env)?, words(&args[0])?);
    reg::check_usage(snapshot, role_named(&snapshot.roles, env.user()), name)?;
    match reg::relation_number(snapshot, name) {
        Ok(number) => Ok(Datum::Oid(number)),
        Err(error) if error.state() == SqlState::UNDEFINED_TABLE => Ok(Datum::Null),
        Err(error) => Err(error),
    }
}

fn named_or_null(kind: Kind, args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    match types::text::input(words(&args[0])?, kind.into(), env.forms()) {
        Ok(number) => Ok(number),
        Err(error) if error.state() == SqlState::INSUFFICIENT_PRIVILEGE => Err(error),
        Err(error) if matches!(error.state().class(), "42" | "3F") => Ok(Datum::Null),
        Err(error) => Err(error),
    }
}

/// Returns the name of an encoding by PostgreSQL's number, if it has one here.
fn encoding(args: &[Datum], _: &dyn CallContext) -> SqlResult<Datum> {
    Ok(text(match integer(args.first())? {
        0 => "SQL_ASCII",
        6 => "UTF8",
        8 => "LATIN1",
        _ => "",
    }))
}

fn index_definition(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    or_null(definitions::index(snapshot(env)?, number(&args[0])?, integer(args.get(1))?, is_true(args.get(2))?))
}

fn constraint_definition(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    or_null(definitions::constraint(snapshot(env)?, session(env)?, number(&args[0])?, is_true(args.get(1))?)?)
}

/// Executes `pg_get_expr`. The stored text is the one to show; the pretty form has fewer parentheses.
fn expression(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let pretty = is_true(args.get(2))?;
    if !pretty {
        return Ok(args[0].clone());
    }
    let state = &snapshot(env)?.state;
    let Some(table) = state.table_numbered(number(&args[1])?) else { return Ok(args[0].clone()) };
    for column in &table.columns {
        if let Some(default) = &column.default
            && super::deparse::default(snapshot(env)?, session(env)?, column, default, false)? == words(&args[0])?
        {
            return Ok(text(super::deparse::default(snapshot(env)?, session(env)?, column, default, true)?));
        }
    }
    Ok(args[0].clone())
}

fn view_definition(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let snapshot = snapshot(env)?;
    let of = match &args[0] {
        Datum::Text(name) => reg::relation_number(snapshot, name)?,
        other => number(other)?,
    };
    // A column width for wrapping implies the pretty form.
    let pretty = matches!(args.get(1), Some(Datum::Bool(true) | Datum::Int4(_)));
    or_null(definitions::view(snapshot, session(env)?, of, pretty)?)
}

/// Returns the last value of a sequence, NULL if none was taken.
fn last_value(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let of = number(&args[0])?;
    match snapshot(env)?.state.relation_numbered(of) {
        Some(Relation::Sequence(sequence)) => {
            let value = *sequence.value.locked();
            Ok(if value.is_called { Datum::Int8(value.last) } else { Datum::Null })
        }
        Some(other) => {
            let message = format!("\"{}\" is not a sequence", other.name());
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
        None => Err(SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation with OID {of} does not exist"))),
    }
}

fn user(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let of = number(&args[0])?;
    let name = super::server::role_name(snapshot(env)?, of);
    Ok(text(name.unwrap_or_else(|| format!("unknown (OID={of})"))))
}

fn format_type(args: &[Datum], _: &dyn CallContext) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let modifier = match args.get(1) {
        None | Some(Datum::Null) => None,
        modifier => Some(integer(modifier)? as i32),
    };
    Ok(text(types::regtype::type_name(number(&args[0])?, modifier)))
}

fn kind_of(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let there = matches!(snapshot(env)?.state.relation_numbered(number(&args[0])?), Some(Relation::Table(_)));
    Ok(Datum::Bool(there))
}

/// Returns what a function says about a user's routine; NULL for an OID of none.
fn of_routine(
    args: &[Datum],
    context: &dyn CallContext,
    say: impl FnOnce(&CatalogSnapshot, &Env, &Routine) -> SqlResult<Option<String>>,
) -> SqlResult<Datum> {
    let snapshot = snapshot(context)?;
    match snapshot.state.routine_numbered(number(&args[0])?) {
        Some(routine) => or_null(say(snapshot, session(context)?, routine)?),
        None => Ok(Datum::Null),
    }
}

fn function_arguments(args: &[Datum], env: &dyn CallContext, has_defaults: bool) -> SqlResult<Datum> {
    match pg_type::function_types(number(&args[0])?) {
        Some((_, arguments)) => Ok(text(arguments)),
        None => {
            of_routine(args, env, |snapshot, env, of| routines::arguments(snapshot, env, of, has_defaults).map(Some))
        }
    }
}

/// Executes `nameconcatoid`: a name with a number behind it, cut to the greatest length of names.
pub(super) fn numbered_name(name: &str, number: u32) -> String {
    let end = format!("_{number}");
    let mut start = name;
    while NAME_MAX < start.len() + end.len() {
        start = &start[..start.floor_char_boundary(start.len() - 1)];
    }
    format!("{start}{end}")
}

fn functions() -> Vec<Function> {
    use Kind::{
        Bool, Int2, Int4, Int8, Name, Oid, Regclass, Regnamespace, Regproc, Regprocedure, Regrole, Regtype, Text,
    };
    const NAMES: Kind = Kind::Array(Element::Name);
    let lenient = |function: Function| Function { strict: false, ..function };
    let mut all = vec![
        line("pg_get_indexdef", &[Oid], Text, index_definition),
        line("pg_get_indexdef", &[Oid, Int4, Bool], Text, index_definition),
        line("pg_get_constraintdef", &[Oid], Text, constraint_definition),
        line("pg_get_constraintdef", &[Oid, Bool], Text, constraint_definition),
        line("pg_get_expr", &[Text, Oid], Text, expression),
        line("pg_get_expr", &[Text, Oid, Bool], Text, expression),
        line("pg_get_viewdef", &[Oid], Text, view_definition),
        line("pg_get_viewdef", &[Oid, Bool], Text, view_definition),
        line("pg_get_viewdef", &[Oid, Int4], Text, view_definition),
        line("pg_get_viewdef", &[Text], Text, view_definition),
        line("pg_get_viewdef", &[Text, Bool], Text, view_definition),
        line("pg_get_ruledef", &[Oid], Text, |_, _| Ok(Datum::Null)),
        line("pg_get_ruledef", &[Oid, Bool], Text, |_, _| Ok(Datum::Null)),
        line("pg_get_triggerdef", &[Oid], Text, |_, _| Ok(Datum::Null)),
        line("pg_get_triggerdef", &[Oid, Bool], Text, |_, _| Ok(Datum::Null)),
        line("pg_get_partkeydef", &[Oid], Text, |_, _| Ok(Datum::Null)),
        line("pg_get_statisticsobjdef_columns", &[Oid], Text, |_, _| Ok(Datum::Null)),
        line("pg_get_functiondef", &[Oid], Text, |a, env| {
            of_routine(a, env, |snapshot, env, of| routines::definition(snapshot, env, of).map(Some))
        }),
        line("pg_get_function_result", &[Oid], Text, |a, env| match pg_type::function_types(number(&a[0])?) {
            Some((result, _)) => Ok(text(result)),
            None => of_routine(a, env, routines::result),
        }),
        line("pg_get_function_arguments", &[Oid], Text, |a, env| function_arguments(a, env, true)),
        line("pg_get_function_identity_arguments", &[Oid], Text, |a, env| function_arguments(a, env, false)),
        line("pg_get_function_arg_default", &[Oid, Int4], Text, |a, env| {
            let at = integer(a.get(1))?;
            of_routine(a, env, |snapshot, env, of| routines::argument_default(snapshot, env, of, at))
        }),
        line("pg_get_serial_sequence", &[Text, Text], Text, serial_sequence),
        line("pg_get_userbyid", &[Oid], Name, user),
        lenient(line("format_type", &[Oid, Int4], Text, format_type)),
        line("obj_description", &[Oid, Name], Text, describe),
        line("obj_description", &[Oid], Text, describe),
        line("col_description", &[Oid, Int4], Text, |a, env| comment(env, number(&a[0])?, integer(a.get(1))?)),
        line("shobj_description", &[Oid, Name], Text, |a, _| {
            let of_database = number(&a[0])? == 5 && words(&a[1])? == "pg_database";
            Ok(if of_database { text("default administrative connection database") } else { Datum::Null })
        }),
        line("pg_char_to_encoding", &[Name], Int4, |a, _| {
            let plain: String = words(&a[0])?.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
            Ok(Datum::Int4(match plain.as_str() {
                "sqlascii" => 0,
                "utf8" | "unicode" => 6,
                "latin1" | "iso88591" => 8,
                _ => -1,
            }))
        }),
        line("pg_get_function_sqlbody", &[Oid], Text, |a, env| of_routine(a, env, |_, _, of| Ok(routines::body(of)))),
        line("pg_encoding_to_char", &[Int4], Name, encoding),
        line("pg_tablespace_location", &[Oid], Text, |_, _| Ok(text(""))),
        line("pg_relation_is_publishable", &[Regclass], Bool, kind_of),
        // Partitions do not exist here. The binder turns the array into rows.
        line("pg_partition_ancestors", &[Regclass], Kind::Array(Element::Oid), |_, _| Ok(super::array([]))),
        line("pg_is_other_temp_schema", &[Oid], Bool, |_, _| Ok(Datum::Bool(false))),
        line("pg_my_temp_schema", &[], Oid, |_, _| Ok(Datum::Oid(0))),
        line("pg_sequence_last_value", &[Regclass], Int8, last_value),
        line("pg_export_snapshot", &[], Text, |_, _| Err(SqlError::unsupported("to export a snapshot"))),
        line("oidvectortypes", &[Kind::OidVector], Text, |a, _| {
            let names = items(&a[0])?.iter().map(|item| Ok(types::regtype::type_name(number(item)?, None)));
            Ok(text(names.collect::<SqlResult<Vec<_>>>()?.join(", ")))
        }),
        line("nameconcatoid", &[Name, Oid], Name, |a, _| Ok(text(numbered_name(words(&a[0])?, number(&a[1])?)))),
        line("pg_is_in_recovery", &[], Bool, |_, _| Ok(Datum::Bool(false))),
        line("current_schema", &[], Name, |_, env| {
            Ok(schemas(env, false)?.into_iter().next().map_or(Datum::Null, Datum::text))
        }),
        line("current_schemas", &[Bool], NAMES, |a, env| {
            Ok(super::array(schemas(env, is_true(a.first())?)?.into_iter().map(Datum::text)))
        }),
        line("to_regclass", &[Text], Regclass, relation_or_null),
        line("to_regtype", &[Text], Regtype, |a, env| named_or_null(Regtype, a, env)),
        line("to_regproc", &[Text], Regproc, |a, env| named_or_null(Regproc, a, env)),
        line("to_regprocedure", &[Text], Regprocedure, |a, env| named_or_null(Regprocedure, a, env)),
        line("to_regnamespace", &[Text], Regnamespace, |a, env| named_or_null(Regnamespace, a, env)),
        line("to_regrole", &[Text], Regrole, |a, env| named_or_null(Regrole, a, env)),
        line("pg_column_is_updatable", &[Regclass, Int2, Bool], Bool, kind_of),
    ];
    all.push(line("pg_table_is_visible", &[Oid], Bool, is_visible));
    all.push(line("pg_function_is_visible", &[Oid], Bool, |a, env| {
        let snapshot = snapshot(env)?;
        let of = snapshot.state.routine_numbered(number(&a[0])?);
        Ok(Datum::Bool(of.is_none_or(|of| reg::is_routine_visible(&snapshot.state, &snapshot.path, of))))
    }));
    // All of these objects are in `pg_catalog`, which is always searched.
    for name in [
        "pg_type_is_visible",
        "pg_operator_is_visible",
        "pg_opclass_is_visible",
        "pg_opfamily_is_visible",
        "pg_collation_is_visible",
        "pg_conversion_is_visible",
        "pg_statistics_obj_is_visible",
        "pg_ts_config_is_visible",
        "pg_ts_dict_is_visible",
        "pg_ts_parser_is_visible",
        "pg_ts_template_is_visible",
    ] {
        all.push(line(name, &[Oid], Bool, |_, _| Ok(Datum::Bool(true))));
    }
    all.extend(super::acl::functions());
    all.extend(super::json::functions());
    all.extend(super::locks::functions());
    all.extend(super::signals::functions());
    all.extend(super::sizes::functions());
    all.extend(super::privileges::functions());
    debug_assert!(all.iter().all(|line| matches!(line.eval, Eval::InContext(_))));
    all
}
