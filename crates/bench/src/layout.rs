//! `overtake bench layout`: row images compared with columns, on TPC-C's stock table.

use crate::arguments::PhaseDuration;
use crate::report::{Machine, Report, TextTable, number};
use clap::Args;
use host::memory;
use host::stop::Stop;
use serde::Serialize;
use std::time::Duration;
use workloads::layout;

/// Arguments of `bench layout`.
#[derive(Args, Debug, Serialize)]
pub struct LayoutArguments {
    /// Length of each phase: each of the four operations in each of the two layouts is one.
    #[command(flatten)]
    #[serde(flatten)]
    duration: PhaseDuration,
    /// Number of rows of the table; a warehouse has 100,000.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    rows: u64,
}

/// Generous bound of the memory per row in both layouts.
const ROW_BYTES: u64 = 2_048;

/// Measures and reports.
///
/// # Errors
/// If memory is short or the run is stopped.
pub fn run(arguments: &LayoutArguments, stop: &Stop) -> anyhow::Result<Report> {
    memory::require(arguments.rows * ROW_BYTES, "lower --rows, or raise the container's limit")?;
    let mut report = Report::new("layout", arguments, Machine::read())?;
    stop.wait(Duration::ZERO)?;
    tracing::info!(rows = arguments.rows, "measuring row images and columns");
    let figures = layout::run(arguments.rows as usize, arguments.duration.get().as_secs_f64());
    let mut table = TextTable::new(
        "TPC-C's stock table, ns of processor time a row",
        &["", "row images", "columns", "rows/columns"],
    );
    for layout::Figure { name, row_ns, column_ns } in figures {
        let label = match name {
            "append" => "append a row",
            "read_row" => "read a whole row (17 columns)",
            "read_4" => "read 4 columns of a row",
            _ => "scan one column",
        };
        table.row([label.to_owned(), number(row_ns), number(column_ns), number(row_ns / column_ns)]);
        report.figure(format!("layout.{name}.row_ns"), row_ns);
        report.figure(format!("layout.{name}.column_ns"), column_ns);
        report.figure(format!("layout.{name}.vs_columns"), row_ns / column_ns);
    }
    report.table(table);
    Ok(report)
}
