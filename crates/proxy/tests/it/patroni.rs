//! Three PostgreSQL 15 servers under Patroni and etcd, whose primary is killed under load.

use crate::support::{Gate, try_value, value};
use proxy::{PoolLimits, UpstreamOptions, WatchOptions};
use std::collections::HashSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use testkit::TempDir;
use tokio_postgres::{Client, NoTls};
use wirekit::cluster::{DEBIAN, as_owner, is_there, owner};

/// Time limit. The whole test takes half a minute on two busy processors.
const PATIENCE: Duration = Duration::from_secs(120);
const NODES: usize = 3;

struct Ensemble {
    folder: TempDir,
    etcd: Child,
    /// Patroni of each node, and its PostgreSQL's port.
    nodes: Vec<(Child, u16)>,
}

/// Ports that were free a moment ago.
fn ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn logged(mut command: Command, file: &Path) -> Child {
    let log = fs::File::create(file).unwrap();
    command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null()).spawn().unwrap()
}

fn settings(folder: &Path, number: usize, etcd: u16, rest: u16, postgres: u16) -> String {
    let folder = folder.display();
    format!(
        "scope: overtake
name: n{number}
restapi: {{listen: '127.0.0.1:{rest}', connect_address: '127.0.0.1:{rest}'}}
etcd3: {{host: '127.0.0.1:{etcd}'}}
bootstrap:
  dcs:
    ttl: 5
    loop_wait: 1
    retry_timeout: 2
    synchronous_mode: true
    postgresql:
      use_pg_rewind: false
      parameters: {{fsync: 'off', shared_buffers: 16MB, max_connections: 60, autovacuum: 'off'}}
  initdb: [{{encoding: UTF8}}, {{locale: C}}, {{auth: trust}}]
postgresql:
  listen: 127.0.0.1:{postgres}
  connect_address: 127.0.0.1:{postgres}
  data_dir: {folder}/data{number}
  bin_dir: {DEBIAN}
  pgpass: {folder}/pgpass{number}
  basebackup: [{{checkpoint: fast}}]
  pg_hba: ['local all all trust', 'host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust']
  authentication: {{superuser: {{username: postgres}}, replication: {{username: replicator}}}}
  parameters: {{unix_socket_directories: {folder}}}
"
    )
}

