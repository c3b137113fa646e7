//! Definitions of functions and procedures.

use super::{
    Expr, KeptExpr, Name, ObjectName, RoleName, SetTarget, SettingName, Statement, StorageParameter, TypeName,
};
use crate::lex::Span;

/// Kind of a routine, as a statement names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum RoutineWord {
    Function,
    Procedure,
    /// `ROUTINE`, which names either.
    Routine,
}

/// `CREATE FUNCTION`, or `CREATE PROCEDURE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateRoutine {
    /// True for `CREATE PROCEDURE`.
    pub is_procedure: bool,
    /// True with `OR REPLACE`.
    pub or_replace: bool,
    /// Name of the routine.
    pub name: ObjectName,
    /// Parameters, without the columns of `RETURNS TABLE`.
    pub parameters: Vec<ParameterDefinition>,
    /// Result, if one is given.
    pub returns: Option<RoutineReturns>,
    /// Options in order.
    pub options: Vec<RoutineOption>,
    /// Body that is no string constant.
    pub body: Option<SqlBody>,
}

/// Result of a function.
#[derive(Clone, Debug, PartialEq)]
pub enum RoutineReturns {
    /// `RETURNS type`, or `RETURNS SETOF type`.
    Type(TypeName),
    /// `RETURNS TABLE (…)`, with the place of the columns.
    Table(Vec<(Name, TypeName)>, Span),
}

/// Parameter of a routine.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterDefinition {
    /// Name, if it has one.
    pub name: Option<Name>,
    /// Mode, if one is given.
    pub mode: Option<ParameterModeWord>,
    /// Type.
    pub kind: TypeName,
    /// Default of the argument.
    pub default: Option<KeptExpr>,
    /// Place of the parameter.
    pub span: Span,
}

/// Mode of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum ParameterModeWord {
    In,
    Out,
    InOut,
    Variadic,
}

/// Option of a routine.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutineOption {
    /// Meaning of the option.
    pub kind: RoutineOptionKind,
    /// Place of the option.
    pub span: Span,
}

/// Meaning of a routine's option. Numbers are as they are written.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum RoutineOptionKind {
    /// Body, or the object file and the symbol in it.
    As(Box<str>, Option<Box<str>>),
    Language(Box<str>),
    /// True for `STRICT` and `RETURNS NULL ON NULL INPUT`.
    Strict(bool),
    Immutable,
    Stable,
    Volatile,
    /// True for `SECURITY DEFINER`.
    SecurityDefiner(bool),
    /// False for `NOT LEAKPROOF`.
    Leakproof(bool),
    Parallel(Name),
    Cost(Box<str>),
    Rows(Box<str>),
    Support(ObjectName),
    Transform(Vec<TypeName>),
    Window,
    Set(SetTarget),
    Reset(SettingName),
    /// `SET (name = value, …)`, an extension of PostgreSQL's grammar: isolation of code that is no SQL.
    SetParameters(Vec<StorageParameter>),
    /// `RESET (name, …)`
    ResetParameters(Vec<Name>),
    /// `SET` that is not supported here: the feature's name.
    Unsupported(Box<str>),
}

/// Body of a routine in SQL that is parsed with its definition.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlBody {
    /// `RETURN expression`
    Return(KeptExpr),
    /// `BEGIN ATOMIC … END`
    Atomic {
        /// Statements in order.
        statements: Vec<BodyStatement>,
        /// Place of the text between `ATOMIC` and `END`, without the blanks around it.
        extent: Span,
    },
}

/// Statement of a body.
#[derive(Clone, Debug, PartialEq)]
pub struct BodyStatement {
    /// Meaning of the statement.
    pub kind: BodyStatementKind,
    /// Place of the statement, without its semicolon.
    pub span: Span,
}

/// Meaning of a body's statement.
#[derive(Clone, Debug, PartialEq)]
pub enum BodyStatementKind {
    /// Statement.
    Statement(Statement),
    /// `RETURN expression`
    Return(Expr),
}

/// Name of an existing routine, perhaps with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutineName {
    /// Name.
    pub name: ObjectName,
    /// Parameters, without defaults; `None` if none are written, so that the name alone must identify the routine.
    pub parameters: Option<Vec<ParameterDefinition>>,
    /// Place of the name with its parameters.
    pub span: Span,
}

/// `ALTER FUNCTION`, `ALTER PROCEDURE` or `ALTER ROUTINE`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterRoutine {
    /// Kind of the routine.
    pub word: RoutineWord,
    /// Routine.
    pub name: RoutineName,
    /// Change.
    pub action: RoutineAction,
}

/// Change of a routine.
#[derive(Clone, Debug, PartialEq)]
pub enum RoutineAction {
    /// New options, in order. There is at least one.
    Options(Vec<RoutineOption>),
    /// `RENAME TO`
    Rename(Name),
    /// `OWNER TO`
    Owner(RoleName),
    /// `SET SCHEMA`
    SetSchema(Name),
    /// `DEPENDS ON EXTENSION`, or `NO DEPENDS ON EXTENSION` if true.
    Depends(bool, Name),
}

/// `DROP FUNCTION`, `DROP PROCEDURE` or `DROP ROUTINE`.
#[derive(Clone, Debug, PartialEq)]
pub struct DropRoutines {
    /// Kind of the routines.
    pub word: RoutineWord,
    /// Routines.
    pub names: Vec<RoutineName>,
    /// True with `IF EXISTS`.
    pub if_exists: bool,
    /// True with `CASCADE`.
    pub is_cascading: bool,
}

/// `COMMENT ON FUNCTION`, `PROCEDURE` or `ROUTINE`.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutineComment {
    /// Kind of the routine.
    pub word: RoutineWord,
    /// Routine.
    pub name: RoutineName,
    /// Text; `None` removes the comment.
    pub text: Option<Box<str>>,
}
