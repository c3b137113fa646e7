//! Access control lists: privileges on an object, and the roles that have them.
//!
//! A list has one item for each pair of grantee and grantor, as in PostgreSQL. An object without a list of its own has
//! the default one of its kind ([`Acl::default_of`]).
//!
//! **Invariant:** each privilege in a list goes back to the owner: its grantor is the owner, or has the grant option by
//! another item. A role that loses a grant option loses what it has granted by it.

use crate::Relation;
use settings::roles::Roles;
use statement::error::{SqlError, SqlResult, SqlState};
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

/// Grantee that stands for all roles.
pub const PUBLIC_ROLE: u32 = 0;

/// Set of privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges(u16);

/// Privileges by letter and word, in PostgreSQL's order.
const LETTERS: [(Privileges, char, &str); 12] = [
    (Privileges::INSERT, 'a', "INSERT"),
    (Privileges::SELECT, 'r', "SELECT"),
    (Privileges::UPDATE, 'w', "UPDATE"),
    (Privileges::DELETE, 'd', "DELETE"),
    (Privileges::TRUNCATE, 'D', "TRUNCATE"),
    (Privileges::REFERENCES, 'x', "REFERENCES"),
    (Privileges::TRIGGER, 't', "TRIGGER"),
    (Privileges::EXECUTE, 'X', "EXECUTE"),
    (Privileges::USAGE, 'U', "USAGE"),
    (Privileges::CREATE, 'C', "CREATE"),
    (Privileges::TEMPORARY, 'T', "TEMPORARY"),
    (Privileges::CONNECT, 'c', "CONNECT"),
];

#[allow(missing_docs, reason = "PostgreSQL's words")]
impl Privileges {
    pub const NONE: Privileges = Privileges(0);
    pub const INSERT: Privileges = Privileges(1);
    pub const SELECT: Privileges = Privileges(1 << 1);
    pub const UPDATE: Privileges = Privileges(1 << 2);
    pub const DELETE: Privileges = Privileges(1 << 3);
    pub const TRUNCATE: Privileges = Privileges(1 << 4);
    pub const REFERENCES: Privileges = Privileges(1 << 5);
    pub const TRIGGER: Privileges = Privileges(1 << 6);
    pub const EXECUTE: Privileges = Privileges(1 << 7);
    pub const USAGE: Privileges = Privileges(1 << 8);
    pub const CREATE: Privileges = Privileges(1 << 9);
    pub const TEMPORARY: Privileges = Privileges(1 << 10);
    pub const CONNECT: Privileges = Privileges(1 << 11);
    /// All privileges of a table or view.
    pub const OF_TABLE: Privileges = Privileges(0b111_1111);
    /// All privileges of a column.
    pub const OF_COLUMN: Privileges = Privileges(0b10_0111);
}

impl Privileges {
    /// Returns true if the set has none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the set has all of these.
    pub fn has(self, other: Privileges) -> bool {
        (other - self).is_empty()
    }

    /// Returns true if the set has any of these.
    pub fn has_any(self, other: Privileges) -> bool {
        !(self & other).is_empty()
    }

    /// Returns the privilege of this name, in lower case.
    pub fn named(name: &str) -> Option<Privileges> {
        match name {
            // A privilege of old that nothing needs any more.
            "rule" => Some(Privileges::NONE),
            "temp" => Some(Privileges::TEMPORARY),
            _ => LETTERS.iter().find(|(.., word)| word.eq_ignore_ascii_case(name)).map(|(one, ..)| *one),
        }
    }

    /// Returns the privileges of the set, one by one, with their words.
    pub fn iter(self) -> impl Iterator<Item = (Privileges, &'static str)> {
        LETTERS.into_iter().filter(move |(one, ..)| self.has(*one)).map(|(one, _, word)| (one, word))
    }
}

impl BitOr for Privileges {
    type Output = Privileges;

    fn bitor(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }
}

impl BitOrAssign for Privileges {
    fn bitor_assign(&mut self, other: Privileges) {
        self.0 |= other.0;
    }
}

impl BitAnd for Privileges {
    type Output = Privileges;

