use super::*;
use crate::frame::{ACK, ETHERNET, FIN, Macs, Plain, RST, SYN};
use crate::lab::Lab;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

mod clients;

const PORT: u16 = 5432;
/// Time after which a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes that all ports and connections of this process hold.
static HELD: AtomicI64 = AtomicI64::new(0);

pub(crate) const MEMORY: Memory = Memory { change, has_room: |_| true };

fn change(bytes: i64) {
    HELD.fetch_add(bytes, SeqCst);
}

pub(crate) fn options(connections_max: usize) -> PortOptions {
    let interface = "server0".to_owned();
    let (address, mode, capture) = (None, Mode::Generic, None);
    PortOptions { interface, queue: 0, address, port: PORT, mode, connections_max, capture }
}

/// Returns networks, or `None` where they cannot be made: the test has nothing to show then.
pub(crate) fn lab(mtu: usize) -> Option<Lab> {
    match Lab::new(mtu) {
        Ok(lab) => Some(lab),
        Err(error) => {
            assert!(std::env::var_os("OVERTAKE_CI").is_none(), "no networks: {error}");
            println!("SKIPPED: no networks: {error}");
            None
        }
    }
}

/// Server that sends back what it receives.
struct Echo {
    accepted: Arc<AtomicU32>,
    over: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

async fn echo(mut stream: XdpStream) {
    let mut bytes = vec![0; 16 << 10];
    while let Ok(count) = stream.read(&mut bytes).await
        && 0 < count
    {
        if stream.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
    let _ = stream.shutdown().await;
}

/// Serves a port until its future is ready.
fn serve(port: Port, accepted: Arc<AtomicU32>, until: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let accept = move |stream| {
            accepted.fetch_add(1, SeqCst);
            tokio::spawn(echo(stream));
        };
        start(port, Box::new(accept)).unwrap();
        until.await;
    });
    drop(runtime);
    stop();
}

impl Echo {
    fn start(lab: &Lab, options: PortOptions) -> Echo {
        let port = lab.at_server(|| Port::open(options, MEMORY)).unwrap().unwrap();
        assert_eq!(port.address(), SocketAddrV4::new(lab.server_address(), PORT));
        Echo::of(port)
    }

    fn of(port: Port) -> Echo {
        let (over, ended) = oneshot::channel();
        let accepted = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&accepted);
        let thread = thread::spawn(move || serve(port, counted, async { drop(ended.await) }));
        Echo { accepted, over: Some(over), thread: Some(thread) }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        drop(self.over.take());
        let ended = self.thread.take().unwrap().join();
        if !thread::panicking() {
            ended.unwrap();
        }
    }
}

fn client(lab: &Lab) -> io::Result<TcpStream> {
    let address = SocketAddrV4::new(lab.server_address(), PORT);
    let stream = lab.at_clients(|| TcpStream::connect_timeout(&address.into(), PATIENCE)).unwrap()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn asks(stream: &mut TcpStream, text: &[u8]) {
    stream.write_all(text).unwrap();
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, text);
}

/// Sends many bytes and their end, and compares what comes back with them.
fn exchange(mut stream: TcpStream, length: usize) {
    let all: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
    let mut reader = stream.try_clone().unwrap();
    let reads = thread::spawn(move || {
        let mut got = Vec::new();
        reader.read_to_end(&mut got).map(|_| got)
    });
    stream.write_all(&all).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(reads.join().unwrap().unwrap() == all);
}

#[test]
fn bytes_pass_both_ways_in_packets_of_each_size() {
    for mtu in [576, 1400, 1500, 3000] {
        let Some(lab) = lab(mtu) else { return };
        let _echo = Echo::start(&lab, options(10));
        let mut stream = client(&lab).unwrap();
        asks(&mut stream, b"x");
        asks(&mut stream, &[7; 5_000]);
        exchange(stream, 3_000_000);
    }
}

#[test]
fn the_driver_diverts_too() {
    let Some(lab) = lab(1500) else { return };
    let _echo = Echo::start(&lab, PortOptions { mode: Mode::Driver, ..options(10) });
    exchange(client(&lab).unwrap(), 1_000_000);
}

