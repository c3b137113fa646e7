//! Levels of isolation at which the server runs stored code.

use procs::native::NativeRuntime;
use procs::runtimes::MissingRuntime;
use procs::{Level, Runtime, Runtimes};
use procs_wasm::{WasmConfig, WasmRuntime};
use procs_worker::WorkerConfig;
use std::sync::Arc;
use workloads::key_value::{KeyValueModule, TouchModule};
use workloads::tpcc::TpccModule;

/// Returns the levels of this server. One that cannot run here stays in the list, with its reason.
pub fn runtimes() -> Arc<Runtimes> {
    let native: Arc<dyn Runtime> = Arc::new(NativeRuntime::new(vec![
        Arc::new(TpccModule::default()),
        Arc::new(KeyValueModule),
        Arc::new(TouchModule),
    ]));
    let missing = |level, reason: String| Arc::new(MissingRuntime::new(level, reason)) as Arc<dyn Runtime>;
    let wasm: Arc<dyn Runtime> = match WasmRuntime::new(WasmConfig::default()) {
        Ok(wasm) => Arc::new(wasm),
        Err(error) => missing(Level::Wasm, format!("the system refuses its memory: {error}")),
    };
    let workers = procs_worker::runtimes(WorkerConfig::default()).unwrap_or_else(|error| {
        let levels = [Level::Process, Level::Container, Level::Gvisor, Level::Vm];
        levels.map(|level| missing(level, format!("the system refuses a thread: {error}"))).into()
    });
    Arc::new(Runtimes::new([native, wasm].into_iter().chain(workers).collect()))
}
