//! psql, PostgreSQL's own client: its output for one schema, and the effect of its commands, are the same as with
//! PostgreSQL 15. `tests/psql/record` records the answers of a real server anew.

use crate::real::Real;
use std::path::Path;
use std::process::Command;

/// Removes the sizes from an output, which differ between servers, and the column widths that follow from them.
fn without_sizes(output: &str) -> String {
    let shows_sizes = |block: &str| block.lines().any(|line| line.split('|').any(|cell| cell.trim() == "Size"));
    let is_size = |cell: &str| matches!(cell.split_once(' '), Some((count, "bytes" | "kB")) if count.bytes().all(|byte| byte.is_ascii_digit()));
    let one_line = |line: &str| {
        let cells = line.split(['|', '+']).map(str::trim);
        cells.map(|cell| if is_size(cell) { "SIZE" } else { cell.trim_matches('-') }).collect::<Vec<_>>().join("|")
    };
    let one_block = |block: &str| match shows_sizes(block) {
        true => block.lines().map(one_line).collect::<Vec<_>>().join("\n"),
        false => block.to_owned(),
    };
    output.split("\n\n").map(one_block).collect::<Vec<_>>().join("\n\n")
}

/// Returns the lines that differ, with their context.
fn differences(wanted: &Path, found: &Path) -> String {
    let output = Command::new("diff").arg("-U3").args([wanted, found]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The catalog, results, files, and the queries of tab completion.
pub fn shows_what_it_shows_of_postgresql() {
    let version = Command::new("psql").arg("--version").output();
    if !version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("(PostgreSQL) 15.")) {
        assert!(std::env::var_os("OVERTAKE_CI").is_none(), "psql of PostgreSQL 15 is not installed");
        return println!("SKIPPED: psql of PostgreSQL 15 is not installed");
    }
    let real = Real::alone();
    let folder = Path::new("tests/psql");
    let scratch = testkit::folder("psql");
    let work = scratch.path();
    let psql = |name: &str, how: &str| {
        let script = format!("{name}.sql");
        std::fs::copy(folder.join(&script), work.join(&script)).unwrap();
        let mut shell = Command::new("sh");
        // Errors are printed where they happen.
        shell.arg("-c").arg(format!("exec psql -X {how} -f {script} 2>&1")).current_dir(work).env("PGTZ", "UTC");
        let port = real.address.port().to_string();
        shell.envs([("PGHOST", "127.0.0.1"), ("PGPORT", &port), ("PGUSER", "postgres"), ("PGDATABASE", "postgres")]);
        let output = shell.output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (is_made, said) = psql("schema", "-q -v ON_ERROR_STOP=1");
    assert!(is_made, "{said}");
    let mut all = String::new();
    for name in ["describe", "commands", "completion"] {
        let wanted = without_sizes(&std::fs::read_to_string(folder.join(format!("{name}.out"))).unwrap());
        let found = without_sizes(&psql(name, "-a").1);
        let [wanted_at, found_at] = ["wanted", "found"].map(|which| work.join(format!("{name}.{which}")));
        std::fs::write(&wanted_at, &wanted).unwrap();
        std::fs::write(&found_at, &found).unwrap();
        if wanted != found {
            all.push_str(&differences(&wanted_at, &found_at));
        }
    }
    assert!(all.is_empty(), "psql shows something else:\n{all}");
}
