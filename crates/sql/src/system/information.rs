//! `information_schema`.
//!
//! **Invariant:** as in PostgreSQL, columns that describe an object follow the standard's names, and the only database
//! is the standard's catalog.

use super::relations::{has_default, schemas, system};
use super::{SystemContext, SystemRows, definitions, deparse, int, or_null, reg, text, yes_no};
use catalog::{Constraint, ConstraintKind, DATABASE, OWNER, TableInfo};
use statement::error::SqlResult;
use std::sync::Arc;
use types::datum::Datum;
use types::{Kind, SqlType};

pub(super) fn filled(name: &str) -> Option<super::TableFill> {
    match name {
        "information_schema_catalog_name" => Some(|_, rows| {
            rows.add([("catalog_name", text(DATABASE))]);
            Ok(())
        }),
        "schemata" => Some(schemata),
        "tables" => Some(tables),
        "columns" => Some(columns),
        "views" => Some(views),
        "view_table_usage" => Some(view_tables),
        "key_column_usage" => Some(key_columns),
        "table_constraints" => Some(constraints),
        "referential_constraints" => Some(references),
        "constraint_column_usage" => Some(constraint_columns),
        "constraint_table_usage" => Some(constraint_tables),
        "check_constraints" => Some(checks),
        "sequences" => Some(sequences),
        "character_sets" => Some(character_sets),
        "enabled_roles" => Some(|source, rows| {
            let roles = &source.snapshot.roles;
            for role in roles.inherited(catalog::rights::role_named(roles, &source.env.user)) {
                rows.add([("role_name", text(super::server::owner_name(source.snapshot, role)))]);
            }
            Ok(())
        }),
        name => super::routines::filled(name).or_else(|| super::grants::filled(name)),
    }
}

