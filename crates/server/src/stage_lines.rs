//! Views of the stage clock, for SQL and the console.

use stage::Stage;
use stage::observe::{Observe, RunPartRow, StageRow, StatementRow};
use types::table::{NamedRows, ProvidedTable, count, ms};
use types::{Datum, Kind};

/// Definitions of the views.
pub fn tables() -> [ProvidedTable; 4] {
    use Kind::{Bool, Float8, Int8, Text};
    [
        ProvidedTable::new(
            "stages",
            "Stages of statements, by class, transport and isolation level: where their time goes.",
            &[
                ("class", Text, "Class of the statements."),
                (
                    "transport",
                    Text,
                    "Transport of their sessions: `tcp`, `unix`, `tls`, `shared`, `io_uring` or `af_xdp`.",
                ),
                (
                    "isolation",
                    Text,
                    "Strongest isolation level of the stored code that they call; `none` if they call none.",
                ),
                ("stage", Text, "Stage."),
                ("is_waiting", Bool, "True if the statement needs no processor in this stage."),
                ("count", Int8, "Number of statements that have passed the stage."),
                ("total_ms", Float8, "Sum of the times."),
                ("p50_ms", Float8, "Median of the times."),
                ("p99_ms", Float8, "99th percentile of the times."),
                ("p999_ms", Float8, "99.9th percentile of the times."),
                ("max_ms", Float8, "Maximum of the times."),
                ("share", Float8, "Share of the time of all stages of the same class, transport and level, 0 to 1."),
                (
                    "overhead",
                    Float8,
                    "Cost of the clock as a share of the time in the stages that need a processor, of the same class, \
                     transport and level, 0 to 1.",
                ),
            ],
        ),
        ProvidedTable::new(
            "run_parts",
            "Parts of the stage `run`, by class, transport and isolation level, as measured on one transaction in 64.",
            &[
                ("class", Text, "Class of the statements."),
                (
                    "transport",
                    Text,
                    "Transport of their sessions: `tcp`, `unix`, `tls`, `shared`, `io_uring` or `af_xdp`.",
                ),
                (
                    "isolation",
                    Text,
                    "Strongest isolation level of the stored code that they call; `none` if they call none.",
                ),
                ("part", Text, "`index`, `versions`, `latching`, `commit` or `other`."),
                ("sampled", Int8, "Number of statements that were measured."),
                ("sampled_ms", Float8, "Sum of the times that were measured."),
                ("share", Float8, "Share of the part in the runs that were measured, 0 to 1."),
                ("total_ms", Float8, "Estimate for all runs: this share of the stage `run`."),
            ],
        ),
        ProvidedTable::new(
            "stage_clock",
            "The stage clock itself, in one row.",
            &[
                ("source", Text, "Source of its time: `tsc` or `monotonic`."),
                ("stamp_ns", Float8, "Cost of a stamp in nanoseconds, as measured at the start."),
                ("reading_ns", Float8, "Cost of reading the processor time of a thread, in nanoseconds."),
                ("booking_ns", Float8, "Cost of adding the stages of a statement to the sums, in nanoseconds."),
                ("stamps", Int8, "Number of stamps."),
                ("readings", Int8, "Number of readings of the processor time."),
                ("bookings", Int8, "Number of statements whose stages were added."),
                ("work_ms", Float8, "Time in the stages that need a processor."),
                ("overhead", Float8, "Cost of all of these as a share of that time, 0 to 1."),
            ],
        ),
        ProvidedTable::new(
            "statement_stages",
            "Stages of statements, by statement.",
            &[
                ("query", Text, "Text of the statement, with parameters in place of literals."),
                ("stage", Text, "Stage."),
                ("is_waiting", Bool, "True if the statement needs no processor in this stage."),
                ("total_ms", Float8, "Sum of the times."),
                ("share", Float8, "Share of the time of all stages of the statement, 0 to 1."),
            ],
        ),
    ]
}

/// Rows of `overtake.stages`.
pub fn lines(stats: &impl Observe) -> NamedRows {
    let row = |row: StageRow| {
        let times = row.times;
        vec![
            ("class", Datum::text(row.class.name())),
            ("transport", Datum::text(row.transport.name())),
            ("isolation", Datum::text(row.isolation.name())),
            ("stage", Datum::text(row.stage.name())),
            ("is_waiting", Datum::Bool(row.stage.is_waiting())),
            ("count", count(times.count)),
            ("total_ms", ms(times.total_us)),
            ("p50_ms", ms(times.p50_us)),
            ("p99_ms", ms(times.p99_us)),
            ("p999_ms", ms(times.p999_us)),
            ("max_ms", ms(times.max_us)),
            ("share", Datum::Float8(row.share)),
            ("overhead", Datum::Float8(row.overhead)),
        ]
    };
    stats.stages().into_iter().map(row).collect()
}

/// Rows of `overtake.run_parts`.
pub fn run_parts(stats: &impl Observe) -> NamedRows {
    let row = |row: RunPartRow| {
        vec![
            ("class", Datum::text(row.class.name())),
            ("transport", Datum::text(row.transport.name())),
            ("isolation", Datum::text(row.isolation.name())),
            ("part", Datum::text(row.part.name())),
            ("sampled", count(row.sampled)),
            ("sampled_ms", ms(row.sampled_us)),
            ("share", Datum::Float8(row.share)),
            ("total_ms", ms(row.total_us)),
        ]
    };
    stats.run_parts().into_iter().map(row).collect()
}

/// Row of `overtake.stage_clock`.
pub fn clock(stats: &impl Observe) -> NamedRows {
    let clock = stats.clock();
    vec![vec![
        ("source", Datum::text(clock.source)),
        ("stamp_ns", Datum::Float8(clock.stamp_ns)),
        ("reading_ns", Datum::Float8(clock.reading_ns)),
        ("booking_ns", Datum::Float8(clock.booking_ns)),
        ("stamps", count(clock.stamps)),
        ("readings", count(clock.readings)),
        ("bookings", count(clock.bookings)),
        ("work_ms", ms(clock.work_us)),
        ("overhead", Datum::Float8(clock.overhead)),
    ]]
}

/// Rows of `overtake.statement_stages`: for each statement, the stages that it has passed.
pub fn of_statements(stats: &impl Observe) -> NamedRows {
    let of = |row: StatementRow| {
        let all = row.us(|_| true);
        let line = move |stage: Stage| {
            let us = row.us(|one| one == stage);
            (0.0 < us).then(|| {
                vec![
                    ("query", Datum::text(&*row.query)),
                    ("stage", Datum::text(stage.name())),
                    ("is_waiting", Datum::Bool(stage.is_waiting())),
                    ("total_ms", ms(us)),
                    ("share", Datum::Float8(us / all)),
                ]
            })
        };
        Stage::ALL.into_iter().filter_map(line)
    };
    stats.statements().into_iter().flat_map(of).collect()
}
