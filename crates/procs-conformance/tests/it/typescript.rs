//! TypeScript at level `wasm`.

use crate::load;
use procs::{ArtifactKind, Channel, Level, Limits, Manifest};
use procs_conformance::{Subject, engine, typescript};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use types::Kind;

/// Returns the suite's module in TypeScript; `None` if a tool is missing.
pub(crate) fn subject() -> Option<&'static Subject> {
    static SUBJECT: OnceLock<Option<Subject>> = OnceLock::new();
    let made = || {
        let built = match typescript(Path::new(env!("CARGO_TARGET_TMPDIR"))) {
            Ok(built) => built,
            Err(error) => {
                println!("SKIPPED: TypeScript: {error}");
                return None;
            }
        };
        let Some(artifact) = built.artifact(ArtifactKind::Wasm) else {
            println!("SKIPPED: TypeScript: {built}");
            return None;
        };
        let begun = Instant::now();
        let program = load(Level::Wasm, &artifact.bytes)?;
        println!("{} bytes of WebAssembly, compiled in {:?}", artifact.bytes.len(), begun.elapsed());
        let manifest = Arc::new(Manifest::parse(&built.manifest).expect("a manifest"));
        let subject = Subject::new(Level::Wasm, Channel::Direct, &program, &manifest);
        Some(Subject { name: "wasm, TypeScript".to_owned(), ..subject })
    };
    SUBJECT.get_or_init(made).as_ref()
}

fn failure(subject: &Subject, entry: &str) -> (&'static str, String) {
    let error = subject.run(entry, 1, Limits::default(), &mut engine(Kind::Int8.into())).expect_err(entry);
    (error.state().0, error.message().to_owned())
}

#[test]
fn code_has_neither_clock_nor_chance() {
    let Some(subject) = subject() else { return };
    let told = subject.ask("clocks", "", &mut engine(Kind::Int8.into())).expect("texts");
    let clock = "refused: Error: code has no clock in WebAssembly";
    let expected = [
        "ok: 1970-01-01T00:00:00.000Z",
        clock,
        clock,
        clock,
        "refused: Error: code has no random numbers in WebAssembly",
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn asynchronous_code_is_refused() {
    let Some(subject) = subject() else { return };
    let told = "asynchronous code in a stored procedure is not supported";
    assert_eq!(failure(subject, "asynchronous"), ("0A000", told.to_owned()));
}

#[test]
fn exceptions_are_told() {
    let Some(subject) = subject() else { return };
    let panic = ("38000", "the routine failed: Error: a panic of the guest".to_owned());
    assert_eq!(failure(subject, "panics"), panic);
    let (state, message) = failure(subject, "stack_bomb");
    assert_eq!(
        (state, message.as_str()),
        ("38000", "the routine failed: RangeError: Maximum call stack size exceeded")
    );
    let (_, message) = failure(subject, "leaves");
    assert_eq!(message, "the routine failed: ReferenceError: process is not defined");
}
