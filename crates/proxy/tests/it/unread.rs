//! Clients that take nothing of their answers, or only slowly.

use crate::support::{Front, value};
use ::gate::GateSettings;
use server::Config;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;
use wirekit::cluster::Cluster;
use wirekit::raw::query;
use wirekit::waits::{ROWS, large, reads_all, until};

/// Proxy that lends slots soon, and gives none beyond the limit because of missing progress.
fn narrow(slots: u32, change: impl FnOnce(&mut Config)) -> Option<Front> {
    let cluster = Cluster::start("")?;
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let mut gate = GateSettings::of_priorities(slots);
    (gate.lend_after, gate.stall_patience) = (Some(Duration::from_millis(5)), None);
    Some(Front::gated(cluster, &url, proxy::PoolLimits::default(), gate, change))
}

fn lent(front: &Front) -> usize {
    front.admission.view().unwrap().gate.classes.iter().map(|class| class.lent).sum()
}

/// Asserts that no transaction is inside, and no connection is in use.
fn nothing_is_left(front: &Front) {
    front.runtime.block_on(until("nobody is inside", || {
        let gate = front.admission.view().unwrap().gate;
        (gate.transactions, gate.slots, gate.extras) == (0, 0, 0)
    }));
    front.all_idle();
}

/// A client that reads again gets a slot again, and its whole result, whatever it has asked meanwhile.
pub fn a_slow_reader_has_all_of_it() {
    let Some(front) = narrow(1, |_| {}) else { return };
    let mut slow = front.raw();
    slow.send(&query(&large()));
    front.runtime.block_on(until("the slot is lent", || lent(&front) == 1));
    // Further requests wait now, as at a server that waits for its client.
    slow.send(&query("select 8 as a"));
    front.runtime.block_on(async {
        assert_eq!(value(&front.client().await, "select 7").await, "7");
    });
    let mut is_counted = false;
    reads_all(&mut slow, || {
        let gate = front.admission.view().unwrap().gate;
        is_counted |= gate.slots == 1 && gate.classes.iter().all(|class| class.lent == 0);
    });
    assert!(is_counted, "it went on without a slot");
    assert_eq!(slow.answer(), "Z(I)");
    assert_eq!(slow.answer(), "T(a:23:0) D(8) C(SELECT 1) Z(I)");
    drop(slow);
    nothing_is_left(&front);
}

/// Answers of the proxy's own are as many as those of a server: a client that takes none of them is not read any more.
pub fn who_takes_no_answers_of_the_front_is_not_heard() {
    const TOO_MUCH: usize = 40 << 20;
    let Some(front) = narrow(1, |_| {}) else { return };
    let mut silent = front.raw();
    silent.ask(&query("begin"));
    assert_eq!(silent.ask(&query("select 1 as a")), "T(a:23:0) D(1) C(SELECT 1) Z(T)");
    let show = query("show overtake.priority");
    silent.send(&show);
    let mut answer = 0;
    loop {
        let kind = silent.exactly(1)[0];
        let length = usize::try_from(u32::from_be_bytes(silent.exactly(4).try_into().unwrap())).unwrap();
        silent.exactly(length - 4);
        answer += 1 + length;
        if kind == b'Z' {
            break;
        }
    }
    // A write that takes so long says that nobody reads.
    silent.stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let questions = show.repeat(1_000);
    let mut sent = 0;
    loop {
        match silent.stream.write(&questions[sent % questions.len()..]) {
            Ok(count) => sent += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted),
        }
        assert!(sent < TOO_MUCH, "it is heard without end");
    }
    silent.stream.set_write_timeout(None).unwrap();
    // The client gets all of its answers when it reads.
    let mut rest = silent.stream.try_clone().unwrap();
    let last = show[sent % show.len()..].to_vec();
    let all = sent.div_ceil(show.len());
    let writing = std::thread::spawn(move || {
        if last.len() < show.len() {
            rest.write_all(&last).unwrap()
        }
    });
    for _ in 0..all {
        silent.exactly(answer);
    }
    writing.join().unwrap();
    assert_eq!(silent.ask(&query("commit")), "C(COMMIT) Z(I)");
    drop(silent);
    nothing_is_left(&front);
}

/// A client that reads nothing for too long is disconnected, and leaves its connection.
pub fn who_reads_nothing_for_too_long_is_gone() {
    let Some(front) = narrow(1, |config| config.send_timeout = Some(Duration::from_millis(700))) else { return };
    let mut silent = front.raw();
    silent.send(&query(&large()));
    front.runtime.block_on(until("it is inside", || front.admission.view().unwrap().gate.transactions == 1));
    nothing_is_left(&front);
    let mut taken = 0;
    let mut bytes = vec![0; 1 << 16];
    loop {
        match silent.stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => taken += count,
            Err(error) => break assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
    assert!(taken < ROWS * 1_000, "it was sent all");
}
