//! Goal: WebAssembly in an urgent context has the answers, the traps and the limits that it has outside, and leaves alone
//! the WebAssembly that it has interrupted. Method: a worker computes and faults, and is interrupted at any instruction by
//! calls that compute, trap, exhaust their stack or exceed their time.

use crate::{invoke, load, module, open, tenant};
use preempt::{Arrival, BoundedQueue, Delivery, Serve, Signal, Worker};
use procs::{Instance, Limits, Program};
use procs_conformance::ModelEngine;
use statement::error::SqlResult;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;
use types::datum::Datum;

/// Computes from the argument; then traps, recurses or loops for ever, as the argument says.
const BODY: &str = "
    (i64.store (i32.const 4096) (i64.load (i32.const 7)))
    (loop $more
        (i64.store (i32.const 4096)
            (i64.add (i64.mul (i64.load (i32.const 4096)) (i64.const 6364136223846793005)) (i64.const 7)))
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get $n) (i32.const 500))))
    (if (i64.eq (i64.load (i32.const 7)) (i64.const 1)) (then
        (drop (i32.div_u (i32.const 1) (i32.and (local.get $n) (i32.const 0))))))
    (if (i64.eq (i64.load (i32.const 7)) (i64.const 3)) (then (drop (i32.load (i32.const -8)))))
    (if (i64.eq (i64.load (i32.const 7)) (i64.const 5)) (then unreachable))
    (if (i64.eq (i64.load (i32.const 7)) (i64.const 7)) (then (loop $ever (br $ever))))
    (if (i64.eq (i64.load (i32.const 7)) (i64.const 9)) (then
        (drop (call $invoke (local.get $entry) (local.get $len)))))
    (i64.store (i32.const 7) (i64.load (i32.const 4096)))
    local.get $len";

/// Variable with the number of interrupts.
const COUNT: &str = "OVERTAKE_URGENT_SIGNALS";
/// Number of interrupts without it.
const COUNT_USUAL: u64 = 20_000;
const LIMITS: Limits = Limits { time: None, memory: 64 << 20, rows: None };
/// Instances that are ready.
const READY: usize = 64;

/// Returns the outcome that a call with this argument has.
fn expected(argument: i64) -> Result<i64, &'static str> {
    match argument {
        1 => Err("the routine crashed: integer divide by zero"),
        3 => Err("the routine crashed: out of bounds memory access"),
        5 => Err("the routine crashed: wasm `unreachable` instruction executed"),
        7 => Err("canceling statement due to time limit of routine"),
        9 => Err("the routine crashed: call stack exhausted"),
        _ => Ok((0..500).fold(argument, |x, _| x.wrapping_mul(6364136223846793005).wrapping_add(7))),
    }
}

fn check(argument: i64, outcome: &SqlResult<Vec<Vec<Datum>>>, place: &str) {
    let found = match outcome {
        Ok(rows) => match rows[..] {
            [ref row] => match row[..] {
                [Datum::Int8(value)] => Ok(value),
                _ => panic!("{place}, {argument}: {row:?}"),
            },
            _ => panic!("{place}, {argument}: {rows:?}"),
        },
        Err(error) => Err(error.message()),
    };
    assert_eq!(found, expected(argument), "{place}, {argument}");
}

/// Returns the limits of a call with this argument. A busy machine takes any time for the others.
fn limits_of(argument: i64) -> Limits {
    Limits { time: (argument == 7).then_some(Duration::from_millis(1)), ..LIMITS }
}

/// Argument of a call by its number: most compute; some trap; few exceed their time, which takes a millisecond.
fn argument_of(number: u64) -> i64 {
    match number % 512 {
        7 => 7,
        at if at % 64 == 9 => 9,
        at if at % 8 == 1 => [1, 3, 5][(number / 8 % 3) as usize],
        at => 1_000 + at as i64,
    }
}

/// Instance that is ready for the next urgent call.
type Armed = Box<dyn Instance>;
/// Call that has ended.
type Ended = (i64, SqlResult<Vec<Vec<Datum>>>, Armed);

struct Calls {
    ready: BoundedQueue<Armed>,
    ended: BoundedQueue<Ended>,
    made: AtomicU64,
    missed: AtomicU64,
}

impl Serve for Calls {
    fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
        let Some(mut instance) = self.ready.pop() else {
            self.missed.fetch_add(1, SeqCst);
            return;
        };
        let argument = argument_of(self.made.fetch_add(1, SeqCst));
        let outcome = statement::pulse::unwatched(|| {
            invoke(&mut *instance, argument, limits_of(argument), &mut ModelEngine::default())
        });
        assert!(self.ended.push((argument, outcome, instance)).is_ok(), "there is room for all that were ready");
    }
}

