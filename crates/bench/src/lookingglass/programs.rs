//! Lines that change when a New-Order moves from the client into the database, or to another level.
//!
//! **Invariant:** no number of lines is written here. The programs are the files of `sdk/new-order` and those that the
//! benchmark runs, and `git diff --numstat` counts.

use super::manual;
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Language of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgramLanguage {
    /// Rust.
    Rust,
    /// TypeScript.
    TypeScript,
}

impl ProgramLanguage {
    /// All languages.
    pub const ALL: [ProgramLanguage; 2] = [ProgramLanguage::Rust, ProgramLanguage::TypeScript];

    /// Returns the key in figures' names.
    pub fn key(self) -> &'static str {
        match self {
            ProgramLanguage::Rust => "rust",
            ProgramLanguage::TypeScript => "typescript",
        }
    }
}

macro_rules! sdk {
    ($path:literal) => {
        include_str!(concat!("../../../../sdk/new-order/", $path))
    };
}

/// Name and text of a file.
type ProgramFile = (&'static str, String);

/// Sandboxed levels, which are keys of rungs, too.
const SANDBOXED: [&str; 5] = ["wasm", "process", "container", "gvisor", "vm"];

/// Settings of a routine that Node.js runs.
const NODE: &str = "memory_limit = '512MB', channel = 'unix_socket'";

/// Changed lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangedLines {
    /// Number of lines that are new.
    pub added: u32,
    /// Number of lines that are gone.
    pub removed: u32,
}

impl ChangedLines {
    /// Returns the number of lines to write or to delete.
    pub fn all(self) -> u32 {
        self.added + self.removed
    }
}

