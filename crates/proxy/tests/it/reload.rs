//! Settings that are reloaded while clients are served.

use crate::fake::{Fake, PRIMARY, STANDBY};
use crate::support::{Front, Gate, try_value, value};
use proxy::UpstreamOptions;
use server::AdmissionOptions;
use settings::Defaults;
use settings::sources;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::signal::unix::{SignalKind, signal};
use tokio_postgres::{Client, SimpleQueryMessage};
use wirekit::cluster::Cluster;
use wirekit::raw::PATIENCE;
use wirekit::waits::{state, until};

/// By RELOAD and by SIGHUP: the gate, rules and pools apply them, an error leaves all as it was, and existing sessions
/// stay.
pub fn settings_are_read_again() {
    let Some(cluster) = Cluster::start("") else { return };
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let folder = testkit::folder("reload");
    let file = folder.path().join("overtake.conf");
    let write = |text: &str| fs::write(&file, text).unwrap();
    write("overtake.mpl = 3\novertake.upstream_pool = 4\n");
    let path = file.clone();
    let again = move || {
        let mut settings = Defaults::default();
        sources::read_file(&path, &mut settings)?;
        Ok(settings)
    };
    let settings = again().unwrap();
    let admission = AdmissionOptions::from_settings(&settings, "auto", false).unwrap();
    let options =
        UpstreamOptions { again: Some(Arc::new(again)), ..UpstreamOptions::from_settings(&settings).unwrap() };
    let front = Front::behind(cluster, &url, options, &admission, |_| {});
    let mpl = || front.admission.view().unwrap().gate.mpl;
    front.runtime.block_on(async {
        let admin = front.try_client("dbname=overtake").await.unwrap();
        let client = front.try_client("application_name=till").await.unwrap();
        let prepared = client.prepare("select 'pay'").await.unwrap();
        client.query(&prepared, &[]).await.unwrap();
        // A transaction under way stays so.
        let open = front.client().await;
        open.batch_execute("begin; select 1").await.unwrap();
        assert_eq!(mpl(), 3);
        write(
            "overtake.mpl = 7\novertake.upstream_pool = 2\nport = 7777\n\
             overtake.priority_rules = 'high application=till; low fingerprint=\"select 1\"'\n\
             overtake.gate_classes = 'low queue_max=0 slots_max=1'\n",
        );
        admin.batch_execute("reload").await.unwrap();
        assert_eq!(mpl(), 7);
        assert_eq!(value(&open, "show overtake.priority_rules").await.split(' ').next(), Some("high"));
        // Ports do not change by a reload.
        let config = admin.simple_query("show config").await.unwrap();
        let value_of = |name: &str| {
            config.iter().find_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) if row.get(0) == Some(name) => {
                    Some((row.get(1).unwrap().to_owned(), row.get(3).unwrap().to_owned()))
                }
                _ => None,
            })
        };
        let pair = |value: &str, changeable: &str| Some((value.to_owned(), changeable.to_owned()));
        assert_eq!((value_of("port"), value_of("overtake.mpl")), (pair("5432", "no"), pair("7", "yes")));
        // For existing sessions, rules apply to statements, and for new ones also to the session.
        assert_eq!(value(&client, "show overtake.priority").await, "normal");
        let late = front.try_client("application_name=till").await.unwrap();
        assert_eq!(value(&late, "show overtake.priority").await, "high");
        // Statements that were prepared before are judged anew: there is room for one low one.
        let class = |at: usize| front.admission.view().unwrap().gate.classes[at].done;
        open.batch_execute("commit").await.unwrap();
        until("it has left", || front.admission.view().unwrap().gate.transactions == 0).await;
        let before = class(2);
        client.query(&prepared, &[]).await.unwrap();
        until("a low one is done", || class(2) == before + 1).await;
        // Errors are refused, and all stays as it was.
        for wrong in
            ["overtake.mpl = 0\n", "overtake.gate_classes = 'lwo weight=1'\n", "overtake.mpl = off\n", "prot = 1\n"]
        {
            write(wrong);
            let error = admin.batch_execute("reload").await.unwrap_err();
            assert_eq!(state(&error), "F0000", "{wrong}");
            assert_eq!(mpl(), 7);
        }
        assert_eq!(value(&late, "show overtake.mpl").await, "7");
        // By a signal, as for PostgreSQL.
        let upstream = front.upstream.clone();
        let hangups = signal(SignalKind::hangup()).unwrap();
        let listens = tokio::spawn(async move { upstream.reload_on_hangup(hangups, || {}, || {}).await });
        write("overtake.mpl = auto\novertake.mpl_min = 5\n");
        let pid = std::process::id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
        until("it is read", || front.admission.mode() == server::Mode::Auto).await;
        assert!(5 <= mpl());
        // The gate applies it before all of it is shown.
        let begun = Instant::now();
        while try_value(&late, "show overtake.mpl").await.unwrap() != "auto" {
            assert!(begun.elapsed() < PATIENCE);
        }
        listens.abort();
    });
    front.all_idle();
}

