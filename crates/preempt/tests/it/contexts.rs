//! Start of urgent contexts, and the state that they leave alone.

use crate::support::{Seen, until, with_worker};
use preempt::os;
use preempt::{Arrival, Delivery, Dense, Ladder, Mode, Poll, Sent, Serve, Signal, Worker};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

fn spin(stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        std::hint::spin_loop();
    }
}

fn spin_with_safepoints(stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        preempt::safepoint();
    }
}

/// Goal: code that never polls is interrupted. Method: a worker that only spins; every request must be served.
pub fn a_signal_interrupts_code_without_safepoints() {
    let seen = Arc::new(Seen::default());
    with_worker(seen.clone(), spin, |worker| {
        for n in 1..=200 {
            seen.queued.fetch_add(1, SeqCst);
            Signal.send(worker);
            until(|| seen.served.load(SeqCst) == n);
        }
    });
    assert_eq!(seen.polled.load(SeqCst), 0);
}

/// Goal: the flag alone interrupts nothing, and no flagged request is lost.
pub fn a_flag_is_served_at_a_safepoint_and_only_there() {
    let seen = Arc::new(Seen::default());
    let polling = AtomicBool::new(false);
    let base = |stop: &AtomicBool| {
        while !polling.load(SeqCst) {
            std::hint::spin_loop();
        }
        spin_with_safepoints(stop);
    };
    with_worker(seen.clone(), base, |worker| {
        seen.queued.fetch_add(1, SeqCst);
        assert_eq!(Poll.send(worker), Sent::Flagged);
        assert_eq!(seen.polled.load(SeqCst), 0);
        polling.store(true, SeqCst);
        until(|| seen.served.load(SeqCst) == 1);
        for n in 2..=5_000 {
            seen.queued.fetch_add(1, SeqCst);
            Poll.send(worker);
            until(|| seen.served.load(SeqCst) == n);
        }
    });
    assert!(seen.polled.load(SeqCst) >= 1);
}

/// Goal: where safepoints are dense the sender saves the signal.
pub fn the_ladder_sends_no_signal_to_dense_code() {
    let seen = Arc::new(Seen::default());
    let base = |stop: &AtomicBool| {
        let _dense = Dense::enter();
        spin_with_safepoints(stop);
    };
    with_worker(seen.clone(), base, |worker| {
        until(|| worker.mode() == Mode::Dense);
        for n in 1..=1_000 {
            seen.queued.fetch_add(1, SeqCst);
            let sent = Ladder.send(worker);
            assert!(matches!(sent, Sent::Flagged | Sent::Running), "{sent:?}");
            until(|| seen.served.load(SeqCst) == n);
        }
    });
}

/// Goal: never two urgent contexts on one thread, and a request made during one is served by it before it ends.
pub fn an_urgent_context_is_not_interrupted() {
    #[derive(Default)]
    struct Slow {
        inside: AtomicBool,
        nested: AtomicU64,
        queued: AtomicU64,
        served: AtomicU64,
    }
    impl Serve for Slow {
        fn serve(&self, worker: &'static Worker, _arrival: Arrival) {
            if self.inside.swap(true, SeqCst) {
                self.nested.fetch_add(1, SeqCst);
            }
            self.served.fetch_add(self.queued.swap(0, SeqCst), SeqCst);
            for _ in 0..1_000 {
                preempt::safepoint();
                drop(black_box(Box::new(worker.id())));
            }
            self.inside.store(false, SeqCst);
        }
    }
    let slow = Arc::new(Slow::default());
    with_worker(slow.clone(), spin, |worker| {
        for n in 1..=2_000 {
            slow.queued.fetch_add(1, SeqCst);
            Signal.send(worker);
            if n % 7 == 0 {
                until(|| slow.queued.load(SeqCst) == 0);
            }
        }
        until(|| slow.served.load(SeqCst) == 2_000);
    });
    assert_eq!(slow.nested.load(SeqCst), 0);
}

/// Goal: others see that a context is paused exactly while an urgent one runs above it.
pub fn the_base_context_is_paused_while_an_urgent_one_runs() {
    std::thread::spawn(|| {
        let _registration = preempt::register("paused", Arc::new(Seen::default())).unwrap();
        let base = preempt::current_context();
        assert!(!base.is_paused());
        preempt::enter_urgent(&mut || {
            assert!(preempt::in_urgent());
            assert!(base.is_paused());
            assert!(!preempt::current_context().is_paused());
            preempt::enter_urgent(&mut || assert!(preempt::in_urgent()));
        });
        assert!(!preempt::in_urgent());
        assert!(!base.is_paused());
    })
    .join()
    .unwrap();
}

