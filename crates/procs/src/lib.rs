//! Interface between stored code and the engine.
//!
//! A *module* is code with a [`manifest`]: tables, statements and entries, each known by its number. It has one
//! artifact for each way in which it can run (a wasm module, an executable, a name in the native registry). A *level*
//! of isolation runs an artifact; a *channel* carries its calls. Every level but `native` speaks one byte format
//! ([`mod@format`], [`wire`]), so that code can move from one level to another.
//!
//! **Invariant:** code at every level reaches the engine through [`EngineCalls`] alone, whose implementation checks the
//! rights of the caller. Nothing that the code has sent is trusted: each number is looked up, each length is bounded,
//! and the first error ends the call, so no code can continue a transaction past an error.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - names of levels, channels and artifacts: `level`
//! - text form of a module's interface: `manifest`
//! - values as bytes: `format`
//! - calls of the engine: `calls`
//! - calls as bytes: `wire`
//! - entries of sandboxed code: `abi`
//! - errors with which levels end code: `ends`
//! - shares of tenants in instances, memory and compilers: `shares`
//! - levels that run code: `runtime`
//! - code linked into the binary: `native`
//! - all levels of a server: `runtimes`

pub mod abi;
pub mod calls;
pub mod ends;
pub mod format;
pub mod level;
pub mod manifest;
pub mod native;
pub mod runtime;
pub mod runtimes;
pub mod shares;
pub mod wire;

pub use calls::{
    CursorHandle, DirectBody, EachRow, EngineCalls, Executed, NoticeLevel, StatementHandle, TableHandle, TransactionEnd,
};
pub use level::{ArtifactKind, Channel, Level};
pub use manifest::Manifest;
pub use native::{NativeCall, NativeModule};
pub use runtime::{Artifact, Availability, Instance, Invocation, Limits, Program, Runtime};
pub use runtimes::{Runtimes, missing_level};
pub use shares::{CodeShares, CodeTenant, CompilerShare, InstanceKind, InstanceShare, ShareLimit, ShareLimits, Tenant};
