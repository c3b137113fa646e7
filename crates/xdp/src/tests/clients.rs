//! Clients whose TCP is here, too.

use super::*;
use std::sync::atomic::AtomicBool;
use tokio::io::{ReadHalf, WriteHalf};
use tokio::net::TcpSocket;

fn of_clients(connections_max: usize) -> PortOptions {
    PortOptions { interface: "client0".to_owned(), port: 0, ..options(connections_max) }
}

fn server(lab: &Lab) -> SocketAddrV4 {
    SocketAddrV4::new(lab.server_address(), PORT)
}

fn open(lab: &Lab, options: PortOptions, memory: Memory) -> io::Result<Port> {
    lab.at_clients(|| Port::open_clients(options, server(lab), memory)).unwrap()
}

/// Runs a job on a thread whose port is one of clients.
fn run<R: Send>(port: Port, job: impl AsyncFnOnce() -> R + Send) -> R {
    let on_thread = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let result = runtime.block_on(async {
            start(port, Box::new(drop)).unwrap();
            job().await
        });
        drop(runtime);
        stop();
        result
    };
    thread::scope(|scope| scope.spawn(on_thread).join().unwrap())
}

/// Does the same with a port of its own.
fn clients<R: Send>(lab: &Lab, job: impl AsyncFnOnce() -> R + Send) -> R {
    run(open(lab, of_clients(1_000), MEMORY).unwrap(), job)
}

async fn connected() -> XdpStream {
    connect(PATIENCE).await.unwrap()
}

async fn asks(stream: &mut XdpStream, text: &[u8]) {
    answers(stream, text).await.unwrap();
}

/// Asks, and returns an error if there is no answer.
async fn answers(stream: &mut XdpStream, text: &[u8]) -> io::Result<()> {
    stream.write_all(text).await?;
    let mut answer = vec![0; text.len()];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer)).await??;
    assert_eq!(answer, text);
    Ok(())
}

/// Sends many bytes and their end, and compares what comes back with them.
async fn exchange(stream: XdpStream, length: usize) {
    let all: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
    let (mut reader, mut writer): (ReadHalf<_>, WriteHalf<_>) = tokio::io::split(stream);
    let (mut got, write) = (Vec::new(), async {
        writer.write_all(&all).await?;
        writer.shutdown().await
    });
    let (written, read) = tokio::join!(write, tokio::time::timeout(PATIENCE, reader.read_to_end(&mut got)));
    written.unwrap();
    read.unwrap().unwrap();
    assert!(got == all);
}

/// Server of the kernel that sends back what it receives on so many connections, one after the other.
fn kernel_echo(lab: &Lab, connections: usize) -> JoinHandle<()> {
    let listener = lab.at_server(|| TcpListener::bind(server(lab))).unwrap().unwrap();
    thread::spawn(move || {
        for _ in 0..connections {
            let (mut stream, from) = listener.accept().unwrap();
            assert!(0xf000 <= from.port(), "{from}");
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            io::copy(&mut stream.try_clone().unwrap(), &mut stream).unwrap();
        }
    })
}

#[test]
fn bytes_pass_both_ways_in_packets_of_each_size() {
    for (mtu, mode) in [(576, Mode::Generic), (1500, Mode::Generic), (1500, Mode::Driver), (3000, Mode::Generic)] {
        let Some(lab) = lab(mtu) else { return };
        let _echo = Echo::start(&lab, options(10));
        let port = open(&lab, PortOptions { mode, ..of_clients(10) }, MEMORY).unwrap();
        run(port, async || {
            let mut stream = connected().await;
            let (ours, theirs) = stream.addresses();
            assert_eq!((*ours.ip(), theirs), (lab.client_address(), server(&lab)));
            asks(&mut stream, b"x").await;
            asks(&mut stream, &[7; 5_000]).await;
            exchange(stream, 3_000_000).await;
        });
    }
}

#[test]
fn servers_of_the_kernel_serve_them_too() {
    let Some(lab) = lab(1500) else { return };
    let echo = kernel_echo(&lab, 20);
    clients(&lab, async || {
        for number in 0..20 {
            let mut stream = connected().await;
            asks(&mut stream, b"hello").await;
            // Dropped, or shut down.
            if number % 2 == 0 {
                exchange(stream, 200_000).await;
            }
        }
    });
    echo.join().unwrap();
}

#[test]
fn lost_packets_are_sent_again() {
    let Some(_) = lab(1500) else { return };
    let lab = match Lab::losing(1500, 100) {
        Ok(lab) => lab,
        Err(error) => {
            assert!(std::env::var_os("OVERTAKE_CI").is_none(), "no loss: {error}");
            println!("SKIPPED: no loss: {error}");
            return;
        }
    };
    let _echo = Echo::start(&lab, options(100));
    let before = counts();
    clients(&lab, async || {
        let each = (0..4).map(|_| {
            tokio::spawn(async {
                // Both handshakes and bytes are lost.
                for _ in 0..25 {
                    asks(&mut connected().await, b"hello").await;
                }
                let mut stream = connected().await;
                for number in 0..250_u32 {
                    asks(&mut stream, &number.to_ne_bytes()).await;
                }
                exchange(stream, 1_000_000).await;
            })
        });
        for job in each.collect::<Vec<_>>() {
            job.await.unwrap();
        }
    });
    // Of 2,200 short segments, some 20 were lost.
    assert!(before.probes < counts().probes);
}

