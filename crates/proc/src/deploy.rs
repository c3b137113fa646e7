//! Installation of a module and its procedures.

use crate::build::BuiltModule;
use crate::connection::Session;
use crate::project::Project;
use crate::script::{literal, quoted_name, statements};
use crate::transcript::message;
use anyhow::bail;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use top::Target;

/// Length of a statement's beginning in a message, in characters.
const SHOWN: usize = 60;

/// Returns the statement that installs a module.
pub(crate) fn create_module(built: &BuiltModule) -> String {
    let mut statement =
        format!("CREATE OR REPLACE MODULE {} MANIFEST {}", quoted_name(&built.name), literal(&built.manifest));
    for artifact in &built.artifacts {
        statement.push_str(&format!(" ARTIFACT {} '{}'", artifact.kind, BASE64_STANDARD.encode(&artifact.bytes)));
    }
    statement
}

/// Installs a module and its procedures in one transaction. Returns the server's notices.
///
/// # Errors
/// Fails if the server cannot be reached or a statement fails; then nothing is installed.
pub(crate) async fn deploy(target: &Target, project: &Project, built: &BuiltModule) -> anyhow::Result<String> {
    let session = Session::to_target(target).await?;
    install(&session, project, built).await
}

/// Does what [`deploy`] does, over a connection.
pub(crate) async fn install(session: &Session, project: &Project, built: &BuiltModule) -> anyhow::Result<String> {
    let module = create_module(built);
    let mut all = vec!["BEGIN", &module];
    all.extend(statements(&project.procedures));
    all.push("COMMIT");
    run_all(session, &all).await
}

/// Executes statements up to the first that fails. Returns the server's notices.
///
/// # Errors
/// Fails with the error of a statement.
pub(crate) async fn run_all(session: &Session, all: &[&str]) -> anyhow::Result<String> {
    let mut notices = String::new();
    for statement in all {
        let answer = session.execute(statement).await?;
        notices.extend(answer.notices.iter().map(message));
        if let Err(error) = answer.outcome {
            bail!("{}\n{}", beginning(statement), message(&error).trim_end());
        }
    }
    Ok(notices)
}

/// Returns the beginning of a statement, on one line.
fn beginning(statement: &str) -> String {
    let words: Vec<&str> = statement.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{} ...", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::BuiltArtifact;
    use procs::ArtifactKind;

    #[test]
    fn a_module_is_one_statement() {
        let artifact = |kind, bytes: &[u8]| BuiltArtifact { kind, path: "x".into(), bytes: bytes.to_vec() };
        let built = BuiltModule {
            name: "bank".to_owned(),
            manifest: "overtake 1\nstatement s SELECT 'it'\n".to_owned(),
            artifacts: vec![artifact(ArtifactKind::Wasm, b"\0asm\xff\xfe"), artifact(ArtifactKind::Exec, b"#!/bin/sh")],
            missing: vec![],
        };
        let expected = "CREATE OR REPLACE MODULE \"bank\" MANIFEST 'overtake 1\nstatement s SELECT ''it''\n' \
                        ARTIFACT wasm 'AGFzbf/+' ARTIFACT exec 'IyEvYmluL3No'";
        let statement = create_module(&built);
        assert_eq!(statement, expected);
        let parsed = syntax::grammar::parse(&statement).expect("a statement");
        assert_eq!(parsed.len(), 1);
    }

    #[test]
    fn a_long_statement_is_shortened() {
        assert_eq!(beginning("SELECT\n  1"), "SELECT 1");
        assert_eq!(beginning(&"ä".repeat(70)), format!("{} ...", "ä".repeat(60)));
    }
}
