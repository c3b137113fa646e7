//! Goal: tenants share no instance of stored code, and roles of one tenant do. Method: a runtime whose instances return
//! their own number, in sessions that change their role.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

#[path = "support/mod.rs"]
mod support;

use engine::{Engine, EngineConfig};
use procs::{
    Artifact, Availability, Channel, CodeTenant, EngineCalls, Instance, InstanceKind, InstanceShare, Invocation, Level,
    Limits, Program, Runtime, Runtimes, ShareLimit, ShareLimits,
};
use sql::session::{Database, Session};
use statement::SqlResult;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use types::Datum;

/// Instances that were opened: the tenant of each.
#[derive(Debug, Default)]
struct Opened {
    count: AtomicI32,
    tenants: Mutex<Vec<u32>>,
}

#[derive(Clone, Debug)]
struct Numbering {
    level: Level,
    opened: Arc<Opened>,
}

struct Numbered {
    number: i32,
    /// Given back when the instance is dropped.
    _share: InstanceShare,
}

impl Runtime for Numbering {
    fn level(&self) -> Level {
        self.level
    }

    fn availability(&self) -> Availability {
        Availability::Ready
    }

    fn load(&self, _artifact: &Artifact, _tenant: &CodeTenant) -> SqlResult<Arc<dyn Program>> {
        Ok(Arc::new(self.clone()))
    }
}

impl Program for Numbering {
    fn open(&self, tenant: &CodeTenant, _channel: Channel, limits: &Limits) -> SqlResult<Box<dyn Instance>> {
        let (kind, bytes) = (InstanceKind::of(self.level.artifact()), limits.memory);
        let share = tenant.take(kind, if kind == InstanceKind::Worker { bytes } else { 0 })?;
        self.opened.tenants.lock().unwrap().push(tenant.tenant.0);
        Ok(Box::new(Numbered { number: self.opened.count.fetch_add(1, Relaxed) + 1, _share: share }))
    }
}

impl Instance for Numbered {
    fn invoke(&mut self, invocation: &Invocation<'_>, _engine: &mut dyn EngineCalls) -> SqlResult<Vec<Vec<Datum>>> {
        Ok(invocation.rows.iter().map(|_| vec![Datum::Int4(self.number)]).collect())
    }

    fn is_reusable(&self) -> bool {
        true
    }
}

/// Server with a function `which()`, the number of the instance that runs it.
fn begin() -> (Arc<Opened>, Session) {
    let (opened, _, admin) = begin_with(ShareLimits::default());
    (opened, admin)
}

/// The same server, whose tenants have these shares.
fn begin_with(limits: ShareLimits) -> (Arc<Opened>, Database, Session) {
    let opened = Arc::new(Opened::default());
    let runtime = |level| Arc::new(Numbering { level, opened: Arc::clone(&opened) }) as Arc<dyn Runtime>;
    let runtimes = [Level::Wasm, Level::Process, Level::Container].map(runtime);
    let runtimes = Runtimes::with_limits(runtimes.into(), limits);
    let database = Database::new(Engine::new(EngineConfig::in_memory())).with_runtimes(Arc::new(runtimes));
    let mut admin = support::connect(&database);
    for statement in [
        "create module m manifest $$overtake 1\nentry which$$ artifact wasm '\\x0061736d'",
        "create function which() returns int language wasm as 'm'",
        "create role acme",
        "create role ann tenant acme",
        "create role bob tenant acme",
        "create role eve",
    ] {
        support::run(&mut admin, statement).unwrap();
    }
    (opened, database, admin)
}

fn which(admin: &mut Session, role: &str) -> i32 {
    support::run(admin, &format!("set role {role}")).unwrap();
    let rows = support::run(admin, "select which()").unwrap();
    support::run(admin, "reset role").unwrap();
    match rows[0][0] {
        Datum::Int4(number) => number,
        ref other => panic!("{other:?}"),
    }
}

/// Goal: the error for a level without an artifact comes before what that level would refuse.
#[test]
fn a_missing_artifact_is_told_first() {
    let (_opened, mut admin) = begin();
    let alter = "alter function which() set (isolation = 'native', memory_limit = '8MB')";
    let error = support::run(&mut admin, alter).unwrap_err();
    assert_eq!(error.message(), "isolation level \"native\" for module \"m\" is not supported");
    let error = support::run(&mut admin, "alter function which() set (isolation = 'vm')").unwrap_err();
    assert_eq!(error.message(), "isolation level \"vm\" for module \"m\" is not supported");
}

