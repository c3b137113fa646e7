//! Workers that break the protocol.

use crate::{attacks, code, load_in, runtimes, workers};
use procs::{Channel, Level, Limits, Manifest, Runtime};
use procs_conformance::{Subject, engine};
use statement::error::SqlError;
use std::sync::Arc;
use std::time::{Duration, Instant};
use types::Kind;

/// Attack, and the states with which the invocation or the start must end.
const ATTACKS: &[(&str, &[&str])] = &[
    ("dies before ready", &["38000"]),
    ("never ready", &["38000"]),
    ("returns before ready", &["39000"]),
    ("no kind", &["39000"]),
    ("too long", &["39000"]),
    ("dies at invoke", &["38000"]),
    ("never answers", &["57014"]),
    ("garbage call", &["39000"]),
    ("empty call", &["39000"]),
    ("garbage result", &["39000", "42804"]),
    ("endless rows", &["39000"]),
    ("long call", &["39000"]),
    ("ready again", &["39000"]),
    ("answer of the host", &["39000"]),
    ("half a message", &["38000"]),
    ("closes the channel", &["38000", "57014"]),
    ("turns without end", &["39000", "57014"]),
    ("changes the message", &["39000", "38000", "57014", "22021", "42804"]),
    ("truncates", &[]),
    ("dies after a call", &["38000"]),
    ("dies after an answer", &["38000"]),
    ("ignores the abort", &["39000"]),
    ("fills the channel", &["39000", "57014"]),
    ("calls after the abort", &["39000"]),
    ("nothing", &[]),
];

fn attack(
    runtimes: &[Arc<dyn Runtime>],
    level: Level,
    channel: Channel,
    name: &str,
    states: &[&str],
) -> Result<String, String> {
    let Some(program) = load_in(runtimes, level, &code().attacker(name)) else { return Ok("missing".to_owned()) };
    let manifest = Arc::new(Manifest::parse("overtake 1\nentry any\n").map_err(|error| error.message().to_owned())?);
    let subject = Subject::new(level, channel, &program, &manifest);
    let limits = Limits { time: Some(Duration::from_millis(500)), ..Limits::default() };
    let begin = Instant::now();
    let types = (Kind::Int8.into(), Kind::Int8.into());
    let mut engine = engine(Kind::Int8.into());
    let arguments = [types::datum::Datum::Int8(1)];
    let ran = subject
        .open(&limits)
        .and_then(|mut instance| subject.invoke(&mut *instance, "any", &arguments, types, limits, &mut engine));
    let told = |error: &SqlError| format!("{} {}", error.state().0, error.message());
    // A start may take 10 s on a busy machine.
    if Duration::from_secs(12) < begin.elapsed() {
        return Err(format!("it took {:?}", begin.elapsed()));
    }
    match ran {
        Ok(rows) if states.is_empty() => Ok(format!("{} rows", rows.len())),
        Err(error) if states.contains(&error.state().0) => Ok(told(&error)),
        other => Err(format!("expected {states:?}: {other:?}")),
    }
}

#[test]
fn a_broken_protocol_is_an_error() {
    let mut all = Vec::new();
    // Code that is never ready is waited for as long as a start may take.
    let impatient = workers(Duration::from_secs(2));
    for level in [Level::Process, Level::Container, Level::Gvisor, Level::Vm] {
        for channel in level.channels() {
            for (name, states) in ATTACKS {
                let runtimes = if *name == "never ready" { &impatient } else { runtimes() };
                let told = attack(runtimes, level, *channel, name, states);
                all.push((*name, format!("{level} over {channel}"), told));
            }
        }
    }
    let failures = attacks::table(&all);
    assert!(failures.is_empty(), "{failures:#?}");
}