/// Goal: a sleeping worker runs the work at once, on every rung, whichever system call it sleeps in.
pub fn an_idle_worker_is_woken_by_every_rung() {
    let rungs: [&dyn Delivery; 3] = [&Poll, &Signal, &Ladder];
    for rung in rungs {
        let seen = Arc::new(Seen::default());
        let sleeper = std::sync::Mutex::new(None);
        let base = |stop: &AtomicBool| {
            *sleeper.lock().unwrap() = Some(std::thread::current());
            Worker::current().unwrap().set_mode(Mode::Idle);
            while !stop.load(SeqCst) {
                std::thread::park();
            }
        };
        with_worker(seen.clone(), base, |worker| {
            until(|| worker.mode() == Mode::Idle);
            for n in 1..=50 {
                seen.queued.fetch_add(1, SeqCst);
                rung.send(worker);
                until(|| seen.served.load(SeqCst) == n);
            }
            let sleeper = sleeper.lock().unwrap().take().unwrap();
            // The flag that ends the loop is set after this closure, so wake it from a thread that comes later.
            std::thread::spawn(move || {
                while preempt::workers().any(|w| w.name() == "tested") {
                    sleeper.unpark();
                    std::thread::yield_now();
                }
            });
        });
        assert!(seen.calls() >= 1);
    }
}

/// Goal: a request flagged for dense code is not lost when that code turns foreign (Dekker's pattern on the line).
pub fn leaving_dense_code_serves_what_was_flagged() {
    let seen = Arc::new(Seen::default());
    let base = |stop: &AtomicBool| {
        while !stop.load(SeqCst) {
            let _dense = Dense::enter();
        }
    };
    with_worker(seen.clone(), base, |worker| {
        for n in 1..=5_000 {
            seen.queued.fetch_add(1, SeqCst);
            Ladder.send(worker);
            until(|| seen.served.load(SeqCst) == n);
        }
    });
}

/// Goal: integer, vector and rounding state of the interrupted code survive. Method: a computation over many live
/// registers gives the same bits with and without interrupts that use vectors themselves.
pub fn registers_survive_an_interrupt() {
    struct Clobber;
    impl Serve for Clobber {
        fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
            let noise: Vec<f64> = (0..64).map(|n| f64::from(n) * 1.5).collect();
            black_box(compute(&noise, 3));
        }
    }
    fn compute(values: &[f64], rounds: usize) -> u64 {
        let mut lanes = [1.0_f64; 16];
        let mut mixed = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..rounds {
            for chunk in values.chunks_exact(16) {
                for (lane, value) in lanes.iter_mut().zip(chunk) {
                    *lane = (*lane * 1.000_001 + value).sqrt();
                }
                mixed = mixed.rotate_left(7) ^ lanes[3].to_bits().wrapping_mul(0x2545_f491_4f6c_dd1d);
            }
        }
        lanes.iter().fold(mixed, |sum, lane| sum.rotate_left(9) ^ lane.to_bits())
    }
    let values: Vec<f64> = (0..4096).map(|n| f64::from(n).sin().abs()).collect();
    let expected = compute(&values, 50);
    let wrong = AtomicU64::new(0);
    let rounds = AtomicU64::new(0);
    let base = |stop: &AtomicBool| {
        while !stop.load(SeqCst) {
            if compute(black_box(&values), 50) != expected {
                wrong.fetch_add(1, SeqCst);
            }
            rounds.fetch_add(1, SeqCst);
        }
    };
    with_worker(Arc::new(Clobber), base, |worker| {
        until(|| {
            Signal.send(worker);
            rounds.load(SeqCst) > 200 && worker.counters().signalled > 500
        });
    });
    assert_eq!(wrong.load(SeqCst), 0);
}

/// Goal: a system call's error is still there after an interrupt whose work sets another.
pub fn errno_survives_an_interrupt() {
    struct FailACall;
    impl Serve for FailACall {
        fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
            let _ = std::fs::metadata("/nonexistent");
        }
    }
    let base = |stop: &AtomicBool| {
        while !stop.load(SeqCst) {
            let error = std::fs::File::open("/proc/self/mem/not-a-directory").unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::NotADirectory);
        }
    };
    with_worker(Arc::new(FailACall), base, |worker| {
        until(|| {
            Signal.send(worker);
            worker.counters().signalled > 300
        });
    });
}

