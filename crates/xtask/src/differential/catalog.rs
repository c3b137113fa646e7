//! Callables: every function, operator, aggregate and cast that the server's own catalog lists, so that a new one is
//! tried without being named here. Rules leave out callables that have no single answer: volatile functions, stable
//! ones without arguments (`now()`), types that have no values here, and the exceptions in `known.tsv`.

use super::hints::{FORMS, HINTS, WINDOWS, fields, pool};
use super::types::Ty;
use crate::wire::{QueryAnswer, WireClient};
use anyhow::Context;
use std::collections::BTreeSet;

/// Place of an argument.
#[derive(Clone, Debug)]
pub struct ArgumentSlot {
    pub want: WantedType,
    /// Literals that make sense here.
    pub pool: Option<&'static [&'static str]>,
    /// Form around a value that is no literal, which brings it into the function's domain.
    pub wrap: Option<&'static str>,
}

/// Type of an argument or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedType {
    Exact(Ty),
    /// Type that the call's polymorphic places share, or the array of it.
    Element,
    Array,
    /// Any type, chosen for each place independently.
    Any,
    /// Word of the syntax from the pool.
    Word,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallableKind {
    Scalar,
    Aggregate,
    /// Aggregate with `WITHIN GROUP (ORDER BY …)`.
    OrderedSet,
    Window,
    /// Function that returns rows.
    Set,
}

/// Function, operator, aggregate, cast or syntax that makes a value of others.
#[derive(Clone, Debug)]
pub struct Callable {
    /// Name and types, as in `lpad(text, integer)`.
    pub signature: String,
    /// SQL with `$0` to `$9` where the arguments go.
    pub template: String,
    pub slots: Vec<ArgumentSlot>,
    pub returns: WantedType,
    pub kind: CallableKind,
    /// True if the last digits may differ: a library of floating-point functions, or the order of a sum.
    pub vague: bool,
}

/// Callables, in an order that the server does not decide.
pub struct Catalog {
    pub all: Vec<Callable>,
    /// Signatures that no rule admits, for the report.
    pub left_out: Vec<String>,
    /// Callables that are not tried with one type of their polymorphic places.
    excepted: BTreeSet<(String, Ty)>,
}

/// Exceptions: a callable, and the type with which it is not tried; none for all.
pub type KnownExceptions = BTreeSet<(String, Option<Ty>)>;

fn is_known(known: &KnownExceptions, signature: &str) -> bool {
    known.contains(&(signature.to_owned(), None))
}

/// Function or operator as both catalogs describe it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CatalogEntry {
    name: String,
    kind: char,
    arguments: Vec<u32>,
    result: u32,
    set: bool,
}

const FUNCTIONS: &str = "select proname, prokind, proargtypes::text, prorettype::int8, proretset from pg_catalog.pg_proc \
    where provolatile = 'i' or provolatile = 's' and proargtypes::text <> '' \
    and proname !~ '^(pg_|has_|txid_|inet_|current_|ts_|row_security|obj_|col_|shobj_|to_reg)'";
const OPERATORS: &str = "select oprname, oprkind, oprleft::int8 || ' ' || oprright::int8, oprresult::int8, false from pg_catalog.pg_operator";

fn entries(client: &mut WireClient, text: &str) -> anyhow::Result<BTreeSet<CatalogEntry>> {
    let mut found = BTreeSet::new();
    for row in client.run(text)? {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        let mut cell = || cells.next().context("a row of the catalog is short");
        let (name, kind, arguments, result, set) = (cell()?, cell()?, cell()?, cell()?, cell()?);
        let arguments = arguments.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let kind = kind.chars().next().context("a kind")?;
        found.insert(CatalogEntry { name, kind, arguments, result: result.parse()?, set: set == "t" });
    }
    Ok(found)
}

