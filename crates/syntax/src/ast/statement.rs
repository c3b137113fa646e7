//! Statements.

use super::{
    AlterRoutine, AlterTable, CommentCommand, ConstraintsCommand, CopyCommand, CreateIndex, CreateModule,
    CreateRoutine, CreateSchema, CreateTable, CreateTableAs, CreateView, DeclareCommand, DefaultPrivileges, Delete,
    DiscardTarget, DropCommand, DropDatabase, DropModules, DropOwned, DropRoutines, ExecuteCommand, ExplainCommand,
    FetchCommand, FunctionCall, GrantCommand, GrantRoleCommand, Insert, LockCommand, MaintenanceCommand, Name,
    OwnModule, OwnerCommand, PrepareCommand, Query, ReassignOwned, RenameCommand, RoleDefinition, RoleName,
    RoleSetting, RoutineComment, SequenceDefinition, SetCommand, SetSchemaCommand, SettingName, TransactionCommand,
    TruncateCommand, UnsupportedStatement, Update,
};

/// Statement.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Statement {
    Query(Box<Query>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Transaction(TransactionCommand),
    Set(SetCommand),
    Reset(SettingName),
    Show(SettingName),
    Discard(DiscardTarget),
    Constraints(ConstraintsCommand),
    Prepare(Box<PrepareCommand>),
    Execute(ExecuteCommand),
    /// `DEALLOCATE` of a prepared statement, or of all for `None`.
    Deallocate(Option<Name>),
    Declare(Box<DeclareCommand>),
    Fetch(FetchCommand),
    /// `CLOSE` of a cursor, or of all for `None`.
    Close(Option<Name>),
    Copy(Box<CopyCommand>),
    Explain(Box<ExplainCommand>),
    Lock(LockCommand),
    CreateTable(Box<CreateTable>),
    CreateTableAs(Box<CreateTableAs>),
    CreateIndex(Box<CreateIndex>),
    CreateView(Box<CreateView>),
    CreateSequence(Box<SequenceDefinition>),
    CreateSchema(CreateSchema),
    CreateRoutine(Box<CreateRoutine>),
    CreateModule(Box<CreateModule>),
    CreateRole(RoleDefinition),
    /// `GRANT` or `REVOKE` of privileges.
    Grant(Box<GrantCommand>),
    /// `GRANT` or `REVOKE` of roles.
    GrantRole(Box<GrantRoleCommand>),
    DefaultPrivileges(Box<DefaultPrivileges>),
    DropOwned(DropOwned),
    ReassignOwned(ReassignOwned),
    AlterTable(Box<AlterTable>),
    AlterRoutine(Box<AlterRoutine>),
    AlterSequence(Box<SequenceDefinition>),
    AlterRole(RoleDefinition),
    RenameRole(RoleName, Name),
    RoleSetting(Box<RoleSetting>),
    Rename(RenameCommand),
    SetSchema(SetSchemaCommand),
    Owner(OwnerCommand),
    OwnModule(OwnModule),
    Drop(DropCommand),
    DropDatabase(DropDatabase),
    DropRoutines(DropRoutines),
    DropModules(DropModules),
    Truncate(TruncateCommand),
    Comment(CommentCommand),
    CommentRoutine(RoutineComment),
    /// `CALL` of a procedure.
    Call(Box<FunctionCall>),
    Maintenance(MaintenanceCommand),
    /// `UNLISTEN` on a channel, or on all for `None`.
    Unlisten(Option<Name>),
    Unsupported(UnsupportedStatement),
}
