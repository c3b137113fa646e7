//! PostgreSQL's views of its own catalog.
//!
//! **Invariant:** a relation is named by its schema's name and its own.

use super::relations::system;
use super::{SystemContext, SystemRows, array, definitions, int, oid, or_null, reg, text, yes};
use catalog::Relation;
use catalog::system::OF_SEQUENCE;
use locked::Locked;
use settings::roles::FIRST;
use statement::error::SqlResult;
use types::datum::Datum;

pub(super) fn filled(name: &str) -> Option<super::TableFill> {
    match name {
        "pg_tables" => Some(tables),
        "pg_views" => Some(views),
        "pg_indexes" => Some(indexes),
        "pg_sequences" => Some(sequences),
        "pg_stat_user_tables" | "pg_stat_all_tables" | "pg_statio_user_tables" | "pg_statio_all_tables" => {
            Some(statistics)
        }
        "pg_cursors" => Some(cursors),
        "pg_prepared_statements" => Some(prepared_statements),
        "pg_stat_user_indexes" | "pg_stat_all_indexes" => Some(index_statistics),
        _ => None,
    }
}

fn schema(source: &SystemContext<'_>, number: u32) -> Datum {
    or_null(reg::schema_name(source.snapshot, number), text)
}

fn tables(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for table in system(source).iter().filter(|table| !table.is_view) {
        rows.add([
            ("schemaname", text(&table.schema)),
            ("tablename", text(&table.name)),
            ("tableowner", text(FIRST)),
            ("hasindexes", yes(false)),
            ("hasrules", yes(false)),
            ("hastriggers", yes(false)),
            ("rowsecurity", yes(false)),
        ]);
    }
    for table in source.state().tables() {
        let referred = source.state().referencing(table.oid).next().is_some();
        rows.add([
            ("schemaname", schema(source, table.schema)),
            ("tablename", text(&table.name)),
            ("tableowner", text(super::server::owner_name(source.snapshot, table.owner))),
            ("hasindexes", yes(!table.indexes.is_empty())),
            ("hasrules", yes(false)),
            ("hastriggers", yes(referred || table.foreign_keys().next().is_some())),
            ("rowsecurity", yes(false)),
        ]);
    }
    Ok(())
}

fn views(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for table in system(source).iter().filter(|table| table.is_view) {
        rows.add([("schemaname", text(&table.schema)), ("viewname", text(&table.name)), ("viewowner", text(FIRST))]);
    }
    for view in source.state().views() {
        rows.add([
            ("schemaname", schema(source, view.schema)),
            ("viewname", text(&view.name)),
            ("viewowner", text(super::server::owner_name(source.snapshot, view.owner))),
            (
                "definition",
                or_null(definitions::view(source.snapshot, source.env, view.oid, false).ok().flatten(), text),
            ),
        ]);
    }
    Ok(())
}

fn indexes(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for table in source.state().tables() {
        for index in &table.indexes {
            rows.add([
                ("schemaname", schema(source, table.schema)),
                ("tablename", text(&table.name)),
                ("indexname", text(&index.name)),
                ("indexdef", or_null(definitions::index(source.snapshot, index.oid, 0, false), text)),
            ]);
        }
    }
    Ok(())
}

fn sequences(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for sequence in source.state().sequences() {
        let value = *sequence.value.locked();
        rows.add([
            ("schemaname", schema(source, sequence.schema)),
            ("sequencename", text(&sequence.name)),
            ("sequenceowner", text(super::server::owner_name(source.snapshot, sequence.owner))),
            ("data_type", oid(sequence.kind.oid())),
            ("start_value", int(sequence.start)),
            ("min_value", int(sequence.min)),
            ("max_value", int(sequence.max)),
            ("increment_by", int(sequence.increment)),
            ("cycle", yes(sequence.cycle)),
            ("cache_size", int(sequence.cache)),
            ("last_value", or_null(value.is_called.then_some(value.last), int)),
        ]);
    }
    debug_assert!(OF_SEQUENCE.len() == 3);
    Ok(())
}

/// Adds the statistics of tables: the number of rows, if they were counted. Reads are not counted.
fn statistics(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for table in source.state().tables() {
        rows.add([
            ("relid", oid(table.oid)),
            ("schemaname", schema(source, table.schema)),
            ("relname", text(&table.name)),
            ("n_live_tup", int(table.counted.rows().max(0))),
        ]);
    }
    Ok(())
}

fn index_statistics(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for relation in source.state().relations() {
        let Relation::Index { table, position } = relation else { continue };
        let Some(index) = table.indexes.get(*position) else { continue };
        rows.add([
            ("relid", oid(table.oid)),
            ("indexrelid", oid(index.oid)),
            ("schemaname", schema(source, table.schema)),
            ("relname", text(&table.name)),
            ("indexrelname", text(&index.name)),
        ]);
    }
    Ok(())
}

/// Adds the cursors of this session.
fn cursors(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for cursor in source.env.names.portals() {
        rows.add([
            ("name", text(cursor.name)),
            ("statement", text(cursor.text)),
            ("is_holdable", yes(cursor.is_held)),
            ("is_binary", yes(cursor.is_binary)),
            ("is_scrollable", yes(cursor.is_scrollable)),
            ("creation_time", Datum::Timestamp(cursor.since_us)),
        ]);
    }
    Ok(())
}

/// Adds the prepared statements of this session. A statement has one plan, whatever its parameters.
fn prepared_statements(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for statement in source.env.names.statements() {
        rows.add([
            ("name", text(statement.name)),
            ("statement", text(statement.text)),
            ("prepare_time", Datum::Timestamp(statement.since_us)),
            ("parameter_types", array(statement.parameters.iter().map(|of| oid(of.oid())))),
            ("from_sql", yes(statement.is_from_sql)),
            ("generic_plans", int(statement.runs)),
            ("custom_plans", int(0)),
        ]);
    }
    Ok(())
}
