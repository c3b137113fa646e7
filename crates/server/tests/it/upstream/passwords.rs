//! Who is who: to the front, and to the server.

use super::cluster::Cluster;
use super::{Front, value};
use server::Rule;
use server::upstream::Limits;

fn front(server_method: &str, url: impl FnOnce(u16) -> String) -> Option<Front> {
    let hba = format!("local all postgres trust\nhost all all 127.0.0.1/32 {server_method}\n");
    let cluster = Cluster::start(&hba)?;
    cluster.ask(
        "set password_encryption = 'md5'; create role old login password 'rust';
         set password_encryption = 'scram-sha-256'; create role ann login password 'pencil';
         create role ghost password 'pencil'; alter role postgres password 'iron'",
    );
    let url = url(cluster.port);
    Some(Front::over(cluster, &url, Limits::default(), 1_000, |config| {
        config.rules = Rule::parse_all("host all all all scram-sha-256").unwrap();
    }))
}

/// Clients prove their passwords to us, and we prove them to the server, without ever having them.
pub fn proofs_are_passed_on() {
    let Some(front) = front("scram-sha-256", |port| format!("postgres://postgres:iron@127.0.0.1:{port}/postgres"))
    else {
        return;
    };
    front.runtime.block_on(async {
        for (user, password) in [("ann", "pencil"), ("postgres", "iron")] {
            let login = format!("user={user} password={password} dbname=postgres");
            let client = front.try_client(&login).await.unwrap();
            assert_eq!(value(&client, "select session_user").await, user);
        }
        for (user, password) in [("ann", "pen"), ("ghost", "pencil"), ("nobody", "x"), ("postgres", "pencil")] {
            let login = format!("user={user} password={password} dbname=postgres");
            let error = front.try_client(&login).await.err().unwrap();
            assert_eq!(error.code().unwrap().code(), "28P01", "{user}");
        }
    });
}

/// The URL's own password, by the older methods.
pub fn older_methods_are_known() {
    for method in ["md5", "password"] {
        let url = |port| format!("postgres://old:rust@127.0.0.1:{port}/postgres?sslmode=disable");
        let hba = format!("local all postgres trust\nhost all all 127.0.0.1/32 {method}\n");
        let Some(cluster) = Cluster::start(&hba) else { return };
        cluster.ask("set password_encryption = 'md5'; create role old login password 'rust'");
        let url = url(cluster.port);
        let front = Front::over(cluster, &url, Limits::default(), 1_000, |_| {});
        front.runtime.block_on(async {
            let client = front.try_client("user=old dbname=postgres").await.unwrap();
            assert_eq!(value(&client, "select session_user").await, "old");
            // Without its password nobody else gets in.
            let error = front.try_client("user=postgres").await.err().unwrap();
            assert_eq!(error.code().unwrap().code(), "28P01");
        });
    }
}

/// Encrypted to the server, the proof bound to its certificate; one that nobody vouches for is not spoken to if that was asked.
pub fn servers_are_encrypted() {
    let hba = "local all postgres trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
    let Some(cluster) = Cluster::start(hba) else { return };
    cluster.ask("alter role postgres password 'iron'");
    cluster.encrypt();
    let url = format!("postgres://postgres:iron@127.0.0.1:{}/postgres", cluster.port);
    let front = Front::over(cluster, &format!("{url}?sslmode=require"), Limits::default(), 1_000, |_| {});
    front.runtime.block_on(async {
        let encrypted = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
        // Connections move from thread to thread.
        for _ in 0..8 {
            let client = front.try_client("").await.unwrap();
            assert_eq!(value(&client, encrypted).await, "t");
            assert_eq!(value(&client, "select length(repeat('x', 3000000))").await, "3000000");
        }
    });
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/cert.pem");
    let verified = format!("{url}?sslmode=verify-full&sslrootcert={root}");
    let front = Front::over(front.cluster, &verified, Limits::default(), 1_000, |_| {});
    front.runtime.block_on(async {
        // It is another host's.
        let error = front.try_client("").await.err().unwrap();
        assert_eq!(error.code().unwrap().code(), "08006", "{error:?}");
    });
}
