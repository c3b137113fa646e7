//! Tables of the documentation, written from figures.
//!
//! **Invariant:** a table changes only if there are figures for it, so that a run of some parts leaves the others'
//! tables as they are. Nothing outside of the marks changes.

use super::calls;
use super::goals;
use super::key_value::CALLS;
use super::ladder::{STEPS, attacks_cell, cell, cell_of_count};
use super::results::own_us;
use super::rungs::{POINTS, RUNGS};
use super::transports::CLIENTS;
use super::urgent;
use super::xdp;
use crate::report::{Report, number};
use anyhow::Context;
use host::refusal::Refusal;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

type Figures = BTreeMap<String, f64>;

/// Table of a page: header and rows.
struct PageTable {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Name in the marks, and the table of some figures.
type Block = (&'static str, fn(&Figures) -> PageTable);

const BLOCKS: [Block; 10] = [
    ("goals", of_goals),
    ("new-order", new_order),
    ("stages", stages),
    ("key-value", key_value),
    ("calls", of_calls),
    ("transports", transports),
    ("urgent", urgent),
    ("xdp", over_xdp),
    ("levels", levels),
    ("decision", decision),
];

fn marks(name: &str) -> [String; 2] {
    ["begin", "end"].map(|place| format!("<!-- glass {name}: {place} -->"))
}

/// Returns the place of a table: after the line of the first mark, before the second one.
fn place(page: &str, name: &str) -> Option<(usize, usize)> {
    let [begin, end] = marks(name);
    let from = page.find(&begin)? + begin.len();
    Some((from, from + page[from..].find(&end)?))
}

/// Makes sure, before a long run, that a page has all marks.
///
/// # Errors
/// A [`Refusal`] that names what is missing.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let refuse = |why: String| Refusal::new(format!("cannot write tables into {}: {why}", path.display()));
    let page = fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    for (name, _) in BLOCKS {
        place(&page, name).ok_or_else(|| refuse(format!("it lacks the marks {}", marks(name).join(" and "))))?;
    }
    Ok(())
}

/// Writes the tables of a report into a page.
///
/// # Errors
/// If the page cannot be read or written.
pub fn write(path: &Path, report: &Report) -> anyhow::Result<()> {
    let told = || path.display().to_string();
    let page = fs::read_to_string(path).with_context(told)?;
    fs::write(path, written(&page, report.figures())).with_context(told)
}

fn written(page: &str, figures: &Figures) -> String {
    let mut page = page.to_owned();
    for (name, table) in BLOCKS {
        let table = table(figures);
        if let Some((from, to)) = place(&page, name).filter(|_| !table.rows.is_empty()) {
            page.replace_range(from..to, &format!("\n{}", table.markdown()));
        }
    }
    page
}

/// Reads the figures of an earlier run, as `--json` has written them.
///
/// # Errors
/// A [`Refusal`] if it is not such a file.
pub fn read_figures(path: &Path) -> anyhow::Result<Figures> {
    let refuse = |why: String| Refusal::new(format!("cannot read figures from {}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    let json: serde_json::Value = serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
    if json["bench"] != "lookingglass" {
        return Err(refuse("they are not of this benchmark".to_owned()).into());
    }
    let figures = json["figures"].as_object().ok_or_else(|| refuse("there are none".to_owned()))?;
    Ok(figures.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect())
}

impl PageTable {
    fn new(header: &[&str]) -> PageTable {
        PageTable { header: header.iter().map(ToString::to_string).collect(), rows: Vec::new() }
    }

    fn markdown(&self) -> String {
        let mut text = String::new();
        let rules = std::iter::once("---").chain(std::iter::repeat("---:")).take(self.header.len());
        let rules: Vec<&str> = rules.collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {} |\n|{}|", self.header.join(" | "), rules.join("|"));
        for row in &self.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text
    }
}

fn of_goals(figures: &Figures) -> PageTable {
    let rows = goals::rows(figures).into_iter().map(Vec::from).collect();
    PageTable { rows, ..PageTable::new(&["", "measured", "goal", ""]) }
}

/// Returns the rungs of both servers, each with the begin of its figures' names and its title.
fn rungs() -> Vec<(String, String)> {
    let of = |prefix: &'static str, server: &'static str| {
        RUNGS.iter().map(move |rung| (format!("{prefix}{}", rung.key), format!("{server}, {}", rung.title)))
    };
    of("", "Overtake").chain(of("postgres_", "PostgreSQL 15")).collect()
}

fn new_order(figures: &Figures) -> PageTable {
    let mut table = PageTable::new(&[
        "",
        "per s",
        "server",
        "in the kernel",
        "of it workers",
        "clients",
        "in the kernel",
        "server busy",
        "clients busy",
        "",
    ]);
    for (key, title) in rungs() {
        let of = |what: &str| figures.get(&format!("glass.new_order.{key}.{what}")).copied();
        if let Some(per_s) = of("per_s") {
            let percent =
                |what: &str| of(what).map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", 100.0 * share));
            let mut row = vec![title, number(per_s)];
            row.extend(
                ["cpu_us", "kernel_us", "worker_us", "client_cpu_us", "client_kernel_us"].map(|what| cell(of(what))),
            );
            row.extend(["server_busy", "client_busy"].map(percent));
            row.push(mark(of("saturated"), of("client_busy")).to_owned());
            table.rows.push(row);
        }
    }
    table
}

fn mark(saturated: Option<f64>, client_busy: Option<f64>) -> &'static str {
    match (saturated, client_busy) {
        (Some(0.0), Some(busy)) if super::usage::SATURATED <= busy => "client-bound",
        (Some(0.0), _) => "server-idle",
        _ => "",
    }
}

fn stages(figures: &Figures) -> PageTable {
    const COLUMNS: [(&str, &[&str]); 7] = [
        ("network read", &["network_read"]),
        ("decode, encode", &["decode", "encode"]),
        ("parse, plan", &["parse", "plan", "plan_cached"]),
        ("run", &["run"]),
        ("crossing", &["crossing"]),
        ("network write", &["network_write"]),
        ("unattributed", &["unattributed", "outside"]),
    ];
    let mut header = vec![""];
    header.extend(COLUMNS.map(|(name, _)| name));
    header.extend(["workers", "all"]);
    let mut table = PageTable::new(&header);
    let works = [("glass.new_order", "New-Order"), ("glass.kv.10", "10 calls"), ("glass.kv.40", "40 calls")];
    let rungs = works.iter().flat_map(|(key, work)| RUNGS.iter().map(move |rung| (*key, *work, rung)));
    let points = POINTS.iter().map(|rung| ("glass.point", "a look-up", rung));
    for (key, work, rung) in rungs.chain(points) {
        let of = |what: &str| figures.get(&format!("{key}.{}.{what}", rung.key)).copied();
        let Some(all) = of("cpu_us") else { continue };
        let outside_us = of("stage.outside_us").unwrap_or(0.0);
        let own = |stage: &&str| of(&format!("stage.{stage}_us")).map(|us| own_us(stage, us, outside_us));
        let sum = |stages: &[&str]| stages.iter().filter_map(own).sum::<f64>();
        let mut row = vec![format!("{work}, {}", rung.title)];
        row.extend(COLUMNS.map(|(_, stages)| number(sum(stages))));
        row.extend([cell(of("worker_us")), number(all)]);
        table.rows.push(row);
    }
    table
}

fn key_value(figures: &Figures) -> PageTable {
    let header: Vec<String> = CALLS.iter().map(|calls| format!("{calls} calls").replace("1 calls", "1 call")).collect();
    let header: Vec<&str> = std::iter::once("").chain(header.iter().map(String::as_str)).collect();
    let mut table = PageTable::new(&header);
    for (key, title) in rungs() {
        let us = CALLS.map(|calls| figures.get(&format!("glass.kv.{calls}.{key}.cpu_us")).copied());
        if us.iter().any(Option::is_some) {
            table.rows.push(std::iter::once(title).chain(us.map(cell)).collect());
        }
    }
    table
}

fn of_calls(figures: &Figures) -> PageTable {
    let header =
        ["", "same core", "beyond native", "other core, blocking", "beyond native", "polling", "beyond native"];
    let mut table = PageTable::new(&header);
    for (title, names) in calls::names() {
        let values = names.map(|name| figures.get(&name).copied());
        if values.iter().any(Option::is_some) {
            table.rows.push(std::iter::once(title.to_owned()).chain(values.map(cell)).collect());
        }
    }
    table
}

fn transports(figures: &Figures) -> PageTable {
    let mut table = PageTable::new(&["", "per s", "server", "times TCP", "in the kernel", "clients", "server busy"]);
    const COLUMNS: [&str; 6] = ["per_s", "cpu_us", "cpu_times_tcp", "kernel_us", "client_cpu_us", "server_busy"];
    let prefix = "glass.transport.";
    let transports = [("tcp", "TCP"), ("io_uring", "io_uring"), ("unix", "unix socket"), ("shared", "shared memory")];
    for clients in CLIENTS {
        for rung in &POINTS {
            for (key, title) in transports {
                let of = |what| figures.get(&format!("{prefix}{clients}.{}.{key}.{what}", rung.key)).copied();
                let values = COLUMNS.map(of);
                if values.iter().any(Option::is_some) {
                    let title = format!("{clients} clients, {}: {title}", rung.title).replace("1 clients", "1 client");
                    table.rows.push(std::iter::once(title).chain(values.map(cell)).collect());
                }
            }
        }
    }
    table
}

/// Returns the table of urgent calls beside queries: times at the client, and the starts of those that were handed over.
fn urgent(figures: &Figures) -> PageTable {
    let mut table = PageTable::new(&["", "p50", "p99"]);
    let ways = urgent::titles().into_iter().map(|(key, title)| (format!("{key}."), format!("at the client: {title}")));
    let starts = [("signal_", "start: the signal rung alone"), ("start_", "start: urgent calls, from the hand-over")];
    for (key, title) in ways.chain(starts.map(|(key, title)| (key.to_owned(), title.to_owned()))) {
        let us = ["p50", "p99"].map(|quantile| figures.get(&format!("glass.urgent.{key}{quantile}_us")).copied());
        if us.iter().any(Option::is_some) {
            table.rows.push(std::iter::once(title).chain(us.map(cell)).collect());
        }
    }
    table
}

fn over_xdp(figures: &Figures) -> PageTable {
    let mut table = PageTable::new(&["", "per s", "p99", "server's calls", "clients' calls", "both, times TCP"]);
    let of_clients =
        |clients: u32| (clients.to_string(), format!("{clients} clients").replace("1 clients", "1 client"));
    let with_loss = (xdp::LOSS.to_owned(), xdp::loss_title());
    for (part, clients) in xdp::CLIENTS.map(of_clients).into_iter().chain([with_loss]) {
        let of = |key: &str, what: &str| figures.get(&format!("glass.xdp.{part}.{key}.{what}")).copied();
        let calls = |key| Some(of(key, "calls_us")? + of(key, "client_calls_us")?);
        let tcp = calls(xdp::SIDES[0].0);
        for (key, title) in xdp::SIDES {
            let [per_s, p99, server, client] =
                ["per_s", "p99_us", "calls_us", "client_calls_us"].map(|what| of(key, what));
            let values = [per_s, p99, server, client, calls(key).zip(tcp).map(|(calls, tcp)| calls / tcp)];
            if values.iter().any(Option::is_some) {
                table.rows.push(std::iter::once(format!("{clients}: {title}")).chain(values.map(cell)).collect());
            }
        }
    }
    table
}

fn levels(figures: &Figures) -> PageTable {
    let header = ["", "server µs", "attacks stopped", "lines in Rust", "lines in TypeScript"];
    let mut table = PageTable::new(&header);
    for step in STEPS {
        let values = step.values(figures);
        if values.cost_us.is_some() || values.lines.iter().any(Option::is_some) {
            let mut row = vec![step.title.to_owned(), cell(values.cost_us), attacks_cell(values.attacks)];
            row.extend(values.lines.map(cell_of_count));
            table.rows.push(row);
        }
    }
    table
}

/// Returns the table that ends the page: which level for whom, at what cost.
fn decision(figures: &Figures) -> PageTable {
    let header = ["level", "for", "a New-Order, server µs", "New-Orders per s", "a call beyond native, µs"];
    let mut table = PageTable::new(&header);
    for step in STEPS {
        let of = |name: String| figures.get(&name).copied();
        let values = [
            step.values(figures).cost_us,
            of(format!("glass.new_order.{}.per_s", step.key)),
            of(format!("glass.call.{}_beyond_native_us", step.key)),
        ];
        // A level that the run did not show keeps its advice: a dash is no cost.
        table.rows.push([step.title.to_owned(), step.advice.to_owned()].into_iter().chain(values.map(cell)).collect());
    }
    if STEPS.iter().all(|step| step.values(figures).cost_us.is_none()) {
        table.rows.clear();
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> String {
        let block = |(name, _): Block| marks(name).join("\nold\n");
        BLOCKS.map(block).join("\nbetween\n")
    }

    #[test]
    fn tables_without_figures_stay() {
        assert_eq!(written(&page(), &Figures::new()), page());
    }

    #[test]
    fn tables_are_written_between_their_marks() {
        let figures = Figures::from([
            ("glass.kv.1.wasm.cpu_us".to_owned(), 17.4),
            ("glass.kv.40.postgres_plpgsql.cpu_us".to_owned(), 371.0),
        ]);
        let text = written(&page(), &figures);
        let table = "<!-- glass key-value: begin -->\n|  | 1 call | 10 calls | 40 calls |\n|---|---:|---:|---:|\n\
                     | Overtake, stored, wasm | 17.4 | – | – |\n\
                     | PostgreSQL 15, stored, PL/pgSQL | – | – | 371 |\n<!-- glass key-value: end -->";
        assert!(text.contains(table), "{text}");
        // The other tables are as they were, and so is the text between.
        assert_eq!(text.matches("\nold\n").count(), BLOCKS.len() - 1);
        assert_eq!(written(&text, &figures), text, "writing again changes nothing");
    }

    #[test]
    fn rows_that_miss_saturation_are_marked() {
        assert_eq!(mark(Some(1.0), Some(0.5)), "");
        assert_eq!(mark(Some(0.0), Some(0.5)), "server-idle");
        assert_eq!(mark(Some(0.0), Some(0.96)), "client-bound");
    }

    #[test]
    fn the_page_has_all_marks() {
        let page = include_str!("../../../../docs/benchmarks.md");
        for (name, _) in BLOCKS {
            assert!(place(page, name).is_some(), "{name}");
        }
        assert!(check(Path::new("/nonexistent")).is_err());
    }
}