/// Goal: SIGURG that no sender of ours sent does nothing.
pub fn a_signal_from_elsewhere_is_ignored() {
    let seen = Arc::new(Seen::default());
    let base = |stop: &AtomicBool| spin(stop);
    with_worker(seen.clone(), base, |worker| {
        let before = worker.counters().signals;
        let process = std::process::id().to_string();
        for _ in 0..5 {
            let status = std::process::Command::new("kill").args(["-URG", &process]).status().unwrap();
            assert!(status.success());
        }
        seen.queued.fetch_add(1, SeqCst);
        Signal.send(worker);
        until(|| seen.served.load(SeqCst) == 1);
        assert!(worker.counters().signals > before);
    });
}

/// Goal: `catch_unwind` works inside an urgent context, again and again, and the interrupted code never notices.
pub fn a_panic_in_an_urgent_context_harms_no_other() {
    #[derive(Default)]
    struct Panics {
        caught: AtomicU64,
    }
    impl Serve for Panics {
        fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
            let result = std::panic::catch_unwind(|| {
                let _held = Box::new([1_u8; 100]);
                std::panic::resume_unwind(Box::new("planned"));
            });
            assert!(result.is_err());
            self.caught.fetch_add(1, SeqCst);
        }
    }
    let panics = Arc::new(Panics::default());
    let base = |stop: &AtomicBool| {
        while !stop.load(SeqCst) {
            // The interrupted code unwinds too, and allocates.
            let result = std::panic::catch_unwind(|| {
                let held = vec![2_u8; 300];
                std::panic::resume_unwind(Box::new(held.len()));
            });
            assert_eq!(result.unwrap_err().downcast_ref::<usize>(), Some(&300));
        }
    };
    with_worker(panics.clone(), base, |worker| {
        until(|| {
            Signal.send(worker);
            panics.caught.load(SeqCst) > 2_000
        });
    });
}

/// Goal: workers come and go without using the table up, and their counts are kept.
pub fn a_worker_slot_is_used_again() {
    let before = preempt::totals().polled;
    for _ in 0..2 * preempt::WORKERS_MAX {
        std::thread::spawn(|| {
            let registration = preempt::register("short-lived", Arc::new(Seen::default())).unwrap();
            Poll.send(registration.worker());
            preempt::safepoint();
            assert!(preempt::register("twice", Arc::new(Seen::default())).is_err());
        })
        .join()
        .unwrap();
    }
    assert!(preempt::totals().polled >= before + 2 * preempt::WORKERS_MAX as u64);
}

/// Goal: a worker gets its interrupts although a sender that still knew its place's last owner sent while it registered.
/// Method: one thread sends to one place without a break while workers come and go there.
pub fn a_late_sender_mutes_no_new_worker() {
    let place = std::thread::spawn(|| preempt::register("first", Arc::new(Seen::default())).unwrap().worker());
    let place = place.join().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                Signal.send(place);
            }
        });
        let are_reached = (0..500).all(|_| {
            let life = || {
                let seen = Arc::new(Seen::default());
                let registration = preempt::register("next", seen.clone()).unwrap();
                assert!(std::ptr::eq(registration.worker(), place));
                until(|| seen.calls() > 2);
            };
            scope.spawn(life).join().is_ok()
        });
        is_over.store(true, SeqCst);
        assert!(are_reached);
    });
}

/// Goal: a signal whose value the kernel could not keep is still an interrupt. Method: no room for values at all.
#[allow(unsafe_code)]
pub fn a_signal_that_lost_its_value_is_served() {
    let nothing = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads a local; the limit is this process's own, and the test has that to itself.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &raw const nothing) }, 0);
    let seen = Arc::new(Seen::default());
    with_worker(seen.clone(), spin, |worker| {
        for n in 1..=20 {
            seen.queued.fetch_add(1, SeqCst);
            Signal.send(worker);
            until(|| seen.served.load(SeqCst) == n);
        }
    });
}

