//! Statements about roles, and settings of roles and databases, as changes of roles.

use crate::context::{value_of, zone_value};
use query::bind::Binder;
use settings::roles::change::{RoleChange, RoleOptionChange};
use statement::error::{SqlError, SqlResult, SqlState};
use std::mem::{Discriminant, discriminant};
use syntax::ast::{
    GrantRoleCommand, RoleDefinition, RoleName, RoleOption, RoleSetting, SetTarget, SettingChange, SettingName,
    Statement,
};
use syntax::lex::Span;

/// Returns the change that a statement about roles makes.
///
/// # Errors
/// `42601`: an option is given twice. `42939`, `0A000`
pub(crate) fn change(binder: &Binder<'_>, statement: &Statement) -> SqlResult<RoleChange> {
    match statement {
        Statement::CreateRole(definition) => {
            let RoleDefinition { name, options } = definition;
            let names = vec![new_name(name)?];
            let [of, members, admins] = memberships(binder, options);
            let (options, numbers) = (changes(binder, options, true)?, Vec::new());
            Ok(RoleChange::Create { names, options, numbers, of, members, admins })
        }
        Statement::AlterRole(definition) => {
            let RoleDefinition { name, options } = definition;
            if options.iter().any(|(option, _)| matches!(option, RoleOption::Members(_))) {
                return Err(SqlError::unsupported("USER in ALTER ROLE"));
            }
            Ok(RoleChange::Alter { name: known(binder, name), options: changes(binder, options, false)? })
        }
        Statement::RenameRole(name, to) => Ok(RoleChange::Rename { name: known(binder, name), to: to.to_string() }),
        Statement::RoleSetting(setting) => set(binder, setting),
        Statement::GrantRole(grant) => granted(binder, grant),
        Statement::Drop(drop) => {
            let names = drop.names.iter().map(ToString::to_string).collect();
            Ok(RoleChange::Drop { names, if_exists: drop.if_exists })
        }
        _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a statement that is not about roles")),
    }
}

/// Returns the change of a `GRANT` or `REVOKE` of roles.
fn granted(binder: &Binder<'_>, command: &GrantRoleCommand) -> SqlResult<RoleChange> {
    // A membership on which others depend goes with them: there are no grantors to follow.
    let GrantRoleCommand { is_grant, has_option, roles, members, grantor, is_cascading: _ } = command;
    if roles.iter().any(|role| !role.columns.is_empty()) {
        let message = "column names cannot be included in GRANT/REVOKE ROLE";
        return Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
    }
    let roles = roles.iter().filter_map(|role| role.name.as_ref()).map(ToString::to_string).collect();
    let members = members.iter().map(|member| known(binder, member)).collect();
    let grantor = grantor.as_ref().map(|grantor| known(binder, grantor));
    Ok(match is_grant {
        true => RoleChange::Grant { roles, members, is_admin: *has_option, grantor },
        false => RoleChange::Revoke { roles, members, is_admin_only: *has_option, grantor },
    })
}

/// Returns the roles that a new one is a member of, its members, and those with the admin option.
fn memberships(binder: &Binder<'_>, options: &[(RoleOption, Span)]) -> [Vec<String>; 3] {
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    for (option, _) in options {
        let (at, roles) = match option {
            RoleOption::InRoles(roles) => (0, roles),
            RoleOption::Members(roles) => (1, roles),
            RoleOption::Admins(roles) => (2, roles),
            _ => continue,
        };
        all[at].extend(roles.iter().map(|role| known(binder, role)));
    }
    all
}

/// Returns the name of an existing role.
fn known(binder: &Binder<'_>, role: &RoleName) -> String {
    match role {
        RoleName::Named(name) => name.to_string(),
        RoleName::CurrentRole | RoleName::CurrentUser => binder.env.user().to_owned(),
        RoleName::SessionUser => binder.env.session_user().to_owned(),
        // No role has this name, and the lookup reports that.
        RoleName::Public => "public".to_owned(),
    }
}

/// Returns the name of a new role.
fn new_name(role: &RoleName) -> SqlResult<String> {
    let word = match role {
        RoleName::Named(name) => return Ok(name.to_string()),
        RoleName::Public => return Ok("public".to_owned()),
        RoleName::CurrentRole => "CURRENT_ROLE",
        RoleName::CurrentUser => "CURRENT_USER",
        RoleName::SessionUser => "SESSION_USER",
    };
    Err(SqlError::new(SqlState::RESERVED_NAME, format!("{word} cannot be used as a role name here")))
}

