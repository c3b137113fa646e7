//! Modules that keep the rules, and modules that do not.

use crate::{invoke, load, load_into, module, open, run, tenant};
use preempt::memory;
use procs::{Artifact, ArtifactKind, Channel, CodeTenant, Instance, Limits, Program, Runtime, Tenant};
use procs_conformance::ModelEngine;
use procs_wasm::{WasmConfig, WasmRuntime};
use stage::turn::JobTurn;
use stage::{Stage, StageClock, TickSource};
use statement::error::SqlError;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};
use types::datum::Datum;

/// Instances of a small level.
const SLOTS: usize = 8;

/// Returns a level with few slots, which no other test uses.
fn small_runtime() -> Arc<dyn Runtime> {
    Arc::new(WasmRuntime::new(WasmConfig { instances_max: SLOTS as u32, memory_max: 64 << 20 }).expect("a runtime"))
}

fn state(error: &SqlError) -> &'static str {
    error.state().0
}

pub fn an_entry_returns_its_result() {
    assert_eq!(run("local.get $len", Limits::default()).expect("a result"), [[Datum::Int8(7)]]);
    let added = "(i64.store (i32.const 7) (i64.add (i64.load (i32.const 7)) (i64.const 35))) local.get $len";
    assert_eq!(run(added, Limits::default()).expect("a result"), [[Datum::Int8(42)]]);
}

pub fn a_module_may_import_the_engine_alone() {
    for import in [
        "(import \"wasi_snapshot_preview1\" \"clock_time_get\" (func (param i32 i64 i32) (result i32)))",
        "(import \"overtake\" \"call\" (func (param i64) (result i32)))",
        "(import \"env\" \"memory\" (memory 1))",
        "(import \"env\" \"abort\" (func))",
    ] {
        let text = module("local.get $len").replacen("(import", &format!("{import} (import"), 1);
        let error = load(&text).expect_err(import);
        assert_eq!(state(&error), "42P13", "{}", error.message());
    }
    for (part, other) in [
        ("\"memory\"", "\"other\""),
        ("\"overtake_area\"", "\"other\""),
        ("\"overtake_invoke\"", "\"other\""),
        ("(memory (export \"memory\") 17)", "(memory (export \"memory\") i64 17)"),
        ("(memory (export \"memory\") 17)", "(memory (export \"memory\") 2000)"),
    ] {
        let error = load(&module("local.get $len").replace(part, other)).expect_err(part);
        assert_eq!(state(&error), "42P13", "{}", error.message());
    }
    assert_eq!(state(&crate::runtime().load(&exec(), &tenant(1)).expect_err("no module")), "42P13");
}

fn exec() -> procs::Artifact {
    procs::Artifact::new(procs::ArtifactKind::Exec, b"\0asm\x01\0\0\0".to_vec())
}

pub fn the_area_must_be_within_the_memory() {
    let text = module("local.get $len");
    for area in ["65536", "65537", "-1", "1114111"] {
        let text = text.replacen("(result i32) (i32.const 0)", &format!("(result i32) (i32.const {area})"), 1);
        let opened = open(&text, Limits::default());
        assert_eq!(opened.is_ok(), area == "65536", "{area}");
    }
}

pub fn a_trap_is_an_error_with_its_reason() {
    for (body, reason) in [
        ("unreachable", "wasm `unreachable` instruction executed"),
        ("(i32.load (i32.const -4))", "out of bounds memory access"),
        ("(i32.load offset=4294967295 (i32.const -1))", "out of bounds memory access"),
        ("(i32.div_s (i32.const 1) (local.get $n))", "integer divide by zero"),
        ("(i32.div_s (i32.const 0x80000000) (i32.const -1))", "integer overflow"),
        ("(i32.trunc_f32_s (f32.const nan))", "invalid conversion to integer"),
        ("(call_indirect (result i32) (i32.const 100))", "undefined element: out of bounds table access"),
        ("(call_indirect (result i32) (i32.const 1))", "uninitialized element"),
        ("(call $invoke (local.get $entry) (local.get $len)) (i32.add (i32.const 1))", "call stack exhausted"),
    ] {
        let error = run(body, Limits::default()).expect_err(body);
        assert_eq!((state(&error), error.message()), ("38000", format!("the routine crashed: {reason}").as_str()));
    }
    let error = run("i32.const -1", Limits::default()).expect_err("a failure");
    assert_eq!(state(&error), "38000");
    let error = run("i32.const 1048577", Limits::default()).expect_err("a length");
    assert_eq!(state(&error), "39000");
}