/// Changed lines by language and key of the rung.
pub type LinesByRung = BTreeMap<(ProgramLanguage, &'static str), ChangedLines>;

/// Returns the files of the program at a rung; none if the language cannot be run there.
fn files(language: ProgramLanguage, rung: &'static str) -> Option<Vec<ProgramFile>> {
    let text = |text: &str| text.to_owned();
    match language {
        ProgramLanguage::Rust => Some(match rung {
            "interactive" => vec![("new_order.rs", text(sdk!("rust/interactive.rs")))],
            "pipelined" => vec![("new_order.rs", text(sdk!("rust/pipelined.rs")))],
            "stored_sql" => vec![("new_order.rs", text(sdk!("rust/call.rs"))), ("procedures.sql", in_sql())],
            "native" => vec![
                ("call.rs", text(sdk!("rust/call.rs"))),
                ("new_order.rs", text(include_str!("../../../workloads/src/tpcc/new_order.rs"))),
                ("stored.rs", text(include_str!("../../../workloads/src/tpcc/stored.rs"))),
                ("manifest.txt", text(include_str!("../../../workloads/src/tpcc/stored.manifest"))),
                ("procedures.sql", at_level(sdk!("rust/procedures.sql"), "native", "")),
            ],
            level if SANDBOXED.contains(&level) => vec![
                ("call.rs", text(sdk!("rust/call.rs"))),
                ("new_order.rs", text(sdk!("rust/stored.rs"))),
                ("procedures.sql", at_level(sdk!("rust/procedures.sql"), level, "")),
            ],
            _ => return None,
        }),
        ProgramLanguage::TypeScript => Some(match rung {
            "interactive" => vec![("new_order.ts", text(sdk!("typescript/interactive.ts")))],
            "stored_sql" => vec![("new_order.ts", text(sdk!("typescript/call.ts"))), ("procedures.sql", in_sql())],
            level if SANDBOXED.contains(&level) && manual::runs_at("TypeScript", level) => vec![
                ("call.ts", text(sdk!("typescript/call.ts"))),
                ("new_order.ts", text(sdk!("typescript/stored.ts"))),
                ("procedures.sql", at_level(sdk!("typescript/procedures.sql"), level, NODE)),
            ],
            _ => return None,
        }),
    }
}

/// Returns the procedure in SQL that the benchmark calls, by the name that the programs call.
fn in_sql() -> String {
    include_str!("sql/new_order_sql.sql").replace("glass_new_order_stored_sql", "new_order")
}

/// Returns the definition of the function for a level, with the settings that executables of its language need.
fn at_level(definition: &str, level: &str, of_executables: &str) -> String {
    let (language, own) = match level {
        "native" => ("native", "native"),
        "wasm" => ("wasm", "wasm"),
        _ => ("exec", "process"),
    };
    let of_executables = if language == "exec" { of_executables } else { "" };
    let isolation = if level == own { String::new() } else { format!("isolation = '{level}'") };
    let settings: Vec<&str> = [&*isolation, of_executables].into_iter().filter(|one| !one.is_empty()).collect();
    let written = if definition.contains("LANGUAGE wasm") { "LANGUAGE wasm" } else { "LANGUAGE exec" };
    let definition = definition.replace(written, &format!("LANGUAGE {language}"));
    match settings[..] {
        [] => definition,
        _ => format!("{definition}ALTER FUNCTION new_order SET ({});\n", settings.join(", ")),
    }
}

/// Counts the lines of all programs. Fails if there is no git.
///
/// # Errors
/// Errors of git and of temporary files.
pub fn count(rungs: &[&'static str]) -> anyhow::Result<LinesByRung> {
    let folder = tempfile::tempdir().context("a folder for the programs")?;
    let mut counted = LinesByRung::new();
    for language in ProgramLanguage::ALL {
        let base = folder.path().join(language.key());
        let Some(interactive) = files(language, "interactive") else { continue };
        let from = base.join("from");
        write(&from, &interactive)?;
        for rung in rungs {
            let Some(program) = files(language, rung) else { continue };
            let to = base.join(rung);
            write(&to, &program)?;
            counted.insert((language, *rung), changed(&from, &to)?);
        }
    }
    Ok(counted)
}

fn write(folder: &Path, files: &[ProgramFile]) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    files.iter().try_for_each(|(name, text)| fs::write(folder.join(name), text).with_context(|| (*name).to_owned()))
}

/// Returns the lines that differ between the files of two folders.
fn changed(from: &Path, to: &Path) -> anyhow::Result<ChangedLines> {
    let mut command = Command::new("git");
    // Settings of the user change nothing.
    command.args(["-c", "core.attributesFile=/dev/null", "diff", "--no-index", "--numstat", "--no-renames"]);
    command.args(["--no-ext-diff", "--diff-algorithm=myers"]).arg(from).arg(to);
    let output = command.output().context("git")?;
    // 1 says that there are differences.
    ensure!(matches!(output.status.code(), Some(0 | 1)), "git: {}", String::from_utf8_lossy(&output.stderr).trim());
    numstat(&String::from_utf8_lossy(&output.stdout)).context("git diff --numstat prints something else")
}

fn numstat(text: &str) -> Option<ChangedLines> {
    let mut sum = ChangedLines::default();
    for line in text.lines() {
        let mut fields = line.split('\t');
        sum.added += fields.next()?.parse::<u32>().ok()?;
        sum.removed += fields.next()?.parse::<u32>().ok()?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_git_are_added() {
        let sum = numstat("3\t4\ta => b\n10\t0\t/dev/null => c\n");
        assert_eq!(sum, Some(ChangedLines { added: 13, removed: 4 }));
        assert_eq!((numstat("-\t-\tbinary"), numstat("")), (None, Some(ChangedLines::default())));
    }

    #[test]
    fn git_counts_the_programs() {
        let rungs = ["interactive", "pipelined", "stored_sql", "native", "wasm", "process", "container", "vm"];
        let counted = count(&rungs).expect("git counts");
        let of = |language, rung| counted.get(&(language, rung)).copied();
        let rust = |rung| of(ProgramLanguage::Rust, rung).expect("it is in Rust");
        assert_eq!(rust("interactive"), ChangedLines::default());
        for rung in &rungs[1..] {
            assert!(20 < rust(rung).all(), "{rung}: {:?}", rust(rung));
        }
        // Another language in the definition is one line; another level is one more.
        assert_eq!(rust("process").all(), rust("wasm").all());
        assert_eq!((rust("container").all(), rust("vm").all()), (rust("process").all() + 1, rust("process").all() + 1));
        assert!(of(ProgramLanguage::TypeScript, "container").is_some_and(|lines| 20 < lines.all()));
        assert_eq!(of(ProgramLanguage::TypeScript, "pipelined"), None, "node-postgres sends one statement at a time");
        assert_eq!(of(ProgramLanguage::TypeScript, "native"), None);
    }

    #[test]
    fn definitions_name_their_level() {
        let text = "CREATE FUNCTION new_order() LANGUAGE wasm AS 'orders';\n";
        assert_eq!((at_level(text, "wasm", ""), at_level(text, "wasm", NODE)), (text.to_owned(), text.to_owned()));
        assert_eq!(at_level(text, "process", ""), text.replace("wasm", "exec"));
        let moved = at_level(text, "vm", "");
        assert!(
            moved.ends_with("ALTER FUNCTION new_order SET (isolation = 'vm');\n") && moved.contains("LANGUAGE exec")
        );
        assert_eq!(at_level(&at_level(text, "process", ""), "wasm", NODE), text);
        assert!(at_level(text, "container", NODE).contains(&format!("SET (isolation = 'container', {NODE});")));
    }
}
