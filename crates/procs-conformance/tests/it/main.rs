//! The suite, at every level that this machine has. `OVERTAKE_RUNSC` names the `runsc` of level `gvisor`, unless it is
//! in `PATH`.

mod attacks;
mod conform;
mod machine;
mod protocol;
mod script;
mod typescript;

use procs::{Artifact, ArtifactKind, Availability, Channel, CodeTenant, Level, Manifest, Program, Runtime, Tenant};
use procs_conformance::{Built, Subject, built};
use procs_wasm::{WasmConfig, WasmRuntime};
use procs_worker::WorkerConfig;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

fn code() -> &'static Built {
    built(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// Creates the levels that are processes, with a limit of a start.
fn workers(start_max: Duration) -> Vec<Arc<dyn Runtime>> {
    procs_worker::runtimes(WorkerConfig { start_max }).expect("a thread")
}

/// Returns the levels of this machine, one of each for all tests.
fn runtimes() -> &'static [Arc<dyn Runtime>] {
    static RUNTIMES: OnceLock<Vec<Arc<dyn Runtime>>> = OnceLock::new();
    RUNTIMES.get_or_init(|| {
        // A sandbox beside sixty others may take some seconds to start.
        let mut all = workers(Duration::from_secs(10));
        all.push(Arc::new(
            WasmRuntime::new(WasmConfig { instances_max: 64, ..WasmConfig::default() }).expect("address space"),
        ));
        all
    })
}

/// Loads an executable at a level; `None` if this machine has not that level.
fn load(level: Level, bytes: &[u8]) -> Option<Arc<dyn Program>> {
    load_in(runtimes(), level, bytes)
}

/// Loads an executable at a level of these.
fn load_in(runtimes: &[Arc<dyn Runtime>], level: Level, bytes: &[u8]) -> Option<Arc<dyn Program>> {
    let runtime = runtimes.iter().find(|runtime| runtime.level() == level)?;
    match runtime.availability() {
        Availability::Ready => Some(
            runtime
                .load(&Artifact::new(level.artifact(), bytes), &CodeTenant::alone(Tenant(10)))
                .expect("code that loads"),
        ),
        Availability::Missing(reason) => {
            println!("SKIPPED: {level}: {reason}");
            None
        }
    }
}

/// Returns the suite's module at every level, over every channel.
fn subjects() -> &'static [Subject] {
    static SUBJECTS: OnceLock<Vec<Subject>> = OnceLock::new();
    SUBJECTS.get_or_init(|| {
        let manifest = Arc::new(Manifest::parse(&code().manifest).expect("a manifest"));
        let mut all = Vec::new();
        for level in [Level::Wasm, Level::Process, Level::Container, Level::Gvisor, Level::Vm] {
            let bytes = match level.artifact() {
                ArtifactKind::Wasm => &code().wasm,
                ArtifactKind::Exec | ArtifactKind::Guest => &code().executable,
                ArtifactKind::Native => unreachable!("none of these levels"),
            };
            let Some(program) = load(level, bytes) else { continue };
            all.extend(level.channels().iter().map(|channel| Subject::new(level, *channel, &program, &manifest)));
        }
        all.extend(typescript::subject().cloned());
        all
    })
}

/// Returns those that are processes.
fn processes() -> impl Iterator<Item = &'static Subject> {
    subjects().iter().filter(|subject| subject.channel != Channel::Direct)
}
