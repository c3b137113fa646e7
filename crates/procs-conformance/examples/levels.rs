//! Times of all levels on this machine: loading, an instance, and an invocation with one call of the engine.
//!
//! ```text
//! cargo run --release -p procs-conformance --example levels
//! ```

use procs::native::NativeRuntime;
use procs::{
    Artifact, ArtifactKind, Availability, CodeTenant, EngineCalls, Invocation, Limits, Manifest, NativeCall,
    NativeModule, Runtime, TableHandle, Tenant, wire,
};
use procs_conformance::{ModelEngine, built, engine};
use procs_wasm::{WasmConfig, WasmRuntime};
use procs_worker::WorkerConfig;
use statement::error::SqlResult;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use types::Kind;
use types::datum::Datum;

/// Module without a library that does the same.
const BY_HAND: &str = r#"(module
    (import "overtake" "call" (func $call (param i32) (result i32)))
    (memory (export "memory") 17)
    (func (export "overtake_area") (result i32) (i32.const 0))
    (func (export "overtake_invoke") (param i32 i32) (result i32)
        (local $id i64) (local $found i64)
        (local.set $id (i64.load (i32.const 7)))
        (i32.store (i32.const 0) (i32.const 1))
        (i32.store8 (i32.const 4) (i32.const 3))
        (i64.store (i32.const 5) (local.get $id))
        (drop (call $call (i32.const 13)))
        (local.set $found (i64.load8_u (i32.const 0)))
        (i32.store (i32.const 0) (i32.const 1))
        (i32.store (i32.const 4) (i32.const 0x30001))
        (i64.store (i32.const 7) (local.get $found))
        (i32.const 15)))"#;

/// Module of the level `native` that does the same as the entry `one_call`.
struct OneCall;

impl NativeModule for OneCall {
    fn name(&self) -> &'static str {
        "one_call"
    }

    fn manifest(&self) -> &'static str {
        "overtake 1\nentry one_call\n"
    }

    fn call(&self, call: NativeCall<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Datum>> {
        let found = engine.get(TableHandle(0), call.arguments, false, &mut |_| Ok(ControlFlow::Break(())))?;
        Ok(vec![Datum::Int8(i64::from(found))])
    }
}

/// Returns the median and the 99th percentile of the times of `f`.
fn timed(rounds: usize, mut f: impl FnMut()) -> (Duration, Duration) {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let begin = Instant::now();
            f();
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    (times[rounds / 2], times[rounds * 99 / 100])
}

fn measure(name: &str, runtime: &dyn Runtime, artifact: &Artifact, entry: u16, engine: &mut ModelEngine) {
    if let Availability::Missing(reason) = runtime.availability() {
        println!("{name:<12} missing: {reason}");
        return;
    }
    let tenant = CodeTenant::alone(Tenant(1));
    let load = timed(5, || drop(runtime.load(artifact, &tenant).expect("it loads"))).0;
    let program = runtime.load(artifact, &tenant).expect("it loads");
    for channel in runtime.level().channels() {
        let open = || program.open(&tenant, *channel, &Limits::default()).expect("an instance");
        let opened = timed(100, || drop(open()));
        let mut instance = open();
        let argument = [Datum::Int8(7)];
        let rows: [&[Datum]; 1] = [&argument];
        let types = [Kind::Int8.into()];
        let invocation =
            Invocation { entry, rows: &rows, arguments: &types, result: &types, limits: Limits::default() };
        let mut invoke = || {
            // A hundred in a row, because the clock takes as long as one.
            for _ in 0..100 {
                assert_eq!(instance.invoke(&invocation, engine).expect("a result").len(), 1);
            }
        };
        invoke();
        let (median, last) = timed(200, invoke);
        println!(
            "{name:<12} {channel:<14} load {load:>10.1?}  open {:>9.1?} (p99 {:>9.1?})  invocation {:>8} ns (p99 {} ns)",
            opened.0,
            opened.1,
            median.as_nanos() / 100,
            last.as_nanos() / 100,
        );
    }
}

/// Measures the byte format alone: what one invocation with one call costs without any level.
fn measure_format(engine: &mut ModelEngine) {
    let argument = [Datum::Int8(7)];
    let (rows, types): ([&[Datum]; 1], _) = ([&argument], [Kind::Int8.into()]);
    let request = [&[1, 0, 0, 0][..], &[3, 7, 0, 0, 0, 0, 0, 0, 0]].concat();
    let (mut bytes, mut answer) = (Vec::new(), Vec::new());
    let (median, last) = timed(200, || {
        for _ in 0..100 {
            wire::put_arguments(&rows, &types, &mut bytes).expect("it fits");
            wire::serve(engine, &request, &mut answer).expect("an answer");
            assert_eq!(wire::result(&bytes, &types).expect("a result").len(), 1);
        }
    });
    println!("format alone: {} ns (p99 {} ns)", median.as_nanos() / 100, last.as_nanos() / 100);
}

fn main() {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "../../target/tmp".to_owned());
    if std::env::current_dir().is_ok_and(|folder| !folder.join("guest").is_dir()) {
        std::env::set_current_dir("crates/procs-conformance").expect("run it from the root of the workspace");
    }
    let code = built(Path::new(&folder));
    let manifest = Manifest::parse(&code.manifest).expect("a manifest");
    let entry = manifest.entry("one_call").expect("an entry");
    let mut engine = engine(Kind::Int8.into());
    measure_format(&mut engine);
    let native: Arc<dyn Runtime> = Arc::new(NativeRuntime::new(vec![Arc::new(OneCall)]));
    measure("native", &*native, &Artifact::new(ArtifactKind::Native, &b"one_call"[..]), 0, &mut engine);
    let wasm = WasmRuntime::new(WasmConfig::default()).expect("address space");
    let by_hand = wat::parse_str(BY_HAND).expect("a text");
    measure("wasm by hand", &wasm, &Artifact::new(ArtifactKind::Wasm, by_hand), 0, &mut engine);
    measure("wasm", &wasm, &Artifact::new(ArtifactKind::Wasm, code.wasm.as_slice()), entry, &mut engine);
    for runtime in procs_worker::runtimes(WorkerConfig::default()).expect("a thread") {
        let artifact = Artifact::new(runtime.level().artifact(), code.executable.as_slice());
        measure(runtime.level().name(), &*runtime, &artifact, entry, &mut engine);
    }
}
