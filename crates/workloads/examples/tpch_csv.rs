//! Writes the rows of the eight TPC-H tables, as [`workloads::tpch::load()`] loads them, for another engine to read:
//! `cargo run --release -p workloads --example tpch_csv -- SCALE_FACTOR DIRECTORY`. One file per table, `|` between
//! cells.

use std::fs::{File, create_dir_all};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use workloads::tpch::{Comments, TpchTable, generate, write_rows};

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(scale_factor), Some(directory)) =
        (arguments.next().and_then(|text| text.parse().ok()), arguments.next().map(PathBuf::from))
    else {
        eprintln!("usage: tpch_csv SCALE_FACTOR DIRECTORY");
        std::process::exit(2);
    };
    create_dir_all(&directory)?;
    for table in TpchTable::ALL {
        let mut file = BufWriter::new(File::create(directory.join(table.name()).with_extension("tbl"))?);
        for batch in generate(table, scale_factor, Comments::Specified) {
            write_rows(&batch, &mut file)?;
        }
        file.flush()?;
    }
    Ok(())
}
