//! Cancels and time limits, which must not hit the next user of a connection.

use crate::fake::{Fake, PRIMARY};
use crate::servers::{self, client};
use crate::support::{Front, Gate, value};
use proxy::PoolLimits;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use wirekit::raw::{Raw, query, untyped};
use wirekit::waits::{until, waiting};

/// Gate with one connection.
fn before(fake: &Fake) -> Gate {
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable", fake.port);
    Gate::over(&url, PoolLimits { size: 1, ..PoolLimits::default() }, 1_000, |_| {})
}

/// Number that the server has for the client's connection.
fn number(client: &mut Raw<TcpStream>) -> String {
    client.ask(&query("number"))
}

/// Begins a statement that ends when its cancel has arrived.
fn begin(fake: &Fake, client: &mut Raw<TcpStream>) {
    client.send(&query("until cancelled"));
    servers::until("it runs", || fake.waits());
}

/// Requests a cancel, as drivers do; returns the connection that has brought it.
fn cancel(gate: &Gate, client: &Raw<TcpStream>) -> TcpStream {
    let mut stream = TcpStream::connect(gate.address).unwrap();
    let words = [80_877_102, client.pid, client.secret].map(i32::to_be_bytes);
    stream.write_all(&untyped(words.as_flattened())).unwrap();
    stream
}

/// True if nothing arrives, not even an end. The storm interrupts waits, so the stream is read repeatedly.
fn is_silent(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let begun = Instant::now();
    let is_silent = loop {
        match stream.peek(&mut [0]) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            _ => break false,
        }
        if Duration::from_millis(100) < begun.elapsed() {
            break true;
        }
        std::thread::yield_now();
    };
    stream.set_nonblocking(false).unwrap();
    is_silent
}

/// A cancel is still on its way when its statement has ended: the connection serves nobody, and the driver that has
/// requested the cancel waits.
pub fn nobody_gets_a_connection_that_a_cancel_may_hit() {
    let fake = Fake::new(PRIMARY);
    let gate = before(&fake);
    let (mut one, mut two) = (client(&gate, &[]), client(&gate, &[]));
    let first = number(&mut one);
    assert_eq!(number(&mut two), first);
    begin(&fake, &mut one);
    let mut brings = cancel(&gate, &one);
    assert_eq!(one.answer(), "C(INSERT 0 1) Z(I)");
    two.send(&query("number"));
    gate.runtime.block_on(until("it waits", || waiting(&gate.admission) == 1));
    assert!(is_silent(&brings) && is_silent(&two.stream));
    fake.ends_cancels();
    assert_eq!(two.answer(), first);
    assert_eq!(brings.read_to_end(&mut Vec::new()).unwrap(), 0);
    // It is unknown if the cancel still comes: of a client that is there, and of one that has gone, for which the gate
    // cancels.
    let mut last = first;
    for goes in [false, true] {
        let mut one = client(&gate, &[]);
        begin(&fake, &mut one);
        if goes {
            drop(one);
            fake.loses_cancels();
        } else {
            let _brings = cancel(&gate, &one);
            assert_eq!(one.answer(), "C(INSERT 0 1) Z(I)");
            fake.loses_cancels();
        }
        let next = number(&mut two);
        assert_ne!(next, last, "{goes}");
        last = next;
    }
}

/// A client that keeps its connection begins its next transaction when the cancel of the last one is over.
pub fn the_next_transaction_is_not_cancelled() {
    let fake = Fake::new(PRIMARY);
    let gate = before(&fake);
    let mut one = client(&gate, &[]);
    let first = number(&mut one);
    assert_eq!(one.ask(&query("listen a")), "C(LISTEN) Z(I)");
    begin(&fake, &mut one);
    let _brings = cancel(&gate, &one);
    assert_eq!(one.answer(), "C(INSERT 0 1) Z(I)");
    one.send(&query("number"));
    assert!(is_silent(&one.stream));
    fake.ends_cancels();
    assert_eq!(one.answer(), first);
}

/// The proxy's statements for a client may run under the `statement_timeout` that another client has left: nobody is
/// turned away for that.
pub fn a_time_limit_of_another_client_turns_nobody_away() {
    let fake = Fake::new(PRIMARY);
    let gate = before(&fake);
    let (mut one, mut two) = (client(&gate, &[]), client(&gate, &[]));
    let first = number(&mut two);
    for begins in [false, true] {
        assert_eq!(one.ask(&query("set statement_timeout = 1")), "C(SET) Z(I)");
        if begins {
            assert_eq!(two.ask(&query("begin")), "C(BEGIN) Z(T)");
        }
        let said = number(&mut two);
        assert!(said.contains("C(SELECT 1) Z(") && said != first, "{said}");
        if begins {
            assert_eq!(two.ask(&query("commit")), "C(COMMIT) Z(I)");
        }
        one = client(&gate, &[]);
    }
}

/// A `statement_timeout` of the role turns nobody away either.
pub fn a_time_limit_of_the_role_turns_nobody_away() {
    let fake = Fake::new(PRIMARY);
    fake.limit_roles();
    let gate = before(&fake);
    let (mut one, mut two) = (client(&gate, &[]), client(&gate, &[]));
    let first = number(&mut two);
    for begins in [false, true] {
        assert_eq!(one.ask(&query("set work_mem = 1")), "C(SET) Z(I)");
        if begins {
            assert_eq!(two.ask(&query("begin")), "C(BEGIN) Z(T)");
        }
        // The statements of the proxy take longer than that time.
        assert_eq!(number(&mut two)[..first.len() - 2], first[..first.len() - 2]);
        if begins {
            assert_eq!(two.ask(&query("commit")), "C(COMMIT) Z(I)");
        }
    }
}

/// A login is no statement, so the `statement_timeout` that it asks for does not limit it.
pub fn a_login_has_no_statement_timeout() {
    let Some(front) = Front::new(2) else { return };
    front.runtime.block_on(async {
        // The connection caches everything that it needs of `pg_depend`, except for lookups in the table.
        front.try_client("options='-c statement_timeout=1min'").await.unwrap();
        let direct = front.cluster.client().await;
        direct.batch_execute("begin; lock table pg_catalog.pg_depend in access exclusive mode").await.unwrap();
        let holds = async {
            let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
            while value(&direct, waits).await == "0" {}
            direct.batch_execute("select pg_sleep(0.2); commit").await.unwrap();
        };
        let (client, ()) = tokio::join!(front.try_client("options='-c statement_timeout=50ms'"), holds);
        assert_eq!(value(&client.unwrap(), "show statement_timeout").await, "50ms");
    });
}
