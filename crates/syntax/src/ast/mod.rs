//! Trees of statements, in the shape of PostgreSQL's parse trees (`src/include/nodes/parsenodes.h`).
//!
//! **Invariant:** a tree has the contents of its text and no more: names are not looked up, types are not resolved.
//! Every node knows its place. Two trees are equal if their contents are, at any place.

mod change;
mod command;
mod definition;
mod expr;
mod module;
mod names;
mod query;
mod rights;
mod routine;
mod statement;
pub mod visit;

pub use change::{
    Arbiter, Assignment, Delete, Insert, InsertColumn, InsertSource, OnConflict, OnConflictAction, Overriding, Update,
};
pub use command::{
    CommandOption, ConstraintsCommand, CopyCommand, CopyOf, CopyPlace, DeclareCommand, DiscardTarget, ExecuteCommand,
    ExplainCommand, FetchCommand, FetchDirection, LockCommand, MaintenanceCommand, MaintenanceKind, OptionValue,
    PrepareCommand, SetCommand, SetTarget, SetValue, SettingName, TableLockMode, TransactionCommand, TransactionMode,
    UnsupportedStatement, ZoneValue,
};
pub use definition::{
    AlterAction, AlterActionKind, AlterTable, ColumnClause, ColumnClauseKind, ColumnDefinition, CommentCommand,
    ConstraintTiming, CreateIndex, CreateSchema, CreateTable, CreateTableAs, CreateView, DropCommand, DropDatabase,
    IndexKey, KeyOptions, LikeOption, MatchKind, ObjectKind, OwnerCommand, Persistence, Reference, ReferenceAction,
    RenameCommand, RoleDefinition, RoleName, RoleOption, RoleSetting, SequenceDefinition, SequenceOption,
    SequenceOptionKind, SetSchemaCommand, SettingChange, StorageParameter, TableConstraint, TableConstraintKind,
    TableElement, TableSource, TruncateCommand,
};
pub use expr::{
    Argument, CaseBranch, CastStyle, Constant, Expr, ExprKind, Frame, FrameBound, FrameExclusion, FrameUnit,
    FunctionCall, Indirection, IsTest, KeptExpr, LikeKind, OperatorName, Over, QuantifiedOf, Quantifier, SessionValue,
    WindowSpec,
};
pub use module::{CreateModule, DropModules, OwnModule};
pub use names::{IntervalFields, Name, ObjectName, TypeName};
pub use query::{
    Alias, AliasColumn, CommonStatement, CommonTable, Distinct, FromItem, FunctionItem, GroupItem, JoinCondition,
    JoinItem, JoinKind, Limit, LockStrength, LockWait, Locking, Materialized, NullsOrder, Query, QueryBody, RowCount,
    Select, SelectInto, SelectItem, SetOperator, SortBy, SortOrder, TableFunctionColumn, TableItem, WindowDefinition,
    With,
};
pub use rights::{
    DefaultPrivileges, DropOwned, GrantCommand, GrantKind, GrantObjects, GrantRoleCommand, PrivilegeChange,
    PrivilegeItem, ReassignOwned,
};
pub use routine::{
    AlterRoutine, BodyStatement, BodyStatementKind, CreateRoutine, DropRoutines, ParameterDefinition,
    ParameterModeWord, RoutineAction, RoutineComment, RoutineName, RoutineOption, RoutineOptionKind, RoutineReturns,
    RoutineWord, SqlBody,
};
pub use statement::Statement;
