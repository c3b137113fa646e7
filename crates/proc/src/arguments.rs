//! Arguments of `overtake proc`.

use crate::language::Language;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Command for stored procedures.
#[derive(Subcommand, Clone, Debug)]
pub enum ProcCommand {
    /// Write a project: code with two entries, their signatures, tests, and the library of the language.
    New(NewArguments),
    /// Build the artifacts that the language and the tools of this machine allow, into DIRECTORY/build.
    Build(BuildArguments),
    /// Build, and run the tests of the project in scratch databases, at every level of isolation that this machine has.
    Test(TestArguments),
    /// Build, and install the module and its procedures in a database, in one transaction.
    Deploy(DeployArguments),
}

/// Arguments of `proc new`.
#[derive(Args, Clone, Debug)]
pub struct NewArguments {
    /// Folder to create. Its name becomes the name of the module, in small letters, digits and underscores.
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,
    /// Language of the code.
    #[arg(long, value_name = "LANGUAGE", value_enum)]
    pub language: Language,
}

/// Limit of time for code that is loaded, to learn its manifest and, in TypeScript, to evaluate its top level.
#[derive(Args, Clone, Debug)]
pub struct LoadArguments {
    /// Longest time that loading the project's code may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub load_limit: u32,
}

/// Arguments of `proc build`.
#[derive(Args, Clone, Debug)]
pub struct BuildArguments {
    /// Folder of the project.
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    pub directory: PathBuf,
    /// Limit for the project's code.
    #[command(flatten)]
    pub loading: LoadArguments,
}

/// Arguments of `proc test`.
#[derive(Args, Clone, Debug)]
pub struct TestArguments {
    /// Folder of the project.
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    pub directory: PathBuf,
    /// Write the output of the first level into the .expected files, in place of comparing it. The other levels are
    /// compared with it.
    #[arg(long)]
    pub update: bool,
    /// Limit for the project's code.
    #[command(flatten)]
    pub loading: LoadArguments,
}

/// Arguments of `proc deploy`.
#[derive(Args, Clone, Debug)]
pub struct DeployArguments {
    /// Folder of the project.
    #[arg(value_name = "DIRECTORY", default_value = ".")]
    pub directory: PathBuf,
    /// The server, as psql takes it: postgresql://user@host:port/database, or "host=... port=...". What it does not say is taken from
    /// PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE and PGSSLMODE (disable, prefer or require; the certificate is not verified); without those it is postgres at 127.0.0.1:5432.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Limit for the project's code.
    #[command(flatten)]
    pub loading: LoadArguments,
}
