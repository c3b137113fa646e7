//! Files of a project.

use crate::control::{self, ScriptKind};
use crate::language::Language;
use crate::script;
use anyhow::Context;
use host::refusal::Refusal;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Project in a folder.
#[derive(Clone, Debug)]
pub struct Project {
    /// Folder.
    pub directory: PathBuf,
    /// Language of the code.
    pub language: Language,
    /// Name of the module, as `procedures.sql` says it.
    pub module: String,
    /// Text of `procedures.sql`.
    pub procedures: String,
    /// Text of `schema.sql`; empty if there is none.
    pub schema: String,
    /// Files with statements of tests, by name.
    pub tests: Vec<PathBuf>,
}

impl Project {
    /// Reads the files of a project.
    ///
    /// # Errors
    /// Fails with a [`Refusal`] if the folder has no code, or `procedures.sql` names no module or several.
    pub fn open(directory: &Path) -> anyhow::Result<Project> {
        let refused = |message: String| Refusal::new(format!("{}: {message}", directory.display()));
        let language = Language::of(directory).ok_or_else(|| {
            let files = Language::ALL.map(Language::main_file).join(", ");
            refused(format!("no project here: it has none of {files}; `overtake proc new` writes one"))
        })?;
        let procedures = text(&directory.join("procedures.sql"))?;
        let module = module(&procedures).map_err(|message| refused(format!("procedures.sql: {message}")))?;
        let schema = text(&directory.join("schema.sql"))?;
        let tests = tests(&directory.join("tests"))?;
        Ok(Project { directory: directory.to_owned(), language, module, procedures, schema, tests })
    }

    /// Checks the statements of `procedures.sql`.
    ///
    /// # Errors
    /// Those of [`control::check`].
    pub(crate) fn check_procedures(&self) -> anyhow::Result<()> {
        Ok(control::check(&self.directory.join("procedures.sql"), &self.procedures, ScriptKind::Procedures)?)
    }

    /// Checks the statements of `schema.sql` and of the tests.
    ///
    /// # Errors
    /// Those of [`control::check`]; fails if a file cannot be read.
    pub(crate) fn check_tests(&self) -> anyhow::Result<()> {
        control::check(&self.directory.join("schema.sql"), &self.schema, ScriptKind::Schema)?;
        for path in &self.tests {
            control::check(path, &text(path)?, ScriptKind::Test)?;
        }
        Ok(())
    }
}

/// Returns the module that all procedures name.
fn module(procedures: &str) -> Result<String, String> {
    let mut names = script::modules(procedures);
    names.sort();
    names.dedup();
    match <[String; 1]>::try_from(names) {
        Ok([name]) => Ok(name),
        Err(names) if names.is_empty() => {
            Err("it has no CREATE PROCEDURE or CREATE FUNCTION ... AS 'MODULE', 'ENTRY'".to_owned())
        }
        Err(names) => Err(format!("it names more than one module: {}", names.join(", "))),
    }
}

/// Reads a file; one that does not exist is empty.
fn text(path: &Path) -> anyhow::Result<String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn tests(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", folder.display())),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "sql") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_one_module() {
        assert_eq!(module("CREATE FUNCTION f() RETURNS int LANGUAGE wasm AS 'm', 'f';"), Ok("m".to_owned()));
        assert_eq!(
            module("SELECT 1 AS a"),
            Err("it has no CREATE PROCEDURE or CREATE FUNCTION ... AS 'MODULE', 'ENTRY'".to_owned())
        );
        let two = "CREATE PROCEDURE f() AS 'm', 'f'; CREATE PROCEDURE g() AS 'n', 'g'";
        assert_eq!(module(two), Err("it names more than one module: m, n".to_owned()));
    }

    #[test]
    fn a_folder_without_code_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = Project::open(folder.path()).expect_err("no project");
        assert!(error.is::<Refusal>(), "{error}");
    }
}
