//! `CREATE`, `ALTER` and `DROP ROLE` as changes of roles.

use settings::roles::change::{RoleChange, RoleOptionChange};
use sqlparser::ast::{self, AlterRoleOperation, CreateRole, Password, ResetConfig, RoleOption, SetConfigValue};
use statement::error::{SqlError, SqlResult, SqlState};
use syntax::parse::{folded, set_value};

/// Nothing for what says that a role has not what none has.
fn option(option: &RoleOption) -> SqlResult<Option<RoleOptionChange>> {
    Ok(Some(match option {
        RoleOption::SuperUser(is) => RoleOptionChange::Superuser(*is),
        RoleOption::CreateRole(may) => RoleOptionChange::CreateRole(*may),
        RoleOption::CreateDB(may) => RoleOptionChange::CreateDb(*may),
        RoleOption::Inherit(does) => RoleOptionChange::Inherit(*does),
        RoleOption::Login(may) => RoleOptionChange::Login(*may),
        RoleOption::ConnectionLimit(limit) => RoleOptionChange::ConnectionLimit(number(limit)?),
        RoleOption::Password(Password::NullPassword) => RoleOptionChange::Password(None),
        RoleOption::Password(Password::Password(password)) => RoleOptionChange::Password(Some(set_value(password)?)),
        RoleOption::BypassRLS(false) | RoleOption::Replication(false) => return Ok(None),
        RoleOption::BypassRLS(true) => RoleOptionChange::OfSuperusers("BYPASSRLS"),
        RoleOption::Replication(true) => RoleOptionChange::OfSuperusers("REPLICATION"),
        RoleOption::ValidUntil(_) => return Err(SqlError::unsupported("VALID UNTIL")),
    }))
}

fn number(value: &ast::Expr) -> SqlResult<i32> {
    let text = value.to_string();
    text.parse()
        .map_err(|_| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid connection limit: {text}")))
}

/// The last part of a name that has one part only, or of a setting's that may have two.
fn joined(name: &ast::ObjectName) -> SqlResult<String> {
    let part = |part: &ast::ObjectNamePart| match part {
        ast::ObjectNamePart::Identifier(ident) => Ok(folded(ident)),
        ast::ObjectNamePart::Function(_) => Err(SqlError::unsupported("a function in a name")),
    };
    Ok(name.0.iter().map(part).collect::<SqlResult<Vec<_>>>()?.join("."))
}

/// Reads a `CREATE ROLE`.
pub(crate) fn create(create: &CreateRole) -> SqlResult<RoleChange> {
    let CreateRole {
        names,
        if_not_exists,
        login,
        inherit,
        bypassrls,
        password,
        superuser,
        create_db,
        create_role,
        replication,
        connection_limit,
        valid_until,
        in_role,
        in_group,
        role,
        user,
        admin,
        authorization_owner,
    } = create;
    let members = [in_role, in_group, role, user, admin];
    for (is_there, what) in [
        (*if_not_exists, "CREATE ROLE IF NOT EXISTS"),
        (*bypassrls == Some(true), "BYPASSRLS"),
        (*replication == Some(true), "REPLICATION"),
        (valid_until.is_some(), "VALID UNTIL"),
        (members.iter().any(|names| !names.is_empty()), "membership in roles"),
        (authorization_owner.is_some(), "AUTHORIZATION"),
    ] {
        if is_there {
            return Err(SqlError::unsupported(what));
        }
    }
    let mut options: Vec<RoleOptionChange> = [
        superuser.map(RoleOptionChange::Superuser),
        create_role.map(RoleOptionChange::CreateRole),
        create_db.map(RoleOptionChange::CreateDb),
        inherit.map(RoleOptionChange::Inherit),
        login.map(RoleOptionChange::Login),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let Some(limit) = connection_limit {
        options.push(RoleOptionChange::ConnectionLimit(number(limit)?));
    }
    match password {
        None => {}
        Some(Password::NullPassword) => options.push(RoleOptionChange::Password(None)),
        Some(Password::Password(password)) => options.push(RoleOptionChange::Password(Some(set_value(password)?))),
    }
    let names = names.iter().map(joined).collect::<SqlResult<_>>()?;
    Ok(RoleChange::Create { names, options, numbers: Vec::new() })
}

/// Reads an `ALTER ROLE`.
pub(crate) fn alter(name: &ast::Ident, operation: &AlterRoleOperation) -> SqlResult<RoleChange> {
    let is_all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
    let name = folded(name);
    let role = |database: &Option<String>| match (is_all, database) {
        (false, _) => Ok(Some(name.clone())),
        (true, Some(_)) => Ok(None),
        (true, None) => Err(SqlError::unsupported("ALTER ROLE ALL without a database")),
    };
    Ok(match operation {
        AlterRoleOperation::WithOptions { options } => RoleChange::Alter {
            name,
            options: options.iter().filter_map(|one| option(one).transpose()).collect::<SqlResult<_>>()?,
        },
        AlterRoleOperation::RenameRole { role_name } => RoleChange::Rename { name, to: folded(role_name) },
        AlterRoleOperation::Set { config_name, config_value, in_database } => {
            let database = in_database.as_ref().map(joined).transpose()?;
            let value = match config_value {
                SetConfigValue::Default => None,
                SetConfigValue::FromCurrent => return Err(SqlError::unsupported("SET FROM CURRENT")),
                SetConfigValue::Value(value) => Some(set_value(value)?),
            };
            RoleChange::Set { role: role(&database)?, database, setting: Some(joined(config_name)?), value }
        }
        AlterRoleOperation::Reset { config_name, in_database } => {
            let database = in_database.as_ref().map(joined).transpose()?;
            let setting = match config_name {
                ResetConfig::ALL => None,
                ResetConfig::ConfigName(name) => Some(joined(name)?),
            };
            RoleChange::Set { role: role(&database)?, database, setting, value: None }
        }
        AlterRoleOperation::AddMember { member_name: _ } | AlterRoleOperation::DropMember { member_name: _ } => {
            return Err(SqlError::unsupported("membership in roles"));
        }
    })
}

/// Reads a `DROP ROLE`.
pub(crate) fn drop(names: &[ast::ObjectName], if_exists: bool) -> SqlResult<RoleChange> {
    Ok(RoleChange::Drop { names: names.iter().map(joined).collect::<SqlResult<_>>()?, if_exists })
}
