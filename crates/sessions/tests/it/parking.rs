//! Statements that wait, and events meanwhile.

use crate::real::Real;
use std::net::TcpStream;
use wirekit::raw::{Raw, query, untyped};

const ROWS: usize = 20;

/// Starts a server with a table of [`ROWS`] rows, and a client that has locked all of them.
fn held() -> (Real, Raw<TcpStream>) {
    let real = Real::new();
    let create = "create table t (id int primary key, n int)";
    let insert = format!("insert into t select generate_series(1, {ROWS}), 0");
    let mut holder = real.raw_client_after(&format!("{create}; {insert}"));
    holder.ask(&query("begin; select * from t for update"));
    (real, holder)
}

/// Connects a client, and returns when its statement waits for this row.
fn parked(real: &Real, row: usize) -> Raw<TcpStream> {
    let mut client = real.raw_client();
    let before = real.waits();
    client.send(&query(&format!("begin; update t set n = n + 1 where id = {row}")));
    real.wait_until("it waits", |real| before < real.waits());
    client
}

pub fn a_parked_statement_goes_on() {
    let (real, mut holder) = held();
    let mut clients: Vec<_> = (1..=ROWS).map(|row| parked(&real, row)).collect();
    // Other sessions are served meanwhile, and messages of the waiting ones are kept.
    assert_eq!(real.raw_client().ask(&query("select 1 as n")), "T(n:23:0) D(1) C(SELECT 1) Z(I)");
    clients[0].send(&query("insert into t values (0, 0)"));
    assert_eq!(holder.ask(&query("commit")), "C(COMMIT) Z(I)");
    clients.iter_mut().for_each(|client| assert_eq!(client.answer(), "C(BEGIN) C(UPDATE 1) Z(T)"));
    assert_eq!(clients[0].answer(), "C(INSERT 0 1) Z(T)");
}

/// A statement that needs the rows of several sessions waits for one after the other.
pub fn a_wake_up_for_nothing_parks_again() {
    let (real, mut holder) = held();
    holder.ask(&query("rollback"));
    let mut holders: Vec<_> = (1..=8)
        .map(|row| real.raw_client_after(&format!("begin; select * from t where id = {row} for update")))
        .collect();
    let mut client = real.raw_client();
    client.send(&query("begin; update t set n = n + 1 where id <= 8"));
    for holder in &mut holders {
        let pid = holder.pid;
        let waits_for_it = |real: &Real| {
            let locks = real.engine.locks();
            let is_its = |lock: &&engine::LockView| {
                lock.granted && lock.session.as_ref().is_some_and(|name| name.contains(&pid.to_string()))
            };
            let its: Vec<u64> = locks.iter().filter(is_its).map(|lock| lock.transaction).collect();
            locks.iter().any(|lock| !lock.granted && lock.blocked_by.iter().any(|by| its.contains(by)))
        };
        real.wait_until("it waits for this one", waits_for_it);
        assert_eq!(holder.ask(&query("rollback")), "C(ROLLBACK) Z(I)");
    }
    assert_eq!(client.answer(), "C(BEGIN) C(UPDATE 8) Z(T)");
}

fn cancel(real: &Real, pid: i32, secret: i32) {
    let body = [80_877_102_i32.to_be_bytes(), pid.to_be_bytes(), secret.to_be_bytes()].concat();
    // The server answers nothing, whatever happens.
    assert_eq!(real.stranger().ask(&untyped(&body)), "end");
}

pub fn cancel_by_key() {
    let (real, mut holder) = held();
    let (mut first, mut second) = (parked(&real, 1), parked(&real, 2));
    cancel(&real, first.pid, first.secret.wrapping_add(1));
    cancel(&real, second.pid, first.secret);
    cancel(&real, first.pid.max(second.pid) + 1, first.secret);
    assert_eq!(real.waits(), 2);
    cancel(&real, second.pid, second.secret);
    assert_eq!(second.answer(), "C(BEGIN) E(ERROR|57014|canceling statement due to user request) Z(E)");
    // What has the wrong key cancels nothing.
    assert_eq!(holder.ask(&query("commit")), "C(COMMIT) Z(I)");
    assert_eq!(first.answer(), "C(BEGIN) C(UPDATE 1) Z(T)");
    assert_ne!((first.pid, first.secret), (second.pid, second.secret));
}

pub fn a_client_that_leaves_is_cancelled() {
    let (real, _holder) = held();
    drop(parked(&real, 1));
    real.wait_until("its session ends", |real| real.sessions() == 1);
    assert_eq!((real.waits(), real.engine.transactions().len()), (0, 1));
}

pub fn who_is_idle_for_too_long_must_go() {
    let real = Real::new();
    let mut client = real.raw_client_after("create table t (n int)");
    client.send(&query("begin; insert into t values (1); set local idle_in_transaction_session_timeout = 50"));
    assert_eq!(client.answer(), "C(BEGIN) C(INSERT 0 1) C(SET) Z(T)");
    assert_eq!(client.answer(), "E(FATAL|25P03|terminating connection due to idle-in-transaction timeout) end");
    assert!(real.engine.transactions().is_empty());
    let mut client = real.raw_client();
    assert_eq!(client.ask(&query("set idle_session_timeout = 50")), "C(SET) Z(I)");
    assert_eq!(client.answer(), "E(FATAL|57P05|terminating connection due to idle-session timeout) end");
}

pub fn shutdown_tells_everybody() {
    let (mut real, holder) = held();
    let mut clients = [holder, parked(&real, 1)];
    let shutdown = real.shutdown.take().unwrap();
    shutdown.send(()).unwrap();
    let last = "E(FATAL|57P01|terminating connection due to administrator command) end";
    assert_eq!(clients[0].answer(), last);
    let mut told = clients[1].answer();
    if told == "C(BEGIN) C(UPDATE 1) Z(T)" {
        // The end of the holder has given it the row before it was told.
        told = format!("C(BEGIN) {}", clients[1].answer());
    }
    assert_eq!(told, format!("C(BEGIN) {last}"));
    let server = real.server.take().unwrap();
    real.runtime.block_on(server).unwrap().unwrap();
    assert_eq!(real.sessions(), 0);
    assert!(TcpStream::connect(real.address).is_err());
}

pub fn shutdown_does_not_wait_for_ever() {
    let mut real = Real::with("", |config| config.shutdown_grace = std::time::Duration::from_millis(100));
    let mut client = real.raw_client();
    // The client requests more than the system's buffers hold, and does not read.
    client.send(&query(&crate::real::rows(600_000)));
    assert_eq!(client.next().unwrap(), "T(n:23:0,t:25:0)");
    real.shut_down();
    assert_eq!(real.sessions(), 0);
    drop(client);
}
