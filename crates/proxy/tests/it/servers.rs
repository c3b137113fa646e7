//! Several servers: the choice of the primary, the health checks, and the outcome when a server has gone.

use crate::fake::{DOWN, FULL, Fake, PRIMARY, Role, STANDBY, half};
use crate::support::{Front, Gate, try_value, value};
use engine::memory::{MESSAGES, held_bytes, limit_bytes};
use preempt::memory::set_limit_bytes;
use proxy::{PoolLimits, UpstreamOptions, WatchOptions};
use server::Config;
use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use wirekit::raw::{PATIENCE, Raw, bind, execute, parse, query, sync};
use wirekit::waits::http;

/// Gate that asks servers often, and waits for them this long.
pub fn before(fakes: &[&Fake], patience: Duration, slots: usize) -> Gate {
    before_with(fakes, patience, slots, |_| {})
}

pub fn before_with(fakes: &[&Fake], patience: Duration, slots: usize, change: impl FnOnce(&mut Config)) -> Gate {
    let hosts: Vec<String> = fakes.iter().map(|fake| format!("127.0.0.1:{}", fake.port)).collect();
    let url = format!("postgres://postgres@{}/postgres?sslmode=disable", hosts.join(","));
    let watching = WatchOptions { period: Duration::from_millis(20), patience };
    Gate::over(&url, UpstreamOptions { watching, ..PoolLimits::default().into() }, slots, change)
}

pub fn client(gate: &Gate, more: &[(&str, &str)]) -> Raw<TcpStream> {
    let mut raw = Raw::connect(gate.address);
    let said = raw.start(&[&[("user", "postgres")], more].concat());
    assert!(said.ends_with("Z(I)"), "{said}");
    raw
}

/// Port of the server that has answered.
pub fn who(client: &mut Raw<TcpStream>) -> String {
    client.ask(&query("who"))
}

pub fn is(fake: &Fake) -> String {
    // A report that the server is a standby depends on the server before.
    format!("D({}) C(SELECT 1) Z(I)", fake.port)
}

pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::yield_now();
    }
}

/// Ends a server without a message, and waits until the gate has noticed.
fn goes(fake: &Fake, admin: &mut Raw<TcpStream>) {
    fake.is(DOWN);
    fake.cut();
    until("it is down", || admin.ask(&query("show upstream")).contains(&format!(",{},down,", fake.port)));
}

/// The order of the list does not decide which server is the primary; it decides among equals.
pub fn transactions_go_where_they_belong() {
    let (one, two, three) = (Fake::new(STANDBY), Fake::new(STANDBY), Fake::new(PRIMARY));
    let gate = before(&[&one, &two, &three], PATIENCE, 9);
    let mut first = client(&gate, &[]);
    assert!(who(&mut first).ends_with(&is(&three)));
    let mut reader = client(&gate, &[("options", "-c overtake.target=standby")]);
    until("all are known", || who(&mut reader).ends_with(&is(&one)));
    // The server with the fewest transactions is chosen.
    assert!(reader.ask(&query("begin; select 1")).ends_with("C(BEGIN) Z(T)"));
    let mut other = client(&gate, &[("options", "-c overtake.target=prefer_standby")]);
    assert!(who(&mut other).ends_with(&is(&two)));
    assert!(reader.ask(&query("commit")).ends_with("Z(I)"));
    assert!(who(&mut other).ends_with(&is(&one)));
    // No server has a block before its first statement.
    assert_eq!(first.ask(&query("begin")), "C(BEGIN) Z(T)");
    assert_eq!(first.ask(&query("set local overtake.target = standby")), "C(SET) Z(T)");
    let said = first.ask(&query("who"));
    assert!(said.ends_with(&format!("D({}) C(SELECT 1) Z(T)", one.port)), "{said}");
    first.ask(&query("commit"));
    assert!(who(&mut first).ends_with(&is(&three)));
}