impl Catalog {
    /// Reads the callables that the server has and that PostgreSQL, where there is one, has too.
    ///
    /// # Errors
    /// If a server does not answer.
    pub fn read(
        server: &mut WireClient,
        postgres: Option<&mut WireClient>,
        known: &KnownExceptions,
    ) -> anyhow::Result<Catalog> {
        let mut functions = entries(server, FUNCTIONS)?;
        let mut operators = entries(server, OPERATORS)?;
        if let Some(postgres) = postgres {
            let (theirs, their_operators) = (entries(postgres, FUNCTIONS)?, entries(postgres, OPERATORS)?);
            functions.retain(|entry| theirs.contains(entry));
            operators.retain(|entry| their_operators.contains(entry));
        }
        let excepted = known.iter().filter_map(|(signature, ty)| Some((signature.clone(), (*ty)?))).collect();
        let mut catalog = Catalog { all: Vec::new(), left_out: Vec::new(), excepted };
        for entry in &functions {
            catalog.add(entry, function(entry), known);
        }
        for entry in &operators {
            catalog.add(entry, operator(entry), known);
        }
        catalog.all.extend(forms(known));
        catalog.probe(server)?;
        Ok(catalog)
    }

    /// Returns true if a callable is not tried with this type.
    pub fn is_excepted(&self, at: usize, element: Ty) -> bool {
        self.excepted.contains(&(self.all[at].signature.clone(), element))
    }

    /// Leaves out callables that the server's catalog lists for its clients' sake but the server itself does not have.
    fn probe(&mut self, server: &mut WireClient) -> anyhow::Result<()> {
        let mut kept = Vec::new();
        for callable in self.all.drain(..) {
            let mut text = callable.template.clone();
            for (at, slot) in callable.slots.iter().enumerate() {
                let value = match (slot.want, slot.pool) {
                    (WantedType::Word, Some(pool)) => pool[0].to_owned(),
                    (WantedType::Exact(ty), _) => format!("null::{}", ty.name()),
                    (WantedType::Array, _) => "null::integer[]".to_owned(),
                    (WantedType::Element | WantedType::Any | WantedType::Word, _) => "null::integer".to_owned(),
                };
                text = text.replace(&format!("${at}"), &value);
            }
            let text = match callable.kind {
                CallableKind::Scalar | CallableKind::Aggregate | CallableKind::OrderedSet => format!("select {text}"),
                CallableKind::Window => format!("select {text} over ()"),
                CallableKind::Set => format!("select * from {text}"),
            };
            server.send(&text)?;
            match server.receive()? {
                QueryAnswer::Error { state, .. } if ["42883", "42601"].contains(&state.as_str()) => {
                    self.left_out.push(callable.signature)
                }
                QueryAnswer::Error { .. } | QueryAnswer::Rows { .. } => kept.push(callable),
            }
        }
        self.all = kept;
        Ok(())
    }

    fn add(&mut self, entry: &CatalogEntry, callable: Option<Callable>, known: &KnownExceptions) {
        match callable {
            Some(callable) if !is_known(known, &callable.signature) => self.all.push(callable),
            _ => self.left_out.push(format!("{}{:?}", entry.name, entry.arguments)),
        }
    }
}

/// Casts that do not fail on ordinary values. Those that fail are tried by `text` literals of the types.
const CASTS: &[(&str, &str)] = &[
    ("smallint", "integer"),
    ("smallint", "bigint"),
    ("integer", "bigint"),
    ("bigint", "integer"),
    ("integer", "smallint"),
    ("integer", "numeric"),
    ("bigint", "numeric"),
    ("numeric", "integer"),
    ("numeric", "bigint"),
    ("integer", "real"),
    ("integer", "double precision"),
    ("real", "double precision"),
    ("double precision", "real"),
    ("real", "numeric"),
    ("double precision", "numeric"),
    ("numeric", "double precision"),
    ("double precision", "integer"),
    ("double precision", "bigint"),
    ("real", "integer"),
    ("bigint", "real"),
    ("bigint", "double precision"),
    ("numeric", "real"),
    ("numeric", "smallint"),
    ("smallint", "numeric"),
    ("smallint", "real"),
    ("bigint", "smallint"),
    ("integer", "boolean"),
    ("boolean", "integer"),
    ("text", "bpchar"),
    ("bpchar", "text"),
    ("bpchar", "varchar"),
    ("varchar", "bpchar"),
    ("varchar", "text"),
    ("json", "text"),
    ("uuid", "text"),
    ("date", "timestamp"),
    ("date", "timestamptz"),
    ("timestamp", "date"),
    ("timestamp", "time"),
    ("timestamp", "timestamptz"),
    ("timestamptz", "timestamp"),
    ("timestamptz", "date"),
    ("timestamptz", "time"),
    ("time", "interval"),
    ("interval", "time"),
    ("text", "bytea"),
    ("integer[]", "bigint[]"),
    ("integer[]", "text[]"),
    ("integer[]", "numeric[]"),
    ("text[]", "varchar[]"),
    ("date[]", "timestamp[]"),
    ("double precision[]", "numeric[]"),
    ("numeric[]", "text[]"),
];

