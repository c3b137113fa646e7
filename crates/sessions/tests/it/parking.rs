//! Statements that wait, and events meanwhile.

use crate::support::Rig;
use std::net::TcpStream;
use std::sync::atomic::Ordering::SeqCst;
use wirekit::raw::{Raw, query, untyped};

fn parked(rig: &Rig) -> Raw<TcpStream> {
    let mut client = rig.client();
    let before = rig.script.0.parked.load(SeqCst);
    client.send(&query("begin; park"));
    rig.until("it parks", |rig| before < rig.script.0.parked.load(SeqCst));
    client
}

pub fn a_parked_statement_goes_on() {
    let rig = Rig::new();
    let mut clients: Vec<_> = (0..20).map(|_| parked(&rig)).collect();
    // Other sessions are served meanwhile, and messages of the waiting ones are kept.
    assert_eq!(rig.client().ask(&query("insert 1")), "C(INSERT 0 1) Z(I)");
    clients[0].send(&query("insert 2"));
    rig.script.0.is_open.store(true, SeqCst);
    rig.script.0.wake_all();
    clients.iter_mut().for_each(|client| assert_eq!(client.answer(), "C(BEGIN) C(UPDATE 1) Z(T)"));
    assert_eq!(clients[0].answer(), "C(INSERT 0 2) Z(T)");
}

pub fn a_wake_up_for_nothing_parks_again() {
    let rig = Rig::new();
    let mut client = parked(&rig);
    for turn in 2..10 {
        rig.script.0.wake_all();
        rig.until("it parks again", |rig| rig.script.0.parked.load(SeqCst) == turn);
    }
    rig.script.0.is_open.store(true, SeqCst);
    rig.script.0.wake_all();
    assert_eq!(client.answer(), "C(BEGIN) C(UPDATE 1) Z(T)");
}

fn cancel(rig: &Rig, pid: i32, secret: i32) {
    let body = [80_877_102_i32.to_be_bytes(), pid.to_be_bytes(), secret.to_be_bytes()].concat();
    // The server answers nothing, whatever happens.
    assert_eq!(rig.stranger().ask(&untyped(&body)), "end");
}

pub fn cancel_by_key() {
    let rig = Rig::new();
    let mut client = parked(&rig);
    cancel(&rig, client.pid, client.secret.wrapping_add(1));
    cancel(&rig, client.pid + 1, client.secret);
    assert!(!rig.log().contains(&"cancel".to_owned()));
    cancel(&rig, client.pid, client.secret);
    assert_eq!(client.answer(), "C(BEGIN) E(ERROR|57014|canceling statement due to user request) Z(E)");
    let other = rig.client();
    assert_ne!((other.pid, other.secret), (client.pid, client.secret));
}

pub fn a_client_that_leaves_is_cancelled() {
    let rig = Rig::new();
    drop(parked(&rig));
    rig.until("its session ends", |rig| rig.script.0.alive.load(SeqCst) == 0);
    assert!(rig.log().ends_with(&["cancel".into(), "rollback".into()]));
}

pub fn who_is_idle_for_too_long_must_go() {
    let rig = Rig::new();
    let mut client = rig.client();
    client.send(&query("begin; idle-limit 50"));
    assert_eq!(client.answer(), "C(BEGIN) C(SET) Z(T)");
    assert_eq!(client.answer(), "E(FATAL|25P03|terminating connection due to idle-in-transaction timeout) end");
    assert!(rig.log().ends_with(&["rollback".into()]));
    let mut client = rig.client();
    assert_eq!(client.ask(&query("idle-limit 50")), "C(SET) Z(I)");
    assert_eq!(client.answer(), "E(FATAL|57P05|terminating connection due to idle-session timeout) end");
}

pub fn shutdown_tells_everybody() {
    let mut rig = Rig::new();
    let mut clients = [rig.client(), parked(&rig)];
    rig.shutdown.take().unwrap().send(()).unwrap();
    let last = "E(FATAL|57P01|terminating connection due to administrator command) end";
    assert_eq!(clients[0].answer(), last);
    assert_eq!(clients[1].answer(), format!("C(BEGIN) {last}"));
    let server = rig.server.take().unwrap();
    rig.runtime.block_on(server).unwrap().unwrap();
    assert_eq!(rig.script.0.alive.load(SeqCst), 0);
    assert!(TcpStream::connect(rig.address).is_err());
}

pub fn shutdown_does_not_wait_for_ever() {
    let mut rig = Rig::with(|config| config.shutdown_grace = std::time::Duration::from_millis(100));
    let mut client = rig.client();
    // The client requests more than the system's buffers hold, and does not read.
    client.send(&query("rows 600000"));
    assert_eq!(client.next().unwrap(), "T(n:23:0,t:25:0)");
    rig.shutdown.take().unwrap().send(()).unwrap();
    let server = rig.server.take().unwrap();
    rig.runtime.block_on(server).unwrap().unwrap();
    assert_eq!(rig.script.0.alive.load(SeqCst), 0);
    drop(client);
}
