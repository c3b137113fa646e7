//! Authentication of clients to the proxy, and of the proxy to the server.

use crate::support::{Front, try_value, value};
use proxy::PoolLimits;
use server::HbaRule;
use std::time::{Duration, Instant};
use wirekit::cluster::Cluster;
use wirekit::raw::PATIENCE;

fn front(server_method: &str, url: impl FnOnce(u16) -> String) -> Option<Front> {
    let hba = format!("local all postgres trust\nhost all all 127.0.0.1/32 {server_method}\n");
    let cluster = Cluster::start(&hba)?;
    cluster.ask(
        "set password_encryption = 'md5'; create role old login password 'rust';
         set password_encryption = 'scram-sha-256'; create role ann login password 'pencil';
         create role ghost password 'pencil'; alter role postgres password 'iron'",
    );
    let url = url(cluster.port);
    Some(Front::over(cluster, &url, PoolLimits::default(), 1_000, |config| {
        config.rules = HbaRule::parse_all("host all all all scram-sha-256").unwrap();
    }))
}

/// Clients prove their passwords to the proxy, and the proxy proves them to the server, without ever having them.
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

/// A role that was made a moment ago exists, and a changed password is refused once at most: the salt that a client is
/// sent decides what it can prove.
pub fn passwords_are_asked_for_again() {
    let Some(front) = front("scram-sha-256", |port| format!("postgres://postgres:iron@127.0.0.1:{port}/postgres"))
    else {
        return;
    };
    front.runtime.block_on(async {
        let code = |error: tokio_postgres::Error| error.code().map(|code| code.code().to_owned());
        let login = async |user: &str, password: &str| {
            let login = format!("user={user} password={password} dbname=postgres");
            front.try_client(&login).await.map_err(code)
        };
        let refused = || Some("28P01".to_owned());
        assert_eq!(login("late", "pencil").await.err(), Some(refused()));
        front.cluster.ask("create role late login password 'pencil'");
        drop(login("late", "pencil").await.unwrap());
        front.cluster.ask("alter role late password 'pen'");
        let client = match login("late", "pen").await {
            Ok(client) => client,
            Err(code) => {
                assert_eq!(code, refused());
                login("late", "pen").await.unwrap()
            }
        };
        assert_eq!(value(&client, "select session_user").await, "late");
        assert_eq!(login("late", "pencil").await.err(), Some(refused()));
    });
}

/// A role whose password has expired is refused, although connections of its pool live; so is a role with an MD5
/// password only; and a client that tries passwords waits longer and longer, while others do not.
pub fn expired_passwords_are_refused() {
    let Some(front) = front("scram-sha-256", |port| format!("postgres://postgres:iron@127.0.0.1:{port}/postgres"))
    else {
        return;
    };
    front.runtime.block_on(async {
        let login = async |user: &str, password: &str| {
            let login = format!("user={user} password={password} dbname=postgres");
            front.try_client(&login).await
        };
        front.cluster.ask("alter role ann valid until '2100-01-01'");
        let ann = login("ann", "pencil").await.unwrap();
        assert_eq!(value(&ann, "select session_user").await, "ann");
        front.cluster.ask("alter role ann valid until '2020-01-01'");
        // An answer of the server is trusted for some seconds.
        let begun = Instant::now();
        let error = loop {
            assert!(begun.elapsed() < PATIENCE, "ann is let in");
            if let Err(error) = login("ann", "pencil").await {
                break error;
            }
        };
        let said = error.as_db_error().unwrap();
        assert_eq!((said.code().code(), said.message()), ("28P01", "password authentication failed for user \"ann\""));
        assert_eq!(try_value(&ann, "select 1").await.unwrap(), "1");
        assert_eq!(login("old", "rust").await.err().unwrap().code().unwrap().code(), "28P01");
        let begun = Instant::now();
        for _ in 0..3 {
            assert!(login("postgres", "wrong").await.is_err());
        }
        assert!(Duration::from_millis(700) < begun.elapsed());
        let begun = Instant::now();
        drop(login("postgres", "iron").await.unwrap());
        assert!(begun.elapsed() < Duration::from_secs(4));
    });
}

/// Passwords that are tried over several connections at once are answered one after the other.
pub fn guesses_side_by_side_wait_for_each_other() {
    let Some(front) = front("scram-sha-256", |port| format!("postgres://postgres:iron@127.0.0.1:{port}/postgres"))
    else {
        return;
    };
    let login = |password: &str| {
        let login = format!("user=ann password={password} dbname=postgres");
        front.runtime.block_on(front.try_client(&login)).map(drop)
    };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| assert_eq!(login("pen").unwrap_err().code().unwrap().code(), "28P01"));
        }
    });
    // Three are answered at once, the others after 250, 500 and 1,000 ms more.
    assert!(Duration::from_millis(1_700) < begun.elapsed(), "{:?}", begun.elapsed());
    login("pencil").unwrap();
}