#[test]
fn who_is_not_there_is_not_found() {
    let Some(_) = lab(1500) else { return };
    let Ok(lab) = Lab::losing(1500, 1) else { return };
    let error = open(&lab, of_clients(1), MEMORY).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::HostUnreachable);
    assert!(error.to_string().starts_with("Ethernet address of 10.99.0.1: "), "{error}");
}

#[test]
fn a_port_without_a_server_refuses() {
    let Some(lab) = lab(1500) else { return };
    clients(&lab, async || {
        let begun = Instant::now();
        for _ in 0..20 {
            let error = connect(PATIENCE).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        }
        assert!(begun.elapsed() < PATIENCE / 2);
        // Nothing of them is left.
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(driver::with(|driver| driver.alarms()), Some((0, 0)));
    });
}

#[test]
fn who_does_not_answer_is_not_waited_for() {
    let Some(lab) = lab(1500) else { return };
    // Frames come to it, and nobody reads them.
    let _silent = lab.at_server(|| Port::open(options(1), MEMORY)).unwrap().unwrap();
    clients(&lab, async || {
        let (begun, limit) = (Instant::now(), Duration::from_millis(300));
        let error = connect(limit).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(limit <= begun.elapsed() && begun.elapsed() < PATIENCE / 2);
        // Who does not want to wait any longer leaves nothing behind either.
        assert!(tokio::time::timeout(limit, connect(PATIENCE)).await.is_err());
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(driver::with(|driver| driver.alarms()), Some((0, 0)));
    });
}

#[test]
fn a_request_is_repeated() {
    let Some(lab) = lab(1500) else { return };
    let silent = lab.at_server(|| Port::open(options(1), MEMORY)).unwrap().unwrap();
    // It gets what comes when the silent one has gone.
    let echo = kernel_echo(&lab, 1);
    let sent = AtomicBool::new(false);
    let before = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !sent.load(SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            drop(silent);
        });
        clients(&lab, async || {
            let connecting = tokio::spawn(connect(PATIENCE));
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(!connecting.is_finished());
            sent.store(true, SeqCst);
            let mut stream = connecting.await.unwrap().unwrap();
            asks(&mut stream, b"at last").await;
        });
    });
    assert!(Duration::from_secs(1) < before.elapsed());
    echo.join().unwrap();
}

#[test]
fn hundreds_are_told_apart() {
    let Some(lab) = lab(1500) else { return };
    let _echo = Echo::start(&lab, options(1_000));
    run(open(&lab, of_clients(500), MEMORY).unwrap(), async || {
        let connecting: Vec<_> = (0..500).map(|_| tokio::spawn(connected())).collect();
        let mut streams = Vec::new();
        for stream in connecting {
            streams.push(stream.await.unwrap());
        }
        for round in 0..3_u32 {
            for (number, stream) in streams.iter_mut().enumerate() {
                stream.write_all(format!("{round} {number:05}").as_bytes()).await.unwrap();
            }
            for (number, stream) in streams.iter_mut().enumerate() {
                let mut answer = [0; 7];
                stream.read_exact(&mut answer).await.unwrap();
                assert_eq!(answer, *format!("{round} {number:05}").as_bytes());
            }
        }
        // One more is refused, until one has gone.
        assert_eq!(connect(PATIENCE).await.unwrap_err().kind(), io::ErrorKind::QuotaExceeded);
        drop(streams.pop());
        let begun = Instant::now();
        while let Err(error) = connect(PATIENCE).await {
            assert!(error.kind() == io::ErrorKind::QuotaExceeded && begun.elapsed() < PATIENCE, "{error}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn everything_else_stays_with_the_kernel_at_both_ends() {
    let Some(lab) = lab(1500) else { return };
    let _echo = Echo::start(&lab, options(100));
    let at_clients = lab.at_clients(|| TcpListener::bind((lab.client_address(), 0))).unwrap().unwrap();
    clients(&lab, async || {
        let mut stream = connected().await;
        for _ in 0..20 {
            asks(&mut stream, b"ours").await;
            let mut kernels = client(&lab).unwrap();
            super::asks(&mut kernels, b"the kernel's");
            assert!(lab.pings().unwrap());
            let address = at_clients.local_addr().unwrap();
            drop(lab.at_server(|| TcpStream::connect(address)).unwrap().unwrap());
        }
    });
}

#[test]
fn nobody_connects_to_clients() {
    let Some(lab) = lab(1500) else { return };
    let to = SocketAddrV4::new(lab.client_address(), 65_000);
    let ask = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            // In the name of their server: the kernel would answer anybody else.
            socket.bind(server(&lab).into()).unwrap();
            tokio::time::timeout(PATIENCE, socket.connect(to.into())).await.unwrap().map(drop)
        })
    };
    let (asked, answered) = oneshot::channel();
    let before = counts();
    let port = open(&lab, of_clients(10), MEMORY).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| asked.send(lab.at_server(ask).unwrap()).unwrap());
        run(port, async || {
            assert_eq!(answered.await.unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        });
    });
    assert!(before.resets < counts().resets);
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success());
}

