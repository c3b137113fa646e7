//! Values that clients get from the proxy's configuration: settings of their sessions, and the highest class of their
//! roles.

use crate::support::{Front, Gate, try_value, value};
use proxy::UpstreamOptions;
use server::{AdmissionOptions, Mode};
use settings::sources;
use settings::{Defaults, SettingSource};
use tokio_postgres::Client;
use wirekit::cluster::Cluster;
use wirekit::raw::{bind, execute, parse, query, sync};
use wirekit::waits::state;

fn settings(flags: &[&str]) -> Defaults {
    let mut settings = Defaults::default();
    for flag in flags {
        sources::read_flag(flag, &mut settings).unwrap();
    }
    settings
}

fn front(flags: &[&str], roles: &str) -> Option<Front> {
    let cluster = Cluster::start("")?;
    cluster.ask(roles);
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let options = UpstreamOptions::from_settings(&settings(flags)).unwrap();
    Some(Front::over(cluster, &url, options, 1_000, |_| {}))
}

async fn client_of(gate: &Gate, user: &str, more: &str) -> Result<Client, tokio_postgres::Error> {
    gate.try_client(&format!("dbname=postgres user={user} {more}")).await
}

/// Settings of the proxy's file reach sessions at the server; those of the server's roles and databases and of the
/// login precede them.
pub fn sessions_begin_with_the_fronts_settings() {
    let flags =
        ["statement_timeout=1500ms", "idle_in_transaction_session_timeout=7s", "work_mem=9MB", "TimeZone=Asia/Tokyo"];
    let roles = "create role ann login; create role bob login; alter role bob set work_mem = '11MB'; \
                 alter database postgres set lock_timeout = '3s'";
    let Some(front) = front(&[&flags[..], &["lock_timeout=4s"]].concat(), roles) else { return };
    front.runtime.block_on(async {
        let shows = async |client: &Client| {
            let mut all = Vec::new();
            for name in
                ["statement_timeout", "idle_in_transaction_session_timeout", "work_mem", "timezone", "lock_timeout"]
            {
                all.push(value(client, &format!("show {name}")).await);
            }
            all
        };
        let ann = client_of(&front, "ann", "").await.unwrap();
        assert_eq!(shows(&ann).await, ["1500ms", "7s", "9MB", "Asia/Tokyo", "3s"]);
        assert_eq!(state(&try_value(&ann, "select pg_sleep(60)").await.unwrap_err()), "57014");
        let bob = client_of(&front, "bob", "options='-c timezone=UTC'").await.unwrap();
        assert_eq!(shows(&bob).await, ["1500ms", "7s", "11MB", "UTC", "3s"]);
        // RESET and DISCARD go back to them.
        for reset in ["reset statement_timeout", "reset all", "discard all", "set statement_timeout to default"] {
            ann.batch_execute("set statement_timeout = '5s'").await.unwrap();
            assert_eq!(value(&ann, "show statement_timeout").await, "5s");
            ann.batch_execute(reset).await.unwrap();
            assert_eq!(value(&ann, "show statement_timeout").await, "1500ms", "{reset}");
        }
        // Settings of one client stay its own.
        ann.batch_execute("set statement_timeout = 0").await.unwrap();
        let late = client_of(&front, "ann", "").await.unwrap();
        assert_eq!(shows(&late).await, ["1500ms", "7s", "9MB", "Asia/Tokyo", "3s"]);
        assert_eq!(value(&ann, "show statement_timeout").await, "0");
    });
}

/// The server accepts each setting that the start accepts, even from an ordinary role; one that it would refuse is
/// refused by name.
pub fn all_settings_of_sessions_reach_the_server() {
    let all = Defaults::default();
    let mut given = Vec::new();
    for setting in all.all().filter(|setting| !setting.is_of_server && !setting.name.starts_with("overtake.")) {
        let mut one = Defaults::default();
        one.set(setting.name, setting.default, SettingSource::CommandLine).unwrap();
        match UpstreamOptions::from_settings(&one) {
            Ok(_) => given.push((setting.name, setting.default)),
            Err(error) => assert!(error.to_string().starts_with(setting.name), "{error}"),
        }
    }
    assert!(60 < given.len(), "{given:?}");
    let flags: Vec<String> = given.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let Some(front) = front(&flags, "create role ann login") else { return };
    front.runtime.block_on(async {
        let ann = client_of(&front, "ann", "").await.unwrap();
        let rows = ann.query("select lower(name) from pg_settings where source = 'session'", &[]).await.unwrap();
        let there: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        // pg_settings does not list these.
        let missing: Vec<_> = given.iter().filter(|(name, _)| !there.iter().any(|own| own == name)).collect();
        assert!(missing.iter().all(|(name, _)| matches!(*name, "default_with_oids" | "role")), "{missing:?}");
    });
}

