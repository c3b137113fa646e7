//! Types, functions, operators, casts and collations, as rows of the catalog.
//!
//! The types are those of [`Kind`]. Functions and operators are those of PostgreSQL 15 in `functions.tsv` and
//! `operators.tsv`, as far as this server supports them, and the I/O functions of types. Both files list them by OID.
//!
//! **Invariant:** an OID is PostgreSQL's own for the same object.

use super::{SystemContext, SystemRows, array, int, oid, pseudo, text, yes};
use catalog::Language;
use statement::error::SqlResult;
use std::sync::LazyLock;
use types::Kind;
use types::datum::Datum;
use types::ops::{self, CastContext};
use types::regtype::{type_name, type_shown};

pub(super) const OF_CATALOG: u32 = 11;
/// OIDs of the access methods of tables and indexes.
pub(super) const HEAP: u32 = 2;
pub(super) const BTREE: u32 = 403;
pub(super) const HASH: u32 = 405;

pub(super) fn filled(name: &str) -> Option<super::TableFill> {
    match name {
        "pg_type" => Some(types),
        "pg_proc" => Some(functions),
        "pg_operator" => Some(operators),
        "pg_cast" => Some(casts),
        "pg_collation" => Some(collations),
        "pg_language" => Some(languages),
        _ => None,
    }
}

/// Returns the collation of a type, 0 if it has none.
pub(super) fn collation(kind: Kind) -> u32 {
    match kind {
        Kind::Text | Kind::Varchar | Kind::Bpchar => 100,
        Kind::Name => 950,
        Kind::Array(element) => collation(element.kind()),
        _ => 0,
    }
}

/// Returns `pg_type.typalign`.
pub(super) fn alignment(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool | Kind::InternalChar | Kind::Name | Kind::Unknown | Kind::Uuid => "c",
        Kind::Int2 => "s",
        Kind::Int8 | Kind::Float8 | Kind::Time | Kind::Timestamp | Kind::Timestamptz | Kind::Interval => "d",
        Kind::Array(element) if alignment(element.kind()) == "d" => "d",
        _ => "i",
    }
}

/// Returns `pg_type.typstorage`.
pub(super) fn storage(kind: Kind) -> &'static str {
    match kind {
        Kind::Numeric => "m",
        Kind::Text | Kind::Varchar | Kind::Bpchar | Kind::Bytea | Kind::Json | Kind::Array(_) => "x",
        _ => "p",
    }
}

/// Returns `pg_type.typbyval`.
pub(super) fn by_value(kind: Kind) -> bool {
    kind.len() > 0 && kind.len() <= 8
}

/// Returns the I/O functions of a type: in, out, receive, send.
fn by_text(kind: Kind) -> [String; 4] {
    let base = match kind {
        Kind::Array(_) => "array".to_owned(),
        kind => kind.type_name(),
    };
    let underscored = matches!(
        kind,
        Kind::Array(_)
            | Kind::Json
            | Kind::Date
            | Kind::Time
            | Kind::Timestamp
            | Kind::Timestamptz
            | Kind::Interval
            | Kind::Numeric
            | Kind::Uuid
            | Kind::Void
    );
    ["in", "out", "recv", "send"]
        .map(|what| if underscored { format!("{base}_{what}") } else { format!("{base}{what}") })
}

/// Returns the common prefix of the functions that read and write a type's modifier.
fn by_modifier(kind: Kind) -> Option<String> {
    let kind = kind.element().filter(|_| matches!(kind, Kind::Array(_))).unwrap_or(kind);
    matches!(
        kind,
        Kind::Bpchar
            | Kind::Varchar
            | Kind::Time
            | Kind::Timestamp
            | Kind::Timestamptz
            | Kind::Interval
            | Kind::Numeric
    )
    .then(|| format!("{}typmod", kind.type_name()))
}

pub(super) fn function_oid(name: &str) -> Datum {
    oid(function_number(name).unwrap_or(0))
}

