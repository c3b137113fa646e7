//! Goal: COPY accepts and returns what PostgreSQL 15 does, and reports wrong data as it does. Method: a table of
//! statements with data, each with the rows that it leaves, or the error that ends it. With `OVERTAKE_SLT_URL` the same
//! table is checked on that PostgreSQL, by psql.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

use engine::{Engine, EngineConfig};
use settings::Connect;
use sql::session::{CopyPart, Database, Session, Step};
use statement::{SqlError, SqlResult};
use std::io::Write;
use std::process::{Command, Stdio};

const TABLE: &str = "create table t (a int not null default 7, b text, c char(3), d numeric(6, 2))";

/// Statement, its data and the result: the rows as `COPY t TO STDOUT` returns them, or SQLSTATE, message and context.
type Case = (&'static str, &'static [u8], Result<&'static str, [&'static str; 3]>);

const CASES: &[Case] = &[
    ("copy t from stdin", b"1\tx\ty\t1.5\n2\t\\N\t\\N\t\\N\n", Ok("1\tx\ty  \t1.50\n2\t\\N\t\\N\t\\N\n")),
    ("copy t from stdin", b"", Ok("")),
    ("copy t from stdin", b"1\tx\ty\t1\n\\.\nnonsense", Ok("1\tx\ty  \t1.00\n")),
    ("copy t (b, a) from stdin", b"x\\ty\\\\\\n\\x41\t3", Ok("3\tx\\ty\\\\\\nA\t\\N\t\\N\n")),
    ("copy t (b) from stdin", b"x\n", Ok("7\tx\t\\N\t\\N\n")),
    (
        "copy t (a, b) from stdin with (format text, delimiter '|', null 'nil')",
        b"1|nil\n2|x\n",
        Ok("1\t\\N\t\\N\t\\N\n2\tx\t\\N\t\\N\n"),
    ),
    ("copy t (a, b) from stdin delimiter as ';' null as ''", b"1;\n", Ok("1\t\\N\t\\N\t\\N\n")),
    (
        "copy t (a, b) from stdin (format csv)",
        b"1,\"x,\"\"y\"\"\"\n2,\n3,\"\"\n4,\"a\nb\"\n",
        Ok("1\tx,\"y\"\t\\N\t\\N\n2\t\\N\t\\N\t\\N\n3\t\t\\N\t\\N\n4\ta\\nb\t\\N\t\\N\n"),
    ),
    (
        "copy t (a, b) from stdin csv header quote '''' escape as '\\'",
        b"whatever,more\n1,'it\\'s'\n",
        Ok("1\tit's\t\\N\t\\N\n"),
    ),
    ("copy t (a, b) from stdin (format csv, header match)", b"a,b\n1,x\n", Ok("1\tx\t\\N\t\\N\n")),
    ("copy t (a, b) from stdin (header)", b"a\tb\n1\tx\n", Ok("1\tx\t\\N\t\\N\n")),
    ("copy t (a, b) from stdin (format csv, force_not_null (b))", b"1,\n", Ok("1\t\t\\N\t\\N\n")),
    ("copy t (a, b) from stdin (format csv, force_null (b))", b"1,\"\"\n", Ok("1\t\\N\t\\N\t\\N\n")),
    ("copy t (a, c) from stdin", b"1\tx    \n", Ok("1\t\\N\tx  \t\\N\n")),
    ("copy t from stdin", b"1\tx\ty\n", Err(["22P04", "missing data for column \"d\"", "COPY t, line 1: \"1\tx\ty\""])),
    (
        "copy t (a, b) from stdin",
        b"1\tx\n2\tx\ty\n",
        Err(["22P04", "extra data after last expected column", "COPY t, line 2: \"2\tx\ty\""]),
    ),
    (
        "copy t (a) from stdin",
        b"1\nx\n",
        Err(["22P02", "invalid input syntax for type integer: \"x\"", "COPY t, line 2, column a: \"x\""]),
    ),
    (
        "copy t (a) from stdin",
        b"99999999999\n",
        Err([
            "22003",
            "value \"99999999999\" is out of range for type integer",
            "COPY t, line 1, column a: \"99999999999\"",
        ]),
    ),
    (
        "copy t (a, c) from stdin",
        b"1\tlong\n",
        Err(["22001", "value too long for type character(3)", "COPY t, line 1, column c: \"long\""]),
    ),
    (
        "copy t (a, b) from stdin",
        b"1\ta\n\\N\tb\n",
        Err([
            "23502",
            "null value in column \"a\" of relation \"t\" violates not-null constraint",
            "COPY t, line 2: \"\\N\tb\"",
        ]),
    ),
    (
        "copy t (a, b) from stdin",
        b"1\ta\n1\tb\n",
        Err(["23505", "duplicate key value violates unique constraint \"key\"", "COPY t, line 2"]),
    ),
    ("copy t (a) from stdin", b"1\n2\r3\n", Err(["22P04", "literal carriage return found in data", "COPY t, line 2"])),
    ("copy t (a) from stdin", b"1\r\n2\n", Err(["22P04", "literal newline found in data", "COPY t, line 2"])),
    ("copy t (a) from stdin", b"1\n\\.x\n", Err(["22P04", "end-of-copy marker corrupt", "COPY t, line 2"])),
    (
        "copy t (a, b) from stdin csv",
        b"1,\"x\n",
        Err(["22P04", "unterminated CSV quoted field", "COPY t, line 1: \"1,\"x\n\""]),
    ),
    (
        "copy t (a, b) from stdin (format csv, header match)",
        b"a,c\n1,x\n",
        Err([
            "22P04",
            "column name mismatch in header line field 2: got \"c\", expected \"b\"",
            "COPY t, line 1: \"a,c\"",
        ]),
    ),
    (
        "copy t (a, b) from stdin (format csv, header match)",
        b"a\n1,x\n",
        Err(["22P04", "wrong number of fields in header line: got 1, expected 2", "COPY t, line 1: \"a\""]),
    ),
    (
        "copy t (a) from stdin (header match)",
        b"",
        Err(["22P04", "column name mismatch in header line field 1: got \"\", expected \"a\"", "COPY t, line 1: \"\""]),
    ),
    (
        "copy t (a) from stdin (format csv, header match)",
        b"\\.\n",
        Err([
            "22P04",
            "column name mismatch in header line field 1: got null value (\"\"), expected \"a\"",
            "COPY t, line 1: \"\"",
        ]),
    ),
    (
        "copy t (a, b) from stdin (header match)",
        b"",
        Err(["22P04", "wrong number of fields in header line: got 1, expected 2", "COPY t, line 1: \"\""]),
    ),
    ("copy t (b, a) from stdin", b"\n", Err(["22P04", "missing data for column \"a\"", "COPY t, line 1: \"\""])),
    ("copy t (a) from stdin", b"1\n\\.\r\n", Err(["22P04", OTHER_STYLE, "COPY t, line 2"])),
    ("copy t (a) from stdin", b"1\r\n\\.\n", Err(["22P04", OTHER_STYLE, "COPY t, line 2"])),
    ("copy t (a) from stdin", b"1\r\n2\\.\r\r", Err(["22P04", OTHER_STYLE, "COPY t, line 2"])),
    ("copy t (a) from stdin", b"1\r\\.\n", Err(["22P04", OTHER_STYLE, "COPY t, line 2"])),
    ("copy t (a) from stdin", b"1\r\n\\.\r", Err(["22P04", "end-of-copy marker corrupt", "COPY t, line 2"])),
    ("copy t (a) from stdin", b"1\n\\.", Err(["22P04", "end-of-copy marker corrupt", "COPY t, line 2"])),
    ("copy t (a) from stdin", b"1\r\n\\.\r\n", Ok("1\t\\N\t\\N\t\\N\n")),
    ("copy t (a) from stdin csv", b"1\n\\.\r\n", Err(["22P04", OTHER_STYLE, "COPY t, line 2"])),
    ("copy t (a) from stdin csv", b"1\r\n\\.\n", Err(["22P04", "unquoted newline found in data", "COPY t, line 2"])),
    (
        "copy t (a) from stdin csv",
        b"1\n\\.",
        Err(["22P02", "invalid input syntax for type integer: \"\\.\"", "COPY t, line 2, column a: \"\\.\""]),
    ),
    ("copy t (a) from stdin binary", b"1\n", Err(["22P04", "COPY file signature not recognized", ""])),
    (
        "copy t (a) from stdin binary",
        b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x04\0\0\0\x05\xff\xff",
        Ok("5\t\\N\t\\N\t\\N\n"),
    ),
    (
        "copy t (a) from stdin binary",
        b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x04\0\0\0\x05",
        Err(["22P04", "row field count is 2, expected 1", "COPY t, line 1"]),
    ),
    (
        "copy t (a) from stdin binary",
        b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x03\0\0\0\xff\xff",
        Err(["08P01", "insufficient data left in message", "COPY t, line 1, column a"]),
    ),
    ("copy t (a, a) from stdin", b"", Err(["42701", "column \"a\" specified more than once", ""])),
    ("copy t (z) from stdin", b"", Err(["42703", "column \"z\" of relation \"t\" does not exist", ""])),
    ("copy nothing from stdin", b"", Err(["42P01", "relation \"nothing\" does not exist", ""])),
    ("copy t from stdin (format xml)", b"", Err(["22023", "COPY format \"xml\" not recognized", ""])),
    ("copy t from stdin (colour 'red')", b"", Err(["42601", "option \"colour\" not recognized", ""])),
    ("copy t from stdin (format csv, format text)", b"", Err(["42601", "conflicting or redundant options", ""])),
    (
        "copy t from stdin (delimiter 'xy')",
        b"",
        Err(["0A000", "COPY delimiter must be a single one-byte character", ""]),
    ),
    ("copy t from stdin (delimiter 'x')", b"", Err(["22023", "COPY delimiter cannot be \"x\"", ""])),
    ("copy t from stdin (quote '|')", b"", Err(["0A000", "COPY quote available only in CSV mode", ""])),
    (
        "copy t from stdin (format csv, force_quote (a))",
        b"",
        Err(["0A000", "COPY force quote only available using COPY TO", ""]),
    ),
    (
        "copy t from stdin (format csv, force_null (z))",
        b"",
        Err(["42703", "column \"z\" of relation \"t\" does not exist", ""]),
    ),
    (
        "copy t (a) from stdin (format csv, force_null (b))",
        b"",
        Err(["42P10", "FORCE_NULL column \"b\" not referenced by COPY", ""]),
    ),
    (
        "copy t from stdin (format binary, delimiter ',')",
        b"",
        Err(["42601", "cannot specify DELIMITER in BINARY mode", ""]),
    ),
    ("copy t from stdin (header maybe)", b"", Err(["42601", "header requires a Boolean value or \"match\"", ""])),
    (
        "copy t from stdin (null ',', format csv)",
        b"",
        Err(["0A000", "COPY delimiter must not appear in the NULL specification", ""]),
    ),
    ("copy t from stdin nonsense", b"", Err(["42601", "syntax error at or near \"nonsense\"", ""])),
    ("copy (select 1) from stdin", b"", Err(["42601", "syntax error at or near \"from\"", ""])),
    ("copy (insert into t values (1)) to stdout", b"", Err(["0A000", "COPY query must have a RETURNING clause", ""])),
];