pub fn a_deep_guest_ends_on_a_small_stack_too() {
    let body = "(call $invoke (local.get $entry) (local.get $len)) (i32.add (i32.const 1))";
    let small = thread::Builder::new().stack_size(256 << 10);
    let error = small.spawn(move || run(body, Limits::default())).expect("a thread").join().expect("no overflow");
    assert_eq!(state(&error.expect_err("too deep")), "38000");
}

pub fn an_instance_ends_with_its_first_error() {
    let body = "(if (i64.eq (i64.load (i32.const 7)) (i64.const 1)) (then unreachable)) local.get $len";
    let (limits, mut engine) = (Limits::default(), ModelEngine::default());
    let mut instance = open(&module(body), limits).expect("an instance");
    invoke(&mut *instance, 2, limits, &mut engine).expect("a result");
    assert_eq!(state(&invoke(&mut *instance, 1, limits, &mut engine).expect_err("a trap")), "38000");
    assert_eq!(state(&invoke(&mut *instance, 2, limits, &mut engine).expect_err("spent")), "XX000");
}

pub fn a_call_needs_a_length_within_the_area() {
    for len in [-1, 1_048_577, 0, i32::MIN] {
        let error = run(&format!("(call $call (i32.const {len}))"), Limits::default()).expect_err("refused");
        assert_eq!(state(&error), "39000", "{}", error.message());
    }
    // Nothing is lent while an instance is created.
    let text = module("local.get $len").replace(
        "(func (export \"overtake_area\") (result i32)",
        "(func (export \"overtake_area\") (result i32) (drop (call $call (i32.const 1)))",
    );
    assert_eq!(state(&open(&text, Limits::default()).map(|_| ()).expect_err("no engine")), "39000");
}

pub fn memory_and_tables_are_limited() {
    let body = "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) local.get $len";
    let limits = Limits { memory: 8 << 20, ..Limits::default() };
    let error = run(body, limits).expect_err("a bomb");
    assert_eq!(state(&error), "53200");
    assert_eq!(error.detail_text(), Some("An instance may use 8192 kB."));
    let error =
        open(&module("local.get $len"), Limits { memory: 1 << 20, ..limits }).map(|_| ()).expect_err("too small");
    assert_eq!(state(&error), "53200");
    let body = "(loop $more (br_if $more (i32.ne (table.grow $table (ref.null func) (i32.const 1000)) (i32.const -1))))
        local.get $len";
    assert_eq!(state(&run(body, limits).expect_err("a bomb")), "53200");
}

/// Goal: the memories of a tenant's instances count together, also while nobody uses them, and another tenant's do not
/// count with them.
pub fn memories_of_a_tenant_are_limited_together() {
    const GROWN: usize = 32 << 20;
    // One page is 64 kB.
    let program = load(&module("(drop (memory.grow (i32.const 512))) local.get $len")).expect("a module");
    let before = memory::held_bytes();
    memory::set_limit_bytes(before.max(256 << 20) + 4 * (3 * GROWN));
    let share = memory::limit_bytes() / 4;
    let limits = Limits { memory: 64 << 20, ..Limits::default() };
    let one = tenant(1);
    let other = CodeTenant { tenant: Tenant(2), ..one.clone() };
    let grown = |tenant: &CodeTenant| {
        let mut instance = program.open(tenant, Channel::Direct, &limits)?;
        invoke(&mut *instance, 1, limits, &mut ModelEngine::default()).map(|_| instance)
    };
    let mut all = Vec::new();
    let error = loop {
        match grown(&one) {
            Ok(instance) => all.push(instance),
            Err(error) => break error,
        }
    };
    assert_eq!((state(&error), error.message()), ("53200", "out of memory for stored code"));
    let bytes: usize = all.iter().map(|instance| instance.idle_bytes()).sum();
    assert!(all.len() * GROWN <= bytes && bytes <= share && share < bytes + 2 * GROWN, "{bytes} of {share}");
    assert!(before + bytes <= memory::held_bytes(), "the process's memory has them");
    grown(&other).expect("a share of its own");
    all.pop();
    grown(&one).expect("the memory of an instance that is gone");
    drop(all);
    memory::set_limit_bytes(usize::MAX);
}