fn types(_: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for kind in Kind::all() {
        let [input, output, receive, send] = by_text(kind);
        let is_pseudo = matches!(kind, Kind::Unknown | Kind::Void);
        let mut row = vec![
            ("oid", oid(kind.oid())),
            ("typname", text(kind.type_name())),
            ("typnamespace", oid(OF_CATALOG)),
            ("typowner", oid(super::server::SUPERUSER)),
            ("typlen", int(i64::from(kind.len()))),
            ("typbyval", yes(by_value(kind))),
            ("typtype", text(if is_pseudo { "p" } else { "b" })),
            ("typcategory", text(kind.category().to_string())),
            ("typispreferred", yes(kind.is_preferred())),
            ("typisdefined", yes(true)),
            ("typdelim", text(",")),
            ("typelem", oid(kind.element().map_or(0, Kind::oid))),
            ("typarray", oid(kind.array_of().map_or(0, Kind::oid))),
            ("typinput", function_oid(&input)),
            ("typoutput", function_oid(&output)),
            ("typreceive", function_oid(&receive)),
            ("typsend", function_oid(&send)),
            ("typalign", text(alignment(kind))),
            ("typstorage", text(storage(kind))),
            ("typtypmod", int(-1)),
            ("typcollation", oid(collation(kind))),
        ];
        if let Some(modifier) = by_modifier(kind) {
            row.push(("typmodin", function_oid(&format!("{modifier}in"))));
            row.push(("typmodout", function_oid(&format!("{modifier}out"))));
        }
        // Vectors and `name` can be subscripted, although they are no arrays.
        match kind {
            Kind::Array(_) => {
                row.push(("typanalyze", function_oid("array_typanalyze")));
                row.push(("typsubscript", function_oid("array_subscript_handler")));
            }
            Kind::Int2Vector | Kind::OidVector => {
                let array = types::pseudo::named(&format!("_{}", kind.type_name())).map_or(0, |array| array.oid);
                row.push(("typarray", oid(array)));
                row.push(("typsubscript", function_oid("array_subscript_handler")));
            }
            Kind::Name => {
                row.push(("typelem", oid(Kind::InternalChar.oid())));
                row.push(("typsubscript", function_oid("raw_array_subscript_handler")));
            }
            _ => {}
        }
        rows.add(row);
    }
    pseudo::add_rows(rows);
    Ok(())
}

/// Line of `functions.tsv`.
struct FunctionLine {
    oid: u32,
    name: &'static str,
    kind: &'static str,
    result: u32,
    arguments: Vec<u32>,
    volatile: &'static str,
    strict: bool,
    set: bool,
    source: &'static str,
}

static FUNCTIONS: LazyLock<Vec<FunctionLine>> = LazyLock::new(|| {
    let line = |line: &'static str| {
        let mut parts = line.split('\t');
        Some(FunctionLine {
            oid: parts.next()?.parse().ok()?,
            name: parts.next()?,
            kind: parts.next()?,
            result: parts.next()?.parse().ok()?,
            arguments: parts.next()?.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect(),
            volatile: parts.next()?,
            strict: parts.next()? == "t",
            set: parts.next()? == "t",
            source: parts.next()?,
        })
    };
    include_str!("functions.tsv").lines().filter_map(line).collect()
});

/// Returns the OID of the first function of a name.
pub(super) fn function_number(name: &str) -> Option<u32> {
    FUNCTIONS.iter().find(|line| line.name == name).map(|line| line.oid)
}

/// Line of `descriptions.tsv`: PostgreSQL's comment on a type, a function or an operator.
struct DescriptionLine {
    class: u32,
    oid: u32,
    text: &'static str,
}

