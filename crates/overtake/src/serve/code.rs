//! Levels of isolation at which the server runs stored code.

use procs::native::NativeRuntime;
use procs::runtimes::MissingRuntime;
use procs::{Level, Runtime, Runtimes};
use procs_wasm::{WasmConfig, WasmRuntime};
use procs_worker::WorkerConfig;
use std::sync::Arc;
use workloads::key_value::KeyValueModule;
use workloads::tpcc::TpccModule;

/// Returns the levels of this server. One that cannot run here stays in the list, with its reason.
pub fn runtimes() -> Arc<Runtimes> {
    let native: Arc<dyn Runtime> =
        Arc::new(NativeRuntime::new(vec![Arc::new(TpccModule::default()), Arc::new(KeyValueModule)]));
    let wasm = WasmRuntime::new(WasmConfig::default())
        .unwrap_or_else(|error| MissingRuntime::new(Level::Wasm, format!("the system refuses its memory: {error}")));
    let workers = procs_worker::runtimes(WorkerConfig::default()).unwrap_or_else(|error| {
        let missing = |level| MissingRuntime::new(level, format!("the system refuses a thread: {error}"));
        [Level::Process, Level::Container, Level::Gvisor].map(missing).into()
    });
    let vm = MissingRuntime::new(Level::Vm, "this server was built without it");
    Arc::new(Runtimes::new([native, wasm].into_iter().chain(workers).chain([vm]).collect()))
}
