use super::*;
use std::io::{Read, Write};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

async fn streams() -> (SharedStream, SharedStream) {
    let (ours, theirs) = StdStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let server = SharedStream::offer(ours).unwrap();
    let client = SharedStream::accept(UnixStream::from_std(theirs).unwrap()).await.unwrap();
    (server, client)
}

/// Returns the server's side, and the other side's memory and socket.
fn attacked() -> (SharedStream, SharedMemory, StdStream) {
    let (ours, theirs) = StdStream::pair().unwrap();
    let server = SharedStream::offer(ours).unwrap();
    let memory = receive(&theirs).unwrap();
    (server, memory, theirs)
}

const SOON: Duration = Duration::from_secs(10);

/// Waits until the other side of a stream sleeps for this reason, as a test needs it.
async fn until_other_wants(stream: &SharedStream, reason: u32) {
    let wait = async {
        while !stream.pair.other_wants(reason) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(SOON, wait).await.unwrap();
}

fn pattern(at: usize) -> u8 {
    (at % 251) as u8
}

#[tokio::test]
async fn more_than_a_ring_holds_passes_both_ways_at_once() {
    let (server, client) = streams().await;
    let all: Vec<u8> = (0..20 * RING_BYTES + 17).map(pattern).collect();
    let pump = |stream: SharedStream| {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let all = all.clone();
        let write = tokio::spawn(async move {
            writer.write_all(&all).await.unwrap();
            writer.shutdown().await.unwrap();
            writer
        });
        async move {
            let mut got = Vec::new();
            reader.read_to_end(&mut got).await.unwrap();
            write.await.unwrap();
            got
        }
    };
    let (first, second) = timeout(SOON, async { tokio::join!(pump(server), pump(client)) }).await.unwrap();
    assert!(first == all && second == all);
}

#[tokio::test]
async fn short_messages_go_back_and_forth() {
    let (mut server, mut client) = streams().await;
    let echo = tokio::spawn(async move {
        let mut bytes = [0; 8];
        while server.read_exact(&mut bytes).await.is_ok() {
            server.write_all(&bytes).await.unwrap();
        }
    });
    for at in 0..2000_u64 {
        client.write_all(&at.to_ne_bytes()).await.unwrap();
        if at % 100 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(timeout(SOON, client.read_u64_le()).await.unwrap().unwrap(), at);
    }
    drop(client);
    timeout(SOON, echo).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_was_written_before_the_end_is_read() {
    for kills in [false, true] {
        let (mut server, mut client) = streams().await;
        client.write_all(b"last words").await.unwrap();
        if kills {
            drop(client);
        } else {
            client.shutdown().await.unwrap();
            client.write_all(b"more").await.unwrap_err();
        }
        let mut got = String::new();
        timeout(SOON, server.read_to_string(&mut got)).await.unwrap().unwrap();
        assert_eq!(got, "last words");
    }
}

#[tokio::test]
async fn a_writer_hears_of_the_death_of_its_reader() {
    let (mut server, client) = streams().await;
    let writes = tokio::spawn(async move { server.write_all(&vec![1; 10 * RING_BYTES]).await });
    until_other_wants(&client, WANTS_ROOM).await;
    assert_eq!(client.pair.available().unwrap(), RING_BYTES);
    drop(client);
    assert_eq!(timeout(SOON, writes).await.unwrap().unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_stream_moves_to_another_runtime() {
    let (server, mut client) = streams().await;
    let moved = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut server = server.settled().unwrap();
            let got = server.read_u8().await.unwrap();
            server.write_u8(got + 1).await.unwrap();
        });
    });
    until_other_wants(&client, WANTS_BYTES).await;
    client.write_u8(7).await.unwrap();
    assert_eq!(timeout(SOON, client.read_u8()).await.unwrap().unwrap(), 8);
    moved.join().unwrap();
}

