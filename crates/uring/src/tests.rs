use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Runs a job on a thread with a ring, in a runtime of its own. Returns false if there is no io_uring here.
fn on_a_ring<F: Future<Output = ()>>(job: impl FnOnce() -> F + Send + 'static) -> bool {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let has_run = runtime.block_on(async {
            if let Err(error) = start() {
                println!("SKIPPED: no io_uring: {error}");
                return false;
            }
            tokio::time::timeout(Duration::from_secs(20), job()).await.unwrap();
            true
        });
        drop(runtime);
        stop();
        has_run
    };
    thread::spawn(run).join().unwrap()
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
        tokio::time::sleep(Duration::from_millis(50)).await;
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

#[test]
fn connections_leave_nothing() {
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    on_a_ring(move || async move {
        let before = count();
        for round in 0..300 {
            let (server, mut client) = pair();
            let mut stream = UringStream::new(server).unwrap();
            if round % 3 == 0 {
                client.write_all(b"x").unwrap();
                stream.read_u8().await.unwrap();
            }
            if round % 2 == 0 {
                drop(client);
            }
        }
        let mut looks = 0;
        // Other tests of this process open descriptors, too.
        while before + 150 < count() {
            looks += 1;
            assert!(looks < 1000, "{before} before, {} now", count());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}