impl Calls {
    /// Checks the calls that have ended, and makes their instances ready again, or others. Not in an urgent context.
    fn turn(&self, program: &Arc<dyn Program>) {
        while let Some((argument, outcome, mut instance)) = self.ended.pop() {
            check(argument, &outcome, "urgent");
            instance.disarm();
            if outcome.is_err() {
                instance = program.open_urgent(&tenant(1), &LIMITS).expect("an instance");
            }
            instance.arm().expect("the thread of epochs");
            assert!(self.ready.push(instance).is_ok(), "there is room");
        }
    }
}

pub fn calls_interrupt_code_at_any_instruction() {
    let wanted = std::env::var(COUNT).map_or(COUNT_USUAL, |count| count.parse().expect("a number of interrupts"));
    let program = load(&module(BODY)).expect("a module");
    assert_eq!(program.refuses_urgent(), None);
    let calls = Arc::new(Calls {
        ready: BoundedQueue::new(READY),
        ended: BoundedQueue::new(READY),
        made: AtomicU64::new(0),
        missed: AtomicU64::new(0),
    });
    for _ in 0..8 {
        let mut instance = program.open_urgent(&tenant(1), &LIMITS).expect("an instance");
        instance.arm().expect("the thread of epochs");
        assert!(calls.ready.push(instance).is_ok());
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let (body_calls, body_over, body_program) = (Arc::clone(&calls), Arc::clone(&is_over), Arc::clone(&program));
    let (sender, receiver) = std::sync::mpsc::channel();
    let body = move || {
        procs_wasm::prepare_thread();
        let registration = preempt::register("computing", Arc::clone(&body_calls) as Arc<dyn Serve>).expect("a worker");
        sender.send(registration.worker()).expect("somebody waits");
        let mut instance = open(&module(BODY), Limits::default()).expect("an instance");
        let mut runs = 0_u64;
        while !body_over.load(SeqCst) {
            runs += 1;
            // Faults of ordinary code are signals; they are interrupted, too.
            let argument =
                if runs.is_multiple_of(50) { [1, 3, 5, 9][(runs / 50 % 4) as usize] } else { runs as i64 + 100 };
            let outcome = invoke(&mut *instance, argument, Limits::default(), &mut ModelEngine::default());
            check(argument, &outcome, "interrupted");
            if outcome.is_err() {
                instance = open(&module(BODY), Limits::default()).expect("an instance");
            }
            body_calls.turn(&body_program);
        }
        runs
    };
    let thread = thread::spawn(body);
    let worker = receiver.recv().expect("a worker");
    while calls.made.load(SeqCst) < wanted && !thread.is_finished() {
        Signal.send(worker);
        // The worker goes on for some microseconds between two interrupts, so that they land everywhere.
        for _ in 0..200 {
            std::hint::spin_loop();
        }
    }
    is_over.store(true, SeqCst);
    let runs = thread.join().expect("no wrong answer");
    let (made, counters) = (calls.made.load(SeqCst), preempt::totals());
    println!("{made} urgent calls interrupted {runs} runs; {counters:?}");
    assert!(0 < runs && wanted <= made);
}

/// Goal: an urgent invocation has the limits of its module, and a stack that fits an urgent context.
pub fn an_urgent_instance_is_limited() {
    let program = load(&module(BODY)).expect("a module");
    for argument in [1, 3, 5, 7, 9, 11] {
        let mut instance = program.open_urgent(&tenant(1), &LIMITS).expect("an instance");
        instance.arm().expect("the thread of epochs");
        let outcome = invoke(&mut *instance, argument, limits_of(argument), &mut ModelEngine::default());
        check(argument, &outcome, "alone");
        let again = invoke(&mut *instance, 11, LIMITS, &mut ModelEngine::default());
        assert_eq!(again.is_ok(), outcome.is_ok(), "{argument}: an instance ends with its first error");
        instance.disarm();
    }
    let grows = module("(drop (memory.grow (i32.const 4000))) local.get $len");
    let program = load(&grows).expect("a module");
    let mut instance = program.open_urgent(&tenant(1), &LIMITS).expect("an instance");
    instance.arm().expect("the thread of epochs");
    let refused = invoke(&mut *instance, 11, LIMITS, &mut ModelEngine::default()).expect_err("too much memory");
    assert_eq!(refused.state().0, "53200");
}
