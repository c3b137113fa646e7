//! Goal: calls that differ only in a constant are different calls. Method: each operator, function and aggregate that the
//! catalog names is called three times in one query, on the same column, with different constants: among the columns, in WHERE,
//! FILTER, GROUP BY, HAVING and CASE. Rows and analytics must agree. What the row path does not evaluate is left out, and
//! what analytics refuses is counted.

use super::{Given, Server};
use statement::{SqlResult, SqlState};
use std::collections::HashMap;

/// Three constants of each type.
const CONSTANTS: [(&str, [&str; 3]); 26] = [
    ("bool", ["true", "false", "null"]),
    ("int2", ["2", "3", "7"]),
    ("int4", ["2", "3", "5"]),
    ("int8", ["2", "3", "9"]),
    ("oid", ["2", "3", "11"]),
    ("numeric", ["2", "3.5", "1.25"]),
    ("float4", ["2", "0.5", "3"]),
    ("float8", ["2", "0.25", "3"]),
    ("text", ["a", "b", "xyz"]),
    ("varchar", ["a", "b", "xyz"]),
    ("bpchar", ["a", "b ", "xyz"]),
    ("name", ["a", "b", "xyz"]),
    ("bytea", ["a", "b", "xyz"]),
    ("json", ["[1, 2]", "{\"a\": 1}", "3"]),
    ("date", ["2024-01-31", "2023-03-01", "2020-02-29"]),
    ("time", ["10:20:30.5", "00:00:01", "23:59:59"]),
    ("timestamp", ["2024-01-31 10:20:30.5", "2023-03-01", "2020-02-29 23:00"]),
    ("timestamptz", ["2024-01-31 10:20:30.5+00", "2023-03-01+02", "2020-02-29 23:00+00"]),
    ("interval", ["1 day", "2 months 3 hours", "90 seconds"]),
    (
        "uuid",
        [
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "00000000-0000-0000-0000-000000000001",
            "ffffffff-0000-0000-0000-000000000002",
        ],
    ),
    ("_int4", ["{1,2}", "{2,3,NULL}", "{5}"]),
    ("_int8", ["{1,2}", "{2,3}", "{9}"]),
    ("_text", ["{a,b}", "{b,NULL}", "{xyz}"]),
    ("_numeric", ["{1.5}", "{2,3}", "{1.25,NULL}"]),
    ("_float8", ["{0.5}", "{0.25,0.75}", "{1}"]),
    ("_date", ["{2024-01-31}", "{2023-03-01,2020-02-29}", "{}"]),
];

