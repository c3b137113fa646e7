//! Tables of the queries: one set of columns for each type, tables of 0, 7, 40 and 150 rows, NULLs and edges everywhere.

use super::rng::Rng;
use super::types::{Ty, quoted};
use std::fmt::Write as _;

/// Column of every table.
pub struct TableColumn {
    pub name: &'static str,
    pub ty: Ty,
    declared: &'static str,
    /// True if values are small multiples of a power of two, whose sums are exact in any order.
    pub tame: bool,
    /// True if equal values print alike.
    pub clean: bool,
    /// True if values come from the edges, which make most computations fail.
    pub wild: bool,
    values: &'static [&'static str],
}

const fn column(name: &'static str, ty: Ty, declared: &'static str, values: &'static [&'static str]) -> TableColumn {
    TableColumn { name, ty, declared, tame: true, clean: true, wild: false, values }
}

const fn unclean(mut column: TableColumn) -> TableColumn {
    column.clean = false;
    column
}

const fn wild(mut column: TableColumn) -> TableColumn {
    column.tame = false;
    column.wild = true;
    column
}

/// Columns behind `id`, which is the primary key.
pub const COLUMNS: &[TableColumn] = &[
    column("b", Ty::Bool, "boolean", &["true", "false"]),
    column("h", Ty::Int2, "smallint", &["0", "1", "2", "3", "-3", "7", "12", "100"]),
    column("i", Ty::Int4, "integer", &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "-1", "-6", "15", "20"]),
    column("l", Ty::Int8, "bigint", &["0", "1", "2", "5", "10", "-7", "42", "1000"]),
    wild(column("wi", Ty::Int4, "integer", Ty::Int4.edges())),
    wild(column("wl", Ty::Int8, "bigint", Ty::Int8.edges())),
    column("n", Ty::Numeric, "numeric(10,2)", &["0", "1", "1.5", "2.25", "-3.75", "10.01", "99.99", "1000"]),
    wild(unclean(column(
        "wn",
        Ty::Numeric,
        "numeric",
        &["NaN", "Infinity", "-Infinity", "1e20", "0.000", "-0.00001", "1.10", "1.1", "-0.5"],
    ))),
    column("r", Ty::Float4, "real", &["0", "1", "0.5", "-1.5", "2.25", "16"]),
    column("f", Ty::Float8, "double precision", &["0", "1", "0.5", "-1.5", "2.25", "16", "-8", "31.75"]),
    wild(unclean(column("wf", Ty::Float8, "double precision", Ty::Float8.edges()))),
    column(
        "s",
        Ty::Text,
        "text",
        &["a", "b", "ab", "abc", "A", "", " x ", "é", "日本語", "a%b", "12", "zebra", "NULL", "aab12c"],
    ),
    column("v", Ty::Varchar, "varchar(10)", &["a", "b", "ab", "", "é", "abc ", "Xyz"]),
    column("c", Ty::Bpchar, "char(5)", &["a", "ab", "", "abcde", "é", "B"]),
    column("y", Ty::Bytea, "bytea", &["\\x616263", "\\x00ff10", "\\x61", "\\x", "\\x5c275c27"]),
    column(
        "d",
        Ty::Date,
        "date",
        &["2024-02-29", "2024-03-10", "2000-01-01", "1999-12-31", "2024-11-03", "2023-07-15"],
    ),
    wild(column("wd", Ty::Date, "date", Ty::Date.edges())),
    column("t", Ty::Time, "time", &["00:00", "12:34:56.789", "23:59:59", "24:00", "06:07:08"]),
    column(
        "m",
        Ty::Timestamp,
        "timestamp",
        &["2024-02-29 12:30", "2024-03-10 02:30", "2024-11-03 01:30", "2000-01-01 00:00", "1999-12-31 23:59:59.999999"],
    ),
    wild(column("wm", Ty::Timestamp, "timestamp", Ty::Timestamp.edges())),
    column(
        "z",
        Ty::Timestamptz,
        "timestamptz",
        &[
            "2024-02-29 12:30+00",
            "2024-03-10 06:59:59+00",
            "2024-03-10 07:00+00",
            "2024-11-03 05:30+00",
            "2024-11-03 06:30+00",
            "2000-01-01 00:00+00",
        ],
    ),
    unclean(column(
        "e",
        Ty::Interval,
        "interval",
        &[
            "1 day",
            "24:00:00",
            "1 month",
            "30 days",
            "1 year 2 mons 3 days 04:05:06",
            "-1 day 02:00",
            "0",
            "00:00:01.5",
        ],
    )),
    column(
        "u",
        Ty::Uuid,
        "uuid",
        &[
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "00000000-0000-0000-0000-000000000000",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12",
        ],
    ),
    unclean(column("j", Ty::Json, "json", Ty::Json.ordinary())),
    column("ai", Ty::Int4Array, "integer[]", &["{1,2,3}", "{}", "{NULL}", "{3,1,NULL}", "{5}"]),
    column("al", Ty::Int8Array, "bigint[]", &["{1,2,3}", "{}", "{10,NULL}"]),
    column("aw", Ty::TextArray, "text[]", &["{a,b}", "{}", "{NULL,a}", "{\"\",é}", "{abc}"]),
    unclean(column("an", Ty::NumericArray, "numeric[]", &["{1,2.5}", "{}", "{NULL,1.0}", "{1.00}"])),
    unclean(column("af", Ty::Float8Array, "double precision[]", &["{0.5,1}", "{}", "{NULL,2}"])),
    column("ad", Ty::DateArray, "date[]", &["{2024-02-29}", "{2000-01-01,NULL}"]),
];

/// Tables with the number of their rows.
pub const TABLES: [(&str, usize); 4] = [("t1", 40), ("t2", 150), ("t3", 7), ("t4", 0)];

/// Returns the statements that make the tables and fill them. They depend on nothing, so that a seed means the same
/// query over the same rows everywhere.
pub fn statements() -> Vec<String> {
    let mut rng = Rng::new(23, 0);
    let mut statements = Vec::new();
    for (table, rows) in TABLES {
        let mut text = format!("create table {table} (id integer primary key");
        for column in COLUMNS {
            write!(text, ", {} {}", column.name, column.declared).expect("a String takes everything");
        }
        statements.push(text + ")");
        statements.push(format!("create index on {table} (i)"));
        let mut values = Vec::new();
        for id in 1..=rows {
            let mut row = vec![id.to_string()];
            for column in COLUMNS {
                row.push(if rng.chance(14) { "null".to_owned() } else { quoted(rng.word(column.values)) });
            }
            values.push(format!("({})", row.join(", ")));
        }
        if !values.is_empty() {
            statements.push(format!("insert into {table} values {}", values.join(", ")));
        }
        statements.push(format!("analyze {table}"));
    }
    statements
}
