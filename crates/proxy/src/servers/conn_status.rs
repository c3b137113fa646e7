//! View of a server connection for the admin console.
//!
//! **Invariant:** a view holds nobody up: the connection's owner writes three numbers when it takes the connection and
//! one when it returns it.

use crate::clients::cancel_request::ServerCancel;
use crate::servers::url::ServerAddress;
use gate::Ticket;
use statement::time::TimeSource;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Description of a server connection.
#[derive(Debug)]
pub(crate) struct ConnStatus {
    pub(crate) host: ServerAddress,
    /// Process number at the server.
    pub(crate) pid: i32,
    born: Instant,
    /// Start of the connection, in microseconds since 1970.
    pub(crate) born_us: i64,
    /// Number of the client that has it; 0: none.
    client: AtomicI32,
    /// Time at which that client got it, in microseconds of its age.
    taken_us: AtomicU64,
    /// Ticket of its transaction at the gate, plus one; 0: none.
    ticket: AtomicU64,
}

impl ConnStatus {
    pub(crate) fn new(line: &ServerCancel, time: &TimeSource) -> ConnStatus {
        ConnStatus {
            host: line.host().clone(),
            pid: line.pid(),
            born: time.now(),
            born_us: time.unix_us(),
            client: AtomicI32::new(0),
            taken_us: AtomicU64::new(0),
            ticket: AtomicU64::new(0),
        }
    }

    pub(crate) fn taken_by(&self, client: i32, now: Instant) {
        let age = now.saturating_duration_since(self.born).as_micros();
        self.taken_us.store(u64::try_from(age).unwrap_or(u64::MAX), Relaxed);
        self.client.store(client, Relaxed);
    }

    /// Notes that it runs this transaction of the gate.
    pub(crate) fn works_for(&self, ticket: Option<Ticket>) {
        self.ticket.store(ticket.map_or(0, |ticket| ticket.to_bits().wrapping_add(1)), Relaxed);
    }

    /// Ticket of the last transaction that it ran, which may be over.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        Some(self.ticket.load(Relaxed)).filter(|&bits| bits != 0).map(|bits| Ticket::from_bits(bits.wrapping_sub(1)))
    }

    pub(crate) fn rests(&self) {
        self.client.store(0, Relaxed);
    }

    /// Number of the client that has it.
    pub(crate) fn client(&self) -> Option<i32> {
        Some(self.client.load(Relaxed)).filter(|&client| client != 0)
    }

    /// Time at which a client last got it, in microseconds since 1970.
    pub(crate) fn request_us(&self) -> i64 {
        self.born_us.saturating_add_unsigned(self.taken_us.load(Relaxed))
    }
}
