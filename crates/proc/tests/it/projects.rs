//! The example of each language.

use crate::engine::Tables;
use crate::host::{CHANNELS, Worker};
use proc::{BuiltModule, Language, Tools};
use procs::{ArtifactKind, Channel, Manifest};
use statement::error::SqlResult;
use std::path::Path;
use std::time::Duration;
use types::datum::Datum;
use types::forms::Forms;
use types::{Kind, SqlType, text};

fn tables() -> Tables {
    let mut tables = Tables::new(Kind::Int8.into(), &[Kind::Int8.into()]);
    // The bank's only table, with balances in whole numbers.
    tables.tables.swap(0, 1);
    for (id, balance) in [(1, 100), (2, 50)] {
        tables.tables[0].insert(id, vec![Datum::Int8(id), Datum::Int8(balance)]);
    }
    tables.columns.swap(0, 1);
    tables
}

fn invoke(worker: &mut Worker, tables: &mut Tables, entry: u32, rows: &[&[Datum]]) -> SqlResult<Vec<Vec<Datum>>> {
    let width = rows.first().map_or(0, |row| row.len());
    worker.invoke(entry, rows, &vec![SqlType::from(Kind::Int8); width], tables)
}

fn ints<const N: usize>(values: [i64; N]) -> [Datum; N] {
    values.map(Datum::Int8)
}

/// Runs both entries of the example over both channels.
fn check_bank(program: &Path) {
    for channel in CHANNELS {
        let mut worker = Worker::start(program, channel);
        let mut tables = tables();
        let told = |error: statement::SqlError| (error.state().0, error.message().to_owned());
        let left = invoke(&mut worker, &mut tables, 0, &[&ints([1, 2, 30])]).expect("a transfer");
        assert_eq!(left, [ints([70])], "{channel}");
        assert_eq!(tables.log, ["get 0 1 true", "get 0 2 true", "put 0 1 false", "put 0 2 false"]);
        assert_eq!(tables.tables[0][&2], ints([2, 80]));
        let error = invoke(&mut worker, &mut tables, 0, &[&ints([1, 2, 1000])]).expect_err("too much");
        assert_eq!(told(error), ("P0001", "the balance is too low".to_owned()));
        let error = invoke(&mut worker, &mut tables, 0, &[&ints([1, 9, 1])]).expect_err("no account");
        assert_eq!(told(error), ("P0002", "an account does not exist".to_owned()));
        for refused in [[1, 2, 0], [1, 2, -30], [1, 1, 30]] {
            let error = invoke(&mut worker, &mut tables, 0, &[&ints(refused)]).expect_err("a wrong amount");
            assert_eq!(told(error), ("22023", "the amount must be positive, and the accounts different".to_owned()));
        }
        for at in 0..3 {
            let mut arguments = ints([1, 2, 1]);
            arguments[at] = Datum::Null;
            let error = invoke(&mut worker, &mut tables, 0, &[&arguments]).expect_err("NULL");
            assert_eq!(told(error), ("22004", "payer, payee and amount must not be null".to_owned()));
        }
        // Code that writes before the database refuses leaves that to the undoing of the statement.
        tables.tables[0].insert(3, ints([3, i64::MAX - 7]).to_vec());
        let error = invoke(&mut worker, &mut tables, 0, &[&ints([1, 3, 50])]).expect_err("more than a bigint");
        assert_eq!(told(error), ("22003", "bigint out of range".to_owned()));
        assert_eq!(tables.tables[0][&3], ints([3, i64::MAX - 7]));
        let error = invoke(&mut worker, &mut tables, 7, &[&[]]).expect_err("no entry");
        assert_eq!(error.state().0, "39000");
        let amounts: Vec<[Datum; 1]> = (0..1_023).map(|at| ints([at])).chain([[Datum::Null]]).collect();
        let amounts: Vec<&[Datum]> = amounts.iter().map(<[Datum; 1]>::as_slice).collect();
        let fees = invoke(&mut worker, &mut tables, 1, &amounts).expect("fees");
        assert_eq!(
            (fees.len(), &fees[50], &fees[1_000], &fees[1_023]),
            (1_024, &ints([1]).to_vec(), &ints([10]).to_vec(), &vec![Datum::Null])
        );
        check_rest(&worker, channel);
        if channel == Channel::UnixSocket {
            assert!(worker.hang_up().success(), "the program ends with its server");
        }
    }
}

