//! Goal: the project that `overtake proc new` writes passes its own tests, at every level that this machine has.
//! Method: write it, and run `overtake proc test`; a changed expectation fails with the difference.

use crate::serve::{connect, runtime, serve, value};
use crate::{overtake, text};
use std::path::Path;
use std::process::Output;

pub fn proc(arguments: &[&str], directory: &Path) -> Output {
    overtake().arg("proc").args(arguments).arg(directory).output().unwrap()
}

pub fn new_projects_pass_their_tests() {
    for language in ["rust", "c", "python"] {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("shop");
        let output = proc(&["new", "--language", language], &directory);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let output = proc(&["test"], &directory);
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{language}: {shown}{}", text(&output.stderr));
        assert!(shown.contains("process: transfer: ok") && shown.contains("process: fee: ok"), "{language}: {shown}");
        assert!(language != "rust" || shown.contains("wasm: transfer: ok"), "{shown}");
    }
}

/// Functions of a module without tables.
const NUMBERS: &str = r#"
use guest::{Call, Error, NoticeLevel, Result, Row, module};

module! {
    entries { half; label(rows); told; }
}

/// Fails for odd numbers.
fn half(call: &mut Call) -> Result<i64> {
    let number = call.argument::<i64>(0)?;
    if number % 2 == 0 { Ok(number / 2) } else { Err(Error::new("P0001", format!("{number} is odd"))) }
}

fn label(_: &mut Call, rows: &[Row]) -> Result<Vec<Option<String>>> {
    rows.iter().map(|row| Ok(row.get::<Option<i64>>(0)?.map(|number| format!("<{number}>")))).collect()
}

fn told(call: &mut Call) -> Result<i64> {
    call.notice(NoticeLevel::Notice, "a notice")?;
    call.argument::<i64>(0)
}
"#;

const NUMBERS_SQL: &str = "
CREATE FUNCTION half(n bigint) RETURNS bigint LANGUAGE wasm IMMUTABLE STRICT AS 'shop', 'half';
CREATE FUNCTION label(n bigint) RETURNS text LANGUAGE wasm STABLE AS 'shop', 'label';
CREATE FUNCTION told(n bigint) RETURNS bigint LANGUAGE wasm STABLE AS 'shop', 'told';
";

/// Queries and their rows, which are the same on both paths; or the error of analytics.
const QUERIES: [(&str, &str); 6] = [
    ("SELECT sum(half(n * 2)), count(half(n)) FROM big WHERE n % 2 = 0", "sum|count\n100010000|10000"),
    (
        "SELECT label(v), count(*) FROM big WHERE n <= 5 GROUP BY label(v) ORDER BY 1",
        "label|count\n<0>|2\n<1>|2\nNULL|1",
    ),
    ("SELECT sum(CASE WHEN n % 2 = 0 THEN half(n) END) FROM big", "sum\n50005000"),
    ("SELECT count(*) FROM big a JOIN big b ON half(a.n * 2) = b.n WHERE a.n <= 100", "count\n100"),
    ("SELECT max(label(n)), max(length(label(n * 1000))) FROM big", "max|max\n<9>|10"),
    ("SELECT half(v) FROM big WHERE n = 3", "half\nNULL"),
];

/// Writes a project with one test, and runs it at all levels. `files` are names and contents; the test's statements and
/// what is expected of them are among these.
fn check_project(language: &str, test: &str, files: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("shop");
    assert!(proc(&["new", "--language", language], &directory).status.success());
    for name in ["transfer", "fee"] {
        std::fs::remove_file(directory.join(format!("tests/{name}.sql"))).unwrap();
        std::fs::remove_file(directory.join(format!("tests/{name}.expected"))).unwrap();
    }
    for (name, text) in files {
        std::fs::write(directory.join(name), text).unwrap();
    }
    let output = proc(&["test"], &directory);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{language}: {shown}{}", text(&output.stderr));
    assert!(shown.contains(&format!("process: {test}: ok")), "{language}: {shown}");
    assert!(language != "rust" || shown.contains(&format!("wasm: {test}: ok")), "{shown}");
}