/// A client waits for the new primary, wherever it is, and stays connected; one that waits for too long gets the
/// reason, and stays, too.
pub fn roles_are_followed() {
    let (one, two) = (Fake::new(PRIMARY), Fake::new(STANDBY));
    let gate = before(&[&one, &two], PATIENCE, 9);
    let mut waits = client(&gate, &[]);
    assert!(who(&mut waits).ends_with(&is(&one)));
    let mut admin = client(&gate, &[("database", "overtake")]);
    goes(&one, &mut admin);
    waits.send(&query("who"));
    two.is(Role { timeline: 2, ..PRIMARY });
    assert!(waits.answer().ends_with(&is(&two)));
    // The server comes back as a standby, and is promoted again. The other one becomes a standby unnoticed: the first
    // to notice is a transaction that wants to write.
    one.is(STANDBY);
    two.is(Role { timeline: 2, ..STANDBY });
    assert!(waits.ask(&query("write")).contains("25006"));
    one.is(Role { timeline: 3, ..PRIMARY });
    until("the old primary is followed", || {
        let said = who(&mut waits);
        assert!(!said.ends_with("end"), "{said}");
        said.ends_with(&is(&one))
    });
    drop(gate);
    let hurried = before(&[&one, &two], Duration::from_secs(2), 9);
    let mut told = client(&hurried, &[]);
    let mut admin = client(&hurried, &[("database", "overtake")]);
    goes(&one, &mut admin);
    let said = told.ask(&query("who"));
    assert!(said.contains("57P03") && said.contains("no server is the primary") && said.ends_with("Z(I)"), "{said}");
    assert!(said.contains(&format!("127.0.0.1:{}: down", one.port)), "{said}");
    assert!(said.contains(&format!("127.0.0.1:{}: standby", two.port)), "{said}");
    one.is(Role { timeline: 3, ..PRIMARY });
    until("it is there again", || who(&mut told).ends_with(&is(&one)));
}

/// Two servers say that they are the primary: the one that was promoted last counts; the other does not, even
/// when that one has gone.
pub fn a_later_timeline_counts() {
    let (one, two) = (Fake::new(PRIMARY), Fake::new(STANDBY));
    let gate = before(&[&one, &two], Duration::from_secs(2), 9);
    let (mut first, mut open) = (client(&gate, &[]), client(&gate, &[]));
    assert!(open.ask(&query("begin; select 1")).ends_with("Z(T)"));
    two.is(Role { timeline: 2, ..PRIMARY });
    until("the new primary is taken", || who(&mut first).ends_with(&is(&two)));
    // A transaction at the old primary must not commit there.
    let said = open.ask(&query("commit"));
    assert!(said.contains("57P01") && said.contains("timeline 2") && said.ends_with("end"), "{said}");
    let mut admin = client(&gate, &[("database", "overtake")]);
    goes(&two, &mut admin);
    let said = who(&mut first);
    assert!(said.contains("57P03") && said.contains("fenced"), "{said}");
}

/// A client chooses by a setting, and is never stuck with its choice.
pub fn clients_choose_their_servers() {
    let (one, two) = (Fake::new(PRIMARY), Fake::new(STANDBY));
    let gate = before(&[&one, &two], Duration::from_secs(2), 9);
    let mut admin = client(&gate, &[("database", "overtake")]);
    let mut client = client(&gate, &[]);
    let row = |target: &str| format!("T(overtake.target:25:0) D({target}) C(SHOW) Z(I)");
    assert_eq!(client.ask(&query("show overtake.target")), row("primary"));
    assert_eq!(client.ask(&query("set overtake.target = 'standby'")), "C(SET) Z(I)");
    assert!(who(&mut client).ends_with(&is(&two)));
    assert_eq!(client.ask(&query("set local overtake.target to primary")), "C(SET) Z(I)");
    assert!(who(&mut client).ends_with(&is(&one)) && who(&mut client).ends_with(&is(&two)));
    assert!(client.ask(&query("set overtake.target = nearest")).contains("22023"));
    goes(&two, &mut admin);
    assert!(who(&mut client).contains("57P03"));
    assert_eq!(client.ask(&query("set overtake.target = prefer_standby")), "C(SET) Z(I)");
    assert!(who(&mut client).ends_with(&is(&one)));
    assert_eq!(client.ask(&query("reset overtake.target")), "C(RESET) Z(I)");
    assert_eq!(client.ask(&query("show overtake.target")), row("primary"));
}

/// A target set by the extended protocol, inside a transaction or as a default of the database is the server's setting,
/// and is followed.
pub fn targets_follow_their_clients() {
    let Some(front) = Front::new(4) else { return };
    front.runtime.block_on(async {
        let client = front.client().await;
        client.execute("set overtake.target = 'standby'", &[]).await.unwrap();
        let error = try_value(&client, "select 1").await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "57P03", "{error:?}");
        client.execute("set overtake.target = 'any'", &[]).await.unwrap();
        assert_eq!(value(&client, "show overtake.target").await, "any");
        assert_eq!(value(&client, "select current_setting('overtake.target')").await, "any");
        client.batch_execute("begin; set overtake.target = 'standby'; rollback").await.unwrap();
        assert_eq!(value(&client, "show overtake.target").await, "any");
        client.batch_execute("alter database template1 set overtake.target = 'prefer_standby'").await.unwrap();
        let other = front.try_client("dbname=template1").await.unwrap();
        assert_eq!(value(&other, "show overtake.target").await, "prefer_standby");
        let own = front.try_client("dbname=template1 options='-c overtake.target=any'").await.unwrap();
        assert_eq!(value(&own, "show overtake.target").await, "any");
        let error = front.try_client("options='-c overtake.target=some'").await.err().unwrap();
        assert_eq!(error.code().unwrap().code(), "22023");
    });
}

