//! TPC-C's population in every server, from the generator that the in-process benchmarks use.
//!
//! **Invariant:** all servers have the same rows: they are made once, in an engine of this process, and sent from there.

use super::super::client::Control;
use super::super::load::TableSql;
use super::super::servers::MeasuredServer;
use anyhow::Context;
use engine::{Engine, EngineConfig};
use host::stop::Stop;
use std::time::Duration;
use workloads::tpcc::{self, Scale};

/// Returns the table's name over the wire: the generator's names begin with `tpcc.`; here they have a prefix instead,
/// so that no server needs a schema for it and TPC-H's tables may stand beside.
fn prefixed(name: &str) -> String {
    name.replace('.', "_")
}

/// Number of rows of a batch that a scan gives.
const BATCH_ROWS: usize = 4_096;

/// Makes and fills the nine tables in every server. Returns the features that a server does not support, an index for
/// instance.
///
/// # Errors
/// A stop; errors of a server.
pub fn load(targets: &[MeasuredServer], scale: Scale, seed: u64, stop: &Stop) -> anyhow::Result<Vec<String>> {
    tracing::info!(warehouses = scale.warehouses, "making TPC-C's rows");
    let engine = Engine::new(EngineConfig::in_memory());
    let tables = tpcc::load(&engine, scale, seed, &mut |_| {})?;
    let snapshot = engine.snapshot();
    let mut refused = Vec::new();
    for target in targets {
        tracing::info!(server = target.title, "loading TPC-C");
        let control = Control::connect(target)?;
        for table in tables.all() {
            stop.wait(Duration::ZERO)?;
            let sql = TableSql::new(&prefixed(table.name()), table.columns(), table.indexes())?;
            let all: Vec<usize> = (0..table.columns().len()).collect();
            let parts = snapshot.scan(table, &all, BATCH_ROWS).split(1);
            let fill = || {
                sql.create(&control, target)?;
                sql.fill(&control, parts.into_iter().flatten())?;
                sql.index(&control)
            };
            let more = fill().with_context(|| format!("{}: {}", target.title, table.name()))?;
            refused.extend(more.into_iter().map(|what| format!("{} refused {what}", target.title)));
        }
        settle(&control, target)?;
    }
    Ok(refused)
}

/// Gathers statistics, and finishes the work that a bulk load leaves, before anything is measured.
///
/// # Errors
/// Errors of the server.
pub fn settle(control: &Control, target: &MeasuredServer) -> anyhow::Result<()> {
    if !target.is_overtake() {
        control.batch("vacuum analyze")?;
    }
    if target.is_postgres() {
        control.batch("checkpoint")?;
    }
    Ok(())
}
