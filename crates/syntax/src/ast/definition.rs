//! Definitions of tables, indexes, views, sequences, schemas and roles.

use super::{
    ExecuteCommand, Expr, KeptExpr, Name, NullsOrder, ObjectName, Query, SetTarget, SettingName, SortOrder, TypeName,
};
use crate::lex::Span;

/// `CREATE TABLE`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    /// Name of the table.
    pub name: ObjectName,
    /// Persistence of the table.
    pub persistence: Persistence,
    /// True with `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Columns, constraints and `LIKE`, in order.
    pub elements: Vec<TableElement>,
    /// Storage parameters of `WITH`.
    pub parameters: Vec<StorageParameter>,
    /// Clauses that are not supported here, in order: the features' names.
    pub unsupported: Vec<(&'static str, Span)>,
}

/// `CREATE TABLE … AS`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTableAs {
    /// Name of the table.
    pub name: ObjectName,
    /// Persistence of the table.
    pub persistence: Persistence,
    /// True with `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Names of the columns.
    pub columns: Vec<Name>,
    /// Storage parameters of `WITH`.
    pub parameters: Vec<StorageParameter>,
    /// Source of the rows.
    pub source: TableSource,
    /// False with `WITH NO DATA`.
    pub with_data: bool,
    /// Clauses that are not supported here, in order: the features' names.
    pub unsupported: Vec<(&'static str, Span)>,
}

/// Source of a new table's rows.
#[derive(Clone, Debug, PartialEq)]
pub enum TableSource {
    /// Query.
    Query(Box<Query>),
    /// Prepared statement.
    Execute(ExecuteCommand),
}

/// Persistence of a table, a view or a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum Persistence {
    Permanent,
    Temporary,
    Unlogged,
}

/// Element of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum TableElement {
    /// Column.
    Column(Box<ColumnDefinition>),
    /// Constraint of the table.
    Constraint(Box<TableConstraint>),
    /// `LIKE table`, with its options.
    Like {
        /// Table.
        table: ObjectName,
        /// `INCLUDING` and `EXCLUDING`, in order: true for the first.
        options: Vec<(bool, LikeOption)>,
        /// Place of the element.
        span: Span,
    },
}

/// Part of a table that `LIKE` takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum LikeOption {
    All,
    Comments,
    Compression,
    Constraints,
    Defaults,
    Generated,
    Identity,
    Indexes,
    Statistics,
    Storage,
}

/// Column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDefinition {
    /// Name of the column.
    pub name: Name,
    /// Type of the column.
    pub kind: TypeName,
    /// Constraints and other clauses, in order.
    pub clauses: Vec<ColumnClause>,
    /// Place of the column.
    pub span: Span,
}

/// Clause of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnClause {
    /// Name of the constraint.
    pub name: Option<Name>,
    /// Meaning of the clause.
    pub kind: ColumnClauseKind,
    /// Place of the clause.
    pub span: Span,
}

/// Meaning of a column's clause.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnClauseKind {
    /// `NOT NULL`
    NotNull,
    /// `NULL`
    Null,
    /// `DEFAULT`
    Default(KeptExpr),
    /// `CHECK`
    Check {
        /// Condition.
        condition: KeptExpr,
        /// True with `NO INHERIT`.
        no_inherit: bool,
    },
    /// `UNIQUE` or `PRIMARY KEY`
    Key(KeyOptions),
    /// `REFERENCES`
    References(Reference),
    /// `GENERATED … AS IDENTITY`
    Identity {
        /// True for `ALWAYS`.
        is_always: bool,
        /// Options of the sequence.
        options: Vec<SequenceOption>,
    },
    /// `GENERATED ALWAYS AS (expression) STORED`
    Generated(KeptExpr),
    /// `COLLATE`
    Collate(ObjectName),
    /// `COMPRESSION`
    Compression(Name),
    /// `DEFERRABLE` and the like, of the constraint before.
    Timing(ConstraintTiming),
}

/// Time at which a constraint is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum ConstraintTiming {
    Deferrable,
    NotDeferrable,
    InitiallyDeferred,
    InitiallyImmediate,
}

