//! Languages of projects.

use clap::ValueEnum;
use procs::Level;
use std::path::Path;

/// Language that stored procedures can be written in with `overtake proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// Rust: a wasm module and a static executable.
    Rust,
    /// AssemblyScript, a strict subset of TypeScript: a wasm module.
    #[value(name = "assemblyscript")]
    AssemblyScript,
    /// TypeScript: a wasm module with a JavaScript engine, and a program for Node.js.
    #[value(name = "typescript")]
    TypeScript,
    /// C: a static executable, and a wasm module where clang or zig is installed.
    C,
    /// Python: a script.
    Python,
    /// Java: a program of one file.
    Java,
}

impl Language {
    /// All languages.
    pub const ALL: [Language; 6] =
        [Language::Rust, Language::AssemblyScript, Language::TypeScript, Language::C, Language::Python, Language::Java];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::AssemblyScript => "assemblyscript",
            Language::TypeScript => "typescript",
            Language::C => "c",
            Language::Python => "python",
            Language::Java => "java",
        }
    }

    /// Returns the file by which a project of the language is known.
    pub fn main_file(self) -> &'static str {
        match self {
            Language::Rust => "Cargo.toml",
            Language::AssemblyScript => "assembly/index.ts",
            Language::TypeScript => "main.ts",
            Language::C => "main.c",
            Language::Python => "main.py",
            Language::Java => "Main.java",
        }
    }

    /// Returns the language of the project in a folder.
    pub fn of(directory: &Path) -> Option<Language> {
        Language::ALL.into_iter().find(|language| directory.join(language.main_file()).is_file())
    }

    /// Returns the SQL language of the example's entries: `wasm` if there is such an artifact without other compilers
    /// than the language's own.
    pub(crate) fn sql_language(self) -> &'static str {
        match self {
            Language::Rust | Language::AssemblyScript | Language::TypeScript => "wasm",
            Language::C | Language::Python | Language::Java => "exec",
        }
    }

    /// Returns the reason why programs of the language do not run at a level for which they have an artifact.
    pub(crate) fn refuses(self, level: Level) -> Option<&'static str> {
        match (self, level) {
            (Language::Java, Level::Container) => Some("a container does not see all libraries of the virtual machine"),
            (Language::TypeScript | Language::Java | Language::Python, Level::Gvisor | Level::Vm) => {
                Some("it runs static executables only")
            }
            (
                Language::TypeScript | Language::Java | Language::Python,
                Level::Native | Level::Wasm | Level::Process | Level::Container,
            )
            | (Language::Rust | Language::AssemblyScript | Language::C, _) => None,
        }
    }

    /// Returns the parameters besides the level with which programs of the language run there.
    pub(crate) fn parameters(self, level: Level) -> &'static str {
        match (self, level) {
            (Language::TypeScript, Level::Wasm) => ", channel = 'direct'",
            (Language::TypeScript, Level::Process | Level::Container) => {
                ", channel = 'unix_socket', memory_limit = '512MB'"
            }
            (Language::TypeScript, Level::Native | Level::Gvisor | Level::Vm)
            | (
                Language::Rust | Language::AssemblyScript | Language::C | Language::Python | Language::Java,
                Level::Native | Level::Wasm | Level::Process | Level::Container | Level::Gvisor | Level::Vm,
            ) => "",
        }
    }

    /// Returns SQL that the example's entries need besides their signatures.
    pub(crate) fn settings(self) -> &'static str {
        match self {
            Language::Rust | Language::AssemblyScript | Language::C | Language::Python => "",
            Language::TypeScript => {
                "\n-- Node.js runs at the levels process and container. It needs more memory than the usual 64 MB,\n\
                 -- and cannot use shared memory well:\n\
                 -- ALTER PROCEDURE transfer\n\
                 --     SET (isolation = 'container', memory_limit = '512MB', channel = 'unix_socket');\n"
            }
            Language::Java => {
                "\n-- A virtual machine needs more memory than the usual 64 MB, and cannot use shared memory well.\n\
                 ALTER PROCEDURE transfer SET (memory_limit = '512MB', channel = 'unix_socket');\n\
                 ALTER FUNCTION fee SET (memory_limit = '512MB', channel = 'unix_socket');\n"
            }
        }
    }
}
