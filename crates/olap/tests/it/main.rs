//! Integration tests: SQL over an engine, on workers that the storm interrupts.

mod answers;
mod ch;
mod ending;
mod pushdown;
mod sees;
mod support;
mod threads;

use std::process::ExitCode;
use testkit::test;

fn main() -> ExitCode {
    testkit::main(
        env!("CARGO_PKG_NAME"),
        &[
            test!(answers::every_value_of_all_22_queries),
            test!(ch::every_value_of_all_22_queries),
            test!(ending::cancelled_within_a_few_batches),
            test!(ending::cancelled_within_a_batch),
            test!(ending::a_panic_is_an_error_of_its_query),
            test!(ending::out_of_memory_is_an_error_of_its_query),
            test!(ending::a_runtime_that_stops_ends_its_queries),
            test!(ending::only_queries_are_prepared),
            test!(pushdown::conditions_leave_blocks_out_and_nothing_else),
            test!(sees::hot_rows_are_the_rows_that_transactions_read),
            test!(sees::a_query_sees_its_snapshot_only),
            test!(sees::count_looks_at_the_rows),
            test!(sees::frozen_and_hot_rows_in_many_partitions),
            test!(threads::hooks_see_exactly_the_workers),
            test!(threads::a_query_ends_on_a_worker),
        ],
    )
}