impl Ensemble {
    fn start() -> Option<Ensemble> {
        let is_whole = is_there("initdb", "(PostgreSQL) 15.", "PostgreSQL 15")
            && is_there("patroni", "patroni", "patroni")
            && is_there("etcd", "etcd", "etcd-server");
        if !is_whole {
            return None;
        }
        let folder = testkit::folder("patroni");
        if let Some((user, group)) = owner() {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let [etcd_port, peers, rest @ ..] = ports::<8>();
        let mut etcd = as_owner("etcd");
        let (clients, peers) = (format!("http://127.0.0.1:{etcd_port}"), format!("http://127.0.0.1:{peers}"));
        for (name, value) in [
            ("--data-dir", folder.path().join("etcd").to_str().unwrap()),
            ("--listen-client-urls", &clients),
            ("--advertise-client-urls", &clients),
            ("--listen-peer-urls", &peers),
            ("--initial-advertise-peer-urls", &peers),
            ("--initial-cluster", &format!("default={peers}")),
        ] {
            etcd.args([name, value]);
        }
        let etcd = logged(etcd, &folder.path().join("etcd.log"));
        let mut ensemble = Ensemble { folder, etcd, nodes: Vec::new() };
        for number in 0..NODES {
            let (rest, postgres) = (rest[2 * number], rest[2 * number + 1]);
            let file = ensemble.folder.path().join(format!("n{number}.yml"));
            fs::write(&file, settings(ensemble.folder.path(), number, etcd_port, rest, postgres)).unwrap();
            let mut patroni = as_owner("patroni");
            patroni.arg(&file);
            let patroni = logged(patroni, &ensemble.folder.path().join(format!("n{number}.log")));
            ensemble.nodes.push((patroni, postgres));
        }
        Some(ensemble)
    }

    /// Log of Patroni, for the report of a failure.
    fn told(&self) -> String {
        let logs = (0..NODES).map(|number| fs::read_to_string(self.folder.path().join(format!("n{number}.log"))));
        logs.map(|log| log.unwrap_or_default()).collect::<Vec<_>>().join("\n---\n")
    }

    /// Processes of a node's PostgreSQL, the first one first.
    fn postgres(&self, number: usize) -> Vec<String> {
        let file = fs::read_to_string(self.folder.path().join(format!("data{number}/postmaster.pid")));
        let Some(postmaster) = file.ok().and_then(|text| text.lines().next().map(str::to_owned)) else {
            return Vec::new();
        };
        let children = Command::new("ps").args(["-o", "pid=", "--ppid", &postmaster]).output().unwrap();
        let children = String::from_utf8_lossy(&children.stdout).into_owned();
        std::iter::once(postmaster).chain(children.split_whitespace().map(str::to_owned)).collect()
    }

    /// Kills a node, as if its machine had failed.
    fn kill(&mut self, number: usize) {
        self.nodes[number].0.kill().unwrap();
        let processes = self.postgres(number);
        // Some may have ended by themselves.
        let _ = Command::new("kill").arg("-KILL").args(&processes).stderr(Stdio::null()).status();
        let is_alive = |process: &String| {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        while processes.iter().any(is_alive) {
            std::thread::yield_now();
        }
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        for number in 0..NODES.min(self.nodes.len()) {
            let _ = self.nodes[number].0.kill();
            let _ = Command::new("kill").arg("-KILL").args(self.postgres(number)).stderr(Stdio::null()).status();
        }
        let _ = self.etcd.kill();
        self.nodes.iter_mut().map(|(patroni, _)| patroni).chain([&mut self.etcd]).for_each(|child| drop(child.wait()));
        if std::thread::panicking() {
            eprintln!("{}", self.told());
        }
    }
}

async fn direct(port: u16) -> Result<Client, tokio_postgres::Error> {
    let config = format!("host=127.0.0.1 port={port} user=postgres connect_timeout=2");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
    tokio::spawn(async { drop(connection.await) });
    Ok(client)
}

/// Results of the numbers of one writer.
#[derive(Default)]
struct Written {
    acknowledged: Vec<i64>,
    unknown: Vec<i64>,
    /// Failed numbers, with the SQLSTATE.
    failed: Vec<(i64, String)>,
}

async fn insert(client: &Client, how: usize, number: i64) -> Result<(), tokio_postgres::Error> {
    match how % 3 {
        0 => client.batch_execute(&format!("insert into written values ({number})")).await,
        1 => client.execute("insert into written values ($1)", &[&number]).await.map(drop),
        _ => {
            client.batch_execute("begin").await?;
            client.execute("insert into written values ($1)", &[&number]).await?;
            client.batch_execute("commit").await
        }
    }
}

/// Writes until it is told to end. A client whose connection has ended makes another one, to the same gate.
async fn write(gate: Arc<Gate>, writer: usize, ends: Arc<AtomicBool>, done: Arc<AtomicU64>) -> Written {
    let mut written = Written::default();
    let mut client = gate.client().await;
    let mut number = i64::try_from(writer).unwrap() * 10_000_000;
    while !ends.load(SeqCst) {
        number += 1;
        match insert(&client, writer, number).await {
            Ok(()) => {
                written.acknowledged.push(number);
                done.fetch_add(1, SeqCst);
                continue;
            }
            Err(error) => match error.code().map(|code| code.code().to_owned()) {
                Some(code) if code == "08007" => written.unknown.push(number),
                Some(code) => written.failed.push((number, code)),
                // The client was told that its transaction is gone before it sent more: nothing of it may exist.
                None if error.is_closed() && writer % 3 == 2 => written.failed.push((number, "closed".to_owned())),
                None => panic!("an end without a word: {error:?}"),
            },
        }
        if client.is_closed() || client.batch_execute("rollback").await.is_err() {
            client = gate.client().await;
        }
    }
    written
}

/// The primary and its Patroni are killed while eight clients write, in three manners. Acknowledged rows exist, failed
/// rows do not, and unknown outcomes are reported as unknown. The clients go on, by the same gate.
pub fn nothing_acknowledged_is_lost() {
    let Some(mut ensemble) = Ensemble::start() else { return };
    let hosts: Vec<String> = ensemble.nodes.iter().map(|(_, port)| format!("127.0.0.1:{port}")).collect();
    let url = format!("postgres://postgres@{}/postgres", hosts.join(","));
    let options = UpstreamOptions {
        watching: WatchOptions { period: Duration::from_millis(200), patience: PATIENCE },
        ..PoolLimits::default().into()
    };
    let gate = Arc::new(Gate::over(&url, options, 6, |_| {}));
    let begun = Instant::now();
    let of_three = Arc::clone(&gate);
    gate.runtime.block_on(async {
        let gate = of_three;
        // No server is there yet: the gate waits with its client.
        let idle = gate.client().await;
        let replicas =
            "select count(*) filter (where sync_state = 'sync') || ' of ' || count(*) from pg_stat_replication
                        where state = 'streaming'";
        while value(&idle, replicas).await != "1 of 2" {
            assert!(begun.elapsed() < PATIENCE, "{}", ensemble.told());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        idle.batch_execute("create table written (number bigint primary key); set work_mem = '7MB'").await.unwrap();
        let prepared = idle.prepare("select count(*) from written where number < $1").await.unwrap();
        let (ends, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let writers: Vec<_> = (1..=8)
            .map(|writer| tokio::spawn(write(Arc::clone(&gate), writer, Arc::clone(&ends), Arc::clone(&done))))
            .collect();
        let written_more = async |more: u64| {
            let (from, begun) = (done.load(SeqCst), Instant::now());
            while done.load(SeqCst) < from + more {
                assert!(begun.elapsed() < PATIENCE, "nobody writes any more");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        written_more(2_000).await;
        let port: u16 = value(&idle, "select current_setting('port')").await.parse().unwrap();
        let primary = ensemble.nodes.iter().position(|(_, own)| *own == port).unwrap();
        ensemble.kill(primary);
        let killed = Instant::now();
        // A client without a request under way only waits, and keeps its settings and prepared statements.
        assert_eq!(try_value(&idle, "show work_mem").await.unwrap(), "7MB");
        let paused = killed.elapsed();
        let seen: i64 = idle.query_one(&prepared, &[&i64::MAX]).await.unwrap().get(0);
        written_more(1_000).await;
        ends.store(true, SeqCst);
        let (mut acknowledged, mut unknown, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for writer in writers {
            let written = writer.await.unwrap();
            acknowledged.extend(written.acknowledged);
            unknown.extend(written.unknown);
            failed.extend(written.failed);
        }
        let new_port: u16 = value(&idle, "select current_setting('port')").await.parse().unwrap();
        assert_ne!(port, new_port);
        let there: HashSet<i64> = direct(new_port)
            .await
            .unwrap()
            .query("select number from written", &[])
            .await
            .unwrap()
            .iter()
            .map(|row| row.get(0))
            .collect();
        assert!(2_000 < seen && 3_000 <= acknowledged.len());
        let lost: Vec<&i64> = acknowledged.iter().filter(|number| !there.contains(number)).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        let risen: Vec<_> = failed.iter().filter(|(number, _)| there.contains(number)).collect();
        assert!(risen.is_empty(), "failed and there: {risen:?}");
        // Only clients with a request under way are told: there were eight, one of which may be told twice.
        assert!(unknown.len() + failed.len() <= 16, "{unknown:?} {failed:?}");
        println!(
            "{} acknowledged, {} unknown ({} of them there), failed {failed:?}, paused for {paused:?}",
            acknowledged.len(),
            unknown.len(),
            unknown.iter().filter(|number| there.contains(number)).count(),
        );
        // Reads by request go to the standby that is left.
        let reader = gate.try_client("options='-c overtake.target=standby'").await.unwrap();
        assert_eq!(value(&reader, "select pg_is_in_recovery()").await, "t");
        assert!(![port, new_port].contains(&value(&reader, "select current_setting('port')").await.parse().unwrap()));
    });
}