/// Calls whose names the catalog does not have, with three constants each.
const FORMS: [(&str, [&str; 3]); 34] = [
    ("extract(# from c_timestamp)", ["year", "month", "dow"]),
    ("extract(# from c_date)", ["year", "month", "doy"]),
    ("extract(# from c_interval)", ["day", "hour", "month"]),
    ("extract(# from c_time)", ["hour", "minute", "second"]),
    ("c_text::varchar(#)", ["1", "2", "3"]),
    ("c_text::char(#)", ["1", "2", "9"]),
    ("c_bpchar::varchar(#)", ["1", "2", "3"]),
    ("c_int4::numeric(#)", ["10", "10, 2", "12, 4"]),
    ("c_numeric::numeric(#)", ["10", "10, 1", "12, 4"]),
    ("c_timestamp::timestamp(#)", ["0", "1", "3"]),
    ("c_time::time(#)", ["0", "1", "3"]),
    ("c_interval::interval(#)", ["0", "1", "3"]),
    ("substring(c_text from # for 1)", ["1", "2", "3"]),
    ("overlay(c_text placing 'q' from #)", ["1", "2", "3"]),
    ("trim(# from c_text)", ["'a'", "'x'", "'z'"]),
    ("position(# in c_text)", ["'a'", "'y'", "'z'"]),
    ("c_text like #", ["'a%'", "'x%'", "'%z'"]),
    ("c_text not like #", ["'a%'", "'x%'", "'%z'"]),
    ("c_text ilike #", ["'A%'", "'X%'", "'%Z'"]),
    ("c_text like # escape '!'", ["'a!%'", "'x%'", "'!!%'"]),
    ("c_text similar to #", ["'a|b'", "'x%'", "'%z'"]),
    ("c_int4 in (#)", ["1, 2", "3, 4", "5"]),
    ("c_timestamptz in (#)", ["'2024-01-31 10:20:30.5+00'", "'2023-03-01+02'", "'2020-02-29 23:00+00'"]),
    ("c_int4 = any(array[#])", ["1, 2", "3, 4", "5"]),
    ("c_int4 <> all(array[#])", ["1, 2", "3, 4", "5"]),
    ("c_text ~ any(array[#])", ["'^a'", "'^b'", "'z$'"]),
    ("c_int4 between #", ["1 and 2", "2 and 3", "3 and 9"]),
    ("c__int4[#]", ["1", "2", "3"]),
    ("nullif(c_int4, #)", ["2", "3", "5"]),
    ("coalesce(c_int4, #)", ["2", "3", "5"]),
    ("greatest(c_int4, #)", ["2", "3", "5"]),
    ("least(c_numeric, #)", ["2", "3.5", "1.250"]),
    ("c_timestamp at time zone #", ["'UTC'", "'Europe/Berlin'", "'America/New_York'"]),
    ("c_timestamptz at time zone #", ["'UTC'", "'Europe/Berlin'", "'America/New_York'"]),
];

/// Aggregates with three constants each, behind those of the catalog.
const AGGREGATES: [(&str, [&str; 3]); 6] = [
    ("percentile_cont(#) within group (order by c_float8)", ["0.1", "0.5", "0.9"]),
    ("percentile_disc(#) within group (order by c_int4)", ["0.1", "0.5", "0.9"]),
    ("percentile_disc(#) within group (order by c_text)", ["0.1", "0.5", "0.9"]),
    ("string_agg(c_text, # order by c_int4, c_text)", ["','", "';'", "', '"]),
    ("sum(c_numeric * #)", ["2", "3", "0.5"]),
    ("array_agg(c_int4 + # order by c_int4)", ["1", "2", "3"]),
];

/// Three calls that differ in a constant.
type Calls = [String; 3];

fn filled(form: &str, constants: [&str; 3]) -> Calls {
    constants.map(|constant| form.replace('#', constant))
}

fn rows(server: &mut Server, text: &str) -> Vec<Vec<String>> {
    let rows = server.run(text).unwrap().unwrap().rows;
    rows.into_iter().map(|row| row.into_iter().map(Option::unwrap_or_default).collect()).collect()
}

/// Names of types by their numbers.
fn types(server: &mut Server) -> HashMap<String, String> {
    let found = rows(server, "select oid::text, typname::text from pg_type");
    found.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect()
}

fn constants(name: &str) -> Option<[&'static str; 3]> {
    CONSTANTS.iter().find(|(own, _)| *own == name).map(|(_, constants)| *constants)
}

fn constant(name: &str, at: usize) -> Option<String> {
    let text = constants(name)?[at];
    Some(if text == "null" { format!("null::{name}") } else { format!("'{text}'::{name}") })
}

/// The calls of one line: each argument in turn is a column, and the others are constants.
fn calls_of(types: &[&str], text: impl Fn(&[String]) -> String) -> Vec<Calls> {
    let of = |column: usize| {
        let one = |round: usize| {
            let argument = |(at, name): (usize, &&str)| match at == column {
                true => constants(name).map(|_| format!("c_{name}")),
                false => constant(name, round),
            };
            let arguments = types.iter().enumerate().map(argument).collect::<Option<Vec<String>>>()?;
            Some(text(&arguments))
        };
        Some([one(0)?, one(1)?, one(2)?])
    };
    if types.len() < 2 { Vec::new() } else { (0..types.len()).filter_map(of).collect() }
}

