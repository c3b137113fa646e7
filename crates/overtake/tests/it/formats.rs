//! Goal: the rows of a query have the same bytes on the wire by both paths, in both formats. Method: `overtake serve` as a
//! child, a table with a column of every type, and the messages as they come.

use crate::serve::serve;
use std::net::{SocketAddr, TcpStream};
use tokio_postgres::Config;
use wirekit::raw::{Raw, bind, execute, parse, query, sync};

/// Columns, and the texts of their values.
const COLUMNS: &[(&str, &[&str])] = &[
    ("int2", &["-32768", "0", "32767"]),
    ("int4", &["-2147483648", "7", "2147483647"]),
    ("int8", &["-9223372036854775808", "-1", "9223372036854775807"]),
    ("oid", &["0", "23", "4294967295"]),
    ("regclass", &["0", "pg_class", "4294967"]),
    ("regtype", &["0", "int4", "4294967"]),
    ("float4", &["-Infinity", "-1.5", "1e-30", "0.1", "-0", "NaN"]),
    ("float8", &["Infinity", "1e300", "0.1", "-0", "3", "NaN"]),
    ("numeric", &["NaN", "-Infinity", "0.00", "-1.50", "1e-200", "123456789012345678901234567890.5"]),
    ("numeric(5)", &["-99999", "0", "1"]),
    ("numeric(12,2)", &["-9999999999.99", "0", "-0.05", "7"]),
    ("numeric(18,18)", &["0.000000000000000001", "-0.5", "0"]),
    ("numeric(38,10)", &["1234567890123456789012345678.0123456789", "-0.0000000001", "0"]),
    ("numeric(6,-2)", &["12345600", "0"]),
    ("text", &["", "a", "twelve bytes", "thirteen byte", "žluťoučký kůň 𝄞", " blanks "]),
    ("varchar(20)", &["", "þorn"]),
    ("char(14)", &["", "é", "fourteen bytes"]),
    ("char", &["x", ""]),
    ("\"char\"", &["", "a"]),
    ("name", &["", "a_name"]),
    ("json", &["{\"a\": [1, null]}", "\"ž\""]),
    ("bytea", &["", "\\x00ff5c27", "\\x000102030405060708090a0b0c0d0e0f"]),
    ("bool", &["true", "false"]),
    ("date", &["-infinity", "2024-02-29", "infinity", "0044-03-15 BC"]),
    ("time", &["00:00:00", "12:30:00.5", "24:00:00"]),
    ("timestamp", &["-infinity", "2024-02-29 23:59:59.999999", "0044-03-15 12:00 BC"]),
    ("timestamptz", &["infinity", "2024-07-01 00:00:00.1+00", "1900-01-01 00:00:00+00"]),
    ("interval", &["-1 days", "1 mon 2 days 03:04:05.6", "0"]),
    ("uuid", &["00000000-0000-0000-0000-000000000000", "ffffffff-0123-4567-89ab-ffffffffffff"]),
    ("int4[]", &["{}", "{1,NULL,-3}"]),
    ("text[]", &["{\"\",NULL,\"a b\",\"\\\"\"}", "{ž}"]),
    ("numeric[]", &["{1.50,NaN}"]),
];

const SETTINGS: [&str; 3] = [
    "reset all",
    "set datestyle = german; set intervalstyle = sql_standard; set timezone = 'Europe/Prague'; set bytea_output = escape",
    "set datestyle = 'sql, dmy'; set intervalstyle = iso_8601; set timezone = '+05:30'; set extra_float_digits = 0",
];

fn session(url: &str) -> Raw<TcpStream> {
    let config: Config = url.parse().unwrap();
    let mut raw = Raw::connect(SocketAddr::from(([127, 0, 0, 1], config.get_ports()[0])));
    raw.start(&[("user", "postgres"), ("database", "postgres")]);
    raw
}

fn run(raw: &mut Raw<TcpStream>, text: &str) {
    let answer = raw.ask(&query(text));
    assert!(!answer.contains("E("), "{text}: {answer}");
}

