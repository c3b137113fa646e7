//! Goal: each type has one order, one equality and one text on both paths. Method: a table of each type that a column can have,
//! and of arrays of it, with its values in their order, one of them twice, and a null; what compares, hashes, sorts, groups
//! and joins them is asked of both paths. `every_type_is_compared_hashed_written_and_stored` of crate `sql` walks the same types
//! below the paths.

use super::{Server, Tally, judge};
use query::rows::{ResultPiece, Rows, rows_of};
use sql::session::{Destination, Outcome, Step};
use std::sync::Arc;
use types::forms::Forms;
use types::{Datum, Kind, SqlType, text};

/// Values in ascending order; none of types whose values no table keeps.
fn values(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Bool => &["f", "t"],
        Kind::Bytea => &["\\x", "\\x00", "\\xff"],
        Kind::InternalChar => &["a", "b"],
        Kind::Name | Kind::Text | Kind::Varchar => &["", "a", "b ", "é"],
        Kind::Bpchar => &["a", "b"],
        Kind::Int2 => &["-32768", "0", "32767"],
        Kind::Int4 => &["-2147483648", "0", "2147483647"],
        Kind::Int8 => &["-9223372036854775808", "0", "9223372036854775807"],
        Kind::Oid => &["0", "23", "4294967295"],
        Kind::Json => &["{\"a\": 1}", "[1]"],
        Kind::Float4 | Kind::Float8 => &["-Infinity", "-1.5", "0", "1e-30", "Infinity", "NaN"],
        Kind::Date => &["-infinity", "2024-01-01", "infinity"],
        Kind::Time => &["00:00:00", "12:30:00.5", "24:00:00"],
        Kind::Timestamp | Kind::Timestamptz => &["-infinity", "2024-01-01 00:00:00", "infinity"],
        Kind::Interval => &["-1 days", "00:00:01", "1 mon"],
        Kind::Numeric => &["-Infinity", "-1.50", "0", "1000000000000000000000", "NaN"],
        Kind::Regclass | Kind::Regproc | Kind::Regprocedure | Kind::Regnamespace | Kind::Regrole | Kind::Regtype => {
            &["23", "4294967"]
        }
        Kind::Uuid => &["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
        Kind::Int2Vector | Kind::OidVector | Kind::Unknown | Kind::Void | Kind::Array(_) => &[],
    }
}

/// Fills a table with these values in their order and asks both paths about it.
fn ask(server: &mut Server, tally: &mut Tally, of: &str, values: &[String], is_comparable: bool) {
    let null = "null".to_owned();
    let all = values.iter().chain([&values[0], &null]).enumerate();
    let rows: Vec<String> = all.map(|(id, value)| format!("({id}, {value})")).collect();
    server.run("drop table if exists v").unwrap();
    server.run(&format!("create table v (id int primary key, v {of})")).unwrap();
    server.run(&format!("insert into v values {}", rows.join(", "))).unwrap();
    let (first, last) = (format!("{}::{of}", values[0]), format!("{}::{of}", values[values.len() - 1]));
    let mut texts = vec![
        "select id, v from v".to_owned(),
        "select id, v::text from v where v is not null".to_owned(),
        format!("select case when id = 0 then {last} else v end from v"),
    ];
    if is_comparable {
        let more = [
            "select v from v order by v desc, id",
            "select v, count(*) from v group by v",
            "select distinct v from v",
            "select count(distinct v) from v",
            "select x.id, y.id from v x join v y on x.v = y.v",
            "select x.id, y.id from v x left join v y on x.v < y.v",
            "select id, rank() over (order by v) from v",
            "select id from v where v in (select v from v where 0 < id)",
            "select v from v union select v from v",
            "select id from v x where v = (select y.v from v y where y.id = x.id)",
        ];
        texts.extend(more.map(str::to_owned));
        texts.extend(["=", "<>", "<", ">="].map(|operator| format!("select id from v where v {operator} {first}")));
    }
    for text in &texts {
        judge(server, text, tally);
    }
    if !is_comparable {
        return;
    }
    // The order is the one in which they are written here.
    let expected: Vec<String> = std::iter::once(values.len())
        .chain(0..values.len())
        .map(|id| if id == values.len() { 0 } else { id })
        .map(|id| id.to_string())
        .collect();
    for path in ["row", "analytics"] {
        server.run(&format!("set overtake.path = {path}")).unwrap();
        let text =
            format!("select case id when {} then 0 else id end from v where v is not null order by v", values.len());
        match server.run(&text) {
            Ok(found) => {
                let found: Vec<String> = found.unwrap().rows.into_iter().flatten().flatten().collect();
                assert_eq!(found, expected, "{of} on path {path}");
            }
            Err(error) => {
                assert_eq!(error.state(), statement::SqlState::FEATURE_NOT_SUPPORTED, "{of} on path {path}: {error}")
            }
        }
        server.run("reset overtake.path").unwrap();
    }
}