fn all_calls(server: &mut Server) -> Vec<Calls> {
    let types = types(server);
    let mut all: Vec<Calls> = FORMS.iter().map(|(form, constants)| filled(form, *constants)).collect();
    for row in
        rows(server, "select distinct oprname::text, oprleft::text, oprright::text from pg_operator order by 1, 2, 3")
    {
        let sides = [types.get(&row[1]), types.get(&row[2])];
        if let [Some(left), Some(right)] = sides {
            all.extend(calls_of(&[left, right], |both| format!("({} {} {})", both[0], row[0], both[1])));
        }
    }
    let functions = "select distinct proname::text, proargtypes::text from pg_proc where prokind = 'f' order by 1, 2";
    for row in rows(server, functions) {
        let differs = ["random", "gen_random", "nextval", "setval", "set_config", "pg_", "txid", "now", "clock"];
        if differs.iter().any(|word| row[0].starts_with(word)) {
            continue;
        }
        let arguments = row[1].split(' ').map(|number| types.get(number).map(String::as_str));
        if let Some(arguments) = arguments.collect::<Option<Vec<&str>>>() {
            all.extend(calls_of(&arguments, |arguments| format!("{}({})", row[0], arguments.join(", "))));
        }
    }
    all
}

fn all_aggregates(server: &mut Server) -> Vec<Calls> {
    let types = types(server);
    let mut all: Vec<Calls> = AGGREGATES.iter().map(|(form, constants)| filled(form, *constants)).collect();
    let aggregates = "select distinct proname::text, proargtypes::text from pg_proc where prokind = 'a' order by 1, 2";
    for row in rows(server, aggregates) {
        let arguments = row[1].split(' ').map(|number| types.get(number));
        let Some(arguments) = arguments.collect::<Option<Vec<&String>>>() else { continue };
        // The row that a constant decides about is the first argument's; the others are columns as they stand.
        let columns = arguments.iter().enumerate().map(|(at, name)| match at {
            0 => format!("case when c_int4 > # then c_{name} end"),
            _ => format!("c_{name}"),
        });
        let columns: Vec<String> = columns.collect();
        for form in [
            format!("{}({})", row[0], columns.join(", ")),
            format!("{}({} order by c_int4, c_text)", row[0], columns.join(", ")),
            format!("{}(distinct {})", row[0], columns.join(", ")),
        ] {
            all.push(filled(&form, ["1", "2", "4"]));
        }
    }
    all
}

/// A query of some calls.
type Shape = fn(&[Calls]) -> String;

fn columns(calls: &[Calls]) -> String {
    let all: Vec<&str> = calls.iter().flatten().map(String::as_str).collect();
    format!("select {} from calls", all.join(", "))
}

fn conditions(calls: &[Calls]) -> String {
    let texts = |[one, two, three]: &Calls| {
        format!(
            "count(*) filter (where ({one})::text > 'b'), count(*) filter (where ({two})::text > 'b'), \
             sum(case when ({two})::text < ({three})::text then 1 else 0 end), \
             count(case when ({one})::text = ({two})::text then 1 end)"
        )
    };
    let differs = |[one, two, three]: &Calls| {
        format!("({one})::text is distinct from ({two})::text and ({two})::text is distinct from ({three})::text")
    };
    let all: Vec<String> = calls.iter().map(texts).collect();
    let conditions: Vec<String> = calls.iter().map(differs).collect();
    format!("select {} from calls where {}", all.join(", "), conditions.join(" or "))
}

fn groups(calls: &[Calls]) -> String {
    let of = |[one, two, three]: &Calls| {
        format!(
            "select ({one})::text, ({two})::text, count(*), min(({three})::text) from calls group by 1, 2 \
             having min(({three})::text) is distinct from 'a' or min(({two})::text) = 'a'"
        )
    };
    calls.iter().map(of).collect::<Vec<_>>().join(" union all ")
}