/// Message for an end-of-copy marker whose line ends differently from those before.
const OTHER_STYLE: &str = "end-of-copy marker does not match previous newline style";

/// Results of COPY to the client, for the rows `(1, 'x,"y"', null, 2.5)` and `(2, e'a\tb', '', null)`.
const GIVEN: &[(&str, &str)] = &[
    ("copy t to stdout", "1\tx,\"y\"\t\\N\t2.50\n2\ta\\tb\t   \t\\N\n"),
    ("copy t (b, a) to stdout (delimiter ';', null '-')", "x,\"y\";1\na\\tb;2\n"),
    ("copy t to stdout csv header", "a,b,c,d\n1,\"x,\"\"y\"\"\",,2.50\n2,a\tb,   ,\n"),
    ("copy t (a, b) to stdout (format csv, force_quote *)", "\"1\",\"x,\"\"y\"\"\"\n\"2\",\"a\tb\"\n"),
    ("copy t (a, b) to stdout csv force quote a", "\"1\",\"x,\"\"y\"\"\"\n\"2\",a\tb\n"),
    (
        "copy (select a + 1 as n, upper(b) from t where a = 1) to stdout (format csv, header true)",
        "n,upper\n2,\"X,\"\"Y\"\"\"\n",
    ),
    ("copy (values (null), ('')) to stdout csv", "\n\"\"\n"),
    ("copy (update t set a = a + 10 returning a) to stdout", "11\n12\n"),
    ("copy (with d as (delete from t returning a) select count(*) from d) to stdout", "2\n"),
    ("copy (select '\\.') to stdout csv", "\"\\.\"\n"),
    ("copy t (a, d) to stdout (header)", "a\td\n1\t2.50\n2\t\\N\n"),
];