#[tokio::test]
async fn positions_that_cannot_be_end_the_stream() {
    let client = Side::Client.words();
    for wrong in [RING_BYTES as u32 + 1, u32::MAX, 0x8000_0000] {
        let (mut server, memory, _socket) = attacked();
        memory.word(client.written).store(wrong, SeqCst);
        let error = timeout(SOON, server.read(&mut [0; 10])).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
    for wrong in [1, RING_BYTES as u32, 0x8000_0000] {
        let (mut server, memory, _socket) = attacked();
        memory.word(client.taken).store(wrong, SeqCst);
        let error = timeout(SOON, server.write_all(&[0; 10])).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
}

/// The other side writes everything everywhere all the time, and rings without end.
#[tokio::test]
async fn garbage_ends_the_stream_at_worst() {
    let begun = Instant::now();
    let mut seed = 88_172_645_463_325_252_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut read = 0;
    while begun.elapsed() < Duration::from_secs(1) {
        let (mut server, memory, mut socket) = attacked();
        socket.set_nonblocking(true).unwrap();
        let words = [Side::Client.words(), Side::Server.words()];
        let offsets = words.map(|words| [words.written, words.ended, words.taken, words.wants]).concat();
        let mut bytes = vec![0; 3000];
        for _ in 0..200 {
            let word = memory.word(offsets[random() as usize % offsets.len()]);
            let small = word.load(SeqCst).wrapping_add(random() as u32 % 5000);
            word.store(if random() % 8 == 0 { random() as u32 } else { small }, SeqCst);
            if random() % 2 == 0 {
                let _ = socket.write(&[0; 100]);
            }
            let came = timeout(Duration::from_micros(100), server.read(&mut bytes)).await;
            if let Ok(Ok(count)) = came {
                read += count;
            }
            let _ = timeout(Duration::from_micros(100), server.write(&bytes)).await;
        }
    }
    assert!(0 < read);
}

#[tokio::test]
async fn a_side_that_takes_no_wake_ups_is_written_to_and_found_dead() {
    let (mut server, memory, socket) = attacked();
    let client = Side::Client.words();
    for at in 0..100_000_u32 {
        memory.word(client.wants).store(WANTS_BYTES, SeqCst);
        memory.word(client.taken).store(at, SeqCst);
        timeout(SOON, server.write_all(&[1])).await.unwrap().unwrap();
    }
    drop(socket);
    assert_eq!(timeout(SOON, server.read(&mut [0; 10])).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_peer_that_is_no_server_is_refused() {
    let (mut ours, theirs) = StdStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    ours.write_all(b"R\0\0\0\x08").unwrap();
    let stream = UnixStream::from_std(theirs).unwrap();
    assert_eq!(SharedStream::accept(stream).await.unwrap_err().kind(), ErrorKind::InvalidData);
}

fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn an_idle_stream_takes_no_processor() {
    let (mut server, mut client) = streams().await;
    client.write_u8(1).await.unwrap();
    server.read_u8().await.unwrap();
    let before = processor_time();
    timeout(Duration::from_secs(1), server.read_u8()).await.unwrap_err();
    let taken = processor_time() - before;
    assert!(taken < Duration::from_millis(10), "{taken:?}");
}

#[tokio::test]
async fn threads_that_block_use_the_same_rings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rings");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let client = std::thread::spawn(move || {
        let mut client = crate::BlockingStream::connect(&path).unwrap();
        client.set_timeout(Some(Duration::from_millis(10)));
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        client.set_timeout(Some(SOON));
        let all: Vec<u8> = (0..5 * RING_BYTES).map(pattern).collect();
        client.write_all(&all).unwrap();
        client.end();
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        assert!(got == all);
    });
    let socket = listener.accept().await.unwrap().0.into_std().unwrap();
    let mut server = SharedStream::offer(socket).unwrap();
    until_other_wants(&server, WANTS_ROOM).await;
    let mut got = Vec::new();
    timeout(SOON, server.read_to_end(&mut got)).await.unwrap().unwrap();
    timeout(SOON, server.write_all(&got)).await.unwrap().unwrap();
    drop(server);
    client.join().unwrap();
}

#[tokio::test]
async fn a_socket_that_is_called_ready_too_early_is_waited_for() {
    let (ours, theirs) = StdStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let mut beside = theirs.try_clone().unwrap();
    let theirs = UnixStream::from_std(theirs).unwrap();
    (&ours).write_all(b"x").unwrap();
    theirs.readable().await.unwrap();
    // The runtime does not notice that somebody else has read the byte.
    beside.read_exact(&mut [0]).unwrap();
    let mut client = tokio::spawn(SharedStream::accept(theirs));
    timeout(Duration::from_millis(20), &mut client).await.unwrap_err();
    let mut server = SharedStream::offer(ours).unwrap();
    let mut client = timeout(SOON, client).await.unwrap().unwrap().unwrap();
    client.write_all(b"y").await.unwrap();
    assert_eq!(server.read_u8().await.unwrap(), b'y');
}

#[tokio::test]
async fn nobody_waits_for_a_server_of_another_kind() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let accepted = SharedStream::accept_within(ours, Duration::from_millis(20));
    let error = timeout(SOON, accepted).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    drop(theirs);
}
