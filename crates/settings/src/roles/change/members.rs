//! `GRANT` and `REVOKE` of roles.

use super::super::{DATABASE_OWNER, FIRST_OID, Membership};
use super::{RoleChanger, denied, missing};
use statement::error::{SqlError, SqlResult, SqlState};

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_GRANT_OPERATION, message)
}

impl RoleChanger<'_> {
    /// Makes each of `members` a member of each of `roles`.
    pub(super) fn grant(
        &mut self,
        roles: &[String],
        members: &[String],
        is_admin: bool,
        grantor: Option<&str>,
    ) -> SqlResult<()> {
        let members = self.numbered(members)?;
        let grantor = self.grantor(grantor)?;
        for name in roles {
            let role = self.roles.oid_of(name).ok_or_else(|| missing(name))?;
            if members.is_empty() {
                continue;
            }
            self.may_grant(name, role)?;
            self.check_grantor(grantor)?;
            if role == DATABASE_OWNER {
                return Err(invalid(format!("role \"{name}\" cannot have explicit members")));
            }
            for (member_name, member) in &members {
                if *member == DATABASE_OWNER {
                    let message = format!("role \"{member_name}\" cannot be a member of any role");
                    return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
                }
                if self.roles.is_member(role, *member) {
                    return Err(invalid(format!("role \"{name}\" is a member of role \"{member_name}\"")));
                }
                self.add_member((name, role), member_name, Membership { role, grantor, is_admin });
            }
        }
        Ok(())
    }

    fn add_member(&mut self, (name, role): (&str, u32), member: &str, new: Membership) {
        let Some(mut own) = self.roles.get(member) else { return };
        match own.member_of.iter_mut().find(|membership| membership.role == role) {
            Some(before) if !new.is_admin || before.is_admin => {
                let message = format!("role \"{member}\" is already a member of role \"{name}\"");
                self.notices.push(("NOTICE", SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message)));
            }
            Some(before) => *before = new,
            None => own.member_of.push(new),
        }
        self.put(member, Some(own));
    }

    /// Ends the membership of each of `members` in each of `roles`, or only its admin option.
    pub(super) fn revoke(
        &mut self,
        roles: &[String],
        members: &[String],
        is_admin_only: bool,
        grantor: Option<&str>,
    ) -> SqlResult<()> {
        let members = self.numbered(members)?;
        let grantor = self.grantor(grantor)?;
        for name in roles {
            let role = self.roles.oid_of(name).ok_or_else(|| missing(name))?;
            if members.is_empty() {
                continue;
            }
            self.may_grant(name, role)?;
            self.check_grantor(grantor)?;
            for (member, _) in &members {
                self.remove_member(name, role, member, is_admin_only);
            }
        }
        Ok(())
    }

    fn remove_member(&mut self, name: &str, role: u32, member: &str, is_admin_only: bool) {
        let Some(mut own) = self.roles.get(member) else { return };
        let Some(at) = own.member_of.iter().position(|membership| membership.role == role) else {
            let message = format!("role \"{member}\" is not a member of role \"{name}\"");
            self.notices.push(("WARNING", SqlError::new(SqlState::WARNING, message)));
            return;
        };
        match is_admin_only {
            true => own.member_of[at].is_admin = false,
            false => drop(own.member_of.remove(at)),
        }
        self.put(member, Some(own));
    }

    /// Ends all memberships in a role that is dropped. Those that it has granted become the first role's.
    pub(super) fn forget_memberships(&mut self, dropped: u32) {
        for (name, mut role) in self.roles.all() {
            let names_it = |membership: &Membership| membership.role == dropped || membership.grantor == dropped;
            if role.member_of.iter().any(names_it) {
                role.member_of.retain(|membership| membership.role != dropped);
                for membership in role.member_of.iter_mut().filter(|membership| membership.grantor == dropped) {
                    membership.grantor = FIRST_OID;
                }
                self.put(&name, Some(role));
            }
        }
    }

    fn numbered(&self, names: &[String]) -> SqlResult<Vec<(String, u32)>> {
        let one = |name: &String| Ok((name.clone(), self.roles.oid_of(name).ok_or_else(|| missing(name))?));
        names.iter().map(one).collect()
    }

    fn own_oid(&self) -> u32 {
        self.roles.oid_of(self.user).unwrap_or(FIRST_OID)
    }

    fn grantor(&self, name: Option<&str>) -> SqlResult<u32> {
        name.map_or(Ok(self.own_oid()), |name| self.roles.oid_of(name).ok_or_else(|| missing(name)))
    }

    fn may_grant(&self, name: &str, role: u32) -> SqlResult<()> {
        let own = self.own();
        if self.roles.is_superuser(role) {
            return match own.is_superuser {
                true => Ok(()),
                false => Err(denied("must be superuser to alter superusers")),
            };
        }
        if own.is_superuser || own.may_create_roles || self.roles.is_admin(self.own_oid(), role) {
            return Ok(());
        }
        Err(denied(&format!("must have admin option on role \"{name}\"")))
    }

    fn check_grantor(&self, grantor: u32) -> SqlResult<()> {
        match grantor == self.own_oid() || self.own().is_superuser {
            true => Ok(()),
            false => Err(denied("must be superuser to set grantor")),
        }
    }
}
