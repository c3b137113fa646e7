//! COPY: the messages on the wire, including misbehaving clients.

use crate::support::Rig;
use std::sync::atomic::Ordering::SeqCst;
use wirekit::raw::{bind, execute, message, parse, query, sync};

fn data(bytes: &[u8]) -> Vec<u8> {
    message(b'd', bytes)
}

fn done() -> Vec<u8> {
    message(b'c', b"")
}

fn portal(text: &str) -> Vec<u8> {
    [parse("", text, &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat()
}

pub fn data_come_in() {
    let rig = Rig::new();
    let mut client = rig.client();
    client.send(&query("copy-in; insert 1"));
    assert_eq!(client.next().unwrap(), "G(0,2)");
    let all = [data(b"1\ta\n"), data(b""), message(b'H', b""), data(b"2\tb"), data(b"\n"), done()].concat();
    assert_eq!(client.ask(&all), "C(COPY 8) C(INSERT 0 1) Z(I)");
    // Messages that come byte by byte, and one that is longer than other messages may be.
    client.send(&query("copy-in-binary"));
    assert_eq!(client.next().unwrap(), "G(1,1)");
    for byte in [data(b"abc"), data(b"de")].concat() {
        client.send(&[byte]);
    }
    client.send(&data(&vec![b'x'; 80 << 20]));
    assert_eq!(client.ask(&done()), format!("C(COPY {}) Z(I)", 5 + (80 << 20)));
    // Outside of a COPY, its messages are ignored.
    assert_eq!(
        client.ask(&[data(b"x"), done(), message(b'f', b"no\0"), query("insert 1")].concat()),
        "C(INSERT 0 1) Z(I)"
    );
}

pub fn data_come_in_by_the_extended_protocol() {
    let rig = Rig::new();
    let mut client = rig.client();
    client.send(&portal("copy-in"));
    assert_eq!([client.next(), client.next(), client.next()].map(Option::unwrap), ["1", "2", "G(0,2)"]);
    // The first `Sync` was sent before the client knew of the COPY.
    assert_eq!(client.ask(&[sync(), data(b"abc"), done(), sync()].concat()), "C(COPY 3) Z(I)");
    assert_eq!(client.ask(&portal("insert 1")), "1 2 C(INSERT 0 1) Z(I)");
}

pub fn an_error_swallows_the_rest() {
    let rig = Rig::new();
    let mut client = rig.client();
    let error = "E(ERROR|22P04|extra data after last expected column)";
    client.send(&query("begin; copy-in 3; insert 1"));
    assert_eq!([client.next(), client.next()].map(Option::unwrap), ["C(BEGIN)", "G(0,2)"]);
    // The rest of the failing message comes after the answer.
    let long = data(&vec![b'x'; 1 << 20]);
    client.send(&long[..1000]);
    assert_eq!(client.answer(), format!("{error} Z(E)"));
    let rest = [&long[1000..], &data(b"more"), &done(), &query("rollback")].concat();
    assert_eq!(client.ask(&rest), "C(ROLLBACK) Z(I)");
    // In the extended protocol, everything up to `Sync` is discarded.
    client.send(&portal("copy-in 3"));
    let rest = [data(b"abcde"), data(b"x"), done(), query("insert 1"), sync()].concat();
    assert_eq!(client.ask(&rest), format!("1 2 G(0,2) {error} Z(I)"));
    assert_eq!(client.ask(&query("insert 7")), "C(INSERT 0 7) Z(I)");
    assert!(!rig.log().contains(&"insert 1".to_owned()));
}

pub fn a_client_gives_up_leaves_or_is_confused() {
    let rig = Rig::new();
    let mut client = rig.client();
    let begin = query("copy-in");
    let failed = "G(0,2) E(ERROR|57014|COPY from stdin failed: no more) Z(I)";
    assert_eq!(client.ask(&[&begin[..], &data(b"a"), &message(b'f', b"no more\0")].concat()), failed);
    let lost = "E(FATAL|08P01|terminating connection because protocol synchronization was lost) end";
    let confused = format!("G(0,2) E(ERROR|08P01|unexpected message type 0x51 during COPY from stdin) {lost}");
    assert_eq!(client.ask(&[&begin[..], &data(b"a"), &query("insert 1")].concat()), confused);
    let confused = confused.replace("0x51", "0x01");
    assert_eq!(rig.client().ask(&[&begin[..], &[1, 2, 3]].concat()), confused);
    assert!(rig.client().ask(&[&begin[..], b"c\xff\0\0\0"].concat()).ends_with(lost));
    rig.until("they have gone", |rig| rig.script.0.alive.load(SeqCst) == 0);
    let before = rig.log().len();
    let mut client = rig.client();
    client.send(&[&begin[..], &data(b"abc")[..6]].concat());
    assert_eq!(client.next().unwrap(), "G(0,2)");
    drop(client);
    rig.until("it has gone, too", |rig| rig.script.0.alive.load(SeqCst) == 0);
    assert_eq!(rig.log()[before + 1..], ["copy-in", "rollback"]);
}

pub fn data_that_must_wait() {
    let rig = Rig::new();
    let mut client = rig.client();
    let all = [query("copy-in-park"), data(b"abc"), data(b"de"), done()].concat();
    client.send(&all);
    assert_eq!(client.next().unwrap(), "G(0,2)");
    rig.until("it parks", |rig| rig.script.0.parked.load(SeqCst) == 1);
    rig.script.0.is_open.store(true, SeqCst);
    rig.script.0.wake_all();
    assert_eq!(client.answer(), "C(COPY 5) Z(I)");
    // A client that disconnects while its data wait.
    rig.script.0.is_open.store(false, SeqCst);
    client.send(&all);
    rig.until("it parks again", |rig| rig.script.0.parked.load(SeqCst) == 2);
    drop(client);
    rig.until("its session ends", |rig| rig.script.0.alive.load(SeqCst) == 0);
    assert!(rig.log().ends_with(&["cancel".into(), "rollback".into()]));
}

pub fn data_go_out_part_by_part() {
    let rig = Rig::new();
    let mut client = rig.client();
    assert_eq!(
        client.ask(&query("copy-out 2; insert 1")),
        "H(0,2) d(1\txxxxxx) d(2\txxxxxx) c C(COPY 2) C(INSERT 0 1) Z(I)"
    );
    assert_eq!(client.ask(&portal("copy-out 1")), "1 2 H(0,2) d(1\txxxxxx) c C(COPY 1) Z(I)");
    let failed = client.ask(&query("copy-out 2000"));
    assert!(failed.ends_with("d(1300\txxx) E(ERROR|22012|division by zero) Z(I)"), "{}", &failed[failed.len() - 90..]);
    let before = rig.script.0.given.load(SeqCst);
    // For a client that does not read, no rows are read: the system's buffers fill up, and the server holds one part.
    let mut slow = rig.client();
    slow.send(&query("copy-out 100100"));
    assert_eq!(slow.next().unwrap(), "H(0,2)");
    assert_eq!(client.ask(&query("insert 1")), "C(INSERT 0 1) Z(I)");
    assert!(rig.script.0.given.load(SeqCst) - before < 50_000);
    drop(slow);
    rig.until("its session ends", |rig| rig.script.0.alive.load(SeqCst) == 1);
}
