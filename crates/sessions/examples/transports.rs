//! Processor time of the server for each look-up by key, by transport:
//! `cargo build --release -p sessions --examples && target/release/examples/transports [SECONDS [ROUNDS]]`.
//!
//! The server is the example `serve` with one network thread on processor 0; the clients are one thread on processor 1.
//! Transports take turns, and the medians of the rounds are printed.
#![allow(clippy::unwrap_used, reason = "an example fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use wirekit::load::{LoadClient, SET_UP, processor_ns};

/// Ways to the server, with the interface of its network.
const WAYS: [(&str, &str); 4] = [
    ("tcp", "overtake.network=epoll"),
    ("io_uring", "overtake.network=io_uring"),
    ("unix", "overtake.network=epoll"),
    ("shared", "overtake.network=epoll"),
];
/// Connections and requests on the way at once.
const LOADS: [(u32, usize); 6] = [(1, 1), (16, 1), (64, 1), (1, 16), (16, 16), (64, 16)];

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

struct Server {
    child: Child,
    address: String,
    folder: PathBuf,
}

impl Server {
    fn start(folder: &Path, setting: &str) -> Server {
        let serve = std::env::current_exe().unwrap().with_file_name("serve");
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(serve).arg("127.0.0.1:0").args(["-c", "overtake.network_threads=1"]);
        command.args(["-c", setting, "-c", "port=0", "-c", &format!("unix_socket_directories={}", folder.display())]);
        command.args(["-c", &format!("overtake.listen_shared={}/shared", folder.display())]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let line = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        let address = line.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
        Server { child, address, folder: folder.to_owned() }
    }

    async fn connect(&self, way: &str) -> Box<dyn Stream> {
        match way {
            "shared" => Box::new(overtake_client::connect(self.folder.join("shared")).await.unwrap()),
            "unix" => {
                let port = self.address.rsplit(':').next().unwrap();
                let path = self.folder.join(format!(".s.PGSQL.{port}"));
                Box::new(tokio::net::UnixStream::connect(path).await.unwrap())
            }
            _ => {
                let stream = tokio::net::TcpStream::connect(&self.address).await.unwrap();
                stream.set_nodelay(true).unwrap();
                Box::new(stream)
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Figures of one round.
#[derive(Clone, Copy, Default)]
struct Figures {
    per_s: f64,
    server_us: f64,
    client_us: f64,
    server_share: f64,
}

async fn round(server: &Server, way: &str, (connections, depth): (u32, usize), time: Duration) -> Figures {
    let (is_over, begins) =
        (Arc::new(AtomicBool::new(false)), Arc::new(tokio::sync::Barrier::new(connections as usize + 1)));
    let mut tasks = Vec::new();
    for number in 0..connections {
        let mut client = LoadClient::begin(server.connect(way).await, number * 7919).await.unwrap();
        client.prepare().await.unwrap();
        let (is_over, begins) = (Arc::clone(&is_over), Arc::clone(&begins));
        tasks.push(tokio::spawn(async move {
            // Plans are made and caches filled.
            let warm = Arc::new(AtomicBool::new(false));
            let ends = Arc::clone(&warm);
            let warms = async move {
                tokio::time::sleep(Duration::from_millis(300)).await;
                ends.store(true, Relaxed);
            };
            let (looked, ()) = tokio::join!(client.look_up(depth, warm), warms);
            looked.unwrap();
            begins.wait().await;
            client.look_up(depth, is_over).await.unwrap()
        }));
    }
    begins.wait().await;
    let pid = server.child.id();
    let (before, own) = (processor_ns(pid).unwrap(), processor_ns(std::process::id()).unwrap());
    let begun = Instant::now();
    tokio::time::sleep(time).await;
    is_over.store(true, Relaxed);
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    let wall = begun.elapsed().as_secs_f64();
    let (server_ns, client_ns) = (processor_ns(pid).unwrap() - before, processor_ns(std::process::id()).unwrap() - own);
    Figures {
        per_s: done as f64 / wall,
        server_us: server_ns as f64 / 1e3 / done as f64,
        client_us: client_ns as f64 / 1e3 / done as f64,
        server_share: server_ns as f64 / 1e9 / wall,
    }
}

fn median(figures: &[Figures], of: impl Fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = figures.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().map_or(2.0, |text| text.parse().unwrap());
    let rounds: usize = arguments.next().map_or(3, |text| text.parse().unwrap());
    let only = arguments.next();
    if std::env::var_os("TRANSPORTS_PINNED").is_none() {
        let mut command = Command::new("taskset");
        command.args(["-c", "1"]).arg(std::env::current_exe().unwrap()).args(std::env::args().skip(1));
        let status = command.env("TRANSPORTS_PINNED", "1").status().unwrap();
        std::process::exit(status.code().unwrap_or(1));
    }
    let folder = testkit::folder("transports");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ways: Vec<_> = WAYS.iter().filter(|(way, _)| only.as_ref().is_none_or(|only| only.contains(way))).collect();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    println!("load average before: {}", load.trim());
    println!("connections x depth  transport       per s  server us  client us  server's share  times tcp");
    runtime.block_on(async {
        let mut servers = Vec::new();
        for (way, setting) in &ways {
            let own = folder.path().join(way);
            std::fs::create_dir(&own).unwrap();
            let server = Server::start(&own, setting);
            LoadClient::begin(server.connect(way).await, 1).await.unwrap().run(SET_UP).await.unwrap();
            servers.push((*way, server));
        }
        for load in LOADS {
            let mut all = vec![Vec::new(); servers.len()];
            for _ in 0..rounds {
                for ((way, server), figures) in servers.iter().zip(&mut all) {
                    figures.push(round(server, way, load, Duration::from_secs_f64(seconds)).await);
                }
            }
            let first = median(&all[0], |figures| figures.server_us);
            for ((way, _), figures) in servers.iter().zip(&all) {
                let server_us = median(figures, |figures| figures.server_us);
                println!(
                    "{:>11} x {:<5}  {way:<9} {:>11.0} {:>10.2} {:>10.2} {:>15.2} {:>10.2}",
                    load.0,
                    load.1,
                    median(figures, |figures| figures.per_s),
                    server_us,
                    median(figures, |figures| figures.client_us),
                    median(figures, |figures| figures.server_share),
                    server_us / first,
                );
            }
        }
    });
}
