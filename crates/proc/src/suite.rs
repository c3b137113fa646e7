//! Tests of a project.
//!
//! **Invariant:** each test begins with a database of its own, so its output does not depend on others.

use crate::build::BuiltModule;
use crate::connection::Session;
use crate::deploy::{install, run_all};
use crate::difference::difference;
use crate::project::Project;
use crate::scratch::Scratch;
use crate::script::{literal, quoted_name, statements};
use crate::transcript::{message, transcript};
use anyhow::{Context, bail};
use host::refusal::Refusal;
use host::say::say;
use host::stop::Stop;
use procs::{ArtifactKind, Level};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tokio_postgres::SimpleQueryMessage;

/// Level at which the tests run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TestedLevel {
    level: Level,
    /// Reason why the server cannot run it.
    missing: Option<String>,
}

/// Runs the tests at all levels for which there is an artifact, and prints the outcomes.
///
/// # Errors
/// Fails if a test does not give what is expected, or no level can run here.
pub(crate) async fn test(project: &Project, built: &BuiltModule, updates: bool, stop: &Stop) -> anyhow::Result<()> {
    if project.tests.is_empty() {
        return Err(Refusal::new(format!("{}: no files tests/*.sql", project.directory.display())).into());
    }
    let executable = std::env::current_exe().context("this executable")?;
    let all = levels(&executable, built, stop).await?;
    let (mut passed, mut failed, mut is_first) = (0, 0, true);
    for TestedLevel { level, missing } in all {
        if let Some(reason) = missing {
            say(format_args!("{level}: not on this machine: {reason}\n"))?;
            continue;
        }
        if let Some(reason) = project.language.refuses(level) {
            say(format_args!("{level}: not for this language: {reason}\n"))?;
            continue;
        }
        for file in &project.tests {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            let actual = actual(&executable, project, built, (level, file), stop).await;
            let actual = actual.with_context(|| format!("test {name} at level {level}"))?;
            match outcome(&expected_file(file), &actual, updates && is_first)? {
                Outcome::Passed => {
                    passed += 1;
                    say(format_args!("{level}: {name}: ok\n"))?;
                }
                Outcome::Written => say(format_args!("{level}: {name}: written\n"))?,
                Outcome::Failed(reason) => {
                    failed += 1;
                    say(format_args!("{level}: {name}: FAILED\n{reason}"))?;
                }
            }
        }
        is_first = false;
    }
    if is_first {
        bail!("no level of isolation for which there is an artifact can run on this machine");
    }
    say(format_args!("{passed} passed, {failed} failed\n"))?;
    if 0 < failed { bail!("{failed} of {} tests failed", passed + failed) } else { Ok(()) }
}

fn expected_file(test: &Path) -> PathBuf {
    test.with_extension("expected")
}

/// Outcome of a test.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Written,
    Failed(String),
}

/// Compares an output with the expected one, or writes it.
fn outcome(file: &Path, actual: &str, writes: bool) -> anyhow::Result<Outcome> {
    if writes {
        fs::write(file, actual).with_context(|| format!("cannot write {}", file.display()))?;
        return Ok(Outcome::Written);
    }
    let expected = match fs::read_to_string(file) {
        Ok(expected) => expected,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Outcome::Failed(format!("{} does not exist; --update writes it\n", file.display())));
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    Ok(difference(&expected, actual).map_or(Outcome::Passed, Outcome::Failed))
}

/// Runs a test in a new database. Returns its output.
async fn actual(
    executable: &Path,
    project: &Project,
    built: &BuiltModule,
    (level, file): (Level, &Path),
    stop: &Stop,
) -> anyhow::Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut server = Scratch::start(executable)?;
    let session = server.connect(stop).await?;
    run_all(&session, &statements(&project.schema)).await.context("schema.sql")?;
    install(&session, project, built).await?;
    isolate(&session, project, level).await?;
    transcript(&session, &text).await
}

