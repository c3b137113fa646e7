//! Indexes, constraints and views: as rows of the catalog, and as the statements that create them.
//!
//! **Invariant:** executing the text of a definition creates the same object again.

use super::{SystemContext, SystemRows, array, deparse, int, oid, quoted, reg, text, yes};
use crate::context::Env;
use catalog::{
    CatalogSnapshot, Constraint, ConstraintKind, ForeignAction, ForeignKey, IndexInfo, IndexOrder, Relation, TableInfo,
};
use statement::error::{SqlError, SqlResult};
use std::sync::Arc;
use types::Kind;
use types::datum::Datum;

pub(super) fn filled(name: &str) -> Option<super::TableFill> {
    match name {
        "pg_index" => Some(indexes),
        "pg_constraint" => Some(constraints),
        _ => None,
    }
}

fn numbers(table: &TableInfo, positions: &[usize]) -> Vec<Datum> {
    positions.iter().filter_map(|at| table.columns.get(*at)).map(|column| Datum::Int2(column.number)).collect()
}

fn names(table: &TableInfo, positions: &[usize]) -> String {
    let names: Vec<_> =
        positions.iter().filter_map(|at| table.columns.get(*at)).map(|column| quoted(&column.name)).collect();
    names.join(", ")
}

/// Returns the names of columns by their numbers.
fn names_numbered(table: &TableInfo, wanted: &[i16]) -> String {
    let positions: Vec<usize> = wanted.iter().filter_map(|number| table.column_numbered(*number)).collect();
    names(table, &positions)
}

/// Returns `pg_index.indoption` of a column.
fn option_bits(order: IndexOrder) -> i16 {
    i16::from(order.descends) | i16::from(order.nulls_first) << 1
}

/// Returns the columns of an index with their orders, as a definition writes them.
fn ordered_names(table: &TableInfo, index: &IndexInfo) -> String {
    let one = |(at, position): (usize, &usize)| {
        let name = quoted(&table.columns.get(*position)?.name);
        let IndexOrder { descends, nulls_first, class } = index.order_of(at);
        let class = class.map(|class| format!(" {}", super::classes::name_of(class))).unwrap_or_default();
        let order = match (descends, nulls_first) {
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, true) => " DESC",
            (true, false) => " DESC NULLS LAST",
        };
        Some(format!("{name}{class}{order}"))
    };
    index.columns.iter().enumerate().filter_map(one).collect::<Vec<_>>().join(", ")
}

fn indexes(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for table in source.state().tables() {
        for index in &table.indexes {
            let kinds: Vec<Kind> =
                index.columns.iter().filter_map(|at| table.columns.get(*at)).map(|column| column.kind.kind).collect();
            let own = |kind: &Kind| super::classes::class_of(*kind, index.method);
            let classes =
                kinds.iter().enumerate().map(|(at, kind)| index.order_of(at).class.unwrap_or_else(|| own(kind)));
            rows.add([
                ("indexrelid", oid(index.oid)),
                ("indrelid", oid(table.oid)),
                ("indnatts", int(index.all_columns().count() as i64)),
                ("indnkeyatts", int(index.columns.len() as i64)),
                ("indisunique", yes(index.is_unique)),
                ("indisprimary", yes(index.is_primary)),
                ("indimmediate", yes(true)),
                ("indisvalid", yes(true)),
                ("indisready", yes(true)),
                ("indislive", yes(true)),
                ("indkey", array([numbers(table, &index.columns), numbers(table, &index.include)].concat())),
                ("indcollation", array(kinds.iter().map(|kind| oid(super::pg_type::collation(*kind))))),
                ("indclass", array(classes.map(oid))),
                ("indoption", array((0..kinds.len()).map(|at| Datum::Int2(option_bits(index.order_of(at)))))),
            ]);
        }
    }
    Ok(())
}

/// Returns the code of a foreign key's action in `pg_constraint`.
pub(super) fn action_letter(action: ForeignAction) -> &'static str {
    match action {
        ForeignAction::NoAction => "a",
        ForeignAction::Restrict => "r",
        ForeignAction::Cascade => "c",
        ForeignAction::SetNull => "n",
        ForeignAction::SetDefault => "d",
    }
}

/// Returns the words of a foreign key's action.
pub(super) fn action_words(action: ForeignAction) -> &'static str {
    match action {
        ForeignAction::NoAction => "NO ACTION",
        ForeignAction::Restrict => "RESTRICT",
        ForeignAction::Cascade => "CASCADE",
        ForeignAction::SetNull => "SET NULL",
        ForeignAction::SetDefault => "SET DEFAULT",
    }
}

