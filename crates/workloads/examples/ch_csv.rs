//! Writes the rows of the small database that has the known answers of CH-benCHmark, in a form that another engine
//! reads: `cargo run --release -p workloads --example ch_csv -- DIRECTORY`. One file per table, `|` between cells, and
//! `schema.sql`.

use engine::{Engine, EngineConfig, Type};
use std::fs::{File, create_dir_all};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use workloads::ch::known_database;
use workloads::tpch::write_rows;

#[global_allocator]
static HEAP: preempt::Heap = preempt::Heap::HEAP;

fn sql(kind: Type) -> String {
    match kind {
        Type::Int32 => "integer".to_owned(),
        Type::Int64 => "bigint".to_owned(),
        Type::Text => "varchar".to_owned(),
        Type::Timestamp => "timestamp".to_owned(),
        Type::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
        other => panic!("no table of CH-benCHmark has a column of type {other:?}"),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(directory) = std::env::args().nth(1).map(PathBuf::from) else {
        eprintln!("usage: ch_csv DIRECTORY");
        std::process::exit(2);
    };
    create_dir_all(&directory)?;
    let engine = Engine::new(EngineConfig::in_memory());
    known_database(&engine)?;
    let snapshot = engine.snapshot();
    let mut schema = BufWriter::new(File::create(directory.join("schema.sql"))?);
    for table in engine.tables() {
        let columns: Vec<String> =
            table.columns().iter().map(|column| format!("{} {}", column.name, sql(column.kind))).collect();
        writeln!(schema, "create table {} ({});", table.name(), columns.join(", "))?;
        let mut file = File::create(directory.join(format!("{}.tbl", table.name())))?;
        let mut rows = Vec::new();
        let all: Vec<usize> = (0..columns.len()).collect();
        for batch in snapshot.scan(&table, &all, 1_024).split(1).into_iter().flatten() {
            write_rows(&batch, &mut rows)?;
        }
        file.write_all(&rows)?;
    }
    Ok(())
}
