//! Contents of the views of our own engine's gate, and of an upstream's by the administration database.

use engine::{Engine, EngineConfig};
use proxy::{Upstream, UpstreamOptions};
use server::{Admission, AdmissionOptions, Config, HbaRule, Mode, Server};
use sessions::Views;
use settings::Defaults;
use sql::session::Database;
use std::cell::RefCell;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;
use top::{Client, Error, Look, Target, TopOptions, plain};

/// A server; it ends when the value is dropped.
struct Served {
    runtime: Runtime,
    address: SocketAddr,
}

fn admission(mode: Mode) -> Admission {
    Admission::new(&AdmissionOptions {
        mode,
        gate: gate::GateSettings::of_priorities(4),
        ..AdmissionOptions::default()
    })
    .unwrap()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn config(listen: &str, admission: Admission) -> Config {
    Config { listen: vec![listen.parse().unwrap()], admission, ..Config::default() }
}

/// Starts our own engine.
fn engine(listen: &str, mode: Mode) -> Served {
    engine_with(listen, mode, |_| {})
}

fn engine_with(listen: &str, mode: Mode, change: impl FnOnce(&mut Config)) -> Served {
    let (runtime, engine) = (runtime(), Engine::new(EngineConfig::in_memory()));
    let mut config = config(listen, admission(mode));
    change(&mut config);
    let views = Views::new(config.stats.clone(), engine.clone());
    views.let_in_by(config.admission.clone());
    let database = Database::new(engine).with_defaults(Defaults::default()).unwrap().with_provider(views);
    config.roles = database.roles().clone();
    let server = Server::bind(config, sessions::Sessions(database)).unwrap();
    let address = server.addresses().unwrap()[0];
    runtime.spawn(server.run(std::future::pending()));
    Served { runtime, address }
}

/// Starts a proxy whose upstream does not exist.
fn front() -> Served {
    let runtime = runtime();
    let admission = admission(Mode::Fixed);
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("postgres://postgres@{nowhere}/postgres").parse().unwrap();
    let upstream = Upstream::new(url, UpstreamOptions::default(), admission.clone()).unwrap();
    let server = Server::bind(config("127.0.0.1:0", admission), upstream).unwrap();
    let address = server.addresses().unwrap()[0];
    runtime.spawn(server.run(std::future::pending()));
    Served { runtime, address }
}

impl Served {
    fn target(&self) -> Target {
        Target::new(Some(&format!("postgresql://postgres@{}/postgres", self.address)), |_| None).unwrap()
    }

    fn options(&self, count: Option<u64>, json: bool) -> TopOptions {
        TopOptions { target: self.target(), interval: Duration::from_millis(20), count, json }
    }

    /// Looks until the condition holds.
    fn look_until(&self, client: &mut Client, what: &str, is_so: impl Fn(&Look) -> bool) -> Look {
        let begun = Instant::now();
        loop {
            let look = self.runtime.block_on(client.look()).unwrap();
            if is_so(&look) {
                return look;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}: {look:?}");
        }
    }
}

/// Goal: limit, classes, rates, the past and the forecast arrive. Method: transactions, then looks.
pub fn the_gate_is_seen() {
    let served = engine("127.0.0.1:0", Mode::Fixed);
    let mut client = served.runtime.block_on(async {
        let (worker, connection) =
            tokio_postgres::connect(&format!("postgresql://postgres@{}/postgres", served.address), NoTls)
                .await
                .unwrap();
        tokio::spawn(async { drop(connection.await) });
        for _ in 0..1_100 {
            worker.batch_execute("/*+ priority=low */ select 1").await.unwrap();
        }
        Client::connect(&served.target()).await.unwrap()
    });
    let first = served.look_until(&mut client, "it is seen", |_| true);
    let mpl = first.mpl.unwrap();
    // The querying transaction itself is inside.
    assert_eq!((&*mpl.mode, mpl.mpl, mpl.phase, mpl.slots), ("fixed", Some(4), None, 1));
    let names: Vec<&str> = first.classes.iter().map(|class| &*class.class).collect();
    assert_eq!(names, ["high", "normal", "low"]);
    let low = &first.classes[2];
    assert!(1_100 <= low.arrived && 1_100 <= low.done && low.arrivals_per_second.is_none(), "{low:?}");
    assert!(0.0 < low.inside_p50_ms && low.inside_p50_ms <= low.inside_p99_ms, "{low:?}");
    let run = first.stages.iter().find(|row| (&*row.class, &*row.stage) == ("low", "run")).unwrap();
    assert!(0.0 < run.total_ms && !run.is_waiting, "{:?}", first.stages);
    assert!(!first.forecast.unwrap().is_empty());
    assert!(first.verdict.unwrap().starts_with("MPL 4 is in force; "));
    let second = served.look_until(&mut client, "it is seen again", |_| true);
    assert!(second.classes[0].arrivals_per_second.unwrap() > 0.0, "looks are important transactions themselves");
    assert!(second.forecast.is_none(), "it was asked for a moment ago");
    let past = served.look_until(&mut client, "there is a past", |look| !look.history.is_empty()).history;
    assert!(past.iter().all(|moment| moment.mpl == Some(4) && 0.0 < moment.seconds), "{past:?}");
}

/// Goal: output for scripts. Method: our own engine as text and JSON, an upstream's gate by the administration
/// database.
pub fn text_and_json_are_written() {
    for (served, is_ours) in [(engine("127.0.0.1:0", Mode::Fixed), true), (front(), false)] {
        let mut out = Vec::new();
        plain::run(&served.options(Some(2), false), &mut out, &|_| false).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("MPL 4 (fixed)  active ").count(), 2, "{text}");
        assert!(text.lines().any(|line| line.starts_with("normal ")), "{text}");
        assert_eq!(text.contains("\nstages of high: "), is_ours, "{text}");
        let mut out = Vec::new();
        plain::run(&served.options(Some(2), true), &mut out, &|_| false).unwrap();
        let text = String::from_utf8(out).unwrap();
        let looks: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [first, second] = &looks[..] else { panic!("{text}") };
        assert_eq!((&first["mpl"]["mpl"], &first["classes"][0]["class"]), (&4.into(), &"high".into()));
        assert!(
            first["classes"][0]["arrivals_per_second"].is_null()
                && second["classes"][0]["arrivals_per_second"].is_f64()
        );
    }
    let mut stats = None;
    let served = engine_with("127.0.0.1:0", Mode::Off, |config| stats = Some(config.stats.clone()));
    let mut out = Vec::new();
    plain::run(&served.options(Some(2), false), &mut out, &|_| false).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("There is no gate: overtake.mpl is off."), "{text}");
    // The display's own statements have passed stages.
    assert!(text.contains("\nstages of high: "), "{text}");
    // To ask if there is an administration database is no attempt to log in; to ask for another one is.
    let turned_away = || stats.as_ref().unwrap().turned_away.load(Relaxed);
    assert_eq!(turned_away(), 0);
    let url = format!("postgresql://postgres@{}/nowhere", served.address);
    let refused = served.runtime.block_on(tokio_postgres::connect(&url, NoTls)).err().unwrap();
    assert_eq!((refused.code().unwrap().code(), turned_away()), ("3D000", 1));
}