    fn bitand(self, other: Privileges) -> Privileges {
        Privileges(self.0 & other.0)
    }
}

impl Sub for Privileges {
    type Output = Privileges;

    fn sub(self, other: Privileges) -> Privileges {
        Privileges(self.0 & !other.0)
    }
}

/// Kind of an object with privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum AclKind {
    /// Table or view.
    Table,
    Column,
    Sequence,
    Database,
    Schema,
    /// Function or procedure.
    Routine,
    Language,
    Type,
}

impl AclKind {
    /// Returns all privileges of objects of this kind.
    pub fn all(self) -> Privileges {
        match self {
            AclKind::Table => Privileges::OF_TABLE,
            AclKind::Column => Privileges::OF_COLUMN,
            AclKind::Sequence => Privileges::USAGE | Privileges::SELECT | Privileges::UPDATE,
            AclKind::Database => Privileges::CREATE | Privileges::TEMPORARY | Privileges::CONNECT,
            AclKind::Schema => Privileges::USAGE | Privileges::CREATE,
            AclKind::Routine => Privileges::EXECUTE,
            AclKind::Language | AclKind::Type => Privileges::USAGE,
        }
    }

    /// Returns the privileges that PUBLIC has on a new object of this kind.
    fn public(self) -> Privileges {
        match self {
            AclKind::Table | AclKind::Column | AclKind::Sequence | AclKind::Schema => Privileges::NONE,
            AclKind::Database => Privileges::TEMPORARY | Privileges::CONNECT,
            AclKind::Routine => Privileges::EXECUTE,
            AclKind::Language | AclKind::Type => Privileges::USAGE,
        }
    }

    /// Returns the letter of the kind in `pg_default_acl`.
    pub fn letter(self) -> &'static str {
        match self {
            AclKind::Table | AclKind::Column => "r",
            AclKind::Sequence => "S",
            AclKind::Database => "d",
            AclKind::Schema => "n",
            AclKind::Routine => "f",
            AclKind::Language => "l",
            AclKind::Type => "T",
        }
    }
}

/// Object with an owner and privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Securable {
    /// OID of the object.
    pub oid: u32,
    /// Kind of the object.
    pub kind: AclKind,
    /// OID of the role that owns it.
    pub owner: u32,
}

impl Securable {
    /// Returns a relation; an index stands for its table.
    pub fn relation(relation: &Relation) -> Securable {
        let (oid, kind) = match relation {
            Relation::Table(table) | Relation::Index { table, .. } => (table.oid, AclKind::Table),
            Relation::View(view) => (view.oid, AclKind::Table),
            Relation::Sequence(sequence) => (sequence.oid, AclKind::Sequence),
        };
        Securable { oid, kind, owner: relation.owner() }
    }
}

/// Privileges that a role has by grants of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclItem {
    /// OID of the role that has the privileges; [`PUBLIC_ROLE`] for all roles.
    pub grantee: u32,
    /// OID of the role that has granted them.
    pub grantor: u32,
    /// Privileges.
    pub privileges: Privileges,
    /// Privileges with grant option.
    pub options: Privileges,
}

impl AclItem {
    /// Reads an item as it is shown: `grantee=privileges/grantor`; `None` if it is none, or `role` knows no such role.
    pub fn parse(text: &str, role: impl Fn(&str) -> Option<u32>) -> Option<AclItem> {
        let (grantee, rest) = role_in(text)?;
        let (letters, grantor) = rest.strip_prefix('=')?.split_once('/')?;
        let (grantor, "") = role_in(grantor)? else { return None };
        let grantee = if grantee.is_empty() { PUBLIC_ROLE } else { role(&grantee)? };
        let mut item =
            AclItem { grantee, grantor: role(&grantor)?, privileges: Privileges::NONE, options: Privileges::NONE };
        let mut last = Privileges::NONE;
        for letter in letters.chars() {
            if letter == '*' {
                item.options |= last;
                continue;
            }
            last = LETTERS.iter().find(|(_, own, _)| *own == letter)?.0;
            item.privileges |= last;
        }
        Some(item)
    }
}

