//! The level: configuration of wasmtime.

use crate::module::{STACK_BYTES, WasmProgram, WasmShared, linker};
use crate::state::TABLE_MAX;
use crate::ticker::Ticker;
use procs::ends;
use procs::{Artifact, ArtifactKind, Availability, CodeTenant, Level, Program, Runtime};
use statement::error::SqlResult;
use std::fmt;
use std::io;
use std::sync::Arc;
use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

/// Bytes of a memory that are overwritten when its slot is emptied. Pages beyond them go back to the system.
const RESIDENT_BYTES: usize = 64 << 10;
/// Address space behind each memory. With 4 GiB, compiled code needs no checks of bounds.
const RESERVED_BYTES: u64 = 4 << 30;

/// Limits of the level.
#[derive(Clone, Copy, Debug)]
pub struct WasmConfig {
    /// Greatest number of instances at a time. Each reserves 4 GiB of address space.
    pub instances_max: u32,
    /// Greatest memory of an instance in bytes, whatever its limit is.
    pub memory_max: u64,
}

impl Default for WasmConfig {
    fn default() -> WasmConfig {
        WasmConfig { instances_max: 1_000, memory_max: 1 << 30 }
    }
}

/// Level `wasm`.
pub struct WasmRuntime(Arc<WasmShared>);

/// Greatest stack of compiled code in an urgent context in bytes: a quarter of the context's, so that the rest is left
/// for the calls that the code makes.
const URGENT_STACK_BYTES: usize = preempt::STACK_BYTES / 4;

/// Initialises what calls of WebAssembly keep for a thread, which cannot be done in an urgent context. For threads that
/// run urgent calls, before their first one.
pub fn prepare_thread() {
    Engine::tls_eager_initialize();
}

impl WasmRuntime {
    /// Creates the level. Reserves address space for all instances, and installs handlers of SIGSEGV, SIGILL and SIGFPE,
    /// which pass on what they do not know.
    ///
    /// # Errors
    /// Those of the system if it refuses the address space.
    pub fn new(config: WasmConfig) -> io::Result<WasmRuntime> {
        let urgent = shared(config, &urgent_settings(config), None)?;
        Ok(WasmRuntime(shared(config, &settings(config), Some(urgent))?))
    }
}

fn shared(limits: WasmConfig, settings: &Config, urgent: Option<Arc<WasmShared>>) -> io::Result<Arc<WasmShared>> {
    let engine = Engine::new(settings).map_err(|error| io::Error::other(format!("{error:#}")))?;
    let linker = linker(&engine).map_err(|error| io::Error::other(format!("{error:#}")))?;
    let ticker = Ticker::new(engine.clone());
    let WasmConfig { instances_max, memory_max } = limits;
    Ok(Arc::new(WasmShared { engine, ticker, linker, instances_max, memory_max, urgent }))
}

/// Settings of code that runs in urgent contexts: see the crate's documentation.
fn urgent_settings(limits: WasmConfig) -> Config {
    let mut config = common_settings();
    config
        .signals_based_traps(false)
        .memory_reservation(limits.memory_max)
        .memory_reservation_for_growth(0)
        .memory_guard_size(0)
        .memory_init_cow(false)
        .max_wasm_stack(URGENT_STACK_BYTES);
    config
}

fn settings(limits: WasmConfig) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(limits.instances_max)
        .total_memories(limits.instances_max)
        .total_tables(limits.instances_max.saturating_mul(4))
        .max_memories_per_module(1)
        .max_tables_per_module(4)
        .table_elements(TABLE_MAX)
        .max_memory_size(usize::try_from(limits.memory_max).unwrap_or(usize::MAX))
        .linear_memory_keep_resident(RESIDENT_BYTES)
        .table_keep_resident(RESIDENT_BYTES);
    let mut config = common_settings();
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .memory_reservation(RESERVED_BYTES)
        .max_wasm_stack(STACK_BYTES);
    config
}

/// Settings of all code, which computes the same values wherever it runs. A compiler takes one processor: wasmtime is
/// built without `parallel-compilation`.
fn common_settings() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .cranelift_opt_level(OptLevel::Speed)
        .cranelift_nan_canonicalization(true)
        .wasm_backtrace_max_frames(None)
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false);
    config
}

impl fmt::Debug for WasmRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WasmRuntime").field("instances_max", &self.0.instances_max).finish_non_exhaustive()
    }
}

impl Runtime for WasmRuntime {
    fn level(&self) -> Level {
        Level::Wasm
    }

    fn availability(&self) -> Availability {
        Availability::Ready
    }

    fn load(&self, artifact: &Artifact, tenant: &CodeTenant) -> SqlResult<Arc<dyn Program>> {
        if artifact.kind() != ArtifactKind::Wasm {
            return Err(ends::not_loadable("it is no wasm module"));
        }
        Ok(WasmProgram::load(&self.0, artifact.bytes(), tenant)?)
    }
}
