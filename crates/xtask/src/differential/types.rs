//! Types of the generated expressions, and constants of each: ordinary ones, and those at the edges of the type.

use super::rng::Rng;

/// Type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ty {
    Bool,
    Int2,
    Int4,
    Int8,
    Numeric,
    Float4,
    Float8,
    Text,
    Varchar,
    Bpchar,
    Bytea,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Uuid,
    Json,
    /// Name of an encoding, which only occurs as a constant.
    Name,
    BoolArray,
    Int2Array,
    Int4Array,
    Int8Array,
    NumericArray,
    Float4Array,
    Float8Array,
    TextArray,
    VarcharArray,
    BpcharArray,
    ByteaArray,
    DateArray,
    TimeArray,
    TimestampArray,
    TimestamptzArray,
    IntervalArray,
    UuidArray,
}

use Ty::*;

/// Types with their names, their OIDs, and the arrays of them.
const TYPES: [(Ty, &str, u32, Option<Ty>); 36] = [
    (Bool, "boolean", 16, Some(BoolArray)),
    (Int2, "smallint", 21, Some(Int2Array)),
    (Int4, "integer", 23, Some(Int4Array)),
    (Int8, "bigint", 20, Some(Int8Array)),
    (Numeric, "numeric", 1700, Some(NumericArray)),
    (Float4, "real", 700, Some(Float4Array)),
    (Float8, "double precision", 701, Some(Float8Array)),
    (Text, "text", 25, Some(TextArray)),
    (Varchar, "varchar", 1043, Some(VarcharArray)),
    (Bpchar, "bpchar", 1042, Some(BpcharArray)),
    (Bytea, "bytea", 17, Some(ByteaArray)),
    (Date, "date", 1082, Some(DateArray)),
    (Time, "time", 1083, Some(TimeArray)),
    (Timestamp, "timestamp", 1114, Some(TimestampArray)),
    (Timestamptz, "timestamptz", 1184, Some(TimestamptzArray)),
    (Interval, "interval", 1186, Some(IntervalArray)),
    (Uuid, "uuid", 2950, Some(UuidArray)),
    (Json, "json", 114, None),
    (Name, "name", 19, None),
    (BoolArray, "boolean[]", 1000, None),
    (Int2Array, "smallint[]", 1005, None),
    (Int4Array, "integer[]", 1007, None),
    (Int8Array, "bigint[]", 1016, None),
    (NumericArray, "numeric[]", 1231, None),
    (Float4Array, "real[]", 1021, None),
    (Float8Array, "double precision[]", 1022, None),
    (TextArray, "text[]", 1009, None),
    (VarcharArray, "varchar[]", 1015, None),
    (BpcharArray, "bpchar[]", 1014, None),
    (ByteaArray, "bytea[]", 1001, None),
    (DateArray, "date[]", 1182, None),
    (TimeArray, "time[]", 1183, None),
    (TimestampArray, "timestamp[]", 1115, None),
    (TimestamptzArray, "timestamptz[]", 1185, None),
    (IntervalArray, "interval[]", 1187, None),
    (UuidArray, "uuid[]", 2951, None),
];

/// Types that a polymorphic argument is given. `bpchar` is not among them: of values of several lengths, equal ones
/// print differently.
pub const ELEMENTS: [Ty; 16] = [
    Bool,
    Int2,
    Int4,
    Int8,
    Numeric,
    Float4,
    Float8,
    Text,
    Varchar,
    Bytea,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Uuid,
];

