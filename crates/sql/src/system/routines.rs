//! Functions and procedures of users: as rows of catalogs, and as the statements that create them.
//!
//! **Invariant:** executing the text of a definition creates the same routine again.

use super::{SystemContext, SystemRows, array, deparse, int, oid, or_null, quoted, reg, text, yes, yes_no};
use crate::context::Env;
use catalog::acl::Privileges;
use catalog::rights::{Rights, role_named};
use catalog::{
    CatalogSnapshot, DATABASE, Language, Parallel, ParameterMode, Routine, RoutineBody, RoutineKind, RoutineParameter,
    RoutineResult, Volatility,
};
use statement::error::SqlResult;
use std::fmt::Write as _;
use std::sync::Arc;
use types::datum::Datum;
use types::{Kind, SqlType};

/// OID of the type `record`.
const RECORD: u32 = 2249;
/// Estimated cost of a call, and rows of a set, that definitions leave out.
const USUAL: (f32, f32) = (100.0, 1000.0);

pub(super) fn filled(name: &str) -> Option<super::TableFill> {
    match name {
        "routines" => Some(routines),
        "parameters" => Some(parameters),
        _ => None,
    }
}

/// Adds the rows of `pg_proc`.
pub(super) fn add_functions(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for routine in source.state().routines() {
        let inputs: Vec<&RoutineParameter> = routine.inputs().collect();
        let variadic = inputs.iter().find(|one| one.mode == ParameterMode::Variadic).and_then(|one| one.kind.element());
        let defaults = defaults_of(source.snapshot, source.env, routine)?;
        let number = |kind: Kind| oid(kind.oid());
        let mut row = vec![
            ("oid", oid(routine.oid)),
            ("proname", text(&routine.name)),
            ("pronamespace", oid(routine.schema)),
            ("proowner", oid(routine.owner)),
            ("proacl", super::server::acl(source.snapshot, routine.oid, 0)),
            ("prolang", oid(language_number(routine.language))),
            ("procost", Datum::Float4(routine.cost)),
            ("prorows", Datum::Float4(routine.rows)),
            ("provariadic", oid(variadic.map_or(0, Kind::oid))),
            ("prokind", text(if routine.kind == RoutineKind::Procedure { "p" } else { "f" })),
            ("prosecdef", yes(routine.is_security_definer)),
            ("proleakproof", yes(routine.is_leakproof)),
            ("proisstrict", yes(routine.is_strict)),
            ("proretset", yes(routine.is_set)),
            ("provolatile", text(volatility_letter(routine.volatility))),
            ("proparallel", text(parallel_letter(routine.parallel))),
            ("pronargs", int(inputs.len() as i64)),
            ("pronargdefaults", int(defaults.len() as i64)),
            ("prorettype", oid(result_number(routine))),
            ("proargtypes", array(inputs.iter().map(|one| number(one.kind)))),
            ("prosrc", text(source_of(routine))),
        ];
        if routine.parameters.iter().any(|one| one.mode != ParameterMode::In) {
            row.push(("proallargtypes", array(routine.parameters.iter().map(|one| number(one.kind)))));
            row.push(("proargmodes", array(routine.parameters.iter().map(|one| text(mode_letter(one.mode))))));
        }
        if routine.parameters.iter().any(|one| one.name.is_some()) {
            let names = routine.parameters.iter().map(|one| text(one.name.as_deref().unwrap_or_default()));
            row.push(("proargnames", array(names)));
        }
        if !defaults.is_empty() {
            row.push(("proargdefaults", text(defaults.join(", "))));
        }
        if let Some(body) = sql_body(routine) {
            row.push(("prosqlbody", text(body)));
        }
        if let Some((module, _)) = routine.module() {
            row.push(("probin", text(module)));
        }
        if !routine.settings.is_empty() {
            let settings = routine.settings.iter().map(|(name, value)| text(format!("{name}={value}")));
            row.push(("proconfig", array(settings)));
        }
        rows.add(row);
    }
    Ok(())
}

fn volatility_letter(volatility: Volatility) -> &'static str {
    match volatility {
        Volatility::Immutable => "i",
        Volatility::Stable => "s",
        Volatility::Volatile => "v",
    }
}

fn parallel_letter(parallel: Parallel) -> &'static str {
    match parallel {
        Parallel::Unsafe => "u",
        Parallel::Restricted => "r",
        Parallel::Safe => "s",
    }
}

fn mode_letter(mode: ParameterMode) -> &'static str {
    match mode {
        ParameterMode::In => "i",
        ParameterMode::Out => "o",
        ParameterMode::InOut => "b",
        ParameterMode::Variadic => "v",
        ParameterMode::Table => "t",
    }
}

