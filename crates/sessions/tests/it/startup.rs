//! Start of a connection, byte by byte.

use crate::real::{Real, WELCOME};
use server::{Config, HbaRule, Server};
use settings::roles::Role;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use wirekit::raw::{PATIENCE, Raw, message, query, startup, untyped};

const V3: i32 = 3 << 16;

fn request(code: i32) -> Vec<u8> {
    untyped(&code.to_be_bytes())
}

pub fn a_session_begins() {
    let real = Real::new();
    let mut client = real.stranger();
    // GSSAPI and TLS are refused, and the client goes on without.
    client.send(&request(80_877_104));
    assert_eq!(client.exactly(1), b"N");
    client.send(&request(80_877_103));
    assert_eq!(client.exactly(1), b"N");
    let options = ("options", "-c statement_timeout=7s");
    let pairs = [("user", "postgres"), ("application_name", "me"), options, ("replication", "false")];
    assert_eq!(client.start(&pairs), WELCOME.replace("application_name", "application_name=me"));
    assert!(0 < client.pid);
    let shown = "select current_user, current_database(), current_setting('application_name')";
    assert!(client.ask(&query(shown)).ends_with(" D(postgres,postgres,me) C(SELECT 1) Z(I)"));
    assert_eq!(client.ask(&query("show statement_timeout")), "T(statement_timeout:25:0) D(7s) C(SHOW) Z(I)");
}

pub fn versions_are_negotiated() {
    let real = Real::new();
    let begin = |version, pairs: &[(&str, &str)]| real.stranger().ask(&startup(version, pairs));
    let user = ("user", "postgres");
    assert_eq!(begin(V3 + 2, &[user]), format!("v(0x30000) {WELCOME}"));
    let unknown = [user, ("_pq_.x", "1"), ("_pq_.y", "1")];
    assert_eq!(begin(V3, &unknown), format!("v(0x30000 _pq_.x,_pq_.y) {WELCOME}"));
    let old = "E(FATAL|0A000|unsupported frontend protocol 2.0: server supports 3.0 to 3.0) end";
    assert_eq!(begin(2 << 16, &[user]), old);
}

pub fn bad_packets_are_refused() {
    let real = Real::new();
    let begin = |bytes: &[u8]| real.stranger().ask(bytes);
    let length = "E(FATAL|08P01|invalid length of startup packet) end";
    assert_eq!(begin(b"GET / HTTP/1.1\r\n\r\n"), length);
    assert_eq!(begin(b"\0\0\0\x07"), length);
    assert_eq!(begin(b"\0\0\x27\x11"), length);
    assert_eq!(begin(b"\xff\xff\xff\xff"), length);
    let layout = "E(FATAL|08P01|invalid startup packet layout: expected terminator as last byte) end";
    assert_eq!(begin(&untyped(&[&V3.to_be_bytes()[..], b"user\0postgres\0"].concat())), layout);
    assert_eq!(begin(&untyped(&[&V3.to_be_bytes()[..], b"user\0postgres\0\0x"].concat())), layout);
    let nobody = "E(FATAL|28000|no PostgreSQL user name specified in startup packet) end";
    assert_eq!(begin(&startup(V3, &[])), nobody);
    let replication = "E(FATAL|0A000|a replication connection is not supported) end";
    assert_eq!(begin(&startup(V3, &[("user", "postgres"), ("replication", "database")])), replication);
    let argument = "E(FATAL|42601|invalid command-line argument for server process: -x) end";
    assert_eq!(begin(&startup(V3, &[("user", "postgres"), ("options", "-x")])), argument);
    let nowhere = "E(FATAL|3D000|database \"nowhere\" does not exist) end";
    assert!(begin(&startup(V3, &[("user", "postgres"), ("database", "nowhere")])).ends_with(nowhere));
    // A second request of the same kind is an unknown version.
    let mut client = real.stranger();
    client.send(&request(80_877_103));
    assert_eq!(client.exactly(1), b"N");
    assert!(client.ask(&request(80_877_103)).starts_with("E(FATAL|0A000|unsupported frontend protocol 1234.5679"));
}

pub fn rules_and_roles_decide() {
    let rules = "host no all all reject\nhost all postgres,ghost,group all trust\n";
    let real = Real::with("", |config| {
        config.rules = HbaRule::parse_all(rules).unwrap();
        config.roles.put("group", Role::default());
    });
    let begin = |user, database| real.stranger().start(&[("user", user), ("database", database)]);
    assert_eq!(begin("postgres", "postgres"), WELCOME);
    let who = "host \"127.0.0.1\", user \"ann\", database \"x\", no encryption";
    assert_eq!(begin("ann", "x"), format!("E(FATAL|28000|no pg_hba.conf entry for {who}) end"));
    let who = "host \"127.0.0.1\", user \"postgres\", database \"no\", no encryption";
    assert_eq!(begin("postgres", "no"), format!("E(FATAL|28000|pg_hba.conf rejects connection for {who}) end"));
    assert_eq!(begin("ghost", "x"), "E(FATAL|28000|role \"ghost\" does not exist) end");
    assert_eq!(begin("group", "x"), "E(FATAL|28000|role \"group\" is not permitted to log in) end");
}