/// Returns the index of the referenced table that a foreign key relies on.
pub(super) fn relied_on<'p>(parent: &'p TableInfo, key: &ForeignKey) -> Option<&'p IndexInfo> {
    let mut wanted: Vec<usize> =
        key.parent_columns.iter().filter_map(|number| parent.column_numbered(*number)).collect();
    wanted.sort_unstable();
    let fits = |index: &&IndexInfo| {
        let mut own = index.columns.clone();
        own.sort_unstable();
        index.is_unique && own == wanted
    };
    parent.indexes.iter().filter(fits).max_by_key(|index| index.is_primary)
}

/// Returns the OID of the operator that compares two columns of a foreign key.
fn equality(kind: Kind) -> u32 {
    super::pg_type::operator_number("=", Some(kind), kind).unwrap_or(0)
}

fn constraints(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    let snapshot = source.snapshot;
    for table in source.state().tables() {
        for constraint in &table.constraints {
            let mut row = vec![
                ("oid", oid(constraint.oid)),
                ("conname", text(&constraint.name)),
                ("connamespace", oid(table.schema)),
                ("convalidated", yes(constraint.is_valid)),
                ("conrelid", oid(table.oid)),
                ("conislocal", yes(true)),
                ("connoinherit", yes(!matches!(constraint.what, ConstraintKind::Check(_)))),
                ("confupdtype", text(" ")),
                ("confdeltype", text(" ")),
                ("confmatchtype", text(" ")),
            ];
            match &constraint.what {
                ConstraintKind::PrimaryKey { index } | ConstraintKind::Unique { index } => {
                    let is_primary = matches!(constraint.what, ConstraintKind::PrimaryKey { .. });
                    row.push(("contype", text(if is_primary { "p" } else { "u" })));
                    if let Some(index) = table.indexes.get(*index) {
                        row.push(("conindid", oid(index.oid)));
                        row.push(("conkey", array(numbers(table, &index.columns))));
                    }
                }
                ConstraintKind::Check(check) => {
                    row.push(("contype", text("c")));
                    row.push(("conkey", array(numbers(table, &columns_of_check(source, table, constraint)))));
                    row.push(("conbin", text(deparse::check(snapshot, source.env, table, check, false)?)));
                }
                ConstraintKind::ForeignKey(key) => {
                    let parent = source.state().table_numbered(key.parent);
                    let index = parent.and_then(|parent| relied_on(parent, key));
                    // Both columns of a pair are compared by the operator of the referencing column's type, so the
                    // lists are equal.
                    let operators: Vec<Datum> = key
                        .columns
                        .iter()
                        .filter_map(|at| table.columns.get(*at))
                        .map(|column| oid(equality(column.kind.kind)))
                        .collect();
                    row.extend([
                        ("contype", text("f")),
                        ("confrelid", oid(key.parent)),
                        ("conindid", oid(index.map_or(0, |index| index.oid))),
                        ("confupdtype", text(action_letter(key.on_update))),
                        ("confdeltype", text(action_letter(key.on_delete))),
                        ("confmatchtype", text(if key.match_full { "f" } else { "s" })),
                        ("conkey", array(numbers(table, &key.columns))),
                        ("confkey", array(key.parent_columns.iter().map(|number| Datum::Int2(*number)))),
                        ("conpfeqop", array(operators.clone())),
                        ("conppeqop", array(operators.clone())),
                        ("conffeqop", array(operators)),
                    ]);
                }
            }
            rows.add(row);
        }
    }
    Ok(())
}

/// Returns the positions of the columns that a condition uses, in the order of the table.
pub(super) fn columns_of_check(source: &SystemContext<'_>, table: &TableInfo, constraint: &Constraint) -> Vec<usize> {
    let ConstraintKind::Check(check) = &constraint.what else { return Vec::new() };
    let binder = query::bind::Binder::new(source.state(), &source.snapshot.path, &check.text, source.env, Vec::new())
        .of_stored_text();
    let mut scope = query::bind::NameScope::default();
    let columns = query::bind::columns_of(table);
    let width = columns.len();
    if scope.add(binder.row_of(&table.name, columns), width).is_err() {
        return Vec::new();
    }
    fn collect(expr: &query::plan::Expr, found: &mut Vec<usize>) {
        if let query::plan::Expr::Column(at) = expr {
            found.push(*at);
        }
        expr.parts().into_iter().for_each(|part| collect(part, found));
    }
    let mut found = Vec::new();
    statement::stack::on_large(|| {
        let bound = syntax::grammar::expression(&check.text).and_then(|tree| binder.expr(&tree, &scope));
        if let Ok(bound) = bound {
            collect(&bound.expr, &mut found);
        }
    });
    found.sort_unstable();
    found.dedup();
    found
}

