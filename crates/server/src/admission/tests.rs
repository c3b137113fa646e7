//! Sessions that wait for admission, in a runtime whose clock the test controls where time matters.

use super::*;
use gate::GateSettings;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Context;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

fn admission(mpl: u32, change: impl FnOnce(&mut GateSettings)) -> Admission {
    let mut gate = GateSettings::of_priorities(mpl);
    change(&mut gate);
    Admission::new(&AdmissionOptions { mode: Mode::Fixed, gate, ..AdmissionOptions::default() }).expect("an admission")
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn about(class: Class) -> About {
    About { class, fingerprint: None, hot_key: None, owner: 0 }
}

/// True if the future is still pending.
fn waits<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

fn slots(admission: &Admission) -> (u32, usize) {
    let view = admission.view().expect("there is a gate");
    (view.gate.slots, view.gate.transactions)
}

#[test]
fn without_a_gate_everybody_goes_in() {
    let admission = Admission::default();
    let all: Vec<Slot> = runtime().block_on(async {
        let mut all = Vec::new();
        for _ in 0..1_000 {
            all.push(admission.enter(about(Class::Low), Instant::now()).await.expect("it is open"));
        }
        all
    });
    assert_eq!((all.len(), admission.view().is_none()), (1_000, true));
}

#[test]
fn the_important_go_first_and_who_drops_its_wait_is_forgotten() {
    let admission = admission(1, |_| {});
    runtime().block_on(async {
        let inside = admission.enter(about(Class::Normal), Instant::now()).await.expect("the first");
        let mut low = Box::pin(admission.enter(about(Class::Low), Instant::now()));
        let mut gone = Box::pin(admission.enter(about(Class::High), Instant::now()));
        let mut high = Box::pin(admission.enter(about(Class::High), Instant::now()));
        assert!(waits(low.as_mut()) && waits(gone.as_mut()) && waits(high.as_mut()));
        drop(gone);
        inside.done(Instant::now());
        assert!(waits(low.as_mut()));
        let high = high.await.expect("its turn");
        assert!(waits(low.as_mut()));
        drop(high);
        low.await.expect("its turn").done(Instant::now());
    });
    assert_eq!(slots(&admission), (0, 0));
    let view = admission.view().expect("there is a gate").gate;
    // One of them was dropped before it had done anything.
    assert_eq!(
        view.classes.iter().map(|class| (class.done, class.failed)).collect::<Vec<_>>(),
        [(0, 1), (1, 0), (1, 0)]
    );
    assert_eq!(view.counters.given_up, 1);
}

#[test]
fn one_that_was_let_in_and_does_not_look_gives_its_slot_back() {
    let admission = admission(1, |_| {});
    runtime().block_on(async {
        let inside = admission.enter(about(Class::Normal), Instant::now()).await.expect("the first");
        let mut admitted = Box::pin(admission.enter(about(Class::Normal), Instant::now()));
        let mut next = Box::pin(admission.enter(about(Class::Normal), Instant::now()));
        assert!(waits(admitted.as_mut()) && waits(next.as_mut()));
        drop(inside);
        // The transaction has the slot now, and has not been polled since.
        drop(admitted);
        drop(next.await.expect("its turn"));
    });
    assert_eq!(slots(&admission), (0, 0));
}

#[test]
fn a_slot_is_lent_and_comes_back() {
    let admission = admission(1, |gate| gate.lend_after = Some(Duration::from_millis(5)));
    runtime().block_on(async {
        let watched = admission.clone();
        let watch = tokio::spawn(async move { watched.watch().await });
        let mut resting = admission.enter(about(Class::Normal), Instant::now()).await.expect("the first");
        resting.idle();
        // No transaction leaves: this one is admitted because the slot is lent.
        let other = admission.enter(about(Class::Low), Instant::now()).await.expect("a lent slot");
        {
            let mut back = pin!(resting.active());
            assert!(waits(back.as_mut()));
            drop(other);
            back.await;
        }
        assert_eq!(slots(&admission), (1, 1));
        resting.done(Instant::now());
        watch.abort();
    });
    assert_eq!(slots(&admission), (0, 0));
}

#[test]
fn who_waits_too_long_is_told_where_it_stood() {
    let admission = admission(1, |gate| gate.classes[2].wait_max = Some(Duration::from_millis(5)));
    runtime().block_on(async {
        let watched = admission.clone();
        let watch = tokio::spawn(async move { watched.watch().await });
        let inside = admission.enter(about(Class::Low), Instant::now()).await.expect("the first");
        let away =
            admission.enter(about(Class::Low), Instant::now()).await.expect_err("it waits for five milliseconds");
        assert_eq!(away.error.state().0, "57014");
        let notice = away.notice.expect("it is told");
        assert_eq!(notice.message(), "transaction of class \"low\" was turned away");
        assert!(notice.detail_text().is_some_and(|text| text.starts_with("0 transactions were to go before it")));
        drop(inside);
        watch.abort();
    });
    assert_eq!(slots(&admission), (0, 0));
}

#[test]
fn a_full_queue_turns_away_at_once() {
    let admission = admission(1, |gate| gate.classes[1].queue_max = Some(1));
    runtime().block_on(async {
        let inside = admission.enter(about(Class::Normal), Instant::now()).await.expect("the first");
        let mut waiting = Box::pin(admission.enter(about(Class::Normal), Instant::now()));
        assert!(waits(waiting.as_mut()));
        let away = admission.enter(about(Class::Normal), Instant::now()).await.expect_err("one waits already");
        assert_eq!(away.error.state().0, "53300");
        drop(inside);
        drop(waiting.await.expect("its turn"));
    });
    assert_eq!(slots(&admission), (0, 0));
}

#[test]
fn many_threads_leave_nobody_behind() {
    let admission = admission(3, |_| {});
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let watched = admission.clone();
        let watch = tokio::spawn(async move { watched.watch().await });
        let session = |at: u64| {
            let admission = admission.clone();
            tokio::spawn(async move {
                for turn in 0..300u64 {
                    let class = Class::ALL[((at + turn) % 3) as usize];
                    let entering = admission.enter(about(class), Instant::now());
                    if (at * 7 + turn).is_multiple_of(11) {
                        // The wait is given up, sometimes after the transaction was admitted.
                        drop(tokio::time::timeout(Duration::from_micros(50), entering).await);
                        continue;
                    }
                    let mut slot = entering.await.expect("nobody is turned away");
                    if turn % 3 == 0 {
                        slot.idle();
                        tokio::task::yield_now().await;
                        slot.active().await;
                    }
                    slot.done(Instant::now());
                }
            })
        };
        let sessions: Vec<_> = (0..40).map(session).collect();
        for session in sessions {
            session.await.expect("it has ended");
        }
        watch.abort();
    });
    assert_eq!(slots(&admission), (0, 0));
    assert!(admission.0.as_ref().is_some_and(|shared| shared.lock().waiting.is_empty()));
}