/// Goal: stored functions give the same on both paths at each level. Method: each query by `overtake.path`.
pub fn stored_functions_run_as_analytics() {
    let (mut statements, mut expected) = (String::new(), String::new());
    for path in ["row", "analytics", "auto"] {
        let set = format!("SET overtake.path = {path};\n");
        statements += &set;
        expected += &format!("{set}OK\n\n");
        for (query, rows) in QUERIES {
            statements += &format!("{query};\n");
            let count = rows.lines().count() - 1;
            let plural = if count == 1 { "" } else { "s" };
            expected += &format!("{query};\n{rows}\n({count} row{plural})\n\n");
        }
    }
    let schema = "CREATE TABLE big (n bigint PRIMARY KEY, v bigint);
        INSERT INTO big SELECT n, CASE WHEN n % 3 <> 0 THEN n % 2 END FROM generate_series(1, 20000) n;";
    let expected = expected.trim_end_matches('\n').to_owned() + "\n";
    let files = [
        ("src/main.rs", NUMBERS),
        ("procedures.sql", NUMBERS_SQL),
        ("schema.sql", schema),
        ("tests/paths.sql", &statements),
        ("tests/paths.expected", &expected),
    ];
    check_project("rust", "paths", &files);
}

const ENDS_RUST: &str = r#"
use guest::{Call, Result, module};

module! {
    tables { ITEM: "item" (id, v); }
    entries { alternate; }
}

fn alternate(call: &mut Call) -> Result<()> {
    for id in 0..call.argument::<i64>(0)? {
        call.put(ITEM, (id, id))?;
        if id % 2 == 0 { call.commit()? } else { call.rollback()? }
    }
    Ok(())
}
"#;

const ENDS_PYTHON: &str = r#"
import overtake

ITEM = overtake.table("item", "item", ["id", "v"])


@overtake.procedure
def alternate(call, count):
    for number in range(count):
        call.put(ITEM, number, number)
        if number % 2 == 0:
            call.commit()
        else:
            call.rollback()


overtake.main()
"#;

const ENDS_C: &str = r#"
#include "overtake.h"

enum { ITEM };
OT_MANIFEST("table item item (id, v)\n"
            "entry alternate\n")

static void alternate(void) {
    int64_t count = ot_as_int(ot_argument(0));
    for (int64_t id = 0; id < count; id++) {
        ot_add_put(ITEM, 0, OT_ROW(ot_int(id), ot_int(id)));
        if (id % 2 == 0) ot_add_commit();
        else ot_add_rollback();
        ot_run();
    }
}

OT_ENTRIES(alternate)
"#;

/// Goal: procedures end transactions at each level, outside of blocks only.
pub fn procedures_end_transactions() {
    let statements = "CALL alternate(6);
SELECT id FROM item ORDER BY id;
BEGIN;
CALL alternate(2);
ROLLBACK;
CALL alternate(8);
SELECT id FROM item ORDER BY id;
";
    let expected = "CALL alternate(6);
OK

SELECT id FROM item ORDER BY id;
id
0
2
4
(3 rows)

BEGIN;
OK

CALL alternate(2);
ERROR:  2D000: invalid transaction termination

ROLLBACK;
OK

CALL alternate(8);
OK

SELECT id FROM item ORDER BY id;
id
0
2
4
6
(4 rows)
";
    for (language, name, code) in
        [("rust", "src/main.rs", ENDS_RUST), ("python", "main.py", ENDS_PYTHON), ("c", "main.c", ENDS_C)]
    {
        let level = if language == "rust" { "wasm" } else { "exec" };
        let signature = format!("CREATE PROCEDURE alternate(n bigint) LANGUAGE {level} AS 'shop', 'alternate';");
        let files = [
            (name, code),
            ("procedures.sql", &signature),
            ("schema.sql", "CREATE TABLE item (id bigint PRIMARY KEY, v bigint);"),
            ("tests/ends.sql", statements),
            ("tests/ends.expected", expected),
        ];
        check_project(language, "ends", &files);
    }
}