/// Returns `pg_proc.prorettype`. Types of the rows of relations have no OIDs here.
fn result_number(routine: &Routine) -> u32 {
    match routine.result {
        RoutineResult::Nothing => Kind::Void.oid(),
        RoutineResult::Value(kind) => kind.oid(),
        RoutineResult::Row | RoutineResult::Record | RoutineResult::Relation(_) => RECORD,
    }
}

/// Returns `pg_language.oid`. Languages that PostgreSQL does not have come behind its own.
pub(super) fn language_number(language: Language) -> u32 {
    match language {
        Language::Sql => 14,
        Language::Native => 9_901,
        Language::Wasm => 9_902,
        Language::Exec => 9_903,
    }
}

/// Returns `pg_proc.prosrc`, which is empty for a body that the grammar has parsed.
fn source_of(routine: &Routine) -> &str {
    match &routine.body {
        RoutineBody::Text(body) => body,
        RoutineBody::Return(_) | RoutineBody::Atomic(_) => "",
        RoutineBody::Code { entry, .. } => entry,
    }
}

/// Executes `pg_get_function_sqlbody`: the body as its author wrote it; `None` for the text of `AS`.
fn sql_body(routine: &Routine) -> Option<String> {
    match &routine.body {
        RoutineBody::Text(_) | RoutineBody::Code { .. } => None,
        RoutineBody::Return(value) => Some(format!("RETURN {value}")),
        RoutineBody::Atomic(statements) if statements.is_empty() => Some("BEGIN ATOMIC\nEND".to_owned()),
        RoutineBody::Atomic(statements) => Some(format!("BEGIN ATOMIC\n {statements}\nEND")),
    }
}

/// Returns the default of a parameter as PostgreSQL writes it.
fn default_of(snapshot: &CatalogSnapshot, env: &Env, parameter: &RoutineParameter) -> SqlResult<Option<String>> {
    let written = |default: &String| deparse::written(snapshot, env, default, parameter.kind.into(), false);
    parameter.default.as_ref().map(written).transpose()
}

/// Returns the defaults of a routine's parameters, in their order.
fn defaults_of(snapshot: &CatalogSnapshot, env: &Env, routine: &Routine) -> SqlResult<Vec<String>> {
    let all: SqlResult<Vec<Option<String>>> = routine.inputs().map(|one| default_of(snapshot, env, one)).collect();
    Ok(all?.into_iter().flatten().collect())
}

/// Returns the parameters of a definition; those of `RETURNS TABLE` alone, or all others.
fn written_parameters(
    snapshot: &CatalogSnapshot,
    env: &Env,
    routine: &Routine,
    of_table: bool,
    has_defaults: bool,
) -> SqlResult<String> {
    let mut written = Vec::new();
    for parameter in routine.parameters.iter().filter(|one| (one.mode == ParameterMode::Table) == of_table) {
        let mode = match parameter.mode {
            ParameterMode::In if routine.kind == RoutineKind::Procedure => "IN ",
            ParameterMode::In | ParameterMode::Table => "",
            ParameterMode::Out => "OUT ",
            ParameterMode::InOut => "INOUT ",
            ParameterMode::Variadic => "VARIADIC ",
        };
        let name = parameter.name.as_ref().map(|name| format!("{} ", quoted(name))).unwrap_or_default();
        let mut one = format!("{mode}{name}{}", SqlType::from(parameter.kind).name());
        if let Some(default) = default_of(snapshot, env, parameter)?.filter(|_| has_defaults) {
            let _ = write!(one, " DEFAULT {default}");
        }
        written.push(one);
    }
    Ok(written.join(", "))
}

/// Executes `pg_get_function_arguments`, or, without the defaults, `pg_get_function_identity_arguments`.
///
/// # Errors
/// Errors of parsing a default.
pub(super) fn arguments(snapshot: &CatalogSnapshot, env: &Env, of: &Routine, has_defaults: bool) -> SqlResult<String> {
    written_parameters(snapshot, env, of, false, has_defaults)
}

/// Executes `pg_get_function_result`; `None` for a procedure.
///
/// # Errors
/// None that a routine without defaults of `RETURNS TABLE` has.
pub(super) fn result(snapshot: &CatalogSnapshot, env: &Env, of: &Routine) -> SqlResult<Option<String>> {
    if of.kind == RoutineKind::Procedure {
        return Ok(None);
    }
    if of.parameters.iter().any(|one| one.mode == ParameterMode::Table) {
        return Ok(Some(format!("TABLE({})", written_parameters(snapshot, env, of, true, false)?)));
    }
    let one = match of.result {
        RoutineResult::Nothing => Kind::Void.name(),
        RoutineResult::Value(kind) => SqlType::from(kind).name(),
        RoutineResult::Row | RoutineResult::Record => "record".to_owned(),
        RoutineResult::Relation(relation) => reg::relation_shown(snapshot, relation).unwrap_or_default(),
    };
    Ok(Some(format!("{}{one}", if of.is_set { "SETOF " } else { "" })))
}