/// Checks that an idle worker hardly runs: each pause between two looks, where it must look, is one sleep. Other
/// threads of a virtual machine have some, too.
fn check_rest(worker: &Worker, channel: Channel) {
    std::thread::sleep(Duration::from_millis(200));
    let before = worker.sleeps();
    std::thread::sleep(Duration::from_millis(500));
    let sleeps = worker.sleeps() - before;
    assert!(sleeps < 400, "{channel}: {sleeps} sleeps in half a second");
}

fn built(language: Language) -> (tempfile::TempDir, BuiltModule) {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("shop");
    proc::create(&directory, language).expect("a project");
    let built = proc::build(&directory, &Tools::default()).expect("artifacts");
    let manifest = Manifest::parse(&built.manifest).expect("a manifest");
    assert_eq!((&*built.name, manifest.entries), ("shop", vec!["transfer".to_owned(), "fee".to_owned()]));
    (folder, built)
}

fn check_language(language: Language) {
    let (_folder, built) = built(language);
    check_bank(&built.artifact(ArtifactKind::Exec).expect("an executable").path);
}

#[test]
fn a_project_in_rust_runs() {
    check_language(Language::Rust);
}

#[test]
fn a_project_in_c_runs() {
    check_language(Language::C);
}

#[test]
fn a_project_in_python_runs() {
    check_language(Language::Python);
    let (_folder, built) = built(Language::Python);
    let missing = [
        (ArtifactKind::Wasm, "a project in Python becomes an executable only"),
        (ArtifactKind::Guest, "a virtual machine runs static executables only"),
    ];
    assert_eq!(built.missing, missing.map(|(kind, reason)| (kind, reason.to_owned())));
}

#[test]
fn a_project_in_java_runs_where_java_is_installed() {
    if std::process::Command::new("java").arg("-version").output().is_ok_and(|output| output.status.success()) {
        check_language(Language::Java);
    }
}

#[test]
fn java_tells_of_missing_arguments_and_wrong_levels_where_it_is_installed() {
    if !has("java", "-version") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("shop");
    proc::create(&directory, Language::Java).expect("a project");
    let code = directory.join("Main.java");
    let text = std::fs::read_to_string(&code).expect("code");
    let (before, notice) = ("return arguments.isNull(0) ?", "call.notice(\"hello\", \"notice\");");
    assert!(text.contains(before), "{text}");
    std::fs::write(&code, text.replace(before, &format!("{notice}\n{before}"))).expect("code");
    let built = proc::build(&directory, &Tools::default()).expect("artifacts");
    let mut worker = Worker::start(&built.artifact(ArtifactKind::Exec).expect("a program").path, Channel::UnixSocket);
    let mut tables = tables();
    let mut told = |entry, row: &[Datum]| {
        let error = invoke(&mut worker, &mut tables, entry, &[row]).expect_err("refused");
        (error.state().0, error.message().to_owned())
    };
    assert_eq!(told(0, &ints([1, 2])), ("42703", "argument 3 of a routine that has 2".to_owned()));
    assert_eq!(told(1, &ints([1])), ("22023", "\"hello\" is no level of a notice".to_owned()));
}

#[test]
fn a_project_in_assemblyscript_is_built_where_its_compiler_is_installed() {
    if std::process::Command::new("asc").arg("--version").output().is_ok_and(|output| output.status.success()) {
        let (_folder, built) = built(Language::AssemblyScript);
        let wasm = built.artifact(ArtifactKind::Wasm).expect("a module");
        assert!(wasm.bytes.starts_with(b"\0asm"));
        let reason = "AssemblyScript compiles to WebAssembly only";
        assert_eq!(built.missing, [ArtifactKind::Exec, ArtifactKind::Guest].map(|kind| (kind, reason.to_owned())));
    }
}

#[test]
fn a_project_in_typescript_runs_where_its_compiler_is_installed() {
    if std::process::Command::new("tsc").arg("--version").output().is_ok_and(|output| output.status.success()) {
        check_language(Language::TypeScript);
    }
}

/// Builds the example in Python with a line more, before the one that runs the module.
fn python_with(line: &str, tools: &Tools) -> anyhow::Result<BuiltModule> {
    let folder = tempfile::tempdir().expect("a folder");
    python_in(folder.path(), line, tools)
}

/// As `python_with`, in a folder that is kept.
fn python_in(folder: &Path, line: &str, tools: &Tools) -> anyhow::Result<BuiltModule> {
    let directory = folder.join("shop");
    proc::create(&directory, Language::Python).expect("a project");
    let code = directory.join("main.py");
    let text = std::fs::read_to_string(&code).expect("code");
    std::fs::write(&code, text.replace("\novertake.main()", &format!("\n{line}\novertake.main()"))).expect("code");
    proc::build(&directory, tools)
}