/// Moves all routines of a project to a level.
async fn isolate(session: &Session, project: &Project, level: Level) -> anyhow::Result<()> {
    let module = literal(&project.module);
    let query = format!("SELECT schema, name FROM overtake.isolated_routines WHERE module = {module} ORDER BY oid");
    let parameters = project.language.parameters(level);
    let changes: Vec<String> = query_rows(session, &query)
        .await?
        .iter()
        .map(|row| {
            let names: Vec<String> = row.iter().flatten().map(|name| quoted_name(name)).collect();
            format!("ALTER ROUTINE {} SET (isolation = '{level}'{parameters})", names.join("."))
        })
        .collect();
    let changes: Vec<&str> = changes.iter().map(String::as_str).collect();
    run_all(session, &changes).await.map(drop)
}

/// Returns the levels for which there is an artifact.
async fn levels(executable: &Path, built: &BuiltModule, stop: &Stop) -> anyhow::Result<Vec<TestedLevel>> {
    let mut server = Scratch::start(executable)?;
    let session = server.connect(stop).await?;
    let rows = query_rows(&session, "SELECT isolation, available, reason FROM overtake.isolation_levels").await?;
    let kinds: Vec<ArtifactKind> = built.artifacts.iter().map(|artifact| artifact.kind).collect();
    Ok(tested_levels(&rows, &kinds))
}

/// Returns the levels that run one of these kinds of artifacts, from the rows of `overtake.isolation_levels`.
fn tested_levels(rows: &[Vec<Option<String>>], kinds: &[ArtifactKind]) -> Vec<TestedLevel> {
    let read = |row: &Vec<Option<String>>| {
        let [Some(name), available, reason] = row.as_slice() else { return None };
        let level = Level::named(name).filter(|level| kinds.contains(&level.artifact()))?;
        let is_available = available.as_deref() == Some("t");
        let missing = (!is_available).then(|| reason.clone().unwrap_or_default());
        Some(TestedLevel { level, missing })
    };
    rows.iter().filter_map(read).collect()
}

/// Returns the rows of a query, as texts.
async fn query_rows(session: &Session, query: &str) -> anyhow::Result<Vec<Vec<Option<String>>>> {
    let messages = match session.execute(query).await?.outcome {
        Ok(messages) => messages,
        Err(error) => bail!("{query}\n{}", message(&error).trim_end()),
    };
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect()),
        _ => None,
    });
    Ok(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_of_an_artifact_are_tested() {
        let row = |name: &str, available: &str, reason: Option<&str>| {
            vec![Some(name.to_owned()), Some(available.to_owned()), reason.map(str::to_owned)]
        };
        let rows = [
            row("native", "t", None),
            row("wasm", "t", None),
            row("process", "t", None),
            row("gvisor", "f", Some("runsc is not installed")),
            row("vm", "t", None),
        ];
        let tested = |level, missing: Option<&str>| TestedLevel { level, missing: missing.map(str::to_owned) };
        let process = tested(Level::Process, None);
        let gvisor = tested(Level::Gvisor, Some("runsc is not installed"));
        assert_eq!(tested_levels(&rows, &[ArtifactKind::Exec]), [process.clone(), gvisor.clone()]);
        let both = [ArtifactKind::Wasm, ArtifactKind::Exec];
        assert_eq!(tested_levels(&rows, &both), [tested(Level::Wasm, None), process, gvisor]);
    }

    #[test]
    fn output_is_compared_or_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = expected_file(&folder.path().join("transfer.sql"));
        assert_eq!(file, folder.path().join("transfer.expected"));
        let missing = Outcome::Failed(format!("{} does not exist; --update writes it\n", file.display()));
        assert_eq!(outcome(&file, "a\n", false).expect("an outcome"), missing);
        assert_eq!(outcome(&file, "a\n", true).expect("an outcome"), Outcome::Written);
        assert_eq!(outcome(&file, "a\n", false).expect("an outcome"), Outcome::Passed);
        assert_eq!(outcome(&file, "b\n", false).expect("an outcome"), Outcome::Failed("- a\n+ b\n".to_owned()));
    }
}