/// Returns true if all threads of a process have stopped.
fn has_stopped(child: &Child) -> bool {
    let mut threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    threads.all(|thread| {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
        stat.rsplit(')').next().is_some_and(|behind_name| behind_name.trim_start().starts_with('T'))
    })
}

#[test]
fn a_server_that_goes_is_noticed() {
    let Some(lab) = lab(1500) else { return };
    let mut child = start_victim(&lab);
    clients(&lab, async || {
        let mut stream = connected().await;
        asks(&mut stream, b"alive").await;
        child.kill().unwrap();
        child.wait().unwrap();
        // The kernel answers with a reset, at once and for good.
        let error = answers(&mut stream, b"dead").await.unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof), "{error}");
        assert!(stream.write_all(b"dead").await.is_err());
        assert_eq!(connect(PATIENCE).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        // Another one takes its place, and then its time.
        let mut child = start_victim(&lab);
        let (mut stream, mut patient) = (connected().await, connected().await);
        asks(&mut stream, b"alive").await;
        signal(&child, "STOP");
        // A thread that runs on another processor goes on until it enters the kernel.
        while !has_stopped(&child) {
            std::thread::yield_now();
        }
        let limit = Duration::from_millis(300);
        stream.limit_silence(Some(limit));
        let error = answers(&mut stream, b"silent").await.unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof), "{error}");
        assert_eq!(connect(limit).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        signal(&child, "CONT");
        asks(&mut patient, b"again").await;
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

#[test]
fn a_server_that_ends_says_so() {
    let Some(lab) = lab(1500) else { return };
    let echo = Echo::start(&lab, options(10));
    clients(&lab, async || {
        let mut idle = connected().await;
        asks(&mut idle, b"hello").await;
        drop(echo);
        let ended = tokio::time::timeout(PATIENCE, idle.read(&mut [0; 1])).await.unwrap();
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    });
}

/// Bytes that the ports and connections of one test hold.
static AT_CLIENTS: AtomicI64 = AtomicI64::new(0);
static AT_SERVER: AtomicI64 = AtomicI64::new(0);

#[test]
fn all_is_released_at_the_end() {
    let Some(lab) = lab(1500) else { return };
    let at = |change| Memory { change, has_room: |_| true };
    let at_server = at(|bytes| _ = AT_SERVER.fetch_add(bytes, SeqCst));
    let at_clients = at(|bytes| _ = AT_CLIENTS.fetch_add(bytes, SeqCst));
    let port = lab.at_server(|| Port::open(options(100), at_server)).unwrap().unwrap();
    let held = AT_SERVER.load(SeqCst);
    let echo = Echo::of(port);
    for _ in 0..5 {
        // Each time, the queue and the interface are free again.
        run(open(&lab, of_clients(100), at_clients).unwrap(), async || {
            for number in 0..50 {
                let mut stream = connected().await;
                asks(&mut stream, b"hello").await;
                // The others end with the runtime.
                if number % 2 == 0 {
                    tokio::spawn(async move { stream.read(&mut [0; 1]).await });
                }
            }
            assert!(0 < AT_CLIENTS.load(SeqCst));
        });
        assert_eq!(AT_CLIENTS.load(SeqCst), 0);
        let begun = Instant::now();
        while held < AT_SERVER.load(SeqCst) {
            assert!(begun.elapsed() < PATIENCE, "the server has not heard of their end");
            thread::sleep(Duration::from_millis(1));
        }
    }
    drop(echo);
    assert_eq!(AT_SERVER.load(SeqCst), 0);
    // Without a port, there is nothing to connect by.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(connect(PATIENCE)).unwrap_err().to_string(), "this thread has no port");
}

#[test]
fn ports_that_the_kernel_hands_out_are_not_taken() {
    let Some(lab) = lab(1500) else { return };
    let _echo = Echo::start(&lab, options(10));
    let set = |range: &str| lab.at_clients(|| std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", range)).unwrap();
    if let Err(error) = set("32768 61440") {
        assert!(std::env::var_os("OVERTAKE_CI").is_none(), "no other range: {error}");
        println!("SKIPPED: no other range: {error}");
        return;
    }
    let error = open(&lab, of_clients(10), MEMORY).unwrap_err();
    assert!(error.to_string().ends_with("is 32768 61440: it has to end below 61440"), "{error}");
    set("32768 61439").unwrap();
    open(&lab, of_clients(10), MEMORY).unwrap();
}