#[test]
fn everything_else_stays_with_the_kernel() {
    let Some(lab) = lab(1500) else { return };
    let _echo = Echo::start(&lab, options(10));
    let other = lab.at_server(|| TcpListener::bind((lab.server_address(), 22))).unwrap().unwrap();
    let mut diverted = client(&lab).unwrap();
    for _ in 0..20 {
        asks(&mut diverted, b"diverted");
        assert!(lab.pings().unwrap());
        let address = other.local_addr().unwrap();
        let mut stream = lab.at_clients(|| TcpStream::connect(address)).unwrap().unwrap();
        let mut accepted = other.accept().unwrap().0;
        stream.write_all(b"kernel").unwrap();
        let mut bytes = [0; 6];
        accepted.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"kernel");
        // The kernel refuses what nobody listens for.
        let refused = lab.at_clients(|| TcpStream::connect((lab.server_address(), 23))).unwrap();
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}

/// Set for the process of [`victim`].
const VICTIM: &str = "OVERTAKE_TEST_XDP_VICTIM";

/// Server in a process of its own, to be killed: other tests start it.
#[test]
fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let port = Port::open(options(10), MEMORY).unwrap();
    println!("\nready");
    serve(port, Arc::default(), std::future::pending());
}

fn start_victim(lab: &Lab) -> Child {
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "tests::victim", "--nocapture"]).env(VICTIM, "1");
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut child = lab.at_server(start).unwrap();
    let mut lines = io::BufRead::lines(io::BufReader::new(child.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap() == "ready"));
    // It may go on writing.
    thread::spawn(move || lines.for_each(drop));
    child
}

#[test]
fn a_crash_returns_the_port_to_the_kernel() {
    let Some(lab) = lab(1500) else { return };
    for _ in 0..10 {
        let mut child = start_victim(&lab);
        let mut stream = client(&lab).unwrap();
        asks(&mut stream, b"alive");
        child.kill().unwrap();
        child.wait().unwrap();
        // The kernel answers with a reset: it knows of no such connection, and nobody listens.
        let _ = stream.write_all(b"dead");
        let error = stream.read_exact(&mut [0; 4]).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof), "{error}");
        assert_eq!(client(&lab).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let listener = lab.at_server(|| TcpListener::bind((lab.server_address(), PORT))).unwrap().unwrap();
        client(&lab).unwrap();
        drop(listener);
    }
}

#[test]
fn a_thousand_clients_are_told_apart() {
    let Some(lab) = lab(1500) else { return };
    let _echo = Echo::start(&lab, options(1_000));
    let mut streams: Vec<TcpStream> = (0..1_000).map(|_| client(&lab).unwrap()).collect();
    for round in 0..3_u32 {
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.write_all(format!("{round} {number:05}").as_bytes()).unwrap();
        }
        for (number, stream) in streams.iter_mut().enumerate() {
            let mut answer = [0; 7];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, *format!("{round} {number:05}").as_bytes());
        }
    }
    // One more is refused, until one has gone.
    // The reset may come before the end of `connect`.
    let is_served = || {
        let answer = client(&lab).and_then(|mut more| {
            more.write_all(b"more")?;
            more.read_exact(&mut [0; 4])
        });
        answer.is_ok()
    };
    assert!(!is_served());
    drop(streams.pop());
    let begun = Instant::now();
    while !is_served() {
        assert!(begun.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn lost_packets_are_sent_again() {
    let Some(lab) = lab(1500) else { return };
    let _echo = Echo::start(&lab, options(100));
    let loss = match lab.lose(100) {
        Ok(loss) => loss,
        Err(error) => {
            assert!(std::env::var_os("OVERTAKE_CI").is_none(), "no loss: {error}");
            println!("SKIPPED: no loss: {error}");
            return;
        }
    };
    let before = counts();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut stream = client(&lab).unwrap();
                for number in 0..500_u32 {
                    asks(&mut stream, &number.to_ne_bytes());
                }
                exchange(stream, 2_000_000);
            });
        }
    });
    drop(loss);
    let probes = counts().probes - before.probes;
    println!("probes: {probes}");
    // Of 2,000 answers, some 20 were lost, and most of their requests' repetitions come later than the probe.
    assert!(0 < probes);
}

#[test]
fn a_client_has_one_alarm_however_long_it_stays() {
    let Some(lab) = lab(1500) else { return };
    let port = lab.at_server(|| Port::open(options(10), MEMORY)).unwrap().unwrap();
    let (over, ended) = oneshot::channel::<()>();
    let alarms = thread::spawn(move || {
        let mut alarms = None;
        serve(port, Arc::default(), async {
            drop(ended.await);
            let begun = Instant::now();
            while alarms.is_none_or(|(_, connections)| connections != 1) && begun.elapsed() < PATIENCE {
                tokio::time::sleep(Duration::from_millis(1)).await;
                alarms = driver::with(|driver| driver.alarms());
            }
        });
        alarms
    });
    let mut gone = client(&lab).unwrap();
    asks(&mut gone, b"hello");
    let mut stream = client(&lab).unwrap();
    for _ in 0..30 {
        asks(&mut stream, b"again");
        // Longer than an acknowledgement is delayed, and than the last segment is waited for.
        thread::sleep(Duration::from_millis(60));
    }
    // One that goes leaves none behind.
    drop(gone);
    drop(over);
    assert_eq!(alarms.join().unwrap(), Some((1, 1)));
}