/// Reads the name of a role, which may be quoted, at the beginning of a text. Returns it with the rest.
fn role_in(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(['=', '/']).unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let (before, behind) = rest.split_once('"')?;
        name.push_str(before);
        match behind.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, behind)),
        }
    }
}

/// Access control list of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl(Vec<AclItem>);

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_GRANT_OPERATION, message)
}

impl Acl {
    /// Returns the list of an object without one of its own.
    pub fn default_of(kind: AclKind, owner: u32) -> Acl {
        let item = |grantee, privileges| AclItem { grantee, grantor: owner, privileges, options: Privileges::NONE };
        // A column has what its table has; its owner needs no item.
        let own = if kind == AclKind::Column { Privileges::NONE } else { kind.all() };
        let items = [item(PUBLIC_ROLE, kind.public()), item(owner, own)];
        Acl(items.into_iter().filter(|item| !item.privileges.is_empty()).collect())
    }

    /// Returns the list with these items.
    pub fn of(items: Vec<AclItem>) -> Acl {
        Acl(items)
    }

    /// Returns the items.
    pub fn items(&self) -> &[AclItem] {
        &self.0
    }

    /// Returns true if the list has no items.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if both lists have the same items, in any order.
    pub fn is_same(&self, other: &Acl) -> bool {
        self.0.len() == other.0.len() && self.0.iter().all(|item| other.0.contains(item))
    }

    /// Returns the privileges that PUBLIC and any of these roles have.
    pub fn privileges_of(&self, roles: &[u32]) -> Privileges {
        let is_theirs = |item: &&AclItem| item.grantee == PUBLIC_ROLE || roles.contains(&item.grantee);
        self.0.iter().filter(is_theirs).fold(Privileges::NONE, |all, item| all | item.privileges)
    }

    /// Returns the grant options that any of these roles has by the list. An owner has all, whatever the list says.
    pub fn options_of(&self, roles: &[u32]) -> Privileges {
        let is_theirs = |item: &&AclItem| roles.contains(&item.grantee);
        self.0.iter().filter(is_theirs).fold(Privileges::NONE, |all, item| all | item.options)
    }

    /// Adds the privileges of an item.
    ///
    /// # Errors
    /// `0LP01` for a grant option of PUBLIC, or one that the grantor has from the grantee itself.
    pub fn grant(&mut self, new: AclItem, owner: u32, roles: &Roles) -> SqlResult<()> {
        if !new.options.is_empty() {
            if new.grantee == PUBLIC_ROLE {
                return Err(invalid("grant options can only be granted to roles"));
            }
            self.check_circle(new, owner, roles)?;
        }
        self.add(new);
        Ok(())
    }

    fn add(&mut self, new: AclItem) {
        match self.place(new.grantee, new.grantor) {
            Some(at) => {
                self.0[at].privileges |= new.privileges;
                self.0[at].options |= new.options;
            }
            None if new.privileges.is_empty() => {}
            None => self.0.push(new),
        }
    }

    /// Removes the privileges and the grant options of an item, and with `cascades` what was granted by these options.
    ///
    /// # Errors
    /// `2BP01` without `cascades`, if something was.
    pub fn revoke(&mut self, gone: AclItem, owner: u32, cascades: bool, roles: &Roles) -> SqlResult<()> {
        let Some(at) = self.place(gone.grantee, gone.grantor) else { return Ok(()) };
        let item = &mut self.0[at];
        let lost = item.options & gone.options;
        item.privileges = item.privileges - gone.privileges;
        item.options = item.options - gone.options;
        if item.privileges.is_empty() && item.options.is_empty() {
            self.0.remove(at);
        }
        if lost.is_empty() { Ok(()) } else { self.revoke_granted_by(gone.grantee, lost, owner, cascades, roles) }
    }

