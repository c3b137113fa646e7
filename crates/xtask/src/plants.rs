//! Planted bugs: a test that cannot fail proves nothing.
//!
//! **Invariant:** each plant's test is green without the plant and red with it; a test binary that cannot be built, or
//! in which another test fails in place of the named one, is no proof. A package is built once: its build has all bugs, and
//! each process shows the one that it is told.

use anyhow::{Context, bail, ensure};
use std::path::PathBuf;
use std::process::Command;

/// Deliberate bug, and the test that must notice it.
struct Plant {
    /// Name in the code, for which `preempt::plants::is_planted` is true.
    bug: &'static str,
    package: &'static str,
    /// Integration test that turns red, by the name that its test binary prints.
    test: &'static str,
}

const PLANTS: [Plant; 15] = [
    Plant { bug: "allocator_guard_off", package: "preempt", test: "heap::the_guard_covers_the_process" },
    Plant { bug: "pending_bit_lost", package: "preempt", test: "regions::only_the_outermost_end_serves" },
    Plant { bug: "conflict_check_skipped", package: "engine", test: "conflicts::a_lost_update_is_prevented" },
    Plant { bug: "recheck_skipped", package: "engine", test: "conflicts::keys_move_between_rows" },
    Plant { bug: "pruned_early", package: "engine", test: "prune::every_snapshot_sees_its_own_state" },
    Plant { bug: "absent_key_unchecked", package: "engine", test: "serial::write_skew_by_absent_keys_is_refused" },
    Plant {
        bug: "pivot_committed_unchecked",
        package: "engine",
        test: "serial::the_last_of_a_dangerous_structure_is_refused",
    },
    Plant {
        bug: "passing_key_unchecked",
        package: "engine",
        test: "serial::a_key_that_was_had_for_a_while_is_a_dependency",
    },
    Plant { bug: "dropped_early", package: "engine", test: "drops::a_dropped_table_is_used_on" },
    Plant { bug: "wakeup_lost", package: "engine", test: "waits::a_commit_wakes_who_waits" },
    Plant { bug: "log_sync_skipped", package: "wal", test: "crashes_lose_nothing" },
    Plant { bug: "folder_sync_skipped", package: "wal", test: "crashes_between_old_and_new_segments_lose_nothing" },
    Plant { bug: "lost_flush_left", package: "wal", test: "crashes_in_recoveries_lose_nothing" },
    Plant { bug: "log_end_trusted", package: "wal", test: "faults_lose_nothing" },
    Plant { bug: "early_wake_up_lost", package: "sched", test: "parking::a_wake_up_before_the_end_of_the_run_counts" },
];

/// Runs each plant's test without and with the plant.
///
/// # Errors
/// If a test is red without its plant, or green with it.
pub fn run() -> anyhow::Result<()> {
    check_without_plants()?;
    let mut unnoticed = 0;
    for plant in &PLANTS {
        let output = test(plant.package, &[plant.test], Some(plant.bug))?;
        let noticed = shows(&output, plant.test, "FAILED");
        println!("plant {}: {} of {} {}", plant.bug, plant.test, plant.package, verdict(noticed));
        if !noticed {
            unnoticed += 1;
            println!("{output}");
        }
    }
    let failed = if unnoticed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {failed}. {} passed; {unnoticed} failed", PLANTS.len() - unnoticed);
    if 0 < unnoticed {
        bail!("{unnoticed} planted bugs were not noticed");
    }
    Ok(())
}

/// Runs all tests of a package at once, without a planted bug.
fn check_without_plants() -> anyhow::Result<()> {
    for plants in PLANTS.chunk_by(|one, next| one.package == next.package) {
        let tests: Vec<&str> = plants.iter().map(|plant| plant.test).collect();
        let output = test(plants[0].package, &tests, None)?;
        for Plant { package, test, .. } in plants {
            ensure!(shows(&output, test, "ok"), "{package} has no green test {test}:\n{output}");
            ensure!(!shows(&output, test, "FAILED"), "{test} is red without any planted bug:\n{output}");
        }
    }
    Ok(())
}

fn verdict(noticed: bool) -> &'static str {
    if noticed { "turned red, as it must" } else { "DID NOT NOTICE" }
}

/// Builds and runs tests of a package, and returns their output. The exit status says too little: one test alone may be
/// too short for a storm, which is red for the whole binary.
fn test(package: &str, tests: &[&str], bug: Option<&str>) -> anyhow::Result<String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--profile", "plants", "--package", package, "--test", "it", "--"]).args(tests);
    // The folder is separate, so that a planted build never replaces an artefact that another command uses.
    cargo.env("CARGO_TARGET_DIR", target_directory().join("plants"));
    cargo.env("OVERTAKE_PLANT", "chosen");
    match bug {
        Some(bug) => cargo.env("PLANTED_BUG", bug),
        None => cargo.env_remove("PLANTED_BUG"),
    };
    let output = cargo.output().context("cargo cannot be started")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

/// Returns cargo's target folder.
pub fn target_directory() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => PathBuf::from(directory),
        // Cargo sets this variable for programs that it runs.
        None => PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../target"),
    }
}

/// Returns true if a test binary's output gives this verdict for the test, plain or under the storm.
fn shows(output: &str, test: &str, verdict: &str) -> bool {
    output.lines().any(|line| {
        let Some(rest) = line.strip_prefix("test ").and_then(|rest| rest.strip_prefix(test)) else { return false };
        let rest = rest.strip_prefix(" (storm)").unwrap_or(rest);
        rest.strip_prefix(" ... ").is_some_and(|found| found.split_whitespace().next() == Some(verdict))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read_from_a_line_of_the_test_itself() {
        let output = "test a::b ... ok\ntest a::b (storm) ... FAILED\ntest a::bc ... FAILED\n";
        assert!(shows(output, "a::b", "ok"));
        assert!(shows(output, "a::b", "FAILED"));
        assert!(!shows(output, "a::bc", "ok"));
        assert!(!shows(output, "a", "ok"));
    }
}