#[test]
fn both_sides_close_and_break_off() {
    let Some(lab) = lab(1500) else { return };
    let before = HELD.load(SeqCst);
    let echo = Echo::start(&lab, options(100));
    for _ in 0..100 {
        let mut stream = client(&lab).unwrap();
        asks(&mut stream, b"hello");
        // Unread bytes make the kernel break off; otherwise it closes.
        stream.write_all(b"unread").unwrap();
        drop(stream);
        let mut stream = client(&lab).unwrap();
        asks(&mut stream, b"hello");
        drop(stream);
    }
    // Idle ones end with the server, which says so.
    let mut idle = client(&lab).unwrap();
    asks(&mut idle, b"hello");
    drop(echo);
    let ended = idle.read(&mut [0; 1]);
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    drop(lab);
    let begun = Instant::now();
    // Other tests of this process hold memory, too.
    while before < HELD.load(SeqCst) && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(10));
    }
}

/// Sends frames of all kinds from an address at which nobody is.
struct Attacker {
    raw: std::net::UdpSocket,
    macs: Macs,
    from: SocketAddrV4,
    to: SocketAddrV4,
}

impl Attacker {
    fn new(lab: &Lab) -> Attacker {
        let [server, client] = lab.ethernet().unwrap();
        let mut macs: Macs = [0; 12];
        macs[..6].copy_from_slice(&server);
        macs[6..].copy_from_slice(&client);
        let to = SocketAddrV4::new(lab.server_address(), PORT);
        Attacker { raw: lab.raw().unwrap(), macs, from: "10.99.0.77:1024".parse().unwrap(), to }
    }

    fn frame(&self, flags: u8, sequence: u32, acknowledged: u32, options: &[u8]) -> Vec<u8> {
        let (macs, from, to, window) = (self.macs, self.from, self.to, 1000);
        let mut frame = vec![0; 100];
        let plain = Plain { macs, from, to, sequence, acknowledged, flags, window, options };
        let length = plain.write(&mut frame);
        frame.truncate(length);
        frame
    }

    fn send(&self, frame: &[u8]) {
        // A full queue loses frames, which is fine here.
        let _ = self.raw.send(frame);
    }
}

#[test]
fn hostile_frames_harm_nobody() {
    let Some(lab) = lab(1500) else { return };
    let served = Echo::start(&lab, options(50));
    let mut good = client(&lab).unwrap();
    asks(&mut good, b"before");
    let mut attacker = Attacker::new(&lab);
    let before = counts();
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let victim = match good.local_addr().unwrap() {
        std::net::SocketAddr::V4(address) => address,
        std::net::SocketAddr::V6(_) => unreachable!("it was connected so"),
    };
    for round in 0..20_000_u32 {
        // Of strangers, and in the name of the good client.
        attacker.from = match round % 3 {
            0 => victim,
            _ => SocketAddrV4::new(Ipv4Addr::new(10, 99, 0, next() as u8), next() as u16),
        };
        let flags = [0, SYN, ACK, RST, FIN, SYN | ACK, SYN | FIN, FIN | ACK, 255][next() as usize % 9];
        let options: Vec<u8> = (0..next() % 6 * 4).map(|_| next() as u8).collect();
        let mut frame = attacker.frame(flags, next() as u32, next() as u32, &options);
        match next() % 6 {
            // Any bytes wrong, with wrong sums.
            0 => (0..1 + next() % 5).for_each(|_| {
                let at = ETHERNET + next() as usize % (frame.len() - ETHERNET);
                frame[at] = next() as u8;
            }),
            1 => frame.truncate(next() as usize % frame.len()),
            // Lengths that lie.
            2 => frame[16..18].copy_from_slice(&(next() as u16).to_be_bytes()),
            3 => {
                frame[ETHERNET + 32] = next() as u8;
                frame::finish(&mut frame);
            }
            // A fragment.
            4 => frame[20] = 0x20,
            _ => {}
        }
        attacker.send(&frame);
        if round.is_multiple_of(500) {
            asks(&mut good, b"meanwhile");
        }
    }
    asks(&mut good, b"after");
    exchange(client(&lab).unwrap(), 100_000);
    let after = counts();
    assert!(1_000 < after.refused - before.refused && 1_000 < after.received - before.received);
    // No attacker has got a connection.
    assert_eq!(served.accepted.load(SeqCst), 2);
}

