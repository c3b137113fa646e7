//! Entries of PostgreSQL's `pg_type`: OID, name, length and category of each type.
//!
//! **Invariant:** there is one entry for each type. Every other mapping in this crate between types,
//! OIDs and names reads it here.

use super::{Element, Kind, SqlType};

/// An entry of the table.
struct TypeEntry {
    kind: Kind,
    /// Element of arrays of this type, with the OID of the array type.
    array: Option<(Element, u32)>,
    oid: u32,
    /// Name that `format_type` writes.
    name: &'static str,
    /// Other names in lower case, `pg_type.typname` first.
    aliases: &'static [&'static str],
    len: i16,
    category: char,
    preferred: bool,
}

#[rustfmt::skip]
#[allow(clippy::too_many_arguments, reason = "columns of a table")]
const fn entry(
    kind: Kind, array: Option<(Element, u32)>, oid: u32, name: &'static str, aliases: &'static [&'static str], len: i16,
    category: char, preferred: bool,
) -> TypeEntry {
    TypeEntry { kind, array, oid, name, aliases, len, category, preferred }
}

/// PostgreSQL's other types, which this server does not have.
#[rustfmt::skip]
const FOREIGN: &[&str] = &[
    "aclitem", "bit", "box", "cid", "cidr", "circle", "datemultirange", "daterange", "gtsvector", "inet", "int4multirange",
    "int4range", "int8multirange", "int8range", "jsonb", "jsonpath", "line", "lseg", "macaddr", "macaddr8", "money",
    "nummultirange", "numrange", "path", "pg_lsn", "pg_node_tree", "pg_snapshot", "point", "polygon", "refcursor",
    "regcollation", "regconfig", "regdictionary", "regoper", "regoperator", "tid", "timetz",
    "tsmultirange", "tsquery", "tsrange", "tstzmultirange", "tstzrange", "tsvector", "txid_snapshot", "varbit", "xid", "xid8",
    "xml",
];

#[rustfmt::skip]
static TABLE: [TypeEntry; 31] = [
    entry(Kind::Bool, Some((Element::Bool, 1000)), 16, "boolean", &["bool"], 1, 'B', true),
    entry(Kind::Bytea, Some((Element::Bytea, 1001)), 17, "bytea", &["bytea"], -1, 'U', false),
    entry(Kind::InternalChar, Some((Element::InternalChar, 1002)), 18, "\"char\"", &["\"char\""], 1, 'Z', false),
    entry(Kind::Name, Some((Element::Name, 1003)), 19, "name", &["name"], 64, 'S', false),
    entry(Kind::Int8, Some((Element::Int8, 1016)), 20, "bigint", &["int8"], 8, 'N', false),
    entry(Kind::Int2, Some((Element::Int2, 1005)), 21, "smallint", &["int2"], 2, 'N', false),
    entry(Kind::Int4, Some((Element::Int4, 1007)), 23, "integer", &["int4", "int"], 4, 'N', false),
    entry(Kind::Text, Some((Element::Text, 1009)), 25, "text", &["text"], -1, 'S', true),
    entry(Kind::Oid, Some((Element::Oid, 1028)), 26, "oid", &["oid"], 4, 'N', true),
    entry(Kind::Json, Some((Element::Json, 199)), 114, "json", &["json"], -1, 'U', false),
    entry(Kind::Float4, Some((Element::Float4, 1021)), 700, "real", &["float4"], 4, 'N', false),
    entry(Kind::Float8, Some((Element::Float8, 1022)), 701, "double precision", &["float8", "float"], 8, 'N', true),
    entry(Kind::Unknown, None, 705, "unknown", &["unknown"], -2, 'X', false),
    entry(Kind::Bpchar, Some((Element::Bpchar, 1014)), 1042, "character", &["bpchar", "char"], -1, 'S', false),
    entry(Kind::Varchar, Some((Element::Varchar, 1015)), 1043, "character varying", &["varchar", "char varying"], -1, 'S', false),
    entry(Kind::Date, Some((Element::Date, 1182)), 1082, "date", &["date"], 4, 'D', false),
    entry(Kind::Time, Some((Element::Time, 1183)), 1083, "time without time zone", &["time"], 8, 'D', false),
    entry(Kind::Timestamp, Some((Element::Timestamp, 1115)), 1114, "timestamp without time zone", &["timestamp"], 8, 'D', false),
    entry(Kind::Timestamptz, Some((Element::Timestamptz, 1185)), 1184, "timestamp with time zone", &["timestamptz"], 8, 'D', true),
    entry(Kind::Interval, Some((Element::Interval, 1187)), 1186, "interval", &["interval"], 16, 'T', true),
    entry(Kind::Numeric, Some((Element::Numeric, 1231)), 1700, "numeric", &["numeric", "decimal", "dec"], -1, 'N', false),
    entry(Kind::Regclass, None, 2205, "regclass", &["regclass"], 4, 'N', false),
    entry(Kind::Regtype, Some((Element::Regtype, 2211)), 2206, "regtype", &["regtype"], 4, 'N', false),
    entry(Kind::Regproc, None, 24, "regproc", &["regproc"], 4, 'N', false),
    entry(Kind::Regnamespace, None, 4089, "regnamespace", &["regnamespace"], 4, 'N', false),
    entry(Kind::Regrole, None, 4096, "regrole", &["regrole"], 4, 'N', false),
    entry(Kind::Int2Vector, None, 22, "int2vector", &["int2vector"], -1, 'A', false),
    entry(Kind::OidVector, None, 30, "oidvector", &["oidvector"], -1, 'A', false),
    entry(Kind::Uuid, Some((Element::Uuid, 2951)), 2950, "uuid", &["uuid"], 16, 'U', false),
    entry(Kind::Regprocedure, None, 2202, "regprocedure", &["regprocedure"], 4, 'N', false),
    entry(Kind::Void, None, 2278, "void", &["void"], 4, 'P', false),
];

/// Returns the entry of a kind, and for an array that of its element.
fn line(kind: Kind) -> &'static TypeEntry {
    match kind {
        Kind::Array(element) => line(element.kind()),
        Kind::Bool => &TABLE[0],
        Kind::Bytea => &TABLE[1],
        Kind::InternalChar => &TABLE[2],
        Kind::Name => &TABLE[3],
        Kind::Int8 => &TABLE[4],
        Kind::Int2 => &TABLE[5],
        Kind::Int4 => &TABLE[6],
        Kind::Text => &TABLE[7],
        Kind::Oid => &TABLE[8],
        Kind::Json => &TABLE[9],
        Kind::Float4 => &TABLE[10],
        Kind::Float8 => &TABLE[11],
        Kind::Unknown => &TABLE[12],
        Kind::Bpchar => &TABLE[13],
        Kind::Varchar => &TABLE[14],
        Kind::Date => &TABLE[15],
        Kind::Time => &TABLE[16],
        Kind::Timestamp => &TABLE[17],
        Kind::Timestamptz => &TABLE[18],
        Kind::Interval => &TABLE[19],
        Kind::Numeric => &TABLE[20],
        Kind::Regclass => &TABLE[21],
        Kind::Regtype => &TABLE[22],
        Kind::Regproc => &TABLE[23],
        Kind::Regnamespace => &TABLE[24],
        Kind::Regrole => &TABLE[25],
        Kind::Int2Vector => &TABLE[26],
        Kind::OidVector => &TABLE[27],
        Kind::Uuid => &TABLE[28],
        Kind::Regprocedure => &TABLE[29],
        Kind::Void => &TABLE[30],
    }
}