/// Goal: whoever installs a module without the artifact of a level to which a routine was moved learns the way out, and
/// it is one.
#[test]
fn a_missing_artifact_has_a_way_out() {
    let (_opened, mut admin) = begin();
    let ran = |admin: &mut Session, statement: &str| support::run(admin, statement).map(drop);
    let module = |name: &str, artifacts: &str| {
        format!("create or replace module {name} manifest $$overtake 1\nentry which$$ {artifacts}")
    };
    let (wasm, exec) = ("artifact wasm '\\x0061736d'", "artifact exec '\\x2321'");
    ran(&mut admin, &module("m", &format!("{wasm} {exec}"))).unwrap();
    ran(&mut admin, "create schema s").unwrap();
    let with_output = "create procedure s.told(a int, inout b text, out c int) language wasm as 'm', 'which'";
    ran(&mut admin, with_output).unwrap();
    let install = module("m", wasm);
    for (moved, back) in [
        ("function which()", "Use ALTER FUNCTION which() RESET (isolation) first."),
        ("procedure s.told", "Use ALTER PROCEDURE s.told(integer,text) RESET (isolation) first."),
    ] {
        ran(&mut admin, &format!("alter {moved} set (isolation = 'container', channel = 'unix_socket')")).unwrap();
        let error = ran(&mut admin, &install).unwrap_err();
        assert_eq!(error.message(), "isolation level \"container\" for module \"m\" is not supported");
        assert_eq!(error.hint_text(), Some(back));
        let way = back.trim_start_matches("Use ").trim_end_matches(" first.");
        ran(&mut admin, way).unwrap();
        ran(&mut admin, &install).unwrap();
        ran(&mut admin, &module("m", &format!("{wasm} {exec}"))).unwrap();
    }
    // A new version of a routine, whose module has no artifact for the level.
    ran(&mut admin, "alter function which() set (isolation = 'process')").unwrap();
    ran(&mut admin, &module("n", wasm)).unwrap();
    let replace = "create or replace function which() returns int language wasm as 'n'";
    let error = ran(&mut admin, replace).unwrap_err();
    assert_eq!(error.hint_text(), Some("Use ALTER FUNCTION which() RESET (isolation) first."));
    ran(&mut admin, "alter function which() reset (isolation)").unwrap();
    ran(&mut admin, replace).unwrap();
    // A level that was just chosen is not one to leave; a module without code for the language's own level has no way.
    let error = ran(&mut admin, "alter function which() set (isolation = 'container')").unwrap_err();
    assert_eq!(error.hint_text(), None);
    ran(&mut admin, "alter procedure s.told set (isolation = 'container')").unwrap();
    let error = ran(&mut admin, &module("m", "artifact guest '\\x7f454c46'")).unwrap_err();
    assert_eq!(error.hint_text(), None);
}

#[test]
fn instances_are_of_one_tenant() {
    let (opened, mut admin) = begin();
    let ann = which(&mut admin, "ann");
    assert_eq!(which(&mut admin, "ann"), ann);
    assert_eq!(which(&mut admin, "bob"), ann, "both belong to acme");
    assert_eq!(which(&mut admin, "acme"), ann, "the role is of its own tenant");
    let eve = which(&mut admin, "eve");
    assert_ne!(eve, ann);
    support::run(&mut admin, "alter role bob notenant").unwrap();
    let bob = which(&mut admin, "bob");
    assert!(bob != ann && bob != eve);
    // A role that is named as its own tenant is one as it was before: others can belong to it.
    support::run(&mut admin, "alter role acme tenant acme").unwrap();
    support::run(&mut admin, "alter role eve tenant acme").unwrap();
    assert_eq!(which(&mut admin, "eve"), ann);
    let tenants = opened.tenants.lock().unwrap();
    assert_eq!(tenants.len(), 3);
    assert!(tenants[0] != tenants[1] && tenants[1] != tenants[2] && tenants[2] != tenants[0]);
}

#[test]
fn only_superusers_change_tenants() {
    let (_, mut admin) = begin();
    let mut refused = |statement: &str, wanted: &str| {
        let error = support::run(&mut admin, statement).unwrap_err();
        assert_eq!(format!("{} {}", error.state(), error.message()), wanted, "{statement}");
        let _ = support::run(&mut admin, "reset role");
    };
    refused("alter role ann tenant nobody", "42704 role \"nobody\" does not exist");
    refused("alter role ann tenant acme notenant", "42601 conflicting or redundant options");
    refused("alter role eve tenant ann", "22023 role \"ann\" belongs to another tenant");
    refused("alter role acme tenant eve", "22023 a role that is the tenant of others cannot belong to one");
    refused("drop role acme", "2BP01 role \"acme\" cannot be dropped because some objects depend on it");
    let mut ran = |statement: &str| support::run(&mut admin, statement).map(drop);
    ran("create role clerk createrole").unwrap();
    ran("set role clerk").unwrap();
    let error = ran("alter role ann tenant eve").unwrap_err();
    assert_eq!(error.state().0, "42501");
    assert_eq!(ran("create role zoe tenant eve").unwrap_err().state().0, "42501");
    ran("reset role").unwrap();
    // Together with those that belong to it, a tenant can go.
    ran("drop role acme, ann, bob").unwrap();
}

/// Goal: sessions that keep idle instances shut no other tenant out. Method: shares of three instances in all, which
/// sessions of two tenants keep.
#[test]
fn idle_instances_of_others_make_room() {
    let wasm = ShareLimit { tenant: 2, server: 3 };
    let (opened, database, mut admin) = begin_with(ShareLimits { wasm, ..ShareLimits::default() });
    let mut sessions: Vec<Session> = (0..6).map(|_| support::connect(&database)).collect();
    for (session, role) in sessions.iter_mut().zip(["ann", "ann", "bob", "eve", "eve", "eve"]) {
        which(session, role);
    }
    assert_eq!(opened.count.load(Relaxed), 6);
    which(&mut admin, "postgres");
    // Whose instance was taken back gets another one.
    for (session, role) in sessions.iter_mut().zip(["ann", "ann", "bob", "eve", "eve", "eve"]) {
        which(session, role);
    }
}
