//! Goal: lists change as PostgreSQL's do. Method: grants and revocations among four roles, and the texts of the lists.

use super::*;
use settings::roles::{Membership, Role};

/// Roles by number: the owner, two that are granted something, and a member of the first of these.
const OWNER: u32 = 100;
const ANN: u32 = 101;
const BOB: u32 = 102;
const CAT: u32 = 103;

fn roles() -> Roles {
    let roles = Roles::of_a_fresh_server();
    for (oid, name) in [(OWNER, "own"), (ANN, "ann"), (BOB, "bob")] {
        roles.put(name, Role { oid, ..Role::default() });
    }
    let member_of = vec![Membership { role: ANN, grantor: OWNER, is_admin: false }];
    roles.put("cat", Role { oid: CAT, member_of, ..Role::default() });
    roles
}

fn text(list: &Acl) -> String {
    let roles = roles();
    list.texts(|oid| roles.name_of(oid).map_or_else(|| oid.to_string(), |name| name.to_string()))
        .collect::<Vec<_>>()
        .join(",")
}

fn item(grantee: u32, grantor: u32, privileges: Privileges, options: Privileges) -> AclItem {
    AclItem { grantee, grantor, privileges, options }
}

const READ: Privileges = Privileges::SELECT;

/// List of a table that `ann` may read and let others read, and that `bob` may read by her grant.
fn chain() -> Acl {
    let (mut list, roles) = (Acl::default_of(AclKind::Table, OWNER), roles());
    list.grant(item(ANN, OWNER, READ, READ), OWNER, &roles).unwrap();
    list.grant(item(BOB, ANN, READ, READ), OWNER, &roles).unwrap();
    list
}

#[test]
fn a_new_object_has_the_list_of_its_kind() {
    for (kind, expected) in [
        (AclKind::Table, "own=arwdDxt/own"),
        (AclKind::Column, ""),
        (AclKind::Sequence, "own=rwU/own"),
        (AclKind::Database, "=Tc/own,own=CTc/own"),
        (AclKind::Schema, "own=UC/own"),
        (AclKind::Routine, "=X/own,own=X/own"),
        (AclKind::Type, "=U/own,own=U/own"),
    ] {
        assert_eq!(text(&Acl::default_of(kind, OWNER)), expected, "{kind:?}");
    }
}

#[test]
fn grants_of_one_grantor_are_one_item() {
    let (mut list, roles) = (chain(), roles());
    assert_eq!(text(&list), "own=arwdDxt/own,ann=r*/own,bob=r*/ann");
    list.grant(item(ANN, OWNER, Privileges::UPDATE, Privileges::NONE), OWNER, &roles).unwrap();
    list.grant(item(PUBLIC_ROLE, OWNER, READ, Privileges::NONE), OWNER, &roles).unwrap();
    assert_eq!(text(&list), "own=arwdDxt/own,ann=r*w/own,bob=r*/ann,=r/own");
}

#[test]
fn a_revoked_grant_option_takes_with_it_what_was_granted_by_it() {
    let (mut list, roles) = (chain(), roles());
    let option = item(ANN, OWNER, Privileges::NONE, READ);
    let error = list.clone().revoke(option, OWNER, false, &roles).unwrap_err();
    assert_eq!((error.state().0, error.message()), ("2BP01", "dependent privileges exist"));
    list.revoke(option, OWNER, true, &roles).unwrap();
    assert_eq!(text(&list), "own=arwdDxt/own,ann=r/own");
}

#[test]
fn what_another_grantor_has_given_too_stays() {
    let (mut list, roles) = (chain(), roles());
    list.grant(item(BOB, OWNER, READ, READ), OWNER, &roles).unwrap();
    list.grant(item(CAT, BOB, READ, Privileges::NONE), OWNER, &roles).unwrap();
    list.revoke(item(ANN, OWNER, READ, READ), OWNER, true, &roles).unwrap();
    assert_eq!(text(&list), "own=arwdDxt/own,bob=r*/own,cat=r/bob");
}

#[test]
fn no_grant_option_goes_in_a_circle_or_to_public() {
    let (mut list, roles) = (chain(), roles());
    let error = list.grant(item(ANN, BOB, READ, READ), OWNER, &roles).unwrap_err();
    assert_eq!(error.message(), "grant options cannot be granted back to your own grantor");
    let error = list.grant(item(PUBLIC_ROLE, OWNER, READ, READ), OWNER, &roles).unwrap_err();
    assert_eq!((error.state().0, error.message()), ("0LP01", "grant options can only be granted to roles"));
}

#[test]
fn a_role_has_its_own_privileges_and_those_of_public() {
    let (mut list, roles) = (chain(), roles());
    list.grant(item(PUBLIC_ROLE, OWNER, Privileges::DELETE, Privileges::NONE), OWNER, &roles).unwrap();
    assert_eq!(list.privileges_of(&roles.inherited(CAT)), READ | Privileges::DELETE);
    assert_eq!(list.options_of(&roles.inherited(CAT)), READ);
    assert_eq!(list.privileges_of(&[999]), Privileges::DELETE);
    assert_eq!(list.options_of(&[999]), Privileges::NONE);
}

#[test]
fn a_new_owner_gets_what_the_one_before_had() {
    let list = chain().owned_by(BOB, OWNER);
    assert_eq!(text(&list), "bob=arwdDxt/bob,ann=r*/bob,bob=r*/ann");
    assert_eq!(text(&chain().without(ANN, OWNER)), "own=arwdDxt/own");
    // What a role has granted by an option that it loses is lost, too.
    let (mut long, roles) = (chain(), roles());
    long.grant(item(CAT, BOB, READ, Privileges::NONE), OWNER, &roles).unwrap();
    assert_eq!(text(&long.without(ANN, OWNER)), "own=arwdDxt/own");
    assert!(chain().names(ANN) && !chain().names(CAT));
}

#[test]
fn items_are_read_as_they_are_shown() {
    let roles = roles();
    roles.put("a \"b\"=c", Role { oid: 104, ..Role::default() });
    let parse = |text: &str| AclItem::parse(text, |name| roles.oid_of(name));
    assert_eq!(parse("ann=r*w/own"), Some(item(ANN, OWNER, READ | Privileges::UPDATE, READ)));
    assert_eq!(parse("=X/own"), Some(item(PUBLIC_ROLE, OWNER, Privileges::EXECUTE, Privileges::NONE)));
    assert_eq!(parse("\"a \"\"b\"\"=c\"=/\"ann\"").map(|item| (item.grantee, item.grantor)), Some((104, ANN)));
    for text in ["", "ann", "ann=r", "ann=?/own", "nobody=r/own", "ann=r/own/own", "\"ann=r/own"] {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn privileges_have_names() {
    assert_eq!(Privileges::named("select"), Some(READ));
    assert_eq!(Privileges::named("temp"), Privileges::named("temporary"));
    assert_eq!(Privileges::named("nothing"), None);
    let words: Vec<&str> = Privileges::OF_COLUMN.iter().map(|(_, word)| word).collect();
    assert_eq!(words, ["INSERT", "SELECT", "UPDATE", "REFERENCES"]);
}