/// Executes `pg_get_function_arg_default` for the parameter of this number, from 1.
///
/// # Errors
/// Errors of parsing the default.
pub(super) fn argument_default(
    snapshot: &CatalogSnapshot,
    env: &Env,
    of: &Routine,
    number: i64,
) -> SqlResult<Option<String>> {
    let parameter = usize::try_from(number).ok().and_then(|number| of.parameters.get(number.checked_sub(1)?));
    parameter.map_or(Ok(None), |parameter| default_of(snapshot, env, parameter))
}

/// Executes `pg_get_function_sqlbody`.
pub(super) fn body(of: &Routine) -> Option<String> {
    sql_body(of)
}

/// Executes `pg_get_functiondef`.
///
/// # Errors
/// Errors of parsing a default.
pub(super) fn definition(snapshot: &CatalogSnapshot, env: &Env, of: &Routine) -> SqlResult<String> {
    let word = of.kind.word();
    let schema = reg::schema_name(snapshot, of.schema).unwrap_or_default();
    let mut written = format!(
        "CREATE OR REPLACE {} {}.{}({})\n",
        word.to_uppercase(),
        quoted(&schema),
        quoted(&of.name),
        arguments(snapshot, env, of, true)?
    );
    if let Some(result) = result(snapshot, env, of)? {
        let _ = writeln!(written, " RETURNS {result}");
    }
    let _ = writeln!(written, " LANGUAGE {}", of.language.name());
    let options = written_options(of);
    if !options.is_empty() {
        let _ = writeln!(written, "{options}");
    }
    let isolation = of.isolation.parameters();
    if !isolation.is_empty() {
        let written_one = |(name, value): &(&str, String)| format!("{name} = '{value}'");
        let _ = writeln!(written, " SET ({})", isolation.iter().map(written_one).collect::<Vec<_>>().join(", "));
    }
    for (name, value) in &of.settings {
        let _ = writeln!(written, " SET {} TO {}", quoted(name), written_setting(name, value));
    }
    match (sql_body(of), of.module()) {
        (Some(body), _) => written.push_str(&body),
        (None, Some((module, entry))) => {
            let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
            let _ = write!(written, "AS {}, {}", literal(module), literal(entry));
        }
        (None, None) => {
            let source = source_of(of);
            let mut tag = format!("${word}");
            while source.contains(&tag) {
                tag.push('x');
            }
            let _ = write!(written, "AS {tag}${source}{tag}$");
        }
    }
    written.push('\n');
    Ok(written)
}

/// Returns the options of a definition that are not the usual ones.
fn written_options(of: &Routine) -> String {
    let mut written = String::new();
    let mut add = |is_there: bool, words: &str| {
        if is_there {
            written.push(' ');
            written.push_str(words);
        }
    };
    add(of.volatility == Volatility::Immutable, "IMMUTABLE");
    add(of.volatility == Volatility::Stable, "STABLE");
    add(of.parallel == Parallel::Safe, "PARALLEL SAFE");
    add(of.parallel == Parallel::Restricted, "PARALLEL RESTRICTED");
    add(of.is_strict, "STRICT");
    add(of.is_security_definer, "SECURITY DEFINER");
    add(of.is_leakproof, "LEAKPROOF");
    let number = |number: f32| {
        types::text::to_string(&Datum::Float4(number), Kind::Float4.into(), &types::forms::Forms::default())
    };
    let (cost, rows) = USUAL;
    add(of.cost != cost, &format!("COST {}", number(of.cost)));
    add(0.0 < of.rows && of.rows != rows, &format!("ROWS {}", number(of.rows)));
    written
}

/// Returns the value of a setting as a definition writes it: a list as its items.
fn written_setting(name: &str, value: &str) -> String {
    let literal = |value: &str| format!("'{}'", value.replace('\'', "''"));
    let is_list = name.eq_ignore_ascii_case(settings::SEARCH_PATH);
    match settings::names_of(value).filter(|_| is_list) {
        Some(names) => names.iter().map(|name| literal(name)).collect::<Vec<_>>().join(", "),
        None => literal(value),
    }
}

/// Returns the users' routines that `information_schema` shows the current role, each with true if the role has the
/// rights of the owner. The others it may call.
fn shown<'s>(source: &'s SystemContext<'_>) -> impl Iterator<Item = (&'s Arc<Routine>, bool)> {
    let roles = &source.snapshot.roles;
    let rights = Rights::new(source.state(), roles, role_named(roles, &source.env.user));
    source.state().routines().filter_map(move |routine| {
        let is_owned = rights.owns(routine.owner);
        let is_shown = is_owned || rights.on(routine.securable()).has(Privileges::EXECUTE);
        is_shown.then_some((routine, is_owned))
    })
}