const ROWS: &str = "insert into t values (1, 'x,\"y\"', null, 2.5), (2, e'a\\tb', '', null)";

struct Client(Session);

impl Client {
    fn new() -> Client {
        Client::with(TABLE)
    }

    fn with(table: &str) -> Client {
        let database = Database::new(Engine::new(EngineConfig::in_memory()));
        let wishes = Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() };
        let mut client = Client(database.connect(wishes).unwrap());
        client.run(table, &[]).unwrap();
        client
    }

    /// Runs a statement with these data; returns the data that it sends.
    fn run(&mut self, text: &str, data: &[u8]) -> SqlResult<Vec<u8>> {
        let result = self.run_now(text, data);
        if result.is_err() {
            self.0.fail();
        }
        let ended = self.0.sync();
        let out = result?;
        ended.map(|()| out)
    }

    fn run_now(&mut self, text: &str, data: &[u8]) -> SqlResult<Vec<u8>> {
        let session = &mut self.0;
        let statement = session.prepare(text, &[])?;
        let mut portal = session.bind(&statement, Vec::new())?;
        let mut out = Vec::new();
        match session.execute(&mut portal)? {
            Step::Done(_) => {}
            Step::Parked(_) => panic!("nobody is there to wait for"),
            Step::CopyIn(_) => {
                for piece in data.chunks(3) {
                    assert!(session.copy_data(piece)?.is_none());
                }
                assert!(matches!(session.copy_done()?, CopyPart::Last(_)));
            }
            Step::CopyOut(_) => {
                while !matches!(session.copy_next(&mut |row| out.extend_from_slice(row))?, CopyPart::Last(_)) {}
            }
        }
        Ok(out)
    }
}

