//! Modules: their imports and exports, and their compilation.
//!
//! **Invariant:** a module whose import is not `overtake.call` or `env.abort` is refused, so code cannot reach what is
//! not the engine.

use crate::instance::WasmInstance;
use crate::pieces;
use crate::state::{StoreState, serve};
use crate::ticker::Ticker;
use crate::vet;
use procs::ends;
use procs::{Channel, CodeTenant, Instance, InstanceKind, Limits, Program};
use stage::turn;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use wasmtime::{Engine, ExternType, FuncType, InstancePre, Linker, Memory, Module, Store, Trap, TypedFunc, ValType};

/// Greatest stack of compiled code in bytes.
pub(crate) const STACK_BYTES: usize = 512 << 10;
/// Greatest size of a module in bytes.
const MODULE_MAX: usize = 64 << 20;
/// Time between two looks while a module is compiled.
const LOOK: Duration = Duration::from_millis(5);

/// Common parts of all modules.
pub(crate) struct WasmShared {
    pub(crate) engine: Engine,
    pub(crate) ticker: Ticker,
    pub(crate) linker: Linker<StoreState>,
    pub(crate) instances_max: u32,
    /// Greatest memory of an instance in bytes, whatever its limit.
    pub(crate) memory_max: u64,
    /// Parts of code in urgent contexts; `None` in those.
    pub(crate) urgent: Option<Arc<WasmShared>>,
}

/// Compiled module.
pub(crate) struct WasmCode {
    shared: Arc<WasmShared>,
    module: InstancePre<StoreState>,
}

/// Module as a program.
pub(crate) struct WasmProgram {
    code: Arc<WasmCode>,
    bytes: Arc<[u8]>,
    /// The same module for urgent contexts, compiled when a procedure becomes urgent.
    urgent: OnceLock<Arc<WasmProgram>>,
}

impl fmt::Debug for WasmProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wasm module {}", self.code.module.module().name().unwrap_or("without name"))
    }
}

/// Memory of an instance, address of its exchange area, and its entry.
type Instantiated = (Memory, i32, TypedFunc<(i32, i32), i32>);

/// Returns the functions that modules may import.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<StoreState>> {
    let mut linker = Linker::new(engine);
    linker.func_wrap("overtake", "call", serve)?;
    linker.func_wrap("env", "abort", |_: i32, _: i32, _: i32, _: i32| -> wasmtime::Result<()> {
        Err(Trap::UnreachableCodeReached.into())
    })?;
    Ok(linker)
}

impl WasmProgram {
    /// Compiles a module on a thread of its own, while this one looks for the end of its statement.
    pub(crate) fn load(
        shared: &Arc<WasmShared>,
        bytes: &Arc<[u8]>,
        tenant: &CodeTenant,
    ) -> SqlResult<Arc<WasmProgram>> {
        if MODULE_MAX < bytes.len() {
            let message = format!("a wasm module exceeds {} MB", MODULE_MAX >> 20);
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        vet::vet(bytes, shared.urgent.is_none())?;
        let place = tenant.compiler()?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let (engine, code) = (shared.engine.clone(), Arc::clone(bytes));
        let compile = move || {
            let _place = place;
            // Nobody takes it if the statement has ended.
            let _ = sender.send(pieces::compile(&engine, &code));
        };
        let spawned = thread::Builder::new().name("wasm-compile".to_owned()).spawn(compile);
        spawned.map_err(|error| {
            SqlError::new(SqlState::INSUFFICIENT_RESOURCES, format!("no thread can compile the module: {error}"))
        })?;
        let module = loop {
            // The compiler's work is the statement's, but not this thread's: it misses no processor meanwhile.
            match turn::outside(|| receiver.recv_timeout(LOOK)) {
                Ok(module) => break module.map_err(|error| ends::not_loadable(&format!("{error:#}")))?,
                Err(RecvTimeoutError::Timeout) => pulse::look()?,
                Err(RecvTimeoutError::Disconnected) => return Err(ends::not_loadable("the compiler has crashed")),
            }
        };
        WasmProgram::link(shared, &module, bytes)
    }

    fn link(shared: &Arc<WasmShared>, module: &Module, bytes: &Arc<[u8]>) -> SqlResult<Arc<WasmProgram>> {
        check(module, shared.memory_max).map_err(|reason| ends::not_loadable(&reason))?;
        let linked = shared.linker.instantiate_pre(module);
        let module = linked.map_err(|error| ends::not_loadable(&format!("{error:#}")))?;
        let code = Arc::new(WasmCode { shared: Arc::clone(shared), module });
        Ok(Arc::new(WasmProgram { code, bytes: Arc::clone(bytes), urgent: OnceLock::new() }))
    }

    /// Returns the same module, compiled for urgent contexts.
    fn for_urgent(&self, tenant: &CodeTenant) -> SqlResult<&WasmProgram> {
        if let Some(urgent) = self.urgent.get() {
            return Ok(urgent);
        }
        let shared = self.code.shared.urgent.as_ref();
        let shared = shared.ok_or_else(|| SqlError::unsupported("this code in an urgent context"))?;
        // Of two sessions that compile it at a time, one is first.
        let urgent = WasmProgram::load(shared, &self.bytes, tenant)?;
        Ok(self.urgent.get_or_init(|| urgent))
    }

    fn open_here(&self, tenant: &CodeTenant, limits: &Limits) -> SqlResult<Box<dyn Instance>> {
        // Its memory counts as it grows, from its creation on.
        let share = tenant.take(InstanceKind::Wasm, 0)?;
        Ok(Box::new(WasmInstance::open(Arc::clone(&self.code), share, limits)?))
    }
}

impl WasmCode {
    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(crate) fn ticker(&self) -> &Ticker {
        &self.shared.ticker
    }