pub fn a_test_that_fails_shows_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("shop");
    assert!(proc(&["new", "--language", "python"], &directory).status.success());
    std::fs::write(directory.join("tests/fee.expected"), "nothing\n").unwrap();
    let output = proc(&["test"], &directory);
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    assert!(shown.contains("process: fee: FAILED\n- nothing\n+ SELECT amount"), "{shown}");
}

/// Module in a folder, with what the compiler must translate.
const TYPESCRIPT_PARTS: &str = r#"
export enum Kind {
  Even,
  Odd,
}

export abstract class Shape<T> {
  static made = 0;
  readonly #side: T;

  constructor(side: T) {
    this.#side = side;
    Shape.made++;
  }

  get side(): T {
    return this.#side;
  }

  abstract area(): T;
}

export class Square extends Shape<bigint> {
  area(): bigint {
    return this.side ** 2n;
  }
}

export function kind(of: bigint): string {
  return Kind[of % 2n === 0n ? Kind.Even : Kind.Odd] ?? "none";
}
"#;

const TYPESCRIPT: &str = r#"
import * as overtake from "./overtake";
import { Decimal, Literal, Moment, SqlError, type Call, type Value } from "./overtake";
import { Square, kind } from "./parts/shapes";

const ITEM = overtake.table("item", "item", ["id", "v"]);
const SUM = overtake.statement("sum", "SELECT sum(v), count(*) FROM item WHERE id <= $1");

overtake.procedure("alternate", (call, count: bigint) => {
  for (let id = 0n; id < count; id++) {
    call.put(ITEM, [id, new Square(id).area()]);
    if (id % 2n === 0n) call.commit();
    else call.rollback();
  }
});

overtake.scalar("total", (call, last: bigint) => {
  const { rows, cursor } = call.execute(SUM, [last]);
  const all = [...(cursor ?? [])].map((row) => row.join("/"));
  return `${rows}: ${all.join()}`;
});

overtake.batchScalar("label", (_call, rows) => rows.map(([n]) => (n === null ? null : `<${n} ${kind(n as bigint)}>`)));

overtake.scalar("twice", (_call, of: Decimal) => new Decimal(of.unscaled * 2n, of.scale));
overtake.scalar("tomorrow", (_call, of: Moment) => new Moment(of.kind, of.value + 1n));
overtake.scalar("backwards", (_call, of: Value[]) => [...of].reverse());
overtake.scalar("shout", (_call, of: string) => [...of].map((one) => one.toUpperCase()).reverse().join(""));
overtake.scalar("flipped", (_call, of: Uint8Array) => of.map((one) => 255 - one));
overtake.scalar("half", (_call, of: number) => of / 2);
overtake.scalar("hours", (_call, of: bigint) => new Literal(`${of} hours`));
overtake.scalar("broken", () => "half a pair: \ud83d");

overtake.setReturning("squares", (call, count: bigint) => {
  for (let n = 1n; n <= count; n++) call.emit([n, new Square(n).area()]);
});

function warn(call: Call, text: string): void {
  call.notice(text, "warning");
}

overtake.scalar("checked", (call, n: bigint) => {
  warn(call, `looking at ${n}`);
  if (n < 0n) throw new SqlError("22003", "n is negative", `It is ${n}.`, "Give another.");
  return n;
});

overtake.scalar("asynchronous", (async () => 1n) as unknown as () => bigint);

overtake.main();
"#;

