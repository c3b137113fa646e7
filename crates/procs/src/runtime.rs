//! Levels that run code.
//!
//! **Invariant:** an instance belongs to one tenant from its creation to its end. One whose invocation has failed is
//! dropped, because nobody knows its state, unless it says itself that it can go on.

use crate::calls::EngineCalls;
use crate::level::{ArtifactKind, Channel, Level};
use crate::shares::CodeTenant;
use engine::Table;
use sha2::{Digest, Sha256};
use statement::error::{SqlError, SqlResult};
use statement::pulse;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use types::SqlType;
use types::datum::Datum;

/// Code of a module in one form.
#[derive(Clone)]
pub struct Artifact {
    kind: ArtifactKind,
    bytes: Arc<[u8]>,
    digest: [u8; 32],
}

impl Artifact {
    /// Creates an artifact. The bytes of a native one are its name in the registry.
    pub fn new(kind: ArtifactKind, bytes: impl Into<Arc<[u8]>>) -> Artifact {
        let bytes = bytes.into();
        let digest = Sha256::digest(&bytes).into();
        Artifact { kind, bytes, digest }
    }

    /// Creates an artifact for a statement, which may be cancelled meanwhile.
    ///
    /// # Errors
    /// Those of the statement's pulse.
    pub fn for_statement(kind: ArtifactKind, bytes: impl Into<Arc<[u8]>>) -> SqlResult<Artifact> {
        let bytes = bytes.into();
        let mut digest = Sha256::new();
        for slice in bytes.chunks(pulse::SLICE) {
            pulse::tick(slice.len())?;
            digest.update(slice);
        }
        Ok(Artifact { kind, bytes, digest: digest.finalize().into() })
    }

    /// Returns the kind.
    pub fn kind(&self) -> ArtifactKind {
        self.kind
    }

    /// Returns the code.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// Returns the SHA-256 of the code.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }
}

impl fmt::Debug for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} artifact of {} bytes", self.kind, self.bytes.len())
    }
}

/// Limits of one invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Greatest time from the beginning to the end, engine calls included. `None` leaves it to `statement_timeout`.
    pub time: Option<Duration>,
    /// Greatest memory of an instance, in bytes.
    pub memory: u64,
    /// Greatest number of rows that calls may read, change or emit.
    pub rows: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { time: None, memory: 64 << 20, rows: None }
    }
}

/// Answer of a level to the question whether it can run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It can.
    Ready,
    /// It cannot, for this reason.
    Missing(String),
}

/// Level of isolation on this machine.
pub trait Runtime: Send + Sync + fmt::Debug {
    /// Returns the level.
    fn level(&self) -> Level;

    /// Returns whether the level can run code here. Probed once, when the server starts.
    fn availability(&self) -> Availability;

    /// Returns the means of the machine that the level uses, where there are several.
    fn means(&self) -> Option<&str> {
        None
    }

    /// Loads an artifact of the level's kind for a tenant: verifies and compiles it. May take long, so it ticks the
    /// statement's pulse.
    ///
    /// # Errors
    /// `0A000` with the reason if the level is missing; `42P13` for code that is no such artifact.
    fn load(&self, artifact: &Artifact, tenant: &CodeTenant) -> SqlResult<Arc<dyn Program>>;
}

/// Loaded code.
pub trait Program: Send + Sync + fmt::Debug {
    /// Creates an instance, whose memory nobody else has used or whose former contents are gone.
    ///
    /// # Errors
    /// `0A000` for a channel that the level does not have; `53000` and the like if resources are short; `57014` if the
    /// statement is cancelled.
    fn open(&self, tenant: &CodeTenant, channel: Channel, limits: &Limits) -> SqlResult<Box<dyn Instance>>;

    /// Returns the reason why invocations may not run in an urgent context; `None` if they may.
    fn refuses_urgent(&self) -> Option<&'static str> {
        Some("Only code of the levels \"native\" and \"wasm\" can.")
    }

    /// Returns true if the code need not be compiled before [`Program::open_urgent`].
    fn is_ready_for_urgent(&self) -> bool {
        true
    }

    /// Compiles the code for urgent contexts, which may take seconds.
    ///
    /// # Errors
    /// Those of [`Runtime::load`].
    fn compile_for_urgent(&self, tenant: &CodeTenant) -> SqlResult<()> {
        let _ = tenant;
        Ok(())
    }

    /// Checks the engine's tables of the manifest, by number, before invocations in urgent contexts use them, whatever
    /// instance runs them. Called in base context.
    ///
    /// # Errors
    /// Those of tables that the code cannot use.
    fn prepare_urgent(&self, tables: &[Arc<Table>]) -> SqlResult<()> {
        let _ = tables;
        Ok(())
    }

    /// Creates an instance whose invocations may run in an urgent context of any thread, over whatever code that context
    /// has interrupted, the same level's included. They use tables that [`Program::prepare_urgent`] has accepted.
    ///
    /// An urgent invocation begins with [`Instance::arm`]. From then until [`Instance::disarm`] it takes no lock that
    /// interrupted code can hold, does no I/O, and touches no thread-local value with a destructor.
    ///
    /// # Errors
    /// `0A000` if [`Program::refuses_urgent`]; those of [`Program::open`].
    fn open_urgent(&self, tenant: &CodeTenant, limits: &Limits) -> SqlResult<Box<dyn Instance>> {
        let _ = (tenant, limits);
        Err(SqlError::unsupported("this code in an urgent context"))
    }
}

/// Arguments of an invocation.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    /// Number of the entry in the manifest.
    pub entry: u16,
    /// Rows of arguments, at most [`crate::wire::BATCH_MAX`].
    pub rows: &'a [&'a [Datum]],
    /// Types of the arguments.
    pub arguments: &'a [SqlType],
    /// Types of the result's columns.
    pub result: &'a [SqlType],
    /// Limits of the invocation.
    pub limits: Limits,
}

/// Instance of a program, which runs one invocation at a time.
pub trait Instance: Send {
    /// Runs an invocation, and returns the rows of the result. Emitted rows have gone to `engine` before.
    ///
    /// While the code runs, the instance looks at [`EngineCalls::look`] at least every 10 ms, and ends the code within
    /// 100 ms of an error. After an error the caller drops the instance, unless [`Instance::is_reusable`].
    ///
    /// # Errors
    /// The error of an engine call, unchanged; `57014` for a time limit; `53200` for the memory limit; `38000` if the
    /// code crashes; `39000` if it breaks the protocol.
    fn invoke(&mut self, invocation: &Invocation<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Vec<Datum>>>;

    /// Prepares an invocation in an urgent context. Called in base context.
    ///
    /// # Errors
    /// Those of the system, for what code needs while it runs.
    fn arm(&mut self) -> SqlResult<()> {
        Ok(())
    }

    /// Gives back what [`Instance::arm`] has prepared. Called in base context, whether the code has run or not.
    fn disarm(&mut self) {}

    /// Returns false if the instance has ended while nobody used it. An end within a few milliseconds after its last
    /// answer may be missed; the next invocation fails then, as if the code had ended in the midst of it.
    fn is_alive(&self) -> bool {
        true
    }

    /// Returns the bytes of the server's process that the instance holds while nobody uses it.
    fn idle_bytes(&self) -> usize {
        0
    }

    /// Returns true if the instance can run another invocation although its last one has failed: the code has learned
    /// of the error, and has ended by itself. A statement that waits for a lock fails so, and begins again.
    fn is_reusable(&self) -> bool {
        false
    }
}