/// Executes `pg_get_constraintdef`.
///
/// # Errors
/// `0A000`: a condition cannot be written as text.
pub(super) fn constraint(
    snapshot: &CatalogSnapshot,
    env: &Env,
    number: u32,
    pretty: bool,
) -> SqlResult<Option<String>> {
    let found = snapshot.state.tables().find_map(|table| {
        table.constraints.iter().find(|constraint| constraint.oid == number).map(|constraint| (table, constraint))
    });
    let Some((table, constraint)) = found else { return Ok(None) };
    let key = |word: &str, index: &usize| {
        let index = table.indexes.get(*index)?;
        Some(format!("{word} ({}){}", names(table, &index.columns), included(table, index)))
    };
    let written = match &constraint.what {
        ConstraintKind::PrimaryKey { index } => key("PRIMARY KEY", index),
        ConstraintKind::Unique { index } => key("UNIQUE", index),
        ConstraintKind::Check(check) => {
            Some(format!("CHECK ({})", deparse::check(snapshot, env, table, check, pretty)?))
        }
        ConstraintKind::ForeignKey(key) => {
            let (Some(parent), Some(shown)) =
                (snapshot.state.table_numbered(key.parent), reg::relation_shown(snapshot, key.parent))
            else {
                return Ok(None);
            };
            let mut written = format!(
                "FOREIGN KEY ({}) REFERENCES {shown}({})",
                names(table, &key.columns),
                names_numbered(parent, &key.parent_columns)
            );
            // PostgreSQL omits clauses that state the default.
            if key.match_full {
                written.push_str(" MATCH FULL");
            }
            if key.on_update != ForeignAction::NoAction {
                written.push_str(" ON UPDATE ");
                written.push_str(action_words(key.on_update));
            }
            if key.on_delete != ForeignAction::NoAction {
                written.push_str(" ON DELETE ");
                written.push_str(action_words(key.on_delete));
            }
            Some(written)
        }
    };
    let rest = if constraint.is_valid { "" } else { " NOT VALID" };
    Ok(written.map(|written| written + rest))
}

/// Returns the `INCLUDE` clause of an index's definition, empty if the index has none.
fn included(table: &TableInfo, index: &IndexInfo) -> String {
    if index.include.is_empty() { String::new() } else { format!(" INCLUDE ({})", names(table, &index.include)) }
}

/// Executes `pg_get_indexdef`; for a single column it returns the column's name.
pub(super) fn index(snapshot: &CatalogSnapshot, number: u32, column: i64, pretty: bool) -> Option<String> {
    let Relation::Index { table, position } = snapshot.state.relation_numbered(number)? else { return None };
    let index = table.indexes.get(*position)?;
    if column != 0 {
        let at = usize::try_from(column - 1).ok()?;
        let name = index.all_columns().nth(at).and_then(|at| table.columns.get(*at)).map(|column| quoted(&column.name));
        return Some(name.unwrap_or_default());
    }
    let of = if pretty { reg::relation_shown(snapshot, table.oid)? } else { full_name(snapshot, table)? };
    let unique = if index.is_unique { "UNIQUE " } else { "" };
    let (name, columns) = (quoted(&index.name), ordered_names(table, index));
    let included = included(table, index);
    let method = index.method.name();
    Some(format!("CREATE {unique}INDEX {name} ON {of} USING {method} ({columns}){included}"))
}

fn full_name(snapshot: &CatalogSnapshot, table: &Arc<TableInfo>) -> Option<String> {
    let (schema, name) = reg::relation_name(snapshot, table.oid)?;
    Some(format!("{}.{}", quoted(&schema), quoted(&name)))
}

/// Executes `pg_get_viewdef`: the query as PostgreSQL writes it, or, if that form is not known, as its author wrote it.
/// The text has the same meaning where names are looked up by the session's search path.
///
/// # Errors
/// `0A000`: the query cannot be written in such a form.
pub(super) fn view(snapshot: &CatalogSnapshot, env: &Env, number: u32, pretty: bool) -> SqlResult<Option<String>> {
    let Some(relation) = snapshot.state.relation_numbered(number) else { return Ok(None) };
    let Relation::View(view) = relation else { return Ok(Some("Not a view".to_owned())) };
    let written = || {
        let canonical = super::viewdef::query(snapshot, env, view, pretty);
        let plan = super::viewdef::plan_of(snapshot, env, view);
        let plan = plan.as_deref();
        let is_same = |text: &String| plan.is_some_and(|plan| super::viewdef::is_same(snapshot, env, view, plan, text));
        canonical.filter(is_same).or_else(|| super::viewdef::as_written(snapshot, env, view, plan))
    };
    match statement::stack::on_large(written) {
        Some(text) => Ok(Some(text)),
        None => Err(SqlError::unsupported(format_args!("to write the query of view \"{}\" as a statement", view.name))),
    }
}
