//! The results of a benchmark: tables for people, figures for programs, charts for both.
//!
//! **Invariant:** every figure's name is a dotted path that a program can look up, and every figure is a number:
//! a name that does not match `[a-z0-9_]+(\.[a-z0-9_]+)+` is a bug and stops the program, a value that is not finite
//! is a failed measurement and fails the run.

mod chart;
mod machine;
mod numbers;
mod output;
mod table;

pub use chart::{BarChart, Chart, LineChart, PanelChart, PercentileChart, StackChart};
pub use machine::Machine;
pub use numbers::{geometric_mean, median};
pub use output::Output;
pub use table::{TextTable, number};

use host::say::say;
use serde::Serialize;
use stage::Quantiles;
use std::collections::BTreeMap;
use std::fmt;

/// Results of one benchmark.
pub struct Report {
    bench: &'static str,
    origin: Origin,
    args: serde_json::Value,
    machine: Machine,
    figures: BTreeMap<String, f64>,
    tables: Vec<TextTable>,
    charts: Vec<Chart>,
    notes: Vec<String>,
}

/// Origin of the figures.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    /// The figures are measured: the machine matters.
    Measured,
    /// The figures are calculated by a model: they are the same on any machine.
    Calculated,
}

/// Form that `--json` writes.
#[derive(Serialize)]
struct Json<'a> {
    bench: &'a str,
    args: &'a serde_json::Value,
    machine: &'a Machine,
    figures: &'a BTreeMap<String, f64>,
}

impl Report {
    /// Creates an empty report of `bench`, run with `arguments` on `machine`.
    ///
    /// # Errors
    /// If the arguments have no JSON form.
    pub fn new(bench: &'static str, arguments: &impl Serialize, machine: Machine) -> serde_json::Result<Report> {
        Ok(Report {
            bench,
            origin: Origin::Measured,
            args: serde_json::to_value(arguments)?,
            machine,
            figures: BTreeMap::new(),
            tables: Vec::new(),
            charts: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Creates an empty report of the command `name`, which calculates.
    ///
    /// # Errors
    /// Errors of [`Report::new`].
    pub fn calculated(name: &'static str, arguments: &impl Serialize) -> serde_json::Result<Report> {
        Ok(Report { origin: Origin::Calculated, ..Report::new(name, arguments, Machine::read())? })
    }

    /// Adds a figure.
    ///
    /// # Panics
    /// If the name is not a dotted path, or was used before.
    pub fn figure(&mut self, name: impl Into<String>, value: f64) {
        let name = name.into();
        assert!(is_dotted_path(&name), "\"{name}\" is no name of a figure");
        assert!(self.figures.insert(name.clone(), value).is_none(), "figure \"{name}\" was given twice");
    }

    /// Returns the figures so far.
    pub fn figures(&self) -> &BTreeMap<String, f64> {
        &self.figures
    }

    /// Adds the five figures `prefix.p50` to `prefix.max`.
    ///
    /// # Panics
    /// Panics of [`Report::figure`].
    pub fn quantiles(&mut self, prefix: &str, quantiles: &Quantiles) {
        for (name, value) in quantiles.named() {
            self.figure(format!("{prefix}.{name}"), value);
        }
    }

    /// Adds a table.
    pub fn table(&mut self, table: TextTable) {
        self.tables.push(table);
    }

    /// Adds a chart to the file that `--svg` writes.
    pub fn chart(&mut self, chart: impl Into<Chart>) {
        self.charts.push(chart.into());
    }

    /// Adds a sentence that a reader needs to judge the figures.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Prints the report and writes the files that the user asked for.
    ///
    /// # Errors
    /// If a figure is not finite or a file cannot be written.
    pub fn publish(&self, output: output::Opened) -> anyhow::Result<()> {
        let broken: Vec<&str> =
            self.figures.iter().filter(|(_, value)| !value.is_finite()).map(|(name, _)| name.as_str()).collect();
        let said = say(format_args!("{self}\n"));
        anyhow::ensure!(broken.is_empty(), "nothing could be measured for {}", broken.join(", "));
        // The files are written even if standard output failed.
        output.write(self)?;
        said
    }

    fn json(&self) -> serde_json::Result<String> {
        let Report { bench, args, machine, figures, .. } = self;
        let mut text = serde_json::to_string_pretty(&Json { bench, args, machine, figures })?;
        text.push('\n');
        Ok(text)
    }

    fn svg(&self) -> anyhow::Result<String> {
        let subtitle = match self.origin {
            Origin::Measured => format!("{} · {}", self.machine.cpu_model, self.machine.kernel),
            Origin::Calculated => format!("overtake {}, calculated", self.bench),
        };
        chart::draw(&self.charts, &subtitle)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.origin {
            Origin::Measured => writeln!(f, "overtake bench {}\n{}", self.bench, self.machine)?,
            Origin::Calculated => writeln!(f, "overtake {}", self.bench)?,
        }
        for table in &self.tables {
            write!(f, "\n{table}")?;
        }
        if !self.notes.is_empty() {
            writeln!(f)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "- {note}"))
    }
}

/// Returns true if `name` matches `[a-z0-9_]+(\.[a-z0-9_]+)+`.
fn is_dotted_path(name: &str) -> bool {
    let word = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    name.contains('.') && name.split('.').all(word)
}

#[cfg(test)]
mod tests;
