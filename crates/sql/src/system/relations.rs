//! Schemas, tables, columns, sequences and comments, as rows of the catalog.
//!
//! **Invariant:** OIDs are the catalog's own. Defaults and rules, which have none there, get OIDs above all others,
//! which stay the same while the catalog does.

use super::pg_type::{alignment, by_value, collation, storage};
use super::{SystemContext, SystemRows, deparse, int, oid, text, yes};
use catalog::SystemTable;
use catalog::system::{OF_SEQUENCE, SCHEMAS};
use catalog::{ColumnDef, Relation, Sequence, TableInfo, ViewInfo};
use locked::Locked;
use statement::error::{SqlResult, SqlState};
use std::sync::Arc;
use types::datum::Datum;
use types::{Kind, SqlType};

/// First OID of objects that have none in the catalog.
const UNNUMBERED: u32 = 0xC000_0000;
/// OIDs of `pg_class`, `pg_namespace`, `pg_attrdef`, `pg_constraint`, `pg_rewrite`, `pg_extension`.
pub(super) const PG_CLASS: u32 = 1259;
const PG_NAMESPACE: u32 = 2615;
const PG_ATTRDEF: u32 = 2604;
const PG_CONSTRAINT: u32 = 2606;
const PG_REWRITE: u32 = 2618;
const PG_EXTENSION: u32 = 3079;

pub(super) fn filled(name: &str) -> Option<super::TableFill> {
    match name {
        "pg_namespace" => Some(namespaces),
        "pg_class" => Some(classes),
        "pg_attribute" => Some(attributes),
        "pg_attrdef" => Some(defaults),
        "pg_sequence" => Some(sequences),
        "pg_rewrite" => Some(rules),
        "pg_description" => Some(descriptions),
        "pg_depend" => Some(dependencies),
        "pg_extension" => Some(extensions),
        _ => None,
    }
}

/// Returns all system tables, the server's included.
pub(super) fn system(source: &SystemContext<'_>) -> Vec<Arc<SystemTable>> {
    catalog::system::tables().iter().cloned().chain(catalog::system::provided(Some(source.snapshot))).collect()
}

fn namespaces(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (number, name) in schemas(source) {
        let own = source.state().schema(&name);
        let owner = own.map_or(super::server::SUPERUSER, |schema| schema.owner);
        let acl = super::server::acl(source.snapshot, number, 0);
        let row = [("oid", oid(number)), ("nspname", text(name)), ("nspowner", oid(owner)), ("nspacl", acl)];
        rows.add(row);
    }
    Ok(())
}

/// Returns all schemas: the fixed ones and the catalog's.
pub(super) fn schemas(source: &SystemContext<'_>) -> Vec<(u32, String)> {
    let fixed = SCHEMAS
        .iter()
        .filter(|(_, name)| *name != catalog::system::OWN_SCHEMA || source.snapshot.provider.is_some())
        .map(|(number, name)| (*number, (*name).to_owned()));
    fixed.chain(source.state().schemas().map(|schema| (schema.oid, schema.name.clone()))).collect()
}