/// Goal: Python passes on dates that its own types cannot hold. Method: texts of both sides of its years 1 to 9999.
#[test]
fn python_keeps_dates_of_any_year() {
    let echo = "@overtake.function\ndef echo(call, value):\n    return value\n";
    let folder = tempfile::tempdir().expect("a folder");
    let built = python_in(folder.path(), echo, &Tools::default()).expect("a script");
    let mut worker = Worker::start(&built.artifact(ArtifactKind::Exec).expect("a script").path, Channel::UnixSocket);
    for (kind, texts) in [
        (Kind::Date, &["0044-03-15 BC", "0001-12-31 BC", "0001-01-01", "2026-11-30", "9999-12-31", "10000-01-01"][..]),
        (Kind::Date, &["0001-02-29 BC", "4713-01-01 BC", "5874897-12-31", "infinity", "-infinity"]),
        (Kind::Timestamp, &["0044-03-15 09:08:07.654321 BC", "0001-01-01 00:00:00", "294246-12-31 23:59:59"]),
        (Kind::Timestamptz, &["0044-03-15 09:00:00+00 BC", "9999-12-31 23:59:59.999999+00", "10000-01-01 00:00:00+00"]),
    ] {
        let of = SqlType::from(kind);
        for written in texts {
            let value = text::input(written, of, &Forms::DEFAULT).expect("a value");
            let row = worker.invoke(2_u32, &[&[value]], &[of], &mut Tables::new(of, &[of])).expect(written);
            let [row] = row.as_slice() else { panic!("{row:?}") };
            assert_eq!(text::to_string(&row[0], of, &Forms::DEFAULT), *written);
        }
    }
}

