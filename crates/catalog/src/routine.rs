//! Routines: functions and procedures that users define.
//!
//! **Invariant:** a description never changes; a change makes another with the same OID. Two routines of one schema and
//! one name differ in the types of their input parameters ([`Routine::inputs`]).

use crate::acl::{AclKind, Securable};
use procs::{Channel, Level, Limits};
use std::sync::Arc;
use types::Kind;

/// Function or procedure that a user has defined (`pg_proc`).
#[derive(Clone, Debug)]
pub struct Routine {
    /// OID of the routine, which stays when it is replaced or altered.
    pub oid: u32,
    /// OID of the schema.
    pub schema: u32,
    /// Name of the routine.
    pub name: String,
    /// OID of the role that owns the routine.
    pub owner: u32,
    /// Kind of the routine.
    pub kind: RoutineKind,
    /// Parameters of all modes, in the order of their declaration.
    pub parameters: Vec<RoutineParameter>,
    /// Type of the result, or of each row of it.
    pub result: RoutineResult,
    /// True if the result is a set.
    pub is_set: bool,
    /// Language of the body.
    pub language: Language,
    /// Promise about the result of equal calls.
    pub volatility: Volatility,
    /// True if the result is NULL, or empty, when any argument is.
    pub is_strict: bool,
    /// True if the routine reveals nothing about its arguments but by its result.
    pub is_leakproof: bool,
    /// True if the routine runs with the rights of its owner.
    pub is_security_definer: bool,
    /// Promise about parallel queries, which PostgreSQL's tools read.
    pub parallel: Parallel,
    /// Estimated cost of a call, in units of `cpu_operator_cost`.
    pub cost: f32,
    /// Estimated number of rows of a set; 0 if the result is none.
    pub rows: f32,
    /// Settings during a call, with their values as `SET` writes them.
    pub settings: Vec<(String, String)>,
    /// Body of the routine.
    pub body: RoutineBody,
    /// Isolation of code that is no SQL.
    pub isolation: Isolation,
    /// Search path of its creation, by which the names of a body of the SQL standard are looked up; `None` for a body
    /// that is a text, which goes by the path of each call.
    pub path: Option<Arc<[String]>>,
}

/// Isolation of a routine whose code is in a module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Isolation {
    /// Level, if it is not the language's.
    pub level: Option<Level>,
    /// Channel, if it is not the level's first.
    pub channel: Option<Channel>,
    /// Limits of a call.
    pub limits: Limits,
    /// True if a call of class high may be a request of the scheduler.
    pub is_urgent: bool,
}

impl Isolation {
    /// Returns the parameters that differ from the usual ones, with their values as a statement sets them.
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let Isolation { level, channel, limits: Limits { time, memory, rows }, is_urgent } = self;
        let memory = Some(*memory).filter(|memory| *memory != Limits::default().memory);
        [
            level.map(|level| ("isolation", level.to_string())),
            channel.map(|channel| ("channel", channel.to_string())),
            time.map(|time| ("time_limit", format!("{}ms", time.as_millis()))),
            memory.map(|memory| ("memory_limit", format!("{}kB", memory >> 10))),
            rows.map(|rows| ("row_limit", rows.to_string())),
            is_urgent.then(|| ("urgent", "true".to_owned())),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Kind of a routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutineKind {
    /// Called in expressions and in FROM.
    Function,
    /// Called by `CALL`.
    Procedure,
}

impl RoutineKind {
    /// Returns the word that messages use.
    pub fn word(self) -> &'static str {
        match self {
            RoutineKind::Function => "function",
            RoutineKind::Procedure => "procedure",
        }
    }
}

/// Parameter of a routine.
#[derive(Clone, Debug)]
pub struct RoutineParameter {
    /// Name of the parameter, if it has one.
    pub name: Option<String>,
    /// Mode of the parameter.
    pub mode: ParameterMode,
    /// Type of the parameter. Type modifiers are dropped, as in PostgreSQL.
    pub kind: Kind,
    /// Text of the expression for a call that leaves the argument out.
    pub default: Option<String>,
}

/// Mode of a parameter (`proargmodes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's names")]
pub enum ParameterMode {
    In,
    Out,
    InOut,
    Variadic,
    /// Column of `RETURNS TABLE`.
    Table,
}

impl ParameterMode {
    /// Returns true if a call gives a value.
    pub fn is_input(self) -> bool {
        matches!(self, ParameterMode::In | ParameterMode::InOut | ParameterMode::Variadic)
    }

