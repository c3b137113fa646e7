//! Internal priorities: server processes on this host run low transactions at a low processor priority.

use crate::support::{Front, value};
use proxy::{PoolLimits, UpstreamOptions};
use std::fs;
use std::process::Command;
use std::time::Instant;
use tokio_postgres::Client;
use wirekit::cluster::Cluster;
use wirekit::raw::PATIENCE;

/// Proxy with this many connections to the server, by TCP or by its unix socket.
fn front(size: usize, by_socket: bool) -> Option<Front> {
    let cluster = Cluster::start("")?;
    let url = if by_socket {
        cluster.socket_url()
    } else {
        format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port)
    };
    let limits = PoolLimits { size, ..PoolLimits::default() };
    let options = UpstreamOptions { internal_priorities: true, ..limits.into() };
    Some(Front::over(cluster, &url, options, 1_000, |_| {}))
}

/// True if lowered priorities can be restored: that needs CAP_SYS_NICE, which root in a container may not have.
fn may() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let may = u64::from_str_radix(bits.trim(), 16).unwrap() & (1 << 23) != 0;
    if !may {
        assert!(std::env::var_os("OVERTAKE_CI").is_none(), "without CAP_SYS_NICE");
        println!("SKIPPED in part: without CAP_SYS_NICE");
    }
    may
}

/// Field of `/proc/PID/stat`, counted from 3, which is the state.
fn stat(pid: i32, field: usize) -> i64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = text.rsplit_once(')').unwrap();
    rest.split_whitespace().nth(field - 3).unwrap().parse().unwrap()
}

fn nice(pid: i32) -> i64 {
    stat(pid, 19)
}

/// User and system time, in ticks.
fn used(pid: i32) -> i64 {
    stat(pid, 14) + stat(pid, 15)
}

/// Begins a transaction of this class and returns the number of the process that runs it.
async fn begin(client: &Client, class: &str) -> i32 {
    client.batch_execute(&format!("set overtake.priority = {class}")).await.unwrap();
    client.batch_execute("begin").await.unwrap();
    value(client, "select pg_backend_pid()").await.parse().unwrap()
}

async fn until_nice(pid: i32, wanted: i64) {
    let begun = Instant::now();
    while nice(pid) != wanted {
        assert!(begun.elapsed() < PATIENCE, "nice {} and never {wanted}", nice(pid));
        tokio::task::yield_now().await;
    }
}

/// One process serves one class after the other, and has the right priority each time.
fn follow(front: &Front) {
    let may = may();
    let low = if may { 19 } else { 0 };
    front.runtime.block_on(async {
        let client = front.client().await;
        let pid = begin(&client, "normal").await;
        assert_eq!(nice(pid), 0);
        client.batch_execute("commit").await.unwrap();
        for (class, wanted) in [("low", low), ("low", low), ("high", 0), ("low", low), ("normal", 0), ("low", low)] {
            assert_eq!(begin(&client, class).await, pid);
            assert_eq!(nice(pid), wanted, "{class}");
            client.batch_execute("commit").await.unwrap();
        }
        // Nobody uses the process any more.
        until_nice(pid, 0).await;
        // A client that disconnects in the middle leaves nothing, nor does one that is tied to its connection.
        let gone = front.client().await;
        assert_eq!(begin(&gone, "low").await, pid);
        drop(gone);
        until_nice(pid, 0).await;
        client.batch_execute("set overtake.priority = low; create temporary table t (a int)").await.unwrap();
        assert_eq!(begin(&client, "low").await, pid);
        assert_eq!(nice(pid), low);
        client.batch_execute("commit").await.unwrap();
        assert_eq!(begin(&client, "high").await, pid);
        assert_eq!(nice(pid), 0);
        client.batch_execute("commit; drop table t").await.unwrap();
    });
    front.all_idle();
}

pub fn processes_follow_classes() {
    if let Some(front) = front(1, false) {
        follow(&front);
    }
}

pub fn processes_are_found_by_a_socket() {
    if let Some(front) = front(1, true) {
        follow(&front);
    }
}

/// Two statements that want one processor all the time: the high one gets most of it.
pub fn high_gets_the_processor() {
    let Some(front) = front(2, false) else { return };
    if !may() {
        return;
    }
    front.runtime.block_on(async {
        let (one, two) = (front.client().await, front.client().await);
        let (high, low) = (begin(&one, "high").await, begin(&two, "low").await);
        for pid in [high, low] {
            let pinned = Command::new("taskset").args(["-cp", "0", &pid.to_string()]).output().unwrap();
            assert!(pinned.status.success());
        }
        let busy = async |client: &Client, seconds: u32| {
            let text = format!(
                "do $$ declare t timestamptz := clock_timestamp() + '{seconds}s'; \
                 begin while clock_timestamp() < t loop end loop; end $$"
            );
            client.batch_execute(&text).await.unwrap();
        };
        let before = (used(high), used(low));
        let first = async {
            busy(&one, 2).await;
            (used(high) - before.0, used(low) - before.1)
        };
        // Nice values make it 68 to 1.
        let (times, ()) = tokio::join!(first, busy(&two, 3));
        assert!(4 * times.1 < times.0, "{times:?}");
        two.batch_execute("commit").await.unwrap();
        one.batch_execute("commit").await.unwrap();
    });
    front.all_idle();
}

/// A transaction that runs for too long is low from then on, inside the server, too, in the middle of its statement.
pub fn a_runaway_is_lowered() {
    let Some(cluster) = Cluster::start("") else { return };
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let options =
        UpstreamOptions { internal_priorities: true, ..PoolLimits { size: 1, ..PoolLimits::default() }.into() };
    let mut gate = ::gate::GateSettings::of_priorities(1);
    let low = gate.class("low").unwrap();
    let after = std::time::Duration::from_millis(50);
    gate.classes[1].runaway = Some(::gate::Runaway { after, reaction: ::gate::Reaction::Demote(low) });
    let front = Front::gated(cluster, &url, options, gate, |_| {});
    let low = if may() { 19 } else { 0 };
    front.runtime.block_on(async {
        let client = front.client().await;
        let pid = begin(&client, "normal").await;
        assert_eq!(nice(pid), 0);
        let runs = tokio::spawn(async move {
            client.batch_execute("select pg_sleep(60)").await.unwrap_err();
            client
        });
        until_nice(pid, low).await;
        front.cluster.ask(&format!("select pg_cancel_backend({pid})"));
        let client = runs.await.unwrap();
        client.batch_execute("rollback").await.unwrap();
        // The next transaction has its own priority.
        assert_eq!(begin(&client, "normal").await, pid);
        assert_eq!(nice(pid), 0);
        client.batch_execute("commit").await.unwrap();
    });
    front.all_idle();
}
