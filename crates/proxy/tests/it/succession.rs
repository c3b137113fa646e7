//! A fenced server is accepted after a split brain, and the others follow.

use crate::fake::{DOWN, Fake, PRIMARY, Role, STANDBY};
use crate::servers::{before, before_with, client, is, until, who};
use crate::support::Gate;
use proxy::{PoolLimits, UpstreamOptions, WatchOptions};
use std::time::Duration;
use wirekit::cluster::Cluster;
use wirekit::raw::{PATIENCE, query};
use wirekit::waits::http;

/// Servers that do not report the history of their timelines: numbers decide.
pub fn a_fenced_server_is_accepted() {
    let (one, two) = (Fake::new(PRIMARY), Fake::new(STANDBY));
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gate = before_with(&[&one, &two], Duration::from_secs(1), 9, |config| config.metrics = Some(free));
    let mut admin = client(&gate, &[("database", "overtake")]);
    let mut first = client(&gate, &[]);
    let accept = |fake: &Fake| query(&format!("ACCEPT '127.0.0.1:{}'", fake.port));
    assert!(who(&mut first).ends_with(&is(&one)));
    until("both are known", || admin.ask(&query("show upstream")).contains(&format!("{},standby,", two.port)));
    for (text, state, words) in [
        (accept(&one), "55000", "is not fenced"),
        (accept(&two), "55000", "is a standby"),
        (query("accept '127.0.0.1:1'"), "42704", "server \"127.0.0.1:1\" does not exist"),
        (query("accept"), "42601", "invalid command"),
    ] {
        let said = admin.ask(&text);
        assert!(said.starts_with(&format!("E(ERROR|{state}|")) && said.contains(words), "{said}");
    }
    // The server is promoted, and lost with all that was committed there.
    two.is(Role { timeline: 2, ..PRIMARY });
    until("the later timeline counts", || who(&mut first).ends_with(&is(&two)));
    two.is(DOWN);
    two.cut();
    until("it is down", || admin.ask(&query("show upstream")).contains(&format!(",{},down,", two.port)));
    let said = first.ask(&query("who"));
    assert!(said.contains("57P03") && said.contains("ACCEPT 'host:port'"), "{said}");
    let metrics = || http(free, "GET /metrics HTTP/1.0\r\n\r\n");
    let value = |name: &str, fake: &Fake, value: u32| {
        format!("\novertake_upstream_{name}{{server=\"127.0.0.1:{}\"}} {value}\n", fake.port)
    };
    let said = metrics();
    assert!(said.contains(&value("fenced", &one, 1)) && said.contains(&value("fenced", &two, 0)), "{said}");
    assert!(said.contains(&value("timeline", &one, 1)) && said.contains(&value("timeline", &two, 2)), "{said}");
    let shown = admin.ask(&query("show upstream"));
    assert!(shown.contains(&format!("ACCEPT '127.0.0.1:{}' makes it the primary", one.port)), "{shown}");
    assert!(admin.ask(&accept(&two)).starts_with("E(ERROR|55000|"));
    let said = admin.ask(&accept(&one));
    assert!(
        said.contains("N(NOTICE|00000|")
            && said.contains("Timeline 2 is set aside")
            && said.ends_with("C(ACCEPT) Z(I)"),
        "{said}"
    );
    assert!(who(&mut first).ends_with(&is(&one)));
    // The choice holds when the other server comes back, and up to a later timeline.
    two.is(Role { timeline: 2, ..PRIMARY });
    until("the other one is fenced", || metrics().contains(&value("fenced", &two, 1)));
    let shown = admin.ask(&query("show upstream"));
    let trouble =
        format!("its timeline 2 does not go on from timeline 1, on which 127.0.0.1:{} was accepted", one.port);
    assert!(shown.contains(&trouble), "{shown}");
    assert!(first.ask(&query("begin; select 1")).ends_with("Z(T)"));
    two.is(Role { timeline: 3, ..PRIMARY });
    until("a later timeline counts", || metrics().contains(&value("primary", &two, 1)));
    let said = first.ask(&query("commit"));
    assert!(said.contains("57P01") && said.contains("timeline 3") && said.ends_with("end"), "{said}");
    // Both are there, and the earlier one is chosen all the same.
    let mut second = client(&gate, &[]);
    assert!(second.ask(&query("begin; select 1")).ends_with("Z(T)"));
    assert!(admin.ask(&accept(&one)).ends_with("C(ACCEPT) Z(I)"));
    let said = second.ask(&query("commit"));
    assert!(said.contains("57P01") && said.contains("was accepted") && said.ends_with("end"), "{said}");
    let said = who(&mut client(&gate, &[]));
    assert!(said.ends_with(&is(&one)), "{said}");
    drop(gate);
    // A single server is used as it is.
    let gate = before(&[&one], PATIENCE, 9);
    let said = client(&gate, &[("database", "overtake")]).ask(&accept(&one));
    assert!(said.starts_with("E(ERROR|55000|"), "{said}");
}

/// Real servers, two of which take the same number for different timelines.
pub fn a_promotion_goes_on_from_what_was_accepted() {
    let Some(mut one) = Cluster::start("") else { return };
    one.ask("create table t (n int)");
    one.stop("-INT");
    let (two, mut three) = (Cluster::copy(&one), Cluster::copy(&one));
    one.start_again();
    let [first, second, third] = [one.port, two.port, three.port];
    let url = format!("postgres://postgres@127.0.0.1:{first},127.0.0.1:{second},127.0.0.1:{third}/postgres");
    let watching = WatchOptions { period: Duration::from_millis(20), patience: PATIENCE };
    let gate = Gate::over(&url, UpstreamOptions { watching, ..PoolLimits::default().into() }, 9, |_| {});
    let mut admin = client(&gate, &[("database", "overtake")]);
    let mut stands = |port: u16, role: &str, why: &str| {
        until(role, || {
            let shown = admin.ask(&query("show upstream"));
            shown.split("D(").any(|row| row.contains(&format!(",{port},{role},")) && row.contains(why))
        });
    };
    let insert = |number: u32| {
        let said = client(&gate, &[]).ask(&query(&format!("insert into t values ({number})")));
        assert_eq!(said, "C(INSERT 0 1) Z(I)");
    };
    insert(1);
    stands(first, "primary", "");
    two.promote();
    stands(second, "primary", "");
    stands(first, "fenced", "another server has gone on since, on timeline 2");
    insert(2);
    let mut own = client(&gate, &[("database", "overtake")]);
    let said = own.ask(&query(&format!("accept '127.0.0.1:{first}'")));
    assert!(said.ends_with("C(ACCEPT) Z(I)"), "{said}");
    stands(second, "fenced", "its timeline 2 does not go on from timeline 1");
    insert(3);
    // The accepted server fails over to one that has never heard of the second's timeline 2, and makes its own.
    one.stop("-INT");
    three.stop("-INT");
    three.copy_again(&one);
    three.promote();
    stands(third, "primary", "");
    insert(4);
    let said = client(&gate, &[]).ask(&query("select array_agg(n order by n) from t"));
    assert!(said.contains("D({1,3,4})"), "{said}");
    stands(second, "fenced", "its timeline 2 does not go on from timeline 1");
    one.start_again();
    stands(first, "fenced", "another server has gone on since, on timeline 2");
    insert(5);
    drop(gate);
}