fn classes(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for table in system(source) {
        let schema = reg_schema(&table.schema);
        rows.add([
            ("oid", oid(table.oid)),
            ("relname", text(&table.name)),
            ("relnamespace", oid(schema)),
            ("relowner", oid(super::server::SUPERUSER)),
            ("relam", oid(if table.is_view { 0 } else { 2 })),
            ("reltuples", int(-1)),
            ("relpersistence", text("p")),
            ("relkind", text(if table.is_view { "v" } else { "r" })),
            ("relnatts", int(table.columns.len() as i64)),
            ("relhasrules", yes(table.is_view)),
            ("relispopulated", yes(true)),
            ("relreplident", text("n")),
        ]);
    }
    for relation in source.state().relations() {
        // Later columns of a row override earlier ones.
        let mut row = vec![
            ("oid", oid(relation.oid())),
            ("relname", text(relation.name())),
            ("relnamespace", oid(relation.schema())),
            ("reltuples", int(-1)),
            ("relfilenode", oid(relation.oid())),
            ("relacl", super::server::acl(source.snapshot, relation.oid(), 0)),
            ("relpersistence", text("p")),
            ("relispopulated", yes(true)),
        ];
        match relation {
            Relation::Table(table) => {
                let referred = source.state().referencing(table.oid).next().is_some();
                let counted = table.counted.rows();
                let pages = u64::try_from(counted).map_or(0, |rows| super::sizes::pages(table, rows));
                row.extend([
                    ("reltuples", int(counted)),
                    ("relpages", int(pages as i64)),
                    ("relowner", oid(table.owner)),
                    ("relam", oid(2)),
                    ("relkind", text("r")),
                    ("relnatts", int(i64::from(table.next_column) - 1)),
                    ("relhasindex", yes(!table.indexes.is_empty())),
                    ("relchecks", int(table.checks().count() as i64)),
                    ("relhastriggers", yes(referred || table.foreign_keys().next().is_some())),
                    ("relreplident", text("d")),
                ]);
            }
            Relation::View(view) => row.extend([
                ("relowner", oid(view.owner)),
                ("relfilenode", oid(0)),
                ("relkind", text("v")),
                ("relnatts", int(view.columns.len() as i64)),
                ("relhasrules", yes(true)),
                ("relreplident", text("n")),
            ]),
            Relation::Sequence(sequence) => row.extend([
                ("relowner", oid(sequence.owner)),
                ("relkind", text("S")),
                ("relnatts", int(OF_SEQUENCE.len() as i64)),
                ("relpages", int(1)),
                ("reltuples", int(1)),
                ("relreplident", text("n")),
            ]),
            Relation::Index { table, position } => row.extend([
                ("relowner", oid(table.owner)),
                ("relam", oid(table.indexes.get(*position).map_or(0, |index| super::classes::number_of(index.method)))),
                ("relkind", text("i")),
                ("relnatts", int(table.indexes.get(*position).map_or(0, |index| index.all_columns().count()) as i64)),
                ("reltuples", int(0)),
                ("relreplident", text("n")),
            ]),
        }
        rows.add(row);
    }
    Ok(())
}

fn reg_schema(name: &str) -> u32 {
    SCHEMAS.iter().find(|(_, fixed)| *fixed == name).map_or(0, |(number, _)| *number)
}

/// Returns a row of `pg_attribute`.
fn attribute(of: u32, name: &str, number: i64, kind: SqlType) -> Vec<(&'static str, Datum)> {
    vec![
        ("attrelid", oid(of)),
        ("attname", text(name)),
        ("atttypid", oid(kind.oid())),
        ("attstattarget", int(-1)),
        ("attlen", int(i64::from(kind.len()))),
        ("attnum", int(number)),
        ("attndims", int(i64::from(matches!(kind.kind, Kind::Array(_))))),
        ("attcacheoff", int(-1)),
        ("atttypmod", int(i64::from(kind.typmod))),
        ("attbyval", yes(by_value(kind.kind))),
        ("attalign", text(alignment(kind.kind))),
        ("attstorage", text(storage(kind.kind))),
        ("attislocal", yes(true)),
        ("attcollation", oid(collation(kind.kind))),
    ]
}

