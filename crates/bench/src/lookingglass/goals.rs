//! Ratios that Overtake aims at, beside what was measured.

use crate::report::{Report, TextTable, number};
use std::collections::BTreeMap;

/// Bound of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

use Bound::{AtLeast, AtMost};

/// Value with its goal.
struct Goal {
    /// Name of the figure, or of one that is divided by the next.
    figure: &'static str,
    divisor: Option<&'static str>,
    words: &'static str,
    bound: Bound,
}

const fn goal(figure: &'static str, words: &'static str, bound: Bound) -> Goal {
    Goal { figure, divisor: None, words, bound }
}

const GOALS: [Goal; 30] = [
    goal("glass.new_order.stored_times", "New-Order: stored in SQL over interactive, rate", AtLeast(5.0)),
    goal("glass.new_order.native_times", "New-Order: native over interactive, rate", AtLeast(8.0)),
    goal("glass.new_order.wasm_times", "New-Order: wasm over native, rate", AtLeast(0.9)),
    goal("glass.new_order.native_of_tpcc", "New-Order: native over bench tpcc's, in process", AtLeast(0.95)),
    goal("glass.call.wasm_beyond_native_us", "a call: wasm beyond native, us", AtMost(0.1)),
    goal("glass.call.process_beyond_native_us", "a call: process beyond native, polling, us", AtMost(1.0)),
    goal("glass.call.wasm_batch_crossing_times", "crossing: batch of 10 over one call, wasm", AtMost(2.0)),
    goal("glass.call.process_batch_crossing_times", "crossing: batch of 10 over one call, process", AtMost(2.0)),
    goal("glass.call.container_batch_crossing_times", "crossing: batch of 10 over one call, container", AtMost(2.0)),
    goal("glass.call.gvisor_batch_crossing_times", "crossing: batch of 10 over one call, gvisor", AtMost(2.0)),
    goal("glass.call.vm_batch_crossing_times", "crossing: batch of 10 over one call, vm", AtMost(2.0)),
    goal("glass.point.pipelined_over_unpipelined", "look-ups: 16 on the way over 1, server time", AtMost(0.2)),
    goal(
        "glass.transport.64.depth_1.io_uring.cpu_times_tcp",
        "io_uring over epoll, 64 clients, depth 1",
        AtMost(0.952),
    ),
    goal(
        "glass.transport.64.depth_16.io_uring.cpu_times_tcp",
        "io_uring over epoll, 64 clients, depth 16",
        AtMost(1.05),
    ),
    goal("glass.transport.16.depth_1.io_uring.cpu_times_tcp", "io_uring over epoll, 16 clients, depth 1", AtMost(1.05)),
    goal(
        "glass.transport.16.depth_16.io_uring.cpu_times_tcp",
        "io_uring over epoll, 16 clients, depth 16",
        AtMost(1.05),
    ),
    goal("glass.transport.1.depth_1.io_uring.cpu_times_tcp", "io_uring over epoll, 1 client, depth 1", AtMost(1.05)),
    goal("glass.transport.1.depth_16.io_uring.cpu_times_tcp", "io_uring over epoll, 1 client, depth 16", AtMost(1.05)),
    goal("glass.transport.64.depth_1.shared.cpu_times_tcp", "shared memory over TCP, 64 clients, depth 1", AtMost(0.7)),
    goal(
        "glass.transport.64.depth_16.shared.cpu_times_tcp",
        "shared memory over TCP, 64 clients, depth 16",
        AtMost(0.7),
    ),
    Goal {
        figure: "glass.transport.1.depth_1.shared.per_s",
        divisor: Some("glass.transport.1.depth_1.tcp.per_s"),
        words: "shared memory over TCP, 1 client, rate",
        bound: AtLeast(3.0),
    },
    goal("glass.xdp.calls_times_tcp", "AF_XDP over TCP, 64 clients, time in calls of the kernel", AtMost(0.8)),
    goal("glass.xdp.p99_times_tcp", "AF_XDP over TCP, 64 clients, p99", AtMost(1.0)),
    goal("glass.urgent.start_p50_times_signal", "urgent call: start over the signal rung's, p50", AtMost(1.5)),
    goal("glass.urgent.start_p99_times_signal", "urgent call: start over the signal rung's, p99", AtMost(4.0)),
    goal("glass.urgent.claimed_percent", "urgent calls that were claimed, %", AtMost(2.0)),
    goal("glass.clock.calibrated_percent", "stage clock: stamps by their cost, %", AtMost(1.0)),
    goal("glass.clock.overhead_high_percent", "stage clock: end of the 95 % interval, %", AtMost(2.0)),
    goal("glass.clock.depth_16.calibrated_percent", "stage clock, 16 on the way: stamps by their cost, %", AtMost(1.0)),
    goal(
        "glass.clock.depth_16.overhead_high_percent",
        "stage clock, 16 on the way: end of the interval, %",
        AtMost(2.0),
    ),
];

impl Bound {
    fn is_met(self, value: f64) -> bool {
        match self {
            AtLeast(least) => least <= value,
            AtMost(most) => value <= most,
        }
    }

    fn words(self) -> String {
        match self {
            AtLeast(least) => format!("at least {least}"),
            AtMost(most) => format!("at most {most}"),
        }
    }
}

impl Goal {
    fn value(&self, figures: &BTreeMap<String, f64>) -> Option<f64> {
        let value = *figures.get(self.figure)?;
        match self.divisor {
            None => Some(value),
            Some(divisor) => Some(value / figures.get(divisor)?),
        }
    }
}

/// Returns the goals of which there are figures: words, value, goal, verdict.
pub fn rows(figures: &BTreeMap<String, f64>) -> Vec<[String; 4]> {
    let row = |goal: &Goal| {
        let value = goal.value(figures)?;
        let verdict = if goal.bound.is_met(value) { "met" } else { "missed" };
        Some([goal.words.to_owned(), number(value), goal.bound.words(), verdict.to_owned()])
    };
    GOALS.iter().filter_map(row).collect()
}

/// Adds the table of goals.
pub fn fill(report: &mut Report) {
    let rows = rows(report.figures());
    if rows.is_empty() {
        return;
    }
    let mut table = TextTable::new("Ratios and goals", &["", "measured", "goal", ""]);
    rows.into_iter().for_each(|row| table.row(row));
    report.table(table);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_met_or_missed() {
        let figures = BTreeMap::from([
            ("glass.new_order.stored_times".to_owned(), 5.0),
            ("glass.call.wasm_beyond_native_us".to_owned(), 0.11),
            ("glass.transport.1.depth_1.shared.per_s".to_owned(), 50.0),
            ("glass.transport.1.depth_1.tcp.per_s".to_owned(), 10.0),
        ]);
        let rows = rows(&figures);
        let verdicts: Vec<[&str; 3]> = rows.iter().map(|[_, value, goal, verdict]| [&**value, goal, verdict]).collect();
        let expected =
            [["5.00", "at least 5", "met"], ["0.110", "at most 0.1", "missed"], ["5.00", "at least 3", "met"]];
        assert_eq!(verdicts, expected);
    }
}