/// Returns the rows of a query, as they are sent in this format.
fn rows(raw: &mut Raw<TcpStream>, text: &str, format: i16) -> Vec<Vec<u8>> {
    raw.send(&[parse("", text, &[]), bind("", "", &[], &[], &[format]), execute("", 0), sync()].concat());
    let mut rows = Vec::new();
    loop {
        let head = raw.exactly(5);
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4;
        let body = raw.exactly(length);
        match head[0] {
            b'D' => rows.push(body),
            b'Z' => return rows,
            b'1' | b'2' | b'C' => {}
            other => panic!("{text}: {} {}", char::from(other), String::from_utf8_lossy(&body)),
        }
    }
}

/// Returns the number of rows, which are the same by both paths and in both formats.
fn compare(raw: &mut Raw<TcpStream>, text: &str) -> usize {
    let mut counts = Vec::new();
    for format in [0, 1] {
        let [by_rows, analytics] = ["row", "analytics"].map(|path| {
            run(raw, &format!("set overtake.path = {path}"));
            let mut rows = rows(raw, text, format);
            if !text.contains("order by") {
                rows.sort_unstable();
            }
            rows
        });
        for (one, two) in by_rows.iter().zip(&analytics) {
            assert_eq!(
                one,
                two,
                "{text} in format {format}: {:?} {:?}",
                String::from_utf8_lossy(one),
                String::from_utf8_lossy(two)
            );
        }
        assert_eq!(by_rows.len(), analytics.len(), "{text} in format {format}");
        counts.push(analytics.len());
    }
    assert_eq!(counts[0], counts[1], "{text}");
    counts[0]
}

pub fn every_type_has_the_same_bytes_by_both_paths() {
    let (_program, url) = serve(&[]);
    let mut raw = session(&url);
    let columns: Vec<String> = COLUMNS.iter().enumerate().map(|(at, (of, _))| format!("c{at} {of}")).collect();
    run(&mut raw, &format!("create table every (id int primary key, {})", columns.join(", ")));
    let height = COLUMNS.iter().map(|(_, values)| values.len()).max().unwrap();
    for id in 0..=height {
        let value = |values: &[&str]| {
            values.get(id).map_or("null".to_owned(), |value| format!("'{}'", value.replace('\'', "''")))
        };
        let values: Vec<String> = COLUMNS.iter().map(|(_, values)| value(values)).collect();
        run(&mut raw, &format!("insert into every values ({id}, {})", values.join(", ")));
    }
    for settings in SETTINGS {
        run(&mut raw, settings);
        assert_eq!(compare(&mut raw, "select * from every"), height + 1);
        assert_eq!(compare(&mut raw, "select * from every order by id desc"), height + 1);
        for at in 0..COLUMNS.len() {
            // As a column of its own, as one that is null everywhere, and as the answer of an operator.
            assert_eq!(compare(&mut raw, &format!("select c{at}, id from every where id < 2")), 2);
            compare(&mut raw, &format!("select c{at}, id, c{at} from every where c{at} is null"));
            compare(&mut raw, &format!("select x.c{at}, x.id, y.c{at} from every x left join every y on x.id < y.id"));
        }
        assert_eq!(compare(&mut raw, "select from every"), height + 1);
        assert_eq!(compare(&mut raw, "select null, id, null::int from every"), height + 1);
        compare(&mut raw, "select count(*), min(c8), max(c14), max(c23), min(c26) from every");
    }
}

/// Goal: large batches, and rows with large values, arrive whole and in order.
pub fn large_batches_have_the_same_bytes_by_both_paths() {
    let (_program, url) = serve(&[]);
    let mut raw = session(&url);
    run(
        &mut raw,
        "create table large as select g as id, repeat('ž', g % 700) as t, decode(repeat('0f', g % 50), 'hex') as b, \
         g::numeric(12, 2) / 7 as n, case when g % 3 = 0 then g::numeric(9, 3) end as m from generate_series(1, 20000) g",
    );
    run(&mut raw, "insert into large select 0, repeat('x', 3000000), '', 0, 0");
    assert_eq!(compare(&mut raw, "select * from large order by id"), 20_001);
    assert_eq!(compare(&mut raw, "select id, t, n from large where id % 2000 = 0"), 11);
    assert_eq!(compare(&mut raw, "select t, count(*), sum(m) from large group by t"), 701);
}
