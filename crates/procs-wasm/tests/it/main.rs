//! Tests of the level `wasm` with modules written by hand, each in a process of its own, plain and in a storm of
//! interrupts.

mod hostile;
mod modules;
mod signals;
mod urgent;

use procs::{Artifact, ArtifactKind, Channel, CodeTenant, Instance, Invocation, Limits, Program, Runtime, Tenant};
use procs_conformance::ModelEngine;
use procs_wasm::{WasmConfig, WasmRuntime};
use statement::error::SqlResult;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use types::Kind;
use types::datum::Datum;

fn main() -> ExitCode {
    testkit::main(
        env!("CARGO_PKG_NAME"),
        &[
            testkit::plain!(hostile::what_is_too_complex_to_compile_is_refused),
            testkit::plain!(hostile::the_heaviest_modules_are_compiled_in_bounded_memory),
            testkit::plain!(hostile::code_for_urgent_contexts_weighs_more),
            testkit::plain!(hostile::weighing_ends_with_its_statement),
            testkit::plain!(hostile::what_is_no_module_is_refused_as_before),
            testkit::test!(modules::an_entry_returns_its_result),
            testkit::test!(modules::a_module_may_import_the_engine_alone),
            testkit::test!(modules::the_area_must_be_within_the_memory),
            testkit::test!(modules::a_trap_is_an_error_with_its_reason),
            testkit::test!(modules::a_deep_guest_ends_on_a_small_stack_too),
            testkit::test!(modules::an_instance_ends_with_its_first_error),
            testkit::test!(modules::a_call_needs_a_length_within_the_area),
            testkit::test!(modules::memory_and_tables_are_limited),
            testkit::plain!(modules::memories_of_a_tenant_are_limited_together),
            testkit::test!(modules::an_endless_loop_ends_by_its_limit_and_by_a_cancel),
            testkit::plain!(modules::a_long_operation_on_memory_ends_by_its_limit),
            testkit::test!(modules::a_slot_is_empty_when_it_is_used_again),
            testkit::test!(modules::instances_are_limited),
            testkit::test!(modules::the_wait_for_the_compiler_is_no_lost_time),
            testkit::test!(signals::a_fault_is_an_error_among_interrupts),
            testkit::test!(signals::an_overflow_of_an_urgent_stack_is_reported_as_before),
            testkit::test!(signals::an_overflow_of_an_ordinary_stack_is_reported_as_before),
            testkit::test!(signals::threads_end_in_any_order),
            testkit::test!(urgent::an_urgent_instance_is_limited),
            testkit::plain!(urgent::calls_interrupt_code_at_any_instruction),
            testkit::case!(signals::overflow_with_the_runtime_first),
            testkit::case!(signals::overflow_with_the_worker_first),
            testkit::case!(signals::overflow_of_the_base_stack),
        ],
    )
}

/// Returns the level, one for the process.
fn runtime() -> &'static Arc<dyn Runtime> {
    static RUNTIME: OnceLock<Arc<dyn Runtime>> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Arc::new(WasmRuntime::new(WasmConfig { instances_max: 16, memory_max: 64 << 20 }).expect("a runtime"))
    })
}

/// Returns a tenant with shares of its own.
fn tenant(number: u32) -> CodeTenant {
    CodeTenant::alone(Tenant(number))
}

fn load(wat: &str) -> SqlResult<Arc<dyn Program>> {
    load_into(runtime(), wat)
}

fn load_bytes(bytes: Vec<u8>) -> SqlResult<Arc<dyn Program>> {
    runtime().load(&Artifact::new(ArtifactKind::Wasm, bytes), &tenant(1))
}

fn load_into(runtime: &Arc<dyn Runtime>, wat: &str) -> SqlResult<Arc<dyn Program>> {
    let bytes = wat::parse_str(wat).expect("a text");
    runtime.load(&Artifact::new(ArtifactKind::Wasm, bytes), &tenant(1))
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
    load(wat)?.open(&tenant(1), Channel::Direct, &limits)
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