/// Options of a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyOptions {
    /// True for `PRIMARY KEY`.
    pub is_primary: bool,
    /// True with `NULLS NOT DISTINCT`.
    pub nulls_not_distinct: bool,
    /// Columns of `INCLUDE`.
    pub included: Vec<Name>,
    /// Storage parameters of the index.
    pub parameters: Vec<StorageParameter>,
    /// Tablespace of the index.
    pub tablespace: Option<Name>,
}

/// Reference of a foreign key.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Referenced table.
    pub table: ObjectName,
    /// Referenced columns; those of the primary key if none are named.
    pub columns: Vec<Name>,
    /// `MATCH`
    pub matching: MatchKind,
    /// `ON DELETE`
    pub on_delete: ReferenceAction,
    /// `ON UPDATE`
    pub on_update: ReferenceAction,
}

/// `MATCH` of a foreign key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum MatchKind {
    Simple,
    Full,
    Partial,
}

/// Action of a foreign key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum ReferenceAction {
    NoAction,
    Restrict,
    Cascade,
    /// `SET NULL` of the columns that are named.
    SetNull(Vec<Name>),
    SetDefault(Vec<Name>),
}

/// Constraint of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableConstraint {
    /// Name of the constraint.
    pub name: Option<Name>,
    /// Meaning of the constraint.
    pub kind: TableConstraintKind,
    /// `DEFERRABLE` and the like, in order.
    pub timing: Vec<ConstraintTiming>,
    /// True with `NOT VALID`.
    pub is_not_valid: bool,
    /// Place of the constraint.
    pub span: Span,
}

/// Meaning of a table's constraint.
#[derive(Clone, Debug, PartialEq)]
pub enum TableConstraintKind {
    /// `CHECK`
    Check {
        /// Condition.
        condition: KeptExpr,
        /// True with `NO INHERIT`.
        no_inherit: bool,
    },
    /// `UNIQUE` or `PRIMARY KEY` over these columns.
    Key(KeyOptions, Vec<Name>),
    /// `UNIQUE USING INDEX` or `PRIMARY KEY USING INDEX`: true for the second.
    KeyUsingIndex(bool, Name),
    /// `FOREIGN KEY`
    Foreign(Vec<Name>, Reference),
    /// `EXCLUDE`
    Exclude,
}

/// Storage parameter, or option of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageParameter {
    /// Name, perhaps qualified.
    pub name: ObjectName,
    /// Value as it is written.
    pub value: Option<Box<str>>,
}

/// `CREATE INDEX`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// Name of the index.
    pub name: Option<Name>,
    /// Table.
    pub table: ObjectName,
    /// True with `UNIQUE`.
    pub is_unique: bool,
    /// True with `CONCURRENTLY`.
    pub is_concurrent: bool,
    /// True with `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Kind of the index.
    pub method: Option<Name>,
    /// Keys.
    pub keys: Vec<IndexKey>,
    /// Columns of `INCLUDE`.
    pub included: Vec<IndexKey>,
    /// True with `NULLS NOT DISTINCT`.
    pub nulls_not_distinct: bool,
    /// Storage parameters.
    pub parameters: Vec<StorageParameter>,
    /// Tablespace.
    pub tablespace: Option<Name>,
    /// Predicate of a partial index.
    pub predicate: Option<Expr>,
}

/// Key of an index.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct IndexKey {
    /// Column, or expression.
    pub value: Expr,
    /// Collation.
    pub collation: Option<ObjectName>,
    /// Operator class.
    pub class: Option<ObjectName>,
    /// True if the operator class has parameters.
    pub has_class_options: bool,
    /// Direction.
    pub order: SortOrder,
    /// Place of nulls.
    pub nulls: NullsOrder,
    /// Place of the key.
    pub span: Span,
}

