//! The levels beside each other: cost of a New-Order, attacks stopped, lines to change.
//!
//! **Invariant:** everything is read from figures, so that a report of an earlier run's figures draws the same chart.

use super::manual;
use super::programs::{self, ProgramLanguage};
use crate::report::{PanelChart, Report, TextTable, number};
use std::collections::BTreeMap;

/// Step of the ladder.
pub struct Step {
    /// Key of its rung.
    pub key: &'static str,
    /// Title in tables.
    pub title: &'static str,
    /// People whom the level is for, and what it means for them.
    pub advice: &'static str,
}

/// Steps, from the code that is farthest from the data to the strongest walls around code that is beside them. Workers
/// use shared memory.
pub const STEPS: [Step; 9] = [
    Step {
        key: "interactive",
        title: "client",
        advice: "applications as they are; every statement is a round trip, and locks are held meanwhile",
    },
    Step {
        key: "pipelined",
        title: "client, pipelined",
        advice: "applications whose driver pipelines, and whose statements need few answers of each other",
    },
    Step {
        key: "stored_sql",
        title: "SQL",
        advice: "transactions that a few statements say; nothing to build or to deploy",
    },
    Step {
        key: "native",
        title: "`native`",
        advice: "who builds the server: the fastest, but an error in the code is an error of the server",
    },
    Step {
        key: "wasm",
        title: "`wasm`",
        advice: "the usual choice, also for code of tenants: safe, without a process, and `CREATE` on the database \
                 is enough to install it",
    },
    Step {
        key: "process",
        title: "`process`",
        advice: "trusted code in any language that may crash, or that needs files and the network",
    },
    Step {
        key: "container",
        title: "`container`",
        advice: "code of others that cannot be WebAssembly, where the kernel of the host is trusted",
    },
    Step {
        key: "gvisor",
        title: "`gvisor`",
        advice: "the same where that kernel is not to be attacked, on any machine with runsc",
    },
    Step {
        key: "vm",
        title: "`vm`",
        advice: "the same by hardware, for static executables, on machines with KVM; `CREATE` on the database is \
                 enough to install it",
    },
];

/// Values of a step.
pub struct StepValues {
    /// Microseconds of the server's processor time for a New-Order.
    pub cost_us: Option<f64>,
    /// Attacks stopped, and attacks made.
    pub attacks: Option<(f64, f64)>,
    /// Lines to change by language.
    pub lines: [Option<f64>; ProgramLanguage::ALL.len()],
}

impl Step {
    /// Returns the step's values from figures.
    pub fn values(&self, figures: &BTreeMap<String, f64>) -> StepValues {
        let of = |name: String| figures.get(&name).copied();
        let attacks = |what: &str| of(format!("glass.attacks.{}.{what}", self.key));
        StepValues {
            cost_us: of(format!("glass.new_order.{}.cpu_us", self.key)),
            attacks: attacks("stopped").zip(attacks("made")),
            lines: ProgramLanguage::ALL.map(|language| of(format!("glass.lines.{}.{}", language.key(), self.key))),
        }
    }

    /// Returns the title without marks of a page.
    fn plain_title(&self) -> String {
        self.title.replace('`', "")
    }
}

/// Adds the figures that are counted, not measured: changed lines and attacks.
pub fn count(report: &mut Report) {
    let keys = STEPS.map(|step| step.key);
    match programs::count(&keys) {
        Ok(counted) => {
            for ((language, rung), lines) in counted {
                let name = format!("glass.lines.{}.{rung}", language.key());
                report.figure(name.clone(), f64::from(lines.all()));
                report.figure(format!("{name}_added"), f64::from(lines.added));
                report.figure(format!("{name}_removed"), f64::from(lines.removed));
            }
        }
        Err(error) => report.note(format!("Not shown: lines to change: {error:#}.")),
    }
    for step in STEPS {
        if let Some(attacks) = manual::attacks(step.key) {
            report.figure(format!("glass.attacks.{}.stopped", step.key), attacks.stopped as f64);
            report.figure(format!("glass.attacks.{}.made", step.key), attacks.made as f64);
        }
    }
}

