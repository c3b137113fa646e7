//! Code that is linked into the server.
//!
//! **Invariant:** linked code is trusted. It gets only what its manifest names, and looks for the end of its statement
//! at each engine call.

use crate::calls::EngineCalls;
use crate::ends::Deadline;
use crate::level::{ArtifactKind, Channel, Level};
use crate::manifest::Manifest;
use crate::runtime::{Artifact, Availability, Instance, Invocation, Limits, Program, Runtime};
use crate::shares::CodeTenant;
use engine::Table;
use statement::error::{SqlError, SqlResult, SqlState};
use std::fmt;
use std::sync::Arc;
use types::datum::Datum;

/// One call of linked code.
#[derive(Clone, Copy, Debug)]
pub struct NativeCall<'a> {
    /// Number of the entry.
    pub entry: u16,
    /// Row of arguments.
    pub arguments: &'a [Datum],
}

/// Module that is linked into the server.
pub trait NativeModule: Send + Sync {
    /// Returns the name in the registry.
    fn name(&self) -> &'static str;

    /// Returns the text of the manifest.
    fn manifest(&self) -> &'static str;

    /// Runs an entry for one row of arguments. Returns the row of the result; empty for a procedure without any, and for
    /// a set whose rows were emitted.
    ///
    /// # Errors
    /// Those of engine calls, and its own.
    fn call(&self, call: NativeCall<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Datum>>;

    /// Returns true if [`NativeModule::call`] may run in an urgent context, once [`NativeModule::prepare_urgent`] has
    /// succeeded: it takes no lock, does no I/O, and uses no lazy value.
    fn is_urgent(&self) -> bool {
        false
    }

    /// Checks the tables of the manifest before calls in an urgent context. Called in base context.
    ///
    /// # Errors
    /// Those of tables that the code cannot use.
    fn prepare_urgent(&self, tables: &[Arc<Table>]) -> SqlResult<()> {
        let _ = tables;
        Ok(())
    }
}

/// Level `native`.
#[derive(Clone)]
pub struct NativeRuntime(Vec<Arc<dyn NativeModule>>);

impl NativeRuntime {
    /// Creates the registry.
    pub fn new(modules: Vec<Arc<dyn NativeModule>>) -> NativeRuntime {
        NativeRuntime(modules)
    }

    /// Returns the modules.
    pub fn modules(&self) -> &[Arc<dyn NativeModule>] {
        &self.0
    }
}

impl fmt::Debug for NativeRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|module| module.name())).finish()
    }
}

impl Runtime for NativeRuntime {
    fn level(&self) -> Level {
        Level::Native
    }

    fn availability(&self) -> Availability {
        Availability::Ready
    }

    fn load(&self, artifact: &Artifact, _tenant: &CodeTenant) -> SqlResult<Arc<dyn Program>> {
        let name = String::from_utf8_lossy(artifact.bytes());
        let found = (artifact.kind() == ArtifactKind::Native).then(|| self.0.iter().find(|one| one.name() == name));
        let module = found.flatten().ok_or_else(|| {
            let message = format!("native module \"{name}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message).hint("Native modules are linked into the server.")
        })?;
        // The registry is the programmer's: a wrong manifest is found by the first load.
        Manifest::parse(module.manifest())?;
        Ok(Arc::new(NativeProgram(Arc::clone(module))))
    }
}

#[derive(Clone)]
struct NativeProgram(Arc<dyn NativeModule>);

impl fmt::Debug for NativeProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "native module {}", self.0.name())
    }
}

impl Program for NativeProgram {
    fn open(&self, _tenant: &CodeTenant, _channel: Channel, _limits: &Limits) -> SqlResult<Box<dyn Instance>> {
        Ok(Box::new(self.clone()))
    }

    fn refuses_urgent(&self) -> Option<&'static str> {
        if self.0.is_urgent() { None } else { Some("The native module is not made for it.") }
    }

    fn prepare_urgent(&self, tables: &[Arc<Table>]) -> SqlResult<()> {
        self.0.prepare_urgent(tables)
    }

    fn open_urgent(&self, _tenant: &CodeTenant, _limits: &Limits) -> SqlResult<Box<dyn Instance>> {
        if let Some(reason) = self.refuses_urgent() {
            return Err(SqlError::unsupported("this code in an urgent context").detail(reason));
        }
        Ok(Box::new(self.clone()))
    }
}

impl Instance for NativeProgram {
    fn invoke(&mut self, invocation: &Invocation<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Vec<Datum>>> {
        let mut all = Vec::with_capacity(invocation.rows.len());
        let deadline = Deadline::from_now(invocation.limits.time);
        for arguments in invocation.rows {
            engine.look()?;
            deadline.map_or(Ok(()), |deadline| deadline.look())?;
            let row = self.0.call(NativeCall { entry: invocation.entry, arguments }, engine)?;
            if !row.is_empty() {
                all.push(row);
            }
        }
        Ok(all)
    }

    fn is_reusable(&self) -> bool {
        // A module has no state of its own.
        true
    }
}