/// `CREATE VIEW`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// Name of the view.
    pub name: ObjectName,
    /// Persistence of the view.
    pub persistence: Persistence,
    /// True with `OR REPLACE`.
    pub or_replace: bool,
    /// True with `RECURSIVE`.
    pub is_recursive: bool,
    /// Names of the columns.
    pub columns: Vec<Name>,
    /// Options of `WITH`.
    pub options: Vec<StorageParameter>,
    /// Query.
    pub query: Query,
    /// Place of the query's text, with parentheses around it.
    pub extent: Span,
    /// True with `WITH CHECK OPTION`.
    pub has_check_option: bool,
}

/// `CREATE SEQUENCE`, or `ALTER SEQUENCE`.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceDefinition {
    /// Name of the sequence.
    pub name: ObjectName,
    /// Persistence of the sequence.
    pub persistence: Persistence,
    /// True with `IF NOT EXISTS`, or `IF EXISTS`.
    pub has_condition: bool,
    /// Options in order.
    pub options: Vec<SequenceOption>,
}

/// Option of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceOption {
    /// Meaning of the option.
    pub kind: SequenceOptionKind,
    /// Place of the option.
    pub span: Span,
}

/// Meaning of a sequence's option. Numbers are as they are written.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum SequenceOptionKind {
    As(TypeName),
    Cache(Box<str>),
    Cycle(bool),
    Increment(Box<str>),
    MaxValue(Box<str>),
    NoMaxValue,
    MinValue(Box<str>),
    NoMinValue,
    OwnedBy(ObjectName),
    SequenceName(ObjectName),
    Start(Box<str>),
    Restart(Option<Box<str>>),
    Logged,
    Unlogged,
}

/// `CREATE SCHEMA`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSchema {
    /// Name of the schema; `None` for that of its owner.
    pub name: Option<Name>,
    /// Owner.
    pub owner: Option<RoleName>,
    /// True with `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// True if it contains definitions of objects.
    pub has_elements: bool,
}

/// Role, by name or by a word for the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum RoleName {
    Named(Name),
    CurrentRole,
    CurrentUser,
    SessionUser,
    Public,
}

/// Kind of an object that is dropped, renamed, moved or commented on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum ObjectKind {
    Table,
    View,
    Index,
    Sequence,
    Schema,
    Column,
    Constraint,
    Database,
    Role,
}

/// `DROP`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropCommand {
    /// Kind of the objects.
    pub kind: ObjectKind,
    /// Objects.
    pub names: Vec<ObjectName>,
    /// True with `IF EXISTS`.
    pub if_exists: bool,
    /// True with `CASCADE`.
    pub is_cascading: bool,
    /// True with `CONCURRENTLY`.
    pub is_concurrent: bool,
}

/// `TRUNCATE`
#[derive(Clone, Debug, PartialEq)]
pub struct TruncateCommand {
    /// Tables.
    pub tables: Vec<super::TableItem>,
    /// True with `RESTART IDENTITY`.
    pub restarts: bool,
    /// True with `CASCADE`.
    pub is_cascading: bool,
}

/// `COMMENT ON`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentCommand {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Object; of a constraint, its name alone.
    pub name: ObjectName,
    /// Table of a constraint.
    pub table: Option<ObjectName>,
    /// Text; `None` removes the comment.
    pub text: Option<Box<str>>,
}

/// `ALTER … RENAME`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenameCommand {
    /// Kind of the object, by the statement's first words.
    pub kind: ObjectKind,
    /// Object.
    pub name: ObjectName,
    /// Column or constraint of it that is renamed.
    pub part: Option<(ObjectKind, Name)>,
    /// New name.
    pub to: Name,
    /// True with `IF EXISTS`.
    pub if_exists: bool,
}

/// `ALTER … SET SCHEMA`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSchemaCommand {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Object.
    pub name: ObjectName,
    /// New schema.
    pub schema: Name,
    /// True with `IF EXISTS`.
    pub if_exists: bool,
}

/// `ALTER … OWNER TO`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerCommand {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Object.
    pub name: ObjectName,
    /// New owner.
    pub owner: RoleName,
    /// True with `IF EXISTS`.
    pub if_exists: bool,
}