impl Element {
    /// Returns the element's own type.
    pub fn kind(self) -> Kind {
        match self {
            Element::Bool => Kind::Bool,
            Element::Bytea => Kind::Bytea,
            Element::InternalChar => Kind::InternalChar,
            Element::Name => Kind::Name,
            Element::Int8 => Kind::Int8,
            Element::Int2 => Kind::Int2,
            Element::Int4 => Kind::Int4,
            Element::Text => Kind::Text,
            Element::Oid => Kind::Oid,
            Element::Json => Kind::Json,
            Element::Float4 => Kind::Float4,
            Element::Float8 => Kind::Float8,
            Element::Bpchar => Kind::Bpchar,
            Element::Varchar => Kind::Varchar,
            Element::Date => Kind::Date,
            Element::Time => Kind::Time,
            Element::Timestamp => Kind::Timestamp,
            Element::Timestamptz => Kind::Timestamptz,
            Element::Interval => Kind::Interval,
            Element::Numeric => Kind::Numeric,
            Element::Uuid => Kind::Uuid,
            Element::Regtype => Kind::Regtype,
        }
    }

    /// Returns all elements.
    pub fn all() -> impl Iterator<Item = Element> {
        TABLE.iter().filter_map(|entry| entry.array.map(|(element, _)| element))
    }
}