    /// Returns true if the parameter is a column of the result.
    pub fn is_output(self) -> bool {
        matches!(self, ParameterMode::Out | ParameterMode::InOut | ParameterMode::Table)
    }
}

/// Type of a routine's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutineResult {
    /// Nothing: a procedure without output parameters.
    Nothing,
    /// One value of this type; [`Kind::Void`] for `RETURNS void`.
    Value(Kind),
    /// Row of the output parameters: two or more, or any number for a procedure.
    Row,
    /// Row of this relation, by OID.
    Relation(u32),
    /// Row whose columns each call declares (`RETURNS record`).
    Record,
}

/// Language of a body (`pg_language`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// `LANGUAGE sql`
    Sql,
    /// `LANGUAGE native`: code that is linked into the server.
    Native,
    /// `LANGUAGE wasm`: a WebAssembly module.
    Wasm,
    /// `LANGUAGE exec`: an executable file.
    Exec,
}

impl Language {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Language::Sql => "sql",
            Language::Native => "native",
            Language::Wasm => "wasm",
            Language::Exec => "exec",
        }
    }

    /// Returns the language of this name.
    pub fn named(name: &str) -> Option<Language> {
        [Language::Sql, Language::Native, Language::Wasm, Language::Exec].into_iter().find(|one| one.name() == name)
    }

    /// Returns the level at which code of the language runs unless it is told otherwise; `None` for SQL, which needs
    /// none.
    pub fn level(self) -> Option<Level> {
        match self {
            Language::Sql => None,
            Language::Native => Some(Level::Native),
            Language::Wasm => Some(Level::Wasm),
            Language::Exec => Some(Level::Process),
        }
    }

    /// Returns true if any role may define routines in the language (`lanpltrusted`).
    pub fn is_trusted(self) -> bool {
        match self {
            Language::Sql | Language::Wasm => true,
            Language::Native | Language::Exec => false,
        }
    }
}

/// Promise about the result of calls with equal arguments (`provolatile`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volatility {
    /// Always the same result.
    Immutable,
    /// The same result within a statement.
    Stable,
    /// Any result, and effects.
    Volatile,
}

/// Promise about parallel queries (`proparallel`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's names")]
pub enum Parallel {
    Unsafe,
    Restricted,
    Safe,
}

/// Body of a routine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutineBody {
    /// Text of a string constant: `AS '…'`, which is parsed when the routine runs.
    Text(String),
    /// Text of `RETURN expression`, without the word.
    Return(String),
    /// Text of the statements between `BEGIN ATOMIC` and `END`.
    Atomic(String),
    /// Code of a module: `AS 'module', 'entry'`.
    Code {
        /// Name of the module.
        module: String,
        /// Name of the entry in its manifest.
        entry: String,
    },
}

impl Routine {
    /// Returns the names of the module and of its entry, for code that is no SQL.
    pub fn module(&self) -> Option<(&str, &str)> {
        match &self.body {
            RoutineBody::Code { module, entry } => Some((module, entry)),
            RoutineBody::Text(_) | RoutineBody::Return(_) | RoutineBody::Atomic(_) => None,
        }
    }

    /// Returns the level and the channel at which the code runs; `None` for SQL.
    pub fn level(&self) -> Option<(Level, Channel)> {
        let level = self.isolation.level.or(self.language.level())?;
        let channel = self.isolation.channel.or(level.channels().first().copied())?;
        Some((level, channel))
    }

    /// Returns the routine as an object with privileges.
    pub fn securable(&self) -> Securable {
        Securable { oid: self.oid, kind: AclKind::Routine, owner: self.owner }
    }

    /// Returns the input parameters, which a call gives values to.
    pub fn inputs(&self) -> impl Iterator<Item = &RoutineParameter> {
        self.parameters.iter().filter(|parameter| parameter.mode.is_input())
    }

    /// Returns the types of the input parameters.
    pub fn input_kinds(&self) -> Vec<Kind> {
        self.inputs().map(|parameter| parameter.kind).collect()
    }

    /// Returns the parameters that are columns of the result.
    pub fn outputs(&self) -> impl Iterator<Item = &RoutineParameter> {
        self.parameters.iter().filter(|parameter| parameter.mode.is_output())
    }

    /// Returns the name with the types of the input parameters, as messages write it: `f(integer, text)`.
    pub fn signature(&self) -> String {
        let kinds: Vec<String> = self.inputs().map(|parameter| parameter.kind.name()).collect();
        format!("{}({})", self.name, kinds.join(", "))
    }
}
