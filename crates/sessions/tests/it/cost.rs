//! Case for measurements with `strace`, as the comment at the case describes.

use crate::real::Real;
use wirekit::raw::{bind, execute, named, parse, query, sync};

/// `strace -f -e trace=network,epoll_wait target/debug/deps/it-… --exec cost::a_thousand_executions`: the
/// calls of all threads but the first are the server's. The messages are those of drivers: Bind, Describe,
/// Execute, Sync in one packet.
pub fn a_thousand_executions() {
    let real = Real::new();
    let mut client = real.raw_client_after("create table t (n int primary key, t text); insert into t values (1, 'a')");
    client.ask(&[parse("s", "select n, t from t where n = $1", &[]), sync()].concat());
    let bind = bind("", "s", &[], &[Some(b"1")], &[]);
    let execution = [bind, named(b'D', b'P', ""), execute("", 0), sync()].concat();
    for _ in 0..1000 {
        assert_eq!(client.ask(&execution), "2 T(n:23:0,t:25:0) D(1,a) C(SELECT 1) Z(I)");
    }
}

/// Cost of the stage clock on prepared look-ups by key, as it says itself: `--exec cost::the_clock`.
pub fn the_clock() {
    let real = Real::new();
    let mut client = real.raw_client_after("create table t (n int primary key, t text); insert into t values (1, 'a')");
    client.ask(&[parse("s", "select n, t from t where n = $1", &[]), sync()].concat());
    let execution = [bind("", "s", &[], &[Some(b"1")], &[]), execute("", 0), sync()].concat();
    for _ in 0..100_000 {
        client.ask(&execution);
    }
    println!("{}", client.ask(&query("select * from overtake.stage_clock")));
    println!(
        "{}",
        client.ask(&query("select stage, count, total_ms, p50_ms, p99_ms, share from overtake.stages where 0 < count"))
    );
    println!("{}", client.ask(&query("select part, sampled, sampled_ms, share from overtake.run_parts")));
}