/// An ordinary role has no class above `normal`, unless a superuser of the server, the proxy's configuration, or a rule
/// allows it.
pub fn ordinary_roles_are_normal_at_most() {
    let roles = "create role ann login; create role boss login superuser; create role till login; \
                 alter role till set overtake.priority_max = 'high'; create role report login; \
                 alter role report set overtake.priority_max = 'low'; create role eager login; \
                 alter role eager set overtake.priority = 'high'; create role ruled login; \
                 alter role ruled in database postgres set overtake.priority_max = 'low'; \
                 alter database template1 set overtake.priority_max = 'high'";
    let Some(front) = front(&["overtake.priority_rules=high user=ruled"], roles) else { return };
    front.runtime.block_on(async {
        for (user, class, max) in [
            ("ann", "normal", "normal"),
            ("boss", "normal", "high"),
            ("till", "normal", "high"),
            ("report", "low", "low"),
            ("eager", "normal", "normal"),
            ("ruled", "high", "high"),
        ] {
            let client = client_of(&front, user, "").await.unwrap();
            assert_eq!(value(&client, "show overtake.priority").await, class, "{user}");
            assert_eq!(value(&client, "show overtake.priority_max").await, max, "{user}");
            let set = client.batch_execute("set overtake.priority = high").await;
            assert_eq!(set.as_ref().err().map(state), (max != "high").then(|| "42501".to_owned()), "{user}");
            let hinted = client.batch_execute("/*+ priority=high */ select 1").await;
            assert_eq!(hinted.as_ref().err().map(state), (max != "high").then(|| "42501".to_owned()), "{user}");
            // A rule counts for a client that has not asked for a class.
            let may_ask = max == "high" && user != "ruled";
            let login = client_of(&front, user, "options='-c overtake.priority=high'").await;
            assert_eq!(login.err().map(|error| state(&error)), (!may_ask).then(|| "42501".to_owned()), "{user}");
            client.batch_execute("set overtake.priority = low").await.unwrap();
            assert_eq!(value(&client, "show overtake.priority").await, "low", "{user}");
            // No client can raise its class by the setting, not even at the server.
            let set = client.batch_execute("set overtake.priority_max = high").await;
            assert_eq!(state(&set.unwrap_err()), "42501", "{user}");
            let login = client_of(&front, user, "options='-c overtake.priority_max=high'").await;
            assert_eq!(login.err().map(|error| state(&error)).as_deref(), Some("42501"), "{user}");
        }
        let ann = client_of(&front, "ann", "").await.unwrap();
        let own = ann.batch_execute("alter role ann set overtake.priority_max = 'high'").await;
        assert_eq!(state(&own.unwrap_err()), "42501");
        // Values that the server accepts silently count for no more than the highest class.
        for text in [
            "select set_config('overtake.priority', 'high', false)",
            "set overtake.priority_max = high; set overtake.priority = high",
        ] {
            ann.batch_execute(text).await.unwrap();
            assert_eq!(value(&ann, "show overtake.priority").await, "normal", "{text}");
        }
        let late = client_of(&front, "ann", "").await.unwrap();
        assert_eq!(value(&late, "show overtake.priority_max").await, "normal");
        let late = front.try_client("user=ann dbname=template1").await.unwrap();
        assert_eq!(value(&late, "show overtake.priority_max").await, "high");
    });
    // In blocks, and by the extended protocol.
    let mut raw = wirekit::raw::Raw { stream: std::net::TcpStream::connect(front.address).unwrap(), pid: 0, secret: 0 };
    raw.start(&[("user", "ann"), ("database", "postgres")]);
    let set = "set overtake.priority = high";
    for begin in ["begin", "begin; select 1"] {
        raw.ask(&query(begin));
        let said = raw.ask(&query(set));
        assert!(
            said.contains("42501|permission denied to set parameter \"overtake.priority\"") && said.ends_with("Z(E)"),
            "{said}"
        );
        raw.ask(&query("rollback"));
    }
    for text in [set, "/*+ priority=high */ select 1"] {
        let said = raw.ask(&[parse("", text, &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat());
        assert!(said.contains("E(ERROR|42501|") && said.ends_with("Z(I)"), "{text}: {said}");
    }
    assert_eq!(raw.ask(&query("begin /*+ priority=high */")), "C(BEGIN) Z(T)");
    raw.ask(&query("rollback"));
    raw.ask(&query("/*+ priority=high */ begin"));
    let said = raw.ask(&query("select 1"));
    assert!(said.contains("E(ERROR|42501|") && said.ends_with("Z(E)"), "{said}");
    raw.ask(&query("rollback"));
    assert_eq!(raw.ask(&query("/*+ priority=low */ select 7 as a")), "T(a:23:0) D(7) C(SELECT 1) Z(I)");
}

/// The value of the configuration is for all roles for which the server reports nothing.
pub fn the_configuration_has_a_highest_class() {
    let Some(cluster) = Cluster::start("") else { return };
    cluster.ask("create role ann login; create role till login; alter role till set overtake.priority_max = 'normal'");
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let admission = AdmissionOptions { mode: Mode::Fixed, ..AdmissionOptions::default() };
    for (flag, ann, postgres) in
        [("overtake.priority_max=high", "high", "high"), ("overtake.priority_max=low", "low", "low")]
    {
        let options = UpstreamOptions::from_settings(&settings(&[flag])).unwrap();
        let gate = Gate::behind(&url, options, &admission, |_| {});
        gate.runtime.block_on(async {
            for (user, max) in [("ann", ann), ("till", "normal"), ("postgres", postgres)] {
                let client = client_of(&gate, user, "").await.unwrap();
                assert_eq!(value(&client, "show overtake.priority_max").await, max, "{flag} {user}");
            }
        });
    }
}