#[test]
fn the_limit_is_found_while_transactions_come_and_go() {
    let mut options =
        AdmissionOptions { mode: Mode::Auto, gate: GateSettings::of_priorities(1), ..AdmissionOptions::default() };
    options.control.observation_min = Duration::ZERO;
    options.control.observation_max = Duration::from_millis(1);
    let admission = Admission::new(&options).expect("an admission");
    runtime().block_on(async {
        let watched = admission.clone();
        let watch = tokio::spawn(async move { watched.watch().await });
        while admission.view().is_some_and(|view| view.moves.is_empty()) {
            admission.enter(about(Class::Normal), Instant::now()).await.expect("it is open").done(Instant::now());
            tokio::task::yield_now().await;
        }
        watch.abort();
    });
    let view = admission.view().expect("there is a gate");
    assert_eq!(view.moves[0].to, view.gate.mpl);
    assert_eq!(slots(&admission), (0, 0));
}

#[test]
fn another_admission_is_of_the_same_kind() {
    let admission = admission(3, |_| {});
    let mpl = |admission: &Admission| admission.view().expect("there is a gate").gate.mpl;
    let before = admission.another();
    let gate = GateSettings::of_priorities(5);
    let options = AdmissionOptions { mode: Mode::Fixed, gate, ..AdmissionOptions::default() };
    assert_eq!(admission.change(&options), Ok(true));
    // The copy has the current settings, and each one is independent.
    assert_eq!((mpl(&admission), mpl(&before), mpl(&admission.another())), (5, 3, 5));
    assert!(!Admission::default().another().is_there());
}

/// A cancel may come before a handle is set, or without effect.
#[test]
fn a_runaway_is_cancelled_until_it_hears_of_it() {
    struct Counts(AtomicU32, Notify, Admission);
    impl Cancel for Counts {
        fn cancel(&self) {
            // The transaction cannot leave meanwhile, so another one of its session is not hit.
            if self.2.0.as_ref().is_some_and(|shared| shared.state.try_lock().is_err()) {
                self.0.fetch_add(1, Relaxed);
            }
            self.1.notify_one();
        }
    }
    let runaway = gate::Runaway { after: Duration::from_millis(1), reaction: gate::Reaction::Cancel };
    let admission = admission(1, |gate| gate.classes[1].runaway = Some(runaway));
    runtime().block_on(async {
        let watched = admission.clone();
        let watch = tokio::spawn(async move { watched.watch().await });
        let inside = admission.enter(about(Class::Normal), Instant::now()).await.expect("the first");
        while admission.view().expect("a gate").gate.counters.cancelled == 0 {
            tokio::task::yield_now().await;
        }
        let counts = Arc::new(Counts(AtomicU32::new(0), Notify::new(), admission.clone()));
        inside.cancel_by(|| Arc::clone(&counts) as Arc<dyn Cancel>);
        while counts.0.load(Relaxed) < 2 {
            counts.1.notified().await;
        }
        assert_eq!(inside.runaway().map(|told| told.state().0), Some("57014"));
        let before = counts.0.load(Relaxed);
        if let Some(shared) = &admission.0 {
            shared.lock().cancel_again(Time::ZERO.after(Duration::MAX / 2));
        }
        assert_eq!(counts.0.load(Relaxed), before, "it has been told");
        inside.done(Instant::now());
        watch.abort();
    });
}

