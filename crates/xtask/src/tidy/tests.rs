//! Tests of the repository's files in their present state.

use super::source::root;
use super::{layers, source};
use std::collections::BTreeSet;
use std::process::Command;

/// Maximum number of lines of a file: a longer one has two ideas in it.
const LINES_MAX: usize = 800;

/// Returns the files with this extension below `crates`, as (path from the root, text).
fn sources(extension: &str) -> Vec<(String, String)> {
    source::sources(extension).into_iter().map(|source| (source.name, source.text)).collect()
}

/// Fails with the names of all offenders at once.
fn assert_none(offenders: &[String], rule: &str) {
    assert!(offenders.is_empty(), "{rule}:\n  {}", offenders.join("\n  "));
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> = sources("rs")
        .into_iter()
        .map(|(name, text)| (name, text.lines().count()))
        .filter(|(_, lines)| LINES_MAX < *lines)
        .map(|(name, lines)| format!("{name}: {lines} lines"))
        .collect();
    assert_none(&long, "a file over 800 lines has a second idea in it: split it");
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    let without: Vec<String> = sources("toml")
        .into_iter()
        .filter(|(name, text)| name.ends_with("/Cargo.toml") && !text.contains("[lints]\nworkspace = true\n"))
        .map(|(name, _)| name)
        .collect();
    assert_none(&without, "these crates lack `[lints] workspace = true`");
}

#[test]
fn unsafe_stays_in_its_rooms() {
    // The workspace lint `unsafe_code = "deny"` finds the code; this test finds files that switch the lint off.
    // The other side of memory that two programs share is unsafe, too.
    let shared = [
        "crates/guest/src/heap.rs",
        "crates/guest/src/shared.rs",
        "crates/guest/src/wasm.rs",
        "crates/guest/tests/it/memory.rs",
        "crates/procs-vm/monitor/kernel.rs",
        "crates/procs-vm/monitor/kvm.rs",
        "crates/procs-vm/monitor/machine.rs",
        "crates/procs-vm/monitor/memory.rs",
        "crates/procs-vm/monitor/runtime.rs",
        "crates/procs-wasm/src/lent.rs",
        "crates/procs-worker/src/child.rs",
        "crates/procs-worker/src/confine.rs",
        "crates/procs-worker/src/system.rs",
        "crates/rings/src/memory.rs",
        "crates/rings/src/system.rs",
        "crates/uring/src/ring.rs",
        "crates/xdp/src/ring.rs",
        "crates/xdp/src/system.rs",
    ];
    // The last one is code that attacks the server; it runs in sandboxes only.
    let rooms = ["crates/preempt/", "crates/engine/src/raw/", "crates/procs-conformance/guest/"];
    let allowed = |name: &str| shared.contains(&name) || rooms.iter().any(|room| name.starts_with(room));
    let escapes: Vec<String> = sources("rs")
        .into_iter()
        .filter(|(name, _)| !allowed(name) && name != "crates/xtask/src/tidy/tests.rs")
        .flat_map(|(name, text)| {
            let opens = |line: &str| {
                let code = line.split("//").next().unwrap_or("");
                code.contains("allow(unsafe_code") || code.contains("expect(unsafe_code")
            };
            let lines: Vec<String> =
                (1..).zip(text.lines()).filter(|(_, line)| opens(line)).map(|(at, _)| format!("{name}:{at}")).collect();
            lines
        })
        .collect();
    assert_none(
        &escapes,
        "unsafe code is allowed in crate preempt, in engine::raw, where memory is shared, and where a sandbox is entered",
    );
}

#[test]
fn one_crate_judges_locks_whose_holders_have_panicked() {
    let judges = |line: &str| {
        let code = line.split("//").next().unwrap_or("");
        code.contains("PoisonError") || code.contains("TryLockError")
    };
    let others: Vec<String> = source::sources("rs")
        .iter()
        .filter(|file| file.crate_name() != "locked")
        .filter(|file| file.name != "crates/xtask/src/tidy/tests.rs")
        .flat_map(|file| {
            let lines = (1..).zip(file.text.lines()).filter(|(_, line)| judges(line));
            lines.map(|(at, _)| format!("{}:{at}", file.name)).collect::<Vec<_>>()
        })
        .collect();
    assert_none(&others, "the names of the crate `locked` say what becomes of a lock whose holder has panicked");
}

