//! Integration tests of `top`: a real gate in front of our own engine, queried over a socket.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod looks;

use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::main(
        env!("CARGO_PKG_NAME"),
        &[
            testkit::test!(looks::the_gate_is_seen),
            testkit::test!(looks::text_and_json_are_written),
            testkit::test!(looks::a_lost_connection_is_found_again),
            testkit::test!(looks::who_is_no_gate_is_told),
            testkit::test!(looks::a_connection_is_encrypted_if_it_can_be),
        ],
    )
}