#[test]
fn every_type_is_the_same_on_both_paths() {
    let mut server = Server::new();
    let mut tally = Tally::default();
    for kind in Kind::scalars() {
        let texts = values(kind);
        let of = SqlType::from(kind).name();
        if texts.is_empty() {
            continue;
        }
        let quoted: Vec<String> = texts.iter().map(|text| format!("'{text}'")).collect();
        ask(&mut server, &mut tally, &of, &quoted, types::ops::is_comparable(kind));
        if kind.array_of().is_some() {
            let single = texts.iter().map(|text| format!("array['{text}'::{of}]"));
            let arrays: Vec<String> = std::iter::once("'{}'".to_owned()).chain(single).collect();
            ask(&mut server, &mut tally, &format!("{of}[]"), &arrays, types::ops::is_comparable(kind));
        }
    }
    tally.check(500);
}

/// Returns the rows of a query that are sent while it runs: as columns.
fn sent(server: &mut Server, text: &str) -> Rows {
    let session = &mut server.session;
    let statement = session.prepare(text, &[]).unwrap();
    let mut portal = session.bind(&statement, Vec::new()).unwrap();
    session.stream_to(Destination::Later);
    loop {
        match session.execute(&mut portal).unwrap() {
            Step::Done(Outcome::Streamed(_)) => break,
            Step::Parked(wait) => wait.wait(),
            other => panic!("{text}: {other:?}"),
        }
    }
    let sink = Arc::clone(session.sink().unwrap());
    session.stream_to(Destination::Whole);
    session.sync().unwrap();
    let pieces = std::iter::from_fn(|| sink.stream().next_now()).flat_map(|piece| match piece {
        ResultPiece::Batch(batch) => rows_of(&*batch).unwrap(),
        other => panic!("{text}: {other:?}"),
    });
    pieces.collect()
}

/// Goal: a query that cannot fail at a row is sent as columns, of any type. Method: a table of each type, with nulls.
#[test]
fn every_type_is_sent_as_columns() {
    let mut server = Server::new();
    for kind in Kind::scalars().filter(|kind| !values(*kind).is_empty()) {
        let of = SqlType::from(kind).name();
        let rows: Vec<String> = values(kind).iter().map(|text| format!("('{text}'::{of})")).collect();
        for text in [
            "drop table if exists v".to_owned(),
            format!("create table v (v {of})"),
            format!("insert into v values {}, (null)", rows.join(", ")),
            "set overtake.path = analytics".to_owned(),
        ] {
            server.run(&text).unwrap();
        }
        let shown = |value: &Datum| (!value.is_null()).then(|| text::to_string(value, kind.into(), &Forms::DEFAULT));
        let mut columns: Vec<_> = sent(&mut server, "select v from v").iter().map(|row| shown(&row[0])).collect();
        server.run("set overtake.path = row").unwrap();
        let mut rows: Vec<_> =
            server.run("select v from v").unwrap().unwrap().rows.into_iter().map(|row| row[0].clone()).collect();
        columns.sort_unstable();
        rows.sort_unstable();
        assert_eq!(columns, rows, "{of}");
    }
}