#[test]
fn a_flood_of_requests_keeps_nobody_out() {
    let Some(lab) = lab(1500) else { return };
    let _echo = Echo::start(&lab, options(50));
    let before = counts();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (flooded, floods) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut attacker = Attacker::new(&lab);
            let mut number = 0_u32;
            while !is_over.load(SeqCst) {
                number += 1;
                attacker.from =
                    SocketAddrV4::new(Ipv4Addr::from(0x0a63_8000 + (number >> 12)), 1024 + number as u16 % 4096);
                attacker.send(&attacker.frame(SYN, number, 0, &[]));
                if number == 20_000 {
                    flooded.send(()).unwrap();
                }
            }
        });
        floods.recv().unwrap();
        let begun = Instant::now();
        for _ in 0..20 {
            let mut stream = client(&lab).unwrap();
            asks(&mut stream, b"let me in");
        }
        println!("20 clients within {:?} of a flood", begun.elapsed());
        is_over.store(true, SeqCst);
    });
    // Most of their requests were answered by cookies.
    assert!(1_000 < counts().cookies - before.cookies);
}

#[test]
fn missing_rights_have_a_name() {
    let Some(lab) = lab(1500) else { return };
    let run = || {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "tests::victim", "--nocapture"]).env(VICTIM, "1").output()
    };
    let output = match lab.at_server(run).unwrap() {
        Ok(output) => output,
        Err(error) => {
            assert!(std::env::var_os("OVERTAKE_CI").is_none(), "no setpriv: {error}");
            println!("SKIPPED: no setpriv: {error}");
            return;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF are needed"), "{said}");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let Some(lab) = lab(1500) else { return };
    let open = |options| lab.at_server(|| Port::open(options, MEMORY)).unwrap();
    let error = open(PortOptions { interface: "nowhere0".to_owned(), ..options(1) }).unwrap_err();
    assert!(error.to_string().starts_with("interface \"nowhere0\": "), "{error}");
    let error = open(PortOptions { queue: 99, ..options(1) }).unwrap_err();
    let expected = "AF_XDP socket at queue 99: interface \"server0\" has one queue, number 0";
    assert_eq!(error.to_string(), expected);
    let error = open(PortOptions { port: 0, ..options(1) }).unwrap_err();
    assert_eq!(error.to_string(), "port 0 is no port that clients can connect to");
    let _first = open(options(1)).unwrap();
    // Another program has the interface.
    let error = open(PortOptions { port: 5433, ..options(1) }).unwrap_err();
    assert!(error.to_string().contains("server0") || error.to_string().contains("queue 0"), "{error}");
}

/// Goal: the refusal needs no rights, so a server that has none says the same.
#[test]
fn a_loopback_interface_is_refused() {
    let open = |options| Port::open(options, MEMORY).unwrap_err();
    for queue in [0, 9] {
        let error = open(PortOptions { interface: "lo".to_owned(), queue, ..options(1) });
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        let expected = "interface \"lo\": segments on a loopback interface have no checksums, so none would be taken";
        assert_eq!(error.to_string(), expected);
    }
    let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT);
    let clients = PortOptions { interface: "lo".to_owned(), ..options(1) };
    if let Err(error) = Port::open_clients(clients, server, MEMORY) {
        // A machine whose kernel hands out the clients' ports is told of that first.
        assert!(error.to_string().contains("loopback") || error.to_string().contains("ip_local_port_range"), "{error}");
    } else {
        panic!("the port of clients was opened");
    }
}

#[test]
fn frames_are_captured() {
    let Some(lab) = lab(1500) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.pcap");
    let capture = Some(CaptureFile { path: path.clone(), bytes_max: 1 << 20 });
    let echo = Echo::start(&lab, PortOptions { capture, ..options(10) });
    let mut stream = client(&lab).unwrap();
    asks(&mut stream, b"find me in the file");
    assert!(lab.pings().unwrap());
    drop(stream);
    drop(echo);
    let bytes = std::fs::read(&path).unwrap();
    let found = bytes.windows(19).filter(|window| *window == b"find me in the file").count();
    // Request and answer.
    assert_eq!(found, 2);
    match Command::new("tcpdump").arg("-nr").arg(&path).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("10.99.0.1.5432: Flags [S]"), "{text}");
            assert!(text.contains("Flags [S.]") && !text.contains("ICMP"), "{text}");
        }
        Err(error) => println!("SKIPPED: no tcpdump: {error}"),
    }
}
