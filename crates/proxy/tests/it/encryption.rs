//! Logins to real servers: their certificates under each `sslmode`, and the sources of the URL user's password.

use crate::support::{Gate, value};
use proxy::PoolLimits;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::{Arc, Mutex};
use testkit::TempDir;
use wirekit::cluster::{Cluster, as_owner, is_there};

/// Folder with the keys and certificates that openssl makes.
struct Office(TempDir);

const EC: &str = "ec -pkeyopt ec_paramgen_curve:prime256v1";
const RSA: &str = "rsa:2048";

impl Office {
    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn openssl(&self, arguments: &str) {
        let mut openssl = Command::new("openssl");
        openssl.current_dir(self.0.path()).args(arguments.split_whitespace());
        let output = openssl.output().unwrap();
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Makes a self-signed certificate, of version 3.
    fn root(&self, name: &str, key: &str, more: &str) {
        let files = format!("-keyout {name}.key -out {name}.crt -subj /CN={name}");
        self.openssl(&format!("req -x509 -nodes -newkey {key} {files} {more}"));
    }

    /// Makes a certificate of this subject, signed by the root `ca`. Without extensions it is of version 1, as in
    /// PostgreSQL's manual.
    fn signed(&self, name: &str, key: &str, subject: &str, extensions: &str, more: &str) {
        let files = format!("-keyout {name}.key -out {name}.csr");
        self.openssl(&format!("req -nodes -newkey {key} {files} -subj /CN={subject}"));
        fs::write(self.path("extensions"), extensions).unwrap();
        let with = if extensions.is_empty() { "" } else { "-extfile extensions" };
        let by = "-CA ca.crt -CAkey ca.key -CAcreateserial";
        self.openssl(&format!("x509 -req -in {name}.csr {by} -out {name}.crt {with} {more}"));
    }
}

/// Logs in by a gate in front of this URL. Returns `t` or `f` for an encrypted connection to the server or not, or the
/// error.
fn log_in(url: &str) -> Result<String, String> {
    let gate = Gate::over(url, PoolLimits::default(), 9, |_| {});
    gate.runtime.block_on(async {
        match gate.try_client("").await {
            Ok(client) => Ok(value(&client, "select ssl from pg_stat_ssl where pid = pg_backend_pid()").await),
            Err(error) => {
                let error = error.as_db_error().unwrap_or_else(|| panic!("{url}: {error:?}"));
                // The reason stands behind the address.
                let detail = error.detail().unwrap_or(error.message());
                Err(detail.split_once(": ").map_or(detail, |(_, why)| why).to_owned())
            }
        }
    })
}

/// Logs in by psql, with the same kind of result.
fn psql_logs_in(url: &str) -> Result<String, String> {
    let mut psql = as_owner("psql");
    psql.env("HOME", "/nonexistent").args(["-XAtc", "select ssl from pg_stat_ssl where pid = pg_backend_pid()", url]);
    let output = psql.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// Result of a login.
type Outcome = Result<(), &'static str>;

/// Server's certificate, and logins: without verification; by the address with `verify-ca`, and with the certificate
/// itself as root; by the name and by the address with `verify-full`.
type Case = (&'static str, [Outcome; 5]);

/// The result of each certificate under each mode is libpq's, except for certificates that no library here can verify,
/// which are refused by name.
pub fn certificates_are_what_the_mode_asks_for() {
    const UNKNOWN: Outcome = Err("certificate verify failed: none of the certificates of sslrootcert is its issuer");
    const ISSUER: Outcome =
        Err("certificate verify failed: it is the certificate of an issuer, and does not stand in sslrootcert itself");
    const VERSION: Outcome =
        Err("certificate verify failed: it is an X.509 certificate of version 1; its issuer and its \
                                  names can be verified of version 3 only");
    const EXPIRED: Outcome = Err("certificate verify failed: certificate has expired");
    const NOT_LOCALHOST: Outcome = Err("server certificate does not match host name \"localhost\"");
    const NOT_ADDRESS: Outcome = Err("server certificate does not match host name \"127.0.0.1\"");
    const KEY: Outcome =
        Err("the server has no algorithm in common with this side, which verifies signatures of keys of \
                              RSA, P-256, P-384 and Ed25519");
    const CASES: [Case; 10] = [
        ("v1ec", [Ok(()), VERSION, Ok(()), VERSION, VERSION]),
        ("v1rsa", [Ok(()), VERSION, Ok(()), VERSION, VERSION]),
        ("good", [Ok(()), Ok(()), Ok(()), Ok(()), NOT_ADDRESS]),
        ("goodrsa", [Ok(()), Ok(()), Ok(()), Ok(()), Ok(())]),
        ("named", [Ok(()), Ok(()), Ok(()), Ok(()), NOT_ADDRESS]),
        ("other", [Ok(()), Ok(()), Ok(()), NOT_LOCALHOST, NOT_ADDRESS]),
        ("self", [Ok(()), ISSUER, Ok(()), ISSUER, ISSUER]),
        ("stranger", [Ok(()), ISSUER, Ok(()), ISSUER, ISSUER]),
        ("expired", [Ok(()), EXPIRED, EXPIRED, EXPIRED, EXPIRED]),
        ("p521", [KEY, KEY, KEY, KEY, KEY]),
    ];
    let hba = "local all postgres trust\nhost all all 127.0.0.1/32 trust\n";
    let Some(cluster) = Cluster::start(hba) else { return };
    if !is_there("openssl", "", "openssl") {
        return;
    }
    let office = Office(testkit::folder("certificates"));
    fs::set_permissions(office.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
    office.root("ca", RSA, "");
    office.root("stranger", RSA, "");
    office.root("self", EC, "-addext subjectAltName=DNS:localhost");
    office.signed("v1ec", EC, "localhost", "", "");
    office.signed("v1rsa", RSA, "localhost", "", "");
    office.signed("good", EC, "localhost", "subjectAltName=DNS:localhost", "");
    // The subject's name counts where there is no other name of the same kind.
    office.signed("goodrsa", RSA, "localhost", "subjectAltName=IP:127.0.0.1", "");
    office.signed("named", EC, "localhost", "basicConstraints=critical,CA:FALSE", "");
    office.signed("other", EC, "localhost", "subjectAltName=critical,DNS:db,DNS:db2", "");
    office.signed("p521", "ec -pkeyopt ec_paramgen_curve:secp521r1", "localhost", "subjectAltName=DNS:localhost", "");
    office.signed("expired", EC, "localhost", "subjectAltName=DNS:localhost", "-days -1");
    // As long as the server has no encryption, an unencrypted connection is accepted where the mode allows it.
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    assert_eq!(log_in(&url).as_deref(), Ok("f"));
    let refused = Err("the server does not support SSL, but SSL was required.".to_owned());
    for parameters in ["sslmode=require".to_owned(), format!("sslmode=verify-ca&sslrootcert={}", office.path("ca.crt"))]
    {
        assert_eq!(log_in(&format!("{url}?{parameters}")), refused);
    }
    for (name, outcomes) in CASES {
        let file = |ending: &str| fs::read(office.path(&format!("{name}.{ending}"))).unwrap();
        cluster.encrypt_with(name, &file("crt"), &file("key"));
        let (ca, own) = (office.path("ca.crt"), office.path(&format!("{name}.crt")));
        let [unverified, by_ca, by_itself, of_name, of_address] = outcomes;
        let (other, by_other) = match name {
            "good" => (office.path("stranger.crt"), UNKNOWN),
            _ => (ca.clone(), by_ca),
        };
        for (host, parameters, outcome) in [
            ("127.0.0.1", "sslmode=prefer".to_owned(), unverified),
            ("127.0.0.1", "sslmode=require".to_owned(), unverified),
            ("127.0.0.1", format!("sslmode=require&sslrootcert={ca}"), by_ca),
            ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={own}"), by_itself),
            ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={other}"), by_other),
            ("localhost", format!("sslmode=verify-full&sslrootcert={ca}"), of_name),
            ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={ca}"), of_address),
        ] {
            let url = format!("postgres://postgres@{host}:{}/postgres?{parameters}", cluster.port);
            let wanted = outcome.map(|()| "t".to_owned()).map_err(|why| format!("SSL error: {why}."));
            assert_eq!(log_in(&url), wanted, "{name}: {url}");
            let is_pinned = parameters.ends_with(&own) && !matches!(name, "self" | "stranger");
            let by_psql = psql_logs_in(&url);
            match outcome {
                // OpenSSL can verify these, and demands a self-signed root.
                VERSION | KEY => {}
                Ok(()) if is_pinned => assert!(by_psql.is_err(), "{name}: {url}: psql connects"),
                Ok(()) => assert_eq!(by_psql.as_deref(), Ok("t"), "{name}: {url}"),
                Err(_) => assert!(by_psql.is_err(), "{name}: {url}: psql connects"),
            }
        }
    }
}

/// Password from a file that the URL names, from one that the environment names, and from the environment; without one,
/// the error is that of a wrong one.
pub fn passwords_come_from_files_and_the_environment() {
    let hba = "local all postgres trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    let Some(cluster) = Cluster::start(hba) else { return };
    cluster.ask("alter role postgres password 'iron'");
    let folder = testkit::folder("passwords");
    let write = |name: &str, password: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("127.0.0.1:{}:postgres:postgres:{password}\n", cluster.port)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (right, wrong) = (write("right", "iron"), write("wrong", "gold"));
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let child = |url: &str, variables: &[(&str, &str)]| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exec", "encryption::a_login_by_the_environment"]);
        for name in ["PGPASSWORD", "PGPASSFILE", "HOME"] {
            child.env_remove(name);
        }
        let output = child.env("URL", url).envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        said.lines().last().unwrap_or_default().to_owned()
    };
    let home = folder.path().to_str().unwrap();
    let by_file = |name: &str| format!("{url}?passfile={name}");
    let (let_in, refused) = ("Ok(\"f\")", "password authentication failed");
    for (url, variables, said) in [
        (by_file(&right), &[][..], let_in),
        (by_file(&right), &[("PGPASSFILE", &*wrong)], let_in),
        (by_file(&wrong), &[("PGPASSFILE", &*right)], refused),
        (by_file(&wrong), &[("PGPASSWORD", "iron")], let_in),
        (url.clone(), &[("PGPASSFILE", &*right)], let_in),
        (url.clone(), &[("PGPASSWORD", "iron"), ("PGPASSFILE", &*wrong)], let_in),
        (url.clone(), &[("PGPASSWORD", "gold"), ("PGPASSFILE", &*right)], refused),
        (url.replace("postgres@", "postgres:iron@"), &[("PGPASSWORD", "gold")], let_in),
        (url.clone(), &[("HOME", home)], "which is not known here"),
    ] {
        let found = child(&url, variables);
        assert!(found.contains(said), "{url} {variables:?}: {found}");
    }
    fs::rename(&right, folder.path().join(".pgpass")).unwrap();
    assert_eq!(child(&url, &[("HOME", home)]), let_in);
    // The file is read for each login: a new one takes effect at once.
    fs::set_permissions(folder.path().join(".pgpass"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(child(&url, &[("HOME", home)]).contains("which is not known here"));
}

/// Logs in to the server of the variable `URL`.
pub fn a_login_by_the_environment() {
    println!("{:?}", log_in(&std::env::var("URL").unwrap()));
}

/// Forwards bytes to a server, and records the first bytes of each connection.
fn relay(listener: TcpListener, to: u16, begun: Arc<Mutex<Vec<[u8; 8]>>>) {
    for from in listener.incoming().map_while(Result::ok) {
        let begun = Arc::clone(&begun);
        std::thread::spawn(move || {
            let (mut from, mut head) = (from, [0; 8]);
            if from.read_exact(&mut head).is_err() {
                return;
            }
            begun.lock().unwrap().push(head);
            let mut server = TcpStream::connect(("127.0.0.1", to)).unwrap();
            server.write_all(&head).unwrap();
            let (mut back, mut client) = (server.try_clone().unwrap(), from.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut back, &mut client);
                let _ = client.shutdown(Shutdown::Both);
            });
            let _ = std::io::copy(&mut from, &mut server);
            let _ = server.shutdown(Shutdown::Both);
        });
    }
}

/// A cancel is as secret as its session, and goes to the same server, no matter what the name of its host means by
/// then.
pub fn cancels_go_the_way_of_their_session() {
    let rules = "local all postgres trust\nhost all all 127.0.0.1/32 trust\n";
    let Some(cluster) = Cluster::start(rules) else { return };
    cluster.encrypt();
    let ssl_request = [0, 0, 0, 8, 4, 210, 22, 47];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let begun = Arc::new(Mutex::new(Vec::new()));
    let (own, to) = (Arc::clone(&begun), cluster.port);
    std::thread::spawn(move || relay(listener, to, own));
    for (mode, is_encrypted) in [("require", true), ("disable", false)] {
        let url = format!("postgres://postgres@localhost:{port}/postgres?sslmode={mode}");
        let gate = Gate::over(&url, PoolLimits { size: 1, ..PoolLimits::default() }, 9, |_| {});
        gate.runtime.block_on(async {
            let client = gate.client().await;
            client.batch_execute("select 1").await.unwrap();
            // From here on the name has another address first, where it has two.
            let _other = TcpListener::bind(("::1", port));
            begun.lock().unwrap().clear();
            let (cancel, asked) = (client.cancel_token(), client.batch_execute("select pg_sleep(60)"));
            let cancelled = async {
                let direct = cluster.client().await;
                let sleeping = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
                while value(&direct, sleeping).await != "1" {}
                cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
            };
            let (asked, ()) = tokio::join!(asked, cancelled);
            assert_eq!(asked.unwrap_err().code().map(|code| code.code()), Some("57014"), "{mode}");
        });
        let begun = begun.lock().unwrap();
        assert!(
            !begun.is_empty() && begun.iter().all(|head| (*head == ssl_request) == is_encrypted),
            "{mode}: {begun:?}"
        );
    }
}