/// Adds the table and the chart, if there are figures for them.
pub fn fill(report: &mut Report) {
    let with_values = |step: Step| {
        let values = step.values(report.figures());
        (step, values)
    };
    let all: Vec<(Step, StepValues)> = STEPS.into_iter().map(with_values).collect();
    if all.iter().all(|(_, values)| values.cost_us.is_none() && values.lines.iter().all(Option::is_none)) {
        return;
    }
    let native_us = all.iter().find(|(step, _)| step.key == "native").and_then(|(_, values)| values.cost_us);
    let header = ["", "server µs", "times native", "attacks stopped", "lines in Rust", "lines in TypeScript"];
    let mut table = TextTable::new("Levels: cost of a New-Order, attacks stopped, lines to change", &header);
    let mut chart = PanelChart::new("Levels of isolation, New-Order");
    chart.panel("server µs a New-Order", true);
    chart.panel("attacks stopped", false);
    chart.panel("lines to change, Rust", false);
    chart.panel("lines to change, TypeScript", false);
    for (step, values) in &all {
        let [rust, typescript] = values.lines;
        let times = values.cost_us.zip(native_us).map(|(us, native)| us / native);
        table.row([
            step.plain_title(),
            cell(values.cost_us),
            cell(times),
            attacks_cell(values.attacks),
            cell_of_count(rust),
            cell_of_count(typescript),
        ]);
        let of_count = |count: Option<f64>| count.map(|count| (count, format!("{count:.0}")));
        chart.row(
            step.plain_title(),
            [
                values.cost_us.map(|us| (us, number(us))),
                values.attacks.map(|(stopped, made)| (stopped, format!("{stopped:.0} of {made:.0}"))),
                of_count(rust),
                of_count(typescript),
            ],
        );
    }
    report.table(table);
    report.chart(chart);
    report.note(
        "Lines to change: added and removed lines by git diff --numstat, from the interactive New-Order in the same \
         language, its caller and the definitions in SQL included (sdk/new-order). Attacks: the table in \
         docs/procedures.md, which a test writes. A dash: code at the client and in SQL is not attacked, linked code is \
         the server, and not all languages run at all levels.",
    );
}

/// Returns the text of a value, or a dash.
pub fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), number)
}

/// Returns the text of a number of things, or a dash.
pub fn cell_of_count(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.0}"))
}

/// Returns the text of attacks, or a dash.
pub fn attacks_cell(attacks: Option<(f64, f64)>) -> String {
    attacks.map_or_else(|| "–".to_owned(), |(stopped, made)| format!("{stopped:.0} of {made:.0}"))
}

#[cfg(test)]
mod tests {
    use super::super::rungs::RUNGS;
    use super::*;
    use crate::report::Machine;

    #[test]
    fn steps_are_rungs() {
        for step in STEPS {
            assert!(RUNGS.iter().any(|rung| rung.key == step.key), "{}", step.key);
        }
    }

    #[test]
    fn values_are_those_of_the_figures() {
        let mut report = Report::new("lookingglass", &(), Machine::read()).expect("nothing has a form");
        fill(&mut report);
        assert!(!report.to_string().contains("Levels:"), "there is nothing to show");
        count(&mut report);
        report.figure("glass.new_order.native.cpu_us", 10.0);
        report.figure("glass.new_order.wasm.cpu_us", 25.0);
        let [.., wasm, _, _, _, _] = STEPS;
        let values = wasm.values(report.figures());
        assert_eq!((wasm.key, values.cost_us), ("wasm", Some(25.0)));
        assert!(values.attacks.is_some_and(|(stopped, made)| 0.0 < stopped && stopped <= made));
        assert!(values.lines[0].is_some_and(|lines| 20.0 < lines));
        fill(&mut report);
        let text = report.to_string();
        let line = text.lines().find(|line| line.trim_start().starts_with("wasm ")).expect("a row");
        assert!(line.contains("25.0") && line.contains("2.50"), "{line}");
    }
}