type NameColumns = [(&'static str, Datum); 3];

fn schema(source: &SystemContext<'_>, number: u32) -> Datum {
    or_null(reg::schema_name(source.snapshot, number), text)
}

fn of_table(source: &SystemContext<'_>, table: &TableInfo) -> NameColumns {
    [
        ("table_catalog", text(DATABASE)),
        ("table_schema", schema(source, table.schema)),
        ("table_name", text(&table.name)),
    ]
}

fn of_constraint(source: &SystemContext<'_>, table: &TableInfo, name: &str) -> NameColumns {
    [
        ("constraint_catalog", text(DATABASE)),
        ("constraint_schema", schema(source, table.schema)),
        ("constraint_name", text(name)),
    ]
}

fn schemata(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (_, name) in schemas(source) {
        let owner = source.state().schema(&name).map_or(OWNER, |schema| schema.owner);
        let owner = super::server::owner_name(source.snapshot, owner);
        rows.add([("catalog_name", text(DATABASE)), ("schema_owner", text(owner)), ("schema_name", text(&name))]);
    }
    Ok(())
}

fn tables(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    let mut add = |schema: Datum, name: &str, is_view: bool, insertable: bool| {
        rows.add([
            ("table_catalog", text(DATABASE)),
            ("table_schema", schema),
            ("table_name", text(name)),
            ("table_type", text(if is_view { "VIEW" } else { "BASE TABLE" })),
            ("is_insertable_into", yes_no(insertable)),
            ("is_typed", yes_no(false)),
        ]);
    };
    for table in system(source) {
        add(text(&table.schema), &table.name, table.is_view, false);
    }
    for table in source.state().tables() {
        add(schema(source, table.schema), &table.name, false, true);
    }
    for view in source.state().views() {
        add(schema(source, view.schema), &view.name, true, false);
    }
    Ok(())
}

/// Returns the columns that describe a type: its name, lengths and precisions.
fn of_type(kind: SqlType) -> Vec<(&'static str, Datum)> {
    const LONGEST: i64 = 1 << 30;
    const BYTES_PER_LETTER: i64 = 4;
    // PostgreSQL calls every array type ARRAY here, and describes neither its length nor its precision.
    let is_array = matches!(kind.kind, Kind::Array(_));
    let mut all = vec![
        ("data_type", text(if is_array { "ARRAY".to_owned() } else { kind.kind.name() })),
        ("udt_catalog", text(DATABASE)),
        ("udt_schema", text(types::PG_CATALOG)),
        ("udt_name", text(kind.kind.type_name())),
    ];
    let mut number = |precision: i64, radix: i64, scale: Option<i64>| {
        all.extend([
            ("numeric_precision", int(precision)),
            ("numeric_precision_radix", int(radix)),
            ("numeric_scale", or_null(scale, int)),
        ]);
    };
    match kind.kind {
        Kind::Int2 => number(16, 2, Some(0)),
        Kind::Int4 => number(32, 2, Some(0)),
        Kind::Int8 => number(64, 2, Some(0)),
        Kind::Float4 => number(24, 2, None),
        Kind::Float8 => number(53, 2, None),
        Kind::Numeric => match kind.precision_and_scale() {
            Some((precision, scale)) => number(i64::from(precision), 10, Some(i64::from(scale))),
            None => all.push(("numeric_precision_radix", int(10))),
        },
        Kind::Text => all.push(("character_octet_length", int(LONGEST))),
        Kind::Varchar | Kind::Bpchar => match kind.max_length() {
            Some(length) => all.extend([
                ("character_maximum_length", int(length as i64)),
                ("character_octet_length", int(length as i64 * BYTES_PER_LETTER)),
            ]),
            None => all.push(("character_octet_length", int(LONGEST))),
        },
        Kind::Date => all.push(("datetime_precision", int(0))),
        Kind::Time | Kind::Timestamp | Kind::Timestamptz | Kind::Interval => {
            all.push(("datetime_precision", int(kind.second_digits().map_or(6, i64::from))));
        }
        Kind::Name => all.extend([
            ("collation_catalog", text(DATABASE)),
            ("collation_schema", text("pg_catalog")),
            ("collation_name", text("C")),
        ]),
        _ => {}
    }
    all
}

fn columns(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    let usual = |number: i64| {
        vec![
            ("ordinal_position", int(number)),
            ("dtd_identifier", text(number.to_string())),
            ("is_self_referencing", yes_no(false)),
            ("is_identity", yes_no(false)),
            ("identity_cycle", yes_no(false)),
            ("is_generated", text("NEVER")),
        ]
    };
    let mut add = |named: NameColumns, number: i64, name: &str, kind: SqlType, rest: Vec<(&'static str, Datum)>| {
        let all = named.into_iter().chain([("column_name", text(name))]);
        rows.add(all.chain(usual(number)).chain(of_type(kind)).chain(rest));
    };
    // System tables cannot be updated.
    for table in system(source) {
        let named = || {
            [
                ("table_catalog", text(DATABASE)),
                ("table_schema", text(&table.schema)),
                ("table_name", text(&table.name)),
            ]
        };
        for (column, number) in table.columns.iter().zip(1..) {
            let rest = vec![("is_nullable", yes_no(!column.not_null)), ("is_updatable", yes_no(false))];
            add(named(), number, &column.name, column.kind.into(), rest);
        }
    }
    for table in source.state().tables() {
        for column in &table.columns {
            let mut rest = vec![("is_nullable", yes_no(!column.not_null)), ("is_updatable", yes_no(true))];
            if let Some(default) = column.default.as_ref().filter(|_| has_default(column)) {
                let written = deparse::default(source.snapshot, source.env, column, default, false)?;
                rest.push(("column_default", text(written)));
            }
            if let Some(name) = column.collation.and_then(super::pg_type::collation_name) {
                rest.extend([
                    ("collation_catalog", text(DATABASE)),
                    ("collation_schema", text("pg_catalog")),
                    ("collation_name", text(name)),
                ]);
            }
            if let Some(identity) = column.identity {
                rest.push(("is_identity", yes_no(true)));
                rest.push(("identity_generation", text(if identity.always { "ALWAYS" } else { "BY DEFAULT" })));
                if let Some(sequence) = source.state().sequences().find(|one| one.oid == identity.sequence) {
                    rest.extend([
                        ("identity_start", text(sequence.start.to_string())),
                        ("identity_increment", text(sequence.increment.to_string())),
                        ("identity_maximum", text(sequence.max.to_string())),
                        ("identity_minimum", text(sequence.min.to_string())),
                        ("identity_cycle", yes_no(sequence.cycle)),
                    ]);
                }
            }
            add(of_table(source, table), i64::from(column.number), &column.name, column.kind, rest);
        }
    }
    for view in source.state().views() {
        for ((name, kind), number) in view.columns.iter().zip(1..) {
            let named = [
                ("table_catalog", text(DATABASE)),
                ("table_schema", schema(source, view.schema)),
                ("table_name", text(&view.name)),
            ];
            add(named, number, name, *kind, vec![("is_nullable", yes_no(true)), ("is_updatable", yes_no(false))]);
        }
    }
    Ok(())
}

fn views(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for view in source.state().views() {
        rows.add([
            ("table_catalog", text(DATABASE)),
            ("table_schema", schema(source, view.schema)),
            ("table_name", text(&view.name)),
            (
                "view_definition",
                or_null(definitions::view(source.snapshot, source.env, view.oid, false).ok().flatten(), text),
            ),
            ("check_option", text("NONE")),
            ("is_updatable", yes_no(false)),
            ("is_insertable_into", yes_no(false)),
            ("is_trigger_updatable", yes_no(false)),
            ("is_trigger_deletable", yes_no(false)),
            ("is_trigger_insertable_into", yes_no(false)),
        ]);
    }
    Ok(())
}

fn view_tables(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for view in source.state().views() {
        for used in &view.uses {
            let Some((of, name)) = reg::relation_name(source.snapshot, *used) else { continue };
            rows.add([
                ("view_catalog", text(DATABASE)),
                ("view_schema", schema(source, view.schema)),
                ("view_name", text(&view.name)),
                ("table_catalog", text(DATABASE)),
                ("table_schema", text(of)),
                ("table_name", text(name)),
            ]);
        }
    }
    Ok(())
}

/// Returns all constraints with their tables.
fn all<'s>(source: &'s SystemContext<'_>) -> impl Iterator<Item = (&'s Arc<TableInfo>, &'s Constraint)> {
    source.state().tables().flat_map(|table| table.constraints.iter().map(move |constraint| (table, constraint)))
}

fn key_columns(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (table, constraint) in all(source) {
        let (positions, places) = match &constraint.what {
            ConstraintKind::Check(_) => continue,
            ConstraintKind::PrimaryKey { index } | ConstraintKind::Unique { index } => {
                match table.indexes.get(*index) {
                    Some(index) => (index.columns.clone(), Vec::new()),
                    None => continue,
                }
            }
            ConstraintKind::ForeignKey(key) => {
                // Position of the column in the referenced key.
                let parent = source.state().table_numbered(key.parent);
                let places = key.parent_columns.iter().map(|number| {
                    let at = parent?.column_numbered(*number)?;
                    let index = definitions::relied_on(parent?, key)?;
                    index.columns.iter().position(|own| *own == at).map(|place| place as i64 + 1)
                });
                (key.columns.clone(), places.collect())
            }
        };
        for (place, at) in positions.into_iter().enumerate() {
            let Some(column) = table.columns.get(at) else { continue };
            let named = of_constraint(source, table, &constraint.name).into_iter().chain(of_table(source, table));
            rows.add(named.chain([
                ("column_name", text(&column.name)),
                ("ordinal_position", int(place as i64 + 1)),
                ("position_in_unique_constraint", or_null(places.get(place).copied().flatten(), int)),
            ]));
        }
    }
    Ok(())
}

fn constraints(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    let mut add = |named: NameColumns, table: NameColumns, kind: &str, distinct: Option<bool>| {
        rows.add(named.into_iter().chain(table).chain([
            ("constraint_type", text(kind)),
            ("is_deferrable", yes_no(false)),
            ("initially_deferred", yes_no(false)),
            ("enforced", yes_no(true)),
            ("nulls_distinct", or_null(distinct, yes_no)),
        ]));
    };
    for (table, constraint) in all(source) {
        let (kind, distinct) = match &constraint.what {
            ConstraintKind::PrimaryKey { .. } => ("PRIMARY KEY", None),
            ConstraintKind::Unique { .. } => ("UNIQUE", Some(true)),
            ConstraintKind::Check(_) => ("CHECK", None),
            ConstraintKind::ForeignKey(_) => ("FOREIGN KEY", None),
        };
        add(of_constraint(source, table, &constraint.name), of_table(source, table), kind, distinct);
    }
    for (table, name, _) in not_nulls(source) {
        add(of_constraint(source, table, &name), of_table(source, table), "CHECK", None);
    }
    Ok(())
}

/// Returns the `NOT NULL` constraints, which the standard represents as checks, so that each gets a name: table, name,
/// condition.
fn not_nulls<'s>(source: &'s SystemContext<'_>) -> impl Iterator<Item = (&'s Arc<TableInfo>, String, String)> {
    let all = source.state().tables().flat_map(|table| table.columns.iter().map(move |column| (table, column)));
    all.filter(|(_, column)| column.not_null).map(|(table, column)| {
        let name = format!("{}_{}_{}_not_null", table.schema, table.oid, column.number);
        (table, name, format!("{} IS NOT NULL", column.name))
    })
}

