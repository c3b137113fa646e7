use super::*;
use std::cell::Cell;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

thread_local! {
    /// Bytes that the connections of this thread hold.
    static HELD: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    HELD.set(HELD.get() + bytes);
}

/// Runs a job on a thread with a ring, in a runtime of its own. Returns false if there is no io_uring here.
fn on_a_ring<F: Future<Output = ()>>(job: impl FnOnce() -> F + Send + 'static) -> bool {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let has_run = runtime.block_on(async {
            if let Err(error) = start(count) {
                println!("SKIPPED: no io_uring: {error}");
                return false;
            }
            tokio::time::timeout(Duration::from_secs(20), job()).await.unwrap();
            true
        });
        drop(runtime);
        stop();
        assert_eq!(HELD.get(), 0);
        has_run
    };
    thread::spawn(run).join().unwrap()
}

/// Waits, and lets all other tasks run, until the kernel has all operations of this thread, and so many of them are not
/// over. The limit of the job is that of the wait.
async fn until_in_flight(operations: usize) {
    let state = || driver::with(|driver| (driver.ring().in_flight(), driver.ring().has_work())).unwrap();
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if state() == (operations, false) {
            return;
        }
    }
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = listener.accept().unwrap().0;
    server.set_nonblocking(true).unwrap();
    (server, client)
}

#[test]
fn bytes_pass_both_ways() {
    on_a_ring(|| async {
        let (server, mut client) = pair();
        let all: Vec<u8> = (0..3_000_000_usize).map(|at| (at % 251) as u8).collect();
        let sent = all.clone();
        let other = thread::spawn(move || {
            let mut reader = client.try_clone().unwrap();
            let length = sent.len();
            let reads = thread::spawn(move || {
                let mut got = Vec::new();
                reader.read_to_end(&mut got).unwrap();
                assert_eq!(got.len(), length);
                got
            });
            client.write_all(&sent).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            reads.join().unwrap()
        });
        let mut stream = UringStream::new(server).unwrap();
        let mut got = Vec::new();
        // A reader that is late: the kernel stops receiving meanwhile.
        until_in_flight(0).await;
        assert!(64 << 10 <= HELD.get());
        stream.read_to_end(&mut got).await.unwrap();
        assert!(got == all);
        stream.write_all(&got).await.unwrap();
        stream.shutdown().await.unwrap();
        drop(stream);
        let back = tokio::task::spawn_blocking(move || other.join().unwrap()).await.unwrap();
        assert!(back == all);
    });
}

