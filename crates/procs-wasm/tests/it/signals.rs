//! Handlers of faults: wasmtime's, that of `preempt`, and that of the standard library, in either order.

use crate::{invoke, module, open, run, runtime, tenant};
use preempt::{Arrival, Delivery, Serve, Signal, Worker};
use procs::Limits;
use procs_conformance::ModelEngine;
use statement::error::SqlResult;
use std::hint;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::thread;
use types::datum::Datum;

/// Computes over memory; then, if the argument is odd, divides by zero, leaves the memory, or traps.
const BODY: &str = "
    (loop $more
        (i64.store (i32.add (i32.const 4096) (i32.and (local.get $n) (i32.const 4088)))
            (i64.add (i64.extend_i32_u (local.get $n)) (i64.load (i32.const 4096))))
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get $n) (i32.const 20000))))
    (if (i64.eq (i64.load (i32.const 7)) (i64.const 1)) (then
        (drop (i32.div_u (i32.const 1) (i32.and (local.get $n) (i32.const 0))))))
    (if (i64.eq (i64.load (i32.const 7)) (i64.const 3)) (then (drop (i32.load (i32.const -8)))))
    (if (i64.eq (i64.load (i32.const 7)) (i64.const 5)) (then unreachable))
    local.get $len";

fn told(argument: i64) -> SqlResult<Vec<Vec<Datum>>> {
    let mut instance = open(&module(BODY), Limits::default())?;
    invoke(&mut *instance, argument, Limits::default(), &mut ModelEngine::default())
}

/// Goal: faults of compiled code and interrupts do not meet, whatever is interrupted. Method: many of both.
pub fn a_fault_is_an_error_among_interrupts() {
    let program = crate::load(&module(BODY)).expect("a module");
    for at in 0..3_000 {
        let mut instance = program.open(&tenant(1), procs::Channel::Direct, &Limits::default()).expect("a slot");
        let argument = at % 8;
        let result = invoke(&mut *instance, argument, Limits::default(), &mut ModelEngine::default());
        let expected = match argument {
            1 => Some("the routine crashed: integer divide by zero"),
            3 => Some("the routine crashed: out of bounds memory access"),
            5 => Some("the routine crashed: wasm `unreachable` instruction executed"),
            _ => None,
        };
        assert_eq!(result.as_ref().err().map(|error| error.message()), expected);
    }
}

struct Overflow;

#[expect(unconditional_recursion, reason = "the test needs a stack overflow")]
fn recurse(depth: u64) -> u64 {
    let frame = hint::black_box([depth; 64]);
    recurse(depth + 1) + hint::black_box(frame)[3]
}

impl Serve for Overflow {
    fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
        recurse(0);
    }
}

/// Interrupts a worker that has run WebAssembly, and overflows the urgent stack.
fn overflow(registration: &preempt::Registration) -> ! {
    assert!(told(1).is_err());
    Signal.send(registration.worker());
    loop {
        hint::spin_loop();
    }
}

pub fn overflow_with_the_runtime_first() {
    assert!(run("local.get $len", Limits::default()).is_ok());
    overflow(&preempt::register("doomed", Arc::new(Overflow)).expect("a worker"));
}

pub fn overflow_with_the_worker_first() {
    let registration = preempt::register("doomed", Arc::new(Overflow)).expect("a worker");
    overflow(&registration);
}

pub fn overflow_of_the_base_stack() {
    let body = || {
        let _registration = preempt::register("ordinary", Arc::new(Overflow)).expect("a worker");
        assert!(told(1).is_err() && told(3).is_err());
        recurse(0);
    };
    thread::Builder::new().name("ordinary".into()).spawn(body).expect("a thread").join().expect("it aborts");
}

fn ended(case: &str) -> (Option<i32>, String) {
    let output = testkit::run_case(case);
    (output.status.signal(), String::from_utf8_lossy(&output.stderr).into_owned())
}

const ABORTED: Option<i32> = Some(6);

/// Goal: wasmtime's handler passes on what is not its own, and `preempt`'s does, whichever was installed first.
pub fn an_overflow_of_an_urgent_stack_is_reported_as_before() {
    for case in ["signals::overflow_with_the_runtime_first", "signals::overflow_with_the_worker_first"] {
        let (signal, text) = ended(case);
        assert_eq!(signal, ABORTED, "{case}: {text}");
        assert!(text.contains("stack overflow in the urgent context of worker 'doomed'"), "{case}: {text}");
    }
}

/// Goal: so does the chain of both end at the standard library's handler.
pub fn an_overflow_of_an_ordinary_stack_is_reported_as_before() {
    let (signal, text) = ended("signals::overflow_of_the_base_stack");
    assert_eq!(signal, ABORTED, "{text}");
    assert!(text.contains("thread 'ordinary'") && text.contains("has overflowed its stack"), "{text}");
}

struct Nothing;

impl Serve for Nothing {
    fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
        hint::black_box(Box::new(7));
    }
}

/// Goal: signal stacks of both are taken away in the right order when a thread ends. Method: threads that run code
/// before they are workers, while they are, and afterwards, and are interrupted meanwhile.
pub fn threads_end_in_any_order() {
    runtime();
    for at in 0..60 {
        let body = move || {
            if at % 3 == 0 {
                assert!(told(1).is_err());
            }
            let registration = preempt::register("short", Arc::new(Nothing)).expect("a worker");
            Signal.send(registration.worker());
            assert!(told(3).is_err());
            if at % 2 == 0 {
                drop(registration);
                assert!(told(5).is_err());
            }
        };
        thread::spawn(body).join().expect("no fault");
    }
}
