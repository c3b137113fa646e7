//! `GRANT` and `REVOKE`, default privileges, and what roles own.

use super::{Name, ObjectName, RoleName, RoutineName, RoutineWord};
use crate::lex::Span;

/// `GRANT` or `REVOKE` of privileges on objects.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantCommand {
    /// Privileges, grantees, and whether they are given or taken.
    pub change: PrivilegeChange,
    /// Objects.
    pub on: GrantObjects,
    /// `GRANTED BY`
    pub grantor: Option<RoleName>,
}

/// Change of privileges: part of `GRANT`, `REVOKE` and `ALTER DEFAULT PRIVILEGES`.
#[derive(Clone, Debug, PartialEq)]
pub struct PrivilegeChange {
    /// True for `GRANT`, false for `REVOKE`.
    pub is_grant: bool,
    /// True with `WITH GRANT OPTION`, or with `GRANT OPTION FOR`.
    pub has_option: bool,
    /// Privileges; empty for all of them.
    pub privileges: Vec<PrivilegeItem>,
    /// Roles that get or lose them.
    pub grantees: Vec<RoleName>,
    /// True with `CASCADE`.
    pub is_cascading: bool,
}

/// Privilege of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct PrivilegeItem {
    /// Name of the privilege; `None` for all privileges of the columns.
    pub name: Option<Name>,
    /// Columns, if the privilege is for these alone.
    pub columns: Vec<Name>,
}

/// Objects of a `GRANT`.
#[derive(Clone, Debug, PartialEq)]
pub enum GrantObjects {
    /// `TABLE`, or no word: tables, views and sequences.
    Tables(Vec<ObjectName>),
    /// `SEQUENCE`
    Sequences(Vec<ObjectName>),
    /// `DATABASE`
    Databases(Vec<Name>),
    /// `SCHEMA`
    Schemas(Vec<Name>),
    /// `FUNCTION`, `PROCEDURE` or `ROUTINE`
    Routines(RoutineWord, Vec<RoutineName>),
    /// `ALL TABLES IN SCHEMA` and its like.
    AllInSchemas(GrantKind, Vec<Name>),
}

/// Kind of the objects of `ALL … IN SCHEMA` and of default privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum GrantKind {
    Tables,
    Sequences,
    Routines(RoutineWord),
    /// Only of default privileges.
    Types,
    /// Only of default privileges.
    Schemas,
}

/// `GRANT` or `REVOKE` of roles.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantRoleCommand {
    /// True for `GRANT`, false for `REVOKE`.
    pub is_grant: bool,
    /// True with `WITH ADMIN OPTION`, or with `ADMIN OPTION FOR`.
    pub has_option: bool,
    /// Roles. The grammar allows columns behind their names.
    pub roles: Vec<PrivilegeItem>,
    /// Roles that become members, or cease to be.
    pub members: Vec<RoleName>,
    /// `GRANTED BY`
    pub grantor: Option<RoleName>,
    /// True with `CASCADE`.
    pub is_cascading: bool,
}

/// `ALTER DEFAULT PRIVILEGES`
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultPrivileges {
    /// Roles of `FOR ROLE`; empty for the current one.
    pub roles: Vec<RoleName>,
    /// Schemas of `IN SCHEMA`; empty for all.
    pub schemas: Vec<Name>,
    /// Place of a clause that was written before.
    pub repeated: Option<Span>,
    /// Change.
    pub change: PrivilegeChange,
    /// Kind of the objects.
    pub kind: GrantKind,
}

/// `DROP OWNED BY`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropOwned {
    /// Roles.
    pub roles: Vec<RoleName>,
    /// True with `CASCADE`.
    pub is_cascading: bool,
}

/// `REASSIGN OWNED BY`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReassignOwned {
    /// Roles.
    pub roles: Vec<RoleName>,
    /// New owner.
    pub to: RoleName,
}
