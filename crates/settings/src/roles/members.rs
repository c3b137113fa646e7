//! Membership of roles in roles.
//!
//! **Invariant:** no role is a member of itself, at any distance.

use super::{DATABASE_OWNER, FIRST_OID, Roles, RolesState};

/// Membership of a role in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// OID of the role that the member belongs to.
    pub role: u32,
    /// OID of the role that has granted the membership.
    pub grantor: u32,
    /// True for `WITH ADMIN OPTION`: the member may grant the membership to others.
    pub is_admin: bool,
}

impl RolesState {
    /// Returns the role, and all roles that it is a member of, at any distance. With `inherits`, only roles whose
    /// rights it has without `SET ROLE`.
    fn closure(&self, member: u32, inherits: bool) -> Vec<u32> {
        let mut all = vec![member];
        let mut at = 0;
        while let Some(&oid) = all.get(at) {
            at += 1;
            // The superuser of the first database owns it.
            let implied = (oid == FIRST_OID).then_some(DATABASE_OWNER);
            let Some(role) = self.numbered(oid).filter(|role| !inherits || role.inherits) else { continue };
            for of in role.member_of.iter().map(|membership| membership.role).chain(implied) {
                if !all.contains(&of) {
                    all.push(of);
                }
            }
        }
        all
    }

    fn is_superuser(&self, oid: u32) -> bool {
        self.numbered(oid).is_some_and(|role| role.is_superuser)
    }
}

impl Roles {
    /// Returns true if the role is a superuser.
    pub fn is_superuser(&self, oid: u32) -> bool {
        self.read().is_superuser(oid)
    }

    /// Returns the roles whose rights a role has: its own, and those of the roles from which it inherits.
    pub fn inherited(&self, member: u32) -> Vec<u32> {
        self.read().closure(member, true)
    }

    /// Returns true if a role has the rights of another: it is that role, inherits from it, or is a superuser.
    pub fn has_rights_of(&self, member: u32, role: u32) -> bool {
        if member == role {
            return true;
        }
        let state = self.read();
        state.is_superuser(member) || state.closure(member, true).contains(&role)
    }

    /// Returns true if a role may become another by `SET ROLE`: it is that role, a member of it, or a superuser.
    pub fn may_become(&self, member: u32, role: u32) -> bool {
        member == role || self.is_superuser(member) || self.is_member(member, role)
    }

    /// Returns true if a role is another, or a member of it, whether or not it inherits. Superusers are no exception.
    pub fn is_member(&self, member: u32, role: u32) -> bool {
        member == role || self.read().closure(member, false).contains(&role)
    }

    /// Returns true if a role may grant membership in another: it has the admin option, itself or by a role that it is
    /// a member of, or is a superuser.
    pub fn is_admin(&self, member: u32, role: u32) -> bool {
        let state = self.read();
        if state.is_superuser(member) {
            return true;
        }
        let has_option = |of: &u32| {
            let mut all = state.numbered(*of).into_iter().flat_map(|role| &role.member_of);
            all.any(|membership| membership.role == role && membership.is_admin)
        };
        member != role && state.closure(member, false).iter().any(has_option)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Role;
    use super::*;

    /// Creates roles `a`, `b`, `c`: `a` is a member of `b`, `b` of `c` with the admin option. `b` does not inherit.
    fn chain() -> (Roles, [u32; 3]) {
        let roles = Roles::of_a_fresh_server();
        let of = |role: &str, is_admin| {
            let role = roles.oid_of(role).unwrap();
            vec![Membership { role, grantor: FIRST_OID, is_admin }]
        };
        roles.put("c", Role::default());
        roles.put("b", Role { inherits: false, member_of: of("c", true), ..Role::default() });
        roles.put("a", Role { member_of: of("b", false), ..Role::default() });
        let oids = ["a", "b", "c"].map(|name| roles.oid_of(name).unwrap());
        (roles, oids)
    }

    #[test]
    fn rights_are_inherited_up_to_a_role_that_does_not_inherit() {
        let (roles, [a, b, c]) = chain();
        assert!(roles.has_rights_of(a, b));
        assert!(!roles.has_rights_of(a, c));
        assert!(!roles.has_rights_of(b, c));
        assert!(roles.may_become(a, c));
        assert!(!roles.may_become(c, a));
        assert_eq!(roles.inherited(a), [a, b]);
    }

    #[test]
    fn the_admin_option_reaches_members_of_its_holder() {
        let (roles, [a, b, c]) = chain();
        assert!(roles.is_admin(b, c));
        assert!(roles.is_admin(a, c));
        assert!(!roles.is_admin(a, b));
        assert!(!roles.is_admin(c, c));
        assert!(roles.is_admin(FIRST_OID, c));
    }

    #[test]
    fn every_change_gives_the_roles_another_version() {
        let (roles, _) = chain();
        let before = roles.version();
        roles.put("d", Role::default());
        let made = roles.version();
        roles.remove("d");
        assert!(before != made && made != roles.version());
    }

    #[test]
    fn the_database_belongs_to_the_first_superuser_and_monitors_see_statistics() {
        let roles = Roles::of_a_fresh_server();
        assert!(roles.is_member(FIRST_OID, DATABASE_OWNER));
        let (monitor, stats) = (roles.oid_of("pg_monitor").unwrap(), roles.oid_of("pg_read_all_stats").unwrap());
        assert!(roles.has_rights_of(monitor, stats));
    }
}