fn attributes(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for table in system(source) {
        for (column, number) in table.columns.iter().zip(1..) {
            let mut row = attribute(table.oid, &column.name, number, column.kind.into());
            row.push(("attnotnull", yes(column.not_null)));
            rows.add(row);
        }
    }
    for relation in source.state().relations() {
        let of = relation.oid();
        match relation {
            Relation::Table(table) => {
                let is_there = |number: &i16| table.column_numbered(*number).is_some();
                for number in (1..table.next_column).filter(|number| !is_there(number)) {
                    // Column numbers have no gaps: a dropped column keeps its own.
                    let name = format!("........pg.dropped.{number}........");
                    let mut row = attribute(of, &name, i64::from(number), Kind::Int4.into());
                    row.extend([("atttypid", oid(0)), ("attisdropped", yes(true)), ("attcollation", oid(0))]);
                    rows.add(row);
                }
                for column in &table.columns {
                    let mut row = attribute(of, &column.name, i64::from(column.number), column.kind);
                    let identity = match column.identity {
                        None => "",
                        Some(identity) if identity.always => "a",
                        Some(_) => "d",
                    };
                    row.extend([
                        ("attnotnull", yes(column.not_null)),
                        ("atthasdef", yes(has_default(column))),
                        ("attidentity", text(identity)),
                        ("attacl", super::server::acl(source.snapshot, of, column.number)),
                    ]);
                    row.extend(column.collation.map(|number| ("attcollation", oid(number))));
                    rows.add(row);
                }
            }
            Relation::View(view) => {
                for ((name, kind), number) in view.columns.iter().zip(1..) {
                    let mut row = attribute(of, name, number, *kind);
                    let column = i16::try_from(number).unwrap_or(0);
                    row.push(("attacl", super::server::acl(source.snapshot, of, column)));
                    rows.add(row);
                }
            }
            Relation::Sequence(_) => {
                for ((name, kind), number) in OF_SEQUENCE.into_iter().zip(1..) {
                    let mut row = attribute(of, name, number, kind.into());
                    row.push(("attnotnull", yes(true)));
                    rows.add(row);
                }
            }
            Relation::Index { table, position } => {
                let columns = table.indexes.get(*position).into_iter().flat_map(|index| index.all_columns());
                for (at, number) in columns.zip(1..) {
                    if let Some(column) = table.columns.get(*at) {
                        rows.add(attribute(of, &column.name, number, column.kind));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Returns true if the column has a default. An identity is not one.
pub(super) fn has_default(column: &ColumnDef) -> bool {
    column.default.is_some() && column.identity.is_none()
}

/// Returns all defaults with their OIDs.
fn numbered_defaults<'s>(
    source: &'s SystemContext<'_>,
) -> impl Iterator<Item = (u32, &'s Arc<TableInfo>, &'s ColumnDef)> {
    let all = source.state().tables().flat_map(|table| table.columns.iter().map(move |column| (table, column)));
    all.filter(|(_, column)| has_default(column))
        .zip(UNNUMBERED..)
        .map(|((table, column), number)| (number, table, column))
}

fn defaults(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (number, table, column) in numbered_defaults(source) {
        let Some(default) = &column.default else { continue };
        rows.add([
            ("oid", oid(number)),
            ("adrelid", oid(table.oid)),
            ("adnum", int(i64::from(column.number))),
            ("adbin", text(deparse::default(source.snapshot, source.env, column, default, false)?)),
        ]);
    }
    Ok(())
}

fn sequences(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for sequence in source.state().sequences() {
        rows.add([
            ("seqrelid", oid(sequence.oid)),
            ("seqtypid", oid(sequence.kind.oid())),
            ("seqstart", int(sequence.start)),
            ("seqincrement", int(sequence.increment)),
            ("seqmax", int(sequence.max)),
            ("seqmin", int(sequence.min)),
            ("seqcache", int(sequence.cache)),
            ("seqcycle", yes(sequence.cycle)),
        ]);
    }
    Ok(())
}

/// Adds the row of a sequence that is read like a table. Nothing is logged, so no value is taken ahead.
pub(super) fn row_of_sequence(sequence: &Sequence, rows: &mut SystemRows<'_>) {
    let value = *sequence.value.locked();
    rows.add([("last_value", int(value.last)), ("log_cnt", int(0)), ("is_called", yes(value.is_called))]);
}

/// Returns the OID of a view's rule.
fn rule_number(view: u32) -> u32 {
    UNNUMBERED | (1 << 29) | view
}

fn rules(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for view in source.state().views() {
        rows.add([
            ("oid", oid(rule_number(view.oid))),
            ("rulename", text("_RETURN")),
            ("ev_class", oid(view.oid)),
            ("ev_type", text("1")),
            ("ev_enabled", text("O")),
            ("is_instead", yes(true)),
            ("ev_qual", text("<>")),
            ("ev_action", text(&view.text)),
        ]);
    }
    Ok(())
}

/// Adds the comments on objects and their columns.
fn descriptions(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    let state = source.state();
    let mut add = |class: u32, of: u32, column: i16, said: Option<&str>| {
        if let Some(said) = said {
            rows.add([
                ("objoid", oid(of)),
                ("classoid", oid(class)),
                ("objsubid", int(i64::from(column))),
                ("description", text(said)),
            ]);
        }
    };
    for (class, of, said) in super::pg_type::descriptions() {
        add(class, of, 0, Some(said));
    }
    for schema in state.schemas() {
        // Comment on this schema in a new database.
        let usual = (schema.name == catalog::PUBLIC).then_some("standard public schema");
        add(PG_NAMESPACE, schema.oid, 0, state.comment(schema.oid, 0).or(usual));
    }
    for table in catalog::system::provided(Some(source.snapshot)) {
        add(PG_CLASS, table.oid, 0, table.about);
        for (number, column) in (1..).zip(&table.columns) {
            add(PG_CLASS, table.oid, number, column.about);
        }
    }
    for routine in state.routines() {
        add(super::pg_type::PG_PROC, routine.oid, 0, state.comment(routine.oid, 0));
    }
    for relation in state.relations() {
        let of = relation.oid();
        add(PG_CLASS, of, 0, state.comment(of, 0));
        match relation {
            Relation::Table(table) => {
                table
                    .columns
                    .iter()
                    .for_each(|column| add(PG_CLASS, of, column.number, state.comment(of, column.number)));
                table
                    .constraints
                    .iter()
                    .for_each(|constraint| add(PG_CONSTRAINT, constraint.oid, 0, state.comment(constraint.oid, 0)));
            }
            Relation::View(view) => {
                (1..=view.columns.len() as i16).for_each(|number| add(PG_CLASS, of, number, state.comment(of, number)));
            }
            Relation::Sequence(_) | Relation::Index { .. } => {}
        }
    }
    Ok(())
}

/// Returns the sequences that columns own.
fn owned<'s>(source: &'s SystemContext<'_>) -> impl Iterator<Item = (&'s Arc<Sequence>, u32, i16)> {
    source.state().sequences().filter_map(|sequence| sequence.owned_by.map(|(table, column)| (sequence, table, column)))
}

/// Extension that always exists and contains the objects that only this server has, so that no dump contains them.
const OWN_EXTENSION: u32 = 13_209;
const OWN_SCHEMA_OID: u32 = 13_208;

fn extensions(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    if source.snapshot.provider.is_some() {
        rows.add([
            ("oid", oid(OWN_EXTENSION)),
            ("extname", text(catalog::system::OWN_SCHEMA)),
            ("extowner", oid(super::server::SUPERUSER)),
            ("extnamespace", oid(OWN_SCHEMA_OID)),
            ("extversion", text(env!("CARGO_PKG_VERSION"))),
        ]);
    }
    Ok(())
}

/// Returns the primary key of a table that a view depends on: its query groups by the key, and names other columns.
///
/// # Errors
/// Errors that must end the statement: a timeout, a cancel, `53200`.
fn key_relied_on(source: &SystemContext<'_>, view: &ViewInfo, table: u32) -> SqlResult<Option<u32>> {
    use catalog::ConstraintKind::PrimaryKey;
    // Views without GROUP BY need not be bound for this.
    let may_group = || view.text.to_ascii_lowercase().contains("group");
    let Some(table) = source.state().table_numbered(table).filter(|_| may_group()) else {
        return Ok(None);
    };
    let Some(key) = table.constraints.iter().find(|one| matches!(one.what, PrimaryKey { .. })).map(|one| one.oid)
    else {
        return Ok(None);
    };
    let mut without = table.copy();
    without.constraints.retain(|one| one.oid != key);
    without.indexes.iter_mut().for_each(|index| index.is_primary = false);
    let mut state = source.state().clone();
    state.replace(Relation::Table(Arc::new(without)))?;
    let binder = query::bind::Binder::new(&state, &view.path, &view.text, source.env, Vec::new())
        .of_stored_text()
        .without_expansion();
    let bind = || binder.query(&syntax::grammar::query(&view.text)?, None).map(drop);
    match statement::stack::on_large(bind) {
        Err(error) if error.state() == SqlState::GROUPING_ERROR => Ok(Some(key)),
        Err(error) if error.is_of_names() => Ok(None),
        bound => bound.map(|()| None),
    }
}

fn dependencies(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    let mut add =
        |(class, of, column): (u32, u32, i16), (other_class, other, other_column): (u32, u32, i16), how: &str| {
            rows.add([
                ("classid", oid(class)),
                ("objid", oid(of)),
                ("objsubid", int(i64::from(column))),
                ("refclassid", oid(other_class)),
                ("refobjid", oid(other)),
                ("refobjsubid", int(i64::from(other_column))),
                ("deptype", text(how)),
            ]);
        };
    if source.snapshot.provider.is_some() {
        let extension = (PG_EXTENSION, OWN_EXTENSION, 0);
        add((PG_NAMESPACE, OWN_SCHEMA_OID, 0), extension, "e");
        for table in catalog::system::provided(Some(source.snapshot)) {
            add((PG_CLASS, table.oid, 0), extension, "e");
        }
    }
    for (sequence, table, column) in owned(source) {
        let is_identity = source.state().table_numbered(table).is_some_and(|table| {
            table.columns.iter().any(|column| column.identity.is_some_and(|own| own.sequence == sequence.oid))
        });
        let how = if is_identity { "i" } else { "a" };
        add((PG_CLASS, sequence.oid, 0), (PG_CLASS, table, column), how);
    }
    for relation in source.state().relations() {
        add((PG_CLASS, relation.oid(), 0), (PG_NAMESPACE, relation.schema(), 0), "n");
    }
    for (number, table, column) in numbered_defaults(source) {
        add((PG_ATTRDEF, number, 0), (PG_CLASS, table.oid, column.number), "a");
        let uses = column.default.iter().flat_map(|default| &default.uses);
        for relation in uses.filter(|oid| source.state().relation_numbered(**oid).is_some()) {
            add((PG_ATTRDEF, number, 0), (PG_CLASS, *relation, 0), "n");
        }
    }
    for table in source.state().tables() {
        for constraint in &table.constraints {
            use catalog::ConstraintKind;
            match &constraint.what {
                ConstraintKind::PrimaryKey { index } | ConstraintKind::Unique { index } => {
                    let Some(index) = table.indexes.get(*index) else { continue };
                    for column in index.all_columns().filter_map(|at| table.columns.get(*at)) {
                        add((PG_CONSTRAINT, constraint.oid, 0), (PG_CLASS, table.oid, column.number), "a");
                    }
                    add((PG_CLASS, index.oid, 0), (PG_CONSTRAINT, constraint.oid, 0), "i");
                }
                ConstraintKind::Check(_) => {
                    for at in super::definitions::columns_of_check(source, table, constraint) {
                        let Some(column) = table.columns.get(at) else { continue };
                        add((PG_CONSTRAINT, constraint.oid, 0), (PG_CLASS, table.oid, column.number), "a");
                    }
                }
                ConstraintKind::ForeignKey(key) => {
                    for column in key.columns.iter().filter_map(|at| table.columns.get(*at)) {
                        add((PG_CONSTRAINT, constraint.oid, 0), (PG_CLASS, table.oid, column.number), "a");
                    }
                    for number in &key.parent_columns {
                        add((PG_CONSTRAINT, constraint.oid, 0), (PG_CLASS, key.parent, *number), "n");
                    }
                    let parent = source.state().table_numbered(key.parent);
                    // A restore by several sessions at a time must create the key before the foreign keys that refer to
                    // it.
                    if let Some(index) = parent.and_then(|parent| super::definitions::relied_on(parent, key)) {
                        add((PG_CONSTRAINT, constraint.oid, 0), (PG_CLASS, index.oid, 0), "n");
                    }
                }
            }
        }
        let of_constraint = |at: usize| {
            use catalog::ConstraintKind::{PrimaryKey, Unique};
            table
                .constraints
                .iter()
                .any(|one| matches!(&one.what, PrimaryKey { index } | Unique { index } if *index == at))
        };
        for (at, index) in table.indexes.iter().enumerate().filter(|(at, _)| !of_constraint(*at)) {
            debug_assert!(at < table.indexes.len());
            for column in index.all_columns().filter_map(|at| table.columns.get(*at)) {
                add((PG_CLASS, index.oid, 0), (PG_CLASS, table.oid, column.number), "a");
            }
        }
    }
    for view in source.state().views() {
        let rule = rule_number(view.oid);
        add((PG_REWRITE, rule, 0), (PG_CLASS, view.oid, 0), "i");
        for used in &view.uses {
            add((PG_REWRITE, rule, 0), (PG_CLASS, *used, 0), "n");
            if let Some(key) = key_relied_on(source, view, *used)? {
                add((PG_REWRITE, rule, 0), (PG_CONSTRAINT, key, 0), "n");
            }
        }
    }
    Ok(())
}