#[test]
fn codes_of_errors_stand_in_one_file() {
    let literal = concat!("SqlState", "(\"");
    let others: Vec<String> = source::sources("rs")
        .iter()
        .filter(|file| !file.is_test() && file.name != "crates/statement/src/state.rs")
        .flat_map(|file| {
            let lines = (1..).zip(file.product().lines()).filter(|(_, line)| line.contains(literal));
            lines.map(|(at, _)| format!("{}:{at}", file.name)).collect::<Vec<_>>()
        })
        .collect();
    assert_none(&others, "`statement::state` has a name for each SQLSTATE");
}

/// Crates whose product code reads no clock but a `TimeSource`. The others measure or pace something real: processes,
/// benchmarks, terminals, analytics' own threads; the engine's waits have the clock of `preempt`. These crates advance
/// the stage clock, which decides nothing: it reads the processor's counter itself, in the crate `stage`, and no other
/// crate can read it through the stage clock.
const TIMED: [&str; 11] =
    ["catalog", "gate", "proxy", "query", "server", "sessions", "settings", "sql", "statement", "types", "wire"];

/// Returns true for a line of code that reads a clock itself.
fn reads_a_clock(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or("");
    let reads = ["Instant::now", "SystemTime::now", "UNIX_EPOCH", ".elapsed()", "clock_gettime"];
    let raw = ["os::now_ns", "os::ticks", "_rdtsc"];
    reads.iter().chain(&raw).any(|read| code.contains(read))
}

/// Goal: a test decides what time it is. Method: the texts of product code.
#[test]
fn the_time_is_passed_in() {
    let bad =
        ["let now = std::time::Instant::now();", "begun.elapsed()", ".unwrap_or_else(Instant::now)", "os::ticks()"];
    for line in bad {
        assert!(reads_a_clock(line), "{line}");
    }
    assert!(!reads_a_clock("self.time.now() // Instant::now()"));
    let sources = source::sources("rs");
    let timed: Vec<_> = sources.iter().filter(|file| TIMED.contains(&file.crate_name()) && !file.is_test()).collect();
    let names: BTreeSet<&str> = timed.iter().map(|file| file.crate_name()).collect();
    assert_eq!(names, BTreeSet::from(TIMED), "a crate has another name now");
    let reads: Vec<String> = timed
        .into_iter()
        .filter(|file| file.name != "crates/statement/src/time.rs")
        .flat_map(|file| {
            let lines = (1..).zip(file.product().lines()).filter(|(_, line)| reads_a_clock(line));
            lines.map(|(at, _)| format!("{}:{at}", file.name)).collect::<Vec<_>>()
        })
        .collect();
    assert_none(&reads, "the time is an argument, or comes from a `statement::time::TimeSource`");
}

#[test]
fn functions_reach_datafusion_by_their_identity_alone() {
    // DataFusion merges calls that have the same name, equality and hash, so one file makes these from everything that
    // is captured.
    let constructor = "crates/olap/src/functions/defined.rs";
    let traits = [
        "ScalarUDFImpl",
        "AggregateUDFImpl",
        "WindowUDFImpl",
        "HigherOrderUDFImpl",
        "AsyncScalarUDFImpl",
        "PhysicalExpr",
        "UserDefinedLogicalNode",
        "UserDefinedLogicalNodeCore",
        "SimpleScalarUDF",
        "SimpleAggregateUDF",
    ];
    let is_other_way = |name: &str, line: &str| {
        let code = line.split("//").next().unwrap_or("");
        let implements = |of: &&str| code.contains("impl") && code.contains(&format!("{of} for "));
        let makes = ["create_udf(", "create_udaf(", "create_udwf(", "UDF::new_from_impl("];
        // A handwritten form may leave out a value that a function captures, or claim one for a closure.
        let hides = name.starts_with("crates/olap/src/functions/") && code.contains("Debug for ");
        traits.iter().any(implements) || makes.iter().any(|of| code.contains(of)) || hides
    };
    let others: Vec<String> = sources("rs")
        .into_iter()
        .filter(|(name, _)| name != constructor && name != "crates/xtask/src/tidy/tests.rs")
        .flat_map(|(name, text)| {
            let lines = (1..).zip(text.lines()).filter(|(_, line)| is_other_way(&name, line));
            lines.map(|(at, _)| format!("{name}:{at}")).collect::<Vec<_>>()
        })
        .collect();
    assert_none(&others, "functions and aggregates are given to DataFusion by olap's functions::defined alone");
}