static DESCRIPTIONS: LazyLock<Vec<DescriptionLine>> = LazyLock::new(|| {
    let line = |line: &'static str| {
        let mut parts = line.splitn(3, '\t');
        let class = match parts.next()? {
            "t" => PG_TYPE,
            "f" => PG_PROC,
            _ => PG_OPERATOR,
        };
        Some(DescriptionLine { class, oid: parts.next()?.parse().ok()?, text: parts.next()? })
    };
    include_str!("descriptions.tsv").lines().filter_map(line).collect()
});

const PG_TYPE: u32 = 1247;
pub(super) const PG_PROC: u32 = 1255;
const PG_OPERATOR: u32 = 2617;

/// Returns the comment on an object of one of the catalogs of types, functions and operators.
pub(super) fn description(catalog: Option<&str>, oid: u32) -> Option<&'static str> {
    let class = match catalog {
        None => None,
        Some("pg_type") => Some(PG_TYPE),
        Some("pg_proc") => Some(PG_PROC),
        Some("pg_operator") => Some(PG_OPERATOR),
        Some(_) => return None,
    };
    let is_it = |said: &&DescriptionLine| said.oid == oid && class.is_none_or(|class| class == said.class);
    DESCRIPTIONS.iter().find(is_it).map(|said| said.text)
}

/// Returns all comments: OID of the catalog, OID of the object, text.
pub(super) fn descriptions() -> impl Iterator<Item = (u32, u32, &'static str)> {
    DESCRIPTIONS.iter().map(|said| (said.class, said.oid, said.text))
}

/// Returns the name of a function.
pub(super) fn function_name(oid: u32) -> Option<String> {
    FUNCTIONS.iter().find(|line| line.oid == oid).map(|line| super::quoted(line.name))
}

/// Returns the OID of the function with this name and these types of arguments.
pub(super) fn function_with(name: &str, arguments: &[u32]) -> Option<u32> {
    FUNCTIONS.iter().find(|line| line.name == name && line.arguments == arguments).map(|line| line.oid)
}

/// Returns the name of a function with the types of its arguments, as `regprocedure` writes them.
pub(super) fn function_signature(oid: u32) -> Option<String> {
    let line = FUNCTIONS.iter().find(|line| line.oid == oid)?;
    let arguments: Vec<String> = line.arguments.iter().map(|number| type_name(*number, None)).collect();
    Some(format!("{}({})", super::quoted(line.name), arguments.join(",")))
}

/// Returns the OIDs of the types of the arguments of each function of this name.
pub(crate) fn arguments_of(name: &str) -> impl Iterator<Item = &'static [u32]> {
    FUNCTIONS.iter().filter(move |line| line.name == name).map(|line| &*line.arguments)
}

/// Returns the results of `pg_get_function_result` and `pg_get_function_arguments`.
pub(super) fn function_types(oid: u32) -> Option<(String, String)> {
    let line = FUNCTIONS.iter().find(|line| line.oid == oid)?;
    let name = |number: &u32| type_name(*number, None);
    let arguments: Vec<String> = line.arguments.iter().map(name).collect();
    let set = if line.set { "SETOF " } else { "" };
    Some((format!("{set}{}", name(&line.result)), arguments.join(", ")))
}

/// Returns true if this server has the function: it can be called by its name, or is an I/O function of a type.
fn is_here(line: &FunctionLine, io: &[String]) -> bool {
    let is_type = |number: &u32| type_shown(*number).is_some();
    if !line.arguments.iter().chain([&line.result]).all(is_type) {
        return false;
    }
    match line.kind {
        "a" => !matches!(ops::resolve_aggregate(line.name, &[]), Ok(None)),
        _ => ops::is_function(super::all_functions(), line.name) || io.iter().any(|name| name == line.name),
    }
}

/// Returns the functions that the rows of other catalogs refer to: of types, casts, access methods and operator
/// classes.
fn helpers() -> impl Iterator<Item = String> {
    let of_modifiers = Kind::all().filter_map(by_modifier);
    let of_modifiers = of_modifiers.flat_map(|name| [format!("{name}in"), format!("{name}out")]);
    let others = [
        "array_typanalyze",
        "array_subscript_handler",
        "raw_array_subscript_handler",
        "bthandler",
        "hashhandler",
        "heap_tableam_handler",
    ];
    let others = others.into_iter().map(str::to_owned);
    pseudo::functions().chain(of_modifiers).chain(others).chain(super::classes::functions())
}

