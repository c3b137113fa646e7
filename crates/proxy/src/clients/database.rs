//! Database behind the proxy: its state, and if transactions may begin there.
//!
//! **Invariant:** once a pause has settled, no transaction is under way there, and none begins before it is resumed. A
//! transaction that begins counts itself first and looks for a pause then; a pause sets its flag first and counts then.
//! So one of them sees the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::Notify;

/// State of a database behind the proxy.
#[derive(Debug, Default)]
pub(crate) struct DatabaseState {
    is_paused: AtomicBool,
    under_way: AtomicUsize,
    changed: Notify,
    totals: TransactionCounters,
}

/// Totals over its transactions.
#[derive(Debug, Default)]
struct TransactionCounters {
    transactions: AtomicU64,
    statements: AtomicU64,
    run_us: AtomicU64,
    wait_us: AtomicU64,
}

/// Values of the totals at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransactionSums {
    pub(crate) transactions: u64,
    pub(crate) statements: u64,
    /// Time at the server, in microseconds.
    pub(crate) run_us: u64,
    /// Time of waits for admission and a connection, in microseconds.
    pub(crate) wait_us: u64,
}

/// Transaction that is under way. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct ActiveTransaction(Arc<DatabaseState>);

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl DatabaseState {
    pub(crate) fn new(is_paused: bool) -> DatabaseState {
        DatabaseState { is_paused: AtomicBool::new(is_paused), ..DatabaseState::default() }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused.load(SeqCst)
    }

    /// Sets the pause flag; returns true if that is a change.
    pub(crate) fn set_paused(&self, is_paused: bool) -> bool {
        let was = self.is_paused.swap(is_paused, SeqCst);
        self.changed.notify_waiters();
        was != is_paused
    }

    /// Waits until transactions may begin.
    pub(crate) async fn opened(&self) {
        while self.is_paused() {
            let changed = self.changed.notified();
            if self.is_paused() {
                changed.await;
            }
        }
    }

    /// Waits until no transaction is under way in a pause, or the pause is over. Returns true if the pause goes on.
    pub(crate) async fn settled(&self) -> bool {
        loop {
            let changed = self.changed.notified();
            let is_paused = self.is_paused();
            if !is_paused || self.under_way.load(SeqCst) == 0 {
                return is_paused;
            }
            changed.await;
        }
    }

    /// Begins a transaction, unless there is a pause.
    pub(crate) fn begin(self: &Arc<DatabaseState>) -> Option<ActiveTransaction> {
        self.under_way.fetch_add(1, SeqCst);
        let passage = ActiveTransaction(Arc::clone(self));
        (!self.is_paused()).then_some(passage)
    }

    pub(crate) fn sums(&self) -> TransactionSums {
        let TransactionCounters { transactions, statements, run_us, wait_us } = &self.totals;
        let [transactions, statements, run_us, wait_us] =
            [transactions, statements, run_us, wait_us].map(|sum| sum.load(Relaxed));
        TransactionSums { transactions, statements, run_us, wait_us }
    }
}

impl ActiveTransaction {
    /// Adds the time that the transaction has waited before it began.
    pub(crate) fn waited(&self, time: Duration) {
        self.0.totals.wait_us.fetch_add(us(time), Relaxed);
    }

    /// Counts the end of a transaction with this number of statements and this time.
    pub(crate) fn count(&self, statements: u64, run: Duration) {
        let totals = &self.0.totals;
        totals.transactions.fetch_add(1, Relaxed);
        totals.statements.fetch_add(statements, Relaxed);
        totals.run_us.fetch_add(us(run), Relaxed);
    }
}

impl Drop for ActiveTransaction {
    fn drop(&mut self) {
        if self.0.under_way.fetch_sub(1, SeqCst) == 1 && self.0.is_paused() {
            self.0.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn a_pause_waits_for_those_inside_and_keeps_others_out() {
        let database = Arc::new(DatabaseState::default());
        let mut cx = Context::from_waker(Waker::noop());
        let inside = database.begin().expect("there is no pause");
        assert!(database.set_paused(true) && !database.set_paused(true));
        assert!(database.begin().is_none());
        let mut settled = pin!(database.settled());
        let mut opened = pin!(database.opened());
        assert!(settled.as_mut().poll(&mut cx).is_pending() && opened.as_mut().poll(&mut cx).is_pending());
        inside.count(3, Duration::from_micros(7));
        drop(inside);
        assert!(settled.as_mut().poll(&mut cx).is_ready() && opened.as_mut().poll(&mut cx).is_pending());
        assert!(database.set_paused(false));
        assert!(opened.as_mut().poll(&mut cx).is_ready() && database.begin().is_some());
        assert_eq!(database.sums(), TransactionSums { transactions: 1, statements: 3, run_us: 7, wait_us: 0 });
    }
}
