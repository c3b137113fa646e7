//! Encryption. The certificate is a throw-away one of `localhost`, self-signed; its key protects nothing.

use crate::real::{Real, WELCOME, rows};
use server::HbaRule;
use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::time_provider::TimeProvider;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use wirekit::raw::{Raw, message, query, startup, untyped};

const CERTIFICATE: &[u8] = include_bytes!("../../../wire/tests/tls/cert.pem");
const KEY: &[u8] = include_bytes!("../../../wire/tests/tls/key.pem");

/// Clock that shows a day in 2033, when the certificate is valid, whatever the machine's clock shows.
#[derive(Debug)]
struct Then;

impl TimeProvider for Then {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(2_000_000_000)))
    }
}

fn connection(protocols: &[&[u8]]) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CERTIFICATE).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_details(Arc::new(default_provider()), Arc::new(Then))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap()
}

fn encrypted(real: &Real) -> Raw<StreamOwned<ClientConnection, TcpStream>> {
    let mut plain = real.stranger();
    plain.send(&untyped(&80_877_103_i32.to_be_bytes()));
    assert_eq!(plain.exactly(1), b"S");
    Raw { stream: StreamOwned::new(connection(&[]), plain.stream), pid: 0, secret: 0 }
}

/// A client that starts with the handshake must name the protocol, and is refused otherwise. One that
/// requests encryption may name it.
pub fn handshakes_may_come_first() {
    let encrypting = || {
        Real::with("", |config| {
            config.tls = Some(wire::tls::from_pem(CERTIFICATE, KEY).unwrap());
            config.rules = HbaRule::parse_all("hostssl all all all trust").unwrap();
        })
    };
    let direct = |real: &Real, protocols: &[&[u8]]| {
        let stream = StreamOwned::new(connection(protocols), real.stranger().stream);
        Raw { stream, pid: 0, secret: 0 }
    };
    let real = encrypting();
    let mut client = direct(&real, &[b"postgresql"]);
    assert_eq!(client.start(&[("user", "postgres")]), WELCOME);
    assert!(client.ask(&query(&rows(20_000))).ends_with("D(20000,row 20000) C(SELECT 20000) Z(I)"));
    let mut asks = real.stranger();
    asks.send(&untyped(&80_877_103_i32.to_be_bytes()));
    assert_eq!(asks.exactly(1), b"S");
    let stream = StreamOwned::new(connection(&[b"postgresql"]), asks.stream);
    assert_eq!(Raw { stream, pid: 0, secret: 0 }.start(&[("user", "postgres")]), WELCOME);
    let is_refused = |real: &Real, protocols: &[&[u8]]| {
        let mut stream = direct(real, protocols).stream;
        let sent = std::io::Write::write_all(&mut stream, &startup(3 << 16, &[("user", "postgres")]));
        sent.is_err() || matches!(std::io::Read::read(&mut stream, &mut [0; 64]), Ok(0) | Err(_))
    };
    assert!(is_refused(&real, &[]) && is_refused(&real, &[b"h2"]));
    // Without encryption, the server does not answer a handshake.
    assert!(is_refused(&Real::new(), &[b"postgresql"]));
}

pub fn encryption_by_rustls() {
    let real = Real::with("", |config| {
        config.tls = Some(wire::tls::from_pem(CERTIFICATE, KEY).unwrap());
        config.rules = HbaRule::parse_all("hostssl all all all trust").unwrap();
    });
    let mut client = encrypted(&real);
    assert_eq!(client.start(&[("user", "postgres")]), WELCOME);
    assert_eq!(client.ask(&query(&rows(1))), "T(n:23:0,t:25:0) D(1,row 1) C(SELECT 1) Z(I)");
    assert!(client.ask(&query(&rows(20_000))).ends_with("D(20000,row 20000) C(SELECT 20000) Z(I)"));
    // The end of the connection is sent, not only made.
    client.send(&message(b'X', b""));
    assert_eq!(encrypted(&real).ask(&startup(2 << 16, &[])).matches("0A000").count(), 1);
    // Without encryption, the rule does not match.
    let from = real.client_address();
    let who = format!("host \"{from}\", user \"postgres\", database \"postgres\", no encryption");
    let refused = format!("E(FATAL|28000|no pg_hba.conf entry for {who}) end");
    assert_eq!(real.stranger().start(&[("user", "postgres")]), refused);
    // Data sent before the handshake do not count as encrypted.
    let early = [untyped(&80_877_103_i32.to_be_bytes()), startup(3 << 16, &[("user", "postgres")])].concat();
    let error = "E(FATAL|08P01|received unencrypted data after SSL request) end";
    assert_eq!(real.stranger().ask(&early), error);
    let mut garbage = real.stranger();
    garbage.send(&untyped(&80_877_103_i32.to_be_bytes()));
    assert_eq!(garbage.exactly(1), b"S");
    garbage.send(b"not a handshake at all");
    real.wait_until("garbage is turned away", |_| {
        matches!(std::io::Read::read(&mut garbage.stream, &mut [0; 64]), Ok(0) | Err(_))
    });
    assert!(wire::tls::from_pem(KEY, KEY).is_err());
    assert!(wire::tls::from_pem(CERTIFICATE, CERTIFICATE).is_err());
    // A key that others may have read is not used either.
    let folder = testkit::folder("tls");
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
    fs::write(&certificate, CERTIFICATE).unwrap();
    fs::write(&key, KEY).unwrap();
    for (mode, is_taken) in [(0o600, true), (0o644, false), (0o400, true)] {
        fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
        let loaded = wire::tls::load(&certificate, &key).map(drop).map_err(|error| error.to_string());
        assert_eq!(loaded.is_ok(), is_taken, "{mode:o}: {loaded:?}");
    }
}