    /// Returns true if the code runs in urgent contexts.
    pub(crate) fn is_urgent(&self) -> bool {
        self.shared.urgent.is_none()
    }

    pub(crate) fn instances_max(&self) -> u32 {
        self.shared.instances_max
    }

    /// Creates an instance in the store. Returns its memory, the address of its exchange area, and its entry.
    pub(crate) fn instantiate(&self, store: &mut Store<StoreState>) -> wasmtime::Result<Instantiated> {
        let instance = self.module.instantiate(&mut *store)?;
        let memory = instance.get_memory(&mut *store, "memory");
        let memory = memory.ok_or_else(|| wasmtime::Error::msg("the memory is missing"))?;
        // Reactors are initialised before their first call.
        if let Ok(initialize) = instance.get_typed_func::<(), ()>(&mut *store, "_initialize") {
            initialize.call(&mut *store, ())?;
        }
        let area = instance.get_typed_func::<(), i32>(&mut *store, "overtake_area")?.call(&mut *store, ())?;
        let invoke = instance.get_typed_func::<(i32, i32), i32>(&mut *store, "overtake_invoke")?;
        Ok((memory, area, invoke))
    }
}

impl Program for WasmProgram {
    fn open(&self, tenant: &CodeTenant, channel: Channel, limits: &Limits) -> SqlResult<Box<dyn Instance>> {
        if channel != Channel::Direct {
            return Err(SqlError::unsupported(format!("channel \"{channel}\" of isolation level \"wasm\"")));
        }
        self.open_here(tenant, limits)
    }

    fn refuses_urgent(&self) -> Option<&'static str> {
        None
    }

    fn is_ready_for_urgent(&self) -> bool {
        self.urgent.get().is_some()
    }

    fn compile_for_urgent(&self, tenant: &CodeTenant) -> SqlResult<()> {
        self.for_urgent(tenant).map(drop)
    }

    fn open_urgent(&self, tenant: &CodeTenant, limits: &Limits) -> SqlResult<Box<dyn Instance>> {
        self.for_urgent(tenant)?.open_here(tenant, limits)
    }
}

/// Returns true if the function has these parameters, all of type `i32`, and these results.
fn is_of(of: &FuncType, parameters: usize, results: usize) -> bool {
    let is_i32 = |one: ValType| matches!(one, ValType::I32);
    of.params().len() == parameters
        && of.results().len() == results
        && of.params().all(is_i32)
        && of.results().all(is_i32)
}

/// Checks what a module imports and exports.
fn check(module: &Module, memory_max: u64) -> Result<(), String> {
    for import in module.imports() {
        let is_known = match (import.module(), import.name(), import.ty()) {
            ("overtake", "call", ExternType::Func(of)) => is_of(&of, 1, 1),
            ("env", "abort", ExternType::Func(of)) => is_of(&of, 4, 0),
            _ => false,
        };
        if !is_known {
            return Err(format!("it imports \"{}.{}\"", import.module(), import.name()));
        }
    }
    match module.get_export("memory") {
        Some(ExternType::Memory(memory)) if memory_max < memory.minimum() * memory.page_size() => {
            return Err(format!("its memory exceeds {} MB", memory_max >> 20));
        }
        Some(ExternType::Memory(memory)) if !memory.is_shared() && !memory.is_64() => {}
        _ => return Err("it exports no memory \"memory\"".to_owned()),
    }
    for (name, parameters) in [("overtake_area", 0), ("overtake_invoke", 2)] {
        match module.get_export(name) {
            Some(ExternType::Func(of)) if is_of(&of, parameters, 1) => {}
            _ => return Err(format!("it exports no function \"{name}\" of {parameters} i32 that returns i32")),
        }
    }
    Ok(())
}