pub fn an_endless_loop_ends_by_its_limit_and_by_a_cancel() {
    let limits = Limits { time: Some(Duration::from_millis(30)), ..Limits::default() };
    let error = run("(loop $again (br $again)) unreachable", limits).expect_err("endless");
    assert_eq!(state(&error), "57014");
    assert_eq!(error.message(), "canceling statement due to time limit of routine");

    let mut instance = open(&module("(loop $again (br $again)) unreachable"), Limits::default()).expect("an instance");
    let mut engine = ModelEngine::default();
    let is_cancelled = Arc::clone(&engine.is_cancelled);
    let canceller = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        is_cancelled.store(true, Relaxed);
        Instant::now()
    });
    let error = invoke(&mut *instance, 7, Limits::default(), &mut engine).expect_err("cancelled");
    let ended = Instant::now();
    let cancelled = canceller.join().expect("a canceller");
    assert_eq!(error.message(), "canceling statement due to user request");
    assert!(ended.duration_since(cancelled) < Duration::from_millis(100));
    // An endless start of a module ends, too.
    let text = module("local.get $len").replace(
        "(func (export \"overtake_area\") (result i32)",
        "(func (export \"overtake_area\") (result i32) (loop $again (br $again))",
    );
    assert_eq!(state(&open(&text, limits).map(|_| ()).expect_err("endless")), "57014");
}

/// A guest fills its whole memory, its global and its table; no later guest finds anything of it in any slot, of the same
/// module or of another.
pub fn a_slot_is_empty_when_it_is_used_again() {
    let body = "(drop (memory.grow (i32.const 400)))
        (if (i64.eq (i64.load (i32.const 7)) (i64.const 1)) (then
            (memory.fill (i32.const 0) (i32.const 0x5a) (i32.mul (memory.size) (i32.const 65536)))
            (global.set $counter (i32.const 99))
            (table.fill $table (i32.const 0) (ref.func $invoke) (i32.const 8))
            (return (i32.const -1))))
        (local.set $n (i32.const 32))
        (loop $more
            (if (i64.ne (i64.load (local.get $n)) (i64.const 0)) (then unreachable))
            (local.set $n (i32.add (local.get $n) (i32.const 8)))
            (br_if $more (i32.lt_u (local.get $n) (i32.mul (memory.size) (i32.const 65536)))))
        (if (global.get $counter) (then unreachable))
        (local.set $n (i32.const 0))
        (loop $more
            (if (i32.eqz (ref.is_null (table.get $table (local.get $n)))) (then unreachable))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $more (i32.lt_u (local.get $n) (i32.const 8))))
        local.get $len";
    let text = module(body).replace("(table $table", "(elem declare func $invoke) (table $table");
    let runtime = small_runtime();
    let limits = Limits { memory: 32 << 20, ..Limits::default() };
    let programs = [load_into(&runtime, &text), load_into(&runtime, &text)].map(|loaded| loaded.expect("a module"));
    let slots = |program: &Arc<dyn Program>, number, count| -> Vec<Box<dyn Instance>> {
        (0..count).map(|_| program.open(&tenant(number), Channel::Direct, &limits).expect("a slot")).collect()
    };
    for _ in 0..3 {
        for instance in &mut slots(&programs[0], 1, SLOTS) {
            let error = invoke(&mut **instance, 1, limits, &mut ModelEngine::default()).expect_err("it says so");
            assert_eq!(error.message(), "the routine failed: its result is -1");
        }
        for program in &programs {
            for instance in &mut slots(program, 2, SLOTS) {
                invoke(&mut **instance, 2, limits, &mut ModelEngine::default()).expect("an empty slot");
            }
        }
    }
}