/// Options of which this setting is reloaded with each RELOAD.
fn read_again(name: &'static str, value: &Arc<AtomicU32>) -> (UpstreamOptions, AdmissionOptions) {
    let value = Arc::clone(value);
    let again = move || {
        let mut settings = Defaults::default();
        sources::read_flag(&format!("{name}={}", value.load(SeqCst)), &mut settings)?;
        Ok(settings)
    };
    let settings = again().unwrap();
    let admission = AdmissionOptions::from_settings(&settings, "auto", false).unwrap();
    (UpstreamOptions { again: Some(Arc::new(again)), ..UpstreamOptions::from_settings(&settings).unwrap() }, admission)
}

/// Each of several servers has a gate, and all of them apply the settings.
pub fn settings_reach_each_gate() {
    let (one, two) = (Fake::new(PRIMARY), Fake::new(STANDBY));
    let url = format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres?sslmode=disable", one.port, two.port);
    let mpl = Arc::new(AtomicU32::new(3));
    let (options, admission) = read_again("overtake.mpl", &mpl);
    let gate = Gate::behind(&url, options, &admission, |_| {});
    gate.runtime.block_on(async {
        let admin = gate.try_client("dbname=overtake").await.unwrap();
        let limits = async || {
            let rows = admin.simple_query("show mpl").await.unwrap();
            let limit = |message: &SimpleQueryMessage| match message {
                SimpleQueryMessage::Row(row) => Some(row.get("mpl").unwrap().to_owned()),
                _ => None,
            };
            rows.iter().filter_map(limit).collect::<Vec<_>>()
        };
        assert_eq!(limits().await, ["3", "3"]);
        mpl.store(5, SeqCst);
        admin.batch_execute("reload").await.unwrap();
        assert_eq!(limits().await, ["5", "5"]);
    });
}

/// Rules by user and database apply to existing sessions as well; state that was left under the old rule reaches
/// nobody.
pub fn resets_count_at_once() {
    let Some(cluster) = Cluster::start("") else { return };
    cluster.ask(
        "create role ann login; create function f(v text) returns text language plpgsql as
         $$ begin perform set_config('search_path', v, false); return v; end $$",
    );
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let reset = Arc::new(Mutex::new("never"));
    let own = Arc::clone(&reset);
    let again = move || {
        let mut settings = Defaults::default();
        for flag in ["overtake.upstream_pool=1".to_owned(), format!("overtake.upstream_reset={}", own.lock().unwrap())]
        {
            sources::read_flag(&flag, &mut settings)?;
        }
        Ok(settings)
    };
    let settings = again().unwrap();
    let admission = AdmissionOptions::from_settings(&settings, "auto", false).unwrap();
    let options =
        UpstreamOptions { again: Some(Arc::new(again)), ..UpstreamOptions::from_settings(&settings).unwrap() };
    let front = Front::behind(cluster, &url, options, &admission, |_| {});
    front.runtime.block_on(async {
        let admin = front.try_client("dbname=overtake").await.unwrap();
        let login = async |user: &str| front.try_client(&format!("user={user} dbname=postgres")).await.unwrap();
        let path = "select current_setting('search_path')";
        let leave = async |client: &Client, value: &str| {
            client.simple_query(&format!("select public.f('{value}')")).await.unwrap();
        };
        let mut before = [true, true];
        for (rules, now) in [
            ("never", [true, true]),
            ("always user=ann database=postgres; never", [false, true]),
            ("never user=ann; always", [true, false]),
        ] {
            admin.batch_execute("reconnect").await.unwrap();
            let mut clients = Vec::new();
            for user in ["ann", "postgres"] {
                clients.push([login(user).await, login(user).await, login(user).await]);
            }
            for ([one, ..], leaks) in clients.iter().zip(before) {
                leave(one, if leaks { "before" } else { "stays" }).await;
            }
            *reset.lock().unwrap() = rules;
            admin.batch_execute("reload").await.unwrap();
            assert_eq!(value(&clients[0][1], "show overtake.upstream_reset").await, rules);
            for (at, [_, other, late]) in clients.iter().enumerate() {
                let found = value(other, path).await;
                assert_eq!(found == "before", before[at] && now[at], "{rules}: {found}");
                leave(late, "now").await;
                let found = value(other, path).await;
                assert_eq!(found == "now", now[at], "{rules}: {found}");
            }
            before = now;
        }
    });
}

/// A connection that is put back is closed if there are too many by then.
pub fn pools_become_smaller() {
    let Some(cluster) = Cluster::start("") else { return };
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let size = Arc::new(AtomicU32::new(4));
    let (options, admission) = read_again("overtake.upstream_pool", &size);
    let front = Front::behind(cluster, &url, options, &admission, |_| {});
    front.runtime.block_on(async {
        let clients = [front.client().await, front.client().await, front.client().await, front.client().await];
        let all = async |text: &str| {
            for client in &clients {
                client.batch_execute(text).await.unwrap();
            }
        };
        for (now, then) in [(1, 1), (3, 3), (2, 2)] {
            // As many as fit are busy, and one of them no longer.
            let before = size.load(SeqCst) as usize;
            for client in &clients[..before] {
                client.batch_execute("begin; select 1").await.unwrap();
            }
            clients[0].batch_execute("commit").await.unwrap();
            size.store(now, SeqCst);
            front.upstream.reload().unwrap();
            for client in &clients[1..before] {
                client.batch_execute("commit").await.unwrap();
            }
            until("as many are left as may be", || {
                let (count, idle) = front.upstream.connections();
                count == idle && count == then.min(before)
            })
            .await;
            all("select 1").await;
            assert!(front.upstream.connections().0 <= then);
        }
    });
}
