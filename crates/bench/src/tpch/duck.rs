//! DuckDB, in a process of its own: found or installed, loaded with the same rows, asked the same queries.
//!
//! **Invariant:** nothing is installed but the wheel `duckdb` of PyPI, into a folder of its own under the user's cache,
//! and only if Python cannot import it otherwise. DuckDB's time is measured by its own process around one query, from
//! text to the whole answer in DuckDB's own form: the cost of the conversation is outside.

use anyhow::{Context, bail, ensure};
use engine::Type;
use host::refusal::Refusal;
use host::stop::Stop;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use workloads::tpch::{Comments, TpchTable, generate, write_rows};

const SCRIPT: &str = include_str!("duckdb.py");
const ADVICE: &str = "install Python 3 with pip and let it reach PyPI once (or run `python3 -m pip install duckdb` \
                      yourself), or compare without it: --without-duckdb";

/// Running DuckDB with a database in memory.
pub struct Duck {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    version: String,
}

/// Answer of DuckDB to a query.
#[derive(Deserialize)]
pub struct DuckAnswer {
    /// Duration of the query, in seconds.
    pub seconds: f64,
    /// Answer, if it was asked for, in the form of [`workloads::tpch::compare_answer`].
    pub answer: Option<String>,
}

#[derive(Deserialize)]
struct Hello {
    version: String,
}

#[derive(Deserialize)]
struct DuckLoaded {
    rows_count: u64,
}

impl Duck {
    /// Finds or installs DuckDB, and starts it with this many threads.
    ///
    /// # Errors
    /// A [`Refusal`] with advice if it is not available.
    pub fn start(threads: usize) -> anyhow::Result<Duck> {
        let packages = find_or_install()?;
        let mut command = python(packages.as_deref());
        command.args(["-u", "-c", SCRIPT, &threads.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("DuckDB's process")?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().context("DuckDB's process has no output")?);
        let mut duck = Duck { child, stdin, stdout, version: String::new() };
        duck.version = duck.read::<Hello>()?.version;
        Ok(duck)
    }

    /// Returns the version that DuckDB reports.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Loads the eight tables, with the rows that [`workloads::tpch`] generates.
    ///
    /// # Errors
    /// A stop, a disk that is full, or fewer rows there than here.
    pub fn load(&mut self, scale_factor: f64, comments: Comments, stop: &Stop) -> anyhow::Result<()> {
        let directory = tempfile::Builder::new()
            .prefix("overtake-tpch-")
            .tempdir()
            .context("a folder for rows on their way to DuckDB")?;
        for table in TpchTable::ALL {
            let path = directory.path().join(table.name());
            let mut file = BufWriter::with_capacity(1 << 20, File::create(&path).context("rows for DuckDB")?);
            let mut rows_count = 0;
            for batch in generate(table, scale_factor, comments) {
                stop.wait(Duration::ZERO)?;
                rows_count += batch.num_rows() as u64;
                write_rows(&batch, &mut file).context("rows for DuckDB")?;
            }
            file.flush().context("rows for DuckDB")?;
            let columns: Vec<String> = table
                .definition()
                .columns
                .iter()
                .map(|column| format!("{} {}", column.name, sql(column.kind)))
                .collect();
            let loaded: DuckLoaded = self.ask(&serde_json::json!({
                "table": table.name(),
                "columns": columns.join(", "),
                "path": path,
            }))?;
            ensure!(loaded.rows_count == rows_count, "DuckDB has {} rows of {}", loaded.rows_count, table.name());
            fs::remove_file(&path).context("rows for DuckDB")?;
        }
        Ok(())
    }

    /// Runs a query; also returns the answer if asked for.
    ///
    /// # Errors
    /// Errors of DuckDB.
    pub fn query(&mut self, text: &str, with_answer: bool) -> anyhow::Result<DuckAnswer> {
        self.ask(&serde_json::json!({ "query": text, "with_answer": with_answer }))
    }

    fn ask<A: DeserializeOwned>(&mut self, question: &serde_json::Value) -> anyhow::Result<A> {
        let stdin = self.stdin.as_mut().context("only drop closes it")?;
        writeln!(stdin, "{question}").context("DuckDB's process")?;
        self.read()
    }

    fn read<A: DeserializeOwned>(&mut self) -> anyhow::Result<A> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).context("DuckDB's process")?;
        // Python has given the reason on standard error, which is this process's.
        ensure!(!line.is_empty(), "DuckDB's process has ended; its message stands above");
        serde_json::from_str(&line).context("DuckDB's process")
    }
}

impl Drop for Duck {
    fn drop(&mut self) {
        // DuckDB's process ends at the end of its input, unless a query runs, which nobody waits for any more.
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sql(kind: Type) -> String {
    match kind {
        Type::Int32 => "integer".to_owned(),
        Type::Int64 => "bigint".to_owned(),
        Type::Text => "varchar".to_owned(),
        Type::Date => "date".to_owned(),
        Type::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
        other => unreachable!("no table of TPC-H has a column of type {other:?}"),
    }
}

fn python(packages: Option<&Path>) -> Command {
    let mut python = Command::new("python3");
    if let Some(packages) = packages {
        python.env("PYTHONPATH", packages);
    }
    python
}

/// Returns the folder of the Python module, installed there if necessary; `None` if Python finds it by itself.
fn find_or_install() -> anyhow::Result<Option<PathBuf>> {
    let has = |packages: Option<&Path>| {
        let tried = python(packages).args(["-c", "import duckdb"]).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    if has(None) {
        return Ok(None);
    }
    let folder = cache_folder()?;
    if has(Some(&folder)) {
        return Ok(Some(folder));
    }
    tracing::info!(folder = %folder.display(), "installing DuckDB from PyPI");
    let mut pip = python(None);
    pip.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--upgrade", "--target"]);
    let installed = pip.arg(&folder).arg("duckdb").env("PIP_ROOT_USER_ACTION", "ignore").output();
    match installed {
        Ok(output) if output.status.success() && has(Some(&folder)) => Ok(Some(folder)),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let why = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("pip does not say why");
            bail!(Refusal::new(format!("DuckDB could not be installed: {}; {ADVICE}", why.trim())))
        }
        Err(error) => bail!(Refusal::new(format!("DuckDB needs python3, which does not start: {error}; {ADVICE}"))),
    }
}

/// Returns a folder for this version of Python, because wheels belong to one.
fn cache_folder() -> anyhow::Result<PathBuf> {
    let tag = python(None).args(["-c", "import sys; print(sys.implementation.cache_tag)"]).output();
    let tag = match &tag {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => bail!(Refusal::new(format!("DuckDB needs python3, which does not start; {ADVICE}"))),
    };
    let given = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")));
    let cache =
        cache.ok_or_else(|| Refusal::new(format!("there is no folder for DuckDB: HOME is not set; {ADVICE}")))?;
    Ok(cache.join("overtake").join("duckdb").join(tag))
}