impl Kind {
    /// Returns all types but arrays.
    pub fn scalars() -> impl Iterator<Item = Kind> {
        TABLE.iter().map(|entry| entry.kind)
    }

    /// Returns all types.
    pub fn all() -> impl Iterator<Item = Kind> {
        Kind::scalars().chain(Element::all().map(Kind::Array))
    }

    /// Returns `pg_type.oid`.
    pub fn oid(self) -> u32 {
        match self {
            Kind::Array(_) => line(self).array.map_or(0, |(_, oid)| oid),
            _ => line(self).oid,
        }
    }

    /// Returns the type with this OID.
    pub fn from_oid(oid: u32) -> Option<Kind> {
        TABLE.iter().find_map(|entry| match entry.array {
            _ if entry.oid == oid => Some(entry.kind),
            Some((element, array)) if array == oid => Some(Kind::Array(element)),
            _ => None,
        })
    }

    /// Returns the name that `format_type` writes, without a modifier.
    pub fn name(self) -> String {
        match self {
            Kind::Array(_) => format!("{}[]", line(self).name),
            _ => line(self).name.to_owned(),
        }
    }

    /// Returns `pg_type.typname`.
    pub fn type_name(self) -> String {
        let name = line(self).aliases[0].trim_matches('"');
        if matches!(self, Kind::Array(_)) { format!("_{name}") } else { name.to_owned() }
    }

    /// Returns the type with this SQL name or alias, in lower case and with single blanks: `int`, `double precision`,
    /// `_int4`, `text[]`. `serial` is not a type.
    pub fn from_name(name: &str) -> Option<Kind> {
        if let Some(element) = name.strip_suffix("[]").or_else(|| name.strip_prefix('_')) {
            return Kind::from_name(element)?.array_of();
        }
        TABLE.iter().find(|entry| entry.name == name || entry.aliases.contains(&name)).map(|entry| entry.kind)
    }

    /// Returns the type with this `pg_type.typname`.
    pub fn from_typname(name: &str) -> Option<Kind> {
        let is_it = |entry: &&TypeEntry| entry.aliases.first().is_some_and(|own| own.trim_matches('"') == name);
        TABLE.iter().find(is_it).map(|entry| entry.kind).filter(|kind| *kind != Kind::Unknown)
    }

    /// Returns true if PostgreSQL has a type of this name that this server does not have.
    pub fn is_foreign(name: &str) -> bool {
        FOREIGN.contains(&name)
    }

    /// Returns `pg_type.typlen`.
    #[allow(clippy::len_without_is_empty, reason = "the length of a value, not of a collection")]
    pub fn len(self) -> i16 {
        if matches!(self, Kind::Array(_)) { -1 } else { line(self).len }
    }

    /// Returns `pg_type.typcategory`.
    pub fn category(self) -> char {
        if matches!(self, Kind::Array(_)) { 'A' } else { line(self).category }
    }

