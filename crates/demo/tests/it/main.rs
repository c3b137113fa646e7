//! Integration tests: the interface over sockets and the page in a browser, both against a fake.

#![allow(
    clippy::unwrap_used,
    reason = "a test may panic; clippy sees tests only by their attribute, which this harness lacks"
)]

mod ctrl_c;
mod fake;
mod http;
mod page;

use std::process::ExitCode;

use testkit::{case, test};

fn main() -> ExitCode {
    if !demo::chromium::is_installed() {
        eprintln!("\n*** SKIPPED: every test of the page in a browser. {} ***\n", demo::chromium::CheckError::Missing);
    }
    testkit::main(
        env!("CARGO_PKG_NAME"),
        &[
            test!(http::every_file_is_served),
            test!(http::commands_reach_the_demo),
            test!(http::bad_requests_are_refused_in_words),
            test!(http::foreign_pages_are_refused),
            test!(http::the_stream_tells_and_ends),
            test!(http::a_slow_page_holds_up_nobody),
            test!(http::pages_are_limited),
            test!(http::the_load_stops_without_viewers),
            test!(ctrl_c::one_ends_it_cleanly),
            case!(ctrl_c::one),
            test!(ctrl_c::a_second_ends_it_at_once),
            case!(ctrl_c::many),
            test!(page::the_page_works),
            test!(page::the_page_loads_and_comes_back),
        ],
    )
}
