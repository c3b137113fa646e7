//! Cost of an answer: reads and writes are counted below the session.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use engine::{Engine, EngineConfig};
use stage::Transport;
use statement::time::TimeSource;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use wire::io::{Io, Stay};
use wire::wake::Bells;
use wirekit::raw::{bind, execute, named, parse, query, sync};

#[derive(Default)]
struct Counts {
    reads: AtomicUsize,
    writes: AtomicUsize,
}

/// Stream that counts the reads and writes that would be system calls.
struct Counted(DuplexStream, Arc<Counts>);

impl Io for Counted {
    fn transport(&self) -> Transport {
        Transport::Unix
    }

    fn settled(self: Box<Self>, _stay: Stay) -> io::Result<Box<dyn Io>> {
        Ok(self)
    }
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.0).poll_read(cx, into);
        self.1.reads.fetch_add(usize::from(read.is_ready()), SeqCst);
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.1.writes.fetch_add(1, SeqCst);
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Sends `request` and reads up to `answers` times `ReadyForQuery`. Returns the numbers of reads
/// and writes that this took.
async fn cost(client: &mut DuplexStream, counts: &Counts, request: &[u8], answers: usize) -> (usize, usize) {
    let before = (counts.reads.load(SeqCst), counts.writes.load(SeqCst));
    client.write_all(request).await.unwrap();
    let (mut answer, ready) = (Vec::new(), b"Z\0\0\0\x05I");
    while answer.windows(ready.len()).filter(|window| window == ready).count() < answers {
        assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0);
    }
    (counts.reads.load(SeqCst) - before.0, counts.writes.load(SeqCst) - before.1)
}

/// Executions after which a statement counts as short, even if a busy machine made some of them long.
const SHORT: usize = 500;

#[tokio::test]
async fn an_execution_is_one_read_and_one_write() {
    let (mut client, theirs) = tokio::io::duplex(1 << 20);
    let (_server, ending) = tokio::sync::watch::channel(false);
    let ending = wire::conn::Ending::new(ending);
    let counts = Arc::new(Counts::default());
    let conn = Conn::new(Box::new(Counted(theirs, counts.clone())), Transport::Unix, ending, TimeSource::system());
    let database = sql::session::Database::new(Engine::new(EngineConfig::in_memory()));
    let (user, name) = ("postgres".to_owned(), "postgres".to_owned());
    let sql = database.connect(settings::Connect { user, database: name, ..Default::default() }).unwrap();
    let (bells, _heard) = Bells::new().unwrap();
    let stats = Arc::new(Stats::default());
    let activity = stats.enter(SessionStats::new(1, "postgres", "postgres", None, &TimeSource::system()));
    let workers = Workers::new(1, || {}).unwrap();
    let below = Arc::new(Below::start(&(Arc::new(|| {}) as server::network::ThreadStart)).unwrap());
    let limits = SessionLimits {
        message_max: 1 << 20,
        memory_max: 1 << 20,
        dispatch: Dispatch::Spot,
        workers,
        below,
        admission: Admission::default(),
    };
    let session = tokio::spawn(Session::new(conn, sql, bells.waiter(), limits, (stats, activity)).serve());
    let (_, writes) = cost(&mut client, &counts, &[parse("s", "select 1 as n", &[]), sync()].concat(), 2).await;
    // `ReadyForQuery` at the start of the session, and the answer.
    assert!(writes <= 2);
    let one = [bind("", "s", &[], &[], &[]), named(b'D', b'P', ""), execute("", 0), sync()].concat();
    let simple = query("select 1");
    // A new statement runs on another thread, and its rows are written before its end. Both are known to be short from
    // here on.
    for _ in 0..SHORT {
        cost(&mut client, &counts, &one, 1).await;
        cost(&mut client, &counts, &simple, 1).await;
    }
    // Twenty in a pipeline cost no more, and neither does a simple query. A busy machine may make any single one long.
    let twenty = one.repeat(20);
    for (messages, answers) in [(&one, 1), (&twenty, 20), (&simple, 1)] {
        let mut least = (usize::MAX, usize::MAX);
        for _ in 0..20 {
            least = least.min(cost(&mut client, &counts, messages, answers).await);
        }
        assert_eq!(least, (1, 1));
    }
    drop(client);
    session.await.unwrap();
}
