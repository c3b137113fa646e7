//! TPC-H's rows in every server, with the keys that queries join by.
//!
//! **Invariant:** all servers have the same rows, types, primary keys and indexes; features that a server does not
//! support are returned, to be printed.

use super::super::client::Control;
use super::super::load::TableSql;
use super::super::servers::MeasuredServer;
use anyhow::Context;
use engine::{IndexDef, TableDef};
use host::stop::Stop;
use std::time::Duration;
use workloads::tpch::{Comments, TpchTable, generate};

/// Makes and fills the eight tables in every server.
///
/// # Errors
/// A stop; errors of a server.
pub fn load(targets: &[MeasuredServer], scale_factor: f64, stop: &Stop) -> anyhow::Result<Vec<String>> {
    let mut refused = Vec::new();
    for target in targets {
        tracing::info!(server = target.title, scale_factor, "loading TPC-H");
        let control = Control::connect(target)?;
        for table in TpchTable::ALL {
            stop.wait(Duration::ZERO)?;
            let TableDef { name, columns, .. } = table.definition();
            let sql = TableSql::new(&name, &columns, &keys(table))?;
            let fill = || {
                sql.create(&control, target)?;
                // A stop ends the stream, and the count of rows then fails; the stop is reported first.
                let batches = generate(table, scale_factor, Comments::Specified);
                sql.fill(&control, batches.take_while(|_| stop.wait(Duration::ZERO).is_ok()))?;
                stop.wait(Duration::ZERO)?;
                sql.index(&control)
            };
            let more = fill().with_context(|| format!("{}: {name}", target.title))?;
            refused.extend(more.into_iter().map(|what| format!("{} refused {what}", target.title)));
        }
        if target.is_postgres() {
            control.batch("vacuum analyze")?;
            control.batch("checkpoint")?;
        } else {
            refused
                .extend(control.batch_if_supported("analyze")?.map(|what| format!("{} refused {what}", target.title)));
        }
    }
    Ok(refused)
}

/// Returns the primary key, then the foreign keys that no prefix of another key serves.
fn keys(table: TpchTable) -> Vec<IndexDef> {
    let primary = |columns: &[usize]| IndexDef::unique("primary", columns);
    let foreign = |column: usize| IndexDef::plain("foreign", &[column]);
    match table {
        TpchTable::Region => vec![primary(&[0])],
        TpchTable::Nation => vec![primary(&[0]), foreign(2)],
        TpchTable::Supplier => vec![primary(&[0]), foreign(3)],
        TpchTable::Customer => vec![primary(&[0]), foreign(3)],
        TpchTable::Part => vec![primary(&[0])],
        TpchTable::PartSupp => vec![primary(&[0, 1]), foreign(1)],
        TpchTable::Orders => vec![primary(&[0]), foreign(1)],
        TpchTable::LineItem => vec![primary(&[0, 3]), IndexDef::plain("foreign", &[1, 2]), foreign(2)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_columns_that_end_in_key() {
        for table in TpchTable::ALL {
            let columns = table.definition().columns;
            for at in keys(table).iter().flat_map(|key| &key.columns) {
                let name = &columns[*at].name;
                assert!(name.ends_with("key") || name == "l_linenumber", "{name}");
            }
        }
    }
}