impl Ty {
    fn row(self) -> &'static (Ty, &'static str, u32, Option<Ty>) {
        TYPES.iter().find(|(ty, ..)| *ty == self).expect("each type has its row")
    }

    /// Returns the name by which a cast names the type.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the type with this name.
    pub fn by_name(name: &str) -> Option<Ty> {
        TYPES.iter().find(|(_, of, ..)| *of == name).map(|(ty, ..)| *ty)
    }

    /// Returns the type with this OID, if it is one of those that are generated.
    pub fn by_oid(oid: u32) -> Option<Ty> {
        TYPES.iter().find(|(_, _, of, _)| *of == oid).map(|(ty, ..)| *ty)
    }

    /// Returns the array type.
    pub fn array(self) -> Option<Ty> {
        self.row().3
    }

    /// Returns the type of an array's elements.
    pub fn element(self) -> Option<Ty> {
        TYPES.iter().find(|(.., array)| *array == Some(self)).map(|(ty, ..)| *ty)
    }

    /// Returns true if values can be compared, and so sorted and grouped.
    pub fn is_ordered(self) -> bool {
        self != Json && self != Name
    }

    /// Returns true if equal values print alike. They do not where 1.0 = 1.00, 0 = -0, or '1 mon' = '30 days'.
    pub fn is_clean(self) -> bool {
        match self.element().unwrap_or(self) {
            Numeric | Float4 | Float8 | Interval | Json | Name => false,
            Bool | Int2 | Int4 | Int8 | Text | Varchar | Bpchar | Bytea | Date | Time | Timestamp | Timestamptz
            | Uuid => true,
            _ => false,
        }
    }

    /// Returns true if the last digits of a value can depend on the order of the computation.
    pub fn is_float(self) -> bool {
        matches!(self.element().unwrap_or(self), Float4 | Float8)
    }

    /// Returns literals without quotes and casts: the ordinary ones.
    pub const fn ordinary(self) -> &'static [&'static str] {
        match self {
            Bool => &["true", "false"],
            // Small numbers, so that most computations succeed.
            Int2 | Int4 | Int8 => &["0", "1", "2", "3", "5", "7", "10", "-1", "-4"],
            Numeric => &["0", "1", "2", "3", "0.5", "1.25", "-1.5", "10", "100", "2.00"],
            Float4 | Float8 => &["0", "1", "2", "3", "0.5", "0.25", "-1.5", "8"],
            Text | Varchar => &["a", "b", "ab", "abc", "A", "x", "é", "a%", "_b", "1", "2024-03-05", "zebra"],
            Bpchar => &["a", "b", "ab", "abc", "é"],
            Bytea => &["\\x00", "\\x61", "\\x6162", "\\xff00"],
            Date => &["2024-02-29", "2024-03-10", "2000-01-01", "1999-12-31", "2024-11-03"],
            Time => &["00:00:00", "12:34:56.789", "23:59:59", "06:00"],
            Timestamp => {
                &["2024-02-29 12:30:00", "2024-03-10 02:30:00", "2000-01-01 00:00:00", "1999-12-31 23:59:59.5"]
            }
            Timestamptz => &[
                "2024-02-29 12:30:00+00",
                "2024-03-10 07:30:00+00",
                "2024-11-03 05:30:00+00",
                "2000-01-01 00:00:00+01",
                "2024-07-01 12:00 Europe/Berlin",
                "2024-03-10 02:30 America/New_York",
                "2024-11-03 01:30 America/New_York",
            ],
            Interval => &[
                "1 day",
                "2 days",
                "1 month",
                "1 year 2 mons",
                "03:04:05.6",
                "-1 day",
                "36:00:00",
                "90 minutes",
                "1 mon -1 day +02:03:04",
                "P1Y2M3DT4H5M6S",
            ],
            Uuid => &[
                "00000000-0000-0000-0000-000000000000",
                "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                "ffffffff-ffff-ffff-ffff-ffffffffffff",
            ],
            Json => &["{\"a\": 1, \"b\": [1, 2]}", "[1, {\"a\": null}, \"x\"]", "1", "null", "{\"a\": {\"b\": \"c\"}}"],
            Name => &["UTF8"],
            BoolArray => &["{t,f}", "{NULL}", "{t}"],
            Int2Array | Int4Array | Int8Array => &["{1,2,3}", "{3}", "{}", "{1,NULL,2}", "{5,1}"],
            NumericArray => &["{1,2.5}", "{}", "{NULL,3}", "{1.50}"],
            Float4Array | Float8Array => &["{0.5,1}", "{0.25}", "{}"],
            TextArray | VarcharArray | BpcharArray => &["{a,b}", "{}", "{a,NULL}", "{abc,x,é}", "{\"\"}"],
            ByteaArray => &["{\"\\\\x61\"}", "{}"],
            DateArray => &["{2024-02-29,2000-01-01}", "{NULL}"],
            TimeArray => &["{00:00:00,12:34:56}"],
            TimestampArray => &["{2024-02-29 12:30:00,NULL}"],
            TimestamptzArray => &["{2024-02-29 12:30:00+00}"],
            IntervalArray => &["{1 day,03:04:05}"],
            UuidArray => &["{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"],
        }
    }

    /// Returns literals at the edges of the type.
    pub const fn edges(self) -> &'static [&'static str] {
        match self {
            Bool => &["true", "false"],
            Int2 => &["32767", "-32768", "0"],
            Int4 => &["2147483647", "-2147483648", "0"],
            Int8 => &["9223372036854775807", "-9223372036854775808", "0"],
            Numeric => &[
                "NaN",
                "Infinity",
                "-Infinity",
                "1e20",
                "0.000",
                "-0.00001",
                "12345678901234567890.123",
                "1e-30",
                "1e200",
                "-1e-200",
            ],
            Float4 => &["NaN", "Infinity", "-Infinity", "-0", "3e38", "1e-38"],
            Float8 => &["NaN", "Infinity", "-Infinity", "-0", "1e308", "1e-300"],
            Text | Varchar => &["", " ", "  a ", "日本語", "a\nb", "ÀÉ", "%", "\\", "😀", "e\u{301}", "Straße"],
            Bpchar => &["", "日本"],
            Bytea => &["", "\\x", "\\x5c27"],
            Date => &["infinity", "-infinity", "3000-01-01 BC", "200000-12-31", "0001-01-01"],
            Time => &["24:00:00", "00:00:00.000001"],
            Timestamp => &["infinity", "-infinity", "3000-01-01 00:00 BC", "200000-12-31 23:59:59.999999"],
            Timestamptz => &[
                "infinity",
                "-infinity",
                "3000-01-02 00:00+00 BC",
                "200000-12-31 00:00+00",
                "1800-01-01 00:00+00",
                "1883-11-18 12:03:58 America/New_York",
            ],
            Interval => &["0", "1 mon -30 days", "-178000000 years", "30 days", "00:00:00.000001"],
            // These types have no edges.
            Uuid | Json | Name => self.ordinary(),
            BoolArray | Int2Array | Int4Array | Int8Array | NumericArray | Float4Array | Float8Array | TextArray
            | VarcharArray | BpcharArray | ByteaArray | DateArray | TimeArray | TimestampArray | TimestamptzArray
            | IntervalArray | UuidArray => &["{}", "{NULL}"],
        }
    }

    /// Writes a literal of the type, so that it has the type whatever stands around it.
    pub fn literal(self, value: &str) -> String {
        match self {
            Bool => value.to_owned(),
            Int4 if value.parse::<i32>().is_ok_and(|number| 0 <= number) => value.to_owned(),
            Numeric if value.contains('.') && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
                value.to_owned()
            }
            _ => format!("{}::{}", quoted(value), self.name()),
        }
    }

    /// Returns a random literal, now and then one from the edges.
    pub fn random(self, rng: &mut Rng) -> &'static str {
        let choices = if rng.chance(12) { self.edges() } else { self.ordinary() };
        rng.word(choices)
    }
}

/// Writes a text between quotes.
pub fn quoted(value: &str) -> String {
    let doubled = value.replace('\'', "''");
    if doubled.contains('\\') { format!("E'{}'", doubled.replace('\\', "\\\\")) } else { format!("'{doubled}'") }
}