#[test]
fn code_that_does_not_end_is_not_waited_for() {
    let tools = Tools::new(&host::stop::Stop::default(), std::time::Duration::from_secs(1));
    let error = python_with("while True: pass", &tools).expect_err("it does not end");
    let expected = "the project's code has not ended 1 s after its start, and was stopped (--load-limit)";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_name_is_one_word_and_used_once() {
    for (line, expected) in [
        ("transfer = overtake.function(transfer)", "more than one entry is named 'transfer'"),
        (
            "overtake.statement('my read', 'SELECT 1')",
            "'my read' cannot be the name of this statement: a name is one word",
        ),
        ("overtake.table('', 'a', ['b'])", "'' cannot be the name of this table: a name is one word"),
        ("fee.__name__ = 'f\\nentry g'; overtake.function(fee)", "'f\\nentry g' cannot be the name of this entry"),
    ] {
        let error = python_with(line, &Tools::default()).expect_err(line).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Builds the example in TypeScript with a line in front of it, and `LANGUAGE` changed.
fn typescript_with(line: &str, language: &str, tools: &Tools) -> anyhow::Result<BuiltModule> {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("shop");
    proc::create(&directory, Language::TypeScript).expect("a project");
    for (file, from, to) in [
        ("main.ts", "// Stored procedures of a bank.", line.to_owned()),
        ("procedures.sql", "LANGUAGE wasm", format!("LANGUAGE {language}")),
    ] {
        let path = directory.join(file);
        let text = std::fs::read_to_string(&path).expect("a text");
        assert!(text.contains(from), "{text}");
        std::fs::write(&path, text.replace(from, &to)).expect("a text");
    }
    proc::build(&directory, tools)
}

#[test]
fn the_top_level_of_typescript_ends_well_where_its_compiler_is_installed() {
    if !std::process::Command::new("tsc").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return;
    }
    let told = |line: &str, tools: &Tools| format!("{:#}", typescript_with(line, "wasm", tools).expect_err(line));
    let thrown = "if (Date.now() > 0) throw new Error(\"too late\");";
    let error = told(thrown, &Tools::default());
    assert!(error.starts_with("the code cannot be loaded in WebAssembly: node failed"), "{error}");
    assert!(error.contains("code has no clock in WebAssembly"), "{error}");
    let error = told("throw new Error(\"never\");", &Tools::default());
    assert!(error.contains("Error: never"), "{error}");
    let limited = Tools::new(&host::stop::Stop::default(), std::time::Duration::from_secs(2));
    let error = told("for (;;) {}", &limited);
    assert!(error.contains("the project's code has not ended 2 s after its start"), "{error}");
    let error = told("import { scalar } from \"./overtake\";\nscalar(\"my fee\", () => 1n);", &Tools::default());
    assert!(error.contains("\"my fee\" cannot be the name of this entry: a name is one word"), "{error}");
    // A project for Node.js alone may use what WebAssembly lacks.
    let built = typescript_with("export const BEGUN = Date.now();", "exec", &Tools::default()).expect("a program");
    let missing = built.missing.iter().find(|(kind, _)| *kind == ArtifactKind::Wasm).map(|(_, reason)| &**reason);
    assert!(missing.is_some_and(|reason| reason.contains("code has no clock in WebAssembly")), "{built}");
}

#[test]
fn the_console_and_notices_of_typescript_are_declared_where_its_compiler_is_installed() {
    if !has("tsc", "--version") {
        return;
    }
    let tell = |code: &str| {
        let line = format!(
            "import {{ setReturning }} from \"./overtake\";\nsetReturning(\"tell\", (call) => {{\n{code}\n}});"
        );
        typescript_with(&line, "wasm", &Tools::default())
    };
    // What the engine in WebAssembly has.
    let console =
        "console.debug(1); console.error(\"two\", 2n); console.info(); console.log(\"four\", 4); console.warn([]);";
    let levels = ["debug", "log", "info", "notice", "warning"];
    let notices: String = levels
        .map(|level| format!("call.notice(\"a\", \"{level}\"); call.batch().notice(\"a\", \"{level}\");\n"))
        .concat();
    tell(&format!("{console}\n{notices}call.notice(\"a\");")).expect("artifacts");
    for swapped in ["call.notice(\"notice\", \"hello\");", "call.batch().notice(\"notice\", \"hello\");"] {
        let error = format!("{:#}", tell(swapped).expect_err("no level"));
        assert!(error.contains("TS2345: Argument of type '\"hello\"' is not assignable"), "{error}");
    }
}

/// Modules whose entry queries the numbers of all accounts, by a call and in a batch, and returns what it has read.
const QUERIES: [(Language, &str, &str); 4] = [
    (
        Language::C,
        "main.c",
        r#"
#include "overtake.h"

OT_MANIFEST("statement change UPDATE account SET balance = 0\n"
            "statement ids SELECT id FROM account\n"
            "entry ids\n")

static int64_t all(void) {
    uint64_t rows;
    uint32_t cursor, come = ot_read_queried(&rows, 1);
    int64_t sum = rows == 3 && come == 2 ? 0 : 1000;
    ot_value id;
    for (uint32_t at = 0; at < come; at++) {
        ot_read_values(1, &id);
        sum = sum * 10 + ot_as_int(id);
    }
    if (!ot_read_rest(&cursor)) return sum;
    while (ot_fetch(cursor, 1, &id)) sum = sum * 10 + ot_as_int(id);
    return sum;
}

static void ids(void) {
    ot_add_query(1, 0, NULL);
    ot_run();
    int64_t sum = all();
    ot_add_notice(3, "in a batch");
    ot_add_query(1, 0, NULL);
    ot_run();
    ot_return(OT_ROW(ot_int(sum * 1000 + all())));
}

OT_ENTRIES(ids)
"#,
    ),
    (
        Language::Python,
        "main.py",
        r#"
import overtake

overtake.statement("change", "UPDATE account SET balance = 0")
IDS = overtake.statement("ids", "SELECT id FROM account")


@overtake.function
def ids(call):
    one = call.query(IDS)
    batch = call.batch()
    batch.notice("in a batch")
    batch.query(IDS)
    _, other = batch.run()
    return int("".join(str(id) for (id,) in [*one, *other]))


overtake.main()
"#,
    ),
    (
        Language::Java,
        "Main.java",
        r#"
final class Main {
    private static final Overtake overtake = new Overtake();
    private static final Overtake.Statement CHANGE = overtake.statement("change", "UPDATE account SET balance = 0");
    private static final Overtake.Statement IDS = overtake.statement("ids", "SELECT id FROM account");

    public static void main(String[] arguments) throws Exception {
        overtake.function("ids", Main::ids);
        overtake.run(arguments);
    }

    private static Object ids(Overtake.Call call, Overtake.Row arguments) {
        long sum = 0;
        for (Overtake.Row row : call.query(IDS)) sum = sum * 10 + row.getLong(0);
        Overtake.Batch batch = call.batch();
        batch.notice("notice", "in a batch");
        batch.query(IDS);
        for (Overtake.Row row : (Overtake.Cursor) batch.run()[1]) sum = sum * 10 + row.getLong(0);
        return sum;
    }
}
"#,
    ),
    (
        Language::TypeScript,
        "main.ts",
        r#"
import * as overtake from "./overtake";

overtake.statement("change", "UPDATE account SET balance = 0");
const IDS = overtake.statement("ids", "SELECT id FROM account");

overtake.scalar("ids", (call) => {
  const one = call.query(IDS, []);
  const batch = call.batch();
  batch.notice("in a batch");
  const other = batch.query(IDS, []);
  batch.run();
  return BigInt([...one, ...other()].map(([id]) => String(id)).join(""));
});

overtake.main();
"#,
    ),
];

/// Returns true if a program is installed.
fn has(program: &str, version: &str) -> bool {
    std::process::Command::new(program).arg(version).output().is_ok_and(|output| output.status.success())
}

#[test]
fn queries_bring_their_rows() {
    for (language, file, code) in QUERIES {
        let is_installed = match language {
            Language::Java => has("java", "-version"),
            Language::TypeScript => has("tsc", "--version"),
            Language::Rust | Language::AssemblyScript | Language::C | Language::Python => true,
        };
        if !is_installed {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("shop");
        proc::create(&directory, language).expect("a project");
        std::fs::write(directory.join(file), code).expect("code");
        let built = proc::build(&directory, &Tools::default()).expect("artifacts");
        let mut worker =
            Worker::start(&built.artifact(ArtifactKind::Exec).expect("a program").path, Channel::UnixSocket);
        let mut tables = tables();
        tables.tables[0].insert(3, ints([3, 0]).to_vec());
        let read = invoke(&mut worker, &mut tables, 0, &[&[]]).expect("rows");
        // The host answers with two rows at once.
        assert_eq!(read, [ints([123_123])], "{language:?}");
        // C fetches the others one by one, and learns of the end by a call that brings none.
        let nexts = if language == Language::C { 3 } else { 2 };
        let once = [vec!["execute 1 0"], vec!["next"; nexts]].concat();
        let calls: Vec<&str> =
            tables.log.iter().map(String::as_str).filter(|call| !call.starts_with("notice")).collect();
        assert_eq!(calls, [once.clone(), once].concat(), "{language:?}");
    }
}

/// Goal: a file with a statement that would not do what it says is refused before anything is built or run. Method: no
/// server listens at the address, and the code would not end.
#[test]
fn statements_that_cannot_be_run_are_refused_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("shop");
    proc::create(&directory, Language::Python).expect("a project");
    std::fs::write(directory.join("main.py"), "while True: pass\n").expect("code");
    let loading = proc::LoadArguments { load_limit: 1 };
    let deploy = proc::ProcCommand::Deploy(proc::DeployArguments {
        directory: directory.clone(),
        url: Some("postgresql://postgres@127.0.0.1:1/postgres".to_owned()),
        loading: loading.clone(),
    });
    let test = proc::ProcCommand::Test(proc::TestArguments { directory: directory.clone(), update: false, loading });
    let told = |command: &proc::ProcCommand| {
        let error = proc::run(command, &host::stop::Stop::default()).expect_err("refused");
        (error.is::<host::refusal::Refusal>(), error.to_string())
    };
    let is_built = |command| told(command).1.contains("the project's code has not ended 1 s after its start");
    assert!(is_built(&deploy) && is_built(&test));
    let add = |name: &str, line: &str| {
        let path = directory.join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(&path, format!("{line}\n{text}")).expect("a file");
        (path, text)
    };
    let one_transaction = "the file is run in one transaction, together with the module";
    let no_rows = "COPY ... FROM STDIN is refused: no rows are sent behind a statement; use INSERT";
    for (name, line, refused, stops_deploy) in [
        ("procedures.sql", "COMMIT;", format!("COMMIT is refused: {one_transaction}"), true),
        ("procedures.sql", "COPY account FROM STDIN;", no_rows.to_owned(), true),
        ("schema.sql", "COPY account FROM STDIN;", no_rows.to_owned(), false),
        ("tests/fee.sql", "COPY account FROM STDIN;", no_rows.to_owned(), false),
    ] {
        let (path, text) = add(name, line);
        let refused = (true, format!("{}:1: {refused}", path.display()));
        assert_eq!(told(&test), refused);
        if stops_deploy {
            assert_eq!(told(&deploy), refused);
        } else {
            assert!(is_built(&deploy), "{name} is not deployed");
        }
        std::fs::write(&path, text).expect("a file");
    }
}