pub fn instances_are_limited() {
    let text = module("local.get $len");
    let program = load_into(&small_runtime(), &text).expect("a module");
    let mut all = Vec::new();
    // Each role has a share, so that a pool is used up by several.
    let error = loop {
        match program.open(&tenant(all.len() as u32), Channel::Direct, &Limits::default()) {
            Ok(instance) => all.push(instance),
            Err(error) => break error,
        }
    };
    assert_eq!(all.len(), SLOTS);
    assert_eq!((state(&error), error.message()), ("53000", "too many instances of wasm modules"));
    assert_eq!(error.detail_text(), Some("The limit is 8."));
    let error = program.open(&tenant(1), Channel::UnixSocket, &Limits::default()).map(|_| ()).expect_err("no channel");
    assert_eq!(state(&error), "0A000");
}

/// Goal: the time in which a module is compiled is no time without a processor for the thread that waits. Method: a
/// large module, in a turn of this thread.
pub fn the_wait_for_the_compiler_is_no_lost_time() {
    let source = TickSource::system();
    let clock = StageClock::new(source.clone());
    let functions: String =
        (0..500).map(|at| format!("(func (result i32) (i32.mul (i32.const {at}) (i32.const 7)))")).collect();
    let text = module("local.get $len").replacen("(func $invoke", &format!("{functions}(func $invoke"), 1);
    let bytes = Artifact::new(ArtifactKind::Wasm, wat::parse_str(text).expect("a text"));
    let _turn = JobTurn::begin(source);
    clock.enter(Stage::Run);
    let begun = Instant::now();
    let loaded = crate::runtime().load(&bytes, &tenant(1));
    let took = begun.elapsed();
    clock.rest();
    assert!(loaded.is_ok());
    let times = clock.take();
    let [run, lost] = [Stage::Run, Stage::Preempted].map(|stage| Duration::from_nanos(times.of(stage)));
    assert!(took / 2 < run && lost < run / 2, "{lost:?} of {took:?}: {times:?}");
}

/// Goal: an operation on the whole memory, which takes most of a second, ends as soon as a loop does.
pub fn a_long_operation_on_memory_ends_by_its_limit() {
    let config = WasmConfig { instances_max: 2, memory_max: 1 << 30 };
    let runtime: Arc<dyn Runtime> = Arc::new(WasmRuntime::new(config).expect("a runtime"));
    let all = Limits { memory: 1 << 30, ..Limits::default() };
    let size = "(i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 32))";
    // The argument is kept; memory is there, but nothing has touched it.
    for operation in [
        format!("(memory.fill (i32.const 32) (i32.const 1) {size})"),
        format!("(memory.copy (i32.const 32) (i32.const 33) (i32.sub {size} (i32.const 1)))"),
        format!("(memory.copy (i32.const 33) (i32.const 32) (i32.sub {size} (i32.const 1)))"),
    ] {
        let grow = "(drop (memory.grow (i32.sub (i32.const 16384) (memory.size))))";
        let program = load_into(&runtime, &module(&format!("{grow} {operation} local.get $len"))).expect("a module");
        let open = || program.open(&tenant(1), Channel::Direct, &all).expect("an instance");
        let began = Instant::now();
        invoke(&mut *open(), 7, all, &mut ModelEngine::default()).expect("no limit");
        let whole = began.elapsed();
        let short = Limits { time: Some(Duration::from_millis(20)), ..all };
        let mut instance = open();
        let began = Instant::now();
        let error = invoke(&mut *instance, 7, short, &mut ModelEngine::default()).expect_err("too long");
        let ended = began.elapsed();
        println!("{operation}: {whole:?} as a whole, {ended:?} with a limit of 20 ms");
        assert_eq!((state(&error), error.message()), ("57014", "canceling statement due to time limit of routine"));
        assert!(ended < whole / 2, "{operation}: {ended:?} of {whole:?}");
    }
}
