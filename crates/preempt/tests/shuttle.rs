//! Model checks of the protocols between senders and a worker: no request is lost, whatever the interleaving.
//!
//! A signal is modelled as a word that the worker may notice between any two of its steps, as a thread notices a
//! signal. `cargo test -p preempt --features shuttle --test shuttle`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use preempt::{AllowedWays, BoundedQueue, Line, Mode, Sent};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU32, Ordering::SeqCst};
use shuttle::thread;

const SCHEDULES: usize = 20_000;

struct Model {
    line: Line,
    queue: BoundedQueue<u32>,
    /// True if a signal is on its way.
    signal: AtomicU32,
    served: AtomicU32,
}

impl Model {
    fn new() -> Arc<Model> {
        Arc::new(Model {
            line: Line::new(),
            queue: BoundedQueue::new(8),
            signal: AtomicU32::new(0),
            served: AtomicU32::new(0),
        })
    }

    fn send(&self, request: u32, want: AllowedWays) {
        self.queue.push(request).expect("the queue has room");
        if self.line.request(want) == Sent::Signalled {
            let before = self.signal.swap(1, SeqCst);
            assert_eq!(before, 0, "two signals outstanding");
        }
    }

    fn serve(&self) {
        let before = self.line.begin_urgent();
        loop {
            self.line.take();
            while self.queue.pop().is_some() {
                self.served.fetch_add(1, SeqCst);
            }
            if self.line.end_urgent(before) {
                break;
            }
        }
    }

    fn notice_signal(&self) {
        if self.signal.swap(0, SeqCst) == 1 {
            self.line.arrived();
            self.serve();
        }
    }

    fn change_mode(&self, mode: Mode) {
        if self.line.publish(mode) {
            self.serve();
        }
        self.notice_signal();
    }
}

fn no_request_is_lost(want: AllowedWays, modes: &'static [Mode], last_safepoint: bool) {
    shuttle::check_random(
        move || {
            let model = Model::new();
            let senders: Vec<_> = (0..2)
                .map(|request| {
                    let model = model.clone();
                    thread::spawn(move || {
                        model.send(request, want);
                        model.send(request + 10, want);
                    })
                })
                .collect();
            let worker = {
                let model = model.clone();
                thread::spawn(move || {
                    for mode in modes {
                        model.change_mode(*mode);
                        if *mode == Mode::Dense && model.line.polled() {
                            model.serve();
                        }
                    }
                })
            };
            for sender in senders {
                sender.join().unwrap();
            }
            worker.join().unwrap();
            // What is outstanding now arrives now; the flag is seen where the last mode has safepoints.
            model.notice_signal();
            if last_safepoint && model.line.polled() {
                model.serve();
            }
            assert_eq!(model.served.load(SeqCst), 4);
        },
        SCHEDULES,
    );
}

#[test]
fn the_ladder_loses_no_request() {
    let want = AllowedWays { poll: true, signal: true };
    no_request_is_lost(want, &[Mode::Dense, Mode::Foreign, Mode::Dense, Mode::Idle], false);
}

#[test]
fn signals_lose_no_request() {
    let want = AllowedWays { poll: false, signal: true };
    no_request_is_lost(want, &[Mode::Foreign, Mode::Idle, Mode::Foreign], false);
}

#[test]
fn polling_loses_no_request() {
    let want = AllowedWays { poll: true, signal: false };
    no_request_is_lost(want, &[Mode::Foreign, Mode::Dense], true);
    no_request_is_lost(want, &[Mode::Dense, Mode::Idle], false);
}

#[test]
fn every_value_leaves_the_queue_once_and_in_its_producers_order() {
    shuttle::check_random(
        || {
            let queue = Arc::new(BoundedQueue::new(2));
            let producers: Vec<_> = (0..2)
                .map(|producer| {
                    let queue = queue.clone();
                    thread::spawn(move || {
                        let mut pushed = Vec::new();
                        for n in 0..3 {
                            if queue.push((producer, n)).is_ok() {
                                pushed.push((producer, n));
                            }
                        }
                        pushed
                    })
                })
                .collect();
            let consumers: Vec<_> = (0..2)
                .map(|_| {
                    let queue = queue.clone();
                    thread::spawn(move || (0..3).filter_map(|_| queue.pop()).collect::<Vec<(i32, i32)>>())
                })
                .collect();
            let mut pushed: Vec<_> = producers.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            let mut popped = Vec::new();
            for consumer in consumers {
                let values = consumer.join().unwrap();
                for producer in 0..2 {
                    let order: Vec<_> = values.iter().filter(|(from, _)| *from == producer).collect();
                    assert!(order.is_sorted(), "{order:?}");
                }
                popped.extend(values);
            }
            popped.extend(std::iter::from_fn(|| queue.pop()));
            pushed.sort_unstable();
            popped.sort_unstable();
            assert_eq!(pushed, popped);
        },
        SCHEDULES,
    );
}
