//! Level `wasm`: stored code as WebAssembly, compiled by Cranelift and run within the server's process.
//!
//! An instance owns a slot of a pool: address space for one linear memory and its tables. A slot is emptied before the
//! next instance gets it. Code is deterministic: it has neither a clock nor random numbers, NaNs have one form, and the
//! engine is its only import. A thread advances the epoch of all code each millisecond while some runs; compiled code
//! reads it at each function and loop, so an endless loop ends at most 1 ms after its cancel. Long operations on memory
//! are cut into pieces, in a loop. Memories of instances are mappings, which the allocator does not count; they grow
//! within the share of their tenant, which counts them.
//!
//! # Faults
//!
//! Out-of-bounds accesses and divisions by zero of compiled code fault, and wasmtime's handlers of SIGSEGV, SIGILL and
//! SIGFPE turn them into errors. The alternative is compiled checks without any handler. A loop over memory takes 1.9
//! times as long with them (1.3 instead of 0.7 ns for two loads and a store), and wasmtime has no Spectre mitigation for
//! them; with 4 GiB of address space behind each memory there is no check to speculate past. The handlers are safe
//! beside those of `preempt` and the standard library, which `tests/it/signals.rs` tests:
//!
//! - Each handler passes on what is not its own, whichever was installed first. Wasmtime claims only faults whose
//!   program counter is in compiled code; `preempt` claims only addresses of its guard pages.
//! - An interrupt that lands in compiled code runs as a nested call and returns before the code continues. A fault that
//!   wasmtime claims is never inside an urgent context: see below.
//! - Wasmtime gives a thread a larger signal stack if its own has less than 256 KiB. `preempt` restores the earlier one
//!   only if its own is still in use. Both handlers run on either.
//!
//! # Urgent contexts
//!
//! An urgent context interrupts any code, WebAssembly included, at any instruction. A fault there would be handled on the
//! signal stack, where the frame of the interrupt lies to which the context returns. So modules are compiled a second
//! time for urgent contexts, without traps by signals: bounds and divisors are checked by compiled code, and a trap is a
//! call that unwinds to the entry. Wasmtime has no Spectre mitigation for such code, so only superusers make procedures
//! urgent. What wasmtime (48) does between entry and return was read with these questions:
//!
//! - *State of the thread:* one pointer, to the innermost activation, without destructor. Entering replaces it and
//!   returning puts it back, so an activation that is interrupted anywhere, also within its own entry, finds it as it
//!   was. Its first use on a thread makes a signal stack; [`prepare_thread`] does that beforehand.
//! - *State of a store* (limits of the stack, ends of frames, handler of traps) belongs to the instance, which is used by
//!   one invocation at a time.
//! - *Locks:* none. The registries of code and types, the allocators and the pool have some; they are used when modules
//!   and instances are made and dropped, which happens outside, and by the handler of faults. Backtraces, which would
//!   look code up, are off; so is the feature by which errors capture one.
//! - *Stack:* compiled code compares its stack with a limit of its own, a quarter of the context's.
//! - *Time:* the thread of epochs is started beforehand ([`procs::Instance::arm`]).
//!
//! **Invariant:** code reaches nothing but its own memory and the engine lent to its invocation. Only this crate names
//! wasmtime.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - clock of running code: `ticker`
//! - contents of a store, which hold the engine for one invocation; the call that puts it there: `lent`, `state`
//! - errors of wasmtime: `faults`
//! - limits of what a module may ask of the compiler, and its long operations: `vet`, `pieces`
//! - modules, and instances, which keep the code that has created them: `instance`, `module`
//! - the level: `runtime`

mod faults;
mod instance;
mod lent;
mod module;
mod pieces;
mod runtime;
mod state;
mod ticker;
mod vet;

pub use runtime::{WasmConfig, WasmRuntime, prepare_thread};