fn checks(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (table, constraint) in all(source) {
        let ConstraintKind::Check(check) = &constraint.what else { continue };
        let clause = text(format!("({})", deparse::check(source.snapshot, source.env, table, check, false)?));
        rows.add(of_constraint(source, table, &constraint.name).into_iter().chain([("check_clause", clause)]));
    }
    for (table, name, clause) in not_nulls(source) {
        rows.add(of_constraint(source, table, &name).into_iter().chain([("check_clause", text(clause))]));
    }
    Ok(())
}

fn references(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (table, constraint) in all(source) {
        let ConstraintKind::ForeignKey(key) = &constraint.what else { continue };
        let parent = source.state().table_numbered(key.parent);
        let index = parent.and_then(|parent| definitions::relied_on(parent, key));
        let of_parent = parent.zip(index).map(|(parent, index)| (schema(source, parent.schema), text(&index.name)));
        let (unique_schema, unique_name) = of_parent.unwrap_or_default();
        rows.add(of_constraint(source, table, &constraint.name).into_iter().chain([
            ("unique_constraint_catalog", text(DATABASE)),
            ("unique_constraint_schema", unique_schema),
            ("unique_constraint_name", unique_name),
            ("match_option", text(if key.match_full { "FULL" } else { "NONE" })),
            ("update_rule", text(definitions::action_words(key.on_update))),
            ("delete_rule", text(definitions::action_words(key.on_delete))),
        ]));
    }
    Ok(())
}