fn functions(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    let io: Vec<String> = Kind::all().flat_map(by_text).chain(helpers()).collect();
    let of_operator = |line: &FunctionLine| HERE.iter().any(|operator| operator.code == line.oid);
    for line in FUNCTIONS.iter().filter(|line| is_here(line, &io) || of_operator(line)) {
        rows.add([
            ("oid", oid(line.oid)),
            ("proname", text(line.name)),
            ("pronamespace", oid(OF_CATALOG)),
            ("proowner", oid(super::server::SUPERUSER)),
            ("prolang", oid(12)),
            ("procost", int(1)),
            ("prorows", int(if line.set { 1000 } else { 0 })),
            ("prokind", text(line.kind)),
            ("proisstrict", yes(line.strict)),
            ("proretset", yes(line.set)),
            ("provolatile", text(line.volatile)),
            ("proparallel", text("s")),
            ("pronargs", int(line.arguments.len() as i64)),
            ("prorettype", oid(line.result)),
            ("proargtypes", array(line.arguments.iter().map(|number| oid(*number)))),
            ("prosrc", text(line.source)),
        ]);
    }
    super::routines::add_functions(source, rows)
}

static OPERATORS: LazyLock<Vec<Vec<&'static str>>> =
    LazyLock::new(|| include_str!("operators.tsv").lines().map(|line| line.split('\t').collect()).collect());

/// Returns the OID of an operator.
pub(super) fn operator_number(name: &str, left: Option<Kind>, right: Kind) -> Option<u32> {
    // `varchar` has no operators of its own.
    let own = |kind: Kind| if kind == Kind::Varchar { Kind::Text } else { kind };
    let left = left.map_or(0, |kind| own(kind).oid()).to_string();
    let right = own(right).oid().to_string();
    let is_it =
        |line: &&Vec<&str>| line.get(1) == Some(&name) && line.get(3) == Some(&&*left) && line.get(4) == Some(&&*right);
    OPERATORS.iter().find(is_it).and_then(|line| line.first()?.parse().ok())
}

/// Line of `operators.tsv`.
struct OperatorLine {
    oid: u32,
    name: &'static str,
    kind: &'static str,
    left: u32,
    right: u32,
    result: u32,
    commutator: u32,
    negator: u32,
    code: u32,
    hashes: bool,
    merges: bool,
}

/// Operators that this server supports.
static HERE: LazyLock<Vec<OperatorLine>> = LazyLock::new(|| {
    let read = |line: &Vec<&'static str>| {
        let [number, name, kind, left, right, result, commutator, negator, code, hashes, merges] = line[..] else {
            return None;
        };
        let number_of = |part: &str| part.parse::<u32>().unwrap_or(0);
        let (left, right) = (number_of(left), number_of(right));
        let is_here = ops::operators_named(name)
            .iter()
            .any(|operator| operator.left.map_or(0, Kind::oid) == left && operator.right.oid() == right);
        is_here.then(|| OperatorLine {
            oid: number_of(number),
            name,
            kind,
            left,
            right,
            result: number_of(result),
            commutator: number_of(commutator),
            negator: number_of(negator),
            code: number_of(code),
            hashes: hashes == "t",
            merges: merges == "t",
        })
    };
    OPERATORS.iter().filter_map(read).collect()
});

/// Returns true if the operator with this OID is supported.
pub(super) fn has_operator(number: u32) -> bool {
    HERE.iter().any(|line| line.oid == number)
}