    /// Returns `pg_type.typispreferred`.
    pub fn is_preferred(self) -> bool {
        !matches!(self, Kind::Array(_)) && line(self).preferred
    }

    /// Returns the array type with such elements.
    pub fn array_of(self) -> Option<Kind> {
        match self {
            Kind::Array(_) => None,
            _ => line(self).array.map(|(element, _)| Kind::Array(element)),
        }
    }

    /// Returns the element type, if this is an array.
    pub fn element(self) -> Option<Kind> {
        match self {
            Kind::Array(element) => Some(element.kind()),
            Kind::Int2Vector => Some(Kind::Int2),
            Kind::OidVector => Some(Kind::Oid),
            _ => None,
        }
    }
}

impl SqlType {
    /// Returns `pg_type.oid`.
    pub fn oid(self) -> u32 {
        self.kind.oid()
    }

    /// Returns the type with this OID and no modifier.
    pub fn from_oid(oid: u32) -> Option<SqlType> {
        Kind::from_oid(oid).map(SqlType::from)
    }

    /// Returns `pg_type.typlen`.
    #[allow(clippy::len_without_is_empty, reason = "the length of a value, not of a collection")]
    pub fn len(self) -> i16 {
        self.kind.len()
    }

    /// Returns the element type, with the array's modifier.
    pub fn element(self) -> Option<SqlType> {
        self.kind.element().map(|kind| SqlType { kind, typmod: self.typmod })
    }

    /// Returns `numeric(precision, scale)`.
    pub fn numeric(precision: i32, scale: i32) -> SqlType {
        SqlType { kind: Kind::Numeric, typmod: ((precision << 16) | (scale & 0x7ff)) + 4 }
    }

    /// Returns `varchar(length)` or `character(length)`.
    pub fn with_length(kind: Kind, length: i32) -> SqlType {
        SqlType { kind, typmod: length + 4 }
    }

    /// Returns the precision and scale of a numeric type that has them.
    pub fn precision_and_scale(self) -> Option<(i32, i32)> {
        let bits = self.typmod - 4;
        (self.typmod >= 4).then_some(((bits >> 16) & 0xffff, ((bits & 0x7ff) ^ 1024) - 1024))
    }

    /// Returns the maximum length of a character type that has one.
    pub fn max_length(self) -> Option<usize> {
        usize::try_from(self.typmod - 4).ok().filter(|_| matches!(self.kind, Kind::Bpchar | Kind::Varchar))
    }

    /// Returns the number of digits of a second, for types of time that have this modifier.
    pub fn second_digits(self) -> Option<u32> {
        let digits = match self.kind {
            Kind::Interval => self.typmod & 0xffff,
            _ => self.typmod,
        };
        (self.typmod >= 0).then_some(digits).and_then(|digits| u32::try_from(digits).ok()).filter(|digits| *digits <= 6)
    }

    /// Returns the name that `format_type` writes.
    pub fn name(self) -> String {
        let array = if matches!(self.kind, Kind::Array(_)) { "[]" } else { "" };
        let base = self.element().unwrap_or(self);
        let written = match base.kind {
            Kind::Bpchar if base.typmod < 0 => "bpchar".to_owned(),
            Kind::Bpchar | Kind::Varchar if base.typmod >= 4 => format!("{}({})", base.kind.name(), base.typmod - 4),
            Kind::Numeric => match base.precision_and_scale() {
                Some((precision, scale)) => format!("numeric({precision},{scale})"),
                None => base.kind.name(),
            },
            Kind::Time | Kind::Timestamp | Kind::Timestamptz | Kind::Interval => match base.second_digits() {
                Some(digits) => {
                    let name = base.kind.name();
                    let (first, rest) = name
                        .split_once(' ')
                        .map_or((name.as_str(), ""), |_| name.split_at(name.find(' ').unwrap_or(0)));
                    format!("{first}({digits}){rest}")
                }
                None => base.kind.name(),
            },
            kind => kind.name(),
        };
        written + array
    }
}