/// Goal: what unwinds with a panic of the gate does not end the process before the panic was told. Method: a slot and a
/// place that end after one; the test ends with its process, if they use the gate.
#[test]
fn ends_of_slots_leave_a_half_changed_gate_to_others() {
    let admission = admission(2, |_| {});
    let (inside, place) = runtime().block_on(async {
        let room = admission.room(1).expect("a gate");
        (admission.enter(about(Class::Normal), Instant::now()).await.expect("it is open"), room.place().await)
    });
    let shared = admission.0.as_ref().expect("a gate");
    let panics = || shared.with(|_, _| panic!("on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err() && shared.is_half_changed());
    drop((inside, place));
}

#[test]
fn an_admission_without_a_gate_grants_connections_by_class() {
    let admission = Admission::default().granting(&TimeSource::system());
    assert!(!admission.is_there() && admission.view().is_none() && admission.mode() == Mode::Off);
    runtime().block_on(async {
        let room = admission.room(1).expect("it grants connections");
        let enter = |class| admission.enter_for(about(class), Some(&room), Instant::now());
        let first = enter(Class::Normal).await.expect("the first");
        let (mut low, mut high) = (Box::pin(enter(Class::Low)), Box::pin(enter(Class::High)));
        assert!(waits(low.as_mut()) && waits(high.as_mut()));
        assert!(room.is_full() && room.waiting() == 2);
        drop(admission.enter(about(Class::Low), Instant::now()).await.expect("it needs no connection"));
        first.done(Instant::now());
        assert!(waits(low.as_mut()));
        let mut high = high.await.expect("its turn");
        // The transaction keeps its connection beyond its end.
        let place = high.keep().expect("it has one");
        high.done(Instant::now());
        assert!(waits(low.as_mut()));
        drop(place);
        drop(low.await.expect("its turn"));
        // A request for a connection alone precedes all others.
        let inside = enter(Class::High).await.expect("it is free");
        let (mut next, mut alone) = (Box::pin(enter(Class::High)), Box::pin(room.place()));
        assert!(waits(next.as_mut()) && waits(alone.as_mut()));
        drop(inside);
        assert!(waits(next.as_mut()));
        drop(alone.await);
        drop(next.await.expect("its turn"));
        assert!(!room.is_full() && room.waiting() == 0);
    });
}

/// Places of two rooms are taken, kept, refused by the server and given up in all orders: none is lost, and none is
/// granted twice.
#[test]
fn many_threads_share_rooms() {
    let admission = admission(4, |_| {});
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
    let rooms = [admission.room(1).expect("a gate"), admission.room(2).expect("a gate")];
    let taken = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    runtime.block_on(async {
        let watched = admission.clone();
        let watch = tokio::spawn(async move { watched.watch().await });
        let session = |at: u64| {
            let (admission, rooms, taken) = (admission.clone(), rooms.clone(), Arc::clone(&taken));
            tokio::spawn(async move {
                for turn in 0..200u64 {
                    let which = ((at + turn) % 2) as usize;
                    let (room, taken, most) = (&rooms[which], &taken[which], which as u32 + 1);
                    if (at + turn).is_multiple_of(13) {
                        let place = room.place().await;
                        assert!(taken.fetch_add(1, SeqCst) < most);
                        tokio::task::yield_now().await;
                        taken.fetch_sub(1, SeqCst);
                        drop(place);
                        continue;
                    }
                    let class = Class::ALL[((at + turn) % 3) as usize];
                    let entering = admission.enter_for(about(class), Some(room), Instant::now());
                    if (at * 7 + turn).is_multiple_of(11) {
                        drop(tokio::time::timeout(Duration::from_micros(50), entering).await);
                        continue;
                    }
                    let mut slot = entering.await.expect("nobody is turned away");
                    if (at + turn).is_multiple_of(17) {
                        slot.wait_again(1).await.expect("nobody is turned away");
                        room.bound(None);
                    }
                    assert!(taken.fetch_add(1, SeqCst) < most);
                    let place = if turn % 3 == 0 { slot.keep() } else { None };
                    tokio::task::yield_now().await;
                    if place.is_none() {
                        taken.fetch_sub(1, SeqCst);
                    }
                    slot.done(Instant::now());
                    if place.is_some() {
                        tokio::task::yield_now().await;
                        taken.fetch_sub(1, SeqCst);
                    }
                }
            })
        };
        let sessions: Vec<_> = (0..40).map(session).collect();
        for session in sessions {
            session.await.expect("it has ended");
        }
        watch.abort();
    });
    assert_eq!(slots(&admission), (0, 0));
    assert!(rooms.iter().all(|room| !room.is_full() && room.waiting() == 0));
    assert!(admission.0.as_ref().is_some_and(|shared| shared.lock().waiting.is_empty()));
}
