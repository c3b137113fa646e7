//! Waits of tests, and the conditions that they wait for.

use crate::raw::Raw;
use gate::GateSettings;
use server::Admission;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Turns the lending of slots off.
pub fn keep_slots(gate: &mut GateSettings) {
    gate.lend_after = None;
    gate.stall_patience = None;
}

/// Number of waiting transactions, of all classes.
pub fn waiting(admission: &Admission) -> usize {
    admission.view().unwrap().gate.classes.iter().map(|class| class.waiting).sum()
}

/// Waits until a condition holds.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "never: {what}");
        tokio::task::yield_now().await;
    }
}

/// SQLSTATE of an error.
pub fn state(error: &tokio_postgres::Error) -> String {
    error.as_db_error().unwrap().code().code().to_owned()
}

/// Sends a request to an HTTP server and returns the answer.
pub fn http(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Number of rows of [`large`]: more than the system's socket buffers hold.
pub const ROWS: usize = 40_000;

/// Query whose result has [`ROWS`] numbered rows.
pub fn large() -> String {
    format!("select lpad(n::text, 1000, '0') from generate_series(1, {ROWS}) n")
}

/// Reads a result of [`large`] whose columns were not described yet, and calls `between` after each thousandth row.
pub fn reads_all(raw: &mut Raw<TcpStream>, mut between: impl FnMut()) {
    let columns = raw.next().unwrap();
    assert!(columns.starts_with("T("), "{columns}");
    for number in 1..=ROWS {
        assert_eq!(raw.next(), Some(format!("D({number:0>1000})")));
        if number % 1_000 == 0 {
            between();
        }
    }
    assert_eq!(raw.next(), Some(format!("C(SELECT {ROWS})")));
}