#[test]
fn every_module_begins_with_its_documentation() {
    let begins = |text: &str| text.starts_with("//!") || text.starts_with("#![doc = include_str!(");
    let bare: Vec<String> = sources("rs")
        .into_iter()
        .filter(|(name, text)| {
            // Unit tests in a sibling file are described by the module beside them.
            !name.ends_with("/tests.rs") && !name.contains("/tests/") && !begins(text)
        })
        .map(|(name, _)| name)
        .collect();
    assert_none(&bare, "a file begins with what it is for");
}

#[test]
fn tests_are_never_ignored() {
    let mark = concat!("#[", "ignore");
    let ignored: Vec<String> =
        sources("rs").into_iter().filter(|(_, text)| text.contains(mark)).map(|(name, _)| name).collect();
    assert_none(&ignored, "a known bug is asserted as it is, with a note");
}

/// Returns the packages that a selection builds, each with its features.
fn tree(selection: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--prefix", "none", "--format", "{p} {f}"])
        .args(selection)
        .current_dir(root())
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: BTreeSet<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        // Repeated packages are marked, and edges of kind "features" have lines of their own.
        .map(|line| line.trim_end_matches(" (*)").trim_end().to_owned())
        .filter(|line| !line.contains(" feature \""))
        .collect();
    assert!(lines.iter().any(|line| line.starts_with("preempt ")), "{lines:?}");
    lines
}

#[test]
fn the_default_members_do_not_compile_datafusion() {
    let tree = tree(&["--edges", "normal,build,dev"]);
    let heavy: Vec<String> = tree.into_iter().filter(|line| line.starts_with("datafusion")).take(3).collect();
    assert_none(&heavy, "plain `cargo test` must take seconds, so a default member may not use these");
}

#[test]
fn the_demo_and_the_tests_share_one_build_of_datafusion() {
    // Cargo compiles a package once for each set of features, and everything above it too.
    let parts = ["overtake", "olap", "demo", "workloads"].map(|name| ["--package", name]).concat();
    let demo = tree(&[parts.as_slice(), &["--edges", "normal,build"]].concat());
    let tests = tree(&["--workspace", "--edges", "normal,build,dev"]);
    let ours = format!("({}", root().display());
    let twice: Vec<String> = demo.difference(&tests).filter(|line| !line.contains(&ours)).cloned().collect();
    assert_none(&twice, "the README's two commands would compile these, and what uses them, twice");
}

/// Goal: no binary remembers its checkout. Cargo takes a binary that another checkout has built in the same target
/// folder for its own; a path in it leads to the other checkout.
#[test]
fn no_binary_remembers_its_checkout() {
    let name = concat!("env!(\"CARGO_MANIFEST", "_DIR\")");
    let remember: Vec<String> =
        sources("rs").into_iter().filter(|(_, text)| text.contains(name)).map(|(name, _)| name).collect();
    assert_none(&remember, "tests run in their package's folder: a relative path leads to its files");
}

#[test]
fn modules_use_only_layers_below_them() {
    let sources = source::sources("rs");
    let crates: BTreeSet<&str> = sources.iter().map(source::SourceFile::crate_name).collect();
    let offences: Vec<String> = crates.into_iter().flat_map(|name| layers::offences(&sources, name)).collect();
    assert_none(&offences, "a module uses its own layer and lower ones");
}