fn told(error: &SqlError) -> [String; 3] {
    [error.state().0, error.message(), error.context_text().unwrap_or_default()].map(str::to_owned)
}

/// Runs psql with the session's text, followed by the data of a COPY.
fn psql(url: &str, commands: &[&str], data: &[u8]) -> Result<Vec<u8>, [String; 3]> {
    let mut psql = Command::new("psql");
    psql.arg(url).args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose"]);
    commands.iter().for_each(|command| {
        psql.args(["-c", command]);
    });
    let mut child = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // psql may have exited already.
    let _ = child.stdin.take().unwrap().write_all(data);
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        return Ok(output.stdout);
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let between = |from: &str| text.split_once(from).map(|(_, rest)| rest).unwrap_or_default();
    let (state, rest) = between("ERROR:  ").split_once(": ").unwrap_or_default();
    let message = rest.lines().next().unwrap_or_default();
    let context = between("CONTEXT:  ")
        .split("\nLOCATION")
        .next()
        .unwrap_or_default()
        .split("\nSCHEMA")
        .next()
        .unwrap_or_default();
    Err([state, message, context].map(str::to_owned))
}

#[test]
fn data_come_in_as_on_postgresql() {
    let peer = std::env::var("OVERTAKE_SLT_URL").ok();
    let key = "create unique index key on t (a)";
    let mut wrong = Vec::new();
    for (statement, data, expected) in CASES {
        let expected = expected.map(|rows| rows.as_bytes().to_vec()).map_err(|error| error.map(str::to_owned));
        let found = match &peer {
            Some(url) => {
                let begin = "set client_min_messages = error; ";
                let before = format!("{begin}{}; {key}", TABLE.replace("create", "create temp"));
                psql(url, &[&before, statement, "copy t to stdout"], data)
            }
            None => {
                let mut client = Client::with(&TABLE.replace("not null", "constraint key unique not null"));
                let result = client.run(statement, data).map_err(|error| told(&error));
                result.map(|_| client.run("copy t to stdout", &[]).unwrap())
            }
        };
        let text = |found: &Result<Vec<u8>, [String; 3]>| {
            format!("{:?}", found.clone().map(|rows| String::from_utf8(rows).unwrap()))
        };
        if text(&found) != text(&expected) {
            wrong.push(format!(
                "{statement} {:?}\n {}\n {}",
                String::from_utf8_lossy(data),
                text(&found),
                text(&expected)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn data_go_out_as_on_postgresql() {
    let peer = std::env::var("OVERTAKE_SLT_URL").ok();
    for (statement, expected) in GIVEN {
        let found = match &peer {
            Some(url) => {
                let before = format!("{}; {ROWS}", TABLE.replace("create", "create temp"));
                psql(url, &[&before, statement], b"").unwrap()
            }
            None => {
                let mut client = Client::new();
                client.run(ROWS, &[]).unwrap();
                client.run(statement, &[]).unwrap()
            }
        };
        assert_eq!(String::from_utf8(found).unwrap(), *expected, "{statement}");
    }
}

/// Goal: each format can read the data it writes; a COPY that fails leaves nothing; a COPY in a transaction is part of
/// it.
#[test]
fn copies_are_part_of_their_transaction() {
    let mut client = Client::new();
    client.run(ROWS, &[]).unwrap();
    client.run("create table u (a int, b text, c char(3), d numeric(6, 2))", &[]).unwrap();
    for format in ["text", "csv", "binary"] {
        let given = client.run(&format!("copy t to stdout (format {format})"), &[]).unwrap();
        client.run("delete from u", &[]).unwrap();
        client.run(&format!("copy u from stdin (format {format})"), &given).unwrap();
        let (one, other) = (client.run("copy t to stdout", &[]).unwrap(), client.run("copy u to stdout", &[]).unwrap());
        assert_eq!(one, other, "{format}");
    }
    assert!(client.run("copy u (a) from stdin", b"5\n6\nx\n").is_err());
    assert_eq!(client.run("copy (select count(*) from u) to stdout", &[]).unwrap(), b"2\n");
    client.run("begin", &[]).unwrap();
    client.run("copy u (a) from stdin", b"5\n6\n").unwrap();
    assert_eq!(client.run("copy (select count(*) from u) to stdout", &[]).unwrap(), b"4\n");
    client.run("rollback", &[]).unwrap();
    assert_eq!(client.run("copy (select count(*) from u) to stdout", &[]).unwrap(), b"2\n");
    assert_eq!(client.0.copy_data(b"1\n").unwrap_err().state().0, "08P01");
}
