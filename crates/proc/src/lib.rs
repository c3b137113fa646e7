//! `overtake proc`: commands for those who write stored procedures.
//!
//! A project is a folder. Besides the code in one of the [languages](Language), it has `procedures.sql` with the
//! signatures of the entries, `schema.sql` with tables for the tests, and `tests/` with statements and the output that
//! is expected of them.
//!
//! - `new` writes a project that works.
//! - `build` makes the artifacts that the language and the tools of this machine allow.
//! - `deploy` installs them, and runs `procedures.sql`, in one transaction.
//! - `test` does so in scratch databases, and runs the tests at every level of isolation.
//!
//! **Invariant:** nothing is left out silently: an artifact or a level that is missing is named with its reason.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - SQL texts, and sections of WebAssembly: `script`, `sections`
//! - statements that are refused: `control`
//! - languages and the files of a project: `language`, `project`, `template`
//! - tools and artifacts: `tools`, `engine`, `python`, `java`, `typescript`, `build`
//! - servers: `connection`, `scratch`
//! - output of statements: `transcript`, `difference`
//! - commands: `deploy`, `suite`
//! - command line: `arguments`

mod arguments;
mod build;
mod connection;
mod control;
mod deploy;
mod difference;
mod engine;
mod java;
mod language;
mod project;
mod python;
mod scratch;
mod script;
mod sections;
mod suite;
mod template;
mod tools;
mod transcript;
mod typescript;

pub use arguments::{BuildArguments, DeployArguments, LoadArguments, NewArguments, ProcCommand, TestArguments};
pub use build::{BuiltArtifact, BuiltModule, build};
pub use language::Language;
pub use template::create;
pub use tools::Tools;

use anyhow::Context;
use host::refusal::Refusal;
use host::say::say;
use host::stop::Stop;
use project::Project;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Runs a command.
///
/// # Errors
/// Fails with a [`Refusal`] for a folder that is no project, a URL that is none, and a statement that a file of the
/// project cannot have; if code cannot be built, a
/// statement fails, or a test does not give what is expected; with [`host::stop::Stopped`] after Ctrl-C.
pub fn run(command: &ProcCommand, stop: &Stop) -> anyhow::Result<()> {
    match command {
        ProcCommand::New(arguments) => {
            let name = template::create(&arguments.directory, arguments.language)?;
            let renamed = template::renamed(&arguments.directory, &name);
            let (directory, word) = (arguments.directory.display(), shell_word(&arguments.directory));
            say(format_args!("Wrote {directory}. Next: overtake proc test {word}\n{renamed}"))
        }
        ProcCommand::Build(arguments) => {
            let project = Project::open(&arguments.directory)?;
            say(build::build(&project.directory, &tools(&arguments.loading, stop))?)
        }
        ProcCommand::Deploy(arguments) => {
            let target = top::Target::new(arguments.url.as_deref(), |name| std::env::var(name).ok());
            let tls = wire::tls::client::unverified().context("encryption")?;
            let target = target.map_err(|error| Refusal::new(error.to_string()))?.encrypted_by(tls);
            let project = Project::open(&arguments.directory)?;
            project.check_procedures()?;
            let built = build::build(&project.directory, &tools(&arguments.loading, stop))?;
            say(&built)?;
            let notices = runtime()?.block_on(deploy::deploy(&target, &project, &built))?;
            say(format_args!("{notices}Deployed module \"{}\" to {target}.\n", built.name))
        }
        ProcCommand::Test(arguments) => {
            let project = Project::open(&arguments.directory)?;
            project.check_procedures()?;
            project.check_tests()?;
            let built = build::build(&project.directory, &tools(&arguments.loading, stop))?;
            say(&built)?;
            runtime()?.block_on(suite::test(&project, &built, arguments.update, stop))
        }
    }
}

/// Returns a path as one word of a POSIX shell, quoted if it must be.
fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |sign: char| sign.is_alphanumeric() || "_-./+,:@%=".contains(sign);
    match text.chars().all(is_plain) {
        true => text.into_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

fn tools(loading: &LoadArguments, stop: &Stop) -> Tools {
    Tools::new(stop, Duration::from_secs(loading.load_limit.into()))
}

fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("the runtime of connections")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        for (path, word) in [
            ("shop", "shop"),
            ("../a-b_2/ä.x", "../a-b_2/ä.x"),
            ("a b;c", "'a b;c'"),
            ("it's", "'it'\\''s'"),
            ("$(x)", "'$(x)'"),
        ] {
            assert_eq!(shell_word(Path::new(path)), word);
        }
    }
}