fn aggregates(calls: &[Calls]) -> String {
    let filtered = |[one, two, three]: &Calls| {
        let filter = |call: &str, least: u8| {
            let simple = !call.contains("within group");
            if simple { format!("{call} filter (where c_int4 > {least})") } else { call.to_owned() }
        };
        format!("{one}, {two}, {three}, {}, {}", filter(one, 1), filter(one, 3))
    };
    let all: Vec<String> = calls.iter().map(filtered).collect();
    format!("select {} from calls", all.join(", "))
}

fn by_group(calls: &[Calls]) -> String {
    let of = |[one, two, three]: &Calls| {
        format!(
            "select ({one})::text, ({two})::text from calls group by c_bool having ({two})::text is distinct from ({three})::text"
        )
    };
    calls.iter().map(of).collect::<Vec<_>>().join(" union all ")
}

#[derive(Default)]
struct Found {
    same: usize,
    refused: usize,
    different: Vec<String>,
}

fn answer(server: &mut Server, path: &str, text: &str) -> SqlResult<Vec<Vec<Option<String>>>> {
    server.run(&format!("set overtake.path = {path}")).unwrap();
    let Given { mut rows, .. } = server.run(text)?.unwrap();
    rows.sort_unstable();
    Ok(rows)
}

/// Compares the paths; what is refused or wrong together is judged in halves.
fn judge(server: &mut Server, calls: &[Calls], shape: Shape, found: &mut Found) {
    let text = shape(calls);
    let by_rows = answer(server, "row", &text);
    let analytics = if by_rows.is_ok() { answer(server, "analytics", &text) } else { Ok(Vec::new()) };
    let is_refused = matches!(&analytics, Err(error) if error.state() == SqlState::FEATURE_NOT_SUPPORTED);
    match (by_rows, analytics) {
        (Ok(one), Ok(two)) if one == two => found.same += calls.len(),
        _ if 1 < calls.len() => {
            let (left, right) = calls.split_at(calls.len() / 2);
            judge(server, left, shape, found);
            judge(server, right, shape, found);
        }
        // Not a query: its calls cannot be asked like this.
        (Err(_), _) => {}
        _ if is_refused => found.refused += 1,
        (one, two) => found.different.push(format!("{text}\n  by rows {one:?}\n  as analytics {two:?}")),
    }
}

fn server() -> Server {
    let mut server = Server::new();
    let columns: Vec<String> = CONSTANTS.iter().map(|(name, _)| format!("c_{name} {name}")).collect();
    server.run(&format!("create table calls ({})", columns.join(", "))).unwrap();
    for row in 0..9 {
        let value = |(at, (name, _)): (usize, &(&str, _))| match row % 4 {
            3 if at % 2 == row % 2 => format!("null::{name}"),
            _ => constant(name, (row + row / 3 * at) % 3).unwrap(),
        };
        let values: Vec<String> = CONSTANTS.iter().enumerate().map(value).collect();
        server.run(&format!("insert into calls values ({})", values.join(", "))).unwrap();
    }
    server
}

#[test]
fn calls_that_differ_in_a_constant_are_different_calls() {
    let mut server = server();
    let mut found = Found::default();
    let mut some = |all: Vec<Calls>, shapes: &[Shape], first: Shape, least: usize| {
        let mut possible = Vec::new();
        for calls in all {
            if answer(&mut server, "row", &first(std::slice::from_ref(&calls))).is_ok() {
                possible.push(calls);
            }
        }
        assert!(least < possible.len(), "only {} calls are possible", possible.len());
        for calls in possible.chunks(16) {
            for shape in shapes {
                judge(&mut server, calls, *shape, &mut found);
            }
        }
    };
    let (calls, kept) = {
        let mut server = self::server();
        (all_calls(&mut server), all_aggregates(&mut server))
    };
    some(calls, &[columns, conditions, groups], columns, 400);
    some(kept, &[aggregates, by_group], aggregates, 60);
    let Found { same, refused, different } = found;
    println!("{same} the same, {refused} refused");
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different[..different.len().min(20)].join("\n"));
    assert!(1_000 < same, "only {same} were compared, {refused} refused");
}