fn operators(_: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    let if_here = |number: u32| oid(if has_operator(number) { number } else { 0 });
    for line in HERE.iter() {
        rows.add([
            ("oid", oid(line.oid)),
            ("oprname", text(line.name)),
            ("oprnamespace", oid(OF_CATALOG)),
            ("oprowner", oid(super::server::SUPERUSER)),
            ("oprkind", text(line.kind)),
            ("oprcanmerge", yes(line.merges)),
            ("oprcanhash", yes(line.hashes)),
            ("oprleft", oid(line.left)),
            ("oprright", oid(line.right)),
            ("oprresult", oid(line.result)),
            ("oprcom", if_here(line.commutator)),
            ("oprnegate", if_here(line.negator)),
            ("oprcode", oid(line.code)),
        ]);
    }
    Ok(())
}

/// Adds the declared casts, not the I/O conversions by way of text that every type has.
fn casts(_: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    const FIRST: u32 = 10_035;
    let mut number = FIRST;
    for from in Kind::scalars().filter(|kind| !matches!(kind, Kind::Unknown | Kind::Void)) {
        for to in Kind::scalars().filter(|kind| !matches!(kind, Kind::Unknown | Kind::Void)) {
            let Some(cast) = ops::find_cast(from, to, CastContext::Explicit) else { continue };
            let is_string = |kind: Kind| kind.category() == 'S';
            let by_text = (is_string(to) && !is_string(from) && cast.context != CastContext::Implicit)
                || (is_string(from) && !is_string(to) && cast.context == CastContext::Explicit);
            if by_text {
                continue;
            }
            rows.add([
                ("oid", oid(number)),
                ("castsource", oid(from.oid())),
                ("casttarget", oid(to.oid())),
                (
                    "castcontext",
                    text(match cast.context {
                        CastContext::Implicit => "i",
                        CastContext::Assignment => "a",
                        CastContext::Explicit => "e",
                    }),
                ),
                ("castmethod", text("f")),
            ]);
            number += 1;
        }
    }
    Ok(())
}

/// OID, name, provider, encoding and locale of each collation.
const COLLATIONS: [(u32, &str, &str, i64, Option<&str>); 4] = [
    (100, "default", "d", -1, None),
    (950, "C", "c", -1, Some("C")),
    (951, "POSIX", "c", -1, Some("POSIX")),
    (12_340, "ucs_basic", "c", 6, Some("C")),
];

/// Returns the OID of a collation.
pub(crate) fn collation_named(name: &str) -> Option<u32> {
    COLLATIONS.iter().find(|(_, own, ..)| *own == name).map(|(number, ..)| *number)
}

/// Returns the name of a collation other than the default one.
pub(super) fn collation_name(number: u32) -> Option<&'static str> {
    COLLATIONS[1..].iter().find(|(own, ..)| *own == number).map(|(_, name, ..)| *name)
}

fn collations(_: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (number, name, provider, encoding, locale) in COLLATIONS {
        rows.add([
            ("oid", oid(number)),
            ("collname", text(name)),
            ("collnamespace", oid(OF_CATALOG)),
            ("collowner", oid(super::server::SUPERUSER)),
            ("collprovider", text(provider)),
            ("collisdeterministic", yes(true)),
            ("collencoding", int(encoding)),
            ("collcollate", super::or_null(locale, text)),
            ("collctype", super::or_null(locale, text)),
        ]);
    }
    Ok(())
}

fn languages(_: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    let own = [Language::Sql, Language::Native, Language::Wasm, Language::Exec];
    let own = own.map(|one| (super::routines::language_number(one), one.name(), one.is_trusted()));
    for (number, name, is_trusted) in [(12, "internal", false), (13, "c", false)].into_iter().chain(own) {
        rows.add([
            ("oid", oid(number)),
            ("lanname", text(name)),
            ("lanowner", oid(super::server::SUPERUSER)),
            ("lanispl", yes(!matches!(name, "internal" | "c" | "sql"))),
            ("lanpltrusted", yes(is_trusted)),
        ]);
    }
    Ok(())
}