/// Changes of a role at the server take effect soon: other defaults, no LOGIN, and a dropped role.
pub fn roles_are_asked_for_again() {
    let Some(cluster) = Cluster::start("") else { return };
    cluster.ask("create role ann login; create role bob login");
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let front = Front::over(cluster, &url, PoolLimits { size: 2, ..PoolLimits::default() }, 1_000, |_| {});
    front.runtime.block_on(async {
        let begun = Instant::now();
        let login = async |user: &str| front.try_client(&format!("user={user} dbname=postgres")).await;
        let refused = async |user: &str, state: &str| loop {
            assert!(begun.elapsed() < PATIENCE, "{user} is let in");
            if let Err(error) = login(user).await {
                break assert_eq!(error.code().unwrap().code(), state, "{user}");
            }
        };
        let ann = login("ann").await.unwrap();
        assert_eq!(value(&ann, "show work_mem").await, "4MB");
        drop(login("bob").await.unwrap());
        front.cluster.ask("alter role ann set work_mem = '7MB'; alter database postgres set timezone = 'Asia/Tokyo'");
        loop {
            let late = login("ann").await.unwrap();
            let found = value(&late, "show work_mem").await;
            if found == "7MB" {
                assert_eq!(value(&late, "show timezone").await, "Asia/Tokyo");
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{found}");
        }
        // An existing client stays connected, as at the server.
        front.cluster.ask("alter role ann nologin; drop role bob");
        refused("ann", "28000").await;
        refused("bob", "28000").await;
        assert_eq!(try_value(&ann, "select 1").await.unwrap(), "1");
        front.cluster.ask("alter role ann login; revoke connect on database postgres from public");
        refused("ann", "42501").await;
        front.cluster.ask("grant connect on database postgres to ann");
        drop(login("ann").await.unwrap());
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
        let front = Front::over(cluster, &url, PoolLimits::default(), 1_000, |_| {});
        front.runtime.block_on(async {
            let client = front.try_client("user=old dbname=postgres").await.unwrap();
            assert_eq!(value(&client, "select session_user").await, "old");
            // Without its password nobody else gets in.
            let error = front.try_client("user=postgres").await.err().unwrap();
            assert_eq!(error.code().unwrap().code(), "28P01");
        });
    }
}

/// The connection to the server is encrypted, and the proof bound to its certificate. Where verification is demanded, a
/// server without a trusted certificate gets no message.
pub fn servers_are_encrypted() {
    let hba = "local all postgres trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
    let Some(cluster) = Cluster::start(hba) else { return };
    cluster.ask("alter role postgres password 'iron'");
    cluster.encrypt();
    let url = format!("postgres://postgres:iron@127.0.0.1:{}/postgres", cluster.port);
    let front = Front::over(cluster, &format!("{url}?sslmode=require"), PoolLimits::default(), 1_000, |_| {});
    front.runtime.block_on(async {
        let encrypted = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
        // Connections move from thread to thread.
        for _ in 0..8 {
            let client = front.try_client("").await.unwrap();
            assert_eq!(value(&client, encrypted).await, "t");
            assert_eq!(value(&client, "select length(repeat('x', 3000000))").await, "3000000");
        }
    });
    let root = "../wire/tests/tls/cert.pem";
    let verified = format!("{url}?sslmode=verify-full&sslrootcert={root}");
    let front = Front::over(front.cluster, &verified, PoolLimits::default(), 1_000, |_| {});
    front.runtime.block_on(async {
        // The certificate belongs to another host.
        let error = front.try_client("").await.err().unwrap();
        assert_eq!(error.code().unwrap().code(), "08006", "{error:?}");
    });
}

/// Settings of a client on a connection do not apply to the proxy's questions there.
pub fn questions_of_the_front_are_asked_as_itself() {
    let Some(front) = front("scram-sha-256", |port| format!("postgres://postgres:iron@127.0.0.1:{port}/postgres"))
    else {
        return;
    };
    front.cluster.ask("create role powerless; create table pg_authid (a int); create schema evil");
    front.runtime.block_on(async {
        let client = front.try_client("user=postgres password=iron dbname=postgres").await.unwrap();
        for set in ["set role powerless", "set search_path = public, pg_catalog"] {
            client.batch_execute(set).await.unwrap();
            let name = format!("late{}", set.len());
            front.cluster.ask(&format!("create role {name} login password 'pencil'"));
            let login = front.try_client(&format!("user={name} password=pencil dbname=postgres")).await;
            assert!(login.is_ok(), "{set}: {:?}", login.err());
            // The client still has the setting.
            client.batch_execute("reset search_path; reset role").await.unwrap();
        }
        client.batch_execute("set role powerless").await.unwrap();
        drop(front.try_client("user=ann password=pencil dbname=postgres").await.unwrap());
        assert_eq!(value(&client, "select current_user").await, "powerless");
    });
}

/// A failed login does not remove the pool of those that are connected.
pub fn a_failed_login_leaves_pools_alone() {
    let Some(cluster) = Cluster::start("") else { return };
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let idle = std::time::Duration::from_millis(1);
    let front = Front::over(cluster, &url, PoolLimits { idle, ..PoolLimits::default() }, 1_000, |_| {});
    front.runtime.block_on(async {
        let client = front.client().await;
        assert_eq!(value(&client, "select 1").await, "1");
        let begun = Instant::now();
        let is_empty = || front.upstream.connections() == (0, 0);
        while !is_empty() {
            assert!(begun.elapsed() < PATIENCE);
            tokio::task::yield_now().await;
        }
        let refused = front.try_client("options='-c no_such_setting=1'").await.err().unwrap();
        assert_eq!(refused.code().unwrap().code(), "42704");
        // A connection of its pool is still counted.
        client.batch_execute("begin; select 1").await.unwrap();
        assert_eq!(front.upstream.connections().0, 1);
    });
}