fn changes(binder: &Binder<'_>, options: &[(RoleOption, Span)], is_new: bool) -> SqlResult<Vec<RoleOptionChange>> {
    let mut said: Vec<Discriminant<RoleOption>> = Vec::new();
    let mut changes = Vec::new();
    for (option, span) in options {
        let kind = discriminant(option);
        if said.contains(&kind) {
            let error = SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options");
            return Err(binder.at_place(error, *span));
        }
        said.push(kind);
        changes.extend(change_of(binder, option, is_new)?);
    }
    Ok(changes)
}

/// Returns the change that an option makes; `None` if the option denies an attribute that no role has here.
fn change_of(binder: &Binder<'_>, option: &RoleOption, is_new: bool) -> SqlResult<Option<RoleOptionChange>> {
    let of_superusers = |word: &'static str| match is_new {
        true => Err(SqlError::unsupported(word)),
        false => Ok(Some(RoleOptionChange::OfSuperusers(word))),
    };
    Ok(Some(match option {
        RoleOption::Superuser(is) => RoleOptionChange::Superuser(*is),
        RoleOption::CreateRole(may) => RoleOptionChange::CreateRole(*may),
        RoleOption::CreateDb(may) => RoleOptionChange::CreateDb(*may),
        RoleOption::Inherit(does) => RoleOptionChange::Inherit(*does),
        RoleOption::Login(may) => RoleOptionChange::Login(*may),
        RoleOption::ConnectionLimit(limit) => RoleOptionChange::ConnectionLimit(*limit),
        RoleOption::Password(password) => RoleOptionChange::Password(password.as_deref().map(str::to_owned)),
        RoleOption::Tenant(tenant) => RoleOptionChange::Tenant(tenant.as_ref().map(|role| known(binder, role))),
        // Memberships are no attributes of the role itself.
        RoleOption::InRoles(_) | RoleOption::Members(_) | RoleOption::Admins(_) => return Ok(None),
        RoleOption::BypassRls(false) | RoleOption::Replication(false) => return Ok(None),
        RoleOption::BypassRls(true) => return of_superusers("BYPASSRLS"),
        RoleOption::Replication(true) => return of_superusers("REPLICATION"),
        RoleOption::ValidUntil(_) => return Err(SqlError::unsupported("VALID UNTIL")),
        RoleOption::Unsupported(feature) => return Err(SqlError::unsupported(feature)),
    }))
}

/// Returns the change of `ALTER ROLE … SET` or `ALTER DATABASE … SET`.
fn set(binder: &Binder<'_>, setting: &RoleSetting) -> SqlResult<RoleChange> {
    let RoleSetting { role, database, change } = setting;
    if role.is_none() && database.is_none() {
        return Err(SqlError::unsupported("ALTER ROLE ALL without a database"));
    }
    let (setting, value) = match change {
        SettingChange::Set(target) => {
            let (name, value) = assigned(binder, target)?;
            (Some(name), value)
        }
        SettingChange::Reset(SettingName::All) => (None, None),
        SettingChange::Reset(SettingName::Named(name)) => (Some(name.to_string()), None),
    };
    let role = role.as_ref().map(|role| known(binder, role));
    let database = database.as_ref().map(ToString::to_string);
    Ok(RoleChange::Set { role, database, setting, value })
}

/// Returns the name and the value of a setting; without a value the setting gets its default.
fn assigned(binder: &Binder<'_>, target: &SetTarget) -> SqlResult<(String, Option<String>)> {
    Ok(match target {
        SetTarget::Setting(name, values) => {
            let name = name.to_string();
            let value = value_of(&name, values)?;
            (name, value)
        }
        SetTarget::TimeZone(zone) => ("timezone".to_owned(), zone_value(binder, zone.as_ref())?),
        SetTarget::FromCurrent(_) => return Err(SqlError::unsupported("SET FROM CURRENT")),
        SetTarget::Transaction(_) => return Err(SqlError::unsupported("SET TRANSACTION of a role")),
        SetTarget::Characteristics(_) => {
            return Err(SqlError::unsupported("SET SESSION CHARACTERISTICS of a role"));
        }
    })
}