    /// Revokes what a role has granted by grant options that it has lost.
    fn revoke_granted_by(
        &mut self,
        grantor: u32,
        lost: Privileges,
        owner: u32,
        cascades: bool,
        roles: &Roles,
    ) -> SqlResult<()> {
        // An owner never loses a grant option.
        if grantor == owner {
            return Ok(());
        }
        // The role may have some of them by another grant.
        let lost = lost - self.options_of(&roles.inherited(grantor));
        let depends = |item: &&AclItem| item.grantor == grantor && item.privileges.has_any(lost);
        while let Some(item) = self.0.iter().find(depends).copied() {
            if !cascades {
                let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, "dependent privileges exist");
                return Err(error.hint("Use CASCADE to revoke them too."));
            }
            let gone = AclItem { privileges: item.privileges & lost, options: item.options & lost, ..item };
            self.revoke(gone, owner, cascades, roles)?;
        }
        Ok(())
    }

    /// # Errors
    /// `0LP01` if the grantor has a grant option only by way of the grantee.
    fn check_circle(&self, new: AclItem, owner: u32, roles: &Roles) -> SqlResult<()> {
        if new.grantor == owner {
            return Ok(());
        }
        let mut without = self.clone();
        let has_options = |item: &&AclItem| item.grantee == new.grantee && !item.options.is_empty();
        while let Some(item) = without.0.iter().find(has_options).copied() {
            without.revoke(AclItem { privileges: item.options, ..item }, owner, true, roles)?;
        }
        match without.options_of(&roles.inherited(new.grantor)).has(new.options) {
            true => Ok(()),
            false => Err(invalid("grant options cannot be granted back to your own grantor")),
        }
    }

    fn place(&self, grantee: u32, grantor: u32) -> Option<usize> {
        self.0.iter().position(|item| (item.grantee, item.grantor) == (grantee, grantor))
    }

    /// Returns the list of an object that another role owns from now on: what the owner had and had granted is the new
    /// owner's.
    #[must_use]
    pub fn owned_by(&self, new: u32, before: u32) -> Acl {
        let moved = |role: u32| if role == before { new } else { role };
        let mut list = Acl::default();
        for item in &self.0 {
            list.add(AclItem { grantee: moved(item.grantee), grantor: moved(item.grantor), ..*item });
        }
        list
    }

    /// Returns the list with all items of another.
    #[must_use]
    pub fn with(&self, other: &Acl) -> Acl {
        let mut list = self.clone();
        other.0.iter().for_each(|item| list.add(*item));
        list
    }

    /// Returns the list with its items in the order of their roles.
    #[must_use]
    pub fn sorted(mut self) -> Acl {
        self.0.sort_by_key(|item| (item.grantee, item.grantor));
        self
    }

    /// Returns the list, of an object of this owner, without a role: what it has, what it has granted, and what others
    /// have granted by that.
    #[must_use]
    pub fn without(&self, role: u32, owner: u32) -> Acl {
        let is_other = |item: &&AclItem| item.grantee != role && item.grantor != role;
        let mut items: Vec<AclItem> = self.0.iter().filter(is_other).copied().collect();
        loop {
            let list = Acl(items.clone());
            for item in items.iter_mut().filter(|item| item.grantor != owner) {
                let options = list.options_of(&[item.grantor]);
                item.privileges = item.privileges & options;
                item.options = item.options & options;
            }
            items.retain(|item| !item.privileges.is_empty());
            if items == list.0 {
                return list;
            }
        }
    }

    /// Returns true if the role is a grantee or a grantor.
    pub fn names(&self, role: u32) -> bool {
        self.0.iter().any(|item| item.grantee == role || item.grantor == role)
    }

    /// Returns the items as texts: `grantee=privileges/grantor`.
    pub fn texts<'a>(&'a self, name: impl Fn(u32) -> String + 'a) -> impl Iterator<Item = String> + 'a {
        self.0.iter().map(move |item| {
            let mut text = if item.grantee == PUBLIC_ROLE { String::new() } else { name(item.grantee) };
            text.push('=');
            for (one, letter, _) in LETTERS {
                if item.privileges.has(one) {
                    text.push(letter);
                    if item.options.has(one) {
                        text.push('*');
                    }
                }
            }
            text.push('/');
            text.push_str(&name(item.grantor));
            text
        })
    }
}

#[cfg(test)]
mod tests;