/// A server goes while requests are under way: possible commits are reported as unknown, in whatever form they were
/// sent.
pub fn lost_outcomes_are_unknown() {
    let fake = Fake::new(PRIMARY);
    let gate = before(&[&fake], PATIENCE, 9);
    let extended = |text: &str| [parse("", text, &[]), bind("", "", &[], &[], &[]), execute("", 0)].concat();
    for (said_before, last, state) in [
        ("", query("insert lost"), "08007"),
        ("", [extended("insert lost"), sync()].concat(), "08007"),
        ("", [query("insert 1"), query("insert lost")].concat(), "08007"),
        ("", [query("begin"), query("insert lost")].concat(), "08006"),
        ("", [query("begin"), query("insert 1"), query("commit -- lost")].concat(), "08007"),
        ("begin", query("insert lost"), "08006"),
        ("begin", [extended("insert lost"), sync()].concat(), "08006"),
        ("begin", [query("insert 1"), query("commit -- lost")].concat(), "08007"),
        ("begin; select 1", query("insert lost"), "08006"),
        ("begin; select 1", query("rollback -- lost"), "08006"),
        ("begin; select 1", query("commit -- lost"), "08007"),
        ("begin; select 1", query("insert 1; commit; select lost"), "08007"),
        ("begin; select 1", [extended("commit -- lost"), sync()].concat(), "08007"),
        ("begin; select 1", [extended("insert lost"), sync()].concat(), "08006"),
        ("begin; select 1", [extended("insert 1"), extended("end -- lost"), sync()].concat(), "08007"),
        // The first is answered, the second is not.
        ("begin; select 1", [query("insert 1"), query("commit -- lost")].concat(), "08007"),
        ("begin; select 1", [query("rollback"), query("insert lost")].concat(), "08007"),
    ] {
        let mut client = client(&gate, &[]);
        if !said_before.is_empty() {
            assert!(client.ask(&query(said_before)).ends_with("Z(T)"));
        }
        client.send(&last);
        let mut said = client.answer();
        while !said.ends_with("end") {
            said = client.answer();
        }
        assert!(said.contains(state), "{said_before} {:?}: {said}", String::from_utf8_lossy(&last));
    }
}

/// Servers have one slot each: the holder of the primary's delays nobody at the standby.
pub fn servers_have_gates_of_their_own() {
    let (one, two) = (Fake::new(PRIMARY), Fake::new(STANDBY));
    let gate = before(&[&one, &two], PATIENCE, 1);
    // The statement runs, so its slot is not lent.
    let mut holder = client(&gate, &[]);
    holder.send(&query("sleep"));
    let mut reader = client(&gate, &[("options", "-c overtake.target=standby")]);
    assert!(reader.ask(&query("begin; select 1")).ends_with("Z(T)"));
    let mut admin = client(&gate, &[("database", "overtake")]);
    let shown = admin.ask(&query("show upstream"));
    for (fake, role) in [(&one, "primary"), (&two, "standby")] {
        let line = format!("D(127.0.0.1:{port},127.0.0.1,{port},{role}", port = fake.port);
        assert!(shown.contains(&line), "{shown}");
    }
    let shown = admin.ask(&query("show mpl"));
    assert!(shown.contains(&format!("127.0.0.1:{}", one.port)) && shown.contains(&format!("127.0.0.1:{}", two.port)));
    let shown = admin.ask(&query("show pools by server"));
    for (fake, role) in [(&one, "primary"), (&two, "standby")] {
        let line = format!("D(postgres,postgres,127.0.0.1:{},{role},0,1,", fake.port);
        assert!(shown.contains(&line), "{shown}");
    }
    // The primary goes: a client that waits there for a slot goes to the next one.
    let mut waits = client(&gate, &[]);
    waits.send(&query("who"));
    until("somebody waits", || admin.ask(&query("show pools")).contains(",postgres,2,1,"));
    one.is(DOWN);
    one.cut();
    two.is(Role { timeline: 2, ..PRIMARY });
    assert!(reader.ask(&query("commit")).ends_with("Z(I)"));
    let said = waits.answer();
    assert!(said.ends_with(&is(&two)), "{said}");
}

