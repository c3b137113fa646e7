//! Integration tests: the console over sockets and in a browser, with fake rows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fake;
mod http;
mod page;

use std::process::ExitCode;

fn main() -> ExitCode {
    if !web::chromium::is_installed() {
        eprintln!("\n*** SKIPPED: every test of the page in a browser. {} ***\n", web::chromium::CheckError::Missing);
    }
    testkit::main(
        env!("CARGO_PKG_NAME"),
        &[
            testkit::test!(http::files_and_looks_are_served),
            testkit::test!(http::foreign_pages_are_refused),
            testkit::test!(http::a_forecast_serves_all_pages),
            testkit::test!(page::the_console_works),
            testkit::test!(page::without_a_gate_it_says_what_to_do),
            testkit::test!(page::it_comes_back),
        ],
    )
}