#[test]
fn many_connections_have_their_turns() {
    on_a_ring(|| async {
        let mut others = Vec::new();
        let mut tasks = Vec::new();
        for number in 0..50_u8 {
            let (server, mut client) = pair();
            let mut stream = UringStream::new(server).unwrap();
            tasks.push(tokio::spawn(async move {
                let mut bytes = [0; 100];
                loop {
                    let count = stream.read(&mut bytes).await.unwrap();
                    if count == 0 {
                        return;
                    }
                    stream.write_all(&bytes[..count]).await.unwrap();
                }
            }));
            others.push(thread::spawn(move || {
                for at in 0..100_u8 {
                    client.write_all(&[number, at]).unwrap();
                    let mut got = [0; 2];
                    client.read_exact(&mut got).unwrap();
                    assert_eq!(got, [number, at]);
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn who_never_reads_is_waited_for_and_found_dead() {
    on_a_ring(|| async {
        let (server, client) = pair();
        let mut stream = UringStream::new(server).unwrap();
        let bytes = vec![1; 1 << 20];
        let writes = async {
            for _ in 0..100 {
                stream.write_all(&bytes).await?;
            }
            std::io::Result::Ok(())
        };
        let mut writes = std::pin::pin!(writes);
        tokio::time::timeout(Duration::from_millis(100), &mut writes).await.unwrap_err();
        drop(client);
        writes.await.unwrap_err();
    });
}

/// Returns the names of the files that are open in this process. Those of sockets are numbers that do not come again.
fn open_files() -> HashSet<PathBuf> {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    // Other tests close descriptors meanwhile.
    all.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect()
}

#[test]
fn connections_leave_nothing() {
    on_a_ring(|| async {
        let mut own = HashSet::new();
        for round in 0..300 {
            let (server, mut client) = pair();
            for socket in [&server, &client] {
                own.insert(std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap());
            }
            let mut stream = UringStream::new(server).unwrap();
            if round % 3 == 0 {
                client.write_all(b"x").unwrap();
                stream.read_u8().await.unwrap();
            }
            if round % 2 == 0 {
                drop(client);
            }
        }
        assert_eq!(own.len(), 600);
        let mut looks = 0;
        while !open_files().is_disjoint(&own) {
            looks += 1;
            assert!(looks < 1000, "{} are open", open_files().intersection(&own).count());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Nor does an operation.
        until_in_flight(0).await;
    });
}

/// Breaks the ring of this thread: the kernel refuses to be entered from now on.
fn break_ring() {
    driver::with(|driver| driver.ring().break_down()).unwrap();
}

/// Has the next operations of this thread refused.
fn refuse(operations: usize) {
    driver::with(|driver| driver.ring().refuses = operations).unwrap();
}

/// Reads until the end at the other side of a connection.
fn ended(mut client: TcpStream) -> tokio::task::JoinHandle<()> {
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    tokio::task::spawn_blocking(move || {
        let mut got = Vec::new();
        // Bytes that nobody has read make it a reset.
        let ended = client.read_to_end(&mut got).map_err(|error| error.kind());
        assert!(matches!(ended, Ok(_) | Err(std::io::ErrorKind::ConnectionReset)), "{ended:?}");
    })
}

#[test]
fn a_ring_that_fails_ends_its_connections() {
    on_a_ring(|| async {
        let pairs: Vec<_> = (0..3).map(|_| pair()).collect();
        let mut clients = Vec::new();
        let mut waits = Vec::new();
        for (server, client) in pairs {
            let mut stream = UringStream::new(server).unwrap();
            waits.push(tokio::spawn(async move { (stream.read_u8().await.unwrap_err(), stream) }));
            clients.push(client);
        }
        until_in_flight(3).await;
        assert!(is_started());
        break_ring();
        // One client is enough to have the kernel entered.
        clients[0].write_all(b"x").unwrap();
        for wait in waits {
            let (error, mut stream) = wait.await.unwrap();
            assert_ne!(error.kind(), std::io::ErrorKind::UnexpectedEof);
            stream.write_all(b"x").await.unwrap_err();
        }
        for client in clients {
            ended(client).await.unwrap();
        }
        assert!(!is_started());
        UringStream::new(pair().0).unwrap_err();
        // Another ring knows nothing of the streams of the first.
        let (server, mut client) = pair();
        start(count).unwrap();
        let mut stream = UringStream::new(server).unwrap();
        client.write_all(b"y").unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'y');
    });
}

#[test]
fn receiving_that_is_refused_ends_the_connection() {
    on_a_ring(|| async {
        let (server, client) = pair();
        refuse(1);
        let mut stream = UringStream::new(server).unwrap();
        stream.read_u8().await.unwrap_err();
        ended(client).await.unwrap();
        drop(stream);
        // Its number serves the next one.
        let (server, mut client) = pair();
        let mut stream = UringStream::new(server).unwrap();
        client.write_all(b"y").unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'y');
    });
}

#[test]
fn sending_that_is_refused_wakes_the_reader() {
    on_a_ring(|| async {
        let (server, client) = pair();
        let (mut reader, mut writer) = tokio::io::split(UringStream::new(server).unwrap());
        let reads = tokio::spawn(async move { reader.read_u8().await.unwrap_err().kind() });
        until_in_flight(1).await;
        refuse(1);
        let bytes = vec![1; 16 << 20];
        // The socket takes some; then an operation is needed.
        writer.write_all(&bytes).await.unwrap_err();
        writer.shutdown().await.unwrap_err();
        assert_ne!(reads.await.unwrap(), std::io::ErrorKind::UnexpectedEof);
        ended(client).await.unwrap();
        drop(writer);
        // Bytes of the refused operation are not in the way of the next connection with this number.
        let (server, mut client) = pair();
        let mut stream = UringStream::new(server).unwrap();
        let sends = async {
            stream.write_all(&bytes).await.unwrap();
            stream.shutdown().await.unwrap();
        };
        let reads = tokio::task::spawn_blocking(move || client.read_to_end(&mut Vec::new()).unwrap());
        sends.await;
        assert_eq!(reads.await.unwrap(), bytes.len());
    });
}

#[test]
fn cancelling_that_is_refused_ends_the_connection() {
    on_a_ring(|| async {
        let (server, client) = pair();
        let stream = UringStream::new(server).unwrap();
        until_in_flight(1).await;
        refuse(1);
        drop(stream);
        ended(client).await.unwrap();
        // All is over: nothing keeps the ring at its end.
        until_in_flight(0).await;
    });
}

#[test]
fn a_stream_reaches_no_connection_of_another_thread() {
    on_a_ring(|| async {
        let (server, stranger) = pair();
        let stream = UringStream::new(server).unwrap();
        let elsewhere = move || {
            on_a_ring(move || async move {
                let (server, mut client) = pair();
                let mut own = UringStream::new(server).unwrap();
                let mut stream = stream;
                // Both have the same number.
                client.write_all(b"y").unwrap();
                stream.read_u8().await.unwrap_err();
                stream.write_all(b"x").await.unwrap_err();
                drop(stream);
                assert_eq!(own.read_u8().await.unwrap(), b'y');
                own.write_all(b"z").await.unwrap();
                own.shutdown().await.unwrap();
                let mut got = Vec::new();
                client.read_to_end(&mut got).unwrap();
                assert_eq!(got, b"z");
            })
        };
        tokio::task::spawn_blocking(elsewhere).await.unwrap();
        ended(stranger).await.unwrap();
    });
}

#[test]
fn all_bytes_are_counted() {
    on_a_ring(|| async {
        let (server, mut client) = pair();
        let mut stream = UringStream::new(server).unwrap();
        let bytes = vec![1; 8 << 20];
        let (sent, length) = (bytes.clone(), bytes.len());
        let other = tokio::task::spawn_blocking(move || {
            client.write_all(&sent).unwrap();
            client
        });
        // Nobody reads: what has come is held, until the kernel hears that it is enough.
        until_in_flight(0).await;
        assert!((64 << 10..=4 << 20).contains(&HELD.get()), "{}", HELD.get());
        let mut got = vec![0; length];
        stream.read_exact(&mut got).await.unwrap();
        let client = other.await.unwrap();
        assert!(HELD.get() <= 16 << 10, "{}", HELD.get());
        // Nor does the client.
        let writes = tokio::time::timeout(Duration::from_millis(50), stream.write_all(&bytes));
        writes.await.unwrap_err();
        assert!((64 << 10..=512 << 10).contains(&HELD.get()), "{}", HELD.get());
        drop((stream, client));
        while HELD.get() != 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}