/// An announcement of its end behind a server's last answer reaches no client without state there.
pub fn last_words_are_for_those_whom_they_concern() {
    let one = Fake::new(PRIMARY);
    let gate = before(&[&one], PATIENCE, 1);
    let mut client = client(&gate, &[]);
    assert_eq!(client.ask(&query("last")), "C(INSERT 0 1) Z(I)");
    let said = client.ask(&query("who"));
    assert!(said.ends_with(&is(&one)), "{said}");
}

/// A server that goes within a message sends no more, and neither does the proxy: the client would read it as the rest
/// of a row.
pub fn nothing_is_said_within_a_message() {
    for ends in [false, true] {
        let one = Fake::new(PRIMARY);
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable", one.port);
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let gate = Gate::until(&url, PoolLimits::default(), async move { drop(ended.await) });
        let mut client = client(&gate, &[]);
        client.send(&query("half a row"));
        let sent = half(b'D', 0);
        assert_eq!(client.exactly(sent.len()), sent);
        if ends {
            drop(end);
        } else {
            one.cut();
        }
        let mut rest = Vec::new();
        let end = client.stream.read_to_end(&mut rest);
        assert!(end.is_ok() && rest.is_empty(), "{end:?} {:?}", String::from_utf8_lossy(&rest));
    }
}

/// Long messages that the proxy does not inspect pass as they come; others are bounded, and one that does not fit ends
/// its session only.
pub fn long_messages_are_bounded() {
    let one = Fake::new(PRIMARY);
    let gate = before(&[&one], PATIENCE, 3);
    let mut reader = client(&gate, &[]);
    reader.send(&query("half a notice"));
    let sent = half(b'N', 1 << 20);
    assert!(reader.exactly(sent.len()) == sent);
    let mut fails = client(&gate, &[]);
    let others = MESSAGES.bytes();
    fails.send(&query("half an error"));
    until("it counts", || others + (512 << 10) <= MESSAGES.bytes());
    one.cut();
    until("it counts no more", || MESSAGES.bytes() < others + (512 << 10));
    let before = limit_bytes();
    set_limit_bytes(held_bytes() + (8 << 20));
    let mut fails = client(&gate, &[]);
    fails.send(&query("half a long error"));
    let said = fails.answer();
    set_limit_bytes(before);
    assert!(said.starts_with("E(FATAL|") && said.contains("end"), "{said}");
    let said = client(&gate, &[]).ask(&query("who"));
    assert!(said.ends_with(&is(&one)), "{said}");
}

/// Load balancers learn if there is a server: of several, and of one that is not asked otherwise.
pub fn readiness_is_the_servers() {
    let ready = |address| http(address, "GET /readyz HTTP/1.0\r\n\r\n");
    let free = || {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap()
    };
    let (one, two) = (Fake::new(PRIMARY), Fake::new(STANDBY));
    for fakes in [&[&one][..], &[&one, &two]] {
        let address = free();
        let _gate = before_with(fakes, PATIENCE, 9, |config| config.metrics = Some(address));
        let becomes = |status: &str| {
            until(status, || ready(address).starts_with(&format!("HTTP/1.1 {status}")));
            ready(address)
        };
        assert!(ready(address).ends_with("\r\n\r\nok\n"));
        for fake in fakes {
            fake.is(DOWN);
            fake.cut();
        }
        let said = becomes("503 Service Unavailable");
        let body = said.split_once("\r\n\r\n").unwrap().1;
        assert!(body.starts_with("no server can be reached: ") && body.lines().count() == 1, "{said}");
        assert!(fakes.iter().all(|fake| body.contains(&format!("127.0.0.1:{}", fake.port))), "{said}");
        assert!(http(address, "GET /healthz HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200"));
        if let Some(standby) = fakes.get(1) {
            standby.is(STANDBY);
            becomes("200 OK");
        }
        fakes[0].is(PRIMARY);
        becomes("200 OK");
    }
}

/// A server without room for the health check keeps its state.
pub fn a_full_server_is_not_down() {
    let (one, two) = (Fake::new(PRIMARY), Fake::new(STANDBY));
    let gate = before(&[&one, &two], PATIENCE, 9);
    let mut admin = client(&gate, &[("database", "overtake")]);
    let mut first = client(&gate, &[]);
    assert!(who(&mut first).ends_with(&is(&one)));
    one.is(FULL);
    one.cut();
    // The server is asked again and again, by one task: at the second time the first answer has been judged.
    until("it was asked", || 2 <= one.refused());
    let shown = admin.ask(&query("show upstream"));
    assert!(shown.contains(&format!(",{},primary,", one.port)), "{shown}");
    one.is(PRIMARY);
    assert!(who(&mut first).ends_with(&is(&one)));
}