/// Goal: a worker whose registration ends with its thread's locals leaves no signal stack behind that std has unmapped.
#[allow(unsafe_code)]
pub fn a_worker_may_end_with_its_threads_locals() {
    static CHECKED: AtomicBool = AtomicBool::new(false);
    struct Last(Option<preempt::Registration>);
    impl Drop for Last {
        fn drop(&mut self) {
            self.0.take();
            // SAFETY: raises a signal whose handler is installed, on the stack that the kernel finds for it.
            CHECKED.store(unsafe { libc::raise(libc::SIGURG) } == 0, SeqCst);
        }
    }
    thread_local! {
        static LAST: std::cell::RefCell<Last> = const { std::cell::RefCell::new(Last(None)) };
    }
    std::thread::spawn(|| {
        let registration = preempt::register("last", Arc::new(Seen::default())).unwrap();
        LAST.with_borrow_mut(|last| last.0 = Some(registration));
    })
    .join()
    .unwrap();
    until(|| CHECKED.load(SeqCst));
}

/// Keeps interrupts from this thread, or lets them through.
#[allow(unsafe_code)]
fn mask_interrupts(how: i32) {
    // SAFETY: the set is a local.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGURG);
        assert_eq!(libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()), 0);
    }
}

/// Goal: the time that interrupts wait for regions holds no time between them. Method: a signal that a running urgent
/// context takes along, then a flag that waits for a region: neither has waited for a region since it landed.
pub fn what_an_urgent_context_takes_along_waits_for_no_region() {
    let seen = Arc::new(Seen::default());
    let ready = AtomicBool::new(false);
    let base = |_: &AtomicBool| {
        let worker = Worker::current().unwrap();
        mask_interrupts(libc::SIG_BLOCK);
        Signal.send(worker);
        preempt::enter_urgent(&mut || {
            mask_interrupts(libc::SIG_UNBLOCK);
            until(|| worker.counters().landed_in_region > 0);
        });
        let region = preempt::Region::enter();
        Poll.send(worker);
        preempt::safepoint();
        drop(region);
        ready.store(true, SeqCst);
    };
    with_worker(seen.clone(), base, |worker| {
        until(|| ready.load(SeqCst));
        // In a storm, others land in regions of this thread's life as a worker.
        if Worker::current().is_none() {
            assert_eq!(worker.counters().deferred_ns_sum, 0);
        }
    });
    assert!(seen.deferred.load(SeqCst) >= 1);
}

/// Goal: a sender knows which worker runs on another processor. Method: a worker that goes to the sender's processor, and one
/// whose processor a thread of the idle class takes.
pub fn a_worker_is_seen_where_it_runs() {
    let [here, there, ..] = os::cpus()[..] else {
        println!("SKIPPED: nobody runs elsewhere on one processor");
        return;
    };
    os::pin_to_cpu(here).expect("it is allowed");
    let (place, runs) = (AtomicUsize::new(there), AtomicBool::new(true));
    let base = |stop: &AtomicBool| {
        let mut at = None;
        while !stop.load(SeqCst) {
            let wanted = place.load(SeqCst);
            if at.replace(wanted) != Some(wanted) {
                os::pin_to_cpu(wanted).expect("it is allowed");
            }
            if runs.load(SeqCst) {
                preempt::safepoint();
            }
            std::thread::yield_now();
        }
    };
    with_worker(Arc::new(Seen::default()), base, |worker| {
        until(|| worker.seems_to_run_elsewhere());
        runs.store(false, SeqCst);
        let is_over = Arc::new(AtomicBool::new(false));
        let is_over_there = is_over.clone();
        let other = std::thread::spawn(move || {
            os::pin_to_cpu(there).expect("it is allowed");
            os::set_idle().expect("it needs no privilege");
            // An interrupt of the storm lets the worker be seen again.
            while !is_over_there.load(SeqCst) {
                preempt::safepoint();
            }
        });
        until(|| !worker.seems_to_run_elsewhere());
        is_over.store(true, SeqCst);
        other.join().expect("it does not panic");
        runs.store(true, SeqCst);
        until(|| worker.seems_to_run_elsewhere());
        place.store(here, SeqCst);
        until(|| !worker.seems_to_run_elsewhere());
    });
}

/// Goal: a timer wakes its thread at the last time that was set. Method: one that is set again, and one whose time has
/// passed.
pub fn a_timer_expires_at_the_last_time_that_was_set() {
    let timer = os::Timer::new().expect("a descriptor");
    let begun_ns = os::now_ns();
    timer.set_ns(begun_ns + 3_600_000_000_000);
    timer.set_ns(begun_ns + 20_000_000);
    // An interrupt of the storm ends a wait.
    while os::now_ns() < begun_ns + 20_000_000 {
        timer.wait();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| timer.wait());
        timer.set_ns(0);
    });
}
