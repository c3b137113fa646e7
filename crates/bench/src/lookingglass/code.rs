//! Stored code at each level of isolation: artifacts of the benchmark's procedures, and the functions that call them.
//!
//! **Invariant:** at every level but `native` the same source runs, compiled once for WebAssembly and once as an
//! executable.

use super::key_value::{self, Shape};
use crate::wire::client::Control;
use crate::wire::servers::MeasuredServer;

/// WebAssembly module of the procedures; empty if the toolchain could not make it.
const WASM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tpcc.wasm"));
/// Executable of the procedures.
const EXEC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tpcc.exec"));
/// Manifest of the procedures.
const MANIFEST: &str = include_str!(concat!(env!("OUT_DIR"), "/tpcc.manifest"));

/// Procedures in TypeScript.
const TYPESCRIPT_CODE: &str = include_str!("../../guest/key_value.ts");
/// Name of the module in TypeScript.
pub const TYPESCRIPT: &str = "glass_typescript";

/// Place where code runs.
#[derive(Clone, Copy, Debug)]
pub struct CodePlace {
    /// Key of the rung, with which the functions' names end.
    pub key: &'static str,
    /// Name of the language.
    pub language: &'static str,
    /// Parameters of the isolation, as a statement sets them; empty for the language's own.
    pub isolation: &'static str,
}

impl CodePlace {
    /// Returns the module and the entry of New-Order.
    fn new_order(self) -> (&'static str, &'static str) {
        (if self.language == "native" { "glass_tpcc" } else { "glass" }, "new_order")
    }

    fn module(self) -> &'static str {
        if self.language == "native" { "glass_key_value" } else { "glass" }
    }

    /// Returns the statements that define a function at this place.
    pub fn function(self, name: &str, signature: &str, (module, entry): (&str, &str)) -> [String; 2] {
        let CodePlace { language, isolation, .. } = self;
        let create = format!("create function {name}({signature} language {language} as '{module}', '{entry}'");
        let alter = match isolation {
            "" => "select 1".to_owned(),
            isolation => format!("alter function {name} set ({isolation})"),
        };
        [create, alter]
    }

    /// Returns the statements that define New-Order and the key-value functions at this place. `is_batch` says that a
    /// function makes all its calls of the engine in one batch: there are only functions of several calls then.
    fn functions(self, is_batch: bool) -> Vec<String> {
        let order = "warehouse int, district int, customer int, entered timestamp, items int[], supplies int[], \
                     quantities int[]) returns numeric";
        let of_order = self.function(&format!("glass_new_order_{}", self.key), order, self.new_order());
        let of_shape = |shape: Shape| {
            let entry = match (shape.calls, shape.updates, is_batch) {
                (_, true, true) => "mix_together",
                (_, false, true) => "read_together",
                (1, true, false) => "update",
                (_, true, false) => "mix",
                (_, false, false) => "read",
            };
            self.function(&shape.function(self.key), "keys int[]) returns int", (self.module(), entry))
        };
        let shapes = key_value::SHAPES.into_iter().filter(|shape| !is_batch || 1 < shape.calls);
        of_order.into_iter().filter(|_| !is_batch).chain(shapes.flat_map(of_shape)).collect()
    }
}

/// Returns the statements that make the modules.
pub fn modules() -> Vec<String> {
    let tpcc = workloads::tpcc::TpccModule::default();
    let native = [
        ("glass_tpcc", procs::NativeModule::manifest(&tpcc), "tpcc"),
        ("glass_key_value", procs::NativeModule::manifest(&workloads::key_value::KeyValueModule), "key_value"),
    ];
    let native = native.map(|(name, manifest, module)| {
        format!("create or replace module {name} manifest $manifest${manifest}$manifest$ artifact native '{module}'")
    });
    let artifacts =
        [("wasm", WASM), ("exec", EXEC), ("guest", EXEC)].into_iter().filter(|(_, bytes)| !bytes.is_empty());
    let artifacts: String = artifacts.map(|(kind, bytes)| format!(" artifact {kind} '\\x{}'", hex(bytes))).collect();
    let own = (!artifacts.is_empty())
        .then(|| format!("create or replace module glass manifest $manifest${MANIFEST}$manifest${artifacts}"));
    native.into_iter().chain(own).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the statement that makes the module in TypeScript, which is compiled by the tools of this machine.
///
/// # Errors
/// Fails with the reason if they are missing.
pub fn typescript() -> anyhow::Result<String> {
    let folder = tempfile::tempdir()?;
    let project = folder.path().join(TYPESCRIPT);
    proc::create(&project, proc::Language::TypeScript)?;
    std::fs::write(project.join("main.ts"), TYPESCRIPT_CODE)?;
    let built = proc::build(&project, &proc::Tools::default())?;
    let missing = || anyhow::anyhow!("{built}");
    let wasm = hex(&built.artifact(procs::ArtifactKind::Wasm).ok_or_else(missing)?.bytes);
    let manifest = &built.manifest;
    Ok(format!(
        "create or replace module {TYPESCRIPT} manifest $manifest${manifest}$manifest$ artifact wasm '\\x{wasm}'"
    ))
}

/// Makes the modules.
///
/// # Errors
/// Errors of the server.
pub fn make_modules(control: &Control) -> anyhow::Result<()> {
    modules().iter().try_for_each(|module| control.batch(module))
}

/// Makes the functions of a place, with or without batches. Returns the reason if the server does not have it.
///
/// # Errors
/// Errors of the server.
pub fn make(
    control: &Control,
    target: &MeasuredServer,
    place: CodePlace,
    is_batch: bool,
) -> anyhow::Result<Option<String>> {
    if !target.is_overtake() {
        return Ok(Some("the other servers have no such level".to_owned()));
    }
    for statement in place.functions(is_batch) {
        if let Some(refused) = control.batch_if_supported(&statement)? {
            return Ok(Some(refused));
        }
    }
    Ok(None)
}
