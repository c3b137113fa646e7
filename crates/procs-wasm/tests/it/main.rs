//! Tests of the level `wasm` with modules written by hand.

#[cfg(test)]
mod modules;
#[cfg(test)]
mod signals;

use procs::{Artifact, ArtifactKind, Channel, Instance, Invocation, Limits, Program, Runtime, Tenant};
use procs_conformance::ModelEngine;
use procs_wasm::{WasmConfig, WasmRuntime};
use statement::error::SqlResult;
use std::sync::{Arc, OnceLock};
use types::Kind;
use types::datum::Datum;

/// Returns the level, one for all tests.
fn runtime() -> &'static Arc<dyn Runtime> {
    static RUNTIME: OnceLock<Arc<dyn Runtime>> = OnceLock::new();
    RUNTIME.get_or_init(|| WasmRuntime::new(WasmConfig { instances_max: 16, memory_max: 64 << 20 }).expect("a runtime"))
}

fn load(wat: &str) -> SqlResult<Arc<dyn Program>> {
    load_into(runtime(), wat)
}

fn load_into(runtime: &Arc<dyn Runtime>, wat: &str) -> SqlResult<Arc<dyn Program>> {
    let bytes = wat::parse_str(wat).expect("a text");
    runtime.load(&Artifact::new(ArtifactKind::Wasm, bytes))
}

/// Returns a module whose entry is this code, with locals `$entry`, `$len` and `$n`.
fn module(body: &str) -> String {
    format!(
        r#"(module
            (import "overtake" "call" (func $call (param i32) (result i32)))
            (memory (export "memory") 17)
            (global $counter (mut i32) (i32.const 0))
            (table $table 8 funcref)
            (func (export "overtake_area") (result i32) (i32.const 0))
            (func $invoke (export "overtake_invoke") (param $entry i32) (param $len i32) (result i32)
                (local $n i32)
                {body}))"#
    )
}

fn open(wat: &str, limits: Limits) -> SqlResult<Box<dyn Instance>> {
    load(wat)?.open(Tenant(1), Channel::Direct, &limits)
}

/// Invokes an entry with one argument of type bigint, for rows of one column of that type.
fn invoke(
    instance: &mut dyn Instance,
    argument: i64,
    limits: Limits,
    engine: &mut ModelEngine,
) -> SqlResult<Vec<Vec<Datum>>> {
    let row = [Datum::Int8(argument)];
    let types = [Kind::Int8.into()];
    instance.invoke(&Invocation { entry: 0, rows: &[&row], arguments: &types, result: &types, limits }, engine)
}

/// Runs code once. Its result is the argument, unless it writes another.
fn run(body: &str, limits: Limits) -> SqlResult<Vec<Vec<Datum>>> {
    let mut instance = open(&module(body), limits)?;
    invoke(&mut *instance, 7, limits, &mut ModelEngine::default())
}
