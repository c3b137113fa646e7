//! Access methods, and their operator classes and operator families, as rows of the catalog.
//!
//! `classes.tsv` has PostgreSQL 15's B-tree entries for the supported types, `hash_classes.tsv` those of hash indexes.
//!
//! **Invariant:** an OID is PostgreSQL's own for the same object. An operator that is not supported is in no family.

use super::pg_type::{BTREE, HASH, HEAP, OF_CATALOG, function_oid};
use super::{SystemContext, SystemRows, int, oid, text, yes};
use catalog::IndexMethod;
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::LazyLock;
use types::Kind;

pub(super) fn filled(name: &str) -> Option<super::TableFill> {
    match name {
        "pg_am" => Some(access_methods),
        "pg_opclass" => Some(classes),
        "pg_opfamily" => Some(families),
        "pg_amop" => Some(operators),
        "pg_amproc" => Some(functions_of_families),
        _ => None,
    }
}

/// Line of `classes.tsv`.
struct ClassLine {
    /// One of `class`, `family`, `operator` and `function`.
    what: &'static str,
    /// OID of the access method.
    method: u32,
    oid: u32,
    family: u32,
    left: u32,
    right: u32,
    /// Name of a class or family; strategy of an operator; number of a support function.
    name: &'static str,
    /// True if a class is the default of its type.
    is_default: bool,
    /// OID of an operator or function; of a class, the stored type if it is another.
    of: u32,
}

static TABLE: LazyLock<Vec<ClassLine>> = LazyLock::new(|| {
    let line = |(line, method): (&'static str, u32)| {
        let mut parts = line.split('\t');
        let what = parts.next()?;
        let mut number = || parts.next()?.parse().ok();
        let (oid, family, left, right) = (number()?, number()?, number()?, number()?);
        let (name, is_default) = (parts.next()?, parts.next()? == "t");
        Some(ClassLine { what, method, oid, family, left, right, name, is_default, of: parts.next()?.parse().ok()? })
    };
    let of = |text: &'static str, method| text.lines().map(move |line| (line, method));
    let all = of(include_str!("classes.tsv"), BTREE).chain(of(include_str!("hash_classes.tsv"), HASH));
    all.filter_map(line).collect()
});

fn lines(what: &str) -> impl Iterator<Item = &'static ClassLine> {
    TABLE.iter().filter(move |line| line.what == what)
}

/// Returns the OID of an access method.
pub(super) fn number_of(method: IndexMethod) -> u32 {
    match method {
        IndexMethod::BTree => BTREE,
        IndexMethod::Hash => HASH,
    }
}

/// Returns the default operator class of a type.
pub(super) fn class_of(kind: Kind, method: IndexMethod) -> u32 {
    let kind = match kind {
        // `varchar` is ordered as text, and a reference to an object as its OID.
        Kind::Varchar => Kind::Text,
        Kind::Regclass | Kind::Regtype | Kind::Regproc | Kind::Regprocedure | Kind::Regnamespace | Kind::Regrole => {
            Kind::Oid
        }
        other => other,
    };
    const ANY_ARRAY: u32 = 2277;
    let wanted = if matches!(kind, Kind::Array(_)) { ANY_ARRAY } else { kind.oid() };
    let of = |line: &&ClassLine| line.method == number_of(method) && line.left == wanted && line.is_default;
    lines("class").find(of).map_or(0, |line| line.oid)
}

/// Returns the OID of the operator class that a definition names for a column, or `None` if it is the default of the
/// type.
///
/// # Errors
/// `42704`, `42804`; `0A000` if the class orders the column differently than its type does.
pub(crate) fn named(name: &str, kind: Kind, method: IndexMethod) -> SqlResult<Option<u32>> {
    let Some(line) = lines("class").find(|line| line.method == number_of(method) && line.name == name) else {
        let method = method.name();
        let message = format!("operator class \"{name}\" does not exist for access method \"{method}\"");
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
    };
    if line.oid == class_of(kind, method) {
        return Ok(None);
    }
    let (text, char_n, number) = (Kind::Text.oid(), Kind::Bpchar.oid(), Kind::Oid.oid());
    match kind {
        // The collation is C, so the order of characters is that of bytes.
        Kind::Text | Kind::Varchar if line.left == text => Ok(Some(line.oid)),
        Kind::Bpchar if line.left == char_n => Ok(Some(line.oid)),
        Kind::Text | Kind::Varchar if line.left == char_n => {
            Err(SqlError::unsupported(format_args!("operator class \"{name}\" for type {}", kind.name())))
        }
        Kind::Int4 if line.left == number => {
            Err(SqlError::unsupported(format_args!("operator class \"{name}\" for type {}", kind.name())))
        }
        _ => {
            let message = format!("operator class \"{name}\" does not accept data type {}", kind.name());
            Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
        }
    }
}

/// Returns the name of an operator class.
pub(crate) fn name_of(class: u32) -> &'static str {
    lines("class").find(|line| line.oid == class).map_or("", |line| line.name)
}

/// Returns the names of the support functions of operator families.
pub(super) fn functions() -> impl Iterator<Item = String> {
    lines("function").filter_map(|line| super::pg_type::function_name(line.of))
}

fn access_methods(_: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (number, name, kind, handler) in [
        (HEAP, "heap", "t", "heap_tableam_handler"),
        (BTREE, "btree", "i", "bthandler"),
        (HASH, "hash", "i", "hashhandler"),
    ] {
        rows.add([
            ("oid", oid(number)),
            ("amname", text(name)),
            ("amhandler", function_oid(handler)),
            ("amtype", text(kind)),
        ]);
    }
    Ok(())
}

fn classes(_: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for line in lines("class") {
        rows.add([
            ("oid", oid(line.oid)),
            ("opcmethod", oid(line.method)),
            ("opcname", text(line.name)),
            ("opcnamespace", oid(OF_CATALOG)),
            ("opcowner", oid(super::server::SUPERUSER)),
            ("opcfamily", oid(line.family)),
            ("opcintype", oid(line.left)),
            ("opcdefault", yes(line.is_default)),
            ("opckeytype", oid(line.of)),
        ]);
    }
    Ok(())
}

fn families(_: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for line in lines("family") {
        rows.add([
            ("oid", oid(line.oid)),
            ("opfmethod", oid(line.method)),
            ("opfname", text(line.name)),
            ("opfnamespace", oid(OF_CATALOG)),
            ("opfowner", oid(super::server::SUPERUSER)),
        ]);
    }
    Ok(())
}

fn number(line: &ClassLine) -> i64 {
    line.name.parse().unwrap_or(0)
}

fn operators(_: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for line in lines("operator").filter(|line| super::pg_type::has_operator(line.of)) {
        rows.add([
            ("oid", oid(line.oid)),
            ("amopfamily", oid(line.family)),
            ("amoplefttype", oid(line.left)),
            ("amoprighttype", oid(line.right)),
            ("amopstrategy", int(number(line))),
            ("amoppurpose", text("s")),
            ("amopopr", oid(line.of)),
            ("amopmethod", oid(line.method)),
        ]);
    }
    Ok(())
}

fn functions_of_families(_: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for line in lines("function") {
        rows.add([
            ("oid", oid(line.oid)),
            ("amprocfamily", oid(line.family)),
            ("amproclefttype", oid(line.left)),
            ("amprocrighttype", oid(line.right)),
            ("amprocnum", int(number(line))),
            ("amproc", oid(line.of)),
        ]);
    }
    Ok(())
}