const TYPESCRIPT_SQL: &str = "
CREATE PROCEDURE alternate(n bigint) LANGUAGE wasm AS 'shop', 'alternate';
CREATE FUNCTION total(n bigint) RETURNS text LANGUAGE wasm AS 'shop', 'total';
CREATE FUNCTION label(n bigint) RETURNS text LANGUAGE wasm STABLE AS 'shop', 'label';
CREATE FUNCTION twice(n numeric) RETURNS numeric LANGUAGE wasm AS 'shop', 'twice';
CREATE FUNCTION tomorrow(d date) RETURNS date LANGUAGE wasm AS 'shop', 'tomorrow';
CREATE FUNCTION backwards(a int[]) RETURNS int[] LANGUAGE wasm AS 'shop', 'backwards';
CREATE FUNCTION shout(t text) RETURNS text LANGUAGE wasm AS 'shop', 'shout';
CREATE FUNCTION flipped(b bytea) RETURNS bytea LANGUAGE wasm AS 'shop', 'flipped';
CREATE FUNCTION half(f double precision) RETURNS double precision LANGUAGE wasm AS 'shop', 'half';
CREATE FUNCTION hours(n bigint) RETURNS interval LANGUAGE wasm AS 'shop', 'hours';
CREATE FUNCTION broken() RETURNS text LANGUAGE wasm AS 'shop', 'broken';
CREATE FUNCTION squares(n bigint) RETURNS TABLE (n bigint, area bigint) LANGUAGE wasm AS 'shop', 'squares';
CREATE FUNCTION checked(n bigint) RETURNS bigint LANGUAGE wasm AS 'shop', 'checked';
CREATE FUNCTION asynchronous() RETURNS bigint LANGUAGE wasm AS 'shop', 'asynchronous';
";

const TYPESCRIPT_TEST: &str = "CALL alternate(6);
SELECT id, v FROM item ORDER BY id;
BEGIN;
CALL alternate(2);
ROLLBACK;
SELECT total(3);
SELECT label(n) FROM (VALUES (1::bigint), (2), (NULL)) AS t(n);
SELECT twice(-12.345), twice(1e30), tomorrow('2026-12-31'), backwards('{1,NULL,3}'), half(0.5);
SELECT shout('häß 😀'), flipped('\\x00ff10'), hours(36), broken();
SELECT sum(n), sum(area) FROM squares(5000);
SELECT checked(1);
SELECT checked(-1);
SELECT asynchronous();
";

const TYPESCRIPT_EXPECTED: &str = "CALL alternate(6);
OK

SELECT id, v FROM item ORDER BY id;
id|v
0|0
2|4
4|16
(3 rows)

BEGIN;
OK

CALL alternate(2);
ERROR:  2D000: invalid transaction termination

ROLLBACK;
OK

SELECT total(3);
total
1: 4/2
(1 row)

SELECT label(n) FROM (VALUES (1::bigint), (2), (NULL)) AS t(n);
label
<1 Odd>
<2 Even>
NULL
(3 rows)

SELECT twice(-12.345), twice(1e30), tomorrow('2026-12-31'), backwards('{1,NULL,3}'), half(0.5);
twice|twice|tomorrow|backwards|half
-24.690|2000000000000000000000000000000|2027-01-01|{3,NULL,1}|0.25
(1 row)

SELECT shout('häß 😀'), flipped('\\x00ff10'), hours(36), broken();
shout|flipped|hours|broken
😀 SSÄH|\\xff00ef|36:00:00|half a pair: �
(1 row)

SELECT sum(n), sum(area) FROM squares(5000);
sum|sum
12502500|41679167500
(1 row)

SELECT checked(1);
WARNING:  looking at 1
checked
1
(1 row)

SELECT checked(-1);
WARNING:  looking at -1
ERROR:  22003: n is negative
DETAIL:  It is -1.
HINT:  Give another.

SELECT asynchronous();
ERROR:  0A000: asynchronous code in a stored procedure is not supported
";

/// Goal: TypeScript gives the same in WebAssembly and by Node.js. Method: one project with what the language and the
/// library have, whose output is the expected one at all levels.
pub fn typescript_is_the_same_at_all_levels() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("shop");
    assert!(proc(&["new", "--language", "typescript"], &directory).status.success());
    let compiler = procs_conformance::typescript_compiler(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    std::os::unix::fs::symlink(compiler, directory.join("node_modules")).unwrap();
    std::fs::create_dir(directory.join("parts")).unwrap();
    let check = |tests: &[&str]| {
        let output = proc(&["test"], &directory);
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
        for test in tests {
            assert!(shown.contains(&format!("wasm: {test}: ok")), "{shown}");
            assert!(shown.contains(&format!("process: {test}: ok")), "{shown}");
            if !shown.contains("container: not on this machine") {
                assert!(shown.contains(&format!("container: {test}: ok")), "{shown}");
            }
        }
    };
    check(&["transfer", "fee"]);
    for (name, text) in [
        ("main.ts", TYPESCRIPT),
        ("parts/shapes.ts", TYPESCRIPT_PARTS),
        ("procedures.sql", TYPESCRIPT_SQL),
        ("schema.sql", "CREATE TABLE item (id bigint PRIMARY KEY, v bigint);"),
        ("tests/all.sql", TYPESCRIPT_TEST),
        ("tests/all.expected", TYPESCRIPT_EXPECTED),
    ] {
        std::fs::write(directory.join(name), text).unwrap();
    }
    for name in ["transfer", "fee"] {
        std::fs::remove_file(directory.join(format!("tests/{name}.sql"))).unwrap();
    }
    check(&["all"]);
}