/// Goal: the program goes on when the server is back. Method: the server ends between two looks, and another one takes
/// its address.
pub fn a_lost_connection_is_found_again() {
    let served = engine("127.0.0.1:0", Mode::Fixed);
    let address = served.address.to_string();
    let options = served.options(Some(3), true);
    let turns = RefCell::new((0, Some(served)));
    let mut out = Vec::new();
    plain::run(&options, &mut out, &|_| {
        let mut turns = turns.borrow_mut();
        turns.0 += 1;
        match turns.0 {
            1 => drop(turns.1.take()),
            3 => turns.1 = Some(engine(&address, Mode::Fixed)),
            _ => {}
        }
        50 < turns.0
    })
    .unwrap();
    assert_eq!(String::from_utf8(out).unwrap().lines().count(), 3, "one before, two after");
    assert!(turns.borrow().0 < 50);
    // A single look is not tried again.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = Target::new(Some(&format!("postgresql://postgres@{nobody}/postgres")), |_| None).unwrap();
    let options = TopOptions { target, ..options };
    let error = plain::run(&options, &mut Vec::new(), &|_| false).unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot connect to postgres@{nobody}: ")), "{error}");
}

/// Goal: a server without our views is told apart. Method: the engine without them, and a role that does not exist.
pub fn who_is_no_gate_is_told() {
    let runtime = runtime();
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let mut config = config("127.0.0.1:0", Admission::default());
    config.roles = database.roles().clone();
    let server = Server::bind(config, sessions::Sessions(database)).unwrap();
    let address = server.addresses().unwrap()[0];
    runtime.spawn(server.run(std::future::pending()));
    let served = Served { runtime, address };
    let error = served.runtime.block_on(Client::connect(&served.target())).unwrap_err();
    assert!(matches!(&error, Error::Foreign { reason, .. } if reason.contains("overtake")), "{error}");
    let target = Target::new(Some(&format!("postgresql://nobody@{}/postgres", served.address)), |_| None).unwrap();
    let error = served.runtime.block_on(Client::connect(&target)).unwrap_err();
    assert!(matches!(&error, Error::Connect { reason, .. } if reason.contains("nobody")), "{error}");
}

/// Goal: encryption is used where it is supported. Method: a server that requires encryption, and one that has none.
pub fn a_connection_is_encrypted_if_it_can_be() {
    let [certificate, key] =
        [&include_bytes!("../../../wire/tests/tls/cert.pem")[..], include_bytes!("../../../wire/tests/tls/key.pem")];
    let served = engine_with("127.0.0.1:0", Mode::Fixed, |config| {
        config.tls = Some(wire::tls::from_pem(certificate, key).unwrap());
        config.rules = HbaRule::parse_all("hostssl all all all trust").unwrap();
    });
    let tls = wire::tls::client::unverified().unwrap();
    let connected = |served: &Served, target: Target| served.runtime.block_on(Client::connect(&target)).map(drop);
    assert!(connected(&served, served.target().encrypted_by(tls.clone())).is_ok());
    assert!(matches!(connected(&served, served.target()), Err(Error::Connect { .. })));
    let url = format!("postgresql://postgres@{}/postgres", served.address);
    let with = |mode: &str, url: &str| {
        let mode = mode.to_owned();
        let variable = move |name: &str| (name == "PGSSLMODE").then(|| mode.clone());
        Target::new(Some(url), variable).map(|target| target.encrypted_by(tls.clone()))
    };
    assert!(connected(&served, with("require", &url).unwrap()).is_ok());
    assert!(connected(&served, with("disable", &url).unwrap()).is_err());
    assert!(with("verify-full", &url).is_err());
    let plain = engine("127.0.0.1:0", Mode::Fixed);
    let url = format!("postgresql://postgres@{}/postgres", plain.address);
    assert!(connected(&plain, with("prefer", &url).unwrap()).is_ok());
    assert!(connected(&plain, with("require", &url).unwrap()).is_err());
}