pub fn too_many_clients() {
    let real = Real::with("", |config| {
        config.connections_max = 2;
        config.roles.put("ann", Role { may_log_in: true, ..Role::default() });
    });
    let begin = |user: &str| {
        let mut client = real.stranger();
        (client.start(&[("user", user), ("database", "postgres")]), client)
    };
    let reserved = "remaining connection slots are reserved for non-replication superuser connections";
    let (_first, mut second) = (begin("ann").1, begin("ann").1);
    assert_eq!(begin("ann").0, format!("E(FATAL|53300|{reserved}) end"));
    // Superusers have some more connections.
    let others: Vec<_> = (0..3).map(|_| begin("postgres")).collect();
    assert!(others.iter().all(|(said, _)| said == WELCOME));
    let full = "E(FATAL|53300|sorry, too many clients already) end";
    assert_eq!([begin("postgres").0, begin("ann").0], [full, full]);
    drop(others);
    second.send(&message(b'X', b""));
    assert_eq!(second.answer(), "end");
    real.wait_until("its place is free", |_| begin("ann").0.ends_with(" K Z(I)"));
}

/// Connections that send nothing, and some that do not authenticate, leave room for those that do.
pub fn who_says_nothing_keeps_nobody_out() {
    let real = Real::with("", |config| {
        config.connections_max = 1;
        config.rules = HbaRule::parse_all("host all postgres all trust\nhost all all all scram-sha-256").unwrap();
    });
    let mut silent: Vec<_> = (0..200).map(|_| real.stranger()).collect();
    for stranger in silent.iter_mut().skip(100) {
        stranger.send(&startup(V3, &[("user", "ann")]));
    }
    real.wait_until("there is room", |real| real.stranger().start(&[("user", "postgres")]) == WELCOME);
}

pub fn who_says_nothing_is_turned_away() {
    let real = Real::with("", |config| config.authentication_timeout = Duration::from_millis(50));
    let late = "E(FATAL|57014|canceling authentication due to timeout) end";
    assert_eq!(real.stranger().answer(), late);
    assert_eq!(real.stranger().ask(b"\0\0\0"), late);
}

pub fn scram_needs_its_messages() {
    let real = Real::with("", |config| config.rules = HbaRule::parse_all("host all all all scram-sha-256").unwrap());
    let sasl = "R(10 SCRAM-SHA-256)";
    let begin = |then: &[u8]| real.stranger().ask(&[startup(V3, &[("user", "postgres")]), then.to_vec()].concat());
    let initial = |mechanism: &str, data: &str| {
        let length = i32::try_from(data.len()).unwrap().to_be_bytes();
        message(b'p', &[mechanism.as_bytes(), b"\0", &length[..], data.as_bytes()].concat())
    };
    let fails = |then: &[u8], error: &str| assert_eq!(begin(then), format!("{sasl} E(FATAL|{error}) end"));
    fails(&query("select 1"), "08P01|expected SASL response, got message type 81");
    fails(&message(b'p', b"secret\0"), "08P01|client selected an invalid SASL authentication mechanism");
    fails(&message(b'p', b"SCRAM-SHA-256\0\x7f\0\0\0"), "08P01|insufficient data left in message");
    let first = "08P01|malformed SCRAM message|DThis is wrong: the client's first message.";
    fails(&initial("SCRAM-SHA-256", "p=tls-unique,,n=,r=a"), first);
    fails(
        &initial("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=a"),
        "08P01|client selected an invalid SASL authentication mechanism",
    );
    fails(&initial("SCRAM-SHA-256", "n"), first);
}

pub fn unix_sockets() {
    let scratch = testkit::folder("server");
    let directory = scratch.path().to_owned();
    let path = directory.join(".s.PGSQL.5433");
    // The socket was left behind by a server that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let mut real = Real::with("", |config| config.unix = Some((directory.clone(), 5433)));
    let taken = Config { unix: Some((directory.clone(), 5433)), ..Config::default() };
    let taken = Server::bind(taken, sessions::Sessions(real.database.clone())).err().unwrap();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    let stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut client = Raw { stream, pid: 0, secret: 0 };
    assert_eq!(client.start(&[("user", "postgres")]), WELCOME);
    assert_eq!(client.ask(&query("select 1 as n")), "T(n:23:0) D(1) C(SELECT 1) Z(I)");
    drop(client);
    real.shut_down();
    assert!(!path.exists());
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "the socket was left");
}

/// The error names the address, and its purpose.
pub fn taken_addresses_are_named() {
    let real = Real::new();
    let (taken, free) = (real.address, "127.0.0.1:0".parse().unwrap());
    for (listen, metrics, what) in [(taken, None, "clients"), (free, Some(taken), "metrics")] {
        let config = Config { listen: vec![listen], metrics, ..Config::default() };
        let error = Server::bind(config, sessions::Sessions(real.database.clone())).err().unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
        let said = error.to_string();
        assert!(said.starts_with(&format!("on {taken} for {what}: Address already in use")), "{said}");
    }
}

/// The last message arrives although the client has sent more than the server reads.
pub fn last_words_are_heard() {
    let real = Real::new();
    for _ in 0..20 {
        let mut client = real.raw_client();
        // The server ends at the first message, which is invalid. The rest exceeds the system's buffers.
        let mut bytes = b"\x01".to_vec();
        bytes.resize(4 << 20, b'x');
        let mut writer = client.stream.try_clone().unwrap();
        let writes = std::thread::spawn(move || drop(std::io::Write::write_all(&mut writer, &bytes)));
        assert_eq!(client.answer(), "E(FATAL|08P01|invalid frontend message type 1) end");
        writes.join().unwrap();
    }
}