/// Returns the callables that no catalog lists: syntax, window functions, casts.
fn forms(known: &KnownExceptions) -> Vec<Callable> {
    let mut all = Vec::new();
    for (forms, kind) in [(FORMS, CallableKind::Scalar), (WINDOWS, CallableKind::Window)] {
        for (template, places, result) in forms {
            let signature = format!("{template} {}", places.join(", "));
            if !is_known(known, &signature) {
                let slots = places.iter().map(|place| slot(place)).collect();
                let returns = want(result);
                let vague = kind == CallableKind::Window && returns == WantedType::Exact(Ty::Float8);
                all.push(Callable { signature, template: (*template).to_owned(), slots, returns, kind, vague });
            }
        }
    }
    for (from, to) in CASTS {
        let signature = format!("cast({from} as {to})");
        if !is_known(known, &signature) {
            let template = format!("($0)::{to}");
            let (slots, returns) = (vec![slot(from)], want(to));
            all.push(Callable { signature, template, slots, returns, kind: CallableKind::Scalar, vague: false });
        }
    }
    all
}

fn ty(name: &str) -> Ty {
    Ty::by_name(name).unwrap_or_else(|| panic!("{name} is no type"))
}

fn want(text: &str) -> WantedType {
    match text {
        "elem" => WantedType::Element,
        "array" => WantedType::Array,
        "any" => WantedType::Any,
        name => WantedType::Exact(ty(name)),
    }
}

/// Reads a place of a form.
fn slot(text: &str) -> ArgumentSlot {
    if let Some(name) = text.strip_prefix('@') {
        return ArgumentSlot { want: WantedType::Word, pool: Some(pool(name)), wrap: None };
    }
    let (name, of) = text.split_once('@').map_or((text, None), |(name, of)| (name, Some(of)));
    ArgumentSlot { want: want(name), pool: of.map(pool), wrap: None }
}

/// Returns the places of a function with these argument types, if all of them can be filled.
fn slots(name: &str, arguments: &[u32]) -> Option<Vec<ArgumentSlot>> {
    let wants: Option<Vec<WantedType>> = arguments.iter().map(|oid| polymorphic(*oid)).collect();
    let wants = wants?;
    let first = match wants.first() {
        Some(WantedType::Exact(ty)) => ty.name(),
        Some(WantedType::Element) => "elem",
        Some(WantedType::Array | WantedType::Any | WantedType::Word) | None => "",
    };
    let hints =
        HINTS.iter().find(|(of, at, _)| *of == name && (at.is_empty() || *at == first)).map_or(&[][..], |hint| hint.2);
    let parts_of_time = ["extract", "date_part"].contains(&name).then(|| match wants.get(1) {
        Some(WantedType::Exact(ty)) => fields(ty.name()),
        _ => "field",
    });
    let filled = wants.iter().enumerate().map(|(at, want)| {
        let hint = hints.get(at).copied().unwrap_or_default();
        let mut slot = ArgumentSlot { want: *want, pool: None, wrap: None };
        match hint {
            "+" => slot.wrap = Some("(abs($0) + 1)"),
            "~" => slot.wrap = Some("sin($0)"),
            "@array" => slot.pool = Some(&["[1, 2]", "[]", "[null]"]),
            "" => slot.pool = if at == 0 { parts_of_time.map(pool) } else { None },
            hint => {
                // Two pools: the first for numbers, the second for text.
                let (one, two) = hint[1..].split_once('|').unwrap_or((&hint[1..], &hint[1..]));
                let is_text = matches!(want, WantedType::Exact(Ty::Text));
                let name = match (one, two) {
                    ("key", "index") => {
                        if is_text {
                            "key"
                        } else {
                            "index"
                        }
                    }
                    ("flags", "count") => {
                        if is_text {
                            "flags"
                        } else {
                            "count"
                        }
                    }
                    (one, two) => {
                        if is_text {
                            two
                        } else {
                            one
                        }
                    }
                };
                slot.pool = Some(pool(name));
            }
        }
        slot
    });
    Some(filled.collect())
}

