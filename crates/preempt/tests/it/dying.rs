//! Failures that must end the process, and their messages.

use preempt::{Arrival, Delivery, Poll, Serve, Signal, Worker};
use std::sync::Arc;

struct Overflow;

#[expect(unconditional_recursion, reason = "the test needs a stack overflow")]
fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    recurse(depth + 1) + std::hint::black_box(frame)[3]
}

impl Serve for Overflow {
    fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
        recurse(0);
    }
}

pub fn overflow_in_a_signalled_context() {
    let registration = preempt::register("doomed", Arc::new(Overflow)).unwrap();
    Signal.send(registration.worker());
    loop {
        std::hint::spin_loop();
    }
}

pub fn overflow_in_a_polled_context() {
    let registration = preempt::register("doomed", Arc::new(Overflow)).unwrap();
    Poll.send(registration.worker());
    preempt::safepoint();
}

pub fn overflow_of_the_base_stack() {
    std::thread::Builder::new()
        .name("ordinary".into())
        .spawn(|| {
            let _registration = preempt::register("ordinary", Arc::new(Overflow)).unwrap();
            recurse(0);
        })
        .unwrap()
        .join()
        .unwrap();
}

pub fn panic_out_of_serve() {
    struct Panics;
    impl Serve for Panics {
        fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
            panic!("left serve");
        }
    }
    let registration = preempt::register("panics", Arc::new(Panics)).unwrap();
    Poll.send(registration.worker());
    preempt::safepoint();
}

fn ended(case: &str) -> (Option<i32>, String) {
    use std::os::unix::process::ExitStatusExt;
    let output = testkit::run_case(case);
    (output.status.signal(), String::from_utf8_lossy(&output.stderr).into_owned())
}

const ABORTED: Option<i32> = Some(6);

/// Goal: the report names the worker and its context, whichever way the context was entered.
pub fn a_stack_overflow_names_the_context() {
    for case in ["dying::overflow_in_a_signalled_context", "dying::overflow_in_a_polled_context"] {
        let (signal, text) = ended(case);
        assert_eq!(signal, ABORTED, "{case}: {text}");
        assert!(text.contains("stack overflow in the urgent context of worker 'doomed'"), "{case}: {text}");
    }
}

/// Goal: our fault handler passes on what is not its own.
pub fn an_overflow_of_an_ordinary_stack_is_reported_as_before() {
    let (signal, text) = ended("dying::overflow_of_the_base_stack");
    assert_eq!(signal, ABORTED, "{text}");
    assert!(text.contains("thread 'ordinary'") && text.contains("has overflowed its stack"), "{text}");
}

/// Goal: a panic cannot unwind into interrupted code.
pub fn a_panic_that_leaves_serve_ends_the_process() {
    let (signal, text) = ended("dying::panic_out_of_serve");
    assert_eq!(signal, ABORTED, "{text}");
    assert!(text.contains("left serve"), "{text}");
}