fn specific(source: &SystemContext<'_>, routine: &Routine) -> [(&'static str, Datum); 3] {
    [
        ("specific_catalog", text(DATABASE)),
        ("specific_schema", or_null(reg::schema_name(source.snapshot, routine.schema), text)),
        ("specific_name", text(super::functions::numbered_name(&routine.name, routine.oid))),
    ]
}

/// Adds the rows of `information_schema.routines`.
fn routines(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (routine, is_owned) in shown(source) {
        let schema = || or_null(reg::schema_name(source.snapshot, routine.schema), text);
        let is_function = routine.kind == RoutineKind::Function;
        let mut row = Vec::from(specific(source, routine));
        row.extend([
            ("routine_catalog", text(DATABASE)),
            ("routine_schema", schema()),
            ("routine_name", text(&routine.name)),
            ("routine_type", text(routine.kind.word().to_uppercase())),
            ("routine_body", text(if routine.language == Language::Sql { "SQL" } else { "EXTERNAL" })),
            ("routine_definition", or_null(is_owned.then(|| source_of(routine)), text)),
            // As of PostgreSQL's language C.
            ("external_name", or_null(routine.module().map(|(_, entry)| entry), text)),
            ("external_language", text(routine.language.name().to_uppercase())),
            ("parameter_style", text("GENERAL")),
            ("is_deterministic", yes_no(routine.volatility == Volatility::Immutable)),
            ("sql_data_access", text("MODIFIES")),
            ("schema_level_routine", yes_no(true)),
            ("max_dynamic_result_sets", int(0)),
            ("security_type", text(if routine.is_security_definer { "DEFINER" } else { "INVOKER" })),
            ("as_locator", yes_no(false)),
            ("is_udt_dependent", yes_no(false)),
        ]);
        if is_function {
            row.extend(result_columns(source, routine));
            row.push(("is_null_call", yes_no(routine.is_strict)));
            row.push(("dtd_identifier", text("0")));
        }
        rows.add(row);
    }
    Ok(())
}

/// Returns the columns of `information_schema.routines` that describe the result.
fn result_columns(source: &SystemContext<'_>, routine: &Routine) -> Vec<(&'static str, Datum)> {
    let (shown, schema, name) = match routine.result {
        RoutineResult::Nothing | RoutineResult::Row | RoutineResult::Record => {
            ("record".to_owned(), types::PG_CATALOG.to_owned(), "record".to_owned())
        }
        RoutineResult::Value(kind) => (type_words(kind), types::PG_CATALOG.to_owned(), kind.type_name().to_string()),
        RoutineResult::Relation(relation) => {
            let (schema, name) = reg::relation_name(source.snapshot, relation).unwrap_or_default();
            ("USER-DEFINED".to_owned(), schema, name)
        }
    };
    vec![
        ("data_type", text(shown)),
        ("type_udt_catalog", text(DATABASE)),
        ("type_udt_schema", text(schema)),
        ("type_udt_name", text(name)),
    ]
}

/// Returns the name of a type in `information_schema`, where all arrays are `ARRAY`.
fn type_words(kind: Kind) -> String {
    if matches!(kind, Kind::Array(_)) { "ARRAY".to_owned() } else { SqlType::from(kind).name() }
}

/// Adds the rows of `information_schema.parameters`.
fn parameters(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (routine, is_owned) in shown(source) {
        for (number, parameter) in (1..).zip(&routine.parameters) {
            let mode = match parameter.mode {
                ParameterMode::In | ParameterMode::Variadic => "IN",
                ParameterMode::Out | ParameterMode::Table => "OUT",
                ParameterMode::InOut => "INOUT",
            };
            let default = if is_owned { default_of(source.snapshot, source.env, parameter)? } else { None };
            let mut row = Vec::from(specific(source, routine));
            row.extend([
                ("ordinal_position", int(number)),
                ("parameter_mode", text(mode)),
                ("is_result", yes_no(false)),
                ("as_locator", yes_no(false)),
                ("parameter_name", or_null(parameter.name.as_ref(), text)),
                ("data_type", text(type_words(parameter.kind))),
                ("udt_catalog", text(DATABASE)),
                ("udt_schema", text(types::PG_CATALOG)),
                ("udt_name", text(parameter.kind.type_name())),
                ("dtd_identifier", text(number.to_string())),
                ("parameter_default", or_null(default, text)),
            ]);
            rows.add(row);
        }
    }
    Ok(())
}