fn polymorphic(oid: u32) -> Option<WantedType> {
    match oid {
        2276 => Some(WantedType::Any),
        2277 | 5078 => Some(WantedType::Array),
        2283 | 5077 | 5079 | 2776 => Some(WantedType::Element),
        oid => Ty::by_oid(oid).map(WantedType::Exact),
    }
}

fn signature(name: &str, arguments: &[u32]) -> String {
    let names = arguments.iter().map(|oid| match polymorphic(*oid) {
        Some(WantedType::Exact(ty)) => ty.name(),
        Some(WantedType::Element) => "elem",
        Some(WantedType::Array) => "array",
        Some(WantedType::Any) => "any",
        Some(WantedType::Word) | None => "?",
    });
    format!("{name}({})", names.collect::<Vec<_>>().join(", "))
}

/// Returns the number of arguments before `WITHIN GROUP (ORDER BY …)`, for aggregates of that form.
fn direct_arguments(name: &str) -> Option<usize> {
    match name {
        "mode" => Some(0),
        "percentile_cont" | "percentile_disc" => Some(1),
        _ => None,
    }
}

fn function(entry: &CatalogEntry) -> Option<Callable> {
    let CatalogEntry { name, kind, arguments, result, set } = entry;
    let mut slots = slots(name, arguments)?;
    if name.starts_with("json_extract_path") {
        // The arguments of the VARIADIC array are written one by one.
        slots[1] = slot("text@key");
    }
    let returns = polymorphic(*result).filter(|returns| *returns != WantedType::Any)?;
    let places: Vec<String> = (0..slots.len()).map(|at| format!("${at}")).collect();
    let quoted = if KEYWORDS.contains(&name.as_str()) { format!("\"{name}\"") } else { name.clone() };
    let kind = match (kind, set) {
        ('a', _) if direct_arguments(name).is_some() => CallableKind::OrderedSet,
        ('a', _) => CallableKind::Aggregate,
        (_, true) => CallableKind::Set,
        ('f', false) => CallableKind::Scalar,
        _ => return None,
    };
    let template = match direct_arguments(name) {
        Some(direct) if kind == CallableKind::OrderedSet => {
            format!("{name}({}) within group (order by {})", places[..direct].join(", "), places[direct..].join(", "))
        }
        _ if name == "count" && places.is_empty() => "count(*)".to_owned(),
        _ => format!("{quoted}({})", places.join(", ")),
    };
    let is_float = matches!(returns, WantedType::Exact(ty) if ty.is_float());
    let exact = [
        "abs",
        "ceil",
        "ceiling",
        "floor",
        "round",
        "trunc",
        "sign",
        "float4",
        "float8",
        "date_part",
        "min",
        "max",
        "percentile_disc",
    ];
    let vague = is_float && !exact.contains(&name.as_str());
    Some(Callable { signature: signature(name, arguments), template, slots, returns, kind, vague })
}

/// Names that are words of the grammar: as functions they are quoted.
const KEYWORDS: [&str; 14] = [
    "extract",
    "position",
    "overlay",
    "substring",
    "overlaps",
    "timezone",
    "interval",
    "timestamp",
    "time",
    "timestamptz",
    "numeric",
    "varchar",
    "bit",
    "char",
];

fn operator(entry: &CatalogEntry) -> Option<Callable> {
    let CatalogEntry { name, kind, arguments, result, .. } = entry;
    let arguments: Vec<u32> = if *kind == 'l' { arguments[1..].to_vec() } else { arguments.clone() };
    let slots = slots(name, &arguments)?;
    let returns = polymorphic(*result)?;
    let template = if arguments.len() == 1 { format!("({name} $0)") } else { format!("($0 {name} $1)") };
    let is_float = matches!(returns, WantedType::Exact(ty) if ty.is_float());
    let vague = is_float && !["+", "-", "*", "/", "@"].contains(&name.as_str());
    let signature = signature(name, &arguments);
    Some(Callable { signature, template, slots, returns, kind: CallableKind::Scalar, vague })
}

#[cfg(test)]
impl Catalog {
    /// Returns the catalog of the callables that need no server.
    pub fn of_forms() -> Catalog {
        Catalog { all: forms(&KnownExceptions::new()), left_out: Vec::new(), excepted: BTreeSet::new() }
    }
}