/// Goal: SIGTERM and Ctrl-C end a build whose code does not end, and that code.
pub fn a_build_ends_at_once_when_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("My-Shop");
    let output = proc(&["new", "--language", "python"], &directory);
    let told = "The module is named \"my_shop\", not \"My-Shop\"";
    assert!(output.status.success() && text(&output.stdout).contains(told), "{output:?}");
    let begun = folder.path().join("begun");
    let code = format!("import os\nopen({begun:?}, 'w').write(str(os.getpid()))\nwhile True: pass\n");
    std::fs::write(directory.join("main.py"), code).unwrap();
    for signal in ["-TERM", "-INT"] {
        let mut program = overtake().args(["proc", "build"]).arg(&directory).spawn().map(crate::Program).unwrap();
        let number = loop {
            match std::fs::read_to_string(&begun) {
                Ok(number) if !number.is_empty() => break number,
                _ => assert!(program.0.try_wait().unwrap().is_none(), "it has ended"),
            }
            std::thread::yield_now();
        };
        let sent = std::process::Command::new("kill").args([signal, &program.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
        // The limit of time is 60 s.
        let asked = std::time::Instant::now();
        assert_eq!(program.0.wait().unwrap().code(), Some(130), "{signal}");
        assert!(asked.elapsed() < std::time::Duration::from_secs(30));
        let state = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "the code still runs: {state}");
        std::fs::remove_file(&begun).unwrap();
    }
}

/// Goal: a new version of a procedure stays at the level of the old one, also in another language, or is refused.
pub fn a_new_version_stays_at_its_level() {
    let folder = tempfile::tempdir().unwrap();
    let (_program, url) = serve(&[]);
    let directory = folder.path().join("rust");
    assert!(proc(&["new", "--language", "rust"], &directory).status.success());
    // The example's other routine needs a table.
    let sql = "CREATE FUNCTION fee(amount bigint) RETURNS bigint LANGUAGE exec AS 'rust', 'fee';";
    std::fs::write(directory.join("procedures.sql"), sql).unwrap();
    let output = proc(&["deploy", "--url", &url], &directory);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    runtime().block_on(async {
        let client = connect(&url).await;
        let level = "select isolation from overtake.isolated_routines where name = 'fee'";
        if client.batch_execute("alter function fee set (isolation = 'container')").await.is_err() {
            assert!(std::env::var_os("OVERTAKE_CI").is_none(), "containers are missing");
            return println!("SKIPPED: level container is missing");
        }
        let replace = "create or replace function fee(amount bigint) returns bigint language";
        client.batch_execute(&format!("{replace} wasm as 'rust', 'fee'")).await.unwrap();
        assert_eq!(value(&client, level).await, "container");
        client.batch_execute(&format!("{replace} exec as 'rust', 'fee'")).await.unwrap();
        assert_eq!(value(&client, level).await, "container");
        client
            .batch_execute("create module bare manifest $$overtake 1\nentry fee\n$$ artifact native 'key_value'")
            .await
            .unwrap();
        let refused = client.batch_execute(&format!("{replace} native as 'bare', 'fee'")).await.unwrap_err();
        assert_eq!(refused.code().map(|code| code.code()), Some("0A000"), "{refused:?}");
        assert_eq!(value(&client, level).await, "container");
    });
}