/// Returns the columns that a constraint uses: its own, or the referenced ones, with their table.
fn used(
    source: &SystemContext<'_>,
    table: &Arc<TableInfo>,
    constraint: &Constraint,
) -> Option<(Arc<TableInfo>, Vec<usize>)> {
    Some(match &constraint.what {
        ConstraintKind::PrimaryKey { index } | ConstraintKind::Unique { index } => {
            (Arc::clone(table), table.indexes.get(*index)?.columns.clone())
        }
        ConstraintKind::Check(_) => (Arc::clone(table), definitions::columns_of_check(source, table, constraint)),
        ConstraintKind::ForeignKey(key) => {
            let parent = source.state().table_numbered(key.parent)?;
            let columns = key.parent_columns.iter().filter_map(|number| parent.column_numbered(*number));
            (Arc::clone(parent), columns.collect())
        }
    })
}

fn constraint_columns(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (table, constraint) in all(source) {
        let Some((of, columns)) = used(source, table, constraint) else { continue };
        for column in columns.into_iter().filter_map(|at| of.columns.get(at)) {
            let named = of_table(source, &of).into_iter().chain([("column_name", text(&column.name))]);
            rows.add(named.chain(of_constraint(source, table, &constraint.name)));
        }
    }
    Ok(())
}

fn constraint_tables(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (table, constraint) in all(source) {
        let is_check = matches!(constraint.what, ConstraintKind::Check(_));
        let Some((of, _)) = used(source, table, constraint).filter(|_| !is_check) else { continue };
        rows.add(of_table(source, &of).into_iter().chain(of_constraint(source, table, &constraint.name)));
    }
    Ok(())
}

fn sequences(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    let is_identity = |number: u32| {
        let mut columns = source.state().tables().flat_map(|table| &table.columns);
        columns.any(|column| column.identity.is_some_and(|identity| identity.sequence == number))
    };
    for sequence in source.state().sequences().filter(|sequence| !is_identity(sequence.oid)) {
        let precision = match sequence.kind.kind {
            Kind::Int2 => 16,
            Kind::Int4 => 32,
            _ => 64,
        };
        rows.add([
            ("sequence_catalog", text(DATABASE)),
            ("sequence_schema", schema(source, sequence.schema)),
            ("sequence_name", text(&sequence.name)),
            ("data_type", text(sequence.kind.name())),
            ("numeric_precision", int(precision)),
            ("numeric_precision_radix", int(2)),
            ("numeric_scale", int(0)),
            ("start_value", text(sequence.start.to_string())),
            ("minimum_value", text(sequence.min.to_string())),
            ("maximum_value", text(sequence.max.to_string())),
            ("increment", text(sequence.increment.to_string())),
            ("cycle_option", yes_no(sequence.cycle)),
        ]);
    }
    Ok(())
}

fn character_sets(_: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    rows.add([
        ("character_set_name", text("UTF8")),
        ("character_repertoire", text("UCS")),
        ("form_of_use", text("UTF8")),
        ("default_collate_catalog", text(DATABASE)),
        ("default_collate_schema", text("pg_catalog")),
        ("default_collate_name", text("C")),
    ]);
    Ok(())
}