/// `ALTER TABLE`, and `ALTER INDEX`, `ALTER VIEW` and `ALTER SEQUENCE` where they are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Object.
    pub name: ObjectName,
    /// True with `IF EXISTS`.
    pub if_exists: bool,
    /// True with `ONLY`.
    pub is_only: bool,
    /// Actions in order.
    pub actions: Vec<AlterAction>,
}

/// Action of an `ALTER TABLE`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterAction {
    /// Meaning of the action.
    pub kind: AlterActionKind,
    /// Place of the action.
    pub span: Span,
}

/// Meaning of an action.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum AlterActionKind {
    AddColumn {
        column: Box<ColumnDefinition>,
        if_not_exists: bool,
    },
    DropColumn {
        name: Name,
        if_exists: bool,
        is_cascading: bool,
    },
    SetDefault {
        column: Name,
        value: KeptExpr,
    },
    DropDefault {
        column: Name,
    },
    SetNotNull {
        column: Name,
    },
    DropNotNull {
        column: Name,
    },
    SetType {
        column: Name,
        kind: TypeName,
        collation: Option<ObjectName>,
        using: Option<Expr>,
    },
    AddIdentity {
        column: Name,
        is_always: bool,
        options: Vec<SequenceOption>,
    },
    /// `SET GENERATED`, `SET option` and `RESTART`, in order: true for `ALWAYS`.
    SetIdentity {
        column: Name,
        generated: Vec<bool>,
        options: Vec<SequenceOption>,
    },
    DropIdentity {
        column: Name,
        if_exists: bool,
    },
    /// `SET (…)` and `RESET (…)` of a column.
    ColumnOptions {
        column: Name,
        options: Vec<StorageParameter>,
    },
    AddConstraint(Box<TableConstraint>),
    AlterConstraint(Name),
    ValidateConstraint(Name),
    DropConstraint {
        name: Name,
        if_exists: bool,
        is_cascading: bool,
    },
    SetOptions(Vec<StorageParameter>),
    ResetOptions(Vec<StorageParameter>),
    SetLogged,
    SetUnlogged,
    WithoutOids,
    OwnerTo(RoleName),
    /// Action that is not supported here: the feature's name.
    Unsupported(Box<str>),
}

/// `CREATE ROLE`, `CREATE USER` or `CREATE GROUP`, and `ALTER ROLE`.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleDefinition {
    /// Name of the role.
    pub name: RoleName,
    /// Options in order, with their places.
    pub options: Vec<(RoleOption, Span)>,
}

/// Option of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum RoleOption {
    Superuser(bool),
    CreateRole(bool),
    CreateDb(bool),
    Inherit(bool),
    Login(bool),
    Replication(bool),
    BypassRls(bool),
    ConnectionLimit(i32),
    /// Password; `None` for `PASSWORD NULL`.
    Password(Option<Box<str>>),
    ValidUntil(Box<str>),
    /// `IN ROLE`: roles that the new one becomes a member of.
    InRoles(Vec<RoleName>),
    /// `ROLE`, and `USER` of old: members of the new role, or of the changed one.
    Members(Vec<RoleName>),
    /// `ADMIN`: members with the admin option.
    Admins(Vec<RoleName>),
    /// Tenant of the role, which is a role; `None` for `NOTENANT`. PostgreSQL does not have this option.
    Tenant(Option<RoleName>),
    /// Options that are not supported here: the feature's name.
    Unsupported(&'static str),
}

/// `ALTER ROLE … SET` and `ALTER DATABASE … SET`.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleSetting {
    /// Role; `None` for all.
    pub role: Option<RoleName>,
    /// Database; `None` for all.
    pub database: Option<Name>,
    /// Setting with its value, or the setting to reset.
    pub change: SettingChange,
}

/// Change of a role's or a database's setting.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingChange {
    /// `SET`
    Set(SetTarget),
    /// `RESET`
    Reset(SettingName),
}

/// `DROP DATABASE`
#[derive(Clone, Debug, PartialEq)]
pub struct DropDatabase {
    /// Name of the database.
    pub name: Name,
    /// True with `IF EXISTS`.
    pub if_exists: bool,
    /// True with `(FORCE)`.
    pub is_forced: bool,
}
